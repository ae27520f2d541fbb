//! A device with a fixed service time, for checks against closed forms (M/D/1) and for looking at
//! schedulers without a device's own effects.

use crate::{BlockDevice, Command, Completion, DeviceActivity, DeviceError, DeviceStatistics};

/// A server that takes the same time for every command, one after the other in order.
#[derive(Clone, Debug)]
pub struct ConstantDevice {
    sectors: u64,
    service_ns: u64,
    queue_depth: u32,
    is_rotational: bool,
    busy_until_ns: u64,
    last_ns: u64,
    statistics: DeviceStatistics,
}

impl ConstantDevice {
    /// A device of `sectors` sectors that serves each command in `service_ns` nanoseconds.
    ///
    /// The host may have `queue_depth` commands outstanding; they are still served one by one.
    pub fn new(sectors: u64, service_ns: u64, queue_depth: u32) -> Self {
        Self {
            sectors,
            service_ns,
            queue_depth: queue_depth.max(1),
            is_rotational: false,
            busy_until_ns: 0,
            last_ns: 0,
            statistics: DeviceStatistics::default(),
        }
    }

    /// The same device as one that says of itself that distance costs time, or that it does not.
    #[must_use]
    pub fn with_rotational(mut self, is_rotational: bool) -> Self {
        self.is_rotational = is_rotational;
        self
    }
}

impl BlockDevice for ConstantDevice {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn queue_depth(&self) -> u32 {
        self.queue_depth
    }

    fn is_rotational(&self) -> bool {
        self.is_rotational
    }

    fn submit(&mut self, now_ns: u64, command: &Command) -> Result<Completion, DeviceError> {
        if now_ns < self.last_ns {
            return Err(DeviceError::TimeWentBackwards { now_ns, last_ns: self.last_ns });
        }
        self.last_ns = now_ns;
        self.statistics.submitted += 1;
        command.check(self.sectors)?;
        // In the order of submission, whatever the host has outstanding: the server of M/D/1.
        let start_ns = now_ns.max(self.busy_until_ns);
        self.busy_until_ns = start_ns + self.service_ns;
        self.statistics.host_busy_ns += self.service_ns;
        self.statistics.count(command);
        Ok(Completion { start_ns, done_ns: self.busy_until_ns, ..Completion::default() })
    }

    fn clone_box(&self) -> Box<dyn BlockDevice> {
        Box::new(self.clone())
    }

    fn statistics(&self) -> DeviceStatistics {
        self.statistics
    }

    /// There is no die to record.
    fn record_activity(&mut self, _on: bool) {}

    fn take_activity(&mut self) -> DeviceActivity {
        DeviceActivity::default()
    }
}
