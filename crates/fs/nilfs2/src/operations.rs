//! Names and attributes as calls change them, each a transaction.
//!
//! Source: `fs/nilfs2/namei.c`, `inode.c`.
//!
//! May use: `directory`, `engine`, `file`, `inode`.

use crate::directory::NAME_BYTES_MAX;
use crate::engine::Engine;
use crate::file::{Contents, File};
use crate::inode::check_target;
use fs_api::{Caller, Changes, Errno, FileType, NewInode, PAGE_BYTES};
use std::ops::Range;
use std::rc::{Rc, Weak};

/// Names that an inode may have.
const LINKS_MAX: u16 = 32_000;

/// A page of a file, by the number of its inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilePage {
    pub(crate) inode: u64,
    pub(crate) page: u64,
}

fn check_name(name: &[u8]) -> Result<(), Errno> {
    match name {
        // The VFS answers an empty name with ENOENT before it calls the file system.
        b"" => Err(Errno::Enoent),
        _ if name.len() > NAME_BYTES_MAX => Err(Errno::Enametoolong),
        _ => Ok(()),
    }
}

impl Engine {
    async fn add_links(&self, caller: &Caller, file: &Rc<File>, change: i16) -> Result<(), Errno> {
        {
            let mut inode = file.inode.borrow_mut();
            inode.links = inode.links.saturating_add_signed(change);
            inode.changed = caller.now;
        }
        file.needs_checkpoint.set(true);
        self.write_inode(file).await
    }

