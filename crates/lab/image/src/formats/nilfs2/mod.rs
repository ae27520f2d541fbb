//! Images of block devices with NILFS2 on them.

mod check;
mod device;
mod info;
mod make;
mod medium;

pub use device::DeviceImage;

use crate::candidate::Candidate;
use crate::contract::{Evidence, Format, OpenImage, Recognised, Signature, directory_of};
use crate::error::ImageError;
use crate::extract::{Extracted, Extraction, appear};
use crate::listing::Listing;
use crate::options::ExtractOptions;
use crate::report::Report;
use medium::DeviceMedium;
use serde_json::Value;
use std::any::Any;
use std::path::Path;
use std::rc::Rc;
use vfs::{Manifest, ReadLimits};

/// The row of the table.
pub(crate) const FORMAT: Format = Format {
    name: DeviceImage::FILE_SYSTEM,
    evidence: Evidence::Superblock,
    // It lies on a device, never in the dump of a chip.
    signature: Some(Signature { recognise, refuse_absent, is_certain_in: |_, _| false }),
    forms: |_| Vec::new(),
    make: |_, from, to, options| make::make_nilfs2(directory_of(from)?, to, options),
};

// The contract lets a format refuse an image; a superblock that is absent is no reason to.
#[allow(clippy::unnecessary_wraps)]
fn recognise(candidate: &Candidate<'_>) -> Result<Option<Recognised>, ImageError> {
    // Not read whole yet: chips are known by their bytes, devices by their superblocks.
    let medium = DeviceMedium::new(candidate.content.clone());
    let is_asked = candidate.options.file_system.as_deref() == Some(DeviceImage::FILE_SYSTEM);
    if !is_asked && !medium.has_superblock() {
        return Ok(None);
    }
    let open = Box::new(move |candidate: Candidate<'_>| {
        let image = DeviceImage::new(candidate.path, medium, candidate.options)?;
        Ok(Box::new(image) as Box<dyn OpenImage>)
    });
    Ok(Some(Recognised { is_doubtful: false, open }))
}

fn refuse_absent(candidate: &Candidate<'_>) -> Result<(), ImageError> {
    if candidate.options.checkpoint.is_none() {
        return Ok(());
    }
    let reason = format!(
        "{} holds no NILFS2, which alone has checkpoints to choose: leave it out",
        candidate.path.display()
    );
    Err(ImageError::Option { option: "--checkpoint", reason })
}

impl OpenImage for DeviceImage {
    fn file_system(&self) -> &'static str {
        Self::FILE_SYSTEM
    }

    fn has_ecc(&self) -> bool {
        // A device corrects bits itself, and shows none of that.
        false
    }

    fn file_bytes_max(&self) -> u64 {
        self.longest_file_bytes()
    }

    fn list(&self, limits: ReadLimits) -> Result<Listing, ImageError> {
        self.run(move |fs| async move {
            let (manifest, damage) = Manifest::of_damaged(&fs, &limits).await;
            Listing { manifest, damage, notes: Vec::new() }
        })
    }

    fn extract(&self, to: &Path, options: ExtractOptions) -> Result<Extracted, ImageError> {
        let file_bytes_max = self.longest_file_bytes();
        appear(to, |_, root| {
            self.run(move |fs| Extraction::new(Rc::new(fs), options, file_bytes_max).run(root))
        })
    }

    fn check(&self, file_bytes_max: u64) -> Result<Report, ImageError> {
        self.check_within(file_bytes_max)
    }

    fn info(&self) -> Result<Value, ImageError> {
        self.describe()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
