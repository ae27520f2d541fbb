//! The data of options: what a client asks of an export, and of its metadata contexts.

use crate::bytes::Reader;
use crate::wire::{ALLOCATION_CONTEXT, InfoKind};

/// The query that stands for all contexts of the namespace `base`.
const WILDCARD: &str = "base:";

/// Data of INFO and GO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExportQuestion<'a> {
    pub(super) name: &'a str,
    /// A bit for each [`InfoKind`] that is asked for. Others are ignored.
    asked: u8,
}

impl<'a> ExportQuestion<'a> {
    /// `None` if the lengths do not add up to the data.
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let name = reader.string()?;
        let count = usize::from(reader.u16()?);
        let mut asked = 0;
        for _ in 0..count {
            let number = reader.u16()?;
            // Unknown kinds are those of newer clients: the protocol wants them ignored.
            asked |= InfoKind::from_number(number).map_or(0, bit);
        }
        reader.is_empty().then_some(Self { name, asked })
    }

    pub(super) fn asks(&self, kind: InfoKind) -> bool {
        self.asked & bit(kind) != 0
    }
}

fn bit(kind: InfoKind) -> u8 {
    1 << kind.number()
}

/// Data of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MetaQuestion<'a> {
    pub(super) name: &'a str,
    pub(super) is_without_query: bool,
    pub(super) has_wildcard: bool,
    pub(super) has_allocation: bool,
}

impl<'a> MetaQuestion<'a> {
    /// `None` if the lengths do not add up to the data. Queries of other namespaces are ignored.
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(data);
        let name = reader.string()?;
        let count = reader.u32()?;
        let mut question =
            Self { name, is_without_query: count == 0, has_wildcard: false, has_allocation: false };
        // A count that lies ends with the data: each query takes four bytes at least.
        for _ in 0..count {
            match reader.string()? {
                WILDCARD => question.has_wildcard = true,
                ALLOCATION_CONTEXT => question.has_allocation = true,
                _ => {}
            }
        }
        reader.is_empty().then_some(question)
    }
}
