//! Tidy rows: one column an axis, then repeat, metric, value, unit.
//!
//! A study of ten thousand cells has a million rows, so what rows share is kept once: the axis values
//! of a run, and the names and units that all runs of a kind have. A row by itself is a value.

use crate::metric::{Metric, Number};
use crate::values::AxisKind;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

/// Name and unit of a measurement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Head {
    name: Box<str>,
    unit: &'static str,
}

/// Lists of names and units, each kept once.
#[derive(Debug, Default)]
pub(crate) struct Heads {
    known: BTreeSet<Arc<[Head]>>,
}

impl Heads {
    /// What a run measured, in its small form.
    pub(crate) fn pack(&mut self, metrics: Vec<Metric>) -> Measurements {
        let values = metrics.iter().map(|metric| metric.value).collect();
        let heads: Vec<Head> = metrics
            .into_iter()
            .map(|metric| Head { name: metric.name.into(), unit: metric.unit })
            .collect();
        let heads = if let Some(known) = self.known.get(heads.as_slice()) {
            known.clone()
        } else {
            let heads: Arc<[Head]> = heads.into();
            self.known.insert(heads.clone());
            heads
        };
        Measurements { heads, values }
    }
}

/// What a run measured, in order; copies share everything.
#[derive(Clone, Debug)]
pub(crate) struct Measurements {
    heads: Arc<[Head]>,
    values: Arc<[Number]>,
}

impl Measurements {
    pub(crate) fn iter(&self) -> impl Iterator<Item = Measurement<'_>> + Clone {
        self.heads.iter().zip(&*self.values).map(|(head, value)| Measurement {
            name: &head.name,
            value: *value,
            unit: head.unit,
        })
    }
}

/// Name, value and unit of what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement<'a> {
    /// Name, unit last where it has one.
    pub name: &'a str,
    /// Value in the unit.
    pub value: Number,
    /// Unit of the value, in words.
    pub unit: &'static str,
}

/// One row of the results.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Values of the axes, in the order of the columns.
    pub axes: &'a [String],
    /// Repeat number, from 0.
    pub repeat: u32,
    /// Name, value and unit of what was measured.
    pub metric: Measurement<'a>,
}

/// Rows of results, in the order of the plan.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    runs: Vec<RunRows>,
    rows: usize,
}

/// Rows of one run, or of one test of it.
#[derive(Clone, Debug)]
struct RunRows {
    axes: Arc<[String]>,
    repeat: u32,
    measured: Measurements,
}

impl Rows {
    pub(crate) fn push(&mut self, axes: Arc<[String]>, repeat: u32, measured: Measurements) {
        debug_assert_eq!(measured.heads.len(), measured.values.len(), "a value has a name");
        if !measured.values.is_empty() {
            self.rows += measured.values.len();
            self.runs.push(RunRows { axes, repeat, measured });
        }
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows, in the order of the plan.
    pub fn iter(&self) -> impl Iterator<Item = Row<'_>> + Clone {
        self.runs.iter().flat_map(|run| {
            let row = |metric| Row { axes: &run.axes, repeat: run.repeat, metric };
            run.measured.iter().map(row)
        })
    }
}

/// A table beside the rows: pooled values, distributions, time lines.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name of its file.
    pub name: &'static str,
    /// Column heads: the axes, then its own.
    pub columns: Vec<String>,
    /// Axis values, and the lines of these without them: cells with a comma between them.
    parts: Vec<(Arc<[String]>, Arc<str>)>,
}

impl Table {
    /// A table without rows; `own` are its columns after those of the axes.
    pub(crate) fn new(name: &'static str, axes: &[String], own: &[&str]) -> Self {
        let own = own.iter().map(|own| (*own).to_owned());
        Self { name, columns: axes.iter().cloned().chain(own).collect(), parts: Vec::new() }
    }

    /// Adds lines, each with its end, that have these axis values.
    pub(crate) fn push(&mut self, axes: Arc<[String]>, lines: Arc<str>) {
        if !lines.is_empty() {
            self.parts.push((axes, lines));
        }
    }

    /// True if there is no row.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Axis values and own cells of each row, in the order of the plan.
    fn lines(&self) -> impl Iterator<Item = (&[String], &str)> + Clone {
        self.parts.iter().flat_map(|(axes, lines)| lines.lines().map(move |line| (&**axes, line)))
    }

    /// Cells of each row, in the order of the plan.
    pub fn rows(&self) -> impl Iterator<Item = Vec<&str>> + Clone {
        self.lines()
            .map(|(axes, line)| axes.iter().map(String::as_str).chain(line.split(',')).collect())
    }

    /// Axis values of each row.
    pub(crate) fn axes(&self) -> impl Iterator<Item = &[String]> + Clone {
        self.lines().map(|(axes, _)| axes)
    }

