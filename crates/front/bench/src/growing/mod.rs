//! How memory and time grow with the work: the same work at N, 10 N and 100 N units.

mod case;
mod table;

use crate::ALLOCATOR;
use crate::processor_time::Stopwatch;
use case::{Case, Outcome};
use std::error::Error;
use std::fs;
use std::thread;
use std::time::Duration;
use table::CASES;

/// What work of some size took.
#[derive(Clone, Copy)]
struct Taken {
    units: u64,
    /// Most heap bytes beyond those that were there before.
    peak_bytes: usize,
    /// Heap bytes that are still there once the results are dropped.
    kept_bytes: usize,
    seconds: f64,
}

impl Taken {
    fn seconds_per_unit(&self) -> f64 {
        self.seconds / self.units as f64
    }
}

/// Does the work of a case with so many units.
fn measure(case: &Case, units: u64) -> Result<Taken, Box<dyn Error>> {
    let (before_input, threads) = (ALLOCATOR.current_usage(), threads());
    // Prepared first: a trace in memory or a study file is not what the work takes.
    let work = case.prepare(units)?;
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let start = Stopwatch::start();
    let outcome: Outcome = work();
    let (seconds, peak) = (start.seconds(), ALLOCATOR.peak_usage());
    // Results are dropped before what stays is counted.
    drop(outcome?);
    wait_for_threads(threads);
    // The work has consumed its input as well.
    let kept_bytes = ALLOCATOR.current_usage().saturating_sub(before_input);
    Ok(Taken { units, peak_bytes: peak - before, kept_bytes, seconds })
}

/// Threads of this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Waits until there are no more threads than before the work, a second at most.
///
/// A pool of rayon does not wait for its threads when it is dropped (`ThreadPool`, `Drop`). A worker that
/// cuts UBIFS holds LZO's work memory of 128 KiB until it ends, which it may do a moment later.
fn wait_for_threads(before: usize) {
    const STEP: Duration = Duration::from_millis(10);
    for _ in 0..100 {
        if threads() <= before {
            break;
        }
        thread::sleep(STEP);
    }
}

/// Heap bytes that a further unit takes, by the difference of two runs.
fn bytes_per_unit(few: &Taken, many: &Taken) -> f64 {
    (many.peak_bytes as f64 - few.peak_bytes as f64) / (many.units - few.units) as f64
}

/// Prints the table of `docs/speed.md`, in Markdown.
///
/// # Errors
/// A case that cannot be carried out.
pub(crate) fn print() -> Result<(), Box<dyn Error>> {
    println!(
        "| work | workload kind | unit | N | heap at N | at 10 N | a further unit | bound of it | \
         kept afterwards | time of a unit at N | at 100 N |"
    );
    println!("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for case in CASES {
        // What a process sets up once is not part of the first case.
        measure(case, case.units)?;
        let few = measure(case, case.units)?;
        let [more, most] = [measure(case, case.units * 10)?, measure(case, case.units * 100)?];
        println!(
            "| {} | {} | {} | {} | {:.2} MB | {:.2} MB | {:.1} B | {} B | {:.1} KB | {} | {} |",
            case.name,
            case.kind.unwrap_or("-"),
            case.unit,
            case.units,
            few.peak_bytes as f64 / 1e6,
            more.peak_bytes as f64 / 1e6,
            bytes_per_unit(&few, &more),
            case.bytes_per_unit_max,
            most.kept_bytes as f64 / 1e3,
            time(few.seconds_per_unit()),
            time(most.seconds_per_unit()),
        );
    }
    Ok(())
}

/// Three digits and a unit that suits them.
fn time(seconds: f64) -> String {
    let (factor, unit) = match seconds {
        s if s >= 1e-3 => (1e3, "ms"),
        s if s >= 1e-6 => (1e6, "us"),
        _ => (1e9, "ns"),
    };
    format!("{:.3} {unit}", seconds * factor)
}

#[cfg(test)]
mod tests {
    use super::{CASES, Taken, bytes_per_unit, measure};
    use std::sync::{Mutex, PoisonError};
    use study::WORKLOADS;

    /// A process has one counter of its heap: a test at a time.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Heap bytes that a process may keep of work that is over (tables that are made once, on first use), and
    /// by which two runs of the same work differ: threads of the pool and of the tests take some.
    const SLACK_BYTES: usize = 64 << 10;

    /// N and 10 N units of a case, after a first time that sets up what a process keeps.
    fn pair(name: &str) -> [Taken; 2] {
        let case = CASES.iter().find(|case| case.name == name).expect("a row");
        let taken = |units| measure(case, units).unwrap_or_else(|error| panic!("{name}: {error}"));
        taken(case.units);
        [taken(case.units), taken(case.units * 10)]
    }

    #[test]
    fn the_table_is_sorted_and_each_kind_of_workload_has_a_row() {
        assert!(CASES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for kind in WORKLOADS {
            // A real kernel carries that kind out, in a virtual machine.
            let is_elsewhere = kind.name == "kernel";
            let has_case = CASES.iter().any(|case| case.kind == Some(kind.name));
            assert!(has_case || is_elsewhere, "{} has no case in growing/table.rs", kind.name);
        }
    }

    #[test]
    fn memory_grows_no_faster_than_stated_and_nothing_is_kept() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        for case in CASES {
            let [few, more] = pair(case.name);
            let name = case.name;
            let most = case.bytes_per_unit_max * (more.units - few.units) as f64;
            assert!(
                more.peak_bytes as f64 <= few.peak_bytes as f64 + most + SLACK_BYTES as f64,
                "{name}: {:.1} bytes a further {}, at most {}",
                bytes_per_unit(&few, &more),
                case.unit,
                case.bytes_per_unit_max
            );
            for taken in [few, more] {
                let (kept, units) = (taken.kept_bytes, taken.units);
                assert!(kept <= SLACK_BYTES, "{name}: {kept} bytes kept after {units} units");
            }
        }
    }

    /// What a gibibyte must hold, by the slope between a thousandth and a hundredth of it.
    #[test]
    fn ten_thousand_cells_and_a_hundred_million_requests_fit_a_gibibyte() {
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, units) in [("cells of a study", 10_000.0), ("jobs", 1e8)] {
            let [few, more] = pair(name);
            let slope = bytes_per_unit(&few, &more).max(0.0);
            let bytes = more.peak_bytes as f64 + slope * (units - more.units as f64);
            assert!(bytes < f64::from(1 << 30), "{name}: {units} units take {bytes:.0} bytes");
        }
    }
}
