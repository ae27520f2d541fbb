//! The file system as the layer above sees it: one lock around everything, as the real one has it.
//!
//! Source: `yaffs_vfs_multi.c` (what each call does to the objects), `yaffsfs.c` for the library.
//!
//! May use: `attributes`, `device`, `format`, `names`, `objects`, `options`, `profile`, `update`, `xattr`.

use crate::attributes::{attributes_of, check_name, encode_device, kind_of, number_of, space_of};
use crate::device::Device;
use crate::format::{ALIAS_BYTES_MAX, OBJECT_ROOT, ObjectKind};
use crate::names::NewObject;
use crate::objects::{Body, Object};
use crate::options::MountOptions;
use crate::profile::{CollectorKind, Profile};
use crate::update::Update;
use crate::xattr;
use fs_api::{
    Attributes, Caller, Changes, DirectoryEntry, Errno, FileSystem, FileType, InodeNumber, Memory,
    NewInode, PAGE_BYTES, RenameFlags, SpaceUse, Time,
};
use mtd::Mtd;
use sim::{Cpus, Lock, LockGuard, Sim, Timer};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// Chunks that must be free beside the reserve for a write to begin (`yaffs_hold_space`).
const HELD_CHUNKS: u32 = 20;

/// A mounted file system: the device behind its lock, and the timer of the background task.
pub struct Yaffs2 {
    pub(crate) sim: Sim,
    pub(crate) device: Lock<Device>,
    pub(crate) background: Timer,
    profile: &'static Profile,
    space: Cell<SpaceUse>,
    memory: RefCell<Memory>,
}

impl Yaffs2 {
    /// Mounts a device; a blank one is an empty file system.
    ///
    /// # Errors
    /// [`Errno::Einval`] if the device is too small, or its pages are.
    pub async fn mount(
        sim: &Sim,
        cpus: Rc<Cpus>,
        mtd: Rc<Mtd>,
        options: MountOptions,
        now: Time,
    ) -> Result<Rc<Self>, Errno> {
        let profile = options.profile;
        let mut device = Device::new(mtd, cpus, options, now.seconds);
        device.mount().await?;
        let mounted = Self {
            sim: sim.clone(),
            profile,
            space: Cell::new(space_of(&mut device)),
            memory: RefCell::new(device.memory()),
            device: Lock::new(sim, device),
            background: Timer::new(sim),
        };
        Ok(Rc::new(mounted))
    }

    /// Generation of the code.
    pub fn profile(&self) -> &'static Profile {
        self.profile
    }

    async fn enter(&self, caller: Option<&Caller>) -> Result<LockGuard<'_, Device>, Errno> {
        let mut device = self.device.lock().await;
        if device.is_unmounted {
            return Err(Errno::Eio);
        }
        if let Some(caller) = caller {
            if device.is_read_only {
                return Err(Errno::Erofs);
            }
            device.now = caller.now.seconds;
        }
        Ok(device)
    }

    async fn leave<T>(
        &self,
        mut device: LockGuard<'_, Device>,
        result: Result<T, Errno>,
    ) -> Result<T, Errno> {
        device.pay().await;
        self.space.set(space_of(&mut device));
        result
    }

    fn directory(device: &Device, inode: InodeNumber) -> Result<u32, Errno> {
        let number = number_of(inode)?;
        match device.objects.live(number) {
            Some(object) if object.is_directory() => Ok(number),
            Some(_) => Err(Errno::Enotdir),
            None => Err(Errno::Enoent),
        }
    }

    fn file(device: &Device, inode: InodeNumber) -> Result<u32, Errno> {
        let number = number_of(inode)?;
        match device.objects.live(number) {
            Some(object) if object.file().is_some() => Ok(number),
            Some(object) if object.is_directory() => Err(Errno::Eisdir),
            Some(_) => Err(Errno::Einval),
            None => Err(Errno::Enoent),
        }
    }
}

