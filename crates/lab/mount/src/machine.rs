//! The host around a mount.

use crate::block_path::{BlockPath, BlockRequest};
use crate::{CardSlot, Kind, MountError, MountRequest, SharedMount};
use block::RequestQueue;
use board::Board;
use fs_api::{Caller, Errno, Time};
use mtd::{BadBlocks, DriverCosts, Mtd, MtdOptions, OobLayout};
use nand::Chip;
use sim::{Cpus, RunEnd, Sim, Simulation};
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use vfs::Vfs;

/// Seconds since 1970 at which simulations begin, where nothing else is said.
// A date in 2023: any will do that is the same in all runs.
const EPOCH_SECONDS: i64 = 1_700_000_000;

/// The driver under a file system, and the host it runs on.
#[derive(Clone, Debug)]
pub struct Driver {
    /// Layout of the spare area.
    pub layout: &'static OobLayout,
    /// The host that the driver runs on.
    pub board: Rc<Board>,
    /// False for tools: nothing takes time, not even the chip.
    pub takes_time: bool,
    /// The host's clock at the beginning, seconds since 1970.
    pub epoch_seconds: i64,
    /// And nanoseconds behind that second.
    pub epoch_nanoseconds: u32,
}

impl Driver {
    /// The driver of a tool: all is done at once.
    pub fn of_tool(layout: &'static OobLayout) -> Self {
        let board = Rc::new(Board::without_costs());
        Self {
            layout,
            board,
            takes_time: false,
            epoch_seconds: EPOCH_SECONDS,
            epoch_nanoseconds: 0,
        }
    }

    /// The driver of a board, in simulated time.
    pub fn of_board(layout: &'static OobLayout, board: Rc<Board>) -> Self {
        Self { layout, board, takes_time: true, epoch_seconds: EPOCH_SECONDS, epoch_nanoseconds: 0 }
    }

    fn options(&self) -> MtdOptions {
        let costs = &self.board.raw_nand;
        MtdOptions {
            layout: self.layout,
            costs: DriverCosts {
                command_ns: costs.command_ns,
                transfer_ps_per_byte: costs.transfer_ps_per_byte,
                ecc_ps_per_byte: costs.ecc_ps_per_byte,
                read_page_ns: costs.read_page_ns,
                program_page_ns: costs.program_page_ns,
                polls: costs.polls,
            },
            bad_blocks: if costs.has_bad_block_table { BadBlocks::Table } else { BadBlocks::Mark },
            reads_sub_pages: costs.reads_sub_pages,
            takes_time: self.takes_time,
        }
    }
}

/// What the task of [`run`] is called, which makes the calls of applications.
pub const JOB: &str = "job";

/// Hears of the queue of a block device as it is opened.
pub type BlockWatcher = Rc<dyn Fn(&RequestQueue)>;

/// Hears of machines, which run one after the other.
pub trait Watcher {
    /// A machine starts, with its clock at zero; nothing was done on it yet.
    fn begins(&self, machine: &Machine);

    /// A machine ends, or its power fails. Its tasks are gone.
    fn ends(&self, machine: &Machine);
}

/// A host with a raw NAND device. Clones are the same host.
#[derive(Clone)]
pub struct Machine {
    /// Virtual time of the run.
    pub sim: Sim,
    /// Processors that all tasks share.
    pub cpus: Rc<Cpus>,
    /// Costs and sizes of the host.
    pub board: Rc<Board>,
    /// The raw NAND device.
    pub mtd: Rc<Mtd>,
    epoch_seconds: i64,
    epoch_nanoseconds: u32,
    /// The card that block devices other than `mtdblock` are.
    pub(crate) card: Rc<CardSlot>,
    pub(crate) attached: Rc<RefCell<Option<Rc<ubi::Ubi>>>>,
    /// The block device, since it was first opened, and what was asked for then.
    block: Rc<RefCell<Option<(BlockRequest, BlockPath)>>>,
    /// What is told of a block device that is opened.
    block_watcher: Rc<RefCell<Option<BlockWatcher>>>,
    /// What libraries in the application's place remember over an unmount, by their types.
    remembered: Rc<RefCell<BTreeMap<TypeId, Rc<dyn Any>>>>,
}

