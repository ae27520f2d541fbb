//! A file system that tells what it was asked, and whose answers are none of the contract's defaults.

use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectIo, DirectoryEntry, Errno, FileSystem,
    FileType, InodeNumber, Memory, NewInode, PAGE_BYTES, PageRun, RenameFlags, SpaceUse, Time,
};
use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::Range;
use std::rc::Weak;
use vfs::MemoryFileSystem;

const CALLER: Caller = Caller { uid: 1, gid: 2, now: Time { seconds: 3, nanoseconds: 4 } };

/// One in memory, watched.
pub(crate) struct Probe {
    inner: MemoryFileSystem,
    calls: RefCell<Vec<(&'static str, String)>>,
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self { inner: MemoryFileSystem::new(&CALLER), calls: RefCell::default() }
    }

    /// The file system, whose calls are not noted.
    pub(crate) fn quietly(&self) -> &MemoryFileSystem {
        &self.inner
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.calls.borrow().iter().map(|(name, _)| *name).collect()
    }

    pub(crate) fn calls(&self) -> Vec<(&'static str, String)> {
        self.calls.borrow().clone()
    }

    fn note(&self, name: &'static str, arguments: impl Debug) {
        self.calls.borrow_mut().push((name, format!("{arguments:?}")));
    }
}

#[deny(clippy::missing_trait_methods, reason = "it tells of every method")]
impl FileSystem for Probe {
    fn root(&self) -> InodeNumber {
        self.note("root", ());
        self.inner.root()
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        self.note("lookup", (directory, name));
        self.inner.lookup(directory, name).await
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        self.note("read_directory", directory);
        self.inner.read_directory(directory).await
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.note("attributes", inode);
        self.inner.attributes(inode).await
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        self.note("change", (caller, inode, to));
        self.inner.change(caller, inode, to).await
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        self.note("make", (caller, directory, name, new));
        self.inner.make(caller, directory, name, new).await
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.note("link", (caller, inode, directory, name));
        self.inner.link(caller, inode, directory, name).await
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.note("unlink", (caller, directory, name));
        self.inner.unlink(caller, directory, name).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.note("rename", (caller, from, to));
        self.inner.rename(caller, from, to).await
    }

    fn rename_flags(&self) -> RenameFlags {
        self.note("rename_flags", ());
        RenameFlags { has_call: true, exchanges: true, has_whiteout: false }
    }

    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        self.note("exchange", (caller, one, other));
        self.inner.exchange(caller, one, other).await
    }

    async fn rename_with_whiteout(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<InodeNumber, Errno> {
        self.note("rename_with_whiteout", (caller, from, to));
        self.inner.rename_with_whiteout(caller, from, to).await
    }

    async fn allocate(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        part: Range<u64>,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        self.note("allocate", (caller, inode, &part, keeps_size));
        self.inner.allocate(caller, inode, part, keeps_size).await
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        self.note("read_link", inode);
        self.inner.read_link(inode).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.note("read_page", (inode, page));
        self.inner.read_page(inode, page, into).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.note("write_page", (caller, inode, page, bytes[part.start], &part));
        self.inner.write_page(caller, inode, page, bytes, part).await
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        self.note("read_pages", (inode, first, into.len()));
        self.inner.read_pages(inode, first, into).await
    }

    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        self.note("write_pages", (caller, inode, run.first, run.pages.len(), run.bytes));
        self.inner.write_pages(caller, inode, run).await
    }

    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        self.note("kind", inode);
        self.inner.kind(inode).await
    }

    fn is_library(&self) -> bool {
        self.note("is_library", ());
        true
    }

    async fn read_bytes(
        &self,
        inode: InodeNumber,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        self.note("read_bytes", (inode, offset, into.len()));
        self.inner.read_bytes(inode, offset, into).await
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        self.note("data_pages", inode);
        Ok(Some(vec![3..4, 8..9]))
    }

    fn writes_page_of_cut(&self) -> bool {
        self.note("writes_page_of_cut", ());
        true
    }

    async fn begin_behind_end(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        offset: u64,
    ) -> Result<(), Errno> {
        self.note("begin_behind_end", (caller, inode, offset));
        Ok(())
    }

    fn pages_at_once(&self) -> u64 {
        self.note("pages_at_once", ());
        7
    }

    fn writes_back(&self) -> bool {
        self.note("writes_back", ());
        true
    }

    fn is_synchronous(&self) -> bool {
        self.note("is_synchronous", ());
        true
    }

    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        self.note("begin_write", (caller, inode, page, part, is_cached));
        Ok(is_cached)
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        self.note("end_write", (caller, inode, page, part));
        Err(Errno::Enospc)
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        self.note("dirty_inodes", ());
        vec![11, 12]
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.note("write_inode", inode);
        Err(Errno::Eio)
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        self.note("list_attributes", inode);
        self.inner.list_attributes(inode).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.note("extended_attribute", (inode, name));
        self.inner.extended_attribute(inode, name).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        self.note("set_extended_attribute", (caller, inode, name, value));
        self.inner.set_extended_attribute(caller, inode, name, value).await
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.note("forget", inode);
        self.inner.forget(inode).await
    }

    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.note("flush", (caller, inode));
        Err(Errno::Enospc)
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.note("fsync", (caller, inode));
        Err(Errno::Eio)
    }

    async fn sync_data(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.note("sync_data", (caller, inode));
        Err(Errno::Enospc)
    }

    fn direct_io(&self) -> DirectIo {
        self.note("direct_io", ());
        DirectIo::Reads
    }

    async fn write_out(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.note("write_out", inode);
        Err(Errno::Eio)
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.note("sync", ());
        Err(Errno::Eio)
    }

    async fn shrink(&self) -> u64 {
        self.note("shrink", ());
        5
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.note("unmount", ());
        Err(Errno::Eio)
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        self.note("use_cached_pages", pages.upgrade().is_some());
    }

    fn reads_ahead(&self) -> bool {
        self.note("reads_ahead", ());
        false
    }

    fn space(&self) -> SpaceUse {
        self.note("space", ());
        self.inner.space()
    }

    fn memory(&self) -> Memory {
        self.note("memory", ());
        Memory { kinds: vec![("probe", 1, 2)] }
    }
}

