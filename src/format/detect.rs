//! Which kind of model a set of files is, from what they contain; names only break ties.

use std::rc::Rc;

use super::{gguf, safetensors};
use crate::error::{Error, Result};
use crate::source::spec::gguf_parts;
use crate::source::spec::names::MANIFEST;
use crate::source::{ByteSource, Files, is_projector};

/// The kinds that can be opened.
pub(crate) enum Kind {
    /// A GGUF file, or all parts of a split one in their order.
    Gguf(Vec<Rc<dyn ByteSource>>),
    /// Our own shards, by their manifest.
    Shards(Rc<dyn ByteSource>),
    /// Files as Hugging Face lays them out.
    Folder,
}

/// How many bytes of a file decide.
const HEAD: u64 = 64;

/// Looks at names and first bytes. Every refusal says what the file seems to be and what to do.
pub(crate) async fn detect(files: &Files) -> Result<Kind> {
    // A Hugging Face folder may hold a foreign manifest.json; a manifest of Millrace's has no config.json beside it.
    if let Some(manifest) = files.get(MANIFEST).filter(|_| !files.contains_key("config.json")) {
        return Ok(Kind::Shards(manifest.clone()));
    }
    let mut ggufs: Vec<_> = files.iter().filter(|(name, _)| has_extension(name, "gguf")).collect();
    // Projectors (mmproj) do not count beside a model's GGUF file.
    if ggufs.iter().any(|(name, _)| !is_projector(name)) {
        ggufs.retain(|(name, _)| !is_projector(name));
    }
    if let Some((name, _)) = ggufs.first() {
        let parts = gguf_parts(name).unwrap_or_else(|| vec![(*name).clone()]);
        if let Some((other, _)) = ggufs.iter().find(|(name, _)| !parts.contains(name)) {
            return Err(Error::bad_model(format!(
                "there are several GGUF models, {name} and {other}; name one of them"
            )));
        }
        let mut sources = Vec::with_capacity(parts.len());
        for part in &parts {
            let source = files.get(part).ok_or_else(|| {
                Error::not_found(format!(
                    "{part} is missing: {name} is one of {} parts of a split model, and all are needed",
                    parts.len()
                ))
            })?;
            match sniff(source.as_ref()).await? {
                Sniffed::Gguf => sources.push(Rc::clone(source)),
                other => return Err(neither(source.as_ref(), &other)),
            }
        }
        return Ok(Kind::Gguf(sources));
    }
    if files.contains_key("config.json") || files.keys().any(|name| name.ends_with(".safetensors.index.json")) {
        return Ok(Kind::Folder);
    }
    // Without a telling name: a lone file, say `model.bin` or a URL without an extension.
    match (files.len(), files.first()) {
        (_, None) => Err(Error::not_found(
            "the model has no files: give a .gguf file, or a folder with config.json, tokenizer.json and model.safetensors",
        )),
        (1, Some((_, source))) => match sniff(source.as_ref()).await? {
            Sniffed::Gguf => Ok(Kind::Gguf(vec![Rc::clone(source)])),
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

/// Fails with `BAD_MODEL` where one of the files, `.json` ones apart, is known to be something else: a web page, a Git
/// LFS pointer. Shards of a manifest have hashes of their own and may begin with anything.
pub(crate) async fn refuse_others(files: &Files) -> Result<()> {
    if files.contains_key(MANIFEST) {
        return Ok(());
    }
    for source in files.values().filter(|source| !source.is_empty() && !has_extension(source.name(), "json")) {
        let sniffed = sniff(&**source).await?;
        if matches!(sniffed, Sniffed::Other(Some(_))) {
            return Err(neither(&**source, &sniffed));
        }
    }
    Ok(())
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
