//! How the next token is chosen from the logits, and log probabilities.

use super::builder::Operands;
use super::{Builder, Extent, Grid, Stage, Value};
use crate::base::numbers::{BINS, FEW_ROWS};
use crate::error::Result;
use crate::grammar::WALK_WORDS;
use crate::layout::{BufferId, Control, Scratch};
use crate::sample::{FILTER_ROUNDS, MAX_TOP_LOGPROBS, SLICES, Sampling};

/// Optional steps of plans, each included on request only.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Penalties, bias and log probabilities.
    pub extras: bool,
    /// Grammars.
    pub grammar: Option<GrammarRoom>,
    /// Prompts with rows in place of tokens.
    pub rows: bool,
    /// Steps as a draft model: recurrent states keep what each changes.
    pub drafts: bool,
}

/// How much room there is for grammars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrammarRoom {
    /// Words of the grammars of all rows together, with [`FEW_ROWS`] words in front of them.
    pub automaton: usize,
    /// Words of the bytes of all tokens.
    pub token_bytes: usize,
}

impl Builder<'_> {
    /// What a step of several rows reads: a token and drafts.
    pub(super) fn drafts(&mut self) -> BufferId {
        self.layout.reserve(Control::Drafts, u64::from(FEW_ROWS) * 4)
    }

    /// A step of several rows begins with the drafts that it reads.
    pub fn draft(&mut self) -> Result<()> {
        self.stage(Stage::Draft);
        let text = self.layout.reserve(Control::Text, u64::from(self.sizes.capacity) * 4);
        let tokens = self.drafts();
        let chosen = self.select.choose("draft", &[])?;
        let rows = vec![("T", f64::from(self.pass.rows(self.sizes)))];
        self.push("draft", chosen, rows, vec![("text", text.into()), ("tokens", tokens.into())], Grid::folded(1), 0);
        self.stage(Stage::Embed);
        Ok(())
    }

    /// Samples from the logits, appends the token to the ring and advances the decode loop's state; of several rows of
    /// one sequence as many as their drafts were right. Penalties and grammars of such rows would depend on the choice
    /// of the row before: only rows of several sequences have them. Of `vocab` logits the first `drawn` are of tokens.
    pub fn sample(
        &mut self,
        logits: Value,
        (vocab, drawn): (usize, usize),
        Asked { extras, grammar, .. }: Asked,
    ) -> Result<()> {
        let words = |n: usize| n as u64 * 4;
        let rows = self.step_rows().unwrap_or(1);
        let of_rows = |n: u64| u64::from(rows) * n;
        let bytes = of_rows(words(vocab));
        let (wide, one) =
            (Grid::of(Extent::Fixed(SLICES), Extent::Fixed(rows)), Grid::of(Extent::Fixed(1), Extent::Fixed(rows)));
        let mut v = vec![("V", drawn as f64)];
        v.extend((rows > 1).then_some(("BESIDE", 1.0)));
        // Without a second sequence no rows have extras or grammars of their own.
        let most_rows = if self.sizes.slots > 1 { FEW_ROWS as usize } else { 1 };
        let several = rows == 1 || most_rows > 1;
        let (extras, grammar) = (extras && several, grammar.filter(|_| several));
        let of_row = [&v[..], &[("PADDING", (vocab - drawn) as f64)]].concat();
        let params = self.layout.reserve(Control::Sampling, Sampling::ROOM as u64);
        let mut logits = logits;
        let (mut penalized, mut scored) = (None, None);
        if extras {
            self.stage(Stage::Penalize);
            let tallies = self.layout.reserve(Control::Tallies, of_rows(words(2 * vocab)));
            let raw = self.layout.reserve(Scratch::RawLogits, of_rows(words(vocab)));
            let tokens = self.drafts();
            let chosen = self.select.choose("penalize", &[])?;
            let bindings: Operands = vec![
                ("params", params.into()),
                ("logits", logits.into()),
                ("tallies", tallies.into()),
                ("raw", raw.into()),
                ("tokens", tokens.into()),
            ];
            self.push("sample.penalize", chosen, of_row.clone(), bindings, wide, 3 * bytes);
            logits = self.made(logits.buffer);
            penalized = Some(self.made(raw));
        }

        let walked: Operands = match grammar {
            None => Operands::new(),
            Some(room) => vec![
                ("automaton", self.layout.reserve(Control::Automaton, words(room.automaton)).into()),
                ("walk", self.layout.reserve(Control::Walk, words(most_rows * WALK_WORDS)).into()),
                ("vocabulary", self.layout.reserve(Control::Vocabulary, words(4 * vocab)).into()),
                ("token_bytes", self.layout.reserve(Control::TokenBytes, words(room.token_bytes)).into()),
            ],
        };
        if grammar.is_some() {
            self.stage(Stage::Constrain);
            let chosen = self.select.choose("constrain", &[])?;
            let workgroups = (drawn as u32).div_ceil(chosen.variant.workgroup[0]);
            let grid = Grid::of(Extent::Fixed(workgroups), Extent::Fixed(rows));
            self.push(
                "sample.constrain",
                chosen,
                of_row.clone(),
                [vec![("logits", logits.into())], walked.clone()].concat(),
                grid,
                5 * bytes,
            );
            logits = self.made(logits.buffer);
        }

        if let Some(raw) = penalized {
            self.stage(Stage::Logprobs);
            let sums = self.layout.reserve(Scratch::Sums, of_rows(words(2 * SLICES as usize)));
            let tops = self.layout.reserve(Scratch::Tops, of_rows(words(2 * SLICES as usize * MAX_TOP_LOGPROBS)));
            let chosen = self.select.choose("logprobs", &[])?;
            let bindings: Operands =
                vec![("params", params.into()), ("raw", raw.into()), ("sums", sums.into()), ("tops", tops.into())];
            self.push("sample.logprobs", chosen, of_row.clone(), bindings, wide, bytes);
            scored = Some((raw, self.made(sums), self.made(tops)));
        }

        self.stage(Stage::Largest);
        let part = self.layout.reserve(Scratch::Largest, of_rows(words(SLICES as usize)));
        let chosen = self.select.choose("logit_stats", &[])?;
        self.push(
            "sample.stats",
            chosen,
            of_row.clone(),
            vec![("params", params.into()), ("logits", logits.into()), ("part", part.into())],
            wide,
            bytes,
        );
        let part = self.made(part);

        let search = self.layout.reserve(Control::Search, of_rows(32));
        let bins = self.layout.reserve(Scratch::Bins, of_rows(u64::from(SLICES * BINS) * 8));
        for round in 0..FILTER_ROUNDS {
            self.stage(Stage::Search(round));
            let chosen = self.select.choose("tally", &[])?;
            let bindings: Operands = vec![
                ("params", params.into()),
                ("logits", logits.into()),
                ("part", part.into()),
                ("searches", search.into()),
                ("tallies", bins.into()),
            ];
            self.push(&format!("sample.tally.{round}"), chosen, of_row.clone(), bindings, wide, bytes);
            let tallies = self.made(bins);
            let chosen = self.select.choose("narrow", &[])?;
            let bindings: Operands =
                vec![("params", params.into()), ("tallies", tallies.into()), ("searches", search.into())];
            self.push(
                &format!("sample.narrow.{round}"),
                chosen,
                v.clone(),
                bindings,
                one,
                u64::from(SLICES * BINS) * 8,
            );
        }

        self.stage(Stage::Threshold);
        let thr = self.layout.reserve(Scratch::Threshold, of_rows(16));
        let chosen = self.select.choose("threshold", &[])?;
        let bindings: Operands =
            vec![("params", params.into()), ("part", part.into()), ("searches", search.into()), ("thr", thr.into())];
        self.push("sample.threshold", chosen, v.clone(), bindings, one, 0);
        let thr = self.made(thr);

        self.stage(Stage::Choose);
        let cand = self.layout.reserve(Scratch::Candidates, u64::from(FEW_ROWS * SLICES) * 8);
        let chosen = self.select.choose("pick", &[])?;
        let bindings: Operands =
            vec![("params", params.into()), ("logits", logits.into()), ("thr", thr.into()), ("cand", cand.into())];
        self.push("sample.pick", chosen, of_row.clone(), bindings, wide, bytes);
        let cand = self.made(cand);

        let ring = self.sizes.ring as usize;
        if let Some((raw, sums, tops)) = scored {
            self.stage(Stage::Record);
            let entries = ring * most_rows;
            let ids = self.layout.reserve(Control::Likeliest, words(entries * MAX_TOP_LOGPROBS));
            let logprobs = self.layout.reserve(Control::Logprobs, words(entries * (MAX_TOP_LOGPROBS + 1)));
            let chosen = self.select.choose("logprobs_append", &[])?;
            let bindings: Operands = vec![
                ("params", params.into()),
                ("cand", cand.into()),
                ("raw", raw.into()),
                ("sums", sums.into()),
                ("tops", tops.into()),
                ("ids", ids.into()),
                ("logprobs", logprobs.into()),
            ];
            self.push("sample.logprobs_append", chosen, of_row, bindings, one, 0);
        }

        if rows > 1 {
            if grammar.is_some() {
                self.stage(Stage::Walk);
                let chosen = self.select.choose("walk", &[])?;
                let beside = vec![("BESIDE", 1.0)];
                self.push("sample.walk", chosen, beside, [vec![("cand", cand.into())], walked].concat(), one, 0);
            }
            return self.accept(params, cand);
        }
        self.stage(Stage::Advance);
        let ring = self.layout.reserve(Control::Ring, words(ring));
        let bindings: Operands = vec![("params", params.into()), ("cand", cand.into()), ("ring", ring.into())];
        let chosen = self.select.choose("advance", &[("grammar", "free")])?;
        self.push("sample.advance", chosen, vec![], bindings.clone(), one, 0);
        if grammar.is_some() {
            self.stage(Stage::Walk);
            let chosen = self.select.choose("advance", &[("grammar", "walk")])?;
            self.push("sample.walk", chosen, vec![], [bindings, walked].concat(), one, 0);
        }
        Ok(())
    }

    /// Takes the rows' candidates as far as drafts were right.
    fn accept(&mut self, params: BufferId, cand: Value) -> Result<()> {
        self.stage(Stage::Accept);
        let tokens = self.drafts();
        let accepted = self.layout.reserve(Control::Accepted, u64::from(self.sizes.ring * (FEW_ROWS + 1)) * 4);
        let text = self.layout.reserve(Control::Text, u64::from(self.sizes.capacity) * 4);
        let chosen = self.select.choose("accept", &[])?;
        let bindings: Operands = vec![
            ("params", params.into()),
            ("cand", cand.into()),
            ("tokens", tokens.into()),
            ("accepted", accepted.into()),
            ("text", text.into()),
        ];
        self.push("sample.accept", chosen, vec![], bindings, Grid::folded(1), 0);
        Ok(())
    }
}
