//! Pictures in requests: their rows in a prompt, and the vision encoder, which is loaded when the first picture has to
//! be encoded.

use std::collections::VecDeque;
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use millrace_picture::{Crop, Cut, Picture};
use sha2::{Digest, Sha256};

use super::vision::{self, PatchValues, Patches, VisionEncoder};
use super::{Engine, LoadOptions};
use crate::base::{Cancel, Progress, hex};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Checkpoint;
use crate::gpu::Gpu;
use crate::model::vision::{VisionConfig, read as read_vision, within};
use crate::model::{ModelConfig, PictureAttention};
use crate::plan::Lane;
use crate::source::{Files, projector_of};
use crate::state::{Embedded, Input, SequenceId};
use crate::text::Tokenizer;

/// A model's vision configuration: `None` where it has no tower, an error where this version does not support it.
pub(super) type Seen = Rc<Result<Option<Sight>>>;

/// The vision configuration, where there is one.
///
/// # Errors
/// `UNSUPPORTED_MODEL` where the model does not read pictures.
pub(super) fn usable_sight(sight: &Seen) -> Result<&Sight> {
    match &**sight {
        Ok(Some(sight)) => Ok(sight),
        Ok(None) => Err(Error::unsupported(
            "this model does not read pictures: load one that does; of GGUF models what reads pictures is a file of its own (mmproj) beside the model's",
        )),
        Err(e) => Err(Error::new(e.kind(), e.message())),
    }
}

/// A model's vision configuration, from its files.
pub(super) struct Sight {
    /// The files with the vision tower.
    files: Files,
    vision: VisionConfig,
    /// The token that stands for each row of a picture.
    row: u32,
    /// The encoder's fingerprint, which tells its rows from those of another.
    encoder: String,
}

/// A model's vision tower, by the headers of its files alone.
pub(super) struct Found {
    files: Files,
    /// The tower's own checkpoint, where it has a file of its own.
    beside: Option<Checkpoint>,
    vision: VisionConfig,
    /// The token that stands for each row of a picture.
    row: u32,
}

impl Found {
    /// The vision tower of the model of these files; `None` where there is none. `config`: the model's configuration,
    /// where it is known.
    ///
    /// # Errors
    /// `UNSUPPORTED_MODEL` where this version does not support the tower, `BAD_MODEL` where it is for another model.
    pub async fn of(
        files: &Files,
        checkpoint: &Checkpoint,
        config: Option<&ModelConfig>,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Self>> {
        let (files, beside) = match projector_of(files) {
            Some(files) => {
                let beside = Checkpoint::open(&files).await?;
                (files, Some(beside))
            }
            None if within(checkpoint) => (files.clone(), None),
            None => return Ok(None),
        };
        let from = beside.as_ref().unwrap_or(checkpoint);
        let mut vision = read_vision(from)?;
        if let Some(width) = config.map(|config| config.width).filter(|width| *width != vision.width) {
            return Err(Error::bad_model(format!(
                "what reads pictures makes rows of {}, but the model is {width} wide: its file is another model's",
                vision.width
            )));
        }
        if let Some(deepstack) =
            config.map(|config| config.deepstack).filter(|deepstack| *deepstack != vision.deepstack.len())
        {
            let made = vision.deepstack.len();
            return Err(Error::bad_model(format!(
                "what reads pictures gives features to {made} layers, but {deepstack} of the model's take some: its file is another's"
            )));
        }
        let words = &mut vision.words;
        let stands = words.row;
        words.row = [Some(stands), words.otherwise]
            .into_iter()
            .flatten()
            .find(|word| tokenizer.token_id(word).is_some())
            .unwrap_or(stands);
        let row = tokenizer.token_id(words.row).ok_or_else(|| {
            Error::bad_model(format!("the tokenizer has no token {stands}, which stands for pictures"))
        })?;
        Ok(Some(Self { files, beside, vision, row }))
    }

    /// The checkpoint with the tower: the model's where it has none of its own.
    pub fn checkpoint<'a>(&'a self, model: &'a Checkpoint) -> &'a Checkpoint {
        self.beside.as_ref().unwrap_or(model)
    }
}

impl Sight {
    /// The vision configuration of the model of these files, with the errors of [`Found::of`].
    pub async fn of(
        files: &Files,
        checkpoint: &Checkpoint,
        config: Option<&ModelConfig>,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Self>> {
        let Some(found) = Found::of(files, checkpoint, config, tokenizer).await? else { return Ok(None) };
        let encoder = found.checkpoint(checkpoint).fingerprint().await?;
        let Found { files, vision, row, .. } = found;
        Ok(Some(Self { files, vision, row, encoder }))
    }

    /// A short description.
    pub fn about(&self) -> String {
        let of = |side: u32| self.cut(side, side).map_or(0, |cut| cut.prompt_rows());
        let (small, large) = (of(512), of(1024));
        let VisionConfig { tower, patch, .. } = &self.vision;
        let layers =
            if tower.layers.is_empty() { "one product".into() } else { format!("{} layers", tower.layers.len()) };
        let kind = format!("{layers} of {}, patches of {patch} pixels", tower.width);
        format!("{kind}: 512 x 512 pixels are {small} rows of a prompt, 1024 x 1024 {large}")
    }

    /// How rows of one picture attend to each other, where the language model's own file does not say.
    pub fn picture_attention(&self) -> Option<PictureAttention> {
        self.vision.picture_attention
    }

    /// How a picture of that size is cut.
    pub fn cut(&self, width: u32, height: u32) -> Result<Cut> {
        self.vision.pictures.cut(width, height).map_err(|e| wrong(&e))
    }

    /// The names of the tokens that stand for a picture, each tile's rows as one.
    pub fn words(&self, cut: &Cut) -> String {
        self.vision.words.of(cut)
    }

    /// The text that the chat template prints for a picture part, where it has to see such parts.
    pub fn printed(&self) -> Option<&'static str> {
        self.vision.words.printed
    }

