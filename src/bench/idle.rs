//! The first answer of an engine after an idle time, and what warming the GPU up is worth to it.

use serde::Serialize;

use super::{Measuring, Options, Phase, Status, median, one};
use crate::base::{Cancel, sleep};
use crate::decode::Session;
use crate::error::Result;
use crate::state::Input;

/// Idle time before the first answer, ms: clocks fall within a second.
const IDLE_MS: f64 = 3000.0;
/// Typing time for which the GPU is warmed up, ms.
const TYPING_MS: f64 = 1500.0;

/// Answers, medians; as `runs` has them.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Idle {
    /// After a rest: decoded tokens a second, and time to the first token, ms.
    pub cold: (f64, f64),
    /// After an idle time that ends with warming up.
    pub warmed: (f64, f64),
}

/// Measures both in turns.
pub(super) async fn measure(
    session: &mut Session,
    ids: &Input,
    options: &Options,
    report: &dyn Fn(Status),
    cancel: &Cancel,
) -> Result<Idle> {
    let mut of = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    for run in 0..options.runs {
        let step = Measuring { phase: Phase::Idle, loaded: run, total: options.runs, tokens: None };
        for (warmed, (speeds, firsts)) in of.iter_mut().enumerate() {
            sleep(IDLE_MS).await;
            if warmed == 1 {
                session.warm(TYPING_MS, cancel).await?;
            }
            let answer = one(session, ids, options, report, step, cancel).await?;
            speeds.push(answer.decode_tok_s);
            firsts.push(answer.ttft_ms);
        }
    }
    let [cold, warmed] = of.map(|(speeds, firsts)| (median(speeds), median(firsts)));
    Ok(Idle { cold, warmed })
}
