use super::compare::F32;
use super::inputs::{Random, activations, untouched, words};
use super::norm::{out_buffers, out_compare};
use super::{Case, Compare};
use crate::blocks::WeightType;
use crate::kernels::{State, Variant};

struct Shape {
    t: u32,
    k: u32,
    n: u32,
    row0: u32,
    add: bool,
    small: bool,
}

const fn shape(t: u32, k: u32, n: u32) -> Shape {
    Shape { t, k, n, row0: 0, add: false, small: false }
}

/// The width to test instead of `k`: types whose blocks come in groups have rows of whole groups.
pub fn fitting(variant: &Variant, k: u32) -> u32 {
    let group = variant.axis("weight").and_then(WeightType::of_axis).map_or(1, WeightType::group) as u32;
    if group > 32 { k.next_multiple_of(group) } else { k }
}

pub fn matvec(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let shapes = [
        (shape(1, 256, 64), 2),
        (Shape { row0: 5, add: true, ..shape(1, 80, 13) }, 1),
        (Shape { small: true, add: true, row0: 3, ..shape(1, 2080, 70) }, 1),
        (Shape { add: true, ..shape(1, 4320, 9) }, 4),
    ];
    // One of three rows, each with workgroups of its own.
    shapes
        .into_iter()
        .chain([(Shape { row0: 2, add: true, ..shape(3, 96, 40) }, 2)])
        .map(|(shape, split)| {
            let groups = shape.n.div_ceil(variant.tile[0] / split);
            // Folded in two: more workgroups than rows need, as with a grid beyond 65,535.
            let mut case = case(variant, random, &shape, [groups.div_ceil(2), 2, shape.t]);
            case.overrides.push(("EACH", f64::from(u8::from(shape.t > 1))));
            // One with a bias, one with capped sums; halves' sums are not as close where the cap bends them.
            let cap = if variant.axis("act") == Some("f16") { 1000.0 } else { 40.0 };
            case.overrides.extend([
                ("BIAS", f64::from(u8::from(shape.n == 13))),
                ("SOFTCAP", if shape.n == 9 { cap } else { 0.0 }),
            ]);
            case.overrides.push(("SPLIT", f64::from(split)));
            case
        })
        .collect()
}

