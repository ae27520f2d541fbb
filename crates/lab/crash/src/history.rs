//! The states that a file system went through, and from when on each of them is safe.

use crate::tree::{Row, Tree};
use crate::unflushed::{DataLogs, Unflushed};
use fs_api::{FileType, InodeNumber};
use mount::guarantee::{Durable, Guarantee, Hazard};
use script::Place;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A state of the tree.
#[derive(Clone, Debug)]
pub struct State {
    /// What the file system shows.
    pub tree: Arc<Tree>,
    /// Operations that had changed the medium when the call began that leads to this state.
    pub begun_at: u64,
    /// The call is a write to this inode, of which a part may be on the medium.
    pub written: Option<InodeNumber>,
    /// The file that was written, if it has no name: it is open, and a torn page can give back its name.
    pub nameless: Option<Arc<Row>>,
    /// Where the line of the script stands.
    pub place: Place,
    /// The state is none that the call should lead to, but one the real code can be left in.
    pub hazard: Option<&'static Hazard>,
}

/// A call of the script, or a group of them on one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallMark {
    /// Where its line stands, and the passes of its blocks.
    pub place: Place,
    /// Operations that had changed the medium when it began.
    pub begun_at: u64,
    /// The same when it returned.
    pub returned_at: u64,
}

/// The calls around a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallsAround {
    /// The last one that had returned.
    pub returned: Option<Place>,
    /// Those that were under way or had not begun when the medium changed next, the first of them: the one that
    /// the cut hits, or comes before.
    pub next: Option<Place>,
}

/// From a moment on, a state is safe but for files whose bytes are not written yet.
#[derive(Clone, Debug)]
struct Mark {
    returned_at: u64,
    state: usize,
    dirty: Arc<Dirty>,
}

/// Files that were changed in memory only, with the newest state of them that is safe; where each is
/// safe by itself, all that were changed since everything was. Inodes are the model's.
pub type Dirty = BTreeMap<InodeNumber, usize>;

/// A state, and the rows that an inode has from it on.
type RowsSince = (usize, Vec<Arc<Row>>);

/// What may be found after a cut.
#[derive(Clone, Debug)]
pub struct Window {
    /// Numbers of states; the first of them is safe.
    pub states: RangeInclusive<usize>,
    /// Files of which less is safe.
    pub dirty: Arc<Dirty>,
    /// Operations that had changed the medium before the cut.
    pub operation: u64,
    /// The mount after the cut was cut, too.
    pub is_recovery_cut: bool,
}

/// The states of a run in their order. Moments are numbers of operations that changed the medium.
#[derive(Clone, Debug)]
pub struct History {
    guarantee: &'static Guarantee,
    states: Vec<State>,
    /// Rows of each inode, and the state from which on it has them, where they change. Judges ask for the
    /// rows of every inode at each cut, and all states were searched for each of them.
    rows: BTreeMap<InodeNumber, Vec<RowsSince>>,
    marks: Vec<Mark>,
    /// Of each inode, the newest state that its own records made: what its `fsync` makes safe.
    changed: BTreeMap<InodeNumber, usize>,
    dirty: Dirty,
    /// What waits for a flush of the device.
    unflushed: Unflushed,
    data_logs: DataLogs,
    /// What only cuts of recoveries leave, beside the number of the newest state before it.
    behind_recoveries: Vec<(usize, Arc<Tree>, &'static Hazard)>,
    /// Where the line under way stands.
    pub(crate) place: Place,
    calls: Vec<CallMark>,
}

impl History {
    /// A history that begins with `tree`, which is on the medium.
    ///
    /// Of each call a watcher tells first what it changes ([`History::file_dirtied`]), then the tree it
    /// leads to ([`History::push`]), then that it returned.
    pub fn new(guarantee: &'static Guarantee, tree: Tree) -> Self {
        let first = State {
            tree: Arc::new(tree),
            begun_at: 0,
            written: None,
            nameless: None,
            place: Place::default(),
            hazard: None,
        };
        let marks = vec![Mark { returned_at: 0, state: 0, dirty: Arc::default() }];
        let (changed, dirty) = (BTreeMap::new(), Dirty::new());
        let (states, rows) = (vec![first], BTreeMap::new());
        let mut history = Self {
            guarantee,
            states,
            rows,
            marks,
            changed,
            dirty,
            unflushed: Unflushed::default(),
            data_logs: DataLogs::default(),
            behind_recoveries: Vec::new(),
            place: Place::default(),
            calls: Vec::new(),
        };
        history.note_rows();
        history
    }

