//! Which tokens the cache holds keys and values of, so that a prompt that begins with them is not read again; and conversations that take
//! turns in it.

use super::history::History;
use super::session::{Session, copy_rows};
use crate::error::{Error, Result};
use crate::gpu::Buffer;
use crate::plan::CacheShape;

/// The conversation that a session begins with.
pub const FIRST: u32 = 0;

/// A conversation that does not have the cache: its tokens, and its part of each cache buffer, `[G][slots in use]` rows. The buffers are
/// never written again, so that forks share them.
#[derive(Clone)]
pub(super) struct Parked {
    pub(super) tokens: History,
    pub(super) written: u32,
    pub(super) long: bool,
    /// `None` where they were lost with their device: the tokens are read again once it has its turn.
    pub(super) buffers: Option<Vec<Buffer>>,
}

impl Session {
    /// How many of the prompt's tokens need not be read: the cache holds them. The last one is read always, for its logits. Layers with a
    /// window forget: where they no longer hold what the next position sees, everything is read again; so it is where a prompt is as long as to
    /// be rotated otherwise.
    pub(super) fn known_prefix(&self, prompt: &[u32]) -> usize {
        let common = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let known = common.min(prompt.len().saturating_sub(1));
        // A slot holds the youngest position that was written to it.
        let held = |shape: &CacheShape| {
            let first = self.written.saturating_sub(shape.positions);
            shape.window.is_none_or(|w| (known as u32 + 1).saturating_sub(w) >= first)
        };
        if self.is_long(prompt.len() as u32) == self.long && self.cache_shapes().all(held) { known } else { 0 }
    }

    /// A new conversation that begins as `from` is now; only what differs later takes memory of its own.
    pub fn fork(&mut self, from: u32) -> Result<u32> {
        let copy = self.copy_of(from)?;
        Ok(self.adopt(copy))
    }

    /// A conversation's tokens and cache.
    pub(super) fn copy_of(&self, id: u32) -> Result<Parked> {
        if id == self.active { self.park() } else { self.parked.get(&id).ok_or_else(|| unknown(id)).cloned() }
    }

    /// A new conversation that begins as this.
    pub(super) fn adopt(&mut self, parked: Parked) -> u32 {
        let id = self.next_conversation;
        self.next_conversation += 1;
        self.parked.insert(id, parked);
        id
    }

    /// The parts of the cache, in the order of their buffers.
    pub(super) fn cache_shapes(&self) -> impl Iterator<Item = &CacheShape> {
        self.layout().specs().iter().filter_map(|s| s.cache.as_ref())
    }

    /// Gives the cache to a conversation.
    pub fn switch(&mut self, to: u32) -> Result<()> {
        if to == self.active {
            return Ok(());
        }
        let next = self.parked.get(&to).ok_or_else(|| unknown(to))?.clone();
        self.ensure(next.tokens.len() as u32)?;
        let before = self.park()?;
        self.parked.remove(&to);
        self.parked.insert(std::mem::replace(&mut self.active, to), before);
        if let Some(buffers) = &next.buffers {
            self.copy_parked(buffers, next.tokens.len(), false)?;
        }
        self.missing = next.buffers.is_none();
        self.cached = next.tokens;
        self.written = next.written;
        if next.long != self.long {
            self.rotate_long(next.long)?;
        }
        Ok(())
    }

    /// Forgets a conversation. The one that has the cache loses what it holds.
    pub fn release(&mut self, id: u32) {
        if id == self.active {
            self.cached.clear();
        } else {
            self.parked.remove(&id);
        }
    }

    /// The conversation that has the cache, as a copy.
    fn park(&self) -> Result<Parked> {
        let parked = |buffers| Parked { tokens: self.cached.clone(), written: self.written, long: self.long, buffers };
        if self.missing {
            return Ok(parked(None));
        }
        let n = self.cached.len();
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let bytes = |shape: &CacheShape| u64::from(shape.heads) * u64::from(shape.used(n as u32)) * shape.row;
        let buffers = self.cache_shapes().map(|shape| self.gpu.buffer("parked", bytes(shape).max(4), usage)).collect::<Result<Vec<_>>>()?;
        self.copy_parked(&buffers, n, true)?;
        Ok(parked(Some(buffers)))
    }

    /// Copies the slots that `n` positions use between the cache and buffers that hold nothing else.
    fn copy_parked(&self, parked: &[Buffer], n: usize, out: bool) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        let mut encoder = self.gpu.encoder("conversation");
        let caches = self.layout().specs().iter().filter_map(|s| Some((&s.label, s.cache.as_ref()?)));
        for ((label, shape), parked) in caches.zip(parked) {
            let used = shape.used(n as u32);
            let (cache, parked) = ((self.buffer(label)?, shape.positions), (parked, used));
            let (from, to) = if out { (cache, parked) } else { (parked, cache) };
            copy_rows(&mut encoder, shape, used, from, to);
        }
        self.gpu.submit(encoder);
        Ok(())
    }
}

fn unknown(id: u32) -> Error {
    Error::bad_option(format!("there is no conversation {id}: it was released, or its engine is another"))
}
