//! Prompts in which rows that are computed elsewhere take the place of tokens' embeddings, as a picture's do. Rows that
//! are the embeddings of tokens must give these tokens' results, with all kinds of layers; rows with another hash are
//! another text to the prefix cache.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use millrace::ErrorKind;
use millrace::base::Cancel;
use millrace::engine::{Engine, Faults, Generation, LoadOptions, Overflow, Prompt, Request};
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use millrace::state::{Embedded, Input};
use millrace::store::Memory;
use pollster::block_on;
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use crate::common::{self, on_cpu};
use crate::decode_loop::run;
use crate::device_lost::disturbed;

fn folder(fixture: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle").join(fixture).join("model")
}

fn load(fixture: &str, options: &LoadOptions) -> Engine {
    common::load(&open_path(&folder(fixture)).unwrap(), options).unwrap()
}

/// Passes of 24 rows, so that rows in place of tokens span several passes.
fn exact() -> LoadOptions {
    LoadOptions {
        lane: Lane::Exact,
        prefill_rows: Some(24),
        cache_start: Some(64),
        faults: Faults { loss_interval_ms: Some(0.0), ..Faults::default() },
        ..LoadOptions::default()
    }
}

/// A model's table of embeddings, times its family's factor.
struct Table {
    values: Vec<f32>,
    width: usize,
}

impl Table {
    fn of(fixture: &str) -> Self {
        let bytes = std::fs::read(folder(fixture).join("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let name = file
            .names()
            .into_iter()
            .find(|name| name.ends_with(".embed_tokens.weight") || name.ends_with("wte.weight"))
            .unwrap();
        let tensor = file.tensor(name).unwrap();
        let width = tensor.shape()[1];
        let factor = if fixture.starts_with("gemma") { (width as f64).sqrt() as f32 } else { 1.0 };
        let values = match tensor.dtype() {
            Dtype::F32 => {
                tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>()
            }
            Dtype::BF16 => tensor
                .data()
                .chunks_exact(2)
                .map(|b| f32::from_bits(u32::from(u16::from_le_bytes(b.try_into().unwrap())) << 16))
                .collect(),
            other => panic!("{fixture}: {other:?}"),
        };
        Self { values: values.into_iter().map(|x| x * factor).collect(), width }
    }

    /// The embeddings of `ids` as rows with the placeholder `token`.
    fn rows(&self, hash: &str, token: u32, ids: &[u32]) -> Rc<Embedded> {
        let rows = Embedded::new(hash.to_owned(), token, ids.len() as u32).unwrap();
        let row = |id: &u32| &self.values[*id as usize * self.width..][..self.width];
        rows.fill(ids.iter().flat_map(row).copied().collect()).unwrap();
        rows
    }
}

fn ids(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i * 37 + seed * 101) % 250 + 1).collect()
}

fn ask(prompt: Input, n: u32) -> Request {
    Request { ignore_eos: true, max_tokens: Some(n), ..Request::new(Prompt::Input(prompt)) }
}

/// The answer of an engine that reads the whole prompt.
fn afresh(engine: &mut Engine, prompt: Input, n: u32) -> Generation {
    run(engine, &Request { reuse: false, logits: true, ..ask(prompt, n) })
}

fn joined(spans: &[&Input]) -> Input {
    let mut all = Input::default();
    spans.iter().for_each(|span| all.push_input(span));
    all
}

fn of_rows(rows: Rc<Embedded>) -> Input {
    let mut input = Input::default();
    input.push_rows(rows);
    input
}

fn assert_bits(a: &Generation, b: &Generation, what: &str) {
    let bits = |g: &Generation| g.logits.as_ref().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!((bits(a), &a.tokens), (bits(b), &b.tokens), "{what}");
}

