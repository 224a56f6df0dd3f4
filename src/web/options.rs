//! Options from JavaScript, read property by property as the table's rows say (options.toml), so that an error names
//! the one that is wrong. An unknown one is an error.

use std::rc::Rc;

use js_sys::{Array, Function, Object, Promise, Uint8Array};
use millrace_picture::Picture;
use serde_json::Value;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::Blob;

use super::BlobSource;
use crate::base::js;
use crate::base::options::{Given, Options};
use crate::bench;
use crate::engine::{EmbedOptions, LoadOptions, Prompt, Request, RerankOptions};
use crate::error::{Error, Result};
use crate::source::{Files, ModelSpec, Remote};
use crate::store::DownloadOptions;

include!(concat!(env!("OUT_DIR"), "/options/page.rs"));

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

    /// The property as it is; `None` where it is missing or undefined.
    fn raw(&mut self, name: &'static str) -> Option<JsValue> {
        self.known.push(name);
        let value = js::get(self.object, name);
        (!value.is_undefined()).then_some(value)
    }

    fn bad(&self, name: &str, why: &str) -> Error {
        Error::bad_option(format!("{}: {name} {why}", self.what))
    }

    /// A property of any kind; of an object what JSON has of it.
    fn given(&mut self, name: &'static str) -> Option<Given> {
        self.raw(name).map(|value| given(&value))
    }

    /// A value as JSON has it: what JSON leaves out (undefined, functions) is left out.
    fn json(&mut self, name: &'static str) -> Result<Option<Value>> {
        match self.given(name) {
            None => Ok(None),
            Some(Given::Json(value)) => Ok(Some(value)),
            Some(_) => Err(self.bad(name, "must be a list of messages")),
        }
    }

    /// All rows of a struct but some.
    fn read(&mut self, into: &mut dyn Options, but: &[&str]) -> Result<()> {
        for (i, row) in into.rows().iter().enumerate().filter(|(_, row)| !but.contains(&row.name)) {
            let Some(given) = self.given(row.name) else { continue };
            if let Some(wrong) = row.wrong(&given) {
                return Err(self.bad(row.name, &wrong));
            }
            if let Some(other) = row.needs.filter(|other| !js::get(self.object, other).is_truthy()) {
                return Err(self.bad(row.name, &format!("needs {other}: true")));
            }
            into.set(i, given)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        let keys = Object::keys(self.object.unchecked_ref::<Object>());
        match keys.iter().filter_map(|k| k.as_string()).find(|k| !self.known.contains(&k.as_str())) {
            Some(key) => Err(Error::bad_option(format!(
                "{}: {key} is not an option; known are {}",
                self.what,
                self.known.join(", ")
            ))),
            None => Ok(()),
        }
    }
}

