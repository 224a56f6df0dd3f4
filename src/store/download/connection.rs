//! One of the connections of a download: asks for a piece, takes what comes, goes on where it stopped, and knows when
//! to give up.

use super::live::Hand;
use super::{Download, Report};
use crate::base::{Cancel, Event};
use crate::error::{Error, ErrorKind, Result};
use crate::source::transport::{Reply, Request, Transport, check_status, is_passing};
use crate::store::Sequence;
use crate::store::journal::StoredFile;

/// Failures one after the other, without a new byte between them, after which a download ends.
const MOST_FAILURES: u32 = 5;
/// Ranges that get no answer, after which it is tried without.
const UNANSWERED: u32 = 2;
/// The first wait, ms; each further one is twice as long.
const FIRST_WAIT_MS: f64 = 500.0;
/// The longest wait that a server may ask for, ms.
const LONGEST_WAIT_MS: f64 = 60_000.0;

/// In place of a shard's number: all of a file.
const ALL: usize = usize::MAX;

/// Failures in a row after which a connection is given up while others receive.
const FAILURES_BESIDE_OTHERS: u32 = 3;
/// How often it is looked whether the network is back, or an abort has come, ms.
const LOOK_AGAIN_MS: f64 = 200.0;
/// Looks after which it is tried without a network all the same.
const LOOKS_OFFLINE: u32 = 25;

/// Hears what becomes of a download.
pub(super) type Tell<'a> = &'a dyn Fn(Event, String);

/// Failures in a row.
#[derive(Default)]
pub(super) struct Attempts(u32);

impl Attempts {
    /// Something has arrived: what failed before does not count any more.
    pub fn succeeded(&mut self) {
        self.0 = 0;
    }

    /// Waits before the next attempt, as long as the server asks for, or gives up. A failure without a network does not
    /// count: it is waited for.
    pub async fn failed(
        &mut self,
        error: Error,
        retry_after: Option<f64>,
        transport: &dyn Transport,
        cancel: &Cancel,
        tell: Tell<'_>,
    ) -> Result<()> {
        cancel.check()?;
        if error.kind() != ErrorKind::Network {
            return Err(error);
        }
        if !transport.is_online() {
            tell(Event::Offline, "the browser is offline: the download goes on when the network is back".to_owned());
            // What the browser says need not be true of this server.
            let mut looks = 0;
            while !transport.is_online() && looks < LOOKS_OFFLINE {
                transport.sleep(LOOK_AGAIN_MS).await;
                cancel.check()?;
                looks += 1;
            }
            return Ok(());
        }
        self.0 += 1;
        if self.0 >= MOST_FAILURES {
            return Err(Error::network(format!("{} (failed {} times)", error.message(), self.0)));
        }
        let ms = match retry_after {
            Some(seconds) => (seconds * 1000.0).min(LONGEST_WAIT_MS),
            None => FIRST_WAIT_MS * f64::from(1u32 << (self.0 - 1)) * (1.0 + 0.2 * transport.random()),
        };
        tell(Event::Retry, format!("{}: trying again in {:.1} s", error.message(), ms / 1000.0));
        let mut left = ms;
        // In steps, so that an abort does not wait.
        while left > 0.0 {
            transport.sleep(left.min(LOOK_AGAIN_MS)).await;
            cancel.check()?;
            left -= LOOK_AGAIN_MS;
        }
        Ok(())
    }
}

/// The error of a reply with an error status, and whether another attempt may help. `None` also for 416 to a range
/// request.
fn refused(reply: &Reply, request: &Request<'_>) -> Option<(Error, bool)> {
    let answer = reply.status == 416 && request.range.is_some();
    check_status(reply.status, request.url).err().filter(|_| !answer).map(|e| (e, is_passing(reply.status)))
}

/// An answer, after as many attempts as it takes.
pub(super) async fn ask(
    transport: &dyn Transport,
    request: Request<'_>,
    cancel: &Cancel,
    tell: Tell<'_>,
) -> Result<Reply> {
    Ok(ask_either(transport, request, cancel, tell).await?.0)
}

/// As [`ask`]; the flag tells that the reply is to a request without the range: after two empty responses to a range
/// request, the last attempts drop it. Browsers abort a compressed response to a range request.
pub(super) async fn ask_either(
    transport: &dyn Transport,
    mut request: Request<'_>,
    cancel: &Cancel,
    tell: Tell<'_>,
) -> Result<(Reply, bool)> {
    let ranged = request.range.is_some();
    let mut attempts = Attempts::default();
    let mut unanswered = 0;
    loop {
        match attempt(transport, request, &mut attempts, &Place::ALONE, cancel, tell).await? {
            Answer::Reply(reply) => return Ok((reply, ranged && request.range.is_none())),
            Answer::Refused | Answer::OneTooMany(_) => (),
            Answer::Silence => unanswered += 1,
        }
        if unanswered == UNANSWERED {
            request.range = None;
        }
    }
}

