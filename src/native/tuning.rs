//! Measurements of kernels' variants, kept in the user's cache folder.

use std::fs;

use crate::error::Result;
use crate::plan::tuning::{FILE, Tuning};
use crate::source::disk::io_error;
use crate::store::disk::cache_folder;

/// What was measured on this machine's GPUs, from the user's cache folder; nothing where nothing can be read.
pub fn read_tuning() -> Tuning {
    let text = cache_folder().ok().and_then(|folder| fs::read_to_string(folder.join(FILE)).ok());
    text.map(|text| Tuning::parse(&text)).unwrap_or_default()
}

/// Keeps it there, beside what other processes have kept.
pub fn write_tuning(tuning: &Tuning) -> Result<()> {
    let mut known = read_tuning();
    known.add(tuning.clone());
    let folder = cache_folder()?;
    fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
    // Whole or not at all: others may be reading.
    let (path, part) = (folder.join(FILE), folder.join(format!("{}.{}", FILE, std::process::id())));
    fs::write(&part, known.text()).and_then(|()| fs::rename(&part, &path)).map_err(|e| io_error(&path, &e))
}
