//! Pages of files and attributes of inodes.
//!
//! Source: `fs/ubifs/file.c`. A part of the engine: uses the engine, states and formats.

use crate::budget::{Budget, Request};
use crate::engine::Engine;
use crate::inode::Inode;
use crate::keys::{Key, LAST_BLOCK};
use crate::nodes::{BLOCK_BYTES, DataNode};
use fs_api::{Caller, Changes, Errno, FileType, PAGE_BYTES};
use std::ops::Range;
use std::rc::Rc;

const _: () = assert!(PAGE_BYTES == BLOCK_BYTES, "a page is a block");

fn block_of(page: u64) -> Result<u32, Errno> {
    u32::try_from(page).ok().filter(|block| *block <= LAST_BLOCK).ok_or(Errno::Efbig)
}

impl Engine {
    pub(crate) async fn regular(&self, number: u64) -> Result<Rc<Inode>, Errno> {
        let inode = self.inode(number).await?;
        match inode.kind() {
            Some(FileType::Regular) => Ok(inode),
            Some(FileType::Directory) => Err(Errno::Eisdir),
            _ => Err(Errno::Einval),
        }
    }

    /// Reads a page of a file; a block that the index does not know reads as zeros
    /// (`ubifs_readpage`).
    pub(crate) async fn read_block(
        &self,
        inode: &Inode,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        // Bulk-read comes first and fills the page itself (`ubifs_read_folio` calls
        // `ubifs_bulk_read`).
        if self.read_in_bulk(inode, page, into).await? {
            return Ok(());
        }
        into.fill(0);
        let size = inode.data.borrow().node.size;
        let start = page * PAGE_BYTES as u64;
        if start >= size {
            inode.data.borrow_mut().holes.insert(page);
            return Ok(());
        }
        let Some(node) = self.tnc_lookup(Key::data(inode.number, block_of(page)?)).await? else {
            inode.data.borrow_mut().holes.insert(page);
            return Ok(());
        };
        inode.data.borrow_mut().holes.remove(&page);
        let data = self.restore(&DataNode::parse(&node)).await?;
        into[..data.len()].copy_from_slice(&data);
        let valid = (size - start).min(PAGE_BYTES as u64) as usize;
        into[valid..].fill(0);
        Ok(())
    }

