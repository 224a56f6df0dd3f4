//! Writing a model: shards in any order, each journaled once it is on the disk; the document that makes it a model
//! last.

use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

use futures_util::lock::Mutex;

use super::journal::{JOURNAL, Line, STORED, State, StoredFile};
use super::medium::{Hasher, Lock, Out};
use super::{BadShard, Found, Medium, ModelKey, PIECE, Part, SHARD, Store, check, clear, other_place, put, shard_name};
use crate::base::{Cancel, Progress, check_name, epoch_ms};
use crate::error::{Error, Result};
use crate::source::{Files, is_projector};

/// The writer of one model. Dropped, it leaves what was journaled, to be looked at by the next one.
pub struct Writer {
    shared: Rc<Shared>,
    /// The file that is being written from its beginning to its end.
    current: Option<Sequence>,
}

/// State shared by all writers to a model.
pub(crate) struct Shared {
    medium: Rc<dyn Medium>,
    key: ModelKey,
    /// The model's folder.
    place: String,
    state: RefCell<State>,
    clean: Cell<bool>,
    /// Whether it was whole before: what is added to it must not take that away where it does not come.
    was_whole: bool,
    journal: Mutex<Option<Box<dyn Out>>>,
    lock: RefCell<Option<Lock>>,
}

impl Writer {
    pub(super) async fn new(
        medium: Rc<dyn Medium>,
        key: ModelKey,
        lock: Lock,
        (place, found): (String, Found),
    ) -> Result<Self> {
        let id = place.as_str();
        let was_whole = matches!(found, Found::Whole(_));
        let (state, clean, out) = match found {
            // What tells a model goes on to tell it, up to where it makes sense.
            Found::Part(Part { state, clean, journal: Some(good), missing }) => {
                let mut out = medium.create(id, JOURNAL, good).await?;
                let gone = missing.into_iter().flat_map(|(file, shard)| Line::Shard(file, shard, None).text());
                let lines: Vec<u8> = Line::Clean(false).text().into_iter().chain(gone).collect();
                out.write(&lines).await?;
                (state, clean, out)
            }
            found => {
                let (state, clean) = match found {
                    Found::Whole(state) => (state, true),
                    Found::Part(part) => (part.state, part.clean),
                    Found::Nothing => {
                        medium.remove_folder(id).await?;
                        (State::new(&key, epoch_ms()), true)
                    }
                };
                let mut out = medium.create(id, JOURNAL, 0).await?;
                out.write(&Line::Model(state.clone()).text()).await?;
                out.flush().await?;
                medium.remove(id, STORED).await?;
                (state, clean, out)
            }
        };
        let (state, clean, journal, lock) =
            (RefCell::new(state), Cell::new(clean), Mutex::new(Some(out)), RefCell::new(Some(lock)));
        let shared = Shared { medium, key, place, state, clean, was_whole, journal, lock };
        Ok(Self { shared: Rc::new(shared), current: None })
    }

    pub(crate) fn shared(&self) -> &Rc<Shared> {
        &self.shared
    }

    /// Starts a file that is written from its beginning to its end; the one before is complete as it is. Names are
    /// unique and pass [`check_name`].
    pub async fn create(&mut self, name: &str) -> Result<()> {
        self.end().await?;
        let number = self.shared.put_file(StoredFile::new(name, None, SHARD)).await?;
        self.current = Some(Sequence::new(self.shared.clone(), number));
        Ok(())
    }

    /// Adds to the current file. Fails with `STORAGE` if the place is full, saying how full.
    pub async fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.current.as_mut().ok_or_else(|| Error::internal("append before create"))?.append(bytes).await
    }

    async fn end(&mut self) -> Result<()> {
        match self.current.take() {
            Some(sequence) => sequence.finish().await,
            None => Ok(()),
        }
    }

    /// Makes the model whole and opens it. Fails where something of it is missing.
    pub async fn finish(mut self) -> Result<Files> {
        self.end().await?;
        self.shared.finish().await
    }

    /// Once `written` is complete, it takes the place of the stored model; on failure the stored one stays and the new
    /// one is removed.
    pub(crate) async fn replace(self, written: Result<()>) -> Result<()> {
        let shared = self.shared.clone();
        let done = match written {
            Ok(()) => self.finish().await.map(drop),
            Err(e) => {
                drop(self);
                Err(e)
            }
        };
        if done.is_err() {
            // What remains where this fails is removed by the next [`Store::sweep`].
            let _ = shared.discard().await;
        }
        done
    }

    /// Ends in order before the model is whole: what is journaled is on the disk, and need not be looked at again.
    pub async fn close(self) -> Result<()> {
        self.shared.close().await
    }
}

impl Shared {
    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    pub(crate) fn key(&self) -> &ModelKey {
        &self.key
    }

