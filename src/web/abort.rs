//! An `AbortSignal` sets a [`Cancel`].

use wasm_bindgen::JsCast;
use wasm_bindgen::closure::Closure;
use web_sys::AbortSignal;

use crate::base::Cancel;

/// A [`Cancel`] that is set when the signal is aborted, for as long as this lives.
pub(super) struct Abort {
    pub cancel: Cancel,
    signal: AbortSignal,
    listener: Closure<dyn Fn()>,
}

impl Abort {
    pub fn follow(signal: AbortSignal) -> Self {
        let cancel = Cancel::new();
        if signal.aborted() {
            cancel.cancel();
        }
        let set = cancel.clone();
        let listener = Closure::<dyn Fn()>::new(move || set.cancel());
        // Adding a listener to a signal does not fail.
        let _ = signal.add_event_listener_with_callback("abort", listener.as_ref().unchecked_ref());
        Self { cancel, signal, listener }
    }
}

impl Drop for Abort {
    fn drop(&mut self) {
        let _ = self.signal.remove_event_listener_with_callback("abort", self.listener.as_ref().unchecked_ref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    fn follows_the_signal() {
        let controller = web_sys::AbortController::new().unwrap();
        let before = Abort::follow(controller.signal());
        assert!(!before.cancel.is_cancelled());
        controller.abort();
        assert!(before.cancel.is_cancelled());
        assert!(Abort::follow(controller.signal()).cancel.is_cancelled());
    }
}
