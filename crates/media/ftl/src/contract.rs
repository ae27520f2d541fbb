//! The contract of a translation layer: what it does, and what a row of the table says of it.
//!
//! A layer uses this file and never the table, so that each layer can be read and tested alone.

use crate::settings::{Parameter, SettingError, Settings};
use crate::work::{CleanStep, PageWork, Work, program_array_ns};
use crate::{Flash, FtlError, VirtualPage};
use nand::{Chip, Geometry};
use std::ops::Range;

/// A translation layer at work on a chip.
///
/// A logical page is as large as a physical one. Reading a page never written, or trimmed, gives
/// zeros and costs no operation of its own. Data bytes are moved only on a chip that stores them.
pub trait Ftl: Send {
    /// Logical pages of the device.
    fn logical_pages(&self) -> u32;

    /// Reads a page; `data` receives its bytes on a chip that stores them.
    ///
    /// # Errors
    /// [`FtlError::Lost`] if the data cannot be read; [`FtlError::OutOfRange`]; [`FtlError::Nand`] at a
    /// power loss.
    fn read(&mut self, lpn: u32, data: Option<&mut [u8]>) -> Result<(), FtlError>;

    /// Writes a page. When this returns, the page survives a power cut.
    ///
    /// # Errors
    /// [`FtlError::NoFreeBlock`] at the end of life; [`FtlError::OutOfRange`]; [`FtlError::Nand`] at a power
    /// loss.
    fn write(&mut self, lpn: u32, data: Option<&[u8]>) -> Result<(), FtlError>;

    /// Forgets a page: it reads zeros from now on. After a power cut it reads zeros or its old data.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn trim(&mut self, lpn: u32) -> Result<(), FtlError>;

    /// Makes everything durable that is not. Layers that hold nothing back do nothing.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn flush(&mut self) -> Result<(), FtlError> {
        Ok(())
    }

    /// Builds all tables anew from the spare areas of the chip, as after a power cut.
    ///
    /// May be called again after it failed with [`nand::NandError::PowerLost`].
    ///
    /// # Errors
    /// [`FtlError::Nand`] at a power loss; [`FtlError::NoFreeBlock`].
    fn rebuild(&mut self) -> Result<(), FtlError>;

    /// Where the newest copy of a page lies, by virtual block; `None` if it reads zeros.
    fn locate(&self, lpn: u32) -> Option<VirtualPage>;

    /// Bytes of RAM that the algorithm needs for its tables (not what this simulation spends).
    fn ram_bytes(&self) -> u64;

    /// The tables in RAM as text, for `nandlab explain`.
    fn tables(&self) -> Vec<Table>;

    /// The blocks it works on.
    fn flash(&self) -> &Flash;

    /// The blocks it works on, for faults and power cuts.
    fn flash_mut(&mut self) -> &mut Flash;

    /// Gives the chip back, as it is.
    fn into_chip(self: Box<Self>) -> Chip;

    /// A copy with the whole state, chip included.
    fn clone_box(&self) -> Box<dyn Ftl>;

    /// Checks that each logical page leads to a page that leads back, and the tables of blocks. Does
    /// nothing in release builds.
    fn audit(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let flash = self.flash();
        flash.audit();
        for lpn in 0..self.logical_pages() {
            let Some(at) = self.locate(lpn) else { continue };
            assert!(flash.is_programmed(at), "logical page {lpn} is at {at:?}, which is erased");
            assert_eq!(flash.peek(at).lpn(), lpn, "{at:?} leads back to another logical page");
        }
    }

    /// Writes consecutive pages without data.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn write_pages(&mut self, mut pages: Range<u32>) -> Result<(), FtlError> {
        pages.try_for_each(|lpn| self.write(lpn, None))
    }

    /// Reads consecutive pages without data.
    ///
    /// # Errors
    /// As [`Ftl::read`].
    fn read_pages(&mut self, mut pages: Range<u32>) -> Result<(), FtlError> {
        pages.try_for_each(|lpn| self.read(lpn, None))
    }

    /// Forgets consecutive pages.
    ///
    /// # Errors
    /// As [`Ftl::trim`].
    fn trim_pages(&mut self, mut pages: Range<u32>) -> Result<(), FtlError> {
        pages.try_for_each(|lpn| self.trim(lpn))
    }

    /// Writes consecutive pages from `first` on and says of each what the chip did for it.
    ///
    /// # Errors
    /// As [`Ftl::write`]; what `pages` says is then worthless.
    fn write_measured(&mut self, first: u32, pages: &mut [PageWork]) -> Result<(), FtlError> {
        measure_writes(self, first, pages)
    }

    /// Writes up to an array page of logical pages by one program, and says what the chip did for them.
    ///
    /// All of them survive a power cut when this returns. Where a page is an array page of its own, there is one.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    ///
    /// # Panics
    /// If there are more pages than one program writes.
    fn write_together(&mut self, lpns: &[u32]) -> Result<PageWork, FtlError> {
        let mut work = [PageWork::default()];
        let [lpn] = lpns else { panic!("{} pages in one program", lpns.len()) };
        self.write_measured(*lpn, &mut work)?;
        Ok(work[0])
    }

    /// Reads consecutive pages from `first` on and says of each what the chip did for it.
    ///
    /// # Errors
    /// As [`Ftl::read`]; what `pages` says is then worthless.
    fn read_measured(&mut self, first: u32, pages: &mut [PageWork]) -> Result<(), FtlError> {
        let mut before = Work::of(self.flash().chip());
        for (page, lpn) in pages.iter_mut().zip(first..) {
            self.read(lpn, None)?;
            let after = Work::of(self.flash().chip());
            let total = after - before;
            // Most parts read all pages alike: then nothing is looked up.
            let own_extra_read_ns = match total.extra_read_ns {
                0 => 0,
                _ => self
                    .locate(lpn)
                    .map_or(0, |at| self.flash().chip().extra_read_of_page_ns(at.page)),
            };
            debug_assert!(own_extra_read_ns <= total.extra_read_ns, "the own read is one of them");
            *page = PageWork { total, own_program_ns: 0, own_extra_read_ns };
            before = after;
        }
        Ok(())
    }

    /// Cleans a little between two requests while fewer than `free_target` blocks are free: the
    /// layer moves one page, or erases a block whose pages are moved.
    ///
    /// Layers that do not clean ahead of need do nothing. Blocks all of whose pages are valid are
    /// left alone: cleaning them would win nothing.
    ///
    /// # Errors
    /// As [`Ftl::write`].
    fn clean_step(&mut self, free_target: u32) -> Result<CleanStep, FtlError> {
        let _ = free_target;
        Ok(CleanStep::Idle)
    }
}

