//! The flash under a file system, be it the chip of the machine or that of a block device, and what
//! was done to it.

use super::contract::RawNandRun;
use crate::metric::Metric;
use crate::time_parts::time_parts;
use device::{DeviceFlash, DeviceStatistics};
use mount::{Machine, SharedMount};
use nand::Counters;

/// Flash between two moments.
pub(super) struct FlashUse {
    /// Operations of the chip between the two.
    pub(super) counters: Counters,
    /// Sizes, erases of each block and memory of a controller; none of a device without flash.
    pub(super) state: Option<DeviceFlash>,
    /// What a block device did from its beginning to each of the moments; none on the machine's chip.
    device: Option<[DeviceStatistics; 2]>,
}

/// The flash and its counters at a moment.
pub(super) struct FlashMoment {
    counters: Counters,
    state: Option<DeviceFlash>,
    device: Option<DeviceStatistics>,
}

impl FlashMoment {
    /// The moment that is now.
    pub(super) fn now(machine: &Machine, plan: &RawNandRun, file_system: &SharedMount) -> Self {
        let queue = file_system.block_path().map(mount::BlockPath::queue);
        // A device with statistics has chips of its own; mtdblock has none and stands on the
        // machine's chip.
        if let Some((queue, device)) = queue.and_then(|queue| Some((queue, queue.statistics()?))) {
            let (counters, state) = (device.chip, queue.flash());
            return Self { counters, state, device: Some(device) };
        }
        let geometry = machine.mtd.geometry();
        let page_bytes = u64::from(geometry.page_data_bytes);
        let (counters, erase_counts) =
            machine.mtd.with_chip(|chip| (chip.counters(), chip.erase_counts().to_vec()));
        let state = DeviceFlash {
            slc_erase_counts: Vec::new(),
            page_bytes,
            block_bytes: page_bytes * u64::from(geometry.pages_per_block),
            erase_cycles_max: plan.host.part.errors.erase_cycles_max,
            erase_counts,
            // There is no controller, and the file system alone knows which blocks are free.
            free_blocks: 0,
            ram_bytes: 0,
        };
        Self { counters, state: Some(state), device: None }
    }

    /// What was done from this moment to a later one.
    pub(super) fn until(self, later: Self) -> FlashUse {
        let state = later.state.zip(self.state).map(|(now, before)| {
            let counts = now.erase_counts.iter().zip(&before.erase_counts);
            let erase_counts = counts.map(|(now, before)| now - before).collect();
            DeviceFlash { erase_counts, ..now }
        });
        let device = self.device.zip(later.device).map(<[DeviceStatistics; 2]>::from);
        FlashUse { counters: later.counters - self.counters, state, device }
    }
}

impl FlashUse {
    /// True of a block device with flash of its own, and of a disk.
    pub(super) fn is_of_device(&self) -> bool {
        self.device.is_some()
    }

    /// Splits `elapsed_ns` into times of the dies, the interface and the software.
    ///
    /// A block device works while the processor does something else: what is left for the software is
    /// the time in which the device did not move data and no die worked, as if nothing overlapped.
    pub(super) fn times(&self, plan: &RawNandRun, elapsed_ns: u64) -> Vec<Metric> {
        let Some([before, now]) = &self.device else {
            return time_parts(&plan.host, self.counters, elapsed_ns);
        };
        let since = |of: fn(&DeviceStatistics) -> u64| of(now) - of(before);
        let cleaning_ns = since(|one| one.foreground_cleaning_ns + one.background_cleaning_ns);
        // Cleaning has a row of its own.
        let die_ns = since(|one| one.die_busy_ns).saturating_sub(cleaning_ns);
        let interface_ns = since(|one| one.host_busy_ns);
        let named = die_ns + cleaning_ns + interface_ns;
        let Counters { page_reads, page_programs, erases, .. } = self.counters;
        vec![
            Metric::count("page_reads", page_reads, "operations"),
            Metric::count("page_programs", page_programs, "operations"),
            Metric::count("erases", erases, "operations"),
            Metric::count("device_die_ns", die_ns, "ns"),
            Metric::count("device_cleaning_ns", cleaning_ns, "ns"),
            Metric::count("device_interface_ns", interface_ns, "ns"),
            Metric::count("software_ns", elapsed_ns.saturating_sub(named), "ns"),
            Metric::count("cleaned_blocks", since(|one| one.cleaned_blocks), "blocks"),
        ]
    }
}
