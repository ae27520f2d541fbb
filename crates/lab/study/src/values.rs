//! Values of a study file: those on axes, and those of settings.

use ftl::Value;
use serde::{Deserialize, Serialize};

/// A value on an axis.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "a value on an axis is a number or a word")]
pub enum AxisValue {
    /// A whole number on an axis.
    Number(i64),
    /// A number with decimals.
    Decimal(f64),
    /// A word, such as a name of a table.
    Word(String),
}

impl std::fmt::Display for AxisValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Decimal(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
        }
    }
}

/// A setting's value in a study file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "a setting is true, false, a whole number or a word")]
pub enum SettingValue {
    /// A switch: true or false.
    Switch(bool),
    /// A whole number as a setting.
    Integer(i64),
    /// A word, such as a name of a table.
    Word(String),
}

impl From<&SettingValue> for Value {
    fn from(value: &SettingValue) -> Self {
        match value {
            SettingValue::Switch(switch) => Self::Switch(*switch),
            SettingValue::Integer(number) => Self::Integer(*number),
            SettingValue::Word(word) => Self::Word(word.clone()),
        }
    }
}

impl From<SettingValue> for Value {
    fn from(value: SettingValue) -> Self {
        Self::from(&value)
    }
}

/// What the values of an axis are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisKind {
    /// Whole numbers, and no other values.
    Integer,
    /// Numbers, some of them with decimals.
    Decimal,
    /// Words, or words and numbers.
    Word,
}

/// The kind that holds what was held before, and `value`.
pub(crate) fn wider(kind: Option<AxisKind>, value: &AxisValue) -> AxisKind {
    match (kind, value) {
        (Some(AxisKind::Word), _) | (_, AxisValue::Word(_)) => AxisKind::Word,
        (Some(AxisKind::Decimal), _) | (_, AxisValue::Decimal(_)) => AxisKind::Decimal,
        _ => AxisKind::Integer,
    }
}
