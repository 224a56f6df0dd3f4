//! Whether a finished text satisfies a schema. An automaton forces one order of an object's keys; a text that is only
//! judged may have them in any, and its numbers, escapes and white space in every way that JSON has.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::automaton::Automaton;
use crate::budget::Budget;
use crate::compile::{Options, Report, compile};
use crate::decimal::{Decimal, Rule};
use crate::error::Result;
use crate::grammar::{Grammar, Node};
use crate::hash::Map;
use crate::schema::{ANY, Contains, Flat, NONE, SchemaId, Schemas, Types};
use crate::walk::Walk;

/// Arrays and objects inside each other; a deeper text is accepted only where the automaton accepts it.
const MAX_DEPTH: u32 = 200;
/// The largest exponent of a number: those of doubles end before.
const MAX_EXPONENT: u64 = 400;

const INTEGER: Rule = Rule::Integer(true);

/// Judges finished texts by a grammar.
///
/// A text is accepted where the automaton accepts it, and, of a grammar that is a schema alone, where it is JSON that
/// satisfies the schema as far as this is enforced: what the [`Report`] warns of has no effect here either. An object
/// in which a key comes twice is not accepted by the schema.
///
/// ```
/// use millrace_grammar::{Grammar, Judge, Options};
///
/// let schema = r#"{ "type": "object", "properties": { "a": { "type": "integer" }, "b": {} }, "required": ["a"] }"#;
/// let judge = Judge::new(Grammar::json_schema(schema)?, &Options::default())?;
/// assert!(judge.accepts(br#"{"b": 2, "a": 1}"#)?);
/// assert!(!judge.accepts(br#"{"b": 2, "a": "x"}"#)?);
/// # Ok::<(), millrace_grammar::Error>(())
/// ```
#[derive(Debug)]
pub struct Judge {
    grammar: Grammar,
    options: Options,
    automaton: Automaton,
    report: Report,
}

impl Judge {
    /// Compiles a grammar.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn new(grammar: Grammar, options: &Options) -> Result<Self> {
        let (automaton, report) = compile(&grammar, options)?;
        Ok(Self { grammar, options: *options, automaton, report })
    }

    /// The automaton that forces an answer.
    pub fn automaton(&self) -> &Automaton {
        &self.automaton
    }

    /// What became of the grammar.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Whether a text is one of the grammar's.
    ///
    /// # Errors
    /// `TooLarge` where judging it takes more steps than [`Limits::work`](crate::Limits::work).
    pub fn accepts(&self, text: &[u8]) -> Result<bool> {
        let mut walk = Walk::new(&self.automaton);
        if text.iter().all(|&byte| walk.advance(&self.automaton, byte)) && walk.accepting(&self.automaton) {
            return Ok(true);
        }
        let (Node::Schema(schema), Some(value)) = (&self.grammar.0, read(text)) else { return Ok(false) };
        let mut schemas = Schemas::new(Rc::new(Budget::new(self.options.limits)), self.options.lenient);
        let root = schemas.document(schema)?;
        Validator { schemas, known: Map::default() }.holds(root, &value)
    }
}

/// A JSON text that has been read. Members are sorted, so that equal values are equal.
#[derive(Debug, PartialEq)]
enum Json {
    Null,
    Bool(bool),
    Number(Decimal, Form),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

/// Whether a number is written without a fraction and an exponent. Numbers are equal whatever their form.
#[derive(Debug)]
struct Form(bool);

impl PartialEq for Form {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The value of a text; none where it is no JSON, nests too deeply or has a key twice.
fn read(text: &[u8]) -> Option<Json> {
    let mut reader = Reader { text: std::str::from_utf8(text).ok()?, at: 0 };
    // As with an automaton, white space stands neither before nor behind a text.
    let value = reader.peek().is_some_and(|b| !is_space(b)).then(|| reader.value(MAX_DEPTH))??;
    (reader.at == text.len()).then_some(value)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, skipped: impl Fn(u8) -> bool) -> usize {
        let from = self.at;
        while self.peek().is_some_and(&skipped) {
            self.at += 1;
        }
        self.at - from
    }

    /// Passes over white space and a token, where it stands there.
    fn eat(&mut self, token: &str) -> bool {
        self.skip(is_space);
        let stands = self.text.as_bytes()[self.at..].starts_with(token.as_bytes());
        self.at += if stands { token.len() } else { 0 };
        stands
    }

    fn value(&mut self, depth: u32) -> Option<Json> {
        if self.eat("null") {
            return Some(Json::Null);
        }
        for bool in [false, true] {
            if self.eat(if bool { "true" } else { "false" }) {
                return Some(Json::Bool(bool));
            }
        }
        match self.peek()? {
            b'"' => self.string().map(Json::Text),
            b'[' => {
                let mut list = Vec::new();
                self.entries("]", &mut |reader| {
                    list.push(reader.value(depth.checked_sub(1)?)?);
                    Some(())
                })?;
                Some(Json::List(list))
            }
            b'{' => {
                let mut members = BTreeMap::new();
                self.entries("}", &mut |reader| {
                    reader.skip(is_space);
                    let name = reader.string()?;
                    let value = reader.eat(":").then(|| reader.value(depth.checked_sub(1)?))??;
                    members.insert(name, value).is_none().then_some(())
                })?;
                Some(Json::Object(members))
            }
            _ => self.number(),
        }
    }

