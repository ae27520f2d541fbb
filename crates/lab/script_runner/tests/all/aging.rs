//! `age`, `wear` and `scrub`: bit errors by file, and scripts without them.

use super::lines::{play, refused, setup};
use script_runner::{Record, Setup};

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

#[test]
fn a_file_that_the_ecc_gives_up_is_lost_and_named() {
    for name in ["jffs2", "ubifs", "yaffs2"] {
        let mut setup = aging(name);
        // 4096 bits of a codeword meet 4 errors on average, and one is corrected.
        setup.part.errors.retention_rber_per_year = 1e-3;
        let record = aged("drop\nwear 1000\nage 1 years\nscrub\n", &setup);
        let files = &record.scrubs[0].files;
        let large = files.iter().find(|file| file.path == b"bytes/a");
        let large = large.unwrap_or_else(|| panic!("{name}: {:?}", record.scrubs));
        assert!(large.uncorrectable_reads > 0, "{name}: {large:?}");
        // `mtd_read` answers EBADMSG, and each file system makes of it what its code does.
        assert_eq!(large.error.as_deref(), Some("EIO"), "{name}: {files:?}");
    }
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
fn lines_that_make_no_sense_are_refused() {
    assert!(refused("umount\n", Some("jffs2")).contains("nothing is mounted"));
    assert!(refused("mount -\numount\nscrub\n", Some("jffs2")).starts_with("line 3"));
    assert!(refused("age 100 years at 150C\n", Some("jffs2")).contains("584 years at 40C"));
}
