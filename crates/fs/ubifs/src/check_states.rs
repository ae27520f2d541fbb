//! Checking what is in memory: the index, the LEB properties, the journal and the budgets against each other.
//!
//! What the kernel's `dbg_check_tnc`, `dbg_check_cats`, `dbg_check_heap`, `dbg_check_lprops` and
//! `dbg_check_bud_bytes` look at (`fs/ubifs/tnc.c`, `lprops.c`, `debug.c`). Above the engine: uses it with
//! all its states. Nothing is read, so that tests can ask after each call.

use crate::budget::Budget;
use crate::engine::Engine;
use crate::finding::Code;
use crate::keys::Key;
use crate::layout::HEADS;
use crate::lprops::{Category, Lebs, SpaceSums};
use crate::lpt_shape::LPT_FANOUT;
use crate::mount::Ubifs;
use crate::orphans::State;
use crate::position::MainIndex;
use crate::tnc::{Tnc, ZnodeId};
use fs_api::{Finding, Place as FoundAt};

impl Ubifs {
    /// Rules that hold between two calls on a sound medium and are broken now; nothing is read.
    ///
    /// While a call is under way, or after damage was found, some may be broken for a good reason.
    pub async fn check_states(&self) -> Vec<Finding> {
        let mut broken = Vec::new();
        // Between two groups of the journal, and while no commit is written.
        self.engine.wait_for_commit().await;
        let _held = self.engine.commit_lock.write().await;
        self.engine.check_tnc(&mut broken);
        self.engine.check_lebs(&mut broken);
        self.engine.check_lpt(&mut broken);
        self.engine.check_journal(&mut broken);
        self.engine.check_budgets(&mut broken);
        self.engine.check_orphans(&mut broken);
        broken.into_iter().map(|text| Code::Contradiction.at(FoundAt::Whole, text)).collect()
    }
}

/// Adds a text where a rule is broken.
fn must(broken: &mut Vec<String>, holds: bool, text: impl FnOnce() -> String) {
    if !holds {
        broken.push(text());
    }
}

/// A node of the index and the keys that its parent allows it, both ends included.
struct Visit {
    id: ZnodeId,
    from: Key,
    to: Option<Key>,
}

impl Tnc {
    /// A node in memory against its branches and its children; the children are visited next.
    fn check_znode(&self, visit: &Visit, fanout: usize, broken: &mut Vec<String>) -> Vec<Visit> {
        let (id, znode) = (visit.id, self.get(visit.id));
        let count = znode.branches.len();
        must(broken, (1..=fanout).contains(&count), || {
            format!("index: node {id} has {count} branches, {fanout} are possible")
        });
        let sorted = znode.branches.windows(2).all(|pair| {
            let (left, right) = (pair[0].key, pair[1].key);
            left < right || left == right && left.is_hashed()
        });
        must(broken, sorted, || format!("index: keys of node {id} are not in order"));
        let mut below = Vec::new();
        for (at, branch) in znode.branches.iter().enumerate() {
            let next = znode.branches.get(at + 1).map(|next| next.key).or(visit.to);
            let is_inside = branch.key >= visit.from && next.is_none_or(|next| branch.key <= next);
            must(broken, is_inside, || {
                format!("index: node {id}: {:?} is outside of what its parent says", branch.key)
            });
            // A branch to nothing: neither on the medium nor in memory.
            must(broken, branch.place.bytes > 0 || branch.child.is_some(), || {
                format!("index: branch {at} of node {id} leads nowhere")
            });
            let Some(child_id) = branch.child else { continue };
            let child = self.get(child_id);
            must(broken, (child.parent, child.position) == (Some(id), at), || {
                format!("index: node {child_id} is branch {at} of node {id} and names another")
            });
            must(broken, child.level + 1 == znode.level, || {
                format!("index: node {child_id} is on level {}", child.level)
            });
            // Commits walk dirty nodes from the root down.
            must(broken, znode.is_dirty || !child.is_dirty, || {
                format!("index: dirty node {child_id} lies below a clean one")
            });
            below.push(Visit { id: child_id, from: branch.key, to: next });
        }
        below
    }
}

