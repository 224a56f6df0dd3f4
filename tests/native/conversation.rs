//! Reuse of the prefix cache, conversations in turns, and a full context as an error or a shift: with the tokens of a
//! fresh run.

use millrace::base::Cancel;
use millrace::engine::{Engine, Event, Generation, LoadOptions, Overflow, Prompt, Request};
use millrace::layout::Kv;
use millrace::plan::Lane;
use millrace::store::{Begin, Memory, ModelKey};
use pollster::block_on;
use serde_json::json;

use crate::common::{self, on_cpu};
use crate::decode_loop::{load, run, try_load};

fn exact() -> LoadOptions {
    LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }
}

fn box_model(options: &LoadOptions) -> Engine {
    let files = millrace::source::disk::open_path(&millrace::native::builtin_path().unwrap()).unwrap();
    common::load(&files, options).unwrap()
}

fn ids(n: usize, seed: u32) -> Vec<u32> {
    (0..n as u32).map(|i| (i * 37 + seed * 101) % 290 + 1).collect()
}

fn ask(prompt: &[u32], n: u32) -> Request {
    Request { ignore_eos: true, max_tokens: Some(n), ..Request::new(Prompt::Tokens(prompt.to_vec())) }
}

fn fresh(prompt: &[u32], n: u32) -> Generation {
    run(&mut load(&exact()), &ask(prompt, n))
}

#[test]
fn a_second_turn_reads_only_what_is_new() {
    for turn in [33, 1, 31, 32, 200] {
        let _cpu = (turn != 33).then(on_cpu);
        let mut engine = load(&exact());
        let prompt = ids(turn, 1);
        let first = run(&mut engine, &ask(&prompt, 12));
        assert_eq!((first.cached_tokens, first.prompt_tokens), (0, turn));
        let second = [&prompt[..], &first.tokens, &ids(9, 2)].concat();
        let result = run(&mut engine, &ask(&second, 12));
        // The last token of an answer has been sampled, but no step has read it.
        assert_eq!(result.cached_tokens, turn + 11);
        assert_eq!(result.tokens, fresh(&second, 12).tokens, "after {turn}");
        // The same prompt again: the cache has all but its last token.
        let again = run(&mut engine, &ask(&second, 12));
        assert_eq!((again.cached_tokens, &again.tokens), (second.len() - 1, &result.tokens));
        let afresh = run(&mut engine, &Request { reuse: false, ..ask(&second, 12) });
        assert_eq!((afresh.cached_tokens, &afresh.tokens), (0, &result.tokens));
        // An earlier turn is edited.
        let mut edited = second.clone();
        edited[turn / 2] = 7;
        let result = run(&mut engine, &ask(&edited, 12));
        assert_eq!((result.cached_tokens, result.tokens), (turn / 2, fresh(&edited, 12).tokens));
    }
}

#[test]
fn what_is_stopped_half_way_is_not_taken_for_read() {
    let mut engine = load(&LoadOptions { prefill_rows: Some(16), ..exact() });
    let prompt = ids(100, 3);
    let cancel = Cancel::new();
    // Ends after the first piece of the answer.
    let stop = cancel.clone();
    let part = block_on(engine.generate(
        &ask(&prompt, 60),
        &mut |event| {
            if matches!(event, Event::Delta(_)) {
                stop.cancel()
            }
        },
        &cancel,
    ))
    .unwrap();
    assert!(part.tokens.len() < 60);
    let longer = [&prompt[..], &part.tokens, &ids(5, 4)].concat();
    assert_eq!(run(&mut engine, &ask(&longer, 10)).tokens, fresh(&longer, 10).tokens);
    let cancelled = Cancel::new();
    cancelled.cancel();
    let other = ids(90, 5);
    assert!(block_on(engine.generate(&ask(&other, 5), &mut |_| {}, &cancelled)).unwrap().tokens.is_empty());
    assert_eq!(run(&mut engine, &ask(&other, 10)).tokens, fresh(&other, 10).tokens);
}

