//! What can be wrong with a picture, a configuration or a table.

/// The result type of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a picture cannot be prepared. The message says what to do; sizes are width x height in pixels.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A side of zero.
    #[error("a picture of {width} x {height} has no pixels: give one whose sides are at least 1")]
    Empty { width: u32, height: u32 },
    /// More pixels than [`crate::Picture::MAX_PIXELS`].
    #[error("a picture of {width} x {height} has more than {} million pixels: make it smaller first", crate::Picture::MAX_PIXELS / 1_000_000)]
    TooLarge { width: u32, height: u32 },
    /// Bytes that are not as many as the pixels have.
    #[error("{bytes} bytes are not a picture of {width} x {height}, which has {expected}")]
    WrongLength { width: u32, height: u32, bytes: usize, expected: u64 },
    /// A picture that is too long for its width, or too wide for its height.
    #[error(
        "a picture of {width} x {height} is too long and narrow for this model: cut it into parts, or add a margin"
    )]
    TooNarrow { width: u32, height: u32 },
    /// A picture for which the family has no size, under its configuration.
    #[error(
        "a picture of {width} x {height} cannot be fitted into {patches} patches: raise the number of tokens for a picture"
    )]
    TooFewPatches { width: u32, height: u32, patches: u64 },
    /// Sides that are not whole patches.
    #[error("a crop of {width} x {height} is not whole blocks of {block} pixels: resize it to what the cut says")]
    NotWhole { width: u32, height: u32, block: u32 },
    /// A picture whose size is not the one that the cut was made for.
    #[error(
        "the cut is for a picture of {width} x {height}, this one is {got_width} x {got_height}: make the cut from this picture's size"
    )]
    OtherSize { width: u32, height: u32, got_width: u32, got_height: u32 },
    /// A part that is not within its picture.
    #[error(
        "a part of {width} x {height} at {x}, {y} is not within a picture of {of_width} x {of_height}: take a smaller one"
    )]
    Outside { x: u32, y: u32, width: u32, height: u32, of_width: u32, of_height: u32 },
    /// A value of preprocessor_config.json that is missing, of another type or out of range, or asks for what is not
    /// implemented.
    #[error("{key} of the preprocessor's configuration {reason}")]
    Config { key: &'static str, reason: String },
    /// A table of positions whose length is not its shape, or a shape with a side of zero.
    #[error(
        "{values} numbers are no table of {height} x {width} x {depth} to fit to {to_height} x {to_width}: give all of it, and no side of 0"
    )]
    Table { values: usize, height: usize, width: usize, depth: usize, to_height: usize, to_width: usize },
}

impl Error {
    pub(crate) fn config(key: &'static str, reason: impl Into<String>) -> Self {
        Self::Config { key, reason: reason.into() }
    }
}
