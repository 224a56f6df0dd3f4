//! Helpers of several test modules.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use millrace::base::Cancel;
use millrace::decode::Speculate;
use millrace::engine::{Engine, Event, Generation, LoadOptions, Request};
use millrace::format::Checkpoint;
use millrace::gpu::DeviceChoice;
use millrace::source::{ByteSource, Files, MemorySource};

/// A path under tests/data.
pub fn data(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(path)
}

/// The bytes of a file under tests/data.
pub fn bytes(path: &str) -> Vec<u8> {
    std::fs::read(data(path)).unwrap_or_else(|e| panic!("tests/data/{path}: {e}"))
}

/// Each line of a file under tests/data as JSON.
pub fn json_lines(path: &str) -> Vec<serde_json::Value> {
    let text = String::from_utf8(bytes(path)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("tests/data/{path}: {e}"))).collect()
}

/// Files in memory, by name.
pub fn files(list: impl IntoIterator<Item = (String, Vec<u8>)>) -> Files {
    list.into_iter()
        .map(|(name, bytes)| (name.clone(), Rc::new(MemorySource::new(name, bytes)) as Rc<dyn ByteSource>))
        .collect()
}

/// Opens a checkpoint from files in memory.
pub fn open(list: impl IntoIterator<Item = (String, Vec<u8>)>) -> millrace::Result<Checkpoint> {
    pollster::block_on(Checkpoint::open(&files(list)))
}

/// Processor time of this thread, seconds, where the system tells: other processes do not count.
pub fn processor_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(text.split_whitespace().next()?.parse::<u64>().ok()? as f64 / 1e9)
}

/// The result of `work`, and its [`processor_seconds`]: 0 where the system does not tell.
pub fn worked<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = processor_seconds();
    let made = work();
    (made, processor_seconds().zip(began).map_or(0.0, |(now, began)| now - began))
}

/// A safetensors file that holds one small tensor, for folders whose tokenizer is what matters.
pub fn tiny_safetensors() -> Vec<u8> {
    let header = br#"{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat()
}

thread_local!(static DEVICE: Cell<Option<DeviceChoice>> = const { Cell::new(None) });

/// A guard: until it is dropped, [`load`] in this thread uses this device.
#[must_use]
pub struct On {
    before: Option<DeviceChoice>,
}

impl Drop for On {
    fn drop(&mut self) {
        DEVICE.set(self.before);
    }
}

/// For tests of the layers above a device: the CPU runs the same plans, loop, caches and states, without compiling
/// shaders, which takes most of the time on a software GPU. `MILLRACE_TEST_GPU=1`, which `npm run test:long` sets,
/// leaves these tests on the GPU.
pub fn on_cpu() -> On {
    let all_on_gpu = std::env::var_os("MILLRACE_TEST_GPU").is_some_and(|set| !set.is_empty());
    On { before: DEVICE.replace(if all_on_gpu { None } else { Some(DeviceChoice::Cpu) }) }
}

/// For parts of such a test that run on the GPU as well.
pub fn on_gpu() -> On {
    On { before: DEVICE.replace(None) }
}

/// The device of this thread's test; `None` is the GPU.
pub fn device() -> Option<DeviceChoice> {
    DEVICE.get()
}

/// What an answer has that is cancelled once it has more than so many pieces.
pub fn leave(engine: &mut Engine, request: &Request, pieces: u32) -> Generation {
    let (cancel, mut heard) = (Cancel::new(), 0);
    let hear = &mut |event: Event<'_>| {
        heard += u32::from(matches!(event, Event::Delta(_)));
        if heard > pieces {
            cancel.cancel();
        }
    };
    pollster::block_on(engine.generate(request, hear, &cancel)).expect("a part of a text")
}

/// A fixture for each kind of layer.
pub const EACH_KIND: [&str; 21] = [
    "gguf-q4_0",
    "gguf-q4_k_m",
    "hf-biases/model",
    "hf-window/model",
    "gemma2-gguf",
    "gemma3-gguf",
    "gpt2-gguf",
    "granitemoe-gguf",
    "olmo3-gguf",
    "qwen3-gguf",
    "qwen3moe-gguf",
    "stablelm-gguf",
    "lfm2-gguf",
    "lfm2moe-gguf",
    "qwen35-gguf",
    "qwen35moe-gguf",
    "falconh1-gguf",
    "granitehybridmoe-gguf",
    "nemotronh-gguf",
    "gemma4-gguf",
    "gemma4experts-gguf",
];

/// Forty requests, some of which are cancelled first and some in a conversation: the texts of an engine without drafts
/// and of one with drafts are the same. Returns the numbers of drafts, and of those that were right.
pub fn forty_alike(mut engines: [(Engine, Speculate); 2], ask: impl Fn(u32) -> Request) -> [u64; 2] {
    let (mut drafted, mut accepted) = (0, 0);
    for n in 0..40 {
        let texts = engines.each_mut().map(|(engine, speculate)| {
            let asked = Request { speculate: Some(*speculate), ..ask(n) };
            if n % 3 == 1 {
                let left = leave(engine, &Request { max_tokens: Some(200), ..asked.clone() }, n % 4);
                assert!(left.tokens.len() < 200);
            }
            let request = Request { reuse: n % 2 == 1, ..asked };
            let text = pollster::block_on(engine.generate(&request, &mut |_| {}, &Cancel::new())).expect("a text");
            drafted += text.drafted_tokens;
            accepted += text.accepted_tokens;
            text.tokens
        });
        assert_eq!(texts[0], texts[1], "prompt {n}");
    }
    [drafted, accepted]
}

/// An engine of these files, on this [`device`] where the options name none.
pub fn load(files: &Files, options: &LoadOptions) -> millrace::Result<Engine> {
    let options = LoadOptions { device: options.device.or(device()), ..options.clone() };
    pollster::block_on(Engine::load(files, &options, &|_| {}, &Cancel::new()))
}
