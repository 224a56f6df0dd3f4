//! One tensor of a checkpoint, and the checks that hold for all of them.

use indexmap::IndexMap;

use crate::blocks::DType;
use crate::error::{Error, Result};
use crate::source::ByteSource;

/// Where a tensor is and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorInfo {
    /// The checkpoint's own name.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Row-major, outermost first: a linear layer is `[N, K]`. GGUF's order reversed.
    pub shape: Vec<u64>,
    /// Index into [`super::Checkpoint::files`].
    pub file: usize,
    /// First byte, counted from the start of the file.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
}

impl TensorInfo {
    /// How many values it holds.
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    /// The byte after the last.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}

/// More dimensions than any weight has.
pub(crate) const MAX_DIMS: usize = 4;
/// Most dimensions of a tensor in safetensors: vision towers for films have five.
const MOST_DIMS: usize = 8;

/// Bytes of a tensor of `shape` (row-major), after checking that it has at most 8 dimensions, none of them zero, that
/// rows are whole blocks, and that nothing overflows.
pub(crate) fn tensor_bytes(name: &str, dtype: DType, shape: &[u64]) -> Result<u64> {
    if shape.len() > MOST_DIMS {
        return Err(Error::bad_model(format!(
            "tensor '{name}' has {} dimensions; at most {MOST_DIMS} are allowed",
            shape.len()
        )));
    }
    if let Some(dim) = shape.iter().position(|&d| d == 0) {
        return Err(Error::bad_model(format!("tensor '{name}' has size 0 in dimension {dim}")));
    }
    let too_large = || Error::bad_model(format!("tensor '{name}' has shape {shape:?}, whose size overflows"));
    let row = shape.last().copied().unwrap_or(1);
    let rows =
        shape[..shape.len().saturating_sub(1)].iter().try_fold(1u64, |n, &d| n.checked_mul(d)).ok_or_else(too_large)?;
    if !row.is_multiple_of(dtype.block_len()) {
        return Err(Error::bad_model(format!(
            "tensor '{name}' has rows of {row} values, which is not a multiple of the {} values in a block of {dtype}",
            dtype.block_len()
        )));
    }
    rows.checked_mul(row).and_then(|n| dtype.bytes_of(n)).ok_or_else(too_large)
}

/// Checks that every tensor lies inside its file and shares no byte with another of that file.
pub(crate) fn check_layout(file: usize, source: &dyn ByteSource, tensors: &IndexMap<String, TensorInfo>) -> Result<()> {
    let mut order: Vec<&TensorInfo> = tensors.values().filter(|t| t.file == file).collect();
    order.sort_by_key(|t| (t.offset, t.bytes));
    for tensor in &order {
        let end = tensor.offset.checked_add(tensor.bytes).ok_or_else(|| {
            Error::bad_model(format!(
                "tensor '{}' begins at byte {}, which overflows with its size",
                tensor.name, tensor.offset
            ))
        })?;
        if end > source.len() {
            return Err(Error::bad_model(format!(
                "tensor '{}' needs bytes {}..{end}, but the file ends at {}: {} bytes are missing; it is truncated, so download it again",
                tensor.name,
                tensor.offset,
                source.len(),
                end - source.len().max(tensor.offset),
            )));
        }
    }
    for pair in order.windows(2) {
        if pair[0].end() > pair[1].offset {
            return Err(Error::bad_model(format!(
                "tensors '{}' and '{}' overlap at byte {}",
                pair[0].name, pair[1].name, pair[1].offset
            )));
        }
    }
    Ok(())
}
