//! Checks of JFFS2: every node on the medium, and what the nodes say of each other.
//!
//! Nodes that newer ones replace, and all nodes of deleted inodes, stay until their block is collected:
//! that is how the format works. So is a node that a power cut tore. What no history leaves behind is
//! an inconsistency: a node whose CRC is wrong though its page was written whole, a name of an inode
//! that is not there, two different nodes of one version.

use crate::medium::{BlockData, Medium, PageState};
use crate::report::Report;
use jffs2::nodes::{
    ACCURATE, CLEANMARKER, DIRENT, DirentNode, HEADER_BYTES, Header, INODE, INODE_BYTES, InodeNode,
    PADDING, SUMMARY, XATTR, XREF, XattrNode, XrefNode, crc, padded,
};
use jffs2::{parse_summary, summary_offset};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use vfs::escape_path;

/// The root directory.
const ROOT: u32 = 1;
/// Kind of directories in entries (`DT_DIR`).
const DT_DIR: u8 = 4;
/// The mark of a clean block in the spare area (`jffs2_cleanmarker` without its CRC).
const SPARE_MARKER: [u8; 8] = [0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0];

/// An entry: the place, the target, its kind, the name.
type Dirent = (u32, u32, u8, Vec<u8>);

/// What all nodes together say.
#[derive(Default)]
struct Tree {
    /// Of each inode its nodes by version: the place, the bytes of the file that they hold.
    inodes: BTreeMap<u32, BTreeMap<u32, (u32, u32, u32)>>,
    /// Of each directory its entries by version.
    entries: BTreeMap<u32, BTreeMap<u32, Dirent>>,
    /// Extended attributes.
    attributes: BTreeMap<u32, u32>,
    /// The newest reference by inode and attribute: sequence number, place.
    references: BTreeMap<(u32, u32), (u32, u32)>,
}

/// How many nodes and blocks there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Jffs2Counts {
    /// Inode nodes.
    pub inode_nodes: u64,
    /// Directory entries.
    pub dirent_nodes: u64,
    /// Extended attributes and references to them.
    pub xattr_nodes: u64,
    /// Blocks with a summary.
    pub summaries: u64,
    /// Blocks that say that they were erased completely.
    pub clean_markers: u64,
}

/// Looks at every node of an image.
pub(crate) fn check_jffs2(medium: &Medium<'_>, report: &mut Report) -> Jffs2Counts {
    let mut walk = Walk { medium, report, tree: Tree::default(), counts: Jffs2Counts::default() };
    for block in 0..medium.blocks {
        if !medium.is_bad(block)
            && let Some(data) = medium.block(block)
        {
            walk.block(block, &data);
        }
    }
    let Walk { report, tree, counts, .. } = walk;
    tree.check(medium, report);
    counts
}

struct Walk<'a> {
    medium: &'a Medium<'a>,
    report: &'a mut Report,
    tree: Tree,
    counts: Jffs2Counts,
}

