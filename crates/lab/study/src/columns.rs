//! Results as typed columns: what a data frame takes over without parsing text.
//!
//! An axis is a column of numbers if the study states all its values as numbers. A value that the file states as a word,
//! such as the version `"6.10"`, stays a word.

use crate::metric::Number;
use crate::results::{Row, Rows, StudyResults, Table};
use crate::study_file::Study;
use crate::values::{AxisKind, wider};

/// The cells of a column, from the first row to the last.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells<'a> {
    /// Whole numbers, negative ones among them.
    Integers(Vec<i64>),
    /// Whole numbers that are not negative; none where a row has no count.
    Counts(Vec<Option<u64>>),
    /// Numbers with decimals, or measurements of any kind.
    Decimals(Vec<f64>),
    /// Words and names of values.
    Words(Vec<&'a str>),
}

/// A column with its name.
pub type NamedCells<'a> = (&'a str, Cells<'a>);

/// The columns of a table of results after those of the axes.
pub const ROW_COLUMNS: [&str; 5] = ["repeat", "metric", "value", "count", "unit"];

impl Study {
    /// What the values of each axis are, in the order of the columns.
    pub(crate) fn axis_kinds(&self) -> Vec<AxisKind> {
        let kind = |name: &String| {
            let extra = self.extra_runs.iter().filter_map(|extra| extra.axes.get(name));
            let values = self.axes.get(name).into_iter().chain(extra).flatten();
            values.fold(None, |kind, value| Some(wider(kind, value))).unwrap_or(AxisKind::Word)
        };
        let of_axes = self.ordered_axes().iter().map(|(name, _)| kind(name)).collect::<Vec<_>>();
        debug_assert_eq!(of_axes.len() + self.columns_of_kind().len(), self.columns().len());
        // Cells that a kind of workload adds are words: the names of its tests or phases.
        let of_kind = self.columns_of_kind().iter().map(|_| AxisKind::Word);
        of_axes.into_iter().chain(of_kind).collect()
    }
}

impl StudyResults {
    /// The rows: axes, `repeat`, `metric`, `value`, `count`, `unit`.
    ///
    /// `value` holds every measurement; `count` holds it again where it is a whole number, which may be larger than a
    /// number with decimals can hold exactly.
    pub fn row_columns(&self) -> Vec<NamedCells<'_>> {
        self.columns_of(&self.rows)
    }

    /// What is derived from the rows, in columns of the same names.
    pub fn derived_columns(&self) -> Vec<NamedCells<'_>> {
        self.columns_of(&self.derived)
    }

    /// The cumulative curves: axes, then counts.
    pub fn curve_columns(&self) -> Vec<NamedCells<'_>> {
        let points = || {
            self.curves
                .iter()
                .flat_map(|(axes, curve)| curve.points().map(move |point| (&**axes, point)))
        };
        let mut columns = self.axis_columns(&points().map(|(axes, _)| axes));
        columns.extend(CURVE_COLUMNS.iter().enumerate().map(|(place, name)| {
            (*name, Cells::Counts(points().map(|(_, point)| Some(point[place])).collect()))
        }));
        columns
    }

    /// A table beside the rows, the axes typed as in the rows and its own columns by their cells.
    pub fn table_columns<'a>(&'a self, table: &'a Table) -> Vec<NamedCells<'a>> {
        let mut columns = self.axis_columns(&table.axes());
        let own = table.columns.iter().skip(self.columns.len()).enumerate();
        columns.extend(own.map(|(place, name)| {
            let cells = || table.own_cells(place);
            let integers: Option<Vec<i64>> = cells().map(|cell| cell.parse().ok()).collect();
            let decimals = || cells().map(|cell| cell.parse().ok()).collect::<Option<Vec<f64>>>();
            // Cells of a table are texts: the narrowest type that holds all of a column is taken.
            let typed = match integers.map(Cells::Integers) {
                Some(integers) => integers,
                None => decimals().map_or_else(|| Cells::Words(cells().collect()), Cells::Decimals),
            };
            (name.as_str(), typed)
        }));
        columns
    }

    fn columns_of<'a>(&'a self, rows: &'a Rows) -> Vec<NamedCells<'a>> {
        let mut columns = self.axis_columns(&rows.iter().map(|row| row.axes));
        // A count above 2^53 is rounded here; the column `count` has all its digits.
        let value = |row: Row<'_>| match row.metric.value {
            Number::Count(count) => count as f64,
            Number::Real(real) => real,
        };
        let count = |row: Row<'_>| match row.metric.value {
            Number::Count(count) => Some(count),
            Number::Real(_) => None,
        };
        let [repeat_name, metric_name, value_name, count_name, unit_name] = ROW_COLUMNS;
        columns.extend([
            (repeat_name, Cells::Integers(rows.iter().map(|row| row.repeat.into()).collect())),
            (metric_name, Cells::Words(rows.iter().map(|row| row.metric.name).collect())),
            (value_name, Cells::Decimals(rows.iter().map(value).collect())),
            (count_name, Cells::Counts(rows.iter().map(count).collect())),
            (unit_name, Cells::Words(rows.iter().map(|row| row.metric.unit).collect())),
        ]);
        columns
    }

    fn axis_columns<'a>(
        &'a self,
        rows: &(impl Iterator<Item = &'a [String]> + Clone),
    ) -> Vec<NamedCells<'a>> {
        let axes = self.columns.iter().zip(&self.axis_kinds).enumerate();
        axes.map(|(place, (name, kind))| {
            let cells = || rows.clone().map(move |row| row[place].as_str());
            (name.as_str(), axis_cells(*kind, cells))
        })
        .collect()
    }
}

/// Columns of a curve after those of the axes.
pub const CURVE_COLUMNS: [&str; 5] = ["io", "reads", "writes", "erases", "weighted_time"];

fn axis_cells<'a, I: Iterator<Item = &'a str>>(kind: AxisKind, cells: impl Fn() -> I) -> Cells<'a> {
    const OWN_TEXT: &str = "the text of a number is its own";
    match kind {
        AxisKind::Integer => {
            Cells::Integers(cells().map(|cell| cell.parse().expect(OWN_TEXT)).collect())
        }
        AxisKind::Decimal => {
            Cells::Decimals(cells().map(|cell| cell.parse().expect(OWN_TEXT)).collect())
        }
        AxisKind::Word => Cells::Words(cells().collect()),
    }
}
