//! Results of a small study of every kind of workload, as digests: nothing may change them unseen.
//!
//! A digest is the same on every machine. One that changes on purpose is replaced here, and stands under
//! "Results change" in the changelog.

use crate::support;

use std::fmt::Write as _;
use study::{StudyResults, WORKLOADS, load, run_study};
use support::{Folder, HEAD};
use trace::{Operation, Record};

const GENERATED: &str = "part = \"published-small-block\"\nblocks = 64\nrepeats = 2\n\
    [workload]\nkind = \"KIND\"\nwarm_up_writes = 1\nmeasured_writes = 1\n\
    [settings.default.page]\nlow_water = 2\n\
    [axes]\nftl = [\"dftl\", \"fast\", \"page\"]\nspare_percent = [30, 40]\n\
    cleaning = [\"fifo\", \"greedy\"]\n";

const TRACE: &str = "part = \"published-small-block\"\nblocks = 64\nrepeats = 2\n\
    [workload]\nkind = \"trace\"\nfile = \"{size}.parquet\"\nwindow = 10\nservice_times = true\n\
    preconditioning = \"image-and-pass\"\n[published_charging]\npage = { reads = 2, writes = 1 }\n\
    [axes]\nftl = [\"fast\", \"page\"]\nsize = [\"large\", \"small\"]\n";

const JOBS: &str = "repeats = 2\n[workload]\nkind = \"jobs\"\n\
    [host]\nboard = \"odroid-xu\"\ndevice = \"emmc-4.5-64gb\"\nfree_bytes = 16777216\n\
    [[job]]\nname = \"readers\"\nprocesses = 2\nrw = \"randread\"\nbs = \"{kib}k\"\nrequests = 60\n\
    mode = \"direct\"\n\
    [[job]]\nname = \"writers\"\nprocesses = 2\nrw = \"randwrite\"\nbs = \"64k\"\nrequests = 60\n\
    mode = \"buffered\"\nfsync = 8\n\
    [timeline]\naxes = { scheduler = [\"cfq-3.4\"] }\n\
    [axes]\nscheduler = [\"cfq-3.4\", \"noop\"]\nkib = [4, 16]\n";

const IOPING: &str = "repeats = 2\n[workload]\nkind = \"ioping\"\n\
    options = \"-D -i 0 -c 40 -s {size_kib}k directory\"\nreaders = 2\nwriters = 2\nmixed = 1\n\
    [host]\nboard = \"odroid-xu\"\ndevice = \"emmc-4.5-64gb\"\nfree_bytes = 67108864\n\
    [axes]\nprofile = [\"v0.9\", \"v1.3\"]\nscheduler = [\"noop\", \"sfq\"]\nsize_kib = [4, 64]\n";

const IOPING_DEVICE: &str = "part = \"k9f2g08u0c\"\nrepeats = 2\n[workload]\nkind = \"ioping\"\n\
    options = \"-{access} -i 1ms -c 20 {target}\"\n\
    [host]\nboard = \"odroid-xu\"\ndevice = \"emmc-4.5-64gb\"\nblock_device = \"emmc-4.5-64gb\"\n\
    free_bytes = 8388608\n\
    [axes]\nfile_system = [\"none\", \"fat\", \"nilfs2\"]\nprofile = [\"v0.9\", \"v1.3\"]\n\
    scheduler = [\"noop\", \"cfq\"]\naccess = [\"C\", \"WWW\", \"DWWW\"]\ntarget = [\"directory\", \"file\"]\n";

const IOPING_NAND: &str = "part = \"k9f2g08u0c\"\nblocks = 160\nrepeats = 2\n[workload]\nkind = \"ioping\"\n\
    options = \"-i 1ms -c 20 {target}\"\nreaders = 1\nwriters = 1\nmixed = 1\n\
    [host]\nboard = \"s5pv210-datasheet\"\nfree_bytes = 1048576\n\
    [flash_states.used]\nfill_percent = 20\nrewritten_percent = 20\nfile_kib_max = 128\n\
    [axes]\nfile_system = [\"jffs2\", \"ubifs\", \"yaffs2\"]\nflash = [\"fresh\", \"used\"]\n\
    target = [\"directory\"]\n";

const IOZONE: &str = "part = \"k9f2g08u0c\"\nblocks = 160\nrepeats = 2\n\
    [workload]\nkind = \"iozone\"\noptions = \"-i 0 -i 1 -s 128k -r {record}k -e\"\n\
    [host]\nboard = \"s5pv210-datasheet\"\n\
    [flash_states.used]\nfill_percent = 20\nrewritten_percent = 20\nfile_kib_max = 128\n\
    [axes]\nfile_system = [\"jffs2\", \"nilfs2\"]\nscheduler = [\"noop\", \"cfq\"]\nrecord = [16]\n\
    flash = [\"fresh\", \"used\"]\n";

