//! What Hugging Face says of a repository's files: lengths, and SHA-256 of the large ones, before a byte of them has
//! arrived.

use serde::Deserialize;

/// A file of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    pub length: u64,
    pub sha256: Option<String>,
}

/// The address of the list of the folder in which the file at `url` lies, and the file's path; `None` for other
/// servers.
pub(super) fn list_url(url: &str) -> Option<(String, String)> {
    let path = url.split(['?', '#']).next()?.strip_prefix("https://huggingface.co/")?;
    let mut parts = path.splitn(5, '/');
    let (owner, repo, resolve, revision, file) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    if resolve != "resolve" || file.is_empty() {
        return None;
    }
    let folder = file.rsplit_once('/').map_or_else(String::new, |(folder, _)| format!("/{folder}"));
    Some((format!("https://huggingface.co/api/models/{owner}/{repo}/tree/{revision}{folder}"), file.to_owned()))
}

#[derive(Deserialize)]
struct Entry {
    path: String,
    size: u64,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
    size: u64,
}

/// The files of a list with their paths. What is no list says nothing.
pub(super) fn parse(list: &[u8]) -> Vec<(String, Known)> {
    let entries: Vec<Entry> = serde_json::from_slice(list).unwrap_or_default();
    let known = |entry: Entry| {
        let sha256 = entry
            .lfs
            .as_ref()
            .map(|lfs| lfs.oid.clone())
            .filter(|oid| oid.len() == 64 && oid.bytes().all(|b| b.is_ascii_hexdigit()));
        (entry.path, Known { length: entry.lfs.map_or(entry.size, |lfs| lfs.size), sha256 })
    };
    entries.into_iter().map(known).collect()
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let hf = "https://huggingface.co";
        let found = |url: &str| list_url(&format!("{hf}/{url}"));
        assert_eq!(
            found("a/b/resolve/main/m.gguf?download=true"),
            Some((format!("{hf}/api/models/a/b/tree/main"), "m.gguf".into()))
        );
        assert_eq!(
            found("a/b/resolve/v1/q/4/m.gguf"),
            Some((format!("{hf}/api/models/a/b/tree/v1/q/4"), "q/4/m.gguf".into()))
        );
        assert_eq!(found("a/b/resolve/main/"), None);
        assert_eq!(list_url("https://example.org/a/b/resolve/main/m.gguf"), None);
    }

    #[test]
    fn lists() {
        let oid = "ab".repeat(32);
        let text = format!(
            r#"[{{"type":"directory","oid":"1","size":0,"path":"q"}},{{"type":"file","oid":"2","size":7,"path":"config.json"}},
                {{"type":"file","oid":"3","size":130,"path":"m.gguf","lfs":{{"oid":"{oid}","size":4000000000,"pointerSize":130}}}}]"#
        );
        let files = parse(text.as_bytes());
        assert!(files.contains(&("config.json".into(), Known { length: 7, sha256: None })));
        assert!(files.contains(&("m.gguf".into(), Known { length: 4_000_000_000, sha256: Some(oid) })));
        assert!(parse(b"<html>").is_empty() && parse(b"{\"error\":1}").is_empty());
    }
}
