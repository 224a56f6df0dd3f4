//! What forcing answers into a form costs: free and forced decoding in turns, over a vocabulary that is made up in the
//! likeness of real ones.

use std::collections::HashSet;
use std::rc::Rc;

use serde::Serialize;
use serde_json::json;

use super::{Options, median, pace, plain};
use crate::base::Cancel;
use crate::check::inputs::Random;
use crate::decode::{self, Session, Speculate, Turn};
use crate::error::Result;
use crate::grammar::{Compiler, Constraint, Grammar, Vocabulary};
use crate::sample::SamplingOptions;
use crate::state::Input;

/// Free and forced decoding, in turns in one run.
#[derive(Debug, Clone, Serialize)]
pub struct Forced {
    /// States of the grammar.
    pub states: u32,
    /// Bytes of it on the GPU.
    pub bytes: usize,
    /// Compiling it, ms.
    pub compile_ms: f64,
    /// What the first forced answer takes longer than a free one: kernels are compiled and tested, grammar and
    /// vocabulary uploaded; ms.
    pub first_ms: f64,
    /// Tokens a second without the grammar, median.
    pub free_tok_s: f64,
    /// Tokens a second with the grammar, median.
    pub forced_tok_s: f64,
    /// `forced_tok_s` over `free_tok_s`.
    pub ratio: f64,
    /// Readbacks of each.
    pub readbacks: [u64; 2],
    /// Objects created while decoding with the grammar.
    pub created: u64,
}

/// A form that answers are forced into, over a made-up vocabulary.
pub struct Form {
    grammar: Rc<Grammar>,
    vocabulary: Rc<Vocabulary>,
}

impl Form {
    /// The constraint of an answer that begins.
    pub fn begin(&self) -> Constraint {
        Constraint::new(self.grammar.clone(), self.vocabulary.clone())
    }
}

/// Compiles the form, for a model with `vocab` logits.
pub async fn form(compiler: &dyn Compiler, vocab: usize) -> Result<Form> {
    // An answer that does not end, and goes through keys, texts, numbers, lists and choices.
    let item = json!({
        "type": "object",
        "properties": {
            "name": { "type": "string", "maxLength": 24 },
            "about": { "type": "string", "minLength": 60, "maxLength": 200 },
            "age": { "type": "integer", "minimum": 0, "maximum": 150 },
            "score": { "type": "number" },
            "kind": { "enum": ["student", "teacher", "engineer", "visitor"] },
            "tags": { "type": "array", "items": { "type": "string", "maxLength": 12 }, "minItems": 2, "maxItems": 4 },
            "active": { "type": "boolean" },
        },
        "required": ["name", "about", "age", "score", "kind", "tags", "active"],
        "additionalProperties": false,
    });
    let description = json!({ "schema": { "type": "array", "minItems": 100_000, "items": item } });
    let grammar = Rc::new(compiler.compile(description.to_string(), false).await?);
    Ok(Form { grammar, vocabulary: Rc::new(vocabulary(vocab)) })
}

/// Measures free and forced decoding in turns.
pub async fn measure(
    session: &mut Session,
    prompt: &Input,
    options: &Options,
    form: &Form,
    cancel: &Cancel,
) -> Result<Forced> {
    let about = form.grammar.about(form.grammar.ms);
    let sampling = SamplingOptions::default().parameters(&[], decode::RING)?;
    let (mut speeds, mut readbacks, mut created, mut first_ms) = ([Vec::new(), Vec::new()], [0; 2], 0, 0.0);
    // The first turn of each warms up.
    for turn in 0..=options.runs {
        for forced in [false, true] {
            cancel.check()?;
            let mut constraint = forced.then(|| form.begin());
            let constraint = constraint.as_mut();
            let asked = Turn { constraint, speculate: Speculate::Off, ..plain(prompt, sampling, options, cancel) };
            let outcome = session.generate(asked, pace(options)).await?;
            if turn == 0 {
                first_ms = outcome.timings.prefill_ms - first_ms;
                continue;
            }
            speeds[usize::from(forced)].push(outcome.timings.decode_tok_s);
            readbacks[usize::from(forced)] = outcome.counters.readbacks;
            if forced {
                let made = outcome.counters;
                created += made.buffers + made.bind_groups + made.pipelines;
            }
        }
    }
    let [free_tok_s, forced_tok_s] = speeds.map(median);
    Ok(Forced {
        states: about.states,
        bytes: about.bytes,
        compile_ms: about.ms,
        first_ms,
        free_tok_s,
        forced_tok_s,
        ratio: forced_tok_s / free_tok_s,
        readbacks,
        created,
    })
}

/// Single bytes, numbers, runs of white space and punctuation, what JSON is made of, words with and without a space
/// before them, and other scripts; the lengths are those of byte-level vocabularies: 6 bytes on average, 64 at most.
fn vocabulary(v: usize) -> Vocabulary {
    let mut random = Random::new("a vocabulary");
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let mut list: Vec<Vec<u8>> = Vec::with_capacity(v);
    let mut add = |token: Vec<u8>| {
        if list.len() < v && (1..=64).contains(&token.len()) && seen.insert(token.clone()) {
            list.push(token);
        }
        list.len() < v
    };
    (0..=255u8).for_each(|b| _ = add(vec![b]));
    (0..1000).for_each(|n: u32| _ = add(n.to_string().into_bytes()));
    for n in 2..=64 {
        add(vec![b' '; n]);
        add([b"\n", vec![b' '; n.min(24)].as_slice()].concat());
        b"-=#*_/".iter().filter(|_| n % 4 == 0).for_each(|c| _ = add(vec![*c; n]));
    }
    const JSON: &str = "\" \": \", \",\" \"} \"] \"}, {\" [{\" [\" }} }] ]} },{\" }],\" \":\" \":{\" \":[\" {} [] [[ ]] {{ }}, \\\" \\n \\u true false null true, null} 0. 1.0 -1";
    for piece in JSON.split(' ') {
        ["", " ", "\n"].iter().for_each(|before| _ = add(format!("{before}{piece}").into_bytes()));
    }
    let letters = b"eeeeaaaiiooouttttnnnsssrrrhhllddccmmffppggwwyybbvk";
    let scripts = [(0x430, 32), (0x3b1, 24), (0x4e00, 0x5000), (0x3041, 80), (0xac00, 0x2b00), (0x627, 32)];
    loop {
        let mut text = String::new();
        if random.below(9) > 3 {
            text.push(' ');
        }
        if random.below(8) == 0 {
            let (from, many) = scripts[random.below(scripts.len() as u32) as usize];
            text.extend((0..1 + random.below(4)).filter_map(|_| char::from_u32(from + random.below(many))));
        } else {
            let length = 2 + random.below(6) + random.below(6);
            text.extend((0..length).map(|_| char::from(letters[random.below(letters.len() as u32) as usize])));
            match random.below(12) {
                0 => text.push_str("\":"),
                1 => text.push('('),
                2 => text = text.to_uppercase(),
                _ => {}
            }
        }
        if !add(text.into_bytes()) {
            break;
        }
    }
    Vocabulary::new(list.iter().map(Vec::as_slice), |_| false)
}
