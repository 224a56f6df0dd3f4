//! Calls whose arguments have very many parts, in every format of calls: each part is parsed once, and nothing is lost,
//! wherever the pieces break.

use std::fmt::Write;

use millrace::text::calls::{Formats, Parser, Part, Tool, looked_at};
use serde_json::{Map, Value, json};

use crate::calls::{Message, message, random};

/// Writes a call with these arguments.
type Written = Box<dyn Fn(&Map<String, Value>) -> String>;

/// A format of calls: the marks of its templates; the text before, between and after the calls of a passage, where
/// there may be several; and how a call is written.
struct Way {
    marks: &'static str,
    open: &'static str,
    between: Option<&'static str>,
    close: &'static str,
    call: Written,
}

impl Way {
    fn write(&self, calls: &[Value]) -> String {
        let calls: Vec<String> = calls.iter().map(|call| (self.call)(call.as_object().unwrap())).collect();
        format!("{}{}{}", self.open, calls.join(self.between.unwrap_or_default()), self.close)
    }
}

/// A value in Python's notation, or Gemma's.
fn spelled(value: &Value, quote: Option<&str>, words: [&str; 3]) -> String {
    let inner = |value| spelled(value, quote, words);
    match value {
        Value::Null => words[0].to_owned(),
        Value::Bool(is) => words[1 + usize::from(*is)].to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quote.map_or_else(|| value.to_string(), |quote| format!("{quote}{text}{quote}")),
        Value::Array(items) => format!("[{}]", items.iter().map(inner).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let key = |key: &String| if quote.is_some() { format!("{key}:") } else { format!("'{key}': ") };
            format!(
                "{{{}}}",
                members
                    .iter()
                    .map(|(name, value)| format!("{}{}", key(name), inner(value)))
                    .collect::<Vec<_>>()
                    .join(",")
            )
        }
    }
}

fn python(arguments: &Map<String, Value>) -> String {
    let argument = |(name, value)| format!("{name}={}", spelled(value, None, ["None", "False", "True"]));
    arguments.iter().map(argument).collect::<Vec<_>>().join(", ")
}

fn gemma(quote: &str, arguments: &Map<String, Value>) -> String {
    spelled(&Value::Object(arguments.clone()), Some(quote), ["null", "false", "true"])
}

/// A value in the tags of MiniMax M3.
fn in_tags(name: &str, value: &Value, out: &mut String) {
    let mark = "]<]minimax[>[";
    write!(out, "{mark}<{name}>").unwrap();
    match value {
        Value::Array(items) => items.iter().for_each(|item| in_tags("item", item, out)),
        Value::Object(members) => members.iter().for_each(|(name, value)| in_tags(name, value, out)),
        Value::String(text) => out.push_str(text),
        other => write!(out, "{other}").unwrap(),
    }
    write!(out, "{mark}</{name}>").unwrap();
}

