//! MiniCPM 5: `<function name="…"><param name="…">…</param></function>`, values perhaps in `<![CDATA[…]]>`.

use super::super::grammar::Tags;
use super::super::grammar::writer::{literal, sequence, space};
use super::super::tags;
use super::Format;

/// How arguments are written.
const TAGS: Tags = Tags {
    open: ("<param name=\"", "\">"),
    value: "",
    close: "</param>",
    says: false,
    quote: Some(("<![CDATA[", "]]>")),
};

pub static FORMAT: Format = Format {
    name: |_| "minicpm",
    shown_by: &["<function name="],
    opens: &["<function name=\""],
    marks: &["<function name=", "</function>", "<param name=", "</param>"],
    read: |r, _, _| tags::function(r, &TAGS),
    write: |w| {
        let call = w.each(|tool| {
            Ok(sequence([
                literal(&format!("{}\">", tool.name)),
                TAGS.arguments(w, tool)?,
                space(),
                w.text("</function>"),
            ]))
        })?;
        Ok(w.calls([call], true))
    },
    ..Format::PLAIN
};
