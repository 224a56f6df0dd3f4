//! One request's answer: from the prompt to the pieces of text, across device losses and shifts of a full context.

use std::borrow::Cow;
use std::rc::Rc;

use super::output::{Listens, Output};
use super::pictures::Shown;
use super::recover::Losses;
use super::texts::{Rendered, rendered_prompt};
use super::{Engine, Event, FinishReason, Generation, GenerationCounters, Overflow, Prompt, Request};
use crate::base::options::Options as _;
use crate::base::{Cancel, Progress, now_ms};
use crate::decode::{self, Extras, Outcome, Pace, ProfileRow, Speculate, Stretch, Timings, Turn};
use crate::error::{Error, ErrorKind, Result};
use crate::grammar::{Compiled, Constraint, Grammar};
use crate::sample::{Sampling, SamplingOptions};
use crate::state::{FIRST, Input, SequenceId};
use crate::text::calls::{self, Parser};

/// The bias of a token that is never to be written: finite, and below every logit.
const NEVER: f32 = -1e30;

/// An answer in progress: it is generated in parts, alone or in steps with other answers, which make one text.
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
    /// How many of the prompt's first tokens a shift keeps, once there was one.
    kept: Option<usize>,
    shifts: u32,
    pub sampler: Sampler,
    constraint: Option<Constraint>,
    grammar: Option<Compiled>,
    /// Whether the prompt is read anew, though the cache holds a part of it.
    pub afresh: bool,
    /// Whether the text ends with a token that this answer has sampled.
    pub resumed: bool,
    pub complete: bool,
    /// The error that has ended the answer.
    pub failure: Option<Error>,
    /// Whether other requests were answered meanwhile.
    pub in_company: bool,
    pub outcome: Outcome,
    /// Time of the prompt's prefill passes that ran in turns, ms: without the last part.
    pub reading_ms: f64,
    /// Time of encoding the prompt's pictures, ms.
    looking_ms: f64,
    /// When the request came, ms.
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
    /// Token ids, each once, and the values added to their logits.
    bias: Vec<(u32, f32)>,
}

/// Logits of the prompt, where the request wants them.
#[derive(Default)]
struct Scores {
    /// Logits of the prompt's last position.
    last: Option<Vec<f32>>,
    /// Logits of each position from [`Request::logits_from`] on.
    all: Option<Vec<Vec<f32>>>,
}

impl<'a> Answer<'a> {
    /// An answer whose prompt is not read yet.
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
            failure: None,
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

    /// Tokens left up to the request's `max_tokens`.
    fn wanted(&self) -> u32 {
        self.request.max_tokens.unwrap_or(u32::MAX) - self.outcome.tokens.len() as u32
    }

    /// Whether the answer has the tokens that its request allows: cancelling it has cut nothing off.
    fn has_all_tokens(&self) -> bool {
        !self.outcome.tokens.is_empty() && self.wanted() == 0
    }

    /// Whether the last token is an end token.
    fn stopped_itself(&self) -> bool {
        self.outcome.tokens.last().is_some_and(|id| self.sampler.stop.contains(id))
    }

    /// Whether the answer is complete, cancelled, or has failed.
    pub fn ended(&self) -> bool {
        self.complete || self.failure.is_some() || self.cancel.is_cancelled()
    }

    /// Whether the answer's tokens can be sampled in one step with tokens of other answers: not where drafts are always
    /// wanted, which take a step's further rows.
    pub fn may_stand_beside(&self) -> bool {
        self.request.speculate != Some(Speculate::Always)
    }

    /// The grammar of the answer, if it has one.
    pub fn grammar(&self) -> Option<&Rc<Grammar>> {
        self.constraint.as_ref().map(Constraint::grammar)
    }

    /// Why the answer ended.
    fn finish_reason(&self) -> FinishReason {
        if self.out.stopped() || self.stopped_itself() {
            FinishReason::Stop
        } else if self.cancel.is_cancelled() && !self.has_all_tokens() {
            FinishReason::Abort
        } else {
            FinishReason::Length
        }
    }

