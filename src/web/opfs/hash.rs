//! SHA-256 by the browser, which has it in the processor's own instructions and beside this thread; in wasm it is
//! several times slower.

use futures_util::future::LocalBoxFuture;
use js_sys::Uint8Array;
use wasm_bindgen::JsValue;

use crate::base::{hex, js};
use crate::error::{ErrorKind, Result};
use crate::store::medium::{Hasher, Software};
use crate::web::errors::from_js;

/// The browser hashes only what it has all of: more bytes than this are hashed in wasm.
const MOST: u64 = 64 << 20;

/// What hashes at most `most` bytes. They are collected outside wasm's memory.
pub(in crate::web) fn hasher(most: u64) -> Box<dyn Hasher> {
    let subtle = js::path(&js_sys::global(), &["crypto", "subtle"]);
    if most > MOST || !js::get(&subtle, "digest").is_function() {
        return Box::new(Software::default());
    }
    Box::new(Browser { subtle, bytes: Uint8Array::new_with_length(most as u32), length: 0, more: None })
}

struct Browser {
    subtle: JsValue,
    bytes: Uint8Array,
    length: u32,
    /// In its place once there are more bytes than it was made for.
    more: Option<Software>,
}

impl Hasher for Browser {
    fn update(&mut self, bytes: &[u8]) {
        if let Some(more) = &mut self.more {
            return more.update(bytes);
        }
        match u32::try_from(bytes.len())
            .ok()
            .and_then(|n| self.length.checked_add(n))
            .filter(|end| *end <= self.bytes.length())
        {
            Some(end) => {
                self.bytes.subarray(self.length, end).copy_from(bytes);
                self.length = end;
            }
            None => {
                let mut more = Software::default();
                more.update(&self.bytes.subarray(0, self.length).to_vec());
                more.update(bytes);
                self.bytes = Uint8Array::new_with_length(0);
                self.more = Some(more);
            }
        }
    }

    fn finish(self: Box<Self>) -> LocalBoxFuture<'static, Result<String>> {
        if let Some(more) = self.more {
            return Box::new(more).finish();
        }
        Box::pin(async move {
            let failed = |e: JsValue| from_js(&e, ErrorKind::Internal, "the browser's SHA-256");
            let bytes = self.bytes.subarray(0, self.length);
            let digest = js::call_async(&self.subtle, "digest", &[&"SHA-256".into(), &bytes]).await.map_err(failed)?;
            Ok(hex(&Uint8Array::new(&digest).to_vec()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest::sha256;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    async fn both_ways_are_the_same_also_across_the_change_from_one_to_the_other() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7) as u8).collect();
        for most in [0, 1, 50_000, 99_999, 100_000, 200_000, MOST + 1] {
            let mut hasher = hasher(most);
            for piece in bytes.chunks(12_345) {
                hasher.update(piece);
            }
            assert_eq!(hasher.finish().await.unwrap(), sha256(&bytes), "{most}");
        }
        assert_eq!(hasher(10).finish().await.unwrap(), sha256(b""));
    }
}
