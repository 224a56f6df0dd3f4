//! The finished automaton, as arrays that go to the GPU as they are.

/// What a byte does in a state: the two highest bits of an entry of [`Automaton::table`].
pub mod entry {
    /// To the state of the lowest 16 bits. An entry of 0 refuses: state 0 is dead.
    pub const PLAIN: u32 = 0;
    /// As `PLAIN`; the byte is white space that says nothing and is bounded by [`MAX_SPACE`](crate::MAX_SPACE).
    pub const SPACE: u32 = 1;
    /// Puts the symbol of bits 16 to 29 and the counter on the stack, sets the counter to 0, and goes to the state of
    /// the lowest 16 bits.
    pub const PUSH: u32 = 2;
    /// Takes a symbol and its counter from the stack, and goes to the symbol's state for the outcome in the lowest 16
    /// bits.
    pub const POP: u32 = 3;
    /// Bit of a `PLAIN` entry that adds 1 to the counter.
    pub const COUNT: u32 = 1 << 29;
}

/// Words of [`Automaton::info`] before the symbols: the class of each byte, four a word, the lowest byte first.
pub const CLASS_WORDS: usize = 64;
/// Words of a symbol in [`Automaton::info`]: where its states for outcomes begin in `info`, the least and the greatest
/// counter (`u32::MAX` where there is no bound).
pub const SYMBOL_WORDS: usize = 3;

/// States that an entry can name.
pub(crate) const MAX_STATES: usize = 65_536;
/// Symbols that an entry can name.
pub(crate) const MAX_SYMBOLS: usize = 16_384;

/// A byte-level visibly pushdown automaton. Every state can still be finished; state 0 is dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Automaton {
    /// `(states, classes)` entries of [`entry`].
    pub table: Vec<u32>,
    /// [`CLASS_WORDS`] words of byte classes, [`SYMBOL_WORDS`] words a symbol, then the states that symbols go on in,
    /// as many behind the beginning of each as the automaton has outcomes.
    pub info: Vec<u32>,
    /// `(states)` words: bits 0 to 15 are the [`category`](crate::category)s that lead back to the state, bit 16 says
    /// that their characters are counted, bit 17 that the text may end here.
    pub states_info: Vec<u32>,
    /// Classes of bytes, at most 256.
    pub classes: u32,
    /// States, at most 65,536, the dead one included.
    pub states: u32,
    /// Symbols, at most 16,384.
    pub symbols: u32,
    /// The state at the beginning of a text.
    pub start: u32,
}

impl Automaton {
    /// The class of a byte.
    pub fn class(&self, byte: u8) -> u32 {
        self.info[usize::from(byte >> 2)] >> (8 * (byte & 3)) & 255
    }

    /// What a byte does in a state.
    pub fn entry(&self, state: u32, byte: u8) -> u32 {
        self.table[(state * self.classes + self.class(byte)) as usize]
    }

    /// Whether the text may end in a state; the stack has to be empty too, which it is in these states.
    pub fn accepts(&self, state: u32) -> bool {
        self.states_info[state as usize] >> 17 & 1 == 1
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        4 * (self.table.len() + self.info.len() + self.states_info.len())
    }

    /// An automaton whose arrays have come from elsewhere; `None` where they do not fit together. Whatever they say, a
    /// [`Walk`](crate::Walk) of what this returns stays within them: all states, symbols and classes are there, and so
    /// is each state that a symbol may go on in.
    pub fn from_parts(
        table: Vec<u32>,
        info: Vec<u32>,
        states_info: Vec<u32>,
        classes: u32,
        states: u32,
        symbols: u32,
        start: u32,
    ) -> Option<Self> {
        let it = Self { table, info, states_info, classes, states, symbols, start };
        it.is_sound().then_some(it)
    }

    fn is_sound(&self) -> bool {
        let (states, symbols) = (self.states as usize, self.symbols as usize);
        let returns = CLASS_WORDS + SYMBOL_WORDS * symbols.min(MAX_SYMBOLS);
        let sized = (1..=256).contains(&self.classes)
            && states <= MAX_STATES
            && symbols <= MAX_SYMBOLS
            && self.start < self.states
            && self.table.len() == states * self.classes as usize
            && self.states_info.len() == states
            && self.info.len() >= returns;
        if !sized
            || (0..=255).any(|b| self.class(b) >= self.classes)
            || self.info[returns..].iter().any(|&to| to >= self.states)
        {
            return false;
        }
        // Where the last outcome that a state has would be, for the symbol that lies furthest behind.
        let mut outcomes = 0;
        for &e in &self.table {
            let known = match e >> 30 {
                entry::POP => {
                    outcomes = outcomes.max((e & 0xffff) as usize + 1);
                    true
                }
                entry::PUSH => e & 0xffff < self.states && e >> 16 & 0x3fff < self.symbols,
                _ => e & 0xffff < self.states,
            };
            if !known {
                return false;
            }
        }
        let bases = self.info[CLASS_WORDS..returns].chunks(SYMBOL_WORDS).map(|symbol| symbol[0] as usize);
        bases.into_iter().all(|base| (returns..=self.info.len()).contains(&base) && self.info.len() - base >= outcomes)
    }
}
