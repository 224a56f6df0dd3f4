//! The bench on a tiny shape: what it reports must be what the engine did.

use millrace::bench::{Options, Report, run};
use millrace::stream::{Cancel, LoadOptions};

fn bench(quant: &str) -> Report {
    let options = Options { shape: "tiny".into(), quant: quant.into(), prompt: 70, gen_tokens: 20, runs: 2, profile: true, tune: true, load: LoadOptions::default() };
    pollster::block_on(run(&options, &|_| {}, &Cancel::new())).unwrap()
}

#[test]
fn every_mix_of_weight_types_runs_and_is_profiled() {
    for quant in ["q4_0", "q4_k_m", "q8_0", "f16"] {
        let report = bench(quant);
        assert_eq!(report.runs.len(), 2);
        assert!(report.decode_tok_s > 0.0 && report.prefill_tok_s > 0.0 && report.streaming_gb_s > 0.0, "{report:?}");
        assert!(report.submits_per_token <= 1.0, "{quant}: {} submits a token", report.submits_per_token);
        assert!(report.bytes_per_token > report.weight_bytes / 2, "{quant}");
        let layer = ["qkv", "attention", "attention.merge", "o", "gate_up", "down"];
        for name in layer {
            let calls: usize = report.profile.iter().filter(|r| r.step == name).map(|r| r.calls).sum();
            assert!(calls >= 2, "{quant}: {name} has {calls} calls in two layers");
        }
        let percent: f64 = report.profile.iter().map(|r| r.percent).sum();
        assert!((percent - 100.0).abs() < 0.1, "{percent}");
        assert!(report.profile.iter().all(|r| r.ms > 0.0 && r.active > 0.0 && r.active <= 1.0), "{quant}");
    }
}
