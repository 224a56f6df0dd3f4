//! Streams the checkpoint's tensors into GPU buffers: a few MiB at a time, whatever the model's size. What lies in
//! shards is copied, the rest repacked, or quantized.

use bytemuck::cast_slice;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesOrdered, StreamExt};

use super::{Matrix, Part, VectorSource};
use crate::base::{Cancel, now_ms};
use crate::blocks::{BLOCK, DType, Packed, WeightType, dequantize, quantize, repack, transcode};
use crate::error::{Error, Result};
use crate::format::manifest::{PackedTensor, Segment};
use crate::format::{Checkpoint, TensorInfo};
use crate::layout::BufferId;

/// Where weights go: GPU buffers, or host memory for the twins.
pub trait Sink {
    /// Writes whole words into a buffer at a byte offset, as soon as there is room on the way.
    fn write<'a>(&'a self, buffer: BufferId, offset: u64, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>>;
    /// Waits until everything has arrived.
    fn finish(&self) -> LocalBoxFuture<'_, Result<()>>;
}

/// Bytes of a tensor that are read at one time.
const PIECE: usize = 4 << 20;
/// Bytes that are in host memory at one time, or one piece if that has more.
const AHEAD: u64 = 4 * PIECE as u64;

/// Bytes of the checkpoint that [`load`] reads: some twice, others not at all.
pub fn bytes_to_read(
    checkpoint: &Checkpoint,
    matrices: &[Matrix],
    vectors: &[(BufferId, VectorSource)],
) -> Result<u64> {
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
/// While one piece is encoded and written the next ones are already being read, where the source reads beside this
/// thread.
pub async fn load(
    checkpoint: &Checkpoint,
    matrices: &[Matrix],
    vectors: &[(BufferId, VectorSource)],
    cancel: &Cancel,
    sink: &dyn Sink,
    done: &mut dyn FnMut(u64),
) -> Result<LoadTimes> {
    let mut times = LoadTimes::default();
    let mut waiting = pieces(checkpoint, in_order(checkpoint, matrices, vectors)?)?.into_iter().peekable();
    let (mut reads, mut ahead) = (FuturesOrdered::new(), 0);
    let mut writing = Writing::default();
    loop {
        cancel.check()?;
        while let Some(piece) = waiting.next_if(|piece| reads.is_empty() || ahead + piece.held() <= AHEAD) {
            ahead += piece.held();
            reads.push_back(async move { (piece.read(checkpoint).await, piece) });
        }
        let started = now_ms();
        let Some((raw, piece)) = reads.next().await else { break };
        times.read += now_ms() - started;
        piece.write(raw?, checkpoint, &mut writing, sink, &mut times).await?;
        ahead -= piece.held();
        done(piece.bytes);
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

/// All there is to load, in the order in which the last bytes of each stand in the checkpoint: so do they arrive, where
/// they arrive.
fn in_order<'a>(
    checkpoint: &Checkpoint,
    matrices: &'a [Matrix],
    vectors: &'a [(BufferId, VectorSource)],
) -> Result<Vec<Job<'a>>> {
    let end = |name: &str| {
        let info = checkpoint.tensor(name)?;
        let packed =
            packed(checkpoint, info).and_then(|p| p.segments.iter().map(|s| (s.shard, s.offset + s.length)).max());
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

/// What is read at one time.
struct Piece<'a> {
    what: What<'a>,
    /// Bytes of the checkpoint.
    bytes: u64,
}

enum What<'a> {
    Vector(BufferId, &'a VectorSource),
    Rows(Rows<'a>),
}

/// Some rows of a tensor.
struct Rows<'a> {
    part: &'a Part,
    info: &'a TensorInfo,
    kind: WeightType,
    k: usize,
    /// How many.
    rows: usize,
    from: From<'a>,
    /// Whether they are the part's first, and its last.
    first: bool,
    last: bool,
}

/// Where rows are.
#[derive(Clone, Copy)]
enum From<'a> {
    /// In the tensor from this byte on, in the checkpoint's layout.
    Raw(u64),
    /// From this row on, in a matrix of columns, all of which has to be read.
    Turned(usize),
    /// In the GPU's layout: where in the segment their quants are and where their scales, and how many bytes.
    Packed(&'a Segment, (u64, usize), (u64, usize)),
}

/// What was read.
enum Raw {
    /// The tensors of a vector.
    Tensors(Vec<Vec<u8>>),
    Rows(Vec<u8>),
    /// Quants and scales.
    Packed(Vec<u8>, Vec<u8>),
}

/// How far a part has been written.
#[derive(Default)]
struct Writing {
    /// What of the quants and of the scales is written, in bytes.
    at: u64,
    scales_at: u64,
    /// Scales that wait for the rest of their word.
    scales: Vec<u8>,
}

/// The pieces of all jobs, in order.
fn pieces<'a>(checkpoint: &'a Checkpoint, jobs: Vec<Job<'a>>) -> Result<Vec<Piece<'a>>> {
    let mut pieces = Vec::new();
    for job in jobs {
        let (k, part) = match job {
            Job::Part(k, part) => (k, part),
            Job::Vector(buffer, source) => {
                let mut bytes = 0;
                for part in &source.parts {
                    if let Some(name) = &part.tensor {
                        let info = checkpoint.tensor(name)?;
                        if info.elements() != part.len as u64 {
                            return Err(Error::bad_model(format!(
                                "tensor {name} has {} elements, the model reads {}",
                                info.elements(),
                                part.len
                            )));
                        }
                        bytes += info.bytes;
                    }
                }
                pieces.push(Piece { what: What::Vector(buffer, source), bytes });
                continue;
            }
        };
        let begin = pieces.len();
        for slice in &part.slices {
            let info = checkpoint.tensor(&slice.tensor)?;
            let row_bytes = row_bytes_of(checkpoint, info, k)?;
            let mut row = slice.row0;
            while row < slice.row0 + slice.rows {
                let left = slice.row0 + slice.rows - row;
                let (rows, from, bytes) = match packed(checkpoint, info) {
                    Some(packed) if packed.columns != slice.transposed => {
                        let by = if packed.columns { "columns" } else { "rows" };
                        return Err(Error::bad_model(format!(
                            "tensor {} is stored by {by}, the model reads the other",
                            info.name
                        )));
                    }
                    Some(packed) => packed_rows(packed, slice.kind, k, row, left, &info.name)?,
                    None if slice.transposed => (left, From::Turned(row), left as u64 * row_bytes),
                    None => {
                        let rows = (PIECE as u64 / row_bytes).clamp(1, left as u64);
                        (rows as usize, From::Raw(row as u64 * row_bytes), rows * row_bytes)
                    }
                };
                row += rows;
                pieces.push(Piece {
                    what: What::Rows(Rows { part, info, kind: slice.kind, k, rows, from, first: false, last: false }),
                    bytes,
                });
            }
        }
        let count = pieces.len();
        for (index, piece) in pieces.iter_mut().enumerate().skip(begin) {
            if let What::Rows(rows) = &mut piece.what {
                (rows.first, rows.last) = (index == begin, index + 1 == count);
            }
        }
    }
    Ok(pieces)
}

/// Rows from `row` on, at most `most`, of a tensor in the GPU's layout: how many, where, and their bytes.
fn packed_rows<'a>(
    packed: &'a PackedTensor,
    kind: WeightType,
    k: usize,
    row: usize,
    most: usize,
    name: &str,
) -> Result<(usize, From<'a>, u64)> {
    let mut first = 0;
    let Some(segment) = packed.segments.iter().find(|s| {
        first += s.rows;
        (row as u64) < first
    }) else {
        return Err(Error::internal(format!("row {row} of {name} is in no segment")));
    };
    let (first, left) = (row as u64 + segment.rows - first, (first - row as u64) as usize);
    let row_blocks = k.div_ceil(BLOCK) as u64;
    let row_quants = row_blocks * kind.quant_words() as u64 * 4;
    let scales_of = |rows: u64| kind.scale_len(rows * row_blocks);
    let rows = (PIECE / row_quants as usize).max(1).min(most).min(left);
    let quants = rows as u64 * row_quants;
    let scales = scales_of(first + rows as u64) - scales_of(first);
    let from = From::Packed(
        segment,
        (first * row_quants, quants as usize),
        (segment.rows * row_quants + scales_of(first), scales as usize),
    );
    Ok((rows, from, quants + scales))
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
    info.dtype.bytes_of(k as u64).ok_or_else(|| {
        Error::bad_model(format!("tensor {}: a {} row of {k} elements is not whole blocks", info.name, info.dtype))
    })
}

impl Piece<'_> {
    async fn read(&self, checkpoint: &Checkpoint) -> Result<Raw> {
        match &self.what {
            What::Vector(_, source) => {
                let mut tensors = Vec::new();
                for name in source.parts.iter().filter_map(|part| part.tensor.as_deref()) {
                    let info = checkpoint.tensor(name)?;
                    tensors.push(checkpoint.read(info, 0, info.bytes as usize).await?);
                }
                Ok(Raw::Tensors(tensors))
            }
            What::Rows(Rows { info, from, .. }) => match *from {
                From::Raw(offset) => checkpoint.read(info, offset, self.bytes as usize).await.map(Raw::Rows),
                From::Turned(_) => checkpoint.read(info, 0, info.bytes as usize).await.map(Raw::Rows),
                From::Packed(segment, quants, scales) => {
                    let read = async |(offset, len)| {
                        if len == 0 { Ok(Vec::new()) } else { checkpoint.read_segment(segment, offset, len).await }
                    };
                    let both = async { Ok(Raw::Packed(read(quants).await?, read(scales).await?)) };
                    both.await.map_err(|e: Error| e.at(&info.name))
                }
            },
        }
    }

    /// Bytes that it takes in host memory.
    fn held(&self) -> u64 {
        match &self.what {
            What::Rows(Rows { info, from: From::Turned(_), .. }) => info.bytes,
            _ => self.bytes,
        }
    }

    /// Has what was read in the GPU's layout, and hands it over.
    async fn write(
        &self,
        raw: Raw,
        checkpoint: &Checkpoint,
        writing: &mut Writing,
        sink: &dyn Sink,
        times: &mut LoadTimes,
    ) -> Result<()> {
        let rows = match (&self.what, &raw) {
            (What::Rows(rows), _) => rows,
            (What::Vector(buffer, source), Raw::Tensors(tensors)) => {
                return sink.write(*buffer, 0, cast_slice(&vector(source, tensors, checkpoint)?)).await;
            }
            _ => return Err(Error::internal("rows were read for a vector")),
        };
        if rows.first {
            *writing = Writing::default();
        }
        match raw {
            Raw::Packed(quants, scales) => rows.write(&quants, &scales, writing, sink, times).await?,
            Raw::Rows(raw) => rows.encode(raw, writing, sink, times).await?,
            Raw::Tensors(_) => return Err(Error::internal("a vector was read for rows")),
        }
        if let (true, Some(ws), [_, ..]) = (rows.last, rows.part.ws, writing.scales.as_slice()) {
            writing.scales.resize(4, 0);
            sink.write(ws, writing.scales_at, &writing.scales).await?;
        }
        Ok(())
    }
}

