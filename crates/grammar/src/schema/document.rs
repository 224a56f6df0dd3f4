//! A schema's text as a tree whose places have names: the pointer of each value, what `$id` and `$anchor` call it, and
//! where a `$ref` leads.

use serde_json::Value;

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Map;

/// Values inside each other; JSON text deeper than 127 is refused by its parser already.
const MAX_DEPTH: u32 = 500;

/// Where a value stands.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Key(u32, &'a str),
    Index(u32, usize),
}

/// What a value is to JSON Schema: names mean something only where a schema stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Schema,
    /// An object or an array of schemas.
    Schemas,
    Other,
}

#[derive(Debug)]
pub(crate) struct Document<'a> {
    pub root: &'a Value,
    /// The draft that `$schema` names: 3 to 7, 2019 or 2020; none where it names another dialect or is not there.
    pub draft: Option<u32>,
    steps: Vec<Step<'a>>,
    /// By address: which step, and which base URI.
    places: Map<usize, (u32, u32)>,
    bases: Vec<String>,
    /// Schemas by absolute URI, anchors behind a `#`.
    named: Map<String, &'a Value>,
    /// The names of all `$dynamicAnchor`, and whether there is a `$recursiveAnchor`.
    dynamic: Vec<&'a str>,
    pub recursive: bool,
}

impl<'a> Document<'a> {
    pub fn new(root: &'a Value, budget: &Budget) -> Result<Self> {
        let draft = root.get("$schema").and_then(Value::as_str).and_then(draft);
        let old = draft.is_some_and(|draft| draft < 5);
        let mut it = Self {
            root,
            draft,
            steps: Vec::new(),
            places: Map::default(),
            bases: vec![String::new()],
            named: Map::default(),
            dynamic: Vec::new(),
            recursive: false,
        };
        let mut stack = vec![(root, Step::Root, Role::Schema, 0u32, 0u32)];
        while let Some((value, step, role, mut base, depth)) = stack.pop() {
            budget.spend(2)?;
            if depth > MAX_DEPTH {
                return Err(Error::new(ErrorKind::TooLarge, format!("the schema nests deeper than {MAX_DEPTH}")));
            }
            let at = it.steps.len() as u32;
            it.steps.push(step);
            match value {
                Value::Object(map) => {
                    if role == Role::Schema {
                        let id = map.get("$id").or_else(|| map.get("id").filter(|_| old)).and_then(Value::as_str);
                        let ignored = it.ref_alone() && map.contains_key("$ref");
                        if let Some(id) = id.filter(|_| !ignored) {
                            let uri = join(&it.bases[base as usize], id);
                            if id.starts_with('#') {
                                it.named.insert(uri, value);
                            } else {
                                let uri = uri.split('#').next().unwrap_or("").to_owned();
                                it.named.insert(uri.clone(), value);
                                it.bases.push(uri);
                                base = it.bases.len() as u32 - 1;
                            }
                        }
                        for name in
                            ["$anchor", "$dynamicAnchor"].iter().filter_map(|k| map.get(*k).and_then(Value::as_str))
                        {
                            it.named.insert(format!("{}#{name}", it.bases[base as usize]), value);
                        }
                        it.dynamic.extend(map.get("$dynamicAnchor").and_then(Value::as_str));
                        it.recursive |= map.get("$recursiveAnchor") == Some(&Value::Bool(true));
                    }
                    for (key, child) in map {
                        let inner = match role {
                            Role::Schema => keyword_role(key, child),
                            Role::Schemas => Role::Schema,
                            Role::Other => Role::Other,
                        };
                        stack.push((child, Step::Key(at, key), inner, base, depth + 1));
                    }
                }
                Value::Array(list) => {
                    let inner = if role == Role::Schemas { Role::Schema } else { Role::Other };
                    for (i, child) in list.iter().enumerate() {
                        stack.push((child, Step::Index(at, i), inner, base, depth + 1));
                    }
                }
                _ => {}
            }
            it.places.insert(address(value), (at, base));
        }
        Ok(it)
    }

    /// Before 2019, `$ref` makes its siblings ineffective.
    pub fn ref_alone(&self) -> bool {
        self.draft.is_some_and(|draft| draft < 2019)
    }

    /// Whether a `$dynamicRef` leads where a `$ref` would: no other schema has its anchor.
    pub fn is_static(&self, reference: &str) -> bool {
        let fragment = reference.split_once('#').map_or("", |(_, fragment)| fragment);
        self.dynamic.iter().filter(|&&name| name == fragment).count() < 2
    }

    /// JSON pointer of a value of this document.
    pub fn pointer(&self, value: &Value) -> String {
        let mut parts = Vec::new();
        let mut at = self.places.get(&address(value)).map_or(0, |p| p.0);
        loop {
            match self.steps[at as usize] {
                Step::Root => break,
                Step::Key(parent, key) => {
                    parts.push(key.replace('~', "~0").replace('/', "~1"));
                    at = parent;
                }
                Step::Index(parent, i) => {
                    parts.push(i.to_string());
                    at = parent;
                }
            }
        }
        parts.iter().rev().map(|p| format!("/{p}")).collect()
    }

