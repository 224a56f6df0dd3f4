//! Downloads from a server in a table that misbehaves on demand.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, join};
use pollster::block_on;

use super::{DownloadOptions, Prepared, fetch, prepare};
use crate::base::{Cancel, Event, Progress};
use crate::error::{Error, ErrorKind, Result};
use crate::format::manifest::sha256;
use crate::source::spec::names;
use crate::source::transport::{Body, Reply, Request, Transport};
use crate::source::{Files, Remote};
use crate::store::suite::bytes;
use crate::store::{Memory, ModelKey, Storage, Store};

/// What is wrong with one answer.
#[derive(Clone, Debug)]
enum Fault {
    /// Nothing.
    Fine,
    /// This status, and how long to wait, s.
    Status(u16, Option<&'static str>),
    /// No connection.
    Down,
    /// The connection ends after this many bytes.
    Cut(usize),
    /// The connection fails after this many bytes.
    Reset(usize),
    /// One bit is another.
    Damaged,
    /// Another range than asked for.
    Shifted,
    /// More bytes than asked for.
    Longer,
    /// Another version.
    Version(&'static str),
    /// The whole file, status 200.
    Whole,
    /// The whole file, compressed, which shows.
    Zipped,
    /// The caller aborts after this many pieces.
    Abort(usize),
}

#[derive(Default)]
struct Table {
    files: RefCell<HashMap<String, Vec<u8>>>,
    /// What becomes of the answers, in order; afterwards all is fine.
    faults: RefCell<VecDeque<Fault>>,
    ranges: Cell<bool>,
    /// Whether headers that other origins do not see are hidden.
    hidden: Cell<bool>,
    version: Cell<&'static str>,
    asked: RefCell<Vec<String>>,
    sent: Rc<Cell<u64>>,
    slept: RefCell<Vec<f64>>,
    /// Connections that it takes at a time, and what the others get; 0: any number.
    most: Cell<usize>,
    refusal: Cell<(u16, Option<&'static str>)>,
    /// Open connections, and the peak.
    open: Rc<Cell<usize>>,
    peak: Cell<usize>,
    refused: Cell<usize>,
    /// How many checks find the network offline before it is online.
    offline: Cell<usize>,
    cancel: Cancel,
}

struct Pieces {
    left: VecDeque<Vec<u8>>,
    fails: bool,
    sent: Rc<Cell<u64>>,
    abort: Option<(usize, Cancel)>,
    open: Rc<Cell<usize>>,
    /// Whether each piece takes a moment, in which other connections go on.
    slow: bool,
}

impl Drop for Pieces {
    fn drop(&mut self) {
        self.open.set(self.open.get() - 1);
    }
}

/// Yields once, so that every other task is polled.
async fn moment() {
    let mut first = true;
    std::future::poll_fn(move |cx| {
        if !std::mem::take(&mut first) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

impl Body for Pieces {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
        if let Some((left, cancel)) = &mut self.abort {
            match left {
                0 => cancel.cancel(),
                _ => *left -= 1,
            }
        }
        let piece = self.left.pop_front();
        self.sent.set(self.sent.get() + piece.as_ref().map_or(0, |p| p.len() as u64));
        let fails = piece.is_none() && self.fails;
        let slow = self.slow;
        Box::pin(async move {
            if slow {
                moment().await;
            }
            if fails { Err(Error::network("reset")) } else { Ok(piece) }
        })
    }
}

impl Transport for Table {
    fn get<'a>(&'a self, request: Request<'a>, _cancel: &'a Cancel) -> LocalBoxFuture<'a, Result<Reply>> {
        Box::pin(async move {
            let range = request.range.filter(|_| self.ranges.get());
            self.asked.borrow_mut().push(format!(
                "{}{}",
                request.url,
                request.range_header().map_or_else(String::new, |r| format!(" {r}"))
            ));
            let fault = self.faults.borrow_mut().pop_front().unwrap_or(Fault::Fine);
            let file = self.files.borrow().get(request.url).cloned();
            let mut status = if file.is_none() { 404 } else { 200 };
            let mut file = file.unwrap_or_default();
            let (mut from, mut to) = (0, file.len());
            let mut version = self.version.get();
            let mut retry_after = None;
            let mut encoded = false;
            let full = self.most.get() > 0 && self.open.get() >= self.most.get();
            let fault = if full {
                self.refused.set(self.refused.get() + 1);
                let (status, wait) = self.refusal.get();
                if status == 0 { Fault::Down } else { Fault::Status(status, wait) }
            } else {
                fault
            };
            let use_range = !matches!(fault, Fault::Whole | Fault::Zipped);
            if let Some((first, behind)) = range.filter(|_| status == 200 && use_range) {
                (from, to) = (first as usize, behind.map_or(to, |behind| to.min(behind as usize)));
                status = if from < file.len() { 206 } else { 416 };
            }
            match fault {
                Fault::Down => return Err(Error::network(format!("{}: no server", request.url))),
                Fault::Status(other, wait) => (status, retry_after) = (other, wait),
                Fault::Damaged => file[from] ^= 1,
                Fault::Shifted => (from, to) = (from + 1, to + 1),
                Fault::Longer => to += 1,
                Fault::Version(other) => version = other,
                Fault::Zipped => encoded = true,
                _ => (),
            }
            let body = file.get(from..to.min(file.len())).unwrap_or_default().to_vec();
            let (announced, total) = (body.len(), file.len());
            let (sent, fails) = match fault {
                Fault::Cut(n) => (&body[..n.min(body.len())], false),
                Fault::Reset(n) => (&body[..n.min(body.len())], true),
                _ => (&body[..], false),
            };
            let abort = if let Fault::Abort(after) = fault { Some((after, self.cancel.clone())) } else { None };
            self.open.set(self.open.get() + 1);
            if !full {
                self.peak.set(self.peak.get().max(self.open.get()));
            }
            let slow = self.most.get() > 0;
            let left = sent.chunks(1000).map(<[u8]>::to_vec).collect();
            let pieces = Pieces { left, fails, sent: self.sent.clone(), abort, open: self.open.clone(), slow };
            let header = |name: &str| match name {
                "content-length" => Some(announced.to_string()),
                "content-range" if status == 206 && !self.hidden.get() => {
                    Some(format!("bytes {from}-{}/{total}", from + announced - 1))
                }
                "content-encoding" if encoded => Some("gzip".to_owned()),
                "etag" if !self.hidden.get() && !version.is_empty() => Some(version.to_owned()),
                "last-modified" if self.hidden.get() => Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
                "retry-after" => retry_after.map(str::to_owned),
                _ => None,
            };
            Ok(Reply::new(status, header, 0.0, Box::new(pieces)))
        })
    }

    fn sleep(&self, ms: f64) -> LocalBoxFuture<'_, ()> {
        // A wait of half a second at once is the poll for another's download: there is none in these tests.
        if ms >= 500.0 {
            return Box::pin(std::future::pending());
        }
        self.slept.borrow_mut().push(ms);
        Box::pin(moment())
    }

    fn is_online(&self) -> bool {
        let left = self.offline.get();
        self.offline.set(left.saturating_sub(1));
        left == 0
    }

    fn random(&self) -> f64 {
        0.5
    }
}

const BASE: &str = "https://e.org/m/";
const SHARD: u64 = 10_000;

fn table(files: &[(&str, Vec<u8>)]) -> Rc<Table> {
    let table = Table {
        files: RefCell::new(files.iter().map(|(n, b)| (format!("{BASE}{n}"), b.clone())).collect()),
        ..Table::default()
    };
    table.ranges.set(true);
    table.version.set("\"v1\"");
    Rc::new(table)
}

fn options(connections: usize) -> DownloadOptions {
    DownloadOptions { connections, shard: SHARD, ..DownloadOptions::default() }
}

fn get_with(store: &Store, table: &Rc<Table>, name: &str, options: DownloadOptions) -> Result<(Files, Storage)> {
    block_on(fetch(
        &Remote::parse(&format!("{BASE}{name}")).unwrap(),
        store,
        table.clone(),
        options,
        &|_| (),
        &table.cancel,
    ))
}

fn get(store: &Store, table: &Rc<Table>, name: &str) -> Result<(Files, Storage)> {
    get_with(store, table, name, options(3))
}

fn content(files: &Files, name: &str) -> Vec<u8> {
    block_on(files[name].read(0, files[name].len() as usize)).unwrap()
}

fn folder() -> Vec<(&'static str, Vec<u8>)> {
    let index = br#"{"metadata":{"total_size":1},"weight_map":{"a":"model-00002-of-00002.safetensors","b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"}}"#;
    vec![
        ("config.json", b"{}".to_vec()),
        ("tokenizer.json", bytes(1, 5000)),
        ("generation_config.json", b"{}".to_vec()),
        (names::INDEX, index.to_vec()),
        ("model-00001-of-00002.safetensors", bytes(2, 32_345)),
        ("model-00002-of-00002.safetensors", bytes(3, 1)),
    ]
}

#[test]
fn one_file_once_in_shards() {
    for (ranges, hidden) in [(true, false), (true, true), (false, false), (false, true)] {
        for length in [0, 1, 9_999, 10_000, 10_001, 45_678] {
            let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, length))]));
            table.ranges.set(ranges);
            table.hidden.set(hidden);
            let (files, storage) = get(&store, &table, "a.gguf").unwrap();
            assert!(!storage.cached);
            assert_eq!(content(&files, "a.gguf"), bytes(1, length), "{ranges} {hidden} {length}");
            assert!(
                table.sent.get() <= length as u64,
                "{ranges} {hidden} {length}: each byte once, {} were sent",
                table.sent.get()
            );
            let asked = table.asked.borrow().len();
            assert!(get(&store, &table, "a.gguf").unwrap().1.cached);
            assert_eq!(table.asked.borrow().len(), asked, "no request for what is stored");
        }
    }
}

