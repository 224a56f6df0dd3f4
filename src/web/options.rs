//! Options from JavaScript, read property by property, so that an error names the one that is wrong. An unknown one is an error.

use std::collections::BTreeMap;
use std::rc::Rc;

use js_sys::{Array, Function, Object};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use wasm_bindgen::{JsCast, JsValue};
use web_sys::Blob;

use super::BlobSource;
use crate::base::js;
use crate::bench;
use crate::engine::{LoadOptions, Overflow, Prompt, Request};
use crate::error::{Error, Result};
use crate::layout::Kv;
use crate::plan::Lane;
use crate::source::{Files, ModelSpec, Remote};
use crate::store::DownloadOptions;
use crate::weights::Recipe;

/// An object whose properties are read by name; [`Fields::finish`] complains about the others.
struct Fields<'a> {
    what: &'static str,
    object: &'a JsValue,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    fn new(what: &'static str, object: &'a JsValue) -> Result<Self> {
        if !object.is_object() {
            return Err(Error::bad_option(format!("{what}: the options must be an object")));
        }
        Ok(Self { what, object, known: Vec::new() })
    }

    /// The property as it is; `None` where it is missing, undefined or null.
    fn raw(&mut self, name: &'static str) -> Option<JsValue> {
        self.known.push(name);
        let value = js::get(self.object, name);
        (!value.is_undefined() && !value.is_null()).then_some(value)
    }

    fn bad(&self, name: &str, why: impl std::fmt::Display) -> Error {
        Error::bad_option(format!("{}: {name}: {why}", self.what))
    }

    fn get<T: DeserializeOwned>(&mut self, name: &'static str) -> Result<Option<T>> {
        let value = self.raw(name);
        value.map(|v| serde_wasm_bindgen::from_value(v).map_err(|e| self.bad(name, e))).transpose()
    }

    /// A value as JSON has it: what JSON leaves out (undefined, functions) is left out.
    fn json(&mut self, name: &'static str) -> Result<Option<Value>> {
        let Some(value) = self.raw(name) else { return Ok(None) };
        let text = js_sys::JSON::stringify(&value).map_err(|e| self.bad(name, super::errors::text_of(&e)))?;
        serde_json::from_str(&String::from(text)).map(Some).map_err(|e| self.bad(name, e))
    }

    fn finish(self) -> Result<()> {
        let keys = Object::keys(self.object.unchecked_ref::<Object>());
        match keys.iter().filter_map(|k| k.as_string()).find(|k| !self.known.contains(&k.as_str())) {
            Some(key) => Err(Error::bad_option(format!("{}: {key} is not an option; known are {}", self.what, self.known.join(", ")))),
            None => Ok(()),
        }
    }
}

/// Where a model comes from.
pub(super) enum Source {
    /// A server.
    Remote(Remote),
    /// Files that the page has.
    Files(Files),
}

/// What `WasmEngine.load` was given.
pub(super) struct Load {
    pub source: Source,
    pub options: LoadOptions,
    /// Whether the model may be kept in the browser's storage.
    pub cache: bool,
    /// How to fetch it.
    pub download: DownloadOptions,
    /// In place of the browser's `fetch`.
    pub fetch: Option<Function>,
    /// What to say to the model's own server.
    pub token: Option<String>,
    /// GPU memory that it may take, bytes: of a plan.
    pub memory: Option<f64>,
}

/// Reads the options of `load`.
pub(super) fn load(object: &JsValue) -> Result<Load> {
    let mut fields = Fields::new("load", object)?;
    let model = fields.raw("model").ok_or_else(|| fields.bad("model", "is missing; give a URL or files"))?;
    let options = load_options(&mut fields)?;
    let cache = fields.get("cache")?.unwrap_or(true);
    let (download, fetch, token) = download_options(&mut fields)?;
    let memory = fields.get("memory")?;
    fields.finish()?;
    Ok(Load { source: source(&model)?, options, cache, download, fetch, token, memory })
}

/// Reads the options of `models.download`.
pub(super) fn download(object: &JsValue) -> Result<Load> {
    let mut fields = Fields::new("download", object)?;
    let model = fields.raw("model").ok_or_else(|| fields.bad("model", "is missing; give a URL"))?;
    let (download, fetch, token) = download_options(&mut fields)?;
    fields.finish()?;
    Ok(Load { source: source(&model)?, options: LoadOptions::default(), cache: true, download, fetch, token, memory: None })
}

