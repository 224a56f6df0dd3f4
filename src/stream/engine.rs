//! The engine: a loaded model that answers, one request at a time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::clock::now_ms;
use super::load::{check, describe, open_session};
use super::recover::{Losses, Recovery};
use super::request::{
    Delta, Event, FinishReason, Generation, GenerationCounters, Info, LoadOptions, ModelInfo, Overflow, Prompt, Request, Scored, SelfTestInfo, TokenLogprobs,
};
use super::{Cancel, Phase, Progress, StopScanner};
use crate::decode::{self, Extras, Logprobs, Outcome, ProfileRow, Run, Session, Timings, Tuned};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Checkpoint;
use crate::plan;
use crate::plan::tuning::Tuning;
use crate::sample::{Sampling, SamplingOptions};
use crate::source::Files;
use crate::store::{Begin, ModelKey, Store};
use crate::text::{ChatTemplate, StreamDecoder, Tokenizer};
use crate::weights::LoadTimes;

/// A loaded model.
pub struct Engine {
    pub(super) session: Session,
    pub(super) tokenizer: Rc<Tokenizer>,
    template: Result<ChatTemplate>,
    pub(super) options: LoadOptions,
    model: ModelInfo,
    pub(super) fingerprint: String,
    pub(super) self_test: SelfTestInfo,
    pub(super) recovery: Recovery,
    load_times: LoadTimes,
    load_ms: f64,
}