#[test]
fn what_is_fetched_is_reported() {
    let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, 45_678))]));
    let reports = RefCell::new(Vec::new());
    let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
    block_on(fetch(&remote, &store, table, options(2), &|p: Progress| reports.borrow_mut().push(p), &Cancel::new()))
        .unwrap();
    let reports = reports.into_inner();
    assert!(reports.windows(2).all(|w| w[0].loaded <= w[1].loaded), "it never falls");
    let last = reports.last().unwrap();
    assert_eq!((last.loaded, last.total, last.cached), (45_678, 45_678, false));
    assert!(last.reason.is_some(), "memory says that it does not last");
}

#[test]
fn what_passes_is_tried_again() {
    let whole = bytes(1, 45_678);
    let cases: &[(&str, &[Fault])] = &[
        ("status 500 once", &[Fault::Status(500, None)]),
        ("down twice", &[Fault::Down, Fault::Down]),
        ("429 with Retry-After", &[Fault::Status(429, Some("1"))]),
        ("a shard is cut off", &[Fault::Fine, Fault::Cut(3_500)]),
        ("a shard is reset", &[Fault::Reset(2_000), Fault::Reset(1_000), Fault::Fine, Fault::Reset(0)]),
        ("another range", &[Fault::Fine, Fault::Shifted]),
        ("a longer range", &[Fault::Fine, Fault::Longer]),
        ("ranges stop to work", &[Fault::Fine, Fault::Whole]),
        ("compressed", &[Fault::Fine, Fault::Zipped]),
        ("another version for a moment", &[Fault::Fine, Fault::Version("\"v2\"")]),
        (
            "many failures, with bytes between them",
            &[Fault::Reset(1_000), Fault::Reset(1_000), Fault::Reset(1_000), Fault::Reset(1_000), Fault::Reset(1_000)],
        ),
    ];
    for (name, faults) in cases {
        for ranges in [true, false] {
            // Without ranges each attempt starts over: one that ends at the same byte again and again makes no
            // progress.
            if !ranges && name.starts_with("many failures") {
                continue;
            }
            let (store, table) = (Memory::store(), table(&[("a.gguf", whole.clone())]));
            table.ranges.set(ranges);
            table.faults.replace(faults.iter().cloned().collect());
            let (files, _) = get(&store, &table, "a.gguf").unwrap_or_else(|e| panic!("{name}, ranges {ranges}: {e}"));
            assert_eq!(content(&files, "a.gguf"), whole, "{name}, ranges {ranges}");
        }
    }
}

