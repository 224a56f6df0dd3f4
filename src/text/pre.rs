//! What `tokenizer.ggml.pre` stands for: how text is cut before byte-level BPE sees it.
//!
//! GGUF names the pre-tokenizer and leaves its rules to the reader. The patterns are those of the models' own
//! tokenizer.json.

use tokenizers::normalizers::unicode::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use crate::error::{Error, Result};

const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const JAIS2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// GPT-4o's, with each digit by itself.
const YOUTU: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const KIMI: &str = r"\p{Han}+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const SEED: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
/// Digits in threes, from the right.
const THREES: &str = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))";
const WORDS: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
/// Letters that have a case, as DeepSeek's first tokenizer lists them.
const CASED: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";

/// A way to cut a text, applied to what those before it have left.
#[derive(Clone, Copy)]
enum Cut {
    /// GPT-2's pattern, which the byte-level pre-tokenizer brings along. The last of all.
    Gpt2,
    /// Each digit by itself.
    Digits,
    /// What a pattern matches, by itself.
    Pattern(&'static str),
}

use Cut::{Digits as DIGITS, Gpt2, Pattern};

/// A family of pre-tokenizers.
struct Family {
    names: &'static [&'static str],
    cuts: &'static [Cut],
    /// Text is brought to Unicode's composed form first.
    nfc: bool,
    /// A whole pre-token that is in the vocabulary is taken as it is, whatever the merges say.
    ignore_merges: bool,
    /// Whether texts begin with the beginning-of-text token where the file does not say.
    add_bos: bool,
    /// Whether they end with the separator where it does not.
    add_sep: bool,
}

impl Family {
    const PLAIN: Self =
        Self { names: &[], cuts: &[Gpt2], nfc: false, ignore_merges: false, add_bos: false, add_sep: false };
}

