//! The self-test at loading: every chosen variant runs on known data, and one that computes wrongly is not used.

use std::collections::BTreeSet;

use millrace::base::Cancel;
use millrace::engine::{Engine, Faults, LoadOptions};
use millrace::kernels;
use millrace::plan::Lane;
use millrace::plan::tuning::{Known, Tuning};
use pollster::block_on;

use crate::decode_loop::{ask, load, run, try_load};

fn tested() -> LoadOptions {
    LoadOptions { lane: Lane::Fast, self_test: Some(true), ..LoadOptions::default() }
}

/// Variants of a kernel in an engine's plan.
fn variants(engine: &Engine, kernel: &str) -> Vec<&'static str> {
    engine.info().plan.iter().filter(|r| r.kernel == kernel).map(|r| r.variant).collect()
}

#[test]
fn good_variants_pass_once_and_are_remembered() {
    let engine = load(&tested());
    let info = engine.info();
    assert!(
        info.self_test.checked >= 10 && info.self_test.wrong.is_empty() && info.warnings.is_empty(),
        "{:?}",
        info.self_test
    );
    assert_eq!(info.lane, Lane::Fast);
    let mut tuning = Tuning::default();
    engine.remember(&mut tuning);
    let again = load(&LoadOptions { tuning, ..tested() }).info();
    assert_eq!((again.self_test.checked, again.self_test.skipped), (0, None), "what has passed here is not run again");
    let without = load(&LoadOptions { self_test: Some(false), ..LoadOptions::default() }).info();
    assert!(without.self_test.skipped.is_some(), "nothing is left out in silence");
}

#[test]
fn a_broken_variant_is_replaced_by_another_of_its_lane_and_said() {
    let mut fast = load(&tested());
    let expected = run(&mut fast, &ask(16)).tokens;
    let broken = variants(&fast, "norm_gated")[0];
    let mut engine = load(&LoadOptions {
        faults: Faults { broken: vec![("norm_gated".into(), broken.into())], ..Faults::default() },
        ..tested()
    });
    let info = engine.info();
    assert_eq!((info.lane, info.self_test.wrong.len()), (Lane::Fast, 1));
    assert!(
        info.warnings[0].contains(broken) && info.warnings[0].contains("other variants of lane fast"),
        "{:?}",
        info.warnings
    );
    assert!(!variants(&engine, "norm_gated").contains(&broken));
    assert_eq!(run(&mut engine, &ask(16)).tokens, expected);
}

#[test]
fn a_lane_whose_variants_are_all_broken_gives_way_to_the_next() {
    let fast = load(&tested());
    let next = Lane::Fast.next(fast.info().adapter.f16());
    let mut good = load(&LoadOptions { lane: next, ..tested() });
    let expected = run(&mut good, &ask(16)).tokens;
    // All variants with its types: other lanes have others.
    let types = |variant: &str| variant.rsplit_once('-').unwrap().0.to_owned();
    let chosen = variants(&fast, "norm_gated")[0];
    let alike = kernels::all().iter().filter(|v| v.kernel == "norm_gated" && types(v.name) == types(chosen));
    let broken: Vec<_> = alike.map(|v| (v.kernel.to_owned(), v.name.to_owned())).collect();
    assert!(broken.len() > 2);
    let mut engine = load(&LoadOptions { faults: Faults { broken, ..Faults::default() }, ..tested() });
    let info = engine.info();
    assert_eq!(info.lane, next);
    assert!(info.self_test.wrong.len() > 1);
    let said = format!("lane {} instead of fast", next.name());
    assert!(info.warnings[0].contains(chosen) && info.warnings[0].contains(&said), "{:?}", info.warnings);
    assert_eq!(run(&mut engine, &ask(16)).tokens, expected);
}

/// A variant that was measured as the fastest, and computes wrongly: its lane uses another one, now and at each later
/// load.
#[test]
fn a_variant_that_was_fast_and_is_wrong_is_forgotten() {
    let mut engine = load(&tested());
    block_on(engine.tune(60_000.0, &Cancel::new())).unwrap();
    let mut tuning = Tuning::default();
    engine.remember(&mut tuning);
    let caps = engine.info().adapter;
    let known = tuning.of(&caps);
    let (operation, times) =
        known.measurements.iter().find(|(operation, _)| operation.starts_with("norm_gated")).unwrap();
    // As if the last one had been the fastest.
    let wrong = times.last().unwrap().0.clone();
    assert!(times.len() > 1, "{operation}: {times:?}");
    let first: Vec<_> = times.iter().rev().cloned().collect();
    let measurements = known
        .measurements
        .iter()
        .map(|(name, times)| (name.clone(), if name == operation { first.clone() } else { times.clone() }))
        .collect();
    let mut tuning = Tuning::default();
    tuning.set(&caps, Known { measurements, proven: BTreeSet::new(), ..known.clone() });
    let preferred = LoadOptions { tuning, ..tested() };
    assert_eq!(variants(&load(&preferred), "norm_gated")[0], wrong, "{operation}");
    let broken = vec![("norm_gated".to_owned(), wrong.clone())];
    let engine =
        load(&LoadOptions { faults: Faults { broken: broken.clone(), ..Faults::default() }, ..preferred.clone() });
    assert_eq!((engine.info().lane, engine.info().self_test.wrong.len()), (Lane::Fast, 1));
    let mut tuning = preferred.tuning;
    engine.remember(&mut tuning);
    let later = load(&LoadOptions { faults: Faults { broken, ..Faults::default() }, tuning, ..tested() });
    assert_eq!((later.info().lane, later.info().self_test.wrong.len()), (Lane::Fast, 0), "it is not tried again");
    assert!(!variants(&later, "norm_gated").contains(&wrong.as_str()));
}

#[test]
fn a_variant_that_is_broken_in_the_last_lane_is_replaced_by_another() {
    let exact = LoadOptions { lane: Lane::Exact, ..tested() };
    let broken = variants(&load(&exact), "attention")[0];
    let engine = load(&LoadOptions {
        faults: Faults { broken: vec![("attention".into(), broken.into())], ..Faults::default() },
        ..exact
    });
    let now = variants(&engine, "attention")[0];
    assert_ne!(now, broken);
    assert!(engine.info().warnings[0].contains("other variants of lane exact"), "{:?}", engine.info().warnings);
}

#[test]
fn a_gpu_that_cannot_be_trusted_at_all_is_an_error() {
    // This kernel has one variant, in every lane.
    let broken = vec![("pick".into(), "default".into())];
    let error = try_load(&LoadOptions { faults: Faults { broken, ..Faults::default() }, ..tested() }).err().unwrap();
    assert_eq!(error.code(), "GPU");
    assert!(error.message().contains("computes wrongly") && error.message().contains("pick=default"), "{error}");
}
