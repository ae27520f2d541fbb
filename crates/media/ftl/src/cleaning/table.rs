//! The table of cleaning policies.

use super::contract::PolicyEntry;
use super::{cat, cost_benefit, d_choices, fifo, greedy, random, windowed};
use crate::settings::{Kind, OwnRows};

/// All cleaning policies, sorted by name.
pub const POLICIES: &[&PolicyEntry] = &[
    &cat::ENTRY,
    &cost_benefit::ENTRY,
    &d_choices::ENTRY,
    &fifo::ENTRY,
    &greedy::ENTRY,
    &random::ENTRY,
    &windowed::ENTRY,
];

/// Names of [`POLICIES`], for the parameter that chooses one.
// A second table by name, because parameters are constants and cannot be built from the rows.
const NAMES: &[&str] =
    &["cat", "cost-benefit", "d-choices", "fifo", "greedy", "random", "windowed"];

/// Policies of the user's own.
pub static OWN_POLICIES: OwnRows<PolicyEntry> = OwnRows::new();

/// The policy called `name`.
pub fn find_policy(name: &str) -> Option<&'static PolicyEntry> {
    let listed = POLICIES.iter().copied().find(|entry| entry.name == name);
    listed.or_else(|| OWN_POLICIES.find(name))
}

/// What the parameter that chooses a policy takes.
pub(crate) const KIND: Kind =
    Kind::Policy { names: NAMES, is_own: |name| OWN_POLICIES.find(name).is_some() };

#[cfg(test)]
mod tests {
    use super::{NAMES, POLICIES};

    #[test]
    fn the_table_is_sorted_and_agrees_with_the_list_of_names() {
        assert!(POLICIES.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(POLICIES.iter().map(|entry| &entry.name).eq(NAMES));
    }
}
