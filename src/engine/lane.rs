//! The choice of a lane where the caller gives none: by the rates of the device's arithmetic and the times of a product
//! of the model, measured when it is first loaded.

use super::LoadOptions;
use crate::base::now_ms;
use crate::blocks::WeightType;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu, thousandths};
use crate::kernels::{BindingKind, Caps, State, Variant};
use crate::model::Model;
use crate::plan::tuning::{Known, LaneChoice, LaneTime};
use crate::plan::{Extent, Grid, Lane, Overrides, Selector};

/// A product of lane `f16` must take less than this share of int8's time, since its steps have more dispatches. Those
/// of lane `float` have as many, and it rounds less: there any gain counts.
const MARGIN_F16: f64 = 0.9;
/// Rows of a prompt for each token of an answer, as the weight of prefill against decode.
const PROMPT: f64 = 4.0;
/// Rows of activations in a measured prefill product, enough workgroups for a large GPU, and most rows of weights that
/// are measured.
const ROWS: u32 = 256;
const MOST_ROWS: usize = 4096;
/// The shortest measurement that counts, ms.
const LEAST_MS: f64 = 4.0;

/// The product that is measured for a model: the largest of a layer.
struct Product {
    kind: WeightType,
    k: usize,
    n: usize,
}

impl Product {
    fn of(model: &dyn Model) -> Option<Self> {
        let parts = model
            .matrices()
            .into_iter()
            .filter(|m| m.name.starts_with("blk."))
            .flat_map(|m| m.parts.iter().map(move |part| (m, part)));
        let (matrix, part) = parts.filter(|(_, part)| part.kind.quantized()).max_by_key(|(m, part)| part.rows * m.k)?;
        Some(Self { kind: part.kind, k: matrix.k, n: part.rows.min(MOST_ROWS) })
    }

    /// The key under which the product's choice is kept.
    fn name(&self) -> String {
        format!("{} K={} N={}", self.kind.axis(), self.k, self.n)
    }

    fn kb(&self) -> usize {
        self.k.div_ceil(32)
    }
}

/// The choice without a measurement.
fn unmeasured(caps: &Caps, why: &str) -> LaneChoice {
    if caps.backend == "cpu" {
        return LaneChoice {
            lane: Lane::Fast,
            reason: "the CPU's products are int8".into(),
            rates: None,
            times: Vec::new(),
        };
    }
    let (lane, what) = if caps.vendor.eq_ignore_ascii_case("apple") {
        (Lane::Float, "no Apple GPU has int8 products")
    } else {
        (Lane::Fast, "most GPUs have int8 products")
    };
    LaneChoice { lane, reason: format!("{why}: {what}"), rates: None, times: Vec::new() }
}

/// The choice of an earlier load with this product on this device, or the one without a measurement.
pub(super) fn known(model: &dyn Model, known: &Known, caps: &Caps) -> LaneChoice {
    match Product::of(model) {
        Some(product) => {
            known.lanes.get(&product.name()).cloned().unwrap_or_else(|| unmeasured(caps, "not measured yet"))
        }
        None => LaneChoice {
            lane: Lane::Fast,
            reason: "no product of this model has int8 weights".into(),
            rates: None,
            times: Vec::new(),
        },
    }
}

/// The lane of a model on a device, with the product that was measured. An earlier choice stays, since saved
/// conversations belong to a lane.
pub(super) async fn choose(model: &dyn Model, options: &LoadOptions, gpu: &Gpu) -> Result<(String, LaneChoice)> {
    let caps = gpu.caps();
    let earlier = options.tuning.of(caps);
    let Some(product) = Product::of(model) else { return Ok((String::new(), known(model, &earlier, caps))) };
    let name = product.name();
    if let Some(choice) = earlier.lanes.get(&name) {
        return Ok((name, choice.clone()));
    }
    if !options.self_test.unwrap_or(!caps.software) {
        return Ok((
            name,
            unmeasured(caps, if caps.software { "not measured on a GPU in software" } else { "not measured" }),
        ));
    }
    let measured = measure(&product, gpu).await;
    gpu.check()?;
    // A device that cannot be measured may still compute: the self-test decides.
    let choice = measured.unwrap_or_else(|e| unmeasured(caps, &format!("it could not be measured ({})", e.message())));
    Ok((name, choice))
}

async fn measure(product: &Product, gpu: &Gpu) -> Result<LaneChoice> {
    let rates = gpu.rates().await?;
    let percent = (100.0 * rates.dot4 / rates.f32).round();
    if rates.int8() {
        let reason = format!("int8 products are instructions here: {percent} % of the rate of f32, each for four");
        return Ok(LaneChoice { lane: Lane::Fast, reason, rates: Some(rates), times: Vec::new() });
    }
    let other = if rates.halves() { Lane::F16 } else { Lane::Float };
    let mut times = Vec::new();
    for lane in [Lane::Fast, other] {
        times.push(LaneTime {
            lane,
            decode_us: time(product, gpu, lane, 1).await?,
            prompt_us: time(product, gpu, lane, ROWS).await? / f64::from(ROWS),
        });
    }
    let faster = replaces_int8(&times[1], &times[0]);
    let lane = if faster { other } else { Lane::Fast };
    let reason = format!(
        "int8 products may be emulated here ({percent} % of the rate of f32), and {} of this model {} faster in lane {}",
        product.name(),
        if faster { "is" } else { "is not" },
        other.name()
    );
    Ok(LaneChoice { lane, reason, rates: Some(rates), times })
}