/// The names are llama.cpp's.
const FAMILIES: &[Family] = &[
    Family {
        names: &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "modern-bert",
            "exaone4",
        ],
        ..Family::PLAIN
    },
    Family { names: &["jina-v1-en", "jina-v2-code", "roberta-bpe"], add_sep: true, ..Family::PLAIN },
    // What llama.cpp does where a file names nothing that it knows.
    Family {
        names: &["default"],
        cuts: &[Pattern(r"[\p{P}\$\+<=>\^~\|]+"), Pattern(GPT2), Pattern(r"\p{N}+"), Pattern("[0-9][0-9][0-9]")],
        ..Family::PLAIN
    },
    Family {
        names: &[
            "smollm",
            "starcoder",
            "refact",
            "command-r",
            "cohere2_moe",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        cuts: &[DIGITS, Gpt2],
        ..Family::PLAIN
    },
    Family {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "laguna",
            "jina-v5-nano",
        ],
        cuts: &[Pattern(LLAMA3)],
        ignore_merges: true,
        add_bos: true,
        ..Family::PLAIN
    },
    Family { names: &["dbrx", "smaug-bpe", "glm4", "chatglm-bpe"], cuts: &[Pattern(LLAMA3)], ..Family::PLAIN },
    Family { names: &["jais-2"], cuts: &[Pattern(JAIS2)], ..Family::PLAIN },
    Family { names: &["qwen2", "deepseek-r1-qwen", "f2llmv2"], cuts: &[Pattern(QWEN2)], nfc: true, ..Family::PLAIN },
    Family {
        names: &["stablelm2", "kormo", "openpangu", "megrez", "hunyuan", "solar-open", "grok-2"],
        cuts: &[Pattern(QWEN2)],
        ..Family::PLAIN
    },
    Family { names: &["qwen35"], cuts: &[Pattern(QWEN35)], nfc: true, ..Family::PLAIN },
    Family { names: &["tekken"], cuts: &[Pattern(TEKKEN)], ignore_merges: true, add_bos: true, ..Family::PLAIN },
    Family { names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"], cuts: &[Pattern(GPT4O)], ..Family::PLAIN },
    Family { names: &["tiny_aya"], cuts: &[Pattern(THREES), Pattern(GPT4O)], ..Family::PLAIN },
    Family {
        names: &["deepseek-llm"],
        cuts: &[
            Pattern(r"[\r\n]"),
            Pattern(CASED),
            Pattern(r"\s?[!-/:-~！-／：-～‘-‟　-。]+"),
            Pattern(r"\s+$"),
            Pattern(r"[一-龥ࠀ-一가-퟿]+"),
            Pattern(r"\p{N}+"),
        ],
        ..Family::PLAIN
    },
    Family {
        names: &["deepseek-coder"],
        cuts: &[
            Pattern(r"[\r\n]"),
            Pattern(r"\s?\p{L}+"),
            Pattern(r"\s?\p{P}+"),
            Pattern(r"[一-龥ࠀ-一가-퟿]+"),
            Pattern(r"\p{N}"),
        ],
        ..Family::PLAIN
    },
    Family {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        cuts: &[Pattern(r"\p{N}{1,3}"), Pattern(r"[一-龥぀-ゟ゠-ヿ]+"), Pattern(DEEPSEEK3)],
        ..Family::PLAIN
    },
    Family {
        names: &["youtu"],
        cuts: &[Pattern(r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+"), Pattern(YOUTU)],
        ignore_merges: true,
        ..Family::PLAIN
    },
    Family {
        names: &["falcon"],
        cuts: &[Pattern(r"[\p{P}\$\+<=>\^~\|`]+"), Pattern(GPT2), Pattern("[0-9][0-9][0-9]")],
        ..Family::PLAIN
    },
    Family { names: &["poro-chat", "bloom", "gpt3-finnish"], cuts: &[Pattern(WORDS)], ..Family::PLAIN },
    Family { names: &["viking"], cuts: &[Pattern(WORDS), Pattern(r"\p{N}")], ..Family::PLAIN },
    Family {
        names: &["chameleon"],
        cuts: &[
            Pattern("<sentinel:[0-9]+>"),
            Pattern("IMGIMG[A-I]{1,4}Z"),
            Pattern(r"[\t\n]|    |  "),
            Pattern(r"\p{N}"),
            Pattern(r"[\p{P}!-/:-@\[-`{-~]"),
            Pattern(GPT2),
        ],
        add_bos: true,
        ..Family::PLAIN
    },
    Family { names: &["kimi-k2"], cuts: &[Pattern(KIMI)], ..Family::PLAIN },
    Family { names: &["superbpe"], cuts: &[Pattern(THREES)], ..Family::PLAIN },
    Family { names: &["bailingmoe", "bailingmoe2", "llada-moe"], cuts: &[Pattern(BAILING)], ..Family::PLAIN },
    Family { names: &["seed-coder"], cuts: &[Pattern(SEED)], ..Family::PLAIN },
    Family { names: &["exaone-moe"], cuts: &[Pattern(EXAONE_MOE)], ..Family::PLAIN },
    Family {
        names: &["afmoe"],
        cuts: &[
            Pattern(THREES),
            Pattern(r"[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"),
            Pattern(DEEPSEEK3),
        ],
        ..Family::PLAIN
    },
];

/// The rules behind a name.
pub(super) struct Pre {
    pub normalizer: Option<NFC>,
    pub pre_tokenizer: PreTokenizerWrapper,
    pub ignore_merges: bool,
    pub add_bos: bool,
    pub add_sep: bool,
}

/// The rules of `name`, the value of `tokenizer.ggml.pre`. `UNSUPPORTED_MODEL` says what to do.
pub(super) fn pre(name: &str) -> Result<Pre> {
    let family = FAMILIES.iter().find(|f| f.names.contains(&name)).ok_or_else(|| {
        Error::unsupported(format!(
            "metadata key 'tokenizer.ggml.pre' is '{name}', which this version does not know (it knows llama.cpp's, as of August 2026): give the model's \
             tokenizer.json with it, which says how texts are cut (option `tokenizer`, --tokenizer FILE, or a file of that name beside the .gguf)"
        ))
    })?;
    let bytes = |use_regex| PreTokenizerWrapper::from(ByteLevel::new(false, true, use_regex));
    let mut steps = Vec::with_capacity(family.cuts.len() + 1);
    for cut in family.cuts {
        steps.push(match cut {
            Gpt2 => bytes(true),
            DIGITS => Digits::new(true).into(),
            Pattern(pattern) => {
                Split::new(SplitPattern::Regex((*pattern).to_owned()), SplitDelimiterBehavior::Isolated, false)
                    .map_err(|e| Error::internal(format!("the pattern of pre-tokenizer '{name}': {e}")))?
                    .into()
            }
        });
    }
    if !matches!(family.cuts.last(), Some(Gpt2)) {
        steps.push(bytes(false));
    }
    let pre_tokenizer = Sequence::new(steps).into();
    let Family { nfc, ignore_merges, add_bos, add_sep, .. } = *family;
    Ok(Pre { normalizer: nfc.then_some(NFC), pre_tokenizer, ignore_merges, add_bos, add_sep })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regular expression that gives up on long runs would leave the rest of the text uncut, silently.
    #[test]
    fn long_runs_are_still_cut() {
        use tokenizers::tokenizer::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
        // The tokens of these go across words.
        for family in FAMILIES.iter().filter(|f| f.names != ["superbpe"] && f.names != ["exaone-moe"]) {
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
        assert!(error.message().contains("klingon") && error.message().contains("tokenizer.json"), "{error}");
    }
}