#[test]
fn waits_grow_and_follow_the_server() {
    let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, 500))]));
    table.faults.replace([Fault::Down, Fault::Status(503, None), Fault::Status(429, Some("3"))].into());
    get(&store, &table, "a.gguf").unwrap();
    assert_eq!(table.slept.borrow().iter().sum::<f64>().round(), 550.0 + 1100.0 + 3000.0);
}

#[test]
fn what_does_not_pass_ends_it() {
    let always = |fault: Fault| vec![fault; 50];
    let cases: &[(&str, Vec<Fault>, ErrorKind, usize)] = &[
        ("gone", always(Fault::Status(404, None)), ErrorKind::NotFound, 1),
        ("forbidden", always(Fault::Status(403, None)), ErrorKind::Network, 1),
        ("token", always(Fault::Status(401, None)), ErrorKind::Network, 1),
        ("teapot", always(Fault::Status(418, None)), ErrorKind::Network, 1),
        ("down", always(Fault::Down), ErrorKind::Network, 5),
        ("down for ranges", [Fault::Down, Fault::Down, Fault::Status(403, None)].into(), ErrorKind::Network, 3),
        ("busy", always(Fault::Status(503, None)), ErrorKind::Network, 5),
        ("empty", always(Fault::Cut(0)), ErrorKind::Network, 6),
    ];
    for (name, faults, kind, requests) in cases {
        let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, 5_000))]));
        table.faults.replace(faults.iter().cloned().collect());
        let error = get(&store, &table, "a.gguf").err().unwrap();
        assert_eq!(error.kind(), *kind, "{name}: {error}");
        assert!(error.message().contains("https://e.org/m/a.gguf"), "{name}: {error}");
        assert!(table.asked.borrow().len() <= *requests, "{name}: {:?}", table.asked.borrow());
        assert!(block_on(store.list()).unwrap().is_empty(), "{name}: nothing has arrived, nothing is listed");
    }
}

#[test]
fn what_changes_again_and_again_ends_it() {
    let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, 50_000))]));
    let versions =
        ["\"a\"", "\"b\"", "\"c\"", "\"d\"", "\"e\"", "\"f\"", "\"g\"", "\"h\"", "\"i\"", "\"j\"", "\"k\"", "\"l\""];
    table.faults.replace(versions.map(Fault::Version).into());
    let error = get(&store, &table, "a.gguf").err().unwrap();
    assert!(error.kind() == ErrorKind::Network && error.message().contains("again and again"), "{error}");
}

