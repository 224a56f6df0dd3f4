//! Whether a model fits a device, from its header alone: the sizes of its buffers with a full context against the
//! device's limits.

use serde::Serialize;

use super::load::{context_of, describe, gpu_options, reserve, selector, sizes_of, widest_pass};
use super::pictures::Found;
use super::vision::open_tower;
use super::{Engine, Info, LoadOptions, SelfTestInfo};
use crate::base::options::Options as _;
use crate::decode;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Checkpoint;
use crate::gpu::Gpu;
use crate::kernels::Caps;
use crate::layout::{BufferSpec, Kv, Layout, Role, Sizes, StateShape};
use crate::model::Model;
use crate::plan::{self, Asked, Lane, Pass, Plans, Selector};
use crate::source::Files;
use crate::state::CHECKPOINTS;
use crate::store::size;
use crate::text::{ChatTemplate, Tokenizer};

/// The smallest context that is worth suggesting.
const LEAST_CONTEXT: u32 = 512;

/// Whether a model fits, and settings that would.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fit {
    /// Whether all of `problems` is empty.
    pub fits: bool,
    /// What does not fit, as messages for users.
    pub problems: Vec<String>,
    /// Positions that were asked for.
    pub context: u32,
    /// How the cache holds keys and values.
    pub kv: Kv,
    /// GPU memory, bytes.
    pub memory: FitMemory,
    /// The largest buffer.
    pub largest: Largest,
    /// The device's limits.
    pub limits: Limits,
    /// Settings that would fit, where these do not.
    pub alternatives: Vec<Alternative>,
}

/// GPU memory that a plan counts on, bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Room {
    /// The most that all models may take together, where the caller gives it.
    pub memory: Option<u64>,
    /// Bytes that other models take, or will take.
    pub beside: u64,
}

/// GPU memory of a model with a full context, bytes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FitMemory {
    /// Weights and tables.
    pub weights: u64,
    /// Keys and values of a full context.
    pub kv: u64,
    /// The rest: activations, the cache's second buffers while it grows, copies of texts that prompts may come back to.
    pub activations: u64,
    /// The vision tower, which is loaded for the first picture: its weights, and its activations for the largest tile.
    pub encoder: u64,
    /// The draft model with all of its own.
    pub draft: u64,
    /// The sum of weights, kv, activations, encoder and draft.
    pub total: u64,
    /// Bytes that other models take, or will take, with full contexts.
    pub beside: u64,
}

/// A buffer.
#[derive(Debug, Clone, Serialize)]
pub struct Largest {
    /// Its name in the plan.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// A device's limits, bytes. Browsers do not tell how much memory a GPU has: `memory` is the caller's limit.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limits {
    /// The largest buffer.
    pub buffer: u64,
    /// The largest binding: the part of a buffer that a kernel can read.
    pub binding: u64,
    /// The most that all buffers may take together, if the caller has given it.
    pub memory: Option<u64>,
}

/// Settings that would fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Alternative {
    /// Positions.
    pub context: u32,
    /// How the cache holds keys and values.
    pub kv: Kv,
    /// GPU memory, bytes.
    pub total: u64,
}

/// Bytes of a buffer once states hold `context` positions.
fn bytes_at(spec: &BufferSpec, sizes: Sizes, context: u32) -> u64 {
    spec.bytes_at(Sizes { capacity: context.next_multiple_of(64), ..sizes })
}

/// The largest state buffer with `context` positions.
fn largest_cache(layout: &Layout, sizes: Sizes, context: u32) -> u64 {
    layout.specs().iter().filter(|s| s.state.is_some()).map(|s| bytes_at(s, sizes, context)).max().unwrap_or(0)
}

/// The most positions, up to `context`, whose largest state buffer the device can hold.
pub(super) fn most_positions(layout: &Layout, sizes: Sizes, caps: &Caps, context: u32) -> u32 {
    let limit = caps.max_buffer.min(caps.binding_limit);
    let fits = |positions: u32| largest_cache(layout, sizes, positions) <= limit;
    if fits(context) {
        return context;
    }
    let (mut good, mut bad) = (0, context.div_ceil(64));
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle * 64) { good = middle } else { bad = middle }
    }
    good * 64
}

