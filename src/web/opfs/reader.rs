//! Reading beside this thread: a Worker of its own reads stored files, so that the disk works while weights are
//! repacked and handed to the GPU. Where it cannot be started, or cannot open a file, files are read here.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

use futures_channel::oneshot;
use js_sys::{ArrayBuffer, Function, Uint8Array};
use wasm_bindgen::closure::Closure;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::spawn_local;
use web_sys::{Event, FileSystemFileHandle, MessageEvent, Worker};

use super::handle::JsResult;
use crate::base::{js, sleep};
use crate::web::log;

/// Fewer bytes than this are read here: the way there and back takes longer.
const LEAST: usize = 256 << 10;
/// Bytes of a buffer: those that come back are used again.
const BUFFER: usize = 4 << 20;
/// Most buffers that wait to be used again.
const SPARE: usize = 8;
/// How long the Worker outlives the last read, ms.
const IDLE_MS: f64 = 2000.0;
/// As many times that long without an answer, and it has died: from then on all is read here.
const PATIENCE: u32 = 5;

thread_local! {
    static START: RefCell<Option<Function>> = const { RefCell::new(None) };
    static READER: RefCell<Option<Reader>> = const { RefCell::new(None) };
    static FILES: Cell<u32> = const { Cell::new(0) };
}

/// Takes a function that starts a Worker which reads; without one all is read here.
#[wasm_bindgen(js_name = readBeside)]
pub fn read_beside(start: Function) {
    START.set(Some(start));
}

/// The Worker, and what it was asked for.
struct Reader {
    worker: Worker,
    open: HashSet<u32>,
    waiting: HashMap<u32, oneshot::Sender<Option<Uint8Array>>>,
    next: u32,
    spare: Vec<ArrayBuffer>,
    /// Counters of reads and answers: a timeout checks whether they have changed.
    reads: u32,
    answers: u32,
    _closures: [Closure<dyn FnMut(JsValue)>; 2],
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.worker.terminate();
    }
}

impl Reader {
    fn start(start: &Function) -> JsResult<Self> {
        let worker: Worker = start.call0(&JsValue::UNDEFINED)?.dyn_into()?;
        let answered = Closure::new(|event: JsValue| answered(&event));
        let failed = Closure::new(|event: JsValue| {
            // Otherwise it would be this Worker's error too.
            event.unchecked_ref::<Event>().prevent_default();
            give_up("could not be started");
        });
        worker.set_onmessage(Some(answered.as_ref().unchecked_ref()));
        worker.set_onerror(Some(failed.as_ref().unchecked_ref()));
        worker.set_onmessageerror(Some(failed.as_ref().unchecked_ref()));
        let closures = [answered, failed];
        Ok(Self {
            worker,
            open: HashSet::new(),
            waiting: HashMap::new(),
            next: 0,
            spare: Vec::new(),
            reads: 0,
            answers: 0,
            _closures: closures,
        })
    }

    fn open(&mut self, file: &Beside) -> JsResult<()> {
        if self.open.insert(file.number) {
            self.worker.post_message(&js::object(&[
                ("open", file.number.into()),
                ("handle", (&file.file).into()),
                ("length", file.length.into()),
            ]))?;
        }
        Ok(())
    }

    fn ask(&mut self, file: &Beside, offset: u64, len: usize) -> JsResult<oneshot::Receiver<Option<Uint8Array>>> {
        self.open(file)?;
        let spare = if len <= BUFFER { self.spare.pop() } else { None };
        let buffer = spare.unwrap_or_else(|| ArrayBuffer::new(len.max(BUFFER) as u32));
        let (sender, receiver) = oneshot::channel();
        self.next += 1;
        let message = [
            ("read", file.number.into()),
            ("id", self.next.into()),
            ("at", (offset as f64).into()),
            ("length", (len as u32).into()),
        ];
        let message = js::object(&[&message[..], &[("buffer", buffer.clone().into())]].concat());
        self.worker.post_message_with_transfer(&message, &js_sys::Array::of1(&buffer))?;
        self.waiting.insert(self.next, sender);
        self.reads += 1;
        Ok(receiver)
    }
}

