//! The cache of chunks that were written in part ("short op cache").
//!
//! Source: `yaffs_cache.c`; the older rule of eviction is that of a 2.6.32 tree.
//!
//! May use: `format`.

use crate::format::FileChunk;

/// A chunk in the cache.
#[derive(Clone, Debug)]
pub(crate) struct CacheEntry {
    pub(crate) object: Option<u32>,
    pub(crate) chunk: u32,
    last_use: u64,
    pub(crate) is_dirty: bool,
    /// Bytes that are written.
    pub(crate) bytes: u32,
    pub(crate) data: Vec<u8>,
}

/// The cached chunks of all files, and the clock of their eviction.
#[derive(Clone, Debug)]
pub(crate) struct ChunkCache {
    entries: Vec<CacheEntry>,
    uses: u64,
}

impl ChunkCache {
    pub(crate) fn new(count: u32, chunk_bytes: u32) -> Self {
        /// Most slots that the real code allows (`YAFFS_MAX_SHORT_OP_CACHES`).
        const ENTRIES_MAX: u32 = 20;
        let entry = CacheEntry {
            object: None,
            chunk: 0,
            last_use: 0,
            is_dirty: false,
            bytes: 0,
            data: vec![0; chunk_bytes as usize],
        };
        // More are cut off to 20 without a word (`yaffs_cache_init`).
        Self { entries: vec![entry; count.min(ENTRIES_MAX) as usize], uses: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_off(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn entry(&self, slot: usize) -> &CacheEntry {
        &self.entries[slot]
    }

    pub(crate) fn entry_mut(&mut self, slot: usize) -> &mut CacheEntry {
        &mut self.entries[slot]
    }

    pub(crate) fn find(&self, at: FileChunk) -> Option<usize> {
        let holds =
            |entry: &CacheEntry| (entry.object, entry.chunk) == (Some(at.object), at.number);
        self.entries.iter().position(holds)
    }

    /// Notes a use, for the order of eviction.
    pub(crate) fn touch(&mut self, slot: usize, is_write: bool) {
        debug_assert!(self.entries[slot].object.is_some(), "slot {slot} holds a chunk");
        self.uses += 1;
        self.entries[slot].last_use = self.uses;
        // A read never cleans: only a flush does.
        self.entries[slot].is_dirty |= is_write;
    }

    /// A slot that holds nothing.
    pub(crate) fn unused(&self) -> Option<usize> {
        self.entries.iter().position(|entry| entry.object.is_none())
    }

    /// The slot that was not used for longest.
    pub(crate) fn oldest(&self) -> Option<usize> {
        // The first of equals wins, as in the real loop with `<`. Counted in uses, not in time: a
        // count never stands still.
        (0..self.entries.len()).min_by_key(|slot| self.entries[*slot].last_use)
    }

    /// Slots of an object.
    pub(crate) fn slots_of(&self, object: u32) -> Vec<usize> {
        let all = self.entries.iter().enumerate();
        all.filter(|(_, entry)| entry.object == Some(object)).map(|(slot, _)| slot).collect()
    }

    /// The object of the first dirty slot.
    pub(crate) fn dirty_object(&self) -> Option<u32> {
        let dirty = self.entries.iter().find(|entry| entry.object.is_some() && entry.is_dirty);
        dirty.and_then(|entry| entry.object)
    }

    pub(crate) fn is_object_dirty(&self, object: u32) -> bool {
        self.entries.iter().any(|entry| entry.object == Some(object) && entry.is_dirty)
    }

    /// Chunks that are not on the medium yet.
    pub(crate) fn dirty_count(&self) -> usize {
        // Without asking whether the slot still has an object, see `clear`.
        self.entries.iter().filter(|entry| entry.is_dirty).count()
    }

    /// Drops a chunk, if it is there.
    pub(crate) fn drop_chunk(&mut self, at: FileChunk) {
        if let Some(slot) = self.find(at) {
            self.clear(slot);
        }
    }

    /// Empties a slot. A dirty one goes on counting as dirty until it is used again, as in the real
    /// one (`yaffs_invalidate_file_cache` only clears `object`), so that less space seems free.
    pub(crate) fn clear(&mut self, slot: usize) {
        self.entries[slot].object = None;
    }

    /// Slots hold different chunks, each with whole data.
    ///
    /// # Panics
    /// If they do not.
    pub(crate) fn assert_invariants(&self, chunk_bytes: u32) {
        for (slot, entry) in self.entries.iter().enumerate() {
            assert_eq!(entry.data.len(), chunk_bytes as usize, "data of slot {slot}");
            assert!(entry.bytes <= chunk_bytes, "{} bytes in slot {slot}", entry.bytes);
            let Some(object) = entry.object else { continue };
            assert!(entry.chunk > 0, "chunk 0 of object {object} is its header");
            let at = FileChunk { object, number: entry.chunk };
            assert_eq!(self.find(at), Some(slot), "one slot has a chunk");
        }
    }

    /// Drops all chunks of an object.
    pub(crate) fn drop_object(&mut self, object: u32) {
        for slot in self.slots_of(object) {
            self.clear(slot);
        }
    }
}
