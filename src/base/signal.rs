//! Waiting for something to become true, within one thread.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Wakes waiting tasks when a condition may have changed.
#[derive(Default, Clone)]
pub struct Signal(Rc<RefCell<Vec<Waker>>>);

impl Signal {
    /// Wakes every waiting task; each evaluates its condition again.
    pub fn notify(&self) {
        self.0.take().into_iter().for_each(Waker::wake);
    }

    /// Waits until `look` returns a value; evaluates it at once, and after each [`Signal::notify`].
    pub async fn until<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| match look() {
            Some(found) => Poll::Ready(found),
            None => {
                let mut waiting = self.0.borrow_mut();
                if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                    waiting.push(cx.waker().clone());
                }
                Poll::Pending
            }
        })
        .await
    }
}
