//! Random work, what must be found after it, and what must be found after a power cut.

use super::host::Host;
use fs_api::{Changes, Errno, FileSystem, NewInode};
use random::Stream;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    File { bytes: Vec<u8>, permissions: u32, attributes: BTreeMap<Vec<u8>, Vec<u8>> },
    Directory,
    Link(Vec<u8>),
}

/// What must be found after a power cut: what was synced and not touched since.
#[derive(Clone, Default)]
pub(crate) struct Promise {
    synced: RefCell<BTreeMap<String, Thing>>,
    touched: RefCell<BTreeSet<String>>,
}

/// All paths, and which of them are on the medium for good.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) things: BTreeMap<String, Thing>,
    pub(crate) promise: Rc<Promise>,
    count: u64,
}

fn noise(stream: &mut Stream, bytes: usize) -> Vec<u8> {
    // Half of it compresses.
    let mut data = Vec::with_capacity(bytes + 16);
    while data.len() < bytes {
        let word = stream.next_u64();
        data.extend_from_slice(&word.to_le_bytes());
        if word & 1 == 0 {
            data.extend_from_slice(b"compressible data");
        }
    }
    data.truncate(bytes);
    data
}

fn below(stream: &mut Stream, count: usize) -> usize {
    (stream.next_u64() % count as u64) as usize
}

impl Model {
    /// A copy with a promise of its own.
    pub(crate) fn fork(&self) -> Self {
        let promise = Rc::new(Promise::clone(&self.promise));
        Self { things: self.things.clone(), promise, count: self.count }
    }

    /// Work from here on knows nothing of what is there, and makes names of its own.
    pub(crate) fn start_anew(&mut self) {
        self.things.clear();
        self.count += 1_000_000;
    }

    /// The same things under another's promise.
    pub(crate) fn under(&self, promise: Rc<Promise>) -> Self {
        Self { things: self.things.clone(), promise, count: self.count }
    }

    fn touch(&self, path: &str) {
        self.promise.touched.borrow_mut().insert(path.to_owned());
    }

    fn pick(&self, stream: &mut Stream, wanted: fn(&Thing) -> bool) -> Option<String> {
        let paths: Vec<_> =
            self.things.iter().filter(|(_, thing)| wanted(thing)).map(|(path, _)| path).collect();
        (!paths.is_empty()).then(|| paths[below(stream, paths.len())].clone())
    }

    fn is_file(thing: &Thing) -> bool {
        matches!(thing, Thing::File { .. })
    }

    fn new_path(&mut self, stream: &mut Stream) -> String {
        self.count += 1;
        let name = format!("{}{}", "n".repeat(1 + below(stream, 20)), self.count);
        let directory = self.pick(stream, |thing| *thing == Thing::Directory);
        match directory.filter(|_| below(stream, 3) > 0) {
            Some(directory) => format!("{directory}/{name}"),
            None => name,
        }
    }

    /// One operation; what does not fit is left out.
    pub(crate) async fn step(&mut self, host: &Host, stream: &mut Stream, max_bytes: usize) {
        let done = self.try_step(host, stream, max_bytes).await;
        assert!(matches!(done, Ok(()) | Err(Errno::Enospc)), "{done:?}");
    }

    async fn try_step(
        &mut self,
        host: &Host,
        stream: &mut Stream,
        max_bytes: usize,
    ) -> Result<(), Errno> {
        match below(stream, 100) {
            0..=19 => self.make_file(host, stream, max_bytes).await,
            20..=49 => self.write(host, stream, max_bytes).await,
            50..=57 => self.truncate(host, stream, max_bytes).await,
            58..=72 => self.remove(host, stream).await,
            73..=77 => self.rename(host, stream).await,
            78..=81 => self.make_other(host, stream).await,
            82..=84 => self.change(host, stream).await,
            85..=89 => self.attribute(host, stream).await,
            90..=95 => self.fsync(host, stream).await,
            96 | 97 => self.sync(host).await,
            _ => {
                host.drop_caches().await;
                Ok(())
            }
        }
    }

