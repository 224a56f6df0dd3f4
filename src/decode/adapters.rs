//! Adapters in the GPU's memory: plans with adapters beside those without, and the adapter of each row.

use std::rc::Rc;

use bytemuck::{cast_slice, pod_collect_to_vec};
use half::f16;
use indexmap::IndexMap;

use super::session::Session;
use crate::base::numbers::FEW_ROWS;
use crate::blocks::BLOCK;
use crate::error::{Error, Result};
use crate::model::adapter::FittedAdapter;
use crate::plan::{Adapted, Adapters, Lane};
use crate::state::{SequenceId, Voice};
use crate::weights::{Matrix, Sink};

/// The voices of a pass's rows: the adapter's number plus one, or 0 for none, and the scale's bits.
pub(super) type Voices = [[u32; 4]; FEW_ROWS as usize];

/// The adapters of a session.
#[derive(Default)]
pub(super) struct Loaded {
    /// The adapters by number.
    pub adapters: Vec<Rc<FittedAdapter>>,
    /// The adapters' products, by matrices; `None` where there are no adapters.
    pub plan: Option<Adapters>,
}

/// A matrix that adapters add to: the checkpoint's tensors that it is made of, and the tensor of each row.
struct Shape {
    tensors: Vec<String>,
    /// The tensor's number and the row in it, of each row of the matrix.
    rows: Vec<(usize, usize)>,
}

impl Shape {
    fn of(matrix: &Matrix) -> Self {
        let (mut tensors, mut rows): (Vec<String>, _) = (Vec::new(), Vec::with_capacity(matrix.n));
        for slice in matrix.parts.iter().flat_map(|part| &part.slices) {
            let number = tensors.iter().position(|name| *name == slice.tensor).unwrap_or_else(|| {
                tensors.push(slice.tensor.clone());
                tensors.len() - 1
            });
            rows.extend((slice.row0..slice.row0 + slice.rows).map(|row| (number, row)));
        }
        Self { tensors, rows }
    }
}

/// The power of two that makes the largest of `values` a large half, so that small values keep their digits.
fn power(values: &[f32], halves: bool) -> i32 {
    let largest = values.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    if halves && largest > 0.0 { (13 - largest.log2().floor() as i32).clamp(-40, 40) } else { 0 }
}

/// `values` times 2^`power` in the GPU's format.
fn packed(values: &[f32], power: i32, halves: bool) -> Vec<u8> {
    let factor = 2.0_f32.powi(power);
    match halves {
        true => pod_collect_to_vec(
            &values.iter().map(|value| f16::from_f32(value * factor).to_bits()).collect::<Vec<u16>>(),
        ),
        false => cast_slice(values).to_vec(),
    }
}

impl Session {
    /// Replaces the adapters in the GPU's memory. Conversations keep their caches; no work may be in flight.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY` where there is no room: then the earlier adapters are loaded again.
    pub async fn set_adapters(&mut self, adapters: &[Rc<FittedAdapter>]) -> Result<()> {
        let before = std::mem::take(&mut self.adapters.adapters);
        match self.place_adapters(adapters).await {
            Ok(()) => Ok(()),
            Err(e) => {
                // The first error is returned, whether or not the earlier adapters fit again.
                if self.place_adapters(&before).await.is_err() {
                    let _ = self.place_adapters(&[]).await;
                }
                Err(e)
            }
        }
    }

    async fn place_adapters(&mut self, adapters: &[Rc<FittedAdapter>]) -> Result<()> {
        self.forget_adapters();
        let halves = matches!(self.lane(), Lane::Fast | Lane::F16);
        let most = self.gpu.caps().max_binding;
        let mut plan = Adapters { matrices: IndexMap::new(), halves };
        let mut wanted: Vec<(Matrix, Shape, Adapted)> = Vec::new();
        let matrices: Vec<Matrix> = self.model().adaptable_matrices().into_iter().cloned().collect();
        for matrix in matrices {
            let shape = Shape::of(&matrix);
            let ranks = |tensor| {
                adapters.iter().filter_map(move |of| of.tensors.get(tensor)).map(|fitted| fitted.module.rank())
            };
            let Some(rank) = shape.tensors.iter().flat_map(ranks).max() else { continue };
            let columns = rank.next_multiple_of(4);
            let ranks = columns * shape.tensors.len();
            let size = if halves { 2 } else { 4 };
            let sizes = [ranks * matrix.kb() * BLOCK * size, matrix.n * columns * size, matrix.n * 8]
                .map(|bytes| (bytes * adapters.len()) as u64);
            if sizes.iter().any(|bytes| *bytes > most) {
                return Err(Error::out_of_memory(format!(
                    "the adapters of {} are larger than the GPU's binding limit of {most} bytes: unload those that are not needed",
                    matrix.name
                )));
            }
            let [a, b, at] = self.reserve_adapter(&matrix.name, sizes);
            let adapted = Adapted { a, b, at, columns, ranks };
            plan.matrices.insert(matrix.name.clone(), adapted);
            wanted.push((matrix, shape, adapted));
        }
        let plan = (!plan.matrices.is_empty()).then_some(plan);
        self.adopt_adapters(Loaded { adapters: adapters.to_vec(), plan }).await?;
        let upload = self.upload()?;
        for (matrix, shape, adapted) in &wanted {
            for (number, adapter) in adapters.iter().enumerate() {
                write(&upload, (matrix, shape, adapted), number, adapter, halves).await?;
            }
        }
        upload.finish().await?;
        self.test_adapters().await
    }

