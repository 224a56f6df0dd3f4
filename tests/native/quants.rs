//! Blocks of each weight type, extreme ones among them, against what Python's gguf package decodes them to.

use half::f16;
use millrace::ErrorKind;
use millrace::blocks::decode::decode_block;
use millrace::blocks::{BLOCK, DType, WeightType, dequantize, dequantizes, repack, unpack};
use millrace::gpu::{Gpu, GpuOptions};
use millrace::kernels::{State, find};
use millrace::weights::encode;

use crate::common::bytes;

/// The weight types of kernels, except plain f32, whose subnormal values a GPU flushes.
fn types() -> impl Iterator<Item = WeightType> {
    WeightType::ALL.iter().copied().filter(|kind| *kind != WeightType::F32)
}

/// Rows of one group each, in GGUF's layout, and their values.
fn fixture(kind: WeightType) -> (Vec<u8>, Vec<f32>) {
    let (about, raw, values) = rows(kind.axis());
    assert_eq!(about["row_values"], width(kind));
    (raw, values)
}

/// A fixture's description, its raw rows and their values.
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

/// The fixture as kernels read it: words of `wq` and, two scales a word, of `ws`; and the values.
fn packed(kind: WeightType) -> (Vec<u32>, Vec<u32>, Vec<f32>) {
    let (raw, values) = fixture(kind);
    let packed = repack(kind, &raw, values.len() / width(kind), width(kind)).unwrap();
    (packed.wq.clone(), packed.scale_words(), values)
}

/// Values of a row of the fixture.
fn width(kind: WeightType) -> usize {
    kind.group().max(BLOCK)
}

/// Equal in all bits, or both NaN.
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
                assert!(
                    same(*actual, *expected),
                    "{name} row {} value {} (block of {per_block}): {actual}, expected {expected}",
                    i / wide,
                    i % wide
                );
            }
        }
    }
}

#[test]
fn other_types_and_parts_of_blocks_are_refused() {
    let refused = |dtype: DType, len| dequantize(dtype, &vec![0; len], &mut Vec::new()).unwrap_err();
    let error = refused(DType::Q8_K, 292);
    assert_eq!(error.kind(), ErrorKind::UnsupportedModel);
    let lists = "IQ4_NL, IQ4_XS, BF16, MXFP4, Q1_0, Q2_0, and converted while loading IQ2_XXS, IQ2_XS, IQ3_XXS, IQ1_S, IQ3_S, IQ2_S, IQ1_M, TQ1_0";
    assert!(error.message().contains("Q8_K") && error.message().contains(lists), "{error}");
    assert_eq!(refused(DType::Q4_K, 143).kind(), ErrorKind::Internal);
}

/// Types that no kernel reads, with what they become: without loss, or Q8_0.
#[test]
fn types_without_kernels_become_what_has_room_for_them() {
    let mut became = Vec::new();
    for dtype in DType::ALL.iter().copied().filter(|dtype| dequantizes(*dtype) && WeightType::native(*dtype).is_none())
    {
        let kind = WeightType::of(dtype, "w").unwrap();
        became.push((dtype.name(), kind.axis()));
        let (_, raw, values) = rows(&dtype.name().to_lowercase());
        let wide = dtype.block_len() as usize;
        let packed = encode(kind, dtype, &raw, values.len() / wide, wide).unwrap();
        let now = unpack(kind, &packed, values.len() / wide, wide).unwrap();
        if kind != WeightType::Q8_0 {
            assert!(now.iter().zip(&values).all(|(now, value)| now.to_bits() == value.to_bits()), "{dtype}");
            continue;
        }
        for (now, values) in now.chunks_exact(BLOCK).zip(values.chunks_exact(BLOCK)) {
            let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
            if largest / 127.0 > f16::MAX.to_f32() {
                continue;
            }
            // Half a step, and the rounding of the scale to a half, which may be subnormal.
            let most = largest * (0.5 / 127.0 + 1.0 / 2048.0) + 127.0 * 2.0_f32.powi(-25);
            assert!(now.iter().zip(values).all(|(a, b)| (a - b).abs() <= most), "{dtype}: {now:?} of {values:?}");
        }
    }
    let six = ["IQ3_XXS", "IQ1_S", "IQ3_S", "IQ1_M"].map(|name| (name, "q6_k"));
    let two = ["TQ1_0", "TQ2_0"].map(|name| (name, "q2_0"));
    let eight = ["IQ2_XXS", "IQ2_XS", "IQ2_S", "NVFP4"].map(|name| (name, "q8_0"));
    let mut expected = [&six[..], &two, &eight].concat();
    expected.sort_unstable();
    became.sort_unstable();
    assert_eq!(became, expected);
}

#[test]
fn unpacking_undoes_repacking() {
    for kind in types() {
        for name in [kind.axis().to_owned(), format!("{}-extreme", kind.axis())] {
            let (_, raw, values) = rows(&name);
            let packed = repack(kind, &raw, values.len() / width(kind), width(kind)).unwrap();
            let unpacked = unpack(kind, &packed, values.len() / width(kind), width(kind)).unwrap();
            assert!(
                unpacked.len() == values.len() && unpacked.iter().zip(&values).all(|(a, b)| same(*a, *b)),
                "{name}"
            );
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
    for kind in types() {
        let (wq, ws, values) = packed(kind);
        for (b, expected) in values.chunks_exact(BLOCK).enumerate() {
            let decoded = decode_block(kind.axis(), &wq, &ws, b);
            assert_eq!(
                decoded.map(f32::to_bits).as_slice(),
                expected.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
                "{kind:?} block {b}: {decoded:?}"
            );
        }
    }
}

/// Read by `embed`, row by row. A GPU may take subnormal f32 for zero; subnormal halves it must decode.
#[test]
fn the_gpu_decodes_what_gguf_decodes() {
    let gpu = pollster::block_on(Gpu::open(&GpuOptions::default())).unwrap();
    for kind in types() {
        let (wq, ws, values) = packed(kind);
        let rows = (values.len() / width(kind)) as u32;
        let d = width(kind) as f64;
        let mut buffers = vec![
            ("state", State { rows, ..State::default() }.words()),
            ("tokens", (0..rows).collect()),
            ("wq", wq),
            ("h", vec![0; values.len()]),
        ];
        if kind.quantized() {
            buffers.push(("ws", ws));
        }
        let overrides =
            [("D", d), ("KB", d / 32.0), ("STRIDE", d), ("ROW0", 0.0), ("ROWS", f64::from(rows)), ("TOKEN_AT", 0.0)];
        let variant = find("embed", &[("weight", kind.axis())]).unwrap();
        pollster::block_on(gpu.run_once(variant, &overrides, &mut buffers, [rows, 1, 1])).unwrap();
        let h = &buffers.iter().find(|b| b.0 == "h").unwrap().1;
        let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
        for (i, (expected, actual)) in values.iter().zip(h.iter().map(|w| f32::from_bits(*w))).enumerate() {
            let flushed = expected.is_subnormal() && actual == 0.0;
            // scale * number - min may be one fused operation, which rounds once.
            let fused = matches!(
                kind,
                WeightType::Q4K | WeightType::Q5K | WeightType::Q4_1 | WeightType::Q5_1 | WeightType::Q2K
            ) && (actual - expected).abs() <= f32::EPSILON * largest;
            assert!(
                actual == *expected || flushed || fused,
                "{kind:?} block {} element {}: {actual}, expected {expected}",
                i / BLOCK,
                i % BLOCK
            );
        }
    }
}
