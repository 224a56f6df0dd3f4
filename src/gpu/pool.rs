//! Devices that stay open between the loads of a test process, with their compiled pipelines. A device is lent to one
//! [`Gpu`] at a time, and no more once it was destroyed, was lost, or refused a command.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use super::allocation::Refusals;
use super::device::{Faults, Gpu, GpuOptions, On};
use super::pipeline::{Compiled, PipelineKey};
use crate::kernels::{Caps, Emulated};

/// A device that is open and in no [`Gpu`].
struct Idle {
    /// The options that the device was opened with.
    options: String,
    device: wgpu::Device,
    queue: wgpu::Queue,
    caps: Caps,
    pumps: bool,
    /// Written by the device's callbacks.
    faults: Arc<Mutex<Faults>>,
    compiled: Pipelines,
}

/// Pipelines by key and hash of the shader's text, which can differ in a later test.
type Pipelines = HashMap<(PipelineKey, u64), Kept>;

struct Kept {
    made: Compiled,
    /// Number of loads that have used the pipeline.
    uses: u32,
}

/// Most devices that are kept: the last ones used.
const DEVICES: usize = 4;
/// Most pipelines that are kept of one device; where there are more, the half of this with the most uses stays. A
/// software GPU's pipeline takes about a megabyte.
const PIPELINES: usize = 800;

static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());

/// Pipelines that a [`Gpu`] keeps for later loads.
#[derive(Default)]
pub(super) struct Share {
    /// The options that the device was opened with; `None` where it is not to be lent again.
    options: RefCell<Option<String>>,
    /// Pipelines of this load and of earlier ones.
    compiled: RefCell<Pipelines>,
}

impl Share {
    /// The share of a device that has just been opened. A device with emulated subgroups is not kept: it is for tests
    /// of kernels, each of which compiles different ones.
    pub(super) fn of(options: &GpuOptions) -> Self {
        Self {
            options: RefCell::new((options.emulated == Emulated::Nothing).then(|| format!("{options:?}"))),
            ..Self::default()
        }
    }

    /// The pipeline that was made of this text.
    pub(super) fn find(&self, key: &PipelineKey, source: &str) -> Option<Compiled> {
        let mut compiled = self.compiled.borrow_mut();
        let kept = compiled.get_mut(&(key.clone(), hash(source)))?;
        kept.uses += 1;
        Some(kept.made.clone())
    }

    /// Keeps a pipeline.
    pub(super) fn add(&self, key: &PipelineKey, source: &str, made: Compiled) {
        self.compiled.borrow_mut().insert((key.clone(), hash(source)), Kept { made, uses: 1 });
    }

    /// Stops the device from being lent again.
    pub(super) fn end(&self) {
        self.options.take();
    }
}

/// The pipelines that are kept: see [`PIPELINES`].
fn most_used(compiled: Pipelines) -> Pipelines {
    if compiled.len() <= PIPELINES {
        return compiled;
    }
    let mut all: Vec<_> = compiled.into_iter().collect();
    all.sort_by_key(|(_, kept)| std::cmp::Reverse(kept.uses));
    all.truncate(PIPELINES / 2);
    all.into_iter().collect()
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// An idle device that was opened with these options.
pub(super) fn take(options: &GpuOptions) -> Option<Gpu> {
    let share = Share::of(options);
    let name = share.options.borrow().clone()?;
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let at = idle.iter().position(|device| device.options == name)?;
    let Idle { device, queue, caps, pumps, faults, compiled, .. } = idle.remove(at);
    share.compiled.replace(compiled);
    let lost = Faults::begin(&faults);
    Some(Gpu {
        on: On::Gpu(device, queue),
        caps,
        pumps: Cell::new(pumps),
        counters: Rc::default(),
        faults,
        lost,
        broken: options.broken.clone(),
        refusals: Refusals::default(),
        pipelines: RefCell::default(),
        share,
    })
}

/// Keeps the device of a [`Gpu`] that is dropped, where it can be lent again; returns whether it is kept.
pub(super) fn keep(gpu: &Gpu) -> bool {
    let (Some(options), On::Gpu(device, queue), Ok(())) = (gpu.share.options.take(), &gpu.on, gpu.check()) else {
        return false;
    };
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    if idle.len() >= DEVICES {
        // Evicts the device that has been idle longest, which closes as it is dropped.
        idle.remove(0);
    }
    idle.push(Idle {
        options,
        device: device.clone(),
        queue: queue.clone(),
        caps: gpu.caps.clone(),
        pumps: gpu.pumps.get(),
        faults: gpu.faults.clone(),
        compiled: most_used(gpu.share.compiled.take()),
    });
    true
}
