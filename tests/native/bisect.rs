//! A kernel that computes wrongly is found by its first step.

use std::path::Path;

use millrace::base::Cancel;
use millrace::decode::Compared;
use millrace::engine::{Faults, LoadOptions, Prompt, Request, bisect};
use millrace::plan::{Lane, Pass};
use millrace::source::disk::open_path;
use pollster::block_on;

/// The compared steps, up to the first wrong one.
fn compared(options: &LoadOptions) -> Vec<Compared> {
    let files =
        open_path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/gguf-q8_0/model.gguf")).unwrap();
    let mut steps = Vec::new();
    let mut on_step = |step: Compared| {
        steps.push(step);
        steps.last().is_some_and(|step| step.wrong.is_none())
    };
    let request = Request::new(Prompt::Tokens((0..40).map(|i| i * 7 % 290 + 1).collect()));
    block_on(bisect(&files, options, &request, &mut on_step, &Cancel::new())).unwrap();
    steps
}

#[test]
fn the_first_step_that_parts_from_its_twin_is_named() {
    for lane in [Lane::Fast, Lane::Exact] {
        let good = compared(&LoadOptions { lane, ..LoadOptions::default() });
        let wrong: Vec<_> = good.iter().filter_map(|step| step.wrong.as_deref()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        for pass in [Pass::Prefill, Pass::Decode] {
            assert_eq!(good.iter().rfind(|step| step.pass == pass).unwrap().step, "output", "up to the head");
        }
        // Kernels of prefill passes, of decode steps, of both.
        for victim in ["blk.0.attention.rope", "blk.0.attention.merge", "output_norm"] {
            let step = good.iter().find(|step| step.step == victim).unwrap();
            let (kernel, variant) = step.variant.split_once('=').unwrap();
            let broken = vec![(kernel.to_owned(), variant.to_owned())];
            let steps = compared(&LoadOptions {
                lane,
                faults: Faults { broken, ..Faults::default() },
                ..LoadOptions::default()
            });
            let (last, before) = steps.split_last().unwrap();
            let first = good.iter().position(|step| step.variant == format!("{kernel}={variant}")).unwrap();
            assert_eq!(
                (last.step.as_str(), last.pass, before.len()),
                (good[first].step.as_str(), good[first].pass, first),
                "{last:?}"
            );
            assert!(last.wrong.is_some() && before.iter().all(|step| step.wrong.is_none()));
        }
    }
}
