//! Streams the checkpoint's tensors into GPU buffers: a few MiB at a time, whatever the model's size. What lies in shards is copied, the rest
//! repacked, or quantized.

use bytemuck::cast_slice;
use futures_util::future::LocalBoxFuture;

use super::{BLOCK, Matrix, Packed, Part, RowSlice, VectorSource, WeightType, dequantize, quantize, repack};
use crate::error::{Error, Result};
use crate::format::manifest::PackedTensor;
use crate::format::{Checkpoint, DType, TensorInfo};
use crate::plan::BufferId;
use crate::stream::{Cancel, now_ms};

/// Where weights go: GPU buffers, or host memory for the twins.
pub trait Sink {
    /// Writes whole words into a buffer at a byte offset, as soon as there is room on the way.
    fn write<'a>(&'a self, buffer: BufferId, offset: u64, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>>;
    /// Waits until everything has arrived.
    fn finish(&self) -> LocalBoxFuture<'_, Result<()>>;
}

/// Bytes of a tensor that are in host memory at one time.
const PIECE: usize = 4 << 20;

/// Bytes of the checkpoint that [`load`] reads: some twice, others not at all.
pub fn bytes_to_read(checkpoint: &Checkpoint, matrices: &[Matrix], vectors: &[(BufferId, VectorSource)]) -> Result<u64> {
    let tensors = vectors.iter().flat_map(|(_, source)| &source.parts).filter_map(|part| part.tensor.as_ref());
    let mut bytes = tensors.map(|name| checkpoint.tensor(name).map(|info| info.bytes)).sum::<Result<u64>>()?;
    for matrix in matrices {
        for part in &matrix.parts {
            for slice in &part.slices {
                bytes += slice.rows as u64 * row_bytes_of(checkpoint, checkpoint.tensor(&slice.tensor)?, matrix.k)?;
            }
        }
    }
    Ok(bytes)
}

/// Where the time of loading weights went, ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct LoadTimes {
    /// Waiting for the source's bytes.
    pub read: f64,
    /// Repacking, decoding and quantizing.
    pub encode: f64,
    /// Handing them to the GPU and waiting for it to take them.
    pub write: f64,
}

/// Reads every matrix and vector and hands it to the sink; `done(bytes)` is called after each piece of the checkpoint.
pub async fn load(
    checkpoint: &Checkpoint,
    matrices: &[Matrix],
    vectors: &[(BufferId, VectorSource)],
    cancel: &Cancel,
    sink: &dyn Sink,
    done: &mut dyn FnMut(u64),
) -> Result<LoadTimes> {
    let mut times = LoadTimes::default();
    for job in in_order(checkpoint, matrices, vectors)? {
        cancel.check()?;
        match job {
            Job::Vector(buffer, source) => load_vector(checkpoint, buffer, source, sink, done).await?,
            Job::Part(k, part) => load_part(checkpoint, k, part, cancel, sink, &mut times, done).await?,
        }
    }
    let started = now_ms();
    sink.finish().await?;
    times.write += now_ms() - started;
    Ok(times)
}

