//! Several answers of one engine at a time. Answers take their steps together where the model has steps of several
//! rows; the others take turns with these. A new request's prompt is read pass by pass, with steps of the other answers
//! between two passes. Requests beyond [`LoadOptions::concurrency`](super::LoadOptions) are queued at the desk.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::answer::Answer;
use super::output::Listens;
use super::{Engine, Generation, Request};
use crate::base::{Cancel, now_ms};
use crate::decode::MOST_TOGETHER;
use crate::error::Result;
use crate::grammar::Grammar;
use crate::state::{FIRST, Input, SequenceId};

/// The length of a turn while other answers wait for theirs, ms.
const TURN_MS: f64 = 100.0;
/// The length of a turn while a prompt is being read, and of a chunk of such a turn, ms: the next pass waits for the
/// chunks in flight.
const TURN_OF_READER_MS: f64 = 4.0;
/// A prompt that shares at least this many more tokens with a sequence in use than with any free one begins as its
/// copy.
const WORTH_A_COPY: usize = 32;
/// A text is kept, for later prompts to come back to, where its reuse would drop at least this many tokens of its
/// prompt. What a chat's template leaves out of the next turn's prompt, mostly thoughts, is fewer.
const WORTH_KEEPING: usize = 8;
/// Bytes of all grammars that answers with common steps walk: an answer whose grammar is beyond takes turns with them.
const MOST_GRAMMAR_BYTES: usize = 16 << 20;
/// Texts of requests without a conversation that are kept, in addition to one per concurrent answer.
const KEPT_TEXTS: usize = 4;

/// A request with its callbacks.
pub struct Asked<'a> {
    /// The request.
    pub request: Request,
    /// Called with each piece.
    pub on_event: Listens<'a>,
    /// Ends the answer with the text so far.
    pub cancel: Cancel,
    /// Called with the result.
    pub done: Box<dyn FnOnce(Result<Generation>) + 'a>,
}

/// The queue of requests to an engine at work: first come, first served.
#[derive(Default)]
pub struct Desk<'a> {
    waiting: RefCell<VecDeque<Asked<'a>>>,
}

impl<'a> Desk<'a> {
    /// Queues a request.
    pub fn ask(&self, asked: Asked<'a>) {
        self.waiting.borrow_mut().push_back(asked);
    }

    /// Number of queued requests.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// Whether the first queued request may begin beside the answers in progress.
    fn may_begin(&self, active: &[Active<'_>]) -> bool {
        // A conversation is one text: its answers are generated in sequence.
        let free = |asked: &Asked<'_>| {
            asked.request.conversation == 0 || active.iter().all(|one| one.conversation != asked.request.conversation)
        };
        self.waiting.borrow().front().is_some_and(free)
    }

    fn take(&self) -> Option<Asked<'a>> {
        self.waiting.borrow_mut().pop_front()
    }
}

/// An answer in progress, with the callback for its result.
struct Active<'a> {
    conversation: u32,
    answer: Answer<'a>,
    done: Box<dyn FnOnce(Result<Generation>) + 'a>,
    /// Whether the answer has a sequence, and whether it has a token.
    placed: bool,
    begun: bool,
}

/// The sequences of answers in progress.
fn busy(active: &[Active<'_>]) -> Vec<SequenceId> {
    active.iter().filter(|one| one.placed).map(|one| one.answer.sequence).collect()
}

/// Those of `together` whose grammars, equal ones counted once, fit into `room` bytes.
fn fitting<'g>(
    mut together: Vec<usize>,
    grammar: impl Fn(usize) -> Option<&'g Rc<Grammar>>,
    mut room: usize,
) -> Vec<usize> {
    let mut seen: Vec<&Rc<Grammar>> = Vec::new();
    together.retain(|i| {
        let Some(grammar) = grammar(*i).filter(|it| !seen.iter().any(|one| Rc::ptr_eq(one, it))) else { return true };
        let bytes = grammar.automaton.bytes();
        if bytes > room {
            return false;
        }
        room -= bytes;
        seen.push(grammar);
        true
    });
    together
}

/// What the answers in progress do next.
enum NextTurn {
    /// One answer continues alone.
    One(usize),
    /// One answer reads a pass of its prompt.
    Reads(usize),
    /// Several answers take steps together.
    Together(Vec<usize>),
}

