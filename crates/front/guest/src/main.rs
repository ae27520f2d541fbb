//! `nandlab-guest`: what runs inside the virtual machine.
//!
//! The file workload of a capture: `sizes` prints the sizes of a file set, `run` carries the workload
//! out. Scripts of system calls: `plan` says on the host what a script needs, or the line that a kernel
//! cannot carry out; `script` carries it out, on a chip; `block-script` on a disk; `tear` cuts the power
//! of the chip within it. `list` prints a tree. `calls` makes the calls of a script in a directory of any
//! file system, the host's too. `host-script` does so for a user, who is told what cannot be done there.

#![expect(clippy::print_stdout, reason = "its results go to standard output")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

mod block_script;
mod copy_source;
mod host_script;
mod in_kernel;
mod kernel_script;
mod lazy_writer;
mod play;
mod tearing;
mod workload;

use copy_source::CopySource;
use file_workload::FileSet;
use kernel_script::calls::Calls;
use kernel_script::{CHIP_BLOCKS, Plan, Setup};
use lazy_writer::LazyWriter;
use play::{Clock, Ground, LineError, ProcessPlan, Stage, play, play_process};
use script::{Command, Step};

const USAGE: &str = "usage:
  nandlab-guest sizes --set jpg|mp3 --seed N
  nandlab-guest run --set jpg|mp3 --seed N --operations N --processes N --directory PATH
      --capacity-bytes N --cluster-bytes N --marker PATH --log PATH
      [--writer synced | --writer lazy --source-bytes-per-second N --source-access-microseconds N]
  nandlab-guest plan --file PATH [--fs NAME]
  nandlab-guest script --file PATH [--fs NAME] --blocks N --mount-point PATH --output PATH
      --keep-going yes|no --dump yes|no [--image PATH] [--header-offset N]
  nandlab-guest block-script --file PATH --fs NAME --device PATH --mount-point PATH
      [--marker PATH] [--failures PATH]
  nandlab-guest tear --plan PATH --fs NAME --blocks N --header-offset N --module PATH
      --mount-point PATH --output PATH
  nandlab-guest host-script --file PATH --directory PATH --keep-going yes|no --waits yes|no
  nandlab-guest process --file PATH --mount-point PATH --keep-going yes|no --waits yes|no
      --line N --column N --begun-ns N --passes -NAME=N,...
  nandlab-guest calls --file PATH --directory PATH --failures PATH
  nandlab-guest list --mount-point PATH --file PATH";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("nandlab-guest: {message}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), String> {
    let (verb, rest) = arguments.split_first().ok_or(USAGE)?;
    let options = Options::parse(rest)?;
    match verb.as_str() {
        "sizes" => {
            let file_set = FileSet::named(options.text("set")?)?;
            for size_bytes in file_set.sizes_bytes(options.number("seed")?) {
                println!("{size_bytes}");
            }
            Ok(())
        }
        "run" => run(&options),
        "plan" => print_plan(&options),
        "script" => run_script(&options),
        "block-script" => run_block_script(&options),
        "tear" => tear(&options),
        "list" => list(&options),
        "calls" => calls(&options),
        "process" => process(&options),
        "host-script" => host_script::carry_out(&host_script::Setup {
            file: options.text("file")?.into(),
            directory: options.text("directory")?.into(),
            keeps_going: options.text("keep-going")? == "yes",
            waits: options.text("waits")? == "yes",
        }),
        _ => Err(format!("unknown verb {verb}\n{USAGE}")),
    }
}

