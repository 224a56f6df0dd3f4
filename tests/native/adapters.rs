//! Adapters: logits and tokens against PEFT, several adapters in one engine, and refusal of unsupported features.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use millrace::base::Cancel;
use millrace::base::options::Scaled;
use millrace::decode::Speculate;
use millrace::engine::{Asked, Desk, Engine, Generation, LoadOptions, Prompt, Request};
use millrace::gpu::DeviceChoice;
use millrace::plan::Lane;
use millrace::source::disk::{open_adapter, open_path};
use millrace::store::Memory;
use millrace::{ErrorKind, Result};
use pollster::block_on;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::builder;
use crate::common::{bytes, data, files};

#[derive(Deserialize)]
struct Expected {
    model: String,
    from: u32,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
    greedy: Vec<u32>,
    alone: Vec<u32>,
}

/// Tolerance of logits, relative to a position's largest: as in parity.rs.
const TOLERANCE: f32 = 3e-5;

/// Each fixture, and its forms.
const FIXTURES: [(&str, &[&str]); 5] = [
    ("gemma3", &["peft"]),
    ("llama-all", &["peft", "adapter.gguf"]),
    ("llama-gguf", &["peft", "adapter.gguf"]),
    ("llama-two", &["peft"]),
    ("phi3", &["peft"]),
];

fn expected(fixture: &str) -> Expected {
    serde_json::from_slice(&bytes(&format!("lora/{fixture}/expected.json"))).expect("expected.json")
}

fn folder(fixture: &str, form: &str) -> PathBuf {
    data("lora").join(fixture).join(form)
}

fn exact() -> LoadOptions {
    LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }
}

fn load(model: &str, options: &LoadOptions) -> Engine {
    block_on(Engine::load(&open_path(&data(model)).expect("the model"), options, &|_| {}, &Cancel::new()))
        .unwrap_or_else(|e| panic!("{model}: {e}"))
}

fn add(engine: &mut Engine, name: &str, path: &Path) {
    let files = open_adapter(path).expect("the adapter");
    block_on(engine.load_adapter(name, &files, &Cancel::new())).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

fn with(name: &str, scale: f32) -> Option<Scaled> {
    Some(Scaled { name: name.into(), scale })
}

fn greedy(prompt: &[u32], tokens: usize, adapter: Option<Scaled>) -> Request {
    Request {
        ignore_eos: true,
        max_tokens: Some(tokens as u32),
        adapter,
        ..Request::new(Prompt::Tokens(prompt.to_vec()))
    }
}

fn one(engine: &mut Engine, request: &Request) -> Generation {
    block_on(engine.generate(request, &mut |_| {}, &Cancel::new())).expect("an answer")
}

/// The largest difference of logits, relative to the largest of their position.
fn apart(ours: &[Vec<f32>], theirs: &[Vec<f32>]) -> f32 {
    assert_eq!(ours.len(), theirs.len());
    let of = |(ours, theirs): (&Vec<f32>, &Vec<f32>)| {
        let largest = theirs.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        ours.iter().zip(theirs).fold(0.0_f32, |most, (a, b)| {
            if (a - b).is_finite() { most.max((a - b).abs() / largest) } else { f32::INFINITY }
        })
    };
    ours.iter().zip(theirs).map(of).fold(0.0, f32::max)
}

/// Logits and greedy text with each fixture's adapter, in each of its forms, and without it.
fn agrees(options: &LoadOptions, only: &[&str]) {
    for (fixture, forms) in FIXTURES.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        let expected = expected(fixture);
        let mut engine = load(&expected.model, options);
        let alone = one(&mut engine, &greedy(&expected.prompt, expected.alone.len(), None)).tokens;
        assert_eq!(alone, expected.alone, "{fixture}: the model alone");
        for form in *forms {
            add(&mut engine, form, &folder(fixture, form));
            let request = Request { logits_from: Some(expected.from), ..greedy(&expected.tokens, 1, with(form, 1.0)) };
            let logits = one(&mut engine, &request).all_logits.expect("logits");
            let apart = apart(&logits, &expected.logits);
            println!("{fixture} {form}: {apart:.1e}");
            assert!(apart <= TOLERANCE, "{fixture} {form}: {apart:.1e} apart");
            let text = one(&mut engine, &greedy(&expected.prompt, expected.greedy.len(), with(form, 1.0))).tokens;
            assert_eq!(text, expected.greedy, "{fixture} {form}");
        }
        // A cache filled without an adapter is not continued with one, and the reverse: it is kept, or forgotten.
        let again = one(&mut engine, &greedy(&expected.prompt, expected.alone.len(), None));
        assert_eq!(again.tokens, expected.alone, "{fixture}: the model alone, afterwards");
        assert!(
            [0, expected.prompt.len() - 1, expected.prompt.len()].contains(&again.cached_tokens),
            "{fixture}: {}",
            again.cached_tokens
        );
    }
}

