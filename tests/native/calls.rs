//! Calls and thoughts in models' outputs: published outputs of 49 templates, whole, by character, and in random pieces.

use std::collections::BTreeMap;

use millrace::text::calls::{Formats, Parser, Part, Tool};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
pub struct Vectors {
    pub tools: BTreeMap<String, Offered>,
    pub templates: BTreeMap<String, Template>,
}

#[derive(Deserialize)]
pub struct Offered {
    pub name: String,
    pub parameters: Value,
}

#[derive(Deserialize)]
pub struct Template {
    pub marks: Vec<String>,
    pub cases: Vec<Case>,
}

#[derive(Deserialize)]
pub struct Case {
    pub text: String,
    pub tools: Vec<String>,
    /// Whether llama.cpp was asked to separate thoughts; this engine always does.
    pub thoughts: bool,
    pub partial: bool,
    /// Whether the answer was bound to a schema, where llama.cpp drops a fence around it.
    pub schema: bool,
    pub expect: Message,
    pub prompt: String,
}

#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
pub struct Message {
    pub content: String,
    pub reasoning: String,
    pub calls: Vec<Call>,
}

#[derive(Deserialize, Debug, Default, Clone, PartialEq)]
pub struct Call {
    pub name: String,
    pub arguments: String,
    pub id: Option<String>,
}

pub fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../data/calls/vectors.json")).unwrap()
}

/// The parts put together. Calls begin in order, grow, and end once.
pub fn message(parts: &[Part]) -> Message {
    let mut message = Message::default();
    let mut ended = Vec::new();
    for part in parts {
        match part {
            Part::Content { text } => message.content.push_str(text),
            Part::Reasoning { text } => message.reasoning.push_str(text),
            Part::ToolCall { index, id, name } => {
                assert_eq!(*index, message.calls.len());
                message.calls.push(Call { name: name.clone(), id: id.clone(), arguments: String::new() });
                ended.push(false);
            }
            Part::Arguments { index, text } => {
                assert!(!ended[*index]);
                message.calls[*index].arguments.push_str(text);
            }
            Part::ToolCallEnd { index } => assert!(!std::mem::replace(&mut ended[*index], true)),
        }
    }
    assert!(ended.iter().all(|ended| *ended), "each call ends");
    message
}

/// Arguments as values, text without the white space around it.
fn normal(message: &Message) -> Message {
    let argument = |text: &String| {
        serde_json::from_str::<Value>(text).map_or_else(|_| text.trim_end().to_owned(), |value| value.to_string())
    };
    let calls =
        message.calls.iter().map(|call| Call { arguments: argument(&call.arguments), ..call.clone() }).collect();
    Message { content: message.content.trim().to_owned(), reasoning: message.reasoning.trim().to_owned(), calls }
}

fn parse<'a>(parser: &mut Parser, pieces: impl Iterator<Item = &'a str>) -> Message {
    let mut parts: Vec<Part> = pieces.flat_map(|piece| parser.push(piece)).collect();
    parts.extend(parser.finish());
    message(&parts)
}

/// The pieces of a text of up to `length()` characters each.
fn pieces(text: &str, mut length: impl FnMut() -> usize) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let at = rest.char_indices().nth(length()).map_or(rest.len(), |(at, _)| at);
        let (piece, after) = rest.split_at(at);
        out.push(piece);
        rest = after;
    }
    out
}

pub fn random(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

/// Why the expected result differs from llama.cpp's, if it does.
pub fn differs(template: &str, case: &Case) -> Option<&'static str> {
    let text = &case.text;
    match template {
        _ if !case.thoughts
            && (case.expect.content.contains("think")
                || case.expect.content.contains("THINK")
                || case.expect.content.contains("analysis")) =>
        {
            Some("llama.cpp was asked to leave thoughts in the text")
        }
        _ if text.trim_start().starts_with("world!\nWhat's up?") || text.starts_with(" thinking") => {
            Some("an answer that the prompt has begun")
        }
        "MiniMax-M3" if text.contains("<label>]<]minimax[>[<text>") => {
            Some("what has tags within is an object, also where a string may be")
        }
        "LFM2-8B-A1B" if text.contains(r"\n") => Some("a string of Python's has Python's escapes"),
        "Apriel-1.6-15b-Thinker-fixed" => Some("what the prompt has said is not said again"),
        "NVIDIA-Nemotron-Nano-v2" if text.ends_with("<SPECIAL_12>") => {
            Some("special tokens come as such, and are not said")
        }
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B" if !text.contains("</think>") => {
            Some("a thought that the prompt has opened and nobody has closed is one")
        }
        _ if case.schema && text.contains("```json") => Some("a fence is not taken away"),
        _ if text.starts_with("<think>\n\n</think>") && case.expect.reasoning.contains("<think>") => {
            Some("a thought that is opened again is opened once")
        }
        _ => None,
    }
}

