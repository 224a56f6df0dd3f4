//! A draft model: a smaller model of the same vocabulary on the same device. Before a step of several rows it takes as
//! many steps of its own as the step reads drafts, from the token that the step reads first on, and another that only
//! fills its cache behind the last draft: however many drafts are accepted, its cache holds the text so far. Kernels
//! hand tokens over between the two models, and nothing is read back in between.

use bytemuck::{bytes_of, cast_slice};

use super::chunk::MOST;
use super::prefill::Fence;
use super::program::{Encoded, settle};
use super::session::Session;
use crate::base::Cancel;
use crate::base::numbers::FEW_ROWS;
use crate::check;
use crate::error::{Error, Result};
use crate::gpu::{Bound, Buffer, ComputePass, Encoder, Gpu};
use crate::kernels::{self, State, Variant};
use crate::layout::Control;
use crate::plan::{Pass, Stage};
use crate::sample::SamplingOptions;
use crate::state::{Input, SequenceId};

/// Numbers of drafts that steps can have of a draft model.
pub const DRAFTS: [u32; 3] = [3, 5, 7];
/// The most of them.
const MOST_DRAFTS: u32 = FEW_ROWS - 1;
/// Texts that a draft model keeps for later prompts that begin as they do.
const KEPT: usize = 4;

/// A draft model with its device memory, and how far it has followed the model's text.
pub(super) struct Drafter {
    session: Session,
    /// Its sequences, each with a text that it has read.
    texts: Vec<SequenceId>,
    /// The sequence that follows the model's text, where one does.
    following: Option<SequenceId>,
    /// The last pass over the text, which may still run.
    reading: Option<Fence>,
    joints: Option<Joints>,
    /// The number of drafts of steps that always have some: one of [`DRAFTS`].
    always: u32,
}

/// The kernels between the two models, bound to their buffers.
struct Joints {
    /// The editions of both sessions that the buffers are of.
    editions: [u32; 2],
    begin: Bound,
    /// For each of [`DRAFTS`].
    end: [Bound; DRAFTS.len()],
}

fn begins() -> Result<&'static Variant> {
    kernels::find("drafter_begin", &[])
}

fn ends() -> Result<&'static Variant> {
    kernels::find("drafter_end", &[])
}

impl Drafter {
    /// Makes a draft model of a session that has its weights.
    fn new(session: Session) -> Result<Self> {
        let greedy = SamplingOptions { temperature: 0.0, ..SamplingOptions::default() }.parameters(&[], MOST)?;
        session.put(Control::Sampling, cast_slice(&[greedy]))?;
        Ok(Self { session, texts: Vec::new(), following: None, reading: None, joints: None, always: MOST_DRAFTS })
    }

    /// The sequence for a text: the one that shares most with it, if that is most of either, else a new one, or the
    /// least recently used.
    fn sequence_for(&mut self, text: &Input) -> Result<SequenceId> {
        let states = &mut self.session.states;
        let shares = |id: &SequenceId| {
            let held = states.history(*id).ok()?;
            let shared = held.input().common(text);
            (2 * shared >= held.len().min(text.len())).then_some(shared)
        };
        let best = self.texts.iter().copied().filter(|id| shares(id).is_some()).max_by_key(shares);
        let oldest = self.texts.iter().copied().min_by_key(|id| states.used(*id));
        if let Some(id) = best.or(oldest.filter(|_| self.texts.len() >= KEPT)) {
            return Ok(id);
        }
        let id = states.begin_another();
        states.set_evictable(id, true)?;
        self.texts.push(id);
        Ok(id)
    }

    /// Reads `text`, which the model has read, as far as the draft model has not, without a wait for the last pass.
    async fn follow(&mut self, text: &[u32], cancel: &Cancel) -> Result<()> {
        let input = Input::from(text.to_vec());
        let sequence = self.sequence_for(&input)?;
        let Self { session, .. } = self;
        let rotated_alike = session.is_long(text.len() as u32) == session.states.is_long(sequence)?;
        let common = session.states.history(sequence)?.input().common(&input);
        let known = session.states.trim(sequence, if rotated_alike { common as u32 } else { 0 })?;
        session.rebuild(sequence, known as usize, cancel).await?;
        session.enter(sequence).await?;
        if known < text.len() as u32 {
            let unread = input.slice(known as usize..text.len());
            let last = session.begin_prefill(sequence, &unread, known, cancel, &mut |_| ()).await?;
            self.reading = Some(last);
        } else {
            session.states.cut(sequence, known)?;
        }
        let slot = session.states.slot_of(sequence)? as u32;
        // `drafter_begin` sets the rest before each step of the model.
        session.put(Control::Decode, bytes_of(&State { slot, rows: 1, limit: u32::MAX, ..State::default() }))?;
        self.following = Some(sequence);
        Ok(())
    }

