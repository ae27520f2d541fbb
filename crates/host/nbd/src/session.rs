//! The transmission: what was negotiated, and which requests are carried out.

use crate::export::Export;
use crate::request::Request;
use crate::wire::{CHUNK_DATA_BYTES_MAX, Command, ErrorNumber, command_flag, transmission_flag};
use thiserror::Error;

/// What a client and the server agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Which of the exports.
    pub export: usize,
    /// Whether reads and errors are replied to with chunks.
    pub structured: bool,
    /// Number of the context `base:allocation`, if the client chose it.
    pub allocation_context: Option<u32>,
}

/// A request that may be carried out: it lies in the export, and its flags mean something.
///
/// `force_unit_access` asks that what the command writes is durable before its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Read.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// The reply has at most one chunk of content.
        dont_fragment: bool,
    },
    /// Write what follows.
    Write {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// See above.
        force_unit_access: bool,
    },
    /// Finish what is outstanding and close. There is no reply.
    Disconnect,
    /// Make durable every write that was replied to.
    Flush,
    /// Forget bytes.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// See above.
        force_unit_access: bool,
    },
    /// Get bytes ready.
    Cache {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
    },
    /// Write zeros.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// See above.
        force_unit_access: bool,
        /// The bytes stay allocated.
        no_hole: bool,
        /// Reply [`ErrorNumber::NotSupported`] at once, and change nothing, unless this is faster than a write.
        /// Without this flag that error is forbidden.
        only_if_fast: bool,
    },
    /// Say which bytes are holes and zeros.
    BlockStatus {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u32,
        /// The reply has one extent.
        only_one: bool,
        /// Number of the context to name in the reply.
        context: u32,
    },
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Refusal {
    /// What the reply says.
    pub error: ErrorNumber,
    /// Reason and suggestion, for the text of an error chunk.
    pub reason: &'static str,
}

const fn refusal(error: ErrorNumber, reason: &'static str) -> Refusal {
    Refusal { error, reason }
}

const UNKNOWN_COMMAND: Refusal =
    refusal(ErrorNumber::Invalid, "The command is unknown: use one that the export advertises.");
const READ_ONLY: Refusal =
    refusal(ErrorNumber::NotPermitted, "The export is read-only: send no command that writes.");
const NOT_ADVERTISED: Refusal = refusal(
    ErrorNumber::Invalid,
    "The export does not advertise this command: look at its transmission flags.",
);
const WRONG_FLAG: Refusal = refusal(
    ErrorNumber::Invalid,
    "The request has a flag that its command or this session does not have: clear it.",
);
const FLUSH_RANGE: Refusal =
    refusal(ErrorNumber::Invalid, "A flush has an offset or a length: set both to zero.");
const NO_CONTEXT: Refusal = refusal(
    ErrorNumber::Invalid,
    "No metadata context is chosen: negotiate base:allocation for this export first.",
);
const EMPTY: Refusal = refusal(ErrorNumber::Invalid, "The length is zero: ask for a byte or more.");
const EMPTY_WRITE: Refusal = refusal(ErrorNumber::NoSpace, EMPTY.reason);
const OUTSIDE: Refusal = refusal(
    ErrorNumber::Invalid,
    "The request passes the end of the export: keep offset and length within its size.",
);
const OUTSIDE_WRITE: Refusal = refusal(ErrorNumber::NoSpace, OUTSIDE.reason);
const UNALIGNED: Refusal = refusal(
    ErrorNumber::Invalid,
    "Offset and length are not multiples of the minimum block: ask for the block sizes.",
);
const TOO_LONG: Refusal = refusal(
    ErrorNumber::NoMemory,
    "The request is longer than the maximum payload: split it into shorter ones.",
);

impl Session {
    /// The flags that the client was sent for its export.
    pub fn transmission_flags(&self, export: &Export) -> u16 {
        export.transmission_flags(self.structured)
    }

    /// Whether so many bytes follow the request that the server closes instead of dropping them: more than the
    /// export's maximum payload and more than [`DROPPED_PAYLOAD_BYTES_MAX`](crate::DROPPED_PAYLOAD_BYTES_MAX).
    pub fn must_close(&self, request: &Request, export: &Export) -> bool {
        request.is_too_long(export)
    }

    /// What to do for a request.
    ///
    /// # Errors
    /// The error of the reply. A refused write is still followed by its [`Request::payload_bytes`], and is
    /// replied to after they came.
    pub fn check(&self, request: &Request, export: &Export) -> Result<Checked, ErrorNumber> {
        self.check_with_reason(request, export).map_err(|refusal| refusal.error)
    }

