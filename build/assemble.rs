//! shaders/variants.toml and the templates beside it -> the WGSL text of every variant.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use minijinja::{Environment, UndefinedBehavior, Value};
use serde::Deserialize;

use crate::lines::{blame, mark, marked, strip};

/// One table of variants.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kernel {
    /// The template, relative to shaders/.
    source: String,
    /// Axis -> its values, in the order in which they name a variant.
    #[serde(default)]
    axes: toml::Table,
    /// Combinations that do not exist: a variant that agrees with every pair of an entry is left out.
    #[serde(default)]
    exclude: Vec<BTreeMap<String, String>>,
    /// What one workgroup covers, e.g. (rows of N, rows of T) of a product.
    #[serde(default)]
    tile: Option<PerAxis<[u32; 2]>>,
    /// Invocations of a workgroup, for templates that take it from here.
    #[serde(default)]
    workgroup: Option<PerAxis<u32>>,
    /// Whether it uses subgroup matrices, which naga does not know: it sees the template's other branch.
    #[serde(default)]
    matrices: bool,
    /// Cargo's feature without which there is no such kernel.
    #[serde(default)]
    feature: Option<String>,
    /// Rows of N that a group of lanes computes together; `tile` follows from it.
    #[serde(default)]
    rows: Option<PerAxis<u32>>,
}

/// A number that shaders and Rust share.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Number {
    pub is: u32,
    /// What it counts, a sentence.
    pub what: String,
}

/// In the order of variants.toml.
pub type Numbers = Vec<(String, Number)>;

/// A value of the whole kernel, or one for each value of an axis.
#[derive(Deserialize)]
#[serde(untagged)]
enum PerAxis<T> {
    One(T),
    By(BTreeMap<String, T>),
}

impl<T: Copy> PerAxis<T> {
    fn of(&self, axes: &[(String, String)]) -> Option<T> {
        match self {
            Self::One(value) => Some(*value),
            // Weight types and cache types are not asked: `f16` is one of theirs too. What is said of two axes comes
            // first, `f32-sg16`.
            Self::By(values) => {
                let asked = || axes.iter().filter(|(axis, _)| axis != "weight" && axis != "kv").map(|(_, value)| value);
                let both =
                    asked().flat_map(|a| asked().map(move |b| format!("{a}-{b}"))).find_map(|pair| values.get(&pair));
                both.or_else(|| asked().find_map(|value| values.get(value))).copied()
            }
        }
    }
}

/// The value for these axes, where the table has one at all.
fn of<T: Copy>(
    what: &str,
    variant: &str,
    value: &Option<PerAxis<T>>,
    axes: &[(String, String)],
) -> Result<Option<T>, String> {
    match value {
        Some(value) => value.of(axes).map(Some).ok_or_else(|| format!("{variant}: no value of `{what}` for it")),
        None => Ok(None),
    }
}

impl From<&Argument> for Value {
    fn from(argument: &Argument) -> Self {
        match argument {
            Argument::Number(number) => Self::from(*number),
            Argument::Pair(pair) => Self::from(pair.to_vec()),
        }
    }
}

/// Axes that a template may have.
const AXES: [&str; 9] = ["weight", "act", "out", "kv", "tiles", "width", "span", "grammar", "reduce"];

/// Invocations that share a row where the `reduce` axis does not say (`sg32`: 32 by subgroup shuffles).
const LANES_WITHOUT_SUBGROUPS: u32 = 8;