    /// Pictures with their cuts, and the rows of each crop, without values yet.
    pub fn show(&self, pictures: &[Rc<Picture>]) -> Result<Vec<Shown>> {
        let each = pictures.iter().enumerate().map(|(i, picture)| {
            let cut = self.cut(picture.width(), picture.height()).map_err(|e| e.at(format!("picture {i}")))?;
            let mut hash = Sha256::new();
            hash.update(format!(
                "{} {:?} {} {}\n",
                self.encoder,
                self.vision.pictures,
                picture.width(),
                picture.height()
            ));
            match picture.key() {
                Some(key) => hash.update(key),
                None => hash.update(picture.pixels()),
            }
            let hash = hex(&hash.finalize());
            let rows =
                cut.crops.iter().enumerate().map(|(crop, of)| {
                    vision::rows(&self.vision, format!("{hash}.{crop}"), self.row, [of.wide, of.high])
                });
            Ok(Shown { rows: rows.collect::<Result<_>>()?, picture: picture.clone(), cut })
        });
        each.collect()
    }

    /// The prompt with rows in place of their placeholder tokens.
    ///
    /// # Errors
    /// `BAD_OPTION` where messages spell the placeholder token with `specialTokens: 'parse'`.
    pub fn expand(&self, ids: &[u32], shown: &[Shown]) -> Result<Input> {
        let mut rows = shown.iter().flat_map(|shown| &shown.rows);
        let mut input = Input::default();
        let mut places = 0;
        for (i, text) in ids.split(|id| *id == self.row).enumerate() {
            if i > 0 {
                places += 1;
                rows.next().into_iter().for_each(|rows| input.push_rows(rows.clone()));
            }
            input.push_tokens(text);
        }
        let pictures = shown.iter().map(|shown| shown.rows.len()).sum::<usize>();
        if places != pictures {
            return Err(Error::bad_option(format!(
                "the prompt has {places} places for the {pictures} parts of its pictures: a message spells {}; leave it out",
                self.vision.words.row
            )));
        }
        Ok(input)
    }
}

/// A picture of a request.
pub(super) struct Shown {
    picture: Rc<Picture>,
    pub cut: Cut,
    /// The rows of each crop.
    rows: Vec<Rc<Embedded>>,
}

fn wrong(e: &millrace_picture::Error) -> Error {
    Error::bad_option(e.to_string())
}

/// Most bytes of rows that are cached for the next prompt with the same picture.
const KEPT: usize = 64 << 20;

/// The vision encoder, once a picture had to be encoded, and a cache of its latest rows.
#[derive(Default)]
pub(super) struct Eyes {
    encoder: Option<VisionEncoder>,
    /// Cached rows, the latest last.
    seen: VecDeque<Rc<Embedded>>,
}

impl Eyes {
    /// Drops the encoder, which the next picture loads again; `false` where there is none. Cached rows stay.
    pub fn let_go(&mut self) -> bool {
        self.encoder.take().is_some()
    }

