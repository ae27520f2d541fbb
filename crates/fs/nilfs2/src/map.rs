//! Block maps: from a block of a file to its pointer, six of them direct or a B-tree.
//!
//! Pointers are virtual block numbers, which the DAT translates; those of the DAT itself are blocks of
//! the device. Source: `fs/nilfs2/bmap.c`, `direct.c`, `btree.c`.

use crate::ahead::arrived;
use crate::bytes::{get_u64, put_u64};
use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::finding::Code;
use crate::node;
use crate::records::{CPFILE_INODE, DAT_INODE, MAP_BYTES, SUFILE_INODE};
use fs_api::{Errno, Place};
use std::rc::Rc;

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
// `NILFS_BMAP_GROUP_DIV`.
/// New virtual numbers of files are spread over so many parts of a group of the DAT.
const GROUP_PARTS: u64 = 8;

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
    fn unplaced_pointer(&mut self) -> Option<u64> {
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

impl Engine {
    /// Pointer of a block of a file, none in a hole.
    pub(crate) async fn map_lookup(&self, file: &File, key: u64) -> Result<Option<u64>, Errno> {
        // The map's lock of a file comes before that of the DAT, which every look-up of a virtual
        // number needs.
        let _lock = file.map_lock.read().await;
        self.compute(self.options.costs.map_lookup_ns).await;
        // Blocks of users' files are looked up several at once, which reads nodes ahead
        // (`nilfs_btree_lookup_contig`).
        let reads_ahead = self.options.profile.reads_nodes_ahead && !file.is_metadata();
        self.map_find_with(file, key, reads_ahead).await
    }

    /// [`Engine::map_lookup`] under the map's lock, of that block alone (`nilfs_btree_lookup`).
    pub(crate) async fn map_find(&self, file: &File, key: u64) -> Result<Option<u64>, Errno> {
        self.map_find_with(file, key, false).await
    }

    async fn map_find_with(
        &self,
        file: &File,
        key: u64,
        reads_ahead: bool,
    ) -> Result<Option<u64>, Errno> {
        if file.map.borrow().is_tree() {
            let (found, path) =
                self.tree_search_with(file, key, node::LEVEL_MIN, reads_ahead).await?;
            return Ok(found.then(|| path.pointer(file, node::LEVEL_MIN as usize)));
        }
        let map = file.map.borrow();
        let pointer = if key < DIRECT_BLOCKS { map.direct(key) } else { NO_POINTER };
        Ok((pointer != NO_POINTER).then_some(pointer))
    }

    /// The last block of a file that is mapped.
    pub(crate) async fn map_last_key(&self, file: &File) -> Result<Option<u64>, Errno> {
        if file.map.borrow().is_tree() {
            return self.tree_last_key(file).await;
        }
        Ok(file.map.borrow().direct_entries().last().map(|(key, _)| *key))
    }

    /// Numbers of all blocks that are mapped, in order.
    pub(crate) async fn map_keys(&self, file: &File) -> Result<Vec<u64>, Errno> {
        if file.map.borrow().is_tree() {
            return self.tree_keys(file).await;
        }
        Ok(file.map.borrow().direct_entries().into_iter().map(|(key, _)| key).collect())
    }

    /// Maps a block that was a hole; its buffer, if there is one, counts as never written. False if it
    /// is mapped already.
    pub(crate) async fn map_insert(&self, file: &File, key: u64) -> Result<bool, Errno> {
        let _lock = file.map_lock.write().await;
        if self.map_find(file, key).await?.is_some() {
            return Ok(false);
        }
        let blocks = if file.map.borrow().is_tree() {
            self.tree_insert(file, key).await?
        } else if key >= DIRECT_BLOCKS {
            self.tree_from_direct(file, key).await?
        } else {
            let target = self.target(file, key, None);
            let pointer = self.new_pointer(file, target).await?;
            let mut map = file.map.borrow_mut();
            map.set_direct(key, pointer);
            map.remember(key, pointer);
            1
        };
        file.count_blocks(blocks, self.geometry.block_bytes);
        self.count_root_blocks(file, blocks);
        file.is_dirty.set(true);
        file.map_has_changed.set(true);
        Ok(true)
    }

    /// Takes a block out of the map, under its lock.
    pub(crate) async fn map_delete(&self, file: &File, key: u64) -> Result<(), Errno> {
        let blocks = if file.map.borrow().is_tree() {
            self.tree_delete(file, key).await?
        } else {
            let pointer = file.map.borrow().direct(key);
            self.end_pointer(file, pointer).await?;
            file.map.borrow_mut().set_direct(key, NO_POINTER);
            1
        };
        file.count_blocks(-blocks, self.geometry.block_bytes);
        self.count_root_blocks(file, -blocks);
        file.is_dirty.set(true);
        file.map_has_changed.set(true);
        Ok(())
    }

    /// Takes all blocks from `first` on out of the map.
    pub(crate) async fn map_truncate(&self, file: &File, first: u64) -> Result<(), Errno> {
        let _lock = file.map_lock.write().await;
        // From the end, as `nilfs_bmap_truncate` does: the tree shrinks from its right edge.
        while let Some(last) = self.map_last_key(file).await?
            && last >= first
        {
            self.map_delete(file, last).await?;
        }
        Ok(())
    }

    /// Where to look for a free virtual number for a new block: behind the last one, beside a
    /// neighbour, or in the inode's part of its group.
    pub(crate) fn target(&self, file: &File, key: u64, neighbour: Option<u64>) -> u64 {
        let sequence = file.map.borrow().next_in_sequence(key);
        sequence.or(neighbour).unwrap_or_else(|| {
            let per_group = self.geometry.entries_per_group();
            file.number / per_group * per_group
                + file.number % GROUP_PARTS * (per_group / GROUP_PARTS)
        })
    }

    /// A pointer for a block that has none.
    pub(crate) async fn new_pointer(&self, file: &File, target: u64) -> Result<u64, Errno> {
        let unplaced = file.map.borrow_mut().unplaced_pointer();
        match unplaced {
            Some(pointer) => Ok(pointer),
            None => self.dat_allocate(target).await,
        }
    }

    /// A pointer is not used any more.
    pub(crate) async fn end_pointer(&self, file: &File, pointer: u64) -> Result<(), Errno> {
        let pointers = file.map.borrow().pointers;
        match pointers {
            Pointers::Physical => Ok(()),
            Pointers::Newest => self.dat_end(pointer, true).await,
            Pointers::Versioned => self.dat_end(pointer, false).await,
        }
    }

    /// Block of the device that a pointer leads to.
    pub(crate) async fn physical(&self, file: &File, pointer: u64) -> Result<u64, Errno> {
        let block = match file.map.borrow().pointers {
            Pointers::Physical => Some(pointer),
            _ => None,
        };
        match block {
            Some(block) => Ok(block),
            None => self.dat_translate(pointer).await,
        }
    }

    /// A data block: from memory, or read and kept. None in a hole. Of a metadata file, blocks behind it
    /// are read ahead (`nilfs_mdt_get_block` without `create`).
    pub(crate) async fn data_block(
        &self,
        file: &File,
        offset: u64,
    ) -> Result<Option<Rc<Buffer>>, Errno> {
        self.data_block_with(file, offset, file.is_metadata()).await
    }

    async fn data_block_with(
        &self,
        file: &File,
        offset: u64,
        reads_ahead: bool,
    ) -> Result<Option<Rc<Buffer>>, Errno> {
        if let Some(buffer) = file.cached(offset) {
            return Ok(Some(buffer));
        }
        let keep = |data: Vec<u8>| {
            let mut cache = file.data.borrow_mut();
            cache.entry(offset).or_insert_with(|| Buffer::new(offset, data, false)).clone()
        };
        if let Some(data) = arrived(&file.data_ahead, offset).await {
            return Ok(Some(keep(data)));
        }
        let Some(pointer) = self.map_lookup(file, offset).await? else { return Ok(None) };
        // Whoever mapped the block meanwhile, or waited for it too, has put its buffer here.
        if let Some(buffer) = file.cached(offset) {
            return Ok(Some(buffer));
        }
        let block = self.physical(file, pointer).await?;
        let data = if reads_ahead {
            self.read_with_blocks_ahead(file, offset, block).await?
        } else {
            self.read_block(block).await?
        };
        Ok(Some(keep(data)))
    }

    /// A data block of a metadata file or directory; a hole is filled with what `begin`
    /// makes of zeros.
    pub(crate) async fn data_block_or_new(
        &self,
        file: &File,
        offset: u64,
        begin: impl FnOnce(&mut [u8]),
    ) -> Result<Rc<Buffer>, Errno> {
        let reads_ahead = self.options.profile.reads_ahead_to_make && file.is_metadata();
        if let Some(there) = self.data_block_with(file, offset, reads_ahead).await? {
            return Ok(there);
        }
        let mut data = vec![0; self.geometry.block_bytes as usize];
        begin(&mut data);
        debug_assert_eq!(data.len() as u64, self.geometry.block_bytes, "a whole block");
        let new = Buffer::new(offset, data, false);
        new.is_volatile.set(true);
        new.is_dirty.set(true);
        // The block is in memory before the map leads to it, so no task reads it from the medium.
        let buffer = file.data.borrow_mut().entry(offset).or_insert(new).clone();
        if let Err(error) = self.map_insert(file, offset).await {
            file.data.borrow_mut().remove(&offset);
            return Err(error);
        }
        file.is_dirty.set(true);
        Ok(buffer)
    }

    /// A node block of a map: from memory, or read, checked and kept.
    pub(crate) async fn node_block(&self, file: &File, pointer: u64) -> Result<Rc<Buffer>, Errno> {
        self.node_block_with(file, pointer, &[]).await
    }

    /// [`Engine::node_block`] that reads siblings of a node ahead.
    pub(crate) async fn node_block_with(
        &self,
        file: &File,
        pointer: u64,
        siblings: &[u64],
    ) -> Result<Rc<Buffer>, Errno> {
        let known = || file.nodes.borrow().get(&pointer).cloned();
        if let Some(buffer) = known() {
            return Ok(buffer);
        }
        let arrived = arrived(&file.nodes_ahead, pointer).await;
        if let Some(buffer) = known() {
            return Ok(buffer);
        }
        let block = self.physical(file, pointer).await?;
        let data = match arrived {
            Some(data) => data,
            None if siblings.is_empty() => self.read_block(block).await?,
            None => self.read_with_nodes_ahead(file, block, siblings).await?,
        };
        if let Some(fault) = node::fault(&data) {
            return Err(self.damaged(
                Code::BadMap,
                Place::Inode(file.number),
                format!("inode {}: block {block} is {fault}", file.number),
            ));
        }
        let mut nodes = file.nodes.borrow_mut();
        Ok(nodes.entry(pointer).or_insert_with(|| Buffer::new(pointer, data, true)).clone())
    }
}
