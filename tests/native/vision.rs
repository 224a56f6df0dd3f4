//! Vision encoders against transformers on random instances: rows of the projector, and the logits and the text of a
//! prompt that has them in place of tokens. Both kinds of files; widths that are no powers of two, grids that are no
//! squares, every bias and norm far from values that hide mistakes.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use millrace::base::{Cancel, Phase, Progress};
use millrace::engine::{Engine, LoadOptions, PatchValues, Patches, Prompt, Request, Spelled, VisionEncoder};
use millrace::picture::{Element, PatchOrder, Picture, patches as numbers_of};
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use millrace::source::{Files, MemorySource};
use millrace::state::Input;
use millrace::store::Memory;
use millrace::weights::Recipe;
use pollster::block_on;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use crate::common::{self, on_cpu};
use crate::decode_loop::run;

const FIXTURES: [&str; 22] = [
    "lfm2vl-hf",
    "lfm2vl-gguf",
    "qwen35vl-hf",
    "qwen35vl-gguf",
    "qwen3vl-pictures-hf",
    "qwen3vl-pictures-gguf",
    "gemma4vl-hf",
    "gemma4vl-gguf",
    "gemma4vlboth-hf",
    "gemma4vlboth-gguf",
    "gemma4uvl-hf",
    "gemma4uvl-gguf",
    "gemma3vl-hf",
    "gemma3vl-gguf",
    "idefics3vl-hf",
    "idefics3vl-gguf",
    "paddleocrvl-hf",
    "paddleocrvl-gguf",
    "lightonocrvl-hf",
    "lightonocrvl-gguf",
    "glmocrvl-hf",
    "glmocrvl-gguf",
];

/// Fixtures in which a picture's rows attend to each other.
const BOTH_WAYS: [&str; 6] =
    ["gemma4vlboth-hf", "gemma4vlboth-gguf", "gemma4uvl-hf", "gemma4uvl-gguf", "gemma3vl-hf", "gemma3vl-gguf"];

struct Fixture {
    folder: PathBuf,
    expected: Value,
}

impl Fixture {
    fn open(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle").join(name);
        let expected = serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
        Self { folder, expected }
    }

    /// The path of the language model, or of the vision tower: one folder where both are in one.
    fn path(&self, part: &str) -> PathBuf {
        self.folder.join(self.expected.get(part).unwrap_or(&self.expected["model"]).as_str().unwrap())
    }

    fn encoder(&self, lane: Lane) -> VisionEncoder {
        let options = LoadOptions { lane, self_test: Some(true), device: common::device(), ..LoadOptions::default() };
        block_on(VisionEncoder::load(
            &open_path(&self.path("mmproj")).unwrap(),
            &options,
            None,
            &|_| {},
            &Cancel::new(),
        ))
        .unwrap()
    }

    fn engine(&self, lane: Lane) -> Engine {
        let options = LoadOptions { lane, ..LoadOptions::default() };
        common::load(&open_path(&self.path("model")).unwrap(), &options).unwrap()
    }

    fn pictures(&self) -> &[Value] {
        self.expected["pictures"].as_array().unwrap()
    }
}

/// The reference's patches, by its formula, with their numbers in the order of the file's weights.
fn patches(of: &Value, by_channel: bool) -> Patches {
    let number = |v: &Value| u32::try_from(v.as_u64().unwrap()).unwrap();
    let (high, wide, seed) = (number(&of["grid"][0]), number(&of["grid"][1]), u64::from(number(&of["seed"])));
    let value = |i: u32, j: usize| {
        let j = if by_channel { (j % 256) * 3 + j / 256 } else { j };
        (((u64::from(i) * 7919 + j as u64 * 104_729 + seed * 15_485_863) % 2003) as f64 / 1001.5 - 1.0) as f32
    };
    let values = (0..wide * high).flat_map(|i| (0..768).map(move |j| value(i, j))).collect();
    Patches { wide, high, values: PatchValues::Numbers(values) }
}

fn numbers(of: &Value) -> Vec<f32> {
    match of {
        Value::Array(items) => items.iter().flat_map(numbers).collect(),
        other => vec![other.as_f64().unwrap() as f32],
    }
}

/// The largest difference, relative to the largest number.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    let largest = b.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
    a.iter().zip(b).fold(0.0_f32, |m, (a, b)| m.max((a - b).abs())) / largest
}

#[test]
fn rows_of_pictures_are_those_of_transformers() {
    for name in FIXTURES {
        let fixture = Fixture::open(name);
        // The two forms differ only in loading: the folder's is computed on the CPU.
        let folder = name.ends_with("-hf");
        let _cpu = folder.then(on_cpu);
        let lanes = [(Lane::Exact, 3e-5), (Lane::Fast, 3e-2)];
        for (lane, most) in lanes.into_iter().take(if folder { 1 } else { 2 }) {
            let mut encoder = fixture.encoder(lane);
            let by_channel = encoder.config().by_channel;
            let tiles: Vec<Patches> = fixture.pictures().iter().map(|picture| patches(picture, by_channel)).collect();
            // Together, and each alone.
            let together = block_on(encoder.encode(&tiles, &|_| {}, &Cancel::new())).unwrap();
            for ((picture, tile), rows) in fixture.pictures().iter().zip(&tiles).zip(&together) {
                // Each row, and the rows that are added after the language model's first layers.
                let parts =
                    ["projected", "deepstack.0", "deepstack.1"].into_iter().filter(|part| picture.get(part).is_some());
                let parts: Vec<Vec<f32>> = parts.map(|part| numbers(&picture[part])).collect();
                let each = parts[0].len() / picture["tokens"].as_u64().unwrap() as usize;
                for (i, part) in parts.iter().enumerate() {
                    let of_part: Vec<f32> =
                        rows.chunks_exact(each).skip(i).step_by(parts.len()).flatten().copied().collect();
                    let found = apart(&of_part, part);
                    assert!(found < most, "{name}, {lane:?}, {}, part {i}: {found}", picture["name"]);
                }
                assert_eq!(
                    &block_on(encoder.encode(std::slice::from_ref(tile), &|_| {}, &Cancel::new())).unwrap()[0],
                    rows
                );
            }
        }
    }
}