/// Where an attempt is made.
pub(super) struct Place<'a> {
    /// Whether other connections to this server receive something now.
    pub beside_others: &'a dyn Fn() -> bool,
    /// Whether a request to this address has succeeded: a refusal may then be that of an expired signature, which a new
    /// request renews.
    pub has_worked: bool,
}

impl Place<'_> {
    /// No other connection.
    pub const ALONE: Self = Self { beside_others: &|| false, has_worked: false };
}

/// What one attempt gave, after the wait before the next one.
pub(super) enum Answer {
    Reply(Reply),
    /// Not now.
    Refused,
    /// Nothing at all.
    Silence,
    /// Not on this connection, while others receive: there was no wait.
    OneTooMany(Error),
}

/// One attempt to get an answer. Fails where another would not help.
pub(super) async fn attempt(
    transport: &dyn Transport,
    request: Request<'_>,
    attempts: &mut Attempts,
    place: &Place<'_>,
    cancel: &Cancel,
    tell: Tell<'_>,
) -> Result<Answer> {
    let (error, wait, answer, limits) = match transport.get(request, cancel).await {
        Ok(reply) => match refused(&reply, &request) {
            None => return Ok(Answer::Reply(reply)),
            Some((error, false)) => match reply.status {
                401 | 403 if place.has_worked && attempts.0 == 0 => (error, None, Answer::Refused, false),
                _ => return Err(error),
            },
            Some((error, true)) => (error, reply.retry_after, Answer::Refused, matches!(reply.status, 429 | 503)),
        },
        Err(e) => (e, None, Answer::Silence, false),
    };
    if error.kind() == ErrorKind::Network
        && (place.beside_others)()
        && (limits || attempts.0 + 1 >= FAILURES_BESIDE_OTHERS)
    {
        cancel.check()?;
        return Ok(Answer::OneTooMany(error));
    }
    let before = attempts.0;
    attempts.failed(error, wait, transport, cancel, tell).await?;
    // A missing network says nothing about the server.
    Ok(if attempts.0 == before { Answer::Refused } else { answer })
}

/// Why connections end.
pub(super) enum Outcome {
    /// There is nothing more to do.
    Done,
    /// The server has another version of this file now.
    Changed(usize),
    /// The server's ranges of this file cannot be used.
    NoRanges(usize),
    /// The length that the server told was that of the file's compressed bytes.
    NoLength(usize),
}

/// What became of a job that did not end all of them.
pub(super) enum Step {
    /// The job is done.
    Done,
    /// The server refuses another parallel connection: one of the others has to do the job.
    OneTooMany(Error),
    /// All have to end.
    End(Outcome),
}

/// What to do next.
#[derive(Clone, Copy)]
pub(super) enum Job {
    /// (file, shard).
    Shard(usize, usize),
    /// A file from its beginning to its end.
    Whole(usize),
}

impl Download {
    /// Works until there is nothing more to do.
    pub(super) async fn connection(&self, report: Report<'_>) -> Result<Outcome> {
        loop {
            // Not more of them than the server takes.
            if !self.live.signal.until(|| self.crew.join()).await {
                return Ok(Outcome::Done);
            }
            let refusal = loop {
                self.go().await?;
                let Some(job) = self.next_job() else {
                    self.crew.leave();
                    self.live.signal.notify();
                    return Ok(Outcome::Done);
                };
                let step = match job {
                    Job::Shard(number, index) => self.fetch_shard(number, index, report).await?,
                    Job::Whole(number) => self.fetch_whole(number, report).await?,
                };
                match step {
                    Step::Done => {
                        if self.crew.succeeded() {
                            report(
                                "",
                                Some((
                                    Event::Connections,
                                    format!("trying {} connections at a time again", self.crew.allowed()),
                                )),
                            );
                        }
                        self.live.signal.notify();
                    }
                    Step::OneTooMany(error) => {
                        self.give_back(job);
                        break error;
                    }
                    Step::End(outcome) => return Ok(outcome),
                }
            };
            let n = self.crew.refused();
            let text =
                format!("{}; the server takes fewer connections: going on with {n} at a time", refusal.message());
            report("", Some((Event::Connections, text)));
            self.live.signal.notify();
        }
    }

