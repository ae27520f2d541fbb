//! Where the time of bios went: sums over a run, reads and writes apart.

use block::{BioTimes, Observer, WaitBreakdown};
use sched::Direction;

/// Sums over the bios of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Phases {
    pub(crate) bios: u64,
    pub(crate) merged: u64,
    pub(crate) q2g_ns: u64,
    pub(crate) g2i_ns: u64,
    pub(crate) i2d_ns: u64,
    pub(crate) d2c_ns: u64,
    pub(crate) wait: WaitBreakdown,
    /// Sum and greatest of what [`BioTimes::overtaken`] says.
    pub(crate) overtaken: (u64, u64),
    /// The bio that took longest.
    pub(crate) longest: Longest,
}

/// How long a bio took, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    pub(crate) q2c_ns: u64,
    pub(crate) wait: WaitBreakdown,
    pub(crate) overtaken: u64,
}

/// Watches all bios of a run, reads and writes apart.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) reads: Phases,
    pub(super) writes: Phases,
}

impl Observer for Watch {
    fn completed(&mut self, times: &BioTimes) {
        let phases = match times.bio.direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        };
        phases.bios += 1;
        phases.merged += u64::from(times.is_merged);
        // Four times that follow each other without a gap (Q, G, I, D and C of blktrace).
        debug_assert_eq!(
            times.q2g_ns() + times.g2i_ns() + times.i2d_ns() + times.d2c_ns(),
            times.q2c_ns()
        );
        phases.q2g_ns += times.q2g_ns();
        phases.g2i_ns += times.g2i_ns();
        phases.i2d_ns += times.i2d_ns();
        phases.d2c_ns += times.d2c_ns();
        phases.wait.reads_ns += times.wait.reads_ns;
        phases.wait.writes_ns += times.wait.writes_ns;
        phases.wait.cleaning_ns += times.wait.cleaning_ns;
        phases.wait.idling_ns += times.wait.idling_ns;
        phases.overtaken.0 += times.overtaken;
        phases.overtaken.1 = phases.overtaken.1.max(times.overtaken);
        let q2c_ns = times.q2c_ns();
        if q2c_ns > phases.longest.q2c_ns {
            let BioTimes { wait, overtaken, .. } = *times;
            phases.longest = Longest { q2c_ns, wait, overtaken };
        }
    }
}
