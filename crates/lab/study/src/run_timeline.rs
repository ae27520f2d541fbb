//! The timeline of a run on a file system: of each machine that the run has, one behind the other.

use crate::StudyError;
use crate::workload::contract::RunContext;
use mount::Watcher;
use std::path::{Path, PathBuf};
use timeline::MachineTracks;

/// The timeline of a run, if one is asked for.
pub(crate) struct RunTimeline(Option<(MachineTracks, PathBuf)>);

impl RunTimeline {
    /// Makes the file if the run is the one that is shown.
    ///
    /// # Errors
    /// The file cannot be made.
    pub(crate) fn begin(context: &RunContext<'_>) -> Result<Self, StudyError> {
        let Some(path) = context.timeline_file else { return Ok(Self(None)) };
        let tracks = MachineTracks::create(path).map_err(|error| not_written(path, &error))?;
        Ok(Self(Some((tracks, path.to_owned()))))
    }

    /// Who watches the machines of the run.
    pub(crate) fn watcher(&self) -> Option<&dyn Watcher> {
        self.0.as_ref().map(|(tracks, _)| tracks as &dyn Watcher)
    }

    /// Gives the file its name; to be called when the run has its results.
    ///
    /// # Errors
    /// A write that failed, now or before.
    pub(crate) fn finish(self) -> Result<(), StudyError> {
        let Some((tracks, path)) = self.0 else { return Ok(()) };
        tracks.finish().map_err(|error| not_written(&path, &error))
    }
}

/// What is said of a timeline that cannot be written.
pub(crate) fn not_written(path: &Path, error: &std::io::Error) -> StudyError {
    let place = path.display().to_string();
    let reason =
        format!("the timeline cannot be written: {error}; name a file that can be written");
    StudyError::Study { place, reason }
}
