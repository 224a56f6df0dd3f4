//! Writes GGUF and safetensors files, right and wrong ones.

/// A GGUF file under construction. Every field can be set to invalid values.
#[derive(Clone)]
pub struct Gguf {
    pub magic: [u8; 4],
    pub version: u32,
    /// Overrides of the counts in the header.
    pub tensor_count: Option<u64>,
    pub key_count: Option<u64>,
    /// Encoded key-value pairs.
    pub pairs: Vec<Vec<u8>>,
    /// Encoded rows of the tensor table.
    pub tensors: Vec<Vec<u8>>,
    pub alignment: usize,
    /// Bytes of tensor data.
    pub data: usize,
}

impl Default for Gguf {
    fn default() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            tensor_count: None,
            key_count: None,
            pairs: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            data: 0,
        }
    }
}

pub const U32: u32 = 4;
pub const F32: u32 = 6;
pub const BOOL: u32 = 7;
pub const STRING: u32 = 8;
pub const ARRAY: u32 = 9;

pub fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// The encoding of an array: item type, count, items.
pub fn array(kind: u32, count: u64, items: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat()
}

pub fn strings(texts: &[&str]) -> Vec<u8> {
    array(STRING, texts.len() as u64, &texts.iter().flat_map(|t| string(t.as_bytes())).collect::<Vec<_>>())
}

impl Gguf {
    /// A key with an encoded value of type `kind`.
    pub fn pair(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        self.pairs.push([&string(key.as_bytes())[..], &kind.to_le_bytes(), value].concat());
        self
    }

    pub fn text(self, key: &str, value: &str) -> Self {
        self.pair(key, STRING, &string(value.as_bytes()))
    }

    pub fn u32(self, key: &str, value: u32) -> Self {
        self.pair(key, U32, &value.to_le_bytes())
    }

    /// A tensor with GGML type `kind` and dimensions in GGUF's order, innermost first.
    pub fn tensor(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        let mut row = string(name.as_bytes());
        row.extend((dims.len() as u32).to_le_bytes());
        row.extend(dims.iter().flat_map(|d| d.to_le_bytes()));
        row.extend(kind.to_le_bytes());
        row.extend(offset.to_le_bytes());
        self.tensors.push(row);
        self
    }

    pub fn data(mut self, bytes: usize) -> Self {
        self.data = bytes;
        self
    }

    pub fn build(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.pairs.len() as u64).to_le_bytes());
        out.extend(self.pairs.concat());
        out.extend(self.tensors.concat());
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend((0..self.data).map(|i| i as u8));
        out
    }
}

/// A safetensors file with this header and `data` bytes of data.
pub fn safetensors(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![7; data]].concat()
}
