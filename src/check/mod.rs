//! The one test body of every kernel: each variant runs on random inputs through its twin and on a device, and the
//! buffers are compared. It runs natively in tests, in the browser on the kernel page, and on a case of each chosen
//! variant when a model is loaded.

mod accept;
mod activate;
mod attention;
#[cfg(feature = "lab")]
mod cover;
mod delta;
mod device;
mod embed;
mod experts;
mod grammar;
mod lora;
mod norm;
mod product;
#[cfg(feature = "toy")]
mod running_sum;
mod sampler;
mod stream_read;
mod weights;

use std::cell::RefCell;

use millrace_twins::compare;
pub use millrace_twins::compare::{Compare, Compared};
pub use millrace_twins::inputs;
use millrace_twins::inputs::Random;
use serde::Serialize;

#[cfg(feature = "lab")]
pub use cover::Cover;

use crate::cpu;
use crate::error::{Error, Result};
use crate::gpu::{Gpu, Trial};
use crate::kernels::{self, State, Variant};

/// What the kernels run on.
#[expect(async_fn_in_trait, reason = "engine and checks run on one thread, in the browser and natively")]
pub trait Device {
    /// The feature that the variant needs and the device lacks.
    fn lacks(&self, variant: &Variant) -> Option<&'static str>;

