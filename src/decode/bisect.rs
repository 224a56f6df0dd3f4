//! Finds the step that causes a wrong token: each step of a pass runs on the GPU and through its twin, from the same
//! buffers.

use std::collections::HashMap;

use bytemuck::{bytes_of, cast_slice};

use super::Session;
use super::twins::Memory;
use crate::base::Cancel;
use crate::check;
use crate::cpu::{self, Call};
use crate::error::{Error, Result};
use crate::kernels::{BindingKind, State};
use crate::layout::{BufferId, Control};
use crate::plan::{Pass, Step};
use crate::state::FIRST;

/// The comparison of a step's buffers on the GPU with its twin's from the same input.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The step's pass.
    pub pass: Pass,
    /// The step's number in the pass's plan.
    pub number: usize,
    /// The step's name, which says where in the model it is.
    pub step: String,
    /// Kernel and variant.
    pub variant: String,
    /// The largest difference of a buffer, relative to its largest value.
    pub error: f64,
    /// The buffer and place of the first difference from the twin, if there is one.
    pub wrong: Option<String>,
}

impl Session {
    /// Reads a prompt that fits into one pass, and then decodes one token, step by step: `on_step` is called with each
    /// comparison and returns whether to continue. Steps after a wrong one continue from the GPU's result. `memory`
    /// holds the weights, by this session's layout.
    pub async fn bisect(
        &mut self,
        memory: &Memory,
        prompt: &[u32],
        on_step: &mut dyn FnMut(Compared) -> bool,
        cancel: &Cancel,
    ) -> Result<()> {
        let rows = prompt.len() as u32;
        if rows == 0 || rows > self.sizes().rows || rows + 1 > self.context() {
            return Err(Error::bad_option(format!(
                "a prompt of {rows} tokens; give 1 to {}",
                self.sizes().rows.min(self.context() - 1)
            )));
        }
        self.ensure(rows + 1).await?;
        let slot = self.states.vacate()? as u32;
        self.states.release(FIRST);
        let last = prompt[prompt.len() - 1];
        let prefill = State { rows, slot, ..State::default() };
        self.put(Control::Prefill, bytes_of(&prefill))?;
        self.put_last(prefill)?;
        self.put(Control::Tokens, cast_slice(prompt))?;
        let decode = State { pos: rows, token: last, rows: 1, limit: u32::MAX, slot, ..State::default() };
        self.put(Control::Decode, bytes_of(&decode))?;
        // Everything but the weights, which `memory` has.
        for id in (0..self.layout().specs().len() as u32).map(BufferId) {
            if !self.layout().spec(id).name.is_weight() {
                self.copy_to(memory, id).await?;
            }
        }
        for (pass, rows) in [(Pass::Prefill, rows), (Pass::Decode, 1)] {
            for number in 0..self.plans()[pass].steps.len() {
                cancel.check()?;
                let step = self.plans()[pass].steps[number].clone();
                if step.stage.samples() {
                    break;
                }
                let compared = self.compare_step(memory, pass, number, &step, rows).await?;
                if !on_step(compared) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn compare_step(
        &self,
        memory: &Memory,
        pass: Pass,
        number: usize,
        step: &Step,
        rows: u32,
    ) -> Result<Compared> {
        let written: Vec<_> = step
            .bindings
            .iter()
            .filter(|(binding, _)| step.variant.binding(binding).is_some_and(|b| b.kind == BindingKind::ReadWrite))
            .copied()
            .collect();
        let before: HashMap<BufferId, Vec<u32>> =
            written.iter().map(|(_, id)| (*id, memory.words(*id).borrow().clone())).collect();
        let buffers: Vec<_> = step.bindings.iter().map(|(name, id)| (*name, memory.words(*id))).collect();
        cpu::run(&Call {
            variant: step.variant,
            overrides: &step.overrides,
            grid: step.grid.at(rows),
            buffers: &buffers,
        })
        .map_err(|e| e.at(&step.name))?;

        let mut encoder = self.gpu.encoder("bisect");
        self.record_steps(&mut encoder, self.steps(pass)[number..=number].iter(), rows);
        self.gpu.submit(encoder);
        let mut compared = Compared {
            pass,
            number,
            step: step.name.clone(),
            variant: step.variant.to_string(),
            error: 0.0,
            wrong: None,
        };
        for (binding, id) in written {
            let expected = memory.words(id).borrow().clone();
            self.copy_to(memory, id).await?;
            let result =
                check::compare_output(step.variant, binding, &before[&id], &expected, &memory.words(id).borrow());
            compared.error = compared.error.max(result.error);
            if let Some(message) = result.message {
                let name = &self.layout().spec(id).name;
                compared.wrong.get_or_insert_with(|| format!("{binding} ({name}){message}"));
            }
        }
        Ok(compared)
    }

    /// Copies a buffer from the GPU to the twins' memory.
    async fn copy_to(&self, memory: &Memory, id: BufferId) -> Result<()> {
        let bytes = memory.words(id).borrow().len() as u64 * 4;
        let words = self.gpu.read(self.buffer_of(id), 0, bytes).await?;
        memory.write_words(id, 0, &words)
    }
}
