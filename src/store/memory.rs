//! Models in this process's memory: for tests, and natively where nothing else is wanted. Gone with the store.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::lock::Mutex;

use super::medium::{Lock, Out};
use super::{Medium, Store, Work};
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::source::{ByteSource, check_range};

/// One holder at a time of each name, within one thread.
#[derive(Default)]
pub(crate) struct Locks(RefCell<HashMap<String, Arc<Mutex<()>>>>);

impl Locks {
    fn of(&self, name: &str) -> Arc<Mutex<()>> {
        self.0.borrow_mut().entry(name.to_owned()).or_default().clone()
    }

    pub(crate) async fn acquire(&self, name: &str, cancel: &Cancel) -> Result<Lock> {
        let guard = self.of(name).lock_owned().await;
        cancel.check()?;
        Ok(Box::new(guard))
    }

    pub(crate) fn try_acquire(&self, name: &str) -> Option<Lock> {
        self.of(name).try_lock_owned().map(|guard| Box::new(guard) as Lock)
    }
}

type Bytes = Rc<RefCell<Vec<u8>>>;

#[derive(Default)]
struct Place {
    folders: RefCell<BTreeMap<String, BTreeMap<String, Bytes>>>,
    locks: Locks,
}

/// Folders in memory.
#[derive(Default, Clone)]
pub struct Memory(Rc<Place>);

impl Memory {
    /// An empty store in memory.
    pub fn store() -> Store {
        Store::new(Self::default())
    }

    /// A file's bytes, to look at and to damage: for tests.
    pub fn bytes(&self, folder: &str, name: &str) -> Option<Rc<RefCell<Vec<u8>>>> {
        self.0.folders.borrow().get(folder)?.get(name).cloned()
    }
}

impl Medium for Memory {
    fn kind(&self) -> &'static str {
        "memory"
    }

    fn transient(&self) -> Option<&str> {
        Some("models are kept in memory only")
    }

    fn folders(&self) -> Work<'_, Vec<String>> {
        Box::pin(async { Ok(self.0.folders.borrow().keys().cloned().collect()) })
    }

    fn files<'a>(&'a self, folder: &'a str) -> Work<'a, Vec<(String, u64)>> {
        Box::pin(async move {
            let folders = self.0.folders.borrow();
            Ok(folders
                .get(folder)
                .into_iter()
                .flatten()
                .map(|(name, bytes)| (name.clone(), bytes.borrow().len() as u64))
                .collect())
        })
    }

    fn open<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, Option<Rc<dyn ByteSource>>> {
        Box::pin(async move {
            Ok(self.bytes(folder, name).map(|bytes| Rc::new(File { name: name.to_owned(), bytes }) as _))
        })
    }

    fn create<'a>(&'a self, folder: &'a str, name: &'a str, keep: u64) -> Work<'a, Box<dyn Out>> {
        Box::pin(async move {
            let mut folders = self.0.folders.borrow_mut();
            let folder = folders.entry(folder.to_owned()).or_default();
            // Readers of the old one keep it.
            let mut bytes = folder.get(name).map_or_else(Vec::new, |old| old.borrow().clone());
            bytes.truncate(keep as usize);
            let bytes = Rc::new(RefCell::new(bytes));
            folder.insert(name.to_owned(), bytes.clone());
            Ok(Box::new(File { name: name.to_owned(), bytes }) as _)
        })
    }

    fn remove<'a>(&'a self, folder: &'a str, name: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            self.0.folders.borrow_mut().get_mut(folder).and_then(|files| files.remove(name));
            Ok(())
        })
    }

    fn remove_folder<'a>(&'a self, folder: &'a str) -> Work<'a, ()> {
        Box::pin(async move {
            self.0.folders.borrow_mut().remove(folder);
            Ok(())
        })
    }

    fn lock<'a>(&'a self, folder: &'a str, cancel: &'a Cancel) -> Work<'a, Lock> {
        Box::pin(self.0.locks.acquire(folder, cancel))
    }

    fn try_lock<'a>(&'a self, folder: &'a str) -> Work<'a, Option<Lock>> {
        Box::pin(async move { Ok(self.0.locks.try_acquire(folder)) })
    }

    fn available(&self) -> futures_util::future::LocalBoxFuture<'_, Option<u64>> {
        Box::pin(async { None })
    }
}

struct File {
    name: String,
    bytes: Bytes,
}

impl ByteSource for File {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.bytes.borrow().len() as u64
    }
    fn read(&self, offset: u64, len: usize) -> Work<'_, Vec<u8>> {
        Box::pin(async move {
            check_range(&self.name, self.len(), offset, len)?;
            Ok(self.bytes.borrow()[offset as usize..][..len].to_vec())
        })
    }
}

impl Out for File {
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> Work<'a, ()> {
        Box::pin(async move {
            let mut file = self.bytes.borrow_mut();
            file.try_reserve(bytes.len()).map_err(|_| {
                Error::out_of_memory(format!(
                    "{}: the model does not fit into memory; use storage that lasts, or a smaller model",
                    self.name
                ))
            })?;
            file.extend_from_slice(bytes);
            Ok(())
        })
    }
    fn flush(&mut self) -> Work<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(target_arch = "wasm32"))]
    #[test]
    fn conformance() {
        let memory = Memory::default();
        pollster::block_on(crate::store::suite::conforms(|| std::future::ready(Store::new(memory.clone()))));
    }

    #[cfg(target_arch = "wasm32")]
    #[wasm_bindgen_test::wasm_bindgen_test]
    async fn conformance() {
        let memory = Memory::default();
        crate::store::suite::conforms(|| std::future::ready(Store::new(memory.clone()))).await;
    }
}
