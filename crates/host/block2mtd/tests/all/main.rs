//! Every test of `block2mtd` in one program.

mod pages;
