//! Encoding of pictures, a pass for each tile: from patches to the rows that take the place of tokens in a prompt.

use std::rc::Rc;

use bytemuck::{bytes_of, cast_slice};

use super::session::Session;
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Pending};
use crate::kernels::State;
use crate::layout::{Control, Scratch, stride};
use crate::plan::{Pass, Stage};

/// A tile of a picture as the input of a vision tower.
#[derive(Debug, Clone)]
pub struct Tile {
    /// f32 `[patches, P]`.
    pub patches: Vec<f32>,
    /// Position embeddings of the patches, f32 `[patches, D]`, where there are such.
    pub positions: Rc<[f32]>,
    /// The patches' indices in the order of merging, so that patches of one row are consecutive; identity where rows
    /// are means of patches that are consecutive already.
    pub order: Vec<u32>,
    /// Each patch's row and column, for towers with rotations by axes.
    pub places: Vec<[u32; 2]>,
}

/// Sizes of a tower's passes.
#[derive(Debug, Clone, Copy)]
pub struct TileSizes {
    /// Numbers of a patch, P.
    pub pixels: usize,
    /// The tower's width, D; 0 where patches have no position embeddings.
    pub width: usize,
    /// Patches that are joined into a row.
    pub joined: usize,
    /// Numbers of a row, without those of further projectors.
    pub row: usize,
    /// Number of further projectors, at middle layers, each of which adds `row` numbers to a row.
    pub deepstack: usize,
}

impl Session {
    /// Encodes tiles with this session's tower, each to f32 `[patches / joined, (1 + deepstack) row]`.
    ///
    /// # Errors
    /// `BAD_OPTION` for a tile that does not fit these sizes or has more patches than a pass has rows, `ABORTED`
    /// between two tiles.
    pub async fn see(&mut self, tiles: &[Tile], sizes: TileSizes, cancel: &Cancel) -> Result<Vec<Vec<f32>>> {
        let TileSizes { pixels, width, joined, row, deepstack } = sizes;
        for (i, tile) in tiles.iter().enumerate() {
            let Tile { patches, positions, order, places } = tile;
            let n = order.len();
            let fits = n > 0
                && n.is_multiple_of(joined)
                && patches.len() == n * pixels
                && positions.len() == n * width
                && places.len() == n;
            if !fits || order.iter().any(|at| *at as usize >= n) {
                return Err(Error::bad_option(format!(
                    "tile {i} does not have {n} patches of {pixels} numbers with positions of {width}, {joined} to a row"
                )));
            }
            if n > self.context() as usize {
                return Err(Error::bad_option(format!(
                    "tile {i} has {n} patches; a tile has at most {}",
                    self.context()
                )));
            }
        }
        let longest = tiles.iter().map(|tile| tile.order.len()).max().unwrap_or(0) as u32;
        self.ensure(longest).await?;
        if longest > self.sizes().rows {
            self.widen(longest).await?;
        }
        self.must_have(Pass::Prefill)?;
        let slot = self.states.vacate()? as u32;
        let bytes = |tile: &Tile| ((1 + deepstack) * (tile.order.len() / joined) * stride(row) * 4) as u64;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let most = tiles.iter().map(bytes).max().unwrap_or(4);
        let place = || self.gpu.buffer("rows", most, usage);
        let places = [place()?, place()?];
        let mut found = Vec::with_capacity(tiles.len());
        // Only one tile runs while the next is written, so that cancellation takes effect soon.
        let mut running: Option<(usize, u64, Pending)> = None;
        for (i, tile) in tiles.iter().enumerate() {
            cancel.check()?;
            // Tiles of one grid have the same position embeddings, and so have pictures of one size.
            let placed = self
                .placed
                .take()
                .filter(|placed| placed.0 == self.edition() && Rc::ptr_eq(&placed.1, &tile.positions));
            let pending = self.record_tile(slot, tile, sizes, placed.is_some(), (&places[i % 2], bytes(tile)))?;
            self.placed = Some((self.edition(), tile.positions.clone()));
            if let Some(earlier) = running.replace((i % 2, bytes(tile), pending)) {
                found.push(self.rows_of(earlier, &places, sizes).await?);
            }
        }
        if let Some(last) = running {
            found.push(self.rows_of(last, &places, sizes).await?);
        }
        cancel.check()?;
        Ok(found)
    }

