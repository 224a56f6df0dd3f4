//! A folder as Hugging Face lays it out: config.json, safetensors in one file or in shards, tokenizer.json.

use std::rc::Rc;

use indexmap::{IndexMap, IndexSet};
use serde_json::{Map, Value, json};

use super::scaled::{self, Stored};
use super::{Checkpoint, Metadata, TensorInfo, limits, safetensors};
use crate::base::check_name;
use crate::error::{Error, Result};
use crate::source::spec::names;
use crate::source::{ByteSource, Files};

const CONFIG: &str = "config.json";
const GENERATION_CONFIG: &str = "generation_config.json";
const TOKENIZER: &str = "tokenizer.json";
const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const TEMPLATE: &str = "chat_template.jinja";
const TEMPLATE_JSON: &str = "chat_template.json";
const MODULES: &str = names::MODULES;

/// What a folder has to hold, for messages.
const HOLDS: &str = "a model folder holds config.json, tokenizer.json, and model.safetensors or model.safetensors.index.json with its shards";

/// The JSON files of a folder that say what the model is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HfMetadata {
    /// config.json.
    pub config: Map<String, Value>,
    /// generation_config.json, if there.
    pub generation_config: Option<Map<String, Value>>,
    /// tokenizer_config.json, if there.
    pub tokenizer_config: Option<Map<String, Value>>,
    /// What makes it a folder of sentence-transformers, if it is: `modules`, each with its `kind` (`Pooling`) and its
    /// `config`, and `prompts`, `max_seq_length` and the like as config_sentence_transformers.json and
    /// sentence_bert_config.json have them.
    pub sentence: Option<Box<Map<String, Value>>>,
    /// preprocessor_config.json and what processor_config.json says of pictures, which counts, if there: how they are
    /// resized and cut.
    pub preprocessor: Option<Box<Map<String, Value>>>,
}

/// The files of a folder that the tokenizer is built from.
#[derive(Clone)]
pub struct TokenizerFiles {
    /// tokenizer.json.
    pub json: Vec<u8>,
    /// chat_template.jinja: takes precedence over the template in tokenizer_config.json, as in transformers.
    pub template: Option<String>,
    /// chat_template.json, where older multimodal models keep theirs.
    pub template_json: Option<Map<String, Value>>,
}

impl From<Vec<u8>> for TokenizerFiles {
    fn from(json: Vec<u8>) -> Self {
        Self { json, template: None, template_json: None }
    }
}

/// Opens a folder. `NOT_FOUND` names a file that is missing and says what a folder holds.
pub(crate) async fn open(files: &Files) -> Result<Checkpoint> {
    let folder = Folder { files };
    let config = folder.object(CONFIG).await?.ok_or_else(|| folder.missing(CONFIG))?;
    let generation_config = folder.object(GENERATION_CONFIG).await?;
    let tokenizer_config = folder.object(TOKENIZER_CONFIG).await?;
    let json = folder.bytes(TOKENIZER, limits::TOKENIZER_BYTES).await?.ok_or_else(|| folder.missing(TOKENIZER))?;
    let template = match folder.bytes(TEMPLATE, limits::CONFIG_BYTES).await? {
        Some(bytes) => Some(
            String::from_utf8(bytes)
                .map_err(|e| Error::bad_model(format!("{TEMPLATE} is not UTF-8: {}", e.utf8_error())))?,
        ),
        None => None,
    };
    let template_json = folder.object(TEMPLATE_JSON).await?;
    let sentence = folder.sentence().await?;
    let preprocessor = folder.preprocessor().await?.map(Box::new);
    let (mut sources, mut stored) = folder.weights().await?;
    folder.dense(&mut sources, &mut stored).await?;
    let tensors = scaled::join(&mut sources, stored, &config)?;
    Ok(Checkpoint {
        files: sources,
        tensors,
        metadata: Metadata::Hf(HfMetadata { config, generation_config, tokenizer_config, sentence, preprocessor }),
        tokenizer_files: Some(TokenizerFiles { json, template, template_json }),
        packed: None,
    })
}

/// A tokenizer.json beside a GGUF file.
pub(crate) async fn tokenizer_beside(files: &Files) -> Result<Option<Vec<u8>>> {
    Folder { files }.bytes(TOKENIZER, limits::TOKENIZER_BYTES).await
}

struct Folder<'a> {
    files: &'a Files,
}

