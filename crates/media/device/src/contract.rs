//! The contract of a block device: commands in, the time of their end out.

use crate::activity::DeviceActivity;
use crate::command::{Command, Completion, DeviceError, DeviceFlash, DeviceStatistics};
use crate::host_queues::HostQueues;
use crate::precondition::{Precondition, Steadiness};
use crate::stored::StoredDevice;

/// A device that takes commands in units of 512-byte sectors.
pub trait BlockDevice: Send {
    /// Sectors that the device offers.
    fn sectors(&self) -> u64;

    /// Commands that the host may have outstanding.
    ///
    /// An eMMC 4.5 card says 2: one that executes, and one that the driver has prepared.
    fn queue_depth(&self) -> u32;

    /// The submission queues between host and device, where there are several, or where completions are told together;
    /// the depth is then that of each queue. None of a device that takes commands in the order in which they come.
    fn host_queues(&self) -> Option<HostQueues> {
        None
    }

    /// True if the distance between two commands costs time, which schedulers ask for.
    fn is_rotational(&self) -> bool;

    /// Takes a command at `now_ns` and says when it will be done.
    ///
    /// `now_ns` must not go backwards. The host keeps to [`BlockDevice::queue_depth`]; a device
    /// that is given more commands takes them one behind the other.
    ///
    /// # Errors
    /// [`DeviceError`]; the command then took no time.
    fn submit(&mut self, now_ns: u64, command: &Command) -> Result<Completion, DeviceError>;

    /// Writes that one packed command may hold; 1 of a device that knows none.
    fn packed_writes(&self) -> u32 {
        1
    }

    /// Takes several writes as one packed command, whose end is that of all.
    ///
    /// # Errors
    /// As [`BlockDevice::submit`]. At the end of life of a layer the first of them may have been carried out.
    fn submit_packed(
        &mut self,
        now_ns: u64,
        commands: &[Command],
    ) -> Result<Completion, DeviceError> {
        // Only devices that say so are asked for more than one.
        debug_assert_eq!(commands.len(), 1, "this device packs nothing");
        self.submit(now_ns, &commands[0])
    }

    /// Fills the device before a run, and says how it became steady if that was asked for. Time does not
    /// pass, and statistics begin again at zero.
    ///
    /// Devices whose speed does not depend on what they hold do nothing, and have no such state.
    ///
    /// # Errors
    /// [`DeviceError::Ftl`] at the end of life.
    fn precondition(&mut self, how: &Precondition) -> Result<Option<Steadiness>, DeviceError> {
        let _ = how;
        Ok(None)
    }

    /// A copy with the whole state, the time and the statistics.
    fn clone_box(&self) -> Box<dyn BlockDevice>;

    /// What the device has done so far.
    fn statistics(&self) -> DeviceStatistics;

    /// The flash behind the interface; none of a device without any.
    fn flash(&self) -> Option<DeviceFlash> {
        None
    }

    /// The device as one that stores bytes and can lose its power; none of a device that only counts.
    fn stored(&mut self) -> Option<&mut dyn StoredDevice> {
        None
    }

    /// Records what dies, channels and write cache do from now on, or stops. Off, it costs nothing; on, it takes
    /// memory.
    fn record_activity(&mut self, on: bool);

    /// What was recorded since the last call, in order of recording.
    fn take_activity(&mut self) -> DeviceActivity;
}

impl Clone for Box<dyn BlockDevice> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}
