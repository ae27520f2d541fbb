//! Every row of the table, under every profile, agrees with a model over random calls and remounts; so does
//! the same through wrappers of the contract.

use crate::full::count_refusals;
use crate::planted::{Fault, Planted};
use crate::play::play;
use conformance::{Area, Call, Model, SideBySide};
use crash::{Recorder, ShadowModel, Tree};
use file_systems::KINDS;
use fs_api::FileSystem;
use mount::{
    BlockDeviceChoice, BlockRequest, Driver, Kind, MTDBLOCK, Machine, MountRequest, Mounted, run,
};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use vfs::Vfs;

/// Histories of a profile; a row with few profiles has more of each.
const HISTORIES: u64 = 4;
const HISTORIES_OF_ROW: u64 = 12;
const CALLS: usize = 500;
/// Each error of a row's contract is produced so often by its histories.
pub(crate) const ERRORS_MIN: u32 = 8;
/// Errors that every row meets: in its histories, on a full device, under a read-only mount.
const ERRORS: [&str; 9] = [
    "Eexist",
    "Einval",
    "Eisdir",
    "Enametoolong",
    "Enoent",
    "Enospc",
    "Enotdir",
    "Enotempty",
    "Erofs",
];
/// Errors of calls that FAT has not, and of those that only file systems with extended attributes have.
const POSIX_ERROR: &str = "Eloop";
const ATTRIBUTE_ERROR: &str = "Enodata";
/// What a file system without extended attributes answers to calls about them.
const NOT_OFFERED: &str = "Eopnotsupp";

pub(crate) fn chip(blocks: u32) -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = blocks;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

pub(crate) fn driver() -> Driver {
    Driver::of_tool(find_layout("linux-large").expect("in the table"))
}

pub(crate) fn request(kind: &Kind, profile: &str) -> MountRequest {
    let device = BlockDeviceChoice::find(kind.usual_block_device).expect("the usual device");
    let block = BlockRequest { device, ..BlockRequest::default() };
    let block = if kind.is_on_block_device { block } else { BlockRequest::default() };
    MountRequest { profile: Some(profile.into()), block, ..MountRequest::default() }
}

/// Its medium is the machine's chip, not a device that is gone with the machine.
pub(crate) fn lies_on_the_chip(kind: &Kind) -> bool {
    kind.usual_block_device == MTDBLOCK
}

/// JFFS2 before 6.1 may show what stood behind the end of a file that was made shorter and longer again; the
/// library of YAFFS2 takes one of two names of a file away when one is renamed over the other.
fn is_like_the_model(kind: &Kind, profile: &str) -> bool {
    let is_old = profile.starts_with("linux-2.6");
    profile != "yaffs-direct" && !(kind.name.starts_with("jffs2") && is_old)
}

/// What the calls go through.
#[derive(Clone, Copy, Debug)]
enum Over {
    /// The mount itself.
    Mount,
    /// The watcher of the crash checker.
    Recorder,
    /// A wrapper with one method that is forwarded to the wrong place, or none.
    Planted(Option<Fault>),
}

/// How often each error was met.
pub(crate) type Errors = BTreeMap<String, u32>;

/// The layer above a wrapper, as [`Machine::mounted`] makes it above the file system itself.
fn above<F: FileSystem + 'static>(
    machine: &Machine,
    mounted: &Mounted,
    wrapper: Rc<F>,
) -> Rc<Vfs<F>> {
    Rc::new(if mounted.file_system.has_page_cache() {
        Vfs::cached(&machine.sim, &machine.cpus, &machine.board, wrapper)
    } else {
        Vfs::new(&machine.sim, wrapper)
    })
}

