//! Hunyuan, the dense ones: Llama with a norm of each query and key after they are rotated.

use serde_json::json;

use super::Architecture;
use super::config::{Biases, ModelConfig, QkNorm};
use super::keys::Keys;
use super::names::{self, TensorNames};
use crate::error::Result;

pub const HUNYUAN: Architecture =
    Architecture { file: file!(), gguf: "hunyuan-dense", hf: &["HunYuanDenseV1ForCausalLM"], read, names: &NAMES };

const NAMES: TensorNames = TensorNames {
    layer: &[("attn_q_norm", "self_attn.query_layernorm"), ("attn_k_norm", "self_attn.key_layernorm")],
    ..names::LLAMA
};

fn read(keys: &Keys<'_>) -> Result<ModelConfig> {
    let mut c = ModelConfig::read_rms(keys, "hunyuan-dense")?;
    keys.must_be("use_qk_norm", &json!(true))?;
    keys.must_be("use_cla", &json!(false))?;
    keys.ignore(&[
        "eod_token_id",
        "norm_type",
        "use_rotary_pos_emb",
        "attention_head_dim",
        "cla_share_factor",
        "dense_list",
        "im_end_id",
        "im_start_id",
    ]);
    c.qk_norm = QkNorm::Late;
    let bias = keys.flag("", "attention_bias")?.unwrap_or(false);
    c.biases = Biases { qkv: bias, output: bias, ff: false, experts: false };
    Ok(c)
}
