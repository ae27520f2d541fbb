//! Tidy rows: one column an axis, then repeat, metric, value, unit.

use crate::metric::Metric;
use crate::values::AxisKind;
use serde::Serialize;
use std::fmt::Write as _;

/// One row of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Values of the axes, in the order of the columns.
    pub axes: Vec<String>,
    /// Repeat number, from 0.
    pub repeat: u32,
    /// Name, value and unit of what was measured.
    #[serde(flatten)]
    pub metric: Metric,
}

/// A table beside the rows: pooled values, distributions, time lines.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// Name of its file.
    pub name: &'static str,
    /// Column heads: the axes, then its own.
    pub columns: Vec<String>,
    /// Cells, in the order of the plan.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push('\n');
        for row in &self.rows {
            debug_assert_eq!(row.len(), self.columns.len(), "a row has a cell for each column");
            text.push_str(&row.join(","));
            text.push('\n');
        }
        text
    }
}

/// Everything a study yields.
#[derive(Clone, Debug, Serialize)]
pub struct StudyResults {
    /// Names of the axis columns.
    pub columns: Vec<String>,
    /// What the values of those columns are.
    pub axis_kinds: Vec<AxisKind>,
    /// Rows in the order of the plan.
    pub rows: Vec<Row>,
    /// What follows from the rows under another way of counting; no part of the CSV and its digest.
    pub derived: Vec<Row>,
    /// Cumulative counts over the run: axis values, then `io, reads, writes, erases, weighted_time`.
    pub curves: Vec<(Vec<String>, Vec<[u64; 5]>)>,
    /// Tables made of several runs; none for studies of translation layers alone.
    pub tables: Vec<Table>,
    /// Notes on traces, profiles and single runs.
    pub notes: Vec<String>,
    /// True if the study was stopped before all runs were done.
    pub interrupted: bool,
}

impl StudyResults {
    /// The rows as CSV, which is also what the digest is taken over.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push_str(",repeat,metric,value,unit\n");
        for row in &self.rows {
            for axis in &row.axes {
                text.push_str(axis);
                text.push(',');
            }
            let Metric { name, value, unit } = &row.metric;
            let _ = writeln!(text, "{},{name},{value},{unit}", row.repeat);
        }
        text
    }

    /// BLAKE3 of the CSV and of all tables, in hexadecimal.
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.to_csv().as_bytes());
        // Tables hold what the rows do not: distributions and time lines.
        for table in &self.tables {
            hasher.update(table.to_csv().as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}
