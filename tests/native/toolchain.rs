//! The promised Rust version is the one that these tests run with, and the binding tool has the version of the bound
//! crate.

use std::fs;

fn text(path: &str) -> String {
    fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap().replace('\r', "")
}

/// The text between two strings.
fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before:?} is missing")).1;
    rest.split_once(after).unwrap_or_else(|| panic!("{after:?} is missing")).0
}

#[test]
fn the_oldest_rust_that_is_promised_is_the_one_of_the_toolchain_file() {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    assert_eq!(between(&text("rust-toolchain.toml"), "channel = \"", "\""), format!("{promised}.0"));
    assert_eq!(between(&text("scripts/bind/Cargo.toml"), "rust-version = \"", "\""), promised);
    assert_eq!(between(&text("README.md"), "[Rust](https://rustup.rs) ", " "), promised);
}

#[test]
fn what_binds_has_the_version_of_wasm_bindgen() {
    let version =
        |lock: &str, name: &str| between(&text(lock), &format!("name = \"{name}\"\nversion = \""), "\"").to_owned();
    assert_eq!(version("scripts/bind/Cargo.lock", "wasm-bindgen-cli-support"), version("Cargo.lock", "wasm-bindgen"));
}