    /// The cells of a column of its own, from the first on.
    pub(crate) fn own_cells(&self, place: usize) -> impl Iterator<Item = &str> + Clone {
        self.lines().map(move |(_, line)| {
            line.split(',').nth(place).expect("a row has a cell for each column")
        })
    }

    /// The table as CSV.
    pub fn to_csv(&self) -> String {
        let mut text = self.columns.join(",");
        text.push('\n');
        for (axes, line) in self.lines() {
            debug_assert_eq!(
                axes.len() + line.split(',').count(),
                self.columns.len(),
                "a row has a cell for each column"
            );
            for axis in axes {
                text.push_str(axis);
                text.push(',');
            }
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// Numbers of a point of a curve.
const POINT_NUMBERS: usize = 5;

/// A cumulative curve, kept as the differences between its points: a few bytes each.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    differences: Arc<[u8]>,
}

impl Curve {
    pub(crate) fn pack(points: &[[u64; POINT_NUMBERS]]) -> Self {
        let (mut bytes, mut last) = (Vec::new(), [0; POINT_NUMBERS]);
        for point in points {
            for (number, last) in point.iter().zip(last) {
                // Seven bits a byte, the lowest first; the top bit says that more follow.
                let mut left = number.wrapping_sub(last);
                while left > 0x7f {
                    bytes.push(left as u8 | 0x80);
                    left >>= 7;
                }
                bytes.push(left as u8);
            }
            last = *point;
        }
        Self { differences: bytes.into() }
    }

    /// The points: I/Os, reads, writes, erases, weighted time.
    pub fn points(&self) -> impl Iterator<Item = [u64; POINT_NUMBERS]> + Clone {
        let (mut bytes, mut last) = (self.differences.iter(), [0_u64; POINT_NUMBERS]);
        let points = self.differences.iter().filter(|byte| **byte <= 0x7f).count() / POINT_NUMBERS;
        (0..points).map(move |_| {
            for number in &mut last {
                let (mut difference, mut shift) = (0, 0);
                for byte in bytes.by_ref() {
                    difference |= u64::from(byte & 0x7f) << shift;
                    shift += 7;
                    if *byte <= 0x7f {
                        break;
                    }
                }
                *number = number.wrapping_add(difference);
            }
            last
        })
    }
}

/// Everything a study yields.
#[derive(Clone, Debug)]
pub struct StudyResults {
    /// Names of the axis columns.
    pub columns: Vec<String>,
    /// What the values of those columns are.
    pub axis_kinds: Vec<AxisKind>,
    /// Rows in the order of the plan.
    pub rows: Rows,
    /// What follows from the rows under another way of counting; no part of the CSV and its digest.
    pub derived: Rows,
    /// Cumulative counts over the run: axis values, then `io, reads, writes, erases, weighted_time`.
    pub curves: Vec<(Arc<[String]>, Curve)>,
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
        for row in self.rows.iter() {
            for axis in row.axes {
                text.push_str(axis);
                text.push(',');
            }
            let Measurement { name, value, unit } = row.metric;
            let _ = writeln!(text, "{},{name},{value},{unit}", row.repeat);
        }
        text
    }

    /// BLAKE3 of the CSV and of all tables, in hexadecimal.
    pub fn digest(&self) -> String {
        self.digest_of(&self.to_csv())
    }

    /// The digest, if the rows are known as CSV.
    pub fn digest_of(&self, csv: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(csv.as_bytes());
        // Tables hold what the rows do not: distributions and time lines.
        for table in &self.tables {
            hasher.update(table.to_csv().as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{Curve, Heads};
    use crate::metric::Metric;
    use random::Stream;

    #[test]
    fn a_curve_has_the_points_that_it_was_made_of() {
        let mut draw = Stream::new(1, "curve");
        for count in [0, 1, 2, 200] {
            let points: Vec<[u64; 5]> = (0..count)
                .map(|_| [(); 5].map(|()| draw.next_u64() >> draw.below(64)))
                .chain([[u64::MAX, 0, 127, 128, 1 << 63], [0; 5]])
                .collect();
            assert!(Curve::pack(&points).points().eq(points.iter().copied()), "{count} points");
        }
        assert_eq!(Curve::pack(&[]).points().count(), 0);
    }

    #[test]
    fn runs_of_the_same_metrics_share_their_names() {
        let mut heads = Heads::default();
        let run = |value| {
            vec![Metric::count("a_bytes", value, "bytes"), Metric::number("b", 0.5, "ratio")]
        };
        let (one, two) = (heads.pack(run(1)), heads.pack(run(2)));
        let other = heads.pack(vec![Metric::count("a_bytes", 1, "pages")]);
        assert!(std::sync::Arc::ptr_eq(&one.heads, &two.heads));
        assert_ne!(one.heads, other.heads, "another unit is another head");
        let shown: Vec<String> = two
            .iter()
            .map(|metric| format!("{} {} {}", metric.name, metric.value, metric.unit))
            .collect();
        assert_eq!(shown, ["a_bytes 2 bytes", "b 0.5 ratio"]);
    }
}
