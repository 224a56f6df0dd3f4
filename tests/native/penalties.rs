//! Penalties, bias and log probabilities against the model's own logits, which are read back for the tests alone.

use std::collections::BTreeMap;

use millrace::ErrorKind;
use millrace::base::Cancel;
use millrace::engine::{Engine, Event, Faults, Generation, LoadOptions, Overflow, Prompt, Request};
use millrace::plan::Lane;
use pollster::block_on;

use crate::common::on_cpu;
use crate::decode_loop::{ask, load, run};
use crate::device_lost::disturbed;

const PROMPT: [u32; 4] = [5, 17, 99, 3];

/// The logits at each position of an answer, from the engine that gave it.
fn logits_of(engine: &mut Engine, tokens: &[u32]) -> Vec<Vec<f32>> {
    let text = [&PROMPT, tokens].concat();
    let request = Request {
        logits: true,
        logits_from: Some(PROMPT.len() as u32 - 1),
        max_tokens: Some(1),
        ..Request::new(Prompt::Tokens(text))
    };
    run(engine, &request).all_logits.expect("logits")
}

/// A position's logits after the penalties.
fn adjusted(request: &Request, logits: &[f32], answer: &[u32]) -> Vec<f64> {
    let of = |(id, x): (usize, &f32)| {
        let count = answer.iter().filter(|t| **t as usize == id).count();
        let mut y = f64::from(*x);
        if count > 0 || PROMPT.iter().any(|t| *t as usize == id) {
            let r = f64::from(request.repetition_penalty);
            y = if y > 0.0 { y / r } else { y * r };
        }
        y -= f64::from(request.frequency_penalty) * count as f64;
        if count > 0 {
            y -= f64::from(request.presence_penalty);
        }
        y + f64::from(request.logit_bias.get(&(id as u32)).copied().unwrap_or(0.0))
    };
    logits.iter().enumerate().map(of).collect()
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let largest = f64::from(logits.iter().copied().fold(f32::MIN, f32::max));
    let sum: f64 = logits.iter().map(|x| (f64::from(*x) - largest).exp()).sum();
    logits.iter().map(|x| f64::from(*x) - largest - sum.ln()).collect()
}

fn penalized(n: u32) -> Request {
    Request {
        presence_penalty: 0.4,
        frequency_penalty: 0.3,
        repetition_penalty: 1.2,
        logit_bias: BTreeMap::from([(7, 1.0), (9, -100.0), (17, -0.5)]),
        logprobs: Some(5),
        ..ask(n)
    }
}

#[test]
fn each_token_is_the_best_of_the_penalized_logits() {
    for chunk in [16, 1, 32] {
        let _cpu = (chunk != 16).then(on_cpu);
        let mut engine = load(&LoadOptions { lane: Lane::Exact, chunk: Some(chunk), ..LoadOptions::default() });
        let plain = run(&mut engine, &ask(70)).tokens;
        for request in [
            penalized(70),
            Request { presence_penalty: 1.5, ..ask(40) },
            Request { frequency_penalty: 0.7, ..ask(40) },
            Request { repetition_penalty: 1.5, ..ask(40) },
        ] {
            let result = run(&mut engine, &request);
            assert_ne!(result.tokens, plain[..result.tokens.len()], "a penalty that changes nothing proves nothing");
            let logits = logits_of(&mut engine, &result.tokens);
            for (i, token) in result.tokens.iter().enumerate() {
                let wanted = adjusted(&request, &logits[i], &result.tokens[..i]);
                let best = wanted.iter().copied().fold(f64::MIN, f64::max);
                assert!(
                    best - wanted[*token as usize] < 1e-4,
                    "chunk {chunk}, token {i}: {token} at {}, the best is {best}",
                    wanted[*token as usize]
                );
            }
        }
    }
}

#[test]
fn log_probabilities_are_the_models_own() {
    for (chunk, temperature) in [(16, 0.0), (1, 0.0), (32, 1.3)] {
        let _cpu = (chunk != 16).then(on_cpu);
        let mut engine = load(&LoadOptions { lane: Lane::Exact, chunk: Some(chunk), ..LoadOptions::default() });
        let request = Request { temperature, seed: Some(3), ..penalized(70) };
        let result = run(&mut engine, &request);
        let scored = result.logprobs.as_ref().expect("log probabilities");
        assert_eq!(scored.len(), 70);
        let logits = logits_of(&mut engine, &result.tokens);
        for (i, one) in scored.iter().enumerate() {
            let expected = log_softmax(&logits[i]);
            let near = |id: u32, logprob: f32| (expected[id as usize] - f64::from(logprob)).abs() < 1e-4;
            assert_eq!(one.token.id, result.tokens[i]);
            assert!(
                near(one.token.id, one.token.logprob),
                "{i}: {one:?}, expected {}",
                expected[one.token.id as usize]
            );
            let mut best: Vec<usize> = (0..expected.len()).collect();
            best.sort_by(|a, b| expected[*b].total_cmp(&expected[*a]));
            assert_eq!(one.top.len(), 5);
            for (n, top) in one.top.iter().enumerate() {
                assert!(
                    near(top.id, top.logprob) && (expected[best[n]] - f64::from(top.logprob)).abs() < 1e-4,
                    "{i}: {n} of {one:?}"
                );
            }
            assert!(one.top.windows(2).all(|pair| pair[0].logprob >= pair[1].logprob));
        }
    }
}

