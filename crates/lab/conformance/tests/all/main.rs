//! What holds for every file system, in one program.

mod calls;
mod every_kind;
mod play;
mod toy;
