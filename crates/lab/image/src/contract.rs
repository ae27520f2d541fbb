//! The contract of a format of images: a row says how it is recognised and made, an open image how it is
//! listed, extracted, checked and described.

use crate::candidate::{Candidate, Known};
use crate::chip::Dump;
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::options::{ExtractOptions, MakeOptions};
use crate::report::Report;
use mount::Kind;
use serde_json::Value;
use std::any::Any;
use std::path::Path;
use vfs::ReadLimits;

/// A format of images: a row of the table `FORMATS`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// Name of the file system, which has a row in the table of file systems.
    pub(crate) name: &'static str,
    /// What its images are known by. Better evidence is looked for first.
    pub(crate) evidence: Evidence,
    /// What no other format has; none for a format that only a share of the image speaks for.
    pub(crate) signature: Option<Signature>,
    /// Forms that are tried on a dump without a signature, the likeliest first.
    pub(crate) forms: fn(&'static Kind) -> Vec<Dump>,
    /// Makes an image of a directory, if one is given; the file appears when it is complete.
    pub(crate) make: MakeImage,
}

/// Makes an image: of the tree that the first path names, in the file that the second one names.
pub(crate) type MakeImage =
    fn(&'static Kind, Option<&Path>, &Path, &MakeOptions) -> Result<Made, ImageError>;

/// What images of a format are known by, the best evidence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// A superblock with a checksum, which nothing else can be taken for.
    Superblock,
    /// A header with a checksum at the beginning of each erase block.
    BlockHeaders,
    /// Tags of each page. Files may hold nodes of another format, but no tags.
    PageTags,
    /// Nodes with checksums within the blocks.
    Nodes,
    /// What a row of the table of file systems looks for itself.
    OfRow,
}

/// How a format is found that has headers or superblocks of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signature {
    /// Looks for the format in a file; none if it is not there.
    ///
    /// # Errors
    /// [`ImageError`] of reading, and if the user named the format and it cannot be opened.
    pub(crate) recognise: fn(&Candidate<'_>) -> Result<Option<Recognised>, ImageError>,
    /// Called with a file that is not of the format: refuses options that the format alone has.
    ///
    /// # Errors
    /// [`ImageError::Option`]; [`ImageError::Content`] if the user named the format.
    pub(crate) refuse_absent: fn(&Candidate<'_>) -> Result<(), ImageError>,
    /// The format is certain to be in a part of a dump.
    pub(crate) is_certain_in: fn(&[u8], &Known) -> bool,
}

/// A format that was recognised in a file.
pub(crate) struct Recognised {
    /// Something of it is not where it should be: a rearranged dump explains it better, if there is such an
    /// explanation.
    pub(crate) is_doubtful: bool,
    /// Opens the file as an image of the format.
    pub(crate) open: Opener,
}

/// Opens a file as an image of one format.
pub(crate) type Opener = Box<dyn FnOnce(Candidate<'_>) -> Result<Box<dyn OpenImage>, ImageError>>;

/// An image of any format, opened.
pub trait OpenImage {
    /// Name of the file system.
    fn file_system(&self) -> &'static str;

    /// Pages have a code that corrects bits.
    fn has_ecc(&self) -> bool;

    /// Bytes of the longest file that is read: a longer one has a damaged size.
    fn file_bytes_max(&self) -> u64;

    /// Lists everything.
    ///
    /// # Errors
    /// [`ImageError`] if it does not mount.
    fn list(&self, limits: ReadLimits) -> Result<Listing, ImageError>;

    /// Extracts the tree into a directory, which must not exist; it appears when it is complete. What of the
    /// image cannot be read is left out and reported.
    ///
    /// # Errors
    /// [`ImageError::Io`] if the directory exists or cannot be made; others if the image does not mount.
    fn extract(&self, to: &Path, options: ExtractOptions) -> Result<Extracted, ImageError>;

    /// Checks everything, but reads no file longer than `file_bytes_max`.
    ///
    /// # Errors
    /// [`ImageError`] if there is nothing to check.
    fn check(&self, file_bytes_max: u64) -> Result<Report, ImageError>;

    /// What the image is: an object of objects.
    ///
    /// # Errors
    /// [`ImageError`] if it does not mount.
    fn info(&self) -> Result<Value, ImageError>;

    /// The image itself, for tools that know one medium better than this contract.
    fn as_any(&self) -> &dyn Any;
}

/// How large an image turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Names in the image.
    pub names: u64,
    /// Pages; of a block device blocks of 4 KiB.
    pub pages: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// The directory that an image is made of.
///
/// # Errors
/// [`ImageError::Option`] if none is given.
pub(crate) fn directory_of(from: Option<&Path>) -> Result<&Path, ImageError> {
    from.ok_or_else(|| ImageError::Option {
        option: "--from",
        reason: "a file system is made of a directory: name one".into(),
    })
}
