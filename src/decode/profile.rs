//! Time, bytes and busy threads of each kernel of a decode step.
//!
//! Browsers round timestamps to 100 us, so a kernel is timed by repeating it: all its steps of a token, in their order,
//! so that each layer's weights come from memory as they do in a real step, until the whole takes long enough for the
//! wall clock.

use serde::Serialize;

use bytemuck::bytes_of;

use super::program::Encoded;
use super::session::Session;
use crate::base::numbers::STREAMED;
use crate::base::{Cancel, now_ms};
use crate::error::Result;
use crate::kernels::State;
use crate::layout::Control;
use crate::plan::{Choice, FEW, Grid, Pass, Stage, Step};
use crate::{check, kernels};

/// One kernel, or one use of it, in a pass: of prefill, or a decode step.
#[derive(Debug, Clone, Serialize)]
pub struct Use {
    /// What the step does in a layer, e.g. `qkv`.
    pub step: String,
    /// Kernel.
    pub kernel: &'static str,
    /// Variant.
    pub variant: &'static str,
    /// Dispatches a pass.
    pub calls: usize,
    /// GPU time of one dispatch, microseconds.
    pub us: f64,
    /// GPU time a pass, ms.
    pub ms: f64,
    /// Percentage of all uses' time.
    pub percent: f64,
}

/// A use in a decode step, which is bound by reads of memory.
#[derive(Debug, Clone, Serialize)]
pub struct ProfileRow {
    /// The use, and its time a token.
    #[serde(flatten)]
    pub of: Use,
    /// Bytes of weights and cache read a token.
    pub bytes: u64,
    /// Bytes over time.
    pub gb_s: f64,
    /// `gb_s` as a percentage of the device's streaming read.
    pub percent_of_streaming: f64,
    /// Threads with something to do over threads launched.
    pub active: f64,
}

/// A use in a pass of prefill, which is bound by arithmetic.
#[derive(Debug, Clone, Serialize)]
pub struct PrefillRow {
    /// The use, and its time a pass.
    #[serde(flatten)]
    pub of: Use,
    /// Multiplications and additions over time, in 10^12 a second.
    pub tops: f64,
}

/// The time of a pass or a decode step of `rows` rows, without the stages that draft and advance the state.
#[derive(Debug, Clone, Serialize)]
pub struct RowsTime {
    /// Rows.
    pub rows: u32,
    /// GPU time of a pass, ms.
    pub ms: f64,
    /// The kernels of a decode step, each use measured alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<Use>,
}

/// The shortest measurement that counts, ms.
const LEAST_MS: f64 = 25.0;
/// The least duration of a measurement as a multiple of the readback latency, and the latency, ms, from which on two
/// lengths are measured.
const POLLS: f64 = 4.0;
const NOTICED_MS: f64 = 1.0;
/// Bytes of the streaming read's buffer, where the device binds that many.
const STREAM_BYTES: u64 = 512 << 20;

/// A variant that a step of the decode plan runs or could run.
#[derive(Debug, Clone, Serialize)]
pub struct KernelRow {
    /// The operation and its shape, or the step.
    pub operation: String,
    /// Kernel.
    pub kernel: &'static str,
    /// Variant.
    pub variant: &'static str,
    /// Whether the plan runs it.
    pub chosen: bool,
    /// The difference from its twin on known data, where the result is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<String>,
    /// GPU time of one dispatch, microseconds.
    pub us: f64,
    /// Bytes of weights and cache that one dispatch reads.
    pub bytes: u64,
    /// Bytes over time.
    pub gb_s: f64,
    /// `gb_s` as a percentage of the device's streaming read.
    pub percent_of_streaming: f64,
}

