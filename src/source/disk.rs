//! Files of this machine, read by position: no mapping, no shared cursor.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::spec::{gguf_parts, is_projector, names, projector_beside};
use super::{ByteSource, Files, check_range};
use crate::error::{Error, Result};

/// A file on disk. Its length is taken when it is opened; a file that shrinks later gives an error, not wrong bytes.
pub struct DiskSource {
    name: String,
    file: File,
    len: u64,
}

impl DiskSource {
    /// Opens `path` under its own last component.
    ///
    /// Fails with `NOT_FOUND` if it is not there and `STORAGE` if it cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| io_error(path, &e))?;
        let len = file.metadata().map_err(|e| io_error(path, &e))?.len();
        let name = path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        Ok(Self { name, file, len })
    }
}

impl ByteSource for DiskSource {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.len, offset, len)?;
            let mut bytes = vec![0; len];
            read_exact_at(&self.file, &mut bytes, offset).map_err(|e| io_error(Path::new(&self.name), &e))?;
            Ok(bytes)
        })
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                bytes = &mut bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// An I/O error as one of ours, naming the path.
pub(crate) fn io_error(path: &Path, e: &io::Error) -> Error {
    let path = path.display();
    match e.kind() {
        io::ErrorKind::NotFound => Error::not_found(format!("{path}: there is no such file or folder")),
        io::ErrorKind::UnexpectedEof => Error::storage(format!("{path}: the file became shorter while it was read")),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Error::storage(format!("{path}: the disk is full ({e}); free some space and try again"))
        }
        _ => Error::storage(format!("{path}: {e}")),
    }
}

/// Adds the projector (mmproj) beside a GGUF model, if there is one that can be opened.
fn insert_projector(files: &mut Files, model: &Path) {
    let parent = model.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let of = model.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(name) = projector_beside(of, &names) else { return };
    if let Ok(file) = DiskSource::open(&parent.join(name)) {
        files.insert(name.to_owned(), Rc::new(file));
    }
}

