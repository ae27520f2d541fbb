//! The constructor's work: dirty blocks are collected into logs, get their places, and are written.
//!
//! Stages and their order, and what happens when a segment fills, are those of
//! `nilfs_segctor_do_construct` and `nilfs_segctor_collect_blocks` in `fs/nilfs2/segment.c`.
//!
//! May use: `engine`, `file`, `finding`, `log`, `node`, `records`, `summary`.

use crate::engine::Engine;
use crate::file::{Buffer, File};
use crate::finding::Code;
use crate::log::Log;
use crate::records::{CHECKPOINT_MINOR, Checkpoint, INODE_BYTES, SuperRoot};
use crate::summary::{LOG_BEGIN, LOG_CLEANER, LOG_DATA_SYNC, LOG_END};
use block_medium::Pending;
use fs_api::{Errno, Place};
use std::rc::Rc;

// `NILFS_PSEG_MIN_BLOCKS`: a summary and one block.
/// A log has two blocks at least.
const LOG_BLOCKS_MIN: u64 = 2;
// `SC_MAX_SEGDELTA` of `fs/nilfs2/segment.c`.
/// Most segments by which a checkpoint that does not fit is extended at once.
const EXTEND_MAX: usize = 64;

/// What is to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Everything, and a checkpoint.
    Checkpoint,
    /// Data of one file.
    DataSync(u64),
    /// Data of files, to free memory.
    Flush,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Start,
    Cleaner,
    Files,
    Ifile,
    Cpfile,
    Sufile,
    Dat,
    SuperRoot,
    Done,
}

/// How far collecting has come.
#[derive(Clone, Copy, Debug)]
struct Progress {
    stage: Stage,
    file: usize,
    data_is_done: bool,
    has_freed: bool,
}

/// Why collecting stopped before all stages were done.
enum Stop {
    Full,
    Failed(Errno),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

/// One run of the constructor.
pub(crate) struct Construction<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) mode: Mode,
    pub(crate) files: Vec<Rc<File>>,
    pub(crate) cleaned: Vec<Rc<File>>,
    progress: Progress,
    logs: Vec<Log>,
    current: usize,
    pub(crate) created: u64,
    pub(crate) written_blocks: u64,
    ifile_started: bool,
}

impl Engine {
    /// Writes what a mode says; nothing if nothing is dirty. The caller holds the transaction lock
    /// for writing.
    pub(crate) async fn build_logs(&self, mode: Mode) -> Result<(), Errno> {
        let _work = self.sim.work(match mode {
            Mode::Checkpoint => "logs with a checkpoint",
            Mode::DataSync(_) => "logs of a file",
            Mode::Flush => "logs to free memory",
        });
        let files = match mode {
            Mode::DataSync(number) => {
                let dirty = self.dirty_files.borrow();
                dirty.iter().filter(|file| file.number == number).cloned().collect()
            }
            _ => self.dirty_files.borrow().clone(),
        };
        let mut run = Construction {
            engine: self,
            mode,
            files,
            cleaned: self.cleaned_files.borrow().clone(),
            progress: Progress {
                stage: Stage::Start,
                file: 0,
                data_is_done: false,
                has_freed: false,
            },
            logs: Vec::new(),
            current: 0,
            created: self.now_s(),
            written_blocks: 0,
            ifile_started: false,
        };
        // The inode of each dirty file will change with its map, so its block must be dirty before
        // the file of inodes is collected (`nilfs_segctor_collect_dirty_files`).
        if run.mode != Mode::Flush && !matches!(run.mode, Mode::DataSync(_)) {
            for file in run.files.clone() {
                self.touch_inode_block(&file).await?;
            }
        }
        run.build().await
    }

