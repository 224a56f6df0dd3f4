//! How the next token is chosen from the logits. The choice itself is made on the GPU, by the kernels `penalize`,
//! `logit_stats`, `tally`, `narrow`, `threshold`, `pick` and `advance`; here are their parameters.
//!
//! The steps, in this order:
//!
//! 0. penalties and bias: the logit of a token that is in the prompt or in the answer is divided by the repetition
//!    penalty (multiplied, where it is negative); from that of a token of the answer go the frequency penalty for each
//!    time and the presence penalty once; its bias is added;
//! 1. temperature: logits are divided by it; 0 takes the largest logit (the lowest id among equals) and skips the rest;
//! 2. top-k: the k largest stay, and with the k-th every token that equals it;
//! 3. top-p: of the probabilities of what is left, renormalised, the smallest set of the largest that adds up to p or
//!    more stays, and every token that equals its smallest;
//! 4. min-p: what is less likely than `min_p` times the likeliest goes;
//! 5. one of the rest is drawn in proportion to its probability.
//!
//! The draw hashes (seed, position, token id) and carries no state: the same seed gives the same text on the same
//! device, and a resumed generation continues it.
//!
//! Log probabilities (`logprobs`, `logprobs_append`) are the model's own: of the logits before all of these steps.

use crate::base::numbers;
use crate::error::{Error, Result};

pub use crate::base::numbers::{AFTER_END, NOT_A_NUMBER, SLICES};
pub use millrace_twins::Sampling;

/// How many stop ids fit.
pub const MAX_STOP: usize = numbers::MAX_STOP as usize;
/// Most tokens whose log probabilities come with each sampled one.
pub const MAX_TOP_LOGPROBS: usize = numbers::MAX_TOP_LOGPROBS as usize;
/// In a tally: the token is in the prompt.
pub const IN_PROMPT: u32 = 1 << 31;
/// Most rounds of the search for what survives top-k and top-p: four each.
pub const FILTER_ROUNDS: u32 = 8;

include!(concat!(env!("OUT_DIR"), "/options/sampling.rs"));

impl SamplingOptions {
    /// The parameters of options that have been checked. `stop`: ids that end the generation; `ring_len`: length of the
    /// ring of sampled tokens.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadOption`] where there are more of `stop` than fit.
    pub fn parameters(&self, stop: &[u32], ring_len: u32) -> Result<Sampling> {
        let Self {
            temperature,
            top_k,
            top_p,
            min_p,
            seed,
            presence_penalty,
            frequency_penalty,
            repetition_penalty,
            logprobs,
        } = *self;
        if ring_len == 0 {
            return Err(Error::internal("the ring of sampled tokens has no slots"));
        }
        let mut ids = [0; MAX_STOP];
        let Some(slots) = ids.get_mut(..stop.len()) else {
            return Err(Error::bad_option(format!("{} stop tokens; at most {MAX_STOP} fit", stop.len())));
        };
        slots.copy_from_slice(stop);
        Ok(Sampling {
            // -0 is greedy too, and a subnormal temperature, which a GPU may flush to 0, is as good as greedy.
            temperature: if temperature < f32::MIN_POSITIVE { 0.0 } else { temperature },
            top_p,
            min_p,
            top_k,
            seed_lo: seed as u32,
            seed_hi: (seed >> 32) as u32,
            n_stop: stop.len() as u32,
            ring_len,
            presence: presence_penalty,
            frequency: frequency_penalty,
            repetition: repetition_penalty,
            top_logprobs: logprobs,
            stop: ids,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_the_shaders() {
        assert_eq!(Sampling::BYTES, 112);
        let options = SamplingOptions {
            temperature: 0.5,
            top_k: 7,
            top_p: 0.25,
            min_p: 0.125,
            seed: 0x1_0000_0002,
            presence_penalty: -1.0,
            frequency_penalty: 2.0,
            repetition_penalty: 1.5,
            logprobs: 3,
        };
        let words = options.parameters(&[11, 12], 32).unwrap().words();
        assert_eq!(words[..8], [0.5f32.to_bits(), 0.25f32.to_bits(), 0.125f32.to_bits(), 7, 2, 1, 2, 32]);
        assert_eq!(words[8..12], [(-1.0f32).to_bits(), 2.0f32.to_bits(), 1.5f32.to_bits(), 3]);
        assert_eq!(words[12..15], [11, 12, 0]);
        assert_eq!(Sampling::of_row(&words, 0).unwrap().words(), words);
        assert_eq!(Sampling::of_row(&words[1..], numbers::FEW_ROWS as usize - 1), None);
    }

    #[test]
    fn as_many_stop_ids_as_fit() {
        let good = SamplingOptions::default();
        assert_eq!(good.parameters(&[0; MAX_STOP + 1], 1).unwrap_err().code(), "BAD_OPTION");
        assert!(good.parameters(&[0; MAX_STOP], 1).is_ok());
        assert_eq!(SamplingOptions { temperature: -0.0, ..good }.parameters(&[], 1).unwrap().temperature.to_bits(), 0);
        assert_eq!(SamplingOptions { temperature: 1e-40, ..good }.parameters(&[], 1).unwrap().temperature, 0.0);
    }
}
