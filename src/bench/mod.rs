//! Speed, measured with the engine's own decode loop: random weights in true shapes, wall clock after a warm-up,
//! medians of several runs.

mod company;
mod copies;
mod draft;
mod forced;
mod idle;
mod quality;
pub mod shapes;

pub use company::Company;
pub use copies::Copies;
pub use draft::Drafted;
pub use forced::Forced;
pub use idle::Idle;
pub use quality::{Quality, quality};

use serde::Serialize;

use crate::base::options::Options as _;
use crate::base::{Cancel, Progress, now_ms};
use crate::decode::{self, Extras, KernelRow, Pace, PrefillRow, ProfileRow, RowsTime, Session, Speculate, Tuned, Turn};
use crate::engine::{LoadOptions, SelfTestInfo, describe, open_device, open_empty, open_session};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::gpu::Snapshot;
use crate::grammar::Compiler;
use crate::kernels::Caps;
use crate::layout::Role;
use crate::plan::Pass;
use crate::plan::tuning::Tuning;
use crate::sample::{Sampling, SamplingOptions};
use crate::source::Files;
use crate::state::{FIRST, Input};

include!(concat!(env!("OUT_DIR"), "/options/bench.rs"));

/// How far a bench has come.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum Status {
    /// With loading.
    Load(Progress),
    /// With what comes after it.
    Measure(Measuring),
}

/// How much of a phase is done.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Measuring {
    /// What is measured.
    pub phase: Phase,
    /// Runs that have ended, or operations.
    pub loaded: u32,
    /// Runs or operations in all.
    pub total: u32,
    /// Tokens of the current run so far, and their number a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<(u32, f64)>,
}

/// What a bench measures, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Which variants are fastest.
    Tune,
    /// Runs that do not count.
    WarmUp,
    /// Runs that count.
    Run,
    /// The second turn of a conversation.
    SecondTurn,
    /// Answers after a rest.
    Idle,
    /// What the device streams, and each kernel where asked for.
    Profile,
    /// Every variant that a step could run.
    Kernels,
}

/// Least time between two reports of a run, ms: the listener must not slow it down.
const REPORT_MS: f64 = 100.0;

/// Tokens that came with one readback.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Chunk {
    /// Tokens of context before its first.
    pub position: u32,
    /// How many.
    pub tokens: u32,
    /// Time of each, ms.
    pub ms: f64,
}

/// One run. Times by wall clock.
#[derive(Debug, Clone, Serialize)]
pub struct BenchRun {
    /// Prompt tokens over the time of prefill.
    pub prefill_tok_s: f64,
    /// Decoded tokens over the time from the end of prefill to the last token on the host.
    pub decode_tok_s: f64,
    /// Time to the first token, ms.
    pub ttft_ms: f64,
    /// Time a token from readback to readback, ms: median and 95th percentile.
    pub latency_ms: [f64; 2],
    /// The readbacks that `latency_ms` is computed from: all but the first, which begins at the prompt's end.
    pub chunks: Vec<Chunk>,
    /// Host time of recording, microseconds a token.
    pub record_us: f64,
    /// Commands of decoding.
    pub decode: Snapshot,
    /// Submissions of prefill.
    pub prefill_submits: u64,
    /// Drafts that were verified.
    pub drafted: u64,
    /// Drafts that were accepted.
    pub accepted: u64,
}

/// A second turn of a conversation.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SecondTurn {
    /// Tokens of the first turn's prompt.
    pub after: u32,
    /// Tokens that the second turn adds, of which it has to read one more: the first answer's last.
    pub tokens: u32,
    /// Tokens that it did not have to read.
    pub cached: usize,
    /// Time to the first token, ms: median.
    pub ttft_ms: f64,
}

/// Prompts of first turns, in tokens.
const FIRST_TURNS: [u32; 2] = [100, 4000];
/// Tokens of a first answer, and of a second turn.
const TURN: u32 = 32;