/// A residual stream, padded to whole blocks, and norm weights, whose product is whole multiples of its blocks' scales:
/// which int8 it becomes does not hang on the last bit of a quotient.
fn residual(random: &mut Random, d: u32) -> [(&'static str, Vec<u32>); 2] {
    let weights: Vec<f32> = (0..d).map(|_| [0.5, 1.0, 2.0][random.below(3) as usize]).collect();
    let mut h: Vec<f32> = weights
        .iter()
        .enumerate()
        .map(|(i, w)| (if i % 32 == 7 { 127.0 } else { random.below(255) as f32 - 127.0 }) / 64.0 / w)
        .collect();
    h.resize(d.next_multiple_of(32) as usize, 0.0);
    // The reader of whole vec4 must not need more than the buffer's own padding.
    [("h", words(&h)), ("nw", words(&weights))]
}

/// A residual stream whose addition of a block's normed result is still to be done, that result (with `post`), and room
/// for the sum.
fn unfinished(random: &mut Random, d: u32, post: bool, rows: u32) -> Vec<(&'static str, Vec<u32>)> {
    let [mut h, (_, mut weights)] = residual(random, d);
    let padded = d.next_multiple_of(32) as usize;
    // Further rows are the first, turned over.
    let first = h.1.clone();
    (1..rows).for_each(|_| h.1.extend(first.iter().map(|word| word ^ 1 << 31)));
    if !post {
        return vec![h, ("nw", weights), ("block", untouched(4)), ("sum", untouched(8))];
    }
    // Of ones and minus ones, whose norm is as sharp as they are, so that int8 of the sum are as they would be without
    // it.
    let mut block: Vec<f32> = (0..d).map(|_| if random.below(2) == 0 { 1.0 } else { -1.0 }).collect();
    block.resize(padded, 0.0);
    let block = block.repeat(rows as usize);
    weights.extend(words(&random.f32s(d as usize, 1.0)));
    // A power of two leaves int8 as they are; of `beside` it is where an output's factors begin.
    weights.extend(words(&[2.0, 0.0, 0.0, 0.0]));
    vec![h, ("nw", weights), ("block", words(&block)), ("sum", untouched(padded * rows as usize + 4))]
}

/// A product as a model's steps run it: with rows of so many blocks, dealt out among so many groups of lanes; and with
/// activations that halves do not hold, where they are f32. None for other kernels.
pub fn real(variant: &'static Variant, random: &mut Random, kb: u32, split: u32) -> Option<Vec<Case>> {
    let k = kb * 32;
    // Whole workgroups and a part of one.
    let n = |tile: u32| (tile + 5).min(70);
    let first = match variant.kernel {
        "matvec" => {
            let n = n(variant.tile[0] / split);
            let mut case = case(
                variant,
                random,
                &Shape { row0: 5, add: true, ..shape(1, k, n) },
                [n.div_ceil(variant.tile[0] / split), 1, 1],
            );
            case.overrides.push(("SPLIT", f64::from(split)));
            case
        }
        "norm_matvec" => norm_matvec_of(variant, random, &[(k, n(variant.tile[0]), 3, 1)]).pop()?,
        "norm_gated" => norm_gated_of(variant, random, &[(k, 37, 1)]).pop()?,
        "matmul" => {
            let mut case = case(
                variant,
                random,
                &Shape { add: true, ..shape(5, k, 70) },
                [70_u32.div_ceil(variant.tile[0]), 1, 1],
            );
            case.overrides.push(("BIAS", 0.0));
            case
        }
        _ => return None,
    };
    let x = if variant.kernel.starts_with("norm") { "h" } else { "x" };
    let large = (variant.axis("act") == Some("f32")).then(|| {
        let large = |(name, words): &(&'static str, Vec<u32>)| {
            let value = |(i, word): (usize, &u32)| if *name == x && i % 64 == 33 { 1e5_f32.to_bits() } else { *word };
            (*name, words.iter().enumerate().map(value).collect())
        };
        let buffers = first.buffers.iter().map(large).collect();
        Case {
            name: format!("{} large", first.name),
            overrides: first.overrides.clone(),
            grid: first.grid,
            buffers,
            outputs: first.outputs.clone(),
        }
    });
    Some([Some(first), large].into_iter().flatten().collect())
}

pub fn norm_matvec(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let quantized = variant.axis("act") == Some("q8");
    // (D, N, ROW0, rows)
    norm_matvec_of(variant, random, &[(if quantized { 96 } else { 80 }, 13, 5, 1), (2080, 70, 0, 1), (192, 70, 0, 3)])
}

fn norm_matvec_of(variant: &'static Variant, random: &mut Random, shapes: &[(u32, u32, u32, u32)]) -> Vec<Case> {
    let case = |&(d, n, row0, t): &(u32, u32, u32, u32)| {
        let mut case =
            normed_product(variant, random, (d, n, row0, t), [n.div_ceil(variant.tile[0]).div_ceil(2), 2, t]);
        case.overrides.push(("EACH", f64::from(u8::from(t > 1))));
        case
    };
    shapes.iter().map(case).collect()
}

pub fn norm_rows(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (D, N, ROW0, rows), and how many groups of lanes share a row
    let shapes = [((2560, 70, 0, 4), 2), ((96, 13, 5, 3), 1), ((96, 70, 0, 1), 2), ((192, 13, 0, 2), 1)];
    let case = |(of, split): ((u32, u32, u32, u32), u32)| {
        let grid = [of.1.div_ceil(variant.tile[0] / split).div_ceil(2), 2, 1];
        let mut case = normed_product(variant, random, of, grid);
        case.overrides.push(("SPLIT", f64::from(split)));
        case
    };
    shapes.into_iter().map(case).collect()
}

/// The product of `t` normed rows of `d` with `n` rows of w, from `row0` on: of 70 with the norm of a block before it,
/// of others with a bias.
fn normed_product(
    variant: &'static Variant,
    random: &mut Random,
    (d, n, row0, t): (u32, u32, u32, u32),
    grid: [u32; 3],
) -> Case {
    let quantized = variant.axis("act") == Some("q8");
    let d = fitting(variant, d);
    let kb = d.div_ceil(32);
    let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (n * kb) as usize, false);
    let post = n == 70;
    buffers.extend(unfinished(random, d, post, t));
    let bias = words(&Random::new("bias").f32s((row0 + n) as usize, 1.0));
    let stride = row0 + n + 3;
    buffers.extend([
        ("state", State { rows: t, ..State::default() }.words()),
        ("y", untouched((t * stride) as usize)),
        ("bias", bias),
    ]);
    let overrides = [
        ("KB", kb),
        ("N", n),
        ("ROW0", row0),
        ("D", d),
        ("BIAS", u32::from(n == 13)),
        ("POST", u32::from(post)),
        ("SCALED", u32::from(post)),
        ("NSTRIDE", stride),
    ];
    Case {
        name: format!("T={t} D={d} N={n} at {row0}"),
        overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).chain([("EPS", 1e-5)]).collect(),
        grid,
        buffers,
        outputs: vec![("y", if post && quantized { Compare::F32(2e-3) } else { F32 }), ("sum", F32)],
    }
}

