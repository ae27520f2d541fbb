//! Write amplification of page mapping under uniform random writes, in closed form.
//!
//! Host writes and copies share one open block, every logical page is as likely to be written as the others, and the
//! device is in its steady state. The state of the device is then described by two numbers: the pages of a block, N, and
//! the share of the physical pages that hold valid data, rho = 1 − spare factor.
//!
//! - random: a block of average validity is cleaned, 1 / (1 − rho) (Desnoyers 2014).
//! - FIFO: a block is cleaned after the same number of writes each time, so a page of it survives with
//!   v = exp(−(1 − v) / rho), and the write amplification is 1 / (1 − v) (Desnoyers 2014). In closed form
//!   1 / (1 + rho W(−exp(−1 / rho) / rho)), with W the principal branch of Lambert's function.
//! - greedy: `rho N (x / m + H_N − H_m) = N − m + x` with 0 ≤ x ≤ 1, and the write amplification is N / (N − m + x) (Bux
//!   and Iliadis 2010; Desnoyers 2014). H is the harmonic number; m is the number of valid pages of a victim.
//! - d-choices: the mean-field balance of Van Houdt (2013). Let X be the share of blocks that hold at least i valid
//!   pages. As many blocks leave these states by invalidation as enter them by writes and do not leave by
//!   cleaning: c i x = 1 − X^d, where x is the share that holds exactly i. The factor c follows from the mean, rho N.
//!
//! The formulas hold for many blocks. Blocks that are free when cleaning ends hold no data, and the open block is half
//! full on average: they are no part of the physical pages. On a chip of 100 blocks with 7 % spare pages this is
//! a fifth of the spare pages, and the write amplification is 24 % above what the formulas give without it. No formula is known
//! here for cost-benefit, CAT and windowed cleaning.
//!
//! Sources: Bux, Iliadis, "Performance of greedy garbage collection in flash-based solid-state drives", Performance
//! Evaluation 67, 2010. Van Houdt, "A mean field model for a class of garbage collection algorithms in flash-based solid
//! state drives", SIGMETRICS 2013. Desnoyers, "Analytic models of SSD write performance", ACM Transactions on Storage
//! 10(2), 2014.

use crate::Settings;
use crate::contract::FtlEntry;
use nand::Geometry;

/// Halvings of an interval until nothing is left of it in double precision.
const HALVINGS: u32 = 60;

/// What the formulas know of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    /// Pages of a block, N.
    pub pages_per_block: u32,
    /// Share of the physical pages that hold valid data, rho: above 0 and below 1.
    pub valid_share: f64,
}

impl Occupancy {
    /// The occupancy of a chip of which `empty_blocks` blocks hold no data at any time, on average.
    ///
    /// Returns `None` if no page is spare, or no page is used.
    pub fn of(geometry: &Geometry, logical_pages: u32, empty_blocks: f64) -> Option<Self> {
        let pages =
            (f64::from(geometry.blocks) - empty_blocks) * f64::from(geometry.pages_per_block);
        let valid_share = f64::from(logical_pages) / pages;
        let has_spare_pages = pages > 0.0 && valid_share > 0.0 && valid_share < 1.0;
        has_spare_pages.then_some(Self { pages_per_block: geometry.pages_per_block, valid_share })
    }
}

/// Predicted write amplification of a layer whose host writes single pages, every logical page as likely as the others.
///
/// Returns `None` for a layer, a cleaning policy or a setting for which no closed form is known, and where no page is spare.
pub fn predicted_waf(
    entry: &FtlEntry,
    geometry: &Geometry,
    logical_pages: u32,
    settings: &Settings,
) -> Option<f64> {
    (entry.predicted_waf?)(geometry, logical_pages, settings)
}

/// Random cleaning: 1 / (1 − rho).
pub fn random(occupancy: &Occupancy) -> f64 {
    1.0 / (1.0 - occupancy.valid_share)
}

/// FIFO cleaning: the fixed point of the survival of a page.
pub fn fifo(occupancy: &Occupancy) -> f64 {
    // With y = 1 − v, the share of a victim that is invalid: 1 − y = exp(−y / rho). The left side is the larger one below
    // the root, and the smaller one above it.
    let valid_share = occupancy.valid_share;
    1.0 / bisect(1.0, |invalid| 1.0 - invalid > libm::exp(-invalid / valid_share))
}

