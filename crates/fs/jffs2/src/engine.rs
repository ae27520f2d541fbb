//! The parts of a mount and what all of them use: locks, reads through the write-buffer, costs.
//!
//! May use: `compress`, `finding`, `flash`, `inode`, `nodes`, `profile`, `state`, `statistics`.

use crate::compress::Compressor;
use crate::finding::Code;
use crate::flash::Flash;
use crate::inode::Inode;
use crate::nodes::HEADER_BYTES;
use crate::profile::{CleanMarkers, MountOptions};
use crate::state::{List, State};
use crate::statistics::Statistics;
use fs_api::{CachedPages, Errno, Finding, Place};
use sim::{Cpus, Lock, RwLock, Sim, WaitQueue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// A mount.
///
/// Locks are taken in this order: allocation (`alloc_sem`), attributes (`xattr_sem`), an inode
/// (`f->sem`), erased nodes (`erase_free_sem`), the write-buffer (`wbuf_sem`). The state is borrowed
/// between awaits only.
pub(crate) struct Engine {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) flash: Flash,
    pub(crate) options: MountOptions,
    pub(crate) block_bytes: u32,
    /// Bytes of the write-buffer; 1 where there is none.
    pub(crate) page_bytes: u32,
    pub(crate) has_summary: bool,
    pub(crate) state: RefCell<State>,
    pub(crate) inodes: RefCell<BTreeMap<u32, Rc<Inode>>>,
    pub(crate) allocation: Lock<()>,
    pub(crate) attribute_lock: RwLock<()>,
    pub(crate) erased_nodes: Lock<()>,
    pub(crate) write_buffer_lock: RwLock<()>,
    pub(crate) inode_waiters: WaitQueue,
    pub(crate) erase_waiters: WaitQueue,
    pub(crate) thread_waiters: WaitQueue,
    pub(crate) is_ending: Cell<bool>,
    pub(crate) findings: RefCell<Vec<Finding>>,
    pub(crate) statistics: Cell<Statistics>,
    pub(crate) compressors: Vec<&'static Compressor>,
    /// Page cache of the layer above, once `use_cached_pages` has registered it.
    pub(crate) cached_pages: RefCell<Option<Weak<dyn CachedPages>>>,
}

impl Engine {
    /// Adds to the list of what was found wrong with the medium.
    pub(crate) fn find(&self, code: Code, place: Place, text: impl Into<String>) {
        let mut findings = self.findings.borrow_mut();
        // A medium full of noise must not fill the memory with complaints.
        if findings.len() < 1000 {
            findings.push(code.at(place, text));
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Statistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }

    /// Processor time of work on bytes.
    pub(crate) async fn charge(&self, bytes: usize, ps_per_byte: u64) {
        self.cpus.run(bytes as u64 * ps_per_byte / 1000).await;
    }

    pub(crate) async fn charge_crc(&self, bytes: usize) {
        self.charge(bytes, self.options.costs.crc_ps_per_byte).await;
    }

    /// Reads bytes; what the ECC gives up is left to the CRCs (`jffs2_flash_read`).
    pub(crate) async fn read(&self, offset: u32, into: &mut [u8]) -> Result<(), Errno> {
        // Shared with other readers, but not with a flush: between medium and buffer a node must
        // not be missed.
        let _shared = self.write_buffer_lock.read().await;
        self.read_medium(offset, into).await?;
        let state = self.state.borrow();
        // The buffer is laid over what was read: nodes in it are not on the medium yet
        // (`jffs2_flash_read`).
        let buffer = &state.write_buffer;
        if let Some(start) = buffer.offset {
            let (from, to) = (start.max(offset), start + buffer.bytes.len() as u32);
            let to = to.min(offset + into.len() as u32);
            if from < to {
                into[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&buffer.bytes[(from - start) as usize..(to - start) as usize]);
            }
        }
        Ok(())
    }

    /// Reads bytes behind the back of the write-buffer.
    pub(crate) async fn read_medium(&self, offset: u32, into: &mut [u8]) -> Result<(), Errno> {
        if !self.flash.read(offset, into).await? {
            self.count(|statistics| statistics.unreadable_reads += 1);
        }
        Ok(())
    }

    pub(crate) fn is_in_band(&self) -> bool {
        self.options.clean_markers == CleanMarkers::InBand
    }

    /// Bytes of the mark of a clean block among the nodes (`cleanmarker_size`).
    pub(crate) fn marker_bytes(&self) -> u32 {
        if self.is_in_band() { HEADER_BYTES as u32 } else { 0 }
    }

    /// Where the next node goes (`write_ofs`).
    pub(crate) fn write_offset(&self) -> Option<u32> {
        let state = self.state.borrow();
        let block = state.next_block?;
        Some((block + 1) * self.block_bytes - state.blocks[block as usize].free)
    }

    /// Lets the thread see whether there is work (`jffs2_garbage_collect_trigger`).
    pub(crate) fn wake_thread(&self) {
        self.thread_waiters.wake_all();
    }

    /// Ends a change of the state: what it made obsolete is marked so on the medium, where that can be,
    /// and the thread is woken if the change asked for it.
    pub(crate) async fn finish_change(&self) {
        self.write_marks().await;
        if std::mem::take(&mut self.state.borrow_mut().is_triggered) {
            self.wake_thread();
        }
    }

    /// Blocks that a list holds.
    pub(crate) fn listed(&self, list: List) -> usize {
        self.state.borrow().list(list).len()
    }
}
