//! Paths over a mounted file system, by way of a kernel's page cache.

use super::Bench;
use board::Board;
use fs_api::{
    Attributes, Caller, Changes, Errno, FileSystem, FileType, InodeNumber, NewInode, Time,
};
use std::cell::Cell;
use std::rc::Rc;
use ubifs::Ubifs;
use vfs::{OpenFile, OpenOptions, Vfs};

/// A mount under calls by path. Nothing is written by time.
pub(crate) struct Host {
    pub(crate) fs: Rc<Ubifs>,
    pub(crate) vfs: Rc<Vfs<Ubifs>>,
    /// Seconds since 1970.
    pub(crate) now: Cell<i64>,
}

impl Host {
    pub(crate) fn new(bench: &Bench, fs: Ubifs) -> Rc<Self> {
        let mut board = Board::without_costs();
        board.writeback.dirty_writeback_centisecs = 0;
        let fs = Rc::new(fs);
        let vfs = Rc::new(Vfs::cached(&bench.sim, &bench.cpus, &Rc::new(board), fs.clone()));
        Rc::new(Self { fs, vfs, now: Cell::new(1_700_000_000) })
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller { uid: 0, gid: 0, now: Time::from_seconds(self.now.get()) }
    }

    pub(crate) async fn find(&self, path: &str) -> Result<InodeNumber, Errno> {
        self.vfs.resolve(path.as_bytes()).await
    }

    pub(crate) async fn attributes(&self, path: &str) -> Result<Attributes, Errno> {
        self.vfs.stat(path.as_bytes()).await
    }

    pub(crate) async fn make(&self, path: &str, new: NewInode<'_>) -> Result<InodeNumber, Errno> {
        self.vfs.make(&self.caller(), path.as_bytes(), new).await
    }

    async fn with_file<T>(
        &self,
        path: &str,
        work: impl AsyncFnOnce(&OpenFile) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let options = OpenOptions { create: Some(0o644), ..OpenOptions::default() };
        let file = self.vfs.open(&self.caller(), path.as_bytes(), options).await?;
        let done = work(&file).await;
        self.vfs.close(&self.caller(), file).await?;
        done
    }

    /// `open` with `O_CREAT`: the file is made if need be.
    pub(crate) async fn open(&self, path: &str) -> Result<(), Errno> {
        self.with_file(path, async |_| Ok(())).await
    }

    pub(crate) async fn write(&self, path: &str, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.with_file(path, async |file| self.vfs.write(&self.caller(), file, offset, bytes).await)
            .await
    }

    /// Reads a whole file.
    pub(crate) async fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; self.attributes(path).await?.size_bytes as usize];
        self.with_file(path, async |file| self.vfs.read(file, 0, &mut bytes).await).await?;
        Ok(bytes)
    }

    pub(crate) async fn fsync(&self, path: &str) -> Result<(), Errno> {
        self.with_file(path, async |file| self.vfs.fsync(&self.caller(), file).await).await
    }

    pub(crate) async fn sync(&self) -> Result<(), Errno> {
        self.vfs.sync().await
    }

    pub(crate) async fn unmount(&self) -> Result<(), Errno> {
        self.vfs.unmount().await
    }

    pub(crate) async fn truncate(&self, path: &str, size: u64) -> Result<(), Errno> {
        self.vfs.truncate(&self.caller(), path.as_bytes(), size).await
    }

    pub(crate) async fn change(&self, path: &str, to: &Changes) -> Result<(), Errno> {
        self.vfs.change(&self.caller(), path.as_bytes(), to).await
    }

    pub(crate) async fn set_attribute(
        &self,
        path: &str,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.vfs.set_extended_attribute(&self.caller(), path.as_bytes(), name, value).await
    }

    pub(crate) async fn drop_caches(&self) {
        self.vfs.drop_caches().await.expect("dropped");
    }

    pub(crate) async fn unlink(&self, path: &str) -> Result<(), Errno> {
        let path = path.as_bytes();
        if self.vfs.stat(path).await?.kind == FileType::Directory {
            self.vfs.remove_directory(&self.caller(), path).await
        } else {
            self.vfs.unlink(&self.caller(), path).await
        }
    }

    pub(crate) async fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        self.vfs.rename(&self.caller(), from.as_bytes(), to.as_bytes()).await
    }

    /// Names of a directory's entries.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<String>, Errno> {
        let entries = self.fs.read_directory(self.find(path).await?).await?;
        let text = |name| String::from_utf8(name).expect("text");
        Ok(entries.into_iter().map(|entry| text(entry.name)).collect())
    }
}