/// Greedy cleaning, with blocks of finite size.
pub fn greedy(occupancy: &Occupancy) -> f64 {
    let (pages, valid_share) = (f64::from(occupancy.pages_per_block), occupancy.valid_share);
    // H_N − H_m.
    let mut harmonic = 0.0;
    for valid in (1..=occupancy.pages_per_block).rev().map(f64::from) {
        // Linear in x: rho N / m x + rho N (H_N − H_m) = N − m + x.
        let slope = valid_share * pages / valid - 1.0;
        let x = (pages - valid - valid_share * pages * harmonic) / slope;
        if slope > 0.0 && (0.0..=1.0).contains(&x) {
            return pages / (pages - valid + x);
        }
        harmonic += 1.0 / valid;
    }
    // So much is spare that a victim holds no valid page.
    1.0
}

/// Cleaning of the block with the fewest valid pages among `choices` that are drawn at random.
pub fn d_choices(occupancy: &Occupancy, choices: u32) -> f64 {
    let valid_share = occupancy.valid_share;
    let mean = valid_share * f64::from(occupancy.pages_per_block);
    // A larger factor empties blocks faster: the mean falls as it grows.
    let factor = bisect(1.0 / valid_share, |factor| {
        mean_valid_pages(occupancy.pages_per_block, factor, choices) > mean
    });
    1.0 / (factor * valid_share)
}

/// Mean number of valid pages of a block in the balance with factor `factor`.
fn mean_valid_pages(pages_per_block: u32, factor: f64, choices: u32) -> f64 {
    let (mut at_least, mut mean) = (0.0, 0.0);
    for valid in (1..=pages_per_block).rev().map(f64::from) {
        let share = bisect(1.0 - at_least, |share| {
            factor * valid * share < 1.0 - power(at_least + share, choices)
        });
        at_least += share;
        mean += share * valid;
    }
    mean
}

/// The place between 0 and `high` up to which `is_below` holds.
fn bisect(high: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, high);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_below(middle) { low = middle } else { high = middle }
    }
    high
}

