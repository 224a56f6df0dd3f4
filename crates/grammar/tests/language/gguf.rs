//! The tokens of a GGUF file, as bytes: llama.cpp's repository holds published vocabularies as such files without
//! weights.

use std::path::Path;

use millrace_grammar::special_token;

use crate::masks::byte_of;

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take(&mut self, n: usize) -> &[u8] {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn string(&mut self) -> String {
        let n = self.u64() as usize;
        String::from_utf8_lossy(self.take(n)).into_owned()
    }

    fn skip(&mut self, kind: u32) {
        match kind {
            0 | 1 | 7 => drop(self.take(1)),
            2 | 3 => drop(self.take(2)),
            4..=6 => drop(self.take(4)),
            8 => drop(self.string()),
            9 => {
                let (of, n) = (self.u32(), self.u64());
                (0..n).for_each(|_| self.skip(of));
            }
            10..=12 => drop(self.take(8)),
            kind => panic!("type {kind}"),
        }
    }
}

/// All tokens; those that control a model are special ones.
pub fn tokens(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::read(path).unwrap();
    let mut reader = Reader(&file);
    assert_eq!(reader.take(4), b"GGUF");
    reader.take(12);
    let (mut model, mut texts, mut kinds) = (String::new(), Vec::new(), Vec::new());
    for _ in 0..reader.u64() {
        let (key, kind) = (reader.string(), reader.u32());
        match key.as_str() {
            "tokenizer.ggml.model" => model = reader.string(),
            "tokenizer.ggml.tokens" => {
                reader.u32();
                texts = (0..reader.u64()).map(|_| reader.string()).collect::<Vec<_>>();
            }
            "tokenizer.ggml.token_type" => {
                reader.u32();
                kinds = (0..reader.u64()).map(|_| reader.u32()).collect();
            }
            _ => reader.skip(kind),
        }
    }
    let level = model == "gpt2";
    let bytes = |(text, kind): (&String, &u32)| match kind {
        2 | 3 | 5 => special_token(text),
        1 if level => text.chars().map(byte_of).collect(),
        6 => vec![u8::from_str_radix(&text[3..5], 16).unwrap()],
        _ => text.replace('\u{2581}', " ").into_bytes(),
    };
    texts.iter().zip(&kinds).map(bytes).collect()
}
