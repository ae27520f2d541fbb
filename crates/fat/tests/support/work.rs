//! Random work on a volume and on a file system in memory at the same time.

use super::CALLER;
use fat::Fat;
use posix::{Errno, FileSystem, FileType, NewInode, PAGE_BYTES};
use random::Stream;
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

/// A volume under a kernel, and what it must look like.
pub(crate) struct Pair {
    pub(crate) ours: Vfs<Fat>,
    pub(crate) model: Vfs<MemoryFileSystem>,
}

fn content(stream: &mut Stream, length: usize) -> Vec<u8> {
    let tag = stream.next_u64() as u8;
    (0..length).map(|index| tag.wrapping_add((index / 7) as u8)).collect()
}

impl Pair {
    pub(crate) fn new(sim: &sim::Sim, ours: Vfs<Fat>) -> Self {
        Self { ours, model: Vfs::new(sim, Rc::new(MemoryFileSystem::new(&CALLER))) }
    }

    /// The same file system under a new mount.
    pub(crate) fn with(self, ours: Vfs<Fat>) -> Self {
        Self { ours, ..self }
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
        let (ours, model) = match stream.below(20) {
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
                (
                    self.ours.rename(&CALLER, path, to).await,
                    self.model.rename(&CALLER, path, to).await,
                )
            }
        };
        assert_eq!(ours, model, "{}", String::from_utf8_lossy(path));
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
