//! The engine's GPU memory and its two recorded plans; prefill; growth of the cache.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytemuck::{bytes_of, cast_slice};
use futures_util::future::LocalBoxFuture;

use crate::error::{Error, ErrorKind, Result};
use crate::gpu::{Bound, Buffer, Gpu, Upload};
use crate::kernels::{State, Variant, check};
use crate::model::Model;
use crate::plan::tuning::Known;
use crate::plan::{BufferId, BufferSpec, Builder, CacheShape, Grid, Layout, Pass, Plan, Role, Selector, Sizes, Step, labels};
use crate::sample::FILTER_ROUNDS;
use crate::stream::now_ms;
use crate::weights::Sink;

use super::chunk::MOST;
use super::conversation::{FIRST, Parked};
use super::generate::{LOGPROBS_ROW, Outcome};
use super::history::History;

/// Readbacks under way at one time, and one to spare.
const STAGING: usize = 3;

/// Who needs a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    All,
    /// Sampling with a temperature.
    Temperature,
    /// A round of the search for what survives top-k and top-p.
    Search,
}

/// A step with everything that recording it needs.
pub(super) struct Encoded {
    pub(super) bound: Bound,
    pub(super) grid: Grid,
    /// Who needs it.
    pub(super) need: Need,
}

/// Weights, cache, activations and the recorded plans of one loaded model.
pub struct Session {
    pub(super) gpu: Rc<Gpu>,
    model: Box<dyn Model>,
    pub(super) select: Selector,
    layout: Layout,
    /// Buffers of the layout that are weights and survive growth.
    weights: usize,
    buffers: Vec<Buffer>,
    sizes: Sizes,
    context: u32,
    plans: [Plan; 4],
    pub(super) decode: Vec<Encoded>,
    pub(super) prefill: Vec<Encoded>,
    /// Short passes and passes of few rows, once somebody has had time to compile them.
    pub(super) few: Option<[Vec<Encoded>; 2]>,
    pub(super) tail: Vec<Encoded>,
    /// Penalties, bias and log probabilities, once somebody has asked for one of them.
    pub(super) extras: Option<(Plan, [Encoded; 3])>,
    pub(super) staging: Vec<Buffer>,
    /// Where passes of prefill tell that they have run.
    pub(super) fences: [Buffer; 2],
    /// Whether variants must pass the self-test before they are used.
    pub(super) self_tested: bool,
    /// How long a token took, for the next generation's chunks.
    pub(super) ms_a_token: Option<f64>,
    /// The tokens whose keys and values the cache holds, from position 0 on.
    pub(super) cached: History,
    /// Whether it has yet to be made to hold them: what held them was lost with its device.
    pub(super) missing: bool,
    /// Whether they are rotated as in texts longer than the model's original context.
    pub(super) long: bool,
    /// Positions that steps may have written to since position 0 was: more than are valid where a generation ended early.
    pub(super) written: u32,
    /// The conversation that has the cache.
    pub(super) active: u32,
    /// The others.
    pub(super) parked: BTreeMap<u32, Parked>,
    pub(super) next_conversation: u32,
    /// What the last generation had done when the device was lost.
    pub(super) interrupted: Option<Outcome>,
}

/// How the self-test went.
#[derive(Default)]
pub struct SelfTest {
    /// Variants that ran; the others of the plans have passed on this device before.
    pub checked: usize,
    /// Variants whose result is wrong, and how.
    pub wrong: Vec<(&'static Variant, String)>,
    /// How long it took, ms.
    pub ms: f64,
}

/// Plans of a prefill pass, of a decode step, and of prefill passes that are short and of few rows, and the buffers they need after the weights.
pub fn build_plans(model: &dyn Model, layout: &mut Layout, select: &Selector, sizes: Sizes) -> Result<[Plan; 4]> {
    let mut of = |pass| {
        let mut b = Builder::new(layout, select, sizes, pass);
        model.forward(&mut b)?;
        Ok::<_, Error>(b.finish())
    };
    let (prefill, short, few) = (of(Pass::Prefill)?, of(Pass::Short)?, of(Pass::Few)?);
    Ok([prefill, build_decode(model, layout, select, sizes)?, short, few])
}

/// The plan of a decode step.
pub(super) fn build_decode(model: &dyn Model, layout: &mut Layout, select: &Selector, sizes: Sizes) -> Result<Plan> {
    let mut b = Builder::new(layout, select, sizes, Pass::Decode);
    model.forward(&mut b)?;
    b.sample(model.config().vocab)?;
    Ok(b.finish())
}

/// Steps of the sampling tail at the end of a decode plan.
pub(super) const TAIL: usize = 4 + 2 * FILTER_ROUNDS as usize;

impl Session {
    /// The sizes that plans are made for at first: passes of `rows` rows, a cache of `cache_start` positions, both `context` at most.
    pub(crate) fn sizes_of(rows: u32, context: u32, cache_start: u32) -> Sizes {
        Sizes { rows: rows.min(context), capacity: cache_start.min(context).next_multiple_of(64), ring: MOST }
    }

