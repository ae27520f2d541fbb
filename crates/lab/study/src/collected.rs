//! What the cells of a study measured, and its results made of that in the order of the plan.
//!
//! Where a cell was carried out makes no difference here: in this process, in another one, or days ago.

use crate::StudyError;
use crate::matrix::Run;
use crate::metric::{Number, TestRow};
use crate::pooled::PooledCells;
use crate::requests::Requests;
use crate::results::{Curve, Heads, Measurements, Rows, StudyResults};
use crate::single::unwritten_note;
use crate::work::{Outcome, Work};
use std::path::PathBuf;
use std::sync::Arc;

/// What is kept of a group of runs until all are done.
#[derive(Debug)]
struct Kept {
    metrics: Measurements,
    derived: Measurements,
    curve: Option<Curve>,
    tests: Vec<KeptTest>,
}

/// What is kept of a test, as of a [`TestRow`].
#[derive(Debug)]
struct KeptTest {
    test: &'static str,
    metrics: Measurements,
    note: Option<String>,
}

/// What was measured so far, in small forms: there may be ten thousand cells.
pub(crate) struct Collected {
    heads: Heads,
    cells: PooledCells,
    /// By group: none if it is not done, or was stopped.
    groups: Vec<Option<Result<Kept, StudyError>>>,
}

impl Collected {
    pub(crate) fn new(work: &Work) -> Self {
        Self {
            heads: Heads::default(),
            cells: PooledCells::new(
                work.runs.iter().map(|run| &run.axes),
                work.study.timeline.as_ref().is_some_and(|timeline| timeline.places),
            ),
            groups: work.groups.iter().map(|_| None).collect(),
        }
    }

    /// Runs whose cells have ended.
    pub(crate) fn runs_done(&self, work: &Work) -> usize {
        let ended = self.groups.iter().zip(&work.groups).filter(|(group, _)| group.is_some());
        ended.map(|(_, runs)| runs.len()).sum()
    }

    pub(crate) fn add(&mut self, work: &Work, index: usize, outcome: Outcome) {
        debug_assert!(self.groups[index].is_none(), "a group is carried out once");
        self.groups[index] = match outcome {
            Err(error) => Some(Err(error)),
            Ok(None) => None,
            Ok(Some(measured)) => {
                let samples = measured.samples.map(|samples| Arc::new(*samples));
                for run in &work.groups[index] {
                    self.cells.ended(*run, samples.as_ref());
                }
                let mut test = |row: TestRow| KeptTest {
                    test: row.test,
                    metrics: self.heads.pack(row.metrics),
                    note: row.note,
                };
                let tests = measured.tests.into_iter().map(&mut test).collect();
                Some(Ok(Kept {
                    metrics: self.heads.pack(measured.metrics),
                    derived: self.heads.pack(measured.derived),
                    curve: measured.curve.map(|points| Curve::pack(&points)),
                    tests,
                }))
            }
        };
    }
}

/// Says which run a timeline shows, where there are several.
fn timeline_note(work: &Work) -> Option<String> {
    let first = work.runs.first().filter(|_| work.runs.len() > 1)?;
    work.study.timeline_file.as_ref()?;
    let (label, repeat) = (first.label(), first.repeat);
    Some(format!(
        "the timeline shows the first of {} runs: {label}, repeat {repeat}",
        work.runs.len()
    ))
}

/// What each run measured, in the order of the plan; none of runs that were not finished.
fn by_run<'k>(
    work: &Work,
    groups: &'k [Option<Result<Kept, StudyError>>],
) -> Result<Vec<Option<&'k Kept>>, StudyError> {
    let is_finished = |group: &Option<Result<Kept, StudyError>>| matches!(group, Some(Ok(_)));
    let sizes = groups.iter().zip(&work.groups).filter(|(group, _)| is_finished(group));
    let finished = sizes.map(|(_, runs)| runs.len()).sum();
    let mut by_run = vec![None; work.runs.len()];
    for (kept, runs) in groups.iter().zip(&work.groups) {
        let Some(kept) = kept else { continue };
        // The first in the order of the plan, not of time: the message must not depend on the
        // number of workers.
        let kept = kept.as_ref().map_err(|error| StudyError::Run {
            run: work.runs[runs[0]].label(),
            reason: error.to_string(),
            finished,
            total: work.runs.len(),
        })?;
        // The runs of a group have the same results.
        for run in runs {
            by_run[*run] = Some(kept);
        }
    }
    Ok(by_run)
}

pub(crate) fn collect(work: &Work, collected: Collected) -> Result<StudyResults, StudyError> {
    let (study, runs) = (&work.study, &work.runs);
    let by_run = by_run(work, &collected.groups)?;
    let notes_of = |(path, requests): (&PathBuf, &Requests)| -> Vec<String> {
        requests.notes.iter().map(|note| format!("{}: {note}", path.display())).collect()
    };
    let mut results = StudyResults {
        columns: study.columns(),
        axis_kinds: study.axis_kinds(),
        rows: Rows::default(),
        derived: Rows::default(),
        curves: Vec::new(),
        tables: Vec::new(),
        notes: work.traces.iter().flat_map(notes_of).chain(notes_of_plans(runs)).collect(),
        interrupted: by_run.iter().any(Option::is_none),
    };
    results.notes.extend(timeline_note(work));
    results.notes.extend(unwritten_reads(&by_run));
    for (run, kept) in runs.iter().zip(&by_run) {
        let Some(kept) = kept else { continue };
        results.rows.push(run.axes.clone(), run.repeat, kept.metrics.clone());
        results.derived.push(run.axes.clone(), run.repeat, kept.derived.clone());
        for KeptTest { test, metrics, note } in &kept.tests {
            let axes = run.axes.iter().cloned().chain([(*test).to_owned()]).collect();
            let note = note.iter().map(|note| format!("{}, {test}: {note}", run.label()));
            results.notes.extend(note);
            results.rows.push(axes, run.repeat, metrics.clone());
        }
        results.curves.extend(kept.curve.iter().map(|curve| (run.axes.clone(), curve.clone())));
    }
    debug_assert!(
        results.rows.iter().all(|row| row.axes.len() == results.columns.len()),
        "a row has a cell for each column"
    );
    // Even where no run was finished: the heads of the tables are part of the digest.
    if runs.iter().any(|run| run.plan.has_pooled_tables()) {
        results.tables = collected.cells.tables(&results.columns);
    }
    Ok(results)
}

/// Notes of the plans, each once.
fn notes_of_plans(runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    for note in runs.iter().filter_map(|run| run.plan.note()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// A note on runs that read pages which held nothing.
fn unwritten_reads(by_run: &[Option<&Kept>]) -> Option<String> {
    let metric = |kept: &Kept, name: &str| {
        let found = kept.metrics.iter().find(|metric| metric.name == name)?;
        match found.value {
            Number::Count(count) => Some(count),
            Number::Real(_) => None,
        }
    };
    let counted: Vec<[u64; 2]> = by_run
        .iter()
        .flatten()
        .filter_map(|kept| {
            let pages = metric(kept, "unwritten_read_pages").filter(|pages| *pages > 0)?;
            Some([pages, metric(kept, "host_read_pages")?])
        })
        .collect();
    let most = counted.iter().max_by_key(|[pages, _]| *pages)?;
    debug_assert!(
        most[0] <= most[1],
        "{} of {} pages that were read held nothing",
        most[0],
        most[1]
    );
    let (runs, of) = (counted.len(), by_run.len());
    let what = unwritten_note(most[0], most[1])?;
    Some(format!("in {runs} of {of} runs, at most: {what}"))
}
