//! Constrained answers, with the bundled model, whose tokens are real ones.

use std::path::Path;
use std::rc::Rc;

use millrace::ErrorKind;
use millrace::base::Cancel;
use millrace::check::inputs::Random;
use millrace::engine::{Engine, Event, Faults, FinishReason, Generation, LoadOptions, Overflow, Prompt, Request};
use millrace::grammar::{Compiler, Constraint, Grammar, Warning, vocabulary};
use millrace::native::grammar::InProcess;
use millrace::source::disk::open_path;
use millrace::text::calls::Part;
use pollster::block_on;
use serde_json::{Map, Value, json};

use crate::common::{self, on_cpu};
use crate::device_lost::disturbed;

fn load(options: &LoadOptions) -> Engine {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf");
    let mut engine = common::load(&open_path(&path).expect("the box"), options).expect("an engine");
    engine.compile_with(Rc::new(InProcess));
    engine
}

fn run(engine: &mut Engine, request: &Request) -> Generation {
    block_on(engine.generate(request, &mut |_| {}, &Cancel::new())).expect("an answer")
}

fn ask() -> Request {
    let messages = json!([{ "role": "user", "content": "Tell me about a person." }]);
    Request { max_tokens: Some(700), seed: Some(7), ..Request::new(Prompt::Messages(messages)) }
}

fn schema(schema: Value) -> Option<Map<String, Value>> {
    if let Value::Object(map) = schema { Some(map) } else { None }
}

fn person() -> Value {
    json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 12 },
            "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "kind": { "enum": ["student", "teacher", "ünïcode"] },
            "tags": { "type": "array", "items": { "type": "boolean" }, "minItems": 2, "maxItems": 3 },
            "nested": { "type": "object", "properties": { "x": { "type": ["null", "number"] } }, "required": ["x"], "additionalProperties": false },
        },
        "required": ["name", "age", "kind", "tags", "nested"],
        "additionalProperties": false,
    })
}

#[test]
fn an_answer_satisfies_its_schema_whatever_the_seed() {
    let _cpu = on_cpu();
    let mut engine = load(&LoadOptions::default());
    let mut texts = Vec::new();
    for seed in 0..6 {
        // At this temperature the unconstrained model writes anything.
        let request = Request { temperature: 2.0, seed: Some(seed), schema: schema(person()), ..ask() };
        let result = run(&mut engine, &request);
        assert_eq!(result.finish_reason, FinishReason::Stop, "{}", result.text);
        let value: Value = serde_json::from_str(&result.text).unwrap_or_else(|e| panic!("{e}: {}", result.text));
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "age", "kind", "tags", "nested"], "in the schema's order");
        assert!(value["name"].as_str().unwrap().chars().count() <= 12);
        // -0 is a whole number of JSON, which is read as a fraction.
        let age = &value["age"];
        let minus_zero = age.as_f64().is_some_and(|age| age == 0.0 && age.is_sign_negative());
        assert!(age.as_u64().map_or(minus_zero, |age| age <= 150), "{}", result.text);
        assert!(["student", "teacher", "ünïcode"].contains(&value["kind"].as_str().unwrap()));
        assert!((2..=3).contains(&value["tags"].as_array().unwrap().len()));
        let about = result.grammar.expect("a grammar");
        assert!(about.states > 10 && about.bytes > 1000 && about.warnings.is_empty());
        // The second time the grammar is cached.
        assert_eq!(about.ms > 0.0, seed == 0);
        texts.push(result.text);
    }
    texts.dedup();
    assert!(texts.len() > 3, "seeds say different things: {texts:?}");
}

