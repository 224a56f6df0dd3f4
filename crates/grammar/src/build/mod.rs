//! From conjunctions of conditions to states: values, strings, arrays, objects.

mod array;
mod object;
mod string;

use std::rc::Rc;

use crate::budget::Budget;
use crate::chars::CharSet;
use crate::decimal;
use crate::dfa::Dfa;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;
use crate::nfa::{Body, BodyId, Effect, Nfa, StateId, UNBOUNDED};
use crate::schema::{Flat, SchemaId, Schemas, Types};
use array::{ArrayBody, UniqueBody};
use object::ObjectBody;

/// What stands between an opening byte and its closing one. Equal kinds are one body, shared by all that call it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Any characters; each is counted where the caller bounds them.
    AnyString {
        counted: bool,
    },
    String(Rc<Dfa>),
    /// Characters of a set, each of which is counted.
    Class(Rc<CharSet>),
    Array(ArrayBody),
    Unique(UniqueBody),
    Object(ObjectBody),
}

impl Kind {
    fn bytes(&self) -> (u8, u8) {
        match self {
            Self::AnyString { .. } | Self::String(_) | Self::Class(_) => (b'"', b'"'),
            Self::Array(_) | Self::Unique(_) => (b'[', b']'),
            Self::Object(_) => (b'{', b'}'),
        }
    }
}

/// Calls whose bounds differ from those of others at the same place: their counters become states.
pub(crate) type Unrolled = Map<(Kind, u32, u32), ()>;

/// The body that is called, and the bounds of its counter.
pub(crate) type Callee = (Kind, (u32, u32));

/// A numbered body, and the bounds of its counter.
type Bounded = (BodyId, (u32, u32));

/// How JSON may be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub whitespace: bool,
    pub required_first: bool,
}

pub(crate) struct Builder<'s, 'a> {
    pub nfa: Nfa,
    pub schemas: &'s mut Schemas<'a>,
    budget: Rc<Budget>,
    kinds: Vec<Kind>,
    ids: Map<Kind, BodyId>,
    built: usize,
    /// What arrays and objects of a schema's alternatives call: many values have one schema.
    callees: Map<(SchemaId, usize, bool), Option<Bounded>>,
    /// Ends of characters: their bytes, and where they lead.
    tails: Map<(u128, StateId), StateId>,
    unrolled: &'s Unrolled,
    form: Form,
}

impl<'s, 'a> Builder<'s, 'a> {
    pub fn new(schemas: &'s mut Schemas<'a>, unrolled: &'s Unrolled, form: Form) -> Self {
        let budget = schemas.budget.clone();
        let nfa = Nfa::new(budget.clone());
        Self {
            nfa,
            schemas,
            budget,
            kinds: Vec::new(),
            ids: Map::default(),
            built: 0,
            callees: Map::default(),
            tails: Map::default(),
            unrolled,
            form,
        }
    }

    pub fn kind(&self, body: BodyId) -> &Kind {
        &self.kinds[body as usize]
    }

    /// Builds the bodies that have been called so far, and those that they call.
    pub fn finish(&mut self) -> Result<()> {
        while self.built < self.kinds.len() {
            let id = self.built as BodyId;
            self.built += 1;
            let start = self.nfa.bodies[id as usize].start;
            let end = match self.kinds[id as usize].clone() {
                Kind::AnyString { counted } => self.any_string(start, counted)?,
                Kind::String(dfa) => self.string_body(start, &dfa)?,
                Kind::Class(set) => self.class_body(start, &set)?,
                Kind::Array(array) => self.array_body(start, &array)?,
                Kind::Unique(array) => self.unique_body(start, &array)?,
                Kind::Object(object) => self.object_body(start, &object)?,
            };
            self.nfa.accept(end, id)?;
        }
        Ok(())
    }

    fn body(&mut self, kind: Kind) -> Result<BodyId> {
        if let Some(&id) = self.ids.get(&kind) {
            return Ok(id);
        }
        self.budget.spend(16)?;
        let start = self.nfa.state()?;
        let id = self.kinds.len() as BodyId;
        self.nfa.bodies.push(Body { close: kind.bytes().1, start });
        self.kinds.push(kind.clone());
        self.ids.insert(kind, id);
        Ok(id)
    }

    /// Calls a body whose counter ends between `min` and `max`.
    fn call(&mut self, from: StateId, kind: Kind, (min, max): (u32, u32), to: StateId) -> Result<()> {
        let open = kind.bytes().0;
        let (body, bounds) = self.callee((kind, (min, max)))?;
        self.nfa.call(from, open, body, bounds, to);
        Ok(())
    }

