//! Random weights, made on the GPU: for measuring a shape without its file.

use bytemuck::{bytes_of, cast_slice};

use super::session::Session;
use crate::base::numbers::STREAMED;
use crate::blocks::WeightType;
use crate::error::Result;
use crate::kernels::{self, State};
use crate::layout::BufferId;
use crate::plan::Grid;
use crate::weights::VectorPart;

/// Masks of the bits of a `wq` word that are random, and that are set, by weight type: quants may have any bits, floats
/// need an exponent.
const fn numbers(kind: WeightType) -> (u32, u32) {
    match kind {
        WeightType::F32 => (0x807f_ffff, 0x3c00_0000),
        WeightType::F16 => (0x83ff_83ff, 0x2000_2000),
        WeightType::Bf16 => (0x807f_807f, 0x3c00_3c00),
        _ => (u32::MAX, 0),
    }
}

impl Session {
    /// Fills all weights: matrices at random, norms with ones.
    pub async fn randomize(&self) -> Result<()> {
        let mut fills: Vec<(BufferId, (u32, u32))> = Vec::new();
        for part in self.model().matrices().iter().flat_map(|m| &m.parts) {
            fills.push((part.wq, numbers(part.kind)));
            // Random are the lower bits of an exponent, or of a half's fraction.
            let keep = if part.kind.scales() == "e" { 0x0303_0303 } else { 0x03ff_03ff };
            fills.extend(part.ws.map(|ws| (ws, (keep & !part.kind.usual_scales(), part.kind.usual_scales()))));
        }
        let variant = kernels::by_name("random", "default")?;
        let state = self.gpu.buffer_with(
            "random.state",
            bytes_of(&State { rows: 1, ..State::default() }),
            wgpu::BufferUsages::UNIFORM,
        )?;
        for (i, (id, (keep, set))) in fills.into_iter().enumerate() {
            let buffer = self.buffer_of(id);
            let fill = [(i as u32).wrapping_mul(0x0100_0193), keep, set, 0];
            let params = self.gpu.buffer_with("random.params", bytes_of(&fill), wgpu::BufferUsages::UNIFORM)?;
            // Parameters in a uniform, not pipeline constants: one pipeline fills every buffer.
            let bound = self.gpu.bind(
                "random",
                variant,
                &[],
                &[("state", state.clone()), ("params", params), ("words", buffer.clone())],
            )?;
            let mut encoder = self.gpu.encoder("random");
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
                self.gpu.dispatch(
                    &mut pass,
                    &bound,
                    Grid::folded(buffer.bytes().div_ceil(u64::from(variant.workgroup[0] * STREAMED) * 4) as u32).at(1),
                );
            }
            self.gpu.submit(encoder);
        }
        for (id, source) in self.model().vectors() {
            let part = |part: &VectorPart| {
                let of_tensor = |name: &String| f32::from(u8::from(!name.ends_with("bias")));
                vec![part.tensor.as_ref().map_or(part.fill, of_tensor); part.len]
            };
            let values: Vec<f32> = source.parts.iter().flat_map(part).collect();
            self.write_at(*id, 0, cast_slice(&values))?;
        }
        self.gpu.idle().await
    }
}
