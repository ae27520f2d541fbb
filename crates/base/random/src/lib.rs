//! Named, portable random streams.
//!
//! The generator is xoshiro256++; each consumer derives its own stream from the seed of the run
//! and its name, so that adding one consumer never shifts the numbers of another.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers that is the same on every machine.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: Xoshiro256PlusPlus,
}

impl Stream {
    /// The stream `name` of the run with seed `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a over the name keeps streams of one seed apart.
        let hash =
            name.bytes().fold(0xcbf2_9ce4_8422_2325_u64 ^ seed.rotate_left(32), |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(hash ^ seed) }
    }

    /// 64 uniform bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Uniform in `0..bound` (`bound` > 0), by widening multiplication; the bias is below 2^-32.
    #[inline]
    pub fn below(&mut self, bound: u32) -> u32 {
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Uniform in `[0, 1)` with 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Standard normal deviate (Box and Muller, one of the pair).
    pub fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Number of successes in `trials` draws of probability `probability`.
    ///
    /// Walks geometric gaps, so the cost grows with the successes, not with the trials.
    pub fn binomial(&mut self, trials: u32, probability: f64) -> u32 {
        if probability <= 0.0 {
            return 0;
        }
        if probability >= 1.0 {
            return trials;
        }
        let scale = 1.0 / libm::log1p(-probability);
        let mut position = 0.0;
        let mut successes = 0;
        loop {
            position += 1.0 + libm::floor(libm::log(1.0 - self.unit()) * scale);
            if position > f64::from(trials) {
                return successes;
            }
            successes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn streams_are_golden() {
        let mut stream = Stream::new(1, "chip");
        let drawn: Vec<u64> = (0..3).map(|_| stream.next_u64()).collect();
        assert_eq!(drawn, [GOLDEN[0], GOLDEN[1], GOLDEN[2]]);
        assert_ne!(Stream::new(1, "host").next_u64(), GOLDEN[0]);
    }
    const GOLDEN: [u64; 3] =
        [8_507_655_175_065_803_457, 6_278_170_638_707_747_806, 5_021_942_242_270_616_167];

    #[test]
    fn binomial_has_the_right_mean() {
        let mut stream = Stream::new(7, "binomial");
        let sum: u64 = (0..20_000).map(|_| u64::from(stream.binomial(4096, 0.001))).sum();
        let mean = sum as f64 / 20_000.0;
        assert!((mean - 4.096).abs() < 0.06, "mean {mean}");
    }
}
