//! The grammars of call formats: they accept models' published outputs, and nothing else.

use std::cell::RefCell;

use millrace::text::calls::grammar::{Choice, Wanted};
use millrace::text::calls::{Formats, Parser, Tool};
use millrace_grammar::{Automaton, Grammar, Options, Walk, compile};
use serde_json::{Value, json};

use crate::calls::{Case, Vectors, differs, message, vectors};

/// Whether a mark is likely a control token of its models' tokenizers.
pub fn looks_special(mark: &str) -> bool {
    let angled = mark.starts_with('<') && mark.ends_with('>') && mark.contains(['|', '｜']) && !mark.contains("DSML");
    angled && !mark.contains('\n')
        || mark.starts_with('[') && mark.ends_with(']')
        || ["]<]minimax[>[", "｜DSML｜"].contains(&mark)
}

/// A description's automaton, and the marks that are tokens in it.
fn compiled(description: &Value) -> Automaton {
    let grammar = Grammar::from_json(&description.to_string()).unwrap_or_else(|e| panic!("{e}: {description}"));
    compile(&grammar, &Options::default()).unwrap_or_else(|e| panic!("{e}: {description}")).0
}

/// The automaton of a request, and which marks are control tokens.
pub fn made(formats: &Formats, wanted: &Wanted<'_>, special: bool) -> (Automaton, Vec<String>) {
    let marks = RefCell::new(Vec::new());
    let is_control = |mark: &str| {
        let is = special && looks_special(mark);
        marks.borrow_mut().extend(is.then(|| mark.to_owned()));
        is
    };
    let description = formats.calls_grammar(wanted, &is_control).unwrap().unwrap();
    let mut marks = marks.into_inner();
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.len()));
    (compiled(&description), marks)
}

/// A text as the automaton sees it.
fn bytes(text: &str, marks: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mark = marks.iter().find(|mark| rest.starts_with(mark.as_str()));
        let (part, after) = rest.split_at(mark.map_or(c.len_utf8(), String::len));
        let (before, behind): (&[u8], &[u8]) = if mark.is_some() { (&[0xff], &[0xfe]) } else { (&[], &[]) };
        out.extend([before, part.as_bytes(), behind].concat());
        rest = after;
    }
    out
}

/// How many bytes of `text` the automaton accepts, and whether it may end there.
pub fn taken(automaton: &Automaton, text: &[u8]) -> (usize, bool) {
    let mut walk = Walk::new(automaton);
    let count = text.iter().take_while(|&&b| walk.advance(automaton, b)).count();
    (count, count == text.len() && walk.accepting(automaton))
}

fn offered(vectors: &Vectors, case: &Case) -> Vec<Tool> {
    let tool = |name: &String| &vectors.tools[name];
    case.tools
        .iter()
        .map(tool)
        .map(|tool| Tool { name: tool.name.clone(), parameters: tool.parameters.clone(), strict: true })
        .collect()
}

/// Why the grammar does not accept a published output, if it does not.
fn beyond(template: &str, case: &Case, special: bool) -> Option<&'static str> {
    let text = &case.text;
    match template {
        _ if text.contains("<parameter=filename>") => Some("an argument that the schema does not name"),
        "Qwen3-Coder" if text.contains("tool_2req_") => Some("arguments in another order than the schema's"),
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B" if text.contains("<tool_call>") => {
            Some("the calls of another family")
        }
        "Kimi-K2-Thinking" if text.starts_with("<think>I need to call two functions<|tool_call_begin|>") => {
            Some("a call whose end is missing before the next")
        }
        _ if special
            && (text.contains("think about [TOOL_CALLS]") || text.contains("think about <|tool_call_start|>")) =>
        {
            Some("a control token within a thought")
        }
        _ => None,
    }
}