    async fn make_file(
        &mut self,
        host: &Host,
        stream: &mut Stream,
        max_bytes: usize,
    ) -> Result<(), Errno> {
        let path = self.new_path(stream);
        self.touch(&path);
        host.open(&path).await?;
        let file =
            Thing::File { bytes: Vec::new(), permissions: 0o644, attributes: BTreeMap::new() };
        self.things.insert(path.clone(), file);
        let count = below(stream, max_bytes);
        let bytes = noise(stream, count);
        for (number, piece) in bytes.chunks(4096).enumerate() {
            host.write(&path, number as u64 * 4096, piece).await?;
            self.put(&path, number * 4096, piece);
        }
        Ok(())
    }

    fn put(&mut self, path: &str, offset: usize, piece: &[u8]) {
        if let Some(Thing::File { bytes, .. }) = self.things.get_mut(path) {
            let end = offset + piece.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[offset..end].copy_from_slice(piece);
        }
    }

    async fn write(
        &mut self,
        host: &Host,
        stream: &mut Stream,
        max_bytes: usize,
    ) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, Self::is_file) else { return Ok(()) };
        let size = match &self.things[&path] {
            Thing::File { bytes, .. } => bytes.len(),
            _ => 0,
        };
        let (offset, count) = (below(stream, size + 9000), below(stream, max_bytes / 4));
        let bytes = noise(stream, count);
        self.touch(&path);
        let mut at = offset;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let count = rest.len().min(4096 - at % 4096);
            host.write(&path, at as u64, &rest[..count]).await?;
            self.put(&path, at, &rest[..count]);
            (at, rest) = (at + count, &rest[count..]);
        }
        Ok(())
    }

    async fn truncate(
        &mut self,
        host: &Host,
        stream: &mut Stream,
        max_bytes: usize,
    ) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, Self::is_file) else { return Ok(()) };
        self.touch(&path);
        let size = below(stream, max_bytes);
        host.truncate(&path, size as u64).await?;
        if let Some(Thing::File { bytes, .. }) = self.things.get_mut(&path) {
            bytes.resize(size, 0);
        }
        Ok(())
    }

    async fn remove(&mut self, host: &Host, stream: &mut Stream) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, |_| true) else { return Ok(()) };
        let prefix = format!("{path}/");
        let is_full = self.things.keys().any(|other| other.starts_with(&prefix));
        self.touch(&path);
        match host.unlink(&path).await {
            Err(Errno::Enotempty) if is_full => Ok(()),
            done => {
                done?;
                self.things.remove(&path);
                Ok(())
            }
        }
    }

    async fn rename(&mut self, host: &Host, stream: &mut Stream) -> Result<(), Errno> {
        let Some(from) = self.pick(stream, Self::is_file) else { return Ok(()) };
        let over = if below(stream, 2) == 0 { self.pick(stream, Self::is_file) } else { None };
        let to = match over {
            Some(to) => to,
            None => self.new_path(stream),
        };
        self.touch(&from);
        self.touch(&to);
        host.rename(&from, &to).await?;
        let thing = self.things.remove(&from).expect("it is there");
        self.things.insert(to, thing);
        Ok(())
    }

    async fn make_other(&mut self, host: &Host, stream: &mut Stream) -> Result<(), Errno> {
        let path = self.new_path(stream);
        self.touch(&path);
        if below(stream, 2) == 0 {
            host.make(&path, NewInode::Directory(0o755)).await?;
            self.things.insert(path, Thing::Directory);
        } else {
            let target = noise(stream, 40);
            host.make(&path, NewInode::Symlink(&target)).await?;
            self.things.insert(path, Thing::Link(target));
        }
        Ok(())
    }

    async fn change(&mut self, host: &Host, stream: &mut Stream) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, Self::is_file) else { return Ok(()) };
        self.touch(&path);
        let to = below(stream, 0o1000) as u32;
        let changes = Changes { permissions: Some(to), ..Changes::default() };
        host.change(&path, &changes).await?;
        if let Some(Thing::File { permissions, .. }) = self.things.get_mut(&path) {
            *permissions = to;
        }
        Ok(())
    }

    async fn attribute(&mut self, host: &Host, stream: &mut Stream) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, Self::is_file) else { return Ok(()) };
        self.touch(&path);
        let name = format!("user.{}", below(stream, 4)).into_bytes();
        let removes = below(stream, 3) == 0;
        let count = below(stream, 100);
        let value = noise(stream, count);
        let new = (!removes).then_some(&value[..]);
        match host.set_attribute(&path, &name, new).await {
            Err(Errno::Enodata) if removes => return Ok(()),
            done => done?,
        }
        if let Some(Thing::File { attributes, .. }) = self.things.get_mut(&path) {
            if removes {
                attributes.remove(&name);
            } else {
                attributes.insert(name, value);
            }
        }
        Ok(())
    }

    async fn fsync(&mut self, host: &Host, stream: &mut Stream) -> Result<(), Errno> {
        let Some(path) = self.pick(stream, Self::is_file) else { return Ok(()) };
        host.fsync(&path).await?;
        // The way to it must be on the medium for good, too.
        let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
        let synced = &self.promise.synced;
        if parents.into_iter().all(|parent| synced.borrow().contains_key(parent)) {
            synced.borrow_mut().insert(path.clone(), self.things[&path].clone());
            self.promise.touched.borrow_mut().remove(&path);
        }
        Ok(())
    }

    pub(crate) async fn sync(&mut self, host: &Host) -> Result<(), Errno> {
        host.sync().await?;
        self.promise.synced.replace(self.things.clone());
        self.promise.touched.borrow_mut().clear();
        Ok(())
    }

    /// Compares everything.
    pub(crate) async fn compare(&self, host: &Host, label: &str) {
        let mut found = BTreeMap::new();
        let mut rest = vec![String::new()];
        while let Some(directory) = rest.pop() {
            for name in host.list(&directory).await.expect("it lists") {
                let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
                let thing = see(host, &path).await.expect("it is there");
                if thing == Thing::Directory {
                    rest.push(path.clone());
                }
                found.insert(path, thing);
            }
        }
        for (path, thing) in &self.things {
            let seen = found.get(path);
            assert!(seen == Some(thing), "{label}: {path}: {}", differ(seen, thing));
        }
        assert!(found.len() == self.things.len(), "{label}: more than there should be");
    }
}