    /// Notes the rows of the newest state.
    fn note_rows(&mut self) {
        let state = self.newest_index();
        let mut now: BTreeMap<InodeNumber, Vec<Arc<Row>>> = BTreeMap::new();
        for row in self.newest().tree.rows.values() {
            now.entry(row.inode).or_default().push(row.clone());
        }
        // An inode without a name has no rows from here on.
        for inode in self.rows.keys() {
            now.entry(*inode).or_default();
        }
        for (inode, rows) in now {
            let known = self.rows.entry(inode).or_default();
            let is_known = known.last().is_some_and(|(_, last)| {
                last.len() == rows.len()
                    && last.iter().zip(&rows).all(|(last, row)| Arc::ptr_eq(last, row))
            });
            if !is_known {
                known.push((state, rows));
            }
        }
    }

    /// Rows of an inode in some states, by path; those that follow each other with the same rows once.
    pub(crate) fn rows_of(
        &self,
        inode: InodeNumber,
        states: RangeInclusive<usize>,
    ) -> impl Iterator<Item = &[Arc<Row>]> {
        let known = self.rows.get(&inode).map_or(&[][..], |known| known);
        // The rows of the first state may be there since an earlier one.
        let first = known.partition_point(|(since, _)| since <= states.start()).saturating_sub(1);
        let end = known.partition_point(|(since, _)| since <= states.end());
        known[first.min(end)..end].iter().map(|(_, rows)| &rows[..])
    }

    /// A call begins.
    pub(crate) fn call_begins(&mut self, place: &Place) {
        self.place = place.clone();
    }

    /// A call that began at `begun_at` returned.
    pub(crate) fn call_returned(&mut self, place: &Place, begun_at: u64, returned_at: u64) {
        self.calls.push(CallMark { place: place.clone(), begun_at, returned_at });
    }

    /// Calls of the script, in the order in which they returned.
    pub fn calls(&self) -> &[CallMark] {
        &self.calls
    }

    /// The calls before and behind a cut of the operation of this number. A call that changed nothing on the medium
    /// stands where the medium was when it returned.
    pub fn calls_around(&self, cut: u64) -> CallsAround {
        // Calls return in their order, and the medium only changes forward.
        let returned = self.calls.partition_point(|call| call.returned_at <= cut);
        let place = |at: usize| self.calls.get(at).map(|call| call.place.clone());
        CallsAround { returned: returned.checked_sub(1).and_then(place), next: place(returned) }
    }

    /// The guarantee that holds.
    pub fn guarantee(&self) -> &'static Guarantee {
        self.guarantee
    }

    /// All states, the oldest first.
    pub fn states(&self) -> &[State] {
        &self.states
    }

    pub(crate) fn newest(&self) -> &State {
        self.states.last().expect("a history has a first state")
    }

    fn newest_index(&self) -> usize {
        self.states.len() - 1
    }

    /// A call that began at `begun_at` leads to this tree.
    pub fn push(&mut self, begun_at: u64, tree: Tree, written: Option<InodeNumber>) {
        let place = self.place.clone();
        let (tree, nameless, hazard) = (Arc::new(tree), None, None);
        self.states.push(State { tree, begun_at, written, nameless, place, hazard });
        self.note_rows();
    }

    /// The newest state is due to a write to a file that has no name.
    pub(crate) fn nameless_written(&mut self, mut row: Row) {
        // A file that lost its name may be written for long: its versions share pages, as those in trees do.
        let older = self.states.iter().rev().filter_map(|state| state.nameless.as_ref());
        let named = self.rows.get(&row.inode).into_iter().flatten().rev();
        let named = named.filter_map(|(_, rows)| rows.first());
        if let Some(older) = older.chain(named).find(|older| older.inode == row.inode) {
            row.content.share(&older.content);
        }
        self.states.last_mut().expect("a history has a first state").nameless = Some(Arc::new(row));
    }

