//! The sampler as a whole, `logit_stats` to `advance`, on the twins and on the GPU: the filters' survivors against a
//! sorted f64 reference, and the draws against the probabilities.

use std::cell::RefCell;
use std::path::Path;

use millrace::base::Cancel;
use millrace::check::Device;
use millrace::check::inputs::Random;
use millrace::engine::{Engine, LoadOptions, Prompt, Request};
use millrace::gpu::{DeviceChoice, Gpu, GpuOptions};
use millrace::kernels::{State, Variant, find};
use millrace::plan::Lane;
use millrace::sample::{AFTER_END, NOT_A_NUMBER, SLICES, Sampling, SamplingOptions};
use millrace::source::disk::open_path;
use millrace::{Result, cpu};
use pollster::block_on;

/// The twins as a device.
struct Twins;

impl Device for Twins {
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
        let cells: Vec<_> =
            buffers.iter_mut().map(|(name, words)| (*name, RefCell::new(std::mem::take(words)))).collect();
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

/// One step of the sampler on `device`.
struct Sampler<'a, D> {
    device: &'a D,
    params: Sampling,
    v: usize,
    /// f32 [V], padded to whole vec4
    logits: Vec<u32>,
    thr: Vec<u32>,
}

impl<'a, D: Device> Sampler<'a, D> {
    /// Runs `logit_stats`, the search and `threshold`.
    fn new(device: &'a D, options: SamplingOptions, logits: &[f32]) -> Self {
        let params = options.parameters(&[], 4).unwrap();
        let mut words: Vec<u32> = logits.iter().map(|x| x.to_bits()).collect();
        words.resize(logits.len().next_multiple_of(4), f32::INFINITY.to_bits());
        let mut sampler = Self { device, params, v: logits.len(), logits: words, thr: vec![7; 4] };
        let part =
            sampler.run("logit_stats", SLICES, State::default(), vec![("part", vec![0; SLICES as usize])], "part");
        let mut search = vec![0; 8];
        for _ in 0..params.filter_rounds(logits.len() as u32) {
            let more = vec![
                ("part", part.clone()),
                ("searches", search.clone()),
                ("tallies", vec![7; 2 * 256 * SLICES as usize]),
            ];
            let tallies = sampler.run("tally", SLICES, State::default(), more, "tallies");
            search = sampler.run(
                "narrow",
                1,
                State::default(),
                vec![("tallies", tallies), ("searches", search)],
                "searches",
            );
        }
        sampler.thr = sampler.run(
            "threshold",
            1,
            State::default(),
            vec![("part", part), ("searches", search), ("thr", vec![7; 4])],
            "thr",
        );
        sampler
    }

