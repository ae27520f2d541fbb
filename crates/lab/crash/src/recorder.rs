//! A file system that is watched: every call that changes something is done on a model too, and the
//! states that a cut may leave are noted.

use crate::content::Content;
use crate::reference::Sabotage;
use crate::shadow_model::ShadowModel;
use crate::tree::{Row, Tree};
use fs_api::{
    Attributes, CachedPages, Caller, Changes, DirectIo, DirectoryEntry, Errno, FileSystem,
    FileType, InodeNumber, Memory, NewInode, PAGE_BYTES, PageRun, RenameFlags, SpaceUse,
};
use mount::guarantee::{DOUBLED_NAME, Durable, RENAME_OVER_LINKED, REVIVED_TARGET};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// A watched file system.
///
/// Calls are noted as they return; what one that the cut interrupts would have led to is noted
/// when the run without a cut gets there, so a run is watched once for all cuts.
pub struct Recorder<F> {
    real: Rc<F>,
    now: Box<dyn Fn() -> u64>,
    flushes: Flushes,
    shadow: Rc<ShadowModel>,
    profile: &'static str,
    sabotage: Sabotage,
    /// Pages that the layer above has changed and not handed over yet.
    unwritten: RefCell<BTreeSet<(InodeNumber, u64)>>,
}

/// The flushes of the device under a file system; of raw NAND there are none to wait for.
#[derive(Default)]
struct Flushes {
    count: Option<Box<dyn Fn() -> u64>>,
    /// Those that the history knows of.
    seen: Cell<u64>,
}

impl Flushes {
    /// True if what was synced so far is safe: the device was flushed since, or has no cache.
    fn is_flushed(&self) -> bool {
        self.count.as_ref().is_none_or(|count| {
            let count = count();
            self.seen.replace(count) != count
        })
    }
}

impl<F: FileSystem> Recorder<F> {
    /// Watches a file system whose tree is that of the shadow model.
    ///
    /// `now` tells how many operations have changed the medium; `profile` names the kernel or library
    /// whose habits the file system has.
    pub fn new(
        real: Rc<F>,
        now: impl Fn() -> u64 + 'static,
        shadow: Rc<ShadowModel>,
        profile: &'static str,
    ) -> Self {
        let (now, unwritten) = (Box::new(now), RefCell::default());
        // Numbers hold for a mount: FAT counts its inodes anew, and another one has a number that is known. The
        // root is never looked up; all others are, before anything is done with them.
        let root = shadow.model.root();
        shadow.numbers.borrow_mut().retain(|_, number| *number == root);
        let flushes = Flushes::default();
        Self { real, now, flushes, shadow, profile, sabotage: Sabotage::None, unwritten }
    }

    /// Watches the device under the file system too: `count` tells how often it was flushed.
    pub(crate) fn watching_flushes(mut self, count: Option<Box<dyn Fn() -> u64>>) -> Self {
        self.flushes = Flushes { count, seen: Cell::new(0) };
        self.flushes.is_flushed();
        self
    }

    /// Looks whether the device was flushed: then what was synced before is safe.
    fn look_for_flush(&self) {
        // A run that forgets its syncs makes no flush either, and notes that it did.
        let is_forgotten =
            matches!(self.sabotage, Sabotage::ForgetSyncs | Sabotage::ForgetFsyncs(_));
        if self.flushes.is_flushed() || is_forgotten {
            self.shadow.history.borrow_mut().device_flushed(self.now());
        }
    }

    /// A test of the checker: calls of `fsync` and `sync` are noted that are not carried out.
    pub(crate) fn sabotaged(self, sabotage: Sabotage) -> Self {
        Self { sabotage, ..self }
    }

    fn now(&self) -> u64 {
        (self.now)()
    }

    fn returned(&self) {
        self.shadow.history.borrow_mut().returned(self.now());
    }

    /// A call returned that changed names of these inodes of the model, in these directories.
    fn named(&self, inodes: &[InodeNumber], directories: &[InodeNumber]) {
        let all = [inodes, directories].concat();
        self.shadow.history.borrow_mut().names_changed(&all);
        self.shadow.history.borrow_mut().directories_changed(directories);
        // After the names, since `returned` may make the newest state safe.
        self.returned();
    }

