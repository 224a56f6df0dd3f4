//! Lines of templates: what of them is for readers only, and where a line of a rendered text comes from.

/// Where code ends and a comment begins, if one does, outside of the template's own brackets: there // divides.
/// `closing` is the bracket that closes what is open, over lines too.
fn comment(line: &str, closing: &mut Option<&'static [u8; 2]>) -> Option<usize> {
    let mut at = 0;
    while let Some(two) = line.as_bytes().get(at..at + 2) {
        let open = match (*closing, two) {
            (Some(bracket), _) if two == bracket => {
                *closing = None;
                true
            }
            (None, b"{{") => closing.replace(b"}}").is_none(),
            (None, b"{%") => closing.replace(b"%}").is_none(),
            (None, b"{#") => closing.replace(b"#}").is_none(),
            (None, b"//") => return Some(at),
            _ => false,
        };
        at += if open { 2 } else { 1 };
    }
    None
}

/// Without comments and blank lines: they are for readers of shaders/, not for every user's download.
pub fn strip(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(start) = text.find("{#") {
        let end = text[start..].find("#}").map_or(text.len(), |length| start + length + 2);
        text.replace_range(start..end, "");
    }
    let mut out = String::with_capacity(text.len());
    let mut closing = None;
    for line in text.lines() {
        let end = comment(line, &mut closing).unwrap_or(line.len());
        let code = line[..end].trim();
        if !code.is_empty() {
            out.push_str(code);
            out.push('\n');
        }
    }
    out
}

/// With a comment at the end of each line that says where it stands: in what is rendered from it, and so in a
/// compiler's messages.
pub fn mark(name: &str, text: &str) -> String {
    let mut out = String::with_capacity(2 * text.len());
    let mut closing = None;
    for (i, line) in text.lines().enumerate() {
        let end = comment(line, &mut closing).unwrap_or(line.len());
        out.push_str(line[..end].trim_end());
        // Within brackets that go on there is no room for it.
        if closing.is_none() && !line[..end].trim().is_empty() {
            out.push_str(&format!("  {MARK}{name}:{}", i + 1));
        }
        out.push('\n');
    }
    out
}

/// Begins a mark.
const MARK: &str = "// shaders/";

/// The marked lines of a rendered text that hold code.
pub fn marked(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.split("//").next().unwrap_or_default().trim().is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

/// Where line `number`, from 1 on, of a marked text comes from: `shaders/matvec.wgsl:41`. The last mark counts: of a
/// line that several templates had a part in it is the outermost's.
pub fn origin(text: &str, number: usize) -> Option<&str> {
    let line = text.lines().nth(number.checked_sub(1)?)?;
    let mark = line.rfind(MARK)?;
    Some(line[mark + 3..].trim())
}

/// What is wrong with a template and where: the innermost place, `shaders/common/lanes.wgsl:12`, before the whole
/// chain.
pub fn blame(error: &minijinja::Error) -> String {
    let mut place = None;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(e) = cause {
        if let Some(e) = e.downcast_ref::<minijinja::Error>()
            && let (Some(name), Some(line)) = (e.name(), e.line())
        {
            place = Some(format!("shaders/{name}:{line}: "));
        }
        cause = e.source();
    }
    let mut text = place.unwrap_or_default();
    text.push_str(&error.to_string());
    let mut cause = std::error::Error::source(error);
    while let Some(e) = cause {
        text.push_str(&format!("; {e}"));
        cause = e.source();
    }
    text
}

/// A line that declares a variable without a value, if there is one: within a loop browsers have been seen to clear
/// such a variable the first time only.
pub fn valueless(text: &str) -> Option<&str> {
    let declares = |line: &&str| line.trim_start().starts_with("var ");
    let ends =
        |line: &&str| line.split("//").next().is_some_and(|code| code.trim_end().ends_with(';') && !code.contains('='));
    text.lines().find(|line| declares(line) && ends(line))
}

/// A line with operators that WGSL wants told apart by brackets, if there is one: a shift, or one of `&`, `|` and `^`,
/// beside another operator. naga gives them an order of its own, browsers refuse them.
pub fn mixed(text: &str) -> Option<&str> {
    const KINDS: [&[&str]; 6] =
        [&["<<", ">>"], &["&"], &["|"], &["^"], &["+", "-", "*", "/", "%"], &["<", ">", "<=", ">=", "==", "!="]];
    // Which kinds there were at each depth since the last comma, semicolon, assignment or logical operator.
    let mut open = vec![0_u8];
    for line in text.lines() {
        for word in
            line.split("//").next().unwrap_or_default().split_inclusive([' ', '(', ')', '[', ']', '{', '}', ',', ';'])
        {
            let word_end = word.chars().last();
            let kind = KINDS.iter().position(|kind| kind.contains(&word.trim_end_matches(' ')));
            let level = open.last_mut()?;
            match kind {
                // Two shifts are as wrong as a shift and a sum; comparisons stand between shifts and sums, never beside
                // the other three.
                Some(kind)
                    if kind == 0 && *level & 0b1_1111 != 0 || (1..4).contains(&kind) && *level & !(1 << kind) != 0 =>
                {
                    return Some(line);
                }
                Some(4) if *level & 0b1111 != 0 => return Some(line),
                Some(5) if *level & 0b1110 != 0 => return Some(line),
                Some(5) => *level = 0,
                Some(kind) => *level |= 1 << kind,
                None if word.trim_end_matches(' ').ends_with('=')
                    || matches!(word.trim_end(), "&&" | "||" | "return") =>
                {
                    *level = 0
                }
                None => {}
            }
            match word_end {
                Some('(' | '[' | '{') => open.push(0),
                Some(')' | ']' | '}') if open.len() > 1 => drop(open.pop()),
                Some(',' | ';') => *open.last_mut()? = 0,
                _ => {}
            }
            if matches!(word_end, Some('{' | '}')) {
                *open.last_mut()? = 0;
            }
        }
    }
    None
}