    /// The answer's next turn in the decode loop, of at most `limit` tokens.
    /// `drafter`: whether a draft model is loaded, which drafts where the request does not say otherwise.
    fn turn(&mut self, limit: u32, drafter: bool) -> Turn<'_> {
        let unasked = if drafter { Speculate::Auto } else { Speculate::Off };
        let extras = extras(&self.outcome, &self.sampler, &self.request);
        let out = &mut self.out;
        Turn {
            sequence: self.sequence,
            prompt: &self.prompt,
            sampling: self.sampler.sampling,
            limit,
            afresh: self.afresh,
            resumed: self.resumed,
            extras,
            constraint: self.constraint.as_mut(),
            speculate: self.request.speculate.unwrap_or(unasked),
            cancel: &self.cancel,
            on_progress: Box::new(|progress| out.hear(progress)),
        }
    }

    /// Whether the answer is generated with an adapter.
    pub fn adapted(&self) -> bool {
        self.request.adapter.as_ref().is_some_and(|asked| asked.scale != 0.0)
    }

    /// Times of the answer. Where other requests were answered meanwhile, decoding is measured from the first token to
    /// the last: the times of parts leave out those of other answers.
    fn timings(&self) -> Timings {
        let timings = self.outcome.timings;
        let Some((first, last)) = self.out.times.filter(|_| self.in_company) else {
            return Timings { ttft_ms: timings.ttft_ms + self.looking_ms, pictures_ms: self.looking_ms, ..timings };
        };
        let pictures_ms = self.looking_ms;
        let sampled = self.outcome.tokens.len().saturating_sub(1);
        let (prefill_ms, decode_ms) = (timings.prefill_ms + self.reading_ms, last - first);
        let read = self.prompt_tokens - self.outcome.known.saturating_sub(self.out.read).min(self.prompt_tokens);
        let rate = |n: usize, ms: f64| if ms > 0.0 { n as f64 * 1000.0 / ms } else { 0.0 };
        let (prefill_tok_s, decode_tok_s) = (rate(read, prefill_ms), rate(sampled, decode_ms));
        let ttft_ms = first - self.began;
        Timings { pictures_ms, prefill_ms, ttft_ms, decode_ms, prefill_tok_s, decode_tok_s, ..timings }
    }
}

/// An answer's bias, whether it has log probabilities, and how many of its text's last tokens it has sampled.
fn extras<'a>(outcome: &Outcome, sampler: &'a Sampler, request: &Request) -> Extras<'a> {
    Extras { bias: &sampler.bias, answered: outcome.tokens.len(), logprobs: request.logprobs.is_some() }
}

