//! Draft models: the text equals that without one, whatever is drafted; and the cost for the loop.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use millrace::base::Cancel;
use millrace::decode::{Speculate, draft_with_gaps};
use millrace::engine::{Asked, Desk, DeviceEvent, Engine, Event, Generation, LoadOptions, Prompt, Request};
use millrace::error::Result;
use millrace::plan::Lane;
use millrace::source::Files;
use millrace::source::disk::open_path;
use pollster::block_on;

use crate::common::{self, forty_alike, leave, on_cpu};

fn files(fixture: &str) -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle").join(fixture);
    let file = [folder.join("model.gguf"), folder].into_iter().find(|path| path.exists()).expect("the fixture");
    open_path(&file).expect("the fixture")
}

fn load_draft(engine: &mut Engine, draft: &str) -> Result<()> {
    block_on(engine.load_draft(&files(draft), &|_| {}, &Cancel::new()))
}

/// A model with a draft model.
fn load(model: &str, draft: &str, options: &LoadOptions) -> Engine {
    let mut engine = common::load(&files(model), options).unwrap_or_else(|e| panic!("{model}: {e}"));
    load_draft(&mut engine, draft).unwrap_or_else(|e| panic!("{model} with {draft}: {e}"));
    engine
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

/// A prompt that does not repeat itself, so that nothing of it could be looked up.
fn ask(tokens: u32, n: u32) -> Request {
    let tokens = (0..24).map(|i| 3 + (7 * i * i + 13 * i + 31 * tokens) % 290).collect();
    Request { ignore_eos: true, reuse: false, max_tokens: Some(n), ..Request::new(Prompt::Tokens(tokens)) }
}

/// The request without drafts, and with drafts in each step.
fn both(request: &Request) -> [Request; 2] {
    [Speculate::Off, Speculate::Always].map(|speculate| Request { speculate: Some(speculate), ..request.clone() })
}

#[test]
fn no_draft_model_changes_a_text() {
    // (model, draft model, whether all drafts are right): the same weights; about the same; others; with windows, in
    // either; experts; other kinds of layers, recurrent ones in either, embeddings for each layer.
    let pairs = [
        ("gguf-q8_0", "gguf-q8_0", true),
        ("gguf-f32", "gguf-q8_0", false),
        ("gguf-q4_0", "hf-window/model", false),
        ("hf-window/model", "gguf-q4_k_m", false),
        ("gemma3-gguf", "qwen3-gguf", false),
        ("qwen3moe-gguf", "gpt2-gguf", false),
        ("gpt2-gguf", "gemma2-gguf", false),
        ("olmo2-gguf", "olmo2-gguf", true),
        ("gemma2-gguf", "gemma2-gguf", true),
        ("qwen35-gguf", "qwen3-gguf", false),
        ("qwen35-gguf", "qwen35-gguf", true),
        ("lfm2-gguf", "lfm2-gguf", true),
        ("gguf-q8_0", "falconh1-gguf", false),
        ("gemma4-gguf", "gemma3-gguf", false),
    ];
    for (model, draft, right) in pairs {
        // The GPU has one of each kind.
        let _cpu = (!["gemma2-gguf", "gguf-q4_0"].contains(&model)).then(on_cpu);
        let mut engine = load(model, draft, &exact());
        for sampled in [0.0, 0.9] {
            let [alone, drafted] = both(&Request { temperature: sampled, seed: Some(7), ..ask(1, 40) })
                .map(|request| run(&mut engine, &request));
            assert_eq!(alone.tokens, drafted.tokens, "{model} with {draft} at {sampled}");
            assert_eq!((alone.drafted_tokens, alone.accepted_tokens), (0, 0));
            // The first token is of the prompt's logits, every other step but the last reads seven drafts.
            assert!(drafted.drafted_tokens >= 28, "{model} with {draft}: {} drafts", drafted.drafted_tokens);
            if right && sampled == 0.0 {
                assert_eq!(drafted.accepted_tokens, 34, "{model} with {draft}: 39 tokens in steps of eight");
                assert!(drafted.drafted_tokens <= 35, "{model} with {draft}: {} drafts", drafted.drafted_tokens);
            }
        }
    }
}

/// Whatever is accepted, the drafts are those of a draft model that has read the text anew: what it remembers of wrong
/// ones is nothing.
#[test]
fn drafts_are_those_of_a_draft_model_that_has_read_the_text_anew() {
    let _cpu = on_cpu();
    for fixture in ["gguf-q8_0", "lfm2-gguf", "qwen35-gguf", "falconh1-gguf"] {
        let limit = 48;
        let sampled = Request { temperature: 0.8, seed: Some(3), ..ask(2, limit) };
        let mut engine = load(fixture, fixture, &exact());
        let [alone, drafted] = both(&sampled).map(|request| run(&mut engine, &request));
        assert_eq!(alone.tokens, drafted.tokens, "{fixture}");
        let Prompt::Tokens(prompt) = &sampled.prompt else { unreachable!("tokens") };
        let mut quiet = common::load(&files(fixture), &exact()).expect("a model");
        // The first token is of the prompt's logits; each step after it takes right drafts and a token of its own.
        let (mut at, mut right) = (1, 0);
        while at < limit as usize {
            let drafts = (limit as usize - at - 1).min(7);
            let said = [&prompt[..], &alone.tokens[..at]].concat();
            let greedy = Request { prompt: Prompt::Tokens(said), ..ask(0, drafts as u32) };
            let drafts = if drafts == 0 { Vec::new() } else { run(&mut quiet, &greedy).tokens };
            let taken = drafts.iter().zip(&alone.tokens[at..]).take_while(|(a, b)| a == b).count();
            right += taken as u64;
            at += taken + 1;
        }
        assert!(right > 0 && right < drafted.drafted_tokens, "{fixture}: {right} of {}", drafted.drafted_tokens);
        assert_eq!(drafted.accepted_tokens, right, "{fixture}");
    }
}

/// 40 prompts in conversations of their own and in none, some of them cancelled, with seeds, limits and chunks.
#[test]
fn forty_prompts_have_the_texts_that_they_have_without_a_draft_model() {
    let _cpu = on_cpu();
    // In chunks so short that no answer ends before it is cancelled.
    let short = || LoadOptions { chunk: Some(4), ..exact() };
    let engines = [
        (common::load(&files("gguf-f32"), &short()).expect("a model"), Speculate::Off),
        (load("gguf-f32", "gguf-q8_0", &LoadOptions { cache_start: Some(64), ..short() }), Speculate::Always),
    ];
    let request = |n: u32| {
        let tokens = (0..8 + n % 32).map(|i| 3 + (i * i * n + 7 * (n / 3) + i) % (3 + n % 60)).collect();
        Request {
            prompt: Prompt::Tokens(tokens),
            temperature: [0.0, 0.6, 1.2][n as usize % 3],
            top_k: 4 * (n % 3),
            seed: Some(u64::from(n)),
            // Longer than the draft model's first cache.
            ..ask(0, if n % 10 == 9 { 150 } else { 1 + n % 24 })
        }
    };
    let [drafted, accepted] = forty_alike(engines, request);
    assert!(accepted > 100 && drafted > accepted + 50, "{accepted} of {drafted} were right");
}

/// A later turn begins with the text of the one before, of which the draft model has read all but the end.
#[test]
fn a_draft_model_keeps_what_it_has_read() {
    let _cpu = on_cpu();
    let mut engine = load("gguf-q8_0", "gguf-q8_0", &exact());
    let first = Request { reuse: true, speculate: Some(Speculate::Always), ..ask(5, 60) };
    let Prompt::Tokens(prompt) = &first.prompt else { unreachable!("tokens") };
    let answer = run(&mut engine, &first);
    let longer = [&prompt[..], &answer.tokens, &[5, 9, 14]].concat();
    let before = engine.info().memory.total;
    let second = Request { prompt: Prompt::Tokens(longer), max_tokens: Some(17), ..first.clone() };
    let [alone, drafted] = both(&second).map(|request| run(&mut engine, &request));
    assert_eq!(alone.tokens, drafted.tokens);
    // Had its cache other texts than it counts on, its drafts would be wrong.
    assert_eq!(drafted.accepted_tokens, 14, "of 17 tokens one is of the prompt's logits, sixteen of two steps");
    // Cancelled answers and other prompts between.
    for n in 0..6 {
        let other = Request { max_tokens: Some(60), ..ask(20 + n, 0) };
        let asked = Request { reuse: true, speculate: Some(Speculate::Always), ..other };
        leave(&mut engine, &asked, n);
        let again = run(&mut engine, &Request { max_tokens: Some(17), ..asked });
        assert_eq!(again.accepted_tokens, 14, "{n}");
    }
    assert!(engine.info().memory.total <= 2 * before, "texts that are kept are few");
}

#[test]
fn every_lane_takes_the_drafts_of_a_model() {
    for lane in [Lane::Fast, Lane::Float, Lane::F16] {
        for subgroups in [true, false] {
            let mut engine = load("gguf-q4_0", "gguf-q4_0", &LoadOptions { lane, subgroups, ..LoadOptions::default() });
            let alone = run(&mut engine, &Request { logprobs: Some(2), ..ask(5, 33) });
            let drafted = run(&mut engine, &both(&ask(5, 33))[1]);
            // Products of several rows round otherwise than those of one.
            if let Some(at) = alone.tokens.iter().zip(&drafted.tokens).position(|(a, b)| a != b) {
                let likeliest = &alone.logprobs.as_ref().expect("they were asked for")[at].top;
                let other = likeliest.iter().find(|one| one.id == drafted.tokens[at]);
                let gap = other.map(|one| likeliest[0].logprob - one.logprob);
                assert!(gap.is_some_and(|gap| gap < 0.02), "{} {subgroups}: token {at}, {gap:?}", lane.name());
            }
            assert!(drafted.accepted_tokens >= 20, "{} {subgroups}: {}", lane.name(), drafted.accepted_tokens);
        }
    }
}

#[test]
fn drafts_of_a_model_cost_the_loop_nothing() {
    let mut engine = load("gguf-q8_0", "gguf-q8_0", &LoadOptions { chunk: Some(16), ..LoadOptions::default() });
    let request = &both(&ask(5, 65))[1];
    run(&mut engine, request);
    let drafted = run(&mut engine, request);
    let c = drafted.counters;
    assert_eq!(c.created, 0, "nothing is created while decoding: {c:?}");
    // Eight tokens a step, two steps for each sixteen tokens that a chunk is wanted to have; and what reads the prompt.
    assert!(c.submits <= 14 && c.readbacks <= 8, "{c:?}");
    assert!(drafted.accepted_tokens >= 30, "{}", drafted.accepted_tokens);
}

/// Where steps without drafts come between those with them, the draft model reads what it has missed: the same weights
/// draft nothing wrong, unless their cache lacks a part of the text.
#[test]
fn a_draft_model_that_rests_catches_up() {
    let _cpu = on_cpu();
    let mut engine = load("gguf-f32", "gguf-f32", &LoadOptions { together: Some(true), chunk: Some(4), ..exact() });
    assert!(engine.info().warnings.is_empty(), "{:?}", engine.info().warnings);
    let [alone, drafted] = both(&ask(1, 200));
    let alone = run(&mut engine, &alone);
    // First, while the draft model's cache has nothing of this text.
    draft_with_gaps(Some(24));
    let gaps = run(&mut engine, &drafted);
    draft_with_gaps(None);
    let whole = run(&mut engine, &drafted);
    assert_eq!((&gaps.tokens, &whole.tokens), (&alone.tokens, &alone.tokens));
    assert!((40..whole.drafted_tokens).contains(&gaps.drafted_tokens), "{}", gaps.drafted_tokens);
    for text in [whole, gaps] {
        assert_eq!(text.accepted_tokens, text.drafted_tokens);
    }
    // What pays is told by times, of which nothing is known here.
    let auto = run(&mut engine, &Request { speculate: Some(Speculate::Auto), ..drafted });
    assert_eq!(auto.tokens, alone.tokens);
}

#[test]
fn drafts_end_with_the_draft_models_context() {
    let _cpu = on_cpu();
    let options = LoadOptions { context: Some(600), ..exact() };
    let mut engine = load("hf-window/model", "gguf-q8_0", &options);
    let warned = engine.info().warnings.join("\n");
    assert!(warned.contains("ends at 512 tokens of 600"), "{warned}");
    let prompt = Prompt::Tokens((0..490).map(|i| 3 + (i * i) % 290).collect());
    let [alone, drafted] = both(&Request { prompt, ..ask(0, 100) }).map(|request| run(&mut engine, &request));
    assert_eq!(alone.tokens, drafted.tokens);
    assert!((7..200).contains(&drafted.drafted_tokens), "{}", drafted.drafted_tokens);
}

/// Where a draft model is loaded, answers use it unless they say otherwise.
#[test]
fn a_draft_model_is_the_default_and_says_what_it_is() {
    let mut engine = load("gguf-q8_0", "gguf-q4_0", &LoadOptions { cache_start: Some(64), ..exact() });
    let about = engine.info().draft.expect("a draft model");
    assert_eq!((about.architecture.as_str(), about.vocab), ("llama", 301));
    let plan = engine.plan_rows();
    assert!(plan.iter().any(|row| row.step.starts_with("draft.") && row.pass == "decode"), "its plan is shown");
    let edition = engine.plan_edition();
    // In lane exact it would not pay, of which a warning tells.
    assert!(engine.info().warnings.iter().any(|warning| warning.contains("lane exact")));
    assert_eq!(run(&mut engine, &ask(1, 20)).drafted_tokens, 0);
    assert!(run(&mut engine, &both(&ask(1, 50))[1]).drafted_tokens > 0);
    assert_ne!(edition, engine.plan_edition(), "its cache has grown");
}

#[test]
fn answers_in_company_and_with_penalties_need_no_draft_model() {
    let _cpu = on_cpu();
    let mut engine =
        load("gguf-q8_0", "gguf-q8_0", &LoadOptions { concurrency: Some(3), together: Some(true), ..exact() });
    let asked: Vec<Request> = (0..3).map(|n| Request { speculate: Some(Speculate::Auto), ..ask(n, 30) }).collect();
    let penalized = Request { presence_penalty: 0.5, speculate: Some(Speculate::Auto), ..ask(1, 30) };
    assert_eq!(run(&mut engine, &penalized).drafted_tokens, 0);
    let alone: Vec<Vec<u32>> = asked.iter().map(|request| run(&mut engine, request).tokens).collect();
    // One of them drafts in turns of its own.
    let always = Request { speculate: Some(Speculate::Always), ..asked[2].clone() };
    let desk = Desk::default();
    let texts: Rc<std::cell::RefCell<Vec<(usize, Generation)>>> = Rc::default();
    for (n, request) in [&asked[0], &asked[1], &always].into_iter().enumerate() {
        let texts = texts.clone();
        desk.ask(Asked {
            request: request.clone(),
            on_event: Box::new(|_| {}),
            cancel: Cancel::new(),
            done: Box::new(move |text| texts.borrow_mut().push((n, text.expect("a text")))),
        });
    }
    block_on(engine.serve(&desk, &|_| {}));
    let mut texts = texts.take();
    texts.sort_by_key(|(n, _)| *n);
    for ((n, text), alone) in texts.iter().zip(&alone) {
        assert_eq!(&text.tokens, alone, "{n}");
        assert!(text.drafted_tokens > 0 || *n < 2, "{n}");
    }
}

#[test]
fn a_lost_device_brings_the_draft_model_back() {
    let mut engine = load("gguf-q8_0", "gguf-q8_0", &exact());
    let request = &both(&ask(3, 100))[1];
    let whole = run(&mut engine, request);
    let device = engine.device();
    let restored = Rc::new(Cell::new(false));
    let heard = restored.clone();
    engine.on_device(Rc::new(move |event| {
        if let DeviceEvent::Restored { info, .. } = event {
            heard.set(info.draft.is_some());
        }
    }));
    let mut deltas = 0;
    let lost = &mut |event: Event<'_>| {
        deltas += u32::from(matches!(event, Event::Delta(_)));
        if deltas == 4 {
            device.lose();
            deltas += 1;
        }
    };
    let again = block_on(engine.generate(request, lost, &Cancel::new())).expect("it goes on");
    assert_eq!((again.recoveries, &again.tokens), (1, &whole.tokens));
    assert!(restored.get(), "the draft model is there again");
    assert!(again.accepted_tokens > 50, "it drafts on: {}", again.accepted_tokens);
}

