//! Reading an inode in: from its nodes to fragments and entries.
//!
//! Source: `fs/jffs2/readinode.c`.
//!
//! May use: `compress`, `engine`, `finding`, `fragments`, `inode`, `nodes`, `state`.

use crate::compress::ZERO;
use crate::engine::Engine;
use crate::finding::Code;
use crate::fragments::DataNode;
use crate::inode::{Inode, InodeData};
use crate::nodes::{
    DIRENT, DIRENT_BYTES, DirentNode, HEADER_BYTES, Header, INODE, INODE_BYTES, InodeNode,
    PAGE_BYTES, TARGET_BYTES_MAX, crc_continued,
};
use crate::state::{Entry, InodeState, NodeId, NodeRef, NodeState, name_hash};
use fs_api::{Errno, FileType, Place};
use std::collections::BTreeMap;
use std::rc::Rc;

/// A data node that was found on the medium (`jffs2_tmp_dnode_info`).
struct Candidate {
    id: NodeId,
    node: InodeNode,
    /// Bytes of data whose CRC is known, and the CRC.
    partial: (usize, u32),
}

/// All that the nodes of an inode tell.
#[derive(Default)]
struct Gathered {
    candidates: Vec<Candidate>,
    metadata: Option<Candidate>,
    entries: Vec<Entry>,
    highest_version: u32,
    /// Time and version of the newest entry.
    newest_entry: (u32, u32),
}

impl Engine {
    /// The inode of a number, read in if it is not in use (`jffs2_iget`).
    pub(crate) async fn inode(&self, number: u32) -> Result<Rc<Inode>, Errno> {
        loop {
            if let Some(inode) = self.inodes.borrow().get(&number) {
                return Ok(inode.clone());
            }
            let state = {
                let state = &mut *self.state.borrow_mut();
                if number == 1 {
                    state.inode_cache(1);
                }
                let cache = state.inodes.get_mut(&number).ok_or(Errno::Enoent)?;
                match cache.state {
                    InodeState::Unchecked | InodeState::CheckedAbsent => {
                        // Deleted, while its nodes are not erased yet. It must not come back by
                        // number (file handles).
                        if cache.parent_or_links == 0 {
                            return Err(Errno::Enoent);
                        }
                        // Others that want the inode wait until it is read (`INO_STATE_READING`).
                        std::mem::replace(&mut cache.state, InodeState::Reading)
                    }
                    other => other,
                }
            };
            match state {
                InodeState::Unchecked | InodeState::CheckedAbsent => {
                    let read = self.read_inode(number).await;
                    // After a failure the old state returns, so that the next caller tries again.
                    let found = if read.is_ok() { InodeState::Present } else { state };
                    let inode = read.map(|data| Inode::new(number, data, &self.sim));
                    if let Ok(inode) = &inode {
                        let other = self.inodes.borrow_mut().insert(number, inode.clone());
                        debug_assert!(other.is_none(), "inode {number} is in use once");
                    }
                    self.set_state(number, found);
                    self.write_marks().await;
                    return inode;
                }
                _ => self.inode_waiters.wait().await,
            }
        }
    }

    pub(crate) fn set_state(&self, number: u32, to: InodeState) {
        if let Some(cache) = self.state.borrow_mut().inodes.get_mut(&number) {
            cache.state = to;
        }
        self.inode_waiters.wake_all();
    }

    /// Checks the data of an inode that is not in use (`jffs2_do_crccheck_inode`).
    pub(crate) async fn check_inode(&self, number: u32) -> Result<(), Errno> {
        let read = self.read_inode(number).await;
        if read.is_err() {
            // What cannot be read must not keep the collector waiting for ever.
            let state = &mut *self.state.borrow_mut();
            let nodes = state.inodes.get(&number).map(|cache| cache.nodes.clone());
            for id in nodes.unwrap_or_default() {
                if state.node(id).state == NodeState::Unchecked {
                    state.mark_checked(id, NodeState::Normal);
                }
            }
        }
        read.map(drop)
    }

