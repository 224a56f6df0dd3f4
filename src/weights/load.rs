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
        match source {
            VectorSource::Values(values) => sink.write(*buffer, 0, cast_slice(values))?,
            VectorSource::Tensor { name, len } => {
                let info = super::matrix::expect(checkpoint, name, &[*len])?;
                let raw = checkpoint.read(info, 0, info.bytes as usize).await?;
                sink.write(*buffer, 0, cast_slice(&to_f32(WeightType::of(info.dtype, name)?, &raw, name)?))?;
                done(info.bytes);
            }
        }
    }
    for matrix in matrices {
        for part in &matrix.parts {
            let row = row_bytes(part.kind, matrix.k)?;
            let per_piece = (PIECE / row).max(1);
            let mut scales: Vec<u16> = Vec::new();
            let mut at = 0u64;
            for slice in &part.slices {
                let info = checkpoint.tensors.get(&slice.tensor).ok_or_else(|| crate::Error::internal(format!("{} vanished", slice.tensor)))?;
                let mut row0 = 0;
                while row0 < slice.rows {
                    cancel.check()?;
                    let rows = per_piece.min(slice.rows - row0);
                    let raw = checkpoint.read(info, ((slice.row0 + row0) * row) as u64, rows * row).await?;
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