    /// Makes buffers and plans. `layout` holds the weights' buffers already; `context` is the most positions that will be used, `cache_start`
    /// how many the cache holds before it doubles.
    pub fn new(gpu: Rc<Gpu>, model: Box<dyn Model>, layout: Layout, select: Selector, rows: u32, context: u32, cache_start: u32) -> Result<Self> {
        let weights = layout.specs().len();
        let sizes = Self::sizes_of(rows, context, cache_start);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging = (0..STAGING).map(|_| gpu.buffer("staging", u64::from(MOST) * (4 + LOGPROBS_ROW), usage)).collect::<Result<_>>()?;
        let fence = || gpu.buffer("fence", 4, usage);
        let mut session = Self {
            fences: [fence()?, fence()?],
            gpu,
            model,
            select,
            layout,
            weights,
            buffers: Vec::new(),
            sizes,
            context,
            plans: Default::default(),
            decode: Vec::new(),
            prefill: Vec::new(),
            few: None,
            tail: Vec::new(),
            extras: None,
            staging,
            self_tested: false,
            ms_a_token: None,
            cached: History::default(),
            missing: false,
            interrupted: None,
            long: false,
            written: 0,
            active: FIRST,
            parked: BTreeMap::new(),
            next_conversation: FIRST + 1,
        };
        session.make_buffers()?;
        session.lay_out(sizes)?;
        session.select.finish()?;
        Ok(session)
    }

    /// Plans for `sizes`, makes the buffers that are not weights, compiles and binds.
    fn lay_out(&mut self, sizes: Sizes) -> Result<()> {
        self.layout.truncate(self.weights);
        self.buffers.truncate(self.weights);
        self.sizes = sizes;
        self.plans = build_plans(self.model.as_ref(), &mut self.layout, &self.select, sizes)?;
        self.make_buffers()?;
        self.put_rotations()?;
        self.encode_plans()?;
        if self.extras.take().is_some() {
            self.make_extras()?;
        }
        Ok(())
    }

    /// Makes the layout's buffers that are not there yet.
    fn make_buffers(&mut self) -> Result<()> {
        for spec in &self.layout.specs()[self.buffers.len()..] {
            self.buffers.push(self.gpu.buffer(&spec.label, spec.bytes, usage_of(spec))?);
        }
        Ok(())
    }

    fn make_extras(&mut self) -> Result<()> {
        let mut b = Builder::new(&mut self.layout, &self.select, self.sizes, Pass::Decode);
        b.sample_extras(self.model.config().vocab)?;
        let plan = b.finish();
        self.make_buffers()?;
        let encoded = self.encode(&plan)?.try_into().map_err(|_| Error::internal("penalties and log probabilities are three steps"))?;
        self.extras = Some((plan, encoded));
        Ok(())
    }

    /// Compiles what penalties, bias and log probabilities need, if it is not there yet, and tests it where the other kernels were tested.
    pub(super) async fn prepare_extras(&mut self) -> Result<()> {
        if self.extras.is_some() {
            return Ok(());
        }
        self.make_extras()?;
        if !self.self_tested {
            return Ok(());
        }
        let test = self.self_test().await;
        match test {
            Ok(test) if test.wrong.is_empty() => return Ok(()),
            _ => self.extras = None,
        }
        let wrong: Vec<_> = test?.wrong.into_iter().map(|(variant, how)| format!("{variant}: {how}")).collect();
        Err(Error::gpu(format!("this GPU or its driver computes penalties or log probabilities wrongly, leave them out: {}", wrong.join("; "))))
    }

    /// Their plan, once somebody has asked for one of them.
    pub fn extras(&self) -> Option<&Plan> {
        self.extras.as_ref().map(|(plan, _)| plan)
    }

    fn put_rotations(&self) -> Result<()> {
        for (i, rope) in self.model.config().ropes.iter().enumerate() {
            // Of a table that no layer reads there is no buffer.
            if let Some(id) = self.layout.find(&labels::rotations(i)) {
                self.write_at(id, 0, cast_slice(&rope.table(self.sizes.capacity, self.long)?))?;
            }
        }
        Ok(())
    }

    /// Whether texts of so many positions are rotated otherwise than short ones.
    pub fn is_long(&self, positions: u32) -> bool {
        self.model.config().original_context().is_some_and(|original| positions > original)
    }

    /// Rotates as in long texts, or as in short ones, from now on.
    pub(super) fn rotate_long(&mut self, long: bool) -> Result<()> {
        self.long = long;
        self.put_rotations()
    }

