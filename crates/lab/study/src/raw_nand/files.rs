//! Kernel memory with many small files.
//!
//! What is available is what `/proc/meminfo` shows as `MemFree + Buffers + Cached`: pages of files are
//! available, the structures of the file system, of its inodes and of their names are not. Nothing in
//! this test takes time, so the kernel's own rules about age decide nothing.

use super::boot::{Application, Boot};
use super::contract::{Context, RawNandRun};
use crate::StudyError;
use crate::metric::{Metric, TestRow};
use fs_api::{Errno, FileSystem, NewInode, PAGE_BYTES};
use mount::{Machine, run};
use random::Stream;

/// Bytes of a file.
const FILE_BYTES: usize = 1024;
/// Files of a directory.
const FILES_PER_DIRECTORY: u32 = 1000;
/// Stream of what the files hold.
const CONTENTS: &str = "contents of small files";
/// `struct dentry` of Linux 2.6.32 on 32-bit ARM.
const DENTRY_BYTES: u64 = 128;
/// `struct inode` of the same, for file systems that have no inode of their own around it: JFFS2 and
/// UBIFS count theirs themselves, YAFFS2 hangs its object on the kernel's.
const INODE_BYTES: u64 = 304;

/// Makes the files and looks at memory.
///
/// # Errors
/// [`StudyError::Study`] with the error of the mount or of a call.
pub(super) fn run_files(
    plan: &RawNandRun,
    context: &Context<'_>,
) -> Result<Vec<TestRow>, StudyError> {
    let chip = context.prepared.copy(&plan.flash, context.study_seed)?;
    let (own, seed) = (plan.clone(), context.seed);
    let outcome = run(chip, &plan.untimed_driver(), seed, |machine| async move {
        let mut rows = Vec::new();
        let boot = Boot::of(&machine, &own, seed).await.map_err(|error| error.to_string())?;
        rows.push(row("empty", &machine, &boot));
        let at = |errno: Errno| errno.to_string();
        make(&machine, &boot, own.files, seed).await.map_err(at)?;
        rows.push(row("created", &machine, &boot));
        // A new mount has no inodes in memory.
        boot.end(&machine).await.map_err(at)?;
        let boot = Boot::of(&machine, &own, seed).await.map_err(|error| error.to_string())?;
        rows.push(row("mounted", &machine, &boot));
        touch(&machine, &boot, own.files).await.map_err(at)?;
        rows.push(row("touched", &machine, &boot));
        Ok(rows)
    });
    let Some(value) = outcome.value else { unreachable!("nothing cuts the power") };
    value.map_err(|reason: String| plan.failed(reason))
}

fn directory(number: u32) -> Vec<u8> {
    format!("d{}", number / FILES_PER_DIRECTORY).into_bytes()
}

fn path(number: u32) -> Vec<u8> {
    format!("d{}/file-{number}", number / FILES_PER_DIRECTORY).into_bytes()
}

async fn make(machine: &Machine, boot: &Boot, files: u32, seed: u64) -> Result<(), Errno> {
    let application = Application { machine, mounted: &boot.mounted };
    let vfs = &boot.mounted.vfs;
    let mut numbers = Stream::new(seed, CONTENTS);
    for number in 0..files {
        let caller = application.caller();
        // With all files in one directory this would be a test of long directories.
        if number % FILES_PER_DIRECTORY == 0 {
            vfs.make(&caller, &directory(number), NewInode::Directory(0o755)).await?;
        }
        let path = path(number);
        let file = application.write_random(&path, FILE_BYTES as u64, &mut numbers).await?;
        vfs.close(&caller, file).await?;
    }
    // All is on the medium before memory is looked at.
    vfs.sync().await
}

/// Opens and reads every file.
async fn touch(machine: &Machine, boot: &Boot, files: u32) -> Result<(), Errno> {
    let application = Application { machine, mounted: &boot.mounted };
    let vfs = &boot.mounted.vfs;
    let mut bytes = vec![0; FILE_BYTES];
    for number in 0..files {
        let file = application.open(&path(number)).await?;
        vfs.read(&file, 0, &mut bytes).await?;
        vfs.close(&application.caller(), file).await?;
    }
    Ok(())
}

/// Memory by structure, and what of the board's is left.
fn row(phase: &'static str, machine: &Machine, boot: &Boot) -> TestRow {
    let mounted = &boot.mounted;
    let (names, inodes) = mounted.vfs.remembered();
    let mut kinds = mounted.file_system.memory().kinds;
    // Structures of the VFS are not the file system's to count.
    kinds.push(("dentry", names, names * DENTRY_BYTES));
    if !mounted.file_system.counts_inodes() {
        kinds.push(("inode", inodes, inodes * INODE_BYTES));
    }
    let used: u64 = kinds.iter().map(|(_, _, bytes)| bytes).sum();
    let cached_bytes = mounted.vfs.cached_pages() * PAGE_BYTES as u64;
    let before = machine.board.available_bytes;
    let available = before.saturating_sub(used);
    let mut metrics = vec![
        Metric::count("available_bytes", available, "bytes"),
        Metric::count("drop_bytes", before - available, "bytes"),
        Metric::count("cached_bytes", cached_bytes, "bytes"),
        Metric::count("free_bytes", available.saturating_sub(cached_bytes), "bytes"),
    ];
    // By name, whatever the order of the file system.
    kinds.sort_unstable();
    for (name, _, bytes) in kinds {
        metrics.push(Metric::count(format!("structure_{}_bytes", slug(name)), bytes, "bytes"));
    }
    TestRow::new(phase, metrics)
}

/// A name of a structure as a part of the name of a metric.
fn slug(name: &str) -> String {
    name.replace([' ', '-'], "_")
}
