//! The host interface of a device, as TOML: speed, overhead, and the queues between host and drive.

use crate::host_queues::{Arbitration, Coalescing, HostQueues, Weights};
use crate::rules::first_broken;
use serde::{Deserialize, Serialize};

/// Most submission queues of a drive: one for each processor of a large host.
const SUBMISSION_QUEUES_MAX: u32 = 1_024;

/// Arbitration Burst that says "no limit" (NVMe, feature 01h, bits 2:0).
const BURST_WITHOUT_LIMIT: u32 = 7;

/// Most entries of a packed command: its header is a block of 512 bytes, eight a write and eight of its own (JESD84-B45).
const PACKED_MAX: u32 = 63;

/// Unit of the aggregation time of interrupts (NVMe, feature 08h, bits 15:8).
const COALESCING_UNIT_US: u32 = 100;

/// The host interface: a half duplex bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Bytes per second over the bus.
    pub bytes_per_second: u64,
    /// Time from the begin of a command until its data can move, nanoseconds.
    pub command_overhead_ns: u64,
    /// The same time of a write, where it differs: a write into the cache asks the map for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_overhead_ns: Option<u64>,
    /// Commands the host may have outstanding, in each submission queue.
    pub queue_depth: u32,
    /// Commands that are executed at once. With one, they are executed strictly in order.
    pub executes: u32,
    /// Array reads of queued commands begin before their turn, as a card with a command queue prefetches into its
    /// buffer. Overhead and transfers keep the order.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prefetches: bool,
    /// Writes that the driver packs into one command, at most: `MAX_PACKED_WRITES` of eMMC 4.5 (`EXT_CSD` byte 500). 0 or
    /// left out: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packed_writes: Option<u32>,
    /// Processors of the controller: so many commands have their overhead at once. Left out, each command has its
    /// own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<u32>,
    /// Submission queues that the host may fill, each with a completion queue and an interrupt of its own; 1 if left
    /// out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submission_queues: Option<u32>,
    /// How the drive chooses the queue from which it fetches; round robin if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arbitration: Option<ArbitrationSpec>,
    /// Most commands that the drive fetches from a queue in its turn, as a power of two: 2^n; 7 for no limit, and 0 if
    /// left out. Arbitration Burst of NVMe's feature 01h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arbitration_burst: Option<u32>,
    /// Queues of the class urgent: the first ones. Weighted arbitration only, as are the next five.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues_urgent: Option<u32>,
    /// Queues of the class high: those after the urgent ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues_high: Option<u32>,
    /// Queues of the class low: the last ones. Those between are of the class medium, as Linux makes all of its own
    /// where it says so (`NVME_SQ_PRIO_MEDIUM` of `drivers/nvme/host/pci.c`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues_low: Option<u32>,
    /// Commands of the class high in a round, 1 if left out. NVMe's HPW is one less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_high: Option<u32>,
    /// Commands of the class medium in a round, 1 if left out. NVMe's MPW is one less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_medium: Option<u32>,
    /// Commands of the class low in a round, 1 if left out. NVMe's LPW is one less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight_low: Option<u32>,
    /// Completions of a queue that make an interrupt, less one; 0 or left out for an interrupt each. THR of NVMe's
    /// feature 08h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_coalescing_threshold: Option<u32>,
    /// Time after which a completion makes an interrupt alone, microseconds in steps of 100; 0 or left out for at
    /// once. TIME of NVMe's feature 08h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_coalescing_time_us: Option<u32>,
}

/// How a drive chooses the queue from which it fetches (CC.AMS of NVMe).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArbitrationSpec {
    /// All queues in turn.
    RoundRobin,
    /// Urgent queues first of all, the others by the weights of their classes.
    WeightedRoundRobin,
}

