//! What holds for every file system, in one program.

mod cuts;
mod damage;
mod every_kind;
mod full;
mod open_files;
mod planted;
mod play;
mod processes;
mod toy;
