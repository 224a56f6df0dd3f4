//! States of sequences through all operations on conversations, with all kinds of layers: keys and values of all
//! positions, of a window, of another layer, and a recurrent state, whose running sum shows each step that ran once too
//! often or was read twice. The model is random; the expected answer is that of a fresh engine that reads the whole
//! text at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::LazyLock;

use millrace::ErrorKind;
use millrace::base::Cancel;
use millrace::decode::{Speculate, move_in_stages_of};
use millrace::engine::{Engine, Event, Faults, FinishReason, Generation, LoadOptions, Overflow, Prompt, Request};
use millrace::gpu::Refuse;
use millrace::layout::Kv;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use millrace::source::{ByteSource, Files, MemorySource};
use millrace::store::Memory;
use pollster::block_on;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde_json::{Value, json};

use crate::common::{self, on_cpu};
use crate::decode_loop::run;
use crate::device_lost::disturbed;

const WIDTH: usize = 64;
const VOCAB: usize = 301;
const WINDOW: usize = 16;
const LAYERS: [&str; 6] =
    ["full_attention", "running_sum", "sliding_attention", "running_sum", "shared_attention", "sliding_attention"];

/// The toy's files, in memory: random weights, and the tokenizer of another fixture.
fn files() -> Files {
    static MADE: LazyLock<BTreeMap<&str, Vec<u8>>> = LazyLock::new(|| {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/hf-single/model");
        let mut config: Value = serde_json::from_slice(&std::fs::read(fixture.join("config.json")).unwrap()).unwrap();
        for (key, value) in [
            ("architectures", json!(["MillraceToyForCausalLM"])),
            ("hidden_size", json!(WIDTH)),
            ("intermediate_size", json!(96)),
            ("num_hidden_layers", json!(LAYERS.len())),
            ("layer_types", json!(LAYERS)),
            ("sliding_window", json!(WINDOW)),
        ] {
            config[key] = value;
        }
        for unread in ["attention_bias", "mlp_bias"] {
            config.as_object_mut().unwrap().remove(unread);
        }
        let mut files =
            BTreeMap::from([("config.json", serde_json::to_vec(&config).unwrap()), ("model.safetensors", weights())]);
        for name in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
            files.insert(name, std::fs::read(fixture.join(name)).unwrap());
        }
        files
    });
    MADE.iter()
        .map(|(name, bytes)| {
            ((*name).to_owned(), Rc::new(MemorySource::new(*name, bytes.clone())) as Rc<dyn ByteSource>)
        })
        .collect()
}

fn weights() -> Vec<u8> {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    // Nearly normal: a sum of uniform numbers.
    let mut random = || {
        let mut uniform = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 40) as f32 / (1 << 24) as f32 - 0.5
        };
        (uniform() + uniform() + uniform()) * 2.0
    };
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    let mut add = |name: String, shape: Vec<usize>| {
        let n = shape.iter().product();
        let ones = shape.len() == 1;
        let scale = if name.contains("embed") { 1.0 } else { 1.0 / (shape[shape.len() - 1] as f32).sqrt() };
        let values: Vec<u8> = (0..n).flat_map(|_| if ones { 1.0 } else { random() * scale }.to_le_bytes()).collect();
        tensors.push((name, shape, values));
    };
    let (h, g, e) = (2, 1, 32);
    add("model.embed_tokens.weight".into(), vec![VOCAB, WIDTH]);
    for (i, kind) in LAYERS.iter().enumerate() {
        let at = |part: &str| format!("model.layers.{i}.{part}.weight");
        add(at("input_layernorm"), vec![WIDTH]);
        add(at("post_attention_layernorm"), vec![WIDTH]);
        if *kind != "running_sum" {
            add(at("self_attn.q_proj"), vec![h * e, WIDTH]);
            add(at("self_attn.o_proj"), vec![WIDTH, h * e]);
        }
        if kind.ends_with("_attention") && *kind != "shared_attention" {
            add(at("self_attn.k_proj"), vec![g * e, WIDTH]);
            add(at("self_attn.v_proj"), vec![g * e, WIDTH]);
        }
        add(at("mlp.gate_proj"), vec![96, WIDTH]);
        add(at("mlp.up_proj"), vec![96, WIDTH]);
        add(at("mlp.down_proj"), vec![WIDTH, 96]);
    }
    add("model.norm.weight".into(), vec![WIDTH]);
    add("lm_head.weight".into(), vec![VOCAB, WIDTH]);
    let views =
        tensors.iter().map(|(name, shape, values)| (name, TensorView::new(Dtype::F32, shape.clone(), values).unwrap()));
    serialize(views, None).unwrap()
}

