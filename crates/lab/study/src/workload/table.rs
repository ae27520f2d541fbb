//! All kinds of workload: a row each.

use crate::workload::contract::WorkloadKind;
use crate::{ioping, iozone, jobs, layers, raw_nand};

/// All kinds, sorted by name.
pub const WORKLOADS: &[WorkloadKind] = &[
    layers::hot_cold::KIND,
    ioping::KIND,
    iozone::KIND,
    jobs::KIND,
    jobs::kernel::KIND,
    raw_nand::KIND,
    layers::sequential::KIND,
    // Shows that one file and one row suffice; only the tests have it.
    #[cfg(test)]
    crate::toy::KIND,
    layers::trace_replay::KIND,
    layers::uniform::KIND,
];

/// The row of a name.
pub(crate) fn find_workload(name: &str) -> Option<&'static WorkloadKind> {
    WORKLOADS.iter().find(|kind| kind.name == name)
}

#[cfg(test)]
mod tests {
    use super::WORKLOADS;

    #[test]
    fn the_table_is_sorted_and_its_names_are_unique() {
        assert!(WORKLOADS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
