//! What the host expects of the pages of a layer: a table of versions.

use ftl::{Ftl, FtlError};

/// Bytes of a page: enough to say which write made it.
pub(crate) const PAGE_BYTES: u32 = 256;

/// What the host expects of a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// Version written last; zero for zeros.
    version: u32,
    /// Versions of which copies may lie on the flash, in the order in which they were written.
    ///
    /// Not the last one alone: the block of a newer copy may be erased before that of an older one.
    copies: Vec<u32>,
    /// Trimmed since its last write or power cut: a cut may bring back a copy.
    is_trimmed: bool,
    /// The version, or the trim, that the power cut found under way.
    under_way: Option<u32>,
}

impl Page {
    /// A write has returned.
    pub(crate) fn write(&mut self, version: u32) {
        self.version = version;
        self.copies.push(version);
        // The new copy is newer than any of before, so a rebuild finds that.
        self.is_trimmed = false;
    }

    /// A trim has returned.
    pub(crate) fn trim(&mut self) {
        self.version = 0;
        // The copies stay in the model: a trim need not be noted on the flash (the contract of `Ftl`).
        self.is_trimmed = true;
    }

    /// The power failed within a write.
    pub(crate) fn begin_write(&mut self, version: u32) {
        self.under_way = Some(version);
    }

    /// The power failed within a trim.
    pub(crate) fn begin_trim(&mut self) {
        self.under_way = Some(0);
    }

    /// # Errors
    /// Another version was found than the page holds.
    pub(crate) fn compare(&self, lpn: u32, found: u32) -> Result<(), String> {
        if found == self.version {
            return Ok(());
        }
        Err(format!("page {lpn} {}, not {}", holds(found), shown(self.version)))
    }

    /// After a power cut: what is found holds from now on.
    ///
    /// # Errors
    /// It is none of the versions that may be there.
    pub(crate) fn adopt(&mut self, lpn: u32, found: u32) -> Result<(), String> {
        // Taken: a later cut has another operation under way, or none.
        let under_way = self.under_way.take();
        let may_come_back = self.is_trimmed || under_way == Some(0);
        let is_there = found == self.version
            || under_way == Some(found)
            || may_come_back && self.copies.contains(&found);
        if !is_there {
            let was = shown(self.version);
            return Err(if self.is_trimmed {
                format!(
                    "after a power cut, page {lpn} {}, though it was trimmed and no copy of that can \
                     be left",
                    holds(found)
                )
            } else {
                format!(
                    "after a power cut, page {lpn} {}, though {was} was acknowledged",
                    holds(found)
                )
            });
        }
        // It was programmed before the power failed, so it is a copy like any other.
        if under_way == Some(found) && found > 0 {
            self.copies.push(found);
        }
        // A rebuild takes the newest copy that it finds: newer ones are gone for good, and all of them
        // where it finds none.
        self.copies.retain(|copy| *copy <= found);
        // Zeros after a cut mean that no copy was found. So a page that was trimmed is not any more.
        (self.version, self.is_trimmed) = (found, false);
        Ok(())
    }
}

/// The version that a page holds.
///
/// # Errors
/// The data of another page, or of none.
pub(crate) fn read(ftl: &mut dyn Ftl, lpn: u32) -> Result<Result<u32, FtlError>, String> {
    // Not zeros: a layer that fills nothing in must not pass for one that reads an erased page.
    let mut bytes = [0xaa; PAGE_BYTES as usize];
    if let Err(error) = ftl.read(lpn, Some(&mut bytes)) {
        return Ok(Err(error));
    }
    let version = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    if bytes == bytes_of(lpn, version) {
        return Ok(Ok(version));
    }
    let other = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Err(if bytes == bytes_of(other, version) {
        format!("page {lpn} holds the data of page {other}")
    } else {
        format!("page {lpn} holds data that was never written")
    })
}

/// What version `version` of a page holds; version 0 is zeros.
pub(crate) fn bytes_of(lpn: u32, version: u32) -> [u8; PAGE_BYTES as usize] {
    let mut bytes = [0; PAGE_BYTES as usize];
    if version > 0 {
        for (word, place) in bytes.chunks_exact_mut(8).zip(0..) {
            // Each word differs, so a page that is half old and half new is no version at all.
            word[..4].copy_from_slice(&lpn.wrapping_add(place).to_le_bytes());
            word[4..].copy_from_slice(&version.to_le_bytes());
        }
    }
    bytes
}

fn holds(version: u32) -> String {
    if version == 0 { "reads zeros".into() } else { format!("holds {}", shown(version)) }
}

fn shown(version: u32) -> String {
    if version == 0 { "zeros".into() } else { format!("the write of line {version}") }
}

#[cfg(test)]
mod tests {
    use super::Page;

    /// Written twice, then trimmed.
    fn trimmed() -> Page {
        let mut page = Page::default();
        page.write(3);
        page.write(5);
        page.trim();
        page
    }

    #[test]
    fn a_cut_brings_back_copies_of_a_trimmed_page_and_nothing_else() {
        for found in [0, 3, 5] {
            trimmed().adopt(7, found).expect("zeros or a copy");
        }
        let said = trimmed().adopt(7, 4).expect_err("no version of this page");
        assert!(said.contains("holds the write of line 4") && said.contains("trimmed"), "{said}");
    }

    #[test]
    fn what_a_cut_left_counts_from_then_on() {
        let mut zeros = trimmed();
        zeros.adopt(7, 0).expect("zeros");
        zeros.clone().adopt(7, 5).expect_err("no copy was left");
        let mut older = trimmed();
        older.adopt(7, 3).expect("a copy");
        older.clone().adopt(7, 0).expect_err("it was found, and is not trimmed");
        older.trim();
        older.clone().adopt(7, 3).expect("trimmed again");
        older.adopt(7, 5).expect_err("the newer copy was gone");
    }

    #[test]
    fn what_is_under_way_is_there_or_not() {
        let mut page = Page::default();
        page.write(3);
        page.begin_write(4);
        page.clone().adopt(7, 3).expect("before it");
        page.clone().adopt(7, 0).expect_err("neither of them");
        page.adopt(7, 4).expect("after it");
        page.compare(7, 4).expect("it holds from now on");
        page.begin_trim();
        page.clone().adopt(7, 0).expect("trimmed");
        page.clone().adopt(7, 3).expect("a copy");
        page.adopt(7, 4).expect("not trimmed");
    }
}
