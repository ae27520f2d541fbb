//! What an image of a chip is, in numbers.

use crate::chip::image::ChipImage;
use crate::error::ImageError;
use crate::medium::{Medium, PageState};
use crate::report::Report;
use fs_api::{FileSystem, SpaceUse};
use mtd::Ecc;
use serde_json::{Value, json};

/// Blocks by what is in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BlockCounts {
    /// Blocks with a bad mark.
    bad: u32,
    /// Nothing but 0xFF, spare areas included.
    erased: u32,
    /// No data, but marks in the spare area.
    marked: u32,
    /// Data in some pages.
    partly_written: u32,
    /// Data in all pages.
    full: u32,
}

impl ChipImage {
    /// What the image is: an object of objects.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub(crate) fn describe(&self) -> Result<Value, ImageError> {
        let (report, counts) = self.check_medium();
        let mut answer = json!({
            "file": {"path": self.path, "bytes": self.file_bytes},
            "form": self.form_json(),
        });
        self.on_chip.add_medium(self, &report, counts, &mut answer)?;
        let places = report.notes.iter().chain(&report.findings);
        let remarks = places.map(|remark| format!("{}: {}", remark.place, remark.what));
        answer["inconsistencies_on_the_medium"] = json!(report.findings.len());
        answer["remarks"] = remarks.collect();
        Ok(answer)
    }

    fn form_json(&self) -> Value {
        let ecc = if self.layout.ecc == Ecc::Hamming { "hamming" } else { "none" };
        let mut form = json!({
            "fs": self.kind.name,
            "profile": self.request.profile,
            "spare_areas": self.form.has_oob,
            "oob_layout": self.form.layout.name,
            "ecc": ecc,
        });
        self.on_chip.add_form(&mut form);
        form
    }
}

/// Adds sizes, what is on the blocks, and what their ECC did.
pub(crate) fn add_blocks(image: &ChipImage, oob_bytes: u32, report: &Report, answer: &mut Value) {
    let medium = image.medium();
    let blocks = count_blocks(&medium);
    answer["geometry"] = json!({
        "page_bytes": medium.page_bytes,
        "oob_bytes": oob_bytes,
        "pages_per_block": medium.pages_per_block,
        "blocks": image.blocks,
        "chip_blocks": image.chip.geometry().blocks,
    });
    answer["blocks"] = json!({
        "bad": blocks.bad,
        "erased": blocks.erased,
        "marked": blocks.marked,
        "partly_written": blocks.partly_written,
        "full": blocks.full,
    });
    answer["ecc"] =
        json!({"corrected_bits": report.corrected_bits, "lost_steps": report.lost_steps});
}

/// Bytes that are free on a mount.
///
/// # Errors
/// [`ImageError::Mount`].
pub(crate) fn space_json(image: &ChipImage) -> Result<Value, ImageError> {
    image.run(move |_, mounted| async move { free_json(mounted.file_system.space()) })
}

/// An object of the bytes that are free.
pub(crate) fn free_json(space: SpaceUse) -> Value {
    json!({"free_bytes": space.free_blocks * u64::from(space.block_bytes)})
}

fn count_blocks(medium: &Medium<'_>) -> BlockCounts {
    let mut counts = BlockCounts::default();
    for block in 0..medium.blocks {
        // A block that was never programmed takes no memory, so there is nothing to read.
        let Some(read) = medium.block(block) else {
            *(if medium.is_bad(block) { &mut counts.bad } else { &mut counts.erased }) += 1;
            continue;
        };
        let blank = read.pages.iter().filter(|page| **page == PageState::Blank).count();
        // The mark first: what else a bad block holds is of no use.
        let count = if medium.is_bad(block) {
            &mut counts.bad
        } else if blank == 0 {
            &mut counts.full
        } else if blank < read.pages.len() {
            &mut counts.partly_written
        } else if read.spare.iter().any(|byte| *byte != 0xff) {
            &mut counts.marked
        } else {
            &mut counts.erased
        };
        *count += 1;
    }
    let BlockCounts { bad, erased, marked, partly_written, full } = counts;
    debug_assert_eq!(bad + erased + marked + partly_written + full, medium.blocks);
    counts
}
