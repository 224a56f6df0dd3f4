//! Pictures of the command line: files, and what messages have in data: addresses.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use image::{DynamicImage, ImageDecoder as _, ImageReader};
use millrace::picture::Picture;
use millrace::{Error, Result};
use serde_json::{Value, json};

/// Decodes PNG, JPEG or WebP: upright, on white.
fn decode(bytes: &[u8], name: &str) -> Result<Rc<Picture>> {
    let bad = |e: &dyn std::fmt::Display| {
        Error::bad_option(format!("{name} is no picture that this version reads (PNG, JPEG, WebP): {e}"))
    };
    let reader = ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format().map_err(|e| bad(&e))?;
    let mut decoder = reader.into_decoder().map_err(|e| bad(&e))?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > Picture::MAX_PIXELS {
        return Err(Error::bad_option(format!(
            "{name} has {width} x {height} pixels; at most {} are read: make it smaller",
            Picture::MAX_PIXELS
        )));
    }
    let orientation = decoder.orientation().map_err(|e| bad(&e))?;
    let mut decoded = DynamicImage::from_decoder(decoder).map_err(|e| bad(&e))?;
    decoded.apply_orientation(orientation);
    let rgba = decoded.to_rgba8();
    let (width, height) = rgba.dimensions();
    Picture::from_rgba(rgba.as_raw(), width, height).map(Rc::new).map_err(|e| bad(&e))
}

fn read(path: &Path) -> Result<Rc<Picture>> {
    let bytes = std::fs::read(path).map_err(|e| Error::not_found(format!("{}: {e}", path.display())))?;
    decode(&bytes, &path.display().to_string())
}

/// The pictures of files, and a message of the user that shows them before its text.
pub fn shown(paths: &[PathBuf], text: &str) -> Result<(Value, Vec<Rc<Picture>>)> {
    let pictures = paths.iter().map(|path| read(path)).collect::<Result<_>>()?;
    let parts = paths
        .iter()
        .map(|_| json!({ "type": "image" }))
        .chain([json!({ "type": "text", "text": text })])
        .collect::<Vec<_>>();
    let content = if paths.is_empty() { json!(text) } else { Value::Array(parts) };
    Ok((json!([{ "role": "user", "content": content }]), pictures))
}

/// The pictures of messages, in their order: addresses that begin with `data:`, and paths of files.
pub fn of_messages(messages: &Value) -> Result<Vec<Rc<Picture>>> {
    let parts = messages.as_array().into_iter().flatten().filter_map(|message| message["content"].as_array()).flatten();
    let address = |part: &Value| {
        let of = match part["type"].as_str()? {
            "image_url" => &part["image_url"],
            "image" => &part["image"],
            "input_image" => &part["image_url"],
            _ => return None,
        };
        Some(of["url"].as_str().or(of.as_str()).unwrap_or_default().to_owned())
    };
    parts.filter_map(address).map(|address| of_address(&address)).collect()
}

fn of_address(address: &str) -> Result<Rc<Picture>> {
    let Some(data) = address.strip_prefix("data:") else {
        if address.is_empty() || address.contains("://") {
            return Err(Error::bad_option(format!(
                "a picture at {address:?}: the command line reads data: addresses and paths of files"
            )));
        }
        return read(Path::new(address));
    };
    let (head, data) =
        data.split_once(',').ok_or_else(|| Error::bad_option("a data: address of a picture has no comma"))?;
    if !head.ends_with(";base64") {
        return Err(Error::bad_option("a data: address of a picture is not in base64"));
    }
    let bytes =
        base64::decode(data.trim()).map_err(|e| Error::bad_option(format!("a data: address of a picture: {e}")))?;
    decode(&bytes, "the picture of a data: address")
}
