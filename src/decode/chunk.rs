//! How many tokens between two readbacks: many on a fast GPU, few enough on a slow one that text keeps appearing.

/// Most tokens between two readbacks, and the length of the ring.
pub const MOST: u32 = 32;
/// Text appears at least this often, in ms, as long as one token takes less.
const PATIENCE_MS: f64 = 50.0;

/// Chooses the length of the next chunk from measured time.
#[derive(Debug, Clone)]
pub struct ChunkPolicy {
    fixed: Option<u32>,
    ms_a_token: Option<f64>,
    begun: bool,
}

impl ChunkPolicy {
    /// Always `fixed` tokens, or as many as the measured speed allows; `ms_a_token` is what an earlier generation measured.
    pub fn new(fixed: Option<u32>, ms_a_token: Option<f64>) -> Self {
        Self { fixed: fixed.map(|n| n.clamp(1, MOST)), ms_a_token, begun: false }
    }

    /// Tokens of the next chunk. The first is one token long, so that it appears at once.
    pub fn next(&mut self) -> u32 {
        let begun = std::mem::replace(&mut self.begun, true);
        match (self.fixed, self.ms_a_token) {
            (Some(n), _) => n,
            (None, Some(ms)) if begun => ((PATIENCE_MS / ms.max(1e-3)) as u32).clamp(1, MOST),
            _ => 1,
        }
    }

    /// Milliseconds a token takes, as far as is known.
    pub fn ms_a_token(&self) -> Option<f64> {
        self.ms_a_token
    }

    /// Learns that `tokens` tokens took `ms` while the pipeline was full.
    pub fn measured(&mut self, tokens: u32, ms: f64) {
        if tokens > 0 && ms > 0.0 {
            let now = ms / f64::from(tokens);
            // Follows a change within two or three chunks, ignores a single hiccup.
            self.ms_a_token = Some(self.ms_a_token.map_or(now, |before| 0.5 * before + 0.5 * now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_gpus_read_every_token_and_fast_ones_every_32() {
        for (tokens, ms, chunk) in [(1, 90.0, 1), (4, 2.8, MOST), (2, 20.0, 5)] {
            let mut policy = ChunkPolicy::new(None, None);
            assert_eq!([policy.next(), policy.next()], [1, 1], "nothing is known yet");
            policy.measured(tokens, ms);
            assert_eq!(policy.next(), chunk);
            let mut again = ChunkPolicy::new(None, policy.ms_a_token());
            assert_eq!([again.next(), again.next()], [1, chunk], "the next generation knows, but shows its first token at once");
        }
    }

    #[test]
    fn a_fixed_chunk_stays() {
        let mut policy = ChunkPolicy::new(Some(16), None);
        policy.measured(16, 10_000.0);
        assert_eq!(policy.next(), 16);
    }
}
