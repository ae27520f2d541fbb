//! Every test of `vfs` in one program, which is built in a fraction of the time of many.

mod cached;
mod call_watch;
mod paths;
mod support;
mod write_back;