    /// Runs one kernel and returns one of its buffers.
    fn run(
        &self,
        kernel: &str,
        groups: u32,
        state: State,
        more: Vec<(&'static str, Vec<u32>)>,
        wanted: &str,
    ) -> Vec<u32> {
        let mut buffers = vec![("state", state.words()), ("params", self.params.words())];
        let mut overrides = Vec::new();
        if kernel != "advance" {
            overrides.push(("V", self.v as f64));
        }
        if !matches!(kernel, "advance" | "narrow" | "threshold") {
            buffers.push(("logits", self.logits.clone()));
        }
        buffers.extend(more);
        pollster::block_on(self.device.run(
            find(kernel, if kernel == "advance" { &[("grammar", "free")] } else { &[] }).unwrap(),
            &overrides,
            &mut buffers,
            [groups, 1, 1],
        ))
        .unwrap();
        buffers.into_iter().find(|b| b.0 == wanted).unwrap().1
    }

    /// The token drawn for the position after `pos`.
    fn draw(&mut self, seed: u64, pos: u32) -> u32 {
        (self.params.seed_lo, self.params.seed_hi) = (seed as u32, (seed >> 32) as u32);
        let state = State { pos, rows: 1, limit: 1000, ..State::default() };
        let cand = self.run(
            "pick",
            SLICES,
            state,
            vec![("thr", self.thr.clone()), ("cand", vec![0; 2 * SLICES as usize])],
            "cand",
        );
        let ring = self.run("advance", 1, state, vec![("cand", cand), ("ring", vec![AFTER_END; 4])], "ring");
        assert_eq!(ring[1..], [AFTER_END; 3]);
        ring[0]
    }

    /// Ids that survived, by the threshold.
    fn survivors(&self) -> Vec<usize> {
        let key = self.thr[0];
        let least = if key == 0 {
            f32::NEG_INFINITY
        } else {
            f32::from_bits(if key >> 31 == 0 { !key } else { key & 0x7fff_ffff })
        };
        (0..self.v).filter(|&i| f32::from_bits(self.logits[i]) >= least).collect()
    }
}

/// Within this distance of a sum of probabilities from top-p, or of a ratio from min-p, a token may be in or out: f32
/// arithmetic.
const SLACK: f64 = 1e-5;

/// The ids that must and that may survive, by the definitions in src/sample/mod.rs, on sorted f64.
fn reference(options: &SamplingOptions, logits: &[f32]) -> (Vec<usize>, Vec<usize>) {
    let mut ids: Vec<usize> = (0..logits.len()).filter(|&i| !logits[i].is_nan()).collect();
    // Stable: ties stay in the order of ids.
    ids.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap());
    let Some(&best) = ids.first() else { return (Vec::new(), Vec::new()) };
    if options.top_k > 0
        && let Some(&kth) = ids.get(options.top_k as usize - 1)
    {
        ids.retain(|&i| logits[i] >= logits[kth]);
    }
    let weight = |i: usize| {
        if logits[i] == logits[best] {
            1.0
        } else {
            ((f64::from(logits[i]) - f64::from(logits[best])) / f64::from(options.temperature)).exp()
        }
    };
    let whole: f64 = ids.iter().map(|&i| weight(i)).sum();
    let kept = |slack: f64| {
        let mut kept = Vec::new();
        let mut mass = 0.0;
        for tie in ids.chunk_by(|&a, &b| logits[a] == logits[b]) {
            let enough = options.top_p < 1.0 && mass >= f64::from(options.top_p) * whole + slack * whole;
            let likely = weight(tie[0]) >= f64::from(options.min_p) * (1.0 - slack);
            if (enough || !likely) && !kept.is_empty() {
                break;
            }
            kept.extend(tie);
            mass += tie.iter().map(|&i| weight(i)).sum::<f64>();
        }
        kept.sort_unstable();
        kept
    };
    (kept(-SLACK), kept(SLACK))
}

fn random_logits(random: &mut Random, v: usize, spread: f32) -> Vec<f32> {
    (0..v).map(|_| (0..4).map(|_| random.f32()).sum::<f32>() * spread).collect()
}

fn filters_are_exact<D: Device>(device: &D) {
    let mut random = Random::new("filters");
    let off = SamplingOptions { temperature: 1.0, ..SamplingOptions::default() };
    let options = [
        off,
        SamplingOptions { top_k: 1, ..off },
        SamplingOptions { top_k: 50, temperature: 0.3, ..off },
        SamplingOptions { top_p: 0.9, ..off },
        SamplingOptions { top_p: 0.01, temperature: 2.0, ..off },
        SamplingOptions { top_p: 0.9999, ..off },
        SamplingOptions { min_p: 0.05, temperature: 0.6, ..off },
        SamplingOptions { min_p: 1.0, ..off },
        SamplingOptions { top_k: 200, top_p: 0.8, min_p: 0.02, temperature: 1.3, ..off },
        SamplingOptions { top_k: 1_000_000, top_p: 0.5, ..off },
    ];
    for v in [1, 255, 301, 4096, 128_256] {
        let mut logits = random_logits(&mut random, v, if v > 10_000 { 6.0 } else { 2.0 });
        for (round, options) in options.iter().enumerate() {
            if round == 4 {
                // From here on with ties, NaN and minus infinity.
                for x in &mut logits {
                    match random.below(8) {
                        0 => *x = f32::NAN,
                        1 => *x = f32::NEG_INFINITY,
                        2..6 => *x = x.round(),
                        _ => (),
                    }
                }
                logits[v / 2] = 1.0;
            }
            let survivors = Sampler::new(device, *options, &logits).survivors();
            let (must, may) = reference(options, &logits);
            let what =
                format!("V={v} {options:?}: {} survive, reference {} to {}", survivors.len(), must.len(), may.len());
            assert!(must.iter().all(|i| survivors.binary_search(i).is_ok()), "{what}");
            assert!(survivors.iter().all(|i| may.binary_search(i).is_ok()), "{what}");
        }
    }
}

