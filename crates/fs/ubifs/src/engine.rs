//! The parts of a mount and what all of them use: reads, writes, numbers of nodes, costs.
//!
//! Uses states and formats. The parts of the engine (`impl Engine` elsewhere) use this file, never the
//! other way round.

use crate::budget::Space;
use crate::commit_state::CommitState;
use crate::compress::Compressor;
use crate::finding::Code;
use crate::inode::{Inode, SizeSeen};
use crate::journal::Journal;
use crate::layout::{HEADS, HeadNumber, Layout};
use crate::leb_bytes::LebBytes;
use crate::lpt::Lpt;
use crate::master::Master;
use crate::nodes::{Group, Header, Place, padded, seal};
use crate::orphans::Orphans;
use crate::position::{LebNumber, Position};
use crate::profile::MountOptions;
use crate::statistics::Statistics;
use crate::superblock::Superblock;
use crate::tnc::Tnc;
use crate::volume::Volume;
use crate::write_buffer::Head;
use fs_api::{CachedPages, Errno, Finding, Place as FoundAt};
use sim::{Cpus, Lock, RwLock, Sim, WaitQueue};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// A mount.
///
/// Locks are taken in this order: inodes (`ui_mutex`; a directory before what is in it), the commit
/// (`commit_sem`), a head of the journal (`io_mutex`), the index (`tnc_mutex`), the LEB properties
/// (`lp_mutex`), the log (`log_mutex`). Space is budgeted before the first of them. What is in cells is
/// borrowed between awaits only.
pub(crate) struct Engine {
    pub(crate) sim: Sim,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) volume: Volume,
    pub(crate) options: MountOptions,
    pub(crate) superblock: Superblock,
    pub(crate) layout: Layout,
    pub(crate) compressor: Compressor,
    pub(crate) master: Cell<Master>,
    pub(crate) master_offset: Cell<u32>,
    /// Number of the newest node.
    pub(crate) sequence: Cell<u64>,
    pub(crate) highest_inode: Cell<u64>,
    pub(crate) commit_number: Cell<u64>,
    pub(crate) commit_lock: RwLock<()>,
    pub(crate) commit_state: Cell<CommitState>,
    pub(crate) commit_waiters: WaitQueue,
    pub(crate) thread_waiters: WaitQueue,
    pub(crate) heads: [Head; HEADS.len()],
    pub(crate) log_lock: Lock<()>,
    pub(crate) journal: RefCell<Journal>,
    pub(crate) tnc_lock: Lock<()>,
    pub(crate) tnc: RefCell<Tnc>,
    /// Eraseblocks that were collected so far (`gc_seq`).
    pub(crate) collected: Cell<u64>,
    pub(crate) lpt_lock: Lock<()>,
    pub(crate) lpt: RefCell<Lpt>,
    pub(crate) space: RefCell<Space>,
    pub(crate) orphans: RefCell<Orphans>,
    pub(crate) inodes: RefCell<BTreeMap<u64, Rc<Inode>>>,
    /// Sizes of files as a replay after a cut sees them.
    pub(crate) sizes: RefCell<BTreeMap<u64, SizeSeen>>,
    /// Page cache of the layer above, once `use_cached_pages` has registered it.
    pub(crate) cached_pages: RefCell<Option<Weak<dyn CachedPages>>>,
    pub(crate) needs_recovery: Cell<bool>,
    /// The last mount ended in order.
    pub(crate) was_clean: Cell<bool>,
    pub(crate) is_mounting: Cell<bool>,
    pub(crate) is_ending: Cell<bool>,
    /// An error of the medium made the mount read-only.
    pub(crate) is_broken: Cell<bool>,
    pub(crate) findings: RefCell<Vec<Finding>>,
    pub(crate) statistics: Cell<Statistics>,
}

impl Engine {
    /// Adds to the list of what was found wrong with the medium.
    pub(crate) fn find(&self, code: Code, place: FoundAt, text: impl Into<String>) {
        let mut findings = self.findings.borrow_mut();
        // A medium full of noise must not fill the memory with complaints.
        if findings.len() < 1000 {
            findings.push(code.at(place, text));
        }
    }