#[test]
fn published_outputs_are_taken() {
    let vectors = vectors();
    let (mut all, mut wrong, mut excused) = (0, Vec::new(), 0);
    for (name, template) in &vectors.templates {
        let formats = Formats::of(&template.marks.join("\n"), []);
        for case in template.cases.iter().filter(|case| differs(name, case).is_none() && !case.expect.calls.is_empty())
        {
            all += 1;
            let tools = offered(&vectors, case);
            let choice = if case.expect.content.is_empty() { Choice::Required } else { Choice::Auto };
            let wanted = Wanted { tools: &tools, choice, parallel: true, prompt: &case.prompt };
            for special in [false, true] {
                if beyond(name, case, special).is_some() {
                    excused += usize::from(!special);
                    continue;
                }
                let (automaton, marks) = made(&formats, &wanted, special);
                let text = bytes(&case.text, &marks);
                let (count, accepted) = taken(&automaton, &text);
                if count < text.len() || !accepted && !case.partial {
                    wrong.push(format!(
                        "{name}, {special}: {:?} after {count}: {:?}",
                        case.text,
                        String::from_utf8_lossy(&text[count..])
                    ));
                    continue;
                }
                // A parser that is bound to the grammar's format finds the same as any.
                let found = |formats: &Formats| {
                    let mut parser = Parser::new(formats.clone(), tools.clone(), &case.prompt);
                    message(&[parser.push(&case.text), parser.finish()].concat())
                };
                assert_eq!(found(&formats.bound()), found(&formats), "{name}: {:?}", case.text);
                // Nothing else: prose, another tool, a tool that wants more.
                let refused = |what: &str, tools: &[Tool], text: &str, whole: bool| {
                    let wanted = Wanted { tools, choice: Choice::Required, ..wanted };
                    let (automaton, marks) = made(&formats, &wanted, special);
                    let (count, accepted) = taken(&automaton, &bytes(text, &marks));
                    assert!(
                        !accepted && (!whole || count < bytes(text, &marks).len()),
                        "{name}, {special}: {what}: {text:?}"
                    );
                };
                if special || case.partial || choice == Choice::Auto {
                    continue;
                }
                refused("prose", &tools, "Hello there.", false);
                let other: Vec<Tool> =
                    tools.iter().map(|tool| Tool { name: format!("{}_2", tool.name), ..tool.clone() }).collect();
                refused("another tool", &other, &case.text, false);
                let mut more = tools.clone();
                for tool in &mut more {
                    tool.parameters["properties"]["zz"] = json!({ "type": "string" });
                    tool.parameters["required"] = json!(["zz"]);
                }
                refused("a missing argument", &more, &case.text, false);
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {all}, {excused} excused:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!((all, excused), (193, 9), "outputs with calls, those that are not taken");
}

fn tool(name: &str, parameters: Value) -> Tool {
    Tool { name: name.to_owned(), parameters, strict: true }
}

/// Tools whose schemas use most keywords.
pub fn tools() -> Vec<Tool> {
    let weather = json!({ "type": "object", "additionalProperties": false, "required": ["city", "days"], "properties": {
        "unit": { "enum": ["celsius", "kelvin"] }, "city": { "type": "string" }, "days": { "type": "integer", "minimum": 1, "maximum": 14 },
        "code": { "type": "string", "pattern": "^[A-Z]{2}$" }, "exact": { "type": "boolean" } } });
    let order = json!({ "type": "object", "additionalProperties": false, "required": ["lines"], "$defs": { "line": { "type": "object",
        "properties": { "sku": { "type": "string", "minLength": 2, "maxLength": 4 }, "count": { "type": "integer" } }, "required": ["sku", "count"],
        "additionalProperties": false } }, "properties": { "lines": { "type": "array", "items": { "$ref": "#/$defs/line" }, "minItems": 1, "maxItems": 3 },
        "note": { "type": ["string", "null"] } , "at": { "type": "string", "format": "date" } } });
    vec![
        tool("get_weather", weather),
        tool("order", order),
        tool("ping", json!({ "type": "object", "properties": {}, "additionalProperties": false })),
    ]
}

#[test]
fn free_text_leads_into_calls_of_strict_tools() {
    let call =
        |arguments: &str| format!("<tool_call>\n{{\"name\": \"order\", \"arguments\": {arguments}}}\n</tool_call>");
    let mut tools = tools();
    tools[0].strict = false;
    let formats = Formats::of("<tool_call> <think>", []);
    let wanted = Wanted { tools: &tools, choice: Choice::Auto, parallel: true, prompt: "" };
    let good = call(r#"{"lines": [{"sku": "ab", "count": 1}]}"#);
    let loose = r#"<tool_call>{"name": "get_weather", "arguments": {"x": [1]}}</tool_call>"#;
    for parallel in [true, false] {
        let (automaton, _) = made(&formats, &Wanted { parallel, ..wanted }, false);
        let accepts = |text: &str| taken(&automaton, text.as_bytes()).1;
        for text in [
            "",
            "Just { text.",
            &good,
            &format!("I order.\n{good}"),
            loose,
            &format!("<think>\nWhat of {{ <tool_call>?</think>\n\n{good}"),
            "</think>Yes.",
        ] {
            assert!(accepts(text), "{text}");
        }
        for text in [
            &call("{}"),
            &call(r#"{"lines": []}"#),
            "<tool_call>",
            &format!("Yes <think> no</think> {}", call("{}")),
            "<tool_call>\nhello",
        ] {
            assert!(!accepts(text), "{text}");
        }
        assert_eq!(accepts(&format!("{good} and {good}")), parallel);
    }
    let none = |choice, tools: &[Tool]| formats.calls_grammar(&Wanted { tools, choice, ..wanted }, &|_| false);
    assert_eq!(none(Choice::None, &tools).unwrap(), None);
    assert_eq!(none(Choice::Auto, &tools[..1]).unwrap(), None);
    assert_eq!(none(Choice::Named("other"), &tools).unwrap_err().code(), "BAD_OPTION");
    assert_eq!(none(Choice::Required, &[]).unwrap_err().code(), "BAD_OPTION");
}

#[test]
fn what_a_format_cannot_say_is_refused() {
    let formats = Formats::of("<tool_call> <function=", []);
    let refused = |parameters: Value| {
        let tools = [tool("f", parameters)];
        let wanted = Wanted { tools: &tools, choice: Choice::Required, parallel: false, prompt: "" };
        let error = formats.calls_grammar(&wanted, &|_| false).unwrap_err();
        (error.code(), error.message().to_owned())
    };
    for (parameters, place) in [
        (
            json!({ "type": "object", "properties": { "a/b": { "type": "string", "format": "iri" } } }),
            "format at /properties/a~1b",
        ),
        (
            json!({ "type": "object", "properties": { "a": { "type": "string", "not": { "const": "x" } } } }),
            "not at /properties/a",
        ),
        (json!({ "type": "object", "minProperties": 1 }), "minProperties"),
        (json!({ "type": "object", "properties": { "a>b": {} } }), "properties at /properties/a>b"),
        (json!({ "type": "array" }), "type"),
    ] {
        let (code, message) = refused(parameters);
        assert_eq!(code, "UNSUPPORTED_SCHEMA");
        assert!(message.contains(place), "{message}");
    }
}

#[test]
fn answers_stand_behind_thoughts() {
    let root =
        || json!({ "schema": { "type": "object", "properties": { "a": { "type": "integer" } }, "required": ["a"] } });
    let json = r#"{"a": 1}"#;
    for (marks, prompt, good, bad) in [
        ("", "", vec![json.to_owned()], vec![format!("<think></think>{json}"), format!("Here: {json}")]),
        (
            "<think>",
            "<think>\n",
            vec![format!("I {{ see.\n</think>\n\n{json}")],
            vec![json.to_owned(), format!("</think>So: {json}")],
        ),
        (
            "<think>",
            "",
            vec![json.to_owned(), format!("<think>\nI see.</think>\n{json}")],
            vec![format!("I see.</think>{json}")],
        ),
        ("<think>", "<think>\n\n</think>\n\n", vec![json.to_owned()], vec![format!("<think></think>{json}")]),
        ("[THINK]", "", vec![json.to_owned(), format!("[THINK]I see.[/THINK]{json}")], vec![format!("[THINK]{json}")]),
        (
            "<|channel|>",
            "<|start|>assistant",
            vec![
                format!("<|channel|>final<|message|>{json}"),
                format!(
                    "<|channel|>analysis<|message|>I see.<|end|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{json}"
                ),
            ],
            vec![json.to_owned(), format!("<|channel|>final<|message|>So: {json}")],
        ),
        ("'>>>'", ">>>", vec![format!("all\n{json}")], vec![json.to_owned()]),
    ] {
        let formats = Formats::of(marks, []);
        for special in [false, true] {
            let tokens = RefCell::new(Vec::new());
            let is_control = |mark: &str| {
                let is = special && looks_special(mark);
                tokens.borrow_mut().extend(is.then(|| mark.to_owned()));
                is
            };
            let automaton = compiled(&formats.answer_grammar(root(), prompt, &is_control));
            let tokens = tokens.into_inner();
            for (texts, wanted) in [(&good, true), (&bad, false)] {
                for text in texts {
                    assert_eq!(
                        taken(&automaton, &bytes(text, &tokens)).1,
                        wanted,
                        "{marks}, {prompt:?}, {special}: {text:?}"
                    );
                }
            }
        }
    }
}
