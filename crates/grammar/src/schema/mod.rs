//! JSON Schema as alternatives of conjunctions ([`Flat`]), from which the automaton is built.
//!
//! Schemas live in an arena and are known by number, so that a recursive one is itself and two conjunctions of the same
//! schemas are one.

mod document;
mod flat;
mod formats;
mod keywords;
mod negate;
mod normal;
mod unique;

use std::rc::Rc;

use serde_json::Value;

use crate::budget::Budget;
use crate::decimal::{self, Rule};
use crate::dfa::Dfa;
use crate::error::{Error, ErrorKind, Result, Warning};
use crate::hash::Map;
use crate::regex;
use document::Document;
pub(crate) use flat::{ANY, Contains, Flat, LangId, Layer, LayerId, NONE, SchemaId, Types};
pub(crate) use unique::Choices;

#[derive(Debug, Clone)]
enum Node<'a> {
    Any,
    None,
    /// A schema of a document.
    Value {
        document: u32,
        value: &'a Value,
    },
    /// A value that a `const` or an `enum` of `owner` names.
    Constant {
        owner: SchemaId,
        value: &'a Value,
    },
    /// One conjunction that no document has.
    Made(Rc<Flat>),
    All(Vec<SchemaId>),
    Not(SchemaId),
}

pub(crate) struct Schemas<'a> {
    pub budget: Rc<Budget>,
    pub warnings: Vec<Warning>,
    lenient: bool,
    nodes: Vec<Node<'a>>,
    documents: Vec<Document<'a>>,
    by_address: Map<usize, SchemaId>,
    alls: Map<Vec<SchemaId>, SchemaId>,
    nots: Map<SchemaId, SchemaId>,
    mades: Vec<SchemaId>,
    normals: Map<SchemaId, Rc<Vec<Flat>>>,
    open: Vec<SchemaId>,
    langs: Vec<Rc<Dfa>>,
    lang_ids: Map<Rc<Dfa>, LangId>,
    patterns: Map<String, LangId>,
    strings: Map<(Vec<LangId>, u32, Option<u32>), Rc<Dfa>>,
    numbers: Map<Vec<Rule>, Rc<Dfa>>,
    layers: Vec<Layer>,
    layer_ids: Map<SchemaId, LayerId>,
}

impl<'a> Schemas<'a> {
    pub fn new(budget: Rc<Budget>, lenient: bool) -> Self {
        Self {
            budget,
            warnings: Vec::new(),
            lenient,
            nodes: vec![Node::Any, Node::None],
            documents: Vec::new(),
            by_address: Map::default(),
            alls: Map::default(),
            nots: Map::default(),
            mades: Vec::new(),
            normals: Map::default(),
            open: Vec::new(),
            langs: Vec::new(),
            lang_ids: Map::default(),
            patterns: Map::default(),
            strings: Map::default(),
            numbers: Map::default(),
            layers: Vec::new(),
            layer_ids: Map::default(),
        }
    }

    /// Takes in a document; returns the schema that is its root.
    pub fn document(&mut self, root: &'a Value) -> Result<SchemaId> {
        self.documents.push(Document::new(root, &self.budget)?);
        Ok(self.intern(root, self.documents.len() as u32 - 1))
    }

    /// A schema inside the document of `parent`.
    fn schema(&mut self, value: &'a Value, parent: SchemaId) -> SchemaId {
        self.intern(value, self.document_of(parent))
    }

    /// Whether 1.0 is no integer, as drafts 3 and 4 have it.
    pub fn integers_are_plain(&self) -> bool {
        self.documents.iter().any(|document| document.draft.is_some_and(|draft| draft < 6))
    }

    fn intern(&mut self, value: &'a Value, document: u32) -> SchemaId {
        match value {
            Value::Bool(true) => ANY,
            Value::Bool(false) => NONE,
            Value::Object(map) if map.is_empty() => ANY,
            value => {
                let address = std::ptr::from_ref(value) as usize;
                if let Some(&id) = self.by_address.get(&address) {
                    return id;
                }
                let id = self.add(Node::Value { document, value });
                self.by_address.insert(address, id);
                id
            }
        }
    }

    fn add(&mut self, node: Node<'a>) -> SchemaId {
        self.nodes.push(node);
        self.nodes.len() as SchemaId - 1
    }

    fn constant(&mut self, value: &'a Value, owner: SchemaId) -> SchemaId {
        self.add(Node::Constant { owner, value })
    }

