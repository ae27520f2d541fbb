//! The persistent object allocator: numbered entries in groups with bitmaps, in the DAT and the file
//! of inodes.
//!
//! Source: `fs/nilfs2/alloc.c`.
//!
//! May use: `bytes`, `engine`, `file`, `finding`, `records`.

use crate::bytes::{get_u32, put_u32};
use crate::engine::{Engine, Geometry};
use crate::file::{Buffer, EntryBlock, File};
use crate::finding::Code;
use crate::records::{DAT_ENTRY_BYTES, DAT_INODE, INODE_BYTES};
use fs_api::{Errno, Place};
use std::rc::Rc;

/// Where entries of a file are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    block_bytes: u64,
    entry_bytes: u64,
}

impl Layout {
    pub(crate) fn of(geometry: &Geometry, inode: u64) -> Self {
        let entry_bytes = if inode == DAT_INODE { DAT_ENTRY_BYTES } else { INODE_BYTES };
        Self { block_bytes: geometry.block_bytes, entry_bytes: entry_bytes as u64 }
    }

    pub(crate) fn per_group(self) -> u64 {
        self.block_bytes * 8
    }

    pub(crate) fn per_block(self) -> u64 {
        self.block_bytes / self.entry_bytes
    }

    pub(crate) fn groups_per_descriptor_block(self) -> u64 {
        self.block_bytes / 4
    }

    fn blocks_per_group(self) -> u64 {
        // The entries of a group and its bitmap block.
        self.per_group().div_ceil(self.per_block()) + 1
    }

    pub(crate) fn descriptor_block(self, group: u64) -> u64 {
        let per_descriptor = self.groups_per_descriptor_block();
        // One descriptor block stands before the groups that it counts.
        group / per_descriptor * (per_descriptor * self.blocks_per_group() + 1)
    }

    pub(crate) fn bitmap_block(self, group: u64) -> u64 {
        let in_descriptor = group % self.groups_per_descriptor_block();
        self.descriptor_block(group) + 1 + in_descriptor * self.blocks_per_group()
    }

    /// The group whose bitmap a block holds, if it is such a block.
    pub(crate) fn group_of_bitmap(self, block: u64) -> Option<u64> {
        let per_descriptor = self.groups_per_descriptor_block();
        let stride = per_descriptor * self.blocks_per_group() + 1;
        let behind = (block % stride).checked_sub(1)?;
        let is_bitmap = behind.is_multiple_of(self.blocks_per_group());
        is_bitmap.then(|| block / stride * per_descriptor + behind / self.blocks_per_group())
    }

    /// Block of an entry and its first byte there.
    pub(crate) fn entry(self, number: u64) -> (u64, usize) {
        let (group, index) = (number / self.per_group(), number % self.per_group());
        let block = self.bitmap_block(group) + 1 + index / self.per_block();
        debug_assert_eq!(
            self.group_of_bitmap(self.bitmap_block(group)),
            Some(group),
            "the bitmap of a group leads back to it"
        );
        let at = index % self.per_block() * self.entry_bytes;
        debug_assert!(at + self.entry_bytes <= self.block_bytes, "entry {number} is in one block");
        (block, at as usize)
    }

    /// Byte of a group's count of free entries in its descriptor block.
    pub(crate) fn free_count_at(self, group: u64) -> usize {
        (group % self.groups_per_descriptor_block() * 4) as usize
    }
}

/// First zero bit from `from` on, going round.
fn find_zero(bitmap: &[u8], from: u64) -> Option<u64> {
    let bits = bitmap.len() as u64 * 8;
    let is_zero = |bit: u64| bitmap[(bit / 8) as usize] & (1 << (bit % 8)) == 0;
    let mut bit = from;
    while bit < from + bits {
        let at = bit % bits;
        if at.is_multiple_of(8) && bitmap[(at / 8) as usize] == 0xff {
            bit += 8;
        } else if is_zero(at) {
            return Some(at);
        } else {
            bit += 1;
        }
    }
    None
}

impl Engine {
    pub(crate) fn layout(&self, file: &File) -> Layout {
        Layout::of(&self.geometry, file.number)
    }

    /// A block of the DAT or the file of inodes, made if it is missing. What comes back is boxed: the
    /// map of any file is kept in the DAT, and the DAT's own blocks are found by its map.
    async fn allocator_block(
        &self,
        file: &File,
        offset: u64,
        kind: EntryBlock,
    ) -> Result<Rc<Buffer>, Errno> {
        file.asked_for(kind, offset);
        if let Some(buffer) = file.cached(offset) {
            return Ok(buffer);
        }
        let each = self.layout(file).per_group() as u32;
        let begin = move |data: &mut [u8]| {
            if kind == EntryBlock::Descriptors {
                data.chunks_exact_mut(4).for_each(|count| put_u32(count, 0, each));
            }
        };
        Box::pin(self.data_block_or_new(file, offset, begin)).await
    }

