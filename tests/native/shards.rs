//! Shards: a converted model loads as its source does, and a lying manifest is refused by name.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use millrace::base::Cancel;
use millrace::convert::{self, Options};
use millrace::engine::{Engine, Faults, LoadOptions, Prompt, Request};
use millrace::format::{Checkpoint, Manifest, Metadata};
use millrace::layout::BufferId;
use millrace::model::{self, AskedPooling, Reserve};
use millrace::source::disk::open_path;
use millrace::source::transport::Request as Get;
use millrace::source::{Body, Remote, Reply, Transport};
use millrace::store::{DownloadOptions, Memory, Store};
use millrace::text::{ChatTemplate, TemplateSource, Tokenizer};
use millrace::weights::{self, Recipe, Sink};
use millrace::{Error, Result};
use pollster::block_on;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::data;

/// The bytes that a loader has written, by buffer.
#[derive(Default)]
struct Written(RefCell<BTreeMap<u32, Vec<u8>>>);

impl Sink for Written {
    fn write<'a>(&'a self, buffer: BufferId, offset: u64, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>> {
        let mut buffers = self.0.borrow_mut();
        let buffer = buffers.entry(buffer.0).or_default();
        assert_eq!(offset % 4, 0);
        assert_eq!(buffer.len() as u64, offset, "written in order and without gaps");
        buffer.extend_from_slice(bytes);
        Box::pin(async { Ok(()) })
    }
    fn finish(&self) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// Every buffer of a model's weights, as it would be on the GPU, split by `max_binding`.
fn loaded(checkpoint: &Checkpoint, quantize: Option<Recipe>, max_binding: u64) -> Result<Vec<(String, Vec<u8>)>> {
    let mut labels = Vec::new();
    let mut buffer = |label, _| {
        labels.push(label);
        BufferId(labels.len() as u32 - 1)
    };
    let model = model::open(
        checkpoint,
        &mut Reserve { max_binding, quantize, pooling: AskedPooling::Auto, buffer: &mut buffer },
    )?;
    let matrices: Vec<_> = model.matrices().into_iter().cloned().collect();
    let written = Written::default();
    let (mut done, total) = (0, weights::bytes_to_read(checkpoint, &matrices, model.vectors())?);
    block_on(weights::load(checkpoint, &matrices, model.vectors(), &Cancel::new(), &written, &mut |bytes| {
        done += bytes
    }))?;
    assert_eq!(done, total, "progress ends at its total");
    Ok(written.0.into_inner().into_iter().map(|(id, bytes)| (labels[id as usize].clone(), bytes)).collect())
}

fn open(path: &Path) -> Result<Checkpoint> {
    block_on(Checkpoint::open(&open_path(path)?))
}

/// Converts into a temporary folder, which is removed when the returned guard is dropped.
fn converted(source: &Path, options: Options) -> Result<(tempfile::TempDir, PathBuf, Manifest)> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("shards");
    let manifest = block_on(convert::convert(&open_path(source)?, &out, options, &mut |_| {}, &Cancel::new()))?;
    Ok((dir, out, manifest))
}

/// The committed models of all families, in both forms.
fn models() -> Vec<PathBuf> {
    let mut found: Vec<_> =
        std::fs::read_dir(data("oracle")).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    found.sort();
    assert!(found.len() > 20, "{}", found.len());
    let model = |folder: PathBuf| {
        let expected: Value = serde_json::from_slice(&std::fs::read(folder.join("expected.json")).unwrap()).unwrap();
        folder.join(expected["model"].as_str().unwrap())
    };
    found.into_iter().map(model).collect()
}

