//! Replaying the journal: what was written since the last commit goes into the index.
//!
//! Source: `fs/ubifs/replay.c`. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::journal::Bud;
use crate::keys::{Key, LAST_BLOCK, kind as key_kind};
use crate::layout::HeadNumber;
use crate::lprops::Change;
use crate::lpt_format::Properties;
use crate::nodes::{
    BLOCK_BYTES, DataNode, EntryNode, HEADER_BYTES, InodeNode, Place, ReferenceNode,
    TruncationNode, aligned, key_of, kind, u64_at,
};
use crate::position::{LebNumber, Position};
use crate::scan::Scan;
use fs_api::Errno;

/// A change of the index that a node of the journal stands for.
enum Effect {
    Add { key: Key, size: u64 },
    AddName { key: Key, name: Vec<u8> },
    Remove { key: Key },
    RemoveName { key: Key, name: Vec<u8> },
    Cut(TruncationNode),
}

struct Entry {
    sequence: u64,
    place: Place,
    effect: Effect,
}

/// An eraseblock of the journal, and what was found in it.
struct ReplayBud {
    leb: LebNumber,
    bud: Bud,
    free: u32,
    dirty: u32,
}

impl Engine {
    fn damaged(&self, at: Position, what: &str) -> Errno {
        self.find(Code::DamagedJournal, at.found(), format!("LEB {at}: {what}"));
        Errno::Eio
    }

    /// The head of the index is in use (`take_ihead`).
    async fn take_index_head(&self) -> Result<(), Errno> {
        let leb = self.space.borrow().index_head.leb;
        self.change_properties(leb, Change::TAKE).await
    }

    /// Puts into the index what the journal holds, in the order of sequence numbers
    /// (`ubifs_replay_journal`).
    pub(crate) async fn replay(&self) -> Result<(), Errno> {
        // It would pass for an eraseblock to collect otherwise, while the next commit writes to it.
        self.take_index_head().await?;
        let mut buds = self.read_log().await?;
        let mut entries = Vec::new();
        for number in 0..buds.len() {
            let is_last = self.is_last_bud(&buds, number).await?;
            self.replay_bud(&mut buds[number], is_last, &mut entries).await?;
        }
        // Heads write side by side. The sequence number alone gives the order in which the kernel
        // changed its index.
        entries.sort_by_key(|entry: &Entry| entry.sequence);
        self.count(|statistics| statistics.replayed_nodes += entries.len() as u64);
        for at in 0..entries.len() {
            self.apply_entry(&entries, at).await?;
        }
        for bud in &buds {
            self.account_bud(bud).await?;
        }
        let dirty = self.tnc.borrow().dirty;
        self.space.borrow_mut().uncommitted_index_bytes =
            // Each dirty node may become a full one; the budget must hold until the next commit
            // (`ubifs_replay_journal`).
            dirty * u64::from(self.layout.max_index_node);
        Ok(())
    }

    /// Reads the log from its tail to its end (`replay_log_leb`).
    async fn read_log(&self) -> Result<Vec<ReplayBud>, Errno> {
        let tail = self.journal.borrow().log_tail;
        let mut buds: Vec<ReplayBud> = Vec::new();
        let (mut leb, mut commit_sequence) = (tail, 0);
        loop {
            let bytes = self.read_leb(Position::start_of(leb)).await?;
            let (bytes, scan) = match Scan::of(&bytes, 0, self.layout.min_io as usize) {
                Ok(scan) => (bytes, scan),
                Err(_) if self.needs_recovery.get() => {
                    self.recover_log_leb(leb, commit_sequence).await?
                }
                Err(damage) => {
                    return Err(
                        self.damaged(Position::new(leb, damage.offset), "damaged node in the log")
                    );
                }
            };
            let Some(first) = scan.nodes.first() else {
                if leb == tail {
                    return Err(self.damaged(Position::start_of(leb), "the log is empty"));
                }
                break;
            };
            if leb == tail {
                let commit = u64_at(&bytes, HEADER_BYTES);
                if first.header.kind != kind::COMMIT_START || commit != self.commit_number.get() {
                    return Err(self.damaged(
                        Position::start_of(leb),
                        "the log does not begin with its commit",
                    ));
                }
                commit_sequence = first.header.sequence;
            }
            if first.header.sequence < commit_sequence {
                // From before the commit: only unmapped, not erased.
                break;
            }
            self.take_log_nodes(leb, &bytes, &scan, commit_sequence, &mut buds)?;
            self.journal.borrow_mut().log_head = Position::new(leb, scan.end);
            if scan.end == 0 {
                break;
            }
            leb = self.layout.next_log_leb(leb);
            if leb == tail {
                break;
            }
        }
        Ok(buds)
    }

