//! The variables that a chat template reads and does not set: its options, such as `enable_thinking`.

use std::collections::BTreeSet;

use minijinja::machinery::{Instruction, Instructions};

/// Names that are no options: what the engine sets, and what the template language itself defines.
const OTHERS: &[&str] = &[
    "messages",
    "tools",
    "documents",
    "add_generation_prompt",
    "loop",
    "caller",
    "varargs",
    "kwargs",
    "self",
    "super",
];

/// Adds the options that code reads, as [`super::template_code::bound`] gives it, to `options`, in the order of the
/// template's text. A name that is set further up, on whatever condition, is the template's own.
pub(super) fn find(code: &Instructions<'_>, is_known: impl Fn(&str) -> bool, options: &mut Vec<String>) {
    let all = || (0..).map_while(|at| code.get(at));
    // Macros begin with a jump to their end.
    let macros: BTreeSet<u32> = all()
        .filter_map(|instruction| match instruction {
            Instruction::BuildMacro(_, start, _) => Some(*start),
            _ => None,
        })
        .collect();
    let mut scopes: Vec<Vec<&str>> = vec![Vec::new()];
    for (at, instruction) in (0..).zip(all()) {
        if macros.contains(&at) {
            scopes.push(Vec::new());
        }
        match instruction {
            Instruction::PushLoop(_) | Instruction::PushWith => scopes.push(Vec::new()),
            Instruction::PopLoopFrame | Instruction::PopFrame | Instruction::Return => drop(scopes.pop()),
            Instruction::StoreLocal(name) => scopes.last_mut().into_iter().for_each(|scope| scope.push(name)),
            Instruction::Lookup(name) => {
                let is_set = scopes.iter().flatten().any(|set| set == name);
                if !is_set && !OTHERS.contains(name) && !is_known(name) && !options.iter().any(|known| known == name) {
                    options.push((*name).to_owned());
                }
            }
            _ => (),
        }
    }
}
