//! The session: a model's GPU memory and its compiled plans.

mod growth;

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytemuck::{bytes_of, cast_slice};
use futures_util::future::LocalBoxFuture;

use crate::base::numbers::FEW_ROWS;
use crate::base::{Cancel, now_ms};
use crate::check;
use crate::error::{Error, ErrorKind, Result};
use crate::gpu::{Buffer, Gpu, Upload};
use crate::grammar::{Constraint, Grammar, Vocabulary, WALK_WORDS};
use crate::kernels::{State, Variant};
use crate::layout::{BufferId, Control, Layout, Name, Sizes};
use crate::model::{Model, PictureAttention, Pooling};
use crate::plan::tuning::{Known, LaneChoice};
use crate::plan::{Adapters, Asked, GrammarRoom, Pass, Plans, Selector, Step};
use crate::source::Files;
use crate::state::{Saved, SequenceId, Settings, States};
use crate::store::Writer;
use crate::weights::Sink;
pub(crate) use growth::most_beside;
#[cfg(feature = "lab")]
pub use growth::move_in_stages_of;

use super::adapters::{Loaded, Voices};
use super::chunk::MOST;
use super::drafter::Drafter;
use super::needs::MOST_ROW;
use super::program::{
    Compiled, Encoded, Program, build_plans, compile, compile_ahead, encode, make_buffer, make_buffers, plans_with,
};
use super::speculate::StepTimes;

/// Staging buffers: one for each readback in flight, and one to spare.
const STAGING: usize = 3;
/// The first size of a grammar's buffer, in words: half of all published schemas need less.
const LEAST_AUTOMATON: usize = 1 << 14;

/// What of grammars is in the GPU's memory.
#[derive(Default)]
struct Resident {
    /// The grammars, and the word of their buffer at which each begins.
    grammars: Vec<(Rc<Grammar>, u32)>,
    vocabulary: Option<Rc<Vocabulary>>,
}

impl Resident {
    /// Whether this vocabulary is resident.
    fn has_vocabulary(&self, vocabulary: &Rc<Vocabulary>) -> bool {
        self.vocabulary.as_ref().is_some_and(|there| Rc::ptr_eq(there, vocabulary))
    }

    /// Where a grammar begins; `None` where it is not resident.
    fn begin(&self, grammar: &Rc<Grammar>) -> Option<u32> {
        self.grammars.iter().find(|(there, _)| Rc::ptr_eq(there, grammar)).map(|(_, begin)| *begin)
    }
}

/// The words of the grammars' buffer, and at which of them each grammar begins: behind a word for each row of a step.
fn packed<'a>(grammars: impl Iterator<Item = &'a Rc<Grammar>>) -> (Vec<u32>, Vec<(Rc<Grammar>, u32)>) {
    let mut words = vec![0; FEW_ROWS as usize];
    let mut begins: Vec<(Rc<Grammar>, u32)> = Vec::new();
    for grammar in grammars {
        if begins.iter().all(|(there, _)| !Rc::ptr_eq(there, grammar)) {
            begins.push((grammar.clone(), words.len() as u32));
            words.extend(grammar.words());
        }
    }
    (words, begins)
}

