//! What a request forces its answer to be: a schema, an expression, choices, or calls of tools, as a grammar that the GPU walks.

use std::rc::Rc;

use serde_json::{Value, json};

use super::{Engine, Request};
use crate::base::now_ms;
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::{self, Compiled, Compiler, Constraint, Grammar, Vocabulary};

/// Grammars that an engine keeps: a page's few, again and again.
const KEPT: usize = 16;

/// Grammars of one engine, and what they are made with.
#[derive(Default)]
pub(super) struct Grammars {
    compiler: Option<Rc<dyn Compiler>>,
    vocabulary: Option<Rc<Vocabulary>>,
    /// The last ones by their descriptions, the latest last.
    kept: Vec<(String, bool, Rc<Grammar>)>,
}

impl Engine {
    /// Has grammars be compiled by this.
    pub fn compile_with(&mut self, compiler: Rc<dyn Compiler>) {
        self.grammars.compiler = Some(compiler);
    }

    /// What the answer to a request has to be, where anything is asked of it; `rendered` is the text that a template has made of its messages.
    pub(super) async fn constraint(&mut self, request: &Request, rendered: Option<&str>) -> Result<Option<(Constraint, Compiled)>> {
        let Some(description) = self.description(request, rendered)? else { return Ok(None) };
        if request.ignore_eos {
            return Err(Error::bad_option("ignoreEos: an answer that is forced into a form ends where the form does; leave it out"));
        }
        let vocabulary = self.vocabulary()?;
        let (grammar, ms) = self.grammar(description, request.lenient).await?;
        let about = grammar.about(ms);
        Ok(Some((Constraint::new(grammar, vocabulary), about)))
    }

    /// The description of what the answer has to be, for the compiler.
    fn description(&self, request: &Request, rendered: Option<&str>) -> Result<Option<Value>> {
        let asked = [
            request.schema.as_ref().map(|schema| ("schema", json!({ "schema": schema }))),
            request.regex.as_ref().map(|regex| ("regex", json!({ "regex": regex }))),
            (!request.choice.is_empty()).then(|| ("choice", json!({ "choice": request.choice }))),
        ];
        let mut asked = asked.into_iter().flatten();
        let root = asked.next();
        if let (Some((one, _)), Some((other, _))) = (&root, asked.next()) {
            return Err(Error::bad_option(format!("{one} and {other}: an answer can be forced to be one of them; leave one out")));
        }
        let _ = rendered;
        Ok(root.map(|(_, root)| root))
    }

    /// A grammar, and how long it took: 0 where it was at hand.
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
        let compiler = self.grammars.compiler.clone().ok_or_else(|| Error::new(ErrorKind::Internal, "this build has no compiler of grammars"))?;
        let grammar = Rc::new(compiler.compile(text.clone(), lenient).await?);
        let kept = &mut self.grammars.kept;
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push((text, lenient, grammar.clone()));
        Ok((grammar, now_ms() - started))
    }

    /// The model's tokens as bytes, made when they are first asked for.
    fn vocabulary(&mut self) -> Result<Rc<Vocabulary>> {
        if let Some(vocabulary) = &self.grammars.vocabulary {
            return Ok(vocabulary.clone());
        }
        let made = Rc::new(grammar::vocabulary(&self.tokenizer, self.session.model().config().vocab, self.tokenizer.eos_ids())?);
        self.grammars.vocabulary = Some(made.clone());
        Ok(made)
    }
}
