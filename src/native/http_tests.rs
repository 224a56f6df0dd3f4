//! Models of addresses, by this machine's own HTTP client, from a server on this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pollster::block_on;

use crate::base::Cancel;
use crate::engine::{Engine, LoadOptions, Origin, Stored};
use crate::error::{ErrorKind, Result};
use crate::source::http::HttpTransport;
use crate::source::transport::{Request, Transport as _};
use crate::source::{Files, Remote};
use crate::store::{Disk, DownloadOptions, Store, fetch, look_into};

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
    let mut out = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nETag: \"v1\"\r\nConnection: close\r\n\r\n")
        .into_bytes();
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
    for (name, kind) in
        [("missing", ErrorKind::NotFound), ("broken", ErrorKind::Network), ("truncated", ErrorKind::Network)]
    {
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
            let lines =
                BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok).take_while(|l| !l.is_empty());
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
    let (files, _) = block_on(fetch(
        &Remote::parse(&url).unwrap(),
        &store,
        Rc::new(HttpTransport::new()),
        options,
        &|_| (),
        &Cancel::new(),
    ))
    .unwrap();
    assert_eq!(block_on(files["model.gguf"].read(0, file.len())).unwrap(), file);
    assert_eq!(sent.load(Ordering::SeqCst), file.len(), "each byte once");
}

#[test]
fn nobody_there_is_a_network_error() {
    // No listener can bind the local port of an open connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let error =
        block_on(HttpTransport::new().get(Request::whole(&format!("http://127.0.0.1:{port}/a")), &Cancel::new()))
            .err()
            .unwrap();
    assert_eq!(error.kind(), ErrorKind::Network);
}

/// What a page does, natively: an address's model is loaded while it arrives, kept, and the next time read from where
/// it is kept; what a load would take is known from the header, and nothing is kept of it.
#[test]
fn an_address_is_planned_loaded_and_kept() {
    let file = std::fs::read(super::builtin_path().unwrap()).unwrap();
    let length = file.len() as u64;
    let (url, sent) = serve_ranges(file);
    let dir = tempfile::tempdir().unwrap();
    let origin = || {
        let store = Disk::open(dir.path()).unwrap();
        Origin::Remote(Stored {
            remote: Remote::parse(&url).unwrap(),
            store,
            transport: Rc::new(HttpTransport::new()),
            download: DownloadOptions::default(),
        })
    };
    let options = LoadOptions { context: Some(512), ..LoadOptions::default() };
    let plan = || {
        block_on(Engine::plan_load(&origin(), None, &options, crate::engine::Room::default(), &|_| (), &Cancel::new()))
            .unwrap()
    };
    let before = plan();
    assert_eq!((before.download.total, before.download.stored, before.download.missing), (length, 0, length));
    assert!(
        before.fit.fits && (sent.load(Ordering::SeqCst) as u64) < length / 4,
        "{} bytes of {length} for a header",
        sent.load(Ordering::SeqCst)
    );
    let fetched = sent.swap(0, Ordering::SeqCst);
    let load = || block_on(Engine::open(&origin(), &options, &|_| (), &Cancel::new())).unwrap();
    let (engine, storage) = load();
    assert!(engine.info().model.chat && storage.kind == "disk" && !storage.cached);
    assert!(sent.load(Ordering::SeqCst) as u64 >= length, "{fetched} bytes of the plan were not kept");
    engine.dispose();
    sent.store(0, Ordering::SeqCst);
    assert_eq!(plan().download.missing, 0);
    let (engine, storage) = load();
    assert!(storage.cached && sent.load(Ordering::SeqCst) == 0, "the second time nothing is asked for");
    engine.dispose();
}

/// A GGUF model's projector is a second file: it is planned, fetched and kept with the model, and reads a picture.
#[test]
fn an_address_with_a_projector() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/oracle/lfm2vl-gguf");
    let files =
        ["model.gguf", "mmproj-model.gguf"].map(|name| (format!("/{name}"), std::fs::read(folder.join(name)).unwrap()));
    let length = files.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
    let (base, asked) = serve(move |path| match files.iter().find(|(name, _)| name == path) {
        Some((_, bytes)) => reply("200 OK", bytes, bytes.len()),
        None => reply("404 Not Found", b"", 0),
    });
    let dir = tempfile::tempdir().unwrap();
    let open = |behind: &str| {
        let remote = Remote::parse(&format!("{base}/model.gguf{behind}")).unwrap();
        let (store, transport) = (Disk::open(dir.path()).unwrap(), Rc::new(HttpTransport::new()));
        let origin = Origin::Remote(Stored { remote, store, transport, download: DownloadOptions::default() });
        block_on(Engine::open(&origin, &LoadOptions::default(), &|_| (), &Cancel::new()))
    };
    let error = open("#mmproj=mmproj-none.gguf").err().unwrap();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("mmproj-none.gguf"), "{error}");
    let (engine, storage) = open("#mmproj=mmproj-model.gguf").unwrap();
    assert!(engine.info().model.pictures && !storage.cached);
    assert_eq!(engine.picture_tokens(64, 64).unwrap(), 66);
    engine.dispose();
    let before = asked.load(Ordering::SeqCst);
    // Its address alone names the stored model, with its projector.
    let (engine, storage) = open("").unwrap();
    assert!(engine.info().model.pictures && storage.cached && asked.load(Ordering::SeqCst) == before);
    engine.dispose();
    let entries = block_on(Disk::open(dir.path()).unwrap().list()).unwrap();
    assert_eq!(
        (entries.len(), entries[0].bytes, entries[0].url.as_str()),
        (1, length, format!("{base}/model.gguf").as_str())
    );
}

#[test]
fn what_is_no_model_is_not_kept() {
    let (base, _) = serve(|_| reply("200 OK", b"<!DOCTYPE html>", 15));
    let url = format!("{base}/a.gguf");
    let dir = tempfile::tempdir().unwrap();
    let store = Disk::open(dir.path()).unwrap();
    let stored = Stored {
        remote: Remote::parse(&url).unwrap(),
        store: store.clone(),
        transport: Rc::new(HttpTransport::new()),
        download: DownloadOptions::default(),
    };
    let error = block_on(Engine::open(&Origin::Remote(stored), &LoadOptions::default(), &|_| (), &Cancel::new()))
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::BadModel);
    assert!(error.message().contains(&url), "{error}");
    assert!(block_on(store.list()).unwrap().is_empty());
    let remote = Remote::parse(&url).unwrap();
    let kept = block_on(store.download(
        &remote,
        Rc::new(HttpTransport::new()),
        DownloadOptions::default(),
        &|_| (),
        &Cancel::new(),
    ));
    assert_eq!(kept.unwrap_err().kind(), ErrorKind::BadModel);
    assert!(block_on(store.list()).unwrap().is_empty());
}