#[test]
fn an_aborted_download_is_gone_on_with() {
    let whole = bytes(1, 95_000);
    let store = Memory::store();
    let first = table(&[("a.gguf", whole.clone())]);
    first.faults.replace([Fault::Fine, Fault::Fine, Fault::Fine, Fault::Fine, Fault::Abort(4)].into());
    let error = get_with(&store, &first, "a.gguf", options(1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Aborted);
    let entry = block_on(store.list()).unwrap().remove(0);
    assert!(!entry.complete && entry.bytes == 44_000 && entry.total == Some(95_000), "{entry:?}");

    let second = table(&[("a.gguf", whole.clone())]);
    let (files, _) = get(&store, &second, "a.gguf").unwrap();
    assert_eq!(content(&files, "a.gguf"), whole);
    assert_eq!(second.sent.get(), 51_000, "only what was missing");

    // On the server it is another one by then.
    for other in [bytes(9, 95_000), bytes(9, 30_000), bytes(9, 120_000)] {
        let store = Memory::store();
        let first = table(&[("a.gguf", whole.clone())]);
        first.faults.replace([Fault::Fine, Fault::Fine, Fault::Abort(4)].into());
        get_with(&store, &first, "a.gguf", options(1)).err().unwrap();
        let second = table(&[("a.gguf", other.clone())]);
        second.version.set("\"v2\"");
        let (files, _) = get(&store, &second, "a.gguf").unwrap();
        assert!(content(&files, "a.gguf") == other, "it begins anew and is not mixed");
    }
}

#[test]
fn files_that_are_there_are_asked_whether_they_are_still_the_same() {
    for changed in [false, true] {
        let store = Memory::store();
        let first = table(&folder());
        first.faults.replace([vec![Fault::Fine; 10], vec![Fault::Abort(0)]].concat().into());
        assert_eq!(get_with(&store, &first, "", options(1)).err().unwrap().kind(), ErrorKind::Aborted);
        let mut files = folder();
        if changed {
            files[1].1 = bytes(77, 5000);
        }
        let second = table(&files);
        second.version.set(if changed { "\"v2\"" } else { "\"v1\"" });
        let (files, _) = get(&store, &second, "").unwrap();
        assert_eq!(content(&files, "tokenizer.json") == bytes(77, 5000), changed);
        let again = second.asked.borrow().iter().any(|url| url.ends_with("tokenizer.json"));
        assert_eq!(again, changed, "{:?}", second.asked.borrow());
    }
}

#[test]
fn what_is_damaged_in_the_store_is_fetched_again_alone() {
    let whole = bytes(1, 45_678);
    let memory = Memory::default();
    let store = Store::new(memory.clone());
    get(&store, &table(&[("a.gguf", whole.clone())]), "a.gguf").unwrap();
    let id = block_on(crate::store::Medium::folders(&memory)).unwrap().remove(0);
    memory.bytes(&id, "0.2").unwrap().borrow_mut()[77] ^= 4;
    let again = table(&[("a.gguf", whole.clone())]);
    assert_ne!(content(&get(&store, &again, "a.gguf").unwrap().0, "a.gguf"), whole, "no verification was asked for");
    let verify = DownloadOptions { verify: true, ..options(3) };
    let (files, _) = get_with(&store, &again, "a.gguf", verify.clone()).unwrap();
    assert_eq!(content(&files, "a.gguf"), whole);
    let asked = again.asked.borrow().clone();
    assert_eq!(asked, ["https://e.org/m/a.gguf bytes=20000-29999"]);
    memory.bytes(&id, "0.3").unwrap().borrow_mut().clear();
    assert_eq!(
        content(&get(&store, &again, "a.gguf").unwrap().0, "a.gguf"),
        whole,
        "what has become shorter is noticed anyway"
    );
    assert!(get_with(&store, &again, "a.gguf", verify).unwrap().1.cached);
}

#[test]
fn a_shard_with_a_known_hash_that_arrives_damaged_is_fetched_once_more() {
    let whole = bytes(1, 45_678);
    let hf = "https://huggingface.co/a/b/resolve/main/m.gguf";
    let list = |length: usize, of: &[u8]| {
        let sha256 = sha256(of);
        format!(r#"[{{"type":"file","oid":"1","size":1,"path":"m.gguf","lfs":{{"oid":"{sha256}","size":{length},"pointerSize":1}}}}]"#).into_bytes()
    };
    let served = |list: Vec<u8>| {
        let table = table(&[]);
        table.files.borrow_mut().insert(hf.to_owned(), whole.clone());
        table.files.borrow_mut().insert("https://huggingface.co/api/models/a/b/tree/main".to_owned(), list);
        table
    };
    let load = |store: &Store, table: &Rc<Table>| {
        block_on(fetch(&Remote::parse(hf).unwrap(), store, table.clone(), options(2), &|_| (), &Cancel::new()))
    };
    let good = served(list(whole.len(), &whole));
    good.faults.replace([Fault::Fine, Fault::Damaged].into());
    assert_eq!(content(&load(&Memory::store(), &good).unwrap().0, "m.gguf"), whole);
    assert_eq!(good.asked.borrow().len(), 3, "the list, the file, the file again: {:?}", good.asked.borrow());

    let other = served(list(whole.len(), b"something else"));
    let error = load(&Memory::store(), &other).err().unwrap();
    assert!(error.kind() == ErrorKind::BadModel && error.message().contains("SHA-256"), "{error}");
    assert!(load(&Memory::store(), &served(b"<html>".to_vec())).is_ok(), "without a list there is nothing to compare");
}

#[test]
fn a_folder_with_an_index() {
    let (store, table) = (Memory::store(), table(&folder()));
    let (files, _) = get(&store, &table, "").unwrap();
    let expected = folder().iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(files.keys().collect::<Vec<_>>(), expected);
    for (name, bytes) in folder() {
        assert_eq!(content(&files, name), bytes, "{name}");
    }
}

/// What says how pictures are cut is fetched with models that read them, and not asked for with others.
#[test]
fn a_folder_that_reads_pictures() {
    let more = names::PICTURES.map(|name| (name, b"{}".to_vec()));
    for (config, sees) in [(r#"{"vision_config":{}}"#, true), ("{}", false), (r#"{"vision_config":null}"#, false)] {
        let mut files = folder();
        files[0].1 = config.as_bytes().to_vec();
        let (files, _) = get(&Memory::store(), &table(&[files, more.to_vec()].concat()), "").unwrap();
        assert!(names::PICTURES.iter().all(|name| files.contains_key(*name) == sees), "{config}");
    }
}

const WITH_EYES: &str = "a.gguf#mmproj=mmproj-a.gguf";

fn with_eyes() -> Rc<Table> {
    table(&[("a.gguf", bytes(1, 25_000)), ("mmproj-a.gguf", bytes(2, 15_000)), ("mmproj-b.gguf", bytes(3, 5_000))])
}

/// The projector is a part of the model: under its address, fetched with it, removed with it.
#[test]
fn a_projector_is_kept_with_its_model() {
    for ranges in [true, false] {
        let (store, table) = (Memory::store(), with_eyes());
        table.ranges.set(ranges);
        let (files, _) = get(&store, &table, WITH_EYES).unwrap();
        assert_eq!(files.keys().collect::<Vec<_>>(), ["a.gguf", "mmproj-a.gguf"]);
        assert_eq!(
            (content(&files, "a.gguf"), content(&files, "mmproj-a.gguf")),
            (bytes(1, 25_000), bytes(2, 15_000)),
            "ranges: {ranges}"
        );
        let entries = block_on(store.list()).unwrap();
        assert_eq!(entries.len(), 1);
        assert_eq!(
            (entries[0].url.as_str(), entries[0].bytes, entries[0].complete),
            ("https://e.org/m/a.gguf", 40_000, true)
        );
        let asked = table.asked.borrow().len();
        assert!(
            get(&store, &table, WITH_EYES).unwrap().1.cached && get(&store, &table, "a.gguf").unwrap().0.len() == 2
        );
        assert_eq!(table.asked.borrow().len(), asked, "no request for what is stored");
        block_on(store.remove(&ModelKey::new(format!("{BASE}a.gguf")))).unwrap();
        assert!(block_on(store.list()).unwrap().is_empty());
    }
}

/// A model that is stored without it gets it alone; one of several is the one that was asked for.
#[test]
fn a_projector_comes_later() {
    let (store, table) = (Memory::store(), with_eyes());
    get(&store, &table, "a.gguf").unwrap();
    let sent = table.sent.get();
    assert_eq!(get(&store, &table, WITH_EYES).unwrap().0.len(), 2);
    // A byte of the model says that it is the same one; the projector's first tells its length.
    assert!((15_000..=15_002).contains(&(table.sent.get() - sent)), "{} bytes were sent", table.sent.get() - sent);
    for (eyes, name) in [("a.gguf#mmproj=mmproj-b.gguf", "mmproj-b.gguf"), (WITH_EYES, "mmproj-a.gguf")] {
        assert_eq!(get(&store, &table, eyes).unwrap().0.keys().collect::<Vec<_>>(), ["a.gguf", name]);
    }
    assert_eq!(block_on(store.list()).unwrap()[0].bytes, 45_000);
}

/// What cannot be added takes nothing away.
#[test]
fn a_projector_that_does_not_come() {
    let (store, table) = (Memory::store(), with_eyes());
    get(&store, &table, "a.gguf").unwrap();
    let error = get(&store, &table, "a.gguf#mmproj=mmproj-none.gguf").err().unwrap();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("mmproj-none.gguf"), "{error}");
    let asked = table.asked.borrow().len();
    let (files, storage) = get(&store, &table, "a.gguf").unwrap();
    assert!(storage.cached && files.len() == 1 && table.asked.borrow().len() == asked, "it is whole as it was");
    // Its second request for the projector fails before a byte of it: what is noted of it is nothing.
    table.faults.replace([vec![Fault::Fine; 2], vec![Fault::Status(403, None); 20]].concat().into());
    assert!(get(&store, &table, WITH_EYES).is_err());
    table.faults.take();
    let entry = block_on(store.list()).unwrap().remove(0);
    assert!(entry.complete && entry.bytes == 25_000 && entry.files.len() == 1, "{entry:?}");
    assert_eq!(block_on(store.shard_names(&ModelKey::new(format!("{BASE}a.gguf")))).unwrap().unwrap().1.len(), 1);
    assert_eq!(get(&store, &table, WITH_EYES).unwrap().0.len(), 2, "and the next time it comes");
}

/// An interrupted projector download resumes; a load without the projector has the model without it.
#[test]
fn a_projector_that_came_in_part() {
    for wanted in [true, false] {
        let (store, first) = (Memory::store(), with_eyes());
        get(&store, &first, "a.gguf").unwrap();
        first.faults.replace([Fault::Fine, Fault::Fine, Fault::Fine, Fault::Abort(2)].into());
        assert_eq!(get_with(&store, &first, WITH_EYES, options(1)).err().unwrap().kind(), ErrorKind::Aborted);
        let there = block_on(store.list()).unwrap().remove(0).bytes;
        assert!(there > 25_000 && there < 40_000, "{there}");
        let second = with_eyes();
        let files = get(&store, &second, if wanted { WITH_EYES } else { "a.gguf" }).unwrap().0;
        assert_eq!(files.len(), if wanted { 2 } else { 1 });
        let most = if wanted { 40_000 - there + 3 } else { 1 };
        assert!(second.sent.get() <= most, "{} bytes were sent", second.sent.get());
        if wanted {
            assert_eq!(content(&files, "mmproj-a.gguf"), bytes(2, 15_000));
        }
    }
}

/// As sentence-transformers has it: the configurations of modules lie in folders, which names here do not have.
#[test]
fn a_folder_with_modules() {
    let modules =
        br#"[{"path":"","type":"a.Transformer"},{"path":"1_Pooling","type":"a.Pooling"},{"path":"2_Dense","type":"a.Dense"},{"path":"3_Normalize","type":"a.Normalize"}]"#;
    let dense = ("2_Dense/model.safetensors", bytes(5, 70_000));
    let more = [
        (names::MODULES, modules.to_vec()),
        (names::SENTENCE_CONFIG, b"{}".to_vec()),
        ("1_Pooling/config.json", bytes(4, 300)),
        dense,
    ];
    let (store, table) = (Memory::store(), table(&[folder(), more.to_vec()].concat()));
    let (files, _) = get(&store, &table, "").unwrap();
    assert_eq!(content(&files, "1_Pooling_config.json"), bytes(4, 300));
    assert_eq!(content(&files, "2_Dense_model.safetensors"), bytes(5, 70_000));
    assert!(files.contains_key(names::SENTENCE_CONFIG) && !files.contains_key("3_Normalize_config.json"));
    // Names that lead elsewhere are refused.
    let astray = br#"[{"path":"../x","type":"a.Pooling"}]"#;
    let table = self::table(&[folder(), vec![(names::MODULES, astray.to_vec())]].concat());
    assert_eq!(get(&Memory::store(), &table, "").err().unwrap().kind(), ErrorKind::BadModel);
}

#[test]
fn what_is_missing_is_named() {
    for gone in ["config.json", "tokenizer.json", "model-00001-of-00002.safetensors", names::INDEX] {
        let store = Memory::store();
        let table = table(&folder().into_iter().filter(|(n, _)| *n != gone).collect::<Vec<_>>());
        let error = get(&store, &table, "").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains(gone) && error.message().contains(names::EXPECTED), "{error}");
        assert!(block_on(store.list()).unwrap().iter().all(|entry| !entry.complete));
    }
}

#[test]
fn an_index_cannot_lead_elsewhere() {
    for index in [
        "[]",
        "{",
        r#"{"weight_map":{}}"#,
        r#"{"weight_map":{"a":1}}"#,
        r#"{"weight_map":{"a":"../x.safetensors"}}"#,
        r#"{"weight_map":{"a":"http://evil/x.safetensors"}}"#,
        r#"{"weight_map":{"a":"x.bin"}}"#,
    ] {
        let mut files = folder();
        files[3].1 = index.as_bytes().to_vec();
        let error = get(&Memory::store(), &table(&files), "").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::BadModel, "{index}");
    }
}

