//! What JavaScript imports. `npm/host.ts` is the only caller in the package; the class it shows to pages is written
//! there.

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use futures_channel::oneshot;
use js_sys::{Array, Float32Array, Function, Promise, Reflect, Uint32Array};
use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen_futures::spawn_local;
use web_sys::AbortSignal;

use super::abort::Abort;
use super::errors::Thrown;
use super::grammar::Beside;
use super::load::{draft_origin, origin, store_of};
use super::models::WasmControl;
use super::options::{self, Load, Source, TextsAsked};
use super::panic::promise;
use super::{Opfs, log, tuning};
use crate::base::{Cancel, Progress, js, now_ms};
use crate::bench::Status;
use crate::bench::shapes::{Quant, SHAPES};
use crate::check;
use crate::decode::BUDGET_MS;
use crate::engine::{Asked, Delta, Desk, Device, DeviceEvent, Engine, Event, Generation, Info, Texts};
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::{Gpu, GpuOptions, load_cpu_by};
use crate::grammar::Compiler;
#[cfg(feature = "lab")]
use crate::kernels;
use crate::kernels::{Emulated, Variant};
use crate::plan::tuning::Tuning;
use crate::store::{ModelKey, Storage};

/// A loaded model, in its Worker.
#[wasm_bindgen]
pub struct WasmEngine {
    state: Rc<RefCell<State>>,
}

struct State {
    /// `None` while a call has taken it.
    engine: Option<Engine>,
    /// Queue of requests for the engine, the limit of concurrent answers, and the number of pending ones.
    desk: Rc<Desk<'static>>,
    concurrency: usize,
    awaited: usize,
    texts: Texts,
    /// The report when the engine was last idle.
    report: Report,
    /// Edition of the plan in the report.
    edition: u32,
    /// Cancel flags of running calls.
    running: Vec<Cancel>,
    /// Conversations that are released as soon as the engine is there.
    released: Vec<u32>,
    disposed: bool,
    device: Device,
    /// Listener for device events, and the device whose loss it waits for.
    on_device: Option<Function>,
    watched: Weak<Gpu>,
}

/// The engine's report and where the model is kept.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    info: Info,
    storage: Storage,
}

#[wasm_bindgen]
impl WasmEngine {
    /// Loads a model: `{model, fetch}` and what options.toml has of `fetching` and `load`, a function that gets
    /// progress, a signal, and what pauses the download.
    #[wasm_bindgen(unchecked_return_type = "Promise<WasmEngine>")]
    pub fn load(options: JsValue, on_progress: Function, signal: AbortSignal, control: &WasmControl) -> Promise {
        let control = control.control.clone();
        promise(async move {
            let mut load = options::load(&options, false)?;
            load.download.control = control;
            Gpu::probe(load.options.device.unwrap_or_default()).await?;
            let abort = Abort::follow(signal.clone());
            let report = |progress: Progress| tell_progress(&on_progress, &progress);
            load.options.tuning = tuning::read().await;
            let started = now_ms();
            let (mut engine, storage) =
                Engine::open(&origin(&load, signal.clone()).await, &load.options, &report, &abort.cancel).await?;
            let drafts = match draft_origin(&load, signal).await {
                Some(draft) => engine.open_draft(&draft, &report, &abort.cancel).await,
                None => Ok(()),
            };
            if let Err(e) = drafts.and_then(|()| abort.cancel.check()) {
                engine.dispose();
                return Err(e);
            }
            engine.set_load_ms(now_ms() - started);
            let info = engine.info();
            if info.self_test.checked > 0 {
                let mut known = Tuning::default();
                engine.remember(&mut known);
                tuning::write(&known).await;
            }
            for warning in &info.warnings {
                log::warn(warning);
            }
            let report = Report { info, storage };
            let edition = engine.plan_edition();
            let device = engine.device();
            let texts = engine.texts();
            let state = State {
                concurrency: engine.concurrency(),
                engine: Some(engine),
                desk: Rc::default(),
                awaited: 0,
                texts,
                report,
                edition,
                running: Vec::new(),
                released: Vec::new(),
                disposed: false,
                device,
                on_device: None,
                watched: Weak::new(),
            };
            Ok(Self { state: Rc::new(RefCell::new(state)) }.into())
        })
    }

