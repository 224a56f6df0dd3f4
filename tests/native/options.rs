//! The table of options, options.toml, as the engine has it.

use millrace::ErrorKind;
use millrace::base::options::{Given, Kind, Options, Row};
use millrace::bench;
use millrace::engine::{EmbedOptions, LoadOptions, Prompt, Request, RerankOptions};
use millrace::layout::Kv;
use millrace::plan::Lane;
use millrace::sample::SamplingOptions;
use millrace::store::DownloadOptions;
use serde_json::json;

fn structs() -> Vec<(&'static str, Box<dyn Options>)> {
    vec![
        ("fetching", Box::new(DownloadOptions::default())),
        ("load", Box::new(LoadOptions::default())),
        ("generate", Box::new(Request::default())),
        ("embed", Box::new(EmbedOptions::default())),
        ("rerank", Box::new(RerankOptions::default())),
        ("bench", Box::new(bench::Options::default())),
    ]
}

/// Values that a row takes, and values that it does not.
fn values(row: &Row) -> (Vec<Given>, Vec<Given>) {
    let number = |n: f64| Given::Number(n);
    let text = |text: &str| Given::Text(text.to_owned());
    let mut bad = vec![Given::Other("null".into())];
    let good = match row.kind {
        Kind::Number(bounds) => {
            let (least, most) = (bounds.least, bounds.most);
            bad.extend([least.next_down(), most.next_up()].map(|n| number(n.into())));
            bad.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e39].map(number));
            bad.extend([text("1"), Given::Flag(true), Given::Json(json!([1]))]);
            if bounds.above {
                bad.extend([number(least.into()), number(f64::from(least) + 1e-60)]);
            }
            // A number that rounds to a bound is the bound.
            vec![
                number(if bounds.above { least.next_up() } else { least }.into()),
                number(most.into()),
                number(f64::from(most) * (1.0 + 1e-12)),
            ]
        }
        Kind::Whole { least, most } => {
            bad.extend(
                [least as f64 - 1.0, most as f64 + 1.0, least as f64 + 0.5, f64::NAN, f64::INFINITY].map(number),
            );
            bad.extend([text("1"), Given::Flag(true), Given::Json(json!([1]))]);
            vec![number(least as f64), number(most as f64)]
        }
        Kind::Flag => {
            bad.extend([number(1.0), text("true"), Given::Json(json!({}))]);
            vec![Given::Flag(true), Given::Flag(false)]
        }
        Kind::Text => {
            bad.extend([text(""), number(1.0), Given::Flag(true), Given::Json(json!(["x"]))]);
            vec![text("x")]
        }
        Kind::Texts { most, bytes } => {
            bad.extend(
                [json!(vec!["x"; most + 1]), json!(["x".repeat(bytes + 1)]), json!([""]), json!([1]), json!({})]
                    .map(Given::Json),
            );
            bad.extend([text(""), number(1.0)]);
            vec![text("x"), Given::Json(json!(vec!["x".repeat(bytes); most])), Given::Json(json!([]))]
        }
        Kind::Name(names) => {
            bad.extend([text("nonsense"), text(""), number(1.0)]);
            names.iter().map(|name| text(name)).collect()
        }
        Kind::Biases(bounds) => {
            let (least, most) = (f64::from(bounds.least), f64::from(bounds.most));
            bad.extend(
                [
                    json!({"1": least - 0.1}),
                    json!({"1": most + 0.1}),
                    json!({"-1": 0}),
                    json!({"4294967296": 0}),
                    json!({"1": "x"}),
                ]
                .map(Given::Json),
            );
            bad.extend([Given::Json(json!([1])), number(1.0), Given::Pairs(vec![("x".into(), json!(1))])]);
            vec![
                Given::Json(json!({"0": least, "4294967295": most})),
                Given::Json(json!({})),
                Given::Pairs(vec![("1".into(), json!(0.5))]),
            ]
        }
        Kind::Variants => {
            bad.extend([json!({"a": ""}), json!({"a": 1}), json!([])].map(Given::Json));
            vec![Given::Json(json!({"a": "x"})), Given::Pairs(vec![("a".into(), json!("x")), ("a".into(), json!("y"))])]
        }
        Kind::Scaled(bounds) => {
            let (least, most) = (f64::from(bounds.least), f64::from(bounds.most));
            bad.extend(
                [
                    json!({"name": "x", "scale": most + 1.0}),
                    json!({"name": "x", "scale": least - 1.0}),
                    json!({"scale": 1}),
                ]
                .map(Given::Json),
            );
            bad.extend(
                [json!({"name": ""}), json!({"name": "x", "scale": "1"}), json!({"name": "x", "more": 1}), json!([])]
                    .map(Given::Json),
            );
            bad.extend([text(""), number(1.0)]);
            vec![text("x"), Given::Json(json!({"name": "x", "scale": least})), Given::Json(json!({"name": "x"}))]
        }
        Kind::Object => {
            bad.extend([Given::Json(json!([])), text("x")]);
            vec![Given::Json(json!({"a": 1}))]
        }
        Kind::Objects => {
            bad.extend([json!({}), json!([1])].map(Given::Json));
            vec![Given::Json(json!([])), Given::Json(json!([{}]))]
        }
    };
    (good, bad)
}

