//! Checks of JFFS2: every node on the medium, and what the nodes say of each other.
//!
//! Nodes that newer ones replace, and all nodes of deleted inodes, stay until their block is collected:
//! that is how the format works. So is a node that a power cut tore. What no history leaves behind is
//! an inconsistency: a node whose CRC is wrong though its page was written whole, two different nodes of
//! one version, and what the nodes together imply though it is missing (see `check_tree.rs`).

use super::check_tree::Tree;
use crate::medium::{BlockData, Medium, PageState};
use crate::report::Report;
use jffs2::nodes::{
    ACCURATE, CLEANMARKER, DIRENT, DIRENT_BYTES, DirentNode, HEADER_BYTES, Header, INODE,
    INODE_BYTES, InodeNode, MAGIC, PADDING, SUMMARY, XATTR, XREF, XattrNode, XrefNode, crc, padded,
};
use jffs2::{parse_summary, summary_offset};

/// The mark of a clean block in the spare area (`jffs2_cleanmarker` without its CRC).
const SPARE_MARKER: [u8; 8] = [0x85, 0x19, 0x03, 0x20, 8, 0, 0, 0];

/// How many nodes and blocks there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeCounts {
    /// Inode nodes, replaced ones among them.
    pub inode_nodes: u64,
    /// Directory entries, replaced ones among them.
    pub dirent_nodes: u64,
    /// Extended attributes and references to them.
    pub xattr_nodes: u64,
    /// Blocks with a summary.
    pub summaries: u64,
    /// Blocks that say that they were erased completely.
    pub clean_markers: u64,
}

/// Looks at every node of an image.
pub(crate) fn check_nodes(medium: &Medium<'_>, report: &mut Report) -> NodeCounts {
    let mut walk = Walk {
        medium,
        report,
        tree: Tree::default(),
        counts: NodeCounts::default(),
        obsolete: Vec::new(),
        has_marks_in_band: false,
    };
    for block in 0..medium.blocks {
        if !medium.is_bad(block)
            && let Some(data) = medium.block(block)
        {
            walk.block(block, &data);
        }
    }
    walk.obsolete_marks();
    let Walk { report, tree, counts, .. } = walk;
    tree.check(medium, report);
    counts
}

struct Walk<'a> {
    medium: &'a Medium<'a>,
    report: &'a mut Report,
    tree: Tree,
    counts: NodeCounts,
    /// Places of nodes that are marked obsolete.
    obsolete: Vec<u32>,
    /// Marks of clean blocks are nodes: this is no NAND, or an image made for none.
    has_marks_in_band: bool,
}

