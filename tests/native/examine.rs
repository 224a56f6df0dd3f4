//! The findings of `millrace model`: whether a model runs, else what is missing and where it would be added.

use std::path::Path;

use millrace::base::Cancel;
use millrace::engine::{Engine, Examined, Finding, LoadOptions, examine};
use millrace::gpu::DeviceChoice;
use millrace::source::Files;
use millrace::source::disk::open_path;
use pollster::block_on;
use serde_json::{Map, Value, json};

use crate::common::{bytes, data, files};

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
        ("qwen3vl-hf/model", false, "no token <|image_pad|>"),
        ("gemma4uvl-hf/model", true, "one product of 36, patches of 16 pixels: 512 x 512 pixels are 64 rows"),
        ("gemma3vl-hf/model", true, "3 layers of 36, patches of 16 pixels: 512 x 512 pixels are 9 rows"),
    ] {
        let found = look(&open_path(&data("oracle").join(path)).unwrap());
        let pictures = part(&found, "pictures");
        assert!(found.runs && pictures.fine == fine && pictures.about.contains(about), "{path}: {found:?}");
        assert!(
            fine == pictures.place.is_none() && !part(&found, "architecture").about.contains("left out") || !fine,
            "{path}: {found:?}"
        );
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
