//! The toy, which nothing names but its row, is mounted, cut, dumped, checked and measured as any other.

use crate::every_kind::{chip, driver};
use crash::{Crash, Cuts, Sabotage, Setup};
use file_systems::find_kind;
use image::{AnyImage, OpenOptions};
use mount::{MountRequest, run};
use mtd::find_layout;
use nand::ImageLayout;
use script::{Runner, parse};
use std::path::PathBuf;
use study::{load, run_study};

const TOY: &str = "toyfs";

const SCRIPT: &str = "\
mkdir d 755
put d/a 644 9000 4096 x 1 fsync
put b 600 70000 4096 t 2
sync
rename b c
link c e
write c 3000 4000 4000 x 3 fsync
setxattr c user.a 5a5a
symlink d/a l
unlink e
sync
append d/a 5000 5000 x 4
";

/// A place for files, which is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nandlab-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("made");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_cut_leaves_what_was_synced() {
    let setup = Setup {
        kind: TOY,
        request: MountRequest::default(),
        layout: find_layout("linux-large").expect("in the table"),
        seed: 1,
        sabotage: Sabotage::None,
    };
    let script = parse(SCRIPT).expect("a script");
    let crash = Crash::new(&chip(32), &setup, &script).expect("the script runs");
    let outcome = crash.run(&Cuts::default(), |_, _| true).expect("there are cut points");
    assert!(outcome.operations > 40 && outcome.refused_lines == 0, "{}", outcome.operations);
    assert_eq!(outcome.violations().next(), None);
    // A page that is never programmed is missed.
    let setup = Setup { sabotage: Sabotage::LoseProgram(3), ..setup };
    let crash = Crash::new(&chip(32), &setup, &script).expect("the script runs");
    let outcome = crash.run(&Cuts::default(), |_, _| true).expect("there are cut points");
    assert!(outcome.violations().next().is_some());
}

#[test]
fn an_image_is_recognised_listed_and_checked() {
    let written = run(chip(32), &driver(), 1, async |machine| {
        let kind = find_kind(TOY).expect("its row");
        let mounted = machine.mount(kind, &MountRequest::default()).await.expect("mounted");
        let runner = Runner::new(&machine.sim, mounted.vfs.clone(), 0);
        for command in parse(SCRIPT).expect("a script").commands() {
            runner.step(&command.step).await.expect("carried out");
        }
        mounted.unmount().await.expect("unmounted");
    });
    let folder = Folder::new("toy-image");
    let path = folder.0.join("toy.img");
    let mut bytes = Vec::new();
    written.chip.save_image(&mut bytes, ImageLayout::WithOob).expect("saved");
    std::fs::write(&path, &bytes).expect("written");
    let image = AnyImage::open(&path, &OpenOptions::default()).expect("recognised");
    assert_eq!(image.file_system(), TOY);
    let listing = image.list(true).expect("listed");
    let paths: Vec<&str> = listing.manifest.rows.iter().map(|row| row.path.as_str()).collect();
    assert_eq!(paths, [".", "c", "d", "d/a", "l"]);
    let report = image.check().expect("checked");
    assert_eq!((report.findings, report.notes), (Vec::new(), Vec::new()));
    let info = image.info().expect("described");
    assert_eq!((&info["form"]["fs"], &info["medium"]["snapshots"]), (&TOY.into(), &2.into()));
    // A bit of the newest snapshot, behind what the ECC of an image without it would mend.
    let block = 64 * 2112;
    let newest = if bytes[4] > bytes[block + 4] { 0 } else { block };
    for step in 0..4 {
        bytes[newest + 100 + step] ^= 0x55;
    }
    std::fs::write(&path, &bytes).expect("written");
    let report = AnyImage::open(&path, &OpenOptions::default()).expect("recognised");
    let report = report.check().expect("checked");
    assert!(report.notes.iter().any(|note| note.what.contains("torn")), "{report:?}");
}

#[test]
fn a_study_has_it_on_its_axis_of_file_systems() {
    let folder = Folder::new("toy-study");
    let path = folder.0.join("toy.toml");
    let text = format!(
        r#"
name = "toy"
title = "A toy"
question = "What does a mount cost?"
seed = 1
repeats = 1
part = "k9f2g08u0c"
blocks = 64
axis_order = ["test", "file_system", "flash"]

[workload]
kind = "raw-nand"

[host]
board = "s5pv210-datasheet"
kernel = "6.12"

[axes]
test = ["mount"]
file_system = ["jffs2", "{TOY}"]
flash = ["fresh"]
"#
    );
    std::fs::write(&path, text).expect("written");
    let study = load(&path, &[], None, false).expect("a study");
    let results = run_study(&study, 1, &mut |_, _, _| true).expect("it runs");
    let of_toy = results.rows.iter().filter(|row| row.axes.iter().any(|value| value == TOY));
    assert!(of_toy.count() > 0, "rows of the toy");
}
