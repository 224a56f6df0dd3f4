//! Logits of small random models against Hugging Face transformers: on the GPU (llvmpipe), with and without subgroups,
//! and through the CPU twins.

use std::path::{Path, PathBuf};

use millrace::base::Cancel;
use millrace::decode::TwinSession;
use millrace::engine::{Engine, LoadOptions, Prompt, Request};
use millrace::format::Checkpoint;
use millrace::gpu::DeviceChoice;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
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
}

/// Every committed fixture: a missing one, and one that is not listed here, fails the tests.
const FIXTURES: [&str; 79] = [
    "ernie4_5-gguf",
    "ernie4_5-hf",
    "exaone4-gguf",
    "exaone4-hf",
    "falconh1-gguf",
    "falconh1-hf",
    "gemma2-gguf",
    "gemma2-hf",
    "gemma3-gguf",
    "gemma3-hf",
    "gemma4-gguf",
    "gemma4-hf",
    "gemma4experts-gguf",
    "gemma4experts-hf",
    "gguf-bf16",
    "gguf-f16",
    "gguf-f32",
    "gguf-mixed",
    "gguf-q4_0",
    "gguf-q4_k_m",
    "gguf-q8_0",
    "gguf-split",
    "glm4-gguf",
    "glm4-hf",
    "gpt2-gguf",
    "gpt2-hf",
    "gptoss-gguf",
    "gptoss-hf",
    "granite-gguf",
    "granite-hf",
    "granite4-gguf",
    "granite4-hf",
    "granitehybrid-gguf",
    "granitehybrid-hf",
    "granitehybridmoe-gguf",
    "granitehybridmoe-hf",
    "granitemoe-gguf",
    "granitemoe-hf",
    "hf-biases",
    "hf-f8",
    "hf-sharded",
    "hf-single",
    "hf-window",
    "hunyuan-gguf",
    "hunyuan-hf",
    "lfm2-gguf",
    "lfm2-hf",
    "lfm2moe-gguf",
    "lfm2moe-hf",
    "minicpm-gguf",
    "ministral3-gguf",
    "ministral3-hf",
    "nemotronh-gguf",
    "nemotronhmoe-gguf",
    "nemotronhmoe-hf",
    "olmo2-gguf",
    "olmo2-hf",
    "olmo3-gguf",
    "olmo3-hf",
    "phi3-gguf",
    "phi3-hf",
    "qwen2-gguf",
    "qwen2-hf",
    "qwen3-gguf",
    "qwen3-hf",
    "qwen35-gguf",
    "qwen35-hf",
    "qwen35moe-gguf",
    "qwen35moe-hf",
    "qwen3moe-gguf",
    "qwen3moe-hf",
    "qwen3next-gguf",
    "qwen3next-hf",
    "qwen3vl-gguf",
    "qwen3vl-hf",
    "smollm3-gguf",
    "smollm3-hf",
    "stablelm-gguf",
    "stablelm-hf",
];

/// How far logits may be from the reference's, relative to the position's largest.
const TOLERANCE: f32 = 3e-5;

fn fixtures() -> Vec<(String, PathBuf, Expected)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle");
    let mut all: Vec<_> = std::fs::read_dir(&root)
        .expect("tests/data/oracle")
        .map(|entry| entry.expect("entry").path())
        // Prompts with pictures have tests of their own (vision.rs).
        .filter(|dir| !std::fs::read_to_string(dir.join("expected.json")).unwrap().contains("\"pictures\""))
        .map(|dir| {
            let text = std::fs::read_to_string(dir.join("expected.json")).expect("expected.json");
            let expected: Expected = serde_json::from_str(&text).expect("expected.json as its README says");
            (dir.file_name().expect("a name").to_string_lossy().into_owned(), dir.join(&expected.model), expected)
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        all.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>(),
        FIXTURES,
        "tests/data/oracle holds the fixtures that are named"
    );
    all
}

