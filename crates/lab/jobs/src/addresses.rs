//! Which blocks a process touches, one after the other.

use random::Stream;

/// Bytes of a device or file that a process works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// First byte of the region.
    pub offset_bytes: u64,
    /// Length of the region in bytes.
    pub bytes: u64,
}

impl Region {
    /// The `index`th of `count` equal parts, each a whole number of `block_bytes`.
    #[must_use]
    pub fn part(&self, index: u32, count: u32, block_bytes: u64) -> Self {
        // Rounded down to whole blocks, so that parts do not share one.
        let bytes = self.bytes / u64::from(count) / block_bytes * block_bytes;
        Self { offset_bytes: self.offset_bytes + u64::from(index) * bytes, bytes }
    }
}

/// How random addresses are spread (`random_distribution` of fio).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every block as likely as the others.
    Uniform,
    /// The block of rank r with probability in proportion to r^-theta; ranks are scattered.
    Zipf(f64),
    /// So many percent of requests go to so many percent of the region, part after part (`zoned` of fio).
    Zoned(Zones),
}

/// Most parts of a region whose shares of requests differ.
pub const ZONES_MAX: usize = 16;

/// Parts of a region, each with its share of the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// Percent of the requests, 100 together, and percent of the region.
    // A list of fixed length: a distribution is copied with the job, and no request shall look behind a pointer.
    shares: [(u32, u32); ZONES_MAX],
    count: usize,
}

impl Zones {
    /// Parts of these shares, in the order of the region; `None` if there are too many, or none, or if a sum is
    /// above a hundred or a part without bytes has requests.
    pub fn new(shares: &[(u32, u32)]) -> Option<Self> {
        if shares.is_empty() || shares.len() > ZONES_MAX {
            return None;
        }
        let sum = |shares: &[(u32, u32)], pick: fn(&(u32, u32)) -> u32| {
            shares.iter().map(pick).fold(0_u32, u32::saturating_add)
        };
        let is_empty = shares.iter().any(|(requests, bytes)| *requests > 0 && *bytes == 0);
        if is_empty || sum(shares, |one| one.0) != 100 || sum(shares, |one| one.1) > 100 {
            return None;
        }
        let mut zones = Self { count: shares.len(), ..Self::default() };
        zones.shares[..shares.len()].copy_from_slice(shares);
        Some(zones)
    }

    /// First block and number of blocks of the part that a request of `percent` goes to.
    fn part(&self, percent: u32, blocks: u64) -> (u64, u64) {
        let (mut requests, mut bytes) = (0, 0);
        for (share, size) in &self.shares[..self.count] {
            requests += share;
            if percent < requests {
                let begin = blocks * u64::from(bytes) / 100;
                let end = blocks * u64::from(bytes + size) / 100;
                // A part of less than a block has the one it begins in.
                return (begin.min(blocks - 1), (end - begin).max(1));
            }
            bytes += size;
        }
        (0, blocks)
    }
}

/// A source of addresses.
#[derive(Clone, Debug)]
pub struct Addresses {
    region: Region,
    block_bytes: u64,
    blocks: u64,
    kind: Kind,
    stream: Stream,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Bytes from the begin of the region, and those between two requests.
    Sequential {
        next_bytes: u64,
        gap_bytes: i64,
    },
    Uniform,
    Zipf(Zipf),
    Zoned(Zones),
}

impl Addresses {
    /// Blocks of the region from its start, again and again.
    pub fn sequential(region: Region, block_bytes: u64, stream: Stream) -> Self {
        Self::sequential_with_gap(region, block_bytes, 0, stream)
    }

    /// Blocks of the region with `gap_bytes` between the end of one and the begin of the next (`rw=read:8k` of fio);
    /// with a negative gap of two blocks they go backwards.
    ///
    /// fio 3.33 begins at the first block in either case, and goes on as far before the end of the file as the gap
    /// says when it comes to the begin: measured with `write_iolog`.
    pub fn sequential_with_gap(
        region: Region,
        block_bytes: u64,
        gap_bytes: i64,
        stream: Stream,
    ) -> Self {
        Self::new(region, block_bytes, Kind::Sequential { next_bytes: 0, gap_bytes }, stream)
    }