    /// Answers one request; `on_delta` gets `{text, tokens}`, and before that `on_progress` how far the prompt is read.
    /// As many at a time as `concurrency` says; one more is refused. An aborted one resolves with finish_reason
    /// `abort`.
    #[wasm_bindgen(unchecked_return_type = "Promise<GenerateResult>")]
    pub fn generate(
        &self,
        request: JsValue,
        on_delta: Function,
        on_progress: Function,
        signal: AbortSignal,
    ) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let request = options::keyed(&request, options::request(&request)?).await;
            let abort = Abort::follow(signal);
            let on_event = move |event: Event<'_>| match event {
                Event::Delta(delta) => tell(&on_delta, &delta_value(delta)),
                Event::Progress(progress) => tell_progress(&on_progress, &progress),
            };
            let (sender, ended) = oneshot::channel();
            let done = move |result| _ = sender.send(result);
            ask(
                &state,
                Asked { request, on_event: Box::new(on_event), cancel: abort.cancel.clone(), done: Box::new(done) },
            )?;
            let ended = ended.await;
            let mut state = state.borrow_mut();
            state.awaited -= 1;
            if state.disposed {
                return Err(disposed());
            }
            drop(state);
            generation_value(ended.map_err(|_| Error::internal("an answer was dropped"))??)
        })
    }

    /// Embeds texts: `{texts}` and what options.toml has of `embed`; or with `{query, documents}` and what it has of
    /// `rerank` judges documents. One at a time with generations.
    #[wasm_bindgen(unchecked_return_type = "Promise<WasmEmbeddings | WasmRanking>")]
    pub fn embed(&self, request: JsValue, on_progress: Function, signal: AbortSignal) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let asked = options::texts(&request)?;
            let abort = Abort::follow(signal);
            let progress = |progress: Progress| tell_progress(&on_progress, &progress);
            let mut engine = take(&state, &abort.cancel)?;
            let found = match asked {
                TextsAsked::Embed(texts, options) => {
                    engine.embed(&texts, &options, &progress, &abort.cancel).await.and_then(|mut found| {
                        let vectors: Array = std::mem::take(&mut found.vectors)
                            .iter()
                            .map(|vector| Float32Array::from(vector.as_slice()))
                            .collect();
                        Ok(with(to_value(&found)?, &[("vectors", vectors.into())]))
                    })
                }
                TextsAsked::Rerank(query, documents, options) => engine
                    .rerank(&query, &documents, &options, &progress, &abort.cancel)
                    .await
                    .and_then(|found| to_value(&found)),
            };
            put_back(&state, engine)?;
            found
        })
    }

    /// A new conversation that begins as another is now: its number.
    pub fn fork(&self, conversation: u32) -> std::result::Result<u32, Thrown> {
        let mut state = self.state.borrow_mut();
        let engine = state
            .engine
            .as_mut()
            .ok_or_else(|| Error::bad_option("fork: a generation is running; wait for it or abort it"))?;
        let forked = engine.fork(conversation)?;
        state.look();
        Ok(forked)
    }

    /// Forgets a conversation and frees its memory: once the answer under way has ended, where there is one.
    pub fn release(&self, conversation: u32) {
        let mut state = self.state.borrow_mut();
        state.released.push(conversation);
        state.release();
    }

    /// Keeps a conversation in the origin's private file system under a name, in place of what had it.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn save(&self, conversation: u32, name: String, signal: AbortSignal) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let store = Opfs::conversations(Some(signal.clone())).await?;
            let abort = Abort::follow(signal);
            let mut engine = take(&state, &abort.cancel)?;
            let saved = engine.save(conversation, &store, &name, &abort.cancel).await;
            put_back(&state, engine)?;
            saved.map(|()| JsValue::UNDEFINED)
        })
    }

    /// A new conversation that begins as the saved one was: its number.
    #[wasm_bindgen(unchecked_return_type = "Promise<number>")]
    pub fn restore(&self, name: String, signal: AbortSignal) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let store = Opfs::conversations(Some(signal.clone())).await?;
            let abort = Abort::follow(signal);
            let mut engine = take(&state, &abort.cancel)?;
            let restored = engine.restore(&store, &name).await;
            put_back(&state, engine)?;
            restored.map(JsValue::from)
        })
    }

    /// Removes a saved conversation, if it is there.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn forget(&self, name: String) -> Promise {
        promise(
            async move { Engine::forget(&Opfs::conversations(None).await?, &name).await.map(|()| JsValue::UNDEFINED) },
        )
    }

    /// Loads an adapter, `{files: [{name, data}]}`, under a name; where there are no files the one of that name goes.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn adapter(&self, name: String, files: JsValue, signal: AbortSignal) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let files = match files.is_undefined() {
                true => None,
                false => match options::source(&files)? {
                    Source::Files(files) => Some(files),
                    Source::Remote(_) => return Err(Error::bad_option("adapter: give the files themselves")),
                },
            };
            let abort = Abort::follow(signal);
            let mut engine = take(&state, &abort.cancel)?;
            let done = match files {
                Some(files) => engine.load_adapter(&name, &files, &abort.cancel).await.map(drop),
                None => engine.unload_adapter(&name, &abort.cancel).await,
            };
            put_back(&state, engine)?;
            done.map(|()| JsValue::UNDEFINED)
        })
    }

    /// Measures variants of kernels that were not measured on this device yet, for two seconds at most, and keeps what
    /// it finds in the browser's storage. For idle time: aborting it ends it within one measurement. Resolves with
    /// `{measured, left, changed, ms, times}`.
    #[wasm_bindgen(unchecked_return_type = "Promise<Tuned>")]
    pub fn tune(&self, signal: AbortSignal) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let abort = Abort::follow(signal);
            let mut engine = take(&state, &abort.cancel)?;
            let tuned = engine.tune(BUDGET_MS, &abort.cancel).await;
            let mut known = Tuning::default();
            engine.remember(&mut known);
            put_back(&state, engine)?;
            let tuned = tuned?;
            if tuned.measured > 0 {
                tuning::write(&known).await;
            }
            to_value(&tuned)
        })
    }

    /// Keeps the GPU's clock up for about `ms` milliseconds. Aborting it ends it within some milliseconds.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn warm(&self, ms: f64, signal: AbortSignal) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let abort = Abort::follow(signal);
            let mut engine = take(&state, &abort.cancel)?;
            let warmed = engine.warm(ms, &abort.cancel).await;
            put_back(&state, engine)?;
            warmed.map(|()| JsValue::UNDEFINED)
        })
    }

    /// Reports device events to `callback`: `{type: 'lost', reason, message, recovering}`,
    /// `{type: 'restored', ms, info}`, and `{type: 'gone'}` at once when it is lost, also while the engine is idle:
    /// then it is time to call `recover`.
    #[wasm_bindgen(js_name = onDevice)]
    pub fn on_device(&self, callback: Function) {
        let weak = Rc::downgrade(&self.state);
        let tell_of = callback.clone();
        let listener = move |event: DeviceEvent<'_>| {
            let value = match event {
                DeviceEvent::Lost { loss, recovering } => to_value(loss)
                    .map(|value| with(value, &[("type", "lost".into()), ("recovering", recovering.into())])),
                DeviceEvent::Restored { ms, info } => weak.upgrade().map_or(Ok(JsValue::UNDEFINED), |state| {
                    let mut state = state.borrow_mut();
                    state.report.info = *info;
                    Ok(js::object(&[
                        ("type", "restored".into()),
                        ("ms", ms.into()),
                        ("info", to_value(&state.report)?),
                    ]))
                }),
            };
            if let Ok(value) = value {
                tell(&tell_of, &value);
            }
        };
        {
            let mut state = self.state.borrow_mut();
            state.on_device = Some(callback);
            if let Some(engine) = state.engine.as_mut() {
                engine.on_device(Rc::new(listener));
            }
        }
        watch(&self.state);
    }

    /// Engines that compute on the CPU use another WebAssembly module: `load`, which takes whether threads may help,
    /// returns a promise of its exports and of what `npm/cpu.ts` adds.
    #[wasm_bindgen(js_name = cpuFrom)]
    pub fn cpu_from(load: Function) {
        load_cpu_by(load);
    }

    /// Sets the function that compiles grammars, `(description, lenient)`: another WebAssembly module in the same
    /// Worker.
    #[wasm_bindgen(js_name = compileWith)]
    pub fn compile_with(&self, compile: Function) {
        if let Some(engine) = self.state.borrow_mut().engine.as_mut() {
            engine.compile_with(Rc::new(Beside(compile)));
        }
    }

    /// Compiles a schema, given as JSON, also while the engine is at work: `{states, bytes, ms, warnings}`. Nothing is
    /// kept of it.
    #[wasm_bindgen(js_name = compileSchema, unchecked_return_type = "Promise<CompiledGrammar>")]
    pub fn compile_schema(schema: String, lenient: bool, compile: Function) -> Promise {
        promise(async move {
            let schema: serde_json::Value = serde_json::from_str(&schema)
                .map_err(|e| Error::new(ErrorKind::InvalidSchema, format!("the schema is no JSON: {e}")))?;
            let grammar = Beside(compile).compile(serde_json::json!({ "schema": schema }).to_string(), lenient).await?;
            to_value(&grammar.about(grammar.ms))
        })
    }

    /// Whether the device is lost while the engine is idle, so that no running call notices.
    #[wasm_bindgen(js_name = isLost)]
    pub fn is_lost(&self) -> bool {
        self.state.borrow().engine.as_ref().is_some_and(|engine| engine.lost().is_some())
    }

    /// Loads the model onto another device where this one is lost. Rejects with `DEVICE_LOST` where that is not
    /// possible, or was necessary a minute ago.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn recover(&self) -> Promise {
        let state = self.state.clone();
        promise(async move {
            let cancel = Cancel::new();
            let mut engine = take(&state, &cancel)?;
            let recovered = engine.recover(&cancel).await;
            put_back(&state, engine)?;
            recovered.map(|()| JsValue::UNDEFINED)
        })
    }

    /// The ids that a request's prompt stands for; also while the engine is at work.
    pub fn tokenize(&self, request: JsValue) -> std::result::Result<Vec<u32>, Thrown> {
        Ok(self.state.borrow().texts.tokens(&options::request(&request)?)?)
    }

    /// How many tokens of a prompt a picture of `width` x `height` pixels takes.
    #[wasm_bindgen(js_name = imageTokens)]
    pub fn image_tokens(&self, width: u32, height: u32) -> std::result::Result<f64, Thrown> {
        Ok(self.state.borrow().texts.picture_tokens(width, height)? as f64)
    }

    /// The text of tokens, special ones included.
    pub fn detokenize(&self, ids: Vec<u32>) -> std::result::Result<String, Thrown> {
        Ok(self.state.borrow().texts.text(&ids)?)
    }

    /// What this engine is, where it runs and what it does there; as of the end of the last generation. `known`: a
    /// number that [`Self::plan_edition`] gave; where it still does there is no `plan` in it, which is many rows.
    #[wasm_bindgen(unchecked_return_type = "EngineInfo")]
    pub fn info(&self, known: Option<u32>) -> std::result::Result<JsValue, Thrown> {
        let state = &mut *self.state.borrow_mut();
        let plan = (known == Some(state.edition)).then(|| std::mem::take(&mut state.report.info.plan));
        let value = to_value(&state.report);
        if let Some(plan) = plan {
            state.report.info.plan = plan;
        }
        Ok(value?)
    }

    /// Another number whenever the plan becomes another.
    #[wasm_bindgen(js_name = planEdition)]
    pub fn plan_edition(&self) -> u32 {
        self.state.borrow().edition
    }

    /// Frees the GPU's memory. A running generation ends with `DISPOSED`, as does every later call.
    pub fn dispose(&self) {
        let mut state = self.state.borrow_mut();
        state.disposed = true;
        state.running.iter().for_each(Cancel::cancel);
        if let Some(engine) = state.engine.take() {
            engine.dispose();
        }
    }
}