impl Session {
    /// Compares every variant that a step of the decode plan runs or could run with its twin, and measures it. Only
    /// kernels with `filter` in their names; `progress` is called with the number of operations done, and of all.
    pub async fn kernel_bench(
        &mut self,
        position: u32,
        streaming_gb_s: f64,
        filter: &str,
        progress: &dyn Fn(u32, u32),
        cancel: &Cancel,
    ) -> Result<Vec<KernelRow>> {
        self.ensure(position + 1).await?;
        let slot = self.states.vacate()? as u32;
        self.put(
            Control::Decode,
            bytes_of(&State { pos: position, rows: 1, limit: u32::MAX, slot, ..State::default() }),
        )?;
        // (operation, its choice, steps)
        let mut operations: Vec<(String, Option<Choice>, Vec<usize>)> = Vec::new();
        for (i, step) in
            self.plans()[Pass::Decode].steps.iter().enumerate().filter(|(_, step)| step.variant.kernel.contains(filter))
        {
            let name = step
                .choice
                .as_ref()
                .map_or_else(|| format!("{} {}", step.variant.kernel, kind(&step.name)), |c| c.operation.clone());
            match operations.iter_mut().find(|o| o.0 == name) {
                Some((_, _, steps)) => steps.push(i),
                None => operations.push((name, step.choice.clone(), vec![i])),
            }
        }
        let mut rows = Vec::new();
        let total = operations.len() as u32;
        for (done, (operation, choice, steps)) in operations.into_iter().enumerate() {
            cancel.check()?;
            progress(done as u32, total);
            let chosen = self.plans()[Pass::Decode].steps[steps[0]].variant;
            let bytes = steps.iter().map(|i| self.plans()[Pass::Decode].steps[*i].bytes_at(position)).sum::<u64>()
                / steps.len() as u64;
            for variant in choice.map_or_else(|| vec![chosen], |c| c.variants) {
                let wrong =
                    check::self_test(&self.gpu, &[(variant, &self.plans()[Pass::Decode].steps[steps[0]].overrides)])
                        .await?
                        .pop()
                        .map(|(_, how)| how);
                let encoded = self.encode_with(&operation, variant.name, &steps).await?;
                let ms = self.time(&encoded.iter().collect::<Vec<&Encoded>>(), 1, LEAST_MS).await?;
                let us = ms * 1000.0 / steps.len() as f64;
                let gb_s = bytes as f64 / us / 1e3;
                rows.push(KernelRow {
                    operation: operation.clone(),
                    kernel: variant.kernel,
                    variant: variant.name,
                    chosen: variant == chosen,
                    wrong,
                    us,
                    bytes,
                    gb_s,
                    percent_of_streaming: 100.0 * gb_s / streaming_gb_s,
                });
            }
        }
        Ok(rows)
    }

    /// Measures every kernel of a decode step at `position`, in a slot that is vacated: the sequence that had it keeps
    /// its state as a copy.
    pub async fn profile(&mut self, position: u32, streaming_gb_s: f64) -> Result<Vec<ProfileRow>> {
        self.ensure(position + 1).await?;
        let slot = self.states.vacate()? as u32;
        self.put(
            Control::Decode,
            bytes_of(&State { pos: position, rows: 1, limit: u32::MAX, slot, ..State::default() }),
        )?;
        // Stages that greedy decoding does without.
        let greedy = |stage| {
            !matches!(
                stage,
                Stage::Penalize
                    | Stage::Logprobs
                    | Stage::Largest
                    | Stage::Search(_)
                    | Stage::Threshold
                    | Stage::Record
            )
        };
        let uses = self.uses(Pass::Decode, 1, greedy).await?;
        let rows = uses.into_iter().map(|(of, steps)| {
            let steps: Vec<&Step> = steps.iter().map(|i| &self.plans()[Pass::Decode].steps[*i]).collect();
            let bytes = steps.iter().map(|s| s.bytes_at(position)).sum::<u64>();
            let gb_s = bytes as f64 / of.ms / 1e6;
            let active = steps.iter().map(|s| s.active(position)).sum::<f64>() / steps.len() as f64;
            ProfileRow { of, bytes, gb_s, percent_of_streaming: 100.0 * gb_s / streaming_gb_s, active }
        });
        Ok(rows.collect())
    }

    /// Measures every kernel of a prefill pass over the last `rows` positions before `end`, in a vacated slot.
    pub async fn profile_prefill(&mut self, end: u32, rows: u32) -> Result<Vec<PrefillRow>> {
        let rows = rows.min(self.sizes().rows).min(end);
        let pos = end - rows;
        self.ensure(end).await?;
        let slot = self.states.vacate()? as u32;
        let state = State { pos, rows, slot, ..State::default() };
        self.put(Control::Prefill, bytes_of(&state))?;
        self.put_last(state)?;
        let uses = self.uses(Pass::Prefill, rows, |_| true).await?;
        let tops = |of: &Use, steps: &[usize]| {
            steps.iter().map(|i| self.plans()[Pass::Prefill].steps[*i].operations(pos, rows)).sum::<f64>() / of.ms / 1e9
        };
        Ok(uses.into_iter().map(|(of, steps)| PrefillRow { tops: tops(&of, &steps), of }).collect())
    }

    /// Measures whole passes of few rows that end at `end`, in a vacated slot; none where they are not compiled yet.
    pub async fn profile_few(&mut self, end: u32) -> Result<Vec<RowsTime>> {
        self.ensure(end).await?;
        let slot = self.states.vacate()? as u32;
        let mut times = Vec::new();
        for rows in [1, 2, 4, 8].into_iter().filter(|rows| *rows <= end && self.has(Pass::Few)) {
            let state = State { pos: end - rows, rows, slot, ..State::default() };
            self.put(Control::Prefill, bytes_of(&state))?;
            self.put_last(state)?;
            times.push(RowsTime {
                rows,
                ms: self.time(&self.steps(Pass::Few).iter().collect::<Vec<_>>(), rows, LEAST_MS).await?,
                kernels: Vec::new(),
            });
        }
        Ok(times)
    }

