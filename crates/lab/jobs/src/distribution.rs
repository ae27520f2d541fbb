//! How random places are spread over a region.

use random::Stream;

/// How random addresses are spread (`random_distribution` of fio).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Every block as likely as the others.
    Uniform,
    /// The block of rank r with probability in proportion to r^-theta; ranks are scattered.
    Zipf(f64),
    /// A share of requests of 1 - h goes to a share of h of the blocks (`pareto:h`).
    Pareto(f64),
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

/// A distribution over a number of blocks, with what it computes once.
#[derive(Clone, Debug)]
pub(crate) enum Spread {
    Uniform,
    Zipf(Zipf),
    /// The exponent, `log(h) / log(1 - h)`.
    Pareto(f64),
    Zoned(Zones),
}

impl Spread {
    /// Prepares a distribution for `blocks` blocks.
    pub(crate) fn new(distribution: Distribution, blocks: u64) -> Self {
        match distribution {
            Distribution::Uniform => Self::Uniform,
            Distribution::Zipf(theta) => Self::Zipf(Zipf::new(blocks, theta)),
            Distribution::Pareto(share) => Self::Pareto(libm::log(share) / libm::log(1.0 - share)),
            Distribution::Zoned(zones) => Self::Zoned(zones),
        }
    }

    /// A block, of `blocks`.
    pub(crate) fn draw(&self, stream: &mut Stream, blocks: u64) -> u64 {
        match self {
            Self::Uniform => below(stream, blocks),
            Self::Zipf(zipf) => scattered(zipf.draw(stream), blocks),
            Self::Pareto(power) => scattered(pareto_rank(stream, blocks, *power), blocks),
            Self::Zoned(zones) => {
                let (first, count) = zones.part(stream.below(100), blocks);
                first + below(stream, count)
            }
        }
    }
}

/// A rank below `blocks`, as `pareto_next` of fio's lib/zipf.c draws it.
fn pareto_rank(stream: &mut Stream, blocks: u64, power: f64) -> u64 {
    ((blocks - 1) as f64 * libm::pow(stream.unit(), power)) as u64
}

/// A multiplicative hash scatters the popular blocks over the region.
const fn scattered(rank: u64, blocks: u64) -> u64 {
    rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks
}

/// A number below `bound`.
fn below(stream: &mut Stream, bound: u64) -> u64 {
    // Multiply and shift maps 64 random bits to the bound without a loop; the bias is the bound
    // over 2^64.
    ((u128::from(stream.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Ranks after Zipf's law, by the method of Gray et al. (SIGMOD 1994), as fio and YCSB draw them.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
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
    use super::{Distribution, Spread, Zones, pareto_rank};
    use random::Stream;

    #[test]
    fn zipf_draws_its_first_rank_as_often_as_the_law_says() {
        for theta in [0.8, 1.2] {
            let mut stream = Stream::new(1, "zipf");
            let spread = Spread::new(Distribution::Zipf(theta), 400);
            let draws = 200_000;
            let first = (0..draws).filter(|_| spread.draw(&mut stream, 400) == 0).count() as f64;
            let expected = f64::from(draws) / super::zeta_sum(400, theta);
            assert!((first / expected - 1.0).abs() < 0.03, "{first} instead of {expected}");
        }
    }

    #[test]
    fn pareto_gives_the_share_that_it_names() {
        let mut stream = Stream::new(1, "pareto");
        let spread = Spread::new(Distribution::Pareto(0.2), 1000);
        let Spread::Pareto(power) = spread else { panic!("a pareto distribution") };
        let draws = 100_000;
        let few = (0..draws).filter(|_| pareto_rank(&mut stream, 1000, power) < 200).count() as f64;
        // 80 % of the requests to 20 % of the blocks.
        assert!((few / (0.8 * f64::from(draws)) - 1.0).abs() < 0.01, "{few}");
        assert!((0..1000).all(|_| spread.draw(&mut stream, 7) < 7));
    }

    #[test]
    fn zones_get_their_shares_of_requests() {
        let zones = Zones::new(&[(50, 5), (30, 15), (20, 80)]).expect("shares of a hundred");
        let mut stream = Stream::new(1, "zones");
        let spread = Spread::new(Distribution::Zoned(zones), 400);
        let mut found = [0_u32; 3];
        for _ in 0..100_000 {
            let block = spread.draw(&mut stream, 400);
            found[usize::from(block >= 20) + usize::from(block >= 80)] += 1;
        }
        for (found, wanted) in found.iter().zip([50_000.0, 30_000.0, 20_000.0]) {
            assert!((f64::from(*found) / wanted - 1.0).abs() < 0.03, "{found} for {wanted}");
        }
        let wrong: [&[(u32, u32)]; 5] =
            [&[], &[(50, 50)], &[(100, 101)], &[(50, 0), (50, 50)], &[(5, 5); 20]];
        assert!(wrong.into_iter().all(|shares| Zones::new(shares).is_none()));
    }
}
