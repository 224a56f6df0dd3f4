//! Wall-clock time, natively and in the browser.

/// Milliseconds from an arbitrary start; only differences mean anything.
#[cfg(not(target_arch = "wasm32"))]
pub fn now_ms() -> f64 {
    use std::sync::OnceLock;
    use std::time::Instant;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs_f64() * 1000.0
}

/// Milliseconds from an arbitrary start; only differences mean anything.
#[cfg(target_arch = "wasm32")]
pub fn now_ms() -> f64 {
    use wasm_bindgen::JsCast as _;
    let performance = super::js::get(&js_sys::global(), "performance");
    performance.dyn_into::<web_sys::Performance>().map_or_else(|_| js_sys::Date::now(), |p| p.now())
}

/// Waits `ms` milliseconds. Natively it blocks the thread.
#[cfg(not(target_arch = "wasm32"))]
pub async fn sleep(ms: f64) {
    std::thread::sleep(std::time::Duration::from_secs_f64(ms.max(0.0) / 1000.0));
}

/// Waits `ms` milliseconds.
#[cfg(target_arch = "wasm32")]
pub async fn sleep(ms: f64) {
    let promise = js_sys::Promise::new(&mut |resolve, _| {
        // Pages and Workers have `setTimeout`; where it is missing the promise resolves at once.
        if super::js::call(&js_sys::global(), "setTimeout", &[&resolve, &ms.into()]).is_err() {
            let _ = resolve.call0(&wasm_bindgen::JsValue::UNDEFINED);
        }
    });
    let _ = wasm_bindgen_futures::JsFuture::from(promise).await;
}

/// Milliseconds since 1970.
pub(crate) fn epoch_ms() -> u64 {
    #[cfg(target_arch = "wasm32")]
    return js_sys::Date::now() as u64;
    #[cfg(not(target_arch = "wasm32"))]
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

/// Seconds since 1970 as the clock on the wall shows them: local time in a browser, UTC natively.
pub(crate) fn local_seconds() -> i64 {
    let seconds = (epoch_ms() / 1000) as i64;
    #[cfg(target_arch = "wasm32")]
    return seconds - js_sys::Date::new_0().get_timezone_offset() as i64 * 60;
    #[cfg(not(target_arch = "wasm32"))]
    seconds
}
