//! How matrices of a checkpoint become matrices on the GPU: concatenated where one kernel reads several, split where a
//! type changes or a part would not fit into one binding.

use std::collections::HashSet;

use super::Recipe;
use crate::blocks::{BLOCK, DType, WeightType, row_bytes};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, TensorInfo};
use crate::layout::{BufferId, Layout};

/// Rows `row0 .. row0 + rows` of a checkpoint's tensor.
#[derive(Debug, Clone)]
pub struct RowSlice {
    /// The tensor's name in the checkpoint.
    pub tensor: String,
    /// First row.
    pub row0: usize,
    /// Number of rows.
    pub rows: usize,
    /// The tensor is `[K, N]`: its columns are the rows, all of them.
    pub transposed: bool,
    /// Their type on the GPU.
    pub kind: WeightType,
}

/// Some rows of a matrix, all of one type, in two GPU buffers.
#[derive(Debug, Clone)]
pub struct Part {
    /// Type of the rows.
    pub kind: WeightType,
    /// First row of the matrix that this part holds.
    pub row0: usize,
    /// Number of rows.
    pub rows: usize,
    /// Where the rows come from, in order.
    pub slices: Vec<RowSlice>,
    /// Quants: `rows * KB` blocks.
    pub wq: BufferId,
    /// Scales, two halves a word; quantized types only.
    pub ws: Option<BufferId>,
}

/// A matrix `[N, K]` on the GPU.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Name for messages and the plan, e.g. `blk.0.qkv`.
    pub name: String,
    /// Output dimension.
    pub n: usize,
    /// Reduced dimension.
    pub k: usize,
    /// The parts, in row order.
    pub parts: Vec<Part>,
    /// Added to the products, `[N]` f32.
    pub bias: Option<BufferId>,
}

/// A vector of f32 on the GPU: parts one after another, each element `(x + offset) * scale`.
#[derive(Debug, Clone)]
pub struct VectorSource {
    /// The parts.
    pub parts: Vec<VectorPart>,
    /// Added to each element.
    pub offset: f32,
    /// Each element is multiplied by it.
    pub scale: f32,
    /// (Number of elements, their factor), from the first on.
    pub factors: Vec<(usize, f32)>,
}

/// A part of a vector.
#[derive(Debug, Clone)]
pub struct VectorPart {
    /// The tensor; `None`: a number.
    pub tensor: Option<String>,
    /// The number.
    pub fill: f32,
    /// Its elements.
    pub len: usize,
}

impl Matrix {
    /// Blocks of a row.
    pub fn kb(&self) -> usize {
        self.k.div_ceil(BLOCK)
    }

    /// Whether int8 activations apply to every part.
    pub fn quantized(&self) -> bool {
        self.parts.iter().all(|p| p.kind.quantized())
    }

    /// Bytes on the GPU.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|p| p.kind.bytes((p.rows * self.kb()) as u64)).sum()
    }

    /// Stacks rows of tensors, each with `k` columns, on top of each other. Neighbours of one type share a part; a part
    /// is cut, between groups of `group` rows, where it would exceed `max_binding` bytes. `buffer(label, bytes)`
    /// reserves the GPU buffers.
    pub fn stack(
        name: String,
        checkpoint: &Checkpoint,
        sources: Vec<RowSlice>,
        k: usize,
        group: usize,
        max_binding: u64,
        buffer: &mut dyn FnMut(String, u64) -> BufferId,
    ) -> Result<Self> {
        let kb = k.div_ceil(BLOCK);
        let mut rows_of: Vec<(WeightType, Vec<RowSlice>)> = Vec::new();
        let mut n = 0;
        for source in sources {
            let tensor = &source.tensor;
            let info = checkpoint.tensor(tensor)?;
            let kind = source.kind;
            row_bytes(kind, k).map_err(|e| e.at(tensor))?;
            if source.transposed && info.dtype.block_len() > 1 && checkpoint.packed.is_none() {
                return Err(Error::unsupported(format!("tensor {tensor}: a matrix of columns in a quantized type")));
            }
            n += source.rows;
            let max_rows = usize::try_from(max_binding / (kb * kind.quant_words() * 4) as u64).unwrap_or(usize::MAX)
                / group
                * group;
            if max_rows == 0 {
                return Err(Error::out_of_memory(format!(
                    "{group} rows of {tensor} are larger than the GPU's binding limit of {max_binding} bytes"
                )));
            }
            let mut taken = 0;
            while taken < source.rows {
                let room = match rows_of.last() {
                    Some((last, slices)) if *last == kind => {
                        max_rows.saturating_sub(slices.iter().map(|s| s.rows).sum())
                    }
                    _ => 0,
                };
                if room == 0 {
                    let within =
                        rows_of.last().map_or(0, |(_, slices)| slices.iter().map(|s| s.rows).sum::<usize>() % group);
                    if within != 0 {
                        return Err(Error::unsupported(format!(
                            "tensor {tensor} has another type than what it is one matrix with"
                        )));
                    }
                    rows_of.push((kind, Vec::new()));
                    continue;
                }
                let take = room.min(source.rows - taken);
                if let Some((_, slices)) = rows_of.last_mut() {
                    slices.push(RowSlice { row0: source.row0 + taken, rows: take, ..source.clone() });
                }
                taken += take;
            }
        }
        let mut parts = Vec::with_capacity(rows_of.len());
        let mut row0 = 0;
        for (kind, slices) in rows_of {
            let rows: usize = slices.iter().map(|s| s.rows).sum();
            let blocks = (rows * kb) as u64;
            let wq = buffer(format!("{name}[{row0}].wq"), blocks * kind.quant_words() as u64 * 4);
            let ws = kind.quantized().then(|| buffer(format!("{name}[{row0}].ws"), kind.scale_bytes(blocks)));
            parts.push(Part { kind, row0, rows, slices, wq, ws });
            row0 += rows;
        }
        Ok(Self { name, n, k, parts, bias: None })
    }
}

