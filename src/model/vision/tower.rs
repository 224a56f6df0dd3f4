//! A tower and its projector: their weights, and the pass over a tile's patches.

use super::limited::LimitedLayer;
use super::{Family, Joining, Table, VisionConfig, family, read_with};
use crate::blocks::{BLOCK, dequantize};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::layout::BufferId;
use crate::model::config::{ModelConfig, NormKind};
use crate::model::decoder::{self, Layer, NormWeights, norm_of};
use crate::model::tensors::{LeftOut, Listed, Place, Rows, Tensors};
use crate::model::{Model, Reserve};
use crate::plan::{Builder, Mlp, Norm, Stage, Value as Made};
use crate::weights::{Matrix, VectorSource};

/// A tower that has reserved its weights and can lay out its pass.
pub struct Tower {
    /// Sizes and constants.
    pub vision: VisionConfig,
    patches: Vec<Matrix>,                  // (D, P), of which the products are added
    patch_norms: Option<[NormWeights; 3]>, // (P), (D), (D)
    patches_norm: Option<NormWeights>,     // (D)
    layers: Layers,
    norm: Option<NormWeights>,           // (D)
    projector_norm: Option<NormWeights>, // (merge^2 D), or (D) of a mean or of each patch, or (hidden)
    standardised: Option<[BufferId; 2]>, // (D): what is subtracted from means, and what they are multiplied by then
    merger: Option<Matrix>,              // (merged, merge^2 D)
    up: Option<Matrix>,                  // (hidden, merge^2 D), or (hidden, merged)
    gate_up: Option<Matrix>,             // (2 gated, hidden), gates first
    down: Matrix,                        // (width, hidden), or (width, D), or (width, gated)
    deepstack: Vec<Deepstack>,
    /// The tensor of its table of positions, `[rows, columns, D]`, where there is one.
    table: Option<String>,
    left_out: Vec<LeftOut>,
    vectors: Vec<(BufferId, VectorSource)>,
    gguf: bool,
}

enum Layers {
    Usual(Vec<Layer>),
    Limited(Vec<LimitedLayer>),
}

impl Layers {
    fn reserve(t: &mut Tensors<'_, '_>, vision: &VisionConfig) -> Result<Self> {
        let (c, all) = (&vision.tower, 0..vision.tower.layers.len());
        Ok(match vision.limited {
            Some(needed) => Self::Limited(all.map(|i| LimitedLayer::reserve(t, c, i, needed)).collect::<Result<_>>()?),
            None => Self::Usual(all.map(|i| Layer::reserve(t, c, i)).collect::<Result<_>>()?),
        })
    }

    fn matrices(&self) -> Vec<&Matrix> {
        match self {
            Self::Usual(layers) => layers.iter().flat_map(Layer::matrices).collect(),
            Self::Limited(layers) => layers.iter().flat_map(LimitedLayer::matrices).collect(),
        }
    }

    fn plan(&self, b: &mut Builder<'_>, c: &ModelConfig, i: usize) -> Result<()> {
        match self {
            Self::Usual(layers) => layers[i].plan(b, c, i, None),
            Self::Limited(layers) => layers[i].plan(b, c),
        }
    }
}

/// The projector of what a layer in the midst of the tower has made.
struct Deepstack {
    layer: usize,
    norm: NormWeights, // (merge^2 D)
    up: Matrix,        // (merge^2 D, merge^2 D)
    down: Matrix,      // (width, merge^2 D)
}

impl Tower {
    /// Checks every tensor of the tower against its configuration and reserves its buffers. Tensors of a language model
    /// beside it are left out.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where the family, a key or a tensor is not known, `BAD_MODEL` where what is there does not
    /// fit together.
    pub fn open(checkpoint: &Checkpoint, reserve: &mut Reserve<'_>) -> Result<Self> {
        let family = family(checkpoint)?;
        let vision = read_with(family, checkpoint)?;
        let mut tensors = Tensors::of_tower(checkpoint, family.names, reserve);
        if swapped(checkpoint, &vision.tower) {
            tensors.names.swap("ffn_up", "ffn_down");
        }
        Self::reserve(vision, family, tensors)
    }

