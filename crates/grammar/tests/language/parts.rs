//! Arrays that come from another module: those of the compiler are taken as they are, and whatever else is taken stays
//! within itself.

use millrace_grammar::{Automaton, Walk};
use serde_json::json;

use crate::support::{Random, of};

fn again(a: &Automaton) -> Option<Automaton> {
    Automaton::from_parts(
        a.table.clone(),
        a.info.clone(),
        a.states_info.clone(),
        a.classes,
        a.states,
        a.symbols,
        a.start,
    )
}

#[test]
fn what_the_compiler_makes_is_sound() {
    for schema in crate::schemas::all() {
        let automaton = of(&schema);
        assert_eq!(again(&automaton).as_ref(), Some(&automaton), "{schema}");
    }
}

#[test]
fn what_is_taken_stays_within_its_arrays() {
    let automaton = of(
        &json!({ "properties": { "a": { "type": "array", "items": { "maxLength": 3 } }, "b": { "anyOf": [{ "type": "string" }, { "items": true }] } } }),
    );
    let mut random = Random::new(9);
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..4000 {
        let mut broken = automaton.clone();
        for _ in 0..random.below(3) + 1 {
            let value = if random.chance(50) {
                random.next() as u32
            } else {
                random.below(300) as u32 | (random.below(4) as u32) << 30
            };
            match random.below(6) {
                0 => {
                    *[&mut broken.classes, &mut broken.states, &mut broken.symbols, &mut broken.start]
                        [random.below(4)] = value
                }
                1 | 2 => {
                    let i = random.below(broken.info.len());
                    broken.info[i] = value;
                }
                3 => {
                    let (array, by) = (random.below(3), random.below(3));
                    let array =
                        [&mut broken.table, &mut broken.info, &mut broken.states_info].into_iter().nth(array).unwrap();
                    array.truncate(array.len() - by);
                }
                _ => {
                    let i = random.below(broken.table.len());
                    broken.table[i] = value;
                }
            }
        }
        let Some(broken) = again(&broken) else {
            refused += 1;
            continue;
        };
        taken += 1;
        let mut walk = Walk::new(&broken);
        for _ in 0..300 {
            let byte = if random.chance(30) { random.next() as u8 } else { b"{}[]\",:ab\\1"[random.below(11)] };
            walk.advance(&broken, byte);
            assert!(walk.state() < broken.states);
        }
    }
    println!("{taken} taken, {refused} refused");
    assert!(taken > 200 && refused > 200);
}

#[test]
fn a_walk_goes_on_from_its_words() {
    let automaton = of(&json!({ "type": "array", "items": { "maxLength": 3 } }));
    let mut walk = Walk::new(&automaton);
    for byte in *b"[[ \"ab" {
        assert!(walk.advance(&automaton, byte));
        assert_eq!(Walk::from_words(&automaton, &walk.words()).as_ref(), Some(&walk));
    }
    let words = walk.words();
    assert!(Walk::from_words(&automaton, &words[..words.len() - 1]).is_none());
    for (place, value) in [(0, automaton.states), (1, 1001), (4, automaton.symbols)] {
        let mut words = words.clone();
        words.resize(5000, 0);
        words[place] = value;
        assert!(Walk::from_words(&automaton, &words).is_none(), "{place}");
    }
}
