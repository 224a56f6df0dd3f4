//! Schemas and regular expressions made to hurt: an answer or a typed error, soon. Where `MILLRACE_FUZZ_SECONDS` is
//! set, the fuzzers run for that long.

use std::time::{Duration, Instant};

use millrace_grammar::Grammar;
use serde_json::{Map, Value, json};

use crate::support::{Random, made};

/// Generous: these run beside other tests, and unoptimised.
const SOON: Duration = Duration::from_secs(10);

fn judged(what: &str, grammar: &Grammar) {
    let began = Instant::now();
    let result = made(grammar);
    let took = began.elapsed();
    let answer = result.map_or_else(
        |e| format!("{} {e}", e.code()),
        |(_, r)| format!("{} states, {} bytes, {} steps", r.states, r.bytes, r.work),
    );
    println!("{what}: {:.0} ms: {answer}", took.as_secs_f64() * 1e3);
    assert!(took < SOON, "{what} took {took:?}");
}

#[test]
fn large_and_deep_schemas() {
    let deep = (0..1000).fold("true".to_owned(), |inner, _| format!("{{\"items\": {inner}}}"));
    assert!(Grammar::json_schema(&deep).is_err());
    let deep = (0..120).fold(json!({ "type": "integer" }), |inner, _| json!({ "type": "array", "items": inner }));
    judged("arrays inside each other", &Grammar::json_schema_value(deep));
    let deep = (0..450).fold(json!({ "type": "integer" }), |inner, _| json!({ "allOf": [inner] }));
    judged("allOf inside each other", &Grammar::json_schema_value(deep));
    judged(
        "an enum of 5,000",
        &Grammar::json_schema_value(
            json!({ "enum": (0..5000).map(|i| format!("value {} of many", i * 7919 % 5000)).collect::<Vec<_>>() }),
        ),
    );
    for required in [false, true] {
        let properties: Map<String, Value> =
            (0..500).map(|i| (format!("p{i}_{}", i * 31), json!({ "type": ["string", "integer", "null"] }))).collect();
        let names: Vec<String> = if required { properties.keys().cloned().collect() } else { Vec::new() };
        judged(
            "500 properties",
            &Grammar::json_schema_value(
                json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false }),
            ),
        );
        judged(
            "500 properties and others",
            &Grammar::json_schema_value(json!({ "type": "object", "properties": properties, "required": names })),
        );
    }
    let one_of: Vec<Value> = (0..40).map(|i| json!({ "required": [format!("k{i}")] })).collect();
    judged("oneOf of 40", &Grammar::json_schema_value(json!({ "oneOf": one_of, "type": "object" })));
    judged("anyOf crossed", &Grammar::json_schema_value(json!({ "allOf": vec![json!({ "anyOf": one_of }); 12] })));
    let refs: Map<String, Value> = (0..400)
        .map(|i| (format!("d{i}"), json!({ "anyOf": [{ "$ref": format!("#/$defs/d{}", i + 1) }, { "$ref": format!("#/$defs/d{}", (i + 7).min(400)) }] })))
        .chain([("d400".to_owned(), json!(true))])
        .collect();
    judged("references", &Grammar::json_schema_value(json!({ "$ref": "#/$defs/d0", "$defs": refs })));
}

#[test]
fn regexes_made_to_explode() {
    let sources = [
        "(a|b)*a(a|b){20}",
        "((a{1,100}){1,100}){1,100}",
        "(.*){1,1000}",
        "[^a]{20000}",
        "((((a?){50}){50}){50}){50}",
        "(a|aa)*(b|bb)*(c|cc)*",
        "(.{0,500}x){20}",
        "\\S{1,3000}",
    ];
    for source in sources.into_iter().map(str::to_owned).chain([
        "(".repeat(5000),
        "(".repeat(60) + &")*".repeat(60),
        "(?:".repeat(3000) + &")".repeat(3000),
    ]) {
        let name: String = source.chars().take(40).collect();
        judged(&name, &Grammar::regex(source.clone()));
        judged(
            &format!("pattern {name}"),
            &Grammar::json_schema_value(json!({ "type": "string", "pattern": source, "maxLength": 300 })),
        );
    }
}

/// Whether a fuzzer continues: for `rounds` rounds, or for as long as the environment says.
fn more(rounds: usize, began: Instant, n: usize) -> bool {
    match std::env::var("MILLRACE_FUZZ_SECONDS") {
        Ok(seconds) => began.elapsed() < Duration::from_secs(seconds.parse().unwrap()),
        Err(_) => n < rounds,
    }
}