/// `base` to the `exponent`, by squares: the precision of `f64::powi` is not the same on all machines.
fn power(base: f64, exponent: u32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result *= square;
        }
        square *= square;
        left /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{Occupancy, d_choices, fifo, greedy, predicted_waf, random};
    use crate::{Settings, Value, find_ftl};
    use nand::Geometry;
    use std::collections::BTreeMap;

    fn occupancy(pages_per_block: u32, spare_factor: f64) -> Occupancy {
        Occupancy { pages_per_block, valid_share: 1.0 - spare_factor }
    }

    fn assert_near(what: &str, computed: f64, expected: f64, tolerance: f64) {
        let error = computed / expected - 1.0;
        assert!(error.abs() <= tolerance, "{what}: computed {computed:.4}, expected {expected:.4}");
    }

    /// Values of the literature, and of a simulation that is none of this project's.
    #[test]
    fn predictions_are_those_of_the_published_table() {
        assert_near("greedy", greedy(&occupancy(32, 0.07)), 6.057, 0.001);
        assert_near("greedy", greedy(&occupancy(64, 0.125)), 3.949, 0.001);
        assert_near("greedy", greedy(&occupancy(64, 0.5)), 1.239, 0.001);
        assert_near("greedy", greedy(&occupancy(4, 0.2)), 1.800, 0.001);
        assert_near("fifo", fifo(&occupancy(64, 0.07)), 7.318, 0.001);
        assert_near("fifo", fifo(&occupancy(64, 0.125)), 4.182, 0.001);
        assert_near("fifo", fifo(&occupancy(64, 0.5)), 1.255, 0.001);
        assert_near("random", random(&occupancy(64, 0.07)), 1.0 / 0.07, 1e-12);
        assert_near("d = 2", d_choices(&occupancy(64, 0.07), 2), 9.714, 0.015);
        assert_near("d = 10", d_choices(&occupancy(64, 0.07), 10), 6.943, 0.015);
        assert_near("d = 2", d_choices(&occupancy(64, 0.5), 2), 1.528, 0.015);
        assert_near("d = 5", d_choices(&occupancy(32, 0.2), 5), 2.774, 0.015);
        assert_near("d = 10", d_choices(&occupancy(32, 0.28), 10), 1.955, 0.015);
    }

    #[test]
    fn one_choice_is_random_and_many_are_greedy() {
        for pages_per_block in [4, 32, 256] {
            for spare_factor in [0.02, 0.125, 0.5] {
                let at = occupancy(pages_per_block, spare_factor);
                assert_near("one choice", d_choices(&at, 1), random(&at), 1e-9);
                assert_near("many choices", d_choices(&at, 1_000_000), greedy(&at), 1e-3);
            }
        }
    }

    /// 1 + rho W(−exp(−1 / rho) / rho) is the share of a victim that is invalid.
    #[test]
    fn fifo_is_the_form_with_the_function_of_lambert() {
        for spare_factor in [0.001, 0.07, 0.3, 0.9] {
            let at = occupancy(64, spare_factor);
            let lambert = (1.0 / fifo(&at) - 1.0) / at.valid_share;
            let argument = -libm::exp(-1.0 / at.valid_share) / at.valid_share;
            assert_near("w exp(w)", lambert * libm::exp(lambert), argument, 1e-9);
            // The other solution, −1 / rho, belongs to the other branch and to no spare page.
            assert!(lambert > -1.0, "principal branch: {lambert}");
        }
    }

    #[test]
    fn fifo_is_the_limit_of_greedy_for_large_blocks() {
        let at = occupancy(16_384, 0.2);
        assert_near("large blocks", greedy(&at), fifo(&at), 1e-3);
        assert!(greedy(&occupancy(8, 0.2)) < 0.97 * fifo(&at), "small blocks are easier");
    }

    fn predicted(layer: &str, given: &[(&str, &str)], logical_pages: u32) -> Option<f64> {
        let entry = find_ftl(layer).unwrap();
        let given: BTreeMap<String, Value> =
            given.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect();
        let settings = Settings::new(entry.parameters, &given).unwrap();
        let geometry = Geometry { pages_per_block: 64, blocks: 1_000, ..part_geometry() };
        predicted_waf(entry, &geometry, logical_pages, &settings)
    }

    fn part_geometry() -> Geometry {
        nand::find_part("k9f2g08u0c").unwrap().geometry
    }

    #[test]
    fn a_prediction_is_made_only_where_a_closed_form_holds() {
        let page = |given: &[(&str, &str)]| predicted("page", given, 56_000);
        // One block is free and one half full: 998.5 blocks hold data.
        let at = Occupancy { pages_per_block: 64, valid_share: 56_000.0 / (998.5 * 64.0) };
        assert_near("greedy", page(&[]).unwrap(), greedy(&at), 1e-12);
        assert_near("greedy", page(&[]).unwrap(), 3.949, 0.015);
        assert_near("fifo", page(&[("cleaning", "fifo")]).unwrap(), fifo(&at), 1e-12);
        assert_near("random", page(&[("cleaning", "random")]).unwrap(), random(&at), 1e-12);
        let two = page(&[("cleaning", "d-choices"), ("choices", "2")]).unwrap();
        let ten = page(&[("cleaning", "d-choices")]).unwrap();
        assert!(greedy(&at) < ten && ten < two && two < random(&at), "{ten} {two}");
        for cleaning in ["cost-benefit", "cat", "windowed"] {
            assert_eq!(page(&[("cleaning", cleaning)]), None, "{cleaning}");
        }
        for frontier in ["separate", "hot-cold"] {
            assert_eq!(page(&[("frontier", frontier)]), None, "{frontier}");
        }
        assert_eq!(page(&[("wear_leveling", "static")]), None);
        assert_eq!(page(&[("wear_leveling", "dynamic")]), page(&[]));
        // Blocks that are kept back are not spare.
        assert!(page(&[("low_water", "50")]) > page(&[("low_water", "2")]));
        assert_eq!(page(&[("reserve_blocks", "125")]), None);
        assert!(page(&[("reserve_blocks", "60")]) > page(&[]));
        assert_eq!(predicted("page", &[], 64_000), None, "no page is spare");
        for layer in ["bast", "dftl", "fast"] {
            assert_eq!(predicted(layer, &[], 56_000), None, "{layer}");
        }
    }
}
