//! Names of files, and hashes as text.

use crate::error::{Error, Result};

/// Checks that `name` is a plain file name in characters that every store accepts, so that it cannot lead out of its
/// folder.
pub fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > 200 || name.starts_with('.') || !name.chars().all(plain) {
        return Err(Error::bad_model(format!(
            "{name:?} is not a file name that can be stored: use letters, digits, '.', '_' and '-', not starting with '.'"
        )));
    }
    Ok(())
}

/// Bytes as lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_folder() {
        for good in ["model.gguf", "manifest.json", "model-00001-of-00002.safetensors", "a"] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "../a", "a/b", "a\\b", ".hidden", "a b", "é", "a:b", "nul\0"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
