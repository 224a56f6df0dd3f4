//! Several answers of one engine at a time: each has the text that it would have had alone, whichever requests begin,
//! end and are answered beside it.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;

use millrace::base::Cancel;
use millrace::engine::{
    Asked, Desk, Engine, Event, FinishReason, Generation, LoadOptions, Prompt, Request, TokenLogprobs,
};
use millrace::gpu::Refuse;
use millrace::layout::Kv;
use millrace::native::grammar::InProcess;
use millrace::plan::Lane;
use millrace::source::disk::open_path;
use millrace::{ErrorKind, Result};
use pollster::block_on;

use crate::common::{self, EACH_KIND, on_cpu};

fn load(fixture: &str, options: &LoadOptions) -> Engine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle").join(fixture);
    let file =
        ["model.gguf", ""].map(|name| folder.join(name)).into_iter().find(|path| path.exists()).expect("the fixture");
    common::load(&open_path(&file).expect("the fixture"), options).unwrap_or_else(|e| panic!("{fixture}: {e}"))
}

/// An engine of several answers with common steps, although its GPU is software.
fn several(concurrency: u32) -> LoadOptions {
    LoadOptions { lane: Lane::Exact, concurrency: Some(concurrency), together: Some(true), ..LoadOptions::default() }
}

fn alone() -> LoadOptions {
    LoadOptions { lane: Lane::Exact, ..LoadOptions::default() }
}

/// Prompt number `n` of those that a test asks, greedy or sampled.
fn ask(n: u32, tokens: u32) -> Request {
    let prompt = (0..3 + n * 7 % 40).map(|i| 3 + (i * i * (n + 1) + 5 * n) % 60).collect();
    Request {
        ignore_eos: true,
        reuse: false,
        max_tokens: Some(tokens),
        seed: Some(u64::from(n)),
        temperature: [0.0, 0.8, 1.3][n as usize % 3],
        top_k: [0, 5, 0][n as usize / 3 % 3],
        top_p: [1.0, 0.9][n as usize / 2 % 2],
        ..Request::new(Prompt::Tokens(prompt))
    }
}

/// The results of requests, some of which are queued at the beginning, and some when another request has had a number
/// of pieces.
struct Party<'a> {
    desk: Desk<'a>,
    ended: RefCell<Vec<(usize, Result<Generation>)>>,
    pieces: RefCell<Vec<u32>>,
    /// The request of each piece, in the order in which the pieces came.
    heard: RefCell<Vec<usize>>,
}

impl<'a> Party<'a> {
    fn new(n: usize) -> Rc<Self> {
        Rc::new(Self {
            desk: Desk::default(),
            ended: RefCell::default(),
            pieces: RefCell::new(vec![0; n]),
            heard: RefCell::default(),
        })
    }

    /// Queues a request; `plan` is called at each of its pieces with their number.
    fn ask(self: &Rc<Self>, n: usize, request: Request, cancel: &Cancel, plan: impl Fn(u32) + 'a) {
        let (hears, ends) = (self.clone(), self.clone());
        let on_event = move |event: Event<'_>| {
            if let Event::Delta(delta) = event {
                hears.heard.borrow_mut().extend(delta.tokens.iter().map(|_| n));
                let pieces = {
                    let mut pieces = hears.pieces.borrow_mut();
                    pieces[n] += 1;
                    pieces[n]
                };
                plan(pieces);
            }
        };
        let done = move |ended| ends.ended.borrow_mut().push((n, ended));
        self.desk.ask(Asked { request, on_event: Box::new(on_event), cancel: cancel.clone(), done: Box::new(done) });
    }
}

fn serve(engine: &mut Engine, party: &Rc<Party<'_>>) -> Vec<Result<Generation>> {
    block_on(engine.serve(&party.desk, &|_| ()));
    let mut ended = party.ended.take();
    ended.sort_by_key(|one| one.0);
    ended.into_iter().map(|one| one.1).collect()
}