    fn callee(&mut self, (kind, (min, max)): Callee) -> Result<Bounded> {
        let unroll = (min, max) != (0, UNBOUNDED) && self.unrolled.contains_key(&(kind.clone(), min, max));
        let (kind, bounds) = if unroll { (self.unroll(kind, min, max)?, (0, UNBOUNDED)) } else { (kind, (min, max)) };
        Ok((self.body(kind)?, bounds))
    }

    /// Calls an array or an object of a schema's alternative.
    fn container(
        &mut self,
        from: StateId,
        flat: &Flat,
        (schema, alternative, object): (SchemaId, usize, bool),
        end: StateId,
    ) -> Result<()> {
        let key = (schema, alternative, object);
        let known = match self.callees.get(&key) {
            Some(&known) => known,
            None => {
                let made = if object { self.object(flat)? } else { self.array(flat)? };
                let made = made.map(|made| self.callee(made)).transpose()?;
                self.callees.insert(key, made);
                made
            }
        };
        if let Some((body, bounds)) = known {
            self.nfa.call(from, if object { b'{' } else { b'[' }, body, bounds, end);
        }
        Ok(())
    }

    /// The language of `kind` with between `min` and `max` counted by states instead of a counter.
    fn unroll(&mut self, kind: Kind, min: u32, max: u32) -> Result<Kind> {
        let max = (max != UNBOUNDED).then_some(max);
        if let Kind::Class(set) = kind {
            return Ok(Kind::String(Rc::new(Dfa::repeated(&set, min, max, &self.budget)?)));
        }
        if max.unwrap_or(min) > 1000 {
            return Err(Error::new(
                ErrorKind::TooLarge,
                "alternatives of one place have different bounds, and these are above 1,000",
            ));
        }
        Ok(match kind {
            Kind::AnyString { .. } => Kind::String(Rc::new(Dfa::lengths(min, max, &self.budget)?)),
            Kind::Array(array) => Kind::Array(array.unrolled(min, max)),
            Kind::Object(object) => Kind::Object(object.unrolled(min, max)),
            kind @ (Kind::String(_) | Kind::Class(_) | Kind::Unique(_)) => kind,
        })
    }

    /// White space as JSON has it, or none.
    pub fn space(&mut self, from: StateId) -> Result<StateId> {
        if !self.form.whitespace {
            return Ok(from);
        }
        let at = self.nfa.state()?;
        self.nfa.jump(from, at);
        for b in [b' ', b'\t', b'\n', b'\r'] {
            self.nfa.edge(at, b, b, Effect::Space, at);
        }
        Ok(at)
    }

    /// Any value of a schema; returns where it ends.
    pub fn value(&mut self, from: StateId, schema: SchemaId) -> Result<StateId> {
        let end = self.nfa.state()?;
        for (i, flat) in self.schemas.normal(schema)?.iter().enumerate() {
            self.flat(from, flat, (schema, i), end)?;
        }
        Ok(end)
    }

    fn flat(
        &mut self,
        from: StateId,
        flat: &Flat,
        (schema, alternative): (SchemaId, usize),
        end: StateId,
    ) -> Result<()> {
        let mut literal = |text: &str| -> Result<()> {
            let at = self.nfa.literal(from, text.as_bytes())?;
            self.nfa.jump(at, end);
            Ok(())
        };
        if flat.types.has(Types::NULL) {
            literal("null")?;
        }
        for (bit, text) in [(1, "false"), (2, "true")] {
            if flat.types.has(Types::BOOLEAN) && flat.bools & bit != 0 {
                literal(text)?;
            }
        }
        if flat.types.has(Types::NUMBER) {
            self.number(from, flat, end)?;
        }
        if flat.types.has(Types::STRING) {
            self.string(from, flat, end)?;
        }
        if flat.types.has(Types::ARRAY) {
            self.container(from, flat, (schema, alternative, false), end)?;
        }
        if flat.types.has(Types::OBJECT) {
            self.container(from, flat, (schema, alternative, true), end)?;
        }
        Ok(())
    }

    fn number(&mut self, from: StateId, flat: &Flat, end: StateId) -> Result<()> {
        let language = self.schemas.number(&flat.rules)?;
        match &flat.numbers {
            None => self.embed(from, &language, false, &mut |builder, state, _| {
                builder.nfa.jump(state, end);
                Ok(())
            })?,
            Some(numbers) => {
                for text in numbers.iter().map(decimal::Decimal::text).filter(|text| language.accepts(text)) {
                    let at = self.nfa.literal(from, text.as_bytes())?;
                    self.nfa.jump(at, end);
                }
            }
        }
        Ok(())
    }
}
