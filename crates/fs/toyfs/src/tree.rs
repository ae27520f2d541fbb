//! The tree in memory, and how it is written as bytes.

use fs_api::{Attributes, Caller, Changes, Errno, FileType, InodeNumber, NewInode, Time};
use std::collections::BTreeMap;

/// Number of the root directory.
pub(crate) const ROOT: InodeNumber = 1;
/// Most bytes of a node on the medium without its names and data, and of one name without its letters.
pub(crate) const NODE_BYTES: usize = 96 + NAME_BYTES;
pub(crate) const NAME_BYTES: usize = 12;

/// An inode with all that it has. A symbolic link has its target as data.
pub(crate) struct Node {
    pub(crate) attributes: Attributes,
    pub(crate) data: Vec<u8>,
    pub(crate) names: BTreeMap<Vec<u8>, InodeNumber>,
    pub(crate) extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Node {
    fn new(caller: &Caller, kind: FileType, permissions: u32, device: (u32, u32)) -> Self {
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
        let (data, names, extended) = Default::default();
        Self { attributes, data, names, extended }
    }

    pub(crate) fn touch(&mut self, caller: &Caller) {
        self.attributes.modified = caller.now;
        self.attributes.changed = caller.now;
    }

    fn bytes(&self) -> usize {
        let names: usize = self.names.keys().map(|name| NAME_BYTES + name.len()).sum();
        let extended = self.extended.iter();
        let extended: usize =
            extended.map(|(name, value)| NAME_BYTES + name.len() + value.len()).sum();
        NODE_BYTES + self.data.len() + names + extended
    }
}

/// All inodes by number. Numbers are not used again.
pub(crate) struct Tree {
    nodes: BTreeMap<InodeNumber, Node>,
    next: InodeNumber,
}

impl Tree {
    /// An empty root directory.
    pub(crate) fn new(caller: &Caller) -> Self {
        let root = Node::new(caller, FileType::Directory, 0o755, (0, 0));
        Self { nodes: BTreeMap::from([(ROOT, root)]), next: ROOT + 1 }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Most bytes of a snapshot.
    pub(crate) fn bytes(&self) -> usize {
        NODE_BYTES + self.nodes.values().map(Node::bytes).sum::<usize>()
    }

    pub(crate) fn node(&self, inode: InodeNumber) -> Result<&Node, Errno> {
        self.nodes.get(&inode).ok_or(Errno::Enoent)
    }

    pub(crate) fn node_mut(&mut self, inode: InodeNumber) -> Result<&mut Node, Errno> {
        self.nodes.get_mut(&inode).ok_or(Errno::Enoent)
    }

    pub(crate) fn change(
        &mut self,
        caller: &Caller,
        inode: InodeNumber,
        to: &Changes,
    ) -> Result<(), Errno> {
        let node = self.node_mut(inode)?;
        if let Some(size) = to.size_bytes {
            node.data.resize(size as usize, 0);
            node.attributes.size_bytes = size;
            node.touch(caller);
        }
        let attributes = &mut node.attributes;
        attributes.permissions = to.permissions.unwrap_or(attributes.permissions);
        attributes.uid = to.uid.unwrap_or(attributes.uid);
        attributes.gid = to.gid.unwrap_or(attributes.gid);
        attributes.changed = caller.now;
        attributes.accessed = to.accessed.unwrap_or(attributes.accessed);
        attributes.modified = to.modified.unwrap_or(attributes.modified);
        Ok(())
    }

    pub(crate) fn make(
        &mut self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        let made = match new {
            NewInode::Regular(mode) => Node::new(caller, FileType::Regular, mode, (0, 0)),
            NewInode::Directory(mode) => Node::new(caller, FileType::Directory, mode, (0, 0)),
            NewInode::Symlink(target) => {
                let mut link = Node::new(caller, FileType::Symlink, 0o777, (0, 0));
                link.data = target.to_vec();
                link.attributes.size_bytes = target.len() as u64;
                link
            }
            NewInode::Special(mode, device) => {
                let kind = FileType::from_mode(mode).ok_or(Errno::Einval)?;
                Node::new(caller, kind, mode, if kind.is_device() { device } else { (0, 0) })
            }
        };
        let inode = self.next;
        self.next += 1;
        // A number is never given twice, so that an open file without a name keeps its own.
        self.nodes.insert(inode, made);
        self.add_name(caller, directory, name, inode)?;
        Ok(inode)
    }

    fn is_directory(&self, inode: InodeNumber) -> bool {
        self.node(inode).is_ok_and(|node| node.attributes.kind == FileType::Directory)
    }

    /// A directory counts one link for each directory in it.
    pub(crate) fn add_name(
        &mut self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        inode: InodeNumber,
    ) -> Result<(), Errno> {
        let links = u32::from(self.is_directory(inode));
        let parent = self.node_mut(directory)?;
        parent.names.insert(name.to_vec(), inode);
        parent.attributes.links += links;
        parent.touch(caller);
        Ok(())
    }

    fn drop_name(
        &mut self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<InodeNumber, Errno> {
        let parent = self.node_mut(directory)?;
        let inode = parent.names.remove(name).ok_or(Errno::Enoent)?;
        parent.touch(caller);
        let links = u32::from(self.is_directory(inode));
        self.node_mut(directory)?.attributes.links -= links;
        Ok(inode)
    }

    pub(crate) fn take_name(
        &mut self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        let inode = self.drop_name(caller, directory, name)?;
        // A directory loses its own `.`, too.
        let links = if self.is_directory(inode) { 2 } else { 1 };
        let node = self.node_mut(inode)?;
        node.attributes.links -= links;
        node.attributes.changed = caller.now;
        Ok(())
    }

    pub(crate) fn rename(
        &mut self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        let moved = *self.node(from.0)?.names.get(from.1).ok_or(Errno::Enoent)?;
        if from == to {
            return Ok(());
        }
        // The name that is replaced goes in the same change of memory: no snapshot lacks both files.
        if self.node(to.0)?.names.contains_key(to.1) {
            self.take_name(caller, to.0, to.1)?;
        }
        self.drop_name(caller, from.0, from.1)?;
        self.node_mut(moved)?.attributes.changed = caller.now;
        self.add_name(caller, to.0, to.1, moved)
    }

    /// The last user of an inode is gone.
    pub(crate) fn forget(&mut self, inode: InodeNumber) {
        if self.nodes.get(&inode).is_some_and(|node| node.attributes.links == 0) {
            self.nodes.remove(&inode);
        }
    }

    /// The payload of a snapshot. Inodes without names, which are open still, would never go.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let bytes_max = self.bytes();
        let mut to = Vec::with_capacity(bytes_max);
        let named = || self.nodes.iter().filter(|(_, node)| node.attributes.links > 0);
        put(&mut to, &[self.next, named().count() as u64]);
        for (inode, node) in named() {
            let Attributes { kind, permissions, links, uid, gid, device, .. } = node.attributes;
            put(&mut to, &[*inode, (kind.mode_bits() | permissions).into(), links.into()]);
            put(&mut to, &[u64::from(uid) << 32 | u64::from(gid)]);
            put(&mut to, &[u64::from(device.0) << 32 | u64::from(device.1)]);
            for time in
                [node.attributes.accessed, node.attributes.modified, node.attributes.changed]
            {
                put(&mut to, &[time.seconds.cast_unsigned()]);
                to.extend_from_slice(&time.nanoseconds.to_le_bytes());
            }
            put_bytes(&mut to, &node.data);
            to.extend_from_slice(&(node.names.len() as u32).to_le_bytes());
            for (name, named) in &node.names {
                put(&mut to, &[*named]);
                put_bytes(&mut to, name);
            }
            to.extend_from_slice(&(node.extended.len() as u32).to_le_bytes());
            for (name, value) in &node.extended {
                put_bytes(&mut to, name);
                put_bytes(&mut to, value);
            }
        }
        // Calls are refused by that number: a snapshot that is longer may not fit its half.
        debug_assert!(to.len() <= bytes_max, "{} bytes, at most {bytes_max} counted", to.len());
        to
    }

    /// The tree of a payload; none if it is not one.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let from = &mut &*payload;
        let (next, count) = (take_u64(from)?, take_u64(from)?);
        let mut nodes = BTreeMap::new();
        for _ in 0..count {
            let (inode, mode, links) = (take_u64(from)?, take_u64(from)? as u32, take_u64(from)?);
            let (owner, device) = (take_u64(from)?, take_u64(from)?);
            let pair = |both: u64| ((both >> 32) as u32, both as u32);
            let mut times = [Time::default(); 3];
            for time in &mut times {
                let seconds = take_u64(from)?.cast_signed();
                *time = Time { seconds, nanoseconds: take_u32(from)? };
            }
            let data = take_bytes(from)?;
            let attributes = Attributes {
                kind: FileType::from_mode(mode)?,
                permissions: mode & 0o7777,
                links: links as u32,
                uid: pair(owner).0,
                gid: pair(owner).1,
                size_bytes: data.len() as u64,
                accessed: times[0],
                modified: times[1],
                changed: times[2],
                device: pair(device),
            };
            let (mut names, mut extended) = (BTreeMap::new(), BTreeMap::new());
            for _ in 0..take_u32(from)? {
                let of = take_u64(from)?;
                names.insert(take_bytes(from)?, of);
            }
            for _ in 0..take_u32(from)? {
                let name = take_bytes(from)?;
                extended.insert(name, take_bytes(from)?);
            }
            nodes.insert(inode, Node { attributes, data, names, extended });
        }
        // The checksum was right, so a payload without a root is not one of this format.
        nodes.contains_key(&ROOT).then_some(Self { nodes, next })
    }
}

fn put(to: &mut Vec<u8>, numbers: &[u64]) {
    for number in numbers {
        to.extend_from_slice(&number.to_le_bytes());
    }
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    to.extend_from_slice(bytes);
}

fn take<'b>(from: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(taken)
}

fn take_u32(from: &mut &[u8]) -> Option<u32> {
    take(from, 4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

fn take_u64(from: &mut &[u8]) -> Option<u64> {
    let low = take_u32(from)?;
    Some(u64::from(take_u32(from)?) << 32 | u64::from(low))
}

fn take_bytes(from: &mut &[u8]) -> Option<Vec<u8>> {
    let count = take_u32(from)?;
    take(from, count as usize).map(<[u8]>::to_vec)
}