/// Answers all requests at one time.
pub fn together(engine: &mut Engine, requests: &[Request]) -> Vec<Generation> {
    let party = Party::new(requests.len());
    requests.iter().enumerate().for_each(|(n, request)| party.ask(n, request.clone(), &Cancel::new(), |_| ()));
    serve(engine, &party).into_iter().map(|one| one.expect("an answer")).collect()
}

fn one(engine: &mut Engine, request: &Request) -> Generation {
    block_on(engine.generate(request, &mut |_| {}, &Cancel::new())).expect("an answer")
}

/// With each kind of layer.
#[test]
fn company_changes_no_text_of_any_kind_of_layer() {
    for fixture in EACH_KIND {
        // One on the GPU: its layers have keys and values, or a state.
        let _cpu = (fixture != "qwen35-gguf").then(on_cpu);
        let requests: Vec<Request> = (0..5).map(|n| ask(n, 12 + 5 * n)).collect();
        let mut engine = load(fixture, &alone());
        let expected: Vec<_> = requests.iter().map(|request| one(&mut engine, request).tokens).collect();
        let mut engine = load(fixture, &several(5));
        for (n, (answer, expected)) in together(&mut engine, &requests).iter().zip(&expected).enumerate() {
            assert_eq!(&answer.tokens, expected, "{fixture}, answer {n}");
            assert_eq!(answer.finish_reason, FinishReason::Length);
        }
    }
}

/// Recurrent layers and embeddings for each layer do not make answers take turns: each chunk has tokens of all of them.
#[test]
fn steps_are_common_with_each_kind_of_layer() {
    let _cpu = on_cpu();
    for fixture in ["gguf-q4_0", "lfm2-gguf", "qwen35-gguf", "granitehybridmoe-gguf", "gemma4-gguf"] {
        let mut engine = load(fixture, &LoadOptions { chunk: Some(2), ..several(4) });
        let party = Party::new(4);
        (0..4).for_each(|n| party.ask(n, ask(n as u32, 40), &Cancel::new(), |_| ()));
        serve(&mut engine, &party);
        let heard = party.heard.borrow();
        let changes = heard.windows(2).filter(|two| two[0] != two[1]).count();
        assert!(
            changes > 40,
            "{fixture}: {changes} changes of the answer among {} tokens: they took turns",
            heard.len()
        );
    }
}

/// What recurrent layers remember of a text is the same after steps with others: what comes next is, for each of the
/// texts, also where its end was seen on the host while further steps were under way.
#[test]
fn recurrent_states_are_those_of_their_texts_after_company() {
    let _cpu = on_cpu();
    for fixture in ["lfm2-gguf", "qwen35-gguf", "falconh1-gguf"] {
        let requests: Vec<Request> = (0..4).map(|n| Request { reuse: true, ..ask(n + 2, 9 + 6 * n) }).collect();
        let mut engine = load(fixture, &LoadOptions { chunk: Some(4), ..several(4) });
        let party = Party::new(requests.len());
        let cancels: Vec<Cancel> = requests.iter().map(|_| Cancel::new()).collect();
        for (n, request) in requests.iter().enumerate() {
            let flag = cancels[n].clone();
            // The third is left when it has had two pieces.
            party.ask(n, request.clone(), &cancels[n], move |pieces| {
                if n == 2 && pieces == 2 {
                    flag.cancel();
                }
            });
        }
        let answers: Vec<Generation> =
            serve(&mut engine, &party).into_iter().map(|one| one.expect("an answer")).collect();
        assert_eq!(answers[2].finish_reason, FinishReason::Abort, "{fixture}");
        let mut quiet = load(fixture, &alone());
        for (n, (request, answer)) in requests.iter().zip(&answers).enumerate() {
            let Prompt::Tokens(prompt) = &request.prompt else { panic!("ids") };
            let text = [&prompt[..], &answer.tokens, &[7, 11]].concat();
            let next =
                Request { prompt: Prompt::Tokens(text), temperature: 0.0, max_tokens: Some(6), ..request.clone() };
            let again = one(&mut engine, &next);
            // All but the last token of the answer, or what was there when steps began that were cut off.
            let known = prompt.len() + if n == 2 { 0 } else { answer.tokens.len() - 1 };
            assert!(again.cached_tokens >= known, "{fixture}, answer {n}: {} of {known}", again.cached_tokens);
            let expected = one(&mut quiet, &Request { reuse: false, ..next });
            assert_eq!(again.tokens, expected.tokens, "{fixture}, answer {n}");
        }
    }
}

