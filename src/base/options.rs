//! What options can be and how they are checked: the engine's side of options.toml, of which build.rs makes the structs
//! and their rows.

use serde_json::Value;

use crate::error::Result;

/// What an option can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// A number, as the GPU has it: an f32.
    Number(Bounds),
    /// A whole number.
    Whole {
        /// The least.
        least: u64,
        /// The most, at most 2^53 - 1.
        most: u64,
    },
    /// Yes or no.
    Flag,
    /// A text that is not empty.
    Text,
    /// A text or a list of them.
    Texts {
        /// How many.
        most: usize,
        /// Bytes of each.
        bytes: usize,
    },
    /// One of these names.
    Name(&'static [&'static str]),
    /// Numbers by the ids of tokens.
    Biases(Bounds),
    /// Names of variants by operation.
    Variants,
    /// A name, or a name and a number.
    Scaled(Bounds),
    /// What goes to a chat template.
    Object,
    /// A list of objects.
    Objects,
}

/// What a number can be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The least.
    pub least: f32,
    /// Whether the least is outside itself.
    pub above: bool,
    /// The most.
    pub most: f32,
}

impl Bounds {
    fn hold(self, value: f64) -> bool {
        // As it will be computed with: 1e-60 is 0. NaN is in no range.
        let value = value as f32;
        value.is_finite() && value <= self.most && if self.above { value > self.least } else { value >= self.least }
    }

    fn say(self) -> String {
        let Self { least, above, most } = self;
        match (above, most < f32::MAX) {
            (false, true) => format!("from {least} to {most}"),
            (false, false) => format!("of at least {least}"),
            (true, true) => format!("above {least}, up to {most}"),
            (true, false) => format!("above {least}"),
        }
    }
}

/// A name, and a number with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaled {
    /// The name.
    pub name: String,
    /// The number.
    pub scale: f32,
}

impl Scaled {
    /// As it would have been given.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn json(self) -> Value {
        serde_json::json!({ "name": self.name, "scale": self.scale })
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Row {
    /// Its name in JavaScript.
    pub name: &'static str,
    /// What it can be.
    pub kind: Kind,
    /// Another row that has to be true beside it.
    pub needs: Option<&'static str>,
    /// The command line's flag, if there is one.
    #[cfg(not(target_arch = "wasm32"))]
    pub flag: Option<Flag>,
}

/// A row on the command line.
#[cfg(not(target_arch = "wasm32"))]
#[derive(Debug)]
pub struct Flag {
    /// `--name`.
    pub name: &'static str,
    /// What `--help` says.
    pub help: &'static str,
    /// What `--help` calls its value; empty where it has none.
    pub value: &'static str,
    /// What counts where it is not given.
    pub default: &'static str,
}

/// A value as it came: from JavaScript, or from the command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// Any number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
    /// A JSON value: of options that are lists, or objects with free keys.
    Json(Value),
    /// Key-value pairs of an object whose keys may repeat.
    Pairs(Vec<(String, Value)>),
    /// A value that no option takes; the text says what it is.
    Other(String),
}

impl Given {
    fn say(&self) -> String {
        match self {
            Self::Number(n) if n.is_infinite() => if *n > 0.0 { "Infinity" } else { "-Infinity" }.into(),
            Self::Number(n) => n.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Text(text) if text.len() > 40 => format!("a text of {} bytes", text.len()),
            Self::Text(text) => format!("\"{text}\""),
            Self::Json(Value::Array(_)) => "a list".into(),
            Self::Json(_) | Self::Pairs(_) => "an object".into(),
            Self::Other(what) => what.clone(),
        }
    }

    /// A checked number.
    pub(crate) fn number(&self) -> f64 {
        if let Self::Number(n) = self { *n } else { 0.0 }
    }

    /// A checked yes or no.
    pub(crate) fn flag(&self) -> bool {
        matches!(self, Self::Flag(true))
    }

    /// A checked text.
    pub(crate) fn text(self) -> String {
        if let Self::Text(text) = self { text } else { String::new() }
    }

