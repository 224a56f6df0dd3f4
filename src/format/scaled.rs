//! Tensors of safetensors that are stored as two: numbers and their scales. MXFP4 (`NAME_blocks`, `NAME_scales`)
//! becomes GGUF's type of that name; 8-bit floats (`NAME`, `NAME_scale_inv` or `NAME_scale`) become BF16, as in
//! transformers without 8-bit products. A joined tensor is read as a file of its own, which is assembled on reading.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use half::{bf16, f16};
use indexmap::IndexMap;
use safetensors::Dtype;
use serde_json::{Map, Value};

use super::safetensors::unsupported;
use super::tensor::{TensorInfo, tensor_bytes};
use crate::blocks::DType;
use crate::error::{Error, Result};
use crate::source::{ByteSource, check_range};

/// Rows and columns that share a scale, where config.json does not say.
const SHARED: [u64; 2] = [128, 128];
/// Bytes of a block of MXFP4 without and with its scale.
const BLOCK: [u64; 2] = [16, 17];

/// Tensors by name, and the safetensors type of those with one byte per value.
pub(crate) type Stored = (IndexMap<String, TensorInfo>, HashMap<String, Dtype>);

/// Joins tensors that are stored as two. `UNSUPPORTED_MODEL` for bytes without a known meaning.
pub(super) fn join(
    files: &mut Vec<Rc<dyn ByteSource>>,
    (tensors, bytes): Stored,
    config: &Map<String, Value>,
) -> Result<IndexMap<String, TensorInfo>> {
    if bytes.is_empty() {
        return Ok(tensors);
    }
    let shared = shared(config)?;
    // Names of tensors that belong to another tensor.
    let mut taken = HashSet::new();
    let mut joined = IndexMap::with_capacity(tensors.len());
    for (name, info) in &tensors {
        let beside = |name: String| tensors.get(&name).map(|scales| (scales, bytes.get(&scales.name).copied()));
        let place = |info: &TensorInfo| (files[info.file].clone(), info.offset);
        let at = |e: Error| e.at(files[info.file].name());
        let new = match (bytes.get(name), name.strip_suffix("_blocks")) {
            (None, _) => None,
            (Some(Dtype::U8), None)
                if name
                    .strip_suffix("_scales")
                    .is_some_and(|whole| bytes.get(&format!("{whole}_blocks")) == Some(&Dtype::U8)) =>
            {
                continue;
            }
            (Some(Dtype::U8), Some(whole))
                if beside(format!("{whole}_scales")).is_some_and(|scales| scales.1 == Some(Dtype::U8)) =>
            {
                let scales = tensors
                    .get(&format!("{whole}_scales"))
                    .filter(|scales| info.shape.split_last() == Some((&BLOCK[0], &scales.shape)));
                let Some(scales) = scales else {
                    return Err(at(Error::bad_model(format!(
                        "tensor '{name}' has shape {:?}, which its scales do not fit",
                        info.shape
                    ))));
                };
                if tensors.contains_key(whole) {
                    return Err(at(Error::bad_model(format!("tensor '{whole}' is there whole and in two"))));
                }
                let mut shape = scales.shape.clone();
                if let Some(last) = shape.last_mut() {
                    *last = last.saturating_mul(32);
                }
                Some((whole, DType::MXFP4, shape, Kind::Mxfp4, place(scales)))
            }
            (Some(kind @ (Dtype::F8_E4M3 | Dtype::F8_E5M2)), _) => {
                let found = ["_scale_inv", "_scale"].iter().find_map(|ending| beside(format!("{name}{ending}")));
                let Some((scales, None)) = found else {
                    return Err(at(unsupported(name, &format!("{kind:?} without scales in floats"))));
                };
                let grid = Grid::of(info, scales, shared).map_err(at)?;
                let fp8 =
                    Fp8 { wide: *kind == Dtype::F8_E5M2, grid, scales: scales.clone(), values: RefCell::default() };
                taken.insert(scales.name.clone());
                // What activations were multiplied by: here they are not of 8 bits.
                for ending in ["activation_scale", "input_scale"] {
                    taken.insert(format!("{name}_{ending}"));
                    taken.extend(name.strip_suffix("weight").map(|of| format!("{of}{ending}")));
                }
                Some((name.as_str(), DType::BF16, info.shape.clone(), Kind::Fp8(fp8), place(scales)))
            }
            // Masks, for instance.
            (Some(Dtype::U8), None) if !name.ends_with("_scales") => None,
            (Some(kind), _) => return Err(at(unsupported(name, &format!("{kind:?}")))),
        };
        let Some((name, dtype, shape, kind, scales)) = new else {
            joined.insert(name.clone(), info.clone());
            continue;
        };
        let length = tensor_bytes(name, dtype, &shape).map_err(at)?;
        let made = TensorInfo { name: name.into(), dtype, shape, file: files.len(), offset: 0, bytes: length };
        files.push(Rc::new(Joined { name: name.into(), numbers: place(info), scales, kind, length }));
        joined.insert(name.into(), made);
    }
    joined.retain(|name, _| !taken.contains(name));
    Ok(joined)
}

/// What config.json says of rows and columns that share a scale.
fn shared(config: &Map<String, Value>) -> Result<[u64; 2]> {
    match config.get("quantization_config").and_then(|said| said.get("weight_block_size")) {
        None | Some(Value::Null) => Ok(SHARED),
        Some(said) => match serde_json::from_value::<[u64; 2]>(said.clone()) {
            Ok(two) if !two.contains(&0) => Ok(two),
            _ => Err(Error::bad_model(format!("config.json: weight_block_size should be two numbers, not {said}"))),
        },
    }
}

/// The grid of scales of a matrix of `rows` x `columns`.
struct Grid {
    rows: u64,
    columns: u64,
    shared: [u64; 2],
    down: u64,
    across: u64,
}

