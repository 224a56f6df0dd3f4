//! Messages of the wasm side: to the package's logger if one is set, else to the console.

use std::cell::RefCell;

use js_sys::Function;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

thread_local! {
    static LOGGER: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Takes a function that gets a level (`warn` or `info`) and a text; without one the console gets it.
#[wasm_bindgen(js_name = logTo)]
pub fn log_to(logger: Function) {
    LOGGER.set(Some(logger));
}

pub(super) fn warn(text: &str) {
    say("warn", text);
}

pub(super) fn info(text: &str) {
    say("info", text);
}

fn say(level: &str, text: &str) {
    LOGGER.with_borrow(|logger| match logger {
        // What a logger throws is its own.
        Some(logger) => drop(logger.call2(&JsValue::UNDEFINED, &level.into(), &text.into())),
        None => web_sys::console::warn_1(&format!("millrace: {text}").into()),
    });
}