impl Walk<'_> {
    fn block(&mut self, block: u32, read: &BlockData) {
        self.report.add_pages(self.medium, block, read);
        let mut marker = [0xff; 8];
        // A layout with few free bytes holds only the beginning of the mark.
        let free_bytes = self.medium.layout().free_bytes().min(8);
        self.medium.layout().gather(&read.spare, 0, &mut marker[..free_bytes]);
        if marker[..free_bytes] == SPARE_MARKER[..free_bytes] {
            self.counts.clean_markers += 1;
        } else if marker[..free_bytes] != [0xff; 8][..free_bytes] {
            let place = self.medium.place(block * self.medium.block_bytes());
            // A program that was cut short has cleared some of the mark's bits and no others. A kernel
            // erases such a block (`jffs2_check_oob_empty`).
            let is_torn = marker.iter().zip(SPARE_MARKER).all(|(cell, mark)| cell & mark == mark);
            let what = "the spare area holds no clean marker of JFFS2";
            self.report.add(is_torn, place, remark(is_torn, what));
        }
        let first = block * self.medium.block_bytes();
        if read.is_half_erased() {
            self.report.add_note(self.medium.place(first), "the erase of the block was cut short");
            self.tree.has_lost_part();
        }
        let mut at = 0;
        let mut found = Vec::new();
        while at + HEADER_BYTES <= read.data.len() {
            let header = Header::parse(&read.data[at..]);
            let length = header.total_bytes as usize;
            // Blank bytes may lie between nodes: `jffs2_scan_eraseblock` goes on by four of them.
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

    /// On NOR flash and in RAM a node is marked by clearing one bit of its type. A page of NAND is not
    /// programmed again, and no kernel tries (`jffs2_can_mark_obsolete`).
    fn obsolete_marks(&mut self) {
        if self.has_marks_in_band {
            return;
        }
        for place in std::mem::take(&mut self.obsolete) {
            let what = "the node is marked obsolete, which is done on no NAND";
            self.report.add_finding(self.medium.place(place), what);
        }
    }

    /// Looks at a node with a sound header; true if a summary would name it.
    fn node(&mut self, first: u32, at: usize, header: Header, read: &BlockData) -> bool {
        let bytes = &read.data[at..at + header.total_bytes as usize];
        let place = first + at as u32;
        if header.node_type & ACCURATE == 0 {
            // The ECC of a page without its code may "correct" the very bit that marks a node.
            if self.is_torn(at, header.total_bytes as usize, read) {
                let what = "the node is marked obsolete";
                self.report.add_note(self.medium.place(place), remark(true, what));
                self.torn_node(header.node_type | ACCURATE, bytes);
            } else {
                self.obsolete.push(place);
            }
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
                self.has_marks_in_band = true;
                return false;
            }
            PADDING => return false,
            other => {
                let what = format!("a node of unknown type {other:#x}");
                self.report.add_finding(self.medium.place(place), what);
                return false;
            }
        };
        if !is_sound {
            let what = format!("the CRC of the node is wrong: {name}");
            let is_torn = self.is_torn(at, header.total_bytes as usize, read);
            self.report.add(is_torn, self.medium.place(place), remark(is_torn, &what));
            if is_torn {
                self.torn_node(header.node_type, bytes);
            }
        }
        is_sound && header.node_type != SUMMARY
    }

    fn torn_node(&mut self, node_type: u16, bytes: &[u8]) {
        match node_type {
            INODE => {
                self.tree.add_torn(InodeNode::parse(bytes).map(|node| node.inode));
                // It may be one of a directory, which counts its own nodes and its names together.
                self.tree.add_torn_names(1);
            }
            DIRENT => self.tree.add_torn_names(1),
            XATTR => self.tree.add_torn_attribute(),
            _ => {}
        }
    }

    fn inode(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = InodeNode::parse(bytes) else { return false };
        self.counts.inode_nodes += 1;
        let stored = bytes.get(INODE_BYTES..INODE_BYTES + node.stored_bytes as usize);
        if stored.is_none_or(|stored| crc(stored) != node.data_crc) {
            return false;
        }
        let block = place / self.medium.block_bytes();
        if let Some(other) = self.tree.add_inode(block, place, &node) {
            let (inode, version) = (node.inode, node.version);
            let what = format!("inode {inode} has another node of version {version} at {other:#x}");
            self.report.add_finding(self.medium.place(place), what);
        }
        true
    }

    fn dirent(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = DirentNode::parse(bytes) else { return false };
        self.counts.dirent_nodes += 1;
        let (block, parent, version) =
            (place / self.medium.block_bytes(), node.parent, node.version);
        if let Some(other) = self.tree.add_entry(block, place, node) {
            let what =
                format!("directory {parent} has another entry of version {version} at {other:#x}");
            self.report.add_finding(self.medium.place(place), what);
        }
        true
    }

    fn xattr(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = XattrNode::parse(bytes) else { return false };
        self.counts.xattr_nodes += 1;
        self.tree.add_attribute(node.id, place);
        true
    }

    fn xref(&mut self, place: u32, bytes: &[u8]) -> bool {
        let Some(node) = XrefNode::parse(bytes) else { return false };
        self.counts.xattr_nodes += 1;
        self.tree.add_reference(node.inode, node.id, node.sequence, place);
        true
    }

    /// Bytes that are no node, up to the next one or to blank bytes; where they end.
    fn no_node(&mut self, first: u32, at: usize, read: &BlockData) -> usize {
        let page_bytes = self.medium.page_bytes as usize;
        let page_end = (at + 1).next_multiple_of(page_bytes);
        // A page that is flushed is filled with zeros. Where more than a header would fit, a node of
        // padding comes first (`__jffs2_flush_wbuf` in `fs/jffs2/wbuf.c` compares with `<`).
        let rest = &read.data[at..page_end];
        if rest.len() <= HEADER_BYTES && rest.iter().all(|byte| *byte == 0) {
            return page_end;
        }
        if self.is_cut_header(at, page_end, read) {
            let place = self.medium.place(first + at as u32);
            self.report
                .add_note(place, "the header of a node was cut short at the end of the page");
            return page_end;
        }
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
        let what = format!("{} bytes are no node, or its header is damaged", end - at);
        // The header of the node may have been in the page before, and lost with its tail.
        let follows_tear = at.is_multiple_of(page_bytes)
            && at > 0
            && read.data[at - 16..at].iter().all(|byte| *byte == 0xff);
        let is_torn = follows_tear || self.is_torn(at, end - at, read);
        if is_torn {
            // Nodes of any kind may have been there.
            self.tree.add_torn(None);
            self.tree.add_torn_attribute();
            self.tree.add_torn_names(((end - at) as u64).div_ceil(DIRENT_BYTES as u64));
        }
        let place = self.medium.place(first + at as u32);
        self.report.add(is_torn, place, remark(is_torn, &what));
        end
    }

    /// A header that begins at the end of a page and goes on in the next one, which a cut left blank or
    /// torn, or which was written anew after the next mount: that goes on at the beginning of a page.
    fn is_cut_header(&self, at: usize, page_end: usize, read: &BlockData) -> bool {
        let begins = page_end - at < HEADER_BYTES
            && read.data[at..].starts_with(&MAGIC.to_le_bytes())
            && page_end < read.data.len();
        let next = page_end / self.medium.page_bytes as usize;
        begins
            && (matches!(read.pages[next], PageState::Blank | PageState::TornProgram)
                || Header::parse(&read.data[page_end..]).is_valid())
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
            // A kernel scans the block instead (`jffs2_sum_scan_sumnode`).
            let is_torn = self.is_torn(at as usize, data.len() - at as usize, read);
            let what = "the block ends with a summary that is damaged";
            self.report.add(is_torn, place, remark(is_torn, what));
            return;
        };
        self.counts.summaries += 1;
        let listed: Vec<(u32, u32)> = entries.iter().map(jffs2::SummaryEntry::place).collect();
        for (node, length) in listed.iter().filter(|node| !found.contains(node)) {
            // The erase of a block begins at its first page, and may end before it comes to the summary. A program
            // of the last page that was cut short loses the end of the node before the summary.
            let is_torn = self.is_torn(*node as usize, *length as usize, read);
            let what = "the summary of the block names a node that is not there";
            self.report.add(is_torn, self.medium.place(first + node), remark(is_torn, what));
        }
        for (node, _) in found.iter().filter(|node| node.0 < at && !listed.contains(node)) {
            let place = self.medium.place(first + node);
            self.report.add_finding(place, "the summary of the block leaves out this node");
        }
    }
}

fn remark(is_torn: bool, what: &str) -> String {
    if is_torn { format!("{what} (a write was cut short here)") } else { what.into() }
}