type Fetching = (DownloadOptions, Option<Function>, Option<String>);

/// The options of fetching.
fn download_options(fields: &mut Fields<'_>) -> Result<Fetching> {
    let defaults = DownloadOptions::default();
    let options = DownloadOptions {
        connections: fields.get("connections")?.unwrap_or(defaults.connections),
        shard: fields.get("shardBytes")?.unwrap_or(defaults.shard),
        verify: fields.get("verify")?.unwrap_or(false),
        control: defaults.control,
    };
    if !(1..=16).contains(&options.connections) {
        return Err(fields.bad("connections", "must be 1 to 16"));
    }
    if !(65_536..=67_108_864).contains(&options.shard) {
        return Err(fields.bad("shardBytes", "must be 65536 to 67108864"));
    }
    let fetch = match fields.raw("fetch") {
        Some(fetch) => Some(fetch.dyn_into().map_err(|_| fields.bad("fetch", "must be a function"))?),
        None => None,
    };
    Ok((options, fetch, fields.get("token")?))
}

/// The options of loading that do not say which model.
fn load_options(fields: &mut Fields<'_>) -> Result<LoadOptions> {
    let lane = fields.get::<String>("lane")?.map(|name| Lane::parse(&name)).transpose()?.unwrap_or_default();
    let kv = fields.get::<String>("kv")?.map(|name| Kv::parse(&name)).transpose()?;
    let kernels: BTreeMap<String, String> = fields.get("kernels")?.unwrap_or_default();
    Ok(LoadOptions {
        lane,
        kv,
        context: fields.get("context")?,
        chunk: fields.get("chunk")?,
        adapter: fields.get("adapter")?,
        kernels: kernels.into_iter().collect(),
        quantize: fields.get::<String>("quantize")?.map(|name| Recipe::parse(&name)).transpose()?,
        no_subgroups: !fields.get("subgroups")?.unwrap_or(true),
        ..LoadOptions::default()
    })
}

/// What `bench` was given.
pub(super) struct Bench {
    pub options: bench::Options,
    /// A model instead of random weights.
    pub source: Option<Source>,
    /// Positions at which to compare the lane with the exact one, instead of measuring speed.
    pub quality: Option<u32>,
}

/// Reads the options of `bench`; what is missing has the contract's default.
pub(super) fn bench(object: &JsValue) -> Result<Bench> {
    let mut fields = Fields::new("bench", object)?;
    let source = fields.raw("model").map(|model| source(&model)).transpose()?;
    let quality = fields.get("quality")?;
    let filter = fields.get("kernelFilter")?.unwrap_or_default();
    let options = bench::Options {
        shape: fields.get("shape")?.unwrap_or_else(|| "llama-3.2-1b".into()),
        quant: fields.get("quant")?.unwrap_or_else(|| "q4_0".into()),
        prompt: fields.get("prompt")?.unwrap_or(512),
        gen_tokens: fields.get("gen")?.unwrap_or(128),
        runs: fields.get("runs")?.unwrap_or(5),
        profile: fields.get("profile")?.unwrap_or(false),
        kernels: fields.get("kernelBench")?.unwrap_or(false).then_some(filter),
        tune: fields.get("tune")?.unwrap_or(true),
        second_turn: fields.get("secondTurn")?.unwrap_or(false),
        load: load_options(&mut fields)?,
    };
    fields.finish()?;
    Ok(Bench { options, source, quality })
}

