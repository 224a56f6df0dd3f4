//! Logits of small random models against Hugging Face transformers: on the GPU (llvmpipe), with and without subgroups, and through the CPU twins.

use std::path::{Path, PathBuf};

use millrace::decode::TwinSession;
use millrace::format::Checkpoint;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use millrace::stream::{Cancel, Engine, LoadOptions, Prompt, Request};
use pollster::block_on;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    model: String,
    from: u32,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
    greedy: Vec<u32>,
    ties: Vec<u32>,
}

fn fixtures() -> Vec<(String, PathBuf, Expected)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle");
    let mut all: Vec<_> = std::fs::read_dir(&root)
        .expect("tests/data/oracle")
        .map(|entry| {
            let dir = entry.expect("entry").path();
            let text = std::fs::read_to_string(dir.join("expected.json")).expect("expected.json");
            let expected: Expected = serde_json::from_str(&text).expect("expected.json as its README says");
            (dir.file_name().expect("a name").to_string_lossy().into_owned(), dir.join(&expected.model), expected)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(all.len() >= 10, "only {} fixtures", all.len());
    all
}

fn argmax(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

/// At most 1e-3 of the largest |logit| apart at every position, and the same best token except at a tie.
fn agree(name: &str, rows: &[Vec<f32>], e: &Expected) {
    assert_eq!(rows.len(), e.logits.len(), "{name}: positions");
    let mut worst = 0.0f32;
    for (i, (ours, theirs)) in rows.iter().zip(&e.logits).enumerate() {
        let scale = theirs.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let apart = ours.iter().zip(theirs).fold(0.0f32, |m, (a, b)| if (a - b).is_finite() { m.max((a - b).abs()) } else { f32::INFINITY });
        worst = worst.max(apart / scale);
        assert!(apart <= 1e-3 * scale, "{name}, position {}: {apart} apart, largest |logit| {scale}", e.from as usize + i);
        if !e.ties.contains(&(e.from + i as u32)) {
            assert_eq!(argmax(ours), e.greedy[i] as usize, "{name}, position {}", e.from as usize + i);
        }
    }
    println!("{name}: worst {worst:.1e} of max |logit| over {} positions", rows.len());
}

fn on_gpu(options: &LoadOptions, only: &[&str]) {
    for (name, path, expected) in fixtures() {
        if !only.is_empty() && !only.contains(&name.as_str()) {
            continue;
        }
        let files = open_path(&path).expect("model files");
        let mut engine = block_on(Engine::load(&files, options, &|_| {}, &Cancel::new())).unwrap_or_else(|e| panic!("{name}: {e}"));
        let request = Request { logits_from: Some(expected.from), max_tokens: Some(1), ..Request::new(Prompt::Tokens(expected.tokens.clone())) };
        let result = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).unwrap_or_else(|e| panic!("{name}: {e}"));
        agree(&name, &result.all_logits.expect("logits were asked for"), &expected);
        // The decode loop itself, sampling and state included, makes the same greedy text.
        let request = Request { ignore_eos: true, max_tokens: Some(expected.greedy.len() as u32), ..Request::new(Prompt::Tokens(expected.prompt.clone())) };
        let result = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).unwrap_or_else(|e| panic!("{name}: {e}"));
        if expected.ties.is_empty() {
            assert_eq!(result.tokens, expected.greedy, "{name}: greedy text");
        }
    }
}

#[test]
fn exact_lane_agrees_with_transformers() {
    on_gpu(&LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }, &[]);
}

#[test]
fn exact_lane_agrees_without_subgroups() {
    on_gpu(&LoadOptions { lane: Lane::Exact, no_subgroups: true, ..LoadOptions::default() }, &[]);
}

#[test]
fn exact_lane_agrees_in_short_passes_and_with_split_tensors() {
    // 16 rows a pass: several passes for a prompt; 16 KiB a binding: every matrix in several parts.
    on_gpu(
        &LoadOptions { lane: Lane::Exact, prefill_rows: Some(16), max_binding: Some(16 << 10), ..LoadOptions::default() },
        &["gguf-mixed", "gguf-q4_k_m", "gguf-q8_0", "hf-sharded", "hf-window"],
    );
}

#[test]
fn twins_agree_with_transformers() {
    for (name, path, expected) in fixtures() {
        let files = open_path(&path).expect("model files");
        let checkpoint = block_on(Checkpoint::open(&files)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let twins = block_on(TwinSession::load(&checkpoint, Lane::Exact, 64, 192, 1 << 20)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let from = expected.from as usize;
        twins.prefill(&expected.tokens[..=from], 0).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut rows = vec![twins.logits().expect("logits")];
        for (i, token) in expected.tokens.iter().enumerate().skip(from + 1) {
            rows.push(twins.feed(*token, i as u32).unwrap_or_else(|e| panic!("{name}: {e}")));
        }
        agree(&name, &rows, &expected);
    }
}
