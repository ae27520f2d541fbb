//! A file system without a medium: what others must look like from above.

use fs_api::{
    Attributes, Caller, Changes, DirectoryEntry, Errno, FileSystem, FileType, InodeNumber, Memory,
    NewInode, PAGE_BYTES, RenameFlags, SpaceUse,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

const ROOT: InodeNumber = 1;

#[derive(Clone, Debug)]
struct Inode {
    attributes: Attributes,
    data: Vec<u8>,
    names: BTreeMap<Vec<u8>, InodeNumber>,
    target: Vec<u8>,
    extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A file system in memory, with POSIX's rules and no limits. Directories count their directories as
/// links; times are in whole seconds.
#[derive(Debug)]
pub struct MemoryFileSystem {
    inodes: RefCell<BTreeMap<InodeNumber, Inode>>,
    next: RefCell<InodeNumber>,
}

impl MemoryFileSystem {
    /// An empty root directory, made by `caller`.
    pub fn new(caller: &Caller) -> Self {
        let root = inode(caller, FileType::Directory, 0o755, (0, 0));
        Self { inodes: BTreeMap::from([(ROOT, root)]).into(), next: RefCell::new(ROOT + 1) }
    }

    fn with<T>(
        &self,
        number: InodeNumber,
        see: impl FnOnce(&mut Inode) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        see(self.inodes.borrow_mut().get_mut(&number).ok_or(Errno::Enoent)?)
    }

    /// Puts a name into a directory.
    fn add_name(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        number: InodeNumber,
        is_directory: bool,
    ) -> Result<(), Errno> {
        self.with(directory, |inode| {
            inode.names.insert(name.to_vec(), number);
            inode.attributes.links += u32::from(is_directory);
            touch(inode, caller);
            Ok(())
        })
    }

    /// Takes a name out of a directory and a link from what it named.
    fn take_name(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber, Errno> {
        let number = self.with(directory, |inode| inode.names.remove(name).ok_or(Errno::Enoent))?;
        let is_directory = self.with(number, |inode| {
            let is_directory = inode.attributes.kind == FileType::Directory;
            // A directory loses its own `.` as well, hence two.
            inode.attributes.links -= if is_directory { 2 } else { 1 };
            inode.attributes.changed = caller.now;
            Ok(is_directory)
        })?;
        self.with(directory, |inode| {
            inode.attributes.links -= u32::from(is_directory);
            touch(inode, caller);
            Ok(())
        })?;
        Ok(number)
    }
}

fn inode(caller: &Caller, kind: FileType, permissions: u32, device: (u32, u32)) -> Inode {
    let attributes = Attributes {
        kind,
        permissions: permissions & 0o7777,
        links: if kind == FileType::Directory { 2 } else { 1 },
        uid: caller.uid,
        gid: caller.gid,
        size_bytes: 0,
        accessed: caller.now,
        modified: caller.now,
        changed: caller.now,
        device,
    };
    Inode {
        attributes,
        data: Vec::new(),
        names: BTreeMap::new(),
        target: Vec::new(),
        extended: BTreeMap::new(),
    }
}

fn touch(inode: &mut Inode, caller: &Caller) {
    inode.attributes.modified = caller.now;
    inode.attributes.changed = caller.now;
}

impl FileSystem for MemoryFileSystem {
    fn root(&self) -> InodeNumber {
        ROOT
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        self.with(directory, |inode| inode.names.get(name).copied().ok_or(Errno::Enoent))
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let entry = |(name, inode): (&Vec<u8>, &InodeNumber)| DirectoryEntry {
            name: name.clone(),
            inode: *inode,
        };
        self.with(directory, |inode| Ok(inode.names.iter().map(entry).collect()))
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.with(inode, |inode| Ok(inode.attributes))
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        self.with(inode, |inode| {
            let attributes = &mut inode.attributes;
            attributes.permissions = to.permissions.unwrap_or(attributes.permissions);
            attributes.uid = to.uid.unwrap_or(attributes.uid);
            attributes.gid = to.gid.unwrap_or(attributes.gid);
            attributes.changed = caller.now;
            if let Some(size) = to.size_bytes {
                // Longer files are filled with zeros, as every file system does for a hole.
                inode.data.resize(usize::try_from(size).map_err(|_| Errno::Efbig)?, 0);
                inode.attributes.size_bytes = size;
                inode.attributes.modified = caller.now;
            }
            let attributes = &mut inode.attributes;
            attributes.accessed = to.accessed.unwrap_or(attributes.accessed);
            attributes.modified = to.modified.unwrap_or(attributes.modified);
            Ok(())
        })
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        let made = match new {
            NewInode::Regular(permissions) => inode(caller, FileType::Regular, permissions, (0, 0)),
            NewInode::Directory(permissions) => {
                inode(caller, FileType::Directory, permissions, (0, 0))
            }
            NewInode::Symlink(target) => {
                let mut link = inode(caller, FileType::Symlink, 0o777, (0, 0));
                link.target = target.to_vec();
                link.attributes.size_bytes = target.len() as u64;
                link
            }
            NewInode::Special(mode, device) => {
                let kind = FileType::from_mode(mode).ok_or(Errno::Einval)?;
                inode(caller, kind, mode, if kind.is_device() { device } else { (0, 0) })
            }
        };
        let is_directory = made.attributes.kind == FileType::Directory;
        // Numbers are not reused, so a number seen twice is the same inode.
        let number = *self.next.borrow();
        *self.next.borrow_mut() += 1;
        self.inodes.borrow_mut().insert(number, made);
        self.add_name(caller, directory, name, number, is_directory)?;
        Ok(number)
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.with(inode, |inode| {
            inode.attributes.links += 1;
            inode.attributes.changed = caller.now;
            Ok(())
        })?;
        self.add_name(caller, directory, name, inode, false)
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.take_name(caller, directory, name).map(drop)
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        // Both names are the same: nothing changes, not even a time.
        if from == to {
            return self.lookup(from.0, from.1).await.map(drop);
        }
        // What the new name named loses it before the moved inode gets it.
        if self.lookup(to.0, to.1).await.is_ok() {
            self.take_name(caller, to.0, to.1)?;
        }
        let number = self.lookup(from.0, from.1).await?;
        let is_directory = self.attributes(number).await?.kind == FileType::Directory;
        self.with(from.0, |inode| {
            inode.names.remove(from.1);
            // The directory's link count falls here and rises with `add_name` in the other one.
            inode.attributes.links -= u32::from(is_directory);
            touch(inode, caller);
            Ok(())
        })?;
        self.with(number, |inode| {
            inode.attributes.changed = caller.now;
            Ok(())
        })?;
        self.add_name(caller, to.0, to.1, number, is_directory)
    }

    fn rename_flags(&self) -> RenameFlags {
        RenameFlags { has_call: true, exchanges: true, has_whiteout: true }
    }

    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        let (first, second) =
            (self.lookup(one.0, one.1).await?, self.lookup(other.0, other.1).await?);
        for (place, number, before) in [(one, second, first), (other, first, second)] {
            let is_directory =
                async |inode| Ok::<_, Errno>(self.kind(inode).await? == FileType::Directory);
            let links = (is_directory(number).await?, is_directory(before).await?);
            self.with(number, |inode| {
                inode.attributes.changed = caller.now;
                Ok(())
            })?;
            self.with(place.0, |inode| {
                inode.names.insert(place.1.to_vec(), number);
                // A directory that comes has a `..`, one that goes takes its own along.
                inode.attributes.links += u32::from(links.0);
                inode.attributes.links -= u32::from(links.1);
                touch(inode, caller);
                Ok(())
            })?;
        }
        Ok(())
    }

    async fn rename_with_whiteout(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<InodeNumber, Errno> {
        self.rename(caller, from, to).await?;
        // Whatever made it, a whiteout is root's and has no permission (`whiteout_mode`, `vfs_whiteout`).
        let new = NewInode::Special(FileType::CharacterDevice.mode_bits(), (0, 0));
        self.make(caller, from.0, from.1, new).await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        part: Range<u64>,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        self.with(inode, |inode| {
            if !keeps_size && inode.attributes.size_bytes < part.end {
                let size = usize::try_from(part.end).map_err(|_| Errno::Efbig)?;
                inode.data.resize(size, 0);
                inode.attributes.size_bytes = part.end;
                touch(inode, caller);
            }
            Ok(())
        })
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        self.with(inode, |inode| Ok(inode.target.clone()))
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.with(inode, |inode| {
            into.fill(0);
            // Behind the end a page is zeros.
            let start = (page as usize * PAGE_BYTES).min(inode.data.len());
            let end = (start + PAGE_BYTES).min(inode.data.len());
            into[..end - start].copy_from_slice(&inode.data[start..end]);
            Ok(())
        })
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.with(inode, |inode| {
            let start = page as usize * PAGE_BYTES;
            let end = start + part.end;
            if inode.data.len() < end {
                inode.data.resize(end, 0);
                inode.attributes.size_bytes = end as u64;
            }
            inode.data[start + part.start..end].copy_from_slice(&bytes[part]);
            touch(inode, caller);
            Ok(())
        })
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        self.with(inode, |inode| Ok(inode.extended.keys().cloned().collect()))
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.with(inode, |inode| inode.extended.get(name).cloned().ok_or(Errno::Enodata))
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.with(inode, |inode| {
            inode.attributes.changed = caller.now;
            match value {
                Some(value) => drop(inode.extended.insert(name.to_vec(), value.to_vec())),
                None => drop(inode.extended.remove(name).ok_or(Errno::Enodata)?),
            }
            Ok(())
        })
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        let mut inodes = self.inodes.borrow_mut();
        // Open files keep their inode; the layer above calls this when the last one is closed.
        if inodes.get(&inode).is_some_and(|inode| inode.attributes.links == 0) {
            inodes.remove(&inode);
        }
        Ok(())
    }

    async fn fsync(&self, _caller: &Caller, _inode: InodeNumber) -> Result<(), Errno> {
        Ok(())
    }

    async fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }

    async fn unmount(&self) -> Result<(), Errno> {
        Ok(())
    }

    fn space(&self) -> SpaceUse {
        SpaceUse::default()
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}