/// The result of a bench.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Version of the engine.
    pub version: &'static str,
    /// What ran: a shape's name, or the model's.
    pub shape: String,
    /// Weight types, or those of the model's tensors.
    pub quant: String,
    /// Lane.
    pub lane: &'static str,
    /// The model's architecture, by GGUF's name.
    pub plan: &'static str,
    /// The device.
    pub adapter: Caps,
    /// Prompt tokens.
    pub prompt: u32,
    /// Decoded tokens.
    #[serde(rename = "gen")]
    pub gen_tokens: u32,
    /// Loading and warming up, ms.
    pub load_ms: f64,
    /// Runs until speed was stable, before those that count.
    pub warm_up: u32,
    /// Every run.
    pub runs: Vec<BenchRun>,
    /// Medians over the runs.
    pub prefill_tok_s: f64,
    /// Median.
    pub decode_tok_s: f64,
    /// Median.
    pub ttft_ms: f64,
    /// Medians.
    pub latency_ms: [f64; 2],
    /// Median.
    pub record_us: f64,
    /// Dispatches a token.
    pub dispatches_per_token: f64,
    /// Submissions a token.
    pub submits_per_token: f64,
    /// Tokens a readback.
    pub tokens_per_readback: f64,
    /// Bytes of weights and cache that a token in the middle of the run reads.
    pub bytes_per_token: u64,
    /// Streaming read of this device, GB/s.
    pub streaming_gb_s: f64,
    /// `bytes_per_token` at this speed, percent of `streaming_gb_s`.
    pub percent_of_streaming: f64,
    /// Peak bytes of GPU buffers.
    pub gpu_bytes: u64,
    /// Bytes of the weights on the GPU.
    pub weight_bytes: u64,
    /// Bytes of the cache at the end: it doubles as it grows.
    pub cache_bytes: u64,
    /// How the self-test went.
    pub self_test: SelfTestInfo,
    /// What the tuner did before the warm-up.
    pub tuned: Tuned,
    /// By kernel, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profile: Vec<ProfileRow>,
    /// The prompt's last pass by kernel, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefill_profile: Vec<PrefillRow>,
    /// Passes of few rows at the end of the prompt, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub few_rows: Vec<RowsTime>,
    /// Decode steps of one row and of several, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step_rows: Vec<RowsTime>,
    /// Several answers at a time, where there is room for them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub company: Vec<Company>,
    /// Second turns, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub second_turn: Vec<SecondTurn>,
    /// Answers after a rest, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    /// Answers forced into a form, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forced: Option<Forced>,
    /// Steps with a draft model's drafts, where asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<Drafted>,
    /// Answers that copy from their prompts, with drafts and without, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub copies: Vec<Copies>,
    /// Every variant that a step could run, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelRow>,
    /// What is known of this and other devices now.
    #[serde(skip)]
    pub tuning: Tuning,
}

/// Two runs that agree this well end the warm-up.
const STABLE: f64 = 0.05;
/// Warm-up runs at most, and ms of work at least.
const MOST_WARM_UP: u32 = 8;
const LEAST_WARM_UP_MS: f64 = 300.0;

