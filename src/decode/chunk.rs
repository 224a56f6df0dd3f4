//! The number of tokens between two readbacks: many on a fast GPU, few enough on a slow one that text keeps appearing.
//!
//! The policy learns the GPU's speed without the browser's readback latency: the latency is the time of a chunk without
//! tokens, and the difference is the tokens' time. The GPU may have worked during the latency; within that uncertainty
//! a chunk keeps its length.

/// Most tokens between two readbacks, and the length of the ring.
pub const MOST: u32 = 32;
/// Text appears at least this often, in ms, as long as one token takes less and the readback latency is lower.
const PATIENCE_MS: f64 = 50.0;
/// The least duration of a chunk as a multiple of the readback latency, during which the GPU has the next chunk.
const COVER: f64 = 1.25;
/// A latency below this counts as none, ms.
const NOTICED_MS: f64 = 1.0;

/// Chooses the length of the next chunk from measured time.
#[derive(Debug, Clone)]
pub struct ChunkPolicy {
    fixed: Option<u32>,
    /// The wanted duration of a chunk, ms.
    patience_ms: f64,
    /// The readback latency, ms.
    latency_ms: f64,
    ms_a_token: Option<f64>,
    /// The lower bound of a token's milliseconds: none of the latency was spent on tokens.
    least_ms_a_token: f64,
    /// Readbacks that are not learned from yet: their number, tokens and milliseconds. Where a browser polls
    /// periodically, a late readback is followed by an early one.
    window: (u32, u32, f64),
    /// The last chosen length.
    chosen: u32,
    begun: bool,
}

impl ChunkPolicy {
    /// Always `fixed` tokens, or as many as the measured speed allows. `ms_a_token`: measured by an earlier generation;
    /// `latency_ms`: the time of a wait for an idle GPU.
    pub fn new(fixed: Option<u32>, ms_a_token: Option<f64>, latency_ms: f64) -> Self {
        let latency_ms = if latency_ms < NOTICED_MS { 0.0 } else { latency_ms };
        let least_ms_a_token = ms_a_token.unwrap_or_default();
        Self {
            fixed: fixed.map(|n| n.clamp(1, MOST)),
            patience_ms: PATIENCE_MS,
            latency_ms,
            ms_a_token,
            least_ms_a_token,
            window: (0, 0, 0.0),
            chosen: 1,
            begun: false,
        }
    }

    /// Bounds the wanted duration of chunks, ms.
    pub fn patient(self, most_ms: f64) -> Self {
        Self { patience_ms: self.patience_ms.min(most_ms), ..self }
    }

    /// Tokens of the next chunk. The first is one token long, so that it appears at once.
    pub fn next(&mut self) -> u32 {
        let begun = std::mem::replace(&mut self.begun, true);
        match (self.fixed, self.ms_a_token) {
            (Some(n), _) => n,
            (None, Some(ms)) if begun => {
                let cover = COVER * self.latency_ms;
                let tokens = |ms: f64| {
                    let tokens = self.patience_ms.max(cover) / ms.max(1e-3);
                    (if cover > self.patience_ms { tokens.ceil() } else { tokens } as u32).clamp(1, MOST)
                };
                // The lower bound takes the mean of both estimates: a chunk that is too short grows from one to the
                // next, one that is too long stays below two waits.
                let least = self.least_ms_a_token;
                self.chosen = self.chosen.clamp(tokens(0.5 * (ms + least)), tokens(least));
                self.chosen
            }
            _ => 1,
        }
    }

    /// As [`ChunkPolicy::next`], but `most` tokens where that is less, the length is not fixed, and a readback comes as soon
    /// as the GPU is done.
    pub fn next_below(&mut self, most: u32) -> u32 {
        let wanted = self.next();
        if self.fixed.is_none() && self.latency_ms == 0.0 { wanted.min(most) } else { wanted }
    }

    /// Milliseconds a token takes, if measured.
    pub fn ms_a_token(&self) -> Option<f64> {
        self.ms_a_token
    }

