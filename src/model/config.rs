//! Sizes and constants of a model: what architectures have in common is read here, each one's own in its file.

use super::keys::{Keys, MOST};
use super::pooling::Pooling;
use super::rope::{Rope, Scaling};
use crate::base::numbers::{HEAD_ROOM, MAX_EXPERTS, MAX_KEY};
use crate::error::{Error, Result};
use crate::layout::Scratch;
use crate::plan::{Activation, Heads, LinearHeads, LinearKind, Mlp, PictureMask, Routing};

/// Most rows of a pass over texts, and bytes that its widest activations may take.
const WIDEST_PASS: u32 = 2048;
const WIDEST_BYTES: usize = 32 << 20;

/// Sizes and constants of a model.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// The architecture, by GGUF's name.
    pub architecture: &'static str,
    /// Model width, D.
    pub width: usize,
    /// Feed-forward width, F.
    pub ff: usize,
    /// Vocabulary, V.
    pub vocab: usize,
    /// How many of these are tokens: some tables have more rows than the tokenizer has tokens.
    pub drawn: usize,
    /// Heads.
    pub heads: Heads,
    /// Positions the model was trained for, C.
    pub context: u32,
    /// What differs from layer to layer.
    pub layers: Vec<LayerKind>,
    /// Rotary positions, by the numbers that layers name; none where positions are learned.
    pub ropes: Vec<Rope>,
    /// Learned positions, added to the embedding.
    pub learned_positions: bool,
    /// The norms' kind.
    pub norm: NormKind,
    /// Epsilon of the norms.
    pub eps: f64,
    /// What the checkpoint's norm weights lack: 1 where it stores how far they are from 1.
    pub norm_offset: f32,
    /// Where in a layer the norms are.
    pub norms: Norms,
    /// Norm of queries and keys.
    pub qk_norm: QkNorm,
    /// Whether values are normed, too, each head alone and without weights.
    pub value_norm: bool,
    /// Whether each layer multiplies the residual stream by a number at its end.
    pub layer_scales: bool,
    /// Numbers that each token has for each layer, P.
    pub per_layer: Option<usize>,
    /// Biases.
    pub biases: Biases,
    /// Factor of the scores.
    pub score_scale: f64,
    /// Scores s become `cap tanh(s / cap)`; 0: they stay.
    pub score_cap: f64,
    /// Whether each head has a score that no value belongs to.
    pub sinks: bool,
    /// Factor of what attention gives.
    pub attention_scale: f64,
    /// What is between the feed-forward network's products.
    pub mlp: Mlp,
    /// Factor of the embedding.
    pub embed_scale: f64,
    /// Factor of the logits.
    pub logit_scale: f64,
    /// Logits l become `cap tanh(l / cap)`; 0: they stay.
    pub logit_cap: f64,
    /// Layers, the first ones, behind which a picture's rows have something added.
    pub deepstack: usize,
    /// The token id whose per-layer inputs embedded rows use, in models with per-layer inputs.
    pub row_token: Option<u32>,
    /// How the rows of one picture attend to each other.
    pub picture_attention: PictureAttention,
    /// Layers behind the others that guess further tokens, which are left out.
    pub further_layers: usize,
    /// Whether what attention gives has gates, which are rows of its product.
    pub attention_gate: bool,
    /// Positions that convolutions in place of attention see.
    pub conv_taps: usize,
    /// Linear attention, where layers have it.
    pub linear: Option<LinearKind>,
    /// Experts instead of one feed-forward network, where layers have them.
    pub experts: Option<Mixture>,
    /// Whether the head is the embedding; `None` where the file does not say.
    pub tied: Option<bool>,
    /// How the checkpoint stores matrices.
    pub stored: Stored,
    /// What becomes of a text, where the model does not go on with it.
    pub pooling: Option<Pooling>,
    /// The tokens for yes and no, where a score is that of the one against the other.
    pub answers: Option<[usize; 2]>,
    /// What differs in models that read texts whole.
    pub encoder: Encoder,
    /// Products of what stands for a text, one after another.
    pub dense: Vec<Dense>,
}