    pub(crate) async fn make(
        &self,
        caller: &Caller,
        directory: u64,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<u64, Errno> {
        check_name(name)?;
        if let NewInode::Symlink(target) = new {
            check_target(target)?;
        }
        let _transaction = self.transactions.read().await;
        self.may_allocate()?;
        let parent = self.file(directory).await?;
        if self.find_name(&parent, name).await?.is_some() {
            return Err(Errno::Eexist);
        }
        if parent.inode.borrow().links == 0 {
            return Err(Errno::Enoent);
        }
        let (mode, device) = match new {
            NewInode::Regular(permissions) => (FileType::Regular.mode_bits() | permissions, (0, 0)),
            NewInode::Directory(permissions) => {
                if parent.inode.borrow().links >= LINKS_MAX {
                    return Err(Errno::Emlink);
                }
                (FileType::Directory.mode_bits() | permissions, (0, 0))
            }
            NewInode::Symlink(_) => (FileType::Symlink.mode_bits() | 0o777, (0, 0)),
            NewInode::Special(mode, device) => (mode, device),
        };
        let file = self.new_inode(caller, mode, device).await?;
        match new {
            NewInode::Directory(_) => {
                // The order of `nilfs_mkdir`: parent's link, own link, entries, then the name.
                self.add_links(caller, &parent, 1).await?;
                self.add_links(caller, &file, 1).await?;
                self.make_empty(&file, directory).await?;
            }
            NewInode::Symlink(target) => {
                let mut block = target.to_vec();
                block.resize(self.geometry.block_bytes as usize, 0);
                self.put_data(&file, 0, block).await?;
                file.inode.borrow_mut().size_bytes = target.len() as u64;
            }
            _ => {}
        }
        self.write_inode(&file).await?;
        // The name comes last. One transaction holds all of it, so no checkpoint shows the half of
        // it.
        self.add_name(caller, &parent, name, &file).await?;
        self.committed();
        Ok(file.number)
    }

    pub(crate) async fn link(
        &self,
        caller: &Caller,
        inode: u64,
        directory: u64,
        name: &[u8],
    ) -> Result<(), Errno> {
        check_name(name)?;
        let _transaction = self.transactions.read().await;
        self.may_allocate()?;
        let (file, parent) = (self.file(inode).await?, self.file(directory).await?);
        if file.kind() == Some(FileType::Directory) {
            return Err(Errno::Eperm);
        }
        if file.inode.borrow().links >= LINKS_MAX {
            return Err(Errno::Emlink);
        }
        if self.find_name(&parent, name).await?.is_some() {
            return Err(Errno::Eexist);
        }
        self.add_links(caller, &file, 1).await?;
        self.add_name(caller, &parent, name, &file).await?;
        self.committed();
        Ok(())
    }

    pub(crate) async fn unlink(
        &self,
        caller: &Caller,
        directory: u64,
        name: &[u8],
    ) -> Result<(), Errno> {
        let _transaction = self.transactions.read().await;
        self.may_write()?;
        let parent = self.file(directory).await?;
        let place = self.find_name(&parent, name).await?.ok_or(Errno::Enoent)?;
        let file = self.file(place.inode).await?;
        let is_directory = file.kind() == Some(FileType::Directory);
        if is_directory && !self.is_empty_directory(&file).await? {
            return Err(Errno::Enotempty);
        }
        // The name first: if that fails, the link count is still right.
        self.remove_name(caller, &parent, &place).await?;
        self.add_links(caller, &file, -1).await?;
        if is_directory {
            file.inode.borrow_mut().size_bytes = 0;
            self.add_links(caller, &file, -1).await?;
            self.add_links(caller, &parent, -1).await?;
        }
        self.committed();
        Ok(())
    }

    pub(crate) async fn rename(
        &self,
        caller: &Caller,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
    ) -> Result<(), Errno> {
        check_name(to.1)?;
        let _transaction = self.transactions.read().await;
        self.may_allocate()?;
        let (old_parent, new_parent) = (self.file(from.0).await?, self.file(to.0).await?);
        let old = self.find_name(&old_parent, from.1).await?.ok_or(Errno::Enoent)?;
        let file = self.file(old.inode).await?;
        let is_directory = file.kind() == Some(FileType::Directory);
        let victim = self.find_name(&new_parent, to.1).await?;
        if victim.as_ref().is_some_and(|victim| victim.inode == old.inode) {
            return Ok(());
        }
        if let Some(place) = victim {
            let victim = self.file(place.inode).await?;
            match (is_directory, victim.kind() == Some(FileType::Directory)) {
                (true, false) => return Err(Errno::Enotdir),
                (false, true) => return Err(Errno::Eisdir),
                _ => {}
            }
            if is_directory && !self.is_empty_directory(&victim).await? {
                return Err(Errno::Enotempty);
            }
            // The entry is redirected, not removed and added: at no time is the name missing.
            self.set_name(caller, &new_parent, &place, &file).await?;
            self.add_links(caller, &victim, if is_directory { -2 } else { -1 }).await?;
        } else {
            self.add_name(caller, &new_parent, to.1, &file).await?;
            if is_directory {
                self.add_links(caller, &new_parent, 1).await?;
            }
        }
        // Adding a name may have split the record, so it is looked for again.
        let old = self.find_name(&old_parent, from.1).await?.ok_or(Errno::Eio)?;
        self.remove_name(caller, &old_parent, &old).await?;
        file.inode.borrow_mut().changed = caller.now;
        file.needs_checkpoint.set(true);
        if is_directory {
            // The kernel writes `..` anew even if it leads to the same directory.
            let above = self.find_name(&file, b"..").await?.ok_or(Errno::Eio)?;
            self.set_name(caller, &file, &above, &new_parent).await?;
            self.add_links(caller, &old_parent, -1).await?;
        }
        self.write_inode(&file).await?;
        self.committed();
        Ok(())
    }

    pub(crate) async fn change(
        &self,
        caller: &Caller,
        inode: u64,
        to: &Changes,
    ) -> Result<(), Errno> {
        let _transaction = self.transactions.read().await;
        self.may_write()?;
        let file = self.file(inode).await?;
        if let Some(size_bytes) = to.size_bytes {
            match file.kind() {
                Some(FileType::Regular) => {}
                Some(FileType::Directory) => return Err(Errno::Eisdir),
                _ => return Err(Errno::Einval),
            }
            self.truncate(&file, size_bytes).await?;
        }
        {
            let mut inode = file.inode.borrow_mut();
            inode.changed = caller.now;
            if to.size_bytes.is_some() {
                inode.modified = caller.now;
            }
            if let Some(permissions) = to.permissions {
                inode.mode = inode.mode & 0o170_000 | (permissions & 0o7777) as u16;
            }
            inode.uid = to.uid.unwrap_or(inode.uid);
            inode.gid = to.gid.unwrap_or(inode.gid);
            inode.modified = to.modified.unwrap_or(inode.modified);
        }
        file.needs_checkpoint.set(true);
        self.write_inode(&file).await?;
        self.committed();
        Ok(())
    }

    pub(crate) async fn write_page(
        &self,
        caller: &Caller,
        FilePage { inode, page }: FilePage,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let _transaction = self.transactions.read().await;
        self.may_allocate()?;
        let file = self.file(inode).await?;
        self.compute_bytes(part.len() as u64, self.options.costs.copy_ps_per_byte).await;
        let is_hole = file.cached(page).is_none() && self.map_lookup(&file, page).await?.is_none();
        self.put_contents(&file, page, self.contents(inode, page, bytes)).await?;
        let end = page * PAGE_BYTES as u64 + part.end as u64;
        {
            let mut inode = file.inode.borrow_mut();
            // Times alone do not need a checkpoint, length and new blocks do.
            if end > inode.size_bytes || is_hole {
                file.needs_checkpoint.set(true);
            }
            inode.size_bytes = inode.size_bytes.max(end);
            (inode.modified, inode.changed) = (caller.now, caller.now);
        }
        self.write_inode(&file).await?;
        self.committed();
        Ok(())
    }

    /// The bytes of a page that was written: the page of the layer above, if it has the same, as a kernel's
    /// file system has no other.
    fn contents(&self, inode: u64, page: u64, bytes: &[u8; PAGE_BYTES]) -> Contents {
        let cached = self.cached_pages.borrow().as_ref().and_then(Weak::upgrade);
        let shared = cached.and_then(|pages| pages.shared(inode, page));
        match shared.filter(|page| page.look(|shared| shared == bytes)) {
            Some(page) => Contents::Shared(page),
            None => Contents::Own(bytes.to_vec()),
        }
    }

    /// The last user of an inode is gone.
    pub(crate) async fn forget(&self, inode: u64) -> Result<(), Errno> {
        let Some(file) = self.root.files.borrow().get(&inode).cloned() else { return Ok(()) };
        if file.inode.borrow().links > 0 {
            return Ok(());
        }
        if file.is_queued.get() {
            // The constructor holds it: it is written once more, without a name.
            file.is_forgotten.set(true);
            return Ok(());
        }
        let _transaction = self.transactions.read().await;
        self.may_write()?;
        self.delete_inode(&file).await?;
        self.committed();
        Ok(())
    }

    /// Deletes files without names that the constructor has let go of (`nilfs_iput_work_func`).
    pub(crate) async fn evict(&self) -> Result<(), Errno> {
        loop {
            let next = self.evictions.borrow_mut().pop();
            let Some(file) = next else { return Ok(()) };
            let _transaction = self.transactions.read().await;
            self.may_write()?;
            self.delete_inode(&file).await?;
            self.committed();
        }
    }
}