/// Keys and values of all positions and of a window, recurrent states and convolutions, learned positions, sinks, a
/// factor of embeddings, per-layer embeddings. The rows stand first, last, alone, across passes, and twice.
#[test]
fn embeddings_of_tokens_as_rows_are_these_tokens() {
    for fixture in ["hf-single", "gpt2-hf", "gemma2-hf", "gemma4-hf", "lfm2-hf", "qwen35-hf", "gptoss-hf"] {
        let _cpu = (!["hf-single", "gemma4-hf"].contains(&fixture)).then(on_cpu);
        let table = Table::of(fixture);
        let mut engine = load(fixture, &exact());
        for (before, n, after) in [(0, 3, 2), (5, 1, 0), (0, 30, 0), (9, 40, 11)] {
            // Per-layer embeddings are those of the padding token, whose id is 0 by default.
            let token = if fixture == "gemma4-hf" { 0 } else { 77 };
            let (text, shown, rest) = (ids(before, 1), vec![token; n], ids(after, 2));
            let tokens = [&text[..], &shown, &rest, &shown].concat();
            let rows = of_rows(table.rows("a", token, &shown));
            let mixed = joined(&[&text.clone().into(), &rows, &rest.clone().into(), &rows]);
            assert_eq!(mixed.ids(), tokens);
            let (of_tokens, of_rows) = (afresh(&mut engine, tokens.into(), 6), afresh(&mut engine, mixed, 6));
            assert_bits(&of_tokens, &of_rows, &format!("{fixture}: {n} rows behind {before}"));
            assert_eq!(of_rows.prompt_tokens, before + 2 * n + after);
        }
        // The result depends on the values, not on the placeholder token.
        let shown = ids(35, 3);
        let of_token =
            |token: u32| joined(&[&ids(4, 1).into(), &of_rows(table.rows("b", token, &shown)), &ids(3, 2).into()]);
        let mixed = of_token(5);
        if fixture == "gemma4-hf" {
            assert_bits(&afresh(&mut engine, of_token(9), 6), &afresh(&mut engine, mixed, 6), fixture);
            continue;
        }
        let tokens = [ids(4, 1), shown, ids(3, 2)].concat();
        assert_bits(&afresh(&mut engine, tokens.into(), 6), &afresh(&mut engine, mixed, 6), fixture);
    }
}

/// The fast lane and its activations of eight bits, where the device has it.
#[test]
fn lanes_have_the_same_rows() {
    let table = Table::of("hf-single");
    for lane in [Lane::Fast, Lane::F16] {
        let Ok(mut engine) = block_on(Engine::load(
            &open_path(&folder("hf-single")).unwrap(),
            &LoadOptions { lane, ..exact() },
            &|_| {},
            &Cancel::new(),
        )) else {
            continue;
        };
        let shown = ids(35, 3);
        let mixed = joined(&[&ids(4, 1).into(), &of_rows(table.rows("b", 5, &shown)), &ids(3, 2).into()]);
        let tokens = [ids(4, 1), shown, ids(3, 2)].concat();
        assert_bits(&afresh(&mut engine, tokens.into(), 6), &afresh(&mut engine, mixed, 6), &format!("{lane:?}"));
    }
}

#[test]
fn the_prefix_cache_knows_rows_by_their_hash() {
    let table = Table::of("hf-single");
    let mut engine = load("hf-single", &exact());
    let shown = ids(30, 3);
    let with = |hash: &str, question: u32| {
        joined(&[&ids(8, 1).into(), &of_rows(table.rows(hash, 9, &shown)), &ids(5, question).into()])
    };
    let first = run(&mut engine, &ask(with("a", 2), 8));
    assert_eq!(first.cached_tokens, 0);
    let again = run(&mut engine, &ask(with("a", 2), 8));
    assert_eq!((again.cached_tokens, &again.tokens), (42, &first.tokens), "all but the last token");
    assert_eq!(run(&mut engine, &ask(with("a", 4), 8)).cached_tokens, 38, "the same rows, another question");
    assert_eq!(run(&mut engine, &ask(with("b", 4), 8)).cached_tokens, 8, "other rows");
    let tokens = joined(&[&ids(8, 1).into(), &vec![9; 30].into(), &ids(5, 4).into()]);
    assert_eq!(run(&mut engine, &ask(tokens, 8)).cached_tokens, 8, "the token that stood for the rows");
    // Text behind the rows continues from the cache, by steps and by passes.
    let mut second = with("a", 2);
    run(&mut engine, &ask(second.clone(), 1));
    for turn in 0..3 {
        let answer = run(&mut engine, &ask(second.clone(), 8));
        second.push_tokens(&answer.tokens);
        second.push_tokens(&ids(6, 7 + turn));
        second.push_rows(table.rows(&format!("turn {turn}"), 9, &ids(26, turn)));
        second.push_tokens(&ids(3, turn));
        let known = run(&mut engine, &ask(second.clone(), 8));
        assert_eq!(known.cached_tokens, second.len() - 6 - 26 - 3 - 1);
        assert_eq!(known.tokens, afresh(&mut engine, second.clone(), 8).tokens);
    }
}

