//! Millrace's own format, docs/FORMAT.md: manifest.json, a tokenizer file, and shards that hold tensors as the GPU
//! reads them.
//!
//! A manifest carries what its source said about the model, so that the same strict readers understand it; only tensors
//! are stored otherwise.

use std::rc::Rc;

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::gguf;
use super::tensor::{TensorInfo, tensor_bytes};
use super::{Checkpoint, HfMetadata, Metadata, TokenizerFiles, limits};
use crate::base::{check_name, hex};
use crate::blocks::{DType, WeightType};
use crate::error::{Error, Result};
use crate::source::spec::names::MANIFEST;
use crate::source::{ByteSource, Files};

/// What `format` says.
const FORMAT: &str = "millrace";
/// This version; a reader refuses higher ones.
pub const VERSION: u32 = 1;
/// Most bytes of a shard.
pub const SHARD_BYTES: u64 = 64 << 20;
/// Segments begin at multiples of it.
pub const ALIGNMENT: u64 = 256;
/// The tokenizer file's name.
pub const TOKENIZER: &str = "tokenizer.json";

/// manifest.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// `millrace`.
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The architecture by the engine's name, for people and tools: what runs is decided by `config`.
    pub architecture: String,
    /// What the model is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of parameters.
    pub parameters: u64,
    /// The configuration as the source has it.
    pub config: Config,
    /// The tokenizer.
    pub tokenizer: File,
    /// Chat templates by name; one alone is called `default`.
    #[serde(default)]
    pub template: IndexMap<String, String>,
    /// Files that hold tensors.
    pub shards: Vec<File>,
    /// Tensors in the order in which a loader reads them, which is theirs in the shards.
    pub tensors: Vec<Tensor>,
    /// What the model's maker recommends.
    #[serde(default)]
    pub hints: Hints,
}

/// A configuration, by the kind of its source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Config {
    /// Metadata of a GGUF file but for the tokenizer's, which the tokenizer file holds:
    /// `{"llama.block_count": {"u32": 16}}`.
    Gguf(IndexMap<String, gguf::Value>),
    /// The JSON files of a Hugging Face folder; the tokenizer file is tokenizer.json.
    Huggingface {
        /// config.json.
        config: Map<String, Value>,
        /// generation_config.json.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        generation_config: Option<Map<String, Value>>,
        /// tokenizer_config.json without chat templates.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tokenizer_config: Option<Map<String, Value>>,
        /// What makes it a folder of sentence-transformers: its modules, and config_sentence_transformers.json.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sentence: Option<Box<Map<String, Value>>>,
    },
}

/// A file beside the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Its name.
    pub file: String,
    /// Its length, bytes.
    pub bytes: u64,
    /// Its SHA-256, 64 hexadecimal digits.
    pub sha256: String,
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tensor {
    /// The source's name.
    pub name: String,
    /// Its type here, by GGML's name.
    #[serde(rename = "type")]
    pub dtype: String,
    /// Its type in the source, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub converted_from: Option<String>,
    /// The source's shape, outermost first.
    pub shape: Vec<u64>,
    /// How its bytes lie.
    pub layout: Layout,
    /// Where its bytes are: one piece after another.
    pub segments: Vec<Segment>,
}

/// How a tensor's bytes lie in its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// Little-endian values in the order of the shape, in one segment.
    Plain,
    /// Rows of blocks as kernels read them: the quants of all rows of a segment, then their scales.
    Blocks,
    /// As [`Layout::Blocks`], for a matrix of shape `[K, N]`: its N columns are the rows.
    Columns,
}

/// A run of a tensor's rows in a shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Index into `shards`.
    pub shard: usize,
    /// First byte within the shard, a multiple of 256.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Rows.
    pub rows: u64,
}

/// Recommendations; they are checked, and neither a measurement nor the self-test gives way to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hints {
    /// A variant, or the value of one of its axes, for each kernel.
    #[serde(default)]
    pub kernels: IndexMap<String, String>,
}

/// What a checkpoint in shards has beside the common.
#[derive(Debug, Clone, Default)]
pub struct Packed {
    /// Matrices in the GPU's layout, by name.
    pub tensors: IndexMap<String, PackedTensor>,
    /// Chat templates by name.
    pub templates: IndexMap<String, String>,
    /// Recommendations.
    pub hints: Hints,
    /// SHA-256 of all hashes.
    pub hash: String,
}