    /// One dispatch: uploads the buffers (binding name, words), runs, and reads back those that the kernel may write.
    async fn run(
        &self,
        variant: &'static Variant,
        overrides: &[(&'static str, f64)],
        buffers: &mut [(&'static str, Vec<u32>)],
        grid: [u32; 3],
    ) -> Result<()>;

    /// Nothing more comes of this variant: what was compiled for it may go.
    fn done_with(&self, _: &Variant) {}

    /// A clock in milliseconds.
    fn now(&self) -> f64;
}

/// One dispatch to compare.
pub struct Case {
    /// What is particular about it, e.g. `K=80 N=13 add`.
    pub name: String,
    pub overrides: Vec<(&'static str, f64)>,
    pub grid: [u32; 3],
    /// Binding name -> words; outputs are filled with what must stay where the kernel does not write.
    pub buffers: Vec<(&'static str, Vec<u32>)>,
    /// How to compare what the kernel writes. Every other buffer must stay as it is.
    pub outputs: Vec<(&'static str, Compare)>,
}

/// Makes a kernel's cases for one of its variants.
type Cases = fn(&'static Variant, &mut Random) -> Vec<Case>;

/// Kernel -> its cases.
const CASES: &[(&str, Cases)] = &[
    ("embed", embed::cases),
    ("norm", norm::cases),
    ("matvec", product::matvec),
    ("norm_matvec", product::norm_matvec),
    ("gated_matvec", product::gated_matvec),
    ("norm_gated", product::norm_gated),
    ("matvec_rows", product::matvec_rows),
    ("gated_rows", product::gated_rows),
    ("residual_rows", product::residual_rows),
    ("norm_rows", product::norm_rows),
    ("norm_gated_rows", product::norm_gated_rows),
    ("matmul", product::matmul),
    ("matmul_subgroup", product::matmul_subgroup),
    ("route", experts::route),
    ("experts_gated", experts::gated),
    ("experts_down", experts::down),
    ("group", experts::group),
    ("experts_matmul", experts::matmul),
    ("experts_sum", experts::sum),
    ("lora_a", lora::a),
    ("lora_b", lora::b),
    ("pool", embed::pool),
    ("pixels", embed::pixels),
    ("quantize", activate::quantize),
    ("activate", activate::activate),
    ("clamp", activate::clamp),
    ("qk_norm", norm::qk),
    ("rope", attention::rope),
    ("attention", attention::decode),
    ("merge", attention::merge),
    ("attention_prefill", attention::prefill),
    ("short_conv", delta::short_conv),
    ("conv_keep", delta::conv_keep),
    ("delta_step", delta::step),
    ("delta_rows", delta::step_rows),
    ("delta_settle", delta::settle),
    ("delta_conv", delta::conv),
    ("delta_intra", delta::intra),
    ("delta_scan", delta::scan),
    ("gated_norm", norm::gated),
    ("logit_stats", sampler::logit_stats),
    ("tally", sampler::tally),
    ("narrow", sampler::narrow),
    ("threshold", sampler::threshold),
    ("pick", sampler::pick),
    ("advance", sampler::advance),
    ("draft", accept::draft),
    ("accept", accept::accept),
    ("drafter_begin", accept::drafter_begin),
    ("drafter_end", accept::drafter_end),
    ("constrain", grammar::constrain),
    ("walk", grammar::walk_rows),
    ("penalize", sampler::penalize),
    ("logprobs", sampler::logprobs),
    ("logprobs_append", sampler::logprobs_append),
    ("stream_read", stream_read::cases),
    ("random", weights::random),
    #[cfg(feature = "toy")]
    ("running_sum", running_sum::cases),
    #[cfg(feature = "toy")]
    ("sum_settle", running_sum::settle),
];

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Pass,
    Fail,
    /// The device lacks a feature that the variant needs.
    Skip,
}

/// One case's result.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub kernel: &'static str,
    pub variant: &'static str,
    pub case: String,
    pub status: Status,
    /// The largest difference, relative to the largest value.
    pub error: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Milliseconds on the device, compilation and transfers included.
    pub ms: f64,
}

/// How many cases ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

/// Which cases of a variant run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selection {
    /// All of them.
    All,
    /// The self-test's, and the one that must do nothing: one pipeline a variant, for devices that compile slowly.
    One,
}

/// Runs the cases of every variant that `filter` lets through and hands each result to `on_row`. A case that fails, or
/// that the device refuses, is a row like any other.
///
/// # Errors
/// [`crate::ErrorKind::Internal`] where a kernel has no cases.
pub async fn check<D: Device>(
    device: &D,
    filter: impl Fn(&Variant) -> bool,
    selection: Selection,
    mut on_row: impl FnMut(&Row),
) -> Result<Report> {
    let mut report = Report::default();
    for variant in kernels::all().iter().filter(|v| filter(v)) {
        let cases = CASES
            .iter()
            .find(|c| c.0 == variant.kernel)
            .ok_or_else(|| Error::internal(format!("kernel {} has no cases to check", variant.kernel)))?
            .1;
        if let Some(feature) = device.lacks(variant) {
            let message = Some(format!("the device has no {feature}"));
            on_row(&Row {
                kernel: variant.kernel,
                variant: variant.name,
                case: String::new(),
                status: Status::Skip,
                error: 0.0,
                message,
                ms: 0.0,
            });
            report.skipped += 1;
            continue;
        }
        // Seeded by name: adding a kernel changes no other kernel's inputs.
        let mut cases = match selection {
            Selection::All => cases(variant, &mut Random::new(&variant.to_string())),
            Selection::One => typical(cases, variant).into_iter().collect(),
        };
        cases.extend(cases.first().map(done));
        for case in cases {
            let before = device.now();
            let result = run(device, variant, &case).await;
            let ms = device.now() - before;
            let (error, message) = result.unwrap_or_else(|e| (f64::INFINITY, Some(format!("{}: {e}", e.code()))));
            let status = if message.is_none() { Status::Pass } else { Status::Fail };
            if status == Status::Pass {
                report.passed += 1
            } else {
                report.failed += 1
            }
            on_row(&Row { kernel: variant.kernel, variant: variant.name, case: case.name, status, error, message, ms });
        }
        device.done_with(variant);
    }
    Ok(report)
}

/// The case that is quickest for the twin, but not one so small that most lanes have nothing to do.
fn typical(cases: Cases, variant: &'static Variant) -> Option<Case> {
    let words = |case: &Case| case.buffers.iter().map(|(_, words)| words.len()).sum::<usize>();
    cases(variant, &mut Random::new(&variant.to_string()))
        .into_iter()
        .min_by_key(|case| words(case).abs_diff(ENOUGH_WORDS))
}

/// What a variant is tried with: the constants of a step that runs it.
pub type Tried<'a> = (&'static Variant, &'a [(&'static str, f64)]);

/// Each of `variants` on known data, all in one submission: (variant, what is wrong) of those whose result is not their
/// twin's. Products have as many blocks a row as the model's.
///
/// # Errors
/// [`crate::ErrorKind::Internal`] where a kernel has no cases; what the GPU says where it refuses them.
pub async fn self_test(gpu: &Gpu, variants: &[Tried<'_>]) -> Result<Vec<(&'static Variant, String)>> {
    let mut cases = Vec::new();
    for (variant, overrides) in variants {
        let number = |name: &str| overrides.iter().find(|o| o.0 == name).map_or(1, |o| o.1 as u32);
        if let Some(real) =
            product::real(variant, &mut Random::new(&variant.to_string()), number("KB"), number("SPLIT"))
        {
            cases.extend(real.into_iter().map(|case| (*variant, case)));
            continue;
        }
        let all = CASES
            .iter()
            .find(|c| c.0 == variant.kernel)
            .ok_or_else(|| Error::internal(format!("kernel {} has no cases to check", variant.kernel)))?
            .1;
        cases.push((
            *variant,
            typical(all, variant).ok_or_else(|| Error::internal(format!("{variant} has no cases to check")))?,
        ));
    }
    let mut actual: Vec<_> = cases.iter().map(|(_, case)| case.buffers.clone()).collect();
    let mut trials: Vec<Trial> = cases
        .iter()
        .zip(&mut actual)
        .map(|((variant, case), buffers)| Trial { variant, overrides: &case.overrides, buffers, grid: case.grid })
        .collect();
    gpu.run_all(&mut trials).await?;
    let mut wrong = Vec::new();
    for ((variant, case), actual) in cases.iter().zip(&actual) {
        if wrong.last().is_none_or(|(v, _)| v != variant)
            && let (_, Some(message)) = compare(case, &twin(variant, case)?, actual)
        {
            wrong.push((*variant, format!("{} {message}", case.name)));
        }
    }
    Ok(wrong)
}

/// Compares what a variant has written to a binding with its twin's, as its cases do.
pub fn compare_output(
    variant: &'static Variant,
    binding: &str,
    initial: &[u32],
    expected: &[u32],
    actual: &[u32],
) -> Compared {
    let cases = CASES.iter().find(|c| c.0 == variant.kernel).and_then(|(_, cases)| typical(*cases, variant));
    let how =
        cases.and_then(|case| case.outputs.iter().find(|o| o.0 == binding).map(|o| o.1)).unwrap_or(Compare::Exact);
    how.compare(initial, expected, actual)
}

/// Words of the buffers of a case that the self-test likes best.
const ENOUGH_WORDS: usize = 4096;

/// The case with `done` set in its state: a kernel may write nothing (`advance` only that the generation ended).
fn done(case: &Case) -> Case {
    let buffers = case.buffers.iter().map(|(name, words)| match *name {
        "state" => {
            let state = State { done: 1, ..State::from_words(words).unwrap_or_default() };
            (*name, state.words())
        }
        _ => (*name, words.clone()),
    });
    Case {
        name: "done".to_owned(),
        overrides: case.overrides.clone(),
        grid: case.grid,
        buffers: buffers.collect(),
        outputs: case.outputs.clone(),
    }
}

/// The largest relative difference, and what is wrong if anything is.
async fn run<D: Device>(device: &D, variant: &'static Variant, case: &Case) -> Result<(f64, Option<String>)> {
    let expected = twin(variant, case)?;
    let mut actual = case.buffers.clone();
    device.run(variant, &case.overrides, &mut actual, case.grid).await?;
    Ok(compare(case, &expected, &actual))
}

type Buffers = [(&'static str, Vec<u32>)];

/// The case's buffers after its twin.
fn twin(variant: &'static Variant, case: &Case) -> Result<Vec<(&'static str, Vec<u32>)>> {
    let cells: Vec<(&'static str, RefCell<Vec<u32>>)> =
        case.buffers.iter().map(|(name, words)| (*name, RefCell::new(words.clone()))).collect();
    let buffers: Vec<_> = cells.iter().map(|(name, words)| (*name, words)).collect();
    cpu::run(&cpu::Call { variant, overrides: &case.overrides, grid: case.grid, buffers: &buffers })?;
    Ok(cells.into_iter().map(|(name, cell)| (name, cell.into_inner())).collect())
}

fn compare(case: &Case, expected: &Buffers, actual: &Buffers) -> (f64, Option<String>) {
    let mut worst = 0.0_f64;
    for (((name, initial), (_, expected)), (_, actual)) in case.buffers.iter().zip(expected).zip(actual) {
        let how = case.outputs.iter().find(|o| o.0 == *name).map_or(Compare::Exact, |o| o.1);
        let compared = how.compare(initial, expected, actual);
        worst = worst.max(compared.error);
        if let Some(message) = compared.message {
            return (worst, Some(format!("{name}{message}")));
        }
    }
    (worst, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::kernels;

    #[test]
    fn every_kernel_has_cases_and_its_cases_give_every_buffer_and_override() {
        assert_eq!(
            kernels(),
            CASES.iter().map(|c| c.0).collect::<Vec<_>>(),
            "variants.toml and CASES list the same kernels in the same order"
        );
        for variant in kernels::all() {
            let cases = CASES.iter().find(|c| c.0 == variant.kernel).unwrap().1;
            for case in cases(variant, &mut Random::new("x")) {
                variant.check_overrides(&case.overrides).unwrap();
                for binding in variant.bindings {
                    assert!(
                        case.buffers.iter().any(|b| b.0 == binding.name),
                        "{variant}: case {} has no buffer {}",
                        case.name,
                        binding.name
                    );
                }
                for (name, _) in &case.outputs {
                    assert!(
                        variant.binding(name).is_some(),
                        "{variant}: case {} compares {name}, which is no binding",
                        case.name
                    );
                }
            }
        }
    }

    /// A device that is the twin itself, or a twin that forgets to write.
    struct Twin {
        writes: bool,
    }

    impl Device for Twin {
        fn lacks(&self, _: &Variant) -> Option<&'static str> {
            None
        }

        async fn run(
            &self,
            variant: &'static Variant,
            overrides: &[(&'static str, f64)],
            buffers: &mut [(&'static str, Vec<u32>)],
            grid: [u32; 3],
        ) -> Result<()> {
            if !self.writes {
                return Ok(());
            }
            let cells: Vec<_> = buffers.iter().map(|(name, words)| (*name, RefCell::new(words.clone()))).collect();
            let given: Vec<_> = cells.iter().map(|(name, words)| (*name, words)).collect();
            cpu::run(&cpu::Call { variant, overrides, grid, buffers: &given })?;
            for ((_, words), (_, cell)) in buffers.iter_mut().zip(cells) {
                *words = cell.into_inner();
            }
            Ok(())
        }

        fn now(&self) -> f64 {
            0.0
        }
    }

    /// Twins know nothing of subgroups: the variants with them have the cases of those without.
    fn without_subgroups(v: &Variant) -> bool {
        !v.subgroups
    }

    #[test]
    fn a_twin_agrees_with_itself() {
        let passes = |row: &Row| assert_eq!(row.status, Status::Pass, "{row:?}");
        let report =
            pollster::block_on(check(&Twin { writes: true }, without_subgroups, Selection::All, passes)).unwrap();
        assert!(report.passed > kernels::all().iter().filter(|v| without_subgroups(v)).count());
    }

    #[test]
    fn a_kernel_that_writes_nothing_fails_every_case_but_done() {
        let silent = Twin { writes: false };
        // Greedy sampling needs no statistics.
        let idle = |row: &Row| {
            (row.case == "done" && !cpu::PAST_THE_END.contains(&row.kernel))
                || (row.case.starts_with("greedy") && row.kernel == "logit_stats")
                || row.case.starts_with("idle")
        };
        pollster::block_on(check(&silent, without_subgroups, Selection::All, |row| {
            assert_eq!(row.status == Status::Pass, idle(row), "{row:?}")
        }))
        .unwrap();
    }
}
