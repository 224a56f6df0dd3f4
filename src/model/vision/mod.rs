//! What reads pictures for a language model: a tower of layers over the patches of a picture, and a projector, which makes rows as wide as the language
//! model of what the tower gives. They stand in a prompt in place of tokens. One file a family, as with language models.

mod lfm2_vl;

use super::config::ModelConfig;
use super::decoder::{Layer, NormWeights, norm_of};
use super::keys::Keys;
use super::names::TensorNames;
use super::tensors::{LeftOut, Place, Rows, Tensors};
use super::{Model, Reserve};
use crate::blocks::dequantize;
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::layout::BufferId;
use crate::plan::{Activation, Builder, Mlp, Norm, Stage, Value};
use crate::weights::{Matrix, VectorSource};

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
    /// Width of what stands between the projector's products.
    pub hidden: usize,
    /// Width of the language model that the rows are for.
    pub width: usize,
    /// What is between the projector's products.
    pub activation: Activation,
    /// Epsilon of the norm of what the projector reads, where there is one.
    pub norm: Option<f64>,
    /// Whether the numbers of a patch come channel by channel (llama.cpp's files), and not pixel by pixel.
    pub by_channel: bool,
    /// What pixels of 0 to 1 become: `(x - mean) / deviation`, by channel.
    pub mean: [f32; 3],
    pub deviation: [f32; 3],
}

impl VisionConfig {
    /// Numbers of a patch.
    pub fn pixels(&self) -> usize {
        3 * self.patch * self.patch
    }
}

/// A family of towers.
struct Family {
    /// GGUF's `clip.vision.projector_type`.
    gguf: &'static str,
    /// Hugging Face's `architectures[0]`.
    hf: &'static str,
    read: fn(&Keys<'_>, &Checkpoint) -> Result<VisionConfig>,
    names: &'static TensorNames,
    /// The tensors of its table of positions, of its product of patches, of the norm behind its layers and of its projector: a norm and two products.
    parts: Parts,
}

#[derive(Clone, Copy)]
struct Parts {
    positions: &'static str,
    patches: &'static str,
    norm: &'static str,
    projector_norm: &'static str,
    up: &'static str,
    down: &'static str,
}

const FAMILIES: &[&Family] = &[&lfm2_vl::LFM2_VL];

/// A tower that has reserved its weights and can lay out its pass.
pub struct Tower {
    /// Sizes and constants.
    pub vision: VisionConfig,
    patches: Matrix, // (D, P)
    layers: Vec<Layer>,
    norm: NormWeights,                   // (D)
    projector_norm: Option<NormWeights>, // (merge^2 D)
    up: Matrix,                          // (hidden, merge^2 D)
    down: Matrix,                        // (width, hidden)
    /// The tensor of its table of positions, `[rows, columns, D]`.
    table: String,
    left_out: Vec<LeftOut>,
    vectors: Vec<(BufferId, VectorSource)>,
    gguf: bool,
}

/// The family of a checkpoint: of llama.cpp's file of its own (`mmproj`), or of a folder that holds the tower beside the language model.
fn family(checkpoint: &Checkpoint) -> Result<&'static Family> {
    let known = |name: fn(&Family) -> &'static str| FAMILIES.iter().map(|family| name(family)).collect::<Vec<_>>().join(", ");
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
            found.ok_or_else(|| Error::unsupported(format!("projector {kind} is not supported; this version reads pictures with: {}", known(|f| f.gguf))))
        }
        Metadata::Hf(m) => {
            let name = m.config.get("architectures").and_then(|a| a.get(0)).and_then(|a| a.as_str()).unwrap_or_default();
            let found = FAMILIES.iter().find(|family| family.hf == name).copied();
            found.ok_or_else(|| Error::unsupported(format!("{name} does not read pictures here; this version knows: {}", known(|f| f.hf))))
        }
    }
}

/// Whether a checkpoint's language model has a tower beside it, known or not. Models in shards have none.
pub fn within(checkpoint: &Checkpoint) -> bool {
    checkpoint.packed.is_none() && matches!(&checkpoint.metadata, Metadata::Hf(m) if m.config.contains_key("vision_config"))
}