    fn encode(&self, plan: &Plan) -> Result<Vec<Encoded>> {
        plan.steps.iter().map(|step| self.encode_step(step)).collect()
    }

    pub(super) fn encode_step(&self, step: &Step) -> Result<Encoded> {
        let buffers: Vec<_> = step.bindings.iter().map(|(name, id)| (*name, self.buffers[id.0 as usize].clone())).collect();
        let need = match step.variant.kernel {
            "logit_stats" | "threshold" => Need::Temperature,
            "tally" | "narrow" => Need::Search,
            _ => Need::All,
        };
        Ok(Encoded { bound: self.gpu.bind(&step.name, step.variant, &step.overrides, &buffers)?, grid: step.grid, need })
    }

    /// Plans again, with what the selector has learnt; the buffers stay.
    pub(super) fn plan_again(&mut self) -> Result<()> {
        self.plans = build_plans(self.model.as_ref(), &mut self.layout, &self.select, self.sizes)?;
        self.encode_plans()
    }

    fn encode_plans(&mut self) -> Result<()> {
        self.prefill = self.encode(&self.plans[0])?;
        let decode = &self.plans[1];
        let tail = Plan { steps: decode.steps[decode.steps.len() - TAIL..].to_vec() };
        self.decode = self.encode(decode)?;
        self.tail = self.encode(&tail)?;
        if self.few.is_some() {
            self.few = Some([self.encode(&self.plans[2])?, self.encode(&self.plans[3])?]);
        }
        Ok(())
    }

    /// Whether short prompts and those of few rows have passes of their own.
    pub fn has_few(&self) -> bool {
        self.few.is_some()
    }

    /// Compiles short passes and those of few rows, which are used from then on: for idle time, as nothing needs them. They must pass the self-test.
    pub async fn prepare_few(&mut self) -> Result<()> {
        if self.few.is_some() {
            return Ok(());
        }
        self.few = Some([self.encode(&self.plans[2])?, self.encode(&self.plans[3])?]);
        let test = if self.self_tested { self.self_test().await } else { Ok(SelfTest::default()) };
        if !matches!(&test, Ok(test) if test.wrong.is_empty()) {
            self.few = None;
        }
        test.map(drop)
    }

    /// What is known of this device.
    pub fn known(&self) -> &Known {
        self.select.known()
    }

    /// Runs each chosen variant that has not passed before on known data: those whose result is wrong, and how.
    pub async fn self_test(&mut self) -> Result<SelfTest> {
        let started = now_ms();
        self.self_tested = true;
        let mut variants: Vec<&'static Variant> = Vec::new();
        let used = if self.few.is_some() { 4 } else { 2 };
        for step in self.plans[..used].iter().chain(self.extras()).flat_map(|p| &p.steps) {
            if !variants.contains(&step.variant) && !self.select.known().proven.contains(&step.variant.to_string()) {
                variants.push(step.variant);
            }
        }
        let wrong = if variants.is_empty() { Vec::new() } else { check::self_test(&self.gpu, &variants).await? };
        let good = variants.iter().filter(|v| wrong.iter().all(|(w, _)| w != *v));
        self.select.prove(good.map(ToString::to_string));
        Ok(SelfTest { checked: variants.len(), wrong, ms: now_ms() - started })
    }

    /// The device.
    pub fn gpu(&self) -> &Rc<Gpu> {
        &self.gpu
    }
    /// The model.
    pub fn model(&self) -> &dyn Model {
        self.model.as_ref()
    }
    /// The buffers.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// The plans of a prefill pass, of a decode step, and of prefill passes that are short and of few rows.
    pub fn plans(&self) -> &[Plan; 4] {
        &self.plans
    }
    /// What the plans are made for.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }
    /// Most positions that may be used.
    pub fn context(&self) -> u32 {
        self.context
    }
    /// Has no more than so many positions be used.
    pub(crate) fn limit_context(&mut self, context: u32) {
        self.context = self.context.min(context);
    }
    /// The lane.
    pub fn lane(&self) -> crate::plan::Lane {
        self.select.lane()
    }

    /// Writes into a buffer by id; ordered before the next submission.
    pub(super) fn write_at(&self, id: BufferId, offset: u64, bytes: &[u8]) -> Result<()> {
        let buffer = self.buffers.get(id.0 as usize).ok_or_else(|| Error::internal(format!("no buffer {}", id.0)))?;
        self.gpu.queue().write_buffer(buffer.raw(), offset, bytes);
        Ok(())
    }

    /// Where to load weights to.
    pub fn upload(&self) -> Result<Uploading<'_>> {
        Ok(Uploading { session: self, upload: Upload::new(self.gpu.clone())? })
    }

    pub(super) fn put(&self, label: &str, bytes: &[u8]) -> Result<()> {
        let id = self.layout.find(label).ok_or_else(|| Error::internal(format!("no buffer {label}")))?;
        self.write_at(id, 0, bytes)
    }

