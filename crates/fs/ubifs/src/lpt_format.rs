//! Nodes of the LEB properties tree: packed bit by bit, with a CRC-16 in front.
//!
//! Source of the format: `fs/ubifs/lpt.c`. A format: uses formats only.

use crate::lpt_shape::{LPT_FANOUT, LptShape};
use crate::position::{LebNumber, Position};

const PNODE: u32 = 0;
const NNODE: u32 = 1;
const TABLE: u32 = 2;
const SAVED: u32 = 3;
const CRC_BYTES: usize = 2;

/// Properties of an eraseblock of the main area, as the tree keeps them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Properties {
    pub(crate) free: u32,
    pub(crate) dirty: u32,
    pub(crate) is_index: bool,
}

/// The area of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LptArea {
    pub(crate) first: LebNumber,
    pub(crate) lebs: u32,
}

impl LptArea {
    pub(crate) fn contains(self, leb: LebNumber) -> bool {
        (self.first..self.first + self.lebs).contains(&leb)
    }
}

/// No position at all: the node was never written. Eraseblock zero holds the superblock.
pub(crate) const NEVER_WRITTEN: Position = Position::start_of(LebNumber::new(0));

/// CRC-16 of ANSI, reflected, from all ones on.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0xffff, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte),
            |crc, _| {
                if crc & 1 == 1 { crc >> 1 ^ 0xa001 } else { crc >> 1 }
            },
        )
    })
}

struct Packer {
    bytes: Vec<u8>,
    bit: usize,
}

impl Packer {
    fn new(bytes: u32, kind: u32) -> Self {
        let mut packer = Self { bytes: vec![0; bytes as usize], bit: CRC_BYTES * 8 };
        packer.put(kind, 4);
        packer
    }

    fn put(&mut self, value: u32, bits: u32) {
        for at in 0..bits {
            self.bytes[self.bit / 8] |= ((value >> at & 1) as u8) << (self.bit % 8);
            self.bit += 1;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        let crc = crc16(&self.bytes[CRC_BYTES..]);
        self.bytes[..CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
        self.bytes
    }
}

struct Unpacker<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl<'a> Unpacker<'a> {
    /// None if the checksum or the kind is wrong.
    fn new(bytes: &'a [u8], kind: u32) -> Option<Self> {
        let stored = u16::from_le_bytes([bytes[0], bytes[1]]);
        let mut unpacker = Self { bytes, bit: CRC_BYTES * 8 };
        (crc16(&bytes[CRC_BYTES..]) == stored && unpacker.take(4) == kind).then_some(unpacker)
    }

    fn take(&mut self, bits: u32) -> u32 {
        let mut value = 0;
        for at in 0..bits {
            value |= u32::from(self.bytes[self.bit / 8] >> (self.bit % 8) & 1) << at;
            self.bit += 1;
        }
        value
    }
}

/// A kind of node of the tree, as garbage collection of the tree finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Pnode(u32),
    Nnode(u32),
    Table,
    Saved,
}

impl LptShape {
    pub(crate) fn pack_pnode(&self, number: u32, lebs: &[Properties; 4]) -> Vec<u8> {
        let mut packer = Packer::new(self.pnode_bytes, PNODE);
        if self.is_big {
            packer.put(number, self.number_bits);
        }
        for leb in lebs {
            packer.put(leb.free >> 3, self.space_bits);
            packer.put(leb.dirty >> 3, self.space_bits);
            packer.put(u32::from(leb.is_index), 1);
        }
        packer.finish()
    }

    pub(crate) fn unpack_pnode(&self, number: u32, bytes: &[u8]) -> Option<[Properties; 4]> {
        let mut unpacker = Unpacker::new(bytes, PNODE)?;
        if self.is_big && unpacker.take(self.number_bits) != number {
            return None;
        }
        let mut lebs = [Properties::default(); LPT_FANOUT as usize];
        for leb in &mut lebs {
            leb.free = unpacker.take(self.space_bits) << 3;
            leb.dirty = unpacker.take(self.space_bits) << 3;
            leb.is_index = unpacker.take(1) == 1;
        }
        Some(lebs)
    }

    pub(crate) fn pack_nnode(
        &self,
        number: u32,
        branches: &[Position; 4],
        area: LptArea,
    ) -> Vec<u8> {
        let mut packer = Packer::new(self.nnode_bytes, NNODE);
        if self.is_big {
            packer.put(number, self.number_bits);
        }
        for branch in branches {
            // The number behind the last LPT eraseblock stands for a branch without a node
            // (`ubifs_pack_nnode`).
            let leb = if *branch == NEVER_WRITTEN { area.lebs } else { branch.leb - area.first };
            packer.put(leb, self.leb_bits);
            packer.put(branch.offset, self.offset_bits);
        }
        packer.finish()
    }

