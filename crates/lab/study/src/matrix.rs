//! The matrix of runs that a study stands for.

use crate::StudyError;
use crate::study_file::Study;
use crate::workload::contract::{Combination, Plan, WorkloadKind};
use crate::workload::table::{WORKLOADS, find_workload};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One axis of a study: its values, in the order of the file.
pub type Axis = (String, Vec<String>);

/// One run of a study.
#[derive(Clone, Debug)]
pub struct Run {
    /// Axis values in the order of the columns, then the cells that the kind of workload adds.
    pub axes: Arc<[String]>,
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// What is carried out; the repeats of a combination share it.
    pub(crate) plan: Arc<dyn Plan>,
}

impl Run {
    /// The axis values, for messages.
    pub(crate) fn label(&self) -> String {
        self.axes.join(" ")
    }
}

impl Study {
    /// The kind of workload that the study names.
    ///
    /// # Errors
    /// [`StudyError::Unknown`] for a kind that does not exist, with a suggestion.
    pub(crate) fn kind(&self) -> Result<&'static WorkloadKind, StudyError> {
        let name = &self.workload.kind;
        find_workload(name).ok_or_else(|| {
            StudyError::unknown("workload", name, WORKLOADS.iter().map(|kind| kind.name))
        })
    }

    /// Place of an axis among the columns; axes without one come last, by name.
    pub(crate) fn column_place(&self, axis: &str) -> usize {
        self.axis_order.iter().position(|other| other == axis).unwrap_or(usize::MAX)
    }

    /// Axes in the order of the columns.
    pub fn ordered_axes(&self) -> Vec<Axis> {
        let mut names: Vec<&String> = self.axes.keys().collect();
        // Axes without a place come by the names of their columns, which recorded results have.
        names.sort_by_cached_key(|name| (self.column_place(name), self.column_of(name)));
        let values = |name: &String| self.axes[name].iter().map(ToString::to_string).collect();
        names.into_iter().map(|name| (name.clone(), values(name))).collect()
    }

    /// The column of an axis. It has the name of the axis, unless the kind of workload gives it another.
    fn column_of(&self, axis: &str) -> String {
        let kind = find_workload(&self.workload.kind);
        let columns = kind.map_or(&[][..], |kind| (kind.axes)(self).columns);
        let other = columns.iter().find(|(name, _)| *name == axis);
        other.map_or(axis, |(_, column)| column).to_owned()
    }

    /// Columns that the kind of workload adds after those of the axes.
    pub(crate) fn columns_of_kind(&self) -> &'static [&'static str] {
        // A kind that does not exist was refused when the study was loaded.
        find_workload(&self.workload.kind).map_or(&[], |kind| kind.columns)
    }

    /// Names of the axis columns.
    pub fn columns(&self) -> Vec<String> {
        let axes = self.ordered_axes().into_iter().map(|(name, _)| self.column_of(&name));
        axes.chain(self.columns_of_kind().iter().map(|column| (*column).to_owned())).collect()
    }

    /// All runs, in the order of the axes; extra runs come after those of the product.
    ///
    /// # Errors
    /// [`StudyError`] for names that do not exist, and for values and settings that do not fit.
    pub fn runs(&self) -> Result<Vec<Run>, StudyError> {
        let mut runs = self.product(&self.ordered_axes(), self.repeats)?;
        let place = |run: &Run| (run.axes.clone(), run.repeat);
        let mut known: BTreeSet<(Arc<[String]>, u32)> = runs.iter().map(place).collect();
        debug_assert_eq!(known.len(), runs.len(), "no combination is in the product twice");
        for extra in &self.extra_runs {
            let mut axes = self.ordered_axes();
            for (name, values) in &mut axes {
                if let Some(replaced) = extra.axes.get(name) {
                    *values = replaced.iter().map(ToString::to_string).collect();
                }
            }
            for run in self.product(&axes, extra.repeats.unwrap_or(self.repeats))? {
                // A combination that is named twice is run once.
                if known.insert(place(&run)) {
                    runs.push(run);
                }
            }
        }
        Ok(runs)
    }

    /// The runs of all combinations of these axes.
    fn product(&self, axes: &[Axis], repeats: u32) -> Result<Vec<Run>, StudyError> {
        let kind = self.kind()?;
        // The first axis changes slowest.
        let mut combinations: Vec<Vec<String>> = vec![Vec::new()];
        for (_, values) in axes {
            let longer = |head: &Vec<String>| {
                let head = head.clone();
                values
                    .iter()
                    .map(move |value| [head.as_slice(), std::slice::from_ref(value)].concat())
            };
            combinations = combinations.iter().flat_map(longer).collect();
        }
        debug_assert!(combinations.iter().all(|cells| cells.len() == axes.len()));
        let mut runs = Vec::new();
        for mut cells in combinations {
            let plan: Arc<dyn Plan> = {
                let names = axes.iter().map(|(name, _)| name.as_str());
                let values: Combination<'_> = names.zip(cells.iter().map(String::as_str)).collect();
                (kind.plan)(self, &values)?.into()
            };
            cells.extend(plan.cells());
            let axes: Arc<[String]> = cells.into();
            let of_repeat = |repeat| Run { axes: axes.clone(), repeat, plan: plan.clone() };
            runs.extend((0..repeats).map(of_repeat));
        }
        Ok(runs)
    }
}