    /// Before a sync the layer above writes all dirty pages concerned: of those that it forgets no
    /// recovery could tell.
    fn must_be_handed_over(&self, is_meant: impl Fn(InodeNumber) -> bool) -> Result<(), Errno> {
        // A page that the layer above keeps at a sync is an error of that layer, and is shown as
        // one.
        let is_owed = self.unwritten.borrow().iter().any(|(inode, _)| is_meant(*inode));
        if is_owed { Err(Errno::Eio) } else { Ok(()) }
    }

    fn is_each_by_itself(&self) -> bool {
        let durable = self.shadow.history.borrow().guarantee().durable;
        matches!(durable, Durable::EachAtSync | Durable::AtFlush)
    }

    /// Remembers the number of a name that the model has. FAT numbers an inode anew once it has left memory
    /// (`iunique` in `fat_build_inode` of `fs/fat/inode.c`).
    async fn learn(&self, directory: InodeNumber, name: &[u8], inode: InodeNumber) {
        if self.shadow.numbers.borrow().contains_key(&inode) {
            return;
        }
        let parent = self.shadow.number(directory);
        if let Ok(number) = self.shadow.model.lookup(parent, name).await {
            self.shadow.numbers.borrow_mut().insert(inode, number);
        }
    }

    /// A name of a directory in the newest state.
    fn path_of(&self, directory: InodeNumber, name: &[u8]) -> Vec<u8> {
        let directory = self.shadow.number(directory);
        let history = self.shadow.history.borrow();
        let rows = &history.newest().tree.rows;
        let parent = rows.iter().find(|(_, row)| row.inode == directory);
        let mut path = parent.map(|(path, _)| path.clone()).unwrap_or_default();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// YAFFS2: what a file with other names shows while its first name is removed.
    fn note_doubled_name(&self, begun_at: u64, left: Tree, removed: Option<&Row>) {
        let mut history = self.shadow.history.borrow_mut();
        if history.guarantee().hazards.contains(&DOUBLED_NAME)
            // Only with other names left: the last name's removal deletes the object.
            && removed.is_some_and(|row| row.facts.links > 1)
        {
            history.push_hazard(begun_at, left, &DOUBLED_NAME);
        }
    }

    /// YAFFS2: what a rename leaves that replaces an object, if the mount after its cut is cut, too. `left` has what
    /// is replaced, and no longer the old name.
    fn note_revived_target(&self, left: &Tree) {
        let mut history = self.shadow.history.borrow_mut();
        if history.guarantee().hazards.contains(&REVIVED_TARGET) {
            // Both objects have the name then. The scan goes from young to old and puts each in front of its
            // directory (`yaffs_add_obj_to_dir`), so that the older one is found.
            history.push_behind_recoveries(left.clone(), &REVIVED_TARGET);
        }
    }

    /// What a file shows whose last name is being taken away, where it is made empty first.
    fn note_emptied(&self, begun_at: u64, path: &[u8], row: &Row) {
        let mut history = self.shadow.history.borrow_mut();
        let empties = history.guarantee().empties_before_unlink.contains(&self.profile);
        // `yaffs_del_file` resizes to nothing before it deletes; see the table of guarantees.
        if empties && row.facts.links == 1 && row.facts.kind == FileType::Regular {
            let mut tree = (*history.newest().tree).clone();
            let mut row = row.clone();
            row.facts.size_bytes = 0;
            row.content = Content::default();
            tree.rows.insert(path.to_vec(), Arc::new(row));
            history.push(begun_at, tree, None);
        }
    }

    /// Bytes of a page were handed over, in a call that began at `begun_at`.
    async fn note_page(
        &self,
        caller: &Caller,
        begun_at: u64,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        debug_assert!(part.start < part.end && part.end <= PAGE_BYTES, "{part:?} of a page");
        let number = self.shadow.number(inode);
        self.shadow.history.borrow_mut().file_dirtied(number);
        // Before the state is noted: the file's bytes of before are what is safe.
        let start = page * PAGE_BYTES as u64 + part.start as u64;
        // A gap is a state of its own, because a cut can leave the zeros without the bytes.
        self.note_gap(caller, begun_at, number, start).await?;
        self.shadow.model.write_page(caller, number, page, bytes, part).await?;
        self.shadow.note(begun_at, Some(number)).await?;
        self.shadow.history.borrow_mut().file_changed(number);
        Ok(())
    }

    /// A write begins behind the end of a file: the gap is there before the bytes are.
    async fn note_gap(
        &self,
        caller: &Caller,
        begun_at: u64,
        number: InodeNumber,
        start: u64,
    ) -> Result<(), Errno> {
        if self.shadow.model.attributes(number).await?.size_bytes < start {
            let changes = Changes { size_bytes: Some(start), ..Changes::default() };
            self.shadow.model.change(caller, number, &changes).await?;
            self.shadow.note(begun_at, Some(number)).await?;
        }
        Ok(())
    }

    /// What a rename shows between its steps.
    fn note_half_a_rename(&self, begun_at: u64, from: &[u8], to: &[u8]) {
        let old = self.shadow.newest();
        let Some(moved) = old.rows.get(from).cloned() else { return };
        let replaced = old.rows.get(to).cloned();
        let moved_rows: Vec<(Vec<u8>, Arc<Row>)> = below(&old, from)
            .map(|(path, row)| ([to, &path[from.len()..]].concat(), row.clone()))
            .collect();
        // Both names at once, with one link more, as `jffs2_rename` leaves it between its two
        // steps.
        if self.shadow.history.borrow().guarantee().renames_in_two_steps {
            let mut both = old.clone();
            remove(&mut both, to, replaced.as_deref());
            both.rows.extend(moved_rows);
            if moved.facts.kind != FileType::Directory {
                set_links(&mut both, moved.inode, moved.facts.links + 1);
            }
            self.shadow.history.borrow_mut().push(begun_at, both, None);
            return;
        }
        // The name is moved by one header; only what it replaces has a second step.
        let mut gone = old;
        gone.rows.retain(|path, _| path != from && !is_below(path, from));
        if replaced.is_some() {
            self.note_revived_target(&gone);
        }
        gone.rows.extend(moved_rows);
        if let Some(replaced) = replaced.filter(|row| row.facts.links > 1) {
            self.note_doubled_name(begun_at, gone.clone(), Some(&*replaced));
            gone.rows.retain(|_, row| row.inode != replaced.inode);
            let mut history = self.shadow.history.borrow_mut();
            history.push_hazard(begun_at, gone, &RENAME_OVER_LINKED);
        }
    }
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|tail| tail.first() == Some(&b'/'))
}

