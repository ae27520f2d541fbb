//! What a file system offers to the layer above it: inodes, names, pages, in the words of POSIX and
//! of Linux's VFS.
//!
//! A file system is an engine that works on inodes and whole pages. Paths, open files, the page cache
//! and what a system call costs belong to the layer above, which is the same for all of them.

mod attributes;
mod errno;
mod file_system;
mod finding;

pub use attributes::{Attributes, Changes, FileType, SpaceUse, Time};
pub use errno::Errno;
pub use file_system::{
    CachedPages, Caller, DirectIo, DirectoryEntry, DynFileSystem, FileSystem, InodeNumber, Memory,
    NewInode, PageRun, RenameFlags,
};
pub use finding::{Finding, Place, Severity};
pub use shared_page::SharedPage;

/// Bytes of a page of the host's memory: the unit in which file data is read and written.
pub const PAGE_BYTES: usize = units::PAGE_BYTES;
