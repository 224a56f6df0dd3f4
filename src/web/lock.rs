//! Web Locks: one writer at a time for a model, among all Workers and tabs of this origin. The browser frees the lock
//! of a Worker that ends, however it ends.

use futures_channel::oneshot;
use futures_util::future::{Either, select};
use js_sys::{Function, Promise};
use wasm_bindgen::JsValue;
use wasm_bindgen::closure::Closure;
use wasm_bindgen_futures::JsFuture;
use web_sys::AbortSignal;

use super::errors::from_js;
use crate::base::js;
use crate::error::{Error, ErrorKind, Result};

/// A lock that is held until this is dropped.
pub(super) struct WebLock {
    release: Function,
}

impl Drop for WebLock {
    fn drop(&mut self) {
        // A promise's own resolver does not throw.
        let _ = self.release.call0(&JsValue::UNDEFINED);
    }
}

/// What to do if the lock is held.
pub(super) enum Otherwise<'a> {
    /// Wait, until the signal is aborted.
    Wait(Option<&'a AbortSignal>),
    /// Go without.
    Leave,
}

/// Whether this browser has Web Locks (it has them in secure contexts).
pub(super) fn available() -> bool {
    js::path(&js_sys::global(), &["navigator", "locks", "request"]).is_function()
}

/// The lock `name`, or `None` if it is held and waiting is not wanted. Fails with `ABORTED` or `STORAGE`.
pub(super) async fn acquire(name: &str, otherwise: Otherwise<'_>) -> Result<Option<WebLock>> {
    let (options, signal) = match otherwise {
        Otherwise::Wait(Some(signal)) => (js::object(&[("signal", signal.into())]), Some(signal)),
        Otherwise::Wait(None) => (js::object(&[]), None),
        Otherwise::Leave => (js::object(&[("ifAvailable", true.into())]), None),
    };
    let (granted, grant) = oneshot::channel();
    let callback = Closure::once_into_js(move |lock: JsValue| -> JsValue {
        if lock.is_null() {
            // The receiver is gone if this fails; there is no lock to give back.
            let _ = granted.send(None);
            return JsValue::UNDEFINED;
        }
        let mut release = None;
        let held = Promise::new(&mut |resolve, _| release = Some(resolve));
        // If the receiver is gone, the lock comes back in the error and is freed by being dropped.
        let _ = granted.send(release.map(|release| WebLock { release }));
        held.into()
    });
    let locks = js::path(&js_sys::global(), &["navigator", "locks"]);
    let request = js::call(&locks, "request", &[&name.into(), &options, &callback])
        .map_err(|e| from_js(&e, ErrorKind::Storage, "lock"))?;
    // The promise settles when the lock is given back, or at once if there is none to be had: then it says why.
    match select(grant, JsFuture::from(Promise::from(request))).await {
        Either::Left((Ok(lock), _)) => Ok(lock),
        Either::Left((Err(_), request)) => Err(refused(request.await, signal)),
        Either::Right((result, mut grant)) => match grant.try_recv() {
            Ok(Some(lock)) => Ok(lock),
            _ => Err(refused(result, signal)),
        },
    }
}

fn refused(result: std::result::Result<JsValue, JsValue>, signal: Option<&AbortSignal>) -> Error {
    match result {
        // The signal's reason can be anything.
        Err(_) if signal.is_some_and(AbortSignal::aborted) => Error::aborted(),
        Err(e) => from_js(&e, ErrorKind::Storage, "lock"),
        Ok(_) => Error::storage("lock: the browser gave none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    async fn one_at_a_time() {
        let first = acquire("test-lock", Otherwise::Wait(None)).await.unwrap();
        assert!(first.is_some());
        assert!(acquire("test-lock", Otherwise::Leave).await.unwrap().is_none());
        let controller = web_sys::AbortController::new().unwrap();
        controller.abort_with_reason(&"the user left".into());
        let error = acquire("test-lock", Otherwise::Wait(Some(&controller.signal()))).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Aborted);
        drop(first);
        assert!(acquire("test-lock", Otherwise::Wait(None)).await.unwrap().is_some());
    }
}
