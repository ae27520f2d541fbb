//! Which places a process touches, one after the other.

use crate::distribution::{Distribution, Spread};
use crate::random_map::RandomMap;
use crate::{Order, Sizes};
use random::Stream;
use serde::{Deserialize, Serialize};

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

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// First byte.
    pub offset_bytes: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// Parts of a region that are worked on one after the other (`zonemode=strided` of fio).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// Bytes that are moved in a part before the next one begins (`zonesize`).
    pub moved_bytes: u64,
    /// Bytes of a part (`zonerange`).
    pub part_bytes: u64,
    /// Bytes between two parts (`zoneskip`).
    pub skip_bytes: u64,
}

/// Requests of one direction: reads, or writes.
#[derive(Clone, Debug)]
struct Way {
    sizes: Sizes,
    /// Random places are multiples of it (`blockalign`).
    grid_bytes: u64,
    spread: Spread,
    /// Where the next request in order begins, from the begin of the region or of its present part.
    next_bytes: u64,
}

/// A source of addresses.
#[derive(Clone, Debug)]
pub struct Addresses {
    region: Region,
    /// Percent of the requests at random places.
    random_percent: u32,
    gap_bytes: i64,
    /// Reads, and writes. fio's jobs that do both have a place in order for each (`last_pos` of `struct fio_file`).
    ways: [Way; 2],
    /// Blocks of a random pass that had their request, in units of the smallest one.
    map: Option<(RandomMap, u64)>,
    strides: Option<Strides>,
    /// Where the present part begins, and what was moved in it.
    part_begin_bytes: u64,
    part_moved_bytes: u64,
    stream: Stream,
}

impl Addresses {
    /// Blocks of the region from its start, again and again.
    pub fn sequential(region: Region, block_bytes: u64, stream: Stream) -> Self {
        Self::new(region, &Order::sequential(block_bytes), stream)
    }

    /// Blocks of the region drawn at random.
    pub fn random(
        region: Region,
        block_bytes: u64,
        distribution: Distribution,
        stream: Stream,
    ) -> Self {
        Self::new(region, &Order::random(block_bytes, distribution), stream)
    }

    /// Places of the region in this order.
    ///
    /// The order must fit the region, which `Job::check` sees to.
    pub fn new(region: Region, order: &Order, stream: Stream) -> Self {
        let spread = |way: usize| {
            let blocks = blocks(&order.sizes[way], order.grid_bytes[way], region.bytes);
            Spread::new(order.distribution, blocks)
        };
        let reads = spread(0);
        // A second one costs as much again: a sum over a million terms for each process.
        let is_same =
            order.grid_bytes[0] == order.grid_bytes[1] && order.sizes[0] == order.sizes[1];
        let writes = if is_same { reads.clone() } else { spread(1) };
        let mut spreads = [reads, writes].into_iter();
        let ways = [0, 1].map(|way| Way {
            sizes: order.sizes[way].clone(),
            grid_bytes: order.grid_bytes[way],
            spread: spreads.next().expect("one for each direction"),
            next_bytes: 0,
        });
        let unit_bytes = order.grid_bytes[0];
        let bytes = order.strides.map_or(region.bytes, |strides| strides.part_bytes);
        Self {
            region,
            random_percent: order.random_percent,
            gap_bytes: order.gap_bytes,
            ways,
            map: order.has_map.then(|| (RandomMap::new((bytes / unit_bytes).max(1)), unit_bytes)),
            strides: order.strides,
            part_begin_bytes: 0,
            part_moved_bytes: 0,
            stream,
        }
    }

    /// Offset of the next block, for requests of one size and kind.
    pub fn next_offset(&mut self) -> u64 {
        self.next_place(true).offset_bytes
    }

