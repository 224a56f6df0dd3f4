//! The tuner: measures, on a busy GPU, variants that differ only in speed, and plans with the fastest.

use bytemuck::bytes_of;
use serde::Serialize;

use super::program::{Encoded, build_plan, compile_ahead, encode};
use super::session::Session;
use crate::base::{Cancel, now_ms};
use crate::error::Result;
use crate::kernels::State;
use crate::layout::Control;
use crate::plan::tuning::Measurements;
use crate::plan::{Choice, Pass};

/// The result of a tuning.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Tuned {
    /// Operations whose variants were measured now.
    pub measured: usize,
    /// Operations left for another time: the budget was spent, or a request came.
    pub left: usize,
    /// Operations that now run another variant than before.
    pub changed: usize,
    /// The time of the tuning, ms.
    pub ms: f64,
    /// The measurements: by operation, variants with us a dispatch, the chosen variant first.
    pub times: Measurements,
}

/// How long a tuning may take in idle time, ms.
pub const BUDGET_MS: f64 = 2000.0;
/// How long a variant's turn lasts, ms.
const SLICE_MS: f64 = 8.0;
/// Turns of each variant.
const ROUNDS: usize = 5;
/// The share of the budget after which nothing more is compiled.
const COMPILING: f64 = 0.6;
/// How long the GPU works before the first measurement, ms: until then its clock may be low.
const WARM_UP_MS: f64 = 150.0;
/// The share of the default variant's time by which another must be faster.
const MARGIN: f64 = 0.01;

impl Session {
    /// Measures operations that have not been measured on this device yet, for at most about `budget_ms`, ends early
    /// when cancelled, and compiles the passes of few rows, which can wait until then. Between generations only:
    /// activations and the loop's state are scratch afterwards; the cache is not touched.
    pub async fn tune(&mut self, budget_ms: f64, cancel: &Cancel) -> Result<Tuned> {
        let started = now_ms();
        let mut tuned = Tuned::default();
        if !self.writes() {
            return Ok(tuned);
        }
        let mut choices: Vec<(Choice, Vec<usize>)> = Vec::new();
        for (i, step) in self.plans()[Pass::Decode].steps.iter().enumerate() {
            let Some(choice) = &step.choice else { continue };
            match choices.iter_mut().find(|(c, _)| c.operation == choice.operation) {
                Some((_, steps)) => steps.push(i),
                None => choices.push((choice.clone(), vec![i])),
            }
        }
        choices.retain(|(c, _)| !self.select.is_measured(&c.operation));
        self.put(Control::Decode, bytes_of(&State { rows: 1, limit: u32::MAX, ..State::default() }))?;
        let over = |share: f64| now_ms() - started > budget_ms * share || cancel.is_cancelled();
        // All are compiled first: a GPU that waits for a compiler lowers its clock, and the next variant would look
        // slow.
        let mut contests = Vec::new();
        let wanted = choices.len();
        for (choice, steps) in choices {
            if over(COMPILING) {
                break;
            }
            let mut candidates = Vec::new();
            for variant in &choice.variants {
                candidates.push(self.encode_with(&choice.operation, variant.name, &steps).await?);
                self.time(&candidates[candidates.len() - 1].iter().collect::<Vec<_>>(), 1, 0.0).await?;
            }
            contests.push((choice, steps, candidates));
        }
        if let Some((_, _, candidates)) = contests.first() {
            self.time(&candidates[0].iter().collect::<Vec<_>>(), 1, WARM_UP_MS).await?;
        }
        for (choice, steps, candidates) in contests {
            if over(1.0) {
                break;
            }
            let ms = self.compare(&candidates, SLICE_MS, ROUNDS).await?;
            let names = choice.variants.iter().map(|v| v.name.to_owned());
            let us = |ms: f64| (ms * 1e5 / steps.len() as f64).round() / 100.0;
            let mut times: Vec<(String, f64)> = names.zip(ms.into_iter().map(us)).collect();
            // The planner's default is first unless another is clearly faster.
            times[1..].sort_by(|a, b| a.1.total_cmp(&b.1));
            if times[1].1 < times[0].1 * (1.0 - MARGIN) {
                times.sort_by(|a, b| a.1.total_cmp(&b.1));
            }
            tuned.measured += 1;
            tuned.times.insert(choice.operation.clone(), times.clone());
            let before = self.plans()[Pass::Decode].steps[steps[0]].variant.name;
            tuned.changed += usize::from(times[0].0 != before);
            self.select.learn(choice.operation, times);
        }
        tuned.left = wanted - tuned.measured;
        if tuned.measured > 0 {
            self.plan_again().await?;
            while self.self_tested {
                let wrong: Vec<_> = self.self_test().await?.wrong.into_iter().map(|(variant, _)| variant).collect();
                if wrong.is_empty() {
                    break;
                }
                self.select.avoid(&wrong);
                self.plan_again().await?;
            }
        }
        if !cancel.is_cancelled() {
            self.prepare_few().await?;
        }
        tuned.ms = now_ms() - started;
        Ok(tuned)
    }

    /// Steps of the decode plan, by their numbers, encoded with `variant` for `operation`.
    pub(super) async fn encode_with(
        &mut self,
        operation: &str,
        variant: &'static str,
        steps: &[usize],
    ) -> Result<Vec<Encoded>> {
        let mut layout = self.layout().clone();
        self.select.try_out(Some((operation, variant)));
        let plan = build_plan(
            self.model(),
            &mut layout,
            &self.select,
            self.sizes(),
            Pass::Decode,
            self.asked(),
            self.adapters_now(),
        );
        self.select.try_out(None);
        let plan = plan?;
        let steps = || steps.iter().map(|i| &plan.steps[*i]);
        compile_ahead(&self.gpu, steps()).await;
        encode(&self.gpu, self.buffers(), steps())
    }
}