#[test]
fn adapters_agree_with_peft() {
    agrees(&exact(), &[]);
}

#[test]
fn adapters_agree_with_peft_without_subgroups_and_in_short_passes() {
    let options = LoadOptions { subgroups: false, prefill_rows: Some(16), max_binding: Some(32 << 10), ..exact() };
    agrees(&options, &["llama-gguf"]);
}

#[test]
fn adapters_agree_with_peft_on_the_cpu() {
    agrees(&LoadOptions { device: Some(DeviceChoice::Cpu), ..exact() }, &["llama-all", "phi3"]);
}

/// The results of requests, with their numbers.
type Ended = Vec<(usize, Result<Generation>)>;

/// Requests that are answered at the same time.
fn together(engine: &mut Engine, requests: &[Request]) -> Vec<Generation> {
    let ended: Rc<RefCell<Ended>> = Rc::default();
    let desk = Desk::default();
    for (n, request) in requests.iter().enumerate() {
        let ended = ended.clone();
        let done = Box::new(move |answer| ended.borrow_mut().push((n, answer)));
        desk.ask(Asked { request: request.clone(), on_event: Box::new(|_| ()), cancel: Cancel::new(), done });
    }
    block_on(engine.serve(&desk, &|_| ()));
    let mut ended = ended.take();
    ended.sort_by_key(|one| one.0);
    ended.into_iter().map(|one| one.1.expect("an answer")).collect()
}

/// Rows of one step with two adapters, one of them at two strengths, and answers without any beside them.
#[test]
fn several_adapters_in_one_engine_give_each_text_its_own() {
    let (all, two) = (expected("llama-all"), expected("llama-two"));
    let mut engine =
        load("oracle/hf-single/model", &LoadOptions { concurrency: Some(5), together: Some(true), ..exact() });
    for name in ["all", "two"] {
        add(&mut engine, name, &folder(&format!("llama-{name}"), "peft"));
    }
    let voices = [
        (&all, with("all", 1.0)),
        (&two, with("two", 1.0)),
        (&all, None),
        (&all, with("all", 0.5)),
        (&two, with("two", -1.0)),
        (&two, None),
    ];
    let requests: Vec<Request> =
        voices.iter().map(|(of, voice)| Request { reuse: false, ..greedy(&of.prompt, 8, voice.clone()) }).collect();
    let alone: Vec<_> = requests.iter().map(|request| one(&mut engine, request).tokens).collect();
    assert_eq!((&alone[0], &alone[1], &alone[2], &alone[5]), (&all.greedy, &two.greedy, &all.alone, &two.alone));
    assert!((0..alone.len()).all(|i| !alone[..i].contains(&alone[i])), "{alone:?} differ");
    let texts: Vec<_> = together(&mut engine, &requests).into_iter().map(|one| one.tokens).collect();
    assert_eq!(texts, alone);
    // All rows of a step with drafts have the same adapter.
    let drafts = Request { speculate: Some(Speculate::Always), ..requests[0].clone() };
    assert_eq!(one(&mut engine, &drafts).tokens, alone[0]);
    // After one is unloaded.
    block_on(engine.unload_adapter("all", &Cancel::new())).unwrap();
    assert_eq!(
        (one(&mut engine, &requests[1]).tokens, one(&mut engine, &requests[2]).tokens),
        (alone[1].clone(), alone[2].clone())
    );
    assert_eq!(engine.adapters().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["two"]);
    let missing = block_on(engine.generate(&requests[0], &mut |_| {}, &Cancel::new())).expect_err("an error");
    assert!(missing.kind() == ErrorKind::BadOption && missing.message().contains("loaded are two"), "{missing}");
}