impl Folder<'_> {
    fn missing(&self, name: &str) -> Error {
        let there = self.files.keys().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
        Error::not_found(format!("{name} is missing (found: {there}); {HOLDS}"))
    }

    async fn bytes(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(source) = self.files.get(name) else { return Ok(None) };
        if source.len() > limit {
            return Err(Error::bad_model(format!("{name} has {} bytes; at most {limit} are allowed", source.len())));
        }
        Ok(Some(source.read(0, source.len() as usize).await?))
    }

    async fn object(&self, name: &str) -> Result<Option<Map<String, Value>>> {
        match self.bytes(name, limits::CONFIG_BYTES).await? {
            Some(bytes) => {
                let object = serde_json::from_slice(&bytes).or_else(|_| serde_json::from_slice(&spelled_out(&bytes)));
                object.map(Some).map_err(|e| Error::bad_model(format!("{name}: {e}")))
            }
            None => Ok(None),
        }
    }

    /// How pictures are resized and cut.
    async fn preprocessor(&self) -> Result<Option<Map<String, Value>>> {
        let [preprocessor, processor] = names::PICTURES;
        let own = self.object(preprocessor).await?;
        let Some(mut processor) = self.object(processor).await? else { return Ok(own) };
        let pictures = processor.remove("image_processor");
        let mut all = own.unwrap_or_default();
        all.extend(processor);
        if let Some(Value::Object(pictures)) = pictures {
            all.extend(pictures);
        }
        Ok(Some(all))
    }

    /// What sentence-transformers has beside a model.
    async fn sentence(&self) -> Result<Option<Box<Map<String, Value>>>> {
        let Some(bytes) = self.bytes(MODULES, limits::CONFIG_BYTES).await? else { return Ok(None) };
        let mut modules = Vec::new();
        for (kind, folder) in module_folders(&bytes)? {
            let config = match folder.as_str() {
                "" => None,
                // Files that a page was given keep their folders in their names.
                folder => self
                    .object(&names::of_module(folder, CONFIG))
                    .await?
                    .or(self.object(&format!("{folder}/{CONFIG}")).await?),
            };
            modules.push(json!({ "kind": kind, "config": config }));
        }
        let mut sentence = self.object(names::SENTENCE_CONFIG).await?.unwrap_or_default();
        sentence.extend(self.object(names::SENTENCE_LENGTH).await?.unwrap_or_default());
        sentence.insert("modules".into(), modules.into());
        Ok(Some(Box::new(sentence)))
    }

    /// The tensors of sentence-transformers' dense modules, under the names that GGUF files have them by: `dense_2` is
    /// the first.
    async fn dense(&self, sources: &mut Vec<Rc<dyn ByteSource>>, (tensors, single): &mut Stored) -> Result<()> {
        let Some(bytes) = self.bytes(MODULES, limits::CONFIG_BYTES).await? else { return Ok(()) };
        for (n, (_, folder)) in (2..).zip(module_folders(&bytes)?.into_iter().filter(|(kind, _)| kind == names::DENSE))
        {
            let (name, place) = (names::of_module(&folder, WEIGHTS), format!("{folder}/{WEIGHTS}"));
            let source = self.files.get(&name).or(self.files.get(&place)).ok_or_else(|| self.missing(&place))?;
            let (of_module, bytes) = safetensors::read(source, sources.len()).await?;
            let renamed = |name: &str| {
                name.strip_prefix("linear.")
                    .map_or_else(|| format!("dense_{n}.{name}"), |kind| format!("dense_{n}.{kind}"))
            };
            tensors.extend(
                of_module.into_iter().map(|(name, info)| (renamed(&name), TensorInfo { name: renamed(&name), ..info })),
            );
            single.extend(bytes.into_iter().map(|(name, kind)| (renamed(&name), kind)));
            sources.push(source.clone());
        }
        Ok(())
    }

    /// All files that hold tensors, and the tensors.
    async fn weights(&self) -> Result<(Vec<Rc<dyn ByteSource>>, Stored)> {
        let Some(index) = self.object(INDEX).await? else {
            let source = self.files.get(WEIGHTS).ok_or_else(|| self.missing(WEIGHTS))?;
            return Ok((vec![source.clone()], safetensors::read(source, 0).await?));
        };
        let weight_map = weight_map(&index)?;
        let shards: IndexSet<&str> = weight_map.values().copied().collect();
        let mut sources = Vec::new();
        let (mut tensors, mut single): Stored = Default::default();
        for shard in shards {
            let source = self
                .files
                .get(shard)
                .ok_or_else(|| Error::not_found(format!("{shard} is missing, which {INDEX} names; {HOLDS}")))?;
            let (of_shard, bytes) = safetensors::read(source, sources.len()).await?;
            single.extend(bytes);
            for (name, tensor) in of_shard {
                match weight_map.get(name.as_str()) {
                    Some(&said) if said == shard => {}
                    Some(&said) => {
                        return Err(Error::bad_model(format!(
                            "{INDEX} says that tensor '{name}' is in {said}, but {shard} holds it"
                        )));
                    }
                    None => {
                        return Err(Error::bad_model(format!(
                            "{shard} holds tensor '{name}', which {INDEX} does not name"
                        )));
                    }
                }
                tensors.insert(name, tensor);
            }
            sources.push(source.clone());
        }
        match weight_map.iter().find(|(name, _)| !tensors.contains_key(**name)) {
            Some((name, shard)) => {
                Err(Error::bad_model(format!("{INDEX} says that {shard} holds tensor '{name}', but it does not")))
            }
            None => Ok((sources, (tensors, single))),
        }
    }
}

