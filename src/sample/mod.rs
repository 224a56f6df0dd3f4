//! How the next token is chosen from the logits. The choice itself is made on the GPU, by the kernels `penalize`, `logit_stats`,
//! `tally`, `narrow`, `threshold`, `pick` and `advance`; here are their parameters.
//!
//! The steps, in this order:
//!
//! 0. penalties and bias: the logit of a token that is in the prompt or in the answer is divided by the repetition penalty (multiplied, where it
//!    is negative); from that of a token of the answer go the frequency penalty for each time and the presence penalty once; its bias is added;
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

use bytemuck::{Pod, Zeroable};

use crate::base::numbers;
use crate::error::{Error, Result};

pub use crate::base::numbers::{AFTER_END, NOT_A_NUMBER, SLICES};

/// How many stop ids fit.
pub const MAX_STOP: usize = numbers::MAX_STOP as usize;
/// Most tokens whose log probabilities come with each sampled one.
pub const MAX_TOP_LOGPROBS: usize = numbers::MAX_TOP_LOGPROBS as usize;
/// In a tally: the token is in the prompt.
pub const IN_PROMPT: u32 = 1 << 31;
/// Most rounds of the search for what survives top-k and top-p: four each.
pub const FILTER_ROUNDS: u32 = 8;

/// What a caller may ask for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingOptions {
    /// 0 or more; 0 is greedy.
    pub temperature: f32,
    /// Tokens that stay; 0 is off.
    pub top_k: u32,
    /// Probability that stays, above 0 and up to 1; 1 is off.
    pub top_p: f32,
    /// Share of the largest probability below which tokens go, 0 to 1; 0 is off.
    pub min_p: f32,
    /// The same seed gives the same text.
    pub seed: u64,
    /// Taken from the logits of tokens that are in the answer, -2 to 2; 0 is off.
    pub presence_penalty: f32,
    /// Taken from the logits of tokens of the answer for each time that they are in it, -2 to 2; 0 is off.
    pub frequency_penalty: f32,
    /// Divides the logits of tokens of the prompt and of the answer (multiplies negative ones), above 0; 1 is off.
    pub repetition_penalty: f32,
    /// How many of the likeliest tokens' log probabilities come with each token, up to [`MAX_TOP_LOGPROBS`].
    pub top_logprobs: u32,
}

impl Default for SamplingOptions {
    /// Greedy, with every filter off.
    fn default() -> Self {
        Self {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            seed: 0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            repetition_penalty: 1.0,
            top_logprobs: 0,
        }
    }
}

/// The parameters as the kernels read them: the host of `shaders/common/sampling.wgsl`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
pub struct Sampling {
    pub temperature: f32,
    pub top_p: f32,
    pub min_p: f32,
    pub top_k: u32,
    pub seed_lo: u32,
    pub seed_hi: u32,
    /// How many of `stop` count.
    pub n_stop: u32,
    /// Length of the ring of sampled tokens.
    pub ring_len: u32,
    pub presence: f32,
    pub frequency: f32,
    pub repetition: f32,
    pub top_logprobs: u32,
    /// Ids that end the generation; they are appended to the ring all the same.
    pub stop: [u32; MAX_STOP],
}

impl Sampling {
    /// Bytes of the uniform buffer.
    pub const BYTES: usize = std::mem::size_of::<Self>();

    /// Checks the options. `stop`: ids that end the generation; `ring_len`: length of the ring of sampled tokens.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadOption`], naming the option and the values that it takes.
    pub fn new(options: &SamplingOptions, stop: &[u32], ring_len: u32) -> Result<Self> {
        let SamplingOptions { temperature, top_k, top_p, min_p, seed, presence_penalty, frequency_penalty, repetition_penalty, top_logprobs } = *options;
        // Written so that NaN fails.
        let check = |name: &str, value: f32, fits: bool, range: &str| {
            if fits { Ok(()) } else { Err(Error::bad_option(format!("{name} is {value}; it must be {range}"))) }
        };
        check("temperature", temperature, temperature.is_finite() && temperature >= 0.0, "a finite number of 0 or more")?;
        check("top_p", top_p, top_p > 0.0 && top_p <= 1.0, "above 0 and at most 1 (1 is off)")?;
        check("min_p", min_p, (0.0..=1.0).contains(&min_p), "between 0 (off) and 1")?;
        check("presence_penalty", presence_penalty, (-2.0..=2.0).contains(&presence_penalty), "between -2 and 2 (0 is off)")?;
        check("frequency_penalty", frequency_penalty, (-2.0..=2.0).contains(&frequency_penalty), "between -2 and 2 (0 is off)")?;
        let positive = repetition_penalty.is_finite() && repetition_penalty > 0.0;
        check("repetition_penalty", repetition_penalty, positive, "a finite number above 0 (1 is off)")?;
        check("top_logprobs", top_logprobs as f32, top_logprobs as usize <= MAX_TOP_LOGPROBS, "0 to 20")?;
        if ring_len == 0 {
            return Err(Error::internal("the ring of sampled tokens has no slots"));
        }
        let mut ids = [0; MAX_STOP];
        let Some(slots) = ids.get_mut(..stop.len()) else {
            return Err(Error::bad_option(format!("{} stop tokens; at most {MAX_STOP} fit", stop.len())));
        };
        slots.copy_from_slice(stop);
        Ok(Self {
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
            top_logprobs,
            stop: ids,
        })
    }