/// What differs in models that read texts whole; by default nothing does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Encoder {
    /// Rows see what comes after them, too: such a model does not write.
    pub both_ways: bool,
    /// The embedding is normed.
    pub embed_norm: bool,
    /// Kinds of tokens, each with a row that is added to the embedding; 0: none.
    pub token_types: usize,
    /// Rows of learned positions that stand before the first position's.
    pub first_position: usize,
    /// LayerNorms have no bias.
    pub no_norm_bias: bool,
    /// The first layer's attention reads the residual stream as it is.
    pub first_unnormed: bool,
    /// Nothing of a pass is remembered: keys and values of all layers take turns in one cache.
    pub one_cache: bool,
}

/// A product of what stands for a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dense {
    /// Its tensors, by the engine's name.
    pub part: &'static str,
    /// What it gives.
    pub n: usize,
    /// Whether it has a bias.
    pub bias: bool,
    /// Whether it gives tanh of its sums.
    pub tanh: bool,
}

/// What differs from layer to layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerKind {
    /// Positions that a row sees, its own the last; `None`: all before it.
    pub window: Option<u32>,
    /// The number of its rotary positions; [`NO_ROPE`] where it does not rotate.
    pub rope: usize,
    /// What mixes its positions.
    pub mixer: MixerKind,
    /// What its positions are worth each alone.
    pub feed_forward: FeedForwardKind,
    /// Its heads, where they are others than most layers'.
    pub heads: Option<Heads>,
    /// Its feed-forward width, where it is another than most layers'.
    pub ff: Option<usize>,
    /// Whether its values are its keys as they are before norms and rotations.
    pub keys_are_values: bool,
}

impl LayerKind {
    /// What most layers of most models are.
    pub const USUAL: Self = Self {
        window: None,
        rope: 0,
        mixer: MixerKind::Attention,
        feed_forward: FeedForwardKind::One,
        heads: None,
        ff: None,
        keys_are_values: false,
    };
}

/// A layer's feed-forward network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedForwardKind {
    /// One.
    One,
    /// Experts, of which each row uses a few.
    Experts,
    /// One, and experts beside it.
    Both,
    /// None.
    None,
}

/// Experts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixture {
    /// How rows choose among them.
    pub routing: Routing,
    /// Width of one.
    pub ff: usize,
    /// Width of an expert that every row uses, and whether it has a gate.
    pub shared: Option<(usize, bool)>,
}

/// In place of the number of rotary positions: none.
pub const NO_ROPE: usize = usize::MAX;

/// What mixes the positions of a layer, which says what the layer remembers of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MixerKind {
    /// Attention over keys and values of its own.
    Attention,
    /// Attention over those of an earlier layer: it has queries only.
    Shared(usize),
    /// A convolution of single channels over the last positions.
    ShortConv,
    /// Linear attention with a state for each head.
    Linear,
    /// Attention and, beside it, linear attention.
    Both,
    /// Nothing.
    None,
    /// A running sum of what the layer reads: no model's, for tests of what recurrent states go through.
    #[cfg(feature = "toy")]
    RunningSum,
}

/// A norm's kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NormKind {
    /// x / rms(x) * w
    Rms,
    /// (x - mean(x)) / std(x) * w + b
    Layer,
}

/// How the rows of one picture attend to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PictureAttention {
    /// As tokens do.
    Causal,
    /// In layers with a window in both directions, as far back as it goes; in the others as tokens do.
    BothWaysInWindows,
    /// In all layers in both directions, beyond a window too.
    BothWays,
}

impl PictureAttention {
    /// What they see in a layer with that window beside what tokens do.
    pub fn mask(self, window: Option<u32>) -> Option<PictureMask> {
        match self {
            Self::Causal => None,
            Self::BothWaysInWindows => window.map(|_| PictureMask::WithinWindow),
            Self::BothWays => Some(PictureMask::Whole),
        }
    }
}

