//! Growth of the states. A large cache grows in stages: a stage's old buffers are freed before the next stage takes
//! memory, so that the whole old and the whole new cache never exist at one time.

use super::super::program::{Compiled, Program, compile, make_buffer};
use super::{Session, context_full};
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::Buffer;
use crate::layout::{BufferSpec, Layout, Name, Role, Scratch, Sizes};
use crate::plan::{Pass, Plans};

/// A stage moves at most this share of the new cache …
const STAGES: u64 = 8;
/// … but at least this many bytes: a wait for the GPU costs more than their memory.
const LEAST_STAGE: u64 = 32 << 20;
/// Bytes that copies of inactive texts may take where a full context leaves no room for them …
const TEXTS: u64 = 64 << 20;
/// … but no more than this many full contexts take, for small models.
const MOST_TEXTS: u64 = 5;

#[cfg(feature = "lab")]
thread_local!(static LEAST: std::cell::Cell<u64> = const { std::cell::Cell::new(LEAST_STAGE) });

/// Sets the least bytes of a stage in this thread: for tests.
#[cfg(feature = "lab")]
pub fn move_in_stages_of(bytes: Option<u64>) {
    LEAST.set(bytes.unwrap_or(LEAST_STAGE));
}

fn least_stage() -> u64 {
    #[cfg(feature = "lab")]
    return LEAST.get();
    #[cfg(not(feature = "lab"))]
    LEAST_STAGE
}

/// Bytes of the states of all slots.
fn states_at(layout: &Layout, sizes: Sizes) -> u64 {
    layout.specs().iter().filter(|spec| spec.state.is_some()).map(|spec| spec.bytes_at(sizes)).sum()
}

/// The states that move to buffers of other sizes, by their indices among the states, stage by stage.
fn stages(layout: &Layout, before: Sizes, after: Sizes) -> Vec<Vec<usize>> {
    let states: Vec<(u64, u64)> = layout
        .specs()
        .iter()
        .filter(|spec| spec.state.is_some())
        .map(|spec| (spec.bytes_at(before), spec.bytes_at(after)))
        .collect();
    let most = (states_at(layout, after) / STAGES).max(least_stage());
    let mut stages: Vec<Vec<usize>> = Vec::new();
    let mut bytes = most;
    for (part, (_, new)) in states.iter().enumerate().filter(|(_, (old, new))| old != new) {
        if bytes + new > most {
            stages.push(Vec::new());
            bytes = 0;
        }
        bytes += new;
        stages.last_mut().into_iter().for_each(|stage| stage.push(part));
    }
    stages
}

/// The most bytes that are needed beside the cache at one time while it grows from `sizes` to `full` positions: by the
/// old buffers of its last growth, and where the model generates (`writes`) by copies of inactive texts.
pub(crate) fn most_beside(layout: &Layout, sizes: Sizes, full: u32, writes: bool) -> u64 {
    let after = Sizes { capacity: full.next_multiple_of(64), ..sizes };
    let mut before = sizes;
    while before.capacity.saturating_mul(2) < after.capacity {
        before.capacity *= 2;
    }
    let old: Vec<u64> =
        layout.specs().iter().filter(|spec| spec.state.is_some()).map(|spec| spec.bytes_at(before)).collect();
    let stages = if before.capacity < after.capacity { stages(layout, before, after) } else { Vec::new() };
    let growth = stages.iter().map(|stage| stage.iter().map(|part| old[*part]).sum::<u64>()).max().unwrap_or(0);
    growth + if writes { texts(states_at(layout, after)) } else { 0 }
}

/// Bytes that copies of texts may take beside states of `full` bytes, those of a full context.
fn texts(full: u64) -> u64 {
    TEXTS.min(full * MOST_TEXTS)
}

/// Why states did not grow.
struct Failed {
    error: Error,
    /// Whether all states are lost, so that only the sequences' tokens are left.
    lost: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, lost: false }
    }
}

/// Buffers during the move from one layout to another.
struct Moving {
    /// Buffers of the old layout; `None` once they are freed.
    old: Vec<Option<Buffer>>,
    /// Buffers of the new layout; `None` for states that have not moved yet.
    new: Vec<Option<Buffer>>,
    /// The ids of the states in both layouts.
    states: [Vec<usize>; 2],
    /// States that have moved.
    moved: Vec<usize>,
}

