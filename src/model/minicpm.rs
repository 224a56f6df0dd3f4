//! MiniCPM, up to 4: Llama with Granite's factors under other names. The sparse attention of version 4 is for long
//! contexts only: all of it is computed here.

use super::config::ModelConfig;
use super::keys::Keys;
use super::{Architecture, granite, names};
use crate::error::{Error, Result};

pub const MINICPM: Architecture =
    Architecture { file: file!(), gguf: "minicpm", hf: &["MiniCPMForCausalLM"], read, names: &names::LLAMA };

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "minicpm")?;
    c.reordered(keys);
    keys.ignore(&["sparse_config", "use_sparse_attention", "mup_denominator"]);
    let factors = match keys.is_gguf() {
        true => granite::Factors {
            embed: keys.positive("embedding_scale", "")?.unwrap_or(12.0),
            residual: keys.positive("residual_scale", "")?.unwrap_or(1.4 / (c.layers.len() as f64).sqrt()),
            logits: keys.positive("logit_scale", "")?.unwrap_or(c.width as f64 / 256.0),
        },
        false => {
            let base = keys
                .positive("", "dim_model_base")?
                .ok_or_else(|| Error::bad_model("config.json: dim_model_base is missing"))?;
            granite::Factors {
                embed: keys.positive("", "scale_emb")?.unwrap_or(1.0),
                residual: keys.positive("", "scale_depth")?.unwrap_or(1.0) / (c.layers.len() as f64).sqrt(),
                logits: c.width as f64 / base,
            }
        }
    };
    factors.apply(&mut c);
    Ok(c)
}
