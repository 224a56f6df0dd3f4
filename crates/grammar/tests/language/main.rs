//! What the automata accept, against other implementations and by hand.

mod compositions;
mod descriptions;
mod examples;
mod fuzz;
mod gguf;
mod hostile;
mod masks;
mod parts;
mod schemas;
mod support;
mod walks;
