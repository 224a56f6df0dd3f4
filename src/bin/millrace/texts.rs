//! `millrace render` and `millrace parse`: what a model's chat template makes of messages, and what its answers are
//! read as. No device is needed.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use millrace::base::Cancel;
use millrace::engine::{Prompt, Request, Texts};
use millrace::native;
use millrace::source::ModelSpec;
use millrace::text::calls::{self, Formats, Parser, Part};
use millrace::text::{ChatTemplate, SpecialTokens, TemplateSource};
use millrace::{Error, Result};
use serde_json::{Map, Value, json};

use crate::cli::{print, read_bytes, read_json, show_download};

/// The template and tokenizer to use.
#[derive(Args)]
struct Asked {
    /// builtin, or a .gguf file, a folder with safetensors, or a URL of either.
    #[arg(long)]
    model: Option<String>,
    /// A tokenizer.json for a .gguf file whose way of cutting texts is not known here, or is wrong.
    #[arg(long, value_name = "FILE", requires = "model")]
    tokenizer: Option<PathBuf>,
    /// A chat template, in place of the model's or without a model.
    #[arg(long, value_name = "FILE.jinja")]
    template: Option<PathBuf>,
    /// Further variables of the template, an object of JSON: {"enable_thinking": false}. Without a model also the
    /// tokens that it names, as bos_token.
    #[arg(long, value_name = "JSON", value_parser = object)]
    template_options: Option<Map<String, Value>>,
    /// A file with a list of tools, as OpenAI's clients give them.
    #[arg(long, value_name = "FILE.json")]
    tools: Option<PathBuf>,
}

#[derive(Args)]
pub struct Render {
    #[command(flatten)]
    asked: Asked,
    /// A file with a list of messages, {"role", "content"}; or an object with "messages" and "tools".
    #[arg(long, value_name = "FILE.json")]
    messages: PathBuf,
    /// Print the ids of its tokens, a list of JSON.
    #[arg(long, requires = "model")]
    tokens: bool,
    /// End with the last message, without the beginning of the answer.
    #[arg(long, conflicts_with = "tokens")]
    no_generation_prompt: bool,
}

#[derive(Args)]
pub struct Parse {
    #[command(flatten)]
    asked: Asked,
    /// How calls are written, in place of what the template shows: hermes, qwen3-coder, llama3, mistral, granite, phi4,
    /// smollm2, deepseek, functionary, gemma4, harmony, lfm2, glm, kimi, minimax, cohere, seed or json.
    #[arg(long, value_name = "NAME")]
    format: Option<String>,
    /// Read ids of tokens, separated by commas or spaces, in place of text.
    #[arg(long, requires = "model")]
    tokens: bool,
}

fn object(text: &str) -> std::result::Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|e| format!("should be an object of JSON: {e}"))
}

/// The messages of a file, and the tools that are with them.
pub fn messages(path: &Path) -> Result<(Value, Option<Value>)> {
    Ok(match read_json(path)? {
        Value::Object(mut object) => {
            let tools = object.remove("tools");
            (
                object
                    .remove("messages")
                    .ok_or_else(|| Error::bad_option(format!("{}: no messages in it", path.display())))?,
                tools,
            )
        }
        list => (list, None),
    })
}

/// The tools of a file.
pub fn tools(path: &Path) -> Result<Value> {
    let mut file = read_json(path)?;
    let list = if file.is_object() { file["tools"].take() } else { file };
    if calls::tools(Some(&list)).is_empty() {
        let shape = r#"{"type": "function", "function": {"name": …}}"#;
        return Err(Error::bad_option(format!("{}: should be a list of tools, each {shape}", path.display())));
    }
    Ok(list)
}

impl Asked {
    /// What the model's files say, if a model is named.
    async fn texts(&self) -> Result<Option<Texts>> {
        let Some(model) = &self.model else { return Ok(None) };
        let files = native::open_parts(&ModelSpec::parse(model)?, &|p| show_download(&p), &Cancel::new()).await?;
        let texts = Texts::open(&files, self.tokenizer.as_deref().map(read_bytes).transpose()?).await?;
        Ok(Some(match self.source()? {
            Some(source) => texts.with_template(&TemplateSource::single(source)),
            None => texts,
        }))
    }

    /// The template that was given, as it stands in its file.
    fn source(&self) -> Result<Option<String>> {
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path).map_err(|e| Error::not_found(format!("{}: {e}", path.display())))
        };
        self.template.as_ref().map(read).transpose()
    }

    /// The template that was given, of no model.
    fn alone(&self) -> Result<ChatTemplate> {
        let source =
            self.source()?.ok_or_else(|| Error::bad_option("whose template? give --model, --template or both"))?;
        ChatTemplate::new(&TemplateSource::single(source), SpecialTokens::default())
    }

    fn request(&self, messages: Value, with: Option<Value>) -> Result<Request> {
        let tools = self.tools.as_deref().map(tools).transpose()?.or(with);
        Ok(Request {
            tools,
            template: self.template_options.clone().unwrap_or_default(),
            ..Request::new(Prompt::Messages(messages))
        })
    }
}

