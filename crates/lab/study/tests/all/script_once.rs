//! Scripts and recorded sessions, carried out once on each file system.
#![allow(clippy::float_cmp, reason = "counts are whole numbers")]

use crate::support;

use mount::{Driver, MountRequest};
use nand::{Chip, FaultSettings, Storage};
use script_runner::Setup;
use std::rc::Rc;
use study::{StudyError, StudyResults, load, run_study};
use support::{Folder, by_place};

const HEAD: &str = "name = \"small\"\ntitle = \"Small\"\nquestion = \"Which one?\"\nseed = 1\n\
    part = \"k9f2g08u0c\"\nblocks = 160\n[host]\nboard = \"s5pv210-datasheet\"\n\
    [workload]\nkind = \"raw-nand\"\n";

/// Calls, two of them `fsync`, and a line that only `nandlab crash` reads.
const SCRIPT: &str = "mkdir d 755\nphase write\nputn d/f 0 20 644 5000 1000 x 1\nsync\nack 1\n\
    put new 644 5000 1000 x 2 fsync\nrename new d/f00000\n";

/// Two processes side by side.
const SIDE_BY_SIDE: &str =
    "concurrent { put a 644 20000 1000 x 1 fsync } { put b 644 20000 1000 x 2 fsync }\n";

fn study(name: &str, workload: &str, axes: &str) -> Result<(study::Study, Folder), StudyError> {
    let folder = Folder::new(&format!("script-{name}"));
    folder.write("work.ops", SCRIPT);
    folder.write("both.ops", SIDE_BY_SIDE);
    folder.write("mounts.ops", "put a 644 1 1 x 1\nmount -\n");
    folder.write("large.ops", "put a 644 60m 32k x 1\n");
    let text = format!("{HEAD}{workload}\n[axes]\ntest = [\"script\"]\n{axes}\n");
    let study = load(&folder.write("small.toml", &text), &[], None, false)?;
    Ok((study, folder))
}

fn run(study: &study::Study, jobs: usize) -> StudyResults {
    run_study(study, jobs, &mut |_, _, _| true).expect("a study that runs")
}

