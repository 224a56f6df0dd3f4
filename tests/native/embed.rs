//! Embeddings and scores of small random models against transformers: on the GPU (llvmpipe) and on the CPU, in several
//! lanes, from both forms of files.

use std::path::{Path, PathBuf};

use millrace::base::Cancel;
use millrace::convert;
use millrace::decode::widen_below;
use millrace::engine::{EmbedOptions, Engine, LoadOptions, Prompt, Request, RerankOptions};
use millrace::error::ErrorKind;
use millrace::gpu::{DeviceChoice, Refuse};
use millrace::model::{AskedPooling, Pooling};
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use pollster::block_on;
use serde::Deserialize;

use crate::common::{self, on_cpu};

#[derive(Deserialize)]
struct Expected {
    model: String,
    texts: Vec<String>,
    embeddings: Vec<Vec<f32>>,
    /// Embeddings of the texts behind the prompt of questions.
    queries: Vec<Vec<f32>>,
    query: String,
    documents: Vec<String>,
    scores: Vec<f32>,
}

fn fixture(name: &str) -> (PathBuf, Expected) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/embed").join(name);
    let expected: Expected =
        serde_json::from_str(&std::fs::read_to_string(folder.join("expected.json")).expect("expected.json"))
            .expect("as embeddings.py writes it");
    (folder.join(&expected.model), expected)
}

fn load(path: &Path, options: LoadOptions) -> millrace::Result<Engine> {
    common::load(&open_path(path)?, &options)
}

fn lane(lane: Lane) -> LoadOptions {
    LoadOptions { lane, ..LoadOptions::default() }
}