/// Rows without values are accepted as long as the cache holds them.
#[test]
fn values_are_wanted_where_rows_are_read() {
    let table = Table::of("hf-single");
    let mut engine = load("hf-single", &exact());
    let rows = table.rows("a", 9, &ids(30, 3));
    let prompt = |rows: Rc<Embedded>| joined(&[&ids(8, 1).into(), &of_rows(rows), &ids(5, 2).into()]);
    let expected = run(&mut engine, &ask(prompt(rows), 8)).tokens;
    let promised = Embedded::new("a".into(), 9, 30).unwrap();
    assert_eq!(run(&mut engine, &ask(prompt(promised.clone()), 8)).tokens, expected);
    let mut error = |request: &Request| block_on(engine.generate(request, &mut |_| {}, &Cancel::new())).err().unwrap();
    assert_eq!(error(&Request { reuse: false, ..ask(prompt(promised), 8) }).kind(), ErrorKind::Internal);
    // Rows of another model's width.
    let wide = Embedded::new("c".into(), 9, 3).unwrap();
    wide.fill(vec![0.5; 3 * 999].into()).unwrap();
    let found = error(&ask(prompt(wide), 8));
    assert!(found.code() == "BAD_OPTION" && found.message().contains("rows of 999 numbers"), "{found}");
    let outside = error(&ask(prompt(Embedded::new("d".into(), 99_999, 3).unwrap()), 8));
    assert!(outside.code() == "BAD_OPTION" && outside.message().contains("99999"), "{outside}");
    let behind = error(&Request { logits_from: Some(4), ..ask(prompt(table.rows("a", 9, &[1, 2])), 1) });
    assert!(behind.code() == "BAD_OPTION" && behind.message().contains("rows in place of tokens"), "{behind}");
    assert_eq!(error(&ask(Input::default(), 8)).code(), "BAD_OPTION");
    assert_eq!(Embedded::new("e".into(), 9, 0).err().unwrap().code(), "BAD_OPTION");
    let rows = Embedded::new("f".into(), 9, 2).unwrap();
    for (values, why) in [
        (vec![], "0 numbers"),
        (vec![1.0; 3], "3 numbers for 2 rows"),
        (vec![1.0, f32::NAN], "not finite"),
        (vec![f32::INFINITY; 2], "not finite"),
    ] {
        let found = rows.fill(values.into()).err().unwrap();
        assert!(found.code() == "BAD_OPTION" && found.message().contains(why), "{found}");
    }
    // None of these errors has changed the conversation's cache.
    let known = run(&mut engine, &ask(prompt(table.rows("a", 9, &ids(30, 3))), 8));
    assert_eq!((known.cached_tokens, known.tokens), (42, expected));
}

#[test]
fn rows_come_back_with_a_device_that_was_lost() {
    for fixture in ["hf-single", "lfm2-hf"] {
        let table = Table::of(fixture);
        let rows = of_rows(table.rows("a", 9, &ids(30, 3)));
        let mut prompt = joined(&[&ids(8, 1).into(), &rows, &ids(5, 2).into()]);
        let (mut engine, mut other) = (load(fixture, &exact()), load(fixture, &exact()));
        for turn in 0..2 {
            let result = disturbed(&mut engine, &ask(prompt.clone(), 40), &[1, 20]).unwrap();
            assert!(result.recoveries > 0);
            assert_eq!(result.tokens, run(&mut other, &ask(prompt.clone(), 40)).tokens, "{fixture}, turn {turn}");
            prompt.push_tokens(&result.tokens);
            prompt.push_input(&rows);
            prompt.push_tokens(&ids(7, 4));
        }
    }
}

