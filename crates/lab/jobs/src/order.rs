//! In which order, and in which sizes, a process goes over its region.

use crate::{Distribution, Sizes, Strides};

/// Order and sizes of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Order {
    /// Percent of the requests at random places; 0 for one after the other (`rw`, `percentage_random`).
    pub random_percent: u32,
    /// How random places are spread (`random_distribution`).
    pub distribution: Distribution,
    /// Bytes of reads and of writes (`bs`, `bsrange`, `bssplit`).
    pub sizes: [Sizes; 2],
    /// Random reads and writes begin at multiples of these (`blockalign`).
    pub grid_bytes: [u64; 2],
    /// Bytes between the end of a request and the begin of the next one, in sequential order (`rw=read:8k`).
    pub gap_bytes: i64,
    /// A random pass touches each block once (fio without `norandommap`).
    pub has_map: bool,
    /// Parts that are worked on one after the other.
    pub strides: Option<Strides>,
}

impl Order {
    /// One block after the other, all of one size.
    pub fn sequential(block_bytes: u64) -> Self {
        Self { random_percent: 0, ..Self::random(block_bytes, Distribution::Uniform) }
    }

    /// Blocks of one size at random places, which may repeat.
    pub fn random(block_bytes: u64, distribution: Distribution) -> Self {
        Self {
            random_percent: 100,
            distribution,
            sizes: [Sizes::One(block_bytes), Sizes::One(block_bytes)],
            grid_bytes: [block_bytes; 2],
            gap_bytes: 0,
            has_map: false,
            strides: None,
        }
    }

    /// The largest of the smallest sizes: what each process must have room for.
    pub fn least_bytes(&self) -> u64 {
        self.sizes.iter().map(Sizes::min_bytes).max().unwrap_or(0)
    }

    /// Why no region of `region_bytes` can be gone over in this order; none if it can.
    pub(crate) fn fault(&self, region_bytes: u64) -> Option<String> {
        let is_whole = |bytes: u64| bytes > 0 && bytes.is_multiple_of(512);
        for sizes in &self.sizes {
            for bytes in [sizes.min_bytes(), sizes.max_bytes()] {
                if !is_whole(bytes) {
                    return Some(format!("bs is {bytes}, but must be a multiple of 512"));
                }
            }
            if sizes.min_bytes() > sizes.max_bytes() {
                return Some("bsrange must go from the smaller size to the larger one".into());
            }
            if let Sizes::Split(shares) = sizes
                && let Some((bytes, _)) = shares.iter().find(|(bytes, _)| !is_whole(*bytes))
            {
                return Some(format!("bssplit has {bytes}, but needs multiples of 512"));
            }
        }
        if !self.grid_bytes.iter().all(|bytes| is_whole(*bytes)) {
            return Some("blockalign must be a multiple of 512, above 0".into());
        }
        if !is_whole(self.gap_bytes.unsigned_abs()) && self.gap_bytes != 0 {
            return Some("the number behind rw must be a multiple of 512".into());
        }
        if self.random_percent > 100 {
            return Some("percentage_random must be 0 to 100".into());
        }
        let units = self.sizes.iter().map(Sizes::min_bytes).chain(self.grid_bytes);
        if self.has_map && units.clone().any(|bytes| bytes != self.grid_bytes[0]) {
            let reason =
                "random_map needs one smallest size for reads and writes, and no blockalign";
            return Some(reason.into());
        }
        if self.has_map
            && !matches!(self.distribution, Distribution::Uniform | Distribution::Zoned(_))
        {
            // `init_rand_distribution` of fio's filesetup.c: the others have no map.
            return Some("random_map needs a uniform or zoned distribution".into());
        }
        let least_bytes = self.least_bytes();
        if region_bytes < least_bytes {
            return Some(format!(
                "a region of {region_bytes} bytes holds no block of {least_bytes} bytes for each process"
            ));
        }
        self.fault_of_distribution().or_else(|| self.fault_of_strides(region_bytes))
    }

    fn fault_of_distribution(&self) -> Option<String> {
        match self.distribution {
            // The formula divides by 1 - theta.
            Distribution::Zipf(theta)
                if !(theta > 0.0 && theta.is_finite() && (theta - 1.0).abs() > f64::EPSILON) =>
            {
                Some(format!("zipf:{theta}: theta must be above 0, and not 1"))
            }
            Distribution::Pareto(share) if !(share > 0.0 && share < 1.0) => {
                Some(format!("pareto:{share}: the number must lie between 0 and 1"))
            }
            _ => None,
        }
    }

    fn fault_of_strides(&self, region_bytes: u64) -> Option<String> {
        let strides = self.strides?;
        let is_whole = [strides.part_bytes, strides.skip_bytes, strides.moved_bytes]
            .iter()
            .all(|bytes| bytes.is_multiple_of(512));
        if !is_whole || strides.moved_bytes == 0 || strides.part_bytes < self.least_bytes() {
            return Some("zonesize, zonerange and zoneskip must be multiples of 512, zonesize above 0, and zonerange at least a request".into());
        }
        if strides.part_bytes > region_bytes {
            return Some(format!("zonerange is {}, more than the region", strides.part_bytes));
        }
        (self.distribution != Distribution::Uniform)
            .then(|| "zones with strides need the distribution uniform".into())
    }
}