    /// Takes the references of an eraseblock of the log.
    fn take_log_nodes(
        &self,
        leb: LebNumber,
        bytes: &[u8],
        scan: &Scan,
        commit_sequence: u64,
        buds: &mut Vec<ReplayBud>,
    ) -> Result<(), Errno> {
        for found in &scan.nodes {
            let at = Position::new(leb, found.offset);
            if found.header.sequence < commit_sequence {
                return Err(self.damaged(at, "an old node in the log"));
            }
            self.see_sequence(found.header.sequence);
            match found.header.kind {
                kind::REFERENCE => {
                    let node = ReferenceNode::parse(&bytes[found.offset as usize..]);
                    self.add_replay_bud(node, at, buds)?;
                }
                kind::COMMIT_START if found.offset == 0 => {}
                _ => return Err(self.damaged(at, "not a node of the log")),
            }
        }
        Ok(())
    }

    fn add_replay_bud(
        &self,
        node: ReferenceNode,
        named_at: Position,
        buds: &mut Vec<ReplayBud>,
    ) -> Result<(), Errno> {
        let Position { leb, offset: start } = node.at;
        let is_possible = self.layout.is_main(leb)
            // The head of the index is no part of the journal.
            && leb != self.space.borrow().index_head.leb
            && start <= self.layout.leb_bytes
            && start.is_multiple_of(self.layout.min_io);
        let Some(head) = HeadNumber::of(node.head).filter(|_| is_possible) else {
            return Err(self.damaged(named_at, "the log names what cannot be"));
        };
        if let Some(known) = buds.iter().find(|bud| bud.leb == leb) {
            // A commit names the open heads once more.
            if known.bud.head == head && known.bud.start <= start {
                return Ok(());
            }
            return Err(self.damaged(named_at, "the log contradicts itself"));
        }
        let bud = Bud { start, head };
        buds.push(ReplayBud { leb, bud, free: 0, dirty: 0 });
        let mut journal = self.journal.borrow_mut();
        journal.bud_bytes += u64::from(self.layout.leb_bytes - start);
        journal.buds.insert(leb, bud);
        Ok(())
    }

    /// Only the last eraseblock of a head can have been written when the power was cut; the one
    /// before it, if the last is still blank (`is_last_bud`).
    async fn is_last_bud(&self, buds: &[ReplayBud], number: usize) -> Result<bool, Errno> {
        let head = buds[number].bud.head;
        let mut later = buds[number + 1..].iter().filter(|bud| bud.bud.head == head);
        let Some(next) = later.next() else { return Ok(true) };
        if later.next().is_some() {
            return Ok(false);
        }
        let mut start = [0; 4];
        if next.bud.start + 4 > self.layout.leb_bytes {
            return Ok(true);
        }
        self.read(Position::new(next.leb, next.bud.start), &mut start).await?;
        Ok(start == [0xff; 4])
    }

