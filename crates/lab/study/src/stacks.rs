//! What the file systems of a study stand on, for whoever reads its results.

use crate::StudyError;
use crate::study_file::Study;
use crate::workload::contract::StackPlan;

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
    /// State of the flash: fresh, or how far it has aged.
    pub flash: String,
}

impl Study {
    /// The stacks of all runs, each once, in the order of the runs; none without file systems.
    ///
    /// # Errors
    /// [`StudyError`], as of [`Study::runs`].
    pub fn stacks(&self) -> Result<Vec<Stack>, StudyError> {
        let mut stacks = Vec::new();
        for run in self.runs()? {
            let Some(stack) = run.plan.stack() else { continue };
            let StackPlan { host, flash, block, .. } = stack;
            let stack = Stack {
                file_system: host.kind.name.to_owned(),
                kernel: host.board.kernel.clone(),
                profile: host.profile.to_owned(),
                kernels: host.kernels.as_ref().map(|found| found.kernels.clone()),
                board: host.board.name.clone(),
                part: host.part.name.clone(),
                blocks: host.part.geometry.blocks,
                block_device: host.kind.is_on_block_device.then(|| block.device.name().to_owned()),
                flash: flash.name.clone(),
            };
            // Repeats and most axes share their stack: there are few to compare with.
            if !stacks.contains(&stack) {
                stacks.push(stack);
            }
        }
        Ok(stacks)
    }
}
