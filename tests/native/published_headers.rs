//! Metadata of published GGUF files, as llama.cpp logs it: the configuration is read and has the tensors that the file
//! has, or what is unsupported is named. The logs have numbers of tensors and no names.

use std::collections::BTreeMap;

use millrace::blocks::DType;
use millrace::format::{Checkpoint, TensorInfo};
use millrace::model;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::builder::{ARRAY, BOOL, F32, Gguf, STRING, U32, array, string};
use crate::families::model_of;

/// What was logged of a file.
#[derive(Deserialize)]
struct Header {
    /// A public repository and a path in it, or the number of a public file.
    from: String,
    /// The file's name.
    file: String,
    /// Numbers of tensors by type.
    tensors: BTreeMap<String, usize>,
    /// Number of tensors.
    count: usize,
    /// Of each key its type and, where the log does not cut it, its value.
    kv: Map<String, Value>,
    /// The word that the error must name, where the file is not read.
    refused: Option<String>,
}

/// Names and shapes.
type Tensors = BTreeMap<String, Vec<u64>>;

/// What a file may have beside what the configuration names: numbers that rotations are divided by.
const BESIDE: [&[&str]; 3] = [&[], &["rope_freqs.weight"], &["rope_factors_short.weight", "rope_factors_long.weight"]];

/// The head, which is not there where the embedding is the head.
const HEAD: &str = "output.weight";

/// Entries of a list that was cut: nothing of it counts here.
const MADE_UP: usize = 16;

const I32: u32 = 5;

/// GGUF's number of a type.
fn type_number(kind: &str) -> u32 {
    match kind {
        "u32" => U32,
        "i32" => I32,
        "f32" => F32,
        "bool" => BOOL,
        "str" => STRING,
        _ => panic!("type {kind}"),
    }
}

/// The bytes of a value that is no list, made up where it was cut.
fn single(kind: &str, value: Option<&Value>, i: usize) -> Vec<u8> {
    match kind {
        "u32" => (value.map_or(0, |n| n.as_u64().expect("a number")) as u32).to_le_bytes().to_vec(),
        "i32" => (value.map_or(1, |n| n.as_i64().expect("a number")) as i32).to_le_bytes().to_vec(),
        "f32" => (value.map_or(0.0, |x| x.as_f64().expect("a number")) as f32).to_le_bytes().to_vec(),
        "bool" => vec![u8::from(value.is_some_and(|on| on.as_bool().expect("a switch")))],
        "str" => value.map_or_else(
            || string(format!("t{i}").as_bytes()),
            |text| string(text.as_str().expect("a text").as_bytes()),
        ),
        _ => panic!("type {kind}"),
    }
}

/// The type of a list's entries, and their number.
fn list_type(kind: &str) -> Option<(&str, usize)> {
    let (item, length) = kind.strip_prefix("arr[")?.strip_suffix(']')?.split_once(',')?;
    Some((item, length.parse().expect("a length")))
}

/// GGUF's number of a type and the bytes of a value.
fn encoded(kind: &str, value: Option<&Value>) -> (u32, Vec<u8>) {
    let Some((item, length)) = list_type(kind) else { return (type_number(kind), single(kind, value, 0)) };
    let entries = value.map(|list| list.as_array().expect("a list"));
    let length = if entries.is_some() { length } else { length.min(MADE_UP) };
    let bytes: Vec<u8> = (0..length).flat_map(|i| single(item, entries.map(|list| &list[i]), i)).collect();
    (ARRAY, array(type_number(item), length as u64, &bytes))
}

/// Whether converters and quantizers leave a tensor in F32.
fn stays(name: &str, shape: &[u64]) -> bool {
    let parts = ["ffn_gate_inp.", "ssm_conv1d.", "position_embd.", "token_types."];
    shape.len() == 1 || name.ends_with(".bias") || parts.iter().any(|part| name.contains(part))
}

impl Header {
    fn type_of(&self, key: &str) -> &str {
        self.kv[key][0].as_str().expect("a type")
    }

    fn architecture(&self) -> &str {
        self.kv["general.architecture"][1].as_str().expect("a name")
    }

    /// A number of the architecture's.
    fn number(&self, key: &str) -> Option<u64> {
        self.kv.get(&format!("{}.{key}", self.architecture()))?[1].as_u64()
    }

    /// A checkpoint with its metadata and these tensors.
    fn checkpoint(&self, tensors: Tensors) -> Checkpoint {
        let file = self.kv.iter().fold(Gguf::default(), |file, (key, entry)| {
            let (kind, value) = encoded(self.type_of(key), entry.get(1));
            file.pair(key, kind, &value)
        });
        let mut checkpoint = crate::common::open([("model.gguf".to_owned(), file.build())])
            .unwrap_or_else(|e| panic!("{} of {}: {e}", self.file, self.from));
        let info = |(name, shape): (String, Vec<u64>)| {
            let bytes = shape.iter().product::<u64>() * 4;
            (name.clone(), TensorInfo { name, dtype: DType::F32, shape, file: 0, offset: 0, bytes })
        };
        checkpoint.tensors.extend(tensors.into_iter().map(info));
        checkpoint
    }

