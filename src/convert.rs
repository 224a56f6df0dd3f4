//! From GGUF or safetensors to shards that load as a copy ([`crate::format::manifest`]): one shard in memory at a time,
//! another on its way to the disk, and what is finished is not made again after an interruption.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use bytemuck::cast_slice;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::base::Cancel;
use crate::blocks::WeightType;
use crate::error::{Error, Result};
use crate::format::manifest::{
    self, ALIGNMENT, Config, File, Hints, Layout, Manifest, SHARD_BYTES, Segment, Tensor, sha256,
};
use crate::format::{Checkpoint, TensorInfo};
use crate::layout::BufferId;
use crate::model::rope::{ROPE_FACTORS, ROPE_FREQS};
use crate::model::{self, AskedPooling, Reserve};
use crate::source::Files;
use crate::source::disk::io_error;
use crate::source::spec::names::MANIFEST;
use crate::text::{TemplateSource, Tokenizer};
use crate::weights::{Recipe, encode};

/// Where a conversion under way keeps what is finished, beside the shards.
const JOURNAL: &str = "unfinished.json";
/// Bytes of the source that are repacked together.
const PIECE: usize = 16 << 20;

/// How to convert.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The type of matrices that are F32, F16 or BF16 in the source.
    pub quantize: Option<Recipe>,
    /// Most bytes of a shard, at most [`SHARD_BYTES`].
    pub shard_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { quantize: None, shard_bytes: SHARD_BYTES }
    }
}

/// How far a conversion is.
#[derive(Debug, Clone, Copy)]
pub struct Converted {
    /// Bytes of the shards that are made.
    pub done: u64,
    /// Bytes of all shards.
    pub total: u64,
    /// Of those made, bytes that an earlier run has made.
    pub kept: u64,
}

/// A tensor and how it is stored.
struct Planned<'a> {
    info: &'a TensorInfo,
    /// `None`: copied unchanged.
    matrix: Option<Matrix>,
    segments: Vec<Segment>,
}

#[derive(Clone, Copy)]
struct Matrix {
    kind: WeightType,
    k: usize,
    rows: usize,
    columns: bool,
}

#[derive(Serialize, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Journal {
    version: u32,
    /// Hash of the source and of the conversion's settings.
    fingerprint: String,
    /// Hashes of the finished shards, from the first on.
    shards: Vec<String>,
}

/// Converts a model into the folder `out`, which is made where it is not there, and returns its manifest. A folder with
/// the remains of a conversion of the same source is continued.
///
/// # Errors
/// `BAD_OPTION` where `out` holds something else, or the source is in shards already; the source's own errors;
/// `STORAGE`; `ABORTED`.
pub async fn convert(
    files: &Files,
    out: &Path,
    options: Options,
    progress: &mut dyn FnMut(Converted),
    cancel: &Cancel,
) -> Result<Manifest> {
    let Options { quantize, shard_bytes } = options;
    if shard_bytes > SHARD_BYTES {
        return Err(Error::bad_option(format!("shards of {shard_bytes} bytes: at most {SHARD_BYTES} are allowed")));
    }
    let checkpoint = Checkpoint::open(files).await?;
    if checkpoint.packed.is_some() {
        return Err(Error::bad_option(
            "the model is in shards already: it loads as it is; to quantize it otherwise convert its GGUF or safetensors files",
        ));
    }
    // What would not load is not worth converting.
    Tokenizer::open(&checkpoint)?;
    let mut buffers = 0;
    let mut buffer = |_, _| {
        buffers += 1;
        BufferId(buffers - 1)
    };
    let model = model::open(
        &checkpoint,
        &mut Reserve { max_binding: u64::MAX, quantize, pooling: AskedPooling::Auto, buffer: &mut buffer },
    )?;
    if let Some(recipe) = quantize
        && crate::weights::conversions(&checkpoint, &model.matrices())?.is_empty()
    {
        return Err(crate::weights::nothing_to_quantize(recipe));
    }
    let (tensors, shards) = lay_out(&checkpoint, model.as_ref(), shard_bytes)?;
    let (config, tokenizer) = Config::of(&checkpoint)?;
    let templates = TemplateSource::of(&checkpoint)?;
    let folder = Folder::open(out, fingerprint(&checkpoint, options).await?, &shards)?;

    let hashes = folder.write_shards(&checkpoint, &tensors, &shards, progress, cancel).await?;
    let name = |i: usize| shard_name(i, shards.len());
    let manifest = Manifest {
        format: "millrace".into(),
        version: manifest::VERSION,
        architecture: model.config().architecture.into(),
        name: crate::engine::model_name(&checkpoint),
        parameters: checkpoint.tensors.values().map(TensorInfo::elements).sum(),
        config,
        tokenizer: File { file: manifest::TOKENIZER.into(), bytes: tokenizer.len() as u64, sha256: sha256(&tokenizer) },
        template: templates
            .iter()
            .flat_map(TemplateSource::iter)
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .collect(),
        shards: hashes
            .into_iter()
            .enumerate()
            .map(|(i, sha256)| File { file: name(i), bytes: shards[i], sha256 })
            .collect(),
        tensors: tensors.into_iter().map(Planned::described).collect(),
        hints: Hints::default(),
    };
    let text = serde_json::to_vec(&manifest).map_err(|e| Error::internal(format!("{MANIFEST}: {e}")))?;
    // A reader must not refuse it.
    Manifest::parse(&text)?;
    put(out, manifest::TOKENIZER, &tokenizer)?;
    put(out, MANIFEST, &text)?;
    fs::remove_file(out.join(JOURNAL)).map_err(|e| io_error(&out.join(JOURNAL), &e))?;
    Ok(manifest)
}

