//! The bundled model answers held-out questions as PyTorch does on the weights of the shipped file.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use millrace::base::Cancel;
use millrace::engine::{EmbedOptions, Engine, LoadOptions, Prompt, Request};
use millrace::gpu::DeviceChoice;
use millrace::picture::Picture;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use pollster::block_on;
use serde::Deserialize;
use serde_json::{Value, json};

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
    // A software GPU needs a tenth of a second for a token of this model.
    for (device, nth, least) in [(DeviceChoice::Cpu, 20, 20), (DeviceChoice::Gpu, 125, 3)] {
        let (compared, same) = answer(Lane::Exact, device, nth);
        assert!(compared >= least, "{device:?}: {compared}");
        assert_eq!(same, compared, "{device:?}");
    }
}

#[test]
fn fast_answers_nearly_always_are() {
    let (compared, same) = answer(Lane::Fast, DeviceChoice::Gpu, 125);
    assert!(compared >= 3);
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
struct Seen {
    picture: String,
    question: String,
    prompt_tokens: usize,
    reference_tokens: Vec<u32>,
    reference_text: String,
    min_margin: f32,
}

/// Asks every `nth` picture of tests/data/box/pictures its question; returns (compared, the same).
fn look(lane: Lane, device: DeviceChoice, nth: usize) -> (usize, usize) {
    let options = LoadOptions { lane, device: Some(device), ..LoadOptions::default() };
    let files = open_path(&root("www/models/box.gguf")).expect("the box");
    let mut engine = block_on(Engine::load(&files, &options, &|_| {}, &Cancel::new())).expect("an engine");
    let folder = root("tests/data/box/pictures");
    let lines = std::fs::read_to_string(folder.join("answers.jsonl")).expect("the answers");
    let all: Vec<Seen> = lines.lines().map(|l| serde_json::from_str(l).expect("an answer")).collect();
    assert_eq!(all.len(), 26);
    let (mut compared, mut same) = (0, 0);
    for seen in all.into_iter().step_by(nth) {
        let rgb = image::open(folder.join(&seen.picture)).expect("a picture").to_rgb8();
        let (width, height) = rgb.dimensions();
        let shown = json!([{ "type": "image" }, { "type": "text", "text": seen.question }]);
        let request = Request {
            pictures: vec![Rc::new(Picture::new(rgb.into_raw(), width, height).expect("pixels"))],
            max_tokens: Some(96),
            ..Request::new(Prompt::Messages(json!([{ "role": "user", "content": shown }])))
        };
        let result = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).expect("an answer");
        assert_eq!(result.prompt_tokens, seen.prompt_tokens, "{}", seen.picture);
        if seen.min_margin < TIE {
            println!("{} is a tie ({})", seen.picture, seen.min_margin);
            continue;
        }
        compared += 1;
        if result.tokens == seen.reference_tokens {
            same += 1;
            assert_eq!(result.text, seen.reference_text, "{}", seen.picture);
        } else {
            let Seen { picture, reference_text, min_margin, .. } = seen;
            println!("{picture}: {:?} instead of {reference_text:?} (margin {min_margin})", result.text);
        }
    }
    println!("{} on {device:?}: {same} of {compared} the same", lane.name());
    (compared, same)
}

#[test]
fn pictures_are_read_as_pytorch_reads_them() {
    let (compared, same) = look(Lane::Exact, DeviceChoice::Cpu, 13);
    assert_eq!((compared, same), (2, 2), "exact, CPU");
    let (compared, same) = look(Lane::Fast, DeviceChoice::Cpu, 4);
    assert!(compared >= 6);
    assert!(same * 100 >= compared * 90, "fast, CPU: {same} of {compared}");
    let (compared, same) = look(Lane::Exact, DeviceChoice::Gpu, 26);
    assert_eq!((compared, same), (1, 1), "exact, GPU");
}

#[test]
#[ignore = "all 26 pictures, three times: npm run test:long"]
fn all_26_pictures() {
    for (lane, device) in [(Lane::Exact, DeviceChoice::Cpu), (Lane::Exact, DeviceChoice::Gpu)] {
        let (compared, same) = look(lane, device, 1);
        assert!(compared >= 24);
        assert_eq!(same, compared, "{} on {device:?}", lane.name());
    }
    let (compared, same) = look(Lane::Fast, DeviceChoice::Gpu, 1);
    assert!(same * 100 >= compared * 90, "fast: {same} of {compared}");
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
    for (lane, device, least) in [(Lane::Exact, DeviceChoice::Cpu, 0.999_99), (Lane::Fast, DeviceChoice::Gpu, 0.999)] {
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