impl Engine {
    /// Order of keys, links between nodes, and the counts of them (`dbg_check_tnc`).
    fn check_tnc(&self, broken: &mut Vec<String>) {
        let tnc = self.tnc.borrow();
        let (mut dirty, mut clean) = (0, 0);
        let root = tnc.root.child.map(|id| Visit { id, from: Key::default(), to: None });
        let mut rest: Vec<Visit> = root.into_iter().collect();
        while let Some(visit) = rest.pop() {
            *if tnc.get(visit.id).is_dirty { &mut dirty } else { &mut clean } += 1;
            rest.extend(tnc.check_znode(&visit, self.layout.fanout, broken));
        }
        must(broken, (dirty, clean) == (tnc.dirty, tnc.clean), || {
            format!(
                "index: {dirty} dirty and {clean} clean nodes, counted {} and {}",
                tnc.dirty, tnc.clean
            )
        });
        let space = self.space.borrow();
        must(broken, tnc.index_bytes.is_multiple_of(8), || "index: its size is odd".into());
        must(broken, space.index_head.offset.is_multiple_of(self.layout.min_io), || {
            format!("index: its head is at {}", space.index_head)
        });
    }

    /// Space and category of each eraseblock of the main area, and the sums (`dbg_check_cats`,
    /// `dbg_check_heap`).
    fn check_lebs(&self, broken: &mut Vec<String>) {
        let lpt = self.lpt.borrow();
        let (layout, lebs) = (&self.layout, &lpt.lebs);
        let is_loaded =
            |index: MainIndex| lpt.pnodes[(index.get() / LPT_FANOUT) as usize].is_some();
        let all = (0..layout.main_lebs).map(MainIndex::new);
        let mut sums = SpaceSums::default();
        for index in all.filter(|index| is_loaded(*index)) {
            let (leb, entry) = (layout.main_leb(index), lebs.get(index));
            let properties = entry.properties;
            must(broken, properties.free + properties.dirty <= layout.leb_bytes, || {
                format!("LEB {leb}: {properties:?} is more than the eraseblock has")
            });
            let is_aligned = (properties.free | properties.dirty).is_multiple_of(8);
            must(broken, is_aligned, || format!("LEB {leb}: {properties:?} is odd"));
            let category = Lebs::categorise(entry, layout);
            // What falls off a full heap is in no category, although it has one.
            let is_fallen = entry.category == Category::None && lebs.is_heap_full(category);
            must(broken, entry.category == category || is_fallen, || {
                format!("LEB {leb}: is {:?}, should be {category:?}", entry.category)
            });
            must(broken, lebs.is_listed(index), || {
                format!("LEB {leb}: is not where its category {category:?} says")
            });
            sums.add(properties, entry.is_taken, layout);
        }
        must(broken, lebs.are_heaps_ordered(), || "LEB properties: a heap is out of order".into());
        if lpt.pnodes_loaded == layout.lpt.pnode_count {
            must(broken, sums == lebs.sums, || {
                format!("LEB properties: sums {sums:?}, counted {:?}", lebs.sums)
            });
        }
        for waiting in &lpt.waiting {
            let entry = lebs.get(layout.main_index(waiting.leb));
            must(broken, entry.is_taken, || {
                format!("LEB {}: waits for a commit and is not taken", waiting.leb)
            });
        }
        if let Some(leb) = self.space.borrow().gc_leb {
            let index = layout.main_index(leb);
            let is_empty = lebs.get(index).properties.free == layout.leb_bytes;
            must(broken, !is_loaded(index) || is_empty, || {
                format!("LEB {leb}: the collector's reserve is not empty")
            });
        }
    }

    /// Counts of the tree of LEB properties, and space of its own area (`dbg_check_ltab`).
    fn check_lpt(&self, broken: &mut Vec<String>) {
        let lpt = self.lpt.borrow();
        let pnodes = lpt.pnodes.iter().flatten();
        let nnodes = lpt.levels.iter().flatten().flatten();
        let found = [pnodes.clone().count(), nnodes.clone().count()];
        let counted = [lpt.pnodes_loaded as usize, lpt.nnodes_loaded as usize];
        must(broken, found == counted, || format!("LPT: {found:?} nodes, counted {counted:?}"));
        let dirty = pnodes.filter(|node| node.is_dirty).count()
            + nnodes.filter(|node| node.is_dirty).count();
        must(broken, dirty == lpt.dirty_nodes as usize, || {
            format!("LPT: {dirty} dirty nodes, counted {}", lpt.dirty_nodes)
        });
        for (leb, entry) in lpt.table_by_leb(&self.layout) {
            must(broken, entry.free + entry.dirty <= self.layout.leb_bytes, || {
                format!("LPT: LEB {leb}: {entry:?} is more than the eraseblock has")
            });
        }
    }

