//! What control lines do: mounts, chips that come and go, power cuts, and what is refused.

use file_systems::find_kind;
use mount::{BlockDeviceChoice, Driver, MountRequest};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use script_runner::{Record, RunnerError, Setup, counts_csv, prepare, run, sequence};
use std::rc::Rc;

pub(crate) fn setup(file_system: Option<&str>) -> Setup {
    let mut part = find_part("nandsim-64MiB").expect("in the catalogue");
    part.geometry.blocks = 32;
    let layout = find_layout("linux-large").expect("in the table");
    Setup {
        kind: file_system.map(|name| find_kind(name).expect("in the table")),
        driver: Driver::of_board(layout, Rc::new(board::Board::without_costs())),
        request: MountRequest { has_write_back: false, seed: 1, ..MountRequest::default() },
        part,
        keeps_going: false,
        logs_operations: true,
    }
}

pub(crate) fn play(text: &str, setup: &Setup) -> Result<(Chip, Record), RunnerError> {
    let commands = script::parse(text).expect("a script");
    let chip = Chip::new(&setup.part, Storage::Bytes, &FaultSettings::default());
    run(&commands, chip, setup, Box::new(|_, _| true))
}

pub(crate) fn refused(text: &str, file_system: Option<&str>) -> String {
    let commands = script::parse(text).expect("a script");
    prepare(&commands, &setup(file_system)).expect_err("refused").to_string()
}

#[test]
fn a_script_without_mounts_is_mounted_before_and_unmounted_after() {
    for name in ["jffs2", "ubifs", "yaffs2"] {
        let (_, record) = play("put a 644 5000 1000 x 1\n", &setup(Some(name))).expect(name);
        assert!(!record.is_mounted);
        let phases: Vec<&str> = record.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(phases, ["script"]);
        assert!(record.phases[0].counts.programs() > 2 && record.phases[0].duration_ns > 0);
    }
}

#[test]
fn a_script_without_mounts_may_end_with_a_power_cut() {
    for name in ["jffs2", "ubifs", "yaffs2"] {
        let script = "put a 644 5000 1000 x 1 fsync\npowercut\n";
        let (_, record) = play(script, &setup(Some(name))).expect(name);
        assert!(!record.is_mounted && record.failures.is_empty());
    }
}

#[test]
fn a_power_cut_takes_what_was_not_synced_and_the_next_mount_goes_on() {
    let script = "mount -\nput kept 644 4096 4096 x 1 fsync\nput lost 644 100 100 x 2\n\
                  powercut\nmount -\nread kept 4096\nread lost 4096\n";
    let error = play(script, &setup(Some("jffs2"))).expect_err("the file is gone");
    assert_eq!(error.to_string(), "line 7: read: ENOENT: no such file or directory");
    let (_, record) =
        play(script, &Setup { keeps_going: true, ..setup(Some("jffs2")) }).expect("it goes on");
    assert_eq!(record.failures.len(), 1);
    assert!(record.is_mounted);
}

#[test]
fn phases_count_over_power_cuts_and_not_while_the_log_is_off() {
    let script = "phase a\nmount -\nput f 644 4096 4096 x 1 fsync\npowercut\nmount -\n\
                  read f 4096\nlog off\nput g 644 65536 4096 x 1 fsync\numount\nlog on\nphase -\n";
    let (_, record) = play(script, &setup(Some("jffs2"))).expect("a script");
    let counts = record.phases[0].counts;
    assert!(counts.reads() > 2 * 32 && counts.programs() < 40, "{counts:?}");
    let logged = sequence(&record);
    let count =
        |letter: char| logged.lines().filter(|line| line.starts_with(letter)).count() as u64;
    assert_eq!(count('R') + count('S') + count('O'), counts.reads());
    assert_eq!(count('P') + count('Q'), counts.programs());
    assert_eq!(count('E'), counts.erases);
    let csv = counts_csv(&record, "some/thing", 7);
    let row: Vec<&str> = csv.lines().nth(1).expect("a row").split(',').collect();
    assert_eq!(row[..2], ["some/thing", "a"]);
    assert_eq!(row[5..7], ["7", "linux-6.12"]);
}

