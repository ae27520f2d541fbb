//! How fast blocks wear in a gap: what the turn of blocks hides, and what chance makes of it.

use random::Stream;

/// What moves wear from block to block beside the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Levelling {
    /// Nothing: what lies still keeps its block.
    #[default]
    None,
    /// Data moves as soon as erase counts differ by so much.
    Threshold(u32),
    /// One of so many erases frees a block whose data lay still, whatever its wear.
    ByChance(u32),
}

/// Rates of blocks, in 1/1024 of an erase a window, from their erases in so many windows.
///
/// Where blocks are taken in turn, counts differ by one by the place at which the turn stands. So the blocks
/// with the most erases and those with one less wear alike.
pub(super) fn in_turn(erases: &[u64], windows: u64) -> Vec<u64> {
    let most = erases.iter().copied().max().unwrap_or(0);
    let is_most = |one: u64| one > 0 && one + 1 >= most;
    let (sum, count) = erases
        .iter()
        .filter(|one| is_most(**one))
        .fold((0, 0), |(sum, count), one| (sum + one, count + 1));
    let of = |one: &u64| {
        if is_most(*one) {
            (sum << 10) / (count * windows).max(1)
        } else {
            (one << 10) / windows.max(1)
        }
    };
    erases.iter().map(of).collect()
}

/// Erases of each block in a gap of so many windows, where one of `one_of` erases exchanges what lies still.
///
/// A block then wears fast for a while and not at all for another. Such a state forgets itself at a rate of
/// 4 exchanges for each block, where half of the blocks hold what lies still; with other shares it is faster.
/// The mean of a rate over `x` times of forgetting keeps (1 - e^-x) / x of its first deviation, and its
/// variance is 2 (x - 1 + e^-x) / x² of that of the rates (an Ornstein-Uhlenbeck process). What is not kept
/// is dealt out by chance.
pub(super) fn mixed(
    rates: &[u64],
    others: &[u64],
    wears: &[bool],
    one_of: u32,
    windows: u64,
) -> Vec<u32> {
    let blocks = wears.iter().filter(|wears| **wears).count().max(1) as f64;
    let mean = rates.iter().sum::<u64>() as f64 / 1024.0 / blocks;
    let times = (4.0 * mean * windows as f64 / f64::from(one_of)).max(1e-6);
    let left = libm::exp(-times);
    let kept = (1.0 - left) / times;
    let variance = 2.0 * (times - 1.0 + left) / (times * times);
    let by_chance = (variance - kept * kept).max(0.0).sqrt();
    let erases = rates.iter().zip(others).zip(wears).map(|((own, other), wears)| {
        if !wears {
            return 0;
        }
        let apart = |rate: u64| rate as f64 / 1024.0 - mean;
        let rate = mean + kept * apart(*own) + by_chance * apart(*other);
        (rate.max(0.0) * windows as f64) as u32
    });
    erases.collect()
}

/// The rates of the blocks that wear, dealt out anew among them.
pub(super) fn dealt_out(rates: &[u64], wears: &[bool], draw: &mut Stream) -> Vec<u64> {
    let mut others = rates.to_vec();
    let places: Vec<usize> = (0..rates.len()).filter(|at| wears[*at]).collect();
    for at in (1..places.len()).rev() {
        let with = draw.below(at as u32 + 1) as usize;
        others.swap(places[at], places[with]);
    }
    others
}

#[cfg(test)]
mod tests {
    use super::{dealt_out, in_turn, mixed};
    use random::Stream;

    #[test]
    fn blocks_in_turn_wear_alike_and_others_as_they_did() {
        // Five turns, one block further than the others; a block that is slow, one that lies still.
        assert_eq!(in_turn(&[5, 4, 4, 1, 0], 1), [4437, 4437, 4437, 1024, 0]);
        // Nothing was erased: nothing wears.
        assert_eq!(in_turn(&[0, 0], 2), [0, 0]);
    }

    #[test]
    fn chance_makes_wear_even_in_a_long_gap_and_leaves_it_in_a_short_one() {
        let rates: Vec<u64> = (0..100).map(|block| if block < 50 { 2 << 10 } else { 0 }).collect();
        let wears = vec![true; 100];
        let others = dealt_out(&rates, &wears, &mut Stream::new(1, "test"));
        assert_eq!(others.iter().sum::<u64>(), rates.iter().sum::<u64>(), "none is lost");
        let of = |windows| mixed(&rates, &others, &wears, 64, windows);
        // Four erases a block against 64 for an exchange of one block in a hundred.
        let short = of(2);
        assert!(short[..50].iter().all(|erases| *erases > 2), "{short:?}");
        let long = of(100_000);
        let (least, most) = (long.iter().min().unwrap_or(&0), long.iter().max().unwrap_or(&0));
        assert!(*least > 90_000 && *most < 110_000, "{least} to {most}");
    }
}
