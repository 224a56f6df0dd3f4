//! The kernel table: one entry per variant of each shader in `shaders/`, assembled, validated and reflected at build
//! time.
//!
//! A kernel is an operation (`matvec`); a variant is one text of it, named by its axis values (`q8_0-q8-sg`). Types,
//! bindings and the kind of reduction are text; model constants are pipeline overrides; numbers of a dispatch are in
//! [`State`]. Every kernel has a twin of the same name in [`crate::cpu`], and [`check`] compares the two.
//!
//! To add a kernel: write `shaders/NAME.wgsl` and its table in `shaders/variants.toml`, its twin in `src/cpu/NAME.rs`
//! and its cases in `src/check/NAME.rs`, each with its line in the lists `TWINS` and `CASES`. A shader that breaks a
//! rule (naga's, or one of the limits that every device keeps) does not build; a kernel without a twin or cases fails a
//! test. To add a weight type: `shaders/common/weight_TYPE.wgsl`, its name in the axes, its branch in
//! [`crate::blocks::decode`].

mod caps;
#[cfg(feature = "lab")]
pub mod lab;
#[cfg(feature = "lab")]
#[path = "../../build/lines.rs"]
#[allow(dead_code, reason = "some are the build's")]
mod lines;

#[cfg(target_arch = "wasm32")]
pub(crate) use caps::MATRICES;
pub use caps::{Caps, Emulated};
pub use millrace_twins::{State, splits};

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

use crate::error::{Error, Result};

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// How a kernel uses a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingKind {
    /// `var<uniform>`
    Uniform,
    /// `var<storage, read>`
    Read,
    /// `var<storage, read_write>`
    ReadWrite,
}

/// One buffer of a kernel, in group 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    pub slot: u32,
    pub name: &'static str,
    pub kind: BindingKind,
}

/// The type of an override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverrideType {
    U32,
    I32,
    F32,
    Bool,
}

/// A pipeline-overridable constant. One without a default must be given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Override {
    pub name: &'static str,
    pub default: Option<f64>,
    pub ty: OverrideType,
}

/// A value that a template sees.
#[derive(Debug, PartialEq)]
enum Argument {
    Number(u32),
    Pair([u32; 2]),
}

impl From<&Argument> for Value {
    fn from(argument: &Argument) -> Self {
        match argument {
            Argument::Number(number) => Self::from(*number),
            Argument::Pair(pair) => Self::from(pair.to_vec()),
        }
    }
}

/// What templates are rendered in, but for the templates themselves.
fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    for (name, number) in NUMBERS {
        environment.add_global(*name, *number);
    }
    environment
}

/// The templates of shaders/, as the build rendered and checked them.
#[cfg(not(feature = "lab"))]
fn templates() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = environment();
        for (name, text) in TEMPLATES {
            // One that does not parse did not build; were it missing, rendering would say so.
            let _ = environment.add_template(name, text);
        }
        environment
    })
}
#[cfg(feature = "lab")]
use lab::templates;

/// One text of a kernel and its interface.
#[derive(Debug, PartialEq)]
pub struct Variant {
    /// The operation, e.g. `matvec`.
    pub kernel: &'static str,
    /// The axis values joined with `-`, or `default` for a kernel without axes.
    pub name: &'static str,
    /// (axis, value) in the order of the name.
    pub axes: &'static [(&'static str, &'static str)],
    /// The template of its text; see [`Variant::wgsl`].
    template: &'static str,
    /// What the template is rendered with beside the axes.
    context: &'static [(&'static str, Argument)],
    /// Invocations of a workgroup.
    pub workgroup: [u32; 3],
    /// Bytes of workgroup memory.
    pub workgroup_bytes: u32,
    /// What one workgroup covers, e.g. (rows of N, rows of T) of a product; (1, 1) where the kernel does not say.
    pub tile: [u32; 2],
    /// Neighbouring invocations that share a row, by subgroup shuffles where the variant uses subgroups; 0 for kernels
    /// without such groups.
    pub lanes: u32,
    /// Buffers, by slot.
    pub bindings: &'static [Binding],
    pub overrides: &'static [Override],
    /// Needs the `subgroups` feature.
    pub subgroups: bool,
    /// Needs the `shader-f16` feature.
    pub f16: bool,
    /// Needs subgroup matrices, which only browsers compile.
    pub matrices: bool,
}

/// Variants that differ in the weight type alone, as the build writes them.
struct Family {
    kernel: &'static str,
    /// The `weight` axis of each; empty where there is no such axis.
    weights: &'static [&'static str],
    /// The other axes.
    axes: &'static [(&'static str, &'static str)],
    template: &'static str,
    context: &'static [(&'static str, Argument)],
    workgroup: [u32; 3],
    workgroup_bytes: u32,
    tile: [u32; 2],
    lanes: u32,
    bindings: &'static [Binding],
    overrides: &'static [Override],
    subgroups: bool,
    f16: bool,
    matrices: bool,
}

