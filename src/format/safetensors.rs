//! Safetensors: a JSON header that says where each tensor lies, then the tensors.
//!
//! The `safetensors` crate wants the whole file in memory and silently takes the last of two equal names; here only
//! the header is read, and errors name the tensor. The crate's [`safetensors::Dtype`] says which types exist.

use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;

use indexmap::IndexMap;
use safetensors::Dtype;
use serde::Deserialize;
use serde::de::{Error as _, MapAccess, Visitor};

use super::limits;
use super::scaled::Stored;
use super::tensor::{TensorInfo, check_layout, tensor_bytes};
use crate::blocks::DType;
use crate::error::{Error, Result};
use crate::source::ByteSource;

/// One entry of the header.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    /// Begin and end, in bytes from the end of the header.
    data_offsets: (u64, u64),
}

/// The header in its order; equal names are an error.
struct Header(IndexMap<String, Entry>);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HeaderVisitor;
        impl<'de> Visitor<'de> for HeaderVisitor {
            type Value = Header;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let mut entries = IndexMap::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<std::collections::BTreeMap<String, String>>()
                            .map_err(|e| A::Error::custom(format!("__metadata__: {e}")))?;
                        continue;
                    }
                    let entry =
                        map.next_value::<Entry>().map_err(|e| A::Error::custom(format!("tensor '{name}': {e}")))?;
                    if entries.contains_key(&name) {
                        return Err(A::Error::custom(format!("tensor '{name}' occurs twice")));
                    }
                    if entries.len() as u64 >= limits::TENSORS {
                        return Err(A::Error::custom(format!("more than {} tensors", limits::TENSORS)));
                    }
                    entries.insert(name, entry);
                }
                Ok(Header(entries))
            }
        }
        deserializer.deserialize_map(HeaderVisitor)
    }
}

/// Whether the first bytes of a file look like a safetensors header: a length, then `{`.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.len() >= 9
        && head[8] == b'{'
        && u64::from_le_bytes(head[..8].try_into().unwrap_or([0xff; 8])) <= limits::HEADER_BYTES
}

/// Reads the header of `source`, which is file number `file` of its checkpoint. Errors name the file and the tensor.
pub(crate) async fn read(source: &Rc<dyn ByteSource>, file: usize) -> Result<Stored> {
    read_header(source.as_ref(), file).await.map_err(|e| e.at(source.name()))
}

async fn read_header(source: &dyn ByteSource, file: usize) -> Result<Stored> {
    if source.len() < 8 {
        return Err(Error::bad_model(format!(
            "has {} bytes; a safetensors file begins with 8 bytes of header length",
            source.len()
        )));
    }
    let mut length = [0; 8];
    length.copy_from_slice(&source.read(0, 8).await?);
    let length = u64::from_le_bytes(length);
    if length > limits::HEADER_BYTES {
        return Err(Error::bad_model(format!(
            "the header length is {length} bytes, more than the {} MiB that are allowed; this may not be a safetensors file",
            limits::HEADER_BYTES >> 20
        )));
    }
    if length > source.len() - 8 {
        return Err(Error::bad_model(format!(
            "the header length is {length} bytes, but only {} follow; the file is truncated or not a safetensors file",
            source.len() - 8
        )));
    }
    let json = source.read(8, length as usize).await?;
    let header: Header =
        serde_json::from_slice(&json).map_err(|e| Error::bad_model(format!("the safetensors header: {e}")))?;
    drop(json);

    let data = 8 + length;
    let mut tensors = IndexMap::with_capacity(header.0.len());
    let mut single = HashMap::new();
    for (name, entry) in header.0 {
        let (dtype, byte) = dtype(&name, &entry.dtype)?;
        single.extend(byte.map(|byte| (name.clone(), byte)));
        let bytes = tensor_bytes(&name, dtype, &entry.shape)?;
        let (begin, end) = entry.data_offsets;
        if end.checked_sub(begin) != Some(bytes) {
            return Err(Error::bad_model(format!(
                "tensor '{name}' has data_offsets [{begin}, {end}], but {dtype} of shape {:?} takes {bytes} bytes",
                entry.shape
            )));
        }
        let offset = data.checked_add(begin).ok_or_else(|| {
            Error::bad_model(format!("tensor '{name}' has data_offsets [{begin}, {end}], which overflow"))
        })?;
        tensors.insert(name.clone(), TensorInfo { name, dtype, shape: entry.shape, file, offset, bytes });
    }
    check_layout(file, source, &tensors)?;
    Ok((tensors, single))
}

/// The error that a tensor's type is none that is read.
pub(super) fn unsupported(name: &str, text: &str) -> Error {
    Error::unsupported(format!(
        "tensor '{name}' has type {text}; of safetensors, F32, F16, BF16 and, with their scales, F8_E4M3, F8_E5M2 and MXFP4 are supported: take an \
         unquantized checkpoint, or a GGUF file"
    ))
}

/// A tensor's type; of one whose values are single bytes, which other tensors explain, also what these are.
fn dtype(name: &str, text: &str) -> Result<(DType, Option<Dtype>)> {
    Ok(match serde_json::from_value::<Dtype>(text.into()) {
        Ok(Dtype::F32) => (DType::F32, None),
        Ok(Dtype::F16) => (DType::F16, None),
        Ok(Dtype::BF16) => (DType::BF16, None),
        Ok(byte @ (Dtype::U8 | Dtype::F8_E4M3 | Dtype::F8_E5M2)) => (DType::I8, Some(byte)),
        // Index buffers and masks that published files carry along. No model multiplies them: a product with one is an
        // error.
        Ok(Dtype::BOOL | Dtype::I8) => (DType::I8, None),
        Ok(Dtype::I16 | Dtype::U16) => (DType::I16, None),
        Ok(Dtype::I32 | Dtype::U32) => (DType::I32, None),
        Ok(Dtype::I64 | Dtype::U64) => (DType::I64, None),
        Ok(Dtype::F64) => (DType::F64, None),
        Ok(_) => return Err(unsupported(name, text)),
        Err(_) => {
            return Err(Error::bad_model(format!(
                "tensor '{name}' has type '{text}', which safetensors does not know"
            )));
        }
    })
}
