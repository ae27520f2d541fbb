//! What one measurement is: a name, a value, a unit.

use serde::Serialize;

/// A measured value: counts stay integers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// A count, printed as an integer.
    Count(u64),
    /// A mean, share or ratio.
    Real(f64),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Count(count) => write!(f, "{count}"),
            // The shortest decimal that reads back as the same number.
            Self::Real(real) => write!(f, "{real}"),
        }
    }
}

/// One measurement of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Metric {
    /// Name, unit last where it has one.
    pub name: String,
    /// Value in the unit.
    pub value: Number,
    /// Unit of the value, in words.
    pub unit: &'static str,
}

impl Metric {
    pub(crate) fn count(name: impl Into<String>, value: u64, unit: &'static str) -> Self {
        Self { name: name.into(), value: Number::Count(value), unit }
    }

    pub(crate) fn number(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), value: Number::Real(value), unit }
    }
}

/// What one test, or one phase of a test, measured within a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestRow {
    /// Value of the last axis column.
    pub(crate) test: &'static str,
    /// Metrics of the test.
    pub(crate) metrics: Vec<Metric>,
    /// A note on them, such as why there are few.
    pub(crate) note: Option<String>,
}

impl TestRow {
    pub(crate) fn new(test: &'static str, metrics: Vec<Metric>) -> Self {
        Self { test, metrics, note: None }
    }
}
