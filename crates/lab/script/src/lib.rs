//! Scripts of system calls, one group a line.
//!
//! [`parse`] reads the language, [`Data`] makes the bytes that it writes, [`Runner`] carries the calls out
//! on a mounted file system. What concerns the run itself (mounting, phases, snapshots of the chip) is
//! parsed here too, its [`Order`] is checked, and it is handed to the program that runs the script.
//! `docs/scripts.md` describes the language.

mod data;
mod order;
mod parse;
mod run;

pub use data::{Data, DataKind, Xorshift};
pub use order::{Given, Order, blocks_wanted, with_mounts};
pub use parse::{
    Attach, Command, ControlLine, ScriptError, Step, Sync, Volume, WriteCall, numbered, parse,
};
pub use run::{RunError, Runner};
