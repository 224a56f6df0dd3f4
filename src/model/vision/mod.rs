//! Vision encoders: a tower of layers over the patches of a picture, and a projector, which maps the tower's output to
//! rows as wide as the language model. These stand in a prompt in place of tokens. One file a family, as with language
//! models.

mod gemma3;
mod gemma4;
mod gemma4_unified;
mod glm_ocr;
mod idefics3;
mod lfm2_vl;
mod lightonocr;
mod limited;
mod paddleocr;
mod qwen3_vl;
mod siglip;

use std::fmt::Write as _;

use millrace_picture::{Cut, Place as CropPlace, QwenVl, TableResize};
use serde_json::{Map, Value};

use super::config::{Encoder, ModelConfig, NormKind, PictureAttention};
use super::decoder::{Layer, NormWeights, norm_of};
use super::keys::Keys;
use super::names::TensorNames;
use super::tensors::{LeftOut, Listed, Place, Rows, Tensors};
use super::{Model, Pooling, Reserve};
use crate::blocks::{BLOCK, dequantize};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::layout::BufferId;
use crate::plan::{Activation, Builder, Mlp, Norm, Stage, Value as Made};
use crate::weights::{Matrix, VectorSource};
use limited::LimitedLayer;
use siglip::{SIGLIP, rotated, rotated_as_usual, siglip, siglip_of};

/// Sizes and constants of a tower and its projector.
#[derive(Debug, Clone)]
pub struct VisionConfig {
    /// The tower's layers; its name is the projector's kind, by GGUF's name.
    pub tower: ModelConfig,
    /// Side of a patch, pixels.
    pub patch: usize,
    /// Rows and columns of the table of positions.
    pub positions: [usize; 2],
    /// Patches of a side that become one row of a prompt.
    pub merge: usize,
    /// How they become one row.
    pub joining: Joining,
    /// Width of what a product makes of joined rows before the projector's; `None` where there is no such product.
    pub merged: Option<usize>,
    /// Width of what stands between the projector's products; `None` where it is one.
    pub hidden: Option<usize>,
    /// Width within a gated network behind the projector's first product, in place of its second one; what that product
    /// makes is normed before. `None` where there is no such network.
    pub gated: Option<usize>,
    /// Width of the language model that the rows are for.
    pub width: usize,
    /// What is between the projector's products.
    pub activation: Activation,
    /// The norm of what the projector reads, where there is one.
    pub norm: Option<ProjectorNorm>,
    /// Whether rows that are means have a bias subtracted and are scaled, by numbers of the file.
    pub standardised: bool,
    /// Whether the numbers of a patch come channel by channel (convolutions, and all of llama.cpp's files), and not
    /// pixel by pixel.
    pub by_channel: bool,
    /// How often each channel of a patch is there: films have more than one frame, and a picture is equal ones.
    pub frames: usize,
    /// Whether the frames' weights are two tensors.
    pub apart: bool,
    /// How a picture's positions are made of the table.
    pub table: Table,
    /// Layers behind which features have a projector of their own; the language model adds what they make to a
    /// picture's rows, behind its first layers.
    pub deepstack: Vec<usize>,
    /// How rows of one picture attend to each other in the language model, where its own file does not tell.
    pub picture_attention: Option<PictureAttention>,
    /// Whether a picture's rows are a grid on the axes of the language model's positions.
    pub grid: bool,
    /// Whether all products of layers read and give numbers between limits; with `false` those that files have limits
    /// of. `None`: no product does.
    pub limited: Option<bool>,
    /// The preprocessing of pictures.
    pub pictures: millrace_picture::Family,
    /// The tokens that stand for pictures.
    pub words: Words,
}

impl VisionConfig {
    /// A tower over patches of `patch` pixels a side, with a table of `positions`, for a language model that is `width`
    /// wide. Each patch becomes a row, by one product without a norm; patches are given channel by channel, and the
    /// table is fitted to a picture's grid.
    fn of(
        tower: ModelConfig,
        [patch, width]: [usize; 2],
        positions: [usize; 2],
        pictures: millrace_picture::Family,
        words: Words,
    ) -> Self {
        Self {
            activation: tower.mlp.activation,
            tower,
            patch,
            positions,
            merge: 1,
            joining: Joining::Wide,
            merged: None,
            hidden: None,
            gated: None,
            width,
            norm: None,
            standardised: false,
            by_channel: true,
            frames: 1,
            apart: false,
            table: Table::Resized(TableResize::Antialiased),
            deepstack: Vec::new(),
            picture_attention: None,
            grid: false,
            limited: None,
            pictures,
            words,
        }
    }

    /// Numbers of a patch.
    pub fn pixels(&self) -> usize {
        3 * self.patch * self.patch * self.frames
    }