    pub(crate) fn unpack_nnode(
        &self,
        number: u32,
        bytes: &[u8],
        area: LptArea,
    ) -> Option<[Position; 4]> {
        let mut unpacker = Unpacker::new(bytes, NNODE)?;
        if self.is_big && unpacker.take(self.number_bits) != number {
            return None;
        }
        let mut branches = [Position::default(); LPT_FANOUT as usize];
        for branch in &mut branches {
            let leb = unpacker.take(self.leb_bits);
            let offset = unpacker.take(self.offset_bits);
            if leb > area.lebs {
                return None;
            }
            if leb < area.lebs {
                *branch = Position::new(area.first + leb, offset);
            }
        }
        Some(branches)
    }

    pub(crate) fn pack_table(&self, table: &[(u32, u32)]) -> Vec<u8> {
        let mut packer = Packer::new(self.table_bytes, TABLE);
        for (free, dirty) in table {
            packer.put(*free, self.table_bits);
            packer.put(*dirty, self.table_bits);
        }
        packer.finish()
    }

    pub(crate) fn unpack_table(&self, lebs: u32, bytes: &[u8]) -> Option<Vec<(u32, u32)>> {
        let mut unpacker = Unpacker::new(bytes, TABLE)?;
        let mut pair = || (unpacker.take(self.table_bits), unpacker.take(self.table_bits));
        Some((0..lebs).map(|_| pair()).collect())
    }

    pub(crate) fn pack_saved(&self, lebs: &[LebNumber]) -> Vec<u8> {
        let mut packer = Packer::new(self.saved_bytes, SAVED);
        for leb in lebs {
            packer.put(leb.get(), self.main_leb_bits);
        }
        packer.finish()
    }

    pub(crate) fn unpack_saved(&self, bytes: &[u8]) -> Option<Vec<LebNumber>> {
        let mut unpacker = Unpacker::new(bytes, SAVED)?;
        let mut leb = || LebNumber::new(unpacker.take(self.main_leb_bits));
        Some((0..self.saved_count).map(|_| leb()).collect())
    }

    /// The node that begins here, and its bytes (big model).
    pub(crate) fn find_node(&self, bytes: &[u8]) -> Option<(Found, u32)> {
        if bytes.len() < CRC_BYTES + 1 + self.number_bits.div_ceil(8) as usize {
            return None;
        }
        let mut head = Unpacker { bytes, bit: CRC_BYTES * 8 };
        let kind = head.take(4);
        let (found, length) = match kind {
            PNODE => (Found::Pnode(head.take(self.number_bits)), self.pnode_bytes),
            NNODE => (Found::Nnode(head.take(self.number_bits)), self.nnode_bytes),
            TABLE => (Found::Table, self.table_bytes),
            SAVED => (Found::Saved, self.saved_bytes),
            _ => return None,
        };
        let node = bytes.get(..length as usize)?;
        Unpacker::new(node, kind).map(|_| (found, length))
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, LebNumber, LptArea, Position, Properties};
    use crate::lpt_shape::{LptInput, LptShape};

    fn shape(is_big: bool) -> LptShape {
        LptShape::new(LptInput {
            leb_bytes: 126_976,
            min_io: 2048,
            leb_count: 2004,
            max_leb_count: 2004,
            main_lebs: 1991,
            lpt_lebs: 2,
            saved_count: 256,
            is_big,
        })
    }

    #[test]
    fn sizes_are_those_of_a_two_gigabit_chip() {
        let shape = shape(false);
        assert_eq!((shape.pnode_bytes, shape.nnode_bytes, shape.height), (17, 12, 5));
    }

    #[test]
    fn nodes_come_back() {
        for is_big in [false, true] {
            let shape = shape(is_big);
            let area = LptArea { first: LebNumber::new(5), lebs: 2 };
            let lebs = [1, 2, 3, 4].map(|at| Properties {
                free: at * 8000,
                dirty: at * 800,
                is_index: at == 2,
            });
            let packed = shape.pack_pnode(77, &lebs);
            assert_eq!(shape.unpack_pnode(77, &packed), Some(lebs));
            assert_eq!(shape.unpack_nnode(77, &packed[..12.min(packed.len())], area), None);
            let mut branches = [Position::new(LebNumber::new(6), 1234); 4];
            branches[3] = Position::default();
            let packed = shape.pack_nnode(5, &branches, area);
            assert_eq!(shape.unpack_nnode(5, &packed, area), Some(branches));
            let table = vec![(126_976, 0), (2048, 9000)];
            let packed = shape.pack_table(&table);
            assert_eq!(shape.unpack_table(2, &packed), Some(table));
            if is_big {
                let packed = shape.pack_pnode(77, &lebs);
                assert_eq!(shape.find_node(&packed), Some((Found::Pnode(77), shape.pnode_bytes)));
                assert_eq!(shape.unpack_pnode(76, &packed), None);
            }
            let mut damaged = shape.pack_pnode(1, &lebs);
            damaged[5] ^= 4;
            assert_eq!(shape.unpack_pnode(1, &damaged), None);
        }
    }
}