impl Family {
    fn variant(&self, weight: Option<&'static str>) -> Variant {
        let axes: Vec<_> =
            weight.map(|weight| ("weight", weight)).into_iter().chain(self.axes.iter().copied()).collect();
        let name = match axes.iter().map(|axis| axis.1).collect::<Vec<_>>().join("-") {
            name if name.is_empty() => "default".into(),
            name => name,
        };
        // Once a program: the table is never freed.
        let (axes, name) = (axes.leak(), name.leak());
        let &Self {
            kernel,
            template,
            context,
            workgroup,
            workgroup_bytes,
            tile,
            lanes,
            bindings,
            overrides,
            subgroups,
            f16,
            matrices,
            ..
        } = self;
        Variant {
            kernel,
            name,
            axes,
            template,
            context,
            workgroup,
            workgroup_bytes,
            tile,
            lanes,
            bindings,
            overrides,
            subgroups,
            f16,
            matrices,
        }
    }
}

impl Variant {
    /// The text to compile. Browsers want `enable subgroups;`, which naga, the compiler of the native build, rejects.
    /// `native_halves`: unpack2x16float keeps subnormals.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Internal`] where the template does not render: the build did render it.
    pub fn wgsl(&self, browser: bool, native_halves: bool) -> Result<String> {
        self.render(browser, native_halves, false)
    }

    /// As [`Variant::wgsl`]; `emulated`: with subgroups emulated in workgroup memory, which only builds with the
    /// feature `lab` can.
    pub(crate) fn render(&self, browser: bool, native_halves: bool, emulated: bool) -> Result<String> {
        let subgroups = if self.subgroups && browser && !emulated { "enable subgroups;\n" } else { "" };
        let f16 = if self.f16 { "enable f16;\n" } else { "" };
        let matrices = if self.matrices && browser {
            "enable subgroups;\nenable chromium_experimental_subgroup_matrix;\n"
        } else {
            ""
        };
        let mut context = self.context();
        context.insert("matrices", (self.matrices && browser).into());
        if emulated {
            context.insert("emulated", "_emulated".into());
        }
        let source =
            templates().get_template(self.template).and_then(|t| t.render(context)).map_err(|e| failed(self, &e))?;
        Ok(format!("{subgroups}{f16}{matrices}const NATIVE_HALVES = {native_halves};\n{source}"))
    }

    /// What every text of it is rendered with.
    fn context(&self) -> BTreeMap<&'static str, Value> {
        let numbers = self.context.iter().map(|(key, value)| (*key, value.into()));
        numbers
            .chain(self.axes.iter().map(|(axis, value)| (*axis, Value::from(*value))))
            .chain([("kernel", self.kernel.into())])
            .collect()
    }

    /// What a device lacks to run this variant.
    pub fn lacks(&self, caps: &Caps) -> Option<&'static str> {
        let subgroups = self.subgroups && !caps.emulates(self);
        if subgroups && !caps.subgroups() {
            Some("subgroups")
        } else if subgroups && caps.least_subgroup() < self.lanes {
            Some("subgroups as large as this variant's groups of lanes")
        } else if self.workgroup.iter().product::<u32>() > caps.max_invocations {
            Some("workgroups as large as this variant's")
        } else if self.f16 && !caps.f16() {
            Some("shader-f16")
        } else if self.matrices && !caps.matrices() {
            Some("subgroup matrices")
        } else {
            None
        }
    }

    /// The value of an axis.
    pub fn axis(&self, name: &str) -> Option<&'static str> {
        self.axes.iter().find(|a| a.0 == name).map(|a| a.1)
    }

    /// The buffer called `name`.
    pub fn binding(&self, name: &str) -> Option<&'static Binding> {
        self.bindings.iter().find(|b| b.name == name)
    }

    /// The overrides given, and the defaults of those that are not.
    pub fn all_overrides(&self, given: &[(&'static str, f64)]) -> Vec<(&'static str, f64)> {
        let rest = self.overrides.iter().filter(|o| given.iter().all(|g| g.0 != o.name));
        given.iter().copied().chain(rest.filter_map(|o| Some((o.name, o.default?)))).collect()
    }

    /// Checks that `given` names every override without a default and none that does not exist, and that each value
    /// fits its type.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Internal`], naming the override: a plan that gets this wrong is a bug of ours.
    pub fn check_overrides(&self, given: &[(&str, f64)]) -> Result<()> {
        for (name, value) in given {
            let Some(o) = self.overrides.iter().find(|o| o.name == *name) else {
                return Err(Error::internal(format!("{self} has no override {name}")));
            };
            let fits = match o.ty {
                OverrideType::U32 => value.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(value),
                OverrideType::I32 => {
                    value.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(value)
                }
                OverrideType::F32 => value.is_finite() && value.abs() <= f64::from(f32::MAX),
                OverrideType::Bool => *value == 0.0 || *value == 1.0,
            };
            if !fits {
                return Err(Error::internal(format!("{self}: {value} is no value for override {name}, a {:?}", o.ty)));
            }
        }
        match self.overrides.iter().find(|o| o.default.is_none() && given.iter().all(|g| g.0 != o.name)) {
            Some(o) => Err(Error::internal(format!("{self}: override {} is not given", o.name))),
            None => Ok(()),
        }
    }
}

fn failed(variant: &Variant, error: &minijinja::Error) -> Error {
    #[cfg(feature = "lab")]
    let message = format!("{}; in {variant}", lines::blame(error));
    #[cfg(not(feature = "lab"))]
    let message = format!("{variant}: {error:#}");
    Error::internal(message)
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.kernel, self.name)
    }
}

