//! The decode loop on a small random model: its GPU calls, and the effects of chunks, seeds, limits and signals.

use std::collections::BTreeSet;
use std::path::Path;

use millrace::base::Cancel;
use millrace::engine::{Engine, Event, Faults, FinishReason, Generation, LoadOptions, Prompt, Request};
use millrace::{ErrorKind, source::disk::open_path};
use pollster::block_on;

use crate::common;

pub fn try_load(options: &LoadOptions) -> millrace::Result<Engine> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/gguf-q8_0/model.gguf");
    common::load(&open_path(&path).expect("the fixture"), options)
}

pub fn load(options: &LoadOptions) -> Engine {
    try_load(options).expect("an engine")
}

pub fn run(engine: &mut Engine, request: &Request) -> Generation {
    block_on(engine.generate(request, &mut |_| {}, &Cancel::new())).expect("a generation")
}

pub fn ask(n: u32) -> Request {
    Request { ignore_eos: true, max_tokens: Some(n), ..Request::new(Prompt::Tokens(vec![5, 17, 99, 3])) }
}

#[test]
fn counters_prove_the_loop() {
    let mut engine = load(&LoadOptions { chunk: Some(16), ..LoadOptions::default() });
    let result = run(&mut engine, &ask(64));
    assert_eq!(result.tokens.len(), 64);
    let c = result.counters;
    assert!(c.submits <= 64, "{c:?}");
    assert!(c.submits >= 16, "at most four tokens a submit: {c:?}");
    assert_eq!((c.readbacks, c.readback_bytes), (4, 256), "{c:?}");
    assert_eq!(c.created, 0, "nothing is created while decoding: {c:?}");
    let plan = engine.info().plan;
    let decode: Vec<_> = plan.iter().filter(|r| r.pass == "decode").collect();
    // Greedy sampling leaves out the stages of temperature and filters. The first token needs only the sampling tail:
    // its logits are prefill's.
    let for_temperature = ["logit_stats", "tally", "narrow", "threshold"];
    let greedy: Vec<_> = decode.iter().filter(|r| !for_temperature.contains(&r.kernel)).collect();
    let tail = greedy.iter().filter(|r| r.step.starts_with("sample.")).count();
    assert_eq!((tail, c.dispatches), (2, 63 * greedy.len() as u64 + 2), "{c:?}");
    let warm = run(&mut engine, &Request { temperature: 0.8, top_k: 40, top_p: 0.9, ..ask(64) }).counters;
    assert_eq!(
        warm.dispatches,
        63 * decode.len() as u64 + (decode.len() - greedy.len() + tail) as u64,
        "every step of the plan: {warm:?}"
    );
    let a_layer = decode.iter().filter(|r| r.step.starts_with("blk.0.")).count();
    assert!(a_layer <= 6, "{a_layer} dispatches a layer");
}

/// Every kernel of the plan contributes to the text: without any one of them the text differs, or there is none.
#[test]
fn every_kernel_of_the_plan_makes_the_text() {
    // A temperature so high that without the filters other tokens would come.
    let ask = Request { temperature: 2.0, top_k: 4, top_p: 0.6, seed: Some(3), ..ask(16) };
    let mut engine = load(&LoadOptions::default());
    let text = run(&mut engine, &ask).tokens;
    let mut variants = BTreeSet::new();
    for row in &engine.info().plan {
        assert!(row.grid.iter().all(|n| *n > 0) && !row.reason.is_empty(), "{row:?}");
        variants.insert((row.kernel.to_owned(), row.variant.to_owned()));
    }
    assert!(variants.len() > 15, "{variants:?}");
    for variant in variants {
        let broken = LoadOptions {
            faults: Faults { broken: vec![variant.clone()], ..Faults::default() },
            ..LoadOptions::default()
        };
        let other = block_on(load(&broken).generate(&ask, &mut |_| {}, &Cancel::new()));
        assert!(
            other.is_err() || other.is_ok_and(|other| other.tokens != text),
            "without {variant:?} the text is the same"
        );
    }
}

#[test]
fn chunks_do_not_change_the_text() {
    let texts: Vec<_> = [Some(1), Some(5), Some(16), Some(32), None]
        .into_iter()
        .map(|chunk| {
            run(
                &mut load(&LoadOptions { chunk, ..LoadOptions::default() }),
                &Request { temperature: 0.9, seed: Some(7), ..ask(50) },
            )
            .tokens
        })
        .collect();
    for other in &texts[1..] {
        assert_eq!(&texts[0], other);
    }
}

#[test]
fn the_same_seed_gives_the_same_text_and_another_another() {
    let mut engine = load(&LoadOptions::default());
    let with = |seed| Request { temperature: 1.5, seed: Some(seed), ..ask(40) };
    let first = run(&mut engine, &with(1)).tokens;
    assert_eq!(first, run(&mut engine, &with(1)).tokens);
    assert_ne!(first, run(&mut engine, &with(2)).tokens);
    let free = run(&mut engine, &Request { seed: None, ..with(0) });
    assert_eq!(free.tokens, run(&mut engine, &with(free.seed)).tokens, "the reported seed repeats the text");
}

#[test]
fn greedy_is_the_same_with_and_without_filters() {
    let mut engine = load(&LoadOptions::default());
    let greedy = run(&mut engine, &ask(20)).tokens;
    assert_eq!(
        greedy,
        run(&mut engine, &Request { temperature: 1.0, top_k: 1, seed: Some(3), ..ask(20) }).tokens,
        "top-k 1"
    );
    assert_eq!(
        greedy,
        run(&mut engine, &Request { temperature: 1.0, top_p: 1e-6, seed: Some(3), ..ask(20) }).tokens,
        "top-p of nearly nothing"
    );
    assert_eq!(
        greedy,
        run(&mut engine, &Request { temperature: 1.0, min_p: 1.0, seed: Some(3), ..ask(20) }).tokens,
        "min-p 1"
    );
}

