//! Measures the throughput of a device's arithmetic by loops in registers, and the cost of a dispatch by empty ones.
//! Features and names do not tell whether int8 products are instructions or emulated; their ratio to other products
//! does, at any clock.

use serde::{Deserialize, Serialize};

use super::commands::Raw;
use super::device::{Gpu, On};
use crate::base::now_ms;
use crate::error::{Error, Result};

/// The measured rates.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Rates {
    /// Products of four int8 each and their sums, 10^9 a second.
    pub dot4: f64,
    /// f32 multiplications and additions, 10^9 a second.
    pub f32: f64,
    /// f16 multiplications and additions, 10^9 a second; 0 where there is no `shader-f16`.
    pub f16: f64,
    /// The time of a dispatch in a pass, microseconds.
    pub dispatch_us: f64,
    /// Invocations of a subgroup, as kernels see them; 0 where there are no subgroups.
    pub subgroup: u32,
}

impl Rates {
    /// The ratio of int8's rate to f32's from which int8 products are certainly instructions: 0.6 on an H100, 0.16
    /// there when emulated by shifts and multiplications.
    const NATIVE: f64 = 0.25;

    /// Whether int8 products are instructions.
    pub fn int8(&self) -> bool {
        self.dot4 >= Self::NATIVE * self.f32
    }

    /// Whether halves are faster than f32.
    pub fn halves(&self) -> bool {
        self.f16 >= 1.5 * self.f32
    }
}

/// Operations of an invocation in each iteration of its loop.
const OPERATIONS: f64 = 16.0;
/// Workgroups, of 256 invocations each.
const GROUPS: u32 = 64;
/// The shortest measurement that counts, ms.
const LEAST_MS: f64 = 4.0;
/// Most iterations: where these take less than `LEAST_MS`, the clock stands still.
const MOST: u32 = 1 << 20;
/// Dispatches whose cost is measured.
const CHAIN: u32 = 64;

/// The arithmetic of a loop.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Dot4,
    F32,
    F16,
}

/// The shader of a loop with four independent chains and `x[0]` iterations.
fn text(kind: Kind) -> String {
    let (enable, one) = match kind {
        Kind::F16 => ("enable f16;", "f16"),
        Kind::Dot4 => ("", "i32"),
        Kind::F32 => ("", "f32"),
    };
    let step = |v: &str| match kind {
        Kind::Dot4 => {
            let dot = |c: &str| format!("dot4I8Packed(bitcast<u32>({v}.{c}), k)");
            format!("{v} += vec4<i32>({}, {}, {}, {});", dot("x"), dot("y"), dot("z"), dot("w"))
        }
        _ => format!("{v} = {v} * f + g;"),
    };
    let chains: String = ["a", "b", "c", "d"].map(step).concat();
    format!(
        "{enable}
@group(0) @binding(0) var<storage, read_write> x: array<i32>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) li: u32) {{
    let turns = u32(x[0]);
    let k = 0x01020304u + li;
    let g = {one}(li & 3u);
    let f = {one}(k & 1u) / {one}(2);
    var a = vec4<{one}>({one}(li), {one}(1), f, g);
    var b = a + a; var c = b + a; var d = c + a;
    for (var i = 0u; i < turns; i++) {{ {chains} }}
    let sum = a + b + c + d;
    if (turns == 0x7fffffffu) {{ x[1] = i32(sum.x + sum.y + sum.z + sum.w); }}
}}
"
    )
}