    /// Bytes of the journal, and its heads (`dbg_check_bud_bytes`).
    fn check_journal(&self, broken: &mut Vec<String>) {
        let (journal, lpt) = (self.journal.borrow(), self.lpt.borrow());
        let of_buds = journal.bytes_of_buds(self.layout.leb_bytes);
        must(broken, of_buds + journal.committing_bytes == journal.bud_bytes, || {
            format!(
                "journal: {of_buds} bytes in buds and {} in the commit, counted {}",
                journal.committing_bytes, journal.bud_bytes
            )
        });
        for leb in journal.buds.keys().chain(&journal.old_buds) {
            let entry = lpt.lebs.get(self.layout.main_index(*leb));
            must(broken, entry.is_taken && !entry.properties.is_index, || {
                format!("LEB {leb}: is of the journal, but not taken: {entry:?}")
            });
        }
        for (head, number) in self.heads.iter().zip(HEADS) {
            let buffer = head.buffer.borrow();
            let Some(leb) = buffer.leb else { continue };
            let bud = journal.buds.get(&leb);
            must(broken, bud.is_none_or(|bud| bud.head == number), || {
                format!("LEB {leb}: head {number:?} writes to the journal of another head")
            });
            must(broken, buffer.used() <= buffer.size, || {
                format!("head {number:?}: {} bytes in a buffer of {}", buffer.used(), buffer.size)
            });
            // The properties of an eraseblock count what its buffer holds.
            let free = lpt.lebs.get(self.layout.main_index(leb)).properties.free;
            must(broken, bud.is_none() || free == self.layout.leb_bytes - buffer.end(), || {
                format!("head {number:?}: ends at {} of LEB {leb} with {free} free", buffer.end())
            });
        }
    }

    /// What is promised is what dirty pages and dirty inodes hold, no more and no less.
    fn check_budgets(&self, broken: &mut Vec<String>) {
        let mut held = Budget::default();
        for inode in self.inodes.borrow().values() {
            let data = inode.data.borrow();
            let own = Budget::of_inode(data.node.data.len());
            let own = data.is_dirty.then_some(&own);
            for budget in data.pages.values().chain(own) {
                held.index += budget.index;
                held.data += budget.data;
                held.dirty += budget.dirty;
            }
            must(broken, data.node.key == Key::inode(inode.number), || {
                format!("inode {}: its node has key {:?}", inode.number, data.node.key)
            });
        }
        let promised = self.space.borrow().promised;
        must(broken, held == promised, || format!("budget: {held:?} held, {promised:?} promised"));
    }