/// Nothing is cached.
struct NoPages;

impl CachedPages for NoPages {
    fn get(&self, _: InodeNumber, _: u64, _: &mut [u8; PAGE_BYTES]) -> bool {
        false
    }

    fn shared(&self, _: InodeNumber, _: u64) -> Option<std::rc::Rc<fs_api::SharedPage>> {
        None
    }

    fn put(&self, _: InodeNumber, _: u64, _: &[u8; PAGE_BYTES]) {}

    fn flusher(&self) -> process::Process {
        process::current()
    }
}

// One function: a list of calls, each of which stands alone.
/// Calls every method once at least; what they answered, in order.
pub(crate) async fn exercise<F: FileSystem + ?Sized>(file_system: &F) -> Vec<String> {
    let mut answers = Vec::new();
    let mut told = |answer: &dyn Debug| answers.push(format!("{answer:?}"));
    let root = file_system.root();
    told(&root);
    told(&file_system.writes_back());
    told(&file_system.is_synchronous());
    told(&file_system.reads_ahead());
    told(&file_system.pages_at_once());
    told(&file_system.is_library());
    told(&file_system.writes_page_of_cut());
    let pages: std::rc::Rc<dyn CachedPages> = std::rc::Rc::new(NoPages);
    file_system.use_cached_pages(std::rc::Rc::downgrade(&pages));
    let made = file_system.make(&CALLER, root, b"f", NewInode::Regular(0o640)).await;
    told(&made);
    let file = made.expect("made");
    let link = file_system.make(&CALLER, root, b"l", NewInode::Symlink(b"f")).await.expect("made");
    told(&link);
    told(&file_system.lookup(root, b"f").await);
    told(&file_system.lookup(root, b"nothing").await);
    told(&file_system.read_link(link).await);
    let page = [7; PAGE_BYTES];
    told(&file_system.begin_write(&CALLER, file, 0, 0..PAGE_BYTES, true).await);
    told(&file_system.begin_write(&CALLER, file, 0, 0..9, false).await);
    told(&file_system.write_page(&CALLER, file, 0, &page, 3..100).await);
    let pages = [[8; PAGE_BYTES], [9; PAGE_BYTES]];
    let run = PageRun {
        first: 1,
        pages: &pages,
        bytes: PAGE_BYTES + 5,
        is_waited_for: true,
        is_direct: false,
    };
    told(&file_system.write_pages(&CALLER, file, run).await);
    let mut read = [[0; PAGE_BYTES]; 3];
    told(&file_system.read_pages(file, 0, &mut read).await);
    told(&read.map(|page| (page[2], page[3], page[4], page[4095])));
    let mut one = [0; PAGE_BYTES];
    told(&file_system.read_page(file, 2, &mut one).await);
    told(&(one[4], one[5]));
    told(&file_system.kind(file).await);
    told(&file_system.data_pages(file).await);
    let mut some = [0; 7];
    told(&file_system.read_bytes(file, 2, &mut some).await);
    told(&some);
    told(&file_system.begin_behind_end(&CALLER, file, 20_000).await);
    told(&file_system.end_write(&CALLER, file, 0, 0..9).await);
    told(&file_system.dirty_inodes());
    told(&file_system.write_inode(file).await);
    let to = Changes { permissions: Some(0o600), size_bytes: Some(5000), ..Changes::default() };
    told(&file_system.change(&CALLER, file, &to).await);
    told(&file_system.attributes(file).await);
    told(&file_system.link(&CALLER, file, root, b"g").await);
    told(&file_system.rename(&CALLER, (root, b"g"), (root, b"h")).await);
    told(&file_system.rename_flags());
    told(&file_system.exchange(&CALLER, (root, b"h"), (root, b"l")).await);
    told(&file_system.exchange(&CALLER, (root, b"h"), (root, b"l")).await);
    told(&file_system.rename_with_whiteout(&CALLER, (root, b"l"), (root, b"m")).await);
    told(&file_system.allocate(&CALLER, file, 3..9000, false).await);
    told(&file_system.read_directory(root).await);
    told(&file_system.set_extended_attribute(&CALLER, file, b"user.a", Some(b"1")).await);
    told(&file_system.list_attributes(file).await);
    told(&file_system.extended_attribute(file, b"user.a").await);
    told(&file_system.unlink(&CALLER, root, b"h").await);
    told(&file_system.flush(&CALLER, file).await);
    told(&file_system.fsync(&CALLER, file).await);
    told(&file_system.sync_data(&CALLER, file).await);
    told(&file_system.direct_io());
    told(&file_system.write_out(file).await);
    told(&file_system.forget(file).await);
    told(&file_system.sync().await);
    told(&file_system.shrink().await);
    told(&file_system.space());
    told(&file_system.memory());
    told(&file_system.unmount().await);
    answers
}