#[test]
fn a_chip_that_was_kept_comes_back() {
    let script = "mount -\nput f 644 4096 4096 x 1 fsync\nsnap /tmp/one\nunlink f\nsync\n\
                  umount\ncmd rmmod nandsim\ncmd modprobe nandsim id_bytes=0\nload /tmp/one\n\
                  mount -\nread f 4096\numount\n";
    for name in ["jffs2", "ubifs", "yaffs2"] {
        let (_, record) = play(script, &setup(Some(name))).expect(name);
        assert!(record.kept.contains_key("/tmp/one"));
    }
}

#[test]
fn settling_waits_for_the_threads_but_not_for_ever() {
    let (_, record) =
        play("phase a\nmount -\nsettle 1200\numount\n", &setup(Some("jffs2"))).expect("idle");
    assert_eq!(record.phases[0].counts.erases, 32);
    assert!(record.phases[0].duration_ns >= 1_200_000_000);
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_runs() {
    assert_eq!(
        refused("mount -", None),
        "line 1: which file system is mounted? give --fs: fat, jffs2, jffs2-block2mtd, nilfs2, ubifs, yaffs2"
    );
    let jffs2 = Some("jffs2");
    assert!(refused("mount yaffs2 /dev/mtdblock0 -", jffs2).contains("leave --fs out"));
    assert!(refused("mount -\nmount -", jffs2).starts_with("line 2: a file system is mounted"));
    assert!(refused("mount -\numount\nsync", jffs2).starts_with("line 3: nothing is mounted"));
    assert!(refused("mount -\npowercut\nsync", jffs2).starts_with("line 3: nothing is mounted"));
    assert!(refused("mount blocks=64", jffs2).contains("wants 64 blocks, but the chip has 32"));
    assert!(refused("load x\nmount -", jffs2).contains("no chip was kept as `x`"));
    assert!(refused("mount -\nsnap x\nload x", jffs2).contains("in use"));
    assert!(refused("cmd rmmod nandsim\nmount -", jffs2).contains("there is no chip"));
    assert!(refused("sleep 99999999999999999", jffs2).contains("more than a year"));
    assert!(refused("mount jffs2 mtd0 ,ro", jffs2).contains("an option is empty"));
}

const FORMAT: &str = "cmd ubiformat /dev/mtd0 -q -y -Q 42";
const ATTACH: &str = "cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl";
const MAKE: &str = "cmd ubimkvol /dev/ubi0 -N gold -m";
const DETACH: &str = "cmd ubidetach -d 0";

#[test]
fn a_device_is_formatted_attached_mounted_and_detached() {
    let script = format!(
        "{FORMAT}\n{ATTACH}\n{MAKE}\nmount ubifs ubi0:gold compr=none\nput f 644 9000 4096 x 1\n\
         umount\nmount -\nread f 4096\numount\n{DETACH}\n{ATTACH}\nmount ubifs ubi0:gold ro\n\
         read f 4096\numount\n"
    );
    let (_, record) = play(&script, &setup(Some("ubifs"))).expect("a script");
    assert_eq!((record.file_system, record.is_mounted), (Some("ubifs"), false));
    assert_eq!(record.findings, Vec::<String>::new());
    let wrong = script.replace("mount ubifs ubi0:gold ro", "mount ubifs ubi0:silver ro");
    let error = play(&wrong, &setup(Some("ubifs"))).expect_err("no such volume");
    assert!(error.to_string().contains("no volume `silver`; the device has: gold"), "{error}");
}

#[test]
fn a_line_of_its_own_says_where_headers_stand_and_else_the_setup_does() {
    let mut asked = setup(Some("ubifs"));
    asked.request.ubi.header_offset = Some(2048);
    let made = format!("{FORMAT}\n{ATTACH}\n{MAKE}\n{DETACH}\n");
    let (chip, _) = play(&made, &asked).expect("a script");
    let attach = script::parse(ATTACH).expect("a script");
    let error = run(&attach, chip.clone(), &setup(None), Box::new(|_, _| true));
    assert!(error.expect_err("elsewhere").to_string().contains("attach with header offset 2048"));
    let there = script::parse("cmd ubiattach -m 0 -d 0 -O 2048 /dev/ubi_ctrl").expect("a script");
    run(&there, chip, &setup(None), Box::new(|_, _| true)).expect("it attaches");
}

#[test]
fn a_power_cut_ends_the_attachment() {
    let script = format!(
        "{FORMAT}\n{ATTACH}\n{MAKE}\nmount ubifs ubi0:gold -\nput kept 644 4096 4096 x 1 fsync\n\
         powercut\n{ATTACH}\nmount ubifs ubi0:gold -\nread kept 4096\n"
    );
    let (_, record) = play(&script, &setup(None)).expect("a script");
    assert!(record.is_mounted);
    let without = script.replacen(&format!("powercut\n{ATTACH}"), "powercut", 1);
    assert!(refused(&without, None).starts_with("line 7: the chip is not attached to UBI"));
}

#[test]
fn lines_about_ubi_in_a_wrong_order_are_refused() {
    let not_attached = "the chip is not attached to UBI";
    for line in ["mount ubifs ubi0:gold -", MAKE, DETACH] {
        assert!(refused(line, None).starts_with(&format!("line 1: {not_attached}")), "{line}");
    }
    for line in [FORMAT, ATTACH, "cmd rmmod nandsim", "mount jffs2 mtd0 -"] {
        let found = refused(&format!("{ATTACH}\n{line}"), None);
        assert!(found.starts_with("line 2: the chip is attached to UBI"), "{line}: {found}");
    }
    for line in [FORMAT, ATTACH, DETACH] {
        let found = refused(&format!("{ATTACH}\nmount ubifs ubi0:gold -\n{line}"), None);
        assert!(found.ends_with("an umount line must come first"), "{line}: {found}");
    }
    assert!(refused(&format!("{ATTACH}\nsync"), None).contains("nothing is mounted"));
}

#[test]
fn a_file_that_is_read_in_order_is_read_at_once_if_the_mount_says_so() {
    let reads = |option: &str| {
        let script = format!(
            "{FORMAT}\n{ATTACH}\n{MAKE}\nmount ubifs ubi0:gold compr=none,{option}\n\
             put f 644 1000000 4096 x 1 fsync\ndrop\nphase read\nread f 4096\nphase -\n\
             write f 8192 5000 5000 t 1\ndrop\nread f 4096\numount\n"
        );
        let (_, record) = play(&script, &setup(None)).expect(option);
        assert_eq!(record.findings, Vec::<String>::new());
        let phase = record.phases.iter().find(|phase| phase.name == "read").expect("a phase");
        phase.counts.reads()
    };
    let (singly, at_once) = (reads("no_bulk_read"), reads("bulk_read"));
    // A node of 4,144 bytes lies on three pages, 32 of them on 65 or 66.
    assert!(singly > 3 * 240 && at_once < singly * 3 / 4, "{singly}, {at_once}");
}

#[test]
fn fat_is_mounted_on_mtdblock_and_on_a_card() {
    let script = "mount -\nput a 644 50000 1000 x 1 fsync\numount\nmount -\nread a 4096\numount\n";
    let raw_nand = setup(Some("fat"));
    let (_, record) = play(script, &raw_nand).expect("carried out");
    assert!(record.phases[0].counts.programs() > 25, "{:?}", record.phases);
    let mut card = raw_nand;
    card.request.block.device = BlockDeviceChoice::find("emmc-4.5-64gb").expect("a preset");
    let (_, record) = play(script, &card).expect("carried out");
    assert_eq!(record.phases[0].counts.programs(), 0, "the chip is beside the card");
    assert!(record.phases[0].duration_ns > 1_000_000);
    let error = play("mount -\nput a 644 1 1 x 1\npowercut\n", &card).expect_err("refused");
    let told =
        "line 3: the line is about the raw chip, and files are on `emmc-4.5-64gb`: leave it out";
    assert_eq!(error.to_string(), told);
    card.kind = Some(find_kind("ubifs").expect("in the table"));
    let error = play("put a 644 1 1 x 1\n", &card).expect_err("refused").to_string();
    assert!(error.contains("ubifs works on raw NAND itself"), "{error}");
}

#[test]
fn a_script_that_mounts_and_has_no_phase_is_one_phase() {
    for text in ["mount -\nput a 644 5000 1000 x 1\numount\n", "mount -\nphase -\nsync\nphase -\n"]
    {
        let (_, record) = play(text, &setup(Some("jffs2"))).expect("carried out");
        let phases: Vec<&str> = record.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(phases, ["script"], "{text}");
    }
}

#[test]
fn messages_name_the_pass_of_each_block() {
    let failed = |text: &str| play(text, &setup(Some("jffs2"))).expect_err("it fails").to_string();
    let text =
        "for i in 1..20 {\nput f$i 644 1 1 x 1\n}\nfor i in 15..25 {\nrepeat 1 { unlink f$i }\n}\n";
    let expected = "line 5, column 12, i=21, pass 1: unlink: ENOENT: no such file or directory";
    assert_eq!(failed(text), expected);
    let unmounted = refused("mount -\nrepeat 2 {\numount\n}\n", Some("jffs2"));
    assert_eq!(unmounted, "line 3, pass 2: nothing is mounted");
    let open = failed("mount -\nopen log a w,creat\numount\n");
    assert!(open.starts_with("line 3: umount: EBUSY") && open.ends_with("`close log` comes first"));
    let missing = failed("append nothing 1 1 x 1\n");
    assert!(missing.contains("make it with `put` first, or with `open NAME PATH rw,creat`"));
}

#[test]
fn tried_calls_are_reported_once_a_line() {
    let text = "repeat 5 {\ntry unlink a\n}\ntry unlink b\nfails ENOENT unlink c\n";
    let (_, record) = play(text, &setup(Some("jffs2"))).expect("carried out");
    let found: Vec<(String, u64)> =
        record.failures.iter().map(|one| (one.place.to_string(), one.times)).collect();
    assert_eq!(found, [("2, pass 1".to_owned(), 5), ("4".to_owned(), 1)]);
}

#[test]
fn passes_of_every_begin_at_multiples_also_behind_a_power_cut() {
    let text = "mount -\nphase first\nevery 10s for 1m {\nsync\n}\nphase -\npowercut\nmount -\n\
                phase second\nevery 10s for 30s {\nsleep 12s\n}\nphase -\n";
    let (_, record) = play(text, &setup(Some("jffs2"))).expect("carried out");
    let seconds = |at: usize| record.phases[at].duration_ns / 1_000_000_000;
    // The mount has taken time: from the first multiple behind it to the sixth; then on from the next one.
    assert!((50..=60).contains(&seconds(0)), "{}", seconds(0));
    assert!((36..=46).contains(&seconds(1)), "{}", seconds(1));
    let late = &record.lateness;
    assert_eq!((late[0].passes, late[0].late), (6, 0));
    assert_eq!((late[1].passes, late[1].late), (3, 2));
    assert_eq!(late[1].worst_ns, 4_000_000_000);
}

#[test]
fn processes_run_side_by_side_in_simulated_time() {
    let text = "mount -\nphase both\nconcurrent {\nrepeat 5 { sleep 2s }\nput a 644 9000 4096 x 1 fsync\n} {\n\
                sleep 3s\nput b 644 9000 4096 x 2 fsync\nopen c b r\npread c 0 10\n}\nphase -\nread a 4096\n\
                read b 4096\numount\n";
    for kind in ["jffs2", "ubifs", "yaffs2"] {
        let (_, record) = play(text, &setup(Some(kind))).expect(kind);
        // The longer of both, and not the sum.
        assert_eq!(record.phases[0].duration_ns / 1_000_000_000, 10, "{kind}");
    }
    let failed = |text: &str| play(text, &setup(Some("jffs2"))).expect_err("it fails").to_string();
    let own = "open log a w,creat\nconcurrent {\nwrite log 4 x 1\n}\n";
    assert!(
        failed(own).starts_with("line 3: write: EBADF: bad file descriptor; no file is open as")
    );
    let two = "concurrent { unlink a } { sleep 1s }\n";
    assert_eq!(failed(two), "line 1, column 14: unlink: ENOENT: no such file or directory");
}
