//! From a checkpoint to a session on a device: kernels are selected and self-tested, then the weights are uploaded.

use std::collections::BTreeMap;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use super::recover::{may_be_loss, open_again};
use super::{LoadOptions, ModelInfo, SelfTestInfo};
use crate::base::options::Options as _;
use crate::base::{Cancel, Phase, Progress};
use crate::decode::{Decided, Session};
use crate::error::{Error, ErrorKind, Result};
use crate::format::{Checkpoint, Metadata};
use crate::gpu::{Gpu, GpuOptions};
use crate::kernels::{Caps, Variant};
use crate::layout::{Layout, Sizes};
use crate::model::{self, Reserve};
use crate::plan::{Lane, Selector};
use crate::weights::{self, LoadTimes};

/// Rows of a prefill pass where the caller does not give them.
const PREFILL_ROWS: u32 = 512;
/// Positions that the KV cache holds at first where the caller does not give them.
const CACHE_START: u32 = 512;

/// The model's name.
pub(crate) fn model_name(checkpoint: &Checkpoint) -> Option<String> {
    match &checkpoint.metadata {
        Metadata::Gguf(m) => m.opt::<&str>("general.name").ok().flatten().map(str::to_owned),
        Metadata::Hf(m) => {
            m.config.get("_name_or_path").and_then(|v| v.as_str()).filter(|s| !s.is_empty()).map(str::to_owned)
        }
    }
}

pub(crate) fn describe(checkpoint: &Checkpoint, model: &dyn model::Model, chat: bool) -> Result<ModelInfo> {
    let config = model.config();
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for tensor in checkpoint.tensors.values() {
        *types.entry(tensor.dtype.name()).or_default() += 1;
    }
    Ok(ModelInfo {
        name: model_name(checkpoint),
        architecture: config.architecture.into(),
        parameters: checkpoint.tensors.values().map(|t| t.shape.iter().product::<u64>()).sum(),
        context: config.context,
        vocab: config.vocab,
        layers: config.layers.len(),
        bytes: checkpoint.tensors.values().map(|t| t.bytes).sum(),
        types: types.into_iter().map(|(t, n)| (t.to_owned(), n)).collect(),
        converted: weights::conversions(checkpoint, &model.matrices())?,
        left_out: model.left_out().to_vec(),
        chat,
        thinks: false,
        template_options: Vec::new(),
        pictures: false,
        pooling: config.pooling,
        dimensions: config.pooling.filter(|pooling| pooling.embeds()).map(|_| config.pooled().1),
        prompts: serde_json::Map::new(),
    })
}

/// A device to load to, and the loss of the first one, if it is the second.
pub(crate) struct Opened {
    pub gpu: Rc<Gpu>,
    lost: Option<Error>,
}

/// Opens the device, after a loss once more.
pub(crate) async fn open_device(options: &LoadOptions, cancel: &Cancel) -> Result<Opened> {
    options.check()?;
    // One loss may be due to a driver's update or another tab; opening ends with probes, which notice it.
    match Gpu::open(&gpu_options(options)).await {
        Err(e) if e.kind() == ErrorKind::DeviceLost => {
            Ok(Opened { gpu: Rc::new(open_again(options, None, cancel).await?), lost: Some(e) })
        }
        opened => Ok(Opened { gpu: Rc::new(opened?), lost: None }),
    }
}

/// Opens a checkpoint's model on a device, and uploads the weights. `tokens`: the tokenizer's number of ids.
pub(crate) fn open_session<'s>(
    checkpoint: &'s Checkpoint,
    options: &'s LoadOptions,
    tokens: Option<usize>,
    opened: Opened,
    progress: &'s dyn Fn(Progress),
    cancel: &'s Cancel,
) -> LocalBoxFuture<'s, Result<(Session, SelfTestInfo, LoadTimes)>> {
    Box::pin(session_on(checkpoint, options, tokens, opened, progress, cancel))
}

