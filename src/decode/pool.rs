//! Pooling of texts for embeddings and scores: many short texts share a pass, a long one takes several.

use std::ops::Range;

use bytemuck::{bytes_of, cast_slice};
use futures_util::future::LocalBoxFuture;

use super::session::{Session, context_full};
use crate::base::{Cancel, now_ms};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Pending, Submission};
use crate::kernels::State;
use crate::layout::{Control, Name, Scratch, stride};
use crate::model::Pooling;
use crate::plan::{Pass, Stage};

/// A text, or two that are read together.
#[derive(Debug, Clone, Default)]
pub struct Text {
    /// The tokens of both.
    pub tokens: Vec<u32>,
    /// Index of the second text's first token; without a second text, the number of tokens.
    pub second: usize,
}

impl From<Vec<u32>> for Text {
    fn from(tokens: Vec<u32>) -> Self {
        Self { second: tokens.len(), tokens }
    }
}

/// A pass over rows of several texts, or over a part of one text.
#[derive(Default)]
struct Rows {
    tokens: Vec<u32>,
    /// Each row's position in its text, and whether it belongs to a second text.
    positions: Vec<u32>,
    types: Vec<u32>,
    /// The first position and the end of each row's text in the pass.
    spans: Vec<[u32; 2]>,
    /// The rows that are pooled, of each text that ends in this pass.
    taken: Vec<[u32; 2]>,
    /// Position of the first row.
    pos: u32,
    /// Whether the rotations are those of long texts.
    long: bool,
}

impl Rows {
    fn push(&mut self, (token, position, kind): (u32, u32, u32)) {
        self.tokens.push(token);
        self.positions.push(position);
        self.types.push(kind);
    }
}

/// Most passes whose results are read back at once, and rows of all of these.
const TOGETHER: usize = 16;
const TOGETHER_ROWS: usize = 8192;
/// The duration of passes that are read back at once, ms: a readback takes longer than a pass over few rows of a small
/// model.
const TOGETHER_MS: f64 = 20.0;
/// Passes that take less than this, ms, leave most of the GPU idle: wider ones take their place.
const SHORT_MS: f64 = 5.0;
/// Passes that have to be read before that is said: the first ones may wait for the driver.
const MEASURED: usize = 4;

#[cfg(feature = "lab")]
thread_local!(static SHORT: std::cell::Cell<f64> = const { std::cell::Cell::new(SHORT_MS) });

/// Sets the milliseconds below which passes over texts are widened in this thread: for tests.
#[cfg(feature = "lab")]
pub fn widen_below(ms: Option<f64>) {
    SHORT.set(ms.unwrap_or(SHORT_MS));
}

fn short_ms() -> f64 {
    #[cfg(feature = "lab")]
    return SHORT.get();
    #[cfg(not(feature = "lab"))]
    SHORT_MS
}

/// Passes in flight, whose results go to one of two staging buffers.
struct Running {
    place: usize,
    passes: usize,
    texts: Range<usize>,
    bytes: u64,
    pending: Pending,
}

/// How passes over texts ended.
#[derive(PartialEq)]
enum Ended {
    /// All have run.
    All,
    /// They are so short that the rest is better read in wider ones.
    Short,
}

