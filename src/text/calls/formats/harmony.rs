//! gpt-oss's harmony: messages with a channel and a recipient, `<|start|>assistant<|channel|>commentary to=functions.name<|message|>{…}<|call|>`.

use super::super::Section;
use super::super::reader::{Read, Reader};
use super::Format;
use super::thoughts::HARMONY;

const MESSAGE: &str = "<|message|>";

pub static FORMAT: Format = Format {
    shown_by: &["<|channel|>"],
    // The prompt ends with the role, so that an answer may begin with a recipient.
    opens: &["<|start|>", "<|channel|>", "to=functions.", "<|end|>", "<|return|>", "<|call|>"],
    marks: &["<|start|>", "<|channel|>", "<|constrain|>", MESSAGE, "<|end|>", "<|return|>", "<|call|>"],
    sections: true,
    read,
    ..Format::PLAIN
};

fn read(r: &mut Reader, which: usize, section: &mut Section) -> Read {
    if which >= 3 {
        return Ok(());
    }
    let mut header = r.until(MESSAGE)?.to_owned();
    match which {
        1 => header.insert_str(0, "<|channel|>"),
        2 => header.insert_str(0, "to=functions."),
        _ => (),
    }
    // Headers that were begun anew: the last one counts, and whoever was named.
    let channel = header.rsplit("<|channel|>").next().unwrap_or_default().trim_start();
    let word = |text: &str| text.split(|c: char| c.is_whitespace() || c == '<').next().unwrap_or_default().to_owned();
    let recipient = header.split("to=").skip(1).map(word).find(|to| !matches!(to.as_str(), "assistant" | "user" | "all"));
    match recipient {
        Some(to) => {
            let name = to.strip_prefix("functions.").unwrap_or(&to);
            // Built-in tools, which nobody has offered.
            if !r.is_tool(name) {
                *section = Section::Dropped(&HARMONY);
                return Ok(());
            }
            r.begin(name, None)?;
            r.json_arguments()?;
            r.end();
        }
        None if channel.starts_with("analysis") => *section = Section::Thought(&HARMONY),
        None => (),
    }
    Ok(())
}