/// The bits of the logits of each position.
fn bits(engine: &mut Engine, adapter: Option<Scaled>) -> Vec<Vec<u32>> {
    let Expected { tokens, .. } = expected("llama-all");
    let request = Request { logits_from: Some(4), ..greedy(&tokens, 1, adapter) };
    one(engine, &request)
        .all_logits
        .expect("logits")
        .iter()
        .map(|row| row.iter().map(|x| x.to_bits()).collect())
        .collect()
}

#[test]
fn scale_0_is_the_model_alone_and_other_scales_count() {
    let mut engine = load("oracle/hf-single/model", &exact());
    let alone = bits(&mut engine, None);
    let steps = |engine: &Engine| engine.plan_rows().len();
    let plain = steps(&engine);
    add(&mut engine, "all", &folder("llama-all", "peft"));
    assert_eq!(bits(&mut engine, with("all", 0.0)), alone);
    assert_eq!((bits(&mut engine, None), steps(&engine)), (alone.clone(), plain), "the plan without adapters stays");
    let [half, whole] = [0.5, 1.0].map(|scale| bits(&mut engine, with("all", scale)));
    assert!(half != alone && whole != half && steps(&engine) > plain);
    block_on(engine.unload_adapter("all", &Cancel::new())).unwrap();
    assert_eq!((bits(&mut engine, None), steps(&engine)), (alone, plain));
}

/// A cache that was filled with one adapter is not continued with another: in conversations, forks and saved
/// conversations.
#[test]
fn what_is_cached_belongs_to_its_adapter() {
    let prompt = expected("llama-all").prompt;
    let mut engine = load("oracle/hf-single/model", &exact());
    for name in ["all", "two"] {
        add(&mut engine, name, &folder(&format!("llama-{name}"), "peft"));
    }
    let fork = block_on(async { engine.fork(0) }).unwrap();
    let ask = |adapter, conversation| Request { conversation, ..greedy(&prompt, 6, adapter) };
    let known = prompt.len() - 1;
    let first = one(&mut engine, &ask(with("all", 1.0), fork));
    assert_eq!((first.cached_tokens, one(&mut engine, &ask(with("all", 1.0), fork)).cached_tokens), (0, known));
    let copy = engine.fork(fork).unwrap();
    let again = one(&mut engine, &ask(with("all", 1.0), copy));
    assert_eq!((again.cached_tokens, again.tokens), (known, first.tokens.clone()));
    let store = Memory::store();
    block_on(engine.save(copy, &store, "all", &Cancel::new())).unwrap();
    let others = [(with("all", 0.5), "another scale"), (with("two", 1.0), "another adapter"), (None, "none")];
    for (other, what) in others {
        let conversation = engine.fork(copy).unwrap();
        let answer = one(&mut engine, &ask(other, conversation));
        assert_eq!(answer.cached_tokens, 0, "{what}");
        assert_ne!(answer.tokens, first.tokens, "{what}");
    }
    // A saved conversation, in an engine that has the same adapter under another name, or not at all.
    let mut other = load("oracle/hf-single/model", &exact());
    let restored = block_on(other.restore(&store, "all")).unwrap();
    assert_eq!(one(&mut other, &ask(None, restored)).cached_tokens, 0);
    add(&mut other, "same", &folder("llama-all", "peft"));
    let restored = block_on(other.restore(&store, "all")).unwrap();
    let answer = one(&mut other, &ask(with("same", 1.0), restored));
    assert_eq!((answer.cached_tokens, answer.tokens), (known, first.tokens));
}

