//! A log (partial segment) that is being made: what is in it, and how it goes to the medium.
//!
//! Source: `fs/nilfs2/segbuf.c`, and the summary's part of `segment.c`.
//!
//! May use: `engine`, `file`, `records`, `summary`.

use crate::engine::{Engine, Geometry};
use crate::file::{Buffer, File};
use crate::records::{CPFILE_INODE, DAT_INODE, SUFILE_INODE};
use crate::summary::{
    self, Cursor, FILE_INFO_BYTES, FileInfo, HEADER_BYTES, LOG_SUPER_ROOT, LogHeader,
    block_info_bytes, encode_summary,
};
use block_medium::{Pending, WriteFlags};
use fs_api::Errno;
use std::rc::Rc;

/// Blocks of a file in a log, in order: data, then nodes.
pub(crate) struct LogFile {
    pub(crate) file: Rc<File>,
    pub(crate) blocks: Vec<Rc<Buffer>>,
    info: FileInfo,
}

/// A log that is being made (`struct nilfs_segment_buffer`).
pub(crate) struct Log {
    pub(crate) segment: u64,
    /// First block of the segment.
    pub(crate) segment_start: u64,
    /// First block of the log.
    pub(crate) start: u64,
    /// Blocks that the segment has left for it.
    pub(crate) rest_blocks: u64,
    pub(crate) next_segment: u64,
    pub(crate) sequence: u64,
    pub(crate) flags: u16,
    pub(crate) created: u64,
    pub(crate) checkpoint: u64,
    pub(crate) files: Vec<LogFile>,
    cursor: Cursor,
    summary_blocks: u64,
    payload_blocks: u64,
    is_file_open: bool,
    pub(crate) super_root: Option<Vec<u8>>,
}

impl Log {
    /// An empty log at a block of a segment.
    pub(crate) fn new(engine: &Engine, segment: u64, start: u64, sequence: u64) -> Self {
        let (segment_start, end) = engine.geometry.segment_range(segment);
        debug_assert!(
            (segment_start..=end + 1).contains(&start),
            "block {start} is one of segment {segment}"
        );
        let block_bytes = engine.geometry.block_bytes as usize;
        Self {
            segment,
            segment_start,
            start,
            rest_blocks: end + 1 - start,
            next_segment: 0,
            sequence,
            flags: 0,
            created: 0,
            checkpoint: 0,
            files: Vec::new(),
            cursor: Cursor::new(HEADER_BYTES, block_bytes),
            summary_blocks: 1,
            payload_blocks: 0,
            is_file_open: false,
            super_root: None,
        }
    }

    /// Begins it anew (`nilfs_segbuf_reset`).
    pub(crate) fn reset(&mut self, flags: u16, created: u64, checkpoint: u64, block_bytes: u64) {
        self.flags = flags;
        self.created = created;
        self.checkpoint = checkpoint;
        self.files.clear();
        self.cursor = Cursor::new(HEADER_BYTES, block_bytes as usize);
        (self.summary_blocks, self.payload_blocks) = (1, 0);
        self.is_file_open = false;
        self.super_root = None;
    }

    /// Blocks of the log so far, summary included.
    pub(crate) fn blocks(&self) -> u64 {
        self.summary_blocks + self.payload_blocks
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.payload_blocks == 0
    }

