//! The words of the command line.

use serve::{CoreOptions, Pace};

/// What `--help` prints.
pub const HELP: &str = "nandlab-ublk --device NAME [OPTIONS]

Offer a simulated device as /dev/ublkbN. Commands on standard input: cut, restore, stats, stop.

  --device NAME        use this device, or the device of this .toml file
  --capacity BYTES     make the device smaller
  --set KEY=VALUE      replace this key of the device; repeat it for more
  --precondition NAME  write this before: none (default), fill, random:PERCENT or steady
  --seed NUMBER        set the seed of the device (1)
  --time PACE          end requests at this pace: real (default) or none";

/// What is served.
pub struct Options {
    /// The device.
    pub core: CoreOptions,
    /// How simulated time passes.
    pub pace: Pace,
}

impl Options {
    /// Reads the words of the command line.
    ///
    /// # Errors
    /// A sentence.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let (mut name, mut capacity, mut changes) = (None, None, Vec::new());
        let (mut precondition, mut seed, mut pace) = ("none".to_owned(), 1, Pace::Real(1));
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word}: its value is missing"))?;
            match word.as_str() {
                "--device" => name = Some(value),
                "--capacity" => capacity = Some(number(word, value)?),
                "--set" => changes.push(value.split_once('=').ok_or_else(|| {
                    format!("--set: {value} must be KEY=VALUE, such as cache.bytes=0")
                })?),
                "--precondition" => precondition.clone_from(value),
                "--seed" => seed = number(word, value)?,
                "--time" => {
                    pace = match value.as_str() {
                        "real" => Pace::Real(1),
                        "none" => Pace::None,
                        _ => return Err(format!("--time: {value} must be real or none")),
                    }
                }
                _ => return Err(format!("{word} is unknown: see --help")),
            }
        }
        let name = name.ok_or("--device is missing: name a device of `nandlab list devices`")?;
        let mut device = device::find_or_load(name).map_err(|error| error.to_string())?;
        for (key, value) in changes {
            device.set(key, value).map_err(|error| error.to_string())?;
        }
        if let Some(bytes) = capacity {
            device.set_capacity(bytes).map_err(|error| error.to_string())?;
        }
        let steps = device::Preconditioning::from_name(&precondition).ok_or_else(|| {
            format!(
                "--precondition: {precondition} is none of none, fill, random:PERCENT and steady"
            )
        })?;
        let precondition = steps.steps(seed);
        let core = CoreOptions { device, precondition, seed, cut_after: None, bytes_in: None };
        Ok(Self { core, pace })
    }
}

fn number(word: &str, value: &str) -> Result<u64, String> {
    value.parse().map_err(|_| format!("{word}: {value} must be a whole number"))
}
