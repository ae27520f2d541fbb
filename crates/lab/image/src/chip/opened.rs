//! An image of a chip as the contract of open images has it.

use crate::chip::image::ChipImage;
use crate::contract::OpenImage;
use crate::error::ImageError;
use crate::extract::{Extracted, appear};
use crate::listing::{FILE_BYTES_MAX, Listing};
use crate::options::ExtractOptions;
use crate::report::Report;
use serde_json::Value;
use std::any::Any;
use std::path::Path;
use vfs::ReadLimits;

impl OpenImage for ChipImage {
    fn file_system(&self) -> &'static str {
        self.kind.name
    }

    fn has_ecc(&self) -> bool {
        true
    }

    fn file_bytes_max(&self) -> u64 {
        FILE_BYTES_MAX
    }

    fn list(&self, limits: ReadLimits) -> Result<Listing, ImageError> {
        self.on_chip.list(self, limits)
    }

    fn extract(&self, to: &Path, options: ExtractOptions) -> Result<Extracted, ImageError> {
        appear(to, |folder, root| self.on_chip.extract(self, folder, root, options))
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
