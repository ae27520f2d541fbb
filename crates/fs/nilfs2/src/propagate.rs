//! What the constructor does to block maps: blocks that are to be written get new virtual numbers, up
//! to the root, and then their places.
//!
//! Source: `nilfs_bmap_propagate` and `nilfs_bmap_assign` in `fs/nilfs2/btree.c` and `direct.c`.
//!
//! May use: `engine`, `file`, `finding`, `map`, `node`, `summary`, `tree`.

use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::finding::Code;
use crate::map::Pointers;
use crate::node;
use crate::summary::BlockInfo;
use crate::tree::Path;
use fs_api::{Errno, Place};
use std::rc::Rc;

impl Engine {
    /// A dirty block is taken into a log: makes the way to it dirty, and ends what older checkpoints
    /// show there.
    pub(crate) async fn propagate(&self, file: &File, buffer: &Rc<Buffer>) -> Result<(), Errno> {
        if file.cleaned_checkpoint.is_some() {
            // A moved block keeps its number; its entry in the DAT gets a new place, so that
            // entry's block joins the log.
            return self.dat_mark_dirty(buffer.virtual_block.get()).await;
        }
        let _lock = file.map_lock.write().await;
        if file.map.borrow().is_tree() {
            return self.propagate_in_tree(file, buffer).await;
        }
        // The DAT has no versions: its blocks get new places when the log is laid out.
        if file.map.borrow().pointers == Pointers::Physical {
            return Ok(());
        }
        let key = buffer.key.get();
        let pointer = self.map_find(file, key).await?.ok_or_else(|| self.unmapped(file, key))?;
        // It has a new number from this or an earlier attempt that no log has used; a second one
        // would leak the first.
        if buffer.is_volatile.get() {
            return self.dat_mark_dirty(pointer).await;
        }
        let new = self.renew(file, pointer).await?;
        buffer.is_volatile.set(true);
        file.map.borrow_mut().set_direct(key, new);
        file.is_dirty.set(true);
        Ok(())
    }

    fn unmapped(&self, file: &File, key: u64) -> Errno {
        self.damaged(
            Code::BadMap,
            Place::Inode(file.number),
            format!("inode {}: dirty block {key} is not mapped", file.number),
        )
    }

    /// A new virtual number in place of one that older checkpoints show.
    async fn renew(&self, file: &File, pointer: u64) -> Result<u64, Errno> {
        // As in the kernel the old number is still taken while a new one is looked for behind it.
        let new = self.dat_allocate(pointer).await?;
        self.end_pointer(file, pointer).await?;
        Ok(new)
    }

    /// The way to a block or node block; the block itself stands at its level.
    async fn path_to(&self, file: &File, buffer: &Rc<Buffer>) -> Result<(Path, usize), Errno> {
        let (key, level) = if buffer.is_node {
            let data = buffer.data.borrow();
            (node::key(&data, 0), node::level(&data))
        } else {
            (buffer.key.get(), 0)
        };
        let (found, mut path) = self.tree_search(file, key, level + 1).await?;
        if !found {
            return Err(self.unmapped(file, key));
        }
        path.steps[level as usize].node = Some(buffer.clone());
        Ok((path, level as usize))
    }

    async fn propagate_in_tree(&self, file: &File, buffer: &Rc<Buffer>) -> Result<(), Errno> {
        let (path, first) = self.path_to(file, buffer).await?;
        let is_physical = file.map.borrow().pointers == Pointers::Physical;
        if buffer.is_volatile.get() && !is_physical {
            self.dat_mark_dirty(path.pointer(file, first + 1)).await?;
        }
        file.is_dirty.set(true);
        for level in first..path.root_level() {
            let node = path.steps[level].node.clone().expect("below the root are blocks");
            // The way up from a node that is dirty already is dirty, or will be when it is taken.
            if level > first && node.is_dirty.get() {
                break;
            }
            if !is_physical && !node.is_volatile.get() {
                let old = path.pointer(file, level + 1);
                // Copy on write up to the root: the checkpoint before still leads to the old node.
                let new = self.renew(file, old).await?;
                let index = path.steps[level + 1].index;
                path.with(file, level + 1, |bytes| node::set_pointer(bytes, index, new));
                node.is_volatile.set(true);
                if node.is_node {
                    change_key(file, &node, new);
                }
            }
            node.is_dirty.set(true);
        }
        Ok(())
    }

    /// A block in a log gets its place; what the log's summary says of it.
    pub(crate) async fn assign(
        &self,
        file: &File,
        buffer: &Rc<Buffer>,
        block: u64,
    ) -> Result<BlockInfo, Errno> {
        if file.cleaned_checkpoint.is_some() {
            let virtual_block = buffer.virtual_block.get();
            self.dat_move(virtual_block, block).await?;
            let offset =
                if buffer.is_node { node::key(&buffer.data.borrow(), 0) } else { buffer.key.get() };
            return Ok(BlockInfo { virtual_block, offset, level: 0 });
        }
        let _lock = file.map_lock.write().await;
        let pointers = file.map.borrow().pointers;
        if !file.map.borrow().is_tree() {
            let key = buffer.key.get();
            let pointer =
                self.map_find(file, key).await?.ok_or_else(|| self.unmapped(file, key))?;
            if pointers == Pointers::Physical {
                file.map.borrow_mut().set_direct(key, block);
                return Ok(BlockInfo { virtual_block: 0, offset: key, level: 0 });
            }
            // The DAT learns the place while the DAT's own blocks are not yet assigned: they stand
            // last in the log.
            self.dat_start(pointer, block).await?;
            return Ok(BlockInfo { virtual_block: pointer, offset: key, level: 0 });
        }
        let (path, level) = self.path_to(file, buffer).await?;
        let index = path.steps[level + 1].index;
        let key = path.with(file, level + 1, |bytes| node::key(bytes, index));
        if pointers == Pointers::Physical {
            if buffer.is_node {
                change_key(file, buffer, block);
            }
            path.with(file, level + 1, |bytes| node::set_pointer(bytes, index, block));
            return Ok(BlockInfo { virtual_block: 0, offset: key, level: level as u8 });
        }
        let pointer = path.pointer(file, level + 1);
        self.dat_start(pointer, block).await?;
        Ok(BlockInfo { virtual_block: pointer, offset: key, level: level as u8 })
    }
}

/// A node block is found under another pointer now.
fn change_key(file: &File, node: &Rc<Buffer>, pointer: u64) {
    debug_assert!(node.is_node, "blocks of data are found by their place in the file");
    let mut nodes = file.nodes.borrow_mut();
    let old = node.key.replace(pointer);
    if nodes.get(&old).is_some_and(|there| Rc::ptr_eq(there, node)) {
        nodes.remove(&old);
    }
    nodes.insert(pointer, node.clone());
}
