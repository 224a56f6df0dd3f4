//! What loading a model would take, before anything of it is kept.

use js_sys::{Function, Promise};
use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use web_sys::AbortSignal;

use super::Blobs;
use super::abort::Abort;
use super::bindings::{tell_progress, to_value};
use super::load::store_of;
use super::models::transport;
use super::options::{self, Source};
use super::panic::promise;
use crate::error::Error;
use crate::store::download::{Prepared, prepare};
use crate::store::{ModelKey, Store, full, total};
use crate::stream::fit::Fit;
use crate::stream::{Engine, ModelInfo, Progress, check};

/// What a load would take, and whether there is room for it.
#[derive(Serialize)]
struct Plan {
    #[serde(flatten)]
    fit: Fit,
    model: ModelInfo,
    download: PlanDownload,
    storage: PlanStorage,
}

/// Bytes of a model's files: all, those that are stored, those to fetch.
#[derive(Serialize)]
struct PlanDownload {
    total: u64,
    stored: u64,
    missing: u64,
}

#[derive(Serialize)]
struct PlanStorage {
    kind: &'static str,
    /// Bytes that can still be written, where the browser says so.
    available: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// What loading a model would take, from its header alone: takes the options of `load`, `memory`, and a function that gets progress. Nothing is kept.
#[wasm_bindgen(js_name = planModel, unchecked_return_type = "Promise<LoadPlan>")]
pub fn plan_model(options: JsValue, on_progress: Function, signal: AbortSignal) -> Promise {
    promise(async move {
        let load = options::load(&options)?;
        check(&load.options)?;
        let abort = Abort::follow(signal.clone());
        let memory = load.memory.map(|bytes| bytes as u64);
        let remote = match &load.source {
            Source::Files(files) => {
                let (info, fit) = Engine::plan(files, &load.options, memory).await?;
                let total = total(files);
                let download = PlanDownload { total, stored: total, missing: 0 };
                return to_value(&Plan { fit, model: info.model, download, storage: PlanStorage { kind: "local", available: None, reason: None } });
            }
            Source::Remote(remote) => remote,
        };
        let store = store_of(&load, remote, &signal).await;
        let key = ModelKey::new(remote.url());
        let mut stored = store.entry(&key).await?.map_or(0, |entry| entry.bytes);
        let (files, total) = match store.open(&key).await? {
            Some(files) => {
                let total = total(&files);
                stored = total;
                (files, total)
            }
            // Of what is not here only headers are read, and nothing is written.
            None => {
                let nowhere = Store::new(Blobs::new("a plan keeps nothing"));
                let report = |progress: Progress| tell_progress(&on_progress, &progress);
                let prepared = prepare(remote, &nowhere, transport(&load, remote, signal), load.download.clone(), &report, &abort.cancel).await?;
                let Prepared::Download(download) = prepared else { return Err(Error::internal("a fresh store holds a model")) };
                let unknown =
                    || Error::network(format!("{}: the server does not tell its length, or answers no ranges: load it to see whether it fits", remote.url()));
                let files = download.files().filter(|_| download.reads_ahead()).ok_or_else(unknown)?;
                let total = total(&files);
                (files, total)
            }
        };
        let (info, mut fit) = Engine::plan(&files, &load.options, memory).await?;
        let missing = total.saturating_sub(stored);
        let available = store.available().await;
        if let Some(available) = available.filter(|available| missing > *available) {
            fit.problems.push(full(&remote.url(), Some(missing), Some(available)).message().to_owned());
            fit.fits = false;
        }
        let storage = PlanStorage { kind: store.kind(), available, reason: store.transient().map(str::to_owned) };
        to_value(&Plan { fit, model: info.model, download: PlanDownload { total, stored, missing }, storage })
    })
}
