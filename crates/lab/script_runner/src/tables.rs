//! A record as text.

use crate::{LogLine, PhaseCounts, Record};
use mtd::Operation;
use std::fmt::Write as _;

/// Column heads of the counts by phase.
pub const COUNTS_HEAD: &str = "workload,phase,reads,programs,erases,run,implementation,full_reads,\
                               subpage_reads,oob_reads,oob_programs,column_changes,nandsim_log_reads";

/// Operations of the chip by phase, as CSV. Reads, programs and erases are operations of the array;
/// the last column is what a log of Linux's `nandsim` shows as reads, a line for each change of the
/// column included. The implementation is the profile of the first file system that was mounted.
pub fn counts_csv(record: &Record, workload: &str, run: u64) -> String {
    counts_csv_of(&record.phases, record.profile, workload, run)
}

/// As [`counts_csv`], of phases that a run had ended before it was left.
pub fn counts_csv_of(
    phases: &[PhaseCounts],
    profile: Option<&str>,
    workload: &str,
    run: u64,
) -> String {
    let mut text = format!("{COUNTS_HEAD}\n");
    // Nothing was mounted, as in a script about UBI alone.
    let implementation = profile.unwrap_or("none");
    for phase in phases {
        let counts = &phase.counts;
        let _ = writeln!(
            text,
            "{workload},{},{},{},{},{run},{implementation},{},{},{},{},{},{}",
            phase.name,
            counts.reads(),
            counts.programs(),
            counts.erases,
            counts.full_reads,
            counts.sub_page_reads,
            counts.oob_reads,
            counts.oob_programs,
            counts.column_changes(),
            counts.reads() + counts.column_changes(),
        );
    }
    text
}

/// Operations of the chip in their order, one a line: `R page` reads a page, `S page column` a part of
/// one, `O page` a spare area; `P page` programs a page, `Q page` a spare area; `E block` erases.
/// `# phase NAME` stands where a phase begins.
pub fn sequence(record: &Record) -> String {
    let mut text = String::new();
    for line in &record.log {
        let _ = match line {
            LogLine::Phase(name) => writeln!(text, "# phase {name}"),
            LogLine::Operation(Operation::Read { page }) => writeln!(text, "R {page}"),
            LogLine::Operation(Operation::SubPageRead { page, column }) => {
                writeln!(text, "S {page} {column}")
            }
            LogLine::Operation(Operation::OobRead { page }) => writeln!(text, "O {page}"),
            LogLine::Operation(Operation::Program { page }) => writeln!(text, "P {page}"),
            LogLine::Operation(Operation::OobProgram { page }) => writeln!(text, "Q {page}"),
            LogLine::Operation(Operation::Erase { block }) => writeln!(text, "E {block}"),
        };
    }
    text
}
