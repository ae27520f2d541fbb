//! The write-buffer: nodes are gathered to pages, and a page that failed is written elsewhere.
//!
//! Source: `fs/jffs2/wbuf.c`. All of this runs with the allocation lock held.
//!
//! May use: `engine`, `finding`, `nodes`, `state`.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::{HEADER_BYTES, Header, PADDING, padded};
use crate::state::{List, NodeId};
use fs_api::{Errno, Place};

impl Engine {
    /// Appends bytes at `to`, where the last ones ended; full pages are programmed
    /// (`jffs2_flash_writev`).
    ///
    /// # Errors
    /// `EIO` if a program failed. What was in the buffer before stands in another block then; the
    /// bytes of this call have to be written again.
    pub(crate) async fn write_buffered(
        &self,
        to: u32,
        bytes: &[u8],
        inode: u32,
    ) -> Result<(), Errno> {
        if self.flash.page_bytes().is_none() {
            return self.write_directly(to, bytes).await;
        }
        let _exclusive = self.write_buffer_lock.write().await;
        let page_bytes = self.page_bytes as usize;
        {
            let buffer = &mut self.state.borrow_mut().write_buffer;
            let end = buffer.offset.map(|start| start + buffer.bytes.len() as u32);
            if end != Some(to) {
                // Only at the beginning of a page, of a new block or after a mount.
                buffer.offset = Some(to - to % self.page_bytes);
                buffer.bytes.clear();
                buffer.bytes.resize(to as usize % page_bytes, 0xff);
            }
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_full = {
                let buffer = &mut self.state.borrow_mut().write_buffer.bytes;
                let (part, later) = rest.split_at(rest.len().min(page_bytes - buffer.len()));
                buffer.extend_from_slice(part);
                rest = later;
                buffer.len() == page_bytes
            };
            // A full page goes at once; only the rest waits.
            if is_full {
                self.flush_locked(false).await?;
            }
        }
        let buffer = &mut self.state.borrow_mut().write_buffer;
        debug_assert!(buffer.bytes.len() < page_bytes, "a full page does not wait");
        if !buffer.bytes.is_empty() && inode != 0 {
            buffer.inodes.insert(inode);
        }
        Ok(())
    }

    /// Writes bytes where there is no buffer (`jffs2_flash_direct_writev`). Where that fails, nothing else
    /// goes to that place.
    async fn write_directly(&self, to: u32, bytes: &[u8]) -> Result<(), Errno> {
        let written = self.flash.write(to, bytes).await;
        let Err(error) = written else { return Ok(()) };
        self.find(
            Code::FailedWrite,
            Place::Address(to.into()),
            format!("write at {to:#x} failed: {error}"),
        );
        self.state.borrow_mut().link_dirt(to, bytes.len() as u32);
        Err(Errno::Eio)
    }

    /// Programs what is in the buffer, filled up to the page (`jffs2_flush_wbuf_pad`).
    pub(crate) async fn flush_padded(&self) -> Result<(), Errno> {
        let _exclusive = self.write_buffer_lock.write().await;
        if self.flush_locked(true).await.is_err() {
            // What could be saved stands in the buffer again, for another block.
            self.flush_locked(true).await?;
        }
        Ok(())
    }

