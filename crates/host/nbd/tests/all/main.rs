//! Every test of `nbd` in one program.
