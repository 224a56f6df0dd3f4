//! Classes of `\p`: the properties that ECMA-262 lists, by their names there, from ICU4X's tables.

use icu_properties::props::{self, BinaryProperty, GeneralCategory, GeneralCategoryGroup, Script};
use icu_properties::{CodePointMapData, CodePointSetData, CodePointSetDataBorrowed, PropertyParser};

use crate::chars::{CharSet, MAX_CHAR};

/// The code points of `\p{name}`, or `None` where ECMA-262 has no such property. Script extensions and properties of
/// strings are not carried along.
pub(super) fn property(name: &str) -> Option<CharSet> {
    match name.split_once('=') {
        Some(("General_Category" | "gc", value)) => category(value),
        Some(("Script" | "sc", value)) => {
            let script = PropertyParser::<Script>::new().get_strict(value)?;
            Some(set(CodePointMapData::<Script>::new().iter_ranges_for_value(script)))
        }
        Some(_) => None,
        None => match name {
            "Any" => Some(CharSet::any()),
            "ASCII" => Some(CharSet::new(vec![(0, 0x7f)])),
            "Assigned" => category("Cn").map(|unassigned| unassigned.negated()),
            "space" => binary("White_Space"),
            _ => binary(name).or_else(|| category(name)),
        },
    }
}

/// The code points of a general category, or of a group of them.
fn category(name: &str) -> Option<CharSet> {
    let group = PropertyParser::<GeneralCategoryGroup>::new().get_strict(name)?;
    Some(set(CodePointMapData::<GeneralCategory>::new().iter_ranges_for_group(group)))
}

fn set(ranges: impl Iterator<Item = std::ops::RangeInclusive<u32>>) -> CharSet {
    CharSet::new(ranges.map(|range| (*range.start(), (*range.end()).min(MAX_CHAR))).collect())
}

/// The code points that have a property of two values.
fn binary(name: &str) -> Option<CharSet> {
    fn data<P: BinaryProperty>(name: &str) -> Option<CodePointSetDataBorrowed<'static>> {
        [P::NAME, P::SHORT_NAME].contains(&name.as_bytes()).then(CodePointSetData::new::<P>)
    }
    macro_rules! first {
        ($($property:ident)*) => { None$(.or_else(|| data::<props::$property>(name)))* };
    }
    let found = first!(
        AsciiHexDigit Alphabetic BidiControl BidiMirrored CaseIgnorable Cased ChangesWhenCasefolded ChangesWhenCasemapped
        ChangesWhenLowercased ChangesWhenNfkcCasefolded ChangesWhenTitlecased ChangesWhenUppercased Dash
        DefaultIgnorableCodePoint Deprecated Diacritic Emoji EmojiComponent EmojiModifier EmojiModifierBase
        EmojiPresentation ExtendedPictographic Extender GraphemeBase GraphemeExtend HexDigit IdsBinaryOperator
        IdsTrinaryOperator IdContinue IdStart Ideographic JoinControl LogicalOrderException Lowercase Math
        NoncharacterCodePoint PatternSyntax PatternWhiteSpace QuotationMark Radical RegionalIndicator SentenceTerminal
        SoftDotted TerminalPunctuation UnifiedIdeograph Uppercase VariationSelector WhiteSpace XidContinue XidStart
    );
    found.map(|data| set(data.iter_ranges()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(name: &str, c: char) -> bool {
        let set = property(name).unwrap_or_else(|| panic!("{name} is unknown"));
        set.0.iter().any(|&(lo, hi)| (lo..=hi).contains(&(c as u32)))
    }

    #[test]
    fn properties_are_those_of_unicode() {
        for (name, inside, outside) in [
            ("L", "aZéßЖ中あ\u{1d400}", "1 _-\u{301}\u{1f600}"),
            ("Letter", "aé", "1"),
            ("gc=Lu", "AÉЖ", "aé1ǅ"),
            ("General_Category=Uppercase_Letter", "A", "a"),
            ("LC", "aAǅ", "中1"),
            ("Ll", "aßé", "Aª中"),
            ("N", "1٣½Ⅷ", "a"),
            ("Nd", "1٣", "½Ⅷ"),
            ("M", "\u{301}\u{20e3}", "a"),
            ("P", "!-«。", "a+$"),
            ("S", "+$€\u{1f600}", "a!"),
            ("Sc", "$€₹", "+"),
            ("Z", " \u{a0}\u{2028}", "\t\n"),
            ("Zs", " \u{3000}", "\u{2028}"),
            ("C", "\0\u{ad}\u{378}", "a"),
            ("Cn", "\u{378}", "a"),
            ("Assigned", "a\u{ad}", "\u{378}"),
            ("Alphabetic", "aª中Ⅷ", "1-"),
            ("Alpha", "é", "1"),
            ("Lowercase", "aª", "A"),
            ("Upper", "AⅧ", "a"),
            ("White_Space", " \t\u{85}", "\u{feff}a"),
            ("space", "\t", "a"),
            ("Emoji", "1#\u{1f600}", "a"),
            ("Emoji_Presentation", "\u{1f600}", "1"),
            ("ID_Start", "aЖ", "1_"),
            ("Script=Latin", "aé", "Жα1"),
            ("sc=Grek", "αΩ", "a"),
            ("Script=Cyrillic", "Ж", "a"),
            ("sc=Han", "中", "あ"),
            ("ASCII", "a\u{7f}", "é"),
            ("Any", "a\u{10ffff}", ""),
        ] {
            assert!(inside.chars().all(|c| holds(name, c)), "{name}: {inside:?}");
            assert!(!outside.chars().any(|c| holds(name, c)), "{name}: {outside:?}");
        }
    }

    #[test]
    fn what_ecma_262_does_not_name_is_unknown() {
        for name in [
            "",
            "l",
            "letter",
            "Latin",
            "IsLatin",
            "alnum",
            "gc=",
            "gc=Latin",
            "sc=L",
            "Script_Extensions=Latin",
            "Block=Latin",
            "LL",
        ] {
            assert!(property(name).is_none(), "{name}");
        }
    }
}
