//! Looks for the operation in which the supply of a device is to fail.

use nand::MediumChange;

/// Counts programs and erases up to the one in which the supply is to fail.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CutWatch {
    programs_left: Option<u64>,
    erases_left: Option<u64>,
    /// When the supply fails, once that is known.
    pub(crate) cut_ns: Option<u64>,
}

impl CutWatch {
    /// Cuts the power in the middle of the `count`-th program from now on; the first is number 1.
    pub(crate) fn at_program(count: u64) -> Self {
        Self { programs_left: Some(count), ..Self::default() }
    }

    /// As [`CutWatch::at_program`], of an erase.
    pub(crate) fn at_erase(count: u64) -> Self {
        Self { erases_left: Some(count), ..Self::default() }
    }

    pub(crate) fn see(&mut self, change: &MediumChange, begin_ns: u64, end_ns: u64) {
        let left = match change {
            MediumChange::Program { .. } => &mut self.programs_left,
            MediumChange::Erase { .. } => &mut self.erases_left,
            MediumChange::Mark { .. } | MediumChange::Bad { .. } => return,
        };
        let Some(count) = left else { return };
        *count -= 1;
        if *count == 0 {
            *left = None;
            // Rounded up: a moment within the operation, not the one at which it begins.
            self.cut_ns = Some(begin_ns + (end_ns - begin_ns).div_ceil(2));
        }
    }
}
