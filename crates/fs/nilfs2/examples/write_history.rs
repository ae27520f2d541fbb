//! Carries a script of system calls out on a new NILFS2 and writes the device as an image.
//!
//!     write_history SCRIPT IMAGE MEBIBYTES [CUT]
//!
//! The calls come a tenth of a second apart, so that the timers of the constructor and of the superblocks
//! run. When segments become scarce, the cleaner frees some; now and then a checkpoint is pinned as a
//! snapshot. The file system is unmounted at the end, unless the power fails before: after CUT more blocks
//! once half of the script is done. Calls that fail are counted and passed over. The results are printed
//! as `NAME VALUE`, a line each.

use block_medium::{BlockMedium, MemoryMedium};
use fs_api::FileSystem;
use nilfs2::{CleanerSettings, FormatOptions, MountOptions, Nilfs2, PROFILES, format};
use random::Stream;
use script::{Command, Runner, parse};
use sim::{Cpus, Sim, Simulation};
use std::cell::Cell;
use std::error::Error;
use std::io::Write;
use std::rc::Rc;
use vfs::Vfs;

const BLOCK_BYTES: usize = 4096;
const EPOCH_S: u64 = 1_600_000_000;
const BETWEEN_CALLS_NS: u64 = 100_000_000;
/// Calls between one snapshot and the next.
const SNAPSHOT_CALLS: usize = 1500;

/// Calls that were made, and those that failed.
#[derive(Default)]
struct Counts {
    is_finished: Cell<bool>,
    cleaned_segments: Cell<u64>,
    moved_blocks: Cell<u64>,
    snapshots: Cell<u64>,
    failed_calls: Cell<u64>,
}

struct History {
    sim: Sim,
    medium: Rc<MemoryMedium>,
    commands: Vec<Command>,
    cut_after_blocks: Option<u64>,
    counts: Rc<Counts>,
}

impl History {
    async fn write(self, cpus: Rc<Cpus>) {
        let profile = PROFILES.last().expect("there are profiles");
        let fresh = FormatOptions {
            blocks_per_segment: 64,
            now_s: EPOCH_S,
            label: b"history".to_vec(),
            ..FormatOptions::default()
        };
        format(&*self.medium, &fresh).await.expect("it is made");
        let options = MountOptions { epoch_s: EPOCH_S, ..MountOptions::new(profile) };
        let medium: Rc<dyn BlockMedium> = self.medium.clone();
        let fs = Nilfs2::mount(&self.sim, cpus, medium, options).await.expect("it mounts");
        let vfs = Rc::new(Vfs::new(&self.sim, Rc::new(fs.clone())));
        let runner = Runner::new(&self.sim, vfs, EPOCH_S.cast_signed());
        for (number, command) in self.commands.iter().enumerate() {
            if let (true, Some(blocks)) = (number == self.commands.len() / 2, self.cut_after_blocks)
            {
                self.medium.cut_power_after(blocks);
            }
            if runner.step(&command.step).await.is_err() {
                self.counts.failed_calls.set(self.counts.failed_calls.get() + 1);
            }
            self.sim.sleep(BETWEEN_CALLS_NS).await;
            if number % SNAPSHOT_CALLS == SNAPSHOT_CALLS / 3 {
                let checkpoint = fs.make_checkpoint().await.expect("there is room");
                fs.change_checkpoint(checkpoint, true).await.expect("it was made");
                self.counts.snapshots.set(self.counts.snapshots.get() + 1);
            }
            self.make_room(&fs).await;
        }
        fs.unmount().await.expect("it unmounts");
        self.counts.is_finished.set(true);
        self.sim.stop();
    }

    /// Cleans segments while there are few clean ones.
    async fn make_room(&self, fs: &Nilfs2) {
        let space = fs.space();
        if space.free_blocks > space.blocks / 2 {
            return;
        }
        let settings = CleanerSettings { protection_period_s: 0, ..CleanerSettings::default() };
        fs.sync().await.expect("there is room");
        let done = fs.clean(&settings, 8, 0).await.expect("there is room");
        self.counts.cleaned_segments.set(self.counts.cleaned_segments.get() + done.segments);
        self.counts.moved_blocks.set(self.counts.moved_blocks.get() + done.moved_blocks);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (script, image, mebibytes, cut) = match &arguments[..] {
        [script, image, mebibytes] => (script, image, mebibytes, None),
        [script, image, mebibytes, cut] => (script, image, mebibytes, Some(cut.parse()?)),
        _ => return Err("SCRIPT IMAGE MEBIBYTES [CUT]".into()),
    };
    let mut simulation = Simulation::new(1);
    let sim = simulation.handle();
    let medium = Rc::new(MemoryMedium::new(BLOCK_BYTES, mebibytes.parse::<u64>()? << 20));
    let counts = Rc::new(Counts::default());
    let history = History {
        sim: sim.clone(),
        medium: medium.clone(),
        commands: parse(&std::fs::read_to_string(script)?)?.commands().collect(),
        cut_after_blocks: cut,
        counts: counts.clone(),
    };
    let cpus = Rc::new(Cpus::new(&sim, 1, 10_000_000));
    sim.spawn(history.write(cpus));
    simulation.run();
    if counts.is_finished.get() == cut.is_some() {
        return Err("the power was not cut where it should be".into());
    }
    // A device with a cache of its own loses some of what it did not have to keep.
    let lose = &mut Stream::new(cut.unwrap_or(0), "cache");
    let left = medium.after_cut(cut.map(|_| lose));
    left.save(&mut std::io::BufWriter::new(std::fs::File::create(image)?))?;
    let mut out = std::io::stdout();
    writeln!(out, "written_blocks {}", medium.written_blocks())?;
    writeln!(out, "cleaned_segments {}", counts.cleaned_segments.get())?;
    writeln!(out, "moved_blocks {}", counts.moved_blocks.get())?;
    writeln!(out, "snapshots {}", counts.snapshots.get())?;
    writeln!(out, "failed_calls {}", counts.failed_calls.get())?;
    Ok(())
}
