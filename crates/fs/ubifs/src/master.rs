//! The master node: where everything begins, as the last commit left it.
//!
//! Source: `fs/ubifs/master.c`.

use crate::engine::Engine;
use crate::inode::INODE_NUMBER_WATERMARK;
use crate::layout::{Layout, MASTER_LEB};
use crate::lpt_format::LptPlace;
use crate::nodes::{
    Group, HEADER_BYTES, MASTER_BYTES, Place, kind, put_u32, put_u64, u32_at, u64_at,
};
use crate::scan::Scan;
use fs_api::Errno;

/// Flags of the master node.
pub(crate) mod flag {
    /// Mounted, or not unmounted in order.
    pub(crate) const DIRTY: u32 = 1;
    /// No orphans are in their area.
    pub(crate) const NO_ORPHANS: u32 = 2;
    /// Written by a recovery.
    pub(crate) const RECOVERED: u32 = 4;
}

/// Sums over the properties of all eraseblocks of the main area.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpaceSums {
    pub(crate) empty_lebs: u32,
    pub(crate) taken_empty_lebs: u32,
    pub(crate) index_lebs: u32,
    pub(crate) free: u64,
    pub(crate) dirty: u64,
    pub(crate) used: u64,
    pub(crate) dead: u64,
    pub(crate) dark: u64,
}

/// Fields of the master node; byte offsets stand in `parse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Master {
    pub(crate) highest_inode: u64,
    pub(crate) commit: u64,
    pub(crate) flags: u32,
    pub(crate) log_leb: u32,
    pub(crate) root: Place,
    pub(crate) gc_leb: u32,
    pub(crate) index_head: (u32, u32),
    pub(crate) index_bytes: u64,
    pub(crate) sums: SpaceSums,
    pub(crate) lpt_root: LptPlace,
    pub(crate) lpt_head: LptPlace,
    pub(crate) lpt_table: LptPlace,
    pub(crate) lpt_saved: LptPlace,
    pub(crate) scan_leb: u32,
    pub(crate) leb_count: u32,
}

impl SpaceSums {
    /// Free and dirty space, which collecting makes free, reaches what a single node may need.
    pub(crate) fn allow_writing(&self, dark_watermark: u32) -> bool {
        self.free.saturating_add(self.dirty) >= u64::from(dark_watermark)
    }
}

impl Master {
    pub(crate) fn parse(node: &[u8]) -> Self {
        let place = |at| LptPlace { leb: u32_at(node, at), offset: u32_at(node, at + 4) };
        Self {
            highest_inode: u64_at(node, 24),
            commit: u64_at(node, 32),
            flags: u32_at(node, 40),
            log_leb: u32_at(node, 44),
            root: Place {
                leb: u32_at(node, 48),
                offset: u32_at(node, 52),
                bytes: u32_at(node, 56),
            },
            gc_leb: u32_at(node, 60),
            index_head: (u32_at(node, 64), u32_at(node, 68)),
            index_bytes: u64_at(node, 72),
            sums: SpaceSums {
                empty_lebs: u32_at(node, 156),
                // Nothing is taken when a mount begins; the medium does not store the count.
                taken_empty_lebs: 0,
                index_lebs: u32_at(node, 160),
                free: u64_at(node, 80),
                dirty: u64_at(node, 88),
                used: u64_at(node, 96),
                dead: u64_at(node, 104),
                dark: u64_at(node, 112),
            },
            lpt_root: place(120),
            lpt_head: place(128),
            lpt_table: place(136),
            lpt_saved: place(144),
            scan_leb: u32_at(node, 152),
            leb_count: u32_at(node, 164),
        }
    }

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut node = vec![0; MASTER_BYTES];
        put_u64(&mut node, 24, self.highest_inode);
        put_u64(&mut node, 32, self.commit);
        put_u32(&mut node, 40, self.flags);
        put_u32(&mut node, 44, self.log_leb);
        put_u32(&mut node, 48, self.root.leb);
        put_u32(&mut node, 52, self.root.offset);
        put_u32(&mut node, 56, self.root.bytes);
        put_u32(&mut node, 60, self.gc_leb);
        put_u32(&mut node, 64, self.index_head.0);
        put_u32(&mut node, 68, self.index_head.1);
        put_u64(&mut node, 72, self.index_bytes);
        put_u64(&mut node, 80, self.sums.free);
        put_u64(&mut node, 88, self.sums.dirty);
        put_u64(&mut node, 96, self.sums.used);
        put_u64(&mut node, 104, self.sums.dead);
        put_u64(&mut node, 112, self.sums.dark);
        let places = [self.lpt_root, self.lpt_head, self.lpt_table, self.lpt_saved];
        for (place, at) in places.into_iter().zip((120..).step_by(8)) {
            put_u32(&mut node, at, place.leb);
            put_u32(&mut node, at + 4, place.offset);
        }
        put_u32(&mut node, 152, self.scan_leb);
        put_u32(&mut node, 156, self.sums.empty_lebs);
        put_u32(&mut node, 160, self.sums.index_lebs);
        put_u32(&mut node, 164, self.leb_count);
        node
    }

    /// Whether the numbers can be (`validate_master`).
    pub(crate) fn is_sound(&self, layout: &Layout) -> bool {
        let main = |leb| layout.is_main(leb);
        let lpt = |place: LptPlace| {
            (layout.lpt_first..layout.lpt_first + layout.lpt_lebs).contains(&place.leb)
                && place.offset <= layout.leb_bytes
        };
        let log = (crate::layout::LOG_LEB..layout.lpt_first).contains(&self.log_leb);
        let main_bytes = u64::from(layout.main_lebs) * u64::from(layout.leb_bytes);
        let sums = &self.sums;
        log && self.highest_inode < INODE_NUMBER_WATERMARK
            && main(self.root.leb)
            && self.root.offset < layout.leb_bytes
            && self.root.offset.is_multiple_of(8)
            && self.root.bytes <= layout.max_index_node
            && (self.gc_leb == u32::MAX || main(self.gc_leb))
            && main(self.index_head.0)
            && self.index_head.1 <= layout.leb_bytes
            && self.index_head.1.is_multiple_of(layout.min_io)
            && self.index_bytes < main_bytes
            && self.index_bytes.is_multiple_of(8)
            && lpt(self.lpt_root)
            && lpt(self.lpt_head)
            && lpt(self.lpt_table)
            && (!layout.lpt.is_big || lpt(self.lpt_saved))
            && main(self.scan_leb)
            && sums.empty_lebs <= layout.main_lebs
            && sums.index_lebs <= layout.main_lebs
            && sums.free <= main_bytes
            && sums.dirty <= main_bytes
            && sums.used <= main_bytes
            && sums.dead + sums.dark + sums.used <= main_bytes
    }
}

