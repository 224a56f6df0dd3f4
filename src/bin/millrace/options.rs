//! What is in the table of options (options.toml) as flags.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use millrace::base::options::{Flag, Given, Kind, Options, Row};
use millrace::engine::LoadOptions;
use millrace::gpu::DeviceChoice;
use millrace::native::tuning::read_tuning;
use serde_json::Value;

/// A struct whose rows are flags.
pub struct Flags<T>(pub T);

impl Flags<LoadOptions> {
    /// What the engine gets: with what was found out about this GPU before.
    pub fn options(&self) -> LoadOptions {
        LoadOptions { tuning: read_tuning(), device: self.0.device.or(Some(DeviceChoice::Auto)), ..self.0.clone() }
    }
}

impl<T: Options + Default> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        command.args(T::default().rows().iter().filter_map(|row| Some(arg(row, row.flag.as_ref()?))))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Options + Default> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let wrong = |message: String| clap::Error::raw(ErrorKind::ValueValidation, message);
        let mut options = T::default();
        for (i, row) in options.rows().iter().enumerate() {
            let Some(flag) = &row.flag else { continue };
            let Some(given) = given(row.kind, flag, matches).map_err(wrong)? else { continue };
            if let Some(why) = row.wrong(&given) {
                return Err(wrong(format!("--{} {why}", flag.name)));
            }
            options.set(i, given).map_err(|e| wrong(format!("--{}: {}", flag.name, e.message())))?;
        }
        Ok(Self(options))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn arg(row: &'static Row, flag: &'static Flag) -> Arg {
    let default = if flag.default.is_empty() { String::new() } else { format!(" [default: {}]", flag.default) };
    let arg = Arg::new(flag.name).long(flag.name).help(format!("{}{default}", flag.help));
    let arg = if flag.value.is_empty() { arg } else { arg.value_name(flag.value) };
    let arg = if let Some(other) = row.needs { arg.requires(other) } else { arg };
    match row.kind {
        Kind::Flag => arg.action(ArgAction::SetTrue),
        Kind::Texts { .. } | Kind::Biases(_) | Kind::Variants => arg.action(ArgAction::Append),
        _ => arg.action(ArgAction::Set).allow_negative_numbers(true),
    }
}

/// What the command line says of a row; nothing where it does not.
fn given(kind: Kind, flag: &Flag, matches: &ArgMatches) -> Result<Option<Given>, String> {
    if kind == Kind::Flag {
        return Ok(matches.get_flag(flag.name).then_some(Given::Flag(!flag.name.starts_with("no-"))));
    }
    let Some(texts) = matches.get_many::<String>(flag.name) else { return Ok(None) };
    let texts: Vec<&String> = texts.collect();
    let number = |text: &str| text.parse::<f64>();
    let pair = |text: &&String| {
        let (key, value) =
            text.split_once('=').ok_or_else(|| format!("--{} {text} is not {}", flag.name, flag.value))?;
        let value = match number(value) {
            Ok(number) if matches!(kind, Kind::Biases(_)) => number.into(),
            _ => value.into(),
        };
        Ok((key.to_owned(), value))
    };
    let last = texts.last().map(|text| text.as_str()).unwrap_or_default();
    Ok(Some(match kind {
        Kind::Texts { .. } => Given::Json(texts.into_iter().cloned().collect::<Value>()),
        Kind::Biases(_) | Kind::Variants => Given::Pairs(texts.iter().map(pair).collect::<Result<_, String>>()?),
        Kind::Number(_) | Kind::Whole { .. } => {
            number(last).map_or_else(|_| Given::Text(last.to_owned()), Given::Number)
        }
        _ => Given::Text(last.to_owned()),
    }))
}
