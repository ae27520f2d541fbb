//! What the driver asked of the chip: counts by kind, and on request every operation in order.

use std::ops::{AddAssign, Sub};

/// One operation of the chip, as the driver issued it. Pages are numbered over the whole chip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A whole page with its spare area is read.
    Read {
        /// Number of the page, over the whole chip.
        page: u32,
    },
    /// A part of a page is read: the array is read once, the ECC bytes follow by a change of column.
    SubPageRead {
        /// Number of the page, over the whole chip.
        page: u32,
        /// First byte of the part.
        column: u32,
    },
    /// A spare area alone is read.
    OobRead {
        /// Number of the page, over the whole chip.
        page: u32,
    },
    /// A page is programmed, whole or in part.
    Program {
        /// Number of the page, over the whole chip.
        page: u32,
    },
    /// A spare area alone is programmed.
    OobProgram {
        /// Number of the page, over the whole chip.
        page: u32,
    },
    /// A block is erased.
    Erase {
        /// Number of the block.
        block: u32,
    },
}

/// Operations of the chip by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounts {
    /// Reads of whole pages.
    pub full_reads: u64,
    /// Reads of parts of pages.
    pub sub_page_reads: u64,
    /// Reads of spare areas alone.
    pub oob_reads: u64,
    /// Programs of pages, whole or in part.
    pub page_programs: u64,
    /// Programs of spare areas alone.
    pub oob_programs: u64,
    /// Erases, one a block.
    pub erases: u64,
}

impl OperationCounts {
    /// Array reads of all kinds.
    pub fn reads(&self) -> u64 {
        self.full_reads + self.sub_page_reads + self.oob_reads
    }

    /// Programs of both kinds.
    pub fn programs(&self) -> u64 {
        self.page_programs + self.oob_programs
    }

    /// Changes of the column within the page register (random data out): one follows each sub-page
    /// read, for the ECC bytes. They are no operations of the array.
    pub fn column_changes(&self) -> u64 {
        self.sub_page_reads
    }

    pub(crate) fn count(&mut self, operation: Operation) {
        match operation {
            Operation::Read { .. } => self.full_reads += 1,
            Operation::SubPageRead { .. } => self.sub_page_reads += 1,
            Operation::OobRead { .. } => self.oob_reads += 1,
            Operation::Program { .. } => self.page_programs += 1,
            Operation::OobProgram { .. } => self.oob_programs += 1,
            Operation::Erase { .. } => self.erases += 1,
        }
    }
}

impl AddAssign for OperationCounts {
    fn add_assign(&mut self, other: Self) {
        self.full_reads += other.full_reads;
        self.sub_page_reads += other.sub_page_reads;
        self.oob_reads += other.oob_reads;
        self.page_programs += other.page_programs;
        self.oob_programs += other.oob_programs;
        self.erases += other.erases;
    }
}

impl Sub for OperationCounts {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            full_reads: self.full_reads - earlier.full_reads,
            sub_page_reads: self.sub_page_reads - earlier.sub_page_reads,
            oob_reads: self.oob_reads - earlier.oob_reads,
            page_programs: self.page_programs - earlier.page_programs,
            oob_programs: self.oob_programs - earlier.oob_programs,
            erases: self.erases - earlier.erases,
        }
    }
}

/// Called with an operation of the chip, and when its array time began and ended, nanoseconds.
pub type ChipObserver = Box<dyn Fn(Operation, u64, u64)>;

/// Counts, and the log if there is one.
#[derive(Default)]
pub(crate) struct Operations {
    pub(crate) counts: OperationCounts,
    pub(crate) log: Option<Vec<Operation>>,
    /// Told of each operation, with the begin and the end of its array time.
    pub(crate) observer: Option<ChipObserver>,
    /// When the array began what is under way.
    pub(crate) array_since_ns: u64,
    /// When the last operation ended.
    pub(crate) last_ns: u64,
}

impl Operations {
    pub(crate) fn record(&mut self, operation: Operation, now_ns: u64) {
        debug_assert!(now_ns >= self.last_ns, "operations end in the order of time");
        self.counts.count(operation);
        // The end of the operation, since it is recorded when the array has finished.
        self.last_ns = now_ns;
        if let Some(log) = &mut self.log {
            log.push(operation);
        }
        if let Some(observer) = &self.observer {
            observer(operation, self.array_since_ns, now_ns);
        }
    }
}