fn run(options: &Options) -> Result<(), String> {
    let plan = workload::Plan {
        file_set: FileSet::named(options.text("set")?)?,
        seed: options.number("seed")?,
        operations: options.number("operations")?,
        processes: options.number("processes")?,
        directory: options.text("directory")?.into(),
        capacity_bytes: options.number("capacity-bytes")?,
        cluster_bytes: options.number("cluster-bytes")?,
        marker: options.text("marker")?.into(),
        log: options.text("log")?.into(),
        writer: writer(options)?,
    };
    let outcome = workload::run(&plan).map_err(|error| error.to_string())?;
    println!("filled_files={}", outcome.filled_files);
    println!("filled_bytes={}", outcome.filled_bytes);
    println!("copies={}", outcome.copies);
    println!("deletes={}", outcome.deletes);
    println!("copied_bytes={}", outcome.copied_bytes);
    println!("free_bytes_mean={}", outcome.free_bytes_sum / plan.operations.max(1));
    println!("free_bytes_maximum={}", outcome.free_bytes_maximum);
    if let Some(lazy) = outcome.lazy {
        println!("lazily_written_bytes={}", lazy.started_bytes);
        println!("unwritten_bytes={}", lazy.unwritten_bytes);
        println!("finally_synced_bytes={}", lazy.left_bytes);
        println!("dirty_bytes_maximum={}", lazy.dirty_bytes_maximum);
    }
    Ok(())
}

fn writer(options: &Options) -> Result<workload::Writer, String> {
    match options.text("writer").unwrap_or("synced") {
        "synced" => Ok(workload::Writer::Synced),
        "lazy" => {
            let access_time = Duration::from_micros(options.number("source-access-microseconds")?);
            let bytes_per_second = options.number("source-bytes-per-second")?;
            if bytes_per_second == 0 {
                return Err("--source-bytes-per-second is 0: nothing is ever copied".into());
            }
            Ok(workload::Writer::Lazy {
                source: CopySource::new(bytes_per_second, access_time),
                writer: LazyWriter::default(),
            })
        }
        other => Err(format!("unknown writer {other}: use synced or lazy")),
    }
}

fn read_plan(options: &Options) -> Result<Result<Plan, LineError>, String> {
    let path = options.text("file")?;
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    Ok(kernel_script::plan(&text, options.text("fs").ok()))
}

/// What a script needs, one `name=value` a line; or `refused=LINE REASON`.
fn print_plan(options: &Options) -> Result<(), String> {
    match read_plan(options)? {
        Ok(plan) => {
            println!("blocks={}", plan.blocks_wanted.unwrap_or(CHIP_BLOCKS));
            println!("wait_milliseconds={}", plan.wait_milliseconds);
        }
        Err((place, reason)) => println!("refused={place}\t{reason}"),
    }
    Ok(())
}

/// Leaves a file `refused` (LINE REASON) beside the other files if a line cannot be carried out.
fn run_script(options: &Options) -> Result<(), String> {
    let output = PathBuf::from(options.text("output")?);
    let offset = || options.number("header-offset").map(u32::try_from);
    let setup = Setup {
        file_system: options.text("fs").ok().map(str::to_owned),
        header_offset: offset().ok().and_then(Result::ok),
        blocks: u32::try_from(options.number("blocks")?).map_err(|error| error.to_string())?,
        mount_point: options.text("mount-point")?.into(),
        output: output.clone(),
        image: options.text("image").ok().map(PathBuf::from),
        keeps_going: options.text("keep-going")? == "yes",
        file: options.text("file")?.into(),
        dumps: options.text("dump")? == "yes",
    };
    let done = read_plan(options)?.and_then(|plan| kernel_script::carry_out(&plan, setup));
    let Err((place, reason)) = done else { return Ok(()) };
    std::fs::write(output.join("refused"), format!("{place}\t{reason}\n"))
        .map_err(|error| error.to_string())
}

fn run_block_script(options: &Options) -> Result<(), String> {
    let path = options.text("file")?;
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let setup = block_script::Setup {
        file_system: options.text("fs")?.to_owned(),
        device: options.text("device")?.to_owned(),
        mount_point: options.text("mount-point")?.into(),
        marker: options.text("marker").ok().map(PathBuf::from),
        failures: options.text("failures").ok().map(PathBuf::from),
        file: path.into(),
    };
    block_script::carry_out(&text, &setup).map_err(|reason| format!("{path}: {reason}"))
}