    /// Reads all nodes of an inode (`jffs2_do_read_inode_internal`).
    async fn read_inode(&self, number: u32) -> Result<InodeData, Errno> {
        let mut gathered = self.gather(number).await?;
        let candidates = std::mem::take(&mut gathered.candidates);
        let checked = self.check_candidates(candidates).await?;
        let (data, latest, special) = self.assemble(number, gathered, &checked)?;
        if let Some(latest) = latest {
            // The kernel reads the newest node once more for the attributes.
            let mut head = [0; INODE_BYTES];
            self.read(latest.offset, &mut head).await?;
            self.charge_crc(INODE_BYTES).await;
        }
        match special {
            Some(node) => self.read_special(number, data, node).await,
            None => Ok(data),
        }
    }

    /// Puts together what was read; a link or device has a node that is still to be read.
    fn assemble(
        &self,
        number: u32,
        gathered: Gathered,
        checked: &[Candidate],
    ) -> Result<(InodeData, Option<NodeRef>, Option<NodeRef>), Errno> {
        // One function: the state is borrowed once, so that no task sees an inode of which half is
        // put together.
        let mut data = InodeData {
            highest_version: gathered.highest_version,
            entries: gathered.entries,
            ..InodeData::default()
        };
        let mut latest = gathered.metadata.as_ref().map(|candidate| (candidate.id, candidate.node));
        for candidate in checked {
            if latest.is_none_or(|(_, node)| candidate.node.version > node.version) {
                latest = Some((candidate.id, candidate.node));
            }
        }
        let state = &mut *self.state.borrow_mut();
        // Oldest first: each node is laid over the ones before it.
        for Candidate { id, node, .. } in checked.iter().rev() {
            data.fragments.add(&DataNode::new(*id, node.offset, node.data_bytes), state);
        }
        let Some((latest_id, latest)) = latest else {
            if number != 1 {
                self.find(
                    Code::InodeWithoutNode,
                    Place::Inode(number.into()),
                    format!("inode {number} has no node"),
                );
                if data.entries.is_empty() {
                    return Err(Errno::Eio);
                }
            }
            // mkfs.jffs2 writes no node for the root. The kernel makes one up in the same way.
            data.mode = FileType::Directory.mode_bits() | 0o755;
            return Ok((data, None, None));
        };
        let latest_place = state.node(latest_id);
        if let Some(metadata) = gathered.metadata {
            if metadata.id == latest_id {
                data.metadata = Some(DataNode::new(latest_id, 0, 0));
            } else {
                state.mark_obsolete(metadata.id);
            }
        }
        data.mode = latest.mode;
        (data.uid, data.gid) = (latest.uid.into(), latest.gid.into());
        (data.accessed, data.modified) = (latest.accessed.into(), latest.modified.into());
        (data.changed, data.bytes) = (latest.changed.into(), latest.file_bytes);
        match FileType::from_mode(latest.mode) {
            Some(FileType::Regular) => data.fragments.truncate(latest.file_bytes, state),
            Some(FileType::Directory) => {
                let (time, version) = gathered.newest_entry;
                if version > latest.version {
                    // Entries carry times, so making a name does not write the directory's inode.
                    (data.modified, data.changed) = (time.into(), time.into());
                }
            }
            Some(FileType::Symlink | FileType::BlockDevice | FileType::CharacterDevice) => {
                // The data of a link or device is no file data. The node is kept as metadata
                // (`jffs2_do_read_inode_internal`).
                data.metadata = data.fragments.take_only();
                let Some(metadata) = &data.metadata else {
                    self.find(
                        Code::LostData,
                        Place::Inode(number.into()),
                        format!("inode {number} has lost its data"),
                    );
                    return Err(Errno::Eio);
                };
                let node = state.node(metadata.node.get());
                return Ok((data, Some(latest_place), Some(node)));
            }
            Some(FileType::Fifo | FileType::Socket) | None => {}
        }
        Ok((data, Some(latest_place), None))
    }