impl State {
    /// Looks at what the engine says of itself now.
    fn look(&mut self) {
        if let Some(engine) = self.engine.take() {
            self.look_at(&engine);
            self.engine = Some(engine);
        }
    }

    /// Releases what is to be released, where the engine is there.
    fn release(&mut self) {
        if let Some(engine) = self.engine.as_mut() {
            self.released.drain(..).for_each(|conversation| engine.release(conversation));
            self.look();
        }
    }

    fn look_at(&mut self, engine: &Engine) {
        let edition = engine.plan_edition();
        let plan =
            if edition == self.edition { std::mem::take(&mut self.report.info.plan) } else { engine.plan_rows() };
        self.edition = edition;
        self.report.info = Info { plan, ..engine.about() };
    }
}

/// Takes the engine for one request.
fn take(state: &RefCell<State>, cancel: &Cancel) -> Result<Engine> {
    let mut state = state.borrow_mut();
    if state.disposed {
        return Err(disposed());
    }
    let engine = state
        .engine
        .take()
        .ok_or_else(|| Error::bad_option("generate: a generation is running; wait for it or abort it"))?;
    state.running.push(cancel.clone());
    Ok(engine)
}

/// Leaves a request at the engine's desk, and has the engine answer if it is not at work there.
fn ask(shared: &Rc<RefCell<State>>, asked: Asked<'static>) -> Result<()> {
    let cancel = asked.cancel.clone();
    let at_work = {
        let state = shared.borrow();
        state.engine.is_none() && (1..state.concurrency).contains(&state.awaited)
    };
    let engine = if at_work { None } else { Some(take(shared, &cancel)?) };
    let mut state = shared.borrow_mut();
    state.awaited += 1;
    let desk = state.desk.clone();
    desk.ask(asked);
    let Some(mut engine) = engine else {
        state.running.push(cancel);
        return Ok(());
    };
    drop(state);
    let shared = shared.clone();
    spawn_local(async move {
        engine.serve(&desk, &|engine| shared.borrow_mut().look_at(engine)).await;
        // All answers have been delivered; if the engine was disposed of meanwhile, no caller is left for this error.
        let _ = put_back(&shared, engine);
    });
    Ok(())
}

