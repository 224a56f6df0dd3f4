//! Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU. Also what files call llama, SmolLM and TinyLlama
//! among them, and Mistral, whose only difference is a sliding window.

use super::config::{ModelConfig, Names};
use super::{Model, Reserve};
use crate::error::Result;
use crate::format::Checkpoint;
use crate::plan::{Attention, BufferId, Builder, Heads, Norm, Rotation};
use crate::weights::{Matrix, VectorSource, expect};

struct Layer {
    name: String,
    attn_norm: BufferId, // (D)
    qkv: Matrix,         // ((H + 2 G) E, D)
    o: Matrix,           // (D, H E)
    ffn_norm: BufferId,  // (D)
    gate_up: Matrix,     // (2 F, D)
    down: Matrix,        // (D, F)
}

struct Llama {
    config: ModelConfig,
    embed: Matrix, // (V, D)
    layers: Vec<Layer>,
    norm: BufferId, // (D)
    head: Matrix,   // (V, D), the embedding itself where they are tied
    vectors: Vec<(BufferId, VectorSource)>,
}

/// Checks every tensor of the checkpoint against the configuration and reserves its buffers.
pub fn open(checkpoint: &Checkpoint, reserve: &mut Reserve<'_>) -> Result<Box<dyn Model>> {
    let mut config = ModelConfig::read(checkpoint, "llama")?;
    let names = Names::of(checkpoint);
    let ModelConfig { width: d, ff: f, vocab: v, heads: Heads { h, g, e }, .. } = config;
    let mut used: Vec<String> = Vec::new();
    let mut vectors = Vec::new();
    let max = reserve.max_binding;

    let mut matrix = |label: String, tensors: &[(String, usize)], k: usize| -> Result<Matrix> {
        used.extend(tensors.iter().map(|(t, _)| t.clone()));
        Matrix::stack(label, checkpoint, tensors, k, max, reserve.buffer)
    };
    let embed = matrix("token_embd".into(), &[(names.embed(), v)], d)?;
    let head = match names.head() {
        name if checkpoint.tensors.contains_key(&name) => matrix("output".into(), &[(name, v)], d)?,
        _ if config.tied != Some(false) => Matrix { name: "output".into(), ..embed.clone() },
        name => return Err(crate::Error::bad_model(format!("tensor {name} is missing and the configuration does not tie it to the embedding"))),
    };
    let mut layers = Vec::with_capacity(config.layers);
    for i in 0..config.layers {
        let t = |part: &str| names.layer(i, part);
        let name = format!("blk.{i}");
        layers.push((
            matrix(format!("{name}.qkv"), &[(t("attn_q"), h * e), (t("attn_k"), g * e), (t("attn_v"), g * e)], d)?,
            matrix(format!("{name}.o"), &[(t("attn_output"), d)], h * e)?,
            matrix(format!("{name}.gate_up"), &[(t("ffn_gate"), f), (t("ffn_up"), f)], d)?,
            matrix(format!("{name}.down"), &[(t("ffn_down"), d)], f)?,
        ));
    }
    let mut vector = |tensor: String| -> Result<BufferId> {
        expect(checkpoint, &tensor, &[d])?;
        let id = (reserve.buffer)(tensor.clone(), d as u64 * 4);
        used.push(tensor.clone());
        vectors.push((id, VectorSource::Tensor { name: tensor, len: d }));
        Ok(id)
    };
    let norm = vector(names.norm())?;
    let layers = layers
        .into_iter()
        .enumerate()
        .map(|(i, (qkv, o, gate_up, down))| {
            let (attn_norm, ffn_norm) = (vector(names.layer(i, "attn_norm"))?, vector(names.layer(i, "ffn_norm"))?);
            Ok(Layer { name: format!("blk.{i}"), attn_norm, qkv, o, ffn_norm, gate_up, down })
        })
        .collect::<Result<Vec<_>>>()?;
    names.check_all_used(checkpoint, &used)?;
    config.tied = Some(!checkpoint.tensors.contains_key(&names.head()));
    Ok(Box::new(Llama { config, embed, layers, norm, head, vectors }))
}

impl Model for Llama {
    fn config(&self) -> &ModelConfig {
        &self.config
    }

    fn config_mut(&mut self) -> &mut ModelConfig {
        &mut self.config
    }

    fn matrices(&self) -> Vec<&Matrix> {
        let mut all = vec![&self.embed];
        if self.config.tied != Some(true) {
            all.push(&self.head);
        }
        all.extend(self.layers.iter().flat_map(|l| [&l.qkv, &l.o, &l.gate_up, &l.down]));
        all
    }

    fn vectors(&self) -> &[(BufferId, VectorSource)] {
        &self.vectors
    }

    fn forward(&self, b: &mut Builder<'_>) -> Result<()> {
        let c = &self.config;
        let h = b.residual(c.width); // (T, D)
        let qkv = b.scratch("qkv", c.heads.qkv()); // (T, (H + 2 G) E)
        let d = crate::plan::stride(c.width);
        let rope = Rotation { dims: c.rope.dims, interleaved: c.rope.interleaved };
        let attention = Attention { heads: c.heads, rope, scale: 1.0 / (c.heads.e as f64).sqrt(), window: c.window, softcap: 0.0 };
        let norm = |name: String, weight| Norm { name, weight, eps: c.eps };

        b.embed("token_embd", &self.embed, h)?;
        for (i, l) in self.layers.iter().enumerate() {
            b.norm_linear(&norm(format!("{}.attn_norm", l.name), l.attn_norm), h, &l.qkv, qkv, c.heads.qkv())?;
            let a = b.attention(&format!("{}.attention", l.name), i, qkv, attention, &l.o)?;
            b.linear(&l.o, a, h, d, true, false)?;
            let a = b.norm_gated(&norm(format!("{}.ffn_norm", l.name), l.ffn_norm), h, &l.gate_up, &l.down)?;
            b.linear(&l.down, a, h, d, true, false)?;
        }
        b.head(&norm("output_norm".into(), self.norm), h, &self.head)
    }
}
