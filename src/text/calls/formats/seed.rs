//! Seed-OSS: `<seed:tool_call><function=name><parameter=key>value</parameter></function></seed:tool_call>`.

use super::super::grammar::Tags;
use super::super::grammar::writer::{sequence, space};
use super::super::tags;
use super::Format;

pub static FORMAT: Format = Format {
    name: |_| "seed",
    shown_by: &["<seed:tool_call>"],
    opens: &["<seed:tool_call>"],
    marks: &["<seed:tool_call>", "</seed:tool_call>"],
    read: |r, _, _| {
        tags::all(r, "</seed:tool_call>", |r| {
            r.expect("<function=")?;
            tags::function(r, &Tags::PARAMETERS)
        })
    },
    write: |w| {
        let call = w.each(|tool| Tags::PARAMETERS.function(w, tool))?;
        Ok(w.calls(
            [sequence([
                w.several(sequence([space(), w.text("<function="), call]), ""),
                space(),
                w.text("</seed:tool_call>"),
            ])],
            true,
        ))
    },
    ..Format::PLAIN
};
