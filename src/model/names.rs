//! What checkpoints call tensors. The engine uses llama.cpp's names; this is the one place that knows those of
//! transformers.

use crate::format::{Checkpoint, Metadata};

/// An architecture's names.
pub struct TensorNames {
    /// What stands before the head's name, and before those of all other tensors: the first pair that the checkpoint
    /// has.
    pub prefixes: &'static [(&'static str, &'static str)],
    /// Of the layers' list, after the prefix.
    pub layers: &'static str,
    /// (llama.cpp's name, transformers' name) of the tensors outside of the layers; behind a `/` there is what stands
    /// behind the head's prefix, behind one that ends with `=` no ending.
    pub outside: &'static [(&'static str, &'static str)],
    /// (llama.cpp's name, transformers' name) of a layer's tensors that are not called as Llama's; `{}` stands for the
    /// number of an expert. Behind one that ends with `=` there is no `.weight` or `.bias`. Of two with `|` between,
    /// the first is of all experts together.
    pub layer: &'static [(&'static str, &'static str)],
    /// (the engine's name, the file's) where GGUF files have another than llama.cpp's usual one; where they have it;
    /// behind one that ends with `=` there is no ending.
    pub gguf: &'static [(&'static str, &'static str)],
    /// What tensors begin with that belong to something else than the language model, or follow from its configuration.
    pub ignored: &'static [&'static str],
}

/// Llama's, which most others share.
pub const LLAMA: TensorNames = TensorNames {
    // The second is how a model without a head is saved.
    prefixes: &[("", "model."), ("", "")],
    layers: "layers",
    outside: &[("token_embd", "embed_tokens"), ("output_norm", "norm"), ("output", "lm_head")],
    layer: &[],
    gguf: &[],
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
    ("ssm_in", "mamba.in_proj"),
    ("ssm_conv1d", "mamba.conv1d"),
    ("ssm_a", "mamba.A_log"),
    ("ssm_d", "mamba.D"),
    ("ssm_dt", "mamba.dt_bias="),
    ("ssm_norm", "mamba.norm"),
    ("ssm_out", "mamba.out_proj"),
];

/// The checkpoint's names of tensors.
pub struct Names {
    hf: Option<(&'static TensorNames, (&'static str, &'static str))>,
    /// Where GGUF files have another name: (the engine's, theirs).
    gguf: Vec<(&'static str, &'static str)>,
    ignored: &'static [&'static str],
    /// Whether they are of a vision tower, not of the language model.
    tower: bool,
}

impl Names {
    /// The names that this checkpoint uses.
    pub fn of(checkpoint: &Checkpoint, names: &'static TensorNames) -> Self {
        if matches!(checkpoint.metadata, Metadata::Gguf(_)) {
            let is = |name: &str, file: &str| match file.strip_suffix('=') {
                Some(file) => name.rsplit('.').next() == Some(file),
                None => name.strip_suffix(".weight").and_then(|name| name.rsplit('.').next()) == Some(file),
            };
            let there = |(_, file): &(&str, &str)| checkpoint.tensors.keys().any(|name| is(name, file));
            return Self {
                hf: None,
                gguf: names.gguf.iter().copied().filter(there).collect(),
                ignored: names.ignored,
                tower: false,
            };
        }
        let has = |(_, prefix): &(&str, &str)| {
            checkpoint.tensors.keys().any(|name| name.starts_with(&format!("{prefix}{}.", names.layers)))
        };
        let prefix = names.prefixes.iter().copied().find(has).or(names.prefixes.first().copied());
        Self { hf: Some((names, prefix.unwrap_or_default())), gguf: Vec::new(), ignored: names.ignored, tower: false }
    }

    /// The names of a tower.
    pub fn of_tower(checkpoint: &Checkpoint, names: &'static TensorNames) -> Self {
        Self { tower: true, ..Self::of(checkpoint, names) }
    }

    /// Whether they are llama.cpp's.
    pub fn gguf(&self) -> bool {
        self.hf.is_none()
    }

    /// A tensor outside of the layers, by llama.cpp's name without its ending; `kind` is `weight` or `bias`.
    pub fn outside(&self, part: &str, kind: &str) -> String {
        match self.hf {
            None => self.in_gguf(part, kind),
            // Beside the model there is a file for each.
            Some(_) if part.starts_with("dense_") => format!("{part}.{kind}"),
            Some((hf, (head, model))) => match (find(hf.outside, part), part) {
                (name, _) if name.starts_with('/') && name.ends_with('=') => {
                    format!("{head}{}", name[1..].trim_end_matches('='))
                }
                (name, _) if name.starts_with('/') => format!("{head}{}.{kind}", &name[1..]),
                (name, _) if name.ends_with('=') => format!("{model}{}", name.trim_end_matches('=')),
                (name, "output") => format!("{head}{name}.{kind}"),
                (name, _) => format!("{model}{name}.{kind}"),
            },
        }
    }

    /// What stands before transformers' name of a tensor outside of the layers; none in GGUF files.
    pub fn beside(&self) -> Option<&'static str> {
        self.hf.map(|(_, (_, model))| model)
    }

    /// Has two parts of GGUF files have each other's names.
    pub fn swap(&mut self, a: &'static str, b: &'static str) {
        if self.hf.is_none() {
            self.gguf.extend([(a, b), (b, a)]);
        }
    }

    /// What GGUF files call a part, with its ending.
    fn in_gguf(&self, part: &str, kind: &str) -> String {
        let name = self.gguf.iter().find(|(engine, _)| *engine == part).map_or(part, |(_, file)| file);
        match name.strip_suffix('=') {
            Some(whole) => whole.into(),
            None if kind.is_empty() => name.into(),
            None => format!("{name}.{kind}"),
        }
    }

    /// A layer's tensor, by llama.cpp's name for the part.
    pub fn layer(&self, layer: usize, part: &str, kind: &str) -> String {
        self.in_layer(layer, part, kind, false)
    }

    /// transformers' name of a layer's module from the list of layers on, whatever names the checkpoint uses.
    pub fn module(names: &'static TensorNames, layer: usize, part: &str) -> String {
        let own = names.layer.iter().find(|(gguf, _)| *gguf == part);
        let name = own.map_or_else(|| find(LAYER, part), |(_, hf)| hf);
        format!("{}.{layer}.{}", names.layers, name.trim_end_matches('='))
    }

    fn in_layer(&self, layer: usize, part: &str, kind: &str, each: bool) -> String {
        match self.hf {
            None => format!("{}blk.{layer}.{}", if self.tower { "v." } else { "" }, self.in_gguf(part, kind)),
            Some((hf, (_, prefix))) => {
                let own = hf.layer.iter().find(|(gguf, _)| *gguf == part);
                let names = own.map_or_else(|| find(LAYER, part), |(_, hf)| hf);
                let name = if each { names.rsplit('|').next() } else { names.split('|').next() }.unwrap_or(names);
                let ending = if name.ends_with('=') || kind.is_empty() { String::new() } else { format!(".{kind}") };
                format!("{prefix}{}.{layer}.{}{ending}", hf.layers, name.trim_end_matches('='))
            }
        }
    }

    /// Name of a tensor that the checkpoint stores separately for each expert.
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
        let towers = GGUF_TOWERS.iter().filter(|_| self.hf.is_none() && !self.tower);
        self.ignored.iter().chain(towers).copied().find(|i| matches(name, i))
    }
}

/// Vision and audio towers and projectors that some writers put into the same GGUF file as the language model.
const GGUF_TOWERS: &[&str] = &["v.", "a.", "mm.", "resampler."];

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
