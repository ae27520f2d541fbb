//! An fsck of a chip that never writes: the medium, then what a mount shows.

use crate::chip::image::ChipImage;
use crate::error::ImageError;
use crate::report::Report;
use serde_json::Value;
use vfs::ReadLimits;

impl ChipImage {
    /// Checks everything; no file longer than the limit is read.
    ///
    /// # Errors
    /// [`ImageError::Mount`] if the image does not mount at all.
    pub(crate) fn check_within(&self, file_bytes_max: u64) -> Result<Report, ImageError> {
        let (mut report, _) = self.check_medium();
        let limits = ReadLimits { has_hashes: true, file_bytes_max };
        self.on_chip.check_tree(self, limits, &mut report)?;
        Ok(report)
    }

    /// Checks the medium alone; and counts what is on it, as an object of numbers.
    pub fn check_medium(&self) -> (Report, Value) {
        let mut report = Report::default();
        for note in &self.notes {
            report.add_note("image", note.clone());
        }
        let medium = self.medium();
        for page in &self.corrected_marks {
            report.corrected_bits += 1;
            let place = medium.place(page * medium.page_bytes);
            report.add_note(place, "the bad mark has a single wrong bit: it is not believed");
        }
        for block in (0..medium.blocks).filter(|block| medium.is_bad(*block)) {
            report.add_note(medium.place(block * medium.block_bytes()), "the block is marked bad");
        }
        let counts = self.on_chip.check_medium(&medium, &mut report);
        (report, counts)
    }
}
