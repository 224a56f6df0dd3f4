//! Objects: members in the order of the schema's keys, each of which may be left out unless it is required, then members that the schema does not name.
//! The counter counts commas.

use std::rc::Rc;

use super::{Builder, Callee, Kind};
use crate::dfa::Dfa;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;
use crate::nfa::{Effect, StateId, UNBOUNDED};
use crate::schema::{ANY, Flat, LayerId, NONE, SchemaId};

/// Members that are counted by states.
const MAX_UNROLLED: u32 = 256;

/// Name, schema, whether it has to be there.
type Member = (Rc<str>, SchemaId, bool);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ObjectBody {
    layers: Vec<LayerId>,
    /// In order.
    members: Vec<Member>,
    /// The same in the other order that the schema has.
    second: Option<Vec<Member>>,
    /// Whether there may be none at all.
    empty: bool,
    /// States instead of a counter: the fewest and the most members.
    exact: Option<(u32, Option<u32>)>,
    counted: bool,
    /// Whether there have to be members that the schema does not list.
    needs_others: bool,
}

impl ObjectBody {
    /// The same members with their number in the states; `min` and `max` are of commas.
    pub fn unrolled(self, min: u32, max: Option<u32>) -> Self {
        let min = if min > 0 { min + 1 } else { u32::from(!self.empty) };
        Self { exact: Some((min, max.map(|m| m + 1))), counted: false, needs_others: false, ..self }
    }
}

/// The other order that a schema has, unless both are one: what `required` names first, then the rest.
fn required_first(members: &[Member], required: &[Rc<str>]) -> Option<Vec<Member>> {
    if members.iter().zip(required).all(|(member, name)| member.0 == *name) {
        return None;
    }
    let mut place: Map<&str, usize> = Map::default();
    place.extend(required.iter().enumerate().map(|(i, name)| (&**name, i)));
    let mut sorted = members.to_vec();
    sorted.sort_by_cached_key(|m| place.get(&*m.0).copied().unwrap_or(usize::MAX));
    Some(sorted)
}

/// What names that the schema does not list lead to: an automaton whose tags are places in the list of schemas, one higher.
type Others = (Dfa, Vec<SchemaId>);

