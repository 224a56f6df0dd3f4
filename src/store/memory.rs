//! Models in this process's memory: for tests, and natively where nothing else is wanted. Gone with the store.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::LocalBoxFuture;
use futures_util::lock::{Mutex, OwnedMutexGuard};

use super::{Begin, Entry, ModelKey, Store, Usage, Writer, check_name};
use crate::error::{Error, Result};
use crate::source::{Files, MemorySource};
use crate::stream::Cancel;

/// One writer at a time per model, within one thread.
#[derive(Default)]
pub(crate) struct Locks(RefCell<HashMap<String, Arc<Mutex<()>>>>);

impl Locks {
    pub(crate) async fn acquire(&self, key: &ModelKey) -> OwnedMutexGuard<()> {
        let mutex = self.0.borrow_mut().entry(key.id().to_owned()).or_default().clone();
        mutex.lock_owned().await
    }
}

#[derive(Default)]
struct Shared {
    models: RefCell<HashMap<ModelKey, Files>>,
    locks: Locks,
}

/// A store in memory.
#[derive(Default, Clone)]
pub struct MemoryStore(Rc<Shared>);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Bytes of all files of a model.
pub(crate) fn total(files: &Files) -> u64 {
    files.values().map(|f| f.len()).sum()
}

impl Store for MemoryStore {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn transient(&self) -> Option<&str> {
        Some("models are kept in memory only")
    }

    fn list(&self) -> LocalBoxFuture<'_, Result<Vec<Entry>>> {
        Box::pin(async { Ok(self.0.models.borrow().iter().map(|(key, files)| Entry { url: key.url().to_owned(), bytes: total(files) }).collect()) })
    }

    fn open<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<Option<Files>>> {
        Box::pin(async move { Ok(self.0.models.borrow().get(key).cloned()) })
    }

    fn begin<'a>(&'a self, key: &'a ModelKey, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Begin>> {
        Box::pin(async move {
            cancel.check()?;
            let guard = self.0.locks.acquire(key).await;
            cancel.check()?;
            if let Some(files) = self.open(key).await? {
                return Ok(Begin::Whole(files));
            }
            Ok(Begin::Write(Box::new(MemoryWriter { store: self.clone(), key: key.clone(), files: Vec::new(), _guard: guard })))
        })
    }

    fn remove<'a>(&'a self, key: &'a ModelKey) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.0.models.borrow_mut().remove(key);
            Ok(())
        })
    }

    fn usage(&self) -> LocalBoxFuture<'_, Result<Usage>> {
        Box::pin(async { Ok(Usage { used: self.0.models.borrow().values().map(total).sum(), available: None }) })
    }

    fn available(&self) -> LocalBoxFuture<'_, Option<u64>> {
        Box::pin(async { None })
    }
}

struct MemoryWriter {
    store: MemoryStore,
    key: ModelKey,
    files: Vec<(String, Vec<u8>)>,
    _guard: OwnedMutexGuard<()>,
}

impl Writer for MemoryWriter {
    fn create<'a>(&'a mut self, name: &'a str, _etag: Option<String>) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            check_name(name)?;
            self.files.push((name.to_owned(), Vec::new()));
            Ok(())
        })
    }

    fn append<'a>(&'a mut self, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (name, file) = self.files.last_mut().ok_or_else(|| Error::internal("append before create"))?;
            file.try_reserve(bytes.len())
                .map_err(|_| Error::out_of_memory(format!("{name}: the model does not fit into memory; use storage that lasts, or a smaller model")))?;
            file.extend_from_slice(bytes);
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> LocalBoxFuture<'static, Result<Files>> {
        Box::pin(async move {
            let files: Files = self.files.into_iter().map(|(name, bytes)| (name.clone(), Rc::new(MemorySource::new(name, bytes)) as _)).collect();
            self.store.0.models.borrow_mut().insert(self.key, files.clone());
            Ok(files)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn conformance() {
        let store = MemoryStore::new();
        pollster::block_on(crate::store::suite::conforms(|| std::future::ready(Box::new(store.clone()) as Box<dyn Store>)));
    }

    #[cfg(target_arch = "wasm32")]
    #[wasm_bindgen_test::wasm_bindgen_test]
    async fn conformance() {
        let store = MemoryStore::new();
        crate::store::suite::conforms(|| std::future::ready(Box::new(store.clone()) as Box<dyn Store>)).await;
    }
}
