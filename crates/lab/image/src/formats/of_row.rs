//! Formats that rows of the table of file systems bring themselves: dumps of chips, known by what the row
//! looks for. Listing, extracting and making need nothing of the row but its mount.

use crate::chip::{
    BlockOrder, ChipForm, ChipImage, Dump, DumpForm, Form, Prepared, add_blocks, check_mounted,
    extract_mounted, list_mounted, make_chip, pages, space_json,
};
use crate::contract::{Evidence, Format, directory_of};
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::medium::Medium;
use crate::options::ExtractOptions;
use crate::report::Report;
use mount::{
    Call, ImageForm, ImageMedium, ImageSupport, Kind, Machine, MountError, MountRequest, Mounted,
    Severity,
};
use serde_json::{Value, json};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use vfs::ReadLimits;

/// The format of a row; none if it brings no support of its own.
pub(crate) fn format(kind: &Kind) -> Option<Format> {
    kind.own_images.map(|_| Format {
        name: kind.name,
        evidence: Evidence::OfRow,
        signature: None,
        forms,
        make: |kind, from, to, options| {
            make_chip(kind, directory_of(from)?, to, options, BlockOrder::InPlace)
        },
    })
}

fn forms(kind: &'static Kind) -> Vec<Dump> {
    let Some(support) = kind.own_images else { return Vec::new() };
    let dump = |form: &ImageForm| {
        let layouts = [form.layout, form.layout_with_ecc];
        Dump::new(kind.name, form.has_oob, layouts, Rc::new(RowForm { support }))
    };
    support.forms().iter().filter_map(dump).collect()
}

/// How the file system of a row lies on a chip, as the row says it.
#[derive(Clone, Copy, Debug)]
struct RowForm {
    support: &'static dyn ImageSupport,
}

impl DumpForm for RowForm {
    fn share(&self, image: &[u8], form: &Form, block_bytes: u32) -> f64 {
        self.support.share(&mut pages(image, form), form.pages_per_block(block_bytes))
    }

    fn block_bytes(&self) -> Option<u32> {
        None
    }

    fn prepare(&self, _: &mut [u8], form: &Form, _: u32) -> Prepared {
        // The bytes stay as they are: only the formats of this crate have flashers that change them.
        Prepared { layout: form.layout, blocks_wanted: 0, on_chip: Rc::new(*self) }
    }
}

impl ChipForm for RowForm {
    fn ask(&self, _: &mut MountRequest) {}

    fn mount<'a>(
        &'a self,
        machine: &'a Machine,
        kind: &'static Kind,
        request: &'a MountRequest,
    ) -> Call<'a, Result<Mounted, MountError>> {
        Box::pin(machine.mount(kind, request))
    }

    fn check_medium(&self, medium: &Medium<'_>, report: &mut Report) -> Value {
        let (chip, layout, blocks) = (medium.chip, medium.layout(), medium.blocks);
        let (findings, counts) = self.support.check_medium(&ImageMedium { chip, layout, blocks });
        for finding in findings {
            let is_harmless = finding.severity == Severity::Note;
            report.add(is_harmless, finding.place.to_string(), finding.text);
        }
        let named = counts.iter().map(|counter| (counter.name.to_owned(), json!(counter.value)));
        Value::Object(named.collect())
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

    fn add_form(&self, _: &mut Value) {}

    fn add_medium(
        &self,
        image: &ChipImage,
        report: &Report,
        counts: Value,
        answer: &mut Value,
    ) -> Result<(), ImageError> {
        add_blocks(image, image.layout.oob_bytes, report, answer);
        answer["medium"] = counts;
        answer["space"] = space_json(image)?;
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