/// Gives it back, or disposes of it where that was asked for meanwhile.
fn put_back(shared: &Rc<RefCell<State>>, engine: Engine) -> Result<()> {
    let mut state = shared.borrow_mut();
    state.running.clear();
    if state.disposed {
        engine.dispose();
        return Err(disposed());
    }
    state.engine = Some(engine);
    state.release();
    drop(state);
    watch(shared);
    Ok(())
}

/// Waits for the loss of the present device, once.
fn watch(shared: &Rc<RefCell<State>>) {
    let mut state = shared.borrow_mut();
    let Some(callback) = state.on_device.clone() else { return };
    if state.device.is(&state.watched) {
        return;
    }
    state.watched = state.device.current();
    let lost = state.device.lost();
    spawn_local(async move {
        if lost.await.is_some() {
            tell(&callback, &js::object(&[("type", "gone".into())]));
        }
    });
}

/// Whether a variant's whole name, `matvec=q4_0-q8-sg32`, contains one of the words of `filter`, or there are none.
fn named(variant: &Variant, filter: &str) -> bool {
    let name = variant.to_string();
    filter.trim().is_empty() || filter.split_whitespace().any(|word| name.contains(word))
}

/// Runs every kernel variant whose whole name contains a word of `filter` against its twin in this browser; `on_row`
/// gets each case's result. `cases`: `all`; `quick`, one a variant; `cover`, one of each of so many variants that every
/// value of each axis is among them. Builds with the feature `lab` emulate subgroups where they are too small, of each
/// kernel once where `quick`; only they have `cover`.
#[wasm_bindgen(js_name = kernelCheck, unchecked_return_type = "Promise<KernelReport>")]
pub fn kernel_check(filter: String, cases: String, on_row: Function) -> Promise {
    promise(async move {
        let (selection, emulated) = match cases.as_str() {
            "quick" => (check::Selection::One, Emulated::One),
            #[cfg(feature = "lab")]
            "cover" => (check::Selection::One, Emulated::All),
            "all" => (check::Selection::All, Emulated::All),
            _ => {
                return Err(Error::bad_option(format!(
                    "cases \"{cases}\" are none of all, quick and, in builds for shaders, cover"
                )));
            }
        };
        let gpu = Gpu::open(&GpuOptions { emulated, ..GpuOptions::default() }).await?;
        let row = |row: &check::Row| {
            if let Ok(value) = to_value(row) {
                tell(&on_row, &value);
            }
        };
        #[cfg(feature = "lab")]
        let chosen = (cases == "cover").then(|| {
            // Variants that this device cannot run are reported as such and stand for nothing.
            let here: Vec<_> = kernels::all().iter().filter(|v| named(v, &filter)).collect();
            let (runs, lacks): (Vec<_>, Vec<_>) = here.into_iter().partition(|v| v.lacks(gpu.caps()).is_none());
            [check::Cover::Values.of(&runs), lacks].concat()
        });
        #[cfg(not(feature = "lab"))]
        let chosen: Option<Vec<&Variant>> = None;
        let asked = |variant: &Variant| {
            named(variant, &filter) && chosen.as_ref().is_none_or(|chosen| chosen.contains(&variant))
        };
        let report = check::check(&gpu, asked, selection, row).await;
        gpu.destroy();
        to_value(&report?)
    })
}