/// Token ids with their log probabilities: of each token of an answer, and of the likeliest in its place.
fn scores(logprobs: &[TokenLogprobs]) -> Vec<(u32, f32)> {
    logprobs.iter().flat_map(|one| std::iter::once(&one.token).chain(&one.top)).map(|it| (it.id, it.logprob)).collect()
}

/// Forty prompts that come at random, of which some are cancelled, and some have a stop text, penalties or log
/// probabilities.
#[test]
fn forty_prompts_have_their_own_texts_in_random_company() {
    random_company("gguf-q4_0", &[8, 3]);
}

/// With states that cannot be cut back.
#[test]
fn forty_prompts_of_recurrent_layers_have_their_own_texts_in_random_company() {
    random_company("qwen35-gguf", &[5]);
}

fn random_company(fixture: &str, at_a_time: &[u32]) {
    const ALL: usize = 40;
    let _cpu = on_cpu();
    let mut quiet = load(fixture, &alone());
    let random = |n: usize| (n * 7919 + 13) % 101;
    let mut requests: Vec<Request> = (0..ALL as u32).map(|n| ask(n, 6 + random(n as usize) as u32 % 40)).collect();
    for (n, request) in requests.iter_mut().enumerate() {
        match n % 10 {
            3 => request.presence_penalty = 0.7,
            5 => (request.repetition_penalty, request.frequency_penalty) = (1.4, 0.3),
            6 => request.logprobs = Some(2 + n as u32 % 3),
            8 => {
                let text = one(&mut quiet, request).text;
                let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |at| at.0);
                request.stop = text[middle..]
                    .chars()
                    .take(2)
                    .collect::<String>()
                    .split_terminator('\0')
                    .map(str::to_owned)
                    .collect();
            }
            _ => {}
        }
    }
    let expected: Vec<Generation> = requests.iter().map(|request| one(&mut quiet, request)).collect();
    for concurrency in at_a_time.iter().copied() {
        let mut engine = load(fixture, &several(concurrency));
        let party = Party::new(ALL);
        let left: Vec<bool> = (0..ALL).map(|n| n % 7 == 5).collect();
        let cancels: Vec<Cancel> = (0..ALL).map(|_| Cancel::new()).collect();
        let next = Rc::new(Cell::new(0));
        let requests = Rc::new(requests.clone());
        // Two requests come at the beginning; each queues another after a random number of pieces.
        fn come<'a>(
            party: &Rc<Party<'a>>,
            requests: &Rc<Vec<Request>>,
            next: &Rc<Cell<usize>>,
            cancels: &Rc<Vec<Cancel>>,
            left: &Rc<Vec<bool>>,
        ) {
            let n = next.get();
            if n >= requests.len() {
                return;
            }
            next.set(n + 1);
            let (again, all, of_next, flags, leaves) =
                (party.clone(), requests.clone(), next.clone(), cancels.clone(), left.clone());
            party.ask(n, requests[n].clone(), &cancels[n], move |pieces| {
                if leaves[n] && pieces == 2 {
                    flags[n].cancel();
                }
                if pieces as usize == 1 + n % 3 || pieces == 6 {
                    come(&again, &all, &of_next, &flags, &leaves);
                }
            });
        }
        let (cancels, left) = (Rc::new(cancels), Rc::new(left));
        come(&party, &requests, &next, &cancels, &left);
        come(&party, &requests, &next, &cancels, &left);
        let mut ended = Vec::new();
        while party.desk.waiting() > 0 || next.get() < ALL {
            if party.desk.waiting() == 0 {
                come(&party, &requests, &next, &cancels, &left);
            }
            block_on(engine.serve(&party.desk, &|_| ()));
            ended.extend(party.ended.take());
        }
        assert_eq!(ended.len(), ALL, "everybody is answered");
        for (n, answer) in ended {
            let (answer, expected) = (answer.expect("an answer"), &expected[n]);
            if left[n] && answer.finish_reason == FinishReason::Abort {
                let (said, whole) = (&answer.tokens, &expected.tokens);
                assert!(
                    whole.starts_with(said) && said.len() < whole.len(),
                    "answer {n} of {concurrency}: {said:?} of {whole:?}"
                );
            } else {
                assert_eq!(answer.text, expected.text, "answer {n} of {concurrency}");
                // Stop texts are found at the ends of chunks: tokens behind them do not count.
                let least = answer.tokens.len().min(expected.tokens.len());
                assert_eq!(answer.tokens[..least], expected.tokens[..least], "answer {n} of {concurrency}");
                assert!(n % 10 == 8 || answer.tokens.len() == expected.tokens.len(), "answer {n} of {concurrency}");
                let of = |it: &Generation| it.logprobs.as_ref().map(|all| scores(&all[..least]));
                let (scored, expected) = (of(&answer).unwrap_or_default(), of(expected).unwrap_or_default());
                assert_eq!(scored.len(), expected.len(), "answer {n} of {concurrency}");
                for ((id, score), expected) in scored.into_iter().zip(expected) {
                    // The CPU adds up the products of several rows in another order.
                    assert!(id == expected.0 && (score - expected.1).abs() < 1e-4, "answer {n} of {concurrency}");
                }
            }
        }
    }
}

