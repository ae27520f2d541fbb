//! Every test of `crash` in one program, which is built in a fraction of the time of many.

mod document;
mod exhaustive;
mod model;
mod support;
