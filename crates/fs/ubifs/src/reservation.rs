//! Room in the journal: reserved in a head, then filled by a group of nodes.
//!
//! Source: `fs/ubifs/journal.c` (`reserve_space`, `make_reservation`). A part of the engine: uses the
//! engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::journal::Obstacle;
use crate::layout::{BASE_HEAD, DATA_HEAD, HeadNumber};
use crate::lprops::Change;
use crate::nodes::{Group, aligned, seal};
use crate::position::Position;
use fs_api::{Errno, Place as FoundAt};
use sim::{LockGuard, ReadGuard};

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
    /// Finds room in a head; gives it with the head locked (`reserve_space`).
    async fn reserve(&self, head: HeadNumber, bytes: u32) -> Result<LockGuard<'_, ()>, Obstacle> {
        let squeezes = head == BASE_HEAD;
        let mut retries = 0;
        loop {
            let guard = self.head(head).lock.lock().await;
            self.must_be_writable()?;
            if self.has_room(head, bytes) {
                return Ok(guard);
            }
            let (guard, to) = match self.find_free(bytes, squeezes).await {
                Ok(found) => (guard, found),
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
                    let again = self.head(head).lock.lock().await;
                    if self.has_room(head, bytes) {
                        self.change_properties(leb, Change::RETURN).await?;
                        return Ok(again);
                    }
                    (again, Position::start_of(leb))
                }
                Err(error) => return Err(error.into()),
            };
            self.sync_head_locked(head).await?;
            if let Err(obstacle) = self.add_bud(head, to).await {
                self.change_properties(to.leb, Change::RETURN).await?;
                return Err(obstacle);
            }
            self.seek(head, to);
            debug_assert!(self.has_room(head, bytes), "the new eraseblock has room");
            return Ok(guard);
        }
    }

    fn has_room(&self, head: HeadNumber, bytes: u32) -> bool {
        let buffer = self.head(head).buffer.borrow();
        buffer.leb.is_some() && self.layout.leb_bytes - buffer.end() >= bytes
    }

    /// Room for nodes in a head; commits if the journal is full (`make_reservation`).
    pub(crate) async fn reservation(
        &self,
        head: HeadNumber,
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

    /// Writes nodes as one group to a head; returns where each begins.
    ///
    /// A node of the base head that is alone is the last of its group, as `pack_inode` marks it. Data nodes
    /// belong to none (`write_node` of `fs/ubifs/journal.c`).
    pub(crate) async fn write_group(
        &self,
        head: HeadNumber,
        nodes: Vec<(u8, Vec<u8>)>,
        reservation: &mut Reservation<'_>,
        inodes: &[u64],
        syncs: bool,
    ) -> Result<Vec<Position>, Errno> {
        debug_assert!(reservation.head_lock.is_some(), "the head is locked until its nodes are in");
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
        let start = self.append(head, &bytes).await?;
        if syncs {
            self.sync_head_locked(head).await?;
        } else {
            let mut buffer = self.head(head).buffer.borrow_mut();
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
        Ok(offsets.into_iter().map(|offset| start.plus(offset)).collect())
    }
}
