//! The background task: it writes the headers of directories, and collects in small steps.
//!
//! Source: `yaffs_vfs_multi.c` (`yaffs_bg_thread_fn`, `yaffs_bg_gc_urgency`).
//!
//! May use: `device`, `file_system`.

use crate::device::Device;
use crate::file_system::Yaffs2;

const MILLISECOND_NS: u64 = 1_000_000;
/// Between two looks at the directories.
const DIRECTORIES_NS: u64 = 1000 * MILLISECOND_NS;
// The module sets its timers in jiffies; 250 is the default of the kernel's configuration.
/// A tick of a kernel with HZ of 250.
const TICK_NS: u64 = 4 * MILLISECOND_NS;
/// Between two steps of collecting, by urgency 0, 1, 2 (a tick on top of HZ/10 and HZ/20).
const COLLECT_NS: [u64; 3] = [2000 * MILLISECOND_NS, 104 * MILLISECOND_NS, 52 * MILLISECOND_NS];

impl Device {
    /// How much there is to collect: 0 to 2 (`yaffs_bg_gc_urgency`).
    pub(crate) fn collect_urgency(&self) -> usize {
        let erased = self.erased_blocks * self.pages_per_block as i32;
        // Free chunks that lie in blocks with live ones. Collecting can only win these; fewer than
        // two blocks' worth are not worth the copies.
        let scattered = self.free_chunks - erased;
        if scattered < 2 * self.pages_per_block as i32 || erased > self.free_chunks / 2 {
            0
        } else if erased > self.free_chunks / 4 {
            1
        } else {
            2
        }
    }
}

impl Yaffs2 {
    /// Runs until the unmount. The caller spawns it, if the profile has a background task.
    pub async fn run_background(&self) {
        let (mut next_directories, mut next_collect) = (self.sim.now(), self.sim.now());
        loop {
            // The one lock, as for every call: a step of collecting holds up all users for as long
            // as it takes to move its five chunks.
            let mut device = self.device.lock().await;
            if device.is_unmounted || device.is_read_only {
                return;
            }
            let work = self.sim.work("background work");
            let now = self.sim.now();
            // Directories first, as in `yaffs_bg_thread_fn`: the step of collecting then sees their
            // old headers as free.
            if now > next_directories {
                device.update_dirty_directories().await;
                next_directories = now + DIRECTORIES_NS;
            }
            if now > next_collect {
                // A checkpoint that is current is left alone.
                if device.checkpoint.is_current {
                    // Collecting would erase the checkpoint for a gain that nothing asks for. The
                    // look is repeated with the directories' to save a wake-up.
                    next_collect = next_directories;
                } else {
                    let urgency = device.collect_urgency();
                    device.check_collect(true).await;
                    next_collect = now + COLLECT_NS[urgency];
                }
            }
            device.pay().await;
            drop(work);
            // Released before the sleep, as the thread does. Nothing is awaited between this and
            // the arming, so an unmount cannot fire the timer in vain.
            drop(device);
            let next = next_directories.min(next_collect);
            let next = if next < now { now + DIRECTORIES_NS } else { next };
            // The timer is set a tick later, or what is due would not be past its time.
            self.background.arm(next + TICK_NS);
            self.background.fired().await;
        }
    }
}
