//! Every family's grammar, with published outputs or without: its random texts are parsed as calls that satisfy their
//! schemas.

use std::collections::{HashSet, VecDeque};

use millrace::text::calls::grammar::{Choice, Wanted};
use millrace::text::calls::{Formats, Parser, Tool};
use millrace_grammar::{Automaton, Grammar, Options, Walk, compile};
use serde_json::{Value, json};

use crate::call_grammars::{looks_special, made, taken, tools};
use crate::calls::{Call, Message, message, random};

/// The shortest completion of a text, by breadth-first search.
fn way_out(automaton: &Automaton, from: &Walk, alphabet: &[u8]) -> Option<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut nodes = vec![(from.clone(), 0, 0u8)];
    let mut queue = VecDeque::from([0usize]);
    while let Some(at) = queue.pop_front() {
        if nodes[at].0.accepting(automaton) {
            let (mut path, mut node) = (Vec::new(), at);
            while node != 0 {
                path.push(nodes[node].2);
                node = nodes[node].1;
            }
            path.reverse();
            return Some(path);
        }
        for &b in alphabet {
            let mut walk = nodes[at].0.clone();
            if walk.advance(automaton, b) {
                let mut words = walk.words();
                words[3] = 0;
                if seen.insert(words) {
                    nodes.push((walk, at, b));
                    queue.push_back(nodes.len() - 1);
                }
            }
        }
        if nodes.len() > 200_000 {
            return None;
        }
    }
    None
}

/// The families: a format's marks, and the end of a prompt.
const FAMILIES: &[(&str, &str)] = &[
    ("<tool_call>", ""),
    ("<tool_call>[", ""),
    ("<tool_call> <function= <parameter=", ""),
    ("<tool_call> <arg_key>", ""),
    ("[TOOL_CALLS]", ""),
    ("[TOOL_CALLS] [ARGS]", ""),
    ("[TOOL_CALLS] [CALL_ID] [ARGS]", ""),
    ("<｜tool▁calls▁begin｜> ```json", ""),
    ("<｜tool▁calls▁begin｜>", ""),
    ("｜DSML｜", ""),
    ("｜DSML｜ tool_calls>", "<think>"),
    ("<|tool_call_begin|>", ""),
    ("<minimax:tool_call>", "<think>\n"),
    ("]<]minimax[>[", ""),
    ("<function name=", ""),
    ("<seed:tool_call>", ""),
    ("<|tool_call>", ""),
    ("<start_function_call>", ""),
    ("<|tool_call|>", ""),
    ("<|tool_call|> <|/tool_call|>", ""),
    ("<TOOLCALL> </TOOLCALL>", ""),
    ("<tool_calls> </tool_calls>", ""),
    ("<|START_ACTION|> <|END_ACTION|> <|START_THINKING|>", ""),
    ("<|function_call|>", ""),
    ("<|message_sep|> <|role_sep|>", ""),
    ("functools", ""),
    ("Action: ```json", ""),
    ("<|tools_prefix|> <|tools_suffix|>", ""),
    ("<|tool_call_start|>", ""),
    ("<function=example", ""),
    ("'>>>'", ">>>"),
    ("<|channel|>", "<|start|>assistant"),
    ("func_name1(", ""),
    ("<|python_tag|> dictionary of argument name", ""),
    ("", ""),
];

/// The message that the family's parser makes of a text of the grammar.
fn read(formats: &Formats, tools: &[Tool], prompt: &str, text: &[u8]) -> Message {
    let mut parser = Parser::new(formats.bound(), tools.to_vec(), prompt);
    let mut parts = Vec::new();
    for (i, piece) in text.split(|b| *b == 0xff).enumerate() {
        let mut text = piece;
        if i > 0 {
            let end = piece.iter().position(|b| *b == 0xfe).unwrap();
            parts.extend(parser.special(std::str::from_utf8(&piece[..end]).unwrap()));
            text = &piece[end + 1..];
        }
        parts.extend(parser.push(std::str::from_utf8(text).unwrap()));
    }
    parts.extend(parser.finish());
    message(&parts)
}

