//! What tools show of a file system. Above the engine: uses it and its states, and formats.

use crate::compress::Compressor;
use crate::mount::Ubifs;
use crate::nodes::{Group, Header, SUPERBLOCK_BYTES, kind, seal};
use crate::superblock::{Superblock, flag};

/// What the superblock says, as tools show it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of the superblock, one for one")]
pub struct SuperblockInfo {
    /// Version of the format.
    pub format: u32,
    /// Bytes of a logical eraseblock.
    pub leb_bytes: u32,
    /// Logical eraseblocks that the file system uses now.
    pub leb_count: u32,
    /// Logical eraseblocks that it may grow to.
    pub max_leb_count: u32,
    /// Unit of writing, bytes.
    pub min_io_bytes: u32,
    /// Compressor of new data; none if the number is not known.
    pub compressor: Option<Compressor>,
    /// Function from names to keys.
    pub key_hash: &'static str,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Logical eraseblocks of the log.
    pub log_lebs: u32,
    /// Logical eraseblocks of the LEB properties tree.
    pub lpt_lebs: u32,
    /// Logical eraseblocks of orphans.
    pub orphan_lebs: u32,
    /// Children of a node of the index.
    pub fanout: u32,
    /// Bytes kept for the superuser.
    pub reserved_bytes: u64,
    /// UUID, drawn when the file system was made.
    pub uuid: [u8; 16],
    /// The LEB properties tree has the shape for large devices.
    pub has_big_lpt: bool,
    /// The first writable mount writes eraseblocks anew, without their blank ends.
    pub needs_space_fixup: bool,
    /// Entries hold a second hash of their names.
    pub has_double_hash: bool,
    /// Names and data are encrypted.
    pub is_encrypted: bool,
    /// Nodes carry hashes, and the master a signature (authentication).
    pub is_authenticated: bool,
}

/// A mounted file system, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// What the superblock says.
    pub superblock: SuperblockInfo,
    /// The last mount ended in order: nothing was to be recovered.
    pub was_clean: bool,
    /// Number of the last commit.
    pub commit: u64,
    /// The highest number that an inode was given.
    pub highest_inode: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
}

impl Superblock {
    fn info(&self) -> SuperblockInfo {
        let has = |wanted: u32| self.flags & wanted != 0;
        SuperblockInfo {
            format: self.format,
            leb_bytes: self.leb_bytes,
            leb_count: self.leb_count,
            max_leb_count: self.max_leb_count,
            min_io_bytes: self.min_io,
            compressor: Compressor::from_number(self.compressor),
            key_hash: match self.hash {
                0 => "r5",
                1 => "test",
                _ => "unknown",
            },
            journal_bytes: self.max_bud_bytes,
            log_lebs: self.log_lebs,
            lpt_lebs: self.lpt_lebs,
            orphan_lebs: self.orphan_lebs,
            fanout: self.fanout,
            reserved_bytes: self.reserved_bytes,
            uuid: self.uuid,
            has_big_lpt: has(flag::BIG_LPT),
            needs_space_fixup: has(flag::SPACE_FIXUP),
            has_double_hash: has(flag::DOUBLE_HASH),
            is_encrypted: has(flag::ENCRYPTION),
            is_authenticated: has(flag::AUTHENTICATION),
        }
    }
}

impl Ubifs {
    /// What the mount found.
    pub fn info(&self) -> Info {
        let engine = &self.engine;
        Info {
            superblock: engine.superblock.info(),
            was_clean: engine.was_clean.get(),
            commit: engine.commit_number.get(),
            highest_inode: engine.highest_inode.get(),
            index_bytes: engine.tnc.borrow().index_bytes,
        }
    }
}

/// The superblock at the beginning of some bytes.
///
/// # Errors
/// A few words that say what is there instead.
pub fn read_superblock(bytes: &[u8]) -> Result<SuperblockInfo, String> {
    let bytes = &bytes[..bytes.len().min(SUPERBLOCK_BYTES)];
    let header = Header::check(bytes).map_err(|error| error.to_string())?;
    if header.kind != kind::SUPERBLOCK {
        return Err("another kind of node is there".into());
    }
    Ok(Superblock::parse(bytes).info())
}

/// Whether bytes begin with a whole node of any kind.
pub fn is_whole_node(bytes: &[u8]) -> bool {
    Header::check(bytes).is_ok()
}

/// Asks the first writable mount for a space fix-up (`mkfs.ubifs -F`): for images that are flashed by
/// tools that program blank pages.
///
/// # Errors
/// As [`read_superblock`].
pub fn ask_for_space_fixup(leb: &mut [u8]) -> Result<(), String> {
    read_superblock(leb)?;
    let mut superblock = Superblock::parse(&leb[..SUPERBLOCK_BYTES]);
    superblock.flags |= flag::SPACE_FIXUP;
    let sequence = Header::check(leb).map_err(|error| error.to_string())?.sequence;
    let mut node = superblock.to_bytes();
    seal(&mut node, kind::SUPERBLOCK, sequence, Group::None);
    leb[..SUPERBLOCK_BYTES].copy_from_slice(&node);
    Ok(())
}