/// Each lane, with quantized weights and, where it has halves, adapters in halves, is as near to the exact lane as
/// without an adapter.
#[test]
fn other_lanes_come_as_near_with_an_adapter_as_without() {
    let Expected { prompt, .. } = expected("llama-gguf");
    let logits = |lane, adapter: Option<Scaled>| {
        let mut engine = load("oracle/gguf-f32/model.gguf", &LoadOptions { lane, ..LoadOptions::default() });
        add(&mut engine, "x", &folder("llama-gguf", "adapter.gguf"));
        one(&mut engine, &Request { logits_from: Some(2), ..greedy(&prompt, 1, adapter) }).all_logits.expect("logits")
    };
    let exact = logits(Lane::Exact, with("x", 1.0));
    for lane in [Lane::Float, Lane::Fast] {
        let apart = apart(&logits(lane, with("x", 1.0)), &exact);
        println!("{lane:?}: {apart:.1e}");
        assert!(apart < 5e-3, "{lane:?}: {apart:.1e} apart");
    }
}

#[test]
fn a_lost_device_gets_its_adapters_again() {
    let expected = expected("llama-two");
    let mut engine = load("oracle/hf-single/model", &exact());
    add(&mut engine, "two", &folder("llama-two", "peft"));
    assert_eq!(one(&mut engine, &greedy(&expected.prompt, 4, with("two", 1.0))).tokens, expected.greedy[..4]);
    engine.device().lose();
    let longer = [&expected.prompt[..], &expected.greedy[..4]].concat();
    let answer = one(&mut engine, &greedy(&longer, 4, with("two", 1.0)));
    assert_eq!((answer.tokens, answer.recoveries), (expected.greedy[4..8].to_vec(), 1));
}

/// The files of an adapter with another adapter_config.json, or other tensors.
fn changed(config: &dyn Fn(&mut Value), rename: &dyn Fn(&str) -> String) -> Vec<(String, Vec<u8>)> {
    let mut json: Value = serde_json::from_slice(&bytes("lora/llama-two/peft/adapter_config.json")).unwrap();
    config(&mut json);
    let tensors = bytes("lora/llama-two/peft/adapter_model.safetensors");
    let length = u64::from_le_bytes(tensors[..8].try_into().unwrap()) as usize;
    let header: serde_json::Map<String, Value> = serde_json::from_slice(&tensors[8..8 + length]).unwrap();
    let header: serde_json::Map<String, Value> =
        header.into_iter().map(|(name, value)| (rename(&name), value)).collect();
    let header = serde_json::to_vec(&header).unwrap();
    let file = [&(header.len() as u64).to_le_bytes()[..], &header, &tensors[8 + length..]].concat();
    vec![("adapter_config.json".into(), serde_json::to_vec(&json).unwrap()), ("adapter_model.safetensors".into(), file)]
}

