//! Scripts that searches found, with the cut that shows what real code loses there.
//!
//! `lost-attribute`, and `lost-name` by an erase: Linux 6.12 mounted the chips after these cuts, and after others of
//! the same scripts, and showed the same names. `lost-growth`, `old-chunk`: the library yaffs-direct shows the same bytes.
//! `rename-over-linked`: it shows memory that was freed in the place of the other name, and no such file later.

use crash::{Crash, Cuts, Outcome, Recoveries, Sabotage, Setup, find_torn_model};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};

struct Bench {
    kind: &'static str,
    blocks: u32,
    pages_per_block: u32,
}

const JFFS2: Bench = Bench { kind: "jffs2", blocks: 40, pages_per_block: 64 };
const JFFS2_SMALL: Bench = Bench { kind: "jffs2", blocks: 64, pages_per_block: 16 };
/// A chip that three files of 3 MB fill.
const YAFFS2_FULL: Bench = Bench { kind: "yaffs2", blocks: 28, pages_per_block: 16 };
const YAFFS2: Bench = Bench { kind: "yaffs2", blocks: 64, pages_per_block: 16 };

/// The page that cut 175 tears ends a block: it has copies of names, and the summary.
const COPIED_NAME: &str = include_str!("support/copied-name.ops");

/// Cut 127 is that of an erase of a block with bytes of a file that is being made empty.
const ERASE_BESIDE_LOST_GROWTH: &str = include_str!("support/erase-beside-lost-growth.ops");

/// What the cuts of a script show; all of its cuts without `only`.
fn outcome(
    bench: &Bench,
    calls: &str,
    torn: &str,
    only: Option<u64>,
    recoveries: Recoveries,
) -> Outcome {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = bench.blocks;
    part.geometry.pages_per_block = bench.pages_per_block;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = find_layout("linux-large").expect("in the table");
    let request = MountRequest { seed: 1, ..MountRequest::default() };
    let setup = Setup { kind: bench.kind, request, layout, seed: 1, sabotage: Sabotage::None };
    let crash = Crash::new(&chip, &setup, &script::parse(calls).expect("a script"));
    let torn = vec![find_torn_model(torn).expect("in the table")];
    let cuts = Cuts { only, torn, recoveries, ..Cuts::default() };
    crash.expect("it runs").run(&cuts, |_, _| true).expect("there is such a cut")
}

/// No cut is a violation, and these hazards strike, each at so many cuts.
fn assert_hazards(outcome: &Outcome, hazards: &[(&str, u64)]) {
    assert_eq!(outcome.violations().count(), 0, "{outcome:?}");
    let struck: Vec<(&str, u64)> =
        outcome.torn[0].hazards.iter().map(|(name, count)| (*name, *count)).collect();
    assert_eq!(struck, hazards, "{outcome:?}");
}

/// The page with the header of the copy and with a part of its value.
const COPY: u64 = 156;

fn attribute_calls() -> String {
    // A value that reaches over the end of a page. Each fsync collects until the page with its data is full and
    // written (`jffs2_flush_wbuf_gc`).
    let value = "5a".repeat(1500);
    format!(
        "mkdir d 755\nsetxattr d user.b {value}\nput big 644 150000 4096 x 7\nsync\n\
         put a 644 100 4096 x 1 fsync\nput a 644 100 4096 x 2 fsync\n"
    )
}

#[test]
fn a_cut_of_the_copy_of_an_attribute_loses_it() {
    let calls = attribute_calls();
    for torn in ["prefix", "data-only"] {
        let lost = outcome(&JFFS2, &calls, torn, Some(COPY), Recoveries::None);
        assert_hazards(&lost, &[("lost-attribute", 1)]);
    }
    // Of a page of which nothing is left the scan finds no header, so the old node counts.
    assert_hazards(&outcome(&JFFS2, &calls, "nothing", Some(COPY), Recoveries::None), &[]);
    // And no other cut loses it.
    let all = outcome(&JFFS2, &calls, "prefix", None, Recoveries::None);
    assert_hazards(&all, &[("lost-attribute", 1)]);
}

