//! Checking everything: the index against the nodes it leads to, the LEB properties against what the
//! eraseblocks hold, names against inodes.
//!
//! What the kernel's `chk_index`, `chk_lprops`, `chk_orphans` and `chk_fs` look at (`fs/ubifs/debug.c`,
//! `lprops.c`). Above the engine: uses it with all its parts.

use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::ROOT;
use crate::keys::{Key, kind as key_kind};
use crate::lprops::SpaceSums;
use crate::lpt::TableEntry;
use crate::mount::Ubifs;
use crate::names::entry_size;
use crate::nodes::{
    BLOCK_BYTES, DataNode, EntryNode, INODE_BYTES, InodeNode, Place, aligned, kind, u16_at,
};
use crate::position::{LebNumber, Position};
use crate::records::entry_type;
use crate::scan::Scan;
use crate::tnc::ZnodeId;
use crate::xattr::value_size;
use fs_api::{Errno, FileType, Finding, Place as FoundAt};
use std::collections::BTreeMap;

/// What the walk through the index has met.
#[derive(Default)]
struct Seen {
    /// Nodes that the index leads to: place and key.
    leaves: Vec<(Place, Key)>,
    index_bytes: u64,
    complaints: Vec<String>,
}

/// What is counted of an inode.
#[derive(Default)]
struct Counted {
    node: Option<InodeNode>,
    /// Entries that lead to it, and directories among what its own entries lead to.
    names: u32,
    directories: u32,
    /// Size that its entries add up to.
    entry_bytes: u64,
    attributes: u32,
    attribute_name_bytes: u32,
    attribute_bytes: u64,
    last_byte: u64,
}

impl Ubifs {
    /// Reads all that the file system holds and returns what contradicts itself. What is dirty in
    /// memory counts as it will be written.
    ///
    /// # Errors
    /// [`Errno::Eio`] of the first node that cannot be read.
    pub async fn check(&self) -> Result<Vec<Finding>, Errno> {
        let engine = &self.engine;
        let mut seen = Seen::default();
        engine.check_index(&mut seen).await?;
        let mut complaints = std::mem::take(&mut seen.complaints);
        complaints.extend(engine.check_properties(&seen).await?);
        complaints.extend(engine.check_names(&seen).await?);
        let finding = |text| Code::Contradiction.at(FoundAt::Whole, text);
        Ok(complaints.into_iter().map(finding).collect())
    }
}

impl Engine {
    /// Order of keys, levels, and the size of the index (`dbg_walk_index`).
    async fn check_index(&self, seen: &mut Seen) -> Result<(), Errno> {
        let _held = self.tnc_lock.lock().await;
        let root = self.root_znode().await?;
        let mut rest: Vec<(ZnodeId, Key, Option<Key>)> = vec![(root, Key::default(), None)];
        while let Some((id, from, to)) = rest.pop() {
            let znode = self.tnc.borrow().get(id).clone();
            let place = self.tnc.borrow().branch_to(id).place;
            if !znode.is_dirty {
                seen.index_bytes += aligned(place.bytes as usize) as u64;
            }
            for (at, branch) in znode.branches.iter().enumerate() {
                let end = znode.branches.get(at + 1).map(|next| next.key).or(to);
                let is_inside = branch.key >= from && end.is_none_or(|end| branch.key <= end);
                if !is_inside {
                    let complaint = format!("index: {:?} is out of order", branch.key);
                    seen.complaints.push(complaint);
                }
                if znode.level == 0 {
                    seen.leaves.push((branch.place, branch.key));
                } else {
                    rest.push((self.child_znode(id, at).await?, branch.key, end));
                }
            }
        }
        let counted = self.tnc.borrow().index_bytes;
        if counted != seen.index_bytes {
            let found = seen.index_bytes;
            seen.complaints.push(format!("index: {found} bytes, counted {counted}"));
        }
        Ok(())
    }

    /// Free and dirty space of each eraseblock of the main area, and the sums (`scan_check_cb`).
    async fn check_properties(&self, seen: &Seen) -> Result<Vec<String>, Errno> {
        let mut complaints = Vec::new();
        let mut used: BTreeMap<LebNumber, u64> = BTreeMap::new();
        for (place, _) in &seen.leaves {
            *used.entry(place.leb).or_default() += aligned(place.bytes as usize) as u64;
        }
        let mut sums = SpaceSums::default();
        for leb in self.layout.main_first.run(self.layout.main_lebs) {
            let (properties, is_taken) = self.properties(leb).await?;
            let whole = self.layout.leb_bytes;
            let (free, dirty) = (properties.free, properties.dirty);
            sums.add(properties, is_taken, &self.layout);
            let mut in_use = used.get(&leb).copied().unwrap_or(0);
            if properties.is_index {
                in_use += self.index_bytes_in(leb).await?;
            }
            if in_use + u64::from(free) + u64::from(dirty) != u64::from(whole) {
                complaints.push(format!(
                    "LEB {leb}: {in_use} bytes in use, properties say {free} free and {dirty} dirty"
                ));
            }
            // A commit that was cut may have filled gaps of an eraseblock of the index and changed its
            // end, which is no matter: nothing is written there again. A mount that may not write
            // leaves torn ends where they are.
            let has_end = !properties.is_index || leb == self.space.borrow().index_head.leb;
            if free + dirty != whole && has_end && !self.is_read_only() {
                complaints.extend(self.check_end(leb, free).await?);
            }
        }
        let counted = self.lpt.borrow().lebs.sums;
        if counted != sums {
            complaints.push(format!("sums: {sums:?}, counted {counted:?}"));
        }
        complaints.extend(self.check_table());
        Ok(complaints)
    }

