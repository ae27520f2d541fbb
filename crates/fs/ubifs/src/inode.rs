//! Inodes in memory.
//!
//! Source: `fs/ubifs/ubifs.h` (`struct ubifs_inode`). A state: uses formats and budgets.

use crate::budget::Budget;
use crate::nodes::InodeNode;
use fs_api::FileType;
use sim::Lock;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// First inode that is given away (`UBIFS_FIRST_INO`).
pub(crate) const FIRST_INODE: u64 = 64;
/// Inode number of the root directory (`UBIFS_ROOT_INO`).
pub(crate) const ROOT: u64 = 1;
/// Inode numbers from here on are not given away (`INUM_WATERMARK` of `ubifs.h`).
pub(crate) const INODE_NUMBER_WATERMARK: u64 = 0xffff_ff00;

/// Flags of inodes on the medium.
pub(crate) mod flag {
    pub(crate) const COMPRESS: u32 = 1;
    pub(crate) const SYNC: u32 = 2;
    pub(crate) const DIRECTORY_SYNC: u32 = 0x10;
    pub(crate) const ATTRIBUTE: u32 = 0x20;
    pub(crate) const ENCRYPTED: u32 = 0x40;
}

/// Pages in a row that were read when reading at once begins.
const ROW: u32 = 3;

/// How a file was read last (`last_page_read`, `read_in_a_row`, `bulk_read` of the inode).
#[derive(Debug, Default)]
pub(crate) struct ReadRow {
    pub(crate) last_page: u64,
    pub(crate) length: u32,
    pub(crate) is_bulk: bool,
}

impl ReadRow {
    /// A page is read; true if those behind it shall be, too.
    pub(crate) fn goes_on(&mut self, page: u64) -> bool {
        let last = std::mem::replace(&mut self.last_page, page);
        if page != last + 1 {
            (self.length, self.is_bulk) = (1, false);
            return false;
        }
        if !self.is_bulk {
            self.length += 1;
            self.is_bulk = self.length >= ROW;
        }
        self.is_bulk
    }
}

/// Sizes of a file by its inode and by its data; the larger one holds after a cut.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SizeSeen {
    pub(crate) inode_size: u64,
    pub(crate) data_size: u64,
    pub(crate) exists: bool,
}

/// State of an inode in memory.
#[derive(Debug, Default)]
pub(crate) struct InodeData {
    pub(crate) node: InodeNode,
    /// Size as the medium has it.
    pub(crate) synced_size: u64,
    /// Attributes changed in memory only; space for the node is set aside.
    pub(crate) is_dirty: bool,
    /// When the inode became dirty, nanoseconds of virtual time.
    pub(crate) dirty_since_ns: u64,
    /// Pages that are dirty in the layer above, and what was set aside for them.
    pub(crate) pages: BTreeMap<u64, Budget>,
    /// Pages that are not in the index.
    pub(crate) holes: BTreeSet<u64>,
    /// How the file was read last.
    pub(crate) row: ReadRow,
    /// The size to which the file is being cut: no byte behind it is written any more.
    pub(crate) cut_to: Option<u64>,
    /// Commit before which the last name went (`del_cmtno`).
    pub(crate) deleted_in: u64,
}

/// An inode in use.
pub(crate) struct Inode {
    pub(crate) number: u64,
    pub(crate) lock: Lock<()>,
    pub(crate) data: RefCell<InodeData>,
}

impl Inode {
    pub(crate) fn kind(&self) -> Option<FileType> {
        FileType::from_mode(self.data.borrow().node.mode)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind() == Some(FileType::Directory)
    }

    pub(crate) fn data_bytes(&self) -> usize {
        self.data.borrow().node.data.len()
    }
}