/// Puts these templates, an array of [name below shaders/, text], in the place of the build's. Resolves to the names of
/// the variants that `filter` lets through, as [`kernel_check`] does, and whose text has changed.
#[cfg(feature = "lab")]
#[wasm_bindgen(js_name = kernelTemplates, unchecked_return_type = "Promise<string[]>")]
pub fn kernel_templates(templates: JsValue, filter: String) -> Promise {
    promise(async move {
        let templates: Vec<(String, String)> =
            serde_wasm_bindgen::from_value(templates).map_err(|e| Error::bad_option(format!("templates: {e}")))?;
        let changed = kernels::lab::replace(&templates, |variant| named(variant, &filter))?;
        to_value(&changed.iter().map(ToString::to_string).collect::<Vec<_>>())
    })
}

/// Measures a model, `{model}`, or random weights in a known model's shape, with what options.toml has of `bench` and
/// `load`. With `{quality: N}` it compares the model's lane with the exact one at N positions instead.
#[wasm_bindgen(unchecked_return_type = "Promise<BenchReport | QualityReport>")]
pub fn bench(options: JsValue, on_progress: Function, signal: AbortSignal, compile: Function) -> Promise {
    promise(async move {
        let (mut given, source) = options::bench(&options)?;
        given.load.tuning = tuning::read().await;
        let abort = Abort::follow(signal.clone());
        let report = |status: Status| tell_progress(&on_progress, &status);
        let progress = |progress: Progress| report(Status::Load(progress));
        let files = match source {
            Some(source) => {
                let mut load = Load::new(source);
                // A model that this browser keeps is read from there. Of another one nothing is kept: its bytes are
                // read once.
                if let Source::Remote(remote) = &load.source {
                    let stored = store_of(&load, remote, &signal).await.open(&ModelKey::new(remote.url())).await;
                    load.page.cache = stored.is_ok_and(|files| files.is_some());
                }
                Some(origin(&load, signal).await.files(&progress, &abort.cancel).await?)
            }
            None => None,
        };
        if let Some(positions) = given.quality {
            let files = files.ok_or_else(|| {
                Error::bad_option("bench: quality needs a model; random weights in a shape say nothing")
            })?;
            return to_value(&crate::bench::quality(&files, &given.load, positions, &progress, &abort.cancel).await?);
        }
        let report = crate::bench::run(&given, files.as_ref(), Some(&Beside(compile)), &report, &abort.cancel).await?;
        tuning::write(&report.tuning).await;
        to_value(&report)
    })
}