/// [`Ftl::write_measured`] page by page, for layers that have more to do around it.
pub(crate) fn measure_writes<F: Ftl + ?Sized>(
    ftl: &mut F,
    first: u32,
    pages: &mut [PageWork],
) -> Result<(), FtlError> {
    let mut before = Work::of(ftl.flash().chip());
    for (page, lpn) in pages.iter_mut().zip(first..) {
        ftl.write(lpn, None)?;
        let after = Work::of(ftl.flash().chip());
        // Copies of cleaning and merges are in the difference; the page's own program is
        // separated below.
        page.total = after - before;
        page.own_extra_read_ns = 0;
        // One program in all: it was the page's own.
        page.own_program_ns = if page.total.counters.page_programs == 1 {
            page.total.program_ns
        } else {
            ftl.locate(lpn).map_or(0, |at| program_array_ns(ftl.flash().chip(), at.page))
        };
        before = after;
    }
    Ok(())
}

/// The four methods of [`Ftl`] that every layer with a field `flash` writes alike.
macro_rules! flash_accessors {
    () => {
        fn flash(&self) -> &Flash {
            &self.flash
        }

        fn flash_mut(&mut self) -> &mut Flash {
            &mut self.flash
        }

        fn into_chip(self: Box<Self>) -> Chip {
            self.flash.into_chip()
        }

        fn clone_box(&self) -> Box<dyn Ftl> {
            Box::new(self.clone())
        }
    };
}
pub(crate) use flash_accessors;

/// One of a layer's tables in RAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// What it maps to what.
    pub title: &'static str,
    /// Heads of the columns, one for each cell of a row.
    pub columns: Vec<&'static str>,
    /// Cells, row by row.
    pub rows: Vec<Vec<String>>,
}

/// How a layer works, in the words of the feature table.
#[derive(Clone, Copy, Debug)]
pub struct Features {
    /// What the mapping table maps.
    pub mapping: &'static str,
    /// Where the first write of a page goes.
    pub first_write: &'static str,
    /// Where an overwrite goes.
    pub overwrite: &'static str,
    /// Kinds of block beside free ones.
    pub block_kinds: &'static str,
}

/// Predicts the write amplification for a chip, logical pages and settings; `None` where no closed form is known.
pub type PredictWaf = fn(&Geometry, u32, &Settings) -> Option<f64>;

/// Makes a layer over erased blocks, for so many logical pages.
// No function pointer: a layer of the user's own also holds the class that it is made of.
pub type BuildFtl = &'static (dyn Fn(Flash, u32, &Settings) -> Box<dyn Ftl> + Sync);

/// Physical blocks that a layer needs for so many logical pages.
pub type BlocksRequired = &'static (dyn Fn(&Geometry, u32, &Settings) -> u32 + Sync);

/// A row of the table of layers.
pub struct FtlEntry {
    /// Name on the command line and in studies.
    pub name: &'static str,
    /// One line: what it is.
    pub summary: &'static str,
    /// Paper, patent or driver that describes it.
    pub source: &'static str,
    /// How the layer works, for the feature table of the report.
    pub features: Features,
    /// Its own parameters, beside the common ones.
    pub parameters: &'static [Parameter],
    /// Physical blocks it needs for so many logical pages; fewer are refused with a message.
    pub blocks_required: BlocksRequired,
    /// True if it maps parts of a page and writes those of one array page by one program (see
    /// [`Ftl::write_together`]).
    pub maps_parts: bool,
    /// Checks what only the layer can know of part and settings.
    pub check: fn(&Geometry, &Settings) -> Result<(), SettingError>,
    /// Write amplification under uniform random writes, where a closed form is known for the settings.
    pub predicted_waf: Option<PredictWaf>,
    /// Makes the layer over erased blocks.
    pub build: BuildFtl,
}