impl Machine {
    /// The time of the host's clock now.
    pub fn now(&self) -> Time {
        let now_ns = u64::from(self.epoch_nanoseconds) + self.sim.now();
        let seconds = self.epoch_seconds + (now_ns / 1_000_000_000).cast_signed();
        Time { seconds, nanoseconds: (now_ns % 1_000_000_000) as u32 }
    }

    /// A call that root makes now.
    pub fn root(&self) -> Caller {
        Caller { uid: 0, gid: 0, now: self.now() }
    }

    /// What a library in the application's place remembers over an unmount: one of each type, which is empty
    /// at first and gone with the machine. A kernel forgets all.
    pub fn remembered<T: Default + 'static>(&self) -> Rc<T> {
        let mut remembered = self.remembered.borrow_mut();
        // By its type: two libraries never share what they remember.
        let found = remembered.entry(TypeId::of::<T>()).or_insert_with(|| Rc::new(T::default()));
        found.clone().downcast().expect("found by its type")
    }

    /// Mounts what the device holds; a blank device becomes an empty file system.
    ///
    /// # Errors
    /// [`MountError::BlockDevice`] if the device does not suit the file system; others of its own mount.
    pub async fn mount(
        &self,
        kind: &'static Kind,
        request: &MountRequest,
    ) -> Result<Mounted, MountError> {
        kind.check_block_device(&request.block.device)?;
        Ok(self.mounted((kind.mount)(self, request).await?, request.has_write_back))
    }

    /// The block device. It stays as long as the machine, unless another device, another scheduler,
    /// other tunables of it or another size of blocks are asked for.
    ///
    /// # Errors
    /// [`MountError::BlockDevice`] if the device cannot be opened with these tunables.
    pub fn block_path(
        &self,
        request: &BlockRequest,
        block_bytes: u64,
    ) -> Result<BlockPath, MountError> {
        let mut block = self.block.borrow_mut();
        match &*block {
            // The same device keeps its state and its queue over mounts.
            Some((asked, path)) if asked == request && path.asks_for(block_bytes) => {
                Ok(path.clone())
            }
            _ => {
                let path = BlockPath::open(self, request, block_bytes)?;
                if let Some(watcher) = &*self.block_watcher.borrow() {
                    watcher(path.queue());
                }
                *block = Some((request.clone(), path.clone()));
                Ok(path)
            }
        }
    }

    /// Tells `watcher` of each block device that is opened from now on; nobody, if it is none.
    pub fn watch_block_device(&self, watcher: Option<BlockWatcher>) {
        *self.block_watcher.borrow_mut() = watcher;
    }

    /// The slot of the card: what it holds when it is opened, and what is done to it.
    pub fn card(&self) -> &Rc<CardSlot> {
        &self.card
    }

    /// The block device, if one was opened.
    pub fn opened_block_path(&self) -> Option<BlockPath> {
        self.block.borrow().as_ref().map(|(_, path)| path.clone())
    }

    /// The host, whose flushers write back by time or not.
    pub fn writing_back(&self, has_write_back: bool) -> Rc<Board> {
        let mut board = self.board.clone();
        if !has_write_back {
            // Zero turns the flusher's clock off (`dirty_writeback_centisecs`).
            Rc::make_mut(&mut board).writeback.dirty_writeback_centisecs = 0;
        }
        board
    }

    /// A file system with the layer above it, which writes back by time or not.
    pub fn mounted(&self, file_system: SharedMount, has_write_back: bool) -> Mounted {
        let file_system = Rc::new(file_system);
        let vfs = if file_system.has_page_cache() {
            let board = self.writing_back(has_write_back);
            match file_system.page_cache() {
                // Files share the memory of the device's pages, as in a kernel.
                Some(pages) => {
                    Vfs::cached_in(&self.sim, &self.cpus, &board, pages, file_system.clone())
                }
                None => Vfs::cached(&self.sim, &self.cpus, &board, file_system.clone()),
            }
        } else {
            Vfs::new(&self.sim, file_system.clone())
        };
        Mounted { file_system, vfs: Rc::new(vfs) }
    }
}

