//! Which tensors a model reads: checked against the checkpoint as they are asked for, and none of the checkpoint's may
//! be left over. The same list describes a model without a checkpoint, for random weights in true shapes.

use std::collections::HashSet;

use super::adapter::Adaptable;
use super::names::{Names, TensorNames};
use super::{Architecture, ModelConfig, Reserve};
use crate::blocks::{DType, WeightType};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::layout::BufferId;
use crate::weights::{Matrix, Recipe, RowSlice, VectorPart, VectorSource};

/// Names of tensors that an error lists.
const SHOWN: usize = 8;

/// A tensor that a model reads.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The checkpoint's name.
    pub name: String,
    /// Its shape.
    pub shape: Vec<usize>,
    /// llama.cpp's name of the part, e.g. `attn_v`.
    pub part: &'static str,
    /// The layer; `None` outside of them.
    pub layer: Option<usize>,
    /// A matrix that is stored as `[K, N]`.
    pub transposed: bool,
}

/// Rows of a tensor that is a matrix.
pub(super) struct Rows {
    pub tensor: Listed,
    /// Of them: first row and number.
    pub first: usize,
    pub rows: usize,
}

impl Rows {
    pub fn all(tensor: Listed) -> Self {
        let rows = tensor.shape[0];
        Self { tensor, first: 0, rows }
    }
}

