//! One error type for the whole engine. The code is stable and the same in Rust, on the command line and in JavaScript.

use std::fmt;

/// What went wrong, as a stable code. JavaScript receives [`ErrorKind::code`] as `error.code`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option that is unknown, out of range or contradicts another.
    BadOption,
    /// A model file that breaks its format; the message names the field.
    BadModel,
    /// A well-formed model that this version cannot run.
    UnsupportedModel,
    /// A file or URL that is not there.
    NotFound,
    /// The network failed or the server answered with an error.
    Network,
    /// OPFS or the disk failed or is full.
    Storage,
    /// The GPU or the host has not enough memory for what was asked.
    OutOfMemory,
    /// The browser has no WebGPU.
    NoWebGpu,
    /// There is no GPU adapter, or none that matches what was asked for.
    NoAdapter,
    /// The GPU device was lost.
    DeviceLost,
    /// A shader did not compile, or the GPU refused a command: a bug or a broken driver.
    Gpu,
    /// A kernel or variant was forced that does not exist or cannot run here.
    UnknownKernel,
    /// Prompt and answer do not fit into the context.
    ContextFull,
    /// A schema or regular expression says something that cannot be enforced.
    UnsupportedSchema,
    /// A schema or regular expression is none, or nothing satisfies it.
    InvalidSchema,
    /// A schema or regular expression needs more states than there are.
    GrammarTooLarge,
    /// The caller's signal was aborted.
    Aborted,
    /// The tokenizer cannot be built or refuses the text.
    Tokenizer,
    /// The chat template does not parse, fails, or runs for too long.
    Template,
    /// The engine was disposed of.
    Disposed,
    /// The thread that the engine lives in does not answer any more.
    WorkerLost,
    /// Something that cannot happen did.
    Internal,
}

impl ErrorKind {
    /// The stable code, in capitals.
    pub const fn code(self) -> &'static str {
        match self {
            Self::BadOption => "BAD_OPTION",
            Self::BadModel => "BAD_MODEL",
            Self::UnsupportedModel => "UNSUPPORTED_MODEL",
            Self::NotFound => "NOT_FOUND",
            Self::Network => "NETWORK",
            Self::Storage => "STORAGE",
            Self::OutOfMemory => "OUT_OF_MEMORY",
            Self::NoWebGpu => "NO_WEBGPU",
            Self::NoAdapter => "NO_ADAPTER",
            Self::DeviceLost => "DEVICE_LOST",
            Self::Gpu => "GPU",
            Self::UnknownKernel => "UNKNOWN_KERNEL",
            Self::ContextFull => "CONTEXT_FULL",
            Self::UnsupportedSchema => "UNSUPPORTED_SCHEMA",
            Self::InvalidSchema => "INVALID_SCHEMA",
            Self::GrammarTooLarge => "GRAMMAR_TOO_LARGE",
            Self::Aborted => "ABORTED",
            Self::Tokenizer => "TOKENIZER",
            Self::Template => "TEMPLATE",
            Self::Disposed => "DISPOSED",
            Self::WorkerLost => "WORKER_LOST",
            Self::Internal => "INTERNAL",
        }
    }
}

/// An error with its kind and a sentence that says what happened, where, and what to do.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync + 'static>>,
}

/// The engine's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of `kind` with a message of its own.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    /// Keeps the underlying error, reachable through [`std::error::Error::source`].
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync + 'static>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Prefixes the message with where it happened, e.g. a file's name.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// The kind, to match on.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable code of the kind.
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// The message without the code.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

/// What of a schema is to blame: the cause of [`ErrorKind::UnsupportedSchema`] and [`ErrorKind::InvalidSchema`], where
/// it is one keyword.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFault {
    /// Where in the schema, as a JSON pointer.
    pub pointer: String,
    /// The keyword.
    pub keyword: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for SchemaFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pointer, keyword, reason } = self;
        write!(f, "{keyword} at {pointer:?}: {reason}")
    }
}

impl std::error::Error for SchemaFault {}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => {
        impl Error {
            $($(#[$doc])* pub fn $name(message: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, message) })*
        }
    };
}

constructors! {
    /// [`ErrorKind::BadOption`]
    bad_option => BadOption,
    /// [`ErrorKind::BadModel`]
    bad_model => BadModel,
    /// [`ErrorKind::UnsupportedModel`]
    unsupported => UnsupportedModel,
    /// [`ErrorKind::NotFound`]
    not_found => NotFound,
    /// [`ErrorKind::Network`]
    network => Network,
    /// [`ErrorKind::Storage`]
    storage => Storage,
    /// [`ErrorKind::OutOfMemory`]
    out_of_memory => OutOfMemory,
    /// [`ErrorKind::Gpu`]
    gpu => Gpu,
    /// [`ErrorKind::UnknownKernel`]
    unknown_kernel => UnknownKernel,
    /// [`ErrorKind::Tokenizer`]
    tokenizer => Tokenizer,
    /// [`ErrorKind::Template`]
    template => Template,
    /// [`ErrorKind::Internal`]
    internal => Internal,
}

impl Error {
    /// [`ErrorKind::Aborted`]
    pub fn aborted() -> Self {
        Self::new(ErrorKind::Aborted, "the operation was aborted by its signal")
    }
}
