//! The compiled instructions of a chat template: what of them is refused, and what is called in their place.
//!
//! minijinja counts instructions and nothing else: doubling a text takes one. So operators that make something are
//! calls of the functions of [`super::template_budget`], which have names that no template can write.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::Value;
use minijinja::machinery::{Instruction, Instructions, Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;

use super::methods::is_method;
use crate::error::{Error, Result};

/// Filters of Jinja that are not here.
const LEFT_OUT: &[&str] = &["random", "striptags", "urlize", "wordwrap"];

/// minijinja's mark of a recursive loop.
const RECURSIVE: u8 = 2;
/// Stands behind literals as the name of an attribute, in a template's source only.
const LITERAL: &str = "_literal";

/// What stands before a word or sign.
#[derive(Clone, Copy)]
enum Before {
    Other,
    /// `is`, with a test behind it.
    Is,
    /// A test, which may be given a value without parentheses.
    Test,
    Dot,
    Text,
    /// What opens a list or an object, and where.
    Open(usize),
}

/// The source of a template with [`LITERAL`] behind the literals of each tag that has operators or objects: minijinja
/// does those of literals by its own rules while it compiles. [`bound`] takes the attributes away.
///
/// `TEMPLATE` where a text has an escape that minijinja leaves as it is, and for a number that ends in a dot, which
/// Jinja does not read.
pub(super) fn unfolded(source: &str, syntax: SyntaxConfig) -> Result<String> {
    let mut out = String::with_capacity(source.len());
    let (mut done, mut literals, mut operators) = (0, Vec::<(usize, usize)>::new(), false);
    let mut before = Before::Other;
    for (token, span) in tokenize(source, false, syntax).map_while(Result::ok) {
        let (start, end) = (span.start_offset as usize, span.end_offset as usize);
        let is_text = matches!(token, Token::Str(_) | Token::String(_));
        let plain = if is_text { source[start..end].replace("\\\\", "") } else { String::new() };
        if ["\\U", "\\N", "\\a", "\\v"].iter().any(|escape| plain.contains(escape)) {
            return Err(Error::template(format!(
                "the chat template has an escape in line {} that is not supported",
                span.start_line
            )));
        }
        if matches!(token, Token::Float(_)) && source[start..end].ends_with('.') {
            return Err(Error::template(format!(
                "the chat template has the number {} in line {}, which ends in a dot",
                &source[start..end],
                span.start_line
            )));
        }
        let is_first = matches!(before, Before::Other | Before::Open(_));
        before = match (&token, before) {
            (Token::VariableEnd | Token::BlockEnd, _) => {
                for (start, end) in literals.drain(..).filter(|_| operators) {
                    let literal = &source[start..end];
                    out.push_str(&source[done..start]);
                    if literal.starts_with(|c: char| c.is_ascii_digit()) {
                        out.push_str(&format!("({literal}).{LITERAL}"));
                    } else {
                        out.push_str(&format!("{literal}.{LITERAL}"));
                    }
                    done = end;
                }
                operators = false;
                Before::Other
            }
            (Token::Ident("is"), _) | (Token::Ident("not"), Before::Is) => Before::Is,
            (Token::Ident(_), Before::Is) => Before::Test,
            (Token::Str(_) | Token::String(_), Before::Text) => {
                // Texts in a row are one.
                literals.last_mut().into_iter().for_each(|last| last.1 = end);
                Before::Text
            }
            (Token::Str(_) | Token::String(_), _) if is_first => {
                literals.push((start, end));
                Before::Text
            }
            (Token::Ident("true" | "True" | "false" | "False" | "none" | "None"), _)
            | (Token::Int(_) | Token::Int128(_) | Token::Float(_), _)
                if is_first =>
            {
                literals.push((start, end));
                Before::Other
            }
            (Token::BracketOpen | Token::BraceOpen, _) => {
                operators |= matches!(token, Token::BraceOpen);
                Before::Open(start)
            }
            (Token::BracketClose | Token::BraceClose, Before::Open(start)) => {
                literals.push((start, end));
                Before::Other
            }
            (Token::Dot, _) => Before::Dot,
            (token, _) => {
                operators |= match token {
                    Token::Ident(name) => matches!(*name, "not" | "in" | "and" | "or"),
                    Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => false,
                    Token::Pipe | Token::Comma | Token::Colon | Token::Assign => false,
                    Token::BracketClose | Token::BraceClose | Token::ParenOpen | Token::ParenClose => false,
                    _ => true,
                };
                Before::Other
            }
        };
    }
    out.push_str(&source[done..]);
    Ok(out)
}

fn all<'a, 's>(code: &'a Instructions<'s>) -> impl Iterator<Item = &'a Instruction<'s>> {
    (0..).map_while(|at| code.get(at))
}

/// Refuses what would only fail, or differ from Jinja, when the template gets there. `TEMPLATE` names it and its line.
pub(super) fn check(code: &Instructions<'_>) -> Result<()> {
    let mut before: Option<&Instruction<'_>> = None;
    for (at, instruction) in (0..).zip(all(code)) {
        let what = match (instruction, before) {
            (Instruction::Lookup("self"), _) => "'self' as a value".to_owned(),
            (Instruction::BuildMap(pairs), _) => same_keys(&literal_keys(code, at, *pairs)).unwrap_or_default(),
            (Instruction::ApplyFilter(name, ..), _) if LEFT_OUT.contains(name) => format!("the filter '{name}'"),
            (Instruction::PushAutoEscape, Some(Instruction::LoadConst(value))) if !value.is_true() => String::new(),
            (Instruction::PushAutoEscape, _) => "autoescape".to_owned(),
            (Instruction::PushDidNotIterate, _) if leaves_early(code, at) => {
                "the 'else' of a loop with 'break' or 'continue'".to_owned()
            }
            _ => String::new(),
        };
        if !what.is_empty() {
            let line = code.get_line(at).unwrap_or(0);
            return Err(Error::template(format!(
                "the chat template uses {what} in line {line}, which is not supported"
            )));
        }
        before = Some(instruction);
    }
    Ok(())
}

/// Whether the loop that ends at `end` has a `break` or a `continue`. Jinja runs its `else` where no iteration reached
/// the end of the loop's body, minijinja where there was no iteration.
fn leaves_early(code: &Instructions<'_>, end: u32) -> bool {
    let begins = |at: &u32| matches!(code.get(*at), Some(Instruction::Iterate(target)) if *target == end);
    let Some(start) = (0..end).rev().find(begins) else { return false };
    let leaves = |instruction| matches!(instruction, &Instruction::Jump(to) if to == start || to == end);
    // The last one before the end closes the loop.
    (start..end - 1).filter_map(|at| code.get(at)).any(leaves)
}

/// The keys, last to first, of an object of literals that the instruction at `at` makes; nothing where others are among
/// its keys and values: [`bound`] has those compared when they are known.
fn literal_keys(code: &Instructions<'_>, at: u32, pairs: usize) -> Vec<Value> {
    let mut parts = Vec::new();
    for instruction in (0..at).rev().map_while(|before| code.get(before)) {
        match instruction {
            Instruction::LoadConst(value) => parts.push(value.clone()),
            Instruction::GetAttr(LITERAL) => {}
            _ => break,
        }
        if parts.len() == 2 * pairs {
            return parts.into_iter().skip(1).step_by(2).collect();
        }
    }
    Vec::new()
}

/// Says which of an object's keys are the same in Python, but two keys here. Of the keys before there is an object:
/// there they are equal, and stay two only where their hashes differ.
pub(super) fn same_keys(keys: &[Value]) -> Option<String> {
    let has = |key: &Value| keys.iter().any(|other| other.kind() == ValueKind::Number && other == key);
    let mut truths = keys.iter().filter(|key| key.kind() == ValueKind::Bool);
    truths
        .find(|key| has(&Value::from(i64::from(key.is_true()))))
        .map(|key| format!("an object with the keys {} and {key}, which are one in Jinja", i64::from(key.is_true())))
}

/// A macro's code.
struct Macro {
    /// How many arguments it declares.
    declared: usize,
    /// Whether it reads `varargs`, and `kwargs`.
    reads: [bool; 2],
}

impl Macro {
    fn takes_more(&self) -> bool {
        self.reads.contains(&true)
    }

    /// What makes it.
    fn maker(&self) -> &'static str {
        match self.reads {
            [false, false] => "closed macro",
            [true, false] => "macro of varargs",
            [false, true] => "macro of kwargs",
            [true, true] => "macro of both",
        }
    }
}

