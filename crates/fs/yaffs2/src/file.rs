//! Data of files: reading, writing, changing the size.
//!
//! Source: `yaffs_guts.c` (`yaffs_file_rd`, `yaffs_do_file_wr`, `yaffs_resize_file`),
//! `yaffs_yaffs2.c` (`yaffs2_handle_hole`).
//!
//! May use: `device`, `format`, `objects`, `tags`, `tnodes`, `update`.

use crate::device::Device;
use crate::format::FileChunk;
use crate::objects::Object;
use crate::tags::Tags;
use crate::tnodes::CHUNK_MAX;
use crate::update::Update;
use fs_api::{Errno, PAGE_BYTES};
use std::ops::Range;

/// A hole of fewer chunks is written as zeros (`YAFFS_SMALL_HOLE_THRESHOLD`).
const SMALL_HOLE_CHUNKS: u32 = 4;

impl Device {
    /// Bytes that a file can have: of the chunks that tags can number (`yaffs_max_file_size`).
    pub(crate) fn file_bytes_max(&self) -> u64 {
        u64::from(CHUNK_MAX) * u64::from(self.chunk_bytes)
    }

    fn chunk_place(&self, at: FileChunk) -> u32 {
        let file = self.objects.get(at.object).and_then(Object::file);
        file.map_or(0, |file| file.tree.get(at.number))
    }

    /// Reads a chunk of a file; zeros where there is none.
    async fn read_file_chunk(&mut self, at: FileChunk, data: &mut [u8]) {
        match self.chunk_place(at) {
            0 => data.fill(0),
            place => {
                self.read_chunk(place, data).await;
            }
        }
    }

    /// Reads bytes of a file.
    pub(crate) async fn read_file(&mut self, object: u32, offset: u64, into: &mut [u8]) {
        let chunk_bytes = u64::from(self.chunk_bytes);
        let (mut at, mut rest) = (offset, into);
        while !rest.is_empty() {
            let (number, start) = ((at / chunk_bytes) as u32 + 1, (at % chunk_bytes) as usize);
            let chunk = FileChunk { object, number };
            let count = rest.len().min(chunk_bytes as usize - start);
            let (part, later) = rest.split_at_mut(count);
            let cached = self.cache.find(chunk);
            // Whole chunks go past the cache into the caller's buffer, unless the cache holds a
            // newer version.
            if cached.is_none() && count == chunk_bytes as usize {
                self.read_file_chunk(chunk, part).await;
            } else if self.cache.is_off() {
                let mut data = vec![0; chunk_bytes as usize];
                self.read_file_chunk(chunk, &mut data).await;
                part.copy_from_slice(&data[start..start + count]);
            } else {
                let slot = match cached {
                    Some(slot) => {
                        self.statistics.cache_hits += 1;
                        slot
                    }
                    None => self.load_cache(chunk).await,
                };
                self.cache.touch(slot, false);
                part.copy_from_slice(&self.cache.entry(slot).data[start..start + count]);
                self.charge_copy(count);
            }
            at += count as u64;
            rest = later;
        }
    }

    /// Reads bytes as a kernel does that has none of the file's pages: page by page.
    pub(crate) async fn read_whole_pages(&mut self, object: u32, offset: u64, into: &mut [u8]) {
        let mut page = vec![0; fs_api::PAGE_BYTES];
        let mut done = 0;
        while done < into.len() {
            let at = offset + done as u64;
            let within = (at % fs_api::PAGE_BYTES as u64) as usize;
            let count = (into.len() - done).min(fs_api::PAGE_BYTES - within);
            self.read_file(object, at - within as u64, &mut page).await;
            into[done..done + count].copy_from_slice(&page[within..within + count]);
            done += count;
        }
    }

    /// Runs of pages of which a chunk lies on the medium or in the cache.
    pub(crate) fn data_pages(&self, object: u32) -> Vec<Range<u64>> {
        let page = PAGE_BYTES as u64;
        let chunk_bytes = u64::from(self.chunk_bytes);
        let file = self.objects.get(object).and_then(Object::file);
        let stored = file.map_or_else(Vec::new, |file| file.tree.chunks());
        let mut chunks: Vec<u32> = stored.into_iter().map(|(chunk, _)| chunk).collect();
        let slots = self.cache.slots_of(object).into_iter();
        chunks.extend(slots.map(|slot| self.cache.entry(slot).chunk));
        chunks.sort_unstable();
        let mut runs: Vec<Range<u64>> = Vec::new();
        // Chunk 0 is the header.
        for chunk in chunks.into_iter().filter_map(|chunk| chunk.checked_sub(1)) {
            let start = u64::from(chunk) * chunk_bytes;
            let (first, end) = (start / page, (start + chunk_bytes).div_ceil(page));
            match runs.last_mut() {
                Some(last) if first <= last.end => last.end = last.end.max(end),
                _ => runs.push(first..end),
            }
        }
        runs
    }

