//! Random calls as data, and how they are carried out on a file system and on its model.

pub(crate) mod bench;
pub(crate) mod calls;
pub(crate) mod probe;
pub(crate) mod session;
mod space;
pub(crate) mod trees;
