//! LoRA adapters as they come: a folder of PEFT's (adapter_config.json, adapter_model.safetensors), or a GGUF file of
//! type adapter. What would change what a model computes in another way than by low-rank products is refused by name.

use std::rc::Rc;

use indexmap::IndexMap;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Checkpoint, HfMetadata, Metadata, TensorInfo, gguf, limits, safetensors};
use crate::base::hex;
use crate::error::{Error, Result};
use crate::source::{ByteSource, Files};

const CONFIG: &str = "adapter_config.json";
const WEIGHTS: &str = "adapter_model.safetensors";
/// Largest rank.
const MOST_RANK: u64 = 1024;

/// What an adapter's files have to be, for messages.
const HOLDS: &str = "an adapter is a folder with adapter_config.json and adapter_model.safetensors, as PEFT saves it, or one .gguf file of type adapter";

/// An adapter's files, opened: which modules it touches and how, none of its numbers read.
pub struct Adapter {
    files: Checkpoint,
    /// Whether modules are called as llama.cpp calls them.
    pub gguf: bool,
    /// The architecture that a GGUF file says it is for.
    pub architecture: Option<String>,
    /// What it touches, by the module's name: `model.layers.0.self_attn.q_proj`, or `blk.0.attn_q`.
    pub modules: IndexMap<String, Module>,
    /// What tells it from others: 64 hexadecimal digits of its tensors and factors.
    pub fingerprint: String,
}

/// What is added to a module: `factor B A x`.
#[derive(Debug, Clone)]
pub struct Module {
    /// `[rank, K]`
    pub a: TensorInfo,
    /// `[N, rank]`
    pub b: TensorInfo,
    /// alpha / rank, or what takes its place.
    pub factor: f32,
}

impl Module {
    /// The rank.
    pub fn rank(&self) -> usize {
        self.a.shape[0] as usize
    }
}

impl Adapter {
    /// Opens an adapter.
    ///
    /// # Errors
    /// `BAD_MODEL` where files break their format or contradict each other, `NOT_FOUND` where one is missing,
    /// `UNSUPPORTED_MODEL` where an adapter does what this version does not: DoRA, modules saved whole, biases,
    /// embeddings, and whatever is not known.
    pub async fn open(files: &Files) -> Result<Self> {
        let gguf: Vec<_> = files
            .iter()
            .filter(|(name, _)| name.to_ascii_lowercase().ends_with(".gguf"))
            .map(|(_, source)| source.clone())
            .collect();
        let is_gguf = match (&gguf[..], files.get(CONFIG), files.values().next()) {
            ([_], None, _) => true,
            ([_, _, ..], None, _) => return Err(Error::bad_model(format!("there are several GGUF files; {HOLDS}"))),
            // A lone file without a telling name.
            ([], None, Some(file))
                if files.len() == 1 && file.read(0, file.len().min(4) as usize).await? == gguf::MAGIC =>
            {
                true
            }
            _ => false,
        };
        let mut adapter = match is_gguf {
            true => {
                Self::of_gguf(gguf.first().or_else(|| files.values().next()).into_iter().cloned().collect()).await?
            }
            false => Self::of_peft(files).await?,
        };
        if adapter.modules.is_empty() {
            return Err(Error::bad_model("the adapter touches no module: it has no pair of lora_A and lora_B"));
        }
        for (name, Module { a, b, .. }) in &adapter.modules {
            if a.shape.len() != 2 || b.shape.len() != 2 || a.shape[0] != b.shape[1] || a.shape[0] > MOST_RANK {
                return Err(Error::bad_model(format!(
                    "module {name}: lora_A of shape {:?} and lora_B of shape {:?} are no [rank, K] and [N, rank] with a rank of up to {MOST_RANK}",
                    a.shape, b.shape
                )));
            }
        }
        let mut hash = Sha256::new();
        hash.update(adapter.files.fingerprint().await?);
        adapter
            .modules
            .iter()
            .for_each(|(name, module)| hash.update(format!("{name} {:08x}\n", module.factor.to_bits())));
        adapter.fingerprint = hex(&hash.finalize());
        Ok(adapter)
    }

