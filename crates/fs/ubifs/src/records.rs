//! What each operation writes to the journal, as one group of nodes.
//!
//! Source: `fs/ubifs/journal.c` (`ubifs_jnl_*`). A part of the engine: uses the engine, states and formats.

use crate::compress::Compressor;
use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::{Inode, flag};
use crate::keys::Key;
use crate::layout::{BASE_HEAD, DATA_HEAD};
use crate::nodes::{
    BLOCK_BYTES, DATA_BYTES, DataNode, EntryNode, INODE_BYTES, Place, TRUNCATION_BYTES,
    TruncationNode, kind,
};
use crate::position::Position;
use fs_api::{Errno, FileType, Place as FoundAt};
use std::rc::Rc;

/// A name that is made or removed.
#[derive(Clone, Copy)]
pub(crate) struct Naming<'a> {
    pub(crate) name: &'a [u8],
    /// The name is removed: its node names inode 0.
    pub(crate) is_removal: bool,
    /// It is the name of an extended attribute.
    pub(crate) is_attribute: bool,
}

impl Naming<'_> {
    fn key(&self, directory: u64) -> Key {
        if self.is_attribute {
            Key::attribute(directory, self.name)
        } else {
            Key::entry(directory, self.name)
        }
    }

    fn node_kind(&self) -> u8 {
        if self.is_attribute { kind::ATTRIBUTE } else { kind::ENTRY }
    }
}

/// Kinds of inodes in entries: f d l b c p s.
pub(crate) fn entry_type(kind: Option<FileType>) -> u8 {
    match kind {
        Some(FileType::Directory) => 1,
        Some(FileType::Symlink) => 2,
        Some(FileType::BlockDevice) => 3,
        Some(FileType::CharacterDevice) => 4,
        Some(FileType::Fifo) => 5,
        Some(FileType::Socket) => 6,
        Some(FileType::Regular) | None => 0,
    }
}

fn place(at: Position, bytes: usize) -> Place {
    Place::new(at, bytes as u32)
}

impl Engine {
    fn entry(directory: u64, naming: Naming<'_>, inode: &Inode) -> EntryNode {
        EntryNode {
            key: naming.key(directory),
            inode: if naming.is_removal { 0 } else { inode.number },
            file_type: entry_type(inode.kind()),
            cookie: 0,
            name: naming.name.to_vec(),
        }
    }

    /// Changes of the inode reach the medium before they return (`IS_SYNC`).
    pub(crate) fn is_synchronous(&self, inode: &Inode) -> bool {
        self.options.is_synchronous || inode.data.borrow().node.flags & flag::SYNC != 0
    }

    /// Changes of the names in a directory do so (`IS_DIRSYNC`).
    fn has_synchronous_names(&self, directory: &Inode) -> bool {
        let flags = directory.data.borrow().node.flags;
        self.options.is_synchronous || flags & (flag::SYNC | flag::DIRECTORY_SYNC) != 0
    }

    async fn index_entry(
        &self,
        directory: u64,
        naming: Naming<'_>,
        at: Place,
    ) -> Result<(), Errno> {
        let key = naming.key(directory);
        if naming.is_removal {
            self.tnc_remove_name(key, naming.name).await?;
            self.add_dirt(at.leb, at.bytes).await
        } else {
            self.tnc_add_name(key, at, naming.name).await
        }
    }

    /// A failure between the journal and the index cannot be taken back.
    pub(crate) fn or_broken<T>(&self, done: Result<T, Errno>) -> Result<T, Errno> {
        done.inspect_err(|error| self.turn_read_only(*error))
    }