impl Rows<'_> {
    /// Encodes rows of the checkpoint's layout and hands them over.
    async fn encode(
        &self,
        mut raw: Vec<u8>,
        writing: &mut Writing,
        sink: &dyn Sink,
        times: &mut LoadTimes,
    ) -> Result<()> {
        let started = now_ms();
        let mut at = 0;
        let mut row_bytes = raw.len() / self.rows;
        if let From::Turned(row) = self.from {
            raw = transpose(&raw, self.k, self.info.dtype.block_bytes() as usize);
            row_bytes = self.k * self.info.dtype.block_bytes() as usize;
            at = row * row_bytes;
        }
        times.encode += now_ms() - started;
        let mut left = self.rows;
        while left > 0 {
            let started = now_ms();
            let rows = (PIECE / row_bytes).clamp(1, left);
            let some = raw
                .get(at..at + rows * row_bytes)
                .ok_or_else(|| Error::internal(format!("{} has fewer rows than its shape says", self.info.name)))?;
            let Packed { wq, scales } =
                encode(self.kind, self.info.dtype, some, rows, self.k).map_err(|e| e.at(&self.info.name))?;
            times.encode += now_ms() - started;
            self.write(cast_slice(&wq), &scales, writing, sink, times).await?;
            at += rows * row_bytes;
            left -= rows;
        }
        Ok(())
    }

    async fn write(
        &self,
        quants: &[u8],
        scales: &[u8],
        writing: &mut Writing,
        sink: &dyn Sink,
        times: &mut LoadTimes,
    ) -> Result<()> {
        let started = now_ms();
        sink.write(self.part.wq, writing.at, quants).await?;
        writing.at += quants.len() as u64;
        writing.scales.extend_from_slice(scales);
        let whole = writing.scales.len() / 4 * 4;
        if let Some(ws) = self.part.ws.filter(|_| whole > 0) {
            sink.write(ws, writing.scales_at, &writing.scales[..whole]).await?;
            writing.scales_at += whole as u64;
            writing.scales.drain(..whole);
        }
        times.write += now_ms() - started;
        Ok(())
    }
}

