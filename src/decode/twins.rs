//! Runs a plan through the CPU twins: the same buffers as words in host memory, the same steps.

use std::cell::RefCell;

use futures_util::future::LocalBoxFuture;

use crate::cpu::{self, Call};
use crate::error::{Error, Result};
use crate::layout::{BufferId, Layout, Role};
use crate::plan::{Plan, Step};
use crate::weights::Sink;

/// The buffers of a [`Layout`] in host memory, as 32-bit words.
pub struct Memory(Vec<RefCell<Vec<u32>>>);

impl Memory {
    /// Zeroed buffers.
    pub fn new(layout: &Layout) -> Self {
        Self(layout.specs().iter().map(|s| RefCell::new(vec![0; s.bytes.div_ceil(4) as usize])).collect())
    }

    /// One buffer.
    pub fn words(&self, id: BufferId) -> &RefCell<Vec<u32>> {
        &self.0[id.0 as usize]
    }

    /// Writes bytes at a byte offset; both whole words.
    pub fn write_words(&self, id: BufferId, at: u64, bytes: &[u8]) -> Result<()> {
        let mut words = self.0[id.0 as usize].borrow_mut();
        let start = (at / 4) as usize;
        let room = words
            .get_mut(start..start + bytes.len() / 4)
            .ok_or_else(|| Error::internal(format!("writing {} bytes at {at} into buffer {}", bytes.len(), id.0)))?;
        bytemuck::cast_slice_mut(room).copy_from_slice(bytes);
        Ok(())
    }

    /// Zeroes the buffers of a role.
    pub fn clear(&self, layout: &Layout, role: Role) {
        layout
            .specs()
            .iter()
            .zip(&self.0)
            .filter(|(spec, _)| spec.role() == role)
            .for_each(|(_, words)| words.borrow_mut().fill(0));
    }

    /// Runs the steps of `plan` that `which` selects, for a pass over `rows` rows.
    pub fn run(&self, plan: &Plan, which: impl Fn(&Step) -> bool, rows: u32) -> Result<()> {
        for step in plan.steps.iter().filter(|step| which(step)) {
            let buffers: Vec<_> = step.bindings.iter().map(|(name, id)| (*name, self.words(*id))).collect();
            cpu::run(&Call {
                variant: step.variant,
                overrides: &step.overrides,
                grid: step.grid.at(rows),
                buffers: &buffers,
            })
            .map_err(|e| e.at(&step.name))?;
        }
        Ok(())
    }
}

impl Sink for Memory {
    fn write<'a>(&'a self, buffer: BufferId, offset: u64, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move { self.write_words(buffer, offset, bytes) })
    }
    fn finish(&self) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}
