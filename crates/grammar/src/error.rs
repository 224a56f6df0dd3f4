//! What goes wrong while a grammar is compiled: a kind to match on, the place in the schema, and a sentence.

use std::fmt;

/// What an [`Error`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A keyword, a format or a part of a regular expression that cannot be enforced.
    Unsupported,
    /// What JSON Schema does not allow: a keyword of the wrong type, a `$ref` that leads nowhere, text that is not
    /// JSON.
    InvalidSchema,
    /// A regular expression that cannot be read.
    InvalidRegex,
    /// Nothing at all satisfies the schema.
    Unsatisfiable,
    /// The automaton, or the work to make it, is beyond the [`Limits`](crate::Limits).
    TooLarge,
    /// Two parts of a grammar begin with the same byte in a way that one pass cannot tell apart, e.g. a literal `"`
    /// beside a JSON string.
    Ambiguous,
}

impl ErrorKind {
    /// A stable code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unsupported => "UNSUPPORTED_SCHEMA",
            Self::InvalidSchema => "INVALID_SCHEMA",
            Self::InvalidRegex => "INVALID_REGEX",
            Self::Unsatisfiable => "UNSATISFIABLE_SCHEMA",
            Self::TooLarge => "GRAMMAR_TOO_LARGE",
            Self::Ambiguous => "AMBIGUOUS_GRAMMAR",
        }
    }
}

/// Why a grammar was not compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    schema: u32,
    pointer: String,
    keyword: String,
    reason: String,
}

/// The crate's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error without a place, which [`Error::at`] adds where it is known.
    pub(crate) fn new(kind: ErrorKind, reason: impl Into<String>) -> Self {
        Self { kind, schema: 0, pointer: String::new(), keyword: String::new(), reason: reason.into() }
    }

    /// Names the place, unless a deeper one has been named already.
    #[must_use]
    pub(crate) fn at(mut self, (schema, pointer): (u32, String), keyword: &str) -> Self {
        if self.keyword.is_empty() {
            self.schema = schema;
            self.pointer = pointer;
            self.keyword = keyword.to_owned();
        }
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

    /// Which of the grammar's schemas it is about, in the order in which they stand in it; 0 where there is one, or
    /// none.
    pub fn schema(&self) -> u32 {
        self.schema
    }

    /// JSON pointer (RFC 6901) of the schema that holds the keyword; empty for the root and where there is no schema.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// The keyword that it is about; empty where it is about no single one.
    pub fn keyword(&self) -> &str {
        &self.keyword
    }

    /// Why, in words.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.keyword.is_empty(), self.pointer.is_empty()) {
            (true, true) => f.write_str(&self.reason),
            (true, false) => write!(f, "{}: {}", self.pointer, self.reason),
            (false, true) => write!(f, "{}: {}", self.keyword, self.reason),
            (false, false) => write!(f, "{} at {}: {}", self.keyword, self.pointer, self.reason),
        }
    }
}

impl std::error::Error for Error {}

/// What was left out or ignored, and where: the schema is enforced without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Which of the grammar's schemas it is about, as [`Error::schema`].
    pub schema: u32,
    /// JSON pointer of the schema that holds the keyword.
    pub pointer: String,
    /// The keyword.
    pub keyword: String,
    /// Why it has no effect.
    pub reason: String,
}