/// Pixels are encoded as the numbers that image processors make of them: in both orders of a patch's numbers, with two
/// frames, of patches in the order of merging, and normed.
#[test]
fn pixels_are_encoded_as_their_numbers() {
    for (name, cpu) in [
        ("lfm2vl-hf", false),
        ("qwen35vl-hf", false),
        ("lfm2vl-gguf", true),
        ("gemma4vl-hf", true),
        ("gemma4uvl-gguf", true),
        ("lightonocrvl-hf", true),
    ] {
        let _cpu = cpu.then(on_cpu);
        let mut encoder = Fixture::open(name).encoder(Lane::Exact);
        let config = encoder.config().clone();
        let (side, merge) = (config.patch as u32, config.merge as u32);
        let (wide, high) = (3 * merge, 2 * merge);
        let bytes = (0..wide * high * side * side * 3).map(|i| (i * 7919 % 65_537) as u8).collect();
        let pixels = Rc::new(Picture::new(bytes, wide * side, high * side).unwrap());
        let element = if config.by_channel { Element::ChannelRowColumn } else { Element::RowColumnChannel };
        let numbers = numbers_of(&pixels, side, PatchOrder::Raster, element, config.pictures.normalize()).unwrap();
        let of = |values| Patches { wide, high, values };
        let (numbers, pixels) = (of(PatchValues::Numbers(numbers)), of(PatchValues::Pixels(pixels)));
        // Each behind the other.
        let tiles = [pixels.clone(), numbers, pixels.clone()];
        let [before, expected, behind] = &block_on(encoder.encode(&tiles, &|_| {}, &Cancel::new())).unwrap()[..] else {
            panic!("{name}")
        };
        assert!(before == expected && behind == expected, "{name}: {} apart", apart(before, expected));
        let error =
            block_on(encoder.encode(&[Patches { wide: wide + merge, ..pixels }], &|_| {}, &Cancel::new())).unwrap_err();
        assert!(error.code() == "BAD_OPTION" && error.message().contains("pixels for"), "{name}: {error}");
    }
}

/// An abort takes effect within a tile, between two parts of its layers; the same tile is encoded right after it.
#[test]
fn an_abort_ends_a_tile_in_its_midst() {
    let fixture = Fixture::open("lfm2vl-hf");
    for cpu in [false, true] {
        let _cpu = cpu.then(on_cpu);
        let mut encoder = fixture.encoder(Lane::Exact);
        let tile = patches(&fixture.pictures()[0], false);
        let total = u64::from(tile.wide * tile.high);
        let (cancel, reports) = (Cancel::new(), RefCell::new(Vec::new()));
        let progress = |report: Progress| {
            reports.borrow_mut().push((report.phase, report.loaded, report.total));
            cancel.cancel();
        };
        let error = block_on(encoder.encode(std::slice::from_ref(&tile), &progress, &cancel)).unwrap_err();
        assert_eq!(error.code(), "ABORTED");
        assert_eq!(reports.take(), [(Phase::Pictures, total / 3, total)]);
        let whole = Cancel::new();
        let progress = |report: Progress| reports.borrow_mut().push((report.phase, report.loaded, report.total));
        let rows = block_on(encoder.encode(std::slice::from_ref(&tile), &progress, &whole)).unwrap().remove(0);
        assert!(apart(&rows, &numbers(&fixture.pictures()[0]["projected"])) < 3e-5);
        // A part for each of three layers, as the time of a tile is not known before one has ended.
        let each = [total / 3, total * 2 / 3, total].map(|loaded| (Phase::Pictures, loaded, total));
        assert_eq!(reports.take(), each);
    }
}

/// Tokens of a fixture, with its pictures' rows in place of the placeholder tokens.
fn with_pictures(fixture: &Fixture, ids: &[u32]) -> Input {
    let mut encoder = fixture.encoder(Lane::Exact);
    let by_channel = encoder.config().by_channel;
    let mut input = Input::default();
    for place in fixture.expected["places"].as_array().unwrap() {
        let picture = fixture.pictures().iter().find(|picture| picture["name"] == place["picture"]).unwrap();
        let (at, n) = (place["at"].as_u64().unwrap() as usize, picture["tokens"].as_u64().unwrap() as u32);
        let tile = patches(picture, by_channel);
        let rows = block_on(encoder.encode(std::slice::from_ref(&tile), &|_| {}, &Cancel::new())).unwrap().remove(0);
        input.push_tokens(&ids[input.len()..at]);
        let shown = encoder.rows(picture["name"].to_string(), ids[at], &tile).unwrap();
        assert_eq!(shown.rows(), n);
        shown.fill(rows).unwrap();
        input.push_rows(shown);
    }
    input.push_tokens(&ids[input.len()..]);
    input
}

