//! Writing nodes: data, directory entries.
//!
//! Source: `fs/jffs2/write.c`, `compr.c`.
//!
//! May use: `compress`, `engine`, `fragments`, `inode`, `nodes`, `state`, `summary`.

use crate::compress::{NONE, ZERO};
use crate::engine::Engine;
use crate::fragments::DataNode;
use crate::inode::{Inode, InodeData};
use crate::nodes::{
    DATA_BYTES_MIN, DIRENT, DirentNode, INODE, INODE_BYTES, InodeNode, PAGE_BYTES, padded,
};
use crate::state::{Entry, NodeId, NodeState, Owner, name_hash};
use crate::summary::entry_bytes;
use fs_api::Errno;
use std::rc::Rc;

/// On whose behalf room is taken (`ALLOC_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocation {
    /// A user's write, which leaves the reserve alone.
    Normal,
    /// A user's deletion, which may use the last blocks.
    Deletion,
    /// A copy by the collector, which may use the last blocks.
    Collect,
}

/// A node to be appended where room is reserved.
pub(crate) struct NodeToWrite {
    pub(crate) bytes: Vec<u8>,
    pub(crate) state: NodeState,
    pub(crate) owner: Owner,
    pub(crate) allocation: Allocation,
}

impl Engine {
    /// Appends a node and links it; once more, elsewhere, if a program failed.
    pub(crate) async fn write_node(&self, node: NodeToWrite) -> Result<NodeId, Errno> {
        let NodeToWrite { mut bytes, state: node_state, owner, allocation } = node;
        let length = padded(bytes.len() as u32);
        bytes.resize(length as usize, 0xff);
        let inode = match owner {
            // The collector's copies are not noted for `fsync`: their originals are on the medium.
            Owner::Inode(inode) if allocation != Allocation::Collect => inode,
            Owner::None | Owner::Inode(_) | Owner::Datum(_) | Owner::Reference(_) => 0,
        };
        let name_bytes = bytes.len() - bytes.len().min(40);
        let entry = entry_bytes(u16::from_le_bytes([bytes[2], bytes[3]]), name_bytes);
        for attempt in 0..3 {
            if attempt > 0 {
                let room = self.reserve_collecting(length, entry).await?;
                if room < length {
                    return Err(Errno::Enospc);
                }
            }
            let Some(offset) = self.write_offset() else { continue };
            debug_assert!(
                self.allocation.is_locked(),
                "the place of a node is its writer's while the allocation lock is held"
            );
            if self.write_buffered(offset, &bytes, inode).await.is_err() {
                continue;
            }
            let state = &mut *self.state.borrow_mut();
            let linked = state.link(offset, length, node_state, owner);
            debug_assert!(linked.is_some(), "{length} bytes at {offset:#x} were reserved");
            let id = linked.ok_or(Errno::Eio)?;
            if self.has_summary {
                state.summary.add(&bytes, offset % self.block_bytes);
            }
            self.count(|statistics| {
                statistics.node_bytes += u64::from(length);
                match allocation {
                    Allocation::Collect => statistics.nodes_collected += 1,
                    Allocation::Normal | Allocation::Deletion => statistics.nodes_written += 1,
                }
            });
            return Ok(id);
        }
        Err(Errno::Eio)
    }

    /// Writes an inode node where room is reserved (`jffs2_write_dnode`).
    pub(crate) async fn write_data_node(
        &self,
        node: InodeNode,
        data: &[u8],
        allocation: Allocation,
    ) -> Result<Rc<DataNode>, Errno> {
        self.charge_crc(INODE_BYTES + data.len()).await;
        let state = NodeState::of_data(&node);
        let bytes = node.to_bytes(data);
        let owner = Owner::Inode(node.inode);
        let id = self.write_node(NodeToWrite { bytes, state, owner, allocation }).await?;
        Ok(DataNode::new(id, node.offset, node.data_bytes))
    }

    /// Writes a directory entry where room is reserved (`jffs2_write_dirent`).
    pub(crate) async fn write_entry(
        &self,
        node: DirentNode,
        allocation: Allocation,
    ) -> Result<Entry, Errno> {
        let bytes = node.to_bytes();
        self.charge_crc(bytes.len()).await;
        let (state, owner) = (NodeState::of_entry(node.inode), Owner::Inode(node.parent));
        let id = self.write_node(NodeToWrite { bytes, state, owner, allocation }).await?;
        let DirentNode { version, inode, kind, name, .. } = node;
        Ok(Entry { node: id, version, inode, kind, name_hash: name_hash(&name), name })
    }

