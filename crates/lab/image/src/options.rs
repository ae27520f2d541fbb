//! What a user may say of an image: how it is read, made and extracted.

use std::path::PathBuf;

/// What an image is, where its bytes are not to be asked.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Name of the file system.
    pub file_system: Option<String>,
    /// Name of the OOB layout.
    pub oob_layout: Option<String>,
    /// Code of the pages: `hamming` or `none`.
    pub ecc: Option<String>,
    /// Whether pages have their spare areas in the image; none to find out.
    pub has_oob: Option<bool>,
    /// Bytes of data of a page.
    pub page_bytes: Option<u32>,
    /// Bytes of data of an erase block; none for 64 large pages or 32 small ones.
    pub block_bytes: Option<u32>,
    /// Where UBI keeps its second header, if not where the first ones say.
    pub vid_header_offset: Option<u32>,
    /// Name of the volume of UBI; none for the only one.
    pub volume: Option<String>,
    /// Generation of the code that reads it.
    pub profile: Option<String>,
    /// Number of the checkpoint of NILFS2 to show; none for the newest.
    pub checkpoint: Option<u64>,
}

impl OpenOptions {
    /// An option that only images of UBI have, if one is given.
    pub(crate) fn of_ubi(&self) -> Option<&'static str> {
        let given = [
            ("--vid-hdr-offset", self.vid_header_offset.is_some()),
            ("--volume", self.volume.is_some()),
        ];
        given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }
}

/// What of a tree is extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtractOptions {
    /// Devices, pipes and sockets are made; devices need root.
    pub has_devices: bool,
    /// Files get their owners: needs root.
    pub has_owners: bool,
}

/// How far an image is filled up with 0xFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// To the end of its last block.
    Block,
    /// To this many bytes of data.
    Bytes(u64),
}

/// What image is made.
#[derive(Clone, Debug)]
pub struct MakeOptions {
    /// Name of the file system.
    pub file_system: String,
    /// Device table that is applied to the tree.
    pub device_table: Option<PathBuf>,
    /// Root becomes the owner of everything.
    pub squashes_owners: bool,
    /// Groups and others may not write.
    pub squashes_permissions: bool,
    /// Padding; none ends the image with the last page that is written.
    pub padding: Option<Padding>,
    /// Most bytes of data that the image may have.
    pub size_limit_bytes: Option<u64>,
    /// Spare areas are part of the image.
    pub has_oob: bool,
    /// Part of the catalogue, or a file.
    pub part: String,
    /// Blocks of the chip, if not the part's.
    pub blocks: Option<u32>,
    /// Bytes of data of a page, if not the part's.
    pub page_bytes: Option<u32>,
    /// Generation of the code.
    pub profile: Option<String>,
    /// Options of the mount that writes the image.
    pub mount_options: Vec<String>,
    /// No time is later: seconds since 1970 (`SOURCE_DATE_EPOCH`).
    pub latest_time: Option<i64>,
    /// What images of UBI and UBIFS may choose.
    pub ubi: UbiMakeOptions,
    /// What images of NILFS2 may choose.
    pub nilfs2: Nilfs2MakeOptions,
}

/// What an image of UBI or UBIFS may choose.
#[derive(Clone, Debug, Default)]
pub struct UbiMakeOptions {
    /// UBIFS alone, as mkfs.ubifs writes it.
    pub is_bare: bool,
    /// Bytes of a logical eraseblock of a bare file system (`mkfs.ubifs -e`).
    pub leb_bytes: Option<u32>,
    /// Eraseblocks that the file system may grow to (`-c`).
    pub max_leb_count: Option<u32>,
    /// Bytes of the journal (`-j`).
    pub journal_bytes: Option<u64>,
    /// Bytes kept for the superuser (`-R`).
    pub reserved_bytes: Option<u64>,
    /// The first mount writes eraseblocks anew without their blank ends (`-F`).
    pub fixes_space: bool,
    /// Where UBI's second header stands (`ubinize -O`).
    pub vid_header_offset: Option<u32>,
    /// Name of the volume; with a configuration the one that the tree goes to.
    pub volume: Option<String>,
    /// Configuration in the form of ubinize.
    pub config: Option<PathBuf>,
    /// Random number of the image (`-Q`); none for one that follows from the contents.
    pub image_sequence: Option<u32>,
    /// Erase counter of all blocks (`-e`).
    pub erase_counter: u64,
}

/// NILFS2, in the words of mkfs.nilfs2.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nilfs2MakeOptions {
    /// Bytes of the device; none for twice what the tree takes, and the segments kept free.
    pub size_bytes: Option<u64>,
    /// Blocks of a segment (`-B`).
    pub blocks_per_segment: Option<u32>,
    /// Label of the file system (`-L`).
    pub label: Option<String>,
    /// Segments kept for the cleaner, percent (`-m`).
    pub reserved_percent: Option<u32>,
}
