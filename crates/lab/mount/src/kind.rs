//! A row of the table of file systems, and what a mount is asked for.

use crate::{
    BlockDeviceChoice, BlockRequest, Guarantee, ImageSupport, MTDBLOCK, Machine, Mounting,
};
use fs_api::Errno;
use thiserror::Error;

/// Why nothing was mounted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MountError {
    /// No file system has this name.
    #[error("there is no file system `{name}`: {known} are known")]
    UnknownKind {
        /// Name that was given.
        name: String,
        /// Names that are known.
        known: String,
    },
    /// The file system has no such profile.
    #[error("{kind} has no profile `{name}`: {known} are known")]
    UnknownProfile {
        /// File system that was asked for.
        kind: &'static str,
        /// Name of the profile that was given.
        name: String,
        /// Names that are known.
        known: String,
    },
    /// No profile stands for a kernel of this version.
    #[error(
        "{kind} of kernel {kernel} is not modelled, only that of {oldest} to {newest}; write kernel = \"{nearest}\""
    )]
    Kernel {
        /// File system that was asked for.
        kind: &'static str,
        /// Version as it was given.
        kernel: String,
        /// Oldest kernel of a profile.
        oldest: String,
        /// Newest kernel of a profile of any file system.
        newest: String,
        /// The nearer one of the two.
        nearest: String,
    },
    /// The kernel's mount would refuse the option.
    #[error("mount option `{option}`: {reason}")]
    Option {
        /// Option as it was given.
        option: String,
        /// What would be right.
        reason: String,
    },
    /// The block device cannot be, or the file system has no use for it.
    #[error("block device `{device}`: {reason}")]
    BlockDevice {
        /// Name of the device.
        device: String,
        /// Why, and what would be right.
        reason: String,
    },
    /// UBI refuses the device, or what is asked of it.
    #[error("UBI: {reason}")]
    Ubi {
        /// What is wrong, in words.
        reason: String,
    },
    /// The medium holds nothing that can be mounted.
    #[error("{kind}: {reason}")]
    Medium {
        /// File system that was asked for.
        kind: &'static str,
        /// What was found on the medium.
        reason: String,
    },
    /// The medium is damaged in a way that has a code, as findings have.
    #[error("{kind}: {reason}")]
    Damaged {
        /// File system that was asked for.
        kind: &'static str,
        /// Code of the finding.
        code: &'static str,
        /// What was found on the medium.
        reason: String,
    },
    /// A call failed while mounting.
    #[error("{kind}: {errno}")]
    Call {
        /// File system that was asked for.
        kind: &'static str,
        /// Answer of the call.
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
    pub fn chosen_header_offset(&self) -> Option<u32> {
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

/// What the words of a kernel's `mount` name as the place of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelSource {
    /// The MTD by its number, `mtd0`: found by its name (`get_sb_mtd`).
    Mtd,
    /// `/dev/mtdblock0`, by whose minor number the MTD is found.
    MtdBlock,
    /// A volume of UBI, `ubi0:NAME`.
    UbiVolume,
    /// A block device: the lines of a script, which work on a raw chip, mount none.
    BlockDevice,
}

impl KernelSource {
    /// A mount line of a script names such a place.
    pub fn fits(self, source: &str) -> bool {
        match self {
            Self::Mtd => source == "mtd0",
            Self::MtdBlock => source == "/dev/mtdblock0",
            Self::UbiVolume => source.strip_prefix("ubi0:").is_some_and(|name| !name.is_empty()),
            Self::BlockDevice => false,
        }
    }

    /// How a script writes it; none that can.
    pub fn example(self) -> Option<&'static str> {
        match self {
            Self::Mtd => Some("mtd0"),
            Self::MtdBlock => Some("/dev/mtdblock0"),
            Self::UbiVolume => Some("ubi0:NAME"),
            Self::BlockDevice => None,
        }
    }
}

/// How a kernel's `mount` is asked for a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelMount {
    /// Name of the type (`mount -t`).
    pub type_name: &'static str,
    /// What `mount` takes as the place of the file system.
    pub source: KernelSource,
    /// Options that are known, as the kernel spells them.
    pub options: &'static str,
}

/// A file system: a row of the table `file_systems::KINDS`.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts of a row that have nothing to do with each other"
)]
pub struct Kind {
    /// Name on the command line and in studies; the kernel's name of the type.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Lists and documents show it; not so a row that is there for tests.
    pub is_shown: bool,
    /// Owners, modes, links, devices and extended attributes: all that POSIX has and FAT has not.
    pub has_owners_and_links: bool,
    /// It meets the block layer and its scheduler on the way to the chip.
    pub is_on_block_device: bool,
    /// The block device where none is asked for; of file systems on raw NAND it is not used.
    pub usual_block_device: &'static str,
    /// A daemon outside the kernel cleans it, which `mount` starts unless the option `nogc` keeps it away.
    pub has_cleaner: bool,
    /// Names of the profiles, the one that is used if none is asked for first.
    pub profiles: &'static [&'static str],
    /// It lies on a volume of UBI: the raw NAND is attached before its mount.
    pub is_over_ubi: bool,
    /// How a kernel's `mount` is asked for it.
    pub kernel: KernelMount,
    /// Why there are no tools for images of it, and what to use instead; none where there are.
    pub images_instead: Option<&'static str>,
    /// How the tools know and check its images, if it says that itself. Formats with makers and checks of
    /// their own stand in a table above this one, under the name of the row.
    pub own_images: Option<&'static dyn ImageSupport>,
    /// What survives a power cut; none where nothing is promised.
    pub guarantee: Option<&'static Guarantee>,
    /// Mounts it; a blank device becomes an empty file system.
    pub mount: for<'a> fn(&'a Machine, &'a MountRequest) -> Mounting<'a>,
}