    /// Where the next read or write goes.
    pub fn next_place(&mut self, is_read: bool) -> Place {
        let way = usize::from(!is_read);
        self.enter_part(way);
        let whole_bytes = self.whole_bytes(way);
        let is_random = match self.random_percent {
            // No draw where there is nothing to choose.
            0 => false,
            100 => true,
            percent => self.chance(percent),
        };
        let begin_bytes =
            if is_random { self.random_place(way, whole_bytes) } else { self.ways[way].next_bytes };
        let Way { sizes, next_bytes, .. } = &mut self.ways[way];
        let mut bytes = sizes.draw(&mut self.stream, whole_bytes - begin_bytes);
        if is_random && let Some((map, unit_bytes)) = &mut self.map {
            // `mark_random_map` of fio's io_u.c: up to a block that had its request.
            let blocks = map.take(begin_bytes / *unit_bytes, bytes.div_ceil(*unit_bytes));
            bytes = bytes.min(blocks * *unit_bytes);
        }
        let end_bytes = begin_bytes + bytes;
        debug_assert!(end_bytes <= whole_bytes, "a place of the region");
        *next_bytes = wrapped(end_bytes, self.gap_bytes, whole_bytes, sizes.min_bytes());
        self.part_moved_bytes += bytes;
        let offset_bytes = self.region.offset_bytes + self.part_begin_bytes + begin_bytes;
        Place { offset_bytes, bytes }
    }

    /// Begins anew: the next pass of a job (`loops` of fio).
    pub fn rewind(&mut self) {
        (self.part_begin_bytes, self.part_moved_bytes) = (0, 0);
        self.ways.iter_mut().for_each(|way| way.next_bytes = 0);
        if let Some((map, _)) = &mut self.map {
            map.clear();
        }
    }

    /// Bytes of the region, or of its present part, that whole requests fill.
    fn whole_bytes(&self, way: usize) -> u64 {
        let left_bytes = self.region.bytes - self.part_begin_bytes;
        let bytes = self.strides.map_or(left_bytes, |one| one.part_bytes.min(left_bytes));
        let Way { sizes, grid_bytes, .. } = &self.ways[way];
        if sizes.is_one() && *grid_bytes == sizes.min_bytes() {
            bytes / grid_bytes * grid_bytes
        } else {
            bytes
        }
    }

    /// Goes to the next part of the region if enough was moved in this one.
    ///
    /// Source: `setup_strided_zone_mode` of fio's `io_u.c`.
    fn enter_part(&mut self, way: usize) {
        let Some(Strides { moved_bytes, part_bytes, skip_bytes }) = self.strides else { return };
        if self.part_moved_bytes >= moved_bytes {
            self.part_moved_bytes = 0;
            self.part_begin_bytes += part_bytes + skip_bytes;
            // fio wraps at the end of the file; here a part also holds at least one request, and the map fits it.
            let smallest = self.ways.iter().map(|way| way.sizes.min_bytes()).max().unwrap_or(0);
            let least_bytes = if self.map.is_some() { part_bytes } else { smallest };
            if self.part_begin_bytes.saturating_add(least_bytes) > self.region.bytes {
                self.part_begin_bytes = 0;
            }
            self.ways[way].next_bytes = 0;
        }
        // More is moved than the part has bytes: it is gone over once more.
        if self.part_moved_bytes.is_multiple_of(part_bytes)
            && let Some((map, _)) = &mut self.map
        {
            map.clear();
        }
    }