/// The names that `bench` takes.
#[derive(Serialize)]
struct BenchNames {
    shapes: Vec<&'static str>,
    quants: Vec<&'static str>,
}

/// The shapes and weight types that `bench` knows.
#[wasm_bindgen(js_name = benchNames, unchecked_return_type = "BenchNames")]
pub fn bench_names() -> std::result::Result<JsValue, Thrown> {
    let names =
        BenchNames { shapes: SHAPES.iter().map(|shape| shape.name).collect(), quants: Quant::names().collect() };
    Ok(to_value(&names)?)
}

fn disposed() -> Error {
    Error::new(ErrorKind::Disposed, "the engine was disposed of; load the model again")
}

/// As JSON would have it: plain objects, plain numbers.
pub(super) fn to_value(value: &impl Serialize) -> Result<JsValue> {
    value
        .serialize(&serde_wasm_bindgen::Serializer::json_compatible())
        .map_err(|e| Error::internal(format!("a result could not be passed to JavaScript: {e}")))
}

/// Calls back. What the page throws is the page's; it must not end the work.
fn tell(function: &Function, value: &JsValue) {
    if let Err(e) = function.call1(&JsValue::UNDEFINED, value) {
        web_sys::console::error_2(&"millrace: a callback threw".into(), &e);
    }
}

