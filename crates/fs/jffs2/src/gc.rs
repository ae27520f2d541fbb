//! The collector: one pass moves one node of the victim, checks one inode, or erases one block.
//!
//! Source: `fs/jffs2/gc.c`.
//!
//! May use: `compress`, `engine`, `finding`, `fragments`, `inode`, `nodes`, `space`, `state`, `summary`,
//! `write`.

use crate::compress::ZERO;
use crate::engine::Engine;
use crate::finding::Code;
use crate::fragments::DataNode;
use crate::inode::Inode;
use crate::nodes::{
    DATA_BYTES_MIN, DIRENT, DirentNode, Header, INODE, INODE_BYTES, InodeNode, PAGE_BYTES, crc,
};
use crate::space::Collecting;
use crate::state::{InodeState, List, NodeId, NodeState, Owner, is_dirty};
use crate::summary::entry_bytes;
use crate::write::{Allocation, NodeToWrite};
use fs_api::{Errno, FileType, Place};
use std::ops::Range;
use std::rc::{Rc, Weak};

impl Engine {
    /// Makes one pass: checks an inode, erases a block, or moves one node of the victim
    /// (`jffs2_garbage_collect_pass`).
    pub(crate) async fn collect_pass(&self) -> Result<(), Collecting> {
        // One function: the order of its four kinds of work is the policy of the collector.
        self.count(|statistics| statistics.collector_passes += 1);
        let held = self.allocation.lock().await;
        let _work = self.sim.work("pass of the collector");
        // No block is collected before all inodes are checked: a node that fails its CRC may make
        // an older one current again.
        if self.state.borrow().sums.unchecked > 0 {
            let Some(number) = self.next_unchecked()? else {
                drop(held);
                // Another task reads the inode that is next: the kernel sleeps until that is done.
                self.inode_waiters.wait().await;
                return Ok(());
            };
            // What the check finds wrong is in the report; the node is obsolete then.
            let _ = self.check_inode(number).await;
            self.count(|statistics| statistics.inodes_checked += 1);
            self.set_state(number, InodeState::CheckedAbsent);
            self.write_marks().await;
            return Ok(());
        }
        // Erasing pending blocks comes before copying: it gives a whole block for nothing.
        let has_erases = {
            let state = self.state.borrow();
            !state.list(List::EraseComplete).is_empty()
                || !state.list(List::ErasePending).is_empty()
        };
        if has_erases && self.erase_one().await {
            return Ok(());
        }
        let Some(block) = self.find_victim().await? else {
            let is_erasing = self.state.borrow().erasing_blocks > 0;
            return Err(if is_erasing {
                Collecting::Again
            } else {
                // Nothing is worth collecting; only a lack of space would end the thread.
                Collecting::Failed(Errno::Eio)
            });
        };
        let moved = match self.next_victim_node(block) {
            Some(node) => self.collect_node(block, node).await,
            None => Ok(()),
        };
        {
            let state = &mut *self.state.borrow_mut();
            if state.collect_block == Some(block) {
                let entry = &state.blocks[block as usize];
                debug_assert!(
                    entry.collect_at <= entry.nodes.len(),
                    "the collector is in the block"
                );
                // The last live node was moved by this pass. The block goes straight to the erase
                // list (`eraseit_lock`).
                if entry.used == 0 && entry.unchecked == 0 {
                    state.collect_block = None;
                    state.file_erase_pending(block);
                }
            }
        }
        self.finish_change().await;
        drop(held);
        Ok(moved?)
    }

    /// The next inode whose nodes were not checked; none if another task reads it now.
    fn next_unchecked(&self) -> Result<Option<u32>, Collecting> {
        let state = &mut *self.state.borrow_mut();
        let mut turned = false;
        loop {
            let from = u32::try_from(state.check_inode).ok();
            let next = from.and_then(|from| state.inodes.range(from..).next());
            let next = next.map(|(number, _)| *number);
            let Some(number) = next else {
                if turned {
                    // Bytes count as unchecked that belong to no inode: nothing could be done.
                    return Err(Collecting::Failed(Errno::Enospc));
                }
                (turned, state.check_inode) = (true, 0);
                continue;
            };
            let cache = state.inode_cache(number);
            match cache.state {
                InodeState::Unchecked if cache.parent_or_links > 0 => {
                    cache.state = InodeState::Checking;
                    state.check_inode = u64::from(number) + 1;
                    return Ok(Some(number));
                }
                // Two readers of one inode would both mark its nodes as checked.
                InodeState::Reading => return Ok(None),
                _ => state.check_inode = u64::from(number) + 1,
            }
        }
    }

