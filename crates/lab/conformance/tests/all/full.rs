//! A device that is full says so, loses nothing, and takes writes again after a deletion. A mount that is
//! read-only refuses what would change it.

use crate::every_kind::{ERRORS_MIN, Errors, chip, driver, request};
use conformance::CALLER;
use file_systems::KINDS;
use fs_api::{Errno, PAGE_BYTES};
use mount::{Kind, MountRequest, Mounted, run};
use random::Stream;
use vfs::OpenOptions;

/// The least chip on which every row can be made.
const BLOCKS: u32 = 96;
const FILE_BYTES: usize = 48 * PAGE_BYTES;
/// More files than the chip has room for.
const FILES_MAX: u64 = 200;
/// Seconds in which a cleaner outside the kernel works through the segments.
const CLEANER_S: u64 = 600;
/// Deletions until a file fits again: space of deleted files comes back block by block.
const DELETIONS_MAX: usize = 24;

/// Bytes that do not compress.
fn bytes_of(file: u64) -> Vec<u8> {
    let mut stream = Stream::new(file, "bytes of a full device");
    (0..FILE_BYTES / 8).flat_map(|_| stream.next_u64().to_le_bytes()).collect()
}

fn name_of(file: u64) -> Vec<u8> {
    format!("file{file}").into_bytes()
}

/// Writes a file and syncs it; one that is refused is removed.
async fn put(mounted: &Mounted, file: u64) -> Result<(), Errno> {
    let (vfs, name) = (&mounted.vfs, name_of(file));
    let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
    let open = vfs.open(&CALLER, &name, options).await?;
    let written = vfs.write(&CALLER, &open, 0, &bytes_of(file)).await;
    let synced = vfs.fsync(&CALLER, &open).await;
    let closed = vfs.close(&CALLER, open).await;
    let done = written.and(synced).and(closed);
    if done.is_err() {
        vfs.unlink(&CALLER, &name).await?;
    }
    done
}

async fn assert_all_there(mounted: &Mounted, files: &[u64]) -> Result<(), String> {
    for file in files {
        let open = mounted.vfs.open(&CALLER, &name_of(*file), OpenOptions::default()).await;
        let open = open.map_err(|error| format!("file {file}: {error}"))?;
        let mut found = vec![0; FILE_BYTES + 1];
        let count = mounted.vfs.read(&open, 0, &mut found).await;
        let count = count.map_err(|error| format!("file {file}: {error}"))?;
        if found[..count] != bytes_of(*file) {
            return Err(format!("file {file} has other bytes"));
        }
        mounted.vfs.close(&CALLER, open).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Fills the device, deletes, fills again, and mounts again; how often it refused for want of space.
fn fill(kind: &'static Kind, profile: &'static str) -> Result<u32, String> {
    let outcome = run(chip(BLOCKS), &driver(), 1, async move |machine| {
        let asked = request(kind, profile);
        let text = |error: Errno| error.to_string();
        let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
        let (mut files, mut refused) = (Vec::new(), 0);
        for file in 0..FILES_MAX {
            match put(&mounted, file).await {
                Ok(()) => files.push(file),
                Err(Errno::Enospc) => refused += 1,
                Err(error) => return Err(format!("file {file}: {error}")),
            }
            if refused == ERRORS_MIN {
                break;
            }
        }
        assert_all_there(&mounted, &files).await.map_err(|wrong| format!("full: {wrong}"))?;
        // Space of deleted files comes back as blocks are collected.
        let mut is_taken = false;
        for deletion in 0..DELETIONS_MAX.min(files.len()) {
            let file = files.remove(0);
            mounted.vfs.unlink(&CALLER, &name_of(file)).await.map_err(text)?;
            mounted.vfs.sync().await.map_err(text)?;
            if let Some(seconds) = mounted.file_system.protection_period_s() {
                // The cleaner frees what was deleted when its period is over.
                machine.sim.sleep((seconds + CLEANER_S) * 1_000_000_000).await;
            }
            match put(&mounted, FILES_MAX + deletion as u64).await {
                Ok(()) => {
                    files.push(FILES_MAX + deletion as u64);
                    is_taken = true;
                    break;
                }
                Err(Errno::Enospc) => {}
                Err(error) => return Err(format!("after {deletion} deletions: {error}")),
            }
        }
        if !is_taken {
            return Err(format!("{DELETIONS_MAX} deletions gave no space back"));
        }
        mounted.unmount().await.map_err(text)?;
        let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
        assert_all_there(&mounted, &files).await.map_err(|wrong| format!("remounted: {wrong}"))?;
        let wrong = mounted.file_system.check().await.map_err(text)?;
        if !wrong.is_empty() {
            return Err(format!("the check found {wrong:?}"));
        }
        // A deletion writes as well, and finds room however full the device is.
        for file in files {
            let done = mounted.vfs.unlink(&CALLER, &name_of(file)).await;
            done.map_err(|error| format!("deletion of file {file}: {error}"))?;
        }
        mounted.unmount().await.map_err(text)?;
        Ok(refused)
    });
    outcome.value.expect("the power is not cut")
}

/// What a read-only mount answers to calls that would change it.
fn write_read_only(kind: &'static Kind) -> Result<Vec<Result<(), Errno>>, String> {
    let outcome = run(chip(BLOCKS), &driver(), 1, async move |machine| {
        let asked = request(kind, kind.profiles[0]);
        let text = |error: Errno| error.to_string();
        let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
        put(&mounted, 0).await.map_err(text)?;
        mounted.unmount().await.map_err(text)?;
        let options = vec!["ro".to_owned()];
        let asked = MountRequest { options, has_background: false, ..asked };
        let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
        let mut answers = Vec::new();
        for file in 1..4 {
            answers.push(put(&mounted, file).await);
        }
        for _ in 0..3 {
            answers.push(mounted.vfs.unlink(&CALLER, &name_of(0)).await);
            answers.push(mounted.vfs.truncate(&CALLER, &name_of(0), 3).await);
        }
        assert_all_there(&mounted, &[0]).await?;
        mounted.unmount().await.map_err(text)?;
        Ok::<_, String>(answers)
    });
    outcome.value.expect("the power is not cut")
}

/// Fills a device of a row and mounts one read-only: adds how often each refused to the errors of the row.
pub(crate) fn count_refusals(kind: &'static Kind, errors: &mut Errors) {
    let profile = kind.profiles[0];
    let refused = fill(kind, profile).unwrap_or_else(|wrong| panic!("{}: {wrong}", kind.name));
    *errors.entry(format!("{:?}", Errno::Enospc)).or_default() += refused;
    if kind.kernel.options.split(", ").any(|option| option == "ro") {
        let answers = write_read_only(kind);
        let answers = answers.unwrap_or_else(|wrong| panic!("{}: {wrong}", kind.name));
        assert_eq!(answers, vec![Err(Errno::Erofs); answers.len()], "{}", kind.name);
        *errors.entry(format!("{:?}", Errno::Erofs)).or_default() += answers.len() as u32;
    }
}

#[test]
fn a_full_device_refuses_loses_nothing_and_recovers_under_other_profiles() {
    for kind in KINDS {
        for profile in kind.profiles.iter().skip(1) {
            let refused = fill(kind, profile);
            let refused =
                refused.unwrap_or_else(|wrong| panic!("{} {profile}: {wrong}", kind.name));
            assert_eq!(refused, ERRORS_MIN, "{} {profile}: ENOSPC", kind.name);
        }
    }
}
