//! Options, and what each command does with them.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use clap::{Args, Parser, Subcommand};
use millrace::base::options::{Options as _, Scaled};
use millrace::base::{Cancel, Phase, Progress};
use millrace::convert;
use millrace::engine::{Engine, Event, Generation, LoadOptions, Prompt, Request};
use millrace::native;
use millrace::native::grammar::InProcess;
use millrace::native::tuning::write_tuning;
use millrace::plan::tuning::Tuning;
use millrace::source::disk::open_adapter;
use millrace::source::{Files, ModelSpec};
use millrace::weights::Recipe;
use millrace::{Error, Result};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::bisect::Bisect;
use crate::embed::{Embed, Rerank};
use crate::examine::Examine;
use crate::options::Flags;
use crate::pictures;
use crate::schema::Schema;
use crate::tables;
use crate::texts::{self, Answer, Parse, Render};

/// Runs large language models on the GPU.
#[derive(Parser)]
#[command(name = "millrace", version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Continue a text or answer a message.
    Generate(Box<Generate>),
    /// Make embeddings of texts: vectors whose products say how near texts are.
    Embed(Box<Embed>),
    /// Judge how well documents answer a question, the best first.
    Rerank(Box<Rerank>),
    /// Print the prompt that a model's chat template makes of messages.
    Render(Render),
    /// Read a model's answer from standard input and tell its text, thoughts and calls of tools apart.
    Parse(Parse),
    /// Compile a JSON Schema, and say which JSON texts it accepts.
    Schema(Schema),
    /// Tell what a model is, whether it runs, and what is missing, from its headers and configuration.
    Model(Examine),
    /// Print what a model is and how it would run.
    Inspect(Box<Inspect>),
    /// Turn a GGUF file or a folder with safetensors into shards that load as a copy (docs/FORMAT.md).
    Convert(Convert),
    /// Measure a model, or random weights in a known model's shape.
    Bench(Box<Bench>),
    /// Find the first kernel that computes something else than its twin on the CPU: on this GPU, with this model and
    /// prompt.
    Bisect(Box<Bisect>),
}

#[derive(Args)]
pub struct Load {
    /// builtin, or a .gguf file, a folder with safetensors, or a URL of either.
    #[arg(long, default_value = "builtin")]
    pub model: String,
    /// A tokenizer.json for a .gguf file whose way of cutting texts is not known here, or is wrong.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// A smaller model with the same tokens that drafts for the model, as for --model.
    #[arg(long, value_name = "MODEL")]
    draft: Option<String>,
    #[command(flatten)]
    how: Flags<LoadOptions>,
}

#[derive(Args)]
struct Generate {
    #[command(flatten)]
    load: Load,
    /// Text to continue.
    #[arg(long, group = "input")]
    prompt: Option<String>,
    /// A message to answer, through the model's chat template.
    #[arg(long, group = "input")]
    chat: Option<String>,
    /// A file with a list of messages, {"role", "content"}; or an object with "messages" and "tools".
    #[arg(long, group = "input", value_name = "FILE.json")]
    messages: Option<PathBuf>,
    /// A picture that the message shows before its text, PNG, JPEG or WebP; more than once for several.
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Token ids to continue, 1,2,3.
    #[arg(long, group = "input", value_delimiter = ',')]
    tokens: Option<Vec<u32>>,
    /// A file with a list of tools, as OpenAI's clients give them: calls of them are told apart from the text.
    #[arg(long, value_name = "FILE.json")]
    tools: Option<PathBuf>,
    /// A LoRA adapter to answer with: a folder that PEFT has saved, or a .gguf file; =SCALE behind it multiplies what
    /// it adds.
    #[arg(long, value_name = "PATH[=SCALE]")]
    lora: Option<String>,
    /// A file with a JSON Schema that the answer has to satisfy.
    #[arg(long, value_name = "FILE.json")]
    schema: Option<PathBuf>,
    #[command(flatten)]
    request: Flags<Request>,
    /// Show the browser: only with `npm run generate`.
    #[arg(long)]
    headed: bool,
    /// One JSON object on the last line.
    #[arg(long)]
    json: bool,
    /// Also write the logits of the prompt's last position, {"logits": [...]}.
    #[arg(long, value_name = "FILE.json")]
    logits: Option<PathBuf>,
}

#[derive(Args)]
struct Convert {
    /// A .gguf file (any part of a split one), a folder with safetensors, or a URL of either.
    #[arg(value_name = "SOURCE")]
    source: String,
    /// A new folder, or one with the remains of an interrupted conversion of the same source.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Quantize F32, F16 and BF16 weights: q4_0, q4_k (also called q4_k_m), q8_0 or f16.
    #[arg(long, value_name = "T", value_parser = Recipe::parse)]
    quantize: Option<Recipe>,
}

