//! Granite 3: Llama with four factors: of the embedding, of what layers add, of scores, and of logits. Files of Granite
//! 4's dense models are its, too.

use serde_json::json;

use super::Architecture;
use super::config::{ModelConfig, NO_ROPE};
use super::keys::Keys;
use super::names;
use crate::error::{Error, Result};

pub const GRANITE: Architecture =
    Architecture { file: file!(), gguf: "granite", hf: &["GraniteForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "granite")?;
    keys.must_be("mlp_bias", &json!(false))?;
    // llama.cpp's converter writes them of Granite 4's dense models, which have none of it.
    keys.ignore_gguf(&[
        "ssm.conv_kernel",
        "ssm.state_size",
        "ssm.group_count",
        "ssm.inner_size",
        "ssm.time_step_rank",
        "expert_shared_feed_forward_length",
    ]);
    if keys.is_gguf() && keys.has_tensor("blk.0.ssm_in.weight") {
        return Err(Error::unsupported("granite with layers of Mamba"));
    }
    // llama.cpp takes what was a note of the training as the switch of rotations.
    if keys.flag("rope.scaling.finetuned", "")? == Some(false) {
        c.layers.iter_mut().for_each(|layer| layer.rope = NO_ROPE);
    }
    factors(keys, &mut c)?;
    Ok(c)
}

/// The factors, and llama.cpp's order of rows.
pub(super) fn factors(keys: &Keys<'_>, c: &mut ModelConfig) -> Result<()> {
    keys.must_be("attention_bias", &json!(false))?;
    c.reordered(keys);
    let scores = keys.positive_unless_0("attention.scale", "attention_multiplier")?;
    // transformers' default is 1, llama.cpp's the usual root.
    c.score_scale = scores.unwrap_or(if keys.is_gguf() { c.score_scale } else { 1.0 });
    let factors = Factors {
        embed: keys.positive_unless_0("embedding_scale", "embedding_multiplier")?.unwrap_or(1.0),
        residual: keys.positive_unless_0("residual_scale", "residual_multiplier")?.unwrap_or(1.0),
        logits: keys.positive_unless_0("logit_scale", "logits_scaling")?.unwrap_or(1.0),
    };
    factors.apply(c);
    Ok(())
}

/// Factors of the embedding and of what layers add, and the divisor of logits.
pub(super) struct Factors {
    pub embed: f64,
    pub residual: f64,
    pub logits: f64,
}

impl Factors {
    pub fn apply(self, c: &mut ModelConfig) {
        // A residual stream whose layers add r f(norm(x)) is r times one whose layers add f(norm(x)): it begins with
        // the embedding over r, and the norms, which do not see the factor otherwise, have their epsilon over r^2.
        c.embed_scale = self.embed / self.residual;
        c.eps /= self.residual * self.residual;
        c.logit_scale = 1.0 / self.logits;
    }
}
