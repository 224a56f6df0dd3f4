//! One request's answer: from the prompt to the pieces of text, over losses of the device and of a full context.

use std::borrow::Cow;

use super::output::{Listens, Output};
use super::pictures::Shown;
use super::recover::Losses;
use super::texts::{Rendered, rendered_prompt};
use super::{Engine, Event, FinishReason, Generation, GenerationCounters, Overflow, Prompt, Request};
use crate::base::options::Options as _;
use crate::base::{Cancel, now_ms};
use crate::decode::{self, Extras, Outcome, ProfileRow, Run, Timings};
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::{Compiled, Constraint};
use crate::sample::{Sampling, SamplingOptions};
use crate::state::{FIRST, Input, SequenceId};
use crate::text::calls::{self, Parser};

/// The bias of a token that is never to be written: finite, and below every logit.
const NEVER: f32 = -1e30;

/// An answer under way: parts of it come one after the other, by itself or in company, and make one text.
pub(super) struct Answer<'a> {
    pub request: Cow<'a, Request>,
    pub cancel: Cancel,
    pub out: Output<'a>,
    pub sequence: SequenceId,
    /// The text so far.
    pub prompt: Input,
    /// The pictures of the prompt.
    pub shown: Vec<Shown>,
    prompt_tokens: usize,
    /// How many of its first tokens a shift keeps, once there was one.
    kept: Option<usize>,
    shifts: u32,
    pub sampler: Sampler,
    constraint: Option<Constraint>,
    grammar: Option<Compiled>,
    /// Whether what the cache holds of the prompt is read again.
    pub afresh: bool,
    /// Whether the text ends with a token that was sampled just before.
    pub resumed: bool,
    pub complete: bool,
    /// Whether others were answered meanwhile.
    pub in_company: bool,
    pub outcome: Outcome,
    /// What reading the prompt took before the last part of it, ms.
    pub reading_ms: f64,
    /// What reading its pictures took, ms.
    looking_ms: f64,
    /// When it was asked for, ms.
    pub began: f64,
    pub losses: Losses,
    scores: Scores,
}

/// How an answer's tokens are chosen from their logits.
pub(super) struct Sampler {
    pub sampling: Sampling,
    seed: u64,
    /// Ids that end the answer.
    stop: Vec<u32>,
    /// Token ids, each once, and what is added to their logits.
    bias: Vec<(u32, f32)>,
}

/// Logits of the prompt, where the request wants them.
#[derive(Default)]
struct Scores {
    /// Those of its last position.
    last: Option<Vec<f32>>,
    /// Those of each position from the one on that the request names.
    all: Option<Vec<Vec<f32>>>,
}

impl<'a> Answer<'a> {
    /// An answer of which nothing is read yet.
    fn new(request: Cow<'a, Request>, cancel: &Cancel, out: Output<'a>, prompt: Input, sampler: Sampler) -> Self {
        Self {
            cancel: cancel.clone(),
            out,
            sequence: FIRST,
            prompt_tokens: prompt.len(),
            prompt,
            shown: Vec::new(),
            kept: None,
            shifts: 0,
            sampler,
            constraint: None,
            grammar: None,
            afresh: !request.reuse,
            resumed: false,
            complete: false,
            in_company: false,
            outcome: Outcome::default(),
            reading_ms: 0.0,
            looking_ms: 0.0,
            began: now_ms(),
            losses: Losses::default(),
            scores: Scores::default(),
            request,
        }
    }

    /// Tokens that are still asked for.
    fn wanted(&self) -> u32 {
        self.request.max_tokens.unwrap_or(u32::MAX) - self.outcome.tokens.len() as u32
    }

    /// Whether the model has ended it.
    fn stopped_itself(&self) -> bool {
        self.outcome.tokens.last().is_some_and(|id| self.sampler.stop.contains(id))
    }

    /// What had come when the device was lost: the text goes on behind it.
    pub fn interrupted(&mut self, part: Outcome) {
        self.prompt.push_tokens(&part.tokens);
        self.outcome = std::mem::take(&mut self.outcome).and(self.losses.charged(part));
        self.resumed = true;
    }

    /// Whether nothing of a token depends on more than its logits, its place and its own parameters of sampling, so
    /// that it can be chosen beside those of others. Of penalties, bias, log probabilities, grammars and drafts that
    /// are always wanted there is room for one answer's alone.
    pub fn may_stand_beside(&self) -> bool {
        let Sampler { sampling, bias, .. } = &self.sampler;
        let plain = !sampling.penalizes() && bias.is_empty() && self.constraint.is_none();
        plain && self.request.logprobs.is_none() && self.request.speculate != decode::Speculate::Always
    }

