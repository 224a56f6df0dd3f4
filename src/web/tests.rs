//! The engine as JavaScript sees it, in a Worker of a real browser: small random models against Hugging Face
//! transformers, and every way in which a call can end.

use js_sys::{Array, Float32Array, Function, Promise, Uint32Array};
use serde::Deserialize;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;
use web_sys::{AbortController, AbortSignal};

use super::WasmControl;
use super::bindings::WasmEngine;
use super::blob::blob_of;
use super::to_js;
use crate::base::js;

/// A fixture: its expected.json, and the model's files by name.
type Fixture = (&'static str, &'static [u8], &'static [(&'static str, &'static [u8])]);

macro_rules! fixture {
    ($name:literal, $folder:literal, $($file:literal),+) => {
        ($name, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/oracle/", $name, "/expected.json")),
         &[$(($file, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/oracle/", $name, "/", $folder, $file)))),+])
    };
}

const FIXTURES: &[Fixture] = &[
    fixture!("gguf-q4_0", "", "model.gguf"),
    fixture!(
        "hf-sharded",
        "model/",
        "config.json",
        "generation_config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json"
    ),
];

#[derive(Deserialize)]
struct Expected {
    from: u32,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
    logits: Vec<Vec<f32>>,
    greedy: Vec<u32>,
    ties: Vec<u32>,
}

#[wasm_bindgen]
extern "C" {
    /// The class as JavaScript has it.
    type Engine;
    #[wasm_bindgen(method)]
    fn generate(
        this: &Engine,
        request: &JsValue,
        on_delta: &Function,
        on_progress: &Function,
        signal: &AbortSignal,
    ) -> Promise;
    #[wasm_bindgen(method)]
    fn info(this: &Engine) -> JsValue;
    #[wasm_bindgen(method)]
    fn dispose(this: &Engine);
}

fn signal() -> AbortSignal {
    AbortController::new().unwrap().signal()
}

fn ignore() -> Function {
    Function::new_no_args("")
}

/// A function that collects its arguments, and where they go.
fn collect() -> (Function, Array) {
    let all = Array::new();
    let push = js::get(&all, "push").unchecked_into::<Function>();
    (push.bind0(&all), all)
}

fn model(files: &[(&str, &[u8])]) -> JsValue {
    let list = files
        .iter()
        .map(|(name, bytes)| js::object(&[("name", (*name).into()), ("data", blob_of(bytes).unwrap().into())]));
    js::object(&[("files", list.collect::<Array>().into())])
}

async fn load(files: &[(&str, &[u8])], options: &[(&str, JsValue)]) -> Result<Engine, JsValue> {
    let mut all = vec![("model", model(files)), ("lane", "exact".into())];
    all.extend_from_slice(options);
    JsFuture::from(WasmEngine::load(js::object(&all), ignore(), signal(), &WasmControl::new()))
        .await
        .map(JsCast::unchecked_into)
}

fn tokens(ids: &[u32]) -> JsValue {
    Uint32Array::from(ids).into()
}

async fn generate(engine: &Engine, request: &[(&str, JsValue)]) -> Result<JsValue, JsValue> {
    JsFuture::from(engine.generate(&js::object(request), &ignore(), &ignore(), &signal())).await
}

fn ids(value: &JsValue) -> Vec<u32> {
    Uint32Array::new(value).to_vec()
}

fn argmax(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best })
}

async fn agrees(options: &[(&str, JsValue)]) {
    for (name, expected, files) in FIXTURES {
        let e: Expected = serde_json::from_slice(expected).unwrap();
        let engine = load(files, options).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let logits = [("logits", true.into()), ("logitsFrom", e.from.into())];
        let request = [
            ("tokens", tokens(&e.tokens)),
            logits[0].clone(),
            logits[1].clone(),
            ("maxTokens", 1.into()),
            ("temperature", 0.into()),
        ];
        let result = generate(&engine, &request).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
        let rows: Array = js::get(&result, "all_logits").unchecked_into();
        assert_eq!(rows.length() as usize, e.logits.len(), "{name}: positions");
        for (i, (ours, theirs)) in rows.iter().zip(&e.logits).enumerate() {
            let ours = ours.unchecked_into::<Float32Array>().to_vec();
            let scale = theirs.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let apart = ours
                .iter()
                .zip(theirs)
                .fold(0.0f32, |m, (a, b)| if (a - b).is_finite() { m.max((a - b).abs()) } else { f32::INFINITY });
            assert!(
                ours.len() == theirs.len() && apart <= 1e-3 * scale,
                "{name}, row {i}: {apart} apart, largest |logit| {scale}"
            );
            if !e.ties.contains(&(e.from + i as u32)) {
                assert_eq!(argmax(&ours), e.greedy[i] as usize, "{name}, row {i}");
            }
        }
        let limit = (e.greedy.len() as u32).into();
        let request = [
            ("tokens", tokens(&e.prompt)),
            ("ignoreEos", true.into()),
            ("maxTokens", limit),
            ("temperature", 0.into()),
        ];
        let result = generate(&engine, &request).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
        if e.ties.is_empty() {
            assert_eq!(ids(&js::get(&result, "tokens")), e.greedy, "{name}: greedy text");
        }
        engine.dispose();
    }
}

#[wasm_bindgen_test]
async fn exact_lane_agrees_without_subgroups() {
    // Playwright tests this with subgroups, for all fixtures and through the package.
    agrees(&[("subgroups", false.into())]).await;
}

fn small() -> (&'static [(&'static str, &'static [u8])], Expected) {
    let (_, expected, files) = FIXTURES[0];
    (files, serde_json::from_slice(expected).unwrap())
}

fn code(error: &JsValue) -> String {
    js::string(error, "code")
}

#[wasm_bindgen_test]
async fn progress_info_and_deltas() {
    let (files, e) = small();
    let (report, reports) = collect();
    let engine =
        JsFuture::from(WasmEngine::load(js::object(&[("model", model(files))]), report, signal(), &WasmControl::new()))
            .await
            .unwrap()
            .unchecked_into::<Engine>();
    let mut phases: Vec<String> = reports.iter().map(|p| js::string(&p, "phase")).collect();
    phases.dedup();
    assert!(["read", "compile", "upload"].iter().all(|p| phases.iter().any(|q| q == p)), "{phases:?}");

    let info = engine.info();
    assert_eq!(js::string(&js::get(&info, "model"), "architecture"), "llama");
    assert!(js::path(&info, &["model", "types", "Q4_0"]).as_f64().is_some_and(|n| n > 0.0), "types by name");
    assert_eq!(js::string(&js::get(&info, "storage"), "kind"), "local");
    assert!(js::path(&info, &["memory", "weights"]).as_f64().is_some_and(|n| n > 0.0));
    let plan: Array = js::get(&info, "plan").unchecked_into();
    assert!(plan.length() > 10 && plan.iter().all(|s| js::string(&s, "where") == "gpu"), "every step runs on the GPU");

    let (deliver, deltas) = collect();
    let request = js::object(&[
        ("tokens", tokens(&e.prompt)),
        ("ignoreEos", true.into()),
        ("maxTokens", 20.into()),
        ("temperature", 0.into()),
    ]);
    let result = JsFuture::from(engine.generate(&request, &deliver, &ignore(), &signal())).await.unwrap();
    let text: String = deltas.iter().map(|d| js::string(&d, "text")).collect();
    assert_eq!(text, js::string(&result, "text"));
    let seen: Vec<u32> =
        deltas.iter().flat_map(|d| js::get(&d, "tokens").unchecked_into::<Uint32Array>().to_vec()).collect();
    assert_eq!(seen, ids(&js::get(&result, "tokens")));
    assert_eq!((seen.len(), js::string(&result, "finish_reason").as_str()), (20, "length"));
    for path in [["timings", "decode_ms"], ["counters", "readbacks"], ["adapter", "name"]] {
        assert!(!js::path(&result, &path).is_undefined(), "{path:?}");
    }
    engine.dispose();
}

#[wasm_bindgen_test]
async fn aborting_disposing_and_overlapping() {
    let (files, e) = small();
    // Before it starts.
    let controller = AbortController::new().unwrap();
    controller.abort();
    let options = js::object(&[("model", model(files))]);
    let error = JsFuture::from(WasmEngine::load(options, ignore(), controller.signal(), &WasmControl::new()))
        .await
        .unwrap_err();
    assert_eq!(code(&error), "ABORTED");

    let engine = load(files, &[("chunk", 1.into())]).await.unwrap();
    let long = [("tokens", tokens(&e.prompt)), ("ignoreEos", true.into()), ("temperature", 0.into())];
    let controller = AbortController::new().unwrap();
    let abort = js::get(&controller, "abort").unchecked_into::<Function>().bind0(&controller);
    let first = engine.generate(&js::object(&long), &abort, &ignore(), &controller.signal());
    // A second one while the first runs is refused, and harms nothing. Promises start with the next turn.
    let second = generate(&engine, &long).await.unwrap_err();
    assert_eq!(code(&second), "BAD_OPTION");
    let result = JsFuture::from(first).await.unwrap();
    assert_eq!(js::string(&result, "finish_reason"), "abort");

    let short =
        [("tokens", tokens(&e.prompt)), ("maxTokens", 3.into()), ("ignoreEos", true.into()), ("temperature", 0.into())];
    let result = generate(&engine, &short).await.unwrap();
    assert_eq!(ids(&js::get(&result, "tokens")), e.greedy[..3]);

    let running = engine.generate(&js::object(&long), &ignore(), &ignore(), &signal());
    JsFuture::from(Promise::resolve(&JsValue::NULL)).await.unwrap();
    engine.dispose();
    assert_eq!(code(&JsFuture::from(running).await.unwrap_err()), "DISPOSED");
    assert_eq!(code(&generate(&engine, &short).await.unwrap_err()), "DISPOSED");
    engine.dispose();
}

#[wasm_bindgen_test]
async fn what_cannot_be_done_says_so() {
    let (files, e) = small();
    assert_eq!(code(&load(&[("a.gguf", b"not a model")], &[]).await.err().unwrap()), "BAD_MODEL");
    let half = &files[0].1[..files[0].1.len() / 2];
    assert_eq!(code(&load(&[("model.gguf", half)], &[]).await.err().unwrap()), "BAD_MODEL");
    assert_eq!(
        code(&load(files, &[("kernels", js::object(&[("matvec", "none".into())]))]).await.err().unwrap()),
        "UNKNOWN_KERNEL"
    );
    assert_eq!(code(&load(files, &[("adapter", "no such GPU".into())]).await.err().unwrap()), "NO_ADAPTER");
    assert_eq!(code(&load(files, &[("chunk", 1000.into())]).await.err().unwrap()), "BAD_OPTION");
    let engine = load(files, &[("context", 8.into())]).await.unwrap();
    for (request, expected) in [
        (vec![("tokens", tokens(&[1; 9]))], "CONTEXT_FULL"),
        (vec![("tokens", tokens(&e.prompt)), ("topP", 2.into())], "BAD_OPTION"),
        (vec![("tokens", tokens(&e.prompt)), ("temperature", f64::NAN.into())], "BAD_OPTION"),
        (vec![("tokens", tokens(&[1_000_000]))], "BAD_OPTION"),
    ] {
        assert_eq!(code(&generate(&engine, &request).await.unwrap_err()), expected);
    }
    engine.dispose();
    assert_eq!(code(&to_js(&crate::Error::internal("x"))), "INTERNAL");
}