impl Render {
    /// The text as it is, with nothing behind it but on a terminal.
    pub async fn run(&self) -> Result<()> {
        let (list, with) = messages(&self.messages)?;
        let request = self.asked.request(list.clone(), with)?;
        let texts = self.asked.texts().await?;
        if let (Some(texts), true) = (&texts, self.tokens) {
            return print(&format!("{}\n", json!(texts.tokens(&request)?)));
        }
        let render = |template: &ChatTemplate| {
            template.render(&list, request.tools.as_ref(), &request.template, !self.no_generation_prompt)
        };
        let text = texts.as_ref().map_or_else(|| render(&self.asked.alone()?), |texts| render(texts.template()?))?;
        let end = if std::io::stdout().is_terminal() { "\n" } else { "" };
        print(&format!("{text}{end}"))
    }
}

impl Parse {
    /// One object of JSON.
    pub async fn run(&self) -> Result<()> {
        let texts = self.asked.texts().await?;
        let mut parser = self.parser(texts.as_ref())?;
        let mut input = Vec::new();
        std::io::stdin().read_to_end(&mut input).map_err(|e| Error::storage(format!("stdin: {e}")))?;
        let input = String::from_utf8(input).map_err(|_| Error::bad_option("the answer is no text in UTF-8"))?;
        let parts = match &texts {
            Some(texts) if self.tokens => texts.parts(&mut parser, &ids(&input)?)?,
            Some(texts) => texts.parts_of_text(&mut parser, &input),
            None => [parser.push(&input), parser.finish()].concat(),
        };
        let mut answer = Answer::default();
        answer.add(&parts);
        let mut shown = json!({});
        answer.add_to(&mut shown);
        shown["format"] = json!(parser.format());
        shown.as_object_mut().map(|object| object.shift_remove("message"));
        print(&format!("{shown}\n"))
    }

    /// What reads the answer to some question: only a template that begins a thought itself makes a difference. Without
    /// tools each name counts.
    fn parser(&self, texts: Option<&Texts>) -> Result<Parser> {
        let request = self.asked.request(json!([{ "role": "user", "content": "?" }]), None)?;
        let source = self.asked.source()?;
        let alone = || self.asked.alone();
        let (formats, prompt) = match texts {
            Some(texts) => (texts.formats(), texts.rendered(&request).ok().and_then(|(_, text)| text)),
            None if source.is_none() && self.format.is_some() => (Formats::of("", []), None),
            None => {
                let template = alone()?;
                let Prompt::Messages(messages) = &request.prompt else { return Err(Error::internal("no messages")) };
                let source = source.as_deref().unwrap_or_default();
                (
                    Formats::of(source, []),
                    template.render(messages, request.tools.as_ref(), &request.template, true).ok(),
                )
            }
        };
        let formats = match &self.format {
            Some(name) => formats.only(name)?,
            None => formats,
        };
        let parser = Parser::new(formats, calls::tools(request.tools.as_ref()), prompt.as_deref().unwrap_or_default());
        Ok(if request.tools.is_none() { parser.with_any_tool() } else { parser })
    }
}

/// Ids of tokens, as `1,2,3`, `1 2 3` or `[1, 2, 3]`.
fn ids(text: &str) -> Result<Vec<u32>> {
    let separates = |c: char| c == ',' || c.is_whitespace() || matches!(c, '[' | ']');
    let words = text.split(separates).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| Error::bad_option(format!("'{word}' is no id of a token")))).collect()
}

/// Arguments that are JSON as what they are, others as text.
fn value(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments))
}

/// A message of the assistant that grows by parts.
#[derive(Default)]
pub struct Answer {
    content: String,
    reasoning: String,
    /// Ids, names and arguments of calls.
    calls: Vec<(Option<String>, String, String)>,
}

impl Answer {
    /// Takes parts in, and says what is to be shown of them: a call has a line of its own.
    pub fn add(&mut self, parts: &[Part]) -> String {
        let mut shown = String::new();
        for part in parts {
            match part {
                Part::Content { text } => {
                    self.content += text;
                    shown += text;
                }
                Part::Reasoning { text } => {
                    self.reasoning += text;
                    shown += text;
                }
                Part::ToolCall { id, name, .. } => {
                    self.calls.push((id.clone(), name.clone(), String::new()));
                    shown += &format!("\n{name}(");
                }
                Part::Arguments { text, .. } => {
                    if let Some(call) = self.calls.last_mut() {
                        call.2 += text;
                    }
                    shown += text;
                }
                Part::ToolCallEnd { .. } => shown += ")\n",
            }
        }
        shown
    }

    /// What it holds beside an answer's text: the message as OpenAI's shapes have it, and its parts.
    pub fn add_to(&self, object: &mut Value) {
        object["content"] = json!(self.content);
        object["reasoning"] = json!(self.reasoning);
        object["calls"] = self
            .calls
            .iter()
            .map(|(_, name, arguments)| json!({ "name": name, "arguments": value(arguments) }))
            .collect();
        object["message"] = self.message();
    }

    /// As OpenAI's shapes have it.
    fn message(&self) -> Value {
        let mut message = json!({ "role": "assistant", "content": self.content });
        if !self.reasoning.is_empty() {
            message["reasoning_content"] = json!(self.reasoning);
        }
        if !self.calls.is_empty() {
            let call = |(n, (id, name, arguments)): (usize, &(Option<String>, String, String))| {
                // Where the model gives none, one of nine digits, as Mistral's templates want them.
                let id = id.clone().unwrap_or_else(|| format!("{n:09}"));
                json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
            };
            message["tool_calls"] = self.calls.iter().enumerate().map(call).collect();
            if self.content.is_empty() {
                message["content"] = Value::Null;
            }
        }
        message
    }
}
