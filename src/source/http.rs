//! HTTP of the native command line, by ureq. Blocking: the command line has nothing else to do meanwhile.

use std::io::Read;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use super::transport::{Body, Reply, Request, Transport};
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
            Ok(Reply::new(parts.status.as_u16(), header, crate::store::epoch_ms() as f64 / 1000.0, Box::new(body)))
        })
    }

    fn sleep(&self, ms: f64) -> LocalBoxFuture<'_, ()> {
        // Whoever is polled beside it goes on first.
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
            let read = read.map_err(|e| Error::network(format!("{}: the connection failed while reading ({e}); try again", self.url)).with_source(e))?;
            Ok((read > 0).then_some(piece))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::source::{Files, Remote};
    use crate::store::{Disk, DownloadOptions, Store, fetch, look_into};
    use pollster::block_on;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::rc::Rc;
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

    fn download(url: &str, store: &Store, cancel: &Cancel) -> Result<(Files, crate::store::Storage)> {
        let remote = Remote::parse(url).unwrap();
        block_on(fetch(&remote, store, Rc::new(HttpTransport::new()), DownloadOptions::default(), &|_| (), cancel))
    }

    #[test]
    fn a_model_is_downloaded_once() {
        let body: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let sent = body.clone();
        let (base, asked) = serve(move |_| reply("200 OK", &sent, sent.len()));
        let dir = tempfile::tempdir().unwrap();
        let store = Disk::open(dir.path()).unwrap();
        for cached in [false, true] {
            let (files, storage) = download(&format!("{base}/a.gguf"), &store, &Cancel::new()).unwrap();
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
        let store = Disk::open(dir.path()).unwrap();
        for (name, kind) in [("missing", ErrorKind::NotFound), ("broken", ErrorKind::Network), ("truncated", ErrorKind::Network)] {
            let url = format!("{base}/{name}.gguf");
            let error = download(&url, &store, &Cancel::new()).err().unwrap();
            assert_eq!(error.kind(), kind, "{name}: {error}");
            assert!(error.message().contains(&url), "{error}");
        }
        let cancel = Cancel::new();
        cancel.cancel();
        let error = download(&format!("{base}/a.gguf"), &store, &cancel).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Aborted);
        let store = Disk::open(dir.path()).unwrap();
        assert_eq!(block_on(store.usage()).unwrap().used, 0);
    }

    /// A server of one file that answers ranges, and how many bytes it has sent.
    fn serve_ranges(file: Vec<u8>) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/model.gguf", listener.local_addr().unwrap());
        let sent = Arc::new(AtomicUsize::new(0));
        let count = sent.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok).take_while(|l| !l.is_empty());
                let range = lines.filter_map(|l| Some(l.to_lowercase().strip_prefix("range: bytes=")?.to_owned())).last();
                let Some((from, to)) = range.as_deref().and_then(|r| r.split_once('-')) else { continue };
                let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
                let body = &file[from..(to + 1).min(file.len())];
                count.fetch_add(body.len(), Ordering::SeqCst);
                let head = format!(
                    "HTTP/1.1 206 Partial Content\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{to}/{}\r\nConnection: close\r\n\r\n",
                    body.len(),
                    file.len()
                );
                let _ = stream.write_all(&[head.as_bytes(), body].concat());
            }
        });
        (url, sent)
    }

    fn look(url: &str) -> Result<Option<Files>> {
        block_on(look_into(&Remote::parse(url).unwrap(), Rc::new(HttpTransport::new()), &Cancel::new()))
    }

    #[test]
    fn of_a_url_only_what_is_asked_for_is_fetched() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf");
        let file = std::fs::read(path).unwrap();
        let (url, sent) = serve_ranges(file.clone());
        let files = look(&url).unwrap().expect("ranges");
        let checkpoint = block_on(crate::format::Checkpoint::open(&files)).unwrap();
        assert!(sent.load(Ordering::SeqCst) < file.len() / 10, "the header is read, the weights are not");
        let tensor = checkpoint.tensors.values().last().unwrap();
        let bytes = block_on(checkpoint.read(tensor, 0, 100)).unwrap();
        assert_eq!(bytes, file[tensor.offset as usize..][..100]);

        let whole = file.clone();
        let (base, _) = serve(move |_| reply("200 OK", &whole, whole.len()));
        assert!(look(&format!("{base}/a.gguf")).unwrap().is_none(), "this one must be downloaded");
        let (base, _) = serve(|_| reply("404 Not Found", b"no", 2));
        assert_eq!(look(&format!("{base}/a.gguf")).err().unwrap().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn ranges_in_shards() {
        let file: Vec<u8> = (0..300_000u32).map(|i| ((i * 7) >> 3) as u8).collect();
        let (url, sent) = serve_ranges(file.clone());
        let dir = tempfile::tempdir().unwrap();
        let store = Disk::open(dir.path()).unwrap();
        let options = DownloadOptions { shard: 65_536, ..DownloadOptions::default() };
        let (files, _) = block_on(fetch(&Remote::parse(&url).unwrap(), &store, Rc::new(HttpTransport::new()), options, &|_| (), &Cancel::new())).unwrap();
        assert_eq!(block_on(files["model.gguf"].read(0, file.len())).unwrap(), file);
        assert_eq!(sent.load(Ordering::SeqCst), file.len(), "each byte once");
    }

    #[test]
    fn nobody_there_is_a_network_error() {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let error = block_on(HttpTransport::new().get(Request::whole(&format!("http://127.0.0.1:{port}/a")), &Cancel::new())).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Network);
    }
}
