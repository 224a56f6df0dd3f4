//! Schemas as alternatives: `$ref`, `allOf`, `anyOf`, `oneOf`, conditions and dependencies.

use std::rc::Rc;

use serde_json::{Map as Object, Value};

use super::flat::{ANY, Flat, Layer, NONE, SchemaId, Types, merged};
use super::keywords::{invalid, list, members, strings, text};
use super::{Node, Schemas};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;

/// Alternatives of one schema.
const MAX_ALTERNATIVES: usize = 600;
/// Schemas whose alternatives wait for each other.
const MAX_DEPTH: usize = 120;
/// How deep members and items are looked at to see that nothing fits.
const LOOK: u32 = 3;

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
            return Err(Error::new(ErrorKind::TooLarge, format!("more than {MAX_DEPTH} schemas combine inside each other")).at(self.location(id), ""));
        }
        self.open.push(id);
        let flats = match self.nodes[id as usize].clone() {
            Node::Any => Ok(vec![Flat::of(Types::ALL)]),
            Node::None => Ok(Vec::new()),
            Node::Constant { value, .. } => self.constants(id, std::slice::from_ref(value)),
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
        if let Some(reference) = object.get("$ref").filter(|_| self.documents[self.document_of(id) as usize].ref_alone) {
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
        // Members come in the order in which the schema comes to them: what stands before `properties` names its own first.
        let own = object.keys().position(|key| matches!(key.as_str(), "properties" | "required")).unwrap_or(0);
        let mut flats = vec![Flat::of(Types::ALL)];
        for (i, (key, value)) in object.iter().enumerate() {
            if i == own {
                flats = self.cross(&flats, &base)?;
                if let [base] = &base[..] {
                    flats.iter_mut().for_each(|flat| flat.required = merged(&base.required, &flat.required));
                }
            }
            flats = self.applied(id, object, key, value, flats).map_err(|e| self.place(e, id, key))?;
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

    /// The alternatives that are left when one keyword has its say.
    fn applied(&mut self, id: SchemaId, object: &'a Object<String, Value>, key: &str, value: &'a Value, flats: Vec<Flat>) -> Result<Vec<Flat>> {
        match key {
            "$ref" => {
                let target = self.reference(id, value)?;
                let more = self.normal(target)?;
                self.cross(&flats, &more)
            }
            "allOf" => {
                let mut flats = flats;
                for part in list(value)? {
                    let part = self.schema(part, id);
                    let more = self.normal(part)?;
                    flats = self.cross(&flats, &more)?;
                }
                Ok(flats)
            }
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
        absent.layers.push(self.fresh_layer(Layer { properties: vec![(Rc::from(name), NONE)], silent: true, ..Layer::default() }));
        absent
    }

    /// Each branch without what also fits another one.
    fn one_of(&mut self, id: SchemaId, parts: &'a [Value], flats: Vec<Flat>) -> Result<Vec<Flat>> {
        let mut branches = Vec::new();
        for part in parts {
            let part = self.schema(part, id);
            let own = self.normal(part)?;
            branches.push((part, self.cross(&flats, &own)?));
        }
        let mut out = Vec::new();
        for i in 0..branches.len() {
            let mut own = branches[i].1.clone();
            for (j, (other, flats)) in branches.iter().enumerate() {
                if i == j || own.is_empty() || self.all_disjoint(&own, flats)? {
                    continue;
                }
                match self.not_normal(*other) {
                    Ok(more) => own = self.cross(&own, &more)?,
                    Err(e) if e.kind() == ErrorKind::Unsupported => {
                        let reason = format!("branches {i} and {j} may overlap, and what they share cannot be told: {}", e.reason());
                        self.unsupported(id, "oneOf", &reason)?;
                    }
                    Err(e) => return Err(e),
                }
            }
            out.extend(own);
            self.check_count(out.len())?;
        }
        Ok(out)
    }

    fn all_disjoint(&mut self, a: &[Flat], b: &[Flat]) -> Result<bool> {
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
        if flat.max_items.is_some_and(|max| max < flat.min_items) {
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
        Ok(false)
    }

    /// Whether plainly nothing satisfies a schema inside another.
    fn nothing(&mut self, id: SchemaId, depth: u32) -> Result<bool> {
        if id == ANY || depth == 0 || self.open.contains(&id) || self.open.len() > MAX_DEPTH / 2 {
            return Ok(id == NONE);
        }
        // A schema that comes back to itself is not looked into: what it is to others is not settled yet.
        let before = self.open.clone();
        let flats = match self.normal(id) {
            Err(e) if e.kind() == ErrorKind::InvalidSchema && e.keyword() == "$ref" => {
                self.open = before;
                return Ok(false);
            }
            flats => flats?,
        };
        for flat in flats.iter() {
            self.budget.spend(4)?;
            if !self.is_empty(flat, depth - 1)? {
                return Ok(false);
            }
        }
        Ok(true)
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
