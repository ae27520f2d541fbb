//! A history while it passes.

use super::FlashState;
use mount::{Machine, Mounted};
use posix::{Errno, FileSystem, NewInode, SpaceUse};
use random::Stream;
use vfs::{OpenFile, OpenOptions};

/// Name of the stream that histories are drawn from.
const HISTORY: &str = "flash history";
/// Process that makes the history.
const PID: u32 = 500;
/// Bytes of a write of the history.
const WRITE_BYTES: usize = 32 << 10;
/// Unit in which the share of random bytes counts: what file systems compress at a time.
const PAGE_BYTES: usize = 4096;
/// Where files lie whose number the root directory may not hold.
const FOLDER: &str = "old/";
/// Bytes that a history writes before it rests, on a file system that writes back later.
const STRIDE_BYTES: u64 = 8 << 20;
/// Long enough for pages to grow old and to be written back.
const REST_NS: u64 = 40_000_000_000;
/// A user lets the cleaner work when less than this is left.
const TIGHT_BYTES: u64 = 32 << 20;

/// A history while it passes.
pub(super) struct Past<'a> {
    machine: &'a Machine,
    mounted: &'a Mounted,
    numbers: Stream,
    file_bytes_max: u64,
    random_bytes: usize,
    folder: &'static str,
    /// Number and bytes of the files that are there.
    files: Vec<(u32, u64)>,
    next: u32,
    /// Bytes written since the last rest.
    unrested: u64,
    bytes: Vec<u8>,
}

impl<'a> Past<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        mounted: &'a Mounted,
        state: &FlashState,
        seed: u64,
    ) -> Self {
        Self {
            machine,
            mounted,
            numbers: Stream::new(seed, HISTORY),
            file_bytes_max: u64::from(state.file_kib_max) << 10,
            random_bytes: (PAGE_BYTES * state.random_percent as usize / 100).next_multiple_of(8),
            folder: if mounted.file_system.has_bounded_root() { FOLDER } else { "" },
            files: Vec::new(),
            next: 0,
            unrested: 0,
            bytes: vec![0; WRITE_BYTES],
        }
    }

    pub(super) async fn pass(&mut self, state: &FlashState) -> Result<(), Errno> {
        let capacity = bytes_of(self.space(), |space| space.blocks);
        if let Some(folder) = self.folder.strip_suffix('/') {
            let new = NewInode::Directory(0o755);
            self.mounted.vfs.make(&self.machine.root(PID), folder.as_bytes(), new).await?;
        }
        if let Some(free_mib) = state.free_mib {
            self.leave(u64::from(free_mib) << 20).await?;
        }
        let wanted = capacity * u64::from(state.fill_percent) / 100;
        let mut filled = 0;
        while filled < wanted {
            filled += self.make_file(wanted - filled).await?;
        }
        let rewritten = capacity * u64::from(state.rewritten_percent) / 100;
        let mut done = 0;
        while done < rewritten && !self.files.is_empty() {
            let which = self.numbers.below(self.files.len() as u32) as usize;
            done += if self.numbers.below(2) == 0 {
                self.overwrite(which).await?
            } else {
                let (number, bytes) = self.files.swap_remove(which);
                self.mounted.vfs.unlink(&self.machine.root(PID), &self.name(number)).await?;
                self.make_file(bytes).await?
            };
        }
        Ok(())
    }

    /// Writes files until no more than `free_bytes` are left.
    async fn leave(&mut self, free_bytes: u64) -> Result<(), Errno> {
        loop {
            let available = bytes_of(self.space(), |space| space.available_blocks);
            let Some(rest) = available.checked_sub(free_bytes).filter(|rest| *rest > 0) else {
                return Ok(());
            };
            self.make_file(rest).await?;
            // Space that is only promised counts at its worst: near the end it is made real first.
            if self.mounted.file_system.writes_back() && rest < 4 * STRIDE_BYTES {
                self.mounted.vfs.sync().await?;
            }
        }
    }

    fn name(&self, number: u32) -> Vec<u8> {
        format!("{}old-{number}", self.folder).into_bytes()
    }

    fn space(&self) -> SpaceUse {
        self.mounted.file_system.space()
    }

    /// A new file of at most so many bytes.
    async fn make_file(&mut self, most: u64) -> Result<u64, Errno> {
        let pages = (self.file_bytes_max.min(most) >> 12).max(1);
        let bytes = u64::from(self.numbers.below(pages as u32) + 1) << 12;
        let number = self.next;
        self.next += 1;
        let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        self.write(number, open, 0, bytes).await?;
        self.files.push((number, bytes));
        Ok(bytes)
    }

    /// Writes over a part of a file.
    async fn overwrite(&mut self, which: usize) -> Result<u64, Errno> {
        let (number, bytes) = self.files[which];
        let pages = (bytes >> 12) as u32;
        let first = self.numbers.below(pages);
        let count = self.numbers.below(pages - first) + 1;
        let written = u64::from(count) << 12;
        self.write(number, OpenOptions::default(), u64::from(first) << 12, written).await?;
        Ok(written)
    }

    async fn write(
        &mut self,
        number: u32,
        open: OpenOptions,
        offset: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        let caller = self.machine.root(PID);
        let file = self.mounted.vfs.open(&caller, &self.name(number), open).await?;
        let done = self.write_all(&file, offset, bytes).await;
        self.mounted.vfs.close(&caller, file).await?;
        self.rest(bytes).await;
        done
    }

    /// Lets pages be written back from time to time, as in weeks of use; a file system that writes
    /// through has none.
    async fn rest(&mut self, written: u64) {
        if !self.mounted.file_system.writes_back() {
            return;
        }
        self.unrested += written;
        if self.unrested >= STRIDE_BYTES {
            self.unrested = 0;
            self.machine.sim.sleep(REST_NS).await;
            let available = bytes_of(self.space(), |space| space.available_blocks);
            if let Some(period_s) = self.mounted.file_system.protection_period_s()
                && available < TIGHT_BYTES
            {
                // Until what was overwritten is protected no more, and as long again for the cleaner.
                self.machine.sim.sleep(2 * period_s * 1_000_000_000).await;
            }
        }
    }

    async fn write_all(&mut self, file: &OpenFile, offset: u64, bytes: u64) -> Result<(), Errno> {
        let mut at = 0;
        while at < bytes {
            let count = (bytes - at).min(WRITE_BYTES as u64) as usize;
            for page in self.bytes[..count].chunks_mut(PAGE_BYTES) {
                let random = self.random_bytes.min(page.len());
                for word in page[..random].chunks_exact_mut(8) {
                    word.copy_from_slice(&self.numbers.next_u64().to_le_bytes());
                }
            }
            let caller = self.machine.root(PID);
            self.mounted.vfs.write(&caller, file, offset + at, &self.bytes[..count]).await?;
            at += count as u64;
        }
        Ok(())
    }
}

fn bytes_of(space: SpaceUse, blocks: impl Fn(SpaceUse) -> u64) -> u64 {
    blocks(space) * u64::from(space.block_bytes)
}
