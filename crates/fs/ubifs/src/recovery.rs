//! After a power cut: torn ends, two masters that differ, sizes that lag behind the data.
//!
//! Source: `fs/ubifs/recovery.c`. A part of the engine: uses the engine, states and formats, and what a
//! search may pick (`find.rs`).

use crate::engine::Engine;
use crate::find::Picking;
use crate::finding::Code;
use crate::journal::Obstacle;
use crate::keys::Key;
use crate::layout::{GC_HEAD, HeadNumber, MASTER_LEB};
use crate::leb_bytes::LebBytes;
use crate::lprops::Change;
use crate::master::{Master, flag};
use crate::nodes::{
    Group, HEADER_BYTES, MAGIC, MASTER_BYTES, aligned, crc, kind, pad, put_u32, put_u64, seal,
    u32_at, u64_at,
};
use crate::position::{LebNumber, Position};
use crate::scan::{Found, Item, Scan, look};
use fs_api::{Errno, Place as FoundAt};
use ubi::{is_blank, written_bytes};

/// A copy of the master node, as the recovery finds it.
#[derive(Default)]
struct MasterCopy {
    /// Offset and bytes of the last whole node.
    node: Option<(u32, Vec<u8>)>,
    /// Behind it stands something that is no node.
    is_torn: bool,
}

/// Nodes up to the first place that holds none, that place, and what is there.
fn scan_until_damage(bytes: &[u8], start: usize) -> (Scan, usize, Item) {
    let (mut scan, mut at, mut last) = (Scan::default(), start, Item::Empty);
    while bytes.len() - at >= 8 {
        last = look(bytes, at);
        match last {
            Item::Node(header) => {
                scan.nodes.push(Found { header, offset: at as u32 });
                at = (at + aligned(header.bytes)).min(bytes.len());
            }
            Item::Padding(length) => at += length,
            Item::Empty | Item::Damaged => break,
        }
    }
    (scan, at, last)
}

impl Engine {
    fn unrecoverable(&self, at: Position) -> Errno {
        let text = format!("LEB {at}: damage that no power cut explains");
        self.find(Code::NoPowerCut, at.found(), text);
        Errno::Eio
    }

    /// Whether everything behind the unit that holds an offset is blank (`is_last_write`).
    fn is_last_write(&self, leb: &[u8], offset: usize) -> bool {
        let end = (offset + 1).next_multiple_of(self.layout.max_write as usize).min(leb.len());
        is_blank(&leb[end..])
    }

    /// Whether a torn node is the last of its eraseblock (`no_more_nodes`).
    fn is_last_node(&self, leb: &[u8], offset: usize) -> bool {
        let unit = self.layout.max_write as usize;
        let blank_from = |end: usize| is_blank(&leb[end.next_multiple_of(unit).min(leb.len())..]);
        // The length in the header is torn as well, so the header alone is taken for the node.
        if blank_from(offset + HEADER_BYTES) {
            return true;
        }
        let length = u32_at(leb, offset + 16) as usize;
        u32_at(leb, offset) == MAGIC && length <= leb.len() - offset && blank_from(offset + length)
    }

    /// Scans an eraseblock that was written when the power was cut, drops what is torn and writes it
    /// anew without; the bytes and nodes that are left (`ubifs_recover_leb`). `head` is none for what
    /// is not of the journal.
    pub(crate) async fn recover_leb(
        &self,
        from: Position,
        head: Option<HeadNumber>,
    ) -> Result<(LebBytes, Scan), Errno> {
        let Position { leb, offset: start } = from;
        let mut bytes = self.read_leb(from).await?;
        let (mut scan, mut at, last) = scan_until_damage(&bytes, start as usize);
        let is_explained = match last {
            Item::Damaged if u32_at(&bytes, at) == MAGIC => {
                self.is_last_node(&bytes, at) || self.is_last_write(&bytes, at)
            }
            _ => is_blank(&bytes[at..]) || self.is_last_write(&bytes, at),
        };
        if !is_explained {
            return Err(self.unrecoverable(Position::new(leb, at as u32)));
        }
        let min_io = self.layout.min_io as usize;
        let unit = at / min_io * min_io;
        // The collector's nodes are copies of nodes that still exist, so it has no groups to keep
        // whole.
        if head.is_some_and(|head| head != GC_HEAD) {
            while let Some(node) = scan.nodes.pop_if(|node| node.header.group == Group::Member) {
                at = node.offset as usize;
            }
        }
        if head == Some(GC_HEAD) {
            // The unit in which the cut fell must be free again, or the collector's head may not
            // take what it was to take.
            while at > unit {
                let Some(node) = scan.nodes.pop() else { break };
                at = node.offset as usize;
            }
        }
        // The unit that the cut fell in is padded: NAND must not be programmed a second time behind
        // a torn write.
        let end = at.next_multiple_of(min_io);
        pad(&mut bytes[at..end]);
        bytes[end..].fill(0xff);
        scan.end = end as u32;
        if !self.is_read_only() {
            if end == 0 {
                self.unmap(leb).await?;
            } else {
                if start > 0 {
                    self.read(Position::start_of(leb), &mut bytes[..start as usize]).await?;
                }
                // As an atomic change: a second cut during recovery finds either the old or the
                // clean eraseblock (`fix_unclean_leb`).
                self.change_leb(leb, &bytes[..end]).await?;
            }
        }
        self.count(|statistics| statistics.recovered_lebs += 1);
        Ok((bytes, scan))
    }

