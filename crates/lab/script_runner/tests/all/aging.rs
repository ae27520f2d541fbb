//! `age`, `wear` and `scrub`: bit errors by file, and scripts without them.

use super::lines::{play, refused, setup};
use script_runner::{FileErrors, Record, Scrub, Setup};

const FILES: &str = "mount -\nput bytes/a 644 100000 4096 x 1\nput b 644 60000 4096 x 2\n";

/// A part on which only retention leaves errors.
fn aging(file_system: &str) -> Setup {
    let mut setup = setup(Some(file_system));
    let errors = &mut setup.part.errors;
    errors.rber_fresh = 0.0;
    errors.rber_worn = 0.0;
    errors.read_disturb_rber_per_read = 0.0;
    errors.retention_exponent = 1.0;
    errors.retention_rber_per_year = 1e-6;
    errors.erase_cycles_max = 1000;
    errors.ecc_codeword_bytes = 512;
    errors.ecc_correctable_bits = 1;
    setup
}

fn aged(lines: &str, setup: &Setup) -> Record {
    let text = FILES.replace("put bytes/a", "mkdir bytes 755\nput bytes/a");
    play(&format!("{text}sync\n{lines}"), setup).expect("a script").1
}

fn corrected_bits(record: &Record) -> u64 {
    record.scrubs.iter().flat_map(|scrub| &scrub.files).map(|file| file.corrected_bits).sum()
}

#[test]
fn more_hours_and_more_heat_leave_more_errors() {
    for name in ["jffs2", "ubifs", "yaffs2"] {
        let setup = aging(name);
        let bits = ["", "age 1 years\n", "age 9 years\n", "age 9 years at 55C\n"]
            .map(|line| corrected_bits(&aged(&format!("drop\nwear 1000\n{line}scrub\n"), &setup)));
        assert!(bits[0] == 0 && bits.is_sorted() && bits[1] < bits[3], "{name}: {bits:?}");
    }
}

/// What a file of many pages shows after a year that some of its codewords do not survive.
fn large_file(name: &str) -> FileErrors {
    let mut setup = aging(name);
    // 0.2 errors in the 4,096 bits of a codeword: 1.8 % of them have two, and one is corrected. The file has
    // 200 codewords, and the index of UBIFS a dozen.
    setup.part.errors.retention_rber_per_year = 5e-5;
    let record = aged("drop\nwear 1000\nage 1 years\nscrub\nscrub\n", &setup);
    let [first, second] = &record.scrubs[..] else { panic!("{name}: {:?}", record.scrubs) };
    let large = |scrub: &Scrub| {
        let found = scrub.files.iter().find(|file| file.path == b"bytes/a").cloned();
        found.unwrap_or_else(|| panic!("{name}: {scrub:?}"))
    };
    let is_lost = large(first).is_lost();
    assert_eq!(is_lost, large(second).is_lost(), "{name}: what is lost stays lost");
    large(first)
}

#[test]
fn a_checksum_makes_an_error_of_what_the_ecc_gives_up() {
    for name in ["jffs2", "ubifs"] {
        let large = large_file(name);
        assert!(large.uncorrectable_reads > 0, "{name}: {large:?}");
        assert_eq!((large.error.as_deref(), large.wrong_bytes), (Some("EIO"), 0), "{name}");
    }
}

#[test]
fn without_a_checksum_of_data_wrong_bytes_come_and_no_error() {
    let large = large_file("yaffs2");
    assert!(large.uncorrectable_reads > 0, "{large:?}");
    assert_eq!(large.error, None);
    // Two or more bits of each such codeword are wrong; some share a byte.
    let reads = large.uncorrectable_reads;
    assert!((reads..=reads * 8).contains(&large.wrong_bytes), "{large:?}");
}

#[test]
fn a_script_without_such_lines_meets_no_bit_error() {
    let mut setup = aging("jffs2");
    let plain = aged("read b 4096\n", &setup);
    setup.part.errors.rber_fresh = 1.0;
    assert_eq!(aged("read b 4096\n", &setup).phases, plain.phases);
    // With such a line every read of the same part is one that the ECC gives up.
    let text = "mount -\nput b 644 60000 4096 x 2\nsync\ndrop\nscrub\n";
    let record = play(text, &setup).expect("errors of reads end no script").1;
    let lost = &record.scrubs[0].files;
    assert!(lost.iter().any(|file| file.error.is_some()), "{lost:?}");
}

