//! Aging: the writes, overwrites and deletions that precede a run.

use super::{FlashState, PercentOf};
use fs_api::{Changes, Errno, FileSystem, NewInode, SpaceUse};
use mount::{Machine, Mounted};
use random::Stream;
use vfs::{OpenFile, OpenOptions};

/// Name of the stream that aging is drawn from. Another name would draw other files.
const AGING: &str = "flash history";
/// Bytes of a write.
const WRITE_BYTES: usize = 32 << 10;
/// Unit in which the share of random bytes counts: what file systems compress at a time.
const PAGE_BYTES: usize = units::PAGE_BYTES;
/// Where files lie whose number the root directory may not hold.
const FOLDER: &str = "old/";
/// Bytes that are written before a rest, on a file system that writes back later.
const STRIDE_BYTES: u64 = 8 << 20;
/// Long enough for pages to grow old and to be written back.
const REST_NS: u64 = 40_000_000_000;

/// Aging while it goes on.
pub(super) struct Aging<'a> {
    machine: &'a Machine,
    mounted: &'a Mounted,
    numbers: Stream,
    file_bytes_max: u64,
    random_bytes: usize,
    folder: &'static str,
    /// Number and bytes of the files that are there.
    files: Vec<(u32, u64)>,
    next: u32,
    /// Bytes that the state needs, and what was written of them.
    needed: u64,
    written: u64,
    /// Bytes written since the last rest.
    unrested: u64,
    bytes: Vec<u8>,
}

impl<'a> Aging<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        mounted: &'a Mounted,
        state: &FlashState,
        seed: u64,
    ) -> Self {
        Self {
            machine,
            mounted,
            numbers: Stream::new(seed, AGING),
            file_bytes_max: u64::from(state.file_kib_max) << 10,
            // In whole words, as they are drawn.
            random_bytes: (PAGE_BYTES * state.random_percent as usize / 100).next_multiple_of(8),
            folder: if mounted.file_system.has_bounded_root() { FOLDER } else { "" },
            files: Vec::new(),
            next: 0,
            needed: 0,
            written: 0,
            unrested: 0,
            bytes: vec![0; WRITE_BYTES],
        }
    }

    /// Ages the flash.
    ///
    /// # Errors
    /// A sentence with the error of a call; for a full file system, how far the aging came.
    pub(super) async fn age(&mut self, state: &FlashState) -> Result<(), String> {
        let all = self.space();
        self.live(state, all).await.map_err(|errno| self.explain(errno, state, all))
    }

    async fn live(&mut self, state: &FlashState, all: SpaceUse) -> Result<(), Errno> {
        let capacity = bytes_of(all, |space| state.percent_of.blocks(space));
        if let Some(folder) = self.folder.strip_suffix('/') {
            let new = NewInode::Directory(0o755);
            self.mounted.vfs.make(&self.machine.root(), folder.as_bytes(), new).await?;
        }
        if let Some(free_mib) = state.free_mib {
            self.leave(u64::from(free_mib) << 20).await?;
        }
        let fill = capacity * u64::from(state.fill_percent) / 100;
        let rewritten = capacity * u64::from(state.rewritten_percent) / 100;
        // What was written to leave little space is no part of it.
        (self.needed, self.written) = (fill + rewritten, 0);
        let mut filled = 0;
        while filled < fill {
            filled += self.make_file(fill - filled).await?;
        }
        let mut done = 0;
        while done < rewritten && !self.files.is_empty() {
            let which = self.numbers.below(self.files.len() as u32) as usize;
            // As likely to write over a file as to replace one.
            done += if self.numbers.below(2) == 0 {
                self.overwrite(which).await?
            } else {
                let (number, bytes) = self.files.swap_remove(which);
                self.mounted.vfs.unlink(&self.machine.root(), &self.name(number)).await?;
                self.make_file(bytes).await?
            };
        }
        Ok(())
    }

    /// Why the aging ended early; `all` is the space before it.
    fn explain(&self, errno: Errno, state: &FlashState, all: SpaceUse) -> String {
        // A full file system is explained; other errors speak for themselves.
        if errno != Errno::Enospc || state.free_mib.is_some() {
            return errno.to_string();
        }
        let mib = |bytes: u64| bytes >> 20;
        let held: u64 = self.files.iter().map(|(_, bytes)| bytes).sum();
        let size = mib(bytes_of(all, |space| space.blocks));
        let usable = bytes_of(all, |space| PercentOf::Usable.blocks(space));
        let (written, needed, usable) = (mib(self.written), mib(self.needed), mib(usable));
        let held = mib(held);
        let advice = if usable < size && state.percent_of == PercentOf::Size {
            "choose a smaller fill_percent, or percent_of = \"usable\""
        } else {
            "choose a smaller fill_percent"
        };
        format!(
            "the file system is full ({errno}) after {written} of {needed} MiB of the history, with files \
             of {held} MiB; of its {size} MiB, files and what leads to them can have {usable}: {advice}"
        )
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
        // In pages, and one at least.
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
        let name = self.name(number);
        let mut opened = self.mounted.vfs.open(&self.machine.root(), &name, open).await;
        if let Err(errno) = &opened
            && self.waits_for_cleaner(*errno).await
        {
            opened = self.mounted.vfs.open(&self.machine.root(), &name, open).await;
        }
        let file = opened?;
        let done = self.write_all(&file, offset, bytes).await;
        self.mounted.vfs.close(&self.machine.root(), file).await?;
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
        }
    }

    /// A user who is refused for lack of space comes back when a cleaner outside the kernel, if
    /// there is one, may have made some: until then no time passes, so that all that was
    /// overwritten is still protected. False if there is nothing to wait for.
    async fn waits_for_cleaner(&self, errno: Errno) -> bool {
        let period_s = self.mounted.file_system.protection_period_s();
        let Some(period_s) = period_s.filter(|_| errno == Errno::Enospc) else { return false };
        let wait_ns = 2 * period_s * 1_000_000_000;
        self.machine.sim.sleep(wait_ns).await;
        // What was overwritten is protected no more. The cleaner leaves alone what recovery would look
        // at, so the superblocks have to point behind it, and what it has put off since a user last
        // changed anything.
        let touched = self.touch().await;
        // It looks again within one period, and has as long to clean.
        self.machine.sim.sleep(wait_ns).await;
        touched.is_ok()
    }

    /// Changes a time of the root directory, durably.
    async fn touch(&self) -> Result<(), Errno> {
        let (fs, caller) = (&self.mounted.file_system, self.machine.root());
        let to = Changes { modified: Some(caller.now), ..Changes::default() };
        fs.change(&caller, fs.root(), &to).await?;
        self.mounted.vfs.sync().await
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
            let mut done = self.write_chunk(file, offset + at, count).await;
            if let Err(errno) = done
                && self.waits_for_cleaner(errno).await
            {
                done = self.write_chunk(file, offset + at, count).await;
            }
            done?;
            at += count as u64;
            self.written += count as u64;
        }
        Ok(())
    }

    async fn write_chunk(&self, file: &OpenFile, offset: u64, count: usize) -> Result<(), Errno> {
        let caller = self.machine.root();
        self.mounted.vfs.write(&caller, file, offset, &self.bytes[..count]).await
    }
}

fn bytes_of(space: SpaceUse, blocks: impl Fn(SpaceUse) -> u64) -> u64 {
    blocks(space) * u64::from(space.block_bytes)
}
