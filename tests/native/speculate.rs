//! Steps of several rows: the text equals that of steps of one row, whatever was drafted; and the cost for the loop.

use std::path::Path;

use millrace::base::Cancel;
use millrace::engine::{Engine, Event, FinishReason, Generation, LoadOptions, Prompt, Request};
use millrace::layout::Kv;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use millrace::{Result, decode::Speculate};
use pollster::block_on;

use crate::common::{self, EACH_KIND, forty_alike, on_cpu, on_gpu};

fn load(fixture: &str, options: &LoadOptions) -> Engine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle").join(fixture);
    let file =
        ["model.gguf", ""].map(|name| folder.join(name)).into_iter().find(|path| path.exists()).expect("the fixture");
    common::load(&open_path(&file).expect("the fixture"), options).unwrap_or_else(|e| panic!("{fixture}: {e}"))
}

fn exact() -> LoadOptions {
    LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }
}

fn try_run(engine: &mut Engine, request: &Request) -> Result<Generation> {
    block_on(engine.generate(request, &mut |_| {}, &Cancel::new()))
}

fn run(engine: &mut Engine, request: &Request) -> Generation {
    try_run(engine, request).expect("a generation")
}

/// A prompt that repeats itself, so that there is much to draft, most of it wrong.
fn ask(n: u32, seed: u32) -> Request {
    let tokens = (0..40).map(|i| 3 + (i * i + seed) % 7 + seed).collect();
    Request { ignore_eos: true, reuse: false, max_tokens: Some(n), ..Request::new(Prompt::Tokens(tokens)) }
}

/// The request without drafts, and with drafts in each step.
fn both(request: &Request) -> [Request; 2] {
    [Speculate::Off, Speculate::Always].map(|speculate| Request { speculate: Some(speculate), ..request.clone() })
}

/// With each kind of layer.
#[test]
fn no_draft_changes_the_text_of_any_kind_of_layer() {
    let mut accepted = 0;
    for fixture in EACH_KIND {
        // The GPU has one of each kind of step: products, experts, windows and norms behind layers, convolutions, linear
        // attention, embeddings for each layer.
        let on_gpu =
            ["gguf-q4_k_m", "gemma3-gguf", "qwen3moe-gguf", "lfm2-gguf", "qwen35-gguf", "falconh1-gguf", "gemma4-gguf"];
        let _cpu = (!on_gpu.contains(&fixture)).then(on_cpu);
        let mut engine = load(fixture, &exact());
        let [alone, drafted] = both(&ask(40, 5)).map(|request| run(&mut engine, &request));
        assert_eq!(alone.tokens, drafted.tokens, "{fixture}");
        assert_eq!((alone.drafted_tokens, alone.accepted_tokens), (0, 0));
        accepted += drafted.accepted_tokens;
    }
    assert!(accepted > 50, "{accepted} drafts were right");
}

/// Products of several rows round otherwise than those of one, which decides between equally likely tokens at most.
#[test]
fn every_lane_takes_drafts_with_and_without_subgroups() {
    // Rows of gemma4-gguf have 32 numbers, which int8 rounds too much to compare texts.
    let kinds = [
        (Lane::Fast, [("gguf-q4_0", true), ("gguf-q4_0", false), ("qwen35-gguf", true)]),
        (Lane::Float, [("gguf-q4_0", true), ("gemma3-gguf", true), ("lfm2-gguf", false)]),
        (Lane::F16, [("gguf-q4_0", true), ("gguf-q4_0", false), ("gemma4-gguf", true)]),
    ];
    for (lane, kinds) in kinds {
        let mut drafts = 0;
        for (fixture, subgroups) in kinds {
            let mut engine = load(fixture, &LoadOptions { lane, subgroups, ..LoadOptions::default() });
            let alone = run(&mut engine, &Request { logprobs: Some(2), ..ask(40, 5) });
            let drafted = run(&mut engine, &both(&ask(40, 5))[1]);
            if let Some(at) = alone.tokens.iter().zip(&drafted.tokens).position(|(a, b)| a != b) {
                let likeliest = &alone.logprobs.as_ref().expect("they were asked for")[at].top;
                let gap = likeliest
                    .iter()
                    .find(|one| one.id == drafted.tokens[at])
                    .map(|one| likeliest[0].logprob - one.logprob);
                assert!(
                    gap.is_some_and(|gap| gap < 0.02),
                    "{fixture} {} subgroups {subgroups}: token {at} is another, {gap:?} less likely",
                    lane.name()
                );
            }
            drafts += drafted.drafted_tokens;
        }
        assert!(drafts > 20, "{}: {drafts}", lane.name());
    }
}