pub fn gated_matvec(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (width, group, rows, the first, weights of its own, the gate first, normed): a head's, groups of a width, all of
    // it, none
    let shapes: [[u32; 7]; 4] = [
        [512, 128, 13, 5, 0, 0, 1],
        [1536, 512, 70, 0, 1, 1, 1],
        [2048, 2048, 40, 3, 1, 1, 1],
        [768, 64, 33, 0, 0, 0, 0],
    ];
    let cases = shapes.into_iter().map(|[width, group, n, row0, own, first, normed]| {
        let kb = width / 32;
        let factors = if normed == 1 { [1.0, 1.0] } else { [0.7, 1.3] };
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (n * kb) as usize, false);
        buffers.extend([
            ("state", State { rows: 1, ..State::default() }.words()),
            ("x", words(&random.f32s(width as usize, 3.0))),
            ("z", words(&random.f32s(width as usize + 12, 3.0))),
            ("nw", words(&random.f32s(width as usize, 2.0))),
            ("y", words(&random.f32s((row0 + n) as usize + 3, 1.0))),
        ]);
        let overrides = [
            ("KB", kb),
            ("N", n),
            ("ROW0", row0),
            ("WIDTH", width),
            ("GROUP", group),
            ("Z_AT", 8),
            ("OWN", own),
            ("FIRST", first),
            ("NORMED", normed),
        ];
        Case {
            name: format!(
                "{width} in groups of {group} N={n} at {row0}{}{}",
                if first == 1 { ", gate first" } else { "" },
                if normed == 0 { ", not normed" } else { "" }
            ),
            overrides: overrides
                .into_iter()
                .map(|(name, value)| (name, f64::from(value)))
                .chain([("EPS", 1e-6), ("INNER", factors[0]), ("OUTER", factors[1])])
                .collect(),
            grid: [n.div_ceil(variant.tile[0]).div_ceil(2), 2, 1],
            buffers,
            outputs: vec![("y", Compare::F32(2e-3))],
        }
    });
    cases.collect()
}

pub fn norm_gated(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (D, F, rows)
    norm_gated_of(
        variant,
        random,
        &[(if variant.axis("act") == Some("q8") { 96 } else { 80 }, 64, 1), (2080, 60, 1), (192, 60, 3)],
    )
}

fn norm_gated_of(variant: &'static Variant, random: &mut Random, shapes: &[(u32, u32, u32)]) -> Vec<Case> {
    let case = |&(d, f, t): &(u32, u32, u32)| {
        let mut case = normed_gated(variant, random, (d, f, t), t);
        case.overrides.push(("EACH", f64::from(u8::from(t > 1))));
        // The second without gates, each output times a number that is there.
        let post = f64::from(u8::from(f == 60));
        if variant.axis("out") == Some("f32") {
            case.overrides.retain(|(name, _)| *name != "SCALED");
            let beside = 5 + f;
            case.overrides.extend([("GATED", 1.0 - post), ("BESIDE", f64::from(beside) * post), ("PLAIN", post)]);
            case.buffers.push(("beside", words(&random.f32s((t * beside) as usize, 1.0))));
        }
        case
    };
    shapes.iter().map(case).collect()
}

pub fn norm_gated_rows(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (D, F, rows)
    let shapes = [(2560, 60, 4), (96, 64, 3), (96, 60, 1)];
    shapes.into_iter().map(|of| normed_gated(variant, random, of, 1)).collect()
}

