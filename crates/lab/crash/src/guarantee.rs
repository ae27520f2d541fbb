//! The guarantees of all file systems, and the torn models that they are tried under.

use crate::card_cuts::Cached;
use file_systems::{KINDS, find_kind};
use mount::{Guarantee, Hazard};
use nand::Torn;
use std::fmt::Write as _;

/// All guarantees that lists and documents show, sorted by file system.
pub fn guarantees() -> impl Iterator<Item = &'static Guarantee> {
    KINDS.iter().filter(|kind| kind.is_shown).filter_map(|kind| kind.guarantee)
}

/// The guarantee of a file system.
pub fn find_guarantee(kind: &str) -> Option<&'static Guarantee> {
    find_kind(kind).ok()?.guarantee
}

/// The table in Markdown, as `docs/power-cuts.md` has it.
pub fn guarantees_in_markdown() -> String {
    let mut text = String::from(
        "| file system | safe | made and synced, directory not | beyond that, nothing left of the torn \
         operation | beyond that, part of a torn page left |\n|---|---|---|---|---|\n",
    );
    for guarantee in guarantees() {
        let Guarantee { kind, safe, new_file, beyond, beyond_torn_page, .. } = guarantee;
        let _ = writeln!(text, "| {kind} | {safe} | {new_file} | {beyond} | {beyond_torn_page} |");
    }
    text.push_str("\n| file system | hazard | what happens |\n|---|---|---|\n");
    for guarantee in guarantees() {
        for Hazard { name, summary, .. } in guarantee.hazards {
            let _ = writeln!(text, "| {} | `{name}` | {summary} |", guarantee.kind);
        }
    }
    text
}

/// A way in which a torn operation leaves the medium.
#[derive(Debug, PartialEq, Eq)]
pub struct TornModel {
    /// Name on the command line.
    pub name: &'static str,
    /// What is left of a page, or of a block, that was being written or erased.
    pub summary: &'static str,
    /// The chip's setting for it.
    pub torn: Torn,
    /// On a card: what becomes of writes in its cache. None of a model for raw NAND.
    pub cached: Option<Cached>,
}

/// The torn models, in the order in which they are run.
pub const TORN_MODELS: &[TornModel] = &[
    TornModel {
        name: "nothing",
        summary: "the operation never began; a cut within a read, too",
        torn: Torn::Nothing,
        cached: None,
    },
    TornModel {
        name: "prefix",
        summary: "the first half of the page's data without spare area; of an erase, the first half \
                  of the block's pages is blank",
        torn: Torn::Prefix,
        cached: None,
    },
    TornModel {
        name: "data-only",
        summary: "all data of the page without its spare area; an erase leaves the spare areas",
        torn: Torn::DataOnly,
        cached: None,
    },
];

/// What a cut may leave of the cache of a card, in the order in which it is run.
pub const CACHE_MODELS: &[TornModel] = &[
    TornModel {
        name: "kept",
        summary: "all writes that were submitted before",
        torn: Torn::Nothing,
        cached: Some(Cached::Kept),
    },
    TornModel {
        name: "lost",
        summary: "no write that no flush has covered",
        torn: Torn::Nothing,
        cached: Some(Cached::Lost),
    },
    TornModel {
        name: "reordered",
        summary: "of those writes each unit of 4096 bytes by itself, drawn from the seed and the cut point",
        torn: Torn::Nothing,
        cached: Some(Cached::Reordered),
    },
];

/// The torn model of a name, for raw NAND or for a card.
pub fn find_torn_model(name: &str) -> Option<&'static TornModel> {
    TORN_MODELS.iter().chain(CACHE_MODELS).find(|model| model.name == name)
}
