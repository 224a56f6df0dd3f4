//! What wgpu cannot do on the web: request subgroups, compile pipelines without a wait, read all of the adapter's info.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use js_sys::{Array, Function, Object, Promise, Proxy, Reflect, Uint8Array};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use super::device::{DeviceChoice, Gpu, GpuOptions, OPTIONAL, fits, limits_of, no_adapter};
use super::pipeline::{Compiled, Recipe};
use crate::base::{js, now_ms};
use crate::error::{Error, ErrorKind, Result};
use crate::kernels::{Caps, MATRICES};

/// Whether this browser has WebGPU here.
fn has_webgpu() -> bool {
    js::path(&js_sys::global(), &["navigator", "gpu", "requestAdapter"]).is_function()
}

/// The name of a GPU whose name the browser withholds.
const UNNAMED: &str = "unnamed GPU";

/// The adapter and its device, as the browser describes them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct About {
    /// `nvidia`, `apple`, `google`, …
    pub vendor: String,
    /// The description, else vendor, architecture and device, as far as the browser gives them.
    pub name: String,
    /// Whether the browser reports a fallback adapter, one in software. Some browsers report nothing else.
    pub fallback: bool,
    /// WebGPU names of the features that the device was made with.
    pub features: Vec<String>,
    /// Smallest and largest subgroup, in invocations; 0 where the browser does not say.
    pub subgroup: [u32; 2],
    /// Whether the device multiplies tiles of 16 x 16 halves and sums them in f32, by subgroups of 32.
    pub matrices: bool,
}

/// Reads `device.adapterInfo` and `device.features`.
fn about(device: &wgpu::Device) -> About {
    let device: JsValue = device.as_webgpu().map_or(JsValue::UNDEFINED, |d| d.into());
    let mut info = js::get(&device, "adapterInfo");
    if info.is_undefined() {
        // Browsers of before 2025 have the info on the adapter only, which the wrapped `requestDevice` has kept.
        info = ADAPTER.with_borrow(|adapter| js::get(adapter, "info"));
    }
    let vendor = js::string(&info, "vendor");
    let description = js::string(&info, "description");
    let name = if description.is_empty() {
        let parts = [vendor.clone(), js::string(&info, "architecture"), js::string(&info, "device")];
        let name = parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(" ");
        // Firefox gives none of them.
        if name.is_empty() { UNNAMED.to_owned() } else { name }
    } else {
        description
    };
    let features = js_sys::try_iter(&js::get(&device, "features")).ok().flatten();
    let features = features.into_iter().flatten().flatten().filter_map(|f| f.as_string()).collect();
    let number = |key: &str| js::get(&info, key).as_f64().unwrap_or(0.0) as u32;
    let subgroup = [number("subgroupMinSize"), number("subgroupMaxSize")];
    let configs = js_sys::try_iter(&js::get(&info, "subgroupMatrixConfigs")).ok().flatten();
    let fits = |config: JsValue| {
        let is = |key: &str, value: &str| js::string(&config, key) == value;
        ["M", "N", "K"].iter().all(|key| js::get(&config, key).as_f64() == Some(16.0))
            && is("componentType", "f16")
            && is("resultComponentType", "f32")
    };
    let features: Vec<String> = features;
    let offered = features.iter().any(|f| f == MATRICES) && subgroup == [32, 32];
    let matrices = offered && configs.into_iter().flatten().flatten().any(fits);
    // Browsers of before 2025 have this flag on the adapter itself.
    let fallback = js::get(&info, "isFallbackAdapter").is_truthy()
        || ADAPTER.with_borrow(|adapter| js::get(adapter, "isFallbackAdapter").is_truthy());
    About { vendor, name, fallback, features, subgroup, matrices }
}

/// Whether the buffer is mapped now.
fn is_mapped(buffer: &wgpu::Buffer) -> bool {
    buffer.as_webgpu().is_some_and(|buffer| js::string(buffer.as_ref(), "mapState") == "mapped")
}

/// The one adapter that the browser offers.
pub(super) async fn find_adapter(options: &GpuOptions) -> Result<wgpu::Adapter> {
    if !has_webgpu() {
        return Err(Error::new(ErrorKind::NoWebGpu, "there is no WebGPU here"));
    }
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let request =
        wgpu::RequestAdapterOptions { power_preference: wgpu::PowerPreference::HighPerformance, ..Default::default() };
    instance
        .request_adapter(&request)
        .await
        .map_err(|e| no_adapter(&GpuOptions { adapter: None, ..options.clone() }, &[]).with_source(e))
}