impl Walk<'_> {
    fn block(&mut self, block: u32, read: &BlockData) {
        self.report.add_pages(self.medium, block, read);
        let mut marker = [0xff; 8];
        let free_bytes = self.medium.layout().free_bytes().min(8);
        self.medium.layout().gather(&read.spare, 0, &mut marker[..free_bytes]);
        if marker[..free_bytes] == SPARE_MARKER[..free_bytes] {
            self.counts.clean_markers += 1;
        } else if marker[..free_bytes] != [0xff; 8][..free_bytes] {
            let place = self.medium.place(block * self.medium.block_bytes());
            self.report.find(place, "the spare area holds no clean marker of JFFS2");
        }
        let first = block * self.medium.block_bytes();
        if read.is_half_erased() {
            self.report.note(self.medium.place(first), "the erase of the block was cut short");
        }
        let mut at = 0;
        let mut found = Vec::new();
        while at + HEADER_BYTES <= read.data.len() {
            let header = Header::parse(&read.data[at..]);
            let length = header.total_bytes as usize;
            if read.data[at..at + 4] == [0xff; 4] {
                at += 4;
            } else if header.is_valid() && length >= HEADER_BYTES && length <= read.data.len() - at
            {
                if self.node(first, at, header, read) {
                    found.push((at as u32, header.total_bytes));
                }
                at += padded(header.total_bytes) as usize;
            } else {
                at = self.no_node(first, at, read);
            }
        }
        self.summary(first, read, &found);
    }

    /// Looks at a node with a sound header; true if a summary would name it.
    fn node(&mut self, first: u32, at: usize, header: Header, read: &BlockData) -> bool {
        let bytes = &read.data[at..at + header.total_bytes as usize];
        let place = first + at as u32;
        if header.node_type & ACCURATE == 0 {
            return false;
        }
        let (name, is_sound) = match header.node_type {
            INODE => ("inode", self.inode(place, bytes)),
            DIRENT => ("directory entry", self.dirent(place, bytes)),
            XATTR => ("extended attribute", self.xattr(place, bytes)),
            XREF => ("reference to an extended attribute", self.xref(place, bytes)),
            SUMMARY => ("summary", parse_summary(bytes).is_some()),
            CLEANMARKER => {
                self.counts.clean_markers += u64::from(at == 0);
                return false;
            }
            PADDING => return false,
            other => {
                let what = format!("a node of unknown type {other:#x}");
                self.report.find(self.medium.place(place), what);
                return false;
            }
        };
        if !is_sound {
            let what = format!("the CRC of the node is wrong: {name}");
            let is_torn = self.is_torn(at, header.total_bytes as usize, read);
            self.report.say(is_torn, self.medium.place(place), remark(is_torn, &what));
        }
        is_sound && header.node_type != SUMMARY
    }

    fn inode(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = InodeNode::parse(bytes) else { return false };
        self.counts.inode_nodes += 1;
        let stored = bytes.get(INODE_BYTES..INODE_BYTES + node.stored_bytes as usize);
        if stored.is_none_or(|stored| crc(stored) != node.data_crc) {
            return false;
        }
        let held = (node.offset, node.data_bytes);
        let is_file = node.mode & 0o170_000 == 0o100_000;
        if is_file && u64::from(held.0) + u64::from(held.1) > u64::from(node.file_bytes) {
            let what = format!("inode {}: the node reaches past the end of its file", node.inode);
            self.report.find(self.medium.place(place), what);
        }
        match self.tree.inodes.entry(node.inode).or_default().entry(node.version) {
            Slot::Vacant(slot) => {
                slot.insert((place, held.0, held.1));
            }
            Slot::Occupied(slot) => {
                let (other, offset, count) = *slot.get();
                if (offset, count) != held {
                    let what = format!(
                        "inode {} has another node of version {} at {other:#x}",
                        node.inode, node.version
                    );
                    self.report.find(self.medium.place(place), what);
                }
            }
        }
        true
    }

    fn dirent(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = DirentNode::parse(bytes) else { return false };
        self.counts.dirent_nodes += 1;
        let DirentNode { parent, version, inode, kind, name, .. } = node;
        match self.tree.entries.entry(parent).or_default().entry(version) {
            Slot::Vacant(slot) => {
                slot.insert((place, inode, kind, name));
            }
            Slot::Occupied(slot) => {
                if (&slot.get().3, slot.get().1) != (&name, inode) {
                    let what = format!(
                        "directory {parent} has another entry of version {version} at {:#x}",
                        slot.get().0
                    );
                    self.report.find(self.medium.place(place), what);
                }
            }
        }
        true
    }

    fn xattr(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = XattrNode::parse(bytes) else { return false };
        self.counts.xattr_nodes += 1;
        self.tree.attributes.insert(node.id, place);
        true
    }

    fn xref(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = XrefNode::parse(bytes) else { return false };
        self.counts.xattr_nodes += 1;
        let newest = self.tree.references.entry((node.inode, node.id)).or_default();
        if node.sequence >= newest.0 {
            *newest = (node.sequence, place);
        }
        true
    }

    /// Bytes that are no node, up to the next one or to blank bytes; where they end.
    fn no_node(&mut self, first: u32, at: usize, read: &BlockData) -> usize {
        // A sound header whose length makes no sense is no node, either.
        let mut end = at + 4;
        while end < read.data.len() {
            let rest = &read.data[end..];
            let is_node = rest.len() >= HEADER_BYTES && Header::parse(rest).is_valid();
            if is_node || rest.len() >= 4 && rest[..4] == [0xff; 4] {
                break;
            }
            end += 4;
        }
        let end = end.min(read.data.len());
        // A page that is flushed with too little room for a node of padding is filled with zeros.
        let page_bytes = self.medium.page_bytes as usize;
        let is_padding = end.is_multiple_of(page_bytes)
            && end - at < HEADER_BYTES
            && read.data[at..end].iter().all(|byte| *byte == 0);
        if !is_padding {
            let what = format!("{} bytes are no node, or its header is damaged", end - at);
            // The header of the node may have been in the page before, and lost with its tail.
            let follows_tear = at.is_multiple_of(page_bytes)
                && at > 0
                && read.data[at - 16..at].iter().all(|byte| *byte == 0xff);
            let is_torn = follows_tear || self.is_torn(at, end - at, read);
            let place = self.medium.place(first + at as u32);
            self.report.say(is_torn, place, remark(is_torn, &what));
        }
        end
    }

    /// Whether a cut explains what is wrong with bytes of a block.
    fn is_torn(&self, at: usize, length: usize, read: &BlockData) -> bool {
        let page_bytes = self.medium.page_bytes as usize;
        let pages = at / page_bytes..(at + length).div_ceil(page_bytes);
        read.is_half_erased()
            || pages.into_iter().any(|page| {
                let (start, end) = (page * page_bytes, (page + 1) * page_bytes);
                let inside = &read.data[at.max(start)..(at + length).min(end)];
                let tail = &inside[inside.len().saturating_sub(16)..];
                let rest = &read.data[(at + length).clamp(start, end)..end];
                let is_cut = tail.iter().chain(rest).all(|byte| *byte == 0xff);
                read.pages[page] == PageState::TornProgram || is_cut
            })
    }

    /// Compares a summary with the block it tells of.
    fn summary(&mut self, first: u32, read: &BlockData, found: &[(u32, u32)]) {
        let data = &read.data;
        let Some(at) = summary_offset(&data[data.len() - 8..], data.len() as u32) else { return };
        let Some(entries) = parse_summary(&data[at as usize..]) else {
            let place = self.medium.place(first + at);
            self.report.find(place, "the block ends with a summary that is damaged");
            return;
        };
        self.counts.summaries += 1;
        let told: Vec<(u32, u32)> = entries.iter().map(jffs2::SummaryEntry::place).collect();
        for (node, _) in told.iter().filter(|node| !found.contains(node)) {
            let place = self.medium.place(first + node);
            self.report.find(place, "the summary of the block names a node that is not there");
        }
        for (node, _) in found.iter().filter(|node| node.0 < at && !told.contains(node)) {
            let place = self.medium.place(first + node);
            self.report.find(place, "the summary of the block leaves out this node");
        }
    }
}

