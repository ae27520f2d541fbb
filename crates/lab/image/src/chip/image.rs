//! An image of raw NAND, loaded, and the contract of how a format lies on a chip.

use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::medium::Medium;
use crate::options::ExtractOptions;
use crate::report::Report;
use mount::{Call, Driver, Kind, Machine, MountError, MountRequest, Mounted};
use mtd::OobLayout;
use nand::Chip;
use serde_json::Value;
use std::any::Any;
use std::fmt::Debug;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use vfs::ReadLimits;

/// How an image of raw NAND is stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Form {
    /// Name of the file system.
    pub file_system: &'static str,
    /// Spare areas are in the image.
    pub has_oob: bool,
    /// Layout of pages and spare areas.
    pub layout: &'static OobLayout,
    /// Share of what is written in the image that the form explains, from 0 to 1.
    pub share: f64,
}

impl Form {
    /// Bytes of a page in the image.
    pub fn stride(&self) -> usize {
        let oob_bytes = if self.has_oob { self.layout.oob_bytes } else { 0 };
        (self.layout.page_bytes + oob_bytes) as usize
    }

    /// Pages of a block of so many bytes of data, at least one.
    pub(crate) fn pages_per_block(&self, block_bytes: u32) -> usize {
        (block_bytes / self.layout.page_bytes).max(1) as usize
    }
}

/// How a format lies on a chip, as an image shows it: what tools ask of it beside a mount.
pub(crate) trait ChipForm: Debug {
    /// Adds to the request of a mount what the form needs.
    fn ask(&self, request: &mut MountRequest);

    /// Mounts the image.
    ///
    /// # Errors
    /// Those of [`Machine::mount`].
    fn mount<'a>(
        &'a self,
        machine: &'a Machine,
        kind: &'static Kind,
        request: &'a MountRequest,
    ) -> Call<'a, Result<Mounted, MountError>>;

    /// Checks the medium without a mount, and counts what is on it: an object of numbers.
    fn check_medium(&self, medium: &Medium<'_>, report: &mut Report) -> Value;

    /// Checks what a mount shows.
    ///
    /// # Errors
    /// [`ImageError::Mount`] if the image does not mount at all.
    fn check_tree(
        &self,
        image: &ChipImage,
        limits: ReadLimits,
        report: &mut Report,
    ) -> Result<(), ImageError>;

    /// Lists everything.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    fn list(&self, image: &ChipImage, limits: ReadLimits) -> Result<Listing, ImageError>;

    /// Extracts the tree into an empty folder, which has a path and is open as `root`.
    ///
    /// # Errors
    /// [`ImageError::Io`] of the folder; [`ImageError::Mount`].
    fn extract(
        &self,
        image: &ChipImage,
        folder: &Path,
        root: OwnedFd,
        options: ExtractOptions,
    ) -> Result<Extracted, ImageError>;

    /// Adds what the form is to the object that describes it.
    fn add_form(&self, form: &mut Value);

    /// Adds what is on the medium, which was checked and counted.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    fn add_medium(
        &self,
        image: &ChipImage,
        report: &Report,
        counts: Value,
        answer: &mut Value,
    ) -> Result<(), ImageError>;

    /// The form itself, for tools that know one format better than this contract.
    fn as_any(&self) -> &dyn Any;
}

/// An image of raw NAND, loaded.
pub struct ChipImage {
    /// The file that holds the image.
    pub path: PathBuf,
    /// The file system that the image holds.
    pub kind: &'static Kind,
    /// How it is stored.
    pub form: Form,
    /// The chip; it may be larger than the image.
    pub chip: Chip,
    /// Spare area of the chip.
    pub layout: &'static OobLayout,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Blocks of the file, the last one perhaps in part.
    pub blocks: u32,
    /// How it is mounted.
    pub request: MountRequest,
    /// What is odd about the file, a sentence each.
    pub notes: Vec<String>,
    /// Bad marks with a single wrong bit, which were not believed.
    pub corrected_marks: Vec<u32>,
    pub(crate) on_chip: Rc<dyn ChipForm>,
}

impl ChipImage {
    /// The pages, with their ECC judged.
    pub fn medium(&self) -> Medium<'_> {
        Medium::new(&self.chip, self.layout, self.blocks)
    }

    /// How the format lies on the chip, if it is of this type.
    pub fn details<T: 'static>(&self) -> Option<&T> {
        // A tool that asks for the details of another format gets none, and says so itself.
        self.on_chip.as_any().downcast_ref()
    }

    /// Mounts the image, without writing to it, and carries out a job.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        job: impl FnOnce(Machine, Mounted) -> F + 'static,
    ) -> Result<T, ImageError> {
        self.run_as(self.request.clone(), job)
    }

    /// [`ChipImage::run`] with another request.
    ///
    /// # Errors
    /// [`ImageError::Mount`].
    pub fn run_as<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        request: MountRequest,
        job: impl FnOnce(Machine, Mounted) -> F + 'static,
    ) -> Result<T, ImageError> {
        let (kind, on_chip) = (self.kind, self.on_chip.clone());
        self.run_machine(move |machine| async move {
            let mounted = on_chip.mount(&machine, kind, &request).await?;
            Ok(job(machine, mounted).await)
        })
    }

    /// Carries out a job on a machine that has the chip.
    ///
    /// # Errors
    /// [`ImageError::Mount`] with that of the job.
    pub(crate) fn run_machine<T: 'static, F: Future<Output = Result<T, MountError>> + 'static>(
        &self,
        job: impl FnOnce(Machine) -> F + 'static,
    ) -> Result<T, ImageError> {
        // A clone shares its blocks, so each look costs little.
        let outcome = mount::run(self.chip.clone(), &Driver::of_tool(self.layout), 0, job);
        let value = outcome.value.expect("no power cut is asked for");
        value.map_err(|source| ImageError::Mount {
            path: self.path.clone(),
            source: Box::new(source),
        })
    }
}
