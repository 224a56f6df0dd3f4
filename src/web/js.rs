//! Small steps into JavaScript that more than one module takes.

use js_sys::{Array, Function, Promise, Reflect};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

/// `target.name`, or `undefined` where there is no such property or no such target.
pub(super) fn get(target: &JsValue, name: &str) -> JsValue {
    Reflect::get(target, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

/// `target.a.b.c`.
pub(super) fn path(target: &JsValue, names: &[&str]) -> JsValue {
    names.iter().fold(target.clone(), |value, name| get(&value, name))
}

/// The string `target.name`, or nothing.
pub(super) fn string(target: &JsValue, name: &str) -> String {
    get(target, name).as_string().unwrap_or_default()
}

/// `target.name(...args)`, for methods that web-sys does not have without unstable interfaces.
pub(super) fn call(target: &JsValue, name: &str, args: &[&JsValue]) -> Result<JsValue, JsValue> {
    let function: Function = get(target, name).dyn_into()?;
    Reflect::apply(&function, target, &args.iter().copied().collect::<Array>())
}

/// `await target.name(...args)`.
pub(super) async fn call_async(target: &JsValue, name: &str, args: &[&JsValue]) -> Result<JsValue, JsValue> {
    JsFuture::from(Promise::resolve(&call(target, name, args)?)).await
}

/// An object of these properties.
pub(super) fn object(properties: &[(&str, JsValue)]) -> JsValue {
    let object = js_sys::Object::new();
    for (name, value) in properties {
        // Setting a property of a fresh plain object does not fail.
        let _ = Reflect::set(&object, &(*name).into(), value);
    }
    object.into()
}

/// Resolves after so many milliseconds.
pub async fn sleep(ms: f64) {
    let promise = Promise::new(&mut |resolve, _| {
        // Pages and Workers have it; elsewhere nobody waits.
        if call(&js_sys::global(), "setTimeout", &[&resolve, &ms.into()]).is_err() {
            let _ = resolve.call0(&JsValue::UNDEFINED);
        }
    });
    let _ = JsFuture::from(promise).await;
}

/// Milliseconds from an arbitrary start; only differences mean anything.
pub fn now_ms() -> f64 {
    let performance = get(&js_sys::global(), "performance");
    performance.dyn_into::<web_sys::Performance>().map_or_else(|_| js_sys::Date::now(), |p| p.now())
}