fn embed(engine: &mut Engine, texts: &[String], options: &EmbedOptions) -> Vec<Vec<f32>> {
    block_on(engine.embed(texts, options, &|_| (), &Cancel::new())).expect("embeddings").vectors
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    assert_eq!(a.len(), b.len());
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

fn apart(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn query() -> EmbedOptions {
    EmbedOptions { prompt: Some("query".into()), ..EmbedOptions::default() }
}

/// Sixteen rows a pass: texts share passes or take several. Lanes with eight bits or halves are close, the exact one is
/// equal.
#[test]
fn embeddings_are_those_of_transformers() {
    let exact = (lane(Lane::Exact), 0.99999);
    let few_rows = (LoadOptions { prefill_rows: Some(16), cache_start: Some(1), ..lane(Lane::Exact) }, 0.99999);
    let on_cpu = (LoadOptions { device: Some(DeviceChoice::Cpu), ..lane(Lane::Exact) }, 0.99999);
    let float = (lane(Lane::Float), 0.9999);
    let fast = (lane(Lane::Fast), 0.999);
    // The two forms differ only in loading: the folder's is computed on the CPU.
    for (name, lanes) in [
        ("qwen3-gguf", &[&exact, &few_rows, &float, &fast][..]),
        ("qwen3-hf", &[&on_cpu]),
        ("bert-gguf", &[&exact, &fast]),
        ("bert-hf", &[&on_cpu]),
        ("gemma-gguf", &[&few_rows, &fast]),
        ("gemma-hf", &[&on_cpu]),
        ("nomic-gguf", &[&exact, &fast]),
        ("nomic-hf", &[&on_cpu]),
        ("modern-gguf", &[&exact, &fast]),
        ("modern-hf", &[&on_cpu]),
    ] {
        let (path, expected) = fixture(name);
        for (options, least) in lanes.iter().copied() {
            let mut engine = load(&path, options.clone()).expect(name);
            let both = [(EmbedOptions::default(), &expected.embeddings), (query(), &expected.queries)];
            for (asked, wanted) in both.into_iter().filter(|(_, wanted)| !wanted.is_empty()) {
                for (i, (ours, theirs)) in embed(&mut engine, &expected.texts, &asked).iter().zip(wanted).enumerate() {
                    let cosine = cosine(ours, theirs);
                    assert!(cosine >= *least, "{name} {options:?}: text {i}: cosine {cosine}");
                    assert!(
                        (ours.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5,
                        "{name}: text {i} is not of length 1"
                    );
                }
            }
        }
    }
}

#[test]
fn a_text_among_others_is_as_it_is_alone() {
    for name in ["qwen3-gguf", "bert-gguf", "gemma-hf", "modern-gguf"] {
        among_others(name);
    }
}

fn among_others(name: &str) {
    let _cpu = (name != "bert-gguf").then(on_cpu);
    let (path, expected) = fixture(name);
    let mut engine = load(&path, lane(Lane::Exact)).expect("a model");
    let text = |i: usize| format!("{} {i}", expected.texts[i % expected.texts.len()]);
    let all: Vec<String> = (0..64).map(text).collect();
    let together = embed(&mut engine, &all, &EmbedOptions::default());
    for i in [0, 1, 4, 17, 33, 63] {
        let alone = embed(&mut engine, &all[i..=i], &EmbedOptions::default());
        let apart = apart(&alone[0], &together[i]);
        assert!(apart <= 1e-6, "{name}: text {i}: {apart} apart");
    }
    // Different texts have different embeddings.
    assert!(cosine(&together[0], &together[1]) < 0.999);
}

#[test]
fn embeddings_are_cut_and_left_as_long_as_they_are() {
    for name in ["qwen3-hf", "gemma-hf"] {
        cut_and_left(name);
    }
}

/// Where passes are short, those over the texts behind them are wider, and wider than a text may be long: texts become the
/// same as before, by learned positions and by rotations with windows.
#[test]
fn many_texts_are_read_in_wider_passes() {
    for (name, number) in [("bert-gguf", 144), ("gemma-gguf", 40)] {
        let (path, expected) = fixture(name);
        let mut engine = load(&path, lane(Lane::Exact)).expect("a model");
        let texts: Vec<String> = expected.texts.iter().cycle().take(number).cloned().collect();
        let mut widened_below = |ms, texts: &[String]| {
            widen_below(Some(ms));
            let vectors = embed(&mut engine, texts, &EmbedOptions::default());
            widen_below(None);
            (vectors, engine.info().memory.activations)
        };
        let (alone, narrow) = widened_below(0.0, &expected.texts);
        let (some, before) = widened_below(f64::INFINITY, &texts[..16]);
        let (many, wide) = widened_below(f64::INFINITY, &texts);
        let (again, after) = widened_below(f64::INFINITY, &expected.texts);
        assert_eq!((before, after), (narrow, wide), "{name}: few texts change nothing");
        assert!(wide > 3 * narrow, "{name}: passes were not widened: {wide} bytes, {narrow} before");
        for (vectors, count) in [(some, 16), (many, number), (again, alone.len())] {
            assert_eq!(vectors.len(), count, "{name}");
            for (i, vector) in vectors.iter().enumerate() {
                let apart = apart(vector, &alone[i % alone.len()]);
                assert!(apart <= 1e-6, "{name}: text {i} of {count} is {apart} from what it is alone");
            }
        }
    }
}

/// Where the GPU has no memory for wider passes, texts are read in those that there are.
#[test]
fn passes_stay_as_they_are_where_wider_ones_do_not_fit() {
    let (path, expected) = fixture("bert-gguf");
    let texts: Vec<String> = expected.texts.iter().cycle().take(144).cloned().collect();
    for late in [false, true] {
        let mut engine = load(&path, lane(Lane::Exact)).expect("a model");
        let alone = embed(&mut engine, &expected.texts, &EmbedOptions::default());
        let narrow = engine.info().memory.activations;
        // Behind the two buffers that results are read back through.
        engine.device().refuse_buffers(Some(Refuse { after: 2, once: true, late }));
        widen_below(Some(f64::INFINITY));
        let many = embed(&mut engine, &texts, &EmbedOptions::default());
        engine.device().refuse_buffers(None);
        let again = embed(&mut engine, &texts, &EmbedOptions::default());
        widen_below(None);
        assert_eq!(engine.info().memory.activations, narrow, "late: {late}");
        assert!(many.len() == 144 && many == again, "late: {late}");
        assert!(many.iter().enumerate().all(|(i, vector)| apart(vector, &alone[i % alone.len()]) <= 1e-6));
    }
}

fn cut_and_left(name: &str) {
    let _cpu = on_cpu();
    let (path, expected) = fixture(name);
    let mut engine = load(&path, lane(Lane::Exact)).expect("a model");
    let cut = embed(&mut engine, &expected.texts, &EmbedOptions { dimensions: Some(24), ..EmbedOptions::default() });
    let whole = embed(&mut engine, &expected.texts, &EmbedOptions { normalize: false, ..EmbedOptions::default() });
    for ((cut, whole), theirs) in cut.iter().zip(&whole).zip(&expected.embeddings) {
        assert!(cut.len() == 24 && cosine(cut, &theirs[..24]) > 0.99999);
        assert!((cut.iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-5);
        assert!(
            cosine(whole, theirs) > 0.99999 && whole.iter().map(|x| x * x).sum::<f32>() > 2.0,
            "{name}: a norm's weights are about 1"
        );
    }
}

/// With a head of its own in a GGUF file, and of a model whose head is its embedding.
#[test]
fn documents_are_judged_as_by_transformers() {
    let of_folder = LoadOptions { pooling: AskedPooling::As(Pooling::Rank), ..LoadOptions::default() };
    for (name, options) in [("qwen3-rerank-gguf", LoadOptions::default()), ("qwen3-hf", of_folder)] {
        let _cpu = name.ends_with("-hf").then(on_cpu);
        let (path, expected) = fixture(name);
        for (lane, within) in [(Lane::Exact, 1e-4), (Lane::Fast, 0.05)] {
            let mut engine = load(&path, LoadOptions { lane, ..options.clone() }).expect(name);
            let rank = |engine: &mut Engine, options| {
                block_on(engine.rerank(&expected.query, &expected.documents, &options, &|_| (), &Cancel::new()))
                    .expect("scores")
            };
            let all = rank(&mut engine, RerankOptions::default()).ranking;
            assert_eq!(all.len(), expected.documents.len());
            assert!(all.windows(2).all(|pair| pair[0].score >= pair[1].score), "the best first: {all:?}");
            for ranked in &all {
                let theirs = expected.scores[ranked.index];
                assert!(
                    (ranked.score - theirs).abs() < within,
                    "{name} {}: document {}: {} instead of {theirs}",
                    lane.name(),
                    ranked.index,
                    ranked.score
                );
            }
            assert_eq!(
                rank(&mut engine, RerankOptions { top_n: Some(2), ..RerankOptions::default() }).ranking,
                all[..2]
            );
            let other =
                RerankOptions { instruction: Some("Find what is about trains".into()), ..RerankOptions::default() };
            assert_ne!(rank(&mut engine, other).ranking, all);
        }
    }
}

/// By a classifier of the first row, with question and document as one text with two token types or one.
#[test]
fn documents_are_judged_by_a_classifier_as_by_transformers() {
    for name in ["xlmr-rerank-gguf", "xlmr-rerank-hf", "bert-rerank-hf"] {
        let _cpu = (name == "xlmr-rerank-hf").then(on_cpu);
        let (path, expected) = fixture(name);
        for (lane, within) in [(Lane::Exact, 1e-4), (Lane::Fast, 0.02)] {
            let mut engine = load(&path, LoadOptions { lane, ..LoadOptions::default() }).expect(name);
            let rank = |engine: &mut Engine, documents: &[String], options: &RerankOptions| {
                block_on(engine.rerank(&expected.query, documents, options, &|_| (), &Cancel::new()))
            };
            let all = rank(&mut engine, &expected.documents, &RerankOptions::default()).expect("scores");
            assert!(
                all.ranking.len() == expected.scores.len() && all.truncated == 1,
                "{name}: the last document is too long: {all:?}"
            );
            for ranked in &all.ranking {
                let theirs = expected.scores[ranked.index];
                assert!(
                    (ranked.score - theirs).abs() < within,
                    "{name} {}: document {}: {} instead of {theirs}",
                    lane.name(),
                    ranked.index,
                    ranked.score
                );
                let alone =
                    rank(&mut engine, &expected.documents[ranked.index..=ranked.index], &RerankOptions::default())
                        .expect("a score")
                        .ranking;
                assert!(
                    lane != Lane::Exact || (alone[0].score - ranked.score).abs() <= 1e-6,
                    "{name}: {ranked:?}, alone {alone:?}"
                );
            }
            let asked = RerankOptions { instruction: Some("Find trains".into()), ..RerankOptions::default() };
            let error = rank(&mut engine, &expected.documents, &asked).expect_err("an instruction");
            assert!(error.kind() == ErrorKind::BadOption && error.message().contains("leave it out"), "{error}");
        }
    }
}

/// Texts are cut at the limit of the model's folder or of its positions, and the result says how many were; or they are
/// refused.
#[test]
fn long_texts_are_cut_as_by_sentence_transformers() {
    let _cpu = on_cpu();
    for (name, most) in [("bert-hf", 96), ("bert-gguf", 128), ("qwen3-gguf", 256)] {
        let (path, expected) = fixture(name);
        let mut engine = load(&path, lane(Lane::Exact)).expect(name);
        let long = "The miller opened the sluice, and the wheel began to turn. ".repeat(30);
        let found = block_on(engine.embed(
            &[expected.texts[0].clone(), long.clone()],
            &EmbedOptions::default(),
            &|_| (),
            &Cancel::new(),
        ))
        .expect(name);
        let alone = block_on(engine.embed(&expected.texts[..1], &EmbedOptions::default(), &|_| (), &Cancel::new()))
            .expect(name);
        assert_eq!((found.truncated, found.tokens, alone.truncated), (1, alone.tokens + most, 0), "{name}");
        // A few tokens over the limit are cut, even where there are positions for them.
        let over = (1..).map(|n| "mill ".repeat(n)).find(|text| {
            block_on(engine.embed(std::slice::from_ref(text), &EmbedOptions::default(), &|_| (), &Cancel::new()))
                .expect(name)
                .truncated
                == 1
        });
        let whole = EmbedOptions { truncate: false, ..EmbedOptions::default() };
        let error =
            block_on(engine.embed(&[over.expect("a text")], &whole, &|_| (), &Cancel::new())).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::ContextFull, "{name}: {error}");
        assert!(
            ["text 0", &format!("up to {most}"), "truncate"].iter().all(|word| error.message().contains(word)),
            "{name}: {error}"
        );
    }
}

/// A folder that says itself that it ranks, and by which tokens: here with the tokens of yes and no swapped.
#[test]
fn a_folder_of_a_cross_encoder_judges() {
    let (path, expected) = fixture("qwen3-hf");
    let dir = tempfile::tempdir().expect("a folder");
    copy(&path, dir.path());
    let tokenizer = load(&path, lane(Lane::Exact)).expect("a model").texts();
    let id = |text: &str| tokenizer.tokens(&Request::new(Prompt::Text(text.into()))).expect("a token")[0];
    let modules = r#"[{"path":"","type":"sentence_transformers.base.modules.transformer.Transformer"},
        {"path":"1_LogitScore","type":"sentence_transformers.cross_encoder.modules.logit_score.LogitScore"}]"#;
    let config = format!(r#"{{"true_token_id":{},"false_token_id":{}}}"#, id("no"), id("yes"));
    std::fs::write(dir.path().join("modules.json"), modules).expect("modules.json");
    std::fs::create_dir(dir.path().join("1_LogitScore")).expect("a folder");
    std::fs::write(dir.path().join("1_LogitScore/config.json"), config).expect("config.json");
    let mut engine = load(dir.path(), lane(Lane::Exact)).expect("a model");
    let ranking = block_on(engine.rerank(
        &expected.query,
        &expected.documents,
        &RerankOptions::default(),
        &|_| (),
        &Cancel::new(),
    ))
    .expect("scores")
    .ranking;
    for ranked in ranking {
        assert!((ranked.score - (1.0 - expected.scores[ranked.index])).abs() < 1e-4, "{ranked:?}");
    }
}

#[test]
fn what_a_model_is_not_made_for_is_refused_with_what_to_do() {
    let (path, expected) = fixture("qwen3-gguf");
    let mut engine = load(&path, lane(Lane::Exact)).expect("a model");
    let texts = &expected.texts[..1];
    let cancel = Cancel::new();
    let refused = |e: millrace::Error, kind: ErrorKind, words: &[&str]| {
        assert_eq!(e.kind(), kind, "{e}");
        words.iter().for_each(|word| assert!(e.message().contains(word), "{word} is missing from: {e}"));
    };
    let chat = block_on(engine.generate(&Request::new(Prompt::Text("Hello".into())), &mut |_| (), &cancel))
        .expect_err("an embedding model writes");
    refused(chat, ErrorKind::UnsupportedModel, &["makes embeddings", "call embed", "pooling \"none\""]);
    let rank = block_on(engine.rerank("x", texts, &RerankOptions::default(), &|_| (), &cancel))
        .expect_err("an embedding model judges");
    refused(rank, ErrorKind::UnsupportedModel, &["embeds", "Qwen3-Reranker"]);
    let mut wrong = |texts: &[String], options: EmbedOptions| {
        block_on(engine.embed(texts, &options, &|_| (), &cancel)).expect_err("an error")
    };
    let many = EmbedOptions { dimensions: Some(65), ..EmbedOptions::default() };
    refused(wrong(texts, many), ErrorKind::BadOption, &["dimensions is 65", "has 64"]);
    let unknown = EmbedOptions { prompt: Some("qurey".into()), ..EmbedOptions::default() };
    refused(wrong(texts, unknown), ErrorKind::BadOption, &["qurey", "query, document"]);
    refused(wrong(&[], EmbedOptions::default()), ErrorKind::BadOption, &["list is empty"]);
    let whole = EmbedOptions { truncate: false, ..EmbedOptions::default() };
    refused(wrong(&["mill ".repeat(400)], whole), ErrorKind::ContextFull, &["text 0", "up to 256"]);
    // Idle work does nothing where the model does not generate.
    block_on(engine.tune(10.0, &cancel)).expect("tuned");
    block_on(engine.warm(1.0, &cancel)).expect("warmed");
    assert_eq!(embed(&mut engine, texts, &EmbedOptions::default()).len(), 1);

    let chat = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/qwen3-hf/model");
    let mut writes = load(&chat, lane(Lane::Exact)).expect("a model");
    let embedded =
        block_on(writes.embed(texts, &EmbedOptions::default(), &|_| (), &cancel)).expect_err("a chat model embeds");
    refused(embedded, ErrorKind::UnsupportedModel, &["writes", "Qwen3-Embedding", "pooling \"last\""]);
    let asked = LoadOptions { pooling: AskedPooling::As(Pooling::Last), ..lane(Lane::Exact) };
    assert_eq!(embed(&mut load(&chat, asked).expect("a model"), texts, &EmbedOptions::default())[0].len(), 72);
    // Recurrent layers cannot read several texts in one pass.
    let recurrent = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/lfm2-hf/model");
    let asked = LoadOptions { pooling: AskedPooling::As(Pooling::Last), ..LoadOptions::default() };
    refused(
        load(&recurrent, asked).err().expect("a recurrent model pools"),
        ErrorKind::UnsupportedModel,
        &["is no attention"],
    );
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder") {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).expect("an entry");
        if path.is_dir() {
            copy(&path, &to.join(name))
        } else {
            std::fs::copy(&path, to.join(name)).map(drop).expect("a copy")
        }
    }
}

#[test]
fn an_unknown_pooling_is_refused_by_name() {
    let (path, _) = fixture("qwen3-hf");
    let dir = tempfile::tempdir().expect("a folder");
    copy(&path, dir.path());
    let change = |file: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(path.join(file)).expect(file);
        assert!(text.contains(from), "{file} has no {from}");
        std::fs::write(dir.path().join(file), text.replace(from, to)).expect(file);
        let error = load(dir.path(), lane(Lane::Exact)).err().expect("an error");
        std::fs::write(dir.path().join(file), text).expect(file);
        assert_eq!(error.kind(), ErrorKind::UnsupportedModel, "{error}");
        error.message().to_owned()
    };
    let both =
        change("1_Pooling/config.json", "\"pooling_mode_max_tokens\": false", "\"pooling_mode_max_tokens\": true");
    assert!(both.contains("pooling max_tokens and lasttoken") && both.contains("Qwen3-Embedding"), "{both}");
    let module = change("modules.json", "models.Normalize", "models.CNN");
    assert!(module.contains("module CNN"), "{module}");
    // A model without a head that does not say how it pools.
    std::fs::remove_file(dir.path().join("modules.json")).expect("modules.json");
    let error = load(dir.path(), lane(Lane::Exact)).err().expect("an error");
    assert!(error.kind() == ErrorKind::UnsupportedModel && error.message().contains("load it with pooling"), "{error}");
}

#[test]
fn a_converted_model_embeds_as_its_folder_does() {
    for (name, prompts) in [("qwen3-hf", &["query", "document"][..]), ("gemma-hf", &["query"])] {
        converted(name, prompts);
    }
}

fn converted(name: &str, prompts: &[&str]) {
    let (path, expected) = fixture(name);
    let dir = tempfile::tempdir().expect("a folder");
    let shards = dir.path().join("shards");
    block_on(convert::convert(
        &open_path(&path).expect("files"),
        &shards,
        convert::Options::default(),
        &mut |_| (),
        &Cancel::new(),
    ))
    .expect("converted");
    let mut engine = load(&shards, lane(Lane::Exact)).expect("shards");
    assert_eq!(engine.info().model.prompts.keys().collect::<Vec<_>>(), prompts);
    for (ours, theirs) in embed(&mut engine, &expected.texts, &query()).iter().zip(&expected.queries) {
        assert!(cosine(ours, theirs) > 0.99999);
    }
}

/// nomic-embed's dimensions are cut after a LayerNorm, as its card has it.
#[test]
fn what_is_cut_is_centred_where_the_model_was_trained_so() {
    let (path, expected) = fixture("nomic-hf");
    let mut engine = load(&path, lane(Lane::Exact)).expect("a model");
    let text = &expected.texts[..1];
    let whole = embed(&mut engine, text, &EmbedOptions { normalize: false, ..EmbedOptions::default() }).remove(0);
    let cut = embed(&mut engine, text, &EmbedOptions { dimensions: Some(24), ..EmbedOptions::default() }).remove(0);
    let mean = whole.iter().sum::<f32>() / whole.len() as f32;
    let centred: Vec<f32> = whole[..24].iter().map(|x| x - mean).collect();
    assert!(cosine(&cut, &centred) > 0.99999 && cosine(&cut, &whole[..24]) < 0.9999, "{}", cosine(&cut, &whole[..24]));
}

/// A file that was converted without the dense layers behind its mean loads, with a warning that its vectors are not
/// the model's.
#[test]
fn missing_dense_layers_are_told() {
    let (path, expected) = fixture("gemma-hf");
    let engine = load(&path, lane(Lane::Exact)).expect("a model");
    let whole = engine.info();
    assert!(whole.warnings.iter().all(|warning| !warning.contains("dense")), "{:?}", whole.warnings);
    assert_eq!(whole.model.dimensions, Some(64));
    let dir = tempfile::tempdir().expect("a folder");
    copy(&path, dir.path());
    let modules = std::fs::read_to_string(path.join("modules.json")).expect("modules.json");
    let mut modules: Vec<serde_json::Value> = serde_json::from_str(&modules).expect("a list");
    let all = modules.len();
    modules.retain(|module| !module["type"].as_str().is_some_and(|kind| kind.ends_with("Dense")));
    assert_eq!(modules.len() + 2, all);
    std::fs::write(dir.path().join("modules.json"), serde_json::to_string(&modules).expect("a text"))
        .expect("modules.json");
    let mut without = load(dir.path(), lane(Lane::Exact)).expect("a model");
    assert!(
        without.info().warnings.iter().any(|warning| warning.contains("two dense layers")),
        "{:?}",
        without.info().warnings
    );
    assert!(
        cosine(&embed(&mut without, &expected.texts[..1], &EmbedOptions::default())[0], &expected.embeddings[0]) < 0.9
    );
    // A module's missing weights are named.
    std::fs::write(dir.path().join("modules.json"), std::fs::read(path.join("modules.json")).expect("modules.json"))
        .expect("modules.json");
    std::fs::remove_file(dir.path().join("3_Dense/model.safetensors")).expect("a module");
    let error = load(dir.path(), lane(Lane::Exact)).err().expect("an error");
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("3_Dense/model.safetensors"), "{error}");
}

