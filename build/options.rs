//! options.toml as Rust: `OUT_DIR/options/HOLDER.rs`, a struct for each holder with its defaults and its rows, which
//! the module that is about it includes. src/base/options.rs says what rows are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

/// One row. Its columns are explained in options.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    doc: String,
    kind: String,
    least: Option<f64>,
    above: Option<f64>,
    most: Option<f64>,
    bytes: Option<u64>,
    #[serde(default)]
    names: Vec<String>,
    unit: Option<String>,
    default: Option<toml::Value>,
    otherwise: Option<String>,
    needs: Option<String>,
    r#type: Option<String>,
    rust: Option<String>,
    holder: Option<String>,
    only: Option<String>,
    #[serde(default)]
    sampling: bool,
    off: Option<f64>,
    flag: Option<toml::Value>,
    help: Option<String>,
    /// For TypeScript alone.
    #[serde(rename = "ts")]
    _ts: Option<String>,
    #[serde(rename = "openai")]
    _openai: Option<String>,
}

/// The structs: the file, the name, what it derives and what it is.
const HOLDERS: [(&str, &str, &str, &str); 7] = [
    ("fetching", "DownloadOptions", "Clone", "How to download."),
    ("load", "LoadOptions", "Debug, Clone", "How to load a model."),
    ("generate", "Request", "Debug, Clone", "One generation."),
    ("embed", "EmbedOptions", "Debug, Clone", "How to embed."),
    ("rerank", "RerankOptions", "Debug, Clone", "How to judge documents."),
    ("bench", "Options", "Debug, Clone", "What to measure."),
    ("Page", "PageOptions", "Debug, Clone", "What a page alone can say about a load."),
];

/// A field of the load's struct that no user can set: only builds for tests have it.
const FAULTS: &str = "    /// Faults that a test plants.
    #[cfg(feature = \"lab\")]
    pub faults: Faults,
";

/// What a whole number can be at most where the table does not say: what 32 bits hold.
const MOST: f64 = u32::MAX as f64;

/// Writes the structs.
pub fn write(table: &Path, out: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(table).map_err(|e| format!("{}: {e}", table.display()))?;
    let sections: toml::Table = toml::from_str(&text).map_err(|e| format!("{}: {e}", table.display()))?;
    let mut holders: BTreeMap<&str, Vec<(String, Row)>> = HOLDERS.iter().map(|holder| (holder.0, Vec::new())).collect();
    for (section, rows) in sections {
        let rows: toml::Table = rows.try_into().map_err(|e| format!("options.toml: {section}: {e}"))?;
        for (name, row) in rows {
            let row: Row = row.try_into().map_err(|e| format!("options.toml: {section}.{name}: {e}"))?;
            let js = matches!(row.kind.as_str(), "callback" | "signal" | "control" | "model" | "file" | "worker")
                || row.only.as_deref() == Some("js");
            let holder = row.holder.clone().unwrap_or_else(|| section.clone());
            match holders.get_mut(holder.as_str()) {
                _ if js => {}
                Some(list) => list.push((name, row)),
                None => return Err(format!("options.toml: {section}.{name}: there is no holder {holder:?}")),
            }
        }
    }
    let folder = out.join("options");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let save = |name: &str, code: String| {
        let path = folder.join(format!("{name}.rs"));
        std::fs::write(&path, code).map_err(|e| format!("{}: {e}", path.display()))
    };
    for (file, name, derives, about) in HOLDERS {
        let rows = &holders[file];
        let mut code = holder(rows, name, derives, about)?;
        if rows.iter().any(|(_, row)| row.sampling) {
            let (sampling, from) = sampling(rows)?;
            code += &from;
            save("sampling", sampling)?;
        }
        save(&file.to_lowercase(), code)?;
    }
    Ok(())
}

