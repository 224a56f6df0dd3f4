//! Objects: members in the order of the schema's keys, each of which may be left out unless it is required, then
//! members that the schema does not name. The counter counts commas.

use std::rc::Rc;

use super::{Builder, Callee, Kind};
use crate::dfa::Dfa;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;
use crate::nfa::{Effect, StateId, UNBOUNDED};
use crate::schema::{ANY, Flat, LangId, LayerId, NONE, SchemaId};

/// Members that are counted by states.
const MAX_UNROLLED: u32 = 256;
/// Conditions that some member without a fixed name has to meet.
const MAX_SOME: usize = 4;

/// Name, schema, whether it is required.
type Member = (Rc<str>, SchemaId, bool);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectBody {
    layers: Vec<LayerId>,
    /// [`Flat::some`], as far as the listed members leave it open.
    some: Vec<(LangId, SchemaId)>,
    /// The listed members in the first order.
    members: Vec<Member>,
    /// The listed members in each further order of the schema.
    orders: Vec<Vec<Member>>,
    /// Whether the object may be empty.
    empty: bool,
    /// States instead of a counter: the fewest and the most members.
    exact: Option<(u32, Option<u32>)>,
    counted: bool,
    /// Whether there have to be members that the schema does not list.
    needs_others: bool,
}

impl ObjectBody {
    /// The object with its members counted by states instead of a counter; `min` and `max` count commas.
    pub fn unrolled(self, min: u32, max: Option<u32>) -> Self {
        let min = if min > 0 { min + 1 } else { u32::from(!self.empty) };
        Self { exact: Some((min, max.map(|m| m + 1))), counted: false, needs_others: false, ..self }
    }
}

/// The members in the order of some names, then the rest, unless that is the order that they have.
fn sorted(members: &[Member], names: &[Rc<str>]) -> Option<Vec<Member>> {
    let mut place: Map<Rc<str>, usize> = Map::default();
    for (i, name) in names.iter().enumerate().rev() {
        place.insert(name.clone(), i);
    }
    let mut sorted = members.to_vec();
    sorted.sort_by_cached_key(|m| place.get(&*m.0).copied().unwrap_or(usize::MAX));
    let same = members.iter().zip(&sorted).all(|(a, b)| a.0 == b.0);
    (!same).then_some(sorted)
}

/// Members with names that the schema does not list: an automaton whose tags are indices into the list, plus one. An
/// entry has the schema of the value, and the required members that it may be, as a bit set.
type Others = (Dfa, Vec<(SchemaId, usize)>);