fn shard_name(index: usize, count: usize) -> String {
    format!("shard-{:05}-of-{count:05}.bin", index + 1)
}

/// What tells one conversion from another.
async fn fingerprint(checkpoint: &Checkpoint, options: Options) -> Result<String> {
    let lengths: Vec<_> = checkpoint.files.iter().map(|f| f.len()).collect();
    let what = format!("{} {lengths:?} {options:?}", checkpoint.fingerprint().await?);
    Ok(sha256(what.as_bytes()))
}

/// Every tensor that the model reads, in the order in which a loader reads them, and the length of each shard.
fn lay_out<'a>(
    checkpoint: &'a Checkpoint,
    model: &dyn model::Model,
    shard_bytes: u64,
) -> Result<(Vec<Planned<'a>>, Vec<u64>)> {
    let mut order: IndexMap<&str, Option<Matrix>> = IndexMap::new();
    let vectors =
        model.vectors().iter().flat_map(|(_, source)| &source.parts).filter_map(|part| part.tensor.as_deref());
    let rope = [ROPE_FREQS, ROPE_FACTORS[0], ROPE_FACTORS[1]]
        .into_iter()
        .filter(|name| checkpoint.tensors.contains_key(*name));
    order.extend(rope.chain(vectors).map(|name| (name, None)));
    let matrices = model.matrices();
    for matrix in &matrices {
        for slice in matrix.parts.iter().flat_map(|part| &part.slices) {
            let rows = (checkpoint.tensor(&slice.tensor)?.elements() / matrix.k as u64) as usize;
            order
                .insert(&slice.tensor, Some(Matrix { kind: slice.kind, k: matrix.k, rows, columns: slice.transposed }));
        }
    }
    let (mut shards, mut planned) = (vec![0u64], Vec::new());
    for (name, matrix) in order {
        let info = checkpoint.tensor(name)?;
        let mut segments = Vec::new();
        let (mut left, row_blocks) =
            matrix.map_or((1, 0), |m| (m.rows as u64, m.k.div_ceil(crate::blocks::BLOCK) as u64));
        while left > 0 {
            let at = shards.len() - 1;
            let offset = shards[at].next_multiple_of(ALIGNMENT);
            let room = shard_bytes.saturating_sub(offset);
            let bytes = |rows: u64| {
                matrix
                    .map_or(Some(info.bytes), |m| manifest::segment_bytes(m.kind, rows, row_blocks))
                    .unwrap_or(u64::MAX)
            };
            let rows = most(left, |rows| bytes(rows) <= room);
            if rows == 0 {
                if shards[at] == 0 {
                    return Err(Error::unsupported(format!(
                        "a row of tensor {name} is larger than a shard of {shard_bytes} bytes"
                    )));
                }
                shards.push(0);
                continue;
            }
            segments.push(Segment { shard: at, offset, length: bytes(rows), rows });
            shards[at] = offset + bytes(rows);
            left -= rows;
        }
        planned.push(Planned { info, matrix, segments });
    }
    Ok((planned, shards))
}

