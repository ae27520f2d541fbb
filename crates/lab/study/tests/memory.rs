//! Memory that a further cell of a study takes, with its plan, its rows and its tables.
//!
//! A program of its own: all that it allocates is counted.

use peak_alloc::PeakAlloc;

#[path = "all/support/mod.rs"]
mod support;

use support::{Folder, HEAD};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Ten thousand cells shall fit 40 MB.
const CELL_BYTES_MAX: f64 = 4096.0;
const MEASURES: usize = 3;
const FEW: usize = 100;
const MANY: usize = 1000;

/// Numbers from 1 on, as values of an axis.
fn values(count: usize) -> String {
    (1..=count).map(|value| value.to_string()).collect::<Vec<_>>().join(",")
}

/// The most memory that a study takes, with the results that it leaves.
fn bytes(folder: &Folder, text: &str) -> f64 {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    let results = folder.run(text).expect("a study that runs");
    let used = ALLOCATOR.peak_usage() - before;
    assert!(!results.interrupted && !results.rows.is_empty());
    used as f64
}

/// Memory of a further cell; `text` says `VALUES` where the values of the axis stand.
fn bytes_of_a_cell(name: &str, text: &str) -> f64 {
    let folder = Folder::new(name);
    let study = |cells| format!("{HEAD}{}", text.replace("VALUES", &values(cells)));
    // The first call makes tables that stay.
    bytes(&folder, &study(2));
    let [few, many] = [FEW, MANY].map(|cells| bytes(&folder, &study(cells)));
    (many - few) / (MANY - FEW) as f64
}

const LAYER: &str = "part = \"k9f2g08u0c\"\nblocks = 32\n[workload]\nkind = \"uniform\"\n\
    warm_up_writes = 0\nmeasured_writes = 1\n[axes]\nftl = [\"page\"]\nspare_percent = [50]\n\
    cleaning_seed = [VALUES]\n";

/// Ten requests of two processes: rows, and the tables of latencies.
const JOBS: &str = "[workload]\nkind = \"jobs\"\n[host]\nboard = \"odroid-xu\"\n\
    device = \"emmc-4.5-64gb\"\nfree_bytes = 1_073_741_824\n[[job]]\nname = \"readers\"\nprocesses = 2\n\
    rw = \"randread\"\nbs = \"{request_kib}k\"\nrequests = 5\nmode = \"direct\"\n[axes]\n\
    scheduler = [\"noop\"]\nrequest_kib = [VALUES]\n";

/// One test, since what other threads allocate would be counted too.
#[test]
fn a_cell_takes_kilobytes() {
    for (name, text) in [("layer", LAYER), ("jobs", JOBS)] {
        // The end of a run does not wait for the thread-local destructors of its worker (`std::thread::scope`). What
        // they free late stands in the `before` of the next run: the smaller one may seem to take less than it does.
        let mut measures = (0..MEASURES).map(|_| bytes_of_a_cell(name, text));
        let bytes = measures.find(|bytes| *bytes <= CELL_BYTES_MAX);
        assert!(bytes.is_some(), "{name}: more than {CELL_BYTES_MAX} bytes a cell, each time");
    }
}
