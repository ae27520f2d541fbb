//! Heads of the journal: nodes are appended to their write-buffers, which are written when they are full.
//!
//! Source: `fs/ubifs/io.c`. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::layout::{BASE_HEAD, DATA_HEAD, HEADS, HeadNumber};
use crate::lprops::Change;
use crate::nodes::{aligned, pad};
use crate::position::Position;
use fs_api::Errno;

impl Engine {
    /// Lets a head go on at a place (`ubifs_wbuf_seek_nolock`). The buffer is empty then.
    pub(crate) fn seek(&self, head: HeadNumber, to: Position) {
        let mut buffer = self.head(head).buffer.borrow_mut();
        debug_assert!(buffer.bytes.is_empty(), "what the buffer holds is written before");
        debug_assert!(to.offset.is_multiple_of(self.layout.min_io), "{to} is a unit of writing");
        buffer.leb = Some(to.leb);
        buffer.offset = to.offset;
        buffer.advance(0, &self.layout);
    }

    /// Writes what the buffer holds, padded (`ubifs_wbuf_sync_nolock`). The caller has the head's lock.
    pub(crate) async fn sync_head_locked(&self, head: HeadNumber) -> Result<(), Errno> {
        debug_assert!(self.head(head).lock.is_locked(), "{head:?} is written under its lock");
        let (to, bytes, padding) = {
            let buffer = self.head(head).buffer.borrow();
            let (Some(leb), true) = (buffer.leb, !buffer.bytes.is_empty()) else { return Ok(()) };
            self.must_be_writable()?;
            let mut bytes = buffer.bytes.clone();
            let used = bytes.len();
            bytes.resize(used.next_multiple_of(self.layout.min_io as usize), 0);
            pad(&mut bytes[used..]);
            let padding = (bytes.len() - used) as u32;
            (Position::new(leb, buffer.offset), bytes, padding)
        };
        // The buffer keeps its bytes until the write returns: readers take them from there.
        self.write(to, &bytes).await?;
        self.count(|statistics| statistics.padding_bytes += u64::from(padding));
        let free = {
            let mut buffer = self.head(head).buffer.borrow_mut();
            buffer.advance(bytes.len() as u32, &self.layout);
            self.layout.leb_bytes - buffer.offset
        };
        self.update_properties(to.leb, Some(free), padding, Change::default()).await
    }

    pub(crate) async fn sync_head(&self, head: HeadNumber) -> Result<(), Errno> {
        let _held = self.head(head).lock.lock().await;
        self.sync_head_locked(head).await
    }

    pub(crate) async fn sync_heads(&self) -> Result<(), Errno> {
        for head in HEADS {
            self.sync_head(head).await?;
        }
        Ok(())
    }

    /// Writes the heads that hold nodes of an inode; the collector's holds copies only
    /// (`ubifs_sync_wbufs_by_inode`).
    pub(crate) async fn sync_heads_of(&self, inode: u64) -> Result<(), Errno> {
        // The collector's nodes are copies. The originals stay until its head is written, so
        // nothing is lost (`ubifs_sync_wbufs_by_inode`).
        for head in [BASE_HEAD, DATA_HEAD] {
            let has = || self.head(head).buffer.borrow().inodes.contains(&inode);
            if !has() {
                continue;
            }
            let _held = self.head(head).lock.lock().await;
            if has() {
                self.sync_head_locked(head).await?;
            }
        }
        Ok(())
    }

    /// Appends nodes to a head that has room; returns where they begin (`ubifs_wbuf_write_nolock`). The
    /// caller has the head's lock.
    pub(crate) async fn append(&self, head: HeadNumber, nodes: &[u8]) -> Result<Position, Errno> {
        let mut rest = nodes.to_vec();
        let length = aligned(nodes.len());
        rest.resize(length, 0);
        pad(&mut rest[nodes.len()..]);
        debug_assert!(self.head(head).lock.is_locked(), "{head:?} grows under its lock");
        let start = self.head(head).buffer.borrow().position().ok_or(Errno::Eio)?;
        debug_assert!(
            start.offset as usize + length <= self.layout.leb_bytes as usize,
            "room was reserved for {length} bytes at {start}"
        );
        let max_write = self.layout.max_write as usize;
        while !rest.is_empty() {
            let (offset, full) = {
                let mut buffer = self.head(head).buffer.borrow_mut();
                if buffer.bytes.is_empty() {
                    buffer.since_ns = self.sim.now();
                }
                let room = buffer.size as usize - buffer.bytes.len();
                if rest.len() < room {
                    buffer.bytes.append(&mut rest);
                    break;
                }
                // Whole units behind the buffer are written together with it or at a stroke.
                let is_direct = buffer.bytes.is_empty() && buffer.size as usize == max_write;
                let taken = if is_direct { rest.len() / max_write * max_write } else { room };
                let mut full = std::mem::take(&mut buffer.bytes);
                full.extend(rest.drain(..taken));
                buffer.bytes.clone_from(&full);
                (buffer.offset, full)
            };
            self.write(Position::new(start.leb, offset), &full).await?;
            let mut buffer = self.head(head).buffer.borrow_mut();
            buffer.advance(full.len() as u32, &self.layout);
        }
        let free = self.layout.leb_bytes - self.head(head).buffer.borrow().end();
        self.update_properties(start.leb, Some(free), 0, Change::default()).await?;
        Ok(start)
    }
}