    /// Columns of the table of positions that pictures have.
    pub fn columns(&self) -> usize {
        let [_, columns] = self.positions;
        match self.table {
            Table::Resized(_) | Table::Paired | Table::None => columns,
            // The longest picture has one row of squares.
            Table::Added => columns.min(self.tower.context as usize / self.merge),
        }
    }

    /// Numbers of a row of a prompt: what takes the embedding's place, and what is added behind layers.
    pub fn row(&self) -> usize {
        self.width * (1 + self.deepstack.len())
    }
}

/// A norm of what the projector reads.
#[derive(Debug, Clone, Copy)]
pub struct ProjectorNorm {
    pub kind: NormKind,
    pub eps: f64,
    /// What is added to the file's weights.
    pub offset: f32,
    /// Whether each patch is normed by itself, before patches become rows.
    pub each: bool,
}

impl ProjectorNorm {
    /// A LayerNorm of rows.
    fn layer(eps: f64) -> Self {
        Self { kind: NormKind::Layer, eps, offset: 0.0, each: false }
    }

    /// By its weights.
    fn of(&self, tower: &ModelConfig, weights: &NormWeights) -> Norm {
        let center = self.kind == NormKind::Layer;
        Norm { eps: self.eps, center, ..norm_of(tower, "projector_norm".into(), weights) }
    }
}

/// How patches of a square become one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joining {
    /// Side by side.
    Wide,
    /// The first numbers of all side by side, then the second ones, and so on.
    Interleaved,
    /// Their mean.
    Mean,
}

/// How the positions of a picture's patches are made of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// It is fitted to the picture's grid.
    Resized(TableResize),
    /// Its first row is of columns, its second one of rows; each patch has the sum of both.
    Added,
    /// As `Added`, with rows for columns and for rows interleaved.
    Paired,
    /// There is none: positions are rotations alone.
    None,
}

/// The tokens around a picture's rows, by name.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    pub start: &'static str,
    /// What stands for each row.
    pub row: &'static str,
    /// What does where a vocabulary has no such token.
    pub otherwise: Option<&'static str>,
    pub end: &'static str,
    /// What stands before the rows of a tile and of the thumbnail, where pictures are cut.
    pub tile: fn(CropPlace) -> String,
    /// What the chat template prints for a picture where it has to see pictures as parts of their own type: SmolVLM's
    /// has a space before a first part that is a text, PaddleOCR-VL's puts pictures before texts.
    pub printed: Option<&'static str>,
}

