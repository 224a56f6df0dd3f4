//! Sequences outside of the GPU: what layers remember of one, written to a store and taken back, so that its text need
//! not be read again.

use std::rc::Rc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::history::{History, Stretch};
use super::input::{Input, Outline};
use super::{Kept, Part, Place, Sequence, SequenceId, States, Voice};
use crate::base::{Cancel, hex};
use crate::error::{Error, Result};
use crate::layout::{Kv, StateShape};
use crate::plan::Lane;
use crate::source::{ByteSource, Files};
use crate::store::Writer;

/// Bytes that are moved at one time.
const PIECE: u64 = 8 << 20;
/// Bytes that may wait for the GPU.
const IN_FLIGHT: u64 = 64 << 20;
/// What is written of tokens alone, of rows in their place, and of grids of rows; all are read.
const OF_TOKENS: u32 = 2;
const OF_ROWS: u32 = 3;
const OF_GRIDS: u32 = 4;
/// The file of the states: the parts in the order of the layers; of rows `[heads][slots in use]` of them.
const STATE: &str = "state.bin";
/// The file that says what the state is of.
const ABOUT: &str = "conversation.json";

/// What a saved state is only good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// [`crate::format::Checkpoint::fingerprint`] of the model.
    pub model: String,
    /// The lane.
    pub lane: Lane,
    /// How keys and values are held.
    pub kv: Kv,
}

#[derive(Serialize, Deserialize)]
struct About {
    version: u32,
    #[serde(flatten)]
    settings: Settings,
    #[serde(flatten)]
    outline: Outline,
    /// How they were read.
    read: Vec<Stretch>,
    written: u32,
    /// Whether keys are rotated as in texts longer than the model's original context.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    long: bool,
    /// With which adapter they were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    voice: Option<Voice>,
    /// How many tokens the recurrent states have read, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<u32>,
    parts: Vec<SavedPart>,
    /// SHA-256 of the state's file and of this one without the hash, hexadecimal.
    sha256: String,
}

/// What the file holds of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum SavedPart {
    /// Heads, slots in use, bytes of a row.
    Rows(u32, u32, u64),
    /// Bytes.
    Recurrent(u64),
}

impl SavedPart {
    fn of(part: &Part, tokens: u32) -> Self {
        match part.shape {
            StateShape::Rows(rows) => Self::Rows(rows.heads, rows.used(tokens), rows.row),
            StateShape::Recurrent { bytes } => Self::Recurrent(bytes),
        }
    }
}

impl About {
    fn text(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal(format!("conversation: {e}")))
    }
}

fn damaged(what: &str) -> Error {
    Error::storage(format!("the saved conversation is damaged: {what}; forget it and read its prompt again"))
}

impl States {
    /// Writes a sequence; its state must not be lost.
    pub async fn save(&self, id: SequenceId, settings: Settings, writer: &mut Writer, cancel: &Cancel) -> Result<()> {
        let place = self.copy_of(id)?;
        let sequence = self.get(id)?;
        let n = sequence.len();
        let shortened: Rc<[_]>;
        let buffers: &[_] = match &place {
            // A fork's copy can be that of the longer text that it was forked from.
            Place::Kept(kept) if kept.positions > n => {
                shortened = self.parts.iter().map(|part| self.buffer_for(part, n)).collect::<Result<_>>()?;
                let mut encoder = self.gpu.encoder("save");
                let copies = self.parts.iter().zip(kept.buffers.iter()).zip(shortened.iter());
                copies.for_each(|((part, from), to)| part.shorten(&mut encoder, n, (from, kept.positions), to));
                self.gpu.submit(encoder);
                &shortened
            }
            Place::Kept(kept) => &kept.buffers,
            // Nothing has been read yet.
            _ if n == 0 => &[],
            _ => return Err(Error::internal("saving a state that is lost")),
        };
        let parts: Vec<_> =
            if n == 0 { Vec::new() } else { self.parts.iter().map(|part| SavedPart::of(part, n)).collect() };
        let at = sequence.at.filter(|_| self.recurrent());
        writer.create(STATE).await?;
        let mut hash = Sha256::new();
        for (buffer, part) in buffers.iter().zip(&self.parts) {
            let bytes = part.bytes(n);
            let mut done = 0;
            while done < bytes {
                cancel.check()?;
                let piece = self.gpu.read(buffer, done, PIECE.min(bytes - done)).await?;
                hash.update(&piece);
                writer.append(&piece).await?;
                done += piece.len() as u64;
            }
        }
        let (outline, read) = (sequence.history.input().outline(), sequence.history.stretches().to_vec());
        let (written, long, voice) = (sequence.written, sequence.long, sequence.voice.clone());
        let version = match sequence.history.input() {
            input if input.has_grids() => OF_GRIDS,
            input if input.has_rows() => OF_ROWS,
            _ => OF_TOKENS,
        };
        let about = About { version, settings, outline, read, written, long, voice, at, parts, sha256: String::new() };
        hash.update(about.text()?);
        let text = About { sha256: hex(&hash.finalize()), ..about }.text()?;
        writer.create(ABOUT).await?;
        writer.append(&text).await
    }

