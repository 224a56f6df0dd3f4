//! A grammar to its automaton.

use std::rc::Rc;

use crate::automaton::Automaton;
use crate::budget::{Budget, Limits};
use crate::build::{Builder, Form, Unrolled};
use crate::determinize::{Stop, determinize};
use crate::dfa::Dfa;
use crate::error::{Error, ErrorKind, Result, Warning};
use crate::free::{free, is_text};
use crate::grammar::{Grammar, Node};
use crate::nfa::{ROOT, StateId};
use crate::regex;
use crate::schema::{SchemaId, Schemas};

/// Grammars inside each other.
const MAX_DEPTH: usize = 64;
/// How often calls with different bounds may be found at one place.
const MAX_ROUNDS: usize = 12;

/// How a grammar is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Leaves out what is not supported and says so in a [`Warning`], instead of an error.
    pub lenient: bool,
    /// Allows white space where JSON does, up to [`MAX_SPACE`](crate::MAX_SPACE) bytes in a row.
    pub whitespace: bool,
    /// Allows an object's members in other orders beside that of the schema's `properties` and what it combines: what
    /// it combines first, and those that `required` names first.
    pub required_first: bool,
    /// What it may cost.
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self { lenient: false, whitespace: true, required_first: true, limits: Limits::default() }
    }
}

/// What became of a grammar. How long it took is the caller's to measure: a page's clock is not a program's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// States, the dead one included.
    pub states: u32,
    /// States before they were minimised.
    pub raw_states: usize,
    /// Places that call, as far as they differ.
    pub symbols: u32,
    /// Classes of bytes.
    pub classes: u32,
    /// Bytes of all arrays.
    pub bytes: usize,
    /// Elementary steps that it took, of [`Limits::work`].
    pub work: u64,
    /// What of the schemas has no effect.
    pub warnings: Vec<Warning>,
}

/// Compiles a grammar. The same grammar always gives the same arrays.
///
/// # Errors
/// [`ErrorKind`] lists what a schema or a regular expression may have wrong; [`Error::pointer`] and [`Error::keyword`]
/// tell where.
pub fn compile(grammar: &Grammar, options: &Options) -> Result<(Automaton, Report)> {
    let budget = Rc::new(Budget::new(options.limits));
    let mut schemas = Schemas::new(budget.clone(), options.lenient);
    let mut roots = Vec::new();
    documents(grammar, &mut schemas, &mut roots, 0)?;
    let form = Form { whitespace: options.whitespace, required_first: options.required_first };
    let mut unrolled = Unrolled::default();
    for _ in 0..MAX_ROUNDS {
        let mut builder = Builder::new(&mut schemas, &unrolled, form);
        let start = builder.nfa.state()?;
        let end = Lowering { builder: &mut builder, roots: roots.iter() }.lower(grammar, start)?;
        builder.nfa.accept(end, ROOT)?;
        builder.finish()?;
        match determinize(&builder.nfa, start, &budget) {
            Err(Stop::Error(error)) => return Err(error),
            Err(Stop::Unroll(calls)) => {
                let keys: Vec<_> =
                    calls.into_iter().map(|(body, min, max)| (builder.kind(body).clone(), min, max)).collect();
                let before = unrolled.len();
                unrolled.extend(keys.into_iter().map(|key| (key, ())));
                if unrolled.len() == before {
                    break;
                }
            }
            Ok(vpa) => {
                let raw_states = vpa.rows.len();
                let automaton = Automaton::new(&vpa, &budget)?;
                let report = Report {
                    states: automaton.states,
                    raw_states,
                    symbols: automaton.symbols,
                    classes: automaton.classes,
                    bytes: automaton.bytes(),
                    work: budget.spent(),
                    warnings: std::mem::take(&mut schemas.warnings),
                };
                return Ok((automaton, report));
            }
        }
    }
    Err(Error::new(ErrorKind::TooLarge, "too many alternatives of one place have different bounds"))
}

/// Takes in all schemas, in the order in which [`Lowering`] comes to them.
fn documents<'a>(
    grammar: &'a Grammar,
    schemas: &mut Schemas<'a>,
    roots: &mut Vec<SchemaId>,
    depth: usize,
) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(Error::new(ErrorKind::TooLarge, format!("more than {MAX_DEPTH} grammars inside each other")));
    }
    match &grammar.0 {
        Node::Schema(value) => roots.push(schemas.document(value)?),
        Node::Sequence(list) | Node::Union(list) => {
            list.iter().try_for_each(|g| documents(g, schemas, roots, depth + 1))?
        }
        Node::Repeat { item, .. } => documents(item, schemas, roots, depth + 1)?,
        Node::FreeText(list) => list.iter().try_for_each(|(_, g)| documents(g, schemas, roots, depth + 1))?,
        Node::Regex(_) | Node::Choices(_) | Node::Literal(_) | Node::FreeUntil(_) => {}
    }
    Ok(())
}

