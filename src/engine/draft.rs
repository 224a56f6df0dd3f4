//! A draft model beside the engine's own: a smaller model of the same vocabulary, whose tokens steps of several rows
//! verify.

use super::load::{compile, upload};
use super::{Engine, LoadOptions, ModelInfo, describe};
use crate::base::{Cancel, Phase, Progress};
use crate::blocks::DType;
use crate::decode::Session;
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::plan::Lane;
use crate::source::Files;
use crate::text::Tokenizer;

/// A draft model that is loaded.
pub(super) struct Draft {
    files: Files,
    fingerprint: String,
    pub about: ModelInfo,
}

/// Positions that a draft model may write beyond the model's context.
const BEYOND: u32 = 64;

/// How a draft model is loaded beside a model with these options, in that model's lane and with its context.
pub(super) fn options_of(options: &LoadOptions, lane: Lane, context: u32) -> LoadOptions {
    LoadOptions {
        lane,
        context: None,
        most_context: Some(context.saturating_add(BEYOND)),
        concurrency: None,
        slots: None,
        kernels: Vec::new(),
        tokenizer_json: None,
        ..options.clone()
    }
}

/// A session without weights for the draft model of a checkpoint, beside a model's session. `tokens`: its tokenizer's
/// number of ids.
pub(crate) async fn open_beside(
    checkpoint: &Checkpoint,
    tokens: Option<usize>,
    options: &LoadOptions,
    model: &Session,
    progress: &dyn Fn(Progress),
) -> Result<Session> {
    let mut options = options_of(options, model.lane(), model.context());
    // A draft model that is quantized already stays as it is.
    let largest = checkpoint.tensors.values().max_by_key(|tensor| tensor.bytes);
    options.quantize = options
        .quantize
        .filter(|_| largest.is_some_and(|tensor| [DType::F32, DType::F16, DType::BF16].contains(&tensor.dtype)));
    let (session, self_test) = compile(checkpoint, &options, tokens, model.gpu().clone(), None, progress).await?;
    if let Some(wrong) = self_test.wrong.first() {
        return Err(Error::gpu(format!(
            "draft: this GPU or its driver computes the draft model wrongly: {wrong}; load the model without one"
        )));
    }
    Ok(session)
}

/// [`open_beside`], with the weights.
async fn open(
    checkpoint: &Checkpoint,
    tokens: usize,
    options: &LoadOptions,
    model: &Session,
    progress: &dyn Fn(Progress),
    cancel: &Cancel,
) -> Result<Session> {
    let session = open_beside(checkpoint, Some(tokens), options, model, progress).await?;
    upload(checkpoint, &session, progress, cancel).await?;
    session.gpu().check()?;
    Ok(session)
}

impl Engine {
    /// Loads a draft model beside the engine's own, in place of an earlier one. Requests use it with
    /// [`Speculate::Auto`](crate::decode::Speculate), which is their default from then on, where it pays.
    ///
    /// # Errors
    /// `BAD_OPTION` where its vocabulary is another; `UNSUPPORTED_MODEL` where one of the two models cannot do its part;
    /// those of loading a model.
    pub async fn load_draft(&mut self, files: &Files, progress: &dyn Fn(Progress), cancel: &Cancel) -> Result<()> {
        progress(Progress::new(Phase::Read, 0, 1));
        files.values().for_each(|file| file.will_be_read());
        let (checkpoint, tokens) = self.draft_checkpoint(files).await?;
        progress(Progress::new(Phase::Read, 1, 1));
        cancel.check()?;
        let fingerprint = checkpoint.fingerprint().await?;
        let about = self
            .surviving(progress, cancel, async |engine| {
                // An earlier draft model's memory is free before this one takes its own.
                engine.session.set_drafter(None).await?;
                engine.draft = None;
                let session = open(&checkpoint, tokens, &engine.options, &engine.session, progress, cancel).await?;
                let about = describe(&checkpoint, session.model(), false)?;
                engine.session.set_drafter(Some(session)).await?;
                Ok(about)
            })
            .await?;
        self.draft = Some(Draft { files: files.clone(), fingerprint, about });
        Ok(())
    }

    /// The checkpoint of a draft model, and its tokenizer's number of ids: an error where it has other tokens than the
    /// model.
    pub(super) async fn draft_checkpoint(&self, files: &Files) -> Result<(Checkpoint, usize)> {
        self.session.must_write("draft")?;
        let checkpoint = Checkpoint::open(files).await.map_err(|e| e.at("draft"))?;
        let tokenizer = Tokenizer::open(&checkpoint).map_err(|e| e.at("draft"))?;
        self.tokenizer.must_share(&tokenizer)?;
        Ok((checkpoint, tokenizer.vocab_size()))
    }

    /// The draft model, where one is loaded.
    pub fn draft(&self) -> Option<&ModelInfo> {
        self.draft.as_ref().map(|draft| &draft.about)
    }

    /// Loads the draft model again, for a session of the engine's model on another device.
    pub(super) async fn draft_again(
        &self,
        session: &mut Session,
        progress: &dyn Fn(Progress),
        cancel: &Cancel,
    ) -> Result<()> {
        let Some(draft) = &self.draft else { return Ok(()) };
        draft.files.values().for_each(|file| file.will_be_read());
        let checkpoint = Checkpoint::open(&draft.files).await?;
        if checkpoint.fingerprint().await? != draft.fingerprint {
            return Err(Error::storage("the draft model's files have changed since they were loaded"));
        }
        let tokens = Tokenizer::open(&checkpoint)?.vocab_size();
        let drafter = open(&checkpoint, tokens, &self.options, session, progress, cancel).await?;
        session.set_drafter(Some(drafter)).await
    }

    /// Warnings for users about the draft model.
    pub(super) fn draft_warnings(&self) -> Vec<String> {
        let Some(drafter) = self.session.drafter() else { return Vec::new() };
        let mut warnings = Vec::new();
        if !self.session.drafts_pay() {
            let place = if self.session.lane() == Lane::Exact { "in lane exact" } else { "without a GPU" };
            warnings.push(format!(
                "the draft model is used with speculate \"always\" only: {place} a step of several tokens takes as long as \
                 the steps of each"
            ));
        }
        let (context, all) = (drafter.context(), self.session.context());
        if context < all {
            warnings
                .push(format!("the draft model's context ends at {context} tokens of {all}: it drafts until there"));
        }
        warnings
    }
}