/// Reads pieces of a model all over while it arrives.
#[test]
fn what_arrives_can_be_read_meanwhile() {
    let whole = bytes(1, 95_000);
    for (ranges, faults) in [
        (true, vec![]),
        (false, vec![]),
        (true, vec![Fault::Fine, Fault::Reset(4_000), Fault::Down]),
        (false, vec![Fault::Reset(50_000)]),
    ] {
        let (store, table) = (Memory::store(), table(&[("a.gguf", whole.clone())]));
        table.ranges.set(ranges);
        table.faults.replace(faults.into());
        let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
        let Prepared::Download(download) =
            block_on(prepare(&remote, &store, table.clone(), options(2), &|_| (), &Cancel::new())).unwrap()
        else {
            panic!("stored already")
        };
        let files = download.files().unwrap();
        let source = &files["a.gguf"];
        // A header, before anything is fetched.
        assert_eq!(block_on(source.read(3, 500)).unwrap(), whole[3..503]);
        assert!(table.sent.get() < 2_000 || !ranges && table.sent.get() < 60_000, "{}", table.sent.get());
        let reader = async {
            download.start();
            let mut at = 0;
            while at < whole.len() {
                let n = 7_777.min(whole.len() - at);
                assert!(source.read(at as u64, n).await.unwrap() == whole[at..at + n], "{at}");
                at += n;
            }
            // Long before the end of the file the first part was there.
            source.read(90_000, 5_000).await.unwrap()
        };
        let (done, last) = block_on(join(download.run(&|_| ()), reader));
        assert_eq!(last, whole[90_000..]);
        assert_eq!(content(&done.unwrap(), "a.gguf"), whole);
    }
}

