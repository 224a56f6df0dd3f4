//! Which pass a plan is for, and what its steps are part of.

use std::ops::Index;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::base::numbers::FEW_ROWS;
use crate::layout::Sizes;

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pass {
    /// Up to `Sizes::rows` rows of a prompt.
    Prefill,
    /// Up to [`SHORT`] rows of a prompt: too few to fill a GPU with tiles of rows, each row's keys are dealt out as in
    /// decode.
    Short,
    /// Up to [`FEW`] rows of a prompt: each weight is read once for all of them, as in decode.
    Few,
    /// One row, and the token after it.
    Decode,
    /// A decode step of four rows: a token and three drafts, and what comes after each.
    Four,
    /// A decode step of eight rows: a token and seven drafts.
    Eight,
}

/// Most rows of [`Pass::Few`].
pub const FEW: u32 = FEW_ROWS;
/// Most rows of [`Pass::Short`].
pub const SHORT: u32 = 64;

impl Pass {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 6] = [Self::Prefill, Self::Short, Self::Few, Self::Decode, Self::Four, Self::Eight];
    /// Steps of several rows, the fewest first.
    pub const STEPS: [Self; 2] = [Self::Four, Self::Eight];

    /// What reports call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Short => "short",
            Self::Few => "few",
            Self::Decode => "decode",
            Self::Four => "four",
            Self::Eight => "eight",
        }
    }

    /// The rows of a decode step: one, or a token and its drafts. None of a pass over a prompt.
    pub const fn step_rows(self) -> Option<u32> {
        match self {
            Self::Decode => Some(1),
            Self::Four => Some(4),
            Self::Eight => Some(FEW),
            Self::Prefill | Self::Short | Self::Few => None,
        }
    }

    /// Whether it is a decode step of several rows.
    pub fn is_step_of_rows(self) -> bool {
        Self::STEPS.contains(&self)
    }

    /// Most rows of it.
    pub fn rows(self, sizes: Sizes) -> u32 {
        match self {
            Self::Prefill => sizes.rows,
            Self::Short => SHORT.min(sizes.rows),
            Self::Few => FEW,
            Self::Decode | Self::Four | Self::Eight => self.step_rows().unwrap_or(1),
        }
    }
}

/// What a step is part of, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The numbers of a picture's patches, where the host gives its pixels.
    Pixels,
    /// The drafts that a step of several rows reads.
    Draft,
    /// The embeddings of the pass's tokens.
    Embed,
    /// A layer.
    Layer(usize),
    /// A layer behind all that remember something: only its last row matters, for the logits.
    Tail(usize),
    /// The last norm and the head: the logits of the last row.
    Head,
    /// Penalties and bias.
    Penalize,
    /// What a grammar does not allow.
    Constrain,
    /// Sums for log probabilities, and the likeliest tokens.
    Logprobs,
    /// The largest logit.
    Largest,
    /// A round of the search for what survives top-k and top-p.
    Search(u32),
    /// Below which logit nothing is drawn.
    Threshold,
    /// What each slice of the vocabulary would choose.
    Choose,
    /// The chosen token's log probability.
    Record,
    /// The token, the position, and whether that was the end.
    Advance,
    /// The token's transition in a grammar: as `Advance` in a step of one row, before `Accept` in one of several.
    Walk,
    /// The tokens of a step that may take several.
    Accept,
    /// What counts of a chunk's last step with drafts goes to recurrent states, at the end of the chunk.
    Settle,
}

impl Stage {
    /// Whether a pass that is not the last of its prompt runs it: what comes after is for logits.
    pub fn reads_token(self) -> bool {
        self < Self::Tail(0)
    }

    /// Whether it is about the next token, of which the logits are there.
    pub fn samples(self) -> bool {
        self > Self::Head
    }
}

/// A plan for each pass.
#[derive(Debug, Clone, Default)]
pub struct Plans(Vec<Plan>);

impl Plans {
    /// From a plan of each, in the order of [`Pass::ALL`].
    pub fn new(plans: Vec<Plan>) -> Self {
        Self(plans)
    }

    /// In the order of [`Pass::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Pass, &Plan)> {
        Pass::ALL.into_iter().zip(&self.0)
    }
}

impl Index<Pass> for Plans {
    type Output = Plan;

    /// # Panics
    /// If no plan was built for that pass.
    fn index(&self, pass: Pass) -> &Plan {
        &self.0[pass as usize]
    }
}