/// One variant's text and what the table says about it.
pub struct Assembled {
    pub kernel: String,
    pub name: String,
    pub axes: Vec<(String, String)>,
    pub tile: [u32; 2],
    /// Invocations that share a row, for kernels that reduce over so many; 0 for others.
    pub lanes: u32,
    /// Whether it uses subgroup matrices.
    pub matrices: bool,
    /// The template, relative to shaders/.
    pub template: String,
    /// What the template is rendered with beside the axes.
    pub context: Vec<(&'static str, Argument)>,
    /// WGSL without `enable` lines, comments and blank lines.
    pub source: String,
    /// The same lines, each with a comment that says where in shaders/ it stands.
    pub marked: String,
}

/// A value that a template sees.
#[derive(Clone)]
pub enum Argument {
    Number(u32),
    Pair([u32; 2]),
}

impl Assembled {
    /// What messages call it.
    pub fn label(&self) -> String {
        format!("kernel {} variant {}", self.kernel, self.name)
    }

    /// Whether the text uses `word` as a whole identifier, and how often.
    pub fn count(&self, word: &str) -> usize {
        self.source.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|w| *w == word).count()
    }
}

/// Names, relative to shaders/, and texts.
pub type Templates = Vec<(String, String)>;

/// What shaders/ holds.
pub struct Shaders {
    /// Every variant of every kernel, in the order of variants.toml.
    pub variants: Vec<Assembled>,
    /// The templates that they are rendered from.
    pub templates: Templates,
    pub numbers: Numbers,
}

/// Which texts are rendered.
pub struct Wanted<'a> {
    /// Whether Cargo's feature of that name is on.
    pub feature: &'a dyn Fn(&str) -> bool,
    /// With subgroup matrices where there are some: naga does not know them.
    pub matrices: bool,
    /// With emulated subgroups.
    pub emulated: bool,
}

/// Renders every variant.
pub fn assemble(shaders: &Path, wanted: &Wanted) -> Result<Shaders, String> {
    let path = shaders.join("variants.toml");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut table: toml::Table = toml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
    let numbers: toml::Table =
        table.remove("numbers").and_then(|n| n.try_into().ok()).ok_or("variants.toml: there is no table [numbers]")?;
    let lists: Lists = table
        .remove("lists")
        .and_then(|l| l.try_into().ok())
        .ok_or("variants.toml: there is no table [lists] of lists of texts")?;
    let numbers: Numbers = numbers
        .into_iter()
        .map(|(name, number)| {
            Ok((name.clone(), number.try_into().map_err(|e| format!("variants.toml: [numbers] {name}: {e}"))?))
        })
        .collect::<Result<_, String>>()?;
    let mut templates = templates(shaders)?;
    templates.sort();
    let with_marks: Vec<String> = templates.iter().map(|(name, text)| mark(name, text)).collect();
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    for ((name, _), text) in templates.iter().zip(&with_marks) {
        env.add_template(name, text).map_err(|e| blame(&e))?;
    }
    for (name, number) in &numbers {
        env.add_global(name.clone(), number.is);
    }
    let mut variants = Vec::new();
    for (name, mut value) in table {
        spread(&mut value, &lists);
        resolve(&mut value, &numbers)
            .map_err(|wanted| format!("variants.toml: [{name}]: there is no {wanted} in [numbers] or [lists]"))?;
        let kernel: Kernel = value.try_into().map_err(|e| format!("variants.toml: [{name}]: {e}"))?;
        if kernel.feature.as_ref().is_none_or(|feature| (wanted.feature)(feature)) {
            variants.extend(expand(&env, &name, &kernel, wanted)?);
        }
    }
    drop(env);
    Ok(Shaders { variants, templates, numbers })
}

/// Name -> the texts that "$name" stands for in an array.
type Lists = BTreeMap<String, Vec<String>>;