    /// Checked texts: one is a list of one.
    pub(crate) fn texts(self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text],
            Self::Json(Value::Array(list)) => list
                .into_iter()
                .filter_map(|item| if let Value::String(text) = item { Some(text) } else { None })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Checked pairs.
    fn pairs(self) -> Vec<(String, Value)> {
        match self {
            Self::Pairs(pairs) => pairs,
            Self::Json(Value::Object(map)) => map.into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Checked names by name.
    pub(crate) fn variants(self) -> Vec<(String, String)> {
        self.pairs().into_iter().filter_map(|(of, name)| Some((of, name.as_str()?.to_owned()))).collect()
    }

    /// Checked numbers by the ids of tokens.
    pub(crate) fn biases<T: FromIterator<(u32, f32)>>(self) -> T {
        self.pairs().into_iter().filter_map(|(id, bias)| Some((id.parse().ok()?, bias.as_f64()? as f32))).collect()
    }

    /// A checked name, and the number with it, or 1.
    pub(crate) fn scaled(self) -> Scaled {
        match self {
            Self::Json(value) => {
                let name = value["name"].as_str().unwrap_or_default().to_owned();
                Scaled { name, scale: value["scale"].as_f64().map_or(1.0, |scale| scale as f32) }
            }
            given => Scaled { name: given.text(), scale: 1.0 },
        }
    }

    /// A checked object or list of objects.
    pub(crate) fn json(self) -> Value {
        if let Self::Json(value) = self { value } else { Value::Null }
    }
}

impl Row {
    /// What is wrong with a value, if something is.
    pub fn wrong(&self, given: &Given) -> Option<String> {
        let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        // The first of the pairs that is not right, or nothing where there are no pairs at all.
        let pair = |right: &dyn Fn(&str, &Value) -> bool| match given {
            Given::Pairs(pairs) => pairs
                .iter()
                .find(|(key, value)| !right(key, value))
                .map(|(key, value)| Some((key.clone(), value.clone()))),
            Given::Json(Value::Object(map)) => map
                .iter()
                .find(|(key, value)| !right(key, value))
                .map(|(key, value)| Some((key.clone(), value.clone()))),
            _ => Some(None),
        };
        let (must, right) = match self.kind {
            Kind::Number(bounds) => {
                (format!("be a number {}", bounds.say()), matches!(given, Given::Number(n) if bounds.hold(*n)))
            }
            Kind::Whole { least, most } => {
                let right =
                    matches!(given, Given::Number(n) if n.fract() == 0.0 && (least as f64..=most as f64).contains(n));
                (format!("be a whole number from {least} to {most}"), right)
            }
            Kind::Flag => ("be true or false".into(), matches!(given, Given::Flag(_))),
            Kind::Text => {
                ("be a text that is not empty".into(), matches!(given, Given::Text(text) if !text.is_empty()))
            }
            Kind::Texts { most, bytes } => {
                let fits = |text: &str| (1..=bytes).contains(&text.len());
                let right = match given {
                    Given::Text(text) => fits(text),
                    Given::Json(Value::Array(list)) => {
                        list.len() <= most && list.iter().all(|item| item.as_str().is_some_and(fits))
                    }
                    _ => false,
                };
                (format!("be a text or a list of up to {most} texts, of 1 to {bytes} bytes each"), right)
            }
            Kind::Name(names) => (
                format!("be one of {}", names.join(", ")),
                matches!(given, Given::Text(text) if names.contains(&text.as_str())),
            ),
            Kind::Biases(bounds) => {
                let must = format!("map token ids to numbers {}", bounds.say());
                let id = |key: &str| !key.starts_with('+') && key.parse::<u32>().is_ok();
                match pair(&|key, value| id(key) && value.as_f64().is_some_and(|bias| bounds.hold(bias))) {
                    Some(Some((key, value))) => return Some(format!("must {must}, not {key} to {value}")),
                    wrong => (must, wrong.is_none()),
                }
            }
            Kind::Scaled(bounds) => {
                let right = match given {
                    Given::Text(text) => !text.is_empty(),
                    Given::Json(Value::Object(map)) => {
                        let known = map.keys().all(|key| key == "name" || key == "scale");
                        let scale =
                            map.get("scale").is_none_or(|scale| scale.as_f64().is_some_and(|scale| bounds.hold(scale)));
                        known && scale && map.get("name").is_some_and(text)
                    }
                    _ => false,
                };
                (format!("be a name, or {{ name, scale }} with a scale {}", bounds.say()), right)
            }
            Kind::Variants => ("map operations to names of variants".into(), pair(&|_, name| text(name)).is_none()),
            Kind::Object => ("be an object".into(), matches!(given, Given::Json(Value::Object(_)))),
            Kind::Objects => (
                "be a list of objects".into(),
                matches!(given, Given::Json(Value::Array(list)) if list.iter().all(Value::is_object)),
            ),
        };
        (!right).then(|| format!("must {must}, not {}", given.say()))
    }
}

/// A struct that is made of rows.
pub trait Options {
    /// Its rows.
    fn rows(&self) -> &'static [Row];

    /// Takes a value of a row that [`Row::wrong`] has found nothing wrong with.
    ///
    /// # Errors
    /// Where the name of something is not known after all.
    fn set(&mut self, row: usize, given: Given) -> Result<()>;

    /// A row's value; `None` where nothing is asked for.
    #[cfg(not(target_arch = "wasm32"))]
    fn get(&self, row: usize) -> Option<Given>;

    /// Checks every row of a struct that was filled by hand. A no-op in the browser, where rows are checked as they are
    /// read.
    ///
    /// # Errors
    /// [`crate::ErrorKind::BadOption`], naming the option, what it can be and what it is.
    fn check(&self) -> Result<()> {
        #[cfg(not(target_arch = "wasm32"))]
        for (i, row) in self.rows().iter().enumerate() {
            if let Some(wrong) = self.get(i).and_then(|given| row.wrong(&given)) {
                return Err(crate::Error::bad_option(format!("{} {wrong}", row.name)));
            }
        }
        Ok(())
    }
}