impl Gpu {
    /// Measures the device's rates; takes 100 to 250 ms.
    ///
    /// # Errors
    /// The device's error where it refuses a kernel.
    pub async fn rates(&self) -> Result<Rates> {
        // The CPU's kernels are int8 wherever weights are.
        let On::Gpu(device, queue) = &self.on else { return Ok(Rates { dot4: 1.0, f32: 1.0, ..Rates::default() }) };
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer("rates", 16, usage)?;
        let Raw::Gpu(x) = buffer.raw() else { return Err(Error::internal("a buffer of another device")) };
        let of = async |kind: Kind| -> Result<f64> {
            let loops = Loops { gpu: self, device, queue, x, pipeline: pipeline(device, &text(kind)) };
            let mut turns = 64;
            loop {
                let ms = loops.shortest(turns, GROUPS, 1).await?;
                if ms >= LEAST_MS || turns >= MOST {
                    return Ok(thousandths(f64::from(turns) * OPERATIONS * f64::from(GROUPS) * 256.0 / ms / 1e6));
                }
                turns *= if ms < LEAST_MS / 8.0 { 8 } else { 2 };
            }
        };
        let f32 = of(Kind::F32).await?;
        let dot4 = of(Kind::Dot4).await?;
        let f16 = if self.caps().f16() { of(Kind::F16).await? } else { 0.0 };
        let empty = Loops { gpu: self, device, queue, x, pipeline: pipeline(device, &text(Kind::F32)) };
        let (one, many) = (empty.shortest(0, 1, 1).await?, empty.shortest(0, 1, 1 + CHAIN).await?);
        self.check()?;
        let dispatch_us = thousandths((many - one).max(0.0) * 1000.0 / f64::from(CHAIN));
        Ok(Rates { dot4, f32, f16, dispatch_us, subgroup: self.caps().subgroup[0] })
    }
}

/// A figure rounded to three decimal places, so that it is equal after it was written and read; no measurement is more
/// exact.
pub fn thousandths(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

fn pipeline(device: &wgpu::Device, text: &str) -> wgpu::ComputePipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("rates"),
        source: wgpu::ShaderSource::Wgsl(text.into()),
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("rates"),
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    })
}

struct Loops<'a> {
    gpu: &'a Gpu,
    device: &'a wgpu::Device,
    queue: &'a wgpu::Queue,
    x: &'a wgpu::Buffer,
    pipeline: wgpu::ComputePipeline,
}

impl Loops<'_> {
    /// The shortest of three times of `dispatches` dispatches in a pass, ms, less [`Gpu::latency_ms`].
    async fn shortest(&self, turns: u32, groups: u32, dispatches: u32) -> Result<f64> {
        self.queue.write_buffer(self.x, 0, &turns.to_le_bytes());
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("rates"),
            layout: &self.pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: self.x.as_entire_binding() }],
        });
        let mut shortest = f64::INFINITY;
        for _ in 0..3 {
            self.gpu.idle().await?;
            let mut encoder =
                self.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("rates") });
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                pass.set_pipeline(&self.pipeline);
                pass.set_bind_group(0, &group, &[]);
                for _ in 0..dispatches {
                    pass.dispatch_workgroups(groups, 1, 1);
                }
            }
            let began = now_ms();
            self.queue.submit([encoder.finish()]);
            self.gpu.idle().await?;
            shortest = shortest.min(now_ms() - began);
        }
        Ok((shortest - self.gpu.latency_ms()).max(1e-3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulated_products_are_told_from_instructions() {
        // An H100 with instructions, and with their emulation on Apple's GPUs.
        let rates = |dot4| Rates { dot4, f32: 100.0, f16: 100.0, ..Rates::default() };
        assert!(rates(60.0).int8() && rates(25.0).int8() && !rates(15.5).int8() && !rates(3.0).int8());
        assert!(!rates(3.0).halves() && Rates { f16: 190.0, ..rates(3.0) }.halves());
    }

    #[test]
    fn a_figure_is_the_same_after_it_was_written_and_read() {
        for of in
            [25.028_043_836_522_738, 13.557_477_728_930_165, 21.456_687_500_176_49, 1e-9, 118_000.123_456_7, 4.0 / 3.0]
        {
            let rates = Rates { f32: thousandths(of), ..Rates::default() };
            let text = serde_json::to_string(&rates).expect("figures");
            assert_eq!(serde_json::from_str::<Rates>(&text).expect("figures"), rates, "{text}");
        }
    }
}
