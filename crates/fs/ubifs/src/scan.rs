//! Reading an eraseblock node by node.
//!
//! Source: `fs/ubifs/scan.c`. A format: uses formats only.

use crate::nodes::{
    HEADER_BYTES, Header, MAGIC, NodeError, PADDING_BYTE, PADDING_BYTES, kind, u32_at,
};
use ubi::{first_written, is_blank};

/// A node that a scan found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) header: Header,
    pub(crate) offset: u32,
}

/// What begins at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Node(Header),
    /// Padding, with all its bytes.
    Padding(usize),
    Empty,
    Damaged,
}

/// Looks at one offset (`ubifs_scan_a_node`).
pub(crate) fn look(leb: &[u8], offset: usize) -> Item {
    let bytes = &leb[offset..];
    if bytes.len() >= 4 && bytes[..4] == [0xff; 4] || is_blank(bytes) {
        return Item::Empty;
    }
    let padding = bytes.iter().take(PADDING_BYTES).take_while(|byte| **byte == PADDING_BYTE);
    let padding = padding.count();
    if padding > 0 && bytes.len() >= 4 && u32_at(bytes, 0) != MAGIC {
        let is_whole =
            // A gap is a multiple of eight bytes. From 28 bytes on a padding node would fill it
            // (`scan_padding_bytes`).
            (padding.is_multiple_of(8) && padding < PADDING_BYTES) || padding == bytes.len();
        return if is_whole { Item::Padding(padding) } else { Item::Damaged };
    }
    match Header::check(bytes) {
        Ok(header) if header.kind == kind::PADDING => {
            let more = u32_at(bytes, HEADER_BYTES) as usize;
            let all = PADDING_BYTES + more;
            if more > bytes.len() || all > bytes.len() || (offset + all) & 7 != 0 {
                Item::Damaged
            } else {
                Item::Padding(all)
            }
        }
        Ok(header) => Item::Node(header),
        Err(NodeError::NoNode | NodeError::BadForm | NodeError::BadChecksum) => Item::Damaged,
    }
}

/// All nodes of an eraseblock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scan {
    pub(crate) nodes: Vec<Found>,
    /// Where the empty rest begins: a multiple of the unit of writing.
    pub(crate) end: u32,
}

/// Where a scan met what it cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) offset: u32,
}

impl Scan {
    /// Nodes from the beginning on, up to the first place that holds none.
    pub(crate) fn leading(leb: &[u8]) -> Vec<Found> {
        let (mut nodes, mut at) = (Vec::new(), 0);
        while leb.len() - at >= 8 {
            match look(leb, at) {
                Item::Node(header) => {
                    nodes.push(Found { header, offset: at as u32 });
                    at = (at + crate::nodes::aligned(header.bytes)).min(leb.len());
                }
                Item::Padding(bytes) => at += bytes,
                Item::Empty | Item::Damaged => break,
            }
        }
        nodes
    }

    /// Scans from `start` on; damage is an error (`ubifs_scan`).
    pub(crate) fn of(leb: &[u8], start: usize, min_io: usize) -> Result<Self, Damage> {
        let mut scan = Self::default();
        let mut at = start;
        while leb.len() - at >= 8 {
            match look(leb, at) {
                Item::Node(header) => {
                    scan.nodes.push(Found { header, offset: at as u32 });
                    at += crate::nodes::aligned(header.bytes);
                    at = at.min(leb.len());
                }
                Item::Padding(bytes) => at += bytes,
                Item::Empty => break,
                Item::Damaged => return Err(Damage { offset: at as u32 }),
            }
        }
        // Bytes behind the last node mean a torn write: the caller decides whether recovery may
        // drop them.
        let blank = first_written(&leb[at..]);
        if !at.is_multiple_of(min_io) || blank.is_some() {
            return Err(Damage { offset: (at + blank.unwrap_or(0)) as u32 });
        }
        scan.end = at as u32;
        Ok(scan)
    }
}

#[cfg(test)]
mod tests {
    use super::{Item, Scan, look};
    use crate::nodes::{Group, commit_start, kind, pad, seal};

    #[test]
    fn nodes_and_padding_are_distinguished() {
        let mut leb = vec![0xff; 4096];
        let mut node = commit_start(7);
        seal(&mut node, kind::COMMIT_START, 1, Group::None);
        leb[..32].copy_from_slice(&node);
        pad(&mut leb[32..2040]);
        pad(&mut leb[2040..2048]);
        let scan = Scan::of(&leb, 0, 2048).expect("sound");
        assert_eq!((scan.nodes.len(), scan.end), (1, 2048));
        assert_eq!(look(&leb, 2040), Item::Padding(8));
        leb[9] ^= 1;
        assert_eq!(Scan::of(&leb, 0, 2048).expect_err("damaged").offset, 0);
        leb[9] ^= 1;
        leb[3000] = 0;
        assert_eq!(Scan::of(&leb, 0, 2048).expect_err("not blank").offset, 3000);
    }
}
