//! Measurements of kernels' variants, kept in the origin's private file system: `millrace-tuning/tuning.json`.

use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Blob, FileSystemDirectoryHandle};

use super::opfs::{JsResult, blob, directory, file};
use super::{errors, log};
use crate::base::js;
use crate::plan::tuning::{FILE, Tuning};

/// Beside the models' folder: what is no model does not stay in there.
const FOLDER: &str = "millrace-tuning";

async fn folder() -> JsResult<FileSystemDirectoryHandle> {
    let storage = js::path(&js_sys::global(), &["navigator", "storage"]);
    let root: FileSystemDirectoryHandle = js::call_async(&storage, "getDirectory", &[]).await?.dyn_into()?;
    directory(&root, FOLDER, true).await
}

/// What is known; nothing where the browser keeps nothing.
pub(super) async fn read() -> Tuning {
    let read = async {
        let blob: Blob = blob(&file(&folder().await?, FILE, false).await?).await?;
        js::call_async(&blob, "text", &[]).await
    };
    read.await.ok().and_then(|text| text.as_string()).map(|text| Tuning::parse(&text)).unwrap_or_default()
}

/// Keeps it beside what other tabs have kept. Where that fails the next load measures again: the log says why.
pub(super) async fn write(tuning: &Tuning) {
    let mut known = read().await;
    known.add(tuning.clone());
    let tuning = known;
    let write = async {
        let file = file(&folder().await?, FILE, true).await?;
        // Whole or not at all: it replaces the file when it is closed.
        let writable = js::call_async(&file, "createWritable", &[]).await?;
        js::call_async(&writable, "write", &[&tuning.text().into()]).await?;
        js::call_async(&writable, "close", &[]).await?;
        Ok::<(), JsValue>(())
    };
    if let Err(e) = write.await {
        log::info(&format!("measurements of this GPU cannot be kept: {}", errors::text_of(&e)));
    }
}
