//! Where in the spare area the ECC stands, and which bytes are left to file systems.

#![allow(clippy::single_range_in_vec_init, reason = "a table of ranges, some of which have one")]

use crate::{Correction, hamming_code, hamming_correct};
use std::ops::Range;

/// A code over the data of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecc {
    /// None: what the chip gives is believed.
    None,
    /// Hamming codes of three bytes for each 256 bytes of data.
    Hamming,
}

/// The parts of a spare area.
#[derive(Debug, PartialEq, Eq)]
pub struct OobLayout {
    /// Name on the command line.
    pub name: &'static str,
    /// Whose layout it is.
    pub summary: &'static str,
    /// Bytes of data of the pages it is made for.
    pub page_bytes: u32,
    /// Bytes of the spare area.
    pub oob_bytes: u32,
    /// The code that the driver writes and checks.
    pub ecc: Ecc,
    /// Places of the code's bytes, in order.
    pub ecc_places: &'static [Range<usize>],
    /// Places left to file systems, in order (`oobfree`).
    pub free_places: &'static [Range<usize>],
    /// Parts of a page that can be programmed one by one: as many as this (`subpage_sft`).
    pub sub_pages: u32,
}

/// All layouts, sorted by name.
pub const LAYOUTS: &[OobLayout] = &[
    OobLayout {
        name: "bare",
        summary: "2048 + 64 without ECC, all free but the bad mark: images of mkyaffs2image begin at 0",
        page_bytes: 2048,
        oob_bytes: 64,
        ecc: Ecc::None,
        ecc_places: &[],
        free_places: &[0..64],
        sub_pages: 1,
    },
    OobLayout {
        name: "linux-large",
        summary: "2048 + 64 of Linux, software Hamming ECC (nand_oob_64)",
        page_bytes: 2048,
        oob_bytes: 64,
        ecc: Ecc::Hamming,
        ecc_places: &[40..64],
        // `nand_oob_64`: bytes 0 and 1 hold the bad mark, the last 24 the codes.
        free_places: &[2..40],
        // `subpage_sft` of 2 for eight steps of ECC (`nand_scan_tail`).
        sub_pages: 4,
    },
    OobLayout {
        name: "linux-large-no-ecc",
        // The places stay free, so that images with and without codes can be compared byte by byte.
        summary: "2048 + 64 of Linux, the bytes of the ECC unused",
        page_bytes: 2048,
        oob_bytes: 64,
        ecc: Ecc::None,
        ecc_places: &[],
        free_places: &[2..40],
        sub_pages: 1,
    },
    OobLayout {
        name: "linux-small",
        summary: "512 + 16 of Linux, software Hamming ECC (nand_oob_16)",
        page_bytes: 512,
        oob_bytes: 16,
        ecc: Ecc::Hamming,
        // `nand_oob_16`: byte 5 is the bad mark and stands between the codes.
        ecc_places: &[0..4, 6..8],
        free_places: &[8..16],
        sub_pages: 2,
    },
    OobLayout {
        name: "linux-small-no-ecc",
        summary: "512 + 16 of Linux, the bytes of the ECC unused",
        page_bytes: 512,
        oob_bytes: 16,
        ecc: Ecc::None,
        ecc_places: &[],
        free_places: &[8..16],
        sub_pages: 1,
    },
];

/// The layout of a name.
pub fn find_layout(name: &str) -> Option<&'static OobLayout> {
    LAYOUTS.iter().find(|layout| layout.name == name)
}

impl OobLayout {
    /// Bytes of the spare area that file systems may use (`oobavail`).
    pub fn free_bytes(&self) -> usize {
        self.free_places.iter().map(ExactSizeIterator::len).sum()
    }

    /// Copies free bytes from a spare area, as if they stood in a row, from `offset` of them on.
    pub fn gather(&self, oob: &[u8], offset: usize, into: &mut [u8]) {
        for (place, byte) in self.free().skip(offset).zip(into) {
            *byte = oob[place];
        }
    }

    /// Copies bytes to the free places of a spare area, from `offset` of them on.
    pub fn scatter(&self, bytes: &[u8], offset: usize, oob: &mut [u8]) {
        for (place, byte) in self.free().skip(offset).zip(bytes) {
            oob[place] = *byte;
        }
    }

    fn free(&self) -> impl Iterator<Item = usize> {
        self.free_places.iter().cloned().flatten()
    }

    /// Places of the bytes of the codes, three for each step of 256 bytes of data.
    pub fn codes(&self) -> impl Iterator<Item = usize> {
        self.ecc_places.iter().cloned().flatten()
    }

    /// Writes the code of a page's data into its spare area.
    pub fn protect(&self, data: &[u8], oob: &mut [u8]) {
        if self.ecc == Ecc::None {
            return;
        }
        let codes = data.chunks(256).flat_map(hamming_code);
        for (place, byte) in self.codes().zip(codes) {
            oob[place] = byte;
        }
    }

    /// Checks one step of 256 bytes against its code, without correcting it: bits that can be
    /// corrected, 1 if they cannot.
    pub fn check_step(&self, step: &[u8], number: usize, oob: &[u8]) -> (u32, u32) {
        if self.ecc == Ecc::None {
            return (0, 0);
        }
        let mut places = self.codes().skip(3 * number);
        // A layout with fewer places than steps reads erased bytes, which match erased data alone.
        let stored = [(); 3].map(|()| places.next().map_or(0xff, |place| oob[place]));
        match hamming_correct(&mut step.to_vec(), stored) {
            Correction::Clean => (0, 0),
            Correction::Data | Correction::Code => (1, 0),
            Correction::Uncorrectable => (0, 1),
        }
    }

    /// Checks data against the code in the spare area and corrects what it can: bits corrected,
    /// steps that could not be.
    pub fn correct(&self, data: &mut [u8], oob: &[u8]) -> (u32, u32) {
        if self.ecc == Ecc::None {
            return (0, 0);
        }
        let mut places = self.codes();
        let (mut corrected, mut lost) = (0, 0);
        for step in data.chunks_mut(256) {
            let stored = [(); 3].map(|()| places.next().map_or(0xff, |place| oob[place]));
            match hamming_correct(step, stored) {
                Correction::Clean => {}
                Correction::Data | Correction::Code => corrected += 1,
                Correction::Uncorrectable => lost += 1,
            }
        }
        (corrected, lost)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ecc, LAYOUTS, find_layout};

    #[test]
    fn places_do_not_overlap_and_hold_the_codes() {
        for layout in LAYOUTS {
            let mut used = vec![false; layout.oob_bytes as usize];
            for place in layout.free().chain(layout.codes()) {
                assert!(!std::mem::replace(&mut used[place], true), "{} at {place}", layout.name);
            }
            if layout.ecc == Ecc::Hamming {
                assert_eq!(layout.codes().count() as u32, layout.page_bytes / 256 * 3);
            }
        }
        assert!(LAYOUTS.is_sorted_by_key(|layout| layout.name));
    }

    #[test]
    fn free_bytes_come_back() {
        let layout = find_layout("linux-small").expect("in the table");
        assert_eq!(layout.free_bytes(), 8);
        let mut oob = [0xff; 16];
        layout.scatter(&[1, 2, 3], 5, &mut oob);
        assert_eq!(oob[13..], [1, 2, 3]);
        let mut back = [0; 4];
        layout.gather(&oob, 4, &mut back);
        assert_eq!(back, [0xff, 1, 2, 3]);
    }
}
