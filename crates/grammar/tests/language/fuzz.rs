//! Random schemas and regular expressions for as long as one likes: no panic, and the bounds of time and memory that
//! the limits promise.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use millrace_grammar::Grammar;
use serde_json::{Value, json};

use crate::hostile::fuzzed_schema;
use crate::support::{Random, made};

/// Limits of one compilation.
const MAX_TIME: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 64 << 20;

/// Counts what is allocated.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all of it is the system's allocator; the counters hand out nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(live, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Time that this thread has been on a core, where the system tells: other programs do not count. Else the time of day.
fn clock(began: Instant) -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = spent.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| began.elapsed(), Duration::from_nanos)
}

/// A regular expression of random parts inside each other.
fn regex(random: &mut Random, depth: usize) -> String {
    let leaf = ["a", "b", "é", ".", "\\d", "\\w", "\\S", "[a-f]", "[^x]", "[\\s-]", "😀", "^", "$", "\\u00e9", "0"];
    if depth == 0 || random.chance(25) {
        return leaf[random.below(leaf.len())].to_owned();
    }
    let mut inner = || regex(random, depth - 1);
    let (a, b) = (inner(), inner());
    match random.below(12) {
        0..=3 => a + &b,
        4 | 5 => format!("({a}|{b})"),
        6 => format!("({a})*"),
        7 => format!("({a})+"),
        8 => format!("({a})?{b}"),
        9 => format!("({a}){{{},{}}}", random.below(4), 4 + random.below(60)),
        10 => format!("({a}){{{},}}", random.below(300)),
        _ => format!("^(?{}{a}){b}", ["=", "!", ":"][random.below(3)]),
    }
}

fn widened(random: &mut Random) -> Value {
    let mut schema = fuzzed_schema(random, 3);
    // More of what multiplies.
    if random.chance(30) {
        let many: Vec<Value> = (0..random.below(30)).map(|_| fuzzed_schema(random, 1)).collect();
        schema[["anyOf", "oneOf", "allOf"][random.below(3)]] = json!(many);
    }
    if random.chance(20) {
        let properties: serde_json::Map<String, Value> =
            (0..random.below(200)).map(|i| (format!("key {i}"), fuzzed_schema(random, 0))).collect();
        schema["properties"] = json!(properties);
    }
    if random.chance(20) {
        schema["pattern"] = json!(regex(random, 4));
    }
    if random.chance(10) {
        schema["patternProperties"] = json!({ regex(random, 3): fuzzed_schema(random, 1) });
    }
    schema
}

#[test]
#[ignore = "takes MILLRACE_FUZZ_SECONDS"]
fn nothing_takes_long_or_much() {
    let seconds = std::env::var("MILLRACE_FUZZ_SECONDS").map_or(60, |s| s.parse().unwrap());
    let seed = std::env::var("MILLRACE_FUZZ_SEED").map_or(1, |s| s.parse().unwrap());
    let started = Instant::now();
    let mut random = Random::new(seed);
    let (mut n, mut slowest, mut largest) = (0u64, Duration::ZERO, 0);
    let mut codes = std::collections::BTreeMap::new();
    let mut over = Vec::new();
    while started.elapsed() < Duration::from_secs(seconds) {
        let (what, grammar) = if n.is_multiple_of(2) {
            let source = regex(&mut random, 7);
            (source.clone(), Grammar::regex(source))
        } else {
            let schema = widened(&mut random);
            (schema.to_string(), Grammar::json_schema_value(schema))
        };
        let before = LIVE.load(Relaxed);
        MOST.store(before, Relaxed);
        let began = clock(started);
        let result = made(&grammar);
        let took = clock(started) - began;
        let bytes = MOST.load(Relaxed) - before;
        n += 1;
        *codes.entry(result.as_ref().map_or_else(|e| e.code(), |_| "compiled")).or_insert(0u64) += 1;
        drop(result);
        slowest = slowest.max(took);
        largest = largest.max(bytes);
        if took > MAX_TIME || bytes > MAX_BYTES {
            println!("{took:?}, {bytes} bytes: {what}");
            over.push(what);
        }
    }
    println!("{n} grammars, {codes:?}; slowest {slowest:?}, most {largest} bytes");
    assert!(over.is_empty(), "{} grammars are beyond the bounds", over.len());
}
