//! Processor time of commands that a user waits for: a list, and a report.

use crate::processor_time::of_children_s;
use serde::Serialize;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

/// Calls of the list: the system counts the time of children in steps of 10 ms.
const LISTS: u32 = 20;
const REPORTS: u32 = 3;
/// A study whose quick form takes seconds, and which has a report with charts.
const STUDY: &str = "ftl-windows";

/// Processor time of commands.
#[derive(Serialize)]
pub(crate) struct Commands {
    /// `nandlab list ftls`, from start to end.
    pub(crate) startup_list_ms: f64,
    /// `nandlab report` of a quick run.
    pub(crate) report_seconds: f64,
}

/// Measures the command `nandlab` at this path.
pub(crate) fn measure(nandlab: &Path) -> Result<Commands, Box<dyn Error>> {
    let list = |_| call(nandlab, &["list", "ftls"]);
    let lists_s = (0..LISTS).map(list).sum::<Result<f64, _>>()?;
    let folder = std::env::temp_dir().join(format!("nandlab-bench-{}", std::process::id()));
    let out = folder.to_str().ok_or("the folder for temporary files has a name in UTF-8")?;
    call(nandlab, &["run", STUDY, "--quick", "--out", out])?;
    let reports: Result<Vec<f64>, _> =
        (0..REPORTS).map(|_| call(nandlab, &["report", out])).collect();
    std::fs::remove_dir_all(&folder)?;
    Ok(Commands {
        startup_list_ms: lists_s * 1e3 / f64::from(LISTS),
        report_seconds: reports?.into_iter().fold(f64::MAX, f64::min),
    })
}

/// Processor time of a call, in seconds.
fn call(nandlab: &Path, arguments: &[&str]) -> Result<f64, Box<dyn Error>> {
    let before_s = of_children_s();
    let output = Command::new(nandlab).args(arguments).stdout(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} {}: {said}", nandlab.display(), arguments.join(" ")).into());
    }
    Ok(of_children_s() - before_s)
}
