//! HTTP by the browser's `fetch`: the body arrives in pieces and leaves for the store at once.

use futures_util::future::LocalBoxFuture;
use js_sys::{Promise, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_sys::{AbortSignal, ReadableStreamDefaultReader, RequestCache, RequestInit, Response};

use super::errors::{from_js, text_of};
use super::js;
use crate::error::{Error, ErrorKind, Result};
use crate::source::transport::{Body, Reply, Transport, check_status};
use crate::stream::Cancel;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = fetch)]
    fn fetch_with(url: &str, init: &RequestInit) -> Promise;
}

/// GET requests through `fetch`. The HTTP cache is bypassed: the bytes would lie on the disk twice.
#[derive(Default)]
pub struct FetchTransport {
    signal: Option<AbortSignal>,
}

impl FetchTransport {
    /// Requests end with `ABORTED` as soon as `signal` is aborted.
    pub fn new(signal: Option<AbortSignal>) -> Self {
        Self { signal }
    }
}

impl Transport for FetchTransport {
    fn get<'a>(&'a self, url: &'a str, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            cancel.check()?;
            let init = RequestInit::new();
            init.set_cache(RequestCache::NoStore);
            init.set_signal(self.signal.as_ref());
            let response = JsFuture::from(fetch_with(url, &init)).await.map_err(|e| self.failed(&e, url))?;
            let response: Response = response.dyn_into().map_err(|e| from_js(&e, ErrorKind::Internal, "fetch"))?;
            check_status(response.status(), url)?;
            let headers = response.headers();
            let header = |name: &str| headers.get(name).ok().flatten();
            let encoded = header("content-encoding").is_some_and(|v| v != "identity");
            let length = header("content-length").filter(|_| !encoded).and_then(|v| v.parse().ok());
            let etag = header("etag");
            let reader = response.body().map(|stream| stream.get_reader().unchecked_into());
            Ok(Reply { length, etag, body: Box::new(FetchBody { url: url.to_owned(), reader, signal: self.signal.clone(), cancel: cancel.clone() }) })
        })
    }
}

impl FetchTransport {
    /// `fetch` rejects with a bare TypeError for no connection, a blocked port, and a server that does not allow this origin.
    fn failed(&self, error: &JsValue, url: &str) -> Error {
        if is_aborted(self.signal.as_ref()) {
            return Error::aborted();
        }
        Error::network(format!("{url}: the server could not be reached, or does not allow pages of other origins to read it (CORS) ({})", text_of(error)))
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
}

impl Body for FetchBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let Some(reader) = &self.reader else { return Ok(None) };
            self.cancel.check()?;
            let result = JsFuture::from(reader.read()).await.map_err(|e| match is_aborted(self.signal.as_ref()) {
                true => Error::aborted(),
                false => Error::network(format!("{}: the connection failed while reading ({}); try again", self.url, text_of(&e))),
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
    use crate::store::{MemoryStore, fetch};
    use crate::web::blob::blob_of;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    async fn a_body_arrives_whole() {
        let bytes = crate::store::suite::bytes(1, 1_000_000);
        let url = web_sys::Url::create_object_url_with_blob(&blob_of(&bytes).unwrap()).unwrap();
        let (files, storage) =
            fetch(&Remote::File { url: url.clone() }, &MemoryStore::new(), &FetchTransport::default(), &|_| (), &Cancel::new()).await.unwrap();
        assert!(!storage.cached);
        let source = files.values().next().unwrap();
        assert_eq!(source.read(0, bytes.len()).await.unwrap(), bytes);
        web_sys::Url::revoke_object_url(&url).unwrap();
    }

    #[wasm_bindgen_test]
    async fn what_is_missing_and_what_is_aborted() {
        let here = js::string(&js::get(&js_sys::global(), "location"), "origin");
        let missing = format!("{here}/no-such-file.gguf");
        let error = FetchTransport::default().get(&missing, &Cancel::new()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(error.message().contains(&missing) && error.message().contains("404"), "{error}");
        // A port that browsers never connect to.
        let error = FetchTransport::default().get("http://127.0.0.1:1/", &Cancel::new()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Network, "{error}");
        let controller = web_sys::AbortController::new().unwrap();
        controller.abort_with_reason(&"the user left".into());
        let error = FetchTransport::new(Some(controller.signal())).get(&missing, &Cancel::new()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Aborted, "{error}");
    }
}