fn draws_follow_the_probabilities<D: Device>(device: &D, draws: u32) {
    let logits = [0.0, 1.5, -1.0, 2.0, 2.0, f32::NAN, 0.5, f32::NEG_INFINITY, -3.0, 1.0];
    let off = SamplingOptions { temperature: 1.0, ..SamplingOptions::default() };
    for options in [
        off,
        SamplingOptions { temperature: 0.5, top_k: 4, ..off },
        SamplingOptions { temperature: 1.7, top_p: 0.8, min_p: 0.1, ..off },
    ] {
        let (kept, _) = reference(&options, &logits);
        let weight = |i: usize| (f64::from(logits[i]) / f64::from(options.temperature)).exp();
        let whole: f64 = kept.iter().map(|&i| weight(i)).sum();
        let mut sampler = Sampler::new(device, options, &logits);
        let mut counts = [0_u32; 10];
        for n in 0..draws {
            // Seeds and positions both vary.
            counts[sampler.draw(u64::from(n / 4) << 20 | 5, n % 4) as usize] += 1;
        }
        let mut chi2 = 0.0;
        for (i, count) in counts.into_iter().enumerate() {
            let expected = if kept.contains(&i) { weight(i) / whole * f64::from(draws) } else { 0.0 };
            if expected == 0.0 {
                assert_eq!(count, 0, "token {i} does not survive {options:?}");
            } else {
                chi2 += (f64::from(count) - expected).powi(2) / expected;
            }
        }
        // Mean and five standard deviations of the distribution of chi-square.
        let freedom = kept.len() as f64 - 1.0;
        assert!(
            chi2 <= freedom + 5.0 * (2.0 * freedom).sqrt(),
            "{options:?}: chi-square {chi2:.1} with {freedom} degrees of freedom, {counts:?}"
        );
    }
}

fn greedy_takes_the_first_of_the_largest<D: Device>(device: &D) {
    let mut random = Random::new("greedy");
    let greedy = SamplingOptions { top_k: 3, top_p: 0.5, min_p: 0.5, ..SamplingOptions::default() };
    for v in [1, 255, 301, 4096, 128_256] {
        let mut logits: Vec<f32> = random_logits(&mut random, v, 3.0).iter().map(|x| x.round()).collect();
        logits[v / 3] = f32::NAN;
        logits[v / 2] = -0.0;
        let first = (0..v)
            .filter(|&i| !logits[i].is_nan())
            .reduce(|best, i| if logits[i] > logits[best] { i } else { best })
            .unwrap();
        assert_eq!(Sampler::new(device, greedy, &logits).draw(1, 2), first as u32, "V={v}");
    }
    for temperature in [0.0, 0.8] {
        let options = SamplingOptions { temperature, top_p: 0.9, ..SamplingOptions::default() };
        assert_eq!(Sampler::new(device, options, &[f32::NAN; 300]).draw(1, 2), NOT_A_NUMBER);
        assert_eq!(Sampler::new(device, options, &[f32::NEG_INFINITY; 300]).draw(1, 2) / 300, 0, "some token");
    }
}

fn a_draw_depends_on_seed_and_position_alone<D: Device>(device: &D) {
    let logits = vec![0.0; 4096];
    let mut sampler = Sampler::new(device, SamplingOptions { temperature: 1.0, ..SamplingOptions::default() }, &logits);
    let first = sampler.draw(1, 0);
    let others: Vec<u32> =
        [(2, 0), (1 << 32 | 1, 0), (1, 1), (1, 2)].into_iter().map(|(seed, pos)| sampler.draw(seed, pos)).collect();
    assert!(others.iter().all(|t| *t != first), "{first} {others:?}");
    assert_eq!(sampler.draw(1, 0), first);
}

fn every_property<D: Device>(device: &D, draws: u32) {
    filters_are_exact(device);
    draws_follow_the_probabilities(device, draws);
    greedy_takes_the_first_of_the_largest(device);
    a_draw_depends_on_seed_and_position_alone(device);
}

#[test]
fn the_twins_sample_as_defined() {
    every_property(&Twins, 20_000);
}

#[test]
fn the_gpu_samples_as_defined() {
    let gpu = pollster::block_on(Gpu::open(&GpuOptions::default()))
        .expect("a Vulkan or Metal adapter; on Debian without a GPU, install mesa-vulkan-drivers");
    every_property(&gpu, 500);
    // The same tokens as the twins', position by position.
    let mut random = Random::new("tokens");
    let options = SamplingOptions {
        temperature: 0.9,
        top_k: 100,
        top_p: 0.95,
        min_p: 0.01,
        seed: 0,
        ..SamplingOptions::default()
    };
    let logits = random_logits(&mut random, 4096, 4.0);
    let (mut on_gpu, mut on_twins) = (Sampler::new(&gpu, options, &logits), Sampler::new(&Twins, options, &logits));
    for pos in 0..100 {
        assert_eq!(on_gpu.draw(42, pos), on_twins.draw(42, pos), "position {pos}");
    }
}

