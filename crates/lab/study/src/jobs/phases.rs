//! Where the time of bios went: sums over a run, reads and writes apart.

use block::{Behind, Life, Observer};
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
    pub(crate) behind: Behind,
    /// Sum and greatest of what [`Life::overtaken`] says.
    pub(crate) overtaken: (u64, u64),
    /// The bio that took longest.
    pub(crate) longest: Longest,
}

/// How long a bio took, and why.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    pub(crate) q2c_ns: u64,
    pub(crate) behind: Behind,
    pub(crate) overtaken: u64,
}

/// Watches all bios of a run, reads and writes apart.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) reads: Phases,
    pub(super) writes: Phases,
}

impl Observer for Watch {
    fn completed(&mut self, life: &Life) {
        let phases = match life.bio.direction {
            Direction::Read => &mut self.reads,
            Direction::Write => &mut self.writes,
        };
        phases.bios += 1;
        phases.merged += u64::from(life.is_merged);
        // Four times that follow each other without a gap (Q, G, I, D and C of blktrace).
        debug_assert_eq!(
            life.q2g_ns() + life.g2i_ns() + life.i2d_ns() + life.d2c_ns(),
            life.q2c_ns()
        );
        phases.q2g_ns += life.q2g_ns();
        phases.g2i_ns += life.g2i_ns();
        phases.i2d_ns += life.i2d_ns();
        phases.d2c_ns += life.d2c_ns();
        phases.behind.reads_ns += life.behind.reads_ns;
        phases.behind.writes_ns += life.behind.writes_ns;
        phases.behind.cleaning_ns += life.behind.cleaning_ns;
        phases.behind.idling_ns += life.behind.idling_ns;
        phases.overtaken.0 += life.overtaken;
        phases.overtaken.1 = phases.overtaken.1.max(life.overtaken);
        let q2c_ns = life.q2c_ns();
        if q2c_ns > phases.longest.q2c_ns {
            let Life { behind, overtaken, .. } = *life;
            phases.longest = Longest { q2c_ns, behind, overtaken };
        }
    }
}