    /// The block that is being collected, or a new one (`jffs2_find_gc_block`).
    async fn find_victim(&self) -> Result<Option<u32>, Errno> {
        loop {
            {
                let state = &mut *self.state.borrow_mut();
                if state.collect_block.is_some() {
                    return Ok(state.collect_block);
                }
                // The kernel takes the remainder of its clock by 128.
                let draw = state.clock.low_bits();
                let has = |list: List| !state.list(list).is_empty();
                // Blocks with a failed program are emptied first, while there is room to do so.
                let spare = state.free_blocks() > state.reserve.collect_bad;
                // 50, 60 and 16 of 128 draws go to the dirty lists; 2 of 128 take a clean block.
                // That is the wear levelling of JFFS2 (`jffs2_find_gc_block`).
                let choice = [
                    (spare, List::BadUsed),
                    (draw < 50, List::Erasable),
                    (draw < 110, List::VeryDirty),
                    (draw < 126, List::Dirty),
                    (true, List::Clean),
                    (true, List::Dirty),
                    (true, List::VeryDirty),
                    (true, List::Erasable),
                ];
                let list = choice.into_iter().find(|(may, list)| *may && has(*list));
                if let Some(block) = list.and_then(|(_, list)| state.list(list).front().copied()) {
                    debug_assert_ne!(
                        state.next_block,
                        Some(block),
                        "the block being written is no victim"
                    );
                    state.file(block, List::Nowhere);
                    state.collect_block = Some(block);
                    state.blocks[block as usize].collect_at = 0;
                    // The whole block will be erased, so its waste is worth collecting after all.
                    state.waste_to_dirt(block);
                    return Ok(Some(block));
                }
                if !has(List::ErasablePendingFlush) {
                    return Ok(None);
                }
            }
            self.flush_padded().await?;
        }
    }

    fn next_victim_node(&self, block: u32) -> Option<NodeId> {
        let state = &mut *self.state.borrow_mut();
        loop {
            let entry = &state.blocks[block as usize];
            let id = *entry.nodes.get(entry.collect_at)?;
            if !state.is_obsolete(id) {
                return Some(id);
            }
            state.blocks[block as usize].collect_at += 1;
        }
    }

    async fn collect_node(&self, block: u32, id: NodeId) -> Result<(), Errno> {
        let node = self.state.borrow().node(id);
        let number = match node.owner {
            Owner::Inode(number) => number,
            Owner::Datum(datum) => return self.collect_datum(datum, id).await,
            Owner::Reference(reference) => return self.collect_reference(reference, id).await,
            Owner::None if node.state == NodeState::Pristine => {
                return self.collect_verbatim(id).await.map(drop);
            }
            Owner::None => {
                self.state.borrow_mut().mark_obsolete(id);
                return Ok(());
            }
        };
        let state = self.state.borrow().inodes.get(&number).map(|cache| cache.state);
        match state {
            // The inode is not in use: a copy byte by byte needs none of it in memory.
            Some(InodeState::CheckedAbsent) if node.state == NodeState::Pristine => {
                self.set_state(number, InodeState::Collecting);
                let copied = self.collect_verbatim(id).await;
                self.set_state(number, InodeState::CheckedAbsent);
                if copied? {
                    return Ok(());
                }
            }
            Some(InodeState::Reading) => {
                // Whoever reads the inode needs none of what this pass holds.
                self.inode_waiters.wait().await;
                return Ok(());
            }
            _ => {}
        }
        let inode = match self.inode(number).await {
            Ok(inode) => inode,
            Err(error) => {
                self.find(
                    Code::UnreadableInode,
                    Place::Inode(number.into()),
                    format!("inode {number} cannot be read: {error}; a node of it is dropped"),
                );
                self.state.borrow_mut().mark_obsolete(id);
                return Ok(());
            }
        };
        let held = inode.lock.lock().await;
        // The lock was awaited: a writer may have made the node obsolete, or the block may have
        // been given up meanwhile.
        let is_current = self.state.borrow().collect_block == Some(block);
        if inode.is_gone.get() || !is_current || self.state.borrow().is_obsolete(id) {
            return Ok(());
        }
        let collected = self.collect_live(&inode, id).await;
        drop(held);
        collected
    }

