//! What loading a model would take, before anything of it is kept.

use js_sys::{Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use web_sys::AbortSignal;

use super::abort::Abort;
use super::bindings::{tell_progress, to_value};
use super::load::{draft_origin, origin};
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
        let (model, draft) = (origin(&load, signal.clone()).await, draft_origin(&load, signal).await);
        to_value(&Engine::plan_load(&model, draft.as_ref(), &load.options, room, &report, &abort.cancel).await?)
    })
}
