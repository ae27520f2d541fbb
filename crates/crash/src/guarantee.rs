//! What file systems guarantee across a power cut: the table that the checker, the lists and the
//! documents are made from.

use nand::Torn;

/// When what a call did is on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// When a later `fsync` of the inode, or `sync`, has returned.
    AtSync,
    /// When the call has returned; data written to a file when it is closed or synced.
    AtReturn,
}

/// Which states a cut may leave between one call and the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The state after some call, and of the next call a part: a write may have written its first
    /// bytes.
    Calls,
    /// The same, but while a file is being written any of its chunks may be old or new.
    CallsWithChunks,
}

/// Something that the real code loses though it was synced: checked as such, told by its name, and
/// counted apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Hazard {
    /// Name.
    pub name: &'static str,
    /// What happens, and to what.
    pub summary: &'static str,
}

/// The guarantee of a file system.
#[derive(Debug)]
pub struct Guarantee {
    /// Name of the file system.
    pub kind: &'static str,
    /// When a call is durable.
    pub durable: Durable,
    /// What is possible between calls.
    pub order: Order,
    /// In words: what is there after a cut, file created and synced without its directory included.
    pub summary: &'static str,
    /// Findings at mount that a cut explains, by how they begin.
    pub expected_findings: &'static [&'static str],
    /// What the real code loses.
    pub hazards: &'static [Hazard],
}

/// All guarantees, sorted by file system.
pub const GUARANTEES: &[Guarantee] = &[
    Guarantee {
        kind: "jffs2",
        durable: Durable::AtSync,
        order: Order::Calls,
        summary: "",
        expected_findings: &[],
        hazards: &[],
    },
    Guarantee {
        kind: "yaffs2",
        durable: Durable::AtReturn,
        order: Order::CallsWithChunks,
        summary: "",
        expected_findings: &["PartlyWritten"],
        hazards: &[RENAME_OVER_LINKED],
    },
];

/// YAFFS2: the first header of a rename names the file it replaces, and the scan deletes that under
/// all its names.
pub(crate) const RENAME_OVER_LINKED: Hazard = Hazard {
    name: "rename-over-linked",
    summary: "a rename over one of several names of a file, cut after its first header, deletes the \
              file under all its names",
};

/// The guarantee of a file system.
pub fn find_guarantee(kind: &str) -> Option<&'static Guarantee> {
    GUARANTEES.iter().find(|guarantee| guarantee.kind == kind)
}

/// A way in which a torn operation leaves the medium.
#[derive(Debug, PartialEq, Eq)]
pub struct TornModel {
    /// Name on the command line.
    pub name: &'static str,
    /// What is left.
    pub summary: &'static str,
    /// The chip's.
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