    /// [`Session::check`], with a reason in words.
    ///
    /// # Errors
    /// The error of the reply, and a text for it.
    pub fn check_with_reason(
        &self,
        request: &Request,
        export: &Export,
    ) -> Result<Checked, Refusal> {
        let Some(command) = request.known_command() else {
            return Err(UNKNOWN_COMMAND);
        };
        // The client goes away whatever the fields say, and no reply could tell it that they are wrong.
        if command == Command::Disconnect {
            return Ok(Checked::Disconnect);
        }
        self.check_command(command, export)?;
        // The range before the flags, and the length last: the order in which nbdkit judges.
        if command == Command::Flush {
            // A flush has no range. A client that gives one expects a meaning that there is not.
            if request.offset != 0 || request.length != 0 {
                return Err(FLUSH_RANGE);
            }
        } else {
            check_range(command, request, export)?;
        }
        self.check_flags(command, request.flags, export)?;
        // Only payloads are bounded: a trim may be nearly 4 GiB long.
        let has_payload = matches!(command, Command::Read | Command::Write);
        if has_payload && request.length > export.maximum_payload_bytes.min(CHUNK_DATA_BYTES_MAX) {
            return Err(TOO_LONG);
        }
        self.checked(command, request).ok_or(NO_CONTEXT)
    }

    /// Whether the export has the command, and whether this session has what it needs.
    fn check_command(&self, command: Command, export: &Export) -> Result<(), Refusal> {
        let needed = match command {
            Command::Flush => transmission_flag::FLUSH,
            Command::Trim => transmission_flag::TRIM,
            Command::Cache => transmission_flag::CACHE,
            Command::WriteZeroes => transmission_flag::WRITE_ZEROES,
            Command::Read | Command::Write | Command::Disconnect | Command::BlockStatus => 0,
        };
        // Before all else: nbdkit answers a write of no bytes to a read-only export with EPERM too.
        if export.has(transmission_flag::READ_ONLY) && writes(command) {
            return Err(READ_ONLY);
        }
        if !export.has(needed) {
            return Err(NOT_ADVERTISED);
        }
        // Without a context there is no number to put into the reply.
        if command == Command::BlockStatus && !self.has_context() {
            return Err(NO_CONTEXT);
        }
        Ok(())
    }

    fn check_flags(&self, command: Command, flags: u16, export: &Export) -> Result<(), Refusal> {
        let own = match command {
            // A simple reply cannot be fragmented, and its session never advertised the flag.
            Command::Read if self.structured => command_flag::DF,
            Command::BlockStatus => command_flag::REQ_ONE,
            // A fast zero may answer ENOTSUP, which a client that was not told of it does not expect.
            Command::WriteZeroes if export.has(transmission_flag::FAST_ZERO) => {
                command_flag::NO_HOLE | command_flag::FAST_ZERO
            }
            Command::WriteZeroes => command_flag::NO_HOLE,
            _ => 0,
        };
        // Some clients set it on commands that write nothing, and the protocol lets them.
        let force = if export.has(transmission_flag::FUA) { command_flag::FUA } else { 0 };
        if flags & !(own | force) == 0 { Ok(()) } else { Err(WRONG_FLAG) }
    }

    fn has_context(&self) -> bool {
        self.structured && self.allocation_context.is_some()
    }

    /// `None` only if the status of blocks is asked for and no context was chosen.
    fn checked(&self, command: Command, request: &Request) -> Option<Checked> {
        let Request { flags, offset, length, .. } = *request;
        let has = |flag: u16| flags & flag != 0;
        let force_unit_access = has(command_flag::FUA);
        Some(match command {
            Command::Read => Checked::Read { offset, length, dont_fragment: has(command_flag::DF) },
            Command::Write => Checked::Write { offset, length, force_unit_access },
            Command::Disconnect => Checked::Disconnect,
            Command::Flush => Checked::Flush,
            Command::Trim => Checked::Trim { offset, length, force_unit_access },
            Command::Cache => Checked::Cache { offset, length },
            Command::WriteZeroes => Checked::WriteZeroes {
                offset,
                length,
                force_unit_access,
                no_hole: has(command_flag::NO_HOLE),
                only_if_fast: has(command_flag::FAST_ZERO),
            },
            Command::BlockStatus => {
                let only_one = has(command_flag::REQ_ONE);
                Checked::BlockStatus { offset, length, only_one, context: self.allocation_context? }
            }
        })
    }
}

fn writes(command: Command) -> bool {
    matches!(command, Command::Write | Command::Trim | Command::WriteZeroes)
}

/// Whether a range of bytes lies in the export, and on its blocks.
fn check_range(command: Command, request: &Request, export: &Export) -> Result<(), Refusal> {
    // The protocol asks for ENOSPC where bytes would be stored, as a write to a full device has.
    let needs_space = matches!(command, Command::Write | Command::WriteZeroes);
    let length = u64::from(request.length);
    if length == 0 {
        return Err(if needs_space { EMPTY_WRITE } else { EMPTY });
    }
    // A sum past 2^64 would wrap to a place within the export.
    let end = request.offset.checked_add(length);
    if end.is_none_or(|end| end > export.size_bytes) {
        return Err(if needs_space { OUTSIDE_WRITE } else { OUTSIDE });
    }
    // A minimum of zero is refused by `Export::check`; here it counts as one.
    let block = u64::from(export.minimum_block_bytes.max(1));
    // A client that did not ask for the sizes may come here: refused, not rounded, so no data is harmed.
    if !request.offset.is_multiple_of(block) || !length.is_multiple_of(block) {
        return Err(UNALIGNED);
    }
    Ok(())
}