    /// Moves a node of an inode whose lock is held (`jffs2_garbage_collect_live`).
    async fn collect_live(&self, inode: &Inode, id: NodeId) -> Result<(), Errno> {
        let metadata = inode.data.borrow().metadata.clone();
        if let Some(metadata) = metadata.filter(|metadata| metadata.node.get() == id) {
            return self.collect_metadata(inode, &metadata).await;
        }
        let mut found: Option<(Rc<DataNode>, u32, u32)> = None;
        for part in inode.data.borrow().fragments.iter() {
            if let Some(data) = part.data.as_ref().filter(|data| data.node.get() == id) {
                let start = found.as_ref().map_or(part.offset, |(_, start, _)| *start);
                found = Some((data.clone(), start, part.end()));
            }
        }
        if let Some((data, start, end)) = found {
            if self.state.borrow().node(id).state == NodeState::Pristine
                && self.collect_verbatim(id).await?
            {
                return Ok(());
            }
            // A node with data never crosses a page, so one that does is a hole.
            return if start / PAGE_BYTES < (end - 1) / PAGE_BYTES {
                self.collect_hole(inode, &data, &(start..end)).await
            } else {
                self.collect_data(inode, start..end).await
            };
        }
        let entry = {
            let data = inode.data.borrow();
            data.entries
                .iter()
                .find(|entry| entry.node == id)
                .map(|entry| (entry.name.clone(), entry.inode, entry.kind))
        };
        match entry {
            Some((name, 0, _)) => self.collect_removal(inode, id, name).await,
            Some((name, target, kind)) => self.collect_entry(inode, name, target, kind).await,
            None => {
                self.find(
                    Code::StrayNode,
                    Place::Inode(inode.number.into()),
                    format!("a node of inode {} is in no list of it", inode.number),
                );
                self.state.borrow_mut().mark_obsolete(id);
                Ok(())
            }
        }
    }

    /// Copies a node as it is; false if it does not fit, or is damaged
    /// (`jffs2_garbage_collect_pristine`). References to the node lead to its new place then.
    async fn collect_verbatim(&self, id: NodeId) -> Result<bool, Errno> {
        // One function: between the read and the last change no other task may come to the node,
        // and the reader should see that none does.
        let node = self.state.borrow().node(id);
        let least = (INODE_BYTES as u32 + DATA_BYTES_MIN).min(node.length);
        // As in the kernel, the length of the node stands in for that of its entry in the summary.
        let room = self.reserve_collecting(least, node.length).await?;
        // It does not fit into this block. The caller reads and writes the data anew, in pieces
        // (the copy must be one node).
        if room < node.length {
            return Ok(false);
        }
        let mut bytes = vec![0; node.length as usize];
        self.read(node.offset, &mut bytes).await?;
        self.charge_crc(bytes.len()).await;
        let header = Header::parse(&bytes);
        // A copy of a damaged node would get a fresh place and look newer. It is checked before,
        // and then read by the normal way.
        let is_sound = header.is_valid()
            && match header.node_type {
                INODE => InodeNode::parse(&bytes).is_some_and(|parsed| {
                    let end = INODE_BYTES + parsed.stored_bytes as usize;
                    bytes.get(INODE_BYTES..end).is_some_and(|data| crc(data) == parsed.data_crc)
                }),
                DIRENT => DirentNode::parse(&bytes).is_some(),
                _ => node.owner == Owner::None,
            };
        if !is_sound {
            self.find(
                Code::DamagedNode,
                Place::Address(node.offset.into()),
                format!("{:#x}: the node cannot be copied as it is", node.offset),
            );
            return Ok(false);
        }
        let allocation = Allocation::Collect;
        let copy = NodeToWrite { bytes, state: NodeState::Pristine, owner: node.owner, allocation };
        let new = self.write_node(copy).await?;
        debug_assert_ne!(
            self.state.borrow().block_of(self.state.borrow().node(new).offset),
            self.state.borrow().block_of(node.offset),
            "a copy leaves the block that is collected"
        );
        let number = match node.owner {
            Owner::Inode(number) => Some(number),
            _ => None,
        };
        // The lock of the inode is held if it is in use, so no task follows its nodes while they
        // move.
        let inode = number.and_then(|number| self.inodes.borrow().get(&number).cloned());
        if let Some(inode) = inode {
            let mut data = inode.data.borrow_mut();
            for part in data.fragments.iter() {
                if let Some(data) = part.data.as_ref().filter(|data| data.node.get() == id) {
                    data.node.set(new);
                    break;
                }
            }
            if let Some(entry) = data.entries.iter_mut().find(|entry| entry.node == id) {
                entry.node = new;
            }
        }
        self.state.borrow_mut().mark_obsolete(id);
        Ok(true)
    }