    /// The numbers of one of its tensors.
    pub async fn read(&self, tensor: &TensorInfo) -> Result<Vec<f32>> {
        let raw = self.files.read(tensor, 0, tensor.bytes as usize).await?;
        let mut values = Vec::with_capacity(tensor.elements() as usize);
        crate::blocks::dequantize(tensor.dtype, &raw, &mut values).map_err(|e| e.at(&tensor.name))?;
        match values.iter().all(|value| value.is_finite()) {
            true => Ok(values),
            false => Err(Error::bad_model(format!(
                "tensor '{}' of the adapter holds what is no number: its training has failed, or the file is damaged",
                tensor.name
            ))),
        }
    }

    /// Its largest rank.
    pub fn rank(&self) -> usize {
        self.modules.values().map(Module::rank).max().unwrap_or(0)
    }

    /// How many numbers it has.
    pub fn parameters(&self) -> u64 {
        self.modules.values().map(|module| module.a.elements() + module.b.elements()).sum()
    }

    fn new(files: Vec<Rc<dyn ByteSource>>, tensors: IndexMap<String, TensorInfo>, gguf: bool) -> Self {
        let metadata = Metadata::Hf(HfMetadata::default());
        let files = Checkpoint { files, tensors, metadata, tokenizer_files: None, packed: None };
        Self { files, gguf, architecture: None, modules: IndexMap::new(), fingerprint: String::new() }
    }

    /// Pairs tensors up by modules; `place` says of a name which module's it is, and whether it is the A.
    fn pair(
        &mut self,
        place: impl Fn(&str) -> Result<(String, bool)>,
        factor: impl Fn(&str, u64) -> Result<f32>,
    ) -> Result<()> {
        let mut pairs: IndexMap<String, [Option<TensorInfo>; 2]> = IndexMap::new();
        for (name, info) in &self.files.tensors {
            let (module, is_a) = place(name)?;
            let pair = pairs.entry(module).or_default();
            if pair[usize::from(!is_a)].replace(info.clone()).is_some() {
                return Err(Error::bad_model(format!(
                    "tensor '{name}' of the adapter is for a part of a module that another one is for already"
                )));
            }
        }
        for (module, pair) in pairs {
            let (Some(a), Some(b)) = pair.into() else {
                return Err(Error::bad_model(format!(
                    "module {module} of the adapter has only one of lora_A and lora_B"
                )));
            };
            let factor = factor(&module, a.shape.first().copied().unwrap_or(1))?;
            self.modules.insert(module, Module { a, b, factor });
        }
        Ok(())
    }

    async fn of_gguf(files: Vec<Rc<dyn ByteSource>>) -> Result<Self> {
        let (metadata, tensors) = gguf::read(&files).await?;
        let text = |key: &str| metadata.opt::<&str>(key).map(Option::unwrap_or_default);
        let (general, kind) = (text("general.type")?, text("adapter.type")?);
        if general != "adapter" || kind != "lora" {
            return Err(Error::unsupported(format!(
                "this GGUF file is no LoRA adapter: general.type is {general:?}, adapter.type {kind:?}; {HOLDS}"
            )));
        }
        if metadata.get("adapter.alora.invocation_tokens").is_some() {
            return Err(refused(
                "adapter.alora.invocation_tokens",
                "activated LoRA, which begins within a text, is not supported",
            ));
        }
        let alpha = metadata.opt::<f32>("adapter.lora.alpha")?.unwrap_or(0.0);
        let architecture = metadata.opt::<&str>("general.architecture")?.map(str::to_owned);
        let mut adapter = Self { architecture, ..Self::new(files, tensors, true) };
        let place = |name: &str| match name
            .strip_suffix(".lora_a")
            .map(|of| (of, true))
            .or(name.strip_suffix(".lora_b").map(|of| (of, false)))
        {
            Some((of, is_a)) => Ok((of.strip_suffix(".weight").unwrap_or(of).to_owned(), is_a)),
            None => Err(whole(name)),
        };
        // Without an alpha the product counts as it is.
        adapter.pair(place, |_, rank| Ok(if alpha == 0.0 { 1.0 } else { alpha / rank as f32 }))?;
        Ok(adapter)
    }

