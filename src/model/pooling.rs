//! What becomes of a text where the model does not go on with it: what checkpoints say of that, and what a caller may.

use serde::Serialize;
use serde_json::Value;

use super::config::Dense;
use super::keys::{Keys, MOST};
use super::{MixerKind, ModelConfig};
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::source::spec::names;
use crate::text::Tokenizer;

/// What becomes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// The mean of its rows: an embedding.
    Mean,
    /// The first token's row, which sees all of it where rows see both ways: an embedding.
    Cls,
    /// The last token's row, which has seen all of it: an embedding.
    Last,
    /// A score: of the last token's row, how much likelier yes is than no; of a model that reads both ways what its
    /// classifier makes of the first.
    Rank,
}

impl Pooling {
    const ALL: [Self; 4] = [Self::Mean, Self::Cls, Self::Last, Self::Rank];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Last => "last",
            Self::Rank => "rank",
        }
    }

    /// Whether texts become embeddings.
    pub const fn embeds(self) -> bool {
        !matches!(self, Self::Rank)
    }

    fn of_gguf(number: usize) -> Result<Option<Self>> {
        match number {
            0 => Ok(None),
            1..=4 => Ok(Some(Self::ALL[number - 1])),
            _ => Err(unknown(&format!("of a kind that is not known (pooling_type {number})"))),
        }
    }

    /// From the configuration of sentence-transformers' module.
    fn of_module(config: &Value) -> Result<Self> {
        let flags = config
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, on)| **on == Value::Bool(true))
            .filter_map(|(key, _)| key.strip_prefix("pooling_mode_"));
        let modes: Vec<&str> = flags.chain(config.get("pooling_mode").and_then(Value::as_str)).collect();
        if config.get("include_prompt") == Some(&Value::Bool(false)) {
            return Err(Error::unsupported(
                "modules.json: include_prompt is false; this version pools the rows of prompts, too",
            ));
        }
        match modes[..] {
            ["mean_tokens" | "mean"] => Ok(Self::Mean),
            ["cls_token" | "cls"] => Ok(Self::Cls),
            ["lasttoken"] => Ok(Self::Last),
            _ => Err(unknown(&modes.join(" and "))),
        }
    }
}

/// What the engine calls dense modules, as GGUF files do.
const PARTS: [&str; 2] = ["dense_2", "dense_3"];

impl Dense {
    /// The `i`-th, from the configuration of sentence-transformers' module.
    fn of_module(i: usize, config: &Value) -> Result<Self> {
        let n = config["out_features"].as_u64().filter(|n| (1..=MOST).contains(n));
        let tanh = match config["activation_function"].as_str().and_then(|name| name.rsplit('.').next()) {
            Some("Identity") => false,
            // The default of sentence-transformers.
            Some("Tanh") | None => true,
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "modules.json: activation {other} of a dense layer; this version knows Tanh and Identity"
                )));
            }
        };
        match (PARTS.get(i), n) {
            (Some(part), Some(n)) => {
                Ok(Self { part, n: n as usize, bias: config["bias"].as_bool().unwrap_or(true), tanh })
            }
            (None, _) => Err(Error::unsupported("modules.json: more than two dense layers")),
            (_, None) => Err(Error::bad_model("modules.json: a dense layer without out_features")),
        }
    }
}

fn unknown(name: &str) -> Error {
    Error::unsupported(format!(
        "pooling {name}: this version takes the mean of all rows (mean), the first token's row (cls), the last one's (last), or makes a score (rank); use a \
         model that is made so, as all-MiniLM and Qwen3-Embedding are"
    ))
}

/// What a caller says of pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AskedPooling {
    /// As the checkpoint says.
    #[default]
    Auto,
    /// No pooling: the model generates.
    None,
    /// Pooled so.
    As(Pooling),
}

impl AskedPooling {
    /// By its name.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "auto" => Ok(Self::Auto),
            "none" => Ok(Self::None),
            _ => match Pooling::ALL.into_iter().find(|pooling| pooling.name() == name) {
                Some(pooling) => Ok(Self::As(pooling)),
                None => Err(Error::bad_option(format!(
                    "pooling {name:?} does not exist; use auto, none, mean, cls, last or rank"
                ))),
            },
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::None => "none",
            Self::As(pooling) => pooling.name(),
        }
    }
}