/// The kinds of the modules that a modules.json lists, and the folder of each; the model's own has none.
pub(crate) fn module_folders(json: &[u8]) -> Result<Vec<(String, String)>> {
    let list: Vec<Value> = serde_json::from_slice(json).map_err(|e| Error::bad_model(format!("{MODULES}: {e}")))?;
    let module = |module: &Value| {
        let text = |key: &str| module.get(key).and_then(Value::as_str);
        let kind = text("type").and_then(|kind| kind.rsplit('.').next()).filter(|kind| !kind.is_empty());
        let kind = kind.ok_or_else(|| Error::bad_model(format!("{MODULES}: a module has no type")))?;
        let folder = text("path").unwrap_or_default();
        if !folder.is_empty() {
            check_name(folder).map_err(|e| e.at(MODULES))?;
        }
        Ok((kind.to_owned(), folder.to_owned()))
    };
    list.iter().map(module).collect()
}

/// The `weight_map` of the index: tensor name to shard.
fn weight_map(index: &Map<String, Value>) -> Result<IndexMap<&str, &str>> {
    let map = match index.get("weight_map") {
        Some(Value::Object(map)) if !map.is_empty() => map,
        Some(_) => {
            return Err(Error::bad_model(format!(
                "{INDEX}: 'weight_map' should be an object that names at least one tensor"
            )));
        }
        None => return Err(Error::bad_model(format!("{INDEX}: 'weight_map' is missing"))),
    };
    map.iter()
        .map(|(tensor, shard)| match shard {
            // A shard lies beside its index: a path that leads elsewhere is not followed.
            Value::String(s) if !s.is_empty() && !s.contains(['/', '\\']) => Ok((tensor.as_str(), s.as_str())),
            _ => Err(Error::bad_model(format!(
                "{INDEX}: the shard of tensor '{tensor}' should be the name of a file, not {shard}"
            ))),
        })
        .collect()
}

/// JSON in which Python has written the word Infinity, as today's transformers spell it, which is JSON.
fn spelled_out(json: &[u8]) -> Vec<u8> {
    const WORD: &[u8] = b"Infinity";
    let (mut out, mut quoted, mut at) = (Vec::with_capacity(json.len()), false, 0);
    while let Some(byte) = json.get(at) {
        if !quoted && json[at..].starts_with(WORD) {
            out.extend_from_slice(br#"{"__float__":"Infinity"}"#);
            at += WORD.len();
            continue;
        }
        // An escaped quote ends nothing.
        let length = if quoted && *byte == b'\\' { 2 } else { 1 };
        quoted ^= *byte == b'"';
        out.extend(json[at..].iter().take(length));
        at += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infinity_is_read_where_it_is_no_text() {
        let text = br#"{"time_step_limit": [0.0, Infinity], "a": "Infinity, \\\" Infinity", "b": {"c": Infinity}}"#;
        let infinity = json!({ "__float__": "Infinity" });
        let wanted =
            json!({ "time_step_limit": [0.0, infinity], "a": "Infinity, \\\" Infinity", "b": { "c": infinity } });
        assert_eq!(serde_json::from_slice::<Value>(&spelled_out(text)).unwrap(), wanted);
    }
}