/// Rows of a name and of all below it.
fn below<'a>(tree: &'a Tree, name: &'a [u8]) -> impl Iterator<Item = (&'a Vec<u8>, &'a Arc<Row>)> {
    tree.rows.iter().filter(move |(path, _)| path.as_slice() == name || is_below(path, name))
}

/// Takes a name away, and a link from its other names.
fn remove(tree: &mut Tree, name: &[u8], row: Option<&Row>) {
    if let Some(row) = row {
        tree.rows.remove(name);
        set_links(tree, row.inode, row.facts.links.saturating_sub(1));
    }
}

fn set_links(tree: &mut Tree, inode: InodeNumber, links: u32) {
    for row in tree.rows.values_mut().filter(|row| row.inode == inode) {
        Arc::make_mut(row).facts.links = links;
    }
}

// A method with a default that is not forwarded would answer for the real file system, in silence: calls
// under `-o sync` were once noted as if it were not there.
#[deny(clippy::missing_trait_methods, reason = "a wrapper answers as what it wraps")]
impl<F: FileSystem> FileSystem for Recorder<F> {
    fn root(&self) -> InodeNumber {
        self.real.root()
    }

    async fn lookup(&self, directory: InodeNumber, name: &[u8]) -> Result<InodeNumber, Errno> {
        let inode = self.real.lookup(directory, name).await?;
        self.learn(directory, name, inode).await;
        Ok(inode)
    }

