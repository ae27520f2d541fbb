//! `nandlab-guest`: the file workload that runs inside the virtual machine during a capture.
//!
//! Two verbs: `sizes` prints the sizes of a file set, `run` carries the workload out.

#![expect(clippy::print_stdout, reason = "its results go to standard output")]

use std::collections::BTreeMap;
use std::process::ExitCode;

mod files;
mod random;
mod table;
mod workload;

use files::FileSet;
use workload::Plan;

const USAGE: &str = "usage:
  nandlab-guest sizes --set jpg|mp3 --seed N
  nandlab-guest run --set jpg|mp3 --seed N --operations N --processes N --directory PATH
      --capacity-bytes N --cluster-bytes N --marker PATH --log PATH";

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
        _ => Err(format!("unknown verb {verb}\n{USAGE}")),
    }
}

fn run(options: &Options) -> Result<(), String> {
    let plan = Plan {
        file_set: FileSet::named(options.text("set")?)?,
        seed: options.number("seed")?,
        operations: options.number("operations")?,
        processes: options.number("processes")?,
        directory: options.text("directory")?.into(),
        capacity_bytes: options.number("capacity-bytes")?,
        cluster_bytes: options.number("cluster-bytes")?,
        marker: options.text("marker")?.into(),
        log: options.text("log")?.into(),
    };
    let outcome = workload::run(&plan).map_err(|error| error.to_string())?;
    println!("filled_files={}", outcome.filled_files);
    println!("filled_bytes={}", outcome.filled_bytes);
    println!("copies={}", outcome.copies);
    println!("deletes={}", outcome.deletes);
    println!("copied_bytes={}", outcome.copied_bytes);
    println!("free_bytes_mean={}", outcome.free_bytes_sum / plan.operations.max(1));
    println!("free_bytes_maximum={}", outcome.free_bytes_maximum);
    Ok(())
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
