//! What a lane costs in quality: its logits against the exact lane's, at the same positions of the same texts.

use serde::Serialize;
use serde_json::json;

use super::Options;
use crate::base::options::Options as _;
use crate::base::{Cancel, Phase, Progress, now_ms};
use crate::engine::{Engine, LoadOptions, Prompt, Request};
use crate::error::{Error, Result};
use crate::kernels::Caps;
use crate::layout::Kv;
use crate::plan::Lane;
use crate::source::Files;

/// How far a lane is from the exact one.
#[derive(Debug, Clone, Serialize)]
pub struct Quality {
    /// The model.
    pub model: String,
    /// The lane.
    pub lane: &'static str,
    /// How its cache holds keys and values; that of the exact lane is f32.
    pub kv: &'static str,
    /// The device.
    pub adapter: Caps,
    /// Positions compared.
    pub positions: usize,
    /// Texts they are of.
    pub texts: usize,
    /// Kullback-Leibler divergence of the lane's distribution from the exact one, nats: mean.
    pub kl_mean: f64,
    /// 99th percentile of the divergence.
    pub kl_p99: f64,
    /// Largest divergence.
    pub kl_max: f64,
    /// Positions at which both have the same likeliest token, of 1.
    pub top1: f64,
    /// How long it took, ms.
    pub ms: f64,
}

/// What the texts begin with, where the model has a chat template; the model itself goes on, at temperature 1.
const QUESTIONS: [&str; 8] = [
    "What is 17 + 25?",
    "Who are you?",
    "Which day comes after Tuesday?",
    "Spell the word river.",
    "Sort these numbers: 42, 7, 19.",
    "Tell me a short story.",
    "What is 9 times 8?",
    "Why is the sky blue?",
];
/// Tokens that the model adds to each beginning.
const CONTINUED: u32 = 64;

/// Compares `options.lane` with the exact lane at `positions` positions. Both are loaded at the same time.
pub async fn quality(
    files: &Files,
    options: &LoadOptions,
    positions: u32,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<Quality> {
    Options { quality: Some(positions), ..Options::default() }.check()?;
    let kv = options.kv.unwrap_or(options.lane.kv());
    if options.lane == Lane::Exact && kv == Kv::F32 {
        return Err(Error::bad_option(
            "the exact lane is what others are compared with; choose another lane, or another kv",
        ));
    }
    let started = now_ms();
    let mut exact =
        Engine::load(files, &LoadOptions { lane: Lane::Exact, kv: None, ..options.clone() }, progress, cancel).await?;
    let mut other = Engine::load(files, options, progress, cancel).await?;
    let info = other.info();
    if info.lane != options.lane && options.lane != Lane::Auto {
        return Err(Error::gpu(format!(
            "lane {} does not run here: {}",
            options.lane.name(),
            info.warnings.join("; ")
        )));
    }
    let mut divergences = Vec::new();
    let mut same = 0;
    let mut texts = 0;
    while divergences.len() < positions as usize {
        cancel.check()?;
        progress(Progress::new(Phase::Read, divergences.len() as u64, u64::from(positions)));
        let left = positions as usize - divergences.len();
        let text = text(&mut exact, texts, (info.context, left), cancel).await?;
        texts += 1;
        let (a, b) = (logits(&mut exact, &text, cancel).await?, logits(&mut other, &text, cancel).await?);
        for (a, b) in a.iter().zip(&b).take(left) {
            divergences.push(divergence(a, b));
            same += usize::from(likeliest(a) == likeliest(b));
        }
    }
    let n = divergences.len();
    let kl_mean = divergences.iter().sum::<f64>() / n as f64;
    divergences.sort_by(f64::total_cmp);
    Ok(Quality {
        model: info.model.name.unwrap_or_else(|| info.model.architecture.clone()),
        lane: info.lane.name(),
        kv: kv.name(),
        adapter: info.adapter,
        positions: n,
        texts,
        kl_mean,
        kl_p99: divergences[(n - 1).min(n * 99 / 100)],
        kl_max: divergences[n - 1],
        top1: same as f64 / n as f64,
        ms: now_ms() - started,
    })
}

/// A text that the model itself finds likely, of `most` tokens at most.
async fn text(engine: &mut Engine, number: usize, (context, most): (u32, usize), cancel: &Cancel) -> Result<Vec<u32>> {
    let question = json!([{ "role": "user", "content": QUESTIONS[number % QUESTIONS.len()] }]);
    let vocab = engine.info().model.vocab;
    let beginning = match engine.prompt_tokens(&Request::new(Prompt::Messages(question))) {
        Ok(ids) if (ids.len() as u32) < context / 2 => ids,
        // No template: any token begins a text.
        _ => vec![(number.wrapping_mul(40_503) % vocab) as u32],
    };
    let room = context - beginning.len() as u32 - 1;
    let request = Request {
        max_tokens: Some(CONTINUED.min(room).min(most.saturating_sub(beginning.len()) as u32).max(1)),
        temperature: 1.0,
        seed: Some(number as u64),
        ignore_eos: true,
        ..Request::new(Prompt::Tokens(beginning.clone()))
    };
    let more = engine.generate(&request, &mut |_| {}, cancel).await?.tokens;
    let mut text = [beginning, more].concat();
    text.truncate(most);
    Ok(text)
}

/// The logits at every position of a text, from the decode step.
async fn logits(engine: &mut Engine, text: &[u32], cancel: &Cancel) -> Result<Vec<Vec<f32>>> {
    let request = Request {
        max_tokens: Some(1),
        logits: true,
        logits_from: Some(0),
        ..Request::new(Prompt::Tokens(text.to_vec()))
    };
    engine.generate(&request, &mut |_| {}, cancel).await?.all_logits.ok_or_else(|| Error::internal("no logits"))
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().fold(f64::NEG_INFINITY, |m, l| m.max(f64::from(*l)));
    let sum: f64 = logits.iter().map(|l| (f64::from(*l) - most).exp()).sum();
    logits.iter().map(|l| f64::from(*l) - most - sum.ln()).collect()
}

/// KL(p || q) of the distributions of two rows of logits, nats.
fn divergence(p: &[f32], q: &[f32]) -> f64 {
    let (p, q) = (log_softmax(p), log_softmax(q));
    p.iter().zip(&q).map(|(p, q)| p.exp() * (p - q)).sum::<f64>().max(0.0)
}

fn likeliest(logits: &[f32]) -> Option<usize> {
    logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divergence_is_zero_for_the_same_and_known_for_others() {
        assert_eq!(divergence(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), 0.0);
        // A constant does not change a distribution.
        assert!(divergence(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]) < 1e-9);
        // KL((1/2, 1/2) || (1/4, 3/4)) = ln 2 - ln 3 / 2.
        let kl = divergence(&[0.0, 0.0], &[0.0, 3.0_f32.ln()]);
        assert!((kl - (2.0_f64.ln() - 3.0_f64.ln() / 2.0)).abs() < 1e-6, "{kl}");
        assert_eq!(likeliest(&[0.0, 5.0, -1.0]), Some(1));
    }
}
