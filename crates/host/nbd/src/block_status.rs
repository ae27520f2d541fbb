//! The reply to `BLOCK_STATUS`: which bytes are holes, which are zeros.

use crate::bytes::{put_u32, put_u64};
use crate::export::Export;
use crate::reply::chunk_header;
use crate::wire::{CHUNK_HEADER_BYTES, ChunkKind, EXTENTS_MAX};

/// Bytes of an extent in a chunk: length and flags.
const EXTENT_BYTES: usize = 8;

/// Bytes that share a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many.
    pub length: u64,
    /// [`extent_flag`](crate::extent_flag)s.
    pub flags: u32,
}

/// How much a reply may tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusLimit {
    /// Bytes that the client asked for, at least one.
    asked_bytes: u64,
    /// Bytes that all extents together may have.
    told_bytes: u64,
    /// Extents that the chunk may have, at least one.
    extents: usize,
}

impl StatusLimit {
    /// Limits of the reply to a request that [`Session::check`](crate::Session::check) let pass.
    pub fn new(export: &Export, offset: u64, length: u32, only_one: bool) -> Self {
        let asked_bytes = u64::from(length.max(1));
        let to_end_bytes = export.size_bytes.saturating_sub(offset);
        let payload = export.maximum_payload_bytes as usize / EXTENT_BYTES;
        Self {
            asked_bytes,
            told_bytes: if only_one { asked_bytes } else { to_end_bytes.max(asked_bytes) },
            extents: if only_one { 1 } else { payload.clamp(1, EXTENTS_MAX) },
        }
    }
}

/// Appends the whole reply: one chunk, the last one.
///
/// `extents` follow each other from the first byte of the request on. They may have any length, zero too, and
/// may pass the end of the request or of the export. They are read only as far as they are needed:
///
/// - Neighbours with the same flags become one extent, none has length zero.
/// - Only the last extent passes the end of the request, and with `REQ_ONE` none does. None passes the end of
///   the export. One of 2^32 bytes or more is cut and ends the reply: the client asks again for what is left.
/// - There are at most 2^20 extents, and no more than the maximum payload holds.
///
/// Where `extents` are empty the reply has one extent with the flags 0, which is always true: allocated and
/// not known to be zero.
pub fn block_status(
    output: &mut Vec<u8>,
    cookie: u64,
    context: u32,
    limit: &StatusLimit,
    extents: impl IntoIterator<Item = Extent>,
) {
    let start = output.len();
    chunk_header(output, ChunkKind::BlockStatus, true, cookie, 0);
    put_u32(output, context);
    let first = output.len();
    // The last extent stays open, because the next one may have the same flags.
    let mut told_bytes = 0;
    let mut open: Option<Extent> = None;
    for extent in extents {
        let left = limit.told_bytes.saturating_sub(told_bytes);
        let extent = Extent { length: extent.length.min(left), ..extent };
        // Left out of the list, but no end of it: what follows lies at the same place.
        if extent.length == 0 {
            continue;
        }
        match &mut open {
            Some(same) if same.flags == extent.flags => same.length += extent.length,
            Some(before) => {
                put_extent(output, *before);
                open = None;
                if (output.len() - first) / EXTENT_BYTES == limit.extents {
                    break;
                }
                open = Some(extent);
            }
            None => open = Some(extent),
        }
        told_bytes += extent.length;
        // The extent that reaches the end of the request may pass it; one more would be too many.
        if told_bytes >= limit.asked_bytes {
            break;
        }
    }
    if let Some(last) = open {
        put_extent(output, last);
    }
    // A client counts on progress: a reply must not be empty.
    if output.len() == first {
        put_extent(output, Extent { length: limit.asked_bytes, flags: 0 });
    }
    debug_assert!(
        output.len() - first <= limit.extents * EXTENT_BYTES,
        "no more extents than allowed"
    );
    // The number of extents is known only now, and they are not kept apart to be counted first.
    let payload_bytes = (output.len() - start - CHUNK_HEADER_BYTES) as u32;
    output[start + CHUNK_HEADER_BYTES - 4..start + CHUNK_HEADER_BYTES]
        .copy_from_slice(&payload_bytes.to_be_bytes());
}

/// Appends an extent.
fn put_extent(output: &mut Vec<u8>, extent: Extent) {
    // The largest multiple of every block size that the field can hold. Only the last extent can be longer: it
    // passes the end of any request, so that none whose place would be wrong follows it.
    const LONGEST_BYTES: u64 = (1 << 32) - (1 << 16);
    let has_room = u32::try_from(extent.length).is_ok();
    let length = if has_room { extent.length } else { LONGEST_BYTES };
    put_u64(output, length << 32 | u64::from(extent.flags));
}
