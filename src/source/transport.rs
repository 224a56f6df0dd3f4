//! How bytes come over a network: a GET whose body arrives in pieces. `fetch` in the browser, ureq natively, a table in
//! tests.

use futures_util::future::LocalBoxFuture;
use serde::{Deserialize, Serialize};

use crate::base::Cancel;
use crate::error::{Error, Result};

/// Something that answers GET requests.
pub trait Transport {
    /// Sends the request and returns once the headers are there, whatever the status.
    ///
    /// Fails with `NETWORK` where there is no answer, and `ABORTED` when `cancel` is set, also while waiting.
    fn get<'a>(&'a self, request: Request<'a>, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>>;
    /// Waits before another attempt.
    fn sleep(&self, ms: f64) -> LocalBoxFuture<'_, ()>;
    /// Whether there is a network, as far as the system tells.
    fn is_online(&self) -> bool {
        true
    }
    /// A random number from 0 to 1, so that clients that failed together do not come back together.
    fn random(&self) -> f64 {
        getrandom::u32().map_or(0.0, |n| f64::from(n) / f64::from(u32::MAX))
    }
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Where.
    pub url: &'a str,
    /// Which bytes of it, `(first, behind the last)`; to its end where there is no second.
    pub range: Option<(u64, Option<u64>)>,
}

impl<'a> Request<'a> {
    /// The whole of it.
    pub fn whole(url: &'a str) -> Self {
        Self { url, range: None }
    }

    /// The value of its header Range.
    pub fn range_header(&self) -> Option<String> {
        self.range.map(|(from, to)| match to {
            Some(to) => format!("bytes={from}-{}", to.max(from + 1) - 1),
            None => format!("bytes={from}-"),
        })
    }
}

/// A server's answer.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Bytes that the body will have, where the server says so and the body is not compressed in transit.
    pub length: Option<u64>,
    /// Which bytes they are, where the server says so and the page may see it.
    pub range: Option<ContentRange>,
    /// Which version of the file this is.
    pub version: Version,
    /// Seconds that the server asks to wait.
    pub retry_after: Option<f64>,
    /// Whether it says that it is a web page: what servers answer that have one page for all addresses.
    pub is_page: bool,
    /// Whether the body was compressed in transit, as far as that can be seen.
    pub encoded: bool,
    /// The bytes.
    pub body: Box<dyn Body>,
}

/// A version of a file, as far as the server tells and the page may see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The server's name for it.
    pub etag: Option<String>,
    /// The time of its last change.
    pub modified: Option<String>,
}

impl Version {
    /// Whether they are versions that differ: names tell, and times where there are no names to compare.
    pub fn differs(&self, other: &Self) -> bool {
        match (&self.etag, &other.etag) {
            (Some(a), Some(b)) => a != b,
            _ => self.modified.as_ref().zip(other.modified.as_ref()).is_some_and(|(a, b)| a != b),
        }
    }

    /// Whether nothing is known of it.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// `Content-Range: bytes FROM-LAST/TOTAL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentRange {
    /// The first byte.
    pub from: u64,
    /// Behind the last.
    pub to: u64,
    /// Length of the whole file, where it is known.
    pub total: Option<u64>,
}

impl ContentRange {
    /// Reads the header's value.
    pub fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes")?.trim().split_once('/')?;
        let (from, last) = range.split_once('-')?;
        let (from, last): (u64, u64) = (from.trim().parse().ok()?, last.trim().parse().ok()?);
        let total = match total.trim() {
            "*" => None,
            number => Some(number.parse().ok()?),
        };
        let to = last.checked_add(1)?;
        (from < to && total.is_none_or(|total| to <= total)).then_some(Self { from, to, total })
    }
}

impl Reply {
    /// From an answer's status and headers.
    pub fn new(status: u16, header: impl Fn(&str) -> Option<String>, now: f64, body: Box<dyn Body>) -> Self {
        let encoded = header("content-encoding").is_some_and(|v| !v.eq_ignore_ascii_case("identity"));
        Self {
            status,
            length: header("content-length").filter(|_| !encoded).and_then(|v| v.trim().parse().ok()),
            range: header("content-range").and_then(|v| ContentRange::parse(&v)),
            version: Version {
                // Weak names differ by encoding; the bytes are the same.
                etag: header("etag").map(|v| v.trim().trim_start_matches("W/").to_owned()).filter(|v| !v.is_empty()),
                modified: header("last-modified"),
            },
            retry_after: header("retry-after").and_then(|v| seconds(&v, now)),
            is_page: header("content-type")
                .is_some_and(|v| v.trim_start().to_ascii_lowercase().starts_with("text/html")),
            encoded,
            body,
        }
    }
}

/// Seconds of a Retry-After: a number, or a date. `now`: seconds since 1970.
fn seconds(text: &str, now: f64) -> Option<f64> {
    if let Ok(seconds) = text.trim().parse::<f64>() {
        return (seconds >= 0.0).then_some(seconds);
    }
    let at = httpdate::parse_http_date(text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    Some((at.as_secs_f64() - now).max(0.0))
}

/// The bytes of an answer as they arrive, in pieces of at most a few MiB.
pub trait Body {
    /// The next piece, or `None` at the end. Fails with `NETWORK` or `ABORTED`; a body must not be read after it
    /// failed.
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>>;
}

/// Whether another attempt may help.
pub fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// Turns a status that is not a success into the error that it means.
pub fn check_status(status: u16, url: &str) -> Result<()> {
    match status {
        200..=299 => Ok(()),
        404 | 410 => {
            Err(Error::not_found(format!("{url}: the server has no such file (status {status}); check the address")))
        }
        401 | 403 => Err(Error::network(format!(
            "{url}: the server refuses access (status {status}); the file may need a licence to be accepted or a token"
        ))),
        429 => {
            Err(Error::network(format!("{url}: the server asks to slow down (status 429); wait a while and try again")))
        }
        500..=599 => Err(Error::network(format!("{url}: the server failed (status {status}); try again later"))),
        _ => Err(Error::network(format!("{url}: the server answered with status {status}; check the address"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn ranges_of_answers() {
        let range = |from, to, total| Some(ContentRange { from, to, total });
        assert_eq!(ContentRange::parse("bytes 0-9/100"), range(0, 10, Some(100)));
        assert_eq!(ContentRange::parse(" bytes 5-5/* "), range(5, 6, None));
        for wrong in [
            "",
            "bytes */100",
            "bytes 9-0/100",
            "bytes 0-100/100",
            "items 0-9/100",
            "bytes 0-18446744073709551615/*",
            "bytes a-b/c",
        ] {
            assert_eq!(ContentRange::parse(wrong), None, "{wrong}");
        }
        let header = |from, to| Request { url: "", range: Some((from, to)) }.range_header().unwrap();
        assert_eq!((header(0, None), header(5, Some(10))), ("bytes=0-".to_owned(), "bytes=5-9".to_owned()));
    }

    #[cfg_attr(target_arch = "wasm32", wasm_bindgen_test::wasm_bindgen_test)]
    #[cfg_attr(not(target_arch = "wasm32"), test)]
    fn how_long_servers_ask_to_wait() {
        let now = 784_111_777.0 - 10.0;
        for (text, expected) in [
            ("3", Some(3.0)),
            (" 0 ", Some(0.0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(10.0)),
            ("Sat, 05 Nov 1994 08:49:37 GMT", Some(0.0)),
            ("-1", None),
            ("soon", None),
            ("Sun, 06 Foo 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
        ] {
            assert_eq!(seconds(text, now), expected, "{text}");
        }
    }
}
