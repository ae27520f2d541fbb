//! The power fails at every operation of the chip while volumes are made, updated, renamed, resized and
//! removed: afterwards they are as before the call or as after it, and an update is old, new or
//! told to be incomplete.

use crate::support;

use nand::{Chip, CutPoint, FaultSettings, Torn};
use std::cell::RefCell;
use std::rc::Rc;
use support::{run, small, threaded};
use ubi::{
    AttachOptions, FormatOptions, LebNumber, Profile, Ubi, UbiError, VolumeKind, VolumeOptions,
    VolumeSize, find_profile,
};

const LEB_BYTES: u64 = 14_336;
const STEPS: usize = 8;

/// Volumes by number with name and blocks; contents of the static one.
type State = (Vec<(u32, String, u32)>, Option<Vec<u8>>);

fn content(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| (at / 3) as u8 ^ seed).collect()
}

fn volume(name: &str, kind: VolumeKind, lebs: u64) -> VolumeOptions {
    let size = VolumeSize::Bytes(lebs * LEB_BYTES);
    VolumeOptions { size, kind, ..VolumeOptions::new(name) }
}

async fn step(ubi: &Ubi, number: usize) -> Result<(), UbiError> {
    match number {
        0 => ubi.make_volume(&volume("a", VolumeKind::Dynamic, 3)).await.map(drop),
        1 => ubi.make_volume(&volume("b", VolumeKind::Static, 4)).await.map(drop),
        2 => ubi.update_volume(1, &content(50_000, 1)).await,
        3 => ubi.rename_volumes(&[(0, "c")]).await,
        4 => ubi.resize_volume(0, 5).await,
        5 => ubi.update_volume(1, &content(20_000, 2)).await,
        6 => ubi.remove_volume(0).await,
        _ => ubi.make_volume(&volume("d", VolumeKind::Dynamic, 6)).await.map(drop),
    }
}

/// What is there after so many steps.
fn state(steps: usize) -> State {
    let mut volumes = Vec::new();
    if (1..7).contains(&steps) {
        let name = if steps >= 4 { "c" } else { "a" };
        volumes.push((0, name.to_owned(), if steps >= 5 { 5 } else { 3 }));
    }
    if steps == STEPS {
        volumes.push((0, "d".into(), 6));
    }
    if steps >= 2 {
        volumes.push((1, "b".into(), 4));
    }
    let content = match steps {
        0 | 1 => None,
        2 => Some(Vec::new()),
        3..6 => Some(content(50_000, 1)),
        _ => Some(content(20_000, 2)),
    };
    (volumes, content)
}

fn options(profile: &'static Profile) -> AttachOptions {
    AttachOptions { profile, ..threaded() }
}

/// What is found; no content if the static volume is incomplete or not there.
async fn look(ubi: &Rc<Ubi>) -> State {
    let volumes =
        ubi.info().volumes.into_iter().map(|volume| (volume.id, volume.name, volume.leb_count));
    let volumes: Vec<_> = volumes.collect();
    let static_volume = match ubi.open_volume(1).await {
        Ok(volume) if !volume.is_corrupted() => volume,
        _ => return (volumes, None),
    };
    let mut content = Vec::new();
    let used_bytes = static_volume.used_bytes() as usize;
    for (at, lnum) in (0..used_bytes).step_by(LEB_BYTES as usize).zip(0..) {
        let mut part = vec![0; (used_bytes - at).min(LEB_BYTES as usize)];
        let status =
            static_volume.read(LebNumber::new(lnum), 0, &mut part, true).await.expect("it reads");
        assert!(status.is_readable());
        content.extend(part);
    }
    (volumes, Some(content))
}

fn blank(profile: &'static Profile) -> Chip {
    let (chip, is_done) =
        run(small(32, &FaultSettings::default()), false, move |bench| async move {
            bench.format(&FormatOptions { image_sequence: 1, ..Default::default() }).await;
            bench.attach(options(profile)).await.detach();
        });
    assert!(is_done);
    chip
}