    /// A place drawn at random, from the begin of the region or of its present part.
    fn random_place(&mut self, way: usize, whole_bytes: u64) -> u64 {
        let Way { sizes, grid_bytes, spread, .. } = &self.ways[way];
        let blocks = blocks(sizes, *grid_bytes, whole_bytes);
        let mut block = spread.draw(&mut self.stream, blocks);
        if let Some((map, _)) = &mut self.map {
            // The next pass of a job that goes on for its time (`get_next_rand_block`).
            if map.is_full() {
                map.clear();
            }
            // `__get_next_rand_offset` of fio's io_u.c: the next one behind it that had no request.
            block = map.next_free(block);
        }
        debug_assert!(block < blocks, "a block of the region");
        block * grid_bytes
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

    /// A number below a hundred.
    pub(crate) fn percent(&mut self) -> u32 {
        self.stream.below(100)
    }
}

/// Places of `bytes` at which a request of the smallest size may begin (`last_block` of fio's `io_u.c`).
fn blocks(sizes: &Sizes, grid_bytes: u64, bytes: u64) -> u64 {
    let past_grid_bytes = sizes.min_bytes().saturating_sub(grid_bytes);
    (bytes.saturating_sub(past_grid_bytes) / grid_bytes).max(1)
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

#[cfg(test)]
mod tests {
    use super::{Addresses, Distribution, Place, Region, Strides};
    use crate::{Order, Sizes};
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
    fn a_gap_leaves_blocks_out_and_a_negative_one_goes_backwards() {
        let region = Region { offset_bytes: 1000, bytes: 5 * 512 };
        let places = |gap| {
            let order = Order { gap_bytes: gap, ..Order::sequential(512) };
            let stream = Stream::new(1, "gaps");
            let mut addresses = Addresses::new(region, &order, stream);
            (0..7).map(|_| (addresses.next_offset() - 1000) / 512).collect::<Vec<_>>()
        };
        assert_eq!(places(0), [0, 1, 2, 3, 4, 0, 1]);
        assert_eq!(places(512), [0, 2, 4, 0, 2, 4, 0]);
        // Two blocks back from the end of each is one back from its begin. The order is that of fio 3.33.
        assert_eq!(places(-1024), [0, 3, 2, 1, 0, 3, 2]);
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

    #[test]
    fn a_random_pass_with_a_map_touches_each_byte_once() {
        let sizes = Sizes::split(&[(512, 40), (4096, 40), (8192, 20)]).expect("a hundred");
        let order = Order {
            sizes: [sizes.clone(), sizes],
            grid_bytes: [512; 2],
            has_map: true,
            ..Order::random(512, Distribution::Uniform)
        };
        let mut addresses = Addresses::new(REGION, &order, Stream::new(1, "map"));
        let mut touched = vec![0_u32; REGION.bytes as usize / 512];
        let mut sum = 0;
        while sum < REGION.bytes {
            let Place { offset_bytes, bytes } = addresses.next_place(sum % 1024 == 0);
            sum += bytes;
            let first = (offset_bytes - REGION.offset_bytes) as usize / 512;
            touched[first..][..bytes as usize / 512].iter_mut().for_each(|count| *count += 1);
        }
        assert_eq!(sum, REGION.bytes);
        assert!(touched.iter().all(|count| *count == 1));
        // The next pass begins by itself.
        assert!(addresses.next_place(true).bytes >= 512);
    }

    #[test]
    fn reads_and_writes_in_order_each_have_a_place_of_their_own() {
        let order = Order { sizes: [Sizes::One(512), Sizes::One(1024)], ..Order::sequential(512) };
        let region = Region { offset_bytes: 0, bytes: 4096 };
        let mut addresses = Addresses::new(region, &order, Stream::new(1, "ways"));
        let mut place = |is_read| addresses.next_place(is_read).offset_bytes;
        let found = [true, true, false, true, false].map(&mut place);
        assert_eq!(found, [0, 512, 0, 1024, 1024]);
    }

    #[test]
    fn strides_leave_parts_out_and_wrap() {
        let strides = Strides { moved_bytes: 1024, part_bytes: 1024, skip_bytes: 512 };
        let order = Order { strides: Some(strides), ..Order::sequential(512) };
        let region = Region { offset_bytes: 0, bytes: 7 * 512 };
        let mut addresses = Addresses::new(region, &order, Stream::new(1, "strides"));
        let found: Vec<u64> = (0..9).map(|_| addresses.next_offset() / 512).collect();
        // The third part holds one block, which is gone over twice before it is left.
        assert_eq!(found, [0, 1, 3, 4, 6, 6, 0, 1, 3]);
    }

    #[test]
    fn a_share_of_random_places_goes_on_in_order_between_them() {
        let order = Order { random_percent: 50, ..Order::random(4096, Distribution::Uniform) };
        let mut addresses = Addresses::new(REGION, &order, Stream::new(1, "share"));
        let places: Vec<u64> = (0..10_000).map(|_| addresses.next_offset()).collect();
        let in_order = places.windows(2).filter(|pair| pair[1] == pair[0] + 4096).count();
        assert!(in_order.abs_diff(5_000) < 200, "{in_order}");
    }
}