/// The gated product of `t` normed rows of `d`, of which each makes `f`: of 60 with the norm of a block before it.
fn normed_gated(variant: &'static Variant, random: &mut Random, (d, f, t): (u32, u32, u32), deep: u32) -> Case {
    let d = fitting(variant, d);
    let kb = d.div_ceil(32);
    let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (2 * f * kb) as usize, false);
    let post = f == 60;
    buffers.extend(unfinished(random, d, post, t));
    buffers.push(("state", State { rows: t, ..State::default() }.words()));
    buffers.extend(out_buffers(variant, (t * f.div_ceil(32)) as usize));
    let post = u32::from(post);
    let overrides = [("KB", kb), ("F", f), ("D", d), ("ACT", post), ("POST", post), ("SCALED", post)];
    Case {
        name: format!("T={t} D={d} F={f}"),
        // So large an EPS keeps the gates small: the sigmoid of -50 is all rounding.
        overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).chain([("EPS", 64.0)]).collect(),
        grid: [f.div_ceil(32).div_ceil(2), 2, deep],
        buffers,
        outputs: out_compare(variant).into_iter().chain([("sum", F32)]).collect(),
    }
}

pub fn matvec_rows(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // Rows are no constant of a pipeline: two compile for all of these.
    let wide = |t| Shape { small: true, add: true, row0: 3, ..shape(t, 2080, 70) };
    let narrow = |t| Shape { row0: 5, ..shape(t, 96, 13) };
    let shapes = [(wide(8), 1), (wide(19), 1), (wide(3), 1), (wide(1), 1), (narrow(3), 2), (narrow(4), 2)];
    let cases = shapes.into_iter().map(|(shape, split)| {
        let groups = shape.n.div_ceil(variant.tile[0] / split);
        let mut case = case(variant, random, &shape, [groups.div_ceil(2), 2, shape.t.div_ceil(variant.tile[1])]);
        case.overrides.extend([("SPLIT", f64::from(split)), ("BIAS", f64::from(u8::from(shape.n == 13)))]);
        // Steps of four rows are compiled for no more.
        case.overrides.extend((shape.n == 13).then_some([("T", 4.0), ("SOFTCAP", 40.0)]).into_iter().flatten());
        case
    });
    cases.collect()
}

pub fn gated_rows(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (K, F, most rows, rows)
    let shapes: [(u32, u32, u32, u32); 3] = [(96, 64, 4, 3), (1024, 60, 8, 8), (96, 60, 8, 5)];
    let cases = shapes.into_iter().map(|(k, f, most, t)| {
        let k = fitting(variant, k);
        let kb = k.div_ceil(32);
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (2 * f * kb) as usize, false);
        // Small ones: the sigmoid of -50 is all rounding.
        let x: Vec<f32> = random.padded(t as usize, k as usize, kb as usize * 32).iter().map(|x| x / 16.0).collect();
        buffers.extend(activations("q8", &x));
        buffers.push(("state", State { rows: t, ..State::default() }.words()));
        buffers.extend(out_buffers(variant, (t * f.div_ceil(32)) as usize));
        let overrides = [("KB", kb), ("F", f), ("T", most), ("ACT", u32::from(f == 60))];
        let mut case = Case {
            name: format!("T={t} of {most} K={k} F={f}"),
            overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).collect(),
            grid: [f.div_ceil(32).div_ceil(2), 2, 1],
            buffers,
            outputs: out_compare(variant),
        };
        if t == 5 {
            leave_open(&mut case, random, most);
        }
        case
    });
    cases.collect()
}

/// The norm of the case's activations is left to the product; its steps have `most` rows.
fn leave_open(case: &mut Case, random: &mut Random, most: u32) {
    let kb = case.overrides.iter().find(|o| o.0 == "KB").map_or(0, |o| o.1 as usize);
    let Some((_, xs)) = case.buffers.iter_mut().find(|b| b.0 == "xs") else { return };
    let scales = most as usize * kb * 2;
    xs.resize(scales, 0);
    // What is behind a sum of squares is not read.
    xs.extend(words(&random.f32s(scales, 1.0).iter().map(|x| 1.0 + x * x).collect::<Vec<_>>()));
    case.overrides.extend([("D", (kb * 32) as f64), ("EPS", 1e-5)]);
    case.name += " open";
}

