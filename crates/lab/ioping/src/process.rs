//! A process of the tool: preparation, then one request after the other.

use crate::mounted::OpenMounted;
use crate::options::{Access, Options, Target};
use crate::profile::{Pace, Version};
use crate::report::{MediumWork, Report};
use crate::target::{CallError, OpenDevice, OpenTarget};
use block::RequestQueue;
use jobs::{Addresses, Distribution, Region};
use mount::{Machine, Mounted};
use page_cache::{BlockFile, Process};
use sim::{JoinHandle, Sim};
use std::rc::Rc;

/// Starts a process of the tool on `region`, the bytes of the device that are its target.
///
/// `access` takes the place of what the command line says, so that processes of one command line can read,
/// write, or do both in turns. When the process has ended, the request queue learns of its exit.
///
/// # Panics
/// If the region does not hold the working set ([`Options::working_set_on`]).
pub fn start(
    sim: &Sim,
    file: &BlockFile,
    queue: &RequestQueue,
    options: &Rc<Options>,
    access: Access,
    region: Region,
    pid: u32,
) -> JoinHandle<Report> {
    let process = Process::new(pid);
    let target = OpenDevice::new(file.clone(), process, options);
    let (tool, addresses) = Tool::new(sim, target, options, access, region, pid);
    let (queue, name) = (queue.clone(), format!("ioping {pid}"));
    sim.spawn_named(name, async move {
        let report = tool.run(addresses).await;
        // The scheduler frees what it keeps of the process.
        queue.exit(pid);
        report
    })
}

/// Starts a process of the tool on the root directory of a mounted file system, or on the file
/// [`FILE_PATH`](crate::FILE_PATH) in it, which has `file_bytes`.
///
/// # Panics
/// If the file does not hold the working set ([`Options::working_set_on`]).
pub fn start_on_mount(
    machine: &Machine,
    mounted: &Mounted,
    options: &Rc<Options>,
    access: Access,
    file_bytes: u64,
    pid: u32,
) -> JoinHandle<Report> {
    // The file of a directory is as large as the working set behind its offset.
    let of_directory = options.working_set_bytes.map(|bytes| options.offset_bytes + bytes);
    let bytes = match options.target {
        Target::Directory => of_directory.expect("a directory has a working set"),
        _ => file_bytes,
    };
    let target = OpenMounted::new(machine, mounted, options, pid);
    let region = Region { offset_bytes: 0, bytes };
    let (tool, addresses) = Tool::new(&machine.sim, target, options, access, region, pid);
    let queue = mounted.file_system.block_path().map(|path| path.queue().clone());
    machine.sim.spawn_as(Process::new(pid), format!("ioping {pid}"), async move {
        let report = tool.run(addresses).await;
        if let Some(queue) = queue {
            queue.exit(pid);
        }
        report
    })
}

/// A process while it runs.
struct Tool<T> {
    sim: Sim,
    target: T,
    options: Rc<Options>,
    access: Access,
    pid: u32,
    set: Region,
}

impl<T: OpenTarget> Tool<T> {
    fn new(
        sim: &Sim,
        target: T,
        options: &Rc<Options>,
        access: Access,
        region: Region,
        pid: u32,
    ) -> (Self, Addresses) {
        let set_bytes =
            options.working_set_on(region.bytes).expect("the region holds the working set");
        let set =
            Region { offset_bytes: region.offset_bytes + options.offset_bytes, bytes: set_bytes };
        let stream = sim.stream(&format!("ioping {pid}"));
        let addresses = if options.is_linear {
            Addresses::sequential(set, options.size_bytes, stream)
        } else {
            Addresses::random(set, options.size_bytes, Distribution::Uniform, stream)
        };
        let (sim, options) = (sim.clone(), options.clone());
        (Self { sim, target, options, access, pid, set }, addresses)
    }

    /// What the clock of the version shows.
    fn clock_ns(&self) -> u64 {
        let resolution_ns = self.options.profile.clock_ns;
        self.sim.now() / resolution_ns * resolution_ns
    }

    async fn run(mut self, addresses: Addresses) -> Report {
        // A process that fails has a report, too: its error ends the run with a message.
        let mut report = Report::new(self.pid, self.access, self.options.size_bytes);
        let done = self.prepare_and_measure(addresses, &mut report).await;
        let exited = self.target.exit().await;
        report.error = done.and(exited).err();
        report
    }