    /// True if there is nothing to write a checkpoint for (`nilfs_segctor_confirm`).
    ///
    /// A metadata file whose map grows while its checkpoint is made, as the file of checkpoints does every
    /// 21 of them, counts as dirty once more: logs are written, but leave the mark on the map
    /// (`nilfs_mdt_fetch_dirty`).
    pub(crate) fn is_clean(&self) -> bool {
        let is_dirty = |file: &Rc<File>| {
            let has_changed = file.map_has_changed.take();
            file.is_dirty.get() || has_changed
        };
        for file in [&self.root.ifile, &self.cpfile, &self.sufile, &self.dat] {
            if is_dirty(file) {
                self.constructor.is_dirty.set(true);
            }
        }
        self.dirty_files.borrow().is_empty()
            && !self.constructor.is_dirty.get()
            && self.constructor.freed_segments.borrow().is_empty()
            && self.cleaned_files.borrow().is_empty()
    }
}

impl Construction<'_> {
    async fn build(&mut self) -> Result<(), Errno> {
        let mut pending: Vec<Pending<'static, ()>> = Vec::new();
        let mut done: Vec<Log> = Vec::new();
        loop {
            // Each round of the loop makes one log, or a chain of logs if the checkpoint needs
            // several segments.
            self.begin(done.last()).await?;
            self.created = self.engine.now_s();
            self.collect().await?;
            if self.progress.stage == Stage::Done && self.logs[0].is_empty() {
                return self.abandon(done.last()).await;
            }
            let logs = std::mem::take(&mut self.logs);
            let written = self.write(logs, &mut pending).await?;
            done.extend(written);
            if self.progress.stage == Stage::Done {
                break;
            }
        }
        // All logs are submitted before the first is waited for. The device may finish them in any
        // order; checksums make each log valid alone.
        for bio in pending {
            bio.await.map_err(|error| self.engine.failed(error))?;
        }
        self.complete(&done);
        Ok(())
    }

    /// A log behind the last one, in the same segment or the next.
    async fn begin(&mut self, previous: Option<&Log>) -> Result<(), Errno> {
        let engine = self.engine;
        let position = engine.position.get();
        let (mut segment, mut sequence, mut start, mut next);
        let takes_next;
        if let Some(log) = previous {
            (segment, sequence, next) = (log.segment, log.sequence, log.next_segment);
            start = log.start + log.blocks();
            takes_next = engine.geometry.segment_range(segment).1 + 1 - start < LOG_BLOCKS_MIN;
            if takes_next {
                segment = next;
                sequence += 1;
            }
        } else {
            (segment, sequence, next) =
                (position.segment, position.sequence, position.next_segment);
            let (first, end) = engine.geometry.segment_range(segment);
            start = first + position.offset;
            if end + 1 - start.min(end + 1) < LOG_BLOCKS_MIN {
                segment = next;
                sequence += 1;
            }
            takes_next = segment == next;
        }
        if takes_next && (previous.is_some() || segment != position.segment) {
            start = engine.geometry.segment_range(segment).0;
        }
        let mut log = Log::new(engine, segment, start, sequence);
        // Only a segment that names itself as the next one can be full here.
        if log.rest_blocks < LOG_BLOCKS_MIN {
            return Err(engine.damaged(
                Code::BadSegment,
                Place::Block(segment),
                format!("segment {segment} is full, and no other follows it"),
            ));
        }
        // In the usage file before the log is written: a mount must never take a segment with logs
        // for a clean one.
        engine.mark_segment_dirty(segment).await?;
        if takes_next {
            // The next segment is allocated one ahead. Each log names it, so recovery can follow
            // the chain into it.
            next = engine.allocate_segment().await?;
        }
        log.next_segment = next;
        self.logs = vec![log];
        self.current = 0;
        Ok(())
    }

    async fn collect(&mut self) -> Result<(), Errno> {
        let before = self.progress;
        let mut extension = 1;
        let counted = self.written_blocks;
        loop {
            // The attempt before may have counted blocks of logs that are made anew.
            self.written_blocks = counted;
            self.current = 0;
            self.reset_log();
            let stop = match self.collect_blocks().await {
                Ok(()) => break,
                Err(stop) => stop,
            };
            match stop {
                Stop::Failed(error) => return Err(error),
                Stop::Full => {}
            }
            // Files can be split: the log ends here and the next one continues. Metadata cannot,
            // because it describes the very segments it lies in.
            if self.mode != Mode::Checkpoint || self.progress.stage < Stage::Cpfile {
                break;
            }
            // What describes the checkpoint has to be in one chain of logs: longer, and again.
            // The extension must not take a segment that this checkpoint gives back: until it is
            // complete, the last one needs it (`nilfs_sufile_cancel_freev` in
            // `nilfs_segctor_collect`).
            self.cancel_freed_segments().await?;
            self.extend(extension).await?;
            extension = (extension * 2).min(EXTEND_MAX);
            self.progress = before;
        }
        // Segments were added by powers of two; those without a block go back
        // (`nilfs_segctor_truncate_segments`).
        for log in self.logs.split_off(self.current + 1) {
            debug_assert!(
                log.is_empty(),
                "segment {} holds blocks of this checkpoint",
                log.segment
            );
            self.engine.free_segment(log.next_segment).await?;
        }
        Ok(())
    }

    /// Takes back the cleaned segments that were given back for this checkpoint: dirty again, with no
    /// block in use (`nilfs_sufile_do_cancel_free`).
    async fn cancel_freed_segments(&mut self) -> Result<(), Errno> {
        if !std::mem::take(&mut self.progress.has_freed) {
            return Ok(());
        }
        let freed = self.engine.constructor.freed_segments.borrow().clone();
        for segment in freed {
            self.engine.mark_segment_dirty(segment).await?;
        }
        Ok(())
    }

    /// Adds segments for logs that do not fit into the first one.
    async fn extend(&mut self, segments: usize) -> Result<(), Errno> {
        for _ in 0..segments {
            let last = self.logs.last().expect("one log at least");
            let (segment, sequence) = (last.next_segment, last.sequence + 1);
            self.engine.mark_segment_dirty(segment).await?;
            let start = self.engine.geometry.segment_range(segment).0;
            let mut log = Log::new(self.engine, segment, start, sequence);
            log.next_segment = self.engine.allocate_segment().await?;
            debug_assert_ne!(log.next_segment, segment, "a segment does not follow itself");
            self.logs.push(log);
        }
        Ok(())
    }

    fn reset_log(&mut self) {
        let flags = if self.cleaned.is_empty() { 0 } else { LOG_CLEANER };
        let checkpoint = self.engine.position.get().checkpoint;
        let block_bytes = self.engine.geometry.block_bytes;
        self.logs[self.current].reset(flags, self.created, checkpoint, block_bytes);
    }

    async fn collect_blocks(&mut self) -> Result<(), Stop> {
        // One function: the stages of `nilfs_segctor_collect_blocks`, whose order is what matters.
        let engine = self.engine;
        let constructor = &engine.constructor;
        if self.progress.stage == Stage::Start {
            self.ifile_started = false;
            // `LOG_BEGIN` opens a logical segment, `LOG_END` closes it. Recovery uses data-sync
            // logs only if both ends are there.
            if !constructor.is_unclosed.get() {
                constructor.written_blocks.set(0);
                self.logs[self.current].flags |= LOG_BEGIN;
            }
            if let Mode::DataSync(_) = self.mode {
                self.logs[self.current].flags |= LOG_DATA_SYNC;
                return self.collect_data_sync().await;
            }
            self.progress.stage = Stage::Cleaner;
        } else if matches!(self.mode, Mode::DataSync(_)) {
            self.logs[self.current].flags |= LOG_DATA_SYNC;
            return self.collect_data_sync().await;
        }
        while self.progress.stage < Stage::Done {
            match self.progress.stage {
                // Moved blocks come first. The order of all stages is that of dependence: each file
                // describes those before it, the DAT all of them.
                Stage::Cleaner => self.collect_list(true).await?,
                Stage::Files => {
                    self.collect_list(false).await?;
                    if self.mode == Mode::Flush {
                        self.progress.stage = Stage::Done;
                        return Ok(());
                    }
                    self.ifile_started = true;
                }
                Stage::Ifile => {
                    self.collect_file(&engine.root.ifile).await?;
                    // The slot must exist before the checkpoint file is collected; its contents
                    // follow when the places of all blocks are known.
                    engine.create_checkpoint(engine.position.get().checkpoint).await?;
                }
                Stage::Cpfile => self.collect_file(&engine.cpfile).await?,
                Stage::Sufile => {
                    // Within the usage file's stage: the same checkpoint that no longer uses the
                    // segments says that they are clean.
                    if !self.progress.has_freed {
                        let freed = constructor.freed_segments.borrow().clone();
                        for segment in freed {
                            engine.free_segment(segment).await?;
                        }
                        self.progress.has_freed = true;
                    }
                    self.collect_file(&engine.sufile).await?;
                }
                // Last: every block before it has changed entries of the DAT.
                Stage::Dat => self.collect_file(&engine.dat).await?,
                _ => {
                    while !self.logs[self.current].add_super_root() {
                        self.feed()?;
                    }
                    self.logs[self.current].flags |= LOG_END;
                }
            }
            self.progress.stage = match self.progress.stage {
                Stage::Start => Stage::Cleaner,
                Stage::Cleaner => Stage::Files,
                Stage::Files => Stage::Ifile,
                Stage::Ifile => Stage::Cpfile,
                Stage::Cpfile => Stage::Sufile,
                Stage::Sufile => Stage::Dat,
                Stage::Dat => Stage::SuperRoot,
                Stage::SuperRoot | Stage::Done => Stage::Done,
            };
        }
        Ok(())
    }

    /// Data of one file, without anything that leads to it.
    async fn collect_data_sync(&mut self) -> Result<(), Stop> {
        self.progress.stage = Stage::Files;
        for file in self.files.clone() {
            for buffer in file.dirty_data() {
                self.take(&file, &buffer, true).await?;
            }
            self.logs[self.current].close_file();
        }
        self.logs[self.current].flags |= LOG_END;
        self.progress.stage = Stage::Done;
        Ok(())
    }

    async fn collect_list(&mut self, is_cleaner: bool) -> Result<(), Stop> {
        loop {
            let list = if is_cleaner { &self.cleaned } else { &self.files };
            let Some(file) = list.get(self.progress.file).cloned() else { break };
            self.collect_file(&file).await?;
            self.progress.file += 1;
        }
        self.progress.file = 0;
        Ok(())
    }

    /// Dirty data, then dirty nodes from the leaves up.
    async fn collect_file(&mut self, file: &Rc<File>) -> Result<(), Stop> {
        if !self.progress.data_is_done {
            for buffer in file.dirty_data() {
                self.take(file, &buffer, true).await?;
            }
            self.progress.data_is_done = true;
        }
        for buffer in file.dirty_nodes() {
            // An earlier one may have ended it, as when a tree becomes smaller.
            self.engine.propagate(file, &buffer).await?;
        }
        // Listed once more: `propagate` makes parents dirty and can drop nodes of a tree that
        // became smaller.
        let mut nodes = file.dirty_nodes();
        nodes.sort_by_key(|buffer| {
            let data = buffer.data.borrow();
            // Leaves first, as the kernel lists them by level (`nilfs_btree_lookup_dirty_buffers`).
            (crate::node::level(&data), crate::node::key(&data, 0))
        });
        for buffer in nodes {
            self.take(file, &buffer, false).await?;
        }
        self.logs[self.current].close_file();
        self.progress.data_is_done = false;
        Ok(())
    }

    async fn take(
        &mut self,
        file: &Rc<File>,
        buffer: &Rc<Buffer>,
        propagates: bool,
    ) -> Result<(), Stop> {
        if propagates {
            self.engine.propagate(file, buffer).await?;
        }
        while !self.logs[self.current].add(file, buffer) {
            self.feed()?;
        }
        // A checkpoint of metadata alone shows users nothing new and is marked as minor.
        if file.is_in_checkpoint() && file.cleaned_checkpoint.is_none() {
            self.engine.constructor.has_delta.set(true);
        }
        Ok(())
    }

    /// Goes on in the next segment, if there is one already.
    fn feed(&mut self) -> Result<(), Stop> {
        if self.current + 1 >= self.logs.len() {
            return Err(Stop::Full);
        }
        self.current += 1;
        self.reset_log();
        Ok(())
    }

    /// Gives places, fills in what depends on them, and submits the logs.
    async fn write(
        &mut self,
        mut logs: Vec<Log>,
        pending: &mut Vec<Pending<'static, ()>>,
    ) -> Result<Vec<Log>, Errno> {
        let engine = self.engine;
        for log in &mut logs {
            log.assign(engine).await?;
            self.written_blocks += log.blocks();
        }
        // Before the logs are encoded: the inodes get maps whose pointers `assign` has just filled
        // in.
        if self.ifile_started {
            self.write_maps().await?;
        }
        if self.mode == Mode::Checkpoint && self.progress.stage == Stage::Done {
            self.fill_checkpoint().await?;
            let last = logs.last_mut().expect("one log at least");
            last.super_root = Some(self.super_root());
        }
        for log in &logs {
            let blocks = log.blocks() + log.start - log.segment_start;
            debug_assert!(
                blocks <= engine.geometry.blocks_per_segment,
                "{blocks} blocks of segment {}",
                log.segment
            );
            let created = Some(self.created);
            // The usage block is in the log itself; its contents may change until the log is
            // encoded (`nilfs_segctor_update_segusage`).
            engine.count_segment_blocks(log.segment, blocks as u32, created).await?;
        }
        for log in &logs {
            engine.compute(log.blocks() * engine.options.costs.log_block_ns).await;
            let bytes = log.encode(engine);
            engine.compute_bytes(bytes.len() as u64, engine.options.costs.crc_ps_per_byte).await;
            pending.extend(log.submit(engine, bytes).await?);
        }
        Ok(logs)
    }

    /// Maps of changed files go into their inodes.
    async fn write_maps(&self) -> Result<(), Errno> {
        let ifile = &self.engine.root.ifile;
        for file in &self.files {
            let (buffer, at) = self.engine.known_entry_block(ifile, file.number).await?;
            let root = file.map.borrow().root;
            buffer.data.borrow_mut()[at..at + INODE_BYTES][56..112].copy_from_slice(&root);
        }
        Ok(())
    }

    async fn fill_checkpoint(&self) -> Result<(), Errno> {
        let (engine, constructor) = (self.engine, &self.engine.constructor);
        let number = engine.position.get().checkpoint;
        let flags = if constructor.has_delta.get() { 0 } else { CHECKPOINT_MINOR };
        let checkpoint = Checkpoint {
            flags,
            valid_in_block: 0,
            snapshots: (0, 0),
            number,
            created: self.created,
            written_blocks: constructor.written_blocks.get() + self.written_blocks,
            inodes: engine.root.inodes.get(),
            blocks: engine.root.blocks.get(),
            ifile: engine.root.ifile.encoded(),
        };
        engine.fill_checkpoint(&checkpoint).await
    }

    fn super_root(&self) -> Vec<u8> {
        let engine = self.engine;
        let is_cleaning = !self.cleaned.is_empty();
        // The cleaner compares this time with that of segments. Its own logs must not look like a
        // user's change (`sr_nongc_ctime`).
        let written = if is_cleaning { engine.position.get().written } else { self.created };
        let root = SuperRoot {
            written,
            dat: engine.dat.encoded(),
            cpfile: engine.cpfile.encoded(),
            sufile: engine.sufile.encoded(),
        };
        root.encode(engine.geometry.block_bytes as usize, engine.geometry.checksum_seed)
    }

    /// Nothing was collected: gives back what was allocated for it.
    async fn abandon(&self, previous: Option<&Log>) -> Result<(), Errno> {
        let before =
            previous.map_or(self.engine.position.get().next_segment, |log| log.next_segment);
        if self.logs[0].next_segment != before {
            self.engine.free_segment(self.logs[0].next_segment).await?;
        }
        Ok(())
    }
}
