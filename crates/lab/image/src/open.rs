//! Files as images: the format is found by the bytes, and the image opened.

use crate::candidate::{Candidate, check_name};
use crate::chip::{Dump, Found, assume, detect, load};
use crate::content::Content;
use crate::contract::{OpenImage, Recognised};
use crate::error::ImageError;
use crate::extract::Extracted;
use crate::listing::Listing;
use crate::options::{ExtractOptions, OpenOptions};
use crate::rearranged::find_rearrangement;
use crate::report::Report;
use crate::table::{NOTHING_FOUND, formats, forms};
use serde_json::Value;
use std::path::Path;
use vfs::ReadLimits;

/// An image of any format, which was found out and opened.
pub struct AnyImage(Box<dyn OpenImage>);

impl AnyImage {
    /// Finds out what a file is an image of, and opens it. The best evidence is looked for first: a superblock
    /// with a sound checksum can be taken for nothing else.
    ///
    /// # Errors
    /// [`ImageError`]: the file cannot be read, an option is wrong, or nothing known is in it.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, ImageError> {
        if let Some(name) = &options.file_system {
            check_name(name)?;
        }
        open(Candidate::new(path, Content::open(path)?, options)).map(Self)
    }

    /// [`AnyImage::open`] with the bytes of the file at hand.
    ///
    /// # Errors
    /// As [`AnyImage::open`]; `path` is what messages name.
    pub fn from_bytes(
        path: &Path,
        bytes: Vec<u8>,
        options: &OpenOptions,
    ) -> Result<Self, ImageError> {
        if let Some(name) = &options.file_system {
            check_name(name)?;
        }
        open(Candidate::new(path, Content::Memory(bytes), options)).map(Self)
    }

    /// The image on its medium, if it is of this type: [`crate::ChipImage`] or [`crate::DeviceImage`].
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }

    /// Name of the file system.
    pub fn file_system(&self) -> &'static str {
        self.0.file_system()
    }

    /// Pages have a code that corrects bits.
    pub fn has_ecc(&self) -> bool {
        self.0.has_ecc()
    }

    /// Lists everything, with the hashes of the files if they are asked for.
    ///
    /// # Errors
    /// [`ImageError`] if it does not mount.
    pub fn list(&self, has_hashes: bool) -> Result<Listing, ImageError> {
        self.list_within(ReadLimits { has_hashes, file_bytes_max: self.0.file_bytes_max() })
    }

    /// [`AnyImage::list`] with other limits.
    ///
    /// # Errors
    /// As [`AnyImage::list`].
    pub fn list_within(&self, limits: ReadLimits) -> Result<Listing, ImageError> {
        self.0.list(limits)
    }

    /// Extracts the tree into a directory, which must not exist; it appears when it is complete.
    ///
    /// # Errors
    /// [`ImageError`] if the directory exists or cannot be made, or the image does not mount.
    pub fn extract(&self, to: &Path, options: ExtractOptions) -> Result<Extracted, ImageError> {
        self.0.extract(to, options)
    }

    /// Checks everything.
    ///
    /// # Errors
    /// [`ImageError`] if there is nothing to check.
    pub fn check(&self) -> Result<Report, ImageError> {
        self.check_within(self.0.file_bytes_max())
    }

    /// [`AnyImage::check`] that reads no file longer than `file_bytes_max`.
    ///
    /// # Errors
    /// As [`AnyImage::check`].
    pub fn check_within(&self, file_bytes_max: u64) -> Result<Report, ImageError> {
        self.0.check(file_bytes_max)
    }

    /// What the image is: an object of objects.
    ///
    /// # Errors
    /// [`ImageError`] if it does not mount.
    pub fn info(&self) -> Result<Value, ImageError> {
        self.0.info()
    }
}

fn open(candidate: Candidate<'_>) -> Result<Box<dyn OpenImage>, ImageError> {
    let asked = candidate.options.file_system.as_deref();
    let formats = formats();
    debug_assert!(formats.is_sorted_by_key(|format| format.evidence), "best evidence first");
    for format in &formats {
        let Some(signature) = format.signature else { continue };
        let found = if asked.is_none_or(|name| name == format.name) {
            (signature.recognise)(&candidate)?
        } else {
            None
        };
        let Some(Recognised { is_doubtful, open }) = found else {
            (signature.refuse_absent)(&candidate)?;
            continue;
        };
        // Half a signature fits a rearranged dump too; the user's word decides it.
        if is_doubtful && asked.is_none() {
            refuse_rearranged(&candidate)?;
        }
        return open(candidate);
    }
    let dump = find_dump(&candidate)?;
    let (path, options) = (candidate.path, candidate.options);
    let image = load(path, candidate.into_bytes()?, &dump, options)?;
    Ok(Box::new(image))
}

fn refuse_rearranged(candidate: &Candidate<'_>) -> Result<(), ImageError> {
    match find_rearrangement(candidate.bytes()?, &candidate.known()?) {
        Some(reason) => Err(ImageError::uncertain(candidate.path, reason)),
        None => Ok(()),
    }
}

/// The form of a dump without a signature.
fn find_dump(candidate: &Candidate<'_>) -> Result<Dump, ImageError> {
    let (path, known) = (candidate.path, candidate.known()?);
    let bytes = candidate.bytes()?;
    let forms = forms();
    let uncertain = match detect(bytes, &known, &forms) {
        Found::Certain(dump) => return Ok(dump),
        Found::Uncertain(dump) => Some(dump),
        Found::Nothing => None,
    };
    if candidate.options.file_system.is_some() {
        // A page of 2048 bytes with its spare area has 2112.
        let has_oob = bytes.len().is_multiple_of(2112) && !bytes.len().is_multiple_of(2048);
        return assume(&known, known.has_oob.unwrap_or(has_oob), &forms).ok_or_else(|| {
            let reason = "the file system, the layout and the page size do not go together";
            ImageError::content(path, reason)
        });
    }
    // Before the weak form is named: a rearranged dump explains some of every form.
    refuse_rearranged(candidate)?;
    if let Some(dump) = uncertain {
        return Err(ImageError::uncertain(path, weak(&dump)));
    }
    let is_blank = bytes.iter().all(|byte| *byte == 0xff);
    let found = if is_blank {
        "all bytes are 0xFF, as on an erased chip; say --fs to see an empty file system"
    } else {
        NOTHING_FOUND
    };
    Err(ImageError::content(path, found))
}

/// What to say of a form that explains too little.
fn weak(dump: &Dump) -> String {
    let form = dump.form;
    let oob = if form.has_oob { "with" } else { "without" };
    format!(
        "not certain: the likeliest form is {} {oob} spare areas, but it explains only {:.1} % of what is \
         written; if it is right, say --fs {} --{}oob",
        form.file_system,
        100.0 * form.share,
        form.file_system,
        if form.has_oob { "" } else { "no-" },
    )
}