impl Builder<'_, '_> {
    /// The body of an object and the bounds of its counter; none where there is no such object.
    pub(super) fn object(&mut self, flat: &Flat) -> Result<Option<Callee>> {
        let (min, max) = (flat.min_properties, flat.max_properties);
        if max.is_some_and(|max| max < min) {
            return Ok(None);
        }
        let mut names: Vec<Rc<str>> = Vec::new();
        let mut known: Map<Rc<str>, bool> = Map::default();
        // What only a condition has named does not say where it stands.
        for silent in [false, true] {
            for &layer in &flat.layers {
                let layer = self.schemas.layer_of(layer);
                let properties = layer.properties.iter().filter(|_| layer.silent == silent).map(|p| p.0.clone());
                names.extend(properties.filter(|name| known.insert(name.clone(), false).is_none()));
            }
        }
        for name in &flat.required {
            if known.insert(name.clone(), true).is_none() {
                names.push(name.clone());
            }
        }
        let mut members = Vec::with_capacity(names.len());
        for name in names {
            self.budget.spend(8)?;
            let schema = self.schemas.member(&flat.layers, &name);
            let required = known[&name];
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
        let second = required_first(&members, &flat.required).filter(|_| self.form.required_first);
        let mut body =
            ObjectBody { layers: flat.layers.clone(), members, second, empty: needed == 0 && min == 0, exact: None, counted: false, needs_others: false };
        let mut bounds = (0, UNBOUNDED);
        if min > 1 || max.is_some() {
            if needed == possible && (open || min <= possible) && max != Some(0) {
                // All that is optional comes last and is alike: commas can be counted.
                bounds = (min.saturating_sub(1), max.map_or(UNBOUNDED, |max| max - 1));
                body.counted = true;
                body.needs_others = min > 0;
            } else {
                if max.unwrap_or(min).max(min) > MAX_UNROLLED {
                    return Err(Error::new(ErrorKind::TooLarge, format!("`minProperties` or `maxProperties` above {MAX_UNROLLED} beside optional members")));
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
        self.budget.spend((top + 1) * (body.members.len() + 1))?;
        let begin = self.space(start)?;
        // Before the name of a member that is not listed, behind c others.
        let names = (0..=top).map(|_| self.nfa.state()).collect::<Result<Vec<_>>>()?;
        for members in [Some(&body.members), body.second.as_ref()].into_iter().flatten() {
            let last_required = members.iter().rposition(|m| m.2).unwrap_or(0);
            // Before the name of the next listed one, all before it being decided.
            let mut here = (0..=top).map(|_| self.nfa.state()).collect::<Result<Vec<_>>>()?;
            self.nfa.jump(begin, here[0]);
            for (i, (name, schema, required)) in members.iter().enumerate() {
                let then = (0..=top).map(|_| self.nfa.state()).collect::<Result<Vec<_>>>()?;
                // The name and the value are built once for all numbers that go on alike.
                let mut known: Map<usize, StateId> = Map::default();
                let text = serde_json::to_string(&**name).unwrap_or_default();
                for c in 0..=top {
                    if !required {
                        self.nfa.jump(here[c], then[c]);
                    }
                    let Some(to) = next(c).filter(|_| *schema != NONE) else { continue };
                    if let Some(&key) = known.get(&to) {
                        self.nfa.jump(here[c], key);
                        continue;
                    }
                    let key = self.nfa.state()?;
                    self.nfa.jump(here[c], key);
                    known.insert(to, key);
                    let at = self.nfa.literal(key, text.as_bytes())?;
                    let value = self.member_value(at, *schema)?;
                    let close = (i >= last_required && to >= min && !body.needs_others).then_some(end);
                    self.behind(value, effect, then[to], close)?;
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
        if let Some((dfa, schemas)) = self.others(body)? {
            let mut known: Map<usize, StateId> = Map::default();
            for (c, &name) in names.iter().enumerate() {
                let Some(to) = next(c) else { continue };
                if let Some(&key) = known.get(&to) {
                    self.nfa.jump(name, key);
                    continue;
                }
                let (key, value) = self.other_member(&dfa, &schemas)?;
                self.nfa.jump(name, key);
                known.insert(to, key);
                self.behind(value, effect, names[to], (to >= min).then_some(end))?;
            }
        }
        Ok(end)
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

    /// Which names may stand behind those that are listed; none where there are none.
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
        let mut schemas: Vec<SchemaId> = Vec::new();
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
            let known = schemas.iter().position(|&s| s == schema);
            known.unwrap_or_else(|| {
                schemas.push(schema);
                schemas.len() - 1
            }) as u32
                + 1
        };
        let dfa = Dfa::product(&parts.iter().collect::<Vec<_>>(), false, &mut tag, &self.budget)?;
        Ok((!dfa.is_empty()).then_some((dfa, schemas)))
    }

    /// A member that is not listed: where its name begins and where its value ends.
    fn other_member(&mut self, dfa: &Dfa, schemas: &[SchemaId]) -> Result<(StateId, StateId)> {
        let (begin, end) = (self.nfa.state()?, self.nfa.state()?);
        let quote = self.nfa.byte(begin, b'"', Effect::None)?;
        if dfa.is_any() {
            // Nothing is told apart by its name, so that every way of writing one will do.
            let at = self.any_string(quote, false)?;
            let closed = self.nfa.byte(at, b'"', Effect::None)?;
            let value = self.member_value(closed, schemas[0])?;
            self.nfa.jump(value, end);
            return Ok((begin, end));
        }
        let mut values = vec![StateId::MAX; schemas.len()];
        for (value, &schema) in values.iter_mut().zip(schemas) {
            *value = self.nfa.state()?;
            let last = self.member_value(*value, schema)?;
            self.nfa.jump(last, end);
        }
        self.embed(quote, dfa, true, &mut |builder, state, tag| {
            builder.nfa.edge(state, b'"', b'"', Effect::None, values[tag as usize - 1]);
            Ok(())
        })?;
        Ok((begin, end))
    }
}
