//! The model: a file system in memory, and what of it can be compared.

use crate::promise::Promise;
use fs_api::{
    Attributes, Caller, Changes, Errno, FileSystem, FileType, InodeNumber, NewInode, PAGE_BYTES,
    Time,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use vfs::{Damage, Manifest, ManifestRow, MemoryFileSystem, ReadLimits, tree};

/// Who makes all calls; times are not compared.
pub const CALLER: Caller = Caller { uid: 0, gid: 0, now: Time { seconds: 0, nanoseconds: 0 } };

/// What a file system must look like, over all its mounts. A clone is the same model.
#[derive(Clone)]
pub struct Model {
    pub(crate) tree: Rc<MemoryFileSystem>,
    /// Paths of what a file system keeps for itself since it was made (`lost+found`, `.nilfs`).
    own: Rc<Vec<String>>,
    has_owners_and_links: bool,
    pub(crate) may_be_full: bool,
    /// Calls that failed, by the name of the error.
    errors: Rc<RefCell<BTreeMap<String, u32>>>,
    /// Shared, because the work that changes it ends in the middle of a call when the power is cut.
    promise: Rc<RefCell<Promise>>,
}

impl Model {
    /// Beside a file system in which nothing was done yet.
    ///
    /// # Panics
    /// If the file system cannot be listed.
    pub async fn new(made: &impl FileSystem, has_owners_and_links: bool) -> Self {
        let limits = ReadLimits { has_hashes: false, file_bytes_max: u64::MAX };
        let (manifest, damage) = Manifest::fingerprinted(made, &limits).await;
        assert_eq!(damage, [], "a new file system can be listed");
        let own = manifest.rows.into_iter().map(|row| row.path).collect();
        Self {
            tree: Rc::new(MemoryFileSystem::new(&CALLER)),
            own: Rc::new(own),
            has_owners_and_links,
            may_be_full: false,
            errors: Rc::default(),
            promise: Rc::default(),
        }
    }

    /// The same for a medium without room for all calls: one that ends with ENOSPC leaves names as they were,
    /// and of a file that it was to write what the file system shows.
    #[must_use]
    pub fn that_may_be_full(self) -> Self {
        Self { may_be_full: true, ..self }
    }

    /// A model of its own with the same tree and the same promise.
    ///
    /// # Panics
    /// Never: a tree in memory can be copied.
    pub async fn fork(&self) -> Self {
        let tree = self.copied(&*self.tree).await.expect("memory is whole");
        let promise = Rc::new(RefCell::new(self.promise.borrow().clone()));
        Self { tree: Rc::new(tree), promise, ..self.clone() }
    }

    /// The model of what a file system shows now: after a power cut that is one of many things.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn of_what_is_there(&self, found: &impl FileSystem) -> Result<Self, Errno> {
        Ok(Self { tree: Rc::new(self.copied(found).await?), ..self.clone() })
    }

    /// What a power cut must leave, now and later.
    pub fn promise(&self) -> Rc<RefCell<Promise>> {
        self.promise.clone()
    }

    /// All that is there now is on the medium: it is promised from here on.
    pub async fn note_synced(&self) {
        let rows = self.rows(&*self.tree).await.expect("memory is whole");
        self.promise.borrow_mut().sync(rows);
    }

    pub(crate) fn count(&self, done: Result<(), Errno>) {
        if let Err(errno) = done {
            *self.errors.borrow_mut().entry(format!("{errno:?}")).or_default() += 1;
        }
    }

    /// Calls that failed, by the name of the error.
    pub fn errors(&self) -> BTreeMap<String, u32> {
        self.errors.borrow().clone()
    }

    /// All that a file system shows is the same.
    ///
    /// # Errors
    /// What differs.
    pub async fn compare(&self, found: &impl FileSystem) -> Result<(), String> {
        let (found, known) = (self.rows(found).await?, self.rows(&*self.tree).await?);
        match found.iter().zip(&known).find(|(found, known)| found != known) {
            Some((found, known)) => Err(format!("{found:?}, and the model has {known:?}")),
            None if found.len() != known.len() => {
                Err(format!("{} names, and the model has {}", found.len(), known.len()))
            }
            None => Ok(()),
        }
    }

    /// All names but the root and those that a file system keeps for itself, sorted by path. A name that a power
    /// cut left twice in its directory is there twice, which a tree in memory cannot hold.
    ///
    /// # Errors
    /// What cannot be listed.
    pub async fn rows(&self, of: &impl FileSystem) -> Result<Vec<ManifestRow>, String> {
        let (rows, damage) = self.readable_rows(of).await;
        match damage.first() {
            Some(damage) => Err(format!("it cannot be listed: {damage:?}")),
            None => Ok(rows),
        }
    }

    /// The same of what can be read, and what cannot.
    pub(crate) async fn readable_rows(
        &self,
        of: &impl FileSystem,
    ) -> (Vec<ManifestRow>, Vec<Damage>) {
        let limits = ReadLimits { has_hashes: true, file_bytes_max: u64::MAX };
        let (manifest, damage) = Manifest::fingerprinted(of, &limits).await;
        let rows = manifest.rows.into_iter();
        let rows = rows.filter(|row| row.path != "." && !self.own.contains(&row.path));
        (rows.map(|row| self.seen(row)).collect(), damage)
    }

    /// What every file system keeps of a row. Times are compared by tests of each.
    fn seen(&self, row: ManifestRow) -> ManifestRow {
        // A device has the size of what the inode keeps of it, or none.
        let size_bytes = if matches!(row.kind, 'f' | 'l') { row.size_bytes } else { 0 };
        let row = ManifestRow { modified: 0, size_bytes, ..row };
        if self.has_owners_and_links {
            // Directories count their directories or not, as each file system does.
            let links = if row.kind == 'd' { 0 } else { row.links };
            return ManifestRow { links, ..row };
        }
        ManifestRow { permissions: 0, links: 0, uid: 0, gid: 0, ..row }
    }

    /// A tree in memory with all that a file system holds, but what it keeps for itself.
    async fn copied(&self, from: &impl FileSystem) -> Result<MemoryFileSystem, Errno> {
        let to = MemoryFileSystem::new(&CALLER);
        let mut numbers = BTreeMap::from([(from.root(), to.root())]);
        // Sorted by path, so that a directory comes before what it holds.
        for node in tree::walk(from).await? {
            let path = String::from_utf8_lossy(&node.path).into_owned();
            if path.is_empty() || self.own.contains(&path) {
                continue;
            }
            let (directory, name) = path.rsplit_once('/').unwrap_or(("", &path));
            let directory = resolve(&to, directory).await?;
            if let Some(known) = numbers.get(&node.inode) {
                to.link(&CALLER, *known, directory, name.as_bytes()).await?;
                continue;
            }
            let place = (directory, name.as_bytes());
            let made = copy_inode(from, (node.inode, &node.attributes), &to, place).await?;
            numbers.insert(node.inode, made);
        }
        Ok(to)
    }
}

