//! Small steps into JavaScript that more than one room takes.

use js_sys::{Array, Function, Promise, Reflect};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

/// `target.name`, or `undefined` where there is no such property or no such target.
pub(crate) fn get(target: &JsValue, name: &str) -> JsValue {
    Reflect::get(target, &name.into()).unwrap_or(JsValue::UNDEFINED)
}

/// `target.a.b.c`.
pub(crate) fn path(target: &JsValue, names: &[&str]) -> JsValue {
    names.iter().fold(target.clone(), |value, name| get(&value, name))
}

/// The string `target.name`, or nothing.
pub(crate) fn string(target: &JsValue, name: &str) -> String {
    get(target, name).as_string().unwrap_or_default()
}

/// `target.name(...args)`, for methods that web-sys does not have without unstable interfaces.
pub(crate) fn call(target: &JsValue, name: &str, args: &[&JsValue]) -> Result<JsValue, JsValue> {
    let function: Function = get(target, name).dyn_into()?;
    Reflect::apply(&function, target, &args.iter().copied().collect::<Array>())
}

/// `await target.name(...args)`.
pub(crate) async fn call_async(target: &JsValue, name: &str, args: &[&JsValue]) -> Result<JsValue, JsValue> {
    JsFuture::from(Promise::resolve(&call(target, name, args)?)).await
}

/// An object of these properties.
pub(crate) fn object(properties: &[(&str, JsValue)]) -> JsValue {
    let object = js_sys::Object::new();
    for (name, value) in properties {
        // Setting a property of a fresh plain object does not fail.
        let _ = Reflect::set(&object, &(*name).into(), value);
    }
    object.into()
}
