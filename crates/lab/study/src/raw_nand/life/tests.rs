//! Lives of file systems with gaps against full runs to the end, on small chips.

use super::{Worn, follow};
use crate::raw_nand::lifecycle::{Stop, play};
use file_systems::find_kind;
use mount::{Driver, MountRequest};
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage};
use std::fmt::Write as _;

/// Blocks of the chip; enough for UBIFS, and few enough for a full run.
const BLOCKS: u32 = 64;
/// Cycles of each, so few that a full run takes seconds.
const LIMIT: u32 = 300;

/// A piece of work on a file system.
#[derive(Clone, Copy)]
struct Case {
    file_system: &'static str,
    profile: Option<&'static str>,
    /// Files of 16 KiB that nobody rewrites.
    still: u32,
    /// Files of 12,000 bytes that a pass writes: with one, a pass is small beside the chip.
    writes: u32,
}

fn told(stop: Stop) -> String {
    match stop {
        Stop::Full => "full".to_owned(),
        Stop::Failed(reason) => reason,
    }
}

/// `count` files, of which each seventh replaces the same one.
fn writes(count: u32, files: u32, bytes: u32, name: &str) -> String {
    let mut lines = String::new();
    for number in 0..count {
        let file = number % files;
        let seed = 1 + number;
        let line = format!("put {name}{file} 644 {bytes} 4096 x {seed} fsync");
        writeln!(lines, "{line}").expect("a string takes all");
    }
    lines
}

fn run(case: &Case, has_gaps: bool) -> Worn {
    let mut part = nand::find_part("k9f2g08u0c").expect("in the catalogue");
    (part.geometry.blocks, part.geometry.pages_per_block) = (BLOCKS, 16);
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let driver = Driver::of_tool(find_layout("linux-large").expect("in the table"));
    let own = *case;
    let outcome = mount::run(chip, &driver, 1, |machine| async move {
        let kind = find_kind(own.file_system).expect("in the table");
        // Compression would take most of the time, and random bytes do not shrink.
        let is_compressed = kind.kernel.options.contains("compr=none");
        let request = MountRequest {
            profile: own.profile.map(str::to_owned),
            options: if is_compressed { vec!["compr=none".to_owned()] } else { Vec::new() },
            ..MountRequest::default()
        };
        let mounted = machine.mount(kind, &request).await.map_err(|error| error.to_string())?;
        let still_data = mounted.file_system.still_data();
        let text = writes(own.still, own.still.max(1), 16384, "still") + "sleep 1000\n";
        let still = script::parse(&text).map_err(|error| error.to_string())?;
        play(&machine, &still, &mounted.vfs, false).await.map_err(told)?;
        let text = writes(own.writes, 7, 12000, "hot") + "sleep 2000\n";
        let script = script::parse(&text).map_err(|error| error.to_string())?;
        let worn =
            follow(&machine, &mounted.vfs, &script, (still_data, LIMIT), has_gaps, u32::MAX).await;
        worn.map_err(told)
    });
    outcome.value.expect("no power cut").expect("a life")
}

/// True if two numbers differ by less than a tenth.
fn is_near(one: u64, other: u64) -> bool {
    (one as f64 / other as f64 - 1.0).abs() < 0.1
}

/// Compares lives with full runs; how many of the full runs even wear would have told.
fn check(cases: &[Case]) -> usize {
    let (mut wrong, mut even_ones) = (Vec::new(), 0);
    for case in cases {
        let (full, quick) = (run(case, false), run(case, true));
        let (first, most) =
            (full.first_bytes.expect("an end"), full.one_percent_bytes.expect("an end"));
        let rated = u128::from(LIMIT) * u128::from(BLOCKS);
        let even = (u128::from(full.host_bytes) * rated / u128::from(full.erases)) as u64;
        let found = (quick.first_bytes.unwrap_or(0), quick.one_percent_bytes.unwrap_or(0));
        let figures = format!(
            "{} with {} still files and {} writes: {found:?} after {} passes, in full {:?} after {}; even wear \
             says {:.2} times",
            case.file_system,
            case.still,
            case.writes,
            quick.passes,
            (first, most),
            full.passes,
            even as f64 / first as f64
        );
        eprintln!("{figures}");
        // Else both may have been full runs.
        let is_quick = quick.passes < full.passes * 2 / 5;
        if !is_near(found.0, first) || !is_near(found.1, most) || !is_quick {
            wrong.push(figures);
        }
        even_ones += usize::from(is_near(even, first));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    even_ones
}

fn case(file_system: &'static str, still: u32, writes: u32) -> Case {
    Case { file_system, profile: None, still, writes }
}

#[test]
fn lives_on_jffs2_end_where_full_runs_do() {
    let even = check(&[case("jffs2", 25, 10), case("jffs2", 25, 1)]);
    // The check refuses a wrong answer: even wear is one here.
    assert_eq!(even, 0);
}

#[test]
fn lives_on_ubifs_end_where_full_runs_do() {
    assert_eq!(check(&[case("ubifs", 25, 10), case("ubifs", 25, 1)]), 0);
}

#[test]
fn lives_on_yaffs2_end_where_full_runs_do() {
    let old =
        |still, writes| Case { profile: Some("linux-2.6.29"), ..case("yaffs2", still, writes) };
    // Without still data all blocks take turns, and even wear is right.
    assert_eq!(check(&[old(25, 10), old(25, 1), old(0, 10)]), 1);
}

#[test]
fn yaffs2_that_refreshes_old_blocks_has_a_bound() {
    let found = run(&Case { profile: Some("linux-6.1"), ..case("yaffs2", 25, 10) }, true);
    assert_eq!((found.first_bytes, found.passes), (None, super::PASSES_MAX));
}
