//! JSON-Schema-Test-Suite (json-schema-org, MIT), draft 2020-12.

use millrace_grammar::{ErrorKind, Grammar, Judge, Options, Walk};
use serde_json::Value;

use crate::fetch::suite;
use crate::text::dumps;

/// Members in the order of the schema's keys, which is the one that is written, and numbers without a fraction that is
/// zero, as JavaScript writes them.
fn ordered(value: &Value, schema: &Value) -> Value {
    match value {
        Value::Number(n) => match n.as_f64().filter(|x| x.fract() == 0.0 && x.abs() < 1e15) {
            Some(x) => Value::from(x as i64),
            None => value.clone(),
        },
        Value::Array(list) => list.iter().map(|v| ordered(v, schema)).collect(),
        Value::Object(map) => {
            let mut names = Vec::new();
            names_of(schema, &mut names);
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_by_key(|k| names.iter().position(|n| n == *k).unwrap_or(usize::MAX));
            Value::Object(keys.into_iter().map(|k| (k.clone(), ordered(&map[k], schema))).collect())
        }
        other => other.clone(),
    }
}

fn names_of(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                names.extend(properties.keys().cloned());
            }
            if let Some(Value::Array(required)) = map.get("required") {
                names.extend(required.iter().filter_map(|r| r.as_str().map(str::to_owned)));
            }
            map.values().for_each(|v| names_of(v, names));
        }
        Value::Array(list) => list.iter().for_each(|v| names_of(v, names)),
        _ => {}
    }
}

#[test]
#[ignore = "clones the suite"]
fn standard_suite() {
    let folder = suite("suite", "json-schema-org/JSON-Schema-Test-Suite").join("tests/draft2020-12");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    let (mut passed, mut refused, mut narrow, mut wide, mut all) = (0, 0, 0, 0, 0);
    let (mut judged, mut misjudged_wide) = (0, 0);
    for file in files {
        let groups: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        for group in groups {
            let tests = group["tests"].as_array().unwrap();
            all += tests.len();
            let made = Judge::new(Grammar::json_schema_value(group["schema"].clone()), &Options::default());
            let judge = match made {
                Ok(judge) => judge,
                // Nothing satisfies it: every instance is invalid.
                Err(e) if e.kind() == ErrorKind::Unsatisfiable => {
                    let invalid = tests.iter().filter(|t| t["valid"] == false).count();
                    (passed, judged) = (passed + invalid, judged + invalid);
                    for test in tests.iter().filter(|t| t["valid"] == true) {
                        narrow += 1;
                        println!("NARROW {name}: {} / {}: unsatisfiable", group["description"], test["description"]);
                    }
                    continue;
                }
                Err(e) => {
                    refused += tests.len();
                    println!("refused {name}: {}: {} {e}", group["description"], e.code());
                    continue;
                }
            };
            for test in tests {
                let text = dumps(&ordered(&test["data"], &group["schema"]));
                let automaton = judge.automaton();
                let mut walk = Walk::new(automaton);
                let accepted = text.iter().all(|&b| walk.advance(automaton, b)) && walk.accepting(automaton);
                // As the suite writes it: keys in any order, numbers with fractions that are zero.
                let verdict = judge.accepts(&dumps(&test["data"])).unwrap();
                if verdict == (test["valid"] == true) {
                    judged += 1;
                } else {
                    misjudged_wide += usize::from(verdict);
                    println!("MISJUDGED {name}: {} / {}", group["description"], test["description"]);
                }
                match (accepted, test["valid"] == true) {
                    (true, false) => {
                        wide += 1;
                        println!(
                            "WIDE {name}: {} / {}: {}",
                            group["description"],
                            test["description"],
                            String::from_utf8_lossy(&text)
                        );
                    }
                    (false, true) => {
                        narrow += 1;
                        println!(
                            "NARROW {name}: {} / {}: {}",
                            group["description"],
                            test["description"],
                            String::from_utf8_lossy(&text)
                        );
                    }
                    _ => passed += 1,
                }
            }
        }
    }
    println!(
        "{all} tests: {passed} pass, {refused} of refused schemas, {narrow} valid refused, {wide} invalid accepted"
    );
    println!("{judged} pass where a text is judged, {misjudged_wide} invalid accepted");
    assert_eq!((wide, misjudged_wide), (0, 0));
    assert!(passed >= 1122);
    assert!(judged >= 1128);
}
