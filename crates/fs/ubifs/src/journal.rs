//! The journal: eraseblocks that the log names, room in them, and groups of nodes.
//!
//! Source: `fs/ubifs/log.c`, `journal.c` (`reserve_space`, `make_reservation`).

use crate::commit::CommitState;
use crate::engine::Engine;
use crate::finding::Code;
use crate::layout::{BASE_HEAD, DATA_HEAD, HEADS, LOG_LEB};
use crate::lprops::Change;
use crate::nodes::{Group, REFERENCE_BYTES, ReferenceNode, aligned, commit_start, kind, pad, seal};
use fs_api::{Errno, Place as FoundAt};
use sim::{LockGuard, ReadGuard};
use std::collections::BTreeMap;

/// An eraseblock of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bud {
    pub(crate) start: u32,
    pub(crate) head: usize,
}

/// The log, and what it names.
#[derive(Default)]
pub(crate) struct Journal {
    pub(crate) buds: BTreeMap<u32, Bud>,
    /// Eraseblocks that the commit under way takes out of the journal.
    pub(crate) old_buds: Vec<u32>,
    pub(crate) bud_bytes: u64,
    pub(crate) committing_bytes: u64,
    pub(crate) log_head: (u32, u32),
    pub(crate) log_tail: u32,
    /// Bytes of the log that must stay free for the next commit.
    pub(crate) min_log_bytes: u64,
}

/// Why nothing can be written now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// A commit has to be made first.
    CommitFirst,
    Failed(Errno),
}

impl From<Errno> for Obstacle {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

/// Room in a head of the journal; no commit begins while it is held.
pub(crate) struct Reservation<'a> {
    pub(crate) head_lock: Option<LockGuard<'a, ()>>,
    _commit: ReadGuard<'a, ()>,
}

// `nospc_retries` of `make_reservation` (`fs/ubifs/journal.c`).
/// Attempts to commit before space is given up.
const SPACE_RETRIES: u32 = 2;
// `cmt_retries` of `make_reservation`.
/// Attempts of any kind before something must be wrong.
const MAX_RETRIES: u32 = 128;

impl Engine {
    fn empty_log_bytes(&self, journal: &Journal) -> u64 {
        let leb_bytes = u64::from(self.layout.leb_bytes);
        let all = u64::from(self.layout.log_lebs) * leb_bytes;
        let head = u64::from(journal.log_head.0) * leb_bytes + u64::from(journal.log_head.1);
        let tail = u64::from(journal.log_tail) * leb_bytes;
        match head.cmp(&tail) {
            std::cmp::Ordering::Greater => all + tail - head,
            std::cmp::Ordering::Less => tail - head,
            std::cmp::Ordering::Equal if journal.log_head.0 != journal.log_tail => 0,
            std::cmp::Ordering::Equal => all,
        }
    }

    /// Names an eraseblock in the log before anything is written to it (`ubifs_add_bud_to_log`).
    pub(crate) async fn add_bud(&self, head: usize, leb: u32, start: u32) -> Result<(), Obstacle> {
        let _held = self.log_lock.lock().await;
        self.must_be_writable()?;
        let stride = self.layout.reference_stride;
        let (log_head, is_full) = {
            let journal = self.journal.borrow();
            let empty = self.empty_log_bytes(&journal);
            let room = empty.saturating_sub(stride.into());
            let bytes = u64::from(self.layout.leb_bytes - start);
            let is_full = empty < u64::from(stride)
                || room < journal.min_log_bytes
                || journal.bud_bytes + bytes > self.layout.max_bud_bytes;
            (journal.log_head, is_full)
        };
        if is_full {
            self.require_commit();
            return Err(Obstacle::CommitFirst);
        }
        // A commit in the background starts at 13/16 of the journal, so that writers seldom reach
        // the limit and wait.
        if self.journal.borrow().bud_bytes >= self.layout.background_bud_bytes
            && self.commit_state.get() == CommitState::Resting
        {
            self.request_background_commit();
        }
        let (mut log_leb, mut offset) = log_head;
        // One reference node takes a whole unit of writing, so that naming a bud is durable at
        // once.
        if offset > self.layout.leb_bytes - stride {
            (log_leb, offset) = (self.layout.next_log_leb(log_leb), 0);
            self.journal.borrow_mut().log_head = (log_leb, offset);
        }
        if offset == 0 {
            self.unmap(log_leb).await?;
        }
        if start == 0 {
            // The log must not name an eraseblock whose old contents may come back.
            self.map(leb).await?;
        }
        let node = ReferenceNode { leb, offset: start, head: head as u32 }.to_bytes();
        self.write_node(node, kind::REFERENCE, Group::None, (log_leb, offset)).await?;
        let mut journal = self.journal.borrow_mut();
        journal.log_head = (log_leb, offset + stride);
        journal.bud_bytes += u64::from(self.layout.leb_bytes - start);
        journal.buds.insert(leb, Bud { start, head });
        Ok(())
    }

