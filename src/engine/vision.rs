//! The vision encoder of a language model, as a model of its own on the same device, loaded with the first picture.

use std::rc::Rc;

use millrace_picture::{PatchOrder, Picture, patch_order, resize_table};

use super::LoadOptions;
use super::load::{open_device, selector};
use crate::base::options::Options as _;
use crate::base::{Cancel, Phase, Progress};
use crate::decode::{PrefillRow, Session, Tile, TilePatches, TileSizes};
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::gpu::Gpu;
use crate::kernels::Caps;
use crate::layout::Layout;
use crate::model::Reserve;
use crate::model::vision::{Joining, Table, Tower, VisionConfig};
use crate::plan::Lane;
use crate::source::Files;
use crate::state::Embedded;
use crate::weights::Recipe;

/// Patches of a tile of a picture, row by row.
#[derive(Debug, Clone)]
pub struct Patches {
    /// Columns and rows of the grid of patches.
    pub wide: u32,
    pub high: u32,
    pub values: PatchValues,
}

/// What patches are made of.
#[derive(Debug, Clone)]
pub enum PatchValues {
    /// A picture of `wide patch` x `high patch` pixels.
    Pixels(Rc<Picture>),
    /// f32 `[high wide, 3 patch^2]`, each as the tower's file has its weights ([`VisionConfig::by_channel`]).
    Numbers(Vec<f32>),
}

/// Patches that the first buffers have room for: those of 512 x 512 pixels.
const USUAL_PATCHES: u32 = 1024;

/// How a tower's weights are quantized while loading: to 8 bits where the language model's are quantized, which loses
/// nothing against 16.
fn quantized(options: &LoadOptions) -> Option<Recipe> {
    options.quantize.filter(|recipe| *recipe != Recipe::F16).map(|_| Recipe::Q8_0)
}

/// A tower, and a layout of its weights.
pub(super) fn open_tower(checkpoint: &Checkpoint, options: &LoadOptions, caps: &Caps) -> Result<(Tower, Layout)> {
    let mut layout = Layout::default();
    let mut buffer = |label, bytes| layout.weight(label, bytes);
    let mut reserve = Reserve {
        max_binding: caps.max_binding,
        quantize: quantized(options),
        pooling: options.pooling,
        buffer: &mut buffer,
    };
    let tower = Tower::open(checkpoint, &mut reserve)?;
    Ok((tower, layout))
}

/// The rows of a prompt that patches of a grid become.
pub(super) fn rows(vision: &VisionConfig, hash: String, token: u32, grid: [u32; 2]) -> Result<Rc<Embedded>> {
    let [columns, rows] = grid.map(|side| side / vision.merge as u32);
    if vision.grid { Embedded::in_grid(hash, token, columns, rows) } else { Embedded::new(hash, token, columns * rows) }
}

/// A tower on a device, with its weights.
pub struct VisionEncoder {
    session: Session,
    vision: VisionConfig,
    /// Position embeddings, f32 `[rows, columns, D]`.
    table: Vec<f32>,
    /// The last grid, columns and rows, and its patches' position embeddings: all tiles of a picture are alike.
    fitted: Option<([usize; 2], Rc<[f32]>)>,
}

