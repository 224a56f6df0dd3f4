//! Model files as they come: GGUF, a Hugging Face folder with safetensors, or our own shards.
//!
//! Only headers are read here. Nothing in them is believed before it is checked: counts against what the file can
//! still hold, lengths before they are multiplied, offsets before anything is sliced.
//!
//! ```
//! # use std::rc::Rc;
//! # use millrace::{format::Checkpoint, source::{ByteSource, Files, MemorySource}};
//! # fn main() {
//! let page: Rc<dyn ByteSource> = Rc::new(MemorySource::new("model.gguf", b"<!DOCTYPE html>...".to_vec()));
//! let files = Files::from_iter([("model.gguf".to_owned(), page)]);
//! # #[cfg(not(target_arch = "wasm32"))] {
//! let error = pollster::block_on(Checkpoint::open(&files)).err().expect("a web page is no model");
//! assert_eq!(error.code(), "BAD_MODEL");
//! # }
//! # }
//! ```

mod adapter;
mod detect;
pub mod gguf;
mod hf;
mod limits;
pub mod manifest;
mod reader;
mod safetensors;
mod scaled;
mod tensor;

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use indexmap::IndexMap;
use sha2::{Digest, Sha256};

pub use adapter::{Adapter, Module};
pub(crate) use detect::refuse_others;
pub(crate) use hf::module_folders;
pub use hf::{HfMetadata, TokenizerFiles};
pub use manifest::{Manifest, Packed};
pub use tensor::TensorInfo;

use crate::base::hex;
use crate::error::{Error, Result};
use crate::source::{ByteSource, Files, check_range};

/// Tensors that a fingerprint looks into.
const SAMPLES: usize = 32;
/// Bytes that it looks at in each.
const SAMPLE: u64 = 256;

/// What a checkpoint says about itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Metadata {
    /// The key-value pairs of a GGUF file.
    Gguf(gguf::Metadata),
    /// The JSON files of a Hugging Face folder.
    Hf(HfMetadata),
}

/// A model's files, opened: every tensor's place is known and checked, none is read yet.
pub struct Checkpoint {
    /// The files that hold tensors.
    pub files: Vec<Rc<dyn ByteSource>>,
    /// By the checkpoint's own names, in the files' order.
    pub tensors: IndexMap<String, TensorInfo>,
    /// The model's configuration; for GGUF, the tokenizer too.
    pub metadata: Metadata,
    /// tokenizer.json and what belongs to it; none for GGUF, which has its tokenizer in the metadata, where none was
    /// given beside it.
    pub tokenizer_files: Option<TokenizerFiles>,
    /// What only a model in shards has.
    pub packed: Option<Packed>,
}

impl Checkpoint {
    /// Opens a GGUF file, a Hugging Face folder or a model in shards; which of them is decided by content and names.
    ///
    /// `BAD_MODEL` where a file breaks its format or is neither, `UNSUPPORTED_MODEL` where it is well-formed but of a
    /// kind that this version does not read, `NOT_FOUND` where a folder lacks a file.
    pub fn open(files: &Files) -> LocalBoxFuture<'_, Result<Self>> {
        Box::pin(Self::detected(files))
    }

    async fn detected(files: &Files) -> Result<Self> {
        match detect::detect(files).await? {
            detect::Kind::Gguf(parts) => {
                let (metadata, tensors) = gguf::read(&parts).await?;
                let kept = gguf::tokenizer_json(&metadata)?;
                let opened = Self {
                    files: parts,
                    tensors,
                    metadata: Metadata::Gguf(metadata),
                    tokenizer_files: None,
                    packed: None,
                };
                let json = hf::tokenizer_beside(files).await?.or(kept);
                Ok(opened.with_tokenizer(json))
            }
            detect::Kind::Shards(source) => manifest::open(files, &source).await,
            detect::Kind::Folder => hf::open(files).await,
        }
    }

    /// With this tokenizer.json in place of what the model's own files say of the tokenizer, where one is given.
    #[must_use]
    pub fn with_tokenizer(mut self, json: Option<Vec<u8>>) -> Self {
        if let Some(json) = json {
            self.tokenizer_files.get_or_insert_with(|| Vec::new().into()).json = json;
        }
        self
    }

    /// What tells this model from others, though they may have the same shape: 64 hexadecimal digits, of its tensors'
    /// names, types and shapes, and of some bytes of some of them.
    pub async fn fingerprint(&self) -> Result<String> {
        if let Some(packed) = &self.packed {
            return Ok(packed.hash.clone());
        }
        let mut hash = Sha256::new();
        for (name, tensor) in &self.tensors {
            hash.update(format!("{name} {} {:?}\n", tensor.dtype.name(), tensor.shape));
        }
        let every = self.tensors.len().div_ceil(SAMPLES).max(1);
        for tensor in self.tensors.values().step_by(every) {
            let length = SAMPLE.min(tensor.bytes);
            hash.update(self.read(tensor, (tensor.bytes - length) / 2, length as usize).await?);
        }
        Ok(hex(&hash.finalize()))
    }

    /// The tensor called `name`; `BAD_MODEL` if there is none.
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo> {
        self.tensors
            .get(name)
            .ok_or_else(|| Error::bad_model(format!("tensor '{name}' is missing from the checkpoint")))
    }

    /// `len` bytes of a segment of a tensor in shards, from its byte `offset`. The range is checked against the
    /// segment.
    pub async fn read_segment(&self, segment: &manifest::Segment, offset: u64, len: usize) -> Result<Vec<u8>> {
        check_range("a segment", segment.length, offset, len)?;
        self.read_file(segment.shard, segment.offset + offset, len).await
    }

    /// `len` bytes of `tensor` from its byte `offset`. The range is checked against the tensor.
    pub async fn read(&self, tensor: &TensorInfo, offset: u64, len: usize) -> Result<Vec<u8>> {
        check_range(&tensor.name, tensor.bytes, offset, len)?;
        self.read_file(tensor.file, tensor.offset + offset, len).await.map_err(|e| e.at(&tensor.name))
    }

    async fn read_file(&self, file: usize, offset: u64, len: usize) -> Result<Vec<u8>> {
        let source = self.files.get(file).ok_or_else(|| Error::internal("a tensor of another checkpoint"))?;
        let bytes = source.read(offset, len).await?;
        if bytes.len() != len {
            return Err(Error::storage(format!("{}: asked for {len} bytes, got {}", source.name(), bytes.len())));
        }
        Ok(bytes)
    }
}