/// The ids of a layout's states.
fn states_of(layout: &Layout) -> Vec<usize> {
    (0..layout.specs().len()).filter(|id| layout.specs()[*id].state.is_some()).collect()
}

/// Whether a running answer's steps may still read the buffer: the control buffers, and the logits that its first step
/// samples from.
fn outlives(spec: &BufferSpec) -> bool {
    spec.role() == Role::Control || spec.name == Name::Scratch(Scratch::Logits)
}

impl Session {
    /// Makes room for `positions` positions: doubles the states as often as needed and copies them on the GPU. Where
    /// the GPU has no memory for that, states grow to `positions` only.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] where that does not fit either: the context is limited to the existing room, and all
    /// else is as before, except that states may have to be rebuilt from their tokens.
    pub async fn ensure(&mut self, positions: u32) -> Result<()> {
        if positions <= self.program.sizes.capacity {
            return Ok(());
        }
        if positions > self.context {
            return Err(context_full(positions, self.context));
        }
        let mut capacity = self.program.sizes.capacity;
        while capacity < positions {
            capacity *= 2;
        }
        let most = self.context.next_multiple_of(64);
        let (doubled, least) = (capacity.min(most), positions.next_multiple_of(64).min(most));
        self.evict_for(doubled);
        let mut grown = self.grow(doubled).await;
        if matches!(&grown, Err(Failed { error, lost: false }) if error.kind() == ErrorKind::OutOfMemory && least < doubled)
        {
            self.states.evict(0);
            grown = self.grow(least).await;
        }
        let Err(Failed { error: e, .. }) = grown else { return Ok(()) };
        if e.kind() != ErrorKind::OutOfMemory {
            return Err(e);
        }
        self.limit_context(self.program.sizes.capacity);
        Err(Error::out_of_memory(format!(
            "the GPU has no memory for {positions} positions: until the model is loaded again a conversation has {} at most; begin a new one, shorten the \
             prompt, or close what else uses the GPU and load again, with a shorter context, kv q8 or less concurrency",
            self.context
        ))
        .with_source(e))
    }

    /// Evicts copies of inactive texts, as far as the memory planned for a full context has no room for them beside
    /// states of `capacity` positions.
    pub(super) fn evict_for(&mut self, capacity: u32) {
        let full = states_at(
            &self.program.layout,
            Sizes { capacity: self.context.next_multiple_of(64), ..self.program.sizes },
        );
        let room = full.saturating_sub(states_at(&self.program.layout, Sizes { capacity, ..self.program.sizes }));
        self.states.evict(room.max(texts(full)));
    }

    /// Moves to states of `capacity` positions. A failure changes nothing, unless states are [`Failed::lost`].
    async fn grow(&mut self, capacity: u32) -> Result<(), Failed> {
        let gpu = self.gpu.clone();
        let sizes = Sizes { capacity, ..self.program.sizes };
        let (layout, plans) = self.planned(self.weights, sizes, self.program.asked)?;
        // All buffers but the states that move; those that are long enough stay.
        let allocation = gpu.allocate();
        let made: Result<Vec<_>> = layout.specs().iter().map(|spec| self.stays_or_made(spec)).collect();
        allocation.end(&gpu).await?;
        let new = made?;
        // The new buffers replace the old ones at once: the current plans can be bound to longer buffers too.
        let mut encoder = gpu.encoder("grow");
        let mut replaced = Vec::new();
        for (spec, new) in layout.specs().iter().zip(&new) {
            let Some((id, new)) = self.program.layout.find(&spec.name).zip(new.as_ref()) else { continue };
            let old = std::mem::replace(&mut self.program.buffers[id.0 as usize], new.clone());
            if outlives(spec) && old.bytes() != new.bytes() {
                encoder.copy_buffer_to_buffer(old.raw(), 0, new.raw(), 0, old.bytes());
            }
            replaced.push(old);
        }
        gpu.submit(encoder);
        drop(replaced);
        let stages = stages(&self.program.layout, self.program.sizes, sizes);
        // Bound buffers would not be freed.
        let passes = self.passes();
        self.program.compiled = Default::default();
        let old = std::mem::take(&mut self.program.buffers).into_iter().map(Some).collect();
        let mut moving =
            Moving { old, new, states: [states_of(&self.program.layout), states_of(&layout)], moved: Vec::new() };
        let error = match self.move_all(&mut moving, &stages, &layout, &plans, &passes).await {
            Ok(compiled) => {
                let buffers = std::mem::take(&mut self.program.buffers);
                self.adopt(Program { layout, buffers, sizes, asked: self.program.asked, plans, compiled });
                self.put_rotations()?;
                return Ok(());
            }
            Err(e) => e,
        };
        let lost = self.move_back(&mut moving).await;
        self.program.buffers = moving.old.into_iter().flatten().collect();
        self.program.compiled = compile(&gpu, &self.program.buffers, &self.program.plans, &passes).await?;
        self.put_rotations()?;
        if lost {
            self.states.lose_all();
        }
        Err(Failed { error, lost })
    }

