//! MaskBench (guidance-ai/jsonschemabench): schemas of the world with valid and invalid instances. Only files whose
//! name has an even first byte of its SHA-256: the others are kept to judge what has been learnt from these.
//! `MILLRACE_HELD_OUT` measures the others, and prints nothing of them but the sums.

use std::time::Instant;

use millrace_grammar::{Automaton, Grammar, Judge, Options, Walk, compile};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::fetch::suite;
use crate::text::dumps;

#[derive(Default)]
struct Sum {
    schemas: usize,
    passed: usize,
    refused: usize,
    /// Schemas of which the automaton refuses a valid instance.
    too_narrow: usize,
    /// Schemas of which a valid instance is no answer that can be forced: its keys have the schema's order alone.
    not_forced: usize,
    /// Schemas of which a valid instance is refused when it is judged.
    misjudged: usize,
    /// Of these, schemas that accept the instance with its keys in another order.
    other_order: usize,
    accepted_invalid: usize,
    invalid: usize,
    valid: usize,
    reasons: std::collections::BTreeMap<String, usize>,
    ms: Vec<f64>,
    states: Vec<u32>,
    bytes: Vec<usize>,
}

#[test]
#[ignore = "clones MaskBench"]
fn maskbench() {
    let folder = suite("maskbench", "guidance-ai/jsonschemabench");
    let data = ["maskbench/data", "."]
        .map(|d| folder.join(d))
        .into_iter()
        .find(|d| d.join("Github_easy---o10008.json").exists() || d.ends_with("data"))
        .unwrap();
    let data = if data.exists() { data } else { folder };
    let verbose = std::env::var("VERBOSE").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(data)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    let mut sum = Sum::default();
    let held_out = std::env::var_os("MILLRACE_HELD_OUT").is_some();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        if (Sha256::digest(name.as_bytes())[0] % 2 != 0) != held_out {
            continue;
        }
        let Ok(case) = serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()) else {
            panic!("{name} is no JSON")
        };
        judge(name, &case, &mut sum, if held_out { None } else { Some(&verbose) });
    }
    sum.ms.sort_by(f64::total_cmp);
    sum.states.sort_unstable();
    sum.bytes.sort_unstable();
    let at = |p: f64| ((sum.ms.len() - 1) as f64 * p) as usize;
    let mut reasons: Vec<_> = sum.reasons.iter().collect();
    reasons.sort_by_key(|r| std::cmp::Reverse(r.1));
    for (reason, n) in reasons.iter().take(if held_out { 0 } else { 40 }) {
        println!("{n:5} {reason}");
    }
    println!(
        "{} schemas: {} pass, {} refused, {} refuse a valid instance, {} accept an invalid one",
        sum.schemas, sum.passed, sum.refused, sum.too_narrow, sum.accepted_invalid
    );
    println!("{} of those that refuse a valid instance have it in another order of its keys", sum.other_order);
    println!("{} have a valid instance that is never forced, whose keys have one order", sum.not_forced);
    println!("{} refuse a valid instance when it is judged, its keys in any order", sum.misjudged);
    println!("instances: {} valid, {} invalid", sum.valid, sum.invalid);
    println!("compiled in ms: median {:.2}, p99 {:.2}, max {:.2}", sum.ms[at(0.5)], sum.ms[at(0.99)], sum.ms[at(1.0)]);
    println!(
        "states: median {}, p99 {}, max {}",
        sum.states[sum.states.len() / 2],
        sum.states[sum.states.len() * 99 / 100],
        sum.states[sum.states.len() - 1]
    );
    println!(
        "bytes: median {}, p99 {}, max {}",
        sum.bytes[sum.bytes.len() / 2],
        sum.bytes[sum.bytes.len() * 99 / 100],
        sum.bytes[sum.bytes.len() - 1]
    );
    assert!(sum.schemas > 5000, "only {} schemas", sum.schemas);
    assert_eq!(sum.accepted_invalid, 0);
    assert!(sum.passed * 100 >= sum.schemas * 95);
    // The automaton takes members in the schema's orders alone; what refuses an instance in any order is less.
    assert!(sum.too_narrow * 100 <= sum.schemas * 2);
    assert!((sum.too_narrow - sum.other_order) * 1000 <= sum.schemas * 5);
    assert!(sum.misjudged * 1000 <= sum.schemas * 2);
}