#[derive(Args)]
struct Inspect {
    #[command(flatten)]
    load: Load,
    /// The model, as for --model.
    #[arg(value_name = "MODEL")]
    source: Option<String>,
    /// Every step: kernel, variant, grid, bytes and reason.
    #[arg(long)]
    plan: bool,
    /// Everything as one JSON object.
    #[arg(long)]
    json: bool,
}

/// clap's complaint as one of ours, on one line.
pub fn usage(e: &clap::Error) -> Error {
    let text = e.to_string();
    let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let rest: Vec<&str> = text
        .lines()
        .skip(1)
        .take_while(|l| !l.starts_with("Usage"))
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with("For more information"))
        .collect();
    let rest = if rest.is_empty() { String::new() } else { format!(" {}", rest.join(" ")) };
    Error::bad_option(format!("{first}{rest}; see millrace --help"))
}

/// Runs the command.
pub async fn run(cli: Cli) -> Result<()> {
    match cli.command {
        Command::Generate(args) => generate(*args).await,
        Command::Embed(args) => args.run().await,
        Command::Rerank(args) => args.run().await,
        Command::Render(args) => args.run().await,
        Command::Parse(args) => args.run().await,
        Command::Schema(args) => args.run(),
        Command::Model(args) => args.run().await,
        Command::Inspect(args) => inspect(*args).await,
        Command::Convert(args) => convert(args).await,
        Command::Bench(args) => args.run().await,
        Command::Bisect(args) => args.run().await,
    }
}

impl Load {
    fn options(&self) -> Result<LoadOptions> {
        Ok(LoadOptions { tokenizer_json: self.tokenizer.as_deref().map(read_bytes).transpose()?, ..self.how.options() })
    }

    pub async fn engine(&self, model: &str) -> Result<Engine> {
        let options = self.options()?;
        let progress = |p: Progress| show_download(&p);
        let cancel = Cancel::new();
        let (mut engine, _) =
            Engine::open(&native::origin(&ModelSpec::parse(model)?)?, &options, &progress, &cancel).await?;
        if let Some(draft) = &self.draft {
            engine.open_draft(&native::origin(&ModelSpec::parse(draft)?)?, &progress, &cancel).await?;
        }
        let info = engine.info();
        if info.self_test.checked > 0 {
            let mut tuning = Tuning::default();
            engine.remember(&mut tuning);
            keep(&tuning);
        }
        for warning in &info.warnings {
            eprintln!("millrace: {warning}");
        }
        Ok(engine)
    }
}

/// Keeps what was found out about this GPU. Where that fails it is found out again the next time: no reason to end.
pub fn keep(tuning: &Tuning) {
    if let Err(e) = write_tuning(tuning) {
        eprintln!("millrace: measurements of this GPU cannot be kept: {e}");
    }
}

/// A download as one line of stderr that is written over, where a person watches. Reports come about once a megabyte.
pub fn show_download(progress: &Progress) {
    let mut err = std::io::stderr();
    if progress.phase != Phase::Download || progress.cached || !err.is_terminal() {
        return;
    }
    let (loaded, total) = (progress.loaded as f64 / 1e6, progress.total as f64 / 1e6);
    let file = progress.file.as_deref().unwrap_or("model");
    let end = if progress.total > 0 && progress.loaded >= progress.total { "\n" } else { "" };
    // Errors while writing the progress line are ignored.
    let _ = write!(err, "\r\x1b[K{file}: {loaded:.1} of {total:.1} MB{end}");
}

/// The bytes of a file.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::not_found(format!("{}: {e}", path.display())))
}

/// The value in a file of JSON.
pub fn read_json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::InvalidData => Error::bad_option(format!("{}: it is no JSON", path.display())),
        _ => Error::not_found(format!("{}: {e}", path.display())),
    })?;
    serde_json::from_str(&text).map_err(|e| Error::bad_option(format!("{}: {e}", path.display())))
}