/// Whether tensors whose names begin so are of a tower or a projector that this version knows.
pub fn is_tower(beginning: &str) -> bool {
    let parts = ["model.vision_tower.", "model.multi_modal_projector."];
    parts.contains(&beginning)
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
    vision.tower.check()?;
    Ok(vision)
}

impl Tower {
    /// Checks every tensor of the tower against its configuration and reserves its buffers. Tensors of a language model beside it are left out.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where the family, a key or a tensor is not known, `BAD_MODEL` where what is there does not fit together.
    pub fn open(checkpoint: &Checkpoint, reserve: &mut Reserve<'_>) -> Result<Self> {
        let family = family(checkpoint)?;
        let vision = read_with(family, checkpoint)?;
        Self::reserve(vision, family, Tensors::of_tower(checkpoint, family.names, reserve))
    }

    fn reserve(vision: VisionConfig, family: &Family, mut t: Tensors<'_, '_>) -> Result<Self> {
        let (c, parts) = (&vision.tower, family.parts);
        let d = c.width;
        let joined = vision.merge * vision.merge * d;
        t.layers = c.layers.len();
        let [rows, columns] = vision.positions;
        let table = t.flat((parts.positions, None), "weight", &[rows * columns, d]);
        t.skip(table.clone());
        let patches = linear(&mut t, (parts.patches, None), vision.pixels(), d)?;
        let layers = (0..c.layers.len()).map(|i| Layer::reserve(&mut t, c, i)).collect::<Result<_>>()?;
        let norm = super::decoder::norm(&mut t, c, (parts.norm, None), 1.0)?;
        let of_joined = vision.norm.map(|eps| ModelConfig { width: joined, eps, ..c.clone() });
        let projector_norm = of_joined.map(|c| super::decoder::norm(&mut t, &c, (parts.projector_norm, None), 1.0)).transpose()?;
        let up = linear(&mut t, (parts.up, None), joined, vision.hidden)?;
        let down = linear(&mut t, (parts.down, None), vision.hidden, vision.width)?;
        let left_out = t.check_all_used(c)?;
        let (gguf, table) = (t.names.gguf(), table.name);
        Ok(Self { patches, layers, norm, projector_norm, up, down, table, left_out, gguf, vectors: t.vectors, vision })
    }

    /// The table of positions, f32 `[rows, columns, D]`.
    pub async fn positions(&self, checkpoint: &Checkpoint) -> Result<Vec<f32>> {
        let info = checkpoint.tensor(&self.table)?;
        let raw = checkpoint.read(info, 0, info.bytes as usize).await?;
        let mut values = Vec::new();
        dequantize(info.dtype, &raw, &mut values).map_err(|e| e.at(&self.table))?;
        Ok(values)
    }
}

/// A product with a bias where the checkpoint has one.
fn linear(t: &mut Tensors<'_, '_>, place: Place, k: usize, n: usize) -> Result<Matrix> {
    let bias = t.named(place, "bias", &[n]);
    let bias = if t.has(&bias.name) { Some(t.vector(format!("{}.bias", place.0), vec![(Some(bias), n)], 0.0, 1.0, 0)?) } else { None };
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
        let mut all = vec![&self.patches, &self.up, &self.down];
        all.extend(self.layers.iter().flat_map(Layer::matrices));
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
        let c = &self.vision.tower;
        b.texts(true);
        b.patches(&self.patches)?;
        for (i, layer) in self.layers.iter().enumerate() {
            b.stage(Stage::Layer(i));
            layer.plan(b, c, i, None)?;
        }
        b.renorm(&norm_of(c, "post_norm".into(), &self.norm))
    }

    fn head(&self, b: &mut Builder<'_>) -> Result<Value> {
        let merge = self.vision.merge;
        b.join(merge * merge)?;
        let norm = self.projector_norm.as_ref().zip(self.vision.norm);
        let norm = norm.map(|(weights, eps)| Norm { eps, ..norm_of(&self.vision.tower, "projector_norm".into(), weights) });
        let mlp = Mlp { gated: false, ..Mlp::gated(self.vision.activation) };
        b.project(norm.as_ref(), &self.up, mlp, &self.down)
    }
}
