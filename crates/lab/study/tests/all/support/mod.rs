//! Study files and traces in a folder of their own.
#![allow(dead_code, reason = "every test file uses a part of this")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use study::{Study, StudyError, StudyResults};
use trace::{Record, TraceWriter};

/// A folder that is removed at the end of the test.
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir()
            .join(format!("nandlab-study-{}-{number}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self { path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn trace(&self, name: &str, records: &[Record]) -> PathBuf {
        let path = self.path.join(name);
        let mut writer = TraceWriter::create(&path).unwrap();
        writer.write(records).unwrap();
        writer.finish(&BTreeMap::new()).unwrap();
        path
    }

    /// Loads a study of this text.
    pub(crate) fn load(&self, text: &str) -> Result<Study, StudyError> {
        study::load(&self.write("study.toml", text), &[], None, false)
    }

    /// Loads and runs a study of this text.
    pub(crate) fn run(&self, text: &str) -> Result<StudyResults, StudyError> {
        study::run_study(&self.load(text)?, 1, &mut |_, _, _| true)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The first lines of a study: what the tests do not vary.
pub(crate) const HEAD: &str =
    "name = \"test\"\ntitle = \"A test\"\nquestion = \"Does it work?\"\nseed = 1\n";

/// The value of a metric in the rows of one layer, as it is shown.
pub(crate) fn value(results: &StudyResults, layer: &str, metric: &str) -> String {
    let row = results.rows.iter().find(|row| row.axes[0] == layer && row.metric.name == metric);
    row.unwrap_or_else(|| panic!("no {metric} of {layer}")).metric.value.to_string()
}

/// Values of metrics by their names.
pub(crate) type Values = BTreeMap<String, f64>;

/// Values of each combination of axes, which are in the order of their names; the last is the phase.
pub(crate) fn by_place(results: &StudyResults) -> BTreeMap<Vec<String>, Values> {
    let mut found: BTreeMap<Vec<String>, Values> = BTreeMap::new();
    for row in results.rows.iter() {
        let value = row.metric.value.to_string().parse().expect("a number");
        found.entry(row.axes.to_vec()).or_default().insert(row.metric.name.to_owned(), value);
    }
    found
}
