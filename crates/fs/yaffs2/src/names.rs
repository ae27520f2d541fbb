//! Names: finding, making, removing, renaming.
//!
//! Source: `yaffs_guts.c` (`yaffs_find_by_name`, `yaffs_create_obj`, `yaffs_unlink_worker`,
//! `yaffs_rename_obj`).
//!
//! May use: `device`, `format`, `header`, `objects`, `update`.

use crate::device::Device;
use crate::format::{
    LOST_AND_FOUND_NAME, OBJECT_DELETED, OBJECT_LOST_AND_FOUND, OBJECT_UNLINKED, ObjectKind,
};
use crate::header::name_sum;
use crate::objects::{Body, Object};
use crate::update::Update;
use fs_api::Errno;

/// What an object is made with.
pub(crate) struct NewObject<'a> {
    pub(crate) kind: ObjectKind,
    pub(crate) mode: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) device: u32,
    pub(crate) alias: Option<&'a [u8]>,
    pub(crate) equivalent: u32,
}

impl Device {
    /// The child of a directory that has a name, looking from the youngest to the oldest.
    pub(crate) async fn find_name(&mut self, directory: u32, name: &[u8]) -> Option<u32> {
        let sum = name_sum(name);
        for child in self.objects.get(directory)?.children() {
            self.cpu_debt_ps += self.options.costs.compare_ps;
            self.load(child).await;
            // It has no header to take a name from; its name is fixed.
            if child == OBJECT_LOST_AND_FOUND {
                if name == LOST_AND_FOUND_NAME {
                    return Some(child);
                }
                continue;
            }
            let Some(object) = self.objects.get(child) else { continue };
            // An object whose header was never found has a made-up name and no sum to go by.
            let may_match = object.name_sum == sum || object.header_chunk == 0;
            if may_match && self.name_of(child).await == name {
                return Some(child);
            }
        }
        None
    }

    /// Looks every directory of a path up once more: the library does so where a call needs both what a
    /// path names and the directory that it stands in (`yaffsfs_FindDirectory` after
    /// `yaffsfs_FindObject`). It costs reads where names are too long to be kept in memory.
    pub(crate) async fn walk_again(&mut self, directory: u32) {
        let mut path = Vec::new();
        let mut at = directory;
        while let Some(parent) = self.objects.get(at).and_then(|object| object.parent) {
            path.push((parent, at));
            at = parent;
        }
        for (parent, wanted) in path.into_iter().rev() {
            self.find_number(parent, wanted).await;
        }
    }

    /// What [`Device::find_name`] does until it comes to a child that is known.
    async fn find_number(&mut self, directory: u32, wanted: u32) {
        let sum = self.objects.get(wanted).map_or(0, |object| object.name_sum);
        for child in self.objects.get(directory).map(Object::children).unwrap_or_default() {
            self.cpu_debt_ps += self.options.costs.compare_ps;
            self.load(child).await;
            let Some(object) = self.objects.get(child) else { continue };
            if object.name_sum == sum || object.header_chunk == 0 {
                self.name_of(child).await;
            }
            if child == wanted {
                return;
            }
        }
    }

    /// Makes an object and its header.
    ///
    /// # Errors
    /// [`Errno::Eexist`] if the name is taken, [`Errno::Enospc`] without a number or a chunk for it.
    pub(crate) async fn create(
        &mut self,
        directory: u32,
        name: &[u8],
        new: NewObject<'_>,
    ) -> Result<u32, Errno> {
        if self.find_name(directory, name).await.is_some() {
            return Err(Errno::Eexist);
        }
        let number = self.objects.free_number();
        if number > crate::format::OBJECT_MAX {
            return Err(Errno::Enospc);
        }
        let now = self.now;
        self.objects.create(number, new.kind, now);
        self.count_object(number);
        if let Some(object) = self.objects.get_mut(number) {
            object.is_valid = true;
            object.is_dirty = true;
            object.mode = new.mode;
            (object.uid, object.gid) = new.owner;
            object.device = new.device;
            object.set_name(name);
            match &mut object.body {
                Body::Symlink(alias) => *alias = new.alias.map(<[u8]>::to_vec),
                Body::HardLink(equivalent) => *equivalent = new.equivalent,
                _ => {}
            }
        }
        self.objects.move_to(number, directory);
        if new.kind == ObjectKind::HardLink
            && let Some(target) = self.objects.get_mut(new.equivalent)
        {
            target.links.push(number);
        }
        let update = Update { name: Some(name), ..Update::default() };
        if let Err(error) = self.update_header(number, update).await {
            // The object was hung in before its header was written, as in `yaffs_create_obj`: an
            // error takes it out again.
            self.delete_object(number, false).await;
            return Err(error);
        }
        // After the new name is safe: a cut in between costs the directory's time, not the file.
        self.update_parent(directory).await;
        Ok(number)
    }