impl Kind {
    /// Refuses a mount line that names a place where this file system is not.
    ///
    /// # Errors
    /// What would be right, in words.
    pub fn check_source(&self, source: &str) -> Result<(), String> {
        // A kernel would answer with EINVAL or ENODEV; the message to a script says what is right.
        if self.kernel.source.fits(source) {
            return Ok(());
        }
        let name = self.name;
        Err(match self.kernel.source.example() {
            Some(right) => {
                format!("`{source}` cannot be mounted as {name}: write `mount {name} {right} -`")
            }
            None => format!(
                "`{source}` is raw NAND, and {name} stands on a block device: write `mount -` and choose {name} for the whole script"
            ),
        })
    }

    /// An option that it does not have.
    pub fn unknown_option(&self, option: &str) -> MountError {
        unknown_option(option, self.kernel.options)
    }

    /// Refuses a block device under a file system on raw NAND, and `mtdblock` under `block2mtd`.
    ///
    /// # Errors
    /// [`MountError::BlockDevice`] if the two do not go together.
    pub fn check_block_device(&self, device: &BlockDeviceChoice) -> Result<(), MountError> {
        // `block2mtd` refuses devices with the major number of MTD (`MTD_BLOCK_MAJOR`).
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
        Err(MountError::BlockDevice {
            device: device.name().into(),
            reason: format!(
                "{} works on raw NAND itself; leave the block device out, or choose a file system that \
                 stands on one (`nandlab list file-systems`)",
                self.name
            ),
        })
    }

    /// The name of the profile that is asked for.
    ///
    /// # Errors
    /// [`MountError::UnknownProfile`] if the file system has none of this name.
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

/// The profile that stands for a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelProfile {
    /// Name of the profile.
    pub name: &'static str,
    /// Kernels that it stands for, as `2.6.35 to before 6.1`.
    pub kernels: String,
    /// The profile was made after this very kernel.
    pub is_exact: bool,
}

/// Major, minor and patch number.
pub type Version = (u32, u32, u32);

/// The newest kernel that any file system is made after.
pub const NEWEST_KERNEL: Version = (6, 12, 0);

/// What the names of profiles begin with that are made after a kernel.
const KERNEL_PREFIX: &str = "linux-";

fn version_of(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(str::parse::<u32>);
    let mut next = || numbers.next().transpose().ok();
    Some((next()??, next()??, next()?.unwrap_or(0)))
}

fn shown((major, minor, patch): Version) -> String {
    if patch == 0 { format!("{major}.{minor}") } else { format!("{major}.{minor}.{patch}") }
}

impl Kind {
    /// The profiles that are made after a kernel, oldest first.
    pub fn kernel_profiles(&self) -> Vec<(Version, &'static str)> {
        let versions = self
            .profiles
            .iter()
            .filter_map(|name| Some((version_of(name.strip_prefix(KERNEL_PREFIX)?)?, *name)));
        let mut versions: Vec<(Version, &'static str)> = versions.collect();
        versions.sort_unstable();
        versions
    }

    /// The profile that stands for a kernel: the newest one that is not newer.
    ///
    /// File systems change between two profiles, so the answer says which kernels share it. Before the
    /// oldest profile, and after the newest kernel that any file system here is made after, nothing is
    /// known and nothing is guessed. Patch numbers of that newest kernel are its own.
    ///
    /// # Errors
    /// [`MountError::Kernel`] if no profile was made after a kernel like it.
    pub fn profile_of_kernel(&self, kernel: &str) -> Result<KernelProfile, MountError> {
        let own = self.kernel_profiles();
        // What changed after the newest kernel of any file system is not known here.
        let (oldest, newest) = (own[0].0, NEWEST_KERNEL);
        let asked = version_of(kernel).unwrap_or_default();
        if asked < oldest || (asked.0, asked.1) > (newest.0, newest.1) {
            let nearest = if asked < oldest { oldest } else { newest };
            return Err(MountError::Kernel {
                kind: self.name,
                kernel: kernel.into(),
                oldest: shown(oldest),
                newest: shown(newest),
                nearest: shown(nearest),
            });
        }
        let after = own.partition_point(|(version, _)| *version <= asked);
        assert!(after > 0, "a kernel before the oldest profile was refused");
        let (version, name) = own[after - 1];
        let kernels = match own.get(after) {
            Some((next, _)) => format!("{} to before {}", shown(version), shown(*next)),
            None if version == newest => shown(version),
            None => format!("{} to {}", shown(version), shown(newest)),
        };
        // From 3.0 on the third number counts repairs alone.
        let is_exact =
            version == asked || version.0 > 2 && (version.0, version.1) == (asked.0, asked.1);
        Ok(KernelProfile { name, kernels, is_exact })
    }
}

/// An option that the file system does not have.
pub fn unknown_option(option: &str, known: &str) -> MountError {
    MountError::Option {
        option: option.into(),
        reason: format!("not one of those that are known: {known}"),
    }
}
