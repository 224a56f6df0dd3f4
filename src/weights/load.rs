//! Streams the checkpoint's tensors into GPU buffers: a few MiB at a time, whatever the model's size.

use bytemuck::cast_slice;
use futures_util::future::LocalBoxFuture;

use super::repack::{repack, row_bytes, to_f32};
use super::{Matrix, VectorSource, WeightType};
use crate::error::Result;
use crate::format::Checkpoint;
use crate::plan::BufferId;
use crate::stream::Cancel;

/// Where weights go: GPU buffers, or host memory for the twins.
pub trait Sink {
    /// Writes bytes into a buffer at a byte offset.
    fn write(&self, buffer: BufferId, offset: u64, bytes: &[u8]) -> Result<()>;
    /// Waits until what was written has left the host.
    fn flush(&self) -> LocalBoxFuture<'_, Result<()>>;
}

/// Bytes of a tensor that are in host memory at one time.
const PIECE: usize = 4 << 20;
/// Bytes that may wait on their way to the GPU: the driver holds a copy of them.
const UNFLUSHED: usize = 64 << 20;

/// Bytes of the checkpoint that [`load`] reads: some twice, others not at all.
pub fn bytes_to_read(checkpoint: &Checkpoint, matrices: &[Matrix], vectors: &[(BufferId, VectorSource)]) -> Result<u64> {
    let tensors = vectors.iter().flat_map(|(_, source)| &source.parts).filter_map(|part| part.tensor.as_ref());
    let mut bytes = tensors.map(|name| checkpoint.tensor(name).map(|info| info.bytes)).sum::<Result<u64>>()?;
    for matrix in matrices {
        for part in &matrix.parts {
            bytes += (part.rows * row_bytes(part.kind, matrix.k)?) as u64;
        }
    }
    Ok(bytes)
}

/// Reads every matrix and vector and hands it to the sink; `done(bytes)` is called after each piece of the checkpoint.
pub async fn load(
    checkpoint: &Checkpoint,
    matrices: &[Matrix],
    vectors: &[(BufferId, VectorSource)],
    cancel: &Cancel,
    sink: &dyn Sink,
    done: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut unflushed = 0;
    for (buffer, source) in vectors {
        cancel.check()?;
        let mut values: Vec<f32> = Vec::new();
        for part in &source.parts {
            let Some(name) = &part.tensor else {
                values.resize(values.len() + part.len, 0.0);
                continue;
            };
            let info = super::matrix::expect(checkpoint, name, &[part.len])?;
            let raw = checkpoint.read(info, 0, info.bytes as usize).await?;
            let elements = to_f32(WeightType::of(info.dtype, name)?, &raw, name)?;
            values.extend(elements.into_iter().map(|x| (x + source.offset) * source.scale));
            done(info.bytes);
        }
        sink.write(*buffer, 0, cast_slice(&values))?;
    }
    for matrix in matrices {
        for part in &matrix.parts {
            let row = row_bytes(part.kind, matrix.k)?;
            let per_piece = (PIECE / row).max(1);
            let mut scales: Vec<u16> = Vec::new();
            let mut at = 0u64;
            for slice in &part.slices {
                let info = checkpoint.tensors.get(&slice.tensor).ok_or_else(|| crate::Error::internal(format!("{} vanished", slice.tensor)))?;
                // A matrix of columns is turned as a whole.
                let turned = match slice.transposed {
                    true => Some(transpose(&checkpoint.read(info, 0, info.bytes as usize).await?, matrix.k, row / matrix.k)),
                    false => None,
                };
                let mut row0 = 0;
                while row0 < slice.rows {
                    cancel.check()?;
                    let rows = per_piece.min(slice.rows - row0);
                    let from = (slice.row0 + row0) * row;
                    let raw = match &turned {
                        Some(turned) => turned[from..from + rows * row].to_vec(),
                        None => checkpoint.read(info, from as u64, rows * row).await?,
                    };
                    let packed = repack(part.kind, &raw, rows, matrix.k).map_err(|e| e.at(&slice.tensor))?;
                    sink.write(part.wq, at, cast_slice(&packed.wq))?;
                    unflushed += raw.len();
                    if unflushed >= UNFLUSHED {
                        sink.flush().await?;
                        unflushed = 0;
                    }
                    at += packed.wq.len() as u64 * 4;
                    scales.extend_from_slice(&packed.scales);
                    row0 += rows;
                    done(raw.len() as u64);
                }
            }
            if let Some(ws) = part.ws {
                if scales.len() % 2 == 1 {
                    scales.push(0);
                }
                sink.write(ws, 0, cast_slice(&scales))?;
            }
        }
    }
    Ok(())
}

/// `[K, N]` elements of `size` bytes as `[N, K]`.
fn transpose(raw: &[u8], k: usize, size: usize) -> Vec<u8> {
    let n = raw.len() / size / k;
    let mut out = vec![0; raw.len()];
    for (i, element) in raw.chunks_exact(size).enumerate() {
        let at = (i % n * k + i / n) * size;
        out[at..at + size].copy_from_slice(element);
    }
    out
}