#[test]
fn shards_load_as_what_they_were_made_from() {
    for source in models() {
        let original = open(&source).unwrap();
        // Small ones: most tensors lie in several.
        let (_dir, out, manifest) = converted(&source, Options { shard_bytes: 20_000, ..Options::default() }).unwrap();
        assert!(manifest.shards.len() > 1, "{}", source.display());
        for path in [out.clone(), out.join("manifest.json")] {
            let shards = open(&path).unwrap();
            let expected = loaded(&original, None, 1 << 17).unwrap();
            let read = loaded(&shards, None, 1 << 17).unwrap();
            assert!(expected == read, "{}: the GPU would get other weights", source.display());
            let text = |c: &Checkpoint| TemplateSource::of(c).unwrap();
            assert_eq!(text(&original), text(&shards));
            let ids = |c: &Checkpoint| Tokenizer::open(c).unwrap().encode("How many?\n 12 éß", true).unwrap();
            assert_eq!(ids(&original), ids(&shards));
            let stops = |c: &Checkpoint| Tokenizer::open(c).unwrap().eos_ids().to_vec();
            assert_eq!(stops(&original), stops(&shards));
            if let (Metadata::Gguf(a), Metadata::Gguf(b)) = (&original.metadata, &shards.metadata) {
                assert!(b.iter().all(|(key, value)| a.get(key) == Some(value)));
            }
        }
    }
}

#[test]
fn the_model_in_the_box_answers_from_shards_as_from_its_file() {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf");
    let (_dir, out, manifest) = converted(&source, Options { shard_bytes: 1 << 20, ..Options::default() }).unwrap();
    assert!(manifest.shards.len() > 3);
    let answer = |path: &Path| {
        let mut engine =
            block_on(Engine::load(&open_path(path).unwrap(), &LoadOptions::default(), &|_| {}, &Cancel::new()))
                .unwrap();
        let request = Request {
            max_tokens: Some(24),
            ..Request::new(Prompt::Messages(json!([{"role": "user", "content": "Reverse: abc"}])))
        };
        block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).unwrap().tokens
    };
    assert_eq!(answer(&out), answer(&source));
    let both = [&source, &out].map(|path| {
        let checkpoint = open(path).unwrap();
        let tokenizer = Tokenizer::open(&checkpoint).unwrap();
        let messages = json!([{"role": "user", "content": "hello"}]);
        ChatTemplate::open(&checkpoint, &tokenizer)
            .unwrap()
            .render(&messages, None, &serde_json::Map::new(), true)
            .unwrap()
    });
    assert_eq!(both[0], both[1]);
}

#[test]
fn quantizing_while_converting_and_while_loading_give_the_same_weights() {
    let mut quantized = 0;
    for source in models().iter().filter(|path| path.ends_with("model")) {
        let original = open(source).unwrap();
        let plain = loaded(&original, None, 1 << 17).unwrap();
        let bytes = |buffers: &[(String, Vec<u8>)]| buffers.iter().map(|(_, b)| b.len()).sum::<usize>();
        for recipe in [Recipe::Q4_0, Recipe::Q4KM, Recipe::Q8_0] {
            let expected = loaded(&original, Some(recipe), 1 << 17).unwrap();
            match converted(source, Options { quantize: Some(recipe), shard_bytes: 50_000 }) {
                Ok((_dir, out, manifest)) => {
                    assert!(bytes(&expected) < bytes(&plain), "{}", source.display());
                    assert!(manifest.tensors.iter().any(|t| t.converted_from.is_some()));
                    assert!(
                        expected == loaded(&open(&out).unwrap(), None, 1 << 17).unwrap(),
                        "{} {recipe:?}",
                        source.display()
                    );
                    quantized += 1;
                }
                // The rows are no whole blocks.
                Err(e) => assert!(e.code() == "BAD_OPTION" && expected == plain, "{}: {e}", source.display()),
            }
        }
    }
    assert!(quantized >= 18, "{quantized}");
}

/// Files of a folder by name.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entry = |e: std::fs::DirEntry| (e.file_name().into_string().unwrap(), std::fs::read(e.path()).unwrap());
    std::fs::read_dir(folder).unwrap().map(|e| entry(e.unwrap())).collect()
}

