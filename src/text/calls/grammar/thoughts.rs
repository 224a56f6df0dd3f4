//! What may stand before an answer: the thought that the prompt has begun, or one that the model begins.

use serde_json::Value;

use super::super::formats::Thought;
use super::writer::{Writer, literal, optional, sequence, space, union, without};

/// `root` behind a thought, where there is or may be one. `called`: where a call ends a thought, what follows its
/// opening then. `ended`: whether the thought has to end all the same, as `root` may be something else than calls.
pub fn before(writer: &Writer<'_>, called: Option<&str>, ended: bool, root: Value) -> Value {
    if let Some(thought) = writer.formats.open_thought(writer.prompt) {
        return sequence([rest(writer, thought, called, ended), space(), root]);
    }
    let end = writer.prompt.trim_end();
    let taken = |thought: &&'static Thought| {
        thought.ends.iter().filter(|(_, taken)| *taken).map(|(end, _)| *end).collect::<Vec<_>>()
    };
    let thoughts = writer.thoughts();
    if thoughts.is_empty() || thoughts.iter().flat_map(taken).any(|close| end.ends_with(close)) {
        return root;
    }
    let mut ways = vec![literal("")];
    for thought in thoughts {
        if !thought.open.is_empty() {
            ways.push(sequence([space(), writer.text(thought.open), rest(writer, thought, called, ended), space()]));
        }
        // The end of a thought that was never opened.
        ways.extend(taken(&thought).into_iter().map(|end| sequence([space(), writer.text(end), space()])));
    }
    sequence([union(ways), root])
}

/// A thought after its opening, up to its end; or up to a call, where that ends it.
fn rest(writer: &Writer<'_>, thought: &'static Thought, called: Option<&str>, ended: bool) -> Value {
    let taken = thought.ends.iter().filter(|(_, taken)| *taken).map(|(end, _)| *end);
    let calls: Vec<&str> =
        thought.ends.iter().filter(|(end, taken)| !taken && writer.shown(end)).map(|(end, _)| *end).collect();
    if called.is_none() && calls.is_empty() {
        return union(taken.map(|end| writer.until(end)));
    }
    if !writer.forced {
        // The free text before calls is the thought's, too: a call is one in either.
        return literal("");
    }
    let opens = called.into_iter().flat_map(|follows| if follows.is_empty() { writer.opens() } else { vec![follows] });
    // What is a token is in no text.
    let kept = taken.clone().chain(calls).chain(opens).filter(|mark| writer.is_text(mark));
    let end = union(taken.map(|end| writer.text(end)));
    sequence([without(kept), if ended { end } else { optional(end) }])
}
