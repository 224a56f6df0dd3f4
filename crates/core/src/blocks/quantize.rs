//! From f32 to GGUF's blocks of the types that kernels read.
//!
//! Q8_0, Q4_0 and Q5_0 are what ggml and Python's gguf package make of the same values. The k-quants are searched for:
//! scales that make the weighted squared error small, not those of the range alone. Values too large for a half as the
//! scale saturate; those too small become zero.

use half::{bf16, f16};

use super::{BLOCK, WeightType};
use crate::error::{Error, Result};

/// Values of a super-block of the k-quants.
const SUPER: usize = 256;
/// Scales that a search tries at once.
const TRIED: usize = 8;
/// Adding and subtracting it rounds an f32 below 2^22 to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;
/// What halves above 65504 round to infinity from.
const TOO_LARGE: f32 = 65_520.0;

/// Appends `values`, whole groups of [`WeightType::group`], to `out` as GGUF's blocks of the type. A value that is not
/// finite is [`crate::ErrorKind::BadModel`].
pub fn quantize(kind: WeightType, values: &[f32], out: &mut Vec<u8>) -> Result<()> {
    if !values.len().is_multiple_of(kind.group()) {
        return Err(Error::internal(format!("{} values are not whole groups of {}", values.len(), kind.axis())));
    }
    // A NaN is above infinity there.
    if !largest(values).is_finite() {
        return Err(Error::bad_model(format!("what is to become {} holds a value that is not finite", kind.axis())));
    }
    match kind {
        WeightType::F32 => each(values, out, |[v]: &[f32; 1]| v.to_le_bytes()),
        WeightType::F16 => each(values, out, |[v]: &[f32; 1]| finite_half(*v)),
        WeightType::Bf16 => each(values, out, |[v]: &[f32; 1]| finite_bf16(*v)),
        WeightType::Q8_0 => each(values, out, q8_0),
        WeightType::Q4_0 => each(values, out, q4_0),
        WeightType::Q5_0 => each(values, out, q5_0),
        WeightType::Q4K => each(values, out, q4_k),
        WeightType::Q5K => each(values, out, q5_k),
        WeightType::Q6K => each(values, out, q6_k),
        _ => return Err(Error::internal(format!("nothing makes blocks of {}", kind.axis()))),
    }
    Ok(())
}

/// Appends what `encode` makes of each `L` values.
fn each<const L: usize, const B: usize>(values: &[f32], out: &mut Vec<u8>, encode: impl Fn(&[f32; L]) -> [u8; B]) {
    let (blocks, _) = values.as_chunks::<L>();
    let start = out.len();
    out.resize(start + blocks.len() * B, 0);
    let (encoded, _) = out[start..].as_chunks_mut::<B>();
    for (block, encoded) in blocks.iter().zip(encoded) {
        *encoded = encode(block);
    }
}

/// The nearest half, of those that are finite.
fn finite_half(value: f32) -> [u8; 2] {
    f16::from_f32(saturated(value)).to_le_bytes()
}

/// The nearest bfloat16, of those that are finite.
fn finite_bf16(value: f32) -> [u8; 2] {
    let most = bf16::MAX.to_f32();
    bf16::from_f32(value.clamp(-most, most)).to_le_bytes()
}

/// The value, or the largest half where it would become infinite as one.
fn saturated(value: f32) -> f32 {
    if value.abs() < TOO_LARGE { value } else { f16::MAX.to_f32().copysign(value) }
}

/// 1 / scale, or zero where that is infinite: the scale is zero as a half then.
fn inverse(scale: f32) -> f32 {
    let inverse = 1.0 / scale;
    if inverse.is_finite() { inverse } else { 0.0 }
}

/// The largest magnitude of the values, compared as integers: in any order, so four at once.
fn largest(values: &[f32]) -> f32 {
    f32::from_bits(values.iter().fold(0, |most, v| most.max(v.abs().to_bits())))
}

/// The first of the values with the largest magnitude, sign and all.
fn extreme(values: &[f32]) -> f32 {
    let most = largest(values);
    values.iter().copied().find(|v| v.abs() == most).unwrap_or(0.0)
}

