//! From the process that submits a request to the hardware queue that carries it.

/// Which core a process runs on, and which hardware queue serves a core.
///
/// A process stays on the core of its number modulo the cores; a kernel would move it. Core and hardware queue go round
/// in the same way, so with as many of both each core has its own. That is the map of `blk_mq_map_queues`
/// (`block/blk-mq-cpumap.c`, Linux 6.1) where no two cores are siblings. Kernels that know the affinity of interrupts give
/// neighbouring cores one queue (`nvme_pci_map_queues` of `drivers/nvme/host/pci.c`), which differs in which cores share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueMap {
    cores: u32,
    hardware_queues: u32,
}

impl QueueMap {
    /// One core and one hardware queue: what schedulers of a single queue see.
    pub const ONE: Self = Self { cores: 1, hardware_queues: 1 };

    /// At most as many hardware queues as cores: no core would use the others. At least one of each.
    pub fn new(cores: u32, hardware_queues: u32) -> Self {
        let cores = cores.max(1);
        Self { cores, hardware_queues: hardware_queues.clamp(1, cores) }
    }

    /// The core of a process, which is also the number of its software queue.
    #[inline]
    pub fn core(self, pid: u32) -> usize {
        // A division takes as long as the rest of a call, and most queues are one.
        if self.cores == 1 { 0 } else { (pid % self.cores) as usize }
    }

    /// The hardware queue of a process.
    #[inline]
    pub fn hardware_queue(self, pid: u32) -> usize {
        if self.hardware_queues == 1 { 0 } else { self.core(pid) % self.hardware_queues() }
    }

    /// Number of hardware queues.
    #[inline]
    pub fn hardware_queues(self) -> usize {
        self.hardware_queues as usize
    }

    /// The cores that a hardware queue serves, of so many software queues.
    pub(crate) fn cores_of(
        self,
        hardware_queue: usize,
        software_queues: usize,
    ) -> impl Iterator<Item = usize> {
        (hardware_queue..software_queues).step_by(self.hardware_queues())
    }
}

#[cfg(test)]
mod tests {
    use super::QueueMap;

    #[test]
    fn processes_go_round_the_cores_and_cores_round_the_queues() {
        let queues = |cores, count| {
            let map = QueueMap::new(cores, count);
            (0..6).map(|pid| map.hardware_queue(pid)).collect::<Vec<_>>()
        };
        assert_eq!(queues(4, 4), [0, 1, 2, 3, 0, 1]);
        assert_eq!(queues(4, 3), [0, 1, 2, 0, 0, 1]);
        assert_eq!(queues(2, 8), [0, 1, 0, 1, 0, 1]);
        assert_eq!(queues(0, 8), [0; 6]);
        let map = QueueMap::new(5, 2);
        assert_eq!(map.cores_of(0, 5).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(map.cores_of(1, 5).collect::<Vec<_>>(), [1, 3]);
        assert!((0..20).all(|pid| {
            map.cores_of(map.hardware_queue(pid), 5).any(|core| core == map.core(pid))
        }));
    }
}
