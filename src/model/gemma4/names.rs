//! What transformers calls Gemma 4's tensors, and what of a checkpoint is left out.

use super::super::names::{self, TensorNames};

pub const NAMES: TensorNames = TensorNames {
    prefixes: &[("", "model."), ("", "model.language_model."), ("language_model.", "language_model.model.")],
    outside: &[
        ("token_embd", "embed_tokens"),
        ("output_norm", "norm"),
        ("output", "lm_head"),
        ("per_layer_token_embd", "embed_tokens_per_layer"),
        ("per_layer_model_proj", "per_layer_model_projection"),
        ("per_layer_proj_norm", "per_layer_projection_norm"),
    ],
    layer: &[
        ("post_attention_norm", "post_attention_layernorm"),
        ("ffn_norm", "pre_feedforward_layernorm"),
        ("post_ffw_norm", "post_feedforward_layernorm"),
        ("post_ffw_norm_1", "post_feedforward_layernorm_1"),
        ("pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
        ("post_ffw_norm_2", "post_feedforward_layernorm_2"),
        ("layer_output_scale", "layer_scalar="),
        ("inp_gate", "per_layer_input_gate"),
        ("proj", "per_layer_projection"),
        ("post_norm", "post_per_layer_input_norm"),
        ("ffn_gate_inp", "router.proj"),
        ("ffn_gate_inp.scale", "router.scale="),
        ("ffn_down_exps.scale", "router.per_expert_scale="),
        ("ffn_gate_up_exps", "experts.gate_up_proj="),
        ("ffn_down_exps", "experts.down_proj="),
    ],
    // Pictures and sound; keys and values of layers that read others'.
    ignored: &[
        "model.vision_tower.",
        "model.vision_embedder.",
        "model.audio_tower.",
        "model.embed_vision.",
        "model.embed_audio.",
        "v.",
        "a.",
        "mm.",
        "*.k_proj.weight",
        "*.v_proj.weight",
        "*.k_norm.weight",
        "*.attn_k.weight",
        "*.attn_v.weight",
        "*.attn_k_norm.weight",
    ],
    ..names::LLAMA
};
