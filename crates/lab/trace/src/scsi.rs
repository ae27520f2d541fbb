//! Commands of SCSI in traces that record them.
//!
//! Source: SBC-4 and SPC-4, operation codes.

use crate::record::Operation;

/// What a command does; none of one that moves no blocks.
pub(crate) fn operation_of(command: u16) -> Option<Operation> {
    match command {
        // READ (6), (10), (12), (16).
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Operation::Read),
        // WRITE (6), (10), (12), (16).
        0x0a | 0x2a | 0xaa | 0x8a => Some(Operation::Write),
        // SYNCHRONIZE CACHE (10), (16).
        0x35 | 0x91 => Some(Operation::Flush),
        // UNMAP.
        0x42 => Some(Operation::Trim),
        // WRITE SAME (10), (16).
        0x41 | 0x93 => Some(Operation::WriteZeroes),
        _ => None,
    }
}
