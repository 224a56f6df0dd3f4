//! What `tokenizer.ggml.pre` stands for: how text is cut before byte-level BPE sees it.
//!
//! GGUF names the pre-tokenizer and leaves its rules to the reader. The patterns are those of the models' own tokenizer.json.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use crate::error::{Error, Result};

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// How the text is cut.
#[derive(Clone, Copy)]
enum Cut {
    /// GPT-2's pattern, which the byte-level pre-tokenizer brings along.
    Gpt2,
    /// GPT-2's pattern after each digit has been set apart.
    Digits,
    /// A pattern of the model's own.
    Pattern(&'static str),
}

/// A family of pre-tokenizers.
struct Family {
    names: &'static [&'static str],
    cut: Cut,
    /// Text is brought to Unicode's composed form first.
    nfc: bool,
    /// A whole pre-token that is in the vocabulary is taken as it is, whatever the merges say.
    ignore_merges: bool,
    /// Whether texts begin with the beginning-of-text token where the file does not say.
    add_bos: bool,
}

const FAMILIES: &[Family] = &[
    Family {
        names: &["default", "gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling"],
        cut: Cut::Gpt2,
        nfc: false,
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        cut: Cut::Digits,
        nfc: false,
        ignore_merges: false,
        add_bos: false,
    },
    Family {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        cut: Cut::Pattern(LLAMA3),
        nfc: false,
        ignore_merges: true,
        add_bos: true,
    },
    Family { names: &["dbrx", "smaug-bpe"], cut: Cut::Pattern(LLAMA3), nfc: false, ignore_merges: false, add_bos: false },
    Family { names: &["qwen2", "deepseek-r1-qwen"], cut: Cut::Pattern(QWEN2), nfc: true, ignore_merges: false, add_bos: false },
    Family { names: &["stablelm2"], cut: Cut::Pattern(QWEN2), nfc: false, ignore_merges: false, add_bos: false },
    Family { names: &["tekken"], cut: Cut::Pattern(TEKKEN), nfc: false, ignore_merges: true, add_bos: true },
    Family { names: &["gpt-4o", "llama4"], cut: Cut::Pattern(GPT4O), nfc: false, ignore_merges: false, add_bos: false },
];

/// The rules behind a name.
pub(super) struct Pre {
    pub normalizer: Option<NFC>,
    pub pre_tokenizer: PreTokenizerWrapper,
    pub ignore_merges: bool,
    pub add_bos: bool,
}

/// The rules of `name`, the value of `tokenizer.ggml.pre`. `UNSUPPORTED_MODEL` lists the names that are known.
pub(super) fn pre(name: &str) -> Result<Pre> {
    let family = FAMILIES.iter().find(|f| f.names.contains(&name)).ok_or_else(|| {
        let known = FAMILIES.iter().flat_map(|f| f.names).copied().collect::<Vec<_>>().join(", ");
        Error::unsupported(format!("metadata key 'tokenizer.ggml.pre' is '{name}'; known are: {known}"))
    })?;
    let bytes = |use_regex| PreTokenizerWrapper::from(ByteLevel::new(false, true, use_regex));
    let pre_tokenizer = match family.cut {
        Cut::Gpt2 => bytes(true),
        Cut::Digits => Sequence::new(vec![Digits::new(true).into(), bytes(true)]).into(),
        Cut::Pattern(pattern) => {
            let split = Split::new(SplitPattern::Regex(pattern.to_owned()), SplitDelimiterBehavior::Isolated, false)
                .map_err(|e| Error::internal(format!("the pattern of pre-tokenizer '{name}': {e}")))?;
            Sequence::new(vec![split.into(), bytes(false)]).into()
        }
    };
    Ok(Pre { normalizer: family.nfc.then_some(NFC), pre_tokenizer, ignore_merges: family.ignore_merges, add_bos: family.add_bos })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regular expression that gives up on long runs would leave the rest of the text uncut, silently.
    #[test]
    fn long_runs_are_still_cut() {
        use tokenizers::tokenizer::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
        for family in FAMILIES {
            for run in [" ", "\n", " \n", "\t", "a", "1", "!", "é", "'"] {
                let rules = pre(family.names[0]).expect("the name is known");
                let mut text = PreTokenizedString::from(format!("{} end of text", run.repeat(20_000 / run.len())));
                rules.pre_tokenizer.pre_tokenize(&mut text).expect("any text can be cut");
                let pieces = text.get_splits(OffsetReferential::Original, OffsetType::Byte);
                let last = pieces.last().map(|(piece, _, _)| *piece);
                assert_eq!(last, Some("Ġtext"), "{}: {run:?}", family.names[0]);
            }
        }
    }

    #[test]
    fn every_name_builds_and_stands_once() {
        let mut seen = std::collections::HashSet::new();
        for name in FAMILIES.iter().flat_map(|f| f.names) {
            assert!(seen.insert(name), "{name} stands twice");
            assert!(pre(name).is_ok(), "{name}");
        }
        let error = pre("klingon").err().expect("an unknown name is an error");
        assert_eq!(error.code(), "UNSUPPORTED_MODEL");
        assert!(error.message().contains("klingon") && error.message().contains("llama-bpe"), "{error}");
    }
}
