//! Blocks of each weight type, extreme ones among them, against what Python's gguf package decodes them to.

use millrace::ErrorKind;
use millrace::blocks::decode::decode_block;
use millrace::blocks::{BLOCK, DType, Packed, WeightType, dequantize, dequantizes, repack, unpack};
use millrace::gpu::{Gpu, GpuOptions};
use millrace::kernels::{State, find};

use crate::common::bytes;

const TYPES: [WeightType; 8] =
    [WeightType::F16, WeightType::Bf16, WeightType::Q8_0, WeightType::Q4_0, WeightType::Q5_0, WeightType::Q4K, WeightType::Q5K, WeightType::Q6K];

/// Rows of one group each, in GGUF's layout, and their values.
fn fixture(kind: WeightType) -> (Vec<u8>, Vec<f32>) {
    let (about, raw, values) = rows(kind.axis());
    assert_eq!(about["row_values"], width(kind));
    (raw, values)
}

/// What a fixture says of itself, its raw rows and their values.
fn rows(name: &str) -> (serde_json::Value, Vec<u8>, Vec<f32>) {
    let about: serde_json::Value = serde_json::from_slice(&bytes(&format!("quants/{name}.json"))).unwrap();
    let file = bytes(&format!("quants/{name}.bin"));
    let part = |name: &str| {
        let field = |key: &str| about[name][key].as_u64().unwrap() as usize;
        &file[field("offset")..][..field("bytes")]
    };
    let values = part("values").chunks_exact(4).map(|v| f32::from_le_bytes(v.try_into().unwrap())).collect();
    let raw = part("raw").to_vec();
    (about, raw, values)
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

/// Equal in all bits, or both no number.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

#[test]
fn every_type_decodes_to_what_gguf_decodes() {
    for dtype in DType::ALL.iter().copied().filter(|dtype| dequantizes(*dtype)) {
        for name in [dtype.name().to_lowercase(), format!("{}-extreme", dtype.name().to_lowercase())] {
            let (about, raw, values) = rows(&name);
            assert_eq!(about["ggml_type"], dtype.ggml_id());
            let mut decoded = vec![1.5];
            dequantize(dtype, &raw, &mut decoded).unwrap();
            assert_eq!(decoded.len(), 1 + values.len(), "{name} appends");
            let (wide, per_block) = (about["row_values"].as_u64().unwrap() as usize, dtype.block_len() as usize);
            for (i, (actual, expected)) in decoded[1..].iter().zip(&values).enumerate() {
                assert!(same(*actual, *expected), "{name} row {} value {} (block of {per_block}): {actual}, expected {expected}", i / wide, i % wide);
            }
        }
    }
}

#[test]
fn other_types_and_parts_of_blocks_are_refused() {
    let refused = |dtype: DType, len| dequantize(dtype, &vec![0; len], &mut Vec::new()).unwrap_err();
    let error = refused(DType::IQ2_XXS, 66);
    assert_eq!(error.kind(), ErrorKind::UnsupportedModel);
    assert!(error.message().contains("IQ2_XXS") && error.message().contains("Q4_K, Q5_K, Q6_K, IQ4_NL"), "{error}");
    assert_eq!(refused(DType::Q4_K, 143).kind(), ErrorKind::Internal);
}

#[test]
fn unpacking_undoes_repacking() {
    for kind in TYPES {
        for name in [kind.axis().to_owned(), format!("{}-extreme", kind.axis())] {
            let (_, raw, values) = rows(&name);
            let packed = repack(kind, &raw, values.len() / width(kind), width(kind)).unwrap();
            let unpacked = unpack(kind, &packed, values.len() / width(kind), width(kind)).unwrap();
            assert!(unpacked.len() == values.len() && unpacked.iter().zip(&values).all(|(a, b)| same(*a, *b)), "{name}");
        }
    }
    // Rows of 45 halves have their ends padded.
    let raw: Vec<u8> = (0..90 * 3).map(|i| (i * 7 % 120) as u8).collect();
    let mut values = Vec::new();
    dequantize(DType::F16, &raw, &mut values).unwrap();
    let packed = repack(WeightType::F16, &raw, 3, 45).unwrap();
    assert_eq!(unpack(WeightType::F16, &packed, 3, 45).unwrap(), values);
    assert_eq!(unpack(WeightType::F16, &packed, 4, 45).unwrap_err().kind(), ErrorKind::Internal);
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