    /// The value that a `$ref` inside `from` means.
    pub fn resolve(&self, from: &Value, reference: &str) -> Result<&'a Value> {
        let base = &self.bases[self.places.get(&address(from)).map_or(0, |p| p.1) as usize];
        let uri = join(base, reference);
        let (resource, fragment) = uri.split_once('#').unwrap_or((&uri, ""));
        let root = match self.named.get(resource) {
            Some(value) => *value,
            None if resource.is_empty() => self.root,
            None => return Err(Error::new(ErrorKind::Unsupported, format!("`{reference}` is outside of the schema"))),
        };
        let fragment = decode(fragment);
        if fragment.is_empty() {
            return Ok(root);
        }
        let nowhere = || Error::new(ErrorKind::InvalidSchema, format!("`{reference}` leads nowhere"));
        if fragment.starts_with('/') {
            root.pointer(&fragment).ok_or_else(nowhere)
        } else {
            self.named.get(&format!("{resource}#{fragment}")).copied().ok_or_else(nowhere)
        }
    }
}

/// The draft that a URI names.
fn draft(uri: &str) -> Option<u32> {
    const DRAFTS: [(&str, u32); 7] = [
        ("draft-03", 3),
        ("draft-04", 4),
        ("draft-05", 5),
        ("draft-06", 6),
        ("draft-07", 7),
        ("draft/2019-09", 2019),
        ("draft/2020-12", 2020),
    ];
    DRAFTS.iter().find(|d| uri.contains(d.0)).map(|d| d.1)
}

/// Values do not move while a schema is compiled.
fn address(value: &Value) -> usize {
    std::ptr::from_ref(value) as usize
}

fn keyword_role(key: &str, value: &Value) -> Role {
    match key {
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies" => {
            Role::Schemas
        }
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Role::Schemas,
        "items" | "extends" | "disallow" | "type" if value.is_array() => Role::Schemas,
        "items"
        | "additionalItems"
        | "additionalProperties"
        | "propertyNames"
        | "contains"
        | "not"
        | "if"
        | "then"
        | "else"
        | "extends" => Role::Schema,
        "unevaluatedProperties" | "unevaluatedItems" | "contentSchema" => Role::Schema,
        _ => Role::Other,
    }
}

/// Percent-encoding off.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = text.get(i + 1..i + 3).filter(|_| bytes[i] == b'%').and_then(|h| u8::from_str_radix(h, 16).ok());
        out.push(hex.unwrap_or(bytes[i]));
        i += if hex.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A reference against a base URI (RFC 3986, 5.2, for the schemes that schemas use).
fn join(base: &str, reference: &str) -> String {
    let base = base.split('#').next().unwrap_or("");
    let scheme = |uri: &str| {
        let end = uri.find(':')?;
        let name = &uri[..end];
        (name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)))
        .then_some(end)
    };
    if reference.is_empty() || reference.starts_with('#') {
        return format!("{base}{reference}");
    }
    if scheme(reference).is_some() {
        return reference.to_owned();
    }
    // Where the path of the base begins: behind `scheme://authority`.
    let after = scheme(base).map_or(0, |end| end + 1);
    let path = if base[after..].starts_with("//") {
        base[after + 2..].find('/').map_or(base.len(), |i| after + 2 + i)
    } else {
        after
    };
    if let Some(rest) = reference.strip_prefix("//") {
        return format!("{}//{rest}", &base[..after]);
    }
    if reference.starts_with('/') {
        return format!("{}{reference}", &base[..path]);
    }
    let folder = base[path..].rfind('/').map_or(path, |i| path + i + 1);
    let (name, fragment) = reference.split_once('#').map_or((reference, None), |(n, f)| (n, Some(f)));
    let mut parts: Vec<&str> = base[path..folder].split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "." => {}
            ".." if parts.len() > 1 => drop(parts.pop()),
            ".." => {}
            part => parts.push(part),
        }
    }
    let joined = format!("{}{}", &base[..path], parts.join("/"));
    fragment.map_or(joined.clone(), |f| format!("{joined}#{f}"))
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn references_are_joined_as_uris() {
        for (base, reference, uri) in [
            ("", "#/a", "#/a"),
            ("http://a/b/c", "d", "http://a/b/d"),
            ("http://a/b/c", "/d#x", "http://a/d#x"),
            ("http://a/b/", "../c.json", "http://a/c.json"),
            ("http://a", "c", "http://ac"),
            ("urn:uuid:1", "#x", "urn:uuid:1#x"),
            ("http://a/b", "https://c/d", "https://c/d"),
            ("schema.json", "other.json#/x", "other.json#/x"),
        ] {
            assert_eq!(join(base, reference), uri, "{reference} at {base}");
        }
    }
}
