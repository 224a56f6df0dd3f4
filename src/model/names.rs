//! What checkpoints call tensors. The engine uses llama.cpp's names; this is the one place that knows those of transformers.

use crate::format::{Checkpoint, Metadata};

/// An architecture's names in transformers.
pub struct HfNames {
    /// What stands before the head's name, and before those of all other tensors: the first pair that the checkpoint has.
    pub prefixes: &'static [(&'static str, &'static str)],
    /// Of the layers' list, after the prefix.
    pub layers: &'static str,
    /// (llama.cpp's name, transformers' name) of the tensors outside of the layers.
    pub outside: &'static [(&'static str, &'static str)],
    /// (llama.cpp's name, transformers' name) of a layer's tensors that are not called as Llama's; `{}` stands for the number of an expert. Behind
    /// one that ends with `=` there is no `.weight` or `.bias`. Of two with `|` between, the first is of all experts together.
    pub layer: &'static [(&'static str, &'static str)],
    /// What tensors begin with that belong to something else than the language model, or follow from its configuration.
    pub ignored: &'static [&'static str],
}

/// Llama's, which most others share.
pub const LLAMA: HfNames = HfNames {
    prefixes: &[("", "model.")],
    layers: "layers",
    outside: &[("token_embd", "embed_tokens"), ("output_norm", "norm"), ("output", "lm_head")],
    layer: &[],
    ignored: &[],
};

/// (llama.cpp's name, transformers' name) of the tensors of Llama's layers, and of what its kin have beside them.
const LAYER: &[(&str, &str)] = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_qkv", "self_attn.qkv_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_gate_up", "mlp.gate_up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// The checkpoint's names of tensors.
pub struct Names {
    hf: Option<(&'static HfNames, (&'static str, &'static str))>,
}

impl Names {
    /// The names that this checkpoint uses.
    pub fn of(checkpoint: &Checkpoint, hf: &'static HfNames) -> Self {
        if matches!(checkpoint.metadata, Metadata::Gguf(_)) {
            return Self { hf: None };
        }
        let has = |(_, prefix): &(&str, &str)| checkpoint.tensors.keys().any(|name| name.starts_with(&format!("{prefix}{}.", hf.layers)));
        let prefix = hf.prefixes.iter().copied().find(has).or(hf.prefixes.first().copied());
        Self { hf: Some((hf, prefix.unwrap_or_default())) }
    }

    /// Whether they are llama.cpp's.
    pub fn gguf(&self) -> bool {
        self.hf.is_none()
    }

    /// A tensor outside of the layers, by llama.cpp's name without its ending; `kind` is `weight` or `bias`.
    pub fn outside(&self, part: &str, kind: &str) -> String {
        match self.hf {
            None => format!("{part}.{kind}"),
            Some((hf, (head, model))) => format!("{}{}.{kind}", if part == "output" { head } else { model }, find(hf.outside, part)),
        }
    }

    /// A layer's tensor, by llama.cpp's name for the part.
    pub fn layer(&self, layer: usize, part: &str, kind: &str) -> String {
        self.in_layer(layer, part, kind, false)
    }

    fn in_layer(&self, layer: usize, part: &str, kind: &str, each: bool) -> String {
        match self.hf {
            None if kind.is_empty() => format!("blk.{layer}.{part}"),
            None => format!("blk.{layer}.{part}.{kind}"),
            Some((hf, (_, prefix))) => {
                let own = hf.layer.iter().find(|(gguf, _)| *gguf == part);
                let names = own.map_or_else(|| find(LAYER, part), |(_, hf)| hf);
                let name = if each { names.rsplit('|').next() } else { names.split('|').next() }.unwrap_or(names);
                let ending = if name.ends_with('=') || kind.is_empty() { String::new() } else { format!(".{kind}") };
                format!("{prefix}{}.{layer}.{}{ending}", hf.layers, name.trim_end_matches('='))
            }
        }
    }

    /// The same of one expert.
    pub fn expert(&self, layer: usize, part: &str, expert: usize) -> String {
        self.in_layer(layer, part, "weight", true).replace("{}", &expert.to_string())
    }

    /// Whether a tensor says nothing that the model has not read otherwise.
    pub fn follows(&self, name: &str) -> bool {
        // Old checkpoints carry the frequencies, which follow from the configuration.
        let follows = name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn_rot_embd.weight");
        follows || super::rope::ROPE_FREQS == name || super::rope::ROPE_FACTORS.contains(&name)
    }

    /// As what of a checkpoint that is more than a language model a tensor is left out, if it is.
    pub fn left_out(&self, name: &str) -> Option<&'static str> {
        self.hf.and_then(|(hf, _)| hf.ignored.iter().copied().find(|i| matches(name, i)))
    }
}

/// Whether a name begins with the pattern, or ends with it where it begins with `*`.
fn matches(name: &str, pattern: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(end) => name.ends_with(end),
        None => name.starts_with(pattern),
    }
}

fn find(list: &'static [(&'static str, &'static str)], part: &str) -> &'static str {
    list.iter().find(|(gguf, _)| *gguf == part).map_or("?", |(_, hf)| hf)
}
