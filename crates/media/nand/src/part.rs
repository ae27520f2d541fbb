//! A NAND part as TOML, and part files of a user's own.
//!
//! Every value of a catalogue part stands beside its source: a test refuses a key without one.

use crate::{ErrorModel, Geometry, Timing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use thiserror::Error;

/// The part that commands use when none is named.
pub const DEFAULT_PART: &str = "k9f2g08u0c";

/// The text of [`DEFAULT_PART`], which has every key that a part can have.
// Apart from the table, so that a part can be parsed without it.
pub(crate) const MODEL_TEXT: &str = include_str!("../../../../parts/k9f2g08u0c.toml");

/// A NAND part as its data sheet (or a publication) describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Name used on the command line and in studies.
    pub name: String,
    /// One line: vendor, density, technology.
    pub summary: String,
    /// Shape and programming rules.
    pub geometry: Geometry,
    /// Array and bus times.
    pub timing: Timing,
    /// Endurance, ECC and error constants.
    pub errors: ErrorModel,
    /// Where the values stand: a key (`timing.read_ns`) or a section (`geometry`) to its source.
    #[serde(default)]
    pub sources: BTreeMap<String, String>,
}

/// Why a part could not be had.
#[derive(Debug, Error)]
pub enum PartError {
    /// The file cannot be read.
    #[error("{path}: {reason}")]
    File {
        /// Path as it was given.
        path: String,
        /// What the system said.
        reason: std::io::Error,
    },
    /// The text is not a part.
    #[error("{path}: {message}")]
    Text {
        /// Path or catalogue name.
        path: String,
        /// Line, key and reason.
        message: String,
    },
}

impl Part {
    /// Parses a part; `path` names the text in messages.
    ///
    /// # Errors
    /// [`PartError::Text`] with the line and the key that is wrong, unknown or missing.
    pub fn parse(path: &str, text: &str) -> Result<Self, PartError> {
        let wrong = |message: String| PartError::Text { path: path.to_owned(), message };
        let part: Self = toml::from_str(text).map_err(|error| {
            // A message on one missing key would be followed by one on the next, and so on.
            let is_missing = error.message().starts_with("missing field");
            let missing = is_missing.then(|| missing_keys(text)).flatten();
            wrong(missing.unwrap_or_else(|| error.to_string().trim_end().to_owned()))
        })?;
        match part.check() {
            Ok(()) => Ok(part),
            Err(sentence) => Err(wrong(match line_of(text, &sentence) {
                Some(line) => format!("line {line}: {sentence}"),
                None => sentence,
            })),
        }
    }

    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// A sentence that begins with the key outside its range and names the permitted values.
    pub fn check(&self) -> Result<(), String> {
        self.geometry.check()?;
        self.timing.check()?;
        self.errors.check()?;
        let bits = self.geometry.cell.bits() as usize;
        for (key, list) in
            [("program_ns", &self.timing.program_ns), ("read_ns", &self.timing.read_ns)]
        {
            let times = list.len();
            if times != 1 && times != bits {
                let allowed =
                    if bits == 1 { "one entry".into() } else { format!("one or {bits} entries") };
                return Err(format!(
                    "timing.{key} needs {allowed} for this kind of cell, not {times}"
                ));
            }
        }
        Ok(())
    }
}

/// Sections and keys that a part needs and this text lacks, all in one sentence with the lines of their
/// sections; none if nothing is missing, or the text is no TOML at all.
///
/// What is needed is asked of the reader itself: a key that a catalogue part cannot do without.
fn missing_keys(text: &str) -> Option<String> {
    let given = toml::de::DeTable::parse(text).ok()?;
    let model: toml::Table = MODEL_TEXT.parse().ok()?;
    let mut lacks = Vec::new();
    for (section, value) in &model {
        let found = given.get_ref().get_key_value(section.as_str());
        let place = found.map(|(key, _)| text[..key.span().start].matches('\n').count() + 1);
        let Some(keys) = value.as_table() else {
            if found.is_none() && is_needed(&model, &[section]) {
                lacks.push(format!("`{section}` at the top"));
            }
            continue;
        };
        let own = found.and_then(|(_, value)| value.get_ref().as_table());
        let missing: Vec<&str> = keys
            .keys()
            .map(String::as_str)
            .filter(|key| own.is_none_or(|own| own.get(*key).is_none()))
            .filter(|key| is_needed(&model, &[section, key]))
            .collect();
        if !missing.is_empty() {
            let head = place.map_or_else(
                || format!("the section [{section}] with"),
                |line| format!("in [{section}] (line {line})"),
            );
            lacks.push(format!("{head} {}", missing.join(", ")));
        }
    }
    let advice = format!("`nandlab explain {DEFAULT_PART}` shows a part that has them all");
    (!lacks.is_empty()).then(|| format!("lacks {}; {advice}", lacks.join("; ")))
}

/// True if no part can be read of this table once the key is gone.
fn is_needed(model: &toml::Table, key: &[&str]) -> bool {
    let mut without = model.clone();
    let removed = match key {
        [section, key] => without
            .get_mut(*section)
            .and_then(toml::Value::as_table_mut)
            .and_then(|table| table.remove(*key)),
        _ => without.remove(key[0]),
    };
    removed.is_some() && Part::deserialize(toml::Value::Table(without)).is_err()
}

/// Line of the key that a sentence of [`Part::check`] begins with, or of its section.
fn line_of(text: &str, sentence: &str) -> Option<usize> {
    let mut keys = sentence.split([' ', ':']).next()?.split('.');
    let table = toml::de::DeTable::parse(text).ok()?;
    let (section, value) = table.get_ref().get_key_value(keys.next()?)?;
    let key = keys.next().and_then(|key| value.get_ref().as_table()?.get_key_value(key));
    let position = key.map_or_else(|| section.span().start, |(key, _)| key.span().start);
    Some(text[..position].matches('\n').count() + 1)
}

/// Reads a user's part file.
///
/// # Errors
/// See [`PartError`].
pub fn load_part(path: &Path) -> Result<Part, PartError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|reason| PartError::File { path: shown.clone(), reason })?;
    Part::parse(&shown, &text)
}

#[cfg(test)]
mod tests {
    use super::{MODEL_TEXT, Part};

    #[test]
    fn one_message_names_all_missing_keys_with_the_lines_of_their_sections() {
        let begin = MODEL_TEXT.find("[errors]").expect("a section");
        let without = |lost: &[&str]| -> String {
            MODEL_TEXT
                .lines()
                .filter(|line| !lost.iter().any(|key| line.starts_with(key)))
                .fold(String::new(), |text, line| text + line + "\n")
        };
        let message = |text: &str| Part::parse("mine.toml", text).expect_err("lacks").to_string();
        let line = MODEL_TEXT[..begin].matches('\n').count() + 1;
        let found = message(&without(&["rber_fresh", "rber_worn", "wear_exponent"]));
        let expected = format!("in [errors] (line {line}) rber_fresh, rber_worn, wear_exponent;");
        assert!(found.starts_with("mine.toml: lacks "), "{found}");
        assert!(found.contains(&expected), "{found}");
        let both = message(&without(&["summary", "read_ns", "erase_cycles_max"]));
        for part in ["`summary` at the top", "in [timing] (line", " read_ns", " erase_cycles_max"] {
            assert!(both.contains(part), "{both}");
        }
        let bare = message("name = \"a\"\nsummary = \"b\"\n");
        assert!(bare.contains("the section [errors] with ecc_codeword_bytes, "), "{bare}");
        // What is not a matter of missing keys keeps its line and column.
        assert!(message("name = \n").contains("line 1"), "TOML");
    }
}