    /// Free and dirty space of each eraseblock of the tree of LEB properties itself, as its table has
    /// them (`dbg_chk_lpt_ltab` of `fs/ubifs/lpt_commit.c`). All of the tree is in memory.
    fn check_table(&self) -> Vec<String> {
        let lpt = self.lpt.borrow();
        let (shape, first) = (&self.layout.lpt, self.layout.lpt_first);
        let mut in_use = vec![0_u64; lpt.table.len()];
        let mut count = |place: Option<Position>, bytes: u32| {
            let at = place.and_then(|place| place.leb.get().checked_sub(first.get()));
            if let Some(sum) = at.and_then(|at| in_use.get_mut(at as usize)) {
                *sum += u64::from(bytes);
            }
        };
        // What is dirty in memory is out of use where it stands on the medium.
        for (number, pnode) in (0..).zip(&lpt.pnodes) {
            if pnode.is_some_and(|pnode| !pnode.is_dirty) {
                count(lpt.pnode_place(number), shape.pnode_bytes);
            }
        }
        for (level, nnodes) in lpt.levels.iter().enumerate() {
            for (number, nnode) in (0..).zip(nnodes) {
                if nnode.is_some_and(|nnode| !nnode.is_dirty) {
                    count(lpt.nnode_place(level, number), shape.nnode_bytes);
                }
            }
        }
        if !lpt.is_table_dirty {
            count(Some(lpt.table_place), shape.table_bytes);
        }
        if shape.is_big && !lpt.is_saved_dirty {
            count(Some(lpt.saved_place), shape.saved_bytes);
        }
        let whole = u64::from(self.layout.leb_bytes);
        let lebs = first.run(self.layout.lpt_lebs).zip(lpt.table.iter().zip(in_use));
        let wrong = lebs.filter(|(_, (entry, in_use))| {
            in_use + u64::from(entry.free) + u64::from(entry.dirty) != whole
        });
        let shown = wrong.map(|(leb, (entry, in_use))| {
            let TableEntry { free, dirty, .. } = entry;
            format!(
                "LEB {leb}: {in_use} bytes in use, the table of LEB properties says {free} free and \
                 {dirty} dirty"
            )
        });
        shown.collect()
    }

    /// Whether an eraseblock is written exactly to where its free space begins.
    async fn check_end(&self, leb: LebNumber, free: u32) -> Result<Option<String>, Errno> {
        let mut bytes = self.read_leb(Position::start_of(leb)).await?;
        let mut end = self.layout.leb_bytes.saturating_sub(free);
        for head in &self.heads {
            let buffer = head.buffer.borrow();
            if buffer.leb == Some(leb) {
                buffer.overlap(0, &mut bytes);
                end = buffer.end();
            }
        }
        bytes.truncate(end as usize);
        Ok(match Scan::of(&bytes, 0, 8) {
            Ok(scan) if scan.end == end => None,
            Ok(scan) => Some(format!("LEB {leb}: nodes end at {}, not at {end}", scan.end)),
            Err(damage) => Some(format!("LEB {leb}:{}: damaged", damage.offset)),
        })
    }

    /// Bytes of the nodes of the index in an eraseblock that are in use.
    async fn index_bytes_in(&self, leb: LebNumber) -> Result<u64, Errno> {
        let bytes = self.read_leb(Position::start_of(leb)).await?;
        // A commit that was cut leaves a torn end behind the nodes in use. A node in use that is damaged
        // is not counted, and the sum is wrong.
        let nodes = Scan::leading(&bytes);
        let _held = self.tnc_lock.lock().await;
        let mut in_use = 0;
        for found in nodes.iter().filter(|found| found.header.kind == kind::INDEX) {
            let node = &bytes[found.offset as usize..];
            let (key, level) = (Key::parse(&node[40..]), u16_at(node, 26));
            let known = self.find_znode(key, level, Position::new(leb, found.offset)).await?;
            if known.is_some_and(|id| !self.tnc.borrow().get(id).is_dirty) {
                in_use += aligned(found.header.bytes) as u64;
            }
        }
        Ok(in_use)
    }

