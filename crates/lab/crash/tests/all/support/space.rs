//! Free space as `df` shows it, and chips that are full.

use super::session::{CALLER, Session, read_file, told};
use fs_api::{Errno, FileSystem};
use script::{Data, DataKind};
use vfs::OpenOptions;

/// Files of one filling, and their bytes.
const FILL_FILES: usize = 60;
const FILL_BYTES: usize = 60_000;

impl Session {
    /// `df` falls when data is written and rises when it is removed.
    pub(super) async fn measure(&self, seed: u64) -> Result<(), String> {
        const BYTES: usize = 100_000;
        // JFFS2 counts what is obsolete in the block that is being written only when it is full.
        const BLOCK_BYTES: u64 = 32_768 + 8192;
        let free_bytes = || {
            let space = self.mounted.file_system.space();
            space.free_blocks * u64::from(space.block_bytes)
        };
        let (before, pages, commits) =
            (free_bytes(), self.mounted.vfs.dirty_pages(), self.commits().await);
        if !self.put(b"measured", BYTES, seed).await? {
            return Ok(());
        }
        let full = free_bytes();
        // A page that waits is budgeted at its full size (`ubifs_budget_space`) and may take next to nothing
        // once it is written, which this file may cause: each that went gives back a page at most.
        let all_pages = pages + BYTES.div_ceil(fs_api::PAGE_BYTES) as u64;
        let written_pages = all_pages.saturating_sub(self.mounted.vfs.dirty_pages());
        let given_back = if self.mounted.file_system.writes_back() {
            written_pages * fs_api::PAGE_BYTES as u64
        } else {
            0
        };
        // Three times the index at its worst is kept free (`ubifs_calc_min_idx_lebs`). A commit puts what the
        // index takes in place of the worst case, so that whole eraseblocks come free and `df` may even rise.
        if commits == self.commits().await {
            self.count(|met| met.measured += 1);
            if full + BYTES as u64 > before + BLOCK_BYTES + given_back {
                return Err(format!(
                    "{before} bytes were free, and {full} after {BYTES} were written"
                ));
            }
        }
        told("unlink", self.mounted.vfs.unlink(&CALLER, b"measured").await)?;
        let after = free_bytes();
        if after + BLOCK_BYTES < full + BYTES as u64 {
            return Err(format!("{full} bytes were free, and {after} after {BYTES} were removed"));
        }
        Ok(())
    }

    /// Commits since the mount, of a file system that makes such.
    async fn commits(&self) -> u64 {
        let counters = self.mounted.file_system.statistics().await;
        counters.iter().find(|counter| counter.name == "commits").map_or(0, |found| found.value)
    }

    /// Writes a file on the file system alone; false if there was no space, and nothing is left.
    async fn put(&self, path: &[u8], bytes: usize, seed: u64) -> Result<bool, String> {
        let vfs = &self.mounted.vfs;
        let options = OpenOptions { create: Some(0o600), truncate: true, ..OpenOptions::default() };
        let file = match vfs.open(&CALLER, path, options).await {
            Ok(file) => file,
            Err(Errno::Enospc) => return Ok(false),
            Err(error) => return Err(format!("open: {error}")),
        };
        let data = Data::new(DataKind::Incompressible, seed).take(bytes);
        let written = vfs.write(&CALLER, &file, 0, &data).await;
        let closed = vfs.close(&CALLER, file).await;
        match written.and(closed) {
            Ok(()) => Ok(true),
            Err(Errno::Enospc) => {
                told("unlink", vfs.unlink(&CALLER, path).await)?;
                Ok(false)
            }
            Err(error) => Err(format!("write: {error}")),
        }
    }

    pub(super) async fn fill(&self) -> Result<(), String> {
        let mut made = Vec::new();
        loop {
            let path = format!("filling{}", made.len());
            if !self.put(path.as_bytes(), FILL_BYTES, made.len() as u64).await? {
                break;
            }
            made.push(path);
            if made.len() > FILL_FILES {
                return Err("the chip is never full".into());
            }
        }
        self.count(|met| met.out_of_space += 1);
        for (number, path) in made.iter().enumerate() {
            let expected = Data::new(DataKind::Incompressible, number as u64).take(FILL_BYTES);
            let found = told("read", read_file(&self.mounted.vfs, path.as_bytes()).await)?;
            if found != expected {
                return Err(format!("{path} is not what was written"));
            }
            told("unlink", self.mounted.vfs.unlink(&CALLER, path.as_bytes()).await)?;
        }
        self.compare().await?;
        if !made.is_empty() && !self.put(b"again", FILL_BYTES / 2, 1).await? {
            return Err("no space after all was removed that filled the chip".into());
        }
        if !made.is_empty() {
            told("unlink", self.mounted.vfs.unlink(&CALLER, b"again").await)?;
        }
        Ok(())
    }
}
