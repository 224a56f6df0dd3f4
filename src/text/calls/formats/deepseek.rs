//! DeepSeek: R1 with a fence around the arguments, V3 and V3.1 without, V3.2 with tags of its own (DSML).

use super::super::grammar::Tags;
use super::super::grammar::writer::{literal, sequence, space};
use super::super::reader::{DONE, Read, Reader};
use super::super::tags;
use super::Format;

const BEGIN: &str = "<｜tool▁calls▁begin｜>";
const END: &str = "<｜tool▁calls▁end｜>";
const ONE: &str = "<｜tool▁call▁begin｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";
const ONE_END: &str = "<｜tool▁call▁end｜>";

pub static MARKED: Format = Format {
    name: |_| "deepseek",
    shown_by: &[BEGIN],
    opens: &[BEGIN, ONE],
    marks: &[BEGIN, END, ONE, SEPARATOR, ONE_END],
    read: |r, which, _| {
        if which == 1 {
            return call(r);
        }
        tags::all(r, END, |r| {
            r.expect(ONE)?;
            call(r)
        })
    },
    write: |w| {
        let fenced = w.shown("```json");
        let call = w.each(|tool| {
            let head = if fenced {
                format!("{ONE}function{SEPARATOR}{}\n```json\n", tool.name)
            } else {
                format!("{ONE}{}{SEPARATOR}", tool.name)
            };
            let close = if fenced { sequence([space(), literal("```")]) } else { literal("") };
            Ok(sequence([w.text(&head), w.json(tool)?, close, w.text(ONE_END)]))
        })?;
        let calls = w.several(sequence([space(), call]), "");
        Ok(w.calls([sequence([calls, space(), w.text(END)])], false))
    },
    ..Format::PLAIN
};

fn call(r: &mut Reader) -> Read {
    r.steps(&mut |r, step| {
        Ok(match step {
            0 => {
                let kind = r.until(SEPARATOR)?.trim();
                // R1: the kind comes first.
                let name = if kind == "function" { r.name()? } else { kind };
                r.begin(name, None)?;
                1
            }
            1 => {
                r.space();
                if r.eat("```json")? { 3 } else { 2 }
            }
            2 | 3 => {
                r.json_arguments()?;
                r.end();
                step + 2
            }
            5 => {
                r.space();
                r.eat("```")?;
                4
            }
            _ => {
                r.space();
                r.eat(ONE_END)?;
                DONE
            }
        })
    })
}

const DSML_ENDS: [&str; 2] = ["</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"];

pub static DSML: Format = Format {
    name: |_| "deepseek",
    shown_by: &["｜DSML｜"],
    opens: &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
    marks: &["｜DSML｜"],
    ends_thoughts: Some(""),
    read: |r, which, _| tags::all(r, DSML_ENDS[which], |r| tags::invoke(r, "｜DSML｜")),
    written: |shown| match (shown("function_calls>"), shown("tool_calls>")) {
        (true, false) => &[0],
        (false, true) => &[1],
        // Of two versions that the template does not tell apart.
        _ => &[0, 1],
    },
    write: |w| {
        const TAGS: Tags = Tags {
            open: ("<｜DSML｜parameter name=\"", "\">"),
            value: "",
            close: "</｜DSML｜parameter>",
            says: true,
            quote: None,
        };
        let call = w.each(|tool| {
            let open = w.text(&format!("<｜DSML｜invoke name=\"{}\">", tool.name));
            Ok(sequence([space(), open, TAGS.arguments(w, tool)?, space(), w.text("</｜DSML｜invoke>")]))
        })?;
        let calls = w.several(call, "");
        Ok(w.calls(w.openings().iter().map(|i| sequence([calls.clone(), space(), w.text(DSML_ENDS[*i])])), false))
    },
    ..Format::PLAIN
};