/// `verbose`: what to say of the schema; nothing where it is `None`.
fn judge(name: &str, case: &Value, sum: &mut Sum, verbose: Option<&str>) {
    sum.schemas += 1;
    let grammar = Grammar::json_schema_value(case["schema"].clone());
    let began = Instant::now();
    let made = Judge::new(grammar.clone(), &Options::default());
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let forced = compile(&grammar, &Options { required_first: false, ..Options::default() }).map(|made| made.0).ok();
    sum.ms.push(ms);
    if ms > 300.0 && verbose.is_some() {
        println!(
            "{name}: {ms:.0} ms {}",
            made.as_ref().map_or_else(
                |e| e.to_string(),
                |j| format!("{} states, {} raw, {} work", j.report().states, j.report().raw_states, j.report().work)
            )
        );
    }
    let judge = match made {
        Ok(judge) => {
            sum.states.push(judge.report().states);
            sum.bytes.push(judge.report().bytes);
            judge
        }
        Err(e) => {
            sum.refused += 1;
            let key = format!("{} {}: {}", e.code(), e.keyword(), e.reason());
            if verbose.is_some_and(|verbose| !verbose.is_empty() && key.contains(verbose)) {
                println!("{name}: {e}");
            }
            *sum.reasons.entry(key.chars().take(110).collect()).or_default() += 1;
            return;
        }
    };
    let automaton = judge.automaton();
    let (mut narrow, mut wide, mut order, mut misjudged, mut not_forced) = (false, false, true, false, false);
    for (i, test) in case["tests"].as_array().unwrap().iter().enumerate() {
        let text = dumps(&test["data"]);
        let mut walk = Walk::new(automaton);
        let stop = text.iter().position(|&b| !walk.advance(automaton, b));
        let accepted = stop.is_none() && walk.accepting(automaton);
        let judged = judge.accepts(&text).unwrap_or_else(|e| panic!("{name} {i}: {e}"));
        if test["valid"] == true {
            sum.valid += 1;
            misjudged |= !judged;
            not_forced |= !forced.as_ref().is_some_and(|forced| {
                let mut walk = Walk::new(forced);
                text.iter().all(|&b| walk.advance(forced, b)) && walk.accepting(forced)
            });
            if !judged && verbose == Some("narrow") {
                println!("MISJUDGED {name} {i}");
            }
            if !accepted {
                narrow = true;
                let ordered =
                    Writer { automaton, left: 20_000 }
                        .write(&Walk::new(automaton), &test["data"], &mut |_, walk| walk.accepting(automaton));
                order &= ordered;
                let at = stop.unwrap_or(text.len());
                let from = at.saturating_sub(60);
                if verbose == Some("narrow") {
                    println!(
                        "NARROW {}{name} {i}: ...{} <!> {}",
                        if ordered { "(order) " } else { "" },
                        String::from_utf8_lossy(&text[from..at]),
                        String::from_utf8_lossy(&text[at..(at + 40).min(text.len())])
                    );
                }
            }
        } else {
            sum.invalid += 1;
            if accepted || judged {
                wide = true;
                if verbose.is_none() {
                    continue;
                }
                println!("WIDE {name} {i}: {}", String::from_utf8_lossy(&text).chars().take(300).collect::<String>());
            }
        }
    }
    sum.too_narrow += usize::from(narrow);
    sum.other_order += usize::from(narrow && order);
    sum.misjudged += usize::from(misjudged);
    sum.not_forced += usize::from(not_forced);
    sum.accepted_invalid += usize::from(wide);
    sum.passed += usize::from(!narrow && !wide);
}

/// Writes a value with its keys in the order that an automaton accepts.
struct Writer<'a> {
    automaton: &'a Automaton,
    /// Texts that are tried at most.
    left: usize,
}

/// What comes behind a value.
type Next<'n> = &'n mut dyn FnMut(&mut Writer, &Walk) -> bool;

impl Writer<'_> {
    fn text(&mut self, walk: &Walk, text: &[u8]) -> Option<Walk> {
        self.left = self.left.checked_sub(1)?;
        let mut walk = walk.clone();
        text.iter().all(|&b| walk.advance(self.automaton, b)).then_some(walk)
    }

    fn write(&mut self, walk: &Walk, value: &Value, next: Next) -> bool {
        match value {
            Value::Object(map) => self
                .text(walk, b"{")
                .is_some_and(|walk| self.members(&walk, &map.iter().collect::<Vec<_>>(), true, next)),
            Value::Array(list) => self.text(walk, b"[").is_some_and(|walk| self.items(&walk, list, true, next)),
            scalar => self.text(walk, &dumps(scalar)).is_some_and(|walk| next(self, &walk)),
        }
    }

    fn members(&mut self, walk: &Walk, members: &[(&String, &Value)], first: bool, next: Next) -> bool {
        if members.is_empty() {
            return self.text(walk, b"}").is_some_and(|walk| next(self, &walk));
        }
        for (i, (key, value)) in members.iter().enumerate() {
            let name = [if first { &b""[..] } else { b", " }, &dumps(&Value::from(key.as_str())), b": "].concat();
            let Some(walk) = self.text(walk, &name) else { continue };
            let rest = [&members[..i], &members[i + 1..]].concat();
            if self.write(&walk, value, &mut |writer, walk| writer.members(walk, &rest, false, next)) {
                return true;
            }
        }
        false
    }

    fn items(&mut self, walk: &Walk, items: &[Value], first: bool, next: Next) -> bool {
        let Some((item, rest)) = items.split_first() else {
            return self.text(walk, b"]").is_some_and(|walk| next(self, &walk));
        };
        let Some(walk) = (if first { Some(walk.clone()) } else { self.text(walk, b", ") }) else { return false };
        self.write(&walk, item, &mut |writer, walk| writer.items(walk, rest, false, next))
    }
}