/// Weights, states, activations and the compiled plans of one loaded model.
pub struct Session {
    pub(super) gpu: Rc<Gpu>,
    model: Box<dyn Model>,
    pub(super) select: Selector,
    program: Program,
    /// Number of the layout's buffers that are weights, of adapters too; they survive growth.
    weights: usize,
    /// Number of the layout's buffers that are the model's own weights.
    own_weights: usize,
    /// Most positions that may be used.
    context: u32,
    /// Most positions where the GPU has memory for them.
    full_context: u32,
    pub(super) adapters: Loaded,
    /// Whether the plans with adapters run now.
    adapted: bool,
    /// The grammars and the vocabulary in the GPU's memory.
    resident: Resident,
    /// A number that changes whenever plans or compiled passes do; no two sessions have the same one.
    edition: u32,
    /// Buffers that chunks of tokens are read back through.
    pub(super) staging: Vec<Buffer>,
    /// Staging buffers of four bytes, whose readbacks tell when passes of prefill have run.
    pub(super) fences: [Buffer; 2],
    /// Whether variants must pass the self-test before they are used.
    pub(super) self_tested: bool,
    /// Milliseconds of a token, for the next generation's chunks.
    pub(super) ms_a_token: Option<f64>,
    /// Milliseconds of a step of several sequences.
    pub(super) ms_a_step: Option<f64>,
    /// The sequences with their tokens and caches.
    pub(super) states: States,
    /// Whether the tables of rotations are those for texts longer than the model's original context.
    pub(super) long: bool,
    /// The draft model, where there is one.
    pub(super) drafter: Option<Box<Drafter>>,
    /// Whether steps of several rows cost less than the steps of each; `None`: by lane and device.
    pub(crate) rows_pay: Option<bool>,
    /// Times of steps of one sequence, for the next generation's drafts.
    pub(super) step_times: StepTimes,
    /// Rows of the widest passes over texts that are read whole; 0 where passes are not widened.
    widest: u32,
    /// Of a tower: the position embeddings that the GPU has, and the [`Session::edition`] with their buffer.
    pub(super) placed: Option<(u32, Rc<[f32]>)>,
    /// Of a tower: milliseconds of a patch, by the last tile.
    pub(super) ms_a_patch: Option<f64>,
}

