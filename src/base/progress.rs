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
    /// The prompt's tokens are read: those that the cache does not hold.
    Prompt,
}

/// One report. Within a phase `loaded` never falls; it reaches `total` when the phase ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Bytes done so far (pipelines in [`Phase::Compile`], tokens in [`Phase::Prompt`]).
    pub loaded: u64,
    /// Bytes in all (or pipelines, or tokens); 0 while not known. Of a folder: of the files whose length is known by now.
    pub total: u64,
    /// The file that is being worked on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether the bytes come from the store, without the network.
    pub cached: bool,
    /// Why the next load will need the network again, where the bytes cannot be kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What is waited for, for people: another attempt, another tab.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Progress {
    /// A report of `phase` about no file in particular.
    pub fn new(phase: Phase, loaded: u64, total: u64) -> Self {
        Self { phase, loaded, total, file: None, cached: false, reason: None, note: None }
    }
}
