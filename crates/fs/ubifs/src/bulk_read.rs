//! Reading data nodes that lie behind each other at once, for files that are read in order.
//!
//! Source: `ubifs_bulk_read` and `ubifs_do_bulk_read` of `fs/ubifs/file.c`, `ubifs_tnc_get_bu_keys` and
//! `ubifs_tnc_bulk_read` of `tnc.c`. A part of the engine: uses the engine, states and formats.

use crate::engine::Engine;
use crate::finding::Code;
use crate::inode::Inode;
use crate::keys::{Key, LAST_BLOCK, kind as key_kind};
use crate::nodes::{BLOCK_BYTES, DataNode, Header, Place, key_of, kind};
use crate::position::Position;
use crate::tnc::Spot;
use fs_api::{Errno, PAGE_BYTES};

/// Most blocks of one read (`UBIFS_MAX_BULK_READ`).
const BLOCKS_MAX: u64 = 32;
/// A data node of incompressible bytes (`UBIFS_MAX_DATA_NODE_SZ`).
const NODE_BYTES_MAX: u32 = 48 + BLOCK_BYTES as u32;

/// Data nodes of a file that lie behind each other.
struct Bulk {
    nodes: Vec<(u64, Place)>,
    /// Blocks from the first on, holes included.
    blocks: u64,
    /// The file has no more nodes.
    is_end: bool,
}

impl Bulk {
    /// A node within what lies from the first to the last.
    fn bytes_of<'b>(&self, number: usize, bytes: &'b [u8]) -> &'b [u8] {
        let place = self.nodes[number].1;
        let from = (place.offset - self.nodes[0].1.offset) as usize;
        &bytes[from..from + place.bytes as usize]
    }
}

impl Engine {
    /// Reads a page and, if the file is read in order, those behind it, which the layer above keeps.
    /// False if the page is still to be read.
    pub(crate) async fn read_in_bulk(
        &self,
        inode: &Inode,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<bool, Errno> {
        if !self.options.has_bulk_read || !inode.data.borrow_mut().row.goes_on(page) {
            return Ok(false);
        }
        let above = self.cached_pages.borrow().clone().and_then(|pages| pages.upgrade());
        let Some(above) = above else { return Ok(false) };
        let bulk = {
            let _held = self.tnc_lock.lock().await;
            let bulk = self.gather(inode, page).await?;
            if bulk.nodes.is_empty() { None } else { Some((self.read_all(&bulk).await?, bulk)) }
        };
        let Some((bytes, bulk)) = bulk else { return Ok(false) };
        let size = inode.data.borrow().node.size;
        let end = (page + bulk.blocks).min(size.div_ceil(PAGE_BYTES as u64)).max(page + 1);
        let mut pages = Vec::new();
        for at in page..end {
            let mut whole = Box::new([0; PAGE_BYTES]);
            let found = bulk.nodes.binary_search_by_key(&at, |node| node.0);
            if let Ok(number) = found {
                let data = self.restore(&DataNode::parse(bulk.bytes_of(number, &bytes))).await?;
                whole[..data.len()].copy_from_slice(&data);
            }
            pages.push((at, whole, found.is_err()));
        }
        // No await follows: the file's end cannot move before the last page is stored.
        let mut data = inode.data.borrow_mut();
        let size = data.node.size;
        for (at, whole, is_hole) in &mut pages {
            let valid = size.saturating_sub(*at * PAGE_BYTES as u64).min(PAGE_BYTES as u64);
            whole[valid as usize..].fill(0);
            if *is_hole {
                data.holes.insert(*at);
            } else {
                data.holes.remove(at);
            }
            if *at == page {
                into.copy_from_slice(&whole[..]);
            } else if valid > 0 {
                above.put(inode.number, *at, whole);
            }
        }
        data.row.last_page = end - 1;
        if bulk.is_end {
            (data.row.length, data.row.is_bulk) = (1, false);
        }
        Ok(true)
    }

    /// Bytes that are read at once at most (`max_bu_buf_len`).
    pub(crate) fn bulk_buffer_bytes(&self) -> u32 {
        (BLOCKS_MAX as u32 * NODE_BYTES_MAX).min(self.layout.leb_bytes)
    }

    /// The nodes of a file from a block on that lie behind each other in one eraseblock.
    async fn gather(&self, inode: &Inode, block: u64) -> Result<Bulk, Errno> {
        let bytes_max = self.bulk_buffer_bytes();
        let mut bulk = Bulk { nodes: Vec::new(), blocks: 0, is_end: false };
        let number = u32::try_from(block).ok().filter(|number| *number <= LAST_BLOCK);
        let Some(number) = number else { return Ok(bulk) };
        let (found, spot) = self.find_key(Key::data(inode.number, number), false).await?;
        let mut here: Option<Spot> = if found { Some(spot) } else { self.next(spot).await? };
        while let Some(spot) = here {
            let (key, place) = (self.key_at(spot), self.place_at(spot));
            if u64::from(key.inode) != inode.number || key.kind() != key_kind::DATA {
                bulk.is_end = true;
                break;
            }
            if let (Some((_, first)), Some((_, last))) = (bulk.nodes.first(), bulk.nodes.last()) {
                let is_behind = place.position() == Position::new(last.leb, last.end());
                if !is_behind || place.offset + place.bytes - first.offset > bytes_max {
                    break;
                }
            }
            // Holes count: pages of zeros take their place.
            let at = u64::from(key.low());
            if at - block >= BLOCKS_MAX {
                bulk.blocks = BLOCKS_MAX;
                break;
            }
            bulk.nodes.push((at, place));
            bulk.blocks = at - block + 1;
            if bulk.blocks >= BLOCKS_MAX {
                break;
            }
            here = self.next(spot).await?;
        }
        bulk.is_end |= here.is_none();
        Ok(bulk)
    }

    /// What lies from the first node to the last, each of which must be whole.
    async fn read_all(&self, bulk: &Bulk) -> Result<Vec<u8>, Errno> {
        let (first, last) = (bulk.nodes[0].1, bulk.nodes[bulk.nodes.len() - 1].1);
        let length = last.offset + last.bytes - first.offset;
        let bytes = self.read_buffered(first.position(), length).await?;
        self.charge_crc(bytes.len()).await;
        for (number, (block, place)) in bulk.nodes.iter().enumerate() {
            let node = bulk.bytes_of(number, &bytes);
            let is_whole = Header::check(node).is_ok_and(|header| {
                header.kind == kind::DATA
                    && header.bytes == node.len()
                    && u64::from(key_of(node).low()) == *block
            });
            if !is_whole {
                let at = place.position();
                self.find(Code::DamagedNode, at.found(), format!("LEB {at}: damaged data node"));
                return Err(Errno::Eio);
            }
        }
        Ok(bytes)
    }
}