    async fn of_peft(files: &Files) -> Result<Self> {
        let missing = |name: &str| Error::not_found(format!("{name} is missing; {HOLDS}"));
        let source = files.get(CONFIG).ok_or_else(|| missing(CONFIG))?;
        if source.len() > limits::CONFIG_BYTES {
            return Err(Error::bad_model(format!("{CONFIG} has {} bytes", source.len())));
        }
        let json = source.read(0, source.len() as usize).await?;
        let config: Map<String, Value> =
            serde_json::from_slice(&json).map_err(|e| Error::bad_model(format!("{CONFIG}: {e}")))?;
        let config = Config::read(&config)?;
        let weights = match files.get(WEIGHTS) {
            Some(weights) => weights.clone(),
            None if files.contains_key("adapter_model.bin") => {
                return Err(Error::unsupported(
                    "adapter_model.bin is a PyTorch file: save the adapter with safe_serialization=True",
                ));
            }
            None => return Err(missing(WEIGHTS)),
        };
        let (tensors, bytes) = safetensors::read(&weights, 0).await?;
        if let Some(name) = bytes.keys().next() {
            return Err(Error::unsupported(format!(
                "tensor '{name}' of the adapter has a type of single bytes; save it as F32, F16 or BF16"
            )));
        }
        let mut adapter = Self::new(vec![weights], tensors, false);
        adapter.pair(peft_place, |module, rank| config.factor(module, rank))?;
        Ok(adapter)
    }
}

fn refused(what: &str, why: &str) -> Error {
    Error::unsupported(format!(
        "the adapter's {what}: {why}; merge it into its model with PEFT's merge_and_unload and load that"
    ))
}

/// The error that an adapter has a tensor of its own in place of one of the model's.
fn whole(name: &str) -> Error {
    refused(
        &format!("tensor '{name}'"),
        "only pairs of lora_A and lora_B are supported, no weights or biases saved whole",
    )
}

/// Which module a tensor of PEFT's is of, and whether it is the A.
fn peft_place(name: &str) -> Result<(String, bool)> {
    if name.contains("lora_magnitude_vector") {
        return Err(refused(&format!("tensor '{name}'"), "DoRA is not supported"));
    }
    if name.contains("lora_embedding_") || name.contains("trainable_tokens") {
        return Err(refused(&format!("tensor '{name}'"), "trained embeddings are not supported"));
    }
    let stem = name.strip_suffix(".weight").unwrap_or(name);
    // PEFT leaves the adapter's own name out when it saves.
    let stem = stem.strip_suffix(".default").unwrap_or(stem);
    let (module, is_a) = stem
        .strip_suffix(".lora_A")
        .map(|of| (of, true))
        .or(stem.strip_suffix(".lora_B").map(|of| (of, false)))
        .ok_or_else(|| whole(name))?;
    Ok((module.strip_prefix("base_model.model.").unwrap_or(module).to_owned(), is_a))
}

/// What counts of adapter_config.json.
struct Config {
    rank: u64,
    alpha: f64,
    rank_pattern: Vec<(String, f64)>,
    alpha_pattern: Vec<(String, f64)>,
    /// Divided by the rank's root.
    stabilized: bool,
}

