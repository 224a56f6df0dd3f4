//! Several answers at a time: how many tokens a second all of them together make, beside one alone.

use serde::Serialize;

use super::Options;
use crate::base::Cancel;
use crate::decode::{self, Extras, MOST_TOGETHER, Member, Progress, Run, Session};
use crate::error::Result;
use crate::sample::{Sampling, SamplingOptions};
use crate::state::{Input, SequenceId};

/// Results for one number of concurrent answers.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Company {
    /// How many.
    pub answers: usize,
    /// Tokens a second of all together: median.
    pub tok_s: f64,
    /// Speedup over single answers, measured in alternation.
    pub times: f64,
}

/// Measures 2, 4 and 8 answers at a time, as far as there is room.
pub(super) async fn measure(
    session: &mut Session,
    prompt: &Input,
    options: &Options,
    cancel: &Cancel,
) -> Result<Vec<Company>> {
    let sampling = SamplingOptions { temperature: f32::from(u8::from(options.sampled)), ..SamplingOptions::default() }
        .parameters(&[], decode::RING)?;
    let room = (session.sizes().slots as usize).min(MOST_TOGETHER);
    let sequences: Vec<SequenceId> = (0..room).map(|_| session.states_mut().begin_another()).collect();
    let mut measured = Vec::new();
    for answers in [2, 4, MOST_TOGETHER].into_iter().filter(|answers| *answers <= room) {
        let (mut together, mut alone) = (Vec::new(), Vec::new());
        // The first round warms up.
        for run in 0..=options.runs {
            cancel.check()?;
            let mut texts = Vec::new();
            for sequence in &sequences[..answers] {
                let read = generate(session, *sequence, prompt, sampling, 1, options, cancel).await?;
                let mut text = prompt.clone();
                text.push_tokens(&read.tokens);
                texts.push(text);
            }
            let mut members: Vec<Member<'_>> = sequences
                .iter()
                .zip(&texts)
                .map(|(sequence, text)| Member {
                    sequence: *sequence,
                    text,
                    sampling,
                    limit: options.gen_tokens,
                    cancel,
                    on_tokens: Box::new(|_| true),
                })
                .collect();
            let stretch = session.together(&mut members, options.load.chunk, &|| false).await?;
            drop(members);
            let mut tok_s = 0.0;
            for part in stretch.parts {
                tok_s += part?.timings.decode_tok_s;
            }
            stretch.failure.map_or(Ok(()), Err)?;
            let one = generate(session, sequences[0], prompt, sampling, options.gen_tokens, options, cancel).await?;
            if run > 0 {
                together.push(tok_s);
                alone.push(one.timings.decode_tok_s);
            }
        }
        let tok_s = super::median(together);
        measured.push(Company { answers, tok_s, times: tok_s / super::median(alone) });
    }
    sequences.into_iter().for_each(|sequence| session.states_mut().release(sequence));
    Ok(measured)
}

async fn generate(
    session: &mut Session,
    sequence: SequenceId,
    prompt: &Input,
    sampling: Sampling,
    limit: u32,
    options: &Options,
    cancel: &Cancel,
) -> Result<decode::Outcome> {
    let run = Run {
        sequence,
        prompt,
        sampling,
        limit,
        afresh: true,
        resumed: false,
        extras: Extras::default(),
        constraint: None,
        chunk: options.load.chunk,
        speculate: decode::Speculate::Off,
        pause: &|| false,
    };
    session.generate(run, cancel, &mut |_: Progress<'_>| true).await
}