impl Builder<'_, '_> {
    /// The body of an object and the bounds of its counter; none where there is no such object.
    pub(super) fn object(&mut self, flat: &Flat) -> Result<Option<Callee>> {
        let (min, max) = (flat.min_properties, flat.max_properties);
        if max.is_some_and(|max| max < min) {
            return Ok(None);
        }
        let mut names: Vec<Rc<str>> = Vec::new();
        // Which names there are, and whether they are required.
        let mut known: Map<Rc<str>, usize> = Map::default();
        // What only a condition has named does not say where it stands.
        for silent in [false, true] {
            for &layer in &flat.layers {
                let layer = self.schemas.layer_of(layer);
                let properties = layer.properties.iter().filter(|_| layer.silent == silent).map(|p| p.0.clone());
                names.extend(properties.filter(|name| known.insert(name.clone(), 0).is_none()));
            }
        }
        for name in &flat.required {
            if known.insert(name.clone(), 1).is_none() {
                names.push(name.clone());
            }
        }
        let mut members = Vec::with_capacity(names.len());
        for name in names {
            self.budget.spend(8)?;
            let schema = self.schemas.member(&flat.layers, &name);
            let required = known[&name] == 1;
            if schema == NONE && required {
                return Ok(None);
            }
            members.push((name, schema, required));
        }
        let needed = members.iter().filter(|m| m.2).count() as u32;
        let possible = members.iter().filter(|m| m.1 != NONE).count() as u32;
        if max.is_some_and(|max| max < needed) {
            return Ok(None);
        }
        let open = !flat.layers.iter().any(|&l| {
            let layer = self.schemas.layer_of(l);
            layer.additional == NONE && layer.patterns.is_empty()
        });
        // Bounds that what has to be there keeps anyway say nothing.
        let min = if min <= needed { 0 } else { min };
        let max = max.filter(|&max| open || max < possible);
        let mut orders = Vec::new();
        if self.form.required_first {
            let mut names = Vec::new();
            for &layer in &flat.turned {
                for (name, _) in &self.schemas.layer_of(layer).properties {
                    names.push(name.clone());
                }
            }
            let turned = sorted(&members, &names);
            for order in [Some(&members), turned.as_ref()].into_iter().flatten() {
                if let Some(order) = sorted(order, &flat.required).filter(|order| !orders.contains(order)) {
                    orders.push(order);
                }
            }
            if let Some(order) = turned.filter(|order| !orders.contains(order)) {
                orders.push(order);
            }
        }
        let mut some = Vec::new();
        for &(lang, schema) in &flat.some {
            if schema != ANY || !flat.required.iter().any(|name| self.schemas.lang_of(lang).accepts(name)) {
                some.push((lang, schema));
            }
        }
        if some.len() > MAX_SOME {
            return Err(Error::new(
                ErrorKind::TooLarge,
                format!("more than {MAX_SOME} conditions that some member of an object has to meet"),
            ));
        }
        let empty = needed == 0 && min == 0 && some.is_empty();
        let mut body = ObjectBody {
            layers: flat.layers.clone(),
            some,
            members,
            orders,
            empty,
            exact: None,
            counted: false,
            needs_others: false,
        };
        let mut bounds = (0, UNBOUNDED);
        if min > 1 || max.is_some() {
            if body.some.is_empty() && needed == possible && (open || min <= possible) && max != Some(0) {
                // All that is optional comes last and is alike: commas can be counted.
                bounds = (min.saturating_sub(1), max.map_or(UNBOUNDED, |max| max - 1));
                body.counted = true;
                body.needs_others = min > 0;
            } else {
                if max.unwrap_or(min).max(min) > MAX_UNROLLED {
                    return Err(Error::new(
                        ErrorKind::TooLarge,
                        format!("`minProperties` or `maxProperties` above {MAX_UNROLLED} beside optional members"),
                    ));
                }
                body.exact = Some((min.max(u32::from(!body.empty)), max));
            }
        }
        Ok(Some((Kind::Object(body), bounds)))
    }