/// The model at `path`: a single file, or those files of a folder that belong to a model.
///
/// Of a folder, configuration, tokenizer and every `.safetensors` are opened; a folder with exactly one `.gguf` and no
/// config.json is that file. A projector (`mmproj-*.gguf`) beside a `.gguf` file is among its files, unless it is named
/// after another model there. Fails with `NOT_FOUND` if `path` or everything that a model needs is missing.
pub fn open_path(path: &Path) -> Result<Files> {
    let meta = std::fs::metadata(path).map_err(|e| io_error(path, &e))?;
    let mut files = Files::new();
    if !meta.is_dir() {
        let source = DiskSource::open(path)?;
        // Pointing at one file of a folder means the folder, as it does for a URL.
        if let (names::CONFIG | names::WEIGHTS | names::INDEX | names::MANIFEST, Some(parent)) =
            (source.name(), path.parent())
        {
            return open_path(if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
        }
        for part in gguf_parts(source.name()).unwrap_or_else(|| vec![source.name.clone()]) {
            files.insert(part.clone(), Rc::new(DiskSource::open(&path.with_file_name(part))?));
        }
        if source.name().ends_with(".gguf") && !is_projector(source.name()) {
            insert_projector(&mut files, path);
        }
        return Ok(files);
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(|e| io_error(path, &e))? {
        paths.push(entry.map_err(|e| io_error(path, &e))?.path());
    }
    paths.sort();
    let extension = |p: &PathBuf, e: &str| p.extension().is_some_and(|x| x == e);
    let name_of = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let is_hf = paths.iter().any(|p| p.file_name().is_some_and(|n| n == names::CONFIG));
    if !is_hf && paths.iter().any(|p| name_of(p) == names::MANIFEST) {
        for p in paths.iter().filter(|p| extension(p, "json") || extension(p, "bin")) {
            let source = DiskSource::open(p)?;
            files.insert(source.name.clone(), Rc::new(source));
        }
        return Ok(files);
    }
    if !is_hf {
        let mut gguf: Vec<&PathBuf> = paths.iter().filter(|p| extension(p, "gguf")).collect();
        if gguf.iter().any(|p| !is_projector(&name_of(p))) {
            gguf.retain(|p| !is_projector(&name_of(p)));
        }
        return match gguf.as_slice() {
            [one] => open_path(one),
            [first, ..]
                if gguf_parts(&name_of(first))
                    .is_some_and(|parts| gguf.iter().all(|p| parts.contains(&name_of(p)))) =>
            {
                open_path(first)
            }
            [] => Err(Error::not_found(format!(
                "{}: has no config.json and no .gguf file; {}",
                path.display(),
                names::EXPECTED
            ))),
            _ => Err(Error::bad_option(format!(
                "{}: holds {} .gguf files; name the one to load",
                path.display(),
                gguf.len()
            ))),
        };
    }
    for p in paths {
        if extension(&p, "safetensors") || extension(&p, "json") || extension(&p, "jinja") {
            let source = DiskSource::open(&p)?;
            files.insert(source.name.clone(), Rc::new(source));
        }
        // Files of a module of sentence-transformers.
        for file in [names::CONFIG, names::WEIGHTS] {
            let (name, inner) = (names::of_module(&name_of(&p), file), p.join(file));
            if names::place(&name) != name && inner.is_file() {
                files.insert(name, Rc::new(DiskSource::open(&inner)?));
            }
        }
    }
    Ok(files)
}

/// The adapter at `path`: a .gguf file, or what PEFT saves of a folder, which any of its files stands for. `NOT_FOUND`
/// if there is nothing.
pub fn open_adapter(path: &Path) -> Result<Files> {
    let meta = std::fs::metadata(path).map_err(|e| io_error(path, &e))?;
    let name = |p: &Path| p.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = match path.parent() {
        _ if meta.is_dir() => path,
        Some(parent) if name(path).starts_with("adapter_") => parent,
        _ => return Ok(Files::from_iter([(name(path), Rc::new(DiskSource::open(path)?) as Rc<dyn ByteSource>)])),
    };
    let mut files = Files::new();
    for entry in std::fs::read_dir(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
        .map_err(|e| io_error(folder, &e))?
    {
        let path = entry.map_err(|e| io_error(folder, &e))?.path();
        if path.is_file() && (name(&path).starts_with("adapter_") || path.extension().is_some_and(|e| e == "gguf")) {
            files.insert(name(&path), Rc::new(DiskSource::open(&path)?));
        }
    }
    files.sort_keys();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use pollster::block_on;

    fn write(dir: &Path, name: &str, bytes: &[u8]) {
        std::fs::write(dir.join(name), bytes).unwrap();
    }

    #[test]
    fn reads_by_position() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "a.gguf", b"0123456789");
        let source = DiskSource::open(&dir.path().join("a.gguf")).unwrap();
        assert_eq!((source.name(), source.len()), ("a.gguf", 10));
        assert_eq!(block_on(source.read(3, 4)).unwrap(), b"3456");
        assert_eq!(block_on(source.read(10, 0)).unwrap(), b"");
        assert_eq!(block_on(source.read(8, 3)).unwrap_err().kind(), ErrorKind::BadModel);
        assert_eq!(block_on(source.read(u64::MAX, 3)).unwrap_err().kind(), ErrorKind::BadModel);
        write(dir.path(), "a.gguf", b"01");
        assert_eq!(block_on(source.read(3, 4)).unwrap_err().kind(), ErrorKind::Storage);
    }

    #[test]
    fn a_folder_is_its_model_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["config.json", "tokenizer.json", "model.safetensors", "README.md", "pytorch_model.bin"] {
            write(dir.path(), name, b"{}");
        }
        std::fs::create_dir(dir.path().join("onnx")).unwrap();
        let expected = ["config.json", "model.safetensors", "tokenizer.json"];
        for path in [dir.path().to_owned(), dir.path().join("config.json"), dir.path().join("model.safetensors")] {
            assert_eq!(open_path(&path).unwrap().keys().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn one_part_stands_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let parts = ["m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"];
        write(dir.path(), parts[0], b"x");
        write(dir.path(), parts[2], b"x");
        let error = open_path(&dir.path().join(parts[2])).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains(parts[1]), "{error}");
        write(dir.path(), parts[1], b"x");
        for path in [dir.path().to_owned(), dir.path().join(parts[1])] {
            assert_eq!(open_path(&path).unwrap().keys().collect::<Vec<_>>(), parts);
        }
    }

    #[test]
    fn a_folder_with_gguf_files() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(open_path(dir.path()).err().unwrap().kind(), ErrorKind::NotFound);
        write(dir.path(), "a.gguf", b"x");
        assert_eq!(open_path(dir.path()).unwrap().keys().collect::<Vec<_>>(), ["a.gguf"]);
        write(dir.path(), "b.gguf", b"x");
        assert_eq!(open_path(dir.path()).err().unwrap().kind(), ErrorKind::BadOption);
        assert_eq!(open_path(&dir.path().join("c.gguf")).err().unwrap().kind(), ErrorKind::NotFound);
    }
}