impl Session {
    /// Each text's embedding, `[D]`, or its score, `[1]`, or `[2]` for yes and no. `on_read` is called with the number
    /// of texts done.
    pub fn pool<'s>(
        &'s mut self,
        texts: &'s [Text],
        cancel: &'s Cancel,
        on_read: &'s mut dyn FnMut(usize),
    ) -> LocalBoxFuture<'s, Result<Vec<Vec<f32>>>> {
        Box::pin(self.pool_texts(texts, cancel, on_read))
    }

    async fn pool_texts(
        &mut self,
        texts: &[Text],
        cancel: &Cancel,
        on_read: &mut dyn FnMut(usize),
    ) -> Result<Vec<Vec<f32>>> {
        let (context, vocab) = (self.context(), self.model().config().vocab as u32);
        for (i, Text { tokens, .. }) in texts.iter().enumerate() {
            let at = |e: Error| e.at(format!("text {i}"));
            if tokens.is_empty() {
                return Err(at(Error::bad_option("it has no token; leave empty texts out")));
            }
            if tokens.len() as u64 > u64::from(context) {
                return Err(at(context_full(u32::try_from(tokens.len()).unwrap_or(u32::MAX), context)));
            }
            if let Some(bad) = tokens.iter().find(|t| **t >= vocab) {
                return Err(at(Error::bad_option(format!("token id {bad} is outside the vocabulary of {vocab}"))));
            }
        }
        let longest = texts.iter().map(|text| text.tokens.len()).max().unwrap_or(0) as u32;
        self.ensure(longest.max(self.sizes().rows.min(context))).await?;
        if self.model().config().reads_whole() && longest > self.sizes().rows {
            self.widen(longest).await?;
        }
        let mut found = Vec::with_capacity(texts.len());
        while self.run_passes(texts, &mut found, cancel, on_read).await? == Ended::Short {
            self.widen_most().await?;
        }
        Ok(found)
    }

    /// Runs passes over the texts behind those that are `found`, and takes their results: over all of them, or until it
    /// shows that wider passes are quicker.
    async fn run_passes(
        &mut self,
        texts: &[Text],
        found: &mut Vec<Vec<f32>>,
        cancel: &Cancel,
        on_read: &mut dyn FnMut(usize),
    ) -> Result<Ended> {
        let slot = self.states.vacate()? as u32;
        let passes = self.passes_of(&texts[found.len()..]);
        let most_together = TOGETHER.min(TOGETHER_ROWS / self.sizes().rows.max(1) as usize).max(1);
        let (from, width) = self.model().config().pooled();
        let row = stride(width);
        let most =
            passes.iter().map(|pass| pass.taken.len().max(1)).max().unwrap_or(1) * passes.len().min(most_together);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let place = || self.gpu.buffer("pooled", (most * row * 4) as u64, usage);
        let places = [place()?, place()?];
        // Only one group of passes runs while the next is recorded, so that cancellation takes effect soon.
        let mut running: Option<Running> = None;
        let (mut ended, mut read) = (Ended::All, 0);
        let (mut together, mut taken_at) = (1, now_ms());
        let mut rest = &passes[..];
        for i in 0.. {
            cancel.check()?;
            let (now, later) = rest.split_at(together.min(rest.len()));
            rest = later;
            let to = i % 2;
            let begun = running.as_ref().map_or(found.len(), |running| running.texts.end);
            let (mut end, mut bytes, mut last) = (begun, 0, None);
            for rows in now {
                self.rotate_long(rows.long)?;
                last = Some(self.record_texts(slot, rows, from, &places[to], bytes, row)?);
                end += rows.taken.len();
                bytes += (rows.taken.len() * row * 4) as u64;
            }
            let Some(submission) = last else { break };
            // Without results, a readback of 4 bytes tells that the passes have run.
            let bytes = bytes.max(4);
            let pending = self.gpu.map(&places[to], bytes, submission);
            let next = Running { place: to, passes: now.len(), texts: begun..end, bytes, pending };
            if let Some(earlier) = running.replace(next) {
                let passes = earlier.passes;
                self.take_texts(earlier, &places, [row, width], found).await?;
                on_read(found.len());
                let ms = now_ms() - std::mem::replace(&mut taken_at, now_ms());
                read += passes;
                if read >= MEASURED && ms < short_ms() * passes as f64 && self.wider_pay(rest.len()) {
                    ended = Ended::Short;
                    break;
                }
                together = match ms {
                    ..TOGETHER_MS => (together * 2).min(most_together),
                    _ if ms > 3.0 * TOGETHER_MS => (together / 2).max(1),
                    _ => together,
                };
            }
        }
        if let Some(last) = running {
            self.take_texts(last, &places, [row, width], found).await?;
            on_read(found.len());
        }
        cancel.check()?;
        Ok(ended)
    }

    /// Whether so many passes are enough for wider ones, where there may be any.
    fn wider_pay(&self, passes: usize) -> bool {
        let (rows, widest) = (self.sizes().rows as usize, self.widest() as usize);
        widest > rows && passes * rows >= widest
    }

    /// The passes over texts, in order: as many texts in a pass as fit; a longer text has passes of its own.
    fn passes_of(&self, texts: &[Text]) -> Vec<Rows> {
        let config = self.model().config();
        let most = self.sizes().rows as usize;
        // With bidirectional attention the first row is scored, with causal attention the last.
        let taken = |first: u32, end: u32| match config.pooling {
            Some(Pooling::Mean) => [first, end],
            Some(Pooling::Cls) => [first, first + 1],
            Some(Pooling::Rank) if config.encoder.both_ways => [first, first + 1],
            _ => [end - 1, end],
        };
        let second = u32::from(config.encoder.token_types > 1);
        let mut passes = Vec::new();
        let mut open = Rows::default();
        for Text { tokens, second: begins } in texts {
            let (len, long) = (tokens.len(), self.is_long(tokens.len() as u32));
            if open.tokens.len() + len > most || open.long != long {
                passes.extend(Some(std::mem::take(&mut open)).filter(|rows| !rows.tokens.is_empty()));
            }
            let numbered =
                tokens.iter().enumerate().map(|(i, token)| (*token, i as u32, if i < *begins { 0 } else { second }));
            if len > most {
                let numbered: Vec<_> = numbered.collect();
                for (n, part) in numbered.chunks(most).enumerate() {
                    let is_last = (n + 1) * most >= len;
                    let taken = if is_last { vec![taken(0, part.len() as u32)] } else { vec![] };
                    let mut rows = Rows {
                        spans: vec![[0, len as u32]; part.len()],
                        taken,
                        pos: (n * most) as u32,
                        long,
                        ..Rows::default()
                    };
                    part.iter().for_each(|row| rows.push(*row));
                    passes.push(rows);
                }
                continue;
            }
            let first = open.tokens.len() as u32;
            open.long = long;
            numbered.for_each(|row| open.push(row));
            open.spans.resize(open.tokens.len(), [first, first + len as u32]);
            open.taken.push(taken(first, first + len as u32));
        }
        passes.extend(Some(open).filter(|rows| !rows.tokens.is_empty()));
        passes
    }

    /// Submits a pass, and a copy of its results, rows of `row` numbers, into `to` from byte `at` on.
    fn record_texts(
        &self,
        slot: u32,
        rows: &Rows,
        from: Scratch,
        to: &Buffer,
        at: u64,
        row: usize,
    ) -> Result<Submission> {
        let state = |rows: usize| State { rows: rows as u32, slot, ..State::default() };
        self.put(Control::Prefill, bytes_of(&State { pos: rows.pos, ..state(rows.tokens.len()) }))?;
        self.put(Control::Last, bytes_of(&state(rows.taken.len())))?;
        self.put(Control::Tokens, cast_slice(&rows.tokens))?;
        self.put(Control::Spans, cast_slice(&rows.spans))?;
        self.put(Control::Taken, cast_slice(&rows.taken))?;
        for (control, numbers) in [(Control::Positions, &rows.positions), (Control::TokenTypes, &rows.types)] {
            if self.layout().find(&control.into()).is_some() {
                self.put(control, cast_slice(numbers))?;
            }
        }
        let mut encoder = self.gpu.encoder("texts");
        let steps = || self.steps(Pass::Prefill).iter();
        self.record_steps(&mut encoder, steps().filter(|step| step.stage < Stage::Head), rows.tokens.len() as u32);
        if !rows.taken.is_empty() {
            self.record_steps(&mut encoder, steps().filter(|step| step.stage == Stage::Head), rows.taken.len() as u32);
        }
        if !rows.taken.is_empty() {
            encoder.copy_buffer_to_buffer(
                self.buffer(Name::Scratch(from))?.raw(),
                0,
                to.raw(),
                at,
                (rows.taken.len() * row * 4) as u64,
            );
        }
        Ok(self.gpu.submit(encoder))
    }

    /// Waits for passes, and takes their results.
    async fn take_texts(
        &self,
        Running { place, texts, bytes, pending, .. }: Running,
        places: &[Buffer; 2],
        [row, width]: [usize; 2],
        found: &mut Vec<Vec<f32>>,
    ) -> Result<()> {
        let bytes = self.gpu.take(&places[place], bytes, pending).await?;
        found.extend(cast_slice::<u8, f32>(&bytes).chunks(row).take(texts.len()).map(|row| row[..width].to_vec()));
        Ok(())
    }
}