    /// The existing buffer, where it is long enough, or a new one; `None` for a state that moves.
    fn stays_or_made(&self, spec: &BufferSpec) -> Result<Option<Buffer>> {
        let old = self
            .program
            .layout
            .find(&spec.name)
            .map(|id| (self.program.layout.spec(id), &self.program.buffers[id.0 as usize]));
        match old {
            Some((old, buffer)) if old.state == spec.state && buffer.bytes() >= spec.bytes => Ok(Some(buffer.clone())),
            Some(_) if spec.state.is_some() => Ok(None),
            _ => make_buffer(&self.gpu, spec).map(Some),
        }
    }

    /// Makes buffers of a stage's states and copies the sequences' slots to them. With `freed`, waits until the old
    /// buffers are free.
    async fn move_stage(&mut self, moving: &mut Moving, stage: &[usize], layout: &Layout, freed: bool) -> Result<()> {
        let gpu = self.gpu.clone();
        let spec = |part: usize| &layout.specs()[moving.states[1][part]];
        let allocation = gpu.allocate();
        let made: Result<Vec<_>> = stage.iter().map(|part| make_buffer(&gpu, spec(*part))).collect();
        allocation.end(&gpu).await?;
        for (part, buffer) in stage.iter().copied().zip(made?) {
            let [before, after] = [0, 1].map(|i| moving.states[i][part]);
            if let Some(shape) = layout.specs()[after].state {
                self.states.move_part(part, shape, buffer.clone());
            }
            moving.new[after] = Some(buffer);
            moving.old[before] = None;
            moving.moved.push(part);
        }
        if freed { gpu.idle().await } else { Ok(()) }
    }

    /// Moves the states, stage by stage, and binds the buffers of the new layout to its plans.
    async fn move_all(
        &mut self,
        moving: &mut Moving,
        stages: &[Vec<usize>],
        layout: &Layout,
        plans: &[Plans; 2],
        passes: &[Vec<Pass>; 2],
    ) -> Result<[Compiled; 2]> {
        let gpu = self.gpu.clone();
        for (i, stage) in stages.iter().enumerate() {
            self.move_stage(moving, stage, layout, i + 1 < stages.len()).await?;
        }
        self.program.buffers = moving.new.iter().flatten().cloned().collect();
        let allocation = gpu.allocate();
        let compiled = compile(&gpu, &self.program.buffers, plans, passes).await;
        allocation.end(&gpu).await?;
        compiled
    }

    /// Moves states back after a failure. Returns whether they are lost. Where there is no memory for that, the larger
    /// buffers are kept.
    async fn move_back(&mut self, moving: &mut Moving) -> bool {
        let gpu = self.gpu.clone();
        self.program.buffers.clear();
        let mut lost = false;
        while let Some(part) = moving.moved.pop() {
            let [before, after] = [0, 1].map(|i| moving.states[i][part]);
            let spec = &self.program.layout.specs()[before];
            let Some(shape) = spec.state else { continue };
            let allocation = gpu.allocate();
            let made = make_buffer(&gpu, spec);
            let there = allocation.end(&gpu).await;
            let larger = moving.new[after].take();
            moving.old[before] = match (made, there) {
                (Ok(buffer), Ok(())) => {
                    self.states.move_part(part, shape, buffer.clone());
                    Some(buffer)
                }
                _ => {
                    lost = true;
                    larger.inspect(|buffer| self.states.put_part(part, shape, buffer.clone()))
                }
            };
        }
        lost
    }
}
