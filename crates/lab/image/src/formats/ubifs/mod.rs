//! Images of UBIFS: on volumes of UBI, or alone.

mod bare;
mod check;
mod check_ubi;
mod detect;
mod info;
mod list;
mod make;
mod volumes;

pub use bare::BareForm;
pub use detect::UbiForm;

use crate::candidate::{Candidate, Known};
use crate::chip::{
    ChipForm, ChipImage, Dump, DumpForm, Form, Prepared, add_blocks, extract_mounted, list_mounted,
    load,
};
use crate::contract::{Evidence, Format, OpenImage, Recognised, Signature};
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::medium::Medium;
use crate::options::ExtractOptions;
use crate::report::Report;
use detect::NAME;
use mount::{Call, Kind, Machine, MountError, MountRequest, Mounted};
use serde_json::{Value, json};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use vfs::ReadLimits;
use volumes::Holding;

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: NAME,
    evidence: Evidence::BlockHeaders,
    signature: Some(Signature { recognise, refuse_absent, is_certain_in }),
    forms: |_| Vec::new(),
    make: |_, from, to, options| make::make_ubi(from, to, options),
};

fn recognise(candidate: &Candidate<'_>) -> Result<Option<Recognised>, ImageError> {
    let (known, bytes) = (candidate.known()?, candidate.bytes()?);
    if let Some((form, ubi)) = detect::detect_ubi(bytes, &known) {
        // The first header of a block is in its place even where spare areas stand apart; the table is not.
        let is_doubtful = !detect::has_volume_table(bytes, &form, ubi);
        return Ok(Some(Recognised {
            is_doubtful,
            open: Box::new(move |candidate| open_dump(candidate, form, ubi)),
        }));
    }
    let Some((form, superblock)) = detect::detect_bare(bytes, &known) else { return Ok(None) };
    let open = Box::new(move |candidate: Candidate<'_>| {
        let image = bare::open(candidate, form, &superblock)?;
        Ok(Box::new(image) as Box<dyn OpenImage>)
    });
    Ok(Some(Recognised { is_doubtful: false, open }))
}

fn open_dump(
    candidate: Candidate<'_>,
    form: Form,
    ubi: UbiForm,
) -> Result<Box<dyn OpenImage>, ImageError> {
    let (path, options) = (candidate.path, candidate.options);
    let dump = Dump {
        form,
        layout_with_ecc: form.layout,
        is_rare: false,
        settling_share: None,
        on_chip: Rc::new(ubi),
    };
    Ok(Box::new(load(path, candidate.into_bytes()?, &dump, options)?))
}

fn refuse_absent(candidate: &Candidate<'_>) -> Result<(), ImageError> {
    let path = candidate.path;
    let known = candidate.known()?;
    if let Some(option) = candidate.options.of_ubi() {
        let reason = format!("no erase block of {} begins with UBI's header", path.display());
        return Err(ImageError::Option { option, reason });
    }
    if known.file_system == Some(NAME) {
        let reason = "no erase block begins with UBI's header, nor is the beginning a superblock \
                      of UBIFS; say --block-size if erase blocks have an uncommon size";
        return Err(ImageError::content(path, reason));
    }
    Ok(())
}

/// The headers alone are in their places in some rearranged dumps, too.
fn is_certain_in(image: &[u8], known: &Known) -> bool {
    let found = detect::detect_ubi(image, known);
    found.is_some_and(|(form, ubi)| detect::has_volume_table(image, &form, ubi))
}

impl DumpForm for UbiForm {
    fn share(&self, image: &[u8], form: &Form, _: u32) -> f64 {
        detect::share_of_headers(image, form, *self)
    }

    fn block_bytes(&self) -> Option<u32> {
        Some(self.block_bytes)
    }

    fn prepare(&self, bytes: &mut [u8], form: &Form, _: u32) -> Prepared {
        detect::grow_auto_resized(bytes, form, *self);
        let blocks_wanted = detect::blocks_wanted(bytes, form, *self);
        Prepared { layout: form.layout, blocks_wanted, on_chip: Rc::new(*self) }
    }
}

impl ChipForm for UbiForm {
    fn ask(&self, request: &mut MountRequest) {
        request.ubi.header_offset = Some(self.header_offset);
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
        info::ubi_json(*self, &check_ubi::check_ubi(medium, *self, report))
    }

    fn check_tree(
        &self,
        image: &ChipImage,
        limits: ReadLimits,
        report: &mut Report,
    ) -> Result<(), ImageError> {
        check::check_volumes(image, limits, report);
        Ok(())
    }

    fn list(&self, image: &ChipImage, limits: ReadLimits) -> Result<Listing, ImageError> {
        let volumes = volumes::volumes(image)?;
        match &volumes[..] {
            // A static volume is a file and no tree.
            [(volume, Holding::Raw)] => list::list_raw(image, volume, limits.has_hashes),
            [_, _, ..] => list::list_volumes(image, &volumes, &limits),
            _ => list_mounted(image, image.request.clone(), limits),
        }
    }

    fn extract(
        &self,
        image: &ChipImage,
        folder: &Path,
        root: OwnedFd,
        options: ExtractOptions,
    ) -> Result<Extracted, ImageError> {
        match volumes::raw_volume(image)? {
            Some(volume) => list::extract_raw(image, &volume, folder),
            None => extract_mounted(image, root, options),
        }
    }

    fn add_form(&self, form: &mut Value) {
        form["on_ubi"] = json!(true);
    }

    fn add_medium(
        &self,
        image: &ChipImage,
        report: &Report,
        counts: Value,
        answer: &mut Value,
    ) -> Result<(), ImageError> {
        // The spare areas of a plain image are those of a chip that would hold it.
        let oob_bytes = if image.form.has_oob { image.layout.oob_bytes } else { 0 };
        add_blocks(image, oob_bytes, report, answer);
        answer["ubi"] = counts;
        answer["volumes"] = match info::volumes_json(image) {
            Ok(volumes) => volumes.into(),
            // An image that does not attach still has numbers.
            Err(error) => json!([{"not_attached": error.to_string()}]),
        };
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
