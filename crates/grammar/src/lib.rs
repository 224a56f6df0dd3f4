//! Structured output as an automaton that a GPU can walk.
//!
//! A [`Grammar`] says what a text has to be: a JSON Schema, a regular expression, a list of choices, or a family's way
//! of writing calls put together of these. [`compile`] makes a byte-level visibly pushdown automaton of it: flat arrays
//! ([`Automaton`]) in which a thread looks up what a byte does. [`Walk`] does the same on the host, step by step as the
//! kernels do, and [`Vocabulary`] packs a tokenizer's tokens for both.
//!
//! The feature `compile`, which is on by default, is all of this. Without it the crate has no dependencies and only
//! what a finished automaton needs: [`Automaton::from_parts`] checks arrays that another module has made, and [`Walk`]
//! and [`Vocabulary`] are as they are.
//!
#![cfg_attr(feature = "compile", doc = "```")]
#![cfg_attr(not(feature = "compile"), doc = "```ignore")]
//! use millrace_grammar::{Grammar, Options, Walk, compile};
//!
//! let schema = r#"{ "type": "object", "properties": { "age": { "type": "integer", "minimum": 0 } }, "required":
//! ["age"] }"#; let (automaton, report) = compile(&Grammar::json_schema(schema)?, &Options::default())?;
//! assert!(report.warnings.is_empty());
//! let mut walk = Walk::new(&automaton);
//! assert!(walk.advance_token(&automaton, b"{\"age\": 3"));
//! assert!(!walk.allowed(&automaton, b"x"));
//! assert!(walk.advance_token(&automaton, b"}") && walk.accepting(&automaton));
//! # Ok::<(), millrace_grammar::Error>(())
//! ```
//!
//! # As JSON
//!
//! [`Grammar::from_json`] reads a grammar that another module has written. It is an object with one member:
//!
//! | form | texts |
//! |---|---|
//! | `{"schema": S}` | JSON that satisfies the schema |
//! | `{"regex": "…"}` | those that a regular expression matches from their beginning to their end |
//! | `{"choice": ["a", "b"]}` | one of these |
//! | `{"literal": "text"}` | this |
//! | `{"token": "<tool_call>"}` | this special token of the tokenizer |
//! | `{"sequence": [G, …]}` | one behind the other |
//! | `{"union": [G, …]}` | any of them |
//! | `{"repeat": {"item": G, "separator": "text", "min": 0, "max": null}}` | so many, with the separator between; only `item` has to be there |
//! | `{"free_until": "text"}` | any text up to and with this one |
//! | `{"free_text": [{"trigger": "text", "then": G}, …]}` | any text, in which what stands behind a trigger is as its grammar says |
//!
//! The text of a separator, a trigger and `free_until` may be `{"token": "…"}` instead. A special token is not its text: [`special_token`] says which bytes
//! it is. Nothing but `token` has these bytes, so a special token is never allowed where it is not named. All other bytes are well-formed UTF-8.
//!
//! # What a JSON text may look like
//!
//! A text is one that satisfies the schema, but not every such text is written:
//!
//! - Keys come in the order in which the schema names them: those of `properties`, then what `$ref`, `allOf`, `anyOf`, `if`, `dependent…` and `oneOf` add,
//!   then those that only `required` names, then all others. With [`Options::required_first`] the schema's own may also come behind what it combines, and
//!   those of `required` before the rest. Optional ones may be left out. Any order would take 2^n states.
//! - A key that the schema does not name may come twice: an automaton does not remember which came.
//! - Integers have neither a fraction nor an exponent, numbers with bounds no exponent, other numbers one of at most two digits; numbers of `const` and `enum`
//!   are written in digits.
//! - Strings with a `pattern`, a `format` or an `enum`, and keys, are written with as few escapes as JSON allows.
//! - White space stands where JSON allows it inside of a text, up to [`MAX_SPACE`] bytes in a row, and neither before nor behind it.
//!
//! # What a finished text may look like
//!
//! [`Judge`] accepts what the automaton accepts, and beyond it every JSON text that satisfies the schema: keys in any
//! order, numbers and strings in any form. Of MaskBench's schemas, 138 of 5,679 have a valid instance that is never
//! forced, mostly for the order of its keys; 6 have one that is refused when it is judged (`tests/suites/maskbench.rs`).
//!
//! # What is enforced
//!
//! `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `patternProperties`, `propertyNames`, `minProperties`, `maxProperties`, `items`,
//! `prefixItems`, `contains` with `minContains` and `maxContains` up to 64, `minItems`, `maxItems`, `minLength`,
//! `maxLength`, `pattern`, `format`, all bounds of numbers, `multipleOf`, `$ref` inside of the schema with recursion,
//! `allOf`, `anyOf`; `oneOf`, `not`, `if`, `dependentRequired` and `dependentSchemas` wherever the opposite of what they name can be
//! told; `uniqueItems` where an item is one of 64 scalar values or less, or no two places have a value in common (of many values the first few items come in
//! any order, the rest in that of the values); `unevaluatedProperties` and `unevaluatedItems`, where of several branches that hold at once only one counts as
//! having looked; `$dynamicRef` and `$recursiveRef` where they can lead to one place only. Lookahead is not repeated without a bound, lookbehind stands
//! before `$`.
//!
//! Where `$schema` names no draft, or the one that they are of: `divisibleBy`, `extends`, `disallow`, schemas among the types and `required: true` (draft 3).
//! Where it names none: `nullable` beside `type` (OpenAPI 3.0), `bsonType` (MongoDB) and `x-kubernetes-int-or-string`. The order of a
//! schema's keywords changes nothing.
//!
//! A `format` that has a grammar is enforced: dates, times, durations, e-mail, host names, IP addresses and their ranges, UUIDs, URIs and IRIs, `url`, URI
//! templates, JSON pointers, base64 (`byte`), `regex`, `semver`, `jwt`, `path`, `mac`, and the bounds of `int8` to `uint64`. One that says nothing of a
//! value's form, or that is not known, is a [`Warning`].
//!
//! Refused, or dropped with a [`Warning`] where [`Options::lenient`] says so: `uniqueItems` of other items, `$dynamicRef` that depends on the way to it,
//! counts of `contains` above 64, references to other documents, backreferences, `\b` and `\B` beside lookaround, script
//! extensions and sequences in `\p`. Unknown keywords are annotations, as JSON Schema has it, and some keywords have no effect where they stand; each
//! is a [`Warning`]. The length of a host name as a whole is not checked.