    /// A call that began at `begun_at` may leave this tree behind if it is cut.
    pub fn push_hazard(&mut self, begun_at: u64, tree: Tree, hazard: &'static Hazard) {
        self.push(begun_at, tree, None);
        self.states.last_mut().expect("just pushed").hazard = Some(hazard);
    }

    /// A call that is about to be noted may leave this tree behind, if it is cut and the mount after it is cut.
    ///
    /// It is no state of its own: judges that put trees together from parts of states pass it over.
    pub fn push_behind_recoveries(&mut self, tree: Tree, hazard: &'static Hazard) {
        self.behind_recoveries.push((self.newest_index(), Arc::new(tree), hazard));
    }

    /// The hazard that shows this tree after a cut of the mount that followed the cut of `window`.
    pub(crate) fn hazard_behind_recoveries(
        &self,
        window: &Window,
        found: &Tree,
    ) -> Option<&'static Hazard> {
        let is_shown = |(state, tree, _): &&(usize, Arc<Tree>, _)| {
            window.states.contains(state) && tree.is_same(found)
        };
        let first =
            self.behind_recoveries.partition_point(|(state, ..)| state < window.states.start());
        let (.., hazard) = self.behind_recoveries[first..].iter().find(is_shown)?;
        Some(*hazard)
    }

    fn inode_changed(&mut self, inode: InodeNumber) {
        // The newest state, not the next: the record is made before its call is noted.
        self.changed.insert(inode, self.newest_index());
    }

    /// The newest state is due to records of a name, which concern these inodes.
    pub fn names_changed(&mut self, inodes: &[InodeNumber]) {
        // Where everything before is safe with a sync, names need no entry of their own.
        if self.guarantee.durable == Durable::EachAtSync {
            for inode in inodes {
                self.inode_changed(*inode);
            }
        }
    }

    /// The newest state is due to blocks of these directories: their `fsync` has something to write.
    pub(crate) fn directories_changed(&mut self, directories: &[InodeNumber]) {
        // An inode of which only attributes changed is not queued, and its `fsync` writes nothing
        // (`nilfs_inode_dirty` of `fs/nilfs2/inode.c`).
        if self.guarantee.durable == Durable::AtCheckpoint {
            let rows = &self.newest().tree.rows;
            let is_directory = |inode: &&InodeNumber| {
                rows.values()
                    .any(|row| row.inode == **inode && row.facts.kind == FileType::Directory)
            };
            let changed: Vec<InodeNumber> =
                directories.iter().filter(is_directory).copied().collect();
            for inode in changed {
                self.inode_changed(inode);
            }
        }
    }

    /// The newest state, or the one before a call that is about to be noted, is due to bytes or
    /// attributes of this inode.
    pub fn file_changed(&mut self, inode: InodeNumber) {
        if self.guarantee.durable != Durable::EachAtSync {
            self.inode_changed(inode);
        }
    }

    /// The same, but due to its inode alone, or about to be: no block of it was changed.
    pub(crate) fn attributes_changed(&mut self, inode: InodeNumber) {
        if self.guarantee.durable != Durable::AtCheckpoint {
            self.file_changed(inode);
        }
    }

    /// A call is about to be noted that changes a file in memory only.
    pub fn file_dirtied(&mut self, inode: InodeNumber) {
        if !matches!(self.guarantee.durable, Durable::AtSync | Durable::AtCheckpoint) {
            let newest = self.newest_index();
            // The oldest counts: what was safe before the first change in memory.
            self.dirty.entry(inode).or_insert(newest);
        }
    }

    /// A call returned, and with it what it did is safe where the guarantee says so.
    pub fn returned(&mut self, now: u64) {
        if self.guarantee.durable == Durable::AtReturn {
            self.mark(now, self.newest_index());
        }
    }

    /// A call returned that writes all of a file that was in memory only.
    pub fn flushed(&mut self, now: u64, inode: InodeNumber) {
        if self.guarantee.durable == Durable::AtReturn {
            self.dirty.remove(&inode);
            self.returned(now);
        }
    }

    /// `fsync` of an inode returned, and the device was flushed with it.
    pub fn fsynced(&mut self, now: u64, inode: InodeNumber) {
        self.fsynced_unflushed(now, inode);
        self.device_flushed(now);
    }

    /// `fsync` of an inode returned. Where a device has a cache, it may still be there.
    pub(crate) fn fsynced_unflushed(&mut self, now: u64, inode: InodeNumber) {
        match self.guarantee.durable {
            Durable::AtReturn => self.flushed(now, inode),
            Durable::AtSync | Durable::EachAtSync => {
                if self.guarantee.durable == Durable::EachAtSync {
                    // Bytes up to the newest state are safe from now on; further changes begin at
                    // it.
                    self.dirty.insert(inode, self.newest_index());
                }
                // A file that never changed is safe as it was at the beginning.
                let state = self.changed.get(&inode).copied().unwrap_or(0);
                self.mark(now, state);
            }
            Durable::AtCheckpoint => {
                let state = self.changed.get(&inode).copied().unwrap_or(0);
                self.unflushed.write_whole(state);
            }
            Durable::AtFlush => self.unflushed.write_file(inode, self.newest_index()),
        }
    }

    /// `fdatasync` of an inode returned: bytes are written, and no more is promised.
    pub(crate) fn data_synced_unflushed(&mut self, inode: InodeNumber) {
        if matches!(self.guarantee.durable, Durable::AtCheckpoint | Durable::AtFlush) {
            self.unflushed.write_file(inode, self.newest_index());
        }
    }

    /// A sync begins that may write bytes of this file, or of all of them, before anything else.
    pub(crate) fn data_log_begins(&mut self, begun_at: u64, inode: Option<InodeNumber>) {
        self.data_logs.begin(begun_at, inode, self.newest_index());
    }

    /// The device was flushed: what was synced before is safe.
    pub(crate) fn device_flushed(&mut self, now: u64) {
        let Unflushed { whole, files } = std::mem::take(&mut self.unflushed);
        if whole.is_none() && files.is_empty() {
            return;
        }
        if let Some(state) = whole {
            // A file that was changed since is safe as it was then.
            for safe in self.dirty.values_mut() {
                *safe = state.max(*safe);
            }
        }
        for (inode, state) in files {
            self.data_logs.flush(now, inode, state);
            if self.guarantee.durable == Durable::AtFlush {
                let safe = self.dirty.entry(inode).or_default();
                *safe = state.max(*safe);
            }
        }
        self.mark(now, whole.unwrap_or(0));
    }

    /// A call returned that made a new extended attribute: some file systems have written all names then.
    pub(crate) fn attribute_made(&mut self, now: u64) {
        // The write buffer that the attribute was put into holds all names before it.
        if self.guarantee.new_attribute_is_synced {
            self.mark(now, self.newest_index());
        }
    }

    /// `sync` or an unmount returned, and the device was flushed with it.
    pub fn synced(&mut self, now: u64) {
        self.synced_unflushed(now);
        self.device_flushed(now);
    }

    /// `sync` or an unmount returned. Where a device has a cache, it may still be there.
    pub(crate) fn synced_unflushed(&mut self, now: u64) {
        if matches!(self.guarantee.durable, Durable::AtCheckpoint | Durable::AtFlush) {
            self.unflushed.write_whole(self.newest_index());
            return;
        }
        self.dirty.clear();
        self.mark(now, self.newest_index());
    }

    fn mark(&mut self, returned_at: u64, state: usize) {
        let last = self.marks.last().expect("a history begins with a mark");
        // A state that was safe once stays safe, whatever a later mark says of another file.
        let state = state.max(last.state);
        // `window` searches the marks by halves.
        debug_assert!(last.returned_at <= returned_at, "marks are made in the order of time");
        assert!(state < self.states.len(), "a state is noted before it is safe");
        let is_as_before = *last.dirty == self.dirty;
        // Shared where nothing changed: a mark for each call would copy the map each time.
        let dirty = if is_as_before { last.dirty.clone() } else { Arc::new(self.dirty.clone()) };
        self.marks.push(Mark { returned_at, state, dirty });
    }

    /// What may be found after a cut within operation `operation`.
    pub fn window(&self, operation: u64) -> Window {
        // A call that had returned when the operation began is safe.
        let returned = self.marks.partition_point(|mark| mark.returned_at <= operation);
        // Write-back may begin before a call and be noted after it.
        let begun = self.states.iter().rposition(|state| state.begun_at <= operation);
        let mark = &self.marks[returned - 1];
        let last = begun.expect("the first state begins at zero");
        assert!(mark.state <= last, "what is safe began before the operation");
        Window {
            states: mark.state..=last,
            dirty: mark.dirty.clone(),
            operation,
            is_recovery_cut: false,
        }
    }

    /// Of a file in a state: the states whose bytes it may have instead, because they were synced or are
    /// being synced without a checkpoint.
    pub(crate) fn states_of_bytes(
        &self,
        window: &Window,
        inode: InodeNumber,
        state: usize,
    ) -> RangeInclusive<usize> {
        let oldest = self.data_logs.oldest(window.operation, inode).unwrap_or(0).max(state);
        let newest = self.data_logs.newest(window.operation, inode).unwrap_or(0).max(oldest);
        oldest..=newest.min(*window.states.end()).max(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::History;
    use crate::content::Content;
    use crate::guarantee::find_guarantee;
    use crate::tree::{Facts, Row, Tree};
    use fs_api::FileType;
    use random::Stream;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    fn row(inode: u64) -> Arc<Row> {
        let facts = Facts {
            kind: FileType::Regular,
            permissions: 0,
            owner: (0, 0),
            links: 1,
            size_bytes: 0,
            device: (0, 0),
            target: Vec::new(),
            extended: BTreeMap::new(),
        };
        Arc::new(Row { inode, facts, content: Content::default() })
    }

    /// Names come, go, and lead to other inodes or other rows; several names may lead to one inode.
    #[test]
    fn rows_of_an_inode_are_those_that_a_search_of_the_states_finds() {
        let mut draw = Stream::new(1, "rows");
        let mut tree = Tree::default();
        let guarantee = find_guarantee("jffs2").expect("in the table");
        let mut history = History::new(guarantee, tree.clone());
        for _ in 0..60 {
            let name = vec![b'a' + draw.below(5) as u8];
            if draw.below(3) == 0 {
                tree.rows.remove(&name);
            } else {
                tree.rows.insert(name, row(draw.below(4).into()));
            }
            history.push(0, tree.clone(), None);
        }
        for (first, last) in (0..=60).flat_map(|last| (0..=last).map(move |first| (first, last))) {
            for inode in 0..5 {
                let mut expected: Vec<Vec<*const Row>> = Vec::new();
                for state in &history.states()[first..=last] {
                    let rows = state.tree.rows.values().filter(|row| row.inode == inode);
                    let rows: Vec<*const Row> = rows.map(Arc::as_ptr).collect();
                    if expected.last() != Some(&rows) {
                        expected.push(rows);
                    }
                }
                // States without a row of it are no versions of it, whether they are told or not.
                expected.retain(|rows| !rows.is_empty());
                let found = history.rows_of(inode, first..=last).filter(|rows| !rows.is_empty());
                let found: Vec<Vec<*const Row>> =
                    found.map(|rows| rows.iter().map(Arc::as_ptr).collect()).collect();
                assert_eq!(found, expected, "{inode} in {first}..={last}");
            }
        }
    }

    #[test]
    fn versions_without_a_name_share_pages_with_those_before() {
        let mut history =
            History::new(find_guarantee("jffs2").expect("in the table"), Tree::default());
        let named = Row { content: Content::new(&[1; 5000]), ..(*row(7)).clone() };
        let rows = BTreeMap::from([(b"f".to_vec(), Arc::new(named.clone()))]);
        history.push(0, Tree { rows, ..Tree::default() }, Some(7));
        let mut last = named.content.clone();
        for _ in 0..2 {
            history.push(0, Tree::default(), Some(7));
            history.nameless_written(Row { content: Content::new(&[1; 5000]), ..named.clone() });
            let nameless = history.newest().nameless.as_ref().expect("just written");
            assert!(nameless.content.is_shared_with(&last));
            last = nameless.content.clone();
        }
    }
}
