//! Flash before IOzone runs: formatted, or with a history behind it.

use super::plan::IozoneRun;
use super::spec::FlashState;
use crate::StudyError;
use mount::{Driver, Machine, MountRequest, Mounted, run};
use nand::{Chip, FaultSettings, Storage};
use posix::{Errno, FileSystem};
use random::Stream;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use vfs::{OpenFile, OpenOptions};

/// Name of the stream that histories are drawn from.
const HISTORY: &str = "flash history";
/// Process that makes the history.
const PID: u32 = 500;
/// Time in which the threads of a file system come to rest.
pub(crate) const SETTLE_NS: u64 = 600_000_000_000;
/// Bytes of a write of the history.
const WRITE_BYTES: usize = 32 << 10;

/// A chip, once it is made.
type Place = Arc<Mutex<Option<Chip>>>;

/// Flash made once for each file system, profile and history, and shared by all runs until written.
#[derive(Default)]
pub(crate) struct PreparedFlash(Mutex<BTreeMap<String, Place>>);

impl PreparedFlash {
    /// A copy of the flash that a run begins on.
    ///
    /// # Errors
    /// The file system's, while the history was made.
    pub(crate) fn copy(&self, run: &IozoneRun, seed: u64) -> Result<Chip, StudyError> {
        let place = {
            let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry(run.flash_key.clone()).or_default().clone()
        };
        let mut chip = place.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chip) = &*chip {
            return Ok(chip.clone());
        }
        let made = make(run, seed)?;
        *chip = Some(made.clone());
        Ok(made)
    }
}

/// Formats a chip and lets the history pass, without taking simulated time.
fn make(plan: &IozoneRun, seed: u64) -> Result<Chip, StudyError> {
    let chip = Chip::new(&plan.part, Storage::Bytes, &FaultSettings::default());
    let driver = Driver::of_tool(plan.layout);
    let (kind, history) = (plan.kind, plan.history.clone());
    let request =
        MountRequest { profile: Some(plan.profile.to_owned()), seed, ..MountRequest::default() };
    let outcome = run(chip, &driver, seed, |machine| async move {
        let mounted = machine.mount(kind, &request).await.map_err(|error| error.to_string())?;
        if let Some(history) = history {
            let mut past = Past::new(&machine, &mounted, &history, seed);
            past.pass(&history).await.map_err(|errno| errno.to_string())?;
        }
        // Whatever the file system still does by itself, it does before the chip is put away.
        machine.sim.sleep(SETTLE_NS).await;
        mounted.vfs.sync().await.map_err(|errno| errno.to_string())?;
        mounted.unmount().await.map_err(|errno| errno.to_string())
    });
    match outcome.value {
        Some(Ok(())) => Ok(outcome.chip),
        Some(Err(reason)) => Err(StudyError::Study { place: plan.flash_key.clone(), reason }),
        None => unreachable!("nothing cuts the power"),
    }
}

/// A history while it passes.
struct Past<'a> {
    machine: &'a Machine,
    mounted: &'a Mounted,
    numbers: Stream,
    file_bytes_max: u64,
    /// Number and bytes of the files that are there.
    files: Vec<(u32, u64)>,
    next: u32,
    bytes: Vec<u8>,
}

impl<'a> Past<'a> {
    fn new(machine: &'a Machine, mounted: &'a Mounted, state: &FlashState, seed: u64) -> Self {
        Self {
            machine,
            mounted,
            numbers: Stream::new(seed, HISTORY),
            file_bytes_max: u64::from(state.file_kib_max) << 10,
            files: Vec::new(),
            next: 0,
            bytes: vec![0; WRITE_BYTES],
        }
    }

    async fn pass(&mut self, state: &FlashState) -> Result<(), Errno> {
        let space = self.mounted.file_system.space();
        let capacity = space.blocks * u64::from(space.block_bytes);
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
                self.mounted.vfs.unlink(&self.machine.root(PID), &name(number)).await?;
                self.make_file(bytes).await?
            };
        }
        Ok(())
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
        let file = self.mounted.vfs.open(&caller, &name(number), open).await?;
        let done = self.write_all(&file, offset, bytes).await;
        self.mounted.vfs.close(&caller, file).await?;
        done
    }

    async fn write_all(&mut self, file: &OpenFile, offset: u64, bytes: u64) -> Result<(), Errno> {
        let mut at = 0;
        while at < bytes {
            let count = (bytes - at).min(WRITE_BYTES as u64) as usize;
            for word in self.bytes[..count].chunks_exact_mut(8) {
                word.copy_from_slice(&self.numbers.next_u64().to_le_bytes());
            }
            let caller = self.machine.root(PID);
            self.mounted.vfs.write(&caller, file, offset + at, &self.bytes[..count]).await?;
            at += count as u64;
        }
        Ok(())
    }
}

fn name(number: u32) -> Vec<u8> {
    format!("old-{number}").into_bytes()
}