    /// Takes an object that was made, or its tree, into account.
    pub(crate) fn count_object(&mut self, number: u32) {
        self.checkpoint.blocks_required = None;
        let file = self.objects.get(number).and_then(Object::file);
        self.tree_nodes += u64::from(file.map_or(0, |file| file.tree.node_count()));
    }

    /// Moves an object under a name, which is written.
    async fn change_name(
        &mut self,
        number: u32,
        directory: u32,
        name: &[u8],
        shadows: u32,
    ) -> Result<(), Errno> {
        // `yaffs_change_obj_name` looks for another object of that name first, whatever comes of it.
        self.find_name(directory, name).await;
        if let Some(object) = self.objects.get_mut(number) {
            object.set_name(name);
            object.is_dirty = true;
        }
        self.objects.move_to(number, directory);
        // `yaffs_change_obj_name`: a move to the deleted directory voids all data chunks, so the
        // header pins its block as one that shrinks.
        let is_shrink = directory == OBJECT_DELETED;
        self.update_header(
            number,
            Update { name: Some(name), is_shrink, shadows, ..Update::default() },
        )
        .await
    }

    /// Deletes an object for good; the header that says so is freed at once. While the inode is in
    /// use the object itself stays.
    async fn remove_object(&mut self, number: u32, is_used: bool) -> Result<(), Errno> {
        self.cache.drop_object(number);
        let parent = self.objects.get(number).and_then(|object| object.parent);
        let mut result = Ok(());
        if parent != Some(OBJECT_DELETED) {
            self.load(number).await;
            // The header that says "deleted" must outlast every older header and chunk of the
            // object. It is freed at once, yet its block is pinned: the page stays readable until
            // older blocks are erased.
            result = self.change_name(number, OBJECT_DELETED, b"deleted", 0).await;
        }
        self.objects.detach(number);
        let header = self.objects.get_mut(number).map(|object| {
            object.is_deferred = is_used;
            std::mem::take(&mut object.header_chunk)
        });
        self.delete_chunk(header.unwrap_or_default()).await;
        if !is_used {
            self.free_object(number);
        }
        result
    }

    /// Forgets an object in memory.
    pub(crate) fn free_object(&mut self, number: u32) {
        let file = self.objects.get(number).and_then(Object::file);
        self.tree_nodes -= u64::from(file.map_or(0, |file| file.tree.node_count()));
        self.objects.free(number);
        self.checkpoint.blocks_required = None;
    }

    fn forget_link(&mut self, number: u32) {
        let Some(Object { body: Body::HardLink(equivalent), .. }) = self.objects.get(number) else {
            return;
        };
        let equivalent = *equivalent;
        if let Some(target) = self.objects.get_mut(equivalent) {
            target.links.retain(|link| *link != number);
        }
    }

    /// Deletes an object of any kind (`yaffs_del_obj`).
    pub(crate) async fn delete_object(&mut self, number: u32, is_used: bool) {
        if self.is_kind(number, ObjectKind::File) {
            // An error leaves a header of the old size; the one that deletes follows.
            // Cut off first, from the end: a power cut on the way leaves a shorter file, never one
            // with holes.
            let _ = self.resize_file(number, 0).await;
            self.drop_all_chunks(number).await;
        }
        self.forget_link(number);
        if self.objects.get(number).is_some_and(Object::has_children) {
            return;
        }
        // As in the real one, whose callers look at nothing: a deletion that could not be written comes
        // back with the next scan.
        let _ = self.remove_object(number, is_used).await;
    }

