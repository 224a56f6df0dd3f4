//! Prints the WGSL text of a variant as the templates in shaders/ give it now. See scripts/wgsl.mjs.

// Of the build's modules only the text is used here.
#[allow(dead_code)]
#[path = "../../../build/assemble.rs"]
mod assemble;
#[allow(dead_code)]
#[path = "../../../build/lines.rs"]
mod lines;

use std::path::Path;
use std::process::ExitCode;

use assemble::{Assembled, Wanted};

fn main() -> ExitCode {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let (options, names): (Vec<_>, Vec<_>) = all.iter().map(String::as_str).partition(|a| a.starts_with("--"));
    match run(&options, &names) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &[&str], names: &[&str]) -> Result<String, String> {
    if let Some(unknown) = options.iter().find(|o| !["--lines", "--emulated"].contains(o)) {
        return Err(format!("error[BAD_OPTION]: there is no option {unknown}; there are --lines and --emulated"));
    }
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shaders");
    let wanted = Wanted { feature: &|_| true, matrices: true, emulated: options.contains(&"--emulated") };
    let variants = assemble::assemble(&shaders, &wanted).map_err(|e| format!("error[BAD_SHADER]: {e}"))?.variants;
    // Names in the program's notation are accepted too: matvec=q4_0-q8-sg32.
    let mut words = names.iter().flat_map(|name| name.split('='));
    let (kernel, variant) = (words.next(), words.next());
    if words.next().is_some() {
        return Err("error[BAD_OPTION]: give a kernel and a variant: npm run wgsl -- matvec q4_0-q8-sg32".into());
    }
    let mut kernels: Vec<&str> = variants.iter().map(|v| v.kernel.as_str()).collect();
    kernels.dedup();
    let Some(kernel) = kernel else { return Err(format!("error[UNKNOWN_KERNEL]: which kernel? There are {}", kernels.join(", "))) };
    let of_kernel: Vec<&Assembled> = variants.iter().filter(|v| v.kernel == kernel).collect();
    if of_kernel.is_empty() {
        return Err(format!("error[UNKNOWN_KERNEL]: there is no kernel {kernel}; there are {}", kernels.join(", ")));
    }
    let found = match (variant, &of_kernel[..]) {
        (None, [only]) => Some(only),
        (None, _) => None,
        (Some(variant), all) => all.iter().find(|v| v.name == variant),
    };
    let Some(found) = found else {
        let names: Vec<&str> = of_kernel.iter().map(|v| v.name.as_str()).collect();
        let axes: Vec<&str> = of_kernel[0].axes.iter().map(|(axis, _)| axis.as_str()).collect();
        let wanted = variant.map_or(String::new(), |v| format!("{v} is none: "));
        return Err(format!("error[UNKNOWN_KERNEL]: {wanted}the variants of {kernel} ({}) are {}", axes.join("-"), names.join(", ")));
    };
    Ok(if options.contains(&"--lines") { found.marked.clone() } else { indented(&found.source) })
}

/// Indents the source, whose indentation and comments the build strips.
fn indented(source: &str) -> String {
    let mut depth = 0_usize;
    let mut out = String::new();
    for line in source.lines() {
        let closes = line.starts_with('}');
        out.push_str(&"    ".repeat(depth.saturating_sub(usize::from(closes))));
        out.push_str(line);
        out.push('\n');
        depth = (depth + line.matches('{').count()).saturating_sub(line.matches('}').count());
    }
    out
}
