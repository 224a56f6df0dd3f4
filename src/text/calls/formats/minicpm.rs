//! MiniCPM 5: `<function name="…"><param name="…">…</param></function>`, values perhaps in `<![CDATA[…]]>`.

use super::super::grammar::Tags;
use super::super::grammar::writer::{literal, sequence, space};
use super::Format;

pub static FORMAT: Format = Format {
    shown_by: &["<function name="],
    opens: &["<function name=\""],
    marks: &["<function name=", "</function>", "<param name=", "</param>"],
    read: |r, _, _| {
        let name = r.name()?.to_owned();
        r.expect("\">")?;
        r.begin(&name, None)?;
        loop {
            r.space();
            if r.eat("</function>")? {
                break;
            }
            r.expect("<param name=\"")?;
            let key = r.until("\">")?.to_owned();
            if r.eat("<![CDATA[")? {
                r.plain(&key, "]]>", None)?;
                r.expect("</param>")?;
            } else {
                r.plain(&key, "</param>", None)?;
            }
        }
        r.close_arguments();
        r.end();
        Ok(())
    },
    write: |w| {
        const TAGS: Tags =
            Tags { open: ("<param name=\"", "\">"), value: "", close: "</param>", says: false, quote: Some(("<![CDATA[", "]]>")) };
        let call = w.each(|tool| Ok(sequence([literal(&format!("{}\">", tool.name)), TAGS.arguments(w, tool)?, space(), w.text("</function>")])))?;
        Ok(w.calls([call], true))
    },
    ..Format::PLAIN
};