    /// Brings a chunk into a slot of the cache.
    async fn load_cache(&mut self, at: FileChunk) -> usize {
        let slot = self.grab_slot().await;
        let mut data = std::mem::take(&mut self.cache.entry_mut(slot).data);
        self.read_file_chunk(at, &mut data).await;
        debug_assert_eq!(self.cache.find(at), None, "one slot has a chunk");
        let entry = self.cache.entry_mut(slot);
        entry.data = data;
        entry.object = Some(at.object);
        entry.chunk = at.number;
        entry.is_dirty = false;
        entry.bytes = 0;
        slot
    }

    async fn grab_slot(&mut self) -> usize {
        if let Some(slot) = self.cache.unused() {
            return slot;
        }
        let slot = self.cache.oldest().unwrap_or_default();
        if self.profile.flushes_whole_object {
            if let Some(object) = self.cache.entry(slot).object {
                self.flush_object_cache(object).await;
            }
        } else {
            self.flush_slot(slot).await;
        }
        self.cache.clear(slot);
        slot
    }

    async fn flush_slot(&mut self, slot: usize) {
        let entry = self.cache.entry_mut(slot);
        let Some(object) = entry.object else { return };
        if entry.is_dirty {
            let at = FileChunk { object, number: entry.chunk };
            let (bytes, data) = (entry.bytes, std::mem::take(&mut entry.data));
            // What cannot be written is lost, as in the real one: space was promised before.
            let _ = self.write_file_chunk(at, &data, bytes, true).await;
            let entry = self.cache.entry_mut(slot);
            entry.data = data;
            entry.is_dirty = false;
        }
    }

    /// Writes what the cache holds of a file.
    pub(crate) async fn flush_object_cache(&mut self, object: u32) {
        for slot in self.cache.slots_of(object) {
            self.flush_slot(slot).await;
        }
    }

    /// Writes all that the cache holds.
    pub(crate) async fn flush_cache(&mut self) {
        for _ in 0..=self.cache.len() {
            let Some(object) = self.cache.dirty_object() else { break };
            self.flush_object_cache(object).await;
        }
    }

    /// Writes a chunk of a file to a new place.
    async fn write_file_chunk(
        &mut self,
        at: FileChunk,
        data: &[u8],
        bytes: u32,
        may_use_reserve: bool,
    ) -> Result<(), Errno> {
        let FileChunk { object, number: chunk } = at;
        debug_assert!(
            chunk > 0 && bytes <= self.chunk_bytes,
            "{bytes} bytes of chunk {chunk} of object {object}"
        );
        // Before the room is asked for, so that what collecting frees counts for this very write.
        self.check_collect(false).await;
        if self.chunk_place(at) == 0 {
            self.with_tree(object, |tree| tree.prepare(chunk));
        }
        let end = u64::from(chunk - 1) * u64::from(self.chunk_bytes) + u64::from(bytes);
        if let Some(file) = self.objects.get_mut(object).and_then(Object::file_mut) {
            file.stored_bytes = file.stored_bytes.max(end);
        }
        let tags = Tags::data(object, chunk, bytes);
        // Collecting before the write may have moved the chunk: its place is asked for again.
        // New chunk, pointer, deletion of the old chunk: in any other order a cut, or a failed
        // write, would lose the old data before the new are safe.
        let place = self.write_new_chunk(data, tags, may_use_reserve).await?;
        let previous = self.with_tree(object, |tree| tree.set(chunk, place)).unwrap_or_default();
        if previous == 0 {
            if let Some(object) = self.objects.get_mut(object) {
                object.data_chunks += 1;
            }
        } else {
            self.delete_chunk(previous).await;
        }
        Ok(())
    }

    /// Writes bytes of a file.
    ///
    /// # Errors
    /// [`Errno::Enospc`], with what came before written.
    pub(crate) async fn write_file(
        &mut self,
        object: u32,
        offset: u64,
        data: &[u8],
    ) -> Result<(), Errno> {
        self.fill_hole(object, offset).await;
        self.write_range(object, offset, data).await
    }