/// The macros of compiled code by where they begin.
fn macros(code: &Instructions<'_>) -> BTreeMap<u32, Macro> {
    let mut found = BTreeMap::new();
    for (at, instruction) in (0..).zip(all(code)) {
        let Instruction::BuildMacro(_, start, _) = instruction else { continue };
        // The names of the arguments stand before it.
        let Some(Instruction::LoadConst(names)) = code.get(at - 1) else { continue };
        let reads = ["varargs", "kwargs"].map(|read| {
            (*start..at).any(|at| matches!(code.get(at), Some(Instruction::Lookup(name)) if *name == read))
        });
        found.insert(*start, Macro { declared: names.len().unwrap_or(0), reads });
    }
    found
}

/// Where the code of each declared argument stands, the last one's first: one instruction that stores it, behind those
/// of its default.
fn arguments(code: &Instructions<'_>, start: u32, declared: usize) -> Vec<std::ops::RangeInclusive<u32>> {
    let mut at = start;
    let mut one = || {
        let end = match (code.get(at), code.get(at + 2)) {
            (Some(Instruction::DupTop), Some(Instruction::JumpIfFalse(end))) => *end,
            _ => at,
        };
        let range = at..=end;
        at = end + 1;
        range
    };
    (0..declared).map(|_| one()).collect()
}