/// A copy of BERT's folder whose header and further bytes are changed by `change`.
fn changed_folder(change: impl Fn(&mut serde_json::Map<String, serde_json::Value>, &mut Vec<u8>)) -> tempfile::TempDir {
    let (path, _) = fixture("bert-hf");
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("1_Pooling")).expect("a folder");
    let inner = std::fs::read_dir(path.join("1_Pooling")).expect("the module");
    for entry in std::fs::read_dir(&path)
        .expect("the fixture")
        .chain(inner)
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
    {
        std::fs::copy(&entry, folder.path().join(entry.strip_prefix(&path).expect("inside"))).expect("a copy");
    }
    let file = folder.path().join("model.safetensors");
    let bytes = std::fs::read(&file).expect("weights");
    let begin = 8 + u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let mut header = serde_json::from_slice(&bytes[8..begin]).expect("a header");
    let mut data = bytes[begin..].to_vec();
    change(&mut header, &mut data);
    let header = serde_json::to_vec(&header).expect("a header");
    std::fs::write(&file, [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()).expect("weights");
    folder
}

/// Published files of MiniLM and bge carry their positions along, as whole numbers.
#[test]
fn whole_numbers_that_no_model_multiplies_are_left_out() {
    let (path, expected) = fixture("bert-hf");
    let folder = changed_folder(|header, data| {
        for (name, dtype, shape, bytes) in
            [("embeddings.position_ids", "I64", "[1,128]", 1024), ("embeddings.token_type_ids", "BOOL", "[4]", 4)]
        {
            let entry = format!(
                r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{},{}]}}"#,
                data.len(),
                data.len() + bytes
            );
            header.insert(name.into(), serde_json::from_str(&entry).expect("an entry"));
            data.resize(data.len() + bytes, 0);
        }
    });
    let [mut with, mut without] = [folder.path(), &path].map(|path| load(path, lane(Lane::Exact)).expect("a model"));
    assert_eq!(
        embed(&mut with, &expected.texts, &EmbedOptions::default()),
        embed(&mut without, &expected.texts, &EmbedOptions::default())
    );

    let quantized = changed_folder(|header, _| {
        let mut entry = header.remove("encoder.layer.0.attention.self.key.weight").expect("a key");
        // Two numbers of two bytes are one of four.
        entry["dtype"] = "I32".into();
        entry["shape"] = serde_json::json!([64, 32]);
        header.insert("encoder.layer.0.attention.self.key.qweight".into(), entry);
    });
    let refused = load(quantized.path(), lane(Lane::Exact)).err().expect("an error");
    assert_eq!(refused.kind(), ErrorKind::UnsupportedModel);
    assert!(refused.message().contains("self.key.qweight") && refused.message().contains("GGUF"), "{refused}");
}
