//! `--set key=value`: changes to a study without editing its file.

use crate::StudyError;
use ftl::Value;

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
    let last = keys.pop().unwrap_or_default();
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
        let line = format!("value={text}").parse::<toml::Table>().ok();
        line.and_then(|mut line| if line.len() == 1 { line.remove("value") } else { None })
            .ok_or_else(|| {
                wrong("what is set begins as TOML and is none; look at its brackets and quotes")
            })?
    } else if matches!(place.get(last), Some(toml::Value::Array(_))) {
        toml::Value::Array(text.split(',').map(|item| scalar(item.trim())).collect())
    } else {
        scalar(text)
    };
    place.insert(last.to_owned(), value);
    Ok(())
}

fn scalar(text: &str) -> toml::Value {
    match Value::from(text) {
        Value::Integer(number) => toml::Value::Integer(number),
        Value::Switch(switch) => toml::Value::Boolean(switch),
        Value::Word(word) => toml::Value::String(word),
    }
}