    /// Why it ended.
    fn finish_reason(&self) -> FinishReason {
        if self.out.stopped() || self.stopped_itself() {
            FinishReason::Stop
        } else if self.cancel.is_cancelled() {
            FinishReason::Abort
        } else {
            FinishReason::Length
        }
    }

    /// The generation of its next part, of at most `limit` tokens, and its output. `chunk`: tokens between two readbacks,
    /// where their number is fixed.
    fn part<'p>(&'p mut self, limit: u32, chunk: Option<u32>, pause: &'p dyn Fn() -> bool) -> (Run<'p>, &'p mut Output<'a>) {
        let (answered, logprobs) = (self.outcome.tokens.len(), self.request.logprobs.is_some());
        let run = Run {
            sequence: self.sequence,
            prompt: &self.prompt,
            sampling: self.sampler.sampling,
            limit,
            afresh: self.afresh,
            resumed: self.resumed,
            extras: Extras { bias: &self.sampler.bias, answered, logprobs },
            constraint: self.constraint.as_mut(),
            chunk,
            speculate: self.request.speculate,
            pause,
        };
        (run, &mut self.out)
    }

    /// Whether its text has an adapter.
    pub fn adapted(&self) -> bool {
        self.request.adapter.as_ref().is_some_and(|asked| asked.scale != 0.0)
    }

    /// In company by the clock: the times of parts leave out those of others.
    fn timings(&self) -> Timings {
        let timings = self.outcome.timings;
        let Some((first, last)) = self.out.times.filter(|_| self.in_company) else {
            return Timings { ttft_ms: timings.ttft_ms + self.looking_ms, ..timings };
        };
        let sampled = self.outcome.tokens.len().saturating_sub(1);
        let (prefill_ms, decode_ms) = (timings.prefill_ms + self.reading_ms, last - first);
        let read = self.prompt_tokens - self.outcome.known.saturating_sub(self.out.read).min(self.prompt_tokens);
        let rate = |n: usize, ms: f64| if ms > 0.0 { n as f64 * 1000.0 / ms } else { 0.0 };
        let (prefill_tok_s, decode_tok_s) = (rate(read, prefill_ms), rate(sampled, decode_ms));
        Timings { prefill_ms, ttft_ms: first - self.began, decode_ms, prefill_tok_s, decode_tok_s, ..timings }
    }
}

impl Engine {
    /// Answers one request; `on_event` is called with each piece as it arrives. Cancelling ends it with what there is
    /// and [`FinishReason::Abort`].
    ///
    /// Where the device is lost on the way, the model is loaded again onto another and the answer goes on from where it
    /// was, with the same text; a second loss within a minute is an error, [`ErrorKind::DeviceLost`].
    pub async fn generate(&mut self, request: &Request, on_event: &mut dyn FnMut(Event<'_>), cancel: &Cancel) -> Result<Generation> {
        let listens = Box::new(|event: Event<'_>| on_event(event));
        let mut answer = self.begin(Cow::Borrowed(request), listens, cancel, Some(&[])).await?;
        while !answer.complete {
            self.go_on(&mut answer, &|| false).await?;
        }
        self.end(answer).await
    }

    /// Everything that comes before the first token, but for reading the prompt. The answer gets a sequence here where
    /// `busy` names those that have answers under way.
    pub(super) async fn begin<'a>(
        &mut self,
        request: Cow<'a, Request>,
        on_event: Listens<'a>,
        cancel: &Cancel,
        busy: Option<&[SequenceId]>,
    ) -> Result<Answer<'a>> {
        let began = now_ms();
        request.check()?;
        self.session.must_write("generate")?;
        let out = Output::new(&self.tokenizer, on_event);
        let losses = self.recover_before(&out, cancel).await?;
        let Rendered { input, text, shown } = rendered_prompt(&self.tokenizer, &self.template, &self.sight, &request)?;
        let (prompt, kept) = self.fitted(&request, input)?;
        let sequence = match busy {
            Some(busy) => self.sequence_for(&request, &prompt, busy)?,
            None => FIRST,
        };
        let sampler = self.sampler(&request)?;
        let shifts = u32::from(kept.is_some());
        let answer = Answer::new(request, cancel, out, prompt, sampler);
        let mut answer = Answer { began, losses, shown, sequence, kept, shifts, ..answer };
        self.score(&mut answer).await?;
        self.expect(&mut answer, text).await?;
        Ok(answer)
    }

