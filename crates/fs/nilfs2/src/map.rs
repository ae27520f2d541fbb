//! Block maps: from a block of a file to its pointer, six of them direct or a B-tree.
//!
//! Pointers are virtual block numbers, which the DAT translates; those of the DAT itself are blocks of
//! the device. Source: `fs/nilfs2/bmap.c`, `direct.c`, `btree.c`.
//!
//! May use: `bytes`, `records`.

use crate::bytes::{get_u64, put_u64};
use crate::records::{CPFILE_INODE, DAT_INODE, MAP_BYTES, SUFILE_INODE};

/// Blocks that a direct map holds.
pub(crate) const DIRECT_BLOCKS: u64 = 6;
/// A virtual number that stands for none.
pub(crate) const NO_POINTER: u64 = 0;
// `NILFS_BMAP_NEW_PTR_INIT`: above every block number that a device can have.
/// Pointers of the DAT's new blocks count up from here until a log gives them a place.
const UNPLACED_POINTER: u64 = 1 << 63;
// `NILFS_INODE_BMAP_SIZE`, which `nilfs_bmap_find_target_seq` compares with.
/// Blocks nearer than this to the last one that was mapped follow it in sequence.
const SEQUENCE_DISTANCE: u64 = 7;

/// What pointers of a map are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pointers {
    /// Blocks of the device.
    Physical,
    /// Virtual numbers of which only the newest counts: no checkpoint shows older ones.
    Newest,
    /// Virtual numbers that live as long as a checkpoint shows them.
    Versioned,
}

/// A map in memory (`struct nilfs_bmap`).
#[derive(Clone, Debug)]
pub(crate) struct Map {
    /// As it stands in the inode.
    pub(crate) root: [u8; MAP_BYTES],
    pub(crate) pointers: Pointers,
    last_key: u64,
    last_pointer: u64,
}

impl Map {
    /// The map of an inode.
    pub(crate) fn new(number: u64, root: [u8; MAP_BYTES]) -> Self {
        let (pointers, last_pointer) = match number {
            DAT_INODE => (Pointers::Physical, UNPLACED_POINTER),
            CPFILE_INODE | SUFILE_INODE => (Pointers::Newest, NO_POINTER),
            _ => (Pointers::Versioned, NO_POINTER),
        };
        Self { root, pointers, last_key: 0, last_pointer }
    }

    /// A map of nothing.
    pub(crate) fn empty(number: u64) -> Self {
        Self::new(number, [0; MAP_BYTES])
    }

    pub(crate) fn is_tree(&self) -> bool {
        self.root[0] != 0
    }

    pub(crate) fn direct(&self, key: u64) -> u64 {
        debug_assert!(key < DIRECT_BLOCKS, "block {key} of a direct map");
        get_u64(&self.root, 8 + key as usize * 8)
    }

    pub(crate) fn set_direct(&mut self, key: u64, pointer: u64) {
        debug_assert!(!self.is_tree(), "a tree's root has other fields");
        debug_assert!(key < DIRECT_BLOCKS, "block {key} of a direct map");
        put_u64(&mut self.root, 8 + key as usize * 8, pointer);
    }

    /// Blocks of a direct map and their pointers.
    pub(crate) fn direct_entries(&self) -> Vec<(u64, u64)> {
        (0..DIRECT_BLOCKS)
            .map(|key| (key, self.direct(key)))
            .filter(|(_, pointer)| *pointer != NO_POINTER)
            .collect()
    }

    /// Virtual number to look for a free one at, if blocks are written one after the other.
    pub(crate) fn next_in_sequence(&self, key: u64) -> Option<u64> {
        let distance = key.wrapping_sub(self.last_key).cast_signed();
        let target = self.last_pointer.wrapping_add_signed(distance);
        let is_near = distance.unsigned_abs() < SEQUENCE_DISTANCE;
        (is_near && self.last_pointer != NO_POINTER && 0 < target && target < UNPLACED_POINTER)
            .then_some(target)
    }

    /// A pointer for a block of the DAT that has no place yet.
    pub(crate) fn unplaced_pointer(&mut self) -> Option<u64> {
        if self.pointers != Pointers::Physical {
            return None;
        }
        self.last_pointer += 1;
        Some(self.last_pointer)
    }

    pub(crate) fn remember(&mut self, key: u64, pointer: u64) {
        if self.pointers != Pointers::Physical {
            (self.last_key, self.last_pointer) = (key, pointer);
        }
    }
}
