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
    Sequential { next: u64 },
    Uniform,
    Zipf(Zipf),
}

impl Addresses {
    /// Blocks of the region from its start, again and again.
    pub fn sequential(region: Region, block_bytes: u64, stream: Stream) -> Self {
        Self::new(region, block_bytes, Kind::Sequential { next: 0 }, stream)
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
            Kind::Sequential { next } => {
                let block = *next;
                *next = (block + 1) % self.blocks;
                block
            }
            Kind::Uniform => below(&mut self.stream, self.blocks),
            // A multiplicative hash scatters the popular blocks over the region.
            Kind::Zipf(zipf) => {
                let rank = zipf.draw(&mut self.stream);
                rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.blocks
            }
        };
        debug_assert!(block < self.blocks, "a block of the region");
        self.region.offset_bytes + block * self.block_bytes
    }

    /// True with a probability of `percent` of a hundred.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.stream.below(100) < percent
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
    use super::{Addresses, Distribution, Region};
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