    async fn replay_bud(
        &self,
        bud: &mut ReplayBud,
        is_last: bool,
        entries: &mut Vec<Entry>,
    ) -> Result<(), Errno> {
        let (leb, start) = (bud.leb, bud.bud.start);
        let from = Position::new(leb, start);
        let (bytes, scan) = if self.needs_recovery.get() && is_last {
            self.recover_leb(from, Some(bud.bud.head)).await?
        } else {
            let bytes = self.read_leb(from).await?;
            match Scan::of(&bytes, start as usize, self.layout.min_io as usize) {
                Ok(scan) => (bytes, scan),
                Err(damage) => {
                    return Err(self.damaged(
                        Position::new(leb, damage.offset),
                        "damaged node in the journal",
                    ));
                }
            }
        };
        let mut used = 0;
        for found in &scan.nodes {
            self.see_sequence(found.header.sequence);
            let node = &bytes[found.offset as usize..found.offset as usize + found.header.bytes];
            let at = Position::new(leb, found.offset);
            let effect = self.effect_of(at, found.header.kind, node)?;
            let is_addition = matches!(effect, Effect::Add { .. } | Effect::AddName { .. });
            if is_addition {
                used += aligned(found.header.bytes) as u32;
            }
            let place = Place::new(at, found.header.bytes as u32);
            entries.push(Entry { sequence: found.header.sequence, place, effect });
        }
        // Nodes that only remove something, and padding, are dirty space from the beginning.
        bud.dirty = scan.end - start - used;
        bud.free = self.layout.leb_bytes - scan.end;
        Ok(())
    }

    fn effect_of(&self, at: Position, node_kind: u8, node: &[u8]) -> Result<Effect, Errno> {
        let bad = || self.damaged(at, "a node of the journal contradicts itself");
        if node_kind == kind::TRUNCATION {
            let cut = TruncationNode::parse(node);
            return if cut.new_size < cut.old_size { Ok(Effect::Cut(cut)) } else { Err(bad()) };
        }
        if node_kind > kind::ATTRIBUTE {
            return Err(self.damaged(at, "not a node of the journal"));
        }
        let key = key_of(node);
        if key.kind() != u32::from(node_kind) {
            return Err(bad());
        }
        // The master's number is as old as the last commit.
        self.highest_inode.set(self.highest_inode.get().max(key.inode.into()));
        Ok(match node_kind {
            kind::INODE => {
                let inode = InodeNode::parse(node).ok_or_else(bad)?;
                if inode.links == 0 {
                    Effect::Remove { key }
                } else {
                    Effect::Add { key, size: inode.size }
                }
            }
            kind::DATA => {
                let data = DataNode::parse(node);
                let start = u64::from(key.low()) * BLOCK_BYTES as u64;
                Effect::Add { key, size: start + u64::from(data.bytes) }
            }
            _ => {
                let entry = EntryNode::parse(node).ok_or_else(bad)?;
                if entry.name.is_empty() || entry.name.contains(&0) {
                    return Err(bad());
                }
                if entry.inode == 0 {
                    Effect::RemoveName { key, name: entry.name }
                } else {
                    Effect::AddName { key, name: entry.name }
                }
            }
        })
    }

    /// Applies one entry of the journal to the index (`apply_replay_entry`).
    async fn apply_entry(&self, entries: &[Entry], at: usize) -> Result<(), Errno> {
        let Entry { place, effect, .. } = &entries[at];
        match effect {
            Effect::AddName { key, name } => self.tnc_add_name(*key, *place, name).await,
            Effect::RemoveName { key, name } => self.tnc_remove_name(*key, name).await,
            Effect::Add { key, size } => {
                self.tnc_add(*key, *place).await?;
                self.see_size(*key, *size);
                Ok(())
            }
            Effect::Remove { key } => {
                let inode = u64::from(key.inode);
                self.sizes.borrow_mut().remove(&inode);
                // Later nodes may say that it got a name again.
                let is_alive =
                    entries[at + 1..].iter().rev().find_map(|entry| match &entry.effect {
                        Effect::Add { key: other, .. } if other == key => Some(true),
                        Effect::Remove { key: other } if other == key => Some(false),
                        _ => None,
                    });
                if is_alive == Some(true) { Ok(()) } else { self.tnc_remove_inode(inode).await }
            }
            Effect::Cut(cut) => {
                let inode = u64::from(cut.inode);
                if let Some(seen) = self.sizes.borrow_mut().get_mut(&inode) {
                    seen.data_size = cut.new_size;
                }
                self.remove_blocks(*cut).await
            }
        }
    }

