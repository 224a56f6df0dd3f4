//! DeepSeek: R1 with a fence around the arguments, V3 and V3.1 without, V3.2 with tags of its own (DSML).

use super::super::reader::{Read, Reader};
use super::super::tags;
use super::Format;

const BEGIN: &str = "<｜tool▁calls▁begin｜>";
const END: &str = "<｜tool▁calls▁end｜>";
const ONE: &str = "<｜tool▁call▁begin｜>";
const SEPARATOR: &str = "<｜tool▁sep｜>";
const ONE_END: &str = "<｜tool▁call▁end｜>";

pub static MARKED: Format = Format {
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
    ..Format::PLAIN
};

fn call(r: &mut Reader) -> Read {
    let kind = r.until(SEPARATOR)?.trim();
    let name = if kind == "function" {
        // R1: the kind comes first.
        r.name()?.to_owned()
    } else {
        kind.to_owned()
    };
    r.begin(&name, None)?;
    r.space();
    let fenced = r.eat("```json")?;
    r.json_arguments()?;
    r.end();
    r.space();
    if fenced {
        r.eat("```")?;
        r.space();
    }
    r.eat(ONE_END).map(drop)
}

pub static DSML: Format = Format {
    shown_by: &["｜DSML｜"],
    opens: &["<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"],
    marks: &["｜DSML｜"],
    ends_thoughts: Some(""),
    read: |r, which, _| {
        let close = ["</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"][which];
        tags::all(r, close, |r| tags::invoke(r, "｜DSML｜"))
    },
    ..Format::PLAIN
};
