//! What file systems guarantee across a power cut: the table that the checker, the lists and the
//! documents are made from.

use nand::Torn;
use std::fmt::Write as _;

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
}

impl Durable {
    /// What has to return before a file that was written is safe, in a few words.
    pub fn in_short(self) -> &'static str {
        match self {
            Self::AtSync => "fsync, with all before it",
            Self::AtReturn => "every call; data at close",
            Self::EachAtSync => "fsync, file by file",
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
}

/// Something that the real code loses though it was synced. The checker knows it by name and counts
/// it apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Name in outcomes and in the documents.
    pub name: &'static str,
    /// What happens, and to what.
    pub summary: &'static str,
}

/// A finding that a cut explains.
#[derive(Debug, PartialEq, Eq)]
pub struct ExpectedFinding {
    /// What stands in it.
    pub part: &'static str,
    /// The torn models that explain it.
    pub torn: &'static [Torn],
}

// Shared with `recover`, which must know this finding among others.
/// JFFS2's finding about a name without an inode.
pub(crate) const LOST_INODE: &str = ": no inode";

// A cut that left nothing is among them: the finding is about what came before.
const ALL: &[Torn] = &[Torn::Nothing, Torn::Prefix, Torn::DataOnly];
const TORN_PAGE: &[Torn] = &[Torn::Prefix, Torn::DataOnly];

/// The guarantee of a file system.
#[derive(Debug)]
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

/// All guarantees, sorted by file system.
pub const GUARANTEES: &[Guarantee] = &[
    Guarantee {
        kind: "jffs2",
        durable: Durable::AtSync,
        // Nodes reach the medium in the order of the calls, page by page through one write buffer.
        order: Order::Calls,
        // The software ECC of a torn page takes missing code bytes for wrong bits, so nodes that
        // were whole can be damaged.
        order_of_torn_page: Order::EachByItself,
        // `jffs2_rename` links the new name before it unlinks the old one.
        renames_in_two_steps: true,
        is_made_in_steps: false,
        new_attribute_is_synced: false,
        empties_before_unlink: &[],
        safe: "all that was done to a file before its fsync, with all that came before that; everything at \
               sync and umount",
        new_file: "safe with its name if bytes were written to it since it was made; an empty one may keep \
                   its inode and miss its name",
        beyond: "the state after one of the calls since, none left out; of the next call a write's first bytes, \
                 or both names of a rename",
        beyond_torn_page: "each name and each file by itself is old or new, because software ECC takes missing \
                           code bytes for wrong bits and damages nodes that were whole",
        expected_findings: &[
            // Nodes reach over pages; one that was cut short is dropped.
            ExpectedFinding { part: "damaged", torn: ALL },
            // A block that was not erased to its end.
            ExpectedFinding { part: "no node of inode", torn: TORN_PAGE },
            // The name of a file whose own node stood in the torn page.
            ExpectedFinding { part: "has no node", torn: TORN_PAGE },
            ExpectedFinding { part: LOST_INODE, torn: TORN_PAGE },
            // A directory between the two steps of its rename.
            ExpectedFinding { part: "has two names", torn: ALL },
        ],
        hazards: &[OLD_TAIL, REVIVED_NAME],
    },
    Guarantee {
        kind: "ubifs",
        durable: Durable::EachAtSync,
        // `ubifs_jnl_update` writes names to the base head, `ubifs_jnl_write_data` bytes to the
        // data head: each keeps its own order.
        order: Order::NamesInOrder,
        order_of_torn_page: Order::NamesInOrder,
        renames_in_two_steps: false,
        // `create_default_filesystem` writes superblock, master nodes, index and root inode one
        // after the other.
        is_made_in_steps: true,
        // The inode of a new attribute has `S_SYNC` (`create_xattr` of `fs/ubifs/xattr.c`), so that
        // `ubifs_jnl_update` writes the buffer of the head that all names go through.
        new_attribute_is_synced: true,
        empties_before_unlink: &[],
        safe: "a file's bytes and attributes at its fsync, with its names and all names that were changed \
               before them; all names when a new extended attribute is made; everything at sync and umount",
        new_file: "safe with its name",
        beyond: "names, links and extended attributes as after one of the calls since, none left out; of each \
                 file by itself mode, owner, size and each block of 4096 bytes old or new: bytes that were not \
                 written back are zeros",
        beyond_torn_page: "the same: a page that was torn is behind the end of the journal",
        expected_findings: &[
            // The page that was torn, read by the recovery or by the attach.
            ExpectedFinding { part: "data cannot be read", torn: TORN_PAGE },
            // The same, met by the wear-levelling before the recovery wrote it anew.
            ExpectedFinding { part: "cannot be read and stays where it is", torn: TORN_PAGE },
            // A block that could not be read is tested before it is used again.
            ExpectedFinding { part: "stood the test of its cells", torn: TORN_PAGE },
        ],
        hazards: &[],
    },
    Guarantee {
        kind: "yaffs2",
        // Each change of a name writes its object header before the call returns.
        durable: Durable::AtReturn,
        order: Order::CallsWithChunks,
        order_of_torn_page: Order::CallsWithChunks,
        renames_in_two_steps: false,
        // `yaffs_del_file` of the newer library makes a file empty before it deletes it.
        is_made_in_steps: false,
        new_attribute_is_synced: false,
        empties_before_unlink: &["yaffs-direct"],
        safe: "every call that has returned; bytes that were written, and zeros by which truncate made a \
               file longer, at close, fsync, sync and umount",
        new_file: "safe with its name, before any sync",
        beyond: "of the call under way all or nothing; of a file being written each chunk old or new",
        beyond_torn_page: "the same: a chunk without tags does not count",
        expected_findings: &[
            // The block that was being written is left as it is.
            ExpectedFinding { part: "PartlyWritten", torn: ALL },
            // A checkpoint cut short is not used.
            ExpectedFinding { part: "BadCheckpoint", torn: ALL },
            // The summary of a block, torn.
            ExpectedFinding { part: "Unreadable", torn: TORN_PAGE },
            // A page that was programmed without tags, or a block that was not erased to its end.
            ExpectedFinding { part: "NotErased", torn: TORN_PAGE },
            // Spare areas that an erase left.
            ExpectedFinding { part: "BadTags", torn: &[Torn::DataOnly] },
        ],
        hazards: &[DOUBLED_NAME, LOST_GROWTH, RENAME_OVER_LINKED],
    },
];