/// A struct, its default and what it is as rows.
fn holder(rows: &[(String, Row)], name: &str, derives: &str, about: &str) -> Result<String, String> {
    let (mut fields, mut defaults, mut table, mut set, mut get) =
        (String::new(), String::new(), String::new(), String::new(), String::new());
    // A row's number is its place, in a page too: what is not there comes last.
    let (ours, everybodys): (Vec<_>, Vec<_>) = rows.iter().partition(|(_, row)| row.only.is_some());
    for (option, row) in everybodys.into_iter().chain(ours) {
        let field = row.field(option);
        let (ty, default, asked) = (row.ty()?, row.default_code()?, row.row()?);
        let _ = writeln!(fields, "    /// {}\n    pub {field}: {ty},", row.about());
        let _ = writeln!(defaults, "            {field}: {default},");
        if row.kind == "rust" {
            continue;
        }
        let number = table.lines().count();
        let flag = row.flag_code(option)?;
        let needs = &row.needs;
        // What only Rust asks for is checked there alone: in a page nobody can have set it.
        let native = if row.only.is_some() { "#[cfg(not(target_arch = \"wasm32\"))] " } else { "" };
        let _ = writeln!(
            table,
            "            {native}{BASE}Row {{ name: {option:?}, kind: {asked}, needs: {needs:?}, #[cfg(not(target_arch = \"wasm32\"))] flag: {flag} }},"
        );
        let _ = writeln!(set, "            {native}{number} => self.{field} = {},", row.set_code());
        let _ = writeln!(get, "            {number} => {},", row.get_code(&format!("self.{field}")));
    }
    if name == "LoadOptions" {
        fields += FAULTS;
        defaults += "            #[cfg(feature = \"lab\")]\n            faults: Faults::default(),\n";
    }
    Ok(format!(
        "/// {about}
#[derive({derives})]
pub struct {name} {{
{fields}}}

#[allow(clippy::derivable_impls, reason = \"a row may have a default of its own\")]
impl Default for {name} {{
    fn default() -> Self {{
        Self {{
{defaults}        }}
    }}
}}

impl {BASE}Options for {name} {{
    fn rows(&self) -> &'static [{BASE}Row] {{
        &[
{table}        ]
    }}

    fn set(&mut self, row: usize, given: {BASE}Given) -> Result<()> {{
        match row {{
{set}            _ => {{}}
        }}
        Ok(())
    }}

    #[cfg(not(target_arch = \"wasm32\"))]
    fn get(&self, row: usize) -> Option<{BASE}Given> {{
        match row {{
{get}            _ => None,
        }}
    }}
}}
"
    ))
}

/// What the sampler takes, and how it comes out of a request.
fn sampling(rows: &[(String, Row)]) -> Result<(String, String), String> {
    let (mut fields, mut defaults, mut from) = (String::new(), String::new(), String::new());
    for (option, row) in rows.iter().filter(|(_, row)| row.sampling) {
        let field = row.field(option);
        let ty = row.bare()?;
        let off = row.off.or(row.default.as_ref().and_then(number)).unwrap_or(0.0);
        let off = if ty == "f32" { format!("{off:?}") } else { format!("{off}") };
        let _ = writeln!(fields, "    /// {}\n    pub {field}: {ty},", row.about());
        let _ = writeln!(defaults, "            {field}: {off},");
        let unwrapped = if row.default.is_some() { "" } else { ".unwrap_or_default()" };
        let _ = writeln!(from, "            {field}: self.{field}{unwrapped},");
    }
    let sampling = format!(
        "/// What a caller may ask for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingOptions {{
{fields}}}

impl Default for SamplingOptions {{
    /// Greedy, with every filter off.
    fn default() -> Self {{
        Self {{
{defaults}        }}
    }}
}}
"
    );
    let from = format!(
        "
impl Request {{
    /// What of it the sampler takes.
    pub(crate) fn sampling(&self) -> crate::sample::SamplingOptions {{
        crate::sample::SamplingOptions {{
{from}        }}
    }}
}}
"
    );
    Ok((sampling, from))
}

const BASE: &str = "crate::base::options::";

fn number(value: &toml::Value) -> Option<f64> {
    value.as_float().or_else(|| Some(value.as_integer()? as f64))
}

impl Row {
    fn field(&self, option: &str) -> String {
        self.rust.clone().unwrap_or_else(|| joined(option, '_'))
    }

    /// The type of a value.
    fn bare(&self) -> Result<&str, String> {
        let own = self.r#type.as_deref();
        Ok(match self.kind.as_str() {
            "number" => "f32",
            "whole" => own.unwrap_or("u32"),
            "flag" => "bool",
            "text" => "String",
            "texts" => "Vec<String>",
            "name" => own.unwrap_or("String"),
            "biases" => "BTreeMap<u32, f32>",
            "variants" => "Vec<(String, String)>",
            "scaled" => "crate::base::options::Scaled",
            "object" => "Map<String, Value>",
            "objects" => "Value",
            "rust" => own.ok_or("a row of kind rust needs its type")?,
            other => return Err(format!("options.toml: there is no kind {other:?}")),
        })
    }

