//! Headers changed at random: only typed errors, no panic, no large allocation, no hang.

use std::time::{Duration, Instant};

use millrace::base::check_name;
use millrace::format::{Checkpoint, Manifest};
use millrace::store::ModelKey;
use millrace::store::journal::{State, StoredFile};
use millrace::text::{TemplateSource, Tokenizer};

use crate::builder::{ARRAY, BOOL, F32, Gguf, STRING, U32, array, safetensors, string, strings};
use crate::common::{bytes, open, worked};
use crate::memory::peak;

/// Random numbers that are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// Numbers that break arithmetic.
const NASTY: [u64; 16] = [
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    255,
    0xFFFF,
    0x7FFF_FFFF,
    0xFFFF_FFFF,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
    u64::MAX - 7,
    u64::MAX,
];

/// Changes a few places of the first `header` bytes.
fn mutate(file: &mut Vec<u8>, header: usize, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let at = random.below(header.min(file.len()));
        match random.below(8) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = random.next() as u8,
            2 | 3 => {
                let value = random.of(&NASTY).to_le_bytes();
                let width = random.of(&[4, 8]).min(file.len() - at);
                file[at..at + width].copy_from_slice(&value[..width]);
            }
            4 => {
                let end = (at + random.below(24)).min(file.len());
                file.drain(at..end);
            }
            5 => {
                let extra: Vec<u8> = (0..random.below(24)).map(|_| random.next() as u8).collect();
                file.splice(at..at, extra);
            }
            6 => {
                // Copies a piece of the header over another.
                let from = random.below(header.min(file.len()));
                let len = random.below(64).min(file.len() - at.max(from));
                file.copy_within(from..from + len, at);
            }
            _ => file.truncate(at),
        }
        if file.is_empty() {
            return;
        }
    }
}

/// Opens a checkpoint, its template and its tokenizer; a failure must be one of `codes`, and nothing may take much
/// memory.
fn check(list: Vec<(String, Vec<u8>)>, codes: &[&str], seed: u64) -> bool {
    let size: usize = list.iter().map(|(_, bytes)| bytes.len()).sum();
    let open_all = |checkpoint: &Checkpoint| -> millrace::Result<()> {
        TemplateSource::of(checkpoint)?;
        let tokenizer = Tokenizer::open(checkpoint)?;
        let ids = tokenizer.encode("Hello, wörld! 12345\n\n  x", true)?;
        tokenizer.decode(&ids, false).map(drop)
    };
    // In a thread of its own: the tokenizer crate keeps a table for each thread that never shrinks, and only one file's
    // memory is measured here.
    let work = || worked(|| peak(|| open(list).and_then(|c| open_all(&c))));
    let ((result, held), seconds) = std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"));
    // The first read, regular expressions, the tokenizer's tables; then 64 bytes for each byte of the file.
    let allowed = (8 << 20) + 64 * size;
    assert!(held <= allowed, "seed {seed}: {held} bytes held for a file of {size}");
    assert!(seconds < 10.0, "seed {seed}: {seconds} s");
    match result {
        Ok(()) => true,
        Err(e) => {
            assert!(codes.contains(&e.code()), "seed {seed}: {}: {e}", e.code());
            assert!(!e.message().is_empty());
            false
        }
    }
}

fn gguf_files() -> Vec<(Vec<u8>, usize)> {
    let small = Gguf::default()
        .text("general.architecture", "llama")
        .u32("general.alignment", 32)
        .pair(
            "nested",
            ARRAY,
            &array(ARRAY, 2, &[array(U32, 1, &[7, 0, 0, 0]), array(STRING, 1, &string(b"x"))].concat()),
        )
        .pair("tokenizer.ggml.model", STRING, &string(b"llama"))
        .pair("tokenizer.ggml.tokens", ARRAY, &strings(&["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab"]))
        .pair("tokenizer.ggml.scores", ARRAY, &array(F32, 8, &[0; 32]))
        .pair(
            "tokenizer.ggml.token_type",
            ARRAY,
            &array(5, 8, &[2, 3, 3, 1, 1, 1, 1, 1].map(|t: i32| t.to_le_bytes()).concat()),
        )
        .pair("tokenizer.ggml.add_bos_token", BOOL, &[1])
        .u32("tokenizer.ggml.bos_token_id", 1)
        .tensor("a.weight", &[32, 2], 8, 0)
        .tensor("b.weight", &[4, 2], 0, 96)
        .data(128)
        .build();
    let header = small.len() - 128;
    let mut files = vec![(small, header)];
    for kind in ["gpt2", "llama-bpe", "spm", "qwen2"] {
        let file = bytes(&format!("tokenizer/{kind}/vocab.gguf"));
        let header = file.len();
        files.push((file, header));
    }
    files
}

