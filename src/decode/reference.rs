//! Runs the plans through the CPU twins: slow, in f64 where it matters, as the reference for results of the GPU.

use bytemuck::cast_slice;

use super::program::build_plans;
use super::twins::Memory;
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::kernels::{Caps, State};
use crate::layout::{BufferId, Control, Layout, Name, Role, Scratch, Sizes};
use crate::model::{self, AskedPooling, Model, Reserve};
use crate::plan::{Asked, Lane, Pass, Plans, Selector};
use crate::sample::Sampling;
use crate::weights;

/// A model in host memory with its plans.
pub struct TwinSession {
    model: Box<dyn Model>,
    layout: Layout,
    memory: Memory,
    plans: Plans,
    sizes: Sizes,
}

impl TwinSession {
    /// Loads a checkpoint for passes of up to `rows` rows and a cache of `capacity` positions. `max_binding` as on a
    /// device, in bytes.
    pub async fn load(checkpoint: &Checkpoint, lane: Lane, rows: u32, capacity: u32, max_binding: u64) -> Result<Self> {
        let select = Selector::new(&Caps::least(), lane, None, &[])?;
        let mut layout = Layout::default();
        let mut reserve = Reserve {
            max_binding,
            quantize: None,
            pooling: AskedPooling::Auto,
            buffer: &mut |label, bytes| layout.weight(label, bytes),
        };
        let mut model = model::open(checkpoint, &mut reserve)?;
        model::read_rope_divisors(checkpoint, model.as_mut()).await?;
        let sizes = Sizes { rows, capacity, slots: 1, ring: super::RING };
        let plans = build_plans(model.as_ref(), &mut layout, &select, sizes, Asked::default())?;
        let memory = Memory::new(&layout);
        let matrices: Vec<_> = model.matrices().into_iter().cloned().collect();
        weights::load(checkpoint, &matrices, model.vectors(), &Cancel::new(), &memory, &mut |_| {}).await?;
        let session = Self { model, layout, memory, plans, sizes };
        session.rotate_for(0)?;
        Ok(session)
    }

    /// Writes the tables of rotations for texts of `positions` positions.
    fn rotate_for(&self, positions: u32) -> Result<()> {
        let config = self.model.config();
        for (i, rope) in config.ropes.iter().enumerate() {
            if let Some(id) = self.layout.find(&Name::Rotations(i)) {
                self.memory.write_words(
                    id,
                    0,
                    cast_slice(&rope.table(self.sizes.capacity, self.is_long(positions))?),
                )?;
            }
        }
        Ok(())
    }

    /// Whether texts of `positions` positions have other rotations than short texts.
    pub fn is_long(&self, positions: u32) -> bool {
        self.model.config().original_context().is_some_and(|original| positions > original)
    }

    /// A plan for each pass.
    pub fn plans(&self) -> &Plans {
        &self.plans
    }

    fn id_of(&self, name: impl Into<Name>) -> Result<BufferId> {
        let name = name.into();
        self.layout.find(&name).ok_or_else(|| Error::internal(format!("no buffer {name}")))
    }

    fn write(&self, control: Control, bytes: &[u8]) -> Result<()> {
        self.memory.write_words(self.id_of(control)?, 0, bytes)
    }

    fn words(&self, name: impl Into<Name>, n: usize) -> Result<Vec<u32>> {
        Ok(self.memory.words(self.id_of(name)?).borrow()[..n].to_vec())
    }

    /// The last computed logits, `[V]`.
    pub fn logits(&self) -> Result<Vec<f32>> {
        Ok(cast_slice(&self.words(Scratch::Logits, self.model.config().vocab)?).to_vec())
    }

    /// Reads `tokens` from position `from` on.
    pub fn prefill(&self, tokens: &[u32], from: u32) -> Result<()> {
        if from == 0 {
            self.rotate_for(tokens.len() as u32)?;
            self.memory.clear(&self.layout, Role::State);
        }
        for (i, pass) in tokens.chunks(self.sizes.rows as usize).enumerate() {
            let state = State { pos: from + i as u32 * self.sizes.rows, rows: pass.len() as u32, ..State::default() };
            self.write(Control::Prefill, bytemuck::bytes_of(&state))?;
            if self.layout.find(&Control::Last.into()).is_some() {
                self.write(Control::Last, bytemuck::bytes_of(&state.last()))?;
            }
            self.write(Control::Tokens, cast_slice(pass))?;
            self.memory.run(&self.plans[Pass::Prefill], |_| true, pass.len() as u32)?;
        }
        Ok(())
    }

    /// Feeds one token at position `pos` through the decode step, without sampling.
    pub fn feed(&self, token: u32, pos: u32) -> Result<Vec<f32>> {
        self.write(Control::Decode, bytemuck::bytes_of(&State { pos, token, rows: 1, ..State::default() }))?;
        self.memory.run(&self.plans[Pass::Decode], |step| !step.stage.samples(), 1)?;
        self.logits()
    }

    /// Prefills and samples `n` tokens with the decode plan itself, state and ring included.
    pub fn generate(&self, prompt: &[u32], sampling: &Sampling, n: u32) -> Result<Vec<u32>> {
        self.prefill(prompt, 0)?;
        self.write(Control::Sampling, bytemuck::bytes_of(sampling))?;
        let state = State { pos: prompt.len() as u32 - 1, rows: 1, limit: n, ..State::default() };
        self.write(Control::Decode, bytemuck::bytes_of(&state))?;
        for i in 0..n {
            self.memory.run(&self.plans[Pass::Decode], |step| i > 0 || step.stage.samples(), 1)?;
        }
        self.words(Control::Ring, n as usize)
    }
}
