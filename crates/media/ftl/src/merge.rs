//! Gathering the newest pages of a logical block in one physical block.

use crate::{Flash, FtlError, Locations, VirtualPage};
use nand::Role;
use std::ops::Range;

/// A page that the host writes while its block is merged: it goes straight to its home offset.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    pub(crate) lpn: u32,
    pub(crate) data: Option<&'a [u8]>,
}

/// Copies the newest copy of each of the pages to its offset in the block of `target`, in ascending
/// order from the offset of `target` on; pages already in that block stay. The incoming page is
/// programmed in its turn and its old copies are not read.
pub(crate) fn gather(
    flash: &mut Flash,
    locations: &mut Locations,
    pages: Range<u32>,
    target: VirtualPage,
    incoming: Option<Incoming>,
) -> Result<(), FtlError> {
    for lpn in pages.start + target.page..pages.end {
        let to = VirtualPage::new(target.block, lpn - pages.start);
        // In its turn, because ascending parts take no page below one that is programmed.
        match incoming {
            Some(page) if page.lpn == lpn => flash.program(to, lpn, Role::Data, page.data)?,
            _ => match locations.get(lpn) {
                // A page that is in the target is passed over: its slot is used, and it may be the
                // newest copy.
                Some(from) if from.block != target.block => {
                    flash.copy(from, to, lpn, Role::Data)?;
                }
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

/// Copies the newest copy of each of the pages, or the incoming page, to its offset in a fresh block;
/// returns that block.
///
/// Only the last page is programmed as [`Role::Data`], those before it as `unfinished`: after a
/// power cut [`crate::recovery::drop_unfinished`] finds the blocks whose last page is missing.
/// Their originals are all in place, so that no rebuild needs a free block to go on. A rewrite that
/// finds no free block leaves everything as it was.
pub(crate) fn rewrite(
    flash: &mut Flash,
    locations: &mut Locations,
    pages: Range<u32>,
    unfinished: Role,
    incoming: Option<Incoming>,
) -> Result<u32, FtlError> {
    let target = flash.allocate()?;
    let is_incoming = |lpn| incoming.is_some_and(|page| page.lpn == lpn);
    let is_valid = |locations: &Locations, lpn| is_incoming(lpn) || locations.get(lpn).is_some();
    // The last page to be copied carries the mark of completeness, whichever offset it has.
    let last = pages.clone().rev().find(|lpn| is_valid(locations, *lpn));
    for lpn in pages.clone().filter(|lpn| is_valid(locations, *lpn)) {
        let to = VirtualPage::new(target, lpn - pages.start);
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
    for lpn in pages.clone() {
        if is_valid(locations, lpn) {
            debug_assert_eq!(
                flash.peek(VirtualPage::new(target, lpn - pages.start)).lpn(),
                lpn,
                "the target holds every valid page"
            );
            locations.set(lpn, VirtualPage::new(target, lpn - pages.start));
        }
    }
    Ok(target)
}
