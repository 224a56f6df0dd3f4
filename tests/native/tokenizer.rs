//! Tokenizers against Python's `tokenizers`, from tokenizer.json and from the same vocabulary as GGUF metadata.

use millrace::format::Checkpoint;
use millrace::text::{ChatTemplate, Tokenizer};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::builder::{ARRAY, BOOL, F32, Gguf, U32, array, strings};
use crate::common::{bytes, json_lines, open, tiny_safetensors};

const KINDS: [&str; 14] = [
    "gpt2",
    "llama-bpe",
    "qwen2",
    "smollm",
    "gpt-4o",
    "tekken",
    "dbrx",
    "stablelm2",
    "refact",
    "spm",
    "gemma",
    "unigram",
    "xlm",
    "word-piece",
];

fn folder(kind: &str) -> Checkpoint {
    folder_with(
        bytes(&format!("tokenizer/{kind}/tokenizer.json")),
        bytes(&format!("tokenizer/{kind}/tokenizer_config.json")),
        b"{}".to_vec(),
    )
}

fn folder_with(tokenizer: Vec<u8>, tokenizer_config: Vec<u8>, config: Vec<u8>) -> Checkpoint {
    let list = [
        ("config.json", config),
        ("tokenizer.json", tokenizer),
        ("tokenizer_config.json", tokenizer_config),
        ("model.safetensors", tiny_safetensors()),
    ];
    open(list.map(|(name, bytes)| (name.to_owned(), bytes))).unwrap()
}

fn gguf(kind: &str) -> Checkpoint {
    open([("vocab.gguf".to_owned(), bytes(&format!("tokenizer/{kind}/vocab.gguf")))]).unwrap()
}

/// Both forms of a tokenizer, with a name for messages.
fn both(kind: &str) -> [(String, Tokenizer); 2] {
    [
        (format!("{kind} from tokenizer.json"), Tokenizer::open(&folder(kind)).unwrap()),
        (format!("{kind} from GGUF"), Tokenizer::open(&gguf(kind)).unwrap()),
    ]
}