/// The result of a self-test.
#[derive(Default)]
pub struct SelfTest {
    /// Variants that ran; the others of the plans have passed on this device before.
    pub checked: usize,
    /// Variants whose result is wrong, with the difference.
    pub wrong: Vec<(&'static Variant, String)>,
    /// The time of the self-test, ms.
    pub ms: f64,
}

/// A number that no session's plans have had yet.
fn next_edition() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Session {
    /// The first sizes of plans: passes of `rows` rows, states of `start` positions, both at most `context`, and
    /// `slots` sequences.
    pub(crate) fn sizes_of(rows: u32, context: u32, start: u32, slots: u32) -> Sizes {
        Sizes { rows: rows.min(context), capacity: start.min(context).next_multiple_of(64), slots, ring: MOST }
    }

    /// Makes buffers and plans. `layout` holds the weights' buffers already; `context` is the most positions that will
    /// be used, `sizes` the first sizes: states grow by doubling.
    pub async fn new(
        gpu: Rc<Gpu>,
        model: Box<dyn Model>,
        layout: Layout,
        select: Selector,
        context: u32,
        sizes: Sizes,
    ) -> Result<Self> {
        let weights = layout.specs().len();
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let staging =
            (0..STAGING).map(|_| gpu.buffer("staging", u64::from(MOST) * MOST_ROW, usage)).collect::<Result<_>>()?;
        let fence = || gpu.buffer("fence", 4, usage);
        let mut session = Self {
            fences: [fence()?, fence()?],
            states: States::new(gpu.clone(), sizes.slots),
            program: Program::unplanned(&gpu, layout, sizes)?,
            gpu,
            model,
            select,
            weights,
            own_weights: weights,
            context,
            full_context: context,
            adapters: Loaded::default(),
            adapted: false,
            resident: Resident::default(),
            edition: 0,
            staging,
            self_tested: false,
            ms_a_token: None,
            ms_a_step: None,
            long: false,
            drafter: None,
            rows_pay: None,
            step_times: StepTimes::default(),
            widest: 0,
            placed: None,
            ms_a_patch: None,
        };
        session.lay_out(sizes).await?;
        session.select.finish()?;
        Ok(session)
    }

    /// Plans for `sizes`, makes the buffers that are not weights, compiles and binds. A failure changes nothing.
    async fn lay_out(&mut self, sizes: Sizes) -> Result<()> {
        let program = self.lay(self.weights, sizes, self.program.asked).await?;
        self.move_to(program)
    }

    /// Switches to another program, to whose buffers all states are copied.
    fn move_to(&mut self, program: Program) -> Result<()> {
        self.adopt(program);
        self.put_rotations()?;
        self.states.attach(&self.program.layout, |id| self.program.buffer(id));
        Ok(())
    }

    /// Plans again, with the existing buffers. A failure changes nothing.
    pub(super) async fn plan_again(&mut self) -> Result<()> {
        let program = self.lay(self.program.buffers.len(), self.program.sizes, self.program.asked).await?;
        self.adopt(program);
        Ok(())
    }

    /// A new program with the first `kept` of the existing buffers: plans, new buffers for the rest, and the passes
    /// that are compiled now, at least prefill and decode. The session keeps its own program.
    async fn lay(&self, kept: usize, sizes: Sizes, asked: Asked) -> Result<Program> {
        let (layout, plans) = self.planned(kept, sizes, asked)?;
        let buffers = make_buffers(&self.gpu, &layout, &self.program.buffers[..kept])?;
        let compiled = compile(&self.gpu, &buffers, &plans, &self.passes()).await?;
        Ok(Program { layout, buffers, sizes, asked, plans, compiled })
    }

    /// [`Session::lay`], with a wait for the GPU's late report of insufficient memory.
    async fn lay_where_there_is_room(&self, kept: usize, sizes: Sizes, asked: Asked) -> Result<Program> {
        let allocation = self.gpu.allocate();
        let program = self.lay(kept, sizes, asked).await;
        allocation.end(&self.gpu).await?;
        program
    }

    fn adopt(&mut self, program: Program) {
        self.edition = next_edition();
        self.program = program;
    }

    /// The layout's first `kept` buffers, followed by those that plans need; the plans, without adapters and with them.
    fn planned(&self, kept: usize, sizes: Sizes, asked: Asked) -> Result<(Layout, [Plans; 2])> {
        let mut layout = self.program.layout.clone();
        layout.truncate(kept);
        let plans = build_plans(self.model.as_ref(), &mut layout, &self.select, sizes, asked)?;
        let adapters = self.adapters.plan.as_ref();
        let adapted = match adapters {
            Some(_) => plans_with(self.model.as_ref(), &mut layout, &self.select, sizes, asked, adapters)?,
            None => Plans::default(),
        };
        Ok((layout, [plans, adapted]))
    }

    /// The passes that a replacement of the program has to compile.
    fn passes(&self) -> [Vec<Pass>; 2] {
        self.program.passes(self.adapters.plan.is_some())
    }

    /// Adds optional parts to the plans, if they are missing, compiles them, and self-tests them where the other
    /// kernels were tested.
    async fn prepare(&mut self, asked: Asked, what: &str) -> Result<()> {
        let before = self.program.asked;
        if before == asked {
            return Ok(());
        }
        let program = self.lay_where_there_is_room(self.program.buffers.len(), self.program.sizes, asked).await?;
        self.adopt(program);
        if before.grammar != asked.grammar {
            self.resident = Resident::default();
        }
        if !self.self_tested {
            return Ok(());
        }
        let test = self.self_test().await;
        match test {
            Ok(test) if test.wrong.is_empty() => return Ok(()),
            _ => {
                self.program.asked = before;
                self.resident = Resident::default();
                self.plan_again().await?;
            }
        }
        let wrong: Vec<_> = test?.wrong.into_iter().map(|(variant, how)| format!("{variant}: {how}")).collect();
        Err(Error::gpu(format!("this GPU or its driver computes {what} wrongly, leave them out: {}", wrong.join("; "))))
    }

    /// Prepares penalties, bias and log probabilities.
    pub(super) async fn prepare_extras(&mut self) -> Result<()> {
        self.prepare(Asked { extras: true, ..self.program.asked }, "penalties or log probabilities").await
    }

    /// Sets how rows of one picture attend to each other, where the model's own file did not say: before any prompt has
    /// rows.
    pub(crate) fn set_picture_attention(&mut self, attention: PictureAttention) {
        self.model.config_mut().picture_attention = attention;
    }

    /// Prepares prompts with rows in place of tokens.
    pub(super) async fn prepare_rows(&mut self) -> Result<()> {
        self.prepare(Asked { rows: true, ..self.program.asked }, "rows in place of tokens").await
    }

    /// Prepares steps as a draft model.
    pub(super) async fn prepare_drafting(&mut self) -> Result<()> {
        self.prepare(Asked { drafts: true, ..self.program.asked }, "steps of a draft model").await
    }

    /// Prepares the grammars of answers that take steps together, and writes them and the vocabulary into the GPU's
    /// memory where they are not resident. The grammars' buffer grows by doubling.
    pub(super) async fn prepare_grammars(&mut self, constraints: &[&Constraint]) -> Result<()> {
        let Some(vocabulary) = constraints.first().map(|it| it.vocabulary()) else { return Ok(()) };
        if self.resident.has_vocabulary(vocabulary)
            && constraints.iter().all(|it| self.resident.begin(it.grammar()).is_some())
        {
            return Ok(());
        }
        let (words, grammars) = packed(constraints.iter().map(|it| it.grammar()));
        let room = self.program.asked.grammar.map_or(LEAST_AUTOMATON, |room| room.automaton);
        let room = GrammarRoom {
            automaton: room.max(words.len().next_power_of_two()),
            token_bytes: vocabulary.bytes.len().max(1),
        };
        self.prepare(Asked { grammar: Some(room), ..self.program.asked }, "grammars").await?;
        if !self.resident.has_vocabulary(vocabulary) {
            self.put(Control::Vocabulary, cast_slice(&vocabulary.heads))?;
            self.put(Control::TokenBytes, cast_slice(&vocabulary.bytes))?;
        }
        self.put(Control::Automaton, cast_slice(&words))?;
        self.resident = Resident { grammars, vocabulary: Some(vocabulary.clone()) };
        Ok(())
    }

    /// Writes where the steps' rows stand in their grammars, which are resident: `None` for a row without one.
    pub(super) fn put_walks<'a>(&self, rows: impl Iterator<Item = Option<&'a Constraint>>) -> Result<()> {
        let mut begins = [0_u32; FEW_ROWS as usize];
        for (row, (constraint, begin)) in rows.zip(&mut begins).enumerate() {
            let Some(constraint) = constraint else { continue };
            let there = self.resident.begin(constraint.grammar());
            *begin = there.ok_or_else(|| Error::internal("a grammar that is not in the GPU's memory"))?;
            let words = constraint.words();
            self.write_at(self.id_of(Control::Walk)?, (4 * row * WALK_WORDS) as u64, cast_slice(&words))?;
        }
        self.put(Control::Automaton, cast_slice(&begins))
    }

