//! Wear levelling of the user's own: which free block is taken next, and which data moves.
//!
//! The built-in ways are words of the setting `wear_leveling`, and [`Flash`](crate::Flash) carries them out
//! itself. A policy of the user's own decides the same two questions from a [`WearView`].

use crate::settings::{Kind, OwnRows};
use crate::{Flash, Settings};

/// Ways that are built in.
const NAMES: &[&str] = &["none", "dynamic", "static"];

/// Wear-levelling policies of the user's own.
// A table of its own, for the built-in ways are words and no rows.
pub static OWN_WEAR_LEVELING: OwnRows<WearEntry> = OwnRows::new();

/// What the parameter `wear_leveling` takes.
pub(crate) const KIND: Kind =
    Kind::Policy { names: NAMES, is_own: |name| OWN_WEAR_LEVELING.find(name).is_some() };

/// What a policy may look at. Blocks are numbered virtually.
pub struct WearView<'a> {
    pub(crate) flash: &'a Flash,
    /// Free blocks that may be chosen, the one released first in front.
    pub free: &'a [u32],
    /// Blocks that hold data, in ascending order.
    pub used: &'a [u32],
    /// The setting `wear_threshold`: a difference of erase counts.
    pub threshold: u32,
}

impl WearView<'_> {
    /// Erases of the block in its whole life.
    pub fn erase_count(&self, block: u32) -> u32 {
        self.flash.chip().erase_cycles(self.flash.physical_block(block))
    }
}

/// A rule that levels wear.
// `Sync`, because the flash is lent to layers in Python.
// `&mut self`: a policy may draw numbers and keep what it has seen.
pub trait WearLeveling: Send + Sync {
    /// The free block that is taken next; there is one at least.
    fn allocate(&mut self, view: &WearView) -> u32;

    /// A block with data and the free block that its data moves to, or none.
    fn level(&mut self, view: &WearView) -> Option<(u32, u32)>;

    /// Erases between two calls of [`WearLeveling::level`]; none if it is never called.
    // Asked once, when the flash is made: a policy without `level` then costs nothing per erase.
    fn interval_erases(&self) -> Option<u64>;

    /// A copy with its state.
    fn clone_box(&self) -> Box<dyn WearLeveling>;
}

/// Makes a policy from the settings of the layer.
pub type BuildWearLeveling = &'static (dyn Fn(&Settings) -> Box<dyn WearLeveling> + Sync);

/// A row of the table of policies.
pub struct WearEntry {
    /// Name, as in studies and after `--set wear_leveling=`.
    pub name: &'static str,
    /// Makes it from the settings of the layer.
    pub build: BuildWearLeveling,
}

/// The policy of a flash, which is copied and shown with it.
pub(crate) struct Leveler(pub(crate) Box<dyn WearLeveling>);

impl Leveler {
    /// The policy that the settings name, if it is one of the user's own.
    pub(crate) fn of(settings: &Settings) -> Option<Self> {
        // A built-in word is no row here, and `Flash` carries it out itself, without a call for each block.
        let entry = OWN_WEAR_LEVELING.find(settings.word("wear_leveling"))?;
        Some(Self((entry.build)(settings)))
    }
}

impl Clone for Leveler {
    fn clone(&self) -> Self {
        Self(self.0.clone_box())
    }
}

impl std::fmt::Debug for Leveler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Leveler")
    }
}