/// A mounted file system, and the calls of applications on it.
pub struct Mounted {
    /// The file system below the layer.
    pub file_system: Rc<SharedMount>,
    /// The layer above it.
    pub vfs: Rc<Vfs<SharedMount>>,
}

impl Mounted {
    /// Ends the mount in an orderly way; what is dirty in memory is written before.
    ///
    /// # Errors
    /// Those of writing what is dirty, and of the file system's own unmount.
    pub async fn unmount(&self) -> Result<(), Errno> {
        self.vfs.unmount().await
    }
}

/// What became of a job.
pub struct Outcome<T> {
    /// The chip as the job left it.
    pub chip: Chip,
    /// The job's result; none if the power was cut before its end.
    pub value: Option<T>,
}

/// Runs a job on a machine of its own, until the job ends or the power is cut. Tasks that the job leaves
/// behind are dropped.
///
/// # Panics
/// If the job waits for what never comes: a defect, whose message names the tasks that wait.
pub fn run<T: 'static, F: Future<Output = T> + 'static>(
    chip: Chip,
    driver: &Driver,
    seed: u64,
    job: impl FnOnce(Machine) -> F,
) -> Outcome<T> {
    run_watched(chip, driver, seed, None, job)
}

/// As [`run`], with somebody who watches the machine. What is done there is the same.
///
/// # Panics
/// As [`run`].
pub fn run_watched<T: 'static, F: Future<Output = T> + 'static>(
    chip: Chip,
    driver: &Driver,
    seed: u64,
    watcher: Option<&dyn Watcher>,
    job: impl FnOnce(Machine) -> F,
) -> Outcome<T> {
    let mut simulation = Simulation::new(seed);
    let sim = simulation.handle();
    let board = driver.board.clone();
    let cpus = Rc::new(Cpus::new(&sim, board.processors.count, board.processors.timeslice_ns));
    let mtd = Mtd::new(&sim, cpus.clone(), chip, driver.options());
    let Driver { epoch_seconds, epoch_nanoseconds, .. } = *driver;
    let machine = Machine {
        sim: sim.clone(),
        cpus,
        board,
        mtd: mtd.clone(),
        epoch_seconds,
        epoch_nanoseconds,
        card: Rc::default(),
        attached: Rc::default(),
        block: Rc::default(),
        block_watcher: Rc::default(),
        remembered: Rc::default(),
    };
    // A machine that is held would keep the chip from being taken, so it is let go below.
    let held = watcher.map(|watcher| (watcher, machine.clone()));
    if let Some((watcher, machine)) = &held {
        watcher.begins(machine);
    }
    let value = Rc::new(RefCell::new(None));
    let (place, job) = (value.clone(), job(machine));
    sim.clone().spawn_named(JOB, async move {
        let done = job.await;
        *place.borrow_mut() = Some(done);
        // Ends the run: tasks that serve the machine would keep it going for ever.
        sim.stop();
    });
    let end = simulation.run();
    assert!(end == RunEnd::Stopped, "{end:?}: {}", simulation.blocked_tasks().join(", "));
    // Futures of the job may hold the driver; they go before the chip is taken.
    drop(simulation);
    if let Some((watcher, machine)) = held {
        watcher.ends(&machine);
    }
    let value = value.take();
    Outcome { chip: mtd.take_chip(), value }
}
