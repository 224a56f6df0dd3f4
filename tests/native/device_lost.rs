//! Recovery from device loss: conversations are restored, and answers in progress continue with the same text; only the
//! listener is notified.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use millrace::base::{Cancel, Phase};
use millrace::engine::{
    Device, DeviceEvent, Engine, Event, Faults, FinishReason, Generation, LoadOptions, Overflow, Prompt, Request,
};
use millrace::layout::Kv;
use millrace::plan::Lane;
use millrace::source::{ByteSource, Files, disk::open_path};
use millrace::store::Memory;
use millrace::{Error, Result};
use pollster::block_on;

use crate::common::{self, on_cpu};
use crate::decode_loop::{load, run};

fn model(path: &str) -> Files {
    open_path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle").join(path)).unwrap()
}

fn load_from(files: &Files, options: &LoadOptions) -> Engine {
    common::load(files, options).unwrap()
}

/// Allows any number of losses.
fn often(lane: Lane) -> LoadOptions {
    LoadOptions { lane, faults: Faults { loss_interval_ms: Some(0.0), ..Faults::default() }, ..LoadOptions::default() }
}

fn ids(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i * 37 + seed * 101) % 290 + 1).collect()
}

fn ask(prompt: &[u32], n: u32) -> Request {
    Request {
        ignore_eos: true,
        max_tokens: Some(n),
        temperature: 0.9,
        seed: Some(7),
        ..Request::new(Prompt::Tokens(prompt.to_vec()))
    }
}

/// Runs a request and destroys the device at each number of tokens in `losses`; the deltas must make up the result.
/// Chunks submitted before a loss may still arrive: only with chunks of one token is a loss in the middle sure to be
/// noticed.
pub fn disturbed(engine: &mut Engine, request: &Request, losses: &[usize]) -> Result<Generation> {
    let device = engine.device();
    let (mut text, mut tokens, mut losses) = (String::new(), Vec::new(), losses.to_vec());
    let result = block_on(engine.generate(
        request,
        &mut |event| {
            let Event::Delta(delta) = event else { return };
            text.push_str(&delta.text);
            tokens.extend_from_slice(&delta.tokens);
            let before = losses.len();
            losses.retain(|n| *n > tokens.len());
            if losses.len() < before {
                device.lose();
            }
        },
        &Cancel::new(),
    ))?;
    assert_eq!((&text, &tokens), (&result.text, &result.tokens), "every piece came once");
    Ok(result)
}

/// Asserts that both results are equal, except for times and recoveries.
fn assert_same(result: &Generation, undisturbed: &Generation, what: &str) {
    let about = |g: &Generation| {
        (g.tokens.clone(), g.text.clone(), g.prompt_tokens, g.cached_tokens, g.shifts, g.finish_reason)
    };
    assert_eq!(about(result), about(undisturbed), "{what}");
}

#[test]
fn a_loss_at_any_token_does_not_change_the_text() {
    let prompt = ids(40, 1);
    let cases: [(_, _, &[usize], _); 4] = [
        (Lane::Fast, Some(1), &[2, 33], false),
        // On the CPU a pass of lane fast rounds otherwise than a step, which the last check here would find.
        (Lane::Exact, Some(1), &[1, 2, 17, 33, 59], true),
        (Lane::Exact, Some(16), &[1, 33], true),
        (Lane::Exact, None, &[1, 40], true),
    ];
    for (lane, chunk, places, cpu) in cases {
        let _cpu = cpu.then(on_cpu);
        let options = LoadOptions { chunk, cache_start: Some(64), ..often(lane) };
        let mut engine = load(&options);
        let whole = run(&mut engine, &Request { reuse: false, ..ask(&prompt, 60) });
        assert_eq!((whole.recoveries, whole.tokens.len()), (0, 60));
        for at in places {
            let result = disturbed(&mut engine, &Request { reuse: false, ..ask(&prompt, 60) }, &[*at]).unwrap();
            assert_same(&result, &whole, &format!("lane {}, chunk {chunk:?}, lost at {at}", lane.name()));
            assert!(result.recoveries == 1 || *at > 33 || (chunk != Some(1) && *at > 1), "{chunk:?} {at}");
            let _ = engine.lost().map(|_| block_on(engine.recover(&Cancel::new())).unwrap());
        }
        let result = disturbed(&mut engine, &Request { reuse: false, ..ask(&prompt, 60) }, &[3, 20, 45]).unwrap();
        assert_same(&result, &whole, "three losses");
        assert!(result.recoveries == 3 || chunk != Some(1), "{}", result.recoveries);
        let _ = engine.lost().map(|_| block_on(engine.recover(&Cancel::new())).unwrap());
        // A loss after the last token does not affect the answer; the next one recovers.
        let last = disturbed(&mut engine, &Request { reuse: false, ..ask(&prompt, 60) }, &[60]).unwrap();
        assert_eq!((last.recoveries, &last.tokens), (0, &whole.tokens));
        let next = run(&mut engine, &ask(&prompt, 60));
        assert_eq!((next.recoveries, next.cached_tokens, &next.tokens), (1, 39, &whole.tokens));
    }
}

