//! ioping on a block device, or on a mounted file system, in simulated time.
//!
//! The tool makes one request after the other and measures each: when its clock is read, what lies between the
//! two readings, when the next request begins, and which requests count differ from version to version.
//! [`PROFILES`] has a row for each version, [`Options`] reads a command line in the words of that version,
//! [`start`] runs a process on a device and [`start_on_mount`] on a file system, and [`Report`] holds what the
//! tool prints.
//!
//! Source: `ioping.c` of the tags v0.4 to v1.3, and the manual.
//!
//! Not modelled: asynchronous I/O (`-A`, `-N`, `-H`) and periodic statistics (`-p`, `-P`), which are refused by
//! name. Calls that advise the kernel and draw numbers take no time. A timer has no slack.

mod mounted;
mod options;
mod process;
mod profile;
mod report;
mod suffix;
mod target;

pub use mounted::FILE_PATH;
pub use options::{Access, OptionError, Options, Target};
pub use process::{start, start_on_mount};
pub use profile::{PROFILES, Pace, Printing, Profile, Version, find_profile};
pub use report::{MediumWork, Place, Report};
pub use target::CallError;
