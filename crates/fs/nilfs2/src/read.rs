//! Reading several pages of a file at once, as read-ahead does.
//!
//! Pages that are in memory are copied; for the others neighbours on the device share a bio
//! (`mpage_readahead`, `nilfs_get_block`).
//!
//! May use: `engine`, `file`, `finding`.

use crate::engine::Engine;
use crate::file::File;
use crate::finding::Code;
use fs_api::{Errno, PAGE_BYTES, Place};
use std::ops::Range;

impl Engine {
    /// Runs of blocks that are mapped, or that wait in memory to be written.
    pub(crate) async fn data_pages(&self, file: &File) -> Result<Vec<Range<u64>>, Errno> {
        let _lock = file.map_lock.read().await;
        let mut blocks = self.map_keys(file).await?;
        // A dirty block that is mapped appears twice; `dedup` removes the second.
        blocks.extend(file.dirty_data().iter().map(|buffer| buffer.key.get()));
        blocks.sort_unstable();
        blocks.dedup();
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in blocks {
            match runs.last_mut() {
                Some(last) if block == last.end => last.end += 1,
                _ => runs.push(block..block.saturating_add(1)),
            }
        }
        Ok(runs)
    }

    /// Fills pages that follow each other; bytes past the end of the file are zero.
    pub(crate) async fn read_pages(
        &self,
        file: &File,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        let size = file.inode.borrow().size_bytes;
        // Place in `into`, and block of the device, of pages that have to be read.
        let mut missing: Vec<(usize, u64)> = Vec::new();
        for (index, page) in into.iter_mut().enumerate() {
            page.fill(0);
            let offset = first + index as u64;
            if offset * PAGE_BYTES as u64 >= size {
                break;
            }
            if let Some(buffer) = file.cached(offset) {
                buffer.look(|bytes| page.copy_from_slice(bytes));
            } else if let Some(pointer) = self.map_lookup(file, offset).await? {
                missing.push((index, self.physical(file, pointer).await?));
            }
        }
        let bio_max = self.medium.bio_blocks_max() as usize;
        let mut under_way = Vec::new();
        let mut rest = &missing[..];
        while let Some(&(start, block)) = rest.first() {
            // A damaged map may name any number: none of these sums may overflow.
            let follows = |(at, (index, physical)): (usize, &(usize, u64))| {
                let is_next = block.checked_add(at as u64) == Some(*physical);
                *index == start + at && is_next && at < bio_max
            };
            let count = rest.iter().enumerate().take_while(|pair| follows(*pair)).count();
            let end = block.checked_add(count as u64);
            if block == 0 || end.is_none_or(|end| end > self.geometry.blocks()) {
                return Err(self.damaged(
                    Code::BadMap,
                    Place::Block(block),
                    format!("a map leads to block {block}"),
                ));
            }
            // All bios are submitted before the first is waited for, as `mpage_readahead` does
            // under one plug.
            let taken = self.medium.submit_read(block, count as u32).await;
            under_way.push((start, count, taken.map_err(|error| self.failed(error))?));
            rest = &rest[count..];
        }
        for (start, count, read) in under_way {
            let bytes = read.await.map_err(|error| self.failed(error))?;
            let pages = into[start..start + count].iter_mut();
            for (page, bytes) in pages.zip(bytes.chunks_exact(PAGE_BYTES)) {
                page.copy_from_slice(bytes);
            }
        }
        let tail = size.saturating_sub(first * PAGE_BYTES as u64) as usize;
        if let Some(last) = into.get_mut(tail / PAGE_BYTES) {
            last[tail % PAGE_BYTES..].fill(0);
        }
        Ok(())
    }
}