fn argmax(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

/// Whether the two best of the reference's logits are so close that either may win.
fn is_tie(row: &[f32]) -> bool {
    let best = argmax(row);
    let second = row.iter().enumerate().filter(|(i, _)| *i != best).fold(f32::NEG_INFINITY, |m, (_, x)| m.max(*x));
    row[best] - second < TOLERANCE * row.iter().fold(0.0, |m: f32, x| m.max(x.abs()))
}

/// Compares rows within [`TOLERANCE`] at every position, with equal best tokens except at a tie. Returns the largest
/// difference.
fn agree(rows: &[Vec<f32>], e: &Expected) -> Result<f32, String> {
    if rows.len() != e.logits.len() {
        return Err(format!("{} positions, expected {}", rows.len(), e.logits.len()));
    }
    let mut worst = 0.0f32;
    for (i, (ours, theirs)) in rows.iter().zip(&e.logits).enumerate() {
        let position = e.from as usize + i;
        let scale = theirs.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let apart = ours
            .iter()
            .zip(theirs)
            .fold(0.0f32, |m, (a, b)| if (a - b).is_finite() { m.max((a - b).abs()) } else { f32::INFINITY });
        worst = worst.max(apart / scale);
        if apart > TOLERANCE * scale {
            return Err(format!("position {position}: {apart} apart, largest |logit| {scale}"));
        }
        if !is_tie(theirs) && argmax(ours) != e.greedy[i] as usize {
            return Err(format!("position {position}: token {}, expected {}", argmax(ours), e.greedy[i]));
        }
    }
    Ok(worst)
}

/// Runs `each` for the fixtures that `only` names, all where it is empty; fails with all that fail.
fn for_each(only: &[&str], each: impl Fn(&Path, &Expected) -> Result<f32, String>) {
    assert!(only.iter().all(|name| FIXTURES.contains(name)), "{only:?}");
    let mut failed = Vec::new();
    for (name, path, expected) in fixtures() {
        if !only.is_empty() && !only.contains(&name.as_str()) {
            continue;
        }
        match each(&path, &expected) {
            Ok(worst) => println!("{name}: worst {worst:.1e} of max |logit| over {} positions", expected.logits.len()),
            Err(e) => failed.push(format!("{name}: {e}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn words(error: millrace::Error) -> String {
    error.to_string()
}

fn load(path: &Path, options: &LoadOptions) -> Result<Engine, String> {
    let files = open_path(path).map_err(words)?;
    block_on(Engine::load(&files, options, &|_| {}, &Cancel::new())).map_err(words)
}

/// The logits of the whole text, and how far they are from the reference's.
fn logits_agree(engine: &mut Engine, expected: &Expected) -> Result<f32, String> {
    let request = Request {
        logits_from: Some(expected.from),
        max_tokens: Some(1),
        ..Request::new(Prompt::Tokens(expected.tokens.clone()))
    };
    let result = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).map_err(words)?;
    agree(&result.all_logits.expect("logits were asked for"), expected)
}

/// The decode loop itself, sampling and state included, makes the same greedy text.
fn text_agrees(engine: &mut Engine, expected: &Expected) -> Result<(), String> {
    let request = Request {
        ignore_eos: true,
        max_tokens: Some(expected.greedy.len() as u32),
        ..Request::new(Prompt::Tokens(expected.prompt.clone()))
    };
    let result = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).map_err(words)?;
    if expected.logits.iter().any(|row| is_tie(row)) || result.tokens == expected.greedy {
        return Ok(());
    }
    Err(format!(
        "greedy text {:?} after {} known tokens, expected {:?}",
        result.tokens, result.cached_tokens, expected.greedy
    ))
}

/// Compares logits from short passes and from passes of few rows, which the tuner compiles.
fn short_passes_agree(engine: &mut Engine, expected: &Expected) -> Result<f32, String> {
    block_on(engine.tune(0.0, &Cancel::new())).map_err(words)?;
    let worst = logits_agree(engine, expected).map_err(|e| format!("in short passes: {e}"))?;
    // All but the last four tokens, then the whole: the new tokens are read in a pass of few rows.
    let n = expected.prompt.len();
    if n > 8 {
        let begin = Request {
            ignore_eos: true,
            max_tokens: Some(1),
            reuse: false,
            ..Request::new(Prompt::Tokens(expected.prompt[..n - 4].to_vec()))
        };
        block_on(engine.generate(&begin, &mut |_| {}, &Cancel::new())).map_err(words)?;
        text_agrees(engine, expected).map_err(|e| format!("in a pass of few rows: {e}"))?;
    }
    Ok(worst)
}

fn on_device(options: &LoadOptions, only: &[&str], short: bool) {
    for_each(only, |path, expected| {
        let mut engine = load(path, options)?;
        let worst = logits_agree(&mut engine, expected)?;
        text_agrees(&mut engine, expected)?;
        Ok(if short { worst.max(short_passes_agree(&mut engine, expected)?) } else { worst })
    });
}

/// Fixtures that together have every kind of step.
const FEW: [&str; 12] = [
    "gemma2-gguf",
    "gemma4-gguf",
    "gemma4experts-hf",
    "gguf-mixed",
    "gpt2-gguf",
    "gptoss-gguf",
    "granitehybrid-gguf",
    "hf-f8",
    "lfm2-gguf",
    "qwen3-gguf",
    "qwen35moe-gguf",
    "smollm3-gguf",
];

/// Of a model in both forms of files, which differ in loading alone, the GPU runs one; the CPU runs both.
#[test]
fn exact_lane_agrees_with_transformers() {
    let other_form = |name: &str| name.strip_suffix("-hf").map(|model| format!("{model}-gguf"));
    let twice = |name: &str| other_form(name).is_some_and(|other| FIXTURES.contains(&other.as_str()));
    let rest: Vec<_> = FIXTURES.into_iter().filter(|name| !FEW.contains(name) && !twice(name)).collect();
    on_device(&LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }, &rest, false);
}

#[test]
fn exact_lane_agrees_in_passes_of_few_rows() {
    on_device(&LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }, &FEW, true);
}

/// Every fixture, and in short passes too.
#[test]
#[ignore = "minutes: npm run test:long"]
fn exact_lane_agrees_in_all_passes() {
    on_device(&LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }, &[], true);
}

