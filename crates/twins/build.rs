//! The numbers that shaders and Rust share, from `[numbers]` of shaders/variants.toml, as constants.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../shaders/variants.toml");
    println!("cargo::rerun-if-changed={}", path.display());
    let table: toml::Table = fs::read_to_string(&path)?.parse()?;
    let numbers = table
        .get("numbers")
        .and_then(|numbers| numbers.as_table())
        .ok_or("variants.toml: there is no table [numbers]")?;
    let mut code = String::new();
    for (name, number) in numbers {
        let number = |key: &str| number.get(key).ok_or(format!("variants.toml: [numbers] {name}: there is no {key}"));
        let is = number("is")?.as_integer().ok_or(format!("variants.toml: [numbers] {name}: not a whole number"))?;
        writeln!(
            code,
            "/// {}\npub const {}: u32 = {is};",
            number("what")?.as_str().unwrap_or_default(),
            name.to_uppercase()
        )?;
    }
    fs::write(Path::new(&env::var("OUT_DIR")?).join("numbers.rs"), code)?;
    Ok(())
}