    async fn write_range(&mut self, object: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let chunk_bytes = u64::from(self.chunk_bytes);
        let (mut at, mut rest) = (offset, data);
        let mut result = Ok(());
        while !rest.is_empty() {
            let (number, start) = ((at / chunk_bytes) as u32 + 1, (at % chunk_bytes) as usize);
            let chunk = FileChunk { object, number };
            let count = rest.len().min(chunk_bytes as usize - start);
            let (part, later) = rest.split_at(count);
            let bypasses = self.cache.is_off() || !self.profile.caches_whole_chunks;
            result = if count == chunk_bytes as usize && bypasses {
                let written = self.write_file_chunk(chunk, part, count as u32, false).await;
                // After the write: what the cache held is older than the whole chunk.
                self.cache.drop_chunk(chunk);
                written
            } else {
                self.write_part(chunk, start, part).await
            };
            if result.is_err() {
                break;
            }
            at += count as u64;
            rest = later;
        }
        if let Some(object) = self.objects.get_mut(object) {
            object.is_dirty = true;
            if let Some(file) = object.file_mut() {
                file.size_bytes = file.size_bytes.max(at);
            }
        }
        result
    }

    /// Writes a part of a chunk, by way of the cache.
    async fn write_part(&mut self, at: FileChunk, start: usize, part: &[u8]) -> Result<(), Errno> {
        let size = self.file_size(at.object);
        let chunk_start = u64::from(at.number - 1) * u64::from(self.chunk_bytes);
        let old_bytes = size.saturating_sub(chunk_start).min(self.chunk_bytes.into()) as u32;
        let bytes = old_bytes.max((start + part.len()) as u32);
        self.charge_copy(part.len());
        if self.cache.is_off() {
            let mut data = vec![0; self.chunk_bytes as usize];
            self.read_file_chunk(at, &mut data).await;
            data[start..start + part.len()].copy_from_slice(part);
            return self.write_file_chunk(at, &data, bytes, false).await;
        }
        // The space is promised when the bytes enter the cache. A slot that is dirty was promised
        // before, so writing to it again always works.
        let has_room = self.has_room(1);
        let slot = match self.cache.find(at) {
            Some(slot) if self.cache.entry(slot).is_dirty || has_room => {
                self.statistics.cache_hits += 1;
                slot
            }
            None if has_room => self.load_cache(at).await,
            _ => return Err(Errno::Enospc),
        };
        self.cache.touch(slot, true);
        let entry = self.cache.entry_mut(slot);
        entry.data[start..start + part.len()].copy_from_slice(part);
        entry.bytes = bytes;
        Ok(())
    }

    /// Bytes of a file.
    pub(crate) fn file_size(&self, object: u32) -> u64 {
        self.objects.get(object).and_then(Object::file).map_or(0, |file| file.size_bytes)
    }

    /// A file is about to grow past its end: what lies between is written as zeros if it is little,
    /// else a header is written that makes older chunks behind the end void.
    async fn fill_hole(&mut self, object: u32, new_size: u64) {
        let old_size = self.file_size(object);
        if new_size <= old_size {
            return;
        }
        let limit = u64::from(SMALL_HOLE_CHUNKS * self.chunk_bytes);
        let mut is_filled = false;
        // Zeros cost a chunk or a few once; a shrink header pins its block until all older blocks
        // are clean. So little holes are filled and great ones marked (`yaffs2_handle_hole`).
        if new_size - old_size < limit && self.has_room(SMALL_HOLE_CHUNKS + 1) {
            let zeros = vec![0; self.chunk_bytes as usize];
            let mut at = old_size;
            is_filled = true;
            while at < new_size && is_filled {
                let count = (new_size - at).min(self.chunk_bytes.into());
                is_filled = self.write_range(object, at, &zeros[..count as usize]).await.is_ok();
                at += count;
            }
            if !is_filled {
                self.shrink_file(object, old_size).await;
            }
        }
        let is_gone = self.objects.get(object).is_none_or(Object::is_gone);
        if !is_filled && !is_gone {
            // Without space the hole may show stale bytes after a cut; the write itself will fail.
            let _ =
                self.update_header(object, Update { is_shrink: true, ..Update::default() }).await;
        }
    }