impl VisionEncoder {
    /// Opens the vision tower of these files: a file of llama.cpp's (`mmproj`), or a folder that has it beside the
    /// language model. `on`: the language model's device and lane; otherwise a device is opened.
    ///
    /// # Errors
    /// The errors of [`Tower::open`], and of loading a language model.
    pub async fn load(
        files: &Files,
        options: &LoadOptions,
        on: Option<(Rc<Gpu>, Lane)>,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Self> {
        options.check()?;
        let checkpoint = Checkpoint::open(files).await?;
        let (gpu, lane) = match on {
            Some(on) => on,
            None => (open_device(options, cancel).await?.gpu, options.lane),
        };
        cancel.check()?;
        let (tower, layout) = open_tower(&checkpoint, options, gpu.caps())?;
        let table = tower.positions(&checkpoint).await?;
        let vision = tower.vision.clone();
        let context = vision.tower.context;
        let select = selector(&checkpoint, options, lane, gpu.caps())?;
        progress(Progress::new(Phase::Compile, 0, 1));
        let sizes = Session::sizes_of(USUAL_PATCHES, context, USUAL_PATCHES, 1);
        let mut session = Session::new(gpu, Box::new(tower), layout, select, context, sizes).await?;
        session.warm_up().await?;
        if options.self_test.unwrap_or(!session.gpu().caps().software) {
            let wrong = session.self_test().await?.wrong;
            if let Some((variant, how)) = wrong.first() {
                return Err(Error::gpu(format!(
                    "this GPU or its driver computes pictures wrongly: {variant}: {how}; try lane exact"
                )));
            }
        }
        progress(Progress::new(Phase::Compile, 1, 1));
        super::load::upload(&checkpoint, &session, progress, cancel).await?;
        session.gpu().check()?;
        Ok(Self { session, vision, table, fitted: None })
    }

    /// Whether the encoder is on that device.
    pub(super) fn is_on(&self, gpu: &Rc<Gpu>) -> bool {
        Rc::ptr_eq(self.session.gpu(), gpu)
    }

    /// The configuration: sizes and constants.
    pub fn config(&self) -> &VisionConfig {
        &self.vision
    }

    /// The rows of a tile, without values yet, as [`Embedded::new`].
    pub fn rows(&self, hash: String, token: u32, tile: &Patches) -> Result<Rc<Embedded>> {
        rows(&self.vision, hash, token, [tile.wide, tile.high])
    }

    /// Encodes tiles into rows of a prompt, for each tile f32 `[high wide / merge^2, row]` ([`VisionConfig::row`]).
    ///
    /// # Errors
    /// `BAD_OPTION` for patches that are no whole rows, `ABORTED` between two parts of a tile's pass.
    pub async fn encode(
        &mut self,
        tiles: &[Patches],
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Vec<Rc<[f32]>>> {
        let tiles: Vec<Tile<'_>> = tiles.iter().map(|patches| self.tile(patches)).collect::<Result<_>>()?;
        let vision = &self.vision;
        let merge = vision.merge;
        let sizes = TileSizes {
            pixels: vision.pixels(),
            width: if vision.table == Table::None { 0 } else { vision.tower.width },
            joined: merge * merge,
            row: vision.width,
            deepstack: vision.deepstack.len(),
        };
        let total: usize = tiles.iter().map(|tile| tile.order.len()).sum();
        let mut on_read = |read: usize| progress(Progress::new(Phase::Pictures, read as u64, total as u64));
        self.session.see(&tiles, sizes, &mut on_read, cancel).await
    }

    /// Reads a tile, and measures every kernel of its pass.
    pub async fn profile(&mut self, tile: &Patches) -> Result<Vec<PrefillRow>> {
        self.encode(std::slice::from_ref(tile), &|_| {}, &Cancel::new()).await?;
        let rows = tile.wide * tile.high;
        self.session.profile_prefill(rows, rows).await
    }

    fn tile<'a>(&mut self, patches: &'a Patches) -> Result<Tile<'a>> {
        let merge = self.vision.merge;
        let (wide, high) = (patches.wide as usize, patches.high as usize);
        if wide == 0 || high == 0 || !wide.is_multiple_of(merge) || !high.is_multiple_of(merge) {
            return Err(Error::bad_option(format!("{wide} x {high} patches; both have to be multiples of {merge}")));
        }
        let order = patch_order(patches.wide, patches.high, PatchOrder::Merged(merge as u32))
            .map_err(|e| Error::bad_option(e.to_string()))?;
        let positions = self.positions(wide, high, &order)?;
        let place = |at: usize| [(at / wide) as u32, (at % wide) as u32];
        let n = order.len();
        let raster = (0..n).collect();
        // Where rows of the prompt are means their patches are adjacent from the first layer on: attention depends on
        // positions, not on the order of rows.
        let (rows, joined): (Vec<usize>, Vec<usize>) = match self.vision.joining {
            Joining::Wide | Joining::Interleaved => (raster, order),
            Joining::Mean => (order, raster),
        };
        let values = match &patches.values {
            PatchValues::Pixels(picture) => self.pixels(picture, [wide, high], &rows)?,
            PatchValues::Numbers(values) => TilePatches::Numbers(self.framed(values, [wide, high], &rows)?),
        };
        Ok(Tile {
            patches: values,
            positions,
            order: joined.into_iter().map(|at| at as u32).collect(),
            places: rows.into_iter().map(place).collect(),
        })
    }