#[test]
fn a_cut_of_the_erase_of_a_name_that_was_copied_loses_it() {
    // Rewritten files make blocks dirty, and the thread of the collector copies what is left in them.
    let calls = "mkdir d0 755\nrepeat 8 {\nputn d0/b 0 5 644 40000 4096 x 163\n}\numount\nmount -\n\
                 sleep 40s\n";
    let erase = 957;
    let lost = outcome(&JFFS2, calls, "prefix", Some(erase), Recoveries::None);
    assert_hazards(&lost, &[("lost-name", 1)]);
    // The summary goes with the names, or stays with them.
    for torn in ["data-only", "nothing"] {
        assert_hazards(&outcome(&JFFS2, calls, torn, Some(erase), Recoveries::None), &[]);
    }
}

#[test]
fn a_copy_of_a_name_that_is_damaged_beside_a_whole_summary_loses_it() {
    let lost = outcome(&JFFS2_SMALL, COPIED_NAME, "data-only", Some(175), Recoveries::None);
    assert_hazards(&lost, &[("lost-name", 1)]);
}

/// A torn page left a directory under its old name, and under its new one in a directory that lost its own. Linux 6.12
/// mounted the chip and showed the old name with all below it.
#[test]
fn a_directory_outlives_a_dead_one_that_names_it() {
    let calls = "mkdir d0 755\nmkdir d0/e 755\nmkdir d1 755\nsymlink ring ring\nsymlink ../to/567 d0/n1\n\
                 setxattr d1 trusted.c 5a\nrename d0 d1/f\nput n1 644 0 1 z 0 fsync\n";
    for torn in ["prefix", "data-only"] {
        assert_hazards(&outcome(&JFFS2, calls, torn, Some(80), Recoveries::None), &[]);
    }
}

#[test]
fn a_deletion_that_a_torn_page_lost_shows_what_the_file_got_after_it() {
    let calls = "mkdir d0 755\nmkdir d0/e 755\nmknod d0/n1 600 c 0 0\nmkdir d1 755\nsymlink ring ring\n\
                 open o d0/a-name-of-more-than-fifteen-bytes0 rw,creat\nput n1 644 1 1 t 0\nunlink d0/n1\n\
                 unlink d0/a-name-of-more-than-fifteen-bytes0\npwrite o 1 2304 t 1\n";
    assert_hazards(&outcome(&JFFS2_SMALL, calls, "data-only", Some(2), Recoveries::None), &[]);
}

#[test]
fn a_deletion_that_a_torn_page_lost_shows_in_the_directory_under_its_new_name() {
    let calls = "mkdir d0 755\nmkdir d0/e 755\nputn d0/b 0 30 644 40000 4096 x 1\nunlinkn d0/b 0 26\n\
                 rename d0 d1\n";
    assert_hazards(&outcome(&JFFS2_SMALL, calls, "data-only", Some(679), Recoveries::None), &[]);
}

#[test]
fn a_rename_over_one_of_several_names_deletes_the_file_under_all_of_them() {
    // The header of the rename is there, and nothing of the target's deletion. Then that of the other name is, too.
    for (bytes, both) in [(0, 4), (1, 6), (5000, 8)] {
        let calls =
            format!("put a 644 {bytes} 4096 x 0\nlink a b\nput c 644 0 4096 x 0\nrename c a\n");
        let gone = outcome(&YAFFS2, &calls, "nothing", Some(both), Recoveries::None);
        assert_hazards(&gone, &[("rename-over-linked", 1)]);
        let doubled = outcome(&YAFFS2, &calls, "nothing", Some(both + 1), Recoveries::None);
        assert_hazards(&doubled, &[("doubled-name", 1)]);
    }
}

#[test]
fn zeros_of_a_truncate_are_lost_behind_a_write_that_was_cut() {
    let calls = "open o n1 rw,creat,trunc\ntruncate n1 8192\nsync\nwrite n1 0 2257 5 r 0\n";
    let lost = outcome(&YAFFS2, calls, "nothing", Some(8), Recoveries::None);
    assert_hazards(&lost, &[("lost-growth", 1)]);
}

