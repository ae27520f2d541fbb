//! What a translation layer writes into the spare area of a page.
//!
//! Ten bytes hold everything that a rebuild after a power cut needs: the logical page, a sequence
//! number and the role of the block. On the medium they sit around the bad-block mark (see
//! [`Tag::to_oob`]); a small-block part with 16 spare bytes has five left for its ECC.

/// Logical page number of an erased spare area.
const ERASED_LPN: u32 = u32::MAX;
const SEQUENCE_HIGH_MASK: u16 = 0x00ff;
const ROLE_SHIFT: u32 = 8;
const ROLE_MASK: u16 = 0x0f00;
const LINK_MASK: u16 = 0x1000;
pub(crate) const LOST_MASK: u16 = 0x2000;

/// What a block was taken for when the page was programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Role {
    /// Home of a logical block, or any block of a page-mapped layer.
    Data = 0,
    /// Log, replacement or moved block.
    Log = 1,
    /// A page of a sequential log block.
    SequentialLog = 2,
    /// A page that holds mapping information.
    Translation = 3,
    /// Fills a gap; holds nothing.
    Padding = 4,
    /// A page that is not programmed.
    Erased = 15,
}

/// Spare-area record of a page: 32-bit logical page, 40-bit sequence number, role and two marks.
///
/// 40 bits count 1.1 × 10^12 programs, more than any part in the catalogue endures. As on the
/// medium, programming can only clear bits: a second program of the same spare area is the
/// bitwise AND of both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    pub(crate) lpn: u32,
    pub(crate) sequence_low: u32,
    pub(crate) meta: u16,
}

impl Tag {
    /// The erased spare area: all ones.
    pub const ERASED: Self = Self { lpn: ERASED_LPN, sequence_low: u32::MAX, meta: u16::MAX };

    /// A tag for logical page `lpn`, programmed as number `sequence`, in a block of role `role`.
    #[inline]
    pub fn new(lpn: u32, sequence: u64, role: Role) -> Self {
        debug_assert!(sequence < 1 << 40, "sequence numbers have 40 bits");
        let meta = (!(ROLE_MASK | SEQUENCE_HIGH_MASK))
            | ((role as u16) << ROLE_SHIFT)
            | ((sequence >> 32) as u16 & SEQUENCE_HIGH_MASK);
        Self { lpn, sequence_low: sequence as u32, meta }
    }

    /// A spare-only mark that says: this block has a successor.
    pub const fn link() -> Self {
        Self { lpn: u32::MAX, sequence_low: u32::MAX, meta: !LINK_MASK }
    }

    /// The same tag, marked as standing for data that could not be read when it was moved.
    #[must_use]
    pub const fn lost(mut self) -> Self {
        self.meta &= !LOST_MASK;
        self
    }

    /// Number of the logical page.
    #[inline]
    pub const fn lpn(self) -> u32 {
        self.lpn
    }

    /// Sequence number of the program.
    #[inline]
    pub fn sequence(self) -> u64 {
        u64::from(self.sequence_low) | (u64::from(self.meta & SEQUENCE_HIGH_MASK) << 32)
    }

    /// Role of the block.
    pub fn role(self) -> Role {
        match (self.meta & ROLE_MASK) >> ROLE_SHIFT {
            0 => Role::Data,
            1 => Role::Log,
            2 => Role::SequentialLog,
            3 => Role::Translation,
            4 => Role::Padding,
            _ => Role::Erased,
        }
    }

    /// True if no data program has written this spare area.
    #[inline]
    pub fn is_erased(self) -> bool {
        self.meta & ROLE_MASK == ROLE_MASK
    }

    /// True if the successor mark is set.
    pub fn is_linked(self) -> bool {
        self.meta & LINK_MASK == 0
    }

    /// True if the page stands for data that was lost.
    #[inline]
    pub fn is_lost(self) -> bool {
        self.meta & LOST_MASK == 0
    }