#[test]
fn prompts_with_pictures_go_on_as_those_of_transformers() {
    for name in FIXTURES {
        let fixture = Fixture::open(name);
        let _cpu = name.ends_with("-hf").then(on_cpu);
        let ids = ids(&fixture.expected["tokens"]);
        let length = fixture.expected["prompt"].as_array().unwrap().len();
        let input = with_pictures(&fixture, &ids);
        assert_eq!(input.ids(), ids);
        let mut engine = fixture.engine(Lane::Exact);
        let positions =
            fixture.expected["positions"].as_array().unwrap().iter().map(|at| at.as_u64().unwrap() as usize);
        for (at, logits) in positions.zip(fixture.expected["logits"].as_array().unwrap()) {
            let request =
                Request { logits: true, max_tokens: Some(1), ..Request::new(Prompt::Input(input.slice(0..at + 1))) };
            let found = apart(&run(&mut engine, &request).logits.unwrap(), &numbers(logits));
            assert!(found < 3e-5, "{name}, position {at}: {found}");
        }
        let greedy: Vec<u32> =
            fixture.expected["greedy"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        let request = Request {
            max_tokens: Some(greedy.len() as u32),
            ignore_eos: true,
            ..Request::new(Prompt::Input(input.slice(0..length)))
        };
        assert_eq!(run(&mut engine, &request).tokens, greedy, "{name}");
    }
}

#[test]
fn tiles_that_cannot_be_are_refused() {
    let fixture = Fixture::open("lfm2vl-hf");
    let mut encoder = fixture.encoder(Lane::Exact);
    let good = patches(&fixture.pictures()[0], false);
    for (wide, high, n) in [(5, 4, 20), (0, 4, 0), (6, 4, 23), (6, 4, 0), (66, 66, 66 * 66)] {
        let tile = Patches { wide, high, values: PatchValues::Numbers(vec![0.5; n * 768]) };
        let error = block_on(encoder.encode(&[good.clone(), tile], &|_| {}, &Cancel::new())).unwrap_err();
        assert_eq!(error.code(), "BAD_OPTION", "{wide} x {high}: {error}");
    }
    let cancelled = Cancel::new();
    cancelled.cancel();
    assert_eq!(
        block_on(encoder.encode(std::slice::from_ref(&good), &|_| {}, &cancelled)).unwrap_err().code(),
        "ABORTED"
    );
    let load = |path: PathBuf| {
        block_on(VisionEncoder::load(
            &open_path(&path).unwrap(),
            &LoadOptions::default(),
            None,
            &|_| {},
            &Cancel::new(),
        ))
        .err()
        .unwrap()
    };
    let text = load(Fixture::open("lfm2vl-gguf").path("model"));
    assert!(text.code() == "UNSUPPORTED_MODEL" && text.message().contains("mmproj"), "{text}");
    let other = load(fixture.folder.join("../qwen3-hf/model"));
    assert!(other.code() == "UNSUPPORTED_MODEL" && other.message().contains("Qwen3ForCausalLM"), "{other}");
}

/// A picture by the formula of chats.json.
fn picture(of: &Value) -> Rc<Picture> {
    let number = |key: &str| u32::try_from(of[key].as_u64().unwrap()).unwrap();
    let (width, height, seed) = (number("width"), number("height"), number("seed"));
    let value =
        |x: u32, y: u32, c: u32| ((x * (3 + seed) + y * (5 + c) + ((x * y) >> 3) + seed * 17 + c * 60) % 256) as u8;
    let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| (0..3).map(move |c| value(x, y, c)))).collect();
    Rc::new(Picture::new(pixels, width, height).unwrap())
}