#[test]
fn expressions_and_choices_hold_and_cost_nothing_where_they_are_off() {
    let mut engine = load(&LoadOptions { chunk: Some(16), ..LoadOptions::default() });
    let count = |result: &Generation| {
        (result.counters.dispatches, result.counters.readbacks, result.counters.submits, result.counters.created)
    };
    let free = Request { ignore_eos: true, max_tokens: Some(32), ..ask() };
    let before = run(&mut engine, &free);
    let exact = "Ja, 17 Äpfel — und {\"nichts\": 🎈}";
    let regex = Request {
        regex: Some(
            exact.chars().map(|c| if c.is_alphanumeric() { c.to_string() } else { format!("[{c}]") }).collect(),
        ),
        ..ask()
    };
    assert_eq!(run(&mut engine, &regex).text, exact);
    let forced = run(&mut engine, &Request { regex: Some("[a-z ]{300,}".into()), max_tokens: Some(32), ..ask() });
    assert_eq!((forced.finish_reason, forced.tokens.len()), (FinishReason::Length, 32));
    assert!(forced.text.chars().all(|c| c.is_ascii_lowercase() || c == ' '), "{}", forced.text);
    // One dispatch a token, and no readback.
    let (dispatches, readbacks, submits, created) = count(&before);
    assert_eq!(count(&forced), (dispatches + 32, readbacks, submits, created));
    let after = run(&mut engine, &free);
    assert_eq!((count(&after), &after.tokens), (count(&before), &before.tokens));
    for choice in [&["yes", "no"][..], &["no", "yes", "not at all"], &["{\"a\": 1}"]] {
        let result = run(
            &mut engine,
            &Request { temperature: 1.5, choice: choice.iter().map(ToString::to_string).collect(), ..ask() },
        );
        assert!(
            choice.contains(&result.text.as_str()) && result.finish_reason == FinishReason::Stop,
            "{}",
            result.text
        );
    }
}

#[test]
fn with_penalties_and_log_probabilities_it_holds_too() {
    let mut engine = load(&LoadOptions::default());
    let request = Request {
        temperature: 1.3,
        top_k: 5,
        top_p: 0.9,
        repetition_penalty: 1.3,
        frequency_penalty: 0.5,
        logprobs: Some(3),
        schema: schema(person()),
        ..ask()
    };
    let result = run(&mut engine, &request);
    serde_json::from_str::<Value>(&result.text).unwrap_or_else(|e| panic!("{e}: {}", result.text));
    // Log probabilities are the model's own, also of likelier tokens that the grammar excludes.
    let logprobs = result.logprobs.expect("log probabilities");
    assert!(
        logprobs.iter().any(|one| one.top.iter().all(|likely| likely.id != one.token.id)),
        "nothing was ever forced"
    );
    assert!(logprobs.iter().all(|one| one.token.logprob.is_finite() && one.token.logprob <= 1e-6));
}

#[test]
fn a_lost_device_a_growing_cache_and_a_full_context_change_nothing() {
    let _cpu = on_cpu();
    let options = LoadOptions {
        chunk: Some(1),
        cache_start: Some(64),
        faults: Faults { loss_interval_ms: Some(0.0), ..Faults::default() },
        ..LoadOptions::default()
    };
    let mut engine = load(&options);
    let request = Request { temperature: 2.0, reuse: false, schema: schema(person()), ..ask() };
    let whole = run(&mut engine, &request);
    let lost = disturbed(&mut engine, &request, &[5, 20]).unwrap();
    assert_eq!((lost.recoveries, &lost.text), (2, &whole.text));
    let mut engine = load(&LoadOptions { context: Some(128), ..options });
    let long = json!({ "type": "array", "items": { "enum": ["a", "b"] }, "minItems": 60, "maxItems": 60 });
    let shifted =
        run(&mut engine, &Request { overflow: Overflow::Shift, schema: schema(long), max_tokens: Some(400), ..ask() });
    assert!(shifted.shifts > 0);
    assert_eq!(
        serde_json::from_str::<Vec<String>>(&shifted.text).unwrap_or_else(|e| panic!("{e}: {}", shifted.text)).len(),
        60
    );
}