async fn session_on(
    checkpoint: &Checkpoint,
    options: &LoadOptions,
    tokens: Option<usize>,
    opened: Opened,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<(Session, SelfTestInfo, LoadTimes)> {
    let Opened { mut gpu, mut lost } = opened;
    loop {
        if let Some(lost) = &lost {
            let note = Some(format!(
                "the GPU device was lost while the model was loaded: loading goes on with another ({lost})"
            ));
            progress(Progress { note, ..Progress::new(Phase::Compile, 0, 1) });
        }
        cancel.check()?;
        let opened = async {
            let (session, self_test) = compile(checkpoint, options, tokens, gpu.clone(), None, progress).await?;
            let times = upload(checkpoint, &session, progress, cancel).await?;
            session.gpu().check()?;
            Ok((session, self_test, times))
        };
        match opened.await {
            Err(e) if lost.is_none() && gpu.loss().is_some() && may_be_loss(&e) => {
                lost = Some(e);
                gpu = Rc::new(open_again(options, Some(&gpu), cancel).await?);
            }
            opened => return opened,
        }
    }
}

/// Uploads the weights to a session from [`compile`].
pub(super) async fn upload(
    checkpoint: &Checkpoint,
    session: &Session,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<LoadTimes> {
    let model = session.model();
    let matrices: Vec<_> = model.matrices().into_iter().cloned().collect();
    let total = weights::bytes_to_read(checkpoint, &matrices, model.vectors())?;
    progress(Progress::new(Phase::Upload, 0, total));
    let mut loaded = 0;
    let upload = session.upload()?;
    let times = weights::load(checkpoint, &matrices, model.vectors(), cancel, &upload, &mut |bytes| {
        loaded += bytes;
        progress(Progress::new(Phase::Upload, loaded, total));
    })
    .await?;
    progress(Progress::new(Phase::Upload, total, total));
    Ok(times)
}

/// Opens a session without weights, on a device of its own.
pub(crate) async fn open_empty(
    checkpoint: &Checkpoint,
    options: &LoadOptions,
    tokens: Option<usize>,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<(Session, SelfTestInfo)> {
    options.check()?;
    let gpu = Rc::new(Gpu::open(&gpu_options(options)).await?);
    cancel.check()?;
    compile(checkpoint, options, tokens, gpu, None, progress).await
}

/// A session without weights on a device. `decided`: the kernels that an earlier session on an equal device chose.
pub(super) async fn compile(
    checkpoint: &Checkpoint,
    options: &LoadOptions,
    tokens: Option<usize>,
    gpu: Rc<Gpu>,
    decided: Option<Decided>,
    progress: &dyn Fn(Progress),
) -> Result<(Session, SelfTestInfo)> {
    progress(Progress::new(Phase::Compile, 0, 1));
    let few = decided.as_ref().is_some_and(|d| d.few);
    let (mut session, self_test) = plan_session(checkpoint, options, tokens, &gpu, decided).await?;
    if few {
        session.prepare_few().await?;
    }
    progress(Progress::new(Phase::Compile, 1, 1));
    gpu.check()?;
    Ok((session, self_test))
}

pub(super) fn gpu_options(options: &LoadOptions) -> GpuOptions {
    GpuOptions {
        // The default is a GPU; the pages and the command line ask for `auto`.
        device: options.device.unwrap_or_default(),
        adapter: options.adapter.clone(),
        subgroups: options.subgroups,
        f16: true,
        max_binding: options.max_binding,
        #[cfg(feature = "lab")]
        broken: options.faults.broken.clone(),
        ..GpuOptions::default()
    }
}

/// The kernel selector, with the caller's choices, measurements on this device, and the model's recommendations.
pub(super) fn selector(checkpoint: &Checkpoint, options: &LoadOptions, lane: Lane, caps: &Caps) -> Result<Selector> {
    let mut select = Selector::new(caps, lane, options.kv, &options.kernels)?;
    select.remember(options.tuning.of(caps));
    if let Some(packed) = &checkpoint.packed {
        select.hint(packed.hints.kernels.clone().into_iter());
    }
    Ok(select)
}

/// A session without weights whose kernels have passed the self-test: a variant that computes wrongly is replaced by
/// another of the lane, and where there is none, the lane by the next.
async fn plan_session(
    checkpoint: &Checkpoint,
    options: &LoadOptions,
    tokens: Option<usize>,
    gpu: &Rc<Gpu>,
    decided: Option<Decided>,
) -> Result<(Session, SelfTestInfo)> {
    let (mut lane, mut broken): (_, Vec<&'static Variant>) =
        decided.map_or_else(|| (options.lane, Vec::new()), |d| (d.lane, d.avoided));
    let mut choice = None;
    if lane == Lane::Auto {
        let (_, model) = reserve(checkpoint, options, tokens, gpu.caps()).await?;
        let (product, chosen) = super::lane::choose(model.as_ref(), options, gpu).await?;
        lane = chosen.lane;
        choice = Some((product, chosen));
    }
    let mut about = SelfTestInfo::default();
    loop {
        let mut select = selector(checkpoint, options, lane, gpu.caps())?;
        select.avoid(&broken);
        if let Some((product, choice)) = choice.as_ref().filter(|(_, choice)| choice.lane == lane) {
            select.decided(product.clone(), choice.clone());
        }
        let mut session = match new_session(checkpoint, options, tokens, gpu, select).await {
            Err(e) if e.kind() == ErrorKind::UnknownKernel && !broken.is_empty() => {
                let next = lane.next(gpu.caps().f16());
                if next != lane {
                    lane = next;
                    continue;
                }
                return Err(Error::gpu(format!(
                    "this GPU or its driver computes wrongly, and there is no other way to run this model on it: {}; update the driver or use another GPU",
                    about.wrong.join("; ")
                ))
                .with_source(e));
            }
            other => other?,
        };
        session.warm_up().await?;
        if !options.self_test.unwrap_or(!gpu.caps().software) {
            about.skipped = Some(match gpu.caps().backend.as_str() {
                _ if options.self_test.is_some() => "switched off",
                "cpu" => "the CPU",
                _ => "a GPU in software",
            });
            return Ok((session, about));
        }
        let test = session.self_test().await?;
        about.checked += test.checked;
        about.ms += test.ms;
        if test.wrong.is_empty() {
            return Ok((session, about));
        }
        about.wrong.extend(test.wrong.iter().map(|(variant, how)| format!("{variant}: {how}")));
        broken.extend(test.wrong.iter().map(|(variant, _)| variant));
    }
}

async fn new_session(
    checkpoint: &Checkpoint,
    options: &LoadOptions,
    tokens: Option<usize>,
    gpu: &Rc<Gpu>,
    select: Selector,
) -> Result<Session> {
    let (layout, model) = reserve(checkpoint, options, tokens, gpu.caps()).await?;
    let context = context_of(options, model.config())?;
    let sizes = sizes_of(options, context);
    let mut session = Session::new(gpu.clone(), model, layout, select, context, sizes).await?;
    session.rows_pay = options.together;
    session.widen_up_to(widest_pass(options, session.model().config(), gpu));
    session.limit_context(super::fit::context_that_fits(
        session.layout(),
        session.sizes(),
        gpu.caps(),
        options,
        context,
    )?);
    Ok(session)
}

/// The model, and a layout of its weights.
pub(super) async fn reserve(
    checkpoint: &Checkpoint,
    options: &LoadOptions,
    tokens: Option<usize>,
    caps: &Caps,
) -> Result<(Layout, Box<dyn model::Model>)> {
    let mut layout = Layout::default();
    let mut buffer = |label, bytes| layout.weight(label, bytes);
    let mut model = model::open(
        checkpoint,
        &mut Reserve {
            max_binding: caps.max_binding,
            quantize: options.quantize,
            pooling: options.pooling,
            buffer: &mut buffer,
        },
    )?;
    model::read_rope_divisors(checkpoint, model.as_mut()).await?;
    weights::note_conversions(checkpoint, &model.matrices(), &mut layout);
    if let Some(recipe) = options.quantize
        && weights::conversions(checkpoint, &model.matrices())?.is_empty()
    {
        return Err(weights::nothing_to_quantize(recipe));
    }
    let vocab = model.config().vocab;
    if let Some(n) = tokens {
        // Of more tokens than rows the tokenizer tells (`Tokenizer::fit`).
        model.config_mut().drawn = n.min(vocab);
    }
    Ok((layout, model))
}

/// The sizes that plans are made for at first.
pub(super) fn sizes_of(options: &LoadOptions, context: u32) -> Sizes {
    let rows = options.prefill_rows.unwrap_or(PREFILL_ROWS);
    Session::sizes_of(
        rows,
        context,
        options.cache_start.unwrap_or(CACHE_START),
        options.slots.unwrap_or(1).max(options.concurrency.unwrap_or(1)),
    )
}

/// Rows of the widest passes over texts that are read whole; 0 where the caller says how many rows passes have, and on the
/// CPU, which no pass is too short for.
pub(super) fn widest_pass(options: &LoadOptions, config: &model::ModelConfig, gpu: &Gpu) -> u32 {
    let widened = config.reads_whole() && config.pooling.is_some() && options.prefill_rows.is_none() && !gpu.is_cpu();
    if widened { config.widest_pass() } else { 0 }
}

/// The context that the caller wants, or else the model's.
pub(super) fn context_of(options: &LoadOptions, config: &model::ModelConfig) -> Result<u32> {
    match options.context {
        Some(n) if n > config.context => Err(Error::bad_option(format!(
            "context {n} is more than the {} positions that the model was trained for",
            config.context
        ))),
        Some(n) => Ok(n),
        None => Ok(options.most_context.map_or(config.context, |most| most.min(config.context))),
    }
}
