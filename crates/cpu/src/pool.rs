//! The threads that compute. Helpers wait for work in a loop, since a token has hundreds of short products; where none
//! comes for a while they sleep. Natively they are threads of the process, in a page Workers that share the module's
//! memory (`web.rs`, `npm/cpu.ts`).

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};

use crate::parallel::Work;

/// What is being shared out.
struct Job {
    work: *const Work<'static>,
    n: usize,
    part: usize,
}

/// The caller's job, and who takes part in it. There is one pool; a second caller at the same time computes alone.
struct Pool {
    taken: AtomicBool,
    job: UnsafeCell<Option<Job>>,
    /// The number of jobs so far, by which helpers notice a new one.
    jobs: AtomicU32,
    /// Whether parts of the job may be begun.
    open: AtomicBool,
    /// The first element that no thread has begun.
    next: AtomicUsize,
    /// Helpers that are looking at the job.
    within: AtomicUsize,
    /// Helpers there are, and those of them that sleep.
    helpers: AtomicUsize,
    asleep: AtomicUsize,
    failed: AtomicBool,
}

// SAFETY: `job` is written by the thread that has `taken` the pool while it is not open and no helper is within; helpers
// read it only within an open job (see `Pool::help`).
unsafe impl Sync for Pool {}

static POOL: Pool = Pool {
    taken: AtomicBool::new(false),
    job: UnsafeCell::new(None),
    jobs: AtomicU32::new(0),
    open: AtomicBool::new(false),
    next: AtomicUsize::new(0),
    within: AtomicUsize::new(0),
    helpers: AtomicUsize::new(0),
    asleep: AtomicUsize::new(0),
    failed: AtomicBool::new(false),
};

impl Pool {
    /// Has all parts of a job done. `false`: another thread has the pool.
    fn run(&self, n: usize, part: usize, work: &Work) -> bool {
        if self.taken.swap(true, SeqCst) {
            return false;
        }
        let job = Job {
            // SAFETY: only the lifetime differs, and `Close` waits for the helpers before `work` can end. Where a page gives
            // that wait up, this call never returns: `work` stays where it is, in an instance that runs no more.
            work: unsafe { std::mem::transmute::<*const Work<'_>, *const Work<'static>>(work) },
            n,
            part,
        };
        // SAFETY: the pool is this thread's, it is not open, and no helper is within.
        unsafe { *self.job.get() = Some(job) };
        self.next.store(0, SeqCst);
        self.open.store(true, SeqCst);
        self.jobs.fetch_add(1, SeqCst);
        let close = Close(self);
        if self.asleep.load(SeqCst) > 0 {
            sleep::wake(&self.jobs);
        }
        self.parts(n, part, work);
        drop(close);
        assert!(!self.failed.swap(false, SeqCst), "a thread of the CPU's failed");
        true
    }

    fn parts(&self, n: usize, part: usize, work: &Work) {
        loop {
            let begin = self.next.fetch_add(part, SeqCst);
            if begin >= n {
                return;
            }
            work(begin..(begin + part).min(n));
        }
    }

    /// Looks for jobs after the `seen`th until none has come for a while. Returns the number of the last one.
    fn help(&self, mut seen: u32) -> u32 {
        let mut looks = 0;
        while looks < LOOKS {
            let jobs = self.jobs.load(SeqCst);
            if jobs == seen {
                looks += 1;
                std::hint::spin_loop();
                continue;
            }
            (seen, looks) = (jobs, 0);
            self.within.fetch_add(1, SeqCst);
            let within = Within(self);
            // A caller that has closed this job waits for `within` to be 0, or has not seen this thread come: then it
            // is closed here as well, or another job, which is looked at in the next turn.
            if self.open.load(SeqCst) && self.jobs.load(SeqCst) == seen {
                // SAFETY: the job is open, so its caller waits for this thread.
                if let Some(Job { work, n, part }) = unsafe { &*self.job.get() } {
                    // SAFETY: as above.
                    self.parts(*n, *part, unsafe { &**work });
                }
            }
            drop(within);
        }
        seen
    }
}

/// Ends a job: no part is begun any more, and the helpers have left.
struct Close<'a>(&'a Pool);

impl Drop for Close<'_> {
    fn drop(&mut self) {
        self.0.open.store(false, SeqCst);
        until(|| self.0.within.load(SeqCst) == 0);
        self.0.taken.store(false, SeqCst);
    }
}

/// Looks until something that another thread does is done.
pub fn until(done: impl Fn() -> bool) {
    let mut first = true;
    loop {
        for _ in 0..1 << 14 {
            if done() {
                return;
            }
            std::hint::spin_loop();
        }
        sleep::waiting(first);
        first = false;
    }
}

