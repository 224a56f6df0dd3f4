//! gpt-oss's harmony: messages with a channel and a recipient,
//! `<|start|>assistant<|channel|>commentary to=functions.name<|message|>{…}<|call|>`.

use serde_json::{Value, json};

use super::super::Section;
use super::super::grammar::Writer;
use super::super::grammar::writer::{ANY, literal, optional, repeat, sequence, union};
use super::super::reader::{DONE, Read, Reader};
use super::Format;
use super::thoughts::HARMONY;
use crate::error::Result;

const MESSAGE: &str = "<|message|>";

pub static FORMAT: Format = Format {
    name: |_| "harmony",
    shown_by: &["<|channel|>"],
    // The prompt ends with the role, so that an answer may begin with a recipient.
    opens: &["<|start|>", "<|channel|>", "to=functions.", "<|end|>", "<|return|>", "<|call|>"],
    marks: &["<|start|>", "<|channel|>", "<|constrain|>", MESSAGE, "<|end|>", "<|return|>", "<|call|>"],
    sections: true,
    read,
    written: |_| &[0, 1, 2, 3, 4, 5],
    write,
    answer: Some(answer),
    ..Format::PLAIN
};

/// Messages of thoughts, and to the user before calls, each with the beginning of the next one.
fn before(w: &Writer<'_>) -> Value {
    let header =
        union(["<|channel|>analysis<|message|>", "<|channel|>commentary<|message|>"].map(|header| w.text(header)));
    let message = sequence([header, w.until("<|end|>"), w.text("<|start|>assistant")]);
    let begin = if w.prompt.trim_end().ends_with("<|start|>assistant") {
        literal("")
    } else {
        optional(w.text("<|start|>assistant"))
    };
    sequence([begin, repeat(message, "", 0, None)])
}

fn is_json(w: &Writer<'_>) -> Value {
    optional(w.text(" <|constrain|>json"))
}

/// One call: its end is the end of the answer.
fn write(w: &Writer<'_>) -> Result<Value> {
    let channel = || union([literal("commentary"), literal("analysis")]);
    let calls = w.each(|tool| {
        let to = || literal(&format!(" to=functions.{}", tool.name));
        let header = union([
            sequence([w.text("<|channel|>"), channel(), to()]),
            sequence([to(), w.text("<|channel|>"), channel()]),
        ]);
        Ok(sequence([header, is_json(w), w.text(MESSAGE), w.json(tool)?]))
    })?;
    let answer = || sequence([w.text("<|channel|>final"), is_json(w), w.text(MESSAGE), json!({ "regex": ANY })]);
    Ok(sequence([before(w), if w.forced { calls } else { union([calls, answer()]) }]))
}

fn answer(w: &Writer<'_>, root: Value) -> Value {
    sequence([before(w), w.text("<|channel|>final"), is_json(w), w.text(MESSAGE), root])
}

fn read(r: &mut Reader, which: usize, section: &mut Section) -> Read {
    if which >= 3 {
        return Ok(());
    }
    r.steps(&mut |r, step| {
        if step == 0 && header(r, which, section)? {
            return Ok(1);
        } else if step == 1 {
            r.json_arguments()?;
            r.end();
        }
        Ok(DONE)
    })
}

/// A message's header; true where a call follows.
fn header(r: &mut Reader, which: usize, section: &mut Section) -> Read<bool> {
    let mut header = r.until(MESSAGE)?.to_owned();
    match which {
        1 => header.insert_str(0, "<|channel|>"),
        2 => header.insert_str(0, "to=functions."),
        _ => (),
    }
    // A header may be restarted: the last channel counts, and the first recipient in any of the parts.
    let channel = header.rsplit("<|channel|>").next().unwrap_or_default().trim_start();
    let word = |text: &str| text.split(|c: char| c.is_whitespace() || c == '<').next().unwrap_or_default().to_owned();
    let recipient =
        header.split("to=").skip(1).map(word).find(|to| !matches!(to.as_str(), "assistant" | "user" | "all"));
    match recipient {
        Some(to) => {
            let name = to.strip_prefix("functions.").unwrap_or(&to);
            // Built-in tools, which were not offered.
            if !r.is_tool(name) {
                *section = Section::Dropped(&HARMONY);
                return Ok(false);
            }
            r.begin(name, None)?;
            return Ok(true);
        }
        None if channel.starts_with("analysis") => *section = Section::Thought(&HARMONY),
        None => (),
    }
    Ok(false)
}
