//! The compiler of grammars: another wasm module, which the Worker fetches when it is first asked for.

use futures_util::future::LocalBoxFuture;
use js_sys::{Array, Function, Promise, Uint32Array};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use super::from_js;
use crate::base::{js, now_ms};
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::{Automaton, Compiler, Grammar, Warning, refused};

/// What compiles in the Worker: a function of a description and whether to be lenient. Its promise resolves to the
/// module's arrays, or to what it refused.
pub(super) struct Beside(pub(super) Function);

impl Compiler for Beside {
    fn compile(&self, description: String, lenient: bool) -> LocalBoxFuture<'_, Result<Grammar>> {
        Box::pin(async move {
            let started = now_ms();
            let failed = |e: JsValue| from_js(&e, ErrorKind::Network, "the compiler of grammars could not be loaded");
            let promise = self.0.call2(&JsValue::UNDEFINED, &description.into(), &lenient.into()).map_err(failed)?;
            let made = JsFuture::from(Promise::resolve(&promise)).await.map_err(failed)?;
            let error = js::get(&made, "error");
            if let Some(error) = error.dyn_ref::<Array>() {
                return Err(refused(&error.get(0).as_string().unwrap_or_default(), place(error, 1)));
            }
            let words = |name: &str| {
                js::get(&made, name).dyn_into::<Uint32Array>().map(|array| array.to_vec()).unwrap_or_default()
            };
            let numbers = words("numbers");
            let automaton = match *numbers.as_slice() {
                [classes, states, symbols, start, ..] => Automaton::from_parts(
                    words("table"),
                    words("info"),
                    words("states"),
                    classes,
                    states,
                    symbols,
                    start,
                ),
                _ => None,
            };
            let warnings = js::get(&made, "warnings").dyn_into::<Array>().unwrap_or_default();
            let warnings =
                warnings.iter().filter_map(|one| one.dyn_into::<Array>().ok()).map(|one| place(&one, 0)).collect();
            let automaton = automaton
                .ok_or_else(|| Error::internal("the compiler of grammars made arrays that do not fit together"))?;
            Ok(Grammar { automaton, warnings, ms: now_ms() - started })
        })
    }
}

/// Pointer, keyword and reason from the `at`-th of a list on.
fn place(list: &Array, at: u32) -> Warning {
    let text = |i: u32| list.get(at + i).as_string().unwrap_or_default();
    Warning { pointer: text(0), keyword: text(1), reason: text(2) }
}
