//! Headers: valid files are read, and invalid ones refused by name.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use half::bf16;
use millrace::blocks::DType;
use millrace::format::{Checkpoint, Metadata, gguf};
use millrace::source::{ByteSource, Files, MemorySource};

use crate::builder::{ARRAY, BOOL, F32, Gguf, array, safetensors, string, strings};
use crate::common::{bytes, open};

const CONFIG: &[u8] = br#"{"model_type":"llama"}"#;
const TOKENIZER: &[u8] = b"{}";

fn open_gguf(file: Vec<u8>) -> millrace::Result<Checkpoint> {
    open([("model.gguf".to_owned(), file)])
}

fn folder(weights: &[(&str, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let mut list = vec![("config.json".to_owned(), CONFIG.to_vec()), ("tokenizer.json".to_owned(), TOKENIZER.to_vec())];
    list.extend(weights.iter().map(|(name, bytes)| (name.to_string(), bytes.clone())));
    list
}

fn metadata(checkpoint: &Checkpoint) -> &gguf::Metadata {
    match &checkpoint.metadata {
        Metadata::Gguf(metadata) => metadata,
        Metadata::Hf(_) => panic!("a GGUF file has GGUF metadata"),
    }
}

/// Asserts an error's code and that its message holds all of `words`.
#[track_caller]
fn refused(result: millrace::Result<Checkpoint>, code: &str, words: &[&str]) {
    let error = result.err().unwrap_or_else(|| panic!("the file should be refused: {words:?}"));
    assert_eq!(error.code(), code, "{error}");
    for word in words {
        assert!(error.message().contains(word), "'{word}' is missing from: {error}");
    }
}

#[test]
fn a_gguf_file_gives_metadata_and_places_of_tensors() {
    let file = Gguf::default()
        .text("general.architecture", "llama")
        .u32("llama.block_count", 2)
        .pair("llama.rope.freq_base", F32, &10000f32.to_le_bytes())
        .pair("tokenizer.ggml.add_bos_token", BOOL, &[1])
        .pair("tokenizer.ggml.tokens", ARRAY, &strings(&["a", "", "né"]))
        .pair("nested", ARRAY, &array(ARRAY, 2, &[array(5, 1, &7i32.to_le_bytes()), array(5, 0, &[])].concat()))
        .tensor("token_embd.weight", &[64, 3], 8, 0)
        .tensor("norm", &[5], 0, 224)
        .data(224 + 20);
    for version in [2, 3] {
        let checkpoint = open_gguf(Gguf { version, ..file.clone() }.build()).unwrap();
        let m = metadata(&checkpoint);
        assert_eq!(m.str("general.architecture").unwrap(), "llama");
        assert_eq!(m.u32("llama.block_count").unwrap(), 2);
        assert_eq!(m.f32("llama.rope.freq_base").unwrap(), 10000.0);
        assert!(m.bool("tokenizer.ggml.add_bos_token").unwrap());
        assert_eq!(m.strings("tokenizer.ggml.tokens").unwrap().iter().collect::<Vec<_>>(), ["a", "", "né"]);
        assert_eq!(m.array("nested").unwrap().len(), 2);
        assert_eq!(m.opt::<u32>("absent").unwrap(), None);
        let t = checkpoint.tensor("token_embd.weight").unwrap();
        assert_eq!((t.dtype, t.shape.as_slice(), t.bytes, t.elements()), (DType::Q8_0, &[3, 64][..], 204, 192));
        assert_eq!(t.offset % 32, 0);
        let norm = checkpoint.tensor("norm").unwrap();
        let read = pollster::block_on(checkpoint.read(norm, 4, 8)).unwrap();
        assert_eq!(read, (228u8..236).collect::<Vec<_>>());
        assert_eq!(pollster::block_on(checkpoint.read(norm, 16, 8)).unwrap_err().code(), "BAD_MODEL");
    }
}

/// A split model: two tensors in the first part, one in the second, none in the third.
fn parts() -> Vec<Gguf> {
    let part = |no: u32| {
        Gguf::default().pair("split.no", 2, &(no as u16).to_le_bytes()).pair("split.count", 2, &3u16.to_le_bytes())
    };
    let whole = |gguf: Gguf| gguf.pair("split.tensors.count", 5, &3i32.to_le_bytes());
    vec![
        whole(part(0).text("general.architecture", "llama").tensor("a", &[4], 0, 0).tensor("b", &[4], 0, 32).data(48)),
        whole(part(1).tensor("c", &[8], 0, 0).data(32)),
        whole(part(2)),
    ]
}

fn split(parts: &[Gguf]) -> Vec<(String, Vec<u8>)> {
    parts.iter().enumerate().map(|(i, part)| (format!("m-{:05}-of-00003.gguf", i + 1), part.clone().build())).collect()
}

#[test]
fn a_split_gguf_model_is_the_tensors_of_all_its_parts() {
    // In any order of the files.
    for order in [[0, 1, 2], [2, 0, 1]] {
        let files = split(&parts());
        let checkpoint = open(order.map(|i| files[i].clone())).unwrap();
        assert_eq!(checkpoint.tensors.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(checkpoint.tensor("c").unwrap().file, 1);
        assert_eq!(metadata(&checkpoint).str("general.architecture").unwrap(), "llama");
        let c = checkpoint.tensor("c").unwrap();
        assert_eq!(pollster::block_on(checkpoint.read(c, 0, 32)).unwrap(), (0..32).collect::<Vec<u8>>());
    }
}

#[test]
fn parts_that_do_not_belong_together_are_refused_by_name() {
    let files = split(&parts());
    refused(open([files[0].clone(), files[2].clone()]), "NOT_FOUND", &["m-00002-of-00003.gguf"]);
    refused(open([files[1].clone()]), "NOT_FOUND", &["m-00001-of-00003.gguf"]);
    refused(
        open([files[0].clone(), ("other.gguf".into(), files[1].1.clone())]),
        "BAD_MODEL",
        &["other.gguf", "several"],
    );
    let mut swapped = files.clone();
    (swapped[1].1, swapped[2].1) = (files[2].1.clone(), files[1].1.clone());
    refused(open(swapped), "BAD_MODEL", &["m-00002-of-00003.gguf", "split.no"]);
    // A part of a whole model under the name of a split one, and the reverse.
    let mut foreign = files.clone();
    foreign[1].1 = Gguf::default().tensor("c", &[8], 0, 0).data(32).build();
    refused(open(foreign), "BAD_MODEL", &["m-00002-of-00003.gguf", "split.count"]);
    refused(open([("m.gguf".to_owned(), files[0].1.clone())]), "BAD_MODEL", &["3 parts"]);
    let mut twice = parts();
    twice[2] = twice[2].clone().tensor("a", &[4], 0, 0).data(16);
    refused(open(split(&twice)), "BAD_MODEL", &["m-00003-of-00003.gguf", "another part"]);
    let mut fewer = parts();
    fewer[2] = fewer[2].clone().tensor("d", &[4], 0, 0).data(16);
    refused(open(split(&fewer)), "BAD_MODEL", &["split.tensors.count", "4 tensors"]);
}

#[test]
fn getters_name_the_key_and_what_is_there() {
    let checkpoint =
        open_gguf(Gguf::default().text("a", "x").u32("b", u32::MAX).pair("c", 5, &(-1i32).to_le_bytes()).build())
            .unwrap();
    let m = metadata(&checkpoint);
    let cases = [
        (m.u32("a").unwrap_err(), "'a' should be u32, but is string"),
        (m.str("b").unwrap_err(), "'b' should be string, but is u32 4294967295"),
        (m.u32("c").unwrap_err(), "'c' should be u32, but is i32 -1"),
        (m.f32("d").unwrap_err(), "'d' (f32) is missing"),
        (m.strings("a").unwrap_err(), "'a' should be array of strings"),
    ];
    for (error, text) in cases {
        assert_eq!(error.code(), "BAD_MODEL");
        assert!(error.message().contains(text), "{error}");
    }
    assert_eq!(m.u64("b").unwrap(), u64::from(u32::MAX));
}

#[test]
fn a_gguf_file_that_lies_is_refused_by_name() {
    let base = || Gguf::default().text("general.architecture", "llama");
    let max = u64::MAX.to_le_bytes();
    let mut unaligned = base().u32("general.alignment", 64).tensor("w", &[4], 0, 32).data(64);
    unaligned.alignment = 64;
    let cases: Vec<(Vec<u8>, &str, &[&str])> = vec![
        (Gguf { version: 1, ..base() }.build(), "UNSUPPORTED_MODEL", &["version 1"]),
        (Gguf { version: 4, ..base() }.build(), "UNSUPPORTED_MODEL", &["version 4"]),
        (Gguf { version: 3u32.swap_bytes(), ..base() }.build(), "UNSUPPORTED_MODEL", &["big-endian"]),
        (Gguf { key_count: Some(u64::MAX), ..base() }.build(), "BAD_MODEL", &["metadata count"]),
        (Gguf { tensor_count: Some(u64::MAX / 2), ..base() }.build(), "BAD_MODEL", &["tensor count"]),
        (Gguf { tensor_count: Some(1000), ..base() }.build(), "BAD_MODEL", &["tensor count"]),
        (Gguf { key_count: Some(2), ..base() }.build(), "BAD_MODEL", &["metadata pair 1"]),
        (base().text("general.architecture", "x").build(), "BAD_MODEL", &["general.architecture", "twice"]),
        (base().pair("k", 13, &[0; 8]).build(), "BAD_MODEL", &["'k'", "type 13"]),
        (base().pair("k", BOOL, &[2]).build(), "BAD_MODEL", &["'k'", "bool"]),
        (base().pair("k", 8, &[&max[..], b"x"].concat()).build(), "BAD_MODEL", &["'k'"]),
        (base().pair("k", 8, &string(&[0xff, 0xfe])).build(), "BAD_MODEL", &["'k'", "UTF-8"]),
        (base().pair("k", ARRAY, &array(4, u64::MAX / 4, &[])).build(), "BAD_MODEL", &["'k'"]),
        (base().pair("k", ARRAY, &array(8, u64::MAX, &[])).build(), "BAD_MODEL", &["'k'"]),
        (base().pair("k", ARRAY, &array(8, 1, &string(&[0xc0]))).build(), "BAD_MODEL", &["string 0", "'k'", "UTF-8"]),
        (base().pair("k", ARRAY, &nested(40)).build(), "BAD_MODEL", &["'k'", "nested"]),
        (base().u32("general.alignment", 48).build(), "BAD_MODEL", &["general.alignment", "48"]),
        (base().u32("general.alignment", 0).build(), "BAD_MODEL", &["general.alignment"]),
        (base().u32("general.alignment", 1 << 31).build(), "BAD_MODEL", &["general.alignment"]),
        (base().text("general.alignment", "32").build(), "BAD_MODEL", &["general.alignment", "string"]),
        (base().u32("split.count", 3).build(), "BAD_MODEL", &["3 parts"]),
        (unaligned.build(), "BAD_MODEL", &["'w'", "alignment 64"]),
        (base().tensor("w", &[], 0, 0).build(), "BAD_MODEL", &["'w'", "0 dimensions"]),
        (base().tensor("w", &[1, 1, 1, 1, 1], 0, 0).build(), "BAD_MODEL", &["'w'", "5 dimensions"]),
        (base().tensor("w", &[4, 0], 0, 0).build(), "BAD_MODEL", &["'w'", "size 0"]),
        (base().tensor("w", &[u64::MAX, 4], 0, 0).build(), "BAD_MODEL", &["'w'", "overflows"]),
        (base().tensor("w", &[1 << 40, 1 << 40], 0, 0).build(), "BAD_MODEL", &["'w'", "overflows"]),
        (base().tensor("w", &[33], 8, 0).data(64).build(), "BAD_MODEL", &["'w'", "rows of 33", "Q8_0"]),
        (base().tensor("w", &[4], 4, 0).data(64).build(), "UNSUPPORTED_MODEL", &["'w'", "type 4"]),
        (base().tensor("w", &[4], 0, 0).tensor("w", &[4], 0, 32).data(64).build(), "BAD_MODEL", &["'w'", "twice"]),
        (
            base().tensor("a", &[16], 0, 0).tensor("b", &[4], 0, 32).data(64).build(),
            "BAD_MODEL",
            &["'a'", "'b'", "overlap"],
        ),
        (base().tensor("w", &[16], 0, 0).data(10).build(), "BAD_MODEL", &["'w'", "54 bytes are missing"]),
        (base().tensor("w", &[16], 0, 1 << 40).data(64).build(), "BAD_MODEL", &["'w'", "64 bytes are missing"]),
        (base().tensor("w", &[16], 0, u64::MAX - 31).data(64).build(), "BAD_MODEL", &["'w'", "overflows"]),
    ];
    for (file, code, words) in cases {
        refused(open_gguf(file), code, words);
    }
}

/// Arrays within arrays, `depth` deep.
fn nested(depth: usize) -> Vec<u8> {
    (0..depth).fold(array(4, 0, &[]), |inner, _| array(ARRAY, 1, &inner))
}

#[test]
fn every_truncation_of_a_gguf_file_is_refused() {
    let file = bytes("tokenizer/gpt2/vocab.gguf");
    let header = file.len() - 64;
    for len in (0..header).step_by(41).chain(0..64) {
        let error = open_gguf(file[..len].to_vec()).err().expect("a truncated file is refused");
        assert_eq!(error.code(), "BAD_MODEL", "{len}: {error}");
    }
}

/// Counts what is read, and refuses to give much at once.
struct Frugal {
    inner: MemorySource,
    read: Rc<Cell<(u64, usize)>>,
}

impl ByteSource for Frugal {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn len(&self) -> u64 {
        self.inner.len()
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, millrace::Result<Vec<u8>>> {
        assert!(len <= 8 << 20, "{len} bytes at once");
        let (bytes, reads) = self.read.get();
        self.read.set((bytes + len as u64, reads + 1));
        self.inner.read(offset, len)
    }
}

#[test]
fn a_large_header_is_read_in_ranges_and_the_data_not_at_all() {
    let tokens: Vec<String> = (0..200_000).map(|i| format!("token number {i}")).collect();
    let texts: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let file = Gguf::default()
        .pair("tokenizer.ggml.tokens", ARRAY, &strings(&texts))
        .tensor("w", &[4096, 2048], 0, 0)
        .data(32 << 20)
        .build();
    let header = file.len() as u64 - (32 << 20);
    let read = Rc::new(Cell::new((0, 0)));
    let source: Rc<dyn ByteSource> = Rc::new(Frugal { inner: MemorySource::new("m.gguf", file), read: read.clone() });
    let checkpoint = pollster::block_on(Checkpoint::open(&Files::from_iter([("m.gguf".to_owned(), source)]))).unwrap();
    assert_eq!(
        metadata(&checkpoint).strings("tokenizer.ggml.tokens").unwrap().get(199_999),
        Some("token number 199999")
    );
    let (bytes, reads) = read.get();
    assert!(bytes < header + (5 << 20), "{bytes} bytes for a header of {header}");
    assert!(reads < 16, "{reads} reads");
}

#[test]
fn what_is_no_model_is_refused_with_a_guess_what_it_is() {
    let cases: [(&str, &[u8], &[&str]); 7] = [
        ("model.gguf", b"<!DOCTYPE html><html>", &["neither GGUF nor", "web page"]),
        ("model.gguf", b"", &["empty"]),
        ("model.gguf", b"version https://git-lfs.github.com/spec/v1\n", &["LFS"]),
        ("pytorch_model.bin", b"PK\x03\x04aaaaaaa", &["PyTorch"]),
        ("ggml.bin", b"lmggaaaaaaaa", &["GGML"]),
        ("cat.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF", &["cat.jpg", "neither GGUF nor"]),
        ("model.gguf", b"\x10\0\0\0\0\0\0\0{\"a\":1}       ", &["safetensors", "rename"]),
    ];
    for (name, content, words) in cases {
        refused(open([(name.to_owned(), content.to_vec())]), "BAD_MODEL", words);
    }
    refused(open([]), "NOT_FOUND", &["no files"]);
    let part = Gguf::default().build();
    refused(
        open([("m-00001-of-00003.gguf".to_owned(), part.clone())]),
        "NOT_FOUND",
        &["m-00002-of-00003.gguf", "one of 3 parts"],
    );
    refused(
        open([("a.gguf".to_owned(), part.clone()), ("b.gguf".to_owned(), part.clone())]),
        "BAD_MODEL",
        &["several GGUF models", "a.gguf", "b.gguf"],
    );
    // The content decides where the name has no known extension.
    assert!(open([("download".to_owned(), part)]).is_ok());
}

#[test]
fn a_folder_lists_what_it_lacks() {
    let weights = safetensors(r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#, 4);
    for missing in ["config.json", "tokenizer.json", "model.safetensors"] {
        let mut list = folder(&[("model.safetensors", weights.clone())]);
        list.retain(|(name, _)| name != missing);
        refused(open(list), "NOT_FOUND", &[missing, "a model folder holds"]);
    }
    refused(open([("model.safetensors".to_owned(), weights.clone())]), "NOT_FOUND", &["config.json"]);
    let mut list = folder(&[("model.safetensors", weights)]);
    list[0].1 = b"{".to_vec();
    refused(open(list), "BAD_MODEL", &["config.json"]);
}

#[test]
fn safetensors_give_places_of_tensors() {
    let header = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},"s":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}  "#;
    let checkpoint = open(folder(&[("model.safetensors", safetensors(header, 16))])).unwrap();
    let b = checkpoint.tensor("b").unwrap();
    assert_eq!(
        (b.dtype, b.shape.as_slice(), b.bytes, b.offset),
        (DType::BF16, &[2, 3][..], 12, 8 + header.len() as u64 + 4)
    );
    assert_eq!(checkpoint.tensor("s").unwrap().elements(), 1);
    assert_eq!(checkpoint.tensor("c").unwrap_err().code(), "BAD_MODEL");
}

#[test]
fn safetensors_that_lie_are_refused_by_name() {
    let one = |entry: &str| safetensors(&format!(r#"{{"w":{entry}}}"#), 16);
    let mut short = one(r#"{"dtype":"F32","shape":[4],"data_offsets":[0,16]}"#);
    short.truncate(short.len() - 6);
    let cases: Vec<(Vec<u8>, &str, &[&str])> = vec![
        (short, "BAD_MODEL", &["'w'", "6 bytes are missing"]),
        (one(r#"{"dtype":"F32","shape":[4],"data_offsets":[0,12]}"#), "BAD_MODEL", &["'w'", "16 bytes"]),
        (one(r#"{"dtype":"F32","shape":[4],"data_offsets":[16,0]}"#), "BAD_MODEL", &["'w'"]),
        (
            one(r#"{"dtype":"F32","shape":[4],"data_offsets":[18446744073709551599,18446744073709551615]}"#),
            "BAD_MODEL",
            &["'w'", "overflow"],
        ),
        (
            one(r#"{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,16]}"#),
            "BAD_MODEL",
            &["'w'", "overflows"],
        ),
        (one(r#"{"dtype":"F32","shape":[0],"data_offsets":[0,0]}"#), "BAD_MODEL", &["'w'", "size 0"]),
        (one(r#"{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}"#), "BAD_MODEL", &["'w'"]),
        (one(r#"{"dtype":"F8_E4M3","shape":[16],"data_offsets":[0,16]}"#), "UNSUPPORTED_MODEL", &["'w'", "F8_E4M3"]),
        (one(r#"{"dtype":"float","shape":[4],"data_offsets":[0,16]}"#), "BAD_MODEL", &["'w'", "float"]),
        (one(r#"{"shape":[4],"data_offsets":[0,16]}"#), "BAD_MODEL", &["'w'", "dtype"]),
        (one("7"), "BAD_MODEL", &["'w'"]),
        (
            safetensors(
                r#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
                8,
            ),
            "BAD_MODEL",
            &["'w'", "twice"],
        ),
        (
            safetensors(
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#,
                8,
            ),
            "BAD_MODEL",
            &["'a'", "'b'", "overlap"],
        ),
        (safetensors("[]", 0), "BAD_MODEL", &["header"]),
        (vec![1, 2, 3], "BAD_MODEL", &["3 bytes"]),
        ([&u64::MAX.to_le_bytes()[..], b"{}"].concat(), "BAD_MODEL", &["header length"]),
        ([&100u64.to_le_bytes()[..], b"{}"].concat(), "BAD_MODEL", &["header length", "only 2 follow"]),
    ];
    for (file, code, words) in cases {
        refused(open(folder(&[("model.safetensors", file)])), code, &[words, &["model.safetensors"]].concat());
    }
}

/// Bytes that a header of `entries` (name, type, shape, bytes) describes, one tensor after another.
fn two_tensors(entries: &[(&str, &str, &[u64], &[u8])]) -> Vec<u8> {
    let mut at = 0;
    let described = entries.iter().map(|(name, dtype, shape, bytes)| {
        let from = at;
        at += bytes.len();
        format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{from},{at}]}}"#)
    });
    let header = format!("{{{}}}", described.collect::<Vec<_>>().join(","));
    let mut file = safetensors(&header, 0);
    entries.iter().for_each(|entry| file.extend_from_slice(entry.3));
    file
}

#[test]
fn tensors_of_numbers_and_scales_are_read_as_one() {
    let numbers: Vec<u8> = (0..2 * 3 * 2 * 16).map(|i| (i * 7 % 256) as u8).collect();
    let scales: Vec<u8> = (100..112).collect();
    let file = two_tensors(&[
        ("e_blocks", "U8", &[2, 3, 2, 16], &numbers),
        ("e_scales", "U8", &[2, 3, 2], &scales),
        ("v", "F32", &[1], &[0; 4]),
    ]);
    let checkpoint = open(folder(&[("model.safetensors", file)])).unwrap();
    assert_eq!(checkpoint.tensors.keys().collect::<Vec<_>>(), ["e", "v"]);
    let e = checkpoint.tensor("e").unwrap();
    assert_eq!((e.dtype, e.shape.as_slice(), e.bytes), (DType::MXFP4, &[2, 3, 64][..], 12 * 17));
    let read = |tensor, offset, len| pollster::block_on(checkpoint.read(tensor, offset, len)).unwrap();
    let all = read(e, 0, 204);
    for (b, block) in all.chunks_exact(17).enumerate() {
        assert_eq!(block[0], scales[b]);
        let number = |i: usize| numbers[b * 16 + i / 2] >> (i % 2 * 4) & 15;
        assert!((0..32).all(|i| block[1 + i % 16] >> (i / 16 * 4) & 15 == number(i)), "block {b}");
    }
    assert_eq!(read(e, 40, 29), all[40..69]);

    // 2 rows of 3: 1.0, -1.5, 240, 2^-9, 0, -2; a scale for each row.
    let bytes = [0x38, 0xbc, 0x77, 0x01, 0x00, 0xc0];
    let halves = |values: &[f32]| values.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect::<Vec<_>>();
    for (kind, shape, scales, expected) in [
        ("F8_E4M3", &[2, 1][..], &[2.0, 0.5][..], [2.0, -3.0, 480.0, 1.0 / 1024.0, 0.0, -1.0]),
        ("F8_E4M3", &[], &[2.0], [2.0, -3.0, 480.0, 1.0 / 256.0, 0.0, -4.0]),
        ("F8_E4M3", &[1, 1], &[1.0], [1.0, -1.5, 240.0, 1.0 / 512.0, 0.0, -2.0]),
        ("F8_E5M2", &[2], &[1.0, 2.0], [0.5, -1.0, 28672.0, 2.0f32.powi(-15), 0.0, -4.0]),
    ] {
        let input: &[u8] = &[0, 0];
        let file = two_tensors(&[
            ("a.input_scale", "BF16", &[], input),
            ("a.weight", kind, &[2, 3], &bytes),
            ("a.weight_scale_inv", "BF16", shape, &halves(scales)),
        ]);
        let checkpoint = open(folder(&[("model.safetensors", file)])).unwrap();
        assert_eq!(checkpoint.tensors.keys().collect::<Vec<_>>(), ["a.weight"]);
        let weight = checkpoint.tensor("a.weight").unwrap();
        let read = |offset, len| pollster::block_on(checkpoint.read(weight, offset, len)).unwrap();
        assert_eq!((weight.dtype, weight.bytes, read(0, 12)), (DType::BF16, 12, halves(&expected)), "{kind} {shape:?}");
        assert_eq!(read(3, 6), halves(&expected)[3..9]);
    }
    // A scale for each two rows and columns, as config.json says.
    let config = r#"{"architectures":["LlamaForCausalLM"],"quantization_config":{"weight_block_size":[2,2]}}"#;
    let file = two_tensors(&[
        ("a.weight", "F8_E4M3", &[3, 3], &[0x38; 9]),
        ("a.weight_scale_inv", "BF16", &[2, 2], &halves(&[1.0, 2.0, 3.0, 4.0])),
    ]);
    let checkpoint = open(folder(&[("config.json", config.into()), ("model.safetensors", file)])).unwrap();
    let values = pollster::block_on(checkpoint.read(checkpoint.tensor("a.weight").unwrap(), 0, 18)).unwrap();
    assert_eq!(values, halves(&[1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0]));
}

#[test]
fn numbers_whose_scales_do_not_fit_are_refused_by_name() {
    let cases: Vec<(Vec<u8>, &str, &[&str])> = vec![
        (two_tensors(&[("e_blocks", "U8", &[1, 16], &[0; 16])]), "UNSUPPORTED_MODEL", &["'e_blocks'", "U8"]),
        (
            two_tensors(&[("e_blocks", "U8", &[1, 16], &[0; 16]), ("e_scales", "U8", &[2], &[0; 2])]),
            "BAD_MODEL",
            &["'e_blocks'", "do not fit"],
        ),
        (
            two_tensors(&[
                ("e_blocks", "U8", &[1, 16], &[0; 16]),
                ("e_scales", "U8", &[1], &[0]),
                ("e", "F32", &[1], &[0; 4]),
            ]),
            "BAD_MODEL",
            &["'e'", "in two"],
        ),
        (
            two_tensors(&[("w", "F8_E4M3", &[4, 4], &[0; 16]), ("w_scale", "F32", &[3], &[0; 12])]),
            "UNSUPPORTED_MODEL",
            &["'w'", "[3]"],
        ),
        (
            two_tensors(&[("w", "F8_E4M3", &[4, 4], &[0; 16]), ("w_scale", "U8", &[1], &[0])]),
            "UNSUPPORTED_MODEL",
            &["'w'", "F8_E4M3"],
        ),
    ];
    for (file, code, words) in cases {
        refused(open(folder(&[("model.safetensors", file)])), code, words);
    }
}

#[test]
fn an_index_must_agree_with_its_shards() {
    let shard =
        |name: &str| safetensors(&format!(r#"{{"{name}":{{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}}}"#), 4);
    let with = |index: &str| {
        open(folder(&[
            ("one.safetensors", shard("a")),
            ("two.safetensors", shard("b")),
            ("model.safetensors.index.json", index.as_bytes().to_vec()),
        ]))
    };
    let checkpoint = with(r#"{"metadata":{},"weight_map":{"b":"two.safetensors","a":"one.safetensors"}}"#).unwrap();
    assert_eq!(checkpoint.files.len(), 2);
    let file = checkpoint.tensor("a").unwrap().file;
    assert_eq!(checkpoint.files[file].name(), "one.safetensors");
    let cases: [(&str, &str, &[&str]); 8] = [
        (
            r#"{"weight_map":{"a":"two.safetensors","b":"two.safetensors"}}"#,
            "BAD_MODEL",
            &["two.safetensors holds tensor", "'a'"],
        ),
        (r#"{"weight_map":{"a":"one.safetensors"}}"#, "ok", &[]),
        (r#"{"weight_map":{"a":"one.safetensors","c":"one.safetensors"}}"#, "BAD_MODEL", &["'c'"]),
        (r#"{"weight_map":{"a":"three.safetensors"}}"#, "NOT_FOUND", &["three.safetensors"]),
        (r#"{"weight_map":{"a":"../one.safetensors"}}"#, "BAD_MODEL", &["'a'", ".."]),
        (r#"{"weight_map":{"a":7}}"#, "BAD_MODEL", &["'a'"]),
        (r#"{"weight_map":{}}"#, "BAD_MODEL", &["weight_map"]),
        (r#"{}"#, "BAD_MODEL", &["weight_map"]),
    ];
    for (index, code, words) in cases {
        match code {
            "ok" => assert!(with(index).is_ok(), "{index}"),
            "BAD_MODEL" if words[0].starts_with("two") => refused(with(index), code, &["'a'"]),
            _ => refused(with(index), code, words),
        }
    }
}
