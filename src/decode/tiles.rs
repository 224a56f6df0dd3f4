//! Encoding of pictures, a pass for each tile: from patches to the rows that take the place of tokens in a prompt.

use std::borrow::Cow;
use std::rc::Rc;

use bytemuck::{bytes_of, cast_slice};

use super::prefill::Fence;
use super::program::Encoded;
use super::session::Session;
use crate::base::{Cancel, now_ms};
use crate::error::{Error, Result};
use crate::gpu::{Buffer, Pending};
use crate::kernels::State;
use crate::layout::{Control, Scratch, stride};
use crate::plan::{Pass, Stage};

/// A tile of a picture as the input of a vision tower.
#[derive(Debug, Clone)]
pub struct Tile<'a> {
    pub patches: TilePatches<'a>,
    /// Position embeddings of the patches, f32 `[patches, D]`, where there are such.
    pub positions: Rc<[f32]>,
    /// The patches' indices in the order of merging, so that patches of one row are consecutive; identity where rows
    /// are means of patches that are consecutive already.
    pub order: Vec<u32>,
    /// Each patch's row and column, for towers with rotations by axes.
    pub places: Vec<[u32; 2]>,
}

/// What a tile's patches are made of.
#[derive(Debug, Clone)]
pub enum TilePatches<'a> {
    /// Numbers, f32 `[patches, P]`.
    Numbers(Vec<f32>),
    /// Pixels, bytes `[height, width, 3]`, which become numbers on the GPU.
    Pixels {
        bytes: &'a [u8],
        /// Bytes between two rows of pixels, then the byte at which each patch begins: u32 `[1 + patches]`.
        starts: Vec<u32>,
        /// What becomes of each byte of each channel.
        numbers: Box<[[f32; 256]; 3]>,
    },
}

impl TilePatches<'_> {
    /// Whether these are `n` patches of `pixels` numbers.
    fn fits(&self, n: usize, pixels: usize) -> bool {
        match self {
            Self::Numbers(numbers) => numbers.len() == n * pixels,
            Self::Pixels { bytes, starts, .. } => {
                starts.len() == 1 + n && starts[1..].iter().all(|at| (*at as usize) < bytes.len())
            }
        }
    }
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

/// How long a part of a tile's pass takes at most, ms: so late an abort takes effect.
const PART_MS: f64 = 50.0;
/// Parts of a pass whose time is not known yet.
const FIRST_PARTS: usize = 4;

/// A tile whose last part runs.
struct Running {
    /// Number of the buffer that its rows are read back through, and their bytes.
    place: usize,
    bytes: u64,
    patches: usize,
    pending: Pending,
}

