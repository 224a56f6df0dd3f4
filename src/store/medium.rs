//! What a store needs of the place where it keeps its bytes: folders of small files, and a lock for each folder.
//!
//! OPFS, a folder of this machine and memory implement this; everything that makes models of it is in [`super`], once.

use std::any::Any;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use sha2::{Digest, Sha256};

use crate::base::{Cancel, hex};
use crate::error::Result;
use crate::source::ByteSource;

/// A place with folders of files.
pub trait Medium {
    /// What it is, for messages and reports: `opfs`, `disk` or `memory`.
    fn kind(&self) -> &'static str;
    /// Why models do not outlive this page or process here, or `None` where they do.
    fn transient(&self) -> Option<&str>;
    /// The names of its folders.
    fn folders(&self) -> LocalBoxFuture<'_, Result<Vec<String>>>;
    /// The names and lengths of a folder's files; none where there is no such folder.
    fn files<'a>(&'a self, folder: &'a str) -> LocalBoxFuture<'a, Result<Vec<(String, u64)>>>;
    /// A file, to read; `None` where there is none. Any number of readers may have it open.
    fn open<'a>(&'a self, folder: &'a str, name: &'a str) -> LocalBoxFuture<'a, Result<Option<Rc<dyn ByteSource>>>>;
    /// A file, to write at its end: empty, or with its first `keep` bytes. Its folder is made if need be.
    fn create<'a>(&'a self, folder: &'a str, name: &'a str, keep: u64) -> LocalBoxFuture<'a, Result<Box<dyn Out>>>;
    /// Removes a file, if it is there. Fails with `STORAGE` where it is in use and the place does not allow that.
    fn remove<'a>(&'a self, folder: &'a str, name: &'a str) -> LocalBoxFuture<'a, Result<()>>;
    /// Removes a folder with all of its files, if it is there.
    fn remove_folder<'a>(&'a self, folder: &'a str) -> LocalBoxFuture<'a, Result<()>>;
    /// Waits for the folder's lock, which is exclusive among threads, tabs and processes. `ABORTED` when `cancel` is
    /// set while waiting.
    fn lock<'a>(&'a self, folder: &'a str, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Lock>>;
    /// As [`Medium::lock`], without waiting: `None` if it is held.
    fn try_lock<'a>(&'a self, folder: &'a str) -> LocalBoxFuture<'a, Result<Option<Lock>>>;
    /// Bytes that can still be written, as far as the system tells.
    fn available(&self) -> LocalBoxFuture<'_, Option<u64>>;
    /// What computes the SHA-256 of at most `most` bytes fastest here.
    fn hasher(&self, most: u64) -> Box<dyn Hasher> {
        let _ = most;
        Box::new(Software::default())
    }
}

/// A SHA-256 in the making.
pub trait Hasher {
    /// Adds bytes.
    fn update(&mut self, bytes: &[u8]);
    /// Its 64 hexadecimal digits.
    fn finish(self: Box<Self>) -> LocalBoxFuture<'static, Result<String>>;
}

/// A SHA-256 computed here and now.
#[derive(Default)]
pub struct Software(Sha256);

impl Hasher for Software {
    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
    fn finish(self: Box<Self>) -> LocalBoxFuture<'static, Result<String>> {
        Box::pin(async { Ok(hex(&self.0.finalize())) })
    }
}

/// A lock that is held until this is dropped.
pub type Lock = Box<dyn Any>;

/// A file that is being written.
pub trait Out {
    /// Adds to its end. Fails with `STORAGE` if the place is full, saying how full.
    fn write<'a>(&'a mut self, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>>;
    /// Afterwards all of it is on the disk, and readers see it.
    fn flush(&mut self) -> LocalBoxFuture<'_, Result<()>>;
}
