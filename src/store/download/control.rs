//! Pausing a download and going on with it, while its caller waits.

use std::cell::Cell;
use std::rc::Rc;

use crate::base::Signal;

/// Whether downloads that have a clone are to wait.
#[derive(Default, Clone)]
pub struct Control {
    paused: Rc<Cell<bool>>,
    signal: Signal,
}

impl Control {
    /// Has them wait, or go on. What has arrived of a piece is kept; its rest is asked for again.
    pub fn pause(&self, paused: bool) {
        self.paused.set(paused);
        self.signal.notify();
    }

    /// Whether they are to wait.
    pub fn is_paused(&self) -> bool {
        self.paused.get()
    }

    pub(super) async fn go(&self) {
        self.signal.until(|| (!self.paused.get()).then_some(())).await;
    }
}
