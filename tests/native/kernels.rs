//! Every kernel and variant against its twin on the native GPU. A missing adapter is a failure, not a reason to skip.
//! Variants for subgroups larger than the device's run with emulated ones.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

use millrace::check::{self, Cover, Row, Selection, Status, check};
use millrace::gpu::{DeviceChoice, Gpu, GpuOptions};
use millrace::kernels::{self, Emulated, Variant, lab};

use super::common;

/// The variants that ran, were left out, or failed.
#[derive(Default)]
struct Ran {
    /// Variants with a case that passed.
    variants: BTreeSet<String>,
    /// Reason -> variants that were left out.
    left_out: BTreeMap<String, usize>,
    failed: Vec<String>,
}

impl Ran {
    fn run(&mut self, gpu: &Gpu, filter: impl Fn(&Variant) -> bool, selection: Selection) {
        let began = Instant::now();
        // Kernel -> seconds.
        let took: RefCell<BTreeMap<&str, f64>> = RefCell::default();
        let report = pollster::block_on(check(gpu, filter, selection, |row: &Row| {
            let (name, message) = (format!("{}={}", row.kernel, row.variant), row.message.clone().unwrap_or_default());
            *took.borrow_mut().entry(row.kernel).or_insert(0.0) += row.ms / 1000.0;
            match row.status {
                Status::Pass => drop(self.variants.insert(name)),
                Status::Fail => self.failed.push(format!("{name} {}: {message}", row.case)),
                Status::Skip => *self.left_out.entry(message).or_default() += 1,
            }
        }))
        .expect("every kernel has cases");
        let mut took: Vec<_> = took.into_inner().into_iter().collect();
        took.sort_by(|a, b| b.1.total_cmp(&a.1));
        eprintln!("{report:?} in {:.0} s, most for {:.0?}", began.elapsed().as_secs_f64(), &took[..took.len().min(12)]);
    }
}

fn open(options: &GpuOptions) -> Gpu {
    pollster::block_on(Gpu::open(options))
        .expect("a Vulkan or Metal adapter; on Debian without a GPU, install mesa-vulkan-drivers")
}

/// The number of variants left out by device and reason.
fn table() -> BTreeMap<String, BTreeMap<String, usize>> {
    serde_json::from_slice(&common::bytes("kernels_left_out.json")).unwrap()
}

/// Whether a variant reduces without subgroups.
fn without(v: &Variant) -> bool {
    v.axis("reduce").is_some() && !v.subgroups
}

/// Whether all cases run with a variant, as it stands for others: of types of weights that are decoded alike (floats,
/// blocks with a scale, blocks of blocks with a minimum) for one; of attention for caches in f16, and for all caches
/// where heads have 65 to 128 numbers, since the types of caches differ only in how keys and values are read and kept.
fn stands_for_others(v: &Variant) -> bool {
    let of_weights = v.axis("weight").is_none_or(|weight| ["f32", "q4_0", "q4_k"].contains(&weight));
    let of_cache = v.axis("kv").is_none_or(|kv| kv == "f16" || v.axis("width") == Some("e128"));
    of_weights && (of_cache || !v.kernel.starts_with("attention"))
}

/// The variants that a test tries with all cases, and those with one. Of represented types, enough variants to have
/// every pair of values of two axes: compilation by the driver is the cost. `npm run test:long` runs everything with
/// all cases.
fn tried(variants: &[&'static Variant]) -> [Vec<&'static Variant>; 2] {
    let (all, rest): (Vec<_>, Vec<_>) = variants.iter().partition(|v| stands_for_others(v));
    [all, Cover::Pairs.of(&rest)]
}

/// Whether the number of lanes and their way of adding up decide what else a variant does: what attention may keep in
/// workgroup memory, and where f32 products of one row read activations. Such variants run with all cases, of the
/// narrowest heads and of two types of weights, whose blocks are one piece and two.
fn wants_all_cases(v: &Variant) -> bool {
    let sliced = v.axis("act") == Some("f32") && v.lanes > 8 && matches!(v.axis("weight"), Some("q4_0" | "q8_0"));
    match v.kernel {
        "attention" => v.axis("width") == Some("e64"),
        "matvec" => sliced,
        _ => false,
    }
}

/// The variants that run natively with real subgroups, or with emulated ones.
fn with_subgroups(gpu: &Gpu, emulated: bool) -> Vec<&'static Variant> {
    kernels::all().iter().filter(|v| !without(v) && gpu.caps().emulates(v) == emulated).collect()
}

fn names(variants: &[&Variant]) -> BTreeSet<String> {
    variants.iter().map(ToString::to_string).collect()
}

impl Ran {
    /// Panics with the failed cases, if there are any.
    fn passed(&self, gpu: &Gpu) {
        assert!(self.failed.is_empty(), "{} on {}:\n{}", self.failed.len(), gpu.caps().name, self.failed.join("\n"));
    }
}

