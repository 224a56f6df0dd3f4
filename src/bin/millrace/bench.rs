//! `millrace bench`: speed, kernel by kernel where asked for, or what a lane costs in quality.

use clap::Args;
use millrace::base::{Cancel, Progress};
use millrace::bench::{self, Options};
use millrace::engine::LoadOptions;
use millrace::native;
use millrace::native::grammar::InProcess;
use millrace::source::ModelSpec;
use millrace::{Error, Result};
use serde::Serialize;

use crate::cli::{keep, show_download};
use crate::options::Flags;
use crate::tables;

#[derive(Args)]
pub struct Bench {
    /// A model instead of random weights: builtin, or a .gguf file, a folder with safetensors, or a URL of either.
    #[arg(long)]
    model: Option<String>,
    #[command(flatten)]
    options: Flags<Options>,
    #[command(flatten)]
    how: Flags<LoadOptions>,
    /// Instead of speed: the lane's logits against the exact lane's. Of the model in the box if --model is not given.
    #[arg(long)]
    quality: bool,
    /// With --quality: positions to compare.
    #[arg(long, default_value_t = 2000, requires = "quality")]
    positions: u32,
    /// One JSON object on the last line.
    #[arg(long)]
    json: bool,
}

impl Bench {
    /// Runs the command.
    pub async fn run(self) -> Result<()> {
        let load = self.how.options();
        let cancel = Cancel::new();
        let progress = |p: Progress| show_download(&p);
        let model = if self.quality {
            Some(self.model.clone().unwrap_or_else(|| "builtin".into()))
        } else {
            self.model.clone()
        };
        let files = match &model {
            Some(model) => Some(native::origin(&ModelSpec::parse(model)?)?.files(&progress, &cancel).await?),
            None => None,
        };
        if let (true, Some(files)) = (self.quality, &files) {
            let q = bench::quality(files, &load, self.positions, &progress, &cancel).await?;
            println!(
                "{} {} (kv {}) against exact on {} ({})",
                q.model, q.lane, q.kv, q.adapter.name, q.adapter.backend
            );
            println!("positions    {} of {} texts", q.positions, q.texts);
            println!("KL           mean {:.2e}, 99 % below {:.2e}, largest {:.2e} nats", q.kl_mean, q.kl_p99, q.kl_max);
            println!("top-1        {:.2} % the same", q.top1 * 100.0);
            return self.print_json(&q);
        }
        let options = Options { load, ..self.options.0.clone() };
        let status = |status| {
            if let bench::Status::Load(loading) = status {
                progress(loading);
            }
        };
        let report = bench::run(&options, files.as_ref(), Some(&InProcess), &status, &cancel).await?;
        keep(&report.tuning);
        println!(
            "{} {} {} on {} ({})",
            report.shape, report.quant, report.lane, report.adapter.name, report.adapter.backend
        );
        println!(
            "decode       {:.1} tok/s after {} tokens of prompt, {} tokens, median of {}",
            report.decode_tok_s,
            report.prompt,
            report.gen_tokens,
            report.runs.len()
        );
        let drafts = report.runs.iter().fold((0, 0), |(right, all), run| (right + run.accepted, all + run.drafted));
        if drafts.1 > 0 {
            println!("drafts       {} of {} right", drafts.0, drafts.1);
        }
        println!("prefill      {:.1} tok/s; first token after {:.1} ms", report.prefill_tok_s, report.ttft_ms);
        println!(
            "latency      P50 {:.3}, P95 {:.3} ms a token; recording {:.1} us a token",
            report.latency_ms[0], report.latency_ms[1], report.record_us
        );
        println!(
            "per token    {:.1} dispatches, {:.2} submits, a readback every {:.1} tokens, {:.1} MB: {:.1} % of the {:.0} GB/s that the device streams",
            report.dispatches_per_token,
            report.submits_per_token,
            report.tokens_per_readback,
            report.bytes_per_token as f64 / 1e6,
            report.percent_of_streaming,
            report.streaming_gb_s
        );
        println!(
            "memory       {:.1} MB at most, {:.1} MB of it weights, {:.1} MB cache",
            report.gpu_bytes as f64 / 1e6,
            report.weight_bytes as f64 / 1e6,
            report.cache_bytes as f64 / 1e6
        );
        let tuned = &report.tuned;
        println!(
            "tuner        {} operations measured in {:.0} ms, {} run another variant now",
            tuned.measured, tuned.ms, tuned.changed
        );
        if !report.profile.is_empty() {
            tables::profile(&report.profile);
            tables::prefill(&report.prefill_profile);
            tables::few_rows(&report.few_rows);
        }
        for step in &report.step_rows {
            println!("step         {} rows {:.4} ms", step.rows, step.ms);
            for used in &step.kernels {
                println!("  {:<28} {:<44} {:>4} x {:>8.2} us", used.step, used.variant, used.calls, used.us);
            }
        }
        for company in &report.company {
            println!(
                "together     {} answers: {:.1} tok/s, {:.2} times one alone",
                company.answers, company.tok_s, company.times
            );
        }
        for turn in &report.second_turn {
            println!(
                "second turn  first token after {:.1} ms: {} tokens after a first prompt of {}, {} of them not read again",
                turn.ttft_ms, turn.tokens, turn.after, turn.cached
            );
        }
        if let Some(idle) = &report.idle {
            let [cold, warmed] = [idle.cold, idle.warmed]
                .map(|(speed, first)| format!("{speed:.1} tok/s, first token after {first:.1} ms"));
            println!("after a rest {cold}; warmed up {warmed}");
        }
        if let Some(forced) = &report.forced {
            println!(
                "grammar      {:.1} tok/s forced, {:.1} free: {:.1} %; {} states, {} bytes, compiled in {:.1} ms",
                forced.forced_tok_s,
                forced.free_tok_s,
                forced.ratio * 100.0,
                forced.states,
                forced.bytes,
                forced.compile_ms
            );
        }
        for of in &report.copies {
            let [auto, always] = [of.auto, of.always]
                .map(|with| format!("{:.2} times ({} of {} right)", with.times, with.accepted, with.drafted));
            println!(
                "copies       {}, {} tokens: {:.1} tok/s; auto {auto}, always {always}",
                of.text, of.tokens, of.tok_s
            );
        }
        if let Some(draft) = &report.draft {
            println!(
                "draft        {}: a step without drafts {:.4} ms; auto is {:.2} times as fast",
                draft.shape, draft.ms, draft.auto
            );
            for step in &draft.steps {
                println!(
                    "  {} drafts    {:.4} ms, {:.2} times; {:.2} tokens a step",
                    step.drafts, step.ms, step.times, step.tokens
                );
            }
        }
        if !report.kernels.is_empty() {
            tables::kernels(&report.kernels);
        }
        let wrong: Vec<_> = report
            .kernels
            .iter()
            .filter(|r| r.wrong.is_some())
            .map(|r| format!("{}={}", r.kernel, r.variant))
            .collect();
        self.print_json(&report)?;
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Error::gpu(format!("{} computed wrongly on this GPU", wrong.join(", "))))
        }
    }

    fn print_json(&self, value: &impl Serialize) -> Result<()> {
        if self.json {
            println!("{}", serde_json::to_string(value).map_err(|e| Error::internal(e.to_string()))?);
        }
        Ok(())
    }
}
