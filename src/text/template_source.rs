//! Where a checkpoint keeps its chat templates, and which of several is meant.

use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::format::gguf::{self, StringArray};
use crate::format::{Checkpoint, HfMetadata, Metadata, TokenizerFiles};

const DEFAULT: &str = "default";
/// The template that is taken instead where the caller passes tools.
const TOOL_USE: &str = "tool_use";
const KEY: &str = "chat_template";
const GGUF_KEY: &str = "tokenizer.chat_template";
const GGUF_NAMES: &str = "tokenizer.chat_templates";

/// The chat templates of a model by name; a model with one template calls it `default`.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateSource {
    templates: IndexMap<String, String>,
}

impl TemplateSource {
    /// One template, called `default`.
    pub fn single(template: impl Into<String>) -> Self {
        Self { templates: IndexMap::from([(DEFAULT.to_owned(), template.into())]) }
    }

    /// The templates of `checkpoint`; none if it has none, as base models do. `BAD_MODEL` where they are no text.
    pub fn of(checkpoint: &Checkpoint) -> Result<Option<Self>> {
        if let Some(packed) = &checkpoint.packed {
            return Ok(Self::unless_empty(packed.templates.clone()));
        }
        match (&checkpoint.metadata, &checkpoint.tokenizer_files) {
            (Metadata::Gguf(metadata), _) => Self::of_gguf(metadata),
            (Metadata::Hf(metadata), Some(files)) => Self::of_folder(metadata, files),
            (Metadata::Hf(_), None) => Ok(None),
        }
    }

    /// GGUF: `tokenizer.chat_template`, and further ones under the names that `tokenizer.chat_templates` lists.
    fn of_gguf(metadata: &gguf::Metadata) -> Result<Option<Self>> {
        let mut templates = IndexMap::new();
        if let Some(text) = metadata.opt::<&str>(GGUF_KEY)? {
            templates.insert(DEFAULT.to_owned(), text.to_owned());
        }
        if let Some(names) = metadata.opt::<&StringArray>(GGUF_NAMES)? {
            for name in names.iter().filter(|&n| n != DEFAULT) {
                templates.insert(name.to_owned(), metadata.str(&format!("{GGUF_KEY}.{name}"))?.to_owned());
            }
        }
        Ok(Self::unless_empty(templates))
    }

    /// A folder: chat_template.jinja, else chat_template.json, else tokenizer_config.json.
    fn of_folder(metadata: &HfMetadata, files: &TokenizerFiles) -> Result<Option<Self>> {
        if let Some(text) = &files.template {
            return Ok(Some(Self::single(text.clone())));
        }
        let places = [
            ("chat_template.json", files.template_json.as_ref()),
            ("tokenizer_config.json", metadata.tokenizer_config.as_ref()),
        ];
        for (file, object) in places {
            if let Some(value) = object.and_then(|o| o.get(KEY)).filter(|v| !v.is_null()) {
                return Self::from_json(value).map_err(|e| e.at(file));
            }
        }
        Ok(None)
    }

    /// A string, a list of `{"name", "template"}`, or an object of names.
    fn from_json(value: &Value) -> Result<Option<Self>> {
        let wrong =
            || Error::bad_model(format!("'{KEY}' should be a string, or a list of objects with 'name' and 'template'"));
        let text = |object: &Map<String, Value>, key: &str| {
            object.get(key).and_then(Value::as_str).map(str::to_owned).ok_or_else(wrong)
        };
        let templates = match value {
            Value::String(s) => return Ok(Some(Self::single(s.clone()))),
            Value::Array(list) => list
                .iter()
                .map(|entry| {
                    let object = entry.as_object().ok_or_else(wrong)?;
                    Ok((text(object, "name")?, text(object, "template")?))
                })
                .collect::<Result<_>>()?,
            Value::Object(object) => {
                object.keys().map(|name| Ok((name.clone(), text(object, name)?))).collect::<Result<_>>()?
            }
            _ => return Err(wrong()),
        };
        Ok(Self::unless_empty(templates))
    }

    fn unless_empty(templates: IndexMap<String, String>) -> Option<Self> {
        (!templates.is_empty()).then_some(Self { templates })
    }

    /// The template for a conversation without tools: the default one, else the first.
    pub(super) fn text(&self) -> &str {
        self.templates.get(DEFAULT).or_else(|| self.templates.values().next()).map_or("", String::as_str)
    }

    /// All templates by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.templates.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// The name of the template to take, as transformers chooses. `TEMPLATE` lists the names where neither is there.
    pub(super) fn choose(&self, with_tools: bool) -> Result<&'static str> {
        if with_tools && self.templates.contains_key(TOOL_USE) {
            return Ok(TOOL_USE);
        }
        if self.templates.contains_key(DEFAULT) {
            return Ok(DEFAULT);
        }
        let names = self.templates.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(Error::template(format!("the model has no chat template called '{DEFAULT}', only: {names}")))
    }
}