fn request(args: &Generate) -> Result<Request> {
    let mut tools = None;
    let mut pictures = Vec::new();
    if !args.image.is_empty() && args.chat.is_none() {
        return Err(Error::bad_option("--image goes with --chat; messages of a file have pictures in their parts"));
    }
    let prompt = if let Some(text) = &args.prompt {
        Prompt::Text(text.clone())
    } else if let Some(text) = &args.chat {
        let (messages, of_files) = pictures::shown(&args.image, text)?;
        pictures = of_files;
        Prompt::Messages(messages)
    } else if let Some(path) = &args.messages {
        let (messages, with) = texts::messages(path)?;
        tools = with;
        pictures = pictures::of_messages(&messages)?;
        Prompt::Messages(messages)
    } else if let Some(ids) = &args.tokens {
        Prompt::Tokens(ids.clone())
    } else {
        return Err(Error::bad_option("nothing to continue: give --prompt, --chat, --messages or --tokens"));
    };
    if let Some(path) = &args.tools {
        if !matches!(prompt, Prompt::Messages(_)) {
            return Err(Error::bad_option("--tools goes with --chat or --messages"));
        }
        tools = Some(texts::tools(path)?);
    }
    let schema = match args.schema.as_deref().map(read_json).transpose()? {
        Some(Value::Object(schema)) => Some(schema),
        Some(_) => return Err(Error::bad_option("--schema: the file should hold a JSON Schema, an object")),
        None => None,
    };
    let asked = args.request.0.clone();
    if asked.logprobs.is_some() && !args.json {
        return Err(Error::bad_option("--logprobs needs --json"));
    }
    Ok(Request { prompt, pictures, tools, schema, logits: args.logits.is_some(), ..asked })
}

/// The files that `PATH[=SCALE]` names, and the scale.
fn adapter(text: &str) -> Result<(Files, Scaled)> {
    let scaled = text.rsplit_once('=').and_then(|(path, scale)| Some((path, scale.parse().ok()?)));
    let (path, scale) = scaled.unwrap_or((text, 1.0));
    Ok((open_adapter(Path::new(path))?, Scaled { name: path.to_owned(), scale }))
}

async fn generate(args: Generate) -> Result<()> {
    if args.headed {
        return Err(Error::bad_option("--headed shows the browser; it goes with npm run generate"));
    }
    let mut request = request(&args)?;
    let adapter = args.lora.as_deref().map(adapter).transpose()?;
    request.adapter = adapter.as_ref().map(|(_, scaled)| scaled.clone());
    request.check()?;
    let mut engine = args.load.engine(&args.load.model).await?;
    if let Some((files, scaled)) = adapter {
        engine.load_adapter(&scaled.name, &files, &Cancel::new()).await?;
    }
    engine.compile_with(Rc::new(InProcess));
    let mut out = std::io::stdout();
    let mut broken = None;
    let mut answer = Answer::default();
    let result = engine
        .generate(
            &request,
            &mut |event| {
                let Event::Delta(delta) = event else { return };
                let parts = answer.add(&delta.parts);
                let shown = if args.tools.is_some() { &parts } else { &delta.text };
                // A closed pipe is reported once, after the generation.
                if let Err(e) = out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
                    broken.get_or_insert(e);
                }
            },
            &Cancel::new(),
        )
        .await?;
    if let Some(e) = broken {
        return Err(Error::storage(format!("stdout: {e}")));
    }
    println!();
    if let Some(path) = &args.logits {
        write_logits(path, &args, &result)?;
    }
    if let Some(rows) = &result.profile {
        tables::profile(rows);
    }
    if args.json {
        let shown = Generation { logits: None, all_logits: None, ..result };
        let mut shown = serde_json::to_value(&shown).map_err(|e| Error::internal(e.to_string()))?;
        if matches!(request.prompt, Prompt::Messages(_)) {
            answer.add_to(&mut shown);
        }
        println!("{shown}");
    } else {
        let t = &result.timings;
        eprintln!(
            "{} tokens, {:.1} tok/s (prompt {} tokens, {:.1} tok/s; first token after {:.0} ms) on {}",
            result.tokens.len(),
            t.decode_tok_s,
            result.prompt_tokens,
            t.prefill_tok_s,
            t.ttft_ms,
            result.adapter.name
        );
    }
    Ok(())
}

fn write_logits(path: &Path, args: &Generate, result: &Generation) -> Result<()> {
    let mut object = json!({ "logits": result.logits });
    if let (Some(from), Some(all)) = (args.request.0.logits_from, &result.all_logits) {
        object["from"] = json!(from);
        object["all"] = json!(all);
    }
    std::fs::write(path, object.to_string()).map_err(|e| Error::storage(format!("{}: {e}", path.display())))
}

