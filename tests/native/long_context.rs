//! Windows, the slots that layers with a window keep, caches of eight bits, passes of few rows, and prompts of many
//! passes.

use std::path::{Path, PathBuf};

use millrace::base::{Cancel, Phase};
use millrace::engine::{Engine, Event, LoadOptions, Prompt, Request};
use millrace::layout::Kv;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use pollster::block_on;

use crate::common::{self, on_cpu};
use crate::decode_loop::run;

/// Mistral's window in tests/data/oracle/hf-window.
const WINDOW: usize = 21;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/hf-window/model")
}

fn load(path: &Path, options: &LoadOptions) -> Engine {
    common::load(&open_path(path).expect("model files"), options).expect("an engine")
}

/// The model without its window.
fn without_window(name: &str) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(folder()).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, to.join(from.file_name().unwrap())).unwrap();
    }
    let config = std::fs::read_to_string(to.join("config.json")).unwrap();
    let changed = config.replace("\"sliding_window\": 21", "\"sliding_window\": null");
    assert_ne!(config, changed);
    std::fs::write(to.join("config.json"), changed).unwrap();
    to
}

fn exact() -> LoadOptions {
    LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }
}

/// Passes so short that layers with a window begin their slots again soon: 21 positions and 16 rows need 64.
fn slots() -> LoadOptions {
    LoadOptions { prefill_rows: Some(16), ..exact() }
}

fn ids(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i * i * 7 + i * 37 + seed * 101) % 290 + 1).collect()
}

fn ask(prompt: &[u32], n: u32) -> Request {
    Request { ignore_eos: true, max_tokens: Some(n), ..Request::new(Prompt::Tokens(prompt.to_vec())) }
}

/// The logits of the last token of `prompt`, whose tokens up to `from` are read by passes and whose others are decoded.
fn logits(engine: &mut Engine, prompt: &[u32], from: usize) -> Vec<f32> {
    run(engine, &Request { logits_from: Some(from as u32), reuse: false, ..ask(prompt, 1) })
        .all_logits
        .unwrap()
        .pop()
        .unwrap()
}

/// Largest difference over largest |logit|.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    let largest = a.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0_f32, |m, (a, b)| if (a - b).is_finite() { m.max((a - b).abs()) } else { f32::INFINITY })
        / largest
}

#[test]
fn slots_that_begin_again_give_what_a_whole_cache_gives() {
    // 16 rows: passes shorter than the window; 40: longer.
    // On the GPU run passes within which slots begin again.
    let all: &[usize] = &[1, 20, 21, 22, 63, 64, 65, 200, 333];
    for (rows, lengths, gpu) in [(40, &[21, 65, 333][..], true), (40, all, false), (16, all, false)] {
        let _cpu = (!gpu).then(on_cpu);
        let mut small = load(&folder(), &LoadOptions { prefill_rows: Some(rows), ..exact() });
        let mut whole = load(&folder(), &exact());
        for n in lengths.iter().copied() {
            let prompt = ids(n, 1);
            let (a, b) = (run(&mut small, &ask(&prompt, 90)), run(&mut whole, &ask(&prompt, 90)));
            assert_eq!(a.tokens, b.tokens, "{n} tokens in passes of {rows}");
            let read = logits(&mut small, &prompt, n - 1);
            assert!(apart(&read, &logits(&mut whole, &prompt, n - 1)) < 1e-4, "{n} tokens in passes of {rows}");
            assert!(apart(&read, &logits(&mut small, &prompt, 0)) < 1e-3, "{n} tokens decoded");
        }
        assert!(
            small.info().memory.kv * 3 < whole.info().memory.kv,
            "{} of {}",
            small.info().memory.kv,
            whole.info().memory.kv
        );
    }
}