    fn put_rotations(&self) -> Result<()> {
        for (i, rope) in self.model.config().ropes.iter().enumerate() {
            // A table that no layer reads has no buffer.
            if let Some(id) = self.program.layout.find(&Name::Rotations(i)) {
                self.write_at(id, 0, cast_slice(&rope.table(self.program.sizes.capacity, self.long)?))?;
            }
        }
        Ok(())
    }

    /// Whether texts of `positions` positions have other rotations than short texts.
    pub fn is_long(&self, positions: u32) -> bool {
        self.model.config().original_context().is_some_and(|original| positions > original)
    }

    /// Sets the rotations of long texts, or of short ones.
    pub(super) fn rotate_long(&mut self, long: bool) -> Result<()> {
        if self.long == long {
            return Ok(());
        }
        self.long = long;
        self.put_rotations()
    }

    /// Gives a sequence its slot, and sets its adapter and rotations.
    pub(super) async fn enter(&mut self, sequence: SequenceId) -> Result<u32> {
        self.ensure(self.states.history(sequence)?.len() as u32).await?;
        let outside = self.states.slot_of(sequence).is_err();
        let slot = self.states.enter(sequence)?;
        // The slot may have been another sequence's, whose copy takes memory now.
        if outside {
            self.evict_for(self.program.sizes.capacity);
        }
        self.voice_of(&[sequence])?;
        self.rotate_long(self.states.is_long(sequence)?)?;
        Ok(slot as u32)
    }

    /// The steps of a compiled pass; none of one that is not compiled.
    pub(super) fn steps(&self, pass: Pass) -> &[Encoded] {
        self.compiled()[pass as usize].as_deref().unwrap_or_default()
    }

    /// An internal error where a pass that is about to run is not compiled.
    pub(super) fn must_have(&self, pass: Pass) -> Result<()> {
        if self.steps(pass).is_empty() {
            Err(Error::internal(format!("the pass {} is not compiled", pass.name())))
        } else {
            Ok(())
        }
    }

    /// Whether a pass is compiled.
    pub fn has(&self, pass: Pass) -> bool {
        self.compiled()[pass as usize].is_some()
    }

    /// The compiled passes in use: with adapters, or without.
    fn compiled(&self) -> &Compiled {
        &self.program.compiled[usize::from(self.adapted)]
    }

    fn compiled_mut(&mut self) -> &mut Compiled {
        &mut self.program.compiled[usize::from(self.adapted)]
    }

