//! Everything but a schema: `not`, the condition of `if`, and branches of `oneOf` that overlap.

use std::rc::Rc;

use super::flat::{ANY, Contains, Flat, Layer, NONE, Types};
use super::{LangId, SchemaId, Schemas};
use crate::decimal::Rule;
use crate::dfa::Dfa;
use crate::error::{Error, ErrorKind, Result};

impl Schemas<'_> {
    /// What none of the alternatives allows.
    pub(super) fn negate(&mut self, flats: &[Flat]) -> Result<Vec<Flat>> {
        let mut out = vec![Flat::of(Types::ALL)];
        for flat in flats {
            let opposite = self.opposite(flat)?;
            out = self.cross(&out, &opposite)?;
        }
        Ok(out)
    }

    /// Alternatives that each break one of the conditions; together they are all that breaks any.
    fn opposite(&mut self, flat: &Flat) -> Result<Vec<Flat>> {
        let mut out = Vec::new();
        let others = Types::ALL.without(flat.types);
        if others.0 != 0 {
            out.push(Flat::of(others));
        }
        if flat.types.has(Types::BOOLEAN) && flat.bools != 3 {
            more(&mut out, Types::BOOLEAN).bools = 3 & !flat.bools;
        }
        if flat.types.has(Types::NUMBER) {
            for rule in &flat.rules {
                more(&mut out, Types::NUMBER).rules.push(rule.negated());
            }
            if let Some(numbers) = &flat.numbers {
                let rules = numbers.iter().map(|n| Rule::Compare(n.clone(), [true, false, true]));
                more(&mut out, Types::NUMBER).rules.extend(rules);
            }
        }
        if flat.types.has(Types::STRING) {
            for &lang in &flat.langs {
                let lang = self.other_strings(lang)?;
                more(&mut out, Types::STRING).langs.push(lang);
            }
            for (min, max) in outside(flat.min_length, flat.max_length) {
                let other = more(&mut out, Types::STRING);
                (other.min_length, other.max_length) = (min, max);
            }
        }
        if flat.types.has(Types::ARRAY) {
            self.other_arrays(flat, &mut out)?;
        }
        if flat.types.has(Types::OBJECT) {
            self.other_objects(flat, &mut out)?;
        }
        Ok(out)
    }

    fn other_strings(&mut self, lang: LangId) -> Result<LangId> {
        let budget = self.budget.clone();
        let dfa = self.lang_of(lang).complement(&budget)?;
        Ok(self.lang(dfa))
    }

    fn other_arrays(&mut self, flat: &Flat, out: &mut Vec<Flat>) -> Result<()> {
        if flat.unique {
            return Err(refused("the opposite of `uniqueItems`"));
        }
        for (min, max) in outside(flat.min_items, flat.max_items) {
            let other = more(out, Types::ARRAY);
            (other.min_items, other.max_items) = (min, max);
        }
        for (i, &item) in flat.prefix.iter().enumerate().filter(|(_, item)| **item != ANY) {
            let other = more(out, Types::ARRAY);
            other.prefix.resize(i, ANY);
            other.prefix.push(self.not(item));
            other.min_items = i as u32 + 1;
        }
        if flat.items == NONE {
            more(out, Types::ARRAY).min_items = flat.prefix.len() as u32 + 1;
        } else if flat.items != ANY {
            if !flat.prefix.is_empty() {
                return Err(refused("the opposite of `items` behind `prefixItems`"));
            }
            let schema = self.not(flat.items);
            more(out, Types::ARRAY).contains.push(Contains { schema, min: 1, max: None });
        }
        for contains in &flat.contains {
            for (min, max) in outside(contains.min, contains.max) {
                let other = more(out, Types::ARRAY);
                match max {
                    Some(0) => other.items = self.not(contains.schema),
                    _ => other.contains.push(Contains { min, max, ..*contains }),
                }
            }
        }
        Ok(())
    }

    fn other_objects(&mut self, flat: &Flat, out: &mut Vec<Flat>) -> Result<()> {
        for (min, max) in outside(flat.min_properties, flat.max_properties) {
            let other = more(out, Types::OBJECT);
            (other.min_properties, other.max_properties) = (min, max);
        }
        for name in &flat.required {
            let mut absent = self.without(name);
            absent.types = Types::OBJECT;
            out.push(absent);
        }
        for &id in &flat.layers {
            let layer = self.layer_of(id).clone();
            if layer.unevaluated.is_some() {
                return Err(refused("the opposite of `unevaluatedProperties`"));
            }
            for other in self.others(&layer)? {
                more(out, Types::OBJECT).some.push(other);
            }
            for (name, schema) in layer.properties.iter().filter(|p| p.1 != ANY) {
                let not = self.not(*schema);
                let layer =
                    self.fresh_layer(Layer { properties: vec![(name.clone(), not)], silent: true, ..Layer::default() });
                let other = more(out, Types::OBJECT);
                other.required.push(Rc::clone(name));
                other.layers.push(layer);
            }
        }
        for &(lang, schema) in &flat.some {
            let not = self.not(schema);
            let layer = self.fresh_layer(Layer { patterns: vec![(lang, not)], silent: true, ..Layer::default() });
            more(out, Types::OBJECT).layers.push(layer);
        }
        Ok(())
    }

    /// Names that a layer does not list, and what the value of one of these has to be to break it.
    fn others(&mut self, layer: &Layer) -> Result<Vec<(LangId, SchemaId)>> {
        let mut out = Vec::new();
        if let Some(names) = layer.names {
            out.push((self.other_strings(names)?, ANY));
        }
        for &(lang, schema) in layer.patterns.iter().filter(|p| p.1 != ANY) {
            out.push((lang, self.not(schema)));
        }
        if layer.additional != ANY {
            let budget = self.budget.clone();
            let mut listed = Dfa::strings(layer.properties.iter().map(|p| &*p.0), &budget)?;
            for pattern in &layer.patterns {
                listed = Dfa::union(&[&listed, self.lang_of(pattern.0)], &budget)?;
            }
            let lang = self.lang(listed);
            out.push((self.other_strings(lang)?, self.not(layer.additional)));
        }
        Ok(out)
    }
}

/// One alternative more.
pub(super) fn more(out: &mut Vec<Flat>, types: Types) -> &mut Flat {
    out.push(Flat::of(types));
    let last = out.len() - 1;
    &mut out[last]
}

/// The ranges below and above a range of counts.
fn outside(min: u32, max: Option<u32>) -> impl Iterator<Item = (u32, Option<u32>)> {
    let below = (min > 0).then(|| (0, Some(min - 1)));
    below.into_iter().chain(max.map(|max| (max.saturating_add(1), None)))
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} cannot be told by an automaton"))
}