/// A device of the adapter, with the features of [`UNKNOWN_TO_WGPU`] where `subgroups` wants them.
pub(super) async fn request_device(
    adapter: &wgpu::Adapter,
    descriptor: &wgpu::DeviceDescriptor<'_>,
    subgroups: bool,
) -> std::result::Result<(wgpu::Device, wgpu::Queue), wgpu::RequestDeviceError> {
    // wgpu cannot request subgroups and their matrices of the browser; the guard adds these features to requests while
    // it lives.
    let _asking = ask_for_subgroups(subgroups);
    adapter.request_device(descriptor).await
}

/// The device's description and features.
pub(super) fn describe(
    _adapter: &wgpu::Adapter,
    device: &wgpu::Device,
    _features: wgpu::Features,
    max_binding: u64,
) -> Caps {
    let about = about(device);
    let names = OPTIONAL
        .iter()
        .map(|(_, name)| (*name).to_owned())
        .filter(|name| about.features.contains(name))
        .collect::<Vec<_>>();
    let mut names = names;
    if about.matrices && names.iter().any(|n| n == "shader-f16") {
        names.push(MATRICES.to_owned());
    }
    let subgroup = if names.iter().any(|n| n == "subgroups") { about.subgroup } else { [0, 0] };
    // Not every browser flags a fallback adapter; some name the software renderer.
    let software = about.fallback
        || ["swiftshader", "llvmpipe", "basic render"].iter().any(|known| about.name.to_lowercase().contains(known));
    Caps {
        vendor: about.vendor,
        name: about.name,
        backend: "webgpu".into(),
        features: names,
        subgroup,
        software,
        ..limits_of(device, max_binding)
    }
}

impl Gpu {
    /// Fails as [`Gpu::open`] would where there is no GPU at all, and the CPU is no choice: worth a call before a
    /// download.
    pub async fn probe(device: DeviceChoice) -> Result<()> {
        if device == DeviceChoice::Gpu { find_adapter(&GpuOptions::default()).await.map(drop) } else { Ok(()) }
    }

    /// Whether the opened adapter is the one asked for; the browser offers only one to choose from.
    pub(super) fn require_adapter(&self, options: &GpuOptions) -> Result<()> {
        let name = format!("{} {}", self.caps().vendor, self.caps().name);
        if fits(options, &name) { Ok(()) } else { Err(no_adapter(options, &[name])) }
    }
}

/// The method by which wgpu compiles a pipeline; it blocks.
const CREATE: &str = "createComputePipeline";

/// Compiles pipelines on the browser's own threads. `None` in place of a pipeline that the browser refuses; an empty
/// list where it has no `createComputePipelineAsync`.
///
/// wgpu knows only [`CREATE`]. So wgpu creates each pipeline twice, with that method of the device replaced: first by
/// one that requests the pipeline from the browser without a wait, then, once the browser has compiled it, by one that
/// returns it.
pub(super) async fn compile_all(
    device: &wgpu::Device,
    recipes: impl Iterator<Item = &Recipe>,
    _caps: &Caps,
) -> Vec<Option<Compiled>> {
    let Some(raw) = device.as_webgpu().map(|raw| JsValue::from(raw.clone())) else { return Vec::new() };
    if !js::get(&raw, "createComputePipelineAsync").is_function() {
        return Vec::new();
    }
    // A refused pipeline is refused once more when it is bound, and reported then.
    let refused = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let mut asked = Vec::new();
    for recipe in recipes {
        let parts = recipe.parts(device);
        let promised = Rc::new(RefCell::new(None));
        let (device_of, promise) = (raw.clone(), promised.clone());
        let ask = move |descriptor: JsValue| {
            promise.replace(js::call(&device_of, "createComputePipelineAsync", &[&descriptor]).ok());
            // A placeholder, which wgpu wraps and does not use.
            Object::new().into()
        };
        answering(&raw, ask, || parts.pipeline(device));
        let promised = promised.take().map(|promise| JsFuture::from(Promise::resolve(&promise)));
        asked.push((parts, promised));
    }
    let _ = refused.pop().await;
    let mut made = Vec::new();
    for (parts, promised) in asked {
        let pipeline = match promised {
            Some(promised) => promised.await.ok(),
            None => None,
        };
        made.push(pipeline.map(|pipeline| answering(&raw, move |_| pipeline.clone(), || parts.pipeline(device))));
    }
    made
}

