//! Constrained answers: a request's schema, regular expression, choices or tool calls, as a grammar that the GPU walks.

use std::rc::Rc;

use serde_json::{Value, json};

use super::{Engine, Request};
use crate::base::now_ms;
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::{self, Compiled, Compiler, Constraint, Grammar, Vocabulary};
use crate::text::calls::grammar::{Choice, Wanted};
use crate::text::calls::{self, Formats};

/// Most grammars that an engine keeps: a page uses a few, again and again.
const KEPT: usize = 16;

/// The compiled grammars of one engine, with its compiler and vocabulary.
#[derive(Default)]
pub(super) struct Grammars {
    compiler: Option<Rc<dyn Compiler>>,
    vocabulary: Option<Rc<Vocabulary>>,
    /// The latest grammars by description and leniency, the latest last.
    kept: Vec<(String, bool, Rc<Grammar>)>,
}

impl Engine {
    /// Sets the compiler of grammars.
    pub fn compile_with(&mut self, compiler: Rc<dyn Compiler>) {
        self.grammars.compiler = Some(compiler);
    }

    /// The constraint of a request's answer, if it has one; `rendered` is the text that a template has made of its
    /// messages.
    pub(super) async fn constraint(
        &mut self,
        request: &Request,
        rendered: Option<&str>,
    ) -> Result<Option<(Constraint, Compiled)>> {
        let Some(description) = self.description(request, rendered)? else { return Ok(None) };
        if request.ignore_eos {
            return Err(Error::bad_option(
                "ignoreEos: an answer that is forced into a form ends where the form does; leave it out",
            ));
        }
        let vocabulary = self.vocabulary()?;
        let (grammar, ms) = self.grammar(description, request.lenient).await?;
        let about = grammar.about(ms);
        Ok(Some((Constraint::new(grammar, vocabulary), about)))
    }

    /// The constraint's description for the compiler.
    fn description(&self, request: &Request, rendered: Option<&str>) -> Result<Option<Value>> {
        let asked = [
            request.schema.as_ref().map(|schema| ("schema", json!({ "schema": schema }))),
            request.regex.as_ref().map(|regex| ("regex", json!({ "regex": regex }))),
            (!request.choice.is_empty()).then(|| ("choice", json!({ "choice": request.choice }))),
        ];
        let mut asked = asked.into_iter().flatten();
        let root = asked.next();
        if let (Some((one, _)), Some((other, _))) = (&root, asked.next()) {
            return Err(Error::bad_option(format!(
                "{one} and {other}: an answer can be forced to be one of them; leave one out"
            )));
        }
        let root = root.map(|(_, root)| root);
        let tokenizer = &self.tokenizer;
        let is_control = |text: &str| tokenizer.token_id(text).is_some_and(|id| tokenizer.special_name(id).is_some());
        let choice = match request.tool_choice.as_str() {
            "auto" => Choice::Auto,
            "none" => Choice::None,
            "required" => Choice::Required,
            name => Choice::Named(name),
        };
        let Some(prompt) = rendered else {
            // A plain text prompt has no tools, and its answer no thoughts.
            return match choice {
                Choice::Required | Choice::Named(_) => {
                    Err(Error::bad_option("toolChoice goes with messages and tools"))
                }
                Choice::Auto | Choice::None => Ok(root),
            };
        };
        let tools = calls::tools(request.offered());
        let wanted = Wanted { tools: &tools, choice, parallel: request.parallel_tool_calls, prompt };
        match (root, choice) {
            (Some(_), Choice::Required | Choice::Named(_)) => Err(Error::bad_option(
                "toolChoice: an answer that has to be a call cannot also be forced into another form; leave one of both out",
            )),
            (Some(root), Choice::Auto) if !tools.is_empty() => {
                self.formats.calls_or_answer_grammar(&wanted, root, &is_control).map(Some)
            }
            (Some(root), _) => Ok(Some(self.formats.answer_grammar(root, prompt, &is_control))),
            (None, _) => self.formats.calls_grammar(&wanted, &is_control),
        }
    }

    /// The formats in which an answer's calls are parsed: forced calls only in the format that they are forced into.
    pub(super) fn read_as(&self, request: &Request, forced: bool) -> Formats {
        if forced && request.offered().is_some() { self.formats.bound() } else { self.formats.clone() }
    }

    /// A compiled grammar, and the time of its compilation, ms: 0 where it was cached.
    async fn grammar(&mut self, description: Value, lenient: bool) -> Result<(Rc<Grammar>, f64)> {
        let text = description.to_string();
        let kept = &mut self.grammars.kept;
        if let Some(at) = kept.iter().position(|(of, how, _)| *of == text && *how == lenient) {
            let found = kept.remove(at);
            let grammar = found.2.clone();
            kept.push(found);
            return Ok((grammar, 0.0));
        }
        let started = now_ms();
        let compiler = self
            .grammars
            .compiler
            .clone()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "this build has no compiler of grammars"))?;
        let grammar = Rc::new(compiler.compile(text.clone(), lenient).await?);
        let kept = &mut self.grammars.kept;
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((text, lenient, grammar.clone()));
        Ok((grammar, now_ms() - started))
    }

    /// The model's tokens as bytes, made at the first call.
    fn vocabulary(&mut self) -> Result<Rc<Vocabulary>> {
        if let Some(vocabulary) = &self.grammars.vocabulary {
            return Ok(vocabulary.clone());
        }
        let made = Rc::new(grammar::vocabulary(
            &self.tokenizer,
            self.session.model().config().vocab,
            self.tokenizer.eos_ids(),
        )?);
        self.grammars.vocabulary = Some(made.clone());
        Ok(made)
    }
}
