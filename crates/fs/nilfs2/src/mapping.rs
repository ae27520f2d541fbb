//! Blocks of files by way of their maps: looked up, mapped, taken out, read.
//!
//! Source: `fs/nilfs2/bmap.c`, `mdt.c` (`nilfs_mdt_get_block`), `btree.c` (`__nilfs_btree_get_block`).
//!
//! May use: `ahead`, `engine`, `file`, `finding`, `map`, `node`, `readings`.

use crate::ahead::MappedBlock;
use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::finding::Code;
use crate::map::{DIRECT_BLOCKS, NO_POINTER, Pointers};
use crate::node;
use crate::readings::arrived;
use fs_api::{Errno, Place};
use std::rc::Rc;

// `NILFS_BMAP_GROUP_DIV`.
/// New virtual numbers of files are spread over so many parts of a group of the DAT.
const GROUP_PARTS: u64 = 8;

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
            self.read_with_blocks_ahead(file, MappedBlock { offset, block }).await?
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