/// The smaller of two numbers, without f32::min's care for NaN.
fn at_most(value: f32, most: f32) -> f32 {
    if value > most { most } else { value }
}

/// The nearest integer, ties to even, of values below 2^22.
fn rounded(value: f32) -> f32 {
    value + ROUND - ROUND
}

/// d = largest / 127, numbers rounded half away from zero.
fn q8_0(values: &[f32; BLOCK]) -> [u8; 34] {
    let d = saturated(largest(values) / 127.0);
    let inverse = inverse(d);
    let mut out = [0; 34];
    out[..2].copy_from_slice(&finite_half(d));
    for (byte, v) in out[2..].iter_mut().zip(values) {
        // Just below a half, so that what is less than a half from zero stays there.
        let number = (v * inverse).clamp(-127.0, 127.0);
        *byte = (number + 0.499_999_97_f32.copysign(number)) as i32 as u8;
    }
    out
}

/// d = extreme / -`offset`; numbers from 0 to 2 * `offset` - 1, so that the extreme is the one without a counterpart.
fn offset(values: &[f32; BLOCK], offset: f32) -> ([u8; 2], [u8; BLOCK]) {
    let d = saturated(extreme(values) / -offset);
    let inverse = inverse(d);
    let number = |v: f32| (v * inverse + (offset + 0.5)).clamp(0.0, 2.0 * offset - 1.0) as i32 as u8;
    (finite_half(d), values.map(number))
}

/// 16 bytes: values 0 to 15 in the low, 16 to 31 in the high nibbles.
fn nibbles(numbers: &[u8; BLOCK]) -> [u8; 16] {
    std::array::from_fn(|i| numbers[i] & 15 | numbers[16 + i] << 4)
}

fn q4_0(values: &[f32; BLOCK]) -> [u8; 18] {
    let (d, numbers) = offset(values, 8.0);
    let mut out = [0; 18];
    out[..2].copy_from_slice(&d);
    out[2..].copy_from_slice(&nibbles(&numbers));
    out
}

fn q5_0(values: &[f32; BLOCK]) -> [u8; 22] {
    let (d, numbers) = offset(values, 16.0);
    let fifth = numbers.iter().rev().fold(0, |bits, n| bits << 1 | u32::from(n >> 4));
    let mut out = [0; 22];
    out[..2].copy_from_slice(&d);
    out[2..6].copy_from_slice(&fifth.to_le_bytes());
    out[6..].copy_from_slice(&nibbles(&numbers));
    out
}

/// The values times a power of two that brings the largest magnitude into [1, 2), and the inverse of that power. `None`
/// where they are so small that every scale is zero as a half.
fn normalized(values: &[f32; SUPER]) -> Option<([f32; SUPER], f32)> {
    let most = largest(values);
    if most < 1e-12 {
        return None;
    }
    let exponent = most.to_bits() >> 23;
    let (down, up) = (f32::from_bits((254 - exponent) << 23), f32::from_bits(exponent << 23));
    // 2^-127 is subnormal.
    let down = if exponent == 254 { f32::from_bits(1 << 22) } else { down };
    Some((values.map(|v| v * down), up))
}

/// A half `d` for the largest of some scales, of which each is to be a whole number of at most `steps` times `d`.
fn super_scale(most: f32, steps: f32) -> f16 {
    let d = f16::from_f32(saturated(most / steps));
    // Halves near zero are coarse: one rounded down far would leave the largest scale beyond `steps`.
    let reach = d.to_f32() * (steps + 0.5);
    if most.abs() > reach.abs() && d.to_f32().abs() < 1.0 && most != 0.0 { f16::from_bits(d.to_bits() + 1) } else { d }
}

/// Numbers from 0 to `most` with a scale and a min for each 32: value = scale * number - min.
struct WithMins {
    /// d, dmin.
    halves: [f16; 2],
    /// 6 bits each.
    scales: [u8; 8],
    /// 6 bits each.
    mins: [u8; 8],
    numbers: [[u8; BLOCK]; 8],
}