    fn reserve(vision: VisionConfig, family: &Family, mut t: Tensors<'_, '_>) -> Result<Self> {
        let (c, parts) = (&vision.tower, family.parts);
        let d = c.width;
        let joined = match vision.joining {
            Joining::Wide | Joining::Interleaved => vision.merge * vision.merge * d,
            Joining::Mean => d,
        };
        // Rows that become one have no room between them.
        if vision.joining != Joining::Mean && vision.merge > 1 && !joined.is_multiple_of(BLOCK) {
            return Err(Error::unsupported(format!(
                "pictures are rows of {joined} numbers before their projector; this version reads multiples of {BLOCK}"
            )));
        }
        t.layers = c.layers.len();
        let [rows, columns] = vision.positions;
        let table = (vision.table != Table::None).then(|| {
            let table = t.flat((parts.positions, None), "weight", &[rows * columns, d]);
            t.skip(table.clone());
            table.name
        });
        let mut patches = vec![linear(&mut t, (parts.patches, None), vision.pixels(), d)?];
        if vision.apart {
            let further = Rows::all(t.flat((parts.patches, None), "weight.1", &[d, vision.pixels()]));
            patches.push(t.matrix(format!("{}.1", parts.patches), vec![further], vision.pixels(), 1, None)?);
        }
        let patch_norms = parts.patch_norms.map(|[before, after, last]| {
            let mut of = |part, width| {
                decoder::norm(&mut t, &ModelConfig { width, norm: NormKind::Layer, ..c.clone() }, (part, None), 1.0)
            };
            Ok::<_, Error>([of(before, vision.pixels())?, of(after, d)?, of(last, d)?])
        });
        let patch_norms = patch_norms.transpose()?;
        let patches_norm = parts.patches_norm.map(|part| decoder::norm(&mut t, c, (part, None), 1.0)).transpose()?;
        let layers = Layers::reserve(&mut t, &vision)?;
        let norm = parts.norm.map(|part| decoder::norm(&mut t, c, (part, None), 1.0)).transpose()?;
        let of_projector = vision.norm.map(|norm| ModelConfig {
            width: match vision.gated.and(vision.hidden) {
                Some(hidden) => hidden,
                None if norm.each => d,
                None => joined,
            },
            eps: norm.eps,
            norm: norm.kind,
            norm_offset: norm.offset,
            ..c.clone()
        });
        let weights = |c: ModelConfig| match parts.projector_norm {
            Some(part) => decoder::norm(&mut t, &c, (part, None), 1.0),
            None => NormWeights::ones(&mut t, "projector_norm", joined),
        };
        let projector_norm = of_projector.map(weights).transpose()?;
        let merger = vision.merged.map(|merged| linear(&mut t, (parts.merger, None), joined, merged)).transpose()?;
        let joined = vision.merged.unwrap_or(joined);
        let up = vision.hidden.map(|hidden| linear(&mut t, (parts.up, None), joined, hidden)).transpose()?;
        let standardised = vision.standardised.then(|| {
            // Means are smaller than what the file's numbers are for by the root of the width.
            let root = (d as f32).sqrt();
            let mut of = |part: &'static str, scale| {
                let tensor = t.flat((part, None), "", &[d]);
                t.vector(part.into(), vec![(Some(tensor), d)], 0.0, scale, 0)
            };
            Ok::<_, Error>([of("v.std_bias", root.recip())?, of("v.std_scale", root)?])
        });
        let standardised = standardised.transpose()?;
        let gate_up = vision.gated.zip(vision.hidden).map(|(gated, hidden)| {
            let rows = parts.gated.map(|part| Rows::all(t.named((part, None), "weight", &[gated, hidden])));
            t.matrix("mm.gate_up".into(), rows.into(), hidden, 1, None)
        });
        let gate_up = gate_up.transpose()?;
        let reads = vision.gated.or(vision.hidden).unwrap_or(joined);
        let down = if parts.down_transposed {
            let weight = Listed { transposed: true, ..t.flat((parts.down, None), "weight", &[reads, vision.width]) };
            t.matrix(parts.down.into(), vec![Rows { rows: vision.width, ..Rows::all(weight) }], reads, 1, None)?
        } else {
            linear(&mut t, (parts.down, None), reads, vision.width)?
        };
        let deepstack = vision
            .deepstack
            .iter()
            .enumerate()
            .map(|(i, layer)| Deepstack::reserve(&mut t, &vision, i, *layer))
            .collect::<Result<_>>()?;
        let left_out = t.check_all_used(c)?;
        let gguf = t.names.gguf();
        Ok(Self {
            patches,
            patch_norms,
            patches_norm,
            layers,
            norm,
            projector_norm,
            standardised,
            merger,
            up,
            gate_up,
            down,
            deepstack,
            table,
            left_out,
            gguf,
            vectors: t.vectors,
            vision,
        })
    }

    /// The norm of what the projector reads, of each patch or of rows.
    fn projector_norm(&self, each: bool) -> Option<Norm> {
        let norm = self.vision.norm.filter(|norm| norm.each == each)?;
        self.projector_norm.as_ref().map(|weights| norm.of(&self.vision.tower, weights))
    }

    /// The table of positions, f32 `[rows, columns, D]`; of the columns those that pictures have. Empty where there is
    /// none.
    pub async fn positions(&self, checkpoint: &Checkpoint) -> Result<Vec<f32>> {
        let Some(table) = &self.table else { return Ok(Vec::new()) };
        let (info, [rows, columns], d) = (checkpoint.tensor(table)?, self.vision.positions, self.vision.tower.width);
        if info.elements() != (rows * columns * d) as u64 {
            return Err(Error::bad_model(format!(
                "tensor {table} is not of {rows} x {columns} positions of {d} numbers"
            )));
        }
        let kept = self.vision.columns();
        // All at once, where all is kept.
        let (reads, each) = if kept == columns { (1, info.bytes) } else { (rows as u64, info.bytes / rows as u64) };
        let mut values = Vec::with_capacity(rows * kept * d);
        for read in 0..reads {
            let raw = checkpoint
                .read(info, read * each, if reads == 1 { each as usize } else { each as usize / columns * kept })
                .await?;
            let mut of_read = Vec::new();
            dequantize(info.dtype, &raw, &mut of_read).map_err(|e| e.at(table))?;
            values.append(&mut of_read);
        }
        if self.vision.table == Table::Paired {
            let pairs = || values.chunks_exact(2 * d);
            values = pairs().flat_map(|pair| &pair[..d]).chain(pairs().flat_map(|pair| &pair[d..])).copied().collect();
        }
        Ok(values)
    }
}

