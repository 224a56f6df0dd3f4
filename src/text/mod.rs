//! Text to tokens and back, and conversations to text.
//!
//! The `tokenizers` crate encodes and decodes; here stands what turns a checkpoint into its parts
//! ([`Tokenizer`], from tokenizer.json or from GGUF metadata), what it does not do (text as tokens arrive:
//! [`StreamDecoder`]), and chat templates ([`ChatTemplate`]).

pub mod calls;

mod charsmap;
mod clock;
mod eos;
mod gguf;
mod guard;
mod hf;
mod hf_outline;
mod jinja;
mod jinja_objects;
mod methods;
pub mod pictures;
mod pieces;
mod pre;
mod python;
mod range;
mod spm;
mod stream;
mod template;
mod template_budget;
mod template_code;
mod template_limits;
mod template_source;
mod template_variables;
mod tojson;
mod tokenizer;
mod turns;
mod words;

pub use clock::DateTime;
pub use guard::Guarded;
pub use stream::StreamDecoder;
pub use template::ChatTemplate;
pub use template_source::TemplateSource;
pub use tokenizer::{Pair, SpecialTokens, Tokenizer};
