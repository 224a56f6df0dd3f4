//! Opening a device: adapter, features, limits and the device's description.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use futures_channel::oneshot;
use futures_util::FutureExt as _;

use super::commands::Raw;
use super::counters::Counters;
use super::loss::{Loss, LossReason, Lost};
use super::pipeline::{Buffer, Compiled, PipelineKey};
use super::platform;
use super::processor::Processor;
use crate::base::CHECKED;
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::{Caps, Emulated};

/// Options of opening a device.
#[derive(Debug, Clone)]
pub struct GpuOptions {
    /// GPU, CPU, or either.
    pub device: DeviceChoice,
    /// Only an adapter whose name or vendor contains this, ignoring case.
    pub adapter: Option<String>,
    /// Use subgroup operations where the adapter has them.
    pub subgroups: bool,
    /// Use `shader-f16` where the adapter has it.
    pub f16: bool,
    /// Cap on the bytes of one binding, below the adapter's own; larger tensors are split by rows.
    pub max_binding: Option<u64>,
    /// Whether the CPU may have several threads in a page.
    pub helpers: bool,
    /// (kernel, variant) pairs that compute nothing, as on a GPU with a faulty driver: for tests.
    #[cfg(feature = "lab")]
    pub broken: Vec<(String, String)>,
    /// Which variants run with emulated subgroups, in builds with the feature `lab`: for tests.
    pub emulated: Emulated,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self {
            device: DeviceChoice::Gpu,
            adapter: None,
            subgroups: true,
            f16: true,
            max_binding: None,
            helpers: true,
            #[cfg(feature = "lab")]
            broken: Vec::new(),
            emulated: Emulated::Nothing,
        }
    }
}

/// The first uncaptured error, and the loss of the device: written by callbacks, read between chunks.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) uncaptured: Option<String>,
    pub(super) lost: Option<Loss>,
    /// Resolves [`Gpu::lost`]. `None` once it has, and once the owner has destroyed the device, which is no loss.
    tell: Option<oneshot::Sender<Loss>>,
}

impl Faults {
    /// Resets `faults`; returns the future of the loss.
    pub(super) fn begin(faults: &Mutex<Self>) -> Lost {
        let (tell, lost) = oneshot::channel();
        *faults.lock().unwrap_or_else(PoisonError::into_inner) = Self { tell: Some(tell), ..Self::default() };
        Lost(lost.shared())
    }

    /// Whether the first uncaptured error was a lack of memory.
    fn out_of_memory(&self) -> bool {
        self.uncaptured.as_ref().is_some_and(|message| message.to_lowercase().contains("out of memory"))
    }
}

/// The device that computes.
pub(super) enum On {
    /// A GPU.
    Gpu(wgpu::Device, wgpu::Queue),
    /// The CPU.
    Cpu(Rc<Processor>),
}

/// Which device may be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// A GPU; the CPU where there is none, or only one in software, which is slower.
    Auto,
    /// A GPU, be it one in software.
    #[default]
    Gpu,
    /// The CPU.
    Cpu,
}

impl DeviceChoice {
    /// The choice of that name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "gpu" => Ok(Self::Gpu),
            "cpu" => Ok(Self::Cpu),
            other => Err(Error::bad_option(format!("device {other:?} does not exist; use auto, gpu or cpu"))),
        }
    }

    /// The name of the choice.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Gpu => "gpu",
            Self::Cpu => "cpu",
        }
    }
}

/// An open device with its queue, its counters and its compiled pipelines.
pub struct Gpu {
    pub(super) on: On,
    pub(super) caps: Caps,
    /// Whether waits are shortened by empty submissions.
    pub(super) pumps: Cell<bool>,
    pub(super) counters: Rc<Counters>,
    pub(super) faults: Arc<Mutex<Faults>>,
    pub(super) lost: Lost,
    #[cfg(feature = "lab")]
    pub(super) broken: Vec<(String, String)>,
    #[cfg(feature = "lab")]
    pub(super) refusals: super::allocation::Refusals,
    pub(super) pipelines: RefCell<HashMap<PipelineKey, Compiled>>,
    /// Pipelines that are kept for later loads, in tests.
    pub(super) share: super::pool::Share,
}

