//! What formats ask: those with a grammar are enforced, others are warnings.

use millrace_grammar::{ErrorKind, Grammar, Options, compile};
use serde_json::{Value, json};

use crate::support::{accepts, made, of};

/// Whether a schema has each text, and the keywords of its warnings.
fn judged(schema: &Value, yes: &[&str], no: &[&str]) -> Vec<String> {
    let (automaton, report) = compile(&Grammar::json_schema_value(schema.clone()), &Options::default())
        .unwrap_or_else(|e| panic!("{schema}: {e}"));
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            assert_eq!(accepts(&automaton, text.as_bytes()), expected, "{schema} and {text}");
        }
    }
    report.warnings.into_iter().map(|w| w.keyword).collect()
}

/// A format of strings, with texts that have it and texts that have not.
fn strings(format: &str, yes: &[&str], no: &[&str]) {
    let quoted = |list: &[&str]| list.iter().map(|text| json!(text).to_string()).collect::<Vec<_>>();
    let (yes, no) = (quoted(yes), quoted(no));
    let (yes, no): (Vec<&str>, Vec<&str>) =
        (yes.iter().map(String::as_str).collect(), no.iter().map(String::as_str).collect());
    judged(&json!({ "type": "string", "format": format }), &yes, &no);
    // The order of keys changes nothing.
    judged(&json!({ "format": format, "type": "string" }), &yes, &no);
}

#[test]
fn formats_of_strings() {
    strings("path", &["/etc/hosts", "a b.txt", "C:\\x"], &["", "a\0b"]);
    strings(
        "url",
        &["https://a.b/c?d=e#f", "ftp://u:p@h:21/", "http://[::1]/"],
        &["a.b/c", "https:///x", "mailto:a@b.c", "http://a b/"],
    );
    for name in ["byte", "base64"] {
        strings(name, &["", "aGk=", "aGVsbG8h", "YQ=="], &["aGk", "a", "=", "aGk=aGk=", "aG-_"]);
    }
    strings("base64url", &["", "aGk", "aGk=", "-_-_"], &["a", "aG+/"]);
    strings(
        "semver",
        &["1.0.0", "0.10.3-rc.1+build.7", "1.2.3-0a"],
        &["1.0", "01.0.0", "1.0.0-01", "v1.0.0", "1.0.0-"],
    );
    strings("iri", &["https://exämple.org/ü?q=é#ß", "a:b"], &["é", "//ä", "http://a b", "http://<ü>/"]);
    strings("iri-reference", &["/ü/é", "#ß", "", "//ä/b", "ä/b"], &["\\ü", "a b", ":ü"]);
    strings("cidr", &["10.0.0.0/8", "::/0", "fe80::1/64"], &["10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/08"]);
    strings("cidrv4", &["10.0.0.0/8"], &["::/0"]);
    strings("cidrv6", &["::/128"], &["10.0.0.0/8"]);
    strings("ip", &["10.0.0.1", "::1"], &["10.0.0", "x"]);
    strings(
        "uuid4",
        &["6fa459ea-ee8a-4ca4-894e-db77e160355e"],
        &["6fa459ea-ee8a-3ca4-894e-db77e160355e", "6fa459ea-ee8a-4ca4-194e-db77e160355e"],
    );
    strings("idn-email", &["실례@실례.테스트", "a@b"], &["a", "@b", "a b@c"]);
    strings("idn-hostname", &["실례.테스트", "a-b.c"], &["", "-a", "a..b", "a b"]);
    strings(
        "date",
        &["2000-02-29", "2024-02-29", "1900-02-28"],
        &["1900-02-29", "2023-02-29", "2024-02-30", "2024-13-01", "2024-04-31", "2024-1-1"],
    );
    strings("partial-date-time", &["2024-02-29T12:00:00"], &["2023-02-29T12:00:00", "2024-02-29T12:00:00Z"]);
    strings("mac", &["00:1A:2b:3c:4d:5e"], &["00:1A:2b:3c:4d", "00:1A-2b:3c:4d:5e"]);
}

#[test]
fn the_format_regex_is_a_regular_expression() {
    strings(
        "regex",
        &[
            "",
            "a",
            "^a+$",
            "[a-z0-9]{2,}",
            "(a|b)*?",
            "\\d+\\.\\d{1,3}",
            "((a)(?:b))c",
            "[^\\]x-]",
            "a||b",
            "[-a]",
            "\\u00e9\\/",
            "x{0,3}y??",
        ],
        &["(", ")", "[", "a)", "*a", "a**", "[z-a]", "a{3,2}", "\\", "(?<n", "(a", "a{", "[a", "|*", "((a)", "\\p"],
    );
}

