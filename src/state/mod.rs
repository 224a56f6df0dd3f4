//! Sequence state: keys and values, recurrent states of the layers, and the tokens that they were computed from.
//!
//! A sequence is a conversation's text as the model has read it. Its state lies in a slot of the GPU's buffers while it
//! is read or written, and in buffers of its own where another sequence needs the slot; after a device loss there is
//! none, and it is recomputed from the tokens.
//! A generation asks [`States::trim`] how much of a text is known, and cuts back to that: prefix cache, regenerating,
//! forks, shifts, saving and device loss do not depend on the kinds of state ([`kinds`]).
//!
//! The host records steps ahead and stops on texts itself: the GPU has then run steps that do not count. Their keys and
//! values are overwritten before they are read. A snapshot of recurrent states is taken at the end of each chunk, and
//! they are reset to the last one before the end ([`States::settle`]); the few tokens behind it are read again with the
//! next turn.

mod checkpoint;
mod history;
mod input;
mod kinds;
mod saved;

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};
use crate::gpu::{Buffer, Encoder, Gpu};
use crate::layout::{BufferId, Layout, Rows, StateShape};
use crate::plan::Pass;
use checkpoint::Checkpoint;
pub(crate) use checkpoint::UNKNOWN;
pub(crate) use history::{History, How};
pub use input::{Embedded, Input, Span};
pub(crate) use kinds::Part;
pub use saved::{Saved, Settings};

/// Checkpoints of a recurrent state that a sequence keeps: of the ends of its latest prompts.
pub(crate) const CHECKPOINTS: usize = 4;

/// Names a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SequenceId(pub u32);

/// The sequence that a session begins with.
pub const FIRST: SequenceId = SequenceId(0);

/// A slot's number.
pub type Slot = usize;

/// The adapter that a sequence is read and written with: another one makes other keys and values of the same tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Voice {
    /// What tells its contents from others', hexadecimal.
    pub adapter: String,
    /// How strongly; never 0, which is no adapter.
    pub scale: f32,
}

/// A copy of a sequence's state outside of the slots. It is never written again, so that forks share it.
#[derive(Clone)]
struct Kept {
    /// Positions that it holds: at least as many as the sequence has.
    positions: u32,
    /// One for each part.
    buffers: Rc<[Buffer]>,
}

/// Where what a sequence remembers is.
#[derive(Clone)]
enum Place {
    /// In its slot.
    Slot,
    /// In buffers of its own.
    Kept(Kept),
    /// In the slot of the sequence that it was forked from, until that one changes what both have.
    With(SequenceId),
    /// Nowhere: it was lost with its device, or there is nothing yet.
    Nowhere,
}

/// What is known of a sequence.
struct Sequence {
    /// The tokens that have been read, from position 0 on.
    history: History,
    /// Positions that steps may have written to since position 0 was: more than are valid where a generation ended
    /// early.
    written: u32,
    /// Whether keys are rotated as in texts longer than the model's original context.
    long: bool,
    /// With which adapter its tokens were read.
    voice: Option<Voice>,
    slot: Option<Slot>,
    place: Place,
    /// Number of tokens that the recurrent states have read; `None` if unknown.
    at: Option<u32>,
    /// Snapshots that the recurrent states can be reset to, oldest first.
    checkpoints: Vec<Checkpoint>,
    /// Snapshots taken within the current generation.
    marks: Vec<Checkpoint>,
    /// When it last got a slot, or was used in it.
    used: u64,
    /// Whether its copy outside of the slots may be evicted.
    evictable: bool,
}

impl Sequence {
    fn new(history: History) -> Self {
        let (checkpoints, marks) = (Vec::new(), Vec::new());
        Self {
            history,
            written: 0,
            long: false,
            voice: None,
            slot: None,
            place: Place::Nowhere,
            at: None,
            checkpoints,
            marks,
            used: 0,
            evictable: false,
        }
    }

    fn len(&self) -> u32 {
        self.history.len() as u32
    }

    /// Whether its state is in the slot of the sequence `from`.
    fn is_with(&self, from: SequenceId) -> bool {
        matches!(self.place, Place::With(of) if of == from)
    }

    /// Its state is at `place` from now on.
    fn move_to(&mut self, place: &Place) {
        match place {
            Place::Nowhere => self.lose(),
            place => self.place = place.clone(),
        }
    }