/// Answers with forms, penalties, biases and log probabilities take steps together with plain ones. Two have the same
/// form, two others each another.
#[test]
fn answers_of_every_kind_take_their_steps_together() {
    const TOKENS: usize = 16;
    let messages = serde_json::json!([{ "role": "user", "content": "Tell me about a person." }]);
    let ask = |n: u64| Request {
        temperature: [1.4, 0.0][n as usize % 2],
        seed: Some(n),
        max_tokens: Some(TOKENS as u32),
        reuse: false,
        ..Request::new(Prompt::Messages(messages.clone()))
    };
    let form = Some("[a-z, ]{300,}".to_owned());
    let schema =
        serde_json::json!({ "type": "array", "items": { "type": "integer", "minimum": 100000 }, "minItems": 50 });
    let requests = [
        Request { regex: form.clone(), ..ask(0) },
        Request { ignore_eos: true, ..ask(1) },
        Request { schema: schema.as_object().cloned(), ..ask(2) },
        Request { ignore_eos: true, repetition_penalty: 1.3, logit_bias: [(300, 4.0), (17, -3.0)].into(), ..ask(3) },
        Request { regex: form, frequency_penalty: 0.8, logprobs: Some(4), ..ask(4) },
        Request { regex: Some("([0-9]{3} ){100,}".into()), presence_penalty: 0.5, ..ask(5) },
        Request { ignore_eos: true, logprobs: Some(2), top_k: 7, ..ask(6) },
    ];
    let load = |concurrency: u32| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf");
        let options = LoadOptions { chunk: Some(4), ..several(concurrency) };
        let mut engine = common::load(&open_path(&path).expect("the box"), &options).expect("an engine");
        engine.compile_with(Rc::new(InProcess));
        engine
    };
    let mut quiet = load(1);
    let expected: Vec<Generation> = requests.iter().map(|request| one(&mut quiet, request)).collect();
    let mut engine = load(requests.len() as u32);
    for (n, (answer, expected)) in together(&mut engine, &requests).iter().zip(&expected).enumerate() {
        assert_eq!((&answer.text, &answer.tokens), (&expected.text, &expected.tokens), "answer {n}");
        assert_eq!(format!("{:?}", answer.logprobs), format!("{:?}", expected.logprobs), "answer {n}");
        assert_eq!(answer.tokens.len(), TOKENS, "answer {n}: {}", answer.text);
        // A step of several rows has other dispatches than a step of the answer alone.
        assert_ne!(answer.counters.dispatches, expected.counters.dispatches, "answer {n} was generated alone");
    }
    // The second time nothing is compiled, and the grammars are resident.
    let shorter = requests.map(|request| Request { max_tokens: Some(4), ..request });
    for (n, (answer, expected)) in together(&mut engine, &shorter).iter().zip(&expected).enumerate() {
        assert_eq!(answer.tokens, expected.tokens[..4], "answer {n}, again");
    }
}

