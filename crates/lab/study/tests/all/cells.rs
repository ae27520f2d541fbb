//! Cells: carried out anywhere, kept as bytes, found by a key; the digest is that of one call.

use crate::support::{Folder, HEAD};
use std::collections::BTreeMap;
use std::path::PathBuf;
use study::{
    CellStore, CellWorker, Study, StudyResults, cells, load, load_moved, run_study, run_study_with,
};
use trace::{Operation, Record};

/// Finished cells in memory, and what was asked of them.
#[derive(Default)]
struct InMemory {
    results: BTreeMap<String, Vec<u8>>,
    taken: usize,
    refused: usize,
    kept: usize,
    is_all: bool,
}

impl CellStore for InMemory {
    fn engine(&self) -> &'static str {
        "engine 1"
    }

    fn take(&mut self, key: &str) -> Option<Vec<u8>> {
        let found = self.results.get(key).cloned();
        self.taken += usize::from(found.is_some());
        found
    }

    fn refuse(&mut self, _: &str) {
        self.refused += 1;
    }

    fn keep(&mut self, key: &str, result: &[u8]) {
        self.kept += 1;
        self.results.insert(key.to_owned(), result.to_owned());
    }

    fn is_all(&self) -> bool {
        self.is_all
    }
}

fn run_with(study: &Study, store: &mut InMemory) -> StudyResults {
    (store.taken, store.refused, store.kept) = (0, 0, 0);
    run_study_with(study, 2, store, &mut |_, _, _| true).expect("a study that runs")
}

fn plain(study: &Study) -> StudyResults {
    run_study(study, 1, &mut |_, _, _| true).expect("a study that runs")
}

/// Layers that are drawn: 6 combinations and 2 repeats of each are 12 cells.
fn uniform() -> String {
    format!(
        "{HEAD}part = \"published-small-block\"\nblocks = 80\nrepeats = 2\n\
         [workload]\nkind = \"uniform\"\nwarm_up_writes = 1\nmeasured_writes = 1\n[axes]\nftl = [\"page\", \"dftl\"]\nspare_percent = [10, 20, 30]\n"
    )
}

/// Processes, whose latencies and time lines are pooled over the repeats.
const JOBS: &str = "repeats = 2\n[workload]\nkind = \"jobs\"\n[host]\nboard = \"odroid-xu\"\n\
    device = \"emmc-4.5-64gb\"\nfree_bytes = 1_073_741_824\n\
    [[job]]\nname = \"all\"\nprocesses = 2\nrw = \"randrw\"\nbs = \"4k\"\nrequests = 60\nmode = \"direct\"\n\
    [timeline]\naxes = { scheduler = [\"noop\"] }\n[axes]\nscheduler = [\"noop\", \"cfq-3.4\"]\n";

#[test]
fn a_study_made_of_stored_cells_has_the_digest_of_one_call() {
    let folder = Folder::new("stored");
    for text in [uniform(), format!("{HEAD}{JOBS}")] {
        let study = folder.load(&text).expect("a good study");
        let whole = plain(&study);
        let mut store = InMemory::default();
        assert_eq!(run_with(&study, &mut store).digest(), whole.digest());
        let cells = store.kept;
        assert_eq!((store.taken, store.results.len()), (0, cells));
        // The second call carries out nothing, and a third only what was lost.
        let again = run_with(&study, &mut store);
        assert_eq!((store.taken, store.kept), (cells, 0));
        assert_eq!(again.digest(), whole.digest());
        assert_eq!(again.notes, whole.notes);
        let half: Vec<String> = store.results.keys().step_by(2).cloned().collect();
        for key in &half {
            store.results.remove(key);
        }
        assert_eq!(run_with(&study, &mut store).digest(), whole.digest());
        assert_eq!((store.taken, store.kept), (cells - half.len(), half.len()));
    }
}

#[test]
fn a_damaged_cell_is_noticed_and_run_again() {
    let folder = Folder::new("damaged");
    let study = folder.load(&uniform()).expect("a good study");
    let mut store = InMemory::default();
    let digest = run_with(&study, &mut store).digest();
    let whole = store.results.clone();
    let keys: Vec<String> = whole.keys().cloned().collect();
    // A byte that changed, a file that was cut off, the result of another cell.
    store.results.get_mut(&keys[0]).expect("finished")[7] ^= 1;
    store.results.get_mut(&keys[1]).expect("finished").truncate(40);
    store.results.insert(keys[2].clone(), whole[&keys[3]].clone());
    assert_eq!(run_with(&study, &mut store).digest(), digest);
    assert_eq!((store.refused, store.kept), (3, 3));
    assert_eq!(store.results, whole, "what was run again has the same bytes");
}

#[test]
fn cells_that_are_not_finished_stay_so_if_nothing_is_to_be_run() {
    let folder = Folder::new("only-finished");
    let study = folder.load(&uniform()).expect("a good study");
    let mut store = InMemory::default();
    run_with(&study, &mut store);
    store.is_all = true;
    assert!(!run_with(&study, &mut store).interrupted);
    let first = cells(&study, "engine 1").expect("a good study").swap_remove(0);
    store.results.remove(&first.key);
    let part = run_with(&study, &mut store);
    assert!(part.interrupted && store.kept == 0);
    assert!(!part.rows.iter().any(|row| row.axes.join(" ") == first.label && row.repeat == 0));
    assert!(part.rows.iter().any(|row| row.axes.join(" ") == first.label && row.repeat == 1));
}

