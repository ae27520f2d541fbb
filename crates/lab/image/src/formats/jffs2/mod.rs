//! Images of JFFS2: dumps of chips, and what mkfs.jffs2 writes.

mod check;
mod check_tree;
mod detect;
mod log;

use crate::chip::{
    BlockOrder, ChipForm, ChipImage, Dump, DumpForm, Form, Prepared, add_blocks, check_mounted,
    extract_mounted, list_mounted, make_chip,
};
use crate::contract::{Evidence, Format, directory_of};
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::medium::Medium;
use crate::options::ExtractOptions;
use crate::report::Report;
use file_systems::Jffs2Mount;
use mount::{Call, Kind, Machine, MountError, MountRequest, Mounted};
use serde_json::{Value, json};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use vfs::ReadLimits;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: "jffs2",
    evidence: Evidence::Nodes,
    signature: None,
    forms: |kind| {
        let rows = [
            (true, ["linux-large-no-ecc", "linux-large"]),
            (true, ["linux-small-no-ecc", "linux-small"]),
            (false, ["linux-large-no-ecc", "linux-large-no-ecc"]),
            (false, ["linux-small-no-ecc", "linux-small-no-ecc"]),
        ];
        let form = |(has_oob, layouts)| {
            let on_chip = Rc::new(Jffs2Form { has_markers_in_band: false });
            Dump::new(kind.name, has_oob, layouts, on_chip)
        };
        rows.into_iter().filter_map(form).collect()
    },
    make: |kind, from, to, options| {
        // JFFS2 takes the blocks of a blank chip from the last to the first, as the kernel's does. No node
        // says in which block it stands, so that the image has them in the order in which they were written.
        make_chip(kind, directory_of(from)?, to, options, BlockOrder::Written)
    },
};

/// How JFFS2 lies on a chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jffs2Form {
    /// Blocks begin with the node that says that they were erased (NOR style).
    pub has_markers_in_band: bool,
}

impl DumpForm for Jffs2Form {
    fn share(&self, image: &[u8], form: &Form, block_bytes: u32) -> f64 {
        detect::explained_share(image, form, block_bytes)
    }

    fn block_bytes(&self) -> Option<u32> {
        None
    }

    fn prepare(&self, bytes: &mut [u8], form: &Form, block_bytes: u32) -> Prepared {
        let has_markers_in_band = detect::has_markers_in_band(bytes, form, block_bytes);
        let on_chip = Rc::new(Self { has_markers_in_band });
        Prepared { layout: form.layout, blocks_wanted: 0, on_chip }
    }
}

impl ChipForm for Jffs2Form {
    fn ask(&self, request: &mut MountRequest) {
        if self.has_markers_in_band {
            request.options.push("clean-markers=in-band".into());
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
        let counts = check::check_nodes(medium, report);
        json!({
            "inode_nodes": counts.inode_nodes,
            "dirent_nodes": counts.dirent_nodes,
            "xattr_nodes": counts.xattr_nodes,
            "summaries": counts.summaries,
            "clean_markers": counts.clean_markers,
        })
    }

    fn check_tree(
        &self,
        image: &ChipImage,
        limits: ReadLimits,
        report: &mut Report,
    ) -> Result<(), ImageError> {
        check_mounted(image, limits, report)
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
        let place = if self.has_markers_in_band { "in the block" } else { "spare area" };
        form["clean_markers"] = json!(place);
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
            let mount = mounted.file_system.get::<Jffs2Mount>();
            let space = mount.expect("the row of JFFS2 mounts it").file_system.space_by_use();
            // Blocks behind the end of the image are not part of it.
            json!({
                "used_bytes": space.used_bytes + space.unchecked_bytes,
                "obsolete_bytes": space.dirty_bytes + space.wasted_bytes,
            })
        })?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