/// Where in a layer the norms are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Norms {
    /// Norms of the inputs of attention and of the feed-forward network.
    Before,
    /// Norms of their inputs, and of what they add to the residual stream.
    Around,
    /// Norms of what they add to the residual stream.
    After,
    /// The residual stream becomes its norm after each addition; there is no norm behind the layers.
    Behind,
}

/// Norm of queries and keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QkNorm {
    /// None.
    None,
    /// A norm of each head, before rotation.
    Each,
    /// A norm of each head, after rotation.
    Late,
    /// One norm of all heads' queries, and one of all heads' keys, before rotation.
    All,
}

/// Which products have a bias.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Biases {
    /// Queries, keys and values.
    pub qkv: bool,
    /// The output of attention.
    pub output: bool,
    /// The feed-forward network's.
    pub ff: bool,
    /// Those of routers and of experts.
    pub experts: bool,
}

/// How the checkpoint stores matrices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// Queries, keys and values are one tensor.
    pub qkv: bool,
    /// Gate and up product are one tensor.
    pub gate_up: bool,
    /// Each expert's are.
    pub experts_gate_up: bool,
    /// Each row of an expert's gates is before its up row.
    pub interleaved: bool,
    /// Each expert has tensors of its own.
    pub each_expert: bool,
    /// Projections of linear attention have what belongs to a key head together.
    pub by_key_heads: bool,
    /// Matrices are `[K, N]`.
    pub transposed: bool,
    /// llama.cpp's files have rows of queries and keys in another order than transformers': what rotates together are
    /// neighbours in the one's and halves in the other's.
    pub reordered: bool,
}

impl ModelConfig {
    /// llama.cpp reorders rows of queries and keys.
    pub fn reordered(&mut self, keys: &Keys<'_>) {
        self.stored.reordered = true;
        self.ropes[0].interleaved = keys.is_gguf();
    }

    /// What most architectures say in the same words; `eps` are the two names of the norms' epsilon. Llama's choices
    /// stand for the rest.
    pub fn read(keys: &Keys<'_>, architecture: &'static str, eps: (&str, &str)) -> Result<Self> {
        let (width, h) =
            (keys.need("embedding_length", "hidden_size")?, keys.need("attention.head_count", "num_attention_heads")?);
        let e = match keys.size("attention.key_length", "head_dim")? {
            Some(e) => e,
            None if width.is_multiple_of(h) => width / h,
            None => {
                let key = keys.name("attention.key_length", "head_dim");
                return Err(Error::bad_model(format!(
                    "{h} heads do not divide the width {width}, and {key} is missing"
                )));
            }
        };
        if keys.size("attention.value_length", "")?.is_some_and(|v| v != e) {
            return Err(Error::unsupported("heads whose values are not as wide as their keys"));
        }
        let vocab = match keys.size("vocab_size", "vocab_size")? {
            Some(v) => v,
            None if keys.is_gguf() => keys.rows_of("token_embd.weight")?,
            None => return Err(Error::bad_model("config.json: vocab_size is missing")),
        };
        let context = match keys.size("context_length", "max_position_embeddings")? {
            Some(n) => n,
            None if keys.is_gguf() => {
                return Err(Error::bad_model(format!("{architecture}.context_length is missing")));
            }
            None => 2048,
        };
        let layers = keys.layers()?;
        // Models of nothing but experts say only how wide these are.
        let ff = match keys.same_size("feed_forward_length", "intermediate_size")? {
            Some(f) => f,
            None => match keys.size("expert_feed_forward_length", "moe_intermediate_size")? {
                Some(f) => f,
                None => keys.need("feed_forward_length", "intermediate_size")?,
            },
        };
        let ropes = vec![Rope::read(keys, e, context)?];
        // What says the same of layers with a window, of what comes out, and of experts in one group.
        for (key, n) in [
            ("attention.key_length_swa", e),
            ("attention.value_length_swa", e),
            ("rope.dimension_count_swa", ropes[0].dims),
            ("embedding_length_out", width),
            ("expert_group_count", 1),
            ("expert_group_used_count", 1),
        ] {
            keys.ignore_gguf_if(key, n);
        }
        let heads = Heads { h, g: keys.same_size("attention.head_count_kv", "num_key_value_heads")?.unwrap_or(h), e };
        Ok(Self {
            vocab,
            drawn: vocab,
            context: context as u32,
            ropes,
            eps: keys
                .number(eps.0, eps.1)?
                .or_else(|| (!keys.is_gguf()).then(|| epsilon(architecture)))
                .ok_or_else(|| Error::bad_model(format!("{} is missing", keys.name(eps.0, eps.1))))?,
            // Where both are there, transformers reads the other key.
            mlp: Mlp::gated(
                keys.text("", "hidden_act")?
                    .filter(|_| !keys.has("hidden_activation"))
                    .map_or(Ok(Activation::Silu), activation)?,
            ),
            tied: if keys.is_gguf() {
                None
            } else {
                Some(keys.flag("", "tie_word_embeddings")?.or(keys.outer_flag("tie_word_embeddings")).unwrap_or(false))
            },
            ..Self::plain(architecture, width, ff, heads, layers)
        })
    }