impl Promise {
    /// Looks whether it was kept.
    pub(crate) async fn compare(&self, host: &Host, label: &str) {
        let (synced, touched) = (self.synced.borrow().clone(), self.touched.borrow().clone());
        for (path, thing) in &synced {
            let mut parts = path.match_indices('/').map(|(at, _)| &path[..at]);
            if touched.contains(path) || parts.any(|parent| touched.contains(parent)) {
                continue;
            }
            let seen = see(host, path).await;
            let seen = seen.as_ref().ok();
            assert!(seen == Some(thing), "{label}: {path}: {}", differ(seen, thing));
        }
    }
}

fn differ(seen: Option<&Thing>, wanted: &Thing) -> String {
    match (seen, wanted) {
        (
            Some(Thing::File { bytes, permissions, attributes }),
            Thing::File { bytes: other, .. },
        ) => {
            let at = bytes.iter().zip(other).position(|(one, two)| one != two);
            format!(
                "{} bytes instead of {}, first difference {at:?}, {permissions:o}, {} attributes",
                bytes.len(),
                other.len(),
                attributes.len()
            )
        }
        (seen, _) => format!("{seen:?}").chars().take(200).collect(),
    }
}

async fn see(host: &Host, path: &str) -> Result<Thing, Errno> {
    let inode = host.find(path).await?;
    let shown = host.fs.attributes(inode).await?;
    Ok(match shown.kind {
        fs_api::FileType::Directory => Thing::Directory,
        fs_api::FileType::Symlink => Thing::Link(host.fs.read_link(inode).await?),
        _ => {
            let mut attributes = BTreeMap::new();
            for name in host.fs.list_attributes(inode).await? {
                let value = host.fs.extended_attribute(inode, &name).await?;
                attributes.insert(name, value);
            }
            let bytes = host.read(path).await?;
            Thing::File { bytes, permissions: shown.permissions, attributes }
        }
    })
}
