//! A conjunction of conditions on a value, which is what a schema without alternatives says. A schema is a list of
//! these, any of which may hold.

use std::rc::Rc;

use crate::decimal::{Decimal, Rule};

/// A schema in the arena of [`Schemas`](super::Schemas).
pub(crate) type SchemaId = u32;
/// A language of strings in the arena of [`Schemas`](super::Schemas).
pub(crate) type LangId = u32;
/// The conditions of one schema on an object's members.
pub(crate) type LayerId = u32;

pub(crate) const ANY: SchemaId = 0;
pub(crate) const NONE: SchemaId = 1;

/// JSON's types, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Types(pub u8);

impl Types {
    pub const NULL: Self = Self(1);
    pub const BOOLEAN: Self = Self(2);
    pub const NUMBER: Self = Self(4);
    pub const STRING: Self = Self(8);
    pub const ARRAY: Self = Self(16);
    pub const OBJECT: Self = Self(32);
    pub const ALL: Self = Self(63);
    pub const EACH: [Self; 6] = [Self::NULL, Self::BOOLEAN, Self::NUMBER, Self::STRING, Self::ARRAY, Self::OBJECT];

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// How many items of an array satisfy a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Contains {
    pub schema: SchemaId,
    pub min: u32,
    pub max: Option<u32>,
}

/// What of a value has to hold, all at once. Conditions on a type that the value does not have say nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Flat {
    pub types: Types,
    /// 1: false is allowed, 2: true is.
    pub bools: u8,
    pub rules: Vec<Rule>,
    /// The only numbers there are.
    pub numbers: Option<Rc<Vec<Decimal>>>,
    pub langs: Vec<LangId>,
    pub min_length: u32,
    pub max_length: Option<u32>,
    pub prefix: Vec<SchemaId>,
    pub items: SchemaId,
    pub contains: Vec<Contains>,
    pub min_items: u32,
    pub max_items: Option<u32>,
    /// No item comes twice. Only where there are finitely many that an item can be.
    pub unique: bool,
    /// How many items in front `prefixItems` and `items` have judged, which is what `unevaluatedItems` leaves alone.
    pub seen_items: u32,
    pub layers: Vec<LayerId>,
    /// Layers in the other order that members may have: those of what a schema combines, then its own. What only a
    /// condition names is left out.
    pub turned: Vec<LayerId>,
    /// For each entry there must be a member with a name in the language and a value that satisfies the schema.
    pub some: Vec<(LangId, SchemaId)>,
    pub required: Vec<Rc<str>>,
    pub min_properties: u32,
    pub max_properties: Option<u32>,
}

impl Flat {
    /// Any value of some types.
    pub fn of(types: Types) -> Self {
        Self {
            types,
            bools: 3,
            rules: Vec::new(),
            numbers: None,
            langs: Vec::new(),
            min_length: 0,
            max_length: None,
            prefix: Vec::new(),
            items: ANY,
            contains: Vec::new(),
            min_items: 0,
            max_items: None,
            unique: false,
            seen_items: 0,
            layers: Vec::new(),
            turned: Vec::new(),
            some: Vec::new(),
            required: Vec::new(),
            min_properties: 0,
            max_properties: None,
        }
    }

    pub fn is_any(&self) -> bool {
        *self == Self::of(Types::ALL)
    }

    /// Both at once; `None` where that is plainly nothing. `both` makes one schema of two.
    pub fn meet(&self, other: &Self, mut both: impl FnMut(SchemaId, SchemaId) -> SchemaId) -> Option<Self> {
        let mut types = Types(self.types.0 & other.types.0);
        let bools = self.bools & other.bools;
        if bools == 0 {
            types = types.without(Types::BOOLEAN);
        }
        let numbers = match (&self.numbers, &other.numbers) {
            (Some(a), Some(b)) => Some(Rc::new(a.iter().filter(|x| b.contains(x)).cloned().collect::<Vec<_>>())),
            (a, b) => a.clone().or_else(|| b.clone()),
        };
        if numbers.as_ref().is_some_and(|n| n.is_empty()) {
            types = types.without(Types::NUMBER);
        }
        if types.0 == 0 {
            return None;
        }
        let n = self.prefix.len().max(other.prefix.len());
        let item = |f: &Self, i: usize| f.prefix.get(i).copied().unwrap_or(f.items);
        Some(Self {
            types,
            bools,
            rules: merged(&self.rules, &other.rules),
            numbers,
            langs: merged(&self.langs, &other.langs),
            min_length: self.min_length.max(other.min_length),
            max_length: least(self.max_length, other.max_length),
            prefix: (0..n).map(|i| both(item(self, i), item(other, i))).collect(),
            items: both(self.items, other.items),
            contains: merged(&self.contains, &other.contains),
            min_items: self.min_items.max(other.min_items),
            max_items: least(self.max_items, other.max_items),
            unique: self.unique || other.unique,
            seen_items: self.seen_items.max(other.seen_items),
            layers: merged(&self.layers, &other.layers),
            turned: merged(&self.turned, &other.turned),
            some: merged(&self.some, &other.some),
            required: merged(&self.required, &other.required),
            min_properties: self.min_properties.max(other.min_properties),
            max_properties: least(self.max_properties, other.max_properties),
        })
    }
}

fn least(a: Option<u32>, b: Option<u32>) -> Option<u32> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The first list, then what only the second has: the order is that of keys.
pub(super) fn merged<T: Clone + PartialEq>(a: &[T], b: &[T]) -> Vec<T> {
    let mut out = a.to_vec();
    for x in b {
        if !a.contains(x) {
            out.push(x.clone());
        }
    }
    out
}

/// What one schema says of an object's members.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub properties: Vec<(Rc<str>, SchemaId)>,
    pub patterns: Vec<(LangId, SchemaId)>,
    /// The schema of members that neither list names.
    pub additional: SchemaId,
    /// The language of all members' names.
    pub names: Option<LangId>,
    /// Whether members that it does not list are judged by `additional`, rather than open.
    pub closed: bool,
    /// Made for an opposite: it judges nothing in the sense of `unevaluatedProperties`.
    pub silent: bool,
    /// `unevaluatedProperties`: of members that none of these layers judges.
    pub unevaluated: Option<(Vec<LayerId>, SchemaId)>,
}

impl Default for Layer {
    fn default() -> Self {
        Self {
            properties: Vec::new(),
            patterns: Vec::new(),
            additional: ANY,
            names: None,
            closed: false,
            silent: false,
            unevaluated: None,
        }
    }
}