const RAW_NAND: &str = "part = \"k9f2g08u0c\"\nblocks = 160\nrepeats = 2\n\
    [workload]\nkind = \"raw-nand\"\nWORK\n\
    [host]\nboard = \"s5pv210-datasheet\"\n\
    [flash_states.used]\nfill_percent = 20\nrewritten_percent = 20\nfile_kib_max = 128\n\
    [axes]\nfile_system = [\"jffs2\", \"ubifs\", \"yaffs2\"]\nflash = [\"used\"]\n";

const SCRIPT: &str = "mkdir d 755\nputn d/f 0 20 644 5000 1000 x 1\nsync\n\
    put new 644 5000 1000 t 2 fsync\nrename new d/f00000\nsleep 60000\ndrop\nread d/f00000 4096\n";

/// Name of the study, its text, and what [`shown`] makes of its results.
fn studies() -> Vec<(&'static str, String, &'static str)> {
    let generated = |kind| GENERATED.replace("KIND", kind);
    let raw_nand = |work: &str, axes: &str| RAW_NAND.replace("WORK", work) + axes;
    vec![
        ("hot-cold", generated("hot-cold"), "b2ed51d685d1a60a 768 0 24 0 0"),
        ("ioping", IOPING.into(), "e558e8d9ea490b49 1104 0 0 0 24"),
        ("ioping on a device", IOPING_DEVICE.into(), "b37dfa734baf0bf1 5904 0 0 0 74"),
        ("ioping on raw NAND", IOPING_NAND.into(), "4d0c1d43915eeaf8 876 0 0 0 18"),
        ("iozone", IOZONE.into(), "c51884b1475df869 1152 0 0 0 0"),
        ("jobs", JOBS.into(), "8567730183476a2b 488 0 0 0 0"),
        ("raw-nand mount", raw_nand("", "test = [\"mount\"]\n"), "b3210c83be93ea52 96 0 0 0 0"),
        (
            "raw-nand cut",
            raw_nand("", "test = [\"mount-after-cut\"]\nwritten_mib = [1]\n"),
            "00586a54911606bb 108 0 0 0 0",
        ),
        (
            "raw-nand script",
            raw_nand("script = \"work.ops\"", "test = [\"lifecycle\"]\n"),
            "205d70bd69c4093d 498 0 0 0 0",
        ),
        ("sequential", generated("sequential"), "11a318d44690210f 768 0 24 0 0"),
        ("trace", TRACE.into(), "6ba191031eb9b435 480 32 8 1512 1"),
        ("uniform", generated("uniform"), "248dac264038b076 776 0 24 0 0"),
    ]
}

/// The kind of a study of [`studies`]: its name goes on with what is special about it.
fn kind_of(name: &str) -> &str {
    name.split(' ').next().expect("a word")
}

/// A real kernel carries out studies of kind `kernel`, so their rows are not the same twice.
const WITHOUT_DIGEST: &str = "kernel";

fn requests(count: u64, length_bytes: u32) -> Vec<Record> {
    let kinds = [Operation::Write, Operation::Write, Operation::Read, Operation::Trim];
    let one = |number: u64| {
        let offset_bytes = number * 7919 % 500 * 512;
        Record::new(number, kinds[number as usize % kinds.len()], offset_bytes, length_bytes)
    };
    (0..count).map(one).collect()
}

/// All that a study yields, in short: the beginning of its digest, then the numbers of rows, derived rows,
/// curves, points of curves, and notes.
fn shown(results: &StudyResults) -> String {
    let StudyResults { rows, derived, curves, notes, .. } = results;
    let points: usize = curves.iter().map(|(_, points)| points.points().count()).sum();
    format!(
        "{} {} {} {} {} {}",
        &results.digest()[..16],
        rows.len(),
        derived.len(),
        curves.len(),
        points,
        notes.len()
    )
}

#[test]
fn every_kind_of_workload_has_a_digest() {
    let studies = studies();
    let has_study = |kind: &str| studies.iter().any(|(name, ..)| kind_of(name) == kind);
    let kinds = WORKLOADS.iter().map(|kind| kind.name).filter(|kind| *kind != WITHOUT_DIGEST);
    assert_eq!(kinds.filter(|kind| !has_study(kind)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn results_of_every_kind_of_workload_stay_as_they_are() {
    let folder = Folder::new("digests");
    folder.trace("large.parquet", &requests(2000, 2048));
    folder.trace("small.parquet", &requests(2000, 300));
    folder.write("work.ops", SCRIPT);
    let mut wrong = String::new();
    for (name, text, expected) in studies() {
        let path = folder.write("study.toml", &format!("{HEAD}{text}"));
        let results = load(&path, &[], None, false)
            .and_then(|study| run_study(&study, 2, &mut |_, _, _| true));
        let found = results.map_or_else(|error| error.to_string(), |results| shown(&results));
        if found != expected {
            writeln!(wrong, "{name}: {found}, expected {expected}").expect("a string");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