#[test]
fn exact_lane_agrees_without_subgroups() {
    on_device(&LoadOptions { lane: Lane::Exact, subgroups: false, ..LoadOptions::default() }, &FEW, false);
}

/// Every fixture, and in short passes too.
#[test]
#[ignore = "minutes: npm run test:long"]
fn exact_lane_agrees_without_subgroups_in_all_passes() {
    on_device(&LoadOptions { lane: Lane::Exact, subgroups: false, ..LoadOptions::default() }, &[], true);
}

#[test]
fn exact_lane_agrees_on_the_cpu() {
    on_device(
        &LoadOptions { device: Some(DeviceChoice::Cpu), lane: Lane::Exact, ..LoadOptions::default() },
        &[],
        false,
    );
}

#[test]
fn exact_lane_agrees_in_short_passes_and_with_split_tensors() {
    // 16 rows a pass: several passes for a prompt; 16 KiB a binding: every matrix in several parts.
    on_device(
        &LoadOptions {
            lane: Lane::Exact,
            prefill_rows: Some(16),
            max_binding: Some(16 << 10),
            ..LoadOptions::default()
        },
        &["gemma4-gguf", "gguf-mixed", "gguf-q4_k_m", "gguf-q8_0", "hf-sharded", "hf-window"],
        false,
    );
}

#[test]
fn twins_agree_with_transformers() {
    for_each(&[], |path, expected| {
        let files = open_path(path).map_err(words)?;
        let checkpoint = block_on(Checkpoint::open(&files)).map_err(words)?;
        let twins = block_on(TwinSession::load(&checkpoint, Lane::Exact, 64, 256, 1 << 20)).map_err(words)?;
        // Logits are those of the text up to the position: beyond the original context the text is rotated otherwise,
        // and read again.
        let read = |i: usize| twins.prefill(&expected.tokens[..=i], 0).and_then(|()| twins.logits()).map_err(words);
        let from = expected.from as usize;
        let mut rows = vec![read(from)?];
        for (i, token) in expected.tokens.iter().enumerate().skip(from + 1) {
            let again = twins.is_long(i as u32 + 1) != twins.is_long(i as u32);
            rows.push(if again { read(i)? } else { twins.feed(*token, i as u32).map_err(words)? });
        }
        agree(&rows, expected)
    });
}
