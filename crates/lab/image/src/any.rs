//! An image of either sort: the dump of a chip, or the blocks of a block device.

use crate::device::DeviceImage;
use crate::device_medium::DeviceMedium;
use crate::extract::{ExtractOptions, Extracted};
use crate::{Image, ImageError, Listing, OpenOptions, Report};
use file_systems::{KINDS, find_kind};
use mount::{Images, MountError};
use serde_json::Value;
use std::path::Path;

/// An image that was found out and opened.
pub enum AnyImage {
    /// Of a chip: raw NAND, with or without its spare areas.
    Chip(Box<Image>),
    /// Of a block device.
    Device(DeviceImage),
}

impl AnyImage {
    /// Finds out what a file is an image of, and opens it. Superblocks with sound checksums are looked for
    /// first, for nothing else can be taken for them.
    ///
    /// # Errors
    /// [`ImageError`]: the file cannot be read, an option is wrong, or nothing known is in it.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Self, ImageError> {
        let asked = options.file_system.as_deref();
        if let Some(name) = asked {
            check_name(name)?;
        }
        if asked.is_none_or(|name| name == DeviceImage::FILE_SYSTEM) {
            // Not read whole yet: chips are known by their bytes, devices by their superblocks.
            let medium = DeviceMedium::open(path)?;
            if asked.is_some() || medium.has_superblock() {
                return DeviceImage::new(path, medium, options).map(Self::Device);
            }
        }
        if options.checkpoint.is_some() {
            let reason = format!(
                "{} holds no NILFS2, which alone has checkpoints to choose: leave it out",
                path.display()
            );
            return Err(ImageError::Option { option: "--checkpoint", reason });
        }
        Image::open(path, options).map(|image| Self::Chip(Box::new(image)))
    }

    /// Name of the file system.
    pub fn file_system(&self) -> &'static str {
        match self {
            Self::Chip(image) => image.kind.name,
            Self::Device(_) => DeviceImage::FILE_SYSTEM,
        }
    }

    /// Lists everything, with the hashes of the files if they are wanted.
    ///
    /// # Errors
    /// [`ImageError`] if it does not mount.
    pub fn list(&self, has_hashes: bool) -> Result<Listing, ImageError> {
        match self {
            Self::Chip(image) => image.list(has_hashes),
            Self::Device(image) => image.list(has_hashes),
        }
    }

    /// Extracts the tree into a directory, which must not exist; it appears when it is complete.
    ///
    /// # Errors
    /// [`ImageError`] if the directory exists or cannot be made, or the image does not mount.
    pub fn extract(&self, to: &Path, options: ExtractOptions) -> Result<Extracted, ImageError> {
        match self {
            Self::Chip(image) => image.extract(to, options),
            Self::Device(image) => image.extract(to, options),
        }
    }

    /// Checks everything.
    ///
    /// # Errors
    /// [`ImageError`] if there is nothing to check.
    pub fn check(&self) -> Result<Report, ImageError> {
        match self {
            Self::Chip(image) => image.check(),
            Self::Device(image) => image.check(),
        }
    }

    /// What the image is: an object of objects.
    ///
    /// # Errors
    /// [`ImageError`] if it does not mount.
    pub fn info(&self) -> Result<Value, ImageError> {
        match self {
            Self::Chip(image) => image.info(),
            Self::Device(image) => image.info(),
        }
    }
}

/// Refuses a name that no file system has, and file systems without images here.
pub(crate) fn check_name(name: &str) -> Result<(), ImageError> {
    let unknown =
        |error: MountError| ImageError::Option { option: "--fs", reason: error.to_string() };
    let kind = find_kind(name).map_err(unknown)?;
    if let Images::None(why) = kind.images {
        let known =
            KINDS.iter().filter(|kind| kind.is_shown && !matches!(kind.images, Images::None(_)));
        let known: Vec<&str> = known.map(|kind| kind.name).collect();
        let (last, others) = known.split_last().expect("some have tools");
        let reason = format!("{why}; known here are {} and {last}", others.join(", "));
        return Err(ImageError::Option { option: "--fs", reason });
    }
    Ok(())
}
