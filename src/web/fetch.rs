//! HTTP by the browser's `fetch`, or by the caller's own: the body arrives in pieces and leaves for the store at once.

use futures_util::future::{Either, LocalBoxFuture, select};
use js_sys::{Array, Function, Promise, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{
    AbortController, AbortSignal, Headers, ReadableStreamDefaultReader, RequestCache, RequestInit, Response,
};

use super::errors::{from_js, text_of};
use crate::base::{Cancel, epoch_ms, js, sleep};
use crate::error::{Error, ErrorKind, Result};
use crate::source::transport::{Body, Reply, Request, Transport};

/// How long nothing may arrive, ms.
const SILENCE_MS: f64 = 30_000.0;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = fetch)]
    fn fetch_with(url: &str, init: &RequestInit) -> Promise;
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(callback: &Function, ms: f64) -> JsValue;
    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(id: &JsValue);
}

/// A timer that is forgotten when dropped.
struct Timer {
    id: JsValue,
    rings: JsFuture,
}

impl Timer {
    fn new(ms: f64) -> Self {
        let mut id = JsValue::UNDEFINED;
        let rings = JsFuture::from(Promise::new(&mut |resolve, _| id = set_timeout(&resolve, ms)));
        Self { id, rings }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        clear_timeout(&self.id);
    }
}

/// GET requests through `fetch`. The HTTP cache is bypassed: the bytes would lie on the disk twice.
#[derive(Default)]
pub struct FetchTransport {
    signal: Option<AbortSignal>,
    /// In place of the browser's.
    fetch: Option<Function>,
    /// An origin, and the token that is sent to it.
    token: Option<(String, String)>,
}

impl FetchTransport {
    /// Requests end with `ABORTED` as soon as `signal` is aborted. `fetch` takes the place of the browser's; a token,
    /// `(origin, token)`, is sent to its own origin only.
    pub fn new(signal: Option<AbortSignal>, fetch: Option<Function>, token: Option<(String, String)>) -> Self {
        Self { signal, fetch, token }
    }

    fn send(&self, request: &Request<'_>, own: &AbortController) -> std::result::Result<Promise, JsValue> {
        let headers = Headers::new()?;
        let plain = js_sys::Object::new();
        let range = request.range_header().map(|range| ("Range", range));
        let token = self.token.as_ref().filter(|(origin, _)| origin_of(request.url).as_deref() == Some(origin));
        let token = token.map(|(_, token)| ("Authorization", format!("Bearer {token}")));
        for (name, value) in range.into_iter().chain(token) {
            headers.set(name, &value)?;
            js_sys::Reflect::set(&plain, &name.into(), &value.into())?;
        }
        let signal = match &self.signal {
            Some(signal) => either(signal, &own.signal()),
            None => own.signal(),
        };
        match &self.fetch {
            Some(fetch) => {
                let init = js::object(&[("headers", plain.into()), ("signal", signal.into())]);
                Ok(Promise::resolve(&fetch.call2(&JsValue::UNDEFINED, &request.url.into(), &init)?))
            }
            None => {
                let init = RequestInit::new();
                init.set_cache(RequestCache::NoStore);
                init.set_headers(&headers);
                init.set_signal(Some(&signal));
                Ok(fetch_with(request.url, &init))
            }
        }
    }

    /// `fetch` rejects with a bare TypeError for no connection, a blocked port, and a server that does not allow this
    /// origin.
    fn failed(&self, error: &JsValue, url: &str) -> Error {
        if is_aborted(self.signal.as_ref()) {
            return Error::aborted();
        }
        Error::network(format!(
            "{url}: the server could not be reached, or does not allow pages of other origins to read it (CORS) ({}); check the connection and the address, and try again",
            text_of(error)
        ))
    }
}

/// The scheme, host and port of an address.
pub(super) fn origin_of(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    Some(format!("{scheme}://{}", rest.split(['/', '?', '#']).next()?))
}

/// A signal of both; of the first alone in browsers that cannot have that.
fn either(a: &AbortSignal, b: &AbortSignal) -> AbortSignal {
    let both: Array = [a, b].into_iter().map(JsValue::from).collect();
    let class = js::get(&js_sys::global(), "AbortSignal");
    js::call(&class, "any", &[&both]).ok().and_then(|signal| signal.dyn_into().ok()).unwrap_or_else(|| a.clone())
}

fn silent(url: &str) -> Error {
    Error::network(format!(
        "{url}: nothing has arrived for {} s; check the connection and try again",
        SILENCE_MS / 1000.0
    ))
}

impl Transport for FetchTransport {
    fn is_online(&self) -> bool {
        // Only a plain no says something: browsers answer yes to any network, and elsewhere there is no such property.
        js::path(&js_sys::global(), &["navigator", "onLine"]) != JsValue::FALSE
    }

