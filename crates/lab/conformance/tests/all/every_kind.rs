//! Every row of the table, under every profile, agrees with a model over random calls and remounts; so does
//! the same through the watcher of the crash checker.

use crate::calls::random_calls;
use crate::play::{Model, play};
use crash::{Book, Recorder, Tree};
use file_systems::KINDS;
use mount::{BlockDeviceChoice, BlockRequest, Driver, Kind, MTDBLOCK, MountRequest, run};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::rc::Rc;
use vfs::Vfs;

const HISTORIES: u64 = 4;
const CALLS: usize = 400;

pub(crate) fn chip(blocks: u32) -> Chip {
    let mut part = find_part("k9f2g08u0c").expect("in the catalogue");
    part.geometry.blocks = blocks;
    Chip::new(&part, Storage::Bytes, &FaultSettings::default())
}

pub(crate) fn driver() -> Driver {
    Driver::of_tool(find_layout("linux-large").expect("in the table"))
}

fn request(kind: &Kind, profile: &str) -> MountRequest {
    let device = BlockDeviceChoice::find(kind.usual_block_device).expect("the usual device");
    let block = BlockRequest { device, ..BlockRequest::default() };
    let block = if kind.is_on_block_device { block } else { BlockRequest::default() };
    MountRequest { profile: Some(profile.into()), block, ..MountRequest::default() }
}

/// JFFS2 before 6.1 may show what stood behind the end of a file that was made shorter and longer again; the
/// library of YAFFS2 takes one of two names of a file away when one is renamed over the other.
fn is_like_the_model(kind: &Kind, profile: &str) -> bool {
    let is_old = profile.starts_with("linux-2.6");
    profile != "yaffs-direct" && !(kind.name.starts_with("jffs2") && is_old)
}

/// A history on one machine, since a block device of its own is gone with the machine.
fn history(kind: &'static Kind, profile: &'static str, seed: u64, is_watched: bool) {
    let calls = random_calls(seed, CALLS, kind.has_owners_and_links);
    let outcome = run(chip(128), &driver(), seed, async move |machine| {
        let (mut model, mut first) = (None, 0);
        let asked = request(kind, profile);
        while first < calls.len() {
            let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
            let sim = &machine.sim;
            if model.is_none() {
                model = Some(Model::new(&*mounted.file_system).await);
            }
            let model = model.as_ref().expect("made above");
            let done = if let (true, Some(guarantee)) = (is_watched, kind.guarantee) {
                let tree = Tree::read(&*mounted.file_system).await.map_err(|_| "unreadable")?;
                let book = Book::new(guarantee, &tree).await.map_err(|error| error.to_string())?;
                let real = mounted.file_system.clone();
                let recorder = Rc::new(Recorder::new(real, || 0, Rc::new(book), profile));
                let vfs = if mounted.file_system.has_page_cache() {
                    Vfs::cached(sim, &machine.cpus, &machine.board, recorder)
                } else {
                    Vfs::new(sim, recorder)
                };
                let vfs = Rc::new(vfs);
                let played = play(sim, kind, &vfs, model, &calls, first).await;
                (played, vfs.unmount().await)
            } else {
                let played = play(sim, kind, &mounted.vfs, model, &calls, first).await;
                if played.is_ok() {
                    let found =
                        mounted.file_system.check().await.map_err(|error| error.to_string())?;
                    assert_eq!(found, [], "{} {profile}, seed {seed}", kind.name);
                }
                (played, mounted.unmount().await)
            };
            let findings = mounted.file_system.findings().await;
            first = done.0.map_err(|wrong| format!("{wrong}; {findings:?}"))?;
            done.1.map_err(|error| format!("umount: {error}"))?;
        }
        Ok::<_, String>(())
    });
    if let Err(wrong) = outcome.value.expect("the power is not cut") {
        panic!("{} {profile}, seed {seed}: {wrong}", kind.name);
    }
}

fn walk(is_meant: impl Fn(&Kind) -> bool, is_watched: bool) {
    for kind in KINDS.iter().filter(|kind| is_meant(kind)) {
        let profiles = kind.profiles.iter().filter(|name| is_like_the_model(kind, name));
        for profile in profiles {
            for seed in 0..HISTORIES {
                history(kind, profile, seed, is_watched);
            }
        }
    }
}

#[test]
fn file_systems_on_raw_nand_agree_with_the_model() {
    walk(|kind| !kind.is_on_block_device, false);
}

#[test]
fn file_systems_on_block_devices_agree_with_the_model() {
    walk(|kind| kind.is_on_block_device, false);
}

#[test]
fn watched_file_systems_agree_with_the_model() {
    walk(|kind| kind.guarantee.is_some(), true);
}

#[test]
fn the_table_is_sorted_and_its_facts_fit_each_other() {
    assert!(KINDS.is_sorted_by_key(|kind| kind.name));
    for kind in KINDS {
        assert!(kind.guarantee.is_none_or(|row| row.kind == kind.name), "{}", kind.name);
        assert!(!kind.profiles.is_empty() && !kind.kernel.options.is_empty(), "{}", kind.name);
        assert!(kind.is_on_block_device || kind.usual_block_device == MTDBLOCK, "{}", kind.name);
    }
}
