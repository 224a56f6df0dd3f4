//! What a generation needs of the plans of decode steps: which stages have anything to do, and what is compiled first.

use super::generate::{LOGPROBS_ROW, Run};
use super::session::Session;
use super::speculate::{ACCEPTED_ROW, Speculate};
use crate::error::{Error, Result};
use crate::layout::Control;
use crate::plan::{Lane, Stage};
use crate::sample::{MAX_TOP_LOGPROBS, Sampling};

/// Bytes of the ids of a token's likeliest alternatives.
const LIKELIEST_ROW: u64 = MAX_TOP_LOGPROBS as u64 * 4;

/// Which stages of a decode step have anything to do.
#[derive(Clone, Copy)]
pub(super) struct Needs {
    /// What greedy sampling does without.
    temperature: bool,
    /// Rounds of the search for what survives top-k and top-p.
    rounds: u32,
    /// Penalties and bias; they also keep the logits that log probabilities are computed from.
    pub penalize: bool,
    pub logprobs: bool,
    grammar: bool,
    /// Steps that may take several tokens: readbacks have a row of them for each step.
    pub drafts: bool,
    /// Steps whose rows are of several sequences: nothing is drafted.
    company: bool,
}

impl Needs {
    /// Of one sequence, before anything is known about drafts.
    fn of(run: &Run<'_>, vocab: u32) -> Self {
        let Run { sampling, extras, .. } = run;
        Self {
            temperature: sampling.temperature != 0.0,
            rounds: sampling.filter_rounds(vocab),
            penalize: sampling.penalizes() || !extras.bias.is_empty() || extras.logprobs,
            logprobs: extras.logprobs,
            grammar: run.constraint.is_some(),
            drafts: false,
            company: false,
        }
    }

    /// Of several sequences with these parameters: all rows go through a stage that one of them needs, and the others
    /// return from it.
    pub fn of_company(sampling: &[Sampling], vocab: u32) -> Self {
        Self {
            temperature: sampling.iter().any(|row| row.temperature != 0.0),
            rounds: sampling.iter().map(|row| row.filter_rounds(vocab)).max().unwrap_or(0),
            penalize: false,
            logprobs: false,
            grammar: false,
            drafts: true,
            company: true,
        }
    }

    /// Whether a stage of a decode step has anything to do.
    pub fn wants(self, stage: Stage) -> bool {
        match stage {
            Stage::Embed | Stage::Layer(_) | Stage::Tail(_) | Stage::Head | Stage::Choose => true,
            Stage::Constrain | Stage::Walk => self.grammar,
            Stage::Advance => !self.grammar && !self.drafts,
            Stage::Draft => self.drafts && !self.company,
            Stage::Accept => self.drafts,
            Stage::Penalize => self.penalize,
            Stage::Logprobs | Stage::Record => self.logprobs,
            Stage::Largest | Stage::Threshold => self.temperature,
            Stage::Search(round) => round < self.rounds,
        }
    }

    /// Whether what a row may choose does not depend on what the row before it has chosen.
    fn allows_drafts(self) -> bool {
        !self.penalize && !self.grammar
    }

    /// The rings that are read back, with the bytes of a step's row in each.
    pub fn rings(self) -> &'static [(Control, u64)] {
        match self {
            Self { drafts: true, .. } => &[(Control::Accepted, ACCEPTED_ROW)],
            Self { logprobs: true, .. } => &[
                // Ids, and those of the likeliest with the log probabilities of all.
                (Control::Ring, 4),
                (Control::Likeliest, LIKELIEST_ROW),
                (Control::Logprobs, LOGPROBS_ROW - LIKELIEST_ROW),
            ],
            _ => &[(Control::Ring, 4)],
        }
    }

    /// Bytes that a step's readback takes.
    pub fn row_bytes(self) -> u64 {
        self.rings().iter().map(|(_, row)| row).sum()
    }
}

impl Session {
    /// Compiles what a generation needs and what is not compiled yet, and puts its grammar into the GPU's memory:
    /// what its steps need.
    pub(super) async fn prepare_run(&mut self, run: &Run<'_>) -> Result<Needs> {
        let needs = Needs::of(run, self.model().config().drawn as u32);
        let drafts = self.prepare_drafts(run.speculate, needs.allows_drafts()).await?;
        if needs.penalize {
            self.prepare_extras().await?;
        }
        if let Some(constraint) = &run.constraint {
            self.prepare_grammar(constraint).await?;
        }
        if run.prompt.has_rows() {
            self.prepare_rows().await?;
        }
        Ok(Needs { drafts, ..needs })
    }

    /// Compiles steps that read drafts, where these pay or are always wanted: whether the generation has drafts.
    /// `allowed`: whether its sampling allows them.
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
            // Lane exact has no kernels that compute several rows for little more than one, nor has any software.
            Speculate::Auto => allowed && self.lane() != Lane::Exact && !self.gpu.caps().software,
            Speculate::Always => true,
        };
        if !tries {
            return Ok(false);
        }
        self.prepare_steps().await?;
        if always && !self.speculates() {
            return Err(Error::bad_option(
                "speculate always: this model's layers read one token a step, or cannot go back to before a wrong \
                 draft; use auto or off",
            ));
        }
        Ok(self.speculates())
    }
}
