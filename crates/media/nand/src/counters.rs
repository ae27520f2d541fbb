//! The five counters every translation layer is charged in.

use serde::{Deserialize, Serialize};
use std::ops::{AddAssign, Sub};

/// Operations a chip carried out.
///
/// Names and meaning follow the usual page-level accounting: a full read or program moves data
/// and spare area in one operation, a spare-only one is counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// RD: page reads (data and spare in one operation).
    pub page_reads: u64,
    /// RS: reads of a spare area alone.
    pub spare_reads: u64,
    /// PD: page programs (data and spare in one operation).
    pub page_programs: u64,
    /// PS: programs of a spare area alone.
    pub spare_programs: u64,
    /// E: erases of blocks.
    pub erases: u64,
}

impl Counters {
    /// Reads of both kinds.
    pub fn reads(&self) -> u64 {
        self.page_reads + self.spare_reads
    }

    /// Programs of both kinds.
    pub fn programs(&self) -> u64 {
        self.page_programs + self.spare_programs
    }

    /// Weighted cost in units of one read.
    pub fn weighted(&self, cost: Cost) -> u64 {
        cost.read * self.reads() + cost.program * self.programs() + cost.erase * self.erases
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        self.page_reads += other.page_reads;
        self.spare_reads += other.spare_reads;
        self.page_programs += other.page_programs;
        self.spare_programs += other.spare_programs;
        self.erases += other.erases;
    }
}

impl Sub for Counters {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            page_reads: self.page_reads - earlier.page_reads,
            spare_reads: self.spare_reads - earlier.spare_reads,
            page_programs: self.page_programs - earlier.page_programs,
            spare_programs: self.spare_programs - earlier.spare_programs,
            erases: self.erases - earlier.erases,
        }
    }
}

/// Weights of the three kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Weight of a read.
    pub read: u64,
    /// Weight of a program.
    pub program: u64,
    /// Weight of an erase.
    pub erase: u64,
}
