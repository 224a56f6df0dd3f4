//! The engine: a loaded model that answers requests.

mod adapters;
mod answer;
mod bisect;
mod company;
mod conversations;
mod draft;
mod embed;
mod examine;
pub mod fit;
mod forced;
mod lane;
mod load;
mod open;
mod output;
mod pictures;
mod recover;
mod report;
mod request;
mod result;
pub mod stops;
mod texts;
mod vision;

pub use adapters::AdapterAbout;
pub use bisect::bisect;
pub use company::{Asked, Desk};
pub(crate) use draft::open_beside;
pub use embed::{Embeddings, Ranked, Ranking};
pub use examine::{Examined, Finding, examine};
pub use fit::Room;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use load::model_name;
pub(crate) use load::{describe, open_device, open_empty, open_session};
pub use open::{LoadPlan, Origin, PlanDownload, PlanStorage, Stored};
pub use output::Listens;
pub use recover::{Device, DeviceEvent, Listener};
pub use report::{Info, MemoryInfo, ModelInfo, SelfTestInfo};
#[cfg(feature = "lab")]
pub use request::Faults;
pub use request::{EmbedOptions, LoadOptions, Overflow, Prompt, Request, RerankOptions, Spelled};
pub use result::{AdapterInfo, Delta, Event, FinishReason, Generation, GenerationCounters, Scored, TokenLogprobs};
pub use stops::StopScanner;
pub use texts::Texts;
pub use vision::{PatchValues, Patches, VisionEncoder};

use std::rc::Rc;

use futures_util::future::LocalBoxFuture;

use crate::base::options::Options as _;
use crate::base::{Cancel, Phase, Progress, now_ms};
use crate::decode::{Session, Tuned};
use crate::error::Result;
use crate::format::Checkpoint;
use crate::model::vision::is_tower as vision_tensors;
use crate::plan::tuning::Tuning;
use crate::source::Files;
use crate::state::{FIRST, SequenceId};
use crate::text::calls::Formats;
use crate::text::{ChatTemplate, Tokenizer};
use crate::weights::LoadTimes;
use draft::Draft;
use embed::Around;
use forced::Grammars;
use pictures::{Eyes, Seen, Sight};
use recover::{Losses, Recovery};
use texts::rendered_prompt;

/// A loaded model.
pub struct Engine {
    session: Session,
    tokenizer: Rc<Tokenizer>,
    template: Rc<Result<ChatTemplate>>,
    /// How the model writes calls and thoughts.
    formats: Formats,
    options: LoadOptions,
    model: ModelInfo,
    fingerprint: String,
    self_test: SelfTestInfo,
    recovery: Recovery,
    load_times: LoadTimes,
    load_ms: f64,
    grammars: Grammars,
    around: Around,
    /// Sequences of requests without a conversation, and the one last used.
    nameless: Vec<SequenceId>,
    latest: SequenceId,
    adapters: Vec<adapters::Named>,
    /// The draft model, where one is loaded.
    draft: Option<Draft>,
    /// The model's vision configuration, or why it is not supported, and the encoder.
    sight: Seen,
    eyes: Eyes,
}