    fn get<'a>(&'a self, request: Request<'a>, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            cancel.check()?;
            let url = request.url;
            let own = AbortController::new().map_err(|e| from_js(&e, ErrorKind::Internal, "fetch"))?;
            let guard = Guard(own.clone());
            let sent = self.send(&request, &own).map_err(|e| self.failed(&e, url))?;
            let mut timer = Timer::new(SILENCE_MS);
            let response = match select(JsFuture::from(sent), &mut timer.rings).await {
                Either::Left((response, _)) => response.map_err(|e| self.failed(&e, url))?,
                Either::Right(_) => return Err(silent(url)),
            };
            let response: Response =
                response.dyn_into().map_err(|_| Error::bad_option("fetch: did not resolve with a Response"))?;
            let headers = response.headers();
            let header = |name: &str| headers.get(name).ok().flatten();
            let reader = response.body().map(|stream| stream.get_reader().unchecked_into());
            let body = FetchBody {
                url: url.to_owned(),
                reader,
                signal: self.signal.clone(),
                cancel: cancel.clone(),
                _guard: guard,
            };
            Ok(Reply::new(response.status(), header, epoch_ms() as f64 / 1000.0, Box::new(body)))
        })
    }

    fn sleep(&self, ms: f64) -> LocalBoxFuture<'_, ()> {
        Box::pin(sleep(ms))
    }
}

/// Ends its request when dropped.
struct Guard(AbortController);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether a rejection is the signal's doing. Its reason can be anything, so the rejection itself does not tell.
fn is_aborted(signal: Option<&AbortSignal>) -> bool {
    signal.is_some_and(AbortSignal::aborted)
}

struct FetchBody {
    url: String,
    /// `None` for an answer without a body, and after the end.
    reader: Option<ReadableStreamDefaultReader>,
    signal: Option<AbortSignal>,
    cancel: Cancel,
    _guard: Guard,
}

impl Body for FetchBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let Some(reader) = &self.reader else { return Ok(None) };
            self.cancel.check()?;
            let mut timer = Timer::new(SILENCE_MS);
            let result = match select(JsFuture::from(reader.read()), &mut timer.rings).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => return Err(silent(&self.url)),
            };
            let result = result.map_err(|e| match is_aborted(self.signal.as_ref()) {
                true => Error::aborted(),
                false => Error::network(format!(
                    "{}: the connection failed while reading ({}); try again",
                    self.url,
                    text_of(&e)
                )),
            })?;
            if js::get(&result, "done").is_truthy() {
                self.reader = None;
                return Ok(None);
            }
            Ok(Some(Uint8Array::new(&js::get(&result, "value")).to_vec()))
        })
    }
}

impl Drop for FetchBody {
    fn drop(&mut self) {
        if let Some(reader) = self.reader.take() {
            // Ends the download. A stream that has failed already refuses, which is as good.
            spawn_local(async move {
                let _ = JsFuture::from(reader.cancel()).await;
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Remote;
    use crate::store::{DownloadOptions, Memory, fetch};
    use crate::web::blob::blob_of;
    use std::rc::Rc;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    async fn a_body_arrives_whole() {
        let bytes = crate::store::suite::bytes(1, 1_000_000);
        let url = web_sys::Url::create_object_url_with_blob(&blob_of(&bytes).unwrap()).unwrap();
        let remote = Remote::File { url: url.clone(), projector: None };
        let options = DownloadOptions { shard: 300_000, ..DownloadOptions::default() };
        let (files, storage) =
            fetch(&remote, &Memory::store(), Rc::new(FetchTransport::default()), options, &|_| (), &Cancel::new())
                .await
                .unwrap();
        assert!(!storage.cached);
        let source = files.values().next().unwrap();
        assert_eq!(source.read(0, bytes.len()).await.unwrap(), bytes);
        web_sys::Url::revoke_object_url(&url).unwrap();
    }

    #[wasm_bindgen_test]
    async fn what_is_missing_and_what_is_aborted() {
        let here = js::string(&js::get(&js_sys::global(), "location"), "origin");
        let missing = format!("{here}/no-such-file.gguf");
        let cancel = Cancel::new();
        assert_eq!(FetchTransport::default().get(Request::whole(&missing), &cancel).await.ok().unwrap().status, 404);
        // A port that browsers never connect to.
        let error = FetchTransport::default().get(Request::whole("http://127.0.0.1:1/"), &cancel).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Network, "{error}");
        let controller = AbortController::new().unwrap();
        controller.abort_with_reason(&"the user left".into());
        let error = FetchTransport::new(Some(controller.signal()), None, None)
            .get(Request::whole(&missing), &cancel)
            .await
            .err()
            .unwrap();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    }

    #[wasm_bindgen_test]
    async fn a_fetch_of_the_callers_own_gets_address_and_headers() {
        let own = Function::new_with_args(
            "url, init",
            "return Promise.resolve(new Response(url + ' ' + JSON.stringify(init.headers) + ' ' + (init.signal instanceof AbortSignal)))",
        );
        let token = Some(("https://example.org".to_owned(), "secret".to_owned()));
        let transport = FetchTransport::new(None, Some(own), token);
        for (url, expected) in [
            (
                "https://example.org/a",
                r#"https://example.org/a {"Range":"bytes=5-9","Authorization":"Bearer secret"} true"#,
            ),
            ("https://example.org.evil/a", r#"https://example.org.evil/a {"Range":"bytes=5-9"} true"#),
        ] {
            let mut reply =
                transport.get(Request { url, range: Some((5, Some(10))) }, &Cancel::new()).await.ok().unwrap();
            assert_eq!(String::from_utf8(reply.body.next().await.unwrap().unwrap()).unwrap(), expected);
        }
    }
}
