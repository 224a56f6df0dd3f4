//! Values of GGUF metadata.

use std::borrow::Cow;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A metadata value, of the type its file gives it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // each variant is its name
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    Str(String),
    Array(Array),
}

/// An array of metadata, stored as compactly as in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)] // each variant is its name
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bool(Vec<bool>),
    Str(StringArray),
    Nested(Vec<Array>),
}

impl Array {
    #[cfg(not(target_arch = "wasm32"))]
    fn is_finite(&self) -> bool {
        match self {
            Self::F32(v) => v.iter().all(|x| x.is_finite()),
            Self::F64(v) => v.iter().all(|x| x.is_finite()),
            Self::Nested(v) => v.iter().all(Self::is_finite),
            _ => true,
        }
    }

    /// How many items it has.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Str(v) => v.len(),
            Self::Nested(v) => v.len(),
        }
    }

    /// Whether it has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What all items are, if they are the same and there are any.
    fn common(&self) -> Option<Value> {
        fn of<T: PartialEq + Copy>(items: &[T], value: fn(T) -> Value) -> Option<Value> {
            items.first().filter(|first| items.iter().all(|item| item == *first)).map(|first| value(*first))
        }
        match self {
            Self::U8(v) => of(v, Value::U8),
            Self::I8(v) => of(v, Value::I8),
            Self::U16(v) => of(v, Value::U16),
            Self::I16(v) => of(v, Value::I16),
            Self::U32(v) => of(v, Value::U32),
            Self::I32(v) => of(v, Value::I32),
            Self::U64(v) => of(v, Value::U64),
            Self::I64(v) => of(v, Value::I64),
            Self::F32(v) => of(v, Value::F32),
            Self::F64(v) => of(v, Value::F64),
            Self::Bool(v) => of(v, Value::Bool),
            Self::Str(_) | Self::Nested(_) => None,
        }
    }

    /// An element of booleans.
    pub fn bool(&self, index: usize) -> Option<bool> {
        match self {
            Self::Bool(v) => v.get(index).copied(),
            _ => None,
        }
    }

    /// Item `index` as an integer, if this is an array of integers and the item fits.
    pub fn int(&self, index: usize) -> Option<i64> {
        match self {
            Self::U8(v) => v.get(index).map(|&x| x.into()),
            Self::I8(v) => v.get(index).map(|&x| x.into()),
            Self::U16(v) => v.get(index).map(|&x| x.into()),
            Self::I16(v) => v.get(index).map(|&x| x.into()),
            Self::U32(v) => v.get(index).map(|&x| x.into()),
            Self::I32(v) => v.get(index).map(|&x| x.into()),
            Self::U64(v) => v.get(index).and_then(|&x| x.try_into().ok()),
            Self::I64(v) => v.get(index).copied(),
            _ => None,
        }
    }

    fn item_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Bool(_) => "bool",
            Self::Str(_) => "string",
            Self::Nested(_) => "array",
        }
    }
}

/// Many strings in one allocation: a vocabulary has 150,000 of them.
#[derive(Clone, PartialEq, Default)]
pub struct StringArray {
    text: String,
    /// Where each string ends in `text`.
    ends: Vec<u32>,
}

impl StringArray {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { text: String::new(), ends: Vec::with_capacity(count) }
    }

    /// Appends a string. False if the text of all would exceed 4 GiB.
    pub(crate) fn push(&mut self, s: &str) -> bool {
        self.text.push_str(s);
        match u32::try_from(self.text.len()) {
            Ok(end) => {
                self.ends.push(end);
                true
            }
            Err(_) => false,
        }
    }

    /// How many strings it holds.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        self.text.get(start..end)
    }

    /// All strings, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

impl Serialize for StringArray {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for StringArray {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let strings = Vec::<String>::deserialize(deserializer)?;
        let mut array = Self::with_capacity(strings.len());
        match strings.iter().all(|s| array.push(s)) {
            true => Ok(array),
            false => Err(D::Error::custom("more than 4 GiB of text")),
        }
    }
}

impl fmt::Debug for StringArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StringArray({} strings, {} bytes)", self.len(), self.text.len())
    }
}

