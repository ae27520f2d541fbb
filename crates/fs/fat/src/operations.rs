//! Calls that change names and attributes.
//!
//! Source: `fs/fat/namei_vfat.c` and `fat_setattr` of `fs/fat/file.c`, Linux 6.12.
//!
//! May use: `engine`, `inode`, `names`, `times`.

use crate::engine::Engine;
use crate::inode::Inode;
use crate::names::{
    ATTRIBUTE_ARCHIVE, ATTRIBUTE_DIRECTORY, ATTRIBUTE_READ_ONLY, Entry, Record, short_name,
    slots_of, units_of,
};
use crate::times;
use fs_api::{Attributes, Caller, Changes, Errno, InodeNumber, NewInode};
use std::rc::Rc;

/// A directory and a name in it.
type Named<'a> = (InodeNumber, &'a [u8]);

impl Engine {
    /// The inode of a name.
    pub(crate) async fn lookup(&self, directory: &Inode, name: &[u8]) -> Result<Rc<Inode>, Errno> {
        // Also for a lookup: `vfat_lookup` takes `s_lock`, so one slow directory holds up all
        // others.
        let _held = self.names_lock.lock().await;
        Ok(self.inode_of_name(directory, name).await?.0)
    }

    /// All names of a directory with their inodes.
    pub(crate) async fn list(&self, inode: &Inode) -> Result<Vec<(Vec<u8>, InodeNumber)>, Errno> {
        let _held = self.names_lock.lock().await;
        let mut names = Vec::new();
        for entry in self.entries(inode).await? {
            let place = self.place_of_slot(inode, entry.slots.1).await?;
            let number = self.listed_number(place, &entry.record).await?;
            names.push((entry.name(self.options.profile.shows_lower_case), number));
        }
        Ok(names)
    }

    async fn inode_of_name(
        &self,
        directory: &Inode,
        name: &[u8],
    ) -> Result<(Rc<Inode>, Entry), Errno> {
        let entry = self.find(directory, name).await?;
        let place = self.place_of_slot(directory, entry.slots.1).await?;
        Ok((self.inode_at(place, &entry.record).await?, entry))
    }

    /// Writes the slots of a new name; gives the place of the short one and what stands there
    /// (`vfat_add_entry`).
    async fn add_entry(
        &self,
        caller: &Caller,
        directory: &Inode,
        units: &[u16],
        attributes: u8,
        start: u32,
    ) -> Result<((u64, usize), Record), Errno> {
        let mut used = Vec::new();
        self.scan(directory, |entry| {
            used.push(entry.record.name);
            false
        })
        .await?;
        // The kernel takes its clock's ticks for a number: 250 a second.
        let tick = (self.sim.now() / 4_000_000) as u32;
        let (name, is_short) = short_name(units, |name| used.contains(name), tick)?;
        let record = Record { name, attributes, start, ..Record::at(caller.now) };
        let slots = slots_of(units, is_short, &record);
        let last = self.add_slots(directory, &slots).await?;
        self.touch(directory, caller.now);
        Ok((self.place_of_slot(directory, last).await?, record))
    }