/// Cuts the power after so many operations; false if all was done before.
fn cut(chip: &Chip, profile: &'static Profile, torn: Torn, after: u64) -> bool {
    let mut chip = chip.clone();
    chip.set_torn(torn);
    chip.cut_power_after(after, CutPoint::Inside);
    let done = Rc::new(RefCell::new(0));
    let reached = done.clone();
    let (mut chip, is_done) = run(chip, false, move |bench| async move {
        let ubi = bench.attach(options(profile)).await;
        for number in 0..STEPS {
            step(&ubi, number).await.expect("it works");
            *reached.borrow_mut() = number + 1;
        }
        ubi.detach();
    });
    chip.power_on();
    let steps = *done.borrow();
    let label = format!("{} {torn:?} {after}, {steps} steps", profile.name);
    run(chip, false, move |bench| async move {
        let ubi = bench.attach(options(profile)).await;
        let found = look(&ubi).await;
        let next = (steps + 1).min(STEPS);
        let is_update = matches!(steps, 2 | 5);
        let is_volumes = found.0 == state(steps).0 || found.0 == state(next).0;
        assert!(is_volumes, "{label}: {:?}", found.0);
        let is_content = found.1 == state(steps).1 || found.1 == state(next).1;
        assert!(is_content || (is_update && found.1.is_none()), "{label}: other contents");
        // Work goes on: all is made anew.
        for (id, _) in ubi.volumes() {
            ubi.remove_volume(id).await.unwrap_or_else(|error| panic!("{label}: {error}"));
        }
        for number in 0..STEPS {
            let done = step(&ubi, number).await;
            done.unwrap_or_else(|error| panic!("{label}, step {number}: {error}"));
        }
        assert_eq!(look(&ubi).await, state(STEPS), "{label}");
        assert!(!ubi.is_read_only(), "{label}: {:?}", ubi.findings());
        ubi.detach();
    });
    !is_done
}

fn storm(profile: &str) {
    let profile = find_profile(profile).expect("in the table");
    let chip = blank(profile);
    for (torn, first) in [(Torn::Prefix, 1), (Torn::DataOnly, 2), (Torn::Unreadable, 3)] {
        let mut after = first;
        while cut(&chip, profile, torn, after) {
            after += 3;
        }
        assert!(after > 150, "{after} operations");
    }
}

#[test]
fn volumes_survive_under_linux_2_6_35() {
    storm("linux-2.6.35");
}

#[test]
fn volumes_survive_under_linux_6_12() {
    storm("linux-6.12");
}

/// A volume of six blocks, all of them written.
fn written(profile: &'static Profile) -> Chip {
    let (chip, is_done) = run(blank(profile), false, move |bench| async move {
        let ubi = bench.attach(options(profile)).await;
        ubi.make_volume(&volume("a", VolumeKind::Dynamic, 6)).await.expect("made");
        let volume = ubi.open_volume(0).await.expect("opened");
        for lnum in 0..6 {
            volume.write(LebNumber::new(lnum), 0, &[lnum as u8; 2048]).await.expect("written");
        }
        ubi.finish_works().await.expect("works end");
        ubi.detach();
    });
    assert!(is_done);
    chip
}

/// Shrinks the volume to three blocks and cuts the power after so many operations: whether all was done
/// before, and the blocks it has afterwards, or none if the device is refused.
fn shrink(chip: &Chip, profile: &'static Profile, after: u64) -> (bool, Option<u32>) {
    let mut chip = chip.clone();
    chip.cut_power_after(after, CutPoint::Inside);
    let (mut chip, is_done) = run(chip, false, move |bench| async move {
        let ubi = bench.attach(options(profile)).await;
        ubi.resize_volume(0, 3).await.expect("shrunk");
        ubi.finish_works().await.expect("works end");
        ubi.detach();
    });
    chip.power_on();
    let found = Rc::new(RefCell::new(None));
    let told = found.clone();
    run(chip, false, move |bench| async move {
        let Ok(ubi) = bench.try_attach(options(profile)).await else { return };
        let volume = ubi.open_volume(0).await.expect("opened");
        for lnum in 0..3 {
            let mut page = [0; 2048];
            volume.read(LebNumber::new(lnum), 0, &mut page, false).await.expect("read");
            assert_eq!(page, [lnum as u8; 2048], "{after}: what stays is kept");
        }
        *told.borrow_mut() = Some(volume.leb_count());
    });
    let found = *found.borrow();
    (is_done, found)
}

#[test]
fn a_cut_while_a_volume_shrinks() {
    for name in ["linux-2.6.35", "linux-6.1", "linux-6.12"] {
        let profile = find_profile(name).expect("in the table");
        let chip = written(profile);
        let (mut refused, mut seen) = (0, Vec::new());
        for after in 1.. {
            let (is_done, found) = shrink(&chip, profile, after);
            match found {
                Some(lebs) => seen.push(lebs),
                None => refused += 1,
            }
            if is_done {
                break;
            }
        }
        assert!(
            seen.contains(&6) && seen.contains(&3) && seen.iter().all(|it| [3, 6].contains(it))
        );
        // The old order: the table says three blocks while a fourth has data (`ubi_resize_volume`).
        assert_eq!(refused > 0, !profile.erases_before_shrinking, "{name}: {refused} refused");
    }
}