#[test]
fn what_a_loss_costs_is_in_the_timings_and_counters() {
    let mut engine = load(&LoadOptions { chunk: Some(1), ..often(Lane::Fast) });
    let memory = engine.info().memory.total;
    let prompt = ids(20, 1);
    let before = run(&mut engine, &ask(&prompt, 30));
    let restored = restored_ms(&mut engine);
    let result = disturbed(&mut engine, &ask(&prompt, 30), &[10]).unwrap();
    // The answer had begun: the wait counts as decoding time.
    let timings = &result.timings;
    assert!(
        restored.get() > 0.0 && timings.decode_ms > restored.get() && timings.ttft_ms < timings.decode_ms,
        "{timings:?}, {} ms",
        restored.get()
    );
    assert!(result.counters.readbacks >= before.counters.readbacks, "{:?}", result.counters);
    assert_eq!(engine.info().memory.total, memory, "the new device has what the old one had");
}

#[test]
fn later_turns_go_on_from_what_earlier_ones_wrote() {
    // In lane fast a step's cache entries differ from a pass's: they have to be rebuilt by steps.
    for lane in [Lane::Fast, Lane::Exact] {
        let _cpu = (lane == Lane::Exact).then(on_cpu);
        let turns = |losses: [&[usize]; 3]| {
            let mut engine = load(&LoadOptions { chunk: Some(1), ..often(lane) });
            let mut text = ids(50, 2);
            let mut results = Vec::new();
            for (turn, at) in losses.iter().enumerate() {
                let result = disturbed(&mut engine, &ask(&text, 40), at).unwrap();
                text.extend(&result.tokens);
                text.extend(ids(9 + turn, 5));
                results.push(result);
            }
            results
        };
        let whole = turns([&[], &[], &[]]);
        for (i, (result, whole)) in turns([&[], &[12], &[30]]).iter().zip(&whole).enumerate() {
            assert_same(result, whole, &format!("turn {i}, lane {}", lane.name()));
            assert_eq!(result.recoveries, u32::from(i > 0));
        }
    }
}

#[test]
fn a_loss_while_the_prompt_is_read_reads_it_again() {
    let options = LoadOptions { prefill_rows: Some(16), ..often(Lane::Fast) };
    let prompt = ids(150, 3);
    let whole = run(&mut load(&options), &ask(&prompt, 20));
    let mut engine = load(&options);
    for after in [0, 48] {
        let restored = restored_ms(&mut engine);
        let device = engine.device();
        let mut lost = false;
        let mut phases = Vec::new();
        let result = block_on(engine.generate(
            &Request { reuse: false, ..ask(&prompt, 20) },
            &mut |event| {
                let Event::Progress(progress) = event else { return };
                if progress.phase == Phase::Prompt && progress.loaded >= after && !lost {
                    lost = true;
                    device.lose();
                }
                phases.push(progress.phase);
            },
            &Cancel::new(),
        ))
        .unwrap();
        assert_same(&result, &whole, &format!("lost after {after}"));
        assert_eq!(result.recoveries, 1);
        assert!(phases.contains(&Phase::Upload) && phases.last() == Some(&Phase::Prompt), "{phases:?}");
        // No token had come yet: the wait counts until the first token.
        assert!(
            restored.get() > 0.0 && result.timings.ttft_ms > restored.get(),
            "{:?}, {} ms",
            result.timings,
            restored.get()
        );
    }
}

/// The time of the last recovery, as reported to the listener.
fn restored_ms(engine: &mut Engine) -> Rc<Cell<f64>> {
    let took = Rc::new(Cell::new(0.0));
    let heard = took.clone();
    engine.on_device(Rc::new(move |event| {
        if let DeviceEvent::Restored { ms, .. } = event {
            heard.set(ms);
        }
    }));
    took
}