    pub(crate) fn head(&self, number: HeadNumber) -> &Head {
        &self.heads[number.get() as usize]
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Statistics)) {
        let mut statistics = self.statistics.get();
        change(&mut statistics);
        self.statistics.set(statistics);
    }

    pub(crate) fn change_master(&self, change: impl FnOnce(&mut Master)) {
        let mut master = self.master.get();
        change(&mut master);
        self.master.set(master);
    }

    /// The number of the next node.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.sequence.set(self.sequence.get() + 1);
        self.sequence.get()
    }

    pub(crate) fn see_sequence(&self, sequence: u64) {
        self.sequence.set(self.sequence.get().max(sequence));
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.options.is_read_only
    }

    pub(crate) fn must_be_writable(&self) -> Result<(), Errno> {
        if self.is_broken.get() || self.options.is_read_only { Err(Errno::Erofs) } else { Ok(()) }
    }

    /// After a failed write nothing can be promised any more (`ubifs_ro_mode`).
    pub(crate) fn turn_read_only(&self, error: Errno) {
        if !self.is_broken.replace(true) {
            self.find(
                Code::ReadOnly,
                FoundAt::Whole,
                format!("switched to read-only mode: {error}"),
            );
        }
    }

    fn after_write(&self, done: Result<(), Errno>) -> Result<(), Errno> {
        done.inspect_err(|error| self.turn_read_only(*error))
    }

    /// Processor time of work on bytes.
    pub(crate) async fn charge(&self, bytes: usize, ps_per_byte: u64) {
        self.cpus.run(bytes as u64 * ps_per_byte / 1000).await;
    }

    pub(crate) async fn charge_crc(&self, bytes: usize) {
        self.charge(bytes, self.options.costs.crc_ps_per_byte).await;
    }

    pub(crate) async fn read(&self, from: Position, into: &mut [u8]) -> Result<(), Errno> {
        // What the medium names may be damaged: a wrong place is an error and not an invariant.
        if from.leb.get() >= self.layout.leb_count
            || u64::from(from.offset) + into.len() as u64 > u64::from(self.layout.leb_bytes)
        {
            return Err(Errno::Eio);
        }
        self.volume.read(from, into).await
    }

    /// An eraseblock whose bytes from a position on were read; those before are blank.
    pub(crate) async fn read_leb(&self, from: Position) -> Result<LebBytes, Errno> {
        let mut bytes = LebBytes::of_size(self.layout.leb_bytes as usize);
        let start = from.offset.min(self.layout.leb_bytes);
        bytes[..start as usize].fill(0xff);
        self.read(Position::new(from.leb, start), &mut bytes[start as usize..]).await?;
        self.charge_crc(bytes.len() - start as usize).await;
        Ok(bytes)
    }

    pub(crate) async fn write(&self, to: Position, bytes: &[u8]) -> Result<(), Errno> {
        let end = u64::from(to.offset) + bytes.len() as u64;
        debug_assert!(end <= u64::from(self.layout.leb_bytes), "a write to {to} ends at {end}");
        debug_assert!(
            to.offset.is_multiple_of(self.layout.min_io)
                && end.is_multiple_of(self.layout.min_io.into()),
            "a write of {} bytes to {to} is of whole units",
            bytes.len()
        );
        self.must_be_writable()?;
        self.after_write(self.volume.write(to, bytes).await)
    }

    pub(crate) async fn change_leb(&self, leb: LebNumber, bytes: &[u8]) -> Result<(), Errno> {
        self.must_be_writable()?;
        self.after_write(self.volume.change(leb, bytes).await)
    }

    pub(crate) async fn unmap(&self, leb: LebNumber) -> Result<(), Errno> {
        self.must_be_writable()?;
        self.after_write(self.volume.unmap(leb).await)
    }

    pub(crate) async fn map(&self, leb: LebNumber) -> Result<(), Errno> {
        self.must_be_writable()?;
        self.after_write(self.volume.map(leb).await)
    }

    /// Pads bytes to the unit of writing.
    pub(crate) fn padded(&self, bytes: Vec<u8>) -> Vec<u8> {
        padded(bytes, self.layout.min_io)
    }

    /// Seals a node and writes it at once, padded (`ubifs_write_node`).
    pub(crate) async fn write_node(
        &self,
        mut node: Vec<u8>,
        kind: u8,
        group: Group,
        to: Position,
    ) -> Result<(), Errno> {
        seal(&mut node, kind, self.next_sequence(), group);
        self.charge_crc(node.len()).await;
        let bytes = self.padded(node);
        self.write(to, &bytes).await
    }

    /// Reads a node that must be whole and of a kind, from the medium or from the write-buffer that
    /// still has its end (`ubifs_read_node`, `ubifs_read_node_wbuf`).
    pub(crate) async fn read_node(&self, place: Place, kind: u8) -> Result<Vec<u8>, Errno> {
        let (at, length) = (place.position(), place.bytes);
        // A damaged branch may name any length; this bounds the allocation.
        if length as usize > self.layout.leb_bytes as usize {
            return Err(Errno::Eio);
        }
        let bytes = self.read_buffered(at, length).await?;
        self.charge_crc(bytes.len()).await;
        match Header::check(&bytes) {
            Ok(header) if header.kind == kind && header.bytes == bytes.len() => Ok(bytes),
            Ok(_) => {
                self.find(
                    Code::DamagedNode,
                    at.found(),
                    format!("LEB {at}: not the node that the index names"),
                );
                Err(Errno::Eio)
            }
            Err(error) => {
                self.find(Code::DamagedNode, at.found(), format!("LEB {at}: {error}"));
                Err(Errno::Eio)
            }
        }
    }

    /// Reads bytes of an eraseblock, those that a write-buffer still has from there.
    pub(crate) async fn read_buffered(
        &self,
        from: Position,
        length: u32,
    ) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0xff; length as usize];
        let mut missing = length;
        for head in &self.heads {
            let buffer = head.buffer.borrow();
            if buffer.leb != Some(from.leb) {
                continue;
            }
            // What the buffer holds has not reached the medium.
            let buffered = buffer.overlap(from.offset, &mut bytes);
            if buffered > 0 {
                missing = buffer.offset.saturating_sub(from.offset).min(length);
            }
        }
        if missing > 0 {
            self.read(from, &mut bytes[..missing as usize]).await?;
        }
        Ok(bytes)
    }
}
