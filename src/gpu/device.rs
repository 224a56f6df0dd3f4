//! Opening a device: which adapter, which features, which limits, and what it says of itself.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use futures_channel::oneshot;
use futures_util::FutureExt as _;

use super::counters::Counters;
use super::loss::{Loss, Lost};
use super::pipeline::PipelineKey;
use super::platform;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::{Caps, Emulated};

/// What to ask for when opening a device.
#[derive(Debug, Clone)]
pub struct GpuOptions {
    /// Only an adapter whose name or vendor contains this, ignoring case.
    pub adapter: Option<String>,
    /// Use subgroup operations where the adapter has them.
    pub subgroups: bool,
    /// Use `shader-f16` where the adapter has it.
    pub f16: bool,
    /// Cap on the bytes of one binding, below the adapter's own; larger tensors are split by rows.
    pub max_binding: Option<u64>,
    /// (kernel, variant) pairs that compute nothing, as on a GPU with a faulty driver: for tests.
    pub broken: Vec<(String, String)>,
    /// Which variants run with emulated subgroups, in builds with the feature `lab`: for tests.
    pub emulated: Emulated,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self { adapter: None, subgroups: true, f16: true, max_binding: None, broken: Vec::new(), emulated: Emulated::Nothing }
    }
}

/// First error that nobody was waiting for, and the loss of the device: written by callbacks, read between chunks.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) uncaptured: Option<String>,
    pub(super) lost: Option<Loss>,
    /// Tells whoever waits for the loss. Gone once it has, and once the device is destroyed by us: that is no loss.
    tell: Option<oneshot::Sender<Loss>>,
}

/// An open device with its queue, its counters and its compiled pipelines.
pub struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) queue: wgpu::Queue,
    pub(super) caps: Caps,
    /// Whether waits are shortened by empty submissions.
    pub(super) pumps: Cell<bool>,
    counters: Rc<Counters>,
    faults: Arc<Mutex<Faults>>,
    lost: Lost,
    pub(super) broken: Vec<(String, String)>,
    pub(super) pipelines: RefCell<HashMap<PipelineKey, (wgpu::ComputePipeline, wgpu::BindGroupLayout)>>,
}

/// Features that are used where the adapter has them, with WebGPU's names.
pub(super) const OPTIONAL: [(wgpu::Features, &str); 3] =
    [(wgpu::Features::SUBGROUP, "subgroups"), (wgpu::Features::SHADER_F16, "shader-f16"), (wgpu::Features::TIMESTAMP_QUERY, "timestamp-query")];

