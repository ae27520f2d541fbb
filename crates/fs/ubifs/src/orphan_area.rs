//! The area of orphans on the medium: commits write it, a mount after a cut removes what it names.
//!
//! Source: `fs/ubifs/orphan.c`. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::nodes::{Group, ORPHANS_BYTES, OrphansNode, kind, seal};
use crate::orphans::State;
use crate::position::Position;
use crate::scan::Scan;
use fs_api::{Errno, Place as FoundAt};

/// What a commit has to write.
#[derive(Debug, Default)]
pub(crate) struct OrphansCommit {
    inodes: Vec<u64>,
}

/// Orphans that a node of so many bytes names.
fn orphans_fitting(bytes: u32) -> usize {
    (bytes as usize).saturating_sub(ORPHANS_BYTES) / 8
}

impl Engine {
    /// Takes the orphans that no commit has written yet (`ubifs_orphan_start_commit`).
    pub(crate) fn start_orphans(&self) -> OrphansCommit {
        let mut orphans = self.orphans.borrow_mut();
        orphans.had_any = !orphans.inodes.is_empty();
        let mut inodes = Vec::new();
        for (inode, state) in &mut orphans.inodes {
            if *state == State::New {
                // Marked before they are written: names that go while the commit is written belong
                // to the next commit.
                *state = State::Written;
                inodes.push(*inode);
            }
        }
        OrphansCommit { inodes }
    }

    /// Orphans that the rest of the area can take (`avail_orphs`).
    fn orphan_room(&self) -> usize {
        let Position { leb, offset } = self.orphans.borrow().head;
        let last = self.layout.orphan_first + (self.layout.orphan_lebs - 1);
        (last - leb) as usize * orphans_fitting(self.layout.leb_bytes)
            + orphans_fitting(self.layout.leb_bytes - offset)
    }

    /// Writes the new orphans, or all anew if the area is full (`ubifs_orphan_end_commit`).
    pub(crate) async fn end_orphans(&self, commit: OrphansCommit) -> Result<(), Errno> {
        let mut inodes = commit.inodes;
        if !inodes.is_empty() {
            let consolidates = self.orphan_room() < inodes.len();
            // The area is full: all that are in use are written from its beginning, each eraseblock
            // as an atomic change (`consolidate`).
            if consolidates {
                let mut orphans = self.orphans.borrow_mut();
                let written = orphans.inodes.iter().filter(|(_, state)| **state == State::Written);
                inodes = written.map(|(inode, _)| *inode).collect();
                orphans.head = Position::start_of(self.layout.orphan_first);
            }
            self.write_orphans(&inodes, consolidates).await?;
        }
        self.orphans.borrow_mut().inodes.retain(|_, state| *state != State::Deleted);
        Ok(())
    }

    async fn write_orphans(&self, inodes: &[u64], is_atomic: bool) -> Result<(), Errno> {
        let whole = self.layout.leb_bytes;
        let last = self.layout.orphan_first + (self.layout.orphan_lebs - 1);
        let mut rest = inodes;
        while !rest.is_empty() {
            let mut to = self.orphans.borrow().head;
            if orphans_fitting(whole - to.offset) == 0 {
                to = Position::start_of(to.leb + 1);
            }
            if to.leb > last {
                self.find(Code::NoRoom, FoundAt::Whole, "no space is left for orphans");
                return Err(Errno::Enospc);
            }
            debug_assert!(to.leb >= self.layout.orphan_first, "the head is within the area");
            let count = orphans_fitting(whole - to.offset).min(rest.len());
            debug_assert!(count > 0, "each node names an orphan");
            let (now, later) = rest.split_at(count);
            let node = OrphansNode {
                commit: self.commit_number.get(),
                is_last: later.is_empty(),
                inodes: now.to_vec(),
            };
            let mut bytes = node.to_bytes();
            seal(&mut bytes, kind::ORPHANS, self.next_sequence(), Group::None);
            let bytes = self.padded(bytes);
            if is_atomic {
                self.change_leb(to.leb, &bytes).await?;
            } else {
                if to.offset == 0 {
                    self.unmap(to.leb).await?;
                }
                self.write(to, &bytes).await?;
            }
            self.orphans.borrow_mut().head = to.plus(bytes.len() as u32);
            rest = later;
        }
        if is_atomic {
            let behind = self.orphans.borrow().head.leb + 1;
            for leb in behind.run((last + 1) - behind) {
                self.unmap(leb).await?;
            }
        }
        Ok(())
    }

    /// After an orderly unmount the area holds nothing of use; after a cut, what it names is removed
    /// (`ubifs_mount_orphans`).
    pub(crate) async fn mount_orphans(&self, has_orphans: bool) -> Result<(), Errno> {
        let first = self.layout.orphan_first;
        let lebs = first.run(self.layout.orphan_lebs);
        self.orphans.borrow_mut().head = Position::start_of(first);
        if !self.needs_recovery.get() {
            if !self.is_read_only() {
                for leb in lebs {
                    self.unmap(leb).await?;
                }
            }
            return Ok(());
        }
        if !has_orphans {
            return Ok(());
        }
        let mut last: (u64, bool) = (0, false);
        for leb in lebs {
            let bytes = self.read_leb(Position::start_of(leb)).await?;
            let (bytes, scan) = match Scan::of(&bytes, 0, self.layout.min_io as usize) {
                Ok(scan) => (bytes, scan),
                Err(_) => self.recover_leb(Position::start_of(leb), None).await?,
            };
            for found in &scan.nodes {
                if found.header.kind != kind::ORPHANS {
                    let at = Position::new(leb, found.offset);
                    let text = format!("LEB {at}: not a node of orphans");
                    self.find(Code::DamagedNode, at.found(), text);
                    return Err(Errno::Eio);
                }
                self.see_sequence(found.header.sequence);
                let from = found.offset as usize;
                let node = OrphansNode::parse(&bytes[from..from + found.header.bytes]);
                // A commit that was not finished has counted already.
                self.commit_number.set(self.commit_number.get().max(node.commit));
                // Nodes of an older commit behind the last node of a newer one are left over from
                // before a consolidation (`do_kill_orphans`).
                if node.commit < last.0 && last.1 {
                    return Ok(());
                }
                for inode in node.inodes {
                    self.remove_orphan(inode).await?;
                }
                last = (node.commit, node.is_last);
            }
            if scan.end > 0 {
                self.orphans.borrow_mut().head = Position::new(leb, scan.end);
            }
        }
        Ok(())
    }

    async fn remove_orphan(&self, inode: u64) -> Result<(), Errno> {
        match self.read_inode(inode).await {
            Ok(node) if node.links == 0 => {}
            Err(Errno::Enoent) => {}
            // The inode has a name again: `linkat` of an open file, or a number used again after a
            // replay.
            Ok(_) => return Ok(()),
            Err(error) => return Err(error),
        }
        self.tnc_remove_inode(inode).await?;
        self.count(|statistics| statistics.orphans_removed += 1);
        // It stays in its node until the area is written anew.
        self.orphans.borrow_mut().inodes.insert(inode, State::Deleted);
        Ok(())
    }
}
