//! Parameters of a policy as data: names, kinds, defaults; and the values of one run.
//!
//! Translation layers and schedulers state their tunables as rows of [`Parameter`]; command line,
//! study files, listings and conformance tests derive from those rows.

pub mod own;

pub use own::{OwnPolicyError, OwnRows};

use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// What values a parameter takes.
#[derive(Clone, Copy, Debug)]
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
    /// One of these policies, or one of the user's own that is known by then.
    Policy {
        /// Names of the built-in policies.
        names: &'static [&'static str],
        /// True of the name of a policy of the user's own.
        is_own: fn(&str) -> bool,
    },
    /// True or false.
    Switch,
}

/// One parameter of a policy.
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

/// A setting that a policy does not take.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// No parameter of that name.
    #[error("unknown setting `{name}`; known: {}", known.join(", "))]
    Unknown {
        /// Name given.
        name: String,
        /// Names the policy takes.
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
    /// The device or the other settings do not allow it.
    #[error("{0}")]
    Impossible(String),
}

/// All settings of one policy in one run: what was given, and defaults for the rest.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    values: BTreeMap<&'static str, Value>,
    given: BTreeSet<&'static str>,
    seed: u64,
}

impl Settings {
    /// Checks `given` against all `tables` of parameters and fills in defaults.
    ///
    /// # Errors
    /// [`SettingError`] for the first name or value that does not fit.
    pub fn new(
        tables: &[&'static [Parameter]],
        given: &BTreeMap<String, Value>,
    ) -> Result<Self, SettingError> {
        let known = || tables.iter().copied().flatten();
        let mut values: BTreeMap<&'static str, Value> =
            known().map(|parameter| (parameter.name, Value::from(parameter.default))).collect();
        let mut names = BTreeSet::new();
        for (name, value) in given {
            let parameter = known().find(|parameter| parameter.name == name).ok_or_else(|| {
                SettingError::Unknown {
                    name: name.clone(),
                    known: known().map(|p| p.name).collect(),
                }
            })?;
            values.insert(parameter.name, parameter.check(value)?);
            names.insert(parameter.name);
        }
        Ok(Self { values, given: names, seed: 0 })
    }

    /// The same settings with a seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The seed of what a policy of the user's own draws; 0 where nobody set one.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The integer `name` if it was given, not defaulted: for kernel defaults that are a fraction
    /// of a second in ticks, which no number of milliseconds states at every tick rate.
    pub fn given_integer(&self, name: &str) -> Option<u32> {
        self.given.contains(name).then(|| self.integer(name))
    }

    /// The integer `name`; the name must be one of the policy's own parameters.
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
    /// A parameter that takes the whole numbers from `min` to `max`.
    pub const fn integer(
        name: &'static str,
        (min, max): (i64, i64),
        default: &'static str,
        summary: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Integer { min, max }, default, summary }
    }

    fn check(&self, value: &Value) -> Result<Value, SettingError> {
        let fits = match (self.kind, value) {
            (Kind::Integer { min, max }, Value::Integer(number)) => (min..=max).contains(number),
            (Kind::Choice(words), Value::Word(word)) => words.contains(&word.as_str()),
            (Kind::Policy { names, is_own }, Value::Word(word)) => {
                names.contains(&word.as_str()) || is_own(word)
            }
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
            Self::Policy { names, .. } => {
                write!(f, "{}, or a policy of your own as FILE.py:CLASS", names.join(", "))
            }
            Self::Switch => f.write_str("true, false"),
        }
    }
}