impl Engine {
    /// The most answers at one time.
    pub fn concurrency(&self) -> usize {
        (self.options.concurrency.unwrap_or(1) as usize).clamp(1, MOST_TOGETHER)
    }

    /// Answers the requests of a desk, several at a time, until none is left. `looked` is called with the engine
    /// whenever an answer has ended.
    pub async fn serve<'a>(&mut self, desk: &Desk<'a>, looked: &dyn Fn(&Self)) {
        let mut active: Vec<Active<'a>> = Vec::new();
        let mut turns = 0;
        let mut others_first = false;
        loop {
            self.admit(desk, &mut active).await;
            if active.is_empty() {
                return;
            }
            self.place(&mut active);
            let turn = self.turn(&active, turns, others_first);
            turns += 1;
            // After a pass of a prompt, or a first token, the other answers take steps before the next pass.
            others_first =
                matches!(&turn, NextTurn::Reads(_)) || matches!(&turn, NextTurn::One(i) if !active[*i].begun);
            self.take_turn(desk, &mut active, turn).await;
            let mut i = 0;
            while i < active.len() {
                let one = &mut active[i];
                one.begun |= !one.answer.outcome.tokens.is_empty();
                if !one.answer.ended() {
                    i += 1;
                    continue;
                }
                let Active { answer, done, .. } = active.remove(i);
                let ended = self.end(answer).await;
                looked(self);
                done(ended);
            }
        }
    }

    /// Begins queued requests up to [`Engine::concurrency`].
    async fn admit<'a>(&mut self, desk: &Desk<'a>, active: &mut Vec<Active<'a>>) {
        while active.len() < self.concurrency() && desk.may_begin(active) {
            let Some(Asked { request, on_event, cancel, done }) = desk.take() else { return };
            let conversation = request.conversation;
            // Logits of the prompt are read in `begin`, which needs a sequence for that.
            let placed = request.logits || request.logits_from.is_some();
            let busy = busy(active);
            match self.begin(Cow::Owned(request), on_event, &cancel, placed.then_some(&busy[..])).await {
                Ok(answer) => active.push(Active { conversation, answer, done, placed, begun: false }),
                Err(e) => done(Err(e)),
            }
            if active.len() > 1 {
                active.iter_mut().for_each(|one| one.answer.in_company = true);
            }
        }
    }

    /// Gives the next answer to begin its sequence: the answers before it have read their prompts, so that it can begin
    /// as a copy of one.
    fn place(&mut self, active: &mut [Active<'_>]) {
        let busy = busy(active);
        let Some(next) = active.iter_mut().find(|one| !one.begun).filter(|one| !one.placed) else { return };
        match self.sequence_for(&next.answer.request, &next.answer.prompt, &busy) {
            Ok(sequence) => (next.answer.sequence, next.placed) = (sequence, true),
            Err(e) => next.answer.failure = Some(e),
        }
    }

    fn turn(&self, active: &[Active<'_>], turns: usize, others_first: bool) -> NextTurn {
        let ready: Vec<usize> = (0..active.len()).filter(|i| active[*i].begun).collect();
        if let Some(reader) =
            (0..active.len()).find(|i| !active[*i].begun).filter(|_| !others_first || ready.is_empty())
        {
            let answer = &active[reader].answer;
            let in_passes =
                !ready.is_empty() && self.session.reads_in_passes(answer.sequence, &answer.prompt, answer.afresh);
            return if in_passes { NextTurn::Reads(reader) } else { NextTurn::One(reader) };
        }
        // Answers can step together where their keys are rotated alike.
        let beside = |i: &usize| active[*i].answer.resumed && active[*i].answer.may_stand_beside();
        let long = |i: usize| self.session.is_long(active[i].answer.prompt.len() as u32);
        let first = ready.iter().copied().find(beside).filter(|_| self.steps_together());
        // Answers with adapters, equal or not, have a plan of their own, and take turns with those without.
        let alike = |a: usize, b: usize| long(a) == long(b) && active[a].answer.adapted() == active[b].answer.adapted();
        let together: Vec<usize> =
            ready.iter().copied().filter(|i| beside(i) && first.is_some_and(|first| alike(first, *i))).collect();
        let together = fitting(together, |i| active[i].answer.grammar(), MOST_GRAMMAR_BYTES);
        let others: Vec<usize> = ready.into_iter().filter(|i| together.len() < 2 || !together.contains(i)).collect();
        let turns = turns % (others.len() + usize::from(together.len() > 1)).max(1);
        others.get(turns).map_or(NextTurn::Together(together), |i| NextTurn::One(*i))
    }

    /// Whether answers take steps together rather than turns; in software a step of several rows costs as much as the
    /// steps of each.
    fn steps_together(&self) -> bool {
        let caps = self.session.gpu().caps();
        self.session.has_steps_of_rows() && self.options.together.unwrap_or(!caps.software)
    }

    async fn take_turn<'a>(&mut self, desk: &Desk<'a>, active: &mut [Active<'a>], turn: NextTurn) {
        if active.iter().any(|one| one.answer.failure.is_some()) {
            return;
        }
        let began = now_ms();
        let reading = active.iter().any(|one| !one.begun);
        let (patience, chunks) =
            if reading { (TURN_OF_READER_MS, TURN_OF_READER_MS) } else { (TURN_MS, f64::INFINITY) };
        let room = active.len() < self.concurrency();
        let cancels: Vec<Cancel> = active.iter().map(|one| one.answer.cancel.clone()).collect();
        let all = match &turn {
            NextTurn::Together(members) => members.len() == active.len(),
            _ => active.len() == 1,
        };
        // An answer that has just begun pauses after its first token.
        let first_token = matches!(&turn, NextTurn::One(i) if !active[*i].begun) && active.len() > 1;
        let arrivals = Cell::new(desk.waiting());
        let pause = || {
            // A request that waits for its conversation's current answer does not interrupt the turn.
            let came = room && desk.waiting() > arrivals.get();
            first_token
                || came
                || (!all && now_ms() - began > patience)
                || (!all && cancels.iter().any(Cancel::is_cancelled))
        };
        match turn {
            NextTurn::One(i) => self.go_on(&mut [&mut active[i].answer], &pause, chunks).await,
            NextTurn::Reads(i) => self.read_pass(&mut active[i].answer).await,
            NextTurn::Together(members) => {
                let chosen = active.iter_mut().enumerate().filter(|(i, _)| members.contains(i));
                self.go_on(&mut chosen.map(|(_, one)| &mut one.answer).collect::<Vec<_>>(), &pause, chunks).await;
            }
        }
    }

    /// Reads a pass of an answer's prompt.
    async fn read_pass(&mut self, answer: &mut Answer<'_>) {
        let began = now_ms();
        let seen = self.look_for(answer).await;
        let read = match seen {
            Ok(()) => self.session.read_pass_of(answer.sequence, &answer.prompt, answer.afresh, &answer.cancel).await,
            Err(e) => Err(e),
        };
        answer.reading_ms += now_ms() - began;
        match read {
            Ok((known, read)) => {
                answer.afresh = false;
                answer.out.progress_of_prompt(read, answer.prompt.len() - known);
                answer.out.read += read;
            }
            Err(e) => self.went_wrong(&mut [answer], e).await,
        }
    }

    /// The sequence of a conversation. Conversation 0, of requests without one, is the sequence of the latest such
    /// request.
    pub(super) fn sequence_of(&self, conversation: u32) -> SequenceId {
        if conversation == 0 { self.latest } else { SequenceId(conversation) }
    }

    /// The sequence for a request. Without a conversation it is the free sequence that shares most of the prompt, or a
    /// new one: texts of such requests are kept beside each other as long as there is room.
    pub(super) fn sequence_for(
        &mut self,
        request: &Request,
        prompt: &Input,
        busy: &[SequenceId],
    ) -> Result<SequenceId> {
        let voice = self.voice(request)?;
        if request.conversation != 0 {
            self.session.states_mut().speak(SequenceId(request.conversation), voice)?;
            return Ok(SequenceId(request.conversation));
        }
        let shares = |engine: &Self, id: SequenceId| {
            let states = engine.session.states();
            // A cache that was filled with another adapter cannot be reused.
            let history = states.history(id).ok().filter(|_| states.voice(id).is_ok_and(|of| of == voice.as_ref()));
            history.map_or(0, |history| history.input().common(prompt))
        };
        let best = |engine: &Self, ids: &[SequenceId]| {
            ids.iter().copied().max_by_key(|id| (shares(engine, *id), *id == engine.latest))
        };
        let idle: Vec<SequenceId> = self.nameless.iter().copied().filter(|id| !busy.contains(id)).collect();
        let (free, copied) = (best(self, &idle), best(self, busy));
        let known = free.map_or(0, |id| shares(self, id));
        let copied = copied.filter(|id| request.reuse && shares(self, *id) >= known + WORTH_A_COPY);
        // Reuse of a free sequence drops its text behind the shared prefix: where a later prompt may come back to that
        // text, the sequence stays, and its prefix is copied.
        let forgotten = |id: SequenceId| {
            self.session.states().history(id).map_or(0, |history| history.prompt_len().saturating_sub(known))
        };
        let kept = free
            .filter(|id| copied.is_none() && request.reuse && known < prompt.len() && forgotten(*id) >= WORTH_KEEPING);
        let begins_as = copied.or(kept.filter(|_| known > 0));
        let chosen = match (begins_as, free.filter(|_| kept.is_none())) {
            (Some(from), free) => {
                let shared = shares(self, from);
                let copy = self.session.states_mut().fork_at(from, shared)?;
                free.into_iter().for_each(|free| self.forget_nameless(free));
                copy
            }
            (None, Some(free)) => free,
            (None, None) => self.another(busy),
        };
        if !self.nameless.contains(&chosen) {
            self.nameless.push(chosen);
        }
        self.latest = chosen;
        for id in &self.nameless {
            self.session.states_mut().set_evictable(*id, *id != chosen && !busy.contains(id))?;
        }
        self.session.states_mut().speak(chosen, voice)?;
        self.forget_oldest(busy);
        Ok(chosen)
    }

    /// A free sequence without a text, or a new one.
    fn another(&mut self, busy: &[SequenceId]) -> SequenceId {
        let empty = |id: &SequenceId| {
            !busy.contains(id) && self.session.states().history(*id).is_ok_and(|history| history.is_empty())
        };
        let there = self.nameless.iter().copied().find(empty);
        there.unwrap_or_else(|| self.session.states_mut().begin_another())
    }

    /// Evicts the least recently used texts beyond those that are kept.
    fn forget_oldest(&mut self, busy: &[SequenceId]) {
        while self.nameless.len() > self.concurrency() + KEPT_TEXTS {
            let idle = self.nameless.iter().copied().filter(|id| *id != self.latest && !busy.contains(id));
            let Some(oldest) = idle.min_by_key(|id| self.session.states().used(*id)) else { return };
            self.forget_nameless(oldest);
        }
    }

    pub(super) fn forget_nameless(&mut self, sequence: SequenceId) {
        self.session.states_mut().release(sequence);
        self.nameless.retain(|id| *id != sequence);
        if self.latest == sequence {
            self.latest = FIRST;
        }
        if !self.nameless.contains(&self.latest) {
            self.nameless.push(self.latest);
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_grammar::CLASS_WORDS;

    use super::*;
    use crate::grammar::Automaton;

    #[test]
    fn grammars_beyond_the_room_are_walked_alone() {
        // All bytes are of one class, and no state goes on.
        let grammar = |states: u32| {
            let words = vec![0; states as usize];
            let automaton = Automaton::from_parts(words.clone(), vec![0; CLASS_WORDS], words, 1, states, 0, 1)
                .expect("an automaton");
            Rc::new(Grammar { automaton, warnings: Vec::new(), ms: 0.0 })
        };
        let (a, b) = (grammar(2), grammar(9));
        let of = [Some(&a), None, Some(&b), Some(&a), None, Some(&b)];
        let bytes = [&a, &b].map(|it| it.automaton.bytes());
        let fits = |room| fitting((0..of.len()).collect(), |i| of[i], room);
        assert_eq!(fits(bytes[0] + bytes[1]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(fits(bytes[0]), [0, 1, 3, 4]);
        assert_eq!(fits(0), [1, 4]);
    }
}
