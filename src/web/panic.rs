//! Panics: logged with their place, and reported to pending promises, before the wasm instance stops for good.

use std::cell::RefCell;
use std::future::Future;
use std::sync::Once;

use js_sys::{Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen_futures::spawn_local;

use super::errors::to_js;
use crate::error::{Error, Result};

thread_local! {
    /// How to reject the promises that are still open, by number.
    static WAITING: RefCell<(u64, Vec<(u64, Function)>)> = const { RefCell::new((0, Vec::new())) };
}

fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            console_error_panic_hook::hook(info);
            previous(info);
            // In a panic inside of `promise` itself the list is borrowed; then no promise can be rejected.
            let waiting =
                WAITING.with(|w| w.try_borrow_mut().map(|mut w| std::mem::take(&mut w.1)).unwrap_or_default());
            let error = to_js(&Error::internal(format!("the engine panicked, which is a bug: {info}; load it again")));
            for (_, reject) in waiting {
                let _ = reject.call1(&JsValue::UNDEFINED, &error);
            }
        }));
    });
}

/// A promise of what `work` gives. It rejects with our errors, and with `INTERNAL` if anything panics while it is open:
/// a plain future would leave it open for ever.
pub(super) fn promise(work: impl Future<Output = Result<JsValue>> + 'static) -> Promise {
    install_hook();
    let mut settle = None;
    let promise = Promise::new(&mut |resolve, reject| settle = Some((resolve, reject)));
    let Some((resolve, reject)) = settle else { return promise };
    let number = WAITING.with_borrow_mut(|(next, waiting)| {
        *next += 1;
        waiting.push((*next, reject.clone()));
        *next
    });
    spawn_local(async move {
        let result = work.await;
        WAITING.with_borrow_mut(|(_, waiting)| waiting.retain(|(n, _)| *n != number));
        // A promise's own functions do not throw.
        let _ = match result {
            Ok(value) => resolve.call1(&JsValue::UNDEFINED, &value),
            Err(error) => reject.call1(&JsValue::UNDEFINED, &to_js(&error)),
        };
    });
    promise
}