    /// The model's folder.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    pub(crate) fn medium(&self) -> &Rc<dyn Medium> {
        &self.medium
    }

    /// Whether what was there can be trusted: its writer ended in order.
    pub(crate) fn is_clean(&self) -> bool {
        self.clean.get()
    }

    async fn note(&self, lines: &[Line]) -> Result<()> {
        let mut journal = self.journal.lock().await;
        let out = journal.as_mut().ok_or_else(|| Error::internal("the journal is closed"))?;
        let text: Vec<u8> = lines.iter().flat_map(Line::text).collect();
        out.write(&text).await?;
        out.flush().await
    }

    /// Adds a file, or starts it over: its number.
    pub(crate) async fn put_file(&self, file: StoredFile) -> Result<usize> {
        check_name(&file.name)?;
        let number = {
            let mut state = self.state.borrow_mut();
            match state.files.iter().position(|f| f.name == file.name) {
                Some(number) => {
                    state.files[number] = file.clone();
                    number
                }
                None => {
                    state.files.push(file.clone());
                    state.files.len() - 1
                }
            }
        };
        self.note(&[Line::File(file)]).await?;
        Ok(number)
    }

    /// Has these shards be missing.
    pub(crate) async fn drop_shards(&self, shards: &[BadShard]) -> Result<()> {
        let mut lines = Vec::new();
        for BadShard { number, shard, .. } in shards {
            if let Some(slot) = self.state.borrow_mut().files.get_mut(*number).and_then(|f| f.shards.get_mut(*shard)) {
                *slot = None;
                lines.push(Line::Shard(*number, *shard, None));
            }
        }
        if lines.is_empty() { Ok(()) } else { self.note(&lines).await }
    }

    /// Looks at all that is there; what is not what it was is missing from then on.
    pub(crate) async fn verify(&self, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<()> {
        let state = self.state.borrow().clone();
        let verified = check(&*self.medium, &self.place, &state, progress, cancel).await?;
        self.clean.set(true);
        self.drop_shards(&verified.bad).await
    }

    /// A shard, empty, to write.
    pub(crate) async fn shard(self: &Rc<Self>, file: usize, index: usize) -> Result<Shard> {
        let most = self.state().files.get(file).map_or(SHARD, |f| f.shard_len(index).unwrap_or(f.shard));
        if let Some(file) = self.state.borrow_mut().files.get_mut(file) {
            file.take_part(index);
        }
        let out = self.medium.create(&self.place, &shard_name(file, index), 0).await?;
        Ok(Shard { shared: self.clone(), file, index, out, hash: self.medium.hasher(most), hashed: 0, length: 0 })
    }

    /// A shard to resume: with the bytes of an earlier writer, if their hash is still right.
    pub(crate) async fn rest_of_shard(self: &Rc<Self>, file: usize, index: usize) -> Result<Shard> {
        let known = self
            .state()
            .files
            .get(file)
            .and_then(|f| Some((f.shard_len(index)?, f.parts.iter().find(|part| part.0 == index)?.clone())));
        let Some((most, (_, bytes, expected))) = known else { return self.shard(file, index).await };
        let (id, name) = (self.place.as_str(), shard_name(file, index));
        let (mut check, mut hash) = (self.medium.hasher(bytes), self.medium.hasher(most));
        let read = async {
            let source = self.medium.open(id, &name).await.ok()??;
            let mut at = 0;
            while at < bytes {
                let n = PIECE.min(bytes - at);
                let piece = source.read(at, n as usize).await.ok()?;
                check.update(&piece);
                hash.update(&piece);
                at += n;
            }
            (check.finish().await.ok()? == expected).then_some(())
        };
        if read.await.is_none() {
            return self.shard(file, index).await;
        }
        let out = self.medium.create(id, &name, bytes).await?;
        if let Some(file) = self.state.borrow_mut().files.get_mut(file) {
            file.take_part(index);
        }
        Ok(Shard { shared: self.clone(), file, index, out, hash, hashed: bytes, length: bytes })
    }

    async fn shard_done(&self, file: usize, index: usize, hash: String) -> Result<()> {
        {
            let mut state = self.state.borrow_mut();
            let file = state.files.get_mut(file).ok_or_else(|| Error::internal("a shard of no file"))?;
            if file.length.is_none() && index == file.shards.len() {
                file.shards.push(None);
            }
            *file.shards.get_mut(index).ok_or_else(|| Error::internal("a shard too many"))? = Some(hash.clone());
        }
        self.note(&[Line::Shard(file, index, Some(hash))]).await
    }

    pub(crate) async fn finish(&self) -> Result<Files> {
        let state = self.state.borrow().clone();
        let text = serde_json::to_vec_pretty(&state).map_err(|e| Error::internal(format!("{STORED}: {e}")))?;
        if State::parse_stored(&text, self.key.id()).is_none() {
            return Err(Error::internal(format!("{}: not all of it has arrived", self.key.url())));
        }
        put(&*self.medium, &self.place, STORED, &text).await?;
        *self.journal.lock().await = None;
        self.medium.remove(&self.place, JOURNAL).await?;
        // What it takes the place of, if there was anything; what is left where this fails is swept away later.
        let _ = clear(&*self.medium, &other_place(&self.place)).await;
        let files = Store { medium: self.medium.clone() }.open(&self.key).await?;
        let files = files.ok_or_else(|| {
            Error::storage(format!(
                "{}: what was written is not there; the browser may be out of storage",
                self.key.url()
            ))
        })?;
        *self.lock.borrow_mut() = None;
        Ok(files)
    }

    /// Gives all of it up.
    pub(crate) async fn discard(&self) -> Result<()> {
        *self.journal.lock().await = None;
        self.medium.remove_folder(&self.place).await?;
        *self.lock.borrow_mut() = None;
        Ok(())
    }

    pub(crate) async fn close(&self) -> Result<()> {
        if self.was_whole && self.is_whole_without_added() {
            for file in &mut self.state.borrow_mut().files {
                if !file.is_whole() {
                    *file = StoredFile::left_out(std::mem::take(&mut file.name));
                }
            }
            return self.finish().await.map(drop);
        }
        let nothing = self.state.borrow().bytes() == 0;
        if !nothing && self.clean.get() {
            self.note(&[Line::Clean(true)]).await?;
        }
        *self.journal.lock().await = None;
        if nothing {
            self.medium.remove_folder(&self.place).await?;
        }
        *self.lock.borrow_mut() = None;
        Ok(())
    }

    /// Whether nothing is missing but what was to be added, of which nothing has come.
    fn is_whole_without_added(&self) -> bool {
        self.state.borrow().files.iter().all(|f| f.is_whole() || is_projector(&f.name) && f.bytes() == 0)
    }
}