    /// Programs the buffer (`__jffs2_flush_wbuf`).
    async fn flush_locked(&self, is_padded: bool) -> Result<(), Errno> {
        let (offset, page, waste) = {
            let state = self.state.borrow();
            let buffer = &state.write_buffer;
            let Some(offset) = buffer.offset.filter(|_| !buffer.bytes.is_empty()) else {
                return Ok(());
            };
            let mut page = buffer.bytes.clone();
            let mut waste = 0;
            if is_padded {
                page.resize(padded(page.len() as u32) as usize, 0xff);
                waste = self.page_bytes - page.len() as u32;
                if waste > HEADER_BYTES as u32 {
                    page.extend_from_slice(&Header::new(PADDING, waste).to_bytes());
                }
                // Zeros, not 0xFF: a scan must not take the rest of the page for free space
                // (`__jffs2_flush_wbuf`).
                page.resize(self.page_bytes as usize, 0);
            }
            debug_assert!(offset.is_multiple_of(self.page_bytes), "{offset:#x} is that of a page");
            debug_assert_eq!(page.len(), self.page_bytes as usize, "a page is programmed whole");
            (offset, page, waste)
        };
        if let Err(error) = self.flash.write(offset, &page).await {
            self.find(
                Code::FailedWrite,
                Place::Address(offset.into()),
                format!("program of the page at {offset:#x} failed: {error}"),
            );
            self.recover(offset).await?;
            return Err(Errno::Eio);
        }
        self.count(|statistics| {
            statistics.pages_flushed += 1;
            statistics.padding_bytes += u64::from(waste);
        });
        let state = &mut *self.state.borrow_mut();
        if waste > 0 {
            let block = state.block_of(offset);
            state.link_dirt(offset + self.page_bytes - waste, waste);
            state.dirt_to_waste(block, waste);
            // A gap too small for a padding node holds zeros, not a header.
            if waste > HEADER_BYTES as u32 {
                state.summary.add(&page[page.len() - waste as usize..], 0);
            }
        }
        // What the nodes replace can be erased, now that they are on the medium.
        while let Some(block) = state.list(List::ErasablePendingFlush).front().copied() {
            state.file_erasable(block);
        }
        let buffer = &mut state.write_buffer;
        buffer.inodes.clear();
        buffer.bytes.clear();
        let next = offset + self.page_bytes;
        buffer.offset = (!next.is_multiple_of(self.block_bytes)).then_some(next);
        self.wake_thread();
        Ok(())
    }

    /// After a failed program: the block is given up, and the nodes that were to stand in the page
    /// are written to another block (`jffs2_wbuf_recover`).
    async fn recover(&self, failed: u32) -> Result<(), Errno> {
        // One function, as `jffs2_wbuf_recover` is: the nodes found in its first step are those
        // that its last step marks.
        let (nodes, start, end, buffered) = {
            let state = &mut *self.state.borrow_mut();
            let buffered = std::mem::take(&mut state.write_buffer.bytes);
            state.write_buffer.offset = None;
            state.write_buffer.inodes.clear();
            let block = state.block_of(failed);
            let live = |id: &NodeId| {
                let node = state.node(*id);
                !state.is_obsolete(*id) && node.offset + node.length > failed
            };
            // Live nodes that reach into the failed page, also the one that began in an earlier
            // page.
            let nodes: Vec<NodeId> =
                state.blocks[block as usize].nodes.iter().copied().filter(live).collect();
            let start = nodes.first().map_or(failed, |id| state.node(*id).offset);
            let end = nodes.last().map_or(failed, |id| {
                let node = state.node(*id);
                node.offset + node.length
            });
            let free = state.blocks[block as usize].free;
            if free > 0 {
                state.link_dirt((block + 1) * self.block_bytes - free, free);
            }
            if state.next_block == Some(block) {
                state.next_block = None;
            }
            debug_assert_eq!(state.recovered_block, None, "one page is recovered at a time");
            state.recovered_block = Some(block);
            (nodes, start, end, buffered)
        };
        let mut bytes = vec![0xff; (end - start) as usize];
        if start < failed {
            let read = self.read_medium(start, &mut bytes[..(failed - start) as usize]).await;
            if let Err(error) = read {
                self.state.borrow_mut().recovered_block = None;
                return Err(error);
            }
        }
        // Nodes at the beginning of the page may be obsolete: then the first live one stands behind it.
        let from = failed.saturating_sub(start) as usize;
        let buffered = buffered.get(start.saturating_sub(failed) as usize..).unwrap_or_default();
        let count = (bytes.len().saturating_sub(from)).min(buffered.len());
        if count > 0 {
            bytes[from..from + count].copy_from_slice(&buffered[..count]);
        }
        let moved = self.rewrite(&nodes, start, &bytes).await;
        let state = &mut *self.state.borrow_mut();
        let block = state.block_of(failed);
        debug_assert_eq!(state.recovered_block, Some(block), "the block is filed here alone");
        if moved.is_err() {
            self.find(
                Code::LostNodes,
                Place::Block(block.into()),
                format!("{} nodes of block {block} are lost", nodes.len()),
            );
            for id in &nodes {
                state.mark_obsolete(*id);
            }
        }
        state.waste_to_dirt(block);
        let live = state.blocks[block as usize].used + state.blocks[block as usize].unchecked;
        if state.collect_block == Some(block) {
            state.collect_block = None;
        }
        state.recovered_block = None;
        if live == 0 {
            state.file_erase_pending(block);
        } else {
            // Its other nodes can still be read. The collector empties it before it is erased and
            // judged.
            state.file(block, List::BadUsed);
        }
        self.count(|statistics| statistics.programs_recovered += 1);
        moved
    }