/// A matrix in the GPU's layout.
#[derive(Debug, Clone)]
pub struct PackedTensor {
    /// Whether the checkpoint's shape is `[K, N]`.
    pub columns: bool,
    /// Its rows.
    pub segments: Vec<Segment>,
}

/// 64 hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

impl Manifest {
    /// Reads a manifest and checks all that it says about itself; the files are not looked at.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` for a later version, `BAD_MODEL`, which names the field, for anything else.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(bytes).map_err(|e| Error::bad_model(format!("{MANIFEST}: {e}")))?;
        if value.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(Error::bad_model(format!(
                "{MANIFEST} is not one of Millrace's: its field 'format' is not \"{FORMAT}\""
            )));
        }
        match value.get("version").and_then(Value::as_u64) {
            Some(version) if version > u64::from(VERSION) => {
                return Err(Error::unsupported(format!(
                    "{MANIFEST} is of version {version} of the format, this version of Millrace reads up to {VERSION}: update Millrace, or convert the model again with it"
                )));
            }
            Some(version) if version > 0 => {}
            _ => return Err(Error::bad_model(format!("{MANIFEST}: field 'version' is not a positive number"))),
        }
        let manifest: Self = serde_json::from_value(value).map_err(|e| Error::bad_model(format!("{MANIFEST}: {e}")))?;
        manifest.check().map_err(|e| e.at(MANIFEST))?;
        Ok(manifest)
    }

    /// Every file that the model needs beside the manifest, tokenizer first.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        std::iter::once(&self.tokenizer).chain(&self.shards)
    }

    fn check(&self) -> Result<()> {
        let mut names = IndexSet::new();
        for file in self.files() {
            check_name(&file.file)?;
            if !names.insert(&file.file) {
                return Err(Error::bad_model(format!("file {} is named twice", file.file)));
            }
            if file.sha256.len() != 64 || !file.sha256.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                return Err(Error::bad_model(format!(
                    "sha256 of {} is not 64 lower-case hexadecimal digits",
                    file.file
                )));
            }
        }
        if self.tokenizer.bytes > limits::TOKENIZER_BYTES {
            return Err(Error::bad_model(format!(
                "{} has {} bytes; at most {} are allowed",
                self.tokenizer.file,
                self.tokenizer.bytes,
                limits::TOKENIZER_BYTES
            )));
        }
        if let Some(shard) = self.shards.iter().find(|s| s.bytes > SHARD_BYTES) {
            return Err(Error::bad_model(format!(
                "shard {} has {} bytes; at most {SHARD_BYTES} are allowed",
                shard.file, shard.bytes
            )));
        }
        if self.tensors.len() as u64 > limits::TENSORS {
            return Err(Error::bad_model(format!(
                "there are {} tensors; at most {} are allowed",
                self.tensors.len(),
                limits::TENSORS
            )));
        }
        let mut names = IndexSet::new();
        let mut used: Vec<Vec<(u64, u64, &str)>> = vec![Vec::new(); self.shards.len()];
        for tensor in &self.tensors {
            if !names.insert(&tensor.name) {
                return Err(Error::bad_model(format!("tensor '{}' occurs twice", tensor.name)));
            }
            tensor.check(&self.shards).map_err(|e| e.at(format!("tensor '{}'", tensor.name)))?;
            for segment in &tensor.segments {
                used[segment.shard].push((segment.offset, segment.offset + segment.length, &tensor.name));
            }
        }
        for (shard, mut used) in self.shards.iter().zip(used) {
            used.sort_unstable();
            if let Some(pair) = used.windows(2).find(|pair| pair[0].1 > pair[1].0) {
                return Err(Error::bad_model(format!(
                    "tensors '{}' and '{}' overlap at byte {} of {}",
                    pair[0].2, pair[1].2, pair[1].0, shard.file
                )));
            }
        }
        Ok(())
    }

    /// The checkpoint that the files are.
    fn open(self, sources: Vec<Rc<dyn ByteSource>>, tokenizer: Vec<u8>) -> Result<Checkpoint> {
        let mut hash = Sha256::new();
        self.files().for_each(|file| hash.update(&file.sha256));
        let bad = |e: serde_json::Error| Error::bad_model(format!("{}: {e}", self.tokenizer.file));
        let (metadata, tokenizer_files) = match self.config {
            Config::Gguf(mut values) => {
                values.extend(serde_json::from_slice::<IndexMap<String, gguf::Value>>(&tokenizer).map_err(bad)?);
                let metadata = gguf::Metadata::from(values);
                let json = gguf::tokenizer_json(&metadata)?;
                (Metadata::Gguf(metadata), json.map(TokenizerFiles::from))
            }
            Config::Huggingface { config, generation_config, tokenizer_config, sentence } => (
                Metadata::Hf(HfMetadata { config, generation_config, tokenizer_config, sentence, preprocessor: None }),
                Some(TokenizerFiles { json: tokenizer, template: None, template_json: None }),
            ),
        };
        let mut packed =
            Packed { templates: self.template, hints: self.hints, hash: hex(&hash.finalize()), ..Packed::default() };
        let mut tensors = IndexMap::new();
        for tensor in self.tensors {
            let dtype = tensor.dtype()?;
            let bytes = tensor.segments.iter().map(|s| s.length).sum();
            let (file, offset) = tensor.segments.first().map_or((0, 0), |s| (s.shard, s.offset));
            if tensor.layout != Layout::Plain {
                packed.tensors.insert(
                    tensor.name.clone(),
                    PackedTensor { columns: tensor.layout == Layout::Columns, segments: tensor.segments },
                );
            }
            tensors.insert(
                tensor.name.clone(),
                TensorInfo { name: tensor.name, dtype, shape: tensor.shape, file, offset, bytes },
            );
        }
        Ok(Checkpoint { files: sources, tensors, metadata, tokenizer_files, packed: Some(packed) })
    }
}