impl Config {
    fn read(config: &Map<String, Value>) -> Result<Self> {
        // What says where the adapter comes from, or how it was trained.
        const SAYS_NOTHING: [&str; 20] = [
            "arrow_config",
            "auto_mapping",
            "base_model_name_or_path",
            "corda_config",
            "ensure_weight_tying",
            "eva_config",
            "exclude_modules",
            "inference_mode",
            "init_lora_weights",
            "layers_pattern",
            "layers_to_transform",
            "loftq_config",
            "lora_dropout",
            "lora_ga_config",
            "megatron_core",
            "peft_version",
            "qalora_group_size",
            "revision",
            "target_modules",
            "task_type",
        ];
        const READ: [&str; 6] = ["peft_type", "r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora"];
        let refusals = [
            ("use_dora", "DoRA is not supported"),
            ("modules_to_save", "modules saved whole are not supported"),
            ("lora_bias", "biases are not supported"),
            ("fan_in_fan_out", "weights that are stored the other way round are not supported"),
            ("trainable_token_indices", "trained embeddings are not supported"),
            ("layer_replication", "layers that occur several times are not supported"),
            ("target_parameters", "adapted experts are not supported"),
            ("use_qalora", "QALoRA is not supported"),
            ("alora_invocation_tokens", "activated LoRA, which begins within a text, is not supported"),
        ];
        match config.get("peft_type").and_then(Value::as_str) {
            Some("LORA") => {}
            kind => {
                let kind = kind.unwrap_or("nothing");
                return Err(Error::unsupported(format!(
                    "{CONFIG}: peft_type is {kind}; this version runs LORA: load the model that the adapter was merged into"
                )));
            }
        }
        if config.get("bias").and_then(Value::as_str).is_some_and(|bias| bias != "none") {
            return Err(refused("bias", "biases are not supported"));
        }
        for (key, value) in config
            .iter()
            .filter(|(key, _)| !SAYS_NOTHING.contains(&key.as_str()) && !READ.contains(&key.as_str()) && *key != "bias")
        {
            let nothing = match value {
                Value::Null | Value::Bool(false) => true,
                Value::String(text) => text.is_empty(),
                Value::Array(list) => list.is_empty(),
                Value::Object(map) => map.is_empty(),
                _ => false,
            };
            if !nothing {
                let known = refusals.iter().find(|(name, _)| name == key).map(|(_, why)| *why);
                return Err(refused(
                    key,
                    known.unwrap_or(
                        "this key of adapter_config.json is not known to this version, and may change what is computed",
                    ),
                ));
            }
        }
        let number = |key: &str| {
            config
                .get(key)
                .and_then(Value::as_f64)
                .filter(|n| n.is_finite())
                .ok_or_else(|| Error::bad_model(format!("{CONFIG}: {key} is no number")))
        };
        let rank = config
            .get("r")
            .and_then(Value::as_u64)
            .filter(|r| *r > 0)
            .ok_or_else(|| Error::bad_model(format!("{CONFIG}: r is no whole number above 0")))?;
        let stabilized = config.get("use_rslora").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self {
            rank,
            alpha: number("lora_alpha")?,
            rank_pattern: pattern(config, "rank_pattern")?,
            alpha_pattern: pattern(config, "alpha_pattern")?,
            stabilized,
        })
    }

    /// What the product of a module of that rank is multiplied by.
    fn factor(&self, module: &str, rank: u64) -> Result<f32> {
        let of = |list: &[(String, f64)]| {
            list.iter().find(|(name, _)| module == name || module.ends_with(&format!(".{name}"))).map(|(_, n)| *n)
        };
        let said = of(&self.rank_pattern).unwrap_or(self.rank as f64);
        if said != rank as f64 {
            return Err(Error::bad_model(format!(
                "module {module}: {CONFIG} says rank {said}, its tensors have {rank}"
            )));
        }
        let alpha = of(&self.alpha_pattern).unwrap_or(self.alpha);
        Ok((alpha / if self.stabilized { (rank as f64).sqrt() } else { rank as f64 }) as f32)
    }
}

/// Numbers by the ends of modules' names.
fn pattern(config: &Map<String, Value>, key: &str) -> Result<Vec<(String, f64)>> {
    let Some(map) = config.get(key).filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let map = map.as_object().ok_or_else(|| Error::bad_model(format!("{CONFIG}: {key} is no object")))?;
    let entry = |(name, value): (&String, &Value)| {
        if let Some(c) = name.chars().find(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-')) {
            return Err(refused(
                key,
                &format!("{name:?} is an expression ({c:?}), of which only names and ends of names are supported"),
            ));
        }
        let number = value
            .as_f64()
            .filter(|n| n.is_finite())
            .ok_or_else(|| Error::bad_model(format!("{CONFIG}: {key}: {name} is no number")))?;
        Ok((name.clone(), number))
    };
    map.iter().map(entry).collect()
}