/// The events of a listener, in short.
fn listen(engine: &mut Engine) -> Rc<RefCell<Vec<String>>> {
    let heard = Rc::new(RefCell::new(Vec::new()));
    let list = heard.clone();
    engine.on_device(Rc::new(move |event| {
        list.borrow_mut().push(match event {
            DeviceEvent::Lost { loss, recovering } => format!("lost {:?} {recovering}", loss.reason),
            DeviceEvent::Restored { ms, info } => {
                assert!(ms > 0.0 && info.memory.weights > 0);
                "restored".into()
            }
        });
    }));
    heard
}

#[test]
fn a_loss_while_idle_is_noticed_and_made_good() {
    let mut engine = load(&often(Lane::Fast));
    let mut text = ids(30, 4);
    let first = run(&mut engine, &ask(&text, 20));
    text.extend(&first.tokens);
    text.extend(ids(5, 6));
    let whole = run(&mut engine, &ask(&text, 20));

    let mut engine = load(&often(Lane::Fast));
    let heard = listen(&mut engine);
    assert_eq!(run(&mut engine, &ask(&ids(30, 4), 20)).tokens, first.tokens);
    block_on(engine.recover(&Cancel::new())).unwrap();
    assert!(heard.borrow().is_empty() && engine.lost().is_none());
    let device = engine.device();
    device.lose();
    assert!(block_on(device.lost()).is_some());
    assert_eq!(engine.lost().unwrap().code(), "DEVICE_LOST");
    block_on(engine.recover(&Cancel::new())).unwrap();
    assert_eq!(*heard.borrow(), ["lost Destroyed true", "restored"]);
    assert!(engine.lost().is_none());
    let result = run(&mut engine, &ask(&text, 20));
    assert_same(&result, &whole, "recovered while idle");
    assert_eq!(result.recoveries, 0, "nobody had to wait for it");
}

#[test]
fn parked_conversations_forks_and_saved_ones_come_back() {
    let _cpu = on_cpu();
    let story = |lose: &dyn Fn(&Device)| {
        let store = Memory::store();
        let mut engine = load(&LoadOptions { cache_start: Some(64), ..often(Lane::Fast) });
        let device = engine.device();
        let mut text = ids(40, 6);
        text.extend(run(&mut engine, &ask(&text, 10)).tokens);
        let fork = engine.fork(0).unwrap();
        let mut other = text.clone();
        other.extend(
            run(&mut engine, &Request { conversation: fork, ..ask(&[&text[..], &ids(3, 8)].concat(), 30) }).tokens,
        );
        lose(&device);
        // Before the loss is noticed, and of a conversation that is not in a slot.
        let early = engine.fork(0).unwrap();
        block_on(engine.save(0, &store, "parked", &Cancel::new())).unwrap();
        lose(&device);
        block_on(engine.recover(&Cancel::new())).unwrap();
        let late = engine.fork(fork).unwrap();
        block_on(engine.save(fork, &store, "active", &Cancel::new())).unwrap();
        let saved = ["parked", "active"].map(|name| block_on(engine.restore(&store, name)).unwrap());
        lose(&device);
        [early, fork, late, 0, saved[0], saved[1]].map(|conversation| {
            let beginning = if [fork, late, saved[1]].contains(&conversation) { &other } else { &text };
            let question = [&beginning[..], &ids(6, 9)].concat();
            run(&mut engine, &Request { conversation, ..ask(&question, 25) })
        })
    };
    let whole = story(&|_| ());
    let result = story(&|device| device.lose());
    for (i, (result, whole)) in result.iter().zip(&whole).enumerate() {
        assert_same(result, whole, &format!("conversation {i}"));
        assert!(result.cached_tokens >= 39, "{}", result.cached_tokens);
        assert_eq!(result.recoveries, u32::from(i == 0));
    }
}

