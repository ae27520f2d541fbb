//! Images of block devices with NILFS2 on them, mounted read-only.
//!
//! A mount shows the newest checkpoint, with what was made durable after it rolled forward in memory, or
//! another checkpoint if one is asked for. No file is written to.

use super::medium::DeviceMedium;
use crate::error::ImageError;
use crate::listing::FILE_BYTES_MAX;
use crate::options::OpenOptions;
use file_systems::find_kind;
use nilfs2::{MountError, MountOptions, Nilfs2, Profile, Superblock, find_profile};
use sim::{Cpus, RunEnd, Sim, Simulation};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

const TIMESLICE_NS: u64 = 10_000_000;

/// An image of a block device.
pub struct DeviceImage {
    /// The file that holds the image.
    pub path: PathBuf,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// What is odd about the file, a sentence each.
    pub notes: Vec<String>,
    /// Generation of the code that reads it.
    pub profile: &'static Profile,
    /// The checkpoint that is shown; none for the newest.
    pub checkpoint: Option<u64>,
    pub(super) medium: Rc<DeviceMedium>,
}

impl DeviceImage {
    /// Name of the file system.
    pub(super) const FILE_SYSTEM: &str = "nilfs2";

    /// Opens a device.
    ///
    /// # Errors
    /// [`ImageError::Option`] of an option that only chips have, an unknown profile or checkpoint;
    /// [`ImageError::Content`] if no superblock is sound.
    pub(super) fn new(
        path: &Path,
        medium: DeviceMedium,
        options: &OpenOptions,
    ) -> Result<Self, ImageError> {
        refuse_options_of_chips(path, options)?;
        let profile = profile(options.profile.as_deref())?;
        let superblocks = medium.superblocks();
        let Some(superblock) = newest(&superblocks) else {
            let [first, second] = superblocks.map(|found| found.err().unwrap_or_default());
            let reason = format!("no superblock of NILFS2: {first}; in the second place {second}");
            return Err(ImageError::content(path, reason));
        };
        let (file_bytes, device_bytes) = (medium.image_bytes(), superblock.device_bytes);
        let mut notes = Vec::new();
        if file_bytes < device_bytes {
            notes.push(format!(
                "the image has {file_bytes} bytes, the device had {device_bytes}: it was cut short"
            ));
        }
        let image = Self {
            path: path.to_owned(),
            file_bytes,
            notes,
            profile,
            checkpoint: options.checkpoint,
            medium: Rc::new(medium),
        };
        // A checkpoint that is not there is a wrong option, whatever is to be done.
        if image.checkpoint.is_some()
            && let Err(error @ ImageError::Option { .. }) = image.run(|_| async {})
        {
            return Err(error);
        }
        Ok(image)
    }

