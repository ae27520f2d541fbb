//! The contract: a piece of work of a given size, and what its growth may be.

use crash::{Crash, Cuts, Sabotage, Setup};
use device_replay::{Pace, Preconditioning, ReplayOptions, Stacks, replay_all};
use mount::MountRequest;
use mtd::find_layout;
use nand::{Chip, FaultSettings, Storage, find_part};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use trace::{AddressRule, Operation, Record, TraceWriter};

/// What a case returns: kept while its memory is read, then dropped.
pub(crate) type Outcome = Result<Box<dyn std::any::Any>, Box<dyn Error>>;

/// Work whose size is a number of units.
pub(crate) struct Case {
    /// What is done, and with what.
    pub(crate) name: &'static str,
    /// The workload kind that it belongs to; none of work outside of studies.
    pub(crate) kind: Option<&'static str>,
    /// What is counted.
    pub(crate) unit: &'static str,
    /// Fewest units; ten and a hundred times as many follow.
    pub(crate) units: u64,
    /// How it is done.
    pub(crate) work: Work,
    /// Heap bytes that a further unit may take while the work is done.
    pub(crate) bytes_per_unit_max: f64,
}

/// How a case is done.
pub(crate) enum Work {
    /// A study file; `UNITS` in its text is the number.
    Study(&'static str),
    /// A study file; `SEEDS` in its text is a list of as many numbers, and so of cells.
    Cells(&'static str),
    /// A study file that replays `TRACE`, a trace of as many requests in the format of this extension.
    Trace(&'static str, &'static str),
    /// A replay on this device, in a closed loop, of a trace of as many requests.
    DeviceReplay(&'static str),
    /// Power cuts of this file system under a script of as many files.
    Cuts(&'static str),
}

/// Folder and files of a case, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(case: &str) -> Result<Self, std::io::Error> {
        let name = case.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path =
            std::env::temp_dir().join(format!("nandlab-growth-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that is left over in the folder for temporary files changes no figure.
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Case {
    /// Prepares the work of `units` units; the call of what is returned does it.
    ///
    /// What is prepared (a trace on disk, a recorded script) is not part of the work.
    pub(crate) fn prepare(
        &self,
        units: u64,
    ) -> Result<Box<dyn FnOnce() -> Outcome>, Box<dyn Error>> {
        let text = match self.work {
            Work::Study(text) => text.replace("UNITS", &units.to_string()),
            Work::Cells(text) => {
                let seeds: Vec<String> = (1..=units).map(|seed| seed.to_string()).collect();
                text.replace("SEEDS", &seeds.join(","))
            }
            Work::Trace(text, _) => text.to_owned(),
            Work::Cuts(kind) => return cuts(kind, units),
            Work::DeviceReplay(device) => return self.device_replay(device, units),
        };
        let folder = Folder::new(self.name)?;
        let path = folder.0.join("study.toml");
        let text = match self.work {
            Work::Trace(_, extension) => {
                let trace = folder.0.join(format!("trace.{extension}"));
                write_trace(&trace, extension, units)?;
                text.replace("TRACE", &trace.to_string_lossy())
            }
            _ => text,
        };
        fs::write(&path, text)?;
        // The folder goes with the closure: the study reads its files when the work begins.
        Ok(Box::new(move || {
            let study = study::load(&path, &[], None, false)?;
            let results = study::run_study(&study, 1, &mut |_, _, _| true)?;
            drop(folder);
            Ok(Box::new(results))
        }))
    }
}

impl Case {
    fn device_replay(
        &self,
        device: &str,
        units: u64,
    ) -> Result<Box<dyn FnOnce() -> Outcome>, Box<dyn Error>> {
        let folder = Folder::new(self.name)?;
        let path = folder.0.join("trace.parquet");
        write_trace(&path, "parquet", units)?;
        let options = ReplayOptions {
            trace: path,
            reading: trace::Options::default(),
            pace: Pace::ClosedLoop { queue_depth: 32 },
            address: AddressRule::Error,
            nr_requests: 128,
            timeline: None,
            seed: 1,
        };
        let stacks = Stacks {
            device: device.to_owned(),
            changes: BTreeMap::new(),
            ftls: Vec::new(),
            schedulers: vec!["noop".to_owned()],
            preconditioning: Preconditioning::Fill,
        };
        Ok(Box::new(move || {
            let runs = replay_all(&options, &stacks)?;
            drop(folder);
            Ok(Box::new(runs))
        }))
    }
}

/// Writes of a page each, that walk over a disk of 8 MiB with a stride that meets every page.
fn write_trace(path: &Path, extension: &str, requests: u64) -> Result<(), Box<dyn Error>> {
    const PAGE_BYTES: u64 = 2048;
    const PAGES: u64 = 4096;
    // Odd, and so without a common factor with the number of pages.
    const STRIDE_PAGES: u64 = 1021;
    let offset_bytes = |request: u64| request * STRIDE_PAGES % PAGES * PAGE_BYTES;
    if extension == "log" {
        let mut text = String::from("fio version 2 iolog\n/dev/disk add\n/dev/disk open\n");
        for request in 0..requests {
            writeln!(text, "/dev/disk write {} {PAGE_BYTES}", offset_bytes(request))?;
        }
        text += "/dev/disk close\n";
        return Ok(fs::write(path, text)?);
    }
    let mut writer = TraceWriter::create(path)?;
    let record = |request: u64| {
        let arrival_ns = request * 1000;
        Record::new(arrival_ns, Operation::Write, offset_bytes(request), PAGE_BYTES as u32)
    };
    for request in 0..requests {
        writer.write(&[record(request)])?;
    }
    Ok(writer.finish(&BTreeMap::new())?)
}

/// Power cuts at some operations of a script that writes so many files.
fn cuts(kind: &'static str, files: u64) -> Result<Box<dyn FnOnce() -> Outcome>, Box<dyn Error>> {
    // The same files again and again: the tree that a cut is compared with does not grow.
    const NAMES: u64 = 8;
    // Each cut takes the same memory, so that a few of them are enough.
    const CUT_EVERY: u64 = 50;
    let lines =
        (0..files).map(|file| format!("put f{} 644 3000 4096 x {file}\nsync\n", file % NAMES));
    let script = script::parse(&lines.collect::<String>())?;
    let mut part = find_part("k9f2g08u0c").ok_or("a part of the catalogue")?;
    part.geometry.blocks = 32;
    let chip = Chip::new(&part, Storage::Bytes, &FaultSettings::default());
    let layout = find_layout("linux-large").ok_or("a layout of the table")?;
    let request = MountRequest::default();
    let setup = Setup { kind, request, layout, seed: 1, sabotage: Sabotage::None };
    Ok(Box::new(move || {
        let crash = Crash::new(&chip, &setup, &script)?;
        let cuts = Cuts { workers: Some(1), every: CUT_EVERY, ..Cuts::default() };
        Ok(Box::new(crash.run(&cuts, |_, _| true)?))
    }))
}