impl Session {
    /// Encodes tiles with this session's tower, each to f32 `[patches / joined, (1 + deepstack) row]`. `on_read` is called
    /// with the number of patches that are done, between two parts of a tile's pass too.
    ///
    /// # Errors
    /// `BAD_OPTION` for a tile that does not fit these sizes or has more patches than a pass has rows, `ABORTED`
    /// between two parts of a tile's pass.
    pub async fn see(
        &mut self,
        tiles: &[Tile<'_>],
        sizes: TileSizes,
        on_read: &mut dyn FnMut(usize),
        cancel: &Cancel,
    ) -> Result<Vec<Rc<[f32]>>> {
        let TileSizes { pixels, width, joined, row, deepstack } = sizes;
        for (i, tile) in tiles.iter().enumerate() {
            let Tile { patches, positions, order, places } = tile;
            let n = order.len();
            let fits = n > 0
                && n.is_multiple_of(joined)
                && patches.fits(n, pixels)
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
        let bytes = |tile: &Tile<'_>| ((1 + deepstack) * (tile.order.len() / joined) * stride(row) * 4) as u64;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let most = tiles.iter().map(bytes).max().unwrap_or(4);
        let place = || self.gpu.buffer("rows", most, usage);
        let places = [place()?, place()?];
        let mut found = Vec::with_capacity(tiles.len());
        // Only one tile runs while the next is written, so that cancellation takes effect soon.
        let mut running: Option<Running> = None;
        let (mut read, mut since, mut told) = (0, now_ms(), 0);
        // Reports never fall.
        let mut tell = |done: usize| {
            if done > told {
                told = done;
                on_read(done);
            }
        };
        for (i, tile) in tiles.iter().enumerate() {
            cancel.check()?;
            self.place(tile, width)?;
            let patches = tile.order.len();
            self.put_tile(slot, tile, sizes)?;
            let to = (&places[i % 2], bytes(tile));
            let pending = self.run_tile(tile, sizes, to, &mut |done| tell(read + done), cancel).await?;
            if let Some(earlier) = running.replace(Running { place: i % 2, bytes: bytes(tile), patches, pending }) {
                found.push(self.rows_of(earlier, &places, sizes, &mut since).await?);
                tell(read);
            }
            read += patches;
        }
        if let Some(last) = running {
            found.push(self.rows_of(last, &places, sizes, &mut since).await?);
        }
        tell(read);
        cancel.check()?;
        Ok(found)
    }

    /// Uploads a tile's position embeddings, unless the GPU has them: tiles of one grid share theirs, and so do pictures
    /// of one size.
    fn place(&mut self, tile: &Tile<'_>, width: usize) -> Result<()> {
        let here = (self.edition(), tile.positions.clone());
        let same = |placed: &(u32, Rc<[f32]>)| placed.0 == here.0 && Rc::ptr_eq(&placed.1, &here.1);
        if width == 0 || self.placed.as_ref().is_some_and(same) {
            return Ok(());
        }
        self.put(Control::PatchPositions, cast_slice(&padded(&tile.positions, width)))?;
        self.placed = Some(here);
        Ok(())
    }

    /// Uploads a tile's patches, or the pixels of which [`Stage::Pixels`] makes them.
    fn put_patches(&self, patches: &TilePatches<'_>, pixels: usize) -> Result<()> {
        match patches {
            TilePatches::Numbers(numbers) => self.put(Control::Patches, cast_slice(&padded(numbers, pixels))),
            TilePatches::Pixels { bytes, starts, numbers } => {
                let (words, rest) = bytes.split_at(bytes.len() / 4 * 4);
                self.put(Control::Pixels, words)?;
                if !rest.is_empty() {
                    let mut word = [0; 4];
                    word[..rest.len()].copy_from_slice(rest);
                    self.write_at(self.id_of(Control::Pixels)?, words.len() as u64, &word)?;
                }
                self.put(Control::PatchStarts, cast_slice(starts))?;
                self.put(Control::PixelNumbers, cast_slice(numbers.as_flattened()))
            }
        }
    }

    /// Writes a tile's input.
    fn put_tile(&self, slot: u32, tile: &Tile<'_>, TileSizes { pixels, joined, .. }: TileSizes) -> Result<()> {
        let n = tile.order.len();
        let state = |rows: usize| State { rows: rows as u32, slot, ..State::default() };
        self.put(Control::Prefill, bytes_of(&state(n)))?;
        self.put(Control::Last, bytes_of(&state(n / joined)))?;
        self.put(Control::Spans, cast_slice(&vec![[0, n as u32]; n]))?;
        self.put_patches(&tile.patches, pixels)?;
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
        Ok(())
    }

    /// Submits a tile's pass in parts of some layers, each of which is waited for while the next one runs, but for the
    /// last; `on_read` is called with the part of its patches that the others stand for.
    async fn run_tile(
        &self,
        tile: &Tile<'_>,
        TileSizes { joined, deepstack, .. }: TileSizes,
        (to, bytes): (&Buffer, u64),
        on_read: &mut dyn FnMut(usize),
        cancel: &Cancel,
    ) -> Result<Pending> {
        let (n, layers) = (tile.order.len(), self.model().config().layers.len());
        let parts = self.ms_a_patch.map_or(FIRST_PARTS, |ms| (ms * n as f64 / PART_MS).ceil() as usize);
        let parts = parts.clamp(1, layers.max(1));
        let part_of = |stage: Stage| match stage {
            Stage::Layer(i) => i * parts / layers,
            Stage::Head => parts - 1,
            _ => 0,
        };
        let made = matches!(tile.patches, TilePatches::Numbers(_));
        let steps = |part: usize| {
            let steps = self.steps(Pass::Prefill).iter().filter(move |step| part_of(step.stage) == part);
            steps.filter(move |step| step.stage <= Stage::Head && !(made && step.stage == Stage::Pixels))
        };
        let mut running: Option<Fence> = None;
        for part in 0..parts - 1 {
            let mut encoder = self.gpu.encoder("part of a tile");
            self.record_steps(&mut encoder, steps(part), n as u32);
            let fence = self.submit_with_fence(encoder, part)?;
            if let Some(earlier) = running.replace(fence) {
                self.passed(earlier).await?;
                on_read(n * part / parts);
            }
            if let Err(cancelled) = cancel.check() {
                if let Some(last) = running {
                    self.passed(last).await?;
                }
                return Err(cancelled);
            }
        }
        let mut encoder = self.gpu.encoder("tile");
        let is_head = |step: &&Encoded| step.stage == Stage::Head;
        self.record_steps(&mut encoder, steps(parts - 1).filter(|step| !is_head(step)), n as u32);
        self.record_steps(&mut encoder, steps(parts - 1).filter(is_head), (n / joined) as u32);
        let each = bytes / (1 + deepstack as u64);
        for (i, from) in [Scratch::Pooled].into_iter().chain((0..deepstack).map(Scratch::Deepstack)).enumerate() {
            encoder.copy_buffer_to_buffer(self.buffer(from)?.raw(), 0, to.raw(), i as u64 * each, each);
        }
        let submission = self.gpu.submit(encoder);
        let pending = self.gpu.map(to, bytes, submission);
        if let Some(earlier) = running {
            self.passed(earlier).await?;
            on_read(n * (parts - 1) / parts);
        }
        Ok(pending)
    }

    /// A tile's rows, once they are there. `since`: when it began to run, or the tile before it ended.
    async fn rows_of(
        &mut self,
        Running { place, bytes, patches, pending }: Running,
        places: &[Buffer; 2],
        sizes: TileSizes,
        since: &mut f64,
    ) -> Result<Rc<[f32]>> {
        let bytes = self.gpu.take(&places[place], bytes, pending).await?;
        let began = std::mem::replace(since, now_ms());
        self.ms_a_patch = Some((*since - began) / patches as f64);
        let numbers = cast_slice::<u8, f32>(&bytes);
        let TileSizes { row, deepstack, .. } = sizes;
        if deepstack == 0 && stride(row) == row {
            return Ok(numbers.into());
        }
        let padded: Vec<&[f32]> = numbers.chunks_exact(stride(row)).collect();
        let rows = padded.len() / (1 + deepstack);
        let order = (0..rows).flat_map(|i| (0..=deepstack).map(move |table| i + table * rows));
        Ok(order.map(|at| &padded[at][..row]).collect::<Vec<_>>().concat().into())
    }
}

/// Rows of `width` numbers, padded to the GPU's stride.
pub(super) fn padded(values: &[f32], width: usize) -> Cow<'_, [f32]> {
    if stride(width) == width {
        return values.into();
    }
    let zeros = vec![0.0; stride(width) - width];
    values.chunks_exact(width).flat_map(|row| row.iter().chain(&zeros)).copied().collect::<Vec<_>>().into()
}
