//! MaskBench (guidance-ai/jsonschemabench): schemas of the world with valid and invalid instances. Only files whose name has an even first byte of its
//! SHA-256: the others are kept to judge what has been learnt from these.

use std::time::Instant;

use millrace_grammar::{Grammar, Options, Walk, compile};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::fetch::suite;
use crate::text::dumps;

#[derive(Default)]
struct Sum {
    schemas: usize,
    passed: usize,
    refused: usize,
    /// Schemas of which a valid instance is refused.
    too_narrow: usize,
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
    let data =
        ["maskbench/data", "."].map(|d| folder.join(d)).into_iter().find(|d| d.join("Github_easy---o10008.json").exists() || d.ends_with("data")).unwrap();
    let data = if data.exists() { data } else { folder };
    let verbose = std::env::var("VERBOSE").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(data).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    let mut sum = Sum::default();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        if Sha256::digest(name.as_bytes())[0] % 2 != 0 {
            continue;
        }
        let Ok(case) = serde_json::from_str::<Value>(&std::fs::read_to_string(&file).unwrap()) else { panic!("{name} is no JSON") };
        judge(name, &case, &mut sum, &verbose);
    }
    sum.ms.sort_by(f64::total_cmp);
    sum.states.sort_unstable();
    sum.bytes.sort_unstable();
    let at = |p: f64| ((sum.ms.len() - 1) as f64 * p) as usize;
    let mut reasons: Vec<_> = sum.reasons.iter().collect();
    reasons.sort_by_key(|r| std::cmp::Reverse(r.1));
    for (reason, n) in reasons.iter().take(40) {
        println!("{n:5} {reason}");
    }
    println!(
        "{} schemas: {} pass, {} refused, {} refuse a valid instance, {} accept an invalid one",
        sum.schemas, sum.passed, sum.refused, sum.too_narrow, sum.accepted_invalid
    );
    println!("instances: {} valid, {} invalid", sum.valid, sum.invalid);
    println!("compiled in ms: median {:.2}, p99 {:.2}, max {:.2}", sum.ms[at(0.5)], sum.ms[at(0.99)], sum.ms[at(1.0)]);
    println!("states: median {}, p99 {}, max {}", sum.states[sum.states.len() / 2], sum.states[sum.states.len() * 99 / 100], sum.states[sum.states.len() - 1]);
    println!("bytes: median {}, p99 {}, max {}", sum.bytes[sum.bytes.len() / 2], sum.bytes[sum.bytes.len() * 99 / 100], sum.bytes[sum.bytes.len() - 1]);
    assert!(sum.schemas > 5000, "only {} schemas", sum.schemas);
    assert_eq!(sum.accepted_invalid, 0);
    assert!(sum.passed * 100 >= sum.schemas * 85);
    assert!(sum.too_narrow * 100 <= sum.schemas);
}

fn judge(name: &str, case: &Value, sum: &mut Sum, verbose: &str) {
    sum.schemas += 1;
    let grammar = Grammar::json_schema_value(case["schema"].clone());
    let began = Instant::now();
    let made = compile(&grammar, &Options::default());
    let ms = began.elapsed().as_secs_f64() * 1e3;
    sum.ms.push(ms);
    if ms > 300.0 {
        println!(
            "{name}: {ms:.0} ms {}",
            made.as_ref().map_or_else(|e| e.to_string(), |m| format!("{} states, {} raw, {} work", m.1.states, m.1.raw_states, m.1.work))
        );
    }
    let automaton = match made {
        Ok((automaton, report)) => {
            sum.states.push(report.states);
            sum.bytes.push(report.bytes);
            automaton
        }
        Err(e) => {
            sum.refused += 1;
            let key = format!("{} {}: {}", e.code(), e.keyword(), e.reason());
            if !verbose.is_empty() && key.contains(verbose) {
                println!("{name}: {e}");
            }
            *sum.reasons.entry(key.chars().take(110).collect()).or_default() += 1;
            return;
        }
    };
    let (mut narrow, mut wide) = (false, false);
    for (i, test) in case["tests"].as_array().unwrap().iter().enumerate() {
        let text = dumps(&test["data"]);
        let mut walk = Walk::new(&automaton);
        let stop = text.iter().position(|&b| !walk.advance(&automaton, b));
        let accepted = stop.is_none() && walk.accepting(&automaton);
        if test["valid"] == true {
            sum.valid += 1;
            if !accepted {
                narrow = true;
                let at = stop.unwrap_or(text.len());
                let from = at.saturating_sub(60);
                if verbose == "narrow" {
                    println!(
                        "NARROW {name} {i}: ...{} <!> {}",
                        String::from_utf8_lossy(&text[from..at]),
                        String::from_utf8_lossy(&text[at..(at + 40).min(text.len())])
                    );
                }
            }
        } else {
            sum.invalid += 1;
            if accepted {
                wide = true;
                println!("WIDE {name} {i}: {}", String::from_utf8_lossy(&text).chars().take(300).collect::<String>());
            }
        }
    }
    sum.too_narrow += usize::from(narrow);
    sum.accepted_invalid += usize::from(wide);
    sum.passed += usize::from(!narrow && !wide);
}