async fn convert(args: Convert) -> Result<()> {
    let spec = ModelSpec::parse(&args.source)?;
    let cancel = Cancel::new();
    let files = native::open_parts(&spec, &|p| show_download(&p), &cancel).await?;
    let started = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    let mut bar = |at: convert::Converted| {
        let seconds = started.elapsed().as_secs_f64();
        let speed = (at.done - at.kept) as f64 / 1e6 / seconds.max(1e-3);
        if terminal {
            let width = (30 * at.done).checked_div(at.total).unwrap_or(30) as usize;
            let (done, total) = (at.done as f64 / 1e6, at.total as f64 / 1e6);
            let left = if speed > 0.0 { format!(", {:.0} s left", (total - done) / speed) } else { String::new() };
            let _ = write!(
                std::io::stderr(),
                "\r\x1b[K[{:<30}] {done:.0} of {total:.0} MB, {speed:.0} MB/s{left}",
                "#".repeat(width)
            );
        }
    };
    let options = convert::Options { quantize: args.quantize, ..convert::Options::default() };
    let manifest = convert::convert(&files, &args.out, options, &mut bar, &cancel).await;
    if terminal {
        eprintln!();
    }
    let manifest = manifest?;
    let bytes: u64 = manifest.shards.iter().map(|shard| shard.bytes).sum();
    println!(
        "{}: {} with {:.1} M parameters in {} shard{}, {:.1} MB, {:.1} s",
        args.out.join("manifest.json").display(),
        manifest.architecture,
        manifest.parameters as f64 / 1e6,
        manifest.shards.len(),
        if manifest.shards.len() == 1 { "" } else { "s" },
        bytes as f64 / 1e6,
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn inspect(args: Inspect) -> Result<()> {
    let source = args.source.as_deref().unwrap_or(&args.load.model);
    let files = native::open_parts(&ModelSpec::parse(source)?, &|p| show_download(&p), &Cancel::new()).await?;
    let info = Engine::inspect(&files, &args.load.how.options()).await?;
    if args.json {
        return show(&[serde_json::to_string(&info).map_err(|e| Error::internal(e.to_string()))?]);
    }
    let mut lines = Vec::new();
    let mib = |bytes: u64| bytes as f64 / 1048576.0;
    lines.push(format!(
        "model        {} ({}, {} layers, {:.1} M parameters, {} tokens)",
        info.model.name.as_deref().unwrap_or(source),
        info.model.architecture,
        info.model.layers,
        info.model.parameters as f64 / 1e6,
        info.model.vocab
    ));
    let types: Vec<_> = info.model.types.iter().map(|(t, n)| format!("{t} x {n}")).collect();
    lines.push(format!("tensors      {}; {:.1} MiB in the file", types.join(", "), mib(info.model.bytes)));
    for left in &info.model.left_out {
        lines.push(format!(
            "left out     {} x {}: {:.1} MiB, no part of the language model",
            left.what,
            left.tensors,
            mib(left.bytes)
        ));
    }
    for c in &info.model.converted {
        lines.push(format!(
            "converted    {} x {} to {} while loading: {:.1} MiB become {:.1}",
            c.from,
            c.tensors,
            c.to,
            mib(c.bytes_before),
            mib(c.bytes_after)
        ));
    }
    lines.push(format!("context      {} of {}", info.context, info.model.context));
    lines.push(format!(
        "adapter      {} {} ({}); features {}; subgroups {:?}",
        info.adapter.vendor,
        info.adapter.name,
        info.adapter.backend,
        info.adapter.features.join(" "),
        info.adapter.subgroup
    ));
    lines.push(format!("lane         {}", info.lane.name()));
    lines.extend(info.lane_choice.as_ref().map(|choice| format!("             {}", choice.reason)));
    lines.push(format!(
        "GPU memory   weights {:.1}, cache {:.1} at first and {:.1} once the context is full, activations {:.1}, to grow and to keep other chats {:.1}, in all {:.1} MiB at most",
        mib(info.memory.weights),
        mib(info.memory.kv),
        mib(info.memory.kv_full),
        mib(info.memory.activations),
        mib(info.memory.spare),
        mib(info.memory.weights + info.memory.kv_full + info.memory.activations + info.memory.spare)
    ));
    if args.plan {
        lines.push(format!(
            "\n{:<8} {:<26} {:<18} {:<18} {:<14} {:>12}  reason",
            "pass", "step", "kernel", "variant", "grid", "bytes"
        ));
        for r in &info.plan {
            lines.push(format!(
                "{:<8} {:<26} {:<18} {:<18} {:<14} {:>12}  {} [{}]",
                r.pass,
                r.step,
                r.kernel,
                r.variant,
                format!("{}x{}", r.grid[0], r.grid[1]),
                r.bytes,
                r.reason,
                r.place
            ));
        }
    }
    show(&lines)
}

fn show(lines: &[String]) -> Result<()> {
    print(&format!("{}\n", lines.join("\n")))
}

/// Writes to standard output, which its reader may have closed.
pub fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::storage(format!("stdout: {e}"))),
        _ => Ok(()),
    }
}