    /// Where attempts at a file are made.
    fn place_of<'a>(&'a self, number: usize, beside_others: &'a dyn Fn() -> bool) -> Place<'a> {
        let has_worked = self.targets.borrow().iter().any(|t| t.number == number && t.has_worked);
        Place { beside_others, has_worked }
    }

    fn file(&self, number: usize) -> Result<StoredFile> {
        self.live.shared.state().files.get(number).cloned().ok_or_else(|| Error::internal(format!("no file {number}")))
    }

    /// The first answer, if it is about this file.
    async fn first_answer(&self, number: usize) -> Option<Reply> {
        self.live.hand.lock().await.take_if(|hand| hand.number == number).map(Hand::into_reply)
    }

    /// Whether an answer is about another version of the file; the first one's is noted.
    async fn is_changed(&self, number: usize, reply: &Reply) -> Result<bool> {
        let file = self.file(number)?;
        let total = reply.range.and_then(|range| range.total);
        if total.zip(file.length).is_some_and(|(total, length)| total != length) {
            return Ok(true);
        }
        if file.version.is_unknown() && !reply.version.is_unknown() {
            self.live.shared.put_file(StoredFile { version: reply.version.clone(), ..file }).await?;
            return Ok(false);
        }
        Ok(file.version.differs(&reply.version))
    }

    async fn fetch_shard(&self, number: usize, index: usize, report: Report<'_>) -> Result<Step> {
        let live = &self.live;
        let file = self.file(number)?;
        let url = self.url(number)?;
        let beside_others = || self.crew.others_receive();
        let from = index as u64 * file.shard;
        let length = file.shard_len(index).ok_or_else(|| Error::internal("a shard behind the file's end"))?;
        // A file of one shard has its shard's hash.
        let expected = file.sha256.as_deref().filter(|_| file.shards.len() == 1);
        for last_try in [false, true] {
            let mut shard = self.rest_of(number, index).await?;
            let mut attempts = Attempts::default();
            let (mut unanswered, mut damaged) = (0, false);
            self.flying(number, index, shard.len());
            let tell = |event: Event, text: String| report(&file.name, Some((event, text)));
            while shard.len() < length {
                self.go().await?;
                let at = from + shard.len();
                let first = if index == 0 && shard.len() == 0 { self.first_answer(number).await } else { None };
                live.begin();
                let request = Request { url: &url, range: Some((at, Some(from + length))) };
                let mut reply = match first {
                    Some(reply) => reply,
                    None => match attempt(
                        &*live.transport,
                        request,
                        &mut attempts,
                        &self.place_of(number, &beside_others),
                        &live.cancel,
                        &tell,
                    )
                    .await?
                    {
                        Answer::Reply(reply) => reply,
                        Answer::Refused => continue,
                        Answer::OneTooMany(error) => return Ok(Step::OneTooMany(error)),
                        Answer::Silence => {
                            unanswered += 1;
                            // A file of unknown length may be on a server that answers no ranges; a single shard
                            // without bytes loses nothing by starting over.
                            if unanswered == UNANSWERED && shard.len() == 0 && file.shards.len() == 1 {
                                return Ok(Step::End(Outcome::NoRanges(number)));
                            }
                            continue;
                        }
                    },
                };
                let other_length =
                    reply.status == 200 && file.shards.len() == 1 && reply.length.is_some_and(|n| n != length);
                let changed = other_length || self.is_changed(number, &reply).await?;
                // What a file with a known hash should be is known: another one is a damaged one.
                if expected.is_some() && (changed || reply.status == 416) {
                    damaged = true;
                    break;
                }
                if changed {
                    self.landed(number, index);
                    return Ok(Step::End(Outcome::Changed(number)));
                }
                let whole_file = reply.status == 200 && at == 0 && file.shards.len() == 1;
                let wrong = reply.range.is_some_and(|range| range.from != at)
                    || reply.length.is_some_and(|n| n > length - (at - from));
                if reply.encoded && reply.status == 206 || reply.status != 206 && !whole_file || wrong {
                    self.landed(number, index);
                    return Ok(Step::End(Outcome::NoRanges(number)));
                }
                let receiving = self.crew.receive();
                self.target(number, |t| t.has_worked = true);
                // Some servers give less than was asked for, and say so: the rest is asked for at once.
                let announced = reply.range.map_or(length, |range| (range.to - from).min(length));
                let failure = loop {
                    let piece = match reply.body.next().await {
                        Ok(Some(piece)) => piece,
                        Ok(None) if shard.len() == length || shard.len() == announced && from + announced > at => {
                            break None;
                        }
                        Ok(None) => {
                            let text = format!(
                                "{url}: the connection ended after {} of {length} bytes of a piece; try again",
                                shard.len()
                            );
                            break Some(Error::network(text));
                        }
                        Err(e) => break Some(e),
                    };
                    live.cancel.check()?;
                    if piece.len() as u64 > length - shard.len() {
                        if expected.is_some() && whole_file {
                            damaged = true;
                            break None;
                        }
                        self.landed(number, index);
                        return Ok(Step::End(Outcome::NoRanges(number)));
                    }
                    shard.append(&piece).await?;
                    attempts.succeeded();
                    self.flying(number, index, shard.len());
                    report(&file.name, None);
                    if self.options.control.is_paused() || shard.len() == length && reply.length.is_some() {
                        break None;
                    }
                };
                drop(receiving);
                if damaged {
                    break;
                }
                if let Some(error) = failure {
                    if self.crew.others_receive() && attempts.0 + 1 >= FAILURES_BESIDE_OTHERS {
                        return Ok(Step::OneTooMany(error));
                    }
                    attempts.failed(error, None, &*live.transport, &live.cancel, &tell).await?;
                }
            }
            let shard = shard.take()?;
            let good = !damaged && shard.finish(expected).await?;
            self.landed(number, index);
            if good {
                live.signal.notify();
                report(&file.name, None);
                return Ok(Step::Done);
            }
            if !last_try {
                tell(Event::Damaged, format!("{}: a piece arrived damaged and is fetched again", file.name));
            }
        }
        Err(Error::bad_model(format!(
            "{url}: arrived twice with a SHA-256 that is not the expected one: it is damaged on the server or on the way, or is of another version of the \
             model; try again later, or tell whoever serves it"
        )))
    }

