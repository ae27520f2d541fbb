//! What crosses the way to a block device.

use crate::metric::Metric;
use block::{BioTimes, Observer};
use mount::BlockPath;
use nand::Counters;
use sched::Direction;
use std::cell::RefCell;
use std::ops::Sub;
use std::rc::Rc;

/// Bytes of a sector.
const SECTOR_BYTES: u64 = units::SECTOR_BYTES_U64;

/// Requests and sectors, after merging.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    read_requests: u64,
    read_sectors: u64,
    write_requests: u64,
    written_sectors: u64,
    flushes: u64,
    /// Operations of the chips of a device with a translation layer of its own.
    device: Option<Counters>,
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        debug_assert!(before.read_requests <= self.read_requests, "requests are counted upwards");
        debug_assert!(before.write_requests <= self.write_requests, "requests are counted upwards");
        Self {
            read_requests: self.read_requests - before.read_requests,
            read_sectors: self.read_sectors - before.read_sectors,
            write_requests: self.write_requests - before.write_requests,
            written_sectors: self.written_sectors - before.written_sectors,
            flushes: self.flushes - before.flushes,
            device: self.device.zip(before.device).map(|(now, before)| now - before),
        }
    }
}

impl Counts {
    /// Metrics of a phase in which files got so many bytes. All other sectors that were written are
    /// metadata, and what fills the last cluster of a file.
    pub(super) fn metrics(&self, copied_bytes: u64) -> Vec<Metric> {
        let written_bytes = self.written_sectors * SECTOR_BYTES;
        // A phase without writes has no share; a divisor of 1 makes it 1, not a NaN.
        let share = 1.0 - copied_bytes as f64 / written_bytes.max(1) as f64;
        let mut metrics = vec![
            Metric::count("read_requests", self.read_requests, "requests"),
            Metric::count("read_sectors", self.read_sectors, "sectors"),
            Metric::count("write_requests", self.write_requests, "requests"),
            Metric::count("written_sectors", self.written_sectors, "sectors"),
            Metric::count("flushes", self.flushes, "requests"),
            Metric::number("metadata_share", share, "ratio"),
        ];
        if let Some(device) = self.device {
            metrics.extend([
                Metric::count("device_page_reads", device.page_reads, "operations"),
                Metric::count("device_page_programs", device.page_programs, "operations"),
                Metric::count("device_erases", device.erases, "operations"),
            ]);
        }
        metrics
    }
}

impl Observer for Counts {
    fn completed(&mut self, times: &BioTimes) {
        // A bio that was merged brings sectors and no request.
        let requests = u64::from(!times.is_merged);
        let sectors = u64::from(times.bio.sectors);
        match times.bio.direction {
            // A flush has no sectors.
            _ if sectors == 0 => self.flushes += 1,
            Direction::Read => {
                self.read_requests += requests;
                self.read_sectors += sectors;
            }
            Direction::Write => {
                self.write_requests += requests;
                self.written_sectors += sectors;
            }
        }
    }
}

/// Watches the way to a block device from now on.
pub(super) struct Traffic {
    path: BlockPath,
    counts: Rc<RefCell<Counts>>,
}

impl Traffic {
    pub(super) fn watch(path: &BlockPath) -> Self {
        let counts: Rc<RefCell<Counts>> = Rc::default();
        path.queue().observe(counts.clone());
        Self { path: path.clone(), counts }
    }

    /// What crossed it since the watch began; the device counts from its own beginning.
    pub(super) fn read(&self) -> Counts {
        let device = self.path.queue().statistics().map(|statistics| statistics.chip);
        Counts { device, ..*self.counts.borrow() }
    }
}
