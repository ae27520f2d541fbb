//! Scripts of system calls, carried out over a file system on raw NAND.

use crate::boundary::tell;
use crate::{NandlabError, failed};
use board::Board;
use cancellation::{Checked, Interrupted};
use file_systems::find_kind;
use image::ImageOnChip;
use mount::{BlockDeviceChoice, BlockRequest, CardContents, Driver, MountRequest, UbiRequest};
use mtd::LAYOUTS;
use nand::{Chip, FaultSettings, ImageError, ImageLayout, Storage};
use pyo3::prelude::*;
use script::ScriptError;
use script_runner::{
    LineTracks, Observed, PhaseCounts, Record, RunnerError, Scrub, Setup, SoFar, counts_csv_of,
    sequence,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The part of the chip if none is named.
const PART: &str = "nandsim-64MiB";
/// From an hour on, an interval of write-back stands for never.
const NEVER_CENTISECS: u32 = 360_000;

const NANOSECONDS_PER_HOUR: u64 = 3_600_000_000_000;

/// Options of `run_script`, as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    fs: Option<String>,
    part: Option<String>,
    blocks: Option<u32>,
    /// Where UBI's volume identifier headers stand, unless a line says otherwise.
    vid_hdr_offset: Option<u32>,
    profile: Option<String>,
    /// Block device under file systems that want one.
    block_device: Option<String>,
    board: Option<String>,
    image: Option<PathBuf>,
    seed: u64,
    dirty_writeback_centisecs: u32,
    keep_going: bool,
    workload: String,
    /// Where the chip is written at the end.
    dump: Option<PathBuf>,
    /// Where the operations of the chip are written.
    sequence: Option<PathBuf>,
    /// Where the timeline of the run is written.
    timeline: Option<PathBuf>,
    /// Folder for the chips that the script keeps.
    dump_directory: Option<PathBuf>,
}

/// What a script can be carried out on, and the chip it begins with.
struct Bench {
    setup: Setup,
    chip: Chip,
}

/// Carries out a script: counts by phase, and the files that were asked for.
///
/// `progress(done, total, label)` may raise to stop it, and so may a signal handler. The answer then has
/// `interrupted` set, and holds what was counted at the end of the last whole line; no file is written.
/// `elsewhere(place, reason)` is asked where a file goes that cannot be written at its place: none leaves it
/// out, which the caller tells of; an exception fails the call.
#[pyfunction]
pub(crate) fn run_script(
    python: Python<'_>,
    shown: String,
    text: String,
    arguments_json: &str,
    progress: Py<PyAny>,
    elsewhere: Py<PyAny>,
) -> PyResult<String> {
    let arguments: Arguments = serde_json::from_str(arguments_json).map_err(failed)?;
    let work = move || {
        let so_far = Rc::default();
        let run = || carry_out(&shown, &text, &arguments, progress, &elsewhere, &so_far);
        let record = match cancellation::catch(run) {
            Ok(done) => done.map_err(NandlabError::new_err)?,
            Err(Interrupted) => None,
        };
        Ok(arguments.answer(&shown, record.as_ref(), &so_far.borrow()).to_string())
    };
    crate::boundary::carry_out(python, work)?.part()
}

/// Runs the script and writes the files that were asked for; none if somebody stopped it.
fn carry_out(
    shown: &str,
    text: &str,
    arguments: &Arguments,
    progress: Py<PyAny>,
    elsewhere: &Py<PyAny>,
    so_far: &Rc<RefCell<SoFar>>,
) -> Result<Option<Record>, String> {
    let script = script::parse(text).map_err(|error| told(shown, &error))?;
    let bench = arguments.bench(script::blocks_wanted(&script))?;
    let timeline = match &arguments.timeline {
        Some(path) => Some(LineTracks::create(path, text).map_err(|error| at(path, &error))?),
        None => None,
    };
    let observed = Observed { so_far: so_far.clone(), timeline };
    let mut throttle = Throttle::default();
    let watch = Box::new(move |done: u64, total: u64| throttle.tell(&progress, done, total));
    let (chip, record) =
        match script_runner::run_observed(&script, bench.chip, &bench.setup, watch, &observed) {
            Ok(done) => done,
            Err(RunnerError::Stopped) => return Ok(None),
            Err(RunnerError::Line { place, reason }) => {
                return Err(format!("{shown}:{}: {reason}", place.behind_file()));
            }
            Err(other @ RunnerError::PowerLost) => return Err(format!("{shown}: {other}")),
        };
    arguments.write(&chip, &record, elsewhere)?;
    if let (Some(timeline), Some(path)) = (&observed.timeline, &arguments.timeline) {
        timeline.finish().map_err(|error| at(path, &error))?;
    }
    Ok(Some(record))
}

/// A line that cannot be read, behind the name of its file.
pub(crate) fn told(shown: &str, error: &ScriptError) -> String {
    format!("{shown}:{}:{}: {}", error.line, error.column, error.reason)
}

