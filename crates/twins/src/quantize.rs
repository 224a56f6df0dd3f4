use super::{Call, kv};
use millrace_core::blocks::decode::BLOCK;

/// A block of int8 activations: scale, and scale * sum of the integers.
pub struct Block {
    pub ints: [i8; BLOCK],
    pub scale: f32,
    pub scaled_sum: f32,
}

/// d = max |x| / 127, q = round(x / d), to even where it is half-way; zeros where every x is zero.
pub fn quantize_block(x: &[f32; BLOCK]) -> Block {
    let scale = x.iter().fold(0.0_f32, |m, v| m.max(v.abs())) / 127.0;
    let ints = x.map(|v| if scale > 0.0 { (v / scale).round_ties_even() as i8 } else { 0 });
    let sum: i32 = ints.iter().map(|q| i32::from(*q)).sum();
    Block { ints, scale, scaled_sum: scale * sum as f32 }
}

/// Writes rows of activations as the variant's `out` axis says, f32 or halves in `y` or int8 in `yq` and `ys`, padded
/// with zeros to `kb` blocks a row.
pub fn write_rows(call: &Call, kb: usize, rows: impl Iterator<Item = Vec<f32>>) {
    rows.enumerate().for_each(|(t, row)| write_row(call, kb, t, row));
}

/// Writes row `t` of them.
pub fn write_row(call: &Call, kb: usize, t: usize, mut row: Vec<f32>) {
    row.resize(kb * BLOCK, 0.0);
    match call.axis("out") {
        "q8" => write_q8(call, t, &row),
        "f16" => {
            let mut y = call.write("y");
            for (i, v) in row.iter().enumerate() {
                kv::store("f16", &mut y, t * kb * BLOCK + i, *v);
            }
        }
        "add" => call.view_mut::<f32>("y")[t * kb * BLOCK..].iter_mut().zip(&row).for_each(|(y, v)| *y += v),
        _ => call.view_mut::<f32>("y")[t * kb * BLOCK..][..row.len()].copy_from_slice(&row),
    }
}

fn write_q8(call: &Call, t: usize, row: &[f32]) {
    let (mut yq, mut ys) = (call.view_mut::<[i8; BLOCK]>("yq"), call.view_mut::<[f32; 2]>("ys"));
    let (blocks, _) = row.as_chunks::<BLOCK>();
    for (b, x) in blocks.iter().enumerate() {
        let block = quantize_block(x);
        yq[t * blocks.len() + b] = block.ints;
        ys[t * blocks.len() + b] = [block.scale, block.scaled_sum];
    }
}

/// x -> yq, ys.
pub fn run(call: &Call) {
    let width = call.usize("KB") * BLOCK;
    let x = call.view::<f32>("x");
    for t in 0..call.state().rows.min(call.grid[1]) as usize {
        write_q8(call, t, &x[t * width..(t + 1) * width]);
    }
}
