//! Answers that copy from their prompts, with drafts by lookup and without: what drafts are worth on a text of which it
//! is known how much repeats. The weights are made to say these texts ([`Session::plant`]); what a step costs does not
//! depend on them.

use serde::Serialize;

use super::{Options, median, pace, plain};
use crate::base::Cancel;
use crate::decode::{self, Session, Speculate, Turn};
use crate::error::{Error, Result};
use crate::sample::SamplingOptions;
use crate::state::Input;

/// One text, in turns with drafts and without.
#[derive(Debug, Clone, Serialize)]
pub struct Copies {
    /// What the answer is: `edit`, `extract` or `new`.
    pub text: &'static str,
    /// Tokens of it.
    pub tokens: u32,
    /// Tokens a second without drafts: median.
    pub tok_s: f64,
    /// With drafts where they pay.
    pub auto: Speedup,
    /// With drafts in each step.
    pub always: Speedup,
}

/// What drafts by lookup did for an answer.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Speedup {
    /// Times as fast as without: ratio of medians.
    pub times: f64,
    /// Drafts that were verified in an answer.
    pub drafted: u64,
    /// Drafts that were right.
    pub accepted: u64,
}

struct Text {
    name: &'static str,
    prompt: Vec<u32>,
    answer: Vec<u32>,
}

/// Of an edited text, how many places are changed, and how many tokens each of them has.
const CHANGES: (usize, usize) = (3, 5);
/// Tokens of a passage for each field that is taken from it, and tokens that name a field.
const FIELD: (usize, usize) = (85, 3);
/// Tokens of a field's value: of the shortest of four lengths, and from one length to the next.
const VALUE: (usize, usize) = (8, 4);

/// The texts, in all of which no token comes twice but where the answer copies: then each token has one successor.
fn texts(prompt: usize, new: usize, vocab: u32) -> Result<[Text; 3]> {
    // By a prime that no vocabulary is a multiple of: each token once, in an order that looks like none.
    let mut unused = (0..u64::from(vocab)).map(|i| (i * 2_654_435_761 % u64::from(vocab)) as u32);
    let mut more = |n: usize| {
        let some: Vec<u32> = unused.by_ref().take(n).collect();
        if some.len() == n {
            Ok(some)
        } else {
            Err(Error::bad_option(format!("copies: a vocabulary of {vocab} has too few tokens for such long texts")))
        }
    };
    // A file and what is to be changed in it; the answer is the file with the changes.
    let asked = more(prompt)?;
    let source = &asked[..prompt * 3 / 5];
    let mut edited = source.to_vec();
    for place in 1..=CHANGES.0 {
        let at = source.len() * place / (CHANGES.0 + 1);
        let end = (at + CHANGES.1).min(edited.len());
        edited[at..end].copy_from_slice(&more(end - at)?);
    }
    let edit = Text { name: "edit", prompt: asked, answer: edited };
    // A passage; the answer names fields and copies their values, from the passage's end to its beginning.
    let passage = more(prompt)?;
    let fields = (prompt / FIELD.0).max(2);
    let part = prompt / fields;
    let mut taken = Vec::new();
    for field in (0..fields).rev() {
        let length = (VALUE.0 + VALUE.1 * (field % 4)).min(part);
        taken.extend(more(FIELD.1)?);
        taken.extend(&passage[field * part..][..length]);
    }
    let extract = Text { name: "extract", prompt: passage, answer: taken };
    let new = Text { name: "new", prompt: more(prompt)?, answer: more(new)? };
    Ok([edit, extract, new])
}

/// Measures the texts with a prompt of `options.prompt` tokens each; the weights say nothing else afterwards.
pub(super) async fn measure(session: &mut Session, options: &Options, cancel: &Cancel) -> Result<Vec<Copies>> {
    let texts = texts(options.prompt as usize, options.gen_tokens as usize, session.model().config().drawn as u32)?;
    let sampling = SamplingOptions { temperature: 0.0, ..SamplingOptions::default() }.parameters(&[], decode::RING)?;
    let mut measured = Vec::new();
    for Text { name, prompt, answer } in texts {
        let said = prompt.last().copied().into_iter().chain(answer.iter().copied());
        session.plant(&said.zip(answer.iter().copied()).collect::<Vec<_>>()).await?;
        let (prompt, limit) = (Input::from(prompt), answer.len() as u32);
        let mut ways = [Speculate::Off, Speculate::Auto, Speculate::Always].map(|way| (way, Vec::new(), (0, 0)));
        // The first round warms up.
        for run in 0..=options.runs {
            for (speculate, speeds, drafts) in &mut ways {
                cancel.check()?;
                let turn = Turn { speculate: *speculate, limit, ..plain(&prompt, sampling, options, cancel) };
                let outcome = session.generate(turn, pace(options)).await?;
                if outcome.tokens != answer {
                    return Err(Error::gpu(format!("copies: {name}: the answer is not the text that the weights say")));
                }
                if run > 0 {
                    speeds.push(outcome.timings.decode_tok_s);
                    *drafts = (outcome.drafted, outcome.accepted);
                }
            }
        }
        let [(tok_s, _), auto, always] = ways.map(|(_, speeds, drafts)| (median(speeds), drafts));
        let speedup = |(speed, (drafted, accepted)): (f64, _)| Speedup { times: speed / tok_s, drafted, accepted };
        let (auto, always) = (speedup(auto), speedup(always));
        measured.push(Copies { text: name, tokens: limit, tok_s, auto, always });
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lookups can only be right where an answer copies, and each token leads to one other.
    #[test]
    fn texts_copy_as_much_as_they_say() {
        for prompt in [70, 300, 1024] {
            let of = texts(prompt, 100, 32_000).unwrap();
            for (Text { name, prompt, answer }, copied) in of.iter().zip([0.6..0.99, 0.6..0.95, 0.0..0.001]) {
                let share = answer.iter().filter(|id| prompt.contains(id)).count() as f64 / answer.len() as f64;
                assert!(copied.contains(&share), "{name} of {}: {share}", prompt.len());
                let mut all = answer.clone();
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len(), answer.len(), "{name} of {}: no token comes twice", prompt.len());
            }
            let whole: Vec<u32> = of.iter().flat_map(|text| text.prompt.clone()).collect();
            let mut different = whole.clone();
            different.sort_unstable();
            different.dedup();
            assert_eq!(different.len(), whole.len(), "each text has tokens of its own");
        }
        assert_eq!(texts(1024, 100, 2000).map(drop).unwrap_err().code(), "BAD_OPTION");
    }
}
