//! `--set key=value`: changes to a study without editing its file.

use crate::StudyError;
use ftl::Value;

/// The table of axes; every value in it is a list or a range.
const AXES: &str = "axes";

/// Sets `a.b.c=value` in a table; lists take values separated by commas. What begins as a list, a table or
/// quoted text of TOML is read as that.
pub(crate) fn apply_override(table: &mut toml::Table, given: &str) -> Result<(), StudyError> {
    let wrong = |reason: &str| StudyError::Study {
        place: format!("--set {given}"),
        reason: reason.to_owned(),
    };
    let (path, text) = given
        .split_once('=')
        .ok_or_else(|| wrong("write it as key=value, with dots between the levels of the key"))?;
    let mut keys: Vec<&str> = path.split('.').map(str::trim).collect();
    if keys.iter().any(|key| key.is_empty()) {
        return Err(wrong("the key, or a level of it, is empty"));
    }
    // The last level is set; those before it are tables, which are made where they are missing.
    let last = keys.pop().unwrap_or_default();
    let is_of_axes = keys.contains(&AXES);
    let mut place = table;
    for key in keys {
        place = place
            .entry(key)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()))
            .as_table_mut()
            .ok_or_else(|| wrong("part of the key names a value, not a table"))?;
    }
    let text = text.trim();
    let value = if text.starts_with(['[', '{', '"', '\'']) {
        // The text may hold line breaks, and more keys behind them: those are refused.
        let line = format!("value={text}").parse::<toml::Table>().ok();
        line.and_then(|mut line| if line.len() == 1 { line.remove("value") } else { None })
            .ok_or_else(|| {
                wrong("what is set begins as TOML and is none; look at its brackets and quotes")
            })?
    } else if is_of_axes || matches!(place.get(last), Some(toml::Value::Array(_))) {
        let takes_decimals = is_of_axes && takes_decimals(place.get(last), text);
        let item = |item| if takes_decimals { number(item) } else { scalar(item) };
        toml::Value::Array(text.split(',').map(str::trim).map(item).collect())
    } else {
        scalar(text)
    };
    place.insert(last.to_owned(), value);
    Ok(())
}

/// True if decimals in a list are numbers: the axis has numbers already, or is new and every decimal is written as a
/// number is. A version such as `6.10` is a word.
fn takes_decimals(given: Option<&toml::Value>, text: &str) -> bool {
    match given {
        Some(toml::Value::Array(values)) => values.iter().all(|value| !value.is_str()),
        Some(_) => true,
        None => text.split(',').map(str::trim).all(|item| match number(item) {
            toml::Value::Float(number) => number.to_string() == item,
            _ => true,
        }),
    }
}

/// A whole number or decimal; what is none is read as anything else is.
fn number(text: &str) -> toml::Value {
    let is_decimal =
        text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    match text.parse::<f64>() {
        Ok(decimal) if is_decimal && decimal.is_finite() && text.parse::<i64>().is_err() => {
            toml::Value::Float(decimal)
        }
        _ => scalar(text),
    }
}

fn scalar(text: &str) -> toml::Value {
    match Value::from(text) {
        Value::Integer(number) => toml::Value::Integer(number),
        Value::Switch(switch) => toml::Value::Boolean(switch),
        Value::Word(word) => toml::Value::String(word),
    }
}
