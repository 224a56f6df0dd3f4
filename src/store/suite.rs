//! What every store must do, once, for all of them: memory, disk and OPFS run exactly this.

use std::future::Future;

use futures_util::future::{join, poll_immediate};

use super::journal::StoredFile;
use super::{Begin, ModelKey, Store, Writer};
use crate::base::Cancel;
use crate::error::ErrorKind;
use crate::source::Files;

/// `len` bytes that repeat only after 2^16 of them, different for each seed.
pub(crate) fn bytes(seed: u32, len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 97) >> 16) as u8).collect()
}

async fn write_file(writer: &mut Writer, name: &str, content: &[u8], piece: usize) {
    writer.create(name).await.unwrap();
    for part in content.chunks(piece) {
        writer.append(part).await.unwrap();
    }
}

async fn writer(store: &Store, key: &ModelKey) -> Writer {
    match store.begin(key, &Cancel::new()).await.unwrap() {
        Begin::Write(writer) => writer,
        Begin::Whole(_) => panic!("{} is already whole", key.url()),
    }
}

async fn assert_file(files: &Files, name: &str, content: &[u8]) {
    let source = &files[name];
    assert_eq!((source.name(), source.len()), (name, content.len() as u64));
    assert_eq!(source.read(0, content.len()).await.unwrap(), content);
    for (offset, len) in [
        (0, 0),
        (content.len(), 0),
        (content.len() / 3, content.len() / 2),
        (content.len().saturating_sub(1), content.len().min(1)),
    ] {
        assert_eq!(
            source.read(offset as u64, len).await.unwrap(),
            &content[offset..offset + len],
            "{name} {offset} {len}"
        );
    }
    for (offset, len) in [(content.len() as u64, 1), (0, content.len() + 1), (u64::MAX, 1)] {
        assert_eq!(source.read(offset, len).await.unwrap_err().kind(), ErrorKind::BadModel);
    }
}

/// Runs the suite. `open` opens the same place again each time: the first must be empty, and what it keeps must outlive
/// it in the next (a store in memory gives clones).
pub(crate) async fn conforms<F: Future<Output = Store>>(open: impl Fn() -> F) {
    let store = open().await;
    let key = ModelKey::new("https://example.org/a.gguf");
    let other = ModelKey::new("https://example.org/b/");
    assert!(store.list().await.unwrap().is_empty());
    assert!(store.open(&key).await.unwrap().is_none());
    assert_eq!(store.usage().await.unwrap().used, 0);
    store.remove(&key).await.unwrap();

    // Two models, one of two files; pieces that fit no shard; an empty file.
    let (a, b, c) = (bytes(1, 150_001), bytes(2, 777), bytes(3, 65_536));
    let mut w = writer(&store, &key).await;
    write_file(&mut w, "a.gguf", &a, 7_001).await;
    assert!(store.open(&key).await.unwrap().is_none(), "half written");
    assert!(store.list().await.unwrap().iter().all(|entry| !entry.complete), "half written");
    let files = w.finish().await.unwrap();
    assert_file(&files, "a.gguf", &a).await;
    let mut w = writer(&store, &other).await;
    write_file(&mut w, "config.json", &b, 777).await;
    write_file(&mut w, "empty.json", &[], 1).await;
    write_file(&mut w, "model.safetensors", &c, 65_536).await;
    drop(w.finish().await.unwrap());

    // Both are there, also after the store is opened again; readers do not exclude each other.
    let again = open().await;
    let files_again = again.open(&key).await.unwrap().unwrap();
    assert_file(&files_again, "a.gguf", &a).await;
    assert_file(&files, "a.gguf", &a).await;
    drop((files, files_again));
    let files = again.open(&other).await.unwrap().unwrap();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["config.json", "empty.json", "model.safetensors"]);
    assert_file(&files, "config.json", &b).await;
    assert_file(&files, "empty.json", &[]).await;
    assert_file(&files, "model.safetensors", &c).await;
    drop(files);
    let mut list = again.list().await.unwrap();
    list.sort_by(|x, y| x.url.cmp(&y.url));
    let listed: Vec<_> = list.iter().map(|e| (e.url.as_str(), e.bytes)).collect();
    assert_eq!(listed, [(key.url(), a.len() as u64), (other.url(), (b.len() + c.len()) as u64)]);
    assert!(store.usage().await.unwrap().used >= (a.len() + b.len() + c.len()) as u64);
    assert!(matches!(store.begin(&key, &Cancel::new()).await.unwrap(), Begin::Whole(_)));

    // Removal, and nothing is left.
    store.remove(&key).await.unwrap();
    store.remove(&other).await.unwrap();
    assert!(store.open(&key).await.unwrap().is_none());
    assert_eq!(store.usage().await.unwrap().used, 0);

    interrupted(&store, &key, &open).await;
    second_waits(&store, &key).await;

    // Names cannot lead out, and a cancelled caller does not become the writer.
    let mut w = writer(&store, &key).await;
    assert_eq!(w.create("../a").await.unwrap_err().kind(), ErrorKind::BadModel);
    w.close().await.unwrap();
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(store.begin(&key, &cancel).await.unwrap_err().kind(), ErrorKind::Aborted);
    assert_empty(&open().await).await;
    shards_and_resuming(&open).await;
}

/// Nothing takes space any more. A dropped writer cleans up behind itself, which may take a few turns of the event
/// loop.
async fn assert_empty(store: &Store) {
    for _ in 0..200 {
        if store.usage().await.unwrap().used == 0 {
            return;
        }
    }
    panic!("what was interrupted is still there");
}

