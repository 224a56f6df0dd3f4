//! Validates a variant with naga and reads its interface from naga's module.

use naga::valid::{Capabilities, ValidationFlags, Validator};
use naga::{AddressSpace, Expression, Literal, Module, ScalarKind, StorageAccess, TypeInner};

use crate::assemble::Assembled;
use crate::lines::{mixed, origin, valueless};

/// What WebGPU's default limits allow.
const MAX_STORAGE_BUFFERS: usize = 8;
const MAX_WORKGROUP_BYTES: u32 = 16_384;
const MAX_INVOCATIONS: u32 = 256;
/// What variants for larger devices may take: all but phones offer as many.
const MAX_WIDE_INVOCATIONS: u32 = 512;

pub struct Reflection {
    /// (slot, name, kind), ordered by slot. The kind is a variant of `BindingKind`.
    pub bindings: Vec<(u32, String, &'static str)>,
    /// (name, default, type). The type is a variant of `OverrideType`.
    pub overrides: Vec<(String, Option<f64>, &'static str)>,
    pub workgroup: [u32; 3],
    pub workgroup_bytes: u32,
    pub subgroups: bool,
    pub f16: bool,
}

/// Parses and validates a variant; every error names it and the template's line, and quotes the lines.
pub fn reflect(variant: &Assembled) -> Result<Reflection, String> {
    let f16 = variant.count("f16") > 0;
    let source = format!("{}const NATIVE_HALVES = true;\n{}", if f16 { "enable f16;\n" } else { "" }, variant.marked);
    let module = naga::front::wgsl::parse_str(&source)
        .map_err(|e| refused(variant, &source, e.location(&source), &e.emit_to_string(&source)))?;
    let mut validator = Validator::new(
        ValidationFlags::all(),
        Capabilities::SUBGROUP | Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32,
    );
    let info = validator
        .validate(&module)
        .map_err(|e| refused(variant, &source, e.location(&source), &e.emit_to_string(&source)))?;
    let fail = |what: String| Err(format!("{}: {what}", variant.label()));

    if let Some(line) = valueless(&source) {
        return fail(format!("{}: a variable without a value; write one, as in `= array<f32, 4>()`", line.trim()));
    }
    if let Some(line) = mixed(&source) {
        return fail(format!(
            "{}: WGSL wants brackets around what << and >>, or &, | and ^, stand beside",
            line.trim()
        ));
    }
    let [entry] = &module.entry_points[..] else {
        return fail(format!("{} entry points, expected one", module.entry_points.len()));
    };
    if entry.name != "main" {
        return fail(format!("the entry point is called {}, expected main", entry.name));
    }
    if entry.workgroup_size_overrides.is_some() {
        return fail("the workgroup size depends on an override; make it a number of the text".to_owned());
    }
    let uses = info.get_entry_point(0);
    let mut bindings = Vec::new();
    let mut workgroup_bytes = 0;
    for (handle, global) in module.global_variables.iter() {
        let name = global.name.clone().unwrap_or_default();
        let used = !uses[handle].is_empty();
        if !used {
            return fail(format!("{name} is declared but not used"));
        }
        let kind = match global.space {
            AddressSpace::Uniform => "Uniform",
            AddressSpace::Storage { access } if access.contains(StorageAccess::STORE) => "ReadWrite",
            AddressSpace::Storage { .. } => "Read",
            AddressSpace::WorkGroup => {
                workgroup_bytes += module.types[global.ty].inner.size(module.to_ctx()).next_multiple_of(16);
                continue;
            }
            AddressSpace::Private => continue,
            space => return fail(format!("{name} lives in {space:?}, which kernels do not use")),
        };
        let Some(binding) = &global.binding else { return fail(format!("{name} has no @group and @binding")) };
        if binding.group != 0 {
            return fail(format!("{name} is in group {}, kernels use group 0 only", binding.group));
        }
        bindings.push((binding.binding, name, kind));
    }
    bindings.sort();
    if let Some(pair) = bindings.windows(2).find(|w| w[0].0 == w[1].0) {
        return fail(format!("{} and {} share binding {}", pair[0].1, pair[1].1, pair[0].0));
    }
    let storage = bindings.iter().filter(|b| b.2 != "Uniform").count();
    let invocations = entry.workgroup_size.iter().product::<u32>();
    // A kernel's other variants keep to the default: a test sees to that.
    let most = if variant.lanes >= 16 { MAX_WIDE_INVOCATIONS } else { MAX_INVOCATIONS };
    if storage > MAX_STORAGE_BUFFERS || workgroup_bytes > MAX_WORKGROUP_BYTES || invocations > most {
        return fail(format!(
            "{storage} storage buffers, {workgroup_bytes} bytes of workgroup memory, {invocations} invocations; \
             allowed are {MAX_STORAGE_BUFFERS}, {MAX_WORKGROUP_BYTES}, {most}"
        ));
    }
    let mut overrides = Vec::new();
    for (_, constant) in module.overrides.iter() {
        let name = constant.name.clone().unwrap_or_default();
        // Its declaration is the first occurrence.
        if variant.count(&name) < 2 {
            return fail(format!("override {name} is declared but not used"));
        }
        let ty = match module.types[constant.ty].inner {
            TypeInner::Scalar(scalar) => match scalar.kind {
                ScalarKind::Uint => "U32",
                ScalarKind::Sint => "I32",
                ScalarKind::Float => "F32",
                ScalarKind::Bool => "Bool",
                kind => return fail(format!("override {name} has kind {kind:?}")),
            },
            ref other => return fail(format!("override {name} has type {other:?}")),
        };
        overrides.push((name, default(&module, constant.init), ty));
    }
    let subgroups = variant.source.split(|c: char| !c.is_alphanumeric()).any(|w| w.starts_with("subgroup"));
    Ok(Reflection { bindings, overrides, workgroup: entry.workgroup_size, workgroup_bytes, subgroups, f16 })
}

/// naga's message after the place in shaders/ that it is about, so that an editor finds it.
fn refused(variant: &Assembled, source: &str, location: Option<naga::SourceLocation>, message: &str) -> String {
    let place = location.and_then(|l| origin(source, l.line_number as usize)).unwrap_or("shaders");
    format!("{place}: {}: {message}", variant.label())
}

/// An override's default, where it has one and naga has reduced it to a literal.
fn default(module: &Module, init: Option<naga::Handle<Expression>>) -> Option<f64> {
    match module.global_expressions[init?] {
        Expression::Literal(Literal::U32(v)) => Some(f64::from(v)),
        Expression::Literal(Literal::I32(v)) => Some(f64::from(v)),
        Expression::Literal(Literal::F32(v)) => Some(f64::from(v)),
        Expression::Literal(Literal::Bool(v)) => Some(f64::from(u8::from(v))),
        _ => None,
    }
}
