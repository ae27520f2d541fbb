//! Scripts of system calls: the language, and carrying them out.
//!
//! [`parse`] reads a script as a tree of lines and blocks, and [`Walk`] goes through it command by command: a
//! block of a million passes takes no more memory than one of two. [`Data`] makes the bytes that it writes,
//! [`Runner`] carries the calls out on a mounted file system, each process of a script by itself. What concerns
//! the run itself (mounting, phases, snapshots of the chip) is parsed here too, its [`Order`] is checked, and it
//! is handed to the program that runs the script. [`COMMANDS`] is the table of all commands, and
//! `docs/scripts.md` describes the language.

mod aging;
mod commands;
mod data;
mod editors;
mod open_files;
mod order;
mod parse;
mod place;
mod processes;
mod rest;
mod run;
mod run_error;
mod step;
mod times;
mod tree;
mod walk;
mod words;

pub use commands::{COMMANDS, CommandRow, Group, find_command};
pub use data::{Data, DataKind, Xorshift};
pub use editors::{commands_in_markdown, textmate_grammar, vim_syntax};
pub use order::{Given, Order, blocks_wanted, with_mounts};
pub use parse::parse;
pub use place::{Pass, Place, ScriptError};
pub use processes::Observer;
pub use rest::{Expect, FileForm, RestLine};
pub use run::Runner;
pub use run_error::{Failed, RunError};
pub use step::{
    AllocateMode, Attach, ControlLine, OpenData, OpenFlags, OpenSync, Step, Sync, Volume,
    WriteCall, numbered,
};
pub use times::TIME_UNITS;
pub use tree::{Command, Expectation, Script};
pub use vfs::RenameMode;
pub use walk::{Event, Extent, Lateness, Walk};
