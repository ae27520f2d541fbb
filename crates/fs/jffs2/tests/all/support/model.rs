//! Random work on a file system and on a model of it in memory.

use super::{CALLER, manifest};
use fs_api::{Caller, Changes, Errno, FileSystem, FileType, InodeNumber, NewInode, PAGE_BYTES};
use jffs2::Jffs2;
use random::Stream;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::hexadecimal;

/// Writes bytes as the page cache does: a page at a time, read first if it is written in part.
pub(crate) async fn write(
    fs: &Jffs2,
    caller: &Caller,
    inode: InodeNumber,
    offset: u64,
    data: &[u8],
) -> Result<(), Errno> {
    let (mut at, mut rest) = (offset, data);
    while !rest.is_empty() {
        let (number, start) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
        let count = rest.len().min(PAGE_BYTES - start);
        let mut page = [0; PAGE_BYTES];
        let bytes = fs.attributes(inode).await?.size_bytes;
        if count < PAGE_BYTES && number * (PAGE_BYTES as u64) < bytes {
            fs.read_page(inode, number, &mut page).await?;
        }
        page[start..start + count].copy_from_slice(&rest[..count]);
        fs.write_page(caller, inode, number, &page, start..start + count).await?;
        at += count as u64;
        rest = &rest[count..];
    }
    Ok(())
}

#[derive(Clone, Debug)]
struct Node {
    kind: FileType,
    permissions: u32,
    owner: (u32, u32),
    data: Vec<u8>,
    device: (u32, u32),
    attributes: BTreeMap<String, Vec<u8>>,
}

/// What was synced, and what was touched since.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promised {
    touched: BTreeSet<usize>,
    touched_paths: BTreeSet<String>,
    /// Lines by path, with the node.
    synced: BTreeMap<String, (usize, String)>,
}

impl Promised {
    /// How much of what was synced and not touched since is not there as it was.
    pub(crate) async fn count_lost(&self, fs: &Jffs2) -> usize {
        let found = manifest(fs).await;
        let found: BTreeSet<String> = Model::simplify(&found).into_iter().collect();
        let kept = self.synced.iter().filter(|(path, (node, _))| !self.is_touched(path, *node));
        kept.filter(|(_, (_, line))| !found.contains(line)).count()
    }

    fn is_touched(&self, path: &str, node: usize) -> bool {
        let is_within = |touched: &String| {
            path == touched || path.strip_prefix(touched).is_some_and(|rest| rest.starts_with('/'))
        };
        self.touched.contains(&node) || self.touched_paths.iter().any(is_within)
    }

    /// What was synced and not touched since is there.
    pub(crate) async fn compare_synced(&self, fs: &Jffs2, label: &str) {
        let found: BTreeSet<String> = Model::simplify(&manifest(fs).await).into_iter().collect();
        for (path, (node, line)) in &self.synced {
            if !self.is_touched(path, *node) {
                assert!(
                    found.contains(line),
                    "{label}: lost {line}\nthere is {:?}\n{:?}",
                    found.iter().find(|other| other.ends_with(&format!("\t{path}"))),
                    fs.findings()
                );
            }
        }
    }
}

/// The tree in memory, by path; several paths may name one node.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    paths: BTreeMap<String, usize>,
    nodes: BTreeMap<usize, Node>,
    next: usize,
    /// What a power cut must leave; shared, because the work that changes it dies with the cut.
    promised: Rc<RefCell<Promised>>,
    /// Bytes that files may hold in all.
    pub(crate) bytes_max: usize,
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or((".", path))
}

async fn resolve(fs: &Jffs2, path: &str) -> Result<InodeNumber, Errno> {
    let mut inode = fs.root();
    for name in path.split('/').filter(|name| *name != ".") {
        inode = fs.lookup(inode, name.as_bytes()).await?;
    }
    Ok(inode)
}

fn noise(stream: &mut Stream, bytes: usize) -> Vec<u8> {
    match stream.below(3) {
        0 => vec![b'a' + stream.below(26) as u8; bytes],
        1 => b"flash block page erase read ".iter().copied().cycle().take(bytes).collect(),
        _ => (0..bytes).map(|_| stream.next_u64() as u8).collect(),
    }
}