    async fn read_directory(&self, directory: InodeNumber) -> Result<Vec<DirectoryEntry>, Errno> {
        let entries = self.real.read_directory(directory).await?;
        for entry in &entries {
            self.learn(directory, &entry.name, entry.inode).await;
        }
        Ok(entries)
    }

    async fn attributes(&self, inode: InodeNumber) -> Result<Attributes, Errno> {
        self.real.attributes(inode).await
    }

    async fn change(&self, caller: &Caller, inode: InodeNumber, to: &Changes) -> Result<(), Errno> {
        let begun_at = self.now();
        // The real call first: a call that fails must not be noted.
        self.real.change(caller, inode, to).await?;
        if let Some(size_bytes) = to.size_bytes {
            // Pages behind the new end are dropped by the layer above and are owed no more.
            let end = size_bytes.div_ceil(PAGE_BYTES as u64);
            self.unwritten.borrow_mut().retain(|(of, page)| *of != inode || *page < end);
        }
        let number = self.shadow.number(inode);
        let old_bytes = self.shadow.model.attributes(number).await?.size_bytes;
        let grows = to.size_bytes.is_some_and(|bytes| bytes > old_bytes);
        if grows || self.is_each_by_itself() {
            // Zeros are written as bytes are.
            self.shadow.history.borrow_mut().file_dirtied(number);
        }
        self.shadow.model.change(caller, number, to).await?;
        self.shadow.note(begun_at, to.size_bytes.map(|_| number)).await?;
        // After the state is noted, because the record belongs to it.
        if to.size_bytes.is_some_and(|bytes| bytes != old_bytes) {
            self.shadow.history.borrow_mut().file_changed(number);
        } else {
            self.shadow.history.borrow_mut().attributes_changed(number);
        }
        // A shorter file is written out with its new header; a longer one changes in memory alone
        // (`yaffs_resize_file`).
        if to.size_bytes.is_some_and(|bytes| bytes < old_bytes) {
            self.shadow.history.borrow_mut().flushed(self.now(), number);
        } else {
            self.returned();
        }
        Ok(())
    }