    /// Takes a saved sequence back; passes have up to `rows` rows.
    ///
    /// # Errors
    /// `BAD_OPTION` where it was saved with other settings, `STORAGE` where it is damaged.
    pub async fn restore(&mut self, saved: Saved, files: &Files, rows: u32) -> Result<SequenceId> {
        let n = saved.tokens();
        let Saved { about, input, sha256 } = saved;
        let parts: Vec<_> =
            if n == 0 { Vec::new() } else { self.parts.iter().map(|part| SavedPart::of(part, n)).collect() };
        if about.parts != parts {
            return Err(Error::bad_option(
                "the conversation was saved with passes or windows of another size; read its prompt again",
            ));
        }
        let state = file(files, STATE)?;
        let lengths: Vec<u64> = if n == 0 { Vec::new() } else { self.parts.iter().map(|part| part.bytes(n)).collect() };
        if state.len() != lengths.iter().sum::<u64>() {
            return Err(damaged(&format!("{STATE} has {} bytes", state.len())));
        }
        let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let (mut buffers, mut hash, mut at, mut waiting) = (Vec::new(), Sha256::new(), 0, 0);
        for bytes in lengths {
            let buffer = self.gpu.buffer("kept", bytes, usage)?;
            let mut offset = 0;
            while offset < bytes {
                let piece = state.read(at, PIECE.min(bytes - offset) as usize).await?;
                hash.update(&piece);
                self.gpu.write(&buffer, offset, &piece);
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
        let place =
            if n == 0 { Place::Nowhere } else { Place::Kept(Kept { positions: n, buffers: Rc::from(buffers) }) };
        let history = History::new(input, about.read, rows);
        Ok(self.adopt(Sequence {
            written: about.written,
            long: about.long,
            voice: about.voice,
            place,
            at: about.at,
            ..Sequence::new(history)
        }))
    }
}

/// A saved sequence, of which the state has not been read yet.
pub struct Saved {
    /// Without its hash.
    about: About,
    /// What it has read; rows in place of tokens are known by their hash alone.
    input: Input,
    sha256: String,
}

impl Saved {
    /// Reads the description of a saved sequence. Its tokens are below `vocab`.
    ///
    /// # Errors
    /// `BAD_OPTION` where it was saved with another model or other settings, `STORAGE` where it is damaged.
    pub async fn read(files: &Files, settings: &Settings, vocab: u32) -> Result<Self> {
        let about = file(files, ABOUT)?;
        let text = about.read(0, about.len() as usize).await?;
        // What another version has written may have other fields.
        let fields: serde_json::Value = serde_json::from_slice(&text).map_err(|e| damaged(&e.to_string()))?;
        if ![OF_TOKENS, OF_ROWS, OF_GRIDS].iter().any(|known| fields["version"] == *known) {
            return Err(differs(&["version of Millrace"]));
        }
        let mut about: About = serde_json::from_slice(&text).map_err(|e| damaged(&e.to_string()))?;
        let sha256 = std::mem::take(&mut about.sha256);
        let (saved, now) = (&about.settings, settings);
        let others =
            [("model", saved.model == now.model), ("lane", saved.lane == now.lane), ("kv", saved.kv == now.kv)];
        let others: Vec<_> = others.into_iter().filter(|(_, same)| !same).map(|(what, _)| what).collect();
        if !others.is_empty() {
            return Err(differs(&others));
        }
        let n = u32::try_from(about.outline.tokens.len()).map_err(|_| damaged("it has too many tokens"))?;
        let input = about.outline.clone().input().filter(|input| input.ids().iter().all(|id| *id < vocab));
        let Some(input) = input.filter(|_| about.written >= n && about.at.is_none_or(|at| at == n)) else {
            return Err(damaged("its tokens cannot be"));
        };
        Ok(Self { about, input, sha256 })
    }

    /// How many tokens it has read.
    pub fn tokens(&self) -> u32 {
        self.input.len() as u32
    }
}

fn file<'a>(files: &'a Files, name: &str) -> Result<&'a Rc<dyn ByteSource>> {
    files.get(name).ok_or_else(|| damaged(&format!("{name} is missing")))
}

fn differs(what: &[&str]) -> Error {
    Error::bad_option(format!(
        "the conversation was saved with another {}; load as it was then, or read its prompt again",
        what.join(", ")
    ))
}
