//! Finds the step that causes a wrong token: compares each step of a pass on this device with its twin on the CPU.

use std::rc::Rc;

use super::texts::rendered_prompt;
use super::{LoadOptions, Request, load};
use crate::base::Cancel;
use crate::decode::Compared;
use crate::decode::twins::Memory;
use crate::error::{Error, Result};
use crate::format::Checkpoint;
use crate::source::Files;
use crate::text::{ChatTemplate, Tokenizer};
use crate::weights;

/// Reads a request's prompt and decodes a token with the kernels that the engine would choose, each step beside its
/// twin from the same buffers. `on_step` is called with each comparison and returns whether to continue. The model has
/// to fit into this machine's memory.
pub async fn bisect(
    files: &Files,
    options: &LoadOptions,
    request: &Request,
    on_step: &mut dyn FnMut(Compared) -> bool,
    cancel: &Cancel,
) -> Result<()> {
    let checkpoint = Checkpoint::open(files).await?.with_tokenizer(options.tokenizer_json.clone());
    let tokenizer = Tokenizer::open(&checkpoint)?;
    let template = ChatTemplate::open(&checkpoint, &tokenizer);
    let sight = Rc::new(Ok(None));
    let prompt = rendered_prompt(&tokenizer, &template, &sight, request)?.input;
    if prompt.has_rows() {
        return Err(Error::bad_option("bisect reads prompts of tokens alone, this one has rows in their place"));
    }
    // No self-test: it would replace the kernel that computes wrongly, which is to be found.
    let options = LoadOptions { self_test: Some(false), ..options.clone() };
    let (mut session, ..) = load::open_session(
        &checkpoint,
        &options,
        Some(tokenizer.vocab_size()),
        load::open_device(&options, cancel).await?,
        &|_| (),
        cancel,
    )
    .await?;
    session.must_write("bisect")?;
    let memory = Memory::new(session.layout());
    let matrices: Vec<_> = session.model().matrices().into_iter().cloned().collect();
    weights::load(&checkpoint, &matrices, session.model().vectors(), cancel, &memory, &mut |_| ()).await?;
    session.bisect(&memory, prompt.ids(), on_step, cancel).await
}