    async fn make(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<InodeNumber, Errno> {
        let begun_at = self.now();
        let made = self.real.make(caller, directory, name, new).await?;
        let parent = self.shadow.number(directory);
        let number = self.shadow.model.make(caller, parent, name, new).await?;
        // Numbers of the two differ, so each inode is remembered by both.
        self.shadow.numbers.borrow_mut().insert(made, number);
        // The inode's own record comes before its name: it changed before the name was there.
        self.shadow.history.borrow_mut().attributes_changed(number);
        self.shadow.note(begun_at, None).await?;
        // A new directory has its first block; a new file has none.
        self.named(&[], &[number, parent]);
        Ok(made)
    }

    async fn link(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        self.real.link(caller, inode, directory, name).await?;
        let (number, parent) = (self.shadow.number(inode), self.shadow.number(directory));
        self.shadow.model.link(caller, number, parent, name).await?;
        self.shadow.note(begun_at, None).await?;
        self.named(&[number], &[parent]);
        Ok(())
    }

    async fn unlink(
        &self,
        caller: &Caller,
        directory: InodeNumber,
        name: &[u8],
    ) -> Result<(), Errno> {
        // Taken before the call: the cut may come at any of its operations.
        let begun_at = self.now();
        self.real.unlink(caller, directory, name).await?;
        let path = self.path_of(directory, name);
        let mut left = self.shadow.newest();
        let removed = left.rows.remove(&path);
        // States in the order in which the medium shows them: emptied, doubled, gone.
        if let Some(row) = &removed {
            self.note_emptied(begun_at, &path, row);
        }
        self.note_doubled_name(begun_at, left, removed.as_deref());
        let parent = self.shadow.number(directory);
        self.shadow.model.unlink(caller, parent, name).await?;
        self.shadow.note(begun_at, None).await?;
        let removed = removed.map_or(parent, |row| row.inode);
        self.named(&[removed], &[parent]);
        Ok(())
    }

    async fn rename(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        self.real.rename(caller, from, to).await?;
        // Paths as they were before: the model still has both.
        let paths = [from, to].map(|(directory, name)| self.path_of(directory, name));
        self.note_half_a_rename(begun_at, &paths[0], &paths[1]);
        let [model_from, model_to] =
            [from, to].map(|(directory, name)| (self.shadow.number(directory), name));
        self.shadow.model.rename(caller, model_from, model_to).await?;
        self.shadow.note(begun_at, None).await?;
        let moved = self.shadow.newest().rows.get(&paths[1]).map_or(model_to.0, |row| row.inode);
        self.named(&[moved], &[model_from.0, model_to.0]);
        Ok(())
    }

    fn rename_flags(&self) -> RenameFlags {
        self.real.rename_flags()
    }

    async fn exchange(
        &self,
        caller: &Caller,
        one: (InodeNumber, &[u8]),
        other: (InodeNumber, &[u8]),
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        self.real.exchange(caller, one, other).await?;
        let [model_one, model_other] =
            [one, other].map(|(directory, name)| (self.shadow.number(directory), name));
        self.shadow.model.exchange(caller, model_one, model_other).await?;
        // Both names change with one group of nodes (`ubifs_jnl_xrename`): there is no state between.
        self.shadow.note(begun_at, None).await?;
        // UBIFS: a rename leaves its inode dirty, and its fsync writes it behind the names (`ubifs_rename`). An exchange
        // does not: its names are noted in the buffer as those of the directories alone (`ubifs_jnl_xrename`).
        self.named(&[], &[model_one.0, model_other.0]);
        Ok(())
    }

    async fn rename_with_whiteout(
        &self,
        caller: &Caller,
        from: (InodeNumber, &[u8]),
        to: (InodeNumber, &[u8]),
    ) -> Result<InodeNumber, Errno> {
        let begun_at = self.now();
        let made = self.real.rename_with_whiteout(caller, from, to).await?;
        let path = self.path_of(to.0, to.1);
        let [model_from, model_to] =
            [from, to].map(|(directory, name)| (self.shadow.number(directory), name));
        let model = &self.shadow.model;
        let whiteout = model.rename_with_whiteout(caller, model_from, model_to).await?;
        self.shadow.numbers.borrow_mut().insert(made, whiteout);
        self.shadow.history.borrow_mut().attributes_changed(whiteout);
        // The whiteout's nodes are of the same group as the names (`ubifs_jnl_rename`).
        self.shadow.note(begun_at, None).await?;
        let moved = self.shadow.newest().rows.get(&path).map_or(model_to.0, |row| row.inode);
        self.named(&[whiteout, moved], &[model_from.0, model_to.0]);
        Ok(made)
    }

    async fn allocate(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        part: Range<u64>,
        keeps_size: bool,
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        let end = part.end;
        self.real.allocate(caller, inode, part, keeps_size).await?;
        let number = self.shadow.number(inode);
        // What is set aside is no part of a state; a file that grows has zeros there.
        if !keeps_size && self.shadow.model.attributes(number).await?.size_bytes < end {
            self.shadow.history.borrow_mut().file_dirtied(number);
            let changes = Changes { size_bytes: Some(end), ..Changes::default() };
            self.shadow.model.change(caller, number, &changes).await?;
            self.shadow.note(begun_at, Some(number)).await?;
            self.shadow.history.borrow_mut().file_changed(number);
        }
        self.returned();
        Ok(())
    }

    async fn read_link(&self, inode: InodeNumber) -> Result<Vec<u8>, Errno> {
        self.real.read_link(inode).await
    }

    async fn read_page(
        &self,
        inode: InodeNumber,
        page: u64,
        into: &mut [u8; PAGE_BYTES],
    ) -> Result<(), Errno> {
        self.real.read_page(inode, page, into).await
    }

    async fn write_page(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        bytes: &[u8; PAGE_BYTES],
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        // Handed over, whether or not the call succeeds.
        self.unwritten.borrow_mut().remove(&(inode, page));
        self.real.write_page(caller, inode, page, bytes, part.clone()).await?;
        self.note_page(caller, begun_at, inode, page, bytes, part).await
    }

    async fn read_pages(
        &self,
        inode: InodeNumber,
        first: u64,
        into: &mut [[u8; PAGE_BYTES]],
    ) -> Result<(), Errno> {
        self.real.read_pages(inode, first, into).await
    }

    async fn write_pages(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        run: PageRun<'_>,
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        debug_assert!(run.bytes <= run.pages.len() * PAGE_BYTES, "{} bytes", run.bytes);
        let pages = run.first..run.first + run.pages.len() as u64;
        self.unwritten.borrow_mut().retain(|(of, page)| *of != inode || !pages.contains(page));
        self.real.write_pages(caller, inode, run).await?;
        // The pages may reach the medium one by one: each is a state of its own.
        let starts = (0..run.bytes).step_by(PAGE_BYTES);
        for ((page, bytes), start) in pages.zip(run.pages).zip(starts) {
            let part = 0..(run.bytes - start).min(PAGE_BYTES);
            self.note_page(caller, begun_at, inode, page, bytes, part).await?;
        }
        Ok(())
    }

    async fn begin_behind_end(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        offset: u64,
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        self.real.begin_behind_end(caller, inode, offset).await?;
        let number = self.shadow.number(inode);
        self.shadow.history.borrow_mut().file_dirtied(number);
        self.note_gap(caller, begun_at, number, offset).await?;
        self.shadow.history.borrow_mut().file_changed(number);
        Ok(())
    }

    async fn data_pages(&self, inode: InodeNumber) -> Result<Option<Vec<Range<u64>>>, Errno> {
        self.real.data_pages(inode).await
    }

    async fn kind(&self, inode: InodeNumber) -> Result<FileType, Errno> {
        self.real.kind(inode).await
    }

    fn is_library(&self) -> bool {
        self.real.is_library()
    }

    async fn read_bytes(
        &self,
        inode: InodeNumber,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Errno> {
        self.real.read_bytes(inode, offset, into).await
    }

    fn pages_at_once(&self) -> u64 {
        self.real.pages_at_once()
    }

    fn is_synchronous(&self) -> bool {
        self.real.is_synchronous()
    }

    fn writes_back(&self) -> bool {
        self.real.writes_back()
    }

    fn writes_page_of_cut(&self) -> bool {
        self.real.writes_page_of_cut()
    }

    async fn begin_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
        is_cached: bool,
    ) -> Result<bool, Errno> {
        self.real.begin_write(caller, inode, page, part, is_cached).await
    }

    async fn end_write(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        page: u64,
        part: Range<usize>,
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        self.real.end_write(caller, inode, page, part.clone()).await?;
        // The layer above owes the page from here until it hands it over.
        self.unwritten.borrow_mut().insert((inode, page));
        // The size may be written before the bytes are: until then there are zeros.
        let number = self.shadow.number(inode);
        let end = page * PAGE_BYTES as u64 + part.end as u64;
        self.shadow.history.borrow_mut().file_dirtied(number);
        if self.shadow.model.attributes(number).await?.size_bytes < end {
            let changes = Changes { size_bytes: Some(end), ..Changes::default() };
            self.shadow.model.change(caller, number, &changes).await?;
            self.shadow.note(begun_at, Some(number)).await?;
        }
        Ok(())
    }

    fn dirty_inodes(&self) -> Vec<InodeNumber> {
        self.real.dirty_inodes()
    }

    async fn write_inode(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.real.write_inode(inode).await
    }

    async fn list_attributes(&self, inode: InodeNumber) -> Result<Vec<Vec<u8>>, Errno> {
        self.real.list_attributes(inode).await
    }

    async fn extended_attribute(&self, inode: InodeNumber, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.real.extended_attribute(inode, name).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        inode: InodeNumber,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Errno> {
        let begun_at = self.now();
        self.real.set_extended_attribute(caller, inode, name, value).await?;
        let number = self.shadow.number(inode);
        let was_there = self.shadow.model.extended_attribute(number, name).await.is_ok();
        self.shadow.model.set_extended_attribute(caller, number, name, value).await?;
        self.shadow.note(begun_at, None).await?;
        self.named(&[number], &[]);
        // Only a new attribute writes the buffer; changing one does not.
        if !was_there && value.is_some() {
            self.shadow.history.borrow_mut().attribute_made(self.now());
        }
        Ok(())
    }

    async fn forget(&self, inode: InodeNumber) -> Result<(), Errno> {
        self.unwritten.borrow_mut().retain(|(of, _)| *of != inode);
        self.real.forget(inode).await?;
        self.shadow.model.forget(self.shadow.number(inode)).await
    }

    // Only where a call is durable when it returns does a flush make bytes safe
    // (`History::flushed`).
    async fn flush(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.real.flush(caller, inode).await?;
        self.shadow.history.borrow_mut().flushed(self.now(), self.shadow.number(inode));
        Ok(())
    }

    async fn fsync(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.must_be_handed_over(|of| of == inode)?;
        self.look_for_flush();
        let number = self.shadow.number(inode);
        self.shadow.history.borrow_mut().data_log_begins(self.now(), Some(number));
        // A sabotaged run notes what it does not do: the checker must find that.
        let is_forgotten = match self.sabotage {
            Sabotage::ForgetSyncs => true,
            Sabotage::ForgetFsyncs(whose) => whose.has(self.real.kind(inode).await?),
            _ => false,
        };
        if !is_forgotten {
            self.real.fsync(caller, inode).await?;
        }
        self.shadow.history.borrow_mut().fsynced_unflushed(self.now(), number);
        self.look_for_flush();
        Ok(())
    }

    // On raw NAND nothing is noted: the guarantees there speak of `fsync` and `sync` alone.
    async fn sync_data(&self, caller: &Caller, inode: InodeNumber) -> Result<(), Errno> {
        self.look_for_flush();
        let number = self.shadow.number(inode);
        self.shadow.history.borrow_mut().data_log_begins(self.now(), Some(number));
        if self.sabotage != Sabotage::ForgetSyncs {
            self.real.sync_data(caller, inode).await?;
        }
        self.shadow.history.borrow_mut().data_synced_unflushed(number);
        self.look_for_flush();
        Ok(())
    }

    fn direct_io(&self) -> DirectIo {
        self.real.direct_io()
    }

    async fn write_out(&self, inode: InodeNumber) -> Result<(), Errno> {
        let number = self.shadow.number(inode);
        self.shadow.history.borrow_mut().data_log_begins(self.now(), Some(number));
        self.real.write_out(inode).await
    }

    async fn sync(&self) -> Result<(), Errno> {
        self.must_be_handed_over(|_| true)?;
        self.look_for_flush();
        self.shadow.history.borrow_mut().data_log_begins(self.now(), None);
        if self.sabotage != Sabotage::ForgetSyncs {
            self.real.sync().await?;
        }
        self.shadow.history.borrow_mut().synced_unflushed(self.now());
        self.look_for_flush();
        Ok(())
    }

    async fn shrink(&self) -> u64 {
        self.real.shrink().await
    }

    async fn unmount(&self) -> Result<(), Errno> {
        self.must_be_handed_over(|_| true)?;
        self.look_for_flush();
        self.shadow.history.borrow_mut().data_log_begins(self.now(), None);
        self.real.unmount().await?;
        // The last user closes the device, which flushes `mtdblock` and no card.
        self.shadow.history.borrow_mut().synced_unflushed(self.now());
        self.look_for_flush();
        Ok(())
    }

    fn use_cached_pages(&self, pages: Weak<dyn CachedPages>) {
        self.real.use_cached_pages(pages);
    }

    fn reads_ahead(&self) -> bool {
        self.real.reads_ahead()
    }

    fn space(&self) -> SpaceUse {
        self.real.space()
    }

    fn memory(&self) -> Memory {
        self.real.memory()
    }
}
