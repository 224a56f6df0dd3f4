//! A session's program: buffers, the plan of each pass over them, and the compiled steps of these plans.

use crate::base::CHECKED;
use crate::error::Result;
use crate::gpu::{Bound, Buffer, Encoder, Gpu};
use crate::kernels::State;
use crate::layout::{BufferId, BufferSpec, Layout, Role, Sizes};
use crate::model::Model;
use crate::plan::{Adapters, Asked, Builder, Grid, Pass, Plan, Plans, Selector, Stage, Step, hazards};

/// A step of a plan with its pipeline and bind group: recording it creates nothing.
pub(super) struct Encoded {
    pub(super) stage: Stage,
    pub(super) bound: Bound,
    pub(super) grid: Grid,
}

/// The steps of each pass; `None` where a pass is not compiled.
pub(super) type Compiled = [Option<Vec<Encoded>>; Pass::ALL.len()];

/// Buffers, plans and compiled steps for passes and states of certain sizes.
pub(super) struct Program {
    pub layout: Layout,
    /// The layout's buffers, by their ids.
    pub buffers: Vec<Buffer>,
    pub sizes: Sizes,
    /// Optional parts of the plans, which not every answer needs.
    pub asked: Asked,
    /// Plans of the model alone, and with its adapters, where there are any.
    pub plans: [Plans; 2],
    /// The compiled passes of both.
    pub compiled: [Compiled; 2],
}

impl Program {
    /// A program with the buffers of a layout's weights, without plans.
    pub fn unplanned(gpu: &Gpu, layout: Layout, sizes: Sizes) -> Result<Self> {
        let buffers = make_buffers(gpu, &layout, &[])?;
        Ok(Self {
            layout,
            buffers,
            sizes,
            asked: Asked::default(),
            plans: Default::default(),
            compiled: Default::default(),
        })
    }

    /// The passes that a replacement of this program has to compile: those that this one has compiled, prefill and
    /// decode. Of the plans with adapters none where `adapted` is false.
    pub fn passes(&self, adapted: bool) -> [Vec<Pass>; 2] {
        let of = |compiled: &Compiled| {
            let needed =
                |pass: &Pass| matches!(pass, Pass::Prefill | Pass::Decode) || compiled[*pass as usize].is_some();
            Pass::ALL.into_iter().filter(needed).collect()
        };
        [of(&self.compiled[0]), if adapted { of(&self.compiled[1]) } else { Vec::new() }]
    }

    /// The steps of every compiled pass, without adapters first.
    pub fn compiled_steps(&self) -> impl Iterator<Item = &Step> {
        let sides = self.plans.iter().zip(&self.compiled);
        sides.flat_map(|(plans, compiled)| {
            let there = Pass::ALL.into_iter().filter(|pass| compiled[*pass as usize].is_some());
            there.flat_map(|pass| &plans[pass].steps)
        })
    }

    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }
}

/// The layout's buffers: those of `there` that are long enough, and new ones for the rest.
pub(super) fn make_buffers(gpu: &Gpu, layout: &Layout, there: &[Buffer]) -> Result<Vec<Buffer>> {
    let specs = layout.specs().iter().enumerate();
    specs
        .map(|(id, spec)| {
            there
                .get(id)
                .filter(|buffer| buffer.bytes() >= spec.bytes)
                .map_or_else(|| make_buffer(gpu, spec), |buffer| Ok(buffer.clone()))
        })
        .collect()
}

/// A new buffer, zeroed.
pub(super) fn make_buffer(gpu: &Gpu, spec: &BufferSpec) -> Result<Buffer> {
    gpu.buffer(&spec.name.to_string(), spec.bytes, usage_of(spec))
}

/// Compiles these passes of plans, several pipelines at a time where the device can, and binds `buffers`.
pub(super) async fn compile(
    gpu: &Gpu,
    buffers: &[Buffer],
    plans: &[Plans; 2],
    passes: &[Vec<Pass>; 2],
) -> Result<[Compiled; 2]> {
    let steps = plans.iter().zip(passes).flat_map(|(plans, passes)| passes.iter().flat_map(|pass| &plans[*pass].steps));
    compile_ahead(gpu, steps).await;
    let mut compiled: [Compiled; 2] = Default::default();
    for ((plans, passes), compiled) in plans.iter().zip(passes).zip(&mut compiled) {
        for pass in passes {
            compiled[*pass as usize] = Some(encode(gpu, buffers, &plans[*pass].steps)?);
        }
    }
    Ok(compiled)
}

