//! How a study file states the values of an axis: a list, or a range.
//!
//! `spare_percent = [7, 12.5]` is a list. `choices = { from = 2, to = 64, scale = "log2" }` is a range: 2, 4, 8 and so on.
//! Tables within `[axes]` name the settings of a layer: `page = { cleaning = ["greedy", "fifo"] }` is the axis
//! `page.cleaning`, and `settings.page.cleaning` is the same.

use crate::values::AxisValue;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;

/// Axes by name, each with its values.
pub(crate) type Axes = BTreeMap<String, Vec<AxisValue>>;

/// Keys of a range.
const RANGE_KEYS: [&str; 4] = ["from", "scale", "step", "to"];

/// Scales of a range.
const SCALES: [&str; 3] = ["linear", "log10", "log2"];

/// Values that a range may have: a study of more runs is refused anyway.
const RANGE_VALUES_MAX: usize = 10_000;

/// What may stand before the name of a layer.
const SETTINGS_PREFIX: &str = "settings.";

/// Reads the table of axes.
///
/// # Errors
/// Values that are neither numbers nor words; ranges that do not reach their end.
pub(crate) fn read_axes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Axes, D::Error> {
    deserializer.deserialize_map(AxesVisitor)
}

struct AxesVisitor;

impl<'de> Visitor<'de> for AxesVisitor {
    type Value = Axes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of axes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Axes, A::Error> {
        let mut axes = Axes::new();
        while let Some(name) = map.next_key::<String>()? {
            flatten(&name, map.next_value()?, &mut axes).map_err(A::Error::custom)?;
        }
        Ok(axes)
    }
}

/// Gives every list of values the dotted name of its place.
fn flatten(name: &str, given: Given, axes: &mut Axes) -> Result<(), String> {
    match given {
        Given::Values(values) => {
            let name = name.strip_prefix(SETTINGS_PREFIX).unwrap_or(name).to_owned();
            if axes.insert(name.clone(), values).is_some() {
                return Err(format!("axis `{name}` is there twice"));
            }
            Ok(())
        }
        Given::Tables(tables) => tables
            .into_iter()
            .try_for_each(|(inner, given)| flatten(&format!("{name}.{inner}"), given, axes)),
    }
}

/// What stands behind the name of an axis.
enum Given {
    Values(Vec<AxisValue>),
    Tables(Vec<(String, Given)>),
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenVisitor)
    }
}

struct GivenVisitor;

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of values, or a range such as { from = 2, to = 64, scale = \"log2\" }")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Given, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Given::Values(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        let (mut range, mut tables) = (RangeKeys::default(), Vec::new());
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                // Keys of a range and names of axes share one table: the first key decides which it is.
                "from" => range.from = Some(map.next_value()?),
                "to" => range.to = Some(map.next_value()?),
                "step" => range.step = Some(map.next_value()?),
                "scale" => range.scale = Some(map.next_value()?),
                // Beside a key of a range only keys of a range can stand.
                _ if range.is_begun() => return Err(unknown_key(&key)),
                _ => match map.next_value::<GivenOrScalar>()? {
                    GivenOrScalar::Given(given) => tables.push((key, given)),
                    GivenOrScalar::Scalar => return Err(unknown_key(&key)),
                },
            }
        }
        // Keys come in the order of the file, so a range may show itself after a table.
        match tables.first() {
            Some((key, _)) if range.is_begun() => Err(unknown_key(key)),
            None => range.values().map(Given::Values).map_err(A::Error::custom),
            Some(_) => Ok(Given::Tables(tables)),
        }
    }
}

/// A list or table, or a single value, which is neither a setting's axis nor a key of a range.
enum GivenOrScalar {
    Given(Given),
    Scalar,
}

impl<'de> Deserialize<'de> for GivenOrScalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(GivenOrScalarVisitor)
    }
}

struct GivenOrScalarVisitor;

