//! A model that is loaded while it arrives: which bytes are requested, and when.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::path::Path;
use std::rc::Rc;
use std::task::Poll;

use futures_util::future::LocalBoxFuture;
use millrace::base::{Cancel, Phase};
use millrace::engine::{Engine, LoadOptions, Origin, Stored};
use millrace::source::transport::{Request, Version};
use millrace::source::{Body, Remote, Reply, Transport};
use millrace::store::{DownloadOptions, Memory};
use millrace::{ErrorKind, Result};
use pollster::block_on;

/// Bytes of a piece.
const PIECE: usize = 1 << 16;

/// Yields once, so that other tasks run first.
async fn moment() {
    let mut waited = false;
    poll_fn(move |cx| {
        if std::mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// A server of one file.
struct Server {
    file: Rc<Vec<u8>>,
    sent: Rc<Cell<usize>>,
}

struct Sends {
    file: Rc<Vec<u8>>,
    at: usize,
    end: usize,
    sent: Rc<Cell<usize>>,
}

impl Body for Sends {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
        Box::pin(async move {
            let piece = self.file[self.at..self.end.min(self.at + PIECE)].to_vec();
            self.at += piece.len();
            self.sent.set(self.sent.get() + piece.len());
            moment().await;
            Ok(Some(piece).filter(|piece| !piece.is_empty()))
        })
    }
}

impl Transport for Server {
    fn get<'a>(&'a self, request: Request<'a>, _: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
        let len = self.file.len();
        let (from, to) =
            request.range.map_or((0, len), |(from, to)| (from as usize, to.map_or(len, |to| (to as usize).min(len))));
        let header = move |name: &str| match name {
            "content-length" => Some((to - from).to_string()),
            "content-range" if request.range.is_some() => Some(format!("bytes {from}-{}/{len}", to - 1)),
            _ => None,
        };
        let body = Box::new(Sends { file: self.file.clone(), at: from, end: to, sent: self.sent.clone() });
        let reply = Reply {
            version: Version::default(),
            ..Reply::new(if request.range.is_some() { 206 } else { 200 }, header, 0.0, body)
        };
        Box::pin(async move { Ok(reply) })
    }

    fn sleep(&self, ms: f64) -> LocalBoxFuture<'_, ()> {
        Box::pin(async move {
            for _ in 0..ms as usize {
                moment().await;
            }
        })
    }
}

/// The bundled model with padding behind it, so that its header is read before the rest is requested.
fn server() -> Server {
    let mut file = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("www/models/box.gguf")).unwrap();
    file.resize(file.len() + (20 << 20), 0);
    Server { file: Rc::new(file), sent: Rc::default() }
}

/// Loads the server's model. Returns the bytes that had been sent when each phase was first reported.
fn load(server: Server, options: &LoadOptions) -> (Result<Engine>, Vec<(Phase, usize)>, usize) {
    let sent = server.sent.clone();
    let stored = Stored {
        remote: Remote::parse("https://example.test/box.gguf").unwrap(),
        store: Memory::store(),
        transport: Rc::new(server),
        download: DownloadOptions::default(),
    };
    let seen = RefCell::new(Vec::new());
    let progress = |report: millrace::base::Progress| {
        let mut seen: std::cell::RefMut<'_, Vec<(Phase, usize)>> = seen.borrow_mut();
        if report.loaded == report.total && seen.iter().all(|(phase, _)| *phase != report.phase) {
            seen.push((report.phase, sent.get()));
        }
    };
    let loaded = block_on(Engine::open(&Origin::Remote(stored), options, &progress, &Cancel::new()));
    (loaded.map(|(engine, _)| engine), seen.take(), sent.get())
}

/// Of a model that cannot be loaded only the header is requested. Otherwise the download continues at once: the network
/// does not wait for the tokenizer, the template and the kernels.
#[test]
fn a_model_is_fetched_once_it_is_known_that_it_can_be_loaded() {
    let all = server().file.len();
    let options = LoadOptions { context: Some(1 << 24), ..LoadOptions::default() };
    let (loaded, _, header) = load(server(), &options);
    let error = loaded.err().expect("a context that the model does not have");
    assert_eq!(error.kind(), ErrorKind::BadOption, "{error}");
    assert!(header < all / 4, "{header} of {all} bytes");
    let (loaded, seen, sent) = load(server(), &LoadOptions::default());
    assert!(loaded.is_ok() && sent >= all);
    let (_, read) = seen.iter().find(|(phase, _)| *phase == Phase::Read).expect("a report that the header is read");
    assert!(*read > header && *read < all, "{seen:?}: the header is {header} of {all} bytes");
}