impl Engine {
    /// Opens the files, the device and the model, and uploads the weights.
    pub async fn load(
        files: &Files,
        options: &LoadOptions,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Self> {
        Self::load_arriving(files, options, None, progress, cancel).await
    }

    /// Loads a model whose files may still be downloading. `fits` is called once it is known that the model can be
    /// loaded to this device: only headers have been read by then.
    async fn load_arriving<'a>(
        files: &Files,
        options: &LoadOptions,
        fits: Option<&dyn Fn() -> LocalBoxFuture<'a, ()>>,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<Self> {
        let started = now_ms();
        options.check()?;
        progress(Progress::new(Phase::Read, 0, 1));
        // Headers, kernels and the device take a second, in which the disk can read ahead.
        files.values().for_each(|file| file.will_be_read());
        let checkpoint = Checkpoint::open(files).await?.with_tokenizer(options.tokenizer_json.clone());
        cancel.check()?;
        let opened = open_device(options, cancel).await?;
        if let Some(fits) = fits {
            fit::check(&checkpoint, options, &opened.gpu).await?;
            fits().await;
        }
        let mut tokenizer = Tokenizer::open(&checkpoint)?;
        // A model without a usable template still continues plain prompts: the error is returned to the first
        // conversation.
        let template = ChatTemplate::open(&checkpoint, &tokenizer);
        progress(Progress::new(Phase::Read, 1, 1));

        let (mut session, self_test, load_times) =
            open_session(&checkpoint, options, Some(tokenizer.vocab_size()), opened, progress, cancel).await?;
        tokenizer.fit(session.model().config().vocab)?;
        let mut about = describe(&checkpoint, session.model(), template.is_ok() && session.writes())?;
        let around = Around::of(&checkpoint, session.model().config(), &tokenizer)?;
        about.prompts = around.prompts.clone();
        if let Ok(template) = &template {
            about.thinks = template.opens_thought();
            about.template_options = template.variables();
        }
        let formats = texts::formats(&template, &tokenizer);
        let fingerprint = checkpoint.fingerprint().await?;
        let recovery = Recovery::new(files, session.gpu());
        let sight = Rc::new(Sight::of(files, &checkpoint, Some(session.model().config()), &tokenizer).await);
        about.pictures = matches!(&*sight, Ok(Some(_)));
        if let Ok(Some(sight)) = &*sight {
            sight.picture_attention().into_iter().for_each(|attention| session.set_picture_attention(attention));
        }
        // The vision tower is not left out: it is loaded with the first picture.
        about.left_out.retain(|left| !about.pictures || !vision_tensors(&left.what));
        let load_ms = now_ms() - started;
        Ok(Self {
            sight,
            eyes: Eyes::default(),
            session,
            tokenizer: Rc::new(tokenizer),
            template: Rc::new(template),
            formats,
            options: options.clone(),
            model: about,
            fingerprint,
            self_test,
            recovery,
            load_times,
            load_ms,
            grammars: Grammars::default(),
            around,
            nameless: vec![FIRST],
            latest: FIRST,
            adapters: Vec::new(),
            draft: None,
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Sets the loading time that [`Engine::info`] reports, ms, with the download.
    pub fn set_load_ms(&mut self, ms: f64) {
        self.load_ms = ms;
    }

    /// The tokenizer and template, for use while the engine is at work too.
    pub fn texts(&self) -> Texts {
        Texts::new(self.tokenizer.clone(), self.template.clone(), self.sight.clone())
    }

    /// The token ids of a request's prompt.
    pub fn prompt_tokens(&self, request: &Request) -> Result<Vec<u32>> {
        Ok(rendered_prompt(&self.tokenizer, &self.template, &self.sight, request)?.input.ids().to_vec())
    }

    /// Measures, for at most about `budget_ms`, the variants that were not measured on this device yet, and switches to
    /// the fastest. Meant for idle time: cancelling ends it within one measurement.
    pub async fn tune(&mut self, budget_ms: f64, cancel: &Cancel) -> Result<Tuned> {
        match self.session.tune(budget_ms, cancel).await {
            // The interrupted measurement is repeated by a later call.
            Err(e) => self.survive(e, &mut Losses::default(), &|_| (), cancel).await.map(|()| Tuned::default()),
            tuned => tuned,
        }
    }

    /// Keeps the GPU busy for about `ms`, so that its clock is up when a request follows; has no other effect.
    /// Cancelling ends it within some milliseconds.
    pub async fn warm(&mut self, ms: f64, cancel: &Cancel) -> Result<()> {
        match self.session.warm(ms, cancel).await {
            Err(e) => self.survive(e, &mut Losses::default(), &|_| (), cancel).await,
            warmed => warmed,
        }
    }

    /// Adds the measurements on this device to `tuning`.
    pub fn remember(&self, tuning: &mut Tuning) {
        tuning.set(self.session.gpu().caps(), self.session.known().clone());
    }

    /// Frees the GPU's memory. The engine is not usable afterwards.
    pub fn dispose(self) {
        self.session.gpu().destroy();
    }
}