/// Loads a model, or random weights in a shape where none is given, and measures. `compiler`: of grammars, where they
/// are asked for.
pub async fn run(
    options: &Options,
    model: Option<&Files>,
    compiler: Option<&dyn Compiler>,
    report: &dyn Fn(Status),
    cancel: &Cancel,
) -> Result<Report> {
    let progress = &|progress| report(Status::Load(progress));
    let measuring = |phase, loaded, total| report(Status::Measure(Measuring { phase, loaded, total, tokens: None }));
    options.check()?;
    if options.copies && model.is_some() {
        return Err(Error::bad_option("copies: a model's weights are what they are; measure a shape"));
    }
    let shape = shapes::find(&options.shape)?;
    let quant = shapes::Quant::parse(&options.quant)?;
    let started = now_ms();
    let checkpoint = match model {
        Some(files) => Checkpoint::open(files).await?,
        None if options.copies => shapes::untied(&shape, quant)?,
        None => shapes::checkpoint(&shape, quant)?,
    };
    let turns = if options.second_turn { FIRST_TURNS[1] + 3 * TURN } else { 0 };
    // What an answer copies is no longer than its prompt.
    let longest = options.gen_tokens.max(if options.copies { options.prompt } else { 0 });
    let least = turns.max(options.prompt + longest + 1);
    let context = options.load.context.unwrap_or(least).max(least);
    let load = LoadOptions { context: Some(context), cache_start: Some(context), ..options.load.clone() };
    let (mut session, self_test) = match model {
        Some(_) => {
            let (session, self_test, _) =
                open_session(&checkpoint, &load, None, open_device(&load, cancel).await?, progress, cancel).await?;
            (session, self_test)
        }
        None => {
            let opened = open_empty(&checkpoint, &load, None, progress, cancel).await?;
            opened.0.randomize().await?;
            opened
        }
    };
    session.must_write("bench")?;
    let load_ms = now_ms() - started;
    let mut tuning = options.load.tuning.clone();
    if options.tune {
        measuring(Phase::Tune, 0, 1);
    }
    let tuned = if options.tune { session.tune(decode::BUDGET_MS, cancel).await? } else { Tuned::default() };
    tuning.set(session.gpu().caps(), session.known().clone());

    let vocab = session.model().config().vocab as u32;
    let ids = Input::from((0..options.prompt).map(|i| i.wrapping_mul(2_654_435_761) % vocab).collect::<Vec<u32>>());
    let mut warm_up = 0;
    let mut before = 0.0;
    let began = now_ms();
    loop {
        let step = Measuring { phase: Phase::WarmUp, loaded: warm_up, total: MOST_WARM_UP, tokens: None };
        let speed = one(&mut session, &ids, options, report, step, cancel).await?.decode_tok_s;
        warm_up += 1;
        let stable = (speed - before).abs() <= STABLE * speed;
        if warm_up >= MOST_WARM_UP || (stable && now_ms() - began >= LEAST_WARM_UP_MS) {
            break;
        }
        before = speed;
    }
    let mut runs = Vec::new();
    for run in 0..options.runs {
        let step = Measuring { phase: Phase::Run, loaded: run, total: options.runs, tokens: None };
        runs.push(one(&mut session, &ids, options, report, step, cancel).await?);
    }
    if options.second_turn {
        measuring(Phase::SecondTurn, 0, 1);
    }
    let second_turn = if options.second_turn { second_turns(&mut session, options, cancel).await? } else { Vec::new() };
    let form = match compiler {
        Some(compiler) if options.grammar => Some(forced::form(compiler, session.model().config().vocab).await?),
        None if options.grammar => return Err(Error::bad_option("grammar: there is no compiler of grammars")),
        _ => None,
    };
    // Its first forced answer compiles.
    let forced = match &form {
        Some(form) => Some(forced::measure(&mut session, &ids, options, form, cancel).await?),
        None => None,
    };
    let company = if options.load.concurrency.is_some_and(|n| n > 1) && session.has_steps_of_rows() {
        let mut measured = company::measure(&mut session, &ids, options, None, cancel).await?;
        if form.is_some() {
            measured.extend(company::measure(&mut session, &ids, options, form.as_ref(), cancel).await?);
        }
        measured
    } else {
        Vec::new()
    };
    let idle =
        if options.idle { Some(idle::measure(&mut session, &ids, options, report, cancel).await?) } else { None };
    let draft = match &options.draft {
        Some(name) => Some(draft::measure(&mut session, &ids, options, (name, quant), progress, cancel).await?),
        None => None,
    };
    let copies = if options.copies { copies::measure(&mut session, options, cancel).await? } else { Vec::new() };
    let median = |of: &dyn Fn(&BenchRun) -> f64| median(runs.iter().map(of).collect());
    let decode_tok_s = median(&|r| r.decode_tok_s);
    // Before the bench makes a large buffer of its own.
    let gpu_bytes = session.gpu().counters().peak_gpu_bytes();
    measuring(Phase::Profile, 0, 1);
    let streaming_gb_s = session.streaming_bandwidth().await?;
    let position = options.prompt + options.gen_tokens / 2;
    let bytes_per_token: u64 = session.plans()[Pass::Decode].steps.iter().map(|s| s.bytes_at(position)).sum();
    let profile = if options.profile { session.profile(position, streaming_gb_s).await? } else { Vec::new() };
    let prefill_profile =
        if options.profile { session.profile_prefill(options.prompt, u32::MAX).await? } else { Vec::new() };
    let few_rows = if options.profile { session.profile_few(options.prompt).await? } else { Vec::new() };
    let step_rows = if options.rows { session.profile_steps(position).await? } else { Vec::new() };
    let kernels = if options.kernel_bench {
        let filter = options.kernel_filter.as_deref().unwrap_or_default();
        session
            .kernel_bench(position, streaming_gb_s, filter, &|done, of| measuring(Phase::Kernels, done, of), cancel)
            .await?
    } else {
        Vec::new()
    };
    // A model's name, or else that of its first file, and its tensors' types.
    let about = match model {
        Some(files) => {
            let about = describe(&checkpoint, session.model(), false)?;
            let name = about.name.or_else(|| files.keys().next().cloned()).unwrap_or_default();
            Some((name, about.types.into_keys().collect::<Vec<_>>().join("+")))
        }
        None => None,
    };
    let per_token = |n: u64| n as f64 / f64::from(options.gen_tokens);
    let last = &runs[runs.len() - 1];
    Ok(Report {
        version: env!("CARGO_PKG_VERSION"),
        shape: about.as_ref().map_or_else(|| options.shape.clone(), |(name, _)| name.clone()),
        quant: about.map_or_else(|| options.quant.clone(), |(_, types)| types),
        lane: session.lane().name(),
        plan: session.model().config().architecture,
        adapter: session.gpu().caps().clone(),
        prompt: options.prompt,
        gen_tokens: options.gen_tokens,
        load_ms,
        warm_up,
        prefill_tok_s: median(&|r| r.prefill_tok_s),
        decode_tok_s,
        ttft_ms: median(&|r| r.ttft_ms),
        latency_ms: [median(&|r| r.latency_ms[0]), median(&|r| r.latency_ms[1])],
        record_us: median(&|r| r.record_us),
        dispatches_per_token: per_token(last.decode.dispatches),
        submits_per_token: per_token(last.decode.submits),
        tokens_per_readback: f64::from(options.gen_tokens) / last.decode.readbacks.max(1) as f64,
        bytes_per_token,
        streaming_gb_s,
        percent_of_streaming: bytes_per_token as f64 * decode_tok_s / streaming_gb_s / 1e7,
        gpu_bytes,
        weight_bytes: session.layout().bytes(Role::Weight),
        cache_bytes: session.layout().bytes(Role::State),
        self_test,
        tuned,
        profile,
        prefill_profile,
        few_rows,
        step_rows,
        company,
        second_turn,
        idle,
        forced,
        draft,
        copies,
        kernels,
        runs,
        tuning,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A turn that reads a prompt anew and samples the bench's number of tokens.
fn plain<'a>(prompt: &'a Input, sampling: Sampling, options: &Options, cancel: &'a Cancel) -> Turn<'a> {
    Turn {
        sequence: FIRST,
        prompt,
        sampling,
        limit: options.gen_tokens,
        afresh: true,
        resumed: false,
        extras: Extras::default(),
        constraint: None,
        speculate: options.speculate,
        cancel,
        on_progress: Box::new(|_| true),
    }
}

/// The pace of the bench's runs, which never pause.
fn pace(options: &Options) -> Pace<'static> {
    Pace { chunk: options.load.chunk, pause: &|| false, patience_ms: f64::INFINITY }
}

/// The time to the first token of second turns, after short first turns and long ones, in turns.
async fn second_turns(session: &mut Session, options: &Options, cancel: &Cancel) -> Result<Vec<SecondTurn>> {
    let vocab = session.model().config().vocab as u32;
    let sampling = SamplingOptions::default().parameters(&[], decode::RING)?;
    let mut measured =
        FIRST_TURNS.map(|after| (SecondTurn { after, tokens: TURN, cached: 0, ttft_ms: 0.0 }, Vec::new()));
    // The first round warms up.
    for run in 0..=options.runs {
        for (turn, times) in &mut measured {
            cancel.check()?;
            let mut text = Input::from(
                (0..turn.after).map(|i| (i + run).wrapping_mul(2_654_435_761) % vocab).collect::<Vec<u32>>(),
            );
            let first = Turn { limit: TURN, ..plain(&text, sampling, options, cancel) };
            let first = session.generate(first, pace(options)).await?;
            text.push_tokens(&first.tokens);
            text.push_tokens(&(0..TURN).map(|i| (i + 7).wrapping_mul(40_503) % vocab).collect::<Vec<_>>());
            let second = Turn { limit: TURN, afresh: false, ..plain(&text, sampling, options, cancel) };
            let outcome = session.generate(second, pace(options)).await?;
            turn.cached = outcome.known;
            if run > 0 {
                times.push(outcome.timings.ttft_ms);
            }
        }
    }
    Ok(measured.into_iter().map(|(turn, times)| SecondTurn { ttft_ms: median(times), ..turn }).collect())
}

async fn one(
    session: &mut Session,
    prompt: &Input,
    options: &Options,
    report: &dyn Fn(Status),
    step: Measuring,
    cancel: &Cancel,
) -> Result<BenchRun> {
    cancel.check()?;
    let sampling = SamplingOptions { temperature: f32::from(u8::from(options.sampled)), ..SamplingOptions::default() }
        .parameters(&[], decode::RING)?;
    report(Status::Measure(step));
    let mut arrivals: Vec<(f64, u32)> = Vec::new();
    let mut reported = now_ms();
    let mut so_far = 0;
    let on_progress = Box::new(|progress: decode::Progress<'_>| {
        if let decode::Progress::Tokens { ids, .. } = progress {
            let now = now_ms();
            arrivals.push((now, ids.len() as u32));
            so_far += ids.len() as u32;
            let (began, first) = arrivals[0];
            if now - reported >= REPORT_MS && arrivals.len() > 1 {
                reported = now;
                report(Status::Measure(Measuring {
                    tokens: Some((so_far, f64::from(so_far - first) * 1000.0 / (now - began))),
                    ..step
                }));
            }
        }
        true
    });
    let turn = Turn { on_progress, ..plain(prompt, sampling, options, cancel) };
    let outcome = session.generate(turn, pace(options)).await?;
    cancel.check()?;
    if outcome.tokens.len() != options.gen_tokens as usize {
        return Err(Error::internal(format!(
            "{} tokens were decoded, expected {}",
            outcome.tokens.len(),
            options.gen_tokens
        )));
    }
    let mut position = options.prompt;
    let chunks: Vec<Chunk> = arrivals
        .windows(2)
        .map(|w| {
            position += w[0].1;
            Chunk { position, tokens: w[1].1, ms: (w[1].0 - w[0].0) / f64::from(w[1].1) }
        })
        .collect();
    let mut latencies: Vec<f64> =
        chunks.iter().flat_map(|chunk| std::iter::repeat_n(chunk.ms, chunk.tokens as usize)).collect();
    latencies.sort_by(f64::total_cmp);
    let at =
        |q: f64| latencies.get((latencies.len() as f64 * q) as usize).or(latencies.last()).copied().unwrap_or_default();
    Ok(BenchRun {
        prefill_tok_s: outcome.timings.prefill_tok_s,
        // The first token comes from prefill's logits: the time is that of the others' steps.
        decode_tok_s: outcome.timings.decode_tok_s,
        ttft_ms: outcome.timings.ttft_ms,
        latency_ms: [at(0.5), at(0.95)],
        chunks,
        record_us: outcome.record_ms * 1000.0 / f64::from(options.gen_tokens),
        decode: outcome.counters,
        prefill_submits: outcome.prefill_submits,
        drafted: outcome.drafted,
        accepted: outcome.accepted,
    })
}

#[cfg(test)]
mod plans {
    use super::*;
    use crate::decode::{build_plan, build_plans};
    use crate::kernels::Caps;
    use crate::layout::{Layout, Sizes};
    use crate::model::{self, AskedPooling, Reserve};
    use crate::plan::{Asked, GrammarRoom, Lane, Selector};

    #[test]
    fn no_kernel_of_any_shape_leaves_most_threads_idle() {
        no_idle_threads(false);
    }

    #[test]
    #[ignore = "a minute: npm run test:long"]
    fn no_kernel_of_any_type_of_weights_leaves_most_threads_idle() {
        no_idle_threads(true);
    }

    /// Every kernel of every shape: at least half of the threads that it launches have something to do. All devices and
    /// lanes; without `all`, of one type of weights, and of the others the first device and the last in the default
    /// lane.
    fn no_idle_threads(all: bool) {
        let features = || vec!["subgroups".into(), "shader-f16".into()];
        let with = |subgroup: [u32; 2], max_invocations| Caps {
            features: features(),
            subgroup,
            max_invocations,
            ..Caps::least()
        };
        let devices = [with([32, 32], 512), with([32, 32], 256), with([8, 32], 256), with([4, 4], 256), Caps::least()];
        let mut idle = Vec::new();
        for (shape, quant) in shapes::SHAPES.iter().flat_map(|s| ["q4_0", "q4_k_m", "q8_0", "f16"].map(|q| (s, q))) {
            let checkpoint = shapes::checkpoint(shape, shapes::Quant::parse(quant).unwrap()).unwrap();
            let every: Vec<(&Caps, Lane)> = if all || quant == "q4_0" {
                let lanes = [Lane::Fast, Lane::F16, Lane::Float, Lane::Exact];
                devices.iter().flat_map(|caps| lanes.map(|lane| (caps, lane))).collect()
            } else {
                vec![(&devices[0], Lane::Fast), (&devices[4], Lane::Fast)]
            };
            for (caps, lane) in every.into_iter().filter(|(caps, lane)| *lane != Lane::F16 || caps.f16()) {
                let mut layout = Layout::default();
                let mut reserve = Reserve {
                    max_binding: u64::MAX,
                    quantize: None,
                    pooling: AskedPooling::Auto,
                    buffer: &mut |label, bytes| layout.weight(label, bytes),
                };
                let model = model::open(&checkpoint, &mut reserve).unwrap();
                let select = Selector::new(caps, lane, None, &[]).unwrap();
                let sizes = Sizes { rows: 512, capacity: 1152, slots: 1, ring: 32 };
                let asked = Asked {
                    extras: true,
                    grammar: Some(GrammarRoom { automaton: 1 << 14, token_bytes: 1 << 12 }),
                    rows: false,
                    drafts: false,
                };
                let plan = build_plan(model.as_ref(), &mut layout, &select, sizes, Pass::Decode, asked, None).unwrap();
                for step in &plan.steps {
                    let active = step.active(1088);
                    assert!(active > 0.0 && active <= 1.0 + 1e-9, "{} {}: {active}", shape.name, step.name);
                    // A window of 128 keys has two splits, which leave most of the sixteen lanes of what merges them
                    // idle.
                    let of_two = step.variant.kernel == "merge" && active == 2.0 / 16.0 && shape.name == "gpt-oss-20b";
                    if active < 0.5 && !of_two {
                        idle.push(format!(
                            "{} {quant} {} {:?}: {} {} {active:.2}",
                            shape.name,
                            lane.name(),
                            caps.subgroup,
                            step.name,
                            step.variant
                        ));
                    }
                }
            }
        }
        assert!(idle.is_empty(), "{} steps:\n{}", idle.len(), idle.join("\n"));
    }

    #[test]
    fn more_rows_of_experts_than_a_dispatch_holds_are_refused() {
        let checkpoint =
            shapes::checkpoint(&shapes::find("qwen3-30b-a3b").unwrap(), shapes::Quant::parse("q4_0").unwrap()).unwrap();
        let plan = |rows| {
            let mut layout = Layout::default();
            let mut reserve = Reserve {
                max_binding: u64::MAX,
                quantize: None,
                pooling: AskedPooling::Auto,
                buffer: &mut |label, bytes| layout.weight(label, bytes),
            };
            let model = model::open(&checkpoint, &mut reserve).unwrap();
            let select = Selector::new(&Caps::least(), Lane::Fast, None, &[]).unwrap();
            build_plans(
                model.as_ref(),
                &mut layout,
                &select,
                Sizes { rows, capacity: 1152, slots: 1, ring: 32 },
                Asked::default(),
            )
            .map(drop)
        };
        plan(8191).unwrap();
        let error = plan(8192).unwrap_err();
        assert_eq!(error.code(), "BAD_OPTION");
        assert!(error.message().contains("at most 8191"), "{error}");
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_before_anything_is_loaded() {
        let good = Options {
            shape: "tiny".into(),
            quant: "q8_0".into(),
            prompt: 4,
            gen_tokens: 4,
            runs: 1,
            ..Options::default()
        };
        for bad in [
            Options { shape: "x".into(), ..good.clone() },
            Options { quant: "x".into(), ..good.clone() },
            Options { prompt: 0, ..good.clone() },
            Options { gen_tokens: 0, ..good.clone() },
            Options { runs: 0, ..good.clone() },
        ] {
            let error = pollster::block_on(run(&bad, None, None, &|_| {}, &Cancel::new())).unwrap_err();
            assert_eq!(error.code(), "BAD_OPTION", "{error}");
        }
    }
}
