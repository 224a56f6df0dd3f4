//! What is done to rows of activations, element by element.

use millrace_twins::Call;

use crate::simd::{WHOLES, dot, exp};
use crate::weights::{self, BLOCK};

/// 1 / (1 + exp(-x))
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// 0.5 x (1 + erf(x / sqrt(2))), as the shader has it.
fn gelu(x: f32) -> f32 {
    let z = x.abs() * std::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let lacks =
        ((((1.061_405_4 * t - 1.453_152) * t + 1.421_413_7) * t - 0.284_496_74) * t + 0.254_829_6) * t * exp(-z * z);
    0.5 * x * if x > 0.0 { 2.0 - lacks } else { lacks }
}

/// The activation that the override ACT names, with its factors.
pub struct Activation {
    kind: u32,
    inner: f32,
    outer: f32,
}

pub fn activation(call: &Call) -> Activation {
    Activation { kind: call.u32("ACT"), inner: call.f32("INNER"), outer: call.f32("OUTER") }
}

impl Activation {
    /// Each element becomes what the activation makes of it. A loop of its own for each kind, which compilers vectorize.
    pub fn apply(&self, row: &mut [f32]) {
        // tanh(z) = 2 sigmoid(2z) - 1, so 0.5 x (1 + tanh(z)) is x sigmoid(2z).
        const TWICE: f32 = 2.0 * std::f32::consts::FRAC_2_SQRT_PI * std::f32::consts::FRAC_1_SQRT_2;
        match self.kind {
            0 => self.each(row, |x| x * sigmoid(x)),
            2 => self.each(row, |x| x.max(0.0) * x.max(0.0)),
            4 => self.each(row, gelu),
            5 => self.each(row, |x| 2.0 * sigmoid(2.0 * x) - 1.0),
            _ => self.each(row, |x| x * sigmoid(TWICE * (x + 0.044_715 * x * x * x))),
        }
    }

    #[inline(always)]
    fn each(&self, row: &mut [f32], act: impl Fn(f32) -> f32) {
        row.iter_mut().for_each(|x| *x = self.outer * act(self.inner * *x));
    }
}

/// A row as int8: eight words a block, and (scale, scale * sum).
pub fn blocks_of(row: &[f32]) -> (Vec<u32>, Vec<[f32; 2]>) {
    let (mut ints, mut scales) = (Vec::with_capacity(row.len() / 4), Vec::with_capacity(row.len() / BLOCK));
    for x in row.as_chunks::<BLOCK>().0 {
        let scale = largest(x) / 127.0;
        // As the twin does: a quotient, not a product with the reciprocal, decides what is half-way. The sum's last bits
        // are the integer.
        let block: [i8; BLOCK] = if scale > 0.0 { x.map(|v| (v / scale + WHOLES).to_bits() as i8) } else { [0; BLOCK] };
        let sum: i32 = block.iter().map(|q| i32::from(*q)).sum();
        ints.extend_from_slice(&bytemuck::cast::<_, [u32; BLOCK / 4]>(block));
        scales.push([scale, scale * sum as f32]);
    }
    (ints, scales)
}

/// The largest magnitude.
fn largest(x: &[f32; BLOCK]) -> f32 {
    let mut four = [0.0f32; 4];
    for x in x.as_chunks::<4>().0 {
        for (most, x) in four.iter_mut().zip(x) {
            let x = x.abs();
            *most = if x > *most { x } else { *most };
        }
    }
    four[0].max(four[1]).max(four[2].max(four[3]))
}

/// Writes row `t` of activations as the variant's `out` axis says, padded with zeros to `kb` blocks.
pub fn write_row(call: &Call, kb: usize, t: usize, mut row: Vec<f32>) {
    row.resize(kb * BLOCK, 0.0);
    match call.axis("out") {
        "q8" => {
            let (ints, scales) = blocks_of(&row);
            call.write("yq")[t * kb * 8..][..ints.len()].copy_from_slice(&ints);
            call.view_mut::<[f32; 2]>("ys")[t * kb..][..kb].copy_from_slice(&scales);
        }
        "add" => call.view_mut::<f32>("y")[t * kb * BLOCK..].iter_mut().zip(&row).for_each(|(y, v)| *y += v),
        _ => call.view_mut::<f32>("y")[t * kb * BLOCK..][..row.len()].copy_from_slice(&row),
    }
}