/// Tensors of one type that have another on the GPU.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Conversion {
    /// The checkpoint's type.
    pub from: &'static str,
    /// The GPU's.
    pub to: &'static str,
    /// How many tensors.
    pub tensors: usize,
    /// Their bytes in the checkpoint.
    pub bytes_before: u64,
    /// Their bytes on the GPU.
    pub bytes_after: u64,
}

/// The error where quantization is asked for and there is nothing to quantize.
pub(crate) fn nothing_to_quantize(recipe: Recipe) -> Error {
    Error::bad_option(format!(
        "quantize {}: nothing of this model can be quantized: its weights are quantized or in shards already, or their rows are no whole blocks; leave the option out",
        recipe.name()
    ))
}

/// Has the plan say which weights have another type in the checkpoint.
pub fn note_conversions(checkpoint: &Checkpoint, matrices: &[&Matrix], layout: &mut Layout) {
    for part in matrices.iter().flat_map(|matrix| &matrix.parts) {
        let types: Vec<_> = part
            .slices
            .iter()
            .filter_map(|s| checkpoint.tensors.get(&s.tensor))
            .map(|info| info.dtype.name())
            .collect();
        let mut others: Vec<_> = types.into_iter().filter(|name| *name != part.kind.dtype().name()).collect();
        others.sort_unstable();
        others.dedup();
        if !others.is_empty() {
            layout.note(part.wq, format!("converted from {}", others.join(" and ")));
        }
    }
}

/// What becomes another type while it is loaded.
pub fn conversions(checkpoint: &Checkpoint, matrices: &[&Matrix]) -> Result<Vec<Conversion>> {
    let mut found: Vec<Conversion> = Vec::new();
    let mut seen = HashSet::new();
    for matrix in matrices {
        for slice in matrix.parts.iter().flat_map(|part| &part.slices) {
            let info = checkpoint.tensor(&slice.tensor)?;
            let (from, to) = (info.dtype.name(), slice.kind.dtype().name());
            if from == to {
                continue;
            }
            let at = found.iter().position(|c| (c.from, c.to) == (from, to)).unwrap_or_else(|| {
                found.push(Conversion { from, to, tensors: 0, bytes_before: 0, bytes_after: 0 });
                found.len() - 1
            });
            let conversion = &mut found[at];
            if seen.insert(&slice.tensor) {
                conversion.tensors += 1;
                conversion.bytes_before += info.bytes;
                conversion.bytes_after += slice.kind.bytes(info.elements() / matrix.k as u64 * matrix.kb() as u64);
            }
        }
    }
    Ok(found)
}

/// The tensor of that name and shape; a missing one or another shape is an error that names it.
pub fn expect<'a>(checkpoint: &'a Checkpoint, name: &str, shape: &[usize]) -> Result<&'a TensorInfo> {
    let whole = |dtype: DType| matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
    let quantized = |info: &TensorInfo| {
        Error::unsupported(format!(
            "tensor {} holds whole numbers ({}): weights that AWQ, GPTQ or bitsandbytes have quantized are not supported: take an unquantized checkpoint, \
             or a GGUF file",
            info.name, info.dtype
        ))
    };
    let Some(info) = checkpoint.tensors.get(name) else {
        let stem = name.strip_suffix("weight").unwrap_or(name);
        let beside = checkpoint.tensors.iter().find(|(other, info)| whole(info.dtype) && other.starts_with(stem));
        return Err(
            beside.map_or_else(|| Error::bad_model(format!("tensor {name} is missing")), |(_, info)| quantized(info))
        );
    };
    if whole(info.dtype) {
        return Err(quantized(info));
    }
    let wanted: Vec<u64> = shape.iter().map(|d| *d as u64).collect();
    if info.shape != wanted {
        return Err(Error::bad_model(format!(
            "tensor {name} has shape {:?}, the configuration asks for {wanted:?}",
            info.shape
        )));
    }
    Ok(info)
}