    /// The row of [`Voices`] of a voice.
    fn voice_row(&self, voice: Option<&Voice>) -> Result<[u32; 4]> {
        let Some(Voice { adapter, scale }) = voice else { return Ok([0; 4]) };
        let number = self.adapters.adapters.iter().position(|of| of.adapter.fingerprint == *adapter);
        let number = number.ok_or_else(|| {
            Error::bad_option("the adapter that this conversation was read with is not loaded: load it again")
        })?;
        Ok([number as u32 + 1, scale.to_bits(), 0, 0])
    }

    /// Sets the adapters of the passes that follow: those of these sequences, row by row, or of one sequence for all
    /// rows.
    pub(super) fn voice_of(&mut self, sequences: &[SequenceId]) -> Result<()> {
        let mut voices: Voices = [[0; 4]; FEW_ROWS as usize];
        for (row, sequence) in voices.iter_mut().zip(sequences) {
            *row = self.voice_row(self.states.voice(*sequence)?)?;
        }
        if let [_] = sequences {
            voices = [voices[0]; FEW_ROWS as usize];
        }
        self.speak(voices)
    }
}

/// Writes an adapter's part of a matrix into the buffers' region of its number.
async fn write(
    sink: &dyn Sink,
    (matrix, shape, adapted): (&Matrix, &Shape, &Adapted),
    number: usize,
    of: &FittedAdapter,
    halves: bool,
) -> Result<()> {
    let Adapted { a, b, at, columns, ranks } = *adapted;
    let (row, n, size) = (matrix.kb() * BLOCK, matrix.n, if halves { 2 } else { 4 });
    let mut places = vec![[0_u32; 2]; n];
    let mut of_b = vec![0.0_f32; n * columns];
    let mut of_a = vec![0_u8; ranks * row * size];
    // One power of two for all of B, which is scaled once.
    let mut factors = vec![0.0_f32; shape.tensors.len()];
    for (tensor, name) in shape.tensors.iter().enumerate() {
        let Some(fitted) = of.tensors.get(name) else { continue };
        let (module, rank) = (&fitted.module, fitted.module.rank());
        let (a, b) = (of.adapter.read(&module.a).await?, of.adapter.read(&module.b).await?);
        let power = power(&a, halves);
        let padded: Vec<f32> = a
            .chunks_exact(matrix.k)
            .flat_map(|values| values.iter().copied().chain(std::iter::repeat_n(0.0, row - matrix.k)))
            .collect();
        of_a[tensor * columns * row * size..][..rank * row * size].copy_from_slice(&packed(&padded, power, halves));
        factors[tensor] = module.factor * 2.0_f32.powi(-power);
        for (i, (_, own)) in shape.rows.iter().enumerate().filter(|(_, (number, _))| *number == tensor) {
            let theirs = fitted.reorder.map_or(*own, |reorder| reorder.row(*own));
            of_b[i * columns..][..rank].copy_from_slice(&b[theirs * rank..][..rank]);
        }
    }
    let power = power(&of_b, halves);
    for (place, (tensor, _)) in places.iter_mut().zip(&shape.rows) {
        *place = [(tensor * columns / 4) as u32, (factors[*tensor] * 2.0_f32.powi(-power)).to_bits()];
    }
    sink.write(a, (number * of_a.len()) as u64, &of_a).await?;
    let of_b = packed(&of_b, power, halves);
    sink.write(b, (number * of_b.len()) as u64, &of_b).await?;
    sink.write(at, (number * n * 8) as u64, cast_slice(&places)).await
}