fn ways() -> Vec<Way> {
    let mut ways = Vec::new();
    // Arguments as JSON.
    let mut json = |marks, open, before: &'static str, after: &'static str, between, close| {
        let call = Box::new(move |arguments: &Map<String, Value>| {
            format!("{before}{}{after}", Value::Object(arguments.clone()))
        });
        ways.push(Way { marks, open, between, close, call });
    };
    const OBJECT: &str = r#"{"name": "f", "arguments": "#;
    json("<tool_call>", "<tool_call>\n", OBJECT, "}", Some("\n"), "\n</tool_call>");
    json("<tool_call>", "<tool_call>[", OBJECT, "}", Some(", "), "]</tool_call>");
    json("[TOOL_CALLS]", "[TOOL_CALLS][", OBJECT, r#", "id": "abcdefghi"}"#, Some(", "), "]");
    json("[TOOL_CALLS]", "", "[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]", "", Some(""), "");
    json(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>f<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        Some("\n"),
        "<｜tool▁calls▁end｜>",
    );
    let fenced = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n";
    json(
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁begin｜>",
        fenced,
        "\n```<｜tool▁call▁end｜>",
        Some("\n"),
        "<｜tool▁calls▁end｜>",
    );
    let kimi = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>";
    json(
        "<|tool_call_begin|>",
        "<|tool_calls_section_begin|>",
        kimi,
        "<|tool_call_end|>",
        Some(""),
        "<|tool_calls_section_end|>",
    );
    json("<|tool_call|>", "<|tool_call|>[", OBJECT, "}", Some(","), "]<|/tool_call|>");
    json("<|tools_prefix|>", "<|tools_prefix|>[", r#"{"f": "#, "}", Some(", "), "]<|tools_suffix|>");
    json("<function=", "", "<function=f>", "</function>", Some("\n"), "");
    json(">>>all", "", ">>>f\n", "", Some(""), "");
    json("<|channel|>", "", "<|channel|>commentary to=functions.f<|message|>", "<|call|>", None, "");
    json("", "", r#"{"type": "function", "name": "f", "parameters": "#, "}", Some("\n"), "");
    json("", "", r#"{"id": "a", "function": {"arguments": "#, r#", "name": "f"}}"#, Some("\n"), "");
    json("", "```json\n[", OBJECT, "}", Some(", "), "]\n```");
    json("<|python_tag|>", "<|python_tag|>", OBJECT, "}", Some("; "), "");
    let mut other = |marks, open, between, close, call: Written| ways.push(Way { marks, open, between, close, call });
    let in_string = |arguments: &Map<String, Value>| {
        format!("{OBJECT}{}}}", Value::from(Value::Object(arguments.clone()).to_string()))
    };
    other("<tool_call>", "<tool_call>", Some(""), "</tool_call>", Box::new(in_string));
    // Python, Gemma, MiniMax M3.
    other(
        "<|tool_call_start|>",
        "<|tool_call_start|>[",
        Some(", "),
        "]<|tool_call_end|>",
        Box::new(|arguments| format!("f({})", python(arguments))),
    );
    other("<|python_tag|>", "[", Some(", "), "]", Box::new(|arguments| format!("f({})", python(arguments))));
    other("<|python_tag|>", "<|python_tag|>", None, "", Box::new(|arguments| format!("f.call({})", python(arguments))));
    let call = |arguments: &Map<String, Value>| format!("<|tool_call>call:f{}<tool_call|>", gemma("<|\"|>", arguments));
    other("<|tool_call>", "", Some(""), "", Box::new(call));
    let call = |arguments: &Map<String, Value>| {
        format!("<start_function_call>call:f{}<end_function_call>", gemma("<escape>", arguments))
    };
    other("<start_function_call>", "", Some(""), "", Box::new(call));
    let call = |arguments: &Map<String, Value>| {
        let mut out = "]<]minimax[>[<invoke name=\"f\">".to_owned();
        arguments.iter().for_each(|(name, value)| in_tags(name, value, &mut out));
        out + "]<]minimax[>[</invoke>"
    };
    other("]<]minimax[>[", "]<]minimax[>[<tool_call>", Some("\n"), "]<]minimax[>[</tool_call>", Box::new(call));
    // Arguments in tags: the text around the argument's name, and behind its value. `S` says whether it is a string.
    let mut tags = |marks, open, around: [&'static str; 2], argument: [&'static str; 3], close| {
        let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let call = move |arguments: &Map<String, Value>| {
            let [before, between, after] = argument;
            let between = |value: &Value| between.replace('S', if value.is_string() { "true" } else { "false" });
            let arguments =
                arguments.iter().map(|(name, of)| format!("{before}{name}{}{}{after}", between(of), value(of)));
            format!("{}{}{}", around[0], arguments.collect::<String>(), around[1])
        };
        ways.push(Way { marks, open, between: Some("\n"), close, call: Box::new(call) });
    };
    let function = ["<function=f>\n", "</function>"];
    tags("<tool_call>", "<tool_call>\n", function, ["<parameter=", ">\n", "\n</parameter>\n"], "\n</tool_call>");
    tags("<tool_call>", "", function, ["<parameter=", ">\n", "\n</parameter>\n"], "");
    tags(
        "<tool_call>",
        "",
        ["<tool_call>f\n", "</tool_call>"],
        ["<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"],
        "",
    );
    tags(
        "<seed:tool_call>",
        "<seed:tool_call>\n",
        function,
        ["<parameter=", ">", "</parameter>\n"],
        "</seed:tool_call>",
    );
    let parameter = ["<parameter name=\"", "\">", "</parameter>\n"];
    tags(
        "<minimax:tool_call>",
        "<minimax:tool_call>\n",
        ["<invoke name=\"f\">\n", "</invoke>"],
        parameter,
        "\n</minimax:tool_call>",
    );
    let parameter = ["<｜DSML｜parameter name=\"", "\" string=\"S\">", "</｜DSML｜parameter>\n"];
    let invoke = ["<｜DSML｜invoke name=\"f\">\n", "</｜DSML｜invoke>\n"];
    tags("｜DSML｜", "<｜DSML｜function_calls>\n", invoke, parameter, "</｜DSML｜function_calls>");
    let function = ["<function name=\"f\">", "</function>"];
    tags("<function name=", "", function, ["<param name=\"", "\">", "</param>"], "");
    tags("<function name=", "", function, ["<param name=\"", "\"><![CDATA[", "]]></param>"], "");
    ways
}

/// Arguments of `parts` parts.
fn shapes(parts: usize) -> Vec<(&'static str, Value)> {
    let all = || 0..parts;
    let numbered = |value: &dyn Fn(usize) -> Value| all().map(|i| (format!("k{i}"), value(i))).collect::<Map<_, _>>();
    let nest = |levels: usize| (0..levels).fold(json!([7, "x"]), |inner, _| json!([inner, 1]));
    vec![
        ("a string", json!({ "text": all().map(|i| format!("day {i}, ")).collect::<String>() + "." })),
        ("a string with quotes", json!({ "text": "a \"b\" \\ c\td\ne\u{1F600}ü格 </ ".repeat(parts) + "." })),
        ("a string or null", json!({ "maybe": "a long day, ".repeat(parts) + "." })),
        ("numbers", json!({ "numbers": all().map(|i| json!(i * 3)).chain([json!(-1.5e-3)]).collect::<Vec<_>>() })),
        ("keys", json!({ "keys": numbered(&|i| json!(i)) })),
        (
            "lists in objects",
            json!({ "deep": all().map(|i| json!({ "a": [i, { "b": format!("x{i}"), "c": true }], "d": null })).collect::<Vec<_>>() }),
        ),
        ("levels", json!({ "deep": all().map(|i| nest(i % 20)).collect::<Vec<_>>() })),
        ("arguments", Value::Object(numbered(&|i| if i % 2 == 0 { json!(i) } else { json!(format!("v {i}")) }))),
        (
            "tags in strings",
            json!({ "tags": all().map(|i| ["</parameter>", "</arg_value>", "</param>", "</｜DSML｜parameter>", "a\\\""][i % 5]).collect::<Vec<_>>() }),
        ),
        ("no arguments", json!({})),
    ]
}

fn offered() -> Vec<Tool> {
    let properties = json!({
        "text": { "type": "string" },
        "maybe": { "type": ["string", "null"] },
        "numbers": { "type": "array" },
        "keys": { "type": "object" },
        "deep": { "type": "array" },
        "tags": { "type": "array" },
    });
    vec![Tool {
        name: "f".to_owned(),
        parameters: json!({ "type": "object", "properties": properties }),
        strict: false,
    }]
}

/// The message that is parsed of a text in pieces of `length()` characters.
fn read(marks: &str, tools: Vec<Tool>, text: &str, mut length: impl FnMut() -> usize) -> Message {
    let mut parser = Parser::new(Formats::of(marks, []), tools, "");
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.char_indices().nth(length()).map_or(rest.len(), |(at, _)| at));
        parts.extend(parser.push(piece));
        rest = after;
    }
    parts.extend(parser.finish());
    message(&parts)
}

fn arguments(message: &Message) -> Vec<Value> {
    message
        .calls
        .iter()
        .map(|call| serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::from(&*call.arguments)))
        .collect()
}

/// Whole, by pieces, cut off, and with a character that is wrong.
#[test]
fn calls_of_many_parts_are_the_same_however_they_are_cut() {
    let mut next = random(5);
    for way in ways() {
        for (shape, given) in shapes(5) {
            for count in if way.between.is_some() { 1..=2 } else { 1..=1 } {
                let calls = vec![given.clone(); count];
                let text = way.write(&calls);
                let whole = read(way.marks, offered(), &text, || usize::MAX);
                assert_eq!((arguments(&whole), whole.content.trim()), (calls, ""), "{shape}: {text}");
                for length in [1, 2, 3, 4, 7] {
                    assert_eq!(
                        read(way.marks, offered(), &text, || length),
                        whole,
                        "{shape}, pieces of {length}: {text}"
                    );
                }
                for _ in 0..8 {
                    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
                    let at = places[next() as usize % places.len()];
                    let wrong = [
                        "\"",
                        "\\",
                        "\\u12",
                        "\\x",
                        "}",
                        "]",
                        ")",
                        "<",
                        ",",
                        ":",
                        "\n",
                        "x",
                        "'",
                        " ",
                        "\u{1F600}",
                        "",
                    ][next() as usize % 16];
                    let after = &text[at + text[at..].chars().next().unwrap().len_utf8()..];
                    for text in [text[..at].to_owned(), format!("{}{wrong}{after}", &text[..at])] {
                        let whole = read(way.marks, offered(), &text, || usize::MAX);
                        assert_eq!(read(way.marks, offered(), &text, || 1), whole, "{shape}: {text}");
                        let cut = || 1 + next() as usize % 9;
                        assert_eq!(read(way.marks, offered(), &text, cut), whole, "{shape}: {text}");
                    }
                }
            }
        }
    }
}

/// In texts that come four characters at a time, each character is visited a few times, not once for each piece.
#[test]
fn calls_of_many_parts_are_read_once() {
    let work = |marks: &str, tools: Vec<Tool>, text: &str| {
        let before = looked_at();
        let message = read(marks, tools, text, || 4);
        let looked = looked_at() - before;
        assert!(looked <= 20 * text.len(), "{looked} of {}: {:.100}", text.len(), text);
        message
    };
    for way in ways() {
        let many = || vec![json!({ "numbers": [1] }); if way.between.is_some() { 400 } else { 1 }];
        for calls in shapes(600).into_iter().map(|(_, given)| vec![given]).chain([many()]) {
            let text = way.write(&calls);
            let message = work(way.marks, offered(), &text);
            assert!(arguments(&message) == calls, "{:.100}: {:.300}", text, format!("{message:?}"));
        }
    }
    // One long part, or nested values.
    let long = "9".repeat(20_000);
    let program = vec![Tool { name: "python".to_owned(), parameters: json!({}), strict: false }];
    for (marks, tools, text) in [
        (
            "<tool_call>",
            offered(),
            format!("<tool_call>{{\"name\": \"f\", \"arguments\": {{\"numbers\": [0.{long}]}}}}</tool_call>"),
        ),
        ("<|tool_call_start|>", offered(), format!("<|tool_call_start|>[f(numbers=[0.{long}])]<|tool_call_end|>")),
        ("<|tool_call_start|>", offered(), format!("<|tool_call_start|>[f(numbers={}", "[".repeat(50_000))),
        ("<|tool_call>", offered(), format!("<|tool_call>call:f{{numbers:{}", "[{a:".repeat(20_000))),
        (
            "<tool_call>",
            offered(),
            format!("<tool_call><function=f><parameter=k{long}>1</parameter></function></tool_call>"),
        ),
        ("<|python_tag|>", program, format!("<|python_tag|>print(\"{long}\")")),
    ] {
        assert_eq!(work(marks, tools, &text).calls.len(), 1, "{text:.100}");
    }
}

/// Processor time of a megabyte of arguments, a token of four characters at a time, compared with the same text without
/// tools. The goal is twice as much; lists of numbers, which cost most, took three times as much before each part was
/// parsed once.
#[test]
#[ignore = "measures processor time"]
fn calls_cost_little_more_than_twice_their_text() {
    for way in ways() {
        for (shape, parts) in [("numbers", 150_000), ("keys", 75_000)] {
            let given = shapes(parts).into_iter().find(|(known, _)| *known == shape).unwrap().1;
            let text = way.write(&[given]);
            let took = |tools: &dyn Fn() -> Vec<Tool>| {
                crate::common::worked(|| (0..4).for_each(|_| drop(read(way.marks, tools(), &text, || 4)))).1
            };
            let (with, without) = (took(&offered), took(&Vec::new));
            println!("{} {shape}: {} bytes, {:.2} times", way.marks, text.len(), with / without);
            assert!(with <= 2.5 * without, "{} {shape}: {with} s, {without} without tools", way.marks);
        }
    }
}
