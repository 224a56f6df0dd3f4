//! What a header may ask for at most. Real models stay far below; a file that lies must not make the page allocate.

/// A header, GGUF or safetensors, in bytes. A vocabulary of 260,000 tokens takes about 15 MiB.
pub const HEADER_BYTES: u64 = 256 << 20;
/// A key or a tensor's name, in bytes.
pub const NAME_BYTES: u64 = 64 << 10;
/// Tensors in a file.
pub const TENSORS: u64 = 1 << 18;
/// Metadata pairs in a file.
pub const KEYS: u64 = 1 << 16;
/// How deep arrays nest.
pub const ARRAY_DEPTH: usize = 4;
/// Arrays within arrays, in a whole file.
pub const NESTED_ARRAYS: usize = 1 << 16;
/// Alignment of tensor data, in bytes.
pub const ALIGNMENT: u64 = 1 << 20;
/// config.json and its like, in bytes.
pub const CONFIG_BYTES: u64 = 16 << 20;
/// tokenizer.json, in bytes.
pub const TOKENIZER_BYTES: u64 = 256 << 20;
