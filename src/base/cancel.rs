//! Cancellation: a flag that the caller sets and long work checks between its steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// A flag shared by all of its clones. Setting it is final.
///
/// It is atomic, so that a native signal handler can set it; in the browser it follows an `AbortSignal`.
#[derive(Debug, Clone, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// A flag that is not set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag in every clone: the work stops at its next [`Cancel::check`].
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `ABORTED` once the flag is set: `cancel.check()?` between two steps of anything long.
    pub fn check(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::aborted()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn clones_share_the_flag() {
        let a = Cancel::new();
        let b = a.clone();
        assert!(b.check().is_ok());
        a.cancel();
        assert!(b.is_cancelled());
        assert_eq!(b.check().unwrap_err().kind(), ErrorKind::Aborted);
    }
}
