//! Every kernel and variant against its twin on the native GPU. A missing adapter is a failure, not a reason to skip. Variants for subgroups
//! larger than the device's run with emulated ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Instant;

use millrace::check::{self, Row, Selection, Status, check};
use millrace::gpu::{DeviceChoice, Gpu, GpuOptions};
use millrace::kernels::{self, Caps, Emulated, Variant, lab};

use super::common;

/// What ran and what did not.
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
        let report = pollster::block_on(check(gpu, filter, selection, |row: &Row| {
            let (name, message) = (format!("{}={}", row.kernel, row.variant), row.message.clone().unwrap_or_default());
            if row.ms > 2000.0 {
                eprintln!("{name} {}: {:.0} ms", row.case, row.ms);
            }
            match row.status {
                Status::Pass => drop(self.variants.insert(name)),
                Status::Fail => self.failed.push(format!("{name} {}: {message}", row.case)),
                Status::Skip => *self.left_out.entry(message).or_default() += 1,
            }
        }))
        .expect("every kernel has cases");
        eprintln!("{report:?} in {:.0} s", began.elapsed().as_secs_f64());
    }
}

fn open(options: &GpuOptions) -> Gpu {
    pollster::block_on(Gpu::open(options)).expect("a Vulkan or Metal adapter; on Debian without a GPU, install mesa-vulkan-drivers")
}

/// What is left out on which device, by reason.
fn table() -> BTreeMap<String, BTreeMap<String, usize>> {
    serde_json::from_slice(&common::bytes("kernels_left_out.json")).unwrap()
}

/// Every variant that needs no emulated subgroups, and of those that do one of each kernel and number of lanes; the others have a test of their own, as
/// have those that reduce without subgroups.
fn all_cases(gpu: &Gpu) -> impl Fn(&Variant) -> bool {
    let few = Caps { emulated: Emulated::One, ..gpu.caps().clone() };
    move |v| !without(v) && !rare(v) && (!gpu.caps().emulates(v) || few.emulates(v))
}

/// Whether a variant reduces without subgroups.
fn without(v: &Variant) -> bool {
    v.axis("reduce").is_some() && !v.subgroups
}

/// Types that differ from tested ones in how a block is decoded alone: one case does, with eight lanes to a row and without subgroups.
fn alike(v: &Variant) -> bool {
    if v.kernel == "experts_matmul" {
        // Its loop is matmul's.
        return v.axis("weight").is_some_and(|weight| !["f32", "q4_0"].contains(&weight));
    }
    v.axis("weight").is_some_and(|weight| ["q2_0", "q4_1", "q5_1", "q2_k", "q3_k", "iq4_nl", "iq4_xs"].contains(&weight))
}

/// The others' numbers of lanes, and tiles of experts' rows: `npm run test:long` runs them in the browser.
fn rare(v: &Variant) -> bool {
    let usual = v.axis("weight").is_some_and(|weight| ["q4_k", "q6_k", "mxfp4"].contains(&weight));
    alike(v)
        && (v.axis("reduce").is_some_and(|reduce| ["sg32", "wg32"].contains(&reduce))
            || (v.kernel == "experts_matmul" && v.axis("span") != Some("r32") && !usual))
}

