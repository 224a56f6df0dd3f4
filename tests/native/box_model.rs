//! The bundled model answers held-out questions as PyTorch does on the weights of the shipped file.

use std::path::{Path, PathBuf};

use millrace::base::Cancel;
use millrace::engine::{EmbedOptions, Engine, LoadOptions, Prompt, Request};
use millrace::gpu::DeviceChoice;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use pollster::block_on;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Question {
    id: Value,
    messages: Value,
    #[serde(default)]
    tools: Option<Value>,
    prompt_tokens: Vec<u32>,
    reference_tokens: Vec<u32>,
    reference_text: String,
    min_margin: f32,
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn questions() -> Vec<Question> {
    let text = std::fs::read_to_string(root("tests/data/box/heldout.jsonl")).expect("the held-out questions");
    let all: Vec<Question> = text.lines().map(|l| serde_json::from_str(l).expect("a question")).collect();
    assert_eq!(all.len(), 500);
    all
}

/// Positions where two tokens are this close in logits may fall either way: reported, not compared.
const TIE: f32 = 1e-3;

/// Answers every `nth` question; returns (compared, the same).
fn answer(lane: Lane, device: DeviceChoice, nth: usize) -> (usize, usize) {
    let options = LoadOptions { lane, device: Some(device), chunk: Some(16), ..LoadOptions::default() };
    let mut engine = block_on(Engine::load(
        &open_path(&root("www/models/box.gguf")).expect("the box"),
        &options,
        &|_| {},
        &Cancel::new(),
    ))
    .expect("an engine");
    let (mut compared, mut same) = (0, 0);
    for question in questions().into_iter().step_by(nth) {
        let request = Request {
            max_tokens: Some(64),
            tools: question.tools,
            ..Request::new(Prompt::Messages(question.messages))
        };
        assert_eq!(
            engine.prompt_tokens(&request).expect("a prompt"),
            question.prompt_tokens,
            "template and tokenizer, question {}",
            question.id
        );
        let result = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).expect("an answer");
        if question.min_margin < TIE {
            println!("question {} is a tie ({})", question.id, question.min_margin);
            continue;
        }
        compared += 1;
        if result.tokens == question.reference_tokens {
            same += 1;
            assert_eq!(result.text, question.reference_text, "question {}", question.id);
        } else {
            println!(
                "question {}: {:?} instead of {:?} (margin {})",
                question.id, result.text, question.reference_text, question.min_margin
            );
        }
    }
    println!("{}: {same} of {compared} the same", lane.name());
    (compared, same)
}

#[test]
fn exact_answers_are_the_reference_answers() {
    let (compared, same) = answer(Lane::Exact, DeviceChoice::Gpu, 25);
    assert!(compared >= 15);
    assert_eq!(same, compared);
}

#[test]
fn fast_answers_nearly_always_are() {
    let (compared, same) = answer(Lane::Fast, DeviceChoice::Gpu, 25);
    assert!(compared >= 15);
    assert!(same * 100 >= compared * 90, "{same} of {compared}");
}

#[test]
fn answers_of_the_cpu_nearly_always_are() {
    let (compared, same) = answer(Lane::Fast, DeviceChoice::Cpu, 5);
    assert!(compared >= 80);
    assert!(same * 100 >= compared * 95, "{same} of {compared}");
}

#[test]
#[ignore = "all 500 questions twice: npm run test:long"]
fn all_500_answers() {
    let (compared, same) = answer(Lane::Exact, DeviceChoice::Gpu, 1);
    assert!(compared >= 490);
    assert_eq!(same, compared, "exact");
    let (compared, same) = answer(Lane::Fast, DeviceChoice::Gpu, 1);
    assert!(same * 100 >= compared * 98, "fast: {same} of {compared}");
}

#[derive(Deserialize)]
struct Embedded {
    questions: Vec<String>,
    passages: Vec<String>,
    /// Longer than the model reads.
    long: String,
    /// Which passage is nearest to each question.
    found: Vec<usize>,
    /// Embeddings of the questions, the passages, and the long text.
    embeddings: Vec<Vec<f32>>,
}

#[test]
fn embeddings_of_the_box_are_those_of_pytorch() {
    let wanted: Embedded =
        serde_json::from_str(&std::fs::read_to_string(root("tests/data/box/embed.json")).expect("embeddings"))
            .expect("as reference.py writes it");
    let texts = [&wanted.questions[..], &wanted.passages, &[wanted.long]].concat();
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    for (lane, device, least) in [
        (Lane::Exact, DeviceChoice::Gpu, 0.999_99),
        (Lane::Exact, DeviceChoice::Cpu, 0.999_99),
        (Lane::Fast, DeviceChoice::Gpu, 0.999),
    ] {
        let options = LoadOptions { lane, device: Some(device), ..LoadOptions::default() };
        let source = open_path(&root("www/models/embed.gguf")).expect("the model");
        let mut engine = block_on(Engine::load(&source, &options, &|_| {}, &Cancel::new())).expect("an engine");
        let made =
            block_on(engine.embed(&texts, &EmbedOptions::default(), &|_| (), &Cancel::new())).expect("embeddings");
        assert_eq!(made.truncated, 1);
        for (i, (ours, theirs)) in made.vectors.iter().zip(&wanted.embeddings).enumerate() {
            assert!(dot(ours, theirs) >= least, "{lane:?} on {device:?}: text {i}: cosine {}", dot(ours, theirs));
        }
        let (questions, rest) = made.vectors.split_at(wanted.questions.len());
        let nearest = |question: &Vec<f32>| {
            let scores = rest[..wanted.passages.len()].iter().map(|passage| dot(question, passage));
            scores.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i)
        };
        let found: Vec<_> = questions.iter().filter_map(nearest).collect();
        assert_eq!(found, wanted.found, "{lane:?} on {device:?}");
    }
}
