//! A process of the tool: preparation, then one request after the other.

use crate::options::{Access, Options, Target};
use crate::profile::{Pace, Version};
use crate::report::Report;
use block::RequestQueue;
use jobs::{Addresses, Distribution, Region};
use page_cache::{BlockFile, FileError, Mode, PAGE_BYTES, Process};
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
    let set_bytes = options.working_set_on(region.bytes).expect("the region holds the working set");
    let set = Region { offset_bytes: region.offset_bytes + options.offset_bytes, bytes: set_bytes };
    let stream = sim.stream(&format!("ioping {pid}"));
    let addresses = if options.is_linear {
        Addresses::sequential(set, options.size_bytes, stream)
    } else {
        Addresses::random(set, options.size_bytes, Distribution::Uniform, stream)
    };
    let tool = Tool {
        sim: sim.clone(),
        file: file.clone(),
        options: options.clone(),
        access,
        process: Process::new(pid),
        set,
    };
    let (queue, name) = (queue.clone(), format!("ioping {pid}"));
    sim.spawn_named(name, async move {
        let report = tool.run(addresses).await;
        // The scheduler frees what it keeps of the process.
        queue.exit(pid);
        report
    })
}

/// A process while it runs.
struct Tool {
    sim: Sim,
    file: BlockFile,
    options: Rc<Options>,
    access: Access,
    process: Process,
    set: Region,
}

impl Tool {
    /// What the clock of the version shows.
    fn clock_ns(&self) -> u64 {
        let resolution_ns = self.options.profile.clock_ns;
        self.sim.now() / resolution_ns * resolution_ns
    }

    fn mode(&self) -> Mode {
        match (self.options.is_direct, self.options.is_synchronous) {
            (true, _) => Mode::Direct,
            (false, true) => Mode::Sync,
            (false, false) => Mode::Buffered,
        }
    }

    async fn run(self, addresses: Addresses) -> Report {
        // A process that fails has a report, too: its error ends the run with a message.
        let mut report = Report::new(self.process.pid, self.access, self.options.size_bytes);
        if self.options.target == Target::Directory
            && let Err(error) = self.prepare().await
        {
            report.error = Some(error);
            return report;
        }
        // A block that is dropped after each request is not worth reading ahead of. Random reads of a cached
        // target are announced since 1.0.
        let options = &self.options;
        let announces_random = options.profile.version >= Version::V1_0 && !options.is_linear;
        if !options.is_cached || announces_random {
            self.file.advise_random(self.process);
        }
        self.measure(addresses, &mut report).await;
        report
    }

    /// Writes the file of a directory and syncs it: nothing of it is measured.
    async fn prepare(&self) -> Result<(), FileError> {
        let Region { offset_bytes, bytes } = self.set;
        let mut written = 0;
        while written < bytes {
            let rest = bytes - written;
            // Until 0.9 what is left of the working set behind the last whole request is not written.
            if rest < self.options.size_bytes && self.options.profile.version < Version::V1_0 {
                break;
            }
            let size = rest.min(self.options.size_bytes);
            self.file.write(self.process, offset_bytes + written, size, self.mode()).await?;
            written += size;
        }
        self.file.fsync(self.process).await.map(drop)
    }

    /// The requests. Every number that decides when the next one begins is a reading of the tool's own clock.
    async fn measure(&self, mut addresses: Addresses, report: &mut Report) {
        let options = &self.options;
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
                self.drop_pages(offset_bytes);
            }
            let began_ns = self.clock_ns();
            if let Err(error) = self.request(is_write, offset_bytes).await {
                report.error = Some(error);
                return;
            }
            let ended_ns = self.clock_ns();
            debug_assert!(began_ns <= ended_ns, "the clock goes forward");
            report.add_request(options, number, ended_ns - began_ns);
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
                return;
            }
            self.sim.sleep(slot_ns - ended_ns).await;
        }
    }

    /// Drops the whole pages of a request from the cache, as `POSIX_FADV_DONTNEED` does with clean ones
    /// (`SYSCALL_DEFINE(fadvise64_64)` of mm/fadvise.c: a part of a page at either end stays).
    fn drop_pages(&self, offset_bytes: u64) {
        let first = offset_bytes.div_ceil(PAGE_BYTES);
        let end = (offset_bytes + self.options.size_bytes) / PAGE_BYTES;
        if first < end {
            self.file.mapping().invalidate(&(first..end));
        }
    }

    /// One request. A write is followed by `fdatasync` before the clock is read again, unless `-C` says not to.
    async fn request(&self, is_write: bool, offset_bytes: u64) -> Result<(), FileError> {
        let bytes = self.options.size_bytes;
        if !is_write {
            return self.file.read(self.process, offset_bytes, bytes, self.mode()).await.map(drop);
        }
        self.file.write(self.process, offset_bytes, bytes, self.mode()).await?;
        if !self.options.is_cached {
            self.file.fsync(self.process).await?;
        }
        Ok(())
    }
}