    /// The end of the log: what follows it must be blank or old (`ubifs_recover_log_leb`).
    pub(crate) async fn recover_log_leb(
        &self,
        leb: LebNumber,
        commit_sequence: u64,
    ) -> Result<(LebBytes, Scan), Errno> {
        let next = self.layout.next_log_leb(leb);
        if next != self.journal.borrow().log_tail {
            let bytes = self.read_leb(Position::start_of(next)).await?;
            let Ok(scan) = Scan::of(&bytes, 0, self.layout.min_io as usize) else {
                return Err(self.unrecoverable(Position::start_of(next)));
            };
            // The next log eraseblock holds newer nodes, so the damage is not at the end of the log
            // and no cut explains it.
            if scan.nodes.first().is_some_and(|node| node.header.sequence > commit_sequence)
                && commit_sequence > 0
            {
                return Err(self.unrecoverable(Position::start_of(leb)));
            }
        }
        self.recover_leb(Position::start_of(leb), None).await
    }

    async fn read_master_copy(&self, leb: LebNumber) -> Result<Option<MasterCopy>, Errno> {
        let bytes = self.read_leb(Position::start_of(leb)).await?;
        let stride = self.layout.master_stride as usize;
        let mut count = 0;
        while (count + 1) * stride <= bytes.len() && u32_at(&bytes, count * stride) == MAGIC {
            count += 1;
        }
        let whole = |at: usize| match look(&bytes, at) {
            Item::Node(header) => Some(header),
            _ => None,
        };
        let mut copy = MasterCopy::default();
        let mut end = count * stride;
        if count > 0 {
            let mut at = end - stride;
            let mut header = whole(at);
            if header.is_none() && at > 0 {
                at -= stride;
                header = whole(at);
                if header.is_none() {
                    return Ok(None);
                }
            }
            end = at;
            if let Some(header) = header {
                if header.kind != kind::MASTER {
                    return Ok(None);
                }
                copy.node = Some((at as u32, bytes[at..at + MASTER_BYTES].to_vec()));
                end += stride;
            }
        }
        let torn_end = (end + stride).min(bytes.len());
        copy.is_torn = !is_blank(&bytes[end..torn_end]);
        Ok(is_blank(&bytes[torn_end..]).then_some(copy))
    }

    /// The newer of two masters that differ, if a cut explains how they differ
    /// (`ubifs_recover_master_node`).
    pub(crate) async fn recover_master(&self) -> Result<Master, Errno> {
        let failed = || {
            self.find(
                Code::BadMaster,
                FoundAt::Whole,
                "neither copy of the master node can be used",
            );
            Errno::Eio
        };
        let first = self.read_master_copy(MASTER_LEB).await?.ok_or_else(failed)?;
        let second = self.read_master_copy(MASTER_LEB + 1).await?.ok_or_else(failed)?;
        let (stride, whole) = (self.layout.master_stride, self.layout.leb_bytes);
        let is_own = |node: &[u8]| u32_at(node, 40) & flag::RECOVERED != 0;
        let node = match (first.node, second.node) {
            // An earlier recovery was cut.
            (Some((0, node)), _) if is_own(&node) && !first.is_torn => Some(node),
            (Some((at, node)), Some((other_at, other))) => {
                let is_explained = if at == other_at {
                    node[HEADER_BYTES..] == other[HEADER_BYTES..]
                } else {
                    // A write goes to the first copy before the second, so the first may be one
                    // node ahead (`ubifs_recover_master_node`).
                    let is_ahead =
                        other_at + stride == at || at == 0 && whole - other_at - stride < stride;
                    is_ahead && !first.is_torn
                };
                is_explained.then_some(node)
            }
            (Some((at, node)), None) => (at == 0 && !first.is_torn).then_some(node),
            // The first copy was unmapped to begin anew, which happens only when the second is
            // full.
            (None, Some((at, node))) => (at + 2 * stride > whole).then_some(node),
            (None, None) => None,
        };
        let node = node.ok_or_else(failed)?;
        self.see_sequence(u64_at(&node, 8));
        if !self.is_read_only() {
            // The copies keep the sequence number of the node that they replace.
            self.sequence.set(u64_at(&node, 8) - 1);
            let mut saved = node.clone();
            let flags = u32_at(&saved, 40);
            put_u32(&mut saved, 40, flags | flag::RECOVERED);
            seal(&mut saved, kind::MASTER, self.next_sequence(), Group::None);
            let bytes = self.padded(saved);
            for leb in [MASTER_LEB, MASTER_LEB + 1] {
                self.change_leb(leb, &bytes).await?;
            }
            self.master_offset.set(0);
        }
        Ok(Master::parse(&node))
    }