    /// The time of a write becomes that of the inode (`update_mctime`).
    async fn touch(&self, caller: &Caller, inode: &Inode) -> Result<(), Errno> {
        let stamp = self.stamp(caller.now);
        {
            let data = inode.data.borrow();
            // With a time unit of a second most writes do not change the times and need no budget
            // (`update_mctime`).
            if data.node.modified == stamp && data.node.changed == stamp {
                return Ok(());
            }
        }
        let request = Request {
            dirtied_inodes: 1,
            dirtied_inode_bytes: inode.data_bytes(),
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        {
            let node = &mut inode.data.borrow_mut().node;
            (node.modified, node.changed) = (stamp, stamp);
        }
        self.make_inode_dirty(inode, budget);
        Ok(())
    }

    /// Sets aside what the change of a page will need (`ubifs_write_begin`).
    pub(crate) async fn begin_page(
        &self,
        caller: &Caller,
        inode: &Rc<Inode>,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        block_of(page)?;
        // The times before the page's budget: `ubifs_write_iter` calls `update_mctime` before
        // `generic_file_write_iter`.
        self.touch(caller, inode).await?;
        let covers_page = part == (0..PAGE_BYTES);
        let start = page * PAGE_BYTES as u64;
        loop {
            let (is_promised, size, is_hole) = {
                let data = inode.data.borrow();
                (data.pages.contains_key(&page), data.node.size, data.holes.contains(&page))
            };
            // The inode grows with the page, so its node is budgeted too (`allocate_budget` with
            // `appending`).
            let appends = start + part.end as u64 > size;
            // A page that is neither in memory nor read counts as a new one.
            let is_new = is_hole || !is_cached || start >= size;
            let request = Request {
                new_page: !is_promised && is_new,
                dirtied_page: !is_promised && !is_new,
                dirtied_inodes: u32::from(appends),
                ..Request::default()
            };
            let mut budget = self.budget(caller, &request).await?;
            if is_promised != inode.data.borrow().pages.contains_key(&page) {
                // While space was made, the page was written.
                self.release(budget);
                continue;
            }
            if appends {
                let own = Budget::of_inode(0);
                budget.dirty -= own.dirty;
                self.make_inode_dirty(inode, own);
            }
            let must_read = !is_cached && !covers_page && !is_promised;
            let mut data = inode.data.borrow_mut();
            if must_read && start >= size {
                data.holes.insert(page);
            }
            if !is_promised {
                data.pages.insert(page, budget);
            }
            return Ok(must_read);
        }
    }

    /// The file reaches the end of what was written (`ubifs_write_end`).
    pub(crate) fn end_page(&self, inode: &Inode, page: u64, part: Range<usize>) {
        let end = page * PAGE_BYTES as u64 + part.end as u64;
        if end <= inode.data.borrow().node.size {
            return;
        }
        inode.data.borrow_mut().node.size = end;
        // It may have been written since the page was begun.
        if !inode.data.borrow().is_dirty {
            let own = Budget::of_inode(0);
            self.promise(own);
            self.make_inode_dirty(inode, own);
        }
    }

    /// Writes a dirty page (`ubifs_writepage`).
    pub(crate) async fn write_block(
        &self,
        inode: &Rc<Inode>,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.must_be_writable()?;
        let (size, synced, cut_to) = {
            let data = inode.data.borrow();
            (data.node.size, data.synced_size, data.cut_to)
        };
        let start = page * PAGE_BYTES as u64;
        if start >= size {
            if let Some(budget) = inode.data.borrow_mut().pages.remove(&page) {
                self.release(budget);
            }
            return Ok(());
        }
        let valid = (size - start).min(PAGE_BYTES as u64) as usize;
        let within = cut_to.and_then(|cut| cut.checked_sub(start));
        if let Some(within) = within.filter(|within| (1..valid as u64).contains(within)) {
            // The page that will be the last goes as short as it will be, and the inode follows in the
            // group of the cut (`do_writepage` out of `do_truncation`).
            return self.write_valid(inode, page, &bytes[..within as usize]).await;
        }
        // Data must not lie behind the end of the file on the medium.
        let is_behind = if valid == PAGE_BYTES {
            page >= synced >> PAGE_BYTES.trailing_zeros()
        } else {
            size > synced
        };
        if is_behind {
            self.write_inode_back(inode).await?;
        }
        self.write_valid(inode, page, &bytes[..valid]).await
    }

    /// Writes the bytes of a page that lie within the file; what was set aside for it is free again.
    async fn write_valid(&self, inode: &Rc<Inode>, page: u64, valid: &[u8]) -> Result<(), Errno> {
        // The promise is released after the node is logged. Between the two the space is counted
        // twice, never too little.
        self.log_data(inode, block_of(page)?, valid).await?;
        let budget = {
            let mut data = inode.data.borrow_mut();
            data.holes.remove(&page);
            data.pages.remove(&page)
        };
        if let Some(budget) = budget {
            self.release(budget);
        }
        Ok(())
    }

    fn apply(&self, caller: &Caller, inode: &Inode, to: &Changes) {
        let now = self.stamp(caller.now);
        let node = &mut inode.data.borrow_mut().node;
        if let Some(permissions) = to.permissions {
            node.mode = node.mode & !0o7777 | permissions & 0o7777;
        }
        node.uid = to.uid.unwrap_or(node.uid);
        node.gid = to.gid.unwrap_or(node.gid);
        if let Some(time) = to.accessed {
            node.accessed = self.stamp(time);
        }
        if let Some(time) = to.modified {
            node.modified = self.stamp(time);
        }
        node.changed = now;
    }

    /// Changes attributes; a smaller size cuts the file (`ubifs_setattr`).
    pub(crate) async fn set(
        &self,
        caller: &Caller,
        number: u64,
        to: &Changes,
    ) -> Result<(), Errno> {
        let inode = self.inode(number).await?;
        if let Some(size) = to.size_bytes {
            self.regular(number).await?;
            block_of(size.div_ceil(PAGE_BYTES as u64).saturating_sub(1))?;
            if size < inode.data.borrow().node.size {
                // Only shrinking writes a truncation node. Growing changes the size in memory
                // (`do_setattr`).
                return self.cut(caller, &inode, size, to).await;
            }
        }
        let request = Request {
            dirtied_inodes: 1,
            dirtied_inode_bytes: inode.data_bytes(),
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        let held = inode.lock.lock().await;
        if let Some(size) = to.size_bytes {
            let stamp = self.stamp(caller.now);
            let node = &mut inode.data.borrow_mut().node;
            (node.size, node.modified) = (size, stamp);
        }
        self.apply(caller, &inode, to);
        self.make_inode_dirty(&inode, budget);
        drop(held);
        if self.options.is_synchronous {
            self.write_inode_back(&inode).await?;
        }
        Ok(())
    }

    /// The dirty page with the new end of a file goes to the medium before the cut, which would find
    /// old data in the index otherwise (`do_truncation`).
    async fn write_page_of_cut(&self, caller: &Caller, inode: &Rc<Inode>, size: u64) {
        let page = size / PAGE_BYTES as u64;
        let is_dirty = inode.data.borrow().pages.contains_key(&page);
        let cached = self.cached_pages.borrow().clone().and_then(|cached| cached.upgrade());
        let Some(cached) = cached.filter(|_| is_dirty && !size.is_multiple_of(PAGE_BYTES as u64))
        else {
            return;
        };
        inode.data.borrow_mut().cut_to = Some(size);
        cached.write_page(caller, inode.number, page).await;
        inode.data.borrow_mut().cut_to = None;
    }

    /// Cuts a file: truncation node, inode and shortened last block go into one group
    /// (`do_truncation`).
    async fn cut(
        &self,
        caller: &Caller,
        inode: &Rc<Inode>,
        size: u64,
        to: &Changes,
    ) -> Result<(), Errno> {
        let request = Request {
            dirtied_page: !size.is_multiple_of(BLOCK_BYTES as u64),
            dirtied_inodes: 1,
            // `do_truncation` hides the truncation node in the budget of the inode
            // (`UBIFS_TRUN_NODE_SZ`).
            dirtied_inode_bytes: crate::nodes::TRUNCATION_BYTES,
            ..Request::default()
        };
        let budget = match self.budget(caller, &request).await {
            // To nothing is a deletion, which is always allowed.
            Err(Errno::Enospc) if size == 0 => Budget::default(),
            budget => budget?,
        };
        self.write_page_of_cut(caller, inode, size).await;
        let held = inode.lock.lock().await;
        let (old_size, released) = {
            let mut data = inode.data.borrow_mut();
            // Pages behind the end are never written; their promises end here, as
            // `truncate_setsize` drops the pages in the kernel.
            let released = data.pages.split_off(&size.div_ceil(PAGE_BYTES as u64));
            (std::mem::replace(&mut data.node.size, size), released)
        };
        for budget in released.into_values() {
            self.release(budget);
        }
        inode.data.borrow_mut().node.modified = self.stamp(caller.now);
        self.apply(caller, inode, to);
        let logged = self.log_cut(inode, old_size).await;
        drop(held);
        self.release(budget);
        if logged.is_ok() {
            self.forget_fullness();
        }
        logged
    }
}