    /// A name, its inode and the directory (`ubifs_jnl_update`).
    pub(crate) async fn log_name(
        &self,
        directory: &Rc<Inode>,
        naming: Naming<'_>,
        inode: &Rc<Inode>,
    ) -> Result<(), Errno> {
        let entry = Self::entry(directory.number, naming, inode).to_bytes();
        let (child, parent) = (Self::pack(inode), Self::pack(directory));
        let lengths = [entry.len(), child.len(), parent.len()];
        let is_last = naming.is_removal && inode.data.borrow().node.links == 0;
        if is_last {
            self.orphans.borrow_mut().add(inode.number);
        }
        let bytes = Self::group_bytes(&lengths);
        let mut reservation = match self.reservation(BASE_HEAD, bytes).await {
            Ok(reservation) => reservation,
            Err(error) => {
                if is_last {
                    self.orphans.borrow_mut().remove(inode.number);
                }
                return Err(error);
            }
        };
        if is_last {
            inode.data.borrow_mut().deleted_in = self.commit_number.get();
        }
        let nodes = vec![(naming.node_kind(), entry), (kind::INODE, child), (kind::INODE, parent)];
        // The inode of a new extended attribute is a synchronous one (`create_xattr` of `fs/ubifs/xattr.c`
        // sets `S_SYNC`), so that making one writes the buffer. An inode that goes is not waited for.
        let syncs = self.has_synchronous_names(directory)
            || !is_last && (naming.is_attribute || self.is_synchronous(inode));
        let inodes = [inode.number, directory.number];
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, &inodes, syncs).await?;
        let indexed = async {
            let entry = place(at[0], lengths[0]);
            self.index_entry(directory.number, naming, entry).await?;
            self.tnc_add(Key::inode(inode.number), place(at[1], lengths[1])).await?;
            self.tnc_add(Key::inode(directory.number), place(at[2], lengths[2])).await
        };
        self.or_broken(indexed.await)?;
        drop(reservation);
        self.make_inode_clean(inode);
        self.make_inode_clean(directory);
        Ok(())
    }

    /// A block of a file (`ubifs_jnl_write_data`).
    pub(crate) async fn log_data(
        &self,
        inode: &Inode,
        block: u32,
        data: &[u8],
    ) -> Result<(), Errno> {
        let wanted = Self::compressor_of(inode);
        self.charge(data.len(), self.options.costs.compress_ps_per_byte(wanted)).await;
        let (compressor, stored) = wanted.compress(data);
        let key = Key::data(inode.number, block);
        let node =
            DataNode { key, bytes: data.len() as u32, compressor: compressor.number(), stored };
        let node = node.to_bytes();
        let length = node.len();
        let mut reservation = self.reservation(DATA_HEAD, length).await?;
        let (nodes, inodes) = (vec![(kind::DATA, node)], [inode.number]);
        let at = self.write_group(DATA_HEAD, nodes, &mut reservation, &inodes, false).await?;
        self.or_broken(self.tnc_add(key, place(at[0], length)).await)?;
        drop(reservation);
        self.count(|statistics| {
            statistics.data_nodes += 1;
            statistics.data_bytes += data.len() as u64;
        });
        Ok(())
    }

    /// The compressor of a file is the one that it was made with, whatever is mounted now
    /// (`compr_type` of `struct ubifs_inode`).
    fn compressor_of(inode: &Inode) -> Compressor {
        let node = &inode.data.borrow().node;
        let known =
            Compressor::from_number(node.compressor).filter(|_| node.flags & flag::COMPRESS != 0);
        known.unwrap_or(Compressor::None)
    }

    /// An inode that has names (`ubifs_jnl_write_inode`).
    pub(crate) async fn log_inode(&self, inode: &Rc<Inode>) -> Result<(), Errno> {
        let node = Self::pack(inode);
        let length = node.len();
        let mut reservation = self.reservation(BASE_HEAD, length).await?;
        let (nodes, inodes) = (vec![(kind::INODE, node)], [inode.number]);
        let syncs = self.is_synchronous(inode);
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, &inodes, syncs).await?;
        self.or_broken(self.tnc_add(Key::inode(inode.number), place(at[0], length)).await)?;
        drop(reservation);
        Ok(())
    }

    /// Inodes of the extended attributes of an inode that goes, as nodes without links.
    async fn packed_attributes(&self, host: &Rc<Inode>) -> Result<Vec<(u8, Vec<u8>)>, Errno> {
        let mut nodes = Vec::new();
        let mut last = (Key::first_attribute(host.number), Vec::new());
        while let Some(entry) = self.next_entry(last.0, &last.1).await? {
            let value = self.inode(entry.inode).await?;
            value.data.borrow_mut().node.links = 0;
            nodes.push((kind::INODE, Self::pack(&value)));
            self.inodes.borrow_mut().remove(&value.number);
            last = (entry.key, entry.name);
        }
        Ok(nodes)
    }

    /// An inode without names leaves the index, and its extended attributes with it
    /// (`ubifs_jnl_write_inode` with `last_reference`).
    async fn log_last_inode(&self, inode: &Rc<Inode>) -> Result<(), Errno> {
        let kills_attributes = self.options.profile.deletes_attributes_by_node
            && inode.data.borrow().node.attribute_count > 0;
        let mut nodes =
            if kills_attributes { self.packed_attributes(inode).await? } else { Vec::new() };
        // The host is the last of the group: a replay must not delete it and keep its attributes.
        nodes.push((kind::INODE, Self::pack(inode)));
        let lengths: Vec<_> = nodes.iter().map(|(_, node)| node.len()).collect();
        let bytes = Self::group_bytes(&lengths);
        let mut reservation = self.reservation(BASE_HEAD, bytes).await?;
        let inodes = [inode.number];
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, &inodes, false).await?;
        let indexed = async {
            self.tnc_remove_inode(inode.number).await?;
            self.orphans.borrow_mut().remove(inode.number);
            self.add_dirt(at[0].leb, bytes as u32).await
        };
        self.or_broken(indexed.await)?;
        drop(reservation);
        Ok(())
    }

    /// An inode without names and users (`ubifs_jnl_delete_inode`): the journal has said so already
    /// if no commit was made since. It has not said so of extended attributes.
    pub(crate) async fn log_deletion(&self, inode: &Rc<Inode>) -> Result<(), Errno> {
        let (deleted_in, attributes) = {
            let data = inode.data.borrow();
            (data.deleted_in, data.node.attribute_count)
        };
        let has_attributes = self.options.profile.deletes_attributes_by_node && attributes > 0;
        if has_attributes || deleted_in != self.commit_number.get() {
            return self.log_last_inode(inode).await;
        }
        let held = self.commit_lock.read().await;
        // The first look was made without the lock: a commit may have been made since.
        if deleted_in != self.commit_number.get() {
            drop(held);
            return self.log_last_inode(inode).await;
        }
        self.or_broken(self.tnc_remove_inode(inode.number).await)?;
        self.orphans.borrow_mut().remove(inode.number);
        Ok(())
    }

    // One function: the nodes of the group and the places that they get must stay in one order.
    /// A name becomes another one, which may replace an inode; a whiteout may take the old one
    /// (`ubifs_jnl_rename`).
    pub(crate) async fn log_rename(
        &self,
        inode: &Rc<Inode>,
        from: (&Rc<Inode>, &[u8]),
        to: (&Rc<Inode>, &[u8]),
        replaced: Option<&Rc<Inode>>,
        whiteout: Option<&Rc<Inode>>,
    ) -> Result<(), Errno> {
        let named = |name, is_removal| Naming { name, is_removal, is_attribute: false };
        let (new, old) = (named(to.1, false), named(from.1, whiteout.is_none()));
        // The old name goes without a kind (`DT_UNKNOWN`), which is the number of regular files.
        let gone = match whiteout {
            Some(whiteout) => Self::entry(from.0.number, old, whiteout),
            None => EntryNode { file_type: 0, ..Self::entry(from.0.number, old, inode) },
        };
        let mut nodes = vec![
            (kind::ENTRY, Self::entry(to.0.number, new, inode).to_bytes()),
            (kind::ENTRY, gone.to_bytes()),
        ];
        let mut inodes = Vec::new();
        inodes.extend(replaced.cloned());
        inodes.extend(whiteout.cloned());
        inodes.push(from.0.clone());
        if to.0.number != from.0.number {
            inodes.push(to.0.clone());
        }
        nodes.extend(inodes.iter().map(|inode| (kind::INODE, Self::pack(inode))));
        let lengths: Vec<_> = nodes.iter().map(|(_, node)| node.len()).collect();
        let last = replaced.filter(|replaced| replaced.data.borrow().node.links == 0);
        if let Some(last) = last {
            self.orphans.borrow_mut().add(last.number);
        }
        let bytes = Self::group_bytes(&lengths);
        let mut reservation = match self.reservation(BASE_HEAD, bytes).await {
            Ok(reservation) => reservation,
            Err(error) => {
                if let Some(last) = last {
                    self.orphans.borrow_mut().remove(last.number);
                }
                return Err(error);
            }
        };
        if let Some(last) = last {
            last.data.borrow_mut().deleted_in = self.commit_number.get();
        }
        let numbers: Vec<_> = inodes.iter().map(|inode| inode.number).collect();
        // The kernel asks the inode that moves first (`do_rename` of `fs/ubifs/dir.c`).
        let syncs = self.is_synchronous(inode)
            && (self.has_synchronous_names(from.0)
                || self.has_synchronous_names(to.0)
                || replaced.is_some_and(|replaced| self.is_synchronous(replaced)));
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, &numbers, syncs).await?;
        let indexed = async {
            self.index_entry(to.0.number, new, place(at[0], lengths[0])).await?;
            self.index_entry(from.0.number, old, place(at[1], lengths[1])).await?;
            for (inode, (at, length)) in inodes.iter().zip(at.iter().zip(&lengths).skip(2)) {
                self.tnc_add(Key::inode(inode.number), place(*at, *length)).await?;
            }
            Ok(())
        };
        self.or_broken(indexed.await)?;
        drop(reservation);
        for inode in inodes {
            self.make_inode_clean(&inode);
        }
        Ok(())
    }

    /// Two names exchange what they name (`ubifs_jnl_xrename`).
    pub(crate) async fn log_exchange(
        &self,
        one: (&Rc<Inode>, &[u8], &Rc<Inode>),
        other: (&Rc<Inode>, &[u8], &Rc<Inode>),
    ) -> Result<(), Errno> {
        let named = |name| Naming { name, is_removal: false, is_attribute: false };
        let (first, second) = (named(other.1), named(one.1));
        let mut directories = vec![one.0.clone()];
        if other.0.number != one.0.number {
            directories.push(other.0.clone());
        }
        let mut nodes = vec![
            (kind::ENTRY, Self::entry(other.0.number, first, one.2).to_bytes()),
            (kind::ENTRY, Self::entry(one.0.number, second, other.2).to_bytes()),
        ];
        nodes.extend(directories.iter().map(|inode| (kind::INODE, Self::pack(inode))));
        let lengths: Vec<_> = nodes.iter().map(|(_, node)| node.len()).collect();
        let mut reservation = self.reservation(BASE_HEAD, Self::group_bytes(&lengths)).await?;
        let numbers: Vec<_> = directories.iter().map(|inode| inode.number).collect();
        let syncs = self.has_synchronous_names(one.0) || self.has_synchronous_names(other.0);
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, &numbers, syncs).await?;
        let indexed = async {
            self.index_entry(other.0.number, first, place(at[0], lengths[0])).await?;
            self.index_entry(one.0.number, second, place(at[1], lengths[1])).await?;
            for (inode, (at, length)) in directories.iter().zip(at.iter().zip(&lengths).skip(2)) {
                self.tnc_add(Key::inode(inode.number), place(*at, *length)).await?;
            }
            Ok(())
        };
        self.or_broken(indexed.await)?;
        drop(reservation);
        for directory in directories {
            self.make_inode_clean(&directory);
        }
        Ok(())
    }

    /// The shortened last block of a file that is cut within it.
    async fn cut_block(&self, inode: &Inode, new_size: u64) -> Result<Option<DataNode>, Errno> {
        let block = BLOCK_BYTES as u64;
        let (number, keep) = ((new_size / block) as u32, (new_size % block) as usize);
        if keep == 0 {
            return Ok(None);
        }
        let key = Key::data(inode.number, number);
        let Some(node) = self.tnc_lookup(key).await? else { return Ok(None) };
        let node = DataNode::parse(&node);
        if node.bytes as usize <= keep {
            return Ok(None);
        }
        let data = self.restore(&node).await?;
        // What was not compressed is not tried again (`truncate_data_node`).
        let wanted = Compressor::from_number(node.compressor).unwrap_or(Compressor::None);
        self.charge(keep, self.options.costs.compress_ps_per_byte(wanted)).await;
        let (compressor, stored) = wanted.compress(&data[..keep]);
        let compressor = compressor.number();
        Ok(Some(DataNode { key, bytes: keep as u32, compressor, stored }))
    }

    /// The data of a node, decompressed.
    pub(crate) async fn restore(&self, node: &DataNode) -> Result<Vec<u8>, Errno> {
        let bytes = node.bytes as usize;
        let compressor = Compressor::from_number(node.compressor);
        let data = match compressor {
            Some(compressor) if (1..=BLOCK_BYTES).contains(&bytes) => {
                self.charge(bytes, self.options.costs.decompress_ps_per_byte(compressor)).await;
                compressor.decompress(&node.stored, bytes)
            }
            _ => None,
        };
        data.ok_or_else(|| {
            let (inode, block) = (node.key.inode, node.key.low());
            self.find(
                Code::DamagedData,
                FoundAt::Inode(inode.into()),
                format!("inode {inode}: data of block {block} cannot be restored"),
            );
            Errno::Eio
        })
    }

    /// A file was cut to the size that its inode has now (`ubifs_jnl_truncate`).
    pub(crate) async fn log_cut(&self, inode: &Rc<Inode>, old_size: u64) -> Result<(), Errno> {
        let new_size = inode.data.borrow().node.size;
        debug_assert!(new_size < old_size, "a file that grows is not cut");
        let cut = TruncationNode { inode: inode.number as u32, old_size, new_size };
        let mut nodes = vec![(kind::INODE, Self::pack(inode)), (kind::TRUNCATION, cut.to_bytes())];
        let last = self.cut_block(inode, new_size).await?;
        let last_key = last.as_ref().map(|last| last.key);
        nodes.extend(last.map(|last| (kind::DATA, last.to_bytes())));
        let lengths: Vec<_> = nodes.iter().map(|(_, node)| node.len()).collect();
        debug_assert!(lengths[1] == TRUNCATION_BYTES && lengths[0] >= INODE_BYTES);
        let bytes = Self::group_bytes(&lengths);
        let mut reservation = self.reservation(BASE_HEAD, bytes).await?;
        let (syncs, inodes) = (self.is_synchronous(inode), [inode.number]);
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, &inodes, syncs).await?;
        let indexed = async {
            if let Some(key) = last_key {
                debug_assert!(lengths[2] > DATA_BYTES, "there is data");
                self.tnc_add(key, place(at[2], lengths[2])).await?;
            }
            self.tnc_add(Key::inode(inode.number), place(at[0], lengths[0])).await?;
            self.add_dirt(at[1].leb, TRUNCATION_BYTES as u32).await?;
            self.remove_blocks(cut).await
        };
        self.or_broken(indexed.await)?;
        drop(reservation);
        self.make_inode_clean(inode);
        Ok(())
    }

    /// An extended attribute is removed (`ubifs_jnl_delete_xattr`).
    pub(crate) async fn log_attribute_removal(
        &self,
        host: &Rc<Inode>,
        name: &[u8],
        value: &Rc<Inode>,
    ) -> Result<(), Errno> {
        let naming = Naming { name, is_removal: true, is_attribute: true };
        let nodes = vec![
            (kind::ATTRIBUTE, Self::entry(host.number, naming, value).to_bytes()),
            (kind::INODE, Self::pack(value)),
            (kind::INODE, Self::pack(host)),
        ];
        let lengths: Vec<_> = nodes.iter().map(|(_, node)| node.len()).collect();
        let mut reservation = self.reservation(BASE_HEAD, Self::group_bytes(&lengths)).await?;
        let (syncs, inodes) = (self.has_synchronous_names(host), [host.number]);
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, &inodes, syncs).await?;
        let indexed = async {
            self.index_entry(host.number, naming, place(at[0], lengths[0])).await?;
            self.tnc_remove_range(Key::inode(value.number), Key::last_of(value.number)).await?;
            self.add_dirt(at[1].leb, lengths[1] as u32).await?;
            self.tnc_add(Key::inode(host.number), place(at[2], lengths[2])).await
        };
        self.or_broken(indexed.await)?;
        drop(reservation);
        self.make_inode_clean(host);
        Ok(())
    }

    /// An extended attribute has another value (`ubifs_jnl_change_xattr`). The buffer is not written, not
    /// even where all else is synchronous: that function calls `write_head` with zero.
    pub(crate) async fn log_attribute_change(
        &self,
        host: &Rc<Inode>,
        value: &Rc<Inode>,
    ) -> Result<(), Errno> {
        let nodes = vec![(kind::INODE, Self::pack(host)), (kind::INODE, Self::pack(value))];
        let lengths: Vec<_> = nodes.iter().map(|(_, node)| node.len()).collect();
        let mut reservation = self.reservation(BASE_HEAD, Self::group_bytes(&lengths)).await?;
        let inodes = [host.number, value.number];
        // With synchronous names it does not note the inodes either, so that `fsync` misses the change.
        let noted = if self.has_synchronous_names(host) { &[] } else { &inodes[..] };
        let at = self.write_group(BASE_HEAD, nodes, &mut reservation, noted, false).await?;
        let indexed = async {
            self.tnc_add(Key::inode(host.number), place(at[0], lengths[0])).await?;
            self.tnc_add(Key::inode(value.number), place(at[1], lengths[1])).await
        };
        self.or_broken(indexed.await)?;
        drop(reservation);
        self.make_inode_clean(host);
        Ok(())
    }
}