thread_local! {
    /// The model of this thread's tests: the toy, or a fixture of a real architecture with recurrent layers.
    static MODEL: Cell<&'static str> = const { Cell::new("toy") };
}

/// Fixtures of architectures with recurrent layers.
const RECURRENT: [&str; 3] = ["lfm2-hf/model", "falconh1-hf/model", "qwen35moe-gguf/model.gguf"];

/// Runs a test with each of [`RECURRENT`] on the CPU: the toy runs on the GPU.
fn of_each(test: impl Fn()) {
    let _cpu = on_cpu();
    for model in RECURRENT {
        MODEL.set(model);
        test();
    }
    MODEL.set("toy");
}

fn files_of(model: &str) -> Files {
    match model {
        "toy" => files(),
        name => open_path(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle").join(name)).unwrap(),
    }
}

fn load(options: &LoadOptions) -> Engine {
    common::load(&files_of(MODEL.get()), options).unwrap()
}

fn exact(chunk: Option<u32>) -> LoadOptions {
    LoadOptions {
        lane: Lane::Exact,
        chunk,
        prefill_rows: Some(24),
        cache_start: Some(64),
        faults: Faults { loss_interval_ms: Some(0.0), ..Faults::default() },
        ..LoadOptions::default()
    }
}

fn ids(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i * 37 + seed * 101) % 290 + 1).collect()
}

fn ask(prompt: &[u32], n: u32) -> Request {
    Request {
        ignore_eos: true,
        max_tokens: Some(n),
        logprobs: Some(3),
        ..Request::new(Prompt::Tokens(prompt.to_vec()))
    }
}

/// The answer of an engine that has read nothing before.
fn fresh(prompt: &[u32], n: u32) -> Generation {
    // Begins with an engine, so that thread-locals of engines are dropped after the engines: where a test uses both
    // devices, the GPU is first.
    fn which() -> (&'static str, bool) {
        (MODEL.get(), common::device().is_some())
    }
    type Engines = BTreeMap<(&'static str, bool), Engine>;
    thread_local!(static ENGINES: RefCell<Engines> = RefCell::new(BTreeMap::from([(which(), load(&exact(Some(8))))])));
    ENGINES.with_borrow_mut(|engines| {
        let engine = engines.entry(which()).or_insert_with(|| load(&exact(Some(8))));
        run(engine, &Request { reuse: false, ..ask(prompt, n) })
    })
}

/// Asserts the answer of a fresh engine: equal tokens with equal log probabilities.
fn assert_fresh(result: &Generation, prompt: &[u32], what: &str) {
    let expected = fresh(prompt, result.tokens.len() as u32);
    assert_eq!(result.tokens, expected.tokens, "{}: {what}", MODEL.get());
    for (i, (a, b)) in result.logprobs.as_ref().unwrap().iter().zip(expected.logprobs.as_ref().unwrap()).enumerate() {
        let difference = (a.token.logprob - b.token.logprob).abs();
        assert!(difference < 1e-3, "{what}: the log probability of token {i} differs by {difference}");
    }
}

/// An answer that the caller ends after `tokens` tokens, in the middle of a chunk.
fn ended_after(engine: &mut Engine, request: &Request, tokens: usize) -> Generation {
    let cancel = Cancel::new();
    let mut seen = 0;
    let heard = &mut |event: Event<'_>| {
        if let Event::Delta(delta) = event {
            seen += delta.tokens.len();
            if seen >= tokens {
                cancel.cancel();
            }
        }
    };
    block_on(engine.generate(request, heard, &cancel)).unwrap()
}

/// The running sums themselves, compared by the next token's log probabilities: one step too many shows.
#[test]
fn a_step_too_many_is_seen() {
    let prompt = ids(30, 1);
    let once = fresh(&prompt, 4);
    // The last token read twice, which would show little in keys and values alone.
    let twice = fresh(&[&prompt[..], &prompt[29..]].concat(), 4);
    let first = |g: &Generation| g.logprobs.as_ref().unwrap()[0].top.clone();
    assert_ne!(first(&once), first(&twice));
    let engine = load(&exact(None));
    let kinds: Vec<_> = engine
        .info()
        .plan
        .iter()
        .filter(|row| row.pass == "decode" && row.step.starts_with("blk."))
        .map(|row| row.kernel)
        .collect();
    assert_eq!(kinds.iter().filter(|kernel| **kernel == "running_sum").count(), 2, "{kinds:?}");
    assert_eq!(kinds.iter().filter(|kernel| **kernel == "attention").count(), 4, "{kinds:?}");
}