    /// Whether the field is an `Option`: what is empty where nothing is given needs none.
    fn optional(&self) -> bool {
        self.default.is_none()
            && match self.kind.as_str() {
                "number" | "whole" | "flag" | "text" | "name" | "objects" | "scaled" => true,
                // Where an empty one says the same as none, the row gives the type.
                "object" => self.r#type.is_none(),
                _ => false,
            }
    }

    fn ty(&self) -> Result<String, String> {
        let bare = self.bare()?;
        Ok(if self.optional() { format!("Option<{bare}>") } else { bare.to_owned() })
    }

    fn default_code(&self) -> Result<String, String> {
        Ok(match (self.kind.as_str(), &self.default) {
            ("number", Some(value)) => format!("{:?}", number(value).ok_or("a default that is no number")?),
            // A test holds what is the default of the type against the table.
            ("name", Some(_)) if self.r#type.is_some() => "Default::default()".into(),
            ("text" | "name", Some(value)) => format!("{value}.into()"),
            (_, Some(value)) => value.to_string(),
            (_, None) => "Default::default()".into(),
        })
    }

    /// The row's kind as code.
    fn row(&self) -> Result<String, String> {
        let kind = format!("{BASE}Kind::");
        let bounds = || {
            let (least, above) = match (self.least, self.above) {
                (Some(least), None) => (least, false),
                (None, Some(above)) => (above, true),
                _ => return Err(format!("options.toml: {}: give either least or above", self.doc)),
            };
            let most = self.most.map_or("f32::MAX".to_owned(), |most| format!("{most:?}"));
            Ok(format!("{BASE}Bounds {{ least: {least:?}, above: {above}, most: {most} }}"))
        };
        Ok(match self.kind.as_str() {
            "number" => format!("{kind}Number({})", bounds()?),
            "whole" => {
                format!("{kind}Whole {{ least: {}, most: {} }}", self.least.unwrap_or(0.0), self.most.unwrap_or(MOST))
            }
            "flag" => format!("{kind}Flag"),
            "text" => format!("{kind}Text"),
            "texts" => format!(
                "{kind}Texts {{ most: {}, bytes: {} }}",
                self.most.unwrap_or(MOST),
                self.bytes.unwrap_or(u64::from(u32::MAX))
            ),
            "name" => format!("{kind}Name(&{:?})", self.names),
            "biases" => format!("{kind}Biases({})", bounds()?),
            "variants" => format!("{kind}Variants"),
            "scaled" => format!("{kind}Scaled({})", bounds()?),
            "object" => format!("{kind}Object"),
            "objects" => format!("{kind}Objects"),
            _ => String::new(),
        })
    }