    /// Replaces a device that is lost, before an answer begins: what that has cost. Where it is cancelled meanwhile,
    /// the answer ends without a token.
    async fn recover_before(&mut self, out: &Output<'_>, cancel: &Cancel) -> Result<Losses> {
        let mut losses = Losses::default();
        let Some(lost) = self.lost() else { return Ok(losses) };
        match self.survive(lost, &mut losses, &|progress| out.progress(progress), cancel).await {
            Err(e) if e.kind() != ErrorKind::Aborted => Err(e),
            _ => Ok(losses),
        }
    }

    /// A prompt that leaves room for an answer, and how many of its first tokens are kept where it is shifted for that.
    fn fitted(&self, request: &Request, prompt: Input) -> Result<(Input, Option<usize>)> {
        let context = self.session.context();
        if (prompt.len() as u32) < context {
            return Ok((prompt, None));
        }
        let kept = if request.overflow == Overflow::Shift { self.kept(request, prompt.ids())? } else { 0 };
        if request.overflow == Overflow::Error || kept + 2 > context as usize {
            return Err(Error::new(
                ErrorKind::ContextFull,
                format!(
                    "the prompt has {} tokens, the context {context}, which leaves no room for an answer; shorten the \
                     prompt or load with a larger context",
                    prompt.len()
                ),
            ));
        }
        Ok((shifted(&prompt, kept, context as usize), Some(kept)))
    }

    /// How the tokens of a request's answer are chosen. Without a seed it has a random one.
    fn sampler(&self, request: &Request) -> Result<Sampler> {
        let seed = match request.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let stop = if request.ignore_eos { Vec::new() } else { self.tokenizer.eos_ids().to_vec() };
        let bias = self.bias(request)?;
        let sampling = SamplingOptions { seed, ..request.sampling() }.parameters(&stop, decode::RING)?;
        Ok(Sampler { sampling, seed, stop, bias })
    }

    /// Forces the answer into the form that its request wants, and tells its output how it is read. `rendered`: the
    /// text that a template has made of the request's messages.
    async fn expect(&mut self, answer: &mut Answer<'_>, rendered: Option<String>) -> Result<()> {
        let request = &answer.request;
        let (constraint, grammar) = self.constraint(request, rendered.as_deref()).await?.unzip();
        let (forced, tools) = (constraint.is_some(), calls::tools(request.offered()));
        let reading = rendered.map(|prompt| Parser::new(self.read_as(request, forced), tools, &prompt));
        answer.out.expect(reading, &request.stop, &answer.sampler.stop, request.logprobs.is_some());
        (answer.constraint, answer.grammar) = (constraint, grammar);
        Ok(())
    }

    /// How many tokens an answer may sample now.
    pub(super) fn limit(&self, answer: &Answer<'_>) -> u32 {
        let read = answer.prompt.len() as u32;
        // Where positions beyond are rotated otherwise, everything is read again before they are.
        let reach = self.session.model().config().original_context().and_then(|original| (original + 1).checked_sub(read));
        // Where the GPU had no memory for an answer beside this one, the context is shorter than it was.
        answer.wanted().min(self.session.context().saturating_sub(read)).min(reach.filter(|n| *n > 0).unwrap_or(u32::MAX))
    }

    /// Goes on with an answer by itself until it is complete, or until `pause` where that may be.
    pub(super) async fn go_on(&mut self, answer: &mut Answer<'_>, pause: &dyn Fn() -> bool) -> Result<()> {
        let limit = self.limit(answer);
        if let Err(e) = self.look_for(answer).await {
            return self.went_wrong(answer, e).await;
        }
        let started = now_ms();
        let cancel = answer.cancel.clone();
        let (run, out) = answer.part(limit, self.options.chunk, pause);
        match self.session.generate(run, &cancel, &mut |step| out.hear(step)).await {
            Ok(part) => self.took(answer, part, limit),
            Err(e) if e.kind() == ErrorKind::Aborted => answer.complete = true,
            Err(e) => return self.broke_off(answer, e, started).await,
        }
        Ok(())
    }

    /// A part of an answer that began at `started` has failed. Where the device was lost after its first token, the
    /// answer goes on behind what had come.
    async fn broke_off(&mut self, answer: &mut Answer<'_>, e: Error, started: f64) -> Result<()> {
        if let Some(part) = self.session.take_interrupted() {
            answer.interrupted(part);
        } else {
            answer.losses.ms += now_ms() - started;
        }
        if answer.cancel.is_cancelled() || answer.stopped_itself() {
            answer.complete = true;
            return Ok(());
        }
        self.went_wrong(answer, e).await
    }

