//! A cache of words' tokens, for tokenizers that cut texts at white space before all else: texts that are embedded by
//! the thousand are mostly words that were read before.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use crate::error::Result;

/// Most words in the cache: as many as take some MB. A full cache is emptied.
const MOST_WORDS: usize = 1 << 15;
/// Longer words, in bytes, are not kept.
const LONGEST: usize = 48;
/// White space that texts are cut at; other white space stays within what is cut by the library.
const SPACE: [char; 4] = [' ', '\n', '\t', '\r'];

/// The tokens of words.
#[derive(Default)]
struct Cache {
    /// Each word's tokens, as a range of `ids`.
    words: HashMap<Box<str>, Range<u32>>,
    ids: Vec<u32>,
}

/// Encodes texts word by word, as the library encodes them whole.
pub(super) struct Words {
    cache: RefCell<Cache>,
    /// Ids that the post-processor puts around a text.
    around: [Vec<u32>; 2],
}

impl Words {
    /// The cache of a tokenizer; `None` for one that can see more than a word at a time. BERT's normalizer changes
    /// characters one by one (combining marks with what precedes them), and its pre-tokenizer cuts at white space.
    pub fn of(inner: &Tokenizer) -> Option<Self> {
        let by_words = matches!(inner.get_normalizer(), Some(NormalizerWrapper::BertNormalizer(_)))
            && matches!(inner.get_pre_tokenizer(), Some(PreTokenizerWrapper::BertPreTokenizer(_)));
        let mut added = inner.get_added_tokens_decoder().into_values();
        if !by_words || added.any(|token| token.content.is_empty() || token.content.contains(char::is_whitespace)) {
            return None;
        }
        const SAMPLE: &str = "a";
        let ids = |special| Some(inner.encode_fast(SAMPLE, special).ok()?.get_ids().to_vec());
        let (alone, whole) = (ids(false)?, ids(true)?);
        let at = whole.windows(alone.len().max(1)).position(|ids| ids == alone)?;
        let around = [whole[..at].to_vec(), whole[at + alone.len()..].to_vec()];
        Some(Self { cache: RefCell::default(), around })
    }

    /// Token ids of a text, with those around it where `special`. `tokens` encodes a word.
    pub fn encode(&self, text: &str, special: bool, tokens: impl Fn(&str) -> Result<Vec<u32>>) -> Result<Vec<u32>> {
        let mut cache = self.cache.borrow_mut();
        let mut ids = Vec::with_capacity(text.len() / 4 + 2);
        let [before, behind] = &self.around;
        if special {
            ids.extend(before);
        }
        for word in text.split(SPACE).filter(|word| !word.is_empty()) {
            if let Some(known) = cache.words.get(word) {
                ids.extend(&cache.ids[known.start as usize..known.end as usize]);
                continue;
            }
            let made = tokens(word)?;
            ids.extend(&made);
            if word.len() > LONGEST {
                continue;
            }
            if cache.words.len() >= MOST_WORDS {
                *cache = Cache::default();
            }
            let start = cache.ids.len() as u32;
            cache.ids.extend(made);
            let end = cache.ids.len() as u32;
            cache.words.insert(word.into(), start..end);
        }
        if special {
            ids.extend(behind);
        }
        Ok(ids)
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use tokenizers::AddedToken;

    use super::*;

    fn tokenizer(kind: &str) -> Tokenizer {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizer").join(kind);
        Tokenizer::from_file(folder.join("tokenizer.json")).expect("a tokenizer")
    }

    /// Texts of these at random: white space of all kinds, marks that combine, characters that are changed, dropped or
    /// stand alone, and added tokens, which may take white space with them or want to stand alone.
    const PARTS: [&str; 32] = [
        " ", " ", " ", "  ", "\n", "\t", "\r\n", "\u{a0}", "\u{2028}", "\u{3000}", "a", "B", "the", "Word", "ing", "é",
        "e\u{301}", "\u{301}", "İ", "ß", "ΣΑΣ", "東京", "한국", "-", "...", "'s", "\0", "\u{fffd}", "\u{200d}",
        "[MASK]", "[LEFT]", "alone",
    ];

    #[test]
    fn texts_are_encoded_as_the_library_encodes_them_whole() {
        let mut inner = tokenizer("word-piece");
        let alone = AddedToken::from("alone", false).single_word(true).normalized(true);
        inner.add_tokens([AddedToken::from("[LEFT]", false).lstrip(true).rstrip(true), alone]).expect("tokens");
        let words = Words::of(&inner).expect("BERT's tokenizer is cut at white space");
        let whole = |text: &str, special| inner.encode_fast(text, special).expect("ids").get_ids().to_vec();
        let mut seed = 1u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..4000 {
            let text: String = (0..next(24)).map(|_| PARTS[next(PARTS.len())]).collect();
            for special in [false, true] {
                let ids = words.encode(&text, special, |word| Ok(whole(word, false))).expect("ids");
                assert_eq!(ids, whole(&text, special), "{text:?}");
            }
        }
        assert!(words.cache.borrow().words.len() > 1000);
    }

    #[test]
    fn a_full_cache_is_emptied_and_long_words_are_not_kept() {
        let inner = tokenizer("word-piece");
        let words = Words::of(&inner).expect("BERT's tokenizer");
        let long = "a".repeat(LONGEST + 1);
        let text: String = (0..=MOST_WORDS).map(|n| format!("{n} ")).chain([long]).collect();
        let ids = words.encode(&text, false, |word| Ok(vec![word.len() as u32])).expect("ids");
        assert_eq!((ids.len(), ids.last()), (MOST_WORDS + 2, Some(&(LONGEST as u32 + 1))));
        assert_eq!(words.cache.borrow().words.len(), 1);
    }

    #[test]
    fn what_can_see_more_than_a_word_is_not_cut() {
        assert!(Words::of(&tokenizer("gpt2")).is_none() && Words::of(&tokenizer("unigram")).is_none());
        let mut inner = tokenizer("word-piece");
        inner.add_tokens([AddedToken::from("two words", false)]).expect("a token");
        assert!(Words::of(&inner).is_none());
    }
}