/// One thing to load.
enum Job<'a> {
    Vector(BufferId, &'a VectorSource),
    /// Some rows of a matrix, and the length of a row.
    Part(usize, &'a Part),
}

/// All there is to load, in the order in which the last bytes of each stand in the checkpoint: so do they arrive, where they arrive.
fn in_order<'a>(checkpoint: &Checkpoint, matrices: &'a [Matrix], vectors: &'a [(BufferId, VectorSource)]) -> Result<Vec<Job<'a>>> {
    let end = |name: &str| {
        let info = checkpoint.tensor(name)?;
        let packed = packed(checkpoint, info).and_then(|p| p.segments.iter().map(|s| (s.shard, s.offset + s.length)).max());
        Ok::<_, Error>(packed.unwrap_or((info.file, info.end())))
    };
    let mut jobs = Vec::new();
    for (buffer, source) in vectors {
        let mut last = (0, 0);
        for name in source.parts.iter().filter_map(|part| part.tensor.as_deref()) {
            last = last.max(end(name)?);
        }
        jobs.push((last, Job::Vector(*buffer, source)));
    }
    for matrix in matrices {
        for part in &matrix.parts {
            let mut last = (0, 0);
            for slice in &part.slices {
                last = last.max(end(&slice.tensor)?);
            }
            jobs.push((last, Job::Part(matrix.k, part)));
        }
    }
    jobs.sort_by_key(|(last, _)| *last);
    Ok(jobs.into_iter().map(|(_, job)| job).collect())
}

async fn load_vector(checkpoint: &Checkpoint, buffer: BufferId, source: &VectorSource, sink: &dyn Sink, done: &mut dyn FnMut(u64)) -> Result<()> {
    let mut values: Vec<f32> = Vec::new();
    for part in &source.parts {
        let Some(name) = &part.tensor else {
            values.resize(values.len() + part.len, 0.0);
            continue;
        };
        let info = super::matrix::expect(checkpoint, name, &[part.len])?;
        let raw = checkpoint.read(info, 0, info.bytes as usize).await?;
        let first = values.len();
        dequantize(info.dtype, &raw, &mut values).map_err(|e| e.at(name))?;
        values[first..].iter_mut().for_each(|x| *x = (*x + source.offset) * source.scale);
        done(info.bytes);
    }
    sink.write(buffer, 0, cast_slice(&values)).await
}

async fn load_part(
    checkpoint: &Checkpoint,
    k: usize,
    part: &Part,
    cancel: &Cancel,
    sink: &dyn Sink,
    times: &mut LoadTimes,
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    // What of the scales is written, in bytes, and a half-word that waits for its neighbour.
    let (mut at, mut scales_at, mut scales) = (0u64, 0u64, Vec::<u16>::new());
    for slice in &part.slices {
        let info = checkpoint.tensor(&slice.tensor)?;
        let mut rows = Rows::of(checkpoint, info, slice, k).await?;
        let mut row = slice.row0;
        while row < slice.row0 + slice.rows {
            cancel.check()?;
            let piece = rows.read(row, slice.row0 + slice.rows - row, times).await.map_err(|e| e.at(&slice.tensor))?;
            let started = now_ms();
            sink.write(part.wq, at, piece.quants()).await?;
            at += piece.quants().len() as u64;
            scales.extend_from_slice(&piece.scales);
            let whole = scales.len() / 2 * 2;
            if let Some(ws) = part.ws.filter(|_| whole > 0) {
                sink.write(ws, scales_at, cast_slice(&scales[..whole])).await?;
                scales_at += whole as u64 * 2;
                scales.drain(..whole);
            }
            times.write += now_ms() - started;
            row += piece.rows;
            done(piece.bytes_read);
        }
    }
    if let (Some(ws), [last]) = (part.ws, scales.as_slice()) {
        sink.write(ws, scales_at, cast_slice(&[*last, 0])).await?;
    }
    Ok(())
}

/// Some rows in the GPU's layout.
struct Piece {
    rows: usize,
    quants: Quants,
    scales: Vec<u16>,
    /// Bytes of the checkpoint that they were.
    bytes_read: u64,
}

enum Quants {
    Words(Vec<u32>),
    Bytes(Vec<u8>),
}

impl Piece {
    fn quants(&self) -> &[u8] {
        match &self.quants {
            Quants::Words(words) => cast_slice(words),
            Quants::Bytes(bytes) => bytes,
        }
    }
}

/// Reads the rows of a tensor, [`PIECE`] bytes at most at a time.
struct Rows<'a> {
    checkpoint: &'a Checkpoint,
    info: &'a TensorInfo,
    kind: WeightType,
    k: usize,
    source: RowSource<'a>,
}

enum RowSource<'a> {
    /// Rows in the checkpoint's layout.
    Raw,
    /// All of a matrix of columns, turned.
    Turned(Vec<u8>),
    /// Rows in the GPU's layout.
    Packed(&'a PackedTensor),
}

/// The tensor's rows in the GPU's layout, where the checkpoint has them so.
fn packed<'a>(checkpoint: &'a Checkpoint, info: &TensorInfo) -> Option<&'a PackedTensor> {
    checkpoint.packed.as_ref()?.tensors.get(&info.name)
}

/// Bytes of a row in the checkpoint.
fn row_bytes_of(checkpoint: &Checkpoint, info: &TensorInfo, k: usize) -> Result<u64> {
    if packed(checkpoint, info).is_some() {
        return Ok(info.bytes * k as u64 / info.elements());
    }
    info.dtype.bytes_of(k as u64).ok_or_else(|| Error::bad_model(format!("tensor {}: a {} row of {k} elements is not whole blocks", info.name, info.dtype)))
}