    /// The spare area after `other` is programmed over it.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        // A program clears bits, and only an erase sets them again.
        Self {
            lpn: self.lpn & other.lpn,
            sequence_low: self.sequence_low & other.sequence_low,
            meta: self.meta & other.meta,
        }
    }

    /// Ands the tag into the spare bytes of a page, leaving the bad-block mark alone.
    pub fn to_oob(self, oob: &mut [u8], bad_mark_oob_offset: u32) {
        let places = oob.len();
        for (byte, place) in self.bytes().into_iter().zip(oob_places(bad_mark_oob_offset, places)) {
            oob[place] &= byte;
        }
    }

    /// Reads the tag from the spare bytes of a page.
    pub fn from_oob(oob: &[u8], bad_mark_oob_offset: u32) -> Self {
        let mut bytes = [0xff_u8; 10];
        for (byte, place) in bytes.iter_mut().zip(oob_places(bad_mark_oob_offset, oob.len())) {
            *byte = oob[place];
        }
        Self {
            lpn: u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]),
            sequence_low: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            meta: u16::from_le_bytes([bytes[8], bytes[9]]),
        }
    }

    fn bytes(self) -> [u8; 10] {
        let mut bytes = [0; 10];
        bytes[0..4].copy_from_slice(&self.lpn.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sequence_low.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.meta.to_le_bytes());
        bytes
    }
}

/// Spare bytes that hold the tag: from the start, around the two bytes at the bad-block mark.
fn oob_places(bad_mark_oob_offset: u32, oob_bytes: usize) -> impl Iterator<Item = usize> {
    let mark = bad_mark_oob_offset as usize;
    // Linux takes two bytes of large pages for the mark and one of small pages
    // (`largepage_memorybased`, `smallpage_memorybased` of drivers/mtd/nand/nand_bbt.c, 2.6.29).
    (0..oob_bytes).filter(move |place| *place != mark && (mark != 0 || *place != 1))
}

impl std::fmt::Debug for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_erased() {
            return write!(f, "erased");
        }
        write!(f, "L{} #{} {:?}", self.lpn, self.sequence(), self.role())
    }
}

#[cfg(test)]
mod tests {
    use super::{Role, Tag};

    #[test]
    fn a_tag_survives_the_spare_bytes_of_both_page_sizes() {
        for (oob_bytes, mark) in [(16, 5), (64, 0), (128, 0)] {
            let tag = Tag::new(0x0123_4567, 0xab_cdef_0123, Role::Log);
            let mut oob = vec![0xff; oob_bytes];
            tag.to_oob(&mut oob, mark);
            assert_eq!(oob[mark as usize], 0xff, "the bad-block mark stays untouched");
            assert_eq!(Tag::from_oob(&oob, mark), tag);
            Tag::link().to_oob(&mut oob, mark);
            let linked = Tag::from_oob(&oob, mark);
            assert!(linked.is_linked());
            assert_eq!(
                (linked.lpn(), linked.sequence(), linked.role()),
                (tag.lpn(), tag.sequence(), tag.role())
            );
        }
    }

    /// A mark is bits that are programmed to zero: it stays through any later program, and none of the
    /// others comes with it.
    #[test]
    fn a_tag_is_marked_lost_or_linked_and_nothing_else_changes() {
        let tag = Tag::new(5, 6, Role::Data);
        assert!(!tag.is_lost() && !tag.is_linked() && !tag.is_erased());
        assert!(!Tag::ERASED.is_lost() && Tag::ERASED.is_erased());
        let lost = tag.lost();
        assert!(lost.is_lost() && !lost.is_linked());
        assert_eq!((lost.lpn(), lost.sequence(), lost.role()), (5, 6, Role::Data));
        let both = lost.and(Tag::link());
        assert!(both.is_lost() && both.is_linked());
        assert!(!tag.and(Tag::link()).is_lost());
    }

    #[test]
    fn a_tag_is_recognised_by_page_number_and_role() {
        assert_eq!(format!("{:?}", Tag::new(5, 6, Role::Log)), "L5 #6 Log");
        assert_eq!(format!("{:?}", Tag::ERASED), "erased");
    }
}