fn mutated_gguf(files: &[(Vec<u8>, usize)], seed: u64) -> bool {
    let mut random = Random(seed);
    // The small file is the fastest to test, so it is taken most often.
    let (file, header) = &files[if seed.is_multiple_of(4) { random.below(files.len()) } else { 0 }];
    let mut file = file.clone();
    mutate(&mut file, *header, &mut random);
    check(vec![("model.gguf".into(), file)], &["BAD_MODEL", "UNSUPPORTED_MODEL", "TOKENIZER"], seed)
}

#[test]
fn mutated_gguf_headers_give_typed_errors() {
    let files = gguf_files();
    let cases = 4000;
    let good = (0..cases).filter(|seed| mutated_gguf(&files, *seed)).count();
    assert!(
        good > 0 && good < cases as usize / 2,
        "{good} of {cases} still open: the mutations are too weak or too strong"
    );
}

fn folder(header: &str, tokenizer: Vec<u8>) -> Vec<(String, Vec<u8>)> {
    vec![
        ("config.json".into(), b"{\"eos_token_id\":[1,2]}".to_vec()),
        ("tokenizer.json".into(), tokenizer),
        ("tokenizer_config.json".into(), b"{}".to_vec()),
        ("model.safetensors".into(), safetensors(header, 256)),
    ]
}

const HEADER: &str = r#"{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[4,8],"data_offsets":[0,128]},"b.weight":{"dtype":"BF16","shape":[64],"data_offsets":[128,256]}}"#;

fn mutated_safetensors(tokenizer: &[u8], seed: u64) -> bool {
    let mut random = Random(seed);
    let mut list = folder(HEADER, tokenizer.to_vec());
    match seed % 3 {
        // Bytes of the file, its length field among them.
        0 => {
            let header = 8 + HEADER.len();
            mutate(&mut list[3].1, header, &mut random);
        }
        // JSON that stays JSON: a number or a word becomes another.
        1 => list[3].1 = safetensors(&other_words(HEADER, &mut random), 256),
        _ => {
            let index = random.of(&[0, 1, 1, 1, 2]);
            let length = list[index].1.len();
            mutate(&mut list[index].1, length, &mut random);
        }
    }
    check(list, &["BAD_MODEL", "UNSUPPORTED_MODEL", "TOKENIZER", "NOT_FOUND"], seed)
}

#[test]
fn mutated_safetensors_give_typed_errors() {
    let tokenizer = bytes("tokenizer/gpt2/tokenizer.json");
    let good = (0..3000).filter(|seed| mutated_safetensors(&tokenizer, *seed)).count();
    assert!(good > 0 && good < 2000, "{good} of 3000 still open: the mutations are too weak or too strong");
}

/// A manifest with bytes or words changed: an error, or one that names files whose bytes add up.
fn mutated_manifest(text: &[u8], seed: u64) -> bool {
    let mut random = Random(seed);
    let changed = if seed.is_multiple_of(2) {
        let mut text = text.to_vec();
        let length = text.len();
        mutate(&mut text, length, &mut random);
        text
    } else {
        other_words(std::str::from_utf8(text).unwrap(), &mut random).into_bytes()
    };
    let size = changed.len();
    let (parsed, held) = peak(|| Manifest::parse(&changed));
    assert!(held <= (1 << 20) + 64 * size, "seed {seed}: {held} bytes held for {size}");
    match parsed {
        Ok(manifest) => {
            let sum = manifest.files().try_fold(0u64, |sum, file| sum.checked_add(file.bytes));
            assert!(sum.is_some() && manifest.files().all(|file| check_name(&file.file).is_ok()), "seed {seed}");
            true
        }
        Err(e) => {
            assert!(matches!(e.code(), "BAD_MODEL" | "UNSUPPORTED_MODEL"), "seed {seed}: {}: {e}", e.code());
            false
        }
    }
}

/// The journal of an interrupted download, the document of a whole model, and the key of both.
fn journal() -> (Vec<u8>, Vec<u8>, ModelKey) {
    let key = ModelKey::new("https://example.org/model/");
    let hash = |c: char| c.to_string().repeat(64);
    let file = |name: &str, length: u64, shards: &[Option<String>]| {
        let file = StoredFile::new(name, Some(length), 1000);
        serde_json::to_value(StoredFile { shards: shards.to_vec(), ..file }).unwrap()
    };
    let model = serde_json::to_value(State::new(&key, 1_700_000_000_000)).unwrap();
    let lines = [
        serde_json::json!({ "model": model }),
        serde_json::json!({ "file": file("config.json", 700, &[None]) }),
        serde_json::json!({ "shard": [0, 0, hash('a')] }),
        serde_json::json!({ "file": file("model.safetensors", 3500, &[None, None, None, None]) }),
        serde_json::json!({ "shard": [1, 2, hash('b')] }),
        serde_json::json!({ "shard": [1, 2, null] }),
        serde_json::json!({ "shard": [1, 3, hash('c')] }),
        serde_json::json!({ "clean": true }),
    ];
    let journal = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
    let whole = [file("config.json", 700, &[Some(hash('a'))]), file("m", 1500, &[Some(hash('b')), Some(hash('c'))])];
    let mut stored = model;
    stored["files"] = serde_json::json!(whole);
    (journal, serde_json::to_vec_pretty(&stored).unwrap(), key)
}

