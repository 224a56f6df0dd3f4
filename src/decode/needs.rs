//! A generation's needs of the decode steps' plans: the stages that run, and their compilation.

use super::session::Session;
use super::speculate::{ACCEPTED_ROW, Speculate};
use super::turn::{Extras, LOGPROBS_ROW, Turn};
use crate::base::numbers::FEW_ROWS;
use crate::error::{Error, Result};
use crate::grammar::Constraint;
use crate::layout::Control;
use crate::plan::{Lane, Pass, Stage};
use crate::sample::{MAX_TOP_LOGPROBS, Sampling};

/// Bytes of the ids of a token's likeliest alternatives.
const LIKELIEST_ROW: u64 = MAX_TOP_LOGPROBS as u64 * 4;
/// Bytes of a token's log probabilities, without the ids.
const VALUES_ROW: u64 = LOGPROBS_ROW - LIKELIEST_ROW;
/// Most bytes of a step's readback: of a step of several sequences with log probabilities.
pub(super) const MOST_ROW: u64 = ACCEPTED_ROW + FEW_ROWS as u64 * LOGPROBS_ROW;

/// Which stages of a decode step run.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// Sampling by temperature; greedy sampling does without.
    temperature: bool,
    /// Rounds of the search for the threshold of top-k and top-p.
    rounds: u32,
    /// Penalties and bias, or log probabilities, which are computed from the logits that this stage keeps.
    pub penalize: bool,
    pub logprobs: bool,
    grammar: bool,
    /// Steps may take several tokens: readbacks have a row of tokens for each step.
    pub drafts: bool,
    /// Rows of a step belong to several sequences: nothing is drafted.
    pub company: bool,
}

impl Needs {
    /// The needs of these turns, those of one without drafts. A stage runs for all rows where one of them needs it, and
    /// changes nothing for the other rows.
    fn of(turns: &[Turn<'_>], vocab: u32) -> Self {
        let company = turns.len() > 1;
        Self {
            temperature: turns.iter().any(|turn| turn.sampling.temperature != 0.0),
            rounds: turns.iter().map(|turn| turn.sampling.filter_rounds(vocab)).max().unwrap_or(0),
            penalize: turns.iter().any(|turn| penalizes(&turn.sampling, turn.extras)),
            logprobs: turns.iter().any(|turn| turn.extras.logprobs),
            grammar: turns.iter().any(|turn| turn.constraint.is_some()),
            drafts: company,
            company,
        }
    }

    /// Whether a stage of a decode step runs. What settles is no part of a step, but of a chunk; pixels are of towers.
    pub fn wants(self, stage: Stage) -> bool {
        match stage {
            Stage::Embed | Stage::Layer(_) | Stage::Tail(_) | Stage::Head | Stage::Choose => true,
            Stage::Constrain | Stage::Walk => self.grammar,
            Stage::Advance => !self.grammar && !self.drafts,
            Stage::Draft => self.drafts && !self.company,
            Stage::Accept => self.drafts,
            Stage::Pixels | Stage::Settle => false,
            Stage::Penalize => self.penalize,
            Stage::Logprobs | Stage::Record => self.logprobs,
            Stage::Largest | Stage::Threshold => self.temperature,
            Stage::Search(round) => round < self.rounds,
        }
    }

    /// Whether a row's choice is independent of the token chosen in the row before it.
    fn allows_drafts(self) -> bool {
        !self.penalize && !self.grammar
    }

    /// The rings that are read back, with the bytes of a step's row in each.
    pub fn rings(self) -> &'static [(Control, u64)] {
        match self {
            // An entry for each row of a step.
            Self { company: true, logprobs: true, .. } => &[
                (Control::Accepted, ACCEPTED_ROW),
                (Control::Likeliest, FEW_ROWS as u64 * LIKELIEST_ROW),
                (Control::Logprobs, FEW_ROWS as u64 * VALUES_ROW),
            ],
            Self { drafts: true, .. } => &[(Control::Accepted, ACCEPTED_ROW)],
            Self { logprobs: true, .. } => &[
                // Sampled ids, ids of the likeliest tokens, log probabilities of both.
                (Control::Ring, 4),
                (Control::Likeliest, LIKELIEST_ROW),
                (Control::Logprobs, VALUES_ROW),
            ],
            _ => &[(Control::Ring, 4)],
        }
    }

    /// Bytes of a step's readback.
    pub fn row_bytes(self) -> u64 {
        self.rings().iter().map(|(_, row)| row).sum()
    }
}

/// Whether an answer needs the stage of penalties and bias, or the logits that it keeps.
fn penalizes(sampling: &Sampling, extras: Extras<'_>) -> bool {
    sampling.penalizes() || !extras.bias.is_empty() || extras.logprobs
}

impl Session {
    /// Compiles what steps of these turns need beside prefill and decode, whose pass without drafts is `pass`, and puts
    /// their grammars into the GPU's memory. Returns the needs of the steps.
    pub(super) async fn prepare_turns(&mut self, turns: &[Turn<'_>], pass: Pass) -> Result<Needs> {
        let mut needs = Needs::of(turns, self.model().config().drawn as u32);
        if let [alone] = turns {
            needs.drafts = self.prepare_drafts(alone.speculate, needs.allows_drafts()).await?;
        }
        if needs.penalize {
            self.prepare_extras().await?;
        }
        let constraints: Vec<&Constraint> = turns.iter().filter_map(|turn| turn.constraint.as_deref()).collect();
        self.prepare_grammars(&constraints).await?;
        if turns.iter().any(|turn| turn.prompt.has_rows()) {
            self.prepare_rows().await?;
        }
        if needs.company {
            self.prepare_passes(&[pass]).await?;
        }
        Ok(needs)
    }

    /// Whether drafts can pay: lane exact has no kernels that compute several rows at little more cost than one, and on
    /// the CPU there is no such gain.
    pub(crate) fn drafts_pay(&self) -> bool {
        self.rows_pay.unwrap_or(self.lane() != Lane::Exact && !self.gpu.caps().software)
    }

    /// Compiles steps that read drafts, where they pay or are always wanted. Returns whether the generation has drafts.
    /// `allowed`: whether its sampling allows drafts.
    async fn prepare_drafts(&mut self, speculate: Speculate, allowed: bool) -> Result<bool> {
        let always = speculate == Speculate::Always;
        if always && !allowed {
            return Err(Error::bad_option(
                "speculate always: drafts cannot be verified where penalties, bias, log probabilities or a grammar \
                 look at each token; use auto or off",
            ));
        }
        let tries = match speculate {
            Speculate::Off => false,
            Speculate::Auto => allowed && self.drafts_pay(),
            Speculate::Always => true,
        };
        if !tries {
            return Ok(false);
        }
        self.prepare_steps().await?;
        if always && !self.speculates() {
            return Err(Error::gpu(
                "speculate always: this GPU or its driver computes steps of several tokens wrongly; use auto or off",
            ));
        }
        Ok(self.speculates())
    }
}