    /// Sizes alone: Llama's choices stand for the rest, without a vocabulary, rotary positions and an epsilon.
    pub fn plain(architecture: &'static str, width: usize, ff: usize, heads: Heads, layers: usize) -> Self {
        Self {
            architecture,
            width,
            ff,
            vocab: 0,
            drawn: 0,
            heads,
            context: 0,
            layers: vec![LayerKind::USUAL; layers],
            ropes: Vec::new(),
            learned_positions: false,
            norm: NormKind::Rms,
            eps: 0.0,
            norm_offset: 0.0,
            norms: Norms::Before,
            qk_norm: QkNorm::None,
            value_norm: false,
            layer_scales: false,
            per_layer: None,
            biases: Biases::default(),
            score_scale: 1.0 / (heads.e as f64).sqrt(),
            score_cap: 0.0,
            sinks: false,
            attention_scale: 1.0,
            mlp: Mlp::gated(Activation::Silu),
            embed_scale: 1.0,
            logit_scale: 1.0,
            logit_cap: 0.0,
            deepstack: 0,
            row_token: None,
            picture_attention: PictureAttention::Causal,
            further_layers: 0,
            attention_gate: false,
            conv_taps: 0,
            linear: None,
            experts: None,
            tied: None,
            stored: Stored::default(),
            pooling: None,
            answers: None,
            encoder: Encoder::default(),
            dense: Vec::new(),
        }
    }

    /// Where what a model that pools makes of its texts is, and how many numbers it has.
    pub fn pooled(&self) -> (Scratch, usize) {
        let (products, width) = match (self.dense.last(), self.pooling) {
            (Some(dense), _) => (self.dense.len(), dense.n),
            // Yes and no.
            (None, Some(Pooling::Rank)) => (1, 2),
            (None, _) => (0, self.width),
        };
        (if products % 2 == 0 { Scratch::Pooled } else { Scratch::Scores }, width)
    }

    /// Whether a text has to be read in one pass.
    pub fn reads_whole(&self) -> bool {
        self.encoder.both_ways || matches!(self.pooling, Some(Pooling::Mean | Pooling::Cls))
    }

    /// Rows of the widest passes over texts that are read whole, for GPUs to which fewer are no work: as many as keep
    /// the widest activations within [`WIDEST_BYTES`].
    pub fn widest_pass(&self) -> u32 {
        let gated = if self.mlp.gated { 2 } else { 1 };
        let widest = self.layers.iter().map(|layer| layer.ff.unwrap_or(self.ff) * gated).max().unwrap_or(0);
        let most = WIDEST_BYTES / 4 / widest.max(self.width * 3).max(1);
        (1 << most.max(1).ilog2()).min(WIDEST_PASS)
    }

    /// A layer's heads.
    pub fn heads_of(&self, layer: usize) -> Heads {
        self.layers[layer].heads.unwrap_or(self.heads)
    }

