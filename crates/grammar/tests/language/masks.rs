//! Masks beside those of llguidance, for every token of a byte-level BPE vocabulary and of a SentencePiece one, at random places of random texts.
//!
//! Where they differ, there is a reason: [`reason`] lists them all, and what is not on the list fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use millrace_grammar::{Grammar, Options, Vocabulary, Walk, compile};
use serde_json::Value;
use toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie, TokenId};

use crate::support::Random;

/// The bytes of a published tokenizer's tokens (tests/data/tokenizer/README.md says where they are from).
fn tokens(name: &str) -> Vec<Vec<u8>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/tokenizer").join(name).join("tokenizer.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let level = file["decoder"].to_string().contains("ByteLevel");
    let special: Vec<&str> = file["added_tokens"].as_array().unwrap().iter().filter(|t| t["special"] == true).filter_map(|t| t["content"].as_str()).collect();
    // A token that is missing here has no bytes.
    let bytes = |token: &str| -> Vec<u8> {
        if special.contains(&token) {
            return Vec::new();
        }
        if level {
            return token.chars().map(byte_of).collect();
        }
        match token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>')).and_then(|t| u8::from_str_radix(t, 16).ok()) {
            Some(byte) => vec![byte],
            None => token.replace('\u{2581}', " ").into_bytes(),
        }
    };
    let mut out = Vec::new();
    match &file["model"]["vocab"] {
        Value::Object(map) => {
            for (token, id) in map {
                let id = id.as_u64().unwrap() as usize;
                out.resize(out.len().max(id + 1), Vec::new());
                out[id] = bytes(token);
            }
        }
        other => panic!("{name}: {other}"),
    }
    out
}

/// The byte that a character of GPT-2's alphabet stands for.
fn byte_of(c: char) -> u8 {
    let plain = |b: u32| (0x21..=0x7e).contains(&b) || (0xa1..=0xac).contains(&b) || (0xae..=0xff).contains(&b);
    let c = c as u32;
    if plain(c) {
        return c as u8;
    }
    (0..256u32).filter(|&b| !plain(b)).nth(c as usize - 256).unwrap() as u8
}

fn factory(tokens: &[Vec<u8>]) -> ParserFactory {
    // The end of a text is one token more.
    let mut all = tokens.to_vec();
    all.push(b"\xff<eos>".to_vec());
    let info = TokRxInfo::new(all.len() as u32, all.len() as TokenId - 1);
    let trie = TokTrie::from(&info, &all);
    let mut factory = ParserFactory::new_simple(&(Arc::new(ApproximateTokEnv::new(trie)) as Arc<_>)).unwrap();
    factory.quiet();
    factory
}

/// Why a token may be judged otherwise here. `ours` is whether we allow it.
fn reason(token: &[u8], before: &[u8], ours: bool) -> Option<&'static str> {
    let has = |b: u8| token.contains(&b) || before.last() == Some(&b);
    match () {
        () if token.contains(&0x7f) => Some("U+007F stands unescaped in JSON; llguidance wants it escaped"),
        () if has(b'\\') || before.iter().rev().take(12).any(|&b| b == b'\\') => {
            Some("escapes: half of a surrogate pair is refused here; which characters may be escaped differs")
        }
        () if !ours && std::str::from_utf8(token).is_err() => Some("bytes that no UTF-8 text has are refused here"),
        () if token.iter().any(u8::is_ascii_digit) && exponent(before, token) => Some("exponents have at most two digits here"),
        () if ours && token.starts_with(b"-") => Some("-0 is at least 0 here"),
        () if ours && before.contains(&b':') && token.contains(&b'.') => Some("IPv6 addresses may end in an IPv4 address here"),
        () => None,
    }
}

/// Whether digits follow digits of an exponent.
fn exponent(before: &[u8], token: &[u8]) -> bool {
    let text = [before, token].concat();
    let from = text.iter().rposition(|b| !b.is_ascii_digit() && !b"+-".contains(b)).unwrap_or(0);
    matches!(text[from], b'e' | b'E') && text.len() > from + 3
}

#[test]
fn masks_are_those_of_llguidance() {
    let mut random = Random::new(3);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut pairs, mut judged) = (0, 0usize);
    for name in ["gpt2", "llama-bpe", "spm"] {
        let tokens = tokens(name);
        let vocabulary = Vocabulary::new(tokens.iter().map(Vec::as_slice), |_| false);
        let factory = factory(&tokens);
        for schema in crate::schemas::all() {
            let Ok(other) = factory.create_parser(TopLevelGrammar::from_json_schema(schema.clone())) else { continue };
            let options = Options { required_first: false, ..Options::default() };
            let automaton = compile(&Grammar::json_schema_value(schema.clone()), &options).unwrap().0;
            let mut matcher = Matcher::new(Ok(other));
            let mut walk = Walk::new(&automaton);
            let mut text: Vec<u8> = Vec::new();
            for _ in 0..random.below(12) + 1 {
                let Ok(theirs) = matcher.compute_mask() else { break };
                let ours = walk.mask(&automaton, &vocabulary);
                pairs += 1;
                for (id, token) in tokens.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
                    let (we, they) = (ours[id / 32] >> (id % 32) & 1 == 1, theirs.is_allowed(id as TokenId));
                    // The shortcut of categories is no other answer than the walk.
                    debug_assert_eq!(we, walk.allowed(&automaton, token));
                    judged += 1;
                    if we != they {
                        let shown = || {
                            format!(
                                "{name}: {schema}: behind {:?} {:?}: we {we}, llguidance {they}",
                                String::from_utf8_lossy(&text),
                                String::from_utf8_lossy(token)
                            )
                        };
                        match reason(token, &text, we) {
                            Some(reason) => *reasons.entry(reason).or_default() += 1,
                            None => panic!("{}", shown()),
                        }
                    }
                }
                let both: Vec<usize> =
                    (0..tokens.len()).filter(|&id| !tokens[id].is_empty() && ours[id / 32] >> (id % 32) & 1 == 1 && theirs.is_allowed(id as TokenId)).collect();
                let Some(&id) = both.get(random.below(both.len().max(1))) else { break };
                assert!(walk.advance_token(&automaton, &tokens[id]));
                if matcher.consume_token(id as TokenId).is_err() {
                    break;
                }
                text.extend_from_slice(&tokens[id]);
            }
        }
    }
    println!("{pairs} pairs, {judged} tokens; where they differ: {reasons:#?}");
    assert!(pairs > 200);
}
