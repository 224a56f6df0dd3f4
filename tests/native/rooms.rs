//! The modules ("rooms") of `src/` depend on each other in the order of `lib.rs`: imports go down, never up. And
//! JavaScript is used only in the listed files.

use std::fs;
use std::path::{Path, PathBuf};

/// A line of code that breaks a rule, as compilers print it.
fn offender(file: &Path, line: usize, why: &str) -> String {
    let shown = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap_or(file);
    format!("{}:{line}: {why}", shown.display())
}

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Every Rust file below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The rooms, from the lowest to the highest.
fn rooms(lib: &str) -> Vec<String> {
    let named = |line: &str| {
        line.strip_prefix("pub mod ")
            .or_else(|| line.strip_prefix("pub use millrace_core::"))?
            .strip_suffix(';')
            .map(str::to_owned)
    };
    lib.lines().filter_map(named).collect()
}

/// The code of a file without its comments, with the same line numbers.
fn code(text: &str) -> String {
    text.lines().map(|l| l.split_once("//").map_or(l, |(code, _)| code)).collect::<Vec<_>>().join("\n")
}

/// (line, room) of everything that code names in another room: `crate::room`, `crate::{room, room::…}`, and
/// `super::room` out of its own. `depth`: how many `super` lead from a module of this file to the crate.
fn named(code: &str, depth: usize) -> Vec<(usize, String)> {
    let up = "super::".repeat(depth);
    let mut found = Vec::new();
    for start in ["crate::", &up] {
        for (at, _) in code.match_indices(start) {
            // A part of `self::super::`, of a longer word or of a longer chain is counted where that begins.
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let rest = &code[at + start.len()..];
            let word = |text: &str| text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
            match rest.strip_prefix('{') {
                None => found.push((line, word(rest))),
                Some(group) => {
                    let (mut level, mut item) = (0, true);
                    for (i, c) in group.char_indices() {
                        match c {
                            '{' => level += 1,
                            '}' if level == 0 => break,
                            '}' => level -= 1,
                            ',' if level == 0 => item = true,
                            c if item && c.is_alphanumeric() => {
                                found.push((line, word(&group[i..])));
                                item = false;
                            }
                            _ => {}
                        }
                    }
                }
            }
        }
    }
    found
}

/// The imports of the files that go upwards.
fn upward(src: &Path, files: &[(PathBuf, String)], rooms: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in files {
        let inner = path.strip_prefix(src).unwrap().with_extension("");
        let mut parts: Vec<_> = inner.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        if parts.last().is_some_and(|p| p == "mod") {
            parts.pop();
        }
        let Some(own) = rooms.iter().position(|r| *r == parts[0]) else { continue };
        // A room of one file and a folder's mod.rs are one `super` from the crate; a module of tests in it two, which
        // is not used.
        for (line, name) in named(&code(text), parts.len()) {
            if let Some(other) = rooms.iter().position(|r| *r == name)
                && other > own
            {
                wrong.push(offender(
                    path,
                    line,
                    &format!("{} imports {name}, which stands above it in lib.rs", rooms[own]),
                ));
            }
        }
    }
    wrong
}

#[test]
fn imports_go_down() {
    let src = root("src");
    let rooms = rooms(&fs::read_to_string(src.join("lib.rs")).unwrap());
    let files: Vec<_> =
        sources(&src).into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    // Each folder and file is a room: none is left out of the order.
    for entry in fs::read_dir(&src).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let room = name.trim_end_matches(".rs");
        assert!(matches!(room, "lib" | "bin") || rooms.iter().any(|r| r == room), "lib.rs does not name src/{name}");
    }
    let wrong = upward(&src, &files, &rooms);
    assert!(wrong.is_empty(), "{} imports go up:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn an_import_that_goes_up_is_found_with_its_line() {
    let src = root("src");
    let rooms = ["error", "gpu", "web"].map(str::to_owned);
    let at = |name: &str, text: &str| upward(&src, &[(src.join(name), text.to_owned())], &rooms);
    assert_eq!(
        at("gpu/a.rs", "use crate::error::Error;\n// use crate::web;\nlet x = crate::web::now();"),
        ["src/gpu/a.rs:3: gpu imports web, which stands above it in lib.rs"]
    );
    assert_eq!(at("error.rs", "use crate::{\n  error::{self, Error},\n  gpu,\n};").len(), 1);
    assert_eq!(at("gpu/a/b.rs", "use super::super::super::web::X;").len(), 1);
    assert_eq!(at("gpu/a/b.rs", "use super::web::X; use super::super::web;"), [""; 0], "modules of its own room");
    assert_eq!(at("web/mod.rs", "use crate::{gpu, error};"), [""; 0]);
}

#[test]
fn only_the_named_files_know_javascript() {
    let architecture = fs::read_to_string(root("docs/ARCHITECTURE.md")).unwrap();
    let sentence =
        architecture.split("Only these know JavaScript:").nth(1).expect("docs/ARCHITECTURE.md names the files");
    let named: Vec<&str> = sentence
        .split_once('.')
        .map_or("", |_| sentence.split("\n\n").next().unwrap())
        .split('`')
        .skip(1)
        .step_by(2)
        .collect();
    assert!(!named.is_empty() && named.iter().all(|name| root(name).exists()), "{named:?}");
    let mut knowing = Vec::new();
    let mut wrong = Vec::new();
    for path in sources(&root("src")) {
        // A test that also runs in the browser carries an attribute that says so, and knows nothing else of it.
        let text = code(&fs::read_to_string(&path).unwrap()).replace("wasm_bindgen_test", "");
        let words = ["js_sys", "web_sys", "wasm_bindgen", "JsValue", "as_uint8array"];
        let Some(line) = text.lines().position(|l| words.iter().any(|w| l.contains(w))) else { continue };
        let shown = path.strip_prefix(root("")).unwrap().to_string_lossy().into_owned();
        match named.iter().find(|name| shown == **name || name.ends_with('/') && shown.starts_with(**name)) {
            Some(name) => knowing.push(*name),
            None => wrong.push(offender(&path, line + 1, "knows JavaScript, and docs/ARCHITECTURE.md does not say so")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let idle: Vec<_> = named.iter().filter(|name| !knowing.contains(*name)).collect();
    assert!(idle.is_empty(), "docs/ARCHITECTURE.md names {idle:?}, which know nothing of JavaScript");
}