impl<'de> Visitor<'de> for GivenOrScalarVisitor {
    type Value = GivenOrScalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        GivenVisitor.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<GivenOrScalar, A::Error> {
        GivenVisitor.visit_seq(list).map(GivenOrScalar::Given)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<GivenOrScalar, A::Error> {
        GivenVisitor.visit_map(map).map(GivenOrScalar::Given)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<GivenOrScalar, E> {
        Ok(GivenOrScalar::Scalar)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<GivenOrScalar, E> {
        Ok(GivenOrScalar::Scalar)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<GivenOrScalar, E> {
        Ok(GivenOrScalar::Scalar)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<GivenOrScalar, E> {
        Ok(GivenOrScalar::Scalar)
    }
}

fn unknown_key<E: Error>(key: &str) -> E {
    let hint = suggestion::hint(key, RANGE_KEYS);
    E::custom(format!("`{key}` is no key of a range: those are {}{hint}", RANGE_KEYS.join(", ")))
}

/// The keys of a range as they are given.
#[derive(Default)]
struct RangeKeys {
    from: Option<RangeNumber>,
    to: Option<RangeNumber>,
    step: Option<RangeNumber>,
    scale: Option<String>,
}

/// A number in a range, and how many decimals it is written with.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged, expecting = "`from`, `to` and `step` are numbers")]
enum RangeNumber {
    Whole(i64),
    Decimal(f64),
}

impl RangeNumber {
    fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Decimal(number) => number,
        }
    }

    fn decimals(self) -> usize {
        match self {
            Self::Whole(_) => 0,
            Self::Decimal(number) => {
                number.to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len())
            }
        }
    }
}

impl RangeKeys {
    fn is_begun(&self) -> bool {
        self.from.is_some() || self.to.is_some() || self.step.is_some() || self.scale.is_some()
    }

    fn values(&self) -> Result<Vec<AxisValue>, String> {
        let (Some(from), Some(to)) = (self.from, self.to) else {
            let missing = if self.from.is_none() { "from" } else { "to" };
            return Err(format!("a range needs `{missing}`, as in {{ from = 2, to = 64 }}"));
        };
        let scale = self.scale.as_deref().unwrap_or("linear");
        let next: Box<dyn Fn(f64, usize) -> f64> = match (scale, self.step) {
            ("linear", step) => {
                let step = step.map_or(1.0, RangeNumber::real);
                if !(step > 0.0 && step.is_finite()) {
                    return Err(format!("`step` is {step}, but must be above 0"));
                }
                Box::new(move |from, number| from + step * number as f64)
            }
            ("log2" | "log10", Some(_)) => {
                return Err(format!("a range of scale `{scale}` has no `step`; leave it out"));
            }
            ("log2" | "log10", None) if from.real() <= 0.0 => {
                return Err(format!("a range of scale `{scale}` begins above 0"));
            }
            ("log2", None) => Box::new(|from, number| from * power(2.0, number)),
            ("log10", None) => Box::new(|from, number| from * power(10.0, number)),
            _ => {
                let hint = suggestion::hint(scale, SCALES);
                return Err(format!("unknown scale `{scale}`{hint}; known: {}", SCALES.join(", ")));
            }
        };
        // Sums of decimals are rounded to the decimals that are given, as 0.1 + 0.2 is not 0.3.
        let decimals = [Some(from), Some(to), self.step].into_iter().flatten();
        let decimals = decimals.map(RangeNumber::decimals).max().unwrap_or(0);
        let shown = |number: usize| format!("{:.decimals$}", next(from.real(), number));
        let end = format!("{:.decimals$}", to.real());
        let mut values = Vec::new();
        for number in 0..=RANGE_VALUES_MAX {
            let text = shown(number);
            values.push(axis_value(&text));
            if text == end {
                return Ok(values);
            }
            let real = next(from.real(), number);
            if real > to.real() {
                let before = if number == 0 { String::new() } else { shown(number - 1) };
                let reason = if before.is_empty() {
                    format!("`from` is {text} and `to` is {end}; a range goes up")
                } else {
                    format!(
                        "the range has {before} and {text}, but not `to` = {end}: end it with one of them"
                    )
                };
                return Err(reason);
            }
        }
        Err(format!("the range has more than {RANGE_VALUES_MAX} values; take a larger `step`"))
    }
}

/// A number as the file would have it in a list.
fn axis_value(text: &str) -> AxisValue {
    text.parse().map_or_else(
        |_| text.parse().map_or_else(|_| AxisValue::Word(text.to_owned()), AxisValue::Decimal),
        AxisValue::Number,
    )
}

/// By products: the precision of `f64::powi` is not the same on all machines.
fn power(base: f64, exponent: usize) -> f64 {
    (0..exponent).fold(1.0, |product, _| product * base)
}

#[cfg(test)]
mod tests {
    use super::{Axes, read_axes};
    use serde::Deserialize;

    #[derive(Deserialize)]
    struct File {
        #[serde(deserialize_with = "read_axes")]
        axes: Axes,
    }

    fn read(text: &str) -> Result<Vec<(String, String)>, String> {
        let file: File =
            toml::from_str(&format!("[axes]\n{text}\n")).map_err(|error| error.to_string())?;
        let shown = |values: Vec<super::AxisValue>| {
            values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        Ok(file.axes.into_iter().map(|(name, values)| (name, shown(values))).collect())
    }

    fn values(text: &str) -> String {
        let axes = read(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(axes.len(), 1, "{text}");
        axes[0].1.clone()
    }

    #[test]
    fn a_range_is_the_list_of_its_values() {
        for (text, expected) in [
            ("a = { from = 2, to = 64, scale = \"log2\" }", "2 4 8 16 32 64"),
            ("a = { from = 3, to = 3, scale = \"log2\" }", "3"),
            ("a = { from = 1, to = 10000, scale = \"log10\" }", "1 10 100 1000 10000"),
            ("a = { from = 0.5, to = 4, scale = \"log2\" }", "0.5 1 2 4"),
            ("a = { from = 5, to = 20, step = 5 }", "5 10 15 20"),
            ("a = { from = -1, to = 2 }", "-1 0 1 2"),
            ("a = { from = 0.1, to = 0.7, step = 0.1 }", "0.1 0.2 0.3 0.4 0.5 0.6 0.7"),
            ("a = { from = 7, to = 12.5, step = 2.75, scale = \"linear\" }", "7 9.75 12.5"),
            ("a = [7, 12.5, \"most\"]", "7 12.5 most"),
        ] {
            assert_eq!(values(text), expected, "{text}");
        }
    }

    #[test]
    fn tables_name_the_settings_of_layers() {
        let expected = [("page.choices", "2 4"), ("page.cleaning", "fifo greedy")]
            .map(|(name, values)| (name.to_owned(), values.to_owned()));
        let of_range = "choices = { from = 2, to = 4, scale = \"log2\" }";
        for text in [
            format!("[axes.page]\ncleaning = [\"fifo\", \"greedy\"]\n{of_range}"),
            format!("page = {{ cleaning = [\"fifo\", \"greedy\"], {of_range} }}"),
            format!("settings.page.cleaning = [\"fifo\", \"greedy\"]\nsettings.page.{of_range}"),
        ] {
            assert_eq!(read(&text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn the_error_of_a_wrong_range_names_its_line() {
        for (text, message) in [
            ("a = { from = 2, to = 60, scale = \"log2\" }", "has 32 and 64, but not `to` = 60"),
            ("a = { from = 1, to = 4, step = 2 }", "has 3 and 5, but not `to` = 4"),
            ("a = { from = 2 }", "a range needs `to`"),
            ("a = { to = 2 }", "a range needs `from`"),
            ("a = {}", "a range needs `from`"),
            ("a = { from = 4, to = 2 }", "a range goes up"),
            ("a = { from = 0, to = 8, scale = \"log2\" }", "begins above 0"),
            ("a = { from = 1, to = 8, scale = \"log3\" }", "did you mean `log2`?; known: linear"),
            ("a = { from = 1, to = 8, scale = \"log2\", step = 2 }", "has no `step`"),
            ("a = { from = 1, to = 8, step = 0 }", "`step` is 0, but must be above 0"),
            ("a = { form = 1, to = 8 }", "`form` is no key of a range"),
            ("a = { to = 8, fro = 1 }", "did you mean `from`?"),
            ("a = { from = 1, to = 8, page = [1] }", "`page` is no key of a range"),
            ("a = { from = 1, to = 100000 }", "more than 10000 values"),
            ("a = { from = \"1\", to = 8 }", "are numbers"),
            ("a = 5", "a list of values, or a range such as"),
            ("a = [true]", "a value on an axis is a number or a word"),
            ("\"settings.page.a\" = [1]\n\"page.a\" = [1]", "`page.a` is there twice"),
        ] {
            let error = read(&format!("# The second line\n{text}")).err();
            let error = error.unwrap_or_else(|| panic!("accepted: {text}"));
            assert!(error.contains(message), "{text}: {error}");
            assert!(error.contains("line "), "{text}: {error}");
        }
    }
}