/// Compiles the pipelines of steps that are about to be encoded.
pub(super) async fn compile_ahead(gpu: &Gpu, steps: impl Iterator<Item = &Step>) {
    gpu.compile_ahead(steps.map(|step| (step.variant, &step.overrides[..]))).await;
}

/// Binds `buffers` to steps, and compiles their pipelines where they are not compiled yet.
pub(super) fn encode<'a>(
    gpu: &Gpu,
    buffers: &[Buffer],
    steps: impl IntoIterator<Item = &'a Step>,
) -> Result<Vec<Encoded>> {
    let encode = |step: &Step| {
        let bound: Vec<_> = step.bindings.iter().map(|(name, id)| (*name, buffers[id.0 as usize].clone())).collect();
        Ok(Encoded {
            stage: step.stage,
            bound: gpu.bind(&step.name, step.variant, &step.overrides, &bound)?,
            grid: step.grid,
        })
    };
    steps.into_iter().map(encode).collect()
}

/// Records the steps that have recurrent states take over what counts of the steps before, where there are any, behind
/// `first`; of the decode state `buffer` nothing is kept then, and the words of `and` are 0.
pub(super) fn settle(
    gpu: &Gpu,
    encoder: &mut Encoder,
    steps: &[Encoded],
    (first, rows): (Option<&Bound>, u32),
    (buffer, and): (&Buffer, &[usize]),
) {
    let settling = || steps.iter().filter(|step| step.stage == Stage::Settle);
    if settling().next().is_none() {
        return;
    }
    {
        let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        if let Some(first) = first {
            gpu.dispatch(&mut compute, first, [1, 1, 1]);
        }
        for step in settling() {
            gpu.dispatch(&mut compute, &step.bound, step.grid.at(rows));
        }
    }
    for at in [State::KEPT_AT].iter().chain(and) {
        encoder.clear_buffer(buffer.raw(), *at as u64, Some(4));
    }
}

/// A plan for each pass; adds the buffers that the plans need to the layout, after the weights.
pub fn build_plans(
    model: &dyn Model,
    layout: &mut Layout,
    select: &Selector,
    sizes: Sizes,
    asked: Asked,
) -> Result<Plans> {
    plans_with(model, layout, select, sizes, asked, None)
}

/// [`build_plans`] with the products of adapters, where there are any.
pub(super) fn plans_with(
    model: &dyn Model,
    layout: &mut Layout,
    select: &Selector,
    sizes: Sizes,
    asked: Asked,
    adapters: Option<&Adapters>,
) -> Result<Plans> {
    // The first plan that names a state reserves it, as large as a prefill pass needs.
    let mut plans = Vec::new();
    for pass in Pass::ALL {
        // A model that pools does not generate: it only needs prefill.
        plans.push(if model.config().pooling.is_some() && pass != Pass::Prefill {
            Plan::default()
        } else {
            build_plan(model, layout, select, sizes, pass, asked, adapters)?
        });
    }
    Ok(Plans::new(plans))
}

/// The plan of one pass.
pub(crate) fn build_plan(
    model: &dyn Model,
    layout: &mut Layout,
    select: &Selector,
    sizes: Sizes,
    pass: Pass,
    asked: Asked,
    adapters: Option<&Adapters>,
) -> Result<Plan> {
    let mut b = Builder::new(layout, select, sizes, pass).adapted(adapters);
    if asked.rows {
        b = b.with_rows(model.config().deepstack);
    }
    if asked.drafts {
        b = b.as_drafter();
    }
    if pass.is_step_of_rows() {
        b.draft()?;
    }
    model.layers(&mut b)?;
    let logits = model.head(&mut b)?;
    if pass == Pass::Decode || pass.is_step_of_rows() {
        b.sample(logits, (model.config().vocab, model.config().drawn), asked)?;
    }
    let plan = b.finish();
    assert!(!CHECKED || hazards(&plan, layout).is_empty(), "{pass:?}: {:?}", hazards(&plan, layout));
    Ok(plan)
}

/// Buffers that may be bound as uniforms.
const UNIFORM_BYTES: u64 = 65_536;

fn usage_of(spec: &BufferSpec) -> wgpu::BufferUsages {
    use wgpu::BufferUsages as U;
    match spec.role() {
        // Norms of heads are uniforms.
        Role::Weight if spec.bytes <= UNIFORM_BYTES => U::STORAGE | U::UNIFORM | U::COPY_DST | U::COPY_SRC,
        Role::Weight => U::STORAGE | U::COPY_DST | U::COPY_SRC,
        Role::State | Role::Scratch => U::STORAGE | U::COPY_DST | U::COPY_SRC,
        Role::Control => U::STORAGE | U::UNIFORM | U::COPY_DST | U::COPY_SRC,
    }
}
