//! Errors across the border: ours become a JavaScript `Error` with a `code`, the browser's become ours.

use std::error::Error as StdError;

use js_sys::Reflect;
use wasm_bindgen::{JsCast, JsValue};

use crate::base::js;
use crate::error::{Error, ErrorKind, SchemaFault};

/// A JavaScript `Error` with our message, the stable code in `code`, and what it came of in `cause`.
pub fn to_js(error: &Error) -> JsValue {
    let out: JsValue = js_sys::Error::new(error.message()).into();
    // Setting a property of a fresh Error does not fail.
    let _ = Reflect::set(&out, &"code".into(), &error.code().into());
    let _ = Reflect::set(&out, &"name".into(), &"MillraceError".into());
    if let Some(SchemaFault { pointer, keyword, reason }) = error.source().and_then(|source| source.downcast_ref()) {
        let data = js::object(&[("pointer", pointer.into()), ("keyword", keyword.into()), ("reason", reason.into())]);
        let _ = Reflect::set(&out, &"data".into(), &data);
    } else if let Some(source) = error.source() {
        let _ = Reflect::set(&out, &"cause".into(), &cause(source));
    }
    out
}

/// The cause of an error: an [`Error`] of this crate, or a foreign error with its own cause.
fn cause(error: &(dyn StdError + 'static)) -> JsValue {
    if let Some(ours) = error.downcast_ref::<Error>() {
        return to_js(ours);
    }
    let out: JsValue = js_sys::Error::new(&error.to_string()).into();
    if let Some(source) = error.source() {
        let _ = Reflect::set(&out, &"cause".into(), &cause(source));
    }
    out
}

/// An error that JavaScript catches.
pub struct Thrown(Error);

impl From<Error> for Thrown {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<Thrown> for JsValue {
    fn from(thrown: Thrown) -> Self {
        to_js(&thrown.0)
    }
}

/// The name of a DOM exception or an error class: `AbortError`, `QuotaExceededError`, `TypeError`, …
pub(super) fn name_of(value: &JsValue) -> String {
    js::string(value, "name")
}

/// What a thrown value says.
pub(super) fn text_of(value: &JsValue) -> String {
    match (js::get(value, "message").as_string(), name_of(value)) {
        (Some(message), name) if name.is_empty() || name == "Error" => message,
        (Some(message), name) => format!("{name}: {message}"),
        (None, _) => value.as_string().unwrap_or_else(|| format!("{value:?}")),
    }
}

/// A value thrown by the browser as an error of `kind` about `place`; an aborted signal is `ABORTED` whatever the kind.
pub fn from_js(value: &JsValue, kind: ErrorKind, place: &str) -> Error {
    if value.dyn_ref::<web_sys::DomException>().is_some() && name_of(value) == "AbortError" {
        return Error::aborted();
    }
    Error::new(kind, format!("{place}: {}", text_of(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    fn codes_cross_the_border() {
        let error = to_js(&Error::bad_option("topK: must be a whole number"));
        assert!(error.is_instance_of::<js_sys::Error>());
        assert_eq!(js::string(&error, "code"), "BAD_OPTION");
        assert_eq!(js::string(&error, "message"), "topK: must be a whole number");
        assert!(js::get(&error, "cause").is_undefined());
    }

    #[wasm_bindgen_test]
    fn causes_cross_the_border() {
        let error = Error::template("the chat template fails")
            .with_source(Error::internal("line 3").with_source(std::fmt::Error));
        let cause = js::get(&to_js(&error), "cause");
        assert_eq!((js::string(&cause, "code"), js::string(&cause, "message")), ("INTERNAL".into(), "line 3".into()));
        let last = js::get(&cause, "cause");
        assert!(last.is_instance_of::<js_sys::Error>());
        assert_eq!(
            (js::string(&last, "message"), js::string(&last, "code")),
            (std::fmt::Error.to_string(), String::new())
        );
    }

    #[wasm_bindgen_test]
    fn thrown_values_become_errors() {
        let abort = web_sys::DomException::new_with_message_and_name("stopped", "AbortError").unwrap();
        assert_eq!(from_js(&abort, ErrorKind::Network, "x").kind(), ErrorKind::Aborted);
        let error = from_js(&js_sys::TypeError::new("Failed to fetch"), ErrorKind::Network, "http://x/");
        assert_eq!((error.kind(), error.message()), (ErrorKind::Network, "http://x/: TypeError: Failed to fetch"));
        assert_eq!(from_js(&"text".into(), ErrorKind::Storage, "x").message(), "x: text");
    }
}
