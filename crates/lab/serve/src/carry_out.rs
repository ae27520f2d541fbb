//! Carries the records of a log or an image out again.

use crate::core::Core;
use crate::record::{
    CUT, CUT_AFTER_BYTES_MAX, DIGEST_LETTERS, DISCARD, END, FLUSH, PASS, READ, RESTORE, SESSION,
    WRITE, WRITE_FUA, WRITE_SECTORS_MAX, ZERO, ZERO_FUA, read_u32, read_u64,
};
use crate::work::{Failure, SECTOR_BYTES, Work};
use std::io::{self, Read};

/// What comes next in a file of records.
pub(crate) enum Next {
    /// A record was carried out.
    Done,
    /// The log ends here, with this digest.
    End(String),
    /// The file ends here, between two records.
    NoEnd,
}

/// Why no further record is carried out.
pub(crate) enum Stop {
    /// The file ends within a record.
    CutShort,
    File(io::Error),
    Wrong(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::CutShort,
            _ => Self::File(error),
        }
    }
}

/// Carries the next record out.
pub(crate) fn carry_out_next(input: &mut impl Read, core: &mut Core) -> Result<Next, Stop> {
    let mut kind = [0];
    if input.read(&mut kind)? == 0 {
        return Ok(Next::NoEnd);
    }
    let at_ns = read_u64(input)?;
    // The same calls in the same order: a request that failed is one of them, for it may have changed the device.
    let told = match kind[0] {
        PASS => core.pass_time(at_ns),
        CUT => core.cut(at_ns),
        RESTORE => core.restore(at_ns).map(drop),
        FLUSH => core.submit(at_ns, &Work::Flush).map(drop),
        READ | WRITE | WRITE_FUA | ZERO | ZERO_FUA | DISCARD => {
            let (sector, sectors) = (read_u64(input)?, read_u32(input)?);
            let is_write = matches!(kind[0], WRITE | WRITE_FUA);
            if is_write && sectors > WRITE_SECTORS_MAX {
                return Err(Stop::Wrong(format!("a write of {sectors} sectors is too long")));
            }
            let length = if is_write { sectors as usize * SECTOR_BYTES as usize } else { 0 };
            let mut bytes = vec![0; length];
            input.read_exact(&mut bytes)?;
            let work = match kind[0] {
                READ => Work::Read { sector, sectors },
                DISCARD => Work::Discard { sector, sectors },
                ZERO | ZERO_FUA => Work::Zero { sector, sectors, fua: kind[0] == ZERO_FUA },
                _ => Work::Write { sector, bytes: &bytes, fua: kind[0] == WRITE_FUA },
            };
            core.submit(at_ns, &work).map(drop)
        }
        SESSION => {
            let length = read_u32(input)?;
            if length > CUT_AFTER_BYTES_MAX {
                return Err(Stop::Wrong(format!("a planned cut of {length} bytes is too long")));
            }
            let mut told = vec![0; length as usize];
            input.read_exact(&mut told)?;
            let cut_after = serde_json::from_slice(&told);
            core.begin_session(cut_after.map_err(|error| Stop::Wrong(error.to_string()))?)
        }
        END => {
            let mut digest = [0; DIGEST_LETTERS];
            input.read_exact(&mut digest)?;
            return Ok(Next::End(String::from_utf8_lossy(&digest).into_owned()));
        }
        other => return Err(Stop::Wrong(format!("kind {other} is unknown"))),
    };
    match told {
        // What failed as it was recorded fails here, too.
        Ok(()) | Err(Failure::PowerLost | Failure::Device(_)) => Ok(Next::Done),
        Err(Failure::File { reason, .. }) => Err(Stop::File(reason)),
    }
}
