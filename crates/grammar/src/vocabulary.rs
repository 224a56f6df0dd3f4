//! A tokenizer's tokens as bytes, packed as the kernel reads them.

use crate::category::token_categories;

/// The longest token that is looked at, in bytes; longer ones are never allowed.
pub const MAX_TOKEN: usize = 255;

/// The byte before the text of a special token: one that UTF-8 never has, so that no text is taken for such a token.
pub const SPECIAL_BEGIN: u8 = 0xff;
/// The byte behind it.
pub const SPECIAL_END: u8 = 0xfe;

/// What a special token is to a grammar and to [`Vocabulary::new`]: its text between two bytes that no text has. It is
/// allowed only where a grammar names it.
pub fn special_token(text: &str) -> Vec<u8> {
    [&[SPECIAL_BEGIN], text.as_bytes(), &[SPECIAL_END]].concat()
}

/// The tokens of a model.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    /// `(V, 4)` words: the first four bytes, the lowest first; the word of `bytes` where the token begins in bits 8 to
    /// 31 and its length in bytes in bits 0 to 7; its categories and number of characters ([`token_categories`]); 1
    /// where it ends a text.
    pub heads: Vec<u32>,
    /// All bytes, each token from a word of its own, the lowest byte first.
    pub bytes: Vec<u32>,
    text: Vec<u8>,
}

impl Vocabulary {
    /// Packs tokens. Special tokens are those of [`special_token`] or empty, which is never allowed; `stop` tells which
    /// end a text.
    pub fn new<'a>(tokens: impl IntoIterator<Item = &'a [u8]>, stop: impl Fn(usize) -> bool) -> Self {
        let mut it = Self::default();
        for (id, token) in tokens.into_iter().enumerate() {
            let token = if token.len() > MAX_TOKEN || stop(id) { &[][..] } else { token };
            let at = it.bytes.len() as u32;
            for chunk in token.chunks(4) {
                let mut word = [0; 4];
                word[..chunk.len()].copy_from_slice(chunk);
                it.bytes.push(u32::from_le_bytes(word));
            }
            it.text.resize(it.bytes.len() * 4, 0);
            it.text[at as usize * 4..][..token.len()].copy_from_slice(token);
            let first = it.bytes.get(at as usize).copied().unwrap_or(0);
            it.heads.extend([first, at << 8 | token.len() as u32, token_categories(token), u32::from(stop(id))]);
        }
        it
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.heads.len() / 4
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The bytes of a token.
    pub fn token(&self, id: usize) -> &[u8] {
        let word = self.heads[4 * id + 1];
        let from = (word >> 8) as usize * 4;
        &self.text[from..from + (word & 255) as usize]
    }

    /// The categories of a token and the number of its characters.
    pub fn categories(&self, id: usize) -> u32 {
        self.heads[4 * id + 2]
    }

    /// Whether a token ends a text.
    pub fn is_stop(&self, id: usize) -> bool {
        self.heads[4 * id + 3] != 0
    }

    /// A byte that no token can write on its own and a text may need, if there is one: such a vocabulary may come to a
    /// place where nothing is allowed.
    pub fn missing_byte(&self) -> Option<u8> {
        let mut there = [false; 256];
        for id in 0..self.len() {
            if let [byte] = self.token(id) {
                there[usize::from(*byte)] = true;
            }
        }
        // Control characters stand in no JSON but as white space; UTF-8 never has some bytes, and no character has been
        // given to others.
        let needed = |b: u8| !matches!(b, 0..=0x08 | 0x0b | 0x0c | 0x0e..=0x1f | 0x7f | 0xc0 | 0xc1 | 0xf1..=0xff);
        (0..=255u8).find(|&b| !there[usize::from(b)] && needed(b))
    }
}