impl<'a> Rows<'a> {
    async fn of(checkpoint: &'a Checkpoint, info: &'a TensorInfo, slice: &RowSlice, k: usize) -> Result<Self> {
        let source = match packed(checkpoint, info) {
            Some(packed) if packed.columns != slice.transposed => {
                return Err(Error::bad_model(format!(
                    "tensor {} is stored by {}, the model reads the other",
                    info.name,
                    if packed.columns { "columns" } else { "rows" }
                )));
            }
            Some(packed) => RowSource::Packed(packed),
            None if slice.transposed => {
                RowSource::Turned(transpose(&checkpoint.read(info, 0, info.bytes as usize).await?, k, info.dtype.block_bytes() as usize))
            }
            None => RowSource::Raw,
        };
        Ok(Self { checkpoint, info, kind: slice.kind, k, source })
    }

    /// Rows from `row` on: at least one, at most `most`.
    async fn read(&mut self, row: usize, most: usize, times: &mut LoadTimes) -> Result<Piece> {
        let started = now_ms();
        if let RowSource::Packed(packed) = self.source {
            let piece = self.read_packed(packed, row, most).await;
            times.read += now_ms() - started;
            return piece;
        }
        let bytes = row_bytes_of(self.checkpoint, self.info, self.k)? as usize;
        let rows = (PIECE / bytes).clamp(1, most);
        let raw = match &self.source {
            RowSource::Turned(turned) => turned[row * bytes..(row + rows) * bytes].to_vec(),
            _ => self.checkpoint.read(self.info, row as u64 * bytes as u64, rows * bytes).await?,
        };
        let read = now_ms();
        let Packed { wq, scales } = encode(self.kind, self.info.dtype, &raw, rows, self.k)?;
        times.read += read - started;
        times.encode += now_ms() - read;
        Ok(Piece { rows, quants: Quants::Words(wq), scales, bytes_read: raw.len() as u64 })
    }

    async fn read_packed(&self, packed: &PackedTensor, row: usize, most: usize) -> Result<Piece> {
        let mut first = 0;
        let Some(segment) = packed.segments.iter().find(|s| {
            first += s.rows;
            (row as u64) < first
        }) else {
            return Err(Error::internal(format!("row {row} of {} is in no segment", self.info.name)));
        };
        let (first, left) = (row as u64 + segment.rows - first, (first - row as u64) as usize);
        let row_blocks = self.k.div_ceil(BLOCK) as u64;
        let row_quants = row_blocks * self.kind.quant_words() as u64 * 4;
        let scales_of = |rows: u64| self.kind.scale_halves(rows * row_blocks) * 2;
        let rows = (PIECE / row_quants as usize).max(1).min(most).min(left);
        let quants = self.checkpoint.read_segment(segment, first * row_quants, rows * row_quants as usize).await?;
        let from = scales_of(first);
        let scales = match scales_of(first + rows as u64) - from {
            0 => Vec::new(),
            n => self.checkpoint.read_segment(segment, segment.rows * row_quants + from, n as usize).await?,
        };
        let bytes_read = (quants.len() + scales.len()) as u64;
        let scales = scales.chunks_exact(2).map(|h| u16::from_le_bytes([h[0], h[1]])).collect();
        Ok(Piece { rows, quants: Quants::Bytes(quants), scales, bytes_read })
    }
}

/// `rows` rows of `k` elements of a checkpoint's type, as kernels read `kind`: repacked where that is the same type, otherwise decoded and
/// quantized.
pub fn encode(kind: WeightType, dtype: DType, raw: &[u8], rows: usize, k: usize) -> Result<Packed> {
    if kind.dtype() == dtype {
        return repack(kind, raw, rows, k);
    }
    let mut values = Vec::new();
    dequantize(dtype, raw, &mut values)?;
    let mut blocks = Vec::new();
    quantize(kind, &values, &mut blocks)?;
    repack(kind, &blocks, rows, k)
}

/// `[K, N]` elements of `size` bytes as `[N, K]`.
pub(crate) fn transpose(raw: &[u8], k: usize, size: usize) -> Vec<u8> {
    let n = raw.len() / size / k;
    let mut out = vec![0; raw.len()];
    for (i, element) in raw.chunks_exact(size).enumerate() {
        let at = (i % n * k + i / n) * size;
        out[at..at + size].copy_from_slice(element);
    }
    out
}
