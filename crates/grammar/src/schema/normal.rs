//! Schemas as alternatives: `$ref`, `allOf`, `anyOf`, `oneOf`, conditions and dependencies.

use std::rc::Rc;

use serde_json::{Map as Object, Value};

use super::flat::{ANY, Flat, LangId, Layer, LayerId, NONE, SchemaId, Types};
use super::keywords::{invalid, is_condition, is_union, list, members, strings, text, type_of};
use super::negate::more;
use super::{Node, Schemas};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;

/// Alternatives of one schema.
const MAX_ALTERNATIVES: usize = 600;
/// Combining schemas inside each other.
const MAX_DEPTH: usize = 120;
/// How deep members and items are looked at to see that nothing fits.
const LOOK: u32 = 3;

/// Keywords that combine schemas, in the order in which they are judged, and in which members come. `oneOf` is judged
/// beside all others.
const COMBINING: [&str; 14] = [
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "extends",
    "allOf",
    "anyOf",
    "if",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "type",
    "not",
    "disallow",
    "oneOf",
];

impl<'a> Schemas<'a> {
    /// The alternatives of a schema.
    ///
    /// # Errors
    /// `Unsupported`, `InvalidSchema`, `TooLarge`.
    pub fn normal(&mut self, id: SchemaId) -> Result<Rc<Vec<Flat>>> {
        if let Some(flats) = self.normals.get(&id) {
            return Ok(flats.clone());
        }
        if self.open.contains(&id) {
            return Err(self.place(invalid("it refers to itself without an object or an array between"), id, "$ref"));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("more than {MAX_DEPTH} schemas combine inside each other"),
            )
            .at(self.location(id), ""));
        }
        self.open.push(id);
        let flats = match self.nodes[id as usize].clone() {
            Node::Any => Ok(vec![Flat::of(Types::ALL)]),
            Node::None => Ok(Vec::new()),
            Node::Constant { value, .. } => self.constants(id, std::slice::from_ref(value)),
            Node::Made(flat) => Ok(vec![(*flat).clone()]),
            Node::All(parts) => parts.into_iter().try_fold(vec![Flat::of(Types::ALL)], |flats, part| {
                let more = self.normal(part)?;
                self.cross(&flats, &more)
            }),
            Node::Not(inner) => self.normal(inner).and_then(|flats| self.negate(&flats)),
            Node::Value { value: Value::Object(object), .. } => self.object(id, object),
            Node::Value { .. } => Err(self.place(invalid("a schema has to be an object, true or false"), id, "")),
        };
        self.open.pop();
        let flats = Rc::new(flats?);
        self.normals.insert(id, flats.clone());
        Ok(flats)
    }

    fn object(&mut self, id: SchemaId, object: &'a Object<String, Value>) -> Result<Vec<Flat>> {
        if let Some(reference) =
            object.get("$ref").filter(|_| self.documents[self.document_of(id) as usize].ref_alone())
        {
            for key in object.keys().filter(|key| is_condition(key)) {
                self.ignored(id, key, "before draft 2019-09 nothing beside `$ref` has an effect")?;
            }
            let target = self.reference(id, reference).map_err(|e| self.place(e, id, "$ref"))?;
            return Ok(self.normal(target)?.to_vec());
        }
        let mut base = vec![self.base(id, object)?];
        for key in ["const", "enum"] {
            let values = match object.get(key) {
                None => continue,
                Some(value) if key == "const" => std::slice::from_ref(value),
                Some(value) => list(value).map_err(|e| self.place(e, id, key))?,
            };
            let more = self.constants(id, values).map_err(|e| self.place(e, id, key))?;
            base = self.cross(&base, &more)?;
        }
        let mut own: Vec<LayerId> = Vec::new();
        for flat in &base {
            own.extend_from_slice(&flat.layers);
        }
        let mut flats = base;
        for key in COMBINING {
            if let Some(value) = object.get(key) {
                flats = self.applied(id, object, key, value, flats).map_err(|e| self.place(e, id, key))?;
            }
        }
        // The schema's own members come first, or last.
        for flat in &mut flats {
            let (mut first, mut last) = (Vec::new(), Vec::new());
            for &layer in &flat.turned {
                if own.contains(&layer) { last.push(layer) } else { first.push(layer) }
            }
            first.append(&mut last);
            flat.turned = first;
        }
        if object.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.unique(id, &mut flats)?;
        }
        if let Some(value) = object.get("unevaluatedProperties") {
            let schema = self.schema(value, id);
            for flat in &mut flats {
                let unevaluated = Some((flat.layers.clone(), schema));
                flat.layers.push(self.fresh_layer(Layer { unevaluated, ..Layer::default() }));
            }
        }
        if let Some(value) = object.get("unevaluatedItems") {
            let items = self.schema(value, id);
            flats = self.unevaluated_items(id, items, &flats)?;
        }
        Ok(flats)
    }

    fn unevaluated_items(&mut self, id: SchemaId, items: SchemaId, flats: &[Flat]) -> Result<Vec<Flat>> {
        let mut out = Vec::new();
        for flat in flats {
            if items != ANY && !flat.contains.is_empty() && flat.types.has(Types::ARRAY) {
                self.unsupported(id, "unevaluatedItems", "items that `contains` has found are not told from others")?;
                return Ok(flats.to_vec());
            }
            let seen = flat.seen_items;
            let rest = match seen {
                u32::MAX => Flat::of(Types::ALL),
                seen => Flat { prefix: vec![ANY; seen as usize], items, seen_items: u32::MAX, ..Flat::of(Types::ALL) },
            };
            out.extend(self.cross(std::slice::from_ref(flat), &[rest])?);
        }
        Ok(out)
    }

    /// The alternatives that are left after one keyword is applied.
    fn applied(
        &mut self,
        id: SchemaId,
        object: &'a Object<String, Value>,
        key: &str,
        value: &'a Value,
        flats: Vec<Flat>,
    ) -> Result<Vec<Flat>> {
        match key {
            "$ref" => {
                let target = self.reference(id, value)?;
                let more = self.normal(target)?;
                self.cross(&flats, &more)
            }
            "$dynamicRef" | "$recursiveRef" => {
                let document = &self.documents[self.document_of(id) as usize];
                let fixed = if key == "$dynamicRef" { document.is_static(text(value)?) } else { !document.recursive };
                if fixed {
                    return self.applied(id, object, "$ref", value, flats);
                }
                self.unsupported(id, key, "where it leads depends on the way to it")?;
                Ok(flats)
            }
            "allOf" => self.all_of(id, list(value)?, flats),
            "anyOf" => {
                let mut more = Vec::new();
                for part in list(value)? {
                    let part = self.schema(part, id);
                    more.extend(self.normal(part)?.iter().cloned());
                    self.check_count(more.len())?;
                }
                self.cross(&flats, &more)
            }
            "oneOf" => self.one_of(id, list(value)?, flats),
            "extends" if self.draft(id, 3) && !value.is_string() => {
                let parts = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                self.all_of(id, parts, flats)
            }
            "disallow" if self.draft(id, 3) => match self.union(id, value).and_then(|flats| self.negate(&flats)) {
                Ok(more) => self.cross(&flats, &more),
                Err(e) => self.dropped(id, key, e, flats),
            },
            "extends" | "disallow" => {
                self.ignored(id, key, "a keyword of draft 3")?;
                Ok(flats)
            }
            "type" if self.draft(id, 3) && is_union(value) => {
                let more = self.union(id, value)?;
                self.cross(&flats, &more)
            }
            "not" => {
                let part = self.schema(value, id);
                match self.not_normal(part) {
                    Ok(more) => self.cross(&flats, &more),
                    Err(e) => self.dropped(id, key, e, flats),
                }
            }
            "if" if object.contains_key("then") || object.contains_key("else") => {
                let mut branch = |k: &str| object.get(k).map_or(ANY, |v| self.schema(v, id));
                let (condition, then, other) = (branch("if"), branch("then"), branch("else"));
                let refused = match self.not_normal(condition) {
                    Ok(refused) => refused,
                    Err(e) => return self.dropped(id, key, e, flats),
                };
                let met = self.normal(condition)?;
                let (then, other) = (self.normal(then)?, self.normal(other)?);
                let mut more = self.cross(&met, &then)?;
                more.extend(self.cross(&refused, &other)?);
                self.cross(&flats, &more)
            }
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                let mut flats = flats;
                for (name, needed) in members(value)? {
                    flats = self.dependent(id, name, needed, flats)?;
                }
                Ok(flats)
            }
            _ => Ok(flats),
        }
    }

    fn all_of(&mut self, id: SchemaId, parts: &'a [Value], mut flats: Vec<Flat>) -> Result<Vec<Flat>> {
        for part in parts {
            let part = self.schema(part, id);
            let more = self.normal(part)?;
            flats = self.cross(&flats, &more)?;
        }
        Ok(flats)
    }

    /// Types and schemas any of which may hold: a form of draft 3.
    fn union(&mut self, id: SchemaId, value: &'a Value) -> Result<Vec<Flat>> {
        let mut out = Vec::new();
        for part in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
            if part.is_object() {
                let part = self.schema(part, id);
                out.extend(self.normal(part)?.iter().cloned());
            } else {
                let (types, rule) = type_of(part, true)?;
                more(&mut out, types).rules.extend(rule);
            }
        }
        Ok(out)
    }

    fn reference(&mut self, id: SchemaId, value: &'a Value) -> Result<SchemaId> {
        let Node::Value { document, value: from } = self.nodes[id as usize] else { return Ok(ANY) };
        let target = self.documents[document as usize].resolve(from, text(value)?)?;
        Ok(self.intern(target, document))
    }

    /// Either there is no such member, or there is and what it needs holds.
    fn dependent(&mut self, id: SchemaId, name: &str, needed: &'a Value, flats: Vec<Flat>) -> Result<Vec<Flat>> {
        let absent = self.without(name);
        let mut present = Flat::of(Types::OBJECT);
        present.required.push(Rc::from(name));
        let with = match needed {
            Value::Array(_) => {
                let mut names = strings(needed)?;
                names.retain(|n| **n != *name);
                present.required.append(&mut names);
                vec![present]
            }
            // A form of draft 3.
            Value::String(other) => {
                present.required.push(Rc::from(other.as_str()));
                vec![present]
            }
            _ => {
                let schema = self.schema(needed, id);
                let more = self.normal(schema)?;
                self.cross(&[present], &more)?
            }
        };
        let alternatives: Vec<Flat> = std::iter::once(absent).chain(with).collect();
        self.cross(&flats, &alternatives)
    }

    /// Any value but an object that has the member.
    pub(super) fn without(&mut self, name: &str) -> Flat {
        let mut absent = Flat::of(Types::ALL);
        absent.layers.push(self.fresh_layer(Layer {
            properties: vec![(Rc::from(name), NONE)],
            silent: true,
            ..Layer::default()
        }));
        absent
    }

    /// Each branch without what also fits another one.
    fn one_of(&mut self, id: SchemaId, parts: &'a [Value], flats: Vec<Flat>) -> Result<Vec<Flat>> {
        let mut branches = Vec::new();
        for part in parts {
            let part = self.schema(part, id);
            let own = self.normal(part)?;
            let here = self.cross(&flats, &own)?;
            branches.push((own, here));
        }
        let mut out = Vec::new();
        for i in 0..branches.len() {
            let mut own = branches[i].1.clone();
            for (j, (other, flats)) in branches.iter().enumerate() {
                if i == j || own.is_empty() || self.all_disjoint(&own, flats)? {
                    continue;
                }
                match self.negate(other) {
                    Ok(more) => own = self.cross(&own, &more)?,
                    Err(e) if e.kind() == ErrorKind::Unsupported => {
                        let reason = format!(
                            "branches {i} and {j} may overlap, and what they share cannot be told: {}",
                            e.reason()
                        );
                        self.unsupported(id, "oneOf", &reason)?;
                    }
                    Err(e) => return Err(e),
                }
                own = self.possible(own)?;
            }
            out.extend(own);
            self.check_count(out.len())?;
        }
        Ok(out)
    }

    /// Without what plainly nothing fits.
    fn possible(&mut self, flats: Vec<Flat>) -> Result<Vec<Flat>> {
        let mut out = Vec::with_capacity(flats.len());
        for flat in flats {
            self.budget.spend(8)?;
            if !self.is_empty(&flat, LOOK)? {
                out.push(flat);
            }
        }
        Ok(out)
    }

    pub(super) fn all_disjoint(&mut self, a: &[Flat], b: &[Flat]) -> Result<bool> {
        for x in a {
            for y in b {
                self.budget.spend(8)?;
                if !self.disjoint(x, y, LOOK)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn disjoint(&mut self, a: &Flat, b: &Flat, depth: u32) -> Result<bool> {
        match a.meet(b, |x, y| self.both(x, y)) {
            None => Ok(true),
            Some(meet) => self.is_empty(&meet, depth),
        }
    }

    /// Whether plainly nothing fits. False is no proof of the contrary.
    pub(super) fn is_empty(&mut self, flat: &Flat, depth: u32) -> Result<bool> {
        for t in Types::EACH.into_iter().filter(|t| flat.types.has(*t)) {
            let empty = match t {
                Types::BOOLEAN => flat.bools == 0,
                Types::NUMBER => self.no_number(flat)?,
                Types::STRING if flat.langs.is_empty() => flat.max_length.is_some_and(|max| max < flat.min_length),
                Types::STRING => self.string(flat)?.is_empty(),
                Types::ARRAY => self.no_array(flat, depth)?,
                Types::OBJECT => self.no_object(flat, depth)?,
                _ => false,
            };
            if !empty {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn no_number(&mut self, flat: &Flat) -> Result<bool> {
        if flat.rules.is_empty() {
            return Ok(flat.numbers.as_ref().is_some_and(|n| n.is_empty()));
        }
        let language = self.number(&flat.rules)?;
        Ok(match &flat.numbers {
            Some(numbers) => !numbers.iter().any(|n| language.accepts(&n.text())),
            None => language.is_empty(),
        })
    }

    fn no_array(&mut self, flat: &Flat, depth: u32) -> Result<bool> {
        let never = |min, max: Option<u32>| max.is_some_and(|max| max < min);
        if never(flat.min_items, flat.max_items)
            || flat.contains.iter().any(|c| never(c.min, c.max) || never(c.min, flat.max_items))
        {
            return Ok(true);
        }
        for i in 0..(flat.min_items as usize).min(flat.prefix.len() + 1) {
            let item = flat.prefix.get(i).copied().unwrap_or(flat.items);
            if self.nothing(item, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn no_object(&mut self, flat: &Flat, depth: u32) -> Result<bool> {
        if flat.max_properties.is_some_and(|max| max < flat.min_properties || (max as usize) < flat.required.len()) {
            return Ok(true);
        }
        for name in &flat.required {
            let schema = self.member(&flat.layers, name);
            if self.nothing(schema, depth)? {
                return Ok(true);
            }
        }
        for &(lang, schema) in &flat.some {
            if self.no_witness(flat, lang, schema, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether all members are listed, and none of them can be the one that has to be there.
    fn no_witness(&mut self, flat: &Flat, lang: LangId, schema: SchemaId, depth: u32) -> Result<bool> {
        let closed = flat
            .layers
            .iter()
            .map(|&id| self.layer_of(id))
            .find(|layer| layer.additional == NONE && layer.patterns.is_empty());
        let Some(listed) = closed.map(|layer| layer.properties.iter().map(|p| p.0.clone()).collect::<Vec<_>>()) else {
            return Ok(false);
        };
        for name in listed {
            self.budget.spend(name.len())?;
            if self.lang_of(lang).accepts(&name) {
                let member = self.member(&flat.layers, &name);
                let member = self.both(member, schema);
                if !self.nothing(member, depth)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Whether plainly nothing satisfies a schema inside another.
    fn nothing(&mut self, id: SchemaId, depth: u32) -> Result<bool> {
        if id == ANY || id == NONE || depth == 0 {
            return Ok(id == NONE);
        }
        let Some(flats) = self.looked(id)? else { return Ok(false) };
        for flat in flats.iter() {
            self.budget.spend(4)?;
            if !self.is_empty(flat, depth - 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The alternatives of a schema inside another. One that comes back to itself is not looked into: what it is to
    /// others is not settled yet.
    pub(super) fn looked(&mut self, id: SchemaId) -> Result<Option<Rc<Vec<Flat>>>> {
        if self.open.contains(&id) || self.open.len() > MAX_DEPTH / 2 {
            return Ok(None);
        }
        let before = self.open.clone();
        match self.normal(id) {
            Err(e) if e.kind() == ErrorKind::InvalidSchema && e.keyword() == "$ref" => {
                self.open = before;
                Ok(None)
            }
            flats => flats.map(Some),
        }
    }

    pub(super) fn cross(&mut self, a: &[Flat], b: &[Flat]) -> Result<Vec<Flat>> {
        if let [only] = a
            && only.is_any()
        {
            return Ok(b.to_vec());
        }
        let mut out: Vec<Flat> = Vec::new();
        let mut seen: Map<Flat, ()> = Map::default();
        let many = a.len() * b.len() > 16;
        for x in a {
            for y in b {
                self.budget.spend(8 + x.layers.len() + y.layers.len() + x.required.len() + y.required.len())?;
                let Some(meet) = x.meet(y, |p, q| self.both(p, q)) else { continue };
                // Where alternatives multiply, those that plainly never hold go at once.
                if many && self.is_empty(&meet, 2)? {
                    continue;
                }
                self.budget.spend(16 + 4 * (meet.layers.len() + meet.required.len() + meet.prefix.len()))?;
                if seen.insert(meet.clone(), ()).is_none() {
                    out.push(meet);
                }
                self.check_count(out.len())?;
            }
        }
        Ok(out)
    }

    fn check_count(&self, alternatives: usize) -> Result<()> {
        if alternatives > MAX_ALTERNATIVES {
            return Err(Error::new(ErrorKind::TooLarge, format!("it has more than {MAX_ALTERNATIVES} alternatives")));
        }
        Ok(())
    }

    /// The alternatives of everything but a schema.
    fn not_normal(&mut self, id: SchemaId) -> Result<Vec<Flat>> {
        let not = self.not(id);
        Ok(self.normal(not)?.to_vec())
    }

    /// A keyword that is left out where the caller is lenient.
    fn dropped(&mut self, id: SchemaId, keyword: &str, error: Error, flats: Vec<Flat>) -> Result<Vec<Flat>> {
        if error.kind() != ErrorKind::Unsupported || !self.lenient {
            return Err(error);
        }
        self.unsupported(id, keyword, error.reason())?;
        Ok(flats)
    }
}