    /// Takes a block in; false if there is no room.
    pub(crate) fn add(&mut self, file: &Rc<File>, buffer: &Rc<Buffer>) -> bool {
        let bytes = block_info_bytes(file.number, buffer.is_node);
        let opening = if self.is_file_open { 0 } else { FILE_INFO_BYTES };
        let needs_block = self.cursor.needs_block(bytes + opening);
        // Room for the block itself and, where the summary is full, for one more summary block.
        if self.blocks() + u64::from(needs_block) + 1 > self.rest_blocks {
            self.is_file_open = false;
            return false;
        }
        self.summary_blocks += u64::from(needs_block);
        if !self.is_file_open {
            self.cursor.take(FILE_INFO_BYTES);
            let checkpoint = match (file.cleaned_checkpoint, file.number) {
                (Some(checkpoint), _) => checkpoint,
                // These files belong to no checkpoint, and the kernel writes zero for them
                // (`nilfs_segctor_begin_finfo`).
                (None, DAT_INODE | CPFILE_INODE | SUFILE_INODE) => 0,
                _ => self.checkpoint,
            };
            let info = FileInfo { inode: file.number, checkpoint, ..FileInfo::default() };
            self.files.push(LogFile { file: file.clone(), blocks: Vec::new(), info });
            self.is_file_open = true;
        }
        self.cursor.take(bytes);
        let last = self.files.last_mut().expect("a file is open");
        last.blocks.push(buffer.clone());
        debug_assert!(
            buffer.is_node || last.info.data_blocks as usize + 1 == last.blocks.len(),
            "data of inode {} comes before its nodes",
            file.number
        );
        last.info.data_blocks += u32::from(!buffer.is_node);
        self.payload_blocks += 1;
        debug_assert!(self.blocks() <= self.rest_blocks, "a log ends within its segment");
        true
    }

    /// No more blocks of the file that was open.
    pub(crate) fn close_file(&mut self) {
        self.is_file_open = false;
    }

    /// Makes room for the super root; false if there is none.
    pub(crate) fn add_super_root(&mut self) -> bool {
        if self.blocks() >= self.rest_blocks {
            return false;
        }
        self.payload_blocks += 1;
        debug_assert!(self.blocks() <= self.rest_blocks, "a log ends within its segment");
        self.flags |= LOG_SUPER_ROOT;
        true
    }

    /// Places of all blocks (`nilfs_segctor_assign`).
    pub(crate) async fn assign(&mut self, engine: &Engine) -> Result<(), Errno> {
        // Only now is the length of the summary known, and with it where the payload begins.
        let mut block = self.start + self.summary_blocks;
        for part in &mut self.files {
            part.info.blocks.clear();
            for buffer in &part.blocks {
                let info = engine.assign(&part.file, buffer, block).await?;
                part.info.blocks.push(info);
                block += 1;
            }
        }
        let has_super_root = u64::from(self.flags & LOG_SUPER_ROOT != 0);
        debug_assert_eq!(
            block + has_super_root,
            self.start + self.blocks(),
            "every block of the log has its place"
        );
        Ok(())
    }

    /// The bytes of the log, checksummed. Its blocks are clean from now on.
    pub(crate) fn encode(&self, engine: &Engine) -> Vec<u8> {
        let geometry = &engine.geometry;
        let block_bytes = geometry.block_bytes as usize;
        let mut header = LogHeader {
            flags: self.flags,
            sequence: self.sequence,
            created: self.created,
            next: geometry.segment_range(self.next_segment).0,
            blocks: self.blocks() as u32,
            checkpoint: self.checkpoint,
            ..LogHeader::default()
        };
        let infos: Vec<FileInfo> = self.files.iter().map(|part| part.info.clone()).collect();
        let mut bytes = encode_summary(&mut header, &infos, block_bytes);
        debug_assert!(
            bytes.len() <= self.summary_blocks as usize * block_bytes,
            "a summary of {} bytes has the {} blocks that were kept for it",
            bytes.len(),
            self.summary_blocks
        );
        // The whole log at once, or the last doubling would leave room for another one.
        bytes.reserve_exact(self.blocks() as usize * block_bytes - bytes.len());
        bytes.resize(self.summary_blocks as usize * block_bytes, 0);
        for buffer in self.files.iter().flat_map(|part| &part.blocks) {
            buffer.look(|contents| bytes.extend_from_slice(contents));
            // The bytes are copied: a change after this belongs to the next log.
            buffer.is_dirty.set(false);
            buffer.is_volatile.set(false);
        }
        if let Some(super_root) = &self.super_root {
            bytes.extend_from_slice(super_root);
        }
        // The checksum covers all blocks of the log, so a log that was torn anywhere counts as not
        // written.
        summary::seal(&mut bytes, header.summary_bytes, geometry.checksum_seed);
        debug_assert_eq!(bytes.len() as u64, self.blocks() * geometry.block_bytes, "a whole log");
        self.assert_readable(&bytes, &infos, geometry);
        bytes
    }