#[test]
fn an_interrupted_conversion_goes_on() {
    let source = data("oracle/gguf-q4_0/model.gguf");
    let options = Options { shard_bytes: 20_000, ..Options::default() };
    let (_dir, whole, manifest) = converted(&source, options).unwrap();
    let files = open_path(&source).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let cancel = Cancel::new();
    let mut reports = 0;
    let mut stop = |_| {
        reports += 1;
        if reports == 4 {
            cancel.cancel();
        }
    };
    let error = block_on(convert::convert(&files, &out, options, &mut stop, &cancel)).unwrap_err();
    assert_eq!(error.code(), "ABORTED");
    assert!(open(&out).is_err(), "half a model is none");
    let there = contents(&out);
    assert!(there.len() > 2 && there.len() < manifest.shards.len(), "{:?}", there.keys());

    // Other options make another model.
    let other = Options { shard_bytes: 30_000, ..options };
    assert_eq!(
        block_on(convert::convert(&files, &out, other, &mut |_| {}, &Cancel::new())).unwrap_err().code(),
        "BAD_OPTION"
    );
    // A shard that was damaged meanwhile is written again, as are later ones.
    let damaged = out.join(&manifest.shards[1].file);
    let mut bytes = std::fs::read(&damaged).unwrap();
    bytes[100] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let mut kept = None;
    block_on(convert::convert(&files, &out, options, &mut |at| kept = kept.or(Some(at.kept)), &Cancel::new())).unwrap();
    assert_eq!(kept, Some(manifest.shards[0].bytes));
    assert!(contents(&out) == contents(&whole));

    let again = block_on(convert::convert(&files, &out, options, &mut |_| {}, &Cancel::new())).unwrap_err();
    assert_eq!(again.code(), "BAD_OPTION");
    let from_shards = block_on(convert::convert(
        &open_path(&out).unwrap(),
        &dir.path().join("b"),
        options,
        &mut |_| {},
        &Cancel::new(),
    ));
    assert_eq!(from_shards.unwrap_err().code(), "BAD_OPTION");
    let quantized = block_on(convert::convert(
        &open_path(&data("oracle/gguf-q4_0/model.gguf")).unwrap(),
        Path::new("/dev/null/x"),
        options,
        &mut |_| {},
        &Cancel::new(),
    ));
    assert_eq!(quantized.unwrap_err().code(), "STORAGE");
}

fn manifest_of(out: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap()
}

fn parse(manifest: &Value) -> Result<Manifest> {
    Manifest::parse(manifest.to_string().as_bytes())
}