    /// Whether top-k leaves anything out of `v` tokens.
    pub fn searches_top_k(&self, v: u32) -> bool {
        self.top_k != 0 && self.top_k < v
    }

    /// Rounds of the search for what survives top-k and top-p.
    pub fn filter_rounds(&self, v: u32) -> u32 {
        if self.temperature == 0.0 { 0 } else { 4 * (u32::from(self.searches_top_k(v)) + u32::from(self.top_p < 1.0)) }
    }

    /// Whether that token ends the generation.
    pub fn stops(&self, id: u32) -> bool {
        self.stop[..self.n_stop as usize].contains(&id)
    }

    /// Whether what has been said so far changes the logits.
    pub fn penalizes(&self) -> bool {
        (self.presence, self.frequency, self.repetition) != (0.0, 0.0, 1.0)
    }

    /// The parameters as the words of a buffer.
    pub fn words(&self) -> Vec<u32> {
        bytemuck::cast_slice(std::slice::from_ref(self)).to_vec()
    }

    /// The parameters in the first words of a buffer; `None` where it is too short.
    pub fn from_words(words: &[u32]) -> Option<Self> {
        words.get(..Self::BYTES / 4).map(|words| bytemuck::pod_read_unaligned(bytemuck::cast_slice(words)))
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
            top_logprobs: 3,
        };
        let words = Sampling::new(&options, &[11, 12], 32).unwrap().words();
        assert_eq!(words[..8], [0.5f32.to_bits(), 0.25f32.to_bits(), 0.125f32.to_bits(), 7, 2, 1, 2, 32]);
        assert_eq!(words[8..12], [(-1.0f32).to_bits(), 2.0f32.to_bits(), 1.5f32.to_bits(), 3]);
        assert_eq!(words[12..15], [11, 12, 0]);
        assert_eq!(Sampling::from_words(&words).unwrap().words(), words);
        assert_eq!(Sampling::from_words(&words[1..]), None);
    }

    #[test]
    fn options_out_of_range_are_refused_by_name() {
        let good = SamplingOptions::default();
        let bad = [
            ("temperature", SamplingOptions { temperature: -0.1, ..good }),
            ("temperature", SamplingOptions { temperature: f32::NAN, ..good }),
            ("temperature", SamplingOptions { temperature: f32::INFINITY, ..good }),
            ("top_p", SamplingOptions { top_p: 0.0, ..good }),
            ("top_p", SamplingOptions { top_p: 1.001, ..good }),
            ("top_p", SamplingOptions { top_p: f32::NAN, ..good }),
            ("min_p", SamplingOptions { min_p: -0.5, ..good }),
            ("min_p", SamplingOptions { min_p: 1.5, ..good }),
            ("min_p", SamplingOptions { min_p: f32::NAN, ..good }),
            ("presence_penalty", SamplingOptions { presence_penalty: 2.1, ..good }),
            ("presence_penalty", SamplingOptions { presence_penalty: f32::NAN, ..good }),
            ("frequency_penalty", SamplingOptions { frequency_penalty: -2.1, ..good }),
            ("repetition_penalty", SamplingOptions { repetition_penalty: 0.0, ..good }),
            ("repetition_penalty", SamplingOptions { repetition_penalty: f32::INFINITY, ..good }),
            ("repetition_penalty", SamplingOptions { repetition_penalty: f32::NAN, ..good }),
            ("top_logprobs", SamplingOptions { top_logprobs: 21, ..good }),
        ];
        for (name, options) in bad {
            let error = Sampling::new(&options, &[], 1).unwrap_err();
            assert_eq!(error.code(), "BAD_OPTION");
            assert!(error.message().starts_with(name), "{error}");
        }
        assert_eq!(Sampling::new(&good, &[0; MAX_STOP + 1], 1).unwrap_err().code(), "BAD_OPTION");
        assert!(Sampling::new(&good, &[0; MAX_STOP], 1).is_ok());
        assert_eq!(Sampling::new(&SamplingOptions { temperature: -0.0, ..good }, &[], 1).unwrap().temperature.to_bits(), 0);
        assert_eq!(Sampling::new(&SamplingOptions { temperature: 1e-40, ..good }, &[], 1).unwrap().temperature, 0.0);
    }
}