impl Words {
    /// Those of pictures that are not cut: what stands before the rows, for each of them, and behind them.
    const fn of_whole([start, row, end]: [&'static str; 3]) -> Self {
        Self { start, row, otherwise: None, end, tile: |_| String::new(), printed: None }
    }

    /// The names of the tokens that stand for a picture, each crop's rows as one.
    pub fn of(&self, cut: &Cut) -> String {
        let mut words = String::from(self.start);
        for crop in &cut.crops {
            _ = write!(words, "{}{}", (self.tile)(crop.place), self.row);
        }
        words + self.end
    }
}

/// A family of towers.
struct Family {
    /// GGUF's `clip.vision.projector_type`.
    gguf: &'static str,
    /// Hugging Face's `architectures[0]`.
    hf: &'static [&'static str],
    read: fn(&Keys<'_>, &Checkpoint) -> Result<VisionConfig>,
    names: &'static TensorNames,
    /// The tensors of its table of positions, of its product of patches, of the norm behind its layers and of its
    /// projector: a norm and two products, or the last of them. A projector's norm without a name has no weights.
    parts: Parts,
}

#[derive(Clone, Copy)]
struct Parts {
    positions: &'static str,
    patches: &'static str,
    norm: Option<&'static str>,
    projector_norm: Option<&'static str>,
    up: &'static str,
    down: &'static str,
    /// Norms of patches, of what their product gives, and of that with positions.
    patch_norms: Option<[&'static str; 3]>,
    /// The norm of what the product of patches gives, where that is the only one.
    patches_norm: Option<&'static str>,
    /// The product of joined rows before the projector's.
    merger: &'static str,
    /// Gates of a gated network, and what they multiply.
    gated: [&'static str; 2],
    /// Whether the last product is kept with what it reads along columns.
    down_transposed: bool,
}

impl Parts {
    /// The tensors of the table, of patches and of the projector's products, and of the norm behind the layers.
    const fn of([positions, patches, up, down]: [&'static str; 4], norm: Option<&'static str>) -> Self {
        Self {
            positions,
            patches,
            norm,
            projector_norm: None,
            up,
            down,
            patch_norms: None,
            patches_norm: None,
            merger: "",
            gated: [""; 2],
            down_transposed: false,
        }
    }
}

const FAMILIES: &[&Family] = &[
    &gemma3::GEMMA3,
    &gemma4::GEMMA4,
    &gemma4_unified::GEMMA4_UNIFIED,
    &glm_ocr::GLM_OCR,
    &idefics3::IDEFICS3,
    &lfm2_vl::LFM2_VL,
    &lightonocr::LIGHTONOCR,
    &paddleocr::PADDLEOCR,
    &qwen3_vl::QWEN3_VL,
];

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

/// The family of a checkpoint: of llama.cpp's file of its own (`mmproj`), or of a folder that holds the tower beside
/// the language model.
fn family(checkpoint: &Checkpoint) -> Result<&'static Family> {
    match &checkpoint.metadata {
        Metadata::Gguf(m) => {
            let architecture = m.str("general.architecture")?;
            if architecture != "clip" {
                return Err(Error::unsupported(format!(
                    "this GGUF file is of architecture {architecture}; what reads pictures is a file of architecture clip (mmproj)"
                )));
            }
            let kind = match m.opt::<&str>("clip.vision.projector_type")? {
                Some(kind) => kind,
                None => m.str("clip.projector_type")?,
            };
            let found = FAMILIES.iter().find(|family| family.gguf == kind).copied();
            let known = || FAMILIES.iter().map(|family| family.gguf).collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| {
                Error::unsupported(format!(
                    "projector {kind} is not supported; this version reads pictures with: {}",
                    known()
                ))
            })
        }
        Metadata::Hf(m) => {
            let name =
                m.config.get("architectures").and_then(|a| a.get(0)).and_then(|a| a.as_str()).unwrap_or_default();
            let found = FAMILIES.iter().find(|family| family.hf.contains(&name)).copied();
            let known = || FAMILIES.iter().flat_map(|family| family.hf).copied().collect::<Vec<_>>().join(", ");
            found.ok_or_else(|| {
                Error::unsupported(format!("{name} does not read pictures here; this version knows: {}", known()))
            })
        }
    }
}

/// Whether a checkpoint's language model has a tower beside it, known or not. Models in shards have none.
pub fn within(checkpoint: &Checkpoint) -> bool {
    checkpoint.packed.is_none()
        && matches!(&checkpoint.metadata, Metadata::Hf(m) if m.config.contains_key("vision_config"))
}

/// Whether tensors whose names begin so are of a tower or a projector that this version knows.
pub fn is_tower(beginning: &str) -> bool {
    let towers = [
        "vision_tower.",
        "model.vision_tower.",
        "model.visual.",
        "visual.",
        "model.vision_model.",
        "model.vision_embedder.",
        "model.vision_encoder.",
    ];
    let projectors = [
        "multi_modal_projector.",
        "model.multi_modal_projector.",
        "model.embed_vision.",
        "model.connector.",
        "mlp_AR.",
        "model.projector.",
        "model.vision_projection.",
    ];
    towers.contains(&beginning) || projectors.contains(&beginning)
}

/// What a checkpoint says of its tower.
///
/// # Errors
/// `UNSUPPORTED_MODEL` where the family or a key is not known, `BAD_MODEL` where what is there does not fit together.
pub fn read(checkpoint: &Checkpoint) -> Result<VisionConfig> {
    read_with(family(checkpoint)?, checkpoint)
}

fn read_with(family: &Family, checkpoint: &Checkpoint) -> Result<VisionConfig> {
    let keys = Keys::of_part(checkpoint, "clip.vision", "vision_config")?;
    let vision = (family.read)(&keys, checkpoint)?;
    keys.finish()?;
    // A family without layers has checked what it has.
    if !vision.tower.layers.is_empty() {
        vision.tower.check()?;
    }
    Ok(vision)
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
                super::decoder::norm(
                    &mut t,
                    &ModelConfig { width, norm: NormKind::Layer, ..c.clone() },
                    (part, None),
                    1.0,
                )
            };
            Ok::<_, Error>([of(before, vision.pixels())?, of(after, d)?, of(last, d)?])
        });
        let patch_norms = patch_norms.transpose()?;
        let patches_norm =
            parts.patches_norm.map(|part| super::decoder::norm(&mut t, c, (part, None), 1.0)).transpose()?;
        let layers = Layers::reserve(&mut t, &vision)?;
        let norm = parts.norm.map(|part| super::decoder::norm(&mut t, c, (part, None), 1.0)).transpose()?;
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
            Some(part) => super::decoder::norm(&mut t, &c, (part, None), 1.0),
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

