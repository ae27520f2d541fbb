//! Random work on a volume and on a file system in memory at the same time.

use super::{CALLER, Found, tree};
use fat::Fat;
use fs_api::{Errno, FileSystem, FileType, NewInode, PAGE_BYTES};
use random::Stream;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vfs::{MemoryFileSystem, OpenOptions, Vfs};

const NAMES: [&str; 10] = [
    "a",
    "b.txt",
    "a name that is longer than one slot.jpeg",
    "Mixed.Case",
    "ünïcode ☃.txt",
    "UPPER.TXT",
    "longname~1",
    "many.dots.in.it",
    "x[1];y+z",
    ".hidden",
];

/// What must be there after a power cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promised {
    /// Names that are on the medium, and were not moved or removed since.
    names: BTreeSet<String>,
    /// What was written and not touched since.
    pub(crate) written: BTreeMap<String, Found>,
    /// What was written when the device was last flushed, and not touched since.
    pub(crate) flushed: BTreeMap<String, Found>,
}

fn is_at_or_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl Promised {
    /// A path may change; its name goes or comes, if `is_name`.
    fn touch(&mut self, path: &str, is_name: bool) {
        let path = format!("/{path}");
        self.written.retain(|known, _| !is_at_or_below(known, &path));
        self.flushed.retain(|known, _| !is_at_or_below(known, &path));
        if is_name {
            self.names.retain(|known| !is_at_or_below(known, &path));
        }
    }

    fn sync(&mut self, tree: BTreeMap<String, Found>) {
        self.names = tree.keys().cloned().collect();
        self.written = tree;
    }

    /// A file was synced, and all that was written before is durable.
    fn fsync(&mut self, path: &str, found: Option<&Found>) {
        let path = format!("/{path}");
        if let Some(found) = found.filter(|_| self.names.contains(&path)) {
            self.written.insert(path, found.clone());
        }
        self.flushed = self.written.clone();
    }
}

/// A volume under a kernel, and what it must look like.
pub(crate) struct Pair {
    pub(crate) ours: Vfs<Fat>,
    pub(crate) model: Vfs<MemoryFileSystem>,
    pub(crate) promised: Rc<RefCell<Promised>>,
}

fn content(stream: &mut Stream, length: usize) -> Vec<u8> {
    let tag = stream.next_u64() as u8;
    (0..length).map(|index| tag.wrapping_add((index / 7) as u8)).collect()
}

impl Pair {
    pub(crate) fn new(sim: &sim::Sim, ours: Vfs<Fat>) -> Self {
        let model = Vfs::new(sim, Rc::new(MemoryFileSystem::new(&CALLER)));
        Self { ours, model, promised: Rc::default() }
    }

    /// The same file system under a new mount.
    pub(crate) fn with(self, ours: Vfs<Fat>) -> Self {
        Self { ours, ..self }
    }

    /// Syncs both; what is there now is promised from here on.
    pub(crate) async fn sync(&self) {
        self.ours.sync().await.expect("it syncs");
        let tree = tree(&**self.model.file_system()).await;
        self.promised.borrow_mut().sync(tree);
    }

    fn touch(&self, path: &[u8], is_name: bool) {
        self.promised.borrow_mut().touch(&String::from_utf8_lossy(path), is_name);
    }

    /// A path of up to three names, of which all but the last are directories.
    async fn path(&self, stream: &mut Stream) -> String {
        let mut path = String::new();
        loop {
            path.push_str(NAMES[stream.below(NAMES.len() as u32) as usize]);
            let is_directory = self
                .model
                .stat(path.as_bytes())
                .await
                .is_ok_and(|shown| shown.kind == FileType::Directory);
            if !is_directory || stream.below(3) == 0 || path.matches('/').count() >= 2 {
                return path;
            }
            path.push('/');
        }
    }

    /// One call, on both.
    ///
    /// # Panics
    /// If the two answer differently.
    pub(crate) async fn step(&self, stream: &mut Stream, most_bytes: u32) {
        let path = self.path(stream).await;
        let path = path.as_bytes();
        let kind = stream.below(20);
        self.touch(path, kind > 9);
        let (ours, model) = match kind {
            0..=7 => self.write(stream, path, most_bytes).await,
            8 | 9 => {
                let size = u64::from(stream.below(most_bytes));
                (
                    self.ours.truncate(&CALLER, path, size).await,
                    self.model.truncate(&CALLER, path, size).await,
                )
            }
            10..=12 => {
                (self.ours.unlink(&CALLER, path).await, self.model.unlink(&CALLER, path).await)
            }
            13 | 14 => {
                let new = NewInode::Directory(0o755);
                (
                    self.ours.make(&CALLER, path, new).await.map(drop),
                    self.model.make(&CALLER, path, new).await.map(drop),
                )
            }
            15 => (
                self.ours.remove_directory(&CALLER, path).await,
                self.model.remove_directory(&CALLER, path).await,
            ),
            _ => {
                let to = self.path(stream).await;
                let to = to.as_bytes();
                self.touch(to, true);
                (
                    self.ours.rename(&CALLER, path, to).await,
                    self.model.rename(&CALLER, path, to).await,
                )
            }
        };
        assert_eq!(ours, model, "{}", String::from_utf8_lossy(path));
        self.ours.file_system().check_invariants();
    }

    async fn write(
        &self,
        stream: &mut Stream,
        path: &[u8],
        most_bytes: u32,
    ) -> (Result<(), Errno>, Result<(), Errno>) {
        let options = OpenOptions {
            create: Some(0o644),
            truncate: stream.below(5) == 0,
            append: stream.below(3) == 0,
            ..OpenOptions::default()
        };
        let offset = u64::from(stream.below(most_bytes / 2));
        let offset = if stream.below(2) == 0 { offset / 4096 * 4096 } else { offset };
        let length = stream.below(most_bytes / 2) as usize;
        let bytes = content(stream, length);
        let syncs = stream.below(4) == 0;
        let ours = write_file(&self.ours, path, options, offset, &bytes, syncs).await;
        let model = write_file(&self.model, path, options, offset, &bytes, syncs).await;
        if syncs && model.is_ok() {
            let path = String::from_utf8_lossy(path).into_owned();
            let tree = tree(&**self.model.file_system()).await;
            self.promised.borrow_mut().fsync(&path, tree.get(&format!("/{path}")));
        }
        (ours, model)
    }
}

pub(crate) async fn write_file<F: FileSystem + 'static>(
    vfs: &Vfs<F>,
    path: &[u8],
    options: OpenOptions,
    offset: u64,
    bytes: &[u8],
    syncs: bool,
) -> Result<(), Errno> {
    let file = vfs.open(&CALLER, path, options).await?;
    let written = vfs.write(&CALLER, &file, offset, bytes).await;
    let mut back = vec![0; bytes.len().min(3 * PAGE_BYTES)];
    if written.is_ok() && !options.append {
        let count = vfs.read(&file, offset, &mut back).await?;
        assert_eq!(&back[..count], &bytes[..count], "what was written is read");
    }
    if syncs {
        vfs.fsync(&CALLER, &file).await?;
    }
    vfs.close(&CALLER, file).await?;
    written
}