fn tear(options: &Options) -> Result<(), String> {
    let small = |name| u32::try_from(options.number(name)?).map_err(|error| error.to_string());
    let setup = tearing::Setup {
        file_system: options.text("fs")?.to_owned(),
        blocks: small("blocks")?,
        header_offset: small("header-offset")?,
        module: options.text("module")?.into(),
        mount_point: options.text("mount-point")?.into(),
        output: options.text("output")?.into(),
    };
    tearing::carry_out(options.text("plan")?, &setup)
}

/// Makes the calls of a script below a directory, and notes those that fail.
fn calls(options: &Options) -> Result<(), String> {
    let path = options.text("file")?;
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    let script = script::parse(&text).map_err(|error| error.to_string())?;
    let mount_point = PathBuf::from(options.text("directory")?);
    let mut stage = CallsAlone { calls: Calls::below(&mount_point), failures: String::new() };
    let (file, clock) = (path.into(), Clock::begin());
    let ground = Ground { file, mount_point, keeps_going: true, waits: true, clock };
    if let Err((place, reason)) = play(&script, &ground, &mut stage) {
        let _ = writeln!(stage.failures, "{place}\t{reason}");
    }
    std::fs::write(options.text("failures")?, stage.failures).map_err(|error| error.to_string())
}

/// Makes calls and notes those that fail. Nothing is mounted, and nobody waits.
struct CallsAlone {
    calls: Calls,
    failures: String,
}

impl Stage for CallsAlone {
    fn command(&mut self, command: &Command) -> Result<(), LineError> {
        if !matches!(command.step, Step::Control(_) | Step::Sleep { .. })
            && let Ok(Some(reason)) | Err(reason) = self.calls.carry_out(command)
        {
            let _ = writeln!(self.failures, "{}\t{reason}", command.place.behind_file());
        }
        Ok(())
    }

    fn failed(&mut self, place: &str, reason: &str) -> std::io::Result<()> {
        let _ = writeln!(self.failures, "{place}\t{reason}");
        Ok(())
    }
}

/// Carries a process of a script out, which another one has started.
fn process(options: &Options) -> Result<(), String> {
    let small = |name| usize::try_from(options.number(name)?).map_err(|error| error.to_string());
    let plan = ProcessPlan {
        line: small("line")?,
        column: small("column")?,
        begun_ns: options.number("begun-ns")?,
        passes: options.text("passes")?,
    };
    let (file, mount_point) = (options.text("file")?, options.text("mount-point")?);
    let choices = (options.text("keep-going")? == "yes", options.text("waits")? == "yes");
    play_process(&plan, file.as_ref(), mount_point.as_ref(), choices)
}

/// Writes the tree that is mounted as a manifest.
fn list(options: &Options) -> Result<(), String> {
    let listed = kernel_script::tree::manifest(options.text("mount-point")?.as_ref());
    let text = listed.map_err(|error| error.to_string())?.to_tsv();
    std::fs::write(options.text("file")?, text).map_err(|error| error.to_string())
}

/// The `--name value` pairs of the command line.
struct Options {
    values: BTreeMap<String, String>,
}

impl Options {
    fn parse(words: &[String]) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else {
                return Err(format!("{} has no value\n{USAGE}", pair[0]));
            };
            let name = name
                .strip_prefix("--")
                .ok_or_else(|| format!("{name} is not an option\n{USAGE}"))?;
            values.insert(name.to_owned(), value.clone());
        }
        Ok(Self { values })
    }

    fn text(&self, name: &str) -> Result<&str, String> {
        self.values
            .get(name)
            .map(String::as_str)
            .ok_or_else(|| format!("--{name} is missing\n{USAGE}"))
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        let text = self.text(name)?;
        text.parse().map_err(|_| format!("--{name} {text} is not a whole number"))
    }
}