#[test]
fn drafts_keep_seeds_limits_stops_and_chunks() {
    let _cpu = on_cpu();
    let mut engine = load("gguf-q8_0", &exact());
    for seed in 0..12 {
        let sampled = Request {
            temperature: 0.7,
            seed: Some(u64::from(seed)),
            top_k: 4 * (seed % 3),
            top_p: [1.0, 0.8][seed as usize % 2],
            ..ask(1 + 9 * seed, seed)
        };
        let [alone, drafted] = both(&sampled).map(|request| run(&mut engine, &request));
        assert_eq!(alone.tokens, drafted.tokens, "{seed}");
        assert_eq!(drafted.finish_reason, FinishReason::Length);
    }
    // A stop text ends the answer, though further steps have run.
    let whole = run(&mut engine, &ask(60, 1));
    let at = whole.text.char_indices().nth(whole.text.chars().count() / 2).map_or(0, |(at, _)| at);
    let stop: String = whole.text[at..].chars().take(3).collect();
    for request in both(&Request { stop: vec![stop.clone()], ..ask(60, 1) }) {
        let ended = run(&mut engine, &request);
        assert_eq!(
            (ended.finish_reason, ended.text.as_str()),
            (FinishReason::Stop, &whole.text[..whole.text.find(&stop).expect("it is in there")])
        );
        // Cache entries of rejected rows have no effect on a later turn.
        let again = Request {
            reuse: true,
            prompt: Prompt::Tokens(
                [&(0..40).map(|i| 3 + (i * i + 1) % 7 + 1).collect::<Vec<_>>()[..], &whole.tokens[..20]].concat(),
            ),
            ..ask(30, 1)
        };
        assert_eq!(run(&mut engine, &again).tokens, whole.tokens[20..50]);
    }
    for chunk in [1, 3, 32] {
        let _gpu = (chunk == 3).then(on_gpu);
        let mut engine = load("gguf-q8_0", &LoadOptions { chunk: Some(chunk), ..exact() });
        assert_eq!(run(&mut engine, &both(&ask(60, 1))[1]).tokens, whole.tokens, "{chunk}");
    }
    // The cache grows on the way, and the context ends.
    for kv in [Kv::F32, Kv::F16, Kv::Q8] {
        let mut small =
            load("gguf-q8_0", &LoadOptions { context: Some(160), cache_start: Some(64), kv: Some(kv), ..exact() });
        let [alone, drafted] =
            both(&Request { max_tokens: None, ..ask(0, 2) }).map(|request| run(&mut small, &request));
        assert_eq!((alone.tokens.len(), &alone.tokens), (120, &drafted.tokens), "{kv:?}");
    }
}

#[test]
fn a_cancellation_in_the_last_piece_cuts_nothing_off() {
    let _cpu = on_cpu();
    let mut engine = load("gguf-q8_0", &LoadOptions { chunk: Some(8), ..exact() });
    for (after, reason) in [(2, FinishReason::Abort), (20, FinishReason::Length)] {
        let (cancel, mut tokens) = (Cancel::new(), 0);
        let hear = &mut |event: Event<'_>| {
            if let Event::Delta(delta) = event {
                tokens += delta.tokens.len();
                if tokens >= after {
                    cancel.cancel();
                }
            }
        };
        let ended = block_on(engine.generate(&ask(20, 1), hear, &cancel)).expect("an answer");
        assert_eq!((ended.finish_reason, ended.tokens.len() == 20), (reason, after == 20));
    }
}

/// 40 prompts in one sequence, each with and without drafts and some of them cancelled.
#[test]
fn forty_prompts_have_the_texts_that_they_have_without_drafts() {
    let _cpu = on_cpu();
    forty_prompts("gguf-q4_0");
    // With states that wrong drafts must not change.
    forty_prompts("qwen35-gguf");
}

fn forty_prompts(fixture: &str) {
    // In chunks so short that no answer ends before it is cancelled.
    let load = || load(fixture, &LoadOptions { chunk: Some(4), ..exact() });
    let engines = [(load(), Speculate::Off), (load(), Speculate::Always)];
    let request = |n: u32| {
        let tokens = (0..8 + n % 32).map(|i| 3 + (i * i * n + 7 * n) % (3 + n % 60)).collect();
        Request {
            prompt: Prompt::Tokens(tokens),
            temperature: [0.0, 0.6, 1.2][n as usize % 3],
            seed: Some(u64::from(n)),
            ..ask(16 + n % 24, 0)
        }
    };
    let [drafted, accepted] = forty_alike(engines, request);
    assert!(accepted > 10 && drafted > accepted + 50, "{accepted} of {drafted} were right");
}

#[test]
fn drafts_cost_the_loop_nothing() {
    let mut engine = load("gguf-q8_0", &LoadOptions { chunk: Some(16), ..LoadOptions::default() });
    let request = &both(&ask(64, 5))[1];
    let first = run(&mut engine, request);
    let c = run(&mut engine, request).counters;
    assert_eq!(c.created, 0, "nothing is created while decoding: {c:?}");
    // Fewer steps, so fewer of each; a chunk's slots are nine words a step.
    assert!(c.submits <= 64 && c.readbacks <= 7, "{c:?}");
    assert_eq!(c.readback_bytes % 36, 0, "{c:?}");
    assert!(first.accepted_tokens > 0);
    // Until drafts are known to pay, steps of several rows are not even compiled.
    let mut engine = load("gguf-q8_0", &LoadOptions::default());
    assert_eq!(run(&mut engine, &ask(20, 5)).drafted_tokens, 0);
}

#[test]
fn what_cannot_be_drafted_says_so() {
    let mut engine = load("gguf-q8_0", &exact());
    let always = Request { speculate: Some(Speculate::Always), ..ask(4, 1) };
    for request in [
        Request { presence_penalty: 1.0, ..always.clone() },
        Request { logprobs: Some(2), ..always.clone() },
        Request { logit_bias: [(3, 1.0)].into(), ..always.clone() },
    ] {
        let error = try_run(&mut engine, &request).expect_err("no drafts");
        assert_eq!(error.code(), "BAD_OPTION");
        assert!(error.message().contains("speculate"), "{error}");
        assert!(try_run(&mut engine, &Request { speculate: Some(Speculate::Auto), ..request }).is_ok());
    }
}