/// One mount of a history; the number of the first call that is left.
async fn stretch(
    machine: &Machine,
    (kind, mounted): (&Kind, &Mounted),
    model: &Model,
    calls: &[Call],
    first: usize,
    (over, profile): (Over, &'static str),
) -> Result<usize, String> {
    let text = |error: fs_api::Errno| error.to_string();
    let sim = &machine.sim;
    let real = mounted.file_system.clone();
    match (over, kind.guarantee) {
        (Over::Recorder, Some(guarantee)) => {
            let tree = Tree::read(&*real).await.map_err(|_| "unreadable")?;
            let shadow = ShadowModel::new(guarantee, &tree).await.map_err(text)?;
            let recorder = Recorder::new(real, || 0, Rc::new(shadow), profile);
            let vfs = above(machine, mounted, Rc::new(recorder));
            let left = play(&SideBySide::new(sim, &vfs, model), calls, first).await?;
            vfs.unmount().await.map_err(text)?;
            Ok(left)
        }
        (Over::Planted(fault), _) => {
            let vfs = above(machine, mounted, Rc::new(Planted { real, fault }));
            let left = play(&SideBySide::new(sim, &vfs, model), calls, first).await?;
            vfs.unmount().await.map_err(text)?;
            Ok(left)
        }
        _ => {
            let left = play(&SideBySide::new(sim, &mounted.vfs, model), calls, first).await?;
            let found = real.check().await.map_err(text)?;
            if !found.is_empty() {
                return Err(format!("the check found {found:?}"));
            }
            mounted.unmount().await.map_err(text)?;
            Ok(left)
        }
    }
}

/// A history on one machine, since a block device of its own is gone with the machine.
fn history(
    kind: &'static Kind,
    profile: &'static str,
    seed: u64,
    over: Over,
) -> Result<Errors, String> {
    let calls = Area::whole(kind.has_owners_and_links).random_calls(seed, CALLS);
    let outcome = run(chip(128), &driver(), seed, async move |machine| {
        let asked = request(kind, profile);
        let (mut model, mut first) = (None, 0);
        while first < calls.len() {
            let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
            if model.is_none() {
                model = Some(Model::new(&*mounted.file_system, kind.has_owners_and_links).await);
            }
            let model = model.as_ref().expect("made above");
            let how = (over, profile);
            let done = stretch(&machine, (kind, &mounted), model, &calls, first, how).await;
            if let Err(wrong) = &done {
                let findings = mounted.file_system.findings().await;
                return Err(format!("{wrong}; {findings:?}"));
            }
            first = done?;
        }
        Ok::<_, String>(model.map(|model| model.errors()).unwrap_or_default())
    });
    let done = outcome.value.expect("the power is not cut");
    done.map_err(|wrong| format!("{} {profile}, seed {seed}, {over:?}: {wrong}", kind.name))
}

/// Walks all profiles of the rows that are meant, and counts the errors of each row.
fn walk(is_meant: impl Fn(&Kind) -> bool, over: Over) -> BTreeMap<&'static str, Errors> {
    let mut counts: BTreeMap<&'static str, Errors> = BTreeMap::new();
    for kind in KINDS.iter().filter(|kind| is_meant(kind)) {
        let profiles = || kind.profiles.iter().filter(|name| is_like_the_model(kind, name));
        let histories = HISTORIES.max(HISTORIES_OF_ROW / profiles().count() as u64);
        for profile in profiles() {
            for seed in 0..histories {
                let errors = history(kind, profile, seed, over);
                let errors = errors.unwrap_or_else(|wrong| panic!("{wrong}"));
                for (errno, count) in errors {
                    *counts.entry(kind.name).or_default().entry(errno).or_default() += count;
                }
            }
        }
    }
    counts
}

fn assert_every_error_was_met(counts: BTreeMap<&'static str, Errors>) {
    for (name, mut errors) in counts {
        let kind = KINDS.iter().find(|kind| kind.name == name).expect("its row");
        count_refusals(kind, &mut errors);
        let mut expected = ERRORS.to_vec();
        if kind.has_owners_and_links {
            expected.push(POSIX_ERROR);
            // Some profiles of a row may have attributes where others have none.
            let has_attributes = errors.contains_key(ATTRIBUTE_ERROR);
            expected.push(if has_attributes { ATTRIBUTE_ERROR } else { NOT_OFFERED });
        }
        for errno in expected {
            let count = errors.get(errno).copied().unwrap_or(0);
            assert!(count >= ERRORS_MIN, "{name}: {errno} {count} times: {errors:?}");
        }
        eprintln!("{name}: {errors:?}");
    }
}

#[test]
fn file_systems_on_raw_nand_agree_with_the_model() {
    assert_every_error_was_met(walk(|kind| !kind.is_on_block_device, Over::Mount));
}

#[test]
fn file_systems_on_block_devices_agree_with_the_model() {
    assert_every_error_was_met(walk(|kind| kind.is_on_block_device, Over::Mount));
}

#[test]
fn watched_file_systems_agree_with_the_model() {
    let counts = walk(|kind| kind.guarantee.is_some(), Over::Recorder);
    assert_eq!(counts.len(), KINDS.iter().filter(|kind| kind.guarantee.is_some()).count());
}

/// Rows on raw NAND whose calls are all of POSIX's: no fault hides behind a call that a row has not.
fn posix_kinds() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.has_owners_and_links && lies_on_the_chip(kind))
}

#[test]
fn a_wrapper_that_forwards_everything_agrees_with_the_model() {
    for kind in posix_kinds() {
        let done = history(kind, kind.profiles[0], 0, Over::Planted(None));
        assert!(done.is_ok(), "{done:?}");
    }
}

#[test]
fn a_wrapper_that_forwards_one_method_to_the_wrong_place_is_found() {
    for kind in posix_kinds() {
        let bare = history(kind, kind.profiles[0], 0, Over::Mount).expect("without a fault");
        let has_attributes = !bare.contains_key(NOT_OFFERED);
        let faults = Fault::ALL.iter().filter(|fault| has_attributes || !fault.is_of_attributes());
        for fault in faults {
            // A call that comes out wrong may as well break an invariant of the layer above.
            let played = catch_unwind(AssertUnwindSafe(|| {
                history(kind, kind.profiles[0], 0, Over::Planted(Some(*fault)))
            }));
            assert!(!matches!(played, Ok(Ok(_))), "{}: {fault:?} is not found", kind.name);
        }
    }
}

#[test]
fn the_table_is_sorted_and_its_facts_fit_each_other() {
    assert!(KINDS.is_sorted_by_key(|kind| kind.name));
    for kind in KINDS {
        assert!(kind.guarantee.is_none_or(|row| row.kind == kind.name), "{}", kind.name);
        assert!(!kind.profiles.is_empty() && !kind.kernel.options.is_empty(), "{}", kind.name);
        assert!(kind.is_on_block_device || lies_on_the_chip(kind), "{}", kind.name);
        assert!(kind.images_instead.is_none() || kind.own_images.is_none(), "{}", kind.name);
    }
}