    /// Reads the target of a link, or the number of a device.
    async fn read_special(
        &self,
        number: u32,
        mut data: InodeData,
        node: NodeRef,
    ) -> Result<InodeData, Errno> {
        let bytes = self.read_node_data(node.offset).await?;
        if FileType::from_mode(data.mode) == Some(FileType::Symlink) {
            // `jffs2_do_read_inode_internal` reads no longer one: mkfs.jffs2 makes them all the same.
            if bytes.len() > TARGET_BYTES_MAX {
                self.find(
                    Code::BadTarget,
                    Place::Inode(number.into()),
                    format!("inode {number} has a target of {} bytes", bytes.len()),
                );
                return Err(Errno::Enametoolong);
            }
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            data.target = Some(bytes[..end].to_vec());
            return Ok(data);
        }
        data.device = match *bytes {
            [minor, major] => (major.into(), minor.into()),
            [a, b, c, d] => {
                let device = u32::from_le_bytes([a, b, c, d]);
                ((device & 0xf_ff00) >> 8, device & 0xff | device >> 12 & 0xf_ff00)
            }
            _ => {
                self.find(
                    Code::LostData,
                    Place::Inode(number.into()),
                    format!("inode {number} has no device number"),
                );
                return Err(Errno::Eio);
            }
        };
        Ok(data)
    }

    /// Reads the headers of all nodes of an inode (`jffs2_get_inode_nodes`).
    async fn gather(&self, number: u32) -> Result<Gathered, Errno> {
        let nodes = {
            let state = self.state.borrow();
            let Some(cache) = state.inodes.get(&number) else { return Err(Errno::Enoent) };
            cache.nodes.clone()
        };
        let mut gathered = Gathered::default();
        let mut bytes = Vec::new();
        // Newest link first: of two nodes with one version the collector's copy is found before its
        // original.
        for id in nodes.into_iter().rev() {
            let node = self.state.borrow().node(id);
            if node.state == NodeState::Obsolete {
                continue;
            }
            // Up to the end of the page: more of it is wanted soon.
            let end = (node.offset + DIRENT_BYTES as u32).next_multiple_of(self.page_bytes);
            let count = (end - node.offset).min(node.length.max(HEADER_BYTES as u32));
            bytes.resize((end - node.offset) as usize, 0);
            self.read(node.offset, &mut bytes).await?;
            bytes.truncate(count as usize);
            let header = Header::parse(&bytes);
            let needed = match header.node_type {
                INODE => INODE_BYTES,
                DIRENT => node.length as usize,
                _ => 0,
            };
            if bytes.len() < needed && node.length as usize >= needed {
                let at = bytes.len();
                // Of a node with data a whole page more: the data is wanted soon.
                let more = match header.node_type {
                    INODE => (needed - at).next_multiple_of(self.page_bytes as usize),
                    _ => needed - at,
                };
                bytes.resize((at + more).min(node.length as usize), 0);
                self.read(node.offset + at as u32, &mut bytes[at..]).await?;
            }
            self.charge_crc(needed.min(bytes.len())).await;
            match header.node_type {
                INODE if header.is_valid() => {
                    self.take_inode_node(id, node, &bytes, &mut gathered).await;
                }
                DIRENT if header.is_valid() => self.take_entry(id, &bytes, &mut gathered),
                _ => {
                    self.find(
                        Code::NoNodeOfInode,
                        Place::Address(node.offset.into()),
                        format!("{:#x}: no node of inode {number}", node.offset),
                    );
                    self.state.borrow_mut().mark_obsolete(id);
                }
            }
        }
        Ok(gathered)
    }

    async fn take_inode_node(
        &self,
        id: NodeId,
        place: NodeRef,
        bytes: &[u8],
        gathered: &mut Gathered,
    ) {
        let parsed = InodeNode::parse(bytes).filter(|node| {
            INODE_BYTES as u64 + u64::from(node.stored_bytes) <= u64::from(place.length)
                && node.offset.checked_add(node.data_bytes).is_some()
                && (node.compressor == ZERO || node.data_bytes <= self.block_bytes * 8)
        });
        let Some(node) = parsed else {
            self.find(
                Code::DamagedNode,
                Place::Address(place.offset.into()),
                format!("{:#x}: the inode node is damaged", place.offset),
            );
            self.state.borrow_mut().mark_obsolete(id);
            return;
        };
        gathered.highest_version = gathered.highest_version.max(node.version);
        let known = &bytes[INODE_BYTES..bytes.len().min(INODE_BYTES + node.stored_bytes as usize)];
        let is_unchecked = place.state == NodeState::Unchecked;
        let mut partial = (node.stored_bytes as usize, node.data_crc);
        if is_unchecked {
            self.charge_crc(known.len()).await;
            partial = (known.len(), crc_continued(0, known));
        }
        let candidate = Candidate { id, node, partial };
        if node.data_bytes > 0 {
            gathered.candidates.push(candidate);
            return;
        }
        let state = &mut *self.state.borrow_mut();
        state.mark_checked(id, NodeState::of_data(&node));
        match &gathered.metadata {
            Some(other) if other.node.version >= node.version => state.mark_obsolete(id),
            _ => {
                if let Some(older) = gathered.metadata.replace(candidate) {
                    state.mark_obsolete(older.id);
                }
            }
        }
    }

