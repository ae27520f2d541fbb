//! Several processes at once, in virtual time: where their calls commute, the result is that of any order,
//! so that of one process after the other on the model.

use crate::every_kind::{chip, driver, request};
use conformance::{Area, CALLER, Model, SideBySide, play_lines, play_lines_on_model};
use file_systems::KINDS;
use fs_api::{Errno, NewInode};
use mount::{Driver, Kind, run};
use process::Process;

const PROCESSES: u64 = 4;
const LINES: usize = 60;

/// How the lines of each process ended.
type Ends = Vec<Vec<Result<(), Errno>>>;

/// Each process works in a directory of its own: none of its calls depends on those of another.
fn work_side_by_side(kind: &'static Kind, seed: u64) -> Result<(Ends, Ends, u64), String> {
    let area = |process: u64| Area {
        prefix: format!("p{process}/"),
        ..Area::whole(kind.has_owners_and_links)
    };
    // Operations of the chip take time, so that the calls interleave.
    let driver = Driver { takes_time: true, ..driver() };
    let outcome = run(chip(128), &driver, seed, async move |machine| {
        let asked = request(kind, kind.profiles[0]);
        let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
        let sim = &machine.sim;
        let model = Model::new(&*mounted.file_system, kind.has_owners_and_links).await;
        let made: Vec<String> =
            (0..PROCESSES).map(|number| format!("mkdir p{number} 755")).collect();
        play_lines_on_model(sim, &model, &made).await?;
        for number in 0..PROCESSES {
            let name = format!("p{number}").into_bytes();
            let done = mounted.vfs.make(&CALLER, &name, NewInode::Directory(0o755)).await;
            done.map_err(|error| error.to_string())?;
        }
        let lines = |process| area(process).random_lines(seed << 8 | process, LINES);
        let tasks: Vec<_> = (0..PROCESSES)
            .map(|process| {
                let (vfs, sim, lines) = (mounted.vfs.clone(), sim.clone(), lines(process));
                machine.sim.spawn_as(
                    Process::new(process as u32 + 1),
                    format!("process {process}"),
                    async move {
                        let begun_at = sim.now();
                        let ends = play_lines(&sim, &vfs, &lines).await;
                        (ends, begun_at, sim.now())
                    },
                )
            })
            .collect();
        let (mut found, mut known, mut spans) = (Vec::new(), Vec::new(), Vec::new());
        for task in tasks {
            let (ends, begun_at, ended_at) = task.await;
            found.push(ends?);
            spans.push(begun_at..ended_at);
        }
        for (process, ends) in (0..PROCESSES).zip(&mut found) {
            // What a file system does not offer is refused, and leaves nothing behind.
            let both = lines(process).into_iter().zip(std::mem::take(ends));
            let offered = both.filter(|(_, end)| *end != Err(Errno::Eopnotsupp));
            let (lines, offered): (Vec<String>, Vec<_>) = offered.unzip();
            *ends = offered;
            known.push(play_lines_on_model(sim, &model, &lines).await?);
        }
        // Every other process began before this one ended, or nothing was side by side.
        let first_end = spans.iter().map(|span| span.end).min().unwrap_or(0);
        let overlaps = spans.iter().filter(|span| span.start < first_end).count() as u64;
        SideBySide::new(sim, &mounted.vfs, &model).compare().await?;
        mounted.unmount().await.map_err(|error| error.to_string())?;
        let mounted = machine.mount(kind, &asked).await.map_err(|error| error.to_string())?;
        SideBySide::new(sim, &mounted.vfs, &model)
            .compare()
            .await
            .map_err(|wrong| format!("remounted: {wrong}"))?;
        mounted.unmount().await.map_err(|error| error.to_string())?;
        Ok::<_, String>((found, known, overlaps))
    });
    outcome.value.expect("the power is not cut")
}

#[test]
fn processes_side_by_side_do_what_they_do_alone() {
    for kind in KINDS {
        for seed in 0..2 {
            let done = work_side_by_side(kind, seed);
            let (found, known, overlaps) =
                done.unwrap_or_else(|wrong| panic!("{}, seed {seed}: {wrong}", kind.name));
            assert_eq!(overlaps, PROCESSES, "{}, seed {seed}", kind.name);
            for (number, (found, known)) in found.iter().zip(&known).enumerate() {
                assert_eq!(found, known, "{}, seed {seed}, process {number}", kind.name);
                assert!(found.len() > LINES / 2, "{}, seed {seed}, process {number}", kind.name);
            }
        }
    }
}