    pub(super) fn buffer_of(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    pub(super) fn buffer(&self, label: &str) -> Result<&Buffer> {
        let id = self.layout.find(label).ok_or_else(|| Error::internal(format!("no buffer {label}")))?;
        Ok(&self.buffers[id.0 as usize])
    }

    /// Makes room for `positions` positions: doubles the cache as often as needed and copies it on the GPU.
    pub fn ensure(&mut self, positions: u32) -> Result<()> {
        if positions <= self.sizes.capacity {
            return Ok(());
        }
        if positions > self.context {
            return Err(context_full(positions, self.context));
        }
        let mut capacity = self.sizes.capacity;
        while capacity < positions {
            capacity *= 2;
        }
        let capacity = capacity.min(self.context.next_multiple_of(64));
        // State too: the loop may be running.
        let keep: Vec<_> = self
            .layout
            .specs()
            .iter()
            .zip(&self.buffers)
            .filter(|(s, _)| matches!(s.role, Role::Cache | Role::State) || s.label == labels::LOGITS)
            .map(|(s, b)| (s.label.clone(), s.cache, b.clone()))
            .collect();
        self.lay_out(Sizes { capacity, ..self.sizes })?;
        let mut encoder = self.gpu.encoder("grow");
        for (label, cache, old) in &keep {
            let new = self.buffer(label)?;
            match cache {
                // Slots are positions as long as a part can grow.
                Some(shape) => copy_rows(&mut encoder, shape, shape.positions, (old, shape.positions), (new, self.shape(label)?.positions)),
                None => encoder.copy_buffer_to_buffer(old.raw(), 0, new.raw(), 0, old.bytes()),
            }
        }
        self.gpu.submit(encoder);
        Ok(())
    }

    fn shape(&self, label: &str) -> Result<CacheShape> {
        let spec = self.layout.specs().iter().find(|s| s.label == label);
        spec.and_then(|s| s.cache).ok_or_else(|| Error::internal(format!("no cache {label}")))
    }

    /// Runs every step of both plans once with the done flag set, so that kernels return at once: drivers that compile at first use do it now.
    pub async fn warm_up(&self) -> Result<()> {
        let done = State { done: 1, rows: 1, ..State::default() };
        self.put(labels::PREFILL, bytes_of(&done))?;
        self.put(labels::STATE, bytes_of(&done))?;
        let mut encoder = self.gpu.encoder("warm up");
        {
            let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in self.prefill.iter().chain(&self.decode) {
                self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(1));
            }
        }
        self.gpu.submit(encoder);
        self.gpu.idle().await
    }
}

/// The weights' way into a session's buffers.
pub struct Uploading<'a> {
    session: &'a Session,
    upload: Upload,
}

impl Sink for Uploading<'_> {
    fn write<'a>(&'a self, buffer: BufferId, offset: u64, bytes: &'a [u8]) -> LocalBoxFuture<'a, Result<()>> {
        Box::pin(async move { self.upload.write(self.session.buffer_of(buffer), offset, bytes).await })
    }
    fn finish(&self) -> LocalBoxFuture<'_, Result<()>> {
        Box::pin(self.upload.finish())
    }
}

/// Copies rows 0 to `n` of each head of a part of the cache between buffers, each with the positions that it holds.
pub(super) fn copy_rows(encoder: &mut wgpu::CommandEncoder, shape: &CacheShape, n: u32, (from, of): (&Buffer, u32), (to, room): (&Buffer, u32)) {
    for head in 0..u64::from(shape.heads) {
        let at = |positions: u32| head * u64::from(positions) * shape.row;
        encoder.copy_buffer_to_buffer(from.raw(), at(of), to.raw(), at(room), u64::from(n) * shape.row);
    }
}

pub(super) fn context_full(positions: u32, context: u32) -> Error {
    Error::new(
        ErrorKind::ContextFull,
        format!("{positions} positions do not fit into the context of {context}; shorten the prompt or load with a larger context"),
    )
}

/// Buffers that may be bound as uniforms.
const UNIFORM_BYTES: u64 = 65_536;

fn usage_of(spec: &BufferSpec) -> wgpu::BufferUsages {
    use wgpu::BufferUsages as U;
    match spec.role {
        // Norms of heads are uniforms.
        Role::Weight if spec.bytes <= UNIFORM_BYTES => U::STORAGE | U::UNIFORM | U::COPY_DST | U::COPY_SRC,
        Role::Weight => U::STORAGE | U::COPY_DST | U::COPY_SRC,
        Role::Cache | Role::Activation => U::STORAGE | U::COPY_DST | U::COPY_SRC,
        Role::State => U::STORAGE | U::UNIFORM | U::COPY_DST | U::COPY_SRC,
    }
}
