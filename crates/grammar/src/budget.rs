//! How much a grammar may cost. Work is counted, not timed: the same schema has the same answer on every machine.

use std::cell::Cell;

use crate::error::{Error, ErrorKind, Result};

/// Bounds of what one compilation may use. The defaults keep it below a second and 64 MB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Elementary steps: a state made, an edge followed, an element of a set looked at.
    pub work: u64,
    /// States of the automaton before it is minimised, and of each automaton of a string or number.
    pub states: usize,
    /// Bytes of the finished table.
    pub table_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { work: 6_000_000, states: 60_000, table_bytes: 16 << 20 }
    }
}

/// What is left of the [`Limits`].
#[derive(Debug)]
pub(crate) struct Budget {
    pub limits: Limits,
    left: Cell<u64>,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self { limits, left: Cell::new(limits.work) }
    }

    /// Takes `steps` of work.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`] where none is left.
    pub fn spend(&self, steps: usize) -> Result<()> {
        match self.left.get().checked_sub(steps as u64) {
            Some(left) => {
                self.left.set(left);
                Ok(())
            }
            None => {
                self.left.set(0);
                Err(Error::new(ErrorKind::TooLarge, format!("compiling it takes more than {} steps", self.limits.work)))
            }
        }
    }

    /// Steps taken so far.
    pub fn spent(&self) -> u64 {
        self.limits.work - self.left.get()
    }

    /// # Errors
    /// [`ErrorKind::TooLarge`] where `states` is above the limit.
    pub fn check_states(&self, states: usize) -> Result<()> {
        if states > self.limits.states {
            return Err(Error::new(ErrorKind::TooLarge, format!("it needs more than {} states", self.limits.states)));
        }
        Ok(())
    }
}
