//! GGUF versions 2 and 3, little-endian: header, metadata, tensor table. The tensors' bytes stay where they are.
//!
//! Layout after <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod metadata;
mod value;

use std::rc::Rc;

use indexmap::IndexMap;

pub use metadata::Metadata;
pub use value::{Array, FromValue, StringArray, Value};

use super::limits;
use super::reader::HeaderReader;
use super::tensor::{MAX_DIMS, TensorInfo, check_layout, tensor_bytes};
use crate::blocks::DType;
use crate::error::{Error, Result};
use crate::source::ByteSource;

/// The four bytes that every GGUF file begins with.
pub const MAGIC: &[u8; 4] = b"GGUF";
/// Where a file keeps the whole of a tokenizer.json.
pub const TOKENIZER_JSON: &str = "tokenizer.huggingface.json";

/// Where tensor data is aligned to when the file does not say, in bytes.
const DEFAULT_ALIGNMENT: u64 = 32;
/// Key that overrides it.
const ALIGNMENT_KEY: &str = "general.alignment";

/// What the header of a file, or the headers of all parts of a split one, say: the first part's metadata, and the
/// tensors of all.
///
/// `BAD_MODEL` where a file breaks the format, naming the field, or the parts contradict each other;
/// `UNSUPPORTED_MODEL` for version 1 and big-endian files.
pub(crate) async fn read(sources: &[Rc<dyn ByteSource>]) -> Result<(Metadata, IndexMap<String, TensorInfo>)> {
    let mut model: Option<(Metadata, IndexMap<String, TensorInfo>)> = None;
    for (file, source) in sources.iter().enumerate() {
        let mut header = Header { reader: HeaderReader::new(source.clone(), limits::HEADER_BYTES), nested: 0 };
        let part = async {
            let (metadata, tensors) = header.read(file, source.as_ref()).await?;
            check_part(&metadata, file, sources.len())?;
            let Some((_, all)) = &mut model else {
                model = Some((metadata, tensors));
                return Ok(());
            };
            for (name, tensor) in tensors {
                if all.insert(name, tensor).is_some_and(|old| old.file != file) {
                    return Err(Error::bad_model("holds a tensor that another part of the model holds too"));
                }
            }
            Ok(())
        };
        part.await.map_err(|e: Error| e.at(source.name()))?;
    }
    let (metadata, tensors) = model.ok_or_else(|| Error::internal("a model of no files"))?;
    match metadata.opt::<u64>("split.tensors.count")? {
        Some(count) if count != tensors.len() as u64 => Err(Error::bad_model(format!(
            "metadata key 'split.tensors.count' is {count}, but the parts hold {} tensors: one is of another model",
            tensors.len()
        ))),
        _ => Ok((metadata, tensors)),
    }
}

struct Header {
    reader: HeaderReader,
    /// Arrays within arrays so far.
    nested: usize,
}

impl Header {
    async fn read(&mut self, file: usize, source: &dyn ByteSource) -> Result<(Metadata, IndexMap<String, TensorInfo>)> {
        let magic = self.array::<4>("the magic number").await?;
        if &magic != MAGIC {
            return Err(Error::bad_model("does not begin with 'GGUF'"));
        }
        let version = self.u32("the version").await?;
        match version {
            2 | 3 => {}
            1 => {
                return Err(Error::unsupported(
                    "is GGUF version 1, of which only early files exist; convert the model again with a current llama.cpp",
                ));
            }
            v if matches!(v.swap_bytes(), 1..=3) => {
                return Err(Error::unsupported(
                    "is a big-endian GGUF file; convert the model for little-endian machines",
                ));
            }
            v => return Err(Error::unsupported(format!("is GGUF version {v}; versions 2 and 3 are known"))),
        }
        let tensor_count = self.u64("the tensor count").await?;
        let key_count = self.u64("the metadata count").await?;
        // The least a tensor can take: name length, one letter, dimension count, one dimension, type, offset.
        let tensor_count = self.count(tensor_count, 8 + 1 + 4 + 8 + 4 + 8, limits::TENSORS, "the tensor count")?;
        // A key's length, one letter, the type, one byte of value.
        let key_count = self.count(key_count, 8 + 1 + 4 + 1, limits::KEYS, "the metadata count")?;

        let mut metadata = Metadata::default();
        for index in 0..key_count {
            let key = self.name(&|| format!("the key of metadata pair {index}")).await?;
            let kind = self.u32(&format!("the type of metadata key '{key}'")).await?;
            let value = self.value(kind, &key).await?;
            metadata.insert(key, value)?;
        }
        let alignment = alignment(&metadata)?;

        let mut tensors = IndexMap::new();
        for index in 0..tensor_count {
            let tensor = self.tensor(index, file, alignment).await?;
            if let Some(old) = tensors.insert(tensor.name.clone(), tensor) {
                return Err(Error::bad_model(format!("tensor '{}' occurs twice", old.name)));
            }
        }

        // Offsets in the table count from the first aligned byte after it.
        let data = self.reader.position().next_multiple_of(alignment);
        for tensor in tensors.values_mut() {
            tensor.offset = tensor.offset.checked_add(data).ok_or_else(|| {
                Error::bad_model(format!("tensor '{}' has offset {}, which overflows", tensor.name, tensor.offset))
            })?;
        }
        check_layout(file, source, &tensors)?;
        Ok((metadata, tensors))
    }