pub(super) fn source(model: &JsValue) -> Result<Source> {
    if let Some(text) = model.as_string() {
        return match ModelSpec::parse(&text)? {
            ModelSpec::Remote(remote) => Ok(Source::Remote(remote)),
            ModelSpec::Builtin => Err(Error::bad_option("load: model: in a page the model in the box is a file like any other; give the URL of box.gguf")),
            ModelSpec::Path(_) => {
                Err(Error::bad_option(format!("load: model: {text:?} is not a complete URL; a page cannot open paths, but it can pass a chosen File")))
            }
        };
    }
    let mut fields = Fields::new("load: model", model)?;
    let list = fields.raw("files").ok_or_else(|| fields.bad("files", "is missing; give a URL, or {files: [{name, data}]}"))?;
    fields.finish()?;
    let list: Array = list.dyn_into().map_err(|_| Error::bad_option("load: model: files: must be an array"))?;
    let mut files = Files::new();
    for entry in list.iter() {
        let mut fields = Fields::new("load: model: files", &entry)?;
        let name: String = fields.get("name")?.unwrap_or_default();
        let data: Blob = fields.raw("data").and_then(|d| d.dyn_into().ok()).ok_or_else(|| fields.bad(&name, "data must be a Blob or File"))?;
        fields.finish()?;
        if name.is_empty() || files.contains_key(&name) {
            return Err(Error::bad_option(format!("load: model: files: the name {name:?} is empty or used twice")));
        }
        files.insert(name.clone(), Rc::new(BlobSource::new(name, data)));
    }
    if files.is_empty() {
        return Err(Error::bad_option("load: model: files: is empty; choose at least one file"));
    }
    Ok(Source::Files(files))
}

/// What is added to logits, by token id: an object, whose keys are always text.
fn logit_bias(fields: &mut Fields<'_>) -> Result<BTreeMap<u32, f32>> {
    let given: BTreeMap<String, f32> = fields.get("logitBias")?.unwrap_or_default();
    let id = |text: &String| text.parse().map_err(|_| fields.bad("logitBias", format!("{text:?} is no token id")));
    given.iter().map(|(text, bias)| Ok((id(text)?, *bias))).collect()
}