#[test]
fn a_second_loss_within_a_minute_is_an_error() {
    let mut engine = load(&LoadOptions { chunk: Some(1), ..LoadOptions::default() });
    let heard = listen(&mut engine);
    let prompt = ids(20, 1);
    let whole = run(&mut load(&LoadOptions::default()), &ask(&prompt, 40));
    let error = disturbed(&mut engine, &ask(&prompt, 40), &[10, 20]).err().unwrap();
    assert_eq!(error.code(), "DEVICE_LOST");
    assert!(error.message().contains("within 60 s") && error.message().contains("load the model again"), "{error}");
    assert_eq!(*heard.borrow(), ["lost Destroyed true", "restored", "lost Destroyed false"]);
    // The engine stays given up, and reports it once.
    assert_eq!(
        block_on(engine.generate(&ask(&prompt, 5), &mut |_| {}, &Cancel::new())).err().unwrap().code(),
        "DEVICE_LOST"
    );
    assert_eq!(block_on(engine.recover(&Cancel::new())).err().unwrap().code(), "DEVICE_LOST");
    assert_eq!(heard.borrow().len(), 3);

    // After that time a request recovers.
    let mut engine = load(&LoadOptions::default());
    let device = engine.device();
    device.lose();
    block_on(engine.recover(&Cancel::new())).unwrap();
    device.lose();
    assert_eq!(block_on(engine.recover(&Cancel::new())).err().unwrap().code(), "DEVICE_LOST");
    engine.forget_losses();
    assert_eq!(run(&mut engine, &ask(&prompt, 40)).tokens, whole.tokens);
}

#[test]
fn dispose_is_no_loss() {
    let mut engine = load(&LoadOptions::default());
    let heard = listen(&mut engine);
    run(&mut engine, &ask(&ids(5, 1), 5));
    let lost = engine.device().lost();
    engine.dispose();
    assert!(block_on(lost).is_none());
    assert!(heard.borrow().is_empty());
}

#[test]
fn shifts_stops_windows_and_long_texts_survive() {
    let exact = |options: LoadOptions| LoadOptions { lane: Lane::Exact, ..options };
    let shifting = Request { overflow: Overflow::Shift, ..ask(&ids(50, 8), 60) };
    let cases: [(&str, Files, LoadOptions, Request); 7] = [
        ("shift", model("gguf-q8_0/model.gguf"), LoadOptions { context: Some(64), ..often(Lane::Fast) }, shifting),
        // Rotated otherwise from 64 positions on: read again in the middle of the answer.
        ("long", model("phi3-hf/model"), often(Lane::Fast), ask(&ids(44, 3), 40)),
        (
            "window",
            model("hf-window/model"),
            LoadOptions { prefill_rows: Some(16), ..often(Lane::Fast) },
            ask(&ids(60, 3), 50),
        ),
        (
            "window, q8",
            model("hf-window/model"),
            exact(LoadOptions { prefill_rows: Some(16), kv: Some(Kv::Q8), ..often(Lane::Exact) }),
            ask(&ids(60, 3), 50),
        ),
        (
            "shared keys",
            model("gemma4-gguf/model.gguf"),
            LoadOptions { prefill_rows: Some(16), ..often(Lane::Fast) },
            ask(&ids(60, 3), 50),
        ),
        (
            "no end",
            model("gguf-q8_0/model.gguf"),
            LoadOptions { context: Some(64), ..often(Lane::Fast) },
            Request { max_tokens: None, ..ask(&ids(10, 8), 1) },
        ),
        (
            "stop ids",
            model("gguf-q8_0/model.gguf"),
            often(Lane::Fast),
            Request { ignore_eos: false, ..ask(&ids(10, 8), 400) },
        ),
    ];
    for (what, files, options, request) in cases {
        let _cpu = (what != "window, q8").then(on_cpu);
        let mut engine = load_from(&files, &options);
        let request = Request { reuse: false, ..request };
        let whole = run(&mut engine, &request);
        let n = whole.tokens.len();
        for at in [1, n / 2, n - 1] {
            let result = disturbed(&mut engine, &request, &[at]).unwrap();
            assert_same(&result, &whole, &format!("{what}, lost at {at} of {n}"));
        }
    }
    // A stop text, found after the loss: the two characters whose first occurrence is the latest.
    let mut engine = load(&LoadOptions { chunk: Some(1), ..often(Lane::Fast) });
    let whole = run(&mut engine, &ask(&ids(10, 8), 60));
    let chars: Vec<char> = whole.text.chars().collect();
    let pairs = chars.windows(2).map(|pair| pair.iter().collect::<String>());
    let stop = pairs.max_by_key(|pair| whole.text.find(pair.as_str())).unwrap();
    let request = Request { stop: vec![stop], reuse: false, ..ask(&ids(10, 8), 60) };
    let whole = run(&mut engine, &request);
    assert!(whole.finish_reason == FinishReason::Stop && whole.tokens.len() > 10, "{}", whole.tokens.len());
    let result = disturbed(&mut engine, &request, &[whole.tokens.len() / 2]).unwrap();
    assert_same(&result, &whole, "a stop text");
    assert_eq!(result.recoveries, 1);
}

