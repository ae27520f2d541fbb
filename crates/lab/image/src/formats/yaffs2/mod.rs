//! Images of YAFFS2: dumps of chips, and what mkyaffs2image writes for a flasher.

mod check;
mod detect;
mod tree;

pub use detect::TagsForm;

use crate::chip::{
    BlockOrder, ChipForm, ChipImage, Dump, DumpForm, Form, Prepared, add_blocks, extract_mounted,
    free_json, list_mounted, make_chip,
};
use crate::contract::{Evidence, Format, directory_of};
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::medium::Medium;
use crate::options::ExtractOptions;
use crate::report::Report;
use file_systems::Yaffs2Mount;
use fs_api::FileSystem;
use mount::{Call, Kind, Machine, MountError, MountRequest, Mounted};
use mtd::{OobLayout, find_layout};
use serde_json::{Value, json};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use vfs::ReadLimits;
use yaffs2::TAGS_ECC_BYTES;

/// Share of tags from which on nothing else is looked for: nodes explain no more of a page with tags.
const SETTLING_SHARE: f64 = 0.5;
/// Layout of images for a flasher: tags stand at the first spare byte.
const FOR_FLASHER: &str = "bare";

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "yaffs2",
    evidence: Evidence::PageTags,
    signature: None,
    forms: |kind| {
        let large = ["linux-large-no-ecc", "linux-large"];
        let plain = [large[0], large[0]];
        let bare = [FOR_FLASHER, FOR_FLASHER];
        let rows = [
            (true, large, TagsForm::SpareWithEcc),
            (true, large, TagsForm::Spare),
            (true, bare, TagsForm::SpareWithEcc),
            (true, bare, TagsForm::Spare),
            (true, large, TagsForm::Inband),
            (false, plain, TagsForm::Inband),
        ];
        let form = |(has_oob, layouts, tags)| {
            let dump = Dump::new(kind.name, has_oob, layouts, Rc::new(YaffsForm { tags }))?;
            let is_rare = tags == TagsForm::Inband;
            Some(Dump { is_rare, settling_share: Some(SETTLING_SHARE), ..dump })
        };
        rows.into_iter().filter_map(form).collect()
    },
    make: |kind, from, to, options| {
        make_chip(kind, directory_of(from)?, to, options, BlockOrder::InPlace)
    },
};

/// How YAFFS2 lies on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YaffsForm {
    /// Where the tags of a page stand.
    pub tags: TagsForm,
}

impl DumpForm for YaffsForm {
    fn share(&self, image: &[u8], form: &Form, _: u32) -> f64 {
        detect::tags_share(image, form, self.tags)
    }

    fn block_bytes(&self) -> Option<u32> {
        None
    }

    fn prepare(&self, bytes: &mut [u8], form: &Form, _: u32) -> Prepared {
        // Tags stand at the first spare byte, where chips keep the bad mark, as mkyaffs2image writes them; a
        // flasher puts them into the free bytes.
        let is_for_flasher = form.layout.name == FOR_FLASHER && form.has_oob;
        let layout = if is_for_flasher { place_tags(bytes, form) } else { form.layout };
        Prepared { layout, blocks_wanted: 0, on_chip: Rc::new(*self) }
    }
}

/// Does what a flasher does: tags go to the free bytes. The layout of the result.
fn place_tags(bytes: &mut [u8], form: &Form) -> &'static OobLayout {
    let layout = find_layout("linux-large-no-ecc").expect("in the table");
    assert!(layout.free_bytes() >= TAGS_ECC_BYTES, "the tags have room");
    for page in bytes.chunks_exact_mut(form.stride()) {
        let spare = &mut page[form.layout.page_bytes as usize..];
        let mut tags = [0; TAGS_ECC_BYTES];
        tags.copy_from_slice(&spare[..TAGS_ECC_BYTES]);
        spare.fill(0xff);
        layout.scatter(&tags, 0, spare);
    }
    layout
}

impl ChipForm for YaffsForm {
    fn ask(&self, request: &mut MountRequest) {
        match self.tags {
            TagsForm::SpareWithEcc => {}
            TagsForm::Spare => request.options.push("tags-ecc-off".into()),
            TagsForm::Inband => request.options.push("inband-tags".into()),
        }
    }

    fn mount<'a>(
        &'a self,
        machine: &'a Machine,
        kind: &'static Kind,
        request: &'a MountRequest,
    ) -> Call<'a, Result<Mounted, MountError>> {
        Box::pin(machine.mount(kind, request))
    }

    fn check_medium(&self, medium: &Medium<'_>, report: &mut Report) -> Value {
        let counts = check::check_chunks(medium, self.tags, report);
        json!({
            "objects": counts.objects,
            "headers": counts.headers,
            "data_chunks": counts.data_chunks,
            "summaries": counts.summaries,
            "checkpoint_blocks": counts.checkpoint_blocks,
            "corrected_tags": counts.corrected_tags,
        })
    }

    fn check_tree(
        &self,
        image: &ChipImage,
        limits: ReadLimits,
        report: &mut Report,
    ) -> Result<(), ImageError> {
        tree::check_tree(self.tags, image, limits, report)
    }

    fn list(&self, image: &ChipImage, limits: ReadLimits) -> Result<Listing, ImageError> {
        list_mounted(image, image.request.clone(), limits)
    }

    fn extract(
        &self,
        image: &ChipImage,
        _: &Path,
        root: OwnedFd,
        options: ExtractOptions,
    ) -> Result<Extracted, ImageError> {
        extract_mounted(image, root, options)
    }

    fn add_form(&self, form: &mut Value) {
        form["tags"] = json!(match self.tags {
            TagsForm::SpareWithEcc => "spare area, with ECC",
            TagsForm::Spare => "spare area, without ECC",
            TagsForm::Inband => "in the page",
        });
    }

    fn add_medium(
        &self,
        image: &ChipImage,
        report: &Report,
        counts: Value,
        answer: &mut Value,
    ) -> Result<(), ImageError> {
        add_blocks(image, image.layout.oob_bytes, report, answer);
        answer["medium"] = counts;
        answer["space"] = image.run(move |_, mounted| async move {
            let mut shown = free_json(mounted.file_system.space());
            let Yaffs2Mount(fs) = mounted.file_system.get().expect("the row of YAFFS2 mounts it");
            let is_used = fs.statistics().await.is_from_checkpoint;
            let checkpoint = tree::checkpoint_of(is_used, &fs.findings().await);
            shown["checkpoint"] = json!(checkpoint.in_words());
            shown
        })?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
