//! Examines a model part by part, and whether it runs here; an error of one part does not hide those of the next. Needs
//! headers and configuration, but neither weights nor a device.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::describe;
use super::pictures::Sight;
use crate::error::{Error, Result};
use crate::format::{Checkpoint, Metadata};
use crate::layout::BufferId;
use crate::model::vision::is_tower;
use crate::model::{self, AskedPooling, ModelConfig, Reserve};
use crate::source::Files;
use crate::text::{ChatTemplate, Tokenizer};

/// A part of a model, as far as this version knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// `files`, `architecture`, `tokenizer`, `template`, `calls`, or `pictures` where the model has a vision tower.
    pub part: &'static str,
    /// Whether the part is as it should be. A model that does not chat has no template, which is no fault.
    pub fine: bool,
    /// The description of the part, or of the fault.
    pub about: String,
    /// The code of the error, where there is one.
    pub code: Option<&'static str>,
    /// Where in this repository the fault would be fixed, or the unknown format of calls added.
    pub place: Option<&'static str>,
}

/// The findings.
#[derive(Debug, Clone, Serialize)]
pub struct Examined {
    /// Whether the model can be loaded, as far as that can be told without its weights and a device.
    pub runs: bool,
    /// The model's parts, in the order in which they are needed.
    pub parts: Vec<Finding>,
}

impl Examined {
    fn fine(&mut self, part: &'static str, about: String) {
        self.parts.push(Finding { part, fine: true, about, code: None, place: None });
    }

    fn wrong(&mut self, part: &'static str, error: &Error, place: &'static str) {
        self.parts.push(Finding {
            part,
            fine: false,
            about: error.message().to_owned(),
            code: Some(error.code()),
            place: Some(place),
        });
        // Without a usable template a model still continues plain text, and without pictures it reads text.
        self.runs &= matches!(part, "template" | "calls" | "pictures");
    }
}

/// Examines a model's files. `tokenizer_json`: in place of the tokenizer of a GGUF file.
pub async fn examine(files: &Files, tokenizer_json: Option<Vec<u8>>) -> Examined {
    let mut found = Examined { runs: true, parts: Vec::new() };
    let checkpoint = match Checkpoint::open(files).await {
        Ok(checkpoint) => checkpoint.with_tokenizer(tokenizer_json),
        Err(e) => {
            // The messages of the GGUF and the safetensors reader for an unknown tensor type.
            let of_type = ["has GGML type", "has type"].iter().any(|words| e.message().contains(words));
            let place = if of_type { "crates/core/src/blocks" } else { "src/format" };
            found.wrong("files", &e, place);
            return found;
        }
    };
    let all = files;
    let form = match &checkpoint.metadata {
        Metadata::Gguf(_) => "GGUF",
        Metadata::Hf(_) => "a folder with safetensors",
    };
    let files = checkpoint.files.len();
    found.fine(
        "files",
        format!("{form}, {} tensors in {files} file{}", checkpoint.tensors.len(), if files == 1 { "" } else { "s" }),
    );
    let config = match architecture(&checkpoint) {
        Ok((about, config)) => {
            found.fine("architecture", about);
            Some(config)
        }
        Err(e) => {
            found.wrong("architecture", &e, model::place_of(&checkpoint));
            None
        }
    };
    let tokenizer = match Tokenizer::open(&checkpoint) {
        Ok(tokenizer) => tokenizer,
        Err(e) => {
            let place = match &checkpoint.metadata {
                Metadata::Gguf(_) if e.message().contains("tokenizer.ggml.pre") => "src/text/pre.rs",
                Metadata::Gguf(_) => "src/text/gguf.rs",
                Metadata::Hf(_) => "src/text/hf.rs",
            };
            found.wrong("tokenizer", &e, place);
            return found;
        }
    };
    let strays = tokenizer.warnings().iter().map(|warning| format!("; {warning}")).collect::<String>();
    found.fine(
        "tokenizer",
        format!("{} tokens, {} of them end an answer{strays}", tokenizer.vocab_size(), tokenizer.eos_ids().len()),
    );
    match ChatTemplate::open(&checkpoint, &tokenizer) {
        Ok(template) => talk(&mut found, &template, &tokenizer),
        Err(e) if e.message().contains("has no chat template") => {
            found.fine("template", "none: it continues plain text".to_owned())
        }
        Err(e) => found.wrong("template", &e, "src/text/template.rs"),
    }
    match Sight::of(all, &checkpoint, config.as_ref(), &tokenizer).await {
        Ok(Some(sight)) => found.fine("pictures", sight.about()),
        Ok(None) => (),
        Err(e) => found.wrong("pictures", &e, "src/model/vision"),
    }
    found
}

