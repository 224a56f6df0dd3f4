//! Which kind of model a set of files is, from what they contain; names only break ties.

use std::rc::Rc;

use super::{gguf, safetensors};
use crate::error::{Error, Result};
use crate::source::{ByteSource, Files};

/// The kinds that can be opened.
pub(crate) enum Kind {
    /// One GGUF file.
    Gguf(Rc<dyn ByteSource>),
    /// Files as Hugging Face lays them out.
    Folder,
}

/// How many bytes of a file decide.
const HEAD: u64 = 64;

/// Looks at names and first bytes. Every refusal says what the file seems to be and what to do.
pub(crate) async fn detect(files: &Files) -> Result<Kind> {
    let ggufs: Vec<_> = files.iter().filter(|(name, _)| has_extension(name, "gguf")).collect();
    match ggufs.as_slice() {
        [] => {}
        [(name, source)] => {
            if let Some((part, parts)) = split_part(name) {
                return Err(split(name, part, parts));
            }
            return match sniff(source.as_ref()).await? {
                Sniffed::Gguf => Ok(Kind::Gguf(Rc::clone(source))),
                other => Err(neither(source.as_ref(), &other)),
            };
        }
        [(name, _), ..] => {
            return Err(match split_part(name) {
                Some((part, parts)) => split(name, part, parts),
                None => Error::bad_model(format!("there are {} GGUF files, among them {name}; name one of them", ggufs.len())),
            });
        }
    }
    if files.contains_key("config.json") || files.keys().any(|name| name.ends_with(".safetensors.index.json")) {
        return Ok(Kind::Folder);
    }
    // Without a telling name: a lone file, say `model.bin` or a URL without an extension.
    match (files.len(), files.first()) {
        (_, None) => Err(Error::not_found("the model has no files: give a .gguf file, or a folder with config.json, tokenizer.json and model.safetensors")),
        (1, Some((_, source))) => match sniff(source.as_ref()).await? {
            Sniffed::Gguf => Ok(Kind::Gguf(Rc::clone(source))),
            // The folder's own error then says what is missing beside the weights.
            Sniffed::Safetensors => Ok(Kind::Folder),
            other => Err(neither(source.as_ref(), &other)),
        },
        _ => Ok(Kind::Folder),
    }
}

enum Sniffed {
    Gguf,
    Safetensors,
    /// Something else, with what it seems to be where that is known.
    Other(Option<&'static str>),
}

async fn sniff(source: &dyn ByteSource) -> Result<Sniffed> {
    let head = source.read(0, source.len().min(HEAD) as usize).await?;
    let starts = |prefix: &[u8]| head.starts_with(prefix);
    Ok(if starts(gguf::MAGIC) {
        Sniffed::Gguf
    } else if safetensors::looks_like(&head) {
        Sniffed::Safetensors
    } else {
        Sniffed::Other(if head.is_empty() {
            Some("is empty")
        } else if starts(b"version https://git-lfs") {
            Some("is a Git LFS pointer, not the file itself: fetch it with git lfs pull")
        } else if [&b"lmgg"[..], b"fmgg", b"tjgg", b"algg"].iter().any(|m| starts(m)) {
            Some("is a GGML file from before GGUF: convert the model again with a current llama.cpp")
        } else if starts(b"PK\x03\x04") || starts(b"\x80\x02") {
            Some("looks like a PyTorch checkpoint: save the model as safetensors")
        } else if head.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'<') {
            Some("looks like a web page: the address may need a login, or /resolve/ instead of /blob/")
        } else if head.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{') {
            Some("looks like JSON")
        } else {
            None
        })
    })
}

fn neither(source: &dyn ByteSource, sniffed: &Sniffed) -> Error {
    let seems = match sniffed {
        Sniffed::Other(Some(text)) => format!("; it {text}"),
        Sniffed::Safetensors => "; its name says GGUF but its content is safetensors: rename it".into(),
        _ => String::new(),
    };
    Error::bad_model(format!("{} is neither GGUF nor a safetensors checkpoint{seems}", source.name()))
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, e)| e.eq_ignore_ascii_case(extension))
}

/// `(3, 9)` for `name-00003-of-00009.gguf`.
fn split_part(name: &str) -> Option<(u32, u32)> {
    let stem = name.get(..name.len().checked_sub(5)?)?;
    let (rest, parts) = stem.rsplit_once("-of-")?;
    let (_, part) = rest.rsplit_once('-')?;
    let number = |s: &str| (s.len() == 5 && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten();
    match (number(part)?, number(parts)?) {
        (_, 0 | 1) => None,
        both => Some(both),
    }
}

fn split(name: &str, part: u32, parts: u32) -> Error {
    Error::unsupported(format!("{name} is part {part} of {parts} of a split model, which this version does not load; join them with llama-gguf-split --merge"))
}