#[test]
fn forks_and_what_was_cut_off_leave_nothing_behind() {
    let _cpu = on_cpu();
    let mut engine = load(&LoadOptions { chunk: Some(4), slots: Some(2), ..LoadOptions::default() });
    let request = Request { temperature: 2.0, schema: schema(person()), ..ask() };
    let whole = run(&mut engine, &request);
    // Ended in the middle, by a stop text and by a limit.
    let stopped = run(&mut engine, &Request { stop: vec!["\"kind\"".into()], ..request.clone() });
    assert!(whole.text.starts_with(&stopped.text) && !stopped.text.contains("kind"));
    let cut = run(&mut engine, &Request { max_tokens: Some(6), ..request.clone() });
    assert_eq!((cut.finish_reason, &whole.tokens[..6]), (FinishReason::Length, cut.tokens.as_slice()));
    let fork = engine.fork(0).unwrap();
    let other = Request { regex: Some("[0-9]{5}".into()), conversation: fork, ..ask() };
    let digits = run(&mut engine, &other);
    assert!(digits.text.len() == 5 && digits.text.parse::<u32>().is_ok(), "{}", digits.text);
    assert_eq!(run(&mut engine, &request).text, whole.text);
    let cancel = Cancel::new();
    let mut pieces = 0;
    let aborted = block_on(engine.generate(
        &request,
        &mut |event| {
            if let Event::Delta(_) = event {
                pieces += 1;
                if pieces == 2 {
                    cancel.cancel();
                }
            }
        },
        &cancel,
    ));
    let aborted = aborted.unwrap();
    assert!(aborted.finish_reason == FinishReason::Abort && whole.text.starts_with(&aborted.text));
    assert_eq!(run(&mut engine, &request).text, whole.text);
}

#[test]
fn what_cannot_be_enforced_is_an_error_by_name() {
    let _cpu = on_cpu();
    let mut engine = load(&LoadOptions::default());
    let unique = || {
        schema(
            json!({ "type": "object", "properties": { "ids": { "type": "array", "items": { "type": "integer" }, "uniqueItems": true } } }),
        )
    };
    for (kind, named, request) in [
        (ErrorKind::UnsupportedSchema, "uniqueItems at /properties/ids", Request { schema: unique(), ..ask() }),
        (ErrorKind::InvalidSchema, "type", Request { schema: schema(json!({ "type": 5 })), ..ask() }),
        (ErrorKind::InvalidSchema, "", Request { regex: Some("(a".into()), ..ask() }),
        (ErrorKind::BadOption, "schema and regex", Request { schema: unique(), regex: Some("a".into()), ..ask() }),
        (ErrorKind::BadOption, "ignoreEos", Request { regex: Some("a".into()), ignore_eos: true, ..ask() }),
    ] {
        let error = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).expect_err(named);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(named), "{error}");
    }
    let request = Request { schema: unique(), lenient: true, ..ask() };
    let about = run(&mut engine, &request).grammar.expect("a grammar");
    let Warning { pointer, keyword, .. } = &about.warnings[0];
    assert_eq!((pointer.as_str(), keyword.as_str()), ("/properties/ids", "uniqueItems"));
}

#[test]
fn a_token_that_the_grammar_does_not_allow_is_noticed() {
    let _cpu = on_cpu();
    let engine = load(&LoadOptions::default());
    let tokenizer = engine.tokenizer();
    let packed = Rc::new(vocabulary(tokenizer, tokenizer.vocab_size(), tokenizer.eos_ids()).unwrap());
    let grammar: Grammar = block_on(InProcess.compile(json!({ "regex": "ab*" }).to_string(), false)).unwrap();
    let mut constraint = Constraint::new(Rc::new(grammar), packed);
    let id = |text: &str| tokenizer.encode(text, false).unwrap()[0];
    assert!(!constraint.may_end() && constraint.goes_on());
    constraint.take(id("a")).unwrap();
    constraint.take(tokenizer.eos_ids()[0]).unwrap();
    let error = constraint.take(id("x")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Gpu);
}