/// A shard that is being written.
pub(crate) struct Shard {
    shared: Rc<Shared>,
    file: usize,
    index: usize,
    out: Box<dyn Out>,
    hash: Box<dyn Hasher>,
    /// Bytes that `hash` has seen.
    hashed: u64,
    length: u64,
}

impl Shard {
    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    pub(crate) async fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.hashed += bytes.len() as u64;
        self.out.write(bytes).await?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Stops writing the shard for now: what has arrived of it is kept for the next writer.
    pub(crate) async fn set_aside(mut self) -> Result<()> {
        // A write that was given up may have left anything behind the length.
        if self.length == 0 || self.hashed != self.length {
            return Ok(());
        }
        self.out.flush().await?;
        let hash = self.hash.finish().await?;
        if let Some(file) = self.shared.state.borrow_mut().files.get_mut(self.file) {
            file.put_part((self.index, self.length, hash.clone()));
        }
        self.shared.note(&[Line::Part(self.file, self.index, self.length, hash)]).await
    }

    /// Ends a whole shard. False where its hash is not the expected one: then the shard does not count.
    pub(crate) async fn finish(mut self, expected: Option<&str>) -> Result<bool> {
        let hash = self.hash.finish().await?;
        if expected.is_some_and(|expected| !expected.eq_ignore_ascii_case(&hash)) {
            return Ok(false);
        }
        self.out.flush().await?;
        drop(self.out);
        self.shared.shard_done(self.file, self.index, hash).await?;
        Ok(true)
    }
}

/// A file that is written from its beginning to its end.
pub(crate) struct Sequence {
    shared: Rc<Shared>,
    file: usize,
    shard: u64,
    next: usize,
    current: Option<Shard>,
}

impl Sequence {
    pub(crate) fn new(shared: Rc<Shared>, file: usize) -> Self {
        let shard = shared.state().files.get(file).map_or(SHARD, |f| f.shard);
        Self { shared, file, shard, next: 0, current: None }
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> u64 {
        let whole = self.next - usize::from(self.current.is_some());
        whole as u64 * self.shard + self.current.as_ref().map_or(0, Shard::len)
    }

    /// Shards that were begun.
    pub(crate) fn shards(&self) -> usize {
        self.next
    }

    pub(crate) async fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.current.is_none() {
                self.current = Some(self.shared.shard(self.file, self.next).await?);
                self.next += 1;
            }
            let Some(shard) = &mut self.current else { return Err(Error::internal("no shard is open")) };
            let part = &bytes[..bytes.len().min((self.shard - shard.len()) as usize)];
            shard.append(part).await?;
            bytes = &bytes[part.len()..];
            if shard.len() == self.shard {
                self.end_shard().await?;
            }
        }
        Ok(())
    }

    async fn end_shard(&mut self) -> Result<()> {
        if let Some(shard) = self.current.take() {
            shard.finish(None).await?;
        }
        Ok(())
    }

    /// This is its end, and its length.
    pub(crate) async fn finish(mut self) -> Result<()> {
        let length = self.len();
        self.end_shard().await?;
        let file = {
            let state = self.shared.state();
            let file = state.files.get(self.file).ok_or_else(|| Error::internal("the end of no file"))?;
            StoredFile { length: Some(length), ..file.clone() }
        };
        self.shared.put_file(file).await.map(drop)
    }
}