#[test]
fn a_manifest_that_lies_is_refused_by_name() {
    let (_dir, out, _) =
        converted(&data("oracle/gguf-q4_0/model.gguf"), Options { shard_bytes: 20_000, ..Options::default() }).unwrap();
    let good = manifest_of(&out);
    parse(&good).unwrap();
    type Lie = fn(&mut Value);
    let lies: &[(Lie, &str, &str)] = &[
        (|m| m["version"] = json!(2), "UNSUPPORTED_MODEL", "update Millrace"),
        (|m| m["version"] = json!(0), "BAD_MODEL", "'version'"),
        (|m| m["format"] = json!("mlc"), "BAD_MODEL", "'format'"),
        (|m| m["surprise"] = json!(1), "BAD_MODEL", "surprise"),
        (|m| m["tensors"][0]["surprise"] = json!(1), "BAD_MODEL", "surprise"),
        (|m| m["shards"][1]["file"] = m["shards"][0]["file"].clone(), "BAD_MODEL", "twice"),
        (|m| m["shards"][1]["file"] = json!("../a"), "BAD_MODEL", "../a"),
        (|m| m["shards"][1]["sha256"] = json!("00"), "BAD_MODEL", "sha256"),
        (|m| m["shards"][0]["bytes"] = json!((64 << 20) + 1), "BAD_MODEL", "at most"),
        (|m| m["tensors"][1]["name"] = m["tensors"][0]["name"].clone(), "BAD_MODEL", "twice"),
        (|m| m["tensors"][0]["type"] = json!("Q9"), "BAD_MODEL", "Q9"),
        (|m| m["tensors"][0]["layout"] = json!("rows"), "BAD_MODEL", "blocks"),
        (|m| m["tensors"][0]["segments"] = json!([]), "BAD_MODEL", "segment"),
        (|m| m["tensors"][0]["segments"][0]["shard"] = json!(9999), "BAD_MODEL", "shard 9999"),
        (|m| m["tensors"][0]["segments"][0]["offset"] = json!(u64::MAX), "BAD_MODEL", "segment"),
        (|m| m["tensors"][0]["segments"][0]["offset"] = json!(4), "BAD_MODEL", "multiple of 256"),
        (|m| m["tensors"][1]["segments"][0] = m["tensors"][0]["segments"][0].clone(), "BAD_MODEL", "overlap"),
        (|m| m["tensors"][0]["shape"] = json!([u64::MAX, u64::MAX]), "BAD_MODEL", "overflows"),
        (|m| m["tensors"][0]["converted_from"] = json!("Q9"), "BAD_MODEL", "Q9"),
        (|m| m["hints"] = json!({"memory": 1}), "BAD_MODEL", "memory"),
    ];
    for (i, (lie, code, word)) in lies.iter().enumerate() {
        let mut manifest = good.clone();
        lie(&mut manifest);
        let error = parse(&manifest).expect_err(&format!("lie {i}"));
        assert_eq!(error.code(), *code, "lie {i}: {error}");
        assert!(error.message().contains(word), "lie {i}: {error}");
    }
    // Rows of one element are padded to a block each: more bytes than can be counted.
    let mut vast = good.clone();
    let rows = 1u64 << 60;
    let segment = json!({"shard": 0, "offset": 0, "length": 0, "rows": rows});
    vast["tensors"] =
        json!([{"name": "a", "type": "F32", "shape": [rows, 1], "layout": "blocks", "segments": [segment]}]);
    assert_eq!(parse(&vast).unwrap_err().code(), "BAD_MODEL");
    // A matrix in blocks: rows and lengths must agree with its shape.
    let blocks = good["tensors"].as_array().unwrap().iter().position(|t| t["layout"] == "blocks").unwrap();
    for (field, by) in [("rows", -1), ("rows", 1), ("length", -4), ("length", 4)] {
        let mut manifest = good.clone();
        let value = &mut manifest["tensors"][blocks]["segments"][0][field];
        *value = json!(value.as_i64().unwrap() + by);
        assert_eq!(parse(&manifest).unwrap_err().code(), "BAD_MODEL", "{field} {by}");
    }
}

/// Rows swapped with columns, which the shape of a square matrix does not show.
#[test]
fn a_layout_that_the_model_does_not_read_is_refused_by_name() {
    let (_dir, out, _) =
        converted(&data("oracle/gpt2-hf/model"), Options { shard_bytes: 20_000, ..Options::default() }).unwrap();
    let mut manifest = manifest_of(&out);
    let tensors = manifest["tensors"].as_array_mut().unwrap();
    let square = tensors.iter_mut().find(|t| t["layout"] == "columns" && t["shape"][0] == t["shape"][1]).unwrap();
    square["layout"] = json!("blocks");
    let name = square["name"].as_str().unwrap().to_owned();
    std::fs::write(out.join("manifest.json"), manifest.to_string()).unwrap();
    let error = loaded(&open(&out).unwrap(), None, 1 << 17).unwrap_err();
    assert!(error.code() == "BAD_MODEL" && error.message().contains(&name), "{error}");
}

#[test]
fn files_that_do_not_match_the_manifest_are_refused_by_name() {
    let (_dir, out, manifest) =
        converted(&data("oracle/gguf-q4_0/model.gguf"), Options { shard_bytes: 20_000, ..Options::default() }).unwrap();
    let shard = out.join(&manifest.shards[1].file);
    let bytes = std::fs::read(&shard).unwrap();
    let refused = |code: &str, words: &[&str]| {
        let error: Error = open(&out).err().expect("an error");
        assert_eq!(error.code(), code, "{error}");
        assert!(words.iter().all(|word| error.message().contains(word)), "{error}");
    };
    std::fs::write(&shard, &bytes[1..]).unwrap();
    refused("BAD_MODEL", &[&manifest.shards[1].file, "bytes"]);
    std::fs::remove_file(&shard).unwrap();
    refused("NOT_FOUND", &[&manifest.shards[1].file, "missing"]);
    std::fs::write(&shard, &bytes).unwrap();
    open(&out).unwrap();
}