#[test]
fn texts_of_the_grammar_are_calls_that_keep_to_their_schemas() {
    let tools = tools();
    let validators: Vec<_> = tools.iter().map(|tool| jsonschema::validator_for(&tool.parameters).unwrap()).collect();
    let mut wrong = Vec::new();
    for (marks, prompt) in FAMILIES {
        let formats = Formats::of(marks, []);
        for special in [false, true] {
            for (i, choice) in
                [Choice::Required, Choice::Named("get_weather"), Choice::Named("order")].into_iter().enumerate()
            {
                let wanted = Wanted { tools: &tools, choice, parallel: i == 0, prompt };
                let (automaton, marks_used) = made(&formats, &wanted, special);
                let marks_used = marks_used.concat();
                let mut alphabet: Vec<u8> =
                    (b' '..=b'~').chain([b'\n', 0xff, 0xfe]).chain(marks_used.bytes()).chain(marks.bytes()).collect();
                alphabet.extend("<｜tool▁calls▁begin｜>é".bytes());
                alphabet.sort_unstable();
                alphabet.dedup();
                for seed in 0..6 {
                    let mut next = random(seed + 7);
                    let mut walk = Walk::new(&automaton);
                    let mut text = Vec::new();
                    let mut free = 4 + next() % 24;
                    while free > 0 && !(walk.accepting(&automaton) && next().is_multiple_of(3)) {
                        let allowed: Vec<u8> =
                            (b' '..=b'~').chain([b'\n', 0xff]).filter(|b| walk.allowed(&automaton, &[*b])).collect();
                        let Some(n) = (next() as usize).checked_rem(allowed.len()) else { break };
                        free -= u64::from(allowed.len() > 1);
                        assert!(walk.advance(&automaton, allowed[n]));
                        text.push(allowed[n]);
                    }
                    let Some(rest) = way_out(&automaton, &walk, &alphabet) else {
                        wrong.push(format!(
                            "{marks:?}, {special}, {choice:?}: no way out of {:?}",
                            String::from_utf8_lossy(&text)
                        ));
                        continue;
                    };
                    text.extend(rest);
                    let message = read(&formats, &tools, prompt, &text);
                    let fits = |call: &Call| {
                        let at = tools.iter().position(|tool| tool.name == call.name);
                        let arguments = serde_json::from_str::<Value>(&call.arguments).ok();
                        at.zip(arguments).is_some_and(|(at, arguments)| validators[at].is_valid(&arguments))
                    };
                    let right = !message.calls.is_empty()
                        && message.content.trim().is_empty()
                        && message.calls.iter().all(fits);
                    if !right || choice != Choice::Required && message.calls.len() != 1 {
                        wrong.push(format!(
                            "{marks:?}, {special}, {choice:?}: {:?} is {message:?}",
                            String::from_utf8_lossy(&text)
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// Free text, thoughts and calls stand beside each other in every family.
#[test]
fn every_family_has_calls_of_its_own_accord() {
    let mut wrong = Vec::new();
    for (marks, prompt) in FAMILIES {
        let sections = ["'>>>'", "<|channel|>"].contains(marks);
        for (thinks, opened) in [("", *prompt), (" <think>", *prompt), (" <think>", "<think>\n")] {
            if sections && opened != *prompt {
                continue;
            }
            let formats = Formats::of(&format!("{marks}{thinks}"), []);
            for (i, special) in [false, true, false, true].into_iter().enumerate() {
                let mut tools = tools();
                tools[0].strict = i < 2;
                for (choice, parallel) in [(Choice::Auto, true), (Choice::Auto, false), (Choice::Required, true)] {
                    let wanted = Wanted { tools: &tools, choice, parallel, prompt: opened };
                    let description =
                        formats.calls_grammar(&wanted, &|mark| special && looks_special(mark)).unwrap().unwrap();
                    let grammar = Grammar::from_json(&description.to_string()).unwrap();
                    let automaton = match compile(&grammar, &Options::default()) {
                        Ok((automaton, _)) => automaton,
                        Err(error) => {
                            wrong.push(format!("{marks:?}, {thinks:?} after {opened:?}, {special}, {choice:?}, {parallel}, {i}: {error}"));
                            continue;
                        }
                    };
                    if choice == Choice::Required && !sections {
                        // An answer in a form may stand in place of calls, unless calls begin as JSON does.
                        let (is_control, root) =
                            (|mark: &str| special && looks_special(mark), json!({ "schema": { "type": "integer" } }));
                        for description in [
                            formats.answer_grammar(root.clone(), opened, &is_control),
                            formats.calls_or_answer_grammar(&wanted, root, &is_control).unwrap(),
                        ] {
                            let grammar = Grammar::from_json(&description.to_string()).unwrap();
                            let thought = if opened.trim_end() == "<think>" { "I { see.</think>" } else { "" };
                            let text = format!("{thought}12");
                            match compile(&grammar, &Options::default()) {
                                Ok((automaton, _))
                                    if taken(&automaton, text.as_bytes()).1
                                        && !taken(&automaton, b"I see.</think>{}").1 => {}
                                Ok(_) => {
                                    wrong.push(format!("{marks:?}, {thinks:?} after {opened:?}, {special}: an answer"))
                                }
                                Err(error) => wrong.push(format!(
                                    "{marks:?}, {thinks:?} after {opened:?}, {special}: an answer: {error}"
                                )),
                            }
                        }
                    }
                    let thought = if opened.trim_end() == "<think>" { "I see.</think>\n" } else { "" };
                    let (_, accepted) = taken(&automaton, format!("{thought}Hello, all of you.").as_bytes());
                    if !sections && accepted != (choice == Choice::Auto) {
                        wrong.push(format!("{marks:?}, {thinks:?} after {opened:?}, {special}, {choice:?}, {parallel}: text is {accepted}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
