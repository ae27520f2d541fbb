//! Gathering the newest pages of a logical block in one physical block.

use crate::{Flash, FtlError, Locations};
use nand::{PageAddress, Role};

/// A page that the host writes while its block is merged: it goes straight to its home offset.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) lpn: u32,
    pub(crate) data: Option<&'a [u8]>,
}

/// Copies the newest copy of each page `first..first + count` to its offset in `target`, in
/// ascending order from offset `from_offset`; pages already in `target` stay. The incoming page is
/// programmed in its turn and its old copies are not read.
pub(crate) fn gather(
    flash: &mut Flash,
    locations: &mut Locations,
    first: u32,
    count: u32,
    target: u32,
    from_offset: u32,
    incoming: Option<Incoming>,
) -> Result<(), FtlError> {
    for offset in from_offset..count {
        let lpn = first + offset;
        let to = PageAddress::new(target, offset);
        // In its turn, because ascending parts take no page below one that is programmed.
        match incoming {
            Some(page) if page.lpn == lpn => flash.program(to, lpn, Role::Data, page.data)?,
            _ => match locations.get(lpn) {
                // A page that is in the target is passed over: its slot is used, and it may be the
                // newest copy.
                Some(from) if from.block != target => flash.copy(from, to, lpn, Role::Data)?,
                _ => continue,
            },
        }
        debug_assert_eq!(flash.peek(to).lpn(), lpn, "{to:?} holds the page");
        // After each page, not at the end: a cut in the middle leaves a map that agrees with the
        // chip.
        locations.set(lpn, to);
    }
    Ok(())
}

/// Copies the newest copy of each page `first..first + count`, or the incoming page, to its offset
/// in a fresh block; returns that block.
///
/// Only the last page is programmed as [`Role::Data`], those before it as `unfinished`: after a
/// power cut [`crate::recovery::drop_unfinished`] finds the blocks whose last page is missing.
/// Their originals are all in place, so that no rebuild needs a free block to go on. A rewrite that
/// finds no free block leaves everything as it was.
pub(crate) fn rewrite(
    flash: &mut Flash,
    locations: &mut Locations,
    first: u32,
    count: u32,
    unfinished: Role,
    incoming: Option<Incoming>,
) -> Result<u32, FtlError> {
    let target = flash.allocate()?;
    let is_incoming = |lpn| incoming.is_some_and(|page| page.lpn == lpn);
    let is_valid = |locations: &Locations, lpn| is_incoming(lpn) || locations.get(lpn).is_some();
    // The last page to be copied carries the mark of completeness, whichever offset it has.
    let last = (first..first + count).rev().find(|lpn| is_valid(locations, *lpn));
    for lpn in (first..first + count).filter(|lpn| is_valid(locations, *lpn)) {
        let to = PageAddress::new(target, lpn - first);
        let role = if Some(lpn) == last { Role::Data } else { unfinished };
        let outcome = match (incoming, locations.get(lpn)) {
            (Some(page), _) if page.lpn == lpn => flash.program(to, lpn, role, page.data),
            (_, Some(from)) => flash.copy(from, to, lpn, role),
            (_, None) => Ok(()),
        };
        if let Err(error) = outcome {
            // Nothing was moved in the map yet, so the originals are still the newest.
            flash.release(target)?;
            return Err(error);
        }
    }
    // The map changes at once, after the last page: a target without it does not exist.
    for lpn in first..first + count {
        if is_valid(locations, lpn) {
            debug_assert_eq!(
                flash.peek(PageAddress::new(target, lpn - first)).lpn(),
                lpn,
                "the target holds every valid page"
            );
            locations.set(lpn, PageAddress::new(target, lpn - first));
        }
    }
    Ok(target)
}
