//! What an answer may be, as the GPU walks it: a compiled grammar, where a text stands in it, and the tokens of a model
//! as bytes.
//!
//! The compiler is no part of the main module: the caller that opens an engine passes a [`Compiler`], in the browser
//! another wasm module that is fetched with the first grammar. A compiled grammar is a set of arrays. The kernels
//! `constrain` and the walking variant of `advance` walk them on the GPU; [`Constraint`] is the same walk on the host:
//! it checks every token that is read back, and says where to resume after a device loss.

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use serde::Serialize;

pub use millrace_grammar::{Automaton, Vocabulary, WALK_WORDS, Walk};

use crate::error::{Error, ErrorKind, Result, SchemaFault};
use crate::text::Tokenizer;

/// What of a schema is not enforced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// Where in the schema, as a JSON pointer.
    pub pointer: String,
    /// The keyword.
    pub keyword: String,
    /// Why.
    pub reason: String,
}

/// A compiled grammar.
#[derive(Debug, Clone)]
pub struct Grammar {
    /// As the compiler made it.
    pub automaton: Automaton,
    /// What it left out.
    pub warnings: Vec<Warning>,
    /// How long it took, ms.
    pub ms: f64,
}

/// A report about a compiled grammar.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Compiled {
    /// States of the automaton.
    pub states: u32,
    /// Bytes of it on the GPU.
    pub bytes: usize,
    /// Compile time, ms; 0 where the grammar was cached.
    pub ms: f64,
    /// What of the schema is not enforced.
    pub warnings: Vec<Warning>,
}

/// Words before an automaton's own: classes, where the info of states begins, where the table begins, symbols.
const HEAD: usize = 4;

impl Grammar {
    /// As the kernels read it (shaders/common/grammar.wgsl).
    pub fn words(&self) -> Vec<u32> {
        let it = &self.automaton;
        let info_of_states = HEAD + it.info.len();
        let table = info_of_states + it.states_info.len();
        let head = [it.classes, info_of_states as u32, table as u32, it.symbols];
        [&head, it.info.as_slice(), &it.states_info, &it.table].concat()
    }

    /// The report about this grammar.
    pub fn about(&self, ms: f64) -> Compiled {
        Compiled { states: self.automaton.states, bytes: self.automaton.bytes(), ms, warnings: self.warnings.clone() }
    }
}

/// Where one answer stands in its grammar.
#[derive(Debug, Clone)]
pub struct Constraint {
    grammar: Rc<Grammar>,
    vocabulary: Rc<Vocabulary>,
    walk: Walk,
}

impl Constraint {
    /// The beginning of an answer.
    pub fn new(grammar: Rc<Grammar>, vocabulary: Rc<Vocabulary>) -> Self {
        let walk = Walk::new(&grammar.automaton);
        Self { grammar, vocabulary, walk }
    }

    /// Takes a token that was sampled.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Gpu`] where the grammar does not allow it: the kernels walk otherwise than the host.
    pub fn take(&mut self, id: u32) -> Result<()> {
        let at = id as usize;
        let taken = if at >= self.vocabulary.len() {
            false
        } else if self.vocabulary.is_stop(at) {
            self.walk.accepting(&self.grammar.automaton)
        } else {
            self.walk.advance_token(&self.grammar.automaton, self.vocabulary.token(at))
        };
        if taken {
            Ok(())
        } else {
            Err(Error::gpu(format!(
                "token {id} was sampled, which the grammar does not allow here: this GPU computes wrongly"
            )))
        }
    }

    /// Whether any token may come.
    pub fn goes_on(&self) -> bool {
        self.walk.mask(&self.grammar.automaton, &self.vocabulary).iter().any(|word| *word != 0)
    }

    /// Whether the answer may end here.
    pub fn may_end(&self) -> bool {
        self.walk.accepting(&self.grammar.automaton)
    }

    /// The grammar.
    pub fn grammar(&self) -> &Rc<Grammar> {
        &self.grammar
    }

    /// The model's tokens.
    pub fn vocabulary(&self) -> &Rc<Vocabulary> {
        &self.vocabulary
    }

    /// As the kernels hold it: what they read is the first words of a buffer of [`WALK_WORDS`].
    pub fn words(&self) -> Vec<u32> {
        self.walk.words()
    }
}

/// What a compiler says of a schema that it refuses, by its own code.
pub fn refused(code: &str, place: Warning) -> Error {
    let (kind, what_to_do) = match code {
        "UNSUPPORTED_SCHEMA" | "AMBIGUOUS_GRAMMAR" => {
            (ErrorKind::UnsupportedSchema, "leave it out, or give lenient, which leaves out what cannot be enforced")
        }
        "GRAMMAR_TOO_LARGE" => {
            (ErrorKind::GrammarTooLarge, "ask for less at once: fewer keys, shorter lists, smaller bounds")
        }
        _ => (ErrorKind::InvalidSchema, "correct it"),
    };
    let Warning { pointer, keyword, reason } = place;
    let at = match (keyword.is_empty(), pointer.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!("{pointer}: "),
        (false, true) => format!("{keyword}: "),
        (false, false) => format!("{keyword} at {pointer}: "),
    };
    Error::new(kind, format!("the grammar of the answer: {at}{reason}; {what_to_do}")).with_source(SchemaFault {
        pointer,
        keyword,
        reason,
    })
}

/// Makes grammars: JSON in, arrays out. The description is that of `millrace_grammar::Grammar::from_json`.
pub trait Compiler {
    /// Compiles a description.
    ///
    /// # Errors
    /// [`crate::ErrorKind::UnsupportedSchema`], [`crate::ErrorKind::InvalidSchema`] and
    /// [`crate::ErrorKind::GrammarTooLarge`].
    fn compile(&self, description: String, lenient: bool) -> LocalBoxFuture<'_, Result<Grammar>>;
}

/// The tokens of a model with `vocab` logits, as bytes; `ends` are those that end an answer.
///
/// # Errors
/// [`crate::ErrorKind::Tokenizer`] where there is a byte that no token writes: a grammar might lead to where the model
/// cannot go on.
pub fn vocabulary(tokenizer: &Tokenizer, vocab: usize, ends: &[u32]) -> Result<Vocabulary> {
    let token = |id: u32| match tokenizer.special_name(id) {
        // Bytes that no text has: only a grammar that names the token lets it through.
        Some(name) => [&[0xff], name.as_bytes(), &[0xfe]].concat(),
        None => tokenizer.bytes(id).to_vec(),
    };
    let tokens: Vec<Vec<u8>> = (0..vocab as u32).map(token).collect();
    let packed = Vocabulary::new(tokens.iter().map(Vec::as_slice), |id| ends.contains(&(id as u32)));
    match packed.missing_byte() {
        None => Ok(packed),
        Some(byte) => Err(Error::tokenizer(format!(
            "no token of this model writes the byte 0x{byte:02x} alone, so that answers cannot be forced into a grammar; take a model whose tokenizer has all bytes"
        ))),
    }
}