#[test]
fn a_window_reuses_what_its_slots_still_hold_and_reads_again_what_they_do_not() {
    let fresh = |prompt: &[u32]| run(&mut load(&folder(), &slots()), &ask(prompt, 12)).tokens;
    let mut engine = load(&folder(), &slots());
    let prompt = ids(150, 2);
    let first = run(&mut engine, &ask(&prompt, 12));
    let mut text = [&prompt[..], &first.tokens, &ids(5, 3)].concat();
    let second = run(&mut engine, &ask(&text, 12));
    assert_eq!((second.cached_tokens, &second.tokens), (161, &fresh(&text)));
    // Near the end: 64 slots less the window are still there.
    text[150] = 9;
    let edited = run(&mut engine, &ask(&text, 12));
    assert_eq!((edited.cached_tokens, &edited.tokens), (150, &fresh(&text)));
    // Too far back: the slots hold later positions.
    text[100] = 9;
    let edited = run(&mut engine, &ask(&text, 12));
    assert_eq!((edited.cached_tokens, &edited.tokens), (0, &fresh(&text)));
    // Forks, before and after slots begin again.
    for n in [30, 140] {
        let start = ids(n, 4);
        run(&mut engine, &ask(&start, 1));
        let fork = engine.fork(0).unwrap();
        let texts = [[&start[..], &ids(9, 5)].concat(), [&start[..], &ids(70, 6)].concat()];
        for (conversation, text) in [0, fork].into_iter().zip(&texts) {
            let result = run(&mut engine, &Request { conversation, ..ask(text, 12) });
            assert_eq!((result.cached_tokens, &result.tokens), (n, &fresh(text)), "fork at {n}");
        }
        let again = run(&mut engine, &Request { conversation: fork, ..ask(&texts[1], 12) });
        assert_eq!((again.cached_tokens, again.tokens), (texts[1].len() - 1, fresh(&texts[1])));
    }
}

#[test]
fn a_cache_of_eight_bits_is_close_and_takes_little_more_than_half_of_the_memory_of_halves() {
    let path = without_window("eight_bits");
    let mut memory = Vec::new();
    let (mut read, mut decoded) = (Vec::new(), Vec::new());
    let prompt = ids(300, 7);
    for kv in [Kv::F32, Kv::F16, Kv::Q8] {
        let mut engine = load(&path, &LoadOptions { kv: Some(kv), ..exact() });
        memory.push(engine.info().memory.kv);
        read.push(logits(&mut engine, &prompt, prompt.len() - 1));
        decoded.push(logits(&mut engine, &prompt, 40));
        // The cache equals that of a fresh run.
        let result = run(&mut engine, &ask(&prompt, 8));
        let longer = [&prompt[..], &result.tokens, &ids(4, 1)].concat();
        let reused = run(&mut engine, &ask(&longer, 8));
        assert!(reused.cached_tokens > 300);
        let fork = engine.fork(0).unwrap();
        assert_eq!(run(&mut engine, &Request { conversation: fork, ..ask(&longer, 8) }).tokens, reused.tokens);
    }
    assert_eq!((memory[1] * 2, memory[2] * 32), (memory[0], memory[1] * 18));
    for (name, all) in [("read", &read), ("decoded", &decoded)] {
        assert!(apart(&all[0], &all[1]) < 2e-3, "{name}: halves {}", apart(&all[0], &all[1]));
        assert!(apart(&all[0], &all[2]) < 4e-2, "{name}: eight bits {}", apart(&all[0], &all[2]));
    }
    assert!(apart(&read[2], &decoded[2]) < 2e-2, "{}", apart(&read[2], &decoded[2]));
    // With a window, and in lane fast.
    let mut small = load(&folder(), &LoadOptions { kv: Some(Kv::Q8), lane: Lane::Fast, ..slots() });
    let mut whole = load(&folder(), &LoadOptions { kv: Some(Kv::Q8), lane: Lane::Fast, ..exact() });
    assert!(apart(&logits(&mut small, &prompt, 200), &logits(&mut whole, &prompt, 200)) < 2e-2);
}

