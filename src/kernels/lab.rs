//! For work on shaders only (feature `lab`): templates that replace those of the build, and emulated subgroups.

use std::cell::Cell;
use std::sync::OnceLock;

use minijinja::Environment;

use super::caps::Emulated;
use super::{TEMPLATES, Variant, all, environment, lines};
use crate::error::{Error, Result};

thread_local! {
    /// What has replaced the build's templates, on this thread.
    static REPLACED: Cell<Option<&'static Environment<'static>>> = const { Cell::new(None) };
}

/// The templates in force. Their lines are marked with where they stand, for the messages of compilers; they stay in
/// memory for good.
pub(super) fn templates() -> &'static Environment<'static> {
    static BUILT: OnceLock<&'static Environment<'static>> = OnceLock::new();
    // What does not parse did not build.
    REPLACED.get().unwrap_or_else(|| {
        BUILT.get_or_init(|| made(TEMPLATES.iter().copied()).unwrap_or_else(|_| Box::leak(Box::new(environment()))))
    })
}

/// An environment of these templates, (name below shaders/, text).
fn made<'a>(templates: impl Iterator<Item = (&'a str, &'a str)>) -> Result<&'static Environment<'static>> {
    let mut environment = environment();
    for (name, text) in templates {
        let (name, text): (&'static str, &'static str) =
            (Box::leak(Box::from(name)), Box::leak(lines::mark(name, text).into_boxed_str()));
        environment.add_template(name, text).map_err(|e| Error::bad_option(lines::blame(&e)))?;
    }
    Ok(Box::leak(Box::new(environment)))
}

/// Puts these templates, (name below shaders/, text), in the place of those that are in force on this thread, and tells
/// which of the variants that `filter` lets through have another text now. Bindings, constants and the table of
/// variants stay those of the build.
///
/// # Errors
/// [`crate::ErrorKind::BadOption`], naming file and line, where one does not parse or render: then the old ones stay.
pub fn replace(templates: &[(String, String)], filter: impl Fn(&Variant) -> bool) -> Result<Vec<&'static Variant>> {
    let text = |variant: &Variant| variant.render(true, true, false).map(|text| lines::strip(&text));
    let before: Vec<(&'static Variant, String)> =
        all().iter().filter(|v| filter(v)).map(|v| Ok((v, text(v)?))).collect::<Result<_>>()?;
    let new = made(templates.iter().map(|(name, text)| (name.as_str(), text.as_str())))?;
    let old = REPLACED.replace(Some(new));
    let mut changed = Vec::new();
    for (variant, before) in before {
        match text(variant) {
            Ok(now) if now == before => {}
            Ok(_) => changed.push(variant),
            Err(error) => {
                REPLACED.set(old);
                return Err(Error::bad_option(error.message().to_owned()));
            }
        }
    }
    Ok(changed)
}

/// Whether a variant that needs larger subgroups is to run with emulated ones.
pub(super) fn emulates(emulated: Emulated, variant: &Variant) -> bool {
    // The last in the table: the widest types and heads.
    let last = || super::variants(variant.kernel).filter(|v| v.subgroups && v.lanes == variant.lanes).last();
    variant.subgroups
        && match emulated {
            Emulated::Nothing => false,
            Emulated::One => last().is_some_and(|last| last.name == variant.name),
            Emulated::All => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn templates_with(name: &str, from: &str, to: &str) -> Vec<(String, String)> {
        let edit = |(n, text): &(&str, &str)| {
            ((*n).to_owned(), if *n == name { text.replacen(from, to, 1) } else { (*text).to_owned() })
        };
        let edited: Vec<_> = TEMPLATES.iter().map(edit).collect();
        assert!(edited.iter().zip(TEMPLATES).any(|(now, before)| now.1 != before.1), "{name} has no {from}");
        edited
    }

    #[test]
    fn templates_can_be_replaced_and_mistakes_are_told_by_file_and_line() {
        let built: Vec<(String, String)> =
            TEMPLATES.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        assert!(replace(&built, |_| true).unwrap().is_empty(), "nothing has changed");

        let changed = replace(&templates_with("embed.wgsl", "v[c] * SCALE", "v[c] * SCALE * 2.0"), |_| true).unwrap();
        assert_eq!(changed.len(), super::super::variants("embed").count());
        assert!(changed.iter().all(|v| v.kernel == "embed" && v.wgsl(false, true).unwrap().contains("SCALE * 2.0")));

        // A comment changes nothing, though every line stands one lower.
        replace(&built, |_| true).unwrap();
        assert!(
            replace(&templates_with("embed.wgsl", "override D", "// Another line.\noverride D"), |_| true)
                .unwrap()
                .is_empty()
        );

        for (from, to) in
            [("{{ workgroup }}", "{{ workgroups }}"), ("{% include \"common/state.wgsl\" %}", "{% include %}")]
        {
            let wrong = templates_with("embed.wgsl", from, to);
            let line =
                wrong.iter().find(|t| t.0 == "embed.wgsl").unwrap().1.lines().position(|l| l.contains(to)).unwrap() + 1;
            let error = replace(&wrong, |_| true).unwrap_err();
            assert!(error.message().contains(&format!("shaders/embed.wgsl:{line}")), "{error}");
        }
        assert!(replace(&built, |_| true).unwrap().is_empty(), "after a mistake the old ones stay");
    }

    #[test]
    fn lines_of_a_text_say_where_they_come_from() {
        let text = super::super::find("embed", &[("weight", "q4_0")]).unwrap().wgsl(false, true).unwrap();
        let (number, _) = text.lines().enumerate().find(|(_, l)| l.contains("fn minus8")).unwrap();
        let place = lines::origin(&text, number + 1).unwrap();
        let (file, line) = place.rsplit_once(':').unwrap();
        let template = std::fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(template.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap().contains("fn minus8"), "{place}");
    }

    /// Users' builds hold the templates without comments.
    #[test]
    fn templates_without_comments_give_the_texts_that_the_build_has_checked() {
        let mut bare = environment();
        for (name, text) in TEMPLATES {
            bare.add_template(name, Box::leak(lines::strip(text).into_boxed_str())).unwrap();
        }
        for v in all() {
            let checked =
                std::fs::read_to_string(format!("{}/wgsl/{}.{}.wgsl", env!("OUT_DIR"), v.kernel, v.name)).unwrap();
            let mut context = v.context();
            context.insert("matrices", false.into());
            let text = bare.get_template(v.template).unwrap().render(context).unwrap();
            assert_eq!(lines::strip(&text), checked, "{v}");
        }
    }
}
