//! HTTP of the native command line, by ureq. Blocking: the command line has nothing else to do meanwhile.

use std::io::Read;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::transport::{Body, Reply, Transport};
use crate::error::{Error, Result};
use crate::stream::Cancel;

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
    fn get<'a>(&'a self, url: &'a str, cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            cancel.check()?;
            let response = self.agent.get(url).call().map_err(|e| Error::network(format!("{url}: {e}")).with_source(e))?;
            super::transport::check_status(response.status().as_u16(), url)?;
            let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
            let encoded = header("content-encoding").is_some_and(|v| v != "identity");
            let length = header("content-length").filter(|_| !encoded).and_then(|v| v.parse().ok());
            let etag = header("etag");
            let reader = response.into_body().into_reader();
            Ok(Reply { length, etag, body: Box::new(HttpBody { url: url.to_owned(), reader, cancel: cancel.clone() }) })
        })
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
            let read = read.map_err(|e| Error::network(format!("{}: the connection failed while reading ({e}); try again", self.url)).with_source(e))?;
            Ok((read > 0).then_some(piece))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::source::Remote;
    use crate::store::{DiskStore, fetch};
    use pollster::block_on;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A server that answers every path from `answer` (status line, headers, body) and counts what it was asked.
    fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(first)) = lines.next() else { continue };
                for line in lines.by_ref() {
                    if line.is_ok_and(|l| l.is_empty()) {
                        break;
                    }
                }
                count.fetch_add(1, Ordering::SeqCst);
                let path = first.split(' ').nth(1).unwrap_or("/").to_owned();
                // The client may hang up early; that is its business.
                let _ = stream.write_all(&answer(&path));
            }
        });
        (base, asked)
    }

    fn reply(status: &str, body: &[u8], length: usize) -> Vec<u8> {
        let mut out = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"v1\"\r\nConnection: close\r\n\r\n").into_bytes();
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn a_model_is_downloaded_once() {
        let body: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let sent = body.clone();
        let (base, asked) = serve(move |_| reply("200 OK", &sent, sent.len()));
        let dir = tempfile::tempdir().unwrap();
        let store = DiskStore::open(dir.path()).unwrap();
        let remote = Remote::parse(&format!("{base}/a.gguf")).unwrap();
        for cached in [false, true] {
            let (files, storage) = block_on(fetch(&remote, &store, &HttpTransport::new(), &|_| (), &Cancel::new())).unwrap();
            assert_eq!(storage.cached, cached);
            let source = &files["a.gguf"];
            assert_eq!(block_on(source.read(0, source.len() as usize)).unwrap(), body);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn failures_are_typed_and_leave_nothing() {
        let (base, _) = serve(|path| match path {
            "/missing.gguf" => reply("404 Not Found", b"no", 2),
            "/broken.gguf" => reply("503 Service Unavailable", b"no", 2),
            _ => reply("200 OK", b"short", 50),
        });
        let dir = tempfile::tempdir().unwrap();
        let store = DiskStore::open(dir.path()).unwrap();
        for (name, kind) in [("missing", ErrorKind::NotFound), ("broken", ErrorKind::Network), ("truncated", ErrorKind::Network)] {
            let url = format!("{base}/{name}.gguf");
            let error = block_on(fetch(&Remote::parse(&url).unwrap(), &store, &HttpTransport::new(), &|_| (), &Cancel::new())).err().unwrap();
            assert_eq!(error.kind(), kind, "{name}: {error}");
            assert!(error.message().contains(&url), "{error}");
        }
        let cancel = Cancel::new();
        cancel.cancel();
        let remote = Remote::parse(&format!("{base}/a.gguf")).unwrap();
        let error = block_on(fetch(&remote, &store, &HttpTransport::new(), &|_| (), &cancel)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Aborted);
        let store = DiskStore::open(dir.path()).unwrap();
        assert_eq!(block_on(crate::store::Store::usage(&store)).unwrap().used, 0);
    }

    #[test]
    fn nobody_there_is_a_network_error() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = block_on(HttpTransport::new().get(&format!("http://127.0.0.1:{port}/a"), &Cancel::new())).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Network);
    }
}