#[test]
fn forks_go_on_from_a_shared_beginning_and_do_not_disturb_one_another() {
    let _cpu = on_cpu();
    let mut engine = load(&LoadOptions { cache_start: Some(64), ..exact() });
    let start = ids(40, 6);
    run(&mut engine, &ask(&start, 1));
    let forks = [0, engine.fork(0).unwrap(), engine.fork(0).unwrap()];
    let mut texts: Vec<Vec<u32>> = (0..3).map(|i| [&start[..], &ids(4, 10 + i)].concat()).collect();
    // The second round outgrows the cache that the forks were made in.
    for round in 0..3 {
        for (id, text) in forks.iter().zip(&mut texts) {
            let result = run(&mut engine, &Request { conversation: *id, ..ask(text, 30) });
            assert!(
                result.cached_tokens >= if round == 0 { start.len() } else { text.len() - 6 },
                "{}",
                result.cached_tokens
            );
            assert_eq!(result.tokens, fresh(text, 30).tokens, "fork {id}, round {round}");
            text.extend(result.tokens);
            text.extend(ids(5, 20));
        }
    }
    // A fork of a conversation that is not in a slot.
    let late = engine.fork(forks[1]).unwrap();
    let result = run(&mut engine, &Request { conversation: late, ..ask(&texts[1], 5) });
    assert!(result.cached_tokens >= texts[1].len() - 6);
    engine.release(forks[1]);
    let error =
        block_on(engine.generate(&Request { conversation: forks[1], ..ask(&start, 1) }, &mut |_| {}, &Cancel::new()))
            .err()
            .unwrap();
    assert!(error.code() == "BAD_OPTION" && error.message().contains("released"), "{error}");
    assert_eq!(run(&mut engine, &Request { conversation: late, ..ask(&texts[1], 5) }).tokens, result.tokens);
}

#[test]
fn a_parked_conversation_takes_memory_only_for_what_it_holds() {
    let mut engine = load(&exact());
    run(&mut engine, &ask(&ids(10, 1), 1));
    let bytes = |engine: &Engine| engine.info().memory.total;
    let before = bytes(&engine);
    let fork = engine.fork(0).unwrap();
    assert_eq!(bytes(&engine), before, "nothing is copied yet");
    // Now the fork has the slot.
    run(&mut engine, &Request { conversation: fork, ..ask(&ids(10, 1), 1) });
    let parked = bytes(&engine) - before;
    assert!(parked > 0 && parked < engine.info().memory.kv / 40, "{parked} of {}", engine.info().memory.kv);
    engine.release(0);
    assert_eq!(bytes(&engine), before);
}

/// A fork shares the copy of the longer text that it was forked from: only its own part is saved.
#[test]
fn a_fork_of_a_text_that_went_on_is_saved_as_it_was() {
    let mut engine = load(&exact());
    let prompt = ids(20, 1);
    let first = run(&mut engine, &ask(&prompt, 4)).tokens;
    let [fork, other] = [(); 2].map(|()| engine.fork(0).unwrap());
    run(&mut engine, &ask(&[&prompt[..], &first, &ids(30, 2)].concat(), 4));
    // The continued text is copied out of its slot, with the part that the fork shares.
    run(&mut engine, &Request { conversation: other, ..ask(&prompt, 1) });
    let store = Memory::store();
    block_on(engine.save(fork, &store, "fork", &Cancel::new())).unwrap();
    let next = [&prompt[..], &ids(5, 3)].concat();
    let mut elsewhere = load(&exact());
    let restored = block_on(elsewhere.restore(&store, "fork")).unwrap();
    for (engine, conversation) in [(&mut elsewhere, restored), (&mut engine, fork)] {
        let result = run(engine, &Request { conversation, ..ask(&next, 12) });
        assert_eq!((result.cached_tokens, result.tokens), (20, fresh(&next, 12).tokens));
    }
}

#[test]
fn a_full_context_is_an_error_or_a_shift() {
    let options = LoadOptions { context: Some(64), ..exact() };
    let mut engine = load(&options);
    let prompt = ids(50, 8);
    // Without the option the answer ends with the context.
    let ended = run(&mut engine, &ask(&prompt, 40));
    assert_eq!((ended.tokens.len(), ended.shifts, ended.context_tokens), (14, 0, 64));
    let shifting = |prompt: &[u32], n| Request { overflow: Overflow::Shift, ..ask(prompt, n) };
    let result = run(&mut engine, &shifting(&prompt, 40));
    assert_eq!((result.tokens.len(), result.shifts), (40, 1));
    // The first token, the younger half of what was there, and what came after the shift.
    assert_eq!(result.context_tokens, 1 + 32 + 26);
    // Equals a fresh run on the first token and the younger half.
    let all = [&prompt[..], &ended.tokens].concat();
    let remaining = [&all[..1], &all[64 - 32..]].concat();
    let rest = run(&mut load(&options), &ask(&remaining, 26));
    assert_eq!(result.tokens, [ended.tokens, rest.tokens].concat());

    let long = ids(100, 9);
    let error = block_on(engine.generate(&ask(&long, 4), &mut |_| {}, &Cancel::new())).err().unwrap();
    assert_eq!(error.code(), "CONTEXT_FULL");
    let result = run(&mut engine, &shifting(&long, 4));
    let remaining = [&long[..1], &long[100 - 32..]].concat();
    assert_eq!((result.shifts, result.tokens), (1, run(&mut load(&options), &ask(&remaining, 4)).tokens));
}