    /// Compresses the beginning of data to at most `room_bytes`: bytes taken, compressor, what is
    /// stored (`jffs2_compress`).
    pub(crate) async fn compress(&self, data: &[u8], room_bytes: usize) -> (usize, u8, Vec<u8>) {
        let room_bytes = room_bytes.min(data.len());
        for compressor in &self.compressors {
            let cost = self.options.costs.compress_ps_per_byte(compressor.id);
            self.charge(data.len(), cost).await;
            if let Some((taken, stored)) = compressor.compress(data, room_bytes) {
                return (taken, compressor.id, stored);
            }
        }
        (room_bytes, NONE, data[..room_bytes].to_vec())
    }

    /// Writes file data from `offset` on, a node a page (`jffs2_write_inode_range`).
    pub(crate) async fn write_range(
        &self,
        inode: &Inode,
        template: InodeNode,
        mut offset: u32,
        mut data: &[u8],
    ) -> Result<(), Errno> {
        while !data.is_empty() {
            let least = INODE_BYTES as u32 + DATA_BYTES_MIN;
            let room = self.reserve(least, Allocation::Normal, entry_bytes(INODE, 0)).await?;
            // Allocation lock before the inode's lock: the collector takes them in this order, too.
            let held = inode.lock.lock().await;
            // A node never crosses a page: the collector fetches and locks one page at a time.
            let to_page_end = (PAGE_BYTES - offset % PAGE_BYTES) as usize;
            let piece = &data[..data.len().min(to_page_end)];
            let (taken, compressor, stored) =
                self.compress(piece, room.bytes as usize - INODE_BYTES).await;
            debug_assert!(
                stored.len() + INODE_BYTES <= room.bytes as usize && taken > 0,
                "a node with a part of the data fits the room"
            );
            let mut node = template;
            // The number is drawn under the inode's lock, so that versions follow the order of
            // writes.
            node.version = inode.next_version();
            node.offset = offset;
            node.data_bytes = taken as u32;
            node.file_bytes =
                node.file_bytes.max(inode.data.borrow().bytes).max(offset + taken as u32);
            node.compressor = compressor;
            let written = self.write_data_node(node, &stored, Allocation::Normal).await?;
            {
                let state = &mut *self.state.borrow_mut();
                let known = &mut *inode.data.borrow_mut();
                known.fragments.add(&written, state);
                if let Some(metadata) = known.metadata.take() {
                    state.mark_obsolete(metadata.node.get());
                }
                known.bytes = known.bytes.max(offset + taken as u32);
                debug_assert!(known.fragments.end() <= known.bytes, "no data lies behind the end");
            }
            drop(held);
            drop(room);
            self.finish_change().await;
            offset += taken as u32;
            data = &data[taken..];
        }
        Ok(())
    }

    /// Writes a hole from the end of a file to `end` (`jffs2_write_begin`).
    pub(crate) async fn write_hole(
        &self,
        inode: &Inode,
        template: InodeNode,
        end: u32,
    ) -> Result<(), Errno> {
        let least = INODE_BYTES as u32;
        let room = self.reserve(least, Allocation::Normal, entry_bytes(INODE, 0)).await?;
        let held = inode.lock.lock().await;
        let mut node = template;
        let start = inode.data.borrow().bytes;
        node.version = inode.next_version();
        node.offset = start;
        node.data_bytes = end - start;
        node.file_bytes = end;
        node.compressor = ZERO;
        let written = self.write_data_node(node, &[], Allocation::Normal).await?;
        let state = &mut *self.state.borrow_mut();
        let known = &mut *inode.data.borrow_mut();
        known.fragments.add(&written, state);
        if let Some(metadata) = known.metadata.take() {
            state.mark_obsolete(metadata.node.get());
        }
        known.bytes = end;
        drop(held);
        drop(room);
        Ok(())
    }

    /// Writes an entry into a directory and reserves the room for it.
    pub(crate) async fn add_name(
        &self,
        directory: &Inode,
        name: &[u8],
        target: (u32, u8),
        seconds: u32,
        allocation: Allocation,
    ) -> Result<(), Errno> {
        let bytes = (crate::nodes::DIRENT_BYTES + name.len()) as u32;
        let room = self.reserve(bytes, allocation, entry_bytes(DIRENT, name.len())).await?;
        let held = directory.lock.lock().await;
        let node = DirentNode {
            parent: directory.number,
            version: directory.next_version(),
            inode: target.0,
            changed: seconds,
            kind: target.1,
            name: name.to_vec(),
        };
        let entry = self.write_entry(node, allocation).await?;
        {
            let known: &mut InodeData = &mut directory.data.borrow_mut();
            self.state.borrow_mut().add_entry(&mut known.entries, entry);
            known.modified = i64::from(seconds);
            known.changed = i64::from(seconds);
        }
        drop(held);
        drop(room);
        self.finish_change().await;
        Ok(())
    }
}
