//! The page on power cuts holds the table of guarantees as it is.

use crash::{
    CACHE_MODELS, TORN_MODELS, find_guarantee, find_torn_model, guarantees, guarantees_in_markdown,
};

#[test]
fn the_page_holds_the_table() {
    let page = include_str!("../../../../../docs/power-cuts.md");
    let table = guarantees_in_markdown();
    assert!(page.contains(&table), "docs/power-cuts.md should hold:\n{table}");
    for guarantee in guarantees() {
        let row = format!("| {} | {} | {} |", guarantee.kind, guarantee.safe, guarantee.new_file);
        assert!(table.contains(&row), "{row}");
        for hazard in guarantee.hazards {
            let row = format!("| {} | `{}` | {} |\n", guarantee.kind, hazard.name, hazard.summary);
            assert!(table.contains(&row), "{row}");
        }
    }
    for model in TORN_MODELS.iter().chain(CACHE_MODELS) {
        let row = format!("| `{}` | {} |", model.name, model.summary);
        assert!(page.contains(&row), "docs/power-cuts.md should hold:\n{row}");
    }
}

/// What `nandlab compare` says of a file system in a few words.
#[test]
fn what_makes_a_write_safe_is_told_in_a_few_words() {
    let words = ["jffs2", "ubifs", "yaffs2"]
        .map(|kind| find_guarantee(kind).expect("in the table").durable.in_short());
    let expected =
        ["fsync, with all before it", "fsync, file by file", "every call; data at close"];
    assert_eq!(words, expected);
}

#[test]
fn a_torn_model_is_found_by_its_name() {
    for model in TORN_MODELS.iter().chain(CACHE_MODELS) {
        assert_eq!(find_torn_model(model.name), Some(model));
    }
    assert_eq!(find_torn_model("none"), None);
}
