//! The device of a mount: its parameters, its state in memory, and how chunks are read and written.
//!
//! Source: `yaffs_nand.c`, `yaffs_tagsmarshall.c`.
//!
//! May use: `blocks`, `cache`, `collector`, `header`, `objects`, `options`, `profile`, `statistics`, `tags`,
//! `tnodes`.

use crate::blocks::Blocks;
use crate::cache::ChunkCache;
use crate::collector::Collector;
use crate::header::HeaderForm;
use crate::objects::Objects;
use crate::options::{MountOptions, TagsPlace};
use crate::profile::Profile;
use crate::statistics::{Finding, Statistics};
use crate::tags::{EccResult, SummaryEntry, TAGS_BYTES, TAGS_ECC_BYTES, Tags};
use crate::tnodes::ChunkTree;
use mtd::{Mtd, MtdError, OobMode};
use sim::Cpus;
use std::rc::Rc;

/// The checkpoint on the medium.
#[derive(Clone, Debug, Default)]
pub(crate) struct CheckpointState {
    /// What is in memory is on the medium.
    pub(crate) is_current: bool,
    pub(crate) blocks_in: u32,
    /// Blocks that the next one needs, if that is known.
    pub(crate) blocks_required: Option<u32>,
}

/// A chunk by its block, as the mount numbers them, and its page within the block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPage {
    pub(crate) block: u32,
    pub(crate) page: u32,
}

/// Why a chunk was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteFailure {
    /// The chip said that the program failed.
    Program,
    /// The chip refused it: the page was not erased, or its last erase was cut.
    NotErased,
}

/// A device (`struct yaffs_dev`). One lock guards all of it (`gross_lock`).
pub(crate) struct Device {
    pub(crate) mtd: Rc<Mtd>,
    pub(crate) cpus: Rc<Cpus>,
    pub(crate) options: MountOptions,
    pub(crate) profile: &'static Profile,
    pub(crate) pages_per_block: u32,
    /// Bytes of data in a chunk.
    pub(crate) chunk_bytes: u32,
    pub(crate) blocks: Blocks,
    pub(crate) erased_blocks: i32,
    pub(crate) free_chunks: i32,
    pub(crate) alloc_block: Option<u32>,
    pub(crate) alloc_page: u32,
    pub(crate) alloc_finder: u32,
    pub(crate) sequence: u32,
    pub(crate) oldest_dirty: Option<(u32, u32)>,
    pub(crate) collector: Collector,
    pub(crate) checkpoint: CheckpointState,
    pub(crate) summary: Vec<SummaryEntry>,
    pub(crate) objects: Objects,
    pub(crate) tree_nodes: u64,
    pub(crate) cache: ChunkCache,
    pub(crate) deleted_files: u32,
    pub(crate) statistics: Statistics,
    pub(crate) findings: Vec<Finding>,
    pub(crate) is_read_only: bool,
    pub(crate) is_unmounted: bool,
    /// The accounts agreed when the mount ended. Those of a damaged checkpoint or summary are believed as
    /// they are, as the real code does, and prove nothing.
    pub(crate) has_sound_accounts: bool,
    /// Seconds, of the last caller's clock.
    pub(crate) now: i64,
    pub(crate) cpu_debt_ps: u64,
    /// Memory for a chunk, see [`Device::chunk_room`].
    chunk_room: Vec<u8>,
}

impl Device {
    pub(crate) fn new(mtd: Rc<Mtd>, cpus: Rc<Cpus>, options: MountOptions, now: i64) -> Self {
        let geometry = mtd.geometry();
        let pages_per_block = geometry.pages_per_block;
        let inband = if options.tags == TagsPlace::Inband { TAGS_BYTES as u32 } else { 0 };
        let chunk_bytes = geometry.page_data_bytes - inband;
        let blocks = Blocks::new(geometry.blocks, pages_per_block);
        let mut device = Self {
            profile: options.profile,
            pages_per_block,
            chunk_bytes,
            blocks,
            erased_blocks: 0,
            free_chunks: 0,
            alloc_block: None,
            alloc_page: 0,
            alloc_finder: options.kept.alloc_finder.get(),
            sequence: 0,
            oldest_dirty: None,
            collector: Collector::default(),
            checkpoint: CheckpointState::default(),
            summary: Vec::new(),
            objects: Objects::new(now, options.kept.clone()),
            tree_nodes: 0,
            cache: ChunkCache::new(options.caches, chunk_bytes),
            deleted_files: 0,
            statistics: Statistics::default(),
            findings: Vec::new(),
            is_read_only: options.is_read_only,
            is_unmounted: false,
            has_sound_accounts: false,
            now,
            cpu_debt_ps: 0,
            chunk_room: Vec::new(),
            mtd,
            cpus,
            options,
        };
        device.summary_clear();
        device
    }

