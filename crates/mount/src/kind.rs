//! The table of file systems, and what a mount is asked for.

use crate::any::Call;
use crate::{AnyFileSystem, BlockDeviceChoice, BlockRequest, MTDBLOCK, Machine};
use posix::Errno;
use thiserror::Error;

/// Why nothing was mounted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MountError {
    /// No file system has this name.
    #[error("there is no file system `{name}`: {known} are known")]
    UnknownKind {
        /// Name.
        name: String,
        /// All names.
        known: String,
    },
    /// The file system has no such profile.
    #[error("{kind} has no profile `{name}`: {known} are known")]
    UnknownProfile {
        /// File system.
        kind: &'static str,
        /// Name.
        name: String,
        /// All names.
        known: String,
    },
    /// The kernel's mount would refuse the option.
    #[error("mount option `{option}`: {reason}")]
    Option {
        /// As given.
        option: String,
        /// What would be right.
        reason: String,
    },
    /// The block device cannot be, or the file system has no use for it.
    #[error("block device `{device}`: {reason}")]
    BlockDevice {
        /// Name.
        device: String,
        /// Why, and what would be right.
        reason: String,
    },
    /// The medium holds nothing that can be mounted.
    #[error("{kind}: {reason}")]
    Medium {
        /// File system.
        kind: &'static str,
        /// What was found.
        reason: String,
    },
    /// A call failed while mounting.
    #[error("{kind}: {errno}")]
    Call {
        /// File system.
        kind: &'static str,
        /// Why.
        errno: Errno,
    },
}

/// What a mount is asked for, beside the kind of file system.
#[derive(Clone, Debug)]
pub struct MountRequest {
    /// Name of the profile; none for the first of the kind's list.
    pub profile: Option<String>,
    /// Options in the kernel's words (`compr=none`, `no-checkpoint`, `ro` …).
    pub options: Vec<String>,
    /// Threads of the file system run: collectors, delayed writes.
    pub has_background: bool,
    /// The medium is written at intervals (`dirty_writeback_centisecs` is not as good as never).
    pub has_write_back: bool,
    /// A block device that is blank where its file system would begin is formatted first. A kernel refuses it:
    /// what a power cut left is not to be.
    pub formats_blank: bool,
    /// Seed of what the kernel takes from its clock.
    pub seed: u64,
    /// How the device is attached, for file systems over UBI.
    pub ubi: UbiRequest,
    /// The block layer, for file systems on a block device.
    pub block: BlockRequest,
}

/// What is asked for of UBI; file systems on the device itself pass it over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UbiRequest {
    /// Name of the volume; none for the only one, which is made if the device has none.
    pub volume: Option<String>,
    /// Where the volume identifier headers stand (`ubiattach -O`); none, or 0 as for the kernel, for the
    /// first sub-page after the erase counter header.
    pub header_offset: Option<u32>,
    /// Blocks of the whole chip, if the device is a part of one: blocks are kept for all its bad ones.
    pub chip_blocks: Option<u32>,
}

impl UbiRequest {
    /// Where the headers stand, if that is chosen.
    pub(crate) fn chosen_header_offset(&self) -> Option<u32> {
        self.header_offset.filter(|offset| *offset > 0)
    }
}

impl Default for MountRequest {
    fn default() -> Self {
        Self {
            profile: None,
            options: Vec::new(),
            has_background: true,
            has_write_back: true,
            formats_blank: true,
            seed: 0,
            ubi: UbiRequest::default(),
            block: BlockRequest::default(),
        }
    }
}

impl MountRequest {
    /// A mount that writes nothing and has no threads.
    pub fn read_only() -> Self {
        Self {
            options: vec!["ro".into()],
            has_background: false,
            has_write_back: false,
            ..Self::default()
        }
    }
}

/// A mount under way.
pub(crate) type Mounting<'a> = Call<'a, Result<AnyFileSystem, MountError>>;

/// A file system.
#[derive(Debug)]
pub struct Kind {
    /// Name on the command line and in studies; the kernel's name of the type.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// It meets the block layer and its scheduler on the way to the chip.
    pub is_on_block_device: bool,
    /// The block device where none is asked for; of file systems on raw NAND it is not used.
    pub usual_block_device: &'static str,
    /// A daemon outside the kernel cleans it, which `mount` starts unless the option `nogc` keeps it away.
    pub has_cleaner: bool,
    /// Names of the profiles, the one that is used if none is asked for first.
    pub profiles: &'static [&'static str],
    pub(crate) mount: for<'a> fn(&'a Machine, &'a MountRequest) -> Mounting<'a>,
}

/// All file systems, sorted by name. A constant would be compiled again, with all that it mounts, in every
/// crate that asks for it.
pub static KINDS: &[Kind] = &[
    crate::fat::KIND,
    crate::jffs2::KIND,
    crate::jffs2_block2mtd::KIND,
    crate::nilfs2::KIND,
    crate::ubifs::KIND,
    crate::yaffs2::KIND,
];

/// The file system of a name.
///
/// # Errors
/// [`MountError::UnknownKind`].
pub fn find_kind(name: &str) -> Result<&'static Kind, MountError> {
    KINDS.iter().find(|kind| kind.name == name).ok_or_else(|| {
        let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
        MountError::UnknownKind { name: name.into(), known: known.join(", ") }
    })
}

impl Kind {
    /// Refuses a block device under a file system on raw NAND, and `mtdblock` under `block2mtd`.
    ///
    /// # Errors
    /// [`MountError::BlockDevice`].
    pub fn check_block_device(&self, device: &BlockDeviceChoice) -> Result<(), MountError> {
        let is_mtdblock = *device == BlockDeviceChoice::MtdBlock;
        if is_mtdblock && self.usual_block_device != MTDBLOCK {
            let reason = format!(
                "block2mtd takes no MTD for a block device (\"attempting to use an MTD device as a \
                 block device\"); choose another, as {}",
                self.usual_block_device
            );
            return Err(MountError::BlockDevice { device: device.name().into(), reason });
        }
        if self.is_on_block_device || is_mtdblock {
            return Ok(());
        }
        let on_block_device = KINDS.iter().filter(|kind| kind.is_on_block_device);
        let known: Vec<&str> = on_block_device.map(|kind| kind.name).collect();
        Err(MountError::BlockDevice {
            device: device.name().into(),
            reason: format!(
                "{} works on raw NAND itself; leave the block device out, or choose {}",
                self.name,
                known.join(" or ")
            ),
        })
    }

    /// The name of the profile that is asked for.
    ///
    /// # Errors
    /// [`MountError::UnknownProfile`].
    pub fn profile(&self, asked: Option<&str>) -> Result<&'static str, MountError> {
        let Some(name) = asked else { return Ok(self.profiles[0]) };
        self.profiles.iter().copied().find(|known| *known == name).ok_or_else(|| {
            MountError::UnknownProfile {
                kind: self.name,
                name: name.into(),
                known: self.profiles.join(", "),
            }
        })
    }
}

/// An option that the file system does not have.
pub(crate) fn unknown_option(option: &str, known: &str) -> MountError {
    MountError::Option {
        option: option.into(),
        reason: format!("not one of those that are known: {known}"),
    }
}