    /// A value of the field from what was given and is right.
    fn set_code(&self) -> String {
        let value = match self.kind.as_str() {
            "number" => "given.number() as f32".into(),
            "whole" => format!("given.number() as {}", self.r#type.as_deref().unwrap_or("u32")),
            "flag" => "given.flag()".into(),
            "name" if self.r#type.is_some() => {
                format!("{}::parse(&given.text())?", self.r#type.as_deref().unwrap_or_default())
            }
            "text" | "name" => "given.text()".into(),
            "texts" => "given.texts()".into(),
            "biases" => "given.biases()".into(),
            "variants" => "given.variants()".into(),
            "scaled" => "given.scaled()".into(),
            "object" => "if let Value::Object(map) = given.json() { map } else { Map::new() }".into(),
            _ => "given.json()".into(),
        };
        if self.optional() { format!("Some({value})") } else { value }
    }

    /// The field as if it had been given.
    fn get_code(&self, field: &str) -> String {
        let given = format!("{BASE}Given::");
        let one = match self.kind.as_str() {
            "number" => format!("{given}Number(f64::from(x))"),
            "whole" => format!("{given}Number(x as f64)"),
            "flag" => format!("{given}Flag(x)"),
            "name" if self.r#type.is_some() => format!("{given}Text(x.name().to_owned())"),
            "text" | "name" => format!("{given}Text(x)"),
            "texts" => format!("{given}Json(x.into())"),
            "biases" => {
                format!("{given}Pairs(x.into_iter().map(|(id, bias)| (id.to_string(), bias.into())).collect())")
            }
            "variants" => format!("{given}Pairs(x.into_iter().map(|(of, name)| (of, name.into())).collect())"),
            "object" => format!("{given}Json(Value::Object(x))"),
            "scaled" => format!("{given}Json(x.json())"),
            _ => format!("{given}Json(x)"),
        };
        let copied =
            matches!(self.kind.as_str(), "number" | "whole" | "flag") || self.kind == "name" && self.r#type.is_some();
        let value = if copied { field.to_owned() } else { format!("{field}.clone()") };
        match one.strip_suffix("(x)") {
            Some(variant) if self.optional() => format!("{value}.map({variant})"),
            Some(variant) => format!("Some({variant}({value}))"),
            None if self.optional() => format!("{value}.map(|x| {one})"),
            None => format!("Some({value}).map(|x| {one})"),
        }
    }

    /// How the command line has it.
    fn flag_code(&self, option: &str) -> Result<String, String> {
        let name = match &self.flag {
            Some(toml::Value::Boolean(false)) => return Ok("None".into()),
            Some(toml::Value::String(name)) => name.clone(),
            None if self.only.is_some() => return Ok("None".into()),
            None if self.default == Some(toml::Value::Boolean(true)) => format!("no-{}", joined(option, '-')),
            None => joined(option, '-'),
            Some(other) => return Err(format!("options.toml: {option}: flag is {other}")),
        };
        let names = self.names.join("|");
        let value = match self.kind.as_str() {
            "flag" => "",
            "number" => "X",
            "whole" => "N",
            "name" => &names,
            "biases" => "ID=BIAS",
            "variants" => "OPERATION=VARIANT",
            _ => "TEXT",
        };
        let first = self.doc.split_once(". ").map_or(self.doc.as_str(), |(first, _)| first);
        let mut help = self.help.clone().unwrap_or_else(|| first.replace('`', ""));
        if !help.ends_with('.') {
            help.push('.');
        }
        if let Some(range) = self.range() {
            help += &format!(" {range}");
        }
        let default = match (&self.default, &self.otherwise) {
            (Some(toml::Value::Boolean(_)), _) => String::new(),
            (Some(toml::Value::String(text)), _) => text.clone(),
            (Some(value), _) => value.to_string(),
            (None, otherwise) => otherwise.clone().unwrap_or_default().replace('`', ""),
        };
        Ok(format!("Some({BASE}Flag {{ name: {name:?}, help: {help:?}, value: {value:?}, default: {default:?} }})"))
    }

    /// What it can be, as a sentence; scripts/lib/options.mjs says the same.
    fn range(&self) -> Option<String> {
        let unit = self.unit.as_ref().map(|unit| format!(" {unit}")).unwrap_or_default();
        let most = self.most.filter(|most| *most < MOST);
        match (self.kind.as_str(), self.least, self.above, most) {
            ("texts", ..) => Some(format!(
                "Up to {} of up to {} bytes each.",
                self.most.unwrap_or(MOST),
                self.bytes.unwrap_or_default()
            )),
            ("number" | "whole" | "biases", Some(least), _, Some(most)) => Some(format!("{least} to {most}{unit}.")),
            ("number" | "biases", _, Some(above), Some(most)) => Some(format!("Above {above}, up to {most}.")),
            ("number", _, Some(above), None) => Some(format!("Above {above}.")),
            ("number" | "whole", Some(least), _, None) if least > 0.0 => Some(format!("At least {least}.")),
            _ => None,
        }
    }

    /// Its comment.
    fn about(&self) -> String {
        let mut about = self.doc.clone();
        if let Some(range) = self.range() {
            about += &format!(" {range}");
        }
        match (&self.default, &self.otherwise) {
            (Some(value), _) => about += &format!(" Default {}.", value.to_string().replace('"', "`")),
            (None, Some(otherwise)) => about += &format!(" Default: {otherwise}."),
            (None, None) => {}
        }
        about
    }
}

/// `maxTokens` as `max_tokens` or `max-tokens`.
fn joined(name: &str, by: char) -> String {
    name.chars().flat_map(|c| if c.is_ascii_uppercase() { vec![by, c.to_ascii_lowercase()] } else { vec![c] }).collect()
}