/// Whether products in another lane are so much faster than those of int8 that it is taken.
fn replaces_int8(other: &LaneTime, int8: &LaneTime) -> bool {
    let all = |t: &LaneTime| t.decode_us + PROMPT * t.prompt_us;
    let margin = if other.lane == Lane::F16 { MARGIN_F16 } else { 1.0 };
    all(other) < margin * all(int8)
}

/// Microseconds of a product with `rows` rows of activations.
async fn time(product: &Product, gpu: &Gpu, lane: Lane, rows: u32) -> Result<f64> {
    let select = Selector::new(gpu.caps(), lane, None, &[])?;
    let act = match lane {
        Lane::Fast => "q8",
        Lane::F16 => "f16",
        _ => "f32",
    };
    let mut axes = vec![("weight", product.kind.axis()), ("act", act)];
    let mut overrides: Overrides =
        vec![("KB", product.kb() as f64), ("N", product.n as f64), ("ROW0", 0.0), ("ADD", 0.0)];
    let (variant, grid) = if rows == 1 {
        let variant = select.choose("matvec", &axes)?.variant;
        overrides.push(("SPLIT", 1.0));
        (variant, Grid::folded((product.n as u32).div_ceil(variant.tile[0])))
    } else {
        axes.push(("span", "n64"));
        let variant = select.choose("matmul", &axes)?.variant;
        overrides.push(("NSTRIDE", product.n as f64));
        (
            variant,
            Grid::of(
                Extent::Fixed((product.n as u32).div_ceil(variant.tile[0])),
                Extent::Rows { per: variant.tile[1] },
            ),
        )
    };
    let buffers = buffers(product, gpu, variant, rows)?;
    let bound = gpu.bind("lane", variant, &overrides, &buffers)?;
    let mut dispatches = 1;
    loop {
        let mut shortest = f64::INFINITY;
        for _ in 0..3 {
            let mut encoder = gpu.encoder("lane");
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                for _ in 0..dispatches {
                    gpu.dispatch(&mut pass, &bound, grid.at(rows));
                }
            }
            let began = now_ms();
            gpu.submit(encoder);
            gpu.idle().await?;
            shortest = shortest.min(now_ms() - began);
        }
        let ms = (shortest - gpu.latency_ms()).max(0.0);
        if ms >= LEAST_MS || dispatches >= 4096 {
            return Ok(thousandths(ms * 1000.0 / f64::from(dispatches)));
        }
        dispatches *= if ms < LEAST_MS / 4.0 { 4 } else { 2 };
    }
}

/// The buffers of a product, zeroed.
fn buffers(product: &Product, gpu: &Gpu, variant: &'static Variant, rows: u32) -> Result<Vec<(&'static str, Buffer)>> {
    let blocks = (product.n * product.kb()) as u64;
    let (scales, words) = (product.kind.scale_bytes(blocks), u64::from(rows) * product.kb() as u64);
    let state = State { rows, ..State::default() };
    let of = |binding: &crate::kernels::Binding| {
        let bytes = match binding.name {
            "wq" => product.kind.bytes(blocks) - scales,
            "ws" => scales,
            "y" => u64::from(rows) * product.n as u64 * 4,
            "bias" => product.n as u64 * 4,
            // Activations, in any lane's format.
            _ => words * 128,
        };
        Ok((
            binding.name,
            match binding.kind {
                BindingKind::Uniform => {
                    gpu.buffer_with("lane.state", bytemuck::bytes_of(&state), wgpu::BufferUsages::UNIFORM)?
                }
                _ => gpu.buffer("lane", bytes.next_multiple_of(16), wgpu::BufferUsages::STORAGE)?,
            },
        ))
    };
    variant.bindings.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_float_replaces_int8_where_it_is_faster_and_lane_f16_where_it_is_a_tenth_faster() {
        let of = |lane, decode_us, prompt_us| LaneTime { lane, decode_us, prompt_us };
        let int8 = of(Lane::Fast, 10.0, 2.5);
        // A prompt's rows count four times: 20 us in all.
        for (lane, prompt_us, taken) in
            [(Lane::Float, 2.4, true), (Lane::Float, 2.6, false), (Lane::F16, 1.9, true), (Lane::F16, 2.1, false)]
        {
            assert_eq!(replaces_int8(&of(lane, 10.0, prompt_us), &int8), taken, "{lane:?} {prompt_us}");
        }
        assert!(replaces_int8(&of(Lane::Float, 11.0, 1.5), &int8), "a slower token, a faster prompt");
    }
}
