//! How many bytes a request has.

use random::Stream;

/// Bytes of the requests of one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All the same (`bs`).
    One(u64),
    /// From the first to the second, in steps of the first (`bsrange`).
    Range(u64, u64),
    /// Bytes and percent of the requests, a hundred together (`bssplit`).
    Split(Vec<(u64, u32)>),
}

impl Sizes {
    /// Sizes of which so many percent of requests each have; none unless they are a hundred together.
    ///
    /// A size that no request has is left out.
    pub fn split(shares: &[(u64, u32)]) -> Option<Self> {
        let used: Vec<(u64, u32)> =
            shares.iter().copied().filter(|(_, percent)| *percent > 0).collect();
        let sum = used.iter().fold(0_u32, |sum, (_, percent)| sum.saturating_add(*percent));
        match used.as_slice() {
            [(bytes, 100)] => Some(Self::One(*bytes)),
            _ => (sum == 100).then_some(Self::Split(used)),
        }
    }

    /// The smallest size, on whose multiples requests begin unless something else is said (`blockalign`).
    pub fn min_bytes(&self) -> u64 {
        match self {
            Self::One(bytes) | Self::Range(bytes, _) => *bytes,
            Self::Split(shares) => shares.iter().map(|(bytes, _)| *bytes).min().unwrap_or(0),
        }
    }

    /// The largest size.
    pub fn max_bytes(&self) -> u64 {
        match self {
            Self::One(bytes) | Self::Range(_, bytes) => *bytes,
            Self::Split(shares) => shares.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0),
        }
    }

    /// True if all requests have one size.
    pub fn is_one(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// The size of the next request, where `room_bytes` are left.
    ///
    /// As `get_next_buflen` of fio's `io_u.c`: it draws again until the size fits. The smallest one must.
    pub(crate) fn draw(&self, stream: &mut Stream, room_bytes: u64) -> u64 {
        debug_assert!(self.min_bytes() <= room_bytes, "the smallest size fits");
        loop {
            let bytes = self.draw_any(stream);
            if bytes <= room_bytes {
                return bytes;
            }
        }
    }

    fn draw_any(&self, stream: &mut Stream) -> u64 {
        match self {
            // Without a draw: jobs of one size have the places that they had before there were others.
            Self::One(bytes) => *bytes,
            Self::Range(min_bytes, max_bytes) => {
                // fio adds a share of the largest size to the smallest, and cuts what is above the largest.
                let more_bytes = (u128::from(stream.next_u64()) * u128::from(*max_bytes)) >> 64;
                let bytes = min_bytes + more_bytes as u64;
                (bytes / min_bytes * min_bytes).min(*max_bytes)
            }
            Self::Split(shares) => {
                let drawn = stream.below(100);
                let mut sum = 0;
                let found = shares.iter().find(|(_, percent)| {
                    sum += percent;
                    drawn < sum
                });
                found.expect("shares of a hundred").0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Sizes;
    use random::Stream;

    #[test]
    fn sizes_have_their_shares_and_those_that_do_not_fit_are_drawn_again() {
        let sizes = Sizes::split(&[(512, 10), (4096, 60), (1024, 0), (65_536, 30)]).expect("100");
        assert_eq!((sizes.min_bytes(), sizes.max_bytes()), (512, 65_536));
        let mut stream = Stream::new(1, "sizes");
        let mut found = std::collections::BTreeMap::<u64, u32>::new();
        for _ in 0..100_000 {
            *found.entry(sizes.draw(&mut stream, 1 << 20)).or_default() += 1;
        }
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [512, 4096, 65_536]);
        for (found, wanted) in found.values().zip([10_000.0, 60_000.0, 30_000.0]) {
            assert!((f64::from(*found) / wanted - 1.0).abs() < 0.04, "{found} for {wanted}");
        }
        assert!((0..1000).all(|_| sizes.draw(&mut stream, 4096) <= 4096));
        assert_eq!(Sizes::split(&[(512, 60), (1024, 60)]), None);
        assert_eq!(Sizes::split(&[(512, 100), (1024, 0)]), Some(Sizes::One(512)));
    }

    #[test]
    fn a_range_has_all_multiples_of_its_smallest_size_alike() {
        let sizes = Sizes::Range(1024, 4096);
        let mut stream = Stream::new(1, "range");
        let mut found = [0_u32; 4];
        for _ in 0..40_000 {
            let bytes = sizes.draw(&mut stream, 1 << 20);
            assert_eq!(bytes % 1024, 0);
            found[bytes as usize / 1024 - 1] += 1;
        }
        assert!(found.iter().all(|count| count.abs_diff(10_000) < 400), "{found:?}");
    }
}
