//! MiniMax M2: `<minimax:tool_call><invoke name="…"><parameter name="…">…</parameter></invoke></minimax:tool_call>`.

use super::super::grammar::Tags;
use super::super::grammar::writer::{sequence, space};
use super::super::tags;
use super::Format;

pub static FORMAT: Format = Format {
    name: |_| "minimax",
    shown_by: &["<minimax:tool_call>"],
    opens: &["<minimax:tool_call>"],
    marks: &["<minimax:tool_call>", "</minimax:tool_call>"],
    read: |r, _, _| tags::all(r, "</minimax:tool_call>", |r| tags::invoke(r, "")),
    write: |w| {
        const TAGS: Tags =
            Tags { open: ("<parameter name=\"", "\">"), value: "", close: "</parameter>", says: false, quote: None };
        let call = w.each(|tool| {
            let open = w.text(&format!("<invoke name=\"{}\">", tool.name));
            Ok(sequence([space(), open, TAGS.arguments(w, tool)?, space(), w.text("</invoke>")]))
        })?;
        Ok(w.calls([sequence([w.several(call, ""), space(), w.text("</minimax:tool_call>")])], false))
    },
    ..Format::PLAIN
};
