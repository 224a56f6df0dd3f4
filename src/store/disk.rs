//! Models in a folder of this machine: `<root>/<id>/NAME` for each file, `stored.json` last, `<root>/<id>.lock` for the writer.

use std::fs::{self, File, TryLockError};
use std::future::poll_fn;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::{Begin, Entry, MANIFEST, Manifest, ModelKey, Store, StoredFile, Usage, Writer, check_name};
use crate::error::{Error, Result};
use crate::plan::tuning::{self, Tuning};
use crate::source::disk::io_error;
use crate::source::{DiskSource, Files};
use crate::stream::Cancel;

/// A store in a folder. Processes may share it.
pub struct DiskStore {
    root: PathBuf,
}

/// The user's cache folder for this engine.
fn cache_folder() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || std::env::home_dir().map(|h| h.join(".cache"));
    let cache = cache.or_else(home).ok_or_else(|| Error::storage("there is no home folder to keep models in; set XDG_CACHE_HOME"))?;
    Ok(cache.join("millrace"))
}

/// What was measured on this machine's GPUs, from the user's cache folder; nothing where nothing can be read.
pub fn read_tuning() -> Tuning {
    let text = cache_folder().ok().and_then(|folder| fs::read_to_string(folder.join(tuning::FILE)).ok());
    text.map(|text| Tuning::parse(&text)).unwrap_or_default()
}

/// Keeps it there.
pub fn write_tuning(tuning: &Tuning) -> Result<()> {
    let folder = cache_folder()?;
    fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
    // Whole or not at all: others may be reading.
    let (path, part) = (folder.join(tuning::FILE), folder.join(format!("{}.{}", tuning::FILE, std::process::id())));
    fs::write(&part, tuning.text()).and_then(|()| fs::rename(&part, &path)).map_err(|e| io_error(&path, &e))
}

impl DiskStore {
    /// The user's store: `$XDG_CACHE_HOME/millrace/models`, or `~/.cache/millrace/models`.
    pub fn open_default() -> Result<Self> {
        Self::open(&cache_folder()?.join("models"))
    }

    /// The store in `root`, which is made if need be. What interrupted writers left there is removed.
    pub fn open(root: &Path) -> Result<Self> {
        fs::create_dir_all(root).map_err(|e| io_error(root, &e))?;
        let store = Self { root: root.to_owned() };
        for id in store.ids()? {
            if store.manifest(&id).is_some() {
                continue;
            }
            // Whoever holds the lock is still writing, or has finished just now.
            if let Some(_lock) = store.try_lock(&id)?
                && store.manifest(&id).is_none()
            {
                remove_dir(&store.root.join(&id))?;
            }
        }
        Ok(store)
    }

    /// Names of the folders of models, whole or not.
    fn ids(&self) -> Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(|e| io_error(&self.root, &e))? {
            let entry = entry.map_err(|e| io_error(&self.root, &e))?;
            let is_id = |n: &String| n.len() == 32 && n.bytes().all(|b| b.is_ascii_hexdigit());
            if let Some(id) = entry.file_name().into_string().ok().filter(is_id) {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    /// The manifest of a model that is whole: every file is there in its length.
    fn manifest(&self, id: &str) -> Option<Manifest> {
        let dir = self.root.join(id);
        let manifest = Manifest::parse(&fs::read(dir.join(MANIFEST)).ok()?, id)?;
        let there = |f: &StoredFile| fs::metadata(dir.join(&f.name)).is_ok_and(|m| m.len() == f.length);
        manifest.files.iter().all(there).then_some(manifest)
    }

    /// The writer's lock, if nobody holds it. The system releases it when the process ends.
    fn try_lock(&self, id: &str) -> Result<Option<File>> {
        let path = self.root.join(format!("{id}.lock"));
        let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(|e| io_error(&path, &e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(io_error(&path, &e)),
        }
    }

    /// Waits for the writer's lock, asking 50 times a second: files have no wakers.
    async fn lock(&self, id: &str, cancel: &Cancel) -> Result<File> {
        poll_fn(|cx| {
            if let Err(e) = cancel.check() {
                return Poll::Ready(Err(e));
            }
            match self.try_lock(id) {
                Ok(Some(file)) => Poll::Ready(Ok(file)),
                Ok(None) => {
                    std::thread::sleep(Duration::from_millis(20));
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Err(e) => Poll::Ready(Err(e)),
            }
        })
        .await
    }

    fn files(&self, id: &str) -> Result<Option<Files>> {
        let Some(manifest) = self.manifest(id) else { return Ok(None) };
        let mut files = Files::new();
        for file in manifest.files {
            let source = DiskSource::open(&self.root.join(id).join(&file.name))?;
            files.insert(file.name, Rc::new(source));
        }
        Ok(Some(files))
    }
}

fn remove_dir(dir: &Path) -> Result<()> {
    // The manifest goes first: a removal that is interrupted leaves no model that looks whole.
    for gone in [fs::remove_file(dir.join(MANIFEST)), fs::remove_dir_all(dir)] {
        match gone {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(io_error(dir, &e)),
            _ => (),
        }
    }
    Ok(())
}

impl Store for DiskStore {
    fn kind(&self) -> &'static str {
        "disk"
    }

    fn transient(&self) -> Option<&str> {
        None
    }

    fn list(&self) -> LocalBoxFuture<'_, Result<Vec<Entry>>> {
        Box::pin(async {
            let whole = self.ids()?.into_iter().filter_map(|id| self.manifest(&id));
            Ok(whole.map(|m| Entry { bytes: m.bytes(), url: m.url }).collect())
        })
    }

    fn open<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<Option<Files>>> {
        Box::pin(async move { self.files(key.id()) })
    }

    fn begin<'a>(&'a self, key: &'a ModelKey, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Begin>> {
        Box::pin(async move {
            let lock = self.lock(key.id(), cancel).await?;
            if let Some(files) = self.files(key.id())? {
                return Ok(Begin::Whole(files));
            }
            let dir = self.root.join(key.id());
            remove_dir(&dir)?;
            fs::create_dir_all(&dir).map_err(|e| io_error(&dir, &e))?;
            Ok(Begin::Write(Box::new(DiskWriter { dir, key: key.clone(), done: Vec::new(), current: None, _lock: lock })))
        })
    }

    fn remove<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let _lock = self.lock(key.id(), &Cancel::new()).await?;
            remove_dir(&self.root.join(key.id()))
        })
    }

    fn usage(&self) -> LocalBoxFuture<'_, Result<Usage>> {
        Box::pin(async {
            let mut used = 0;
            for id in self.ids()? {
                // A folder may go while it is looked at: then it takes no space.
                for entry in fs::read_dir(self.root.join(id)).into_iter().flatten().flatten() {
                    used += entry.metadata().map_or(0, |m| m.len());
                }
            }
            Ok(Usage { used, available: None })
        })
    }

    fn available(&self) -> LocalBoxFuture<'_, Option<u64>> {
        Box::pin(async { None })
    }
}