    /// Has the pictures of a prompt that are not known be read.
    pub(super) async fn look_for(&mut self, answer: &mut Answer<'_>) -> Result<()> {
        let started = now_ms();
        let Answer { sequence, prompt, shown, afresh, resumed, cancel, out, .. } = answer;
        let looked = self.look(*sequence, prompt, shown, *afresh && !*resumed, cancel, &|progress| out.progress(progress)).await;
        if !answer.shown.is_empty() {
            answer.looking_ms += now_ms() - started;
        }
        looked
    }

    /// Something has failed on the way: the answer goes on where that was the device's loss, and is complete where it
    /// was aborted.
    async fn went_wrong(&mut self, answer: &mut Answer<'_>, e: Error) -> Result<()> {
        let Answer { losses, out, cancel, .. } = answer;
        match self.survive(e, losses, &|progress| out.progress(progress), cancel).await {
            Err(e) if e.kind() == ErrorKind::Aborted => answer.complete = true,
            recovered => {
                recovered?;
                answer.losses.charge(&mut answer.outcome);
            }
        }
        Ok(())
    }

    /// A part of an answer has come, of which at most `limit` tokens could.
    pub(super) fn took(&self, answer: &mut Answer<'_>, part: Outcome, limit: u32) {
        let context = self.session.context();
        let (room, wanted) = (context.saturating_sub(answer.prompt.len() as u32), answer.wanted());
        let part = answer.losses.charged(part);
        let sampled = part.tokens.len() as u32;
        let stretched = sampled == limit && limit < wanted.min(room);
        let full = sampled == room && wanted > room;
        answer.prompt.push_tokens(&part.tokens);
        answer.outcome = std::mem::take(&mut answer.outcome).and(part);
        let ended = answer.out.stopped() || answer.out.failure.is_some() || answer.stopped_itself() || answer.cancel.is_cancelled();
        answer.resumed = !ended && sampled < limit && sampled > 0;
        if ended || answer.resumed || stretched {
            answer.complete = ended;
        } else if full && answer.request.overflow == Overflow::Shift {
            self.shift(answer, context as usize);
        } else {
            answer.complete = true;
        }
    }

    /// Makes room in a context that is full. An answer that this leaves no room ends there.
    fn shift(&self, answer: &mut Answer<'_>, context: usize) {
        match answer.kept.map_or_else(|| self.kept(&answer.request, answer.prompt.ids()), Ok) {
            Ok(kept) if kept + 2 <= context => {
                answer.prompt = shifted(&answer.prompt, kept, context);
                answer.kept = Some(kept);
                answer.shifts += 1;
            }
            Ok(_) => answer.complete = true,
            Err(e) => (answer.out.failure, answer.complete) = (Some(e), true),
        }
    }

    /// What an answer that is complete has come to.
    pub(super) async fn end(&mut self, mut answer: Answer<'_>) -> Result<Generation> {
        answer.out.finish()?;
        let finish_reason = answer.finish_reason();
        let timings = Timings { load_ms: self.load_ms, ..answer.timings() };
        let profile = if answer.request.profile { Some(self.profile_of(&mut answer).await?) } else { None };
        let Answer { losses, out, outcome, .. } = answer;
        Ok(Generation {
            text: out.text,
            tokens: outcome.tokens,
            logprobs: out.logprobs,
            prompt_tokens: answer.prompt_tokens,
            cached_tokens: outcome.known.saturating_sub(out.read),
            shifts: answer.shifts,
            recoveries: losses.count,
            finish_reason,
            seed: answer.sampler.seed,
            grammar: answer.grammar,
            timings,
            counters: GenerationCounters::new(outcome.counters, outcome.prefill_submits),
            drafted_tokens: outcome.drafted,
            accepted_tokens: outcome.accepted,
            adapter: self.session.gpu().caps().into(),
            plan: self.plan_name(),
            profile,
            logits: answer.scores.last,
            all_logits: answer.scores.all,
        })
    }

    /// Measures the kernels where the answer's text ends.
    async fn profile_of(&mut self, answer: &mut Answer<'_>) -> Result<Vec<ProfileRow>> {
        let position = (answer.prompt.len() as u32).min(self.session.context() - 1);
        loop {
            match self.profile(position).await {
                Err(e) => {
                    let Answer { losses, out, cancel, .. } = answer;
                    self.survive(e, losses, &|progress| out.progress(progress), cancel).await?;
                }
                profile => return profile,
            }
        }
    }

