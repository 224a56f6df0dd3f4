//! Opening a device: which adapter, which features, which limits, and what it says of itself.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use futures_channel::oneshot;
use futures_util::FutureExt as _;
use serde::Serialize;

use super::counters::Counters;
use super::loss::{Loss, Lost};
use super::pipeline::PipelineKey;
use crate::error::{Error, ErrorKind, Result};

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
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self { adapter: None, subgroups: true, f16: true, max_binding: None, broken: Vec::new() }
    }
}

/// What the device is and can do.
#[derive(Debug, Clone, Serialize)]
pub struct Caps {
    /// Vendor, e.g. `nvidia`.
    pub vendor: String,
    /// Name, e.g. `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// `webgpu`, `vulkan` or `metal`.
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
    /// Whether it computes on the CPU.
    pub software: bool,
    /// Whether `unpack2x16float` keeps subnormal halves, as seen when the device was opened; kernels do it by hand where it does not.
    pub native_halves: bool,
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
            native_halves: false,
        }
    }
    /// Whether kernels may use subgroup operations.
    pub fn subgroups(&self) -> bool {
        self.features.iter().any(|f| f == "subgroups")
    }
    /// Invocations of the smallest subgroup that kernels may rely on: at least 4 by the standard where there are subgroups, else 0.
    pub fn least_subgroup(&self) -> u32 {
        if self.subgroups() { self.subgroup[0].max(4) } else { 0 }
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
    caps: Caps,
    counters: Rc<Counters>,
    faults: Arc<Mutex<Faults>>,
    lost: Lost,
    pub(super) broken: Vec<(String, String)>,
    pub(super) pipelines: RefCell<HashMap<PipelineKey, (wgpu::ComputePipeline, wgpu::BindGroupLayout)>>,
}

/// The feature by which Chromium offers subgroup matrices, behind a flag.
pub(crate) const MATRICES: &str = "chromium-experimental-subgroup-matrix";

const OPTIONAL: [(wgpu::Features, &str); 3] =
    [(wgpu::Features::SUBGROUP, "subgroups"), (wgpu::Features::SHADER_F16, "shader-f16"), (wgpu::Features::TIMESTAMP_QUERY, "timestamp-query")];

impl Gpu {
    /// Opens a device. [`ErrorKind::NoWebGpu`] where the browser has none, [`ErrorKind::NoAdapter`] where no adapter fits.
    pub async fn open(options: &GpuOptions) -> Result<Self> {
        let adapter = find_adapter(options).await?;
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
            ..wgpu::Limits::default()
        };
        let descriptor = wgpu::DeviceDescriptor { label: Some("millrace"), required_features: features, required_limits: limits, ..Default::default() };
        let (device, queue) = request_device(&adapter, &descriptor, options.subgroups)
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
        let caps = describe(&adapter, &device, features, max_binding);
        let lost = Lost(lost.shared());
        let mut gpu = Self { device, queue, caps, counters: Rc::default(), faults, lost, broken: options.broken.clone(), pipelines: RefCell::default() };
        #[cfg(target_arch = "wasm32")]
        gpu.require_adapter(options)?;
        gpu.caps.native_halves = gpu.keeps_subnormal_halves().await?;
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

fn no_adapter(options: &GpuOptions, seen: &[String]) -> Error {
    let message = match &options.adapter {
        Some(wanted) => format!("no GPU adapter matches {wanted:?}; found: {}", if seen.is_empty() { "none".into() } else { seen.join(", ") }),
        None if cfg!(target_arch = "wasm32") => {
            "this browser offers no GPU: switch on hardware acceleration in its settings, update the graphics driver, or use another browser (Chrome and Edge say why on chrome://gpu)".into()
        }
        None => "no GPU adapter was found; install a Vulkan driver (Debian without a GPU: mesa-vulkan-drivers) or use a machine with one".into(),
    };
    Error::new(ErrorKind::NoAdapter, message)
}

fn fits(options: &GpuOptions, name: &str) -> bool {
    options.adapter.as_ref().is_none_or(|wanted| name.to_lowercase().contains(&wanted.to_lowercase()))
}

#[cfg(not(target_arch = "wasm32"))]
async fn find_adapter(options: &GpuOptions) -> Result<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
    let seen: Vec<String> = adapters.iter().map(|a| a.get_info().name).collect();
    adapters.retain(|a| fits(options, &a.get_info().name));
    // A real GPU before a software one.
    adapters.sort_by_key(|a| match a.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    adapters.into_iter().next().ok_or_else(|| no_adapter(options, &seen))
}

#[cfg(not(target_arch = "wasm32"))]
async fn request_device(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    _subgroups: bool,
) -> std::result::Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    adapter.request_device(descriptor).await
}

