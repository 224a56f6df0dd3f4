//! The tuner: it measures once, within its budget, plans with the fastest and reports it; a forced variant has
//! precedence.

use millrace::base::Cancel;
use millrace::engine::{Engine, LoadOptions, Request};
use millrace::plan::Lane;
use millrace::plan::tuning::Tuning;

use crate::decode_loop::{ask, load, run};

/// A budget that no machine uses up, ms.
const UNHURRIED: f64 = 3_600_000.0;

fn tune(engine: &mut Engine, budget_ms: f64, cancel: &Cancel) -> millrace::decode::Tuned {
    pollster::block_on(engine.tune(budget_ms, cancel)).unwrap()
}

#[test]
fn what_is_measured_is_kept_and_the_plan_says_it() {
    let exact = LoadOptions { lane: Lane::Exact, ..LoadOptions::default() };
    let mut engine = load(&exact);
    // The logits of the decode steps that read a text: the variants add up the same sums in another order.
    let scored = |engine: &mut Engine| {
        run(engine, &Request { logits_from: Some(0), reuse: false, ..ask(1) }).all_logits.unwrap()
    };
    let before = scored(&mut engine);
    let tuned = tune(&mut engine, UNHURRIED, &Cancel::new());
    assert!(tuned.measured >= 4 && tuned.left == 0, "{tuned:?}");
    let info = engine.info();
    let measured: Vec<_> = info.plan.iter().filter(|r| r.reason.starts_with("measured: ")).collect();
    assert!(!measured.is_empty());
    for row in &measured {
        // The winner first, then the losers with their times.
        let first = row.reason["measured: ".len()..].split_whitespace().next();
        assert_eq!(first, Some(row.variant), "{}", row.reason);
        assert!(row.reason.matches(" us").count() >= 2, "{}", row.reason);
    }
    for (before, after) in before.iter().zip(scored(&mut engine)) {
        let largest = before.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        let apart = before.iter().zip(&after).fold(0.0_f32, |m, (a, b)| m.max((a - b).abs()));
        assert!(apart <= 3e-5 * largest, "{apart} of {largest}");
    }
    let after = run(&mut engine, &ask(24));
    assert_eq!(after.counters.created, 0);
    assert_eq!(tune(&mut engine, UNHURRIED, &Cancel::new()).measured, 0, "once is enough");

    let mut tuning = Tuning::default();
    engine.remember(&mut tuning);
    let mut again = load(&LoadOptions { tuning: Tuning::parse(&tuning.text()), ..exact });
    // Passes of few rows wait for idle time.
    let plan = |info: &millrace::engine::Info| {
        info.plan
            .iter()
            .filter(|r| r.pass != "short" && r.pass != "few")
            .map(|r| (r.step.clone(), r.variant))
            .collect::<Vec<_>>()
    };
    assert_eq!(plan(&again.info()), plan(&info));
    tune(&mut again, 0.0, &Cancel::new());
    assert!(scored(&mut again) == scored(&mut engine), "the same variants give the same logits, to the last bit");
}

#[test]
fn it_ends_when_its_time_is_up_or_somebody_wants_the_gpu() {
    let mut engine = load(&LoadOptions::default());
    let none = tune(&mut engine, 0.0, &Cancel::new());
    assert!(none.measured == 0 && none.left >= 4, "{none:?}");
    let cancel = Cancel::new();
    cancel.cancel();
    let none = tune(&mut engine, UNHURRIED, &cancel);
    assert!(none.measured == 0 && none.left >= 4, "{none:?}");
    assert_eq!(run(&mut engine, &ask(4)).tokens.len(), 4);
}

#[test]
fn a_forced_variant_is_not_tuned_away() {
    let kernels = vec![("norm_matvec".to_owned(), "wg".to_owned())];
    let mut engine = load(&LoadOptions { kernels, ..LoadOptions::default() });
    tune(&mut engine, UNHURRIED, &Cancel::new());
    for row in engine.info().plan.iter().filter(|r| r.kernel == "norm_matvec") {
        assert!(row.variant.ends_with("-wg") && row.reason.contains("forced"), "{row:?}");
    }
}

#[test]
fn warming_up_leaves_a_conversation_as_it_is_and_ends_when_somebody_asks() {
    let mut engine = load(&LoadOptions::default());
    let first = run(&mut engine, &ask(12));
    let more = Request { prompt: millrace::engine::Prompt::Tokens(first.tokens.clone()), ..ask(12) };
    let mut other = load(&LoadOptions::default());
    run(&mut other, &ask(12));
    let before = engine.info().memory;
    let started = std::time::Instant::now();
    pollster::block_on(engine.warm(60.0, &Cancel::new())).unwrap();
    assert!(started.elapsed().as_millis() >= 60, "the GPU was at work for as long as asked");
    let cancel = Cancel::new();
    cancel.cancel();
    // Without cancellation this would not end.
    pollster::block_on(engine.warm(f64::INFINITY, &cancel)).unwrap();
    assert_eq!(engine.info().memory.total, before.total, "nothing is allocated for it");
    assert_eq!(run(&mut engine, &more).tokens, run(&mut other, &more).tokens);
}
