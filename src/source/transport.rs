//! How bytes come over a network: a GET whose body arrives in pieces. `fetch` in the browser, ureq natively, a table in tests.

use futures_util::future::LocalBoxFuture;

use crate::error::{Error, Result};
use crate::stream::Cancel;

/// Something that answers GET requests.
pub trait Transport {
    /// Asks for the whole of `url` and returns once the headers are there.
    ///
    /// Fails with `NOT_FOUND` on status 404 or 410, `NETWORK` (with status and URL) on any other failure, and `ABORTED` when
    /// `cancel` is set, also while waiting.
    fn get<'a>(&'a self, url: &'a str, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>>;
}

/// A server's answer.
pub struct Reply {
    /// Bytes that the body will have, where the server says so and the body is not compressed in transit.
    pub length: Option<u64>,
    /// The server's name for this version of the file.
    pub etag: Option<String>,
    /// The bytes.
    pub body: Box<dyn Body>,
}

/// The bytes of an answer as they arrive, in pieces of at most a few MiB.
pub trait Body {
    /// The next piece, or `None` at the end. Fails with `NETWORK` or `ABORTED`; a body must not be read after it failed.
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>>;
}

/// Turns a status that is not a success into the error that it means.
pub fn check_status(status: u16, url: &str) -> Result<()> {
    match status {
        200..=299 => Ok(()),
        404 | 410 => Err(Error::not_found(format!("{url}: the server has no such file (status {status}); check the address"))),
        401 | 403 => Err(Error::network(format!("{url}: the server refuses access (status {status}); the file may need a licence to be accepted or a token"))),
        429 => Err(Error::network(format!("{url}: the server asks to slow down (status 429); wait a while and try again"))),
        500..=599 => Err(Error::network(format!("{url}: the server failed (status {status}); try again later"))),
        _ => Err(Error::network(format!("{url}: the server answered with status {status}"))),
    }
}