/// A helper that looks at a job. Where its part panics, the caller learns of it.
struct Within<'a>(&'a Pool);

impl Drop for Within<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, SeqCst);
        }
        self.0.within.fetch_sub(1, SeqCst);
    }
}

/// Looks for a job before a helper sleeps: 50 to 200 microseconds.
const LOOKS: u32 = if cfg!(target_arch = "wasm32") { 100_000 } else { 4_000 };

/// How threads sleep natively.
#[cfg(not(target_arch = "wasm32"))]
mod sleep {
    use super::{POOL, SeqCst};
    use std::sync::atomic::AtomicU32;
    use std::sync::{Condvar, Mutex, Once, PoisonError};

    /// The most threads: memory keeps no more of them busy, and short products would wait for the last to wake.
    const MOST: usize = 16;

    static SLEEPERS: Mutex<()> = Mutex::new(());
    static WOKEN: Condvar = Condvar::new();

    pub fn wake(_: &AtomicU32) {
        drop(SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner));
        WOKEN.notify_all();
    }

    /// The other thread may need this one's processor. It comes back: a part that panics unwinds.
    pub fn waiting(_: bool) {
        std::thread::yield_now();
    }

    fn helper() {
        let mut seen = POOL.jobs.load(SeqCst);
        loop {
            seen = POOL.help(seen);
            let mut guard = SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
            POOL.asleep.fetch_add(1, SeqCst);
            while POOL.jobs.load(SeqCst) == seen {
                guard = WOKEN.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            POOL.asleep.fetch_sub(1, SeqCst);
        }
    }

    /// Starts the helpers: with the caller as many threads as there are processors for, up to [`MOST`].
    pub fn begin() {
        static BEGUN: Once = Once::new();
        BEGUN.call_once(|| {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 1..processors.min(MOST) {
                if std::thread::Builder::new().name("millrace-cpu".into()).spawn(helper).is_ok() {
                    POOL.helpers.fetch_add(1, SeqCst);
                }
            }
        });
    }
}

/// In a page JavaScript has helpers sleep and wakes them: `npm/cpu.ts`.
#[cfg(all(target_arch = "wasm32", feature = "threads"))]
mod sleep {
    use super::{POOL, SeqCst};
    use std::sync::atomic::AtomicU32;

    #[link(wasm_import_module = "env")]
    unsafe extern "C" {
        #[link_name = "wake"]
        fn notify(jobs: *const AtomicU32);
        #[link_name = "waiting"]
        fn wait(first: u32, failed: u32);
    }

    pub fn wake(jobs: &AtomicU32) {
        // SAFETY: JavaScript's Atomics.notify, with an address in the module's memory.
        unsafe { notify(jobs) }
    }

    /// JavaScript throws where a wait lasts too long, or a helper has failed: a Worker that was ended amid its part
    /// never comes back. Nothing of this instance runs after that.
    pub fn waiting(first: bool) {
        let failed = POOL.failed.load(SeqCst);
        // SAFETY: it takes two numbers.
        unsafe { wait(u32::from(first), u32::from(failed)) }
    }
}

/// What JavaScript calls in a Worker that helps.
#[cfg(all(target_arch = "wasm32", feature = "threads"))]
pub mod web {
    use super::{POOL, SeqCst};

    /// One more helper is there. Returns the address of the number of jobs, by which it sleeps.
    pub fn joined() -> *const u32 {
        POOL.helpers.fetch_add(1, SeqCst);
        POOL.jobs.as_ptr()
    }

    /// A helper that slept has woken; it helps until no job has come for a while, and is about to sleep then.
    pub fn help(seen: u32) -> u32 {
        POOL.asleep.fetch_sub(1, SeqCst);
        let seen = POOL.help(seen);
        POOL.asleep.fetch_add(1, SeqCst);
        seen
    }

    /// A helper sleeps for the first time.
    pub fn slept() {
        POOL.asleep.fetch_add(1, SeqCst);
    }

    /// A helper has failed. It may still count as one that looks at a job: who waits for it learns of this.
    pub fn failed() {
        POOL.failed.store(true, SeqCst);
    }
}

/// Threads that compute, with the caller's.
pub fn threads() -> usize {
    #[cfg(not(target_arch = "wasm32"))]
    sleep::begin();
    POOL.helpers.load(SeqCst) + 1
}

/// Has `0..n` be done in parts of `part` by all threads. `false`: another caller has them, and nothing is done.
pub fn run(n: usize, part: usize, work: &Work) -> bool {
    POOL.run(n, part, work)
}