/// Caches of each type, of different lengths, that grow during the answers and end with the context.
#[test]
fn caches_grow_in_company() {
    for kv in [Kv::F32, Kv::F16, Kv::Q8] {
        let _cpu = (kv != Kv::Q8).then(on_cpu);
        let small =
            |options: LoadOptions| LoadOptions { context: Some(192), cache_start: Some(64), kv: Some(kv), ..options };
        let requests: Vec<Request> =
            [(0, None), (4, Some(20)), (9, None)].map(|(n, most)| Request { max_tokens: most, ..ask(n, 1) }).to_vec();
        let mut engine = load("gguf-q8_0", &small(alone()));
        let expected: Vec<_> = requests.iter().map(|request| one(&mut engine, request).tokens).collect();
        let mut engine = load("gguf-q8_0", &small(several(3)));
        let answers = together(&mut engine, &requests);
        assert_eq!(
            answers.iter().map(|answer| &answer.tokens).collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>(),
            "{kv:?}"
        );
        assert_eq!(answers[0].tokens.len(), 192 - 3);
    }
}

/// A cache that cannot grow is an error of the one answer that needs it longer: the others have the texts that they
/// have alone.
#[test]
fn who_has_no_room_leaves_the_others_theirs() {
    let small = |options: LoadOptions| LoadOptions { context: Some(192), cache_start: Some(64), ..options };
    let longer = |length: u32| Request {
        prompt: Prompt::Tokens((0..length).map(|i| 3 + (i * i * 5 + 20) % 60).collect()),
        ..ask(4, 120)
    };
    // In chunks of eleven tokens, or of seven, a run begins where the second answer has one token more than there is
    // room for.
    let cases = [(30, 31, None, false), (30, 31, None, true), (20, 43, Some(11), false), (20, 51, Some(7), false)];
    for (first, length, chunk, late) in cases {
        // Only a GPU reports refusals late.
        let _cpu = (!late).then(on_cpu);
        let requests = [ask(0, first), longer(length), ask(9, 30)];
        let mut engine = load("gguf-q8_0", &small(alone()));
        let expected = requests.clone().map(|request| one(&mut engine, &request).tokens);
        let mut engine = load("gguf-q8_0", &small(LoadOptions { chunk, ..several(3) }));
        together(&mut engine, &requests.clone().map(|request| Request { max_tokens: Some(5), ..request }));
        let party = Party::new(3);
        requests.iter().enumerate().for_each(|(n, request)| party.ask(n, request.clone(), &Cancel::new(), |_| ()));
        engine.device().refuse_buffers(Some(Refuse { after: 0, once: false, late }));
        let answers = serve(&mut engine, &party);
        engine.device().refuse_buffers(None);
        for (n, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(answer) => {
                    assert!(n != 1 && answer.tokens == expected[n], "answer {n}, {length}, late: {late}")
                }
                Err(e) => {
                    assert!(n == 1 && e.kind() == ErrorKind::OutOfMemory, "answer {n}, {length}, late: {late}: {e}")
                }
            }
        }
    }
}

