//! UBIFS without UBI: the eraseblocks of a volume in a row, as mkfs.ubifs writes them.

use super::check::check_mounted;
use super::info::ubifs_json;
use crate::candidate::Candidate;
use crate::chip::{ChipForm, ChipImage, Form, extract_mounted, list_mounted, load_without_chip};
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::medium::Medium;
use crate::options::ExtractOptions;
use crate::report::Report;
use file_systems::mount_volume;
use mount::{Call, Kind, Machine, MountError, MountRequest, Mounted};
use serde_json::{Value, json};
use sim::Sim;
use std::any::Any;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use ubifs::{MemoryVolume, NewFileSystem, SuperblockInfo, VolumeShape};
use vfs::ReadLimits;

/// Blank eraseblocks behind the end of a bare image, at most.
const MISSING_LEBS_MAX: u32 = 1 << 16;

/// Eraseblocks of UBIFS in a row, as mkfs.ubifs writes them.
#[derive(Clone)]
pub struct BareForm {
    shape: VolumeShape,
    bytes: Rc<Vec<u8>>,
}

impl BareForm {
    fn new(bytes: Vec<u8>, superblock: &SuperblockInfo) -> Self {
        let leb_bytes = superblock.leb_bytes;
        let stored_lebs = bytes.len().div_ceil(leb_bytes as usize) as u32;
        // The volume is as large as the file system may grow to: what mkfs.ubifs writes has no room
        // for a collector.
        let leb_count = superblock.max_leb_count.max(superblock.leb_count);
        let leb_count = leb_count.clamp(stored_lebs, stored_lebs.saturating_add(MISSING_LEBS_MAX));
        let shape = VolumeShape {
            leb_bytes,
            leb_count,
            min_io_bytes: superblock.min_io_bytes,
            max_write_bytes: superblock.min_io_bytes,
        };
        Self { shape, bytes: Rc::new(bytes) }
    }

    fn open(&self, sim: &Sim) -> Rc<MemoryVolume> {
        let lebs = self.bytes.chunks(self.shape.leb_bytes as usize);
        // Blank eraseblocks are not mapped.
        let contents = lebs.map(|leb| leb.iter().any(|byte| *byte != 0xff).then(|| leb.to_vec()));
        Rc::new(MemoryVolume::with_contents(sim, self.shape, contents.collect()))
    }
}

impl std::fmt::Debug for BareForm {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its bytes would fill the screen.
        to.debug_struct("BareForm").field("shape", &self.shape).finish_non_exhaustive()
    }
}

/// Opens a file that begins with this superblock.
///
/// # Errors
/// [`ImageError::Option`] if a volume is asked for; [`ImageError::Mount`] of an unknown profile.
pub(super) fn open(
    candidate: Candidate<'_>,
    form: Form,
    superblock: &SuperblockInfo,
) -> Result<ChipImage, ImageError> {
    let (path, options) = (candidate.path, candidate.options);
    let bytes = candidate.into_bytes()?;
    let file_bytes = bytes.len() as u64;
    let mut notes = Vec::new();
    let rest = bytes.len() % superblock.leb_bytes as usize;
    if rest > 0 {
        let leb = bytes.len() / superblock.leb_bytes as usize;
        notes.push(format!("the image ends {rest} bytes into LEB {leb}: it was cut short"));
    }
    if let Some(name) = &options.volume {
        let reason = format!("a file system without UBI has no volume `{name}`: leave it out");
        return Err(ImageError::Option { option: "--volume", reason });
    }
    let on_chip = Rc::new(BareForm::new(bytes, superblock));
    let image = load_without_chip(path, form, options, on_chip)?;
    Ok(ChipImage { file_bytes, notes, ..image })
}

impl ChipForm for BareForm {
    fn ask(&self, _: &mut MountRequest) {}

    fn mount<'a>(
        &'a self,
        machine: &'a Machine,
        _: &'static Kind,
        request: &'a MountRequest,
    ) -> Call<'a, Result<Mounted, MountError>> {
        // The chip is not read: the volume lies in memory.
        let volume = self.open(&machine.sim);
        Box::pin(mount_volume(machine, volume, request, NewFileSystem::default()))
    }

    fn check_medium(&self, _: &Medium<'_>, _: &mut Report) -> Value {
        // Nodes are looked at where the file system is mounted; there are no marks and no ECC.
        Value::Null
    }

    fn check_tree(
        &self,
        image: &ChipImage,
        limits: ReadLimits,
        report: &mut Report,
    ) -> Result<(), ImageError> {
        check_mounted(image, None, limits, report);
        Ok(())
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
        form["on_ubi"] = json!(false);
    }

    fn add_medium(
        &self,
        image: &ChipImage,
        _: &Report,
        _: Value,
        answer: &mut Value,
    ) -> Result<(), ImageError> {
        answer["ubifs"] = ubifs_json(image, None);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
