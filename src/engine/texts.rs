//! Conversion between texts and tokens by a model's tokenizer and chat template, without its weights or a device.

use std::rc::Rc;

use serde_json::Value;

use super::pictures::{Seen, Shown, Sight, usable_sight};
use super::request::{Prompt, Request, Spelled};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::source::Files;
use crate::state::Input;
use crate::text::calls::{self, Formats, Parser, Part, check_names};
use crate::text::{ChatTemplate, TemplateSource, Tokenizer, pictures};

/// Converts texts and conversations into tokens, and tokens into text.
pub struct Texts {
    tokenizer: Rc<Tokenizer>,
    template: Rc<Result<ChatTemplate>>,
    sight: Seen,
}

impl Texts {
    pub(super) fn new(tokenizer: Rc<Tokenizer>, template: Rc<Result<ChatTemplate>>, sight: Seen) -> Self {
        Self { tokenizer, template, sight }
    }

    /// Opens tokenizer and template of a model's files. `tokenizer_json`: in place of the tokenizer of a GGUF file.
    pub async fn open(files: &Files, tokenizer_json: Option<Vec<u8>>) -> Result<Self> {
        let checkpoint = Checkpoint::open(files).await?.with_tokenizer(tokenizer_json);
        let tokenizer = Tokenizer::open(&checkpoint)?;
        let template = ChatTemplate::open(&checkpoint, &tokenizer);
        let sight = Sight::of(files, &checkpoint, None, &tokenizer).await;
        Ok(Self::new(Rc::new(tokenizer), Rc::new(template), Rc::new(sight)))
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The chat template.
    ///
    /// # Errors
    /// `TEMPLATE` where the model has no template, or one that does not parse.
    pub fn template(&self) -> Result<&ChatTemplate> {
        usable(&self.template)
    }

    /// The token ids of a request's prompt.
    pub fn tokens(&self, request: &Request) -> Result<Vec<u32>> {
        Ok(self.rendered(request)?.0)
    }

    /// The token ids of a request's prompt, and of messages the text that the chat template makes of them.
    pub fn rendered(&self, request: &Request) -> Result<(Vec<u32>, Option<String>)> {
        let Rendered { input, text, .. } = rendered_prompt(&self.tokenizer, &self.template, &self.sight, request)?;
        Ok((input.ids().to_vec(), text))
    }

    /// Rows of a prompt that a picture of `width` x `height` pixels takes, with the tokens around it.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where the model does not read pictures, `BAD_OPTION` where it does not read one of this
    /// size.
    pub fn picture_tokens(&self, width: u32, height: u32) -> Result<u64> {
        let sight = usable_sight(&self.sight)?;
        let cut = sight.cut(width, height)?;
        // Each crop has one placeholder token among these, which its rows replace.
        let ids = self.tokenizer.encode(&sight.words(&cut), false)?;
        Ok(ids.len() as u64 - cut.crops.len() as u64 + cut.prompt_rows())
    }

    /// Replaces the chat template.
    #[must_use]
    pub fn with_template(mut self, source: &TemplateSource) -> Self {
        self.template = Rc::new(ChatTemplate::of(source, &self.tokenizer));
        self
    }

    /// Parses an answer of these tokens into parts.
    pub fn parts(&self, parser: &mut Parser, ids: &[u32]) -> Result<Vec<Part>> {
        let mut decoder = self.tokenizer.stream();
        let mut parts = Vec::new();
        for id in ids {
            match self.tokenizer.special_name(*id) {
                Some(_) if self.tokenizer.eos_ids().contains(id) => break,
                Some(name) => parts.extend(parser.special(name)),
                None => parts.extend(parser.push(&decoder.push(*id)?)),
            }
        }
        parts.extend(parser.push(&decoder.finish()?));
        parts.extend(parser.finish());
        Ok(parts)
    }

    /// Parses an answer's text, with special tokens by their names, into parts.
    pub fn parts_of_text(&self, parser: &mut Parser, text: &str) -> Vec<Part> {
        let names: Vec<(&str, u32)> = self
            .tokenizer
            .special_names()
            .filter(|name| !name.is_empty())
            .filter_map(|name| Some((name, self.tokenizer.token_id(name)?)))
            .collect();
        let mut parts = Vec::new();
        let mut rest = text;
        loop {
            // The first name in the text; of two at one position the longer one.
            let places = names.iter().filter_map(|(name, id)| Some((rest.find(name)?, *name, *id)));
            let Some((at, name, id)) = places.min_by_key(|(at, name, _)| (*at, usize::MAX - name.len())) else { break };
            parts.extend(parser.push(&rest[..at]));
            if self.tokenizer.eos_ids().contains(&id) {
                rest = "";
                break;
            }
            parts.extend(parser.special(name));
            rest = &rest[at + name.len()..];
        }
        parts.extend(parser.push(rest));
        parts.extend(parser.finish());
        parts
    }

    /// The model's formats of calls and thoughts.
    pub fn formats(&self) -> Formats {
        formats(&self.template, &self.tokenizer)
    }

    /// The text of tokens, special ones by their names. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// `TOKENIZER` for an id that the model does not have.
    pub fn text(&self, ids: &[u32]) -> Result<String> {
        ids.iter().try_for_each(|id| self.tokenizer.check_id(*id))?;
        let bytes: Vec<u8> = ids.iter().flat_map(|id| self.tokenizer.bytes(*id)).copied().collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A model's formats of calls and thoughts, as its template and special tokens show them.
pub(super) fn formats(template: &Result<ChatTemplate>, tokenizer: &Tokenizer) -> Formats {
    template.as_ref().map_or_else(|_| Formats::of("", []), |template| template.formats(tokenizer))
}

fn usable(template: &Result<ChatTemplate>) -> Result<&ChatTemplate> {
    template.as_ref().map_err(|e| Error::new(e.kind(), e.message()))
}

/// A request's prompt as input.
pub(super) struct Rendered {
    pub input: Input,
    /// The text that the chat template makes of messages; `None` for other prompts.
    pub text: Option<String>,
    pub shown: Vec<Shown>,
}

/// Renders a request's prompt, with its pictures as rows without values yet.
pub(super) fn rendered_prompt(
    tokenizer: &Tokenizer,
    template: &Result<ChatTemplate>,
    sight: &Seen,
    request: &Request,
) -> Result<Rendered> {
    let of_messages = if let Prompt::Messages(messages) = &request.prompt { pictures::count(messages) } else { 0 };
    if of_messages != request.pictures.len() {
        return Err(Error::bad_option(format!(
            "the messages have {of_messages} parts that are pictures, and {} pictures were given",
            request.pictures.len()
        )));
    }
    let (input, text, shown) = match &request.prompt {
        Prompt::Input(input) => (input.clone(), None, Vec::new()),
        Prompt::Tokens(ids) => (ids.as_slice().into(), None, Vec::new()),
        Prompt::Text(text) => (tokenizer.encode(text, true)?.into(), None, Vec::new()),
        Prompt::Messages(messages) => {
            let (template, tools) = (usable(template)?, request.offered());
            check_names(&calls::tools(tools))?;
            let render = |messages: &Value| match request.special_tokens {
                Spelled::Text => template.render_guarded(messages, tools, &request.template, true),
                Spelled::Parse => template.render_unguarded(messages, tools, &request.template),
            };
            if of_messages == 0 {
                let prompt = render(messages)?;
                (tokenizer.encode_guarded(&prompt)?.into(), Some(prompt.text().into_owned()), Vec::new())
            } else {
                let sight = usable_sight(sight)?;
                let shown = sight.show(&request.pictures)?;
                let words: Vec<String> = shown.iter().map(|shown| sight.words(&shown.cut)).collect();
                let prompt = pictures::render(messages, &words, sight.printed(), render)?;
                (sight.expand(&tokenizer.encode_guarded(&prompt)?, &shown)?, Some(prompt.text().into_owned()), shown)
            }
        }
    };
    if input.is_empty() {
        Err(Error::bad_option("the prompt is empty; give at least one token"))
    } else {
        Ok(Rendered { input, text, shown })
    }
}
