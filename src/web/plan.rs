//! What loading a model would take, before anything of it is kept.

use js_sys::{Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use web_sys::AbortSignal;

use super::abort::Abort;
use super::bindings::{tell_progress, to_value};
use super::load::origin;
use super::options;
use super::panic::promise;
use crate::base::Progress;
use crate::engine::{Engine, Room};

/// What loading a model would take, from its header alone: takes the options of `load`, the bytes `beside` it, and a
/// function that gets progress. Nothing is kept.
#[wasm_bindgen(js_name = planModel, unchecked_return_type = "Promise<LoadPlan>")]
pub fn plan_model(options: JsValue, on_progress: Function, signal: AbortSignal) -> Promise {
    promise(async move {
        let load = options::load(&options, true)?;
        let abort = Abort::follow(signal.clone());
        let report = |progress: Progress| tell_progress(&on_progress, &progress);
        let room = Room { memory: load.page.memory, beside: load.beside };
        to_value(&Engine::plan_load(&origin(&load, signal).await, &load.options, room, &report, &abort.cancel).await?)
    })
}
