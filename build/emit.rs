//! The kernel table as Rust: `OUT_DIR/kernels.rs`. Variants are rendered again where they are compiled: their texts
//! would be most of what a page downloads. Those that differ in the weight type alone are one entry: there are ten
//! types for every other number. One WGSL file a variant lies beside the table, for tools that check shaders.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use crate::assemble::{Argument, Assembled, Numbers, Templates};
use crate::reflect::Reflection;

pub fn write(
    table: &[(Assembled, Reflection)],
    templates: &Templates,
    numbers: &Numbers,
    out: &Path,
) -> Result<(), String> {
    let folder = out.join("wgsl");
    // A variant that no longer exists must not stay behind for tools that read the folder.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<&str> = Vec::new();
    let mut code = String::new();
    // What is said of a family, and the weight types of its members; none where there is no such axis.
    let mut families: Vec<(String, Vec<&str>)> = Vec::new();
    let mut weights: Vec<&str> = Vec::new();
    for (v, r) in table {
        if names.last() != Some(&v.kernel.as_str()) {
            names.push(&v.kernel);
        }
        let file = format!("{}.{}.wgsl", v.kernel, v.name);
        let path = folder.join(&file);
        std::fs::write(&path, &v.source).map_err(|e| format!("{}: {e}", path.display()))?;
        let bindings: String = r
            .bindings
            .iter()
            .map(|(slot, name, kind)| {
                format!("Binding {{ slot: {slot}, name: {name:?}, kind: BindingKind::{kind} }}, ")
            })
            .collect();
        let overrides: String = r
            .overrides
            .iter()
            .map(|(name, default, ty)| {
                format!("Override {{ name: {name:?}, default: {default:?}, ty: OverrideType::{ty} }}, ")
            })
            .collect();
        let context: String =
            v.context.iter().map(|(key, value)| format!("({key:?}, Argument::{}), ", argument(value))).collect();
        let (weight, axes) = match v.axes.as_slice() {
            [(axis, weight), rest @ ..] if axis == "weight" => (Some(weight.as_str()), rest),
            axes if axes.iter().any(|(axis, _)| axis == "weight") => {
                return Err(format!("{}: weight is not its first axis", v.label()));
            }
            axes => (None, axes),
        };
        let family = format!(
            "kernel: {:?}, axes: &{axes:?}, template: {:?}, context: &[{context}], \
             workgroup: {:?}, workgroup_bytes: {}, tile: {:?}, lanes: {}, bindings: &[{bindings}], overrides: &[{overrides}], subgroups: {}, f16: {}, matrices: {}",
            v.kernel, v.template, r.workgroup, r.workgroup_bytes, v.tile, v.lanes, r.subgroups, r.f16, v.matrices,
        );
        let at = families.iter().position(|(known, _)| *known == family).unwrap_or_else(|| {
            families.push((family, Vec::new()));
            families.len() - 1
        });
        families[at].1.extend(weight);
        weights.extend(weight.filter(|weight| !weights.contains(weight)));
    }
    let _ = writeln!(code, "static FAMILIES: &[Family] = &[");
    for (family, weights) in &families {
        let _ = writeln!(code, "Family {{ {family}, weights: &{weights:?} }},");
    }
    let _ = writeln!(code, "];\nstatic WEIGHTS: &[&str] = &{weights:?};\nstatic KERNELS: &[&str] = &{names:?};");
    // Which kernels these are: what was found out about others does not count for them.
    let mut hasher = DefaultHasher::new();
    table.iter().for_each(|(v, _)| (&v.kernel, &v.name, &v.source).hash(&mut hasher));
    let _ = writeln!(
        code,
        "/// Differs where any variant's text differs.\npub const EDITION: &str = \"{:016x}\";",
        hasher.finish()
    );
    let _ = writeln!(code, "static TEMPLATES: &[(&str, &str)] = &{templates:?};");
    let values: Vec<(&str, u32)> = numbers.iter().map(|(name, number)| (name.as_str(), number.is)).collect();
    let _ = writeln!(code, "static NUMBERS: &[(&str, u32)] = &{values:?};");
    let mut constants = String::new();
    for (name, number) in numbers {
        let _ = writeln!(constants, "/// {}\npub const {}: u32 = {};", number.what, name.to_uppercase(), number.is);
    }
    let path = out.join("numbers.rs");
    std::fs::write(&path, constants).map_err(|e| format!("{}: {e}", path.display()))?;
    let path = out.join("kernels.rs");
    std::fs::write(&path, code).map_err(|e| format!("{}: {e}", path.display()))
}

fn argument(value: &Argument) -> String {
    match value {
        Argument::Number(number) => format!("Number({number})"),
        Argument::Pair(pair) => format!("Pair({pair:?})"),
    }
}