/// A copy of a model with that many more rows of tokens, those of the likeliest ones, and how many it had.
fn with_more_rows(root: &Path, more: usize) -> (tempfile::TempDir, u32) {
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let bytes = std::fs::read(root.join("model.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tables = ["model.embed_tokens.weight", "lm_head.weight"];
    let padded: Vec<(String, safetensors::Dtype, Vec<usize>, Vec<u8>)> = tensors
        .tensors()
        .into_iter()
        .map(|(name, view)| {
            let (mut shape, mut data) = (view.shape().to_vec(), view.data().to_vec());
            if tables.contains(&name.as_str()) {
                data.extend_from_within(..data.len() / shape[0] * more);
                shape[0] += more;
            }
            (name, view.dtype(), shape, data)
        })
        .collect();
    let views = padded.iter().map(|(name, dtype, shape, data)| {
        (name, safetensors::tensor::TensorView::new(*dtype, shape.clone(), data).unwrap())
    });
    std::fs::write(folder.path().join("model.safetensors"), safetensors::serialize(views, None).unwrap()).unwrap();
    let config = folder.path().join("config.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    let tokens = json["vocab_size"].as_u64().unwrap() as u32;
    json["vocab_size"] = serde_json::json!(tokens as usize + more);
    std::fs::write(&config, json.to_string()).unwrap();
    (folder, tokens)
}

/// A table with more rows than the tokenizer has tokens, as Qwen3's: further rows are never drawn.
#[test]
fn rows_behind_the_last_token_are_never_drawn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/hf-single/model");
    let (folder, tokens) = with_more_rows(&root, 19);
    for device in [DeviceChoice::Gpu, DeviceChoice::Cpu] {
        let load = |path: &Path| {
            let options = LoadOptions { lane: Lane::Exact, device: Some(device), ..LoadOptions::default() };
            block_on(Engine::load(&open_path(path).unwrap(), &options, &|_| {}, &Cancel::new())).unwrap()
        };
        let (mut with, mut without) = (load(folder.path()), load(&root));
        for (temperature, seed, presence_penalty) in [(0.0, 1, 0.0), (1.0, 2, 0.0), (5.0, 3, 0.0), (5.0, 4, 0.5)] {
            let request = Request {
                temperature,
                seed: Some(seed),
                presence_penalty,
                max_tokens: Some(64),
                ignore_eos: true,
                ..Request::new(Prompt::Tokens(vec![5, 6, 7]))
            };
            let answer =
                |engine: &mut Engine| block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).unwrap().tokens;
            let drawn = answer(&mut with);
            assert!(drawn.iter().all(|id| *id < tokens), "{device:?} at {temperature}: {drawn:?}");
            assert_eq!(drawn, answer(&mut without), "{device:?} at {temperature}: as of the table without them");
        }
    }
}

/// Rows of ids that no token has, before those of a token that was added, and a token that was added behind the rows.
#[test]
fn gaps_and_tokens_without_rows_are_never_drawn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/hf-single/model");
    let (folder, tokens) = with_more_rows(&root, 20);
    let file = folder.path().join("tokenizer.json");
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let added = |id: u32, content: &str| {
        serde_json::json!({ "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": false })
    };
    let late = [added(tokens + 19, "<|late|>"), added(tokens + 30, "<|later|>")];
    json["added_tokens"].as_array_mut().unwrap().extend(late);
    std::fs::write(&file, json.to_string()).unwrap();
    let options = LoadOptions { lane: Lane::Exact, device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
    let mut engine =
        block_on(Engine::load(&open_path(folder.path()).unwrap(), &options, &|_| {}, &Cancel::new())).unwrap();
    let warnings = engine.about().warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("<|later|>") && !warning.contains("<|late|>")),
        "{warnings:?}"
    );
    for (temperature, seed) in [(0.0, 1), (1.0, 2), (5.0, 3)] {
        let request = Request {
            temperature,
            seed: Some(seed),
            max_tokens: Some(64),
            ignore_eos: true,
            ..Request::new(Prompt::Tokens(vec![5, 6, 7]))
        };
        let drawn = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).unwrap().tokens;
        assert!(drawn.iter().all(|id| *id < tokens || *id == tokens + 19), "at {temperature}: {drawn:?}");
    }
    let mut said = |text: &str| {
        let request = Request { max_tokens: Some(1), ..Request::new(Prompt::Text(text.to_owned())) };
        block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).map(|answer| answer.tokens.len())
    };
    assert!(said("a<|late|>").is_ok());
    let error = said("a<|later|>").unwrap_err();
    assert!(error.code() == "TOKENIZER" && error.message().contains("<|later|>"), "{error}");
}
