//! What a device is and can do: of variants it decides which can run.

use serde::Serialize;

use super::Variant;

/// The feature by which Chromium offers subgroup matrices, behind a flag.
pub(crate) const MATRICES: &str = "chromium-experimental-subgroup-matrix";

/// What the device is and can do.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Caps {
    /// Vendor, e.g. `nvidia`.
    pub vendor: String,
    /// Name, e.g. `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// `webgpu`, `vulkan`, `metal` or `cpu`.
    pub backend: String,
    /// WebGPU names of the optional features in use.
    pub features: Vec<String>,
    /// Smallest and largest subgroup, in invocations; `[0, 0]` where subgroups are not in use.
    pub subgroup: [u32; 2],
    /// Bytes of the largest buffer.
    pub max_buffer: u64,
    /// Bytes of the largest weight binding: the device's limit, or less where it was asked for.
    pub max_binding: u64,
    /// The device's limit of a binding, bytes: what is not split, a layer's cache, must be within it.
    pub binding_limit: u64,
    /// Workgroups a dimension of a dispatch.
    pub max_workgroups: u32,
    /// Invocations of a workgroup, at least 256.
    pub max_invocations: u32,
    /// Whether it computes on the CPU: as a device of our own (`backend` `cpu`), or as a GPU in software.
    pub software: bool,
    /// Why it is the CPU, where that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
    /// Whether `unpack2x16float` keeps subnormal halves, as seen when the device was opened; kernels do it by hand
    /// where it does not.
    pub native_halves: bool,
    /// How long a wait for an idle GPU takes, ms, as measured when the device was opened: what the browser's poll adds
    /// to each readback.
    pub poll_ms: f64,
    /// Readback latency with empty submissions meanwhile, ms; they are made where this is at most half of `poll_ms`.
    /// Measured where `poll_ms` is over 50.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pumped_poll_ms: Option<f64>,
    /// Which variants run with emulated subgroups that need larger ones than the device has.
    #[serde(skip)]
    pub emulated: Emulated,
}

/// Variants that run with emulated subgroups, in builds with the feature `lab`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Emulated {
    /// None: what needs larger subgroups does not run.
    #[default]
    Nothing,
    /// One of each kernel and number of lanes, for devices that compile slowly.
    One,
    /// All.
    All,
}

impl Caps {
    /// WebGPU's default limits and no optional feature: what every device can do.
    pub fn least() -> Self {
        let limits = wgpu::Limits::default();
        Self {
            vendor: String::new(),
            name: "WebGPU's default limits".into(),
            backend: String::new(),
            features: Vec::new(),
            subgroup: [0, 0],
            max_buffer: limits.max_buffer_size,
            max_binding: limits.max_storage_buffer_binding_size,
            binding_limit: limits.max_storage_buffer_binding_size,
            max_workgroups: limits.max_compute_workgroups_per_dimension,
            max_invocations: limits.max_compute_invocations_per_workgroup,
            software: false,
            instead: None,
            native_halves: false,
            poll_ms: 0.0,
            pumped_poll_ms: None,
            emulated: Emulated::Nothing,
        }
    }
    /// Whether kernels may use subgroup operations.
    pub fn subgroups(&self) -> bool {
        self.features.iter().any(|f| f == "subgroups")
    }
    /// Invocations of the smallest subgroup that kernels may rely on: at least 4 by the standard where there are
    /// subgroups, else 0.
    pub fn least_subgroup(&self) -> u32 {
        if self.subgroups() { self.subgroup[0].max(4) } else { 0 }
    }
    /// Whether a variant runs here with emulated subgroups: one that needs larger ones than there are.
    #[cfg(feature = "lab")]
    pub fn emulates(&self, variant: &Variant) -> bool {
        self.least_subgroup() < variant.lanes && super::lab::emulates(self.emulated, variant)
    }
    /// Whether a variant runs here with emulated subgroups: not in this build.
    #[cfg(not(feature = "lab"))]
    pub fn emulates(&self, _: &Variant) -> bool {
        false
    }
    /// Whether kernels may use `f16`.
    pub fn f16(&self) -> bool {
        self.features.iter().any(|f| f == "shader-f16")
    }
    /// Whether kernels may use matrix units: halves in tiles of 16, summed in f32, by subgroups of 32.
    pub fn matrices(&self) -> bool {
        self.features.iter().any(|f| f == MATRICES)
    }
    /// Whether compute passes can be timed on the GPU.
    pub fn timestamps(&self) -> bool {
        self.features.iter().any(|f| f == "timestamp-query")
    }
}