#[test]
fn what_cannot_draft_says_so() {
    let _cpu = on_cpu();
    let mut engine = common::load(&files("gguf-q8_0"), &exact()).expect("a model");
    let before = run(&mut engine, &ask(1, 12)).tokens;
    let error = load_draft(&mut engine, "../../../www/models/box.gguf").expect_err("other tokens");
    assert_eq!(error.code(), "BAD_OPTION", "{error}");
    assert!(error.message().contains("draft") && error.message().contains("vocabulary"), "{error}");
    assert!(engine.info().draft.is_none());
    assert_eq!(run(&mut engine, &ask(1, 12)).tokens, before);
    let mut reads = common::load(&files("../embed/qwen3-gguf"), &exact()).expect("a model that embeds");
    let error = load_draft(&mut reads, "gguf-q8_0").expect_err("it does not write");
    assert_eq!(error.code(), "UNSUPPORTED_MODEL", "{error}");
    assert!(error.message().contains("draft"), "{error}");
}

/// How far apart two samples of the same draws are: chi-squared over its degrees of freedom.
fn apart(a: &[u32], b: &[u32]) -> f64 {
    let (mut counts, mut rest) = (Vec::new(), [0.0; 2]);
    for id in 0..301 {
        let of = |sample: &[u32]| sample.iter().filter(|other| **other == id).count() as f64;
        match [of(a), of(b)] {
            few if few[0] + few[1] < 16.0 => rest = [rest[0] + few[0], rest[1] + few[1]],
            enough => counts.push(enough),
        }
    }
    counts.push(rest);
    let [all_a, all_b] = [a.len() as f64, b.len() as f64];
    let each = counts.iter().filter(|c| c[0] + c[1] > 0.0).map(|[a, b]| {
        let expected = [(a + b) * all_a / (all_a + all_b), (a + b) * all_b / (all_a + all_b)];
        (a - expected[0]).powi(2) / expected[0] + (b - expected[1]).powi(2) / expected[1]
    });
    let freedom = (counts.len() - 1).max(1) as f64;
    each.sum::<f64>() / freedom
}