    async fn prepare_and_measure(
        &mut self,
        addresses: Addresses,
        report: &mut Report,
    ) -> Result<(), CallError> {
        let version = self.options.profile.version;
        // Until 0.8 every byte is the same.
        if version >= Version::V0_9 {
            self.target.draw_bytes();
        }
        let must_write = self.target.open().await?;
        if self.options.target == Target::Directory {
            self.prepare(must_write).await?;
        }
        // A block that is dropped after each request is not worth reading ahead of. Random reads of a cached
        // target are announced since 1.0.
        let announces_random = version >= Version::V1_0 && !self.options.is_linear;
        if !self.options.is_cached || announces_random {
            self.target.advise_random();
        }
        let begin = self.target.medium_work();
        let measured = self.measure(addresses, report).await;
        report.medium_work = begin.zip(self.target.medium_work()).map(<[MediumWork; 2]>::from);
        measured
    }

    /// Writes the file of a directory, unless it is there, and syncs it: nothing of it is measured.
    async fn prepare(&mut self, must_write: bool) -> Result<(), CallError> {
        let Region { offset_bytes, bytes } = self.set;
        let version = self.options.profile.version;
        let mut written = 0;
        while must_write && written < bytes {
            let rest = bytes - written;
            // Until 0.9 what is left of the working set behind the last whole request is not written.
            if rest < self.options.size_bytes && version < Version::V1_0 {
                break;
            }
            // Every request of the file has other bytes; 0.9 draws once more behind the last one, and its
            // requests write those.
            if written > 0 && version >= Version::V1_0 {
                self.target.draw_bytes();
            }
            let size = rest.min(self.options.size_bytes);
            self.target.write(offset_bytes + written, size).await?;
            if version == Version::V0_9 {
                self.target.draw_bytes();
            }
            written += size;
        }
        self.target.fsync().await
    }

    /// The requests. Every number that decides when the next one begins is a reading of the tool's own clock.
    async fn measure(
        &mut self,
        mut addresses: Addresses,
        report: &mut Report,
    ) -> Result<(), CallError> {
        let options = self.options.clone();
        let start_ns = self.clock_ns();
        report.start_ns = start_ns;
        report.end_ns = start_ns;
        // The first slot is now, so the second request begins one interval after the first has begun.
        let (mut slot_ns, mut in_burst) = (start_ns, 0);
        for number in 1.. {
            let offset_bytes = addresses.next_offset();
            debug_assert!(
                offset_bytes >= self.set.offset_bytes,
                "a request lies in the working set"
            );
            let is_write = self.access.writes(number);
            if !options.is_cached {
                self.target.advise_not_needed(offset_bytes, options.size_bytes);
            }
            if is_write && options.profile.version >= Version::V1_0 {
                self.target.draw_bytes();
            }
            let began_ns = self.clock_ns();
            self.request(is_write, offset_bytes).await?;
            let ended_ns = self.clock_ns();
            debug_assert!(began_ns <= ended_ns, "the clock goes forward");
            report.add_request(&options, number, ended_ns - began_ns);
            report.end_ns = ended_ns;
            match options.profile.pace {
                Pace::AfterRequest => slot_ns = ended_ns + options.interval_ns,
                Pace::Slots => {
                    in_burst += 1;
                    if in_burst >= options.burst {
                        in_burst = 0;
                        slot_ns += options.interval_ns;
                    }
                    // A slot that has passed is not made up for.
                    slot_ns = slot_ns.max(ended_ns);
                }
            }
            let is_last = options.count > 0 && number >= options.count;
            // A request that would begin at the deadline, or later, is not made.
            let is_over = options.deadline_ns > 0 && slot_ns >= start_ns + options.deadline_ns;
            if is_last || is_over {
                break;
            }
            self.sim.sleep(slot_ns - ended_ns).await;
        }
        Ok(())
    }

    /// One request. A write is followed by `fdatasync` before the clock is read again, unless `-C` says not to.
    async fn request(&mut self, is_write: bool, offset_bytes: u64) -> Result<(), CallError> {
        let bytes = self.options.size_bytes;
        if !is_write {
            return self.target.read(offset_bytes, bytes).await;
        }
        self.target.write(offset_bytes, bytes).await?;
        if !self.options.is_cached {
            self.target.fdatasync().await?;
        }
        Ok(())
    }
}