    /// Blocks of the region drawn at random.
    pub fn random(
        region: Region,
        block_bytes: u64,
        distribution: Distribution,
        stream: Stream,
    ) -> Self {
        let blocks = region.bytes / block_bytes;
        let kind = match distribution {
            Distribution::Uniform => Kind::Uniform,
            Distribution::Zipf(theta) => Kind::Zipf(Zipf::new(blocks, theta)),
            Distribution::Zoned(zones) => Kind::Zoned(zones),
        };
        Self::new(region, block_bytes, kind, stream)
    }

    fn new(region: Region, block_bytes: u64, kind: Kind, stream: Stream) -> Self {
        debug_assert!(region.bytes >= block_bytes, "the job was checked: its region holds a block");
        Self { region, block_bytes, blocks: region.bytes / block_bytes, kind, stream }
    }

    /// Offset of the next block.
    pub fn next_offset(&mut self) -> u64 {
        let block = match &mut self.kind {
            Kind::Sequential { next_bytes, gap_bytes } => {
                let bytes = self.blocks * self.block_bytes;
                let offset_bytes = *next_bytes;
                let end_bytes = offset_bytes + self.block_bytes;
                *next_bytes = wrapped(end_bytes, *gap_bytes, bytes, self.block_bytes);
                debug_assert!(end_bytes <= bytes, "a block of the region");
                return self.region.offset_bytes + offset_bytes;
            }
            Kind::Uniform => below(&mut self.stream, self.blocks),
            // A multiplicative hash scatters the popular blocks over the region.
            Kind::Zipf(zipf) => {
                let rank = zipf.draw(&mut self.stream);
                rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.blocks
            }
            Kind::Zoned(zones) => {
                let (first, count) = zones.part(self.stream.below(100), self.blocks);
                first + below(&mut self.stream, count)
            }
        };
        debug_assert!(block < self.blocks, "a block of the region");
        self.region.offset_bytes + block * self.block_bytes
    }

    /// A time with an exponential distribution, and this mean, nanoseconds: gaps of a Poisson process.
    pub fn exponential_ns(&mut self, mean_ns: u64) -> u64 {
        // The stream's unit lies below 1, so the logarithm is finite.
        (-libm::log(1.0 - self.stream.unit()) * mean_ns as f64) as u64
    }

    /// True with a probability of `percent` of a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.stream.below(100) < percent
    }
}

/// The place `gap_bytes` behind `end_bytes`, in a file of `bytes`: from its begin on after its end, and the gap before
/// its end where it would lie before its begin.
fn wrapped(end_bytes: u64, gap_bytes: i64, bytes: u64, block_bytes: u64) -> u64 {
    let last_bytes = bytes - block_bytes;
    match end_bytes.checked_add_signed(gap_bytes) {
        Some(next_bytes) if next_bytes <= last_bytes => next_bytes,
        Some(_) => 0,
        None => bytes.saturating_add_signed(gap_bytes).min(last_bytes),
    }
}