#[test]
fn turns_go_on_from_what_was_read() {
    turns(&[(25, Some(16))]);
    MODEL.set(RECURRENT[2]);
    turns(&[(2, Some(16))]);
    MODEL.set("toy");
    // Shorter than a convolution, across chunks of linear attention.
    of_each(|| turns(&[(1, Some(1)), (2, Some(16)), (65, None)]));
    let _cpu = on_cpu();
    turns(&[(1, Some(1)), (23, Some(5)), (24, Some(16)), (25, Some(32)), (100, None)]);
}

fn turns(turns: &[(usize, Option<u32>)]) {
    for (turn, chunk) in turns.iter().copied() {
        let mut engine = load(&exact(chunk));
        let prompt = ids(turn, 1);
        let first = run(&mut engine, &ask(&prompt, 20));
        assert_fresh(&first, &prompt, "a first turn");
        assert_eq!(first.counters.created, 0, "nothing is created while decoding");
        let second = [&prompt[..], &first.tokens, &ids(9, 2)].concat();
        let result = run(&mut engine, &ask(&second, 20));
        // The GPU itself has ended the answer: no further step has run.
        assert_eq!(result.cached_tokens, turn + 19);
        assert_fresh(&result, &second, "a second turn");
        // Regenerated: a checkpoint lies at the prompt's end, with its logits.
        let again = run(&mut engine, &ask(&second, 20));
        assert_eq!(
            (again.cached_tokens, &again.tokens, &again.logprobs),
            (second.len(), &result.tokens, &result.logprobs)
        );
        assert_fresh(&again, &second, "regenerated");
        // An earlier turn, regenerated.
        let again = run(&mut engine, &ask(&prompt, 20));
        assert_eq!((again.cached_tokens, &again.tokens, &again.logprobs), (turn, &first.tokens, &first.logprobs));
        // Changed where no checkpoint is.
        let mut edited = second.clone();
        edited[turn / 2] = 7;
        let result = run(&mut engine, &ask(&edited, 20));
        assert_fresh(&result, &edited, "edited");
    }
}

#[test]
fn steps_beyond_the_end_never_count() {
    beyond_the_end(&[16], &[2, 17]);
    of_each(|| beyond_the_end(&[16], &[2, 17]));
    let _cpu = on_cpu();
    beyond_the_end(&[1, 3], &[1, 2, 17]);
    beyond_the_end(&[16], &[1, 2, 15, 16, 17, 40]);
    beyond_the_end(&[32], &[17, 40]);
}

fn beyond_the_end(chunks: &[u32], stops: &[usize]) {
    let prompt = ids(40, 3);
    let whole = fresh(&prompt, 60);
    for chunk in chunks.iter().copied() {
        for stop_at in stops.iter().copied() {
            let mut engine = load(&exact(Some(chunk)));
            let part = ended_after(&mut engine, &ask(&prompt, 60), stop_at);
            // The chunks in flight may have had all tokens.
            let reason = if part.tokens.len() < 60 { FinishReason::Abort } else { FinishReason::Length };
            assert_eq!(part.finish_reason, reason);
            assert!(part.tokens.len() >= stop_at && part.tokens == whole.tokens[..part.tokens.len()]);
            let next = [&prompt[..], &part.tokens, &ids(5, 4)].concat();
            let result = run(&mut engine, &ask(&next, 12));
            assert_fresh(&result, &next, &format!("chunk {chunk}, ended after {stop_at}"));
            let back = prompt.len() + part.tokens.len() - 1 - result.cached_tokens;
            assert!(back <= chunk as usize, "{back} tokens of chunks of {chunk} are read again");
        }
    }
}

/// Wrong drafts leave nothing in a state, wherever the text ends: at its limit, or where the caller ends it while further
/// steps with drafts are under way. What comes next shows it.
#[test]
fn drafts_leave_states_as_the_text_is() {
    drafts(&[4], &[40]);
    of_each(|| drafts(&[8], &[21]));
    let _cpu = on_cpu();
    drafts(&[1, 4, 32], &[3, 17, 40]);
}

