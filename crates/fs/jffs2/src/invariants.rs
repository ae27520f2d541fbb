//! What must hold of a whole mount between two calls: the state, the inodes in use, the write-buffer.
//!
//! The tests alone use it.
//!
//! May use: `engine`, `finding`, `inode`, `mount`, `state`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::InodeData;
use crate::mount::Jffs2;
use crate::state::{InodeState, NodeId, Owner};
use fs_api::{FileType, Finding};
use std::collections::BTreeMap;

impl Jffs2 {
    /// Compares all that the mount keeps in memory with itself: the space of every block, the lists, the
    /// nodes of every inode in use, the references to extended attributes. Damage of the medium changes
    /// none of it. No other call may be under way. It takes time in proportion to the nodes of the medium.
    ///
    /// # Panics
    /// If the memory contradicts itself, which is a defect of this crate.
    pub fn check_invariants(&self) {
        self.engine.assert_invariants();
    }
}

impl Engine {
    fn assert_invariants(&self) {
        self.state.borrow().assert_invariants();
        self.assert_inodes();
        self.assert_references();
        // While a pass of the collector holds the lock it may be half through a node.
        if !self.allocation.is_locked() {
            self.assert_write_position();
        }
    }

    /// What an inode in use shows stands in live nodes of its own.
    fn assert_inodes(&self) {
        let state = self.state.borrow();
        // Nodes whose page found no place after a failed program are obsolete, and shown all the same.
        let is_loss = |found: &Finding| found.code == Code::LostNodes.name();
        let has_lost = self.findings.borrow().iter().any(is_loss);
        for (number, cache) in &state.inodes {
            assert_eq!(
                cache.state == InodeState::Present,
                self.inodes.borrow().contains_key(number),
                "inode {number} is in use, {:?}",
                cache.state
            );
        }
        for (number, inode) in &*self.inodes.borrow() {
            assert_eq!(inode.number, *number, "the key of an inode in use is its number");
            let data = inode.data.borrow();
            data.fragments.assert_invariants();
            assert_entries_sorted(&data, *number);
            if FileType::from_mode(data.mode) == Some(FileType::Regular) {
                assert!(
                    data.fragments.end() <= data.bytes,
                    "data behind the end of inode {number}"
                );
            }
            let check = |id: NodeId| {
                let node = state.node(id);
                assert_eq!(node.owner, Owner::Inode(*number), "owner of node {id}");
                assert!(
                    has_lost || !state.is_obsolete(id),
                    "inode {number} shows obsolete node {id} at {:#x}",
                    node.offset
                );
            };
            data.fragments.iter().filter_map(|part| part.data.as_ref()).for_each(|data| {
                check(data.node.get());
            });
            data.metadata.iter().for_each(|data| check(data.node.get()));
            data.entries.iter().for_each(|entry| check(entry.node));
        }
    }

    /// A value counts the references of inodes to it.
    fn assert_references(&self) {
        let state = self.state.borrow();
        let mut counted: BTreeMap<u32, u32> = BTreeMap::new();
        for cache in state.inodes.values() {
            for number in &cache.references {
                *counted.entry(state.attributes.references[number].id).or_default() += 1;
            }
        }
        for (id, datum) in &state.attributes.data {
            let count = counted.get(id).copied().unwrap_or_default();
            assert_eq!(datum.references, count, "references to value {id}");
        }
    }

    /// The buffer holds what comes directly before the place of the next node.
    fn assert_write_position(&self) {
        let state = self.state.borrow();
        let buffer = &state.write_buffer;
        assert!(
            buffer.bytes.len() < self.page_bytes as usize,
            "a full page of {} bytes waits",
            buffer.bytes.len()
        );
        if !buffer.bytes.is_empty() {
            let end = buffer.offset.map(|start| start + buffer.bytes.len() as u32);
            assert_eq!(end, self.write_offset(), "the buffer ends where the next node begins");
        }
    }
}

/// Entries are in the order of their hashes, and no two have one name.
fn assert_entries_sorted(data: &InodeData, number: u32) {
    for pair in data.entries.windows(2) {
        assert!(pair[0].name_hash <= pair[1].name_hash, "order of the entries of inode {number}");
    }
    for (at, entry) in data.entries.iter().enumerate() {
        let mut later = data.entries[at + 1..].iter();
        let is_twice = later
            .by_ref()
            .take_while(|other| other.name_hash == entry.name_hash)
            .any(|other| other.name == entry.name);
        assert!(!is_twice, "inode {number} has one name twice");
    }
}
