//! Options of a script's mount lines are honoured, after a cut as before it, or refused with the line.

use crate::support::bench::{chip, setup};
use crash::{Crash, CrashError, Cuts};
use file_systems::find_kind;
use mount::{Driver, MountRequest, run};
use nand::RawOperation;
use script::{Command, ControlLine, Runner, Script, Step, parse};

fn crash(kind: &'static str, text: &str) -> Result<Crash, CrashError> {
    Crash::new(&chip(64), &setup(kind), &parse(text).expect("a script"))
}

/// Calls of several kinds, and a file written in pieces that are not pages.
const CALLS: &str = "\
mkdir a 755
put a/f 644 9000 4096 x 1
append a/f 30000 4096 t 2
put a/g 600 100 100 x 3 fsync
write a/f 5000 2000 500 x 4
link a/f h
rename a/g g
truncate a/f 30000
unlink h
";

#[test]
fn every_refused_line_is_named_with_a_reason_and_a_way_out() {
    let cases = [
        (
            "ubifs",
            "mount ubifs ubi0:test garbage,nonsense\n",
            1,
            "mount option `garbage`",
            "known:",
        ),
        ("jffs2", "mount jffs2 mtd0 garbage\n", 1, "mount option `garbage`", "known:"),
        (
            "yaffs2",
            "mkdir b 755\numount\nmount yaffs2 /dev/mtdblock0 x\n",
            3,
            "mount option `x`",
            "",
        ),
        ("ubifs", "mount ubifs ubi0:test sync,\n", 1, "an option is empty", "or write `-`"),
        ("ubifs", "mount ubifs ubi0:test ro\n", 1, "changes nothing", "leave `ro` out"),
        ("ubifs", "mount jffs2 mtd0 -\n", 1, "mounts jffs2, and --fs is ubifs", "give --fs jffs2"),
        ("ubifs", "mount blocks=65\n", 1, "65 blocks, but the chip has 64", "give --blocks 65"),
        (
            "ubifs",
            "mount ubifs ubi0:test sync\numount\nmount ubifs ubi0:test -\n",
            3,
            "otherwise here than in line 1",
            "the same volume and options",
        ),
        (
            "ubifs",
            "mount ubifs ubi0:one -\numount\nmount ubifs ubi0:two -\n",
            3,
            "otherwise here than in line 1",
            "the same volume and options",
        ),
        ("jffs2", "mount -\nmount -\n", 2, "mounted already", "umount it first"),
        ("jffs2", "mkdir b 755\nmount -\n", 2, "mounted already", "umount it first"),
        ("jffs2", "umount\nmkdir b 755\n", 2, "nothing is mounted", "mount line must come first"),
        ("jffs2", "umount\numount\n", 2, "nothing is mounted", ""),
        ("jffs2", "mkdir b 755\npowercut\n", 2, "keeps its chip", "leave `powercut`"),
        ("ubifs", "cmd ubiattach -m 0 -d 0 /dev/ubi_ctrl\n", 1, "attached before", "`cmd` out"),
    ];
    for (kind, text, line, reason, way_out) in cases {
        let error = crash(kind, &format!("{text}mkdir z 755\n")).err().expect(text).to_string();
        assert!(error.starts_with(&format!("line {line}: ")), "{text}: {error}");
        assert!(error.contains(reason) && error.contains(way_out), "{text}: {error}");
    }
}

#[test]
fn mounts_that_say_the_same_are_all_right() {
    for (kind, line) in [
        ("ubifs", "mount ubifs ubi0:test sync"),
        ("jffs2", "mount jffs2 mtd0 -"),
        ("yaffs2", "mount yaffs2 /dev/mtdblock0 -"),
        // Without the option nothing could be read after a cut.
        ("yaffs2", "mount yaffs2 /dev/mtdblock0 inband-tags"),
        ("jffs2", "mount -"),
        ("jffs2", "mount blocks=64"),
    ] {
        let text = format!("{line}\nmkdir b 755\nsync\numount\n{line}\nmkdir c 755\n");
        let crash = crash(kind, &text).unwrap_or_else(|error| panic!("{line}: {error}"));
        let outcome = crash.run(&Cuts { every: 3, ..Cuts::default() }, |_, _| true);
        let violations: Vec<_> = outcome.expect("cut points").violations().cloned().collect();
        assert!(violations.is_empty(), "{line}: {violations:?}");
    }
}