    /// Fills in the values of rows, from the cache or else from the encoder.
    async fn read(
        &mut self,
        sight: &Sight,
        missing: &[(&Shown, Vec<usize>)],
        on: (&Rc<Gpu>, Lane),
        options: &LoadOptions,
        cancel: &Cancel,
        progress: &dyn Fn(Progress),
    ) -> Result<()> {
        let mut tiles = Vec::new();
        let mut wanted: Vec<&Rc<Embedded>> = Vec::new();
        for (shown, crops) in missing {
            let mut unseen = Vec::new();
            for crop in crops {
                let rows = &shown.rows[*crop];
                match self.seen.iter().find(|seen| seen.is(rows)).and_then(|seen| seen.values()) {
                    Some(values) => rows.fill(values.clone())?,
                    // A picture that occurs twice is encoded once.
                    None if wanted.iter().any(|other| other.is(rows)) => {}
                    None => unseen.push(*crop),
                }
            }
            if unseen.is_empty() {
                continue;
            }
            let pictures =
                shown.cut.crops_of(&shown.picture, sight.vision.pictures.resampler()).map_err(|e| wrong(&e))?;
            for crop in unseen {
                let Crop { wide, high, .. } = shown.cut.crops[crop];
                tiles.push(Patches { wide, high, values: PatchValues::Pixels(pictures[crop].clone()) });
                wanted.push(&shown.rows[crop]);
            }
        }
        if !tiles.is_empty() {
            let (gpu, lane) = on;
            if self.encoder.as_ref().is_none_or(|encoder| !encoder.is_on(gpu)) {
                self.encoder = None;
                self.encoder = Some(
                    VisionEncoder::load(&sight.files, options, Some((gpu.clone(), lane)), progress, cancel).await?,
                );
            }
            let encoder = self.encoder.as_mut().ok_or_else(|| Error::internal("no encoder"))?;
            let encoded = encoder.encode(&tiles, progress, cancel).await;
            if encoded.as_ref().is_err_and(|e| e.kind() == ErrorKind::OutOfMemory) {
                // Read anew it would be short of memory once more.
                self.encoder = None;
            }
            for (rows, values) in wanted.iter().zip(encoded?) {
                rows.fill(values)?;
            }
        }
        for rows in missing.iter().flat_map(|(shown, crops)| crops.iter().map(|crop| &shown.rows[*crop])) {
            if let Some(values) = wanted.iter().find(|read| read.is(rows)).and_then(|read| read.values()) {
                rows.fill(values.clone())?;
            }
            self.seen.retain(|seen| !seen.is(rows));
            self.seen.push_back(rows.clone());
        }
        let bytes = |seen: &VecDeque<Rc<Embedded>>| {
            seen.iter().filter_map(|rows| rows.values()).map(|values| values.len() * 4).sum::<usize>()
        };
        while bytes(&self.seen) > KEPT && self.seen.len() > 1 {
            self.seen.pop_front();
        }
        Ok(())
    }
}

impl Engine {
    /// As [`Texts::picture_tokens`](super::Texts::picture_tokens).
    pub fn picture_tokens(&self, width: u32, height: u32) -> Result<u64> {
        self.texts().picture_tokens(width, height)
    }

    /// Fills in the values of those rows of a prompt that the sequence does not hold.
    pub(super) fn look<'s>(
        &'s mut self,
        sequence: SequenceId,
        prompt: &'s Input,
        shown: &'s [Shown],
        afresh: bool,
        cancel: &'s Cancel,
        progress: &'s dyn Fn(Progress),
    ) -> LocalBoxFuture<'s, Result<()>> {
        Box::pin(self.look_at(sequence, prompt, shown, afresh, cancel, progress))
    }

    async fn look_at(
        &mut self,
        sequence: SequenceId,
        prompt: &Input,
        shown: &[Shown],
        afresh: bool,
        cancel: &Cancel,
        progress: &dyn Fn(Progress),
    ) -> Result<()> {
        if shown.is_empty() {
            return Ok(());
        }
        let known = if afresh { 0 } else { self.session.known_prefix(sequence, prompt)? };
        let unread = prompt.slice(known..prompt.len());
        let missing = |rows: &Rc<Embedded>| rows.values().is_none() && unread.has(rows);
        let crops =
            |shown: &Shown| (0..shown.rows.len()).filter(|crop| missing(&shown.rows[*crop])).collect::<Vec<_>>();
        let missing: Vec<_> =
            shown.iter().map(|shown| (shown, crops(shown))).filter(|(_, crops)| !crops.is_empty()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let sight = self.sight.clone();
        let gpu = self.session.gpu().clone();
        self.eyes
            .read(usable_sight(&sight)?, &missing, (&gpu, self.session.lane()), &self.options, cancel, progress)
            .await
    }
}