impl Engine {
    /// Answers one request; `on_event` is called with each piece as it arrives. Cancelling ends the answer with the
    /// text so far and [`FinishReason::Abort`].
    ///
    /// Where the device is lost meanwhile, the model is loaded again onto another and the answer continues after its
    /// last token; a second loss within a minute is an error, [`ErrorKind::DeviceLost`].
    pub async fn generate(
        &mut self,
        request: &Request,
        on_event: &mut dyn FnMut(Event<'_>),
        cancel: &Cancel,
    ) -> Result<Generation> {
        let listens = Box::new(|event: Event<'_>| on_event(event));
        let mut answer = self.begin(Cow::Borrowed(request), listens, cancel, Some(&[])).await?;
        while !answer.ended() {
            self.go_on(&mut [&mut answer], &|| false, f64::INFINITY).await;
        }
        self.end(answer).await
    }

    /// Prepares an answer up to the reading of its prompt. It gets a sequence here where `busy` lists the sequences of
    /// the answers in progress.
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

    /// Replaces a lost device before an answer begins; returns the cost. Where the request is cancelled meanwhile, the
    /// answer ends without a token.
    async fn recover_before(&mut self, out: &Output<'_>, cancel: &Cancel) -> Result<Losses> {
        let mut losses = Losses::default();
        let Some(lost) = self.lost() else { return Ok(losses) };
        match self.survive(lost, &mut losses, &|progress| out.progress(progress), cancel).await {
            Err(e) if e.kind() != ErrorKind::Aborted => Err(e),
            _ => Ok(losses),
        }
    }

    /// The prompt, shifted where it would leave no room for an answer; then also how many of its first tokens are kept.
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

    /// The sampler of a request's answer. Without a seed it has a random one.
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

    /// Sets the grammar that the request wants for its answer, and how the output parses it. `rendered`: the text that
    /// a template has made of the request's messages.
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
    fn limit(&self, answer: &Answer<'_>) -> u32 {
        let read = answer.prompt.len() as u32;
        // Positions beyond the original context are rotated otherwise: the text is read again before the first of them.
        let reach =
            self.session.model().config().original_context().and_then(|original| (original + 1).checked_sub(read));
        // The context can have become shorter, where the GPU had no memory for another answer.
        answer
            .wanted()
            .min(self.session.context().saturating_sub(read))
            .min(reach.filter(|n| *n > 0).unwrap_or(u32::MAX))
    }

    /// Continues one answer alone, or several in common steps, until one of them has ended, or until `pause`, in chunks
    /// of at most `patience_ms`.
    pub(super) async fn go_on(&mut self, answers: &mut [&mut Answer<'_>], pause: &dyn Fn() -> bool, patience_ms: f64) {
        let started = now_ms();
        for i in 0..answers.len() {
            if let Err(e) = self.look_for(answers[i]).await {
                return self.went_wrong(answers, e).await;
            }
        }
        let limits: Vec<u32> = answers.iter().map(|answer| self.limit(answer)).collect();
        let drafter = self.draft.is_some();
        let mut turns: Vec<Turn<'_>> =
            answers.iter_mut().zip(&limits).map(|(answer, limit)| answer.turn(*limit, drafter)).collect();
        let run = self.session.run(&mut turns, Pace { chunk: self.options.chunk, pause, patience_ms }).await;
        drop(turns);
        let Stretch { parts, failure } = run.unwrap_or_else(|e| Stretch { parts: Vec::new(), failure: Some(e) });
        let parts = parts.into_iter().map(Some).chain(std::iter::repeat_with(|| None));
        for ((answer, limit), part) in answers.iter_mut().zip(limits).zip(parts) {
            match part {
                Some(Ok(part)) if limit == 0 || !part.tokens.is_empty() => self.took(answer, part, limit),
                Some(Err(e)) => self.went_wrong(&mut [&mut **answer], e).await,
                // Without a token the answer stands where it was.
                _ if failure.is_some() => answer.losses.ms += now_ms() - started,
                _ => {}
            }
        }
        let Some(e) = failure else { return };
        if !answers.iter().all(|answer| answer.ended()) {
            self.went_wrong(answers, e).await;
        }
    }

    /// Encodes the pictures of a prompt that the sequence does not hold.
    pub(super) async fn look_for(&mut self, answer: &mut Answer<'_>) -> Result<()> {
        let started = now_ms();
        let Answer { sequence, prompt, shown, afresh, resumed, cancel, out, .. } = answer;
        let looked =
            self.look(*sequence, prompt, shown, *afresh && !*resumed, cancel, &|progress| out.progress(progress)).await;
        if !answer.shown.is_empty() {
            answer.looking_ms += now_ms() - started;
        }
        looked
    }

    /// Handles an error: recovers from a lost device, once for all of these answers, so that they can continue.
    /// Without recovery those that have not ended have failed.
    pub(super) async fn went_wrong(&mut self, answers: &mut [&mut Answer<'_>], e: Error) {
        let mut losses = Losses::default();
        // One answer's cancellation does not end the recovery of others.
        let cancel = if let [alone] = answers { alone.cancel.clone() } else { Cancel::new() };
        let tell = |progress: Progress| answers.iter().for_each(|answer| answer.out.progress(progress.clone()));
        let survived = self.survive(e, &mut losses, &tell, &cancel).await;
        for answer in answers.iter_mut() {
            answer.losses.count += losses.count;
            answer.losses.ms += losses.ms;
        }
        let rest = answers.iter_mut().filter(|answer| !answer.ended());
        match survived {
            Ok(()) => answers.iter_mut().for_each(|answer| answer.losses.charge(&mut answer.outcome)),
            Err(mut e) => rest.for_each(|answer| {
                let copy = Error::new(e.kind(), e.message());
                answer.failure = Some(std::mem::replace(&mut e, copy));
            }),
        }
    }

    /// Takes the outcome of a part of at most `limit` tokens.
    fn took(&self, answer: &mut Answer<'_>, part: Outcome, limit: u32) {
        let context = self.session.context();
        let (room, wanted) = (context.saturating_sub(answer.prompt.len() as u32), answer.wanted());
        let part = answer.losses.charged(part);
        let sampled = part.tokens.len() as u32;
        let stretched = sampled == limit && limit < wanted.min(room);
        let full = sampled == room && wanted > room;
        answer.prompt.push_tokens(&part.tokens);
        answer.outcome = std::mem::take(&mut answer.outcome).and(part);
        let ended = answer.out.stopped()
            || answer.out.failure.is_some()
            || answer.stopped_itself()
            || answer.cancel.is_cancelled();
        answer.resumed = !ended && sampled < limit && sampled > 0;
        if ended || answer.resumed || stretched {
            answer.complete = ended;
        } else if full && answer.request.overflow == Overflow::Shift {
            self.shift(answer, context as usize);
        } else {
            answer.complete = true;
        }
    }

    /// Shifts the text of a full context. Where that leaves no room either, the answer is complete.
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

    /// The result of an answer that has ended.
    pub(super) async fn end(&mut self, mut answer: Answer<'_>) -> Result<Generation> {
        answer.failure.take().map_or(Ok(()), Err)?;
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
            context_tokens: answer.prompt.len(),
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

    /// Measures the kernels of a decode step at the end of the answer's text.
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

    /// The logit bias of a request.
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

    /// How many tokens at the prompt's beginning a shift keeps: with messages those before the first user message,
    /// otherwise the first token.
    fn kept(&self, request: &Request, prompt: &[u32]) -> Result<usize> {
        let Prompt::Messages(serde_json::Value::Array(messages)) = &request.prompt else { return Ok(1) };
        let system: Vec<_> = messages
            .iter()
            .take_while(|m| matches!(m["role"].as_str(), Some("system" | "developer")))
            .cloned()
            .collect();
        // The common prefix of two conversations with different user messages.
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

    /// Reads the whole prompt for its logits, where the request wants them; after a device loss once more on another
    /// device.
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

    /// The prompt's logits that the request wants.
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

    /// Logits of a prompt's positions from `from` on: of the first by prefill, of the later ones by decode steps.
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
            // Logits are those of the text up to the position: where rotation changes, beyond the original context,
            // that text is read again.
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

/// The first `kept` positions and the last positions that half of the remaining context can hold; rows of a picture are
/// kept whole or left out.
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
