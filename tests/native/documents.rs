//! Documents have short lines, for review as diffs, and name files that exist.

use std::fs;
use std::path::{Path, PathBuf};

/// The longest line, in characters.
const WIDTH: usize = 120;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Every document of the repository: Markdown that git would keep.
fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let ours = !name.starts_with('.') || name == ".github";
        if path.is_dir()
            && ours
            && !["node_modules", "target", "pkg", "dist", "test-results", "playwright-report"].contains(&&*name)
        {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

fn all() -> Vec<(String, String)> {
    let mut found = Vec::new();
    documents(&root(""), &mut found);
    found.sort();
    found
        .iter()
        .map(|path| (path.strip_prefix(root("")).unwrap().display().to_string(), fs::read_to_string(path).unwrap()))
        .collect()
}

#[test]
fn lines_are_short() {
    let all = all();
    assert!(all.iter().any(|(name, _)| name == "docs/ARCHITECTURE.md"), "documents are found");
    let long = all.iter().flat_map(|(name, text)| {
        let lines = text.lines().enumerate().filter(|(_, line)| line.chars().count() > WIDTH);
        lines.map(move |(i, line)| {
            format!("{name}:{}: {} characters, {WIDTH} are the most", i + 1, line.chars().count())
        })
    });
    let long: Vec<_> = long.collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// A path in backticks or in a link that begins with one of our folders exists.
#[test]
fn files_that_are_named_exist() {
    let ours = ["src/", "shaders/", "npm/", "www/", "scripts/", "tests/", "docs/", "examples/", "bench/"];
    let mut missing = Vec::new();
    for (name, text) in all().iter().filter(|(name, _)| name != "CHANGELOG.md") {
        // An example's names are those of its own folder.
        let folder = if name.starts_with("examples/") { Path::new(name).parent().unwrap() } else { Path::new("") };
        for (i, line) in text.lines().enumerate() {
            for word in line.split(['`', '(', ')']).skip(1) {
                // Patterns, placeholders (NAME, TYPE), commands and build outputs are no paths.
                let placeholder =
                    word.split('/').any(|part| part.contains(char::is_uppercase) && !part.ends_with(".md"));
                let plain = word.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c)) && !placeholder;
                if plain
                    && ours.iter().any(|folder| word.starts_with(folder))
                    && !word.starts_with("www/js")
                    && !root("").join(folder).join(word).exists()
                {
                    missing.push(format!("{name}:{}: {word} does not exist", i + 1));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