#[test]
fn a_jwt_has_a_header_that_can_be_read() {
    let (head, claims) = ("eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9", "eyJzdWIiOiIxMjM0In0");
    strings(
        "jwt",
        &[&format!("{head}.{claims}.c2ln_-AA")],
        &[
            head,
            &format!("{head}.{claims}"),
            &format!("{head}.{claims}."),
            "a.b.c",
            &format!("{claims}.{claims}.c2ln"),
            &format!("{head}.{claims}.c2ln.c2ln"),
        ],
    );
}

#[test]
fn formats_of_numbers_bound_them() {
    let integers: &[(&str, &[&str], &[&str])] = &[
        ("uint8", &["0", "255"], &["256", "-1", "1.5"]),
        ("int8", &["-128", "127"], &["-129", "128"]),
        ("uint16", &["65535"], &["65536"]),
        ("int32", &["-2147483648", "2147483647"], &["2147483648"]),
        ("uint", &["0", "18446744073709551615"], &["-1", "18446744073709551616"]),
        ("int64", &["-9223372036854775808"], &["-9223372036854775809"]),
    ];
    for (format, yes, no) in integers {
        for schema in [json!({ "format": format, "type": "integer" }), json!({ "type": "number", "format": format })] {
            let warnings = judged(&schema, yes, no);
            assert!(warnings.is_empty(), "{schema}: {warnings:?}");
        }
    }
    assert!(judged(&json!({ "format": "float32", "type": "number" }), &["1.5", "-2e3"], &["\"1\""]).is_empty());
}

#[test]
fn no_format_is_refused_and_none_is_ignored_in_silence() {
    for format in ["json", "markdown", "moon", "password", "quantity", "int-or-string"] {
        let schema = json!({ "format": format, "type": "string" });
        assert_eq!(judged(&schema, &["\"\"", "\"{}\""], &["1", "{}"]), ["format"], "{format}");
    }
    for schema in [
        json!({ "type": "integer", "format": "date" }),
        json!({ "type": "string", "format": "int64" }),
        json!({ "format": "moon", "type": "object" }),
    ] {
        assert_eq!(judged(&schema, &[], &["null"]), ["format"], "{schema}");
    }
    assert!(judged(&json!({ "format": "date" }), &["1", "\"2024-01-01\""], &["\"x\""]).is_empty());
}

/// As `schemars` writes them, and the other way round.
#[test]
fn a_format_may_stand_before_its_type() {
    let deep = json!({
        "additionalProperties": false,
        "properties": {
            "depth": { "default": 1, "description": "how deep", "format": "uint", "minimum": 0, "type": "integer" },
            "ratio": { "format": "float32", "type": "number" },
        },
        "required": ["depth"],
        "type": "object",
    });
    let no = ["{\"depth\":-1}", "{\"depth\":1.5}"];
    assert!(judged(&deep, &["{\"depth\":3}", "{\"depth\": 0, \"ratio\": 1.5}"], &no).is_empty());
    assert!(judged(&json!({ "enum": [1, 2], "format": "uint16" }), &["1"], &["3"]).is_empty());
    assert!(judged(&json!({ "format": "uint8", "enum": [1, 300] }), &["1"], &["300"]).is_empty());
}

/// What `z.toJSONSchema` of zod 4 makes of `z.iso.duration()`, `z.emoji()`, `z.iban()` and `z.jwt()`.
#[test]
fn patterns_of_zod() {
    let duration = r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$";
    let schema = json!({ "type": "string", "format": "duration", "pattern": duration });
    assert!(
        judged(
            &schema,
            &["\"P3W\"", "\"P1Y2M3DT4H5M6S\"", "\"PT5M\""],
            &["\"P\"", "\"PT\"", "\"P1YT\"", "\"P1Y3W\"", "\"1Y\""]
        )
        .is_empty()
    );
    judged(&json!({ "pattern": duration }), &["\"PT1.5S\"", "\"P1Y1D\""], &["\"PT\"", "\"P1W1D\"", "\"\""]);
    let emoji = r"^(?=[\s\S]*[\p{Extended_Pictographic}\p{Regional_Indicator}\u20E3])[\p{Extended_Pictographic}\p{Emoji_Component}]+$";
    judged(
        &json!({ "type": "string", "format": "emoji", "pattern": emoji }),
        &["\"😀\"", "\"🇩🇪\"", "\"1️⃣\"", "\"👩‍🚀\""],
        &["\"1\"", "\"a\"", "\"\"", "\"😀a\""],
    );
    let iban = r"^[A-Z]{2}(?!00|01|99)\d{2}[A-Z0-9]{11,30}$";
    judged(&json!({ "pattern": iban }), &["\"DE89370400440532013000\""], &["\"DE00370400440532013000\"", "\"DE8937\""]);
    assert_eq!(judged(&json!({ "type": "string", "format": "jwt" }), &[], &["\"a.b.c\""]), ["format"]);
}