/// Does something with the Worker, which is started if need be; `None` where there is none.
fn with_reader<T>(work: impl FnOnce(&mut Reader) -> JsResult<T>) -> Option<T> {
    START.with_borrow(|start| {
        let start = start.as_ref()?;
        READER.with_borrow_mut(|reader| {
            if reader.is_none() {
                *reader = Some(Reader::start(start).ok()?);
                spawn_local(end_when_idle());
            }
            work(reader.as_mut()?).ok()
        })
    })
}

/// From now on all is read here.
fn give_up(why: &str) {
    log::warn(&format!(
        "the Worker that reads stored files {why}: the engine's own reads them, and loading takes longer"
    ));
    START.set(None);
    READER.set(None);
}

fn answered(event: &JsValue) {
    let data = event.unchecked_ref::<MessageEvent>().data();
    let number = |name: &str| js::get(&data, name).as_f64().unwrap_or(0.0) as u32;
    let sender = READER.with_borrow_mut(|reader| {
        let reader = reader.as_mut()?;
        reader.answers += 1;
        reader.waiting.remove(&number("id"))
    });
    let buffer = js::get(&data, "buffer").dyn_into::<ArrayBuffer>().ok();
    // The reading future may have been dropped.
    let _ = sender.map(|sender| {
        sender.send(buffer.map(|buffer| Uint8Array::new_with_byte_offset_and_length(&buffer, 0, number("length"))))
    });
}

/// A file that may be read beside this thread.
pub(super) struct Beside {
    number: u32,
    file: FileSystemFileHandle,
    length: f64,
}

impl Beside {
    pub(super) fn new(file: FileSystemFileHandle, length: f64) -> Self {
        FILES.set(FILES.get() + 1);
        Self { number: FILES.get(), file, length }
    }

    /// Has the Worker open it, and begin to read once it has nothing else to do.
    pub(super) fn will_be_read(&self) {
        // What cannot be opened ahead is read when it is wanted.
        let _ = with_reader(|reader| reader.open(self));
    }

    /// `len` bytes from `offset`; `None` where they have to be read here.
    pub(super) async fn read(&self, offset: u64, len: usize) -> Option<Vec<u8>> {
        if len < LEAST {
            return None;
        }
        let bytes = with_reader(|reader| reader.ask(self, offset, len))?.await.ok()??;
        let read = bytes.to_vec();
        READER.with_borrow_mut(|reader| {
            if let Some(reader) = reader
                .as_mut()
                .filter(|reader| reader.spare.len() < SPARE && bytes.buffer().byte_length() as usize == BUFFER)
            {
                reader.spare.push(bytes.buffer());
            }
        });
        (read.len() == len).then_some(read)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        READER.with_borrow_mut(|reader| {
            if let Some(reader) = reader.as_mut()
                && reader.open.remove(&self.number)
            {
                // A Worker that takes no messages any more has closed its files.
                let _ = reader.worker.post_message(&js::object(&[("close", self.number.into())]));
            }
        });
    }
}

/// Ends the Worker, and with it its handles and memory, once nothing was read for a while, or once it does not answer
/// any more.
async fn end_when_idle() {
    let state = || READER.with_borrow(|reader| reader.as_ref().map(|r| (r.reads, r.answers, r.waiting.is_empty())));
    let mut silent = 0;
    loop {
        let before = state();
        sleep(IDLE_MS).await;
        let after = state();
        match (before, after) {
            (_, None) => return,
            (Some((reads, ..)), Some((now, _, true))) if reads == now => return READER.set(None),
            (Some((_, answers, _)), Some((_, now, false))) if answers == now => silent += 1,
            _ => silent = 0,
        }
        if silent >= PATIENCE {
            return give_up("does not answer");
        }
    }
}