#[test]
fn what_is_no_plain_adapter_of_this_model_is_refused_by_name() {
    let mut engine = load("oracle/hf-single/model", &exact());
    let mut refused = |list: Vec<(String, Vec<u8>)>, kind: ErrorKind, words: &str| {
        let error = block_on(engine.load_adapter("x", &files(list), &Cancel::new()))
            .err()
            .unwrap_or_else(|| panic!("{words}: taken"));
        assert!(error.kind() == kind && error.message().contains(words), "{words}: {error}");
        assert_eq!(engine.adapters().len(), 0);
    };
    let same = |name: &str| name.to_owned();
    let keys = [
        ("use_dora", json!(true), "DoRA"),
        ("modules_to_save", json!(["lm_head"]), "modules_to_save"),
        ("bias", json!("all"), "bias"),
        ("lora_bias", json!(true), "biases"),
        ("fan_in_fan_out", json!(true), "fan_in_fan_out"),
        ("trainable_token_indices", json!([1]), "embeddings"),
        ("target_parameters", json!(["mlp.experts"]), "experts"),
        ("some_new_thing", json!({"a": 1}), "some_new_thing"),
        ("peft_type", json!("LOHA"), "LOHA"),
        ("alpha_pattern", json!({".*q_proj": 3}), "expression"),
    ];
    for (key, value, words) in keys {
        refused(changed(&|config| config[key] = value.clone(), &same), ErrorKind::UnsupportedModel, words);
    }
    refused(changed(&|config| config["r"] = json!(8), &same), ErrorKind::BadModel, "says rank 8");
    refused(changed(&|config| config["lora_alpha"] = json!("much"), &same), ErrorKind::BadModel, "lora_alpha");
    let names = [
        ("q_proj.lora_A", "q_proj.lora_magnitude_vector", ErrorKind::UnsupportedModel, "DoRA"),
        ("self_attn.q_proj.lora_A", "embed_tokens.lora_embedding_A", ErrorKind::UnsupportedModel, "embeddings"),
        ("q_proj.lora_A", "q_proj.base_layer", ErrorKind::UnsupportedModel, "saved whole"),
        ("self_attn.q_proj", "self_attn.q_norm", ErrorKind::UnsupportedModel, "q_norm"),
        ("layers.1.", "layers.11.", ErrorKind::BadModel, "layers.11"),
        ("self_attn.q_proj", "mlp.down_proj", ErrorKind::BadModel, "another"),
    ];
    for (from, to, kind, words) in names {
        let words = if words == "another" { "does not fit this model" } else { words };
        refused(changed(&|_| (), &|name| name.replace(from, to)), kind, words);
    }
    let mut half = changed(&|_| (), &same);
    half.pop();
    refused(half, ErrorKind::NotFound, "adapter_model.safetensors");
    refused(
        vec![("adapter_config.json".into(), b"{}".to_vec()), ("adapter_model.bin".into(), vec![1])],
        ErrorKind::UnsupportedModel,
        "peft_type",
    );
    // GGUF: another kind of file, another architecture.
    let of = |kind: &str, architecture: &str| {
        let file = builder::Gguf::default()
            .text("general.type", kind)
            .text("general.architecture", architecture)
            .text("adapter.type", "lora");
        let file = file
            .tensor("blk.0.attn_q.weight.lora_a", &[72, 1], 0, 0)
            .tensor("blk.0.attn_q.weight.lora_b", &[1, 96], 0, 288)
            .data(672);
        vec![("x.gguf".to_owned(), file.build())]
    };
    refused(of("model", "llama"), ErrorKind::UnsupportedModel, "no LoRA adapter");
    refused(of("adapter", "qwen2"), ErrorKind::BadModel, "qwen2");
}

#[test]
fn names_are_each_one_adapters_and_models_that_embed_take_none() {
    let mut engine = load("oracle/hf-single/model", &exact());
    let path = folder("llama-two", "peft");
    add(&mut engine, "two", &path);
    let add = |engine: &mut Engine, name: &str| {
        block_on(engine.load_adapter(name, &open_adapter(&path).unwrap(), &Cancel::new())).err().map(|e| e.kind())
    };
    assert_eq!(
        (add(&mut engine, "two"), add(&mut engine, "")),
        (Some(ErrorKind::BadOption), Some(ErrorKind::BadOption))
    );
    assert_eq!(block_on(engine.unload_adapter("three", &Cancel::new())).unwrap_err().kind(), ErrorKind::BadOption);
    let mut embeds = load("embed/qwen3-hf/model", &exact());
    assert_eq!(add(&mut embeds, "two"), Some(ErrorKind::UnsupportedModel));
}