fn drafts(chunks: &[u32], ends: &[usize]) {
    let prompt = ids(37, 3);
    // Sampled, so that some of what a draft model of the same weights says is right, and some wrong.
    let request = |prompt: &[u32], n, speculate| Request {
        speculate: Some(speculate),
        logprobs: None,
        temperature: 0.8,
        seed: Some(5),
        ..ask(prompt, n)
    };
    let mut quiet = load(&exact(Some(8)));
    let whole = run(&mut quiet, &request(&prompt, 48, Speculate::Off)).tokens;
    let mut drafted = (0, 0);
    for chunk in chunks {
        for end in ends {
            let mut engine = load(&exact(Some(*chunk)));
            block_on(engine.load_draft(&files_of(MODEL.get()), &|_| {}, &Cancel::new())).unwrap();
            for limited in [true, false] {
                let answer = if limited {
                    run(&mut engine, &request(&prompt, *end as u32, Speculate::Always))
                } else {
                    ended_after(&mut engine, &request(&prompt, 48, Speculate::Always), *end)
                };
                let said = &answer.tokens;
                let what = format!("{}: chunk {chunk}, {end} tokens, limited {limited}", MODEL.get());
                assert_eq!(said[..], whole[..said.len()], "{what}");
                drafted = (drafted.0 + answer.drafted_tokens, drafted.1 + answer.accepted_tokens);
                // Of the text all is known, or what a mark in it goes back to.
                let next = [&prompt[..], said, &[9, 14, 2]].concat();
                let then = run(&mut engine, &ask(&next, 12));
                assert!(then.cached_tokens >= prompt.len() - 1, "{what}: {} are known", then.cached_tokens);
                assert!(
                    !limited || then.cached_tokens == prompt.len() + said.len() - 1,
                    "{what}: nothing is read again"
                );
                assert_fresh(&then, &next, &what);
                // With drafts again, behind what they left.
                let longer = [&next[..], &then.tokens, &[9, 14, 2]].concat();
                let [alone, again] =
                    [Speculate::Off, Speculate::Always].map(|speculate| request(&longer, 12, speculate));
                let alone = run(&mut quiet, &Request { reuse: false, ..alone }).tokens;
                assert_eq!(run(&mut engine, &again).tokens, alone, "{what}");
            }
        }
    }
    let (drafted, right) = drafted;
    assert!(right > 0 && drafted > right + 20, "{}: {right} of {drafted} drafts were right", MODEL.get());
}

/// Runs a request while the GPU refuses buffers.
fn refused(engine: &mut Engine, refuse: Refuse, request: &Request) -> millrace::Result<Generation> {
    engine.device().refuse_buffers(Some(refuse));
    let result = block_on(engine.generate(request, &mut |_| {}, &Cancel::new()));
    engine.device().refuse_buffers(None);
    if let Err(e) = &result {
        assert_eq!(e.kind(), ErrorKind::OutOfMemory, "{e}");
    }
    result
}

/// A full GPU refuses a buffer for penalties, at once or, as browsers do, later: the answer is an error, everything
/// else is as before, and a later request with penalties succeeds.
#[test]
fn what_was_refused_memory_is_as_if_it_had_not_been_asked_for() {
    let prompt = ids(30, 5);
    let penalty = Request { repetition_penalty: 1.2, ..ask(&prompt, 10) };
    let penalized = run(&mut load(&exact(Some(8))), &penalty);
    for late in [false, true] {
        let mut engine = load(&exact(Some(8)));
        let mut n = 0;
        let result = loop {
            if let Ok(result) = refused(&mut engine, Refuse { after: n, once: false, late }, &penalty) {
                break result;
            }
            assert_fresh(
                &run(&mut engine, &ask(&prompt, 10)),
                &prompt,
                &format!("after buffer {n} was refused, late: {late}"),
            );
            n += 1;
        };
        assert!(n > 0, "penalties need buffers");
        assert_eq!(result.tokens, penalized.tokens);
    }
}

