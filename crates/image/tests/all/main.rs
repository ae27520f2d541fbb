//! Every test of `image` in one program, which is built in a fraction of the time of many.

mod check;
mod damage;
mod golden;
mod nilfs2;
mod nilfs2_damage;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/mod.rs"]
mod support;
mod trees;
mod ubi;
mod ubifs_damage;