/// A changed journal never claims bytes that a file does not have, and never takes memory out of proportion.
fn mutated_journal((journal, stored, key): &(Vec<u8>, Vec<u8>, ModelKey), seed: u64) -> bool {
    let mut random = Random(seed);
    let of = if seed.is_multiple_of(3) { stored } else { journal };
    let changed = if random.below(2) == 0 {
        let mut text = of.clone();
        let length = text.len();
        mutate(&mut text, length, &mut random);
        text
    } else {
        other_words(std::str::from_utf8(of).unwrap(), &mut random).into_bytes()
    };
    let (state, held) = peak(|| match seed % 3 {
        0 => State::parse_stored(&changed, key.id()),
        _ => State::parse_journal(&changed, key.id()).map(|journal| {
            assert!(journal.good <= changed.len() as u64, "seed {seed}");
            journal.state
        }),
    });
    // A file's list of shards follows from its length: at most 2^21 of them, with or without a hash.
    assert!(held <= 128 << 20, "seed {seed}: {held} bytes held for {}", changed.len());
    let Some(state) = state else { return false };
    assert_eq!(state.url, key.url(), "seed {seed}");
    assert!(
        state.files.iter().all(|f| check_name(&f.name).is_ok() && f.length.is_none_or(|length| f.bytes() <= length)),
        "seed {seed}"
    );
    true
}

#[test]
fn mutated_manifests_and_journals_are_refused_or_hold_together() {
    let (manifest, journal) = (bytes("shards/manifest.json"), journal());
    assert!(
        State::parse_journal(&journal.0, journal.2.id()).is_some_and(|j| j.clean)
            && State::parse_stored(&journal.1, journal.2.id()).is_some()
    );
    let good = (0..2000).filter(|seed| mutated_manifest(&manifest, *seed)).count();
    assert!(good > 0 && good < 1500, "{good} of 2000 manifests still open");
    let good = (0..6000).filter(|seed| mutated_journal(&journal, *seed)).count();
    assert!(good > 0 && good < 5500, "{good} of 6000 journals still open");
}

/// All mutations with new seeds, or from `MILLRACE_FUZZ_SEED` on, for `MILLRACE_FUZZ_SECONDS`, or ten minutes.
#[test]
#[ignore = "takes ten minutes: npm run test:long"]
fn ten_minutes_of_mutations() {
    let number = |name: &str| {
        std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap_or_else(|e| panic!("{name}={text}: {e}")))
    };
    let seconds = number("MILLRACE_FUZZ_SECONDS").unwrap_or(600);
    let (files, tokenizer) = (gguf_files(), bytes("tokenizer/gpt2/tokenizer.json"));
    let (manifest, journal) = (bytes("shards/manifest.json"), journal());
    let end = Instant::now() + Duration::from_secs(seconds);
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let first = number("MILLRACE_FUZZ_SEED").unwrap_or_else(now);
    println!("MILLRACE_FUZZ_SEED={first} repeats it");
    let mut seed = first;
    while Instant::now() < end {
        mutated_gguf(&files, seed);
        mutated_safetensors(&tokenizer, seed);
        for more in 0..4 {
            mutated_manifest(&manifest, seed.wrapping_mul(4) + more);
            mutated_journal(&journal, seed.wrapping_mul(4) + more);
        }
        seed += 1;
    }
    println!("{} rounds from seed {first}", seed - first);
}

/// Replaces one number or quoted word of a JSON text.
fn other_words(json: &str, random: &mut Random) -> String {
    let bytes = json.as_bytes();
    let starts: Vec<usize> = (1..bytes.len())
        .filter(|&i| bytes[i].is_ascii_alphanumeric() && !bytes[i - 1].is_ascii_alphanumeric())
        .collect();
    let start = random.of(&starts);
    let end = (start..bytes.len()).find(|&i| !bytes[i].is_ascii_alphanumeric()).unwrap_or(bytes.len());
    let nasty = random.of(&NASTY).to_string();
    let with = random.of(&[
        nasty.as_str(),
        "-1",
        "1.5",
        "null",
        "F16",
        "F8_E5M2",
        "I64",
        "dtype",
        "shape",
        "1e99",
        "[]",
        "\\u0000",
    ]);
    format!("{}{with}{}", &json[..start], &json[end..])
}