/// A full GPU refuses a buffer of a cache that grows, for a prompt and within an answer. From then on the context is
/// limited to the existing room.
#[test]
fn a_cache_that_cannot_grow_ends_one_answer_and_no_more() {
    let (prompt, longer) = (ids(30, 5), ids(70, 6));
    // Each state by itself, so that some have moved where another cannot.
    move_in_stages_of(Some(1));
    for late in [true, false] {
        // Only a GPU reports refusals late.
        let _cpu = (!late).then(on_cpu);
        for (what, request) in [("for a prompt", ask(&longer, 10)), ("within an answer", ask(&longer[..40], 60))] {
            let Prompt::Tokens(asked) = &request.prompt else { unreachable!() };
            // Some of the buffers, different ones in each case.
            let (mut n, mut grew) = (u32::from(late), 0);
            loop {
                let mut engine = load(&exact(Some(8)));
                run(&mut engine, &ask(&prompt, 10));
                let what = format!("{what}, after buffer {n} was refused, late: {late}");
                let result = refused(&mut engine, Refuse { after: n, once: false, late }, &request);
                n += 2;
                let refused = match result {
                    Ok(result) => {
                        assert_fresh(&result, asked, &what);
                        break;
                    }
                    Err(e) => e,
                };
                let second = [&prompt[..], &ids(9, 2)].concat();
                assert_fresh(&run(&mut engine, &ask(&second, 10)), &second, &what);
                if !refused.message().contains("64 at most") {
                    // A buffer of the answer, not of the cache: there is room for it now.
                    assert_fresh(&run(&mut engine, &ask(&longer, 10)), &longer, &what);
                    continue;
                }
                grew += 1;
                let error = block_on(engine.generate(&ask(&longer, 10), &mut |_| {}, &Cancel::new())).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::ContextFull, "{what}: {error}");
                let shifted = run(&mut engine, &Request { overflow: Overflow::Shift, ..ask(&prompt, 50) });
                assert!(shifted.shifts > 0 && shifted.tokens.len() == 50, "{what}: {}", shifted.shifts);
            }
            assert!(grew > 1, "{grew} buffers of a cache that grows");
        }
    }
    move_in_stages_of(None);
}

/// The GPU refuses one buffer, and has memory for the others: states that have moved go back, nothing is read again,
/// and the cache grows by less.
#[test]
fn a_cache_that_cannot_double_grows_by_what_is_needed() {
    move_in_stages_of(Some(1));
    let (start, request) = (ids(60, 5), ask(&[&ids(60, 5)[..], &ids(80, 6)].concat(), 8));
    let Prompt::Tokens(asked) = &request.prompt else { unreachable!() };
    for late in [true, false] {
        // Only a GPU reports refusals late.
        let _cpu = (!late).then(on_cpu);
        let mut after = 0;
        let least = loop {
            // A context long enough for doubling to make more room than is needed.
            let mut engine = load(&LoadOptions { context: Some(512), ..exact(Some(8)) });
            run(&mut engine, &ask(&start, 2));
            engine.device().refuse_buffers(Some(Refuse { after, once: true, late }));
            let result = block_on(engine.generate(&request, &mut |_| {}, &Cancel::new()));
            engine.device().refuse_buffers(None);
            let what = format!("after buffer {after}, late: {late}");
            let result = match result {
                // Reported late, for a buffer that is not the cache's.
                Err(e) if late && after > 2 && e.message().contains("checkpoint") => break after,
                result => result.unwrap_or_else(|e| panic!("{what}: {e}")),
            };
            assert_fresh(&result, asked, &what);
            assert_eq!(result.cached_tokens, 60, "{what}: nothing is read again");
            if engine.info().memory.kv == kv_at(256) {
                break after;
            }
            assert_eq!(engine.info().memory.kv, kv_at(192), "{what}");
            after += 1;
        };
        assert!(least > 2, "{least} buffers of a cache that grows");
    }
    move_in_stages_of(None);
}

/// Bytes of the toy's cache with room for `positions` positions.
fn kv_at(positions: u32) -> u64 {
    load(&LoadOptions { cache_start: Some(positions), ..exact(None) }).info().memory.kv
}

/// The old and the new cache do not exist at one time: growing takes no more than planned.
#[test]
fn a_cache_that_grows_takes_no_more_than_its_plan() {
    move_in_stages_of(Some(1));
    MODEL.set("gguf-q8_0/model.gguf");
    let mut engine = load(&LoadOptions { cache_start: Some(128), context: Some(256), ..exact(Some(8)) });
    run(&mut engine, &ask(&ids(20, 3), 4));
    let before = engine.info().memory;
    engine.device().buffers();
    let text = ids(200, 3);
    assert_fresh(&run(&mut engine, &ask(&text, 10)), &text, "in a cache that has grown");
    let (_, peak) = engine.device().buffers();
    let after = engine.info().memory;
    assert_eq!((after.kv, before.kv * 2), (before.kv_full, before.kv_full));
    // In the plan's spare memory, copies of texts take five full contexts.
    let growing = before.spare - 5 * before.kv_full;
    assert!(growing > 0 && growing < before.kv / 2, "{growing}");
    // The memory before without the cache, the grown cache, and tables and activations of more positions.
    let planned = before.total - before.kv
        + before.kv_full
        + growing
        + (after.weights + after.activations - before.weights - before.activations);
    assert!(peak <= planned && peak > after.total, "{peak} of {planned} bytes, {} afterwards", after.total);
    MODEL.set("toy");
    move_in_stages_of(None);
}

