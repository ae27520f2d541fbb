//! The table of OOB layouts.

#![allow(clippy::single_range_in_vec_init, reason = "a table of ranges, some of which have one")]

use crate::contract::{Ecc, OobLayout};

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

#[cfg(test)]
mod tests {
    use super::{LAYOUTS, find_layout};
    use crate::contract::{Ecc, OobLayout};
    use crate::tests::panics_with;

    #[test]
    fn every_layout_holds_its_codes_and_the_table_is_sorted() {
        LAYOUTS.iter().for_each(OobLayout::check);
        assert!(LAYOUTS.is_sorted_by_key(|layout| layout.name));
    }

    #[test]
    fn every_broken_layout_is_seen() {
        let small = || OobLayout {
            name: "broken",
            summary: "",
            page_bytes: 512,
            oob_bytes: 16,
            ecc: Ecc::Hamming,
            ecc_places: &[0..4, 6..8],
            free_places: &[8..16],
            sub_pages: 2,
        };
        small().check();
        let broken = [
            ("byte 16 lies outside", OobLayout { free_places: &[8..17], ..small() }),
            ("byte 7 is given away twice", OobLayout { free_places: &[7..16], ..small() }),
            ("bytes of code", OobLayout { ecc_places: &[0..4], ..small() }),
            ("a whole number of ECC steps", OobLayout { sub_pages: 4, ..small() }),
        ];
        for (message, layout) in broken {
            panics_with(message, || layout.check());
        }
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