impl Tensor {
    fn named(name: &str) -> Result<DType> {
        DType::ALL
            .iter()
            .find(|d| d.name() == name)
            .copied()
            .ok_or_else(|| Error::bad_model(format!("type {name:?} does not exist")))
    }

    fn dtype(&self) -> Result<DType> {
        Self::named(&self.dtype)
    }

    /// K and N of a matrix.
    fn matrix(&self) -> Result<(u64, u64)> {
        match (self.layout, self.shape.as_slice()) {
            (Layout::Columns, [k, n]) => Ok((*k, *n)),
            (Layout::Blocks, [rows @ .., k]) if !rows.is_empty() => Ok((*k, rows.iter().product())),
            _ => Err(Error::bad_model(format!(
                "shape {:?} is not that of a matrix in layout {:?}",
                self.shape, self.layout
            ))),
        }
    }

    fn check(&self, shards: &[File]) -> Result<()> {
        let dtype = self.dtype()?;
        self.converted_from.as_deref().map(Self::named).transpose()?;
        // The product of the dimensions does not overflow from here on.
        let mut shape = self.shape.clone();
        if self.layout == Layout::Columns {
            shape.reverse();
        }
        let bytes = tensor_bytes(&self.name, dtype, &shape)?;
        let mut rows = 0u64;
        for segment in &self.segments {
            let shard = shards.get(segment.shard).ok_or_else(|| {
                Error::bad_model(format!("segment in shard {}, but there are {}", segment.shard, shards.len()))
            })?;
            if segment.offset.checked_add(segment.length).is_none_or(|end| end > shard.bytes)
                || !segment.offset.is_multiple_of(ALIGNMENT)
            {
                return Err(Error::bad_model(format!(
                    "segment of {} bytes at {} does not lie in {} of {} bytes at a multiple of {ALIGNMENT}",
                    segment.length, segment.offset, shard.file, shard.bytes
                )));
            }
            rows =
                rows.checked_add(segment.rows).ok_or_else(|| Error::bad_model("the rows of its segments overflow"))?;
        }
        if self.layout == Layout::Plain {
            return match self.segments.as_slice() {
                [one] if one.length == bytes => Ok(()),
                _ => Err(Error::bad_model(format!("should be one segment of {bytes} bytes"))),
            };
        }
        let kind = WeightType::native(dtype)
            .ok_or_else(|| Error::bad_model(format!("layout {:?} holds no {dtype}", self.layout)))?;
        let (k, n) = self.matrix()?;
        if rows != n {
            return Err(Error::bad_model(format!("its segments hold {rows} rows, its shape says {n}")));
        }
        let row_blocks = k.div_ceil(crate::blocks::BLOCK as u64);
        for segment in &self.segments {
            let expected = segment_bytes(kind, segment.rows, row_blocks);
            if segment.rows == 0 || expected != Some(segment.length) {
                return Err(Error::bad_model(format!(
                    "segment of {} rows has {} bytes, which is not what they take",
                    segment.rows, segment.length
                )));
            }
        }
        Ok(())
    }
}