#[test]
fn few_rows_have_passes_of_their_own_which_give_the_same() {
    for path in [folder(), without_window("few_rows")] {
        let mut engine = load(&path, &slots());
        let passes = |engine: &Engine| engine.info().plan.iter().filter(|row| row.pass == "few").count();
        assert_eq!(passes(&engine), 0);
        let prompts: Vec<Vec<u32>> = [1, 2, 3, 4, 5, 8, 17, 24, 100].iter().map(|n| ids(*n, 8)).collect();
        let of = |engine: &mut Engine, p: &Vec<u32>| (logits(engine, p, p.len() - 1), run(engine, &ask(p, 6)).tokens);
        let before: Vec<_> = prompts.iter().map(|p| of(&mut engine, p)).collect();
        block_on(engine.tune(0.0, &Cancel::new())).unwrap();
        assert!(passes(&engine) > 20);
        for (prompt, (logits, tokens)) in prompts.iter().zip(&before) {
            let (l, t) = of(&mut engine, prompt);
            assert!(apart(logits, &l) < 1e-4, "{} tokens: {}", prompt.len(), apart(logits, &l));
            assert_eq!(*tokens, t, "{} tokens", prompt.len());
        }
    }
}

#[test]
fn a_prompt_of_three_passes_reads_as_it_is_decoded() {
    read_equals_decoded(1200, 800);
}

#[test]
#[ignore = "half a minute: npm run test:long"]
fn three_thousand_tokens_read_equal_three_thousand_decoded() {
    read_equals_decoded(3000, 2000);
}

/// All of `n` positions where tokens attend to all before; with a window the positions after `from`, over many rounds
/// of its slots.
fn read_equals_decoded(n: usize, from: usize) {
    for (path, from) in [(without_window(&format!("without_window_{n}")), 0), (folder(), from)] {
        // Every position is decoded where there is no window.
        let _cpu = (from == 0).then(on_cpu);
        let mut engine = load(&path, &exact());
        let prompt = ids(n, 9);
        let read = logits(&mut engine, &prompt, n - 1);
        let decoded = logits(&mut engine, &prompt, from);
        assert!(apart(&read, &decoded) < 1e-3, "{}", apart(&read, &decoded));
        let tokens = run(&mut engine, &Request { reuse: false, ..ask(&prompt, 20) }).tokens;
        let mut short = load(&path, &LoadOptions { prefill_rows: Some(64), ..exact() });
        assert_eq!(run(&mut short, &ask(&prompt, 20)).tokens, tokens);
        // A later turn, far into the cache.
        let longer = [&prompt[..], &tokens, &ids(40, 1)].concat();
        let second = run(&mut engine, &ask(&longer, 20));
        assert_eq!(
            (second.cached_tokens, &second.tokens),
            (n + 19, &run(&mut short, &Request { reuse: false, ..ask(&longer, 20) }).tokens)
        );
    }
}

#[test]
fn a_long_prompt_tells_how_far_it_is() {
    let mut engine = load(&folder(), &slots());
    let mut heard = Vec::new();
    let mut hear = |event: Event<'_>| {
        if let Event::Progress(p) = event {
            assert_eq!(p.phase, Phase::Prompt);
            heard.push((p.loaded, p.total));
        }
    };
    block_on(engine.generate(&ask(&ids(50, 1), 3), &mut hear, &Cancel::new())).unwrap();
    assert_eq!(heard, [(16, 50), (32, 50), (48, 50), (50, 50)]);
}

#[test]
fn a_window_that_is_not_meant_is_an_error() {
    let path = without_window("not_meant");
    let config = std::fs::read_to_string(path.join("config.json")).unwrap();
    let llama = config
        .replace("MistralForCausalLM", "LlamaForCausalLM")
        .replace("\"sliding_window\": null", &format!("\"sliding_window\": {WINDOW}"));
    std::fs::write(path.join("config.json"), llama).unwrap();
    let error = block_on(Engine::load(&open_path(&path).unwrap(), &exact(), &|_| {}, &Cancel::new())).err().unwrap();
    assert!(error.code() == "UNSUPPORTED_MODEL" && error.message().contains("sliding_window"), "{error}");
}