pub fn residual_rows(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    // (K, rows of w, ROW0, width of the residual stream, most rows, rows)
    let shapes: [(u32, u32, u32, u32, u32, u32); 4] =
        [(96, 64, 32, 128, 4, 3), (1024, 96, 0, 96, 8, 8), (96, 32, 64, 96, 8, 5), (96, 32, 0, 64, 4, 1)];
    let cases = shapes.into_iter().map(|(k, n, row0, width, most, t)| {
        let k = fitting(variant, k);
        let kb = k.div_ceil(32);
        let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (n * kb) as usize, false);
        buffers.extend(activations("q8", &random.padded(t as usize, k as usize, kb as usize * 32)));
        let blocks = (t * width / 32) as usize;
        buffers.extend([
            ("state", State { rows: t, ..State::default() }.words()),
            ("y", words(&random.f32s((t * width) as usize + 3, 1.0))),
            ("nw", words(&random.f32s(width as usize, 2.0))),
            ("yq", untouched(blocks * 8 + 8)),
            ("ys", untouched(((most + t) * width / 32) as usize * 2 + 2)),
        ]);
        let overrides = [("KB", kb), ("N", n), ("ROW0", row0), ("NSTRIDE", width), ("T", most)];
        Case {
            name: format!("T={t} of {most} K={k} N={n} at {row0} of {width}"),
            overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).collect(),
            grid: [(n / 32).div_ceil(2), 2, 1],
            buffers,
            outputs: vec![("y", F32), ("yq", Compare::Int8), ("ys", Compare::Scales)],
        }
    });
    cases.collect()
}

pub fn matmul(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let shapes = [
        shape(1, 32, 1),
        Shape { row0: 5, add: true, ..shape(5, 80, 13) },
        shape(64, 64, 64),
        Shape { add: true, ..shape(65, 96, 70) },
        Shape { small: true, ..shape(130, 160, 66) },
        Shape { row0: 3, ..shape(3, 288, 140) },
    ];
    let cases = shapes.into_iter().map(|shape| {
        let mut case =
            case(variant, random, &shape, [shape.n.div_ceil(variant.tile[0]), shape.t.div_ceil(variant.tile[1]), 1]);
        case.overrides.push(("BIAS", f64::from(u8::from(shape.n == 13))));
        case
    });
    cases.collect()
}

pub fn matmul_subgroup(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let n = variant.tile[0];
    let shapes = [
        shape(64, 64, n),
        Shape { add: true, ..shape(65, 96, 2 * n) },
        Shape { row0: 16, ..shape(3, 288, n) },
        Shape { add: true, ..shape(130, 2080, n) },
    ];
    let cases = shapes.into_iter().map(|shape| {
        let mut case =
            case(variant, random, &shape, [shape.n.div_ceil(variant.tile[0]), shape.t.div_ceil(variant.tile[1]), 1]);
        // Whole tiles of rows, of a multiple of sixteen.
        let stride = shape.row0 + shape.n + 16;
        let words_of_y = (shape.t.next_multiple_of(variant.tile[1]) * stride) as usize;
        for (name, value) in &mut case.overrides {
            if *name == "NSTRIDE" {
                *value = f64::from(stride);
            }
        }
        for (name, y) in &mut case.buffers {
            if *name == "y" {
                *y = if shape.add { words(&random.f32s(words_of_y, 1.0)) } else { untouched(words_of_y) };
            }
        }
        Case { outputs: vec![("y", Compare::F32(2e-3))], ..case }
    });
    cases.collect()
}

fn case(variant: &'static Variant, random: &mut Random, shape: &Shape, grid: [u32; 3]) -> Case {
    let &Shape { t, k, n, row0, add, small } = shape;
    // `matmul` makes f32 of halves, which it only reads.
    let halves = variant.axis("act") == Some("f16") && variant.kernel != "matmul";
    // Halves do not hold what is as small.
    let small = small && !halves;
    let k = fitting(variant, k);
    let kb = k.div_ceil(32);
    let stride = row0 + n + 3;
    let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (n * kb) as usize, small);
    buffers.extend(activations(
        variant.axis("act").unwrap_or_default(),
        &random.padded(t as usize, k as usize, kb as usize * 32),
    ));
    let y = if add { words(&random.f32s((t * stride) as usize, 1.0)) } else { untouched((t * stride) as usize) };
    buffers.extend([("state", State { rows: t, ..State::default() }.words()), ("y", y)]);
    if variant.binding("bias").is_some() {
        buffers.push(("bias", words(&Random::new("bias").f32s((row0 + n) as usize, 1.0))));
    }
    let mut overrides = vec![("KB", kb), ("N", n), ("ROW0", row0), ("ADD", u32::from(add))];
    overrides.push(("NSTRIDE", stride));
    Case {
        name: format!(
            "T={t} K={k} N={n} at {row0}{}{}",
            if add { " add" } else { "" },
            if small { " small" } else { "" }
        ),
        overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).collect(),
        grid,
        buffers,
        outputs: vec![("y", if halves { Compare::F32(2e-3) } else { F32 })],
    }
}
