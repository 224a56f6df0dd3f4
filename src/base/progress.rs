//! How far a load has come.

use serde::Serialize;

/// What a load, or a generation before its first token, is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Bytes come from the network into the store, or are found there.
    Download,
    /// What is stored is compared with its hashes.
    Verify,
    /// The header and the tokenizer are read.
    Read,
    /// Weights go to the GPU.
    Upload,
    /// Pipelines are compiled.
    Compile,
    /// The prompt's pictures are encoded: those whose rows are not kept.
    Pictures,
    /// The prompt's tokens are read: those that the cache does not hold.
    Prompt,
}

/// What has become of a download, where that is worth a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    /// It begins: nothing of the model is here.
    Started,
    /// It goes on: some of the model is here.
    Resumed,
    /// Something failed, and is tried again after a while.
    Retry,
    /// The browser says that there is no network: it is waited for.
    Offline,
    /// The server refuses some of the connections: the download continues with fewer, or tries one more again.
    Connections,
    /// A file starts over: it has changed on the server, or its ranges are of no use.
    Restarted,
    /// A shard arrived damaged and is fetched again.
    Damaged,
    /// Another tab or engine is downloading the same model.
    Waiting,
}

/// One report. Within a phase `loaded` never falls; it reaches `total` when the phase ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Bytes done so far (pipelines in [`Phase::Compile`], patches in [`Phase::Pictures`], tokens in [`Phase::Prompt`]).
    pub loaded: u64,
    /// Bytes in all (or pipelines, patches, tokens); 0 while not known. Of a folder: of the files whose length is known by
    /// now.
    pub total: u64,
    /// The file that is being worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether the bytes come from the store, without the network.
    pub cached: bool,
    /// Why the next load will need the network again, where the bytes cannot be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What has just happened to the download, where this report tells of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<Event>,
    /// The event as a message for the user, with the reason: what is waited for, and how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Whether it is about the draft model.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
}

impl Progress {
    /// A report of `phase` about no file in particular.
    pub fn new(phase: Phase, loaded: u64, total: u64) -> Self {
        Self { phase, loaded, total, file: None, cached: false, reason: None, event: None, note: None, draft: false }
    }
}
