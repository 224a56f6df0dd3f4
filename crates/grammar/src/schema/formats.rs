//! What `format` means, as regular expressions. Sources: RFC 3339 (dates, times), ISO 8601 by RFC 3339 appendix A (durations), RFC 5321 (e-mail, without
//! quoted local parts and address literals), RFC 1123 (host names), RFC 4291 (IPv6), RFC 9562 (UUID), RFC 3986 (URI), RFC 6570 (templates), RFC 6901
//! (JSON pointers).

const DATE: &str = r"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)";
/// Seconds of 60 only where the UTC time is 23:59, which needs the offset: they are left out but at 23:59:60Z.
const TIME: &str = r"((([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d))|23:59:60(\.\d+)?([Zz]|[+-]00:00))";
const LABEL: &str = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const H16: &str = r"[0-9A-Fa-f]{1,4}";
const IPV4: &str = r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)";
const POINTER: &str = r"(/([^~/]|~[01])*)*";
const PCHAR: &str = r"([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";

/// The regular expression of a format; `None` where the format is not known.
pub(crate) fn pattern(format: &str) -> Option<String> {
    Some(match format {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}[Tt]{TIME}"),
        "duration" => {
            let time = r"T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)";
            format!(r"P((\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)({time})?|{time}|\d+W)")
        }
        "email" => {
            let atom = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
            // RFC 5321, 4.5.3.1.1: at most 64 characters before the @.
            format!(r"(?=[^@]{{1,64}}@){atom}(\.{atom})*@{LABEL}(\.{LABEL})*")
        }
        "hostname" => format!(r"{LABEL}(\.{LABEL})*"),
        "ipv4" => IPV4.to_owned(),
        "ipv6" => ipv6(),
        "uuid" => r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}".to_owned(),
        "uri" => format!("[A-Za-z][A-Za-z0-9+.-]*:{}{}", hierarchy(PCHAR), tail(PCHAR)),
        "uri-reference" => reference(PCHAR),
        "uri-template" => {
            let name = r"([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(:[1-9][0-9]{0,3}|\*)?";
            format!(r##"([^\x00-\x20"'<>\\^`{{|}}%\x7f]|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&=,!@|]?{name}(,{name})*\}})*"##)
        }
        "json-pointer" => POINTER.to_owned(),
        "relative-json-pointer" => format!("(0|[1-9][0-9]*)(#|{POINTER})"),
        _ => return None,
    })
}

/// Formats of OpenAPI and others that say nothing of a text's form, or only bound numbers that JSON's `type` has named already.
pub(crate) fn is_annotation(format: &str) -> bool {
    matches!(format, "int32" | "int64" | "uint32" | "uint64" | "float" | "double" | "decimal" | "password" | "textarea" | "multiline" | "markdown" | "unknown")
}

fn ipv6() -> String {
    let last = format!("({H16}:{H16}|{IPV4})");
    let mut forms = vec![format!("({H16}:){{6}}{last}")];
    for before in 0..=7usize {
        // `before` groups, `::`, then up to 7 - before groups, of which the last two may be an IPv4 address.
        let head = if before == 0 { ":".to_owned() } else { format!("({H16}:){{{before}}}") };
        let after = 7 - before;
        let mut tail = vec![String::new()];
        tail.extend((after >= 1).then(|| format!("({H16}:){{0,{}}}{H16}", after - 1)));
        tail.extend((after >= 2).then(|| format!("({H16}:){{0,{}}}{IPV4}", after - 2)));
        forms.push(format!("{head}:({})", tail.join("|")));
    }
    forms.join("|")
}

/// The part of a URI between its scheme and its query.
fn hierarchy(pchar: &str) -> String {
    format!("({}|/({pchar}+(/{pchar}*)*)?|{pchar}+(/{pchar}*)*|)", authority(pchar))
}

fn authority(pchar: &str) -> String {
    let name = r"([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*";
    let user = r"(([A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?";
    format!(r"//{user}({name}|\[({})\])(:[0-9]*)?(/{pchar}*)*", ipv6())
}

fn tail(pchar: &str) -> String {
    format!(r"(\?({pchar}|[/?])*)?(#({pchar}|[/?])*)?")
}

fn reference(pchar: &str) -> String {
    let first = r"([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})+";
    let tail = tail(pchar);
    format!("([A-Za-z][A-Za-z0-9+.-]*:{}{tail}|({}|/({pchar}+(/{pchar}*)*)?|{first}(/{pchar}*)*|){tail})", hierarchy(pchar), authority(pchar))
}
