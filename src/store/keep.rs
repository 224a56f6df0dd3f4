//! Puts models into a store without loading them: downloads for later, and local files.

use std::rc::Rc;

use super::{Entry, ModelKey, PIECE, Store, Writer, fetch, full, sha256_of, total};
use crate::base::{Cancel, Phase, Progress};
use crate::error::{Error, Result};
use crate::format::{self, Manifest};
use crate::source::spec::names;
use crate::source::{Files, Remote, Transport};
use crate::store::DownloadOptions;

impl Store {
    /// Fetches a model, or what is missing of it. What is known to be no model, a web page for one, is not kept.
    ///
    /// # Errors
    /// Those of [`fetch`], and `BAD_MODEL`.
    pub async fn download(
        &self,
        remote: &Remote,
        transport: Rc<dyn Transport>,
        options: DownloadOptions,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Entry> {
        let key = ModelKey::new(remote.url());
        let (files, _) = fetch(remote, self, transport, options, progress, cancel).await?;
        if let Err(e) = format::refuse_others(&files).await {
            drop(files);
            self.remove(&key).await?;
            return Err(e.at(remote.url()));
        }
        self.stored(&key).await
    }

    /// Keeps files as the model that an address names, in place of what is there, once they are whole: if this fails,
    /// that stays.
    ///
    /// # Errors
    /// `BAD_MODEL` where they are not what their manifest says, `STORAGE`, `ABORTED`.
    pub async fn import(
        &self,
        key: &ModelKey,
        files: &Files,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Entry> {
        if let Some(manifest) = files.get(names::MANIFEST) {
            self.check_hashes(&format::manifest::read(manifest).await?, files, cancel).await?;
        }
        let total = total(files);
        if let Some(available) = self.available().await.filter(|available| *available < total) {
            return Err(full(key.url(), Some(total), Some(available)));
        }
        let mut writer = self.begin_beside(key, cancel).await?;
        let written = copy(files, &mut writer, progress, cancel).await;
        writer.replace(written).await?;
        self.stored(key).await
    }

    /// The entry of a model that is there. `NOT_FOUND` where it is not.
    pub async fn stored(&self, key: &ModelKey) -> Result<Entry> {
        self.entry(key).await?.ok_or_else(|| Error::not_found(format!("{}: no such model is stored", key.url())))
    }

    /// Compares files with what their manifest says.
    async fn check_hashes(&self, manifest: &Manifest, files: &Files, cancel: &Cancel) -> Result<()> {
        for expected in manifest.files() {
            let file = files.get(&expected.file).ok_or_else(|| {
                Error::not_found(format!("{}: the manifest names it, but it is not among the files", expected.file))
            })?;
            if file.len() != expected.bytes
                || sha256_of(&**file, self.medium.hasher(file.len()), cancel, |_| ()).await? != expected.sha256
            {
                return Err(Error::bad_model(format!(
                    "{}: is not the file that the manifest means: its length or SHA-256 is another",
                    expected.file
                )));
            }
        }
        Ok(())
    }
}

/// Writes files as a model's.
async fn copy(files: &Files, writer: &mut Writer, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<()> {
    let total = total(files);
    let mut done = 0;
    for (name, file) in files {
        writer.create(name).await?;
        let mut at = 0;
        while at < file.len() {
            cancel.check()?;
            let n = PIECE.min(file.len() - at);
            writer.append(&file.read(at, n as usize).await?).await?;
            at += n;
            done += n;
            progress(Progress { file: Some(name.clone()), ..Progress::new(Phase::Download, done, total) });
        }
    }
    Ok(())
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use pollster::block_on;

    use super::*;
    use crate::error::ErrorKind;
    use crate::source::{ByteSource, MemorySource};
    use crate::store::Memory;

    fn files(list: &[(&str, &[u8])]) -> Files {
        list.iter()
            .map(|(name, bytes)| {
                ((*name).to_owned(), Rc::new(MemorySource::new(*name, bytes.to_vec())) as Rc<dyn ByteSource>)
            })
            .collect()
    }

    #[test]
    fn what_is_imported_is_kept_in_place_of_what_was_there() {
        let (store, key) = (Memory::store(), ModelKey::new("https://example.org/a.gguf"));
        for content in [&b"first"[..], b"second, which is longer"] {
            let entry = block_on(store.import(
                &key,
                &files(&[("a.gguf", content), ("empty.json", b"")]),
                &|_| (),
                &Cancel::new(),
            ))
            .unwrap();
            assert!(entry.complete && entry.bytes == content.len() as u64);
            let kept = block_on(store.open(&key)).unwrap().unwrap();
            assert_eq!(block_on(kept["a.gguf"].read(0, content.len())).unwrap(), content);
        }
    }

    /// Fails after this many bytes, or has the caller abort.
    struct Broken(u64, Option<Cancel>);

    impl ByteSource for Broken {
        fn name(&self) -> &str {
            "a.gguf"
        }
        fn len(&self) -> u64 {
            self.0 * 2
        }
        fn read(&self, offset: u64, len: usize) -> futures_util::future::LocalBoxFuture<'_, Result<Vec<u8>>> {
            if offset >= self.0 {
                match &self.1 {
                    Some(cancel) => cancel.cancel(),
                    None => return Box::pin(async { Err(Error::storage("the disk is gone")) }),
                }
            }
            Box::pin(async move { Ok(vec![7; len]) })
        }
    }

    #[test]
    fn what_was_there_stays_until_what_takes_its_place_is_whole() {
        let (store, key) = (Memory::store(), ModelKey::new("https://example.org/a.gguf"));
        let import = |files: &Files, cancel: &Cancel| block_on(store.import(&key, files, &|_| (), cancel));
        import(&files(&[("a.gguf", b"the old one")]), &Cancel::new()).unwrap();
        let kept = || {
            let kept = block_on(store.open(&key)).unwrap().expect("the old one is there");
            block_on(kept["a.gguf"].read(0, kept["a.gguf"].len() as usize)).unwrap()
        };
        for aborted in [false, true] {
            let cancel = Cancel::new();
            let broken: Files = [(
                "a.gguf".to_owned(),
                Rc::new(Broken(40 << 20, aborted.then(|| cancel.clone()))) as Rc<dyn ByteSource>,
            )]
            .into();
            let error = import(&broken, &cancel).unwrap_err();
            assert_eq!(error.kind(), if aborted { ErrorKind::Aborted } else { ErrorKind::Storage });
            assert_eq!(kept(), b"the old one");
            assert!(block_on(store.usage()).unwrap().used < 2_000, "nothing of the new one is left");
            assert_eq!(block_on(store.list()).unwrap().len(), 1);
        }
        for round in 0..3u8 {
            import(&files(&[("a.gguf", &[round; 9])]), &Cancel::new()).unwrap();
            assert_eq!(kept(), [round; 9]);
            let folders = block_on(store.medium.folders()).unwrap();
            assert_eq!(folders.len(), 1, "what it took the place of is gone: {folders:?}");
        }
    }

    #[test]
    fn an_import_that_was_killed_leaves_what_was_there_and_is_swept_away() {
        let (store, key) = (Memory::store(), ModelKey::new("https://example.org/a.gguf"));
        block_on(store.import(&key, &files(&[("a.gguf", b"the old one")]), &|_| (), &Cancel::new())).unwrap();
        let mut writer = block_on(store.begin_beside(&key, &Cancel::new())).unwrap();
        block_on(writer.create("a.gguf")).unwrap();
        block_on(writer.append(&vec![1; 33 << 20])).unwrap();
        drop(writer);
        assert_eq!(block_on(store.medium.folders()).unwrap().len(), 2);
        assert!(block_on(store.entry(&key)).unwrap().unwrap().complete);
        block_on(store.sweep()).unwrap();
        assert_eq!(block_on(store.medium.folders()).unwrap().len(), 1);
        let kept = block_on(store.open(&key)).unwrap().unwrap();
        assert_eq!(block_on(kept["a.gguf"].read(0, 11)).unwrap(), b"the old one");
        block_on(store.remove(&key)).unwrap();
        assert!(block_on(store.medium.folders()).unwrap().is_empty());
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        let (store, key) = (Memory::store(), ModelKey::new("https://example.org/a.gguf"));
        let error = block_on(store.import(&key, &files(&[("../a", b"x")]), &|_| (), &Cancel::new())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadModel);
        assert!(block_on(store.open(&key)).unwrap().is_none());
    }

    #[test]
    fn files_are_what_their_manifest_says() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/shards");
        let mut good = crate::source::disk::open_path(&root).unwrap();
        let (store, key) = (Memory::store(), ModelKey::new("https://example.org/model/manifest.json"));
        assert!(block_on(store.import(&key, &good, &|_| (), &Cancel::new())).unwrap().complete);
        let victim = good.keys().find(|name| name.as_str() != names::MANIFEST).unwrap().clone();
        let mut bytes = block_on(good[&victim].read(0, good[&victim].len() as usize)).unwrap();
        bytes[0] ^= 1;
        good.insert(victim.clone(), Rc::new(MemorySource::new(victim.clone(), bytes)));
        let error = block_on(store.import(&key, &good, &|_| (), &Cancel::new())).unwrap_err();
        assert!(error.kind() == ErrorKind::BadModel && error.message().contains(&victim), "{error}");
        assert!(block_on(store.entry(&key)).unwrap().unwrap().complete, "what was there before stays");
    }
}