/// Puts the texts of a list in the place of "$name" in an array, and in the place of a table of an array that says
/// `key = "$name"` one for each text.
fn spread(value: &mut toml::Value, lists: &Lists) {
    let list =
        |value: &toml::Value| value.as_str().and_then(|text| text.strip_prefix('$')).and_then(|name| lists.get(name));
    match value {
        toml::Value::Array(values) => {
            *values = std::mem::take(values)
                .into_iter()
                .flat_map(|value| {
                    if let Some(texts) = list(&value) {
                        return texts.iter().map(|text| text.as_str().into()).collect();
                    }
                    let named = value
                        .as_table()
                        .and_then(|table| table.iter().find_map(|(key, value)| Some((key.clone(), list(value)?))));
                    let (Some((key, texts)), toml::Value::Table(table)) = (named, &value) else { return vec![value] };
                    let with = |text: &String| {
                        table
                            .clone()
                            .into_iter()
                            .chain([(key.clone(), text.as_str().into())])
                            .collect::<toml::Table>()
                            .into()
                    };
                    texts.iter().map(with).collect()
                })
                .collect();
        }
        toml::Value::Table(table) => table.iter_mut().for_each(|(_, value)| spread(value, lists)),
        _ => {}
    }
}

/// Puts the number in the place of each "$name"; the name where there is none.
fn resolve(value: &mut toml::Value, numbers: &Numbers) -> Result<(), String> {
    match value {
        toml::Value::String(text) => {
            if let Some(wanted) = text.strip_prefix('$') {
                let (_, number) = numbers.iter().find(|(name, _)| name == wanted).ok_or(wanted)?;
                *value = toml::Value::Integer(number.is.into());
            }
            Ok(())
        }
        toml::Value::Array(values) => values.iter_mut().try_for_each(|v| resolve(v, numbers)),
        toml::Value::Table(table) => table.iter_mut().try_for_each(|(_, v)| resolve(v, numbers)),
        _ => Ok(()),
    }
}

/// Template name (path below shaders/, with forward slashes) and text of every .wgsl file.
fn templates(shaders: &Path) -> Result<Templates, String> {
    let mut found = Vec::new();
    for folder in ["", "common/"] {
        let path = shaders.join(folder);
        let entries = std::fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for entry in entries {
            let file = entry.map_err(|e| format!("{}: {e}", path.display()))?.path();
            if file.extension().is_some_and(|x| x == "wgsl") {
                let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
                let name = file
                    .file_name()
                    .and_then(|n| n.to_str())
                    .ok_or_else(|| format!("{}: not a UTF-8 name", file.display()))?;
                found.push((format!("{folder}{name}"), text));
            }
        }
    }
    Ok(found)
}

