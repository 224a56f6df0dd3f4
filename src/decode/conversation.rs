//! Which tokens the cache holds keys and values of, so that a prompt that begins with them is not read again; and conversations that take
//! turns in it.

use super::session::Session;
use crate::error::{Error, Result};
use crate::gpu::Buffer;
use crate::plan::Role;

/// The conversation that a session begins with.
pub const FIRST: u32 = 0;

/// A conversation that does not have the cache: its tokens, and its part of each cache buffer, `[G][tokens][EP]`. The buffers are never
/// written again, so that forks share them.
#[derive(Clone)]
pub(super) struct Parked {
    tokens: Vec<u32>,
    buffers: Vec<Buffer>,
}

impl Session {
    /// How many of the prompt's tokens need not be read: the cache holds them. The last one is read always, for its logits.
    pub(super) fn known_prefix(&self, prompt: &[u32]) -> usize {
        let common = self.cached.iter().zip(prompt).take_while(|(a, b)| a == b).count();
        common.min(prompt.len().saturating_sub(1))
    }

    /// A new conversation that begins as `from` is now; only what differs later takes memory of its own.
    pub fn fork(&mut self, from: u32) -> Result<u32> {
        let copy = if from == self.active { self.park()? } else { self.parked.get(&from).ok_or_else(|| unknown(from))?.clone() };
        let id = self.next_conversation;
        self.next_conversation += 1;
        self.parked.insert(id, copy);
        Ok(id)
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
        self.copy_rows(&next.buffers, next.tokens.len(), false)?;
        self.cached = next.tokens;
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
        let row = self.row_bytes();
        let caches = self.layout().specs().iter().filter(|s| s.role == Role::Cache).count();
        let bytes = self.model().config().heads.g as u64 * self.cached.len() as u64 * row;
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let buffers = (0..caches).map(|_| self.gpu.buffer("parked", bytes.max(4), usage)).collect::<Result<Vec<_>>>()?;
        self.copy_rows(&buffers, self.cached.len(), true)?;
        Ok(Parked { tokens: self.cached.clone(), buffers })
    }

    /// Copies the first `n` positions between the cache and buffers that hold nothing else.
    fn copy_rows(&self, parked: &[Buffer], n: usize, out: bool) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        let (row, capacity) = (self.row_bytes(), u64::from(self.sizes().capacity));
        let bytes = n as u64 * row;
        let mut encoder = self.gpu.encoder("conversation");
        let caches = self.layout().specs().iter().filter(|s| s.role == Role::Cache);
        for (spec, parked) in caches.zip(parked) {
            let cache = self.buffer(&spec.label)?;
            for g in 0..self.model().config().heads.g as u64 {
                if out {
                    encoder.copy_buffer_to_buffer(cache.raw(), g * capacity * row, parked.raw(), g * bytes, bytes);
                } else {
                    encoder.copy_buffer_to_buffer(parked.raw(), g * bytes, cache.raw(), g * capacity * row, bytes);
                }
            }
        }
        self.gpu.submit(encoder);
        Ok(())
    }

    /// Bytes of a position's keys, or values, of one kv head.
    pub(super) fn row_bytes(&self) -> u64 {
        self.model().config().heads.cached() as u64 * self.lane().kv_bytes()
    }
}

fn unknown(id: u32) -> Error {
    Error::bad_option(format!("there is no conversation {id}: it was released, or its engine is another"))
}
