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
