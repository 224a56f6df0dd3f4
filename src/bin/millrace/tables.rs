//! Tables of measurements, for terminals.

use millrace::decode::{KernelRow, PrefillRow, ProfileRow, RowsTime};

/// Time, bytes and busy threads of each kernel of a decode step.
pub fn profile(rows: &[ProfileRow]) {
    println!(
        "\n{:<18} {:<14} {:<18} {:>5} {:>9} {:>9} {:>6} {:>9} {:>8} {:>7} {:>7}",
        "step", "kernel", "variant", "calls", "us", "ms/token", "%", "MB", "GB/s", "% peak", "active"
    );
    for r in rows {
        println!(
            "{:<18} {:<14} {:<18} {:>5} {:>9.2} {:>9.4} {:>6.1} {:>9.2} {:>8.0} {:>7.1} {:>7.2}",
            r.of.step,
            r.of.kernel,
            r.of.variant,
            r.of.calls,
            r.of.us,
            r.of.ms,
            r.of.percent,
            r.bytes as f64 / 1e6,
            r.gb_s,
            r.percent_of_streaming,
            r.active
        );
    }
}

/// Time and arithmetic of each kernel of a prefill pass.
pub fn prefill(rows: &[PrefillRow]) {
    println!(
        "\n{:<18} {:<18} {:<18} {:>5} {:>9} {:>9} {:>6} {:>9}",
        "prefill step", "kernel", "variant", "calls", "us", "ms/pass", "%", "TOPS"
    );
    for r in rows {
        let u = &r.of;
        println!(
            "{:<18} {:<18} {:<18} {:>5} {:>9.2} {:>9.4} {:>6.1} {:>9.2}",
            u.step, u.kernel, u.variant, u.calls, u.us, u.ms, u.percent, r.tops
        );
    }
}

/// Whole passes of few rows.
pub fn few_rows(times: &[RowsTime]) {
    for t in times {
        println!(
            "{:<18} {:>9.4} ms/pass",
            format!("pass of {} row{}", t.rows, if t.rows == 1 { "" } else { "s" }),
            t.ms
        );
    }
}

/// Every variant that a step could run: the one that the plan runs has a star, one that computes wrongly no time worth
/// anything.
pub fn kernels(rows: &[KernelRow]) {
    println!("\n{:<40} {:<22}   {:>9} {:>9} {:>8} {:>7}  result", "operation", "variant", "us", "MB", "GB/s", "% peak");
    for r in rows {
        println!(
            "{:<40} {:<22} {} {:>9.2} {:>9.2} {:>8.0} {:>7.1}  {}",
            r.operation,
            r.variant,
            if r.chosen { "*" } else { " " },
            r.us,
            r.bytes as f64 / 1e6,
            r.gb_s,
            r.percent_of_streaming,
            r.wrong.as_deref().unwrap_or("as its twin's")
        );
    }
}
