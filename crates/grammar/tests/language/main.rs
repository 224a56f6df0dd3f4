//! What the automata accept, against other implementations and by hand.

mod compositions;
mod descriptions;
mod dialects;
mod examples;
mod formats;
mod fuzz;
mod gguf;
mod hostile;
mod judge;
mod masks;
mod parts;
mod schemas;
mod sets;
mod support;
mod walks;
