//! The smallest kind of workload: a walk of a drunkard. This file and its row in `workload/table.rs` are all
//! that it takes; only the tests have it.

use crate::StudyError;
use crate::metric::Metric;
use crate::study_file::Study;
use crate::study_parts::refuse;
use crate::workload::contract::{
    Combination, Identity, KnownAxes, Measured, Plan, Planned, RunContext, WorkloadKind,
};
use nand::random::Stream;

/// The row of the table.
pub(crate) const KIND: WorkloadKind = WorkloadKind {
    name: "toy",
    summary: "a walk of `steps` steps, each one forward or back",
    // `nandlab list workloads` shows the keys, and every other key is refused.
    keys: &["capacity_bytes"],
    axes: |_| KnownAxes { own: &["shoes", "steps"], ..KnownAxes::default() },
    has_timeline: false,
    // The cells of this column come from `Plan::cells`.
    columns: &["parity"],
    check,
    plan,
};

/// A walk of so many steps.
#[derive(Debug)]
struct Walk {
    steps: u32,
}

fn check(study: &Study) -> Result<(), StudyError> {
    refuse(study, &["host", "job", "limits", "timeline"])?;
    if study.axes.contains_key("steps") {
        return Ok(());
    }
    let reason = "an axis `steps` with at least one number is missing".into();
    Err(StudyError::Study { place: "axes".into(), reason })
}

fn plan(_: &Study, values: &Combination<'_>) -> Planned {
    let given = values.get("steps").copied().unwrap_or_default();
    let Ok(steps) = given.parse() else {
        let reason = format!("`{given}` is no number of steps");
        return Err(StudyError::Study { place: "axes.steps".into(), reason });
    };
    Ok(Box::new(Walk { steps }))
}

impl Plan for Walk {
    fn carry_out(&self, context: &RunContext<'_>) -> Result<Option<Measured>, StudyError> {
        // Random numbers come from a stream of the run's seed, so that a run is a function of the study.
        let mut numbers = Stream::new(context.seed(), KIND.name);
        let mut place = 0_i64;
        for _ in 0..self.steps {
            if (context.stopped)() {
                return Ok(None);
            }
            place += if numbers.below(2) == 0 { 1 } else { -1 };
        }
        let metrics = vec![
            Metric::count("steps", self.steps.into(), "steps"),
            Metric::count("distance", place.unsigned_abs(), "steps"),
        ];
        Ok(Some(Measured { metrics, ..Measured::default() }))
    }

    fn identity(&self, repeat: u32) -> Option<Identity> {
        // The shoes are no part of it: they change nothing.
        Some(vec![self.steps.to_string(), repeat.to_string()])
    }

    fn cells(&self) -> Vec<String> {
        vec![if self.steps.is_multiple_of(2) { "even" } else { "odd" }.to_owned()]
    }
}

mod tests {
    use crate::{StudyError, StudyResults, load, run_study};
    use std::sync::atomic::{AtomicU32, Ordering};

    const HEAD: &str = "name = \"walks\"\ntitle = \"Walks\"\nquestion = \"How far?\"\nseed = 1\n";
    const STUDY: &str = "repeats = 2\naxis_order = [\"steps\"]\n[workload]\nkind = \"toy\"\n\
        [axes]\nsteps = [3, 4]\nshoes = [\"old\", \"new\"]\n\
        [[extra_runs]]\naxes = { steps = [3], shoes = [\"old\"] }\nrepeats = 3\n";

    /// Loads and runs a study; how many runs were reported as done at a time.
    fn run(text: &str) -> Result<(StudyResults, Vec<usize>), StudyError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("nandlab-toy-{}-{number}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, format!("{HEAD}{text}")).expect("room for the study");
        let study = load(&path, &[], None, false);
        std::fs::remove_file(&path).expect("written above");
        let mut reported = Vec::new();
        let results = run_study(&study?, 1, &mut |done, _, _| {
            reported.push(done);
            true
        })?;
        reported.dedup();
        Ok((results, reported))
    }

    #[test]
    fn one_file_and_one_row_make_a_kind() {
        let (results, reported) = run(STUDY).expect("a good study");
        assert_eq!(results.columns, ["steps", "shoes", "parity"]);
        let rows: Vec<String> = results
            .rows
            .iter()
            .filter(|row| row.metric.name == "steps")
            .map(|row| format!("{} {} {}", row.axes.join(" "), row.repeat, row.metric.value))
            .collect();
        let expected = [
            "3 old odd 0 3",
            "3 old odd 1 3",
            "3 new odd 0 3",
            "3 new odd 1 3",
            "4 old even 0 4",
            "4 old even 1 4",
            "4 new even 0 4",
            "4 new even 1 4",
            "3 old odd 2 3",
        ];
        assert_eq!(rows, expected);
        // Walks in other shoes are carried out once for both.
        assert_eq!(reported.last(), Some(&9));
        assert!(reported.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{reported:?}");
        let distances = results.rows.iter().filter(|row| row.metric.name == "distance");
        let distances: Vec<String> = distances.map(|row| row.metric.value.to_string()).collect();
        assert_eq!(distances[0], distances[2], "the same walk");
        assert!(results.curves.is_empty() && results.tables.is_empty());
    }

    #[test]
    fn what_the_kind_does_not_take_is_refused() {
        let cases = [
            (
                "steps = [3, 4]",
                "stps = [3, 4]",
                "an axis `steps` with at least one number is missing",
            ),
            ("steps = [3, 4]", "steps = [\"many\"]", "axes.steps: `many` is no number of steps"),
            ("shoes =", "shoe =", "axes: unknown axis `shoe` (did you mean `shoes`?)"),
            ("shoes =", "parity =", "axes: unknown axis `parity`; known: shoes, steps"),
            ("\"toy\"", "\"toys\"", "unknown workload `toys` (did you mean `toy`?)"),
            ("\"toy\"", "\"toy\"\nfile = \"x\"", "kind `toy` takes capacity_bytes, but not file"),
            ("[axes]", "[limits.small]\n[axes]", "limits: means nothing to workload kind `toy`"),
        ];
        for (from, to, message) in cases {
            assert!(STUDY.contains(from), "{from}");
            let error = run(&STUDY.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(message), "{to}: {error}");
        }
    }
}
