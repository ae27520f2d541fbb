//! The layer above file systems.
//!
//! [`Vfs`] turns the calls of an application (paths, open files, bytes) into those of a
//! [`fs_api::FileSystem`] (inodes, names, pages), with the rules that Linux's VFS keeps for all of them:
//! a name is looked up before it is made or removed, an inode without names lives until its last user
//! closes it, a directory is changed by one at a time. [`tree`] walks a file system; [`Manifest`] is what
//! it finds. [`MemoryFileSystem`] is a file system without a medium, to compare others with.

mod cache;
mod call_watch;
pub mod contents;
mod direct;
mod file_pages;
mod manifest;
mod memory;
mod names;
mod naming;
mod renaming;
pub mod tree;
mod vfs;
mod walk;
mod write_back;

pub use call_watch::{Call, CallKind, Watcher};
pub use manifest::{
    Damage, Manifest, ManifestRow, ReadLimits, escape_path, hexadecimal, unescape_path,
};
pub use memory::MemoryFileSystem;
pub use renaming::RenameMode;
pub use vfs::{Access, OpenFile, OpenOptions, Vfs};
