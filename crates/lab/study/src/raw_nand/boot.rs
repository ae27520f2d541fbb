//! A machine that starts with a chip: what the tests have in common.

use super::contract::{Context, RawNandRun};
use crate::StudyError;
use crate::metric::Metric;
use board::{Board, Costs, RawNand, Work};
use fs_api::{Caller, Errno};
use mount::{BlockDeviceChoice, Driver, Machine, MountError, MountRequest, Mounted, run_watched};
use nand::{Chip, Counters, Torn};
use random::Stream;
use std::rc::Rc;
use vfs::{OpenFile, OpenOptions};

/// Bytes of a write of an application.
const WRITE_BYTES: usize = 32 << 10;

impl RawNandRun {
    /// The request of the mount of every boot.
    pub(super) fn request(&self, seed: u64) -> MountRequest {
        MountRequest {
            profile: Some(self.host.profile.to_owned()),
            options: self.mount_options.clone(),
            // A chip was formatted when it was prepared; a device of its own comes as it is delivered.
            formats_blank: self.block.device != BlockDeviceChoice::MtdBlock,
            seed,
            block: self.block.clone(),
            ..MountRequest::default()
        }
    }

    /// The board's driver, in simulated time.
    pub(super) fn timed_driver(&self) -> Driver {
        Driver::of_board(self.host.layout, Rc::new(self.host.board.clone()))
    }

    /// The board's memory and its rules, but nothing takes time.
    pub(super) fn untimed_driver(&self) -> Driver {
        let board = Board {
            costs: Costs {
                syscall_ns: 0,
                bio_submit_ns: 0,
                bio_complete_ns: 0,
                page_ns: 0,
                copy_ps_per_byte: 0,
            },
            work: Work::default(),
            // Rules of the driver stay, since they decide which operations there are.
            raw_nand: RawNand {
                has_bad_block_table: self.host.board.raw_nand.has_bad_block_table,
                reads_sub_pages: self.host.board.raw_nand.reads_sub_pages,
                ..RawNand::default()
            },
            ..self.host.board.clone()
        };
        Driver { board: Rc::new(board), takes_time: false, ..self.timed_driver() }
    }

    /// Carries a job out on a machine that starts with the prepared flash, in simulated time: what came of it,
    /// and the chip as the job left it. The job gets this run, and the seed of its repeat.
    ///
    /// # Errors
    /// The flash cannot be prepared.
    pub(super) fn on_machine<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        context: &Context<'_>,
        job: impl FnOnce(Machine, Self, u64) -> F,
    ) -> Result<(T, Chip), StudyError> {
        let chip = context.prepared.copy(&self.flash, context.study_seed)?;
        let (own, seed) = (self.clone(), context.seed);
        let outcome = run_watched(chip, &self.timed_driver(), seed, context.watcher, |machine| {
            job(machine, own, seed)
        });
        let Some(value) = outcome.value else { unreachable!("nothing cuts the power") };
        Ok((value, outcome.chip))
    }

    /// What a failed test says.
    pub(super) fn failed(&self, reason: impl Into<String>) -> StudyError {
        let place = format!("{} on {}", self.test.name, self.flash.key);
        StudyError::Study { place, reason: reason.into() }
    }
}

/// Time and chip operations since a moment.
pub(super) struct Meter {
    start_ns: u64,
    chip: Counters,
}

impl Meter {
    pub(super) fn start(machine: &Machine) -> Self {
        Self { start_ns: machine.sim.now(), chip: machine.mtd.with_chip(|chip| chip.counters()) }
    }

    pub(super) fn read(&self, machine: &Machine) -> (u64, Counters) {
        let chip = machine.mtd.with_chip(|chip| chip.counters());
        (machine.sim.now() - self.start_ns, chip - self.chip)
    }
}

/// A mount as the system does it when it starts: UBI is attached first where it is needed.
pub(super) struct Boot {
    pub(super) mounted: Mounted,
    /// None where the file system is on the device itself.
    pub(super) attach: Option<(u64, Counters)>,
    pub(super) mount: (u64, Counters),
}

impl Boot {
    pub(super) async fn of(
        machine: &Machine,
        run: &RawNandRun,
        seed: u64,
    ) -> Result<Self, MountError> {
        // One request for both, so that attach and mount have the same profile and options.
        let request = run.request(seed);
        let mut attach = None;
        // Attached before the mount, so that each has its own time.
        if run.host.kind.is_over_ubi {
            let meter = Meter::start(machine);
            machine.attach_ubi(&request).await?;
            attach = Some(meter.read(machine));
        }
        let meter = Meter::start(machine);
        let mounted = machine.mount(run.host.kind, &request).await?;
        Ok(Self { mounted, attach, mount: meter.read(machine) })
    }

    /// An orderly end of the mount, and of UBI.
    pub(super) async fn end(self, machine: &Machine) -> Result<(), Errno> {
        // UBI is left after the file system on it, which writes until its unmount has returned.
        self.mounted.unmount().await?;
        machine.detach_ubi();
        Ok(())
    }

    /// What the mount did, by the file system's own counts.
    pub(super) async fn mechanism(&self) -> Vec<Metric> {
        let file_system = &self.mounted.file_system;
        let counters = file_system.statistics().await;
        let of_mount = counters.iter().filter(|counter| counter.is_of_mount);
        let mut metrics: Vec<Metric> = of_mount
            .map(|counter| Metric::count(counter.name, counter.value, counter.unit))
            .collect();
        let findings = file_system.findings().await.len() as u64;
        metrics.push(Metric::count("findings", findings, "findings"));
        metrics
    }
}

/// An application on a mount.
pub(super) struct Application<'a> {
    pub(super) machine: &'a Machine,
    pub(super) mounted: &'a Mounted,
}

impl Application<'_> {
    pub(super) fn caller(&self) -> Caller {
        self.machine.root()
    }

    /// Opens a file, which is made if it is not there.
    pub(super) async fn open(&self, path: &[u8]) -> Result<OpenFile, Errno> {
        let open = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        self.mounted.vfs.open(&self.caller(), path, open).await
    }

    /// Writes a file of random bytes; it stays open and is not synced.
    pub(super) async fn write_random(
        &self,
        path: &[u8],
        bytes: u64,
        numbers: &mut Stream,
    ) -> Result<OpenFile, Errno> {
        let file = self.open(path).await?;
        let mut at = 0;
        while at < bytes {
            let mut record = vec![0; (bytes - at).min(WRITE_BYTES as u64) as usize];
            fill(&mut record, numbers);
            self.mounted.vfs.write(&self.caller(), &file, at, &record).await?;
            at += record.len() as u64;
        }
        Ok(file)
    }
}

/// Fills bytes with random ones.
pub(super) fn fill(bytes: &mut [u8], numbers: &mut Stream) {
    for word in bytes.chunks_mut(8) {
        word.copy_from_slice(&numbers.next_u64().to_le_bytes()[..word.len()]);
    }
}

/// What a cut leaves of the operation that it tears.
pub(super) fn torn(numbers: &mut Stream) -> Torn {
    [Torn::Nothing, Torn::Prefix, Torn::DataOnly][numbers.below(3) as usize]
}