    /// Links, sizes and entries (`dbg_check_filesystem`).
    async fn check_names(&self, seen: &Seen) -> Result<Vec<String>, Errno> {
        let mut complaints = Vec::new();
        let mut inodes: BTreeMap<u64, Counted> = BTreeMap::new();
        let mut entries = Vec::new();
        for (place, key) in &seen.leaves {
            let node = self.read_keyed(*place, *key).await?;
            let inode = inodes.entry(u64::from(key.inode)).or_default();
            match key.kind() {
                key_kind::INODE => inode.node = InodeNode::parse(&node),
                key_kind::DATA => {
                    let data = DataNode::parse(&node);
                    self.restore(&data).await?;
                    let start = u64::from(key.low()) * BLOCK_BYTES as u64;
                    inode.last_byte = inode.last_byte.max(start + u64::from(data.bytes));
                }
                _ => {
                    let entry = EntryNode::parse(&node).ok_or(Errno::Eio)?;
                    entries.push((*key, entry));
                }
            }
        }
        for (key, entry) in entries {
            let mode = inodes.get(&entry.inode).and_then(|child| child.node.as_ref());
            complaints.extend(Self::check_entry(key, &entry, mode.map(|node| node.mode)));
            let child = inodes.entry(entry.inode).or_default();
            child.names += 1;
            let mode = child.node.as_ref().map_or(0, |node| node.mode);
            let value_bytes = child.node.as_ref().map_or(0, |node| node.data.len());
            let is_directory = FileType::from_mode(mode) == Some(FileType::Directory);
            let parent = inodes.entry(u64::from(key.inode)).or_default();
            if key.kind() == key_kind::ENTRY {
                parent.directories += u32::from(is_directory);
                parent.entry_bytes += entry_size(&entry.name);
            } else {
                parent.attributes += 1;
                parent.attribute_name_bytes += entry.name.len() as u32;
                parent.attribute_bytes +=
                    entry_size(&entry.name) + u64::from(value_size(value_bytes));
            }
        }
        for (number, inode) in inodes {
            complaints.extend(self.check_inode(number, &inode));
        }
        Ok(complaints)
    }

    /// Whether a name can be, and stands under the key of its hash: it could not be looked up otherwise.
    fn check_entry(key: Key, entry: &EntryNode, mode: Option<u32>) -> Vec<String> {
        let is_attribute = key.kind() == key_kind::ATTRIBUTE;
        let owner = u64::from(key.inode);
        let shown = entry.name.escape_ascii();
        let mut complaints = Vec::new();
        let mut complain = |what: &str| {
            complaints.push(format!("inode {owner}: name `{shown}`: {what}"));
        };
        let is_possible = !entry.name.is_empty()
            && !entry.name.contains(&0)
            && (is_attribute
                || !matches!(&entry.name[..], b"." | b"..") && !entry.name.contains(&b'/'));
        if !is_possible {
            complain("no file can have it");
        }
        let own_key = if is_attribute {
            Key::attribute(owner, &entry.name)
        } else {
            Key::entry(owner, &entry.name)
        };
        // A superblock with another hash than R5 is not mounted.
        if key != own_key {
            complain("its hash is not that of its key");
        }
        let kind = mode.and_then(FileType::from_mode);
        if kind.is_some() && entry.file_type != entry_type(kind) {
            complain("it names another kind of file than its inode is");
        }
        complaints
    }

    fn check_inode(&self, number: u64, counted: &Counted) -> Vec<String> {
        let complain = |what: String| format!("inode {number}: {what}");
        let Some(node) = &counted.node else { return vec![complain("no inode node".into())] };
        let mut complaints = Vec::new();
        let mut must_be = |what: &str, found: u64, stored: u64| {
            if found != stored {
                complaints.push(complain(format!("{what}: {found}, the inode says {stored}")));
            }
        };
        let is_directory = FileType::from_mode(node.mode) == Some(FileType::Directory);
        if is_directory {
            let links =
                if counted.names > 0 || number == ROOT { 2 + counted.directories } else { 0 };
            must_be("links", links.into(), node.links.into());
            must_be("size", INODE_BYTES as u64 + counted.entry_bytes, node.size);
        } else {
            must_be("links", counted.names.into(), node.links.into());
        }
        must_be("attributes", counted.attributes.into(), node.attribute_count.into());
        must_be("bytes of attributes", counted.attribute_bytes, node.attribute_bytes.into());
        let (names, stored) = (counted.attribute_name_bytes, node.attribute_name_bytes);
        must_be("bytes of names of attributes", names.into(), stored.into());
        let known = self.inodes.borrow().get(&number).map(|inode| inode.data.borrow().node.size);
        if counted.last_byte > known.unwrap_or(node.size).next_multiple_of(BLOCK_BYTES as u64) {
            complaints.push(complain(format!("data behind its end: {}", counted.last_byte)));
        }
        complaints
    }
}