/// The inode of a path without links.
async fn resolve(fs: &impl FileSystem, path: &str) -> Result<InodeNumber, Errno> {
    let mut inode = fs.root();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        inode = fs.lookup(inode, name.as_bytes()).await?;
    }
    Ok(inode)
}

async fn copy_inode(
    from: &impl FileSystem,
    (inode, shown): (InodeNumber, &Attributes),
    to: &MemoryFileSystem,
    (directory, name): (InodeNumber, &[u8]),
) -> Result<InodeNumber, Errno> {
    let target;
    let new = match shown.kind {
        FileType::Regular => NewInode::Regular(shown.permissions),
        FileType::Directory => NewInode::Directory(shown.permissions),
        FileType::Symlink => {
            target = from.read_link(inode).await?;
            NewInode::Symlink(&target)
        }
        kind => NewInode::Special(kind.mode_bits() | shown.permissions, shown.device),
    };
    let owner = Caller { uid: shown.uid, gid: shown.gid, ..CALLER };
    let made = to.make(&owner, directory, name, new).await?;
    // By pages and not by calls: the file system may be one that nothing is mounted over.
    if shown.kind == FileType::Regular {
        let mut page = [0; PAGE_BYTES];
        for number in 0..shown.size_bytes.div_ceil(PAGE_BYTES as u64) {
            from.read_page(inode, number, &mut page).await?;
            to.write_page(&CALLER, made, number, &page, 0..PAGE_BYTES).await?;
        }
        // The last page was written whole.
        let to_size = Changes { size_bytes: Some(shown.size_bytes), ..Changes::default() };
        to.change(&CALLER, made, &to_size).await?;
    }
    // Some file systems have no extended attributes at all.
    let Ok(names) = from.list_attributes(inode).await else { return Ok(made) };
    for name in names {
        let value = from.extended_attribute(inode, &name).await?;
        to.set_extended_attribute(&CALLER, made, &name, Some(&value)).await?;
    }
    Ok(made)
}