/// Tells of some commands only: a script of a million of them would spend its time in Python.
#[derive(Default)]
struct Throttle {
    told: u64,
}

impl Throttle {
    fn tell(&mut self, progress: &Py<PyAny>, done: u64, total: u64) -> bool {
        // As often as a bar of a terminal can show; a short script tells of every line.
        if done < self.told + total / 1000 {
            return !cancellation::is_requested();
        }
        self.told = done;
        tell(progress, done, total, "")
    }
}

fn shown_phase(phase: &PhaseCounts) -> Value {
    json!({
        "phase": phase.name,
        "reads": phase.counts.reads(),
        "programs": phase.counts.programs(),
        "erases": phase.counts.erases,
        "duration_ns": phase.duration_ns,
    })
}

fn shown_scrub(scrub: &Scrub) -> Value {
    let path = |path: &[u8]| match String::from_utf8_lossy(path) {
        root if root.is_empty() => ".".to_owned(),
        path => path.into_owned(),
    };
    json!({
        "place": scrub.place.behind_file(),
        "aged_ms": scrub.aged.milliseconds,
        "rated_hours": scrub.aged.rated_ns / NANOSECONDS_PER_HOUR,
        "temperatures_celsius": scrub.aged.celsius,
        "erase_cycles_min": scrub.erase_cycles.0,
        "erase_cycles_max": scrub.erase_cycles.1,
        "ecc_correctable_bits": scrub.ecc_correctable_bits,
        "ecc_codeword_bytes": scrub.ecc_codeword_bytes,
        "count": scrub.count,
        "files": scrub.files.iter().map(|file| json!({
            "path": path(&file.path),
            "corrected_bits": file.corrected_bits,
            "uncorrectable_reads": file.uncorrectable_reads,
            "error": file.error,
            "wrong_bytes": file.wrong_bytes,
        })).collect::<Vec<_>>(),
    })
}

impl Arguments {
    /// The answer of a whole run, or of one that was stopped and has no record.
    fn answer(&self, shown: &str, record: Option<&Record>, so_far: &SoFar) -> Value {
        let none = Record::default();
        let whole = record.unwrap_or(&none);
        let (phases, scrubs, profile, file_system) = match record {
            Some(record) => (&record.phases, &record.scrubs, record.profile, record.file_system),
            None => (&so_far.phases, &so_far.scrubs, so_far.profile, so_far.file_system),
        };
        let unfinished = so_far.unfinished.as_ref().filter(|_| record.is_none());
        json!({
            "phases": phases.iter().map(shown_phase).collect::<Vec<_>>(),
            "unfinished": unfinished.map(shown_phase),
            "interrupted": record.is_none(),
            "line": so_far.place.line,
            "passes": so_far.place.passes_text(),
            "late": whole.lateness.iter().filter_map(|late| {
                Some(format!("{shown}:{}: {}", late.place.line, late.text()?))
            }).collect::<Vec<_>>(),
            "counts_csv": counts_csv_of(phases, profile, &self.workload, self.seed),
            "failures": whole.failures.iter().map(|failure| {
                let (place, reason) = (failure.place.behind_file(), &failure.reason);
                let times = match failure.times {
                    1 => String::new(),
                    times => format!(" ({times} times)"),
                };
                format!("{shown}:{place}: {reason}{times}")
            }).collect::<Vec<_>>(),
            "file_system": file_system,
            "profile": profile,
            "part": self.part.as_deref().unwrap_or(PART),
            "seed": self.seed,
            "scrubs": scrubs.iter().map(shown_scrub).collect::<Vec<_>>(),
            "findings": whole.findings,
            "is_mounted": whole.is_mounted,
            "kept": whole.kept.keys().collect::<Vec<_>>(),
        })
    }

