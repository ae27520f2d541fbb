//! Parameters of a layer as data: names, kinds, defaults; and the values of one run.

use std::collections::BTreeMap;
use thiserror::Error;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A whole number in a range.
    Integer {
        /// Smallest value.
        min: i64,
        /// Largest value.
        max: i64,
    },
    /// One of these words.
    Choice(&'static [&'static str]),
    /// True or false.
    Switch,
}

/// One parameter of a layer.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name, as in studies and after `--set`.
    pub name: &'static str,
    /// Values it takes.
    pub kind: Kind,
    /// Default, written as a user would.
    pub default: &'static str,
    /// One line of help.
    pub summary: &'static str,
}

/// A value given or defaulted.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// True or false.
    Switch(bool),
    /// A word.
    Word(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Switch(switch) => write!(f, "{switch}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        match text {
            "true" | "on" => Self::Switch(true),
            "false" | "off" => Self::Switch(false),
            _ => text.parse().map_or_else(|_| Self::Word(text.to_owned()), Self::Integer),
        }
    }
}

/// A setting that a layer does not take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// No parameter of that name.
    #[error("unknown setting `{name}`; known: {}", known.join(", "))]
    Unknown {
        /// Name given.
        name: String,
        /// Names the layer takes.
        known: Vec<&'static str>,
    },
    /// The value is not one the parameter takes.
    #[error("setting `{name}` is `{value}`, but takes {takes}")]
    Value {
        /// Name of the parameter.
        name: String,
        /// Value given.
        value: String,
        /// Values it takes.
        takes: String,
    },
    /// The chip or the other settings do not allow it.
    #[error("{0}")]
    Impossible(String),
}

/// Parameters that every layer has.
pub const COMMON_PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "wear_leveling",
        kind: Kind::Choice(&["none", "dynamic", "static"]),
        default: "none",
        summary: "none: free blocks in order of release; dynamic: least-worn free block first; static: dynamic, and cold data moves to worn blocks",
    },
    Parameter {
        name: "wear_threshold",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        default: "100",
        summary: "static wear levelling acts when erase counts differ by more than this",
    },
    Parameter {
        name: "reserve_blocks",
        kind: Kind::Integer { min: 0, max: 1_000_000 },
        default: "0",
        summary: "blocks kept back to replace bad ones",
    },
];

/// All settings of one layer in one run: what was given, and defaults for the rest.
#[derive(Clone, Debug)]
pub struct Settings {
    values: BTreeMap<&'static str, Value>,
}

impl Settings {
    /// Checks `given` against `parameters` (and the common ones) and fills in defaults.
    ///
    /// # Errors
    /// [`SettingError`] for the first name or value that does not fit.
    pub fn new(
        parameters: &'static [Parameter],
        given: &BTreeMap<String, Value>,
    ) -> Result<Self, SettingError> {
        let known = || COMMON_PARAMETERS.iter().chain(parameters);
        let mut values: BTreeMap<&'static str, Value> =
            known().map(|parameter| (parameter.name, Value::from(parameter.default))).collect();
        for (name, value) in given {
            let parameter = known().find(|parameter| parameter.name == name).ok_or_else(|| {
                SettingError::Unknown {
                    name: name.clone(),
                    known: known().map(|p| p.name).collect(),
                }
            })?;
            values.insert(parameter.name, parameter.check(value)?);
        }
        Ok(Self { values })
    }

    /// The integer `name`; the name must be one of the layer's own parameters.
    pub fn integer(&self, name: &str) -> u32 {
        match &self.values[name] {
            Value::Integer(number) => u32::try_from(*number).expect("ranges are within u32"),
            other => unreachable!("{name} is an integer, not {other}"),
        }
    }

    /// The switch `name`.
    pub fn switch(&self, name: &str) -> bool {
        self.values[name] == Value::Switch(true)
    }

    /// The word `name`.
    pub fn word(&self, name: &str) -> &str {
        match &self.values[name] {
            Value::Word(word) => word,
            other => unreachable!("{name} is a word, not {other}"),
        }
    }

    /// All values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.values.iter().map(|(name, value)| (*name, value))
    }
}

impl Parameter {
    fn check(&self, value: &Value) -> Result<Value, SettingError> {
        let fits = match (self.kind, value) {
            (Kind::Integer { min, max }, Value::Integer(number)) => (min..=max).contains(number),
            (Kind::Choice(words), Value::Word(word)) => words.contains(&word.as_str()),
            (Kind::Switch, Value::Switch(_)) => true,
            _ => false,
        };
        if fits {
            return Ok(value.clone());
        }
        Err(SettingError::Value {
            name: self.name.to_owned(),
            value: value.to_string(),
            takes: self.kind.to_string(),
        })
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer { min, max } => write!(f, "{min} to {max}"),
            Self::Choice(words) => f.write_str(&words.join(", ")),
            Self::Switch => f.write_str("true, false"),
        }
    }
}
