//! The bench on a tiny shape: its report must agree with the engine's work.

use millrace::base::Cancel;
use millrace::bench::{Measuring, Options, Phase, Quality, Report, Status, quality, run};
use millrace::decode::Speculate;
use millrace::engine::{Faults, LoadOptions};
use millrace::gpu::DeviceChoice;
use millrace::layout::Kv;
use millrace::native::grammar::InProcess;
use millrace::plan::Lane;
use millrace::source::Files;
use millrace::source::disk::open_path;

use crate::common::data;
use crate::decode_loop;

fn options(quant: &str) -> Options {
    Options {
        shape: "tiny".into(),
        quant: quant.into(),
        prompt: 70,
        gen_tokens: 20,
        runs: 2,
        profile: true,
        ..Options::default()
    }
}

fn bench(options: &Options) -> Report {
    pollster::block_on(run(options, None, None, &|_| {}, &Cancel::new())).unwrap()
}

fn oracle(name: &str) -> Files {
    open_path(&data(&format!("oracle/{name}/model.gguf"))).unwrap()
}

fn builtin() -> Files {
    open_path(&millrace::native::builtin_path().unwrap()).unwrap()
}

fn compare(files: &Files, lane: Lane, positions: u32) -> Quality {
    let load = LoadOptions { lane, ..LoadOptions::default() };
    pollster::block_on(quality(files, &load, positions, &|_| {}, &Cancel::new())).unwrap()
}

#[test]
fn a_model_is_measured_by_its_own_name() {
    let options = Options { prompt: 20, gen_tokens: 8, runs: 1, profile: false, ..options("q4_0") };
    let report = pollster::block_on(run(&options, Some(&builtin()), None, &|_| {}, &Cancel::new())).unwrap();
    assert!(report.shape.to_lowercase().contains("box") && report.plan == "llama", "{} {}", report.shape, report.plan);
    assert_eq!(report.quant, "F32+Q8_0");
    assert!(report.decode_tok_s > 0.0);
    let long = Options { prompt: 90_000, ..options };
    let error = pollster::block_on(run(&long, Some(&builtin()), None, &|_| {}, &Cancel::new())).unwrap_err();
    assert_eq!(error.code(), "BAD_OPTION", "{error}");
}

