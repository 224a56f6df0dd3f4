//! Opening a device natively, on Vulkan or Metal.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use futures_util::FutureExt as _;

use super::device::{GpuOptions, OPTIONAL, fits, limits_of, no_adapter};
use super::pipeline::{Compiled, Recipe};
use crate::error::{Error, Result};
use crate::kernels::Caps;

/// The best adapter that fits: a real GPU before a software one.
pub(super) async fn find_adapter(options: &GpuOptions) -> Result<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
    let seen: Vec<String> = adapters.iter().map(|a| a.get_info().name).collect();
    adapters.retain(|a| fits(options, &a.get_info().name));
    adapters.sort_by_key(|a| match a.get_info().device_type {
        wgpu::DeviceType::DiscreteGpu => 0,
        wgpu::DeviceType::IntegratedGpu => 1,
        wgpu::DeviceType::VirtualGpu => 2,
        wgpu::DeviceType::Other => 3,
        wgpu::DeviceType::Cpu => 4,
    });
    adapters.into_iter().next().ok_or_else(|| no_adapter(options, &seen))
}

/// A device of the adapter; wgpu asks for subgroups itself.
pub(super) async fn request_device(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    _subgroups: bool,
) -> std::result::Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    adapter.request_device(descriptor).await
}

/// The device's description and features.
pub(super) fn describe(
    adapter: &wgpu::Adapter,
    device: &wgpu::Device,
    features: wgpu::Features,
    max_binding: u64,
) -> Caps {
    let info = adapter.get_info();
    let names = OPTIONAL.iter().filter(|(f, _)| features.contains(*f)).map(|(_, name)| (*name).to_owned()).collect();
    let subgroup = if features.contains(wgpu::Features::SUBGROUP) {
        [info.subgroup_min_size, info.subgroup_max_size]
    } else {
        [0, 0]
    };
    let vendor = match info.vendor {
        0x10de => "nvidia".into(),
        0x1002 => "amd".into(),
        0x8086 => "intel".into(),
        0x106b => "apple".into(),
        0x10005 => "mesa".into(),
        other => format!("{other:#x}"),
    };
    Caps {
        vendor,
        name: info.name,
        backend: info.backend.to_str().into(),
        features: names,
        subgroup,
        software: info.device_type == wgpu::DeviceType::Cpu,
        ..limits_of(device, max_binding)
    }
}

/// Most threads that compile at one time: drivers serialize parts of compilation by locks, and each thread takes
/// memory.
const COMPILERS: usize = 8;

/// Compiles pipelines on several threads. `None` in place of one that the device refuses. Empty for a GPU in software,
/// whose compiler takes the cores that other loads of this process compute on.
#[allow(clippy::unused_async, reason = "a browser is waited for")]
pub(super) async fn compile_all(
    device: &wgpu::Device,
    recipes: impl Iterator<Item = &Recipe>,
    caps: &Caps,
) -> Vec<Option<Compiled>> {
    if caps.software {
        return Vec::new();
    }
    let recipes: Vec<&Recipe> = recipes.collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(COMPILERS).min(recipes.len());
    let next = AtomicUsize::new(0);
    let made = Mutex::new(vec![None; recipes.len()]);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(recipe) = recipes.get(at) else { break };
            // Natively errors go to the scopes of their own thread, the caller's not among them.
            let scopes =
                [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation].map(|of| device.push_error_scope(of));
            let compiled = recipe.parts(device).pipeline(device);
            let refused = scopes.into_iter().rev().filter_map(|scope| scope.pop().now_or_never().flatten()).count();
            if refused == 0 {
                made.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(compiled);
            }
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    made.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Copies `bytes` into a mapped buffer.
pub(super) fn fill(buffer: &wgpu::Buffer, from: u64, bytes: &[u8]) -> Result<()> {
    let room = from..from + bytes.len() as u64;
    buffer
        .get_mapped_range_mut(room)
        .map_err(|e| Error::internal(format!("a staging buffer is not mapped: {e}")))?
        .copy_from_slice(bytes);
    Ok(())
}

/// The CPU in this process. Methods that cannot fail here can in a browser.
pub(super) struct Machine(RefCell<millrace_cpu::Machine>);

#[allow(
    clippy::unnecessary_wraps,
    clippy::unused_async,
    clippy::unused_self,
    reason = "a browser's machine is fetched, and can fail"
)]
impl Machine {
    /// Bytes of the largest buffer: what a Vec and 32-bit counts of words hold.
    pub(super) const LARGEST: u64 = 1 << 33;

    /// A machine without buffers. Its threads are those of the process, and none is lost.
    pub(super) async fn open(_helpers: bool, _lost: impl Fn(String) + 'static) -> Result<Self> {
        Ok(Self(RefCell::default()))
    }
    pub(super) fn name(&self) -> String {
        self.0.borrow().name()
    }
    pub(super) fn buffer(&self, bytes: u64) -> Option<u32> {
        self.0.borrow_mut().buffer((bytes / 4) as usize)
    }
    pub(super) fn bind(&self, text: &str) -> Result<u32> {
        self.0.borrow_mut().bind(text).map_err(Error::internal)
    }
    pub(super) fn write(&self, id: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.borrow_mut().bytes_mut(id)[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    pub(super) fn read(&self, id: u32, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        Ok(self.0.borrow_mut().bytes_mut(id)[offset as usize..][..bytes as usize].to_vec())
    }
    pub(super) fn run(&self, commands: &[u32]) -> Result<()> {
        self.0.borrow_mut().run(commands);
        Ok(())
    }
    /// A native thread has no event loop to yield to.
    pub(super) async fn others(&self) {}
}
