//! The log: it names each eraseblock of the journal before anything is written there.
//!
//! Source: `fs/ubifs/log.c`. A part of the engine: uses the engine, states and formats.

use crate::commit_state::CommitState;
use crate::engine::Engine;
use crate::journal::{Bud, Journal, Obstacle};
use crate::layout::{HEADS, HeadNumber, LOG_LEB};
use crate::lprops::Change;
use crate::nodes::{Group, REFERENCE_BYTES, ReferenceNode, commit_start, kind, pad, seal};
use crate::position::{LebNumber, Position};
use crate::scan::Scan;
use fs_api::Errno;

impl Engine {
    /// Names an eraseblock in the log before anything is written to it (`ubifs_add_bud_to_log`).
    pub(crate) async fn add_bud(&self, head: HeadNumber, at: Position) -> Result<(), Obstacle> {
        let _held = self.log_lock.lock().await;
        self.must_be_writable()?;
        let stride = self.layout.reference_stride;
        let (log_head, is_full) = {
            let journal = self.journal.borrow();
            let empty = journal.empty_log_bytes(&self.layout);
            let room = empty.saturating_sub(stride.into());
            let bytes = u64::from(self.layout.leb_bytes - at.offset);
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
        let mut to = log_head;
        // One reference node takes a whole unit of writing, so that naming a bud is durable at
        // once.
        if to.offset > self.layout.leb_bytes - stride {
            to = Position::start_of(self.layout.next_log_leb(to.leb));
            self.journal.borrow_mut().log_head = to;
        }
        if to.offset == 0 {
            self.unmap(to.leb).await?;
        }
        if at.offset == 0 {
            // The log must not name an eraseblock whose old contents may come back.
            self.map(at.leb).await?;
        }
        let node = ReferenceNode { at, head: head.get() }.to_bytes();
        self.write_node(node, kind::REFERENCE, Group::None, to).await?;
        let mut journal = self.journal.borrow_mut();
        journal.log_head = to.plus(stride);
        journal.bud_bytes += u64::from(self.layout.leb_bytes - at.offset);
        let known = journal.buds.insert(at.leb, Bud { start: at.offset, head });
        debug_assert!(known.is_none(), "eraseblock {} is in the journal once", at.leb);
        debug_assert_eq!(
            journal.bytes_of_buds(self.layout.leb_bytes) + journal.committing_bytes,
            journal.bud_bytes,
            "bytes of the journal"
        );
        Ok(())
    }

    /// The log begins anew, in the next eraseblock, with the open heads (`ubifs_log_start_commit`).
    pub(crate) async fn start_log(&self) -> Result<LebNumber, Errno> {
        let mut node = commit_start(self.commit_number.get());
        seal(&mut node, kind::COMMIT_START, self.next_sequence(), Group::None);
        let mut bytes = node;
        for (head, number) in self.heads.iter().zip(HEADS) {
            let (leb, offset) = {
                let buffer = head.buffer.borrow();
                (buffer.leb, buffer.offset)
            };
            // A full head gets a new eraseblock before its next write, which names itself.
            let Some(leb) = leb.filter(|_| offset != self.layout.leb_bytes) else { continue };
            let at = Position::new(leb, offset);
            let mut node = ReferenceNode { at, head: number.get() }.to_bytes();
            debug_assert!(node.len() == REFERENCE_BYTES, "nodes follow each other without gaps");
            seal(&mut node, kind::REFERENCE, self.next_sequence(), Group::None);
            bytes.extend_from_slice(&node);
        }
        let used = bytes.len();
        bytes.resize(used.next_multiple_of(self.layout.min_io as usize), 0);
        pad(&mut bytes[used..]);
        let Position { mut leb, offset } = self.journal.borrow().log_head;
        // Each commit begins a fresh eraseblock: the old ones can be unmapped as a whole when it
        // ends.
        if offset > 0 {
            leb = self.layout.next_log_leb(leb);
        }
        self.unmap(leb).await?;
        self.write(Position::start_of(leb), &bytes).await?;
        let mut journal = self.journal.borrow_mut();
        journal.log_head = Position::new(leb, bytes.len() as u32);
        if journal.log_head.offset == self.layout.leb_bytes {
            journal.log_head = Position::start_of(self.layout.next_log_leb(leb));
        }
        self.close_buds(&mut journal);
        // The rest of the log may be used while the commit is made.
        journal.min_log_bytes = 0;
        debug_assert!(journal.log_head.offset < self.layout.leb_bytes, "the log can go on");
        Ok(leb)
    }

    /// What the journal holds now is in the index that is being written (`remove_buds`).
    fn close_buds(&self, journal: &mut Journal) {
        let buds = std::mem::take(&mut journal.buds);
        for (leb, mut bud) in buds {
            let buffer = self.head(bud.head).buffer.borrow();
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

    /// The commit is on the medium: the old log and its eraseblocks are released
    /// (`ubifs_log_post_commit`).
    pub(crate) async fn release_log(&self, old_tail: LebNumber) -> Result<(), Errno> {
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

    /// Heads begin nowhere, the log at its first eraseblock.
    pub(crate) fn new_journal(&self, log_leb: LebNumber) {
        debug_assert!(log_leb >= LOG_LEB, "the log begins behind the master nodes");
        let mut journal = self.journal.borrow_mut();
        journal.log_head = Position::start_of(log_leb);
        journal.log_tail = log_leb;
        journal.min_log_bytes = self.layout.leb_bytes.into();
    }

    /// Writes the log anew with each eraseblock named once, because its head has reached its tail
    /// (`ubifs_consolidate_log`).
    pub(crate) async fn consolidate_log(&self, tail: LebNumber) -> Result<(), Errno> {
        let mut done = Vec::new();
        let mut bytes = Vec::new();
        let (mut leb, mut write_leb) = (tail, tail);
        loop {
            let old = self.read_leb(Position::start_of(leb)).await?;
            let scan = Scan::of(&old, 0, self.layout.min_io as usize);
            let scan = scan.map_err(|_| Errno::Eio)?;
            for found in &scan.nodes {
                let from = found.offset as usize;
                let node = &old[from..from + found.header.bytes];
                match found.header.kind {
                    kind::REFERENCE => {
                        let named = ReferenceNode::parse(node).at.leb;
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
            if leb == self.journal.borrow().log_head.leb {
                break;
            }
            leb = self.layout.next_log_leb(leb);
        }
        if !bytes.is_empty() {
            self.change_leb(write_leb, &bytes).await?;
        }
        let end = Position::new(write_leb, bytes.len() as u32);
        let mut rest = self.layout.next_log_leb(write_leb);
        while rest != tail {
            self.unmap(rest).await?;
            rest = self.layout.next_log_leb(rest);
        }
        self.journal.borrow_mut().log_head = end;
        Ok(())
    }
}
