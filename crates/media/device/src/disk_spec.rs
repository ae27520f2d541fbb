//! Shape and mechanics of a rotating disk, as a device file states them.
//!
//! Source: the form of the seek curve is that of Ruemmler and Wilkes, "An introduction to disk drive
//! modeling", IEEE Computer 27(3), 1994.

use crate::rules::first_broken;
use serde::{Deserialize, Serialize};

/// Shape and mechanics of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Speed of the platter, revolutions per minute.
    pub revolutions_per_minute: u32,
    /// Positions of the arm: cylinders of the disk.
    pub cylinders: u32,
    /// Heads, which is tracks of a cylinder.
    pub heads: u32,
    /// Sectors of a track.
    pub sectors_per_track: u32,
    /// Time to change to another head of the cylinder, nanoseconds.
    pub head_switch_ns: u64,
    /// Bytes that are read ahead of the host.
    pub read_ahead_bytes: u64,
    /// Time of a seek.
    pub seek: SeekSpec,
}

/// Time of a seek over `d` cylinders, d > 0: `settle_ns + root_ns · √d` up to the knee, and
/// `per_cylinder_ps` picoseconds more for each cylinder beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeekSpec {
    /// The part that does not depend on the distance, nanoseconds.
    pub settle_ns: u64,
    /// Factor of the root, nanoseconds.
    pub root_ns: u64,
    /// Distance at which the linear part begins, cylinders.
    pub knee_cylinders: u32,
    /// Slope beyond the knee, picoseconds per cylinder.
    pub per_cylinder_ps: u64,
}

impl SeekSpec {
    /// Time of a seek over `cylinders`, nanoseconds.
    pub fn seek_ns(&self, cylinders: u32) -> u64 {
        if cylinders == 0 {
            return 0;
        }
        let short = cylinders.min(self.knee_cylinders);
        // The root stands for an arm that accelerates; beyond the knee it moves at full speed.
        let root_ns = self.root_ns as f64 * f64::from(short).sqrt();
        self.settle_ns + root_ns as u64 + u64::from(cylinders - short) * self.per_cylinder_ps / 1000
    }
}

impl DiskSpec {
    /// Says in one sentence what is wrong with these numbers, if anything.
    pub(crate) fn check(&self) -> Result<(), String> {
        let rules = [
            (
                (60..=100_000).contains(&self.revolutions_per_minute),
                "revolutions_per_minute must be 60 to 100000",
            ),
            ((2..=10_000_000).contains(&self.cylinders), "cylinders must be 2 to 10000000"),
            ((1..=64).contains(&self.heads), "heads must be 1 to 64"),
            (
                (8..=100_000).contains(&self.sectors_per_track),
                "sectors_per_track must be 8 to 100000",
            ),
            (
                self.head_switch_ns < self.revolution_ns(),
                "head_switch_ns must be less than a revolution",
            ),
            (
                self.seek.seek_ns(1) < self.revolution_ns(),
                "seek.settle_ns must leave the seek to the next cylinder shorter than a revolution",
            ),
            (
                self.seek.seek_ns(self.cylinders) < 1_000_000_000,
                "seek.root_ns must leave the longest seek below 1 s",
            ),
            (self.read_ahead_bytes <= 1 << 30, "read_ahead_bytes must be at most 2^30"),
        ];
        first_broken("disk", &rules)
    }

    /// Time of a revolution, nanoseconds.
    pub fn revolution_ns(&self) -> u64 {
        60_000_000_000 / u64::from(self.revolutions_per_minute.max(1))
    }

    /// Sectors of the disk.
    pub fn sectors(&self) -> u64 {
        self.tracks() * u64::from(self.sectors_per_track)
    }

    fn tracks(&self) -> u64 {
        u64::from(self.cylinders) * u64::from(self.heads)
    }

    /// Mean time of a seek between two independent uniform cylinders, nanoseconds.
    ///
    /// The sum over all distances, each with its number of pairs; a distance of zero counts.
    pub fn mean_seek_ns(&self) -> f64 {
        let cylinders = f64::from(self.cylinders);
        let sum: f64 = (1..self.cylinders)
            .map(|distance| {
                let pairs = 2.0 * f64::from(self.cylinders - distance);
                pairs * self.seek.seek_ns(distance) as f64
            })
            .sum();
        sum / (cylinders * cylinders)
    }
}