#[test]
fn every_kernel_agrees_with_its_twin() {
    let gpu = open(&GpuOptions { emulated: Emulated::All, ..GpuOptions::default() });
    let (lacks, here): (Vec<_>, Vec<_>) =
        with_subgroups(&gpu, false).into_iter().partition(|v| v.lacks(gpu.caps()).is_some());
    let [all, one] = tried(&here);
    let mut ran = Ran::default();
    ran.run(&gpu, |v| all.contains(&v) || lacks.contains(&v), Selection::All);
    ran.run(&gpu, |v| one.contains(&v), Selection::One);
    ran.passed(&gpu);
    assert_eq!(ran.variants, names(&[all, one].concat()));
    let allowed = &table()["llvmpipe"];
    if gpu.caps().software {
        assert_eq!(ran.left_out, *allowed, "tests/data/kernels_left_out.json says what may be left out, and why");
    } else {
        // Another device may leave out fewer variants, and none for other reasons.
        let unknown: Vec<_> =
            ran.left_out.iter().filter(|(reason, n)| allowed.get(*reason).is_none_or(|most| *n > most)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

/// The variants for larger subgroups than the device's, with emulated ones.
#[test]
fn kernels_for_larger_subgroups_agree_with_emulated_ones() {
    let gpu = open(&GpuOptions { emulated: Emulated::All, ..GpuOptions::default() });
    let emulated = with_subgroups(&gpu, true);
    if gpu.caps().software {
        assert_eq!(emulated.len(), table()["variants"]["emulated on llvmpipe"]);
    }
    let chosen = tried(&emulated).concat();
    let mut ran = Ran::default();
    ran.run(&gpu, |v| chosen.contains(&v) && !wants_all_cases(v), Selection::One);
    ran.run(&gpu, |v| chosen.contains(&v) && wants_all_cases(v), Selection::All);
    ran.passed(&gpu);
    assert_eq!(ran.left_out, BTreeMap::new());
    assert_eq!(ran.variants, names(&chosen));
}

/// All cases of all variants, on a device with subgroups, emulated where they are too small, and on one without.
#[test]
#[ignore = "an hour: npm run test:long"]
fn all_variants_agree_in_all_cases() {
    for subgroups in [true, false] {
        let gpu = open(&GpuOptions { emulated: Emulated::All, subgroups, ..GpuOptions::default() });
        let here: Vec<_> =
            kernels::all().iter().filter(|v| (subgroups || without(v)) && v.lacks(gpu.caps()).is_none()).collect();
        let mut ran = Ran::default();
        ran.run(&gpu, |v| here.contains(&v), Selection::All);
        ran.passed(&gpu);
        assert_eq!(ran.variants, names(&here));
    }
}

/// The variants that the CPU runs: those that need neither subgroups nor `shader-f16`.
#[test]
fn every_kernel_agrees_with_its_twin_on_the_cpu() {
    let gpu = open(&GpuOptions { device: DeviceChoice::Cpu, ..GpuOptions::default() });
    let runs = |v: &Variant| v.lacks(gpu.caps()).is_none();
    let mut ran = Ran::default();
    ran.run(&gpu, runs, Selection::All);
    assert!(ran.failed.is_empty(), "{} on {}:\n{}", ran.failed.len(), gpu.caps().name, ran.failed.join("\n"));
    assert_eq!(ran.variants, names(&kernels::all().iter().filter(|v| runs(v)).collect::<Vec<_>>()));
}

/// The variants that reduce without subgroups run on devices without the feature: no other variant may be needed there.
#[test]
fn kernels_without_subgroups_agree_on_a_device_without_them() {
    let gpu = open(&GpuOptions { subgroups: false, ..GpuOptions::default() });
    // Most bodies are those of the variants that run with all cases elsewhere: one case shows that they compile and add
    // up without the feature.
    let chosen = tried(&kernels::all().iter().filter(|v| without(v)).collect::<Vec<_>>()).concat();
    let mut ran = Ran::default();
    ran.run(&gpu, |v| chosen.contains(&v) && !wants_all_cases(v), Selection::One);
    ran.run(&gpu, |v| chosen.contains(&v) && wants_all_cases(v), Selection::All);
    ran.passed(&gpu);
    assert_eq!(ran.variants, names(&chosen));
}

/// The templates of shaders/, by name.
fn templates() -> Vec<(String, String)> {
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let files = ["", "common/"]
        .into_iter()
        .flat_map(|folder| fs::read_dir(shaders.join(folder)).unwrap().map(move |e| (folder, e.unwrap())));
    let wgsl = files.filter(|(_, e)| e.path().extension().is_some_and(|x| x == "wgsl"));
    wgsl.map(|(folder, e)| (format!("{folder}{}", e.file_name().display()), fs::read_to_string(e.path()).unwrap()))
        .collect()
}

/// The templates with `from` replaced by `to` in one file.
fn broken(templates: &[(String, String)], file: &str, from: &str, to: &str) -> Vec<(String, String)> {
    let edit = |(name, text): &(String, String)| {
        (name.clone(), if name == file { text.replace(from, to) } else { text.clone() })
    };
    let broken: Vec<_> = templates.iter().map(edit).collect();
    assert!(broken != templates, "{file} has no {from}");
    broken
}

/// With rows as long as a model's, the self-test finds mistakes that small cases might not.
#[test]
fn the_self_test_finds_five_kernels_that_are_broken() {
    let templates = templates();
    let gpu = open(&GpuOptions::default());
    let constants = [("KB", 64.0), ("SPLIT", 2.0)];
    let staged = "nx[(j & 7u) * PITCH + (j >> 3u)] = v * nw[j] * x_factor(j);";
    let halves = "let t = v * nw[j]; let h = vec4<f32>(unpack2x16float(pack2x16float(t.xy)), unpack2x16float(pack2x16float(t.zw))); \
                  nx[(j & 7u) * PITCH + (j >> 3u)] = select(t, h, abs(t) > vec4<f32>(60000.0)) * x_factor(j);";
    for (what, file, from, to, name) in [
        (
            "wrong lane count",
            "common/lanes.wgsl",
            r#"sum("sum", lanes)"#,
            r#"sum("sum", lanes // 2)"#,
            "matvec=q4_0-q8-sg8",
        ),
        (
            "dropped tail",
            "common/inner_f32.wgsl",
            "i < KB * UNITS;",
            "i + {{ step }} < KB * UNITS;",
            "matvec=q4_0-f32-sg8",
        ),
        ("f16 overflow", "common/normed.wgsl", staged, halves, "norm_matvec=q4_0-f32-sg8"),
        (
            "wrong sum",
            "common/normed.wgsl",
            "var total = total4(q.x) + total4(q.y);",
            "var total = total4(q.x);",
            "norm_matvec=q4_0-q8-sg8",
        ),
        ("stale cache", "common/attention_values.wgsl", "if (appends &&", "if (false &&", "attention=f16-one-e64-sg8"),
    ] {
        let variant = kernels::all().iter().find(|v| v.to_string() == name).unwrap();
        let test = || pollster::block_on(check::self_test(&gpu, &[(variant, &constants)])).unwrap();
        assert_eq!(test(), [], "{name} as it is");
        gpu.forget(variant);
        lab::replace(&broken(&templates, file, from, to), |v| v == variant).unwrap();
        let found = test();
        lab::replace(&templates, |v| v == variant).unwrap();
        gpu.forget(variant);
        assert_eq!(found.len(), 1, "{what}: {name} passes");
    }
}

/// Variants that no device of the tests runs natively are compared too: a mistake in one is found.
#[test]
fn a_mistake_that_only_larger_subgroups_would_show_is_found() {
    let templates = templates();
    let gpu = open(&GpuOptions { emulated: Emulated::All, ..GpuOptions::default() });
    for (file, from, to, variant) in [
        ("common/scores_subgroup.wgsl", r#"xor("l", 16)"#, r#"xor("l", 8)"#, "attention=f16-one-e64-sg32"),
        ("common/qk_norm.wgsl", r#"sum("squares", 32)"#, r#"sum("squares", 16)"#, "attention=f16-one-e64-sg32"),
        ("common/gated.wgsl", r#"most("largest", 8)"#, r#"most("largest", 4)"#, "norm_gated=q8_0-q8-q8-sg32"),
        ("merge.wgsl", r#"sum("l", 16)"#, r#"sum("l", 8)"#, "merge=f32-sg16"),
        ("common/normed.wgsl", r#"sum("total", 4, "i32")"#, r#"sum("total", 2, "i32")"#, "norm_matvec=q4_0-q8-sg32"),
        (
            "common/normed_rows.wgsl",
            r#"lanes("total", 4, "i32")"#,
            r#"lanes("total", 2, "i32")"#,
            "norm_rows=q4_0-q8-sg32",
        ),
        ("common/sums.wgsl", "[1, 2, 4, 8, 16] %}{% if mask", "[1, 2, 4, 8] %}{% if mask", "matvec_rows=q4_0-q8-sg32"),
    ] {
        lab::replace(&broken(&templates, file, from, to), |v| v.to_string() == variant).unwrap();
        let mut ran = Ran::default();
        ran.run(&gpu, |v| v.to_string() == variant, Selection::All);
        lab::replace(&templates, |v| v.to_string() == variant).unwrap();
        assert!(!ran.failed.is_empty(), "{variant} passes with {to} in {file}");
    }
}
