//! Makes the structs of options.toml (build/options.rs), and assembles `shaders/` into the kernel table that
//! `src/kernels` includes: every variant of every kernel is rendered from its template, validated with naga and
//! reflected, so that a wrong binding or override is a build error and not a failure on a user's GPU.

#[path = "build/assemble.rs"]
mod assemble;
#[path = "build/emit.rs"]
mod emit;
#[path = "build/lines.rs"]
mod lines;
#[path = "build/options.rs"]
mod options;
#[path = "build/reflect.rs"]
mod reflect;

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    println!("cargo:rerun-if-changed=shaders");
    println!("cargo:rerun-if-changed=options.toml");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR for build scripts"));
    let root =
        PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR for build scripts"));
    if let Err(message) =
        options::write(&root.join("options.toml"), &out).and_then(|()| build(&root.join("shaders"), &out))
    {
        eprintln!("{message}");
        std::process::exit(1);
    }
}

fn build(shaders: &std::path::Path, out: &std::path::Path) -> Result<(), String> {
    let mut table = Vec::new();
    // Cargo's environment variables of features.
    let feature = |name: &str| std::env::var_os(format!("CARGO_FEATURE_{}", name.to_uppercase())).is_some();
    let wanted = assemble::Wanted { feature: &feature, matrices: false, emulated: false };
    let assemble::Shaders { variants, mut templates, numbers } = assemble::assemble(shaders, &wanted)?;
    // Builds with `lab` keep comments and line numbers, for work on shaders; users' downloads hold only what runs.
    if !feature("lab") {
        templates.retain(|(name, _)| name != "common/shuffles_emulated.wgsl");
        templates.iter_mut().for_each(|(_, text)| *text = lines::strip(text));
    }
    for assembled in variants {
        let reflection = reflect::reflect(&assembled)?;
        table.push((assembled, reflection));
    }
    emit::write(&table, &templates, &numbers, out)
}