/// Fills in what becomes of texts.
pub(super) fn read(
    keys: &Keys<'_>,
    checkpoint: &Checkpoint,
    asked: AskedPooling,
    config: &mut ModelConfig,
) -> Result<()> {
    let number = keys.size_or_none("pooling_type", "")?;
    let mut answers = None;
    keys.ignore_gguf(&["classifier.output_labels"]);
    let modules: Vec<&Value> = match &checkpoint.metadata {
        Metadata::Gguf(_) => vec![],
        Metadata::Hf(folder) => {
            folder.sentence.iter().filter_map(|sentence| sentence.get("modules")?.as_array()).flatten().collect()
        }
    };
    let kind = |module: &Value| module["kind"].as_str().unwrap_or_default().to_owned();
    config.pooling = match asked {
        AskedPooling::None => None,
        AskedPooling::As(pooling) => Some(pooling),
        AskedPooling::Auto if keys.is_gguf() => Pooling::of_gguf(number)?,
        AskedPooling::Auto => {
            let mut pooling = None;
            for module in &modules {
                match kind(module).as_str() {
                    "Transformer" | "Normalize" | "Dense" => {}
                    "Pooling" => pooling = Some(Pooling::of_module(&module["config"])?),
                    "LogitScore" => {
                        let id = |key: &str| {
                            module["config"][key].as_u64().map(|id| id as usize).filter(|id| *id < config.vocab)
                        };
                        answers = id("true_token_id").zip(id("false_token_id")).map(|(yes, no)| [yes, no]);
                        pooling = Some(Pooling::Rank);
                    }
                    other => {
                        let known = "Transformer, Pooling, Dense, Normalize and LogitScore";
                        return Err(Error::unsupported(format!(
                            "modules.json: module {other}; this version knows {known}"
                        )));
                    }
                }
            }
            // Models that give one score of a text have no other mark than their class.
            pooling.or((config.encoder.both_ways && keys.hf_class().ends_with("ForSequenceClassification"))
                .then_some(Pooling::Rank))
        }
    };
    if config.pooling.is_some_and(Pooling::embeds) {
        let of_gguf = PARTS.into_iter().filter(|part| keys.is_gguf() && keys.has_tensor(&format!("{part}.weight")));
        let of_gguf = of_gguf.map(|part| {
            let n = keys.rows_of(&format!("{part}.weight"))?;
            Ok(Dense { part, n, bias: keys.has_tensor(&format!("{part}.bias")), tanh: false })
        });
        let of_modules = modules
            .iter()
            .filter(|module| kind(module) == names::DENSE)
            .enumerate()
            .map(|(i, module)| Dense::of_module(i, &module["config"]));
        config.dense = of_gguf.chain(of_modules).collect::<Result<_>>()?;
    }
    let Some(pooling) = config.pooling else {
        return match config.encoder.both_ways {
            false => Ok(()),
            true => Err(Error::unsupported(format!(
                "{} reads both ways and cannot write, and its files do not say how it embeds; load it with pooling \"mean\" or \"cls\", as its card has it",
                config.architecture
            ))),
        };
    };
    if let Some(i) =
        config.layers.iter().position(|layer| !matches!(layer.mixer, MixerKind::Attention | MixerKind::Shared(_)))
    {
        return Err(Error::unsupported(format!(
            "pooling {}: layer {i} of {} is no attention; this version reads several texts at a time with attention alone",
            pooling.name(),
            config.architecture
        )));
    }
    if pooling == Pooling::Rank && config.encoder.both_ways {
        return classifier(keys, config);
    }
    if pooling == Pooling::Rank && config.architecture != "qwen3" {
        return Err(Error::unsupported(format!(
            "pooling rank: this version asks Qwen3-Reranker's question, which {} does not know",
            config.architecture
        )));
    }
    if pooling == Pooling::Rank && !keys.has_tensor(CLASSIFIER) {
        if answers.is_none() {
            let tokenizer = Tokenizer::open(checkpoint)?;
            let id = |token: &str| tokenizer.token_id(token).map(|id| id as usize);
            answers = id("yes").zip(id("no")).map(|(yes, no)| [yes, no]);
        }
        config.answers = Some(answers.ok_or_else(|| {
            Error::unsupported("pooling rank: the model has neither cls.output.weight nor the tokens yes and no; use a reranker, as Qwen3-Reranker is")
        })?);
    }
    Ok(())
}

/// The products that make a score of the first row: BERT's and RoBERTa's, by the names that the checkpoint has.
fn classifier(keys: &Keys<'_>, config: &mut ModelConfig) -> Result<()> {
    let heads = [
        ("cls", "cls", "cls.output", CLASSIFIER),
        ("cls", "classifier.dense", "cls.output", "classifier.out_proj.weight"),
        ("pooler", "bert.pooler.dense", "classifier", "classifier.weight"),
    ];
    let Some((first, there, last, output)) = heads.into_iter().find(|(.., output)| keys.has_tensor(output)) else {
        return Err(Error::unsupported(
            "pooling rank: the model has no classifier that makes a score of a text; use a reranker, as bge-reranker-v2-m3 is",
        ));
    };
    let n = keys.rows_of(output)?;
    if n != 1 {
        return Err(Error::unsupported(format!(
            "pooling rank: the model's classifier tells {n} classes apart; use one that makes one score"
        )));
    }
    if keys.has_tensor(&format!("{there}.weight")) {
        config.dense.push(Dense { part: first, n: config.width, bias: true, tanh: true });
    }
    config.dense.push(Dense { part: last, n, bias: keys.has_tensor(&output.replace(".weight", ".bias")), tanh: false });
    Ok(())
}

/// What gives a reranker's answers in GGUF files: rows for yes and for no.
pub(super) const CLASSIFIER: &str = "cls.output.weight";
