//! One request's answer: from the prompt to the pieces of text, over losses of the device and of a full context.

use std::cell::RefCell;

use super::recover::Losses;
use super::{
    Delta, Engine, Event, FinishReason, Generation, GenerationCounters, Overflow, Prompt, Request, Scored, StopScanner, TokenLogprobs, rendered_prompt,
};
use crate::base::options::Options as _;
use crate::base::{Cancel, Phase, Progress, now_ms};
use crate::decode::{self, Extras, Logprobs, Outcome, Run, Timings};
use crate::error::{Error, ErrorKind, Result};
use crate::sample::{Sampling, SamplingOptions};
use crate::state::SequenceId;
use crate::text::calls::{self, Parser, Part};
use crate::text::{StreamDecoder, Tokenizer};

impl Engine {
    /// Answers one request; `on_event` hears of each piece as it arrives. Cancelling ends it with what there is and [`FinishReason::Abort`].
    ///
    /// Where the device is lost on the way, the model is loaded again onto another and the answer goes on from where it was, with the same text;
    /// a second loss within a minute is an error, [`ErrorKind::DeviceLost`].
    pub async fn generate(&mut self, request: &Request, on_event: &mut dyn FnMut(Event<'_>), cancel: &Cancel) -> Result<Generation> {
        request.check()?;
        let on_event = RefCell::new(on_event);
        let on_event = |event: Event<'_>| (on_event.borrow_mut())(event);
        let progress = |progress| on_event(Event::Progress(progress));
        let mut losses = Losses::default();
        if let Some(lost) = self.lost() {
            match self.survive(lost, &mut losses, &progress, cancel).await {
                // Ends below with nothing.
                Err(e) if e.kind() == ErrorKind::Aborted => (),
                recovered => recovered?,
            }
        }
        let sequence = SequenceId(request.conversation);
        let (mut prompt, rendered) = rendered_prompt(&self.tokenizer, &self.template, request)?;
        let context = self.session.context();
        let kept = if request.overflow == Overflow::Shift { self.kept(request, &prompt)? } else { 0 };
        let mut shifts = 0;
        if prompt.len() as u32 >= context {
            if request.overflow == Overflow::Error || kept + 2 > context as usize {
                return Err(Error::new(
                    ErrorKind::ContextFull,
                    format!(
                        "the prompt has {} tokens, the context {context}, which leaves no room for an answer; shorten the prompt or load with a larger context",
                        prompt.len()
                    ),
                ));
            }
            prompt = shifted(&prompt, kept, context as usize);
            shifts += 1;
        }
        let seed = match request.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let stop = if request.ignore_eos { Vec::new() } else { self.tokenizer.eos_ids().to_vec() };
        let wanted = SamplingOptions { seed, ..request.sampling() };
        let bias = self.bias(request)?;
        let sampling = Sampling::new(&wanted, &stop, decode::RING)?;
        let (logits, all_logits) = loop {
            match self.score(request, &prompt, cancel).await {
                Err(e) => self.survive(e, &mut losses, &progress, cancel).await?,
                Ok(scores) => break scores,
            }
        };

        let (mut constraint, grammar) = self.constraint(request, rendered.as_deref()).await?.unzip();
        let tokenizer = self.tokenizer.clone();
        let reading = rendered.map(|prompt| Parser::new(self.read_as(request, constraint.is_some()), calls::tools(request.offered()), &prompt));
        let mut out = Output {
            reading,
            decoder: tokenizer.stream(),
            scanner: StopScanner::new(&request.stop),
            text: String::new(),
            failure: None,
            stop: &stop,
            tokenizer: &tokenizer,
            logprobs: request.logprobs.map(|_| Vec::new()),
            on_event: &on_event,
        };
        let prompt_tokens = prompt.len();
        let mut outcome = Outcome::default();
        let mut resumed = false;
        loop {
            let room = context - prompt.len() as u32;
            let wanted = request.max_tokens.unwrap_or(u32::MAX) - outcome.tokens.len() as u32;
            // Where positions beyond are rotated otherwise, everything is read again before they are.
            let reach = self.session.model().config().original_context().and_then(|original| (original + 1).checked_sub(prompt.len() as u32));
            let limit = wanted.min(room).min(reach.filter(|n| *n > 0).unwrap_or(u32::MAX));
            let extras = Extras { bias: &bias, answered: outcome.tokens.len(), logprobs: request.logprobs.is_some() };
            let chunk = self.options.chunk;
            let run = Run { sequence, prompt: &prompt, sampling, limit, afresh: !request.reuse, resumed, extras, constraint: constraint.as_mut(), chunk };
            let started = now_ms();
            let part = match self.session.generate(run, cancel, &mut |step| out.hear(step)).await {
                Err(e) if e.kind() == ErrorKind::Aborted => break,
                Err(e) => {
                    // What had come goes on as if nothing had been in between.
                    if let Some(part) = self.session.take_interrupted() {
                        prompt.extend_from_slice(&part.tokens);
                        outcome = outcome.and(losses.charged(part));
                        resumed = true;
                    } else {
                        losses.ms += now_ms() - started;
                    }
                    if cancel.is_cancelled() || outcome.tokens.last().is_some_and(|id| stop.contains(id)) {
                        break;
                    }
                    match self.survive(e, &mut losses, &progress, cancel).await {
                        Err(e) if e.kind() == ErrorKind::Aborted => break,
                        recovered => recovered?,
                    }
                    losses.charge(&mut outcome);
                    continue;
                }
                Ok(part) => losses.charged(part),
            };
            resumed = false;
            let stretched = part.tokens.len() as u32 == limit && limit < wanted.min(room);
            let full = part.tokens.len() as u32 == room && wanted > room;
            let ended = out.stopped() || out.failure.is_some() || part.tokens.last().is_some_and(|id| stop.contains(id));
            prompt.extend_from_slice(&part.tokens);
            outcome = outcome.and(part);
            if stretched && !ended && !cancel.is_cancelled() {
                continue;
            }
            if !full || ended || cancel.is_cancelled() || request.overflow == Overflow::Error {
                break;
            }
            prompt = shifted(&prompt, kept, context as usize);
            shifts += 1;
        }
        out.finish()?;
        let ended = out.stopped() || outcome.tokens.last().is_some_and(|id| stop.contains(id));
        let finish_reason = if ended {
            FinishReason::Stop
        } else if cancel.is_cancelled() {
            FinishReason::Abort
        } else {
            FinishReason::Length
        };
        let (text, logprobs) = (out.text, out.logprobs);
        let profile = match request.profile {
            true => {
                let position = (prompt.len() as u32).min(context - 1);
                loop {
                    match self.profile(position).await {
                        Err(e) => self.survive(e, &mut losses, &progress, cancel).await?,
                        Ok(rows) => break Some(rows),
                    }
                }
            }
            false => None,
        };
        Ok(Generation {
            text,
            tokens: outcome.tokens,
            logprobs,
            prompt_tokens,
            cached_tokens: outcome.known,
            shifts,
            recoveries: losses.count,
            finish_reason,
            seed,
            grammar,
            timings: Timings { load_ms: self.load_ms, ..outcome.timings },
            counters: GenerationCounters::new(outcome.counters, outcome.prefill_submits),
            adapter: self.session.gpu().caps().into(),
            plan: self.plan_name(),
            profile,
            logits,
            all_logits,
        })
    }

    /// The bias of a request, where it can be applied.
    fn bias(&self, request: &Request) -> Result<Vec<(u32, f32)>> {
        let vocab = self.session.model().config().vocab;
        for id in request.logit_bias.keys() {
            if *id as usize >= vocab {
                return Err(Error::bad_option(format!("logitBias names token {id}, but the model has only {vocab}")));
            }
        }
        Ok(request.logit_bias.iter().map(|(id, bias)| (*id, *bias)).collect())
    }

    /// How many tokens of the prompt a shift keeps at its beginning: of messages what comes before the first user's text, otherwise the first token.
    fn kept(&self, request: &Request, prompt: &[u32]) -> Result<usize> {
        let Prompt::Messages(serde_json::Value::Array(messages)) = &request.prompt else { return Ok(1) };
        let system: Vec<_> = messages.iter().take_while(|m| matches!(m["role"].as_str(), Some("system" | "developer"))).cloned().collect();
        // Where two conversations with the same beginning part.
        let with = |text: &str| {
            let user = serde_json::json!({ "role": "user", "content": text });
            let messages = serde_json::Value::Array(system.iter().cloned().chain([user]).collect());
            self.prompt_tokens(&Request {
                prompt: Prompt::Messages(messages),
                tools: request.tools.clone(),
                template: request.template.clone(),
                ..Request::new(Prompt::Tokens(Vec::new()))
            })
        };
        let (a, b) = (with("a")?, with("b")?);
        Ok(a.iter().zip(&b).zip(prompt).take_while(|((a, b), p)| a == b && b == p).count().max(1))
    }

    /// Logits of the prompt's positions, where asked for: up to `logits_from` by prefill, the later ones by the decode step.
    async fn score(&mut self, request: &Request, prompt: &[u32], cancel: &Cancel) -> Result<(Option<Vec<f32>>, Option<Vec<Vec<f32>>>)> {
        let sequence = SequenceId(request.conversation);
        if let Some(from) = request.logits_from {
            let from = from as usize;
            if from >= prompt.len() {
                return Err(Error::bad_option(format!("logits from position {from}, but the prompt has only {} tokens", prompt.len())));
            }
            self.session.prefill(sequence, &prompt[..=from], 0, cancel).await?;
            let mut all = vec![self.session.logits().await?];
            for (i, token) in prompt.iter().enumerate().skip(from + 1) {
                cancel.check()?;
                // A position's logits are those of the text up to it: beyond an original context all of it is read again.
                if self.session.is_long(i as u32 + 1) != self.session.is_long(i as u32) {
                    self.session.prefill(sequence, &prompt[..=i], 0, cancel).await?;
                    all.push(self.session.logits().await?);
                } else {
                    all.push(self.session.feed(sequence, *token, i as u32).await?);
                }
            }
            return Ok((all.last().cloned(), Some(all)));
        }
        if request.logits {
            self.session.prefill(sequence, prompt, 0, cancel).await?;
            return Ok((Some(self.session.logits().await?), None));
        }
        Ok((None, None))
    }
}

/// The first `kept` ids and the younger half of the others that `context` positions can hold.
fn shifted(ids: &[u32], kept: usize, context: usize) -> Vec<u32> {
    let younger = (context - kept).div_ceil(2);
    [&ids[..kept], &ids[ids.len() - younger.min(ids.len() - kept)..]].concat()
}

/// The text side of a running generation.
struct Output<'a> {
    /// Tells an answer to messages apart.
    reading: Option<Parser>,
    decoder: StreamDecoder,
    scanner: StopScanner,
    text: String,
    failure: Option<Error>,
    stop: &'a [u32],
    tokenizer: &'a Tokenizer,
    /// Those of all tokens, where they are asked for.
    logprobs: Option<Vec<TokenLogprobs>>,
    on_event: &'a dyn Fn(Event<'_>),
}