#[test]
fn fuzzed_regexes() {
    let started = Instant::now();
    let pieces = [
        "a", "b", "é", ".", "\\d", "\\S", "[a-f]", "[^x]", "(", ")", "|", "*", "+", "?", "{2,5}", "{3}", "^", "$",
        "(?=", "(?!", "(?:", "\\u00e9", "[", "]", "\\", "-", "{", "0",
    ];
    let mut random = Random::new(5);
    let mut n = 0;
    while more(20_000, started, n) {
        let source: String = (0..random.below(14) + 1).map(|_| pieces[random.below(pieces.len())]).collect();
        let began = Instant::now();
        let _ = made(&Grammar::regex(source.clone()));
        assert!(began.elapsed() < SOON, "{source}");
        n += 1;
    }
    println!("{n} regexes");
}

pub fn fuzzed_schema(random: &mut Random, depth: usize) -> Value {
    let names = ["a", "b", "c", "x-y", ""];
    let numbers = [json!(0), json!(1), json!(-2), json!(2.5), json!(1e10), json!(7)];
    let counts = [json!(0), json!(1), json!(2), json!(5), json!(40)];
    let mut map = Map::new();
    for _ in 0..random.below(4) + 1 {
        let name = names[random.below(names.len())];
        let inner =
            |random: &mut Random| if depth == 0 { json!(random.chance(80)) } else { fuzzed_schema(random, depth - 1) };
        let (key, value) = match random.below(34) {
            0..=3 => {
                ("type", json!(["null", "boolean", "object", "array", "string", "number", "integer"][random.below(7)]))
            }
            4 => ("type", json!(["string", "object", "integer"])),
            5 => ("enum", json!([1, "a", null, { "a": 1 }, [2], 2.5])),
            6 => ("const", numbers[random.below(6)].clone()),
            7 => (
                ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"][random.below(4)],
                numbers[random.below(6)].clone(),
            ),
            8 => ("multipleOf", json!([1.0, 3.0, 0.5, 0.01, 12.0][random.below(5)])),
            9 | 10 => (
                ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"][random.below(6)],
                counts[random.below(5)].clone(),
            ),
            11 => ("pattern", json!(["^a", "b$", "[0-9]{2}", "^(?!a)", "x|y"][random.below(5)])),
            12 => ("format", json!(["date", "email", "uuid", "ipv4"][random.below(4)])),
            13 | 14 => ("properties", json!({ name: inner(random), names[random.below(5)]: inner(random) })),
            15 => ("required", json!([name])),
            16 => ("additionalProperties", inner(random)),
            17 => ("patternProperties", json!({ ["^a", "y$", ""][random.below(3)]: inner(random) })),
            18 => ("propertyNames", inner(random)),
            19 => ("items", inner(random)),
            20 => ("prefixItems", json!([inner(random), inner(random)])),
            21 => ("contains", inner(random)),
            22 => (["allOf", "anyOf", "oneOf"][random.below(3)], json!([inner(random), inner(random)])),
            23 => ("anyOf", json!([inner(random), inner(random), inner(random)])),
            24 => ("not", inner(random)),
            25 => (["if", "then", "else"][random.below(3)], inner(random)),
            26 => ("dependentRequired", json!({ name: ["a", "c"] })),
            27 => (["unevaluatedProperties", "unevaluatedItems"][random.below(2)], inner(random)),
            28 => ("$ref", json!(["#", "#/properties/a", "#/items"][random.below(3)])),
            29 => ("uniqueItems", json!(random.chance(80))),
            30 => ("items", json!({ "enum": [1, "a", null, true, 2] })),
            31 => (["minContains", "maxContains"][random.below(2)], counts[random.below(4)].clone()),
            // Beside a count, where there is one already.
            32 => {
                map.insert("maxContains".to_owned(), counts[random.below(4)].clone());
                ("contains", inner(random))
            }
            _ => ("dependentSchemas", json!({ name: inner(random) })),
        };
        map.insert(key.to_owned(), value);
    }
    Value::Object(map)
}

/// What is compiled of random schemas is walked: finished texts satisfy the schema, by the word of another validator.
#[test]
fn fuzzed_schemas_hold_what_they_say() {
    let started = Instant::now();
    let mut random = Random::new(11);
    let (mut n, mut walked, mut kinds) = (0, 0, std::collections::BTreeMap::new());
    while more(80, started, n) {
        let schema = fuzzed_schema(&mut random, 2);
        let began = Instant::now();
        let result = made(&Grammar::json_schema_value(schema.clone()));
        assert!(began.elapsed() < SOON, "{schema}");
        n += 1;
        let automaton = match result {
            Ok((automaton, _)) => automaton,
            Err(e) => {
                *kinds.entry(e.code()).or_insert(0) += 1;
                continue;
            }
        };
        for _ in 0..4 {
            walked += usize::from(crate::walks::checked(&schema, &automaton, &mut random));
        }
    }
    println!("{n} schemas, {walked} texts, errors {kinds:?}");
    assert!(walked > n, "{walked} texts of {n} schemas");
}