    /// Drops the state; it is to be recomputed from the tokens.
    fn lose(&mut self) {
        (self.place, self.at) = (Place::Nowhere, None);
        self.checkpoints.clear();
        self.marks.clear();
    }
}

/// All sequences of a session, and the slots that they take turns in.
pub struct States {
    gpu: Rc<Gpu>,
    parts: Vec<Part>,
    slots: Vec<Option<SequenceId>>,
    sequences: BTreeMap<SequenceId, Sequence>,
    next: u32,
    turns: u64,
}

impl States {
    /// One empty sequence, and `slots` slots.
    pub fn new(gpu: Rc<Gpu>, slots: u32) -> Self {
        let sequences = BTreeMap::from([(FIRST, Sequence::new(History::default()))]);
        Self { gpu, parts: Vec::new(), slots: vec![None; slots as usize], sequences, next: FIRST.0 + 1, turns: 0 }
    }

    /// The layout's buffers of states are these from now on; `buffer_of` knows them. What sequences have in slots goes
    /// along.
    pub fn attach<'a>(&mut self, layout: &Layout, buffer_of: impl Fn(BufferId) -> &'a Buffer) {
        let ids = (0..layout.specs().len() as u32).map(BufferId);
        let parts: Vec<Part> = ids
            .filter_map(|id| layout.spec(id).state.map(|shape| (id, shape)))
            .map(|(id, shape)| Part { shape, buffer: buffer_of(id).clone() })
            .collect();
        let before = std::mem::replace(&mut self.parts, parts);
        if before.is_empty() {
            return;
        }
        let mut encoder = self.gpu.encoder("grow");
        for slot in (0..self.slots.len()).filter(|slot| self.slots[*slot].is_some()) {
            self.parts.iter().zip(&before).for_each(|(part, before)| part.take_over(&mut encoder, slot, before));
        }
        self.gpu.submit(encoder);
    }

    /// A part of the layout's states is another buffer from now on, to which everything is copied that sequences have
    /// in their slots.
    pub(crate) fn move_part(&mut self, part: usize, shape: StateShape, buffer: Buffer) {
        let moved = Part { shape, buffer };
        let mut encoder = self.gpu.encoder("grow");
        (0..self.slots.len())
            .filter(|slot| self.slots[*slot].is_some())
            .for_each(|slot| moved.take_over(&mut encoder, slot, &self.parts[part]));
        self.gpu.submit(encoder);
        self.parts[part] = moved;
    }

    /// A part is another buffer from now on, of which nothing is known.
    pub(crate) fn put_part(&mut self, part: usize, shape: StateShape, buffer: Buffer) {
        self.parts[part] = Part { shape, buffer };
    }

    fn get(&self, id: SequenceId) -> Result<&Sequence> {
        self.sequences.get(&id).ok_or_else(|| unknown(id))
    }

    fn get_mut(&mut self, id: SequenceId) -> Result<&mut Sequence> {
        self.sequences.get_mut(&id).ok_or_else(|| unknown(id))
    }

    /// The tokens that a sequence has read.
    pub(crate) fn history(&self, id: SequenceId) -> Result<&History> {
        Ok(&self.get(id)?.history)
    }

    /// Whether its keys are rotated as in long texts.
    pub fn is_long(&self, id: SequenceId) -> Result<bool> {
        Ok(self.get(id)?.long)
    }

    /// Sets how its keys are rotated, from position 0 on.
    pub fn set_long(&mut self, id: SequenceId, long: bool) -> Result<()> {
        self.get_mut(id)?.long = long;
        Ok(())
    }

    /// The adapter that its tokens were read with.
    pub fn voice(&self, id: SequenceId) -> Result<Option<&Voice>> {
        Ok(self.get(id)?.voice.as_ref())
    }

    /// Sets the adapter that it is read and written with. State that was computed with another one is dropped.
    pub fn speak(&mut self, id: SequenceId, voice: Option<Voice>) -> Result<()> {
        if self.get(id)?.voice == voice {
            return Ok(());
        }
        self.forget(id)?;
        self.get_mut(id)?.voice = voice;
        Ok(())
    }

    /// Whether any layer has a state that cannot be cut back.
    pub fn recurrent(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.shape, StateShape::Recurrent { .. }))
    }

    /// Whether the state has to be recomputed from the tokens before the sequence is read or extended.
    pub fn is_lost(&self, id: SequenceId) -> Result<bool> {
        let sequence = self.get(id)?;
        Ok(matches!(sequence.place, Place::Nowhere) && sequence.len() > 0)
    }

    /// From where a text has to be read again that is the sequence's up to position `p`: at most `p`, which is at most
    /// what it has read.
    pub fn trim(&self, id: SequenceId, p: u32) -> Result<u32> {
        let sequence = self.get(id)?;
        // What is made again can be made up to anywhere, but for rows of which no more than the hash is there.
        if matches!(sequence.place, Place::Nowhere) {
            return Ok(p.min(sequence.history.input().filled() as u32));
        }
        let mut p = p;
        loop {
            let mut least = p;
            if self.recurrent() && sequence.at != Some(p) {
                least = sequence.checkpoints.iter().map(|c| c.position).filter(|at| *at <= p).max().unwrap_or(0);
            }
            for part in &self.parts {
                least = least.min(part.trim(least, sequence.written));
            }
            if least == p {
                return Ok(p);
            }
            p = least;
        }
    }

    /// Forgets what comes after the first `p` tokens: what [`States::trim`] answered. The sequence has its slot.
    pub fn cut(&mut self, id: SequenceId, p: u32) -> Result<()> {
        let slot = self.slot_of(id)?;
        if self.trim(id, p)? != p {
            return Err(Error::internal(format!("a state that cannot be cut back to position {p}")));
        }
        if self.forks_of(id).any(|(_, fork)| fork.len() > p) {
            self.part_from_forks(id)?;
        }
        let recurrent = self.recurrent();
        let sequence = self.sequences.get_mut(&id).ok_or_else(|| unknown(id))?;
        sequence.history.truncate(p as usize);
        sequence.checkpoints.retain(|c| c.position <= p);
        let fresh = p == 0;
        if fresh {
            sequence.written = 0;
            sequence.place = Place::Slot;
        }
        if !recurrent || (sequence.at == Some(p) && !fresh) || matches!(sequence.place, Place::Nowhere) {
            return Ok(());
        }
        sequence.at = Some(p);
        let mut encoder = self.gpu.encoder("go back");
        match sequence.checkpoints.last().filter(|_| !fresh) {
            Some(checkpoint) => checkpoint.put_back(&mut encoder, &self.parts, slot),
            None => self.parts.iter().for_each(|part| part.clear(&mut encoder, slot)),
        }
        self.gpu.submit(encoder);
        Ok(())
    }

    /// A pass that is submitted reads these tokens.
    pub(crate) fn read_pass(&mut self, id: SequenceId, tokens: &Input, pass: Pass) -> Result<()> {
        self.read(id, tokens.len(), |history| history.pass(tokens, pass))
    }

    /// Steps that are submitted read these tokens.
    pub fn read_steps(&mut self, id: SequenceId, tokens: &[u32]) -> Result<()> {
        self.read(id, tokens.len(), |history| history.steps(tokens))
    }

    fn read(&mut self, id: SequenceId, n: usize, note: impl FnOnce(&mut History)) -> Result<()> {
        let sequence = self.get_mut(id)?;
        let before = sequence.len();
        note(&mut sequence.history);
        sequence.at = sequence.at.filter(|at| *at == before).map(|at| at + n as u32);
        sequence.written = sequence.written.max(sequence.len());
        Ok(())
    }

    /// Steps that are submitted may write to positions below `end`, whether or not they count.
    pub fn may_write(&mut self, id: SequenceId, end: u32) -> Result<()> {
        let sequence = self.get_mut(id)?;
        sequence.written = sequence.written.max(end);
        Ok(())
    }

    /// Takes a snapshot of the recurrent states at the end of a prompt, with its logits: generation can resume from
    /// here, and the last token need not be read again for its logits, of which there are `bytes` bytes.
    pub fn checkpoint(&mut self, id: SequenceId, logits: &Buffer, bytes: u64) -> Result<()> {
        let slot = self.slot_of(id)?;
        let Some(at) = self.get(id)?.at.filter(|_| self.recurrent()) else { return Ok(()) };
        let mut checkpoint = match Checkpoint::with_logits(&self.gpu, &self.parts, bytes) {
            // The text is read again where it is asked for again.
            Err(e) if e.kind() == ErrorKind::OutOfMemory => return Ok(()),
            checkpoint => checkpoint?,
        };
        let mut encoder = self.gpu.encoder("checkpoint");
        checkpoint.take(&mut encoder, &self.parts, slot, at);
        checkpoint.take_logits(&mut encoder, logits);
        self.gpu.submit(encoder);
        let kept = &mut self.get_mut(id)?.checkpoints;
        kept.retain(|c| c.position != at);
        kept.push(checkpoint);
        if kept.len() > CHECKPOINTS {
            kept.remove(0);
        }
        Ok(())
    }

    /// Whether a checkpoint has the logits of a text of `n` tokens, with which the sequence begins.
    pub fn has_logits(&self, id: SequenceId, n: u32) -> Result<bool> {
        Ok(self.get(id)?.checkpoints.iter().any(|checkpoint| checkpoint.position == n))
    }

    /// Puts the logits back that a checkpoint has of the end of the text.
    pub fn put_back_logits(&self, id: SequenceId, logits: &Buffer) -> Result<()> {
        let sequence = self.get(id)?;
        let checkpoint = sequence.checkpoints.iter().find(|checkpoint| checkpoint.position == sequence.len());
        let checkpoint = checkpoint.ok_or_else(|| Error::internal("no logits of this text"))?;
        let mut encoder = self.gpu.encoder("logits");
        checkpoint.put_back_logits(&mut encoder, logits);
        self.gpu.submit(encoder);
        Ok(())
    }

    /// A generation begins, of which up to `ahead` chunks may be under way at one time: there is room for their marks,
    /// and nothing is made later.
    pub fn begin(&mut self, id: SequenceId, ahead: usize) -> Result<()> {
        if !self.recurrent() {
            return Ok(());
        }
        // What earlier generations have marked is of other texts.
        self.get_mut(id)?.marks.iter_mut().for_each(Checkpoint::forget);
        // One at the end of each chunk under way, and one at the end of the last that was read.
        while self.get(id)?.marks.len() < ahead + 1 {
            let room = Checkpoint::new(&self.gpu, &self.parts)?;
            self.get_mut(id)?.marks.push(room);
        }
        let (slot, at) = (self.slot_of(id)?, self.get(id)?.at);
        let mut encoder = self.gpu.encoder("mark");
        self.mark(id, &mut encoder, slot, at.unwrap_or(0))?;
        self.gpu.submit(encoder);
        Ok(())
    }

    /// When `encoder` runs so far, the sequence in `slot` has read `position` tokens, if none of them was the last.
    pub fn mark(&mut self, id: SequenceId, encoder: &mut Encoder, slot: Slot, position: u32) -> Result<()> {
        let parts = &self.parts;
        let sequence = self.sequences.get_mut(&id).ok_or_else(|| unknown(id))?;
        if !sequence.marks.is_empty() {
            // The oldest becomes the youngest.
            sequence.marks.rotate_left(1);
        }
        if let Some(mark) = sequence.marks.last_mut() {
            mark.take(encoder, parts, slot, position);
        }
        Ok(())
    }

    /// The snapshot before the `later` youngest is of `position` tokens.
    pub fn marked(&mut self, id: SequenceId, later: usize, position: u32) -> Result<()> {
        let marks = &mut self.get_mut(id)?.marks;
        if let Some(mark) = marks.iter_mut().rev().nth(later) {
            mark.position = position;
        }
        Ok(())
    }

    /// A generation has ended. Of the tokens that its steps have read `tokens` count; the GPU has read `ran` of them
    /// and of others. What does not count never was: a recurrent state goes back to the last mark before the end.
    pub fn settle(&mut self, id: SequenceId, tokens: &[u32], ran: u32) -> Result<()> {
        let before = self.get(id)?.len();
        let at = self.get(id)?.at;
        self.read_steps(id, tokens)?;
        if !self.recurrent() {
            return Ok(());
        }
        let end = before + tokens.len() as u32;
        let slot = self.slot_of(id)?;
        let sequence = self.sequences.get_mut(&id).ok_or_else(|| unknown(id))?;
        sequence.at = at.filter(|at| *at == before).map(|at| at + ran);
        if sequence.at == Some(end) {
            return Ok(());
        }
        let marked = sequence
            .marks
            .iter()
            .filter(|mark| mark.position <= end && mark.position >= before)
            .max_by_key(|mark| mark.position);
        let Some(mark) = marked.filter(|_| sequence.at.is_some()) else {
            // Nothing is known of it: the next turn reads from a checkpoint on, or from the beginning.
            sequence.at = None;
            return Ok(());
        };
        let mut encoder = self.gpu.encoder("go back");
        mark.put_back(&mut encoder, &self.parts, slot);
        self.gpu.submit(encoder);
        let position = mark.position;
        sequence.at = Some(position);
        sequence.history.truncate(position as usize);
        Ok(())
    }

    /// Nothing is known of the state any more: the next turn reads everything.
    pub fn forget(&mut self, id: SequenceId) -> Result<()> {
        let sequence = self.get_mut(id)?;
        sequence.history.clear();
        sequence.at = None;
        sequence.checkpoints.clear();
        Ok(())
    }

    /// Everything was lost but the tokens: those in `history` are to be read again, as they were.
    pub(crate) fn lose(&mut self, id: SequenceId, history: History, long: bool) -> Result<()> {
        let sequence = self.get_mut(id)?;
        sequence.written = sequence.written.max(history.len() as u32);
        (sequence.history, sequence.long) = (history, long);
        sequence.lose();
        Ok(())
    }

    /// Prepares to recompute the state, from no tokens on: the sequence has its slot.
    pub fn begin_again(&mut self, id: SequenceId) -> Result<()> {
        let slot = self.slot_of(id)?;
        self.part_from_forks(id)?;
        let mut encoder = self.gpu.encoder("begin again");
        self.parts.iter().for_each(|part| part.clear(&mut encoder, slot));
        self.gpu.submit(encoder);
        let sequence = self.get_mut(id)?;
        sequence.history.clear();
        (sequence.written, sequence.place, sequence.at) = (0, Place::Slot, Some(0));
        Ok(())
    }

    /// By how many a sequence's positions are fewer than the slots of the cache that it takes.
    pub fn lag(&self, id: SequenceId) -> Result<u32> {
        Ok(self.get(id)?.history.input().lag())
    }

    /// The slot of a sequence that has one.
    pub fn slot_of(&self, id: SequenceId) -> Result<Slot> {
        self.get(id)?.slot.ok_or_else(|| Error::internal(format!("sequence {} has no slot", id.0)))
    }

    /// Evicts the least recently used sequence from its slot and returns the slot; free slots come first.
    pub fn vacate(&mut self) -> Result<Slot> {
        let last_used =
            |slot: &Slot| self.slots[*slot].and_then(|id| self.sequences.get(&id)).map_or(0, |sequence| sequence.used);
        let slot =
            (0..self.slots.len()).min_by_key(last_used).ok_or_else(|| Error::internal("a session without slots"))?;
        self.leave(slot)?;
        Ok(slot)
    }

    /// Gives a sequence a slot, if it has none: it is about to be written.
    pub fn enter(&mut self, id: SequenceId) -> Result<Slot> {
        self.turns += 1;
        let turn = self.turns;
        let sequence = self.get_mut(id)?;
        sequence.used = turn;
        if let Some(slot) = sequence.slot {
            if !self.only_grow() {
                self.part_from_forks(id)?;
            }
            return Ok(slot);
        }
        let slot = self.vacate()?;
        // Within one buffer nothing can be copied.
        if let Place::With(from) = self.get(id)?.place {
            self.part_from_forks(from)?;
        }
        let sequence = self.sequences.get_mut(&id).ok_or_else(|| unknown(id))?;
        if let Place::Kept(kept) = std::mem::replace(&mut sequence.place, Place::Nowhere) {
            let mut encoder = self.gpu.encoder("enter");
            let n = sequence.len();
            self.parts
                .iter()
                .zip(kept.buffers.iter())
                .for_each(|(part, buffer)| part.put_back(&mut encoder, slot, n, buffer, kept.positions));
            self.gpu.submit(encoder);
            sequence.place = Place::Slot;
        }
        sequence.slot = Some(slot);
        self.slots[slot] = Some(id);
        Ok(slot)
    }

    /// The sequence in the slot goes out of it: afterwards it is free.
    pub fn leave(&mut self, slot: Slot) -> Result<()> {
        let Some(id) = self.slots[slot] else { return Ok(()) };
        let n = self.get(id)?.len();
        let only_grow = self.only_grow();
        if self.forks_of(id).any(|(_, fork)| fork.len() > n || !only_grow && fork.len() < n) {
            self.part_from_forks(id)?;
        }
        let place = self.place_outside(id)?;
        for sequence in self.forks_mut(id) {
            sequence.move_to(&place);
        }
        let sequence = self.get_mut(id)?;
        sequence.slot = None;
        sequence.move_to(&place);
        sequence.marks.clear();
        // For a later prompt that extends this text, keep the snapshot at the end of its last prompt.
        if sequence.evictable && sequence.checkpoints.len() > 1 {
            sequence.checkpoints.drain(..sequence.checkpoints.len() - 1);
        }
        self.slots[slot] = None;
        Ok(())
    }

    /// Whether state only grows with the text (no windows, no recurrent states): that of a prefix stays valid, whatever
    /// follows.
    fn only_grow(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.shape, StateShape::Rows(Rows { window: None, .. })))
    }

    /// Sequences whose state is in the slot of the one that they were forked from.
    fn forks_of(&self, from: SequenceId) -> impl Iterator<Item = (SequenceId, &Sequence)> {
        self.sequences.iter().map(|(id, sequence)| (*id, sequence)).filter(move |(_, fork)| fork.is_with(from))
    }

    fn forks_mut(&mut self, from: SequenceId) -> impl Iterator<Item = &mut Sequence> {
        self.sequences.values_mut().filter(move |fork| fork.is_with(from))
    }

    /// What forks have in a sequence's slot, which is about to change, becomes a copy of their own.
    fn part_from_forks(&mut self, from: SequenceId) -> Result<()> {
        let Some((longest, _)) = self.forks_of(from).max_by_key(|(_, fork)| fork.len()) else { return Ok(()) };
        let place = self.place_outside(longest)?;
        self.forks_mut(from).for_each(|fork| fork.move_to(&place));
        Ok(())
    }

    /// Where a sequence's state is once it is outside of the slots: nowhere where there is no memory for a copy.
    fn place_outside(&self, id: SequenceId) -> Result<Place> {
        match self.copy_of(id) {
            Err(e) if e.kind() == ErrorKind::OutOfMemory => Ok(Place::Nowhere),
            place => place,
        }
    }

    /// A sequence's state outside of the slots.
    fn copy_of(&self, id: SequenceId) -> Result<Place> {
        let sequence = self.get(id)?;
        let slot = match sequence.place {
            Place::Slot => sequence.slot,
            Place::With(from) => self.get(from)?.slot,
            _ => None,
        };
        let Some(slot) = slot else { return Ok(sequence.place.clone()) };
        let n = sequence.len();
        if n == 0 {
            return Ok(Place::Nowhere);
        }
        let buffers = self.parts.iter().map(|part| self.buffer_for(part, n)).collect::<Result<Rc<[_]>>>()?;
        let mut encoder = self.gpu.encoder("keep");
        self.parts.iter().zip(buffers.iter()).for_each(|(part, buffer)| part.keep(&mut encoder, slot, n, buffer));
        self.gpu.submit(encoder);
        Ok(Place::Kept(Kept { positions: n, buffers }))
    }

    /// A buffer for what a part has of `n` positions.
    fn buffer_for(&self, part: &Part, n: u32) -> Result<Buffer> {
        self.gpu.buffer("kept", part.bytes(n), wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST)
    }

    /// Whether the sequence's copy outside of the slots may be evicted from now on: a prompt that comes back to its
    /// text is then read again.
    pub fn set_evictable(&mut self, id: SequenceId, evictable: bool) -> Result<()> {
        self.get_mut(id)?.evictable = evictable;
        Ok(())
    }

    /// Evicts copies outside of the slots, the least recently used first, until the evictable ones take at most `bytes`
    /// bytes.
    pub fn evict(&mut self, bytes: u64) {
        loop {
            let outside = || {
                self.sequences
                    .iter()
                    .filter(|(_, sequence)| sequence.evictable && matches!(sequence.place, Place::Kept(_)))
            };
            if outside().map(|(_, sequence)| self.bytes_of(sequence)).sum::<u64>() <= bytes {
                return;
            }
            let Some(id) = outside().min_by_key(|(_, sequence)| sequence.used).map(|(id, _)| *id) else { return };
            if let Some(sequence) = self.sequences.get_mut(&id) {
                sequence.history.clear();
                sequence.lose();
            }
        }
    }

    /// Bytes that a sequence outside of the slots takes.
    fn bytes_of(&self, sequence: &Sequence) -> u64 {
        let Place::Kept(kept) = &sequence.place else { return 0 };
        kept.buffers.iter().map(Buffer::bytes).sum::<u64>()
            + sequence.checkpoints.iter().map(Checkpoint::bytes).sum::<u64>()
    }

    /// When a sequence was last used, in turns.
    pub fn used(&self, id: SequenceId) -> u64 {
        self.get(id).map_or(0, |sequence| sequence.used)
    }

    /// A new sequence of no tokens.
    pub fn begin_another(&mut self) -> SequenceId {
        self.adopt(Sequence::new(History::default()))
    }

    /// A new sequence that begins as another is now. Nothing is copied before one of the two needs a slot or changes
    /// what both have.
    pub fn fork(&mut self, from: SequenceId) -> Result<SequenceId> {
        let sequence = self.get(from)?;
        let place = match sequence.place {
            Place::Slot if sequence.len() > 0 => Place::With(from),
            Place::Slot => Place::Nowhere,
            _ => sequence.place.clone(),
        };
        let copy = Sequence {
            written: sequence.written,
            long: sequence.long,
            voice: sequence.voice.clone(),
            place,
            used: sequence.used,
            at: sequence.at,
            checkpoints: sequence.checkpoints.clone(),
            ..Sequence::new(sequence.history.clone())
        };
        Ok(self.adopt(copy))
    }

    /// A new sequence that begins as the first `n` tokens of another: the whole of it where its state cannot be cut
    /// anywhere.
    pub fn fork_at(&mut self, from: SequenceId, n: usize) -> Result<SequenceId> {
        let only_grow = self.only_grow();
        let id = self.fork(from)?;
        let fork = self.get_mut(id)?;
        if only_grow && n < fork.history.len() {
            fork.history.truncate(n);
        }
        Ok(id)
    }

    fn adopt(&mut self, sequence: Sequence) -> SequenceId {
        let id = SequenceId(self.next);
        self.next += 1;
        self.sequences.insert(id, sequence);
        id
    }

    /// Forgets a sequence and frees its memory. The first is never gone: it is empty afterwards.
    pub fn release(&mut self, id: SequenceId) {
        if let Some((slot, released)) = self.sequences.remove(&id).and_then(|sequence| Some((sequence.slot?, sequence)))
        {
            // The longest of its forks has the slot from now on, and the others are with that one.
            let heir = self.forks_of(id).max_by_key(|(_, fork)| fork.len()).map(|(heir, _)| heir);
            self.slots[slot] = heir;
            if let Some(heir) = heir {
                self.forks_mut(id).for_each(|fork| fork.place = Place::With(heir));
            }
            if let Some(sequence) = heir.and_then(|heir| self.sequences.get_mut(&heir)) {
                (sequence.place, sequence.slot, sequence.used) = (Place::Slot, Some(slot), released.used);
                sequence.written = sequence.written.max(released.written);
            }
        }
        if id == FIRST {
            self.sequences.insert(id, Sequence::new(History::default()));
        }
    }

    /// Takes over the sequences of a lost device. Each is recomputed when it next needs a slot.
    pub fn inherit(&mut self, lost: Self) {
        self.sequences = lost.sequences;
        self.next = lost.next;
        self.lose_all();
    }

    /// Drops the state of every sequence and keeps the tokens. Each is recomputed when it next needs a slot.
    pub fn lose_all(&mut self) {
        for sequence in self.sequences.values_mut() {
            sequence.slot = None;
            sequence.lose();
        }
        self.slots.fill(None);
    }

    /// The shapes of the parts that are rows, for reports.
    pub fn rows(&self) -> impl Iterator<Item = &Rows> {
        self.parts.iter().filter_map(|part| match &part.shape {
            StateShape::Rows(rows) => Some(rows),
            StateShape::Recurrent { .. } => None,
        })
    }
}

fn unknown(SequenceId(id): SequenceId) -> Error {
    Error::bad_option(format!("there is no conversation {id}: it was released, or its engine is another"))
}