    /// The log begins anew, in the next eraseblock, with the open heads (`ubifs_log_start_commit`).
    pub(crate) async fn start_log(&self) -> Result<u32, Errno> {
        let mut node = commit_start(self.commit_number.get());
        seal(&mut node, kind::COMMIT_START, self.next_sequence(), Group::None);
        let mut bytes = node;
        for (number, head) in self.heads.iter().enumerate() {
            let (leb, offset) = {
                let buffer = head.buffer.borrow();
                (buffer.leb, buffer.offset)
            };
            // A full head gets a new eraseblock before its next write, which names itself.
            let Some(leb) = leb.filter(|_| offset != self.layout.leb_bytes) else { continue };
            let mut node = ReferenceNode { leb, offset, head: number as u32 }.to_bytes();
            debug_assert!(node.len() == REFERENCE_BYTES, "nodes follow each other without gaps");
            seal(&mut node, kind::REFERENCE, self.next_sequence(), Group::None);
            bytes.extend_from_slice(&node);
        }
        let used = bytes.len();
        bytes.resize(used.next_multiple_of(self.layout.min_io as usize), 0);
        pad(&mut bytes[used..]);
        let (mut leb, offset) = self.journal.borrow().log_head;
        // Each commit begins a fresh eraseblock: the old ones can be unmapped as a whole when it
        // ends.
        if offset > 0 {
            leb = self.layout.next_log_leb(leb);
        }
        self.unmap(leb).await?;
        self.write(leb, 0, &bytes).await?;
        let mut journal = self.journal.borrow_mut();
        journal.log_head = (leb, bytes.len() as u32);
        if journal.log_head.1 == self.layout.leb_bytes {
            journal.log_head = (self.layout.next_log_leb(leb), 0);
        }
        self.close_buds(&mut journal);
        // The rest of the log may be used while the commit is made.
        journal.min_log_bytes = 0;
        Ok(leb)
    }

    /// What the journal holds now is in the index that is being written (`remove_buds`).
    fn close_buds(&self, journal: &mut Journal) {
        let buds = std::mem::take(&mut journal.buds);
        for (leb, mut bud) in buds {
            let buffer = self.heads[bud.head].buffer.borrow();
            if buffer.leb == Some(leb) {
                // The head stays in the journal from its present offset on. What lies before it
                // belongs to this commit.
                journal.committing_bytes += u64::from(buffer.offset - bud.start);
                bud.start = buffer.offset;
                journal.buds.insert(leb, bud);
            } else {
                journal.committing_bytes += u64::from(self.layout.leb_bytes - bud.start);
                journal.old_buds.push(leb);
            }
        }
    }

    /// The commit is on the medium: the old log and its eraseblocks are let go
    /// (`ubifs_log_post_commit`).
    pub(crate) async fn release_log(&self, old_tail: u32) -> Result<(), Errno> {
        let old = std::mem::take(&mut self.journal.borrow_mut().old_buds);
        // The last one first, as the kernel's list has them: it decides among equals.
        for leb in old.into_iter().rev() {
            self.change_properties(leb, Change::RETURN).await?;
        }
        let tail = self.journal.borrow().log_tail;
        let mut leb = old_tail;
        while leb != tail {
            self.unmap(leb).await?;
            leb = self.layout.next_log_leb(leb);
        }
        Ok(())
    }