impl Model {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            paths: BTreeMap::new(),
            nodes: BTreeMap::new(),
            next: 0,
            promised: Rc::default(),
            bytes_max,
        }
    }

    /// A copy with promises of its own.
    pub(crate) fn fork(&self) -> Self {
        let promised = Rc::new(RefCell::new(self.promised.borrow().clone()));
        Self { promised, ..self.clone() }
    }

    /// What a power cut must leave, now and later.
    pub(crate) fn promised(&self) -> Rc<RefCell<Promised>> {
        self.promised.clone()
    }

    fn pick(&self, stream: &mut Stream, kinds: &[FileType]) -> Option<String> {
        let fits = |node: &usize| kinds.is_empty() || kinds.contains(&self.nodes[node].kind);
        let all: Vec<&String> =
            self.paths.iter().filter(|(_, node)| fits(node)).map(|(path, _)| path).collect();
        if all.is_empty() {
            None
        } else {
            Some(all[stream.below(all.len() as u32) as usize].clone())
        }
    }

    fn new_path(&self, stream: &mut Stream) -> String {
        let directory = match self.pick(stream, &[FileType::Directory]) {
            Some(path) if stream.below(3) > 0 => format!("{path}/"),
            _ => String::new(),
        };
        let name = stream.below(40);
        let tail = if name == 7 { "x".repeat(180) } else { String::new() };
        format!("{directory}n{name}{tail}")
    }

    fn add(&mut self, path: &str, node: Node) {
        self.nodes.insert(self.next, node);
        self.paths.insert(path.to_owned(), self.next);
        let mut promised = self.promised.borrow_mut();
        promised.touched.insert(self.next);
        promised.touched_paths.insert(path.to_owned());
        self.next += 1;
    }

    fn touch(&mut self, path: &str) {
        let mut promised = self.promised.borrow_mut();
        promised.touched_paths.insert(path.to_owned());
        if let Some(node) = self.paths.get(path) {
            promised.touched.insert(*node);
        }
    }

    fn remove(&mut self, path: &str) {
        if let Some(node) = self.paths.remove(path)
            && !self.paths.values().any(|other| *other == node)
        {
            self.nodes.remove(&node);
        }
    }

    fn children(&self, path: &str) -> Vec<String> {
        let prefix = format!("{path}/");
        self.paths.keys().filter(|other| other.starts_with(&prefix)).cloned().collect()
    }

    fn bytes(&self) -> usize {
        self.nodes.values().map(|node| node.data.len()).sum()
    }

    /// Everything is on the medium now.
    pub(crate) fn sync(&mut self) {
        let lines = self.paths.iter().map(|(path, node)| (path.clone(), (*node, self.line(path))));
        *self.promised.borrow_mut() = Promised { synced: lines.collect(), ..Promised::default() };
    }

    /// A path as it is compared: times are left out, and links and sizes of directories.
    fn line(&self, path: &str) -> String {
        let id = self.paths[path];
        let node = &self.nodes[&id];
        let links = self.paths.values().filter(|other| **other == id).count();
        let sha = match node.kind {
            FileType::Regular => hexadecimal(&Sha256::digest(&node.data)),
            _ => "-".into(),
        };
        let target = match node.kind {
            FileType::Symlink => String::from_utf8_lossy(&node.data).into_owned(),
            _ => "-".into(),
        };
        let attributes: Vec<String> = node
            .attributes
            .iter()
            .map(|(name, value)| format!("{name}={}", hexadecimal(value)))
            .collect();
        let attributes = if attributes.is_empty() { "-".into() } else { attributes.join(",") };
        let device = if node.kind.is_device() {
            format!("{}:{}", node.device.0, node.device.1)
        } else {
            "-".into()
        };
        let (links, bytes) = match node.kind {
            FileType::Directory => (0, 0),
            FileType::CharacterDevice => (links, 0),
            _ => (links, node.data.len()),
        };
        format!(
            "{}\t{:04o}\t{links}\t{}\t{}\t{bytes}\t{device}\t{sha}\t{target}\t{attributes}\t{path}",
            node.kind.letter(),
            node.permissions,
            node.owner.0,
            node.owner.1
        )
    }

    /// Lines of a manifest in the form of [`Model::line`], without the root.
    fn simplify(lines: &[String]) -> Vec<String> {
        let columns = lines.iter().map(|line| line.split('\t').collect::<Vec<_>>());
        columns
            .filter(|column| column.last() != Some(&"."))
            .map(|mut column| {
                if column.len() > 6 {
                    column.remove(6);
                    if column[0] == "d" {
                        column[2] = "0";
                    }
                }
                column.join("\t")
            })
            .collect()
    }

    /// The file system shows exactly the model.
    pub(crate) async fn compare(&self, fs: &Jffs2, label: &str) {
        let mut found = Self::simplify(&manifest(fs).await);
        let mut expected: Vec<String> = self.paths.keys().map(|path| self.line(path)).collect();
        found.sort();
        expected.sort();
        super::assert_same(label, &found, &expected);
    }

    /// One random operation, on both.
    ///
    /// # Errors
    /// What the file system says; the model is then as before, but for files that were written in
    /// part, which are taken over from the file system.
    pub(crate) async fn step(&mut self, fs: &Jffs2, stream: &mut Stream) -> Result<(), Errno> {
        let done = self.operate(fs, stream).await;
        fs.check_invariants();
        done
    }

    async fn operate(&mut self, fs: &Jffs2, stream: &mut Stream) -> Result<(), Errno> {
        let regular = [FileType::Regular];
        match stream.below(100) {
            0..=19 => self.make(fs, stream).await,
            20..=49 => match self.pick(stream, &regular) {
                Some(path) => self.write(fs, stream, &path).await,
                None => Ok(()),
            },
            50..=58 => match self.pick(stream, &regular) {
                Some(path) => self.truncate(fs, stream, &path).await,
                None => Ok(()),
            },
            59..=70 => match self.pick(stream, &[]) {
                Some(path) => self.unlink(fs, &path).await,
                None => Ok(()),
            },
            71..=80 => self.rename(fs, stream).await,
            81..=84 => self.link(fs, stream).await,
            85..=89 => self.change(fs, stream).await,
            90..=93 => self.set_attribute(fs, stream).await,
            94..=97 => match self.pick(stream, &regular) {
                Some(path) => {
                    let inode = resolve(fs, &path).await?;
                    fs.fsync(&CALLER, inode).await
                }
                None => Ok(()),
            },
            _ => {
                fs.sync().await?;
                self.sync();
                Ok(())
            }
        }
    }

    async fn make(&mut self, fs: &Jffs2, stream: &mut Stream) -> Result<(), Errno> {
        let path = self.new_path(stream);
        if self.paths.contains_key(&path) {
            return Ok(());
        }
        let target = format!("to/{}", stream.below(1000));
        let permissions = 0o600 + stream.below(64);
        let (kind, new, device) = match stream.below(10) {
            0..=5 => (FileType::Regular, NewInode::Regular(permissions), (0, 0)),
            6..=7 => (FileType::Directory, NewInode::Directory(permissions), (0, 0)),
            8 => (FileType::Symlink, NewInode::Symlink(target.as_bytes()), (0, 0)),
            _ => {
                let device = (stream.below(300), stream.below(300));
                let mode = FileType::CharacterDevice.mode_bits() | permissions;
                (FileType::CharacterDevice, NewInode::Special(mode, device), device)
            }
        };
        let (directory, name) = split(&path);
        self.touch(&path);
        let parent = resolve(fs, directory).await?;
        fs.make(&CALLER, parent, name.as_bytes(), new).await?;
        let is_link = kind == FileType::Symlink;
        let node = Node {
            kind,
            permissions: if is_link { 0o777 } else { permissions },
            owner: (0, 0),
            data: if is_link { target.into_bytes() } else { Vec::new() },
            device,
            attributes: BTreeMap::new(),
        };
        self.add(&path, node);
        Ok(())
    }

    async fn write(&mut self, fs: &Jffs2, stream: &mut Stream, path: &str) -> Result<(), Errno> {
        let id = self.paths[path];
        let old = self.nodes[&id].data.len();
        let offset = match stream.below(4) {
            0 => 0,
            1 => old,
            2 => stream.below(old as u32 + 1) as usize,
            _ => (old + stream.below(9000) as usize).min(60_000),
        };
        let count =
            1 + if stream.below(3) == 0 { stream.below(20_000) } else { stream.below(3000) };
        let count = count as usize;
        if self.bytes() + offset.saturating_sub(old) + count > self.bytes_max {
            return Ok(());
        }
        let data = noise(stream, count);
        self.touch(path);
        let inode = resolve(fs, path).await?;
        let written = write(fs, &CALLER, inode, offset as u64, &data).await;
        let known = &mut self.nodes.get_mut(&id).expect("a node").data;
        if written.is_err() {
            let bytes = fs.attributes(inode).await?.size_bytes;
            *known = super::read_file(fs, inode, bytes).await?;
            return written;
        }
        if known.len() < offset + count {
            known.resize(offset + count, 0);
        }
        known[offset..offset + count].copy_from_slice(&data);
        Ok(())
    }

    async fn truncate(&mut self, fs: &Jffs2, stream: &mut Stream, path: &str) -> Result<(), Errno> {
        let id = self.paths[path];
        let old = self.nodes[&id].data.len() as u32;
        let bytes = match stream.below(4) {
            0 => 0,
            1 => old + stream.below(20_000),
            _ => stream.below(old + 1),
        };
        if self.bytes() + bytes as usize > self.bytes_max + old as usize {
            return Ok(());
        }
        self.touch(path);
        let inode = resolve(fs, path).await?;
        let to = Changes { size_bytes: Some(bytes.into()), ..Changes::default() };
        fs.change(&CALLER, inode, &to).await?;
        self.nodes.get_mut(&id).expect("a node").data.resize(bytes as usize, 0);
        Ok(())
    }

    async fn unlink(&mut self, fs: &Jffs2, path: &str) -> Result<(), Errno> {
        if !self.children(path).is_empty() {
            return Ok(());
        }
        self.touch(path);
        let (directory, name) = split(path);
        let inode = resolve(fs, path).await?;
        let parent = resolve(fs, directory).await?;
        fs.unlink(&CALLER, parent, name.as_bytes()).await?;
        let id = self.paths[path];
        self.remove(path);
        if !self.nodes.contains_key(&id) {
            fs.forget(inode).await?;
        }
        Ok(())
    }

    async fn rename(&mut self, fs: &Jffs2, stream: &mut Stream) -> Result<(), Errno> {
        let Some(from) = self.pick(stream, &[]) else { return Ok(()) };
        let to = self.new_path(stream);
        let victim = self.paths.get(&to).copied();
        let id = self.paths[&from];
        let is_below = to == from || to.starts_with(&format!("{from}/"));
        let kinds_fit = victim.is_none_or(|victim| {
            (self.nodes[&victim].kind == FileType::Directory)
                == (self.nodes[&id].kind == FileType::Directory)
        });
        if is_below || !kinds_fit || victim == Some(id) || !self.children(&to).is_empty() {
            return Ok(());
        }
        let moved = self.children(&from);
        for path in moved.iter().chain([&from, &to]) {
            self.touch(path);
        }
        let (old_directory, old_name) = split(&from);
        let (new_directory, new_name) = split(&to);
        let old_parent = resolve(fs, old_directory).await?;
        let new_parent = resolve(fs, new_directory).await?;
        let victim_inode = match victim {
            Some(_) => Some(resolve(fs, &to).await?),
            None => None,
        };
        fs.rename(&CALLER, (old_parent, old_name.as_bytes()), (new_parent, new_name.as_bytes()))
            .await?;
        self.remove(&to);
        if let (Some(id), Some(inode)) = (victim, victim_inode)
            && !self.nodes.contains_key(&id)
        {
            fs.forget(inode).await?;
        }
        self.paths.remove(&from);
        self.paths.insert(to.clone(), id);
        for path in moved {
            let node = self.paths.remove(&path).expect("it was there");
            let path = format!("{to}{}", &path[from.len()..]);
            self.touch(&path);
            self.paths.insert(path, node);
        }
        Ok(())
    }

    async fn link(&mut self, fs: &Jffs2, stream: &mut Stream) -> Result<(), Errno> {
        let Some(from) = self.pick(stream, &[FileType::Regular, FileType::Symlink]) else {
            return Ok(());
        };
        let to = self.new_path(stream);
        if self.paths.contains_key(&to) {
            return Ok(());
        }
        self.touch(&from);
        self.touch(&to);
        let (directory, name) = split(&to);
        let inode = resolve(fs, &from).await?;
        let parent = resolve(fs, directory).await?;
        fs.link(&CALLER, inode, parent, name.as_bytes()).await?;
        self.paths.insert(to, self.paths[&from]);
        Ok(())
    }

    async fn change(&mut self, fs: &Jffs2, stream: &mut Stream) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, &[]) else { return Ok(()) };
        self.touch(&path);
        let inode = resolve(fs, &path).await?;
        let (permissions, uid, gid) =
            (stream.below(0o1000), stream.below(60_000), stream.below(60_000));
        let to = Changes {
            permissions: Some(permissions),
            uid: Some(uid),
            gid: Some(gid),
            ..Changes::default()
        };
        fs.change(&CALLER, inode, &to).await?;
        let node = self.nodes.get_mut(&self.paths[&path]).expect("a node");
        (node.permissions, node.owner) = (permissions, (uid, gid));
        Ok(())
    }

    async fn set_attribute(&mut self, fs: &Jffs2, stream: &mut Stream) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, &[]) else { return Ok(()) };
        let name = ["user.a", "user.bb", "trusted.c"][stream.below(3) as usize];
        let is_set = self.nodes[&self.paths[&path]].attributes.contains_key(name);
        let value = if is_set && stream.below(2) == 0 {
            None
        } else {
            let bytes = 1 + stream.below(60) as usize;
            Some(vec![stream.below(4) as u8; bytes])
        };
        self.touch(&path);
        let inode = resolve(fs, &path).await?;
        fs.set_extended_attribute(&CALLER, inode, name.as_bytes(), value.as_deref()).await?;
        let attributes = &mut self.nodes.get_mut(&self.paths[&path]).expect("a node").attributes;
        match value {
            Some(value) => attributes.insert(name.to_owned(), value),
            None => attributes.remove(name),
        };
        Ok(())
    }
}