#[test]
fn lookahead_stands_anywhere() {
    judged(&json!({ "pattern": "a(?=b)[a-z]" }), &["\"xaby\""], &["\"ac\"", "\"a\""]);
    judged(&json!({ "pattern": "^a(?!b)[a-z](?!$)" }), &["\"acd\""], &["\"abc\"", "\"ac\""]);
    judged(&json!({ "pattern": "^(x(?=y)|z)?.{2}$" }), &["\"ab\"", "\"xyb\"", "\"zab\""], &["\"xab\"", "\"xy\u{a}\""]);
    judged(&json!({ "pattern": "^(?:a(?!aa)|b){2}$" }), &["\"ab\"", "\"ba\"", "\"bb\""], &["\"b\"", "\"abb\""]);
}

#[test]
fn properties_of_unicode() {
    for (pattern, yes, no) in [
        ("^\\p{Zs}$", " \u{a0}\u{1680}\u{2000}\u{200a}\u{202f}\u{205f}\u{3000}", "a\u{2028}\u{2029}\u{200b}\u{feff}"),
        ("^[\\p{Z}]$", " \u{a0}\u{2005}\u{2028}\u{2029}\u{3000}", "a\u{85}\u{200b}\u{feff}"),
        ("^\\P{Separator}$", "a\u{9}\u{a}\u{200b}", " \u{2028}"),
        ("^\\p{L}$", "aZé\u{130}中あ\u{1d400}\u{10400}", "1 _-\u{301}\u{1f600}"),
        ("^\\pL$", "aép中", "1"),
        ("^[^\\p{L}\\p{N}]$", " -\u{301}\u{1f600}", "a1é٣"),
        ("^\\p{Uppercase_Letter}$", "AÉЖ", "aéǅ"),
        ("^[\\p{gc=Nd}.]$", "1٣.", "½a"),
        ("^\\p{Alphabetic}$", "aéⅧ", "1"),
        ("^\\p{Script=Cyrillic}$", "Жя", "aα"),
        ("^\\P{sc=Han}$", "aあ", "中"),
    ] {
        // Some are written with an escape.
        let text = |c: char| json!(c.to_string()).to_string();
        let (yes, no): (Vec<String>, Vec<String>) = (yes.chars().map(text).collect(), no.chars().map(text).collect());
        judged(
            &json!({ "type": "string", "pattern": pattern }),
            &yes.iter().map(String::as_str).collect::<Vec<_>>(),
            &no.iter().map(String::as_str).collect::<Vec<_>>(),
        );
    }
}

#[test]
fn names_in_any_script_fit_into_a_grammar() {
    for (pattern, yes, no) in [
        ("^\\p{L}+$", "Åse", "R2"),
        ("^[\\p{L}\\p{M}' .-]{1,50}$", "Nguyễn O'Neil-Œ", "a_b"),
        ("^\\p{Lu}\\p{Ll}*( \\p{Lu}\\p{Ll}*)*$", "Åse Ødegård", "Åse ødegård"),
        ("^[\\p{L}\\p{N}_]([\\p{L}\\p{N}_.-]{0,14}[\\p{L}\\p{N}])?$", "用户_1", "用户-"),
        ("^\\P{C}*$", "a b", "a\u{ad}"),
        ("^[^\\p{P}\\p{S}]{2,30}$", "née", "a$"),
    ] {
        let grammar =
            of(&json!({ "type": "object", "properties": { "name": { "type": "string", "pattern": pattern } } }));
        let named = |name: &str| accepts(&grammar, json!({ "name": name }).to_string().as_bytes());
        assert!(named(yes) && !named(no), "{pattern}");
    }
}