/// Replaces the device's method [`CREATE`] by `answer` while `call` runs.
fn answering<T>(device: &JsValue, answer: impl FnMut(JsValue) -> JsValue + 'static, call: impl FnOnce() -> T) -> T {
    let answer = Closure::<dyn FnMut(JsValue) -> JsValue>::new(answer);
    // The object's own property shadows the prototype's method; the browser's objects can have properties of their own.
    let _ = Reflect::set(device, &CREATE.into(), answer.as_ref());
    let called = call();
    let _ = Reflect::delete_property(device.unchecked_ref::<Object>(), &CREATE.into());
    called
}

/// Copies `bytes` into a mapped buffer.
pub(super) fn fill(buffer: &wgpu::Buffer, from: u64, bytes: &[u8]) -> Result<()> {
    // wgpu keeps the range of a buffer that the browser unmaps because its device is gone: access to that range throws.
    if !is_mapped(buffer) {
        return Err(Error::internal("a staging buffer is not mapped"));
    }
    let room = from..from + bytes.len() as u64;
    // A slice of wgpu's would be copied out of the browser's memory and back.
    buffer
        .get_mapped_range(room)
        .map_err(|e| Error::internal(format!("a staging buffer is not mapped: {e}")))?
        .as_uint8array()
        .copy_from(bytes);
    Ok(())
}

