//! The kernel table as Rust: `OUT_DIR/kernels.rs`. Variants are a few numbers each and are rendered again where they are compiled: their
//! texts would be most of what a page downloads. One WGSL file a variant lies beside it, for tools that check shaders.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use crate::assemble::{Argument, Assembled};
use crate::reflect::Reflection;

pub fn write(table: &[(Assembled, Reflection)], templates: &[(String, String)], out: &Path) -> Result<(), String> {
    let folder = out.join("wgsl");
    // A variant that no longer exists must not stay behind for tools that read the folder.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<&str> = Vec::new();
    let mut code = String::new();
    let mut lines = Vec::new();
    for (v, r) in table {
        if names.last() != Some(&v.kernel.as_str()) {
            names.push(&v.kernel);
        }
        let file = format!("{}.{}.wgsl", v.kernel, v.name);
        let path = folder.join(&file);
        std::fs::write(&path, &v.source).map_err(|e| format!("{}: {e}", path.display()))?;
        lines.push(line(v, r)?);
    }
    // One text, which `kernels::table` reads: as Rust's structures the variants would be five times as long after compression.
    let _ = writeln!(code, "static TABLE: &str = {:?};", lines.join("\n"));
    let _ = writeln!(code, "static KERNELS: &[&str] = &{names:?};");
    // Which kernels these are: what was found out about others does not count for them.
    let mut hasher = DefaultHasher::new();
    table.iter().for_each(|(v, _)| (&v.kernel, &v.name, &v.source).hash(&mut hasher));
    let _ = writeln!(code, "/// Differs where any variant's text differs.\npub const EDITION: &str = \"{:016x}\";", hasher.finish());
    let _ = writeln!(code, "static TEMPLATES: &[(&str, &str)] = &{templates:?};");
    let path = out.join("kernels.rs");
    std::fs::write(&path, code).map_err(|e| format!("{}: {e}", path.display()))
}

/// A variant: fields between tabs, items between blanks.
fn line(v: &Assembled, r: &Reflection) -> Result<String, String> {
    let items = |items: Vec<String>| items.join(" ");
    let numbers = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let argument = |value: &Argument| match value {
        Argument::Text(text) => format!("t{text}"),
        Argument::Number(number) => format!("n{number}"),
        Argument::Pair(pair) => format!("p{}", numbers(pair)),
    };
    let flags = [(r.subgroups, 's'), (r.f16, 'f'), (v.matrices, 'm')].iter().filter(|(set, _)| *set).map(|(_, flag)| *flag).collect();
    let fields = [
        v.kernel.clone(),
        v.template.clone(),
        items(v.axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect()),
        items(v.context.iter().map(|(key, value)| format!("{key}={}", argument(value))).collect()),
        numbers(&r.workgroup),
        r.workgroup_bytes.to_string(),
        numbers(&v.tile),
        v.lanes.to_string(),
        items(r.bindings.iter().map(|(slot, name, kind)| format!("{slot}:{name}:{kind}")).collect()),
        items(r.overrides.iter().map(|(name, default, ty)| format!("{name}:{ty}{}", default.map_or(String::new(), |d| format!(":{d}")))).collect()),
        flags,
    ];
    let text = fields.join("\t");
    // Names and values are words: a separator in one would move what follows.
    let words = |values: Vec<&str>| values.iter().all(|value| !value.contains(['\t', '\n', ' ', '=', ':']));
    let texts = v.context.iter().filter_map(|(_, value)| if let Argument::Text(text) = value { Some(text.as_str()) } else { None });
    if text.matches('\t').count() != fields.len() - 1 || text.contains('\n') || !words(v.axes.iter().flat_map(|(a, b)| [a.as_str(), b]).chain(texts).collect())
    {
        return Err(format!("{}: a name or a value has a separator of the table in it", v.label()));
    }
    if v.name != v.axes.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>().join("-") && !(v.axes.is_empty() && v.name == "default") {
        return Err(format!("{}: its name is not that of its axes", v.label()));
    }
    Ok(text)
}