#[cfg(not(target_arch = "wasm32"))]
fn describe(adapter: &wgpu::Adapter, device: &wgpu::Device, features: wgpu::Features, max_binding: u64) -> Caps {
    let info = adapter.get_info();
    let names = OPTIONAL.iter().filter(|(f, _)| features.contains(*f)).map(|(_, name)| (*name).to_owned()).collect();
    let subgroup = if features.contains(wgpu::Features::SUBGROUP) { [info.subgroup_min_size, info.subgroup_max_size] } else { [0, 0] };
    let vendor = match info.vendor {
        0x10de => "nvidia".into(),
        0x1002 => "amd".into(),
        0x8086 => "intel".into(),
        0x106b => "apple".into(),
        0x10005 => "mesa".into(),
        other => format!("{other:#x}"),
    };
    let limits = device.limits();
    Caps {
        vendor,
        name: info.name,
        backend: info.backend.to_str().into(),
        features: names,
        subgroup,
        max_buffer: limits.max_buffer_size,
        max_binding,
        binding_limit: limits.max_storage_buffer_binding_size,
        max_workgroups: limits.max_compute_workgroups_per_dimension,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        software: info.device_type == wgpu::DeviceType::Cpu,
        native_halves: false,
    }
}

#[cfg(target_arch = "wasm32")]
async fn find_adapter(options: &GpuOptions) -> Result<wgpu::Adapter> {
    if !crate::web::gpu::has_webgpu() {
        return Err(Error::new(
            ErrorKind::NoWebGpu,
            "this browser has no WebGPU; use a current Chrome or Edge (113 or later), Safari 26 or Firefox 141 on Windows, over https or localhost",
        ));
    }
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let request = wgpu::RequestAdapterOptions { power_preference: wgpu::PowerPreference::HighPerformance, ..Default::default() };
    instance.request_adapter(&request).await.map_err(|e| no_adapter(&GpuOptions { adapter: None, ..options.clone() }, &[]).with_source(e))
}

#[cfg(target_arch = "wasm32")]
async fn request_device(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    subgroups: bool,
) -> std::result::Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    // wgpu cannot ask the browser for subgroups and their matrices; the guard adds the features to the request while it lives.
    let _asking = crate::web::gpu::ask_for_subgroups(subgroups);
    adapter.request_device(descriptor).await
}

#[cfg(target_arch = "wasm32")]
fn describe(_adapter: &wgpu::Adapter, device: &wgpu::Device, _features: wgpu::Features, max_binding: u64) -> Caps {
    let about = crate::web::gpu::describe(device);
    let names = OPTIONAL.iter().map(|(_, name)| (*name).to_owned()).filter(|name| about.features.contains(name)).collect::<Vec<_>>();
    let mut names = names;
    if about.matrices && names.iter().any(|n| n == "shader-f16") {
        names.push(MATRICES.to_owned());
    }
    let subgroup = if names.iter().any(|n| n == "subgroups") { about.subgroup } else { [0, 0] };
    let limits = device.limits();
    // The browser does not say; these are the names of those that it has.
    let software = ["swiftshader", "llvmpipe", "basic render"].iter().any(|known| about.name.to_lowercase().contains(known));
    Caps {
        vendor: about.vendor,
        name: about.name,
        backend: "webgpu".into(),
        features: names,
        subgroup,
        max_buffer: limits.max_buffer_size,
        max_binding,
        binding_limit: limits.max_storage_buffer_binding_size,
        max_workgroups: limits.max_compute_workgroups_per_dimension,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        software,
        native_halves: false,
    }
}

#[cfg(target_arch = "wasm32")]
impl Gpu {
    /// Fails as [`Gpu::open`] would where there is no GPU at all: worth asking before a download.
    pub async fn probe() -> Result<()> {
        find_adapter(&GpuOptions::default()).await.map(drop)
    }

    /// Whether the opened adapter is the one asked for; the browser offers only one to choose from.
    fn require_adapter(&self, options: &GpuOptions) -> Result<()> {
        let name = format!("{} {}", self.caps.vendor, self.caps.name);
        if fits(options, &name) { Ok(()) } else { Err(no_adapter(options, &[name])) }
    }
}