#[test]
fn deltas_carry_them_and_the_text_is_the_same_with_and_without() {
    let mut engine = load(&LoadOptions { chunk: Some(5), ..LoadOptions::default() });
    let plain = Request { temperature: 0.9, seed: Some(7), ..ask(40) };
    let asked = Request { logprobs: Some(0), ..plain.clone() };
    let mut streamed = Vec::new();
    let mut hear = |event: Event<'_>| {
        if let Event::Delta(delta) = event {
            streamed.extend_from_slice(&delta.logprobs);
        }
    };
    let result = block_on(engine.generate(&asked, &mut hear, &Cancel::new())).unwrap();
    let all = result.logprobs.expect("log probabilities");
    assert_eq!(all, streamed);
    assert!(all.iter().all(|one| one.top.is_empty() && one.token.logprob < 0.0));
    let without = run(&mut engine, &plain);
    assert_eq!((without.tokens, without.logprobs), (result.tokens, None));
}

#[test]
fn the_end_token_has_none() {
    let mut engine = load(&LoadOptions::default());
    let eos = engine.tokenizer().eos_ids()[0];
    let request =
        Request { ignore_eos: false, logit_bias: BTreeMap::from([(eos, 100.0)]), logprobs: Some(1), ..ask(10) };
    let result = run(&mut engine, &request);
    assert_eq!((result.tokens.as_slice(), result.logprobs), (&[eos][..], Some(Vec::new())));
}

#[test]
fn bias_forces_and_forbids() {
    let mut engine = load(&LoadOptions::default());
    let with =
        |id, bias| Request { logit_bias: BTreeMap::from([(id, bias)]), temperature: 1.0, seed: Some(1), ..ask(20) };
    assert_eq!(run(&mut engine, &with(42, 100.0)).tokens, [42; 20]);
    let often = run(&mut engine, &ask(20)).tokens[0];
    assert!(!run(&mut engine, &with(often, -100.0)).tokens.contains(&often));
    // No effect is left for the next request.
    assert_eq!(run(&mut engine, &ask(20)).tokens[0], often);
    assert_eq!(run(&mut engine, &Request { logprobs: Some(0), ..ask(20) }).tokens[0], often);
}

#[test]
fn they_cost_three_dispatches_and_no_readback() {
    let mut engine = load(&LoadOptions { chunk: Some(16), ..LoadOptions::default() });
    let count = |result: Generation| {
        (result.counters.dispatches, result.counters.readbacks, result.counters.submits, result.counters.created)
    };
    let (dispatches, readbacks, submits, _) = count(run(&mut engine, &ask(64)));
    let memory = engine.info().memory.total;
    // The first run compiles, before it begins to count.
    for _ in 0..2 {
        let scored = count(run(&mut engine, &Request { logprobs: Some(20), ..ask(64) }));
        assert_eq!(scored, (dispatches + 3 * 64, readbacks, submits, 0));
        let penalized = count(run(&mut engine, &Request { presence_penalty: 1.0, ..ask(64) }));
        assert_eq!(penalized, (dispatches + 64, readbacks, submits, 0));
        assert_eq!(count(run(&mut engine, &ask(64))), (dispatches, readbacks, submits, 0));
    }
    let vocab = engine.info().model.vocab as u64;
    let more = engine.info().memory.total - memory;
    assert!(more < 12 * vocab + 32_768, "{more} bytes for {vocab} tokens");
    let steps: Vec<_> = engine
        .info()
        .plan
        .into_iter()
        .filter(|row| row.pass == "decode" && row.step.starts_with("sample."))
        .map(|row| row.kernel)
        .collect();
    assert!(
        steps.starts_with(&["penalize", "logprobs", "logit_stats"])
            && steps.ends_with(&["pick", "logprobs_append", "advance"]),
        "{steps:?}"
    );
}

#[test]
fn what_was_said_counts_on_after_growth_a_shift_and_a_loss() {
    let _cpu = on_cpu();
    let options = LoadOptions {
        chunk: Some(1),
        cache_start: Some(64),
        faults: Faults { loss_interval_ms: Some(0.0), ..Faults::default() },
        ..LoadOptions::default()
    };
    let mut engine = load(&options);
    let request = Request { reuse: false, ..penalized(150) };
    let whole = run(&mut engine, &request);
    let lost = disturbed(&mut engine, &request, &[20, 90]).unwrap();
    assert_eq!((lost.recoveries, &lost.tokens, &lost.logprobs), (2, &whole.tokens, &whole.logprobs));
    // A token that may come only once: that holds across growth of the cache and shifts.
    let mut engine = load(&LoadOptions { context: Some(128), ..options });
    let once = Request {
        overflow: Overflow::Shift,
        frequency_penalty: 2.0,
        presence_penalty: 2.0,
        repetition_penalty: 1e6,
        ..ask(150)
    };
    let result = run(&mut engine, &once);
    assert!(result.shifts > 0);
    for (i, token) in result.tokens.iter().enumerate().take(100) {
        assert!(!result.tokens[..i].contains(token), "token {i}, {token}, came before");
    }
}

#[test]
fn what_is_out_of_range_is_named() {
    let mut engine = load(&LoadOptions::default());
    for (named, request) in [
        ("presencePenalty must be a number from -2 to 2, not 3", Request { presence_penalty: 3.0, ..ask(1) }),
        ("repetitionPenalty", Request { repetition_penalty: 0.0, ..ask(1) }),
        ("logprobs must be", Request { logprobs: Some(21), ..ask(1) }),
        ("token 99999", Request { logit_bias: BTreeMap::from([(99_999, 1.0)]), ..ask(1) }),
        ("numbers from -100 to 100, not 3 to 101", Request { logit_bias: BTreeMap::from([(3, 101.0)]), ..ask(1) }),
        ("numbers from -100 to 100, not 3 to null", Request { logit_bias: BTreeMap::from([(3, f32::NAN)]), ..ask(1) }),
    ] {
        let error = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).expect_err(named);
        assert_eq!(error.kind(), ErrorKind::BadOption);
        assert!(error.message().contains(named), "{error}");
    }
}