/// x -> yq, ys.
pub fn quantize(call: &Call) {
    let kb = call.usize("KB");
    let x = call.view::<f32>("x");
    let (mut yq, mut ys) = (call.write("yq"), call.view_mut::<[f32; 2]>("ys"));
    for t in 0..call.state().rows.min(call.grid[1]) as usize {
        let (ints, scales) = blocks_of(&x[t * kb * BLOCK..][..kb * BLOCK]);
        yq[t * kb * 8..][..ints.len()].copy_from_slice(&ints);
        ys[t * kb..][..kb].copy_from_slice(&scales);
    }
}

/// y = act(gate) * up, or act(gu) where nothing is gated.
pub fn activate(call: &Call) {
    let (f, stride, gated) = (call.usize("F"), call.usize("GSTRIDE"), call.u32("GATED") == 1);
    let gu = call.view::<f32>("gu");
    let (factors, each) = (call.view::<f32>("factors"), call.usize("FACTOR"));
    let act = activation(call);
    let beside = call.usize("BESIDE");
    let beside = (beside != 0).then(|| (beside, call.view::<f32>("at")[call.usize("AT")] as usize));
    for t in 0..(call.state().rows * call.u32("EACH")).min(call.grid[1]) as usize {
        let factor = if each == 0 { 1.0 } else { sigmoid(factors[(t + 1) * each - 1]) };
        let row = &gu[t * stride..];
        let beside = |i: usize| beside.map_or(1.0, |(each, at)| factors[t * each + at + i]);
        let mut values = row[..f].to_vec();
        act.apply(&mut values);
        if gated {
            values.iter_mut().zip(&row[f..2 * f]).for_each(|(v, up)| *v *= up);
        }
        values.iter_mut().enumerate().for_each(|(i, v)| *v *= factor * beside(i));
        write_row(call, call.usize("KB"), t, values);
    }
}

/// y = h / sqrt(mean(h^2) + EPS) * nw for every row, or for the last alone; or, with CENTER, LayerNorm.
pub fn norm(call: &Call) {
    let (d, stride, last, eps) = (call.usize("D"), call.usize("STRIDE"), call.u32("LAST") == 1, call.f32("EPS"));
    let (h, nw, nb) = (call.view::<f32>("h"), call.view::<f32>("nw"), call.view::<f32>("nb"));
    let center = call.u32("CENTER") == 1;
    let rows = call.state().rows as usize;
    let inputs = if last { rows - 1..rows } else { 0..rows.min(call.grid[0] as usize) };
    for (t, input) in inputs.enumerate() {
        let mut row = h[input * stride..][..d].to_vec();
        if center {
            let mean = row.iter().map(|v| f64::from(*v)).sum::<f64>() / d as f64;
            row.iter_mut().for_each(|v| *v -= mean as f32);
        }
        let r = (dot(&row, &row) / d as f32 + eps).sqrt().recip();
        row.iter_mut().zip(&nw[..d]).for_each(|(v, w)| *v *= r * w);
        if center {
            row.iter_mut().zip(&nb[..d]).for_each(|(v, b)| *v += b);
        }
        write_row(call, call.usize("KB"), t, row);
        if call.axis("out") == "add" && call.u32("SCALED") == 1 {
            let width = call.usize("KB") * BLOCK;
            call.view_mut::<f32>("y")[t * width..][..width].iter_mut().for_each(|y| *y *= nw[d]);
        }
    }
}

/// h[t][i] = embedding[tokens[TOKEN_AT + t]][i] for the tokens whose rows this part holds. EACH neighbouring rows of h
/// are interleaved.
pub fn embed(call: &Call) {
    let (d, kb, stride, scale) = (call.usize("D"), call.usize("KB"), call.usize("STRIDE"), call.f32("SCALE"));
    let (row0, rows, add) = (call.u32("ROW0"), call.u32("ROWS"), call.u32("ADD") == 1);
    let each = call.usize("EACH");
    let (tokens, wq) = (call.read("tokens"), call.read("wq"));
    let ws = call.variant.binds("ws").then(|| call.read("ws"));
    let mut h = call.view_mut::<f32>("h");
    let mut row = Vec::new();
    let state = call.state();
    for t in (0..state.rows.min(call.grid[0]) as usize).filter(|t| !state.rests(*t)) {
        let token =
            if call.u32("POSITIONS") == 1 { state.position_of(t) as u32 } else { tokens[call.usize("TOKEN_AT") + t] };
        if token < row0 || token - row0 >= rows {
            continue;
        }
        weights::floats(
            call.axis("weight"),
            &wq,
            ws.as_ref().map_or(&[], |ws| ws.as_slice()),
            (token - row0) as usize,
            kb,
            &mut row,
        );
        let at = (t - t % each) * stride + t % each;
        for (h, value) in h[at..].iter_mut().step_by(each).zip(&row[..d]) {
            *h = value * scale + if add { *h } else { 0.0 };
        }
    }
}