fn remark(is_torn: bool, what: &str) -> String {
    if is_torn { format!("{what} (a write was cut short here)") } else { what.into() }
}

impl Tree {
    fn check(&self, medium: &Medium<'_>, report: &mut Report) {
        let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
        let mut named: BTreeMap<u32, bool> = BTreeMap::new();
        for (parent, entries) in &self.entries {
            // Of one name the newest entry counts.
            let mut newest: BTreeMap<&[u8], (u32, u32, u8)> = BTreeMap::new();
            for (place, inode, kind, name) in entries.values() {
                newest.insert(name, (*place, *inode, *kind));
            }
            for (name, (place, inode, kind)) in newest {
                if inode == 0 {
                    continue;
                }
                let shown = format!("`{}` in directory {parent}", escape_path(name));
                if !self.inodes.contains_key(&inode) && inode != ROOT {
                    let what = format!("{shown} names inode {inode}, which is not there");
                    report.find(medium.place(place), what);
                    continue;
                }
                named.insert(inode, kind == DT_DIR);
                if kind == DT_DIR && parents.insert(inode, *parent).is_some() {
                    let what = format!("{shown}: directory {inode} has another name");
                    report.find(medium.place(place), what);
                }
            }
        }
        check_reach(&parents, report);
        let nameless = self.inodes.keys().filter(|inode| **inode != ROOT);
        let nameless = nameless.filter(|inode| !named.contains_key(inode)).count();
        if nameless > 0 {
            report.note("inodes", format!("{nameless} without a name, to be collected"));
        }
        self.check_attributes(medium, &named, report);
    }

    fn check_attributes(
        &self,
        medium: &Medium<'_>,
        named: &BTreeMap<u32, bool>,
        report: &mut Report,
    ) {
        for ((inode, id), (sequence, place)) in &self.references {
            // An odd sequence number takes the attribute away.
            let is_alive = sequence % 2 == 0 && (*inode == ROOT || named.contains_key(inode));
            if is_alive && !self.attributes.contains_key(id) {
                let what = format!("inode {inode} refers to attribute {id}, which is not there");
                report.find(medium.place(*place), what);
            }
        }
    }
}

/// Directories that hang on each other instead of on the root.
fn check_reach(parents: &BTreeMap<u32, u32>, report: &mut Report) {
    for inode in parents.keys() {
        let mut at = *inode;
        let mut steps = 0;
        while let Some(parent) = parents.get(&at)
            && at != ROOT
            && steps <= parents.len()
        {
            at = *parent;
            steps += 1;
        }
        if steps > parents.len() {
            report.find(format!("inode {inode}"), "the directory lies within itself");
        }
    }
}
