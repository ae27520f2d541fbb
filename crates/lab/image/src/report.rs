//! What a check found.

use crate::medium::{BlockData, Medium, PageState};

/// A place, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Remark {
    /// Block, page and offset; a path; or an inode.
    pub place: String,
    /// What is found there.
    pub what: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Inconsistencies: what no power cut leaves, and no file system writes.
    pub findings: Vec<Remark>,
    /// What is no inconsistency but worth a word: torn writes, corrected bits, deleted inodes.
    pub notes: Vec<Remark>,
    /// Bits that the ECC corrected.
    pub corrected_bits: u64,
    /// Steps of 256 bytes that it could not.
    pub lost_steps: u64,
}

impl Report {
    pub(crate) fn add_finding(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.findings.push(Remark { place: place.into(), what: what.into() });
    }

    pub(crate) fn add_note(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.notes.push(Remark { place: place.into(), what: what.into() });
    }

    /// Says it as an inconsistency, or as a note if something harmless explains it.
    pub(crate) fn add(&mut self, is_harmless: bool, place: String, what: impl Into<String>) {
        let remarks = if is_harmless { &mut self.notes } else { &mut self.findings };
        remarks.push(Remark { place, what: what.into() });
    }

    /// Takes over what the ECC says of the pages of a block.
    pub(crate) fn add_pages(&mut self, medium: &Medium<'_>, block: u32, data: &BlockData) {
        for (state, page) in data.pages.iter().zip(0_u32..) {
            let place = medium.place((block * medium.pages_per_block + page) * medium.page_bytes);
            match *state {
                PageState::Blank | PageState::Sound => {}
                PageState::Corrected(bits) => {
                    self.corrected_bits += u64::from(bits);
                    let plural = if bits == 1 { "" } else { "s" };
                    self.add_note(place, format!("the ECC corrected {bits} bit{plural}"));
                }
                PageState::TornProgram => {
                    self.add_note(place, "a program was cut short: the page has no ECC");
                }
                PageState::TornErase => {
                    self.add_note(place, "an erase was cut short: the page has ECC but no data");
                }
                PageState::Lost(steps) => {
                    self.lost_steps += u64::from(steps);
                    let bytes = 256 * steps;
                    self.add_finding(
                        place,
                        format!("{bytes} bytes are beyond what the ECC corrects"),
                    );
                }
            }
        }
    }
}