/// Reads a request of `generate`.
pub(super) fn request(object: &JsValue) -> Result<Request> {
    let mut fields = Fields::new("generate", object)?;
    let text = fields.get::<String>("prompt")?.map(Prompt::Text);
    let messages = fields.json("messages")?.map(Prompt::Messages);
    let tokens = fields.get::<Vec<u32>>("tokens")?.map(Prompt::Tokens);
    let mut prompts: Vec<Prompt> = [text, messages, tokens].into_iter().flatten().collect();
    let prompt = match prompts.len() {
        1 => prompts.remove(0),
        n => return Err(Error::bad_option(format!("generate: exactly one of prompt, messages and tokens is needed, {n} were given"))),
    };
    let template = match fields.json("templateOptions")? {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(_) => return Err(fields.bad("templateOptions", "must be an object")),
    };
    let defaults = Request::new(prompt);
    let request = Request {
        tools: fields.json("tools")?,
        template,
        max_tokens: fields.get("maxTokens")?,
        temperature: fields.get("temperature")?.unwrap_or(defaults.temperature),
        top_k: fields.get("topK")?.unwrap_or(defaults.top_k),
        top_p: fields.get("topP")?.unwrap_or(defaults.top_p),
        min_p: fields.get("minP")?.unwrap_or(defaults.min_p),
        seed: fields.get("seed")?,
        presence_penalty: fields.get("presencePenalty")?.unwrap_or(defaults.presence_penalty),
        frequency_penalty: fields.get("frequencyPenalty")?.unwrap_or(defaults.frequency_penalty),
        repetition_penalty: fields.get("repetitionPenalty")?.unwrap_or(defaults.repetition_penalty),
        logit_bias: logit_bias(&mut fields)?,
        logprobs: fields.get("logprobs")?,
        stop: fields.get("stop")?.unwrap_or_default(),
        ignore_eos: fields.get("ignoreEos")?.unwrap_or(false),
        logits: fields.get("logits")?.unwrap_or(false),
        profile: fields.get("profile")?.unwrap_or(false),
        logits_from: fields.get("logitsFrom")?,
        overflow: fields.get::<String>("overflow")?.map_or(Ok(defaults.overflow), |name| Overflow::parse(&name))?,
        afresh: !fields.get("reuse")?.unwrap_or(true),
        conversation: fields.get("conversation")?.unwrap_or(0),
        ..defaults
    };
    fields.finish()?;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use wasm_bindgen_test::wasm_bindgen_test;

    fn parse(json: &str) -> JsValue {
        js_sys::JSON::parse(json).unwrap()
    }

    #[wasm_bindgen_test]
    fn a_whole_request() {
        let r = request(&parse(
            r#"{"messages":[{"role":"user","content":"hi"}],"tools":[{}],"maxTokens":4,"temperature":0.5,"topK":3,"topP":0.9,"minP":0.1,
                "seed":9007199254740991,"presencePenalty":1,"frequencyPenalty":-1,"repetitionPenalty":1.5,"logitBias":{"7":-100,"9":1.5},"logprobs":3,"stop":["x"],"ignoreEos":true,"logits":true,"logitsFrom":2,"overflow":"shift","reuse":false,"conversation":3,"templateOptions":{"enable_thinking":false}}"#,
        ))
        .unwrap();
        assert!(matches!(r.prompt, Prompt::Messages(Value::Array(_))));
        assert_eq!((r.max_tokens, r.temperature, r.top_k, r.top_p, r.min_p), (Some(4), 0.5, 3, 0.9, 0.1));
        assert_eq!(
            (r.seed, r.stop.as_slice(), r.ignore_eos, r.logits, r.logits_from),
            (Some(9_007_199_254_740_991), &["x".to_owned()][..], true, true, Some(2))
        );
        assert_eq!((r.presence_penalty, r.frequency_penalty, r.repetition_penalty, r.logprobs), (1.0, -1.0, 1.5, Some(3)));
        assert_eq!(r.logit_bias, BTreeMap::from([(7, -100.0), (9, 1.5)]));
        assert_eq!((r.overflow, r.afresh, r.conversation), (Overflow::Shift, true, 3));
        assert_eq!(r.template["enable_thinking"], false);
        assert!(matches!(request(&parse(r#"{"tokens":[1,2]}"#)).unwrap().prompt, Prompt::Tokens(t) if t == [1, 2]));
    }

    #[wasm_bindgen_test]
    fn what_is_wrong_is_named() {
        for (json, named) in [
            (r#"{"prompt":"a","top_k":1}"#, "top_k"),
            (r#"{"prompt":"a","topK":1.5}"#, "topK"),
            (r#"{"prompt":"a","topK":-1}"#, "topK"),
            (r#"{"prompt":"a","maxTokens":"4"}"#, "maxTokens"),
            (r#"{"prompt":"a","seed":-1}"#, "seed"),
            (r#"{"prompt":"a","logitBias":{"hello":1}}"#, "hello"),
            (r#"{"prompt":"a","logitBias":{"-1":1}}"#, "-1"),
            (r#"{"prompt":"a","logitBias":{"1":"x"}}"#, "logitBias"),
            (r#"{"prompt":"a","logprobs":true}"#, "logprobs"),
            (r#"{"prompt":"a","stop":"x"}"#, "stop"),
            (r#"{"prompt":"a","overflow":"wrap"}"#, "wrap"),
            (r#"{"prompt":"a","tokens":[1]}"#, "2 were given"),
            (r#"{}"#, "0 were given"),
            (r#"{"prompt":"a","templateOptions":[]}"#, "templateOptions"),
            (r#"{"tokens":[1,-2]}"#, "tokens"),
        ] {
            let error = request(&parse(json)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadOption, "{json}");
            assert!(error.message().contains(named), "{json}: {error}");
        }
        for (json, named) in [
            (r#"{"model":"https://example.org/a.gguf","lanes":1}"#, "lanes"),
            (r#"{"model":"https://example.org/a.gguf","lane":"f64"}"#, "f64"),
            (r#"{"model":"https://example.org/a.gguf","context":-1}"#, "context"),
            (r#"{"model":"a.gguf"}"#, "a.gguf"),
            (r#"{"model":"builtin"}"#, "box.gguf"),
            (r#"{"model":{"files":[]}}"#, "files"),
            (r#"{"model":{"files":[{"name":"a","data":1}]}}"#, "data"),
            (r#"{"model":{"urls":[]}}"#, "files"),
            (r#"{}"#, "model"),
            (r#"1"#, "object"),
        ] {
            let error = load(&parse(json)).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::BadOption, "{json}");
            assert!(error.message().contains(named), "{json}: {error}");
        }
    }

    #[wasm_bindgen_test]
    fn a_load() {
        let load =
            load(&parse(r#"{"model":"https://example.org/a.gguf","lane":"exact","context":64,"kernels":{"attention":"x"},"cache":false,"subgroups":false}"#))
                .unwrap();
        assert!(matches!(load.source, Source::Remote(Remote::File { .. })));
        assert!(!load.cache && load.options.no_subgroups);
        assert_eq!((load.options.lane, load.options.context), (Lane::Exact, Some(64)));
        assert_eq!(load.options.kernels, [("attention".to_owned(), "x".to_owned())]);
    }
}