    /// Finds room in a head; gives it with the head locked (`reserve_space`).
    async fn reserve(&self, head: usize, bytes: u32) -> Result<LockGuard<'_, ()>, Obstacle> {
        let squeezes = head == BASE_HEAD;
        let mut retries = 0;
        loop {
            let guard = self.heads[head].lock.lock().await;
            self.must_be_writable()?;
            if self.has_room(head, bytes) {
                return Ok(guard);
            }
            let (guard, leb, offset) = match self.find_free(bytes, squeezes).await {
                Ok((leb, offset)) => (guard, leb, offset),
                Err(Errno::Enospc) => {
                    // The collector takes the lock of its own head.
                    drop(guard);
                    let leb = match Box::pin(self.collect(false)).await {
                        Ok(leb) => leb,
                        // Another task may have given this head a new eraseblock while its lock was
                        // free (`reserve_space`).
                        Err(Obstacle::Failed(Errno::Enospc)) if retries < 2 => {
                            retries += 1;
                            continue;
                        }
                        Err(obstacle) => return Err(obstacle),
                    };
                    let again = self.heads[head].lock.lock().await;
                    if self.has_room(head, bytes) {
                        self.change_properties(leb, Change::RETURN).await?;
                        return Ok(again);
                    }
                    (again, leb, 0)
                }
                Err(error) => return Err(error.into()),
            };
            self.sync_head_locked(head).await?;
            if let Err(obstacle) = self.add_bud(head, leb, offset).await {
                self.change_properties(leb, Change::RETURN).await?;
                return Err(obstacle);
            }
            self.seek(head, leb, offset);
            return Ok(guard);
        }
    }

    fn has_room(&self, head: usize, bytes: u32) -> bool {
        let buffer = self.heads[head].buffer.borrow();
        buffer.leb.is_some() && self.layout.leb_bytes - buffer.end() >= bytes
    }

    /// Room for nodes in a head; commits if the journal is full (`make_reservation`).
    pub(crate) async fn reservation(
        &self,
        head: usize,
        bytes: usize,
    ) -> Result<Reservation<'_>, Errno> {
        let bytes = aligned(bytes) as u32;
        let (mut space_retries, mut retries) = (0, 0);
        loop {
            // Held until the nodes are in the index. A commit in between would lose nodes that the
            // old log names but the new index lacks.
            let commit = self.commit_lock.read().await;
            match self.reserve(head, bytes).await {
                Ok(guard) => {
                    return Ok(Reservation { head_lock: Some(guard), _commit: commit });
                }
                Err(Obstacle::Failed(Errno::Enospc)) if space_retries < SPACE_RETRIES => {
                    space_retries += 1;
                }
                Err(Obstacle::CommitFirst) => {}
                Err(Obstacle::Failed(error)) => return Err(error),
            }
            drop(commit);
            retries += 1;
            if retries > MAX_RETRIES {
                self.find(Code::NoRoom, FoundAt::Whole, "commits make no room in the journal");
                return Err(Errno::Enospc);
            }
            Box::pin(self.commit()).await?;
        }
    }

    /// Length of a group of nodes of these lengths.
    pub(crate) fn group_bytes(lengths: &[usize]) -> usize {
        let (last, others) = lengths.split_last().expect("a group has a node");
        others.iter().map(|length| aligned(*length)).sum::<usize>() + last
    }

    /// Writes nodes as one group to a head; tells where each begins.
    ///
    /// A node of the base head that is alone is the last of its group, as `pack_inode` marks it. Data nodes
    /// belong to none (`write_node` of `fs/ubifs/journal.c`).
    pub(crate) async fn write_group(
        &self,
        head: usize,
        nodes: Vec<(u8, Vec<u8>)>,
        reservation: &mut Reservation<'_>,
        inodes: &[u64],
        syncs: bool,
    ) -> Result<Vec<(u32, u32)>, Errno> {
        let count = nodes.len();
        debug_assert!(head != DATA_HEAD || count == 1, "data nodes are written one by one");
        let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
        for (at, (kind, mut node)) in nodes.into_iter().enumerate() {
            let group = match head {
                DATA_HEAD => Group::None,
                // A mount after a cut drops a group whose last node is missing (`drop_last_group`
                // of `fs/ubifs/recovery.c`).
                _ if at + 1 == count => Group::Last,
                _ => Group::Member,
            };
            seal(&mut node, kind, self.next_sequence(), group);
            bytes.resize(aligned(bytes.len()), 0);
            offsets.push(bytes.len() as u32);
            bytes.extend_from_slice(&node);
        }
        self.charge_crc(bytes.len()).await;
        let (leb, start) = self.append(head, &bytes).await?;
        if syncs {
            self.sync_head_locked(head).await?;
        } else {
            let mut buffer = self.heads[head].buffer.borrow_mut();
            // Written buffers need no note: `fsync` looks for inodes whose nodes are still in
            // memory (`wbuf_add_ino_nolock`).
            if !buffer.bytes.is_empty() {
                for inode in inodes {
                    if !buffer.inodes.contains(inode) {
                        buffer.inodes.push(*inode);
                    }
                }
            }
        }
        // The head is free for the next writer, while the commit's lock stays until the index has
        // the nodes (`release_head`).
        reservation.head_lock = None;
        Ok(offsets.into_iter().map(|offset| (leb, start + offset)).collect())
    }

    /// Heads begin nowhere, the log at its first eraseblock.
    pub(crate) fn new_journal(&self, log_leb: u32) {
        debug_assert!(HEADS == self.heads.len() && log_leb >= LOG_LEB, "one buffer a head");
        let mut journal = self.journal.borrow_mut();
        journal.log_head = (log_leb, 0);
        journal.log_tail = log_leb;
        journal.min_log_bytes = self.layout.leb_bytes.into();
    }
}

