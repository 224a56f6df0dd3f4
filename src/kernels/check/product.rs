use super::Case;
use super::compare::F32;
use super::random::{Random, activations, untouched, words};
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

pub fn matvec(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let shapes = [
        shape(1, 32, 1),
        shape(1, 256, 64),
        Shape { row0: 5, add: true, ..shape(1, 80, 13) },
        Shape { small: true, ..shape(1, 96, 10) },
        Shape { row0: 3, ..shape(1, 2080, 7) },
        Shape { add: true, ..shape(1, 4320, 9) },
    ];
    shapes
        .into_iter()
        .map(|shape| {
            let groups = shape.n.div_ceil(variant.tile[0]);
            // Folded in two: more workgroups than rows need, as with a grid beyond 65,535.
            case(variant, random, &shape, [groups.div_ceil(2), 2, 1])
        })
        .collect()
}

pub fn matmul(variant: &'static Variant, random: &mut Random) -> Vec<Case> {
    let shapes = [
        shape(1, 32, 1),
        Shape { row0: 5, add: true, ..shape(5, 80, 13) },
        shape(64, 64, 64),
        Shape { add: true, ..shape(65, 96, 70) },
        Shape { small: true, ..shape(130, 160, 66) },
    ];
    shapes.into_iter().map(|shape| case(variant, random, &shape, [shape.n.div_ceil(variant.tile[0]), shape.t.div_ceil(variant.tile[1]), 1])).collect()
}

fn case(variant: &'static Variant, random: &mut Random, shape: &Shape, grid: [u32; 3]) -> Case {
    let &Shape { t, k, n, row0, add, small } = shape;
    let kb = k.div_ceil(32);
    let stride = row0 + n + 3;
    let mut buffers = random.weights(variant.axis("weight").unwrap_or_default(), (n * kb) as usize, small);
    buffers.extend(activations(variant.axis("act").unwrap_or_default(), &random.padded(t as usize, k as usize, kb as usize * 32)));
    let y = if add { words(&random.f32s((t * stride) as usize, 1.0)) } else { untouched((t * stride) as usize) };
    buffers.extend([("state", State { rows: t, ..State::default() }.words()), ("y", y)]);
    let mut overrides = vec![("KB", kb), ("N", n), ("ROW0", row0), ("ADD", u32::from(add))];
    if variant.kernel == "matmul" {
        overrides.push(("NSTRIDE", stride));
    }
    Case {
        name: format!("T={t} K={k} N={n} at {row0}{}{}", if add { " add" } else { "" }, if small { " small" } else { "" }),
        overrides: overrides.into_iter().map(|(name, value)| (name, f64::from(value))).collect(),
        grid,
        buffers,
        outputs: vec![("y", F32)],
    }
}