/// The object with further properties.
fn with(object: JsValue, properties: &[(&str, JsValue)]) -> JsValue {
    for (name, value) in properties {
        // Setting a property of a fresh plain object does not fail.
        let _ = Reflect::set(&object, &(*name).into(), value);
    }
    object
}

pub(super) fn tell_progress(function: &Function, progress: &impl Serialize) {
    if let Ok(value) = to_value(progress) {
        tell(function, &value);
    }
}

fn delta_value(delta: &Delta) -> JsValue {
    let logprobs =
        if delta.logprobs.is_empty() { JsValue::UNDEFINED } else { to_value(&delta.logprobs).unwrap_or_default() };
    let parts = if delta.parts.is_empty() { JsValue::UNDEFINED } else { to_value(&delta.parts).unwrap_or_default() };
    js::object(&[
        ("text", delta.text.as_str().into()),
        ("tokens", Uint32Array::from(delta.tokens.as_slice()).into()),
        ("logprobs", logprobs),
        ("parts", parts),
    ])
}

/// The contract's object; logits as typed arrays, which are moved rather than copied between threads.
fn generation_value(mut generation: Generation) -> Result<JsValue> {
    let logits = generation.logits.take();
    let all = generation.all_logits.take();
    let value = to_value(&generation)?;
    let set = |name: &str, v: JsValue| {
        Reflect::set(&value, &name.into(), &v).map_err(|e| super::from_js(&e, ErrorKind::Internal, name))
    };
    if let Some(logits) = logits {
        set("logits", Float32Array::from(logits.as_slice()).into())?;
    }
    if let Some(all) = all {
        set("all_logits", all.iter().map(|l| Float32Array::from(l.as_slice())).collect::<Array>().into())?;
    }
    Ok(value)
}