    /// A picture's pixels as the tower's patches, in the order of `rows`.
    fn pixels<'a>(&self, picture: &'a Picture, [wide, high]: [usize; 2], rows: &[usize]) -> Result<TilePatches<'a>> {
        let side = self.vision.patch;
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        if [width, height] != [wide * side, high * side] {
            return Err(Error::bad_option(format!(
                "{width} x {height} pixels for {wide} x {high} patches of {side} x {side}"
            )));
        }
        let start = |at: &usize| ((at / wide * side * width + at % wide * side) * 3) as u32;
        Ok(TilePatches::Pixels {
            bytes: picture.pixels(),
            starts: [width as u32 * 3].into_iter().chain(rows.iter().map(start)).collect(),
            numbers: Box::new(self.vision.pictures.normalize().numbers()),
        })
    }

    /// The numbers of patches as the tower reads them, in the order of `rows`.
    fn framed(&self, values: &[f32], [wide, high]: [usize; 2], rows: &[usize]) -> Result<Vec<f32>> {
        let (pixels, frames) = (self.vision.pixels(), self.vision.frames);
        let each = pixels / frames;
        if values.len() != rows.len() * each {
            return Err(Error::bad_option(format!("{} numbers for {wide} x {high} patches of {each}", values.len())));
        }
        let mut out = Vec::with_capacity(rows.len() * pixels);
        // A still picture is a video of equal frames.
        for at in rows {
            for channel in values[at * each..][..each].chunks_exact(self.vision.patch.pow(2)) {
                (0..frames).for_each(|_| out.extend_from_slice(channel));
            }
        }
        Ok(out)
    }

    /// The position embedding of each patch of a grid, in the order in which the tower reads them; nothing where there
    /// are none.
    fn positions(&mut self, wide: usize, high: usize, order: &[usize]) -> Result<Rc<[f32]>> {
        if let Some((_, fitted)) = self.fitted.as_ref().filter(|(grid, _)| *grid == [wide, high]) {
            return Ok(fitted.clone());
        }
        let VisionConfig { positions: [rows, columns], ref tower, table, .. } = self.vision;
        let made = match table {
            Table::Resized(how) => resize_table(&self.table, rows, columns, tower.width, high, wide, how)
                .map_err(|e| Error::bad_option(e.to_string()))?,
            Table::Added | Table::Paired => self.sums(wide, high)?,
            Table::None => Vec::new(),
        };
        let made: Rc<[f32]> = match self.vision.joining {
            Joining::Mean if !made.is_empty() => {
                order.iter().map(|at| &made[at * tower.width..][..tower.width]).collect::<Vec<_>>().concat().into()
            }
            _ => made.into(),
        };
        self.fitted = Some(([wide, high], made.clone()));
        Ok(made)
    }

    /// The sums of columns' and rows' position embeddings, patch by patch.
    fn sums(&self, wide: usize, high: usize) -> Result<Vec<f32>> {
        let columns = self.vision.columns();
        if wide.max(high) > columns {
            return Err(Error::bad_option(format!(
                "{wide} x {high} patches; what reads pictures has positions for {columns} of a row or a column"
            )));
        }
        let width = self.vision.tower.width;
        let (of_columns, of_rows) = self.table.split_at(columns * width);
        let row = |row: &[f32]| {
            of_columns
                .chunks_exact(width)
                .take(wide)
                .flat_map(|column| column.iter().zip(row).map(|(x, y)| x + y))
                .collect::<Vec<_>>()
        };
        Ok(of_rows.chunks_exact(width).take(high).flat_map(row).collect())
    }
}
