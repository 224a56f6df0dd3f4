//! Behaviour that no feature and no limit tells: probed when a device is opened.

use futures_channel::oneshot;
use futures_util::future::{Either, select};

use super::device::Gpu;
use crate::error::{Error, Result};

/// Writes the value of each half in `x`, as unpack2x16float gives it.
const HALVES: &str = "
@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@compute @workgroup_size(4)
fn main(@builtin(local_invocation_index) i: u32) {
    x[i] = bitcast<u32>(unpack2x16float(x[i]).x);
}
";
/// The smallest and the largest subnormal half, a negative one, and the scale of a block whose largest value is 0.005.
const SUBNORMALS: [u16; 4] = [0x0001, 0x03ff, 0x8155, 0x0295];

impl Gpu {
    /// Whether `unpack2x16float` keeps subnormal halves; the standard lets a device flush them to zero.
    pub(super) async fn keeps_subnormal_halves(&self) -> Result<bool> {
        let (device, queue) = self.wgpu()?;
        let words = SUBNORMALS.map(u32::from);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let size = size_of_val(&words) as u64;
        let make = |usage| {
            device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("probe"),
                size,
                usage,
                mapped_at_creation: false,
            })
        };
        let (x, staging) = (make(usage), make(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST));
        queue.write_buffer(&x, 0, bytemuck::cast_slice(&words));
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("probe"),
            source: wgpu::ShaderSource::Wgsl(HALVES.into()),
        });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("probe"),
            layout: None,
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("probe"),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: x.as_entire_binding() }],
        });
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("probe") });
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(1, 1, 1);
        }
        encoder.copy_buffer_to_buffer(&x, 0, &staging, 0, size);
        queue.submit([encoder.finish()]);
        let (sender, receiver) = oneshot::channel();
        staging.map_async(wgpu::MapMode::Read, .., move |result| {
            let _ = sender.send(result);
        });
        self.idle().await?;
        if !matches!(select(receiver, self.lost()).await, Either::Left((Ok(Ok(())), _))) {
            return Err(self.failure("the GPU was opened, but nothing can be read from it").await);
        }
        let view = staging.get_mapped_range(..).map_err(|e| Error::gpu(format!("a readback failed: {e}")))?;
        let values: Vec<u32> = bytemuck::pod_collect_to_vec(&view[..]);
        Ok(values.iter().zip(SUBNORMALS).all(|(value, half)| *value == half::f16::from_bits(half).to_f32().to_bits()))
    }
}
