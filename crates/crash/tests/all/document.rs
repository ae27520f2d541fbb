//! The page on power cuts holds the table of guarantees as it is.

use crash::{TORN_MODELS, guarantees_in_markdown};

#[test]
fn the_page_holds_the_table() {
    let page = include_str!("../../../../docs/power-cuts.md");
    let table = guarantees_in_markdown();
    assert!(page.contains(&table), "docs/power-cuts.md should hold:\n{table}");
    for model in TORN_MODELS {
        let row = format!("| `{}` | {} |", model.name, model.summary);
        assert!(page.contains(&row), "docs/power-cuts.md should hold:\n{row}");
    }
}