    /// What a commit that was cut has written behind the index and the tree of LEB properties must
    /// not be there (`ubifs_recover_inl_heads`).
    pub(crate) async fn recover_heads(&self) -> Result<(), Errno> {
        let master = self.master.get();
        for head in [master.index_head, master.lpt_head] {
            let Position { leb, offset } = head;
            let length = self.layout.max_write.min(self.layout.leb_bytes - offset);
            if length == 0 {
                continue;
            }
            let mut bytes = vec![0; length as usize];
            self.read(head, &mut bytes).await?;
            if is_blank(&bytes) {
                continue;
            }
            if offset == 0 {
                self.unmap(leb).await?;
                continue;
            }
            let mut bytes = vec![0; offset as usize];
            self.read(Position::start_of(leb), &mut bytes).await?;
            self.change_leb(leb, &bytes).await?;
        }
        Ok(())
    }

    /// Data reached the medium before the inode that counts it (`ubifs_recover_size`).
    pub(crate) async fn recover_sizes(&self) -> Result<(), Errno> {
        let sizes = std::mem::take(&mut *self.sizes.borrow_mut());
        for (inode, mut seen) in sizes {
            // Data without an inode node in the journal: the inode is in the index already, or was
            // never written and the data is void.
            if !seen.exists {
                match self.read_inode(inode).await {
                    Ok(node) => seen.inode_size = node.size,
                    Err(Errno::Enoent) => {
                        self.tnc_remove_inode(inode).await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            if seen.inode_size >= seen.data_size {
                continue;
            }
            self.count(|statistics| statistics.recovered_sizes += 1);
            if self.is_read_only() {
                let inode = self.inode(inode).await?;
                let mut data = inode.data.borrow_mut();
                data.node.size = data.node.size.max(seen.data_size);
            } else {
                self.fix_size(Key::inode(inode), seen.data_size).await?;
            }
        }
        Ok(())
    }

    /// Rewrites the eraseblock of an inode node with the size it should have (`fix_size_in_place`).
    async fn fix_size(&self, inode: Key, size: u64) -> Result<(), Errno> {
        let place = {
            let _held = self.tnc_lock.lock().await;
            let (found, spot) = self.find_key(inode, false).await?;
            if !found {
                return Err(Errno::Eio);
            }
            self.place_at(spot)
        };
        let mut bytes = self.read_leb(Position::start_of(place.leb)).await?;
        let from = place.offset as usize;
        let node = &mut bytes[from..from + place.bytes as usize];
        if u64_at(node, 48) >= size {
            return Ok(());
        }
        put_u64(node, 48, size);
        // The node is changed in place without a new sequence number, so the index need not change.
        let sum = crc(&node[8..]);
        put_u32(node, 4, sum);
        let used = written_bytes(&bytes);
        let used = used.next_multiple_of(self.layout.min_io as usize);
        self.change_leb(place.leb, &bytes[..used]).await
    }

    /// The collector gets its reserve, and a commit is made (`ubifs_rcvry_gc_commit`).
    pub(crate) async fn recover_reserve(&self) -> Result<(), Errno> {
        self.space.borrow_mut().gc_leb = None;
        let head = {
            let buffer = self.head(GC_HEAD).buffer.borrow();
            buffer.leb.map(|_| buffer.offset).filter(|offset| *offset < self.layout.leb_bytes)
        };
        let found = match head {
            Some(offset) => match self.find_dirty(offset, Picking::Reserve).await {
                Ok((leb, properties)) => Some((leb, properties)),
                Err(Errno::Enospc) => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let Some((leb, properties)) = found else { return self.grab_reserve().await };
        // Later mounts shall see collection and removal of orphans in this order.
        self.commit().await?;
        if properties.free + properties.dirty == self.layout.leb_bytes {
            let free = Some(self.layout.leb_bytes);
            let change = Change { free, dirty: Some(0), ..Change::default() };
            self.change_properties(leb, change).await?;
            self.space.borrow_mut().gc_leb = Some(leb);
            return self.unmap(leb).await;
        }
        let _held = self.head(GC_HEAD).lock.lock().await;
        match self.collect_leb(leb).await {
            Ok(_) => {}
            Err(Obstacle::Failed(error)) => return Err(error),
            Err(Obstacle::CommitFirst) => return Err(Errno::Eio),
        }
        self.sync_head_locked(GC_HEAD).await?;
        let reserve = self.space.borrow().gc_leb;
        match reserve {
            Some(leb) => self.unmap(leb).await,
            None => Err(Errno::Eio),
        }
    }

    /// Takes an empty eraseblock before the commit can take it (`grab_empty_leb`).
    async fn grab_reserve(&self) -> Result<(), Errno> {
        let leb = self.find_for_index().await?;
        let change = Change { is_index: Some(false), ..Change::default() };
        self.change_properties(leb, change).await?;
        self.space.borrow_mut().gc_leb = Some(leb);
        self.commit().await
    }
}
