//! What an export may be.

use crate::support::memory;
use nbd::{Export, ExportError, check_exports, transmission_flag};

fn error(change: impl FnOnce(&mut Export)) -> String {
    let mut export = memory("disk");
    change(&mut export);
    export.check().expect_err("refused").to_string()
}

#[test]
fn good_exports_pass() {
    assert_eq!(check_exports(&[memory(""), memory("a"), Export::new("b", 0)]), Ok(()));
    let widest = Export {
        minimum_block_bytes: 65_536,
        preferred_block_bytes: 65_536,
        maximum_payload_bytes: u32::MAX,
        ..memory("c")
    };
    assert_eq!(widest.check(), Ok(()));
}

#[test]
fn each_rule_has_its_message() {
    assert!(error(|one| one.name = "a".repeat(4097)).contains("the name of export"));
    assert!(error(|one| one.description = "a\0".to_owned()).contains("the description of export"));
    assert!(error(|one| one.flags = 1 << 9).contains("0x200"));
    assert!(error(|one| one.flags = transmission_flag::FAST_ZERO).contains("FAST_ZERO"));
    for bytes in [0, 3, 131_072] {
        assert!(error(|one| one.minimum_block_bytes = bytes).contains("minimum block"));
    }
    for bytes in [0, 256, 4097] {
        assert!(error(|one| one.preferred_block_bytes = bytes).contains("preferred block"));
    }
    assert!(error(|one| one.maximum_payload_bytes = 4095).contains("maximum payload"));
    let odd = error(|one| (one.minimum_block_bytes, one.size_bytes) = (512, 1000));
    assert!(odd.contains("use a multiple"));
}

#[test]
fn names_differ_and_there_is_one() {
    assert_eq!(check_exports(&[]), Err(ExportError::None));
    let same = check_exports(&[memory("a"), memory("b"), memory("a")]);
    assert_eq!(same, Err(ExportError::SameName { name: "a".to_owned() }));
}