#[test]
fn readers_of_what_changes_or_fails_hear_of_it() {
    let whole = bytes(1, 95_000);
    for faults in [
        vec![Fault::Fine, Fault::Fine, Fault::Version("\"v2\"")],
        vec![Fault::Fine, Fault::Fine, Fault::Status(403, None), Fault::Status(403, None)],
    ] {
        let fails = matches!(faults[2], Fault::Status(..));
        let (store, table) = (Memory::store(), table(&[("a.gguf", whole.clone())]));
        table.faults.replace(faults.into());
        let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
        let Prepared::Download(download) =
            block_on(prepare(&remote, &store, table, options(1), &|_| (), &Cancel::new())).unwrap()
        else {
            panic!("stored already")
        };
        let files = download.files().unwrap();
        download.start();
        let (done, read) = block_on(join(download.run(&|_| ()), files["a.gguf"].read(94_000, 1_000)));
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Network);
        assert_eq!((done.is_err(), download.changes()), (fails, u32::from(!fails)));
    }
}

#[test]
fn a_pause_loses_nothing() {
    let whole = bytes(1, 95_000);
    let (store, table) = (Memory::store(), table(&[("a.gguf", whole.clone())]));
    let options = options(2);
    let control = options.control.clone();
    let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
    let (cancel, paused) = (Cancel::new(), Cell::new(false));
    let report = |progress: Progress| {
        if progress.loaded > 0 && !paused.replace(true) {
            control.pause(true);
        }
    };
    let load = fetch(&remote, &store, table.clone(), options, &report, &cancel);
    let resume = async {
        for _ in 0..50 {
            table.sleep(1.0).await;
        }
        assert!(control.is_paused() && table.sent.get() < 20_000, "{}", table.sent.get());
        control.pause(false);
    };
    let (done, ()) = block_on(join(load, resume));
    assert_eq!(content(&done.unwrap().0, "a.gguf"), whole);
    assert!(table.sent.get() < 95_000 + 4 * 1000, "what had arrived is not sent again: {}", table.sent.get());
}