thread_local! {
    /// Loads the CPU's module: a function that takes whether there may be helpers, and returns a promise of the module's
    /// exports.
    static MODULE: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Sets the function by which [`Machine::open`] loads the CPU's module.
pub(crate) fn load_cpu_by(load: Function) {
    MODULE.set(Some(load));
}

/// An instance of the CPU's module (crates/cpu), with memory of its own.
pub(super) struct Machine {
    exports: JsValue,
    /// When this thread last yielded to its event loop, ms.
    turned: Cell<f64>,
    failure: Rc<Failure>,
}

/// How the module has failed, if it has: then nothing of it is called any more, as a thread may have stopped anywhere.
struct Failure {
    message: RefCell<Option<String>>,
    tell: Box<dyn Fn(String)>,
}

impl Failure {
    fn note(&self, message: String) {
        let first = self.message.borrow().is_none();
        if first {
            *self.message.borrow_mut() = Some(message.clone());
            (self.tell)(message);
        }
    }
}

/// The module's value for no id or address.
const NONE: f64 = u32::MAX as f64;
/// The most time between two yields to the event loop, ms; a submission in progress is not interrupted.
const TURN_MS: f64 = 12.0;

impl Drop for Machine {
    fn drop(&mut self) {
        // Without it the helpers would stay until the engine's thread ends.
        self.end();
    }
}

impl Machine {
    /// Bytes of the largest buffer.
    pub(super) const LARGEST: u64 = (1 << 31) - (1 << 16);

    /// Loads the module where it is not loaded yet. `helpers`: whether threads may help; `lost`: told where one of them
    /// has ended, or the module has failed.
    pub(super) async fn open(helpers: bool, lost: impl Fn(String) + 'static) -> Result<Self> {
        let load =
            MODULE.with_borrow(Clone::clone).ok_or_else(|| Error::internal("no loader of the CPU's module is set"))?;
        // The loader's message says what failed, and what to do.
        let failed = |e: JsValue| Error::internal(js::string(&e, "message"));
        let promise = load.call1(&JsValue::UNDEFINED, &helpers.into()).map_err(failed)?;
        let exports = wasm_bindgen_futures::JsFuture::from(js_sys::Promise::resolve(&promise)).await.map_err(failed)?;
        let failure = Rc::new(Failure { message: RefCell::default(), tell: Box::new(lost) });
        let noted = failure.clone();
        let gone = js_sys::Promise::resolve(&js::get(&exports, "gone"));
        wasm_bindgen_futures::spawn_local(async move {
            // No message: the machine was dropped.
            if let Some(message) = wasm_bindgen_futures::JsFuture::from(gone).await.ok().and_then(|why| why.as_string())
            {
                noted.note(message);
            }
        });
        Ok(Self { exports, turned: Cell::new(now_ms()), failure })
    }

    /// Ends the helpers.
    fn end(&self) {
        let _ = js::call(&self.exports, "end", &[]);
    }

    pub(super) fn name(&self) -> String {
        let relaxed = self.call("relaxed", &[]).is_ok_and(|relaxed| relaxed != 0.0);
        let threads = self.call("threads", &[]).unwrap_or(1.0);
        let simd = if relaxed { "relaxed SIMD" } else { "SIMD" };
        format!("CPU ({simd}, {threads} thread{})", if threads == 1.0 { "" } else { "s" })
    }

    pub(super) fn buffer(&self, bytes: u64) -> Option<u32> {
        self.call("buffer", &[(bytes / 4) as f64]).ok().filter(|id| *id != NONE).map(|id| id as u32)
    }

    pub(super) fn bind(&self, text: &str) -> Result<u32> {
        self.give(&Uint8Array::from(text.as_bytes()))?;
        let id = self.call("bind", &[text.len() as f64])?;
        if id == NONE { Err(Error::internal(format!("this describes no kernel: {text}"))) } else { Ok(id as u32) }
    }

    pub(super) fn write(&self, id: u32, offset: u64, bytes: &[u8]) -> Result<()> {
        self.bytes(self.call("address", &[id.into()])? + offset as f64, bytes.len()).copy_from(bytes);
        Ok(())
    }

    pub(super) fn read(&self, id: u32, offset: u64, bytes: u64) -> Result<Vec<u8>> {
        Ok(self.bytes(self.call("address", &[id.into()])? + offset as f64, bytes as usize).to_vec())
    }

    pub(super) fn run(&self, commands: &[u32]) -> Result<()> {
        self.give(&Uint8Array::from(bytemuck::cast_slice::<u32, u8>(commands)))?;
        self.call("run", &[commands.len() as f64]).map(drop)
    }

    /// Yields to this thread's event loop where the last yield is [`TURN_MS`] ago: an abort arrives as a message.
    pub(super) async fn others(&self) {
        if now_ms() - self.turned.get() < TURN_MS {
            return;
        }
        let turn = js::call_async(&self.exports, "turn", &[]).await;
        debug_assert!(turn.is_ok());
        self.turned.set(now_ms());
    }

    /// Copies bytes to the module's input area.
    fn give(&self, bytes: &Uint8Array) -> Result<()> {
        let room = self.call("room", &[f64::from(bytes.length().div_ceil(4))])?;
        self.bytes(room, bytes.length() as usize).set(bytes, 0);
        Ok(())
    }

    /// A view of the module's memory, valid until the memory grows.
    fn bytes(&self, address: f64, length: usize) -> Uint8Array {
        Uint8Array::new_with_byte_offset_and_length(
            &js::path(&self.exports, &["memory", "buffer"]),
            address as u32,
            length as u32,
        )
    }

    /// Calls a function of the module's. Where it throws, the machine has failed.
    fn call(&self, name: &str, arguments: &[f64]) -> Result<f64> {
        if let Some(message) = &*self.failure.message.borrow() {
            return Err(Error::gpu(message.clone()));
        }
        let arguments: Vec<JsValue> = arguments.iter().map(|n| JsValue::from_f64(*n)).collect();
        let arguments: Vec<&JsValue> = arguments.iter().collect();
        let failed = |e: JsValue| {
            let message = format!("the module that computes on the CPU has failed: {}", js::string(&e, "message"));
            self.end();
            self.failure.note(message.clone());
            Error::gpu(message)
        };
        // wasm returns integers of 32 bits signed.
        Ok(js::call(&self.exports, name, &arguments)
            .map_err(failed)?
            .as_f64()
            .map_or(0.0, |n| f64::from(n as i64 as u32)))
    }
}

thread_local! {
    /// The adapter of the last request for a device.
    static ADAPTER: RefCell<JsValue> = const { RefCell::new(JsValue::UNDEFINED) };
    /// The wrapped method while any guard lives; guards may overlap when two devices are opened at once.
    static WRAPPED: RefCell<Option<Wrapped>> = const { RefCell::new(None) };
}

type Apply = Closure<dyn Fn(Function, JsValue, Array) -> std::result::Result<JsValue, JsValue>>;

struct Wrapped {
    prototype: JsValue,
    original: JsValue,
    guards: usize,
    _apply: Apply,
}

/// Features that wgpu cannot request.
const UNKNOWN_TO_WGPU: [&str; 2] = ["subgroups", MATRICES];

/// While it lives, devices are requested with [`UNKNOWN_TO_WGPU`], where the adapter has them.
struct Guard(());

/// Wraps `GPUAdapter.prototype.requestDevice` until the guard is dropped. With `wanted` false nothing is added to the
/// request.
fn ask_for_subgroups(wanted: bool) -> Option<Guard> {
    if !wanted {
        return None;
    }
    WRAPPED.with_borrow_mut(|slot| {
        if let Some(wrapped) = slot {
            wrapped.guards += 1;
            return Some(Guard(()));
        }
        let prototype = js::path(&js_sys::global(), &["GPUAdapter", "prototype"]);
        let original = js::get(&prototype, "requestDevice");
        if !original.is_function() {
            return None;
        }
        let apply: Apply = Closure::new(|original: Function, adapter: JsValue, args: Array| {
            ADAPTER.set(adapter.clone());
            Reflect::apply(&original, &adapter, &Array::of1(&with_subgroups(&adapter, args.get(0))))
        });
        let handler: Object = js::object(&[("apply", apply.as_ref().clone())]).unchecked_into();
        Reflect::set(&prototype, &"requestDevice".into(), &Proxy::new(&original, &handler)).ok()?;
        *slot = Some(Wrapped { prototype, original, guards: 1, _apply: apply });
        Some(Guard(()))
    })
}

/// The descriptor with the features of [`UNKNOWN_TO_WGPU`] that the adapter has.
fn with_subgroups(adapter: &JsValue, descriptor: JsValue) -> JsValue {
    let offered = js::get(adapter, "features");
    let has = |name: &&str| js::call(&offered, "has", &[&(*name).into()]).is_ok_and(|has| has.is_truthy());
    let missing: Vec<&str> = UNKNOWN_TO_WGPU.into_iter().filter(has).collect();
    if missing.is_empty() {
        return descriptor;
    }
    let descriptor = if descriptor.is_object() { descriptor } else { js::object(&[]) };
    let features = js::get(&descriptor, "requiredFeatures");
    let features = if features.is_object() { Array::from(&features) } else { Array::new() };
    for name in missing {
        if !features.includes(&name.into(), 0) {
            features.push(&name.into());
        }
    }
    // wgpu made this descriptor for this call alone.
    let _ = Reflect::set(&descriptor, &"requiredFeatures".into(), &features);
    descriptor
}

impl Drop for Guard {
    fn drop(&mut self) {
        WRAPPED.with_borrow_mut(|slot| {
            if let Some(wrapped) = slot {
                wrapped.guards -= 1;
                if wrapped.guards == 0 {
                    // The property was writable a moment ago.
                    let _ = Reflect::set(&wrapped.prototype, &"requestDevice".into(), &wrapped.original);
                    *slot = None;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_bindgen_test::wasm_bindgen_test;

    async fn open(subgroups: bool) -> About {
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let adapter = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await.unwrap();
        let _asking = ask_for_subgroups(subgroups);
        let (device, _queue) = adapter.request_device(&wgpu::DeviceDescriptor::default()).await.unwrap();
        about(&device)
    }

    fn method() -> JsValue {
        js::path(&js_sys::global(), &["GPUAdapter", "prototype", "requestDevice"])
    }

    #[wasm_bindgen_test]
    async fn subgroups_where_the_adapter_has_them() {
        assert!(has_webgpu(), "these tests need a browser with WebGPU");
        let before = method();
        let gpu = js::path(&js_sys::global(), &["navigator", "gpu"]);
        let adapter = js::call_async(&gpu, "requestAdapter", &[]).await.unwrap();
        let has = js::call(&js::get(&adapter, "features"), "has", &[&"subgroups".into()]).unwrap().is_truthy();
        let with = open(true).await;
        assert_eq!(with.features.iter().any(|f| f == "subgroups"), has);
        assert!(!has || (with.subgroup[0] > 0 && with.subgroup[1] >= with.subgroup[0]), "{with:?}");
        assert!(!with.name.is_empty(), "{with:?}");
        assert!(!open(false).await.features.iter().any(|f| f == "subgroups"));
        assert_eq!(method(), before, "the browser's own method is back");
    }

    #[wasm_bindgen_test]
    fn guards_may_overlap() {
        let before = method();
        let first = ask_for_subgroups(true);
        let second = ask_for_subgroups(true);
        drop(first);
        assert_ne!(method(), before);
        drop(second);
        assert_eq!(method(), before);
    }
}
