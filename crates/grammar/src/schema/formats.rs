//! What `format` means, as regular expressions. Sources: RFC 3339 (dates, times), ISO 8601 by RFC 3339 appendix A
//! (durations), RFC 5321 (e-mail, without quoted local parts and address literals), RFC 1123 (host names), RFC 4291
//! (IPv6), RFC 4632 (CIDR), RFC 9562 (UUID), RFC 3986 (URI), RFC 3987 (IRI), RFC 6570 (templates), RFC 6901 (JSON
//! pointers), RFC 4648 (base64), RFC 7519 (JWT), semver.org 2.0.0, ECMA-262 (`regex`).

const DATE: &str = r"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)";
/// Seconds of 60 only where the UTC time is 23:59, which needs the offset: they are left out but at 23:59:60Z.
const TIME: &str =
    r"((([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d))|23:59:60(\.\d+)?([Zz]|[+-]00:00))";
const PARTIAL_TIME: &str = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?";
const LABEL: &str = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const H16: &str = r"[0-9A-Fa-f]{1,4}";
const IPV4: &str = r"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)";
const BASE64: &str = "([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?";
const PATH: &str = r"[^\x00]+";
const POINTER: &str = r"(/([^~/]|~[01])*)*";
/// What IRIs hold beside ASCII (`ucschar`), and what only their queries do (`iprivate`): the inside of brackets.
const UCS: &str = concat!(
    r"\u{a0}-\u{d7ff}\u{f900}-\u{fdcf}\u{fdf0}-\u{ffef}\u{10000}-\u{1fffd}\u{20000}-\u{2fffd}\u{30000}-\u{3fffd}\u{40000}-\u{4fffd}",
    r"\u{50000}-\u{5fffd}\u{60000}-\u{6fffd}\u{70000}-\u{7fffd}\u{80000}-\u{8fffd}\u{90000}-\u{9fffd}",
    r"\u{a0000}-\u{afffd}\u{b0000}-\u{bfffd}\u{c0000}-\u{cfffd}\u{d0000}-\u{dfffd}\u{e1000}-\u{efffd}"
);
const PRIVATE: &str = r"\ue000-\uf8ff\u{f0000}-\u{ffffd}\u{100000}-\u{10fffd}";
/// Letters that host names may have in any place (RFC 5892), which addresses have too: Latin, Greek, Cyrillic, kana,
/// Han, Hangul.
const LETTERS: &str =
    r"\u00e0-\u00f6\u00f8-\u00ff\u03b1-\u03c9\u0430-\u044f\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fa5\uac00-\ud7a3";

