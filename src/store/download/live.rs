//! A source that reads a model during its download: arrived shards are read from the store, other reads wait. Before
//! the download begins, the few bytes that headers need are requested directly.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::{LocalBoxFuture, ready};
use futures_util::lock::Mutex;

use super::connection::{Answer, Attempts, Place, ask, attempt};
use crate::base::{Cancel, Signal};
use crate::error::{Error, ErrorKind, Result};
use crate::source::transport::{Body, Reply, Request, Transport};
use crate::source::{ByteSource, check_range};
use crate::store::shards::{gather, gone};
use crate::store::{Shared, shard_name};

/// Bytes that are asked for at least.
const AHEAD: u64 = 1 << 20;

/// The first file's first answer, and what has been read of it.
pub(super) struct Hand {
    /// Which file of the store.
    pub number: usize,
    pub head: Vec<u8>,
    pub reply: Reply,
    /// How many bytes the answer will have.
    pub reach: u64,
}

impl Hand {
    /// The answer as if nothing had been read of it.
    pub fn into_reply(self) -> Reply {
        let body = Whole { head: Some(self.head).filter(|head| !head.is_empty()), rest: self.reply.body };
        Reply { body: Box::new(body), ..self.reply }
    }
}

/// A body of which the beginning has been read.
struct Whole {
    head: Option<Vec<u8>>,
    rest: Box<dyn Body>,
}

impl Body for Whole {
    fn next(&mut self) -> LocalBoxFuture<'_, Result<Option<Vec<u8>>>> {
        match self.head.take() {
            Some(head) => Box::pin(ready(Ok(Some(head)))),
            None => self.rest.next(),
        }
    }
}

/// (file, shard): one that is open to read.
type Opened = ((usize, usize), Rc<dyn ByteSource>);

/// What readers and the download share.
pub(super) struct Live {
    pub shared: Rc<Shared>,
    pub transport: Rc<dyn Transport>,
    pub cancel: Cancel,
    /// Notified when a shard is whole, when the download starts, and when it fails.
    pub signal: Signal,
    pub started: Cell<bool>,
    /// Whether the files themselves have been asked for.
    pub begun: Cell<bool>,
    /// Incremented when a file has changed on the server: readers of the old version have to read again.
    pub epoch: Cell<u32>,
    /// Why nothing more will arrive.
    pub failed: RefCell<Option<(ErrorKind, String)>>,
    pub hand: Mutex<Option<Hand>>,
    opened: RefCell<Vec<Opened>>,
    /// The last piece that was asked for ahead: its file, where it begins, its bytes.
    ahead: RefCell<(usize, u64, Vec<u8>)>,
}

impl Live {
    pub fn new(shared: Rc<Shared>, transport: Rc<dyn Transport>, cancel: Cancel) -> Self {
        Self {
            shared,
            transport,
            cancel,
            signal: Signal::default(),
            started: Cell::new(false),
            begun: Cell::new(false),
            epoch: Cell::new(0),
            failed: RefCell::default(),
            hand: Mutex::new(None),
            opened: RefCell::default(),
            ahead: RefCell::new((usize::MAX, 0, Vec::new())),
        }
    }

    pub fn start(&self) {
        self.started.set(true);
        self.signal.notify();
    }

    /// The files themselves are asked for now.
    pub fn begin(&self) {
        if !self.begun.replace(true) {
            self.signal.notify();
        }
    }

    pub fn fail(&self, error: &Error) {
        self.failed.borrow_mut().get_or_insert_with(|| (error.kind(), error.message().to_owned()));
        self.signal.notify();
    }

    /// What was read until here is not worth anything any more.
    pub fn change(&self) {
        self.epoch.set(self.epoch.get() + 1);
        self.opened.borrow_mut().clear();
        *self.ahead.borrow_mut() = (usize::MAX, 0, Vec::new());
        self.signal.notify();
    }

    /// A file starts over: closes its open shards.
    pub fn let_go(&self, number: usize) {
        self.opened.borrow_mut().retain(|((of, _), _)| *of != number);
    }

    /// Closes all open shards.
    pub fn let_all_go(&self) {
        self.opened.borrow_mut().clear();
    }

    fn check(&self, epoch: u32) -> Result<()> {
        self.cancel.check()?;
        if epoch != self.epoch.get() {
            return Err(Error::network(format!(
                "{}: changed on the server while it was read; load it again",
                self.shared.key().url()
            )));
        }
        match &*self.failed.borrow() {
            Some((kind, message)) => Err(Error::new(*kind, message.clone())),
            None => Ok(()),
        }
    }

    fn has(&self, number: usize, index: usize) -> bool {
        self.shared.state().files.get(number).and_then(|f| f.shards.get(index)).is_some_and(Option::is_some)
    }

