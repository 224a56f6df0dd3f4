//! How a buffer that a kernel wrote is compared with its twin's.

use half::f16;

use crate::inputs::UNTOUCHED;
use crate::sampling::unordered;

/// What the words of a buffer mean and how far they may differ from the twin's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compare {
    /// Bit for bit.
    Exact,
    /// f32, off by at most this times the largest value.
    F32(f64),
    /// Two halves a word, off by at most this times the largest value.
    Halves(f64),
    /// Four int8 a word, quantized from values that differ in their last bits: off by one at most, and rarely.
    Int8,
    /// (scale, scale * sum of 32 int8) of blocks of int8.
    Scales,
    /// Ordered keys of f32 (common/ordered.wgsl), or 0, which must be 0.
    Keys,
    /// (ordered key of a value, token id): the values are random, so one of 64 pairs may name a token that comes as
    /// close.
    Candidates,
    /// (low, high) words of 64-bit sums, off by at most 1e-5 of the largest.
    Sums,
    /// (number of an expert, f32): the numbers must be equal.
    Chosen,
}

/// The bound for f32 arithmetic: sums of a few thousand products, and functions that WGSL lets be off by some units.
pub const F32: Compare = Compare::F32(2e-5);

/// The difference relative to the largest value; the message says where it is too large.
pub struct Compared {
    pub error: f64,
    pub message: Option<String>,
}

impl Compare {
    /// Compares words with the twin's. What the twin left untouched must be untouched.
    pub fn compare(self, initial: &[u32], expected: &[u32], actual: &[u32]) -> Compared {
        let touched = (0..expected.len()).find(|&i| {
            actual[i] != expected[i] && (self == Self::Exact || (expected[i] == initial[i] && initial[i] == UNTOUCHED))
        });
        if let Some(i) = touched {
            let kept = if expected[i] == initial[i] { ", which must stay as it was" } else { "" };
            return Compared {
                error: f64::INFINITY,
                message: Some(format!("[{i}] is {:#010x}, expected {:#010x}{kept}", actual[i], expected[i])),
            };
        }
        let written: Vec<usize> = (0..expected.len()).filter(|&i| expected[i] != UNTOUCHED).collect();
        match self {
            Self::Exact => Compared { error: 0.0, message: None },
            Self::F32(bound) => {
                let value = |words: &[u32]| {
                    written.iter().map(|&i| (i, f64::from(f32::from_bits(words[i])))).collect::<Vec<_>>()
                };
                relative(&value(expected), &value(actual), bound)
            }
            Self::Halves(bound) => {
                let half = |word: u32, upper: usize| f64::from(f16::from_bits((word >> (16 * upper)) as u16));
                let value = |words: &[u32]| {
                    written.iter().flat_map(|&i| [0, 1].map(|u| (2 * i + u, half(words[i], u)))).collect::<Vec<_>>()
                };
                relative(&value(expected), &value(actual), bound)
            }
            Self::Int8 => int8(expected, actual, &written),
            Self::Scales => scales(expected, actual, &written),
            Self::Keys => keys(expected, actual, &written),
            Self::Candidates => candidates(expected, actual, &written),
            Self::Sums => {
                let value = |words: &[u32]| {
                    let of = |i: usize| f64::from(words[i]) + f64::from(words[i + 1]) * 4_294_967_296.0;
                    written.iter().filter(|&&i| i % 2 == 0).map(|&i| (i, of(i))).collect::<Vec<_>>()
                };
                relative(&value(expected), &value(actual), 1e-5)
            }
            Self::Chosen => match written.iter().find(|&&i| i % 2 == 0 && expected[i] != actual[i]) {
                Some(i) => Compared {
                    error: f64::INFINITY,
                    message: Some(format!("[{i}] is {}, expected {}", actual[*i], expected[*i])),
                },
                None => {
                    let value = |words: &[u32]| {
                        written
                            .iter()
                            .filter(|&&i| i % 2 == 1)
                            .map(|&i| (i, f64::from(f32::from_bits(words[i]))))
                            .collect::<Vec<_>>()
                    };
                    relative(&value(expected), &value(actual), 1e-5)
                }
            },
        }
    }
}

