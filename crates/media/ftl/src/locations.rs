//! Where the newest copy of every logical page lies.
//!
//! Block-mapped layers find the newest copy by their tables and by probing spare areas. The
//! simulation keeps the answer here and performs the probes for their cost; [`crate::Ftl::ram_bytes`]
//! counts the tables of the algorithm, not this one.

use crate::recovery::Scan;
use crate::{Flash, FtlError, VirtualPage};
use nand::Role;
use std::ops::Range;

const NOWHERE: VirtualPage = VirtualPage::new(u32::MAX, u32::MAX);

/// Newest copy of every logical page, by virtual block.
#[derive(Clone, Debug)]
pub struct Locations {
    pages: Vec<VirtualPage>,
}

impl Locations {
    /// A device none of whose pages was written.
    pub fn new(logical_pages: u32) -> Self {
        Self { pages: vec![NOWHERE; logical_pages as usize] }
    }

    /// Takes the newest copy of every page found; mapping and padding pages are passed over.
    pub fn rebuild(&mut self, scan: &Scan) {
        self.pages.fill(NOWHERE);
        let mut newest = vec![0; self.pages.len()];
        for (block, found) in scan.blocks.iter().enumerate() {
            for (page, tag) in found.tags() {
                let lpn = tag.lpn() as usize;
                // Translation pages have numbers of their own kind, which would be taken for
                // logical pages.
                if tag.role() == Role::Translation
                    || lpn >= newest.len()
                    // Strictly newer or equal: of twins the one found later counts, which is as
                    // good.
                    || newest[lpn] > tag.sequence()
                {
                    continue;
                }
                newest[lpn] = tag.sequence();
                self.pages[lpn] = VirtualPage::new(block as u32, page);
            }
        }
    }

    /// Number of logical pages.
    pub fn logical_pages(&self) -> u32 {
        self.pages.len() as u32
    }

    /// True if the page exists on the device.
    #[inline]
    pub fn contains(&self, lpn: u32) -> bool {
        (lpn as usize) < self.pages.len()
    }

    /// Refuses a page that does not exist.
    #[inline]
    pub(crate) fn check(&self, lpn: u32) -> Result<(), FtlError> {
        if self.contains(lpn) {
            return Ok(());
        }
        Err(FtlError::OutOfRange { lpn, logical_pages: self.logical_pages() })
    }

    /// Reads the newest copy by one page read; zeros, without an operation, if there is none.
    #[inline]
    pub(crate) fn read(
        &self,
        flash: &mut Flash,
        lpn: u32,
        data: Option<&mut [u8]>,
    ) -> Result<(), FtlError> {
        self.check(lpn)?;
        match (self.get(lpn), data) {
            (Some(at), data) => flash.read(at, lpn, data),
            (None, Some(data)) => {
                data.fill(0);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    /// Programs a page, and notes where it is only when the program has returned: a failed one leaves the old copy
    /// the newest.
    #[inline]
    pub(crate) fn program(
        &mut self,
        flash: &mut Flash,
        at: VirtualPage,
        lpn: u32,
        role: Role,
        data: Option<&[u8]>,
    ) -> Result<(), FtlError> {
        flash.program(at, lpn, role, data)?;
        self.set(lpn, at);
        Ok(())
    }

    /// The newest copy, or `None` if the page reads zeros.
    #[inline]
    pub fn get(&self, lpn: u32) -> Option<VirtualPage> {
        self.pages.get(lpn as usize).copied().filter(|at| *at != NOWHERE)
    }

    /// The page was programmed at `at`.
    #[inline]
    pub fn set(&mut self, lpn: u32, at: VirtualPage) {
        self.pages[lpn as usize] = at;
    }

    /// The page was trimmed.
    #[inline]
    pub fn clear(&mut self, lpn: u32) {
        self.pages[lpn as usize] = NOWHERE;
    }

    /// True if `at` holds the newest copy of `lpn`.
    #[inline]
    pub fn is_newest(&self, lpn: u32, at: VirtualPage) -> bool {
        self.pages.get(lpn as usize) == Some(&at)
    }

    /// True if none of the pages is written.
    pub fn all_clear(&self, mut pages: Range<u32>) -> bool {
        pages.all(|lpn| self.get(lpn).is_none())
    }
}