/// Two chats without a conversation take turns: each continues from its own cache, whichever was used last.
#[test]
fn chats_without_a_name_take_turns() {
    of_each(in_turns);
    let _cpu = on_cpu();
    in_turns();
}

fn in_turns() {
    let mut engine = load(&exact(Some(8)));
    let system = ids(40, 1);
    let mut chats: Vec<Vec<u32>> = (0..3).map(|i| [&system[..], &ids(50, 10 + i)].concat()).collect();
    for round in 0..3 {
        for chat in &mut chats {
            let known = chat.len() - 9;
            let result = run(&mut engine, &ask(chat, 12));
            assert_fresh(&result, chat, &format!("round {round}"));
            assert!(
                round == 0 || result.cached_tokens >= known - 1,
                "{}, round {round}: {} of {known}",
                MODEL.get(),
                result.cached_tokens
            );
            chat.extend(result.tokens);
            chat.extend(ids(9, 30 + round));
        }
    }
    // More texts than are kept: the least recently used are evicted.
    for i in 0..5 {
        run(&mut engine, &ask(&ids(60, 40 + i), 2));
    }
    let result = run(&mut engine, &ask(&chats[0], 4));
    assert!(result.cached_tokens < 60, "{}", result.cached_tokens);
    assert_fresh(&result, &chats[0], "a chat that was forgotten");
}

/// A fork takes memory of its own only once one of the two changes the common part.
#[test]
fn a_fork_copies_nothing_at_once() {
    let mut engine = load(&LoadOptions { slots: Some(2), ..exact(Some(8)) });
    let text = ids(40, 1);
    run(&mut engine, &ask(&text, 10));
    let made = engine.device().buffers().0;
    let forks = [(); 3].map(|()| engine.fork(0).unwrap());
    assert_eq!(engine.device().buffers().0, made, "nothing is made");
    // A fork that is released unused has cost nothing, and a fork whose origin is released takes over its slot.
    engine.release(forks[0]);
    engine.release(0);
    assert_eq!(engine.device().buffers().0, made, "nothing is made");
    for (i, fork) in forks[1..].iter().enumerate() {
        let next = [&text[..], &ids(5, 20 + i as u32)].concat();
        let result = run(&mut engine, &Request { conversation: *fork, ..ask(&next, 12) });
        assert_eq!(result.cached_tokens, 40);
        assert_fresh(&result, &next, &format!("fork {i}"));
    }
}

/// A refused copy that was made without a wait is reported with the next answer: that is an error, and later ones read
/// their texts again.
#[test]
fn a_copy_that_there_was_no_memory_for_is_made_again() {
    let prompt = ids(30, 5);
    let mut engine = load(&exact(Some(8)));
    run(&mut engine, &ask(&prompt, 10));
    let texts = [&ids(4, 10), &ids(4, 11)].map(|end| [&prompt[..], end].concat());
    let of = |conversation, text: &[u32]| Request { conversation, ..ask(text, 10) };
    // Refused at once, the state is rebuilt from its tokens, without an error.
    let fork = engine.fork(0).unwrap();
    let result = refused(&mut engine, Refuse { after: 1, once: true, late: false }, &of(fork, &texts[1])).unwrap();
    assert_fresh(&result, &texts[1], "a fork without memory for a copy");
    let fork = engine.fork(0).unwrap();
    let error = refused(&mut engine, Refuse { after: 1, once: true, late: true }, &of(fork, &texts[0])).unwrap_err();
    assert!(error.message().contains("begin a shorter conversation"), "{error}");
    assert_fresh(&run(&mut engine, &of(fork, &texts[0])), &texts[0], "the fork");
    assert_fresh(&run(&mut engine, &of(0, &texts[1])), &texts[1], "what it was forked from");
}