impl Deepstack {
    /// Number `i` of them, of that layer's features.
    fn reserve(t: &mut Tensors<'_, '_>, vision: &VisionConfig, i: usize, layer: usize) -> Result<Self> {
        let joined = vision.merge * vision.merge * vision.tower.width;
        let folder = t.names.beside().map(|prefix| format!("{prefix}deepstack_merger_list.{i}"));
        let name = |gguf: &str, hf: &str| {
            folder.as_ref().map_or_else(|| format!("v.deepstack.{layer}.{gguf}"), |folder| format!("{folder}.{hf}"))
        };
        let (norm, up, down) = (name("norm", "norm"), name("fc1", "linear_fc1"), name("fc2", "linear_fc2"));
        let listed = |name: String, shape: &[usize]| Listed {
            name,
            shape: shape.to_vec(),
            part: "deepstack",
            layer: None,
            transposed: false,
        };
        let vector = |t: &mut Tensors<'_, '_>, of: &str, kind: &str, n: usize| {
            let name = format!("{of}.{kind}");
            t.vector(name.clone(), vec![(Some(listed(name, &[n])), n)], 0.0, 1.0, 0)
        };
        let weights = NormWeights::of_layer(vector(t, &norm, "weight", joined)?, vector(t, &norm, "bias", joined)?);
        let mut product = |of: &str, n: usize| {
            let bias = vector(t, of, "bias", n)?;
            t.matrix(of.into(), vec![Rows::all(listed(format!("{of}.weight"), &[n, joined]))], joined, 1, Some(bias))
        };
        Ok(Self { layer, norm: weights, up: product(&up, joined)?, down: product(&down, vision.width)? })
    }
}

/// Whether a file is one of llama.cpp's first ones, in which the products up and down have each other's names.
fn swapped(checkpoint: &Checkpoint, tower: &ModelConfig) -> bool {
    let is = |name: &str, shape: [usize; 2]| {
        checkpoint.tensors.get(name).is_some_and(|info| info.shape == shape.map(|n| n as u64))
    };
    let (d, ff) = (tower.width, tower.ff);
    d != ff && is("v.blk.0.ffn_down.weight", [ff, d]) && is("v.blk.0.ffn_up.weight", [d, ff])
}

/// A product with a bias where the checkpoint has one.
fn linear(t: &mut Tensors<'_, '_>, place: Place, k: usize, n: usize) -> Result<Matrix> {
    let bias = t.named(place, "bias", &[n]);
    let bias = if t.has(&bias.name) {
        Some(t.vector(format!("{}.bias", place.0), vec![(Some(bias), n)], 0.0, 1.0, 0)?)
    } else {
        None
    };
    let weight = t.flat(place, "weight", &[n, k]);
    t.matrix(place.0.into(), vec![Rows::all(weight)], k, 1, bias)
}

impl Model for Tower {
    fn config(&self) -> &ModelConfig {
        &self.vision.tower
    }

    fn config_mut(&mut self) -> &mut ModelConfig {
        &mut self.vision.tower
    }

    fn matrices(&self) -> Vec<&Matrix> {
        let mut all: Vec<_> = self.patches.iter().chain(&self.merger).chain(&self.up).collect();
        all.extend(self.gate_up.iter().chain([&self.down]));
        all.extend(self.deepstack.iter().flat_map(|deepstack| [&deepstack.up, &deepstack.down]));
        all.extend(self.layers.matrices());
        all
    }

    fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    fn vectors(&self) -> &[(BufferId, VectorSource)] {
        &self.vectors
    }

    fn gguf(&self) -> bool {
        self.gguf
    }

    fn layers(&self, b: &mut Builder<'_>) -> Result<()> {
        let (c, merge) = (&self.vision.tower, self.vision.merge);
        b.texts(true);
        match (&self.patch_norms, &self.patches[..]) {
            (Some(norms), [matrix]) => {
                let of = |name: &str, weights| Norm { center: true, ..norm_of(c, name.into(), weights) };
                let [before, after, last] = norms;
                b.normed_patches(
                    self.vision.patch_shape(),
                    matrix,
                    [&of("patch_norm", before), &of("patches.norm", after), &of("positions.norm", last)],
                )?;
            }
            (_, matrices) => b.patches(self.vision.patch_shape(), matrices, self.vision.table != Table::None)?,
        }
        if let Some(norm) = &self.patches_norm {
            b.renorm(&norm_of(c, "patches.norm".into(), norm))?;
        }
        for i in 0..c.layers.len() {
            b.stage(Stage::Layer(i));
            self.layers.plan(b, c, i)?;
            if let Some(at) = self.deepstack.iter().position(|deepstack| deepstack.layer == i) {
                b.join(merge * merge, false, Some(at))?;
            }
        }
        if let Some(norm) = &self.norm {
            b.renorm(&norm_of(c, "post_norm".into(), norm))?;
        }
        self.projector_norm(true).map_or(Ok(()), |norm| b.renorm(&norm))
    }

    fn head(&self, b: &mut Builder<'_>) -> Result<Made> {
        let merge = self.vision.merge;
        match self.vision.joining {
            Joining::Wide => b.join(merge * merge, false, None)?,
            Joining::Interleaved => b.join(merge * merge, true, None)?,
            Joining::Mean => drop(b.pool(None, true, self.standardised)?),
        }
        self.merger.as_ref().map_or(Ok(()), |merger| b.remake(merger))?;
        let norm = self.projector_norm(false);
        if let (Some(up), Some(gate_up), Some(norm)) = (&self.up, &self.gate_up, &norm) {
            b.remake(up)?;
            return b.project_gated((norm, self.vision.activation), gate_up, self.vision.tower.mlp, &self.down);
        }
        let mlp = Mlp { gated: false, ..Mlp::gated(self.vision.activation) };
        let Some(up) = &self.up else { return b.project_once(norm.as_ref(), &self.down) };
        let made = b.project(norm.as_ref(), up, mlp, (&self.down, None))?;
        for (i, deepstack) in self.deepstack.iter().enumerate() {
            b.rejoin(i)?;
            let norm = norm_of(&self.vision.tower, format!("deepstack.{i}.norm"), &deepstack.norm);
            b.project(Some(&norm), &deepstack.up, mlp, (&deepstack.down, Some(i)))?;
        }
        Ok(made)
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::format::TensorInfo;

    /// llama.cpp's first files have the products up and down by each other's names.
    #[test]
    fn products_by_each_others_names_are_told_by_their_shapes() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/oracle/idefics3vl-gguf/mmproj-model.gguf");
        let mut checkpoint =
            pollster::block_on(Checkpoint::open(&crate::source::disk::open_path(&path).unwrap())).unwrap();
        let open = |checkpoint: &Checkpoint| {
            let mut buffer = |_, _| BufferId(0);
            let mut reserve = Reserve {
                max_binding: u64::MAX,
                quantize: None,
                pooling: crate::model::AskedPooling::Auto,
                buffer: &mut buffer,
            };
            let tower = Tower::open(checkpoint, &mut reserve)?;
            let sources = tower.matrices().into_iter().flat_map(|matrix| &matrix.parts).map(|part| format!("{part:?}"));
            Ok::<_, Error>(sources.collect::<Vec<_>>())
        };
        let usual = open(&checkpoint).unwrap();
        let other = |name: &str| match name.split_once("ffn_up") {
            Some((before, behind)) => format!("{before}ffn_down{behind}"),
            None => name.replace("ffn_down", "ffn_up"),
        };
        checkpoint.tensors = checkpoint
            .tensors
            .into_iter()
            .map(|(name, info)| (other(&name), TensorInfo { name: other(&info.name), ..info }))
            .collect();
        let swapped = open(&checkpoint).unwrap();
        assert_ne!(swapped, usual);
        assert_eq!(swapped.iter().map(|part| other(part)).collect::<Vec<_>>(), usual);
    }
}