/// Scale and min of 32 values for numbers from 0 to `most`: value = scale * number - min, and min is not negative. Each
/// of `grid` spreads the values' range over `most` and so many numbers more. The numbers that this gives have a scale
/// and a min that suit them best, by least squares with [`weights`]; kept is the pair with the smallest error.
fn fit(values: &[f32; BLOCK], most: f32, grid: &[f32]) -> (f32, f32) {
    let weights = weights(values);
    let (least, range) = range(values);
    if range < 1e-20 {
        return (0.0, -least);
    }
    // From the least value on, so that an offset which all values share costs no digits. `base` is zero, seen from
    // there.
    let (above, base) = (values.map(|v| v - least), -least);
    let pairs: [f32; BLOCK] = std::array::from_fn(|i| weights[i] * above[i]);
    let (w, wy) = (sum(&weights, |x| x), sum(&pairs, |x| x));
    let wyy: f32 = (0..BLOCK).map(|i| pairs[i] * above[i]).sum();
    let mut best = (f32::INFINITY, range / most, 0.0);
    for shifts in grid.as_chunks::<TRIED>().0 {
        let inverses = shifts.map(|shift| (most + shift) / range);
        let [mut wn, mut wnn, mut wny] = [[0.0_f32; TRIED]; 3];
        for ((y, w), wy) in above.iter().zip(&weights).zip(&pairs) {
            for i in 0..TRIED {
                let n = rounded(at_most(y * inverses[i], most));
                wn[i] += w * n;
                wnn[i] += w * n * n;
                wny[i] += wy * n;
            }
        }
        let [mut scales, mut offsets, mut errors] = [[0.0_f32; TRIED]; 3];
        for i in 0..TRIED {
            let determinant = w * wnn[i] - wn[i] * wn[i];
            let (free, offset) =
                ((w * wny[i] - wy * wn[i]) / determinant, (wnn[i] * wy - wn[i] * wny[i]) / determinant);
            let bound = (wny[i] - base * wn[i]) / wnn[i];
            // Numbers that are all alike have no line through them, and a min is never below zero.
            let unsolved = determinant <= 1e-6 * w * wnn[i] || offset > base;
            let (scale, offset) = if unsolved { (bound, base) } else { (free, offset) };
            (scales[i], offsets[i]) = (scale, offset);
            errors[i] =
                wyy + scale * (scale * wnn[i] + 2.0 * (offset * wn[i] - wny[i])) + offset * (offset * w - 2.0 * wy);
        }
        for i in 0..TRIED {
            if scales[i] > 0.0 && errors[i] < best.0 {
                best = (errors[i], scales[i], offsets[i]);
            }
        }
    }
    (best.1, base - best.2)
}

/// Scale and min as whole numbers from 0 to 63 of d and dmin: those next to `scale` and `min` that together have the
/// smallest error, since the rounding of one can make up for that of the other.
fn settle(values: &[f32; BLOCK], most: f32, [d, dmin]: [f32; 2], [scale, min]: [f32; 2]) -> (f32, f32) {
    let whole = |x: f32, away: usize| (x.floor() + away as f32).clamp(0.0, 63.0);
    let scales: [f32; TRIED] = std::array::from_fn(|i| whole(scale, i % 2));
    let mins: [f32; TRIED] = std::array::from_fn(|i| whole(min - 1.0, i / 2));
    let (steps, offsets) = (scales.map(|s| s * d), mins.map(|m| m * dmin));
    let inverses = steps.map(inverse);
    let mut errors = [0.0; TRIED];
    for (v, w) in values.iter().zip(weights(values)) {
        for i in 0..TRIED {
            let n = rounded(((v + offsets[i]) * inverses[i]).clamp(0.0, most));
            let error = n * steps[i] - offsets[i] - v;
            errors[i] += w * error * error;
        }
    }
    let best = (1..TRIED).fold(0, |best, i| if errors[i] < errors[best] { i } else { best });
    (scales[best], mins[best])
}

/// How much each value's error counts: its magnitude and the root mean square of all.
fn weights(values: &[f32; BLOCK]) -> [f32; BLOCK] {
    let root = (sum(values, |v| v * v) / BLOCK as f32).sqrt();
    values.map(|v| root + v.abs())
}