    /// What stands between an opening byte and `close`, with commas between.
    fn entries(&mut self, close: &str, entry: &mut dyn FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.at += 1;
        if self.eat(close) {
            return Some(());
        }
        loop {
            entry(self)?;
            if self.eat(close) {
                return Some(());
            }
            if !self.eat(",") {
                return None;
            }
        }
    }

    fn string(&mut self) -> Option<String> {
        let from = self.at;
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            self.skip(|b| b != b'"' && b != b'\\');
            let quote = self.peek()? == b'"';
            self.at += if quote { 1 } else { 2 };
            if quote {
                return serde_json::from_str(self.text.get(from..self.at)?).ok();
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let from = self.at;
        let digits = |reader: &mut Self| Some(reader.skip(|b| b.is_ascii_digit())).filter(|&n| n > 0);
        self.skip_one(b"-");
        let zero = self.peek()? == b'0';
        if digits(self)? > 1 && zero {
            return None;
        }
        let mut plain = true;
        if self.skip_one(b".") {
            plain = false;
            digits(self)?;
        }
        if self.skip_one(b"eE") {
            plain = false;
            self.skip_one(b"+-");
            let n = digits(self)?;
            let exponent: u64 = self.text[self.at - n..self.at].parse().ok()?;
            if exponent > MAX_EXPONENT {
                return None;
            }
        }
        Some(Json::Number(Decimal::read(&self.text[from..self.at]), Form(plain)))
    }

    fn skip_one(&mut self, bytes: &[u8]) -> bool {
        let skipped = self.peek().is_some_and(|b| bytes.contains(&b));
        self.at += usize::from(skipped);
        skipped
    }
}

struct Validator<'a> {
    schemas: Schemas<'a>,
    /// By schema and address of the value, which does not move.
    known: Map<(SchemaId, usize), bool>,
}

impl Validator<'_> {
    fn holds(&mut self, schema: SchemaId, value: &Json) -> Result<bool> {
        if schema == ANY || schema == NONE {
            return Ok(schema == ANY);
        }
        let key = (schema, std::ptr::from_ref(value) as usize);
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let mut holds = false;
        for flat in self.schemas.normal(schema)?.iter() {
            self.schemas.budget.spend(4)?;
            if self.fits(flat, value)? {
                holds = true;
                break;
            }
        }
        self.known.insert(key, holds);
        Ok(holds)
    }

    /// Whether a value keeps all conditions of a conjunction.
    fn fits(&mut self, flat: &Flat, value: &Json) -> Result<bool> {
        let has = |types: Types| flat.types.has(types);
        match value {
            Json::Null => Ok(has(Types::NULL)),
            Json::Bool(bool) => Ok(has(Types::BOOLEAN) && flat.bools >> u8::from(*bool) & 1 == 1),
            Json::Number(_, Form(false)) if self.schemas.integers_are_plain() && flat.rules.contains(&INTEGER) => {
                Ok(false)
            }
            Json::Number(number, _) => {
                let listed = flat.numbers.as_ref().is_none_or(|numbers| numbers.contains(number));
                if !has(Types::NUMBER) || !listed || flat.rules.is_empty() {
                    return Ok(has(Types::NUMBER) && listed);
                }
                Ok(self.schemas.number(&flat.rules)?.accepts(&number.text()))
            }
            Json::Text(text) if has(Types::STRING) => {
                if !flat.langs.is_empty() {
                    return Ok(self.schemas.string(flat)?.accepts(text));
                }
                let n = text.chars().count();
                Ok(within(n, flat.min_length, flat.max_length))
            }
            Json::List(list) if has(Types::ARRAY) => self.fits_list(flat, list),
            Json::Object(members) if has(Types::OBJECT) => self.fits_object(flat, members),
            Json::Text(_) | Json::List(_) | Json::Object(_) => Ok(false),
        }
    }

    fn fits_list(&mut self, flat: &Flat, list: &[Json]) -> Result<bool> {
        if !within(list.len(), flat.min_items, flat.max_items) {
            return Ok(false);
        }
        for (i, item) in list.iter().enumerate() {
            if !self.holds(flat.prefix.get(i).copied().unwrap_or(flat.items), item)? {
                return Ok(false);
            }
        }
        for &Contains { schema, min, max } in &flat.contains {
            let mut matches = 0;
            for item in list {
                matches += usize::from(self.holds(schema, item)?);
            }
            if !within(matches, min, max) {
                return Ok(false);
            }
        }
        if flat.unique {
            for (i, item) in list.iter().enumerate() {
                self.schemas.budget.spend(i)?;
                if list[..i].contains(item) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn fits_object(&mut self, flat: &Flat, members: &BTreeMap<String, Json>) -> Result<bool> {
        if !within(members.len(), flat.min_properties, flat.max_properties)
            || !flat.required.iter().all(|name| members.contains_key(&**name))
        {
            return Ok(false);
        }
        for (name, value) in members {
            self.schemas.budget.spend(name.len() + flat.layers.len())?;
            let schema = self.schemas.member(&flat.layers, name);
            if !self.holds(schema, value)? {
                return Ok(false);
            }
        }
        for &(lang, schema) in &flat.some {
            let mut found = false;
            for (name, value) in members {
                found = found || (self.schemas.lang_of(lang).accepts(name) && self.holds(schema, value)?);
            }
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn within(n: usize, min: u32, max: Option<u32>) -> bool {
    n >= min as usize && max.is_none_or(|max| n <= max as usize)
}
