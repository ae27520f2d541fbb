//! What a file system guarantees across a power cut. A row of the table of file systems has it; the checker,
//! the lists and the documents are made from it.

use nand::Torn;

/// When what a call did is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// When a later `fsync` of the inode, or `sync`, has returned.
    AtSync,
    /// When the call has returned; data written to a file when it is closed or synced.
    AtReturn,
    /// Names, with all names before them, when a later `fsync` of an inode they concern, or `sync`, has
    /// returned; bytes and attributes of a file when that of the file itself has.
    EachAtSync,
    /// When a later `fsync` of a file whose bytes were changed, or of a directory whose names were, has made
    /// a checkpoint, or `sync` has; each also flushes the device.
    AtCheckpoint,
    /// Names when a later `sync` has returned; bytes of a file that had its name by then when its own `fsync`
    /// has. Both wait for a flush of the device, which `sync` itself may not ask for.
    AtFlush,
}

impl Durable {
    /// What has to return before a file that was written is safe, in a few words.
    pub fn in_short(self) -> &'static str {
        match self {
            Self::AtSync => "fsync, with all before it",
            Self::AtReturn => "every call; data at close",
            Self::EachAtSync => "fsync, file by file",
            Self::AtCheckpoint => "fsync of changed data, with all before it",
            Self::AtFlush => "fsync, if the name was safe",
        }
    }
}

/// Which states a cut may leave between one call and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The state after some call, and of the next call a part: a write may have written its first
    /// bytes.
    Calls,
    /// The same, but while a file is being written any of its chunks may be old or new.
    CallsWithChunks,
    /// Of all that is not safe, each name and each file by itself is old, new, or made and unreadable.
    EachByItself,
    /// Names, links and extended attributes as after some call; of each file by itself the mode, the
    /// owner, the size and each block of bytes may be old or new.
    NamesInOrder,
    /// The state of one checkpoint, whole; of a file that was synced since without a checkpoint, newer bytes.
    Checkpoints,
    /// Each sector by itself is old or new. Only what was safe and not touched since must be as it was; whatever
    /// else is neither old nor new is a hazard.
    Sectors,
    /// Nothing is promised of what is shown; it mounts and works. What is no state of the calls is a hazard.
    Pages,
}

/// Something that the real code loses though it was synced. The checker recognises it by name and counts
/// it apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Name in outcomes and in the documents.
    pub name: &'static str,
    /// What happens, and to what.
    pub summary: &'static str,
    /// The code of a finding after which the next mount may show something else: then it is this hazard.
    pub finding: Option<&'static str>,
}

/// A finding that a cut explains.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpectedFinding {
    /// Code of the finding, by which programs know it.
    pub code: &'static str,
    /// The torn models that explain it.
    pub torn: &'static [Torn],
}

// A cut that left nothing is among them: the finding is about what came before.
/// All models of a torn page.
pub const ALL_TORN: &[Torn] = &[Torn::Nothing, Torn::Prefix, Torn::DataOnly];
/// Those that leave a part of a page.
pub const TORN_PAGE: &[Torn] = &[Torn::Prefix, Torn::DataOnly];

/// The guarantee of a file system.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "habits of real code, each of its own")]
pub struct Guarantee {
    /// Name of the file system.
    pub kind: &'static str,
    /// When a call is durable.
    pub durable: Durable,
    /// What is possible beyond what is safe, where nothing is left of a torn operation.
    pub order: Order,
    /// The same, where a part of a torn page is left, without its code.
    pub order_of_torn_page: Order,
    /// A rename writes the new name, then takes the old one away; a cut between leaves both.
    pub renames_in_two_steps: bool,
    /// It is made by its first mount, in steps; one that was cut short there has to be made again. Cuts
    /// begin when it is made.
    pub is_made_in_steps: bool,
    /// A new extended attribute is on the medium when the call returns, with all names before it.
    pub new_attribute_is_synced: bool,
    /// Modes, owners and links are on the medium; where they are not, they are not compared.
    pub keeps_modes: bool,
    /// Profiles that make a file empty before they take its last name away.
    pub empties_before_unlink: &'static [&'static str],
    /// In words: what is safe, and when.
    pub safe: &'static str,
    /// In words: a file that was made and synced, its directory not.
    pub new_file: &'static str,
    /// In words: what is possible beyond what is safe, where nothing is left of a torn operation.
    pub beyond: &'static str,
    /// The same, where a part of a torn page is left.
    pub beyond_torn_page: &'static str,
    /// Findings that a cut explains.
    pub expected_findings: &'static [ExpectedFinding],
    /// What the real code loses.
    pub hazards: &'static [Hazard],
}