/// Prompts longer than a pass are read between the steps of other answers, which continue meanwhile.
#[test]
fn long_prompts_keep_nobody_waiting() {
    let passes =
        |options: LoadOptions| LoadOptions { prefill_rows: Some(32), context: Some(512), chunk: Some(2), ..options };
    let long =
        |n: u32| Request { prompt: Prompt::Tokens((0..330).map(|i| 3 + (i * i + n) % 50).collect()), ..ask(n, 10) };
    let mut engine = load("gguf-q4_0", &passes(alone()));
    let requests = [ask(1, 150), ask(2, 150), long(3)];
    let expected = requests.clone().map(|request| one(&mut engine, &request).tokens);
    let mut engine = load("gguf-q4_0", &passes(several(3)));
    let party = Party::new(3);
    let (later, request) = (party.clone(), requests[2].clone());
    party.ask(0, requests[0].clone(), &Cancel::new(), move |pieces| {
        if pieces == 3 {
            later.ask(2, request.clone(), &Cancel::new(), |_| ());
        }
    });
    party.ask(1, requests[1].clone(), &Cancel::new(), |_| ());
    let answers: Vec<_> = serve(&mut engine, &party).into_iter().map(|one| one.expect("an answer").tokens).collect();
    assert_eq!(answers, expected);
    let heard = party.heard.borrow();
    let first = heard.iter().position(|n| *n == 2).expect("it is answered");
    let last = heard.iter().rposition(|n| *n == 2).expect("it is answered");
    let after = heard[last..].iter().filter(|n| **n < 2).count();
    // Ten passes, with steps of both others between two of them; and it comes before they have ended.
    assert!(heard[..first].iter().filter(|n| **n == 0).count() > 10, "they went on");
    assert!(after > 0, "it did not wait for them");
}

#[test]
fn copies_of_a_prompt_are_read_once_and_conversations_stay_apart() {
    let mut engine = load("gguf-q8_0", &several(4));
    let prompt: Vec<u32> = (0..120).map(|i| 3 + i * i % 50).collect();
    let request = |seed| Request {
        reuse: true,
        temperature: 1.0,
        seed: Some(seed),
        prompt: Prompt::Tokens(prompt.clone()),
        ..ask(0, 20)
    };
    let answers = together(&mut engine, &(0..4).map(request).collect::<Vec<_>>());
    assert_eq!(answers.iter().map(|answer| answer.cached_tokens).collect::<Vec<_>>(), [0, 119, 119, 119]);
    let mut lonely = load("gguf-q8_0", &alone());
    for (seed, answer) in answers.iter().enumerate() {
        assert_eq!(answer.tokens, one(&mut lonely, &request(seed as u64)).tokens, "{seed}");
    }
    // Forks answer concurrently; two requests of one conversation in sequence.
    let [left, right] = [(); 2].map(|()| engine.fork(0).expect("a fork"));
    let more = |conversation, seed| Request { conversation, ..request(seed) };
    let forks = together(&mut engine, &[more(left, 1), more(left, 2), more(right, 3)]);
    assert_eq!(
        forks.iter().map(|fork| &fork.tokens).collect::<Vec<_>>(),
        answers[1..].iter().map(|answer| &answer.tokens).collect::<Vec<_>>()
    );
}

#[test]
fn an_error_of_one_is_nobody_elses() {
    let mut engine = load("gguf-q8_0", &several(3));
    let party = Party::new(3);
    party.ask(0, ask(1, 20), &Cancel::new(), |_| ());
    party.ask(1, Request { prompt: Prompt::Tokens(vec![1; 5000]), ..ask(2, 20) }, &Cancel::new(), |_| ());
    party.ask(2, ask(3, 20), &Cancel::new(), |_| ());
    let answers = serve(&mut engine, &party);
    let error = answers[1].as_ref().expect_err("there is no room for it");
    assert_eq!(error.code(), "CONTEXT_FULL");
    let mut lonely = load("gguf-q8_0", &alone());
    for n in [0, 2] {
        assert_eq!(answers[n].as_ref().expect("an answer").tokens, one(&mut lonely, &ask(1 + n as u32, 20)).tokens);
    }
}

