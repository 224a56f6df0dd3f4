//! The same plans through the CPU twins: slow, in f64 where it matters, and the witness when the GPU is in doubt.

use bytemuck::cast_slice;

use super::session::build_plans;
use crate::error::Result;
use crate::format::Checkpoint;
use crate::gpu::Caps;
use crate::kernels::State;
use crate::model::{self, Model, Reserve};
use crate::plan::twins::Memory;
use crate::plan::{Lane, Layout, Plan, Role, Selector, Sizes, labels};
use crate::sample::Sampling;
use crate::stream::Cancel;
use crate::weights;

/// A model in host memory with its plans.
pub struct TwinSession {
    model: Box<dyn Model>,
    layout: Layout,
    memory: Memory,
    plans: [Plan; 4],
    sizes: Sizes,
}

impl TwinSession {
    /// Loads a checkpoint for passes of up to `rows` rows and a cache of `capacity` positions. `max_binding` as on a device, in bytes.
    pub async fn load(checkpoint: &Checkpoint, lane: Lane, rows: u32, capacity: u32, max_binding: u64) -> Result<Self> {
        let select = Selector::new(&Caps::least(), lane, None, &[])?;
        let mut layout = Layout::default();
        let mut reserve = Reserve { max_binding, quantize: None, buffer: &mut |label, bytes| layout.add(label, bytes, Role::Weight) };
        let mut model = model::open(checkpoint, &mut reserve)?;
        model::read_rope_divisors(checkpoint, model.as_mut()).await?;
        let sizes = Sizes { rows, capacity, ring: super::RING };
        let plans = build_plans(model.as_ref(), &mut layout, &select, sizes)?;
        let memory = Memory::new(&layout);
        let matrices: Vec<_> = model.matrices().into_iter().cloned().collect();
        weights::load(checkpoint, &matrices, model.vectors(), &Cancel::new(), &memory, &mut |_| {}).await?;
        let session = Self { model, layout, memory, plans, sizes };
        session.rotate_for(0)?;
        Ok(session)
    }

    /// Rotates as the model does in texts of so many positions.
    fn rotate_for(&self, positions: u32) -> Result<()> {
        let config = self.model.config();
        for (i, rope) in config.ropes.iter().enumerate() {
            if let Some(id) = self.layout.find(&labels::rotations(i)) {
                self.memory.write_words(id, 0, cast_slice(&rope.table(self.sizes.capacity, self.is_long(positions))?))?;
            }
        }
        Ok(())
    }

    /// Whether texts of so many positions are rotated otherwise than short ones.
    pub fn is_long(&self, positions: u32) -> bool {
        self.model.config().original_context().is_some_and(|original| positions > original)
    }

    /// The plans of a prefill pass, of a decode step, and of prefill passes that are short and of few rows.
    pub fn plans(&self) -> &[Plan; 4] {
        &self.plans
    }

    fn write(&self, label: &str, bytes: &[u8]) -> Result<()> {
        let id = self.layout.find(label).ok_or_else(|| crate::Error::internal(format!("no buffer {label}")))?;
        self.memory.write_words(id, 0, bytes)
    }

    fn words(&self, label: &str, n: usize) -> Result<Vec<u32>> {
        let id = self.layout.find(label).ok_or_else(|| crate::Error::internal(format!("no buffer {label}")))?;
        Ok(self.memory.words(id).borrow()[..n].to_vec())
    }

    /// The last computed logits, `[V]`.
    pub fn logits(&self) -> Result<Vec<f32>> {
        Ok(cast_slice(&self.words(labels::LOGITS, self.model.config().vocab)?).to_vec())
    }

    /// Reads `tokens` from position `from` on.
    pub fn prefill(&self, tokens: &[u32], from: u32) -> Result<()> {
        if from == 0 {
            self.rotate_for(tokens.len() as u32)?;
        }
        for (i, pass) in tokens.chunks(self.sizes.rows as usize).enumerate() {
            let state = State { pos: from + i as u32 * self.sizes.rows, rows: pass.len() as u32, ..State::default() };
            self.write(labels::PREFILL, bytemuck::bytes_of(&state))?;
            self.write(labels::TOKENS, cast_slice(pass))?;
            self.memory.run(&self.plans[0], 0..self.plans[0].steps.len(), pass.len() as u32)?;
        }
        Ok(())
    }

    /// Feeds one token at position `pos` through the decode step, without sampling.
    pub fn feed(&self, token: u32, pos: u32) -> Result<Vec<f32>> {
        self.write(labels::STATE, bytemuck::bytes_of(&State { pos, token, rows: 1, ..State::default() }))?;
        let steps = self.plans[1].steps.len() - super::session::TAIL;
        self.memory.run(&self.plans[1], 0..steps, 1)?;
        self.logits()
    }

    /// Prefills and samples `n` tokens with the decode plan itself, state and ring included.
    pub fn generate(&self, prompt: &[u32], sampling: &Sampling, n: u32) -> Result<Vec<u32>> {
        self.prefill(prompt, 0)?;
        self.write(labels::SAMPLING, bytemuck::bytes_of(sampling))?;
        let state = State { pos: prompt.len() as u32 - 1, rows: 1, limit: n, ..State::default() };
        self.write(labels::STATE, bytemuck::bytes_of(&state))?;
        let steps = self.plans[1].steps.len();
        for i in 0..n {
            let from = if i == 0 { steps - super::session::TAIL } else { 0 };
            self.memory.run(&self.plans[1], from..steps, 1)?;
        }
        self.words(labels::RING, n as usize)
    }
}