/// Every kernel's name, in the order of variants.toml.
pub fn kernels() -> &'static [&'static str] {
    KERNELS
}

/// Every variant of every kernel, in the order of variants.toml.
pub fn all() -> &'static [Variant] {
    static VARIANTS: OnceLock<Vec<Variant>> = OnceLock::new();
    VARIANTS.get_or_init(|| {
        let place = |list: &[&str], name: Option<&str>| list.iter().position(|known| Some(*known) == name);
        let mut variants: Vec<Variant> = FAMILIES
            .iter()
            .flat_map(|family| {
                let none = family.weights.is_empty().then_some(None);
                none.into_iter().chain(family.weights.iter().copied().map(Some)).map(|weight| family.variant(weight))
            })
            .collect();
        // Stable: what differs in other axes stays as it was.
        variants.sort_by_key(|v| (place(KERNELS, Some(v.kernel)), place(WEIGHTS, v.axis("weight"))));
        variants
    })
}

/// The variants of a kernel; none where there is no such kernel.
pub fn variants(kernel: &str) -> impl Iterator<Item = &'static Variant> {
    // Variants of a kernel are adjacent in the table.
    static OF: OnceLock<HashMap<&str, &[Variant]>> = OnceLock::new();
    let of = OF.get_or_init(|| {
        all().chunk_by(|a, b| a.kernel == b.kernel).map(|variants| (variants[0].kernel, variants)).collect()
    });
    of.get(kernel).copied().unwrap_or_default().iter()
}

/// The variant with exactly these axis values.
///
/// # Errors
/// [`crate::ErrorKind::UnknownKernel`], listing what exists, where the kernel, an axis or a value does not exist, an
/// axis is missing or the combination is excluded.
pub fn find(kernel: &str, axes: &[(&str, &str)]) -> Result<&'static Variant> {
    variants(kernel)
        .find(|v| v.axes.len() == axes.len() && axes.iter().all(|(name, value)| v.axis(name) == Some(value)))
        .ok_or_else(|| {
            let wanted: Vec<String> = axes.iter().map(|(name, value)| format!("{name}={value}")).collect();
            unknown(
                kernel,
                &format!("with {}", if wanted.is_empty() { "no axes".to_owned() } else { wanted.join(", ") }),
            )
        })
}

/// The variant of this name, as the command line writes it: `--kernel matvec=q8_0-q8-sg`.
///
/// # Errors
/// [`crate::ErrorKind::UnknownKernel`], listing what exists.
pub fn by_name(kernel: &str, variant_name: &str) -> Result<&'static Variant> {
    variants(kernel).find(|v| v.name == variant_name).ok_or_else(|| unknown(kernel, variant_name))
}