/// After a device loss all answers continue on the next device.
#[test]
fn a_lost_device_changes_no_text() {
    let mut requests: Vec<Request> = (1..4).map(|n| ask(n, 40)).collect();
    requests[0].presence_penalty = 0.9;
    requests[1].logprobs = Some(2);
    let mut quiet = load("gguf-q8_0", &alone());
    let expected: Vec<_> = requests.iter().map(|request| one(&mut quiet, request).tokens).collect();
    let mut engine = load("gguf-q8_0", &LoadOptions { chunk: Some(2), ..several(3) });
    let party = Party::new(3);
    for (n, request) in requests.iter().enumerate() {
        let device = engine.device();
        party.ask(n, request.clone(), &Cancel::new(), move |pieces| {
            if n == 2 && pieces == 4 {
                device.lose();
            }
        });
    }
    let answers: Vec<_> = serve(&mut engine, &party).into_iter().map(|one| one.expect("an answer")).collect();
    assert_eq!(answers.iter().map(|answer| &answer.tokens).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
    assert!(answers[2].recoveries == 1, "{}", answers[2].recoveries);
}

/// A batch costs no more submissions, readbacks and objects a step than one answer.
#[test]
fn company_costs_the_loop_nothing() {
    let mut engine = load("gguf-q8_0", &LoadOptions { chunk: Some(16), ..several(4) });
    let requests: Vec<Request> = (0..4).map(|n| ask(n, 64)).collect();
    together(&mut engine, &requests);
    let counters = together(&mut engine, &requests)[0].counters;
    assert_eq!(counters.created, 0, "{counters:?}");
    assert!(counters.submits <= 40 && counters.readbacks <= 10, "{counters:?}");
}

/// Ten minutes (or MILLRACE_SOAK_S) of random arrivals: nothing leaks, and no request waits for ever.
#[test]
#[ignore = "takes ten minutes: npm run test:long"]
fn arrivals_at_random_leave_nothing_behind() {
    let seconds = std::env::var("MILLRACE_SOAK_S").ok().and_then(|s| s.parse().ok()).unwrap_or(600);
    let mut engine = load("gguf-q4_0", &several(6));
    let mut quiet = load("gguf-q4_0", &alone());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    let (mut n, mut memory, mut longest) = (0_u32, Vec::new(), 0);
    while std::time::Instant::now() < until {
        let requests: Vec<Request> = (0..20)
            .map(|i| {
                n = n.wrapping_mul(747_796_405).wrapping_add(2_891_336_453 + i);
                Request {
                    reuse: n % 3 == 0,
                    presence_penalty: [0.0, 0.5][(n % 7 == 0) as usize],
                    ..ask(n / 64 % 300, 1 + n / 8 % 60)
                }
            })
            .collect();
        let party = Party::new(requests.len());
        let cancels: Vec<Cancel> = requests.iter().map(|_| Cancel::new()).collect();
        for (i, request) in requests.iter().enumerate() {
            let flag = cancels[i].clone();
            party.ask(i, request.clone(), &cancels[i], move |pieces| {
                if i % 5 == 4 && pieces == 3 {
                    flag.cancel();
                }
            });
        }
        let answers = serve(&mut engine, &party);
        assert_eq!(answers.len(), requests.len());
        // The number of other answers' tokens between two of one answer.
        let heard = party.heard.take();
        for i in 0..requests.len() {
            let places: Vec<usize> = heard.iter().enumerate().filter(|(_, of)| **of == i).map(|(at, _)| at).collect();
            longest = longest.max(places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0));
        }
        let chosen = n as usize % requests.len();
        let (answer, request) = (answers[chosen].as_ref().expect("an answer"), &requests[chosen]);
        if !request.reuse && answer.finish_reason == FinishReason::Length {
            assert_eq!(answer.tokens, one(&mut quiet, request).tokens);
        }
        memory.push(engine.info().memory.total);
    }
    // What is kept for the next prompts depends on the texts: of one round it differs by two hundredths.
    let (begin, end) = memory.split_at(memory.len() / 2);
    let mean = |of: &[u64]| of.iter().sum::<u64>() as f64 / of.len() as f64;
    assert!(mean(end) < 1.01 * mean(begin), "memory grows: {memory:?}");
    assert!(longest < 6 * 60 * 6, "{longest} tokens of others came between two");
}
