//! The compiled instructions of a chat template: what of them is refused, and what is called in their place.
//!
//! minijinja counts instructions and nothing else: doubling a text takes one. So operators that make something are
//! calls of the functions of [`super::template_budget`], which have names that no template can write.

use std::collections::BTreeMap;

use minijinja::Value;
use minijinja::machinery::{Instruction, Instructions};

use crate::error::{Error, Result};

/// Filters of Jinja that are not here.
const LEFT_OUT: &[&str] = &["random", "striptags", "urlize", "wordwrap"];

fn all<'a, 's>(code: &'a Instructions<'s>) -> impl Iterator<Item = &'a Instruction<'s>> {
    (0..).map_while(|at| code.get(at))
}

/// Refuses what would only fail, or differ from Jinja, when the template gets there. `TEMPLATE` names it and its line.
pub(super) fn check(code: &Instructions<'_>) -> Result<()> {
    let mut before: Option<&Instruction<'_>> = None;
    for (at, instruction) in (0..).zip(all(code)) {
        let what = match (instruction, before) {
            (Instruction::ApplyFilter(name, ..), _) if LEFT_OUT.contains(name) => format!("the filter '{name}'"),
            (Instruction::PushAutoEscape, Some(Instruction::LoadConst(value))) if !value.is_true() => String::new(),
            (Instruction::PushAutoEscape, _) => "autoescape".to_owned(),
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

/// A macro's code.
struct Macro {
    /// How many arguments it declares.
    declared: usize,
    /// Whether it reads `varargs` or `kwargs`.
    takes_more: bool,
}

/// The macros of compiled code by where they begin.
fn macros(code: &Instructions<'_>) -> BTreeMap<u32, Macro> {
    let mut found = BTreeMap::new();
    for (at, instruction) in (0..).zip(all(code)) {
        let Instruction::BuildMacro(_, start, _) = instruction else { continue };
        // The names of the arguments stand before it.
        let Some(Instruction::LoadConst(names)) = code.get(at - 1) else { continue };
        let takes_more = (*start..at).any(|at| matches!(code.get(at), Some(Instruction::Lookup("varargs" | "kwargs"))));
        found.insert(*start, Macro { declared: names.len().unwrap_or(0), takes_more });
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

/// The template's code with what is called in place of operators. Jumps lead to where what they led to went.
pub(super) fn bound<'s>(old: &Instructions<'s>) -> Instructions<'s> {
    use Instruction::{
        Add, BuildMacro, CallFunction, CallMethod, CompareAndPreserve, Emit, EmitRaw, Eq, GetItem, Gt, Gte, In,
        Iterate, Jump, JumpIfFalse, JumpIfFalseOrPop, JumpIfTrueOrPop, LoadConst, Lookup, Lt, Lte, Mul, Ne, PushLoop,
        Rem, SetAttr, Slice, StoreLocal, StringConcat, Swap, UnpackList,
    };
    let call = |name, operands| CallFunction(name, Some(operands));
    let macros = macros(old);
    let takes_more = |start: &u32| macros.get(start).is_some_and(|known| known.takes_more);
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
    let one = |at: u32, instruction: &Instruction<'s>| match instruction {
        Add => vec![call("+", 2)],
        Mul => vec![call("*", 2)],
        Rem => vec![call("%", 2)],
        StringConcat => vec![call("~", 2)],
        Slice => vec![call("[:]", 4)],
        GetItem => match at.checked_sub(1).and_then(|before| old.get(before)) {
            Some(LoadConst(key)) if key.as_str().is_some() || key.is_integer() => vec![instruction.clone()],
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
        PushLoop(_) => vec![call("for", 1), instruction.clone()],
        CallMethod("cycle", count) => vec![CallFunction(".cycle", *count)],
        EmitRaw(text) => vec![LoadConst(Value::from(*text)), Emit],
        StoreLocal(name) => store(name),
        SetAttr(_) => vec![Swap, call("=", 1), Swap, instruction.clone()],
        BuildMacro(_, start, _) if takes_more(start) => vec![instruction.clone(), call("macro", 1)],
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
        if known.takes_more {
            add(at, [store("kwargs"), store("varargs")].concat());
        }
        let arguments = arguments(old, at, known.declared);
        let name = |range: &std::ops::RangeInclusive<u32>| match old.get(*range.end()) {
            Some(StoreLocal(name)) => *name,
            _ => "",
        };
        for range in &arguments {
            add(*range.start(), store(name(range)));
        }
        for range in arguments.iter().rev().filter(|range| range.start() < range.end()) {
            add(*range.start(), vec![Lookup(name(range))]);
            for at in range.clone() {
                if let Some(instruction) = old.get(at) {
                    add(at, one(at, instruction));
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