impl Engine {
    /// Writes the log anew with each eraseblock named once, because its head has reached its tail
    /// (`ubifs_consolidate_log`).
    pub(crate) async fn consolidate_log(&self, tail: u32) -> Result<(), Errno> {
        let mut done = Vec::new();
        let mut bytes = Vec::new();
        let (mut leb, mut write_leb) = (tail, tail);
        loop {
            let old = self.read_leb(leb, 0).await?;
            let scan = crate::scan::Scan::of(&old, 0, self.layout.min_io as usize);
            let scan = scan.map_err(|_| Errno::Eio)?;
            for found in &scan.nodes {
                let from = found.offset as usize;
                let node = &old[from..from + found.header.bytes];
                match found.header.kind {
                    kind::REFERENCE => {
                        let named = ReferenceNode::parse(node).leb;
                        // Several commits in a row that were cut name the same open heads again and
                        // again.
                        if done.contains(&named) || !self.journal.borrow().buds.contains_key(&named)
                        {
                            continue;
                        }
                        done.push(named);
                    }
                    kind::COMMIT_START if bytes.is_empty() => {}
                    _ => continue,
                }
                bytes.extend_from_slice(node);
                bytes = self.padded(bytes);
                if bytes.len() as u32 + self.layout.reference_stride > self.layout.leb_bytes {
                    let full = std::mem::take(&mut bytes);
                    self.change_leb(write_leb, &full).await?;
                    write_leb = self.layout.next_log_leb(write_leb);
                }
            }
            if leb == self.journal.borrow().log_head.0 {
                break;
            }
            leb = self.layout.next_log_leb(leb);
        }
        if !bytes.is_empty() {
            self.change_leb(write_leb, &bytes).await?;
        }
        let end = (write_leb, bytes.len() as u32);
        let mut rest = self.layout.next_log_leb(write_leb);
        while rest != tail {
            self.unmap(rest).await?;
            rest = self.layout.next_log_leb(rest);
        }
        self.journal.borrow_mut().log_head = end;
        Ok(())
    }
}