    /// One row of the tensor table; the offset is still relative to the data.
    async fn tensor(&mut self, index: usize, file: usize, alignment: u64) -> Result<TensorInfo> {
        let name = self.name(&|| format!("the name of tensor {index}")).await?;
        let dims = self.u32(&format!("the dimension count of tensor '{name}'")).await? as usize;
        if dims == 0 || dims > MAX_DIMS {
            return Err(Error::bad_model(format!(
                "tensor '{name}' has {dims} dimensions; 1 to {MAX_DIMS} are allowed"
            )));
        }
        let mut shape = Vec::with_capacity(dims);
        for dim in 0..dims {
            shape.push(self.u64(&format!("dimension {dim} of tensor '{name}'")).await?);
        }
        shape.reverse();
        let id = self.u32(&format!("the type of tensor '{name}'")).await?;
        let dtype = DType::from_ggml(id).ok_or_else(|| {
            Error::unsupported(format!("tensor '{name}' has GGML type {id}, which is retired or newer than this version; convert the model to a known type"))
        })?;
        let offset = self.u64(&format!("the offset of tensor '{name}'")).await?;
        if !offset.is_multiple_of(alignment) {
            return Err(Error::bad_model(format!(
                "tensor '{name}' has offset {offset}, which is not a multiple of the alignment {alignment}"
            )));
        }
        let bytes = tensor_bytes(&name, dtype, &shape)?;
        Ok(TensorInfo { name, dtype, shape, file, offset, bytes })
    }

    fn count(&self, count: u64, min_bytes: u64, limit: u64, what: &str) -> Result<usize> {
        if count > limit {
            return Err(Error::bad_model(format!("{what} is {count}; at most {limit} are allowed")));
        }
        self.reader.check_count(count, min_bytes, || what.to_owned())
    }

