//! HTTP of the native command line, by ureq. Blocking: the command line has nothing else to do meanwhile.

use std::io::Read;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;

use std::rc::Rc;

use super::spec::{names, remote_parts};
use super::transport::{Body, Reply, Request, Transport};
use super::{ByteSource, Files, Remote, Weights, check_range};
use crate::error::{Error, ErrorKind, Result};
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

/// A file on a server that answers ranges: only what is read is fetched.
struct RangeSource {
    agent: ureq::Agent,
    url: String,
    name: String,
    len: u64,
    /// The file's beginning, where its length had to be asked for.
    head: Vec<u8>,
}

/// Bytes that are fetched to learn a file's length.
const HEAD: u64 = 256 << 10;

impl RangeSource {
    /// Asks for the beginning of `url`; `None` where the server answers with the whole file instead.
    fn open(agent: &ureq::Agent, url: &str, name: &str) -> Result<Option<Self>> {
        let (total, head) = match range(agent, url, 0, HEAD)? {
            Some((total, body)) => (total, body),
            None => return Ok(None),
        };
        Ok(Some(Self { agent: agent.clone(), url: url.into(), name: name.into(), len: total, head }))
    }
}

/// The length of the file at `url` and its bytes from `from` on, `len` at most; `None` where the server answers no ranges.
fn range(agent: &ureq::Agent, url: &str, from: u64, len: u64) -> Result<Option<(u64, Vec<u8>)>> {
    let request = agent.get(url).header("Range", format!("bytes={from}-{}", from + len.max(1) - 1));
    let response = request.call().map_err(|e| Error::network(format!("{url}: {e}")).with_source(e))?;
    super::transport::check_status(response.status().as_u16(), url)?;
    let total = response.headers().get("content-range").and_then(|v| v.to_str().ok()?.rsplit_once('/')?.1.parse().ok());
    let (206, Some(total)) = (response.status().as_u16(), total) else { return Ok(None) };
    let mut body = Vec::new();
    let mut reader = response.into_body().into_reader().take(len);
    reader.read_to_end(&mut body).map_err(|e| Error::network(format!("{url}: the connection failed while reading ({e}); try again")).with_source(e))?;
    Ok(Some((total, body)))
}

impl ByteSource for RangeSource {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.len, offset, len)?;
            if let Some(bytes) = usize::try_from(offset).ok().and_then(|at| self.head.get(at..at + len)) {
                return Ok(bytes.to_vec());
            }
            match range(&self.agent, &self.url, offset, len as u64)? {
                Some((_, bytes)) if bytes.len() == len => Ok(bytes),
                _ => Err(Error::network(format!("{}: the server did not answer with the {len} bytes from {offset} on; try again", self.url))),
            }
        })
    }
}

/// The files of `remote` without downloading them; `None` where the server answers no ranges.
pub async fn open_ranges(remote: &Remote) -> Result<Option<Files>> {
    let agent = HttpTransport::new().agent;
    let (mut files, mut whole, mut shards) = (Files::new(), false, Vec::new());
    let mut add = |name: &str, url: &str, optional: bool| -> Result<Option<Rc<dyn ByteSource>>> {
        match RangeSource::open(&agent, url, name) {
            Ok(Some(source)) => {
                let source: Rc<dyn ByteSource> = Rc::new(source);
                files.insert(name.to_owned(), source.clone());
                Ok(Some(source))
            }
            Ok(None) => {
                whole = true;
                Err(Error::network(format!("{url}: the server does not answer ranges")))
            }
            Err(e) if optional && e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    };
    let found = async {
        match remote {
            Remote::File { url } => {
                for (name, url) in remote_parts(url) {
                    add(&name, &url, false)?;
                }
            }
            Remote::Folder { base, query, weights } => {
                let url = |name: &str| format!("{base}{name}{query}");
                if *weights == Weights::Shards {
                    let source = add(names::MANIFEST, &url(names::MANIFEST), false)?;
                    let Some(source) = source else { return Ok(()) };
                    // Their lengths are known: nothing of them is fetched before it is read.
                    for file in crate::format::manifest::read(&source).await?.files() {
                        let source = RangeSource { agent: agent.clone(), url: url(&file.file), name: file.file.clone(), len: file.bytes, head: Vec::new() };
                        shards.push(source);
                    }
                    return Ok(());
                }
                for (name, optional) in names::BESIDE_WEIGHTS {
                    add(name, &url(name), optional)?;
                }
                let single = *weights != Weights::Indexed && add(names::WEIGHTS, &url(names::WEIGHTS), *weights == Weights::Any)?.is_some();
                if !single && let Some(index) = add(names::INDEX, &url(names::INDEX), false)? {
                    let index = index.read(0, index.len() as usize).await?;
                    for shard in crate::store::download::shards(&index)? {
                        add(&shard, &url(&shard), false)?;
                    }
                }
            }
        }
        Ok::<_, Error>(())
    };
    match found.await {
        Ok(()) => {
            files.extend(shards.into_iter().map(|source| (source.name.clone(), Rc::new(source) as Rc<dyn ByteSource>)));
            Ok(Some(files))
        }
        Err(_) if whole => Ok(None),
        Err(e) => Err(e),
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
    use crate::store::{Disk, DownloadOptions, Store, fetch};
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

    #[test]
    fn of_a_url_only_what_is_asked_for_is_fetched() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf");
        let file = std::fs::read(path).unwrap();
        let (url, sent) = serve_ranges(file.clone());
        let files = block_on(open_ranges(&Remote::parse(&url).unwrap())).unwrap().expect("ranges");
        let checkpoint = block_on(crate::format::Checkpoint::open(&files)).unwrap();
        assert!(sent.load(Ordering::SeqCst) < file.len() / 10, "the header is read, the weights are not");
        let tensor = checkpoint.tensors.values().last().unwrap();
        let bytes = block_on(checkpoint.read(tensor, 0, 100)).unwrap();
        assert_eq!(bytes, file[tensor.offset as usize..][..100]);

        let whole = file.clone();
        let (base, _) = serve(move |_| reply("200 OK", &whole, whole.len()));
        assert!(block_on(open_ranges(&Remote::parse(&format!("{base}/a.gguf")).unwrap())).unwrap().is_none(), "this one must be downloaded");
        let (base, _) = serve(|_| reply("404 Not Found", b"no", 2));
        assert_eq!(block_on(open_ranges(&Remote::parse(&format!("{base}/a.gguf")).unwrap())).err().unwrap().kind(), ErrorKind::NotFound);
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
