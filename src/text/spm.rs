//! SentencePiece vocabularies as BPE: which merges their scores imply.

use std::collections::HashMap;

use crate::error::{Error, Result};

/// Longer pieces do not occur (SentencePiece's own limit is 16 characters, Gemma's longest has 31 line ends); finding
/// the merges of one takes time quadratic in its length.
const MAX_PIECE_BYTES: usize = 512;

/// A piece that can take part in merges.
pub(super) struct Piece<'a> {
    pub id: u32,
    pub text: &'a str,
    pub score: f32,
}

/// The merges that make byte-pair encoding by rank do what SentencePiece does by score: of all ways to make a piece
/// from two others, best score first; among equal scores, longer left sides first, then longer right sides, as
/// transformers orders them when it converts such a vocabulary.
///
/// `TOKENIZER` for a score that is not a number and for a piece that is too long.
pub(super) fn merges(pieces: &[Piece<'_>]) -> Result<Vec<(String, String)>> {
    let ids: HashMap<&str, u32> = pieces.iter().map(|p| (p.text, p.id)).collect();
    struct Merge<'a> {
        left: &'a str,
        right: &'a str,
        score: f32,
    }
    let mut merges = Vec::new();
    for piece in pieces {
        if piece.score.is_nan() {
            return Err(Error::tokenizer(format!(
                "the score of token {} ('{}') is not a number",
                piece.id, piece.text
            )));
        }
        if piece.text.len() > MAX_PIECE_BYTES {
            return Err(Error::tokenizer(format!(
                "token {} is {} bytes long; at most {MAX_PIECE_BYTES} are allowed",
                piece.id,
                piece.text.len()
            )));
        }
        let first = merges.len();
        for (at, _) in piece.text.char_indices().skip(1) {
            let (left, right) = piece.text.split_at(at);
            if ids.contains_key(left) && ids.contains_key(right) {
                merges.push(Merge { left, right, score: piece.score });
            }
        }
        merges[first..].sort_by_key(|m| (ids[m.left], ids[m.right]));
    }
    let length = |s: &str| s.chars().count();
    merges.sort_by(|a, b| {
        b.score
            .partial_cmp(&a.score)
            .unwrap_or(std::cmp::Ordering::Equal)
            .then_with(|| length(b.left).cmp(&length(a.left)))
            .then_with(|| length(b.right).cmp(&length(a.right)))
    });
    Ok(merges.into_iter().map(|m| (m.left.to_owned(), m.right.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_score_first_then_longest_left_side() {
        let texts = [("a", 0.0), ("b", 0.0), ("ab", -2.0), ("ba", -1.0), ("aba", -3.0)];
        let pieces: Vec<_> = texts.iter().zip(0..).map(|(&(text, score), id)| Piece { id, text, score }).collect();
        let merges = merges(&pieces).unwrap();
        let merges: Vec<_> = merges.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(merges, [("b", "a"), ("a", "b"), ("ab", "a"), ("a", "ba")]);
    }

    #[test]
    fn refuses_what_cannot_be_sorted_or_takes_too_long() {
        let nan = [Piece { id: 3, text: "a", score: f32::NAN }];
        assert!(merges(&nan).unwrap_err().message().contains("token 3"));
        let long = "x".repeat(600);
        assert!(merges(&[Piece { id: 4, text: &long, score: 0.0 }]).unwrap_err().message().contains("600"));
    }
}
