//! Reads of pages and spare areas, and the time of each by the place of its page in the word line.

use super::{Chip, ChipOperation, ReadTimes};
use crate::{NandError, PageAddress, Tag};

impl Chip {
    /// Reads a page, data and spare.
    ///
    /// # Errors
    /// [`NandError::Uncorrectable`] for torn pages and too many bit errors; [`NandError::PowerLost`].
    #[inline]
    pub fn read(&mut self, at: PageAddress) -> Result<Tag, NandError> {
        self.read_page(at)?;
        Ok(self.pages.tag(at))
    }

    /// As [`Chip::read`], for a caller that asks of the tag only whether the page is lost (see [`Tag::lost`]).
    ///
    /// # Errors
    /// As [`Chip::read`].
    #[inline]
    pub fn read_lost(&mut self, at: PageAddress) -> Result<bool, NandError> {
        self.read_page(at)?;
        Ok(self.pages.is_lost(at))
    }

    #[inline]
    fn read_page(&mut self, at: PageAddress) -> Result<(), NandError> {
        let index = self.checked_index(at)?;
        if self.watched {
            self.enter(ChipOperation::PageRead(at))?;
        }
        self.counters.page_reads += 1;
        self.count_read(at.page);
        if self.watched {
            self.leave_read(at, index, self.geometry.page_data_bytes)?;
        }
        Ok(())
    }

    /// Reads a page and copies its data area to `data` (at most a page).
    ///
    /// # Errors
    /// As [`Chip::read`]; [`NandError::NoStorage`] on a chip without bytes.
    pub fn read_data(&mut self, at: PageAddress, data: &mut [u8]) -> Result<Tag, NandError> {
        self.check_storage()?;
        let tag = self.read(at)?;
        if let Some(bytes) = &self.bytes {
            bytes.read(at, data, &mut []);
        }
        Ok(tag)
    }

    /// Reads data and spare bytes as a raw NAND driver does; a spare-only read if `data` is empty.
    ///
    /// Either may be shorter than its area. The first page of a bad block shows its mark.
    ///
    /// # Errors
    /// As [`Chip::read_data`]; the bytes of a page that the part's ECC gives up are there all the same, with the
    /// wrong bits of the codewords that it gave up.
    pub fn read_raw(
        &mut self,
        at: PageAddress,
        data: &mut [u8],
        oob: &mut [u8],
    ) -> Result<(), NandError> {
        self.check_storage()?;
        let read = if data.is_empty() { self.read_spare(at) } else { self.read(at) };
        if matches!(read, Err(ref error) if !matches!(error, NandError::Uncorrectable { .. })) {
            return read.map(drop);
        }
        if let Some(bytes) = &self.bytes {
            bytes.read(at, data, oob);
        }
        // What is stored stays as it is: the errors are of this read.
        for bit in self.flipped_bits() {
            if let Some(byte) = data.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
        }
        let mark = self.geometry.bad_mark_oob_offset as usize;
        if at.page == 0 && self.is_bad(at.block) && mark < oob.len() {
            oob[mark] = 0;
        }
        read.map(drop)
    }

    /// Bits of the last read that were wrong in codewords which the ECC gave up, counted from the first bit of
    /// the data. A page that a power cut tore has none: its bytes are what they are.
    pub fn flipped_bits(&self) -> &[u32] {
        self.faults.as_ref().map_or(&[], |faults| faults.flipped_bits())
    }

    /// Reads the spare area of a page alone.
    ///
    /// # Errors
    /// As [`Chip::read`].
    #[inline]
    pub fn read_spare(&mut self, at: PageAddress) -> Result<Tag, NandError> {
        self.probe_spare(at)?;
        Ok(self.pages.tag(at))
    }

    /// As [`Chip::read_spare`], for a caller that knows what the tag says.
    ///
    /// # Errors
    /// As [`Chip::read`].
    #[inline]
    pub fn probe_spare(&mut self, at: PageAddress) -> Result<(), NandError> {
        let index = self.checked_index(at)?;
        if self.watched {
            self.enter(ChipOperation::SpareRead(at))?;
        }
        self.counters.spare_reads += 1;
        self.count_read(at.page);
        if self.watched {
            self.leave_read(at, index, 0)?;
        }
        Ok(())
    }

    /// What a read of page `page` of any block takes longer in the array than one of a lower page.
    #[inline]
    pub fn extra_read_of_page_ns(&self, page: u32) -> u64 {
        // Asked of every page that is read: on most parts all are read alike.
        if self.reads_alike == ReadTimes::One {
            return 0;
        }
        self.timing.array_read_ns(self.word_line_position(page)) - self.timing.lower_read_ns()
    }

    /// What a read of the page takes longer than one of a lower page.
    #[inline]
    pub(super) fn count_read(&mut self, page: u32) {
        // Most parts read all pages alike.
        if self.reads_alike == ReadTimes::Several {
            self.extra_read_ns += self.extra_read_of_page_ns(page);
        }
    }
}