#[test]
fn a_paused_download_can_be_aborted() {
    for ranges in [true, false] {
        let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, 45_678))]));
        table.ranges.set(ranges);
        let options = options(2);
        options.control.pause(true);
        let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
        let fetching = fetch(&remote, &store, table.clone(), options, &|_| (), &table.cancel);
        let aborting = async {
            while table.slept.borrow().len() < 3 {
                table.sleep(0.0).await;
            }
            table.cancel.cancel();
        };
        let (fetched, ()) = block_on(join(fetching, aborting));
        assert_eq!(fetched.err().unwrap().kind(), ErrorKind::Aborted, "{ranges}");
        assert!(table.asked.borrow().is_empty(), "nothing is asked for while it is paused");
    }
}

#[test]
fn a_server_that_takes_few_connections_is_downloaded_from() {
    let whole = bytes(1, 285_000);
    for (most, refusal) in [(1, (503, None)), (2, (503, None)), (1, (429, Some("1"))), (1, (0, None)), (3, (500, None))]
    {
        let (store, table) = (Memory::store(), table(&[("a.gguf", whole.clone())]));
        table.most.set(most);
        table.refusal.set(refusal);
        let events = RefCell::new(Vec::new());
        let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
        let report =
            |p: Progress| events.borrow_mut().extend(p.event.map(|event| (event, p.note.clone().unwrap_or_default())));
        let (files, _) = block_on(fetch(&remote, &store, table.clone(), options(4), &report, &Cancel::new()))
            .unwrap_or_else(|e| panic!("{most} {refusal:?}: {e}"));
        assert!(content(&files, "a.gguf") == whole, "{most} {refusal:?}");
        assert_eq!(table.peak.get(), most, "as many as it takes");
        assert_eq!(table.sent.get(), whole.len() as u64, "{most} {refusal:?}: each byte once");
        let said = |n: usize| {
            events.borrow().iter().any(|(event, note)| {
                *event == Event::Connections && note.contains(&format!("going on with {n} at a time"))
            })
        };
        assert!(said(most), "{most} {refusal:?}: {:?}", events.borrow());
        // After eight shards one more is tried, and refused.
        assert!(table.refused.get() <= 4 * 3, "{most} {refusal:?}: {} refusals", table.refused.get());
    }
}