/// A server of a folder's files; in `damaged` one bit is flipped.
struct Server {
    files: BTreeMap<String, Vec<u8>>,
    damaged: Option<String>,
}

struct Whole(Option<Vec<u8>>);

impl Body for Whole {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
        let piece = self.0.take();
        Box::pin(async { Ok(piece) })
    }
}

impl Transport for Server {
    fn get<'a>(&'a self, request: Get<'a>, _: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let name = request.url.rsplit('/').next().unwrap();
            let found = self.files.get(name).cloned();
            let (status, mut bytes) =
                found.map_or((404, Vec::new()), |bytes| (if request.range.is_some() { 206 } else { 200 }, bytes));
            if self.damaged.as_deref() == Some(name) {
                bytes[7] ^= 1;
            }
            let (from, to) = request.range.map_or((0, bytes.len()), |(from, to)| {
                (from as usize, to.map_or(bytes.len(), |to| to as usize).min(bytes.len()))
            });
            let body = bytes.get(from..to).unwrap_or_default().to_vec();
            let header = |name: &str| match name {
                "content-length" => Some(body.len().to_string()),
                "content-range" if status == 206 => Some(format!("bytes {from}-{}/{}", to - 1, bytes.len())),
                _ => None,
            };
            Ok(Reply::new(status, header, 0.0, Box::new(Whole(Some(body.clone())))))
        })
    }

    fn sleep(&self, _: f64) -> LocalBoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn hashes_are_compared_as_files_arrive() {
    let (_dir, out, manifest) =
        converted(&data("oracle/gguf-q4_0/model.gguf"), Options { shard_bytes: 20_000, ..Options::default() }).unwrap();
    let server = |damaged: Option<String>| Rc::new(Server { files: contents(&out), damaged });
    let remote = Remote::parse("https://example.org/m/manifest.json").unwrap();
    let fetch = |server: Rc<Server>, store: &Store| {
        block_on(millrace::store::fetch(&remote, store, server, DownloadOptions::default(), &|_| {}, &Cancel::new()))
    };
    for damaged in manifest.files().map(|file| file.file.clone()) {
        let store = Memory::store();
        let error = fetch(server(Some(damaged.clone())), &store).err().unwrap();
        assert_eq!(error.code(), "BAD_MODEL", "{error}");
        assert!(error.message().contains(&damaged) && error.message().contains("SHA-256"), "{error}");
        let left = block_on(store.list()).unwrap();
        assert!(
            left.iter().flat_map(|entry| &entry.files).all(|file| file.name != damaged || file.bytes == 0),
            "nothing damaged stays: {left:?}"
        );
    }
    let (files, _) = fetch(server(None), &Memory::store()).unwrap();
    let expected = loaded(&open(&out).unwrap(), None, 1 << 17).unwrap();
    assert!(expected == loaded(&block_on(Checkpoint::open(&files)).unwrap(), None, 1 << 17).unwrap());
    let mut files = contents(&out);
    files.remove(&manifest.shards[2].file);
    assert_eq!(fetch(Rc::new(Server { files, damaged: None }), &Memory::store()).err().unwrap().code(), "NOT_FOUND");
}

/// Version 1 of the format: a model that was converted by the first release must load, and its conversion gives the
/// same bytes.
#[test]
fn the_committed_shards_are_what_their_source_becomes() {
    let (_dir, out, _) =
        converted(&data("oracle/gguf-q8_0/model.gguf"), Options { shard_bytes: 60_000, ..Options::default() }).unwrap();
    let committed = data("shards");
    if std::env::var_os("MILLRACE_WRITE_SHARDS").is_some() {
        std::fs::create_dir_all(&committed).unwrap();
        contents(&out).iter().for_each(|(name, bytes)| std::fs::write(committed.join(name), bytes).unwrap());
    }
    assert!(contents(&committed) == contents(&out), "the format has changed: raise its version");
}

