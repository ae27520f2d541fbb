//! What an image is, in numbers.

use crate::check::{Checkpoint, Counts, checkpoint_of};
use crate::medium::{Medium, PageState};
use crate::report::Report;
use crate::{Image, ImageError, TagsForm};
use file_systems::{Jffs2Mount, Yaffs2Mount};
use fs_api::FileSystem;
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

impl Image {
    /// What the image is: an object of objects.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn info(&self) -> Result<Value, ImageError> {
        let (report, counts) = self.check_medium();
        let mut answer = json!({
            "file": {"path": self.path, "bytes": self.file_bytes},
            "form": self.form_json(),
        });
        // A volume without UBI has neither blocks nor marks.
        if self.form.is_bare {
            answer["ubifs"] = self.ubifs_json(None);
        } else {
            self.add_medium(&mut answer, &report, &counts)?;
        }
        let places = report.notes.iter().chain(&report.findings);
        let remarks = places.map(|remark| format!("{}: {}", remark.place, remark.what));
        answer["inconsistencies_on_the_medium"] = json!(report.findings.len());
        answer["remarks"] = remarks.collect();
        Ok(answer)
    }

    /// Adds what is on the blocks, and the use of the space.
    fn add_medium(
        &self,
        answer: &mut Value,
        report: &Report,
        counts: &Counts,
    ) -> Result<(), ImageError> {
        let medium = Medium::new(self);
        let blocks = count_blocks(&medium);
        answer["geometry"] = json!({
            "page_bytes": medium.page_bytes,
            "oob_bytes": if self.form.ubi.is_some() && !self.form.has_oob {
                0
            } else {
                self.layout.oob_bytes
            },
            "pages_per_block": medium.pages_per_block,
            "blocks": self.blocks,
            "chip_blocks": self.chip.geometry().blocks,
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
        if let Counts::Ubi(counts) = counts {
            answer["ubi"] = self.ubi_json(counts);
            answer["volumes"] = match self.volumes_json() {
                Ok(volumes) => volumes.into(),
                // An image that does not attach still has numbers.
                Err(error) => json!([{"not_attached": error.to_string()}]),
            };
            return Ok(());
        }
        answer["medium"] = counts_json(counts);
        answer["space"] = self.space_json()?;
        Ok(())
    }

    fn space_json(&self) -> Result<Value, ImageError> {
        self.run(move |_, mounted| async move {
            let file_system = &mounted.file_system;
            if let Some(mount) = file_system.get::<Jffs2Mount>() {
                let space = mount.file_system.space_by_use();
                // Blocks behind the end of the image are not part of it.
                return json!({
                    "used_bytes": space.used_bytes + space.unchecked_bytes,
                    "obsolete_bytes": space.dirty_bytes + space.wasted_bytes,
                });
            }
            let space = file_system.space();
            let mut shown = json!({"free_bytes": space.free_blocks * u64::from(space.block_bytes)});
            if let Some(Yaffs2Mount(fs)) = file_system.get() {
                let is_used = fs.statistics().await.is_from_checkpoint;
                shown["checkpoint"] = json!(match checkpoint_of(is_used, &fs.findings().await) {
                    Checkpoint::None => "none".to_owned(),
                    Checkpoint::Used => "valid".to_owned(),
                    Checkpoint::Bad(reason) => format!("unusable: {reason}"),
                });
            }
            shown
        })
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
        if self.kind.is_over_ubi {
            form["on_ubi"] = json!(!self.form.is_bare);
        } else if self.kind.name == "yaffs2" {
            form["tags"] = json!(match self.form.tags {
                TagsForm::SpareWithEcc => "spare area, with ECC",
                TagsForm::Spare => "spare area, without ECC",
                TagsForm::Inband => "in the page",
            });
        } else if self.kind.name == "jffs2" {
            let place = if self.form.has_markers_in_band { "in the block" } else { "spare area" };
            form["clean_markers"] = json!(place);
        }
        form
    }
}

fn count_blocks(medium: &Medium<'_>) -> BlockCounts {
    let mut counts = BlockCounts::default();
    for block in 0..medium.blocks {
        let Some(read) = medium.block(block) else {
            *(if medium.is_bad(block) { &mut counts.bad } else { &mut counts.erased }) += 1;
            continue;
        };
        let blank = read.pages.iter().filter(|page| **page == PageState::Blank).count();
        let kind = if medium.is_bad(block) {
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
        *kind += 1;
    }
    counts
}

fn counts_json(counts: &Counts) -> Value {
    match counts {
        Counts::Jffs2(counts) => json!({
            "inode_nodes": counts.inode_nodes,
            "dirent_nodes": counts.dirent_nodes,
            "xattr_nodes": counts.xattr_nodes,
            "summaries": counts.summaries,
            "clean_markers": counts.clean_markers,
        }),
        Counts::Own(counts) => {
            let named =
                counts.iter().map(|counter| (counter.name.to_owned(), json!(counter.value)));
            Value::Object(named.collect())
        }
        Counts::Ubi(_) | Counts::Ubifs => Value::Null,
        Counts::Yaffs2(counts) => json!({
            "objects": counts.objects,
            "headers": counts.headers,
            "data_chunks": counts.data_chunks,
            "summaries": counts.summaries,
            "checkpoint_blocks": counts.checkpoint_blocks,
            "corrected_tags": counts.corrected_tags,
        }),
    }
}