    /// Makes a file or directory (`vfat_create`, `vfat_mkdir`); its permission bits are the mount's.
    ///
    /// # Errors
    /// [`Errno::Eperm`] for all that FAT does not have.
    pub(crate) async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.may_write()?;
        let parent = self.directory(directory)?;
        let _held = self.names_lock.lock().await;
        let units = units_of(name)?;
        let (attributes, start) = match new {
            NewInode::Regular(_) => (ATTRIBUTE_ARCHIVE, 0),
            NewInode::Directory(_) => {
                // The directory's cluster before its name, in memory. On the medium a name may come
                // first and lead to a cluster of old data.
                (ATTRIBUTE_DIRECTORY, self.make_directory(&parent, caller.now).await?)
            }
            NewInode::Symlink(_) | NewInode::Special(..) => return Err(Errno::Eperm),
        };
        let added = self.add_entry(caller, &parent, &units, attributes, start).await;
        let (place, record) = match added {
            Ok(added) => added,
            Err(error) => {
                if start != 0 {
                    self.free_chain(start).await?;
                }
                return Err(error);
            }
        };
        let inode = self.inode_at(place, &record).await?;
        if inode.is_directory {
            parent.links.set(parent.links.get() + 1);
        }
        self.write_if_synchronous().await?;
        Ok(inode.number)
    }

    /// Removes a name; the clusters are freed when the inode is forgotten.
    pub(crate) async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.may_write()?;
        let parent = self.directory(directory)?;
        let _held = self.names_lock.lock().await;
        let (inode, entry) = self.inode_of_name(&parent, name).await?;
        // The name first; clusters are freed when the last user is gone (`forget`). A cut in
        // between loses clusters, no data of others.
        self.remove_slots(&parent, &entry).await?;
        self.touch(&parent, caller.now);
        self.detach(&inode);
        drop_links(&parent, &inode);
        self.write_if_synchronous().await
    }

    /// The inode has no entry any more (`fat_detach`).
    fn detach(&self, inode: &Inode) {
        if let Some(place) = inode.place.take() {
            self.places.borrow_mut().remove(&place);
        }
    }

    /// Moves a name; what has the new one loses it, and its slots are used (`vfat_rename`).
    ///
    /// The new entry names no data until the inode is written: a cut of the power between loses a file.
    pub(crate) async fn rename(
        &self,
        caller: &Caller,
        from: Named<'_>,
        to: Named<'_>,
    ) -> Result<(), Errno> {
        self.may_write()?;
        let (old_parent, new_parent) = (self.directory(from.0)?, self.directory(to.0)?);
        let _held = self.names_lock.lock().await;
        let (inode, entry) = self.inode_of_name(&old_parent, from.1).await?;
        let replaced = match self.inode_of_name(&new_parent, to.1).await {
            // A name that differs in the case of its letters only means the same file.
            Ok((found, _)) if found.number == inode.number => return Ok(()),
            Ok((found, _)) => Some(found),
            Err(Errno::Enoent) => None,
            Err(error) => return Err(error),
        };
        // The entry of what is replaced is used again with its name, so the new name is never
        // missing; only what it leads to changes.
        let place = if let Some(replaced) = &replaced {
            let place = replaced.place.get().ok_or(Errno::Enoent)?;
            self.detach(replaced);
            drop_links(&new_parent, replaced);
            place
        } else {
            let attributes = inode.bits.get() & ATTRIBUTE_DIRECTORY;
            let units = units_of(to.1)?;
            self.add_entry(caller, &new_parent, &units, attributes, 0).await?.0
        };
        self.detach(&inode);
        inode.place.set(Some(place));
        self.places.borrow_mut().insert(place, inode.number);
        // The new entry gets start and size with the inode, later; the old one is freed below.
        // Until both are written a cut may leave the file under two names, one, or none
        // (`vfat_rename` makes no order either).
        self.mark_dirty(&inode);
        if inode.is_directory && from.0 != to.0 {
            self.set_parent(&inode, &new_parent).await?;
        }
        if inode.is_directory {
            old_parent.links.set(old_parent.links.get().saturating_sub(1));
            new_parent.links.set(new_parent.links.get() + 1);
        }
        self.remove_slots(&old_parent, &entry).await?;
        self.touch(&old_parent, caller.now);
        self.touch(&new_parent, caller.now);
        self.write_if_synchronous().await
    }

    /// Exchanges what two names name: each inode takes the entry of the other (`vfat_rename_exchange`). The
    /// entries are written with the inodes, later; nothing orders them.
    pub(crate) async fn exchange(
        &self,
        caller: &Caller,
        one: Named<'_>,
        other: Named<'_>,
    ) -> Result<(), Errno> {
        self.may_write()?;
        let parents = [self.directory(one.0)?, self.directory(other.0)?];
        let _held = self.names_lock.lock().await;
        let (first, _) = self.inode_of_name(&parents[0], one.1).await?;
        let (second, _) = self.inode_of_name(&parents[1], other.1).await?;
        let places =
            [first.place.get(), second.place.get()].map(|place| place.ok_or(Errno::Enoent));
        let places = [places[0]?, places[1]?];
        self.detach(&first);
        self.detach(&second);
        for (inode, place) in [(&first, places[1]), (&second, places[0])] {
            inode.place.set(Some(place));
            self.places.borrow_mut().insert(place, inode.number);
            self.mark_dirty(inode);
        }
        if one.0 != other.0 {
            for (inode, from, to) in [(&first, 0, 1), (&second, 1, 0)] {
                if !inode.is_directory {
                    continue;
                }
                self.set_parent(inode, &parents[to]).await?;
                parents[from].links.set(parents[from].links.get().saturating_sub(1));
                parents[to].links.set(parents[to].links.get() + 1);
            }
        }
        self.touch(&parents[0], caller.now);
        self.touch(&parents[1], caller.now);
        self.write_if_synchronous().await
    }

    /// Sets space aside for a file (`fat_fallocate`). With its size kept, clusters behind the end are allocated
    /// and not made empty; they go with the last user of the inode (`fat_free_eofblocks`).
    ///
    /// # Errors
    /// [`Errno::Enospc`]: what was allocated before the volume was full stays with the file until then.
    pub(crate) async fn allocate_part(
        &self,
        caller: &Caller,
        number: InodeNumber,
        end: u64,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        self.may_write()?;
        let inode = self.regular(number)?;
        let _held = inode.writing.lock().await;
        if keeps_size {
            let bytes = inode.size_bytes.get();
            inode
                .has_clusters_behind_end
                .set(end > bytes.next_multiple_of(self.volume.cluster_bytes()));
            self.reserve(&inode, end).await?;
        } else if end > inode.size_bytes.get() {
            self.set_size(&inode, end, caller.now).await?;
        }
        self.write_if_synchronous().await
    }

    /// Frees clusters behind the ends of all files: the end of a mount evicts every inode.
    pub(crate) async fn free_behind_ends(&self) -> Result<(), Errno> {
        let inodes: Vec<_> = self.inodes.borrow().values().cloned().collect();
        for inode in inodes {
            self.free_behind_end(&inode).await?;
        }
        Ok(())
    }

    /// Frees clusters behind the end of a file (`fat_free_eofblocks`).
    async fn free_behind_end(&self, inode: &Inode) -> Result<(), Errno> {
        let keep = inode.size_bytes.get().div_ceil(self.volume.cluster_bytes()) as usize;
        // Only what was allocated in this mount: the kernel knows no chain that is longer on the medium.
        let is_longer = inode.has_clusters_behind_end.replace(false);
        if !is_longer || inode.chain.borrow().len() <= keep || self.is_read_only.get() {
            return Ok(());
        }
        self.cut_chain(inode, keep).await
    }

    /// Changes attributes (`fat_setattr`): owners are the mount's, of permissions only that to write
    /// can be taken away, from files.
    ///
    /// # Errors
    /// [`Errno::Eperm`] for another owner, and for set-uid, set-gid and sticky bits; other permissions
    /// that cannot be kept are passed over, as in the kernel.
    pub(crate) async fn change(
        &self,
        caller: &Caller,
        number: InodeNumber,
        to: &Changes,
    ) -> Result<(), Errno> {
        self.may_write()?;
        let inode = self.inode(number)?;
        let is_foreign = |wanted: Option<u32>, has| wanted.is_some_and(|wanted| wanted != has);
        if is_foreign(to.uid, self.options.uid)
            || is_foreign(to.gid, self.options.gid)
            || to.permissions.is_some_and(|bits| bits & !0o777 != 0)
        {
            return Err(Errno::Eperm);
        }
        if let Some(size) = to.size_bytes {
            let inode = self.regular(number)?;
            let _held = inode.writing.lock().await;
            self.set_size(&inode, size, caller.now).await?;
        }
        if let Some(is_locked) = to.permissions.and_then(|bits| self.locks(&inode, bits)) {
            let bits = inode.bits.get() & !ATTRIBUTE_READ_ONLY;
            inode.bits.set(bits | if is_locked { ATTRIBUTE_READ_ONLY } else { 0 });
        }
        if let Some(time) = to.accessed {
            inode.accessed.set(times::truncated_to_day(time));
        }
        if let Some(time) = to.modified {
            inode.modified.set(times::truncated(time));
        }
        self.mark_dirty(&inode);
        self.write_if_synchronous().await
    }

    /// Whether permissions make a file read-only; none if they cannot be kept (`fat_sanitize_mode`).
    fn locks(&self, inode: &Inode, permissions: u32) -> Option<bool> {
        let umask = self.options.umask;
        let Attributes { permissions: now, .. } = self.attributes_of(inode);
        let wanted = permissions & !umask;
        let (write, all_writes) = (wanted & 0o222, 0o222 & !umask);
        let can_lock = !inode.is_directory && all_writes != 0;
        let is_kept =
            wanted & 0o555 == now & 0o555 && (write == all_writes || write == 0 && can_lock);
        (is_kept && can_lock).then_some(write == 0)
    }

    /// The last user of an inode is gone: what has no name loses its clusters (`fat_evict_inode`), the
    /// rest is forgotten if nothing of it waits to be written.
    pub(crate) async fn forget(&self, number: InodeNumber) -> Result<(), Errno> {
        let Ok(inode) = self.inode(number) else { return Ok(()) };
        if inode.links.get() > 0 {
            self.free_behind_end(&inode).await?;
            let waits =
                inode.dirty_since_ns.get().is_some() || inode.zeros.borrow().first().is_some();
            if !waits && !inode.is_root() {
                self.detach(&inode);
                self.inodes.borrow_mut().remove(&number);
            }
            return Ok(());
        }
        // A write-back under way ends before its clusters can be another file's.
        let held = inode.writing.lock().await;
        inode.zeros.borrow_mut().remove(&(0..u64::MAX));
        let freed = if self.is_read_only.get() { Ok(()) } else { self.cut_chain(&inode, 0).await };
        drop(held);
        self.inodes.borrow_mut().remove(&number);
        self.write_if_synchronous().await?;
        freed
    }
}

/// The inode has no name any more, and its parent one directory less.
fn drop_links(parent: &Inode, inode: &Inode) {
    debug_assert_eq!(inode.place.get(), None, "what has no name has no entry");
    inode.links.set(0);
    if inode.is_directory {
        parent.links.set(parent.links.get().saturating_sub(1));
    }
}