    /// An orphan has no links (`dbg_check_orphans`).
    fn check_orphans(&self, broken: &mut Vec<String>) {
        let inodes = self.inodes.borrow();
        for (number, state) in &self.orphans.borrow().inodes {
            let inode = inodes.get(number);
            let links = inode.map_or(0, |inode| inode.data.borrow().node.links);
            must(broken, *state == State::Deleted || links == 0, || {
                format!("inode {number}: an orphan with {links} links")
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Category, Engine, MainIndex, State, Ubifs};
    use crate::layout::{BASE_HEAD, GC_HEAD};
    use crate::memory_volume::MemoryVolume;
    use crate::profile::{MountOptions, find_profile};
    use crate::volume::Volume;
    use crate::volume_shape::VolumeShape;
    use fs_api::{Caller, FileSystem, NewInode, Time};
    use sim::{Cpus, Simulation};
    use std::cell::RefCell;
    use std::rc::Rc;

    const SHAPE: VolumeShape = VolumeShape {
        leb_bytes: 126_976,
        leb_count: 40,
        min_io_bytes: 2048,
        max_write_bytes: 2048,
    };

    /// Part of the text that is expected, and the change that breaks a rule.
    type Fault = (&'static str, fn(&Engine));

    /// What is reported of a mount with some files after a fault was planted in its memory.
    fn reported(plant: fn(&Engine)) -> Vec<String> {
        let mut simulation = Simulation::new(1);
        let sim = simulation.handle();
        let texts = Rc::new(RefCell::new(None));
        let (out, handle) = (texts.clone(), sim.clone());
        let task = sim.spawn(async move {
            let cpus = Rc::new(Cpus::new(&handle, 1, 10_000_000));
            let volume = Volume::Memory(Rc::new(MemoryVolume::new(&handle, SHAPE)));
            let profile = find_profile("linux-6.12").expect("in the table");
            let options = MountOptions {
                has_thread: false,
                write_buffer_interval_ns: None,
                ..MountOptions::new(profile)
            };
            let fs = Ubifs::mount(&handle, cpus, volume, options).await.expect("it mounts");
            let now = Time::from_seconds(1_700_000_000);
            let caller = Caller { uid: 0, gid: 0, now };
            // More than a node of the index holds.
            for number in 0..40 {
                let name = format!("file {number}");
                let new = NewInode::Regular(0o644);
                fs.make(&caller, fs.root(), name.as_bytes(), new).await.expect("made");
            }
            // Loads the properties of all eraseblocks.
            assert_eq!(fs.check().await, Ok(Vec::new()));
            plant(&fs.engine);
            let found = fs.check_states().await;
            out.replace(Some(found.into_iter().map(|finding| finding.text).collect()));
        });
        simulation.run();
        assert!(task.is_finished(), "nothing waits for ever");
        texts.take().expect("it was checked")
    }

    #[test]
    fn a_sound_mount_breaks_no_rule() {
        assert_eq!(reported(|_| ()), Vec::<String>::new());
    }

    #[test]
    fn faults_that_are_planted_are_reported() {
        let faults: [Fault; 14] = [
            ("dirty and", |engine| engine.tnc.borrow_mut().dirty += 1),
            ("are not in order", |engine| {
                let mut tnc = engine.tnc.borrow_mut();
                let root = tnc.root.child.expect("it is in memory");
                tnc.get_mut(root).branches.swap(0, 1);
            }),
            ("and names another", |engine| {
                let mut tnc = engine.tnc.borrow_mut();
                let root = tnc.root.child.expect("it is in memory");
                let child = tnc.branch(root, 0).child.expect("it is in memory");
                tnc.get_mut(child).position = 1;
            }),
            ("is on level", |engine| {
                let mut tnc = engine.tnc.borrow_mut();
                let root = tnc.root.child.expect("it is in memory");
                tnc.get_mut(root).level += 1;
            }),
            ("lies below a clean one", |engine| {
                let mut tnc = engine.tnc.borrow_mut();
                let root = tnc.root.child.expect("it is in memory");
                tnc.get_mut(root).is_dirty = false;
            }),
            ("LEB properties: sums", |engine| engine.lpt.borrow_mut().lebs.sums.free += 8),
            ("is more than the eraseblock has", |engine| {
                engine.lpt.borrow_mut().lebs.all[3].properties.dirty += 8;
            }),
            ("should be", |engine| {
                let mut lpt = engine.lpt.borrow_mut();
                lpt.lebs.all[5].category = Category::Freeable;
            }),
            ("LPT: ", |engine| engine.lpt.borrow_mut().dirty_nodes += 1),
            ("is of the journal, but not taken", |engine| {
                let leb = *engine.journal.borrow().buds.keys().next().expect("a bud");
                let index: MainIndex = engine.layout.main_index(leb);
                engine.lpt.borrow_mut().lebs.all[index.index()].is_taken = false;
            }),
            ("bytes in buds", |engine| engine.journal.borrow_mut().bud_bytes += 8),
            ("the journal of another head", |engine| {
                let mut journal = engine.journal.borrow_mut();
                let bud = journal.buds.values_mut().next_back().expect("a bud");
                bud.head = if bud.head == BASE_HEAD { GC_HEAD } else { BASE_HEAD };
            }),
            ("budget: ", |engine| engine.space.borrow_mut().promised.dirty += 160),
            ("an orphan with", |engine| {
                engine.orphans.borrow_mut().inodes.insert(70, State::New);
            }),
        ];
        for (expected, plant) in faults {
            let texts = reported(plant);
            let is_reported = texts.iter().any(|text| text.contains(expected));
            assert!(is_reported, "{expected:?} is not among {texts:?}");
        }
    }
}