/// The first and the last instruction of each scope, and whether what is written in it is kept.
fn scopes(code: &Instructions<'_>) -> Vec<(u32, u32, bool)> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for (at, instruction) in (0..).zip(all(code)) {
        match instruction {
            Instruction::BeginCapture(_) => open.push((at, true)),
            Instruction::PushWith => open.push((at, false)),
            Instruction::EndCapture | Instruction::PopFrame => {
                found.extend(open.pop().map(|(start, kept)| (start, at, kept)));
            }
            _ => (),
        }
    }
    found
}

/// Where what the filters of `{% filter %}` blocks make is written.
fn filtered(code: &Instructions<'_>, scopes: &[(u32, u32, bool)]) -> BTreeSet<u32> {
    let written = |end: u32| {
        for at in end + 1.. {
            match code.get(at)? {
                Instruction::Emit => return Some(at),
                Instruction::StoreLocal(_) | Instruction::SetAttr(_) | Instruction::Return => return None,
                Instruction::ExportLocals => return None,
                _ => (),
            }
        }
        None
    };
    scopes.iter().filter(|(.., kept)| *kept).filter_map(|(_, end, _)| written(*end)).collect()
}

/// The template's code with what is called in place of operators. Jumps lead to where what they led to went.
pub(super) fn bound<'s>(old: &Instructions<'s>) -> Instructions<'s> {
    use Instruction::{
        Add, BeginCapture, BuildList, BuildMacro, BuildMap, CallFunction, CallMethod, CompareAndPreserve, DiscardTop,
        Emit, EmitRaw, EndCapture, Eq, FastRecurse, GetAttr, GetItem, Gt, Gte, In, Iterate, Jump, JumpIfFalse,
        JumpIfFalseOrPop, JumpIfTrueOrPop, LoadConst, Lookup, Lt, Lte, Mul, Ne, Neg, PopFrame, Pow, PushLoop, PushWith,
        Rem, SetAttr, Slice, StoreLocal, StringConcat, Swap, UnpackList,
    };
    let call = |name, operands| CallFunction(name, Some(operands));
    let macros = macros(old);
    let takes_more = |start: &u32| macros.get(start).is_some_and(Macro::takes_more);
    let store = |name| vec![call("=", 1), StoreLocal(name)];
    let mut new = Instructions::new(old.name(), old.source());
    // Where each of the old ones begins.
    let mut places = BTreeMap::new();
    let mut add = |at: u32, list: Vec<Instruction<'s>>| {
        let line = old.get_line(at).unwrap_or(0) as u16;
        for one in list {
            let place = new.add_with_line(one, line);
            places.entry(at).or_insert(place);
        }
    };
    // Where values come together: the one before is not the only one that gets there.
    let joined = |instruction: &Instruction<'_>| match instruction {
        Jump(to) | JumpIfFalseOrPop(to) | JumpIfTrueOrPop(to) => Some(*to),
        _ => None,
    };
    let targets: BTreeSet<u32> = all(old).filter_map(joined).collect();
    let scopes = scopes(old);
    let filtered = filtered(old, &scopes);
    let recurses = all(old).any(|one| matches!(one, PushLoop(flags) if flags & RECURSIVE != 0));
    let one = |at: u32, instruction: &Instruction<'s>| match instruction {
        GetAttr(LITERAL) => Vec::new(),
        GetAttr(name) if is_method(name) => vec![LoadConst(Value::from(*name)), call(".", 2)],
        Neg => vec![call("-", 1)],
        Pow => vec![call("**", 2)],
        Add => vec![call("+", 2)],
        Mul => vec![call("*", 2)],
        Rem => vec![call("%", 2)],
        StringConcat => vec![call("~", 2)],
        Slice => vec![call("[:]", 4)],
        GetItem => match at.checked_sub(1).and_then(|before| old.get(before)) {
            Some(LoadConst(key)) if key.as_str().is_some_and(|key| !is_method(key)) && !targets.contains(&at) => {
                vec![instruction.clone()]
            }
            _ => vec![call("[]", 2)],
        },
        Eq => vec![call("==", 2)],
        Ne => vec![call("!=", 2)],
        In => vec![call("in", 2)],
        Lt => vec![call("<", 2)],
        Lte => vec![call("<=", 2)],
        Gt => vec![call(">", 2)],
        Gte => vec![call(">=", 2)],
        // In a chain, whose next operand is the second of these.
        CompareAndPreserve(operator) => {
            vec![LoadConst(Value::from(format!("{operator:?}"))), call("a<b<c", 3), UnpackList(2)]
        }
        PushLoop(_) | FastRecurse => vec![call("for", 1), instruction.clone()],
        CallFunction("loop", Some(1)) if recurses => vec![call("for", 1), instruction.clone()],
        CallMethod("cycle", count) => vec![CallFunction(".cycle", *count)],
        // What is set within `{% set x %}` and `{% filter %}` is not known behind it.
        BeginCapture(_) => vec![PushWith, instruction.clone()],
        EndCapture => vec![instruction.clone(), PopFrame],
        // `break` and `continue` leave what they stand in; the innermost was found first.
        Jump(to) => {
            let left = scopes
                .iter()
                .filter(|(start, end, _)| (*start..*end).contains(&at) && !(*start + 1..=*end).contains(to));
            let closes = |kept: bool| if kept { vec![EndCapture, DiscardTop, PopFrame] } else { vec![PopFrame] };
            left.flat_map(|(.., kept)| closes(*kept)).chain([instruction.clone()]).collect()
        }
        BuildMap(pairs) => vec![BuildList(Some(2 * pairs)), call("{}", 1)],
        Emit if filtered.contains(&at) => vec![call("filter block", 1), instruction.clone()],
        EmitRaw(text) => vec![LoadConst(Value::from(*text)), Emit],
        StoreLocal(name) => store(name),
        SetAttr(_) => vec![Swap, call("=", 1), Swap, instruction.clone()],
        BuildMacro(_, start, _) => {
            vec![instruction.clone(), call(macros.get(start).map_or("closed macro", Macro::maker), 1)]
        }
        // The names of a macro's arguments.
        LoadConst(names) => match old.get(at + 1) {
            Some(BuildMacro(_, start, _)) if takes_more(start) => {
                let names = names.try_iter().into_iter().flatten().chain(["varargs", "kwargs"].map(Value::from));
                vec![LoadConst(Value::from(names.collect::<Vec<_>>()))]
            }
            _ => vec![instruction.clone()],
        },
        _ => vec![instruction.clone()],
    };
    let mut at = 0;
    while let Some(instruction) = old.get(at) {
        let Some(known) = macros.get(&at) else {
            add(at, one(at, instruction));
            at += 1;
            continue;
        };
        // First all arguments are stored as they are given, then those that are not get their defaults, which may name
        // arguments before them.
        if known.takes_more() {
            add(at, [store("kwargs"), store("varargs")].concat());
        }
        let arguments = arguments(old, at, known.declared);
        let name = |range: &std::ops::RangeInclusive<u32>| match old.get(*range.end()) {
            Some(StoreLocal(name)) => *name,
            _ => "",
        };
        for range in &arguments {
            let name = name(range);
            // What is missing stays so for its default.
            add(*range.start(), if range.start() < range.end() { vec![StoreLocal(name)] } else { store(name) });
        }
        for range in arguments.iter().rev().filter(|range| range.start() < range.end()) {
            add(*range.start(), vec![Lookup(name(range))]);
            for at in range.clone() {
                if let Some(instruction) = old.get(at) {
                    let is_test = at == range.start() + 1;
                    add(at, if is_test { vec![call("is missing", 1)] } else { one(at, instruction) });
                }
            }
        }
        at = arguments.last().map_or(at, |range| range.end() + 1);
        // A macro without arguments begins with its body.
        if arguments.is_empty()
            && let Some(instruction) = old.get(at)
        {
            add(at, one(at, instruction));
            at += 1;
        }
    }
    let mut at = 0;
    while let Some(instruction) = new.get_mut(at) {
        match instruction {
            Iterate(to)
            | Jump(to)
            | JumpIfFalse(to)
            | JumpIfFalseOrPop(to)
            | JumpIfTrueOrPop(to)
            | BuildMacro(_, to, _) => {
                *to = places.get(to).copied().unwrap_or(u32::MAX);
            }
            _ => (),
        }
        at += 1;
    }
    new
}