#![forbid(unsafe_code)]

#[cfg(feature = "compile")]
mod assemble;
mod automaton;
#[cfg(feature = "compile")]
mod budget;
#[cfg(feature = "compile")]
mod build;
pub mod category;
#[cfg(feature = "compile")]
mod chars;
#[cfg(feature = "compile")]
mod compile;
#[cfg(feature = "compile")]
mod decimal;
#[cfg(feature = "compile")]
mod determinize;
#[cfg(feature = "compile")]
mod dfa;
#[cfg(feature = "compile")]
mod error;
#[cfg(feature = "compile")]
mod free;
#[cfg(feature = "compile")]
mod grammar;
#[cfg(feature = "compile")]
mod intern;
#[cfg(feature = "compile")]
mod json;
#[cfg(feature = "compile")]
mod judge;
#[cfg(feature = "compile")]
mod hash;
#[cfg(feature = "compile")]
mod minimize;
#[cfg(feature = "compile")]
mod nfa;
#[cfg(feature = "compile")]
mod refine;
#[cfg(feature = "compile")]
mod regex;
#[cfg(feature = "compile")]
mod schema;
mod vocabulary;
mod walk;
#[cfg(all(feature = "compile", target_arch = "wasm32"))]
mod web;

pub use automaton::{Automaton, CLASS_WORDS, SYMBOL_WORDS, entry};
#[cfg(feature = "compile")]
pub use budget::Limits;
#[cfg(feature = "compile")]
pub use compile::{Options, Report, compile};
#[cfg(feature = "compile")]
pub use error::{Error, ErrorKind, Result, Warning};
#[cfg(feature = "compile")]
pub use grammar::Grammar;
#[cfg(feature = "compile")]
pub use judge::Judge;
pub use vocabulary::{MAX_TOKEN, SPECIAL_BEGIN, SPECIAL_END, Vocabulary, special_token};
pub use walk::{MAX_SPACE, MAX_STACK, MAX_TOKEN_PUSHES, WALK_WORDS, Walk};