/// The most positions that a model is loaded with.
///
/// # Errors
/// [`crate::ErrorKind::OutOfMemory`] where the caller wants more than the device can hold.
pub(super) fn context_that_fits(
    layout: &Layout,
    sizes: Sizes,
    caps: &Caps,
    options: &LoadOptions,
    context: u32,
) -> Result<u32> {
    let most = most_positions(layout, sizes, caps, context);
    if most < context && options.context.is_some() || most == 0 {
        return Err(Error::out_of_memory(format!(
            "context {context}: this GPU can hold the cache of {most} positions at most in one buffer; ask for a shorter context, for kv q8, which takes about half, or for less concurrency"
        )));
    }
    Ok(most)
}

/// Checks that a model can be loaded to a device, from its header alone: before the rest is fetched.
///
/// # Errors
/// The errors of the load.
pub(super) async fn check(checkpoint: &Checkpoint, options: &LoadOptions, gpu: &Gpu) -> Result<()> {
    let Drawn { layout, sizes, context, .. } = draw(checkpoint, None, options, false, gpu).await?;
    for spec in layout.specs().iter().filter(|spec| spec.state.is_none()) {
        gpu.check_size(&spec.name, spec.bytes)?;
    }
    context_that_fits(&layout, sizes, gpu.caps(), options, context).map(drop)
}

/// A model's plans, with the selector, layout and sizes that they are made of.
struct Drawn {
    model: Box<dyn Model>,
    select: Selector,
    layout: Layout,
    sizes: Sizes,
    context: u32,
    plans: Plans,
}

/// Plans a model on a device, without buffers: as it is loaded, or with `full` for passes as long as the longest text
/// that is read whole.
async fn draw(
    checkpoint: &Checkpoint,
    tokens: Option<usize>,
    options: &LoadOptions,
    full: bool,
    gpu: &Gpu,
) -> Result<Drawn> {
    let (mut layout, model) = reserve(checkpoint, options, tokens, gpu.caps()).await?;
    let lane = match options.lane {
        Lane::Auto => super::lane::known(model.as_ref(), &options.tuning.of(gpu.caps()), gpu.caps()).lane,
        lane => lane,
    };
    let select = selector(checkpoint, options, lane, gpu.caps())?;
    let context = context_of(options, model.config())?;
    let mut sizes = sizes_of(options, context);
    if full && model.config().reads_whole() {
        sizes.rows = context.max(widest_pass(options, model.config(), gpu));
    }
    let plans = decode::build_plans(model.as_ref(), &mut layout, &select, sizes, Asked::default())?;
    select.finish()?;
    Ok(Drawn { model, select, layout, sizes, context, plans })
}

/// A model's plan on a device, without weights.
struct Survey {
    info: Info,
    layout: Layout,
    sizes: Sizes,
    kv: Kv,
    /// Bytes of the vision tower.
    encoder: u64,
}

/// Bytes of a checkpoint's vision tower, with the activations of a pass for its largest tile.
fn encoder_bytes(checkpoint: &Checkpoint, options: &LoadOptions, lane: Lane, gpu: &Gpu) -> Result<u64> {
    let (tower, mut layout) = open_tower(checkpoint, options, gpu.caps())?;
    let rows = tower.vision.tower.context;
    let select = selector(checkpoint, options, lane, gpu.caps())?;
    let sizes = Sizes { rows, capacity: rows.next_multiple_of(64), slots: 1, ..sizes_of(options, rows) };
    decode::build_plans(&tower, &mut layout, &select, sizes, Asked::default())?;
    Ok(layout.specs().iter().map(|spec| bytes_at(spec, sizes, rows)).sum())
}

/// Plans the model of these files, with its vision tower.
async fn survey(
    (files, checkpoint): (&Files, &Checkpoint),
    tokenizer: &Tokenizer,
    chat: bool,
    options: &LoadOptions,
    gpu: &Gpu,
) -> Result<Survey> {
    let Drawn { model, select, layout, sizes, context, plans } =
        draw(checkpoint, Some(tokenizer.vocab_size()), options, true, gpu).await?;
    tokenizer.behind(model.config().vocab)?;
    let plan =
        [Pass::Prefill, Pass::Decode].into_iter().flat_map(|pass| plan::rows(pass, &plans[pass], sizes)).collect();
    let about = describe(checkpoint, model.as_ref(), chat)?;
    let self_test = SelfTestInfo { skipped: Some("nothing is loaded"), ..SelfTestInfo::default() };
    let concurrency = options.concurrency.unwrap_or(1) as usize;
    let mut info =
        Info { plan, self_test, concurrency, ..Info::new(about, gpu.caps(), select.lane(), &layout, sizes, context) };
    let bytes = async {
        match Found::of(files, checkpoint, Some(model.config()), tokenizer).await? {
            Some(found) => encoder_bytes(found.checkpoint(checkpoint), options, select.lane(), gpu).map(Some),
            None => Ok(None),
        }
    };
    let encoder = match bytes.await {
        // A model whose vision tower this version does not support loads without it.
        Err(e) if matches!(e.kind(), ErrorKind::UnsupportedModel | ErrorKind::BadModel) => None,
        bytes => bytes?,
    };
    info.model.pictures = encoder.is_some();
    Ok(Survey { info, layout, sizes, kv: select.kv(), encoder: encoder.unwrap_or(0) })
}

