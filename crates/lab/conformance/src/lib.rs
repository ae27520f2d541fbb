//! What the tests of file systems share: random calls, the model that their outcome is compared with, and what
//! must be there after a power cut.
//!
//! The tests of this crate walk the table of file systems. Those of each file system use the same model on
//! media of their own: small chips, odd options, failing blocks.

mod calls;
mod model;
mod promise;
mod side_by_side;

pub use calls::{Area, Call};
pub use model::{CALLER, Model};
pub use promise::Promise;
pub use side_by_side::{SideBySide, play_lines, play_lines_on_model, succeeding};