struct Lowering<'b, 's, 'a, I> {
    builder: &'b mut Builder<'s, 'a>,
    roots: I,
}

impl<'i, I: Iterator<Item = &'i SchemaId> + Clone> Lowering<'_, '_, '_, I> {
    fn lower(&mut self, grammar: &Grammar, from: StateId) -> Result<StateId> {
        match &grammar.0 {
            Node::Schema(_) => {
                let root =
                    *self.roots.next().ok_or_else(|| Error::new(ErrorKind::InvalidSchema, "a schema is missing"))?;
                self.builder.value(from, root)
            }
            Node::Regex(source) => {
                let dfa = regex::whole(source, &self.builder.schemas.budget.clone())
                    .map_err(|e| e.at((0, String::new()), "regex"))?;
                self.embed(from, &dfa)
            }
            Node::Choices(list) => {
                let dfa = Dfa::strings(list.iter().map(String::as_str), &self.builder.schemas.budget.clone())?;
                self.embed(from, &dfa)
            }
            Node::Literal(bytes) => self.literal(from, bytes),
            Node::Sequence(list) => list.iter().try_fold(from, |at, part| self.lower(part, at)),
            Node::Union(list) => {
                let end = self.builder.nfa.state()?;
                for part in list {
                    let at = self.lower(part, from)?;
                    self.builder.nfa.jump(at, end);
                }
                Ok(end)
            }
            Node::Repeat { item, separator, min, max } => self.repeat(from, item, separator, *min, *max),
            Node::FreeUntil(end) => {
                let exit = self.builder.nfa.state()?;
                let thought = free(&mut self.builder.nfa, &[end.as_slice()], &[exit])?;
                self.builder.nfa.jump(from, thought.start);
                Ok(exit)
            }
            Node::FreeText(list) => {
                let end = self.builder.nfa.state()?;
                let words: Vec<&[u8]> = list.iter().map(|(word, _)| word.as_slice()).collect();
                let entries = list.iter().map(|_| self.builder.nfa.state()).collect::<Result<Vec<_>>>()?;
                let text = free(&mut self.builder.nfa, &words, &entries)?;
                for &state in &text.ends {
                    self.builder.nfa.jump(state, end);
                }
                for ((_, then), entry) in list.iter().zip(entries) {
                    let at = self.lower(then, entry)?;
                    self.builder.nfa.jump(at, text.start);
                }
                self.builder.nfa.jump(from, text.start);
                Ok(end)
            }
        }
    }

    fn literal(&mut self, from: StateId, bytes: &[u8]) -> Result<StateId> {
        if !is_text(bytes) {
            return Err(Error::new(ErrorKind::InvalidSchema, "a literal that is neither text nor special tokens"));
        }
        self.builder.nfa.literal(from, bytes)
    }

    fn embed(&mut self, from: StateId, dfa: &Dfa) -> Result<StateId> {
        let end = self.builder.nfa.state()?;
        self.builder.embed(from, dfa, false, &mut |builder, state, _| {
            builder.nfa.jump(state, end);
            Ok(())
        })?;
        Ok(end)
    }

    /// The item's states come once for each count; its schemas are the same each time.
    fn repeat(
        &mut self,
        from: StateId,
        item: &Grammar,
        separator: &[u8],
        min: u32,
        max: Option<u32>,
    ) -> Result<StateId> {
        let roots = self.roots.clone();
        let end = self.builder.nfa.state()?;
        if min == 0 {
            self.builder.nfa.jump(from, end);
        }
        let counted = max.unwrap_or(min.max(1));
        let mut at = from;
        let mut behind = from;
        let budget = self.builder.schemas.budget.clone();
        for i in 0..counted {
            // An item may have no states.
            budget.spend(2)?;
            if i > 0 {
                at = self.literal(behind, separator)?;
            }
            self.roots = roots.clone();
            behind = self.lower(item, at)?;
            if i + 1 >= min {
                self.builder.nfa.jump(behind, end);
            }
        }
        if max.is_none() {
            let again = self.literal(behind, separator)?;
            self.roots = roots;
            let last = self.lower(item, again)?;
            self.builder.nfa.jump(last, behind);
        }
        if counted == 0 {
            documents_of(item, &mut self.roots);
        }
        Ok(end)
    }
}

/// Passes over the schemas of a grammar that is not used.
fn documents_of<'i>(grammar: &Grammar, roots: &mut impl Iterator<Item = &'i SchemaId>) {
    match &grammar.0 {
        Node::Schema(_) => drop(roots.next()),
        Node::Sequence(list) | Node::Union(list) => list.iter().for_each(|g| documents_of(g, roots)),
        Node::Repeat { item, .. } => documents_of(item, roots),
        Node::FreeText(list) => list.iter().for_each(|(_, g)| documents_of(g, roots)),
        Node::Regex(_) | Node::Choices(_) | Node::Literal(_) | Node::FreeUntil(_) => {}
    }
}
