//! How a trace is to be read.

/// How to read a trace.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Name of the format; found from the content if absent.
    pub format: Option<String>,
    /// Unit of the times, for formats whose files do not say (mqsim).
    pub time_unit: Option<TimeUnit>,
    /// Which event of a blktrace is the request.
    pub event: Event,
    /// Count malformed lines of a text format instead of stopping at the first.
    pub skip_bad_lines: bool,
    /// Keep the records of this device only.
    pub device: Option<u32>,
}

/// Unit in which a trace states its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Units of 10^-12 s.
    Picoseconds,
    /// Units of 10^-9 s.
    Nanoseconds,
    /// Units of 10^-6 s.
    Microseconds,
}

impl TimeUnit {
    /// The unit of the name `ps`, `ns` or `us`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "ps" => Some(Self::Picoseconds),
            "ns" => Some(Self::Nanoseconds),
            "us" => Some(Self::Microseconds),
            _ => None,
        }
    }
}

/// The moment in the life of a request that a blktrace record is taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Event {
    /// D: issued to the device, after merging and splitting.
    #[default]
    Issue,
    /// Q: queued by the file system, before merging and splitting.
    Queue,
}

impl Event {
    /// The event of the letter `D` or `Q`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "D" => Some(Self::Issue),
            "Q" => Some(Self::Queue),
            _ => None,
        }
    }
}