#[test]
fn characters_of_a_class_are_counted() {
    let letters =
        |n: usize| "aé中😀".chars().cycle().take(n).map(|c| if c == '😀' { 'Ж' } else { c }).collect::<String>();
    let quoted = |n: usize| "\"\\é\n".chars().cycle().take(n).collect::<String>();
    for (schema, text, bounds) in [
        (json!({ "pattern": "^\\p{L}{2,1000}$" }), &letters as &dyn Fn(usize) -> String, (2, Some(1000))),
        (json!({ "pattern": "^\\p{L}+$", "maxLength": 300 }), &letters, (1, Some(300))),
        (json!({ "pattern": "^\\p{L}+$", "minLength": 3 }), &letters, (3, None)),
        (json!({ "pattern": "^[\"\\\\\\p{L}\\x00-\\x1f]{4,90}$" }), &quoted, (4, Some(90))),
        (json!({ "pattern": "^[\"\\\\\\p{L}\\x00-\\x1f]{7}$" }), &quoted, (7, Some(7))),
        (json!({ "pattern": "^[a-zA-Zé中Ж0-9_-]{1,128}$" }), &letters, (1, Some(128))),
    ] {
        let (grammar, report) = made(&Grammar::json_schema_value(schema.clone())).unwrap();
        let taken = |n: usize| accepts(&grammar, serde_json::to_string(&text(n)).unwrap().as_bytes());
        // What has a counter needs no state for a number of characters.
        assert!(report.states < 900 && report.bytes < 1 << 20, "{schema}: {} {}", report.states, report.bytes);
        let (least, most) = bounds;
        assert!(taken(least) && !taken(least - 1), "{schema}");
        assert!(most.map_or_else(|| taken(2000), |most| taken(most) && !taken(most + 1)), "{schema}");
        assert!(!accepts(&grammar, json!(format!("{}+", text(least))).to_string().as_bytes()), "{schema}");
    }
    // Of alternatives that are counted differently, beside others.
    let either = of(
        &json!({ "type": ["string", "null"], "anyOf": [{ "pattern": "^\\p{Lu}{2,5}$" }, { "pattern": "^\\p{L}{4,9}$" },
        { "enum": ["", "x-1", null] }, { "pattern": "^[0-9]*$", "type": "string" }] }),
    );
    for (text, right) in
        [("ÅB", true), ("Åb", false), ("ÅBCDEF", true), ("åbc", false), ("åbcdefghi", true), ("åbcdefghij", false)]
            .into_iter()
            .chain([("", true), ("x-1", true), ("1234567890", true), ("ÅB1", false)])
    {
        assert_eq!(accepts(&either, json!(text).to_string().as_bytes()), right, "{text}");
    }
}

/// Every text of up to five of these characters.
fn short_texts(alphabet: &[char]) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = 0;
    while all[last].chars().count() < 5 {
        all.extend(alphabet.iter().map(|c| format!("{}{c}", all[last])).collect::<Vec<_>>());
        last += 1;
    }
    all
}

#[test]
fn word_boundaries() {
    let texts = short_texts(&['a', '_', '-', ' ']);
    for pattern in [
        "\\b",
        "\\B",
        "\\ba",
        "a\\b",
        "^\\ba\\b",
        "\\Ba\\B",
        "^\\b$",
        "^\\B$",
        "\\b-\\b",
        "\\baa\\b|^-",
        "^(a\\b-?)+$",
        "^(\\b|-)a",
        "\\b\\B",
        "a\\b_",
        "^[^a]*\\b[a-]{2}\\b.*$",
        "(\\ba|\\B-)$",
    ] {
        let schema = json!({ "type": "string", "pattern": pattern });
        // Nothing fits some of them.
        let automaton = made(&Grammar::json_schema_value(schema.clone())).ok().map(|made| made.0);
        let validator = jsonschema::validator_for(&schema).unwrap();
        for text in &texts {
            let accepted = automaton.as_ref().is_some_and(|a| accepts(a, json!(text).to_string().as_bytes()));
            assert_eq!(accepted, validator.is_valid(&json!(text)), "{pattern} and {text:?}");
        }
    }
    // Words are of ASCII, as browsers have it.
    let automaton = of(&json!({ "type": "string", "pattern": "^a\\bé\\B$" }));
    assert!(accepts(&automaton, "\"aé\"".as_bytes()));
    let error = made(&Grammar::json_schema_value(json!({ "pattern": "^(?=a)\\ba" }))).unwrap_err();
    assert_eq!((error.kind(), error.keyword()), (ErrorKind::Unsupported, "pattern"));
}