/// The least of the values and zero, and how far above it the largest of them is.
fn range(values: &[f32; BLOCK]) -> (f32, f32) {
    let (mut least, mut most) = ([0.0_f32; 8], [0.0_f32; 8]);
    for part in values.as_chunks::<8>().0 {
        for i in 0..8 {
            least[i] = at_most(part[i], least[i]);
            most[i] = if part[i] > most[i] { part[i] } else { most[i] };
        }
    }
    let least = least.iter().fold(0.0, |a, b| at_most(a, *b));
    (least, most.iter().fold(0.0, |a: f32, b| a.max(*b)) - least)
}

fn sum(values: &[f32; BLOCK], of: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0.0; 8];
    for part in values.as_chunks::<8>().0 {
        for (lane, v) in lanes.iter_mut().zip(part) {
            *lane += of(*v);
        }
    }
    total(&lanes)
}

fn total(lanes: &[f32; 8]) -> f32 {
    lanes.iter().sum()
}

/// A super-block of numbers from 0 to `most`, `None` for one of zeros.
fn with_mins(values: &[f32; SUPER], most: f32, grid: &[f32]) -> Option<WithMins> {
    let (values, unit) = normalized(values)?;
    let (groups, _) = values.as_chunks::<BLOCK>();
    let mut fits = [(0.0, 0.0); 8];
    for (fitted, group) in fits.iter_mut().zip(groups) {
        *fitted = fit(group, most, grid);
    }
    let d = super_scale(fits.iter().fold(0.0_f32, |m, f| m.max(f.0)) * unit, 63.0);
    let dmin = super_scale(fits.iter().fold(0.0_f32, |m, f| m.max(f.1)) * unit, 63.0);
    let mut out = WithMins { halves: [d, dmin], scales: [0; 8], mins: [0; 8], numbers: [[0; BLOCK]; 8] };
    // In the units of the normalized values.
    let (d, dmin) = (d.to_f32() / unit, dmin.to_f32() / unit);
    let (per_d, per_dmin) = (inverse(d), inverse(dmin));
    for (g, (group, (scale, min))) in groups.iter().zip(fits).enumerate() {
        let (scale, min) = settle(group, most, [d, dmin], [scale * per_d, min * per_dmin]);
        (out.scales[g], out.mins[g]) = (scale as u8, min as u8);
        let (per_step, min) = (inverse(d * scale), dmin * min);
        out.numbers[g] = group.map(|v| rounded(((v + min) * per_step).clamp(0.0, most)) as i32 as u8);
    }
    Some(out)
}

impl WithMins {
    /// 16 bytes: d, dmin, and the scales and mins, the upper two bits of groups 4 to 7 above those of 0 to 3.
    fn head(&self) -> [u8; 16] {
        let (s, m) = (&self.scales, &self.mins);
        let [d, dmin] = self.halves.map(f16::to_le_bytes);
        std::array::from_fn(|i| match i {
            0..2 => d[i],
            2..4 => dmin[i - 2],
            4..8 => s[i - 4] | s[i] >> 4 << 6,
            8..12 => m[i - 8] | m[i - 4] >> 4 << 6,
            _ => s[i - 8] & 15 | m[i - 8] << 4,
        })
    }

    /// 128 bytes: each two groups the low and the high nibbles of 32.
    fn nibbles(&self, out: &mut [u8]) {
        for (bytes, [low, high]) in out.chunks_exact_mut(BLOCK).zip(self.numbers.as_chunks::<2>().0) {
            for (byte, (low, high)) in bytes.iter_mut().zip(low.iter().zip(high)) {
                *byte = low & 15 | high << 4;
            }
        }
    }
}

fn q4_k(values: &[f32; SUPER]) -> [u8; 144] {
    let mut out = [0; 144];
    if let Some(found) = with_mins(values, 15.0, &GRID_4) {
        out[..16].copy_from_slice(&found.head());
        found.nibbles(&mut out[16..]);
    }
    out
}

