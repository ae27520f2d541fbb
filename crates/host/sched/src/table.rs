//! The table of schedulers.

use crate::contract::SchedulerEntry;
use crate::{anticipatory, bfq, cfq, deadline, kyber, mq_deadline, none, noop, row, sfq, sfq2};
use settings::OwnRows;

/// All schedulers, sorted by name.
pub const SCHEDULERS: &[&SchedulerEntry] = &[
    &anticipatory::ENTRY,
    &bfq::ENTRY_6_1,
    &bfq::ENTRY_6_12,
    &cfq::ENTRY_2_6_29,
    &cfq::ENTRY_2_6_32,
    &cfq::ENTRY_3_4,
    &deadline::ENTRY_2_6_32,
    &deadline::ENTRY_3_4,
    &kyber::ENTRY,
    &mq_deadline::ENTRY_6_1,
    &mq_deadline::ENTRY_6_12,
    &none::ENTRY,
    &noop::ENTRY,
    &row::ENTRY,
    &sfq::ENTRY,
    &sfq::ENTRY_LITERAL,
    &sfq2::ENTRY,
];

/// Schedulers of the user's own.
pub static OWN_SCHEDULERS: OwnRows<SchedulerEntry> = OwnRows::new();

/// The scheduler called `name`, or by an alias.
pub fn find_scheduler(name: &str) -> Option<&'static SchedulerEntry> {
    let is_called = |entry: &&SchedulerEntry| entry.name == name || entry.aliases.contains(&name);
    SCHEDULERS.iter().copied().find(is_called).or_else(|| OWN_SCHEDULERS.find(name))
}

/// Names and aliases, for messages.
pub fn scheduler_names() -> impl Iterator<Item = &'static str> + Clone {
    SCHEDULERS
        .iter()
        .flat_map(|entry| std::iter::once(entry.name).chain(entry.aliases.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::SCHEDULERS;

    #[test]
    fn the_table_is_sorted_and_its_names_are_unique() {
        assert!(SCHEDULERS.windows(2).all(|pair| pair[0].name < pair[1].name));
        let mut names: Vec<&str> = super::scheduler_names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