    /// Learns from a readback: `tokens` tokens took `ms` while the next chunk was in flight.
    pub fn measured(&mut self, tokens: u32, ms: f64) {
        let (readbacks, before, passed) = self.window;
        let (readbacks, tokens, ms) = (readbacks + 1, before + tokens, passed + ms);
        let wanted = if self.latency_ms > 0.0 { 2 } else { 1 };
        if readbacks < wanted || tokens == 0 || ms <= 0.0 {
            self.window = (readbacks, tokens, ms);
            return;
        }
        self.window = (0, 0, 0.0);
        let (now, least) = (ms / f64::from(tokens), (ms - self.latency_ms).max(0.0) / f64::from(tokens));
        // The mean follows a change within two or three chunks and damps a single outlier; with latency the clamp in
        // `next` does that.
        let learn = |before: f64, now: f64| if self.latency_ms > 0.0 { now } else { 0.5 * before + 0.5 * now };
        self.least_ms_a_token = self.ms_a_token.map_or(least, |_| learn(self.least_ms_a_token, least));
        self.ms_a_token = Some(self.ms_a_token.map_or(now, |before| learn(before, now)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn slow_gpus_read_every_token_and_fast_ones_every_32() {
        for (tokens, ms, chunk) in [(1, 90.0, 1), (4, 2.8, MOST), (2, 20.0, 5)] {
            let mut policy = ChunkPolicy::new(None, None, 0.2);
            assert_eq!([policy.next(), policy.next()], [1, 1], "nothing is known yet");
            policy.measured(tokens, ms);
            assert_eq!(policy.next(), chunk);
            let mut again = ChunkPolicy::new(None, policy.ms_a_token(), 0.2);
            assert_eq!(
                [again.next(), again.next()],
                [1, chunk],
                "the next generation knows, but shows its first token at once"
            );
        }
    }

    #[test]
    fn a_chunk_may_be_shorter_where_readbacks_are_not_late() {
        for (fixed, latency, chunks) in [(None, 0.0, [1, 8]), (None, 20.0, [1, MOST]), (Some(16), 0.0, [16, 16])] {
            let mut policy = ChunkPolicy::new(fixed, Some(1.0), latency);
            assert_eq!([policy.next_below(8), policy.next_below(8)], chunks, "{fixed:?} {latency}");
            assert_eq!(policy.next_below(u32::MAX), fixed.unwrap_or(MOST));
        }
    }

    #[test]
    fn chunks_are_as_short_as_the_least_patience_wants() {
        for (bounds, chunk) in [([f64::INFINITY, 8.0], 6), ([8.0, 4.0], 3), ([4.0, f64::INFINITY], 3), ([4.0, 0.1], 1)]
        {
            let mut policy = ChunkPolicy::new(None, Some(1.3), 0.0);
            for bound in bounds {
                policy = policy.patient(bound);
            }
            assert_eq!([policy.next(), policy.next(), policy.next()], [1, chunk, chunk], "{bounds:?}");
        }
    }

    #[test]
    fn a_fixed_chunk_stays() {
        let mut policy = ChunkPolicy::new(Some(16), None, 100.0);
        policy.measured(16, 10_000.0);
        assert_eq!(policy.next(), 16);
    }

    /// When a host that waits from `asked` ms on is notified of work that was done at `done` ms.
    type Hears = fn(asked: f64, done: f64) -> f64;
    const AT_ONCE: Hears = |asked, done| done.max(asked) + 0.2;
    const LATE: Hears = |asked, done| done.max(asked) + 100.0;
    /// A timer that runs all the time.
    const TICKING: Hears = |asked, done| ((done.max(asked) / 100.0).floor() + 1.0) * 100.0;
    /// A timer that empty submissions set off every 4 ms.
    const PUMPED: Hears = |asked, done| ((done.max(asked) / 4.0).floor() + 1.0) * 4.0;

    /// Simulates the loop in steps.rs with a GPU that takes `ms` a token. Returns tokens a second after the first 20
    /// readbacks, and the last chunks.
    fn decode(policy: &mut ChunkPolicy, ms: f64, hears: Hears, most: u32) -> (f64, Vec<u32>) {
        let (mut now, mut free, mut recorded) = (0.0_f64, 0.0_f64, 0);
        let mut flights = VecDeque::new();
        let (mut last, mut began, mut counted, mut chunks) = (None, 0.0, 0, Vec::new());
        while recorded < most || !flights.is_empty() {
            while flights.len() < 2 && recorded < most {
                let n = policy.next().min(most - recorded);
                recorded += n;
                free = free.max(now) + f64::from(n) * ms;
                flights.push_back((n, now, free));
            }
            let Some((n, asked, done)) = flights.pop_front() else { break };
            now = now.max(hears(asked, done));
            if let Some(last) = last {
                policy.measured(n, now - last);
            }
            last = Some(now);
            chunks.push(n);
            match chunks.len() {
                20 => began = now,
                21.. => counted += n,
                _ => (),
            }
        }
        (f64::from(counted) * 1000.0 / (now - began), chunks.split_off(20))
    }

    #[test]
    fn a_slow_poll_costs_less_than_a_tenth() {
        // Two chunks of the longest kind in 100 ms are 640 tokens a second; a faster GPU needs a browser that empty
        // submissions make poll.
        for ms in [1.7, 3.0, 5.0, 16.0, 40.0, 90.0, 200.0] {
            let most = (40_000.0 / ms) as u32;
            let (at_once, _) = decode(&mut ChunkPolicy::new(None, None, 0.2), ms, AT_ONCE, most);
            for (name, hears, latency) in [("late", LATE, 100.0), ("ticking", TICKING, 100.0), ("pumped", PUMPED, 4.0)]
            {
                let (slow, chunks) = decode(&mut ChunkPolicy::new(None, None, latency), ms, hears, most);
                // The longest chunks last as long as the GPU's work, not as the wait for the notification.
                let whole = ms * f64::from(MOST) >= 100.0 || name == "pumped";
                let least = if whole {
                    0.9
                } else {
                    0.9 * (ms * f64::from(2 * MOST) / (100.0 + ms * f64::from(MOST))).min(1.0)
                };
                assert!(
                    slow >= least * at_once,
                    "{name}, {ms} ms a token: {slow:.0} of {at_once:.0} tok/s, chunks {:?}",
                    &chunks[..chunks.len().min(20)]
                );
            }
        }
    }

    #[test]
    fn text_appears_as_often_as_the_poll_allows() {
        for (hears, latency, most) in
            [(AT_ONCE, 0.2, 50.0_f64), (PUMPED, 4.0, 55.0), (LATE, 100.0, 250.0), (TICKING, 100.0, 250.0)]
        {
            for ms in [5.0, 16.0, 40.0, 90.0] {
                let (_, chunks) = decode(&mut ChunkPolicy::new(None, None, latency), ms, hears, (20_000.0 / ms) as u32);
                let longest = f64::from(chunks.iter().copied().max().unwrap_or_default()) * ms;
                assert!(
                    longest <= most.max(ms),
                    "{latency} ms late, {ms} ms a token: a chunk takes {longest} ms: {:?}",
                    &chunks[..chunks.len().min(20)]
                );
            }
        }
    }

    #[test]
    fn latency_never_shrinks_a_chunk() {
        let mut policy = ChunkPolicy::new(None, Some(3.0), 100.0);
        assert_eq!([policy.next(), policy.next()], [1, MOST]);
        // 64 tokens in 200 ms, then in one poll more: the difference may have been latency.
        for ms in [100.0, 100.0, 200.0, 99.0] {
            policy.measured(MOST, ms);
            policy.next();
        }
        assert_eq!(policy.next(), MOST);
        // 32 tokens in 600 ms: no latency takes that long.
        (0..4).for_each(|_| policy.measured(MOST, 600.0));
        assert!(policy.next() <= 8);
    }
}