struct DiskWriter {
    dir: PathBuf,
    key: ModelKey,
    done: Vec<StoredFile>,
    current: Option<(StoredFile, BufWriter<File>)>,
    _lock: File,
}

impl DiskWriter {
    fn end_file(&mut self) -> Result<()> {
        if let Some((mut file, out)) = self.current.take() {
            let path = self.dir.join(&file.name);
            let out = out.into_inner().map_err(|e| io_error(&path, e.error()))?;
            out.sync_all().map_err(|e| io_error(&path, &e))?;
            file.shards = vec![file.length];
            self.done.push(file);
        }
        Ok(())
    }
}

impl Writer for DiskWriter {
    fn create<'a>(&'a mut self, name: &'a str, etag: Option<String>) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            self.end_file()?;
            let path = self.dir.join(name);
            let out = File::create_new(&path).map_err(|e| io_error(&path, &e))?;
            let file = StoredFile { name: name.to_owned(), length: 0, etag, shards: Vec::new() };
            self.current = Some((file, BufWriter::with_capacity(1 << 20, out)));
            Ok(())
        })
    }

    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (file, out) = self.current.as_mut().ok_or_else(|| Error::internal("append before create"))?;
            out.write_all(bytes).map_err(|e| io_error(&self.dir.join(&file.name), &e))?;
            file.length += bytes.len() as u64;
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> LocalBoxFuture<'static, Result<Files>> {
        Box::pin(async move {
            self.end_file()?;
            let manifest = Manifest::new(&self.key, std::mem::take(&mut self.done));
            let path = self.dir.join(MANIFEST);
            let text = serde_json::to_vec_pretty(&manifest).map_err(|e| Error::internal(format!("manifest: {e}")))?;
            // Under another name first: a manifest is there whole or not at all.
            let temporary = self.dir.join(format!("{MANIFEST}.new"));
            let write = || {
                let mut out = File::create(&temporary)?;
                out.write_all(&text)?;
                out.sync_all()?;
                fs::rename(&temporary, &path)
            };
            write().map_err(|e| io_error(&path, &e))?;
            let mut files = Files::new();
            for file in manifest.files {
                let source = DiskSource::open(&self.dir.join(&file.name))?;
                files.insert(file.name, Rc::new(source));
            }
            Ok(files)
        })
    }
}

impl Drop for DiskWriter {
    fn drop(&mut self) {
        // Given up: nobody will want these bytes. Should this fail, the next opening of the store tries again.
        if !self.dir.join(MANIFEST).exists() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pollster::block_on;

    #[test]
    fn conformance() {
        let dir = tempfile::tempdir().unwrap();
        block_on(crate::store::suite::conforms(|| std::future::ready(Box::new(DiskStore::open(dir.path()).unwrap()) as Box<dyn Store>)));
    }

    #[test]
    fn what_a_crash_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(ModelKey::new("https://example.org/a.gguf").id());
        fs::create_dir(&left).unwrap();
        fs::write(left.join("a.gguf"), b"half").unwrap();
        DiskStore::open(dir.path()).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn a_damaged_model_is_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let key = ModelKey::new("https://example.org/a.gguf");
        for (victim, content) in [("a.gguf", &b"12"[..]), (MANIFEST, b"{"), (MANIFEST, b"")] {
            let store = DiskStore::open(dir.path()).unwrap();
            let Begin::Write(mut w) = block_on(store.begin(&key, &Cancel::new())).unwrap() else { panic!("not clean") };
            block_on(w.create("a.gguf", None)).unwrap();
            block_on(w.append(b"123")).unwrap();
            block_on(w.finish()).unwrap();
            assert!(block_on(store.open(&key)).unwrap().is_some());
            fs::write(dir.path().join(key.id()).join(victim), content).unwrap();
            assert!(block_on(store.open(&key)).unwrap().is_none());
        }
    }
}