impl Survey {
    fn fit(&self, caps: &Caps, room: Room, context: u32) -> Fit {
        // Passes over several texts have more rows than one text has positions.
        let positions = if self.info.model.pooling.is_some() { context.max(self.sizes.rows) } else { context };
        let of = |role: &[Role]| {
            let specs = self.layout.specs().iter().filter(|s| role.contains(&s.role()));
            specs.map(|s| bytes_at(s, self.sizes, positions)).sum::<u64>()
        };
        // A recurrent state has checkpoints to go back to.
        let recurrent =
            |shape: StateShape| if matches!(shape, StateShape::Recurrent { .. }) { shape.bytes() } else { 0 };
        let logits = self.info.model.vocab as u64 * 4;
        let state = self.layout.specs().iter().filter_map(|s| s.state).map(recurrent).sum::<u64>();
        let of_one = if state > 0 { state * decode::STATE_COPIES + logits * CHECKPOINTS as u64 } else { 0 };
        let copies = u64::from(self.sizes.slots) * of_one;
        let spare = decode::most_beside(&self.layout, self.sizes, positions, self.info.model.pooling.is_none());
        let (weights, kv, activations) =
            (of(&[Role::Weight]), of(&[Role::State]) + copies, of(&[Role::Scratch, Role::Control]) + spare);
        let encoder = self.encoder;
        let memory = FitMemory {
            weights,
            kv,
            activations,
            encoder,
            draft: 0,
            total: weights + kv + activations + encoder,
            beside: room.beside,
        };
        let buffers = self.layout.specs().iter().map(|s| (s, bytes_at(s, self.sizes, positions)));
        let largest = buffers
            .max_by_key(|(_, bytes)| *bytes)
            .map_or_else(|| (String::new(), 0), |(s, bytes)| (s.name.to_string(), bytes));
        let limits = Limits { buffer: caps.max_buffer, binding: caps.binding_limit, memory: room.memory };
        let mut problems = Vec::new();
        let limit = caps.max_buffer.min(caps.binding_limit);
        let cache = largest_cache(&self.layout, self.sizes, positions);
        if cache > limit {
            let each =
                if self.sizes.slots > 1 { format!(" for each of {} answers", self.sizes.slots) } else { String::new() };
            problems.push(format!(
                "a context of {context} tokens{each} needs {} in one buffer of a layer's cache, this GPU allows {}",
                size(cache),
                size(limit)
            ));
        }
        if largest.1 > caps.max_buffer && cache <= limit {
            problems.push(format!(
                "{} needs {} in one buffer, this GPU allows {}",
                largest.0,
                size(largest.1),
                size(caps.max_buffer)
            ));
        }
        if let Some(allowed) = room.memory.filter(|allowed| memory.total + room.beside > *allowed) {
            let beside = if room.beside > 0 {
                format!(" beside the {} of other models", size(room.beside))
            } else {
                String::new()
            };
            problems.push(format!(
                "it needs {} of GPU memory{beside}, {} are allowed",
                size(memory.total),
                size(allowed)
            ));
        }
        let largest = Largest { name: largest.0, bytes: largest.1 };
        Fit {
            fits: problems.is_empty(),
            problems,
            context,
            kv: self.kv,
            memory,
            largest,
            limits,
            alternatives: Vec::new(),
        }
    }

    /// The longest context that fits: `context`, halved as often as needed.
    fn longest(&self, caps: &Caps, room: Room, context: u32) -> Option<Alternative> {
        let contexts = std::iter::successors(Some(context), |c| Some(c / 2))
            .take_while(|c| *c >= LEAST_CONTEXT.min(context) && *c > 0);
        let mut fits = contexts.map(|c| self.fit(caps, room, c)).filter(|fit| fit.fits);
        fits.next().map(|fit| Alternative { context: fit.context, kv: fit.kv, total: fit.memory.total })
    }
}

