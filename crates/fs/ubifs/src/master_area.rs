//! The two copies of the master node on the medium, read and written.
//!
//! Source: `fs/ubifs/master.c`. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::layout::MASTER_LEB;
use crate::master::Master;
use crate::nodes::{Group, HEADER_BYTES, MASTER_BYTES, kind};
use crate::position::Position;
use crate::scan::Scan;
use fs_api::Errno;

impl Engine {
    /// Reads both copies; none if they are not the same, which calls for recovery.
    pub(crate) async fn read_master(&self) -> Result<Option<Master>, Errno> {
        let mut found: Option<(Vec<u8>, u32, usize)> = None;
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            let bytes = self.read_leb(Position::start_of(leb)).await?;
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
        debug_assert!(offset.is_multiple_of(self.layout.master_stride), "copies follow each other");
        debug_assert!(self.master.get().has_sound_places(&self.layout), "a mount would take it");
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            // One copy is always whole: the second eraseblock is unmapped only after the first copy
            // is written.
            if offset == 0 {
                self.unmap(leb).await?;
            }
            let mut master = self.master.get();
            master.highest_inode = self.highest_inode.get();
            self.write_node(
                master.to_bytes(),
                kind::MASTER,
                Group::None,
                Position::new(leb, offset),
            )
            .await?;
        }
        Ok(())
    }
}