    /// The first layer from which on none has a state of its own: rows that no later row sees end there.
    pub fn tail(&self) -> usize {
        let own = |layer: &LayerKind| !matches!(layer.mixer, MixerKind::Shared(_));
        self.layers.iter().rposition(own).map_or(0, |last| last + 1)
    }

    /// Reads the configuration of a model with RMSNorm: as [`ModelConfig::read`], with its epsilon's keys.
    pub fn read_rms(keys: &Keys<'_>, architecture: &'static str) -> Result<Self> {
        Self::read(keys, architecture, ("attention.layer_norm_rms_epsilon", "rms_norm_eps"))
    }

    /// Positions up to which rotations are as they were first trained; beyond, every position is rotated otherwise.
    pub fn original_context(&self) -> Option<u32> {
        self.ropes.iter().find_map(|rope| match rope.scaling {
            Scaling::LongRope { original, .. } => Some(original),
            _ => None,
        })
    }

    /// Windows for the layers whose entry of `layer_types` is `sliding_attention`, or where there is no such key those
    /// that `slides` names.
    pub fn set_windows(
        &mut self,
        keys: &Keys<'_>,
        window: Option<usize>,
        slides: impl Fn(usize) -> bool,
    ) -> Result<()> {
        // The oldest word is Granite's.
        let known = [("sliding_attention", true), ("full_attention", false), ("attention", false)];
        let types = keys.kinds("layer_types", self.layers.len(), &known)?;
        for (i, layer) in self.layers.iter_mut().enumerate() {
            let sliding = types.as_ref().map_or_else(|| slides(i), |types| types[i]);
            if sliding {
                let Some(window) = window else {
                    return Err(Error::bad_model(format!(
                        "{} is missing, and layer {i} has a window",
                        keys.name("attention.sliding_window", "sliding_window")
                    )));
                };
                layer.window = Some(window as u32);
            }
        }
        Ok(())
    }

    /// Has layers with a window rotate by the base that GGUF may have for them.
    pub fn set_base_of_windows(&mut self, keys: &Keys<'_>) -> Result<()> {
        let usual = self.ropes[0].clone();
        let base = keys.positive("rope.freq_base_swa", "")?.filter(|base| *base != usual.base);
        if let Some(base) = base {
            self.ropes.push(Rope { base, ..usual });
            self.layers.iter_mut().filter(|layer| layer.window.is_some()).for_each(|layer| layer.rope = 1);
        }
        Ok(())
    }

    /// Has the layers that do not attend mix positions otherwise.
    pub fn mix(&mut self, attends: &[bool], otherwise: MixerKind) -> Result<()> {
        if attends.len() != self.layers.len() {
            return Err(Error::bad_model(format!(
                "{}: {} layers, and kinds of {}",
                self.architecture,
                self.layers.len(),
                attends.len()
            )));
        }
        self.layers
            .iter_mut()
            .zip(attends)
            .filter(|(_, attends)| !**attends)
            .for_each(|(layer, _)| layer.mixer = otherwise);
        Ok(())
    }

    /// Checks that the sizes make sense together.
    pub fn check(&self) -> Result<()> {
        let layers = (0..self.layers.len()).map(|i| (self.heads_of(i), self.layers[i].ff.unwrap_or(self.ff)));
        layers.chain([(self.heads, self.ff)]).try_for_each(|(heads, ff)| self.check_sizes(heads, ff))?;
        self.check_kinds()
    }

    fn check_sizes(&self, Heads { h, g, e }: Heads, ff: usize) -> Result<()> {
        let wrong = |what: String| Err(Error::bad_model(format!("configuration: {what}")));
        for (name, n) in [
            ("layers", self.layers.len()),
            ("width", self.width),
            ("feed-forward width", ff),
            ("vocabulary", self.vocab),
            ("heads", h),
            ("kv heads", g),
            ("head width", e),
            ("context", self.context as usize),
        ] {
            if n == 0 || n as u64 > MOST {
                return wrong(format!("{name} is {n}"));
            }
        }
        if !h.is_multiple_of(g) {
            return wrong(format!("{h} query heads cannot share {g} kv heads"));
        }
        if !e.is_multiple_of(4) || e > HEAD_ROOM as usize {
            return wrong(format!("head width {e}; this version runs multiples of 4 up to {HEAD_ROOM}"));
        }
        Ok(())
    }