fn q5_k(values: &[f32; SUPER]) -> [u8; 176] {
    let mut out = [0; 176];
    if let Some(found) = with_mins(values, 31.0, &GRID_5) {
        out[..16].copy_from_slice(&found.head());
        for (e, byte) in out[16..48].iter_mut().enumerate() {
            *byte = (0..8).fold(0, |bits, g| bits | found.numbers[g][e] >> 4 << g);
        }
        found.nibbles(&mut out[48..]);
    }
    out
}

/// What [`fit`] and [`fit_6`] try, in numbers more than there are. Above zero the outermost values are cut off, below
/// it the outermost numbers unused.
const GRID_4: [f32; 16] = grid(-1.2, 0.15);
const GRID_5: [f32; 16] = grid(-2.0, 0.2);
const GRID_6: [f32; 16] = grid(-2.0, 0.2);

const fn grid<const N: usize>(first: f32, step: f32) -> [f32; N] {
    let mut out = [0.0; N];
    let mut i = 0;
    while i < N {
        out[i] = first + step * i as f32;
        i += 1;
    }
    out
}

/// The scale of 16 values for numbers from -32 to 31, found as in [`fit`]. There is no min, and a value's error counts
/// as its square.
fn fit_6(values: &[f32; 16]) -> f32 {
    let extreme = extreme(values);
    if extreme.abs() < 1e-20 {
        return 0.0;
    }
    let ratio = 1.0 / extreme;
    let relative = values.map(|v| v * ratio);
    let weights = relative.map(|v| v * v);
    let mut best = (0.0, 0.0);
    for shifts in GRID_6.as_chunks::<TRIED>().0 {
        let inverses = shifts.map(|shift| -(32.0 + shift));
        let [mut wnn, mut wny] = [[0.0_f32; TRIED]; 2];
        for (y, w) in relative.iter().zip(&weights) {
            for i in 0..TRIED {
                let n = rounded((y * inverses[i]).clamp(-32.0, 31.0));
                wnn[i] += w * n * n;
                wny[i] += w * y * n;
            }
        }
        for i in 0..TRIED {
            // What the numbers explain: the error is the rest.
            let explained = wny[i] * wny[i] / wnn[i];
            if explained > best.0 {
                best = (explained, wny[i] / wnn[i]);
            }
        }
    }
    best.1 * extreme
}

fn q6_k(values: &[f32; SUPER]) -> [u8; 210] {
    let mut out = [0; 210];
    let Some((values, unit)) = normalized(values) else { return out };
    let (groups, _) = values.as_chunks::<16>();
    let mut fits = [0.0; 16];
    for (fitted, group) in fits.iter_mut().zip(groups) {
        *fitted = fit_6(group);
    }
    // The extreme one takes -128, the number without a counterpart.
    let half = super_scale(-extreme(&fits) * unit, 128.0);
    let d = half.to_f32() / unit;
    let per_d = inverse(d);
    let mut numbers = [0; SUPER];
    for (g, (group, scale)) in groups.iter().zip(fits).enumerate() {
        let scale = rounded((scale * per_d).clamp(-128.0, 127.0));
        out[192 + g] = scale as i8 as u8;
        let per_step = inverse(d * scale);
        for (number, v) in numbers[16 * g..].iter_mut().zip(group) {
            *number = (rounded((v * per_step).clamp(-32.0, 31.0)) as i32 + 32) as u8;
        }
    }
    // In each half of 128: quarters 0 and 2, and 1 and 3, share 32 bytes of nibbles; all four share 32 of high bits.
    for (h, numbers) in numbers.as_chunks::<128>().0.iter().enumerate() {
        for l in 0..32 {
            let [a, b, c, e] = [numbers[l], numbers[32 + l], numbers[64 + l], numbers[96 + l]];
            out[64 * h + l] = a & 15 | c << 4;
            out[64 * h + 32 + l] = b & 15 | e << 4;
            out[128 + 32 * h + l] = a >> 4 | b >> 4 << 2 | c >> 4 << 4 | e >> 4 << 6;
        }
    }
    out[208..].copy_from_slice(&half.to_le_bytes());
    out
}