#[test]
fn a_stop_text_ends_the_answer_and_is_no_part_of_it() {
    let mut engine = load(&LoadOptions { chunk: Some(8), ..LoadOptions::default() });
    let whole = run(&mut engine, &ask(40));
    let chars: Vec<char> = whole.text.chars().collect();
    let stop: String = chars[chars.len() / 2..chars.len() / 2 + 2].iter().collect();
    let at = whole.text.find(&stop).expect("it is in there");
    let mut streamed = String::new();
    let request = Request { stop: vec![stop], ..ask(40) };
    let result = block_on(engine.generate(
        &request,
        &mut |event| {
            if let Event::Delta(d) = event {
                streamed.push_str(&d.text)
            }
        },
        &Cancel::new(),
    ))
    .expect("a generation");
    assert_eq!(result.finish_reason, FinishReason::Stop);
    assert_eq!(result.text, whole.text[..at]);
    assert_eq!(streamed, result.text);
}

#[test]
fn a_signal_ends_it_with_what_there_is() {
    let mut engine = load(&LoadOptions { chunk: Some(4), ..LoadOptions::default() });
    let cancel = Cancel::new();
    let mut seen = 0;
    let result = block_on(engine.generate(
        &ask(100),
        &mut |event| {
            let Event::Delta(delta) = event else { return };
            seen += delta.tokens.len();
            if seen >= 8 {
                cancel.cancel();
            }
        },
        &cancel,
    ))
    .expect("a generation");
    assert_eq!(result.finish_reason, FinishReason::Abort);
    assert_eq!(result.tokens.len(), 8);
    // The engine still works.
    assert_eq!(run(&mut engine, &ask(10)).tokens.len(), 10);
    // Before the start: no tokens, no harm.
    let result = block_on(engine.generate(&ask(5), &mut |_| {}, &cancel)).expect("a generation");
    assert_eq!((result.finish_reason, result.tokens.len()), (FinishReason::Abort, 0));
}

#[test]
fn the_cache_grows_and_the_text_does_not_change() {
    // 120 tokens of prompt fit into the first 128 positions; the answer does not.
    let prompt: Vec<u32> = (0..120).map(|i| 3 + (i * 37) % 250).collect();
    let request = Request { prompt: Prompt::Tokens(prompt.clone()), ..ask(30) };
    let roomy = run(&mut load(&LoadOptions::default()), &request);
    let mut grown = load(&LoadOptions { cache_start: Some(128), ..LoadOptions::default() });
    let first = run(&mut grown, &request);
    assert_eq!(first.tokens, roomy.tokens);
    assert_eq!(first.tokens.len(), 30);
    assert!(first.counters.created > 0, "growth was to be tested");
    let again = run(&mut grown, &request);
    assert_eq!(again.counters.created, 0, "it has grown already");
    assert_eq!(first.tokens, again.tokens);
}

#[test]
fn nonsense_is_an_error_that_says_so() {
    let mut engine = load(&LoadOptions { context: Some(64), ..LoadOptions::default() });
    let mut fails =
        |request: Request| block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).err().map(|e| e.kind());
    assert_eq!(fails(Request::new(Prompt::Tokens(vec![]))), Some(ErrorKind::BadOption));
    assert_eq!(fails(Request::new(Prompt::Tokens(vec![100_000]))), Some(ErrorKind::BadOption));
    assert_eq!(fails(Request::new(Prompt::Tokens(vec![1; 64]))), Some(ErrorKind::ContextFull));
    assert_eq!(fails(Request { max_tokens: Some(0), ..ask(1) }), Some(ErrorKind::BadOption));
    assert_eq!(fails(Request { temperature: -1.0, ..ask(1) }), Some(ErrorKind::BadOption));
    assert_eq!(fails(Request { top_p: 0.0, ..ask(1) }), Some(ErrorKind::BadOption));
    assert_eq!(fails(Request { logits_from: Some(9), ..ask(1) }), Some(ErrorKind::BadOption));
    // The context ends the answer.
    let result = run(&mut engine, &Request { max_tokens: None, ..ask(1) });
    assert_eq!((result.tokens.len(), result.finish_reason), (60, FinishReason::Length));

    let load_error = |options: LoadOptions| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/gguf-q8_0/model.gguf");
        block_on(Engine::load(&open_path(&path).expect("the fixture"), &options, &|_| {}, &Cancel::new()))
            .err()
            .map(|e| e.kind())
    };
    let forced = |k: &str, v: &str| LoadOptions { kernels: vec![(k.into(), v.into())], ..LoadOptions::default() };
    assert_eq!(load_error(forced("matvec", "nonsense")), Some(ErrorKind::UnknownKernel));
    assert_eq!(load_error(forced("nonsense", "wg")), Some(ErrorKind::UnknownKernel));
    assert_eq!(
        load_error(forced("matvec", "q4_0-q8-wg")),
        Some(ErrorKind::UnknownKernel),
        "exists, but no weights are q4_0"
    );
    assert_eq!(load_error(forced("matvec", "q8_0-q8-wg")), None);
    assert_eq!(
        load_error(LoadOptions { adapter: Some("no such GPU".into()), ..LoadOptions::default() }),
        Some(ErrorKind::NoAdapter)
    );
    assert_eq!(
        load_error(LoadOptions { context: Some(1 << 20), ..LoadOptions::default() }),
        Some(ErrorKind::BadOption)
    );
    assert_eq!(load_error(LoadOptions { chunk: Some(33), ..LoadOptions::default() }), Some(ErrorKind::BadOption));
}