impl Engine {
    /// Reads both copies; none if they are not the same, which calls for recovery.
    pub(crate) async fn read_master(&self) -> Result<Option<Master>, Errno> {
        let mut found: Option<(Vec<u8>, u32, usize)> = None;
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            let bytes = self.read_leb(leb, 0).await?;
            let Ok(scan) = Scan::of(&bytes, 0, self.layout.min_io as usize) else {
                return Ok(None);
            };
            let Some(last) = scan.nodes.last() else { return Ok(None) };
            self.see_sequence(last.header.sequence);
            if last.header.kind != kind::MASTER {
                return Ok(None);
            }
            let from = last.offset as usize;
            let node = bytes[from..from + MASTER_BYTES].to_vec();
            if let Some((other, offset, count)) = &found
                && (*offset != last.offset
                    || *count != scan.nodes.len()
                    || other[HEADER_BYTES..] != node[HEADER_BYTES..])
            {
                return Ok(None);
            }
            found = Some((node, last.offset, scan.nodes.len()));
        }
        let Some((node, offset, _)) = found else { return Ok(None) };
        self.master_offset.set(offset);
        Ok(Some(Master::parse(&node)))
    }

    /// Writes both copies behind the last ones, in their eraseblocks in turn (`ubifs_write_master`).
    pub(crate) async fn write_master(&self) -> Result<(), Errno> {
        self.must_be_writable()?;
        let mut offset = self.master_offset.get() + self.layout.master_stride;
        if offset + self.layout.master_stride > self.layout.leb_bytes {
            offset = 0;
        }
        self.master_offset.set(offset);
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            // One copy is always whole: the second eraseblock is unmapped only after the first copy
            // is written.
            if offset == 0 {
                self.unmap(leb).await?;
            }
            let mut master = self.master.get();
            master.highest_inode = self.highest_inode.get();
            self.write_node(master.to_bytes(), kind::MASTER, Group::None, (leb, offset)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::SpaceSums;

    /// `check_free_space` of `super.c`: less than the dark watermark is too little.
    #[test]
    fn less_than_the_dark_watermark_does_not_allow_writing() {
        for (free, dirty, is_enough) in [
            (0, 0, false),
            (4096, 2047, false),
            (4096, 2048, true),
            (0, 6144, true),
            (6144, 0, true),
        ] {
            let sums = SpaceSums { free, dirty, ..SpaceSums::default() };
            assert_eq!(sums.allow_writing(6144), is_enough, "{free} free, {dirty} dirty");
        }
    }
}