    /// Drops the adapters with their plans, compiled passes and buffers in the layout, which follow the model's
    /// weights.
    pub(super) fn forget_adapters(&mut self) {
        self.adapters = Loaded::default();
        self.adapted = false;
        (self.program.plans[1], self.program.compiled[1]) = Default::default();
        self.program.layout.truncate(self.own_weights);
        self.weights = self.own_weights;
    }

    /// Reserves buffers of adapters for a matrix: A, B, and the places of rows in them.
    pub(super) fn reserve_adapter(&mut self, matrix: &str, bytes: [u64; 3]) -> [BufferId; 3] {
        let mut room = |what: &str, bytes| self.program.layout.weight(format!("{matrix}.lora_{what}"), bytes);
        let [a, b, at] = bytes;
        let reserved = [room("a", a), room("b", b), room("at", at)];
        self.weights = self.program.layout.specs().len();
        reserved
    }

    /// Makes the adapters' buffers, and plans with these adapters beside the plans without.
    pub(super) async fn adopt_adapters(&mut self, adapters: Loaded) -> Result<()> {
        self.adapters = adapters;
        self.program.buffers.truncate(self.own_weights);
        for spec in &self.program.layout.specs()[self.own_weights..self.weights] {
            self.program.buffers.push(make_buffer(&self.gpu, spec)?);
        }
        self.lay_out(self.program.sizes).await
    }