    /// Binds the kernels between the two models, where either has other buffers than before.
    fn join(&mut self, model: &Session) -> Result<()> {
        let editions = [model.edition(), self.session.edition()];
        if self.joints.as_ref().is_some_and(|joints| joints.editions == editions) {
            return Ok(());
        }
        let of = |session: &Session, control: Control| session.buffer(control).cloned();
        let (state, drafter) = (of(model, Control::Decode)?, of(&self.session, Control::Decode)?);
        let buffers = [("state", state.clone()), ("drafter", drafter)];
        let begin = model.gpu.bind("drafter.begin", begins()?, &[], &buffers)?;
        let vocab = f64::from(model.model().config().drawn as u32);
        let buffers =
            [("state", state), ("ring", of(&self.session, Control::Ring)?), ("tokens", of(model, Control::Drafts)?)];
        let end = |drafts: u32| {
            let rows = f64::from(drafts + 1);
            model.gpu.bind("drafter.end", ends()?, &[("T", rows), ("V", vocab)], &buffers)
        };
        let [three, five, seven] = DRAFTS;
        self.joints = Some(Joints { editions, begin, end: [end(three)?, end(five)?, end(seven)?] });
        Ok(())
    }

    /// The steps that make `drafts` drafts, one of [`DRAFTS`], once the draft model follows.
    pub fn steps(&self, drafts: u32) -> Result<Drafting<'_>> {
        let which = DRAFTS.iter().position(|n| *n == drafts);
        let joints = self.joints.as_ref().filter(|_| self.following.is_some());
        let (joints, which) =
            joints.zip(which).ok_or_else(|| Error::internal("drafts of a model that does not follow"))?;
        Ok(Drafting {
            steps: self.session.steps(Pass::Decode),
            state: self.session.buffer(Control::Decode)?,
            begin: &joints.begin,
            end: &joints.end[which],
            drafts,
        })
    }
}

/// A draft model's steps before a step of the model.
#[derive(Clone, Copy)]
pub(super) struct Drafting<'a> {
    steps: &'a [Encoded],
    state: &'a Buffer,
    begin: &'a Bound,
    end: &'a Bound,
    drafts: u32,
}

impl Drafting<'_> {
    /// Records the steps before the next step of the model.
    pub fn record(self, gpu: &Gpu, compute: &mut ComputePass<'_>) {
        gpu.dispatch(compute, self.begin, [1, 1, 1]);
        for draft in 0..=self.drafts {
            // The step behind the last draft is for the cache alone.
            let wanted = |stage: Stage| {
                stage.reads_token()
                    || draft < self.drafts
                        && matches!(stage, Stage::Tail(_) | Stage::Head | Stage::Choose | Stage::Advance)
            };
            for step in self.steps.iter().filter(|step| wanted(step.stage)) {
                gpu.dispatch(compute, &step.bound, step.grid.at(1));
            }
        }
        gpu.dispatch(compute, self.end, [1, 1, 1]);
    }

    /// Has recurrent states take over what counts of the steps before the model's last step.
    pub fn settle(self, gpu: &Gpu, encoder: &mut Encoder) {
        settle(gpu, encoder, self.steps, (Some(self.begin), 1), (self.state, &[State::TURN_AT]));
    }
}

impl Session {
    /// Takes a session with a smaller model's weights on the same device as the draft model of this one, or none.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where one of the two models cannot do its part; `GPU` where the device computes the kernels
    /// between them wrongly.
    pub async fn set_drafter(&mut self, drafter: Option<Self>) -> Result<()> {
        self.drafter = None;
        self.step_times.forget_drafter();
        let Some(mut session) = drafter else { return Ok(()) };
        self.must_write("draft")?;
        session.must_write("draft")?;
        if self.self_tested {
            let overrides = [("T", f64::from(FEW_ROWS)), ("V", f64::from(u16::MAX))];
            let wrong = check::self_test(&self.gpu, &[(begins()?, &[]), (ends()?, &overrides)]).await?;
            if let Some((variant, how)) = wrong.first() {
                return Err(Error::gpu(format!(
                    "this GPU or its driver computes drafts wrongly, load the model without a draft model: {variant}: {how}"
                )));
            }
        }
        // Wrong drafts must leave nothing in a state that cannot be cut back.
        if session.states.recurrent() {
            session.prepare_drafting().await?;
        }
        self.drafter = Some(Box::new(Drafter::new(session)?));
        Ok(())
    }