#[test]
fn a_seed_draws_the_same_errors_again() {
    let mut setup = aging("jffs2");
    let lines = "drop\nwear 1000\nage 9 years at 55C\nscrub\n";
    let first = aged(lines, &setup).scrubs;
    assert_eq!(first, aged(lines, &setup).scrubs);
    setup.request.seed += 1;
    assert_ne!(first, aged(lines, &setup).scrubs);
}

#[test]
fn a_line_without_a_temperature_is_at_that_of_the_chip() {
    let record = aged("wear 1000\nage 1 years\nage 1 d at 25C\nscrub\n", &aging("jffs2"));
    let celsius = &record.scrubs[0].aged.celsius;
    assert_eq!(
        celsius.iter().map(|celsius| f64::from(*celsius)).collect::<Vec<_>>(),
        [nand::RETENTION_RATED_CELSIUS, 25.0]
    );
}

#[test]
fn lines_that_make_no_sense_are_refused() {
    assert!(refused("umount\n", Some("jffs2")).contains("nothing is mounted"));
    assert!(refused("mount -\numount\nscrub\n", Some("jffs2")).starts_with("line 3"));
    assert!(refused("age 100 years at 150C\n", Some("jffs2")).contains("584 years at 40C"));
}

#[test]
fn a_chip_that_cannot_be_mounted_ends_the_script_with_that_finding() {
    let mut setup = aging("ubifs");
    setup.part.errors.retention_rber_per_year = 1e-2;
    let lines = "umount\nwear 1000\nage 1 years\nmount -\nscrub\n";
    let record = aged(lines, &setup);
    let [lost] = &record.scrubs[..] else { panic!("{:?}", record.scrubs) };
    assert!(!record.is_mounted);
    let reason = lost.files[0].error.as_deref().expect("the root is lost");
    assert!(reason.starts_with("the mount fails: ubifs: UBI: "), "{reason}");
    // Without age it is an error of the script, as any mount that fails.
    let plain = play("mount ubifs ubi0:none -\nage 1 years\n", &setup).expect_err("no such volume");
    assert!(plain.to_string().contains("ubi"), "{plain}");
}

#[test]
fn jffs2_drops_what_is_damaged_at_a_mount_and_no_call_fails() {
    let mut setup = aging("jffs2");
    setup.part.errors.retention_rber_per_year = 5e-5;
    let record = aged("umount\nwear 1000\nage 1 years\nmount -\nscrub\n", &setup);
    let large = record.scrubs[0].files.iter().find(|file| file.path == b"bytes/a");
    let large = large.expect("met errors");
    assert_eq!(large.error, None);
    // A node holds 4,096 bytes at most, and they read as zeros.
    assert!((1..=20 * 4096).contains(&large.wrong_bytes), "{large:?}");
}

#[test]
fn what_is_written_after_an_age_is_no_loss() {
    let mut setup = aging("yaffs2");
    setup.part.errors.retention_rber_per_year = 5e-5;
    // The new bytes of `b` are young, and other ones than before.
    let lines = "wear 1000\nage 1 years\nwrite b 0 60000 4096 t 7\nscrub\nage 1 s\nscrub\n";
    for scrub in &aged(lines, &setup).scrubs {
        assert!(scrub.files.iter().any(|file| file.path == b"bytes/a" && file.wrong_bytes > 0));
        assert!(scrub.files.iter().all(|file| file.path != b"b"), "{scrub:?}");
    }
}

#[test]
fn names_that_a_mount_dropped_are_lost() {
    let mut setup = aging("jffs2");
    setup.part.errors.retention_rber_per_year = 2e-4;
    let names = "for i in 1..150 {\nmkdir d$i 755\n}\n";
    let lines =
        format!("{names}sync\numount\nwear 1000\nage 1 years\nmount -\ndrop\nscrub\nscrub\n");
    let gone = |record: &Record, at: usize| {
        let files = record.scrubs[at].files.iter();
        files.filter(|file| file.error.as_deref() == Some("ENOENT")).count()
    };
    let record = aged(&lines, &setup);
    assert!(gone(&record, 0) > 0, "{:?}", record.scrubs[0]);
    assert_eq!(gone(&record, 0), gone(&record, 1));
}