    fn take_entry(&self, id: NodeId, bytes: &[u8], gathered: &mut Gathered) {
        let state = &mut *self.state.borrow_mut();
        // A scan of nodes has compared the CRC already; one of a summary has not. The older record of the name that
        // the scan then dropped is not tried (`read_direntry` of `fs/jffs2/readinode.c`).
        let Some(entry) = DirentNode::parse(bytes) else {
            self.find(
                Code::DamagedName,
                Place::Address(state.node(id).offset.into()),
                format!("{:#x}: the directory entry is damaged", state.node(id).offset),
            );
            state.mark_obsolete(id);
            return;
        };
        state.mark_checked(id, NodeState::of_entry(entry.inode));
        let DirentNode { version, inode, changed, kind, name, .. } = entry;
        gathered.highest_version = gathered.highest_version.max(version);
        if version > gathered.newest_entry.1 {
            gathered.newest_entry = (changed, version);
        }
        let name_hash = name_hash(&name);
        let entry = Entry { node: id, version, inode, kind, name_hash, name };
        state.add_entry(&mut gathered.entries, entry);
    }

    /// Drops what newer nodes cover and what its CRC condemns; the rest, newest first
    /// (`jffs2_add_tn_to_tree`, `jffs2_build_inode_fragtree`).
    async fn check_candidates(
        &self,
        mut candidates: Vec<Candidate>,
    ) -> Result<Vec<Candidate>, Errno> {
        // Of two copies of one version the one linked last comes first: it is the collector's.
        candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.node.version));
        let mut covers: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        let mut long_covers: Vec<(u32, u32)> = Vec::new();
        let mut checked: Vec<Candidate> = Vec::new();
        for candidate in candidates {
            let range = (candidate.node.offset, candidate.node.offset + candidate.node.data_bytes);
            let page = range.0 / PAGE_BYTES;
            let covers_it = |other: &(u32, u32)| other.0 <= range.0 && other.1 >= range.1;
            // A node under a newer whole one is void. Its data need not even be read
            // (`jffs2_add_tn_to_tree`).
            let is_covered = covers.get(&page).is_some_and(|list| list.iter().any(covers_it))
                || long_covers.iter().any(covers_it);
            if is_covered {
                self.state.borrow_mut().mark_obsolete(candidate.id);
                continue;
            }
            if !self.check_data(&candidate).await? {
                let offset = self.state.borrow().node(candidate.id).offset;
                self.find(
                    Code::DamagedNode,
                    Place::Address(offset.into()),
                    format!("{offset:#x}: the data of the node is damaged"),
                );
                self.state.borrow_mut().mark_obsolete(candidate.id);
                continue;
            }
            if (range.1 - 1) / PAGE_BYTES == page {
                covers.entry(page).or_default().push(range);
            } else {
                long_covers.push(range);
            }
            checked.push(candidate);
        }
        Ok(checked)
    }

    /// Compares data that was never compared with its CRC (`check_node_data`).
    async fn check_data(&self, candidate: &Candidate) -> Result<bool, Errno> {
        let place = self.state.borrow().node(candidate.id);
        match place.state {
            NodeState::Obsolete => return Ok(false),
            NodeState::Unchecked => {}
            NodeState::Pristine | NodeState::Normal => return Ok(true),
        }
        let (known, mut crc) = candidate.partial;
        let rest = candidate.node.stored_bytes as usize - known;
        if rest > 0 {
            let mut bytes = vec![0; rest];
            let at = place.offset + (INODE_BYTES + known) as u32;
            self.read(at, &mut bytes).await?;
            self.charge_crc(rest).await;
            crc = crc_continued(crc, &bytes);
        }
        // Without the newest node an older one shows again: that is how JFFS2 recovers from a torn
        // write.
        if crc != candidate.node.data_crc {
            return Ok(false);
        }
        self.state.borrow_mut().mark_checked(candidate.id, NodeState::of_data(&candidate.node));
        Ok(true)
    }
}
