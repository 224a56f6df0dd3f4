//! Arrays no item of which comes twice: an automaton remembers which have come, where there are few that an item can
//! be.

use super::Schemas;
use super::flat::{ANY, Flat, NONE, SchemaId, Types};
use super::negate::more;
use crate::decimal::{Decimal, Rule};
use crate::dfa::Dfa;
use crate::error::Result;
use std::rc::Rc;

/// Values that the items of an array may have.
const MAX_VALUES: usize = 64;
/// Items that are compared with each other by what they may be.
const MAX_COMPARED: u32 = 8;

/// What the items of an array may be: values, and a set of these for each place. All others have the last set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Choices {
    pub values: Vec<SchemaId>,
    pub prefix: Vec<u64>,
    pub rest: u64,
}

impl Schemas<'_> {
    /// Keeps `uniqueItems` of `id` where it can be enforced.
    pub(super) fn unique(&mut self, id: SchemaId, flats: &mut [Flat]) -> Result<()> {
        if !flats.iter().any(|flat| flat.types.has(Types::ARRAY)) {
            return self.ignored(id, "uniqueItems", "no value is an array");
        }
        for flat in flats {
            flat.unique = flat.unique && flat.types.has(Types::ARRAY) && !self.differ(flat)?;
            if flat.unique && (!flat.contains.is_empty() || self.choices(flat)?.is_none()) {
                self.unsupported(id, "uniqueItems", "an automaton cannot compare items")?;
                flat.unique = false;
            }
        }
        Ok(())
    }

    /// Whether no two items can be equal, since there is one at most or places have nothing in common.
    fn differ(&mut self, flat: &Flat) -> Result<bool> {
        let listed = if flat.items == NONE { flat.prefix.len() as u32 } else { u32::MAX };
        let most = flat.max_items.unwrap_or(u32::MAX).min(listed);
        if most > MAX_COMPARED {
            return Ok(false);
        }
        let mut places = Vec::new();
        for i in 0..most as usize {
            let item = flat.prefix.get(i).copied().unwrap_or(flat.items);
            match self.looked(item)? {
                _ if most == 1 => {}
                Some(flats) => places.push(flats),
                None => return Ok(false),
            }
        }
        for (i, a) in places.iter().enumerate() {
            for b in &places[..i] {
                if !self.all_disjoint(a, b)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// What items may be; `None` where that is too much.
    pub fn choices(&mut self, flat: &Flat) -> Result<Option<Choices>> {
        let mut it = Choices { values: Vec::new(), prefix: Vec::new(), rest: 0 };
        for &item in flat.prefix.iter().chain([&flat.items]) {
            let Some(values) = self.values(item)? else { return Ok(None) };
            let mut set = 0;
            for value in values {
                let known = it.values.iter().position(|&v| v == value);
                let place = known.unwrap_or_else(|| {
                    it.values.push(value);
                    it.values.len() - 1
                });
                if place >= MAX_VALUES {
                    return Ok(None);
                }
                set |= 1 << place;
            }
            it.prefix.push(set);
        }
        it.rest = it.prefix.pop().unwrap_or(0);
        Ok(Some(it))
    }

    /// The values of a schema, each as a schema of its own.
    fn values(&mut self, id: SchemaId) -> Result<Option<Vec<SchemaId>>> {
        if id == ANY {
            return Ok(None);
        }
        let Some(flats) = self.looked(id)? else { return Ok(None) };
        let mut out = Vec::new();
        for flat in flats.iter() {
            if flat.types.has(Types::ARRAY) || flat.types.has(Types::OBJECT) {
                return Ok(None);
            }
            if flat.types.has(Types::NULL) {
                out.push(Flat::of(Types::NULL));
            }
            for bools in [1, 2].into_iter().filter(|bit| flat.types.has(Types::BOOLEAN) && flat.bools & bit != 0) {
                more(&mut out, Types::BOOLEAN).bools = bools;
            }
            if flat.types.has(Types::NUMBER) {
                let Some(numbers) = self.few_numbers(flat)? else { return Ok(None) };
                for n in numbers {
                    more(&mut out, Types::NUMBER).numbers = Some(Rc::new(vec![n]));
                }
            }
            if flat.types.has(Types::STRING) {
                if flat.langs.is_empty() {
                    return Ok(None);
                }
                let Some(texts) = self.string(flat)?.words(MAX_VALUES) else { return Ok(None) };
                for text in texts {
                    let budget = self.budget.clone();
                    let lang = self.lang(Dfa::strings(std::iter::once(&*text), &budget)?);
                    more(&mut out, Types::STRING).langs.push(lang);
                }
            }
        }
        Ok(Some(out.into_iter().map(|flat| self.made(flat)).collect()))
    }

    fn few_numbers(&mut self, flat: &Flat) -> Result<Option<Vec<Decimal>>> {
        let language = self.number(&flat.rules)?;
        if let Some(numbers) = &flat.numbers {
            return Ok(Some(numbers.iter().filter(|n| language.accepts(&n.text())).cloned().collect()));
        }
        // A number that is no integer may be written in more than one way.
        if !flat.rules.contains(&Rule::Integer(true)) {
            return Ok(None);
        }
        let words = language.words(MAX_VALUES);
        Ok(words.map(|words| words.iter().map(|text| Decimal::integer(text)).collect()))
    }
}