#[test]
fn every_row_takes_what_is_within_its_bounds_and_nothing_else() {
    for (section, mut options) in structs() {
        assert!(!options.rows().is_empty());
        for (i, row) in options.rows().iter().enumerate() {
            let (good, bad) = values(row);
            for given in good {
                assert_eq!(row.wrong(&given), None, "{section}.{} {given:?}", row.name);
                options.set(i, given.clone()).unwrap_or_else(|e| panic!("{section}.{} {given:?}: {e}", row.name));
                // The value is set, and checks of structs filled by hand accept it.
                assert!(options.get(i).is_some(), "{section}.{} {given:?}", row.name);
                assert_eq!(options.get(i).and_then(|given| row.wrong(&given)), None, "{section}.{}", row.name);
                options.check().unwrap_or_else(|e| panic!("{section}.{} {given:?}: {e}", row.name));
            }
            for given in bad {
                let wrong = row.wrong(&given).unwrap_or_else(|| panic!("{section}.{} takes {given:?}", row.name));
                assert!(wrong.starts_with("must ") && wrong.contains(", not "), "{section}.{}: {wrong}", row.name);
            }
        }
    }
}

/// Structs filled by hand are checked as parsed options are.
#[test]
fn structs_filled_by_hand_are_checked() {
    for (_, options) in structs() {
        options.check().unwrap();
    }
    let request = || Request::new(Prompt::Tokens(vec![1]));
    let wrong: Vec<(Box<dyn Options>, &str)> = vec![
        (
            Box::new(Request { max_tokens: Some(0), ..request() }),
            "maxTokens must be a whole number from 1 to 4294967295, not 0",
        ),
        (Box::new(Request { temperature: -0.5, ..request() }), "temperature must be a number from 0 to 100, not -0.5"),
        (
            Box::new(Request { temperature: f32::NAN, ..request() }),
            "temperature must be a number from 0 to 100, not NaN",
        ),
        (Box::new(Request { top_p: 0.0, ..request() }), "topP must be a number above 0, up to 1, not 0"),
        (Box::new(Request { min_p: 1.5, ..request() }), "minP must be a number from 0 to 1, not 1.5"),
        (
            Box::new(Request { presence_penalty: -2.5, ..request() }),
            "presencePenalty must be a number from -2 to 2, not -2.5",
        ),
        (
            Box::new(Request { frequency_penalty: 2.5, ..request() }),
            "frequencyPenalty must be a number from -2 to 2, not 2.5",
        ),
        (
            Box::new(Request { repetition_penalty: f32::INFINITY, ..request() }),
            "repetitionPenalty must be a number above 0, not Infinity",
        ),
        (Box::new(Request { logprobs: Some(21), ..request() }), "logprobs must be a whole number from 0 to 20, not 21"),
        (
            Box::new(Request { seed: Some(1 << 53), ..request() }),
            "seed must be a whole number from 0 to 9007199254740991, not 9007199254740992",
        ),
        (
            Box::new(Request { logit_bias: [(7, 100.5)].into(), ..request() }),
            "logitBias must map token ids to numbers from -100 to 100, not 7 to 100.5",
        ),
        (
            Box::new(Request { logit_bias: [(7, f32::NAN)].into(), ..request() }),
            "logitBias must map token ids to numbers from -100 to 100, not 7 to null",
        ),
        (
            Box::new(Request { stop: vec![String::new()], ..request() }),
            "stop must be a text or a list of up to 64 texts, of 1 to 4096 bytes each, not a list",
        ),
        (
            Box::new(LoadOptions { context: Some((1 << 24) + 1), ..LoadOptions::default() }),
            "context must be a whole number from 1 to 16777216, not 16777217",
        ),
        (
            Box::new(LoadOptions { chunk: Some(33), ..LoadOptions::default() }),
            "chunk must be a whole number from 1 to 32, not 33",
        ),
        (
            Box::new(LoadOptions { prefill_rows: Some(0), ..LoadOptions::default() }),
            "prefillRows must be a whole number from 1 to 4096, not 0",
        ),
        (
            Box::new(bench::Options { runs: 0, ..bench::Options::default() }),
            "runs must be a whole number from 1 to 100, not 0",
        ),
        (
            Box::new(DownloadOptions { connections: 17, ..DownloadOptions::default() }),
            "connections must be a whole number from 1 to 16, not 17",
        ),
    ];
    for (options, message) in wrong {
        let error = options.check().unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::BadOption, message));
    }
}

/// A default that is a name is listed in the table, and is the type's default.
#[test]
fn defaults_are_those_of_the_table() {
    let table = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/options.toml")).unwrap();
    let default = |row: &str| {
        let rest = table.split(&format!("[{row}]\n")).nth(1).unwrap_or_else(|| panic!("no row {row}"));
        let line = rest.split("\n\n").next().unwrap().lines().find_map(|l| l.strip_prefix("default = ")).unwrap();
        line.trim_matches('"').to_owned()
    };
    let (load, request, bench) = (LoadOptions::default(), Request::default(), bench::Options::default());
    assert_eq!(load.lane.name(), default("load.lane"));
    assert_eq!(request.overflow.name(), default("generate.overflow"));
    assert_eq!(bench.shape, default("bench.shape"));
    assert_eq!(request.temperature.to_string(), default("generate.temperature"));
    assert_eq!(DownloadOptions::default().shard.to_string(), default("fetching.shardBytes"));
    assert_eq!(DownloadOptions::default().shard, millrace::store::SHARD);
    assert!(load.subgroups && request.reuse && bench.tune);
    assert_eq!((load.kv, Lane::Fast.kv(), Lane::Exact.kv()), (None, Kv::F16, Kv::F32));
    // The sampler's own default is off, and so is a request that is made in Rust.
    let off = SamplingOptions::default();
    assert_eq!((off.temperature, off.top_p, off.repetition_penalty, off.seed, off.logprobs), (0.0, 1.0, 1.0, 0, 0));
    assert_eq!(Request::new(Prompt::Tokens(vec![1])).temperature, 0.0);
}