#[test]
fn published_outputs_are_told_apart_however_they_are_cut() {
    let Vectors { tools, templates } = vectors();
    let (mut cases, mut right, mut calls, mut found) = (0, 0, 0, 0);
    let mut wrong = Vec::new();
    for (name, template) in &templates {
        let formats = Formats::of(&template.marks.join("\n"), []);
        for case in &template.cases {
            if differs(name, case).is_some() {
                continue;
            }
            cases += 1;
            calls += usize::from(!case.expect.calls.is_empty());
            let offered: Vec<Tool> = case
                .tools
                .iter()
                .map(|tool| &tools[tool])
                .map(|tool| Tool { name: tool.name.clone(), parameters: tool.parameters.clone(), strict: false })
                .collect();
            let parser = || Parser::new(formats.clone(), offered.clone(), &case.prompt);
            let whole = parse(&mut parser(), [case.text.as_str()].into_iter());
            let single = parse(&mut parser(), pieces(&case.text, || 1).into_iter());
            assert_eq!(whole, single, "{name}: {:?}", case.text);
            for seed in 0..8 {
                let mut next = random(seed + 1);
                let cut = pieces(&case.text, || 1 + (next() % 9) as usize);
                assert_eq!(parse(&mut parser(), cut.into_iter()), whole, "{name}, seed {seed}: {:?}", case.text);
            }
            if normal(&whole) == normal(&case.expect)
                || case.partial
                    && normal(&whole).calls.len() == case.expect.calls.len()
                    && normal(&whole).reasoning == case.expect.reasoning.trim()
            {
                right += 1;
                found += usize::from(!case.expect.calls.is_empty());
            } else {
                wrong.push(format!(
                    "{name}: {:?}\n  prompt {:?}\n  is     {:?}\n  wanted {:?}",
                    case.text,
                    case.prompt,
                    normal(&whole),
                    normal(&case.expect)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {cases} differ; with calls {found} of {calls} are right; {right}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let all: usize = templates.values().map(|template| template.cases.len()).sum();
    assert_eq!((all, cases, calls), (360, 276, 193), "cases, those that are compared, those with calls");
}

/// A call of each template with a text of a megabyte among its arguments, a few characters at a time. Text is not
/// parsed again with each piece: that would take hours.
#[test]
fn long_arguments_are_read_once_in_every_format() {
    let Vectors { tools, templates } = vectors();
    let mut tried = Vec::new();
    for (name, template) in &templates {
        let formats = Formats::of(&template.marks.join("\n"), []);
        let long = "a long day, ".repeat((1 << 20) / 12);
        let grown =
            template.cases.iter().filter(|case| differs(name, case).is_none() && !case.partial).find_map(|case| {
                let arguments: Value = serde_json::from_str(&case.expect.calls.last()?.arguments).ok()?;
                let (key, text) = arguments
                    .as_object()?
                    .iter()
                    .find_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))?;
                let once = text.len() > 3
                    && text.chars().all(|c| c.is_ascii_alphanumeric() || c == ' ')
                    && case.text.matches(&text).count() == 1;
                once.then_some((case, key, text))
            });
        let Some((case, key, text)) = grown else { continue };
        let offered: Vec<Tool> = case.tools.iter().map(|name| tool(name, tools[name].parameters.clone())).collect();
        let mut parser = Parser::new(formats, offered, &case.prompt);
        let answer = case.text.replace(&text, &long);
        let message = parse(&mut parser, pieces(&answer, || 4).into_iter());
        let mut arguments: Value = serde_json::from_str(&case.expect.calls.last().unwrap().arguments).unwrap();
        arguments[key] = long.clone().into();
        let read = message.calls.last().map(|call| serde_json::from_str::<Value>(&call.arguments).unwrap_or_default());
        assert!(read.as_ref() == Some(&arguments), "{name}: {:.300}", format!("{read:?}"));
        tried.push(name);
    }
    assert!(tried.len() > 8, "{tried:?}");
    let long = "a long day, ".repeat((1 << 20) / 12);
    for (marks, before, after) in [
        ("<tool_call>", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"", "\"}}</tool_call>"),
        ("[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"", "\"}}]"),
        ("<|tool_call|>", "<|tool_call|>[{\"name\": \"get_weather\", \"arguments\": {\"city\": \"", "\"}}]"),
        ("<|tool_call_start|>", "<|tool_call_start|>[get_weather(city='", "')]<|tool_call_end|>"),
    ] {
        let mut parser = Parser::new(Formats::of(marks, []), weather(), "");
        let message = parse(&mut parser, pieces(&format!("{before}{long}{after}"), || 4).into_iter());
        let read: Vec<Value> =
            message.calls.iter().map(|call| serde_json::from_str(&call.arguments).unwrap()).collect();
        assert!(read == [json!({ "city": long })], "{marks}: {:.300}", format!("{message:?}"));
    }
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.to_owned(), parameters, strict: false }
}

fn weather() -> Vec<Tool> {
    let city = json!({ "type": "object", "properties": { "city": { "type": "string" }, "days": { "type": "integer" } }, "required": ["city"] });
    vec![
        tool("get_weather", city),
        tool("get_time", json!({ "type": "object", "properties": {} })),
        tool("code_interpreter", json!({})),
    ]
}

/// The parsed output of a model with these marks in its template, after this end of its prompt: the text, the thoughts,
/// and each call's name and arguments.
fn said(marks: &str, prompt: &str, text: &str) -> (String, String, Vec<(String, String)>) {
    let parser = || Parser::new(Formats::of(marks, []), weather(), prompt);
    let whole = parse(&mut parser(), [text].into_iter());
    for length in [1, 2, 3, 7] {
        assert_eq!(parse(&mut parser(), pieces(text, || length).into_iter()), whole, "pieces of {length}: {text:?}");
    }
    let message = normal(&whole);
    (message.content, message.reasoning, message.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
}

/// Formats that the published outputs do not show, as the templates and cards of their models describe them; and calls
/// that are cut off, calls of tools that were not offered, and calls beside text.
#[test]
fn further_formats_and_edges() {
    const BERLIN: &str = r#"{"city":"Berlin"}"#;
    let one = || vec![("get_weather".to_owned(), BERLIN.to_owned())];
    let two = || vec![("get_weather".to_owned(), BERLIN.to_owned()), ("get_time".to_owned(), "{}".to_owned())];
    let call = r#"{"name": "get_weather", "arguments": {"city": "Berlin"}}"#;
    let time = r#"{"name": "get_time", "arguments": {}}"#;
    type Wanted<'a> = &'a dyn Fn() -> Vec<(String, String)>;
    let calls: &[(&str, String, Wanted)] = &[
        // SmolLM2, Granite 3, Phi-4-mini.
        ("<tool_call>", format!("<tool_call>[{call}, {time}]</tool_call>"), &two),
        ("<|tool_call|>", format!("<|tool_call|>[{call},{time}]"), &two),
        ("<|tool_call|>", format!("<|tool_call|>[{call}]<|/tool_call|><|tool_call|>[{time}]<|/tool_call|>"), &two),
        ("<|tool_call|>", format!("<|tool_call|>{call}<|/tool_call|>"), &one),
        // Llama 3.1 to 3.3.
        ("<|python_tag|>", r#"{"name": "get_weather", "parameters": {"city": "Berlin"}}"#.to_owned(), &one),
        ("<|python_tag|>", r#"<|python_tag|>{"type": "function", "name": "get_weather", "parameters": {"city": "Berlin"}}"#.to_owned(), &one),
        (
            "<|python_tag|>",
            r#"<|python_tag|>{"name": "get_weather", "parameters": {"city": "Berlin"}}; {"name": "get_time", "parameters": {}}"#.to_owned(),
            &two,
        ),
        ("<|python_tag|>", r#"<|python_tag|>get_weather.call(city="Berlin")"#.to_owned(), &one),
        ("<|python_tag|>", "[get_weather(city='Berlin'), get_time()]".to_owned(), &two),
        ("<function=", r#"<function=get_weather>{"city": "Berlin"}</function>"#.to_owned(), &one),
        // FunctionGemma.
        ("<start_function_call>", "<start_function_call>call:get_weather{city:<escape>Berlin<escape>}<end_function_call>".to_owned(), &one),
        // Plain JSON, in a fence, in sequence; arguments before the name, and as a string.
        ("", call.to_owned(), &one),
        ("", format!("```json\n{call}\n```"), &one),
        ("", format!("```json\n[{call}, {time}]\n```"), &two),
        ("", format!("{call}\n{time}"), &two),
        ("", r#"{"arguments": {"city": "Berlin"}, "name": "get_weather"}"#.to_owned(), &one),
        ("", r#"{"function": {"name": "get_weather", "arguments": "{\"city\": \"Berlin\"}"}, "type": "function", "id": "a"}"#.to_owned(), &one),
        // A tag that is not closed, and one that was forgotten.
        ("<tool_call>", format!("<tool_call>\n{call}"), &one),
        ("<tool_call>", "<function=get_weather>\n<parameter=city>\nBerlin\n</parameter>\n</function>\n</tool_call>".to_owned(), &one),
        ("<tool_call>", call.to_owned(), &one),
    ];
    for (marks, text, wanted) in calls {
        assert_eq!(said(marks, "", text), (String::new(), String::new(), wanted()), "{text}");
    }
    let text = |marks: &str, text: &str| said(marks, "", text);
    // Text before and between.
    let (content, _, found) = text(
        "<tool_call>",
        &format!("Let me see.\n\n<tool_call>\n{call}\n</tool_call>\nAnd the time:\n<tool_call>{time}</tool_call>"),
    );
    assert_eq!((content.as_str(), found), ("Let me see.And the time:", two()));
    let (content, _, found) = text("[TOOL_CALLS]", &format!("I look.[TOOL_CALLS][{call}]"));
    assert_eq!((content.as_str(), found), ("I look.", one()));
    // Calls of tools that were not offered, other text, and JSON as an answer stay text, to the letter.
    for (marks, answer) in [
        ("<tool_call>", r#"<tool_call>{"name": "rm", "arguments": {}}</tool_call>"#),
        ("<tool_call>", "The tag <tool_call> begins a call, and </tool_call> ends it."),
        ("<tool_call>", "<tool_call>get_weathers</tool_call>"),
        ("<|python_tag|>", r#"{"amount": 12, "name": "get_weather"}"#),
        ("", r#"[1, 2, 3] and {"a": [get_weather]} and {"name":"#),
        ("", "```json\n{\"amount\": 1}\n```"),
        ("", "[get_weather] (see above), {x}, [x](y)"),
        ("<tool_call>", "Here it is: {\"name\": \"get_weather\", \"arguments\": {}}"),
    ] {
        assert_eq!(text(marks, answer), (answer.to_owned(), String::new(), Vec::new()), "{answer}");
    }
    // Cut off by the limit: the part that has come is there, and the call ends.
    let (_, _, found) = text("<tool_call>", "<tool_call>{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ber");
    assert_eq!(found, [("get_weather".to_owned(), "{\"city\": \"Ber".to_owned())]);
    assert_eq!(text("<tool_call>", "<tool_call>{\"name\": \"get_wea").0, "<tool_call>{\"name\": \"get_wea");
    // A program for the interpreter.
    let (_, _, found) = text("<|python_tag|>", "<|python_tag|>print(\"a\")\n");
    assert_eq!(found, [("code_interpreter".to_owned(), r#"{"code":"print(\"a\")\n"}"#.to_owned())]);
}

#[test]
fn thoughts_follow_from_the_prompt() {
    let cases = [
        ("", "<think>\n", "I see.\n</think>\n\nHello", "Hello", "I see."),
        ("", "<think>\n\n</think>\n\n", "Hello", "Hello", ""),
        ("", "", "<think>\nI see.\n</think>\n\nHello", "Hello", "I see."),
        ("", "<think>\n", "<think>\nI see.</think>Hello", "Hello", "I see."),
        ("", "<think>\n", "I see", "", "I see"),
        ("", "", "Hello <think> there", "Hello <think> there", ""),
        ("[THINK]", "", "[THINK]I see.[/THINK]Hello", "Hello", "I see."),
        ("<response>", "", "<think>I see.</think><response>Hello</response>", "Hello", "I see."),
        ("<seed:think>", "", "<seed:think>I see.</seed:think>Hello", "Hello", "I see."),
        (
            "<|START_THINKING|>",
            "<|START_THINKING|>",
            "I see.<|END_THINKING|><|START_RESPONSE|>Hello<|END_RESPONSE|>",
            "Hello",
            "I see.",
        ),
        (
            "[BEGIN FINAL RESPONSE]",
            "Here are my reasoning steps:\n",
            "I see.\n[BEGIN FINAL RESPONSE]\nHello\n[END FINAL RESPONSE]",
            "Hello",
            "I see.",
        ),
        (
            "<|channel|>",
            "<|start|>assistant",
            "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>final<|message|>Hello<|return|>",
            "Hello",
            "I see.",
        ),
        ("<|channel>", "<|turn>model\n", "<|channel>thought\nI see.\n<channel|>Hello", "Hello", "I see."),
    ];
    for (marks, prompt, text, content, reasoning) in cases {
        assert_eq!(
            said(marks, prompt, text),
            (content.to_owned(), reasoning.to_owned(), Vec::new()),
            "{text:?} after {prompt:?}"
        );
    }
}

/// A closing tag within a JSON string belongs to the string.
#[test]
fn json_in_tags_may_hold_the_closing_tag() {
    let lists = vec![tool(
        "f",
        json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "type": "string" } } } }),
    )];
    let text = "<tool_call><function=f><parameter=a>[\"</parameter>\", \"b\"]</parameter></function></tool_call>";
    for length in [1, 5, 500] {
        let mut parser = Parser::new(Formats::of("<tool_call>", []), lists.clone(), "");
        let message = normal(&parse(&mut parser, pieces(text, || length).into_iter()));
        assert_eq!(message.calls[0].arguments, r#"{"a":["</parameter>","b"]}"#);
    }
}

/// Special tokens are passed separately: a format's own are parsed, others are dropped; the same letters in the text
/// are text.
#[test]
fn special_tokens_are_read_or_dropped() {
    let mut parser = Parser::new(Formats::of("", ["<|tool_call_start|>", "<|im_end|>"]), weather(), "");
    let mut parts = parser.push("Look: ");
    parts.extend(parser.special("<|tool_call_start|>"));
    parts.extend(parser.push("[get_weather(city=\"Berlin\")]"));
    parts.extend(parser.special("<|tool_call_end|>"));
    parts.extend(parser.special("<|im_end|>"));
    parts.extend(parser.push(" and <|im_end|>"));
    parts.extend(parser.special("<|tool_call_end|>"));
    parts.extend(parser.finish());
    let Message { content, calls, .. } = message(&parts);
    assert_eq!((content.as_str(), calls.len()), ("Look:and <|im_end|>", 1));
}

/// Random marks, halves of marks, quotes and letters: nothing panics, the breaks between pieces make no difference, and
/// text without marks comes at once.
#[test]
fn nothing_at_random_panics_or_is_held_back() {
    let Vectors { templates, .. } = vectors();
    let marks: Vec<&str> = templates.values().flat_map(|template| &template.marks).map(String::as_str).collect();
    let all = marks.join("\n");
    let words = [
        "get_weather",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ":",
        ",",
        "name",
        "arguments",
        "\\",
        "\n",
        " ",
        "ü",
        "格",
        "(",
        ")",
        "=",
        "'",
        "</",
        "city",
        "1",
        "\u{1F600}",
    ];
    for seed in 0..3000 {
        let mut next = random(seed + 99);
        let mut text = String::new();
        for _ in 0..next() % 40 {
            let mark = marks[(next() % marks.len() as u64) as usize];
            match next() % 4 {
                0 => text.push_str(mark),
                1 => text.push_str(&mark.chars().take((next() % 6) as usize).collect::<String>()),
                _ => text.push_str(words[(next() % words.len() as u64) as usize]),
            }
        }
        let formats = Formats::of(if seed % 2 == 0 { &all } else { marks[(next() % marks.len() as u64) as usize] }, []);
        let parser = || Parser::new(formats.clone(), weather(), "");
        let whole = parse(&mut parser(), [text.as_str()].into_iter());
        assert_eq!(parse(&mut parser(), pieces(&text, || 1).into_iter()), whole, "seed {seed}: {text:?}");
        let cut = pieces(&text, || 1 + (next() % 12) as usize);
        assert_eq!(parse(&mut parser(), cut.into_iter()), whole, "seed {seed}: {text:?}");
    }
    let mut parser = Parser::new(Formats::of(&all, []), weather(), "");
    let text =
        "A line of text, with words (and more of them); 1 < 2, x > y.\n\nAnother one: `code`, \"quoted\". ".repeat(20);
    let (mut given, mut got) = (0, 0);
    for piece in pieces(&text, || 3) {
        given += piece.len();
        for part in parser.push(piece) {
            let Part::Content { text } = part else { panic!("{part:?}") };
            got += text.len();
        }
        assert!(given - got <= 16, "{} bytes wait at {given}", given - got);
    }
    parser.finish();
}

fn offered(name: &str, properties: Value) -> Vec<Tool> {
    let parameters = json!({ "type": "object", "properties": properties });
    vec![Tool { name: name.to_owned(), parameters, strict: false }]
}

fn heard(marks: &str, tools: &[Tool], text: &str, piece: usize) -> Message {
    let mut parser = Parser::new(Formats::of(marks, []), tools.to_vec(), "");
    let mut parts = Vec::new();
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(piece).for_each(|piece| parts.extend(parser.push(&piece.iter().collect::<String>())));
    parts.extend(parser.finish());
    message(&parts)
}

/// The message of a text, which is the same for pieces of every length.
fn heard_anyhow(marks: &str, tools: &[Tool], text: &str) -> Message {
    let whole = heard(marks, tools, text, usize::MAX);
    for piece in 1..8 {
        assert_eq!(heard(marks, tools, text, piece), whole, "{text}, by {piece}");
    }
    whole
}

/// A call of `NAME` with an argument `q` that is "a", in every format.
const NAMED: [(&str, &str); 19] = [
    ("<tool_call>", "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"q\": \"a\"}}\n</tool_call>"),
    (
        "<tool_call> <function=",
        "<tool_call>\n<function=NAME>\n<parameter=q>\na\n</parameter>\n</function>\n</tool_call>",
    ),
    ("<tool_call> <arg_key>", "<tool_call>NAME\n<arg_key>q</arg_key>\n<arg_value>a</arg_value>\n</tool_call>"),
    ("<|tool_call>", "<|tool_call>call:NAME{q:<|\"|>a<|\"|>}<tool_call|>"),
    ("", "{\"name\": \"NAME\", \"parameters\": {\"q\": \"a\"}}"),
    ("", "[NAME(q='a')]"),
    ("<|python_tag|>", "<|python_tag|>NAME.call(q=\"a\")"),
    ("[TOOL_CALLS] [ARGS]", "[TOOL_CALLS]NAME[ARGS]{\"q\": \"a\"}"),
    ("[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"NAME\", \"arguments\": {\"q\": \"a\"}, \"id\": \"abcdefghi\"}]"),
    ("<|tool_call_start|>", "<|tool_call_start|>[NAME(q=\"a\")]<|tool_call_end|>"),
    (
        "<|tool_call_begin|>",
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{\"q\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
    ),
    ("<|tools_prefix|>", "<|tools_prefix|>[{\"NAME\": {\"q\": \"a\"}}]<|tools_suffix|>"),
    (
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{\"q\": \"a\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        "｜DSML｜",
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"NAME\">\n<｜DSML｜parameter name=\"q\" string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    ),
    (
        "<minimax:tool_call>",
        "<minimax:tool_call>\n<invoke name=\"NAME\">\n<parameter name=\"q\">a</parameter>\n</invoke>\n</minimax:tool_call>",
    ),
    (
        "<seed:tool_call>",
        "<seed:tool_call>\n<function=NAME>\n<parameter=q>a</parameter>\n</function>\n</seed:tool_call>",
    ),
    ("<|channel|>", "<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{\"q\": \"a\"}<|call|>"),
    (">>>all", ">>>NAME\n{\"q\": \"a\"}"),
    (
        "]<]minimax[>[",
        "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"NAME\">]<]minimax[>[<q>a]<]minimax[>[</q>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    ),
];

/// Names with all characters that MCP and OpenAI allow, and letters of other scripts; also where one tool's name is a
/// prefix of another's.
#[test]
fn names_have_the_characters_that_servers_give_them() {
    for name in [
        "google-workspace:list_events",
        "user-profile/update",
        "admin.tools.list",
        "mcp__srv-1__get",
        "größe",
        "a",
        "9",
        "X@y",
        "list:0",
        "fs.read/write:v2+x",
    ] {
        for (marks, text) in NAMED {
            let mut tools = offered(name, json!({ "q": { "type": "string" } }));
            tools.extend(offered(&format!("{name}_2"), json!({})));
            tools.extend(offered(&name[..name.char_indices().nth(1).map_or(1, |(at, _)| at)], json!({})));
            let text = text.replace("NAME", name);
            let heard = heard_anyhow(marks, &tools, &text);
            let called: Vec<_> =
                heard.calls.iter().map(|call| (call.name.as_str(), call.arguments.replace(' ', ""))).collect();
            assert_eq!((called, heard.content.trim()), (vec![(name, "{\"q\":\"a\"}".to_owned())], ""), "{text}");
        }
    }
    // As JSON may write them.
    for (name, written) in [("user-profile/update", r"user-profile\/update"), ("größe", r"gr\u00f6\u00dfe")] {
        let text = format!("<tool_call>{{\"name\": \"{written}\", \"arguments\": {{}}}}</tool_call>");
        assert_eq!(heard_anyhow("<tool_call>", &offered(name, json!({})), &text).calls[0].name, name);
    }
    let refused = millrace::text::calls::check_names(&offered("two words", json!({}))).unwrap_err();
    assert!(refused.code() == "BAD_OPTION" && refused.message().contains("two words"), "{refused}");
}

/// Formats have names, in options and in results.
#[test]
fn formats_have_names() {
    let names: Vec<_> = NAMED
        .iter()
        .map(|(marks, text)| {
            let mut parser = Parser::new(Formats::of(marks, []), Vec::new(), "").with_any_tool();
            let parts = [parser.push(&text.replace("NAME", "f")), parser.finish()].concat();
            assert_eq!(message(&parts).calls.len(), 1, "{text}");
            parser.format()
        })
        .collect();
    let expected = "hermes qwen3-coder glm gemma4 json llama3 llama3 mistral mistral lfm2 kimi apertus deepseek deepseek minimax seed harmony functionary minimax";
    assert_eq!(names.join(" "), expected);
    for (name, (_, text)) in names.iter().zip(NAMED).filter(|(name, _)| **name != "apertus") {
        let mut parser = Parser::new(Formats::of("", []).only(name).unwrap(), Vec::new(), "").with_any_tool();
        let parts = [parser.push(&text.replace("NAME", "f")), parser.finish()].concat();
        assert_eq!((message(&parts).calls.len(), parser.format()), (1, *name), "{text}");
        assert_eq!(Formats::of("", []).only(name).unwrap().name(), *name);
    }
    let error = Formats::of("", []).only("banana").unwrap_err();
    assert!(error.code() == "BAD_OPTION" && error.message().contains("hermes, qwen3-coder"), "{error}");
}

/// A value is converted to the type of its schema where it can be.
#[test]
fn values_of_tags_and_of_python_have_the_types_of_their_schemas() {
    let of = |schema: &Value| offered("f", json!({ "v": schema, "w": { "type": "string" } }));
    let integer = json!({ "type": "integer" });
    let number = json!({ "type": "number" });
    let boolean = json!({ "type": "boolean" });
    let list = json!({ "type": "array" });
    let object = json!({ "type": "object" });
    let text = json!({ "type": "string" });
    let maybe = json!({ "type": ["integer", "null"] });
    let either = json!({ "anyOf": [{ "type": "boolean" }, { "type": "null" }] });
    // The schema, the text in a tag, and its value.
    for (schema, written, means) in [
        (&integer, "5", json!(5)),
        (&integer, " 5 ", json!(5)),
        (&integer, "\"5\"", json!(5)),
        (&integer, "'5'", json!(5)),
        (&integer, "", json!(null)),
        (&number, "-1.5e3", json!(-1.5e3)),
        (&boolean, "True", json!(true)),
        (&boolean, "FALSE", json!(false)),
        (&boolean, "'true'", json!(true)),
        (&boolean, "\"False\"", json!(false)),
        (&either, "None", json!(null)),
        (&maybe, "None", json!(null)),
        (&maybe, "", json!(null)),
        (&maybe, "null", json!(null)),
        (&list, "['a', \"b\", True, None]", json!(["a", "b", true, null])),
        (&list, "(1, 2)", json!([1, 2])),
        (&list, "[1, \"x\"]", json!([1, "x"])),
        (&list, "", json!([])),
        (&object, "{'a': {'b': False}}", json!({ "a": { "b": false } })),
        (&object, "\"{\\\"a\\\": 1}\"", json!({ "a": 1 })),
        (&object, "", json!({})),
        (&text, "5", json!("5")),
        (&text, "True", json!("True")),
        (&text, "'x'", json!("'x'")),
        (&text, "", json!("")),
        // Nothing fits: the text is kept.
        (&integer, "five", json!("five")),
        (&boolean, "7", json!(7)),
    ] {
        for (marks, around) in [
            (
                "<tool_call> <function=",
                [
                    "<tool_call>\n<function=f>\n<parameter=v>\n",
                    "\n</parameter>\n<parameter=w>\n5\n</parameter>\n</function>\n</tool_call>",
                ],
            ),
            (
                "<tool_call> <arg_key>",
                [
                    "<tool_call>f\n<arg_key>v</arg_key>\n<arg_value>",
                    "</arg_value>\n<arg_key>w</arg_key>\n<arg_value>5</arg_value>\n</tool_call>",
                ],
            ),
            (
                "<minimax:tool_call>",
                [
                    "<minimax:tool_call><invoke name=\"f\"><parameter name=\"v\">",
                    "</parameter><parameter name=\"w\">5</parameter></invoke></minimax:tool_call>",
                ],
            ),
        ] {
            let answer = format!("{}{written}{}", around[0], around[1]);
            let heard = heard_anyhow(marks, &of(schema), &answer);
            assert_eq!(
                serde_json::from_str::<Value>(&heard.calls[0].arguments).unwrap(),
                json!({ "v": means, "w": "5" }),
                "{schema}: {answer}"
            );
        }
    }
    for (schema, written, means) in [
        (&integer, "5", json!(5)),
        (&integer, "'5'", json!(5)),
        (&boolean, "\"true\"", json!(true)),
        (&boolean, "True", json!(true)),
        (&text, "5", json!("5")),
        (&text, "-1.50", json!("-1.50")),
        (&text, "True", json!("True")),
        (&text, "'x'", json!("x")),
        (&maybe, "None", json!(null)),
        (&list, "\"[1, 2]\"", json!([1, 2])),
        (&list, "[1, '2']", json!([1, "2"])),
        (&object, "{'a': 1}", json!({ "a": 1 })),
        (&integer, "'five'", json!("five")),
    ] {
        for (marks, around) in [
            ("<|tool_call_start|>", ["<|tool_call_start|>[f(v=", ", w=5)]<|tool_call_end|>"]),
            ("<|python_tag|>", ["<|python_tag|>f.call(v=", ",w=5)"]),
        ] {
            let answer = format!("{}{written}{}", around[0], around[1]);
            let heard = heard_anyhow(marks, &of(schema), &answer);
            assert_eq!(
                serde_json::from_str::<Value>(&heard.calls[0].arguments).unwrap(),
                json!({ "v": means, "w": "5" }),
                "{schema}: {answer}"
            );
        }
    }
}

/// Wrong escapes in the JSON of a call are repaired; text behind the call is content.
#[test]
fn wrong_escapes_are_mended() {
    for (written, means) in [
        (r"can\u27t", r"can\u27t"),
        (r"it\u27", r"it\u27"),
        (r"a\'b", "a'b"),
        (r"C:\Dir\x", r"C:\Dir\x"),
        (r"\d+\.\w", r"\d+\.\w"),
        (r"x\ud83d", "x\u{FFFD}"),
        (r"x\ud83dy", "x\u{FFFD}y"),
        (r"x\ud83d\u0041", "x\u{FFFD}A"),
        (r"x\ude00", "x\u{FFFD}"),
        (r#"caf\u00e9 \ud83d\ude00 \"}\" </tool_call> \n"#, "café \u{1F600} \"}\" </tool_call> \n"),
        (r"\u", r"\u"),
        (r"\\u27", r"\u27"),
    ] {
        let text = format!(
            "<tool_call>\n{{\"name\": \"post\", \"arguments\": {{\"body\": \"{written}\"}}}}\n</tool_call>\nDone."
        );
        let heard = heard_anyhow("<tool_call>", &offered("post", json!({ "body": { "type": "string" } })), &text);
        assert_eq!(heard.content.trim(), "Done.", "{text}");
        assert_eq!(
            serde_json::from_str::<Value>(&heard.calls[0].arguments).unwrap(),
            json!({ "body": means }),
            "{text}"
        );
    }
}

/// Wrong escapes, cut calls and nested quotes: each word of an answer occurs once, as text or within arguments,
/// wherever the pieces break.
#[test]
fn no_word_of_a_broken_call_is_lost_or_told_twice() {
    let mut next = random(11);
    let tools = offered("f", json!({ "q": { "type": "string" }, "n": { "type": "integer" } }));
    let broken = [
        "\\",
        "\\u12",
        "\\x",
        "\"",
        "'",
        "{",
        "}",
        "]",
        "\\\"",
        "\n",
        "<",
        "</tool_call>",
        "\\ud800",
        "\u{1F600}",
        ":",
        ",",
    ];
    for round in 0..4000 {
        let (marks, call) = NAMED[next() as usize % NAMED.len()];
        let mut words = 0;
        let mut word = || {
            words += 1;
            format!("w{round}x{words}w")
        };
        let value: String = (0..4).map(|_| format!("{}{}", word(), broken[next() as usize % broken.len()])).collect();
        let mut text = format!(
            "{} {} {}",
            word(),
            call.replace("NAME", "f").replace("\"a\"", &format!("\"{value}\"")).replace(">a<", &format!(">{value}<")),
            word()
        );
        if next().is_multiple_of(3) {
            let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            text.truncate(places[next() as usize % places.len()]);
        }
        let heard = heard(marks, &tools, &text, usize::MAX);
        assert_eq!(heard, self::heard(marks, &tools, &text, 1 + next() as usize % 7), "{text}");
        let told = [heard.content.clone(), heard.reasoning.clone()]
            .into_iter()
            .chain(heard.calls.iter().map(|call| call.arguments.clone()))
            .collect::<String>();
        for n in 1..=words {
            let word = format!("w{round}x{n}w");
            assert_eq!(told.matches(&word).count(), text.matches(&word).count(), "{word} of {text}\n{heard:?}");
        }
    }
}