/// A dropped writer leaves no model; the next one takes the place of what it left.
async fn interrupted<F: Future<Output = Store>>(store: &Store, key: &ModelKey, open: impl Fn() -> F) {
    let mut w = writer(store, key).await;
    write_file(&mut w, "a.gguf", &bytes(4, 90_000), 10_000).await;
    drop(w);
    assert!(store.open(key).await.unwrap().is_none());
    let short = bytes(5, 10);
    let mut w = writer(store, key).await;
    write_file(&mut w, "a.gguf", &short, 10).await;
    let files = w.finish().await.unwrap();
    assert_eq!(files.len(), 1);
    assert_file(&files, "a.gguf", &short).await;
    drop(files);
    store.remove(key).await.unwrap();

    let mut w = writer(store, key).await;
    write_file(&mut w, "a.gguf", &bytes(4, 90_000), 10_000).await;
    drop(w);
    let store = open().await;
    assert!(store.open(key).await.unwrap().is_none());
    store.remove(key).await.unwrap();
    assert_empty(&store).await;
}

/// Shards in any order; what is journaled is there for the next writer, what is damaged is found and only that is
/// missing.
async fn shards_and_resuming<F: Future<Output = Store>>(open: &impl Fn() -> F) {
    let key = ModelKey::new("https://example.org/shards.gguf");
    let content = bytes(7, 10_000);
    let part = |index: usize| &content[index * 999..10_000.min((index + 1) * 999)];
    let put = |shared: std::rc::Rc<super::Shared>, index: usize, expected: Option<String>| async move {
        let mut shard = shared.shard(0, index).await.unwrap();
        for piece in part(index).chunks(400) {
            shard.append(piece).await.unwrap();
        }
        shard.finish(expected.as_deref()).await.unwrap()
    };
    let store = open().await;
    let w = writer(&store, &key).await;
    assert!(w.shared().is_clean());
    w.shared().put_file(StoredFile::new("shards.gguf", Some(10_000), 999)).await.unwrap();
    for index in [10, 3, 0] {
        assert!(put(w.shared().clone(), index, None).await);
    }
    assert!(!put(w.shared().clone(), 4, Some("0".repeat(64))).await, "another hash");
    let mut begun = w.shared().shard(0, 5).await.unwrap();
    begun.append(b"begun").await.unwrap();
    // As in a crash.
    drop((begun, w));

    let store = open().await;
    let entry = store.entry(&key).await.unwrap().unwrap();
    assert_eq!((entry.bytes, entry.total, entry.complete), (10 + 2 * 999, Some(10_000), false));
    let w = writer(&store, &key).await;
    assert!(!w.shared().is_clean(), "it was not closed");
    w.shared().verify(&|_| (), &Cancel::new()).await.unwrap();
    let missing: Vec<usize> = (0..11).filter(|i| w.shared().state().files[0].shards[*i].is_none()).collect();
    assert_eq!(missing, [1, 2, 4, 5, 6, 7, 8, 9]);
    assert!(put(w.shared().clone(), 1, None).await);
    w.close().await.unwrap();

    let store = open().await;
    let w = writer(&store, &key).await;
    assert!(w.shared().is_clean());
    for index in [2, 4, 5, 6, 7, 8, 9] {
        assert!(put(w.shared().clone(), index, None).await);
    }
    assert_file(&w.finish().await.unwrap(), "shards.gguf", &content).await;
    assert!(store.verify(&key, &|_| (), &Cancel::new()).await.unwrap().bad.is_empty());
    assert!(store.open(&key).await.unwrap().is_some(), "looking at it changes nothing");

    // A byte changes on the disk, and a shard goes.
    let mut out = store.medium.create(key.id(), "0.6", 0).await.unwrap();
    let mut damaged = part(6).to_vec();
    damaged[5] ^= 1;
    out.write(&damaged).await.unwrap();
    out.flush().await.unwrap();
    drop(out);
    assert!(store.open(&key).await.unwrap().is_some(), "lengths do not tell");
    let verified = store.verify(&key, &|_| (), &Cancel::new()).await.unwrap();
    assert_eq!((verified.bytes, verified.bad.len(), verified.bad[0].shard), (10_000, 1, 6));
    assert!(store.open(&key).await.unwrap().is_none());
    store.medium.remove(key.id(), "0.7").await.unwrap();
    let w = writer(&store, &key).await;
    assert!(w.shared().is_clean(), "what is left was looked at");
    assert!(put(w.shared().clone(), 6, None).await);
    assert!(put(w.shared().clone(), 7, None).await);
    assert_file(&w.finish().await.unwrap(), "shards.gguf", &content).await;
    store.remove(&key).await.unwrap();
    assert_empty(&store).await;
    assert_eq!(store.verify(&key, &|_| (), &Cancel::new()).await.unwrap_err().kind(), ErrorKind::NotFound);
}

/// The second writer waits for the first: finds its model, or becomes the writer if it gave up.
async fn second_waits(store: &Store, key: &ModelKey) {
    let content = bytes(6, 5_000);
    let mut first = writer(store, key).await;
    write_file(&mut first, "a.gguf", &content, 1_000).await;
    let cancel = Cancel::new();
    let mut second = Box::pin(store.begin(key, &cancel));
    assert!(poll_immediate(&mut second).await.is_none(), "the second writer waits");
    let (written, found) = join(first.finish(), second).await;
    drop(written.unwrap());
    match found.unwrap() {
        Begin::Whole(files) => assert_file(&files, "a.gguf", &content).await,
        Begin::Write(_) => panic!("the first finished"),
    }
    store.remove(key).await.unwrap();

    let first = writer(store, key).await;
    let mut second = Box::pin(store.begin(key, &cancel));
    assert!(poll_immediate(&mut second).await.is_none(), "the second writer waits");
    drop(first);
    assert!(matches!(second.await.unwrap(), Begin::Write(_)));
}
