//! The text of an answer: from its tokens to the caller's events.

use std::cell::RefCell;
use std::rc::Rc;

use super::{Delta, Event, Scored, StopScanner, TokenLogprobs};
use crate::base::{Phase, Progress, now_ms};
use crate::decode::{self, Logprobs};
use crate::error::{Error, Result};
use crate::text::calls::{Parser, Part};
use crate::text::{StreamDecoder, Tokenizer};

/// The caller's callback for events of an answer.
pub type Listens<'a> = Box<dyn FnMut(Event<'_>) + 'a>;

/// The text side of a running generation.
pub(super) struct Output<'a> {
    /// Parses an answer to messages into parts.
    reading: Option<Parser>,
    decoder: StreamDecoder,
    scanner: StopScanner,
    pub text: String,
    pub failure: Option<Error>,
    stop: Rc<[u32]>,
    tokenizer: Rc<Tokenizer>,
    /// Log probabilities of all tokens, where they are asked for.
    pub logprobs: Option<Vec<TokenLogprobs>>,
    on_event: RefCell<Listens<'a>>,
    /// Tokens of the prompt that were read before the current part.
    pub read: usize,
    /// When the first and the last token came, ms.
    pub times: Option<(f64, f64)>,
}

impl<'a> Output<'a> {
    /// An output without any tokens yet.
    pub fn new(tokenizer: &Rc<Tokenizer>, on_event: Listens<'a>) -> Self {
        Self {
            reading: None,
            decoder: tokenizer.stream(),
            scanner: StopScanner::new(&[]),
            text: String::new(),
            failure: None,
            stop: Rc::default(),
            tokenizer: tokenizer.clone(),
            logprobs: None,
            on_event: RefCell::new(on_event),
            read: 0,
            times: None,
        }
    }

    /// Sets the parser of an answer to messages, the texts and ids that end the answer, and whether log probabilities
    /// are wanted.
    pub fn expect(&mut self, reading: Option<Parser>, texts: &[String], stop: &[u32], logprobs: bool) {
        (self.reading, self.scanner, self.stop) = (reading, StopScanner::new(texts), stop.into());
        self.logprobs = logprobs.then(Vec::new);
    }

    /// Reports progress.
    pub fn progress(&self, progress: Progress) {
        (self.on_event.borrow_mut())(Event::Progress(progress));
    }

    /// Reports how much of the prompt is read.
    pub fn progress_of_prompt(&self, read: usize, total: usize) {
        self.progress(Progress::new(Phase::Prompt, (self.read + read) as u64, (self.read + total) as u64));
    }

    /// Takes the session's progress; false ends the generation.
    pub fn hear(&mut self, step: decode::Progress<'_>) -> bool {
        match step {
            decode::Progress::Tokens { ids, logprobs } => return self.push(ids, logprobs),
            decode::Progress::Read { read, total } => self.progress_of_prompt(read, total),
        }
        true
    }

    /// Takes new ids; false ends the generation.
    pub fn push(&mut self, ids: &[u32], logprobs: &[Logprobs]) -> bool {
        let now = now_ms();
        self.times = Some((self.times.map_or(now, |times| times.0), now));
        let (stop, tokenizer) = (self.stop.clone(), self.tokenizer.clone());
        let mut piece = String::new();
        let (mut text, mut parts) = (String::new(), Vec::new());
        for id in ids.iter().take_while(|id| !stop.contains(id)) {
            if let (Some(name), true) = (tokenizer.special_name(*id), self.reading.is_some()) {
                // The text before the special token comes first: the token ends what could have become a stop text.
                let before = self.scanner.push(&std::mem::take(&mut piece)) + &self.scanner.finish();
                parts.extend(self.read(&before));
                text.push_str(&before);
                let stopped = self.stopped();
                parts.extend(
                    self.reading.as_mut().filter(|_| !stopped).map_or_else(Vec::new, |reading| reading.special(name)),
                );
                continue;
            }
            match self.decoder.push(*id) {
                Ok(text) => piece.push_str(&text),
                Err(e) => {
                    self.failure = Some(e);
                    return false;
                }
            }
        }
        let rest = self.scanner.push(&piece);
        parts.extend(self.read(&rest));
        text.push_str(&rest);
        let of_text = ids.iter().zip(logprobs).take_while(|(id, _)| !stop.contains(id));
        let logprobs = of_text.map(|(id, logprobs)| self.scored(*id, logprobs)).collect();
        self.emit(Delta { text, tokens: ids.to_vec(), logprobs, parts });
        !self.stopped()
    }

    /// Ends the answer: passes on the text that was held back.
    pub fn finish(&mut self) -> Result<()> {
        if let Some(e) = self.failure.take() {
            return Err(e);
        }
        let mut text = String::new();
        if !self.stopped() {
            let rest = self.decoder.finish()?;
            text = self.scanner.push(&rest);
            text.push_str(&self.scanner.finish());
        }
        let mut parts = self.read(&text);
        parts.extend(self.reading.as_mut().map_or_else(Vec::new, Parser::finish));
        if !text.is_empty() || !parts.is_empty() {
            self.emit(Delta { text, parts, ..Delta::default() });
        }
        Ok(())
    }

    fn read(&mut self, text: &str) -> Vec<Part> {
        self.reading.as_mut().map_or_else(Vec::new, |reading| reading.push(text))
    }

    /// Whether a stop text was found.
    pub fn stopped(&self) -> bool {
        self.scanner.stopped_by().is_some()
    }

    fn scored(&self, id: u32, logprobs: &Logprobs) -> TokenLogprobs {
        let scored = |id: u32, logprob: f32| {
            let bytes = self.tokenizer.bytes(id);
            Scored { id, text: String::from_utf8_lossy(bytes).into_owned(), bytes: bytes.to_vec(), logprob }
        };
        TokenLogprobs {
            token: scored(id, logprobs.chosen),
            top: logprobs.likeliest.iter().map(|&(id, logprob)| scored(id, logprob)).collect(),
        }
    }

    fn emit(&mut self, delta: Delta) {
        self.text.push_str(&delta.text);
        if let Some(all) = &mut self.logprobs {
            all.extend_from_slice(&delta.logprobs);
        }
        (self.on_event.borrow_mut())(Event::Delta(&delta));
    }
}