    /// A schema of one conjunction. Equal ones are one schema.
    fn made(&mut self, flat: Flat) -> SchemaId {
        let known =
            self.mades.iter().find(|&&id| matches!(&self.nodes[id as usize], Node::Made(known) if **known == flat));
        if let Some(&known) = known {
            return known;
        }
        let id = self.add(Node::Made(Rc::new(flat)));
        self.mades.push(id);
        id
    }

    /// Both schemas at once. Keys keep the order in which the schemas come.
    pub fn both(&mut self, a: SchemaId, b: SchemaId) -> SchemaId {
        if a == NONE || b == NONE {
            return NONE;
        }
        if a == ANY || a == b {
            return b;
        }
        if b == ANY {
            return a;
        }
        let mut list = Vec::new();
        for id in [a, b] {
            match &self.nodes[id as usize] {
                Node::All(parts) => list.extend(parts),
                _ => list.push(id),
            }
        }
        let mut unique = Vec::with_capacity(list.len());
        for id in list {
            if !unique.contains(&id) {
                unique.push(id);
            }
        }
        if let Some(&id) = self.alls.get(&unique) {
            return id;
        }
        let id = self.add(Node::All(unique.clone()));
        self.alls.insert(unique, id);
        id
    }

    /// Everything but the schema.
    pub fn not(&mut self, id: SchemaId) -> SchemaId {
        match (id, &self.nodes[id as usize]) {
            (ANY, _) => NONE,
            (NONE, _) => ANY,
            (_, Node::Not(inner)) => *inner,
            _ => match self.nots.get(&id) {
                Some(&not) => not,
                None => {
                    let not = self.add(Node::Not(id));
                    self.nots.insert(id, not);
                    not
                }
            },
        }
    }

    fn document_of(&self, id: SchemaId) -> u32 {
        match &self.nodes[id as usize] {
            Node::Value { document, .. } => *document,
            Node::Constant { owner, .. } | Node::Not(owner) => self.document_of(*owner),
            Node::All(list) => self.document_of(list[0]),
            Node::Any | Node::None | Node::Made(_) => 0,
        }
    }

    fn pointer(&self, id: SchemaId) -> String {
        match &self.nodes[id as usize] {
            Node::Value { document, value } => self.documents[*document as usize].pointer(value),
            Node::Constant { owner, .. } | Node::Not(owner) => self.pointer(*owner),
            Node::All(list) => self.pointer(list[0]),
            Node::Any | Node::None | Node::Made(_) => String::new(),
        }
    }

    /// The document's number and the pointer in it.
    fn location(&self, id: SchemaId) -> (u32, String) {
        (self.document_of(id), self.pointer(id))
    }

    /// Adds the place to an error. A regular expression that cannot be read makes the schema invalid.
    fn place(&self, error: Error, id: SchemaId, keyword: &str) -> Error {
        let error = match error.kind() {
            ErrorKind::InvalidRegex => Error::new(ErrorKind::InvalidSchema, error.reason()),
            _ => error,
        };
        error.at(self.location(id), keyword)
    }

    /// An error, or a warning where the caller is lenient.
    fn unsupported(&mut self, id: SchemaId, keyword: &str, reason: &str) -> Result<()> {
        if !self.lenient {
            return Err(Error::new(ErrorKind::Unsupported, reason).at(self.location(id), keyword));
        }
        self.ignored(id, keyword, reason)
    }

    /// A warning.
    #[expect(clippy::unnecessary_wraps, reason = "one of several ways to treat a keyword, all of which may fail")]
    fn ignored(&mut self, id: SchemaId, keyword: &str, reason: &str) -> Result<()> {
        let (schema, pointer) = self.location(id);
        let warning = Warning { schema, pointer, keyword: keyword.to_owned(), reason: reason.to_owned() };
        if self.warnings.len() < 1000 && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        Ok(())
    }

    /// How numbers that keep these rules are written.
    pub fn number(&mut self, rules: &[Rule]) -> Result<Rc<Dfa>> {
        if let Some(known) = self.numbers.get(rules) {
            self.budget.spend(1)?;
            return Ok(known.clone());
        }
        let language = Rc::new(decimal::language(rules, &self.budget)?);
        self.numbers.insert(rules.to_vec(), language.clone());
        Ok(language)
    }

    pub fn lang(&mut self, dfa: Dfa) -> LangId {
        let dfa = Rc::new(dfa);
        if let Some(&id) = self.lang_ids.get(&dfa) {
            return id;
        }
        let id = self.langs.len() as LangId;
        self.langs.push(dfa.clone());
        self.lang_ids.insert(dfa, id);
        id
    }

    pub fn lang_of(&self, id: LangId) -> &Rc<Dfa> {
        &self.langs[id as usize]
    }