impl Grid {
    /// One scale, one for each row, or one for each `shared` rows and columns; of lists of matrices, one grid after
    /// another.
    fn of(info: &TensorInfo, scales: &TensorInfo, shared: [u64; 2]) -> Result<Self> {
        let (columns, rows) =
            (info.shape.last().copied().unwrap_or(1), info.shape.iter().rev().nth(1).copied().unwrap_or(1));
        let matrices = info.elements() / (rows * columns);
        let count = scales.elements();
        let grid = |shared: [u64; 2]| Self {
            rows,
            columns,
            shared,
            down: rows.div_ceil(shared[0]),
            across: columns.div_ceil(shared[1]),
        };
        let all = [[rows, columns], [1, columns], shared].map(grid);
        // Rows that are as many as blocks of them are one.
        let fits = |grid: &Grid| {
            count == matrices * grid.down * grid.across && (matrices == 1 || scales.shape.len() + 1 >= info.shape.len())
        };
        let two = [all[2].down, all[2].across];
        let blocks = scales.shape.ends_with(&two);
        let [one, each, by_blocks] = all;
        let found = if blocks && fits(&by_blocks) { Some(by_blocks) } else { [one, each].into_iter().find(fits) };
        found.ok_or_else(|| {
            Error::unsupported(format!(
                "tensor '{}' of shape {:?} has scales of shape {:?}",
                info.name, info.shape, scales.shape
            ))
        })
    }

    fn scale(&self, element: u64) -> usize {
        let (row, column) = (element / self.columns, element % self.columns);
        let (matrix, row) = (row / self.rows, row % self.rows);
        ((matrix * self.down + row / self.shared[0]) * self.across + column / self.shared[1]) as usize
    }
}

/// 8-bit floats and their scales.
struct Fp8 {
    /// Five bits of exponent, not four.
    wide: bool,
    grid: Grid,
    scales: TensorInfo,
    /// The scales, once they are read.
    values: RefCell<Option<Rc<[f32]>>>,
}

enum Kind {
    Mxfp4,
    Fp8(Fp8),
}

/// A tensor of two as a file.
struct Joined {
    name: String,
    numbers: (Rc<dyn ByteSource>, u64),
    scales: (Rc<dyn ByteSource>, u64),
    kind: Kind,
    length: u64,
}

impl ByteSource for Joined {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> u64 {
        self.length
    }

    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.length, offset, len)?;
            let end = offset + len as u64;
            let unit = match self.kind {
                Kind::Mxfp4 => BLOCK[1],
                Kind::Fp8(_) => 2,
            };
            let (first, last) = (offset / unit, end.div_ceil(unit));
            let mut bytes = match &self.kind {
                Kind::Mxfp4 => self.mxfp4(first, (last - first) as usize).await?,
                Kind::Fp8(fp8) => self.fp8(fp8, first, (last - first) as usize).await?,
            };
            bytes.truncate((end - first * unit) as usize);
            bytes.drain(..(offset - first * unit) as usize);
            Ok(bytes)
        })
    }
}

/// `len` bytes of a tensor from `at` on.
async fn bytes((file, offset): &(Rc<dyn ByteSource>, u64), at: u64, len: usize) -> Result<Vec<u8>> {
    let bytes = file.read(offset + at, len).await?;
    if bytes.len() == len {
        Ok(bytes)
    } else {
        Err(Error::storage(format!("{}: asked for {len} bytes, got {}", file.name(), bytes.len())))
    }
}

impl Joined {
    /// Blocks in GGUF's layout, from the `first` on: neighbours share a byte here, in GGUF a number and the sixteenth
    /// after it.
    async fn mxfp4(&self, first: u64, count: usize) -> Result<Vec<u8>> {
        let numbers = bytes(&self.numbers, first * BLOCK[0], count * BLOCK[0] as usize).await?;
        let scales = bytes(&self.scales, first, count).await?;
        let mut out = Vec::with_capacity(count * BLOCK[1] as usize);
        for (pairs, scale) in numbers.as_chunks::<16>().0.iter().zip(scales) {
            let number = |i: usize| pairs[i / 2] >> (i % 2 * 4) & 15;
            out.push(scale);
            out.extend((0..16).map(|i| number(i) | number(16 + i) << 4));
        }
        Ok(out)
    }

    /// Elements as BF16, from the `first` on.
    async fn fp8(&self, fp8: &Fp8, first: u64, count: usize) -> Result<Vec<u8>> {
        let numbers = bytes(&self.numbers, first, count).await?;
        let known = fp8.values.borrow().clone();
        let scales = match known {
            Some(scales) => scales,
            None => {
                let raw = bytes(&self.scales, 0, fp8.scales.bytes as usize).await?;
                let mut values = Vec::new();
                crate::blocks::dequantize(fp8.scales.dtype, &raw, &mut values)?;
                fp8.values.borrow_mut().insert(values.into()).clone()
            }
        };
        let mut out = Vec::with_capacity(count * 2);
        for (element, byte) in (first..).zip(numbers) {
            let value = if fp8.wide { f16::from_bits(u16::from(byte) << 8).to_f32() } else { e4m3(byte) };
            out.extend(bf16::from_f32(value * scales[fp8.grid.scale(element)]).to_le_bytes());
        }
        Ok(out)
    }
}

/// Four bits of exponent and three of mantissa: those of a half whose exponent is 8 smaller. There is no infinity, and
/// one NaN of either sign.
fn e4m3(byte: u8) -> f32 {
    let size = u16::from(byte & 0x7f);
    let value = if size == 0x7f { f32::NAN } else { f16::from_bits(size << 7).to_f32() * 256.0 };
    if byte > 0x7f { -value } else { value }
}