/// The largest n up to `limit` for which `fits` holds, which it does for all smaller ones.
fn most(limit: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

impl Planned<'_> {
    fn described(self) -> Tensor {
        let dtype = self.matrix.map_or(self.info.dtype, |m| m.kind.dtype());
        Tensor {
            name: self.info.name.clone(),
            dtype: dtype.name().into(),
            converted_from: (dtype != self.info.dtype).then(|| self.info.dtype.name().into()),
            shape: self.info.shape.clone(),
            layout: match self.matrix {
                None => Layout::Plain,
                Some(m) if m.columns => Layout::Columns,
                Some(_) => Layout::Blocks,
            },
            segments: self.segments,
        }
    }

    /// Writes rows `first ..` of the tensor, as many as `segment` holds, into its place in a shard.
    async fn pack(&self, checkpoint: &Checkpoint, first: usize, segment: &Segment, shard: &mut [u8]) -> Result<()> {
        let place = &mut shard[segment.offset as usize..(segment.offset + segment.length) as usize];
        let Some(Matrix { kind, k, columns, .. }) = self.matrix else {
            place.copy_from_slice(&checkpoint.read(self.info, 0, self.info.bytes as usize).await?);
            return Ok(());
        };
        let dtype = self.info.dtype;
        let turned = match columns {
            true => Some(crate::weights::transpose(
                &checkpoint.read(self.info, 0, self.info.bytes as usize).await?,
                k,
                dtype.block_bytes() as usize,
            )),
            false => None,
        };
        let row = dtype.bytes_of(k as u64).ok_or_else(|| {
            Error::bad_model(format!("tensor {}: rows of {k} elements are not whole blocks", self.info.name))
        })?;
        let (row, rows) = (row as usize, segment.rows as usize);
        let quants = rows * k.div_ceil(crate::blocks::BLOCK) * kind.quant_words() * 4;
        let (mut wq, mut ws) = place.split_at_mut(quants);
        let mut done = 0;
        while done < rows {
            let n = (PIECE / row).clamp(1, rows - done);
            let at = (first + done) * row;
            let read;
            let raw = match &turned {
                Some(turned) => &turned[at..at + n * row],
                None => {
                    read = checkpoint.read(self.info, at as u64, n * row).await?;
                    &read
                }
            };
            for packed in encode_parallel(kind, dtype, raw, n, k, row)? {
                let (quants, rest) = wq.split_at_mut(packed.wq.len() * 4);
                quants.copy_from_slice(cast_slice(&packed.wq));
                wq = rest;
                let (scales, rest) = ws.split_at_mut(packed.scales.len());
                scales.copy_from_slice(&packed.scales);
                ws = rest;
            }
            done += n;
        }
        Ok(())
    }
}

/// [`encode`] on all cores: quantization is arithmetic.
fn encode_parallel(
    kind: WeightType,
    dtype: crate::blocks::DType,
    raw: &[u8],
    rows: usize,
    k: usize,
    row: usize,
) -> Result<Vec<crate::blocks::Packed>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(rows);
    if kind.dtype() == dtype || threads == 1 {
        return Ok(vec![encode(kind, dtype, raw, rows, k)?]);
    }
    std::thread::scope(|scope| {
        let parts = raw
            .chunks(rows.div_ceil(threads) * row)
            .map(|part| scope.spawn(move || encode(kind, dtype, part, part.len() / row, k)));
        let parts: Vec<_> = parts.collect();
        parts
            .into_iter()
            .map(|part| part.join().map_err(|_| Error::internal("a thread that quantizes has panicked"))?)
            .collect()
    })
}

/// The folder that is written into.
struct Folder {
    path: PathBuf,
    journal: Journal,
}