/// JFFS2: truncation writes an inode node with the new size; what older nodes hold behind it shows
/// again if the file grows and the node that covers them is lost (`jffs2_do_setattr`).
pub(crate) const OLD_TAIL: Hazard = Hazard {
    name: "old-tail",
    summary: "of a file that was made shorter and longer again, a torn page can show bytes that were cut \
              off before",
};

/// JFFS2: the highest inode number is taken from nodes of inodes alone (`jffs2_scan_make_ino_cache`).
pub(crate) const REVIVED_NAME: Hazard = Hazard {
    name: "revived-name",
    summary: "a torn page can keep the name of a new file and lose its inode; the next file that is made \
              gets the number, and the name with it",
};

/// YAFFS2: `yaffs_unlink_worker` gives the object the name of its youngest link, then deletes the link.
pub(crate) const DOUBLED_NAME: Hazard = Hazard {
    name: "doubled-name",
    summary: "while the first name of a file with several is removed, a cut leaves another name of it \
              twice in its directory, and the file counts a link too many",
};

/// YAFFS2: making a file longer changes its size in memory alone (`yaffs_resize_file`); a checkpoint
/// keeps it, and a module writes none at a sync while collecting is urgent.
pub const LOST_GROWTH: Hazard = Hazard {
    name: "lost-growth",
    summary: "a file that was made longer by truncate, and not written since, has its old length after a \
              cut unless a checkpoint was written",
};

/// YAFFS2: the first header of a rename names the file it replaces, and the scan deletes that under
/// all its names.
pub(crate) const RENAME_OVER_LINKED: Hazard = Hazard {
    name: "rename-over-linked",
    summary: "a rename over one of several names of a file, cut after its first header, deletes the \
              file under all its names",
};

impl Guarantee {
    /// What is possible beyond what is safe, where torn operations leave this.
    pub fn order(&self, torn: Torn) -> Order {
        // A page of which nothing is left looks as if the operation had never begun.
        if torn == Torn::Nothing { self.order } else { self.order_of_torn_page }
    }
}

/// The guarantee of a file system.
pub fn find_guarantee(kind: &str) -> Option<&'static Guarantee> {
    GUARANTEES.iter().find(|guarantee| guarantee.kind == kind)
}

/// The table in Markdown, as `docs/power-cuts.md` has it.
pub fn guarantees_in_markdown() -> String {
    let mut text = String::from(
        "| file system | safe | made and synced, directory not | beyond that, nothing left of the torn \
         operation | beyond that, part of a torn page left |\n|---|---|---|---|---|\n",
    );
    for guarantee in GUARANTEES {
        let Guarantee { kind, safe, new_file, beyond, beyond_torn_page, .. } = guarantee;
        let _ = writeln!(text, "| {kind} | {safe} | {new_file} | {beyond} | {beyond_torn_page} |");
    }
    text.push_str("\n| file system | hazard | what happens |\n|---|---|---|\n");
    for guarantee in GUARANTEES {
        for Hazard { name, summary } in guarantee.hazards {
            let _ = writeln!(text, "| {} | `{name}` | {summary} |", guarantee.kind);
        }
    }
    text
}

/// A way in which a torn operation leaves the medium.
#[derive(Debug, PartialEq, Eq)]
pub struct TornModel {
    /// Name on the command line.
    pub name: &'static str,
    /// What is left of a page, or of a block, that was being written or erased.
    pub summary: &'static str,
    /// The chip's setting for it.
    pub torn: Torn,
}

/// The torn models, in the order in which they are run.
pub const TORN_MODELS: &[TornModel] = &[
    TornModel {
        name: "nothing",
        summary: "the operation never began; a cut within a read, too",
        torn: Torn::Nothing,
    },
    TornModel {
        name: "prefix",
        summary: "the first half of the page's data without spare area; of an erase, the first half \
                  of the block's pages is blank",
        torn: Torn::Prefix,
    },
    TornModel {
        name: "data-only",
        summary: "all data of the page without its spare area; an erase leaves the spare areas",
        torn: Torn::DataOnly,
    },
];

/// The torn model of a name.
pub fn find_torn_model(name: &str) -> Option<&'static TornModel> {
    TORN_MODELS.iter().find(|model| model.name == name)
}