/// Bytes of `rows` rows in a segment: quants, then scales. `None` where they are more than can be counted.
pub fn segment_bytes(kind: WeightType, rows: u64, row_blocks: u64) -> Option<u64> {
    let blocks = rows.checked_mul(row_blocks)?;
    // Scales take at most as many bytes as quants.
    let quants = blocks.checked_mul(kind.quant_words() as u64 * 4).filter(|quants| *quants < u64::MAX / 2)?;
    Some(quants + kind.scale_len(blocks))
}

/// Opens a manifest and the files it names. Lengths are checked, hashes are not: they are where files arrive.
pub(crate) async fn open(files: &Files, manifest: &Rc<dyn ByteSource>) -> Result<Checkpoint> {
    let manifest = read(manifest).await?;
    let mut sources = Vec::new();
    for file in manifest.files() {
        let source = files
            .get(&file.file)
            .ok_or_else(|| Error::not_found(format!("{} is missing, which {MANIFEST} names", file.file)))?;
        if source.len() != file.bytes {
            return Err(Error::bad_model(format!(
                "{} has {} bytes, {MANIFEST} says {}: it is cut off or of another model",
                file.file,
                source.len(),
                file.bytes
            )));
        }
        sources.push(source.clone());
    }
    let tokenizer = sources.remove(0);
    let tokenizer = tokenizer.read(0, tokenizer.len() as usize).await?;
    manifest.open(sources, tokenizer)
}

/// The manifest in a file.
pub(crate) async fn read(source: &Rc<dyn ByteSource>) -> Result<Manifest> {
    if source.len() > limits::CONFIG_BYTES {
        return Err(Error::bad_model(format!(
            "{} has {} bytes; at most {} are allowed",
            source.name(),
            source.len(),
            limits::CONFIG_BYTES
        )));
    }
    Manifest::parse(&source.read(0, source.len() as usize).await?)
}

#[cfg(not(target_arch = "wasm32"))]
impl Config {
    /// What a checkpoint's metadata says, and the content of its tokenizer file. Chat templates are left out.
    pub(crate) fn of(checkpoint: &Checkpoint) -> Result<(Self, Vec<u8>)> {
        match (&checkpoint.metadata, &checkpoint.tokenizer_files) {
            (Metadata::Gguf(metadata), files) => {
                let mut tokenizer: IndexMap<&str, &gguf::Value> = IndexMap::new();
                let mut config = IndexMap::new();
                for (key, value) in metadata
                    .iter()
                    .filter(|(key, _)| !key.starts_with("tokenizer.chat_template") && !key.starts_with("split."))
                {
                    if !value.is_finite() {
                        return Err(Error::unsupported(format!(
                            "metadata key '{key}' holds a number that is not finite, which JSON cannot"
                        )));
                    }
                    if key.starts_with("tokenizer.") {
                        tokenizer.insert(key, value);
                    } else {
                        config.insert(key.to_owned(), value.clone());
                    }
                }
                let given = match files {
                    Some(files) => Some(gguf::Value::Str(
                        String::from_utf8(files.json.clone())
                            .map_err(|_| Error::tokenizer("tokenizer.json is not UTF-8"))?,
                    )),
                    None => None,
                };
                tokenizer.extend(given.iter().map(|json| (gguf::TOKENIZER_JSON, json)));
                Ok((
                    Self::Gguf(config),
                    serde_json::to_vec(&tokenizer).map_err(|e| Error::internal(format!("tokenizer: {e}")))?,
                ))
            }
            (Metadata::Hf(metadata), Some(files)) => {
                let HfMetadata { config, generation_config, mut tokenizer_config, sentence, .. } = metadata.clone();
                if let Some(object) = &mut tokenizer_config {
                    object.shift_remove("chat_template");
                }
                Ok((Self::Huggingface { config, generation_config, tokenizer_config, sentence }, files.json.clone()))
            }
            (Metadata::Hf(_), None) => Err(Error::not_found("tokenizer.json is missing")),
        }
    }
}
