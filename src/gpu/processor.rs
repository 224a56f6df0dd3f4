//! The CPU as a device: submissions are queued, and run when a caller waits for them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::rc::Rc;

use millrace_twins::op;

use super::pipeline::Buffer;
use super::platform::Machine;
use crate::error::{Error, Result};
use crate::kernels::{Caps, Variant};

/// A machine that computes, and its queue of submissions.
pub struct Processor {
    machine: Machine,
    waiting: RefCell<VecDeque<Vec<u32>>>,
    submitted: Cell<u64>,
    ran: Cell<u64>,
    /// The first error of work that no caller waited for.
    failure: RefCell<Option<Error>>,
}

/// A buffer of the machine's. Dropping it queues its release behind the commands that may still use it.
pub struct Memory {
    pub(super) id: u32,
    pub(super) bytes: u64,
    processor: Rc<Processor>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.processor.later(vec![op::FREE, self.id]);
    }
}

/// A kernel with its constants and buffers.
pub(super) struct Program {
    pub(super) id: u32,
    processor: Rc<Processor>,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.processor.later(vec![op::UNBIND, self.id]);
    }
}

impl Processor {
    /// Opens the machine of this platform. `helpers`: whether it may have several threads; `lost`: told where the
    /// machine has failed, and computes no more.
    pub(super) async fn open(helpers: bool, lost: impl Fn(String) + 'static) -> Result<Rc<Self>> {
        let machine = Machine::open(helpers, lost).await?;
        Ok(Rc::new(Self {
            machine,
            waiting: RefCell::default(),
            submitted: Cell::default(),
            ran: Cell::default(),
            failure: RefCell::default(),
        }))
    }

    /// The machine's description.
    pub(super) fn caps(&self, max_binding: Option<u64>) -> Caps {
        let most = Machine::LARGEST;
        Caps {
            name: self.machine.name(),
            backend: "cpu".into(),
            max_buffer: most,
            max_binding: max_binding.unwrap_or(u64::MAX).min(most),
            binding_limit: most,
            software: true,
            native_halves: true,
            ..Caps::least()
        }
    }

    /// Zeroed memory.
    pub(super) fn memory(self: &Rc<Self>, label: &str, bytes: u64) -> Result<Memory> {
        let id = self
            .machine
            .buffer(bytes)
            .ok_or_else(|| Error::out_of_memory(format!("there is no memory for buffer {label} of {bytes} bytes")))?;
        Ok(Memory { id, bytes, processor: self.clone() })
    }

    /// A kernel, ready to run.
    pub(super) fn bind(
        self: &Rc<Self>,
        variant: &Variant,
        overrides: &[(&'static str, f64)],
        buffers: &[(&'static str, Buffer)],
    ) -> Result<Program> {
        // The description as crates/cpu parses it.
        let mut text = format!("{}\n{}\n", variant.kernel, variant.name);
        let [x, y, z] = variant.workgroup;
        let [rows, columns] = variant.tile;
        let _ = writeln!(text, "{x} {y} {z} {rows} {columns}");
        variant.axes.iter().for_each(|(axis, value)| text.extend([axis, "=", value, " "]));
        text.push('\n');
        variant.all_overrides(overrides).iter().for_each(|(name, value)| text.push_str(&format!("{name}={value} ")));
        text.push('\n');
        for (name, buffer) in buffers {
            if let super::commands::Raw::Cpu(memory) = buffer.raw() {
                let _ = write!(text, "{name}={} ", memory.id);
            }
        }
        let id = self.machine.bind(&text)?;
        Ok(Program { id, processor: self.clone() })
    }

    /// Writes whole words: at once where the queue is empty.
    pub(super) fn write(&self, to: &Memory, offset: u64, bytes: &[u8]) {
        if self.waiting.borrow().is_empty() {
            self.note(self.machine.write(to.id, offset, bytes));
            return;
        }
        let mut command = vec![op::WRITE, to.id, (offset / 4) as u32, (bytes.len() / 4) as u32];
        command.extend(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)));
        self.submit(command);
    }

    /// Keeps the first error for the next wait.
    fn note(&self, done: Result<()>) {
        if let Err(e) = done {
            self.failure.borrow_mut().get_or_insert(e);
        }
    }

    /// The bytes of a buffer as they are now.
    pub(super) fn read(&self, from: &Memory, bytes: u64) -> Result<Vec<u8>> {
        self.machine.read(from.id, 0, bytes)
    }

    /// Queues commands. Returns the submission's number.
    pub(super) fn submit(&self, commands: Vec<u32>) -> u64 {
        self.submitted.set(self.submitted.get() + 1);
        self.waiting.borrow_mut().push_back(commands);
        self.submitted.get()
    }

    /// Runs commands at once where the queue is empty, else queues them.
    fn later(&self, commands: Vec<u32>) {
        if self.waiting.borrow().is_empty() {
            self.note(self.machine.run(&commands));
        } else {
            self.submit(commands);
        }
    }

    /// The number of the last submission.
    pub(super) fn last(&self) -> u64 {
        self.submitted.get()
    }

    /// Runs the queued submissions up to and including `number`; before each, the thread may yield to its event loop.
    pub(super) async fn run_until(&self, number: u64) -> Result<()> {
        while self.ran.get() < number {
            self.machine.others().await;
            let Some(commands) = self.waiting.borrow_mut().pop_front() else { break };
            self.ran.set(self.ran.get() + 1);
            self.machine.run(&commands)?;
        }
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Drops the queued submissions.
    pub(super) fn clear(&self) {
        let dropped = std::mem::take(&mut *self.waiting.borrow_mut());
        self.ran.set(self.ran.get() + dropped.len() as u64);
    }
}
