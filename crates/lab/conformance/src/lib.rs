//! No code: the tests of this crate walk the table of file systems.