    /// Writes the attributes of an inode anew.
    async fn collect_metadata(&self, inode: &Inode, old: &Rc<DataNode>) -> Result<(), Errno> {
        let kind = FileType::from_mode(inode.data.borrow().mode);
        let bytes = match kind {
            Some(FileType::Symlink | FileType::BlockDevice | FileType::CharacterDevice) => {
                let place = self.state.borrow().node(old.node.get()).offset;
                self.read_node_data(place).await?
            }
            _ => Vec::new(),
        };
        let needed = (INODE_BYTES + bytes.len()) as u32;
        self.reserve_collecting(needed, entry_bytes(INODE, 0)).await?;
        let mut node = inode.template();
        node.version = inode.next_version();
        node.data_bytes = bytes.len() as u32;
        let new = self.write_data_node(node, &bytes, Allocation::Collect).await?;
        self.state.borrow_mut().mark_obsolete(old.node.get());
        inode.data.borrow_mut().metadata = Some(new);
        Ok(())
    }

    async fn collect_entry(
        &self,
        inode: &Inode,
        name: Vec<u8>,
        target: u32,
        kind: u8,
    ) -> Result<(), Errno> {
        let bytes = (crate::nodes::DIRENT_BYTES + name.len()) as u32;
        self.reserve_collecting(bytes, entry_bytes(DIRENT, name.len())).await?;
        let (modified, changed) = {
            let data = inode.data.borrow();
            (data.modified, data.changed)
        };
        // Times that were set by hand must not be overwritten by the time of an entry.
        let changed = if modified == changed { modified as u32 } else { 0 };
        let version = inode.next_version();
        let node = DirentNode { parent: inode.number, version, inode: target, changed, kind, name };
        let entry = self.write_entry(node, Allocation::Collect).await?;
        self.state.borrow_mut().add_entry(&mut inode.data.borrow_mut().entries, entry);
        Ok(())
    }

    /// A removal is kept while an older entry of its name stands somewhere else on the medium
    /// (`jffs2_garbage_collect_deletion_dirent`).
    async fn collect_removal(&self, inode: &Inode, id: NodeId, name: Vec<u8>) -> Result<(), Errno> {
        let (length, block, others) = {
            let state = self.state.borrow();
            let node = state.node(id);
            let cache = state.inodes.get(&inode.number);
            let others = cache.map(|cache| cache.nodes.clone()).unwrap_or_default();
            (node.length, state.block_of(node.offset), others)
        };
        // What is replaced was marked on the medium, where that can be: no older entry comes back.
        let others = if self.state.borrow().marks_obsolete { Vec::new() } else { others };
        // Obsolete nodes are read here. The lock keeps their blocks from being erased meanwhile
        // (`erase_free_sem`).
        let held = self.erased_nodes.lock().await;
        for other in others {
            let place = {
                let state = self.state.borrow();
                let place = state.node(other);
                // An entry of the same name has the same length, so other nodes need not be read. One in
                // this block is erased together with the removal.
                let is_here = place.state == NodeState::Obsolete
                    && place.owner == Owner::Inode(inode.number)
                    && place.length == length
                    && state.block_of(place.offset) != block;
                is_here.then_some(place.offset)
            };
            let Some(offset) = place else { continue };
            let mut bytes = vec![0; length as usize];
            if self.read(offset, &mut bytes).await.is_err() {
                continue;
            }
            let header = Header::parse(&bytes);
            if header.magic != crate::nodes::MAGIC || header.node_type != DIRENT {
                continue;
            }
            if DirentNode::parse(&bytes).is_some_and(|entry| entry.inode != 0 && entry.name == name)
            {
                drop(held);
                // An older entry with this name stands elsewhere: without the removal a mount would
                // show it again.
                return self.collect_entry(inode, name, 0, 0).await;
            }
        }
        drop(held);
        inode.data.borrow_mut().entries.retain(|entry| entry.node != id);
        self.state.borrow_mut().mark_obsolete(id);
        Ok(())
    }

    /// A node that crosses pages is a hole (`jffs2_garbage_collect_hole`).
    async fn collect_hole(
        &self,
        inode: &Inode,
        old: &Rc<DataNode>,
        bytes: &Range<u32>,
    ) -> Result<(), Errno> {
        let mut node = inode.template();
        node.compressor = ZERO;
        (node.offset, node.data_bytes) = (bytes.start, bytes.end - bytes.start);
        let mut keeps_version = false;
        if old.fragments.get() > 1 {
            // Newer nodes lie in between: the copy must stay older than they are.
            let mut head = [0; INODE_BYTES];
            let place = self.state.borrow().node(old.node.get()).offset;
            self.read(place, &mut head).await?;
            if let Some(known) = InodeNode::parse(&head).filter(|known| known.compressor == ZERO) {
                node.version = known.version;
                (node.offset, node.data_bytes) = (known.offset, known.data_bytes);
                keeps_version = true;
            }
        }
        self.reserve_collecting(INODE_BYTES as u32, entry_bytes(INODE, 0)).await?;
        if !keeps_version {
            node.version = inode.next_version();
        }
        let new = self.write_data_node(node, &[], Allocation::Collect).await?;
        let state = &mut *self.state.borrow_mut();
        let data = &mut *inode.data.borrow_mut();
        if keeps_version && node.version < data.highest_version {
            data.fragments.replace(old, &new);
            state.mark_obsolete(old.node.get());
            return Ok(());
        }
        data.fragments.add(&new, state);
        if let Some(metadata) = data.metadata.take() {
            state.mark_obsolete(metadata.node.get());
        }
        Ok(())
    }

