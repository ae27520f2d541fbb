//! Power cuts at every operation of the chip, and what a file system must show afterwards.
//!
//! A script runs once without a cut, on a file system that is watched: every operation that changes
//! the medium is journaled, and every state that the calls lead to is noted ([`History`]). For each cut
//! point the journal's operations up to it are on a copy of the chip, the next one is torn, and the
//! file system is mounted from what is left: no run is repeated, and nothing that a dying task might
//! do can touch the copy. What is shown then must be one of the states that the file system's
//! guarantee ([`guarantees`]) allows; then a file is written, and all must be there after one more
//! mount. A cut within a read leaves the medium as the next operation with nothing of it written
//! does, so cut points are programs and erases.

mod application;
mod card_cuts;
mod changes;
mod check;
mod content;
mod coverage;
mod cuts;
mod draw;
mod error;
mod expectation;
mod expectation_outcome;
mod explanation;
mod failure;
mod first_mount;
mod guarantee;
mod history;
mod judge;
mod judge_checkpoints;
mod judge_names;
mod judge_sectors;
mod judgement;
mod minimise;
mod mixture;
mod mount_lines;
mod process_ends;
mod recorder;
mod recover;
mod recoveries;
mod recovery_cuts;
mod reference;
mod rewrites;
mod script_text;
mod search;
mod shadow_model;
mod show;
mod smaller;
mod tree;
mod unflushed;

pub use card_cuts::Cached;
pub use check::{Check, CheckFailure, CheckGroup, CheckOutcome, FilesOfCut, Verdict};
pub use content::Content;
pub use cuts::{Crash, Cuts, Outcome, TornOutcome, Violation};
pub use error::CrashError;
pub use expectation::{Acknowledged, Broken, Expectation, Held, Rest, Symptom};
pub use expectation_outcome::{BrokenAt, ExpectationOutcome, FailureGroup, LineOfScript};
pub use failure::{Bench, Failure, FailureKind};
pub use guarantee::{
    CACHE_MODELS, TORN_MODELS, TornModel, find_guarantee, find_torn_model, guarantees,
    guarantees_in_markdown,
};
pub use history::{CallMark, CallsAround, Dirty, History, State, Window};
pub use judge::judge;
pub use judgement::{Judgement, Mismatch};
pub use minimise::{HEAD_LINES, Minimised, Minimising, minimise};
pub use mount::guarantee::{
    Durable, ERASED_CHUNK, ExpectedFinding, Guarantee, Hazard, LOST_GROWTH, Order,
};
pub use recorder::Recorder;
pub use recover::ViolationKind;
pub use recoveries::{Recoveries, Then, spelled};
pub use reference::{Forgotten, Sabotage, Setup};
pub use search::{Found, SearchCounts, SearchOutcome, SearchPlan, SearchState, search};
pub use shadow_model::ShadowModel;
pub use show::{Shown, ShownRow};
pub use tree::{Facts, Row, Tree};