impl Folder {
    /// Makes the folder, or takes up what an earlier run has left in it.
    fn open(path: &Path, fingerprint: String, shards: &[u64]) -> Result<Self> {
        fs::create_dir_all(path).map_err(|e| io_error(path, &e))?;
        if path.join(MANIFEST).exists() {
            return Err(Error::bad_option(format!(
                "{}: holds a model already; remove it, or name another folder",
                path.display()
            )));
        }
        let mut journal = Journal { version: 1, fingerprint, shards: Vec::new() };
        match fs::read(path.join(JOURNAL)) {
            Ok(text) => {
                let left: Option<Journal> = serde_json::from_slice(&text).ok();
                match left.filter(|left| left.version == journal.version && left.fingerprint == journal.fingerprint) {
                    Some(left) => journal.shards = left.shards,
                    None => {
                        return Err(Error::bad_option(format!(
                            "{}: holds an unfinished conversion of another model or with other options; remove it, or name another folder",
                            path.display()
                        )));
                    }
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                if fs::read_dir(path).map_err(|e| io_error(path, &e))?.next().is_some() {
                    return Err(Error::bad_option(format!("{}: is not empty; name a new folder", path.display())));
                }
            }
            Err(e) => return Err(io_error(&path.join(JOURNAL), &e)),
        }
        // A shard is kept if its bytes are those that were written.
        let whole = |(i, hash): (usize, &String)| {
            let bytes = fs::read(path.join(shard_name(i, shards.len()))).unwrap_or_default();
            shards.get(i).is_some_and(|length| bytes.len() as u64 == *length) && sha256(&bytes) == *hash
        };
        let kept = journal.shards.iter().enumerate().take_while(|shard| whole(*shard)).count();
        journal.shards.truncate(kept);
        let folder = Self { path: path.into(), journal };
        folder.keep_journal()?;
        Ok(folder)
    }

    fn keep_journal(&self) -> Result<()> {
        put(
            &self.path,
            JOURNAL,
            &serde_json::to_vec(&self.journal).map_err(|e| Error::internal(format!("{JOURNAL}: {e}")))?,
        )
    }

    /// Makes the shards that are not there and returns the hashes of all.
    async fn write_shards(
        self,
        checkpoint: &Checkpoint,
        tensors: &[Planned<'_>],
        shards: &[u64],
        progress: &mut dyn FnMut(Converted),
        cancel: &Cancel,
    ) -> Result<Vec<String>> {
        let first = self.journal.shards.len();
        let (total, kept) = (shards.iter().sum(), shards[..first].iter().sum());
        let mut done = kept;
        progress(Converted { done, total, kept });
        // Hashing and writing take about as long as repacking does.
        let (send, receive) = mpsc::sync_channel::<Vec<u8>>(0);
        let count = shards.len();
        let writer = std::thread::spawn(move || self.write(&receive, count));
        let made = async {
            for (i, length) in shards.iter().enumerate().skip(first) {
                cancel.check()?;
                let mut shard = vec![0; *length as usize];
                for tensor in tensors {
                    let mut row = 0;
                    for segment in &tensor.segments {
                        if segment.shard == i {
                            tensor
                                .pack(checkpoint, row, segment, &mut shard)
                                .await
                                .map_err(|e| e.at(&tensor.info.name))?;
                        }
                        row += segment.rows as usize;
                    }
                }
                // The writer has given up: it says why.
                if send.send(shard).is_err() {
                    break;
                }
                done += length;
                progress(Converted { done, total, kept });
            }
            Ok(())
        };
        let made = made.await;
        drop(send);
        // Nothing is written any more once this returns.
        let written = writer.join().map_err(|_| Error::internal("the thread that writes shards has panicked"))?;
        made.and(written)
    }

    /// Writes what is received and returns the hashes of all shards.
    fn write(mut self, shards: &mpsc::Receiver<Vec<u8>>, count: usize) -> Result<Vec<String>> {
        for shard in shards {
            put(&self.path, &shard_name(self.journal.shards.len(), count), &shard)?;
            self.journal.shards.push(sha256(&shard));
            self.keep_journal()?;
        }
        Ok(self.journal.shards)
    }
}

/// Writes a file under another name first: it is there whole or not at all.
fn put(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let (path, temporary) = (folder.join(name), folder.join(format!("{name}.new")));
    let write = || {
        let mut file = fs::File::create(&temporary)?;
        file.write_all(bytes)?;
        drop(file);
        fs::rename(&temporary, &path)
    };
    write().map_err(|e| io_error(&path, &e))
}
