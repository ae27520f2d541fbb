//! Moving names (`do_renameat2` and `vfs_rename` of `fs/namei.c`).

use crate::call_watch::CallKind;
use crate::names::Meaning;
use crate::vfs::Vfs;
use crate::walk::PieceKind;
use fs_api::{Caller, Errno, FileSystem, FileType};

/// How a rename treats what has the new name (the flags of `renameat2`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced.
    #[default]
    Replace,
    /// It stays, and the call fails (`RENAME_NOREPLACE`).
    NoReplace,
    /// Both names change what they name (`RENAME_EXCHANGE`).
    Exchange,
    /// It is replaced, and a whiteout takes the old name (`RENAME_WHITEOUT`).
    Whiteout,
}

impl<F: FileSystem + 'static> Vfs<F> {
    /// Moves a name; what the new name named before loses it.
    ///
    /// # Errors
    /// [`Errno::Einval`] for a directory into itself, [`Errno::Enotempty`] for anything onto a directory
    /// that it lies in, [`Errno::Ebusy`] for `.` and `..`; [`Errno::Eisdir`], [`Errno::Enotdir`] and
    /// [`Errno::Enotempty`] by the kinds of the two; as [`Vfs::resolve`].
    pub async fn rename(&self, caller: &Caller, from: &[u8], to: &[u8]) -> Result<(), Errno> {
        self.rename_with(caller, from, to, RenameMode::Replace).await
    }

    // Longer than a screen: the order of its answers is that of the kernel's function.
    /// Moves a name as `renameat2` does.
    ///
    /// # Errors
    /// As [`Vfs::rename`]; [`Errno::Enosys`] where the kernel has no such call, [`Errno::Einval`] for a mode that
    /// the file system has not; [`Errno::Eexist`] for a new name that must not be there, [`Errno::Enoent`] for one
    /// that must.
    pub async fn rename_with(
        &self,
        caller: &Caller,
        from: &[u8],
        to: &[u8],
        mode: RenameMode,
    ) -> Result<(), Errno> {
        let _timed = self.watch.begin(CallKind::Other);
        self.enter().await;
        let flags = self.file_system().rename_flags();
        if mode != RenameMode::Replace && !flags.has_call {
            return Err(Errno::Enosys);
        }
        // Both parents are walked before either is locked (`do_renameat2`).
        let (from_walk, from_last) = self.parent(from).await?;
        let (to_walk, to_last) = self.parent(to).await?;
        if from_last.kind != PieceKind::Name || to_last.kind != PieceKind::Name {
            // The new name is looked at with the flag first.
            let must_be_free = mode == RenameMode::NoReplace && from_last.kind == PieceKind::Name;
            return Err(if must_be_free { Errno::Eexist } else { Errno::Ebusy });
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
        match (mode, replaced) {
            (RenameMode::NoReplace, Some(_)) => return Err(Errno::Eexist),
            (RenameMode::Exchange, None) => return Err(Errno::Enoent),
            _ => {}
        }
        // The order of these answers is that of `do_renameat2`: slashes, then ancestors, and only then
        // `vfs_rename` looks at the two inodes.
        let is_directory = self.kind(inode).await? == FileType::Directory;
        if mode == RenameMode::Exchange
            && let Some(other) = replaced
        {
            // Each of both names keeps its slash, and gets the other's inode.
            let is_other_directory = self.kind(other).await? == FileType::Directory;
            if (!is_other_directory && to_last.has_slash) || (!is_directory && from_last.has_slash)
            {
                return Err(Errno::Enotdir);
            }
            if from_walk.leads_through(other) {
                return Err(Errno::Einval);
            }
        } else if !is_directory && (from_last.has_slash || to_last.has_slash) {
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
        let is_known = match mode {
            RenameMode::Replace | RenameMode::NoReplace => true,
            RenameMode::Exchange => flags.exchanges,
            RenameMode::Whiteout => flags.has_whiteout,
        };
        if let Some(replaced) = replaced.filter(|_| mode != RenameMode::Exchange) {
            match (is_directory, self.kind(replaced).await? == FileType::Directory) {
                (false, true) => return Err(Errno::Eisdir),
                (true, false) => return Err(Errno::Enotdir),
                // The file system asks whether it is empty, and before that which flags it knows.
                (true, true) if is_known => self.must_be_empty(replaced).await?,
                (true, true) | (false, false) => {}
            }
        }
        if !is_known {
            return Err(Errno::Einval);
        }
        if let Some(replaced) = replaced.filter(|_| mode != RenameMode::Exchange) {
            self.may_lose_name(replaced).await?;
        }
        let (from, to) = ((from_directory, from_name), (to_directory, to_name));
        match mode {
            RenameMode::Replace | RenameMode::NoReplace => {
                self.file_system().rename(caller, from, to).await?;
                self.learn(from_directory, from_name, Meaning::Nothing);
            }
            RenameMode::Exchange => {
                self.file_system().exchange(caller, from, to).await?;
                let other = replaced.ok_or(Errno::Enoent)?;
                self.learn(from_directory, from_name, Meaning::Inode(other));
                self.learn(to_directory, to_name, Meaning::Inode(inode));
                self.set_dirty(other).await?;
                return self.set_dirty(inode).await;
            }
            RenameMode::Whiteout => {
                let whiteout = self.file_system().rename_with_whiteout(caller, from, to).await?;
                self.learn(from_directory, from_name, Meaning::Inode(whiteout));
            }
        }
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
