//! The contract of an OOB layout: where the ECC stands, and which bytes are left to file systems.

use crate::hamming::{
    CODE_BYTES, Correction, STEP_BYTES, hamming_check, hamming_code, hamming_correct,
};
use std::ops::Range;

/// Bytes of the longest spare area that a layout is made for.
pub(crate) const SPARE_BYTES_MAX: usize = 64;

/// A code over the data of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecc {
    /// None: bytes are used as the chip returns them.
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

impl OobLayout {
    /// Checks that the places of codes and of free bytes lie apart in the spare area, that there are as
    /// many bytes of code as the data needs, and that sub-pages are whole steps of the ECC.
    pub(crate) fn check(&self) {
        assert!(self.oob_bytes as usize <= SPARE_BYTES_MAX, "{}: a longer spare area", self.name);
        let mut used = vec![false; self.oob_bytes as usize];
        for place in self.free().chain(self.codes()) {
            assert!(place < used.len(), "{}: byte {place} lies outside the spare area", self.name);
            assert!(!used[place], "{}: byte {place} is given away twice", self.name);
            used[place] = true;
        }
        let steps = self.page_bytes as usize / STEP_BYTES;
        let code_bytes = if self.ecc == Ecc::Hamming { steps * CODE_BYTES } else { 0 };
        assert_eq!(self.codes().count(), code_bytes, "{}: bytes of code", self.name);
        assert!(
            self.sub_pages >= 1 && steps.is_multiple_of(self.sub_pages as usize),
            "{}: a sub-page is a whole number of ECC steps",
            self.name
        );
    }

    /// Bytes of the spare area that file systems may use (`oobavail`).
    pub fn free_bytes(&self) -> usize {
        self.free_places.iter().map(ExactSizeIterator::len).sum()
    }

    /// Copies free bytes from a spare area, as if they stood in a row, from `offset` of them on. Bytes of
    /// `into` beyond the free ones stay as they are.
    ///
    /// # Panics
    /// If the spare area has fewer bytes than the layout.
    pub fn gather(&self, oob: &[u8], offset: usize, into: &mut [u8]) {
        debug_assert!(oob.len() >= self.oob_bytes as usize, "a whole spare area");
        let (mut skipped, mut into) = (offset, into);
        for places in self.free_places {
            let from = (places.start + skipped).min(places.end);
            skipped -= from - places.start;
            let count = into.len().min(places.end - from);
            let (part, rest) = into.split_at_mut(count);
            part.copy_from_slice(&oob[from..from + count]);
            into = rest;
        }
    }

    /// Copies bytes to the free places of a spare area, from `offset` of them on.
    ///
    /// # Panics
    /// If the spare area has fewer bytes than the layout.
    pub fn scatter(&self, bytes: &[u8], offset: usize, oob: &mut [u8]) {
        debug_assert!(oob.len() >= self.oob_bytes as usize, "a whole spare area");
        debug_assert!(
            offset + bytes.len() <= self.free_bytes(),
            "the bytes given fit the free ones"
        );
        for (place, byte) in self.free().skip(offset).zip(bytes) {
            oob[place] = *byte;
        }
    }

    /// Places of the bytes that file systems may use, in order.
    pub(crate) fn free(&self) -> impl Iterator<Item = usize> {
        self.free_places.iter().cloned().flatten()
    }

    /// Places of the bytes of the codes, three for each step of 256 bytes of data.
    pub fn codes(&self) -> impl Iterator<Item = usize> {
        self.ecc_places.iter().cloned().flatten()
    }

    /// The bytes of the codes in a row; erased ones behind the last, which match erased data alone.
    // Copied range by range: to ask for the place of each byte takes as long as to compute its code.
    fn stored_codes(&self, oob: &[u8]) -> [u8; SPARE_BYTES_MAX] {
        let mut stored = [0xff; SPARE_BYTES_MAX];
        let mut at = 0;
        for places in self.ecc_places {
            stored[at..at + places.len()].copy_from_slice(&oob[places.clone()]);
            at += places.len();
        }
        stored
    }

    /// Writes the code of a page's data into its spare area.
    pub fn protect(&self, data: &[u8], oob: &mut [u8]) {
        if self.ecc == Ecc::None {
            return;
        }
        let codes = data.chunks(STEP_BYTES).flat_map(hamming_code);
        for (place, byte) in self.codes().zip(codes) {
            oob[place] = byte;
        }
    }

    /// True if the spare area holds the codes of the data.
    pub fn has_codes(&self, data: &[u8], oob: &[u8]) -> bool {
        let stored = self.stored_codes(oob);
        let mut steps = data.chunks(STEP_BYTES).zip(stored.as_chunks().0);
        self.ecc == Ecc::None
            || steps.all(|(step, stored)| hamming_check(step, *stored) == Correction::Clean)
    }

    /// Checks one step of 256 bytes against its code, without correcting it: bits that can be
    /// corrected, 1 if they cannot.
    pub fn check_step(&self, step: &[u8], number: usize, oob: &[u8]) -> (u32, u32) {
        if self.ecc == Ecc::None {
            return (0, 0);
        }
        match hamming_check(step, self.stored_codes(oob).as_chunks().0[number]) {
            Correction::Clean => (0, 0),
            Correction::Data | Correction::Code => (1, 0),
            Correction::Uncorrectable => (0, 1),
        }
    }

    /// As [`OobLayout::correct`], of one step of 256 bytes by its number in the page.
    pub fn correct_step(&self, step: &mut [u8], number: usize, oob: &[u8]) -> (u32, u32) {
        if self.ecc == Ecc::None {
            return (0, 0);
        }
        match hamming_correct(step, self.stored_codes(oob).as_chunks().0[number]) {
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
        let stored = self.stored_codes(oob);
        let (mut corrected, mut lost) = (0, 0);
        for (step, stored) in data.chunks_mut(STEP_BYTES).zip(stored.as_chunks().0) {
            match hamming_correct(step, *stored) {
                Correction::Clean => {}
                Correction::Data | Correction::Code => corrected += 1,
                Correction::Uncorrectable => lost += 1,
            }
        }
        (corrected, lost)
    }
}