    fn record_tile(
        &self,
        slot: u32,
        tile: &Tile,
        TileSizes { pixels, width, joined, deepstack, .. }: TileSizes,
        placed: bool,
        (to, bytes): (&Buffer, u64),
    ) -> Result<Pending> {
        let n = tile.order.len();
        let state = |rows: usize| State { rows: rows as u32, slot, ..State::default() };
        self.put(Control::Prefill, bytes_of(&state(n)))?;
        self.put(Control::Last, bytes_of(&state(n / joined)))?;
        self.put(Control::Spans, cast_slice(&vec![[0, n as u32]; n]))?;
        self.put(Control::Patches, cast_slice(&padded(&tile.patches, pixels)))?;
        if width > 0 && !placed {
            self.put(Control::PatchPositions, cast_slice(&padded(&tile.positions, width)))?;
        }
        if self.layout().find(&Control::PatchOrder.into()).is_some() {
            self.put(Control::PatchOrder, cast_slice(&tile.order))?;
        } else {
            let taken: Vec<[u32; 2]> =
                (0..n / joined).map(|row| [row, row + 1].map(|row| (row * joined) as u32)).collect();
            self.put(Control::Taken, cast_slice(&taken))?;
        }
        if self.layout().find(&Control::Axes.into()).is_some() {
            let axes: Vec<[u32; 4]> = tile.places.iter().map(|[row, column]| [0, *row, *column, 0]).collect();
            self.put(Control::Axes, cast_slice(&axes))?;
        }
        let mut encoder = self.gpu.encoder("tile");
        let steps = || self.steps(Pass::Prefill).iter();
        self.record_steps(&mut encoder, steps().filter(|step| step.stage < Stage::Head), n as u32);
        self.record_steps(&mut encoder, steps().filter(|step| step.stage == Stage::Head), (n / joined) as u32);
        let each = bytes / (1 + deepstack as u64);
        for (i, from) in [Scratch::Pooled].into_iter().chain((0..deepstack).map(Scratch::Deepstack)).enumerate() {
            encoder.copy_buffer_to_buffer(self.buffer(from)?.raw(), 0, to.raw(), i as u64 * each, each);
        }
        let submission = self.gpu.submit(encoder);
        Ok(self.gpu.map(to, bytes, submission))
    }

    async fn rows_of(
        &self,
        (place, bytes, pending): (usize, u64, Pending),
        places: &[Buffer; 2],
        sizes: TileSizes,
    ) -> Result<Vec<f32>> {
        let bytes = self.gpu.take(&places[place], bytes, pending).await?;
        let TileSizes { row, deepstack, .. } = sizes;
        let padded: Vec<&[f32]> = cast_slice::<u8, f32>(&bytes).chunks_exact(stride(row)).collect();
        let rows = padded.len() / (1 + deepstack);
        let order = (0..rows).flat_map(|i| (0..=deepstack).map(move |table| i + table * rows));
        Ok(order.map(|at| &padded[at][..row]).collect::<Vec<_>>().concat())
    }
}

/// Rows of `width` numbers, padded to the GPU's stride.
pub(super) fn padded(values: &[f32], width: usize) -> std::borrow::Cow<'_, [f32]> {
    if stride(width) == width {
        return values.into();
    }
    let zeros = vec![0.0; stride(width) - width];
    values.chunks_exact(width).flat_map(|row| row.iter().chain(&zeros)).copied().collect::<Vec<_>>().into()
}