#[test]
fn zeros_of_a_truncate_are_lost_while_bytes_behind_them_wait_in_memory() {
    let calls = "open o f a,creat\ntruncate f 8192\nsync\npwrite o 0 1 t 0\nput n 644 1 1 r 0\n";
    for cut in [8, 9] {
        let lost = outcome(&YAFFS2, calls, "nothing", Some(cut), Recoveries::None);
        assert_hazards(&lost, &[("lost-growth", 1)]);
    }
}

#[test]
fn erased_bytes_of_which_the_code_corrects_a_bit_are_those_of_an_erase() {
    let calls = "mkdir d0 755\nmkdir d0/e 755\nmkdir d1 755\nsymlink ring ring\nput n2 644 19088 1 t 0\n\
                 sleep 1s\nopen o n2 rw,creat,trunc\n";
    let torn = outcome(&YAFFS2, calls, "data-only", Some(24), Recoveries::None);
    assert_hazards(&torn, &[("erased-chunk", 1)]);
}

#[test]
fn what_the_first_cut_left_explains_a_finding_behind_the_second() {
    // An erase left the tags of its block; the mount after it is cut in another way.
    let calls = "mkdir d0 755\nmkdir d0/e 755\nput a 644 1 1 z 0\nopen o1 d0/e/a rw,creat,excl\n\
                 symlink n1 n1\nopen o2 a rw,creat,trunc\nrename d0/e/a a\nsleep 40s\n";
    let then = vec!["0:prefix".parse().expect("a cut")];
    let torn = outcome(&YAFFS2, calls, "data-only", Some(22), Recoveries::Only(then));
    assert_hazards(&torn, &[]);
}

/// The growth of one file is lost by the first write behind it, and the erase that follows leaves bytes in another.
#[test]
fn bytes_of_an_erase_may_stand_beside_a_lost_growth() {
    let calls = ERASE_BESIDE_LOST_GROWTH;
    let erased = outcome(&YAFFS2, calls, "data-only", Some(127), Recoveries::None);
    assert_hazards(&erased, &[("erased-chunk", 1)]);
    let lost = outcome(&YAFFS2, calls, "nothing", Some(127), Recoveries::None);
    assert_hazards(&lost, &[("lost-growth", 1)]);
}

/// The mount after the first cut deletes what the rename replaced. A cut of that mount brings it back (`revived-target`),
/// and the zeros that a truncate added to another file are on no page. This chip was not given to real code.
#[test]
fn a_growth_may_be_lost_while_a_replaced_file_comes_back() {
    let calls = "mkdir d0 755\nmkdir d0/e 755\nput n2 644 2384 1 x 0\nput d0/n2 644 2362 1 t 0\n\
                 symlink ../to/401 n3\nput big 644 2097152 4096 x 0\ntruncate n2 2421\n\
                 mknod a-name-of-more-than-fifteen-bytes0 644 s\nput d0/e/n1 644 0 1 z 0\n\
                 put d0/e/n3 644 0 1 z 0\nlink n2 n1\nsleep 1s\nrename d0/n2 n3\n";
    let then = vec!["1:nothing".parse().expect("a cut")];
    let lost = outcome(&YAFFS2, calls, "prefix", Some(881), Recoveries::Only(then));
    assert_hazards(&lost, &[("lost-growth", 1)]);
}

/// The last program before the first of these cuts is a copy of the header, by the collector. Chunks before its size
/// are in the cache.
#[test]
fn a_file_that_is_written_anew_shows_bytes_that_were_cut_off() {
    let calls = "mkdir d 755\nsymlink ring ring\ntry put f 644 3000000 65536 x 719\n\
                 try put f 644 3000000 65536 x 719\ntry put f 644 3000000 65536 x 995\n";
    for cut in [1034, 1035] {
        let old = outcome(&YAFFS2_FULL, calls, "nothing", Some(cut), Recoveries::None);
        assert_hazards(&old, &[("old-chunk", 1)]);
    }
    let whole = outcome(&YAFFS2_FULL, calls, "nothing", Some(1033), Recoveries::None);
    assert_hazards(&whole, &[]);
}