#[test]
fn hints_choose_among_what_runs() {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf");
    let (_dir, out, _) = converted(&source, Options::default()).unwrap();
    let mut manifest = manifest_of(&out);
    manifest["hints"] = json!({"kernels": {"merge": "q8"}});
    std::fs::write(out.join("manifest.json"), manifest.to_string()).unwrap();
    let load = |options: &LoadOptions| {
        block_on(Engine::load(&open_path(&out).unwrap(), options, &|_| {}, &Cancel::new())).unwrap().info()
    };
    let merges = |info: &millrace::engine::Info| {
        info.plan.iter().filter(|row| row.kernel == "merge").map(|r| (r.variant, r.reason.clone())).collect::<Vec<_>>()
    };
    let hinted = merges(&load(&LoadOptions::default()));
    assert!(
        !hinted.is_empty() && hinted.iter().all(|(_, reason)| reason.contains("recommended by the model")),
        "{hinted:?}"
    );
    // Hints with unknown kernel names do not prevent loading: a warning tells.
    manifest["hints"] = json!({"kernels": {"merge": "warp", "tensor_core": "sg"}});
    std::fs::write(out.join("manifest.json"), manifest.to_string()).unwrap();
    let info = load(&LoadOptions::default());
    assert!(merges(&info).iter().all(|(_, reason)| !reason.contains("recommended by the model")));
    for unknown in ["warp", "tensor_core"] {
        assert_eq!(info.warnings.iter().filter(|w| w.contains(unknown)).count(), 1, "{:?}", info.warnings);
    }
    manifest["hints"] = json!({"kernels": {"merge": "q8"}});
    std::fs::write(out.join("manifest.json"), manifest.to_string()).unwrap();
    // The self-test finds that the recommended variant computes wrongly: another one runs.
    let broken = vec![("merge".to_owned(), hinted[0].0.to_owned())];
    let info = load(&LoadOptions {
        faults: Faults { broken, ..Faults::default() },
        self_test: Some(true),
        ..LoadOptions::default()
    });
    assert!(!info.self_test.wrong.is_empty());
    let without = merges(&info);
    assert!(without.iter().all(|(variant, _)| *variant != hinted[0].0), "{without:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A manifest with any number changed is read as a whole manifest or refused; a manifest that is read can be
    /// loaded, unless the model's configuration makes no sense.
    #[test]
    fn a_changed_manifest_is_read_or_refused(pick in any::<prop::sample::Index>(), value in prop_oneof![0u64..600, any::<u64>()]) {
        use std::sync::LazyLock;
        static GOOD: LazyLock<(tempfile::TempDir, PathBuf, Value)> = LazyLock::new(|| {
            let (dir, out, _) = converted(&data("oracle/gguf-q4_0/model.gguf"), Options { shard_bytes: 20_000, ..Options::default() }).unwrap();
            let manifest = manifest_of(&out);
            (dir, out, manifest)
        });
        let (_, out, good) = &*GOOD;
        let mut manifest = good.clone();
        let mut places = Vec::new();
        numbers(&manifest, String::new(), &mut places);
        let place = &places[pick.index(places.len())];
        *manifest.pointer_mut(place).unwrap() = json!(value);
        if parse(&manifest).is_ok() {
            let mut files = open_path(out).unwrap();
            let text = manifest.to_string().into_bytes();
            files.insert("manifest.json".into(), std::rc::Rc::new(millrace::source::MemorySource::new("manifest.json", text)));
            if let Ok(checkpoint) = block_on(Checkpoint::open(&files)) {
                match loaded(&checkpoint, None, 1 << 17) {
                    Ok(_) => {}
                    // The model's own configuration is checked by the model, as strictly as from any file.
                    Err(e) => prop_assert!(place.starts_with("/config") && matches!(e.code(), "BAD_MODEL" | "UNSUPPORTED_MODEL" | "OUT_OF_MEMORY"), "{place} = {value}: {}: {e}", e.code()),
                }
            }
        }
    }
}

/// JSON pointers of all numbers.
fn numbers(value: &Value, at: String, places: &mut Vec<String>) {
    match value {
        Value::Number(_) => places.push(at),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| numbers(item, format!("{at}/{i}"), places))
        }
        Value::Object(items) => items.iter().for_each(|(key, item)| {
            numbers(item, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), places)
        }),
        _ => {}
    }
}
