//! Cuts while the collector of JFFS2 copies an extended attribute that was synced long before.
//!
//! Linux 6.12 loses it, too: the chips after these cuts were mounted by a kernel, which complained in
//! `do_load_xattr_datum` and showed a directory without the attribute.

use crash::{Crash, Cuts, Outcome, Sabotage, Setup, find_torn_model};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};

/// Each fsync collects until the page with its data is full and written (`jffs2_flush_wbuf_gc`).
const CALLS: &str = "put big 644 150000 4096 x 7\nsync\nput a 644 100 4096 x 1 fsync\nput a 644 100 4096 x 2 fsync\n";
/// The page with the header of the copy and with a part of its value.
const COPY: u64 = 156;
/// More than the rest of that page.
const VALUE_BYTES: usize = 1500;

fn outcome(torn: &str, only: Option<u64>) -> Outcome {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 40;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = find_layout("linux-large").expect("in the table");
    let request = MountRequest::default();
    let setup = Setup { kind: "jffs2", request, layout, seed: 1, sabotage: Sabotage::None };
    let value = "5a".repeat(VALUE_BYTES);
    let text = format!("mkdir d 755\nsetxattr d user.b {value}\n{CALLS}");
    let crash = Crash::new(&chip, &setup, &script::parse(&text).expect("a script"));
    let torn = vec![find_torn_model(torn).expect("in the table")];
    let cuts = Cuts { only, torn, ..Cuts::default() };
    crash.expect("it runs").run(&cuts, |_, _| true).expect("there is such a cut")
}

#[test]
fn a_cut_of_the_copy_of_an_attribute_loses_it() {
    for torn in ["prefix", "data-only"] {
        let lost = outcome(torn, Some(COPY));
        assert_eq!(lost.violations().count(), 0, "{lost:?}");
        assert_eq!(lost.torn[0].hazards.get("lost-attribute"), Some(&1), "{lost:?}");
    }
    // Of a page of which nothing is left the scan finds no header, so the old node counts.
    let kept = outcome("nothing", Some(COPY));
    assert_eq!((kept.violations().count(), kept.torn[0].hazards.len()), (0, 0), "{kept:?}");
}

#[test]
fn no_other_cut_loses_an_attribute() {
    let all = outcome("prefix", None);
    assert_eq!(all.violations().count(), 0, "{all:?}");
    assert_eq!(all.torn[0].hazards.get("lost-attribute"), Some(&1), "{all:?}");
}
