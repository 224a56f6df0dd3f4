//! A machine that runs Millrace's kernels on the CPU. It has buffers of words, programs (a kernel with its constants
//! and buffers) and a list of commands to run; the engine drives it as it drives a GPU. What takes time is written for
//! SIMD, the rest are the kernels' twins (crates/twins).

mod attention;
pub mod int8;
mod parallel;
#[cfg(any(not(target_arch = "wasm32"), feature = "threads"))]
mod pool;
#[cfg(all(target_arch = "wasm32", not(feature = "threads")))]
#[path = "one_thread.rs"]
mod pool;
mod products;
mod program;
mod rows;
mod simd;
mod stream;
#[cfg(target_arch = "wasm32")]
mod web;
mod weights;

use std::cell::RefCell;

use millrace_twins::op;
use program::Program;

/// Buffers and programs.
#[derive(Default)]
pub struct Machine {
    buffers: Slab<RefCell<Vec<u32>>>,
    programs: Slab<Program>,
}

/// Things by number; numbers of what is gone are used again.
struct Slab<T> {
    all: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    fn put(&mut self, it: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.all[id as usize] = Some(it);
            return id;
        }
        self.all.push(Some(it));
        self.all.len() as u32 - 1
    }
    fn take(&mut self, id: u32) {
        if self.all.get_mut(id as usize).and_then(Option::take).is_some() {
            self.free.push(id);
        }
    }
    /// # Panics
    /// Where there is none: callers pass only ids that `put` has returned.
    fn get(&self, id: u32) -> &T {
        self.all.get(id as usize).and_then(Option::as_ref).unwrap_or_else(|| panic!("there is no number {id}"))
    }
}

impl Machine {
    /// What it computes with, for people.
    pub fn name(&self) -> String {
        let simd = match () {
            () if cfg!(target_feature = "relaxed-simd") => "relaxed SIMD",
            () if cfg!(target_arch = "wasm32") => "SIMD",
            () => int8::Level::best().name(),
        };
        let threads = pool::threads();
        format!("CPU ({simd}, {threads} thread{})", if threads == 1 { "" } else { "s" })
    }

    /// A zeroed buffer; `None` where there is no memory for it.
    pub fn buffer(&mut self, words: usize) -> Option<u32> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(words).ok()?;
        buffer.resize(words, 0);
        Some(self.buffers.put(RefCell::new(buffer)))
    }

    /// The bytes of a buffer.
    pub fn bytes_mut(&mut self, id: u32) -> &mut [u8] {
        let buffer = self.buffers.all.get_mut(id as usize).and_then(Option::as_mut);
        buffer.map_or(&mut [], |buffer| bytemuck::cast_slice_mut(buffer.get_mut()))
    }

    /// A program, from its description: lines of the kernel, the variant, numbers (workgroup, tile), axes, overrides
    /// and buffers.
    ///
    /// # Errors
    /// What is wrong with the description.
    pub fn bind(&mut self, text: &str) -> Result<u32, String> {
        let program = Program::read(text).ok_or_else(|| format!("this describes no kernel: {text}"))?;
        Ok(self.programs.put(program))
    }

    /// Runs commands.
    ///
    /// # Panics
    /// Where they are no commands, or name what there is not.
    pub fn run(&mut self, mut commands: &[u32]) {
        while let Some((kind, rest)) = commands.split_first() {
            let (arguments, more) = rest.split_at(match *kind {
                op::DISPATCH => 4,
                op::COPY => 5,
                op::CLEAR | op::WRITE => 3,
                _ => 1,
            });
            commands = more;
            match (*kind, arguments) {
                (op::DISPATCH, &[program, x, y, z]) => self.programs.get(program).run(&self.buffers, [x, y, z]),
                (op::COPY, &[from, at, to, to_at, words]) => {
                    self.copy((from, at as usize), (to, to_at as usize), words as usize)
                }
                (op::CLEAR, &[buffer, at, words]) => {
                    self.buffers.get(buffer).borrow_mut()[at as usize..][..words as usize].fill(0)
                }
                (op::WRITE, &[buffer, at, words]) => {
                    let (data, more) = commands.split_at(words as usize);
                    self.buffers.get(buffer).borrow_mut()[at as usize..][..data.len()].copy_from_slice(data);
                    commands = more;
                }
                (op::FREE, &[buffer]) => self.buffers.take(buffer),
                (op::UNBIND, &[program]) => self.programs.take(program),
                _ => panic!("there is no command {kind}"),
            }
        }
    }

    fn copy(&self, (from, at): (u32, usize), (to, to_at): (u32, usize), words: usize) {
        let target = self.buffers.get(to);
        if from == to {
            target.borrow_mut().copy_within(at..at + words, to_at);
        } else {
            target.borrow_mut()[to_at..][..words].copy_from_slice(&self.buffers.get(from).borrow()[at..][..words]);
        }
    }
}
