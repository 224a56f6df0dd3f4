//! Functionary: 3.1 and Llama 3 by `<function=name>{…}</function>`, 3.2 by recipients, `>>>name\n{…}`, of whom `all` is the user.

use super::super::reader::Stop;
use super::Format;

pub static TAGS: Format = Format {
    shown_by: &["<function=example", "<function=", "<function>"],
    opens: &["<function="],
    marks: &["<function=", "</function>"],
    read: |r, _, _| {
        let name = r.name()?.to_owned();
        r.expect(">")?;
        r.space();
        if r.peek()? != '{' {
            return Err(Stop::No);
        }
        r.begin(&name, None)?;
        r.json_arguments()?;
        r.end();
        r.space();
        r.eat("</function>").map(drop)
    },
    ..Format::PLAIN
};

pub static RECIPIENTS: Format = Format {
    shown_by: &[">>>all", ">>>${recipient}", ">>>' + ", "'>>>'"],
    opens: &[">>>"],
    marks: &[">>>"],
    sections: true,
    read: |r, _, _| {
        if r.eat("all\n")? {
            return Ok(());
        }
        let name = r.name()?.to_owned();
        r.expect("\n")?;
        r.begin(&name, None)?;
        r.json_arguments()?;
        r.end();
        Ok(())
    },
    ..Format::PLAIN
};
