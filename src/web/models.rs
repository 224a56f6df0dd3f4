//! The models that are kept, for JavaScript: to list, fetch, verify, remove, take out and put in.

use std::rc::Rc;

use js_sys::{Array, Function, Promise};
use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use web_sys::AbortSignal;

use super::abort::Abort;
use super::bindings::{tell_progress, to_value};
use super::fetch::origin_of;
use super::options::{self, Load, Source};
use super::panic::promise;
use super::{FetchTransport, Opfs};
use crate::base::{Progress, js};
use crate::error::{Error, Result};
use crate::source::{ModelSpec, Remote};
use crate::store::ModelKey;
use crate::store::download::Control;

/// Pauses downloads, and lets them go on.
#[wasm_bindgen]
#[derive(Default)]
pub struct WasmControl {
    pub(super) control: Control,
}

#[wasm_bindgen]
impl WasmControl {
    /// One that pauses nothing yet.
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has the downloads wait, or go on.
    pub fn pause(&self, paused: bool) {
        self.control.pause(paused);
    }
}

/// What makes the requests of a load.
pub(super) fn transport(load: &Load, remote: &Remote, signal: AbortSignal) -> Rc<FetchTransport> {
    let token = load.page.token.clone().and_then(|token| Some((origin_of(&remote.url())?, token)));
    Rc::new(FetchTransport::new(Some(signal), load.fetch.clone(), token))
}

/// The key of the model that an address names.
fn key(url: &str) -> Result<ModelKey> {
    match ModelSpec::parse(url)? {
        ModelSpec::Remote(remote) => Ok(ModelKey::new(remote.url())),
        _ => Err(Error::bad_option(format!(
            "{url:?} is not a complete URL; models are kept under the address that they came from"
        ))),
    }
}

fn missing(key: &ModelKey) -> Error {
    Error::not_found(format!("{}: no such model is stored", key.url()))
}

/// The models that are kept.
#[wasm_bindgen(js_name = listModels, unchecked_return_type = "Promise<StoredModel[]>")]
pub fn list_models() -> Promise {
    promise(async { to_value(&Opfs::models(None).await?.list().await?) })
}

#[derive(Serialize)]
struct Usage {
    used: u64,
    available: Option<u64>,
    persistent: bool,
}

/// How full the storage is.
#[wasm_bindgen(js_name = storageUsage, unchecked_return_type = "Promise<StorageUsage>")]
pub fn storage_usage() -> Promise {
    promise(async {
        let usage = Opfs::models(None).await?.usage().await?;
        let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
        let persistent = js::call_async(&storage, "persisted", &[]).await.is_ok_and(|v| v.is_truthy());
        to_value(&Usage { used: usage.used, available: usage.available, persistent })
    })
}

/// Fetches a model, without a GPU.
#[wasm_bindgen(js_name = downloadModel, unchecked_return_type = "Promise<StoredModel>")]
pub fn download_model(options: JsValue, on_progress: Function, signal: AbortSignal, control: &WasmControl) -> Promise {
    let control = control.control.clone();
    promise(async move {
        let mut load = options::download(&options)?;
        load.download.control = control;
        let Source::Remote(remote) = &load.source else { return Err(Error::bad_option("download: model: give a URL")) };
        let abort = Abort::follow(signal.clone());
        let store = Opfs::models(Some(signal.clone())).await?;
        let report = |progress: Progress| tell_progress(&on_progress, &progress);
        to_value(
            &store
                .download(remote, transport(&load, remote, signal), load.download.clone(), &report, &abort.cancel)
                .await?,
        )
    })
}

/// Compares a model with its hashes.
#[wasm_bindgen(js_name = verifyModel, unchecked_return_type = "Promise<Verified>")]
pub fn verify_model(url: String, on_progress: Function, signal: AbortSignal) -> Promise {
    promise(async move {
        let abort = Abort::follow(signal.clone());
        let store = Opfs::models(Some(signal)).await?;
        let report = |progress: Progress| tell_progress(&on_progress, &progress);
        to_value(&store.verify(&key(&url)?, &report, &abort.cancel).await?)
    })
}

/// Removes a model, if it is there.
#[wasm_bindgen(js_name = removeModel, unchecked_return_type = "Promise<void>")]
pub fn remove_model(url: String) -> Promise {
    promise(async move { Opfs::models(None).await?.remove(&key(&url)?).await.map(|()| JsValue::UNDEFINED) })
}

/// A model's files: `[{name, parts: Blob[]}]`. The blobs lie on the disk until they are read.
#[wasm_bindgen(js_name = exportModel, unchecked_return_type = "Promise<{ name: string; parts: Blob[] }[]>")]
pub fn export_model(url: String) -> Promise {
    promise(async move {
        let key = key(&url)?;
        let store = Opfs::models(None).await?;
        let (place, files) = store.shard_names(&key).await?.ok_or_else(|| missing(&key))?;
        let out = Array::new();
        for (name, shards) in files {
            let parts = Array::new();
            for shard in shards {
                let part = Opfs::blob_of_model(&place, &shard).await?;
                parts.push(&part);
            }
            out.push(&js::object(&[("name", name.into()), ("parts", parts.into())]));
        }
        Ok(out.into())
    })
}

/// Keeps files as the model that an address names, in place of what is there.
#[wasm_bindgen(js_name = importModel, unchecked_return_type = "Promise<StoredModel>")]
pub fn import_model(url: String, files: JsValue, on_progress: Function, signal: AbortSignal) -> Promise {
    promise(async move {
        let key = key(&url)?;
        let Source::Files(files) = options::source(&files)? else {
            return Err(Error::bad_option("import: give the files themselves"));
        };
        let abort = Abort::follow(signal.clone());
        let store = Opfs::models(Some(signal)).await?;
        let report = |progress: Progress| tell_progress(&on_progress, &progress);
        to_value(&store.import(&key, &files, &report, &abort.cancel).await?)
    })
}