impl FileSystem for Yaffs2 {
    fn root(&self) -> InodeNumber {
        OBJECT_ROOT.into()
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let mut device = self.enter(None).await?;
        let directory = Self::directory(&device, directory)?;
        let found = device.find_name(directory, name).await;
        let target = found.and_then(|number| device.equivalent(number));
        self.leave(device, target.map(InodeNumber::from).ok_or(Errno::Enoent)).await
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let mut device = self.enter(None).await?;
        let directory = Self::directory(&device, directory)?;
        let children = device.objects.get(directory).map(Object::children).unwrap_or_default();
        let mut entries = Vec::new();
        for child in children {
            let name = device.name_of(child).await;
            // A hard link to nothing is listed, but cannot be looked up.
            let inode = device.equivalent(child).unwrap_or(child).into();
            entries.push(DirectoryEntry { name, inode });
        }
        self.leave(device, Ok(entries)).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(None).await?;
        device.load(number).await;
        let attributes = device.objects.live(number).ok_or(Errno::Enoent).and_then(attributes_of);
        self.leave(device, attributes).await
    }

    /// The library looks at no header to remove or rename a hard link: `yaffsfs_FindObject` is not asked
    /// for what the link names (`getEquiv`), so that stays unread after a mount.
    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(None).await?;
        let object = device.objects.live(number).ok_or(Errno::Enoent)?;
        if !self.is_library() || object.kind() == ObjectKind::Special {
            device.load(number).await;
        }
        let kind = device.objects.live(number).ok_or(Errno::Enoent).and_then(kind_of);
        self.leave(device, kind).await
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(Some(caller)).await?;
        device.load(number).await;
        if device.objects.live(number).is_none() {
            return Err(Errno::Enoent);
        }
        if let Some(size) = to.size_bytes {
            let number = Self::file(&device, inode)?;
            if size > device.file_bytes_max() {
                return Err(Errno::Efbig);
            }
            let now = device.now;
            if let Some(object) = device.objects.get_mut(number) {
                // Before the resize, whose header carries them to the medium.
                object.times[1] = now;
                object.times[2] = now;
            }
            let resized = device.resize_file(number, size).await;
            if resized.is_err() {
                return self.leave(device, resized).await;
            }
        }
        let only_size = Changes { size_bytes: to.size_bytes, ..Changes::default() };
        if *to == only_size && !self.profile.attributes_after_resize {
            return self.leave(device, Ok(())).await;
        }
        let now = device.now;
        if let Some(object) = device.objects.get_mut(number) {
            if let Some(permissions) = to.permissions {
                object.mode = object.mode & !0o7777 | permissions & 0o7777;
            }
            object.uid = to.uid.unwrap_or(object.uid);
            object.gid = to.gid.unwrap_or(object.gid);
            let time = |wanted: Option<Time>, old| wanted.map_or(old, |time| time.seconds);
            object.times[0] = time(to.accessed, object.times[0]);
            object.times[1] = time(to.modified, object.times[1]);
            object.times[2] = now;
        }
        // `yaffs_set_attribs` forces the header of the module. `yaffs_chmod` and `yaffs_utime` of the
        // library flush the object: cached chunks first, which a change of size may have left, and no
        // header for directories that have none.
        if self.is_library() {
            device.flush_object_cache(number).await;
        }
        let update = Update { is_forced: self.profile.has_page_cache, ..Update::default() };
        let written = device.update_header(number, update).await;
        self.leave(device, written).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        check_name(name)?;
        let mut device = self.enter(Some(caller)).await?;
        let directory = Self::directory(&device, directory)?;
        let owner = (caller.uid, caller.gid);
        let mut object = NewObject {
            kind: ObjectKind::File,
            mode: 0,
            owner,
            device: 0,
            alias: None,
            equivalent: 0,
        };
        match new {
            NewInode::Regular(mode) => object.mode = 0o100_000 | mode & 0o7777,
            NewInode::Directory(mode) => {
                object.kind = ObjectKind::Directory;
                object.mode = 0o040_000 | mode & 0o7777;
            }
            NewInode::Symlink(target) => {
                if target.len() > ALIAS_BYTES_MAX && self.profile.refuses_long_targets {
                    return Err(Errno::Enametoolong);
                }
                let target = &target[..target.len().min(ALIAS_BYTES_MAX)];
                object.kind = ObjectKind::Symlink;
                // Permissions of links are never asked for; the kernel gives them these.
                object.mode = 0o120_777;
                object.alias = Some(target);
            }
            NewInode::Special(mode, number) => {
                object.kind = ObjectKind::Special;
                object.mode = mode;
                object.device = encode_device(number);
            }
        }
        if self.is_library() && object.kind == ObjectKind::File {
            device.walk_again(directory).await;
        }
        let made = device.create(directory, name, object).await;
        self.leave(device, made.map(InodeNumber::from)).await
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        check_name(name)?;
        let mut device = self.enter(Some(caller)).await?;
        let number = number_of(inode)?;
        let directory = Self::directory(&device, directory)?;
        if device.objects.live(number).is_none() {
            return Err(Errno::Enoent);
        }
        let object = NewObject {
            kind: ObjectKind::HardLink,
            mode: 0,
            owner: (0, 0),
            device: 0,
            alias: None,
            equivalent: number,
        };
        if self.is_library() {
            device.walk_again(directory).await;
        }
        let made = device.create(directory, name, object).await;
        self.leave(device, made.map(drop)).await
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        let mut device = self.enter(Some(caller)).await?;
        let directory = Self::directory(&device, directory)?;
        if self.is_library() {
            device.walk_again(directory).await;
        }
        let Some(number) = device.find_name(directory, name).await else {
            return Err(Errno::Enoent);
        };
        let removed = device.unlink_object(number, self.profile.holds_unlinked).await;
        self.leave(device, removed).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        check_name(to.1)?;
        let mut device = self.enter(Some(caller)).await?;
        let from = (Self::directory(&device, from.0)?, from.1);
        let to = (Self::directory(&device, to.0)?, to.1);
        if self.is_library() {
            device.walk_again(from.0).await;
            device.walk_again(to.0).await;
        }
        let renamed = device.rename(from, to, self.profile.holds_unlinked).await;
        self.leave(device, renamed).await
    }

    /// `yaffs_rename` takes no flag, so the kernel answers.
    fn rename_flags(&self) -> RenameFlags {
        RenameFlags::NO_REPLACE.in_profile(self.profile.name)
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(None).await?;
        device.load(number).await;
        let target = match device.objects.live(number).map(|object| &object.body) {
            Some(Body::Symlink(alias)) => Ok(alias.clone().unwrap_or_default()),
            Some(_) => Err(Errno::Einval),
            None => Err(Errno::Enoent),
        };
        self.leave(device, target).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        let mut device = self.enter(None).await?;
        let number = Self::file(&device, inode)?;
        let start = page * PAGE_BYTES as u64;
        let size = device.file_size(number);
        let inside = size.saturating_sub(start).min(PAGE_BYTES as u64) as usize;
        if inside > 0 {
            device.read_file(number, start, into).await;
        }
        // The rest of a page behind the end must not show the chunk's old bytes: they may be
        // mapped.
        into[inside..].fill(0);
        self.leave(device, Ok(())).await
    }

    fn is_library(&self) -> bool {
        !self.profile.has_page_cache
    }

    /// The library reads the bytes it is asked for: a part of a chunk by way of the cache of chunks
    /// (`yaffsfs_do_read`, `yaffs_file_rd`). A kernel asks for pages, of which `readpage` reads all.
    async fn read_bytes(
        &self,
        inode: InodeNumber,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        let mut device = self.enter(None).await?;
        let number = Self::file(&device, inode)?;
        let inside = device.file_size(number).saturating_sub(offset);
        let count = (into.len() as u64).min(inside) as usize;
        let into = &mut into[..count];
        if self.profile.has_page_cache {
            device.read_whole_pages(number, offset, into).await;
        } else {
            device.read_file(number, offset, into).await;
        }
        self.leave(device, Ok(count)).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        let device = self.enter(None).await?;
        let number = Self::file(&device, inode)?;
        let runs = device.data_pages(number);
        self.leave(device, Ok(Some(runs))).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let mut device = self.enter(Some(caller)).await?;
        let number = Self::file(&device, inode)?;
        // `yaffs_hold_space` cannot know what a page will cost: collecting, a hole, a header. It
        // keeps twenty chunks for all of it.
        if self.profile.holds_space && device.user_free_chunks() <= HELD_CHUNKS {
            return Err(Errno::Enospc);
        }
        let start = page * PAGE_BYTES as u64 + part.start as u64;
        if start + part.len() as u64 > device.file_bytes_max() {
            return Err(Errno::Efbig);
        }
        let written = device.write_file(number, start, &bytes[part]).await;
        self.leave(device, written).await
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(None).await?;
        if !self.profile.has_xattrs {
            return Err(Errno::Eopnotsupp);
        }
        let area = device.xattr_area(number).await;
        let names = area.map(|area| xattr::list(&area)).unwrap_or_default();
        self.leave(device, Ok(names)).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(None).await?;
        if !self.profile.has_xattrs {
            return Err(Errno::Eopnotsupp);
        }
        let area = device.xattr_area(number).await;
        let value = area.and_then(|area| xattr::get(&area, name)).ok_or(Errno::Enodata);
        self.leave(device, value).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(Some(caller)).await?;
        if !self.profile.has_xattrs {
            return Err(Errno::Eopnotsupp);
        }
        if device.objects.live(number).is_none() {
            return Err(Errno::Enoent);
        }
        let update = Update { xattr: Some((name, value)), ..Update::default() };
        let changed = device.update_header(number, update).await;
        self.leave(device, changed).await
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(None).await?;
        let Some(object) = device.objects.get(number) else { return Ok(()) };
        // The last user is gone. A deferred object is deleted on the medium already and only memory
        // remains; one in the unlinked directory is deleted now (`yaffs_evict_inode`).
        if object.is_deferred {
            device.free_object(number);
        } else if object.is_unlinked && object.links.is_empty() && !device.is_read_only {
            device.delete_object(number, false).await;
        }
        self.leave(device, Ok(())).await
    }

    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(Some(caller)).await?;
        let was_dirty = device.objects.get(number).is_some_and(|object| object.is_dirty);
        let flushed = device.flush_file(number, false).await;
        if was_dirty && self.profile.drops_cache_at_close {
            device.cache.drop_object(number);
        }
        self.leave(device, flushed).await
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let number = number_of(inode)?;
        let mut device = self.enter(Some(caller)).await?;
        let flushed = device.flush_file(number, false).await;
        self.leave(device, flushed).await
    }

    /// Without the header, which has the time and the size. `yaffs_FlushFile` of 2009 does not tell the two
    /// calls apart (`data_sync` came later).
    async fn sync_data(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        let number = number_of(inode)?;
        let data_only = self.profile.collector == CollectorKind::Scattered;
        let mut device = self.enter(Some(caller)).await?;
        let flushed = device.flush_file(number, data_only).await;
        self.leave(device, flushed).await
    }

    /// A kernel with a background task writes no checkpoint while there is much to collect: the task
    /// would have to give it up at once (`yaffs_do_sync_fs`).
    async fn sync(&self) -> Result<(), Errno> {
        let mut device = self.enter(None).await?;
        let has_checkpoint = !self.profile().has_background || device.collect_urgency() == 0;
        device.flush_all(has_checkpoint).await;
        self.leave(device, Ok(())).await
    }

    async fn unmount(&self) -> Result<(), Errno> {
        let mut device = self.enter(None).await?;
        // The checkpoint comes last, after everything that would make it void.
        device.flush_all(true).await;
        device.keep_state();
        device.is_unmounted = true;
        // The background task wakes, sees it and ends.
        self.background.arm(self.sim.now());
        self.leave(device, Ok(())).await
    }

    fn space(&self) -> SpaceUse {
        if let Some(mut device) = self.device.try_lock() {
            self.space.set(space_of(&mut device));
        }
        self.space.get()
    }

    fn memory(&self) -> Memory {
        if let Some(device) = self.device.try_lock() {
            self.memory.replace(device.memory());
        }
        self.memory.borrow().clone()
    }
}
