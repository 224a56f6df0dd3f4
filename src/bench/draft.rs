//! Steps with a draft model's drafts: how long they take, beside steps without. How many drafts of random weights are
//! right says nothing about trained ones: a step that takes as long as so many steps without pays where it takes more
//! tokens.

use serde::Serialize;

use super::{Options, median, pace, plain, shapes};
use crate::base::{Cancel, Progress};
use crate::decode::{self, DRAFTS, Session, Speculate, Turn};
use crate::engine::open_beside;
use crate::error::{Error, Result};
use crate::sample::SamplingOptions;
use crate::state::Input;

/// Steps with drafts of a model, in turns with steps without.
#[derive(Debug, Clone, Serialize)]
pub struct Drafted {
    /// The draft model's shape.
    pub shape: String,
    /// Milliseconds of a step without drafts: median.
    pub ms: f64,
    /// Milliseconds of a step with each number of drafts: medians.
    pub steps: Vec<StepTime>,
    /// Tokens a second with `speculate: auto` in those without drafts: medians.
    pub auto: f64,
}

/// A step with drafts.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct StepTime {
    /// Drafts of a step.
    pub drafts: u32,
    /// Milliseconds.
    pub ms: f64,
    /// In steps without drafts: with more tokens than that, on average, drafts pay.
    pub times: f64,
    /// Tokens that a step took.
    pub tokens: f64,
}

/// Loads random weights in a shape as the draft model, and measures.
pub(super) async fn measure(
    session: &mut Session,
    prompt: &Input,
    options: &Options,
    (name, quant): (&str, shapes::Quant),
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<Drafted> {
    let shape = shapes::find(name).map_err(|e| e.at("draft"))?;
    let drafter = open_beside(&shapes::checkpoint(&shape, quant)?, None, &options.load, session, progress).await?;
    drafter.randomize().await?;
    session.set_drafter(Some(drafter)).await?;
    let temperature = f32::from(u8::from(options.sampled));
    let sampling = SamplingOptions { temperature, ..SamplingOptions::default() }.parameters(&[], decode::RING)?;
    let (mut alone, mut auto, mut with) = (Vec::new(), Vec::new(), DRAFTS.map(|_| (Vec::new(), Vec::new())));
    // The first round warms up.
    for run in 0..=options.runs {
        let off = Turn { speculate: Speculate::Off, ..plain(prompt, sampling, options, cancel) };
        let outcome = session.generate(off, pace(options)).await?;
        if run > 0 {
            alone.push(1000.0 / outcome.timings.decode_tok_s);
        }
        let turn = Turn { speculate: Speculate::Auto, ..plain(prompt, sampling, options, cancel) };
        let speed = session.generate(turn, pace(options)).await?.timings.decode_tok_s;
        if run > 0 {
            auto.push(speed);
        }
        for (drafts, (ms, tokens)) in DRAFTS.into_iter().zip(&mut with) {
            cancel.check()?;
            session.always_draft(drafts);
            let always = Turn { speculate: Speculate::Always, ..plain(prompt, sampling, options, cancel) };
            let outcome = session.generate(always, pace(options)).await?;
            let steps = outcome.drafted as f64 / f64::from(drafts);
            if steps < 1.0 {
                return Err(Error::bad_option("draft: too few tokens are generated to measure steps with drafts"));
            }
            if run > 0 {
                ms.push(outcome.timings.decode_ms / steps);
                tokens.push(1.0 + outcome.accepted as f64 / steps);
            }
        }
    }
    session.set_drafter(None).await?;
    let ms = median(alone);
    let steps = DRAFTS.into_iter().zip(with).map(|(drafts, (with, tokens))| {
        let with = median(with);
        StepTime { drafts, ms: with, times: with / ms, tokens: median(tokens) }
    });
    Ok(Drafted { shape: name.to_owned(), ms, steps: steps.collect(), auto: median(auto) * ms / 1000.0 })
}