    /// The bias of a request, where it can be applied.
    fn bias(&self, request: &Request) -> Result<Vec<(u32, f32)>> {
        let vocab = self.session.model().config().vocab;
        for id in request.logit_bias.keys() {
            if *id as usize >= vocab {
                return Err(Error::bad_option(format!("logitBias names token {id}, but the model has only {vocab}")));
            }
        }
        let asked = request.logit_bias.iter().map(|(id, bias)| (*id, *bias));
        let never = self.tokenizer.suppressed_ids().iter().filter(|id| (**id as usize) < vocab).map(|id| (*id, NEVER));
        Ok(asked.chain(never).collect())
    }

    /// How many tokens of the prompt a shift keeps at its beginning: of messages what comes before the first user's
    /// text, otherwise the first token.
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
                special_tokens: request.special_tokens,
                ..Request::new(Prompt::Tokens(Vec::new()))
            })
        };
        let (a, b) = (with("a")?, with("b")?);
        Ok(a.iter().zip(&b).zip(prompt).take_while(|((a, b), p)| a == b && b == p).count().max(1))
    }

    /// Reads the whole prompt for its logits, where the request wants them: again on another device where one is lost.
    async fn score(&mut self, answer: &mut Answer<'_>) -> Result<()> {
        loop {
            match self.scores(answer).await {
                Err(e) => {
                    let Answer { losses, out, cancel, .. } = answer;
                    self.survive(e, losses, &|progress| out.progress(progress), cancel).await?;
                }
                Ok(scores) => {
                    answer.scores = scores;
                    return Ok(());
                }
            }
        }
    }

    /// The logits that an answer's request wants of its prompt.
    async fn scores(&mut self, answer: &Answer<'_>) -> Result<Scores> {
        let Answer { request, sequence, prompt, shown, cancel, out, .. } = answer;
        if !request.logits && request.logits_from.is_none() {
            return Ok(Scores::default());
        }
        self.look(*sequence, prompt, shown, true, cancel, &|progress| out.progress(progress)).await?;
        if let Some(from) = request.logits_from {
            let all = self.logits_from(answer, from as usize).await?;
            return Ok(Scores { last: all.last().cloned(), all: Some(all) });
        }
        self.session.prefill(*sequence, prompt, 0, cancel).await?;
        Ok(Scores { last: Some(self.session.logits().await?), all: None })
    }

    /// Logits of a prompt's positions from `from` on: that one's by prefill, those of the later ones by decode steps.
    async fn logits_from(&mut self, answer: &Answer<'_>, from: usize) -> Result<Vec<Vec<f32>>> {
        let Answer { sequence, prompt, cancel, .. } = answer;
        let sequence = *sequence;
        if from >= prompt.len() {
            let n = prompt.len();
            return Err(Error::bad_option(format!("logits from position {from}, but the prompt has only {n} tokens")));
        }
        if prompt.slice(from + 1..prompt.len()).has_rows() {
            let rows = "rows in place of tokens";
            return Err(Error::bad_option(format!("logits from position {from}, but behind it the prompt has {rows}")));
        }
        self.session.prefill(sequence, &prompt.slice(0..from + 1), 0, cancel).await?;
        let mut all = vec![self.session.logits().await?];
        for (i, token) in prompt.ids().iter().enumerate().skip(from + 1) {
            cancel.check()?;
            // A position's logits are those of the text up to it: beyond an original context all of it is read again.
            if self.session.is_long(i as u32 + 1) != self.session.is_long(i as u32) {
                self.session.prefill(sequence, &prompt.slice(0..i + 1), 0, cancel).await?;
                all.push(self.session.logits().await?);
            } else {
                all.push(self.session.feed(sequence, *token, i as u32).await?);
            }
        }
        Ok(all)
    }
}

/// The first `kept` positions and the younger half of the others that `context` positions can hold: of rows that belong
/// together all or none.
fn shifted(text: &Input, kept: usize, context: usize) -> Input {
    let younger = (context - kept).div_ceil(2);
    let mut shifted = text.slice(0..text.whole_until(kept));
    shifted.push_input(&text.slice(text.whole_from(text.len() - younger.min(text.len() - kept))..text.len()));
    shifted
}

fn random_seed() -> Result<u64> {
    // 53 bits, so that JavaScript's numbers can hold it and repeat the text.
    getrandom::u64().map(|n| n >> 11).map_err(|e| Error::internal(format!("no random seed: {e}")))
}