    /// Mounts the image, without writing to it, and carries out a job.
    ///
    /// # Errors
    /// [`ImageError::Nilfs2`], or [`ImageError::Option`] if there is no such checkpoint.
    pub fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        job: impl FnOnce(Nilfs2) -> F + 'static,
    ) -> Result<T, ImageError> {
        self.run_at(self.checkpoint, job)
    }

    /// [`DeviceImage::run`] at another checkpoint.
    ///
    /// # Errors
    /// As [`DeviceImage::run`].
    pub fn run_at<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        checkpoint: Option<u64>,
        job: impl FnOnce(Nilfs2) -> F + 'static,
    ) -> Result<T, ImageError> {
        match self.try_run(checkpoint, job) {
            Err(MountError::UnknownCheckpoint(number)) if checkpoint.is_some() => {
                Err(ImageError::Option { option: "--checkpoint", reason: self.missing(number) })
            }
            Err(source) => Err(ImageError::Nilfs2 { path: self.path.clone(), source }),
            Ok(done) => Ok(done),
        }
    }

    fn try_run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        checkpoint: Option<u64>,
        job: impl FnOnce(Nilfs2) -> F + 'static,
    ) -> Result<T, MountError> {
        // No timer: a reader writes no segments.
        let options = MountOptions {
            is_read_only: true,
            has_timer: false,
            checkpoint,
            ..MountOptions::new(self.profile)
        };
        let medium = self.medium.clone();
        run_job(async move |sim, cpus| {
            let mounted = Nilfs2::mount(&sim, cpus, medium, options).await?;
            Ok(job(mounted).await)
        })
    }

    /// Says which checkpoints there are instead.
    fn missing(&self, number: u64) -> String {
        let path = self.path.display();
        let there = self.try_run(None, |fs| async move { fs.checkpoints().await });
        let there = there.ok().and_then(Result::ok).unwrap_or_default();
        let (Some(first), Some(last)) = (there.first(), there.last()) else {
            return format!("{path} has no checkpoint {number}");
        };
        format!(
            "{path} has no checkpoint {number}: it has {}, from {} to {}; \
             `nandlab image info` lists them",
            there.len(),
            first.number,
            last.number
        )
    }

    /// A file may be as long as the device, where that is more than other file systems can hold.
    pub(super) fn longest_file_bytes(&self) -> u64 {
        self.file_bytes.max(FILE_BYTES_MAX)
    }
}

/// Runs a job in simulated time in which nothing takes any, until it ends.
///
/// # Panics
/// If the job waits for what never comes: a defect, whose message names the tasks that wait.
pub(super) fn run_job<T: 'static, F: Future<Output = T> + 'static>(
    job: impl FnOnce(Sim, Rc<Cpus>) -> F,
) -> T {
    let mut simulation = Simulation::new(0);
    let sim = simulation.handle();
    let cpus = Rc::new(Cpus::new(&sim, 1, TIMESLICE_NS));
    let value = Rc::new(RefCell::new(None));
    let (place, job) = (value.clone(), job(sim.clone(), cpus));
    sim.clone().spawn_named("job", async move {
        let done = job.await;
        *place.borrow_mut() = Some(done);
        // Ends the run, which tasks of the mount would keep going.
        sim.stop();
    });
    let end = simulation.run();
    assert!(end == RunEnd::Stopped, "{end:?}: {}", simulation.blocked_tasks().join(", "));
    drop(simulation);
    value.take().expect("the job ended")
}

/// The profile of a name, or the newest.
pub(super) fn profile(name: Option<&str>) -> Result<&'static Profile, ImageError> {
    let unknown = |error: mount::MountError| ImageError::Option {
        option: "--profile",
        reason: error.to_string(),
    };
    let kind = find_kind(DeviceImage::FILE_SYSTEM).map_err(unknown)?;
    let name = kind.profile(name).map_err(unknown)?;
    Ok(find_profile(name).expect("the tables agree; tested"))
}

/// The superblock that counts, of those that are sound.
pub(super) fn newest(superblocks: &[Result<Superblock, String>; 2]) -> Option<&Superblock> {
    let [first, second] = superblocks.each_ref().map(|found| found.as_ref().ok());
    // `nilfs_load_super_block` compares `s_last_cno`.
    match (first, second) {
        (Some(first), Some(second)) if second.last_checkpoint > first.last_checkpoint => {
            Some(second)
        }
        (first, second) => first.or(second),
    }
}

fn refuse_options_of_chips(path: &Path, options: &OpenOptions) -> Result<(), ImageError> {
    let of_chips = [
        ("--oob-layout", options.oob_layout.is_some()),
        ("--ecc", options.ecc.is_some()),
        ("--page-size", options.page_bytes.is_some()),
        ("--block-size", options.block_bytes.is_some()),
        ("--vid-hdr-offset", options.vid_header_offset.is_some()),
        ("--volume", options.volume.is_some()),
    ];
    match of_chips.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let reason = format!(
                "{} is an image of a block device with NILFS2; only chips have such: leave it out",
                path.display()
            );
            Err(ImageError::Option { option, reason })
        }
    }
}