/// What a script changes on a chip whose file system is not watched, after `made` mounts before it.
fn unwatched(kind: &'static str, options: &[&str], commands: &Script) -> Vec<RawOperation> {
    let given = setup(kind);
    let request = MountRequest {
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        ..given.request
    };
    let kind = find_kind(kind).expect("in the table");
    let (driver, asked) = (Driver::of_tool(given.layout), request.clone());
    let mut chip = chip(64);
    if kind.name == "ubifs" {
        // It is made by its first mount, and cuts begin when it is made.
        let made = run(chip, &driver, given.seed, async move |machine| {
            machine.attach_ubi(&asked).await.expect("attached");
            machine.make_ubi_volume("nandlab").await.expect("made");
            machine.detach_ubi();
            let mounted = machine.mount(kind, &asked).await.expect("mounted");
            mounted.unmount().await.expect("unmounted");
        });
        chip = made.chip;
    }
    chip.start_journal();
    let commands: Vec<Command> = commands.commands().collect();
    let outcome = run(chip, &driver, given.seed, async move |machine| {
        let vfs = machine.mount(kind, &request).await.expect("mounted").vfs;
        let epoch_seconds = Driver::of_tool(given.layout).epoch_seconds;
        let runner = Runner::new(&machine.sim, vfs.clone(), epoch_seconds);
        for command in &commands {
            if command.step == Step::Control(ControlLine::Unmount) {
                vfs.unmount().await.expect("unmounted");
                return;
            }
            runner.step(&command.step).await.expect("carried out");
        }
    });
    let mut chip = outcome.chip;
    chip.take_journal()
}

/// A file system that is watched does to the chip what it does unwatched, operation by operation and
/// byte by byte: all that a mount option or a method of the contract changes is there.
#[test]
fn a_watched_file_system_writes_what_it_writes_unwatched() {
    let calls = parse(&format!("{CALLS}umount\n")).expect("a script");
    let cases: [(&str, &[&str], &str); 8] = [
        ("jffs2", &[], "mount jffs2 mtd0"),
        ("jffs2", &["compr=none"], "mount jffs2 mtd0"),
        ("yaffs2", &[], "mount yaffs2 /dev/mtdblock0"),
        ("yaffs2", &["no-cache"], "mount yaffs2 /dev/mtdblock0"),
        ("ubifs", &[], "mount ubifs ubi0:nandlab"),
        ("ubifs", &["sync"], "mount ubifs ubi0:nandlab"),
        ("ubifs", &["compr=none"], "mount ubifs ubi0:nandlab"),
        ("ubifs", &["bulk_read"], "mount ubifs ubi0:nandlab"),
    ];
    let mut programs = Vec::new();
    for (kind, options, mount) in cases {
        let joined = if options.is_empty() { "-".into() } else { options.join(",") };
        let watched = crash(kind, &format!("{mount} {joined}\n{CALLS}umount\n"));
        let watched = watched.unwrap_or_else(|error| panic!("{mount} {joined}: {error}"));
        let unwatched = unwatched(kind, options, &calls);
        let is_program =
            |operation: &&RawOperation| matches!(operation, RawOperation::PageProgram { .. });
        let count = |journal: &[RawOperation]| journal.iter().filter(is_program).count();
        assert_eq!(count(watched.journal()), count(&unwatched), "{kind} {joined}");
        assert!(watched.journal() == unwatched, "{kind} {joined}: other operations");
        programs.push(((kind, joined), count(&unwatched)));
    }
    // The options of these cases do something at all.
    let of = |kind, option: &str| {
        programs.iter().find(|(case, _)| *case == (kind, option.to_owned())).expect("a case").1
    };
    assert!(of("ubifs", "sync") > of("ubifs", "-"), "{programs:?}");
    assert!(of("ubifs", "compr=none") != of("ubifs", "-"), "{programs:?}");
}

/// A cut in a script that mounts with `sync` loses nothing that a write call has returned from.
#[test]
fn a_mount_with_sync_keeps_its_guarantee_wherever_it_is_cut() {
    let crash = crash("ubifs", &format!("mount ubifs ubi0:test sync\n{CALLS}")).expect("it runs");
    let outcome = crash.run(&Cuts::default(), |_, _| true).expect("cut points");
    let violations: Vec<_> = outcome.violations().collect();
    assert!(violations.is_empty(), "{violations:?}");
}

/// A script may begin with lines that touch no file system, and with an unmount of what it is given.
#[test]
fn a_script_begins_mounted_unless_a_mount_line_comes_first() {
    for text in ["phase one\nmount -\nmkdir a 755\n", "umount\nmount -\nmkdir a 755\n"] {
        let crash = crash("jffs2", text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(crash.operations() > 0, "{text}");
    }
}