fn place(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Page reads, page programs and erases of the script by the runner behind `nandlab script`.
fn of_runner(file_system: &str, text: &str) -> [f64; 3] {
    let mut part = nand::find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 160;
    let kind = file_systems::find_kind(file_system).expect("in the table");
    let board = board::find_board("s5pv210-datasheet").expect("in the catalogue");
    let layout = mtd::find_layout("linux-large").expect("in the table");
    // A study takes the profile of its board's kernel; without one the runner takes the newest. JFFS2 of
    // Linux 2.6.29 writes no summary at the end of a block, so its files take other pages.
    let profile = kind.profile_of_kernel(&board.kernel).expect("a kernel that is known").name;
    let profile = Some(profile.to_owned());
    let setup = Setup {
        kind: Some(kind),
        driver: Driver::of_board(layout, Rc::new(board)),
        request: MountRequest { seed: 1, profile, ..MountRequest::default() },
        part: part.clone(),
        keeps_going: false,
        logs_operations: false,
    };
    // The first mount formats the chip, as a study does before its runs.
    let text = text.replace("phase write\n", "");
    let text =
        format!("mount -\nsleep 60s\numount\nmount -\nphase work\n{text}sync\nphase -\numount\n");
    let script = script::parse(&text).expect("a script");
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let ran = script_runner::run(&script, chip, &setup, Box::new(|_, _| true));
    let record = ran.expect("it runs").1;
    let work = record.phases.iter().find(|phase| phase.name == "work");
    let counts = work.expect("the phase of the script").counts;
    [counts.reads(), counts.programs(), counts.erases].map(|count| count as f64)
}

#[test]
fn counts_are_those_of_the_runner_of_scripts() {
    let axes =
        "file_system = [\"jffs2\", \"ubifs\", \"yaffs2\"]\nscript = [\"both.ops\", \"work.ops\"]";
    let (study, _folder) = study("oracle", "", axes).expect("right");
    let results = run(&study, 2);
    assert_eq!(results.digest(), run(&study, 1).digest(), "workers change nothing");
    let found = by_place(&results);
    for name in ["jffs2", "ubifs", "yaffs2"] {
        for (file, text) in [("both.ops", SIDE_BY_SIDE), ("work.ops", SCRIPT)] {
            let work = &found[&place(&[name, file, "script", "work"])];
            let counts = ["page_reads", "page_programs", "erases"].map(|metric| work[metric]);
            assert_eq!(counts, of_runner(name, text), "{name}, {file}");
        }
        let work = &found[&place(&[name, "work.ops", "script", "work"])];
        assert_eq!((work["host_write_bytes"], work["sync_calls"]), (105_000.0, 2.0), "{name}");
        let mean_ns = work["sync_mean_ns"];
        assert!(mean_ns > 0.0 && mean_ns <= work["sync_max_ns"], "{name}: {mean_ns}");
        let both = &found[&place(&[name, "both.ops", "script", "work"])];
        assert_eq!((both["host_write_bytes"], both["sync_calls"]), (40_000.0, 2.0), "{name}");
    }
}

#[test]
fn the_key_does_what_a_value_of_the_axis_does_and_a_full_flash_is_a_result() {
    let axes = "file_system = [\"nilfs2\", \"yaffs2\"]";
    let (of_key, _one) = study("key", "script = \"work.ops\"", axes).expect("right");
    let of_axis = format!("{axes}\nscript = [\"large.ops\", \"work.ops\"]");
    let (of_axis, _two) = study("axis", "", &of_axis).expect("right");
    let (of_key, of_axis) = (by_place(&run(&of_key, 1)), by_place(&run(&of_axis, 1)));
    for name in ["nilfs2", "yaffs2"] {
        let work = &of_key[&place(&[name, "script", "work"])];
        assert_eq!(work, &of_axis[&place(&[name, "work.ops", "script", "work"])], "{name}");
        let full = &of_axis[&place(&[name, "large.ops", "script", "work"])];
        assert_eq!((full["is_full"], full.len()), (1.0, 1), "{name}");
    }
}

#[test]
fn what_is_no_work_for_one_mount_is_refused() {
    let axes = "file_system = [\"jffs2\"]";
    for (name, workload, more, parts) in [
        (
            "mounts",
            "",
            "script = [\"mounts.ops\"]",
            vec!["mounts.ops", "line 2", "leave this line"],
        ),
        ("missing", "script = \"no.ops\"", "", vec!["no.ops"]),
        ("neither", "", "", vec!["`script`", "axis"]),
        ("twice", "script = \"work.ops\"", "script = [\"work.ops\"]", vec!["one of the two"]),
        ("options", "options = \"-i 0\"", "script = [\"work.ops\"]", vec!["options"]),
    ] {
        let Err(error) = study(name, workload, &format!("{axes}\n{more}")) else {
            panic!("{name}: it is refused")
        };
        let error = error.to_string();
        for part in parts {
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}

#[test]
fn the_example_of_the_page_on_studies_runs() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let page = std::fs::read_to_string(root.join("docs/studies.md")).expect("the page");
    let found = page.split("```toml\n").find(|block| block.starts_with("name = \"sessions\""));
    let text = found.and_then(|block| block.split("```").next()).expect("the example");
    let folder = Folder::new("script-page");
    let text = text.replace("\"../workloads", &format!("\"{}/workloads", root.display()));
    let study = load(&folder.write("sessions.toml", &text), &[], None, false).expect("right");
    let found = by_place(&run(&study, 2));
    assert_eq!(found.len(), 6, "three file systems, two sessions");
    for (place, work) in &found {
        assert!(work["is_full"] == 0.0 && work["page_programs"] > 0.0, "{place:?}: {work:?}");
        assert!(work["sync_calls"] > 0.0 && work["sync_mean_ns"] > 0.0, "{place:?}: {work:?}");
    }
}
