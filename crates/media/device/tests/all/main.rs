//! Every test of `device` in one program, which is built in a fraction of the time of many.

mod disk;
mod flash;
mod presets;
mod support;