    async fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.reader.take(N as u64, &|| what.to_owned()).await?);
        Ok(out)
    }

    async fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what).await?))
    }

    async fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what).await?))
    }

    async fn name(&mut self, what: &dyn Fn() -> String) -> Result<String> {
        let name = self.str(what, limits::NAME_BYTES).await?;
        if name.is_empty() {
            return Err(Error::bad_model(format!("{} is empty", what())));
        }
        Ok(name.to_owned())
    }

    async fn str(&mut self, what: &dyn Fn() -> String, limit: u64) -> Result<&str> {
        let mut len = [0; 8];
        len.copy_from_slice(self.reader.take(8, what).await?);
        let len = u64::from_le_bytes(len);
        if len > limit {
            return Err(Error::bad_model(format!("{} is {len} bytes long; at most {limit} are allowed", what())));
        }
        let bytes = self.reader.take(len, what).await?;
        std::str::from_utf8(bytes).map_err(|e| Error::bad_model(format!("{} is not UTF-8: {e}", what())))
    }

    async fn value(&mut self, kind: u32, key: &str) -> Result<Value> {
        let what = format!("the value of metadata key '{key}'");
        Ok(match kind {
            0 => Value::U8(u8::from_le_bytes(self.array(&what).await?)),
            1 => Value::I8(i8::from_le_bytes(self.array(&what).await?)),
            2 => Value::U16(u16::from_le_bytes(self.array(&what).await?)),
            3 => Value::I16(i16::from_le_bytes(self.array(&what).await?)),
            4 => Value::U32(u32::from_le_bytes(self.array(&what).await?)),
            5 => Value::I32(i32::from_le_bytes(self.array(&what).await?)),
            6 => Value::F32(f32::from_le_bytes(self.array(&what).await?)),
            7 => Value::Bool(boolean(self.array::<1>(&what).await?[0], key)?),
            8 => Value::Str(self.str(&|| what.clone(), limits::HEADER_BYTES).await?.to_owned()),
            9 => Value::Array(self.array_value(key, 0).await?),
            10 => Value::U64(u64::from_le_bytes(self.array(&what).await?)),
            11 => Value::I64(i64::from_le_bytes(self.array(&what).await?)),
            12 => Value::F64(f64::from_le_bytes(self.array(&what).await?)),
            other => return Err(unknown_kind(key, other)),
        })
    }

    async fn array_value(&mut self, key: &str, depth: usize) -> Result<Array> {
        let what = format!("the array of metadata key '{key}'");
        let kind = self.u32(&what).await?;
        let count = self.u64(&what).await?;
        Ok(match kind {
            0 => Array::U8(self.items(count, &what, u8::from_le_bytes).await?),
            1 => Array::I8(self.items(count, &what, i8::from_le_bytes).await?),
            2 => Array::U16(self.items(count, &what, u16::from_le_bytes).await?),
            3 => Array::I16(self.items(count, &what, i16::from_le_bytes).await?),
            4 => Array::U32(self.items(count, &what, u32::from_le_bytes).await?),
            5 => Array::I32(self.items(count, &what, i32::from_le_bytes).await?),
            6 => Array::F32(self.items(count, &what, f32::from_le_bytes).await?),
            7 => {
                let bytes = self.items(count, &what, u8::from_le_bytes).await?;
                Array::Bool(bytes.into_iter().map(|b| boolean(b, key)).collect::<Result<_>>()?)
            }
            8 => Array::Str(self.strings(count, key, &what).await?),
            9 => {
                if depth + 1 >= limits::ARRAY_DEPTH {
                    return Err(Error::bad_model(format!("{what} is nested more than {} deep", limits::ARRAY_DEPTH)));
                }
                let count = self.reader.check_count(count, 4 + 8, || what.clone())?;
                self.nested += count;
                if self.nested > limits::NESTED_ARRAYS {
                    return Err(Error::bad_model(format!(
                        "{what} holds {count} arrays; at most {} are allowed in a file",
                        limits::NESTED_ARRAYS
                    )));
                }
                let mut arrays = Vec::new();
                for _ in 0..count {
                    arrays.push(Box::pin(self.array_value(key, depth + 1)).await?);
                }
                Array::Nested(arrays)
            }
            10 => Array::U64(self.items(count, &what, u64::from_le_bytes).await?),
            11 => Array::I64(self.items(count, &what, i64::from_le_bytes).await?),
            12 => Array::F64(self.items(count, &what, f64::from_le_bytes).await?),
            other => return Err(unknown_kind(key, other)),
        })
    }

    /// `count` numbers of `N` bytes.
    async fn items<T, const N: usize>(
        &mut self,
        count: u64,
        what: &str,
        from: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>> {
        self.reader.check_count(count, N as u64, || what.to_owned())?;
        let bytes = self.reader.take(count * N as u64, &|| what.to_owned()).await?;
        let (chunks, _) = bytes.as_chunks::<N>();
        Ok(chunks.iter().map(|&c| from(c)).collect())
    }

    async fn strings(&mut self, count: u64, key: &str, what: &str) -> Result<StringArray> {
        let count = self.reader.check_count(count, 8, || what.to_owned())?;
        let mut strings = StringArray::with_capacity(count);
        for index in 0..count {
            let s = self.str(&|| format!("string {index} of metadata key '{key}'"), limits::HEADER_BYTES).await?;
            if !strings.push(s) {
                return Err(Error::bad_model(format!("{what} holds more than 4 GiB of text")));
            }
        }
        Ok(strings)
    }
}

fn boolean(byte: u8, key: &str) -> Result<bool> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::bad_model(format!("metadata key '{key}' is a bool of value {other}; 0 or 1 is allowed"))),
    }
}

fn unknown_kind(key: &str, kind: u32) -> Error {
    Error::bad_model(format!("metadata key '{key}' has value type {kind}; 0 to 12 are known"))
}

fn alignment(metadata: &Metadata) -> Result<u64> {
    let alignment = metadata.opt::<u64>(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if !alignment.is_power_of_two() || alignment > limits::ALIGNMENT {
        return Err(Error::bad_model(format!(
            "metadata key '{ALIGNMENT_KEY}' is {alignment}; it must be a power of two and at most {}",
            limits::ALIGNMENT
        )));
    }
    Ok(alignment)
}

/// Checks that the file is part `file` of `parts`, or whole where that is 1.
fn check_part(metadata: &Metadata, file: usize, parts: usize) -> Result<()> {
    let count = metadata.opt::<u64>("split.count")?.unwrap_or(1).max(1);
    if count != parts as u64 {
        return Err(Error::bad_model(format!(
            "metadata key 'split.count' says that the model has {count} parts, but {parts} {} given; name the parts as llama-gguf-split does, NAME-00001-of-{count:05}.gguf",
            if parts == 1 { "is" } else { "are" }
        )));
    }
    match metadata.opt::<u64>("split.no")? {
        Some(number) if number != file as u64 => Err(Error::bad_model(format!(
            "metadata key 'split.no' is {number}, but its name says part {}: it was renamed, or two parts changed places",
            file + 1
        ))),
        None if parts > 1 => Err(Error::bad_model("metadata key 'split.no' is missing in a part of a split model")),
        _ => Ok(()),
    }
}

/// The tokenizer.json that a file keeps, if it does.
pub(crate) fn tokenizer_json(metadata: &Metadata) -> Result<Option<Vec<u8>>> {
    Ok(metadata.opt::<&str>(TOKENIZER_JSON)?.map(|json| json.as_bytes().to_vec()))
}
