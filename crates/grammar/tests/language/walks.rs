//! Random walks: any allowed byte, with a leaning towards the end. What is finished satisfies the schema; what is not
//! can be finished.

use millrace_grammar::{Automaton, Walk, entry};
use serde_json::Value;

use crate::support::{Random, of};

/// A byte that may come next: any, or one that leads to the end.
fn next(automaton: &Automaton, walk: &Walk, allowed: &[u8], random: &mut Random, home: bool) -> u8 {
    let mut best = (-1, 0u8);
    let mut seen = 0;
    for &byte in allowed {
        let rank = match automaton.entry(walk.state(), byte) >> 30 {
            _ if !home => 0,
            entry::POP => 3,
            entry::PLAIN => 2,
            entry::PUSH => 1,
            _ => 0,
        };
        if rank > best.0 {
            (best, seen) = ((rank, byte), 1);
        } else if rank == best.0 {
            seen += 1;
            if random.below(seen) == 0 {
                best.1 = byte;
            }
        }
    }
    assert!(best.0 >= 0, "nothing is allowed in state {} at depth {}", walk.state(), walk.depth());
    best.1
}

/// Walks once; whether it came to an end.
pub fn checked(schema: &Value, automaton: &Automaton, random: &mut Random) -> bool {
    let mut walk = Walk::new(automaton);
    let mut text = Vec::new();
    let wander = random.below(120);
    for step in 0..3000 {
        let allowed: Vec<u8> =
            (0..=255u8).filter(|&b| automaton.entry(walk.state(), b) != 0 && walk.allowed(automaton, &[b])).collect();
        if walk.accepting(automaton) && (step > wander || random.chance(30) || allowed.is_empty()) {
            judge(schema, &text);
            return true;
        }
        let home = step > wander && random.chance(90);
        let byte = next(automaton, &walk, &allowed, random, home);
        assert!(walk.advance(automaton, byte));
        text.push(byte);
    }
    false
}

fn judge(schema: &Value, text: &[u8]) {
    let shown = String::from_utf8_lossy(text);
    let value: Value = match serde_json::from_slice(text) {
        Ok(value) => value,
        // Hundreds of digits are a number to JSON, but not to a parser of doubles.
        Err(e) if e.to_string().starts_with("number out of range") && text.len() > 200 => return,
        Err(e) => panic!("{schema}: {shown}: {e}"),
    };
    if repeats(text) {
        return;
    }
    let validator =
        jsonschema::options().with_draft(jsonschema::Draft::Draft202012).should_validate_formats(true).build(schema);
    // What the other validator cannot read is left to the suites.
    let Ok(validator) = validator else { return };
    // The validator divides doubles, which hold 15 digits, where here all digits count; and takes -0 for no integer in
    // a list of types. It also takes -23 for no multiple of 0.5, and 8303.96 for none of 0.01.
    let divided = shown.contains(['-', '.']) && schema.to_string().contains("multipleOf");
    let rounded = divided
        || shown.contains("-0")
        || shown.split(|c: char| !c.is_ascii_digit() && c != '.').any(|digits| digits.len() > 15);
    assert!(rounded || validator.is_valid(&value), "{schema} does not have {shown}");
}

/// A key that comes twice is one member to a parser, which may then be too few or other ones.
fn repeats(text: &[u8]) -> bool {
    let colons = text.iter().filter(|&&b| b == b':').count();
    fn members(value: &Value) -> usize {
        match value {
            Value::Object(map) => {
                map.len() + map.iter().map(|(k, v)| k.matches(':').count() + members(v)).sum::<usize>()
            }
            Value::Array(list) => list.iter().map(members).sum(),
            Value::String(s) => s.matches(':').count(),
            _ => 0,
        }
    }
    let escaped = String::from_utf8_lossy(text).to_ascii_lowercase().matches("\\u003a").count();
    serde_json::from_slice(text).is_ok_and(|v: Value| members(&v) - escaped != colons)
}

#[test]
fn walks_end_in_what_satisfies_the_schema() {
    let mut random = Random::new(1);
    let (mut ended, mut all) = (0, 0);
    for schema in crate::schemas::all() {
        let automaton = of(&schema);
        for _ in 0..60 {
            all += 1;
            ended += usize::from(checked(&schema, &automaton, &mut random));
        }
    }
    println!("{ended} of {all} walks ended");
    assert!(ended * 100 >= all * 98);
}