fn ids(case: &Value) -> Vec<u32> {
    case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// All pieces of a stream, and the end.
fn streamed(tokenizer: &Tokenizer, ids: &[u32], special: bool) -> Vec<String> {
    let mut stream = if special { tokenizer.stream_with_special() } else { tokenizer.stream() };
    let mut pieces: Vec<String> = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    pieces.push(stream.finish().unwrap());
    pieces
}

#[test]
fn encodes_as_python_does() {
    let mut failures = Vec::new();
    for kind in KINDS {
        for (name, tokenizer) in both(kind) {
            for case in json_lines(&format!("tokenizer/{kind}/cases.jsonl")) {
                let text = case["text"].as_str().unwrap();
                let got = tokenizer.encode(text, case["add_special_tokens"].as_bool().unwrap()).unwrap();
                if got != ids(&case) {
                    failures.push(format!("{name}: {text:?}\n  got {got:?}\n  not {:?}", ids(&case)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// Ten thousand lines of many scripts, emoji and code: a hash for each hundred of them.
#[test]
fn encodes_ten_thousand_lines_as_python_does() {
    let lines = String::from_utf8(bytes("tokenizer/lines.txt")).unwrap();
    let lines: Vec<&str> = lines.lines().collect();
    assert_eq!(lines.len(), 10_000);
    let mut failures = Vec::new();
    for kind in KINDS {
        let expected: Vec<String> = serde_json::from_slice(&bytes(&format!("tokenizer/{kind}/lines.json"))).unwrap();
        assert_eq!(expected.len(), 100);
        for (name, tokenizer) in both(kind) {
            for (i, (chunk, expected)) in lines.chunks(100).zip(&expected).enumerate() {
                let ids = |line: &&str| {
                    tokenizer.encode(line, false).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
                };
                let text = chunk.iter().map(ids).collect::<Vec<_>>().join("\n");
                let hash: String =
                    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
                if hash != *expected {
                    failures.push(format!("{name}: lines {} to {} differ", 100 * i + 1, 100 * i + 100));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn decodes_as_python_does_at_once_and_as_a_stream() {
    let mut failures = Vec::new();
    for kind in KINDS {
        for (name, tokenizer) in both(kind) {
            for case in json_lines(&format!("tokenizer/{kind}/cases.jsonl")) {
                let ids = ids(&case);
                for (field, special) in [("decoded", true), ("decoded_plain", false)] {
                    let expected = case[field].as_str().unwrap();
                    let at_once = tokenizer.decode(&ids, !special).unwrap();
                    let stream = streamed(&tokenizer, &ids, special).concat();
                    if at_once != expected || stream != expected {
                        failures.push(format!(
                            "{name}, {field}: {ids:?}\n  at once {at_once:?}\n  stream {stream:?}\n  not {expected:?}"
                        ));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn a_stream_never_shows_half_a_character() {
    for kind in KINDS {
        for (name, tokenizer) in both(kind) {
            let text = "naïve 日本語 👩‍👩‍👧 नमस्ते \u{10FFFF}";
            let ids = tokenizer.encode(text, false).unwrap();
            let pieces = streamed(&tokenizer, &ids, false);
            assert!(pieces.iter().all(|p| !p.contains(char::REPLACEMENT_CHARACTER)), "{name}: {pieces:?}");
            assert_eq!(pieces.concat(), tokenizer.decode(&ids, true).unwrap(), "{name}");
        }
    }
}

#[test]
fn a_stream_cut_within_a_character_ends_with_one_replacement() {
    let tokenizer = Tokenizer::open(&gguf("llama-bpe")).unwrap();
    let ids = tokenizer.encode("a\u{10FFFF}", false).unwrap();
    let cut = &ids[..ids.len() - 1];
    assert_eq!(streamed(&tokenizer, cut, false).concat(), "a\u{FFFD}");
    assert_eq!(tokenizer.decode(cut, true).unwrap(), "a\u{FFFD}");
}

#[test]
fn random_tokens_stream_as_they_decode() {
    // The one documented difference is in runs of byte tokens that are no UTF-8, which only byte fallback has.
    for kind in KINDS.into_iter().filter(|&k| !["spm", "gemma"].contains(&k)) {
        for (name, tokenizer) in both(kind) {
            let mut state = 0x9E37_79B9_7F4A_7C15u64;
            for _ in 0..300 {
                let ids: Vec<u32> = (0..20)
                    .map(|_| {
                        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                        ((state >> 33) % tokenizer.vocab_size() as u64) as u32
                    })
                    .collect();
                assert_eq!(
                    streamed(&tokenizer, &ids, false).concat(),
                    tokenizer.decode(&ids, true).unwrap(),
                    "{name}: {ids:?}"
                );
            }
        }
    }
}

#[test]
fn both_forms_agree_on_everything_else() {
    for kind in KINDS {
        let [(_, hf), (_, gguf)] = both(kind);
        assert_eq!(hf.vocab_size(), gguf.vocab_size(), "{kind}");
        assert_eq!(hf.bos_id(), gguf.bos_id(), "{kind}");
        for id in 0..hf.vocab_size() as u32 {
            assert_eq!(hf.token(id), gguf.token(id), "{kind}: {id}");
        }
        let sorted = |t: &Tokenizer| {
            let mut ids = t.eos_ids().to_vec();
            ids.sort_unstable();
            ids
        };
        assert_eq!(sorted(&hf), sorted(&gguf), "{kind}");
    }
}

#[test]
fn turn_ends_stop_a_chat_model() {
    let tokenizer = Tokenizer::open(&gguf("llama-bpe")).unwrap();
    for token in ["<|end_of_text|>", "<|eot_id|>"] {
        assert!(tokenizer.eos_ids().contains(&tokenizer.token_id(token).unwrap()), "{token}");
    }
    // config.json may hold a number or a list, and generation ends at all of them.
    let json = bytes("tokenizer/smollm/tokenizer.json");
    let tokenizer =
        Tokenizer::open(&folder_with(json.clone(), b"{}".to_vec(), br#"{"eos_token_id":[5,479,5]}"#.to_vec())).unwrap();
    assert_eq!(tokenizer.eos_ids(), [5, 479]);
    let error = Tokenizer::open(&folder_with(json, b"{}".to_vec(), br#"{"eos_token_id":"x"}"#.to_vec())).err().unwrap();
    assert!(error.message().contains("eos_token_id"), "{error}");
}

/// Of harmony's tokens those end an answer that no further message can follow.
#[test]
fn an_answer_of_several_messages_is_read_to_its_end() {
    let tokens = ["<unk>", "a", "<|end|>", "<|return|>", "<|call|>", "<|tool_response>"];
    let file = |kinds: [i32; 6], template: &str| {
        let kinds = array(5, 6, &kinds.map(i32::to_le_bytes).concat());
        let file = Gguf::default().text("tokenizer.ggml.model", "gemma4").text("tokenizer.chat_template", template);
        let file = file.pair("tokenizer.ggml.tokens", ARRAY, &strings(&tokens)).pair(
            "tokenizer.ggml.merges",
            ARRAY,
            &strings(&[]),
        );
        open_small(file.pair("tokenizer.ggml.token_type", ARRAY, &kinds).u32("tokenizer.ggml.bos_token_id", 1)).unwrap()
    };
    assert_eq!(file([2, 1, 3, 3, 3, 4], "<|end|><|return|><|call|>").eos_ids(), [3, 4]);
    // Gemma's answer to a call is no special token, and ends it.
    assert_eq!(file([2, 1, 3, 1, 1, 4], "<|tool_response>").eos_ids(), [5]);
}

#[test]
fn unknown_ids_are_named() {
    for kind in KINDS {
        let tokenizer = Tokenizer::open(&gguf(kind)).unwrap();
        let beyond = tokenizer.vocab_size() as u32;
        for error in [tokenizer.decode(&[beyond], true).unwrap_err(), tokenizer.stream().push(beyond).unwrap_err()] {
            assert_eq!(error.code(), "TOKENIZER");
            assert!(error.message().contains(&beyond.to_string()), "{error}");
        }
    }
}

#[test]
fn templates_come_from_either_form() {
    for kind in ["llama-bpe", "qwen2", "smollm", "spm"] {
        let rendered = [folder(kind), gguf(kind)].map(|checkpoint| {
            let tokenizer = Tokenizer::open(&checkpoint).unwrap();
            let template = ChatTemplate::open(&checkpoint, &tokenizer).unwrap();
            template.render(&json!([{"role": "user", "content": "Hi"}]), None, &Default::default(), true).unwrap()
        });
        assert_eq!(rendered[0], rendered[1], "{kind}");
        assert!(rendered[0].contains("Hi"), "{kind}");
    }
    let checkpoint = gguf("gpt2");
    let tokenizer = Tokenizer::open(&checkpoint).unwrap();
    let error = ChatTemplate::open(&checkpoint, &tokenizer).err().unwrap();
    assert_eq!(error.code(), "TEMPLATE");
    assert!(error.message().contains("plain prompt"), "{error}");
}

/// tokenizer.json of a kind, changed.
fn changed(kind: &str, change: impl FnOnce(&mut Value)) -> millrace::Result<Tokenizer> {
    let mut json: Value = serde_json::from_slice(&bytes(&format!("tokenizer/{kind}/tokenizer.json"))).unwrap();
    change(&mut json);
    Tokenizer::open(&folder_with(serde_json::to_vec(&json).unwrap(), b"{}".to_vec(), b"{}".to_vec()))
}

#[test]
fn a_bad_tokenizer_json_is_an_error_not_a_panic() {
    let long = "x".repeat(1000);
    type Change = Box<dyn FnOnce(&mut Value)>;
    let cases: Vec<(&str, Change)> = vec![
        ("merges", {
            let long = long.clone();
            Box::new(move |j| {
                // Both sides are tokens, but together they are longer than any token.
                let vocab = j["model"]["vocab"].as_object_mut().unwrap();
                vocab.insert(long.clone(), json!(9999));
                j["model"]["merges"] = json!([[long, long]]);
            })
        }),
        ("merge", Box::new(|j| j["model"]["merges"] = json!(["nospace"]))),
        ("sides", Box::new(|j| j["model"]["merges"] = json!([["a"]]))),
        ("vocab", Box::new(|j| j["model"]["vocab"] = json!(7))),
        ("added token", Box::new(|j| j["added_tokens"][0]["content"] = json!("!"))),
        ("token id", Box::new(|j| j["added_tokens"][0]["id"] = json!(4_000_000_000u32))),
        ("another token", Box::new(|j| j["added_tokens"][0]["id"] = json!(7))),
        ("token id", Box::new(|j| j["model"]["vocab"]["!"] = json!(4_000_000_000u32))),
        (
            "CTC",
            Box::new(|j| {
                j["decoder"] =
                    json!({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": true})
            }),
        ),
        (
            "the table of normalization",
            Box::new(|j| {
                j["normalizer"] = json!({"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "AAAA"}]})
            }),
        ),
        ("continuing_subword_prefix", Box::new(|j| j["model"]["continuing_subword_prefix"] = json!("##########"))),
    ];
    for (word, change) in cases {
        let error = changed("gpt2", change).err().unwrap_or_else(|| panic!("{word}: no error"));
        assert!(["TOKENIZER", "UNSUPPORTED_MODEL"].contains(&error.code()), "{word}: {error}");
        assert!(error.message().contains(word), "{word}: {error}");
    }
    for bytes in [&b""[..], b"{}", b"[]", b"not json", b"{\"model\":null}"] {
        let error = Tokenizer::open(&folder_with(bytes.to_vec(), b"{}".to_vec(), b"{}".to_vec())).err().unwrap();
        assert_eq!(error.code(), "TOKENIZER", "{error}");
    }
}

#[test]
fn settings_of_who_saved_the_file_do_not_apply() {
    let tokenizer = changed("gpt2", |j| {
        j["truncation"] = json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
        j["padding"] = json!({"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "!"});
    })
    .unwrap();
    let text = "The quick brown fox jumps over the lazy dog.";
    let plain = changed("gpt2", |_| {}).unwrap();
    assert_eq!(tokenizer.encode(text, true).unwrap(), plain.encode(text, true).unwrap());
}

#[test]
fn streams_follow_every_decoder_that_is_accepted() {
    let decoders = [
        json!(null),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}),
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true}),
        json!({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}),
        json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 3, "stop": 0}]}),
    ];
    let texts = ["", " ", "     five spaces", "Hello, wörld! 水車 👩‍👩‍👧", "\n\n a  b"];
    for decoder in decoders {
        let tokenizer = changed("spm", |j| j["decoder"] = decoder.clone()).unwrap();
        for text in texts {
            let ids = tokenizer.encode(text, true).unwrap();
            for special in [true, false] {
                assert_eq!(
                    streamed(&tokenizer, &ids, special).concat(),
                    tokenizer.decode(&ids, !special).unwrap(),
                    "{decoder}: {text:?}"
                );
            }
        }
    }
    let refused = [
        json!({"type": "CTC", "pad_token": "p", "word_delimiter_token": "|", "cleanup": true}),
        json!({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}),
        json!({"type": "Sequence", "decoders": [{"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 0, "stop": 1}]}),
    ];
    for decoder in refused {
        assert_eq!(
            changed("spm", |j| j["decoder"] = decoder.clone()).err().unwrap().code(),
            "UNSUPPORTED_MODEL",
            "{decoder}"
        );
    }
}

#[test]
fn broken_byte_runs_keep_their_good_part_in_a_stream() {
    let tokenizer = Tokenizer::open(&gguf("spm")).unwrap();
    let byte = |b: u8| tokenizer.token_id(&format!("<0x{b:02X}>")).unwrap();
    let ids = [byte(0xC3), byte(0xA9), byte(0xC3), tokenizer.token_id("a").unwrap(), byte(0xE5), byte(0x8F)];
    assert_eq!(streamed(&tokenizer, &ids, false).concat(), "é\u{FFFD}a\u{FFFD}\u{FFFD}");
    assert_eq!(tokenizer.decode(&ids, true).unwrap(), "\u{FFFD}\u{FFFD}\u{FFFD}a\u{FFFD}\u{FFFD}");
}

/// Gemma 4's files list the merges of BPE over characters, whose spaces are visible: as Gemma's tokenizer.json is.
#[test]
fn gemma_4s_metadata_encodes_as_its_tokenizer_json() {
    let json: Value = serde_json::from_slice(&bytes("tokenizer/gemma/tokenizer.json")).unwrap();
    let vocabulary = json["model"]["vocab"].as_object().unwrap();
    let added = json["added_tokens"].as_array().unwrap();
    let mut tokens: Vec<(u64, &str)> =
        vocabulary.iter().map(|(token, id)| (id.as_u64().unwrap(), token.as_str())).collect();
    let of_added = added.iter().map(|token| (token["id"].as_u64().unwrap(), token["content"].as_str().unwrap()));
    tokens.extend(of_added.filter(|(_, text)| !vocabulary.contains_key(*text)));
    tokens.sort_unstable();
    let kind = |text: &str| match added.iter().find(|token| token["content"] == text) {
        _ if json["model"]["unk_token"] == text => 2,
        Some(token) => {
            if token["special"] == true {
                3
            } else {
                4
            }
        }
        None if text.starts_with("<0x") => 6,
        None => 1,
    };
    let kinds: Vec<u8> = tokens.iter().flat_map(|(_, text)| i32::to_le_bytes(kind(text))).collect();
    let merges: Vec<String> = json["model"]["merges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()))
        .collect();
    let id = |text: &str| tokens.iter().position(|(_, token)| *token == text).unwrap() as u32;
    let never = id("<pad>");
    let file = Gguf::default()
        .text("general.architecture", "gemma4")
        .text("tokenizer.ggml.model", "gemma4")
        .pair("tokenizer.ggml.tokens", ARRAY, &strings(&tokens.iter().map(|(_, text)| *text).collect::<Vec<_>>()))
        .pair("tokenizer.ggml.token_type", ARRAY, &array(5, tokens.len() as u64, &kinds))
        .pair("tokenizer.ggml.merges", ARRAY, &strings(&merges.iter().map(String::as_str).collect::<Vec<_>>()))
        .pair("tokenizer.ggml.suppress_tokens", ARRAY, &array(5, 1, &never.to_le_bytes()))
        .u32("tokenizer.ggml.bos_token_id", id("<bos>"))
        .u32("tokenizer.ggml.eos_token_id", id("<eos>"));
    let tokenizer = open_small(file).unwrap();
    assert_eq!(tokenizer.suppressed_ids(), [never]);
    for case in json_lines("tokenizer/gemma/cases.jsonl") {
        let text = case["text"].as_str().unwrap();
        assert_eq!(
            tokenizer.encode(text, case["add_special_tokens"].as_bool().unwrap()).unwrap(),
            ids(&case),
            "{text:?}"
        );
        assert_eq!(tokenizer.decode(&ids(&case), false).unwrap(), case["decoded"].as_str().unwrap());
    }
}

/// A small SentencePiece vocabulary in GGUF metadata.
fn small() -> Gguf {
    Gguf::default()
        .text("tokenizer.ggml.model", "llama")
        .pair("tokenizer.ggml.tokens", ARRAY, &strings(&["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab"]))
        .pair(
            "tokenizer.ggml.scores",
            ARRAY,
            &array(F32, 8, &[0f32, 0., 0., -3., -4., -5., -1., -2.].map(f32::to_le_bytes).concat()),
        )
        .pair(
            "tokenizer.ggml.token_type",
            ARRAY,
            &array(5, 8, &[2i32, 3, 3, 1, 1, 1, 1, 1].map(i32::to_le_bytes).concat()),
        )
}

fn open_small(file: Gguf) -> millrace::Result<Tokenizer> {
    Tokenizer::open(&open([("m.gguf".to_owned(), file.build())])?)
}

#[test]
fn sentence_piece_defaults_are_llamas() {
    let tokenizer = open_small(small()).unwrap();
    assert_eq!(tokenizer.encode("ab", true).unwrap(), [1, 7]);
    assert_eq!(tokenizer.encode("ab", false).unwrap(), [7]);
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_ids()), (Some(1), &[2][..]));
    assert_eq!(tokenizer.decode(&[1, 7, 7], true).unwrap(), "ab ab");
    assert_eq!(tokenizer.encode("a?b", false).unwrap(), [3, 4, 0, 5]);
    // Text after a special token gets the space too.
    assert_eq!(tokenizer.encode("ab</s>ab", false).unwrap(), [7, 2, 7]);
    let plain =
        small().pair("tokenizer.ggml.add_space_prefix", BOOL, &[0]).pair("tokenizer.ggml.add_bos_token", BOOL, &[0]);
    let tokenizer = open_small(plain.pair("tokenizer.ggml.add_eos_token", BOOL, &[1])).unwrap();
    assert_eq!(tokenizer.encode("ab", true).unwrap(), [6, 2]);
    assert_eq!(tokenizer.decode(&[7, 7], true).unwrap(), " ab ab");
}

#[test]
fn gguf_metadata_that_does_not_fit_is_refused_by_key() {
    let without = |key: &str| {
        let mut file = small();
        file.pairs.retain(|p| !p.windows(key.len()).any(|w| w == key.as_bytes()));
        file
    };
    let tokens = |list: &[&str]| without("tokenizer.ggml.tokens").pair("tokenizer.ggml.tokens", ARRAY, &strings(list));
    let bpe = |file: Gguf| {
        let mut file = file;
        file.pairs.retain(|p| !p.windows(20).any(|w| w == b"tokenizer.ggml.model"));
        file.text("tokenizer.ggml.model", "gpt2")
    };
    let merges = |list: &[&str]| bpe(small()).pair("tokenizer.ggml.merges", ARRAY, &strings(list));
    let cases: Vec<(Gguf, &str, &[&str])> = vec![
        (without("tokenizer.ggml.model"), "BAD_MODEL", &["tokenizer.ggml.model"]),
        (without("tokenizer.ggml.tokens"), "BAD_MODEL", &["tokenizer.ggml.tokens"]),
        (without("tokenizer.ggml.scores"), "BAD_MODEL", &["tokenizer.ggml.scores"]),
        (tokens(&[]), "BAD_MODEL", &["tokenizer.ggml.tokens", "empty"]),
        (tokens(&["a", "b"]), "BAD_MODEL", &["tokenizer.ggml.token_type", "8", "2"]),
        (
            without("token_type").pair("tokenizer.ggml.token_type", ARRAY, &array(5, 8, &[9; 32])),
            "BAD_MODEL",
            &["token_type", "token 0"],
        ),
        (
            without("scores").pair("tokenizer.ggml.scores", ARRAY, &array(F32, 8, &[0xff; 32])),
            "TOKENIZER",
            &["score", "not a number"],
        ),
        (bpe(small()), "BAD_MODEL", &["tokenizer.ggml.merges"]),
        (merges(&["ab"]), "BAD_MODEL", &["merge 0", "'ab'"]),
        (merges(&["a x"]), "BAD_MODEL", &["tokenizer.ggml.merges", "x"]),
        (merges(&["▁ab ▁ab"]), "BAD_MODEL", &["tokenizer.ggml.merges", "▁ab ▁ab"]),
        (merges(&["a b"]).text("tokenizer.ggml.pre", "klingon"), "UNSUPPORTED_MODEL", &["klingon", "tokenizer.json"]),
        (
            merges(&["a b"]).pair("tokenizer.ggml.add_eos_token", BOOL, &[1]),
            "BAD_MODEL",
            &["add_eos_token", "eos_token_id"],
        ),
        (
            without("tokenizer.ggml.model").text("tokenizer.ggml.model", "bert"),
            "BAD_MODEL",
            &["tokenizer.ggml.tokens", "[UNK]"],
        ),
        (without("tokenizer.ggml.model").text("tokenizer.ggml.model", "rwkv"), "UNSUPPORTED_MODEL", &["rwkv"]),
        (
            without("tokenizer.ggml.model").text("tokenizer.ggml.model", "t5").pair(
                "tokenizer.ggml.precompiled_charsmap",
                ARRAY,
                &array(0, 1, &[0]),
            ),
            "TOKENIZER",
            &["precompiled_charsmap"],
        ),
    ];
    for (file, code, words) in cases {
        let error = open_small(file).err().unwrap_or_else(|| panic!("{words:?} should be refused"));
        assert_eq!(error.code(), code, "{error}");
        for word in words {
            assert!(error.message().contains(word), "'{word}' is missing from: {error}");
        }
    }
}

#[test]
fn tools_choose_the_template_that_is_meant_for_them() {
    let named = json!({"chat_template": [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "{{ tools|length }} tools"}]});
    let hf = folder_with(bytes("tokenizer/gpt2/tokenizer.json"), serde_json::to_vec(&named).unwrap(), b"{}".to_vec());
    let file = small()
        .text("tokenizer.chat_template", "plain")
        .text("tokenizer.chat_template.tool_use", "{{ tools|length }} tools");
    let gguf =
        open([("m.gguf".to_owned(), file.pair("tokenizer.chat_templates", ARRAY, &strings(&["tool_use"])).build())])
            .unwrap();
    for checkpoint in [hf, gguf] {
        let template = ChatTemplate::open(&checkpoint, &Tokenizer::open(&checkpoint).unwrap()).unwrap();
        let render = |tools: Value| template.render(&json!([]), Some(&tools), &Default::default(), true).unwrap();
        assert_eq!(render(json!([{}, {}])), "2 tools");
        assert_eq!(render(json!([])), "plain");
        assert_eq!(render(json!(null)), "plain");
    }
    let only = json!({"chat_template": [{"name": "rag", "template": "x"}]});
    let checkpoint =
        folder_with(bytes("tokenizer/gpt2/tokenizer.json"), serde_json::to_vec(&only).unwrap(), b"{}".to_vec());
    let template = ChatTemplate::open(&checkpoint, &Tokenizer::open(&checkpoint).unwrap()).unwrap();
    let error = template.render(&json!([]), None, &Default::default(), true).unwrap_err();
    assert!(error.code() == "TEMPLATE" && error.message().contains("rag"), "{error}");
    let wrong =
        folder_with(bytes("tokenizer/gpt2/tokenizer.json"), br#"{"chat_template": 7}"#.to_vec(), b"{}".to_vec());
    let error = Tokenizer::open(&wrong).err().unwrap();
    assert!(error.code() == "BAD_MODEL" && error.message().contains("tokenizer_config.json"), "{error}");
}

#[test]
fn the_box_models_two_forms_agree() {
    let hf = Tokenizer::open(&folder_with(bytes("box/tokenizer.json"), b"{}".to_vec(), b"{}".to_vec())).unwrap();
    let checkpoint = open([("box.gguf".to_owned(), bytes("../../www/models/box.gguf"))]).unwrap();
    let gguf = Tokenizer::open(&checkpoint).unwrap();
    assert_eq!((hf.vocab_size(), gguf.vocab_size()), (4096, 4096));
    let end = gguf.token_id("<|im_end|>").unwrap();
    assert!(gguf.eos_ids().contains(&end));
    let mut texts: Vec<String> = KINDS
        .iter()
        .flat_map(|kind| json_lines(&format!("tokenizer/{kind}/cases.jsonl")))
        .map(|case| case["text"].as_str().unwrap().to_owned())
        .collect();
    texts.extend((0..1000).map(|n| format!("<|im_start|>user\nWhat is {n} + {}?<|im_end|>\n", n * 7919 % 1000)));
    for text in texts {
        let ids = gguf.encode(&text, true).unwrap();
        assert_eq!(hf.encode(&text, true).unwrap(), ids, "{text:?}");
        assert_eq!(hf.decode(&ids, false).unwrap(), text);
        assert_eq!(streamed(&gguf, &ids, true).concat(), text);
    }
    let template = ChatTemplate::open(&checkpoint, &gguf).unwrap();
    let prompt = template
        .render(&json!([{"role": "user", "content": "What is 17 + 25?"}]), None, &Default::default(), true)
        .unwrap();
    assert!(prompt.ends_with("<|im_start|>assistant\n"), "{prompt:?}");
}

#[test]
fn the_box_models_held_out_conversations_become_the_references_tokens() {
    let checkpoint = open([("box.gguf".to_owned(), bytes("../../www/models/box.gguf"))]).unwrap();
    let tokenizer = Tokenizer::open(&checkpoint).unwrap();
    let template = ChatTemplate::open(&checkpoint, &tokenizer).unwrap();
    let list = |value: &Value| -> Vec<u32> { serde_json::from_value(value.clone()).unwrap() };
    for case in json_lines("box/heldout.jsonl") {
        let id = case["id"].as_str().unwrap();
        let prompt = template.render(&case["messages"], case.get("tools"), &Default::default(), true).unwrap();
        assert_eq!(tokenizer.encode(&prompt, false).unwrap(), list(&case["prompt_tokens"]), "{id}: {prompt:?}");
        let answer = list(&case["reference_tokens"]);
        assert_eq!(streamed(&tokenizer, &answer, false).concat(), case["reference_text"].as_str().unwrap(), "{id}");
        let ends = |id: &u32| tokenizer.eos_ids().contains(id);
        assert!(
            answer.last().is_some_and(ends) || answer.len() == 64,
            "{id} ends neither by a stop token nor by its length"
        );
    }
}

/// The vocabulary of a kind as a GGUF file with an unknown pre-tokenizer.
fn unknown_pre(kind: &str) -> Vec<u8> {
    let file = bytes(&format!("tokenizer/{kind}/vocab.gguf"));
    let at = file.windows(PRE.len()).position(|part| part == PRE).unwrap() + PRE.len() + 4;
    let length = u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let name = b"klingon";
    [&file[..at], &(name.len() as u64).to_le_bytes(), name, &file[at + 8 + length..]].concat()
}

const PRE: &[u8] = b"tokenizer.ggml.pre";

#[test]
fn a_tokenizer_json_beside_a_gguf_file_says_how_texts_are_cut() {
    for kind in ["gpt2", "qwen2", "tekken"] {
        let vocabulary = unknown_pre(kind);
        let lone = open([("vocab.gguf".to_owned(), vocabulary.clone())]).unwrap();
        let error = Tokenizer::open(&lone).err().unwrap();
        assert!(error.message().contains("klingon") && error.message().contains("--tokenizer"), "{error}");
        let json = bytes(&format!("tokenizer/{kind}/tokenizer.json"));
        let beside =
            open([("vocab.gguf".to_owned(), vocabulary.clone()), ("tokenizer.json".to_owned(), json.clone())]).unwrap();
        let given = lone.with_tokenizer(Some(json));
        for tokenizer in [beside, given].map(|checkpoint| Tokenizer::open(&checkpoint).unwrap()) {
            for case in json_lines(&format!("tokenizer/{kind}/cases.jsonl")) {
                let got = tokenizer
                    .encode(case["text"].as_str().unwrap(), case["add_special_tokens"].as_bool().unwrap())
                    .unwrap();
                assert_eq!(got, ids(&case), "{kind}: {}", case["text"]);
            }
            let own = Tokenizer::open(&gguf(kind)).unwrap();
            assert_eq!(
                (tokenizer.eos_ids(), tokenizer.bos_id(), tokenizer.special_tokens()),
                (own.eos_ids(), own.bos_id(), own.special_tokens()),
                "{kind}"
            );
        }
    }
    let other = open([
        ("vocab.gguf".to_owned(), unknown_pre("gpt2")),
        ("tokenizer.json".to_owned(), bytes("tokenizer/qwen2/tokenizer.json")),
    ])
    .unwrap();
    let error = Tokenizer::open(&other).err().unwrap();
    assert_eq!(error.code(), "TOKENIZER");
    assert!(error.message().contains("of another model"), "{error}");
}

/// Ids of special tokens outside of the vocabulary, as converters leave them, are ignored with a warning.
#[test]
fn special_tokens_outside_of_the_vocabulary_are_told_and_not_used() {
    let plain = open_small(small()).unwrap();
    assert!(plain.warnings().is_empty(), "{:?}", plain.warnings());
    for name in ["padding", "eos", "unknown", "mask"] {
        let tokenizer = open_small(small().u32(&format!("tokenizer.ggml.{name}_token_id"), 4000)).unwrap();
        let [warning] = tokenizer.warnings() else { panic!("{name}: {:?}", tokenizer.warnings()) };
        assert!(warning.contains(name) && warning.contains("4000"), "{warning}");
        assert!(tokenizer.eos_ids().iter().all(|id| (*id as usize) < tokenizer.vocab_size()));
    }
    // None, as some converters write it.
    for value in [u32::MAX.to_le_bytes(), (-1i32).to_le_bytes()] {
        for kind in [U32, 5] {
            let tokenizer = open_small(small().pair("tokenizer.ggml.padding_token_id", kind, &value)).unwrap();
            assert!(tokenizer.warnings().is_empty(), "{:?}", tokenizer.warnings());
        }
    }
    let json = bytes("tokenizer/qwen2/tokenizer.json");
    let tokenizer = Tokenizer::open(&folder_with(
        json,
        b"{}".to_vec(),
        br#"{"eos_token_id":[-1,9999999],"pad_token_id":-1}"#.to_vec(),
    ))
    .unwrap();
    assert!(
        tokenizer.warnings().len() == 1 && tokenizer.warnings()[0].contains("9999999"),
        "{:?}",
        tokenizer.warnings()
    );
}

/// Ids that no token has, before added tokens: they keep theirs, and answers have none of the others.
#[test]
fn added_tokens_behind_a_gap_keep_their_ids() {
    for kind in ["qwen2", "llama-bpe", "unigram", "word-piece"] {
        let plain = changed(kind, |_| ()).unwrap();
        let last = plain.vocab_size() as u32 + 7;
        let gapped = changed(kind, |json| {
            let token = json!({ "id": last, "content": "<|late|>", "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true });
            json["added_tokens"].as_array_mut().unwrap().push(token);
        })
        .unwrap();
        assert_eq!(gapped.vocab_size() as u32, last + 1, "{kind}");
        assert_eq!(gapped.token_id("<|late|>"), Some(last), "{kind}");
        assert_eq!(gapped.special_name(last).map(str::trim), Some("<|late|>"), "{kind}");
        assert_eq!(gapped.suppressed_ids(), (last - 7..last).collect::<Vec<_>>(), "{kind}");
        assert!(gapped.decode(&[last - 1], false).is_err(), "{kind}");
        for text in ["A mill race carries water.", "naïve 東京 🙂", "x"] {
            let ids = plain.encode(text, false).unwrap();
            assert_eq!(gapped.encode(text, false).unwrap(), ids, "{kind}: {text}");
            let with = gapped.encode(&format!("{text}<|late|>"), false).unwrap();
            assert_eq!(with.last(), Some(&last), "{kind}: {text}");
        }
    }
}

/// What converters leave in vocabularies: tokens without a text, and one that is there again.
#[test]
fn empty_and_repeated_tokens_of_gguf_files_are_told_and_not_used() {
    let plain = open_small(small()).unwrap();
    for model in ["llama", "t5"] {
        let mut file = small();
        for key in ["tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.scores", "token_type"] {
            file.pairs.retain(|p| !p.windows(key.len()).any(|w| w == key.as_bytes()));
        }
        let tokens = ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "", "", "a", "</s>"];
        let scores = [0f32, 0., 0., -3., -4., -5., -1., -2., -1., -1., -1., 0.];
        let types = [2i32, 3, 3, 1, 1, 1, 1, 1, 1, 5, 1, 3];
        let file = file
            .text("tokenizer.ggml.model", model)
            .pair("tokenizer.ggml.tokens", ARRAY, &strings(&tokens))
            .pair("tokenizer.ggml.scores", ARRAY, &array(F32, 12, &scores.map(f32::to_le_bytes).concat()))
            .pair("tokenizer.ggml.token_type", ARRAY, &array(5, 12, &types.map(i32::to_le_bytes).concat()));
        let tokenizer = open_small(file).unwrap();
        let [warning] = tokenizer.warnings() else { panic!("{model}: {:?}", tokenizer.warnings()) };
        assert!(warning.contains("4 tokens") && warning.contains("token 8"), "{warning}");
        assert!(tokenizer.encode("ab</s>a?b", false).unwrap().contains(&0), "{model}");
        if model == "llama" {
            for text in ["ab", "a?b", "ab</s>ab", "aab"] {
                assert_eq!(tokenizer.encode(text, true).unwrap(), plain.encode(text, true).unwrap(), "{text}");
            }
        }
        let gaps: Vec<u32> = (8..tokenizer.vocab_size() as u32).collect();
        assert_eq!(tokenizer.suppressed_ids(), gaps, "{model}");
    }
}

/// Tokens that were added to a tokenizer and not to its model: a warning, and an error where a text has one.
#[test]
fn tokens_behind_the_embeddings_are_told_and_refused() {
    let mut tokenizer = changed("qwen2", |_| ()).unwrap();
    let tokens = tokenizer.vocab_size();
    tokenizer.fit(tokens + 5).unwrap();
    assert!(tokenizer.warnings().is_empty() && tokenizer.vocab_size() == tokens);
    let last = tokenizer.token(tokens as u32 - 1).unwrap();
    let eos = tokenizer.eos_ids().len();
    tokenizer.fit(tokens - 1).unwrap();
    let [warning] = tokenizer.warnings() else { panic!("{:?}", tokenizer.warnings()) };
    assert!(warning.contains(&last) && warning.contains(&format!("{} rows", tokens - 1)), "{warning}");
    assert_eq!(tokenizer.vocab_size(), tokens - 1);
    assert!(tokenizer.eos_ids().len() <= eos && tokenizer.eos_ids().iter().all(|id| (*id as usize) < tokens - 1));
    assert!(tokenizer.encode("Hello", true).is_ok());
    let error = tokenizer.encode(&format!("Hello{last}"), true).unwrap_err();
    assert!(error.code() == "TOKENIZER" && error.message().contains(&last), "{error}");
    // A vocabulary that is larger itself is of another model.
    let error = changed("qwen2", |_| ()).unwrap().fit(100).unwrap_err();
    assert!(error.code() == "BAD_MODEL" && error.message().contains("100"), "{error}");
}