#[test]
fn a_saved_conversation_remembers_rows_by_their_hash() {
    let table = Table::of("hf-single");
    let rows = table.rows("a", 9, &ids(30, 3));
    let prompt = joined(&[&ids(8, 1).into(), &of_rows(rows.clone()), &ids(5, 2).into()]);
    let (mut engine, mut other) = (load("hf-single", &exact()), load("hf-single", &exact()));
    let store = Memory::store();
    run(&mut engine, &ask(prompt.clone(), 8));
    block_on(engine.save(0, &store, "shown", &Cancel::new())).unwrap();
    let conversation = block_on(other.restore(&store, "shown")).unwrap();
    // Only the rows' hash is needed to continue.
    let promised = Embedded::new("a".into(), 9, 30).unwrap();
    let longer = joined(&[&ids(8, 1).into(), &of_rows(promised), &ids(5, 2).into(), &ids(4, 6).into()]);
    let went_on = run(&mut other, &Request { conversation, ..ask(longer.clone(), 8) });
    assert_eq!(went_on.cached_tokens, 43);
    let shown = joined(&[&prompt, &ids(4, 6).into()]);
    assert_eq!(went_on.tokens, afresh(&mut engine, shown.clone(), 8).tokens);
    // And it is saved again.
    block_on(other.save(conversation, &store, "again", &Cancel::new())).unwrap();
    let again = block_on(engine.restore(&store, "again")).unwrap();
    assert_eq!(run(&mut engine, &Request { conversation: again, ..ask(longer.clone(), 8) }).cached_tokens, 46);
    // After a device loss the rows are read again, which needs their values.
    other.device().lose();
    let saved = block_on(other.save(conversation, &store, "lost", &Cancel::new())).err().unwrap();
    assert!(saved.code() == "BAD_OPTION" && saved.message().contains("give them again"), "{saved}");
    let result = run(&mut other, &Request { conversation, ..ask(shown, 8) });
    assert_eq!((result.cached_tokens, result.tokens), (8, went_on.tokens));
}

#[test]
fn a_fork_shares_rows_and_a_shift_drops_them_whole() {
    let table = Table::of("hf-single");
    let rows = of_rows(table.rows("a", 9, &ids(30, 3)));
    let prompt = joined(&[&ids(8, 1).into(), &rows, &ids(5, 2).into()]);
    let mut engine = load("hf-single", &exact());
    let first = run(&mut engine, &ask(prompt.clone(), 8));
    let fork = engine.fork(0).unwrap();
    let longer = joined(&[&prompt, &ids(4, 6).into()]);
    let forked = run(&mut engine, &Request { conversation: fork, ..ask(longer.clone(), 8) });
    assert_eq!((forked.cached_tokens, &forked.tokens), (43, &afresh(&mut engine, longer, 8).tokens));
    assert_eq!(run(&mut engine, &ask(prompt.clone(), 8)).tokens, first.tokens);

    // 64 positions: one token stays, and 32 of the others, of which the first 12 would be rows that have lost their
    // beginning.
    let mut small = load("hf-single", &LoadOptions { context: Some(64), ..exact() });
    let long = joined(&[&ids(30, 1).into(), &rows, &ids(20, 2).into()]);
    let shifting = Request { overflow: Overflow::Shift, ..ask(long, 8) };
    let left = joined(&[&ids(1, 1).into(), &ids(20, 2).into()]);
    let shifted = run(&mut small, &shifting);
    assert_eq!((shifted.shifts, shifted.prompt_tokens), (1, 21));
    assert_eq!(shifted.tokens, afresh(&mut engine, left, 8).tokens);
}
