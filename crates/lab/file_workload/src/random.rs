//! The seeded random numbers of the workload: xoshiro256++ seeded by splitmix64.

/// A xoshiro256++ generator; equal seeds give equal streams on every machine.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator for one `stream` (0, 1, …) of a `seed`.
    ///
    /// The state is filled by splitmix64, started at the seed plus the stream number multiplied
    /// by an odd constant, so that streams of one seed do not overlap in practice.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut counter = seed.wrapping_add(stream.wrapping_mul(0xd134_2543_de82_ef95));
        let state = std::array::from_fn(|_| splitmix64(&mut counter));
        Self { state }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number in `0..bound`, by the high half of a 64 by 64 bit product.
    ///
    /// # Panics
    /// When `bound` is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a random number has a bound above zero");
        // The low bits of a product are the weaker ones, and a remainder would favour small numbers.
        let product = u128::from(self.next_u64()) * bound as u128;
        usize::try_from(product >> 64).expect("the result is below a usize")
    }

    /// True or false, one half each.
    pub fn coin(&mut self) -> bool {
        self.next_u64() >> 63 == 0
    }

    /// A number in `0.0..1.0` of 53 random bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A normally distributed number, by the Box-Muller transform.
    pub fn normal(&mut self, mean: f64, standard_deviation: f64) -> f64 {
        // Functions of libm and not of the platform, whose last bits differ from machine to machine.
        // One minus the draw is never zero, whose logarithm is infinite.
        let radius = (-2.0 * libm::log(1.0 - self.unit())).sqrt();
        let angle = std::f64::consts::TAU * self.unit();
        mean + standard_deviation * radius * libm::cos(angle)
    }
}

fn splitmix64(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *counter;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix64_matches_its_published_vector() {
        let mut counter = 1_234_567;
        assert_eq!(splitmix64(&mut counter), 6_457_827_717_110_365_317);
        assert_eq!(splitmix64(&mut counter), 3_203_168_211_198_807_973);
    }

    #[test]
    fn xoshiro_matches_its_published_vector() {
        let mut random = Random { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(Random::new(1, 0).next_u64(), Random::new(1, 1).next_u64());
    }
}
