//! Everything but a schema: `not`, the condition of `if`, and branches of `oneOf` that overlap.

use std::rc::Rc;

use super::flat::{ANY, Flat, Layer, NONE, Types};
use super::{LangId, Schemas};
use crate::decimal::Rule;
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
            out.push(Flat { bools: 3 & !flat.bools, ..Flat::of(Types::BOOLEAN) });
        }
        if flat.types.has(Types::NUMBER) {
            out.extend(flat.rules.iter().map(|rule| Flat { rules: vec![rule.negated()], ..Flat::of(Types::NUMBER) }));
            if let Some(numbers) = &flat.numbers {
                let rules = numbers.iter().map(|n| Rule::Compare(n.clone(), [true, false, true])).collect();
                out.push(Flat { rules, ..Flat::of(Types::NUMBER) });
            }
        }
        if flat.types.has(Types::STRING) {
            for &lang in &flat.langs {
                let lang = self.other_strings(lang)?;
                out.push(Flat { langs: vec![lang], ..Flat::of(Types::STRING) });
            }
            out.extend(outside(flat.min_length, flat.max_length).map(|(min_length, max_length)| Flat { min_length, max_length, ..Flat::of(Types::STRING) }));
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
        out.extend(outside(flat.min_items, flat.max_items).map(|(min_items, max_items)| Flat { min_items, max_items, ..Flat::of(Types::ARRAY) }));
        for (i, &item) in flat.prefix.iter().enumerate().filter(|(_, item)| **item != ANY) {
            let mut prefix = vec![ANY; i];
            prefix.push(self.not(item));
            out.push(Flat { prefix, min_items: i as u32 + 1, ..Flat::of(Types::ARRAY) });
        }
        if flat.items == NONE {
            out.push(Flat { min_items: flat.prefix.len() as u32 + 1, ..Flat::of(Types::ARRAY) });
        } else if flat.items != ANY {
            if !flat.prefix.is_empty() {
                return Err(refused("the opposite of `items` behind `prefixItems`"));
            }
            let not = self.not(flat.items);
            out.push(Flat { contains: vec![not], ..Flat::of(Types::ARRAY) });
        }
        for &item in &flat.contains {
            let items = self.not(item);
            out.push(Flat { items, ..Flat::of(Types::ARRAY) });
        }
        Ok(())
    }

    fn other_objects(&mut self, flat: &Flat, out: &mut Vec<Flat>) -> Result<()> {
        out.extend(outside(flat.min_properties, flat.max_properties).map(|(min_properties, max_properties)| Flat {
            min_properties,
            max_properties,
            ..Flat::of(Types::OBJECT)
        }));
        for name in &flat.required {
            let absent = self.without(name);
            out.push(Flat { types: Types::OBJECT, ..absent });
        }
        for &id in &flat.layers {
            let layer = self.layer_of(id).clone();
            if layer.additional != ANY || !layer.patterns.is_empty() || layer.names.is_some() || layer.unevaluated.is_some() {
                // Some member that the schema does not name would have to be there.
                return Err(refused("the opposite of `additionalProperties`, `patternProperties` or `propertyNames`"));
            }
            for (name, schema) in layer.properties.iter().filter(|p| p.1 != ANY) {
                let not = self.not(*schema);
                let layer = self.fresh_layer(Layer { properties: vec![(name.clone(), not)], silent: true, ..Layer::default() });
                out.push(Flat { required: vec![Rc::clone(name)], layers: vec![layer], ..Flat::of(Types::OBJECT) });
            }
        }
        Ok(())
    }
}

/// The ranges below and above a range of counts.
fn outside(min: u32, max: Option<u32>) -> impl Iterator<Item = (u32, Option<u32>)> {
    let below = (min > 0).then(|| (0, Some(min - 1)));
    below.into_iter().chain(max.map(|max| (max.saturating_add(1), None)))
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{what} cannot be told by an automaton"))
}
