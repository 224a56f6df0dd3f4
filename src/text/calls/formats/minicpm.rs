//! MiniCPM 5: `<function name="…"><param name="…">…</param></function>`, values perhaps in `<![CDATA[…]]>`.

use super::super::grammar::Tags;
use super::super::grammar::writer::{literal, sequence, space};
use super::super::reader::DONE;
use super::Format;

pub static FORMAT: Format = Format {
    shown_by: &["<function name="],
    opens: &["<function name=\""],
    marks: &["<function name=", "</function>", "<param name=", "</param>"],
    read: |r, _, _| {
        r.steps(&mut |r, step| {
            match step {
                0 => {
                    let name = r.name()?;
                    r.expect("\">")?;
                    r.begin(name, None)?;
                }
                1 => {
                    r.space();
                    if r.eat("</function>")? {
                        r.close();
                        return Ok(DONE);
                    }
                    r.expect("<param name=\"")?;
                    let key = r.until("\">")?;
                    let quoted = r.eat("<![CDATA[")?;
                    r.memo.key = key.to_owned();
                    return Ok(if quoted { 2 } else { 4 });
                }
                2 => {
                    r.plain("]]>", None)?;
                    return Ok(3);
                }
                3 => r.expect("</param>")?,
                _ => r.plain("</param>", None)?,
            }
            Ok(1)
        })
    },
    write: |w| {
        const TAGS: Tags = Tags { open: ("<param name=\"", "\">"), value: "", close: "</param>", says: false, quote: Some(("<![CDATA[", "]]>")) };
        let call = w.each(|tool| Ok(sequence([literal(&format!("{}\">", tool.name)), TAGS.arguments(w, tool)?, space(), w.text("</function>")])))?;
        Ok(w.calls([call], true))
    },
    ..Format::PLAIN
};
