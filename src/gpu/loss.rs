//! The loss of a device, and waiting for it.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_channel::oneshot;
use futures_util::FutureExt as _;
use futures_util::future::Shared;
use serde::Serialize;

/// How a device was lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Loss {
    /// The cause, as WebGPU classes it.
    pub reason: LossReason,
    /// The message of the browser or the driver; often empty.
    pub message: String,
}

/// WebGPU's `GPUDeviceLostReason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LossReason {
    /// `destroy()` was called on the device.
    Destroyed,
    /// The driver failed or was updated, the browser's GPU process crashed, the GPU was taken away, …
    Unknown,
}

impl From<wgpu::DeviceLostReason> for LossReason {
    fn from(reason: wgpu::DeviceLostReason) -> Self {
        match reason {
            wgpu::DeviceLostReason::Destroyed => Self::Destroyed,
            wgpu::DeviceLostReason::Unknown => Self::Unknown,
        }
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let reason = match self.reason {
            LossReason::Destroyed => "destroyed",
            LossReason::Unknown => "unknown reason",
        };
        if self.message.is_empty() { f.write_str(reason) } else { write!(f, "{reason}: {}", self.message) }
    }
}

/// Waits for the loss of a device; see [`super::Gpu::lost`].
#[derive(Clone)]
pub struct Lost(pub(super) Shared<oneshot::Receiver<Loss>>);

impl Future for Lost {
    type Output = Option<Loss>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Loss>> {
        self.0.poll_unpin(context).map(std::result::Result::ok)
    }
}