impl Output<'_> {
    /// Hears what the session does; false ends the generation.
    fn hear(&mut self, step: decode::Progress<'_>) -> bool {
        match step {
            decode::Progress::Tokens { ids, logprobs } => return self.push(ids, logprobs),
            decode::Progress::Read { read, total } => (self.on_event)(Event::Progress(Progress::new(Phase::Prompt, read as u64, total as u64))),
        }
        true
    }

    /// Takes new ids; false ends the generation.
    fn push(&mut self, ids: &[u32], logprobs: &[Logprobs]) -> bool {
        let mut piece = String::new();
        let (mut text, mut parts) = (String::new(), Vec::new());
        for id in ids.iter().take_while(|id| !self.stop.contains(id)) {
            if let (Some(name), true) = (self.tokenizer.special_name(*id), self.reading.is_some()) {
                // What stands before it comes first: it ends what may have become a stop text.
                let before = self.scanner.push(&std::mem::take(&mut piece)) + &self.scanner.finish();
                parts.extend(self.read(&before));
                text.push_str(&before);
                let stopped = self.stopped();
                parts.extend(self.reading.as_mut().filter(|_| !stopped).map_or_else(Vec::new, |reading| reading.special(name)));
                continue;
            }
            match self.decoder.push(*id) {
                Ok(text) => piece.push_str(&text),
                Err(e) => {
                    self.failure = Some(e);
                    return false;
                }
            }
        }
        let rest = self.scanner.push(&piece);
        parts.extend(self.read(&rest));
        text.push_str(&rest);
        let of_text = ids.iter().zip(logprobs).take_while(|(id, _)| !self.stop.contains(id));
        let logprobs = of_text.map(|(id, logprobs)| self.scored(*id, logprobs)).collect();
        self.emit(Delta { text, tokens: ids.to_vec(), logprobs, parts });
        !self.stopped()
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(e) = self.failure.take() {
            return Err(e);
        }
        let mut text = String::new();
        if !self.stopped() {
            let rest = self.decoder.finish()?;
            text = self.scanner.push(&rest);
            text.push_str(&self.scanner.finish());
        }
        let mut parts = self.read(&text);
        parts.extend(self.reading.as_mut().map_or_else(Vec::new, Parser::finish));
        if !text.is_empty() || !parts.is_empty() {
            self.emit(Delta { text, parts, ..Delta::default() });
        }
        Ok(())
    }

    fn read(&mut self, text: &str) -> Vec<Part> {
        self.reading.as_mut().map_or_else(Vec::new, |reading| reading.push(text))
    }

    fn stopped(&self) -> bool {
        self.scanner.stopped_by().is_some()
    }

    fn scored(&self, id: u32, logprobs: &Logprobs) -> TokenLogprobs {
        let scored = |id: u32, logprob: f32| {
            let bytes = self.tokenizer.bytes(id);
            Scored { id, text: String::from_utf8_lossy(bytes).into_owned(), bytes: bytes.to_vec(), logprob }
        };
        TokenLogprobs { token: scored(id, logprobs.chosen), top: logprobs.likeliest.iter().map(|&(id, logprob)| scored(id, logprob)).collect() }
    }

    fn emit(&mut self, delta: Delta) {
        self.text.push_str(&delta.text);
        if let Some(all) = &mut self.logprobs {
            all.extend_from_slice(&delta.logprobs);
        }
        (self.on_event)(Event::Delta(&delta));
    }
}

fn random_seed() -> Result<u64> {
    // 53 bits, so that JavaScript's numbers can hold it and repeat the text.
    getrandom::u64().map(|n| n >> 11).map_err(|e| Error::internal(format!("no random seed: {e}")))
}
