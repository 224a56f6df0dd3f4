//! Every kernel and variant against its twin on the native GPU. A missing adapter is a failure, not a reason to skip.

use millrace::check::{Report, Row, Selection, Status, check};
use millrace::gpu::{Gpu, GpuOptions};
use millrace::kernels::Variant;

fn run(options: &GpuOptions, filter: impl Fn(&Variant) -> bool) -> Report {
    let gpu = pollster::block_on(Gpu::open(options)).expect("a Vulkan or Metal adapter; on Debian without a GPU, install mesa-vulkan-drivers");
    let mut failed = Vec::new();
    let report = pollster::block_on(check(&gpu, filter, Selection::All, |row: &Row| {
        if row.status == Status::Fail {
            failed.push(format!("{}={} {}: {}", row.kernel, row.variant, row.case, row.message.as_deref().unwrap_or_default()));
        }
    }))
    .expect("every kernel has cases");
    assert!(failed.is_empty(), "{} of {} on {}:\n{}", failed.len(), report.passed + report.failed, gpu.caps().name, failed.join("\n"));
    report
}

#[test]
fn every_kernel_agrees_with_its_twin() {
    let report = run(&GpuOptions::default(), |_| true);
    assert!(report.passed > 0);
}

/// The variants that reduce without subgroups run on devices without the feature: no other variant may be needed there.
#[test]
fn kernels_without_subgroups_agree_on_a_device_without_them() {
    let report = run(&GpuOptions { subgroups: false, ..GpuOptions::default() }, |v| v.axis("reduce").is_some() && !v.subgroups);
    assert!(report.passed > 0);
    assert_eq!(report.skipped, 0);
}
