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
        match incoming {
            Some(page) if page.lpn == lpn => flash.program(to, lpn, Role::Data, page.data)?,
            _ => match locations.get(lpn) {
                Some(from) if from.block != target => flash.copy(from, to, lpn, Role::Data)?,
                _ => continue,
            },
        }
        locations.set(lpn, to);
    }
    Ok(())
}