    /// Measures whole decode steps at `position` of one row and, where the model has them, of several, in a vacated
    /// slot.
    pub async fn profile_steps(&mut self, position: u32) -> Result<Vec<RowsTime>> {
        self.prepare_steps().await?;
        self.ensure(position + FEW).await?;
        let slot = self.states.vacate()? as u32;
        // Greedy steps, without the stages that would advance the state.
        let timed =
            |stage| matches!(stage, Stage::Embed | Stage::Layer(_) | Stage::Tail(_) | Stage::Head | Stage::Choose);
        let mut times = Vec::new();
        for pass in [Pass::Decode].into_iter().chain(Pass::STEPS).filter(|pass| !self.steps(*pass).is_empty()) {
            let rows = pass.rows(self.sizes());
            self.put(
                Control::Decode,
                bytes_of(&State { pos: position, rows, limit: u32::MAX, slot, ..State::default() }),
            )?;
            let steps: Vec<_> = self.steps(pass).iter().filter(|step| timed(step.stage)).collect();
            let ms = self.time(&steps, rows, LEAST_MS).await?;
            let kernels = self.uses(pass, rows, timed).await?.into_iter().map(|(used, _)| used).collect();
            times.push(RowsTime { rows, ms, kernels });
        }
        Ok(times)
    }

    /// Measures the uses of kernels in a compiled pass with `rows` rows; returns each with its steps.
    async fn uses(&self, pass: Pass, rows: u32, wanted: impl Fn(Stage) -> bool) -> Result<Vec<(Use, Vec<usize>)>> {
        let (steps, encoded) = (&self.plans()[pass].steps, self.steps(pass));
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (i, step) in steps.iter().enumerate().filter(|(_, step)| wanted(step.stage)) {
            let name = format!("{} {}", kind(&step.name), step.variant);
            match groups.iter_mut().find(|g| g.0 == name) {
                Some(group) => group.1.push(i),
                None => groups.push((name, vec![i])),
            }
        }
        let mut uses = Vec::new();
        for (_, of_one) in groups {
            let ms = self.time(&of_one.iter().map(|i| &encoded[*i]).collect::<Vec<_>>(), rows, LEAST_MS).await?;
            let (step, calls) = (&steps[of_one[0]], of_one.len());
            let (kernel, variant) = (step.variant.kernel, step.variant.name);
            uses.push((
                Use {
                    step: kind(&step.name).to_owned(),
                    kernel,
                    variant,
                    calls,
                    us: ms * 1000.0 / calls as f64,
                    ms,
                    percent: 0.0,
                },
                of_one,
            ));
        }
        let total: f64 = uses.iter().map(|u| u.0.ms).sum();
        for (of, _) in &mut uses {
            of.percent = 100.0 * of.ms / total;
        }
        Ok(uses)
    }

    /// Milliseconds of one pass over `steps`, with `rows` rows, by the wall clock, with the GPU kept busy for at least
    /// `least_ms`.
    pub(super) async fn time(&self, steps: &[&Encoded], rows: u32, least_ms: f64) -> Result<f64> {
        // The first round also ends earlier work and raises the GPU's clock: it does not count.
        self.round(steps, rows, 1).await?;
        let latency = self.gpu.latency_ms();
        // Long enough that the phase of a periodic poll does not matter; a minimum of zero stays zero.
        let least_ms = if least_ms > 0.0 { least_ms.max(POLLS * latency) } else { 0.0 };
        let mut passes = 1;
        loop {
            let ms = self.round(steps, rows, passes).await?;
            let busy = ms - latency;
            if busy >= least_ms || least_ms == 0.0 {
                // The difference of two lengths cancels the latency; where that is negligible, one length suffices.
                let fewer = passes / 4;
                if latency < NOTICED_MS || fewer == 0 {
                    return Ok(busy.max(0.1 * ms) / passes as f64);
                }
                let less = self.round(steps, rows, fewer).await?;
                return Ok((ms - less).max(0.1 * ms) / (passes - fewer) as f64);
            }
            passes = (passes * 2).max((passes as f64 * least_ms * 1.2 / busy.max(0.1)) as usize).min(passes * 50);
        }
    }