    /// A file of a server without ranges, or of unknown length.
    async fn fetch_whole(&self, number: usize, report: Report<'_>) -> Result<Step> {
        let live = &self.live;
        let file = self.file(number)?;
        let url = self.url(number)?;
        let beside_others = || self.crew.others_receive();
        let tell = |event: Event, text: String| report(&file.name, Some((event, text)));
        let mut attempts = Attempts::default();
        let mut most = 0;
        loop {
            self.go().await?;
            let first = self.first_answer(number).await;
            live.begin();
            let mut reply = match first {
                Some(reply) => reply,
                None => {
                    match attempt(
                        &*live.transport,
                        Request::whole(&url),
                        &mut attempts,
                        &self.place_of(number, &beside_others),
                        &live.cancel,
                        &tell,
                    )
                    .await?
                    {
                        Answer::Reply(reply) => reply,
                        Answer::Refused | Answer::Silence => continue,
                        Answer::OneTooMany(error) => return Ok(Step::OneTooMany(error)),
                    }
                }
            };
            if self.is_changed(number, &reply).await? || reply.length.zip(file.length).is_some_and(|(a, b)| a != b) {
                return Ok(Step::End(Outcome::Changed(number)));
            }
            let began = StoredFile {
                version: reply.version.clone(),
                sha256: file.sha256.clone(),
                ..StoredFile::new(&file.name, file.length, file.shard)
            };
            live.let_go(number);
            live.shared.put_file(began).await?;
            let mut sequence = Sequence::new(live.shared.clone(), number);
            let receiving = self.crew.receive();
            self.target(number, |t| t.has_worked = true);
            let failure = loop {
                let piece = match reply.body.next().await {
                    Ok(Some(piece)) => piece,
                    Ok(None) => match file.length.or(reply.length) {
                        Some(length) if sequence.len() < length => {
                            let text = format!(
                                "{url}: the connection ended after {} of {length} bytes; try again",
                                sequence.len()
                            );
                            break Some(Error::network(text));
                        }
                        _ => break None,
                    },
                    Err(e) => break Some(e),
                };
                live.cancel.check()?;
                if file.length.is_some_and(|length| sequence.len() + piece.len() as u64 > length) {
                    self.landed(number, ALL);
                    return Ok(Step::End(Outcome::NoLength(number)));
                }
                let wholes = sequence.shards();
                sequence.append(&piece).await?;
                if sequence.shards() > wholes {
                    live.signal.notify();
                }
                if sequence.len() > most {
                    most = sequence.len();
                    attempts.succeeded();
                }
                self.flying(number, ALL, sequence.len().saturating_sub(self.file(number)?.bytes()));
                report(&file.name, None);
                // Without ranges a pause would start over: the connection stays open, and the server waits.
                self.go().await?;
            };
            drop(receiving);
            let Some(error) = failure else {
                sequence.finish().await?;
                self.landed(number, ALL);
                live.signal.notify();
                return Ok(Step::Done);
            };
            self.landed(number, ALL);
            attempts.failed(error, None, &*live.transport, &live.cancel, &tell).await?;
        }
    }
}
