//! Who makes I/O: the process, the priority of its I/O, and which process runs now.
//!
//! A kernel's block layer takes no process with a bio: it reads `current`, the task that the processor
//! executes (`get_request` of `block/blk-core.c`, `cfq_get_queue` of `block/cfq-iosched.c`, Linux 2.6.32).
//! Here [`current`] is that task. So the calls of a file system carry no process, and yet the scheduler below
//! it sees every one:
//!
//! | request | submitted by | source |
//! |---|---|---|
//! | read of a page, read-ahead | the process that reads | `mm/filemap.c`, `mm/readahead.c` |
//! | direct transfer | the process that calls | `fs/direct-io.c` |
//! | write of `fsync` and `O_SYNC` | the process that calls | `filemap_write_and_wait_range` |
//! | write-back by age or limit | the flusher of the device | `bdi_writeback_task`, `fs/fs-writeback.c` |
//! | write-back of a writer at the limit, before 3.2 | the writer | `balance_dirty_pages` |
//! | write of `sync(2)` | the flusher of the device | `bdi_sync_writeback` |
//! | log of NILFS2 | `segctord`, or who calls `fdatasync` | `fs/nilfs2/segment.c` |
//! | read of a collection of JFFS2 over `block2mtd` | the collector's thread | `fs/jffs2/background.c` |
//! | write of such a collection | the flusher of the device | `drivers/mtd/devices/block2mtd.c` |
//!
//! The process is a property of a task of the simulation. A task that another one spawns runs as the spawner,
//! as a child shares the I/O context it is cloned from. Threads of a kernel run as processes of their own: the
//! simulation numbers them (`Sim::kernel_thread`), and [`run_as`] carries their work out.
//!
//! **Determinism.** The process that runs is kept for each thread of the host, because a run stays on one. It
//! is set before each poll of a task and set back afterwards, so no run sees that of another.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;

/// Level of a process that never set a priority (`IOPRIO_NORM` of `include/linux/ioprio.h`).
pub const NORMAL_LEVEL: u8 = 4;

/// Number of the first process (`init`), as which everything runs that no other process does.
pub const INIT_PID: u32 = 1;

/// Number of the first thread of the kernel. No process of an application has it: it is the end of the
/// numbers that Linux gives (`PID_MAX_LIMIT` of `include/linux/threads.h`).
pub const FIRST_KERNEL_PID: u32 = 1 << 22;

/// I/O priority class (`ioprio_set(2)`), most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// `IOPRIO_CLASS_RT`, served before the others.
    RealTime,
    /// `IOPRIO_CLASS_BE`; a process that never set a priority is here, at level 4.
    #[default]
    BestEffort,
    /// `IOPRIO_CLASS_IDLE`, served when the others are quiet.
    Idle,
}

/// A process, as the block layer and its schedulers distinguish it.
///
/// The number stands for the I/O context (`struct io_context`): no two processes share one, as after
/// `clone(2)` without `CLONE_IO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Number by which the schedulers distinguish it.
    pub pid: u32,
    /// I/O priority class (`ioprio_set(2)`).
    pub class: Class,
    /// Priority level in the class, 0 (first) to 7.
    pub level: u8,
}

impl Process {
    /// The first process.
    pub const INIT: Self = Self::new(INIT_PID);

    /// A process that never set a priority.
    pub const fn new(pid: u32) -> Self {
        Self { pid, class: Class::BestEffort, level: NORMAL_LEVEL }
    }

    /// The same process after `ioprio_set(2)`.
    #[must_use]
    pub const fn with_priority(self, class: Class, level: u8) -> Self {
        // `IOPRIO_BE_NR` of `include/linux/ioprio.h`: a class has eight levels.
        assert!(level < 8, "a priority level is 0 to 7");
        Self { class, level, ..self }
    }

    /// True for a thread of the kernel: a flusher, a log writer, a collector.
    pub const fn is_kernel_thread(self) -> bool {
        self.pid >= FIRST_KERNEL_PID
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::INIT
    }
}

thread_local! {
    /// The process that runs on this thread of the host.
    static CURRENT: Cell<Process> = const { Cell::new(Process::INIT) };
}

/// The process that runs now (`current`).
#[inline]
pub fn current() -> Process {
    CURRENT.get()
}

/// As long as this value lives, a process runs; then the one before it again.
#[derive(Debug)]
pub struct Running {
    before: Process,
}

/// Lets a process run until what is returned is dropped.
///
/// For the poll of a task, which no other poll interrupts. It must not be held across an `await`: use
/// [`run_as`] there.
#[inline]
#[must_use]
pub fn enter(process: Process) -> Running {
    Running { before: CURRENT.replace(process) }
}

impl Drop for Running {
    // At the drop, so that a poll that unwinds leaves the process before it, too.
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Carries `work` out as a process, whichever one awaits it.
pub async fn run_as<T>(process: Process, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    // Set at every poll: between two of them other tasks run on this thread.
    poll_fn(|context| {
        let _running = enter(process);
        work.as_mut().poll(context)
    })
    .await
}