    /// The tensors that the configuration is read from. `values`: all layers have values.
    fn known(&self, values: bool, beside: &[&str]) -> Tensors {
        let width = self.number("embedding_length").expect("a width");
        let tokens = list_type(self.type_of("tokenizer.ggml.tokens")).expect("tokens").1;
        let mut known = Tensors::from([("token_embd.weight".to_owned(), vec![tokens as u64, width])]);
        if let Some(kinds) = self.kv.get("tokenizer.ggml.token_type_count").and_then(|entry| entry[1].as_u64()) {
            known.insert("token_types.weight".to_owned(), vec![kinds, width]);
        }
        let layers = (0..self.number("block_count").unwrap_or(0)).filter(|_| values);
        known.extend(layers.map(|i| (format!("blk.{i}.attn_v.weight"), vec![1])));
        known.extend(beside.iter().map(|name| ((*name).to_owned(), vec![1])));
        known
    }

    /// The tensors that are left out: keys and values of layers that read others', and layers that guess further
    /// tokens, which are as the layer before them.
    fn left_out(&self, listed: &Tensors) -> Tensors {
        let layers = self.number("block_count").expect("layers");
        let shared = self.number("attention.shared_kv_layers").unwrap_or(0);
        let further = self.number("nextn_predict_layers").unwrap_or(0);
        let mut out = Tensors::new();
        for i in layers - shared..layers {
            out.extend(["attn_k", "attn_v", "attn_k_norm"].map(|part| (format!("blk.{i}.{part}.weight"), vec![1, 1])));
        }
        for i in layers - further..layers {
            let before = format!("blk.{}.", layers - further - 1);
            let same = listed.iter().filter_map(|(name, shape)| Some((name.strip_prefix(&before)?, shape)));
            out.extend(same.map(|(part, shape)| (format!("blk.{i}.{part}"), shape.clone())));
            let own = [("eh_proj", vec![1, 1]), ("enorm", vec![1]), ("hnorm", vec![1]), ("shared_head_norm", vec![1])];
            out.extend(own.map(|(part, shape)| (format!("blk.{i}.nextn.{part}.weight"), shape)));
        }
        out
    }

    /// The file's tensors: those that the configuration has, with or without what a file may have beside, where their
    /// number is the file's; of several such choices the one whose number in F32 is nearest to the file's.
    fn all(&self) -> Result<Tensors, String> {
        let mut tried = Vec::new();
        let mut fit = Vec::new();
        for (values, beside) in [true, false].into_iter().flat_map(|values| BESIDE.map(|beside| (values, beside))) {
            let checkpoint = self.checkpoint(self.known(values, beside));
            let listed = model::list(&checkpoint).map_err(|e| format!("{} {}", e.code(), e.message()))?;
            let shape = |shape: &[usize]| shape.iter().map(|n| *n as u64).collect::<Vec<u64>>();
            let mut all: Tensors = listed.iter().map(|tensor| (tensor.name.clone(), shape(&tensor.shape))).collect();
            all.extend(self.left_out(&all));
            all.extend(beside.iter().map(|name| ((*name).to_owned(), vec![1])));
            let mut tied = all.clone();
            let choices = if tied.remove(HEAD).is_some() { vec![all, tied] } else { vec![all] };
            for choice in choices {
                tried.push(choice.len());
                if choice.len() == self.count {
                    fit.push(choice);
                }
            }
        }
        let in_f32 = self.tensors.get("f32").copied().unwrap_or(0);
        let nearest = |all: &Tensors| all.iter().filter(|(name, shape)| stays(name, shape)).count().abs_diff(in_f32);
        fit.into_iter().min_by_key(nearest).ok_or_else(|| format!("{tried:?} tensors; the file has {}", self.count))
    }
}

#[test]
fn published_files_are_read_or_what_is_unsupported_is_named() {
    let table = crate::common::bytes("published_headers/headers.json");
    let headers: Vec<Header> = serde_json::from_slice(&table).expect("a table");
    let read = headers.iter().filter(|header| header.refused.is_none()).count();
    assert!(read >= 25 && headers.len() > read, "{read} of {} are read", headers.len());
    let mut wrong = Vec::new();
    for header in headers {
        let name = format!("{} ({}) of {}", header.file, header.architecture(), header.from);
        assert_eq!(header.tensors.values().sum::<usize>(), header.count, "{name}");
        let result = match &header.refused {
            None => header.all().and_then(|all| match model_of(&header.checkpoint(all)) {
                Ok(_) => Ok(()),
                Err(e) => Err(format!("with all tensors: {} {}", e.code(), e.message())),
            }),
            Some(word) => match model::list(&header.checkpoint(header.known(true, &[]))) {
                Ok(_) => Err(format!("is read, despite {word}")),
                Err(error) if error.message().contains(word) => Ok(()),
                Err(error) => Err(format!("{} {}", error.code(), error.message())),
            },
        };
        if let Err(message) = result {
            wrong.push(format!("{name}: {}", message.chars().take(200).collect::<String>()));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
