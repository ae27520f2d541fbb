//! How many of a pool's tags a caller limited to a *shallow depth* can get.
//!
//! The tags of a multi-queue device stand in a bitmap of several words, so that processors seldom
//! meet in one. A shallow depth limits the bits used in **each word**, not their sum: with 128 tags
//! in four words of 32, a depth of 96 limits nothing, and a depth of 8 leaves 32 tags.
//!
//! Source: Linux 6.1 and 6.12, `lib/sbitmap.c`.

/// A pool of `tags` tags.
#[derive(Clone, Copy)]
pub(crate) struct TagPool {
    tags: u32,
    word_bits: u32,
}

impl TagPool {
    /// Words hold 64 tags, or fewer for a pool that would not fill four words.
    // 64 bits of a machine word; a pool of four words or fewer gets smaller ones, so that
    // processors still have a choice (`sbitmap_calculate_shift`).
    pub(crate) fn new(tags: u32) -> Self {
        let mut shift = 6;
        // Below four tags the shift stays: one word holds them all.
        while tags >= 4 && (4 << shift) > tags {
            shift -= 1;
        }
        Self { tags, word_bits: 1 << shift }
    }

    /// Tags in a full word.
    pub(crate) fn word_bits(self) -> u32 {
        self.word_bits
    }

    /// `depth`, which is a share of all tags, as a share of a word, rounded up.
    pub(crate) fn depth_in_word(self, depth: u32) -> u32 {
        let bits = u64::from(depth) * u64::from(self.word_bits);
        u32::try_from(bits.div_ceil(u64::from(self.tags.max(1)))).unwrap_or(u32::MAX)
    }

    /// Tags within reach of a caller who may use `depth` bits of each word.
    pub(crate) fn within(self, depth: u32) -> u32 {
        // The last word may be shorter, and it too is limited to the depth.
        let (full_words, rest) = (self.tags / self.word_bits, self.tags % self.word_bits);
        let within = full_words * self.word_bits.min(depth) + rest.min(depth);
        debug_assert!(within <= self.tags, "no more tags are within reach than there are");
        within
    }
}

#[cfg(test)]
mod tests {
    use super::TagPool;

    #[test]
    fn a_shallow_depth_counts_in_each_word() {
        let pool = TagPool::new(128);
        assert_eq!(pool.word_bits(), 32);
        assert_eq!([96, 32, 24, 8, 1].map(|depth| pool.within(depth)), [128, 128, 96, 32, 4]);
        assert_eq!(pool.within(pool.depth_in_word(96)), 96);
        assert_eq!(TagPool::new(1024).word_bits(), 64);
        assert_eq!((TagPool::new(3).word_bits(), TagPool::new(3).within(2)), (64, 2));
        assert_eq!((TagPool::new(10).word_bits(), TagPool::new(10).within(1)), (2, 5));
    }
}