    /// The session of the draft model, where there is one.
    pub fn drafter(&self) -> Option<&Self> {
        self.drafter.as_ref().map(|drafter| &drafter.session)
    }

    /// Whether the draft model can follow a text up to position `end`.
    pub(super) fn drafts_reach(&self, end: u32) -> bool {
        self.drafter().is_some_and(|drafter| end.saturating_add(FEW_ROWS) <= drafter.context())
    }

    /// The cost of a step of the draft model in steps of this one, by the bytes that each reads, and the number of drafts
    /// of steps that always have some.
    pub(super) fn drafter_terms(&self) -> Option<(f64, u32)> {
        let bytes = |session: &Self| session.plans()[Pass::Decode].steps.iter().map(|step| step.bytes).sum::<u64>();
        let drafter = self.drafter.as_ref()?;
        Some((bytes(&drafter.session) as f64 / bytes(self).max(1) as f64, drafter.always))
    }

    /// Sets the number of drafts of steps that always have some: one of [`DRAFTS`].
    pub fn always_draft(&mut self, drafts: u32) {
        self.drafter.iter_mut().for_each(|drafter| drafter.always = drafts);
    }

    /// Has the draft model follow a text from its end on: the model has read `text`, and its next step reads the token
    /// behind it.
    pub(super) async fn follow(&mut self, text: &[u32], cancel: &Cancel) -> Result<()> {
        match &mut self.drafter {
            Some(drafter) => drafter.follow(text, cancel).await,
            None => Err(Error::internal("no draft model")),
        }
    }

    /// Whether the draft model follows a text.
    pub(super) fn follows(&self) -> bool {
        self.drafter.as_ref().is_some_and(|drafter| drafter.following.is_some())
    }

    /// The draft model's steps before a step with so many of its drafts; `None` for 0.
    pub(super) fn drafting(&self, drafts: u32) -> Result<Option<Drafting<'_>>> {
        match &self.drafter {
            Some(drafter) if drafts > 0 => drafter.steps(drafts).map(Some),
            None if drafts > 0 => Err(Error::internal("drafts without a draft model")),
            _ => Ok(None),
        }
    }

    /// Prepares steps with drafts that write to positions below `end`: the draft model's room for them, and the kernels
    /// between the two models.
    pub(super) async fn prepare_following(&mut self, end: u32) -> Result<()> {
        let Some(mut drafter) = self.drafter.take() else { return Ok(()) };
        let prepared = async {
            let end = end + FEW_ROWS;
            drafter.session.ensure(end).await?;
            if let Some(sequence) = drafter.following {
                drafter.session.states.may_write(sequence, end)?;
            }
            drafter.join(self)
        };
        let prepared = prepared.await;
        self.drafter = Some(drafter);
        prepared
    }

    /// Waits for the draft model's pass over the text, where one runs.
    pub(super) async fn drafter_has_read(&mut self) -> Result<()> {
        let Some(drafter) = &mut self.drafter else { return Ok(()) };
        match drafter.reading.take() {
            Some(fence) => drafter.session.passed(fence).await,
            None => Ok(()),
        }
    }

    /// The draft model follows no longer. `text`: what the model has read by the end of the last step with drafts, and to
    /// which position that step has read, beyond the text's end too; `None` where that is not known.
    pub(super) fn stop_following(&mut self, text: Option<(&[u32], u32)>) -> Result<()> {
        let Some(drafter) = &mut self.drafter else { return Ok(()) };
        let Some(sequence) = drafter.following.take() else { return Ok(()) };
        let states = &mut drafter.session.states;
        match text {
            Some((text, end)) => {
                let known = states.history(sequence)?.len();
                let steps = text.get(known..).unwrap_or_default();
                states.settle(sequence, steps, end.saturating_sub(known as u32))
            }
            None => states.forget(sequence),
        }
    }
}
