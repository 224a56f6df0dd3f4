//! HTTP of the native command line, by ureq. Blocking: the command line has nothing else to do meanwhile.

use std::io::Read;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::transport::{Body, Reply, Request, Transport};
use crate::base::Cancel;
use crate::error::{Error, Result};

/// Largest piece of a body, in bytes.
const PIECE: usize = 1 << 20;

/// GET requests through ureq; honours the usual proxy variables.
pub struct HttpTransport {
    agent: ureq::Agent,
}

impl HttpTransport {
    /// A client with time limits for connecting and for the first answer, none for the body.
    pub fn new() -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .accept_encoding("identity")
            .timeout_connect(Some(Duration::from_secs(30)))
            .timeout_recv_response(Some(Duration::from_secs(60)))
            .build();
        Self { agent: config.into() }
    }
}

impl Default for HttpTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl Transport for HttpTransport {
    fn get<'a>(&'a self, request: Request<'a>, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            cancel.check()?;
            let Request { url, .. } = request;
            let mut call = self.agent.get(url);
            if let Some(range) = request.range_header() {
                call = call.header("Range", range);
            }
            let response = call.call().map_err(|e| Error::network(format!("{url}: {e}")).with_source(e))?;
            let (parts, body) = response.into_parts();
            let header = |name: &str| parts.headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
            let body = HttpBody { url: url.to_owned(), reader: body.into_reader(), cancel: cancel.clone() };
            Ok(Reply::new(parts.status.as_u16(), header, crate::base::epoch_ms() as f64 / 1000.0, Box::new(body)))
        })
    }

    fn sleep(&self, ms: f64) -> LocalBoxFuture<'_, ()> {
        // Yields once, so that futures polled beside this one make progress before the thread sleeps.
        let mut first = true;
        Box::pin(std::future::poll_fn(move |cx| {
            if std::mem::take(&mut first) {
                cx.waker().wake_by_ref();
                return std::task::Poll::Pending;
            }
            std::thread::sleep(Duration::from_secs_f64(ms / 1000.0));
            std::task::Poll::Ready(())
        }))
    }
}

struct HttpBody {
    url: String,
    reader: ureq::BodyReader<'static>,
    cancel: Cancel,
}

impl Body for HttpBody {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            self.cancel.check()?;
            let mut piece = Vec::with_capacity(PIECE);
            let read = (&mut self.reader).take(PIECE as u64).read_to_end(&mut piece);
            let read = read.map_err(|e| {
                Error::network(format!("{}: the connection failed while reading ({e}); try again", self.url))
                    .with_source(e)
            })?;
            Ok((read > 0).then_some(piece))
        })
    }
}
