//! From a server into a store: every byte goes to the store as it arrives, and only the index of a sharded model stays in memory.

use super::{Begin, ModelKey, Storage, Store, Writer, check_name, full};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Manifest;
use crate::format::manifest::hex;
use crate::source::spec::{names, remote_parts};
use crate::source::{Files, Remote, Transport, Weights};
use crate::stream::{Cancel, Phase, Progress};

use sha2::{Digest, Sha256};

/// Largest `model.safetensors.index.json` that is accepted, in bytes: real ones of 400 B parameters have 5 MB.
const MAX_INDEX: usize = 32 << 20;
/// Largest number of files that an index may name.
const MAX_SHARDS: usize = 4096;
/// Bytes between two reports of progress.
const REPORT_EVERY: u64 = 1 << 20;

/// The files of `remote`: from `store` without a request if they are there whole, else through `transport` into it.
///
/// Progress is reported as [`Phase::Download`] in either case. Fails with `NOT_FOUND`, `NETWORK`, `STORAGE`, `BAD_MODEL` (an index
/// that is not one) or `ABORTED`; then nothing of the model stays in the store.
pub async fn fetch(remote: &Remote, store: &dyn Store, transport: &dyn Transport, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<(Files, Storage)> {
    cancel.check()?;
    let key = ModelKey::new(remote.url());
    let reason = store.transient().map(str::to_owned);
    let found = |files: Files| {
        let bytes = super::memory::total(&files);
        progress(Progress { cached: true, reason: reason.clone(), ..Progress::new(Phase::Download, bytes, bytes) });
        (files, Storage { kind: store.kind(), cached: true, reason: reason.clone() })
    };
    if let Some(files) = store.open(&key).await? {
        return Ok(found(files));
    }
    let writer = match store.begin(&key, cancel).await? {
        Begin::Whole(files) => return Ok(found(files)),
        Begin::Write(writer) => writer,
    };
    let mut download = Download { store, writer, transport, progress, cancel, reason: reason.as_deref(), loaded: 0, total: 0 };
    match remote {
        Remote::File { url } => {
            for (name, url) in remote_parts(url) {
                download.file(&url, &name).await?;
            }
        }
        Remote::Folder { base, query, weights } => download.folder(&Folder { base, query }, *weights).await?,
    }
    cancel.check()?;
    let files = download.writer.finish().await?;
    Ok((files, Storage { kind: store.kind(), cached: false, reason }))
}

/// Addresses of a folder's files.
struct Folder<'a> {
    base: &'a str,
    query: &'a str,
}

impl Folder<'_> {
    fn url(&self, name: &str) -> String {
        format!("{}{name}{}", self.base, self.query)
    }
}

struct Download<'a> {
    store: &'a dyn Store,
    writer: Box<dyn Writer>,
    transport: &'a dyn Transport,
    progress: &'a dyn Fn(Progress),
    cancel: &'a Cancel,
    reason: Option<&'a str>,
    /// Bytes of all files so far.
    loaded: u64,
    /// Bytes of all files whose length is known.
    total: u64,
}

