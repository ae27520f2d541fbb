//! Calls that make, move and remove names (`fs/namei.c`). Each answers a path that ends oddly, or with a
//! slash, in a way of its own.

use crate::call_watch::CallKind;
use crate::names::Meaning;
use crate::vfs::{Access, OpenOptions, Vfs};
use crate::walk::{PieceKind, check_length};
use fs_api::{Caller, Errno, FileSystem, FileType, InodeNumber, NewInode};

/// The bit by which files take the group of their directory (`S_ISGID`).
const SET_GROUP: u32 = 0o2000;

impl<F: FileSystem + 'static> Vfs<F> {
    pub(crate) async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        self.file_system().kind(inode).await
    }

    /// The regular file that a path leads to, or the directory if it is only read; one that is made if there is
    /// none and the options say so, also where a symbolic link leads to nothing (`open_last_lookups` and
    /// `do_open`). An exclusive open follows no link at the end.
    pub(crate) async fn find_file(
        &self,
        caller: &Caller,
        path: &[u8],
        options: &OpenOptions,
    ) -> Result<InodeNumber, Errno> {
        let create = options.create;
        let takes_directory = options.access == Access::Read && create.is_none();
        let (mut walk, mut last) = self.parent(path).await?;
        loop {
            // `.`, `..` and the root are directories, which `open` for a file refuses.
            if last.kind != PieceKind::Name {
                if takes_directory {
                    return self.resolve_followed(path).await;
                }
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
                    (Ok(_), Some(_)) if options.exclusive => return Err(Errno::Eexist),
                    (found, _) => found?,
                }
            };
            match self.kind(inode).await? {
                FileType::Symlink => self.follow(&mut walk, inode).await?,
                FileType::Directory if takes_directory => return Ok(inode),
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
            self.may_lose_name(inode).await?;
            // The name first, then the inode: a cut between leaves an inode without names, which
            // recovery deletes.
            self.file_system().unlink(caller, directory, name).await?;
            self.learn(directory, name, Meaning::Nothing);
            inode
        };
        self.forget_if_nameless(inode).await
    }

    /// The engine of a library deletes a file with its last name, where the real one keeps it until it is
    /// closed (`my_inode` of `yaffs_unlink_file_if_needed`): such a call is refused.
    pub(crate) async fn may_lose_name(&self, inode: InodeNumber) -> Result<(), Errno> {
        if !self.file_system().is_library() || !self.is_open(inode) {
            return Ok(());
        }
        let links = self.file_system().attributes(inode).await?.links;
        if links > 1 { Ok(()) } else { Err(Errno::Ebusy) }
    }

    pub(crate) async fn must_be_empty(&self, directory: InodeNumber) -> Result<(), Errno> {
        let entries = self.file_system().read_directory(directory).await?;
        if entries.is_empty() { Ok(()) } else { Err(Errno::Enotempty) }
    }
}