#[test]
fn an_interrupted_study_keeps_what_was_finished() {
    let folder = Folder::new("interrupted");
    let study = folder.load(&uniform()).expect("a good study");
    let mut store = InMemory::default();
    let part = run_study_with(&study, 1, &mut store, &mut |done, _, _| done < 5).expect("runs");
    assert!(part.interrupted && store.kept >= 5 && store.kept < 12, "{}", store.kept);
    let before = store.kept;
    assert_eq!(run_with(&study, &mut store).digest(), plain(&study).digest());
    assert_eq!((store.taken, store.kept), (before, 12 - before));
}

fn keys(study: &Study, engine: &str) -> Vec<String> {
    cells(study, engine).expect("a good study").into_iter().map(|cell| cell.key).collect()
}

#[test]
fn a_key_is_the_hash_of_all_that_a_cell_depends_on_and_of_nothing_else() {
    let folder = Folder::new("keys");
    let path = folder.write("study.toml", &uniform());
    let of = |sets: &[&str], seed| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        keys(&load(&path, &sets, seed, false).expect("a good study"), "engine 1")
    };
    let first = of(&[], None);
    assert_eq!(first.len(), 12);
    assert_eq!(of(&[], None), first);
    // Texts change no result, and other values none of the cells that were there before.
    assert_eq!(of(&["title=Another", "question=Why?"], None), first);
    let more = of(&["axes.spare_percent=10,20,30,40", "repeats=3"], None);
    assert!(first.iter().all(|key| more.contains(key)) && more.len() == 24);
    for other in [
        of(&[], Some(2)),
        of(&["blocks=81"], None),
        of(&["part=k9f1g08u0a"], None),
        of(&["workload.measured_writes=3"], None),
        keys(&load(&path, &[], None, true).expect("a good study"), "engine 1"),
        keys(&load(&path, &[], None, false).expect("a good study"), "engine 2"),
    ] {
        assert!(first.iter().all(|key| !other.contains(key)));
    }
}

/// A trace of writes.
fn records(count: u64) -> Vec<Record> {
    (0..count).map(|number| Record::new(number, Operation::Write, number * 512, 512)).collect()
}

/// A replay of a trace on a part of the user's own and on one of the catalogue.
fn own_files(folder: &Folder) -> String {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../parts/published-small-block.toml");
    let part = std::fs::read_to_string(source).expect("a part of the catalogue");
    folder.write("mine.toml", &part.replace("published-small-block", "mine"));
    folder.trace("tiny.parquet", &records(300));
    format!(
        "{HEAD}blocks = 160\n[workload]\nkind = \"trace\"\nfile = \"{{name}}.parquet\"\n\
         capacity_bytes = 1048576\npreconditioning = \"none\"\n[axes]\nftl = [\"page\"]\nname = [\"tiny\"]\n\
         part = [\"mine.toml\", \"published-small-block\"]\n"
    )
}

#[test]
fn a_key_covers_the_content_of_files_and_not_their_place() {
    let (folder, elsewhere) = (Folder::new("content"), Folder::new("content-elsewhere"));
    let text = own_files(&folder);
    let first = keys(&folder.load(&text).expect("a good study"), "");
    own_files(&elsewhere);
    assert_eq!(keys(&elsewhere.load(&text).expect("a good study"), ""), first);
    // A comment changes the file, and only the cell that reads it.
    let part = std::fs::read_to_string(folder.path().join("mine.toml")).expect("written before");
    folder.write("mine.toml", &format!("{part}# mine\n"));
    let other = keys(&folder.load(&text).expect("a good study"), "");
    assert!(other[0] != first[0] && other[1] == first[1]);
    elsewhere.trace("tiny.parquet", &records(299));
    let other = keys(&elsewhere.load(&text).expect("a good study"), "");
    assert!(other[0] != first[0] && other[1] != first[1]);
}

#[test]
fn a_worker_on_another_machine_has_the_same_cells() {
    let (folder, elsewhere) = (Folder::new("here"), Folder::new("there"));
    let study = folder.load(&own_files(&folder)).expect("a good study");
    let here = CellWorker::new(&study, "engine 1").expect("a good study");
    // Files travel by content; they have other names there.
    let files = here.files().into_iter().enumerate().map(|(number, (name, path))| {
        let place = elsewhere
            .path()
            .join(number.to_string())
            .with_extension(path.extension().expect("one"));
        std::fs::copy(path, &place).expect("room for the file");
        (name, place)
    });
    let moved: BTreeMap<String, PathBuf> = files.collect();
    assert_eq!(moved.keys().collect::<Vec<_>>(), ["mine.toml", "tiny.parquet"]);
    let text = std::fs::read_to_string(folder.path().join("study.toml")).expect("written before");
    let path = elsewhere.write("study.toml", &text);
    let there = load_moved(&path, &[], None, false, moved).expect("all files are there");
    let there = CellWorker::new(&there, "engine 1").expect("a good study");
    assert_eq!(there.cells(), here.cells());
    let mut store = InMemory { is_all: true, ..InMemory::default() };
    // In any order.
    for number in [1, 0] {
        let result = there.run_cell(number).expect("runs").expect("nobody stops it");
        store.results.insert(here.cells()[number].key.clone(), result);
    }
    assert_eq!(run_with(&study, &mut store).digest(), plain(&study).digest());
    let error = there.run_cell(2).expect_err("there are two").to_string();
    assert!(error.contains("cell 2: the study has 2 cells"), "{error}");
}