fn below(stream: &mut Stream, bound: u64) -> u64 {
    // Multiply and shift maps 64 random bits to the bound without a loop; the bias is the bound
    // over 2^64.
    ((u128::from(stream.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Ranks after Zipf's law, by the method of Gray et al. (SIGMOD 1994), as fio and YCSB draw them.
#[derive(Clone, Debug)]
struct Zipf {
    blocks: u64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

/// Terms of the zeta sum that are added up one by one; beyond it is replaced by its integral.
const ZETA_TERMS_MAX: u64 = 1_000_000;

impl Zipf {
    fn new(blocks: u64, theta: f64) -> Self {
        let zeta = zeta(blocks, theta);
        let zeta2 = zeta_sum(2, theta);
        let eta = (1.0 - libm::pow(2.0 / blocks as f64, 1.0 - theta)) / (1.0 - zeta2 / zeta);
        Self { blocks, theta, zeta, alpha: 1.0 / (1.0 - theta), eta }
    }

    fn draw(&self, stream: &mut Stream) -> u64 {
        let unit = stream.unit();
        // The first two ranks are exact; the others follow the formula.
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + libm::pow(0.5, self.theta) {
            return 1;
        }
        let rank = self.blocks as f64 * libm::pow(self.eta * unit - self.eta + 1.0, self.alpha);
        (rank as u64).min(self.blocks - 1)
    }
}

fn zeta_sum(terms: u64, theta: f64) -> f64 {
    (1..=terms).map(|rank| libm::pow(rank as f64, -theta)).sum()
}

fn zeta(blocks: u64, theta: f64) -> f64 {
    let summed = blocks.min(ZETA_TERMS_MAX);
    // The midpoint rule: a term stands for half a step to both sides.
    let integral = |upper: u64| libm::pow(upper as f64 + 0.5, 1.0 - theta) / (1.0 - theta);
    zeta_sum(summed, theta)
        + if blocks > summed { integral(blocks) - integral(summed) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{Addresses, Distribution, Region, Zones};
    use random::Stream;

    const REGION: Region = Region { offset_bytes: 4096, bytes: 400 * 4096 };

    #[test]
    fn addresses_stay_in_their_region_and_on_their_grid() {
        for distribution in [Distribution::Uniform, Distribution::Zipf(0.9)] {
            let mut addresses =
                Addresses::random(REGION, 8192, distribution, Stream::new(1, "addresses"));
            for _ in 0..10_000 {
                let offset = addresses.next_offset();
                assert!(offset >= 4096 && offset + 8192 <= 4096 + REGION.bytes);
                assert_eq!((offset - 4096) % 8192, 0);
            }
        }
    }

    #[test]
    fn zipf_draws_its_first_rank_as_often_as_the_law_says() {
        let stream = Stream::new(1, "zipf");
        let mut addresses = Addresses::random(REGION, 4096, Distribution::Zipf(0.8), stream);
        let draws = 200_000;
        let first = (0..draws).filter(|_| addresses.next_offset() == 4096).count() as f64;
        let expected = f64::from(draws) / super::zeta_sum(400, 0.8);
        assert!((first / expected - 1.0).abs() < 0.03, "{first} instead of {expected}");
    }

    #[test]
    fn a_gap_leaves_blocks_out_and_a_negative_one_goes_backwards() {
        let region = Region { offset_bytes: 1000, bytes: 5 * 512 };
        let places = |gap| {
            let stream = Stream::new(1, "gaps");
            let mut addresses = Addresses::sequential_with_gap(region, 512, gap, stream);
            (0..7).map(|_| (addresses.next_offset() - 1000) / 512).collect::<Vec<_>>()
        };
        assert_eq!(places(0), [0, 1, 2, 3, 4, 0, 1]);
        assert_eq!(places(512), [0, 2, 4, 0, 2, 4, 0]);
        // Two blocks back from the end of each is one back from its begin. The order is that of fio 3.33.
        assert_eq!(places(-1024), [0, 3, 2, 1, 0, 3, 2]);
    }

    #[test]
    fn zones_get_their_shares_of_requests() {
        let zones = Zones::new(&[(50, 5), (30, 15), (20, 80)]).expect("shares of a hundred");
        let stream = Stream::new(1, "zones");
        let mut addresses = Addresses::random(REGION, 4096, Distribution::Zoned(zones), stream);
        let mut found = [0_u32; 3];
        for _ in 0..100_000 {
            let block = (addresses.next_offset() - 4096) / 4096;
            found[usize::from(block >= 20) + usize::from(block >= 80)] += 1;
        }
        for (found, wanted) in found.iter().zip([50_000.0, 30_000.0, 20_000.0]) {
            assert!((f64::from(*found) / wanted - 1.0).abs() < 0.03, "{found} for {wanted}");
        }
        let wrong: [&[(u32, u32)]; 5] =
            [&[], &[(50, 50)], &[(100, 101)], &[(50, 0), (50, 50)], &[(5, 5); 20]];
        assert!(wrong.into_iter().all(|shares| Zones::new(shares).is_none()));
    }

    #[test]
    fn gaps_of_a_poisson_process_have_their_mean_and_deviation() {
        let mut addresses = Addresses::sequential(REGION, 4096, Stream::new(1, "poisson"));
        let gaps: Vec<f64> =
            (0..50_000).map(|_| addresses.exponential_ns(1_000_000) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert!((square.sqrt() / mean - 1.0).abs() < 0.03, "{square}");
    }

    #[test]
    fn parts_are_disjoint() {
        let parts: Vec<Region> = (0..3).map(|index| REGION.part(index, 3, 4096)).collect();
        assert!(
            parts
                .windows(2)
                .all(|pair| pair[0].offset_bytes + pair[0].bytes <= pair[1].offset_bytes)
        );
        assert!(parts[2].offset_bytes + parts[2].bytes <= REGION.offset_bytes + REGION.bytes);
    }
}