    /// The wall clock's time of `passes` passes, from an idle GPU to an idle GPU, ms.
    pub(super) async fn round(&self, steps: &[&Encoded], rows: u32, passes: usize) -> Result<f64> {
        let started = now_ms();
        self.repeat(steps, rows, passes, None);
        self.gpu.idle().await?;
        Ok(now_ms() - started)
    }

    /// Records and submits `passes` passes over `steps`. Their end is written to the query `end`.
    fn repeat(&self, steps: &[&Encoded], rows: u32, passes: usize, end: Option<(&wgpu::QuerySet, u32)>) {
        let mut left = passes;
        while left > 0 {
            let now = left.min((400 / steps.len().max(1)).max(1));
            left -= now;
            let end = end.filter(|_| left == 0).map(|(query_set, at)| wgpu::ComputePassTimestampWrites {
                query_set,
                beginning_of_pass_write_index: None,
                end_of_pass_write_index: Some(at),
            });
            let mut encoder = self.gpu.encoder("profile");
            {
                let mut pass =
                    encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes: end });
                for _ in 0..now {
                    for step in steps {
                        self.gpu.dispatch(&mut pass, &step.bound, step.grid.at(rows));
                    }
                }
            }
            self.gpu.submit(encoder);
        }
    }

    /// Milliseconds of one pass over each candidate's steps: medians over `rounds`, in which the candidates take turns
    /// of about `slice_ms`. On devices with timestamps the GPU does not wait for the host between turns, and a turn is
    /// measured from the end of the one before to its own.
    pub(super) async fn compare(&self, candidates: &[Vec<Encoded>], slice_ms: f64, rounds: usize) -> Result<Vec<f64>> {
        let candidates: Vec<Vec<&Encoded>> = candidates.iter().map(|steps| steps.iter().collect()).collect();
        let mut fastest = f64::INFINITY;
        for steps in &candidates {
            fastest = fastest.min(self.time(steps, 1, slice_ms / 4.0).await?);
        }
        let passes = ((slice_ms / fastest) as usize).max(1);
        let mut times = vec![Vec::new(); candidates.len()];
        if self.gpu.caps().timestamps() {
            // One more turn at the beginning, whose end is the start of the first.
            let turns: Vec<usize> = std::iter::once(0).chain((0..rounds).flat_map(|_| 0..candidates.len())).collect();
            let timeline = self.gpu.timeline(turns.len() as u32)?;
            for (i, c) in turns.iter().enumerate() {
                self.repeat(&candidates[*c], 1, passes, Some((&timeline.queries, i as u32)));
            }
            let ends = self.gpu.times(&timeline).await?;
            for (c, pair) in turns[1..].iter().zip(ends.windows(2)) {
                times[*c].push((pair[1] - pair[0]) / passes as f64);
            }
        } else {
            for (c, of_one) in (0..rounds).flat_map(|_| 0..candidates.len()).map(|c| (c, &candidates[c])) {
                times[c].push(self.time(of_one, 1, slice_ms).await?);
            }
        }
        for of_one in &mut times {
            of_one.sort_by(f64::total_cmp);
        }
        Ok(times.into_iter().map(|of_one| of_one[of_one.len() / 2]).collect())
    }

    /// Reads a large buffer as fast as the device can, GB/s.
    pub async fn streaming_bandwidth(&self) -> Result<f64> {
        let bytes = STREAM_BYTES.min(self.gpu.caps().max_binding) / 65_536 * 65_536;
        let usage = wgpu::BufferUsages::STORAGE;
        let data = self.gpu.buffer("stream", bytes, usage)?;
        let out = self.gpu.buffer("stream.sum", 4 * 256 * 4, usage)?;
        let state = self.gpu.buffer_with(
            "stream.state",
            bytes_of(&State { rows: 1, ..State::default() }),
            wgpu::BufferUsages::UNIFORM,
        )?;
        let variant = kernels::by_name("stream_read", "default")?;
        let words = bytes / 16;
        let buffers = [("state", state), ("data", data), ("sums", out)];
        let bound = self.gpu.bind("stream", variant, &[("WORDS", words as f64)], &buffers)?;
        let groups = u32::try_from(words / u64::from(variant.workgroup[0] * STREAMED)).unwrap_or(u32::MAX);
        let encoded = Encoded { stage: Stage::Embed, bound, grid: Grid::folded(groups) };
        let mut best = 0.0_f64;
        for _ in 0..3 {
            best = best.max(bytes as f64 / self.time(&[&encoded], 1, LEAST_MS).await? / 1e6);
        }
        Ok(best)
    }
}

/// The part of a step's name that all layers share: `blk.3.qkv` -> `qkv`.
fn kind(name: &str) -> &str {
    match name.strip_prefix("blk.").and_then(|rest| rest.split_once('.')) {
        Some((_, part)) => part,
        None => name,
    }
}
