//! How much of an image nodes of JFFS2 explain.

use crate::chip::{Form, is_blank, pages, share};
use jffs2::nodes::{
    ACCURATE, CLEANMARKER, DIRENT, DirentNode, HEADER_BYTES, Header, INODE, INODE_BYTES, InodeNode,
    crc, padded,
};

/// Blocks that are looked at for nodes: they are slower to find than tags.
const NODE_BLOCKS_MAX: usize = 64;
/// The first four bytes of JFFS2's mark of a clean block in the spare area.
const SPARE_MARKER: u32 = 0x2003_1985;

/// Share of the bytes that lie in nodes; with spare areas the share of the marked blocks, if that is more.
pub(crate) fn explained_share(image: &[u8], form: &Form, block_bytes: u32) -> f64 {
    let nodes = nodes_share(image, form, block_bytes);
    if form.has_oob { nodes.max(marked_share(image, form, block_bytes)) } else { nodes }
}

/// Share of the blocks whose spare area says that JFFS2 erased them (`jffs2_write_nand_cleanmarker`):
/// on a chip with a single torn node nothing else tells of the file system.
fn marked_share(image: &[u8], form: &Form, block_bytes: u32) -> f64 {
    let pages_per_block = form.pages_per_block(block_bytes);
    let (mut marked, mut blocks) = (0, 0);
    for block in image.chunks_exact(form.stride() * pages_per_block) {
        let (_, oob) = block[..form.stride()].split_at(form.layout.page_bytes as usize);
        let mut first_bytes = [0; 4];
        form.layout.gather(oob, 0, &mut first_bytes);
        marked += u64::from(u32::from_le_bytes(first_bytes) == SPARE_MARKER);
        blocks += 1;
    }
    share(marked, blocks)
}

fn nodes_share(image: &[u8], form: &Form, block_bytes: u32) -> f64 {
    let pages_per_block = form.pages_per_block(block_bytes);
    let mut inside = 0;
    let mut outside = 0;
    let mut looked_at = 0;
    for block in image.chunks(form.stride() * pages_per_block) {
        // What is left of a page that is not whole is data of a plain image, whose last page may be
        // short; a page with a spare area is whole, or the form is not right.
        let rest = block.chunks_exact(form.stride()).remainder();
        let mut data: Vec<u8> = pages(block, form).flat_map(|(data, _)| data).copied().collect();
        if !form.has_oob {
            data.extend_from_slice(rest);
        }
        if is_blank(&data) {
            continue;
        }
        let (found, other) = cover(&data);
        inside += found;
        outside += other;
        if form.has_oob {
            outside += rest.iter().filter(|byte| **byte != 0xff).count() as u64;
        }
        looked_at += 1;
        if looked_at == NODE_BLOCKS_MAX {
            break;
        }
    }
    share(inside, inside + outside)
}

/// Bytes in nodes with sound checksums, and other bytes that are not blank.
fn cover(block: &[u8]) -> (u64, u64) {
    let (mut inside, mut outside, mut at) = (0, 0, 0);
    while at + HEADER_BYTES <= block.len() {
        let header = Header::parse(&block[at..]);
        // Bounded, so that rounding up cannot overflow.
        let length = padded(header.total_bytes.min(1 << 30)) as usize;
        if block[at..at + 4] == [0xff; 4] {
            at += 4;
        } else if header.is_valid() && length >= HEADER_BYTES && at + length <= block.len() {
            // A sound header may be all of a node that lies where it seems to: in the wrong form,
            // the rest of it is elsewhere.
            if is_whole(&header, &block[at..at + length]) {
                inside += length as u64;
            } else {
                outside += length as u64;
            }
            at += length;
        } else {
            outside += 4;
            at += 4;
        }
    }
    (inside, outside)
}

/// The checksums of inode and directory nodes hold; other nodes are few.
fn is_whole(header: &Header, node: &[u8]) -> bool {
    // Where nodes are marked obsolete in place, the checksum of the node is still that of the type as it
    // was (`jffs2_mark_node_obsolete`, fs/jffs2/nodemgmt.c); that of the header leaves the mark out.
    if header.node_type & ACCURATE == 0 {
        return true;
    }
    match header.node_type | ACCURATE {
        DIRENT => DirentNode::parse(node).is_some(),
        INODE => InodeNode::parse(node).is_some_and(|inode| {
            let stored = node.get(INODE_BYTES..INODE_BYTES + inode.stored_bytes as usize);
            stored.is_some_and(|stored| crc(stored) == inode.data_crc)
        }),
        _ => true,
    }
}

/// Whether blocks begin with the node that says that they were erased.
pub(crate) fn has_markers_in_band(image: &[u8], form: &Form, block_bytes: u32) -> bool {
    let pages_per_block = form.pages_per_block(block_bytes);
    image.chunks(form.stride() * pages_per_block).any(|block| {
        let Some(first) = block.get(..HEADER_BYTES) else { return false };
        let header = Header::parse(first);
        header.is_valid() && header.node_type == CLEANMARKER
    })
}