    /// Removes a name. An inode that is in use is kept without one.
    ///
    /// # Errors
    /// [`Errno::Enoent`] without such an object, [`Errno::Eperm`] for a fixed directory,
    /// [`Errno::Enotempty`] for one with names, [`Errno::Enospc`] without a chunk for the header.
    pub(crate) async fn unlink_object(&mut self, number: u32, is_used: bool) -> Result<(), Errno> {
        let Some(object) = self.objects.get(number) else { return Err(Errno::Enoent) };
        if !object.may_unlink {
            return Err(Errno::Eperm);
        }
        if object.has_children() {
            return Err(Errno::Enotempty);
        }
        // The directory's times come before the removal here, and after it in `rename`: both as the
        // real code has it.
        if let Some(parent) = object.parent {
            self.update_parent(parent).await;
        }
        let Some(object) = self.objects.get(number) else { return Err(Errno::Enoent) };
        if object.kind() == ObjectKind::HardLink {
            self.forget_link(number);
            return self.remove_object(number, false).await;
        }
        if let Some(link) = object.links.last().copied() {
            // Data hang on the object and not on its names, so the object takes over the name and
            // the link goes.
            return self.promote_link(number, link).await;
        }
        if is_used {
            return self.change_name(number, OBJECT_UNLINKED, b"unlinked", 0).await;
        }
        self.delete_object(number, false).await;
        Ok(())
    }

    /// The first name of an object goes, but it has others: it takes the name of its youngest link.
    async fn promote_link(&mut self, number: u32, link: u32) -> Result<(), Errno> {
        let name = self.name_of(link).await;
        let parent = self.objects.get(link).and_then(|object| object.parent);
        self.forget_link(link);
        // Out of the directory before the object moves in, or `change_name` would find the name
        // taken; its own header goes last.
        self.objects.move_to(link, OBJECT_UNLINKED);
        let directory = parent.unwrap_or(OBJECT_LOST_AND_FOUND);
        self.change_name(number, directory, &name, 0).await?;
        self.remove_object(link, false).await
    }

    /// Renames an object; what had the new name is shadowed first, so that one of both is found after
    /// a power cut. `is_target_used`: the inode that goes is in use.
    ///
    /// # Errors
    /// [`Errno::Enoent`] without the old name, [`Errno::Eperm`] for a fixed directory,
    /// [`Errno::Enotempty`] over a directory with names, [`Errno::Enospc`] without chunks for headers.
    pub(crate) async fn rename(
        &mut self,
        from: (u32, &[u8]),
        to: (u32, &[u8]),
        is_target_used: bool,
    ) -> Result<(), Errno> {
        let number = self.find_name(from.0, from.1).await.ok_or(Errno::Enoent)?;
        if !self.objects.get(number).is_some_and(|object| object.may_rename) {
            return Err(Errno::Eperm);
        }
        let target = self.find_name(to.0, to.1).await;
        if target.is_some() && target == self.equivalent(number) && target != Some(number) {
            // A hard link over its own file. `yaffs_unlink_obj` lets the file take the link's name and
            // frees the link, with which `yaffs_rename_obj` goes on: what comes of that is no rule.
            return Ok(());
        }
        if let Some(target) = target.filter(|target| *target != number) {
            if self.objects.get(target).is_some_and(Object::has_children) {
                return Err(Errno::Enotempty);
            }
            // Collecting would take the shadow off its header.
            let was_disabled = std::mem::replace(&mut self.collector.is_disabled, true);
            let shadowed = self.change_name(number, to.0, to.1, target).await;
            if let Some(object) = self.objects.get_mut(target) {
                object.is_shadowed = true;
            }
            let unlinked = match shadowed {
                Ok(()) => self.unlink_object(target, is_target_used).await,
                Err(error) => Err(error),
            };
            // A target that lives on under another name stays marked until the unmount, as in
            // `yaffs_rename_obj`: a later change of its size writes no header.
            self.collector.is_disabled = was_disabled;
            unlinked?;
        }
        // Written a second time without the shadow, or each later scan would make the target up in
        // order to delete it.
        self.change_name(number, to.0, to.1, 0).await?;
        self.update_parent(from.0).await;
        if to.0 != from.0 {
            self.update_parent(to.0).await;
        }
        Ok(())
    }
}
