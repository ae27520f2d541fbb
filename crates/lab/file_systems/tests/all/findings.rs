//! Codes of findings are names that no two layers share, and each begins with its layer's.

use std::collections::BTreeSet;

#[test]
fn codes_of_findings_are_unique_and_begin_with_the_name_of_their_layer() {
    let layers: [(&str, Vec<&str>); 6] = [
        ("fat", fat::FindingCode::ALL.iter().map(|code| code.name()).collect()),
        ("jffs2", jffs2::FindingCode::ALL.iter().map(|code| code.name()).collect()),
        ("nilfs2", nilfs2::FindingCode::ALL.iter().map(|code| code.name()).collect()),
        ("ubi", ubi::FindingCode::ALL.iter().map(|code| code.name()).collect()),
        ("ubifs", ubifs::FindingCode::ALL.iter().map(|code| code.name()).collect()),
        ("yaffs2", yaffs2::FindingCode::ALL.iter().map(|code| code.name()).collect()),
    ];
    let mut seen = BTreeSet::new();
    for (layer, codes) in layers {
        for code in codes {
            assert!(code.strip_prefix(layer).is_some_and(|rest| rest.starts_with('-')), "{code}");
            assert!(seen.insert(code), "{code}");
        }
    }
}