#[test]
fn a_second_turn_reads_what_is_new_and_few_rows_have_a_time() {
    let load = LoadOptions { device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
    let options = Options { second_turn: true, idle: true, runs: 1, load, ..options("q4_0") };
    let report = pollster::block_on(run(&options, None, None, &|_| {}, &Cancel::new())).unwrap();
    // The first answer's last token was sampled, but not read.
    let turns: Vec<_> = report.second_turn.iter().map(|t| (t.after, t.tokens, t.cached, t.ttft_ms > 0.0)).collect();
    assert_eq!(turns, [(100, 32, 131, true), (4000, 32, 4031, true)]);
    let rows: Vec<_> = report.few_rows.iter().map(|t| (t.rows, t.ms > 0.0)).collect();
    assert_eq!(rows, [1, 2, 4, 8].map(|n| (n, true)));
    let idle = report.idle.unwrap();
    assert!([idle.cold, idle.warmed].iter().all(|(speed, first)| *speed > 0.0 && *first > 0.0), "{idle:?}");
}

#[test]
fn forced_answers_are_measured_alone_and_several_at_a_time() {
    let load = LoadOptions { device: Some(DeviceChoice::Cpu), concurrency: Some(4), ..LoadOptions::default() };
    let options = Options { grammar: true, runs: 1, prompt: 12, profile: false, load, ..options("q4_0") };
    let report = pollster::block_on(run(&options, None, Some(&InProcess), &|_| {}, &Cancel::new())).unwrap();
    let forced = report.forced.unwrap();
    assert!(forced.forced_tok_s > 0.0 && forced.free_tok_s > 0.0 && forced.states > 100, "{forced:?}");
    assert_eq!((forced.created, forced.readbacks[0]), (0, forced.readbacks[1]));
    let of: Vec<_> = report.company.iter().map(|it| (it.answers, it.forced, it.tok_s > 0.0)).collect();
    assert_eq!(of, [(2, false, true), (4, false, true), (2, true, true), (4, true, true)]);
}

#[test]
fn steps_of_several_rows_have_a_time_and_drafts_are_right_where_a_text_repeats_itself() {
    let greedy = Options {
        rows: true,
        speculate: Speculate::Always,
        gen_tokens: 60,
        runs: 1,
        profile: false,
        tune: false,
        ..options("q4_0")
    };
    let report = bench(&greedy);
    assert_eq!(report.step_rows.iter().map(|t| (t.rows, t.ms > 0.0)).collect::<Vec<_>>(), [1, 4, 8].map(|n| (n, true)));
    let load = LoadOptions { device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
    let sampled = bench(&Options { rows: false, sampled: true, load, ..greedy });
    let [repeats, new] = [report, sampled].map(|report| (report.runs[0].accepted, report.runs[0].drafted));
    assert!(repeats.0 > 20 && repeats.0 <= repeats.1, "{repeats:?}");
    let share = |(accepted, drafted): (u64, u64)| accepted as f64 / drafted as f64;
    assert!(share(new) * 4.0 < share(repeats), "{repeats:?} {new:?}");
}

/// Answers whose texts are known: of what is copied drafts are right, of what is new there are hardly any.
#[test]
fn answers_that_copy_have_their_speeds() {
    let load = LoadOptions { device: Some(DeviceChoice::Cpu), together: Some(true), ..LoadOptions::default() };
    let copies =
        Options { copies: true, runs: 1, gen_tokens: 30, profile: false, tune: false, load, ..options("q4_0") };
    let report = bench(&copies);
    let of: Vec<_> = report.copies.iter().map(|it| (it.text, it.tokens)).collect();
    assert_eq!(of, [("edit", 42), ("extract", 26), ("new", 30)]);
    // 27 of the edited text's tokens are copied, in four places, and 20 of the fields', in two: behind the first two of a
    // place drafts are right. The text that does not copy has nothing to look up.
    for (it, right) in report.copies.iter().zip([12..=27, 8..=20, 0..=0]) {
        assert!(it.tok_s > 0.0 && it.auto.times > 0.0 && it.always.times > 0.0, "{it:?}");
        assert!(right.contains(&it.always.accepted) && it.always.accepted <= it.always.drafted, "{:?}", report.copies);
    }
    assert_eq!(report.copies[2].auto.drafted, 0, "{:?}", report.copies);
    let wrong = pollster::block_on(run(&copies, Some(&builtin()), None, &|_| {}, &Cancel::new())).unwrap_err();
    assert_eq!(wrong.code(), "BAD_OPTION");
}

#[test]
fn steps_with_drafts_of_a_model_have_a_time() {
    let load = LoadOptions { device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
    let options = Options { gen_tokens: 60, runs: 1, profile: false, tune: false, load, ..options("q4_0") };
    let drafted = |draft: &str| {
        let options = Options { draft: Some(draft.to_owned()), ..options.clone() };
        pollster::block_on(run(&options, None, None, &|_| {}, &Cancel::new()))
    };
    let draft = drafted(&options.shape).unwrap().draft.unwrap();
    assert!(draft.ms > 0.0 && draft.shape == options.shape, "{draft:?}");
    assert_eq!(draft.steps.iter().map(|step| step.drafts).collect::<Vec<_>>(), [3, 5, 7]);
    for step in &draft.steps {
        assert!(step.ms > 0.0 && (step.times - step.ms / draft.ms).abs() < 1e-9, "{draft:?}");
        // The same weights draft: all are right but where the answer ends.
        assert!(step.tokens > 0.8 * f64::from(step.drafts + 1), "{draft:?}");
    }
    let wrong = drafted("nothing").unwrap_err();
    assert!(wrong.message().contains("draft"), "{wrong}");
}

#[test]
fn only_chosen_kernels_are_measured_and_each_phase_reports_once_it_begins() {
    let options = Options {
        kernel_bench: true,
        kernel_filter: Some("embed".into()),
        profile: false,
        tune: false,
        ..options("q8_0")
    };
    let phases = std::cell::RefCell::new(Vec::new());
    let report = |status| {
        if let Status::Measure(Measuring { phase, loaded, total, tokens: None }) = status {
            phases.borrow_mut().push((phase, loaded, total));
        }
    };
    let measured = pollster::block_on(run(&options, None, None, &report, &Cancel::new())).unwrap();
    assert!(
        !measured.kernels.is_empty() && measured.kernels.iter().all(|r| r.kernel.contains("embed")),
        "{:?}",
        measured.kernels
    );
    let phases: Vec<_> = phases.into_inner().into_iter().filter(|(phase, ..)| *phase != Phase::WarmUp).collect();
    assert_eq!(phases, [(Phase::Run, 0, 2), (Phase::Run, 1, 2), (Phase::Profile, 0, 1), (Phase::Kernels, 0, 1)]);
}

#[test]
fn every_variant_is_compared_with_its_twin_and_then_measured() {
    let options = Options { kernel_bench: true, profile: false, ..options("q4_k_m") };
    let report = pollster::block_on(run(&options, None, None, &|_| {}, &Cancel::new())).unwrap();
    assert!(report.kernels.len() > 10);
    assert!(report.kernels.iter().all(|r| r.wrong.is_none() && r.us > 0.0), "{:?}", report.kernels);
    let choices = report.kernels.iter().filter(|r| r.kernel == "norm_gated").count();
    assert!(choices >= 2, "the tuner's other variants are there too");
    // A variant that computes nothing is found.
    let broken = vec![(
        "norm_gated".to_owned(),
        report.kernels.iter().find(|r| r.kernel == "norm_gated").unwrap().variant.to_owned(),
    )];
    let load = LoadOptions { faults: Faults { broken: broken.clone(), ..Faults::default() }, ..LoadOptions::default() };
    let report = pollster::block_on(run(&Options { load, ..options }, None, None, &|_| {}, &Cancel::new())).unwrap();
    let wrong: Vec<_> = report
        .kernels
        .iter()
        .filter(|r| r.wrong.is_some())
        .map(|r| (r.kernel.to_owned(), r.variant.to_owned()))
        .collect();
    assert_eq!(wrong, broken);
}

#[test]
fn a_generation_is_profiled_at_its_end() {
    let mut engine = decode_loop::load(&LoadOptions::default());
    let plain = decode_loop::run(&mut engine, &decode_loop::ask(6));
    assert!(plain.profile.is_none());
    let request = millrace::engine::Request { profile: true, ..decode_loop::ask(6) };
    let profiled = decode_loop::run(&mut engine, &request);
    assert_eq!(profiled.tokens, plain.tokens);
    let rows = profiled.profile.unwrap();
    assert!(
        rows.iter().any(|r| r.of.kernel == "attention") && rows.iter().all(|r| r.of.ms > 0.0 && r.active > 0.0),
        "{rows:?}"
    );
    assert_eq!(
        decode_loop::run(&mut engine, &decode_loop::ask(6)).tokens,
        plain.tokens,
        "measuring leaves nothing behind"
    );
}

/// The whole 2,000 positions, and lane float, are for the long tests and for real GPUs.
#[test]
fn lanes_agree_with_the_exact_one_on_the_model_in_the_box() {
    for lane in [Lane::Fast, Lane::F16] {
        let q = compare(&builtin(), lane, 24);
        assert_eq!((q.positions, q.lane), (24, lane.name()));
        assert!(q.top1 >= 0.98, "{q:?}");
        assert!(q.kl_mean < 1e-3 && q.kl_mean > 0.0, "{q:?}");
    }
}

#[test]
#[ignore = "minutes; npm run test:long"]
fn lanes_agree_over_2000_positions() {
    for lane in [Lane::Fast, Lane::Float, Lane::F16] {
        let q = compare(&builtin(), lane, 2000);
        assert!(q.top1 >= 0.98 && q.kl_mean < 1e-3, "{q:?}");
        // Random weights have flat distributions, where the likeliest token means little and each int8's rounding moves
        // more of the mass.
        for name in ["gguf-q8_0", "gguf-q4_0"] {
            let q = compare(&oracle(name), lane, 2000);
            assert!(q.kl_mean < 1e-2 && q.top1 >= 0.9, "{name}: {q:?}");
        }
    }
}

#[test]
fn the_exact_lane_is_not_compared_with_itself() {
    let load = LoadOptions { lane: Lane::Exact, ..LoadOptions::default() };
    let error = pollster::block_on(quality(&oracle("gguf-q8_0"), &load, 10, &|_| {}, &Cancel::new())).unwrap_err();
    assert_eq!(error.code(), "BAD_OPTION");
}

#[test]
fn a_cache_of_eight_bits_has_its_price_measured() {
    let of = |kv| {
        let device = Some(DeviceChoice::Cpu);
        let load = LoadOptions { lane: Lane::Exact, kv: Some(kv), device, ..LoadOptions::default() };
        pollster::block_on(quality(&builtin(), &load, 60, &|_| {}, &Cancel::new())).unwrap()
    };
    let (halves, bytes) = (of(Kv::F16), of(Kv::Q8));
    assert_eq!((halves.kv, bytes.kv), ("f16", "q8"));
    // Only the cache differs: the results are close, and not equal.
    assert!(
        halves.kl_mean < 1e-5 && bytes.kl_mean > halves.kl_mean && bytes.kl_mean < 1e-3,
        "{} {}",
        halves.kl_mean,
        bytes.kl_mean
    );
}

#[test]
fn every_mix_of_weight_types_runs_and_is_profiled() {
    // The other tests of the bench have the rest. Tuning does not depend on the type: one type is enough.
    for quant in ["q4_k_m", "f16", "mxfp4"] {
        let report = bench(&Options { tune: quant == "q4_k_m", ..options(quant) });
        assert_eq!(report.runs.len(), 2);
        for chunks in report.runs.iter().map(|run| &run.chunks) {
            // Chunks are contiguous up to the run's end.
            assert!(chunks.windows(2).all(|w| w[0].position + w[0].tokens == w[1].position), "{chunks:?}");
            assert!(
                chunks.iter().all(|c| c.position > 70 && c.ms >= 0.0) && chunks.iter().any(|c| c.ms > 0.0),
                "{chunks:?}"
            );
            assert_eq!(chunks.last().map(|c| c.position + c.tokens), Some(90));
        }
        assert!(report.decode_tok_s > 0.0 && report.prefill_tok_s > 0.0 && report.streaming_gb_s > 0.0, "{report:?}");
        assert!(report.submits_per_token <= 1.0, "{quant}: {} submits a token", report.submits_per_token);
        assert!(report.bytes_per_token > report.weight_bytes / 2, "{quant}");
        let layer = ["qkv", "attention", "attention.merge", "o", "gate_up", "down"];
        for name in layer {
            let calls: usize = report.profile.iter().filter(|r| r.of.step == name).map(|r| r.of.calls).sum();
            assert!(calls >= 2, "{quant}: {name} has {calls} calls in two layers");
        }
        let percent: f64 = report.profile.iter().map(|r| r.of.percent).sum();
        assert!((percent - 100.0).abs() < 0.1, "{percent}");
        assert!(report.profile.iter().all(|r| r.of.ms > 0.0 && r.active > 0.0 && r.active <= 1.0), "{quant}");
    }
}