impl Download<'_> {
    async fn folder(&mut self, folder: &Folder<'_>, weights: Weights) -> Result<()> {
        if weights != Weights::Shards {
            for (name, optional) in names::BESIDE_WEIGHTS {
                match optional {
                    true => drop(self.optional(folder, name).await?),
                    false => self.required(folder, name).await?,
                }
            }
        }
        match weights {
            Weights::Single => self.required(folder, names::WEIGHTS).await,
            Weights::Shards => self.shards(folder).await,
            Weights::Indexed => self.indexed(folder).await,
            Weights::Any => {
                if self.optional(folder, names::WEIGHTS).await? {
                    return Ok(());
                }
                self.indexed(folder).await
            }
        }
    }

    async fn indexed(&mut self, folder: &Folder<'_>) -> Result<()> {
        let url = folder.url(names::INDEX);
        let index = self.keep(&url, names::INDEX).await.map_err(|e| missing(e, folder))?;
        for shard in shards(&index).map_err(|e| e.at(&url))? {
            self.required(folder, &shard).await?;
        }
        Ok(())
    }

    /// A manifest and its files, whose hashes are compared as they arrive.
    async fn shards(&mut self, folder: &Folder<'_>) -> Result<()> {
        let url = folder.url(names::MANIFEST);
        let manifest = self.keep(&url, names::MANIFEST).await?;
        let manifest = Manifest::parse(&manifest).map_err(|e| e.at(&url))?;
        let announced: u64 = manifest.files().map(|file| file.bytes).sum();
        if let Some(available) = self.store.available().await
            && announced > available
        {
            return Err(full(&url, Some(announced), Some(available)));
        }
        for file in manifest.files() {
            let (mut hash, mut length) = (Sha256::new(), 0);
            let url = folder.url(&file.file);
            let see = &mut |piece: &[u8]| {
                hash.update(piece);
                length += piece.len() as u64;
                Ok(())
            };
            self.stream(&url, &file.file, see).await?;
            if length != file.bytes || hex(&hash.finalize()) != file.sha256 {
                return Err(Error::bad_model(format!(
                    "{url}: arrived with {length} bytes whose SHA-256 is not the one in {}: it was damaged on the way, or is of another version of the model; \
                     try again",
                    names::MANIFEST
                )));
            }
        }
        Ok(())
    }

    async fn required(&mut self, folder: &Folder<'_>, name: &str) -> Result<()> {
        self.file(&folder.url(name), name).await.map_err(|e| missing(e, folder))
    }

    /// Whether the file was there.
    async fn optional(&mut self, folder: &Folder<'_>, name: &str) -> Result<bool> {
        match self.file(&folder.url(name), name).await {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }

    async fn file(&mut self, url: &str, name: &str) -> Result<()> {
        self.stream(url, name, &mut |_| Ok(())).await
    }

    /// Stores a small file and returns it as well.
    async fn keep(&mut self, url: &str, name: &str) -> Result<Vec<u8>> {
        let mut kept = Vec::new();
        self.stream(url, name, &mut |piece| {
            if kept.len() + piece.len() > MAX_INDEX {
                return Err(Error::bad_model(format!("{url}: is longer than {} and cannot be an index", super::size(MAX_INDEX as u64))));
            }
            kept.extend_from_slice(piece);
            Ok(())
        })
        .await?;
        Ok(kept)
    }

    async fn stream(&mut self, url: &str, name: &str, see: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut reply = self.transport.get(url, self.cancel).await?;
        if let Some(length) = reply.length
            && let Some(available) = self.store.available().await
            && length > available
        {
            return Err(full(url, Some(length), Some(available)));
        }
        self.writer.create(name, reply.etag.take()).await?;
        let start = self.loaded;
        self.total += reply.length.unwrap_or(0);
        let mut reported = start;
        self.report(name);
        while let Some(piece) = reply.body.next().await? {
            self.cancel.check()?;
            see(&piece)?;
            self.writer.append(&piece).await?;
            self.loaded += piece.len() as u64;
            if self.loaded - reported >= REPORT_EVERY {
                reported = self.loaded;
                self.report(name);
            }
        }
        let length = self.loaded - start;
        if let Some(expected) = reply.length {
            // Longer than announced: the body was compressed in transit where that cannot be seen (a header hidden from other
            // origins), and the length was that of the compressed bytes. Shorter: the connection was cut.
            if length < expected {
                return Err(Error::network(format!("{url}: the connection ended after {length} of {expected} bytes; try again")));
            }
            self.total = self.total.saturating_sub(expected);
        }
        self.total += length;
        self.report(name);
        Ok(())
    }

    fn report(&self, name: &str) {
        let total = if self.total == 0 { 0 } else { self.total.max(self.loaded) };
        let mut report = Progress::new(Phase::Download, self.loaded, total);
        report.file = Some(name.to_owned());
        report.reason = self.reason.map(str::to_owned);
        (self.progress)(report);
    }
}

