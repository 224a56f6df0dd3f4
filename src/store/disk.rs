//! Folders of this machine: `<root>/<id>/NAME` for each file, `<root>/<id>.lock` for the writer.

use std::fs::{self, File, TryLockError};
use std::future::poll_fn;
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use super::medium::{Lock, Out};
use super::{Medium, Store, Work};
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::source::disk::io_error;
use crate::source::{ByteSource, DiskSource};

/// The user's cache folder for this engine.
pub(crate) fn cache_folder() -> Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|v| !v.is_empty()).map(PathBuf::from);
    let home = || std::env::home_dir().map(|h| h.join(".cache"));
    let cache = cache
        .or_else(home)
        .ok_or_else(|| Error::storage("there is no home folder to keep models in; set XDG_CACHE_HOME"))?;
    Ok(cache.join("millrace"))
}

/// A folder of this machine. Processes may share it.
pub struct Disk {
    root: PathBuf,
}

impl Disk {
    /// The user's store: `$XDG_CACHE_HOME/millrace/models`, or `~/.cache/millrace/models`.
    pub fn open_default() -> Result<Store> {
        Self::open(&cache_folder()?.join("models"))
    }

    /// The store in `root`, which is made if need be.
    pub fn open(root: &Path) -> Result<Store> {
        fs::create_dir_all(root).map_err(|e| io_error(root, &e))?;
        let store = Store::new(Self { root: root.to_owned() });
        pollster::block_on(store.sweep())?;
        Ok(store)
    }

    fn try_lock_file(&self, folder: &str) -> Result<Option<File>> {
        let path = self.root.join(format!("{folder}.lock"));
        let file =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(|e| io_error(&path, &e))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(io_error(&path, &e)),
        }
    }
}

/// What is not there is as good as removed.
fn unless_missing(path: &Path, result: std::io::Result<()>) -> Result<()> {
    match result {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(io_error(path, &e)),
        _ => Ok(()),
    }
}

impl Medium for Disk {
    fn kind(&self) -> &'static str {
        "disk"
    }

    fn transient(&self) -> Option<&str> {
        None
    }

    fn folders(&self) -> Work<'_, Vec<String>> {
        Box::pin(async {
            let mut ids = Vec::new();
            for entry in fs::read_dir(&self.root).map_err(|e| io_error(&self.root, &e))? {
                let entry = entry.map_err(|e| io_error(&self.root, &e))?;
                let is_id = |n: &String| n.len() == 32 && n.bytes().all(|b| b.is_ascii_hexdigit());
                ids.extend(entry.file_name().into_string().ok().filter(is_id));
            }
            Ok(ids)
        })
    }

    fn files<'a>(&'a self, folder: &'a str) -> Work<'a, Vec<(String, u64)>> {
        Box::pin(async move {
            // A folder or file may go while it is looked at: then it is not there.
            let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
            Ok(entries.filter_map(|e| Some((e.file_name().into_string().ok()?, e.metadata().ok()?.len()))).collect())
        })
    }

    fn open<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, Option<Rc<dyn ByteSource>>> {
        Box::pin(async move {
            match DiskSource::open(&self.root.join(folder).join(name)) {
                Ok(source) => Ok(Some(Rc::new(source) as _)),
                Err(e) if e.kind() == crate::error::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(e),
            }
        })
    }

    fn create<'a>(&'a self, folder: &'a str, name: &'a str, keep: u64) -> Work<'a, Box<dyn Out>> {
        Box::pin(async move {
            let folder = self.root.join(folder);
            fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
            let path = folder.join(name);
            let open = || {
                // Unlinks the old file instead of truncating it: open readers keep its content.
                if keep == 0 {
                    let _ = fs::remove_file(&path);
                }
                let mut file = File::options().create(true).truncate(false).write(true).open(&path)?;
                file.set_len(keep.min(file.metadata()?.len()))?;
                file.seek(SeekFrom::End(0))?;
                Ok(file)
            };
            let file = open().map_err(|e| io_error(&path, &e))?;
            Ok(Box::new(DiskOut { path, file }) as _)
        })
    }

    fn remove<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            let path = self.root.join(folder).join(name);
            unless_missing(&path, fs::remove_file(&path))
        })
    }

    fn remove_folder<'a>(&'a self, folder: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            let path = self.root.join(folder);
            unless_missing(&path, fs::remove_dir_all(&path))
        })
    }

    /// Asks 50 times a second: files have no wakers.
    fn lock<'a>(&'a self, folder: &'a str, cancel: &'a Cancel) -> Work<'a, Lock> {
        Box::pin(poll_fn(move |cx| {
            if let Err(e) = cancel.check() {
                return Poll::Ready(Err(e));
            }
            match self.try_lock_file(folder) {
                Ok(Some(file)) => Poll::Ready(Ok(Box::new(file) as Lock)),
                Ok(None) => {
                    std::thread::sleep(Duration::from_millis(20));
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Err(e) => Poll::Ready(Err(e)),
            }
        }))
    }

    fn try_lock<'a>(&'a self, folder: &'a str) -> Work<'a, Option<Lock>> {
        Box::pin(async move { Ok(self.try_lock_file(folder)?.map(|file| Box::new(file) as Lock)) })
    }

    fn available(&self) -> futures_util::future::LocalBoxFuture<'_, Option<u64>> {
        Box::pin(async { None })
    }
}

struct DiskOut {
    path: PathBuf,
    file: File,
}

impl Out for DiskOut {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move { self.file.write_all(bytes).map_err(|e| io_error(&self.path, &e)) })
    }
    fn flush(&mut self) -> Work<'_, ()> {
        Box::pin(async { self.file.sync_data().map_err(|e| io_error(&self.path, &e)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Begin, ModelKey};
    use pollster::block_on;

    #[test]
    fn conformance() {
        let dir = tempfile::tempdir().unwrap();
        block_on(crate::store::suite::conforms(|| std::future::ready(Disk::open(dir.path()).unwrap())));
    }

    #[test]
    fn what_nobody_can_go_on_with_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(ModelKey::new("https://example.org/a.gguf").id());
        fs::create_dir(&left).unwrap();
        fs::write(left.join("a.gguf"), b"half").unwrap();
        Disk::open(dir.path()).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn a_damaged_model_is_not_whole() {
        let dir = tempfile::tempdir().unwrap();
        let key = ModelKey::new("https://example.org/a.gguf");
        for (victim, content) in [("0.0", &b"12"[..]), ("stored.json", b"{"), ("stored.json", b"")] {
            let store = Disk::open(dir.path()).unwrap();
            let Begin::Write(mut w) = block_on(store.begin(&key, &Cancel::new())).unwrap() else { panic!("not clean") };
            block_on(w.create("a.gguf")).unwrap();
            block_on(w.append(b"123")).unwrap();
            block_on(w.finish()).unwrap();
            assert!(block_on(store.open(&key)).unwrap().is_some());
            fs::write(dir.path().join(key.id()).join(victim), content).unwrap();
            assert!(block_on(store.open(&key)).unwrap().is_none());
        }
    }
}