fn ids(of: &Value) -> Vec<u32> {
    of.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// From pixels to tokens: resizing, tiles, names of tiles, pictures between texts and in several turns.
#[test]
fn conversations_with_pictures_are_those_of_transformers() {
    let _cpu = on_cpu();
    for name in [
        "lfm2vl-hf",
        "qwen35vl-hf",
        "qwen3vl-pictures-hf",
        "gemma4vl-hf",
        "gemma4vlboth-hf",
        "gemma4uvl-hf",
        "gemma3vl-hf",
        "idefics3vl-hf",
        "paddleocrvl-hf",
        "lightonocrvl-hf",
        "glmocrvl-hf",
    ] {
        conversations_of(&Fixture::open(name));
    }
}

fn conversations_of(fixture: &Fixture) {
    let chats: Value = serde_json::from_slice(&std::fs::read(fixture.folder.join("chats.json")).unwrap()).unwrap();
    let mut engine = fixture.engine(Lane::Exact);
    for chat in chats["chats"].as_array().unwrap() {
        let pictures: Vec<_> = chat["pictures"].as_array().unwrap().iter().map(picture).collect();
        let tokens = pictures
            .iter()
            .map(|picture| engine.picture_tokens(picture.width(), picture.height()).unwrap())
            .sum::<u64>();
        let request = Request {
            pictures,
            ignore_eos: true,
            max_tokens: Some(12),
            ..Request::new(Prompt::Messages(chat["messages"].clone()))
        };
        let prompt = ids(&chat["prompt"]);
        assert_eq!(engine.prompt_tokens(&request).unwrap(), prompt);
        assert!(tokens > 0 && tokens < prompt.len() as u64);
        let result = run(&mut engine, &Request { logits: true, ..request.clone() });
        let found = apart(result.logits.as_ref().unwrap(), &numbers(&chat["logits"]));
        assert!(found < 3e-5, "{}: {found}", chat["messages"]);
        assert_eq!(
            (&result.tokens, result.prompt_tokens),
            (&ids(&chat["greedy"]), prompt.len()),
            "{}",
            chat["messages"]
        );
        let again = run(&mut engine, &request);
        assert!(again.cached_tokens > 0 && again.tokens == result.tokens);
        // In the format of OpenAI's clients, and where a template takes content for a text.
        let openai = serde_json::from_str(
            &chat["messages"]
                .to_string()
                .replace(r#"{"type":"image"}"#, r#"{"type":"image_url","image_url":{"url":"blob:1"}}"#),
        )
        .unwrap();
        assert_eq!(
            engine.prompt_tokens(&Request { prompt: Prompt::Messages(openai), ..request.clone() }).unwrap(),
            prompt
        );
    }
}

/// One question with another picture, another question about the same picture, turns, and a device loss while a picture
/// is encoded.
#[test]
fn pictures_are_read_once_and_known_by_what_they_show() {
    let _cpu = on_cpu();
    // Without a limit on its rows, a picture takes so many that the fixture's context has no room for two.
    let unlimited = ["gemma4vl-gguf", "gemma4vlboth-gguf", "gemma4uvl-gguf"];
    for name in FIXTURES.into_iter().filter(|name| !unlimited.contains(name)) {
        let fixture = Fixture::open(name);
        let mut engine = fixture.engine(Lane::Exact);
        let shown = |seed: u32| picture(&json!({ "width": 97, "height": 64, "seed": seed }));
        let part = json!({ "type": "image_url", "image_url": { "url": "data:" } });
        let user = |words: &str| json!({ "role": "user", "content": [part, { "type": "text", "text": words }] });
        let first = run(&mut engine, &likeliest(json!([user("What?")]), vec![shown(1)]));
        // The picture's rows are the longest run of equal tokens.
        let prompt = engine.prompt_tokens(&likeliest(json!([user("What?")]), vec![shown(1)])).unwrap();
        let runs = prompt.chunk_by(|a, b| a == b).scan(0, |end, run| {
            *end += run.len();
            Some((run.len(), *end - run.len()))
        });
        let (_, before) = runs.max_by_key(|(length, _)| *length).unwrap();
        let other = run(&mut engine, &likeliest(json!([user("What?")]), vec![shown(2)]));
        assert!(other.cached_tokens <= before, "{name}: {}", other.cached_tokens);
        assert_ne!(other.logprobs, first.logprobs, "{name}: the picture matters");
        let messages = json!([user("What?"), { "role": "assistant", "content": "It." }, user("And this?")]);
        let request = likeliest(messages, vec![shown(1), shown(3)]);
        let expected = run(&mut fixture.engine(Lane::Exact), &request).tokens;
        assert_eq!(run(&mut engine, &request).tokens, expected, "{name}");
        engine.device().lose();
        let after = run(&mut engine, &Request { reuse: false, ..request.clone() });
        assert_eq!((&after.tokens, after.recoveries), (&expected, 1), "{name}");
        // From the cached rows; in layers with a window the order of sums depends on where a pass begins.
        let again = run(&mut engine, &Request { reuse: false, ..likeliest(json!([user("What?")]), vec![shown(1)]) });
        assert_eq!(again.logprobs, first.logprobs, "{name}");
    }
}

#[test]
fn pictures_that_cannot_be_read_are_errors_by_name() {
    let fixture = Fixture::open("lfm2vl-hf");
    let mut engine = fixture.engine(Lane::Exact);
    let shown = |width: u32, height: u32| picture(&json!({ "width": width, "height": height, "seed": 1 }));
    let part = json!({ "type": "image" });
    let ask = |content: Value, pictures: Vec<Rc<Picture>>| Request {
        pictures,
        max_tokens: Some(1),
        ..Request::new(Prompt::Messages(json!([{ "role": "user", "content": content }])))
    };
    let mut error = |request: &Request| block_on(engine.generate(request, &mut |_| {}, &Cancel::new())).err().unwrap();
    for (request, code, why) in [
        (ask(json!([part]), vec![]), "BAD_OPTION", "1 parts that are pictures, and 0"),
        (ask(json!("?"), vec![shown(9, 9)]), "BAD_OPTION", "0 parts that are pictures, and 1"),
        (Request { pictures: vec![shown(9, 9)], ..Request::new(Prompt::Text("x".into())) }, "BAD_OPTION", "0 parts"),
        (ask(json!([part, { "type": "input_audio" }]), vec![shown(9, 9)]), "BAD_OPTION", "input_audio"),
        (ask(json!([part]), vec![shown(30_000, 1)]), "BAD_OPTION", "picture 0"),
        (
            Request {
                prompt: Prompt::Messages(json!([{ "role": "assistant", "content": [part] }])),
                ..ask(json!([part]), vec![shown(9, 9)])
            },
            "BAD_OPTION",
            "assistant",
        ),
    ] {
        let found = error(&request);
        assert!(found.code() == code && found.message().contains(why), "{why}: {found}");
    }
    // Special tokens that a message spells are text.
    let spelled = ask(json!([part, { "type": "text", "text": "<image> \u{fdd0} <|image_end|>" }]), vec![shown(64, 64)]);
    let tokens = engine.prompt_tokens(&spelled).unwrap();
    assert_eq!(tokens.iter().filter(|id| **id == 301).count(), 4);
    let parsed = Request { special_tokens: Spelled::Parse, ..spelled };
    let found = engine.prompt_tokens(&parsed).err().unwrap();
    assert!(found.code() == "BAD_OPTION" && found.message().contains("spells <image>"), "{found}");
    let mut text = block_on(Engine::load(
        &open_path(&fixture.folder.join("../qwen3-hf/model")).unwrap(),
        &LoadOptions::default(),
        &|_| {},
        &Cancel::new(),
    ))
    .unwrap();
    let found =
        block_on(text.generate(&ask(json!([part]), vec![shown(9, 9)]), &mut |_| {}, &Cancel::new())).err().unwrap();
    assert!(found.code() == "UNSUPPORTED_MODEL" && found.message().contains("mmproj"), "{found}");
}

/// With any size of passes, any known prefix, and after a device loss: rows that attend to each other are read in one
/// pass.
#[test]
fn pictures_whose_rows_see_each_other_are_read_whole() {
    let _cpu = on_cpu();
    for name in BOTH_WAYS {
        let fixture = Fixture::open(name);
        let input = with_pictures(&fixture, &ids(&fixture.expected["prompt"]));
        let greedy: Vec<u32> = ids(&fixture.expected["greedy"]);
        let asked = |input: Input| Request {
            max_tokens: Some(greedy.len() as u32),
            ignore_eos: true,
            ..Request::new(Prompt::Input(input))
        };
        let loaded = |rows: u32| {
            let options = LoadOptions { lane: Lane::Exact, prefill_rows: Some(rows), ..LoadOptions::default() };
            common::load(&open_path(&fixture.path("model")).unwrap(), &options).unwrap()
        };
        // The larger of the fixture's pictures has 12 rows, or 9.
        let most = if name.starts_with("gemma3") { 9 } else { 12 };
        for rows in [most, most + 1, 20, 27] {
            assert_eq!(run(&mut loaded(rows), &asked(input.clone())).tokens, greedy, "{name}, passes of {rows}");
        }
        let found =
            block_on(loaded(most - 1).generate(&asked(input.clone()), &mut |_| {}, &Cancel::new())).err().unwrap();
        assert!(
            found.code() == "BAD_OPTION" && found.message().contains(&format!("prefillRows of {most}")),
            "{name}: {found}"
        );
        // The prompt ends with a picture, and is asked again; a part of the picture is known, and the whole comes.
        let mut engine = loaded(64);
        let end = (1..input.len()).find(|at| input.whole_from(*at) > *at).map(|at| input.whole_from(at)).unwrap();
        let expected = run(&mut loaded(64), &asked(input.slice(0..end))).tokens;
        for _ in 0..2 {
            assert_eq!(run(&mut engine, &asked(input.slice(0..end))).tokens, expected, "{name}");
        }
        assert_eq!(run(&mut engine, &asked(input.clone())).tokens, greedy, "{name}");
        run(&mut engine, &asked(input.slice(0..end - 2)));
        assert_eq!(run(&mut engine, &asked(input.clone())).tokens, greedy, "{name}");
        // With compiled passes of few rows, which have causal attention only.
        block_on(engine.tune(0.0, &Cancel::new())).unwrap();
        let afresh = Request { reuse: false, ..asked(input.clone()) };
        assert_eq!(run(&mut engine, &afresh).tokens, greedy, "{name}");
        engine.device().lose();
        let after = run(&mut engine, &asked(input.clone()));
        assert_eq!((after.tokens, after.recoveries), (greedy, 1), "{name}");
    }
}

/// Eight tokens of an answer, with the three likeliest at each.
fn likeliest(messages: Value, pictures: Vec<Rc<Picture>>) -> Request {
    Request {
        pictures,
        ignore_eos: true,
        max_tokens: Some(8),
        logprobs: Some(3),
        ..Request::new(Prompt::Messages(messages))
    }
}

/// The vocabulary of Gemma's own GGUF files ends before the placeholder token of a picture's rows: another token is
/// used.
#[test]
fn vocabularies_without_the_token_of_rows_have_another() {
    let fixture = Fixture::open("gemma3vl-hf");
    let renamed = |names: &[(&str, &str)]| {
        let mut files = open_path(&fixture.path("model")).unwrap();
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            let mut text = std::fs::read_to_string(fixture.path("model").join(name)).unwrap();
            names.iter().for_each(|(from, to)| text = text.replace(from, to));
            files.insert(name.into(), Rc::new(MemorySource::new(name, text.into_bytes())));
        }
        block_on(Engine::load(
            &files,
            &LoadOptions { lane: Lane::Exact, ..LoadOptions::default() },
            &|_| {},
            &Cancel::new(),
        ))
        .unwrap()
    };
    let shown = picture(&json!({ "width": 97, "height": 64, "seed": 1 }));
    let messages = json!([{ "role": "user", "content": [{ "type": "image" }, { "type": "text", "text": "What?" }] }]);
    let asked = likeliest(messages, vec![shown]);
    let expected = run(&mut fixture.engine(Lane::Exact), &asked);
    let found =
        run(&mut renamed(&[("<image_soft_token>", "<of a picture>"), ("<|finetune_right_pad_id|>", "<pad>")]), &asked);
    assert_eq!((found.prompt_tokens, found.logprobs), (expected.prompt_tokens, expected.logprobs));
    let error =
        block_on(renamed(&[("<image_soft_token>", "<of a picture>")]).generate(&asked, &mut |_| {}, &Cancel::new()))
            .err()
            .unwrap();
    assert!(error.message().contains("no token <image_soft_token>"), "{error}");
}

/// Files without clamping limits have none, as if they were infinite; where files say that there are limits, all have
/// to be there.
#[test]
fn limits_that_are_not_there_limit_nothing() {
    let fixture = Fixture::open("gemma4vl-hf");
    let path = fixture.path("model");
    let read = |name: &str| std::fs::read(path.join(name)).unwrap();
    let (bytes, config) = (read("model.safetensors"), String::from_utf8(read("config.json")).unwrap());
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    // The lowest and the largest bf16.
    let (low, high) = (0xff7f_u16.to_le_bytes(), 0x7f7f_u16.to_le_bytes());
    let files = |limits: bool, said: bool| {
        let kept = tensors.tensors().into_iter().filter_map(|(name, view)| match () {
            () if !name.ends_with("_min") && !name.ends_with("_max") => Some((name, view)),
            () if limits => {
                let limit = if name.ends_with("_min") { &low } else { &high };
                Some((name, TensorView::new(view.dtype(), view.shape().to_vec(), limit).unwrap()))
            }
            () => None,
        });
        let weights = safetensors::serialize(kept.collect::<Vec<_>>(), None).unwrap();
        let config = config.replace(r#""use_clipped_linears": true"#, &format!(r#""use_clipped_linears": {said}"#));
        let mut files = open_path(&path).unwrap();
        for (name, bytes) in [("model.safetensors", weights), ("config.json", config.into_bytes())] {
            files.insert(name.into(), Rc::new(MemorySource::new(name, bytes)));
        }
        files
    };
    let options = LoadOptions { lane: Lane::Exact, ..LoadOptions::default() };
    let load = |files: &Files| block_on(VisionEncoder::load(files, &options, None, &|_| {}, &Cancel::new()));
    let tile = patches(&fixture.pictures()[0], false);
    let rows = |files: Files| {
        block_on(load(&files).unwrap().encode(std::slice::from_ref(&tile), &|_| {}, &Cancel::new())).unwrap().remove(0)
    };
    let without = rows(files(false, false));
    assert_eq!(without, rows(files(true, true)));
    assert!(apart(&without, &numbers(&fixture.pictures()[0]["projected"])) > 0.01, "limits matter");
    let error = load(&files(false, true)).err().unwrap();
    assert!(error.code() == "BAD_MODEL" && error.message().contains("_proj.input_min"), "{error}");
}

/// A picture longer than there are positions for.
#[test]
fn pictures_beyond_positions_are_refused() {
    let mut encoder = Fixture::open("gemma4vl-hf").encoder(Lane::Exact);
    for (wide, high, n, why) in
        [(66, 3, 66 * 3, "positions for 64"), (6, 4, 24, "multiples of 3"), (6, 3, 17, "numbers for 6 x 3")]
    {
        let tile = Patches { wide, high, values: PatchValues::Numbers(vec![0.5; n * 768]) };
        let error = block_on(encoder.encode(&[tile], &|_| {}, &Cancel::new())).unwrap_err();
        assert!(error.code() == "BAD_OPTION" && error.message().contains(why), "{why}: {error}");
    }
}

/// A folder with an entry of a file of JSON changed, by its path.
fn changed(name: &str, file: &str, entry: &str, value: Value) -> Files {
    let path = Fixture::open(name).path("model");
    let mut json: Value = serde_json::from_slice(&std::fs::read(path.join(file)).unwrap()).unwrap();
    *json.pointer_mut(entry).unwrap() = value;
    let mut files = open_path(&path).unwrap();
    files.insert(file.into(), Rc::new(MemorySource::new(file, json.to_string().into_bytes())));
    files
}

/// Idefics 3: tiles as large as the table of positions, in whole rows of a prompt.
#[test]
fn tiles_that_a_tower_has_no_positions_for_are_refused() {
    for (file, entry, value, why) in [
        ("preprocessor_config.json", "/max_image_size/longest_edge", json!(192), "positions for tiles of 132 pixels"),
        ("preprocessor_config.json", "/do_normalize", json!(false), "do_normalize"),
        ("config.json", "/scale_factor", json!(3), "8 patches of 16 pixels, not a multiple of 3"),
        ("config.json", "/scale_factor", json!(0), "scale_factor is no size"),
        ("config.json", "/vision_config/patch_size", json!(1), "132 pixels in patches of 1"),
        ("config.json", "/vision_config/patch_size", json!(500), "132 pixels in patches of 500"),
        ("config.json", "/vision_config/image_size", json!(164), "positions for tiles of 164 pixels"),
    ] {
        let files = changed("idefics3vl-hf", file, entry, value);
        let error = block_on(VisionEncoder::load(&files, &LoadOptions::default(), None, &|_| {}, &Cancel::new()))
            .err()
            .unwrap();
        assert!(error.code() == "BAD_MODEL" && error.message().contains(why), "{why}: {error}");
    }
    // The rest of a tile beside whole patches changes nothing.
    let files = changed("idefics3vl-hf", "preprocessor_config.json", "/max_image_size/longest_edge", json!(143));
    let options = LoadOptions { lane: Lane::Exact, ..LoadOptions::default() };
    assert!(
        block_on(VisionEncoder::load(&files, &options, None, &|_| {}, &Cancel::new()))
            .is_ok_and(|encoder| encoder.config().positions == [8, 8])
    );
}

/// SmolVLM's template goes by the type of a message's first part, and prints no content that is a text.
#[test]
fn texts_reach_templates_that_want_parts() {
    let engine = Fixture::open("idefics3vl-hf").engine(Lane::Exact);
    let tokens = |messages: Value| engine.prompt_tokens(&Request::new(Prompt::Messages(messages))).unwrap();
    let parts = |text: &str| json!([{ "type": "text", "text": text }]);
    let turns = |user: Value, assistant: Value| json!([{ "role": "user", "content": user }, { "role": "assistant", "content": assistant }]);
    let plain = tokens(turns("The mill?".into(), "The river <image>.".into()));
    assert_eq!(plain, tokens(turns(parts("The mill?"), parts("The river <image>."))));
    assert!(plain.len() > tokens(turns("".into(), "".into())).len() + 10);
}

/// PaddleOCR-VL by the names and in the form of transformers' own modules, in place of those that are published.
#[test]
fn names_of_modules_are_those_of_published_files_or_of_transformers() {
    let fixture = Fixture::open("paddleocrvl-hf");
    let path = fixture.path("model");
    let bytes = std::fs::read(path.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let renamed = |name: &str| match name.split_once('.') {
        Some(("visual", rest)) => format!("model.visual.{rest}"),
        Some(("mlp_AR", rest)) => format!("model.projector.{rest}"),
        Some(("model", rest)) => format!("model.language_model.{rest}"),
        _ => name.to_owned(),
    };
    let named: Vec<_> = tensors.tensors().into_iter().map(|(name, view)| (renamed(&name), view)).collect();
    let weights = safetensors::serialize(named, None).unwrap();
    let mut text: Value = serde_json::from_slice(&std::fs::read(path.join("config.json")).unwrap()).unwrap();
    let config = json!({
        "architectures": text["architectures"].clone(),
        "tie_word_embeddings": true,
        "vision_config": text["vision_config"].take(),
        "text_config": text,
    });
    let mut files = open_path(&path).unwrap();
    for (name, bytes) in [("model.safetensors", weights), ("config.json", config.to_string().into_bytes())] {
        files.insert(name.into(), Rc::new(MemorySource::new(name, bytes)));
    }
    let shown = picture(&json!({ "width": 97, "height": 64, "seed": 1 }));
    let messages = json!([{ "role": "user", "content": [{ "type": "text", "text": "OCR:" }, { "type": "image" }] }]);
    let asked = likeliest(messages, vec![shown]);
    let expected = run(&mut fixture.engine(Lane::Exact), &asked);
    let options = LoadOptions { lane: Lane::Exact, ..LoadOptions::default() };
    let found = run(&mut common::load(&files, &options).unwrap(), &asked);
    assert_eq!((found.tokens, found.logprobs), (expected.tokens, expected.logprobs));
}

/// Conversations with pictures and without take their steps together: each has its own rotary positions.
#[test]
fn pictures_change_no_text_of_company() {
    let fixture = Fixture::open("qwen35vl-hf");
    let options = |concurrency| LoadOptions {
        lane: Lane::Exact,
        concurrency: Some(concurrency),
        together: Some(concurrency > 1),
        ..LoadOptions::default()
    };
    let load = |concurrency| {
        block_on(Engine::load(
            &open_path(&fixture.path("model")).unwrap(),
            &options(concurrency),
            &|_| {},
            &Cancel::new(),
        ))
        .unwrap()
    };
    let ask = |pictures: &[(u32, u32)], words: &str| {
        let parts = pictures
            .iter()
            .map(|_| json!({ "type": "image" }))
            .chain([json!({ "type": "text", "text": words })])
            .collect::<Vec<_>>();
        let shown = |(i, (width, height)): (usize, &(u32, u32))| {
            picture(&json!({ "width": width, "height": height, "seed": i }))
        };
        Request {
            pictures: pictures.iter().enumerate().map(shown).collect(),
            ignore_eos: true,
            max_tokens: Some(16),
            ..Request::new(Prompt::Messages(json!([{ "role": "user", "content": parts }])))
        }
    };
    let requests = [
        ask(&[(160, 64)], "What is this?"),
        ask(&[], "And without?"),
        ask(&[(64, 128), (96, 96)], "Which?"),
        ask(&[(97, 64)], "Where?"),
    ];
    let alone: Vec<_> = requests.iter().map(|request| run(&mut load(1), request).tokens).collect();
    let together: Vec<_> =
        crate::company::together(&mut load(4), &requests).into_iter().map(|answer| answer.tokens).collect();
    assert_eq!(together, alone);
}

/// A saved conversation with a picture continues after it is restored, with its positions.
#[test]
fn grids_of_rows_are_saved() {
    let fixture = Fixture::open("qwen3vl-pictures-hf");
    let mut engine = fixture.engine(Lane::Exact);
    let part = json!({ "type": "image" });
    let first = json!([{ "role": "user", "content": [part, { "type": "text", "text": "What?" }] }]);
    let ask = |messages: &Value, n: u32| Request {
        pictures: vec![picture(&json!({ "width": 160, "height": 64, "seed": 5 }))],
        ignore_eos: true,
        max_tokens: Some(n),
        ..Request::new(Prompt::Messages(messages.clone()))
    };
    run(&mut engine, &ask(&first, 6));
    let store = Memory::store();
    block_on(engine.save(0, &store, "shown", &Cancel::new())).unwrap();
    let mut another = fixture.engine(Lane::Exact);
    let restored = block_on(another.restore(&store, "shown")).unwrap();
    let request = Request { conversation: restored, ..ask(&first, 12) };
    let after = run(&mut another, &request);
    assert!(after.cached_tokens > 20, "{}", after.cached_tokens);
    assert_eq!(after.tokens, run(&mut engine, &Request { reuse: false, ..ask(&first, 12) }).tokens);
}

/// The rows of a picture are known by its key, or else by its pixels.
#[test]
fn pictures_are_known_by_their_keys() {
    let mut engine = Fixture::open("lfm2vl-hf").engine(Lane::Exact);
    let mut ask = |key: Option<&str>, seed: u32| {
        let shown = picture(&json!({ "width": 64, "height": 64, "seed": seed }));
        let shown = match key {
            Some(key) => Rc::new((*shown).clone().with_key(key.to_owned())),
            None => shown,
        };
        let content = json!([{ "type": "image" }, { "type": "text", "text": "What?" }]);
        let messages = json!([{ "role": "user", "content": content }]);
        let request = Request {
            pictures: vec![shown],
            ignore_eos: true,
            max_tokens: Some(2),
            ..Request::new(Prompt::Messages(messages))
        };
        let result = run(&mut engine, &request);
        assert!(result.timings.pictures_ms > 0.0 && result.timings.pictures_ms < result.timings.ttft_ms);
        result.prompt_tokens - result.cached_tokens
    };
    let all = ask(None, 1);
    let few = ask(None, 1);
    assert!(few < all, "{few} of {all} tokens read");
    for (key, seed) in [(None, 2), (Some("a"), 2), (Some("b"), 2), (Some("c"), 1)] {
        let read = ask(key, seed);
        assert!(read > few, "{key:?} {seed}: {read} of {all} tokens read");
        assert_eq!(ask(key, seed), few, "{key:?} {seed}");
    }
}

/// A text that needs memory which the encoder has gets it, and the next picture loads the encoder again.
#[cfg(feature = "lab")]
#[test]
fn the_encoder_makes_room_for_a_longer_text() {
    use millrace::ErrorKind;
    use millrace::base::Phase;
    use millrace::engine::Event;
    use millrace::gpu::Refuse;

    let fixture = Fixture::open("lfm2vl-hf");
    let load = || {
        let options =
            LoadOptions { lane: Lane::Exact, context: Some(512), cache_start: Some(64), ..LoadOptions::default() };
        common::load(&open_path(&fixture.path("model")).unwrap(), &options).unwrap()
    };
    let shown = |seed: u32| Request {
        pictures: vec![picture(&json!({ "width": 64, "height": 64, "seed": seed }))],
        ignore_eos: true,
        max_tokens: Some(4),
        ..Request::new(Prompt::Messages(json!([{ "role": "user", "content": [{ "type": "image" }] }])))
    };
    // As many positions as one doubling of the first 64 makes room for.
    let long = Request {
        ignore_eos: true,
        max_tokens: Some(8),
        ..Request::new(Prompt::Tokens((0..100).map(|i| 5 + i * 7 % 90).collect()))
    };
    // Whether the answer has loaded weights, and its tokens.
    let asked = |engine: &mut Engine, request: &Request| {
        let mut uploads = false;
        let mut listen = |event: Event<'_>| {
            uploads |= matches!(event, Event::Progress(progress) if progress.phase == Phase::Upload);
        };
        block_on(engine.generate(request, &mut listen, &Cancel::new())).map(|result| (uploads, result.tokens))
    };
    for late in [false, true] {
        // Only a GPU reports refusals late.
        let _cpu = (!late).then(on_cpu);
        let [of_first, of_second, of_long] =
            [shown(1), shown(2), long.clone()].map(|request| run(&mut load(), &request).tokens);
        let mut engine = load();
        assert_eq!(asked(&mut engine, &shown(1)).unwrap(), (true, of_first), "late: {late}");
        engine.device().refuse_buffers(Some(Refuse { after: 0, once: true, late }));
        assert_eq!(asked(&mut engine, &long).unwrap(), (false, of_long), "late: {late}");
        engine.device().refuse_buffers(None);
        assert_eq!(engine.info().context, 512, "late: {late}");
        assert_eq!(asked(&mut engine, &shown(2)).unwrap(), (true, of_second), "late: {late}");
        // Without an encoder, and where there is no memory either way, it is an error.
        for encoder in [false, true] {
            let mut engine = load();
            if encoder {
                asked(&mut engine, &shown(1)).unwrap();
            }
            engine.device().refuse_buffers(Some(Refuse { after: 0, once: false, late }));
            let error = asked(&mut engine, &long).unwrap_err();
            engine.device().refuse_buffers(None);
            assert_eq!(error.kind(), ErrorKind::OutOfMemory, "late: {late}, encoder: {encoder}: {error}");
        }
    }
}

/// Measures the encoding of a picture, by kernel, with a model that `scripts/random_vl.py` has made, on this machine's
/// GPU.
#[test]
#[ignore = "measures: MILLRACE_PICTURES=FOLDER of scripts/random_vl.py"]
fn what_a_picture_takes() {
    let folder = PathBuf::from(
        std::env::var("MILLRACE_PICTURES").expect("MILLRACE_PICTURES: a folder that scripts/random_vl.py has made"),
    );
    let quantize = std::env::var("MILLRACE_QUANTIZE").ok().map(|name| Recipe::parse(&name).unwrap());
    let options = LoadOptions { lane: Lane::Fast, quantize, ..LoadOptions::default() };
    let files = open_path(&folder).unwrap();
    let mut encoder = block_on(VisionEncoder::load(&files, &options, None, &|_| {}, &Cancel::new())).unwrap();
    let (most, patch, merge) =
        (encoder.config().tower.context, encoder.config().patch as u32, encoder.config().merge as u32);
    for side in [16_u32, 27, 32, 64].into_iter().filter(|side| side * side <= most && side.is_multiple_of(merge)) {
        let bytes = (0..side * side * 3 * patch * patch).map(|i| (u64::from(i) * 7919 % 251) as u8).collect();
        let pixels = Picture::new(bytes, side * patch, side * patch).unwrap();
        let tile = Patches { wide: side, high: side, values: PatchValues::Pixels(Rc::new(pixels)) };
        let mut wall = Vec::new();
        for _ in 0..11 {
            let began = Instant::now();
            block_on(encoder.encode(std::slice::from_ref(&tile), &|_| {}, &Cancel::new())).unwrap();
            wall.push(began.elapsed().as_secs_f64() * 1e3);
        }
        wall.sort_by(f64::total_cmp);
        let rows = block_on(encoder.profile(&tile)).unwrap();
        println!(
            "{side} x {side} patches: {:.2} ms, of which kernels {:.2}",
            wall[5],
            rows.iter().map(|row| row.of.ms).sum::<f64>()
        );
        for row in rows {
            // The projector's operations are counted as if each patch were a row.
            let tops = if row.of.step.starts_with("mm.") { String::new() } else { format!("{:7.2} Tops", row.tops) };
            println!(
                "  {:24} {:32} x {:3} {:8.3} ms {:5.1} % {tops}",
                row.of.step, row.of.variant, row.of.calls, row.of.ms, row.of.percent
            );
        }
    }
}
