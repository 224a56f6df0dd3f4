//! A kernel with its constants and buffers.

use std::cell::RefCell;

use millrace_twins::{self as twins, Call, Variant};

use super::{Slab, attention, products, rows, stream, weights};

/// Does a whole dispatch.
type Kernel = fn(&Call);

/// Kernels that are written for SIMD; the twins run the others.
const FAST: &[(&str, Kernel)] = &[
    ("embed", rows::embed),
    ("norm", rows::norm),
    ("quantize", rows::quantize),
    ("activate", rows::activate),
    ("matvec", products::matmul),
    ("matvec_rows", products::matmul),
    ("matmul", products::matmul),
    ("norm_matvec", products::norm_matvec),
    ("norm_gated", products::norm_gated),
    ("experts_gated", products::experts_gated),
    ("experts_down", products::experts_down),
    ("experts_matmul", products::experts_matmul),
    ("experts_sum", products::experts_sum),
    ("attention", attention::few),
    ("attention_prefill", attention::many),
    ("stream_read", stream::read),
];

/// A kernel, ready to run.
pub struct Program {
    kernel: String,
    name: String,
    workgroup: [u32; 3],
    tile: [u32; 2],
    axes: Vec<(String, String)>,
    overrides: Vec<(String, f64)>,
    buffers: Vec<(String, u32)>,
}

/// `name=value name=value`.
fn pairs<T: std::str::FromStr>(line: &str) -> Option<Vec<(String, T)>> {
    line.split_ascii_whitespace()
        .map(|pair| pair.split_once('=').and_then(|(name, value)| Some((name.to_owned(), value.parse().ok()?))))
        .collect()
}

impl Program {
    /// From its description; `None` where it is none.
    pub fn read(text: &str) -> Option<Self> {
        let mut lines = text.split('\n');
        let (kernel, name) = (lines.next()?.to_owned(), lines.next()?.to_owned());
        let numbers: Vec<u32> = lines.next()?.split(' ').map(|number| number.parse().ok()).collect::<Option<_>>()?;
        let [x, y, z, rows, columns] = *numbers.as_slice() else { return None };
        let (axes, overrides, buffers) = (pairs(lines.next()?)?, pairs(lines.next()?)?, pairs(lines.next()?)?);
        Some(Self { kernel, name, workgroup: [x, y, z], tile: [rows, columns], axes, overrides, buffers })
    }

    /// Runs the kernel over a grid of workgroups.
    pub fn run(&self, memory: &Slab<RefCell<Vec<u32>>>, grid: [u32; 3]) {
        let axes: Vec<_> = self.axes.iter().map(|(axis, value)| (axis.as_str(), value.as_str())).collect();
        let bindings: Vec<_> = self.buffers.iter().map(|(name, _)| name.as_str()).collect();
        let overrides: Vec<_> = self.overrides.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let buffers: Vec<_> = self.buffers.iter().map(|(name, id)| (name.as_str(), memory.get(*id))).collect();
        let variant = Variant {
            kernel: &self.kernel,
            name: &self.name,
            axes: &axes,
            workgroup: self.workgroup,
            tile: self.tile,
            bindings: &bindings,
        };
        let call = Call { variant, overrides: &overrides, grid, buffers: &buffers };
        // What few models have is left to the twins.
        let is = |name: &str, value: f64| self.overrides.iter().any(|o| o.0 == name && o.1 == value);
        // So are steps of several rows, which cost as much as their rows here (`activate` has the slots of a row so named).
        let each = self.kernel != "activate" && is("EACH", 1.0);
        let of_rows = each || self.overrides.iter().any(|o| o.0 == "ROOM" && o.1 > 0.0);
        let rare = of_rows
            || is("SINKS", 1.0)
            || is("ACT", 3.0)
            || matches!(self.kernel.as_str(), "experts_gated" | "experts_down")
                && (is("BIAS", 1.0) || is("INTERLEAVED", 1.0));
        // Halves in lane f16 are for devices that have them.
        let halves = [call.variant.axis("act"), call.variant.axis("out")].contains(&Some("f16"));
        let known = call.variant.axis("act") != Some("q8") || call.variant.axis("weight").is_none_or(weights::knows);
        match FAST.iter().find(|fast| fast.0 == self.kernel && !halves && !rare && known) {
            Some((_, fast)) if call.state().done == 0 => fast(&call),
            Some(_) => {}
            None => assert!(twins::run(&call), "kernel {} has no twin", self.kernel),
        }
    }
}
