//! The tables of file systems and of devices, by name.

use file_systems::{KINDS, find_kind};
use mount::BlockDeviceChoice;

#[test]
fn the_table_is_sorted_and_its_profiles_exist() {
    assert!(KINDS.is_sorted_by_key(|kind| kind.name));
    let jffs2 = find_kind("jffs2").expect("in the table");
    assert!(jffs2.profiles.iter().all(|name| ::jffs2::find_profile(name).is_some()));
    assert_eq!(jffs2.profiles.len(), ::jffs2::PROFILES.len());
    let yaffs2 = find_kind("yaffs2").expect("in the table");
    assert!(yaffs2.profiles.iter().all(|name| ::yaffs2::find_profile(name).is_some()));
    assert_eq!(yaffs2.profiles.len(), ::yaffs2::PROFILES.len());
    let ubifs = find_kind("ubifs").expect("in the table");
    assert!(ubifs.profiles.iter().all(|name| ::ubifs::find_profile(name).is_some()));
    assert!(ubifs.profiles.iter().all(|name| ::ubi::find_profile(name).is_some()));
    assert_eq!(ubifs.profiles.len(), ::ubifs::PROFILES.len());
    let nilfs2 = find_kind("nilfs2").expect("in the table");
    assert!(nilfs2.profiles.iter().all(|name| ::nilfs2::find_profile(name).is_some()));
    assert_eq!(nilfs2.profiles.len(), ::nilfs2::PROFILES.len());
    let fat = find_kind("fat").expect("in the table");
    assert!(fat.profiles.iter().all(|name| ::fat::find_profile(name).is_some()));
    assert_eq!(fat.profiles.len(), ::fat::PROFILES.len());
    let error = find_kind("yaffs").expect_err("unknown").to_string();
    assert_eq!(
        error,
        "there is no file system `yaffs`: fat, jffs2, jffs2-block2mtd, nilfs2, ubifs, yaffs2 are known"
    );
}

/// A kernel after the newest of all profiles is refused, so the contract must know that one.
#[test]
fn the_newest_kernel_is_the_newest_of_all_profiles() {
    let profiles = KINDS.iter().flat_map(mount::Kind::kernel_profiles);
    assert_eq!(profiles.map(|(version, _)| version).max(), Some(mount::NEWEST_KERNEL));
}

#[test]
fn names_are_looked_up_and_slips_are_answered_with_a_suggestion() {
    let raw_nand = BlockDeviceChoice::find("mtdblock").expect("always there");
    assert_eq!(raw_nand, BlockDeviceChoice::default());
    let card = BlockDeviceChoice::find("emmc-4.5-64gb").expect("a preset");
    assert_eq!(card.name(), "emmc-4.5-64gb");
    let error = BlockDeviceChoice::find("emmc-4.5-64g").expect_err("a slip").to_string();
    assert!(error.contains("emmc-4.5-64gb"), "{error}");
}