    /// Forgets all that was learnt from the medium.
    pub(crate) fn reset(&mut self) {
        self.blocks = Blocks::new(self.blocks.count(), self.pages_per_block);
        self.objects = Objects::new(self.now, self.options.kept.clone());
        self.tree_nodes = 0;
        self.erased_blocks = 0;
        self.free_chunks = 0;
        self.alloc_block = None;
        self.alloc_page = 0;
        self.deleted_files = 0;
        self.checkpoint.blocks_required = None;
        self.has_sound_accounts = false;
    }

    pub(crate) fn header_form(&self) -> HeaderForm {
        HeaderForm {
            is_wide: self.profile.has_wide_headers,
            inband: self.options.tags == TagsPlace::Inband,
        }
    }

    pub(crate) fn block_of(&self, chunk: u32) -> u32 {
        chunk / self.pages_per_block
    }

    /// Page of the device that a chunk is.
    fn page_of(&self, chunk: u32) -> u32 {
        chunk - Blocks::FIRST * self.pages_per_block
    }

    /// Block of the device that a block is.
    pub(crate) fn device_block(block: u32) -> u32 {
        block - Blocks::FIRST
    }

    pub(crate) fn chunk(&self, at: BlockPage) -> u32 {
        debug_assert!(at.page < self.pages_per_block, "{at:?}");
        at.block * self.pages_per_block + at.page
    }