    /// Blocks behind the new end of a file leave the index.
    pub(crate) async fn remove_blocks(&self, cut: TruncationNode) -> Result<(), Errno> {
        let (inode, block) = (u64::from(cut.inode), BLOCK_BYTES as u64);
        let (first, end) = (cut.new_size.div_ceil(block), cut.old_size.div_ceil(block));
        if first >= end {
            return Ok(());
        }
        let number = |block: u64| block.min(LAST_BLOCK.into()) as u32;
        let (from, to) = (Key::data(inode, number(first)), Key::data(inode, number(end - 1)));
        self.tnc_remove_range(from, to).await
    }

    fn see_size(&self, key: Key, size: u64) {
        if !self.needs_recovery.get() {
            return;
        }
        let mut sizes = self.sizes.borrow_mut();
        let seen = sizes.entry(u64::from(key.inode)).or_default();
        match key.kind() {
            key_kind::INODE => (seen.inode_size, seen.exists) = (size, true),
            key_kind::DATA => seen.data_size = seen.data_size.max(size),
            _ => {}
        }
    }

    /// An eraseblock of the journal gets the properties that the scan found (`set_bud_lprops`).
    async fn account_bud(&self, replay: &ReplayBud) -> Result<(), Errno> {
        let held = self.lpt_lock.lock().await;
        let number = self.load_leb(replay.leb).await?;
        let known = self.lpt.borrow().lebs.get(number).properties;
        let mut dirty = known.dirty;
        if replay.bud.start == 0 && (known.free != self.layout.leb_bytes || known.dirty != 0) {
            // It was collected before it came into the journal, and no commit was made since.
            dirty = dirty.saturating_sub(self.layout.leb_bytes - known.free);
        }
        let known = Properties { dirty, ..known };
        let (dirty, is_possible) = replay.dirty_with(known, self.layout.leb_bytes);
        if !is_possible {
            self.find(
                Code::BadSums,
                Position::start_of(replay.leb).found(),
                format!("LEB {}: more dirty space than it can have", replay.leb),
            );
        }
        let change = Change {
            free: Some(replay.free),
            dirty: Some(dirty),
            is_index: None,
            is_taken: Some(true),
        };
        self.change_number(number, change).await?;
        drop(held);
        let end = self.layout.leb_bytes - replay.free;
        self.seek(replay.bud.head, Position::new(replay.leb, end));
        Ok(())
    }
}

impl ReplayBud {
    /// Dirty bytes of the eraseblock, which had some before the replay, and whether the sum can be.
    ///
    /// `set_bud_lprops` takes whatever comes out and mounts. Here it is bounded by what is not free, because
    /// the sums of free and dirty space rely on that.
    fn dirty_with(&self, known: Properties, leb_bytes: u32) -> (u32, bool) {
        let dirty = known.dirty.saturating_add(self.dirty);
        let most = leb_bytes.saturating_sub(self.free);
        (dirty.min(most), dirty <= most)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bud, LebNumber, Properties, ReplayBud};
    use crate::layout::GC_HEAD;

    #[test]
    fn dirty_space_of_a_bud_is_bounded_by_what_is_not_free() {
        let sum = |known_dirty, found_dirty| {
            let bud = Bud { start: 0, head: GC_HEAD };
            let replay = ReplayBud { leb: LebNumber::new(9), bud, free: 400, dirty: found_dirty };
            replay.dirty_with(Properties { dirty: known_dirty, ..Properties::default() }, 1000)
        };
        assert_eq!(sum(100, 200), (300, true));
        assert_eq!(sum(100, 500), (600, true));
        assert_eq!(sum(101, 500), (600, false));
        assert_eq!(sum(u32::MAX, 500), (600, false));
    }
}
