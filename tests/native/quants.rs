//! Blocks of each weight type, extreme ones among them, against what Python's gguf package decodes them to.

use millrace::cpu::weight::decode_block;
use millrace::gpu::{Gpu, GpuOptions};
use millrace::kernels::{State, find};
use millrace::weights::{BLOCK, Packed, WeightType, repack};

use crate::common::bytes;

const TYPES: [WeightType; 8] =
    [WeightType::F16, WeightType::Bf16, WeightType::Q8_0, WeightType::Q4_0, WeightType::Q5_0, WeightType::Q4K, WeightType::Q5K, WeightType::Q6K];

/// Rows of one group each, in GGUF's layout, and their values.
fn fixture(kind: WeightType) -> (Vec<u8>, Vec<f32>) {
    let about: serde_json::Value = serde_json::from_slice(&bytes(&format!("quants/{}.json", kind.axis()))).unwrap();
    let file = bytes(&format!("quants/{}.bin", kind.axis()));
    let part = |name: &str| {
        let field = |key: &str| about[name][key].as_u64().unwrap() as usize;
        &file[field("offset")..][..field("bytes")]
    };
    assert_eq!(about["row_values"], kind.group().max(BLOCK));
    let values = part("values").chunks_exact(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect();
    (part("raw").to_vec(), values)
}

/// As the kernels read them: words of `wq` and, two scales a word, of `ws`.
fn packed(kind: WeightType) -> (Vec<u32>, Vec<u32>, Vec<f32>) {
    let (raw, values) = fixture(kind);
    let Packed { wq, scales } = repack(kind, &raw, values.len() / width(kind), width(kind)).unwrap();
    let ws = scales.chunks(2).map(|pair| u32::from(pair[0]) | u32::from(*pair.get(1).unwrap_or(&0)) << 16).collect();
    (wq, ws, values)
}

/// Values of a row of the fixture.
fn width(kind: WeightType) -> usize {
    kind.group().max(BLOCK)
}

#[test]
fn twins_decode_what_gguf_decodes() {
    for kind in TYPES {
        let (wq, ws, values) = packed(kind);
        for (b, expected) in values.chunks_exact(BLOCK).enumerate() {
            let decoded = decode_block(kind.axis(), &wq, &ws, b);
            assert_eq!(decoded.map(f32::to_bits).as_slice(), expected.iter().map(|v| v.to_bits()).collect::<Vec<_>>(), "{kind:?} block {b}: {decoded:?}");
        }
    }
}

/// Read by `embed`, row by row. A GPU may take subnormal f32 for zero; subnormal halves it must decode.
#[test]
fn the_gpu_decodes_what_gguf_decodes() {
    let gpu = pollster::block_on(Gpu::open(&GpuOptions::default())).unwrap();
    for kind in TYPES {
        let (wq, ws, values) = packed(kind);
        let rows = (values.len() / width(kind)) as u32;
        let d = width(kind) as f64;
        let mut buffers =
            vec![("state", State { rows, ..State::default() }.words()), ("tokens", (0..rows).collect()), ("wq", wq), ("h", vec![0; values.len()])];
        if kind.quantized() {
            buffers.push(("ws", ws));
        }
        let overrides = [("D", d), ("KB", d / 32.0), ("STRIDE", d), ("ROW0", 0.0), ("ROWS", f64::from(rows)), ("TOKEN_AT", 0.0)];
        let variant = find("embed", &[("weight", kind.axis())]).unwrap();
        pollster::block_on(gpu.run_once(variant, &overrides, &mut buffers, [rows, 1, 1])).unwrap();
        let h = &buffers.iter().find(|b| b.0 == "h").unwrap().1;
        let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        for (i, (expected, actual)) in values.iter().zip(h.iter().map(|w| f32::from_bits(*w))).enumerate() {
            let flushed = expected.is_subnormal() && actual == 0.0;
            // scale * number - min may be one fused operation, which rounds once.
            let fused = matches!(kind, WeightType::Q4K | WeightType::Q5K) && (actual - expected).abs() <= f32::EPSILON * largest;
            assert!(actual == *expected || flushed || fused, "{kind:?} block {} element {}: {actual}, expected {expected}", i / BLOCK, i % BLOCK);
        }
    }
}