/// Says what a folder must hold if one of its files is missing.
fn missing(error: Error, folder: &Folder<'_>) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return error;
    }
    Error::not_found(format!("{}; {} (folder {})", error.message(), names::EXPECTED, folder.base))
}

/// The files that an index names, each once, in order.
pub(crate) fn shards(index: &[u8]) -> Result<Vec<String>> {
    let index: serde_json::Value = serde_json::from_slice(index).map_err(|e| Error::bad_model(format!("is not JSON ({e})")))?;
    let map = index.get("weight_map").and_then(|m| m.as_object()).ok_or_else(|| Error::bad_model("has no object weight_map"))?;
    let mut shards = indexmap::IndexSet::new();
    for (tensor, file) in map {
        let file = file.as_str().ok_or_else(|| Error::bad_model(format!("weight_map: {tensor} is not a string")))?;
        check_name(file).map_err(|e| e.at(format!("weight_map: {tensor}")))?;
        if !file.ends_with(".safetensors") {
            return Err(Error::bad_model(format!("weight_map: {tensor}: {file} is not a .safetensors file")));
        }
        shards.insert(file.to_owned());
    }
    if shards.is_empty() || shards.len() > MAX_SHARDS {
        return Err(Error::bad_model(format!("weight_map names {} files; 1 to {MAX_SHARDS} are possible", shards.len())));
    }
    let mut shards: Vec<String> = shards.into_iter().collect();
    shards.sort();
    Ok(shards)
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::source::{Body, Reply};
    use crate::store::MemoryStore;
    use crate::store::suite::bytes;
    use futures_util::future::LocalBoxFuture;
    use std::cell::{Cell, RefCell};
    use std::collections::HashMap;

    /// A server in a table; `claim` is added to every announced length.
    #[derive(Default)]
    struct Table {
        files: HashMap<String, Vec<u8>>,
        claim: i64,
        asked: RefCell<Vec<String>>,
        cancel_after: Option<(usize, Cancel)>,
    }

    struct Pieces(Vec<Vec<u8>>, Option<(usize, Cancel)>);

    impl Body for Pieces {
        fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
            if let Some((left, cancel)) = &mut self.1 {
                match left {
                    0 => cancel.cancel(),
                    _ => *left -= 1,
                }
            }
            let piece = self.0.pop();
            Box::pin(async move { Ok(piece) })
        }
    }

    impl Transport for Table {
        fn get<'a>(&'a self, url: &'a str, _cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
            Box::pin(async move {
                self.asked.borrow_mut().push(url.to_owned());
                let file = self.files.get(url).ok_or_else(|| Error::not_found(format!("{url}: 404")))?;
                let mut pieces: Vec<_> = file.chunks(1000).map(<[u8]>::to_vec).collect();
                pieces.reverse();
                let length = file.len() as i64 + self.claim;
                Ok(Reply { length: Some(length as u64), etag: Some("v1".into()), body: Box::new(Pieces(pieces, self.cancel_after.clone())) })
            })
        }
    }

    fn table(files: &[(&str, Vec<u8>)]) -> Table {
        Table { files: files.iter().map(|(n, b)| (format!("https://e.org/m/{n}"), b.clone())).collect(), ..Table::default() }
    }

    fn get(store: &MemoryStore, table: &Table, url: &str) -> Result<(Files, Storage)> {
        pollster::block_on(fetch(&Remote::parse(url).unwrap(), store, table, &|_| (), &Cancel::new()))
    }

    fn folder() -> Vec<(&'static str, Vec<u8>)> {
        let index = br#"{"metadata":{"total_size":1},"weight_map":{"a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}"#;
        vec![
            ("config.json", b"{}".to_vec()),
            ("tokenizer.json", bytes(1, 5000)),
            ("generation_config.json", b"{}".to_vec()),
            (names::INDEX, index.to_vec()),
            ("model-00001-of-00002.safetensors", bytes(2, 12_345)),
            ("model-00002-of-00002.safetensors", bytes(3, 1)),
        ]
    }

    #[test]
    fn one_file_once() {
        let (store, table) = (MemoryStore::new(), table(&[("a.gguf", bytes(1, 2500))]));
        let reports = RefCell::new(Vec::new());
        let remote = Remote::parse("https://e.org/m/a.gguf").unwrap();
        let load = || pollster::block_on(fetch(&remote, &store, &table, &|p| reports.borrow_mut().push(p), &Cancel::new())).unwrap();
        assert!(!load().1.cached);
        let last = reports.borrow().last().cloned().unwrap();
        assert_eq!((last.loaded, last.total, last.cached, last.file.as_deref()), (2500, 2500, false, Some("a.gguf")));
        assert!(last.reason.is_some(), "memory says that it does not last");
        let (files, storage) = load();
        assert!(storage.cached && reports.borrow().last().unwrap().cached);
        assert_eq!(pollster::block_on(files["a.gguf"].read(0, 2500)).unwrap(), bytes(1, 2500));
        assert_eq!(table.asked.borrow().len(), 1);
    }

    #[test]
    fn a_folder_with_an_index() {
        let (store, table) = (MemoryStore::new(), table(&folder()));
        let (files, _) = get(&store, &table, "https://e.org/m/").unwrap();
        let expected =
            ["config.json", "tokenizer.json", "generation_config.json", names::INDEX, "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
        assert_eq!(files.keys().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_missing_is_named() {
        for gone in ["config.json", "tokenizer.json", "model-00001-of-00002.safetensors", names::INDEX] {
            let store = MemoryStore::new();
            let table = table(&folder().into_iter().filter(|(n, _)| *n != gone).collect::<Vec<_>>());
            let error = get(&store, &table, "https://e.org/m/").err().unwrap();
            assert_eq!(error.kind(), ErrorKind::NotFound);
            assert!(error.message().contains(gone) && error.message().contains(names::EXPECTED), "{error}");
            assert!(pollster::block_on(store.list()).unwrap().is_empty());
        }
    }

    #[test]
    fn an_index_cannot_lead_elsewhere() {
        for index in [
            "[]",
            "{",
            r#"{"weight_map":{}}"#,
            r#"{"weight_map":{"a":1}}"#,
            r#"{"weight_map":{"a":"../x.safetensors"}}"#,
            r#"{"weight_map":{"a":"http://evil/x.safetensors"}}"#,
            r#"{"weight_map":{"a":"x.bin"}}"#,
        ] {
            let mut files = folder();
            files[3].1 = index.as_bytes().to_vec();
            let error = get(&MemoryStore::new(), &table(&files), "https://e.org/m/").err().unwrap();
            assert_eq!(error.kind(), ErrorKind::BadModel, "{index}");
        }
    }

    #[test]
    fn lengths_are_compared() {
        let mut table = table(&[("a.gguf", bytes(1, 2500))]);
        table.claim = 1;
        let error = get(&MemoryStore::new(), &table, "https://e.org/m/a.gguf").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Network);
        assert!(error.message().contains("2500 of 2501"), "{error}");
        table.claim = -100;
        assert!(get(&MemoryStore::new(), &table, "https://e.org/m/a.gguf").is_ok(), "compressed in transit");
    }

    #[test]
    fn abort_in_the_middle_leaves_nothing() {
        let cancel = Cancel::new();
        let mut table = table(&[("a.gguf", bytes(1, 50_000))]);
        table.cancel_after = Some((20, cancel.clone()));
        let (store, reached) = (MemoryStore::new(), Cell::new(0));
        let remote = Remote::parse("https://e.org/m/a.gguf").unwrap();
        let error = pollster::block_on(fetch(&remote, &store, &table, &|p| reached.set(p.loaded), &cancel)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Aborted);
        assert!(reached.get() < 50_000);
        assert!(pollster::block_on(store.list()).unwrap().is_empty());
    }
}
