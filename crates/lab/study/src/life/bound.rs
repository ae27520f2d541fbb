//! What a life is at least where its end was not simulated: one definition for traces and scripts.

/// What was simulated of a life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simulated {
    /// Bytes of the host, gaps included.
    pub(crate) host_bytes: u64,
    /// Bytes of the host that were simulated.
    pub(crate) played_bytes: u64,
    /// Erases of the most worn block that were simulated.
    pub(crate) hottest: u32,
}

impl Simulated {
    /// Bytes that the host can write at least until a block has had so many cycles, if the work goes on.
    ///
    /// The most worn block is supposed to be erased once more than was seen, as its next erase may come at
    /// once. What was simulated is no less than a bound, for the limit was not reached in it.
    pub(crate) fn at_least(&self, cycles: u32) -> u64 {
        let erases = u128::from(self.hottest) + 1;
        let bytes = u128::from(self.played_bytes) * u128::from(cycles) / erases;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(self.host_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::Simulated;

    #[test]
    fn the_most_worn_block_is_erased_once_more() {
        let at_least = |hottest, cycles| {
            Simulated { host_bytes: 500, played_bytes: 400, hottest }.at_least(cycles)
        };
        assert_eq!([at_least(0, 100), at_least(3, 100), at_least(3, 50)], [40_000, 10_000, 5000]);
        // What was simulated did not reach the limit.
        assert_eq!(at_least(99, 100), 500);
        let endless = Simulated { host_bytes: 0, played_bytes: u64::MAX, hottest: 0 };
        assert_eq!(endless.at_least(u32::MAX), u64::MAX);
    }
}