impl Gpu {
    /// Opens a device. [`ErrorKind::NoWebGpu`] where the browser has none, [`ErrorKind::NoAdapter`] where no adapter fits.
    pub async fn open(options: &GpuOptions) -> Result<Self> {
        let adapter = platform::find_adapter(options).await?;
        let mut features = wgpu::Features::empty();
        for (feature, name) in OPTIONAL {
            let wanted = match name {
                "subgroups" => options.subgroups,
                "shader-f16" => options.f16,
                _ => true,
            };
            if wanted && adapter.features().contains(feature) {
                features |= feature;
            }
        }
        let has = adapter.limits();
        // Default limits, so that what passes on one device passes on all; only sizes follow the adapter, those of workgroups up to 512.
        let max_binding = options.max_binding.unwrap_or(u64::MAX).min(has.max_storage_buffer_binding_size);
        let limits = wgpu::Limits {
            max_buffer_size: has.max_buffer_size,
            max_storage_buffer_binding_size: has.max_storage_buffer_binding_size,
            max_compute_invocations_per_workgroup: has.max_compute_invocations_per_workgroup.clamp(256, 512),
            max_compute_workgroup_size_x: has.max_compute_workgroup_size_x.clamp(256, 512),
            // What emulates subgroups takes more of it than any device's variant.
            max_compute_workgroup_storage_size: match options.emulated {
                Emulated::Nothing => wgpu::Limits::default().max_compute_workgroup_storage_size,
                _ => has.max_compute_workgroup_storage_size,
            },
            ..wgpu::Limits::default()
        };
        let descriptor = wgpu::DeviceDescriptor { label: Some("millrace"), required_features: features, required_limits: limits, ..Default::default() };
        let (device, queue) = platform::request_device(&adapter, &descriptor, options.subgroups)
            .await
            .map_err(|e| Error::new(ErrorKind::NoAdapter, format!("the GPU adapter gave no device: {e}")).with_source(e))?;

        let (tell, lost) = oneshot::channel();
        let faults = Arc::new(Mutex::new(Faults { tell: Some(tell), ..Faults::default() }));
        let shared = faults.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut faults) = shared.lock() {
                faults.uncaptured.get_or_insert_with(|| error.to_string());
            }
        }));
        let shared = faults.clone();
        device.set_device_lost_callback(move |reason, message| {
            if let Ok(mut faults) = shared.lock()
                && let Some(tell) = faults.tell.take()
            {
                let loss = Loss { reason: reason.into(), message };
                faults.lost = Some(loss.clone());
                // Nobody need be waiting.
                let _ = tell.send(loss);
            }
        });
        let caps = platform::describe(&adapter, &device, features, max_binding);
        let lost = Lost(lost.shared());
        let mut gpu = Self {
            device,
            queue,
            caps,
            pumps: Cell::default(),
            counters: Rc::default(),
            faults,
            lost,
            broken: options.broken.clone(),
            pipelines: RefCell::default(),
        };
        #[cfg(target_arch = "wasm32")]
        gpu.require_adapter(options)?;
        gpu.caps.emulated = options.emulated;
        gpu.caps.native_halves = gpu.keeps_subnormal_halves().await?;
        gpu.measure_poll().await?;
        Ok(gpu)
    }

    /// What the device is and can do.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The counters of this device.
    pub fn counters(&self) -> &Rc<Counters> {
        &self.counters
    }

    /// The raw queue, for uploads; submissions go through [`Gpu::submit`].
    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// The error of any earlier command that nobody waited for, or the loss of the device.
    pub fn check(&self) -> Result<()> {
        let faults = self.faults.lock().map_err(|_| Error::internal("the GPU's error slot is poisoned"))?;
        if let Some(loss) = &faults.lost {
            return Err(Error::new(ErrorKind::DeviceLost, format!("the GPU device was lost ({loss}); load the model again")));
        }
        if let Some(message) = &faults.uncaptured {
            let kind = if message.to_lowercase().contains("out of memory") { ErrorKind::OutOfMemory } else { ErrorKind::Gpu };
            return Err(Error::new(kind, format!("the GPU refused a command: {message}")));
        }
        Ok(())
    }

    /// Destroys the device and all its buffers, as its owner: that is no loss.
    pub fn destroy(&self) {
        if let Ok(mut faults) = self.faults.lock() {
            faults.tell = None;
        }
        self.device.destroy();
    }

    /// Destroys the device as somebody else would, or a fault: for tests.
    pub fn lose(&self) {
        self.device.destroy();
        // The browser's callback comes by itself.
        #[cfg(not(target_arch = "wasm32"))]
        let _ = self.device.poll(wgpu::PollType::Poll);
    }

    /// How the device was lost, if it was.
    pub fn loss(&self) -> Option<Loss> {
        self.faults.lock().ok()?.lost.clone()
    }

    /// Waits for the loss of the device: `None` once it is destroyed by its owner and cannot be lost any more.
    pub fn lost(&self) -> Lost {
        self.lost.clone()
    }
}

/// Whoever gives up a load, or loads again, must not wait for the browser to notice that nobody has the device any more.
impl Drop for Gpu {
    fn drop(&mut self) {
        self.destroy();
    }
}

/// The part of a device's description that its limits are.
pub(super) fn limits_of(device: &wgpu::Device, max_binding: u64) -> Caps {
    let limits = device.limits();
    Caps {
        max_buffer: limits.max_buffer_size,
        max_binding,
        binding_limit: limits.max_storage_buffer_binding_size,
        max_workgroups: limits.max_compute_workgroups_per_dimension,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        ..Caps::default()
    }
}

pub(super) fn no_adapter(options: &GpuOptions, seen: &[String]) -> Error {
    let message = match &options.adapter {
        Some(wanted) => format!("no GPU adapter matches {wanted:?}; found: {}", if seen.is_empty() { "none".into() } else { seen.join(", ") }),
        None if cfg!(target_arch = "wasm32") => {
            "this browser offers no GPU: switch on hardware acceleration in its settings, update the graphics driver, or use another browser (Chrome and Edge say why on chrome://gpu)".into()
        }
        None => "no GPU adapter was found; install a Vulkan driver (Debian without a GPU: mesa-vulkan-drivers) or use a machine with one".into(),
    };
    Error::new(ErrorKind::NoAdapter, message)
}

pub(super) fn fits(options: &GpuOptions, name: &str) -> bool {
    options.adapter.as_ref().is_none_or(|wanted| name.to_lowercase().contains(&wanted.to_lowercase()))
}