#[test]
fn a_shift_keeps_the_system_prompt() {
    let _cpu = on_cpu();
    let options = LoadOptions { context: Some(96), ..exact() };
    let mut engine = box_model(&options);
    let system = json!({ "role": "system", "content": "Answer in one word." });
    let request = |user: &str| Request {
        overflow: Overflow::Shift,
        ignore_eos: true,
        max_tokens: Some(6),
        ..Request::new(Prompt::Messages(json!([system, { "role": "user", "content": user }])))
    };
    let long = request(&"Tuesday comes before Wednesday. ".repeat(40));
    let ids = engine.prompt_tokens(&long).unwrap();
    assert!(ids.len() > 96, "{}", ids.len());
    // The prefix that all questions share.
    let short = engine.prompt_tokens(&request("Why?")).unwrap();
    let kept = short.iter().zip(&ids).take_while(|(a, b)| a == b).count();
    let mut text = engine.tokenizer().stream();
    let beginning: String = ids[..kept].iter().map(|id| text.push(*id).unwrap()).collect();
    assert!(beginning.contains("Answer in one word."), "{beginning}");

    let result = run(&mut engine, &long);
    assert_eq!((result.shifts, result.tokens.len()), (1, 6));
    let remaining = [&ids[..kept], &ids[ids.len() - (96 - kept).div_ceil(2)..]].concat();
    assert_eq!(result.tokens, run(&mut box_model(&options), &ask(&remaining, 6)).tokens);
}

/// The tokens that a shift keeps are found by rendering probe messages: only where there is a shift, which fails with a
/// template that refuses them.
#[test]
fn a_template_is_asked_what_a_shift_keeps_only_where_there_is_one() {
    let template = "{% for m in messages %}{% if m.content in ['a', 'b'] %}{{ raise_exception('a letter') }}{% endif %}{{ m.content }} {% endfor %}";
    let path = common::data("oracle/hf-single/model");
    let files =
        ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "generation_config.json"]
            .map(|name| (name.to_owned(), std::fs::read(path.join(name)).unwrap()));
    let files =
        common::files(files.into_iter().chain([("chat_template.jinja".to_owned(), template.as_bytes().to_vec())]));
    let options = LoadOptions { context: Some(64), ..exact() };
    let mut engine = block_on(Engine::load(&files, &options, &|_| {}, &Cancel::new())).unwrap();
    let request = |n| Request {
        overflow: Overflow::Shift,
        ignore_eos: true,
        max_tokens: Some(n),
        ..Request::new(Prompt::Messages(json!([{ "role": "user", "content": "Tuesday comes before Wednesday." }])))
    };
    let result = run(&mut engine, &request(6));
    assert_eq!((result.shifts, result.tokens.len()), (0, 6));
    let error = block_on(engine.generate(&request(100), &mut |_| {}, &Cancel::new())).unwrap_err();
    assert!(error.code() == "TEMPLATE" && error.message().contains("a letter"), "{error}");
}

#[test]
fn what_is_measured_leaves_no_trace() {
    let mut engine = try_load(&exact()).unwrap();
    let prompt = ids(30, 2);
    run(&mut engine, &Request { profile: true, ..ask(&prompt, 4) });
    let result = run(&mut engine, &ask(&prompt, 8));
    assert_eq!((result.cached_tokens, result.tokens), (prompt.len() - 1, fresh(&prompt, 8).tokens));
    let scored = run(&mut engine, &Request { logits_from: Some(3), ..ask(&prompt, 8) });
    assert_eq!(scored.tokens, fresh(&prompt, 8).tokens);
}

#[test]
fn reading_a_prompt_equals_decoding_it_token_by_token() {
    // Around the edges of tiles of rows and keys, and of a pass.
    let options = LoadOptions { prefill_rows: Some(128), ..exact() };
    reading_equals_decoding(&mut load(&options), &[1, 33, 64, 129]);
    let _cpu = on_cpu();
    reading_equals_decoding(&mut load(&options), &[2, 31, 32, 65, 127, 128]);
}

#[test]
#[ignore = "half a minute: npm run test:long"]
fn reading_a_prompt_of_a_whole_pass_equals_decoding_it_token_by_token() {
    // The small model ends at 512 positions, the one in the box at 1,024.
    reading_equals_decoding(&mut box_model(&exact()), &[511, 512, 513]);
}

