//! The twins of `matvec` and `matmul`, which differ in how many rows of activations there are.

use super::Call;
use super::weight::{BLOCK, block_words, decode_block, decode_ints, scale};

/// y[ROW0 + n] (+)= w[n] . x
pub fn matvec(call: &Call) {
    product(call, 1, 0);
}

/// y[t][ROW0 + n] (+)= w[n] . x[t]
pub fn matmul(call: &Call) {
    product(call, call.state().rows as usize, call.usize("NSTRIDE"));
}

fn product(call: &Call, rows: usize, stride: usize) {
    let (kb, n, row0) = (call.usize("KB"), call.usize("N"), call.usize("ROW0"));
    let weight = call.axis("weight");
    let (wq, ws) = (call.read("wq"), call.scales());
    let mut y = call.view_mut::<f32>("y");
    let mut put = |t: usize, n: usize, v: f64| {
        let y = &mut y[t * stride + row0 + n];
        *y = if call.u32("ADD") == 1 { (v + f64::from(*y)) as f32 } else { v as f32 };
    };
    if call.axis("act") == "q8" {
        let (xq, xs) = (call.view::<[i8; BLOCK]>("xq"), call.view::<[f32; 2]>("xs"));
        let words = block_words(weight).unwrap_or_default();
        for n in 0..n {
            let blocks: Vec<_> = (n * kb..(n + 1) * kb).map(|b| (decode_ints(weight, &wq[b * words..(b + 1) * words]), scale(&ws, b))).collect();
            for t in 0..rows {
                let x = xq[t * kb..].iter().zip(&xs[t * kb..]);
                let dot = |(w, x): (&[i8; BLOCK], &[i8; BLOCK])| w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum::<i32>();
                put(t, n, blocks.iter().zip(x).map(|((w, d), (x, s))| f64::from(*d) * f64::from(s[0]) * f64::from(dot((w, x)))).sum());
            }
        }
    } else {
        let x = call.view::<f32>("x");
        for n in 0..n {
            let row: Vec<f32> = (n * kb..(n + 1) * kb).flat_map(|b| decode_block(weight, &wq, &ws, b)).collect();
            for t in 0..rows {
                put(t, n, row.iter().zip(&x[t * kb * BLOCK..]).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum());
            }
        }
    }
}