/// Features that are used where the adapter has them, with WebGPU's names.
pub(super) const OPTIONAL: [(wgpu::Features, &str); 3] = [
    (wgpu::Features::SUBGROUP, "subgroups"),
    (wgpu::Features::SHADER_F16, "shader-f16"),
    (wgpu::Features::TIMESTAMP_QUERY, "timestamp-query"),
];

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// [`ErrorKind::NoWebGpu`] where the browser has no WebGPU, [`ErrorKind::NoAdapter`] where no adapter fits; neither
    /// where the CPU may be opened instead.
    pub async fn open(options: &GpuOptions) -> Result<Self> {
        match options.device {
            DeviceChoice::Cpu if options.adapter.is_some() => {
                Err(Error::bad_option("adapter names a GPU, and device is cpu: leave one of them out"))
            }
            DeviceChoice::Cpu => Self::open_cpu(options, None).await,
            DeviceChoice::Gpu => Self::open_gpu(options).await,
            DeviceChoice::Auto => match Self::open_gpu(options).await {
                Ok(gpu) if gpu.caps.software && options.adapter.is_none() => {
                    let why = format!("{} is a GPU in software, which is slower than the CPU itself", gpu.caps.name);
                    drop(gpu);
                    Self::open_cpu(options, Some(why)).await
                }
                // An adapter that is asked for by name is not replaced by the CPU.
                Err(e)
                    if matches!(e.kind(), ErrorKind::NoWebGpu | ErrorKind::NoAdapter) && options.adapter.is_none() =>
                {
                    Self::open_cpu(options, Some(e.message().to_owned())).await
                }
                opened => opened,
            },
        }
    }

    /// Opens the CPU. `why`: the reason where a GPU was wanted first.
    async fn open_cpu(options: &GpuOptions, why: Option<String>) -> Result<Self> {
        let faults = Arc::default();
        let lost = Faults::begin(&faults);
        let shared: Arc<Mutex<Faults>> = faults.clone();
        let tell = move |message| note_loss(&shared, Loss { reason: LossReason::Unknown, message });
        let processor = Processor::open(options.helpers, tell).await?;
        let caps = Caps { instead: why, ..processor.caps(options.max_binding) };
        Ok(Self {
            on: On::Cpu(processor),
            caps,
            pumps: Cell::default(),
            counters: Rc::default(),
            faults,
            lost,
            #[cfg(feature = "lab")]
            broken: options.broken.clone(),
            #[cfg(feature = "lab")]
            refusals: super::allocation::Refusals::default(),
            pipelines: RefCell::default(),
            share: super::pool::Share::default(),
        })
    }

    /// Opens a GPU. [`ErrorKind::NoWebGpu`] where the browser has none, [`ErrorKind::NoAdapter`] where no adapter fits.
    async fn open_gpu(options: &GpuOptions) -> Result<Self> {
        if let Some(gpu) = super::pool::take(options) {
            return Ok(gpu);
        }
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
        // Default limits, so that what passes on one device passes on all; only sizes follow the adapter, workgroups up
        // to 512.
        let max_binding = options.max_binding.unwrap_or(u64::MAX).min(has.max_storage_buffer_binding_size);
        let limits = wgpu::Limits {
            max_buffer_size: has.max_buffer_size,
            max_storage_buffer_binding_size: has.max_storage_buffer_binding_size,
            max_compute_invocations_per_workgroup: has.max_compute_invocations_per_workgroup.clamp(256, 512),
            max_compute_workgroup_size_x: has.max_compute_workgroup_size_x.clamp(256, 512),
            // Emulated subgroups take more workgroup memory than any device's variant.
            max_compute_workgroup_storage_size: match options.emulated {
                Emulated::Nothing => wgpu::Limits::default().max_compute_workgroup_storage_size,
                _ => has.max_compute_workgroup_storage_size,
            },
            ..wgpu::Limits::default()
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("millrace"),
            required_features: features,
            required_limits: limits,
            ..Default::default()
        };
        let (device, queue) =
            platform::request_device(&adapter, &descriptor, options.subgroups).await.map_err(|e| {
                Error::new(ErrorKind::NoAdapter, format!("the GPU adapter gave no device: {e}")).with_source(e)
            })?;

        let faults = Arc::new(Mutex::default());
        let lost = Faults::begin(&faults);
        let shared = faults.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            if let Ok(mut faults) = shared.lock() {
                faults.uncaptured.get_or_insert_with(|| error.to_string());
            }
        }));
        let shared = faults.clone();
        device.set_device_lost_callback(move |reason, message| {
            note_loss(&shared, Loss { reason: reason.into(), message });
        });
        let caps = platform::describe(&adapter, &device, features, max_binding);
        let mut gpu = Self {
            on: On::Gpu(device, queue),
            caps,
            pumps: Cell::default(),
            counters: Rc::default(),
            faults,
            lost,
            #[cfg(feature = "lab")]
            broken: options.broken.clone(),
            #[cfg(feature = "lab")]
            refusals: super::allocation::Refusals::default(),
            pipelines: RefCell::default(),
            share: super::pool::Share::of(options),
        };
        #[cfg(target_arch = "wasm32")]
        gpu.require_adapter(options)?;
        gpu.caps.emulated = options.emulated;
        gpu.caps.native_halves = gpu.keeps_subnormal_halves().await?;
        gpu.measure_poll().await?;
        Ok(gpu)
    }

    /// The device's description and features.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The counters of this device.
    pub fn counters(&self) -> &Rc<Counters> {
        &self.counters
    }

    /// wgpu's device and queue; an internal error on the CPU: callers handle that case before.
    pub(super) fn wgpu(&self) -> Result<(&wgpu::Device, &wgpu::Queue)> {
        match &self.on {
            On::Gpu(device, queue) => Ok((device, queue)),
            On::Cpu(_) => Err(Error::internal("the CPU is no GPU")),
        }
    }

    /// Writes whole words; ordered before the next submission.
    pub fn write(&self, buffer: &Buffer, offset: u64, bytes: &[u8]) {
        match (&self.on, buffer.raw()) {
            (On::Gpu(_, queue), Raw::Gpu(raw)) => queue.write_buffer(raw, offset, bytes),
            (On::Cpu(processor), Raw::Cpu(memory)) => processor.write(memory, offset, bytes),
            _ if CHECKED => unreachable!("a buffer of another device"),
            _ => {}
        }
    }

    /// The first uncaptured error of earlier commands, or the loss of the device.
    pub fn check(&self) -> Result<()> {
        let faults = self.faults.lock().map_err(|_| Error::internal("the GPU's error slot is poisoned"))?;
        if let Some(loss) = &faults.lost {
            return Err(Error::new(
                ErrorKind::DeviceLost,
                format!("{} was lost ({loss}); load the model again", self.noun()),
            ));
        }
        if let Some(message) = &faults.uncaptured {
            return Err(match faults.out_of_memory() {
                true => Error::out_of_memory(format!(
                    "the GPU has no memory left: {message}; begin a shorter conversation, close what else uses the GPU, or load a smaller model or context"
                )),
                false => Error::gpu(format!("the GPU refused a command: {message}")),
            });
        }
        Ok(())
    }

    /// Clears an out-of-memory error, once no refused buffer is in use any more. Returns whether there was one.
    pub fn forgive(&self) -> bool {
        let Ok(mut faults) = self.faults.lock() else { return false };
        let forgives = faults.lost.is_none() && faults.out_of_memory();
        if forgives {
            faults.uncaptured = None;
        }
        forgives
    }

    /// Destroys the device and all its buffers on behalf of its owner, which is no loss.
    pub fn destroy(&self) {
        self.share.end();
        if let Ok(mut faults) = self.faults.lock() {
            faults.tell = None;
        }
        match &self.on {
            On::Gpu(device, _) => device.destroy(),
            On::Cpu(processor) => processor.clear(),
        }
    }

    /// Destroys the device as a fault or foreign code would, which is a loss: for tests.
    pub fn lose(&self) {
        self.share.end();
        match &self.on {
            On::Gpu(device, _) => {
                device.destroy();
                // A browser calls back without a poll.
                #[cfg(not(target_arch = "wasm32"))]
                let _ = device.poll(wgpu::PollType::Poll);
            }
            On::Cpu(processor) => {
                processor.clear();
                note_loss(&self.faults, Loss { reason: LossReason::Destroyed, message: String::new() });
            }
        }
    }

    /// Has the device refuse buffers as a GPU without memory does; `None` ends that. For tests.
    #[cfg(feature = "lab")]
    pub fn refuse_buffers(&self, refuse: Option<super::Refuse>) {
        self.refusals.begin(refuse);
    }

    /// How the device was lost, if it was.
    pub fn loss(&self) -> Option<Loss> {
        self.faults.lock().ok()?.lost.clone()
    }

    /// Whether it was the CPU, which has failed with its helpers: the next one does without.
    pub fn failed_with_helpers(&self) -> bool {
        self.is_cpu() && self.loss().is_some_and(|loss| loss.reason == LossReason::Unknown)
    }

    /// Whether it is the CPU.
    pub fn is_cpu(&self) -> bool {
        matches!(self.on, On::Cpu(_))
    }

    /// What errors call the device.
    pub fn noun(&self) -> &'static str {
        if self.is_cpu() { "the module that computes on the CPU" } else { "the GPU device" }
    }

    /// Waits for the loss of the device: `None` once it is destroyed by its owner and cannot be lost any more.
    pub fn lost(&self) -> Lost {
        self.lost.clone()
    }
}

/// Destroys the device now: the next load must not wait until the browser's garbage collection frees its memory.
impl Drop for Gpu {
    fn drop(&mut self) {
        if super::pool::keep(self) {
            return;
        }
        self.destroy();
    }
}

/// Records a loss and resolves [`Gpu::lost`], once.
fn note_loss(faults: &Mutex<Faults>, loss: Loss) {
    if let Ok(mut faults) = faults.lock()
        && let Some(tell) = faults.tell.take()
    {
        faults.lost = Some(loss.clone());
        // There may be no receiver.
        let _ = tell.send(loss);
    }
}

/// A device's description with its limits alone.
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
