//! The tuner: it measures once, keeps to its time, plans with the fastest and says so; forcing a variant goes before it.

use millrace::plan::tuning::Tuning;
use millrace::stream::{Cancel, Engine, LoadOptions};

use crate::decode_loop::{ask, load, run};

fn tune(engine: &mut Engine, budget_ms: f64, cancel: &Cancel) -> millrace::decode::Tuned {
    pollster::block_on(engine.tune(budget_ms, cancel)).unwrap()
}

#[test]
fn what_is_measured_is_kept_and_the_plan_says_it() {
    let mut engine = load(&LoadOptions::default());
    let before = run(&mut engine, &ask(24));
    let tuned = tune(&mut engine, 60_000.0, &Cancel::new());
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
    // On a model whose margins are wide the text stays.
    let after = run(&mut engine, &ask(24));
    assert_eq!(after.tokens, before.tokens);
    assert_eq!(after.counters.created, 0);
    assert_eq!(tune(&mut engine, 60_000.0, &Cancel::new()).measured, 0, "once is enough");

    let mut tuning = Tuning::default();
    engine.remember(&mut tuning);
    let again = load(&LoadOptions { tuning: Tuning::parse(&tuning.text()), ..LoadOptions::default() });
    // Passes of few rows wait for idle time.
    let plan = |info: &millrace::stream::Info| {
        info.plan.iter().filter(|r| r.pass != "short" && r.pass != "few").map(|r| (r.step.clone(), r.variant)).collect::<Vec<_>>()
    };
    assert_eq!(plan(&again.info()), plan(&info));
}

#[test]
fn it_ends_when_its_time_is_up_or_somebody_wants_the_gpu() {
    let mut engine = load(&LoadOptions::default());
    let none = tune(&mut engine, 0.0, &Cancel::new());
    assert!(none.measured == 0 && none.left >= 4, "{none:?}");
    let cancel = Cancel::new();
    cancel.cancel();
    let none = tune(&mut engine, 60_000.0, &cancel);
    assert!(none.measured == 0 && none.left >= 4, "{none:?}");
    assert_eq!(run(&mut engine, &ask(4)).tokens.len(), 4);
}

#[test]
fn a_forced_variant_is_not_tuned_away() {
    let kernels = vec![("norm_matvec".to_owned(), "wg".to_owned())];
    let mut engine = load(&LoadOptions { kernels, ..LoadOptions::default() });
    tune(&mut engine, 60_000.0, &Cancel::new());
    for row in engine.info().plan.iter().filter(|r| r.kernel == "norm_matvec") {
        assert!(row.variant.ends_with("-wg") && row.reason.contains("forced"), "{row:?}");
    }
}