    /// Self-tests the kernels of adapters, where the other kernels were tested.
    pub(super) async fn test_adapters(&mut self) -> Result<()> {
        if !self.self_tested || self.adapters.plan.is_none() {
            return Ok(());
        }
        let wrong: Vec<_> =
            self.self_test().await?.wrong.into_iter().map(|(variant, how)| format!("{variant}: {how}")).collect();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Error::gpu(format!("this GPU or its driver computes adapters wrongly: {}", wrong.join("; "))))
        }
    }

    /// Sets the adapters of rows.
    pub(super) fn speak(&mut self, voices: Voices) -> Result<()> {
        let adapted = voices.iter().any(|row| row[0] != 0);
        if self.adapted != adapted {
            (self.adapted, self.edition) = (adapted, next_edition());
        }
        if adapted { self.put(Control::Voices, cast_slice(&voices)) } else { Ok(()) }
    }

    /// A number that changes whenever plans or compiled passes do.
    pub fn edition(&self) -> u32 {
        self.edition
    }

    /// Compiles short passes and passes of few rows, which are used from then on: optional, for idle time. They must
    /// pass the self-test.
    pub async fn prepare_few(&mut self) -> Result<()> {
        self.prepare_passes(&[Pass::Short, Pass::Few]).await
    }

    /// Compiles steps of several rows, where the model has them.
    pub(super) async fn prepare_steps(&mut self) -> Result<()> {
        self.prepare_passes(&Pass::STEPS).await
    }

    /// Compiles passes that are not compiled yet; those that fail the self-test are dropped.
    pub(super) async fn prepare_passes(&mut self, passes: &[Pass]) -> Result<()> {
        let later: Vec<Pass> =
            passes.iter().copied().filter(|pass| !self.has(*pass) && !self.plans()[*pass].steps.is_empty()).collect();
        if later.is_empty() {
            return Ok(());
        }
        compile_ahead(&self.gpu, later.iter().flat_map(|pass| &self.plans()[*pass].steps)).await;
        self.edition = next_edition();
        for pass in &later {
            let encoded = encode(&self.gpu, &self.program.buffers, &self.plans()[*pass].steps)?;
            self.compiled_mut()[*pass as usize] = Some(encoded);
        }
        let test = if self.self_tested { self.self_test().await } else { Ok(SelfTest::default()) };
        if !matches!(&test, Ok(test) if test.wrong.is_empty()) {
            later.iter().for_each(|pass| self.compiled_mut()[*pass as usize] = None);
        }
        test.map(drop)
    }

    /// Whether steps may have a token and its drafts: the passes are compiled.
    pub(super) fn speculates(&self) -> bool {
        Pass::STEPS.iter().all(|pass| !self.steps(*pass).is_empty())
    }

    /// Measurements and self-tests of this device.
    pub fn known(&self) -> &Known {
        self.select.known()
    }

    /// Runs each chosen variant that has not passed before on known data.
    pub async fn self_test(&mut self) -> Result<SelfTest> {
        let started = now_ms();
        self.self_tested = true;
        let blocks = |step: &Step| step.overrides.iter().find(|o| o.0 == "KB").map_or(0, |o| o.1 as u32);
        // A row longer than any that has passed is tested again.
        let name = |step: &Step| format!("{} KB={}", step.variant, blocks(step));
        let mut steps: Vec<&Step> = Vec::new();
        for step in self.program.compiled_steps() {
            match steps.iter_mut().find(|other| other.variant == step.variant) {
                Some(other) if blocks(other) >= blocks(step) => {}
                Some(other) => *other = step,
                None => steps.push(step),
            }
        }
        steps.retain(|step| !self.select.known().proven.contains(&name(step)));
        let variants: Vec<check::Tried<'_>> = steps.iter().map(|step| (step.variant, &step.overrides[..])).collect();
        let wrong = if variants.is_empty() { Vec::new() } else { check::self_test(&self.gpu, &variants).await? };
        let good: Vec<String> =
            steps.iter().filter(|s| wrong.iter().all(|(w, _)| *w != s.variant)).map(|step| name(step)).collect();
        let checked = variants.len();
        self.select.prove(good.into_iter());
        Ok(SelfTest { checked, wrong, ms: now_ms() - started })
    }

    /// Whether the model generates text; other models pool each text into one row.
    pub fn writes(&self) -> bool {
        self.model.config().pooling.is_none()
    }

    /// An error where the model does not generate text.
    pub(crate) fn must_write(&self, what: &str) -> Result<()> {
        let (does, call) = match self.model.config().pooling {
            None => return Ok(()),
            Some(Pooling::Rank) => ("judges documents", "rerank"),
            Some(_) => ("makes embeddings", "embed"),
        };
        Err(Error::unsupported(format!(
            "{what}: this model {does} and does not write: call {call}, load a model that writes, or this one with pooling \"none\" where it has a head"
        )))
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
        &self.program.layout
    }
    /// The plans in use: with adapters, or without.
    pub fn plans(&self) -> &Plans {
        &self.program.plans[usize::from(self.adapted)]
    }
    /// The adapters of the plans in use.
    pub(super) fn adapters_now(&self) -> Option<&Adapters> {
        self.adapters.plan.as_ref().filter(|_| self.adapted)
    }
    /// The sequences with their tokens and caches.
    pub fn states(&self) -> &States {
        &self.states
    }
    /// The sequences, to fork and release them.
    pub fn states_mut(&mut self) -> &mut States {
        &mut self.states
    }
    /// Saves a conversation, with the model's fingerprint `model`. A lost state is rebuilt first.
    pub async fn save(
        &mut self,
        sequence: SequenceId,
        model: &str,
        writer: &mut Writer,
        cancel: &Cancel,
    ) -> Result<()> {
        let tokens = self.states.history(sequence)?.len();
        self.rebuild(sequence, tokens, cancel).await?;
        self.states.save(sequence, self.settings(model), writer, cancel).await
    }

    /// Restores a saved conversation.
    pub async fn restore(&mut self, model: &str, files: &Files) -> Result<SequenceId> {
        let saved = Saved::read(files, &self.settings(model), self.model().config().vocab as u32).await?;
        self.ensure(saved.tokens().max(1)).await?;
        self.states.restore(saved, files, self.program.sizes.rows).await
    }

    fn settings(&self, model: &str) -> Settings {
        Settings { model: model.to_owned(), lane: self.lane(), kv: self.select.kv() }
    }

    /// The optional parts of the plans.
    pub(super) fn asked(&self) -> Asked {
        self.program.asked
    }
    /// The sizes that the plans are made for.
    pub fn sizes(&self) -> Sizes {
        self.program.sizes
    }
    /// Most positions that may be used.
    pub fn context(&self) -> u32 {
        self.context
    }
    /// Lowers the most positions that may be used.
    pub(crate) fn limit_context(&mut self, context: u32) {
        self.context = self.context.min(context);
    }
    /// Raises the most positions to what they were, where memory has been freed.
    pub(crate) fn lift_limit(&mut self) {
        self.context = self.full_context;
    }
    /// Warnings for users about recommendations of the model that could not be followed.
    pub fn warnings(&self) -> &[String] {
        self.select.warnings()
    }
    /// The lane.
    pub fn lane(&self) -> crate::plan::Lane {
        self.select.lane()
    }

    /// Why this lane, where the caller gave none.
    pub fn lane_choice(&self) -> Option<&LaneChoice> {
        self.select.lane_choice()
    }

    /// Writes into a buffer by id; ordered before the next submission.
    pub(super) fn write_at(&self, id: BufferId, offset: u64, bytes: &[u8]) -> Result<()> {
        let buffer =
            self.program.buffers.get(id.0 as usize).ok_or_else(|| Error::internal(format!("no buffer {}", id.0)))?;
        self.gpu.write(buffer, offset, bytes);
        Ok(())
    }

    /// An upload of weights into the session's buffers.
    pub fn upload(&self) -> Result<Uploading<'_>> {
        Ok(Uploading { session: self, upload: Upload::new(self.gpu.clone())? })
    }

    pub(super) fn put(&self, control: Control, bytes: &[u8]) -> Result<()> {
        self.write_at(self.id_of(control)?, 0, bytes)
    }

    pub(super) fn id_of(&self, name: impl Into<Name>) -> Result<BufferId> {
        let name = name.into();
        self.program.layout.find(&name).ok_or_else(|| Error::internal(format!("no buffer {name}")))
    }

    /// The layout's buffers, by their ids.
    pub(super) fn buffers(&self) -> &[Buffer] {
        &self.program.buffers
    }

    pub(super) fn buffer_of(&self, id: BufferId) -> &Buffer {
        self.program.buffer(id)
    }

    pub(super) fn buffer(&self, name: impl Into<Name>) -> Result<&Buffer> {
        Ok(self.buffer_of(self.id_of(name)?))
    }

    /// Widens passes for texts of `rows` positions that are read whole, for which the states have room.
    pub(super) async fn widen(&mut self, rows: u32) -> Result<()> {
        let rows = rows.next_multiple_of(512).min(self.program.sizes.capacity).min(self.context);
        let program = self
            .lay_where_there_is_room(self.weights, Sizes { rows, ..self.program.sizes }, self.program.asked)
            .await?;
        self.move_to(program)
    }

    /// Rows of the widest passes over texts that are read whole; 0 where passes are not widened.
    pub(super) fn widest(&self) -> u32 {
        self.widest
    }

    /// Lets passes over many texts have up to `rows` rows, where shorter ones are no work for the GPU.
    pub(crate) fn widen_up_to(&mut self, rows: u32) {
        self.widest = rows;
    }

    /// Widens passes as far as they may be, and the states with them. Where the GPU has no memory for that, passes stay
    /// as they are from now on.
    pub(super) async fn widen_most(&mut self) -> Result<()> {
        let Sizes { capacity, .. } = self.program.sizes;
        let sizes =
            Sizes { rows: self.widest, capacity: capacity.max(self.widest.next_multiple_of(64)), ..self.program.sizes };
        match self.lay_where_there_is_room(self.weights, sizes, self.program.asked).await {
            Ok(program) => self.move_to(program),
            Err(e) if e.kind() == ErrorKind::OutOfMemory => {
                self.widest = 0;
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Runs every step of prefill and decode once with the done flag set, so that kernels return at once: drivers that
    /// compile at first use do it now.
    pub async fn warm_up(&self) -> Result<()> {
        let done = State { done: 1, rows: 1, ..State::default() };
        self.put(Control::Prefill, bytes_of(&done))?;
        self.put_last(done)?;
        if self.writes() {
            self.put(Control::Decode, bytes_of(&done))?;
        }
        let mut encoder = self.gpu.encoder("warm up");
        {
            let mut compute = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            for step in self.program.compiled.iter().flatten().flatten().flatten() {
                self.gpu.dispatch(&mut compute, &step.bound, step.grid.at(1));
            }
        }
        self.gpu.submit(encoder);
        self.gpu.idle().await
    }
}

/// An upload of weights into a session's buffers.
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

pub(super) fn context_full(positions: u32, context: u32) -> Error {
    Error::new(
        ErrorKind::ContextFull,
        format!(
            "{positions} positions do not fit into the context of {context}; shorten the prompt or load with a larger context"
        ),
    )
}
