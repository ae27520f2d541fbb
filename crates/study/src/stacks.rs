//! What the file systems of a study stand on, for whoever reads its results.

use crate::StudyError;
use crate::matrix::Run;
use crate::raw_host::RawHost;
use crate::study_file::Study;
use mount::BlockRequest;

/// A file system with all that is under it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Stack {
    /// Name of the file system.
    pub file_system: String,
    /// Kernel of the host.
    pub kernel: String,
    /// Profile by which the file system is simulated.
    pub profile: String,
    /// Kernels that this profile stands for; none if the study names the profile itself.
    pub kernels: Option<String>,
    /// Name of the board.
    pub board: String,
    /// Name of the part.
    pub part: String,
    /// Blocks of the chip, or of the partition of it.
    pub blocks: u32,
    /// Block device, of file systems on one.
    pub block_device: Option<String>,
    /// History of the flash.
    pub flash: String,
}

impl Run {
    /// Host, block device and flash of a run of file systems; none of other runs.
    pub(crate) fn stack(&self) -> Option<(&RawHost, &BlockRequest, &str)> {
        if let Some(run) = &self.iozone {
            return Some((&run.host, &run.block, &run.flash.name));
        }
        self.raw_nand.as_ref().map(|run| (&run.host, &run.block, run.flash.name.as_str()))
    }
}

impl Study {
    /// The stacks of all runs, each once, in the order of the runs; none without file systems.
    ///
    /// # Errors
    /// As [`Study::runs`].
    pub fn stacks(&self) -> Result<Vec<Stack>, StudyError> {
        let mut stacks = Vec::new();
        for run in self.runs()? {
            let Some((host, block, flash)) = run.stack() else { continue };
            let stack = Stack {
                file_system: host.kind.name.to_owned(),
                kernel: host.board.kernel.clone(),
                profile: host.profile.to_owned(),
                kernels: host.kernels.as_ref().map(|found| found.kernels.clone()),
                board: host.board.name.clone(),
                part: host.part.name.clone(),
                blocks: host.part.geometry.blocks,
                block_device: host.kind.is_on_block_device.then(|| block.device.name().to_owned()),
                flash: flash.to_owned(),
            };
            if !stacks.contains(&stack) {
                stacks.push(stack);
            }
        }
        Ok(stacks)
    }
}

/// What a reader has to know of the kernels of runs, each sentence once.
pub(crate) fn kernel_notes(runs: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    for note in runs.iter().filter_map(|run| run.stack()?.0.kernel_note()) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}