#[test]
fn every_kernel_agrees_with_its_twin() {
    let gpu = open(&GpuOptions { emulated: Emulated::All, ..GpuOptions::default() });
    let mut ran = Ran::default();
    ran.run(&gpu, |v| all_cases(&gpu)(v) && !alike(v), Selection::All);
    ran.run(&gpu, |v| all_cases(&gpu)(v) && alike(v), Selection::One);
    assert!(ran.failed.is_empty(), "{} on {}:\n{}", ran.failed.len(), gpu.caps().name, ran.failed.join("\n"));
    let expected = kernels::all().iter().filter(|v| all_cases(&gpu)(v)).count();
    assert_eq!(ran.variants.len() + ran.left_out.values().sum::<usize>(), expected, "every variant has passed or is left out for a reason");
    let allowed = &table()["llvmpipe"];
    if gpu.caps().software {
        assert_eq!(ran.left_out, *allowed, "tests/data/kernels_left_out.json says what may be left out, and why");
    } else {
        // Another device may have more, and lack nothing else.
        let unknown: Vec<_> = ran.left_out.iter().filter(|(reason, n)| allowed.get(*reason).is_none_or(|most| *n > most)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}

/// What large GPUs run and small subgroups cannot, with emulated ones: one case each, as a sibling of the same lanes runs all of them.
#[test]
fn kernels_for_larger_subgroups_agree_with_emulated_ones() {
    let gpu = open(&GpuOptions { emulated: Emulated::All, ..GpuOptions::default() });
    let mut ran = Ran::default();
    ran.run(&gpu, |v| !all_cases(&gpu)(v) && !without(v) && !rare(v), Selection::One);
    assert!(ran.failed.is_empty(), "{} on {}:\n{}", ran.failed.len(), gpu.caps().name, ran.failed.join("\n"));
    assert_eq!(ran.left_out, BTreeMap::new());
    let emulated = |v: &&Variant| gpu.caps().emulates(v);
    let expected: BTreeSet<String> = kernels::all().iter().filter(emulated).filter(|v| !all_cases(&gpu)(v) && !rare(v)).map(ToString::to_string).collect();
    assert_eq!(ran.variants, expected);
    if gpu.caps().software {
        assert_eq!(kernels::all().iter().filter(emulated).count(), table()["variants"]["emulated on llvmpipe"]);
    }
}

/// What the CPU runs: of each kernel the variants that need neither subgroups nor `shader-f16`.
#[test]
fn every_kernel_agrees_with_its_twin_on_the_cpu() {
    let gpu = open(&GpuOptions { device: DeviceChoice::Cpu, ..GpuOptions::default() });
    let runs = |v: &Variant| v.lacks(gpu.caps()).is_none();
    let mut ran = Ran::default();
    ran.run(&gpu, runs, Selection::All);
    assert!(ran.failed.is_empty(), "{} on {}:\n{}", ran.failed.len(), gpu.caps().name, ran.failed.join("\n"));
    let expected: BTreeSet<String> = kernels::all().iter().filter(|v| runs(v)).map(ToString::to_string).collect();
    assert_eq!(ran.variants, expected);
}

/// The variants that reduce without subgroups run on devices without the feature: no other variant may be needed there.
#[test]
fn kernels_without_subgroups_agree_on_a_device_without_them() {
    let gpu = open(&GpuOptions { subgroups: false, ..GpuOptions::default() });
    let mut ran = Ran::default();
    ran.run(&gpu, |v| without(v) && !alike(v), Selection::All);
    ran.run(&gpu, |v| without(v) && alike(v) && !rare(v), Selection::One);
    assert!(ran.failed.is_empty(), "{} on {}:\n{}", ran.failed.len(), gpu.caps().name, ran.failed.join("\n"));
    let expected: BTreeSet<String> = kernels::all().iter().filter(|v| without(v) && !rare(v)).map(ToString::to_string).collect();
    assert_eq!(ran.variants, expected);
}

/// The templates of shaders/, by name.
fn templates() -> Vec<(String, String)> {
    let shaders = Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders");
    let files = ["", "common/"].into_iter().flat_map(|folder| fs::read_dir(shaders.join(folder)).unwrap().map(move |e| (folder, e.unwrap())));
    let wgsl = files.filter(|(_, e)| e.path().extension().is_some_and(|x| x == "wgsl"));
    wgsl.map(|(folder, e)| (format!("{folder}{}", e.file_name().display()), fs::read_to_string(e.path()).unwrap())).collect()
}

/// The same with one text in the place of another.
fn broken(templates: &[(String, String)], file: &str, from: &str, to: &str) -> Vec<(String, String)> {
    let edit = |(name, text): &(String, String)| (name.clone(), if name == file { text.replace(from, to) } else { text.clone() });
    let broken: Vec<_> = templates.iter().map(edit).collect();
    assert_ne!(broken, templates, "{file} has no {from}");
    broken
}

/// With as long rows as a model's, what is tried at loading finds what small cases might not.
#[test]
fn the_self_test_finds_five_kernels_that_are_broken() {
    let templates = templates();
    let gpu = open(&GpuOptions::default());
    let constants = [("KB", 64.0), ("SPLIT", 2.0)];
    let staged = "nx[(j & 7u) * PITCH + (j >> 3u)] = v * nw[j] * x_factor(j);";
    let halves = "let t = v * nw[j]; let h = vec4<f32>(unpack2x16float(pack2x16float(t.xy)), unpack2x16float(pack2x16float(t.zw))); \
                  nx[(j & 7u) * PITCH + (j >> 3u)] = select(t, h, abs(t) > vec4<f32>(60000.0)) * x_factor(j);";
    for (what, file, from, to, name) in [
        ("wrong lane count", "common/lanes.wgsl", r#"sum("sum", lanes)"#, r#"sum("sum", lanes // 2)"#, "matvec=q4_0-q8-sg8"),
        ("dropped tail", "common/inner_f32.wgsl", "i < KB * UNITS;", "i + {{ step }} < KB * UNITS;", "matvec=q4_0-f32-sg8"),
        ("f16 overflow", "common/normed.wgsl", staged, halves, "norm_matvec=q4_0-f32-sg8"),
        ("wrong sum", "common/normed.wgsl", "var total = total4(q.x) + total4(q.y);", "var total = total4(q.x);", "norm_matvec=q4_0-q8-sg8"),
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

/// What no device of the tests runs natively is compared all the same: a mistake in it is found.
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
    ] {
        lab::replace(&broken(&templates, file, from, to), |v| v.to_string() == variant).unwrap();
        let mut ran = Ran::default();
        ran.run(&gpu, |v| v.to_string() == variant, Selection::All);
        lab::replace(&templates, |v| v.to_string() == variant).unwrap();
        assert!(!ran.failed.is_empty(), "{variant} passes with {to} in {file}");
    }
}
