//! Block summaries: the last chunks of a block repeat the tags of all others, so that a scan needs
//! one read for a full block.
//!
//! Source: `yaffs_summary.c` of the direct library: twelve bytes a chunk, without the head that
//! other trees put before them.

use crate::device::Device;
use crate::format::OBJECT_SUMMARY;
use crate::tags::{EccResult, Tags};

/// Tags of a chunk as a summary holds them: object, chunk, bytes.
pub(crate) type SummaryEntry = [u32; 3];

const ENTRY_BYTES: usize = 12;
/// Version, block, sequence number, sum.
const HEAD_BYTES: usize = 16;
const HEAD_VERSION: u32 = 1;

impl Device {
    fn summary_pages(&self) -> u32 {
        let bytes = self.pages_per_block as usize * ENTRY_BYTES;
        (bytes + HEAD_BYTES).div_ceil(self.chunk_bytes as usize) as u32
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

    fn summary_bytes(&self, block: u32, sequence: u32) -> Vec<u8> {
        let body: Vec<u8> =
            self.summary.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        let sum = body.iter().fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
        let mut bytes: Vec<u8> = [HEAD_VERSION, block, sequence, sum]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        bytes.extend_from_slice(&body);
        bytes
    }

    /// Notes the tags of a chunk that was written; after the last one the summary is written.
    pub(crate) async fn summary_add(&mut self, chunk: u32, tags: &Tags) {
        if !self.has_summaries() {
            return;
        }
        let page = chunk % self.pages_per_block;
        let Some(entry) = self.summary.get_mut(page as usize) else { return };
        *entry = tags.packed();
        if page + 1 == self.chunks_before_summary() {
            self.summary_write(self.block_of(chunk)).await;
            self.summary_clear();
            self.skip_rest_of_block();
        }
    }

    async fn summary_write(&mut self, block: u32) {
        let sequence = self.blocks.get(block).sequence;
        let bytes = self.summary_bytes(block, sequence);
        let mut is_written = true;
        let pages = (self.chunks_before_summary()..).zip(1..);
        for ((page, number), part) in pages.zip(bytes.chunks(self.chunk_bytes as usize)) {
            let mut data = vec![0xff; self.chunk_bytes as usize];
            data[..part.len()].copy_from_slice(part);
            let mut tags = Tags::data(OBJECT_SUMMARY, number, part.len() as u32);
            tags.sequence = sequence;
            let chunk = self.chunk(block, page);
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
    }

    /// Reads the summary of a block while scanning; whether there is one that can be used.
    pub(crate) async fn summary_read(&mut self, block: u32) -> bool {
        if !self.has_summaries() {
            return false;
        }
        let body_bytes = self.chunks_before_summary() as usize * ENTRY_BYTES;
        let mut bytes = Vec::new();
        let mut used = Vec::new();
        let total = HEAD_BYTES + body_bytes;
        for (page, number) in (self.chunks_before_summary()..self.pages_per_block).zip(1..) {
            let wanted = (total - bytes.len()).min(self.chunk_bytes as usize);
            if wanted == 0 {
                break;
            }
            let chunk = self.chunk(block, page);
            let mut data = vec![0; self.chunk_bytes as usize];
            let (tags, result) = self.read_chunk(chunk, &mut data).await;
            let is_summary = !tags.is_unused()
                && result != EccResult::Unfixed
                && (tags.object, tags.chunk, tags.bytes) == (OBJECT_SUMMARY, number, wanted as u32);
            if !is_summary {
                break;
            }
            used.push(chunk);
            bytes.extend_from_slice(&data[..wanted]);
        }
        if bytes.len() < total {
            return false;
        }
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let sum =
            bytes[HEAD_BYTES..].iter().fold(0_u32, |sum, byte| sum.wrapping_add((*byte).into()));
        let sequence = self.blocks.get(block).sequence;
        if [word(0), word(4), word(8), word(12)] != [HEAD_VERSION, block, sequence, sum] {
            return false;
        }
        for (index, entry) in self.summary.iter_mut().enumerate() {
            let at = HEAD_BYTES + index * ENTRY_BYTES;
            *entry = [word(at), word(at + 4), word(at + 8)];
        }
        for chunk in used {
            self.blocks.set_used(chunk);
            self.blocks.get_mut(block).pages_in_use += 1;
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
            let chunk = self.chunk(block, page);
            if self.blocks.is_used(chunk) {
                self.blocks.clear_used(chunk);
                self.blocks.get_mut(block).pages_in_use -= 1;
                self.free_chunks += 1;
            }
        }
    }
}