impl Engine {
    /// [`Engine::info`] of a model, from the files' headers alone: no weights are read, nothing is measured or tested.
    pub async fn inspect(files: &Files, options: &LoadOptions) -> Result<Info> {
        Ok(Self::plan(files, options, Room::default()).await?.0)
    }

    /// [`Engine::inspect`], and whether the model fits this device's limits and, where the caller gives the GPU's
    /// memory, what other models leave of it.
    pub async fn plan(files: &Files, options: &LoadOptions, room: Room) -> Result<(Info, Fit)> {
        options.check()?;
        let checkpoint = Checkpoint::open(files).await?.with_tokenizer(options.tokenizer_json.clone());
        let tokenizer = Tokenizer::open(&checkpoint)?;
        let chat = ChatTemplate::open(&checkpoint, &tokenizer).is_ok();
        let gpu = Gpu::open(&gpu_options(options)).await?;
        let survey_with =
            async |options: &LoadOptions| survey((files, &checkpoint), &tokenizer, chat, options, &gpu).await;
        let asked = survey_with(options).await?;
        let mut fit = asked.fit(gpu.caps(), room, asked.info.context);
        if !fit.fits {
            fit.alternatives.extend(asked.longest(gpu.caps(), room, fit.context));
            if fit.kv != Kv::Q8 {
                let small = survey_with(&LoadOptions { kv: Some(Kv::Q8), ..options.clone() }).await?;
                fit.alternatives.extend(small.longest(gpu.caps(), room, fit.context));
            }
        }
        gpu.destroy();
        Ok((asked.info, fit))
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;
    use crate::source::disk::open_path;
    use pollster::block_on;

    fn files() -> Files {
        open_path(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf")).unwrap()
    }

    fn plan(options: LoadOptions, allowed: Option<u64>) -> Fit {
        block_on(Engine::plan(&files(), &options, Room { memory: allowed, beside: 0 })).unwrap().1
    }

    #[test]
    fn what_fits_says_what_it_takes() {
        let fit = plan(LoadOptions::default(), None);
        assert!(fit.fits && fit.problems.is_empty() && fit.alternatives.is_empty(), "{fit:?}");
        assert_eq!(fit.memory.total, fit.memory.weights + fit.memory.kv + fit.memory.activations + fit.memory.encoder);
        let (info, fit) = block_on(Engine::plan(
            &files(),
            &LoadOptions { context: Some(128), ..LoadOptions::default() },
            Room::default(),
        ))
        .unwrap();
        assert_eq!((fit.context, fit.memory.kv, fit.memory.weights), (128, info.memory.kv_full, info.memory.weights));
    }

    /// A vision tower counts as much as it takes once it is loaded; a file beside the model's adds to the total.
    #[test]
    fn what_reads_pictures_is_counted() {
        let plan = |files: &Files, memory| {
            block_on(Engine::plan(files, &LoadOptions::default(), Room { memory, beside: 0 })).unwrap()
        };
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle");
        let mut files = open_path(&folder.join("lfm2vl-gguf/model.gguf")).unwrap();
        let (info, fit) = plan(&files, None);
        assert!(info.model.pictures && fit.memory.encoder > files["mmproj-model.gguf"].len() / 2, "{fit:?}");
        assert_eq!(fit.memory.total, fit.memory.weights + fit.memory.kv + fit.memory.activations + fit.memory.encoder);
        assert!(!plan(&files, Some(fit.memory.total - 1)).1.fits && plan(&files, Some(fit.memory.total)).1.fits);
        files.shift_remove("mmproj-model.gguf");
        let (info, without) = plan(&files, None);
        assert!(!info.model.pictures && without.memory.encoder == 0);
        assert_eq!(without.memory.total, fit.memory.total - fit.memory.encoder);
        for name in [
            "lfm2vl-hf",
            "qwen35vl-hf",
            "gemma4vl-hf",
            "gemma4vlboth-hf",
            "gemma4uvl-hf",
            "gemma3vl-hf",
            "idefics3vl-hf",
            "paddleocrvl-hf",
            "lightonocrvl-hf",
            "glmocrvl-hf",
        ] {
            let (info, fit) = plan(&open_path(&folder.join(name).join("model")).unwrap(), None);
            assert!(info.model.pictures && fit.memory.encoder > 0, "{name}");
        }
        // A tower that cannot be used is not counted.
        let (info, fit) = plan(&open_path(&folder.join("qwen3vl-hf/model")).unwrap(), None);
        assert!(!info.model.pictures && fit.memory.encoder == 0);
    }

    /// The plan has room for a whole context of each concurrent answer.
    #[test]
    fn answers_at_one_time_are_planned_for() {
        let [one, four] = [1, 4].map(|n| plan(LoadOptions { concurrency: Some(n), ..LoadOptions::default() }, None));
        assert_eq!(four.memory.kv, 4 * one.memory.kv);
        assert_eq!(four.memory.weights, one.memory.weights);
        let refused = plan(LoadOptions { concurrency: Some(4), ..LoadOptions::default() }, Some(one.memory.total));
        assert!(!refused.fits && refused.problems[0].contains("GPU memory"), "{refused:?}");
    }

    /// Of each answer at a time: checkpoints at the ends of four prompts, those of two chunks in flight, and the current
    /// state.
    #[test]
    fn copies_of_recurrent_states_are_counted() {
        let files =
            open_path(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/lfm2-hf/model"))
                .unwrap();
        for answers in [1, 3] {
            let options = LoadOptions { concurrency: Some(answers), ..LoadOptions::default() };
            let (info, fit) = block_on(Engine::plan(&files, &options, Room::default())).unwrap();
            let (layers, taps, width, vocab) = (4, 3, 64, info.model.vocab as u64);
            // A convolution's state has rows for the drafts of a step, too.
            let of_one = 7 * layers * (taps + 7) * width * 4 + 4 * vocab * 4;
            assert_eq!(fit.memory.kv - info.memory.kv_full, u64::from(answers) * of_one);
        }
    }

    #[test]
    fn what_does_not_fit_says_what_would() {
        let whole = plan(LoadOptions::default(), None);
        let small = plan(LoadOptions { context: Some(whole.context / 2), ..LoadOptions::default() }, None);
        // The memory of half the context.
        let fit = plan(LoadOptions::default(), Some(small.memory.total));
        assert!(!fit.fits && fit.problems[0].contains("GPU memory"), "{fit:?}");
        assert_eq!(
            fit.alternatives[0],
            Alternative { context: whole.context / 2, kv: Kv::F16, total: small.memory.total }
        );
        assert!(fit.alternatives[1].kv == Kv::Q8 && fit.alternatives[1].total <= small.memory.total, "{fit:?}");
        assert!(plan(LoadOptions::default(), Some(1000)).alternatives.is_empty(), "nothing does");
    }

    /// Two models in one memory: the second has the rest.
    #[test]
    fn what_other_models_take_is_counted() {
        let alone = plan(LoadOptions::default(), None).memory.total;
        let beside = |beside, memory| {
            block_on(Engine::plan(&files(), &LoadOptions::default(), Room { memory: Some(memory), beside })).unwrap().1
        };
        let both = beside(1 << 30, alone + (1 << 30));
        assert!(both.fits && both.memory.total == alone && both.memory.beside == 1 << 30, "{both:?}");
        let refused = beside(1 << 30, alone + (1 << 30) - 1);
        assert!(!refused.fits && refused.problems[0].contains("beside the"), "{refused:?}");
        assert!(
            refused.alternatives[0].context < refused.context && refused.alternatives[0].total < alone,
            "{refused:?}"
        );
        assert!(beside(1 << 30, 1 << 20).alternatives.is_empty(), "the others alone are too much");
    }

    #[test]
    fn the_cache_of_a_layer_must_fit_a_binding() {
        let options = LoadOptions { context: Some(512), ..LoadOptions::default() };
        let (checkpoint, gpu) =
            (block_on(Checkpoint::open(&files())).unwrap(), block_on(Gpu::open(&gpu_options(&options))).unwrap());
        let tokenizer = Tokenizer::open(&checkpoint).unwrap();
        let survey = block_on(survey((&files(), &checkpoint), &tokenizer, true, &options, &gpu)).unwrap();
        let (of_512, of_128) =
            (largest_cache(&survey.layout, survey.sizes, 512), largest_cache(&survey.layout, survey.sizes, 128));
        let caps = |limit| Caps { binding_limit: limit, ..gpu.caps().clone() };
        assert!(survey.fit(&caps(of_512), Room::default(), 512).fits);
        assert_eq!(most_positions(&survey.layout, survey.sizes, &caps(of_512), 512), 512);
        let fit = survey.fit(&caps(of_512 - 1), Room::default(), 512);
        assert!(!fit.fits && fit.problems[0].contains("512 tokens"), "{fit:?}");
        assert_eq!(most_positions(&survey.layout, survey.sizes, &caps(of_128), 512), 128);
        assert_eq!(most_positions(&survey.layout, survey.sizes, &caps(1), 512), 0);
    }
}
