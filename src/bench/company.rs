//! Several answers at a time: how many tokens a second all of them together make, beside one alone.

use serde::Serialize;

use super::forced::Form;
use super::{Options, pace, plain};
use crate::base::Cancel;
use crate::decode::{self, MOST_TOGETHER, Outcome, Session, Speculate, Turn};
use crate::error::Result;
use crate::sample::SamplingOptions;
use crate::state::{Input, SequenceId};

/// Results for one number of concurrent answers.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Company {
    /// How many.
    pub answers: usize,
    /// Whether answers are forced into a form, together and alone.
    pub forced: bool,
    /// Tokens a second of all together: median.
    pub tok_s: f64,
    /// Speedup over single answers, measured in alternation.
    pub times: f64,
}

/// Measures 2, 4 and 8 answers at a time, as far as there is room, each forced into the `form` where there is one.
pub(super) async fn measure(
    session: &mut Session,
    prompt: &Input,
    options: &Options,
    form: Option<&Form>,
    cancel: &Cancel,
) -> Result<Vec<Company>> {
    let sampling = SamplingOptions { temperature: f32::from(u8::from(options.sampled)), ..SamplingOptions::default() }
        .parameters(&[], decode::RING)?;
    let room = (session.sizes().slots as usize).min(MOST_TOGETHER);
    let sequences: Vec<SequenceId> = (0..room).map(|_| session.states_mut().begin_another()).collect();
    let turn_alone = || Turn { speculate: Speculate::Off, ..plain(prompt, sampling, options, cancel) };
    let mut measured = Vec::new();
    for answers in [2, 4, MOST_TOGETHER].into_iter().filter(|answers| *answers <= room) {
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        // The first round warms up.
        for run in 0..=options.runs {
            cancel.check()?;
            let mut begun = Vec::new();
            for sequence in &sequences[..answers] {
                let mut constraint = form.map(Form::begin);
                let first = Turn { sequence: *sequence, limit: 1, constraint: constraint.as_mut(), ..turn_alone() };
                let read = session.generate(first, pace(options)).await?;
                let mut text = prompt.clone();
                text.push_tokens(&read.tokens);
                begun.push((text, constraint));
            }
            let mut turns: Vec<Turn<'_>> = sequences
                .iter()
                .zip(&mut begun)
                .map(|(sequence, (text, constraint))| Turn {
                    sequence: *sequence,
                    constraint: constraint.as_mut(),
                    resumed: true,
                    ..plain(text, sampling, options, cancel)
                })
                .collect();
            let stretch = session.run(&mut turns, pace(options)).await?;
            drop(turns);
            let mut tok_s = 0.0;
            for part in stretch.parts {
                let Outcome { tokens, timings, .. } = part?;
                tok_s += tokens.len() as f64 * 1000.0 / (timings.prefill_ms + timings.decode_ms);
            }
            stretch.failure.map_or(Ok(()), Err)?;
            let mut constraint = form.map(Form::begin);
            let whole = Turn { sequence: sequences[0], constraint: constraint.as_mut(), ..turn_alone() };
            let one = session.generate(whole, pace(options)).await?;
            if run > 0 {
                together.push(tok_s);
                alone.push(one.timings.decode_tok_s);
            }
        }
        let tok_s = super::median(together);
        measured.push(Company { answers, forced: form.is_some(), tok_s, times: tok_s / super::median(alone) });
    }
    sequences.into_iter().for_each(|sequence| session.states_mut().release(sequence));
    Ok(measured)
}
