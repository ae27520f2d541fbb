//! How often the medium has changed: the clock of cut points.

use mount::{BlockDeviceChoice, CardSlot, Kind, Machine, MountRequest};
use mtd::Mtd;
use std::rc::Rc;

/// What is cut: the chip, or the card.
#[derive(Clone)]
pub(crate) enum Changes {
    Chip(Rc<Mtd>),
    Card(Rc<CardSlot>),
}

impl Changes {
    /// The medium of a file system on a machine.
    pub(crate) fn of(machine: &Machine, kind: &Kind, request: &MountRequest) -> Self {
        if is_on_card(kind, request) {
            Self::Card(machine.card().clone())
        } else {
            Self::Chip(machine.mtd.clone())
        }
    }

    /// Operations that have changed the medium.
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Chip(mtd) => mtd.with_chip(|chip| chip.journaled()),
            Self::Card(card) => card.journaled(),
        }
    }
}

/// True of a file system on a device with a layer of its own.
pub(crate) fn is_on_card(kind: &Kind, request: &MountRequest) -> bool {
    kind.is_on_block_device && request.block.device != BlockDeviceChoice::MtdBlock
}
