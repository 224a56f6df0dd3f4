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
    crate::web::now_ms()
}

/// Waits so many milliseconds. Natively nobody else has the thread: it sleeps.
#[cfg(not(target_arch = "wasm32"))]
pub async fn sleep(ms: f64) {
    std::thread::sleep(std::time::Duration::from_secs_f64(ms.max(0.0) / 1000.0));
}

/// Waits so many milliseconds.
#[cfg(target_arch = "wasm32")]
pub async fn sleep(ms: f64) {
    crate::web::sleep(ms).await;
}
