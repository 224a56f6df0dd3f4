//! The key-value pairs of a GGUF file, with getters whose errors name the key.

use indexmap::IndexMap;

use super::value::{Array, FromValue, StringArray, Value};
use crate::error::{Error, Result};

/// The metadata of a GGUF file, in the file's order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    values: IndexMap<String, Value>,
}

impl From<IndexMap<String, Value>> for Metadata {
    fn from(values: IndexMap<String, Value>) -> Self {
        Self { values }
    }
}

impl Metadata {
    /// Adds a pair; the error names a key that is there already.
    pub(crate) fn insert(&mut self, key: String, value: Value) -> Result<()> {
        if self.values.contains_key(&key) {
            return Err(Error::bad_model(format!("metadata key '{key}' occurs twice")));
        }
        self.values.insert(key, value);
        Ok(())
    }

    /// Sets a key, whatever it was before.
    pub fn set(&mut self, key: &str, value: Value) {
        self.values.insert(key.to_owned(), value);
    }

    /// The value under `key`, whatever its type.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// All pairs, in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.values.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The value under `key` as a `T`; none where the key is missing, `BAD_MODEL` where it is of another type or range.
    pub fn opt<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.values.get(key) else { return Ok(None) };
        match T::from_value(value) {
            Some(v) => Ok(Some(v)),
            None => {
                let found = match value.as_int() {
                    Some(n) => format!("{} {n}", value.type_name()),
                    None => value.type_name(),
                };
                Err(Error::bad_model(format!("metadata key '{key}' should be {}, but is {found}", T::NAME)))
            }
        }
    }

    /// As [`Metadata::opt`], but a missing key is `BAD_MODEL` too.
    pub fn req<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.opt(key)?.ok_or_else(|| Error::bad_model(format!("metadata key '{key}' ({}) is missing", T::NAME)))
    }

    /// A required string.
    pub fn str(&self, key: &str) -> Result<&str> {
        self.req(key)
    }

    /// A required integer that fits 32 bits.
    pub fn u32(&self, key: &str) -> Result<u32> {
        self.req(key)
    }

    /// A required integer that is not negative.
    pub fn u64(&self, key: &str) -> Result<u64> {
        self.req(key)
    }

    /// A required floating-point number.
    pub fn f32(&self, key: &str) -> Result<f32> {
        self.req(key)
    }

    /// A required boolean.
    pub fn bool(&self, key: &str) -> Result<bool> {
        self.req(key)
    }

    /// A required array of any item type.
    pub fn array(&self, key: &str) -> Result<&Array> {
        self.req(key)
    }

    /// A required array of strings.
    pub fn strings(&self, key: &str) -> Result<&StringArray> {
        self.req(key)
    }
}