#[test]
fn a_header_can_be_read_where_one_connection_is_taken() {
    let whole = bytes(1, 95_000);
    let (store, table) = (Memory::store(), table(&[("a.gguf", whole.clone())]));
    table.most.set(1);
    table.refusal.set((503, None));
    let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
    let Prepared::Download(download) =
        block_on(prepare(&remote, &store, table.clone(), options(4), &|_| (), &Cancel::new())).unwrap()
    else {
        panic!("stored already")
    };
    let files = download.files().unwrap();
    assert!(block_on(files["a.gguf"].read(60_000, 5_000)).unwrap() == whole[60_000..65_000]);
    download.start();
    assert!(content(&block_on(download.run(&|_| ())).unwrap(), "a.gguf") == whole);
}

#[test]
fn what_has_arrived_is_kept_when_a_download_fails() {
    let whole = bytes(1, 95_000);
    let store = Memory::store();
    let first = table(&[("a.gguf", whole.clone())]);
    first.most.set(9);
    first.faults.replace([Fault::Reset(4_000), Fault::Reset(3_000), Fault::Fine, Fault::Status(404, None)].into());
    let error = get_with(&store, &first, "a.gguf", options(3)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let kept = block_on(store.list()).unwrap().remove(0).bytes;
    assert!(kept >= 7_000, "{kept}");
    let second = table(&[("a.gguf", whole.clone())]);
    assert!(content(&get(&store, &second, "a.gguf").unwrap().0, "a.gguf") == whole);
    assert_eq!(second.sent.get(), 95_000 - kept, "nothing twice");
}

#[test]
fn what_was_kept_of_a_shard_is_compared_before_it_counts() {
    let whole = bytes(1, 45_000);
    let memory = Memory::default();
    let store = Store::new(memory.clone());
    let first = table(&[("a.gguf", whole.clone())]);
    first.faults.replace([Fault::Fine, Fault::Abort(4)].into());
    get_with(&store, &first, "a.gguf", options(1)).err().unwrap();
    let id = block_on(crate::store::Medium::folders(&memory)).unwrap().remove(0);
    memory.bytes(&id, "0.1").unwrap().borrow_mut()[1_234] ^= 4;
    let second = table(&[("a.gguf", whole.clone())]);
    assert!(content(&get(&store, &second, "a.gguf").unwrap().0, "a.gguf") == whole);
    assert_eq!(second.sent.get(), 35_000, "the damaged shard from its beginning");
}

#[test]
fn without_a_network_it_waits_for_one() {
    let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, 5_000))]));
    table.faults.replace(vec![Fault::Down; 4].into());
    table.offline.set(100);
    let events = RefCell::new(Vec::new());
    let remote = Remote::parse(&format!("{BASE}a.gguf")).unwrap();
    block_on(fetch(
        &remote,
        &store,
        table.clone(),
        options(2),
        &|p: Progress| events.borrow_mut().extend(p.event),
        &Cancel::new(),
    ))
    .unwrap();
    assert!(events.borrow().contains(&Event::Offline), "{:?}", events.borrow());
    assert!(table.slept.borrow().len() >= 90, "it looks again and again");
}

#[test]
fn an_address_that_has_worked_is_asked_again_before_access_counts_as_refused() {
    let whole = bytes(1, 45_000);
    let (store, once) = (Memory::store(), table(&[("a.gguf", whole.clone())]));
    once.faults.replace([Fault::Fine, Fault::Status(403, None)].into());
    assert!(content(&get_with(&store, &once, "a.gguf", options(1)).unwrap().0, "a.gguf") == whole);
    let twice = table(&[("a.gguf", whole)]);
    twice.faults.replace([Fault::Fine, Fault::Status(403, None), Fault::Status(403, None)].into());
    let error = get_with(&Memory::store(), &twice, "a.gguf", options(1)).err().unwrap();
    assert!(error.kind() == ErrorKind::Network && error.message().contains("status 403"), "{error}");
}

#[test]
fn a_server_that_knows_no_such_range_and_no_such_file_gives_no_model() {
    let (store, table) = (Memory::store(), table(&[("a.gguf", bytes(1, 13))]));
    table.faults.replace(vec![Fault::Status(416, None); 50].into());
    let error = get(&store, &table, "a.gguf").err().unwrap();
    assert!(error.kind() == ErrorKind::Network && error.message().contains("status 416"), "{error}");
    assert!(block_on(store.list()).unwrap().is_empty());
}