fn relative(expected: &[(usize, f64)], actual: &[(usize, f64)], bound: f64) -> Compared {
    let largest = expected.iter().fold(f64::MIN_POSITIVE, |m, (_, v)| if v.is_finite() { m.max(v.abs()) } else { m });
    let mut error = 0.0_f64;
    for ((i, e), (_, a)) in expected.iter().zip(actual) {
        // Infinities and NaN must be the same.
        let off = if e == a || (e.is_nan() && a.is_nan()) { 0.0 } else { (e - a).abs() / largest };
        let off = if off.is_nan() { f64::INFINITY } else { off };
        error = error.max(off);
        if off > bound {
            return Compared {
                error,
                message: Some(format!(
                    "[{i}] is {a}, expected {e}: off by {off:.1e} of the largest value, {bound:.0e} allowed"
                )),
            };
        }
    }
    Compared { error, message: None }
}

/// Logarithms and exponentials may be off by some units in 2^21.
const KEY_BOUND: f64 = 1e-5;

fn keys(expected: &[u32], actual: &[u32], written: &[usize]) -> Compared {
    if let Some(&i) = written.iter().find(|&&i| (expected[i] == 0) != (actual[i] == 0)) {
        return Compared {
            error: f64::INFINITY,
            message: Some(format!("[{i}] is key {:#010x}, expected {:#010x}", actual[i], expected[i])),
        };
    }
    let value = |words: &[u32]| {
        let of = |i: usize| if words[i] == 0 { 0.0 } else { f64::from(unordered(words[i])) };
        written.iter().map(|&i| (i, of(i))).collect::<Vec<_>>()
    };
    relative(&value(expected), &value(actual), KEY_BOUND)
}

fn candidates(expected: &[u32], actual: &[u32], written: &[usize]) -> Compared {
    let (of_values, ids): (Vec<usize>, Vec<usize>) = written.iter().partition(|&&i| i % 2 == 0);
    let compared = keys(expected, actual, &of_values);
    let mut differ = ids.into_iter().filter(|&i| expected[i] != actual[i]);
    let first = differ.next();
    match (first, differ.next()) {
        (Some(i), Some(_)) if compared.message.is_none() => Compared {
            message: Some(format!(
                "[{i}] is token {}, expected {}, and it is not the only one",
                actual[i], expected[i]
            )),
            ..compared
        },
        _ => compared,
    }
}

fn int8(expected: &[u32], actual: &[u32], written: &[usize]) -> Compared {
    let mut differ = 0;
    for &i in written {
        for (k, (e, a)) in expected[i].to_le_bytes().into_iter().zip(actual[i].to_le_bytes()).enumerate() {
            let off = i32::from(e as i8).abs_diff(i32::from(a as i8));
            if off > 1 {
                let message = Some(format!("[{}] is {}, expected {}", 4 * i + k, a as i8, e as i8));
                return Compared { error: f64::from(off) / 127.0, message };
            }
            differ += off as usize;
        }
    }
    let allowed = 2 + written.len() * 4 / 200;
    let message = (differ > allowed)
        .then(|| format!(": {differ} of {} integers are off by one, {allowed} allowed", written.len() * 4));
    Compared { error: if differ > 0 { 1.0 / 127.0 } else { 0.0 }, message }
}

fn scales(expected: &[u32], actual: &[u32], written: &[usize]) -> Compared {
    let mut error = 0.0_f32;
    for &i in written {
        let (e, a) = (f32::from_bits(expected[i]), f32::from_bits(actual[i]));
        // A sum moves by one scale with each integer that rounds the other way.
        let scale = f32::from_bits(expected[i & !1]).abs();
        let allowed = if i % 2 == 0 { 1e-5 * scale } else { 4.01 * scale };
        let off = (e - a).abs();
        error = error.max(off / scale.max(f32::MIN_POSITIVE) / 127.0);
        if off.is_nan() || off > allowed {
            return Compared { error: f64::from(error), message: Some(format!("[{i}] is {a}, expected {e}")) };
        }
    }
    Compared { error: f64::from(error), message: None }
}
