//! Random weights, made on the GPU: for measuring a shape without its file.

use bytemuck::{bytes_of, cast_slice};

use super::session::Session;
use crate::base::numbers::STREAMED;
use crate::blocks::WeightType;
use crate::error::{Error, Result};
use crate::kernels::{self, State};
use crate::layout::BufferId;
use crate::plan::Grid;
use crate::weights::{Matrix, Part, VectorPart};

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

/// The same of a `ws` word. Random are the lower bits of an exponent, or of a fraction: of an f32's, seven are in the
/// upper half.
fn scales(kind: WeightType) -> (u32, u32) {
    let keep = match kind.scales() {
        "e" => 0x0303_0303,
        scales if scales.contains('f') => 0x007f_03ff,
        _ => 0x03ff_03ff,
    };
    (keep & !kind.usual_scales(), kind.usual_scales())
}

impl Session {
    /// Fills all weights: matrices at random, norms with ones.
    pub async fn randomize(&self) -> Result<()> {
        let mut fills: Vec<(BufferId, (u32, u32))> = Vec::new();
        for part in self.model().matrices().iter().flat_map(|m| &m.parts) {
            fills.push((part.wq, numbers(part.kind)));
            fills.extend(part.ws.map(|ws| (ws, scales(part.kind))));
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

    /// Has each first token of `pairs` be followed by the second, whatever stands before it: the layers add nothing to
    /// an embedding, and the head's row of the second is the embedding of the first. For weights of
    /// [`Session::randomize`].
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where the head is the embedding, has rows of another type, or rows' scales are no whole words.
    pub async fn plant(&self, pairs: &[(u32, u32)]) -> Result<()> {
        let all = self.model().matrices();
        let table = |matrix: &&Matrix| ["token_embd", "output"].contains(&matrix.name.as_str());
        let named = |name: &str| all.iter().copied().find(|matrix| matrix.name == name);
        let (Some(embedding), Some(head)) = (named("token_embd"), named("output")) else {
            return Err(Error::unsupported("a planted text: this model's head is its embedding"));
        };
        let mut encoder = self.gpu.encoder("plant");
        for part in all.iter().filter(|matrix| !table(matrix)).flat_map(|matrix| &matrix.parts) {
            for id in [Some(part.wq), part.ws].into_iter().flatten() {
                encoder.clear_buffer(self.buffer_of(id).raw(), 0, None);
            }
        }
        let kb = head.kb() as u64;
        let row = |matrix: &Matrix, token: u32| -> Result<(Part, u64)> {
            let of = |part: &&Part| (part.row0..part.row0 + part.rows).contains(&(token as usize));
            let part = matrix.parts.iter().find(of).ok_or_else(|| Error::internal(format!("no token {token}")))?;
            Ok((part.clone(), (token as usize - part.row0) as u64))
        };
        for (before, after) in pairs {
            let ((from, i), (to, j)) = (row(embedding, *before)?, row(head, *after)?);
            if from.kind != to.kind {
                return Err(Error::unsupported("a planted text: the head has other types than the embedding"));
            }
            if from.kind.scale_len(kb) != from.kind.scale_bytes(kb) {
                return Err(Error::unsupported("a planted text: the scales of the head's rows are no whole words"));
            }
            let scales = from.ws.zip(to.ws).map(|(a, b)| (a, b, from.kind.scale_bytes(kb)));
            let quants = (from.wq, to.wq, kb * from.kind.quant_words() as u64 * 4);
            for (a, b, bytes) in [Some(quants), scales].into_iter().flatten() {
                let (a, b) = (self.buffer_of(a).raw(), self.buffer_of(b).raw());
                encoder.copy_buffer_to_buffer(a, i * bytes, b, j * bytes, bytes);
            }
        }
        self.gpu.submit(encoder);
        self.gpu.idle().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::BLOCK;
    use crate::blocks::decode::decode_block;

    #[test]
    fn random_weights_of_every_type_are_a_few_hundredths() {
        // Xorshift: which bits they are makes no difference to their size.
        let mut state = 0x9e37_79b9_u32;
        let mut words = |n: usize, (keep, set): (u32, u32)| -> Vec<u32> {
            let mut next = || {
                state ^= state << 13;
                state ^= state >> 17;
                state ^= state << 5;
                state & keep | set
            };
            (0..n).map(|_| next()).collect()
        };
        let mut sizes = Vec::new();
        for kind in WeightType::ALL.iter().copied() {
            let blocks = 64 * kind.group().max(BLOCK) / BLOCK;
            let wq = words(blocks * kind.quant_words(), numbers(kind));
            let ws = words((kind.scale_bytes(blocks as u64) as usize).div_ceil(4) + 1, scales(kind));
            let weights: Vec<f32> = (0..blocks).flat_map(|b| decode_block(kind.axis(), &wq, &ws, b)).collect();
            let squares: f64 = weights.iter().map(|w| f64::from(*w).powi(2)).sum();
            let size = (squares / weights.len() as f64).sqrt();
            sizes.push((kind.axis(), size));
        }
        assert!(sizes.iter().all(|(_, size)| (0.005..0.15).contains(size)), "{sizes:?}");
    }
}
