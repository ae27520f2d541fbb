//! What the first mount after a cut did: its writes, which can be cut in their turn, and what it counted.

use crate::changes::is_on_card;
use mount::{CardOperation, Counter, Kind, Machine, MountRequest, Mounted};
use nand::{Chip, RawOperation};

/// What a mount wrote to the medium.
#[derive(Debug)]
pub(crate) enum Writes {
    Chip(Vec<RawOperation>),
    Card(Vec<CardOperation>),
}

impl Default for Writes {
    fn default() -> Self {
        Self::Chip(Vec::new())
    }
}

/// What the first mount after a cut did.
#[derive(Debug, Default)]
pub(crate) struct FirstMount {
    /// What it wrote before anything was asked of it but to be read.
    pub(crate) writes: Writes,
    /// How many operations that were.
    pub(crate) operations: usize,
    /// What it had counted by then.
    pub(crate) counters: Vec<Counter>,
    /// What it had counted after the write.
    pub(crate) counters_after_write: Vec<Counter>,
    /// Codes of its findings.
    pub(crate) findings: Vec<&'static str>,
}

impl FirstMount {
    /// Begins to note what a chip is told.
    pub(crate) fn begin(chip: &mut Chip) {
        chip.start_journal();
    }

    /// What the mount did so far, of a machine whose journal began before it.
    pub(crate) async fn of(
        machine: &Machine,
        kind: &Kind,
        request: &MountRequest,
        mounted: &Mounted,
    ) -> Self {
        let writes = if is_on_card(kind, request) {
            Writes::Card(machine.card().take_journal())
        } else {
            Writes::Chip(machine.mtd.with_chip(Chip::take_journal))
        };
        let operations = match &writes {
            Writes::Chip(writes) => writes.len(),
            Writes::Card(writes) => writes.len(),
        };
        let counters = mounted.file_system.statistics().await;
        let mut findings: Vec<&'static str> =
            mounted.file_system.findings().await.iter().map(|finding| finding.code).collect();
        findings.sort_unstable();
        findings.dedup();
        Self { writes, operations, counters, counters_after_write: Vec::new(), findings }
    }
}
