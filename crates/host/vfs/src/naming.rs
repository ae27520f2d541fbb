//! Calls that make, move and remove names (`fs/namei.c`). Each answers a path that ends oddly, or with a
//! slash, in a way of its own.

use crate::call_watch::CallKind;
use crate::names::Meaning;
use crate::vfs::Vfs;
use crate::walk::{PieceKind, check_length};
use fs_api::{Caller, Errno, FileSystem, FileType, InodeNumber, NewInode};

/// The bit by which files take the group of their directory (`S_ISGID`).
const SET_GROUP: u32 = 0o2000;

impl<F: FileSystem + 'static> Vfs<F> {
    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        self.file_system().kind(inode).await
    }

    /// The regular file that a path leads to; one that is made with these permission bits if there is none,
    /// also where a symbolic link leads to nothing (`open_last_lookups` and `do_open`).
    pub(crate) async fn find_file(
        &self,
        caller: &Caller,
        path: &[u8],
        create: Option<u32>,
    ) -> Result<InodeNumber, Errno> {
        let (mut walk, mut last) = self.parent(path).await?;
        loop {
            // `.`, `..` and the root are directories, which `open` for a file refuses.
            if last.kind != PieceKind::Name {
                return Err(Errno::Eisdir);
            }
            if last.has_slash && create.is_some() {
                // Before anything is looked up: even where there is nothing.
                return Err(Errno::Eisdir);
            }
            let (directory, name) = (walk.directory(), walk.name(&last));
            let inode = {
                let lock = self.lock_of(directory);
                // The directory is locked from the look-up until the file is made, or two callers
                // could make it twice.
                let _held = lock.lock().await;
                match (self.lookup(directory, name).await, create) {
                    (Err(Errno::Enoent), Some(permissions)) => {
                        let new = NewInode::Regular(permissions);
                        self.make_in(caller, directory, name, new).await?
                    }
                    (found, _) => found?,
                }
            };
            match self.kind(inode).await? {
                FileType::Symlink => self.follow(&mut walk, inode).await?,
                FileType::Directory => return Err(Errno::Eisdir),
                _ if last.has_slash => return Err(Errno::Enotdir),
                FileType::Regular => return Ok(inode),
                // Devices, FIFOs and sockets have no driver here.
                _ => return Err(Errno::Enxio),
            }
            last = self.walk_to_last(&mut walk).await?;
        }
    }

    /// Makes a directory, symbolic link or special file under a name that does not exist.
    ///
    /// # Errors
    /// [`Errno::Eexist`]; [`Errno::Enoent`] for a slash behind the name of what is no directory, and for
    /// a link to nothing at all; as [`Vfs::resolve`].
    pub async fn make(
        &self,
        caller: &Caller,
        path: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        // The target is checked before the path is walked, as `getname` copies both first.
        if let NewInode::Symlink(target) = new {
            check_length(target)?;
            if target.is_empty() {
                return Err(Errno::Enoent);
            }
        }
        let (walk, last) = self.parent(path).await?;
        if last.kind != PieceKind::Name {
            return Err(Errno::Eexist);
        }
        let (directory, name) = (walk.directory(), walk.name(&last));
        let lock = self.lock_of(directory);
        let _held = lock.lock().await;
        // A slash behind the name is right for a directory only (`filename_create`).
        let takes_slash = matches!(new, NewInode::Directory(_));
        self.must_be_free(directory, name, takes_slash || !last.has_slash).await?;
        self.make_in(caller, directory, name, new).await
    }

    async fn make_in(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        let parent = self.file_system().attributes(directory).await?;
        let (mut caller, mut new) = (*caller, new);
        if parent.permissions & SET_GROUP != 0 {
            // `inode_init_owner` (fs/inode.c): the group is the directory's, and goes on to directories.
            caller.gid = parent.gid;
            if let NewInode::Directory(permissions) = &mut new {
                *permissions |= SET_GROUP;
            }
        }
        let inode = self.file_system().make(&caller, directory, name, new).await?;
        self.learn(directory, name, Meaning::Inode(inode));
        Ok(inode)
    }

    /// `filename_create`: a slash behind a new name asks for a directory that is not there.
    async fn must_be_free(
        &self,
        directory: InodeNumber,
        name: &[u8],
        slash_fits: bool,
    ) -> Result<(), Errno> {
        match self.lookup(directory, name).await {
            Ok(_) => Err(Errno::Eexist),
            Err(Errno::Enoent) if slash_fits => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Gives a file another name; a symbolic link itself gets it.
    ///
    /// # Errors
    /// [`Errno::Eexist`]; [`Errno::Eperm`] for directories; as [`Vfs::resolve`].
    pub async fn link(&self, caller: &Caller, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        // The old name is resolved before the new one's parent, as `do_linkat` does: its error
        // comes first.
        let inode = self.resolve(from).await?;
        let (walk, last) = self.parent(to).await?;
        if last.kind != PieceKind::Name {
            return Err(Errno::Eexist);
        }
        let (directory, name) = (walk.directory(), walk.name(&last));
        let lock = self.lock_of(directory);
        let _held = lock.lock().await;
        self.must_be_free(directory, name, !last.has_slash).await?;
        // `vfs_link` asks only now what it is that gets the name.
        if self.kind(inode).await? == FileType::Directory {
            return Err(Errno::Eperm);
        }
        self.file_system().link(caller, inode, directory, name).await?;
        self.learn(directory, name, Meaning::Inode(inode));
        Ok(())
    }

    /// Removes the name of anything but a directory.
    ///
    /// # Errors
    /// [`Errno::Eisdir`]; as [`Vfs::resolve`].
    pub async fn unlink(&self, caller: &Caller, path: &[u8]) -> Result<(), Errno> {
        self.remove(caller, path, false).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Errno::Enotdir`]; [`Errno::Enotempty`]; [`Errno::Einval`] for `.` and [`Errno::Ebusy`] for the
    /// root; as [`Vfs::resolve`].
    pub async fn remove_directory(&self, caller: &Caller, path: &[u8]) -> Result<(), Errno> {
        self.remove(caller, path, true).await
    }

    async fn remove(&self, caller: &Caller, path: &[u8], directories: bool) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let (walk, last) = self.parent(path).await?;
        match (last.kind, directories) {
            (PieceKind::Name, _) => {}
            (_, false) => return Err(Errno::Eisdir),
            (PieceKind::Dot, true) => return Err(Errno::Einval),
            (PieceKind::DotDot, true) => return Err(Errno::Enotempty),
            (PieceKind::Root, true) => return Err(Errno::Ebusy),
        }
        let (directory, name) = (walk.directory(), walk.name(&last));
        let inode = {
            let lock = self.lock_of(directory);
            let _held = lock.lock().await;
            let inode = self.lookup(directory, name).await?;
            match (self.kind(inode).await? == FileType::Directory, directories) {
                (true, false) => return Err(Errno::Eisdir),
                (false, true) => return Err(Errno::Enotdir),
                // A link to a directory is not followed, and is none.
                (false, false) if last.has_slash => return Err(Errno::Enotdir),
                (true, true) => self.must_be_empty(inode).await?,
                (false, false) => {}
            }
            // The name first, then the inode: a cut between leaves an inode without names, which
            // recovery deletes.
            self.file_system().unlink(caller, directory, name).await?;
            self.learn(directory, name, Meaning::Nothing);
            inode
        };
        self.forget_if_nameless(inode).await
    }

    async fn must_be_empty(&self, directory: InodeNumber) -> Result<(), Errno> {
        let entries = self.file_system().read_directory(directory).await?;
        if entries.is_empty() { Ok(()) } else { Err(Errno::Enotempty) }
    }

    /// Moves a name; what the new name named before loses it.
    ///
    /// # Errors
    /// [`Errno::Einval`] for a directory into itself, [`Errno::Enotempty`] for anything onto a directory
    /// that it lies in, [`Errno::Ebusy`] for `.` and `..`; [`Errno::Eisdir`], [`Errno::Enotdir`] and
    /// [`Errno::Enotempty`] by the kinds of the two; as [`Vfs::resolve`].
    pub async fn rename(&self, caller: &Caller, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        // Both parents are walked before either is locked (`do_renameat2`).
        let (from_walk, from_last) = self.parent(from).await?;
        let (to_walk, to_last) = self.parent(to).await?;
        if from_last.kind != PieceKind::Name || to_last.kind != PieceKind::Name {
            return Err(Errno::Ebusy);
        }
        let (from_directory, from_name) = (from_walk.directory(), from_walk.name(&from_last));
        let (to_directory, to_name) = (to_walk.directory(), to_walk.name(&to_last));
        // Locked in the order of their numbers, so that two renames cannot wait for each other.
        // The kernel orders them by ancestry (`lock_rename`); the outcome is the same.
        let mut both = [from_directory, to_directory];
        both.sort_unstable();
        let locks = both.map(|directory| self.lock_of(directory));
        let _first = locks[0].lock().await;
        let _second = if both[0] == both[1] { None } else { Some(locks[1].lock().await) };
        let inode = self.lookup(from_directory, from_name).await?;
        let replaced = match self.lookup(to_directory, to_name).await {
            Err(Errno::Enoent) => None,
            found => Some(found?),
        };
        // The order of these answers is that of `do_renameat2`: slashes, then ancestors, and only then
        // `vfs_rename` looks at the two inodes.
        let is_directory = self.kind(inode).await? == FileType::Directory;
        if !is_directory && (from_last.has_slash || to_last.has_slash) {
            return Err(Errno::Enotdir);
        }
        if is_directory && to_walk.leads_through(inode) {
            return Err(Errno::Einval);
        }
        if replaced.is_some_and(|replaced| from_walk.leads_through(replaced)) {
            return Err(Errno::Enotempty);
        }
        // Linux leaves two names of one inode alone (`vfs_rename`). A library has no such rule for files:
        // YAFFS2's takes one of the names away, and writes its headers even if both are the same.
        if replaced == Some(inode) && (is_directory || !self.file_system().is_library()) {
            return Ok(());
        }
        if let Some(replaced) = replaced {
            match (is_directory, self.kind(replaced).await? == FileType::Directory) {
                (false, true) => return Err(Errno::Eisdir),
                (true, false) => return Err(Errno::Enotdir),
                (true, true) => self.must_be_empty(replaced).await?,
                (false, false) => {}
            }
        }
        let (from, to) = ((from_directory, from_name), (to_directory, to_name));
        self.file_system().rename(caller, from, to).await?;
        self.learn(from_directory, from_name, Meaning::Nothing);
        self.learn(to_directory, to_name, Meaning::Inode(inode));
        // The inode's times changed with its name.
        self.set_dirty(inode).await?;
        // Only now, when the file system no longer names it.
        match replaced {
            Some(replaced) => self.forget_if_nameless(replaced).await,
            None => Ok(()),
        }
    }
}
