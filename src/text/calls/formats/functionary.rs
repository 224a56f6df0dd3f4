//! Functionary: 3.1 and Llama 3 by `<function=name>{…}</function>`, 3.2 by recipients, `>>>name\n{…}`, of whom `all` is
//! the user.

use serde_json::json;

use super::super::grammar::writer::{literal, repeat, sequence, space, union, without};
use super::super::reader::{DONE, Stop};
use super::Format;

pub static TAGS: Format = Format {
    name: |_| "functionary",
    shown_by: &["<function=example", "<function=", "<function>"],
    opens: &["<function="],
    marks: &["<function=", "</function>"],
    read: |r, _, _| {
        r.steps(&mut |r, step| {
            Ok(match step {
                0 => {
                    let name = r.name()?;
                    r.expect(">")?;
                    r.space();
                    if r.peek()? != '{' {
                        return Err(Stop::No);
                    }
                    r.begin(name, None)?;
                    1
                }
                1 => {
                    r.json_arguments()?;
                    r.end();
                    2
                }
                _ => {
                    r.space();
                    r.eat("</function>")?;
                    DONE
                }
            })
        })
    },
    write: |w| {
        let call = w.each(|tool| {
            Ok(sequence([literal(&format!("{}>", tool.name)), w.json(tool)?, space(), w.text("</function>")]))
        })?;
        Ok(w.calls([call], true))
    },
    ..Format::PLAIN
};

pub static RECIPIENTS: Format = Format {
    name: |_| "functionary",
    shown_by: &[">>>all", ">>>${recipient}", ">>>' + ", "'>>>'"],
    opens: &[">>>"],
    marks: &[">>>"],
    sections: true,
    read: |r, _, _| {
        r.steps(&mut |r, step| {
            if step == 1 {
                r.json_arguments()?;
                r.end();
                return Ok(DONE);
            }
            if r.eat("all\n")? {
                return Ok(DONE);
            }
            let name = r.name()?;
            r.expect("\n")?;
            r.begin(name, None)?;
            Ok(1)
        })
    },
    write: |w| {
        let call = w.each(|tool| Ok(sequence([literal(&format!("{}\n", tool.name)), w.json(tool)?])))?;
        let begin = if w.prompt.trim_end().ends_with(">>>") { literal("") } else { w.text(">>>") };
        let sections = if w.forced {
            w.several(call, ">>>")
        } else {
            let text = sequence([literal("all\n"), without([">>>"])]);
            repeat(union([call, text]), ">>>", 1, if w.parallel { None } else { Some(2) })
        };
        Ok(sequence([begin, sections]))
    },
    answer: Some(|w, root| {
        let begin = if w.prompt.trim_end().ends_with(">>>") { "all\n" } else { ">>>all\n" };
        json!({ "sequence": [w.text(begin), root] })
    }),
    ..Format::PLAIN
};
