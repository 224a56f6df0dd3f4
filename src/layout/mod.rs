//! Buffers before they exist: what they are called, what they are for, how long they are.

mod names;
mod state;

pub use names::{Control, Form, Name, Scratch};
pub use state::{Kv, Rows, StateShape};

use std::collections::HashMap;

use serde::Serialize;

use crate::base::CHECKED;
use crate::blocks::BLOCK;

/// Sizes that the plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct Sizes {
    /// Most rows of a pass: the prefill chunk; 1 in decode.
    pub rows: u32,
    /// Positions that a sequence's state has room for, C.
    pub capacity: u32,
    /// Sequences that have their states on the GPU at one time.
    pub slots: u32,
    /// Token ids that the ring holds between two readbacks.
    pub ring: u32,
}

/// A buffer of a [`Layout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct BufferId(pub u32);

/// What a buffer is for, which decides its usage and in which sum of the memory report it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Matrices, vectors and tables that never change after loading.
    Weight,
    /// What layers remember of sequences.
    State,
    /// Everything between two kernels.
    Scratch,
    /// Input from the host and output to it.
    Control,
}

/// One buffer, before it exists.
#[derive(Debug, Clone)]
pub struct BufferSpec {
    /// Unique name.
    pub name: Name,
    /// Length in bytes.
    pub bytes: u64,
    /// How what a layer remembers of a sequence is laid out, in each of the buffer's slots.
    pub state: Option<StateShape>,
}

impl BufferSpec {
    /// What it is for.
    pub fn role(&self) -> Role {
        match self.name {
            Name::Weight(_) | Name::Rotations(_) => Role::Weight,
            Name::State(..) => Role::State,
            Name::Control(_) => Role::Control,
            Name::Scratch(_) => Role::Scratch,
        }
    }

    /// Its length in an engine of other sizes.
    pub fn bytes_at(&self, sizes: Sizes) -> u64 {
        self.state.map_or(self.bytes, |state| state.grown(sizes).bytes() * u64::from(sizes.slots))
    }
}

/// All buffers of an engine. Weights come first and keep their ids when states grow and the rest is laid out again.
#[derive(Debug, Default, Clone)]
pub struct Layout {
    specs: Vec<BufferSpec>,
    by_name: HashMap<Name, BufferId>,
    /// What the plan says of steps that read a buffer.
    notes: HashMap<BufferId, String>,
}

impl Layout {
    /// The buffer of that name, reserved on first use, as large as its largest user wants it.
    pub fn reserve(&mut self, name: impl Into<Name>, bytes: u64) -> BufferId {
        let name = name.into();
        if let Some(id) = self.find(&name) {
            let spec = &mut self.specs[id.0 as usize];
            spec.bytes = spec.bytes.max(bytes);
            return id;
        }
        let id = BufferId(self.specs.len() as u32);
        self.by_name.insert(name.clone(), id);
        self.specs.push(BufferSpec { name, bytes, state: None });
        id
    }

    /// A weight's buffer, of a name that no other has.
    pub fn weight(&mut self, name: impl Into<String>, bytes: u64) -> BufferId {
        let name = Name::Weight(name.into());
        assert!(!CHECKED || self.find(&name).is_none(), "{name} is reserved twice");
        self.reserve(name, bytes)
    }

    /// A part of what layer `layer` remembers, with a slot for each of `slots` sequences.
    pub fn state(&mut self, layer: usize, part: &'static str, shape: StateShape, slots: u32) -> BufferId {
        let id = self.reserve(Name::State(layer, part), shape.bytes() * u64::from(slots));
        self.specs[id.0 as usize].state = Some(shape);
        id
    }

    /// Has the plan say something about each step that reads the buffer as its weights.
    pub fn note(&mut self, buffer: BufferId, text: String) {
        self.notes.insert(buffer, text);
    }

    /// What was noted of a buffer.
    pub fn note_of(&self, buffer: BufferId) -> Option<&str> {
        self.notes.get(&buffer).map(String::as_str)
    }

    /// The buffer of that name.
    pub fn find(&self, name: &Name) -> Option<BufferId> {
        self.by_name.get(name).copied()
    }

    /// A buffer.
    pub fn spec(&self, id: BufferId) -> &BufferSpec {
        &self.specs[id.0 as usize]
    }

    /// All buffers, in the order of their ids.
    pub fn specs(&self) -> &[BufferSpec] {
        &self.specs
    }

    /// Forgets every buffer after the first `n`.
    pub fn truncate(&mut self, n: usize) {
        self.specs.truncate(n);
        self.by_name.retain(|_, id| (id.0 as usize) < n);
    }

    /// Bytes of all buffers of a role.
    pub fn bytes(&self, role: Role) -> u64 {
        self.specs.iter().filter(|s| s.role() == role).map(|s| s.bytes).sum()
    }
}

/// Elements of an f32 row of width `d`: padded to whole blocks.
pub const fn stride(d: usize) -> usize {
    d.div_ceil(BLOCK) * BLOCK
}
