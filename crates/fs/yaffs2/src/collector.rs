//! What the collector keeps from one call to the next.
//!
//! Source: the fields `gc_*` of `struct yaffs_dev`.
//!
//! May use no other file of the crate.

/// State of the collector between two calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector {
    /// Block being collected, and its next chunk.
    pub(crate) block: Option<u32>,
    pub(crate) page: u32,
    /// Set while a block is collected, and while shadows must not be touched.
    pub(crate) is_disabled: bool,
    pub(crate) finder: u32,
    pub(crate) dirtiest: Option<(u32, u32)>,
    /// Searches in a row that found nothing.
    pub(crate) not_done: u32,
    pub(crate) skip: i32,
    pub(crate) refresh_skip: u32,
    pub(crate) has_prioritised: bool,
}

impl Collector {
    /// The collector of a new mount: counters and the best candidate stay as an earlier mount of the
    /// same device left them, the rest begins anew (`yaffs_guts_initialise`, `yaffs_guts_ll_init`).
    pub(crate) fn start(kept: &Self) -> Self {
        let Self { dirtiest, not_done, skip, refresh_skip, .. } = *kept;
        Self { has_prioritised: true, dirtiest, not_done, skip, refresh_skip, ..Self::default() }
    }

    /// The block is erased: it is no victim any more.
    pub(crate) fn forget(&mut self, block: u32) {
        if self.block == Some(block) {
            self.block = None;
        }
        if self.dirtiest.is_some_and(|(dirtiest, _)| dirtiest == block) {
            self.dirtiest = None;
        }
    }
}
