//! Extended attributes: each is an inode of its own, named like an entry.
//!
//! Source: `fs/ubifs/xattr.c`.
//! A part of the engine: uses the engine, states and formats, and the names of `names.rs`.

use crate::budget::Request;
use crate::engine::Engine;
use crate::inode::{Inode, flag};
use crate::keys::Key;
use crate::names::entry_size;
use crate::nodes::{EntryNode, INODE_BYTES, MAX_INODE_DATA_BYTES, MAX_NAME_BYTES, aligned};
use crate::records::Naming;
use fs_api::{Caller, Errno};
use std::rc::Rc;

// `MAX_XATTRS_PER_INODE` of kernels before 5.2. Later ones allow `(leb_size / 2) /
// UBIFS_INO_NODE_SZ`.
/// Attributes that an inode may have.
const MAX_COUNT: u32 = 65535;
/// Bytes of all their names, each with a zero behind it (`XATTR_LIST_MAX`).
const MAX_NAMES_BYTES: u32 = 65536;
/// Prefixes that are known.
const PREFIXES: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system."];

/// What a value of so many bytes adds to the count of its host: the kernel counts one byte more
/// (`CALC_XATTR_BYTES`).
pub(crate) fn value_size(value_bytes: usize) -> u32 {
    aligned(INODE_BYTES + value_bytes + 1) as u32
}

impl Engine {
    async fn find_attribute(&self, host: &Inode, name: &[u8]) -> Result<Option<EntryNode>, Errno> {
        if name.len() > MAX_NAME_BYTES {
            return Err(Errno::Erange);
        }
        self.tnc_lookup_name(Key::attribute(host.number, name), name).await
    }