#[test]
fn logits_profiles_and_tuning_survive() {
    let mut engine = load(&often(Lane::Fast));
    let device = engine.device();
    let prompt = ids(30, 2);
    let scored = Request { logits_from: Some(5), ..ask(&prompt, 8) };
    let whole = run(&mut engine, &scored);
    device.lose();
    let result = run(&mut engine, &scored);
    assert_eq!((&result.tokens, result.recoveries, &result.all_logits), (&whole.tokens, 1, &whole.all_logits));
    let profiled = disturbed(&mut engine, &Request { profile: true, ..ask(&prompt, 8) }, &[8]).unwrap();
    assert_eq!(
        (profiled.tokens, profiled.recoveries, profiled.profile.unwrap().is_empty()),
        (whole.tokens.clone(), 1, false)
    );
    device.lose();
    block_on(engine.tune(200.0, &Cancel::new())).unwrap();
    // Passes compiled and variants measured in idle time are restored.
    block_on(engine.tune(10_000.0, &Cancel::new())).unwrap();
    let plan = |engine: &Engine| {
        engine.info().plan.into_iter().map(|row| (row.pass, row.step, row.variant)).collect::<Vec<_>>()
    };
    let tuned = plan(&engine);
    assert!(tuned.iter().any(|(pass, ..)| *pass == "few"));
    let whole = run(&mut engine, &ask(&prompt, 20));
    let result = disturbed(&mut engine, &Request { reuse: false, ..ask(&prompt, 20) }, &[10]).unwrap();
    assert_eq!((plan(&engine), result.tokens), (tuned, whole.tokens));
}

#[test]
fn an_abort_while_the_model_is_loaded_again_ends_the_answer_and_the_next_one_finds_a_device() {
    let mut engine = load(&LoadOptions { chunk: Some(4), ..LoadOptions::default() });
    let prompt = ids(20, 1);
    let whole = run(&mut engine, &ask(&prompt, 40));
    let (device, cancel, seen) = (engine.device(), Cancel::new(), Cell::new(0));
    let result = block_on(engine.generate(
        &ask(&prompt, 40),
        &mut |event| match event {
            Event::Delta(delta) => {
                seen.set(seen.get() + delta.tokens.len());
                if seen.get() == 8 {
                    device.lose();
                }
            }
            Event::Progress(progress) if progress.phase == Phase::Upload => cancel.cancel(),
            Event::Progress(_) => (),
        },
        &cancel,
    ))
    .unwrap();
    assert_eq!((result.finish_reason, &result.tokens[..]), (FinishReason::Abort, &whole.tokens[..8]));
    // The attempt was cut short, it did not fail.
    let next = run(&mut engine, &ask(&prompt, 40));
    assert_eq!((next.recoveries, next.tokens), (1, whole.tokens));
}

/// A file that can be taken away.
struct Removable {
    inner: Rc<dyn ByteSource>,
    gone: Rc<Cell<bool>>,
}

impl ByteSource for Removable {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        if self.gone.get() {
            return Box::pin(async { Err(Error::storage("the file is gone")) });
        }
        self.inner.read(offset, len)
    }
}

#[test]
fn where_the_model_cannot_be_loaded_again_the_error_says_why() {
    let gone = Rc::new(Cell::new(false));
    let wrap = |(name, inner)| (name, Rc::new(Removable { inner, gone: gone.clone() }) as Rc<dyn ByteSource>);
    let files: Files = model("gguf-q8_0/model.gguf").into_iter().map(wrap).collect();
    let mut engine = load_from(&files, &LoadOptions { chunk: Some(1), ..LoadOptions::default() });
    let heard = listen(&mut engine);
    gone.set(true);
    let prompt = ids(20, 1);
    let error = disturbed(&mut engine, &ask(&prompt, 30), &[10]).err().unwrap();
    assert!(error.code() == "DEVICE_LOST" && error.message().contains("the file is gone"), "{error}");
    assert_eq!(*heard.borrow(), ["lost Destroyed true", "lost Destroyed false"]);
    gone.set(false);
    engine.forget_losses();
    assert_eq!(run(&mut engine, &ask(&prompt, 30)).tokens.len(), 30);
    assert_eq!(heard.borrow()[2..], ["lost Destroyed true", "restored"]);
}