    pub(super) fn object_body(&mut self, start: StateId, body: &ObjectBody) -> Result<StateId> {
        let end = self.nfa.state()?;
        let effect = if body.counted { Effect::Count } else { Effect::None };
        // How many members there are so far: none or some, or their number as far as it matters.
        let (min, top, most) = match body.exact {
            None => (usize::from(!body.empty), 1, None),
            Some((min, max)) => (min as usize, max.unwrap_or(min).max(1) as usize, max),
        };
        let next = |c: usize| match most {
            Some(max) => (c < max as usize).then_some(c + 1),
            None => Some((c + 1).min(top)),
        };
        // Before a member: how many there are so far, and which of those that have to be there have come.
        let sets = 1usize << body.some.len();
        let place = |c: usize, set: usize| c * sets + set;
        let places = move || (0..=top).flat_map(move |c| (0..sets).map(move |set| (c, set)));
        let all = sets - 1;
        self.budget.spend((top + 1) * sets * (body.members.len() + 1))?;
        let begin = self.space(start)?;
        // Before the name of a member that is not listed.
        let names = self.states((top + 1) * sets)?;
        for members in std::iter::once(&body.members).chain(&body.orders) {
            let last_required = members.iter().rposition(|m| m.2).unwrap_or(0);
            // Before the name of the next listed one, all before it being decided.
            let mut here = self.states((top + 1) * sets)?;
            self.nfa.jump(begin, here[0]);
            for (i, (name, schema, required)) in members.iter().enumerate() {
                let then = self.states((top + 1) * sets)?;
                // The name and the value are built once for all numbers that go on alike.
                let mut known: Map<u64, StateId> = Map::default();
                let text = serde_json::to_string(&**name).unwrap_or_default();
                let named = (0..body.some.len())
                    .filter(|&k| self.schemas.lang_of(body.some[k].0).accepts(name))
                    .fold(0, |set, k| set | 1 << k);
                for (c, set) in places() {
                    let from = here[place(c, set)];
                    if !required {
                        self.nfa.jump(from, then[place(c, set)]);
                    }
                    let Some(to) = next(c).filter(|_| *schema != NONE) else { continue };
                    for (now, schema) in self.witnesses(&body.some, *schema, named & !set) {
                        let place = place(to, set | now);
                        let way = (place as u64) << 32 | u64::from(schema);
                        if let Some(&key) = known.get(&way) {
                            self.nfa.jump(from, key);
                            continue;
                        }
                        let key = self.nfa.state()?;
                        self.nfa.jump(from, key);
                        known.insert(way, key);
                        let at = self.nfa.literal(key, text.as_bytes())?;
                        let value = self.member_value(at, schema)?;
                        let close =
                            (i >= last_required && to >= min && !body.needs_others && set | now == all).then_some(end);
                        self.behind(value, effect, then[place], close)?;
                    }
                }
                here = then;
            }
            for (&from, &to) in here.iter().zip(&names) {
                self.nfa.jump(from, to);
            }
        }
        if min == 0 && body.members.iter().all(|m| !m.2) {
            self.nfa.jump(begin, end);
        }
        if let Some((dfa, classes)) = self.others(body)? {
            let mut known: Map<u64, StateId> = Map::default();
            for (c, set) in places() {
                let Some(to) = next(c) else { continue };
                let from = names[place(c, set)];
                if let Some(&key) = known.get(&(place(to, set) as u64)) {
                    self.nfa.jump(from, key);
                    continue;
                }
                let (key, named) = self.other_name(&dfa, classes.len())?;
                self.nfa.jump(from, key);
                known.insert(place(to, set) as u64, key);
                for (&at, &(schema, may)) in named.iter().zip(&classes) {
                    for (now, schema) in self.witnesses(&body.some, schema, may & !set) {
                        let value = self.member_value(at, schema)?;
                        let close = (to >= min && set | now == all).then_some(end);
                        self.behind(value, effect, names[place(to, set | now)], close)?;
                    }
                }
            }
        }
        Ok(end)
    }

    fn states(&mut self, n: usize) -> Result<Vec<StateId>> {
        (0..n).map(|_| self.nfa.state()).collect()
    }

    /// The ways in which a member counts: as which of those in `may` that have to be there, and what its value then is.
    fn witnesses(&mut self, some: &[(LangId, SchemaId)], schema: SchemaId, may: usize) -> Vec<(usize, SchemaId)> {
        let mut out = vec![(0, schema)];
        for (k, &(_, needed)) in some.iter().enumerate().filter(|(k, _)| may >> k & 1 == 1) {
            let met: Vec<_> = out
                .iter()
                .map(|&(set, schema)| (set | 1 << k, self.schemas.both(schema, needed)))
                .filter(|m| m.1 != NONE)
                .collect();
            if needed == ANY {
                // Any value will do.
                out.clear();
            }
            out.extend(met);
        }
        out
    }

    /// Behind a member: a comma and the next one, or the end where there may be one.
    fn behind(&mut self, value: StateId, effect: Effect, next: StateId, close: Option<StateId>) -> Result<()> {
        let at = self.space(value)?;
        let comma = self.nfa.byte(at, b',', effect)?;
        let comma = self.space(comma)?;
        self.nfa.jump(comma, next);
        if let Some(close) = close {
            self.nfa.jump(at, close);
        }
        Ok(())
    }

