//! Matches an adapter's modules, whose names are PEFT's or llama.cpp's, to the tensors of a model.

use std::rc::Rc;

use indexmap::IndexMap;

use super::Model;
use crate::error::{Error, Result};
use crate::format::{Adapter, Module};
use crate::plan::Heads;

/// A matrix of a checkpoint that adapters can add to.
#[derive(Debug, Clone)]
pub struct Adaptable {
    /// The checkpoint's tensor.
    pub tensor: String,
    /// The layer.
    pub layer: usize,
    /// llama.cpp's name of it, `attn_q`.
    pub part: &'static str,
    /// transformers' name of it from the list of layers on, `layers.0.self_attn.q_proj`.
    pub hf: String,
    /// llama.cpp's whole name of it, `blk.0.attn_q`.
    pub gguf: String,
}

/// What an adapter adds to a tensor of a checkpoint.
pub struct Fitted {
    /// A, B, and the factor.
    pub module: Module,
    /// Order of B's rows, where it differs from the checkpoint's: llama.cpp permutes the heads of queries and keys.
    pub reorder: Option<Reorder>,
}

/// Row order of heads: pairs of rotated dimensions are half a head apart in one file, adjacent in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reorder {
    /// Rows of a head.
    pub head: usize,
    /// Whether the checkpoint has neighbours.
    pub neighbours: bool,
}

impl Reorder {
    /// The adapter's row that belongs to the checkpoint's.
    pub fn row(self, row: usize) -> usize {
        let (head, at, half) = (row / self.head * self.head, row % self.head, self.head / 2);
        head + if self.neighbours { at % 2 * half + at / 2 } else { at % half * 2 + at / half }
    }
}

/// An adapter that fits a model.
pub struct FittedAdapter {
    /// Its files.
    pub adapter: Rc<Adapter>,
    /// What it adds, by the checkpoint's tensors.
    pub tensors: IndexMap<String, Fitted>,
}

/// Finds what an adapter's modules are in a model.
///
/// # Errors
/// `UNSUPPORTED_MODEL` where it touches what cannot be adapted, `BAD_MODEL` where it was made for another architecture
/// or other shapes.
pub fn fit(model: &dyn Model, adapter: Adapter) -> Result<FittedAdapter> {
    let config = model.config();
    if config.pooling.is_some() {
        return Err(Error::unsupported(
            "adapters: this model makes embeddings or judges documents, and does not write; merge the adapter into it with PEFT",
        ));
    }
    if let Some(of) = adapter.architecture.as_deref().filter(|of| *of != config.architecture) {
        return Err(other(&format!("it was made for architecture {of}, and this model is {}", config.architecture)));
    }
    let places = model.adaptable();
    // Rows and columns of each tensor, as far as matrices that adapters can add to have them.
    let mut shapes: IndexMap<&str, (usize, usize)> = IndexMap::new();
    for matrix in model.adaptable_matrices() {
        for slice in matrix.parts.iter().flat_map(|part| &part.slices) {
            let shape = shapes.entry(&slice.tensor).or_insert((0, matrix.k));
            shape.0 = shape.0.max(slice.row0 + slice.rows);
        }
    }
    let mut tensors = IndexMap::new();
    for (name, module) in &adapter.modules {
        let is = |place: &&Adaptable| {
            if adapter.gguf {
                place.gguf == *name
            } else {
                place.hf == *name || name.ends_with(&format!(".{}", place.hf))
            }
        };
        let found = places.iter().find(is).and_then(|place| Some((place, *shapes.get(place.tensor.as_str())?)));
        let Some((place, (n, k))) = found else { return Err(unknown(name, places, config.layers.len())) };
        if module.a.shape[1] != k as u64 || module.b.shape[0] != n as u64 {
            return Err(other(&format!(
                "module {name} is for {} inputs and {} outputs, and this model's has {k} and {n}",
                module.a.shape[1], module.b.shape[0]
            )));
        }
        let Heads { e: head, .. } = config.heads_of(place.layer);
        let reordered = config.stored.reordered && matches!(place.part, "attn_q" | "attn_k");
        let neighbours = config.ropes.first().is_some_and(|rope| rope.interleaved);
        let reorder = (reordered && model.gguf() != adapter.gguf).then_some(Reorder { head, neighbours });
        if tensors.insert(place.tensor.clone(), Fitted { module: module.clone(), reorder }).is_some() {
            return Err(Error::bad_model(format!("module {name} occurs twice in the adapter")));
        }
    }
    Ok(FittedAdapter { adapter: Rc::new(adapter), tensors })
}

fn other(why: &str) -> Error {
    Error::bad_model(format!("the adapter does not fit this model: {why}; load the model that it was trained on"))
}

/// The error that there is no such module, or that it cannot be adapted.
fn unknown(name: &str, places: &[Adaptable], layers: usize) -> Error {
    let layer = name.split('.').find_map(|part| part.parse::<usize>().ok());
    if layer.is_some_and(|layer| layer >= layers) {
        return other(&format!("module {name} is of a layer that this model, of {layers}, does not have"));
    }
    let mut known: Vec<&str> = places.iter().filter_map(|place| place.hf.rsplit('.').next()).collect();
    known.sort_unstable();
    known.dedup();
    Error::unsupported(format!(
        "the adapter touches module {name}, which this version cannot adapt in this model: it adapts {}, of attention and of dense feed-forward networks; merge \
         the adapter into its model with PEFT's merge_and_unload and load that",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_heads_go_there_and_back() {
        let [to, back] = [true, false].map(|neighbours| Reorder { head: 8, neighbours });
        assert_eq!((0..8).map(|row| to.row(row)).collect::<Vec<_>>(), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert!((0..24).all(|row| back.row(to.row(row)) == row && to.row(back.row(row)) == row));
    }
}
