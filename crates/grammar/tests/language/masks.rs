//! Masks beside those of llguidance, for every token of a byte-level BPE vocabulary and of a SentencePiece one, at
//! random places of random texts.
//!
//! Where they differ, there is a reason: [`reason`] lists them all, and what is not on the list fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::{Matcher, ParserFactory};
use millrace_grammar::{Grammar, Options, SPECIAL_BEGIN, Vocabulary, Walk, compile};
use serde_json::Value;
use toktrie::{ApproximateTokEnv, TokRxInfo, TokTrie, TokenId};

use crate::support::Random;

/// The bytes of a published tokenizer's tokens (tests/data/tokenizer/README.md says where they are from).
fn tokens(name: &str) -> Vec<Vec<u8>> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/data/tokenizer")
        .join(name)
        .join("tokenizer.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let level = file["decoder"].to_string().contains("ByteLevel");
    let special: Vec<&str> = file["added_tokens"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|t| t["special"] == true)
        .filter_map(|t| t["content"].as_str())
        .collect();
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
pub fn byte_of(c: char) -> u8 {
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
fn reason(schema: &Value, token: &[u8], before: &[u8], ours: bool) -> Option<&'static str> {
    let has = |b: u8| token.contains(&b) || before.last() == Some(&b);
    match () {
        () if token.contains(&0x7f) => Some("U+007F stands unescaped in JSON; llguidance wants it escaped"),
        () if has(b'\\') || before.iter().rev().take(12).any(|&b| b == b'\\') => {
            Some("escapes: half of a surrogate pair is refused here; which characters may be escaped differs")
        }
        () if !ours && std::str::from_utf8(token).is_err() => Some("bytes that no UTF-8 text has are refused here"),
        () if token.iter().any(u8::is_ascii_digit) && exponent(before, token) => {
            Some("exponents have at most two digits here")
        }
        () if !ours && padding(before, token) => Some("white space ends after 64 bytes here"),
        () if !ours && schema["format"] == "email" && before.len() + token.len() > 64 => {
            Some("what stands before the @ has at most 64 characters here")
        }
        () if !ours && [before, token].concat().windows(2).any(|pair| pair == b"@[") => {
            Some("email addresses at a host in brackets are refused here")
        }
        () if ours && token.starts_with(b"-") => Some("-0 is at least 0 here"),
        () if ours && before.contains(&b':') && token.contains(&b'.') => {
            Some("IPv6 addresses may end in an IPv4 address here")
        }
        () => None,
    }
}

/// Whether there is too much white space in a row.
fn padding(before: &[u8], token: &[u8]) -> bool {
    let text = [before, token].concat();
    text.split(|b| !b" \t\r\n".contains(b)).any(|run| run.len() > millrace_grammar::MAX_SPACE as usize)
}

/// Whether digits follow digits of an exponent.
fn exponent(before: &[u8], token: &[u8]) -> bool {
    let text = [before, token].concat();
    let from = text.iter().rposition(|b| !b.is_ascii_digit() && !b"+-".contains(b)).unwrap_or(0);
    matches!(text[from], b'e' | b'E') && text.len() > from + 3
}

/// What comparing has come to.
#[derive(Default)]
struct Sum {
    pairs: usize,
    judged: usize,
    reasons: BTreeMap<&'static str, usize>,
    unknown: Vec<String>,
}

/// Compares all tokens behind random texts of all schemas, at least `pairs` times.
fn compare(name: &str, tokens: &[Vec<u8>], pairs: usize, random: &mut Random, sum: &mut Sum) {
    let vocabulary = Vocabulary::new(tokens.iter().map(Vec::as_slice), |_| false);
    let factory = factory(tokens);
    let before = sum.pairs;
    let schemas = crate::schemas::all();
    for schema in schemas.iter().cycle().take(20 * schemas.len()) {
        if sum.pairs - before >= pairs {
            break;
        }
        let Ok(other) = factory.create_parser(TopLevelGrammar::from_json_schema(schema.clone())) else { continue };
        let options = Options { required_first: false, ..Options::default() };
        let automaton = compile(&Grammar::json_schema_value(schema.clone()), &options).unwrap().0;
        let mut matcher = Matcher::new(Ok(other));
        let mut walk = Walk::new(&automaton);
        let mut text: Vec<u8> = Vec::new();
        for _ in 0..random.below(12) + 1 {
            let Ok(theirs) = matcher.compute_mask() else { break };
            let ours = walk.mask(&automaton, &vocabulary);
            let ours = |id: usize| ours[id / 32] >> (id % 32) & 1 == 1;
            sum.pairs += 1;
            for (id, token) in tokens.iter().enumerate().filter(|(_, t)| !t.is_empty()) {
                let (we, they) = (ours(id), theirs.is_allowed(id as TokenId) && token[0] != SPECIAL_BEGIN);
                // The shortcut of categories is no other answer than the walk.
                debug_assert_eq!(we, walk.allowed(&automaton, token));
                sum.judged += 1;
                if we == they {
                    continue;
                }
                match reason(schema, token, &text, we) {
                    Some(reason) => *sum.reasons.entry(reason).or_default() += 1,
                    None => sum.unknown.push(format!(
                        "{name}: {schema}: behind {:?} {:?}: we {we}, llguidance {they}",
                        String::from_utf8_lossy(&text),
                        String::from_utf8_lossy(token)
                    )),
                }
            }
            let both: Vec<usize> = (0..tokens.len())
                .filter(|&id| !tokens[id].is_empty() && ours(id) && theirs.is_allowed(id as TokenId))
                .collect();
            let Some(&id) = both.get(random.below(both.len().max(1))) else { break };
            assert!(walk.advance_token(&automaton, &tokens[id]));
            if matcher.consume_token(id as TokenId).is_err() {
                break;
            }
            text.extend_from_slice(&tokens[id]);
        }
    }
}

fn judge(sum: &Sum) {
    println!("{} pairs, {} tokens; where they differ: {:#?}", sum.pairs, sum.judged, sum.reasons);
    let some: Vec<_> = sum.unknown.iter().take(40).collect();
    assert!(some.is_empty(), "{} differences without a reason, of them {some:#?}", sum.unknown.len());
}

#[test]
fn masks_are_those_of_llguidance() {
    let mut random = Random::new(3);
    let mut sum = Sum::default();
    for name in ["gpt2", "llama-bpe", "spm"] {
        compare(name, &tokens(name), 100, &mut random, &mut sum);
    }
    judge(&sum);
    assert!(sum.pairs > 200);
}

/// As `masks_are_those_of_llguidance`, with whole vocabularies: GGUF files or tiktoken ranks, whose paths
/// `MILLRACE_VOCABULARIES` lists, separated by colons.
#[test]
#[ignore = "wants vocabularies"]
fn masks_of_whole_vocabularies() {
    let paths = std::env::var("MILLRACE_VOCABULARIES").expect("MILLRACE_VOCABULARIES: paths of GGUF or tiktoken files");
    let mut random = Random::new(7);
    let mut unknown = Vec::new();
    for path in paths.split(':') {
        let tokens = if path.ends_with(".gguf") { crate::gguf::tokens(path.as_ref()) } else { ranks(path) };
        let mut sum = Sum::default();
        compare(path, &tokens, 200, &mut random, &mut sum);
        println!(
            "{path}: {} tokens, {} pairs, {} judged; where they differ: {:#?}",
            tokens.len(),
            sum.pairs,
            sum.judged,
            sum.reasons
        );
        assert!(sum.pairs >= 200);
        unknown.append(&mut sum.unknown);
    }
    unknown.truncate(60);
    assert!(unknown.is_empty(), "differences without a reason: {unknown:#?}");
}

/// Lines of a token in base64 and its number.
fn ranks(path: &str) -> Vec<Vec<u8>> {
    let digit = |c: u8| {
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|&d| d == c).unwrap() as u32
    };
    let bytes = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|&c| c != b'=').collect();
        let group = |group: &[u8]| {
            let word = group.iter().chain([b'A'; 3].iter()).take(4).fold(0, |word, &c| word << 6 | digit(c));
            word.to_be_bytes()[1..group.len()].to_vec()
        };
        digits.chunks(4).flat_map(group).collect()
    };
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| bytes(line.split(' ').next().unwrap())).collect()
}