    /// Cuts a file off.
    async fn shrink_file(&mut self, object: u32, new_size: u64) {
        let chunk_bytes = u64::from(self.chunk_bytes);
        // The first chunk that goes as a whole: chunks count from 1, so the chunk with the new end
        // in it is `new_size.div_ceil(chunk_bytes)`.
        let first = new_size.div_ceil(chunk_bytes) + 1;
        let file = self.objects.get(object).and_then(Object::file);
        let chunks = file.map(|file| file.tree.chunks()).unwrap_or_default();
        // From the end on, so that a power cut leaves no hole.
        for (chunk, place) in chunks.into_iter().rev() {
            if u64::from(chunk) < first {
                break;
            }
            self.with_tree(object, |tree| tree.set(chunk, 0));
            if let Some(object) = self.objects.get_mut(object) {
                object.data_chunks -= 1;
            }
            self.delete_chunk(place).await;
        }
        let partial = (new_size % chunk_bytes) as usize;
        if partial != 0 {
            let chunk = FileChunk { object, number: (new_size / chunk_bytes) as u32 + 1 };
            let mut data = vec![0; chunk_bytes as usize];
            self.read_file_chunk(chunk, &mut data).await;
            // The bytes behind the end are zeroed on the medium: a file that grows again would show
            // them.
            data[partial..].fill(0);
            // The reserve is for this; if even that is used up the chunk keeps its old bytes.
            let _ = self.write_file_chunk(chunk, &data, partial as u32, true).await;
        }
        if let Some(file) = self.objects.get_mut(object).and_then(Object::file_mut) {
            file.size_bytes = new_size;
            file.stored_bytes = new_size;
        }
        debug_assert!(
            self.objects.get(object).and_then(Object::file).is_none_or(|file| {
                file.tree.chunks().last().is_none_or(|(chunk, _)| u64::from(*chunk) < first)
            }),
            "object {object} has no chunk behind {new_size} bytes"
        );
        self.with_tree(object, super::tnodes::ChunkTree::prune);
    }

    /// Frees every chunk of a file, also those behind its end.
    pub(crate) async fn drop_all_chunks(&mut self, object: u32) {
        let file = self.objects.get(object).and_then(Object::file);
        let chunks = file.map(|file| file.tree.chunks()).unwrap_or_default();
        for (chunk, place) in chunks.into_iter().rev() {
            self.with_tree(object, |tree| tree.set(chunk, 0));
            self.delete_chunk(place).await;
        }
        if let Some(object) = self.objects.get_mut(object) {
            object.data_chunks = 0;
        }
    }

    /// Changes the size of a file.
    ///
    /// # Errors
    /// [`Errno::Enospc`], if the header cannot be written.
    pub(crate) async fn resize_file(&mut self, object: u32, new_size: u64) -> Result<(), Errno> {
        self.flush_object_cache(object).await;
        // Flushed and dropped before the size changes: a slot behind the new end would be written
        // back later, and grow the file.
        self.cache.drop_object(object);
        self.check_collect(false).await;
        let old_size = self.file_size(object);
        if new_size == old_size {
            return Ok(());
        }
        if new_size > old_size {
            self.fill_hole(object, new_size).await;
            if let Some(file) = self.objects.get_mut(object).and_then(Object::file_mut) {
                file.size_bytes = new_size;
            }
        } else {
            self.shrink_file(object, new_size).await;
        }
        // A file without a name gets no header: the one that deletes it follows, and its parent
        // says that all chunks are void. A shadowed one must not rise above the header that shadows
        // it.
        let stays =
            self.objects.get(object).is_some_and(|object| !object.is_gone() && !object.is_shadowed);
        if stays {
            self.update_header(object, Update::default()).await?;
        }
        Ok(())
    }

    /// Writes what the cache holds of a file, and its header if it changed (`yaffs_flush_file`); `data_only`
    /// leaves the header out.
    ///
    /// # Errors
    /// [`Errno::Enospc`], if the header cannot be written; the cache is written all the same.
    pub(crate) async fn flush_file(&mut self, object: u32, data_only: bool) -> Result<(), Errno> {
        if !self.objects.get(object).is_some_and(|object| object.is_dirty) {
            return Ok(());
        }
        self.flush_object_cache(object).await;
        if data_only {
            return Ok(());
        }
        let now = self.now;
        if let Some(object) = self.objects.get_mut(object) {
            object.times[1] = now;
        }
        self.update_header(object, Update::default()).await
    }
}