/// JFFS2: truncation writes an inode node with the new size; what older nodes hold behind it shows
/// again if the file grows and the node that covers them is lost (`jffs2_do_setattr`).
pub const OLD_TAIL: Hazard = Hazard {
    name: "old-tail",
    summary: "of a file that was made shorter and longer again, a torn page can show bytes that were cut \
              off before",
    finding: None,
};

/// JFFS2: the collector writes an attribute again with a higher version (`save_xattr_datum` of `fs/jffs2/xattr.c`).
/// A scan takes the highest version whose header is whole (`jffs2_scan_xattr_node` of `fs/jffs2/scan.c`). The value
/// is compared with its CRC when it is first wanted, and no older node is tried then (`do_load_xattr_datum`).
pub const LOST_ATTRIBUTE: Hazard = Hazard {
    name: "lost-attribute",
    summary: "an extended attribute is gone, however long ago it was synced: the collector was copying it, and the \
              cut left the header of the copy without its value",
    finding: None,
};

/// JFFS2: the scan takes names from the summary of a block without a look at their nodes. Of two records of a name it
/// keeps the higher version, or the one that it meets last (`jffs2_add_fd_to_list` of `fs/jffs2/nodelist.c`), as the
/// collector may copy a name with its version (`jffs2_garbage_collect_pristine` of `fs/jffs2/gc.c`). When the
/// directory is read, the node of that record is blank or damaged, and the whole one is obsolete by then
/// (`jffs2_get_inode_nodes` and `read_direntry` of `fs/jffs2/readinode.c`).
pub const LOST_NAME: Hazard = Hazard {
    name: "lost-name",
    summary: "a name is gone with its file, however long ago it was synced: the collector had copied it, and a cut \
              left the summary of a block and not the record of the name: of the copy, or of the old one under erase",
    finding: None,
};

/// YAFFS2: `yaffs_unlink_worker` gives the object the name of its youngest link, then deletes the link.
pub const DOUBLED_NAME: Hazard = Hazard {
    name: "doubled-name",
    summary: "while the first name of a file with several is removed, a cut leaves another name of it \
              twice in its directory, and the file counts a link too many",
    finding: None,
};

/// YAFFS2: `yaffs_resize_file` deletes the chunks behind the new end first, which erases blocks that hold nothing else
/// (`yaffs_block_became_dirty`), and writes the header with the new size last. An erase that leaves the spare areas
/// leaves the tags of those chunks, and the scan takes them with the erased bytes.
pub const ERASED_CHUNK: Hazard = Hazard {
    name: "erased-chunk",
    summary: "a file that was being made shorter has erased bytes where it had others: its blocks are erased \
              before its new size is on the medium, and an erase that was cut leaves their tags",
    finding: None,
};

/// YAFFS2: collecting copies a header with the size that the medium has by then (`yaffs_gc_process_chunk`). The scan
/// takes away older chunks by the size in the newest header, and by headers that are marked as shrinking, which a
/// truncate does not mark (`yaffs2_scan_chunk`, `yaffs_resize_file`). Chunks before that size may wait in the cache,
/// which is written slot by slot and not in the order of the file (`yaffs_flush_file_cache`). Until they are written,
/// the chunks that a truncate cut off are the newest of their numbers, if no erase has taken them yet.
pub const OLD_CHUNK: Hazard = Hazard {
    name: "old-chunk",
    summary: "a file that was made shorter and is being written anew shows bytes that it had before: its header was \
              collected while earlier chunks of it waited in the cache",
    finding: None,
};

/// YAFFS2: making a file longer changes its size in memory alone (`yaffs_resize_file`); a checkpoint
/// keeps it, and a module writes none at a sync while collecting is urgent.
pub const LOST_GROWTH: Hazard = Hazard {
    name: "lost-growth",
    summary: "a file that was made longer by truncate, and not written since, has its old length after a \
              cut unless a checkpoint was written",
    finding: None,
};

