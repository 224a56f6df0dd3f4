//! What a page calls of the module: a machine, and memory to hand texts and commands over in. Nothing of it needs glue.

use std::cell::RefCell;

use super::Machine;

/// What stands for a number where there is none.
const NONE: u32 = u32::MAX;

#[derive(Default)]
struct Module {
    machine: Machine,
    /// What is handed over.
    given: Vec<u32>,
}

thread_local! {
    static MODULE: RefCell<Module> = RefCell::default();
}

/// Room for `words` words; the address of the first.
#[unsafe(no_mangle)]
extern "C" fn room(words: u32) -> *mut u32 {
    MODULE.with_borrow_mut(|module| {
        module.given.resize((words as usize).max(module.given.len()), 0);
        module.given.as_mut_ptr()
    })
}

/// Whether this build uses relaxed SIMD.
#[unsafe(no_mangle)]
extern "C" fn relaxed() -> u32 {
    u32::from(cfg!(target_feature = "relaxed-simd"))
}

/// A zeroed buffer of `words` words; [`NONE`] where there is no memory.
#[unsafe(no_mangle)]
extern "C" fn buffer(words: u32) -> u32 {
    MODULE.with_borrow_mut(|module| module.machine.buffer(words as usize).unwrap_or(NONE))
}

/// The address of a buffer; it does not change.
#[unsafe(no_mangle)]
extern "C" fn address(buffer: u32) -> *mut u8 {
    MODULE.with_borrow_mut(|module| module.machine.bytes_mut(buffer).as_mut_ptr())
}

/// A program, of the text in the first `bytes` bytes of what was given; [`NONE`] where it describes none.
#[unsafe(no_mangle)]
extern "C" fn bind(bytes: u32) -> u32 {
    MODULE.with_borrow_mut(|module| {
        let text = bytemuck::cast_slice::<u32, u8>(&module.given).get(..bytes as usize);
        let text = text.and_then(|text| std::str::from_utf8(text).ok());
        text.and_then(|text| module.machine.bind(text).ok()).unwrap_or(NONE)
    })
}

/// Runs the commands in the first words of what was given.
#[unsafe(no_mangle)]
extern "C" fn run(words: u32) {
    MODULE.with_borrow_mut(|module| {
        let given = std::mem::take(&mut module.given);
        module.machine.run(&given[..words as usize]);
        module.given = given;
    });
}

/// The end of a new stack of `bytes` bytes, for a thread that helps.
#[cfg(feature = "threads")]
#[unsafe(no_mangle)]
extern "C" fn stack(bytes: u32) -> *mut u128 {
    let words = bytes as usize / size_of::<u128>();
    let stack: &'static mut [u128] = Box::leak(vec![0u128; words].into_boxed_slice());
    stack.as_mut_ptr_range().end
}

/// How threads that share the memory help: see `pool.rs`.
#[cfg(feature = "threads")]
mod helpers {
    use crate::pool::web;

    #[unsafe(no_mangle)]
    extern "C" fn joined() -> *const u32 {
        web::joined()
    }
    #[unsafe(no_mangle)]
    extern "C" fn slept() {
        web::slept();
    }
    #[unsafe(no_mangle)]
    extern "C" fn help(seen: u32) -> u32 {
        web::help(seen)
    }
    #[unsafe(no_mangle)]
    extern "C" fn failed() {
        web::failed();
    }
}

/// The standard library's allocator, one thread at a time: that of the standard library as it is distributed knows of no
/// other threads.
#[cfg(feature = "threads")]
mod allocator {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::sync::atomic::{AtomicBool, Ordering};

    struct Locked(AtomicBool);

    #[global_allocator]
    static ALLOCATOR: Locked = Locked(AtomicBool::new(false));

    impl Locked {
        fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
            crate::pool::until(|| !self.0.swap(true, Ordering::Acquire));
            let made = work();
            self.0.store(false, Ordering::Release);
            made
        }
    }

    // SAFETY: all is passed on to the system's allocator as it came.
    unsafe impl GlobalAlloc for Locked {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            self.alone(|| unsafe { System.alloc(layout) })
        }
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            self.alone(|| unsafe { System.alloc_zeroed(layout) })
        }
        unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
            self.alone(|| unsafe { System.dealloc(at, layout) });
        }
        unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            self.alone(|| unsafe { System.realloc(at, layout, size) })
        }
    }
}
