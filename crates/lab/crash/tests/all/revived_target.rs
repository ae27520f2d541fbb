//! A rename over another object, cut there and in the mounts that follow: what YAFFS2 then shows.

use crash::{Crash, Cuts, Outcome, Recoveries, Sabotage, Setup, find_torn_model};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};

const CALLS: &str = include_str!("support/rename-over-device.ops");

/// The operation between the header that names the replaced device and the deletion of that.
const IN_RENAME: u64 = 932;

fn outcome(recoveries: Recoveries) -> Outcome {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = 64;
    part.geometry.pages_per_block = 16;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = find_layout("linux-large").expect("in the table");
    let request = MountRequest { seed: 11, ..MountRequest::default() };
    let setup = Setup { kind: "yaffs2", request, layout, seed: 11, sabotage: Sabotage::None };
    let crash = Crash::new(&chip, &setup, &script::parse(CALLS).expect("a script"));
    let torn = vec![find_torn_model("nothing").expect("in the table")];
    let cuts = Cuts { only: Some(IN_RENAME), torn, recoveries, ..Cuts::default() };
    crash.expect("it runs").run(&cuts, |_, _| true).expect("there is such a cut")
}

#[test]
fn a_cut_of_the_second_mount_brings_the_replaced_device_back() {
    let then = ["0:nothing", "3:nothing"].map(|one| one.parse().expect("a cut"));
    let second = outcome(Recoveries::Only(then.to_vec()));
    assert_eq!(second.violations().count(), 0, "{second:?}");
    assert_eq!(second.torn[0].hazards.get("revived-target"), Some(&1), "{second:?}");
    // Behind the cut of the script, and behind that of the first mount, it is not seen.
    for recoveries in [Recoveries::None, Recoveries::Only(vec![then[0]])] {
        let before = outcome(recoveries);
        assert_eq!(
            (before.violations().count(), before.torn[0].hazards.len()),
            (0, 0),
            "{before:?}"
        );
    }
}
