//! The requests of a trace as commands of a device, to be sent more than once.

use crate::player::ReplayError;
use crate::source::{Request, Source};
use device::{Command, Operation as DeviceOperation};
use std::path::Path;
use trace::{AddressRule, Operation};

/// A command, and when it comes.
#[derive(Clone, Copy, Debug)]
pub struct TimedCommand {
    /// Since the beginning of the trace.
    pub arrival_ns: u64,
    /// What the device is told.
    pub command: Command,
}

/// All commands of a trace for a device of so many sectors, in the order of the trace.
///
/// # Errors
/// [`ReplayError`]: a trace that cannot be read, addresses past the end.
pub fn commands_of(
    path: &Path,
    reading: &trace::Options,
    sectors: u64,
    address: AddressRule,
) -> Result<Vec<TimedCommand>, ReplayError> {
    let mut source = Source::new(trace::open(path, reading)?, sectors, address);
    let mut commands = Vec::new();
    while let Some(request) = source.next()? {
        let Request { arrival_ns, operation, is_fua, sector, sectors, .. } = request;
        let operation = match operation {
            Operation::Read => DeviceOperation::Read,
            Operation::Write | Operation::WriteZeroes => DeviceOperation::Write,
            Operation::Trim => DeviceOperation::Discard,
            Operation::Flush => DeviceOperation::Flush,
        };
        let command = match operation {
            // Its fields may hold anything in a trace, and a flush concerns the whole device.
            DeviceOperation::Flush => Command::flush(),
            DeviceOperation::Write => {
                Command { fua: is_fua, ..Command::new(operation, sector, sectors) }
            }
            _ => Command::new(operation, sector, sectors),
        };
        commands.push(TimedCommand { arrival_ns, command });
    }
    Ok(commands)
}