    /// Recovery and the cleaner read from the bytes what was put in.
    #[inline]
    fn assert_readable(&self, bytes: &[u8], infos: &[FileInfo], geometry: &Geometry) {
        if !cfg!(debug_assertions) {
            return;
        }
        let block_bytes = geometry.block_bytes as usize;
        let found = LogHeader::decode(&bytes[..block_bytes]).expect("a log has a header");
        assert!(found.is_intact(bytes, geometry.checksum_seed), "the sums of {found:?}");
        assert_eq!(
            (found.sequence, u64::from(found.blocks), found.flags),
            (self.sequence, self.blocks(), self.flags),
            "the header of the log at block {}",
            self.start
        );
        let files = summary::decode_files(&found, bytes, block_bytes).expect("a log has a summary");
        assert_eq!(files.len(), infos.len(), "files of the log at block {}", self.start);
        for (found, info) in files.iter().zip(infos) {
            assert_eq!(
                (found.inode, found.checkpoint, found.data_blocks, found.blocks.len()),
                (info.inode, info.checkpoint, info.data_blocks, info.blocks.len()),
                "a file of the log at block {}",
                self.start
            );
        }
    }

    /// Submits the log: bios as long as the queue takes them, the last one marked as waited for.
    pub(crate) async fn submit(
        &self,
        engine: &Engine,
        bytes: Vec<u8>,
    ) -> Result<Vec<Pending<'static, ()>>, Errno> {
        let block_bytes = engine.geometry.block_bytes;
        let bio_bytes = (u64::from(engine.medium.bio_blocks_max()) * block_bytes) as usize;
        let mut pending = Vec::new();
        let mut bios = bytes.chunks(bio_bytes).peekable();
        let mut block = self.start;
        while let Some(bio) = bios.next() {
            // `nilfs_segbuf_write` marks only its last bio as synchronous, which makes the
            // scheduler send the rest along.
            let flags = WriteFlags { is_sync: bios.peek().is_none(), ..WriteFlags::default() };
            let taken = engine.medium.write(block, bio.to_vec(), flags).await;
            pending.push(taken.map_err(|error| engine.failed(error))?);
            block += bio.len() as u64 / block_bytes;
        }
        debug_assert_eq!(block, self.start + self.blocks(), "bios hold the whole log");
        self.keep_once(engine);
        Ok(pending)
    }

    /// Tells the device which blocks of the log are in the page cache, too.
    fn keep_once(&self, engine: &Engine) {
        let buffers = self.files.iter().flat_map(|part| &part.blocks);
        for (block, buffer) in (self.start + self.summary_blocks..).zip(buffers) {
            if let Some(page) = &*buffer.page.borrow() {
                engine.medium.keep_once(block, page);
            }
        }
    }
}

#[cfg(test)]
impl Log {
    /// A log of two blocks, at a block of its segment.
    pub(crate) fn of_two_blocks(segment: u64, start: u64, sequence: u64) -> Self {
        Self {
            segment,
            segment_start: segment * 32,
            start,
            rest_blocks: (segment + 1) * 32 - start,
            next_segment: segment + 1,
            sequence,
            flags: 0,
            created: 0,
            checkpoint: 0,
            files: Vec::new(),
            cursor: Cursor::new(HEADER_BYTES, 4096),
            summary_blocks: 1,
            payload_blocks: 1,
            is_file_open: false,
            super_root: None,
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::Log;

    #[test]
    fn a_super_root_needs_a_block_of_the_segment() {
        let mut log = Log::of_two_blocks(3, 4 * 32 - 3, 1);
        assert!(log.add_super_root(), "one block is left");
        assert!(!log.add_super_root(), "none is left");
    }
}
