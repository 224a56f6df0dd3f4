//! MiniCPM 5: `<function name="…"><param name="…">…</param></function>`, values perhaps in `<![CDATA[…]]>`.

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
    ..Format::PLAIN
};
