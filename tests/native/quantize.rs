//! Quantizers: bit for bit where Python's gguf package has the quantizer, within stated errors where scales are
//! searched for.

use millrace::ErrorKind;
use millrace::blocks::{DType, WeightType, dequantize, quantize};
use millrace::check::inputs::Random;

use crate::common::bytes;

const K_QUANTS: [(WeightType, DType); 3] =
    [(WeightType::Q4K, DType::Q4_K), (WeightType::Q5K, DType::Q5_K), (WeightType::Q6K, DType::Q6_K)];
const ALL: [(WeightType, DType); 9] = [
    (WeightType::F32, DType::F32),
    (WeightType::F16, DType::F16),
    (WeightType::Bf16, DType::BF16),
    (WeightType::Q8_0, DType::Q8_0),
    (WeightType::Q4_0, DType::Q4_0),
    (WeightType::Q5_0, DType::Q5_0),
    K_QUANTS[0],
    K_QUANTS[1],
    K_QUANTS[2],
];

fn round_trip((kind, dtype): (WeightType, DType), values: &[f32]) -> Vec<f32> {
    let (mut blocks, mut back) = (Vec::new(), Vec::new());
    quantize(kind, values, &mut blocks).unwrap();
    dequantize(dtype, &blocks, &mut back).unwrap();
    back
}

/// Root mean square of the errors, relative to that of the values.
fn error(values: &[f32], back: &[f32]) -> f64 {
    let squares = |it: &mut dyn Iterator<Item = f32>| it.map(|x| f64::from(x).powi(2)).sum::<f64>();
    (squares(&mut values.iter().zip(back).map(|(a, b)| a - b)) / squares(&mut values.iter().copied())).sqrt()
}