fn unknown(kernel: &str, wanted: &str) -> Error {
    let mut first = variants(kernel).peekable();
    let Some(example) = first.peek() else {
        return Error::unknown_kernel(format!("there is no kernel {kernel}; there are {}", KERNELS.join(", ")));
    };
    let axes: Vec<&str> = example.axes.iter().map(|a| a.0).collect();
    let names: Vec<&str> = variants(kernel).map(|v| v.name).collect();
    Error::unknown_kernel(format!(
        "kernel {kernel} has no variant {wanted}; its variants ({}) are {}",
        axes.join("-"),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "lab")]
    fn variables_without_values_are_found() {
        let with = "var<workgroup> all: array<f32, 8>;\nvar sum = 0.0;\n    var v = array<f32, 4>(); // var x: f32;\nvar long: vec4<f32> =\n";
        assert_eq!(lines::valueless(with), None);
        let line = "        var out: array<f32, ROWS>;   // = nothing";
        assert_eq!(lines::valueless(&format!("{with}{line}\n")), Some(line));
    }

    #[test]
    #[cfg(feature = "lab")]
    fn operators_that_browsers_refuse_beside_each_other_are_found() {
        for good in [
            "let a = (b << 4u) | c;",
            "let a = b + c * d < e << 1u && f[i >> 2u] == g || h > 3u;",
            "a |= b << 2u; let v: vec2<u32> = array<vec2<u32>>(a & b & c, d | e);",
            "for (var i = a >> 1u; i < b; i += c << 1u) { x = i; }",
            "if ((a & b) != 0u) { return a << 1u; }\nlet c = d * 2u;",
        ] {
            assert_eq!(lines::mixed(good), None);
        }
        for bad in [
            "let a = b << 4u | c;",
            "x = a + (b) << 1u;",
            "f(a, b | c & d)",
            "if (a & b == 0u) {",
            "return a << b >> c;",
            "x[a >> 1u + b] = 0u;",
        ] {
            assert_eq!(lines::mixed(bad), Some(bad));
        }
    }

    #[test]
    fn every_kernel_has_variants_within_the_default_limits() {
        for v in all() {
            // But for how they reduce, the same axes.
            let axes = |v: &Variant| v.axes.iter().filter(|a| a.0 != "reduce").copied().collect::<Vec<_>>();
            // Lane f16 is only for devices with shader-f16.
            let least = Caps { features: if v.f16 { vec!["shader-f16".into()] } else { Vec::new() }, ..Caps::least() };
            // What matrix units do, `matmul` does without them. Products that norm rows, or leave a norm open, are two
            // dispatches elsewhere: a norm, and these.
            let kernel = match v.kernel {
                "norm_rows" | "residual_rows" => "matvec_rows",
                "norm_gated_rows" => "gated_rows",
                kernel => kernel,
            };
            assert!(
                v.matrices || variants(kernel).any(|other| axes(other) == axes(v) && other.lacks(&least).is_none()),
                "{v}"
            );
            let wide = v.workgroup.iter().product::<u32>() > 256;
            assert!(
                !wide || variants(v.kernel).any(|o| axes(o) == axes(v) && o.subgroups && o.lanes < v.lanes),
                "{v} has no narrower sibling"
            );
            let storage = v.bindings.iter().filter(|b| b.kind != BindingKind::Uniform).count();
            assert!(storage <= 8, "{v}: {storage} storage buffers");
            assert!(v.workgroup_bytes <= 16_384, "{v}: {} bytes of workgroup memory", v.workgroup_bytes);
        }
    }

    #[test]
    fn every_kernel_reads_the_state_first() {
        for v in all() {
            let moves_on = ["advance", "draft", "accept", "drafter_end"].contains(&v.kernel);
            let kind = if moves_on { BindingKind::ReadWrite } else { BindingKind::Uniform };
            assert_eq!(v.binding("state").map(|b| b.kind), Some(kind), "{v}");
        }
    }

    #[test]
    fn variants_are_found_by_axes_and_by_name() {
        for v in all() {
            assert!(std::ptr::eq(find(v.kernel, v.axes).unwrap(), v));
            assert!(std::ptr::eq(by_name(v.kernel, v.name).unwrap(), v));
        }
        for wrong in [
            find("embed", &[]),
            find("embed", &[("weight", "q9_9")]),
            find("embed", &[("weight", "f32"), ("act", "f32")]),
            by_name("embed", "x"),
            by_name("nothing", "x"),
        ] {
            let error = wrong.unwrap_err();
            assert_eq!(error.code(), "UNKNOWN_KERNEL");
            assert!(error.message().contains("embed"), "{error} lists what exists");
        }
    }

    #[test]
    fn reductions_without_subgroups_use_none() {
        for v in all() {
            assert_eq!(v.subgroups, v.axis("reduce").is_some_and(|r| r.starts_with("sg")), "{v}");
            assert_eq!(v.wgsl(true, true).unwrap().contains("enable subgroups;"), v.subgroups || v.matrices, "{v}");
            assert!(!v.wgsl(false, false).unwrap().contains("enable subgroups;"), "{v}");
        }
    }

    #[test]
    fn overrides_are_checked() {
        let v = find("embed", &[("weight", "f32")]).unwrap();
        let all: Vec<(&str, f64)> = v.overrides.iter().map(|o| (o.name, 1.0)).collect();
        v.check_overrides(&all).unwrap();
        let needed = v.overrides.iter().find(|o| o.default.is_none()).unwrap().name;
        let others: Vec<(&str, f64)> = all.iter().copied().filter(|o| o.0 != needed).collect();
        assert!(v.check_overrides(&others).unwrap_err().message().contains(needed));
        assert!(
            v.check_overrides(&[all.clone(), vec![("NOPE", 1.0)]].concat()).unwrap_err().message().contains("NOPE")
        );
        let fraction: Vec<(&str, f64)> = all.iter().map(|o| (o.0, 0.5)).collect();
        v.check_overrides(&fraction).unwrap_err();
    }
}
