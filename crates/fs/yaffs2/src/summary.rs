//! Block summaries: the last chunks of a block repeat the tags of all others, so that a scan needs
//! one read for a full block.
//!
//! Source: `yaffs_summary.c`: twelve bytes a chunk, and a head of sixteen before each chunk's share.
//!
//! May use: `device`, `format`, `tags`.

use crate::device::{BlockPage, Device};
use crate::format::OBJECT_SUMMARY;
use crate::tags::{EccResult, Tags};

const ENTRY_BYTES: usize = 12;
/// Version, block, sequence number, sum.
const HEAD_BYTES: usize = 16;
const HEAD_VERSION: u32 = 1;

fn words_of(bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks_exact(4);
    words.map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

impl Device {
    /// Chunks of a summary. `yaffs_summary_init` divides what all chunks of a block would take, rounded
    /// up by a whole chunk, by the room beside the head that each chunk of the summary begins with.
    fn summary_pages(&self) -> u32 {
        let bytes = self.pages_per_block as usize * ENTRY_BYTES;
        let chunk_bytes = self.chunk_bytes as usize;
        // The sum that is rounded up and the room that divides it differ by the head: with some
        // geometries a chunk more than needed is given up. Media depend on it.
        ((bytes + chunk_bytes - 1) / (chunk_bytes - HEAD_BYTES)) as u32
    }

    /// Chunks of a block before its summary.
    pub(crate) fn chunks_before_summary(&self) -> u32 {
        self.pages_per_block - self.summary_pages()
    }

    fn has_summaries(&self) -> bool {
        self.profile.has_summaries && self.options.writes_summaries
    }

    pub(crate) fn summary_clear(&mut self) {
        self.summary = vec![[0; 3]; self.chunks_before_summary() as usize];
    }

    /// The entries as they are stored, and the head that stands before each chunk's share of them.
    fn summary_bytes(&self, block: u32, sequence: u32) -> (Vec<u8>, [u8; HEAD_BYTES]) {
        let body: Vec<u8> =
            self.summary.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let sum = body.iter().fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
        let mut head = [0; HEAD_BYTES];
        for (place, word) in head.chunks_exact_mut(4).zip([HEAD_VERSION, block, sequence, sum]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        (body, head)
    }

    /// Notes the tags of a chunk that was written; after the last one the summary is written.
    pub(crate) async fn summary_add(&mut self, chunk: u32, tags: &Tags) {
        if !self.has_summaries() {
            return;
        }
        let page = chunk % self.pages_per_block;
        let Some(entry) = self.summary.get_mut(page as usize) else { return };
        // Packed, so that a scan gets the extra info of headers too; the sequence number is the
        // block's.
        *entry = tags.packed();
        if page + 1 == self.chunks_before_summary() {
            self.summary_write(self.block_of(chunk)).await;
            self.summary_clear();
            // The block is full though its last pages went past the allocator.
            self.skip_rest_of_block();
        }
    }

    /// Bytes of entries in a chunk of a summary.
    fn summary_share(&self) -> usize {
        self.chunk_bytes as usize - HEAD_BYTES
    }

    async fn summary_write(&mut self, block: u32) {
        debug_assert_eq!(
            self.summary.len(),
            self.chunks_before_summary() as usize,
            "a summary has an entry for each chunk before it"
        );
        let sequence = self.blocks.get(block).sequence;
        let (body, head) = self.summary_bytes(block, sequence);
        let mut is_written = true;
        let pages = (self.chunks_before_summary()..).zip(1..);
        for ((page, number), part) in pages.zip(body.chunks(self.summary_share())) {
            let end = HEAD_BYTES + part.len();
            let mut data = vec![0xff; self.chunk_bytes as usize];
            data[..HEAD_BYTES].copy_from_slice(&head);
            data[HEAD_BYTES..end].copy_from_slice(part);
            let mut tags = Tags::data(OBJECT_SUMMARY, number, end as u32);
            tags.sequence = sequence;
            // Written at its fixed place, not through `write_new_chunk`: there is no second place
            // for it, and a block without a summary is only slower to mount.
            let chunk = self.chunk(BlockPage { block, page });
            if self.write_raw(chunk, &data, &tags).await.is_err() {
                is_written = false;
                break;
            }
            self.blocks.set_used(chunk);
            self.blocks.get_mut(block).pages_in_use += 1;
            self.free_chunks -= 1;
        }
        if is_written {
            self.blocks.get_mut(block).has_summary = true;
        }
        self.assert_block(block);
    }

    /// Reads the summary of a block while scanning; whether there is one that can be used.
    pub(crate) async fn summary_read(&mut self, block: u32) -> bool {
        if !self.has_summaries() {
            return false;
        }
        let body_bytes = self.chunks_before_summary() as usize * ENTRY_BYTES;
        let (mut head, mut body) = (Vec::new(), Vec::new());
        for (page, number) in (self.chunks_before_summary()..self.pages_per_block).zip(1..) {
            let wanted = HEAD_BYTES + (body_bytes - body.len()).min(self.summary_share());
            if wanted == HEAD_BYTES {
                break;
            }
            let chunk = self.chunk(BlockPage { block, page });
            let mut data = self.chunk_room();
            let (tags, result) = self.read_chunk(chunk, &mut data).await;
            let is_summary = !tags.is_unused()
                && result != EccResult::Unfixed
                && (tags.object, tags.chunk, tags.bytes) == (OBJECT_SUMMARY, number, wanted as u32);
            if !is_summary {
                self.return_room(data);
                return false;
            }
            // Counted as in use even if the summary is of no use in the end (`yaffs_summary_read`).
            self.blocks.set_used(chunk);
            self.blocks.get_mut(block).pages_in_use += 1;
            head = words_of(&data[..HEAD_BYTES]);
            body.extend_from_slice(&data[HEAD_BYTES..wanted]);
            self.return_room(data);
        }
        if body.len() < body_bytes {
            return false;
        }
        let sum = body.iter().fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
        let sequence = self.blocks.get(block).sequence;
        // The block's own number in the head is not asked for: an image may have been moved.
        if [head[0], head[2], head[3]] != [HEAD_VERSION, sequence, sum] {
            return false;
        }
        for (entry, words) in self.summary.iter_mut().zip(words_of(&body).chunks_exact(3)) {
            *entry = [words[0], words[1], words[2]];
        }
        self.blocks.get_mut(block).has_summary = true;
        true
    }

    /// The chunks of a summary are no longer in use: its block is being collected.
    pub(crate) fn summary_release(&mut self, block: u32) {
        if !self.blocks.get(block).has_summary {
            return;
        }
        for page in self.chunks_before_summary()..self.pages_per_block {
            let chunk = self.chunk(BlockPage { block, page });
            if self.blocks.is_used(chunk) {
                self.blocks.clear_used(chunk);
                self.blocks.get_mut(block).pages_in_use -= 1;
                self.free_chunks += 1;
            }
        }
        self.assert_block(block);
    }
}
