//! The findings of `millrace model`: whether a model runs, else what is missing and where it would be added.

use std::path::Path;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use millrace::base::Cancel;
use millrace::engine::{Engine, Examined, Finding, LoadOptions, examine};
use millrace::gpu::DeviceChoice;
use millrace::model;
use millrace::source::disk::open_path;
use millrace::source::{ByteSource, Files};
use pollster::block_on;
use serde_json::{Map, Value, json};

use crate::common::{bytes, data, files};
use crate::families::with_tensors;
use crate::published_configs::{self, Published};

fn look(files: &Files) -> Examined {
    block_on(examine(files, None))
}

/// A part, and whether it is fine.
fn part<'a>(found: &'a Examined, name: &str) -> &'a Finding {
    found.parts.iter().find(|part| part.part == name).unwrap_or_else(|| panic!("no {name} in {found:?}"))
}

#[test]
fn models_that_run_are_said_to() {
    let mut count = 0;
    for entry in std::fs::read_dir(data("oracle")).unwrap() {
        let folder = entry.unwrap().path();
        let models = ["model", "model.gguf"].into_iter().map(|name| folder.join(name)).filter(|path| path.exists());
        for path in models {
            let found = look(&open_path(&path).unwrap());
            assert!(found.runs && part(&found, "architecture").fine, "{}: {found:?}", path.display());
            count += 1;
        }
    }
    assert!(count > 60, "{count} models");
    let found = look(&open_path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf")).unwrap());
    assert!(
        found.runs
            && part(&found, "template").about.contains("takes questions, system prompts, tools, results of calls"),
        "{found:?}"
    );
    assert_eq!(part(&found, "calls").about, "hermes");
    // Vision towers of a known and of an unknown family: the language model runs with either.
    for (path, fine, about) in [
        ("lfm2vl-hf/model", true, "3 layers of 48, patches of 16 pixels"),
        ("lfm2vl-gguf/model.gguf", true, "512 x 512 pixels are 256 rows"),
        ("qwen35vl-gguf/model.gguf", true, "512 x 512 pixels are 256 rows"),
        ("idefics3vl-hf/model", true, "512 x 512 pixels are 40 rows"),
        ("idefics3vl-gguf/model.gguf", true, "512 x 512 pixels are 40 rows"),
        ("paddleocrvl-hf/model", true, "3 layers of 24, patches of 16 pixels: 512 x 512 pixels are 16 rows"),
        ("paddleocrvl-gguf/model.gguf", true, "512 x 512 pixels are 16 rows"),
        ("lightonocrvl-hf/model", true, "3 layers of 40, patches of 16 pixels: 512 x 512 pixels are 36 rows"),
        ("lightonocrvl-gguf/model.gguf", true, "512 x 512 pixels are 36 rows"),
        ("glmocrvl-hf/model", true, "3 layers of 24, patches of 16 pixels: 512 x 512 pixels are 16 rows"),
        ("glmocrvl-gguf/model.gguf", true, "512 x 512 pixels are 256 rows"),
        ("qwen3vl-hf/model", false, "no token <|image_pad|>"),
        ("gemma4uvl-hf/model", true, "one product of 36, patches of 16 pixels: 512 x 512 pixels are 64 rows"),
        ("gemma3vl-hf/model", true, "3 layers of 36, patches of 16 pixels: 512 x 512 pixels are 9 rows"),
    ] {
        let found = look(&open_path(&data("oracle").join(path)).unwrap());
        let pictures = part(&found, "pictures");
        assert!(found.runs && pictures.fine == fine && pictures.about.contains(about), "{path}: {found:?}");
        // GLM-OCR's layer that guesses further tokens is.
        let left_out = part(&found, "architecture").about.contains("left out");
        assert!(!fine || (pictures.place.is_none() && left_out == path.starts_with("glmocr")), "{path}: {found:?}");
    }
}

/// A folder of the oracle with changes to its files.
fn folder(change: impl Fn(&str, &mut Value)) -> Files {
    let names =
        ["config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json", "model.safetensors"];
    files(names.into_iter().map(|name| {
        let read = bytes(&format!("oracle/hf-single/model/{name}"));
        let Ok(mut json) = serde_json::from_slice::<Value>(&read) else { return (name.to_owned(), read) };
        change(name, &mut json);
        (name.to_owned(), json.to_string().into_bytes())
    }))
}

/// The findings agree with the result of loading.
#[test]
fn what_is_missing_is_named_with_its_place() {
    let config = |changes: &[(&str, Value)]| {
        let changes: Map<String, Value> =
            changes.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        folder(move |name, json| {
            if name == "config.json" {
                json.as_object_mut().unwrap().extend(changes.clone());
            }
        })
    };
    let template = |text: &str| {
        let text = text.to_owned();
        folder(move |name, json| {
            if name == "tokenizer_config.json" {
                json["chat_template"] = json!(text);
            }
        })
    };
    for (files, name, words, place) in [
        (
            config(&[("use_logn_attn", json!(true)), ("rope_ratio", json!(8))]),
            "architecture",
            "use_logn_attn, rope_ratio",
            "src/model/llama.rs",
        ),
        (
            config(&[("architectures", json!(["NobodysForCausalLM"]))]),
            "architecture",
            "NobodysForCausalLM",
            "src/model: a file of its own",
        ),
        (config(&[("num_hidden_layers", json!(7))]), "architecture", "layers.", "src/model/llama.rs"),
        (template("{{ messages | nobodys_filter }}"), "template", "nobodys_filter", "src/text/jinja.rs"),
        (template("{% if %}"), "template", "line 1", "src/text/template.rs"),
        (
            template("{% for m in messages %}{{ m.content.nobodys_method() }}{% endfor %}"),
            "template",
            "nobodys_method",
            "src/text/methods.rs",
        ),
    ] {
        let found = look(&files);
        let part = part(&found, name);
        assert!(
            !part.fine && part.about.contains(words) && part.place.is_some_and(|at| at.starts_with(place)),
            "{part:?}"
        );
        assert_eq!(found.runs, name == "template", "{found:?}");
        let options = LoadOptions { device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
        let loaded = block_on(Engine::load(&files, &options, &|_| {}, &Cancel::new()));
        assert_eq!(loaded.is_ok(), found.runs, "{part:?}");
    }
    let found = look(&files([("model.gguf".to_owned(), b"GGUF".to_vec())]));
    assert!(!found.runs && part(&found, "files").code.is_some(), "{found:?}");
}

/// A safetensors file of which only the header is there: what is behind it is zeros.
struct Header {
    bytes: Vec<u8>,
    len: u64,
}

impl Header {
    fn of(tensors: &[(String, Vec<u64>)]) -> Self {
        let mut end = 0;
        let mut entries = Map::new();
        for (name, shape) in tensors {
            let begin = end;
            end += shape.iter().product::<u64>() * 2;
            let entry = json!({ "dtype": "BF16", "shape": shape, "data_offsets": [begin, end] });
            entries.insert(name.clone(), entry);
        }
        let header = Value::Object(entries).to_string();
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
        Self { len: bytes.len() as u64 + end, bytes }
    }
}

impl ByteSource for Header {
    fn name(&self) -> &str {
        "model.safetensors"
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, millrace::Result<Vec<u8>>> {
        let there = self.bytes.iter().skip(offset as usize).take(len).copied();
        let mut read: Vec<u8> = there.collect();
        read.resize(len, 0);
        Box::pin(async move { Ok(read) })
    }
}

/// Folders with published configurations, and the headers that belong to them.
#[test]
fn published_configurations_are_said_to_run_or_why_not() {
    let (mut run, mut refused) = (0, 0);
    for Published { class, from, config, refused: word } in published_configs::all() {
        let tensors: Vec<(String, Vec<u64>)> = match (&word, class.ends_with("ForSequenceClassification")) {
            // A reranker's header also has a classifier, of which its configuration does not tell.
            (None, true) => continue,
            (None, false) => model::list(&with_tensors(config.clone(), []))
                .unwrap_or_else(|e| panic!("{class} of {from}: {e}"))
                .into_iter()
                .map(|t| (t.name, t.shape.iter().map(|n| *n as u64).collect()))
                .collect(),
            (Some(_), _) => vec![("model.norm.weight".to_owned(), vec![8])],
        };
        // Tens of thousands of tensors of single experts take long and show nothing more.
        if tensors.len() > 3000 {
            continue;
        }
        let read = |name: &str| (name.to_owned(), bytes(&format!("oracle/hf-single/model/{name}")));
        let list = json!([
            { "idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer" },
            { "idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" },
        ]);
        let pools = [("modules.json", list), ("1_Pooling/config.json", json!({ "pooling_mode_mean_tokens": true }))];
        let pools = pools.map(|(name, json)| (name.to_owned(), json.to_string().into_bytes()));
        let embeds = class.ends_with("Model") && !class.ends_with("HeadModel");
        let mut folder = files(
            [("config.json".to_owned(), Value::Object(config).to_string().into_bytes())]
                .into_iter()
                .chain(["tokenizer.json", "tokenizer_config.json"].map(read))
                .chain(pools.into_iter().filter(|_| embeds)),
        );
        folder.insert("model.safetensors".to_owned(), Rc::new(Header::of(&tensors)));
        let found = look(&folder);
        let part = part(&found, "architecture");
        match word {
            None => {
                run += 1;
                assert!(found.runs && part.fine, "{class} of {from}: {found:?}");
            }
            Some(word) => {
                refused += 1;
                let named =
                    part.about.contains(&word) && part.place.is_some_and(|place| place.starts_with("src/model"));
                assert!(!found.runs && !part.fine && named, "{class} of {from}: {found:?}");
            }
        }
    }
    assert!(run > 60 && refused > 40, "{run} run, {refused} do not");
}