/// A stop text within a chunk: later tokens are neither part of the answer nor of the state.
#[test]
fn stop_texts_in_the_middle_of_a_chunk_leave_nothing_behind() {
    stop_texts(2);
    of_each(|| stop_texts(2));
    let _cpu = on_cpu();
    stop_texts(6);
}

fn stop_texts(most: usize) {
    let prompt = ids(40, 3);
    let whole = fresh(&prompt, 48);
    let texts: Vec<&str> = whole.logprobs.as_ref().unwrap().iter().map(|token| token.token.text.as_str()).collect();
    // Tokens with a whole text that no earlier token contains.
    let plain = |i: &usize| {
        whole.text.contains(texts[*i])
            && texts[*i].is_ascii()
            && !texts[*i].trim().is_empty()
            && !texts[..*i].iter().any(|text| text.contains(texts[*i]))
    };
    let places: Vec<usize> = (3..40).filter(plain).take(most).collect();
    assert!(places.len() >= most.min(2), "{texts:?}");
    for place in places {
        let mut engine = load(&exact(Some(16)));
        let stopped = run(&mut engine, &Request { stop: vec![texts[place].to_owned()], ..ask(&prompt, 48) });
        assert_eq!(stopped.finish_reason, FinishReason::Stop);
        assert_eq!(stopped.text, whole.text.split(texts[place]).next().unwrap());
        assert!(stopped.tokens.len() > place && stopped.tokens == whole.tokens[..stopped.tokens.len()]);
        // The next turn continues behind the shown part of the answer.
        let next = [&prompt[..], &whole.tokens[..place], &ids(6, 9)].concat();
        let result = run(&mut engine, &ask(&next, 12));
        assert!(result.cached_tokens > 0, "something is known");
        assert_fresh(&result, &next, &format!("stopped at {place}"));
    }
}

#[test]
fn forks_and_released_ones_do_not_disturb_one_another() {
    of_each(|| forks(&LoadOptions { slots: Some(2), ..exact(Some(4)) }));
    let _cpu = on_cpu();
    for slots in [None, Some(2), Some(3)] {
        forks(&LoadOptions { slots, ..exact(Some(4)) });
    }
}

/// Conversations in turns: with fewer slots than conversations they are copied out and in, with as many each keeps its
/// slot.
fn forks(options: &LoadOptions) {
    let mut engine = load(options);
    let start = ids(40, 6);
    ended_after(&mut engine, &ask(&start, 30), 3);
    let forks = [0, engine.fork(0).unwrap(), engine.fork(0).unwrap()];
    let mut texts: Vec<Vec<u32>> = (0..3).map(|i| [&start[..], &ids(4, 10 + i)].concat()).collect();
    // The second round outgrows what there was room for.
    for round in 0..3 {
        for (id, text) in forks.iter().zip(&mut texts) {
            let result = ended_after(&mut engine, &Request { conversation: *id, ..ask(text, 40) }, 21);
            assert_fresh(&result, text, &format!("fork {id}, round {round}"));
            assert!(
                result.cached_tokens > 0 && (round == 0 || result.cached_tokens >= text.len() - 10),
                "{}",
                result.cached_tokens
            );
            text.extend(result.tokens);
            text.extend(ids(5, 20));
        }
    }
    // A fork of a conversation that is not in a slot.
    let late = engine.fork(forks[1]).unwrap();
    engine.release(forks[1]);
    let result = run(&mut engine, &Request { conversation: late, ..ask(&texts[1], 5) });
    assert_fresh(&result, &texts[1], "a late fork");
}

#[test]
fn a_shift_reads_what_remains() {
    shift();
    of_each(shift);
}

fn shift() {
    let options = LoadOptions { context: Some(64), ..exact(Some(8)) };
    let mut engine = load(&options);
    let prompt = ids(50, 8);
    let result = run(&mut engine, &Request { overflow: Overflow::Shift, ..ask(&prompt, 60) });
    assert!(result.shifts > 0 && result.tokens.len() == 60);
    // Equals the answer to each remaining part as a prompt of its own.
    let mut text = prompt.clone();
    let mut expected = Vec::new();
    while expected.len() < 60 {
        let part = fresh(&text, (64 - text.len() as u32).min(60 - expected.len() as u32)).tokens;
        text.extend_from_slice(&part);
        expected.extend(part);
        let younger = (64_usize - 1).div_ceil(2);
        text = [&text[..1], &text[text.len() - younger..]].concat();
    }
    assert_eq!(result.tokens, expected);
}