    pub(crate) fn report(&mut self, finding: Finding) {
        const FINDINGS_MAX: usize = 1000;
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Pays the processor time that has gathered.
    pub(crate) async fn pay(&mut self) {
        let cost_ns = self.cpu_debt_ps / 1000;
        if cost_ns > 0 {
            self.cpu_debt_ps %= 1000;
            self.cpus.run(cost_ns).await;
        }
    }

    pub(crate) fn charge_copy(&mut self, bytes: usize) {
        self.cpu_debt_ps += bytes as u64 * self.options.costs.copy_ps_per_byte;
    }

    /// Reads tags, and the data if wanted; errors are not held against the block.
    pub(crate) async fn read_raw(
        &mut self,
        chunk: u32,
        data: Option<&mut [u8]>,
    ) -> (Tags, EccResult) {
        self.pay().await;
        let page = self.page_of(chunk);
        self.statistics.page_reads += 1;
        if self.options.tags == TagsPlace::Inband {
            return self.read_inband(page, data).await;
        }
        let mut oob = [0xff; TAGS_ECC_BYTES];
        let has_ecc = self.options.tags == TagsPlace::SpareWithEcc;
        let oob_bytes = if has_ecc { TAGS_ECC_BYTES } else { TAGS_BYTES };
        let read = self.mtd.read_oob(page, data, &mut oob[..oob_bytes], 0, OobMode::Auto).await;
        let (tags, tags_result) = if has_ecc {
            Tags::from_bytes_with_ecc(&oob)
        } else {
            let mut bytes = [0; TAGS_BYTES];
            bytes.copy_from_slice(&oob[..TAGS_BYTES]);
            (Tags::from_bytes(&bytes), EccResult::Clean)
        };
        // The worse of both decides: a page whose data could not be corrected is bad though its
        // tags are good.
        (tags, tags_result.max(data_result(read)))
    }

    async fn read_inband(&mut self, page: u32, data: Option<&mut [u8]>) -> (Tags, EccResult) {
        let chunk_bytes = self.chunk_bytes as usize;
        let mut whole = vec![0; chunk_bytes + TAGS_BYTES];
        let read = self.mtd.read(u64::from(page) * whole.len() as u64, &mut whole).await;
        let mut bytes = [0; TAGS_BYTES];
        bytes.copy_from_slice(&whole[chunk_bytes..]);
        if let Some(data) = data {
            data.copy_from_slice(&whole[..chunk_bytes]);
        }
        (Tags::from_bytes(&bytes), data_result(read))
    }

    /// Reads the tags of a chunk.
    pub(crate) async fn read_tags(&mut self, chunk: u32) -> (Tags, EccResult) {
        let (tags, result) = self.read_raw(chunk, None).await;
        self.note_result(chunk, result);
        (tags, result)
    }

    /// Memory for a chunk that is read whole for a few of its bytes: zeros, as the number of a chunk may be
    /// damaged, and then nothing is read. It is given back by [`Device::return_room`] for the next one, since
    /// mounts read the header of every object.
    pub(crate) fn chunk_room(&mut self) -> Vec<u8> {
        let mut room = std::mem::take(&mut self.chunk_room);
        room.clear();
        room.resize(self.chunk_bytes as usize, 0);
        room
    }

    pub(crate) fn return_room(&mut self, room: Vec<u8>) {
        self.chunk_room = room;
    }

    /// Reads a chunk. What the ECC gives up is handed on as it is, as the real one does.
    pub(crate) async fn read_chunk(&mut self, chunk: u32, data: &mut [u8]) -> (Tags, EccResult) {
        let (tags, result) = self.read_raw(chunk, Some(data)).await;
        self.note_result(chunk, result);
        (tags, result)
    }

    /// A chunk that was not clean brings its block closer to being collected, then retired.
    ///
    /// Source: `yaffs_handle_chunk_error`.
    fn note_result(&mut self, chunk: u32, result: EccResult) {
        if result == EccResult::Clean {
            return;
        }
        let block = self.block_of(chunk);
        if result == EccResult::Unfixed {
            self.statistics.unfixed_chunks += 1;
            self.report(Finding::Unreadable { chunk });
        } else {
            self.statistics.fixed_chunks += 1;
        }
        self.note_chunk_error(block);
    }

    pub(crate) fn note_chunk_error(&mut self, block: u32) {
        let info = self.blocks.get_mut(block);
        if !info.is_prioritised {
            info.is_prioritised = true;
            // Three bits on media. Not raised again before the block is erased (`gc_prioritise`),
            // so many reads of one weak page are one strike.
            info.error_strikes = (info.error_strikes + 1).min(7);
            if info.error_strikes > 3 {
                info.needs_retiring = true;
            }
            self.collector.has_prioritised = true;
        }
    }

    /// Writes a chunk, and nothing else.
    pub(crate) async fn write_raw(
        &mut self,
        chunk: u32,
        data: &[u8],
        tags: &Tags,
    ) -> Result<(), WriteFailure> {
        self.pay().await;
        self.statistics.page_writes += 1;
        let page = self.page_of(chunk);
        debug_assert_eq!(data.len(), self.chunk_bytes as usize, "a whole chunk is written");
        let written = match self.options.tags {
            TagsPlace::SpareWithEcc => {
                let oob = tags.to_bytes_with_ecc();
                self.mtd.write_oob(page, Some(data), &oob, 0, OobMode::Auto).await
            }
            TagsPlace::Spare => {
                let oob = tags.to_bytes();
                self.mtd.write_oob(page, Some(data), &oob, 0, OobMode::Auto).await
            }
            TagsPlace::Inband => {
                let mut whole = data.to_vec();
                whole.extend_from_slice(&tags.to_bytes());
                self.mtd.write(u64::from(page) * whole.len() as u64, &whole).await
            }
        };
        written.map_err(|error| match error {
            MtdError::Failed(_) | MtdError::BadBlock { .. } => WriteFailure::Program,
            // A real chip would program over what stands there. The simulated one refuses, which is
            // treated like a failed check for an erased page.
            MtdError::Rule(_) | MtdError::Invalid { .. } => WriteFailure::NotErased,
        })
    }

    /// Changes the tree of a file, and keeps count of its nodes.
    pub(crate) fn with_tree<T>(
        &mut self,
        object: u32,
        change: impl FnOnce(&mut ChunkTree) -> T,
    ) -> Option<T> {
        let tree = &mut self.objects.get_mut(object)?.file_mut()?.tree;
        let before = tree.node_count();
        let result = change(tree);
        let after = tree.node_count();
        if before != after {
            self.tree_nodes = self.tree_nodes + u64::from(after) - u64::from(before);
            self.checkpoint.blocks_required = None;
        }
        Some(result)
    }
}

fn data_result(read: Result<mtd::ReadStatus, MtdError>) -> EccResult {
    match read {
        Ok(status) if !status.is_readable() => EccResult::Unfixed,
        Ok(status) if status.corrected_bits > 0 => EccResult::Fixed,
        Ok(_) => EccResult::Clean,
        Err(_) => EccResult::Unfixed,
    }
}