/// A random satisfiable schema with common keywords: bounds, enums, patterns, formats, lists, alternatives, references.
fn random_schema(random: &mut Random, depth: u32) -> Value {
    let leaf = depth == 0 || random.below(3) == 0;
    let (least, more) = (random.below(3), random.below(4));
    let format = ["date", "uuid", "ipv4", "time"][random.below(4) as usize];
    match random.below(if leaf { 9 } else { 13 }) {
        0 => json!({ "type": "boolean" }),
        1 => json!({ "type": ["null", "integer"], "minimum": -5, "maximum": 1000 }),
        2 => json!({ "type": "integer", "minimum": random.below(50), "exclusiveMaximum": 60 + random.below(5000) }),
        3 => json!({ "type": "number", "minimum": 0, "maximum": 10.5 }),
        4 => json!({ "type": "string", "minLength": least, "maxLength": least + more }),
        5 => json!({ "enum": ["red", "grün", 7, null, { "a": [1, 2] }] }),
        6 => json!({ "type": "string", "pattern": "^[A-Z]{2}-\\d{1,3}$" }),
        7 => json!({ "type": "string", "format": format }),
        8 => json!({ "type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 300 }),
        9 => {
            json!({ "type": "array", "items": random_schema(random, depth - 1), "minItems": least, "maxItems": least + more })
        }
        10 => json!({ "anyOf": [{ "type": "null" }, random_schema(random, depth - 1)] }),
        11 => {
            json!({ "type": "array", "prefixItems": [random_schema(random, depth - 1), { "type": "boolean" }], "items": false, "minItems": 2 })
        }
        _ => {
            let names: Vec<String> = (0..1 + random.below(4))
                .map(|i| format!("{}{i}", ["name", "größe", "a b", "x\"y"][random.below(4) as usize]))
                .collect();
            let required: Vec<&String> = names.iter().filter(|_| random.below(3) > 0).collect();
            let members: Map<String, Value> =
                names.iter().map(|name| (name.clone(), random_schema(random, depth - 1))).collect();
            json!({ "type": "object", "properties": members, "required": required, "additionalProperties": false })
        }
    }
}

/// Every finished answer satisfies its schema, by another crate's check, and every unfinished one can still be
/// finished.
fn answers_satisfy(schemas: usize, seeds: u64) {
    let mut engine = load(&LoadOptions::default());
    let packed = {
        let tokenizer = engine.tokenizer();
        Rc::new(vocabulary(tokenizer, tokenizer.vocab_size(), tokenizer.eos_ids()).unwrap())
    };
    let mut random = Random::new("schemas");
    let (mut finished, mut tokens) = (0, 0);
    for n in 0..schemas {
        let wanted = json!({ "type": "object", "properties": { "it": random_schema(&mut random, 3) }, "required": ["it"], "additionalProperties": false });
        let validator = jsonschema::options().should_validate_formats(true).build(&wanted).unwrap();
        for seed in 0..seeds {
            let request = Request {
                temperature: 2.0,
                seed: Some(seed),
                max_tokens: Some(160),
                schema: schema(wanted.clone()),
                ..ask()
            };
            let result = run(&mut engine, &request);
            tokens += result.tokens.len();
            if result.finish_reason == FinishReason::Stop {
                finished += 1;
                let value: Value = serde_json::from_str(&result.text)
                    .unwrap_or_else(|e| panic!("schema {n}, {wanted}: {e}: {}", result.text));
                assert!(validator.is_valid(&value), "schema {n}, {wanted}: {}", result.text);
            } else {
                let grammar = block_on(InProcess.compile(json!({ "schema": wanted }).to_string(), false)).unwrap();
                let mut constraint = Constraint::new(Rc::new(grammar), packed.clone());
                result.tokens.iter().for_each(|id| constraint.take(*id).unwrap());
                assert!(constraint.goes_on(), "schema {n}, {wanted}: {}", result.text);
            }
        }
    }
    println!("{finished} of {} answers finished, {tokens} tokens", schemas as u64 * seeds);
    assert!(finished * 2 > schemas * seeds as usize, "half of them, at least");
}

#[test]
fn answers_to_schemas_at_random_satisfy_them() {
    let _cpu = on_cpu();
    answers_satisfy(15, 1);
}

#[test]
#[ignore = "an hour: npm run test:long"]
fn answers_to_five_hundred_schemas_satisfy_them() {
    answers_satisfy(500, 5);
}

#[test]
fn calls_are_forced_and_stand_beside_a_form() {
    let _cpu = on_cpu();
    let mut engine = load(&LoadOptions::default());
    let tool = |name: &str, strict: bool, key: &str, of: Value| {
        let parameters =
            json!({ "type": "object", "properties": { key: of }, "required": [key], "additionalProperties": false });
        json!({ "type": "function", "function": { "name": name, "description": "Does it.", "parameters": parameters, "strict": strict } })
    };
    let tools = json!([
        tool("set_timer", true, "minutes", json!({ "type": "integer", "minimum": 1, "maximum": 60 })),
        tool("paint", true, "colour", json!({ "enum": ["red", "blue"] }))
    ]);
    let asked = Request { tools: Some(tools), temperature: 1.5, ..ask() };
    let calls = |engine: &mut Engine, request: &Request| {
        let mut calls: Vec<(String, String)> = Vec::new();
        let result = block_on(engine.generate(
            request,
            &mut |event| {
                let Event::Delta(delta) = event else { return };
                for part in &delta.parts {
                    match part {
                        Part::ToolCall { name, .. } => calls.push((name.clone(), String::new())),
                        Part::Arguments { text, .. } => calls.last_mut().expect("a call").1.push_str(text),
                        _ => {}
                    }
                }
            },
            &Cancel::new(),
        ));
        (result.expect("an answer"), calls)
    };
    for seed in 0..4 {
        let (result, made) =
            calls(&mut engine, &Request { tool_choice: "required".into(), seed: Some(seed), ..asked.clone() });
        assert!(!made.is_empty(), "{}", result.text);
        for (name, arguments) in &made {
            let arguments: Value = serde_json::from_str(arguments).unwrap_or_else(|e| panic!("{e}: {arguments}"));
            match name.as_str() {
                "set_timer" => assert!((1..=60).contains(&arguments["minutes"].as_i64().unwrap())),
                _ => assert!(name == "paint" && ["red", "blue"].contains(&arguments["colour"].as_str().unwrap())),
            }
        }
        let one =
            Request { tool_choice: "paint".into(), parallel_tool_calls: false, seed: Some(seed), ..asked.clone() };
        assert_eq!(calls(&mut engine, &one).1.iter().map(|call| call.0.as_str()).collect::<Vec<_>>(), ["paint"]);
        // A constraint beside tools: the model chooses one of them.
        let (result, made) =
            calls(&mut engine, &Request { choice: vec!["neither".into()], seed: Some(seed), ..asked.clone() });
        assert!(!made.is_empty() || result.text == "neither", "{}", result.text);
        let (result, made) = calls(
            &mut engine,
            &Request { tool_choice: "none".into(), seed: Some(seed), max_tokens: Some(20), ..asked.clone() },
        );
        assert!(made.is_empty() && result.grammar.is_none());
    }
    for (named, request) in [
        ("drum", Request { tool_choice: "drum".into(), ..asked.clone() }),
        ("toolChoice", Request { tool_choice: "required".into(), regex: Some("a".into()), ..asked.clone() }),
        ("no tools", Request { tool_choice: "required".into(), ..ask() }),
    ] {
        let error = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).expect_err(named);
        assert_eq!(error.kind(), ErrorKind::BadOption);
        assert!(error.message().contains(named), "{error}");
    }
}