    /// What stands behind a name; returns where the value ends.
    fn member_value(&mut self, from: StateId, schema: SchemaId) -> Result<StateId> {
        let at = self.space(from)?;
        let at = self.nfa.byte(at, b':', Effect::None)?;
        let at = self.space(at)?;
        self.value(at, schema)
    }

    /// The automaton of unlisted names; `None` where no other name is allowed.
    fn others(&mut self, body: &ObjectBody) -> Result<Option<Others>> {
        let listed = Dfa::strings(body.members.iter().map(|m| &*m.0), &self.budget)?;
        let mut parts = vec![listed];
        // For each layer its patterns by number of the part, and the part of `propertyNames`.
        let mut layers = Vec::new();
        for &id in &body.layers {
            let layer = self.schemas.layer_of(id).clone();
            let mut patterns = Vec::new();
            if let Some((judged, schema)) = &layer.unevaluated {
                // Names that a pattern judges are left alone; where all others are judged too, so are all.
                let mut all = false;
                for &id in judged {
                    let judge = self.schemas.layer_of(id);
                    all |= !judge.silent && (judge.closed || judge.unevaluated.is_some());
                    for (lang, _) in judge.patterns.iter().filter(|_| !judge.silent) {
                        patterns.push((parts.len(), ANY));
                        parts.push((**self.schemas.lang_of(*lang)).clone());
                    }
                }
                layers.push((patterns, None, if all { ANY } else { *schema }));
                continue;
            }
            for (lang, schema) in &layer.patterns {
                patterns.push((parts.len(), *schema));
                parts.push((**self.schemas.lang_of(*lang)).clone());
            }
            let names = layer.names.map(|lang| {
                parts.push((**self.schemas.lang_of(lang)).clone());
                parts.len() - 1
            });
            layers.push((patterns, names, layer.additional));
        }
        let some = parts.len();
        parts.extend(body.some.iter().map(|&(lang, _)| (**self.schemas.lang_of(lang)).clone()));
        let mut classes: Vec<(SchemaId, usize)> = Vec::new();
        let source = &mut *self.schemas;
        let mut tag = |tags: &[u32]| {
            if tags[0] != 0 {
                return 0;
            }
            let mut schema = ANY;
            for (patterns, names, additional) in &layers {
                if names.is_some_and(|part| tags[part] == 0) {
                    return 0;
                }
                let mut found = false;
                for &(part, of) in patterns.iter().filter(|p| tags[p.0] != 0) {
                    found |= part > 0;
                    schema = source.both(schema, of);
                }
                if !found {
                    schema = source.both(schema, *additional);
                }
            }
            if schema == NONE {
                return 0;
            }
            let may = tags[some..].iter().rev().fold(0, |set, &tag| set << 1 | usize::from(tag != 0));
            let known = classes.iter().position(|&class| class == (schema, may));
            known.unwrap_or_else(|| {
                classes.push((schema, may));
                classes.len() - 1
            }) as u32
                + 1
        };
        let dfa = Dfa::product(&parts.iter().collect::<Vec<_>>(), false, &mut tag, &self.budget)?;
        Ok((!dfa.is_empty()).then_some((dfa, classes)))
    }

    /// The name of a member that is not listed: where it begins, and where it ends for each class of names.
    fn other_name(&mut self, dfa: &Dfa, classes: usize) -> Result<(StateId, Vec<StateId>)> {
        let begin = self.nfa.state()?;
        let quote = self.nfa.byte(begin, b'"', Effect::None)?;
        if dfa.is_any() {
            // Nothing is told apart by its name, so that every way of writing one will do.
            let at = self.any_string(quote, false)?;
            let closed = self.nfa.byte(at, b'"', Effect::None)?;
            return Ok((begin, vec![closed]));
        }
        let named = self.states(classes)?;
        self.embed(quote, dfa, true, &mut |builder, state, tag| {
            builder.nfa.edge(state, b'"', b'"', Effect::None, named[tag as usize - 1]);
            Ok(())
        })?;
        Ok((begin, named))
    }
}