fn reading_equals_decoding(engine: &mut Engine, lengths: &[usize]) {
    for n in lengths.iter().copied() {
        let prompt = ids(n, 11);
        let logits = |engine: &mut Engine, from: u32| {
            let all =
                run(engine, &Request { logits_from: Some(from), reuse: false, ..ask(&prompt, 1) }).all_logits.unwrap();
            all.last().unwrap().clone()
        };
        let read = logits(engine, n as u32 - 1);
        let decoded = logits(engine, 0);
        let largest = read.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        let error = read.iter().zip(&decoded).fold(0.0_f32, |m, (a, b)| m.max((a - b).abs())) / largest;
        assert!(error < 1e-3, "{n} tokens: {error}");
        let best = |l: &[f32]| (0..l.len()).max_by(|a, b| l[*a].total_cmp(&l[*b]));
        assert_eq!(best(&read), best(&decoded), "{n} tokens");
    }
}

#[test]
fn a_saved_conversation_goes_on_in_another_engine() {
    let window = |kv| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/hf-window/model");
        let files = millrace::source::disk::open_path(&path).unwrap();
        block_on(Engine::load(&files, &LoadOptions { prefill_rows: Some(16), kv, ..exact() }, &|_| {}, &Cancel::new()))
            .unwrap()
    };
    let makers: [&dyn Fn() -> Engine; 3] = [&|| load(&exact()), &|| window(None), &|| window(Some(Kv::Q8))];
    for make in makers {
        let store = Memory::store();
        let mut engine = make();
        let prompt = ids(130, 3);
        let first = run(&mut engine, &ask(&prompt, 10));
        block_on(engine.save(0, &store, "tea", &Cancel::new())).unwrap();
        let longer = [&prompt[..], &first.tokens, &ids(6, 4)].concat();
        let expected = run(&mut engine, &ask(&longer, 10));

        let mut other = make();
        run(&mut other, &ask(&ids(40, 9), 5));
        let conversation = block_on(other.restore(&store, "tea")).unwrap();
        let result = run(&mut other, &Request { conversation, ..ask(&longer, 10) });
        assert_eq!((result.cached_tokens, &result.tokens), (139, &expected.tokens));
        // It can be saved again under the same name, and a conversation that is not in a slot can be saved too.
        run(&mut other, &ask(&ids(40, 9), 5));
        block_on(other.save(conversation, &store, "tea", &Cancel::new())).unwrap();
        let again = block_on(other.restore(&store, "tea")).unwrap();
        assert_eq!(run(&mut other, &Request { conversation: again, ..ask(&longer, 10) }).tokens, expected.tokens);
        block_on(Engine::forget(&store, "tea")).unwrap();
        assert_eq!(block_on(other.restore(&store, "tea")).unwrap_err().code(), "NOT_FOUND");
    }
}

#[test]
fn what_was_saved_elsewhere_or_is_damaged_is_not_taken() {
    let _cpu = on_cpu();
    let store = Memory::store();
    let mut engine = load(&exact());
    run(&mut engine, &ask(&ids(30, 3), 3));
    block_on(engine.save(0, &store, "a", &Cancel::new())).unwrap();
    for (what, mut other) in [
        ("model", box_model(&exact())),
        ("lane", load(&LoadOptions { kv: Some(Kv::F32), ..LoadOptions::default() })),
        ("kv", load(&LoadOptions { kv: Some(Kv::F16), ..exact() })),
    ] {
        let error = block_on(other.restore(&store, "a")).unwrap_err();
        assert!(
            error.code() == "BAD_OPTION" && error.message().contains(&format!("another {what}")),
            "{what}: {error}"
        );
    }
    // Each file of the saved conversation, changed.
    let files = block_on(store.open(&ModelKey::new("conversation:a"))).unwrap().unwrap();
    for (victim, _) in &files {
        for how in [0, 1, 2] {
            let broken = Memory::store();
            let Begin::Write(mut writer) =
                block_on(broken.begin(&ModelKey::new("conversation:a"), &Cancel::new())).unwrap()
            else {
                panic!("whole")
            };
            for (name, file) in &files {
                let mut bytes = block_on(file.read(0, file.len() as usize)).unwrap();
                if name == victim {
                    let middle = bytes.len() / 2;
                    match how {
                        0 => bytes.truncate(middle),
                        1 => bytes[middle] ^= 1,
                        _ => continue,
                    }
                }
                block_on(writer.create(name)).unwrap();
                block_on(writer.append(&bytes)).unwrap();
            }
            block_on(writer.finish()).unwrap();
            let error = block_on(engine.restore(&broken, "a")).unwrap_err();
            assert!(matches!(error.code(), "STORAGE" | "BAD_OPTION"), "{victim} {how}: {error}");
        }
    }
    assert_eq!(block_on(engine.save(99, &store, "b", &Cancel::new())).unwrap_err().code(), "BAD_OPTION");
    assert_eq!(block_on(engine.restore(&store, "b")).unwrap_err().code(), "NOT_FOUND", "nothing half-written stays");
    assert_eq!(block_on(engine.save(0, &store, "", &Cancel::new())).unwrap_err().code(), "BAD_OPTION");
}