impl Value {
    /// Whether it holds no infinity and no NaN.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Self::F32(x) => x.is_finite(),
            Self::F64(x) => x.is_finite(),
            Self::Array(items) => items.is_finite(),
            _ => true,
        }
    }

    /// What the value is, for messages: `u32`, `array of 5 string`, …
    pub fn type_name(&self) -> String {
        match self {
            Self::U8(_) => "u8".into(),
            Self::I8(_) => "i8".into(),
            Self::U16(_) => "u16".into(),
            Self::I16(_) => "i16".into(),
            Self::U32(_) => "u32".into(),
            Self::I32(_) => "i32".into(),
            Self::U64(_) => "u64".into(),
            Self::I64(_) => "i64".into(),
            Self::F32(_) => "f32".into(),
            Self::F64(_) => "f64".into(),
            Self::Bool(_) => "bool".into(),
            Self::Str(_) => "string".into(),
            Self::Array(a) => format!("array of {} {}", a.len(), a.item_name()),
        }
    }

    /// An integer of any width, if it is one. `u64` values above `i64::MAX` do not occur in metadata and count as none.
    pub fn as_int(&self) -> Option<i64> {
        Some(match *self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U64(v) => i64::try_from(v).ok()?,
            Self::I64(v) => v,
            _ => return None,
        })
    }
}

impl Value {
    /// The value, or what all items of a list are: some writers repeat a number for each layer.
    fn single(&self) -> Option<Cow<'_, Self>> {
        let Self::Array(items) = self else { return Some(Cow::Borrowed(self)) };
        items.common().map(Cow::Owned)
    }

    /// A whole number of any type.
    fn whole(&self) -> Option<i64> {
        let single = self.single()?;
        single.as_int().or_else(|| single.number().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64))
    }

    /// A number of any type.
    fn number(&self) -> Option<f64> {
        match *self.single()? {
            Self::F32(x) => Some(x.into()),
            Self::F64(x) => Some(x),
            ref other => other.as_int().map(|n| n as f64),
        }
    }
}

/// A type that metadata can be read as. Writers differ: numbers of any type are accepted where they fit, and lists of
/// equal values.
pub trait FromValue<'a>: Sized {
    /// The name of the type, for messages.
    const NAME: &'static str;
    /// The value, if it is of this type and in range.
    fn from_value(value: &'a Value) -> Option<Self>;
}

macro_rules! from_value {
    ($($type:ty, $name:literal, $value:ident => $body:expr;)*) => {
        $(impl<'a> FromValue<'a> for $type {
            const NAME: &'static str = $name;
            fn from_value($value: &'a Value) -> Option<Self> {
                $body
            }
        })*
    };
}

from_value! {
    u32, "u32", value => value.whole().and_then(|v| v.try_into().ok());
    u64, "u64", value => value.whole().and_then(|v| v.try_into().ok());
    i64, "i64", value => value.whole();
    f32, "f32", value => value.number().map(|v| v as f32);
    bool, "bool", value => match value.single()?.into_owned() {
        Value::Bool(v) => Some(v),
        other => match other.as_int()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        },
    };
    &'a str, "string", value => match value {
        Value::Str(v) => Some(v),
        _ => None,
    };
    &'a Array, "array", value => match value {
        Value::Array(v) => Some(v),
        _ => None,
    };
    &'a StringArray, "array of strings", value => match value {
        Value::Array(Array::Str(v)) => Some(v),
        _ => None,
    };
    &'a [f32], "array of f32", value => match value {
        Value::Array(Array::F32(v)) => Some(v),
        _ => None,
    };
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// A manifest keeps metadata as JSON: what is read back is what was written, bit for bit.
        #[test]
        fn values_survive_json(bits in any::<u32>(), int in any::<i64>(), text in ".{0,8}") {
            let float = f32::from_bits(bits);
            let mut strings = StringArray::default();
            strings.push(&text);
            let values = [
                Value::I64(int),
                Value::U64(int as u64),
                Value::Str(text.clone()),
                Value::Bool(int > 0),
                Value::Array(Array::Str(strings)),
                Value::Array(Array::Nested(vec![Array::I64(vec![int]), Array::U8(vec![int as u8])])),
                Value::F32(float),
                Value::Array(Array::F32(vec![float, -0.0])),
            ];
            for value in values.into_iter().filter(Value::is_finite) {
                let read: Value = serde_json::from_str(&serde_json::to_string(&value).unwrap()).unwrap();
                prop_assert_eq!(&read, &value);
            }
            prop_assert_eq!(Value::F32(float).is_finite(), float.is_finite());
        }
    }
}
