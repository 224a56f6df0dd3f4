//! Reads the kernel table that build/emit.rs writes: a line a variant, fields between tabs, items between blanks.

use super::{Argument, Binding, BindingKind, Override, OverrideType, Variant};

/// All variants of the text. The build made it, so nothing is checked here: what is not as it should be fails the tests of [`super`].
pub(super) fn read(text: &'static str) -> Vec<Variant> {
    text.lines().map(variant).collect()
}

fn variant(line: &'static str) -> Variant {
    let (line, flags) = line.rsplit_once('\t').unwrap_or_default();
    let mut fields = line.split('\t');
    let mut field = || fields.next().unwrap_or_default();
    let (kernel, template) = (field(), field());
    let axes = items(field(), |item| item.split_once('=').unwrap_or_default());
    let values: Vec<&str> = axes.iter().map(|axis| axis.1).collect();
    Variant {
        kernel,
        name: if values.is_empty() { "default" } else { values.join("-").leak() },
        axes,
        template,
        context: items(field(), |item| {
            let (key, value) = item.split_once('=').unwrap_or_default();
            (key, argument(value))
        }),
        workgroup: numbers(field()),
        workgroup_bytes: number(field()),
        tile: numbers(field()),
        lanes: number(field()),
        bindings: items(field(), |item| {
            let [slot, name, kind] = parts(item);
            let kind = match kind {
                "Uniform" => BindingKind::Uniform,
                "Read" => BindingKind::Read,
                _ => BindingKind::ReadWrite,
            };
            Binding { slot: number(slot), name, kind }
        }),
        overrides: items(field(), |item| {
            let [name, ty, default] = parts(item);
            let ty = match ty {
                "U32" => OverrideType::U32,
                "I32" => OverrideType::I32,
                "F32" => OverrideType::F32,
                _ => OverrideType::Bool,
            };
            Override { name, default: default.parse().ok(), ty }
        }),
        subgroups: flags.contains('s'),
        f16: flags.contains('f'),
        matrices: flags.contains('m'),
    }
}

/// The table lives as long as the program: so do its items.
fn items<T>(text: &'static str, item: impl Fn(&'static str) -> T) -> &'static [T] {
    Vec::leak(text.split(' ').filter(|part| !part.is_empty()).map(item).collect())
}

/// What stands between colons; nothing where there is no more.
fn parts(item: &'static str) -> [&'static str; 3] {
    let mut parts = item.split(':');
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

fn argument(value: &'static str) -> Argument {
    match value.split_at_checked(1) {
        Some(("n", rest)) => Argument::Number(number(rest)),
        Some(("p", rest)) => Argument::Pair(numbers(rest)),
        Some((_, rest)) => Argument::Text(rest),
        None => Argument::Text(""),
    }
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or_default()
}

fn numbers<const N: usize>(text: &str) -> [u32; N] {
    let mut parts = text.split(',');
    std::array::from_fn(|_| parts.next().map(number).unwrap_or_default())
}