    pub(crate) async fn attribute_names(&self, number: u64) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Vec::new();
        let mut last = (Key::first_attribute(number), Vec::new());
        while let Some(entry) = self.next_entry(last.0, &last.1).await? {
            names.push(entry.name.clone());
            last = (entry.key, entry.name);
        }
        Ok(names)
    }

    pub(crate) async fn attribute_value(&self, number: u64, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let host = self.inode(number).await?;
        let entry = self.find_attribute(&host, name).await?.ok_or(Errno::Enodata)?;
        let value = self.inode(entry.inode).await?;
        let data = value.data.borrow();
        if data.node.flags & flag::ATTRIBUTE == 0 {
            return Err(Errno::Eio);
        }
        Ok(data.node.data.clone())
    }

    pub(crate) async fn set_attribute(
        &self,
        caller: &Caller,
        number: u64,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        // A prefix alone names nothing; UBIFS has no handler of `system.` (`xattr_resolve_name` in
        // `fs/xattr.c`).
        if PREFIXES.contains(&name) && name != b"system." {
            return Err(Errno::Einval);
        }
        if !PREFIXES.iter().any(|prefix| name.starts_with(prefix) && name.len() > prefix.len()) {
            return Err(Errno::Eopnotsupp);
        }
        let host = self.inode(number).await?;
        let known = self.find_attribute(&host, name).await?;
        match (known, value) {
            (_, Some(value)) if value.len() > MAX_INODE_DATA_BYTES => Err(Errno::Erange),
            (None, None) => Err(Errno::Enodata),
            (None, Some(value)) => self.make_attribute(caller, &host, name, value).await,
            (Some(entry), Some(value)) => {
                let old = self.inode(entry.inode).await?;
                self.change_attribute(caller, &host, &old, value).await
            }
            (Some(entry), None) => {
                let old = self.inode(entry.inode).await?;
                self.remove_attribute(caller, &host, name, &old).await
            }
        }
    }

    async fn make_attribute(
        &self,
        caller: &Caller,
        host: &Rc<Inode>,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), Errno> {
        {
            let node = &host.data.borrow().node;
            // Each name counts its zero, as in the list that `listxattr` returns (`create_xattr`).
            let names_bytes = node.attribute_name_bytes.saturating_add(node.attribute_count);
            if node.attribute_count >= MAX_COUNT
                || names_bytes.saturating_add(name.len() as u32 + 1) > MAX_NAMES_BYTES
            {
                return Err(Errno::Enospc);
            }
        }
        let request = Request {
            new_inode: true,
            new_entry: true,
            new_inode_bytes: value.len(),
            dirtied_inodes: 1,
            dirtied_inode_bytes: host.data_bytes(),
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        let _held = host.lock.lock().await;
        // `create_xattr` makes a regular file with all permissions (`S_IFREG | S_IRWXUGO`); only
        // the flag distinguishes it.
        let made = self.new_inode(caller, host, 0o100_777, value.to_vec());
        let inode = match made {
            Ok(inode) => inode,
            Err(error) => {
                self.release(budget);
                return Err(error);
            }
        };
        {
            let node = &mut inode.data.borrow_mut().node;
            // Attributes of a directory inherit its flags, as its entries do (`inherit_flags` of `dir.c`).
            node.flags |= flag::ATTRIBUTE;
            node.size = value.len() as u64;
        }
        let before = host.data.borrow().node.clone();
        {
            let node = &mut host.data.borrow_mut().node;
            node.changed = self.stamp(caller.now);
            node.attribute_count += 1;
            node.attribute_bytes += entry_size(name) as u32 + value_size(value.len());
            node.attribute_name_bytes += name.len() as u32;
        }
        let naming = Naming { name, is_removal: false, is_attribute: true };
        let logged = self.log_name(host, naming, &inode).await;
        self.release(budget);
        if logged.is_err() {
            host.data.borrow_mut().node = before;
            self.inodes.borrow_mut().remove(&inode.number);
        }
        logged
    }

    async fn change_attribute(
        &self,
        caller: &Caller,
        host: &Rc<Inode>,
        inode: &Rc<Inode>,
        value: &[u8],
    ) -> Result<(), Errno> {
        let request = Request {
            dirtied_inodes: 2,
            dirtied_inode_bytes: aligned(value.len()) + aligned(host.data_bytes()),
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        let _held = host.lock.lock().await;
        let before = host.data.borrow().node.clone();
        let old = {
            let node = &mut inode.data.borrow_mut().node;
            node.size = value.len() as u64;
            std::mem::replace(&mut node.data, value.to_vec())
        };
        {
            let node = &mut host.data.borrow_mut().node;
            node.changed = self.stamp(caller.now);
            node.attribute_bytes = node.attribute_bytes.saturating_sub(value_size(old.len()))
                + value_size(value.len());
        }
        let logged = self.log_attribute_change(host, inode).await;
        self.release(budget);
        if logged.is_err() {
            host.data.borrow_mut().node = before;
            let node = &mut inode.data.borrow_mut().node;
            node.size = old.len() as u64;
            node.data = old;
        }
        logged
    }

    async fn remove_attribute(
        &self,
        caller: &Caller,
        host: &Rc<Inode>,
        name: &[u8],
        inode: &Rc<Inode>,
    ) -> Result<(), Errno> {
        let request = Request {
            changed_entry: true,
            dirtied_inodes: 2,
            dirtied_inode_bytes: host.data_bytes(),
            ..Request::default()
        };
        let budget = self.budget(caller, &request).await?;
        let _held = host.lock.lock().await;
        let before = host.data.borrow().node.clone();
        let value_bytes = value_size(inode.data_bytes());
        inode.data.borrow_mut().node.links = 0;
        {
            let node = &mut host.data.borrow_mut().node;
            node.changed = self.stamp(caller.now);
            node.attribute_count = node.attribute_count.saturating_sub(1);
            node.attribute_bytes =
                node.attribute_bytes.saturating_sub(entry_size(name) as u32 + value_bytes);
            node.attribute_name_bytes = node.attribute_name_bytes.saturating_sub(name.len() as u32);
        }
        let logged = self.log_attribute_removal(host, name, inode).await;
        self.release(budget);
        if logged.is_err() {
            host.data.borrow_mut().node = before;
            inode.data.borrow_mut().node.links = 1;
        } else {
            self.inodes.borrow_mut().remove(&inode.number);
        }
        logged
    }
}