    fn check_kinds(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::bad_model(format!("configuration: {what}")));
        if !self.width.is_multiple_of(4) {
            return wrong(format!("width {}; this version runs multiples of 4", self.width));
        }
        for (name, x) in [
            ("epsilon of the norms", self.eps),
            ("scale of the scores", self.score_scale),
            ("cap of the scores", self.score_cap),
        ] {
            if !(x.is_finite() && x >= 0.0) {
                return wrong(format!("{name} is {x}"));
            }
        }
        for (name, x) in [
            ("scale of the embedding", self.embed_scale),
            ("scale of the logits", self.logit_scale),
            ("cap of the logits", self.logit_cap),
        ] {
            if !x.is_finite() {
                return wrong(format!("{name} is {x}"));
            }
        }
        if let Some(Mixture { routing: Routing { count, used, .. }, .. }) = self.experts
            && (used == 0 || used > count || count > MAX_EXPERTS as usize)
        {
            return wrong(format!("{used} of {count} experts; this version runs up to {MAX_EXPERTS}"));
        }
        if let Some(LinearKind { heads, norm, .. }) = &self.linear {
            let group = norm.group(*heads);
            let LinearHeads { heads, key_heads, key, value, taps, .. } = *heads;
            if key_heads == 0 || heads == 0 || !heads.is_multiple_of(key_heads) || taps == 0 {
                return wrong(format!(
                    "{heads} heads of linear attention cannot share {key_heads} heads of keys, or {taps} positions of a convolution"
                ));
            }
            if key == 0
                || !key.is_multiple_of(4)
                || key > MAX_KEY as usize
                || value == 0
                || !value.is_multiple_of(16)
                || !group.is_multiple_of(32)
            {
                return wrong(format!(
                    "heads of linear attention with keys of {key} and values of {value}, normed by {group}; this version runs keys that are multiples of 4 \
                     up to {MAX_KEY}, values that are multiples of 16, and groups that are multiples of 32"
                ));
            }
        }
        // The product behind linear attention adds to the residual stream as it is.
        if self.linear.is_some() && self.norms != Norms::Before {
            return Err(Error::unsupported("norms of what linear attention adds"));
        }
        // A norm undoes what a rotation stretches; the kernels multiply its weights alone after the rotation.
        if self.qk_norm == QkNorm::Late && self.ropes.iter().any(|rope| rope.factor != 1.0) {
            return Err(Error::unsupported("norms of queries and keys after rotations that stretch them"));
        }
        (0..self.layers.len())
            .try_for_each(|i| self.ropes.get(self.layers[i].rope).map_or(Ok(()), |rope| rope.check(self.heads_of(i).e)))
    }
}

/// The epsilon that transformers takes where config.json has none.
fn epsilon(architecture: &str) -> f64 {
    match architecture {
        "bert" | "nomic-bert" => 1e-12,
        "glm4" => 1.562_5e-7,
        "ernie4_5" | "exaone4" | "falcon-h1" | "gpt-oss" | "hunyuan-dense" | "lfm2" | "lfm2moe" | "mistral3"
        | "modern-bert" | "nemotron_h" | "nemotron_h_moe" | "olmo2" | "phi3" | "stablelm" => 1e-5,
        _ => 1e-6,
    }
}

/// The activation that transformers calls `name`.
pub fn activation(name: &str) -> Result<Activation> {
    match name {
        "silu" | "swish" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" | "gelu_new" => Ok(Activation::GeluTanh),
        "gelu" => Ok(Activation::Gelu),
        "relu2" => Ok(Activation::ReluSquared),
        other => Err(Error::unsupported(format!(
            "config.json: activation {other:?}; this version knows silu, gelu, gelu_pytorch_tanh, gelu_new and relu2"
        ))),
    }
}
