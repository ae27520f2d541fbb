//! The contract of a cleaning policy: what it may look at, and what it answers.

use crate::predicted_waf::Occupancy;
use crate::valid::{AgeList, ValidIndex};
use crate::{Flash, Settings};

/// What a policy may look at.
pub struct View<'a> {
    pub(crate) flash: &'a Flash,
    pub(crate) valid: &'a ValidIndex,
    pub(crate) ages: &'a AgeList,
}

impl View<'_> {
    /// Blocks of the chip.
    pub fn blocks(&self) -> u32 {
        self.valid.blocks()
    }

    /// True if the block is full or sealed and may be cleaned.
    pub fn is_closed(&self, block: u32) -> bool {
        self.valid.is_closed(block)
    }

    /// Pages of the block that are the newest copy of their logical page.
    pub fn valid_pages(&self, block: u32) -> u32 {
        self.valid.count(block)
    }

    /// Pages of a block.
    pub fn pages_per_block(&self) -> u32 {
        self.flash.pages_per_block()
    }

    /// Programs since the block was closed.
    pub fn age(&self, block: u32) -> u64 {
        // Programs are the clock of the papers: time without writes makes no block older.
        self.flash.sequence() - self.ages.closed_at(block)
    }

    /// Erases of the block in its whole life.
    pub fn erase_count(&self, block: u32) -> u32 {
        // A measurement that sets the counters to zero must not change what is cleaned.
        self.flash.chip().erase_cycles(self.flash.physical_block(block))
    }

    /// Closed blocks, the one closed first in front.
    pub fn oldest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.ages.iter()
    }

    /// The closed block with the fewest valid pages, the lowest number of equals.
    pub fn fewest_valid(&self) -> Option<u32> {
        self.valid.fewest()
    }
}

/// A rule that names the block to clean.
pub trait Policy: Send {
    /// The block to clean, or `None` if no block is closed.
    fn choose(&mut self, view: &View) -> Option<u32>;

    /// A copy with its state.
    fn clone_box(&self) -> Box<dyn Policy>;
}

/// Makes a policy from the settings of the page-mapped layer.
// No function pointer: a policy of the user's own also holds the class that it is made of.
pub type BuildPolicy = &'static (dyn Fn(&Settings) -> Box<dyn Policy> + Sync);

/// A row of the table of policies.
pub struct PolicyEntry {
    /// Name, as in studies and after `--set cleaning=`.
    pub name: &'static str,
    /// One line: what it chooses.
    pub summary: &'static str,
    /// Where it is described.
    pub source: &'static str,
    /// True if it asks for [`View::fewest_valid`], whose index costs time on every write.
    pub needs_valid_index: bool,
    /// Write amplification under uniform random writes, where a closed form is known.
    pub predicted_waf: Option<fn(&Occupancy, &Settings) -> f64>,
    /// Makes it from the settings of the page-mapped layer.
    pub build: BuildPolicy,
}