/// Draws of the third token with a draft model, by other seeds than those without.
fn distributions(draws: u64) -> f64 {
    let mut engine = load("gguf-f32", "gguf-q8_0", &LoadOptions { lane: Lane::Fast, ..LoadOptions::default() });
    let [alone, drafted] = both(&Request { temperature: 1.3, reuse: true, ..ask(1, 3) });
    let mut third = |request: &Request, seed| {
        *run(&mut engine, &Request { seed: Some(seed), ..request.clone() }).tokens.last().expect("a token")
    };
    let without: Vec<u32> = (0..draws).map(|n| third(&alone, n)).collect();
    let with: Vec<u32> = (0..draws).map(|n| third(&drafted, draws + n)).collect();
    apart(&without, &with)
}

#[test]
fn a_draft_model_keeps_the_distribution() {
    let _cpu = on_cpu();
    // With hundreds of degrees of freedom the quotient is 1 with a standard deviation of a tenth.
    let found = distributions(1_500);
    assert!(found < 1.5, "{found}");
    let shifted = apart(&[vec![3; 300], vec![4; 200]].concat(), &[vec![3; 200], vec![4; 300]].concat());
    assert!(shifted > 5.0, "the measure sees a difference: {shifted}");
}

#[test]
#[ignore = "20,000 draws twice: npm run test:long"]
fn a_draft_model_keeps_the_distribution_over_20_000_draws() {
    let _cpu = on_cpu();
    let found = distributions(20_000);
    assert!(found < 1.3, "{found}");
}