    /// Writes bytes of nodes to a new block, and lets the nodes stand there.
    async fn rewrite(&self, nodes: &[NodeId], start: u32, bytes: &[u8]) -> Result<(), Errno> {
        if nodes.is_empty() {
            return Ok(());
        }
        while let Err(again) = self.take_free_block() {
            // Erasing needs neither the buffer nor its lock.
            if !again || !self.erase_one().await {
                return Err(Errno::Enospc);
            }
        }
        let target = self.write_offset().ok_or(Errno::Enospc)?;
        self.state.borrow_mut().summary.disable();
        let whole = bytes.len() / self.page_bytes as usize * self.page_bytes as usize;
        for (page, at) in bytes[..whole].chunks_exact(self.page_bytes as usize).zip(0..) {
            let offset = target + at * self.page_bytes;
            if self.flash.write(offset, page).await.is_err() {
                // A second failure in a row: the kernel gives the data up as well.
                let state = &mut *self.state.borrow_mut();
                state.next_block = None;
                let block = state.block_of(target);
                let free = state.blocks[block as usize].free;
                state.link_dirt(target, free);
                state.file_erase_pending(block);
                return Err(Errno::Eio);
            }
        }
        let state = &mut *self.state.borrow_mut();
        for id in nodes {
            let node = state.node(*id);
            let to = target + (node.offset - start);
            state.link_gap(to);
            // A file may have been forgotten meanwhile: `jffs2_wbuf_recover` links such a node as
            // obsolete in its new place, too.
            if state.is_obsolete(*id) {
                state.link_dirt(to, node.length);
            } else {
                state.move_node(*id, to);
            }
        }
        debug_assert!(state.write_buffer.bytes.is_empty(), "nothing was written meanwhile");
        state.write_buffer.offset = Some(target + whole as u32);
        state.write_buffer.bytes = bytes[whole..].to_vec();
        Ok(())
    }

    /// Makes the nodes of an inode durable, by collecting rather than by padding
    /// (`jffs2_flush_wbuf_gc`). Inode 0 stands for all.
    pub(crate) async fn flush_by_collecting(&self, inode: u32) -> Result<(), Errno> {
        loop {
            let held = self.allocation.lock().await;
            let (offset, has_unchecked) = {
                let state = self.state.borrow();
                let buffer = &state.write_buffer;
                let is_pending =
                    !buffer.bytes.is_empty() && (inode == 0 || buffer.inodes.contains(&inode));
                if !is_pending {
                    return Ok(());
                }
                (buffer.offset, state.sums.unchecked > 0)
            };
            if has_unchecked {
                // The collector would only check nodes.
                let flushed = self.flush_padded().await;
                drop(held);
                return flushed;
            }
            drop(held);
            // Collecting moves live nodes through the buffer, which fills its page with something
            // useful instead of padding.
            if self.collect_pass().await.is_err() {
                let held = self.allocation.lock().await;
                let flushed = if self.state.borrow().write_buffer.offset == offset {
                    self.flush_padded().await
                } else {
                    Ok(())
                };
                drop(held);
                return flushed;
            }
        }
    }
}