/// A normal number (Box and Muller).
fn normal(random: &mut Random) -> f32 {
    let [a, b] = [0; 2].map(|_| (f64::from(random.u32()) + 1.0) / 4_294_967_297.0);
    ((-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()) as f32
}

/// Student's t with three degrees of freedom: more than one in a hundred values is beyond five.
fn heavy(random: &mut Random) -> f32 {
    let n = normal(random);
    n / ([0; 3].map(|_| normal(random).powi(2)).iter().sum::<f32>() / 3.0).sqrt()
}

#[test]
fn plain_blocks_are_those_of_the_gguf_package() {
    let about: serde_json::Value = serde_json::from_slice(&bytes("quants/quantized.json")).unwrap();
    let file = bytes("quants/quantized.bin");
    let part = |name: &str| {
        let field = |key: &str| about[name][key].as_u64().unwrap() as usize;
        &file[field("offset")..][..field("bytes")]
    };
    let values: Vec<f32> = part("values").as_chunks().0.iter().map(|v| f32::from_le_bytes(*v)).collect();
    for (kind, size) in [(WeightType::Q8_0, 34), (WeightType::Q4_0, 18), (WeightType::Q5_0, 22)] {
        let mut blocks = Vec::new();
        quantize(kind, &values, &mut blocks).unwrap();
        for (row, (ours, theirs)) in blocks.chunks_exact(size).zip(part(kind.axis()).chunks_exact(size)).enumerate() {
            assert_eq!(ours, theirs, "{kind:?} row {row}: {:?}", &values[32 * row..][..32]);
        }
        assert_eq!(blocks.len(), part(kind.axis()).len());
    }
}

/// The bounds lie a hundredth above what was measured. Scales of the range alone, without a search, give 0.0783, 0.0381
/// and 0.0187 for normal values and 0.0998, 0.0488 and 0.0259 for the heavy-tailed ones.
#[test]
fn searched_scales_keep_errors_small() {
    let draw = |name: &str, one: fn(&mut Random) -> f32| {
        let mut random = Random::new(name);
        (0..1 << 17).map(|_| one(&mut random) * 0.02).collect::<Vec<_>>()
    };
    for (name, values, bounds) in [
        ("normal", draw("normal", normal), [0.0714, 0.0351, 0.0177]),
        ("heavy", draw("heavy", heavy), [0.0922, 0.0456, 0.0256]),
    ] {
        for (kind, bound) in K_QUANTS.into_iter().zip(bounds) {
            let error = error(&values, &round_trip(kind, &values));
            assert!(error < bound, "{name} values as {:?}: {error}, at most {bound}", kind.0);
            assert!(
                error > 0.9 * bound,
                "{name} values as {:?}: {error}, far below {bound}: state a new bound",
                kind.0
            );
        }
    }
}

#[test]
fn every_type_keeps_what_it_can_hold() {
    let mut random = Random::new("every type");
    let values: Vec<f32> = (0..2048).map(|_| normal(&mut random)).collect();
    for (kind, bound) in ALL.into_iter().zip([0.0, 3e-4, 3e-3, 7e-3, 0.1, 0.05, 0.08, 0.04, 0.02]) {
        let error = error(&values, &round_trip(kind, &values));
        assert!(error <= bound, "{:?}: {error}", kind.0);
    }
}

#[test]
fn odd_blocks_stay_finite_and_near() {
    let mut random = Random::new("odd blocks");
    let mut near = |name: &str, bound: f64, one: &mut dyn FnMut(usize, &mut Random) -> f32| {
        let values: Vec<f32> = (0..512).map(|i| one(i, &mut random)).collect();
        for kind in ALL {
            let back = round_trip(kind, &values);
            assert!(back.iter().all(|v| v.is_finite()), "{name} as {:?}", kind.0);
            let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
            let off = values.iter().zip(&back).map(|(a, b)| f64::from(a - b).abs()).fold(0.0, f64::max);
            assert!(off <= bound * f64::from(largest), "{name} as {:?}: off by {off} of {largest}", kind.0);
        }
    };
    near("zeros", 0.0, &mut |_, _| 0.0);
    near("negative zeros", 0.0, &mut |_, _| -0.0);
    near("a constant", 0.02, &mut |_, _| 0.7);
    near("a negative constant", 0.02, &mut |_, _| -0.7);
    near("far from zero", 0.12, &mut |_, r| 100.0 + normal(r));
    near("far below zero", 0.12, &mut |_, r| -100.0 + normal(r));
    near("one spike", 0.02, &mut |i, _| if i % 256 == 77 { 3.0 } else { 0.0 });
    near("large", 0.15, &mut |_, r| 1e4 * r.f32());
    // Beyond the range of halves, or of scales that are halves: only finiteness is required.
    near("the largest", 1.0, &mut |i, _| if i % 3 == 0 { f32::MAX } else { -f32::MAX });
    near("huge", 1.0, &mut |_, r| 1e30 * r.f32());
    near("one huge among small", 1.0, &mut |i, r| if i == 300 { 3e38 } else { r.f32() });
    near("tiny", 1.0, &mut |_, r| 1e-9 * r.f32());
    near("subnormal", 1.0, &mut |_, r| f32::from_bits(r.u32() & 0x807f_ffff));
    near("of all sizes", 1.0, &mut |_, r| f32::from_bits(r.u32() & 0xbfff_ffff));
}

#[test]
fn what_is_not_finite_or_not_whole_is_refused() {
    for (kind, _) in ALL {
        let mut out = vec![7];
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut values = vec![1.0; 256];
            values[200] = bad;
            let refused = quantize(kind, &values, &mut out).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::BadModel);
            assert!(refused.message().contains("holds a value that is not finite"));
        }
        if kind.group() > 1 {
            assert_eq!(quantize(kind, &[0.0; 255], &mut out).unwrap_err().kind(), ErrorKind::Internal);
        }
        assert_eq!(out, [7]);
        quantize(kind, &[], &mut out).unwrap();
        assert_eq!(out, [7]);
    }
}