/// What a format asks of a value.
pub(crate) enum Format {
    /// Strings that a regular expression matches as a whole.
    Text(String),
    /// Strings that a regular expression matches, and the part of the format that it does not check.
    Partly(String, &'static str),
    /// Integers from the first to the second of these.
    Integers(&'static str, &'static str),
    /// Numbers as machines store them, as which every number can be read.
    Number,
    /// Not known, or free text: the name says where it comes from or what is done with it.
    Unknown,
}

/// Formats by name, and the regular expressions of those that are short.
const SHORT: [(&str, &str); 19] = [
    ("date", DATE),
    ("time", TIME),
    ("partial-time", PARTIAL_TIME),
    ("ipv4", IPV4),
    ("ip-address", IPV4),
    ("mac", "[0-9A-Fa-f]{2}((:[0-9A-Fa-f]{2}){5}|(-[0-9A-Fa-f]{2}){5})"),
    ("uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    ("guid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    ("json-pointer", POINTER),
    ("byte", BASE64),
    ("base64", BASE64),
    ("base64url", "([A-Za-z0-9_-]{4})*([A-Za-z0-9_-][AQgw](==)?|[A-Za-z0-9_-]{2}[AEIMQUYcgkosw048]=?)?"),
    ("path", PATH),
    ("file-path", PATH),
    ("directory-path", PATH),
    ("char", "[^]"),
    ("hexcolor", "#([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})"),
    ("bsonobjectid", "[0-9A-Fa-f]{24}"),
    (
        "semver",
        // Numbers have no zero in front, those among a pre-release's names neither.
        concat!(
            r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)",
            r"(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
        ),
    ),
];
/// Formats that bound integers.
const INTEGERS: [(&str, &str, &str); 10] = [
    ("int8", "-128", "127"),
    ("int16", "-32768", "32767"),
    ("int32", "-2147483648", "2147483647"),
    ("int64", "-9223372036854775808", "9223372036854775807"),
    ("int", "-9223372036854775808", "9223372036854775807"),
    ("uint8", "0", "255"),
    ("uint16", "0", "65535"),
    ("uint32", "0", "4294967295"),
    ("uint64", "0", "18446744073709551615"),
    ("uint", "0", "18446744073709551615"),
];
const NUMBERS: [&str; 9] =
    ["float", "float16", "float32", "float64", "double", "decimal", "decimal128", "double-int", "utc-millisec"];

/// What a format asks: those of the drafts, of OpenAPI's registry, of Kubernetes, and of libraries that write schemas.
pub(crate) fn format(name: &str) -> Format {
    if let Some((_, regex)) = SHORT.iter().find(|f| f.0 == name) {
        return Format::Text((*regex).to_owned());
    }
    if let Some(&(_, least, most)) = INTEGERS.iter().find(|f| f.0 == name) {
        return Format::Integers(least, most);
    }
    if NUMBERS.contains(&name) {
        return Format::Number;
    }
    Format::Text(match name {
        "date-time" | "datetime" => format!("{DATE}[Tt]{TIME}"),
        "partial-date-time" => format!("{DATE}[Tt]{PARTIAL_TIME}"),
        "duration" => {
            let time = r"T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S)";
            format!(r"P((\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)({time})?|{time}|\d+W)")
        }
        "email" => email("", LABEL),
        "hostname" | "host-name" => host(LABEL),
        "idn-email" => email(LETTERS, &idn_label()),
        "idn-hostname" => host(&idn_label()),
        "ipv6" => ipv6(),
        "ip" | "ipvanyaddress" => format!("{IPV4}|{}", ipv6()),
        "cidrv4" | "ipv4network" => cidr4(),
        "cidrv6" | "ipv6network" => cidr6(),
        "cidr" | "ipvanynetwork" => format!("{}|{}", cidr4(), cidr6()),
        "uuid1" | "uuid3" | "uuid4" | "uuid5" | "uuid6" | "uuid7" | "uuid8" => {
            let hex = "[0-9a-fA-F]";
            format!("{hex}{{8}}-{hex}{{4}}-{}{hex}{{3}}-[89abAB]{hex}{{3}}-{hex}{{12}}", &name[4..])
        }
        "uri" => uri("", ""),
        "url" => format!("[A-Za-z][A-Za-z0-9+.-]*:{}{}", authority("", true), tail("", "")),
        "uri-reference" => reference("", ""),
        "iri" => uri(UCS, PRIVATE),
        "iri-reference" => reference(UCS, PRIVATE),
        "uri-template" => {
            let name = r"([A-Za-z0-9_]|%[0-9A-Fa-f]{2})(\.?([A-Za-z0-9_]|%[0-9A-Fa-f]{2}))*(:[1-9][0-9]{0,3}|\*)?";
            format!(r##"([^\x00-\x20"'<>\\^`{{|}}%\x7f]|%[0-9A-Fa-f]{{2}}|\{{[+#./;?&=,!@|]?{name}(,{name})*\}})*"##)
        }
        "relative-json-pointer" => format!("(0|[1-9][0-9]*)(#|{POINTER})"),
        "jwt" => return Format::Partly(jwt(), "the header and the alphabet are enforced, not what the claims say"),
        "regex" => regex(),
        _ => return Format::Unknown,
    })
}

/// `more`: letters beside those of ASCII.
fn email(more: &str, label: &str) -> String {
    let atom = format!("[A-Za-z0-9!#$%&'*+/=?^_`{{|}}~{more}-]+");
    // RFC 5321, 4.5.3.1.1: at most 64 octets before the @; a character has up to four of them.
    format!(r"(?=([\x00-?A-\x7f]{{1,64}}|[^@]{{1,16}})@){atom}(\.{atom})*@{}", host(label))
}

fn host(label: &str) -> String {
    format!(r"{label}(\.{label})*")
}

/// Labels with letters beside ASCII are short enough for what stands for them in ASCII to be a label, too. No hyphens
/// stand beside each other.
fn idn_label() -> String {
    format!("([a-z0-9{LETTERS}](-?[a-z0-9{LETTERS}]){{0,9}}|[A-Za-z0-9](-?[A-Za-z0-9]){{0,30}})")
}

fn cidr4() -> String {
    format!(r"{IPV4}/([12]?\d|3[0-2])")
}

fn cidr6() -> String {
    format!(r"({})/([1-9]?\d|1[01]\d|12[0-8])", ipv6())
}

/// A header of `alg` and `typ` in either order or `alg` alone, as base64url has them; claims that begin as an object
/// does; a signature.
fn jwt() -> String {
    let alg = "([ISFQ]Uz(I1Ni|M4NC|UxMi)|FZERTQS)";
    let header = format!("(eyJhbGciOiJ{alg}(IsInR5cCI6IkpXVCJ9|J9)|eyJ0eXAiOiJKV1QiLCJhbGciOiJ{alg}J9)");
    let any = "([A-Za-z0-9_-]{4})*([A-Za-z0-9_-]{2,3})?";
    format!(r"{header}\.eyJ[A-Za-z0-9_-]{any}\.[A-Za-z0-9_-]{{4}}{any}")
}

/// Regular expressions that ECMA-262 reads with and without flags, and others read alike: groups nest up to three deep,
/// ranges stay within the digits or the letters of one case.
fn regex() -> String {
    let escape = r"\\([dDwWsStnrfv^$\\.*+?()\[\]{}|/]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})";
    let range = |first: char, last: char| (first..=last).map(move |c| format!("|{c}-[{c}-{last}]")).collect::<String>();
    let inside = format!(r"([^\\\[\]^-]|{escape}{}{}{})", range('0', '9'), range('A', 'Z'), range('a', 'z'));
    let atom = format!(r"[^\\^$*+?()\[\]{{}}|]|{escape}|\[\^?(-{inside}*|{inside}+-?)\]");
    let sequence = |group: &str| {
        format!(r"([\^$|]|\\[bB]|({atom}{group})([*+?]|\{{(\d{{1,3}},?|0,\d{{1,3}}|1,[1-9]\d?)\}})?\??)*")
    };
    (0..3).fold(sequence(""), |inner, _| sequence(&format!(r"|\((\?:)?{inner}\)")))
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

/// A character of a URI, percent-encoded or of these beside letters and digits.
fn unit(signs: &str, more: &str) -> String {
    format!("([A-Za-z0-9._~!$&'()*+,;={signs}{more}-]|%[0-9A-Fa-f]{{2}})")
}

/// `more` and `private`: what an IRI has beside ASCII, and what only its query has.
fn uri(more: &str, private: &str) -> String {
    format!("[A-Za-z][A-Za-z0-9+.-]*:{}{}", hierarchy(more), tail(more, private))
}

/// The part of a URI between its scheme and its query.
fn hierarchy(more: &str) -> String {
    let pchar = unit(":@", more);
    format!("({}|/({pchar}+(/{pchar}*)*)?|{pchar}+(/{pchar}*)*|)", authority(more, false))
}

/// `named`: there has to be a host.
fn authority(more: &str, named: bool) -> String {
    let (user, name, pchar) = (unit(":", more), unit("", more), unit(":@", more));
    let some = if named { '+' } else { '*' };
    format!(r"//({user}*@)?({name}{some}|\[({})\])(:[0-9]*)?(/{pchar}*)*", ipv6())
}

fn tail(more: &str, private: &str) -> String {
    let pchar = unit(":@", more);
    format!(r"(\?({pchar}|[/?{private}])*)?(#({pchar}|[/?])*)?")
}

fn reference(more: &str, private: &str) -> String {
    let (first, pchar) = (unit("@", more), unit(":@", more));
    let path = format!("({}|/({pchar}+(/{pchar}*)*)?|{first}+(/{pchar}*)*|)", authority(more, false));
    format!("({}|{path}{})", uri(more, private), tail(more, private))
}