/// A place in the checkpoint: outside of layers, or within one.
pub(super) type Place = (&'static str, Option<usize>);

/// What a model reserves.
pub(super) struct Tensors<'a, 'b> {
    pub names: Names,
    /// What transformers calls the architecture's tensors.
    pub hf: &'static TensorNames,
    /// `None`: only the list is wanted.
    target: Option<(&'a Checkpoint, &'a mut Reserve<'b>)>,
    pub listed: Vec<Listed>,
    pub vectors: Vec<(BufferId, VectorSource)>,
    /// Layers of the model, and whether its embedding is its head: for quantization.
    pub layers: usize,
    pub tied: bool,
}

impl<'a, 'b> Tensors<'a, 'b> {
    pub fn of(checkpoint: &'a Checkpoint, architecture: &Architecture, reserve: &'a mut Reserve<'b>) -> Self {
        Self::named_so(Names::of(checkpoint, architecture.names), architecture.names, checkpoint, reserve)
    }

    /// The tensors of a vision tower.
    pub fn of_tower(checkpoint: &'a Checkpoint, names: &'static TensorNames, reserve: &'a mut Reserve<'b>) -> Self {
        Self::named_so(Names::of_tower(checkpoint, names), names, checkpoint, reserve)
    }

    fn named_so(
        names: Names,
        hf: &'static TensorNames,
        checkpoint: &'a Checkpoint,
        reserve: &'a mut Reserve<'b>,
    ) -> Self {
        Self {
            names,
            hf,
            target: Some((checkpoint, reserve)),
            listed: Vec::new(),
            vectors: Vec::new(),
            layers: 0,
            tied: false,
        }
    }

    /// Only lists what a model reads, under the names that `checkpoint`, which has no tensors, would have.
    pub fn list(checkpoint: &Checkpoint, architecture: &Architecture) -> Self {
        Self {
            names: Names::of(checkpoint, architecture.names),
            hf: architecture.names,
            target: None,
            listed: Vec::new(),
            vectors: Vec::new(),
            layers: 0,
            tied: false,
        }
    }

    /// Whether the checkpoint has a tensor; a list has every one.
    pub fn has(&self, name: &str) -> bool {
        self.target.as_ref().is_none_or(|(checkpoint, _)| checkpoint.tensors.contains_key(name))
    }

    /// A tensor that may be there, but is not read.
    pub fn skip(&mut self, tensor: Listed) {
        if self.target.is_some() {
            self.listed.push(tensor);
        }
    }

    pub fn named(&self, (part, layer): Place, kind: &str, shape: &[usize]) -> Listed {
        let name = match layer {
            Some(layer) => self.names.layer(layer, part, kind),
            None => self.names.outside(part, kind),
        };
        Listed { name, shape: shape.to_vec(), part, layer, transposed: false }
    }

    /// As [`Tensors::named`], in whatever shape with as many elements the checkpoint has: files differ in dimensions of
    /// 1.
    pub fn flat(&self, place: Place, kind: &str, shape: &[usize]) -> Listed {
        let wanted = self.named(place, kind, shape);
        let elements = shape.iter().product::<usize>() as u64;
        let there = self
            .target
            .as_ref()
            .and_then(|(checkpoint, _)| checkpoint.tensors.get(&wanted.name))
            .filter(|info| info.elements() == elements);
        match there {
            Some(info) => Listed { shape: info.shape.iter().map(|d| *d as usize).collect(), ..wanted },
            None => wanted,
        }
    }

    /// Whether all of these are quantized, or none.
    pub fn alike(&self, tensors: &[&Listed]) -> bool {
        let Some((checkpoint, reserve)) = &self.target else { return true };
        let packed = |tensor: &&Listed| {
            checkpoint
                .tensors
                .get(&tensor.name)
                .is_some_and(|info| info.dtype.block_len() > 1 || reserve.quantize.is_some())
        };
        tensors.iter().all(packed) || !tensors.iter().any(packed)
    }

    /// A matrix whose rows are those of `sources`, one after another; cut only between groups of `group` rows.
    pub fn matrix(
        &mut self,
        label: String,
        sources: Vec<Rows>,
        k: usize,
        group: usize,
        bias: Option<BufferId>,
    ) -> Result<Matrix> {
        self.listed.extend(sources.iter().map(|s| s.tensor.clone()));
        let n = sources.iter().map(|s| s.rows).sum();
        let Some((checkpoint, reserve)) = &mut self.target else {
            return Ok(Matrix { name: label, n, k, parts: Vec::new(), bias });
        };
        let mut slices = Vec::with_capacity(sources.len());
        for Rows { tensor, first, rows } in sources {
            let info = crate::weights::expect(checkpoint, &tensor.name, &tensor.shape)?;
            let kind = match reserve.quantize {
                // What is quantized stays as it is: quantizing it again would only lose.
                Some(recipe) if info.dtype.block_len() == 1 && checkpoint.packed.is_none() => {
                    let wanted = recipe.of(tensor.part, tensor.layer.unwrap_or(0), self.layers, k, self.tied);
                    // Rows that are no whole blocks, and routers, stay as they are too.
                    if wanted.block_len() > 1 || (wanted, recipe) == (DType::F16, Recipe::F16) {
                        wanted
                    } else {
                        info.dtype
                    }
                }
                _ => info.dtype,
            };
            let kind = WeightType::of(kind, &tensor.name)?;
            slices.push(RowSlice { row0: first, rows, transposed: tensor.transposed, tensor: tensor.name, kind });
        }
        let matrix = Matrix::stack(label, checkpoint, slices, k, group, reserve.max_binding, reserve.buffer)?;
        Ok(Matrix { bias, ..matrix })
    }

    /// A vector: tensors and zeros one after another, with `offset` added, times `scale`. At least `least` elements of
    /// room.
    pub fn vector(
        &mut self,
        label: String,
        parts: Vec<(Option<Listed>, usize)>,
        offset: f32,
        scale: f32,
        least: usize,
    ) -> Result<BufferId> {
        self.listed.extend(parts.iter().filter_map(|(tensor, _)| tensor.clone()));
        let Some((checkpoint, reserve)) = &mut self.target else { return Ok(BufferId(0)) };
        let mut len = 0;
        let mut sources = Vec::with_capacity(parts.len());
        for (tensor, n) in parts {
            if let Some(tensor) = &tensor {
                crate::weights::expect(checkpoint, &tensor.name, &tensor.shape)?;
            }
            len += n;
            sources.push(VectorPart { tensor: tensor.map(|t| t.name), fill: 0.0, len: n });
        }
        let id = (reserve.buffer)(label, len.max(least) as u64 * 4);
        self.vectors.push((id, VectorSource { parts: sources, offset, scale, factors: Vec::new() }));
        Ok(id)
    }

    /// Multiplies the last vector's elements: each entry is (number of elements, their factor), from the first on.
    pub fn multiply(&mut self, factors: Vec<(usize, f32)>) {
        if let Some((_, vector)) = self.vectors.last_mut() {
            vector.factors = factors;
        }
    }

    /// Has a part of the last vector that is no tensor be that number.
    pub fn fill(&mut self, part: usize, number: f32) {
        if let Some(part) = self.vectors.last_mut().and_then(|(_, vector)| vector.parts.get_mut(part)) {
            part.fill = number;
        }
    }

    /// The tensors so far that adapters can add to.
    pub fn adaptable(&self, config: &ModelConfig) -> Vec<Adaptable> {
        const PARTS: [&str; 9] =
            ["attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_gate", "ffn_up", "ffn_gate_up", "ffn_down"];
        let mut found: Vec<Adaptable> = Vec::new();
        for Listed { name, part, layer, shape, .. } in &self.listed {
            let Some(layer) = layer.filter(|_| PARTS.contains(part) && shape.len() == 2) else { continue };
            // What both are in one, llama.cpp calls as one of them.
            let both = *part == "ffn_up" && config.stored.gate_up;
            let hf = Names::module(self.hf, layer, if both { "ffn_gate_up" } else { part });
            let gguf = format!("blk.{layer}.{}", if *part == "ffn_gate_up" { "ffn_up" } else { part });
            if found.iter().all(|other| other.tensor != *name) {
                found.push(Adaptable { tensor: name.clone(), layer, part, hf, gguf });
            }
        }
        found
    }

    /// Every tensor of the checkpoint must be used, or left out by name: an unused one may change what the model
    /// computes.
    pub fn check_all_used(&self, config: &ModelConfig) -> Result<Vec<LeftOut>> {
        let Some((checkpoint, _)) = &self.target else { return Ok(Vec::new()) };
        let used: HashSet<&str> = self.listed.iter().map(|t| t.name.as_str()).collect();
        // Layers that guess further tokens.
        let layers = config.layers.len();
        let list = self.names.beside().map_or_else(|| "blk".into(), |prefix| format!("{prefix}{}", self.hf.layers));
        let further: Vec<String> = (layers..layers + config.further_layers).map(|i| format!("{list}.{i}.")).collect();
        let mut left_out: Vec<LeftOut> = Vec::new();
        let mut unknown = Vec::new();
        for (name, info) in
            checkpoint.tensors.iter().filter(|(name, _)| !used.contains(name.as_str()) && !self.names.follows(name))
        {
            let Some(what) = self
                .names
                .left_out(name)
                .or_else(|| further.iter().map(String::as_str).find(|layer| name.starts_with(layer)))
            else {
                unknown.push(name.as_str());
                continue;
            };
            let at = left_out.iter().position(|l| l.what == what).unwrap_or_else(|| {
                left_out.push(LeftOut { what: what.to_owned(), tensors: 0, bytes: 0 });
                left_out.len() - 1
            });
            left_out[at].tensors += 1;
            left_out[at].bytes += info.bytes;
        }
        let more = unknown.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        match unknown[..] {
            [] => Ok(left_out),
            [name] => Err(Error::unsupported(format!(
                "tensor {name} is not part of architecture {} as this version knows it",
                config.architecture
            ))),
            _ => {
                let named = unknown[..unknown.len().min(SHOWN)].join(", ");
                Err(Error::unsupported(format!(
                    "tensors {named}{more} are not part of architecture {} as this version knows it",
                    config.architecture
                )))
            }
        }
    }
}

/// Tensors of a checkpoint that are no part of its language model, or of what of it runs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct LeftOut {
    /// What their names begin with, or (after a `*`) end with.
    pub what: String,
    /// How many.
    pub tensors: usize,
    /// Their bytes in the checkpoint.
    pub bytes: u64,
}