    fn bench(&self, blocks_wanted: Option<u32>) -> Result<Bench, String> {
        let kind = self
            .fs
            .as_deref()
            .map(find_kind)
            .transpose()
            .map_err(|error| format!("--fs: {error}"))?;
        let part_name = self.part.as_deref().unwrap_or(PART);
        let mut part = study::find_part_or_file(part_name).map_err(|error| error.to_string())?;
        let read = |path: &PathBuf| ImageOnChip::read(path, &part.geometry);
        let image = self.image.as_ref().map(read).transpose();
        let image = image.map_err(|error| error.to_string())?;
        let blocks = self.blocks.or(image.as_ref().map(|image| image.blocks)).or(blocks_wanted);
        // Fewer blocks than the part has are a partition of it: UBI keeps blocks for all its bad ones.
        let chip_blocks = blocks.unwrap_or(0).max(part.geometry.blocks);
        part.geometry.blocks = blocks.unwrap_or(part.geometry.blocks);
        study::check_geometry(&part.geometry).map_err(|reason| format!("--blocks: {reason}"))?;
        let fits = |layout: &&mtd::OobLayout| {
            layout.name.starts_with("linux-")
                && (layout.page_bytes, layout.oob_bytes)
                    == (part.geometry.page_data_bytes, part.geometry.page_oob_bytes)
        };
        let layout = LAYOUTS.iter().find(fits).ok_or_else(|| {
            format!(
                "--part {part_name}: pages of {} + {} bytes have no spare-area layout here: 2048 + 64 \
                 and 512 + 16 have one",
                part.geometry.page_data_bytes, part.geometry.page_oob_bytes
            )
        })?;
        let chip = match (&self.image, &image) {
            (Some(path), Some(image)) => {
                image.chip(path, &part, layout).map_err(|error| error.to_string())?
            }
            _ => Chip::new(&part, Storage::Bytes, &FaultSettings::default()),
        };
        let header_offset = image.and_then(|image| image.ubi_header_offset);
        if let Some(kind) = kind {
            kind.profile(self.profile.as_deref()).map_err(|error| format!("--profile: {error}"))?;
        }
        let mut block = BlockRequest::default();
        if let Some(name) = &self.block_device {
            let found = BlockDeviceChoice::find(name);
            block.device = found.map_err(|error| format!("--block-device: {error}"))?;
        }
        let request = MountRequest {
            block,
            profile: self.profile.clone(),
            has_write_back: (1..NEVER_CENTISECS).contains(&self.dirty_writeback_centisecs),
            seed: self.seed,
            ubi: UbiRequest {
                // An image of UBI says where its headers stand.
                header_offset: self.vid_hdr_offset.or(header_offset),
                chip_blocks: Some(chip_blocks),
                volume: None,
            },
            ..MountRequest::default()
        };
        let board = self.board.as_deref().map_or_else(|| Ok(Board::without_costs()), find_board)?;
        let driver = Driver::of_board(layout, Rc::new(board));
        let setup = Setup {
            kind,
            driver,
            request,
            part,
            keeps_going: self.keep_going,
            logs_operations: self.sequence.is_some(),
        };
        Ok(Bench { setup, chip })
    }

    fn write(&self, chip: &Chip, record: &Record, elsewhere: &Py<PyAny>) -> Result<(), String> {
        if let Some(path) = &self.dump {
            keep(path, elsewhere, |place| save(place, chip))?;
        }
        if let Some(path) = &self.sequence {
            let text = sequence(record);
            keep(path, elsewhere, |place| std::fs::write(place, &text).map_err(reason))?;
        }
        if let Some(folder) = &self.dump_directory {
            for (name, chip) in &record.kept {
                let file = Path::new(name).file_name().ok_or_else(|| {
                    format!("`{name}` cannot be the name of a file in {}", folder.display())
                })?;
                keep(&folder.join(file), elsewhere, |place| save(place, chip))?;
            }
        }
        Ok(())
    }
}

/// The catalogue board of that name, else the board file at that path.
fn find_board(name: &str) -> Result<Board, String> {
    if let Some(found) = board::find_board(name) {
        return Ok(found);
    }
    if Path::new(name).is_file() {
        return board::load_board(Path::new(name)).map_err(|error| error.to_string());
    }
    let known: Vec<String> = board::catalogue().into_iter().map(|board| board.name).collect();
    Err(format!("--board: there is no board `{name}`: {} are known", known.join(", ")))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Writes a file, or elsewhere if its place takes it no more: the run that it came from may have been long.
fn keep(
    path: &Path,
    elsewhere: &Py<PyAny>,
    write: impl Fn(&Path) -> Result<(), String>,
) -> Result<(), String> {
    let mut place = path.to_owned();
    while let Err(reason) = write(&place) {
        let next = Python::attach(|python| {
            let answer = elsewhere.call1(python, (path, &reason))?;
            answer.extract::<Option<PathBuf>>(python)
        });
        match next {
            Ok(Some(next)) => place = next,
            Ok(None) => return Ok(()),
            Err(_) => return Err(format!("{}: {reason}", path.display())),
        }
    }
    Ok(())
}

/// Why, without the number that Rust adds: nobody looks errors of the system up by it.
fn reason(error: std::io::Error) -> String {
    let text = error.to_string();
    let number = error.raw_os_error().map(|number| format!(" (os error {number})"));
    number.and_then(|number| text.strip_suffix(&number).map(str::to_owned)).unwrap_or(text)
}

/// Writes what a card holds, as long as the partition; what was never written takes no room in the file.
pub(crate) fn save_disk(path: &Path, card: &CardContents, bytes: u64) -> Result<(), String> {
    let file = File::create(path).map_err(reason)?;
    file.set_len(bytes).map_err(reason)?;
    for (sector, content) in card.sectors() {
        file.write_all_at(content, units::sector_start(sector)).map_err(reason)?;
    }
    Ok(())
}

pub(crate) fn save(path: &Path, chip: &Chip) -> Result<(), String> {
    let mut writer = BufWriter::new(Checked(File::create(path).map_err(reason)?));
    chip.save_image(&mut writer, ImageLayout::WithOob).map_err(|error| match error {
        ImageError::Io(error) => reason(error),
        other => other.to_string(),
    })?;
    writer.flush().map_err(reason)
}
