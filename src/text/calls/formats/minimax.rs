//! MiniMax M2: `<minimax:tool_call><invoke name="…"><parameter name="…">…</parameter></invoke></minimax:tool_call>`.

use super::super::tags;
use super::Format;

pub static FORMAT: Format = Format {
    shown_by: &["<minimax:tool_call>"],
    opens: &["<minimax:tool_call>"],
    marks: &["<minimax:tool_call>", "</minimax:tool_call>"],
    read: |r, _, _| tags::all(r, "</minimax:tool_call>", |r| tags::invoke(r, "")),
    ..Format::PLAIN
};
