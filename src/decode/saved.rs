//! Conversations outside of the GPU: what the cache holds of one, written to a store and taken back, so that it need not be read again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::conversation::Parked;
use super::history::{History, Stretch};
use super::session::Session;
use crate::error::{Error, Result};
use crate::format::manifest::hex;
use crate::plan::{Kv, Lane};
use crate::source::Files;
use crate::store::Writer;
use crate::stream::Cancel;

/// Bytes that are moved at one time.
const PIECE: u64 = 8 << 20;
/// Bytes that may wait for the GPU.
const IN_FLIGHT: u64 = 64 << 20;
const VERSION: u32 = 1;
/// The file of the cache: its parts in the order of the layers, each as `[heads][slots in use]` rows.
const CACHE: &str = "cache.bin";
/// The file that says what the cache is of.
const ABOUT: &str = "conversation.json";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct About {
    version: u32,
    /// [`crate::format::Checkpoint::fingerprint`] of the model.
    model: String,
    lane: Lane,
    kv: Kv,
    tokens: Vec<u32>,
    /// How they were read.
    #[serde(default)]
    read: Vec<Stretch>,
    written: u32,
    /// Whether it is rotated as in texts longer than the model's original context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    long: bool,
    /// (heads, slots in use, bytes of a row) of each part.
    parts: Vec<(u32, u32, u64)>,
    /// Of the cache's file and of this one without the hash, hexadecimal.
    sha256: String,
}

impl About {
    fn text(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal(format!("conversation: {e}")))
    }
}

impl Session {
    /// Writes a conversation of the model with that fingerprint.
    pub async fn save(&mut self, conversation: u32, model: &str, writer: &mut Writer, cancel: &Cancel) -> Result<()> {
        let mut copy = self.copy_of(conversation)?;
        if copy.buffers.is_none() {
            // A lost one is made again, in its turn.
            self.switch(conversation)?;
            self.rebuild(self.cached.len(), cancel).await?;
            copy = self.copy_of(conversation)?;
        }
        let Parked { tokens, written, long, buffers } = copy;
        let buffers = buffers.unwrap_or_default();
        let parts: Vec<_> = self.cache_shapes().map(|shape| (shape.heads, shape.used(tokens.len() as u32), shape.row)).collect();
        writer.create(CACHE).await?;
        let mut hash = Sha256::new();
        for (buffer, (heads, slots, row)) in buffers.iter().zip(&parts) {
            let bytes = u64::from(*heads) * u64::from(*slots) * row;
            let mut at = 0;
            while at < bytes {
                let piece = self.gpu.read(buffer, at, PIECE.min(bytes - at)).await?;
                hash.update(&piece);
                writer.append(&piece).await?;
                at += piece.len() as u64;
            }
        }
        let (lane, kv, read) = (self.lane(), self.select.kv(), tokens.stretches().to_vec());
        let about = About { version: VERSION, model: model.to_owned(), lane, kv, tokens: tokens.to_vec(), read, written, long, parts, sha256: String::new() };
        hash.update(about.text()?);
        let text = About { sha256: hex(&hash.finalize()), ..about }.text()?;
        writer.create(ABOUT).await?;
        writer.append(&text).await
    }

    /// Takes a saved conversation back: its number. `BAD_OPTION` where it was saved with another model or other settings, `STORAGE` where it
    /// is damaged.
    pub async fn restore(&mut self, model: &str, files: &Files) -> Result<u32> {
        let damaged = |what: &str| Error::storage(format!("the saved conversation is damaged: {what}; forget it and read its prompt again"));
        let file = |name: &str| files.get(name).ok_or_else(|| damaged(&format!("{name} is missing")));
        let (about, cache) = (file(ABOUT)?, file(CACHE)?);
        let text = about.read(0, about.len() as usize).await?;
        let mut about: About = serde_json::from_slice(&text).map_err(|e| damaged(&e.to_string()))?;
        let sha256 = std::mem::take(&mut about.sha256);
        let mut differs = BTreeSet::new();
        for (what, same) in [
            ("version of Millrace", about.version == VERSION),
            ("model", about.model == model),
            ("lane", about.lane == self.lane()),
            ("kv", about.kv == self.select.kv()),
        ] {
            differs.extend((!same).then_some(what));
        }
        if !differs.is_empty() {
            let what: Vec<_> = differs.into_iter().collect();
            return Err(Error::bad_option(format!(
                "the conversation was saved with another {}; load as it was then, or read its prompt again",
                what.join(", ")
            )));
        }
        let vocab = self.model().config().vocab as u32;
        let n = u32::try_from(about.tokens.len()).map_err(|_| damaged("it has too many tokens"))?;
        if about.written < n || about.tokens.iter().any(|t| *t >= vocab) {
            return Err(damaged("its tokens cannot be"));
        }
        self.ensure(n.max(1))?;
        let parts: Vec<_> = self.cache_shapes().map(|shape| (shape.heads, shape.used(n), shape.row)).collect();
        if about.parts != parts {
            return Err(Error::bad_option("the conversation was saved with passes or windows of another size; read its prompt again"));
        }
        let bytes = |(heads, slots, row): &(u32, u32, u64)| u64::from(*heads) * u64::from(*slots) * row;
        if cache.len() != parts.iter().map(bytes).sum::<u64>() {
            return Err(damaged(&format!("{CACHE} has {} bytes", cache.len())));
        }
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let (mut buffers, mut hash, mut at, mut waiting) = (Vec::new(), Sha256::new(), 0, 0);
        for part in &parts {
            let buffer = self.gpu.buffer("parked", bytes(part).max(4), usage)?;
            let mut offset = 0;
            while offset < bytes(part) {
                let piece = cache.read(at, PIECE.min(bytes(part) - offset) as usize).await?;
                hash.update(&piece);
                self.gpu.queue().write_buffer(buffer.raw(), offset, &piece);
                offset += piece.len() as u64;
                at += piece.len() as u64;
                waiting += piece.len() as u64;
                if waiting >= IN_FLIGHT {
                    self.gpu.idle().await?;
                    waiting = 0;
                }
            }
            buffers.push(buffer);
        }
        self.gpu.idle().await?;
        hash.update(about.text()?);
        if hex(&hash.finalize()) != sha256 {
            return Err(damaged("it is not what was written"));
        }
        let tokens = History::new(about.tokens, about.read, self.sizes().rows);
        Ok(self.adopt(Parked { tokens, written: about.written, long: about.long, buffers: Some(buffers) }))
    }
}
