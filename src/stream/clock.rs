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
