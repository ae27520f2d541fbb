//! What lines of the harness do: mounts, chips that come and go, power cuts, and what is refused.

use harness::{HarnessError, Record, Setup, counts_csv, prepare, run, sequence};
use mount::{Driver, MountRequest, find_kind};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::rc::Rc;

fn setup(file_system: Option<&str>) -> Setup {
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

fn play(text: &str, setup: &Setup) -> Result<(Chip, Record), HarnessError> {
    let commands = script::parse(text).expect("a script");
    let chip = Chip::new(&setup.part, Storage::Bytes, &FaultSettings::default());
    run(&commands, chip, setup, Box::new(|_, _| true))
}

fn refused(text: &str, file_system: Option<&str>) -> String {
    let commands = script::parse(text).expect("a script");
    prepare(&commands, &setup(file_system)).expect_err("refused").to_string()
}

#[test]
fn a_script_without_mounts_is_mounted_before_and_unmounted_after() {
    for name in ["jffs2", "yaffs2"] {
        let (_, record) = play("put a 644 5000 1000 x 1\n", &setup(Some(name))).expect(name);
        assert!(!record.is_mounted);
        let phases: Vec<&str> = record.phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(phases, ["script"]);
        assert!(record.phases[0].counts.programs() > 2 && record.phases[0].duration_ns > 0);
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
    for name in ["jffs2", "yaffs2"] {
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
    assert!(refused("mount ubifs ubi0:gold -", None).starts_with("line 1: "));
    assert_eq!(
        refused("mount -", None),
        "line 1: which file system is mounted? give --fs: jffs2, yaffs2"
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
    let ubi = "cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl\nmount -";
    assert!(refused(ubi, jffs2).starts_with("line 1: UBI is not here yet"));
}