    /// The range of a page that is written anew together (the growing of
    /// `jffs2_garbage_collect_dnode`).
    fn grow(&self, inode: &Inode, bytes: Range<u32>) -> Range<u32> {
        let (mut start, mut end) = (bytes.start, bytes.end);
        let state = self.state.borrow();
        // Short of blocks: merging reads and writes more than it has to, which can run out of space
        // (`resv_blocks_gcmerge`).
        if state.available_blocks() <= state.reserve.merge {
            return bytes;
        }
        let data = inode.data.borrow();
        // Never beyond the page: the page cache locks one page.
        let page_start = start - start % PAGE_BYTES;
        let page_end = page_start + PAGE_BYTES;
        let is_worth_it = |node: Option<&Rc<DataNode>>| {
            node.is_some_and(|node| {
                let block = state.block_of(state.node(node.node.get()).offset);
                let entry = &state.blocks[block as usize];
                state.collect_block == Some(block) || is_dirty(entry.dirty + entry.wasted)
            })
        };
        while let Some(part) = data.fragments.before(start).filter(|part| part.offset >= page_start)
        {
            if part.offset > page_start || is_worth_it(part.data.as_ref()) {
                start = part.offset;
            } else {
                break;
            }
        }
        while let Some(part) = data.fragments.from(end).filter(|part| part.end() <= page_end) {
            if part.end() < page_end || is_worth_it(part.data.as_ref()) {
                end = part.end();
            } else {
                break;
            }
        }
        start..end
    }

    /// A page of a file, from the cache of the layer above or else from the medium; it stays in the
    /// cache (`jffs2_gc_fetch_page`).
    async fn fetch_page(
        &self,
        inode: &Inode,
        start: u32,
    ) -> Result<Box<[u8; fs_api::PAGE_BYTES]>, Errno> {
        let mut page = Box::new([0; fs_api::PAGE_BYTES]);
        let (number, index) = (u64::from(inode.number), u64::from(start / PAGE_BYTES));
        let cached = self.cached_pages.borrow().as_ref().and_then(Weak::upgrade);
        // JFFS2 writes through, so the cached page equals the medium and saves the read.
        if cached.as_ref().is_some_and(|cached| cached.get(number, index, &mut page)) {
            return Ok(page);
        }
        self.read_range(inode, start, &mut page[..]).await?;
        if let Some(cached) = cached {
            cached.put(number, index, &page);
        }
        Ok(page)
    }

    /// Writes a part of a page anew, with its neighbours where that pays
    /// (`jffs2_garbage_collect_dnode`).
    async fn collect_data(&self, inode: &Inode, bytes: Range<u32>) -> Result<(), Errno> {
        let Range { start, end } = self.grow(inode, bytes);
        let page_start = start - start % PAGE_BYTES;
        let page = self.fetch_page(inode, page_start).await?;
        let mut offset = start;
        while offset < end {
            let least = INODE_BYTES as u32 + DATA_BYTES_MIN;
            let room = self.reserve_collecting(least, entry_bytes(INODE, 0)).await?;
            let data = &page[(offset - page_start) as usize..(end - page_start) as usize];
            let (taken, compressor, stored) =
                self.compress(data, room as usize - INODE_BYTES).await;
            let mut node = inode.template();
            node.version = inode.next_version();
            (node.offset, node.data_bytes) = (offset, taken as u32);
            node.compressor = compressor;
            let new = self.write_data_node(node, &stored, Allocation::Collect).await?;
            let state = &mut *self.state.borrow_mut();
            let known = &mut *inode.data.borrow_mut();
            known.fragments.add(&new, state);
            // A data node carries the attributes, so a node with attributes alone is void.
            if let Some(metadata) = known.metadata.take() {
                state.mark_obsolete(metadata.node.get());
            }
            offset += taken as u32;
        }
        Ok(())
    }
}