    /// The block of an entry and its first byte there; made if it is missing.
    pub(crate) async fn entry_block(
        &self,
        file: &File,
        number: u64,
    ) -> Result<(Rc<Buffer>, usize), Errno> {
        let (block, at) = self.layout(file).entry(number);
        Ok((self.allocator_block(file, block, EntryBlock::Entries).await?, at))
    }

    /// The block of an entry that exists.
    pub(crate) async fn known_entry_block(
        &self,
        file: &File,
        number: u64,
    ) -> Result<(Rc<Buffer>, usize), Errno> {
        let (block, at) = self.layout(file).entry(number);
        file.asked_for(EntryBlock::Entries, block);
        if let Some(buffer) = file.cached(block) {
            return Ok((buffer, at));
        }
        match Box::pin(self.data_block(file, block)).await? {
            Some(buffer) => Ok((buffer, at)),
            None => Err(self.damaged(
                Code::BadTable,
                Place::Inode(file.number),
                format!("inode {} has no entry {number}", file.number),
            )),
        }
    }

    /// Takes the first free entry from `target` on.
    pub(crate) async fn allocate_entry(&self, file: &File, target: u64) -> Result<u64, Errno> {
        let layout = self.layout(file);
        let (mut group, mut from) = (target / layout.per_group(), target % layout.per_group());
        // More groups than blocks on the medium cannot be filled.
        for _ in 0..self.geometry.blocks() {
            let block = layout.descriptor_block(group);
            let descriptors = self.allocator_block(file, block, EntryBlock::Descriptors).await?;
            let at = layout.free_count_at(group);
            if get_u32(&descriptors.data.borrow(), at) > 0 {
                let block = layout.bitmap_block(group);
                let bitmap = self.allocator_block(file, block, EntryBlock::Bitmap).await?;
                let place = find_zero(&bitmap.data.borrow(), from);
                // Read again: the bitmap's read is an await, and another task may have taken the
                // last entry of the group.
                let free = get_u32(&descriptors.data.borrow(), at);
                if let Some(place) = place
                    && free > 0
                {
                    debug_assert_eq!(
                        bitmap.data.borrow()[(place / 8) as usize] & (1 << (place % 8)),
                        0,
                        "entry {place} of group {group} is free"
                    );
                    bitmap.data.borrow_mut()[(place / 8) as usize] |= 1 << (place % 8);
                    put_u32(&mut descriptors.data.borrow_mut(), at, free - 1);
                    file.dirty(&bitmap);
                    file.dirty(&descriptors);
                    return Ok(group * layout.per_group() + place);
                }
            }
            (group, from) = (group + 1, 0);
        }
        Err(Errno::Enospc)
    }

    /// Gives an entry back.
    pub(crate) async fn free_entry(&self, file: &File, number: u64) -> Result<(), Errno> {
        let layout = self.layout(file);
        let (group, place) = (number / layout.per_group(), number % layout.per_group());
        let per_group = layout.per_group() as u32;
        let block = layout.descriptor_block(group);
        let descriptors = self.allocator_block(file, block, EntryBlock::Descriptors).await?;
        let block = layout.bitmap_block(group);
        let bitmap = self.allocator_block(file, block, EntryBlock::Bitmap).await?;
        let bit = 1 << (place % 8);
        if bitmap.data.borrow()[(place / 8) as usize] & bit == 0 {
            // The kernel warns here and goes on.
            self.note(
                Code::FreeAlready,
                Place::Inode(file.number),
                format!("inode {}: entry {number} was free already", file.number),
            );
            return Ok(());
        }
        bitmap.data.borrow_mut()[(place / 8) as usize] &= !bit;
        let at = layout.free_count_at(group);
        let free = get_u32(&descriptors.data.borrow(), at) + 1;
        put_u32(&mut descriptors.data.borrow_mut(), at, free.min(per_group));
        file.dirty(&bitmap);
        file.dirty(&descriptors);
        Ok(())
    }

    /// Whether an entry is in use.
    pub(crate) async fn has_entry(&self, file: &File, number: u64) -> Result<bool, Errno> {
        let layout = self.layout(file);
        let (group, place) = (number / layout.per_group(), number % layout.per_group());
        let block = layout.bitmap_block(group);
        let Some(bitmap) = self.data_block(file, block).await? else { return Ok(false) };
        let bits = bitmap.data.borrow()[(place / 8) as usize];
        Ok(bits & (1 << (place % 8)) != 0)
    }

    /// Notes what is odd but does no harm.
    pub(crate) fn note(&self, code: Code, place: Place, text: impl Into<String>) {
        let finding = code.at(place, text);
        let mut findings = self.findings.borrow_mut();
        if findings.len() < 1000 && !findings.contains(&finding) {
            findings.push(finding);
        }
    }
}
