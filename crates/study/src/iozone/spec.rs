//! What a study file says about the state of the flash.

use serde::{Deserialize, Serialize};

/// A name on the flash axis that stands for a history: files are written until the file system is
/// filled so far, then some of them are overwritten, or deleted and written anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashState {
    /// Share of the file system that files take, in percent.
    pub fill_percent: u32,
    /// Bytes written after that, in percent of the file system: half of them over files that are
    /// there, half into new files in the place of deleted ones.
    pub rewritten_percent: u32,
    /// Largest file of the history; sizes are uniform up to it.
    #[serde(default = "megabyte")]
    pub file_kib_max: u32,
}

const fn megabyte() -> u32 {
    1024
}

impl FlashState {
    /// Says in one sentence what is wrong with these numbers, if anything.
    ///
    /// # Errors
    /// The sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.fill_percent > 90 {
            return Err(format!("fill_percent is {}, but must be 0 to 90", self.fill_percent));
        }
        if self.rewritten_percent > 1000 {
            let percent = self.rewritten_percent;
            return Err(format!("rewritten_percent is {percent}, but must be 0 to 1000"));
        }
        if !(4..=65_536).contains(&self.file_kib_max) {
            return Err(format!("file_kib_max is {}, but must be 4 to 65536", self.file_kib_max));
        }
        Ok(())
    }
}
