//! Values of a preprocessor_config.json.
//!
//! Keys that no reader asks for are passed over: such files hold every default of the processor's class, most of which
//! say nothing about pixels. What would change pixels and is not implemented is refused.

use serde_json::{Map, Value};

use crate::{Error, Filter, Result};

/// The object of the file.
pub(crate) struct Config<'a>(pub &'a Map<String, Value>);

/// Pillow's numbers for filters.
const FILTERS: [(u64, Filter); 3] = [(1, Filter::Lanczos3), (2, Filter::Bilinear), (3, Filter::Bicubic)];

impl<'a> Config<'a> {
    /// The value, unless it is not there or null.
    fn get(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A whole number of at least `least`.
    pub fn whole(&self, key: &'static str, least: u32, default: u32) -> Result<u32> {
        self.get(key).map_or(Ok(default), |value| whole(value, key, least))
    }

    /// A whole number of at least 1 below another key.
    pub fn whole_in(&self, key: &'static str, inner: &'static str, default: u32) -> Result<u32> {
        self.get(key)
            .and_then(|value| value.get(inner))
            .filter(|value| !value.is_null())
            .map_or(Ok(default), |value| whole(value, key, 1))
    }

    /// A whole number of at least 1, or an object with it as both of its sides.
    pub fn side(&self, key: &'static str, default: u32) -> Result<u32> {
        let Some(value @ Value::Object(sides)) = self.get(key) else { return self.whole(key, 1, default) };
        match [sides.get("height"), sides.get("width")] {
            [Some(height), Some(width)] if height == width => whole(height, key, 1),
            _ => Err(Error::config(key, format!("is {value}, without a height and a width that are the same"))),
        }
    }

    pub fn flag(&self, key: &'static str, default: bool) -> Result<bool> {
        self.get(key).map_or(Ok(default), |value| {
            value.as_bool().ok_or_else(|| Error::config(key, format!("is {value}, neither true nor false")))
        })
    }

    /// A finite number above 0.
    pub fn number(&self, key: &'static str, default: f64) -> Result<f64> {
        let positive = |value: &Value| value.as_f64().filter(|number| number.is_finite() && *number > 0.0);
        self.get(key).map_or(Ok(default), |value| {
            positive(value).ok_or_else(|| Error::config(key, format!("is {value}, not a number above 0")))
        })
    }

    /// A number for each of red, green and blue.
    pub fn channels(&self, key: &'static str, default: [f32; 3]) -> Result<[f32; 3]> {
        let Some(value) = self.get(key) else { return Ok(default) };
        let numbers: Option<Vec<f32>> = value
            .as_array()
            .map(|values| values.iter().filter_map(Value::as_f64).map(|number| number as f32).collect());
        numbers
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(|| Error::config(key, format!("is {value}, not three numbers")))
    }

    /// The filter, by Pillow's number.
    pub fn filter(&self, default: Filter) -> Result<Filter> {
        let Some(value) = self.get("resample") else { return Ok(default) };
        let named = FILTERS.into_iter().find(|(number, _)| value.as_u64() == Some(*number));
        named.map(|(_, filter)| filter).ok_or_else(|| {
            Error::config(
                "resample",
                format!("is {value}: only 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are implemented"),
            )
        })
    }

    /// Refuses what is always done to be off, or not to be as it is always done.
    pub fn refuse_others(&self, always: &[&'static str]) -> Result<()> {
        for &key in always {
            if !self.flag(key, true)? {
                return Err(Error::config(key, "is false: only true is implemented"));
            }
        }
        let factor = self.number("rescale_factor", 1.0 / 255.0)?;
        if (factor * 255.0 - 1.0).abs() > 1e-6 {
            return Err(Error::config("rescale_factor", format!("is {factor}: only 1/255 is implemented")));
        }
        Ok(())
    }
}

fn whole(value: &Value, key: &'static str, least: u32) -> Result<u32> {
    // Files hold 2.0 where a processor computes with it.
    let number = value.as_u64().or_else(|| {
        value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|number| number as u64)
    });
    let fits = number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number >= least);
    fits.ok_or_else(|| Error::config(key, format!("is {value}, not a whole number of at least {least}")))
}

/// Refuses a number that is not a multiple of `factor`.
pub(crate) fn multiple(key: &'static str, number: u32, factor: u32) -> Result<()> {
    if factor == 0 || !number.is_multiple_of(factor) {
        return Err(Error::config(
            key,
            format!("is {number}, not a multiple of {factor} pixels, which is a row of the prompt"),
        ));
    }
    Ok(())
}
