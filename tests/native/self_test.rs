//! The self-test at loading: every chosen variant runs on known data, and one that computes wrongly is not used.

use millrace::engine::{Engine, LoadOptions};
use millrace::plan::Lane;
use millrace::plan::tuning::Tuning;

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
    assert!(info.self_test.checked >= 10 && info.self_test.wrong.is_empty() && info.warnings.is_empty(), "{:?}", info.self_test);
    assert_eq!(info.lane, Lane::Fast);
    let mut tuning = Tuning::default();
    engine.remember(&mut tuning);
    let again = load(&LoadOptions { tuning, ..tested() }).info();
    assert_eq!((again.self_test.checked, again.self_test.skipped), (0, None), "what has passed here is not run again");
    let without = load(&LoadOptions { self_test: Some(false), ..LoadOptions::default() }).info();
    assert!(without.self_test.skipped.is_some(), "nothing is left out in silence");
}

#[test]
fn a_broken_variant_drops_to_the_next_lane_and_says_so() {
    let fast = load(&tested());
    let next = Lane::Fast.next(fast.info().adapter.f16());
    let mut good = load(&LoadOptions { lane: next, ..tested() });
    let expected = run(&mut good, &ask(16)).tokens;
    let broken = variants(&fast, "norm_gated")[0];
    let mut engine = load(&LoadOptions { broken: vec![("norm_gated".into(), broken.into())], ..tested() });
    let info = engine.info();
    assert_eq!(info.lane, next);
    assert_eq!(info.self_test.wrong.len(), 1);
    let said = format!("lane {} instead of fast", next.name());
    assert!(info.warnings[0].contains(broken) && info.warnings[0].contains(&said), "{:?}", info.warnings);
    assert!(!variants(&engine, "norm_gated").contains(&broken));
    assert_eq!(run(&mut engine, &ask(16)).tokens, expected);
}

#[test]
fn a_variant_that_is_broken_in_the_last_lane_is_replaced_by_another() {
    let exact = LoadOptions { lane: Lane::Exact, ..tested() };
    let broken = variants(&load(&exact), "attention")[0];
    let engine = load(&LoadOptions { broken: vec![("attention".into(), broken.into())], ..exact });
    let now = variants(&engine, "attention")[0];
    assert_ne!(now, broken);
    assert!(engine.info().warnings[0].contains("other variants of lane exact"), "{:?}", engine.info().warnings);
}

#[test]
fn a_gpu_that_cannot_be_trusted_at_all_is_an_error() {
    // There is one variant of it, in every lane.
    let broken = vec![("pick".into(), "default".into())];
    let error = try_load(&LoadOptions { broken, ..tested() }).err().unwrap();
    assert_eq!(error.code(), "GPU");
    assert!(error.message().contains("computes wrongly") && error.message().contains("pick=default"), "{error}");
}