/// The values of a vector of these tensors.
fn vector(source: &VectorSource, tensors: &[Vec<u8>], checkpoint: &Checkpoint) -> Result<Vec<f32>> {
    let mut values: Vec<f32> = Vec::new();
    let mut tensors = tensors.iter();
    for part in &source.parts {
        let Some(name) = &part.tensor else {
            values.resize(values.len() + part.len, part.fill);
            continue;
        };
        let raw = tensors.next().ok_or_else(|| Error::internal(format!("{name} was not read")))?;
        let first = values.len();
        dequantize(checkpoint.tensor(name)?.dtype, raw, &mut values).map_err(|e| e.at(name))?;
        values[first..].iter_mut().for_each(|x| *x = (*x + source.offset) * source.scale);
    }
    let mut rest = values.iter_mut();
    for (n, factor) in &source.factors {
        rest.by_ref().take(*n).for_each(|x| *x *= factor);
    }
    Ok(values)
}

/// `rows` rows of `k` elements of a checkpoint's type, as kernels read `kind`: repacked where that is the same type or
/// has room for all of it, otherwise decoded and quantized.
pub fn encode(kind: WeightType, dtype: DType, raw: &[u8], rows: usize, k: usize) -> Result<Packed> {
    if kind.dtype() == dtype {
        return repack(kind, raw, rows, k);
    }
    if let Some(packed) = transcode(kind, dtype, raw) {
        return Ok(packed);
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