/// A description of the architecture and its tensors with their types, and the configuration.
fn architecture(checkpoint: &Checkpoint) -> Result<(String, ModelConfig)> {
    let mut buffers = 0;
    let mut reserve = |_: String, _: u64| {
        buffers += 1;
        BufferId(buffers - 1)
    };
    let mut reserve =
        Reserve { max_binding: u64::MAX, quantize: None, pooling: AskedPooling::Auto, buffer: &mut reserve };
    let model = model::open(checkpoint, &mut reserve)?;
    let about = describe(checkpoint, model.as_ref(), false)?;
    let types: Vec<String> = about.types.iter().map(|(name, count)| format!("{name} x {count}")).collect();
    let converted: Vec<String> =
        about.converted.iter().map(|c| format!("; {} is converted to {}", c.from, c.to)).collect();
    let left: Vec<String> = about
        .left_out
        .iter()
        .filter(|left| !is_tower(&left.what))
        .map(|left| format!("; {} x {} is left out", left.what, left.tensors))
        .collect();
    let about = format!(
        "{}, {} layers, {:.1} M parameters, {} positions; {}{}{}",
        about.architecture,
        about.layers,
        about.parameters as f64 / 1e6,
        about.context,
        types.join(", "),
        converted.concat(),
        left.concat()
    );
    Ok((about, model.config().clone()))
}

/// Renders the template with a question, a system prompt, tools, and a call with its result.
fn talk(found: &mut Examined, template: &ChatTemplate, tokenizer: &Tokenizer) {
    let question = json!({ "role": "user", "content": "Hello?" });
    let system = json!({ "role": "system", "content": "Be brief." });
    let tools = json!([{ "type": "function", "function": { "name": "now", "description": "The time.", "parameters": { "type": "object", "properties": {} } } }]);
    let call = json!({ "role": "assistant", "content": "", "tool_calls": [{ "id": "abcdefghi", "type": "function", "function": { "name": "now", "arguments": {} } }] });
    let result = json!({ "role": "tool", "tool_call_id": "abcdefghi", "name": "now", "content": "noon" });
    let render = |messages: Value, tools: Option<&Value>| template.render(&messages, tools, &Map::new(), true);
    let plain = match render(json!([question]), None) {
        Ok(plain) => plain,
        Err(e) => return found.wrong("template", &e, template_place(&e)),
    };
    let mut takes = vec!["questions"];
    for (what, rendered) in [
        ("system prompts", render(json!([system, question]), None)),
        ("tools", render(json!([question]), Some(&tools))),
        ("results of calls", render(json!([question, call, result]), Some(&tools))),
    ] {
        match rendered {
            Ok(text) if what != "tools" || text != plain => takes.push(what),
            Ok(_) => (),
            // A template may refuse what its model was not trained for.
            Err(e) if e.message().contains("refuses the conversation") => (),
            Err(e) => return found.wrong("template", &e, template_place(&e)),
        }
    }
    let thinks = if template.opens_thought() { "; answers begin with a thought" } else { "" };
    found.fine("template", format!("takes {}{thinks}", takes.join(", ")));
    let name = template.formats(tokenizer).name();
    if takes.contains(&"tools") && name == "json" {
        let about = "calls have no mark that is known: they are read as plain JSON; another format would be a file in src/text/calls/formats".to_owned();
        found.parts.push(Finding {
            part: "calls",
            fine: true,
            about,
            code: None,
            place: Some("src/text/calls/formats"),
        });
    } else if takes.contains(&"tools") {
        found.fine("calls", name.to_owned());
    }
}

/// Where in this repository the feature that a template lacks would be added.
fn template_place(error: &Error) -> &'static str {
    let message = error.message();
    match () {
        () if ["unknown filter", "unknown test", "unknown function"].iter().any(|what| message.contains(what)) => {
            "src/text/jinja.rs"
        }
        () if message.contains("unknown method") => "src/text/methods.rs",
        () if message.contains("strftime") => "src/text/clock.rs",
        () => "src/text/template.rs",
    }
}