/// How many rows a tensor of a GGUF file has.
fn rows_of(checkpoint: &Checkpoint, tensor: &str) -> Result<usize> {
    let rows = checkpoint.tensors.get(tensor).and_then(|t| t.shape.first()).and_then(|n| usize::try_from(*n).ok());
    rows.filter(|n| *n > 0).ok_or_else(|| Error::bad_model(format!("tensor {tensor} is missing")))
}

/// The sides of a square table of `rows` positions.
fn square(rows: usize) -> Result<[usize; 2]> {
    let side = rows.isqrt();
    if side * side == rows {
        Ok([side, side])
    } else {
        Err(Error::bad_model(format!("a table of {rows} positions is no square")))
    }
}

/// Most rows of a picture of any size: larger ones are made smaller. What files ask for, 16 megapixels, is 16,384 rows
/// of Qwen's, more than a browser's context.
const MOST_ROWS: usize = 1024;

/// The preprocessing of pictures of any size, in whole rows of a prompt; `usual` stands for what the files do not say.
fn of_any_size(
    keys: &Keys<'_>,
    checkpoint: &Checkpoint,
    usual: QwenVl,
    [patch, merge]: [usize; 2],
) -> Result<millrace_picture::Family> {
    let asked = asked_of(checkpoint).unwrap_or_default();
    let read = usual.with_config(&asked).map_err(wrong_in("preprocessor_config.json"))?;
    // Areas of all frames of a picture; llama.cpp's are of one.
    let frames = read.frames as usize;
    let of_file = |key| Ok::<_, Error>(keys.size(key, "")?.map(|n| whole(n * frames)));
    let (least, largest) = (
        of_file("image_min_pixels")?.unwrap_or(read.min_pixels),
        of_file("image_max_pixels")?.unwrap_or(read.max_pixels),
    );
    let [mean, std] = if keys.is_gguf() {
        [keys.channels("image_mean")?, keys.channels("image_std")?]
    } else {
        [read.mean, read.std]
    };
    let most = whole(MOST_ROWS * (patch * merge).pow(2) * frames);
    Ok(millrace_picture::Family::QwenVl(QwenVl {
        patch_size: whole(patch),
        merge_size: whole(merge),
        max_pixels: largest.min(most),
        min_pixels: least.min(largest).min(most),
        mean,
        std,
        ..read
    }))
}

/// What says how pictures are to be prepared, where a folder has it: the processor's file, over what config.json may
/// say of it.
fn asked_of(checkpoint: &Checkpoint) -> Option<Map<String, Value>> {
    let Metadata::Hf(m) = &checkpoint.metadata else { return None };
    Some(
        m.config
            .iter()
            .chain(m.preprocessor.iter().flat_map(|all| all.iter()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

/// A size as the crate of pictures has it.
fn whole(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// What is wrong with a file that says how pictures are prepared.
fn wrong_in(file: &str) -> impl Fn(millrace_picture::Error) -> Error {
    move |e| Error::bad_model(format!("{file}: {e}"))
}

/// The language model's width, by config.json; where that has no part for it, its keys stand at the root.
fn width_of_text(config: &Map<String, Value>) -> Result<usize> {
    let text = config.get("text_config");
    let width = text.map_or_else(|| config.get("hidden_size"), |text| text.get("hidden_size")).and_then(Value::as_u64);
    width.and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
        let part = if text.is_some() { "text_config." } else { "" };
        Error::bad_model(format!("config.json: {part}hidden_size is missing"))
    })
}

/// Sets a tower up as an encoder of up to `patches` patches in one pass.
fn reads_pictures(tower: &mut ModelConfig, patches: u32) {
    tower.encoder = Encoder { both_ways: true, one_cache: true, ..Encoder::default() };
    // A tower only encodes.
    tower.pooling = Some(Pooling::Mean);
    (tower.vocab, tower.drawn, tower.context) = (1, 1, patches);
    tower.tied = Some(true);
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
                    matrix,
                    [&of("patch_norm", before), &of("patches.norm", after), &of("positions.norm", last)],
                )?;
            }
            (_, matrices) => b.patches(matrices, self.vision.table != Table::None)?,
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

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(not(target_arch = "wasm32"))]
    use crate::format::TensorInfo;

    /// llama.cpp's first files have the products up and down by each other's names.
    #[cfg(not(target_arch = "wasm32"))]
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

    /// What a page fetches beside a GGUF model is what is read here.
    #[test]
    fn pages_fetch_the_projectors_that_are_known() {
        let known = FAMILIES.iter().map(|family| format!("'{}',", family.gguf)).collect::<String>();
        let source = include_str!("../../../npm/hub.ts").split_whitespace().collect::<String>();
        assert!(source.contains(&format!("constREAD=[{known}];")), "npm/hub.ts, READ: {known}");
    }
}