impl Engine {
    /// Opens the files, the device and the model, and uploads the weights.
    pub async fn load(files: &Files, options: &LoadOptions, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<Self> {
        let started = now_ms();
        check(options)?;
        progress(Progress::new(Phase::Read, 0, 1));
        // Headers, kernels and the device take a second: the disk need not wait for them.
        files.values().for_each(|file| file.will_be_read());
        let checkpoint = Checkpoint::open(files).await?;
        cancel.check()?;
        let tokenizer = Tokenizer::open(&checkpoint)?;
        // A model without a usable template still continues plain prompts: the error waits for the first conversation.
        let template = ChatTemplate::open(&checkpoint, &tokenizer);
        progress(Progress::new(Phase::Read, 1, 1));

        let (session, self_test, load_times) = open_session(&checkpoint, options, Some(tokenizer.vocab_size()), progress, cancel).await?;
        let mut about = describe(&checkpoint, session.model(), template.is_ok())?;
        about.thinks = template.as_ref().is_ok_and(ChatTemplate::opens_thought);
        let fingerprint = checkpoint.fingerprint().await?;
        let recovery = Recovery::new(files, session.gpu());
        let load_ms = now_ms() - started;
        Ok(Self {
            session,
            tokenizer: Rc::new(tokenizer),
            template,
            options: options.clone(),
            model: about,
            fingerprint,
            self_test,
            recovery,
            load_times,
            load_ms,
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// How long loading took, fetching included.
    pub fn set_load_ms(&mut self, ms: f64) {
        self.load_ms = ms;
    }

    /// The ids that a request's prompt stands for.
    pub fn prompt_tokens(&self, request: &Request) -> Result<Vec<u32>> {
        let ids = match &request.prompt {
            Prompt::Tokens(ids) => ids.clone(),
            Prompt::Text(text) => self.tokenizer.encode(text, true)?,
            Prompt::Messages(messages) => {
                let template = self.template.as_ref().map_err(|e| Error::new(e.kind(), e.message()))?;
                let text = template.render(messages, request.tools.as_ref(), &request.template, true)?;
                self.tokenizer.encode(&text, false)?
            }
        };
        if ids.is_empty() {
            return Err(Error::bad_option("the prompt is empty; give at least one token"));
        }
        Ok(ids)
    }

    /// Answers one request; `on_event` hears of each piece as it arrives. Cancelling ends it with what there is and [`FinishReason::Abort`].
    ///
    /// Where the device is lost on the way, the model is loaded again onto another and the answer goes on from where it was, with the same text;
    /// a second loss within a minute is an error, [`ErrorKind::DeviceLost`].
    pub async fn generate(&mut self, request: &Request, on_event: &mut dyn FnMut(Event<'_>), cancel: &Cancel) -> Result<Generation> {
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
        self.session.switch(request.conversation)?;
        let mut prompt = self.prompt_tokens(request)?;
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
        if request.max_tokens == Some(0) {
            return Err(Error::bad_option("max tokens is 0; ask for at least one token"));
        }
        let seed = match request.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let stop = if request.ignore_eos { Vec::new() } else { self.tokenizer.eos_ids().to_vec() };
        let wanted = SamplingOptions {
            temperature: request.temperature,
            top_k: request.top_k,
            top_p: request.top_p,
            min_p: request.min_p,
            seed,
            presence_penalty: request.presence_penalty,
            frequency_penalty: request.frequency_penalty,
            repetition_penalty: request.repetition_penalty,
            top_logprobs: request.logprobs.unwrap_or(0),
        };
        let bias = self.bias(request)?;
        let sampling = Sampling::new(&wanted, &stop, decode::RING)?;
        let (logits, all_logits) = loop {
            match self.score(request, &prompt, cancel).await {
                Err(e) => self.survive(e, &mut losses, &progress, cancel).await?,
                Ok(scores) => break scores,
            }
        };

        let tokenizer = self.tokenizer.clone();
        let mut out = Output {
            decoder: tokenizer.stream(),
            scanner: StopScanner::new(&request.stop)?,
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
            let run = Run { prompt: &prompt, sampling, limit, afresh: request.afresh, resumed, extras, chunk: self.options.chunk };
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
        for (id, bias) in &request.logit_bias {
            if *id as usize >= vocab {
                return Err(Error::bad_option(format!("logit_bias names token {id}, but the model has only {vocab}")));
            }
            if !(-100.0..=100.0).contains(bias) {
                return Err(Error::bad_option(format!("logit_bias of token {id} is {bias}; it must be between -100 and 100")));
            }
        }
        Ok(request.logit_bias.iter().map(|(id, bias)| (*id, *bias)).collect())
    }

    /// A new conversation that begins as another is now: both go on from what was read and written until here.
    pub fn fork(&mut self, conversation: u32) -> Result<u32> {
        self.session.fork(conversation)
    }

    /// Keeps a conversation in a store under a name, in place of what had it: [`Engine::restore`] takes it back, in this engine or in a later one
    /// with the same model and settings.
    pub async fn save(&mut self, conversation: u32, store: &Store, name: &str, cancel: &Cancel) -> Result<()> {
        let key = saved_key(name)?;
        loop {
            match self.save_as(conversation, store, &key, name, cancel).await {
                Err(e) => self.survive(e, &mut Losses::default(), &|_| (), cancel).await?,
                saved => return saved,
            }
        }
    }

    async fn save_as(&mut self, conversation: u32, store: &Store, key: &ModelKey, name: &str, cancel: &Cancel) -> Result<()> {
        store.remove(key).await?;
        match store.begin(key, cancel).await? {
            Begin::Write(mut writer) => {
                self.session.save(conversation, &self.fingerprint, &mut writer, cancel).await?;
                writer.finish().await.map(drop)
            }
            Begin::Whole(_) => Err(Error::storage(format!("conversation {name:?} was saved by somebody else at the same moment; save it again"))),
        }
    }

    /// A new conversation that begins as the saved one was.
    ///
    /// # Errors
    /// `NOT_FOUND` where none has that name, `BAD_OPTION` where model or settings are others, `STORAGE` where it is damaged.
    pub async fn restore(&mut self, store: &Store, name: &str) -> Result<u32> {
        let files = store.open(&saved_key(name)?).await?;
        let files = files.ok_or_else(|| Error::not_found(format!("no conversation is saved as {name:?}")))?;
        loop {
            match self.session.restore(&self.fingerprint, &files).await {
                Err(e) => self.survive(e, &mut Losses::default(), &|_| (), &Cancel::new()).await?,
                restored => return restored,
            }
        }
    }

    /// Removes a saved conversation, if it is there.
    pub async fn forget(store: &Store, name: &str) -> Result<()> {
        store.remove(&saved_key(name)?).await
    }

    /// Forgets a conversation and frees its memory.
    pub fn release(&mut self, conversation: u32) {
        self.session.release(conversation);
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

    async fn profile(&mut self, position: u32) -> Result<Vec<ProfileRow>> {
        let streaming = self.session.streaming_bandwidth().await?;
        self.session.profile(position, streaming).await
    }

    /// Logits of the prompt's positions, where asked for: up to `logits_from` by prefill, the later ones by the decode step.
    async fn score(&mut self, request: &Request, prompt: &[u32], cancel: &Cancel) -> Result<(Option<Vec<f32>>, Option<Vec<Vec<f32>>>)> {
        if let Some(from) = request.logits_from {
            let from = from as usize;
            if from >= prompt.len() {
                return Err(Error::bad_option(format!("logits from position {from}, but the prompt has only {} tokens", prompt.len())));
            }
            self.session.prefill(&prompt[..=from], 0, cancel).await?;
            let mut all = vec![self.session.logits().await?];
            for (i, token) in prompt.iter().enumerate().skip(from + 1) {
                cancel.check()?;
                // A position's logits are those of the text up to it: beyond an original context all of it is read again.
                if self.session.is_long(i as u32 + 1) != self.session.is_long(i as u32) {
                    self.session.prefill(&prompt[..=i], 0, cancel).await?;
                    all.push(self.session.logits().await?);
                } else {
                    all.push(self.session.feed(*token, i as u32).await?);
                }
            }
            return Ok((all.last().cloned(), Some(all)));
        }
        if request.logits {
            self.session.prefill(prompt, 0, cancel).await?;
            return Ok((Some(self.session.logits().await?), None));
        }
        Ok((None, None))
    }

    /// Lane and variants in one line: `fast: matvec q8_0-q8-sg, attention f16-sg, …`.
    fn plan_name(&self) -> String {
        let mut variants: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for step in &self.session.plans()[1].steps {
            let names = variants.entry(step.variant.kernel).or_default();
            if !names.contains(&step.variant.name) {
                names.push(step.variant.name);
            }
        }
        let list: Vec<String> =
            variants.iter().filter(|(_, names)| names.as_slice() != ["default"]).map(|(kernel, names)| format!("{kernel} {}", names.join("+"))).collect();
        format!("{}: {}", self.session.lane().name(), list.join(", "))
    }

    /// What this engine is, where it runs and what it does there.
    pub fn info(&self) -> Info {
        let layout = self.session.layout();
        let [prefill, decode, short, few] = self.session.plans();
        let mut plan = plan::rows("prefill", prefill, self.session.sizes().rows);
        if self.session.has_few() {
            plan.extend(plan::rows("short", short, plan::SHORT));
            plan.extend(plan::rows("few", few, plan::FEW));
        }
        plan.extend(plan::rows("decode", decode, 1));
        plan.extend(self.session.extras().into_iter().flat_map(|extras| plan::rows("extras", extras, 1)));
        let counters = self.session.gpu().counters();
        let mut info = Info::new(self.model.clone(), self.session.gpu().caps(), self.session.lane(), layout, self.session.sizes(), self.session.context());
        info.memory.total = counters.snapshot().gpu_bytes;
        info.memory.peak = counters.peak_gpu_bytes();
        Info { load_ms: self.load_ms, load_times: self.load_times, self_test: self.self_test.clone(), warnings: self.warnings(), plan, ..info }
    }

    /// Measures, for at most about `budget_ms`, the variants that were not measured on this device yet, and goes on with the fastest. Meant for
    /// idle time: cancelling ends it within one measurement.
    pub async fn tune(&mut self, budget_ms: f64, cancel: &Cancel) -> Result<Tuned> {
        match self.session.tune(budget_ms, cancel).await {
            // What was being measured is measured another time.
            Err(e) => self.survive(e, &mut Losses::default(), &|_| (), cancel).await.map(|()| Tuned::default()),
            tuned => tuned,
        }
    }

    /// Adds what was measured on this device to `tuning`.
    pub fn remember(&self, tuning: &mut Tuning) {
        tuning.set(self.session.gpu().caps(), self.session.known().clone());
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let (context, trained) = (self.session.context(), self.session.model().config().context);
        if self.options.context.is_none() && context < trained {
            warnings.push(format!(
                "the context is {context} tokens instead of the model's {trained}: this GPU cannot hold a longer one in one buffer; kv q8 takes about half"
            ));
        }
        let wrong = &self.self_test.wrong;
        if wrong.is_empty() {
            return warnings;
        }
        let (wanted, lane) = (self.options.lane.name(), self.session.lane().name());
        let instead = if wanted == lane { format!("other variants of lane {lane}") } else { format!("lane {lane} instead of {wanted}") };
        warnings.push(format!("this GPU or its driver computes wrongly, so the engine runs {instead}: {}; please report it", wrong.join("; ")));
        warnings
    }

    /// Frees the GPU's memory. The engine is not usable afterwards.
    pub fn dispose(self) {
        self.session.gpu().destroy();
    }
}

/// What a saved conversation is kept under.
fn saved_key(name: &str) -> Result<ModelKey> {
    if name.is_empty() {
        return Err(Error::bad_option("the name of a saved conversation is empty"));
    }
    Ok(ModelKey::new(format!("conversation:{name}")))
}

/// The first `kept` ids and the younger half of the others that `context` positions can hold.
fn shifted(ids: &[u32], kept: usize, context: usize) -> Vec<u32> {
    let younger = (context - kept).div_ceil(2);
    [&ids[..kept], &ids[ids.len() - younger.min(ids.len() - kept)..]].concat()
}

/// The text side of a running generation.
struct Output<'a> {
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
        for id in ids.iter().take_while(|id| !self.stop.contains(id)) {
            match self.decoder.push(*id) {
                Ok(text) => piece.push_str(&text),
                Err(e) => {
                    self.failure = Some(e);
                    return false;
                }
            }
        }
        let text = self.scanner.push(&piece);
        let of_text = ids.iter().zip(logprobs).take_while(|(id, _)| !self.stop.contains(id));
        let logprobs = of_text.map(|(id, logprobs)| self.scored(*id, logprobs)).collect();
        self.emit(text, ids.to_vec(), logprobs);
        !self.stopped()
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(e) = self.failure.take() {
            return Err(e);
        }
        if !self.stopped() {
            let rest = self.decoder.finish()?;
            let mut text = self.scanner.push(&rest);
            text.push_str(&self.scanner.finish());
            if !text.is_empty() {
                self.emit(text, Vec::new(), Vec::new());
            }
        }
        Ok(())
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

    fn emit(&mut self, text: String, tokens: Vec<u32>, logprobs: Vec<TokenLogprobs>) {
        self.text.push_str(&text);
        if let Some(all) = &mut self.logprobs {
            all.extend_from_slice(&logprobs);
        }
        (self.on_event)(Event::Delta(&Delta { text, tokens, logprobs }));
    }
}

fn random_seed() -> Result<u64> {
    // 53 bits, so that JavaScript's numbers can hold it and repeat the text.
    getrandom::u64().map(|n| n >> 11).map_err(|e| Error::internal(format!("no random seed: {e}")))
}