/// YAFFS2: the first header of a rename names the file it replaces, and the scan deletes that under
/// all its names.
pub const RENAME_OVER_LINKED: Hazard = Hazard {
    name: "rename-over-linked",
    summary: "a rename over one of several names of a file, cut after its first header, deletes the \
              file under all its names",
    finding: None,
};

/// YAFFS2: the header that replaces a file names it, and the scan deletes that file. Collecting copies headers without
/// that name (`yaffs_gc_process_chunk`), and each header that a mount writes may collect first (`yaffs_update_oh` calls
/// `yaffs_check_gc`). A second cut, before the deletion, leaves both objects under one name.
pub const REVIVED_TARGET: Hazard = Hazard {
    name: "revived-target",
    summary: "a rename over another file is cut, and the mount that would delete that file is cut too: it \
              is back under its name, and the renamed one cannot be reached",
    finding: None,
};

/// Block devices over raw NAND: `write_cached_data` of `drivers/mtd/mtdblock.c` erases a block before it writes
/// it back, so a cut between loses sectors that were synced long ago. Every file system on `mtdblock` has it.
pub const ERASED_BLOCK: Hazard = Hazard {
    name: "erased-block",
    summary: "between the erase of a block by mtdblock and the last program of it, a cut loses the whole block, \
              with what was synced long ago; the volume may not mount",
    finding: None,
};

/// FAT: sectors of the tables, of directories and of data are written in no order against each other.
pub const WRONG_BYTES: Hazard = Hazard {
    name: "wrong-bytes",
    summary: "a file that was changed since it was safe has bytes that it never had, or that cannot be read: \
              its size, its chain and its clusters are of different times",
    finding: None,
};

/// FAT: slots of a new name stand in several sectors, and the first cluster of a new directory in others.
pub const STRANGE_NAME: Hazard = Hazard {
    name: "strange-name",
    summary: "a name that was never given: the short one of a new file whose long one is not on the medium, or \
              what a cluster held before it became a directory",
    finding: None,
};

/// FAT: `vfat_rename` changes two directories in memory, and each is written by itself.
pub const LOST_FILE: Hazard = Hazard {
    name: "lost-file",
    summary: "a file that was renamed has neither its old name nor its new one",
    finding: None,
};

/// FAT: `__fat_fs_error` of `fs/fat/misc.c` ends all writing where a chain makes no sense
/// (`errors=remount-ro`, the default).
pub const READ_ONLY: Hazard = Hazard {
    name: "read-only",
    summary: "the volume takes no more writes, because one met a chain that makes no sense",
    finding: None,
};

/// `block2mtd`: nodes are in the page cache of the block device, whose write-back takes pages in any order
/// (`_block2mtd_write` of `drivers/mtd/devices/block2mtd.c`).
pub const PAGES_IN_ANY_ORDER: Hazard = Hazard {
    name: "pages-in-any-order",
    summary: "names and files of different times stand beside each other, or are damaged or gone, with what was \
              synced before: a page of the block device that was erased is written before its copy",
    finding: None,
};

impl Guarantee {
    /// True if a check may find this after a cut: it is a hazard of a file system that repairs nothing.
    pub fn hazard_of_finding(&self, code: &str) -> Option<&'static Hazard> {
        match self.order {
            Order::Sectors => self.hazards.iter().find(|hazard| hazard.finding == Some(code)),
            Order::Pages => self.hazards.first(),
            _ => None,
        }
    }

    /// The hazard of which a mount tells by this finding: it may refuse, and nothing is promised of what it shows.
    pub fn hazard_at_mount(&self, code: &str) -> Option<&'static Hazard> {
        if self.order != Order::Checkpoints {
            return None;
        }
        self.hazards.iter().find(|hazard| hazard.finding == Some(code))
    }

    /// What is possible beyond what is safe, where torn operations leave this.
    pub fn order(&self, torn: Torn) -> Order {
        // A page of which nothing is left looks as if the operation had never begun.
        if torn == Torn::Nothing { self.order } else { self.order_of_torn_page }
    }
}
