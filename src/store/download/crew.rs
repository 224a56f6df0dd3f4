//! How many connections a server takes: all that the caller allows, fewer where it refuses some of them while others
//! receive, and one more again after a while.

use std::cell::Cell;

/// Shards that have to arrive before one more connection is tried again; each refusal of that one doubles them.
const FIRST_PATIENCE: u32 = 8;
/// The most that they become.
const MOST_PATIENCE: u32 = 256;

/// The connections of a download.
pub(super) struct Crew {
    most: usize,
    allowed: Cell<usize>,
    /// Connections that look for a job.
    active: Cell<usize>,
    /// Connections with an answer, which receive.
    receiving: Cell<usize>,
    patience: Cell<u32>,
    /// Shards since the last refusal, or since one more was allowed.
    arrived: Cell<u32>,
    ended: Cell<bool>,
}

/// A connection that receives, until this is dropped.
pub(super) struct Receiving<'a>(&'a Crew);

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        self.0.receiving.set(self.0.receiving.get() - 1);
    }
}

impl Crew {
    pub fn new(most: usize) -> Self {
        let zero = || Cell::new(0);
        Self {
            most: most.max(1),
            allowed: Cell::new(most.max(1)),
            active: zero(),
            receiving: zero(),
            patience: Cell::new(FIRST_PATIENCE),
            arrived: Cell::new(0),
            ended: Cell::new(false),
        }
    }

    /// All connections start over; what the server takes is known from before.
    pub fn begin(&self) {
        self.active.set(0);
        self.ended.set(false);
    }

    /// Connections that may work at a time.
    pub fn allowed(&self) -> usize {
        self.allowed.get()
    }

    /// The most that may ever.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Whether one more may work now; `Some(false)` once there is nothing more to do, `None` while it has to wait.
    pub fn join(&self) -> Option<bool> {
        if self.ended.get() {
            return Some(false);
        }
        let free = self.active.get() < self.allowed.get();
        free.then(|| {
            self.active.set(self.active.get() + 1);
            true
        })
    }

    /// One has found nothing more to do: nor will those that wait.
    pub fn leave(&self) {
        self.active.set(self.active.get() - 1);
        self.ended.set(true);
    }

    /// One was refused while others received: how many may work from now on.
    pub fn refused(&self) -> usize {
        self.active.set(self.active.get() - 1);
        if self.allowed.get() < self.most {
            self.patience.set((self.patience.get() * 2).min(MOST_PATIENCE));
        }
        self.arrived.set(0);
        self.allowed.set(self.active.get().clamp(1, self.allowed.get()));
        self.allowed.get()
    }

    /// A shard has arrived: whether one more connection may be tried again.
    pub fn succeeded(&self) -> bool {
        self.arrived.set(self.arrived.get() + 1);
        let more = self.allowed.get() < self.most && self.arrived.get() >= self.patience.get();
        if more {
            self.arrived.set(0);
            self.allowed.set(self.allowed.get() + 1);
        }
        more
    }

    /// Counts the caller as receiving, until the result is dropped.
    pub fn receive(&self) -> Receiving<'_> {
        self.receiving.set(self.receiving.get() + 1);
        Receiving(self)
    }

    /// Whether another connection receives; for a caller that does not.
    pub fn others_receive(&self) -> bool {
        self.receiving.get() > 0
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn it_shrinks_to_what_is_taken_and_grows_after_a_while() {
        let crew = Crew::new(4);
        assert_eq!(
            (0..5).map(|_| crew.join()).collect::<Vec<_>>(),
            [Some(true), Some(true), Some(true), Some(true), None]
        );
        assert_eq!([crew.refused(), crew.refused(), crew.refused()], [3, 2, 1]);
        assert_eq!(crew.join(), None);
        // The second and third refusal count as those of one that was tried again.
        let wait = FIRST_PATIENCE * 4;
        assert!((1..wait).all(|_| !crew.succeeded()));
        assert!(crew.succeeded() && crew.allowed() == 2);
        assert_eq!((crew.join(), crew.refused()), (Some(true), 1));
        assert!((1..2 * wait).all(|_| !crew.succeeded()) && crew.succeeded());
        crew.leave();
        assert_eq!(crew.join(), Some(false));
    }

    #[test]
    fn who_receives_is_counted() {
        let crew = Crew::new(2);
        let receiving = crew.receive();
        assert!(crew.others_receive());
        drop(receiving);
        assert!(!crew.others_receive());
    }
}