    async fn shard(&self, epoch: u32, number: usize, index: usize) -> Result<Rc<dyn ByteSource>> {
        loop {
            self.signal
                .until(|| match self.check(epoch) {
                    Ok(()) => self.has(number, index).then_some(Ok(())),
                    failed => Some(failed),
                })
                .await?;
            if let Some((_, open)) = self.opened.borrow().iter().find(|(key, _)| *key == (number, index)) {
                return Ok(open.clone());
            }
            let source = self.shared.medium().open(self.shared.place(), &shard_name(number, index)).await?;
            // The file may have started over during the await: then this handle must not be kept.
            self.check(epoch)?;
            if !self.has(number, index) {
                continue;
            }
            let source = source.ok_or_else(|| {
                Error::storage(format!("{}: a piece that has just been written is not there", self.shared.key().url()))
            })?;
            self.opened.borrow_mut().push(((number, index), source.clone()));
            return Ok(source);
        }
    }

    /// Bytes of a file of which the download has not begun.
    async fn read_ahead(&self, of: &LiveSource, offset: u64, len: usize) -> Result<Vec<u8>> {
        let LiveSource { epoch, number, url, len: length, .. } = of;
        let (number, length) = (*number, *length);
        self.check(*epoch)?;
        let end = offset + len as u64;
        {
            let mut slot = self.hand.lock().await;
            if let Some(hand) = slot.as_mut().filter(|hand| hand.number == number && end <= hand.reach) {
                let mut open = true;
                while open && (hand.head.len() as u64) < end {
                    match hand.reply.body.next().await {
                        Ok(Some(piece)) => hand.head.extend_from_slice(&piece),
                        Ok(None) => open = false,
                        Err(e) if e.kind() == ErrorKind::Aborted => return Err(e),
                        Err(_) => open = false,
                    }
                }
                if open {
                    return Ok(hand.head[offset as usize..end as usize].to_vec());
                }
                // A connection that has broken is of no use to the download either.
                *slot = None;
            }
        }
        let known = |(of, at, bytes): &(usize, u64, Vec<u8>)| {
            let from = usize::try_from(offset.checked_sub(*at)?).ok()?;
            (*of == number).then(|| bytes.get(from..from.checked_add(len)?).map(<[u8]>::to_vec)).flatten()
        };
        if let Some(bytes) = known(&self.ahead.borrow()) {
            return Ok(bytes);
        }
        let to = end.max((offset + AHEAD).min(length));
        let request = Request { url, range: Some((offset, Some(to))) };
        // Where the server takes no second connection, the one in hand has to go.
        let beside_others = || self.hand.try_lock().is_none_or(|hand| hand.is_some());
        let place = Place { beside_others: &beside_others, ..Place::ALONE };
        let mut reply =
            match attempt(&*self.transport, request, &mut Attempts::default(), &place, &self.cancel, &|_, _| ()).await?
            {
                Answer::Reply(reply) => reply,
                _ => {
                    *self.hand.lock().await = None;
                    ask(&*self.transport, request, &self.cancel, &|_, _| ()).await?
                }
            };
        let mut bytes = Vec::new();
        while let Some(piece) = reply.body.next().await? {
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > to - offset {
                break;
            }
        }
        if reply.status != 206 || bytes.len() as u64 != to - offset {
            return Err(Error::network(format!(
                "{url}: the server did not answer with the {} bytes from {offset} on; try again",
                to - offset
            )));
        }
        *self.ahead.borrow_mut() = (number, offset, bytes);
        known(&self.ahead.borrow()).ok_or_else(|| Error::internal("what was read ahead is not there"))
    }
}

/// A file that is on its way.
pub(super) struct LiveSource {
    pub live: Rc<Live>,
    pub epoch: u32,
    pub number: usize,
    pub url: String,
    pub name: String,
    pub len: u64,
    pub shard: u64,
}

impl ByteSource for LiveSource {
    fn name(&self) -> &str {
        &self.name
    }
    fn len(&self) -> u64 {
        self.len
    }
    fn read(&self, offset: u64, len: usize) -> LocalBoxFuture<'_, Result<Vec<u8>>> {
        Box::pin(async move {
            check_range(&self.name, self.len, offset, len)?;
            if len == 0 {
                return Ok(Vec::new());
            }
            let (first, last) = (offset / self.shard, (offset + len as u64 - 1) / self.shard);
            if !self.live.started.get() && !(first..=last).all(|index| self.live.has(self.number, index as usize)) {
                return self.live.read_ahead(self, offset, len).await;
            }
            gather(self.shard, offset, len, |index, at, part| async move {
                let shard = self.live.shard(self.epoch, self.number, index).await?;
                shard.read(at, part).await.map_err(|e| gone(&self.name, &e))
            })
            .await
        })
    }
}