    fn any_string(&mut self) -> LangId {
        self.lang(Dfa::any())
    }

    /// The language of a regular expression that `keyword` of a schema has; `None` where it is found in every string.
    fn pattern(&mut self, id: SchemaId, keyword: &str, source: &str) -> Result<Option<LangId>> {
        let lang = match self.patterns.get(source) {
            Some(&lang) => lang,
            None => {
                let dfa = match regex::search(source, &self.budget.clone()) {
                    Err(e) if e.kind() == ErrorKind::Unsupported && self.lenient => {
                        self.unsupported(id, keyword, &format!("`{source}` has {}", e.reason()))?;
                        return Ok(None);
                    }
                    dfa => dfa?,
                };
                let lang = self.lang(dfa);
                self.patterns.insert(source.to_owned(), lang);
                lang
            }
        };
        Ok((!self.langs[lang as usize].is_any()).then_some(lang))
    }

    /// The language of a format's regular expression.
    fn whole(&mut self, source: &str) -> Result<LangId> {
        let key = format!("^{source}$");
        if let Some(&id) = self.patterns.get(&key) {
            return Ok(id);
        }
        let dfa = regex::whole(source, &self.budget.clone())?;
        let id = self.lang(dfa);
        self.patterns.insert(key, id);
        Ok(id)
    }

    /// All of a conjunction's conditions on strings as one language.
    pub fn string(&mut self, flat: &Flat) -> Result<Rc<Dfa>> {
        let key = (flat.langs.clone(), flat.min_length, flat.max_length);
        if let Some(dfa) = self.strings.get(&key) {
            return Ok(dfa.clone());
        }
        let budget = self.budget.clone();
        let parts: Vec<Rc<Dfa>> = flat.langs.iter().map(|&id| self.langs[id as usize].clone()).collect();
        let mut dfa = Dfa::intersection(&parts.iter().map(|d| &**d).collect::<Vec<_>>(), &budget)?;
        if flat.max_length.is_some_and(|max| max < flat.min_length) {
            dfa = Dfa::empty();
        } else if (flat.min_length > 0 || flat.max_length.is_some()) && !dfa.is_empty() {
            let (least, most) = dfa.span();
            let inside =
                least >= flat.min_length && flat.max_length.is_none_or(|max| most.is_some_and(|most| most <= max));
            if !inside {
                let lengths = Dfa::lengths(flat.min_length, flat.max_length, &budget)?;
                dfa = Dfa::intersection(&[&dfa, &lengths], &budget)?;
            }
        }
        let dfa = Rc::new(dfa);
        self.strings.insert(key, dfa.clone());
        Ok(dfa)
    }

    fn layer(&mut self, id: SchemaId, layer: Layer) -> LayerId {
        if let Some(&known) = self.layer_ids.get(&id) {
            return known;
        }
        let fresh = self.fresh_layer(layer);
        self.layer_ids.insert(id, fresh);
        fresh
    }

    fn fresh_layer(&mut self, layer: Layer) -> LayerId {
        self.layers.push(layer);
        self.layers.len() as LayerId - 1
    }

    pub fn layer_of(&self, id: LayerId) -> &Layer {
        &self.layers[id as usize]
    }

    /// Whether a layer says something of a member, in the sense of `unevaluatedProperties`.
    fn judges(&self, layer: LayerId, name: &str) -> bool {
        let layer = &self.layers[layer as usize];
        let listed = layer.properties.iter().any(|p| *p.0 == *name)
            || layer.patterns.iter().any(|p| self.langs[p.0 as usize].accepts(name));
        !layer.silent && (listed || layer.closed || layer.unevaluated.is_some())
    }

    /// What a member called `name` has to be.
    pub fn member(&mut self, layers: &[LayerId], name: &str) -> SchemaId {
        let mut out = ANY;
        for &id in layers {
            let layer = &self.layers[id as usize];
            if layer.names.is_some_and(|lang| !self.langs[lang as usize].accepts(name)) {
                return NONE;
            }
            if let Some((judged, schema)) = &layer.unevaluated {
                let schema = *schema;
                if !judged.iter().any(|&l| self.judges(l, name)) {
                    out = self.both(out, schema);
                }
                continue;
            }
            let mut found: Vec<SchemaId> = layer.properties.iter().filter(|p| *p.0 == *name).map(|p| p.1).collect();
            found.extend(layer.patterns.iter().filter(|p| self.langs[p.0 as usize].accepts(name)).map(|p| p.1));
            if found.is_empty() {
                found.push(layer.additional);
            }
            for schema in found {
                out = self.both(out, schema);
            }
        }
        out
    }
}