impl HostSpec {
    /// Checks each value by itself.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub(crate) fn check_values(&self) -> Result<(), String> {
        let within = |value: Option<u32>, least: u32, most: u32| {
            value.is_none_or(|value| (least..=most).contains(&value))
        };
        let queues = |count| within(count, 0, SUBMISSION_QUEUES_MAX);
        let rules = [
            (
                (1_000..=1_000_000_000_000).contains(&self.bytes_per_second),
                "bytes_per_second must be 1000 to 10^12",
            ),
            (
                self.command_overhead_ns <= 1_000_000_000,
                "command_overhead_ns must be at most 1000000000 (1 s)",
            ),
            (
                self.write_overhead_ns.is_none_or(|overhead_ns| overhead_ns <= 1_000_000_000),
                "write_overhead_ns must be at most 1000000000 (1 s)",
            ),
            ((1..=65_536).contains(&self.queue_depth), "queue_depth must be 1 to 65536"),
            ((1..=1_024).contains(&self.executes), "executes must be 1 to 1024"),
            (
                within(self.packed_writes, 0, PACKED_MAX),
                "packed_writes must be 0 to 63: entries of the header",
            ),
            (within(self.processors, 1, 1_024), "processors must be 1 to 1024"),
            (
                within(self.submission_queues, 1, SUBMISSION_QUEUES_MAX),
                "submission_queues must be 1 to 1024",
            ),
            (
                within(self.arbitration_burst, 0, BURST_WITHOUT_LIMIT),
                "arbitration_burst must be 0 to 7: 2^n commands, 7 for no limit",
            ),
            (queues(self.queues_urgent), "queues_urgent must be 0 to 1024"),
            (queues(self.queues_high), "queues_high must be 0 to 1024"),
            (queues(self.queues_low), "queues_low must be 0 to 1024"),
            (within(self.weight_high, 1, 256), "weight_high must be 1 to 256 commands a round"),
            (within(self.weight_medium, 1, 256), "weight_medium must be 1 to 256 commands a round"),
            (within(self.weight_low, 1, 256), "weight_low must be 1 to 256 commands a round"),
            (
                within(self.interrupt_coalescing_threshold, 0, 255),
                "interrupt_coalescing_threshold must be 0 to 255: completions less one",
            ),
            (
                within(self.interrupt_coalescing_time_us, 0, 255 * COALESCING_UNIT_US)
                    && self
                        .interrupt_coalescing_time_us
                        .is_none_or(|time_us| time_us.is_multiple_of(COALESCING_UNIT_US)),
                "interrupt_coalescing_time_us must be 0 to 25500 in steps of 100",
            ),
        ];
        first_broken("host", &rules)
    }

    /// Checks what keys of several queues ask of one another, and of the device.
    ///
    /// # Errors
    /// A sentence that begins with the key that does not fit.
    pub(crate) fn check_queues(&self, is_disk: bool) -> Result<(), String> {
        let queues = self.submission_queues.unwrap_or(1);
        let is_weighted = self.arbitration == Some(ArbitrationSpec::WeightedRoundRobin);
        let classed = [
            (self.queues_urgent, "queues_urgent"),
            (self.queues_high, "queues_high"),
            (self.queues_low, "queues_low"),
            (self.weight_high, "weight_high"),
            (self.weight_medium, "weight_medium"),
            (self.weight_low, "weight_low"),
        ];
        let given = classed.into_iter().find(|(value, _)| value.is_some() && !is_weighted);
        if let Some((_, key)) = given {
            return Err(format!(
                "host.{key} needs host.arbitration = \"weighted_round_robin\": round robin has no classes"
            ));
        }
        let in_classes: u32 = classed[..3].iter().map(|(count, _)| count.unwrap_or(0)).sum();
        let coalesces = [self.interrupt_coalescing_threshold, self.interrupt_coalescing_time_us];
        let packed = self.packed_writes.unwrap_or(0);
        let rules = [
            (packed == 0 || !is_disk, "packed_writes says nothing of a disk: leave it out"),
            (
                packed == 0 || queues == 1,
                "packed_writes needs one queue: only the driver of cards packs",
            ),
            (
                queues == 1 || !is_disk,
                "submission_queues must be 1 for a disk: it has one arm and one queue",
            ),
            (
                queues == 1 || !self.prefetches,
                "submission_queues must be 1 with host.prefetches: a card has one command queue",
            ),
            (
                in_classes <= queues,
                "submission_queues must be at least queues_urgent + queues_high + queues_low",
            ),
            (
                coalesces[0].is_none() || coalesces[1].is_some(),
                "interrupt_coalescing_threshold needs host.interrupt_coalescing_time_us: a drive coalesces with both",
            ),
            (
                coalesces[1].is_none() || coalesces[0].is_some(),
                "interrupt_coalescing_time_us needs host.interrupt_coalescing_threshold: a drive coalesces with both",
            ),
            (
                coalesces.iter().all(Option::is_none) || !is_disk,
                "interrupt_coalescing_threshold says nothing of a disk: leave it out",
            ),
            (
                coalesces.iter().all(Option::is_none) || !self.prefetches,
                "interrupt_coalescing_threshold says nothing of a card with host.prefetches: leave it out",
            ),
        ];
        first_broken("host", &rules)
    }

    /// The queues, where they are more than one that is told of each completion at once.
    pub(crate) fn queues(&self) -> Option<HostQueues> {
        let count = self.submission_queues.unwrap_or(1);
        let entries = self.interrupt_coalescing_threshold.unwrap_or(0) + 1;
        let time_us = self.interrupt_coalescing_time_us.unwrap_or(0);
        // Either of the two at zero is off (feature 08h).
        let coalescing = (entries > 1 && time_us > 0)
            .then(|| Coalescing { entries, time_ns: u64::from(time_us) * 1_000 });
        if count == 1 && coalescing.is_none() {
            return None;
        }
        let burst = match self.arbitration_burst.unwrap_or(0) {
            BURST_WITHOUT_LIMIT => None,
            power => Some(1 << power),
        };
        let arbitration = match self.arbitration {
            None | Some(ArbitrationSpec::RoundRobin) => Arbitration::RoundRobin,
            Some(ArbitrationSpec::WeightedRoundRobin) => Arbitration::Weighted(Weights {
                queues_urgent: self.queues_urgent.unwrap_or(0),
                queues_high: self.queues_high.unwrap_or(0),
                queues_low: self.queues_low.unwrap_or(0),
                high: self.weight_high.unwrap_or(1),
                medium: self.weight_medium.unwrap_or(1),
                low: self.weight_low.unwrap_or(1),
            }),
        };
        let executes = self.executes;
        Some(HostQueues { count, executes, burst, arbitration, coalescing })
    }
}