fn expand(env: &Environment, name: &str, kernel: &Kernel, wanted: &Wanted) -> Result<Vec<Assembled>, String> {
    let axes = axes(name, kernel)?;
    let template = env.get_template(&kernel.source).map_err(|e| format!("variants.toml: [{name}]: {e:#}"))?;
    let mut combinations: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for (axis, values) in &axes {
        combinations = combinations
            .into_iter()
            .flat_map(|c| values.iter().map(move |v| c.iter().cloned().chain([(axis.clone(), v.clone())]).collect()))
            .collect();
    }
    let mut seen: HashMap<String, String> = HashMap::new();
    let mut out = Vec::new();
    for axes in combinations {
        let excluded =
            |rule: &BTreeMap<String, String>| rule.iter().all(|(k, v)| axes.iter().any(|(a, b)| a == k && b == v));
        if kernel.exclude.iter().any(excluded) {
            continue;
        }
        let variant = if axes.is_empty() {
            "default".to_owned()
        } else {
            axes.iter().map(|a| a.1.as_str()).collect::<Vec<_>>().join("-")
        };
        let label = format!("kernel {name} variant {variant}");
        let (workgroup, rows) =
            (of("workgroup", &label, &kernel.workgroup, &axes)?, of("rows", &label, &kernel.rows, &axes)?);
        let lanes = lanes(&axes, kernel);
        let mut tile = of("tile", &label, &kernel.tile, &axes)?;
        if let (None, Some(workgroup), Some(rows)) = (tile, workgroup, rows) {
            tile = Some([rows * workgroup / lanes.max(1), 1]);
        }
        let numbers = [("workgroup", workgroup), ("rows", rows), ("lanes", Some(lanes))];
        let mut context: Vec<(&'static str, Argument)> = Vec::new();
        context.extend(numbers.into_iter().filter_map(|(key, value)| Some((key, Argument::Number(value?)))));
        context.extend(tile.map(|tile| ("tile", Argument::Pair(tile))));
        let mut values: BTreeMap<&str, Value> = context.iter().map(|(key, value)| (*key, value.into())).collect();
        values.extend(axes.iter().map(|(axis, value)| (axis.as_str(), value.into())));
        values.insert("kernel", name.into());
        values.insert("matrices", (kernel.matrices && wanted.matrices).into());
        if wanted.emulated {
            values.insert("emulated", "_emulated".into());
        }
        let marked = marked(&template.render(values).map_err(|e| format!("{}; in {label}", blame(&e)))?);
        let source = strip(&marked);
        if let Some(twin) = seen.insert(source.clone(), variant.clone()) {
            return Err(format!(
                "kernel {name}: variants {twin} and {variant} have the same text: an axis does nothing"
            ));
        }
        out.push(Assembled {
            kernel: name.to_owned(),
            name: variant,
            axes,
            tile: tile.unwrap_or([1, 1]),
            lanes,
            matrices: kernel.matrices,
            template: kernel.source.clone(),
            context,
            source,
            marked,
        });
    }
    if out.is_empty() {
        return Err(format!("variants.toml: [{name}]: every variant is excluded"));
    }
    Ok(out)
}

/// How many invocations share a row: the number in `sg32` or `wg32`; 0 for a kernel whose `reduce` axis has no such
/// value.
fn lanes(axes: &[(String, String)], kernel: &Kernel) -> u32 {
    let number = |value: &str| value.strip_prefix("sg").or(value.strip_prefix("wg")).and_then(|n| n.parse().ok());
    let Some((_, value)) = axes.iter().find(|a| a.0 == "reduce") else { return 0 };
    let numbered = kernel.axes["reduce"]
        .as_array()
        .is_some_and(|values| values.iter().any(|v| v.as_str().and_then(number).is_some()));
    number(value).unwrap_or(if numbered { LANES_WITHOUT_SUBGROUPS } else { 0 })
}

/// The axes with their values; names and exclusions checked.
fn axes(name: &str, kernel: &Kernel) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut axes = Vec::new();
    for (axis, values) in &kernel.axes {
        let values: Vec<String> =
            values.clone().try_into().map_err(|e| format!("variants.toml: [{name}] axes.{axis}: {e}"))?;
        let known: &[&str] = match axis.as_str() {
            // A weight type is what has a file in shaders/common, which the template includes.
            "weight" => &[],
            "act" => &["f32", "f16", "q8"],
            "out" => &["f32", "f16", "q8", "add"],
            "tiles" => &["one", "many"],
            "kv" => &["f32", "f16", "q8"],
            "width" => &["e64", "e128", "e256", "e512"],
            "span" => &["n32", "n64", "n128", "r16", "r32", "r48", "r64"],
            "grammar" => &["free", "walk"],
            "reduce" => &["sg", "sg32", "sg16", "sg8", "sg4", "wg32", "wg16", "wg"],
            _ => return Err(format!("variants.toml: [{name}]: unknown axis {axis}; known: {}", AXES.join(", "))),
        };
        if let Some(value) = values.iter().find(|v| !known.is_empty() && !known.contains(&v.as_str())) {
            return Err(format!(
                "variants.toml: [{name}] axes.{axis}: unknown value {value}; known: {}",
                known.join(", ")
            ));
        }
        axes.push((axis.clone(), values));
    }
    for (axis, value) in kernel.exclude.iter().flatten() {
        if !axes.iter().any(|(a, values)| a == axis && values.contains(value)) {
            return Err(format!("variants.toml: [{name}]: exclude names {axis} = {value}, which no variant has"));
        }
    }
    Ok(axes)
}