/// What a value is for the table.
fn given(value: &JsValue) -> Given {
    if let Some(number) = value.as_f64() {
        Given::Number(number)
    } else if let Some(flag) = value.as_bool() {
        Given::Flag(flag)
    } else if let Some(text) = value.as_string() {
        Given::Text(text)
    } else {
        let text = if value.is_object() {
            js_sys::JSON::stringify(value).ok().and_then(|text| text.as_string())
        } else {
            None
        };
        match text.and_then(|text| serde_json::from_str(&text).ok()) {
            Some(json) => Given::Json(json),
            None if value.is_null() => Given::Other("null".into()),
            None => Given::Other(value.js_typeof().as_string().unwrap_or_default()),
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
    /// How to fetch it.
    pub download: DownloadOptions,
    /// Whether it may be kept, the server's token, the memory that a plan may take.
    pub page: PageOptions,
    /// What other models take of it.
    pub beside: u64,
    /// In place of the browser's `fetch`.
    pub fetch: Option<Function>,
    /// Where its draft model comes from.
    pub draft: Option<Source>,
}

impl Load {
    /// A model, and nothing said about it.
    pub fn new(source: Source) -> Self {
        Self {
            source,
            options: LoadOptions::default(),
            download: DownloadOptions::default(),
            page: PageOptions::default(),
            beside: 0,
            fetch: None,
            draft: None,
        }
    }

    /// What is fetched, and how. `but`: what a page cannot say here.
    fn fetched(fields: &mut Fields<'_>, but: &[&str]) -> Result<Self> {
        let model = fields.raw("model").ok_or_else(|| fields.bad("model", "is missing; give a URL or files"))?;
        let mut load = Self::new(source(&model)?);
        fields.read(&mut load.download, &[])?;
        fields.read(&mut load.page, but)?;
        if let Some(fetch) = fields.raw("fetch") {
            load.fetch = Some(fetch.dyn_into().map_err(|_| fields.bad("fetch", "must be a function"))?);
        }
        Ok(load)
    }
}

/// Reads the options of `load`, or those of `plan`, which has one more. What a load may take of the memory, the page
/// has seen to.
pub(super) fn load(object: &JsValue, plan: bool) -> Result<Load> {
    let mut fields = Fields::new(if plan { "plan" } else { "load" }, object)?;
    let mut load = Load::fetched(&mut fields, &[])?;
    fields.read(&mut load.options, &[])?;
    load.draft = fields.raw("draft").map(|draft| source(&draft)).transpose()?;
    if plan && let Some(bytes) = fields.raw("beside") {
        load.beside = bytes.as_f64().ok_or_else(|| fields.bad("beside", "must be bytes"))? as u64;
    }
    if let Some(json) = fields.raw("tokenizer") {
        let json: js_sys::Uint8Array = json.dyn_into().map_err(|_| fields.bad("tokenizer", "must be bytes"))?;
        load.options.tokenizer_json = Some(json.to_vec());
    }
    fields.finish()?;
    Ok(load)
}

/// Reads the options of `models.download`.
pub(super) fn download(object: &JsValue) -> Result<Load> {
    let mut fields = Fields::new("download", object)?;
    let load = Load::fetched(&mut fields, &["cache", "memory"])?;
    fields.finish()?;
    Ok(load)
}

/// Reads the options of `bench`, and the model instead of random weights.
pub(super) fn bench(object: &JsValue) -> Result<(bench::Options, Option<Source>)> {
    let mut fields = Fields::new("bench", object)?;
    let source = fields.raw("model").map(|model| source(&model)).transpose()?;
    let mut options = bench::Options::default();
    fields.read(&mut options, &[])?;
    fields.read(&mut options.load, &[])?;
    fields.finish()?;
    Ok((options, source))
}

pub(super) fn source(model: &JsValue) -> Result<Source> {
    if let Some(text) = model.as_string() {
        return match ModelSpec::parse(&text)? {
            ModelSpec::Remote(remote) => Ok(Source::Remote(remote)),
            ModelSpec::Builtin => Err(Error::bad_option(
                "load: model: in a page the model in the box is a file like any other; give the URL of box.gguf",
            )),
            ModelSpec::Path(_) => Err(Error::bad_option(format!(
                "load: model: {text:?} is not a complete URL; a page cannot open paths, but it can pass a chosen File"
            ))),
        };
    }
    let mut fields = Fields::new("load: model", model)?;
    let list =
        fields.raw("files").ok_or_else(|| fields.bad("files", "is missing; give a URL, or {files: [{name, data}]}"))?;
    fields.finish()?;
    let list: Array = list.dyn_into().map_err(|_| Error::bad_option("load: model: files: must be an array"))?;
    let mut files = Files::new();
    for entry in list.iter() {
        let mut fields = Fields::new("load: model: files", &entry)?;
        let name = fields.raw("name").and_then(|name| name.as_string()).unwrap_or_default();
        let data: Blob = fields
            .raw("data")
            .and_then(|d| d.dyn_into().ok())
            .ok_or_else(|| fields.bad(&name, "data must be a Blob or File"))?;
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

/// Ids of tokens.
fn ids(value: &Value) -> Option<Vec<u32>> {
    value.as_array()?.iter().map(|id| u32::try_from(id.as_u64()?).ok()).collect()
}

/// What a picture is that has been decoded.
const PIXELS: &str =
    "must be pixels, { width, height, data } with four bytes for each: at least one, at most 100 million";

/// The longest side of a picture that is shown with low detail, pixels.
const LOW_DETAIL: u32 = 512;

/// The pixels of a picture, RGBA; what is transparent is white. `key` tells it from others, where something hashed it:
/// it may be a promise ([`keyed`]).
fn picture(object: &JsValue) -> Option<Rc<Picture>> {
    let side = |key: &str| {
        js::get(object, key).as_f64().filter(|n| n.fract() == 0.0 && (1.0..=1e8).contains(n)).map(|n| n as u32)
    };
    let (width, height) = (side("width")?, side("height")?);
    let data: Uint8Array = js::get(object, "data").dyn_into().ok()?;
    let pixels = u64::from(width) * u64::from(height);
    if pixels > Picture::MAX_PIXELS || u64::from(data.length()) != 4 * pixels {
        return None;
    }
    let picture = Picture::from_rgba(&data.to_vec(), width, height).ok()?;
    let picture = match js::get(object, "key").as_string() {
        Some(key) => picture.with_key(key),
        None => picture,
    };
    let picture = if js::get(object, "low").is_truthy() { picture.within(LOW_DETAIL).ok()? } else { picture };
    Some(Rc::new(picture))
}

/// A request with the keys of its pictures that are promises: what hashes pixels is at work while they are read.
pub(super) async fn keyed(object: &JsValue, request: Request) -> Request {
    let Ok(list) = js::get(object, "pictures").dyn_into::<Array>() else { return request };
    let mut pictures = Vec::with_capacity(request.pictures.len());
    for (shown, picture) in list.iter().zip(request.pictures) {
        let key = match js::get(&shown, "key").dyn_into::<Promise>() {
            Ok(hashing) => JsFuture::from(hashing).await.ok().and_then(|key| key.as_string()),
            Err(_) => None,
        };
        pictures.push(match key {
            Some(key) => Rc::new(Rc::unwrap_or_clone(picture).with_key(key)),
            None => picture,
        });
    }
    Request { pictures, ..request }
}

/// Reads a request of `generate`.
pub(super) fn request(object: &JsValue) -> Result<Request> {
    let mut fields = Fields::new("generate", object)?;
    let text = match fields.given("prompt") {
        None => None,
        Some(Given::Text(text)) => Some(Prompt::Text(text)),
        Some(_) => return Err(fields.bad("prompt", "must be a text")),
    };
    let messages = fields.json("messages")?.map(Prompt::Messages);
    // A list, or a typed array.
    let tokens = fields.raw("tokens").map(|list| match list.is_object().then(|| given(&Array::from(&list))) {
        Some(Given::Json(list)) => ids(&list),
        _ => None,
    });
    let tokens = match tokens {
        Some(None) => return Err(fields.bad("tokens", "must be a list of token ids")),
        tokens => tokens.flatten().map(Prompt::Tokens),
    };
    let mut prompts: Vec<Prompt> = [text, messages, tokens].into_iter().flatten().collect();
    let prompt = match prompts.len() {
        1 => prompts.remove(0),
        n => {
            return Err(Error::bad_option(format!(
                "generate: exactly one of prompt, messages and tokens is needed, {n} were given"
            )));
        }
    };
    let pictures = match fields.raw("pictures") {
        Some(list) => Array::from(&list)
            .iter()
            .map(|picture| self::picture(&picture).ok_or_else(|| fields.bad("pictures", PIXELS)))
            .collect::<Result<_>>()?,
        None => Vec::new(),
    };
    let mut request = Request { prompt, pictures, ..Request::default() };
    fields.read(&mut request, &[])?;
    if let Some(id) = fields.raw("conversation") {
        let number = id.as_f64().filter(|id| id.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(id));
        request.conversation = number.ok_or_else(|| fields.bad("conversation", "must be the number of one"))? as u32;
    }
    fields.finish()?;
    Ok(request)
}

/// Texts that are not answered.
pub(super) enum TextsAsked {
    Embed(Vec<String>, EmbedOptions),
    /// The question, and what may answer it.
    Rerank(String, Vec<String>, RerankOptions),
}

/// Reads a request of `embed` or, where it has a question, of `rerank`.
pub(super) fn texts(object: &JsValue) -> Result<TextsAsked> {
    let ranks = js_sys::Reflect::has(object, &"query".into()).unwrap_or(false);
    let (what, list) = if ranks { ("rerank", "documents") } else { ("embed", "texts") };
    let mut fields = Fields::new(what, object)?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let texts = match fields.given(list) {
        Some(Given::Text(text)) if !ranks => Some(vec![text]),
        Some(Given::Json(Value::Array(texts))) => texts.iter().map(text).collect(),
        _ => None,
    };
    let texts = texts.ok_or_else(|| {
        fields.bad(list, if ranks { "must be a list of texts" } else { "must be a text or a list of texts" })
    })?;
    let asked = if ranks {
        let Some(Given::Text(query)) = fields.given("query") else { return Err(fields.bad("query", "must be a text")) };
        let mut options = RerankOptions::default();
        fields.read(&mut options, &[])?;
        TextsAsked::Rerank(query, texts, options)
    } else {
        let mut options = EmbedOptions::default();
        fields.read(&mut options, &[])?;
        TextsAsked::Embed(texts, options)
    };
    fields.finish()?;
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::engine::Overflow;
    use crate::error::ErrorKind;
    use crate::plan::Lane;
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
        assert_eq!(
            (r.presence_penalty, r.frequency_penalty, r.repetition_penalty, r.logprobs),
            (1.0, -1.0, 1.5, Some(3))
        );
        assert_eq!(r.logit_bias, BTreeMap::from([(7, -100.0), (9, 1.5)]));
        assert_eq!((r.overflow, r.reuse, r.conversation), (Overflow::Shift, false, 3));
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
            (r#"{"prompt":"a","stop":[""]}"#, "stop"),
            (r#"{"prompt":"a","stop":null}"#, "stop"),
            (r#"{"prompt":"a","logitsFrom":2}"#, "needs logits: true"),
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
            let error = load(&parse(json), false).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::BadOption, "{json}");
            assert!(error.message().contains(named), "{json}: {error}");
        }
    }

    #[wasm_bindgen_test]
    fn a_load() {
        let load = load(
            &parse(r#"{"model":"https://example.org/a.gguf","lane":"exact","context":64,"kernels":{"attention":"x"},"cache":false,"subgroups":false}"#),
            false,
        )
        .unwrap();
        assert!(matches!(load.source, Source::Remote(Remote::File { .. })));
        assert!(!load.page.cache && !load.options.subgroups);
        assert_eq!((load.options.lane, load.options.context), (Lane::Exact, Some(64)));
        assert_eq!(load.options.kernels, [("attention".to_owned(), "x".to_owned())]);
    }
}