#[test]
fn a_saved_one_goes_on_in_another_engine() {
    saved(&[None, Some(Kv::Q8)]);
    of_each(|| saved(&[None]));
}

fn saved(held: &[Option<Kv>]) {
    for kv in held.iter().copied() {
        let options = LoadOptions { kv, ..exact(Some(16)) };
        let store = Memory::store();
        let mut engine = load(&options);
        let prompt = ids(40, 3);
        let part = ended_after(&mut engine, &ask(&prompt, 60), 10);
        block_on(engine.save(0, &store, "a", &Cancel::new())).unwrap();
        let next = [&prompt[..], &part.tokens, &ids(5, 4)].concat();
        let here = run(&mut engine, &ask(&next, 12));
        let mut other = load(&options);
        let restored = block_on(other.restore(&store, "a")).unwrap();
        let there = run(&mut other, &Request { conversation: restored, ..ask(&next, 12) });
        assert_eq!((there.cached_tokens, &there.tokens), (here.cached_tokens, &here.tokens));
        assert_eq!(there.logprobs, here.logprobs, "to the last bit");
    }
}

#[test]
fn a_lost_device_changes_nothing() {
    lost(&[16], &[2, 33]);
    of_each(|| lost(&[16], &[2, 33]));
    let _cpu = on_cpu();
    lost(&[1, 16], &[1, 2, 17, 33]);
}

fn lost(chunks: &[u32], losses: &[usize]) {
    let prompt = ids(40, 1);
    for chunk in chunks.iter().copied() {
        let mut engine = load(&exact(Some(chunk)));
        let whole = run(&mut engine, &Request { reuse: false, ..ask(&prompt, 50) });
        for at in losses.iter().copied() {
            let result = disturbed(&mut engine, &Request { reuse: false, ..ask(&prompt, 50) }, &[at]).unwrap();
            assert_eq!(
                (&result.tokens, &result.logprobs),
                (&whole.tokens, &whole.logprobs),
                "chunk {chunk}, lost at {at}: to the last bit"
            );
        }
        // Device loss between two turns, of which the first was ended by its caller.
        let part = ended_after(&mut engine, &Request { reuse: false, ..ask(&prompt, 50) }, 10);
        let next = [&prompt[..], &part.tokens, &ids(5, 4)].concat();
        engine.device().lose();
        let result = run(&mut engine, &ask(&next, 12));
        assert!(result.cached_tokens > 0);
        assert_fresh(&result, &next, "after a loss between two turns");
    }
}

#[test]
fn what_measures_leaves_no_trace() {
    let mut engine = load(&exact(Some(8)));
    let prompt = ids(40, 5);
    let first = run(&mut engine, &Request { profile: true, ..ask(&prompt, 20) });
    assert!(first.profile.as_ref().unwrap().iter().any(|row| row.of.kernel == "running_sum"));
    let second = [&prompt[..], &first.tokens, &ids(9, 2)].concat();
    let result = run(&mut engine, &ask(&second, 10));
    assert_eq!(result.cached_tokens, prompt.len() + 19, "profiling forgets nothing");
    assert_fresh(&result, &second, "after a profile");
    block_on(engine.tune(200.0, &Cancel::new())).unwrap();
    let third = [&second[..], &result.tokens, &ids(3, 7)].concat();
    let result = run(&mut engine, &ask(&third, 10));
    assert_eq!(result.cached_tokens, second.len() + 9, "tuning forgets nothing");
    assert_fresh(&result, &third, "after tuning");
}

/// Other lanes' answers differ from the exact lane's: each must agree with itself.
#[test]
fn every_lane_remembers_the_same() {
    for options in
        [LoadOptions { lane: Lane::Fast, ..exact(Some(16)) }, LoadOptions { kv: Some(Kv::Q8), ..exact(Some(16)) }]
    {
        let mut engine = load(&options);
        let prompt = ids(40, 3);
        let part = ended_after(&mut engine, &ask(&prompt, 60), 10);
        let next = [&prompt[..], &part.tokens, &ids(5, 4)].concat();
        let result = run(&mut engine, &ask(&next, 6));
        let mut other = load(&options);
        let expected = run(&mut other, &ask(&next, 6));
        // A pass and a step round differently.
        let near = |a: &Generation, b: &Generation| {
            (a.logprobs.as_ref().unwrap()[0].token.logprob - b.logprobs.as_ref().unwrap()[0].token.logprob).abs()
        };
        assert!(near(&result, &expected) < 0.1, "{}", near(&result, &expected));
    }
}
